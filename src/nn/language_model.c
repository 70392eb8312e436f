/* The decoder-only language model: embedding, position embeddings, causal transformer blocks, a tied classifier, put
 * together from the public API. It has no cache of keys and values: a forward computes the whole sequence. */
#include <math.h>
#include <string.h>

#include "nn/module.h"
#include "tapehead/tensor.h"
#include "tapehead/transformer.h"
#include "tensor/context.h"
#include "tensor/tensor.h"

typedef struct language_model {
    th_module base;
    th_module *embedding, *position, *layers;
    th_module *norm;                /* NULL after post-norm blocks */
    th_tensor *classifier;          /* (V, E), the embedding's weight */
    th_tensor *position_embeddings; /* (length, E) */
    double dropout;
} language_model;

/* -- forward -- */

static th_status check_tokens(const language_model *l, th_tensor *handle)
{
    th_context *ctx = l->base.ctx;
    const th_body *tokens = th_usable(handle, ctx, l->base.type, "tokens");
    const th_body *positions =
        tokens ? th_usable(l->position_embeddings, ctx, l->base.type, "the position embeddings") : NULL;
    if (positions == NULL)
        return ctx->error;
    const th_array a = th_tensor_array(tokens);
    const int64_t length = positions->size[0];
    if (!th_is_index(a.dtype))
        return th_fail(ctx, TH_ERROR_TYPE, l->base.type, "tokens must be int32 or int64, they are %s",
                       th_dtype_name(a.dtype));
    if (a.ndim != 2)
        return th_fail(ctx, TH_ERROR_SHAPE, l->base.type, "tokens must be (B, T), they are %s", TH_TEXT(&a));
    if (a.size[1] > length)
        return th_fail(ctx, TH_ERROR_SHAPE, l->base.type,
                       "a sequence has at most %lld tokens, as many as there are positions; these have %lld",
                       (long long)length, (long long)a.size[1]);
    return TH_OK;
}

/* (B, T) -> (B, T, E): what the classifier sees. */
static th_tensor *hidden(const language_model *l, th_tensor *tokens)
{
    static const th_mask causal = {.causal = TH_CAUSAL_TOP_LEFT};
    if (check_tokens(l, tokens) != TH_OK)
        return NULL;
    th_tensor *positions = (th_slice)(l->position_embeddings, 0, 0, (th_size)(tokens, 1), 1); /* (T, E), a view */
    th_tensor *x = (th_add)((th_module_forward)(l->embedding, tokens), positions);
    if (x)
        (th_set_axes)(x, "BTE");
    x = (th_dropout)(x, l->dropout);
    for (th_module *block = l->layers->first; block; block = block->next)
        x = (th_transform)(block, x, &(th_transform_options){.mask = &causal});
    return l->norm ? (th_module_forward)(l->norm, x) : x;
}

static th_tensor *logits_of(const language_model *l, th_tensor *tokens)
{
    th_tensor *logits = (th_dense)(hidden(l, tokens), l->classifier, NULL);
    return logits ? (th_set_axes)(logits, "BTV") : NULL;
}

static th_tensor *language_model_forward(th_module *m, th_tensor *tokens)
{
    return logits_of((const language_model *)m, tokens);
}

th_tensor *(th_language_model_loss)(th_module *model, th_tensor *tokens, th_tensor *targets,
                                    const th_cross_entropy_options *options)
{
    if (!th_module_begin_as(model, language_model_forward, "language_model_loss", "language_model"))
        return NULL;
    const language_model *l = (const language_model *)model;
    th_tensor *loss = th_has_fusion(model->ctx)
                          ? (th_dense_cross_entropy)(hidden(l, tokens), l->classifier, targets, options)
                          : (th_cross_entropy)(logits_of(l, tokens), targets, options);
    return th_module_end(model, loss);
}

/* -- construction -- */

enum { MOST_LAYERS = 1 << 16 }; /* a slip is refused at once, not when memory is out */

static th_status check_options(th_context *ctx, const th_language_model_options *o)
{
    const char *const name[] = {"vocabulary", "length", "width", "heads", "layers"};
    const int64_t size[] = {o->vocabulary, o->length, o->width, o->heads, o->layers};
    for (int i = 0; i < 5; i++)
        if (size[i] <= 0)
            return th_fail(ctx, TH_ERROR_ARGUMENT, "language_model", "%s must be given and positive, it is %lld",
                           name[i], (long long)size[i]);
    if (o->layers > MOST_LAYERS)
        return th_fail(ctx, TH_ERROR_ARGUMENT, "language_model", "a model has at most %d layers, not %lld",
                       (int)MOST_LAYERS, (long long)o->layers);
    if (o->block.cross_attention)
        return th_fail(ctx, TH_ERROR_ARGUMENT, "language_model",
                       "a decoder-only model has no memory: .block.cross_attention must be false");
    if (!(o->dropout >= 0 && o->dropout < 1))
        return th_fail(ctx, TH_ERROR_ARGUMENT, "language_model", "dropout must be in [0, 1), it is %g", o->dropout);
    return TH_OK;
}

static bool ends_with(const char *name, const char *end)
{
    const size_t length = strlen(name), tail = strlen(end);
    return length >= tail && strcmp(name + length - tail, end) == 0;
}

/* GPT-2's numbers in place of the layers' own; weights of norms are 1 and their biases 0 already. */
static void initialise(language_model *l, int64_t branches)
{
    const double deviation = 0.02;
    for (th_parameter_iterator p = th_module_parameters(&l->base); th_parameter_next(&p);) {
        th_status status = TH_OK;
        if (ends_with(p.name, "bias"))
            status = (th_fill)(p.tensor, 0);
        else if (ends_with(p.name, "out_proj.weight") || ends_with(p.name, "linear2.weight"))
            status = (th_fill_normal)(p.tensor, 0, deviation / sqrt((double)branches));
        else if (th_ndim(p.tensor) > 1)
            status = (th_fill_normal)(p.tensor, 0, deviation);
        if (status != TH_OK)
            return;
    }
}

static void add_members(language_model *l, const th_language_model_options *o)
{
    th_context *ctx = l->base.ctx;
    th_transformer_block_options block = o->block;
    block.no_mlp_dropout = true;
    if (block.dropout == 0)
        block.dropout = o->dropout;
    l->embedding = (th_module_add)(&l->base, "embedding", (th_embedding_new)(ctx, o->vocabulary, o->width));
    l->position = (th_module_add)(&l->base, "position", (th_embedding_new)(ctx, o->length, o->width));
    l->classifier = th_module_find_parameter(l->embedding, "weight");
    l->position_embeddings = th_module_find_parameter(l->position, "weight");
    l->layers = (th_module_add)(&l->base, "layers", (th_module_list_new)(ctx));
    for (int64_t i = 0; i < o->layers && !th_failed(ctx); i++)
        (th_module_list_add)(l->layers, (th_transformer_block_new)(ctx, o->width, o->heads, &block));
    if (!block.post_norm)
        l->norm =
            (th_module_add)(&l->base, "norm",
                            (th_layer_norm_new)(ctx, o->width,
                                                &(th_norm_layer_options){.eps = block.eps, .no_bias = block.no_bias}));
}

th_module *(th_language_model_new)(th_context *ctx, const th_language_model_options *options)
{
    const th_language_model_options given = options ? *options : (th_language_model_options){0};
    if (ctx == NULL || th_failed(ctx) || check_options(ctx, &given) != TH_OK)
        return NULL;
    language_model *l = (th_module_new)(ctx, sizeof *l, "language_model", language_model_forward);
    if (l == NULL)
        return NULL;
    l->dropout = given.dropout;
    add_members(l, &given);
    if (!th_failed(ctx))
        initialise(l, given.layers * (given.block.no_mlp ? 1 : 2));
    return th_module_finish(&l->base);
}
