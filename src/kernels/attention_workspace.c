/* The heads of an attention problem, how they make tasks, and the workspace that their rows are brought to
 * (attention_tile.h). */
#include "kernels/attention_tile.h"

enum {
    TASK = 200000, /* multiply-adds of a task, if there are enough heads: some 5 µs */
    HEAD = 5000,   /* that what else is done for a head takes as long as */
    TASKS_PER_THREAD = 4
};

attention_problem th_attention_problem(const th_machine *machine, th_dtype dtype, const th_attention *a)
{
    const int64_t size = th_element_size(dtype);
    const int vector_bytes = th_vector_bytes(machine);
    attention_problem p = {.a = a,
                           .kernels = th_kernels_for(machine, dtype),
                           .size = size,
                           .panel_rows = TH_TILE_ROWS(vector_bytes),
                           .panel_keys = TH_TILE_COLUMNS(vector_bytes, size),
                           .heads = 1};
    for (int d = 0; d < a->dims; d++)
        p.heads *= a->size[d];
    return p;
}

attention_head th_attention_head_at(const th_attention *a, int64_t number)
{
    attention_head head = {.number = number, .dims = a->dims};
    th_index_at(a->dims, a->size, number, head.index);
    return head;
}

void th_attention_next_head(const th_attention *a, attention_head *head)
{
    head->number++;
    for (int d = a->dims - 1; d >= 0 && ++head->index[d] == a->size[d]; d--)
        head->index[d] = 0;
}

int64_t th_attention_heads_of_task(int64_t count, double multiply_adds, int threads)
{
    const int64_t enough = multiply_adds < TASK ? (int64_t)(TASK / (multiply_adds + HEAD)) : 1;
    const int64_t fair = count / ((int64_t)threads * TASKS_PER_THREAD);
    return th_larger(threads > 1 ? th_smaller(enough, fair) : enough, 1);
}

char *th_attention_at(const th_attention_array *array, const attention_head *head, int64_t row, int64_t column,
                      int64_t size)
{
    if (!array->data)
        return NULL;
    const int64_t within = row * array->row + column * array->column;
    return (char *)array->data + (within + th_offset_of(head->dims, head->index, array->leading)) * size;
}

/* -- workspace -- */

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

attention_copy th_attention_take_copy(const attention_problem *p, attention_space *space, int64_t rows, int64_t width)
{
    const int64_t stride = th_attention_stride(width);
    return (attention_copy){.data = th_attention_take(space, rows, stride, p->size), .width = width, .stride = stride};
}

attention_panels th_attention_take_panels(const attention_problem *p, attention_space *space, int64_t keys,
                                          int64_t width)
{
    const int64_t stride = p->panel_keys * width + LANES; /* a register more, for what packing writes too far */
    return (attention_panels){.data = th_attention_take(space, th_parts(keys, p->panel_keys), stride, p->size),
                              .width = width,
                              .stride = stride};
}

void th_attention_load(const attention_problem *p, attention_copy *copy, int64_t to, const th_attention_array *array,
                       const attention_head *head, int64_t row, int64_t rows)
{
    const void *from = th_attention_at(array, head, row, 0, p->size);
    p->kernels->attention_load(rows, copy->width, from ? from : th_zero(p->size), from ? array->row : 0,
                               from ? array->column : 0, copy->data + to * copy->stride * p->size, copy->stride,
                               &copy->finite);
}

void th_attention_pack(const attention_problem *p, const attention_panels *panels, const th_attention_array *array,
                       const attention_head *head, int64_t row, int64_t from, int64_t to)
{
    const int64_t panel = from / p->panel_keys, first = panel * p->panel_keys;
    if (panels->width > 0 && array->data)
        p->kernels->product_pack_b(panels->width, to - first, th_attention_at(array, head, row + first, 0, p->size),
                                   array->column, array->row, panels->data + panel * panels->stride * p->size,
                                   panels->stride);
}
