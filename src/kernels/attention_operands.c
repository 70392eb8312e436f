/* Bringing the operands of attention's products to the workspace (attention_operands.h). Nothing here multiplies. */
#include "kernels/attention_operands.h"

void *th_attention_take(attention_space *space, int64_t rows, int64_t row_elements, int64_t size)
{
    void *taken = space->base ? space->base + space->used : NULL;
    size_t bytes;
    if (__builtin_mul_overflow(rows, row_elements, &bytes) || __builtin_mul_overflow(bytes, size, &bytes) ||
        __builtin_add_overflow(bytes, (size_t)TH_ALIGNMENT - 1, &bytes) ||
        __builtin_add_overflow(space->used, bytes / TH_ALIGNMENT * TH_ALIGNMENT, &space->used))
        space->used = SIZE_MAX;
    return taken;
}

/* Not a multiple of many cache lines, so that a column of a buffer does not fall on few places of a cache. */
int64_t th_attention_stride(int64_t columns)
{
    const int64_t lanes = th_parts(columns, LANES);
    return (lanes + (lanes > 2 && lanes % 2 == 0)) * LANES;
}

/* -- operands -- */

static attention_operand in_place(char *data, int64_t lines, int64_t line, int64_t step)
{
    return (attention_operand){.data = data, .lines = lines, .panel = lines * line, .line = line, .step = step};
}

static attention_operand packed(char *data, int64_t lines, int64_t panel)
{
    return (attention_operand){.data = data, .packed = true, .lines = lines, .panel = panel, .line = 1, .step = lines};
}

static int64_t left_panel(const attention_problem *p, int64_t steps)
{
    return p->multiply.rows * th_panel_elements(&p->multiply, steps);
}

/* A register more, for what packing writes too far. */
static int64_t right_panel(const attention_problem *p, int64_t steps)
{
    return p->multiply.columns * th_panel_elements(&p->multiply, steps) + LANES;
}

static int64_t left_elements(const attention_problem *p, int64_t lines, int64_t steps)
{
    return th_parts(lines, p->multiply.rows) * left_panel(p, steps) + LANES;
}

/* -- rows -- */

/* Columns of a copy that products take: the lanes that it is filled up to. */
static int64_t whole_width(const attention_copy *copy)
{
    return th_parts(copy->width, LANES) * LANES;
}

attention_copy th_attention_take_copy(const attention_problem *p, attention_space *space, int64_t rows, int64_t width,
                                      int uses)
{
    const int64_t stride = th_attention_stride(width);
    attention_copy copy = {.data = th_attention_take(space, rows, stride, p->size), .width = width, .stride = stride};
    if (!p->terms) {
        copy.left = in_place(copy.data, p->multiply.rows, stride, 1);
        copy.right = in_place(copy.data, p->multiply.columns, 1, stride);
        return copy;
    }
    if (uses & AS_LEFT)
        copy.left = packed(th_attention_take(space, 1, left_elements(p, rows, width), p->size), p->multiply.rows,
                           left_panel(p, width));
    if (uses & AS_RIGHT) {
        const int64_t panel = right_panel(p, rows);
        copy.right = packed(th_attention_take(space, th_parts(whole_width(&copy), p->multiply.columns), panel, p->size),
                            p->multiply.columns, panel);
    }
    return copy;
}

static void copy_rows(const attention_problem *p, attention_copy *copy, int64_t to, const void *from,
                      const th_attention_array *array, int64_t rows)
{
    p->kernels->attention_load(rows, copy->width, from ? from : th_zero(p->size), from ? array->row : 0,
                               from ? array->column : 0, copy->data + to * copy->stride * p->size, copy->stride,
                               &copy->finite);
}

void th_attention_load(const attention_problem *p, attention_copy *copy, int64_t to, const th_attention_array *array,
                       const attention_head *head, int64_t row, int64_t rows)
{
    const void *from = th_attention_at(array, head, row, 0, p->size);
    copy_rows(p, copy, to, from, array, rows);
    if (!p->terms || rows == 0 || copy->width == 0)
        return;
    char *data = copy->data + to * copy->stride * p->size;
    if (copy->left.data)
        p->multiply.pack_a(rows, copy->width, data, copy->stride, 1, th_attention_operand_at(p, &copy->left, to, 0));
    if (!copy->right.data)
        return;
    if (!copy->finite) { /* what is not has no place in a sum that hidden pairs are part of */
        bool found = false, *parameters = &found;
        for (int64_t r = 0; r < rows; r++) {
            void *x = data + r * copy->stride * p->size;
            p->kernels->finite_part(copy->width, (void *[]){x, x}, &parameters);
        }
    }
    p->multiply.pack_b(rows, whole_width(copy), data, copy->stride, 1, th_attention_operand_at(p, &copy->right, 0, to),
                       copy->right.panel);
    if (!copy->finite)
        copy_rows(p, copy, to, from, array, rows);
}

/* -- keys -- */

attention_operand th_attention_take_keys(const attention_problem *p, attention_space *space, int64_t keys,
                                         int64_t width)
{
    const int64_t panel = right_panel(p, width);
    return packed(th_attention_take(space, th_parts(keys, p->multiply.columns), panel, p->size), p->multiply.columns,
                  panel);
}

void th_attention_pack(const attention_problem *p, const attention_operand *keys, int64_t width,
                       const th_attention_array *array, const attention_head *head, int64_t row, int64_t from,
                       int64_t to)
{
    const int64_t first = from / keys->lines * keys->lines;
    if (width > 0 && array->data)
        p->multiply.pack_b(width, to - first, th_attention_at(array, head, row + first, 0, p->size), array->column,
                           array->row, th_attention_operand_at(p, keys, first, 0), keys->panel);
}

/* -- buffers of scores -- */

attention_buffer th_attention_take_buffer(const attention_problem *p, attention_space *space, int64_t rows,
                                          int64_t keys, bool transposed)
{
    const int64_t stride = th_attention_stride(keys);
    attention_buffer buffer = {.data = th_attention_take(space, rows, stride, p->size), .stride = stride};
    if (p->terms) {
        const int64_t as_rows = left_elements(p, rows, th_smaller(stride, p->sum_keys));
        buffer.panels = th_attention_take(
            space, 1, transposed ? th_larger(as_rows, left_elements(p, keys, rows)) : as_rows, p->size);
    }
    return buffer;
}

attention_operand th_attention_left(const attention_problem *p, const attention_buffer *buffer, int64_t from,
                                    int64_t line, int64_t step, int64_t lines, int64_t steps)
{
    char *data = buffer->data + from * p->size;
    if (!p->terms)
        return in_place(data, p->multiply.rows, line, step);
    p->multiply.pack_a(lines, steps, data, line, step, buffer->panels);
    return packed(buffer->panels, p->multiply.rows, left_panel(p, steps));
}
