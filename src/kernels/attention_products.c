/* The products of a tile (attention_tile.h). */
#include <string.h>

#include "kernels/attention_tile.h"
#include "kernels/product.h"

enum { SUM_KEYS = 128 }; /* of a sum over keys at a time: so much of a panel of values stays in the nearest cache */

/* The rows *begin .. *end - 1 are those of the groups that see columns among from .. to - 1. */
static bool rows_of(const attention_tile *tile, int64_t from, int64_t to, int64_t *begin, int64_t *end)
{
    *begin = tile->rows;
    *end = 0;
    for (int g = 0; g < tile->groups; g++) {
        if (tile->group_begin[g] >= to || tile->group_end[g] <= from)
            continue;
        *begin = th_smaller(*begin, g * tile->group_rows);
        *end = th_smaller(tile->rows, (g + 1) * tile->group_rows);
    }
    return *begin < *end;
}

/* Scores of the columns from .. to - 1 for rows row .. row + rows - 1 of the tile, from the start of a panel on. */
static void multiply_scores(const attention_problem *p, int64_t row, int64_t rows, int64_t from, int64_t to,
                            const attention_copy *a, const attention_panels *keys, char *scores, int64_t stride)
{
    const int64_t panel = from / p->panel_keys, whole = th_smaller(p->panel_keys, LANES);
    th_product_block product = {.m = rows,
                                .n = th_parts(to - from, whole) * whole,
                                .a_panel = p->panel_rows * a->stride,
                                .a_row = a->stride,
                                .a_col = 1,
                                .b_panel = keys->stride,
                                .b_row = p->panel_keys,
                                .c = scores + (row * stride + from) * p->size,
                                .c_row = stride,
                                .init_row = stride};
    int64_t k = 0;
    do {
        product.k = th_smaller(keys->width - k, TH_PRODUCT_BLOCK);
        product.a = a->data + (row * a->stride + k) * p->size;
        product.b = keys->data + (panel * keys->stride + k * p->panel_keys) * p->size;
        product.init = k > 0 ? product.c : NULL;
        p->kernels->product_block(&product);
        k += TH_PRODUCT_BLOCK;
    } while (k < keys->width);
}

/* First what all rows see, so that a panel is used for all of them while it is near; then what each group sees beyond
 * that. */
void th_attention_scores(const attention_problem *p, const attention_tile *tile, const attention_copy *a,
                         const attention_panels *keys, void *scores, int64_t stride)
{
    const int64_t begin = tile->begin / p->panel_keys * p->panel_keys;
    int64_t shared = tile->end;
    for (int g = 0; g < tile->groups; g++)
        shared = th_smaller(shared, tile->group_end[g]);
    shared = shared / p->panel_keys * p->panel_keys;
    if (begin < shared)
        multiply_scores(p, 0, tile->rows, begin, shared, a, keys, scores, stride);
    for (int g = 0; g < tile->groups; g++) {
        const int64_t row = g * tile->group_rows, rows = th_smaller(tile->rows - row, tile->group_rows);
        const int64_t from = th_larger(tile->group_begin[g] / p->panel_keys * p->panel_keys, shared);
        if (from < tile->group_end[g])
            multiply_scores(p, row, rows, from, tile->group_end[g], a, keys, scores, stride);
    }
}

/* One of the other products; B lies in rows. */
static void multiply(const attention_problem *p, th_product_block *product, bool add, bool finite, const void *weights)
{
    product->a_panel = p->panel_rows * product->a_row;
    product->b_panel = p->panel_keys;
    product->init = add ? product->c : NULL;
    product->init_row = product->c_row;
    product->n = th_parts(product->n, LANES) * LANES;
    if (finite)
        p->kernels->product_block(product);
    else
        p->kernels->attention_visible_product(product, weights);
}

/* Whether every group sees something of the columns from .. to - 1, and all that follow its first one. */
static bool all_groups_see(const attention_tile *tile, int64_t from, int64_t to)
{
    for (int g = 0; g < tile->groups; g++)
        if (tile->group_begin[g] >= to || tile->group_end[g] < to || tile->group_end[g] <= from)
            return false;
    return true;
}

/* Whether every row of the tile is in one product, and none in two. */
static bool is_cut_by_rows_only(const attention_tile *tile)
{
    for (int g = 0; g < tile->groups; g++)
        if (tile->group_begin[g] >= tile->group_end[g])
            return false;
    return tile->begin / SUM_KEYS == (tile->end - 1) / SUM_KEYS;
}

void th_attention_rows_product(const attention_problem *p, const attention_tile *tile, const void *a,
                               const void *weights, int64_t stride, const attention_copy *b, void *to,
                               int64_t to_stride, bool add)
{
    if (!add && !is_cut_by_rows_only(tile)) {
        memset(to, 0, (size_t)(tile->rows * to_stride * p->size));
        add = true;
    }
    for (int64_t from = tile->begin / SUM_KEYS * SUM_KEYS; from < tile->end; from += SUM_KEYS) {
        const int64_t past = from + SUM_KEYS;
        const bool together = all_groups_see(tile, from, past);
        for (int g = 0; g < (together ? 1 : tile->groups); g++) {
            const int64_t row = g * tile->group_rows;
            const int64_t key = th_larger(together ? tile->begin : tile->group_begin[g], from);
            const int64_t key_end = together ? past : th_smaller(tile->group_end[g], past);
            if (key >= key_end)
                continue;
            const int64_t at = (row * stride + key) * p->size;
            th_product_block product = {.m = together ? tile->rows : th_smaller(tile->rows - row, tile->group_rows),
                                        .n = b->width,
                                        .k = key_end - key,
                                        .a = (const char *)a + at,
                                        .a_row = stride,
                                        .a_col = 1,
                                        .b = b->data + key * b->stride * p->size,
                                        .b_row = b->stride,
                                        .c = (char *)to + row * to_stride * p->size,
                                        .c_row = to_stride};
            multiply(p, &product, add, b->finite, (const char *)weights + at);
        }
    }
}

void th_attention_columns_product(const attention_problem *p, const attention_tile *tile, const void *a,
                                  const void *weights, int64_t stride, const attention_copy *b,
                                  const attention_copy *to)
{
    const int64_t cut = tile->group_rows;
    const int64_t all_first = th_parts(tile->all_first, cut) * cut, all_past = tile->all_past / cut * cut;
    for (int64_t column = tile->begin, stop; column < tile->most; column = stop) {
        int64_t row = 0, row_end = tile->rows;
        if (tile->groups == 1) {
            stop = tile->most;
        } else if (column >= all_first && column < all_past) {
            stop = all_past;
        } else {
            stop = th_smaller((column / cut + 1) * cut, tile->most);
            if (!rows_of(tile, column, stop, &row, &row_end))
                continue;
        }
        const int64_t at = (row * stride + column) * p->size;
        th_product_block product = {.m = stop - column,
                                    .n = to->width,
                                    .k = row_end - row,
                                    .a = (const char *)a + at,
                                    .a_row = 1,
                                    .a_col = stride,
                                    .b = b->data + row * b->stride * p->size,
                                    .b_row = b->stride,
                                    .c = to->data + column * to->stride * p->size,
                                    .c_row = to->stride};
        multiply(p, &product, true, b->finite, (const char *)weights + at);
    }
}
