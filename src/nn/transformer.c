/* The encoder-decoder Transformer: embeddings, positions, two stacks and a classifier, composed with the public API. */
#include "tapehead/transformer.h"

#include <math.h>

#include "nn/layers.h"
#include "nn/positions.h"
#include "nn/score_options.h"
#include "nn/transformer_block.h"
#include "tapehead/tensor.h"
#include "tensor/context.h"

/* The encoder or the decoder: embeds tokens, then applies a stack. */
typedef struct side {
    th_module *embedding, *stack;
    th_positions positions;
} side;

typedef struct transformer {
    th_module base;
    side source, target;
    th_tensor *classifier;          /* (V, E) */
    th_module *output;              /* the module that owns classifier if the model is untied; otherwise NULL */
    th_transformer_options options; /* with defaults filled in */
} transformer;

/* -- forward -- */

static const th_module_option transformer_options[] = {TH_MODULE_INTEGER(transformer, options.length),
                                                       TH_MODULE_CHOICE(transformer, options.positions),
                                                       TH_MODULE_FLAG(transformer, options.no_embedding_scale),
                                                       TH_MODULE_REAL(transformer, options.embedding_dropout),
                                                       {.name = NULL}};
static const th_module_type transformer_type = {
    .options = transformer_options,
    .name = "transformer",
    .bytes = sizeof(transformer),
    .no_forward = "takes a source and a target: call th_transformer_encode, th_transformer_decode or "
                  "th_transformer_loss"};

/* (B, T) -> (B, T, E) */
static th_tensor *embed(const transformer *t, const side *s, const char *what, th_tensor *tokens, th_tensor *positions)
{
    if (th_positions_check(&s->positions, &t->base, what, tokens, positions) != TH_OK)
        return NULL;
    th_tensor *x = th_module_forward(s->embedding, tokens);
    if (!t->options.no_embedding_scale)
        x = th_scale(x, sqrt((double)t->options.width));
    x = th_positions_apply(&s->positions, x, positions);
    if (x)
        th_set_axes(x, "BTE");
    return th_dropout(x, t->options.embedding_dropout);
}

static th_tensor *encode(const transformer *t, th_tensor *source, th_tensor *source_lengths)
{
    const th_mask mask = {.valid_lengths = source_lengths};
    return th_transform(t->source.stack, embed(t, &t->source, "the source", source, NULL),
                        &(th_transform_options){.mask = &mask});
}

/* Returns the input of the classifier, (B, T, E). */
static th_tensor *hidden_states(const transformer *t, th_tensor *target, th_tensor *memory,
                                const th_transformer_decode_options *given)
{
    const th_mask causal = {.causal = TH_CAUSAL_TOP_LEFT, .positions = given->cache ? given->positions : NULL};
    const th_mask memory_mask = {.valid_lengths = given->memory_lengths};
    th_tensor *x = th_transform(t->target.stack, embed(t, &t->target, "the target", target, given->positions),
                                &(th_transform_options){.mask = &causal,
                                                        .memory = memory,
                                                        .memory_mask = &memory_mask,
                                                        .positions = given->positions,
                                                        .cache = given->cache,
                                                        .memory_weights = given->memory_weights});
    return th_select_rows(x, given->rows);
}

/* Returns whether the classifier must run as a module: its forward was replaced, or it has an adapter. */
static bool runs_output_module(const transformer *t)
{
    return t->output &&
           (th_module_is_replaced(t->output) || th_lora_is_active(((const th_dense_layer *)t->output)->lora));
}

static th_tensor *logits_of(const transformer *t, th_tensor *x)
{
    th_tensor *logits = runs_output_module(t) ? th_module_forward(t->output, x) : th_dense(x, t->classifier, NULL);
    return logits ? th_set_axes(logits, th_ndim(logits) == 3 ? "BTV" : "BV") : NULL;
}

/* Begins a function that runs the model. It would not run a replaced forward, so a replaced forward is an error. */
static bool begin_function(th_module *model, const char *operation)
{
    return th_module_usable(model, operation) &&
           (!th_module_is(model, &transformer_type) ||
            th_module_check_not_replaced(model, operation, "only th_module_forward runs it")) &&
           th_module_begin_as(model, &transformer_type, operation, "transformer");
}

th_tensor *th_transformer_encode(th_module *model, th_tensor *source, th_tensor *source_lengths)
{
    if (!begin_function(model, "transformer_encode"))
        return NULL;
    return th_module_end(model, encode((const transformer *)model, source, source_lengths));
}

th_tensor *th_transformer_decode(th_module *model, th_tensor *target, th_tensor *memory,
                                 const th_transformer_decode_options *options)
{
    const th_transformer_decode_options given = options ? *options : (th_transformer_decode_options){0};
    if (!begin_function(model, "transformer_decode"))
        return NULL;
    const transformer *t = (const transformer *)model;
    th_tensor *logits = logits_of(t, hidden_states(t, target, memory, &given));
    const int64_t layers = given.memory_weights && logits ? t->options.decoder_layers : 0;
    return th_module_end_with(model, logits, layers, &(th_transform_options){.memory_weights = given.memory_weights});
}

th_tensor *th_transformer_loss(th_module *model, th_tensor *source, th_tensor *source_lengths, th_tensor *target,
                               th_tensor *next, const th_cross_entropy_options *options)
{
    if (!begin_function(model, "transformer_loss"))
        return NULL;
    const transformer *t = (const transformer *)model;
    th_tensor *memory = encode(t, source, source_lengths);
    th_tensor *x = hidden_states(t, target, memory, &(th_transformer_decode_options){.memory_lengths = source_lengths});
    th_tensor *loss = th_has_fusion(model->ctx) && !runs_output_module(t)
                          ? th_dense_cross_entropy(x, t->classifier, next, options)
                          : th_cross_entropy(logits_of(t, x), next, options);
    return th_module_end(model, loss);
}

const th_transformer_options *th_transformer_options_of(const th_module *model)
{
    return model && th_module_is(model, &transformer_type) ? &((const transformer *)model)->options : NULL;
}

/* -- construction -- */

static th_status check_options(th_context *ctx, const th_transformer_options *o)
{
    const char *const type = transformer_type.name;
    static const char *const name[] = {"source_vocabulary", "target_vocabulary", "length", "width", "heads",
                                       "encoder_layers",    "decoder_layers"};
    const int64_t size[] = {o->source_vocabulary, o->target_vocabulary, o->length, o->width, o->heads,
                            o->encoder_layers,    o->decoder_layers};
    if (th_check_positive_sizes(ctx, type, 7, name, size) != TH_OK)
        return ctx->error;
    if ((unsigned)o->positions > TH_POSITIONS_NONE)
        return th_fail(ctx, TH_ERROR_ARGUMENT, type, "unknown kind of positions: %d", (int)o->positions);
    if (o->shared_embeddings && o->source_vocabulary != o->target_vocabulary)
        return th_fail(ctx, TH_ERROR_ARGUMENT, type,
                       "shared embeddings need one vocabulary, but the source has %lld tokens and the target %lld",
                       (long long)o->source_vocabulary, (long long)o->target_vocabulary);
    if (o->block.cross_attention)
        return th_fail(
            ctx, TH_ERROR_ARGUMENT, type,
            "the decoder always has cross attention and the encoder never: .block.cross_attention must be false");
    if (th_check_rate(ctx, type, "dropout", o->dropout) != TH_OK)
        return ctx->error;
    return th_check_rate(ctx, type, "embedding_dropout", o->embedding_dropout);
}

static void release_options(th_module *m)
{
    th_score_options_release(m->ctx, &((transformer *)m)->options.block.scores);
}

/* Copies the arrays of the options. The blocks have checked the options. */
static void copy_option_arrays(transformer *t)
{
    if (!th_failed(t->base.ctx)) {
        t->base.destroy = release_options;
        (void)th_score_options_own_arrays(t->base.ctx, &t->options.block.scores, t->base.type);
    }
}

static void fill_defaults(th_transformer_options *o)
{
    double *const rate[] = {&o->block.dropout, &o->block.attention_dropout, &o->embedding_dropout};
    for (int i = 0; i < 3; i++)
        if (*rate[i] == 0)
            *rate[i] = o->dropout;
    th_block_fill_defaults(&o->block, o->width, o->heads);
}

/* Draws a weight of the model again, from N(0, 1 / width). (Norms and biases keep their values.) NULL: does nothing. */
static th_status initialize_normal(th_tensor *weight, int64_t width)
{
    return weight ? th_fill_normal(weight, 0, 1 / sqrt((double)width)) : TH_OK;
}

static void initialize_stack(const th_module *stack)
{
    for (th_parameter_iterator p = th_module_parameters(stack); th_parameter_next(&p);)
        if (th_ndim(p.tensor) > 1 && th_fill_xavier_uniform(p.tensor, 1) != TH_OK)
            return;
}

static th_module *add_embedding(transformer *t, const char *name, int64_t vocabulary)
{
    const int64_t width = t->options.width;
    th_module *embedding = th_module_add(&t->base, name, th_embedding_new(t->base.ctx, vocabulary, width));
    (void)initialize_normal(th_module_find_parameter(embedding, "weight"), width);
    return embedding;
}

static void add_positions(transformer *t, side *s, const char *name)
{
    const th_transformer_options *o = &t->options;
    s->positions.length = o->length;
    th_positions_add_member(&s->positions, &t->base, name, o->positions, o->width);
    if (o->positions == TH_POSITIONS_LEARNED)
        (void)initialize_normal(s->positions.table, o->width);
}

static void add_members(transformer *t)
{
    const th_transformer_options *o = &t->options;
    th_context *ctx = t->base.ctx;
    const th_transformer_stack_options stack = {.block = o->block, .final_norm = o->final_norm};
    if (o->shared_embeddings) {
        t->source.embedding = t->target.embedding = add_embedding(t, "embedding", o->source_vocabulary);
    } else {
        t->source.embedding = add_embedding(t, "source_embedding", o->source_vocabulary);
        t->target.embedding = add_embedding(t, "target_embedding", o->target_vocabulary);
    }
    add_positions(t, &t->source, "source_position");
    add_positions(t, &t->target, "target_position");
    t->source.stack = th_module_add(&t->base, "encoder",
                                    th_transformer_encoder_new(ctx, o->encoder_layers, o->width, o->heads, &stack));
    t->target.stack = th_module_add(&t->base, "decoder",
                                    th_transformer_decoder_new(ctx, o->decoder_layers, o->width, o->heads, &stack));
    initialize_stack(t->source.stack);
    initialize_stack(t->target.stack);
    t->classifier = th_module_find_parameter(t->target.embedding, "weight");
    if (o->untied) {
        const th_dense_layer_options dense = {.no_bias = true};
        th_module *classifier = th_dense_new(ctx, o->width, o->target_vocabulary, &dense);
        t->output = th_module_add(&t->base, "classifier", classifier);
        t->classifier = th_module_find_parameter(t->output, "weight");
        (void)initialize_normal(t->classifier, o->width);
    }
}

th_module *th_transformer_new(th_context *ctx, const th_transformer_options *options)
{
    const th_transformer_options given = options ? *options : (th_transformer_options){0};
    if (ctx == NULL || th_failed(ctx) || check_options(ctx, &given) != TH_OK)
        return NULL;
    transformer *t = th_module_new_of_type(ctx, &transformer_type);
    if (t == NULL)
        return NULL;
    t->options = given;
    fill_defaults(&t->options);
    add_members(t);
    copy_option_arrays(t);
    return th_module_finish(&t->base);
}
