/* What the drivers of attention know about a problem: facts that follow from a th_attention and the machine, and the
 * heads. */
#ifndef TH_KERNELS_ATTENTION_ATTENTION_PROBLEM_H
#define TH_KERNELS_ATTENTION_ATTENTION_PROBLEM_H

#include "kernels/attention/attention.h"
#include "kernels/kernels.h"
#include "kernels/product_block.h"
#include "kernels/sizes.h"

enum {
    MAX_QUERIES = 64, /* of a tile */
    LANES = 16        /* TH_LANES of the vector kernels: rows of buffers have a multiple of this many elements */
};

typedef struct attention_problem {
    const th_attention *a;
    const th_kernels *kernels;
    th_product_kernels multiply;
    bool has_parts;      /* products multiply bfloat16 parts */
    int64_t size;        /* bytes of an element */
    int64_t query_block; /* queries of a tile */
    int64_t sum_keys;    /* sums over keys are divided at multiples of this, so that values stay in the L1 cache */
    int64_t key_step;    /* the columns of a tile begin at a multiple of this */
    int64_t heads;       /* N */
} attention_problem;

/* One index over the leading dimensions N: one head of one example. */
typedef struct attention_head {
    int dims;
    int64_t number, index[TH_ATTENTION_DIMS];
} attention_head;

attention_problem th_attention_problem(const th_machine *machine, th_dtype dtype, const th_attention *a);
attention_head th_attention_head_at(const th_attention *a, int64_t number);
void th_attention_next_head(const th_attention *a, attention_head *head);

/* Returns how many of `count` heads, or groups of heads, make a task. Each has this many multiply-adds. No bit depends
 * on it. */
int64_t th_attention_heads_of_task(int64_t count, double multiply_adds, int threads);

/* Returns the address of element (row, column) of a head's array, whose elements have `size` bytes; NULL if the array
 * is not given. */
char *th_attention_at(const th_attention_array *array, const attention_head *head, int64_t row, int64_t column,
                      int64_t size);

#endif
