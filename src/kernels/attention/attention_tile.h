/* What the drivers of attention share: a block of queries against a block of keys, which is a tile; what of it is
 * visible (attention_visible.c), the operands of its products, brought to a workspace (attention_operands.c), and the
 * products (attention_products.c).
 *
 * A tile is up to query_block queries of one head, and the visible part of a block of keys. Its products take one of
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
 * of 0, see attention_store), so how a tile is cut is free. How a sum is cut is not: blocks of keys begin at multiples
 * of their size, and within one the sums over keys are cut at fixed places too.
 *
 * 0 times NaN is not 0. So every operand that a product of the last two forms runs over is checked when it is brought
 * in, and if it is not finite throughout, the product leaves out hidden pairs one by one.
 *
 * All this is the same in every precision. In float32 and float64 products find most operands where they are; in the
 * others (product.h) operands lie in panels of bfloat16 terms, and since a sum has its steps in groups there, it is cut
 * between groups only: keys are counted from the first of their block, queries from the first of the tile. What is not
 * finite is then 0 in the panels, and added to the sums of the pairs that see it. */
#ifndef TH_KERNELS_ATTENTION_ATTENTION_TILE_H
#define TH_KERNELS_ATTENTION_ATTENTION_TILE_H

#include "kernels/attention/attention_operands.h"
#include "kernels/attention/attention_rows.h"

enum { MAX_GROUPS = 4 }; /* of the rows of a tile */

/* -- what a tile sees -- */

/* What the rows of a tile may see of the keys start .. start + count - 1. Columns are counted from start. */
typedef struct attention_tile {
    int64_t query, rows, start;
    th_key_range keys[MAX_QUERIES]; /* the columns that each row may see; keep and additive may hide more */
    int64_t place[MAX_QUERIES];     /* where each row stands; only where there are slopes */
    int64_t least, max;             /* some row may see columns least .. most - 1; most is 0 when none sees any */
    int64_t all_first, all_past;    /* all rows may see these, if all_first < all_past */
    int64_t begin, end;             /* least to key_step, most to whole LANES: what is computed of a row of scores */
    int groups;                     /* of group_rows rows (the last may have less) */
    int64_t group_rows;
    int64_t group_begin[MAX_GROUPS], group_end[MAX_GROUPS]; /* what some row of each may see */
} attention_tile;

/* Whether queries query .. query + rows - 1 see any of the keys start .. start + count - 1; if so, none of them outside
 * start + *least .. start + *most - 1. */
bool th_attention_visible(const attention_problem *p, const attention_head *head, int64_t query, int64_t rows,
                          int64_t start, int64_t count, int64_t *least, int64_t *max);

/* Sets up *tile for queries query .. query + rows - 1. Returns false when no row sees any of the keys. */
bool th_attention_make_tile(const attention_problem *p, const attention_head *head, int64_t query, int64_t rows,
                            int64_t start, int64_t count, attention_tile *tile);

/* The tile for the row kernels. */
th_attention_rows th_attention_tile_rows(const attention_problem *p, const attention_head *head,
                                         const attention_tile *tile, const attention_buffer *scores);

/* -- its products -- */

/* scores = a keysᵀ. */
void th_attention_scores(const attention_problem *p, const attention_tile *tile, const attention_copy *a,
                         const attention_operand *keys, const attention_buffer *scores);

/* to (rows, b's width) = a b, or += that; row 0 of b is the key at `start`. weights: what tells hidden pairs, strides
 * as a. */
void th_attention_rows_product(const attention_problem *p, const attention_tile *tile, const attention_buffer *a,
                               const attention_buffer *weights, const attention_copy *b, void *to, int64_t to_stride,
                               bool add);

/* to (keys, b's width) += aᵀ b; b has the tile's queries for rows. */
void th_attention_columns_product(const attention_problem *p, const attention_tile *tile, const attention_buffer *a,
                                  const attention_buffer *weights, const attention_copy *b, const attention_copy *to);

#endif
