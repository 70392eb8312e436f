/* What layer_norm and rms_norm share (norm.h). */
#include "ops/shared/norm.h"

#include <math.h>
#include <string.h>

#include "ops/shared/rows.h"
#include "ops/shared/scratch.h"
#include "tensor/elementwise.h"

enum {
    BLOCK_ROWS =
        32, /* at least; the gradients of weight and bias are summed in blocks of rows, which are then added in order */
    BLOCK_ELEMENTS = 8192 /* at least */
};

static th_status check_vector(th_call *c, int i, const char *name)
{
    const th_array *x = &c->input[TH_NORM_X], *v = &c->input[i];
    if (!v->given)
        return TH_OK;
    if (v->ndim != 1 || v->size[0] != x->size[x->ndim - 1])
        return th_call_fail(c, TH_ERROR_SHAPE, "%s is %s, but the last axis of x %s has %lld elements", name,
                            TH_TEXT(v), TH_TEXT(x), (long long)x->size[x->ndim - 1]);
    return TH_OK;
}

th_status th_norm_shape(th_call *c, int kept)
{
    const th_array *x = &c->input[TH_NORM_X];
    for (int i = 0; i < c->n_inputs; i++) {
        const th_status status = th_call_floating(c, i);
        if (status)
            return status;
    }
    if (x->ndim == 0)
        return th_call_fail(c, TH_ERROR_SHAPE, "x has no axis to normalise along");
    th_status status = th_call_same_type(c);
    if (!status)
        status = check_vector(c, TH_NORM_WEIGHT, "weight");
    if (!status)
        status = check_vector(c, TH_NORM_BIAS, "bias");
    if (status)
        return status;
    th_norm_attributes *attributes = th_call_attributes(c);
    if (!(attributes->eps >= 0) || !isfinite(attributes->eps))
        return th_call_fail(c, TH_ERROR_ARGUMENT, "eps is %g, but it must be a positive number", attributes->eps);
    if (attributes->eps == 0)
        attributes->eps = 1e-5;
    th_call_output(c, 0, x->dtype, x->ndim, x->size, x->axes);
    int64_t size[TH_MAX_DIMS];
    memcpy(size, x->size, sizeof size);
    size[x->ndim - 1] = kept;
    th_call_output(c, 1, x->dtype, x->ndim, size, NULL);
    return TH_OK;
}

static bool needs_copy(const th_array *v)
{
    return v->given && v->size[0] > 1 && v->stride[0] != 1;
}

/* Weight or bias as the kernels read it, contiguous; NULL when it is not there (in backward: not saved, because nothing
 * that is asked for reads it). */
static const void *contiguous_vector(const th_call *c, int i, char **scratch)
{
    const th_array *v = &c->input[i];
    if (!v->given || !v->data)
        return NULL;
    if (!needs_copy(v))
        return v->data;
    th_array copy = *v;
    copy.stride[0] = 1;
    copy.data = th_scratch_take(scratch, v->size[0], th_dtype_size(v->dtype));
    th_copy_array(c->ctx, &copy, v, false);
    return copy.data;
}

static size_t vectors_scratch(const th_call *c)
{
    size_t bytes = 0;
    for (int i = TH_NORM_WEIGHT; i <= TH_NORM_BIAS; i++)
        if (needs_copy(&c->input[i]))
            bytes = th_scratch_add(bytes, c->input[i].size[0], th_dtype_size(c->input[i].dtype));
    return bytes;
}

static uint32_t last_axis(const th_call *c)
{
    return 1u << (c->input[TH_NORM_X].ndim - 1);
}

/* -- forward -- */

typedef struct forward_work {
    th_norm_kernel *kernel;
    double eps;
    const void *weight, *bias; /* (E) or NULL */
    char *kept;                /* (rows, numbers per row) or NULL */
    size_t kept_bytes;         /* of one row */
    int y;                     /* which operand, or -1 */
} forward_work;

static int64_t kept_numbers(const th_call *c)
{
    return c->output[1].size[c->output[1].ndim - 1];
}

static void forward_rows(const th_call *c, th_rows *rows)
{
    th_rows_init(rows, &c->input[TH_NORM_X], last_axis(c));
    th_rows_add(rows, &c->input[TH_NORM_X], TH_ROWS_READ);
    if (c->output[0].given)
        th_rows_add(rows, &c->output[0], TH_ROWS_WRITE);
    th_rows_finish(rows);
}

static void forward_body(void *shared, const th_rows_block *b)
{
    const forward_work *work = shared;
    work->kernel(b->count, b->length, work->eps, b->operand[0], b->stride[0], work->weight, work->bias,
                 work->y < 0 ? NULL : b->operand[work->y], work->y < 0 ? 0 : b->stride[work->y],
                 work->kept ? work->kept + (size_t)b->first * work->kept_bytes : NULL);
}

void th_norm_forward(const th_call *c, th_norm_kernel *kernel)
{
    const th_norm_attributes *attributes = c->attributes;
    char *scratch = c->scratch;
    forward_work work = {.kernel = kernel, .eps = attributes->eps, .y = c->output[0].given ? 1 : -1};
    work.weight = contiguous_vector(c, TH_NORM_WEIGHT, &scratch);
    work.bias = contiguous_vector(c, TH_NORM_BIAS, &scratch);
    if (c->output[1].given) {
        work.kept = c->output[1].data;
        work.kept_bytes = (size_t)kept_numbers(c) * th_dtype_size(c->output[1].dtype);
    }
    th_rows rows;
    forward_rows(c, &rows);
    th_rows_run(c->ctx, &rows, 3, scratch, forward_body, &work);
}

/* -- backward -- */

typedef struct backward_work {
    th_norm_backward_kernel *kernel;
    th_rows rows;
    char *scratch;                   /* of the rows, per worker */
    const char *kept;                /* (rows, numbers per row) */
    size_t kept_bytes, vector_bytes; /* of one row of kept, of one (E) */
    const void *weight;              /* (E) or NULL */
    bool dx, add;
    char *dweight, *dbias; /* (blocks, E) partial sums, or NULL */
    int64_t block_rows;
} backward_work;

/* One block of rows on its way through th_rows_range. */
typedef struct block_work {
    const backward_work *work;
    void *dweight, *dbias; /* (E) or NULL */
} block_work;

static void backward_body(void *shared, const th_rows_block *b)
{
    const block_work *block = shared;
    const backward_work *work = block->work;
    work->kernel(b->count, b->length, b->operand[0], b->stride[0], work->kept + (size_t)b->first * work->kept_bytes,
                 work->weight, b->operand[1], b->stride[1], work->dx ? b->operand[2] : NULL,
                 work->dx ? b->stride[2] : 0, work->add, block->dweight, block->dbias);
}

static void backward_blocks(void *shared, int64_t first, int64_t end, int worker)
{
    const backward_work *work = shared;
    for (int64_t i = first; i < end; i++) {
        block_work block = {.work = work};
        if (work->dweight)
            block.dweight = memset(work->dweight + (size_t)i * work->vector_bytes, 0, work->vector_bytes);
        if (work->dbias)
            block.dbias = memset(work->dbias + (size_t)i * work->vector_bytes, 0, work->vector_bytes);
        const int64_t from = i * work->block_rows, to = from + work->block_rows;
        th_rows_range(&work->rows, from, to < work->rows.rows ? to : work->rows.rows,
                      work->scratch + (size_t)worker * work->rows.scratch, backward_body, &block);
    }
}

/* dx in rows, the gradients of the vectors as one partial sum per block. */
static void backward_plan(const th_call *c, backward_work *work, int64_t *blocks)
{
    th_rows_init(&work->rows, &c->input[TH_NORM_X], last_axis(c));
    th_rows_add(&work->rows, &c->input[TH_NORM_X], TH_ROWS_READ);
    th_rows_add(&work->rows, &c->output_gradient[0], TH_ROWS_READ);
    work->dx = c->input_gradient[TH_NORM_X].given;
    work->add = c->add[TH_NORM_X];
    if (work->dx)
        th_rows_add(&work->rows, &c->input_gradient[TH_NORM_X], work->add ? TH_ROWS_ADD : TH_ROWS_WRITE);
    th_rows_finish(&work->rows);
    const int64_t length = work->rows.length > 0 ? work->rows.length : 1;
    work->block_rows = BLOCK_ELEMENTS / length > BLOCK_ROWS ? BLOCK_ELEMENTS / length : BLOCK_ROWS;
    *blocks = work->rows.rows / work->block_rows + (work->rows.rows % work->block_rows > 0);
}

/* What the blocks have added up for the gradient of a vector. */
static th_array partial_sums(const th_call *c, int input, int64_t blocks, int64_t length, void *data)
{
    return (th_array){.given = true,
                      .data = data,
                      .dtype = c->input_gradient[input].dtype,
                      .ndim = 2,
                      .size = {blocks, length},
                      .stride = {length, 1}};
}

void th_norm_backward(const th_call *c, th_norm_backward_kernel *kernel)
{
    const size_t element = th_dtype_size(c->input[TH_NORM_X].dtype);
    char *scratch = c->scratch;
    int64_t blocks;
    backward_work work = {.kernel = kernel, .kept = c->output[1].data, .kept_bytes = (size_t)kept_numbers(c) * element};
    backward_plan(c, &work, &blocks);
    work.vector_bytes = (size_t)work.rows.length * element;
    work.weight = contiguous_vector(c, TH_NORM_WEIGHT, &scratch);
    if (c->input_gradient[TH_NORM_WEIGHT].given)
        work.dweight = th_scratch_take(&scratch, blocks * work.rows.length, element);
    if (c->input_gradient[TH_NORM_BIAS].given)
        work.dbias = th_scratch_take(&scratch, blocks * work.rows.length, element);
    work.scratch = scratch;
    if (blocks > 0)
        th_for_rows(c->ctx, blocks, 6 * work.block_rows * (work.rows.length > 0 ? work.rows.length : 1),
                    backward_blocks, &work);
    for (int i = TH_NORM_WEIGHT; i <= TH_NORM_BIAS; i++) {
        if (!c->input_gradient[i].given)
            continue;
        const th_array partial =
            partial_sums(c, i, blocks, work.rows.length, i == TH_NORM_WEIGHT ? work.dweight : work.dbias);
        th_sum_within(c->ctx, &c->input_gradient[i], &partial, c->add[i], scratch);
    }
}

size_t th_norm_scratch(const th_call *c, bool backward)
{
    size_t bytes = vectors_scratch(c);
    if (!backward) {
        th_rows rows;
        forward_rows(c, &rows);
        return bytes + th_rows_scratch(c->ctx, &rows);
    }
    backward_work work = {0};
    int64_t blocks;
    backward_plan(c, &work, &blocks);
    size_t last = th_rows_scratch(c->ctx, &work.rows); /* of the rows first, then of the sums over blocks */
    for (int i = TH_NORM_WEIGHT; i <= TH_NORM_BIAS; i++)
        if (c->input_gradient[i].given) {
            const th_array partial = partial_sums(c, i, blocks, work.rows.length, NULL);
            bytes = th_scratch_add(bytes, blocks * work.rows.length, th_dtype_size(c->input[TH_NORM_X].dtype));
            last = th_scratch_larger(last, th_sum_scratch(&c->input_gradient[i], &partial, c->add[i]));
        }
    return bytes + last;
}
