/* The products of a tile (attention_tile.h). */
#include <string.h>

#include "kernels/attention/attention_tile.h"
#include "kernels/products/product.h"

/* These two set the operands of a product, each from this line and step on. */
static void set_left(const attention_problem *p, th_product_block *product, const attention_operand *left, int64_t line,
                     int64_t step)
{
    product->a = th_attention_operand_at(p, left, line, step);
    product->a_panel = left->panel_stride;
    product->a_row = left->line_stride;
    product->a_col = left->step_stride;
}

static void set_right(const attention_problem *p, th_product_block *product, const attention_operand *right,
                      int64_t line, int64_t step)
{
    product->b = th_attention_operand_at(p, right, line, step);
    product->b_panel = right->panel_stride;
    product->b_row = right->step_stride;
}

/* -- one product for each pair -- */

/* Computes the products of columns from .. to - 1 for rows row .. row + rows - 1 of the tile. `from` begins a panel. */
static void multiply_pairs(const attention_problem *p, int64_t row, int64_t rows, int64_t from, int64_t to,
                           const attention_copy *a, const attention_operand *keys, const attention_buffer *pairs)
{
    const int64_t whole = th_smaller(keys->panel_lines, LANES);
    th_product_block product = {.m = rows,
                                .n = p->has_parts ? to - from : th_ceil_div(to - from, whole) * whole,
                                .c = pairs->data + (row * pairs->stride + from) * p->size,
                                .c_row = pairs->stride,
                                .init_row = pairs->stride};
    if (a->width == 0)
        p->kernels->product_copy(product.m, product.n, th_zero(p->size), 0, 0, product.c, product.c_row, 1);
    for (int64_t k = 0; k < a->width; k += TH_PRODUCT_BLOCK) {
        product.k = th_smaller(a->width - k, TH_PRODUCT_BLOCK);
        set_left(p, &product, &a->left, row, k);
        set_right(p, &product, keys, from, k);
        product.init = k > 0 ? product.c : NULL;
        p->multiply.block(&product);
    }
}

/* Computes first the columns that all groups see, so that a panel is used for all rows while it is cached. Then
 * computes the further columns of each group. */
void th_attention_pairs_product(const attention_problem *p, const attention_tile *tile, const attention_copy *a,
                                const attention_operand *keys, const attention_buffer *pairs)
{
    const int64_t begin = tile->begin / keys->panel_lines * keys->panel_lines;
    int64_t shared = tile->end;
    for (int g = 0; g < tile->groups; g++)
        shared = th_smaller(shared, tile->group_end[g]);
    shared = shared / keys->panel_lines * keys->panel_lines;
    if (begin < shared)
        multiply_pairs(p, 0, tile->rows, begin, shared, a, keys, pairs);
    for (int g = 0; g < tile->groups; g++) {
        const int64_t row = g * tile->group_rows, rows = th_smaller(tile->rows - row, tile->group_rows);
        const int64_t from = th_larger(tile->group_begin[g] / keys->panel_lines * keys->panel_lines, shared);
        if (from < tile->group_end[g])
            multiply_pairs(p, row, rows, from, tile->group_end[g], a, keys, pairs);
    }
}

void th_attention_pairs_product_in_place(const attention_problem *p, const attention_tile *tile,
                                         const attention_copy *a, const attention_head *head,
                                         const attention_buffer *pairs)
{
    const th_attention_array *keys = &p->a->k;
    th_product_block product = {.m = tile->rows,
                                .n = tile->past - tile->first,
                                .k = a->width,
                                .a = th_attention_operand_at(p, &a->left, 0, 0),
                                .a_row = a->left.line_stride,
                                .a_col = 1,
                                .b = th_attention_at(keys, head, tile->start + tile->first, 0, p->size),
                                .c = pairs->data + tile->first * p->size,
                                .c_row = pairs->stride};
    /* the columns beside the visible ones, up to whole lanes */
    p->kernels->product_copy(tile->rows, tile->first - tile->begin, th_zero(p->size), 0, 0,
                             pairs->data + tile->begin * p->size, pairs->stride, 1);
    p->kernels->product_copy(tile->rows, tile->end - tile->past, th_zero(p->size), 0, 0,
                             pairs->data + tile->past * p->size, pairs->stride, 1);
    p->kernels->product_stream(&product, 0, keys->row * p->size);
}

/* -- the other two forms -- */

/* to (lines, width) += left (lines, steps) right (steps, width) */
typedef struct tile_product {
    const attention_buffer *left, *weights; /* weights: their -0 marks masked pairs */
    int64_t line_stride, step_stride;       /* strides of both in elements */
    const attention_copy *right;
    char *to;
    int64_t to_stride;
} tile_product;

/* Multiplies some of the lines over some of the steps. */
static void multiply_lines(const attention_problem *p, const tile_product *t, int64_t line, int64_t lines, int64_t step,
                           int64_t steps, bool add)
{
    const attention_copy *b = t->right;
    const int64_t from = line * t->line_stride + step * t->step_stride;
    th_product_block product = {.m = lines,
                                .n = p->has_parts ? b->width : th_ceil_div(b->width, LANES) * LANES,
                                .k = steps,
                                .c = t->to + line * t->to_stride * p->size,
                                .c_row = t->to_stride,
                                .init_row = t->to_stride};
    product.init = add ? product.c : NULL;
    if (b->finite || p->has_parts) {
        th_attention_set_left(p, t->left, from, t->line_stride, t->step_stride, &product);
        set_right(p, &product, &b->right, 0, step);
        p->multiply.block(&product);
    }
    if (b->finite)
        return;
    product.a = t->left->data + from * p->size;
    product.a_row = t->line_stride;
    product.a_col = t->step_stride;
    product.b = b->data + step * b->stride * p->size;
    product.b_row = b->stride;
    if (p->has_parts)
        p->kernels->attention_add_non_finite(&product, t->weights->data + from * p->size);
    else
        p->kernels->attention_visible_product(&product, t->weights->data + from * p->size);
}

/* Returns whether every group sees columns among from .. to - 1, and all of them from its first one on. */
static bool visible_to_all_groups(const attention_tile *tile, int64_t from, int64_t to)
{
    for (int g = 0; g < tile->groups; g++)
        if (tile->group_begin[g] >= to || tile->group_end[g] < to || tile->group_end[g] <= from)
            return false;
    return true;
}

/* Returns whether every row of the tile is in exactly one product of th_attention_rows_product, which can then
 * overwrite instead of adding. */
static bool is_divided_by_rows_only(const attention_problem *p, const attention_tile *tile)
{
    for (int g = 0; g < tile->groups; g++)
        if (tile->group_begin[g] >= tile->group_end[g])
            return false;
    return tile->begin / p->sum_keys == (tile->end - 1) / p->sum_keys;
}

void th_attention_rows_product(const attention_problem *p, const attention_tile *tile, const attention_buffer *a,
                               const attention_buffer *weights, const attention_copy *b, void *to, int64_t to_stride,
                               bool add)
{
    if (!add && !is_divided_by_rows_only(p, tile)) {
        memset(to, 0, (size_t)(tile->rows * to_stride * p->size));
        add = true;
    }
    const tile_product t = {.left = a,
                            .weights = weights,
                            .line_stride = a->stride,
                            .step_stride = 1,
                            .right = b,
                            .to = to,
                            .to_stride = to_stride};
    for (int64_t from = tile->begin / p->sum_keys * p->sum_keys; from < tile->end; from += p->sum_keys) {
        const int64_t past = from + p->sum_keys;
        const bool together = visible_to_all_groups(tile, from, past);
        for (int g = 0; g < (together ? 1 : tile->groups); g++) {
            const int64_t row = g * tile->group_rows;
            /* (A single row sees all keys of its range: hidden values, which may be in place, are not read.) */
            const int64_t begin = together && tile->rows > 1 ? tile->begin : tile->group_begin[g];
            const int64_t visible = th_larger(begin, from);
            const int64_t key = p->has_parts ? visible / TH_PART_GROUP * TH_PART_GROUP : visible;
            const int64_t key_end = together ? past : th_smaller(tile->group_end[g], past);
            if (key < key_end)
                multiply_lines(p, &t, row, together ? tile->rows : th_smaller(tile->rows - row, tile->group_rows), key,
                               key_end - key, add);
        }
    }
}

/* Returns the number at whose multiples products of columns are divided, for queries and for keys. With bfloat16 parts
 * it is a group of steps, independent of group_rows. */
static int64_t division_of(const attention_problem *p, const attention_tile *tile)
{
    return p->has_parts ? TH_PART_GROUP : tile->group_rows;
}

/* Sets *begin .. *end - 1 to the rows that see any of the columns from .. to - 1, extended to multiples of division_of.
 * Returns false if no row sees any. */
static bool rows_that_see(const attention_problem *p, const attention_tile *tile, int64_t from, int64_t to,
                          int64_t *begin, int64_t *end)
{
    const int64_t cut = division_of(p, tile);
    *begin = tile->rows;
    *end = 0;
    for (int64_t row = 0; row < tile->rows; row++) {
        const th_key_range keys = tile->keys[row];
        if (keys.first >= to || keys.past <= from)
            continue;
        *begin = th_smaller(*begin, row / cut * cut);
        *end = th_smaller(tile->rows, (row / cut + 1) * cut);
    }
    return *begin < *end;
}

void th_attention_columns_product(const attention_problem *p, const attention_tile *tile, const attention_buffer *a,
                                  const attention_buffer *weights, const attention_copy *b, const attention_copy *to)
{
    const tile_product t = {.left = a,
                            .weights = weights,
                            .line_stride = 1,
                            .step_stride = a->stride,
                            .right = b,
                            .to = to->data,
                            .to_stride = to->stride};
    const int64_t cut = division_of(p, tile);
    const int64_t all_first = th_ceil_div(tile->all_first, cut) * cut, all_past = tile->all_past / cut * cut;
    for (int64_t column = tile->begin, stop; column < tile->past; column = stop) {
        int64_t row = 0, row_end = tile->rows;
        if (tile->groups == 1) {
            stop = tile->past;
        } else if (column >= all_first && column < all_past) {
            stop = all_past;
        } else {
            stop = th_smaller((column / cut + 1) * cut, tile->past);
            if (!rows_that_see(p, tile, column, stop, &row, &row_end))
                continue;
        }
        multiply_lines(p, &t, column, stop - column, row, row_end - row, true);
    }
}
