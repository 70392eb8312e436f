/* embedding: rows of a table. Backward adds the rows of dy to their places in the order in which they come, whatever
 * the number of threads. */
#include <string.h>

#include "ops/shared/indices.h"
#include "ops/shared/letters.h"
#include "ops/shared/scratch.h"
#include "ops/shared/walk.h"
#include "tapehead/op.h"
#include "tapehead/ops.h"
#include "tensor/context.h"
#include "tensor/elementwise.h"

static th_status embedding_shape(th_call *call)
{
    const th_array *table = &call->input[0], *indices = &call->input[1];
    if (th_call_floating(call, 0) || th_call_index_type(call, 1))
        return TH_ERROR_TYPE;
    if (table->ndim != 2)
        return th_call_fail(call, TH_ERROR_SHAPE, "the table must have two dimensions, (V, E); it is %s",
                            TH_TEXT(table));
    if (indices->ndim == TH_MAX_DIMS)
        return th_call_fail(call, TH_ERROR_SHAPE, "the indices, %s, have as many dimensions as a tensor can have",
                            TH_TEXT(indices));
    int64_t size[TH_MAX_DIMS];
    char letters[TH_MAX_DIMS + 1];
    for (int i = 0; i <= indices->ndim; i++) {
        size[i] = i < indices->ndim ? indices->size[i] : table->size[1];
        letters[i] = i < indices->ndim ? th_letter(indices, i) : th_letter(table, 1);
    }
    th_call_output(call, 0, table->dtype, indices->ndim + 1, size, th_letters(letters, indices->ndim + 1));
    return TH_OK;
}

typedef struct embedding_rows {
    const th_call *call;
    const int64_t *index; /* (N) */
    int64_t count;        /* N */
} embedding_rows;

static void take_rows(void *shared, int64_t first, int64_t end, int worker)
{
    (void)worker;
    const embedding_rows *rows = shared;
    const th_array *table = &rows->call->input[0];
    const int64_t element = (int64_t)th_dtype_size(table->dtype), width = table->size[1];
    th_array from = *table, to = *table; /* (E) */
    from.ndim = to.ndim = 1;
    from.size[0] = to.size[0] = width;
    from.stride[0] = table->stride[1];
    to.stride[0] = 1;
    for (int64_t i = first; i < end; i++) {
        from.data = (char *)table->data + rows->index[i] * table->stride[0] * element;
        to.data = (char *)rows->call->output[0].data + i * width * element;
        if (table->stride[1] == 1)
            memcpy(to.data, from.data, (size_t)(width * element));
        else
            th_copy_array(rows->call->ctx, &to, &from, false);
    }
}

static size_t embedding_scratch(const th_call *call, bool backward)
{
    (void)backward;
    return th_scratch_add(0, th_array_numel(&call->input[1]), sizeof(int64_t));
}

static void embedding_forward(const th_call *call)
{
    embedding_rows rows = {call, call->scratch, th_array_numel(&call->input[1])};
    th_indices_read(call, 1, call->scratch);
    if (!th_indices_check(call, 1, "indices", call->input[0].size[0], rows.index))
        return;
    if (th_array_numel(&call->output[0]) > 0)
        th_for_rows(call->ctx, rows.count, call->input[0].size[1], take_rows, &rows);
}

enum { COLUMNS = 16 }; /* one task's share of every row: a cache line of floats */

/* Columns first * COLUMNS .. end * COLUMNS of the table's gradient (V, E), for all rows of dy (.., E). */
static void add_columns(void *shared, int64_t first, int64_t end, int worker)
{
    (void)worker;
    const embedding_rows *rows = shared;
    const th_array *dtable = &rows->call->input_gradient[0], *dy = &rows->call->output_gradient[0];
    const int64_t element = (int64_t)th_dtype_size(dtable->dtype);
    const int64_t begin = first * COLUMNS, width = dtable->size[1];
    const int64_t columns = (end * COLUMNS < width ? end * COLUMNS : width) - begin;
    char *to = (char *)dtable->data + begin * dtable->stride[1] * element;

    /* dy in runs of rows that lie evenly: one run when it is contiguous. */
    const int axis = dy->ndim - 1;
    int inner = axis; /* axes inner .. axis-1 form one run */
    int64_t run = 1, row = dy->ndim > 1 ? dy->stride[axis - 1] : 0;
    while (inner > 0 && (run == 1 || dy->stride[inner - 1] == run * row)) {
        row = run == 1 ? dy->stride[inner - 1] : row;
        run *= dy->size[--inner];
    }
    th_walk walk = {.ndim = inner};
    for (int i = 0; i < inner; i++) {
        walk.size[i] = dy->size[i];
        walk.stride[0][i] = dy->stride[i];
    }
    for (int64_t start = 0; start < rows->count; start += run, th_walk_next(&walk)) {
        const char *from = (const char *)dy->data + (walk.offset[0] + begin * dy->stride[axis]) * element;
        th_context_kernels(rows->call->ctx, dtable->dtype)
            ->add_rows(run, rows->index + start, columns, from, row, dy->stride[axis], to, dtable->stride[0],
                       dtable->stride[1]);
    }
}

/* y_n = table_{index_n}:  dtable_v = sum over the n with index_n = v of dy_n, in the order of n */
static void embedding_backward(const th_call *call)
{
    const embedding_rows rows = {call, call->scratch, th_array_numel(&call->input[1])};
    th_indices_read(call, 1, call->scratch);
    if (!call->add[0])
        th_fill_array(call->ctx, &call->input_gradient[0], 0);
    const int64_t width = call->input[0].size[1];
    if (rows.count > 0)
        th_for_rows(call->ctx, width / COLUMNS + (width % COLUMNS != 0), rows.count * COLUMNS, add_columns,
                    (void *)&rows);
}

static const th_sample embedding_samples[] = {
    {"sequence",
     NULL,
     2,
     {{.shape = {2, {3, 4}}}, {.shape = {1, {5}}, .kind = TH_SAMPLE_INDEX, .low = 0, .high = 3}},
     0},
    {"batch",
     NULL,
     2,
     {{.shape = {2, {4, 2}}}, {.shape = {2, {2, 3}}, .kind = TH_SAMPLE_INDEX, .low = 0, .high = 4}},
     0},
    {"wide", NULL, 2, {{.shape = {2, {2, 19}}}, {.shape = {1, {3}}, .kind = TH_SAMPLE_INDEX, .low = 0, .high = 2}}, 0},
    {"one", NULL, 2, {{.shape = {2, {3, 2}}}, {.shape = {0, {0}}, .kind = TH_SAMPLE_INDEX, .low = 0, .high = 3}}, 0},
    {.name = NULL},
};

const th_op th_op_embedding = {
    .name = "embedding",
    .value = "y = table[indices]",
    .gradient = "dtable[indices] += dy",
    .n_inputs = 2,
    .saves = TH_SAVE_INPUT(1),
    .shape = embedding_shape,
    .forward = embedding_forward,
    .backward = embedding_backward,
    .scratch = embedding_scratch,
    .samples = embedding_samples,
};

th_tensor *(th_embedding)(th_tensor *table, th_tensor *indices)
{
    return th_apply(&th_op_embedding, NULL, table, indices);
}
