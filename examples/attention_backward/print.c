/* Prints matrices next to each other, and every gradient computed in three ways: see print.h. */
#include "print.h"

#include <math.h>
#include <stdio.h>

int compared, wrong;

void compare(const char *name, int row, int column, double tape, double loops, double difference)
{
    compared++;
    if (fabs(tape - loops) <= 1e-12 && fabs(tape - difference) <= 1e-7)
        return;
    wrong++;
    printf("  WRONG: %s[%d,%d]: tape %.15g, plain loops %.15g, central difference %.15g\n", name, row, column, tape,
           loops, difference);
}

static void print_padded(const char *text, int width)
{
    for (; *text; text++) {
        putchar(*text);
        width -= (*text & 0xC0) != 0x80; /* continuation bytes of UTF-8 have no width */
    }
    printf("%*s", width > 0 ? width : 0, "");
}

/* Prints matrices (rows, columns) next to each other, with a bar between the heads. An exact 0 is printed as 0, a small
 * number as 0.0000. */
static void print_beside(int count, const char *const *title, const double *const *matrices, int rows, int columns)
{
    const bool bar = heads > 1 && columns == heads * D && rows == T;
    const int digits = heads > 1 ? 3 : 4, width = 4 + digits;
    const double small = 0.5 * pow(10, -digits);
    printf(" ");
    for (int i = 0; i < count; i++) {
        printf(" ");
        print_padded(title[i], i + 1 < count ? width * columns + 2 * bar + 4 : 0);
    }
    for (int row = 0; row < rows; row++) {
        printf("\n ");
        for (int i = 0; i < count; i++) {
            printf("%s[", i ? "  " : " ");
            for (int column = 0; column < columns; column++) {
                const double x = matrices[i][row * SIZE + column];
                printf("%s%*.*f", bar && column == D ? " |" : "", width, x == 0 ? 0 : digits, fabs(x) < small ? 0 : x);
            }
            printf(" ]");
        }
    }
    printf("\n");
}

/* Prints "  head 1" before the matrices of one head, if there are several heads. */
static void print_head_title(int which, int block)
{
    if (blocks_of(which) > 1)
        printf("  head %d\n", block);
}

void name_matrix(char *name, size_t size, const char *prefix, int which, int block)
{
    if (blocks_of(which) > 1)
        snprintf(name, size, "%s%s of head %d", prefix, values[which].name, block);
    else
        snprintf(name, size, "%s%s", prefix, values[which].name);
}

/* Prints values of the same shape next to each other, for each head. */
static void show_values(const char *title, struct numbers *n, int count, const int *which)
{
    const int rows = rows_of(which[0]), columns = columns_of(which[0]);
    const char *names[4];
    const double *matrices[4];
    printf("%s\n", title);
    for (int block = 0; block < blocks_of(which[0]); block++) {
        for (int i = 0; i < count; i++) {
            names[i] = values[which[i]].name;
            matrices[i] = element(n, which[i], block * rows * columns);
        }
        print_head_title(which[0], block);
        print_beside(count, names, matrices, rows, columns);
    }
    printf("\n");
}

static void show_ways(const char *name, const double *const *matrices, int rows, int columns)
{
    print_beside(WAYS, (const char *const[]){"tape", "plain loops", "central difference"}, matrices, rows, columns);
    for (int i = 0; i < rows * columns; i++) {
        const int j = i / columns * SIZE + i % columns;
        compare(name, i / columns, i % columns, matrices[TAPE][j], matrices[LOOPS][j], matrices[DIFFERENCE][j]);
    }
}

/* Prints one gradient below its formula, as computed by the tape, the loops and the differences. */
static void show_gradient(const char *formula, struct numbers *gradient, int which)
{
    const int rows = rows_of(which), columns = columns_of(which);
    const double *matrices[WAYS];
    char name[32];
    printf("%s\n", formula);
    for (int block = 0; block < blocks_of(which); block++) {
        for (int way = 0; way < WAYS; way++)
            matrices[way] = element(&gradient[way], which, block * rows * columns);
        print_head_title(which, block);
        name_matrix(name, sizeof name, "d", which, block);
        show_ways(name, matrices, rows, columns);
    }
    printf("\n");
}

/* Prints the softmax of one row: its Jacobian in three ways, and the product with the row of dA. */
static void show_jacobian(struct numbers *n, struct numbers *gradient, matrix on_tape)
{
    const double *a = n->a[0][T - 1];
    matrix formula, difference, row = {{0}};
    for (int i = 0; i < T; i++)
        for (int j = 0; j < T; j++) {
            struct numbers up = *n, down = *n;
            up.s[0][T - 1][j] += difference_step;
            down.s[0][T - 1][j] -= difference_step;
            softmax(&up, 0);
            softmax(&down, 0);
            formula[i][j] = a[i] * ((i == j) - a[j]);
            difference[i][j] = (up.a[0][T - 1][i] - down.a[0][T - 1][i]) / (2 * difference_step);
            row[0][j] += gradient[TAPE].a[0][T - 1][i] * formula[i][j];
        }
    printf("J = diag(a) - a aᵀ, the Jacobian da_i / ds_j of the last row of A%s\n", heads > 1 ? ", head 0" : "");
    show_ways("J", (const double *[]){on_tape[0], formula[0], difference[0]}, T, T);
    printf("J times the last row of dA is the last row of dS\n");
    show_ways("J dA", (const double *[]){gradient[TAPE].s[0][T - 1], row[0], gradient[DIFFERENCE].s[0][T - 1]}, 1, T);
    printf("\n");
}

void show_forward(struct numbers *n, double loss)
{
    printf("FORWARD\n\n");
    if (heads > 1) {
        show_values("the input, and what should come out", n, 2, (const int[]){F, TARGET});
        show_values("two of the projections", n, 2, (const int[]){WQ, WK});
        show_values("and the others", n, 2, (const int[]){WV, WO});
        show_values("Q = F Wqᵀ, K = F Wkᵀ, V = F Wvᵀ; head 0 | head 1", n, 3, (const int[]){Q, K, V});
    } else {
        show_values("queries, keys and values, a token in each row", n, 3, (const int[]){Q, K, V});
    }
    show_values("S = Q Kᵀ / sqrt(2), A = softmax of each row of S", n, 2, (const int[]){S, A});
    if (dropout > 0)
        show_values("M = 1 / (1 - p), or 0 where dropped or masked; P = A ∘ M", n, 2, (const int[]){M, P});
    const char *mix_title = dropout > 0 ? "O = P V" : "O = A V";
    if (heads > 1) {
        show_values(mix_title, n, 1, (const int[]){O});
        show_values("Y = O Woᵀ, and what it should be", n, 2, (const int[]){Y, TARGET});
    } else {
        show_values(mix_title, n, 2, (const int[]){O, TARGET});
    }
    printf("L = 1/2 sum (%s - target)² = %.6f\n\n", heads > 1 ? "Y" : "O", loss);
}

void show_backward(struct numbers *n, struct numbers *gradient, matrix jacobian)
{
    printf("BACKWARD\n\n");
    if (heads > 1) {
        show_gradient("dY = Y - target", gradient, Y);
        show_gradient("dWo = dYᵀ O", gradient, WO);
    }
    show_gradient(heads > 1 ? "dO = dY Wo" : "dO = O - target", gradient, O);
    show_gradient(dropout > 0 ? "dV = Pᵀ dO" : "dV = Aᵀ dO", gradient, V);
    if (dropout > 0)
        show_gradient("dP = dO Vᵀ", gradient, P);
    show_gradient(dropout > 0 ? "dA = dP ∘ M" : "dA = dO Vᵀ", gradient, A);
    show_gradient("dS = A ∘ (dA - rowsum(A ∘ dA))", gradient, S);
    show_jacobian(n, gradient, jacobian);
    show_gradient("dQ = dS K / sqrt(2)", gradient, Q);
    show_gradient("dK = dSᵀ Q / sqrt(2)", gradient, K);
    if (heads > 1) {
        show_gradient("dWq = dQᵀ F", gradient, WQ);
        show_gradient("dWk = dKᵀ F", gradient, WK);
        show_gradient("dWv = dVᵀ F", gradient, WV);
        show_gradient("dF = dQ Wq + dK Wk + dV Wv", gradient, F);
    }
}
