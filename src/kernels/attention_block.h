/* What the drivers of attention share (attention.c): a block of queries against a stretch of keys, the products of such
 * a block, and the workspace that its operands are brought to.
 *
 * A block is up to BLOCK_ROWS queries of one item, and the visible part of up to STRIPE keys. Its products take one of
 * these forms:
 *
 *     scores (rows, keys) = queries (rows, width) keysᵀ (width, keys), from packed keys; likewise dP = dO vᵀ
 *
 *     rows (rows, width) += weights (rows, keys) values (keys, width): o and dq
 *
 *     columns (keys, width) += weightsᵀ (keys, rows) values (rows, width): dv and dk
 *
 * Where the visible part ends at a diagonal the last two are cut into groups of rows, or of keys, and only what some
 * row of a group sees is computed. What is hidden then still has a weight of 0, which changes no sum (but for the sign
 * of 0, see attention_store), so how a block is cut is free. How a sum is cut is not: stripes begin at multiples of
 * STRIPE keys, and within one the sums over keys are cut at fixed places too.
 *
 * 0 times NaN is not 0. So every operand that a product of the last two forms runs over is checked when it is brought
 * in, and if it is not finite throughout, the product leaves out hidden pairs one by one. */
#ifndef TH_KERNELS_ATTENTION_BLOCK_H
#define TH_KERNELS_ATTENTION_BLOCK_H

#include "kernels/attention.h"
#include "kernels/attention_rows.h"
#include "kernels/kernels.h"
#include "kernels/product_block.h"
#include "kernels/product_item.h" /* th_item_min and other arithmetic on sizes */

enum {
    BLOCK_ROWS = 48,
    GROUP = 12,       /* rows or keys that are cut together at a diagonal: a tile, or two; */
    SMALL = 32,       /* of up to so many queries */
    SMALL_GROUP = 16, /* are, as another product costs more than it leaves out */
    STRIPE = 1024,    /* keys between two changes of the running maximum */
    LANES = 16        /* TH_LANES of the vector kernels: buffers have rows of so many elements or a multiple */
};

typedef struct attention_plan {
    const th_attention *a;
    const th_kernels *kernels;
    int64_t size;                    /* bytes of an element */
    int64_t tile_rows, tile_columns; /* of product_block; tile_columns keys are in a packed panel */
    int64_t items;                   /* N */
} attention_plan;

/* One of the N items. */
typedef struct attention_item {
    int dims;
    int64_t number, index[TH_ATTENTION_DIMS];
} attention_item;

/* Rows brought into the workspace: (rows, width), filled up to whole lanes with 0. */
typedef struct attention_copy {
    char *data;
    int64_t width, stride; /* elements */
    bool finite;
} attention_copy;

/* Transposed rows in panels for the scores' products. */
typedef struct attention_panels {
    char *data;
    int64_t width, stride; /* rows of a panel, elements from one to the next */
} attention_panels;

/* A block: what its rows may see of the keys start .. start + count - 1. Columns are counted from start. */
typedef struct attention_block {
    int64_t query, rows, start;
    int64_t first[BLOCK_ROWS], past[BLOCK_ROWS]; /* row r may see columns first[r] .. past[r] - 1 */
    int64_t least, most;         /* some row may see columns least .. most - 1; most is 0 when none sees any */
    int64_t all_first, all_past; /* all rows may see these, if all_first < all_past */
    int64_t begin, end;          /* least and most to whole LANES: what is computed of a row of scores */
    int groups;                  /* of group_rows rows (the last may have less) */
    int64_t group_rows;          /* and so many keys */
    int64_t group_begin[BLOCK_ROWS / GROUP], group_end[BLOCK_ROWS / GROUP]; /* what some row of each may see */
} attention_block;

attention_plan th_attention_plan(const th_machine *machine, th_dtype dtype, const th_attention *a);
attention_item th_attention_item(const th_attention *a, int64_t number);
void th_attention_next_item(const th_attention *a, attention_item *item);

/* How many of `count` pieces of work, of so many multiply-adds each, make a task. No bit depends on it. */
int64_t th_attention_items_of_task(int64_t count, double multiply_adds, int threads);

/* Element (row, column) of an item's operand, whose elements have `size` bytes; NULL when it is not given. */
char *th_attention_at(const th_attention_array *array, const attention_item *item, int64_t row, int64_t column,
                      int64_t size);

/* -- workspace: the same sequence of calls finds out its size (with base NULL) and hands it out -- */

typedef struct attention_space {
    char *base;
    size_t used; /* SIZE_MAX: more than that */
} attention_space;

void *th_attention_take(attention_space *space, int64_t rows, int64_t row_elements, int64_t size);
attention_copy th_attention_take_copy(const attention_plan *p, attention_space *space, int64_t rows, int64_t width);
attention_panels th_attention_take_panels(const attention_plan *p, attention_space *space, int64_t keys, int64_t width);
/* Elements from row to row of a buffer of so many columns. */
int64_t th_attention_stride(int64_t columns);

/* copy = rows row .. row + rows - 1 of an operand, from its row `to` on. Zeros when the operand is not given. */
void th_attention_load(const attention_plan *p, attention_copy *copy, int64_t to, const th_attention_array *array,
                       const attention_item *item, int64_t row, int64_t rows);
/* Panels of rows row + from .. row + to - 1, where columns from .. to-1 are looked for. */
void th_attention_pack(const attention_plan *p, const attention_panels *panels, const th_attention_array *array,
                       const attention_item *item, int64_t row, int64_t from, int64_t to);

/* -- a block -- */

/* Whether queries query .. query + rows - 1 see any of the keys start .. start + count - 1; if so, none of them outside
 * start + *least .. start + *most - 1. */
bool th_attention_seen(const attention_plan *p, const attention_item *item, int64_t query, int64_t rows, int64_t start,
                       int64_t count, int64_t *least, int64_t *most);

/* Sets up *block for queries query .. query + rows - 1. Returns false when no row sees any of the keys. */
bool th_attention_block(const attention_plan *p, const attention_item *item, int64_t query, int64_t rows, int64_t start,
                        int64_t count, attention_block *block);

/* The block for the row kernels. */
th_attention_rows th_attention_block_rows(const attention_plan *p, const attention_item *item,
                                          const attention_block *block, void *scores, int64_t stride);

/* scores (rows, stride) = a keysᵀ. */
void th_attention_scores(const attention_plan *p, const attention_block *block, const attention_copy *a,
                         const attention_panels *keys, void *scores, int64_t stride);

/* to (rows, b's width) = a (rows, stride) b, or += that; row 0 of b is the key at `start`. weights: what tells hidden
 * pairs, strides as a. */
void th_attention_rows_product(const attention_plan *p, const attention_block *block, const void *a,
                               const void *weights, int64_t stride, const attention_copy *b, void *to,
                               int64_t to_stride, bool add);

/* to (keys, b's width) += aᵀ b; b has the block's queries for rows. */
void th_attention_columns_product(const attention_plan *p, const attention_block *block, const void *a,
                                  const void *weights, int64_t stride, const attention_copy *b,
                                  const attention_copy *to);

#endif
