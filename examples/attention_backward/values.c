/* The table of values, and their gradients by differences. */
#include "values.h"

const struct value values[MATRICES] = {
    [F] = {"F", offsetof(struct numbers, f), TOKENS, PROJECT},
    [WQ] = {"Wq", offsetof(struct numbers, wq), WEIGHT, PROJECT},
    [WK] = {"Wk", offsetof(struct numbers, wk), WEIGHT, PROJECT},
    [WV] = {"Wv", offsetof(struct numbers, wv), WEIGHT, PROJECT},
    [WO] = {"Wo", offsetof(struct numbers, wo), WEIGHT, MERGE},
    [Q] = {"Q", offsetof(struct numbers, q), TOKENS, SCORE},
    [K] = {"K", offsetof(struct numbers, k), TOKENS, SCORE},
    [V] = {"V", offsetof(struct numbers, v), TOKENS, MIX},
    [S] = {"S", offsetof(struct numbers, s), PAIRS, SOFTMAX},
    [A] = {"A", offsetof(struct numbers, a), PAIRS, DROP},
    [P] = {"P", offsetof(struct numbers, p), PAIRS, MIX},
    [O] = {"O", offsetof(struct numbers, o), TOKENS, MERGE},
    [Y] = {"Y", offsetof(struct numbers, y), TOKENS, LOSS},
    [M] = {"M", offsetof(struct numbers, m), PAIRS, DROP},
    [TARGET] = {"target", offsetof(struct numbers, target), TOKENS, LOSS},
};

int rows_of(int which)
{
    return values[which].kind == WEIGHT ? heads * D : T;
}

int columns_of(int which)
{
    return values[which].kind == PAIRS ? T : heads * D;
}

int blocks_of(int which)
{
    return values[which].kind == PAIRS ? heads : 1;
}

int count_of(int which)
{
    return blocks_of(which) * rows_of(which) * columns_of(which);
}

double *element(struct numbers *n, int which, int i)
{
    const int columns = columns_of(which), rows = rows_of(which);
    double *first = (double *)((char *)n + values[which].offset);
    return first + (i / (rows * columns) * SIZE + i / columns % rows) * SIZE + i % columns;
}

bool is_leaf(int which)
{
    return heads > 1 ? which <= WO : which >= Q && which <= V;
}

bool is_used(int which)
{
    return (heads > 1 || (which > WO && which != Y)) && (dropout > 0 || which != P);
}

const double difference_step = 1e-5;

void central_differences(const struct numbers *n, struct numbers *g)
{
    for (int which = 0; which < VALUES; which++)
        for (int i = 0; i < count_of(which); i++) {
            struct numbers up = *n, down = *n;
            *element(&up, which, i) += difference_step;
            *element(&down, which, i) -= difference_step;
            const double rise = forward_from(values[which].reader, &up) - forward_from(values[which].reader, &down);
            *element(g, which, i) = rise / (2 * difference_step);
        }
}
