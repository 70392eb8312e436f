/* Position embeddings: learned, or sinusoids (Vaswani et al. 2017). Attention computes rotary positions and ALiBi. */
#include "nn/positions.h"

#include "kernels/elementwise/scalar.h"
#include "nn/module.h"
#include "tapehead/tensor.h"
#include "tensor/context.h"
#include "tensor/convert.h"
#include "tensor/tensor.h"

/* -- sinusoids: a module without parameters, which frees the table with the model -- */

typedef struct sinusoids {
    th_module base;
    th_tensor *table; /* (length, E) in float64, converted at each use, because the model's type may change */
} sinusoids;

static void free_table(th_module *m)
{
    th_tensor_free(((sinusoids *)m)->table);
}

static th_tensor *sinusoids_forward(th_module *m, th_tensor *positions)
{
    return th_embedding(((const sinusoids *)m)->table, positions);
}

static const th_module_type sinusoids_type = {
    .name = "sinusoidal_positions", .bytes = sizeof(sinusoids), .forward = sinusoids_forward};

static void fill_sinusoids(double *table, int64_t length, int64_t width)
{
    for (int64_t i = 0; i < width; i += 2) {
        const double frequency = th_scalar_pow(10000, -(double)i / (double)width);
        for (int64_t p = 0; p < length; p++) {
            double *pair = table + p * width + i;
            pair[0] = th_scalar_sin((double)p * frequency);
            if (i + 1 < width)
                pair[1] = th_scalar_cos((double)p * frequency);
        }
    }
}

static th_module *sinusoids_new(th_context *ctx, int64_t length, int64_t width)
{
    sinusoids *s = th_module_new_of_type(ctx, &sinusoids_type);
    if (s == NULL)
        return NULL;
    s->base.destroy = free_table;
    const th_tensor_impl *table =
        th_tensor_new(ctx, TH_FLOAT64, 2, (const int64_t[]){length, width}, true, s->base.type);
    s->table = th_handle_of(table);
    if (table && !ctx->options.shapes_only)
        fill_sinusoids(th_tensor_data(table), length, width);
    return th_module_finish(&s->base);
}

/* -- as a member of a model -- */

void th_positions_add_member(th_positions *p, th_module *model, const char *name, th_position_kind kind, int64_t width)
{
    th_context *ctx = model->ctx;
    const int64_t rows = p->first + p->length;
    if (kind == TH_POSITIONS_LEARNED) {
        p->member = th_module_add(model, name, th_embedding_new(ctx, rows, width));
        p->table = th_module_find_parameter(p->member, "weight");
    } else if (kind == TH_POSITIONS_SINUSOIDAL) {
        p->member = th_module_add(model, name, sinusoids_new(ctx, rows, width));
        p->table = p->member ? ((const sinusoids *)p->member)->table : NULL;
    }
}

static th_status check_positions(const th_module *m, const th_array *tokens, const char *what, th_tensor *handle)
{
    th_context *ctx = m->ctx;
    const th_tensor_impl *positions = th_usable_tensor(handle, ctx, m->type, "positions");
    if (positions == NULL)
        return ctx->error;
    const th_array a = th_tensor_array(positions);
    if (!th_is_index(a.dtype))
        return th_fail(ctx, TH_ERROR_TYPE, m->type, "positions must be int32 or int64; they are %s",
                       th_dtype_name(a.dtype));
    const bool fits = (a.ndim == 1 || a.ndim == 2) && a.size[a.ndim - 1] == tokens->size[1] &&
                      (a.ndim == 1 || a.size[0] == tokens->size[0]);
    if (!fits)
        return th_fail(ctx, TH_ERROR_SHAPE, m->type, "positions must be (T) or (B, T) for %s %s; they are %s", what,
                       TH_TEXT(tokens), TH_TEXT(&a));
    return TH_OK;
}

th_status th_positions_check(const th_positions *p, const th_module *model, const char *what, th_tensor *tokens,
                             th_tensor *positions)
{
    th_context *ctx = model->ctx;
    const th_tensor_impl *impl = th_usable_tensor(tokens, ctx, model->type, what);
    if (impl == NULL)
        return ctx->error;
    const th_array a = th_tensor_array(impl);
    if (!th_is_index(a.dtype))
        return th_fail(ctx, TH_ERROR_TYPE, model->type, "%s must be int32 or int64; they are %s", what,
                       th_dtype_name(a.dtype));
    if (a.ndim != 2)
        return th_fail(ctx, TH_ERROR_SHAPE, model->type, "%s must be (B, T); they are %s", what, TH_TEXT(&a));
    if (a.size[1] > p->length)
        return th_fail(ctx, TH_ERROR_SHAPE, model->type,
                       "a sequence has at most %lld tokens, one for each position; these have %lld",
                       (long long)p->length, (long long)a.size[1]);
    return positions ? check_positions(model, &a, what, positions) : TH_OK;
}

th_tensor *th_positions_apply(const th_positions *p, th_tensor *x, th_tensor *positions)
{
    if (p->table == NULL || x == NULL)
        return x;
    th_tensor *rows;
    if (th_module_is_replaced(p->member)) {
        if (positions == NULL)
            positions = th_arange(p->member->ctx, TH_INT64, 0, (double)th_size(x, 1), 1);
        rows = th_module_forward(p->member, positions);
    } else {
        const int64_t count = positions ? p->length : th_size(x, 1);
        rows = th_slice(p->table, 0, p->first, p->first + count, 1); /* a view */
        rows = positions ? th_embedding(rows, positions) : rows;
    }
    if (rows == NULL)
        return NULL;
    return th_add(x, th_cast(rows, th_dtype_of(x)));
}

th_tensor *th_positions_in_documents(const th_module *model, th_tensor *documents)
{
    const th_tensor_impl *impl = th_usable_tensor(documents, model->ctx, model->type, "documents");
    if (impl == NULL)
        return NULL;
    const th_array numbers = th_tensor_array(impl);
    if (!th_is_index(numbers.dtype) || numbers.ndim < 1 || numbers.ndim > 2) {
        th_fail(model->ctx, TH_ERROR_SHAPE, model->type,
                "documents must be int32 or int64 (T) or (B, T); they are %s %s", th_dtype_name(numbers.dtype),
                TH_TEXT(&numbers));
        return NULL;
    }
    th_tensor_impl *result = th_tensor_new(model->ctx, TH_INT64, numbers.ndim, numbers.size, false, model->type);
    int64_t *position = result ? th_tensor_data(result) : NULL; /* NULL in a shapes-only context */
    const int last = numbers.ndim - 1;
    const int64_t rows = last > 0 ? numbers.size[0] : 1, count = numbers.size[last], stride = numbers.stride[last];
    const int64_t size = (int64_t)th_dtype_size(numbers.dtype);
    for (int64_t row = 0; position && row < rows; row++) {
        const char *number = (const char *)numbers.data + (last > 0 ? row * numbers.stride[0] : 0) * size;
        for (int64_t t = 0; t < count; t++, number += stride * size) {
            const bool starts_document = t == 0 || th_integer_read(numbers.dtype, number) !=
                                                       th_integer_read(numbers.dtype, number - stride * size);
            position[row * count + t] = starts_document ? 0 : position[row * count + t - 1] + 1;
        }
    }
    return th_handle_of(result);
}

th_tensor *th_select_rows(th_tensor *x, th_tensor *rows)
{
    if (x == NULL || rows == NULL)
        return x;
    th_context *ctx = th_context_of(x);
    const th_tensor_impl *indices = th_usable_tensor(rows, ctx, "rows", "rows");
    const th_shape shape = th_shape_of(x);
    if (indices == NULL)
        return NULL;
    const th_array a = th_tensor_array(indices);
    if (!th_is_index(a.dtype) || a.ndim != 1 || a.size[0] != shape.size[0]) {
        th_fail(ctx, TH_ERROR_SHAPE, "rows", "rows must be int32 or int64 (B), that is (%lld); they are %s %s",
                (long long)shape.size[0], th_dtype_name(a.dtype), TH_TEXT(&a));
        return NULL;
    }
    const int64_t batch = shape.size[0], width = shape.size[2];
    th_tensor *index = th_expand(th_reshape(rows, TH_SHAPE(batch, 1, 1)), TH_SHAPE(batch, 1, width));
    return th_reshape(th_gather(x, 1, index), TH_SHAPE(batch, width));
}
