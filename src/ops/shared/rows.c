/* Row-wise operations (rows.h): merging axes, gathering strided rows, scattering results, planning and running. */
#include "ops/shared/rows.h"

#include <string.h>

#include "kernels/sizes.h"
#include "ops/shared/axes.h"
#include "tensor/checked.h"
#include "tensor/elementwise.h"
#include "tensor/shape.h"

enum {
    BLOCK = 16, /* rows gathered together: they share cache lines if the axis between rows is contiguous */
    MIN_BLOCK = 4,
    BLOCK_ELEMENTS = 1 << 18 /* blocks of longer rows have fewer rows */
};

void th_rows_init(th_rows *rows, const th_array *shape, uint32_t along)
{
    *rows = (th_rows){.ndim = shape->ndim, .along = along};
    for (int i = 0; i < shape->ndim; i++) {
        if (along >> i & 1)
            rows->inner[rows->inner_dims++] = shape->size[i];
        else
            rows->outer[rows->outer_dims++] = shape->size[i];
    }
    /* Neither overflows: the product of a tensor's sizes fits, even without those that are 0. */
    (void)th_checked_numel(rows->outer_dims, rows->outer, &rows->rows);
    (void)th_checked_numel(rows->inner_dims, rows->inner, &rows->length);
}

void th_rows_set(th_rows *rows, int operand, const th_array *array, th_rows_access access)
{
    if (!array || !array->given)
        return;
    struct th_rows_operand *to = &rows->operand[operand];
    *to = (struct th_rows_operand){.data = array->data, .element_size = th_dtype_size(array->dtype), .access = access};
    rows->add |= access == TH_ROWS_ADD;
    int outer = 0, inner = 0;
    for (int i = 0; i < array->ndim; i++) {
        if (rows->along >> i & 1)
            to->inner[inner++] = array->stride[i];
        else
            to->outer[outer++] = array->stride[i];
    }
}

/* Merges axes that are contiguous for every operand: those within a row (inner) or those between rows. Returns how many
 * remain. An operand with one value for each row has no inner axes. */
static int merge_axes(th_rows *rows, int dims, int64_t *size, bool inner)
{
    int64_t *stride[TH_ROWS_OPERANDS];
    int operands = 0;
    for (int j = 0; j < TH_ROWS_OPERANDS; j++)
        if (!inner || !rows->operand[j].per_row)
            stride[operands++] = inner ? rows->operand[j].inner : rows->operand[j].outer;
    return th_merge_dimensions(dims, size, operands, stride);
}

static bool has_contiguous_rows(const th_rows *rows, const struct th_rows_operand *operand)
{
    int64_t expected = 1;
    for (int i = rows->inner_dims - 1; i >= 0; i--) {
        if (operand->inner[i] != expected)
            return false;
        expected *= rows->inner[i];
    }
    return true;
}

void th_rows_finish(th_rows *rows)
{
    if (rows->rows == 0 || rows->length == 0) {
        /* Nothing is read. Empty rows need no inner axes; without rows, outer axes are not needed either. */
        rows->inner_dims = 0;
        if (rows->rows == 0)
            rows->outer_dims = 0;
    }
    rows->outer_dims = merge_axes(rows, rows->outer_dims, rows->outer, false);
    rows->inner_dims = merge_axes(rows, rows->inner_dims, rows->inner, true);
    rows->block = 0;
    for (int i = 0; i < TH_ROWS_OPERANDS; i++) {
        struct th_rows_operand *operand = &rows->operand[i];
        operand->direct = operand->element_size == 0 || operand->per_row || has_contiguous_rows(rows, operand);
        if (operand->direct)
            continue;
        if (rows->block == 0) {
            rows->block = BLOCK_ELEMENTS / rows->length;
            rows->block = rows->block > BLOCK ? BLOCK : rows->block < MIN_BLOCK ? MIN_BLOCK : rows->block;
            if (rows->block > rows->rows)
                rows->block = rows->rows;
        }
        operand->buffer = rows->scratch;
        rows->scratch += ((size_t)(rows->block * rows->length) * operand->element_size + 63) / 64 * 64;
    }
}

size_t th_rows_scratch(const th_context *ctx, const th_rows *rows)
{
    size_t bytes;
    if (__builtin_mul_overflow(rows->scratch, (size_t)ctx->threads, &bytes))
        return SIZE_MAX / 2; /* no allocator grants this */
    return bytes;
}

/* -- moving a block between an operand and scratch memory -- */

/* Copies (m, n) elements of 4 or 8 bytes; strides in bytes. The inner loop is the second dimension. */
static inline void move_elements(size_t element, int64_t m, int64_t n, char *to, int64_t to_m, int64_t to_n,
                                 const char *from, int64_t from_m, int64_t from_n)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            memcpy(to + i * to_m + j * to_n, from + i * from_m + j * from_n, element);
}

static void move_block(size_t element, int64_t m, int64_t n, char *to, int64_t to_m, int64_t to_n, const char *from,
                       int64_t from_m, int64_t from_n)
{
    if (element == 4)
        move_elements(4, m, n, to, to_m, to_n, from, from_m, from_n);
    else
        move_elements(8, m, n, to, to_m, to_n, from, from_m, from_n);
}

/* gather: copies `count` rows from the operand at `memory`, row_stride elements apart, to packed rows at `buffer`.
 * Otherwise copies them back. */
static void move_rows(const th_rows *rows, const struct th_rows_operand *operand, bool gather, int64_t count,
                      char *memory, int64_t row_stride, char *buffer)
{
    const int64_t element = (int64_t)operand->element_size;
    const int last = rows->inner_dims - 1;
    const int64_t length = rows->inner[last], packed_row = rows->length * element;
    const int64_t row = row_stride * element, column = operand->inner[last] * element;
    const bool rows_innermost = (row < 0 ? -row : row) < (column < 0 ? -column : column);
    int64_t index[TH_MAX_DIMS] = {0};
    for (int64_t done = 0; done < rows->length; done += length) {
        char *at = memory, *packed = buffer + done * element;
        for (int i = 0; i < last; i++)
            at += index[i] * operand->inner[i] * element;
        if (gather && rows_innermost)
            move_block(operand->element_size, length, count, packed, element, packed_row, at, column, row);
        else if (gather)
            move_block(operand->element_size, count, length, packed, packed_row, element, at, row, column);
        else if (rows_innermost)
            move_block(operand->element_size, length, count, at, column, row, packed, element, packed_row);
        else
            move_block(operand->element_size, count, length, at, row, column, packed, packed_row, element);
        for (int i = last - 1; i >= 0 && ++index[i] == rows->inner[i]; i--)
            index[i] = 0;
    }
}

/* Runs the kernel on the rows first .. end-1 in order, on this thread. */
static void run_rows(const th_rows *rows, int64_t first, int64_t end, char *scratch, th_rows_kernel *kernel,
                     const void *parameters)
{
    const int last = rows->outer_dims - 1;
    for (int64_t row = first; row < end;) {
        int64_t index[TH_MAX_DIMS];
        th_index_at(rows->outer_dims, rows->outer, row, index);
        th_rows_block block = {
            .first = row, .count = end - row, .length = rows->length, .add = rows->add, .parameters = parameters};
        if (last >= 0 && rows->outer[last] - index[last] < block.count)
            block.count = rows->outer[last] - index[last];
        if (rows->block > 0 && rows->block < block.count)
            block.count = rows->block;
        if (rows->group > 0 && rows->group - row % rows->group < block.count)
            block.count = rows->group - row % rows->group;
        char *memory[TH_ROWS_OPERANDS] = {0};
        for (int i = 0; i < TH_ROWS_OPERANDS; i++) {
            const struct th_rows_operand *operand = &rows->operand[i];
            if (operand->element_size == 0)
                continue;
            memory[i] =
                operand->data + th_offset_of(rows->outer_dims, index, operand->outer) * (int64_t)operand->element_size;
            block.operand[i] = memory[i];
            block.stride[i] = last >= 0 ? operand->outer[last] : 0;
            if (operand->direct)
                continue;
            block.operand[i] = scratch + operand->buffer;
            if (operand->access != TH_ROWS_WRITE)
                move_rows(rows, operand, true, block.count, memory[i], block.stride[i], block.operand[i]);
            block.stride[i] = rows->length;
        }
        kernel(&block);
        for (int i = 0; i < TH_ROWS_OPERANDS; i++) {
            const struct th_rows_operand *operand = &rows->operand[i];
            if (!operand->direct && operand->access != TH_ROWS_READ)
                move_rows(rows, operand, false, block.count, memory[i], last >= 0 ? operand->outer[last] : 0,
                          block.operand[i]);
        }
        row += block.count;
    }
}

typedef struct rows_run {
    const th_rows *rows;
    int64_t unit; /* rows that one thread runs together */
    char *scratch;
    th_rows_kernel *kernel;
    const void *parameters;
} rows_run;

static void rows_task(void *shared, int64_t first, int64_t end, int worker)
{
    const rows_run *run = shared;
    const int64_t past = end * run->unit; /* at most rows + unit: no overflow */
    char *scratch = run->scratch ? run->scratch + (size_t)worker * run->rows->scratch : NULL;
    run_rows(run->rows, first * run->unit, past < run->rows->rows ? past : run->rows->rows, scratch, run->kernel,
             run->parameters);
}

/* Returns whether there is nothing to compute: the rows have no elements, and no operand has other numbers of a row. */
static bool needs_no_run(const th_rows *rows)
{
    bool values = false;
    for (int i = 0; i < TH_ROWS_OPERANDS; i++)
        values |= rows->operand[i].per_row;
    return rows->length == 0 && !values;
}

void th_rows_run(const th_context *ctx, const th_rows *rows, int64_t cost, void *scratch, th_rows_kernel *kernel,
                 const void *parameters)
{
    rows_run run = {rows, rows->group > 0 ? rows->group : 1, scratch, kernel, parameters};
    int64_t unit_cost;
    if (needs_no_run(rows))
        return;
    if (!th_checked_multiply(rows->length, cost, &unit_cost) || !th_checked_multiply(unit_cost, run.unit, &unit_cost))
        unit_cost = INT64_MAX;
    const int64_t units = th_ceil_div(rows->rows, run.unit);
    th_for_rows(ctx, units, unit_cost > 0 ? unit_cost : 1, rows_task, &run);
}

/* -- row-wise operations -- */

/* Sets an operand with one number for each row: its axes `along` are missing or have size 1. Or it has a few contiguous
 * numbers instead of these axes. It is always passed without a copy. */
static void set_values(th_rows *rows, int operand, const th_array *array, th_rows_access access)
{
    if (!array->given)
        return;
    struct th_rows_operand *to = &rows->operand[operand];
    *to = (struct th_rows_operand){
        .data = array->data, .element_size = th_dtype_size(array->dtype), .access = access, .per_row = true};
    const bool has_axes = array->ndim == rows->ndim;
    int outer = 0;
    for (int i = 0; i < array->ndim; i++)
        if (!has_axes || !(rows->along >> i & 1))
            to->outer[outer++] = array->stride[i];
}

void th_rows_of_call(th_rows *rows, const th_call *call, bool backward, uint32_t along)
{
    const uint32_t saves = call->op->saves;
    const th_rows_access result = backward ? TH_ROWS_READ : TH_ROWS_WRITE;
    const bool reduces = ((const th_rows_operation *)call->op->kernel)->reduces;
    void (*const set)(th_rows *, int, const th_array *, th_rows_access) = reduces ? set_values : th_rows_set;
    th_rows_init(rows, &call->input[0], along);
    if (!backward || saves & TH_INPUT(0))
        th_rows_set(rows, TH_ROW_X, &call->input[0], TH_ROWS_READ);
    if (!backward || saves & TH_OUTPUT(0))
        set(rows, TH_ROW_Y, &call->output[0], result);
    if (backward) {
        set(rows, TH_ROW_DY, &call->output_gradient[0], TH_ROWS_READ);
        th_rows_set(rows, TH_ROW_DX, &call->input_gradient[0], call->add[0] ? TH_ROWS_ADD : TH_ROWS_WRITE);
    }
    if (call->n_outputs > 1)
        set_values(rows, TH_ROW_SAVED, &call->output[1], result);
    th_rows_finish(rows);
}

void th_rows_plan(const th_call *call, bool backward, void *plan)
{
    th_rows *rows = plan;
    th_rows_of_call(rows, call, backward, th_along(call));
    rows->scratch_offset = th_plan_scratch(call, 1, th_rows_scratch(call->ctx, rows));
}

static th_rows_kernel *kernel_of(const th_call *call, th_rows_id id)
{
    const th_kernels *kernels = th_call_kernels(call);
    switch (id) {
#define ROWS(name)                                                                                                     \
    case th_rows_id_##name:                                                                                            \
        return kernels->name;
#include "rows.def"
#undef ROWS
    case TH_ROWS_KERNELS:
        break;
    }
    return NULL;
}

void th_rows_compute(const th_rows *rows, const th_call *call, bool backward, const void *parameters)
{
    const th_rows_operation *operation = call->op->kernel;
    th_rows_run(call->ctx, rows, backward ? operation->backward_cost : operation->forward_cost,
                th_call_scratch(call, rows->scratch_offset),
                kernel_of(call, backward ? operation->backward : operation->forward), parameters);
}

static const void *parameters_of(const th_call *call)
{
    const size_t offset = ((const th_rows_operation *)call->op->kernel)->parameters_offset;
    return offset > 0 ? (const char *)call->attributes + offset : NULL;
}

void th_rows_forward(const th_call *call)
{
    th_rows_compute(call->plan, call, false, parameters_of(call));
}

void th_rows_backward(const th_call *call)
{
    th_rows_compute(call->plan, call, true, parameters_of(call));
}
