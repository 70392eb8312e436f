/* embedding: y = table[indices], rows of a table. Backward adds the rows of dy to the table's gradient in the order of
 * the indices, with any number of threads. */
#include "ops/shared/indices.h"
#include "ops/shared/letters.h"
#include "ops/shared/stored_weight.h"
#include "tapehead/ops.h"
#include "tensor/context.h"
#include "tensor/elementwise.h"
#include "tensor/shape.h"
#include "tensor/strided_iterator.h"
#include "tensor/tensor.h"

static th_status embedding_shape(th_call *call)
{
    th_array numbers;
    const th_array *table = &numbers;
    if (th_call_weight(call, 0, &numbers) || th_call_index_type(call, 1))
        return TH_ERROR_TYPE;
    if (table->ndim != 2)
        return th_call_fail(call, TH_ERROR_SHAPE, "the table must have two dimensions, (V, E); it is %s",
                            TH_TEXT(table));
    int64_t size[TH_MAX_DIMS];
    th_axis_letters letters;
    const int ndim = th_indices_shape(call, table->size[1], th_letter(table, 1), size, letters);
    if (ndim == 0)
        return TH_ERROR_SHAPE;
    th_call_output(call, 0, th_is_storage_type(table->dtype) ? th_default_dtype(call->ctx) : table->dtype, ndim, size,
                   letters);
    return TH_OK;
}

typedef struct embedding_rows {
    const th_call *call;
    int64_t *index; /* (N) */
    int64_t count;  /* N */
} embedding_rows;

static embedding_rows embedding_rows_of(const th_call *call)
{
    return (embedding_rows){call, th_indices_of(call), th_array_numel(&call->input[1])};
}

static void copy_rows(void *shared, int64_t first, int64_t end, int worker)
{
    (void)worker;
    const embedding_rows *rows = shared;
    const th_array *table = &rows->call->input[0];
    const int64_t element = (int64_t)th_dtype_size(table->dtype), width = table->size[1];
    for (int64_t i = first; i < end; i++)
        th_copy_strided(width, element, (char *)rows->call->output[0].data + i * width * element, element,
                        (const char *)table->data + rows->index[i] * table->stride[0] * element,
                        table->stride[1] * element);
}

/* The same from a table of a storage type. */
static void load_rows(void *shared, int64_t first, int64_t end, int worker)
{
    (void)worker;
    const embedding_rows *rows = shared;
    const th_array *table = &rows->call->input[0], *y = &rows->call->output[0];
    const int64_t element = (int64_t)th_dtype_size(table->dtype), width = th_weight_numbers(table).size[1];
    const th_kernels *kernels = th_context_kernels(rows->call->ctx, y->dtype);
    for (int64_t i = first; i < end; i++)
        kernels->storage_load(width, (int)table->dtype,
                              (const char *)table->data + rows->index[i] * table->stride[0] * element, 0,
                              (char *)y->data + i * width * (int64_t)th_dtype_size(y->dtype));
}

static void embedding_forward(const th_call *call)
{
    embedding_rows rows = embedding_rows_of(call);
    if (!th_indices_check(call, 1, "indices", call->input[0].size[0], rows.index))
        return;
    if (th_array_numel(&call->output[0]) > 0)
        th_for_rows(call->ctx, rows.count, th_weight_numbers(&call->input[0]).size[1],
                    th_is_storage_type(call->input[0].dtype) ? load_rows : copy_rows, &rows);
}

enum { COLUMNS = 16 }; /* columns of every row for one task: a cache line of floats */

/* Computes columns first * COLUMNS .. end * COLUMNS - 1 of the table's gradient (V, E) from all rows of dy (.., E), in
 * their order. Rows at equal distances in memory form a run: one run if dy is contiguous. */
static void add_columns(void *shared, int64_t first, int64_t end, int worker)
{
    (void)worker;
    const embedding_rows *rows = shared;
    const th_array *dtable = &rows->call->input_gradient[0], *dy = &rows->call->output_gradient[0];
    const int64_t element = (int64_t)th_dtype_size(dtable->dtype), column = dy->stride[dy->ndim - 1];
    const int64_t begin = first * COLUMNS, width = dtable->size[1];
    const int64_t columns = (end * COLUMNS < width ? end * COLUMNS : width) - begin;
    const th_array from = th_select_axes(dy, (1u << (dy->ndim - 1)) - 1);
    th_iterator iterator;
    if (!th_iterator_build_row_major(&iterator, &from, 0, NULL))
        return;
    th_iterator_position position;
    th_iterator_seek(&iterator, 0, &position);
    const int64_t run = th_iterator_run_length(&iterator, &position),
                  row = iterator.array[0].stride[iterator.ndim - 1] / element;
    for (int64_t start = 0; start < iterator.numel; start += run, th_iterator_advance(&iterator, run, &position))
        th_call_kernels(rows->call)
            ->add_rows(run, rows->index + start, columns, position.address[0] + begin * column * element, row, column,
                       (char *)dtable->data + begin * dtable->stride[1] * element, dtable->stride[0],
                       dtable->stride[1]);
}

/* y_n = table_{index_n}:  dtable_v = sum over the n with index_n = v of dy_n, in the order of n */
static void embedding_backward(const th_call *call)
{
    embedding_rows rows = embedding_rows_of(call);
    if (!call->add[0])
        th_fill_array(call->ctx, &call->input_gradient[0], 0);
    const int64_t width = call->input[0].size[1];
    if (rows.count > 0)
        th_for_rows(call->ctx, width / COLUMNS + (width % COLUMNS != 0), rows.count * COLUMNS, add_columns, &rows);
}

static const th_sample embedding_samples[] = {
    {"sequence", NULL, 2, .input = {{.shape = {2, {3, 4}}}, {.shape = {1, {5}}, .kind = TH_SAMPLE_INDEX, .high = 3}}},
    {"batch", NULL, 2, .input = {{.shape = {2, {4, 2}}}, {.shape = {2, {2, 3}}, .kind = TH_SAMPLE_INDEX, .high = 4}}},
    {"wide", NULL, 2, {{.shape = {2, {2, 19}}}, {.shape = {1, {3}}, .kind = TH_SAMPLE_INDEX, .high = 2}}, 0},
    {"one", NULL, 2, {{.shape = {2, {3, 2}}}, {.shape = {0, {0}}, .kind = TH_SAMPLE_INDEX, .high = 3}}, 0},
    {.name = NULL},
};

const th_op th_op_embedding = {
    .name = "embedding",
    .value = "y = table[indices]",
    .gradient = "dtable[indices] += dy",
    .n_inputs = 2,
    .saves = TH_INPUT(1),
    .shape = embedding_shape,
    .forward = embedding_forward,
    .backward = embedding_backward,
    .plan = th_indices_plan,
    .plan_size = sizeof(size_t),
    .samples = embedding_samples,
    .storage = TH_INPUT(0),
};

th_tensor *th_embedding(th_tensor *table, th_tensor *indices)
{
    return th_apply(&th_op_embedding, NULL, table, indices);
}
