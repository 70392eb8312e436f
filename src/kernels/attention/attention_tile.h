/* A tile, a block of queries by a block of keys, as all drivers of attention use it: its visible pairs
 * (attention_visible.c), its operands (attention_operands.c) and its products (attention_products.c).
 *
 * A tile is up to query_block queries of one head, and the visible part of a block of keys. Its products:
 *
 *     pairs (rows, keys) = rows (rows, width) keysᵀ (width, keys), from packed keys: Q Kᵀ and dP = dO Vᵀ
 *     rows (rows, width) += pairs (rows, keys) keys (keys, width): O = P V and dQ = scale dX K
 *     columns (keys, width) += pairsᵀ (keys, rows) rows (rows, width): dV = Pᵀ dO and dK = scale dXᵀ Q
 *
 * If the visible part ends at a diagonal, the last two products are divided into groups of rows, or of keys. A group
 * computes only the columns that some row of it sees. Masked pairs in a group have weight 0, which changes no sum
 * except the sign of 0 (attention_store). So a tile may be divided in any way. A sum may not: blocks of keys begin at
 * multiples of their size, and sums over keys within a block are divided at fixed keys.
 *
 * 0 times NaN is not 0. So the right operands of the last two products are checked when they are loaded. If one is not
 * finite, its product skips masked pairs one by one.
 *
 * In reduced precision (product.h) operands are panels of bfloat16 parts, and sums are divided only between groups of
 * steps. The steps are keys, counted from the start of their block, or queries, counted from the start of the tile.
 * Numbers that are not finite are packed as 0. Afterwards they are added to the sums of the pairs that see them. */
#ifndef TH_KERNELS_ATTENTION_ATTENTION_TILE_H
#define TH_KERNELS_ATTENTION_ATTENTION_TILE_H

#include "kernels/attention/attention_operands.h"
#include "kernels/attention/attention_rows.h"

enum { MAX_GROUPS = 4 }; /* of the rows of a tile */

/* -- visible pairs -- */

/* The visible keys of a tile's rows, among the keys start .. start + count - 1. Columns are counted from start. */
typedef struct attention_tile {
    int64_t query, rows, start;
    th_key_range keys[MAX_QUERIES]; /* the visible columns of each row; keep and additive may mask more */
    int64_t position[MAX_QUERIES];  /* of each row; only with slopes */
    int64_t first, past;            /* some row sees some of these columns; past is 0 if no row sees any */
    int64_t all_first, all_past;    /* all rows see these columns, if all_first < all_past */
    int64_t begin, end;             /* the columns of scores to compute: first rounded down to key_step, past rounded
                                       up to LANES */
    int groups;                     /* of group_rows rows (the last may have fewer) */
    int64_t group_rows;
    int64_t group_begin[MAX_GROUPS], group_end[MAX_GROUPS]; /* the columns that some row of each group sees */
} attention_tile;

/* Returns whether queries query .. query + rows - 1 see any of the keys start .. start + count - 1. If they do, all
 * that they see are in start + *first .. start + *past - 1. */
bool th_attention_visible(const attention_problem *p, const attention_head *head, int64_t query, int64_t rows,
                          int64_t start, int64_t count, int64_t *first, int64_t *past);

/* Sets up *tile for queries query .. query + rows - 1. Returns false if no row sees any key. */
bool th_attention_make_tile(const attention_problem *p, const attention_head *head, int64_t query, int64_t rows,
                            int64_t start, int64_t count, attention_tile *tile);

/* Describes the tile for the row kernels. */
th_attention_rows th_attention_tile_rows(const attention_problem *p, const attention_head *head,
                                         const attention_tile *tile, const attention_buffer *scores);

/* -- its products -- */

/* pairs = a keysᵀ. */
void th_attention_pairs_product(const attention_problem *p, const attention_tile *tile, const attention_copy *a,
                                const attention_operand *keys, const attention_buffer *pairs);

/* pairs = a keysᵀ for at most TH_STREAM_ROWS rows, with keys in place whose columns are contiguous. */
void th_attention_pairs_product_in_place(const attention_problem *p, const attention_tile *tile,
                                         const attention_copy *a, const attention_head *head,
                                         const attention_buffer *pairs);

/* to (rows, b's width) = a b, or add: += a b. Row 0 of b is the key at `start`. weights marks masked pairs and has the
 * strides of a. */
void th_attention_rows_product(const attention_problem *p, const attention_tile *tile, const attention_buffer *a,
                               const attention_buffer *weights, const attention_copy *b, void *to, int64_t to_stride,
                               bool add);

/* to (keys, b's width) += aᵀ b; the rows of b are the tile's queries. */
void th_attention_columns_product(const attention_problem *p, const attention_tile *tile, const attention_buffer *a,
                                  const attention_buffer *weights, const attention_copy *b, const attention_copy *to);

#endif
