/* Layers of one operation each, with its parameters: dense, embedding, layer norm, RMS norm, dropout. */
#include <math.h>

#include "nn/layers.h"
#include "tapehead/layers.h"
#include "tapehead/tensor.h"
#include "tensor/context.h"
#include "tensor/tensor.h"

static bool check_positive(th_context *ctx, const char *layer, const char *what, int64_t size)
{
    if (ctx == NULL || th_failed(ctx))
        return false;
    if (size > 0)
        return true;
    th_fail(ctx, TH_ERROR_ARGUMENT, layer, "%s must be positive; it is %lld", what, (long long)size);
    return false;
}

/* Fills a parameter by fill(parameter, a, b) and returns it; NULL with an error pending. */
static th_tensor *fill_parameter(th_tensor *parameter, th_status (*fill)(th_tensor *, double, double), double a,
                                 double b)
{
    return parameter && fill(parameter, a, b) == TH_OK ? parameter : NULL;
}

/* -- dense -- */

/* Returns x W^T + b, plus the adapter's output and the residual, which may be NULL. */
static th_tensor *apply_dense(const th_dense_layer *l, th_tensor *x, th_tensor *residual)
{
    return th_dense(x, l->weight,
                    &(th_dense_options){.bias = l->bias, .residual = th_lora_residual(l->lora, x, residual)});
}

static th_tensor *dense_layer_forward(th_module *m, th_tensor *x)
{
    return apply_dense((const th_dense_layer *)m, x, NULL);
}

const th_module_type th_dense_type = {.name = "dense", .bytes = sizeof(th_dense_layer), .forward = dense_layer_forward};

th_tensor *th_dense_residual(th_module *dense, th_tensor *x, th_tensor *residual)
{
    if (th_module_usable(dense, "dense_residual") && th_module_is(dense, &th_dense_type) &&
        th_module_is_replaced(dense))
        return th_dropout_residual(th_module_forward(dense, x), 0, residual); /* does not broadcast */
    if (!th_module_begin_as(dense, &th_dense_type, "dense_residual", "dense layer"))
        return NULL;
    if (!th_usable_tensor(residual, dense->ctx, "dense_residual", "the residual"))
        return th_module_end(dense, NULL);
    return th_module_end(dense, apply_dense((const th_dense_layer *)dense, x, residual));
}

th_module *th_dense_new(th_context *ctx, int64_t in, int64_t out, const th_dense_layer_options *options)
{
    if (!check_positive(ctx, "dense", "the input width", in) || !check_positive(ctx, "dense", "the output width", out))
        return NULL;
    th_dense_layer *l = th_module_new_of_type(ctx, &th_dense_type);
    if (l == NULL)
        return NULL;
    const double bound = 1.0 / sqrt((double)in);
    l->weight =
        fill_parameter(th_module_add_parameter(&l->base, "weight", TH_SHAPE(out, in)), th_fill_uniform, -bound, bound);
    if (!options || !options->no_bias)
        l->bias =
            fill_parameter(th_module_add_parameter(&l->base, "bias", TH_SHAPE(out)), th_fill_uniform, -bound, bound);
    return th_module_finish(&l->base);
}

/* -- embedding -- */

typedef struct embedding_layer {
    th_module base;
    th_tensor *weight; /* (count, width) */
} embedding_layer;

static th_tensor *embedding_layer_forward(th_module *m, th_tensor *indices)
{
    return th_embedding(((const embedding_layer *)m)->weight, indices);
}

static const th_module_type embedding_type = {
    .name = "embedding", .bytes = sizeof(embedding_layer), .forward = embedding_layer_forward};

th_module *th_embedding_new(th_context *ctx, int64_t count, int64_t width)
{
    if (!check_positive(ctx, "embedding", "the number of rows", count) ||
        !check_positive(ctx, "embedding", "the width", width))
        return NULL;
    embedding_layer *l = th_module_new_of_type(ctx, &embedding_type);
    if (l == NULL)
        return NULL;
    l->weight =
        fill_parameter(th_module_add_parameter(&l->base, "weight", TH_SHAPE(count, width)), th_fill_normal, 0, 1);
    return th_module_finish(&l->base);
}

/* -- norms -- */

typedef struct norm_layer {
    th_module base;
    th_tensor *weight, *bias; /* (width) or NULL */
    int64_t width;
    double eps;
    bool unit_offset;
} norm_layer;

/* Checks the width of x. Without a weight, the operation would accept any width. */
static bool check_width(const norm_layer *l, th_tensor *x)
{
    if (th_ndim(x) > 0 && th_size(x, -1) == l->width)
        return true;
    th_fail(l->base.ctx, TH_ERROR_SHAPE, l->base.type, "the last axis of x must have size %lld, the layer's width",
            (long long)l->width);
    return false;
}

/* Returns the factor of each row, (width) or NULL. */
static th_tensor *row_factor(const norm_layer *l)
{
    return l->unit_offset ? th_add_scalar(l->weight, 1) : l->weight;
}

static th_tensor *layer_norm_layer_forward(th_module *m, th_tensor *x)
{
    const norm_layer *l = (const norm_layer *)m;
    if (!check_width(l, x))
        return NULL;
    return th_layer_norm(x, &(th_norm_options){.weight = row_factor(l), .bias = l->bias, .eps = l->eps});
}

static th_tensor *rms_norm_layer_forward(th_module *m, th_tensor *x)
{
    const norm_layer *l = (const norm_layer *)m;
    if (!check_width(l, x))
        return NULL;
    return th_rms_norm(x, &(th_norm_options){.weight = row_factor(l), .eps = l->eps});
}

static const th_module_option norm_options[] = {
    TH_MODULE_REAL(norm_layer, eps), TH_MODULE_FLAG(norm_layer, unit_offset), {.name = NULL}};
static const th_module_type layer_norm_type = {
    .name = "layer_norm", .bytes = sizeof(norm_layer), .forward = layer_norm_layer_forward, .options = norm_options};
static const th_module_type rms_norm_type = {
    .name = "rms_norm", .bytes = sizeof(norm_layer), .forward = rms_norm_layer_forward, .options = norm_options};

static th_module *norm_new(th_context *ctx, const th_module_type *type, int64_t width,
                           const th_norm_layer_options *options)
{
    const th_norm_layer_options given = options ? *options : (th_norm_layer_options){0};
    if (!check_positive(ctx, type->name, "the width", width))
        return NULL;
    if (!(given.eps >= 0))
        th_fail(ctx, TH_ERROR_ARGUMENT, type->name, "eps must not be negative; it is %g", given.eps);
    if (given.no_weight && given.unit_offset)
        th_fail(ctx, TH_ERROR_ARGUMENT, type->name, "unit_offset adds 1 to the weight, but no_weight leaves it out");
    norm_layer *l = th_module_new_of_type(ctx, type); /* NULL if an error is pending */
    if (l == NULL)
        return NULL;
    l->width = width;
    l->eps = given.eps;
    l->unit_offset = given.unit_offset;
    if (!given.no_weight) {
        l->weight = th_module_add_parameter(&l->base, "weight", TH_SHAPE(width));
        if (l->weight && !given.unit_offset && th_fill(l->weight, 1) != TH_OK)
            l->weight = NULL;
    }
    if (type == &layer_norm_type && !given.no_weight && !given.no_bias)
        l->bias = th_module_add_parameter(&l->base, "bias", TH_SHAPE(width));
    return th_module_finish(&l->base);
}

th_module *th_layer_norm_new(th_context *ctx, int64_t width, const th_norm_layer_options *options)
{
    return norm_new(ctx, &layer_norm_type, width, options);
}

th_module *th_rms_norm_new(th_context *ctx, int64_t width, const th_norm_layer_options *options)
{
    return norm_new(ctx, &rms_norm_type, width, options);
}

/* -- dropout -- */

typedef struct dropout_layer {
    th_module base;
    double p;
} dropout_layer;

static th_tensor *dropout_layer_forward(th_module *m, th_tensor *x)
{
    return th_dropout(x, ((const dropout_layer *)m)->p);
}

static const th_module_option dropout_options[] = {TH_MODULE_REAL(dropout_layer, p), {.name = NULL}};
static const th_module_type dropout_type = {
    .name = "dropout", .bytes = sizeof(dropout_layer), .forward = dropout_layer_forward, .options = dropout_options};

th_module *th_dropout_new(th_context *ctx, double p)
{
    if (ctx == NULL || th_failed(ctx))
        return NULL;
    if (!(p >= 0 && p < 1)) {
        th_fail(ctx, TH_ERROR_ARGUMENT, "dropout", "p must be in [0, 1); it is %g", p);
        return NULL;
    }
    dropout_layer *l = th_module_new_of_type(ctx, &dropout_type);
    if (l == NULL)
        return NULL;
    l->p = p;
    return th_module_finish(&l->base);
}
