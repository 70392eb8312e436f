/* What the drivers of attention share: a block of queries against a block of keys, which is a tile; what of it is
 * visible (attention_visible.c), its products (attention_products.c), and the workspace that its operands are brought
 * to (attention_workspace.c).
 *
 * A tile is up to QUERY_BLOCK queries of one head, and the visible part of a block of keys. Its products take one of
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
 * in, and if it is not finite throughout, the product leaves out hidden pairs one by one. */
#ifndef TH_KERNELS_ATTENTION_TILE_H
#define TH_KERNELS_ATTENTION_TILE_H

#include "kernels/attention.h"
#include "kernels/attention_rows.h"
#include "kernels/kernels.h"
#include "kernels/product_block.h"
#include "kernels/sizes.h"

enum {
    QUERY_BLOCK = 48,
    GROUP = 12,       /* rows or keys that are cut together at a diagonal: one or two tiles of the micro-kernel; */
    SMALL = 32,       /* of up to so many queries */
    SMALL_GROUP = 16, /* are, as another product costs more than it leaves out */
    LANES = 16        /* TH_LANES of the vector kernels: buffers have rows of so many elements or a multiple */
};

/* A th_attention, and what follows from it and the machine. */
typedef struct attention_problem {
    const th_attention *a;
    const th_kernels *kernels;
    int64_t size;                   /* bytes of an element */
    int64_t panel_rows, panel_keys; /* of product_block: rows of A, and keys in a packed panel of B */
    int64_t heads;                  /* N */
} attention_problem;

/* One of the N problems: a head of an example. */
typedef struct attention_head {
    int dims;
    int64_t number, index[TH_ATTENTION_DIMS];
} attention_head;

attention_problem th_attention_problem(const th_machine *machine, th_dtype dtype, const th_attention *a);
attention_head th_attention_head_at(const th_attention *a, int64_t number);
void th_attention_next_head(const th_attention *a, attention_head *head);

/* How many of `count` pieces of work, of so many multiply-adds each, make a task. No bit depends on it. */
int64_t th_attention_heads_of_task(int64_t count, double multiply_adds, int threads);

/* Element (row, column) of a head's operand, whose elements have `size` bytes; NULL when it is not given. */
char *th_attention_at(const th_attention_array *array, const attention_head *head, int64_t row, int64_t column,
                      int64_t size);

/* -- workspace: the same sequence of calls finds out its size (with base NULL) and hands it out -- */

typedef struct attention_space {
    char *base;
    size_t used; /* SIZE_MAX: more than that */
} attention_space;

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

void *th_attention_take(attention_space *space, int64_t rows, int64_t row_elements, int64_t size);
attention_copy th_attention_take_copy(const attention_problem *p, attention_space *space, int64_t rows, int64_t width);
attention_panels th_attention_take_panels(const attention_problem *p, attention_space *space, int64_t keys,
                                          int64_t width);
/* Elements from row to row of a buffer of so many columns. */
int64_t th_attention_stride(int64_t columns);

/* copy = rows row .. row + rows - 1 of an operand, from its row `to` on. Zeros when the operand is not given. */
void th_attention_load(const attention_problem *p, attention_copy *copy, int64_t to, const th_attention_array *array,
                       const attention_head *head, int64_t row, int64_t rows);
/* Panels of rows row + from .. row + to - 1, where columns from .. to-1 are looked for. */
void th_attention_pack(const attention_problem *p, const attention_panels *panels, const th_attention_array *array,
                       const attention_head *head, int64_t row, int64_t from, int64_t to);

/* -- what a tile sees -- */

/* What the rows of a tile may see of the keys start .. start + count - 1. Columns are counted from start. */
typedef struct attention_tile {
    int64_t query, rows, start;
    th_key_range keys[QUERY_BLOCK]; /* the columns that each row may see; keep and additive may hide more */
    int64_t place[QUERY_BLOCK];     /* where each row stands; only where there are slopes */
    int64_t least, most;            /* some row may see columns least .. most - 1; most is 0 when none sees any */
    int64_t all_first, all_past;    /* all rows may see these, if all_first < all_past */
    int64_t begin, end;             /* least and most to whole LANES: what is computed of a row of scores */
    int groups;                     /* of group_rows rows (the last may have less) */
    int64_t group_rows;             /* and so many keys */
    int64_t group_begin[QUERY_BLOCK / GROUP], group_end[QUERY_BLOCK / GROUP]; /* what some row of each may see */
} attention_tile;

/* Whether queries query .. query + rows - 1 see any of the keys start .. start + count - 1; if so, none of them outside
 * start + *least .. start + *most - 1. */
bool th_attention_seen(const attention_problem *p, const attention_head *head, int64_t query, int64_t rows,
                       int64_t start, int64_t count, int64_t *least, int64_t *most);

/* Sets up *tile for queries query .. query + rows - 1. Returns false when no row sees any of the keys. */
bool th_attention_make_tile(const attention_problem *p, const attention_head *head, int64_t query, int64_t rows,
                            int64_t start, int64_t count, attention_tile *tile);

/* The tile for the row kernels. */
th_attention_rows th_attention_tile_rows(const attention_problem *p, const attention_head *head,
                                         const attention_tile *tile, void *scores, int64_t stride);

/* -- its products -- */

/* scores (rows, stride) = a keysᵀ. */
void th_attention_scores(const attention_problem *p, const attention_tile *tile, const attention_copy *a,
                         const attention_panels *keys, void *scores, int64_t stride);

/* to (rows, b's width) = a (rows, stride) b, or += that; row 0 of b is the key at `start`. weights: what tells hidden
 * pairs, strides as a. */
void th_attention_rows_product(const attention_problem *p, const attention_tile *tile, const void *a,
                               const void *weights, int64_t stride, const attention_copy *b, void *to,
                               int64_t to_stride, bool add);

/* to (keys, b's width) += aᵀ b; b has the tile's queries for rows. */
void th_attention_columns_product(const attention_problem *p, const attention_tile *tile, const void *a,
                                  const void *weights, int64_t stride, const attention_copy *b,
                                  const attention_copy *to);

#endif
