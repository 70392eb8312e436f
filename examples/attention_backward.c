/* Attention backwards: scaled dot-product attention of three tokens, every number printed, forward and backward.
 *
 * Each gradient appears three times: as the tape computed it, from the formula in plain loops (to be read: from project
 * to backward below), and as a central difference (L(x + h) - L(x - h)) / 2h. The program fails if two of them differ.
 * It trains nothing, and is slow on purpose: docs/attention-backward.md is its output with the derivation around it.
 *
 * T tokens, queries and keys alike; D head size; H heads; E = H D. Indices: t query, s key, h head, d column of a head,
 * i and j columns of E. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tapehead/tapehead.h>

enum { T = 3, D = 2, MAX_HEADS = 2, SIZE = D * MAX_HEADS };
typedef double matrix[SIZE][SIZE]; /* as much of it as its shape says */

/* Every number between the input and the loss. Gradients have the shapes of their values: they are another of these. */
struct numbers {
    matrix x, wq, wk, wv, wo;  /* x (T, E), weights (E, E): only with two heads, else q, k and v are the input */
    matrix q, k, v;            /* (T, E), head h in the columns from h D */
    matrix s[MAX_HEADS];       /* (T, T) scores */
    matrix a[MAX_HEADS];       /* (T, T) weights */
    matrix m[MAX_HEADS];       /* (T, T) dropout's factors: 0 or 1 / (1 - p), a constant */
    matrix dropped[MAX_HEADS]; /* (T, T) a * m, written Ã */
    matrix o, y;               /* (T, E), y after the output projection */
    matrix target;             /* (T, E), a constant */
};

static const struct numbers input = {
    .x = {{1, 0, -1, 0.5}, {0.5, 1, 0, -1}, {-0.5, 1, 1, 0}},
    .wq = {{1, 0, 0.5, 0}, {0, 1, 0, -0.5}, {0.5, 0, -1, 0}, {0, 0.5, 0, 1}},
    .wk = {{0.5, 1, 0, 0}, {-1, 1, 0, 0}, {0, 0, 1, 0.5}, {0, 0.5, -0.5, 1}},
    .wv = {{1, 0, 0, 1}, {0, 1, 1, 0}, {0, -1, 1, 0}, {1, 0, 0, -1}},
    .wo = {{1, 0.5, 0, 0}, {0, 1, 0.5, 0}, {0, 0, 1, 0.5}, {0.5, 0, 0, 1}},
    .q = {{1, 0}, {0, 2}, {1, 1}},
    .k = {{1, 0.5}, {-1, 1.5}, {0.5, -1}},
    .v = {{1, 2}, {3, -1}, {-2, 0.5}},
    .target = {{0, 1, 0.5, 0}, {1, 0, -0.5, 1}, {0.5, 0.5, 0, -1}},
};

static int heads = 1;
static bool causal;
static double dropout;

/* The stages of the forward, and the first that reads each value: where to start again when that value is changed. */
enum stage { PROJECT, SCORE, SOFTMAX, DROP, MIX, MERGE, LOSS };
enum kind { TOKENS, WEIGHT, PAIRS }; /* (T, E), (E, E), (H, T, T) */
enum { X, WQ, WK, WV, WO, Q, K, V, S, A, DROPPED, O, Y, VALUES, M = VALUES, TARGET, MATRICES };
static const struct value {
    const char *name;
    size_t offset;
    enum kind kind;
    enum stage reader;
} values[MATRICES] = {
    [X] = {"X", offsetof(struct numbers, x), TOKENS, PROJECT},
    [WQ] = {"Wq", offsetof(struct numbers, wq), WEIGHT, PROJECT},
    [WK] = {"Wk", offsetof(struct numbers, wk), WEIGHT, PROJECT},
    [WV] = {"Wv", offsetof(struct numbers, wv), WEIGHT, PROJECT},
    [WO] = {"Wo", offsetof(struct numbers, wo), WEIGHT, MERGE},
    [Q] = {"Q", offsetof(struct numbers, q), TOKENS, SCORE},
    [K] = {"K", offsetof(struct numbers, k), TOKENS, SCORE},
    [V] = {"V", offsetof(struct numbers, v), TOKENS, MIX},
    [S] = {"S", offsetof(struct numbers, s), PAIRS, SOFTMAX},
    [A] = {"A", offsetof(struct numbers, a), PAIRS, DROP},
    [DROPPED] = {"Ã", offsetof(struct numbers, dropped), PAIRS, MIX},
    [O] = {"O", offsetof(struct numbers, o), TOKENS, MERGE},
    [Y] = {"Y", offsetof(struct numbers, y), TOKENS, LOSS},
    [M] = {"M", offsetof(struct numbers, m), PAIRS, DROP},
    [TARGET] = {"target", offsetof(struct numbers, target), TOKENS, LOSS},
};

static int rows_of(int which)
{
    return values[which].kind == WEIGHT ? heads * D : T;
}

static int columns_of(int which)
{
    return values[which].kind == PAIRS ? T : heads * D;
}

static int blocks_of(int which)
{
    return values[which].kind == PAIRS ? heads : 1;
}

static int count_of(int which)
{
    return blocks_of(which) * rows_of(which) * columns_of(which);
}

/* Element i of a value in row-major order of its shape, i < count_of(which). */
static double *element(struct numbers *n, int which, int i)
{
    const int columns = columns_of(which), rows = rows_of(which);
    double *first = (double *)((char *)n + values[which].offset);
    return first + (i / (rows * columns) * SIZE + i / columns % rows) * SIZE + i % columns;
}

static bool hidden(int t, int s) /* the causal mask: a query sees no later key */
{
    return causal && s > t;
}

/* -- forward, in plain loops -- */

static void project(struct numbers *n) /* Q = X Wqᵀ, K = X Wkᵀ, V = X Wvᵀ */
{
    for (int t = 0; t < T; t++)
        for (int i = 0; i < heads * D; i++) {
            double q = 0, k = 0, v = 0;
            for (int j = 0; j < heads * D; j++) {
                q += n->x[t][j] * n->wq[i][j];
                k += n->x[t][j] * n->wk[i][j];
                v += n->x[t][j] * n->wv[i][j];
            }
            n->q[t][i] = q;
            n->k[t][i] = k;
            n->v[t][i] = v;
        }
}

static void score(struct numbers *n, int h) /* S = Q Kᵀ / sqrt(D); a hidden pair is not computed */
{
    for (int t = 0; t < T; t++)
        for (int s = 0; s < T; s++) {
            double sum = 0;
            for (int d = 0; d < D && !hidden(t, s); d++)
                sum += n->q[t][h * D + d] * n->k[s][h * D + d];
            n->s[h][t][s] = sum / sqrt(D);
        }
}

static void softmax(struct numbers *n, int h) /* A = exp(S) / row sum of exp(S), over the keys that are not hidden */
{
    for (int t = 0; t < T; t++) {
        double sum = 0;
        for (int s = 0; s < T; s++)
            sum += hidden(t, s) ? 0 : exp(n->s[h][t][s]);
        for (int s = 0; s < T; s++)
            n->a[h][t][s] = hidden(t, s) ? 0 : exp(n->s[h][t][s]) / sum;
    }
}

static void drop(struct numbers *n, int h) /* Ã = A ∘ M, element by element */
{
    for (int t = 0; t < T; t++)
        for (int s = 0; s < T; s++)
            n->dropped[h][t][s] = n->a[h][t][s] * n->m[h][t][s];
}

static void mix(struct numbers *n, int h) /* O = Ã V; a hidden pair is skipped */
{
    for (int t = 0; t < T; t++)
        for (int d = 0; d < D; d++) {
            double sum = 0;
            for (int s = 0; s < T; s++)
                sum += hidden(t, s) ? 0 : n->dropped[h][t][s] * n->v[s][h * D + d];
            n->o[t][h * D + d] = sum;
        }
}

static void merge(struct numbers *n) /* Y = O Woᵀ, O with the heads beside each other; without projections O itself */
{
    for (int t = 0; t < T; t++)
        for (int i = 0; i < heads * D; i++) {
            double sum = 0;
            for (int j = 0; j < heads * D; j++)
                sum += n->o[t][j] * n->wo[i][j];
            n->y[t][i] = heads > 1 ? sum : n->o[t][i];
        }
}

static double loss_of(const struct numbers *n) /* L = 1/2 sum (Y - target)² */
{
    double sum = 0;
    for (int t = 0; t < T; t++)
        for (int i = 0; i < heads * D; i++)
            sum += 0.5 * (n->y[t][i] - n->target[t][i]) * (n->y[t][i] - n->target[t][i]);
    return sum;
}

/* The loss, everything from this stage on computed again. */
static double forward_from(enum stage first, struct numbers *n)
{
    if (first <= PROJECT && heads > 1)
        project(n);
    for (int h = 0; h < heads; h++) {
        if (first <= SCORE)
            score(n, h);
        if (first <= SOFTMAX)
            softmax(n, h);
        if (first <= DROP)
            drop(n, h);
        if (first <= MIX)
            mix(n, h);
    }
    if (first <= MERGE)
        merge(n);
    return loss_of(n);
}

/* -- backward, in plain loops: n holds the values, g receives the gradients. Read it from `backward` up. -- */

static void project_backward(const struct numbers *n, struct numbers *g)
{
    for (int t = 0; t < T; t++)
        for (int i = 0; i < heads * D; i++)
            for (int j = 0; j < heads * D; j++) {
                g->wq[i][j] += g->q[t][i] * n->x[t][j];
                g->wk[i][j] += g->k[t][i] * n->x[t][j];
                g->wv[i][j] += g->v[t][i] * n->x[t][j];
                g->x[t][j] += g->q[t][i] * n->wq[i][j] + g->k[t][i] * n->wk[i][j] + g->v[t][i] * n->wv[i][j];
            }
}

static void score_backward(const struct numbers *n, struct numbers *g,
                           int h) /* dQ = dS K / sqrt(D), dK = dSᵀ Q / sqrt(D) */
{
    for (int t = 0; t < T; t++)
        for (int s = 0; s < T; s++)
            for (int d = 0; d < D; d++) {
                g->q[t][h * D + d] += g->s[h][t][s] * n->k[s][h * D + d] / sqrt(D);
                g->k[s][h * D + d] += g->s[h][t][s] * n->q[t][h * D + d] / sqrt(D);
            }
}

static void softmax_backward(const struct numbers *n, struct numbers *g, int h) /* dS = A ∘ (dA - rowsum(A ∘ dA)) */
{
    for (int t = 0; t < T; t++) {
        double rowsum = 0;
        for (int s = 0; s < T; s++)
            rowsum += n->a[h][t][s] * g->a[h][t][s];
        for (int s = 0; s < T; s++)
            g->s[h][t][s] = n->a[h][t][s] * (g->a[h][t][s] - rowsum);
    }
}

static void drop_backward(const struct numbers *n, struct numbers *g, int h) /* dA = dÃ ∘ M */
{
    for (int t = 0; t < T; t++)
        for (int s = 0; s < T; s++)
            g->a[h][t][s] = g->dropped[h][t][s] * n->m[h][t][s];
}

static void mix_backward(const struct numbers *n, struct numbers *g,
                         int h) /* dV = Ãᵀ dO, dÃ = dO Vᵀ; hidden pairs stay 0 */
{
    for (int t = 0; t < T; t++)
        for (int s = 0; s < T; s++)
            for (int d = 0; d < D && !hidden(t, s); d++) {
                g->v[s][h * D + d] += n->dropped[h][t][s] * g->o[t][h * D + d];
                g->dropped[h][t][s] += g->o[t][h * D + d] * n->v[s][h * D + d];
            }
}

static void merge_backward(const struct numbers *n,
                           struct numbers *g) /* dWo = dYᵀ O, dO = dY Wo; without projections dO = dY */
{
    for (int t = 0; t < T; t++)
        for (int i = 0; i < heads * D; i++)
            for (int j = 0; j < heads * D; j++) {
                g->wo[i][j] += g->y[t][i] * n->o[t][j];
                g->o[t][j] += g->y[t][i] * (heads > 1 ? n->wo[i][j] : i == j);
            }
}

static void backward(const struct numbers *n, struct numbers *g)
{
    for (int t = 0; t < T; t++)
        for (int i = 0; i < heads * D; i++)
            g->y[t][i] = n->y[t][i] - n->target[t][i]; /* dY = Y - target */
    merge_backward(n, g);
    for (int h = 0; h < heads; h++) {
        mix_backward(n, g, h);
        drop_backward(n, g, h);
        softmax_backward(n, g, h);
        score_backward(n, g, h);
    }
    if (heads > 1)
        project_backward(n, g);
}

/* -- the same by central differences: every number nudged up and down, what follows computed again -- */

static const double nudge = 1e-5;

static void differences(const struct numbers *n, struct numbers *g)
{
    for (int which = 0; which < VALUES; which++)
        for (int i = 0; i < count_of(which); i++) {
            struct numbers up = *n, down = *n;
            *element(&up, which, i) += nudge;
            *element(&down, which, i) -= nudge;
            const double rise = forward_from(values[which].reader, &up) - forward_from(values[which].reader, &down);
            *element(g, which, i) = rise / (2 * nudge);
        }
}

/* -- the same on the tape, in composed operations so that S, A and Ã can be read -- */

static bool is_leaf(int which)
{
    return heads > 1 ? which <= WO : which >= Q && which <= V;
}

/* Is it part of this computation? */
static bool is_used(int which)
{
    return (heads > 1 || (which > WO && which != Y)) && (dropout > 0 || which != DROPPED);
}

static th_tensor *constant(th_context *ctx, struct numbers *n, int which)
{
    double packed[SIZE * SIZE];
    for (int i = 0; i < count_of(which); i++)
        packed[i] = *element(n, which, i);
    return th_from_data(ctx, TH_FLOAT64, TH_SHAPE(rows_of(which), columns_of(which)), packed);
}

/* (T, E) -> (H, T, D): a view, no number moves */
static th_tensor *split_heads(th_tensor *x)
{
    return th_transpose(th_reshape(x, TH_SHAPE(T, heads, D)), TH_AXES(1, 0, 2));
}

/* Records the computation; tape[VALUES] receives its values. Returns the loss. */
static th_tensor *record(th_context *ctx, struct numbers *n, th_tensor **tape)
{
    const th_mask mask = {.causal = causal ? TH_CAUSAL_TOP_LEFT : TH_CAUSAL_NONE};
    th_tensor *keep = th_mask_keep(ctx, &mask, TH_SHAPE(heads, T, T)); /* NULL: nothing is hidden */
    for (int which = 0; which < VALUES; which++)
        tape[which] = is_leaf(which) ? th_set_requires_gradient(constant(ctx, n, which), true) : NULL;
    if (heads > 1) {
        tape[Q] = th_dense(tape[X], tape[WQ], NULL);
        tape[K] = th_dense(tape[X], tape[WK], NULL);
        tape[V] = th_dense(tape[X], tape[WV], NULL);
    }
    th_tensor *q = split_heads(tape[Q]), *k = split_heads(tape[K]), *v = split_heads(tape[V]);
    k = th_swap_axes(k, -1, -2); /* (H, D, T) */
    tape[S] = th_scale(keep ? th_masked_matmul(q, k, keep, TH_MASK_RESULT) : th_matmul(q, k), 1 / sqrt(D));
    tape[A] = th_masked_softmax(tape[S], &mask);
    tape[DROPPED] = th_dropout(tape[A], dropout);
    th_tensor *a = tape[DROPPED], *o = keep ? th_masked_matmul(a, v, keep, TH_MASK_LEFT) : th_matmul(a, v);
    tape[O] = th_reshape(th_transpose(o, TH_AXES(1, 0, 2)), TH_SHAPE(T, heads * D)); /* the heads merged */
    tape[Y] = heads > 1 ? th_dense(tape[O], tape[WO], NULL) : tape[O];
    th_tensor *error = th_sub(tape[Y], constant(ctx, n, TARGET));
    for (int which = 0; which < VALUES; which++)
        if (tape[which] && !is_leaf(which))
            th_keep_gradient(tape[which]);
    return th_scale(th_sum(th_mul(error, error), TH_ALL_AXES, NULL), 0.5);
}

/* Copies a tensor of the tape into its place among the numbers. */
static th_status read_tensor(th_tensor *t, struct numbers *n, int which)
{
    double packed[MAX_HEADS * SIZE * SIZE];
    const th_status status = th_copy_out(t, packed, (size_t)count_of(which) * sizeof *packed);
    for (int i = 0; i < count_of(which) && !status; i++)
        *element(n, which, i) = packed[i];
    return status;
}

/* The Jacobian da_i / ds_j of the softmax in head 0's last row: its row i is what comes back for the cotangent e_i. */
static th_status jacobian_on_tape(th_context *ctx, th_tensor *s, th_tensor *a, matrix jacobian)
{
    for (int i = 0; i < T; i++) {
        th_tensor *e = th_zeros(ctx, TH_FLOAT64, TH_SHAPE(heads, T, T)), *row = NULL;
        const th_backward_options options = {
            .cotangent = e, .keep_tape = true, .wrt = &s, .n_wrt = 1, .gradients = &row};
        if (th_set(e, TH_INDEX(0, T - 1, i), 1) || th_backward_with(a, &options))
            return th_error_code(ctx);
        for (int j = 0; j < T; j++)
            jacobian[i][j] = th_get(row, TH_INDEX(0, T - 1, j));
    }
    return TH_OK;
}

/* -- printing and comparing -- */

enum { TAPE, LOOPS, DIFFERENCE, WAYS };
static int compared, wrong;

/* All three must agree; NaN never does. */
static void compare(const char *name, double tape, double loops, double difference)
{
    compared++;
    if (fabs(tape - loops) <= 1e-12 && fabs(tape - difference) <= 1e-7)
        return;
    wrong++;
    printf("  WRONG: %s: tape %.15g, plain loops %.15g, central difference %.15g\n", name, tape, loops, difference);
}

static void pad(const char *text, int width)
{
    for (; *text; text++) {
        putchar(*text);
        width -= (*text & 0xC0) != 0x80; /* the bytes that continue a UTF-8 character take no room */
    }
    printf("%*s", width > 0 ? width : 0, "");
}

/* Matrices (rows, columns) beside each other, a bar between the heads. Exactly 0 prints as 0; 0.0000 is only small. */
static void print_beside(int count, const char *const *title, const double *const *at, int rows, int columns)
{
    const bool bar = heads > 1 && columns == heads * D && rows == T;
    const int digits = heads > 1 ? 3 : 4, width = 4 + digits;
    const double small = 0.5 * pow(10, -digits);
    printf(" ");
    for (int i = 0; i < count; i++) {
        printf(" ");
        pad(title[i], i + 1 < count ? width * columns + 2 * bar + 4 : 0);
    }
    for (int row = 0; row < rows; row++) {
        printf("\n ");
        for (int i = 0; i < count; i++) {
            printf("%s[", i ? "  " : " ");
            for (int column = 0; column < columns; column++) {
                const double x = at[i][row * SIZE + column];
                printf("%s%*.*f", bar && column == D ? " |" : "", width, x == 0 ? 0 : digits, fabs(x) < small ? 0 : x);
            }
            printf(" ]");
        }
    }
    printf("\n");
}

/* "  head 1" before the matrices of one head, when there are more. */
static void announce(int which, int block)
{
    if (blocks_of(which) > 1)
        printf("  head %d\n", block);
}

/* Values of one shape beside each other, for each head. */
static void show_values(const char *title, struct numbers *n, int count, const int *which)
{
    const int rows = rows_of(which[0]), columns = columns_of(which[0]);
    const char *names[4];
    const double *at[4];
    printf("%s\n", title);
    for (int block = 0; block < blocks_of(which[0]); block++) {
        for (int i = 0; i < count; i++) {
            names[i] = values[which[i]].name;
            at[i] = element(n, which[i], block * rows * columns);
        }
        announce(which[0], block);
        print_beside(count, names, at, rows, columns);
    }
    printf("\n");
}

static void show_ways(const char *name, const double *const *at, int rows, int columns)
{
    print_beside(WAYS, (const char *const[]){"tape", "plain loops", "central difference"}, at, rows, columns);
    for (int i = 0; i < rows * columns; i++) {
        const int j = i / columns * SIZE + i % columns;
        compare(name, at[TAPE][j], at[LOOPS][j], at[DIFFERENCE][j]);
    }
}

/* One gradient, under its formula, as the tape, the loops and the differences have it. */
static void show(const char *formula, struct numbers *gradient, int which)
{
    const int rows = rows_of(which), columns = columns_of(which);
    const double *at[WAYS];
    printf("%s\n", formula);
    for (int block = 0; block < blocks_of(which); block++) {
        for (int way = 0; way < WAYS; way++)
            at[way] = element(&gradient[way], which, block * rows * columns);
        announce(which, block);
        show_ways(values[which].name, at, rows, columns);
    }
    printf("\n");
}

/* The softmax of one row: its Jacobian in three ways, and what it makes of the row of dA. */
static void show_jacobian(struct numbers *n, struct numbers *gradient, matrix on_tape)
{
    const double *a = n->a[0][T - 1];
    matrix formula, difference, row = {{0}};
    for (int i = 0; i < T; i++)
        for (int j = 0; j < T; j++) {
            struct numbers up = *n, down = *n;
            up.s[0][T - 1][j] += nudge;
            down.s[0][T - 1][j] -= nudge;
            softmax(&up, 0);
            softmax(&down, 0);
            formula[i][j] = a[i] * ((i == j) - a[j]);
            difference[i][j] = (up.a[0][T - 1][i] - down.a[0][T - 1][i]) / (2 * nudge);
            row[0][j] += gradient[TAPE].a[0][T - 1][i] * formula[i][j];
        }
    printf("J = diag(a) - a aᵀ, the Jacobian da_i / ds_j of the last row of A%s\n", heads > 1 ? ", head 0" : "");
    show_ways("J", (const double *[]){on_tape[0], formula[0], difference[0]}, T, T);
    printf("J times the last row of dA is the last row of dS\n");
    show_ways("J dA", (const double *[]){gradient[TAPE].s[0][T - 1], row[0], gradient[DIFFERENCE].s[0][T - 1]}, 1, T);
    printf("\n");
}

static void show_forward(struct numbers *n, double loss)
{
    printf("FORWARD\n\n");
    if (heads > 1) {
        show_values("the input, and what should come out", n, 2, (const int[]){X, TARGET});
        show_values("two of the projections", n, 2, (const int[]){WQ, WK});
        show_values("and the others", n, 2, (const int[]){WV, WO});
        show_values("Q = X Wqᵀ, K = X Wkᵀ, V = X Wvᵀ; head 0 | head 1", n, 3, (const int[]){Q, K, V});
    } else {
        show_values("queries, keys and values, a token in each row", n, 3, (const int[]){Q, K, V});
    }
    show_values("S = Q Kᵀ / sqrt(2), A = softmax of each row of S", n, 2, (const int[]){S, A});
    if (dropout > 0)
        show_values("M = 1 / (1 - p), or 0 where dropped or masked; Ã = A ∘ M", n, 2, (const int[]){M, DROPPED});
    const char *mix_title = dropout > 0 ? "O = Ã V" : "O = A V";
    if (heads > 1) {
        show_values(mix_title, n, 1, (const int[]){O});
        show_values("Y = O Woᵀ, and what it should be", n, 2, (const int[]){Y, TARGET});
    } else {
        show_values(mix_title, n, 2, (const int[]){O, TARGET});
    }
    printf("L = 1/2 sum (%s - target)² = %.6f\n\n", heads > 1 ? "Y" : "O", loss);
}

static void show_backward(struct numbers *n, struct numbers *gradient, matrix jacobian)
{
    printf("BACKWARD\n\n");
    if (heads > 1) {
        show("dY = Y - target", gradient, Y);
        show("dWo = dYᵀ O", gradient, WO);
    }
    show(heads > 1 ? "dO = dY Wo" : "dO = O - target", gradient, O);
    show(dropout > 0 ? "dV = Ãᵀ dO" : "dV = Aᵀ dO", gradient, V);
    if (dropout > 0)
        show("dÃ = dO Vᵀ", gradient, DROPPED);
    show(dropout > 0 ? "dA = dÃ ∘ M" : "dA = dO Vᵀ", gradient, A);
    show("dS = A ∘ (dA - rowsum(A ∘ dA))", gradient, S);
    show_jacobian(n, gradient, jacobian);
    show("dQ = dS K / sqrt(2)", gradient, Q);
    show("dK = dSᵀ Q / sqrt(2)", gradient, K);
    if (heads > 1) {
        show("dWq = dQᵀ X", gradient, WQ);
        show("dWk = dKᵀ X", gradient, WK);
        show("dWv = dVᵀ X", gradient, WV);
        show("dX = dQ Wq + dK Wk + dV Wv", gradient, X);
    }
}

/* -- the program -- */

static void refuse(const char *problem, const char *what)
{
    fprintf(stderr, "attention_backward: %s%s (--help lists the options)\n", problem, what);
    exit(2);
}

static void parse(int argc, char **argv)
{
    static const struct option list[] = {{"causal", no_argument, NULL, 'c'},
                                         {"dropout", required_argument, NULL, 'd'},
                                         {"heads", required_argument, NULL, 'h'},
                                         {"help", no_argument, NULL, 'u'},
                                         {0}};
    char *end;
    for (int option; (option = getopt_long(argc, argv, "", list, NULL)) != -1;) {
        if (option == '?')
            exit(2); /* getopt_long has said why */
        if (option == 'c')
            causal = true;
        if (option == 'd') {
            dropout = strtod(optarg, &end);
            if (end == optarg || *end || !(dropout >= 0 && dropout < 1))
                refuse("--dropout takes a probability from 0 up to but without 1, not ", optarg);
        }
        if (option == 'h') {
            if (strcmp(optarg, "1") && strcmp(optarg, "2"))
                refuse("--heads takes 1 or 2, not ", optarg);
            heads = optarg[0] - '0';
        }
        if (option == 'u') {
            printf("attention_backward: the gradients of attention, three times over, on three tokens\n"
                   "  --causal       a query sees no later key\n"
                   "  --dropout P    weights are dropped with probability P (0 to below 1, default 0)\n"
                   "  --heads N      1, or 2 with the projections around them (default 1)\n");
            exit(EXIT_SUCCESS);
        }
    }
    if (optind < argc)
        refuse("there are no arguments besides options: ", argv[optind]);
}

/* Values and gradients as the tape has them, the dropout factors that it drew, and the Jacobian of one softmax row. */
static th_status run_tape(th_context *ctx, struct numbers *n, struct numbers *gradient, matrix jacobian, double *loss)
{
    th_tensor *tape[VALUES], *l = record(ctx, n, tape);
    if (jacobian_on_tape(ctx, tape[S], tape[A], jacobian) || th_backward(l))
        return th_error_code(ctx);
    for (int which = 0; which < VALUES; which++)
        if (is_used(which) &&
            (read_tensor(tape[which], n, which) || read_tensor(th_gradient(tape[which]), gradient, which)))
            return th_error_code(ctx);
    for (int h = 0; h < heads; h++)
        for (int t = 0; t < T; t++)
            for (int s = 0; s < T; s++)
                n->m[h][t][s] = dropout == 0 ? 1 : n->dropped[h][t][s] != 0 ? 1 / (1 - dropout) : 0;
    *loss = th_item(l);
    return TH_OK;
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    th_context *ctx = th_context_new(&(th_context_options){.seed = 1});
    struct numbers on_tape = input, gradient[WAYS] = {0};
    matrix jacobian = {{0}};
    double loss = 0;
    th_keep_values(ctx, true);
    if (run_tape(ctx, &on_tape, &gradient[TAPE], jacobian, &loss)) {
        fprintf(stderr, "attention_backward: %s\n", th_error_message(ctx));
        th_context_free(ctx);
        return EXIT_FAILURE;
    }
    th_context_free(ctx);

    struct numbers n = on_tape; /* and the same in plain loops */
    const double same_loss = forward_from(PROJECT, &n);
    backward(&n, &gradient[LOOPS]);
    differences(&n, &gradient[DIFFERENCE]);

    printf("%d tokens, %d head%s of size %d", T, heads, heads > 1 ? "s" : "", D);
    if (causal)
        printf(", causal mask");
    if (dropout > 0)
        printf(", dropout %g", dropout);
    printf("\n\n");
    show_forward(&on_tape, loss);
    show_backward(&n, gradient, jacobian);
    compare("L", loss, same_loss, same_loss);
    for (int which = 0; which < VALUES; which++)
        for (int i = 0; is_used(which) && i < count_of(which); i++)
            compare(values[which].name, *element(&on_tape, which, i), *element(&n, which, i), *element(&n, which, i));
    printf("%d numbers compared, %d wrong (tape and loops may differ by 1e-12, central differences by 1e-7)\n",
           compared, wrong);
    return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
