/* Loads the operands of attention's products into the workspace (attention_operands.h). Nothing here multiplies. */
#include "kernels/attention/attention_operands.h"

void *th_attention_reserve(attention_space *space, int64_t rows, int64_t row_elements, int64_t size)
{
    void *reserved = space->base ? space->base + space->used : NULL;
    size_t bytes; /* (for operands of mixed signs clang 13 calls a function that plain cc does not link) */
    if (__builtin_mul_overflow((size_t)rows, (size_t)row_elements, &bytes) ||
        __builtin_mul_overflow(bytes, (size_t)size, &bytes) ||
        __builtin_add_overflow(bytes, (size_t)TH_ALIGNMENT - 1, &bytes) ||
        __builtin_add_overflow(space->used, bytes / TH_ALIGNMENT * TH_ALIGNMENT, &space->used))
        space->used = SIZE_MAX;
    return reserved;
}

/* Avoids strides that are multiples of many cache lines: a column of a buffer would share few sets of a cache. */
int64_t th_attention_stride(int64_t columns)
{
    const int64_t lanes = th_ceil_div(columns, LANES);
    return (lanes + (lanes > 2 && lanes % 2 == 0)) * LANES;
}

/* -- operands -- */

static void set_in_place(attention_operand *x, char *data, int64_t lines, int64_t line, int64_t step)
{
    x->data = data;
    x->packed = false;
    x->panel_lines = lines;
    x->panel_stride = lines * line;
    x->line_stride = line;
    x->step_stride = step;
}

static attention_operand packed_operand(char *data, int64_t lines, int64_t panel)
{
    return (attention_operand){.data = data,
                               .packed = true,
                               .panel_lines = lines,
                               .panel_stride = panel,
                               .line_stride = 1,
                               .step_stride = lines};
}

static int64_t left_panel(const attention_problem *p, int64_t steps)
{
    return p->multiply.rows * th_panel_elements(&p->multiply, steps);
}

/* Returns the elements of a panel of a right operand: one more register, because packing writes whole registers. */
static int64_t right_panel(const attention_problem *p, int64_t steps)
{
    return p->multiply.columns * th_panel_elements(&p->multiply, steps) + LANES;
}

static int64_t left_elements(const attention_problem *p, int64_t lines, int64_t steps)
{
    return th_ceil_div(lines, p->multiply.rows) * left_panel(p, steps) + LANES;
}

/* -- rows -- */

attention_copy th_attention_reserve_copy(const attention_problem *p, attention_space *space, int64_t rows,
                                         int64_t width, int uses)
{
    const int64_t stride = th_attention_stride(width);
    attention_copy copy = {.data = th_attention_reserve(space, rows, stride, p->size),
                           .width = width,
                           .stride = stride,
                           .finite = true,
                           .has_rows = !p->has_parts || (uses & AS_ROWS)};
    if (!p->has_parts) {
        set_in_place(&copy.left, copy.data, p->multiply.rows, stride, 1);
        set_in_place(&copy.right, copy.data, p->multiply.columns, 1, stride);
        return copy;
    }
    if (uses & AS_LEFT)
        copy.left = packed_operand(th_attention_reserve(space, 1, left_elements(p, rows, width), p->size),
                                   p->multiply.rows, left_panel(p, width));
    if (uses & AS_RIGHT) {
        const int64_t panel = right_panel(p, rows);
        copy.right =
            packed_operand(th_attention_reserve(space, th_ceil_div(width, p->multiply.columns), panel, p->size),
                           p->multiply.columns, panel);
    }
    return copy;
}

/* Rows of an array, or zeros if it is not given. */
typedef struct source {
    const void *data;
    int64_t row_stride, column_stride, rows;
} source;

static void copy_rows(const attention_problem *p, attention_copy *copy, int64_t to, const source *from)
{
    p->kernels->attention_load(from->rows, copy->width, from->data, from->row_stride, from->column_stride,
                               copy->data + to * copy->stride * p->size, copy->stride, &copy->finite);
}

static void pack_right(const attention_problem *p, const attention_copy *copy, int64_t to, const source *from)
{
    p->multiply.pack_b(from->rows, copy->width, from->data, from->row_stride, from->column_stride,
                       th_attention_operand_at(p, &copy->right, 0, to), copy->right.panel_stride);
}

/* Packs 0 for numbers that are not finite: they must not be in a sum with masked pairs. They remain in the copied rows,
 * from which they are added to the visible pairs. */
static void pack_finite_part(const attention_problem *p, attention_copy *copy, int64_t to, const source *from)
{
    bool found = false, *parameters = &found;
    char *data = copy->data + to * copy->stride * p->size;
    copy_rows(p, copy, to, from);
    for (int64_t r = 0; r < from->rows; r++) {
        void *row = data + r * copy->stride * p->size;
        p->kernels->finite_part(copy->width, (void *[]){row, row}, &parameters);
    }
    pack_right(p, copy, to, &(source){data, copy->stride, 1, from->rows});
    copy_rows(p, copy, to, from);
}

static void load_parts(const attention_problem *p, attention_copy *copy, int64_t to, const source *from)
{
    if (copy->has_rows)
        copy_rows(p, copy, to, from);
    if (copy->left.data)
        p->multiply.pack_a(from->rows, copy->width, from->data, from->row_stride, from->column_stride,
                           th_attention_operand_at(p, &copy->left, to, 0));
    if (!copy->right.data)
        return;
    p->kernels->attention_is_finite(from->rows, copy->width, from->data, from->row_stride, from->column_stride,
                                    &copy->finite);
    if (copy->finite)
        pack_right(p, copy, to, from);
    else
        pack_finite_part(p, copy, to, from);
}

void th_attention_load(const attention_problem *p, attention_copy *copy, int64_t to, const th_attention_array *array,
                       const attention_head *head, int64_t row, int64_t rows)
{
    source from = {.data = th_attention_at(array, head, row, 0, p->size), .rows = rows};
    if (from.data) {
        from.row_stride = array->row;
        from.column_stride = array->column;
    } else {
        from.data = th_zero(p->size);
    }
    if (!p->has_parts)
        copy_rows(p, copy, to, &from);
    else if (rows > 0 && copy->width > 0)
        load_parts(p, copy, to, &from);
}

attention_copy th_attention_in_place(const attention_problem *p, const th_attention_array *array,
                                     const attention_head *head, int64_t row, int64_t width)
{
    attention_copy rows = {.data = th_attention_at(array, head, row, 0, p->size),
                           .width = width,
                           .stride = array->row,
                           .finite = true,
                           .has_rows = true};
    set_in_place(&rows.right, rows.data, p->multiply.columns, 1, array->row);
    return rows;
}

/* -- keys -- */

attention_operand th_attention_reserve_keys(const attention_problem *p, attention_space *space, int64_t keys,
                                            int64_t width)
{
    const int64_t panel = right_panel(p, width);
    return packed_operand(th_attention_reserve(space, th_ceil_div(keys, p->multiply.columns), panel, p->size),
                          p->multiply.columns, panel);
}

void th_attention_pack(const attention_problem *p, const attention_operand *keys, int64_t width,
                       const th_attention_array *array, const attention_head *head, int64_t row, int64_t from,
                       int64_t to)
{
    const int64_t first = from / keys->panel_lines * keys->panel_lines;
    if (width > 0 && array->data)
        p->multiply.pack_b(width, to - first, th_attention_at(array, head, row + first, 0, p->size), array->column,
                           array->row, th_attention_operand_at(p, keys, first, 0), keys->panel_stride);
}

/* -- buffers of scores -- */

attention_buffer th_attention_reserve_buffer(const attention_problem *p, attention_space *space, int64_t rows,
                                             int64_t keys, bool transposed)
{
    const int64_t stride = th_attention_stride(keys);
    attention_buffer buffer = {.data = th_attention_reserve(space, rows, stride, p->size), .stride = stride};
    if (p->has_parts) {
        const int64_t as_rows = left_elements(p, rows, th_smaller(stride, p->sum_keys));
        buffer.panels = th_attention_reserve(
            space, 1, transposed ? th_larger(as_rows, left_elements(p, keys, rows)) : as_rows, p->size);
    }
    return buffer;
}

void th_attention_set_left(const attention_problem *p, const attention_buffer *buffer, int64_t from, int64_t line,
                           int64_t step, th_product_block *product)
{
    product->a = buffer->data + from * p->size;
    product->a_panel = p->multiply.rows * line;
    product->a_row = line;
    product->a_col = step;
    if (!p->has_parts)
        return;
    p->multiply.pack_a(product->m, product->k, product->a, line, step, buffer->panels);
    product->a = buffer->panels;
    product->a_panel = left_panel(p, product->k);
}
