/* The kinds of lines: how each is decoded and built. */
#ifndef TESTS_FUZZ_GRAPH_KINDS_H
#define TESTS_FUZZ_GRAPH_KINDS_H

#include "program.h"
#include "run.h"

typedef struct kind {
    const char *name;
    int weight; /* how often it is chosen */
    /* Chooses operands and attributes of d->line, and declares its outputs. False: it does not fit here. */
    bool (*decode)(decoder *d, line *l);
    /* Creates the line's module in a run. NULL for lines without a module. */
    th_module *(*make)(run *r, const line *l);
    /* Builds the line in a run: out[l->outputs] from in[l->operands]. Elements of `in` may be NULL. */
    void (*build)(run *r, const line *l, th_tensor **in, th_tensor **out);
} kind;

extern const kind elementwise_kinds[], shape_kinds[], row_kinds[], product_kinds[], attention_kinds[], layer_kinds[];

/* Returns kind `index`, NULL after the last one. */
const kind *kind_at(int index);

#endif
