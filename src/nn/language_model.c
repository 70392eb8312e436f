/* The language model: embedding, positions, blocks and a classifier, composed with the public
 * API. */
#include "tapehead/language_model.h"

#include <math.h>
#include <string.h>

#include "nn/bigram.h"
#include "nn/first_block.h"
#include "nn/head.h"
#include "nn/layers.h"
#include "nn/packed_rows.h"
#include "nn/positions.h"
#include "nn/relative_bias.h"
#include "nn/score_options.h"
#include "nn/transformer_block.h"
#include "ops/shared/rotary_scaling.h"
#include "tapehead/tensor.h"
#include "tensor/context.h"

typedef struct language_model {
    th_module base;
    th_module *embedding, *layers;
    th_module *bigram_embedding;           /* or NULL */
    th_module *type_embedding;             /* or NULL */
    th_module *input_norm;                 /* or NULL */
    th_module *norm;                       /* NULL after post-norm blocks */
    th_module *transform, *transform_norm; /* or NULL */
    th_tensor *relative_bias;              /* (relative_buckets, H), or NULL */
    th_tensor *classifier;                 /* (V, E): the embedding's weight unless untied; NULL: none */
    th_tensor *classifier_bias;            /* (V), or NULL */
    th_module *head;                       /* or NULL */
    th_module *output;                     /* the module that owns classifier if the model is untied; otherwise NULL */
    th_positions positions;
    th_language_model_options options; /* with defaults filled in */
    bool other_layers[];               /* options.other_layers, copied: [layers], or none */
} language_model;

/* -- forward -- */

static th_tensor *hidden_states(const language_model *l, th_tensor *tokens,
                                const th_language_model_logits_options *given);

/* As hidden_states, for sequences of documents. A token's position is its position in its document. */
static th_tensor *hidden_states_of_documents(const language_model *l, th_tensor *tokens,
                                             const th_language_model_logits_options *given)
{
    th_language_model_logits_options given_with_positions = *given;
    if (given->positions || given->cache) {
        th_fail(l->base.ctx, TH_ERROR_ARGUMENT, l->base.type,
                "documents have positions of their own and no cache: .positions and .cache must be NULL");
        return NULL;
    }
    given_with_positions.positions = th_positions_in_documents(&l->base, given->documents);
    return given_with_positions.positions ? hidden_states(l, tokens, &given_with_positions) : NULL;
}

/* Returns x plus the embedding of each token and its previous token. */
static th_tensor *add_bigrams(const language_model *l, th_tensor *x, th_tensor *tokens,
                              const th_language_model_logits_options *given)
{
    th_tensor *rows =
        th_bigram_rows(&l->base, tokens, given->positions, given->cache, l->options.vocabulary, l->options.bigram_rows);
    return th_add(x, th_module_forward(l->bigram_embedding, rows));
}

/* Returns x times a factor, which has the value 0 or infinity if it is not given. */
static th_tensor *multiplied(th_tensor *x, double factor)
{
    return factor == 0 || factor == 1 || isinf(factor) ? x : th_scale(x, factor);
}

/* Returns x plus the embedding of each token's type. */
static th_tensor *add_types(const language_model *l, th_tensor *x, th_tensor *types)
{
    if (types)
        return th_add(x, th_module_forward(l->type_embedding, types));
    th_tensor *first = th_slice(th_module_find_parameter(l->type_embedding, "weight"), 0, 0, 1, 1); /* (1, E), a view */
    return x && first ? th_add(x, th_cast(first, th_dtype_of(x))) : NULL;
}

static th_status check_hidden_options(const language_model *l, th_tensor *tokens,
                                      const th_language_model_logits_options *given)
{
    th_context *ctx = l->base.ctx;
    if (th_positions_check(&l->positions, &l->base, "tokens", tokens, given->positions) != TH_OK)
        return ctx->error;
    if (l->options.bidirectional && given->cache)
        return th_fail(ctx, TH_ERROR_ARGUMENT, l->base.type,
                       "a bidirectional model attends to later tokens, so it has no cache and generates no text");
    if (l->relative_bias && given->cache)
        return th_fail(ctx, TH_ERROR_ARGUMENT, l->base.type,
                       "a model with .relative_buckets has no cache: its biases are those of whole sequences");
    if (given->weights && given->documents)
        return th_fail(ctx, TH_ERROR_ARGUMENT, l->base.type,
                       "attention weights are those of separate sequences: .documents must be NULL");
    if (given->types && l->type_embedding == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, l->base.type, "the model has no types: .token_types is 0");
    return th_module_check_not_replaced(l->layers, l->base.type, "the model runs each block separately") ? TH_OK
                                                                                                         : ctx->error;
}

/* Returns the input of the first block, before dropout. */
static th_tensor *embed(const language_model *l, th_tensor *tokens, const th_language_model_logits_options *given)
{
    th_tensor *x = th_module_forward(l->embedding, tokens);
    x = multiplied(x, l->options.embedding_scale);
    x = th_positions_apply(&l->positions, x, given->positions);
    if (l->bigram_embedding)
        x = add_bigrams(l, x, tokens, given);
    if (l->type_embedding)
        x = add_types(l, x, given->types);
    if (l->options.embedding_norm)
        x = th_rms_norm(x, &(th_norm_options){.eps = l->options.block.eps});
    return l->input_norm ? th_module_forward(l->input_norm, x) : x;
}

/* Returns the biases of the scores (H, T, T), or NULL. A document has the biases of its first tokens, because they
 * depend on distances only. */
static th_tensor *biases_of_scores(const language_model *l, th_tensor *tokens)
{
    const th_relative_buckets buckets = {l->options.relative_buckets, l->options.relative_distance,
                                         l->options.bidirectional};
    return l->relative_bias ? th_relative_bias(l->base.ctx, l->relative_bias, &buckets, th_size(tokens, 1)) : NULL;
}

/* Returns the hidden states: (B, T) -> (B, T, E). */
static th_tensor *hidden_states(const language_model *l, th_tensor *tokens,
                                const th_language_model_logits_options *given)
{
    th_mask mask = {.causal = l->options.bidirectional ? TH_CAUSAL_NONE : TH_CAUSAL_TOP_LEFT,
                    .positions = given->cache ? given->positions : NULL,
                    .valid_lengths = given->lengths,
                    .documents = given->documents};
    if (check_hidden_options(l, tokens, given) != TH_OK)
        return NULL;
    mask.additive = biases_of_scores(l, tokens);
    th_tensor *x = embed(l, tokens, given);
    if (x)
        th_set_axes(x, "BTE");
    x = th_dropout(x, l->options.embedding_dropout);
    th_tensor *first_values = NULL;
    th_transform_options options = {.mask = &mask, .positions = given->positions, .cache = given->cache};
    th_first_block_options(&options, x, &first_values, l->options.block.value_residual,
                           l->options.block.embedding_skip);
    options.weights = given->weights;
    for (th_module *block = l->layers->first; block; block = block->next) {
        x = th_transform(block, x, &options);
        options.weights += options.weights != NULL; /* those of the next block */
    }
    x = th_select_rows(x, given->rows);
    if (l->norm)
        x = th_module_forward(l->norm, x);
    return x;
}

/* Whether each token's result depends on its own text only, so that texts may share a row. */
static bool may_pack(const language_model *l, const th_language_model_logits_options *given)
{
    return l->options.bidirectional && given->lengths && !given->documents && !given->weights && !given->positions &&
           !given->cache && !given->rows && l->options.bigram_rows == 0 &&
           !th_rotary_depends_on_length(&l->options.block.scores.rotary_scaling) &&
           !(l->options.other_layers && th_rotary_depends_on_length(&l->options.other_scores.rotary_scaling));
}

/* As hidden_states, for texts that are packed into fewer rows. */
static th_tensor *hidden_states_of_packed(const language_model *l, const th_packed_rows *packed)
{
    const th_language_model_logits_options given = {.types = packed->types, .documents = packed->documents};
    return th_unpack_rows(hidden_states_of_documents(l, packed->tokens, &given), packed->places);
}

static th_tensor *any_hidden_states(const language_model *l, th_tensor *tokens,
                                    const th_language_model_logits_options *given)
{
    th_packed_rows packed;
    if (may_pack(l, given)) {
        if (check_hidden_options(l, tokens, given) != TH_OK)
            return NULL;
        if (th_pack_rows(&l->base, tokens, given->types, given->lengths, l->options.length, l->options.width, &packed))
            return hidden_states_of_packed(l, &packed);
        if (l->base.ctx->error)
            return NULL;
    }
    return given->documents ? hidden_states_of_documents(l, tokens, given) : hidden_states(l, tokens, given);
}

/* Returns the input of the classifier. */
static th_tensor *classifier_input(const language_model *l, th_tensor *tokens,
                                   const th_language_model_logits_options *given)
{
    th_tensor *x = any_hidden_states(l, tokens, given);
    if (l->transform)
        x = th_module_forward(l->transform_norm,
                              th_activate(th_module_forward(l->transform, x), l->options.block.activation));
    return multiplied(x, 1 / l->options.logit_divisor);
}

/* Returns whether the classifier must run as a module: its forward was replaced, or it has an adapter. */
static bool runs_output_module(const language_model *l)
{
    return l->output &&
           (th_module_is_replaced(l->output) || th_lora_is_active(((const th_dense_layer *)l->output)->lora));
}

static th_tensor *logits_of_head(const language_model *l, th_tensor *tokens,
                                 const th_language_model_logits_options *given)
{
    if (l->options.head.kind == TH_HEAD_SEQUENCE && (given->documents || given->rows)) {
        th_fail(l->base.ctx, TH_ERROR_ARGUMENT, l->base.type,
                "the head pools one sequence in each row: .documents and .rows must be NULL");
        return NULL;
    }
    return th_head_logits(l->head, any_hidden_states(l, tokens, given), given->lengths);
}

static th_tensor *logits_of(const language_model *l, th_tensor *tokens, const th_language_model_logits_options *given)
{
    if (l->head)
        return logits_of_head(l, tokens, given);
    th_tensor *x = classifier_input(l, tokens, given);
    th_tensor *logits = runs_output_module(l)
                            ? th_module_forward(l->output, x)
                            : th_dense(x, l->classifier, &(th_dense_options){.bias = l->classifier_bias});
    logits = th_soft_capped(logits, l->options.logit_soft_cap);
    return logits ? th_set_axes(logits, given->rows ? "BV" : "BTV") : NULL;
}

static th_tensor *language_model_forward(th_module *m, th_tensor *tokens)
{
    const language_model *l = (const language_model *)m;
    const th_language_model_logits_options none = {0};
    return l->options.no_classifier ? hidden_states(l, tokens, &none) : logits_of(l, tokens, &none);
}

static const th_module_option model_options[] = {TH_MODULE_INTEGER(language_model, options.length),
                                                 TH_MODULE_CHOICE(language_model, options.positions),
                                                 TH_MODULE_REAL(language_model, options.embedding_dropout),
                                                 TH_MODULE_REAL(language_model, options.embedding_scale),
                                                 TH_MODULE_FLAG(language_model, options.bidirectional),
                                                 TH_MODULE_INTEGER(language_model, options.relative_distance),
                                                 TH_MODULE_FLAG(language_model, options.embedding_norm),
                                                 TH_MODULE_REAL(language_model, options.logit_divisor),
                                                 TH_MODULE_REAL(language_model, options.logit_soft_cap),
                                                 {.name = NULL}};
static const th_module_type language_model_type = {.name = "language_model",
                                                   .bytes = sizeof(language_model),
                                                   .forward = language_model_forward,
                                                   .options = model_options};

/* Begins a function that runs the model, such as th_language_model_logits. It would not run a replaced forward, so a
 * replaced forward is an error. */
static bool begin_function(th_module *model, const char *operation)
{
    return th_module_usable(model, operation) &&
           (!th_module_is(model, &language_model_type) ||
            th_module_check_not_replaced(model, operation, "only th_module_forward runs it")) &&
           th_module_begin_as(model, &language_model_type, operation, "language_model");
}

/* As begin_function, for functions that need the classifier. */
static bool begin_with_classifier(th_module *model, const char *operation)
{
    if (!begin_function(model, operation))
        return false;
    if (((const language_model *)model)->classifier || ((const language_model *)model)->head)
        return true;
    th_fail(model->ctx, TH_ERROR_ARGUMENT, operation,
            "the model has no classifier: call th_language_model_hidden_states");
    (void)th_module_end(model, NULL);
    return false;
}

/* Ends a function. The attention weights, if they are wanted, are results, too. */
static th_tensor *end_with_weights(th_module *model, th_tensor *y, const th_language_model_logits_options *given)
{
    return th_module_end_with(model, y, th_module_list_length(((const language_model *)model)->layers),
                              &(th_transform_options){.weights = given->weights});
}

th_tensor *th_language_model_hidden_states(th_module *model, th_tensor *tokens,
                                           const th_language_model_logits_options *options)
{
    const th_language_model_logits_options given = options ? *options : (th_language_model_logits_options){0};
    if (!begin_function(model, "language_model_hidden_states"))
        return NULL;
    return end_with_weights(model, any_hidden_states((const language_model *)model, tokens, &given), &given);
}

th_tensor *th_language_model_logits(th_module *model, th_tensor *tokens,
                                    const th_language_model_logits_options *options)
{
    const th_language_model_logits_options given = options ? *options : (th_language_model_logits_options){0};
    if (!begin_with_classifier(model, "language_model_logits"))
        return NULL;
    return end_with_weights(model, logits_of((const language_model *)model, tokens, &given), &given);
}

static th_tensor *loss_of(const language_model *l, th_tensor *tokens, th_tensor *targets, th_tensor *documents,
                          const th_cross_entropy_options *options)
{
    const th_language_model_logits_options given = {.documents = documents};
    const double cap = l->options.logit_soft_cap;
    if (l->head)
        return th_head_loss(&l->base, logits_of(l, tokens, &given), targets, options);
    if (!th_has_fusion(l->base.ctx) || runs_output_module(l))
        return th_cross_entropy(logits_of(l, tokens, &given), targets, options);
    th_tensor *x = classifier_input(l, tokens, &given);
    return cap == 0 && l->classifier_bias == NULL
               ? th_dense_cross_entropy(x, l->classifier, targets, options)
               : th_soft_capped_cross_entropy(x, l->classifier, l->classifier_bias, cap, targets, options);
}

th_tensor *th_language_model_loss(th_module *model, th_tensor *tokens, th_tensor *targets,
                                  const th_cross_entropy_options *options)
{
    if (!begin_with_classifier(model, "language_model_loss"))
        return NULL;
    return th_module_end(model, loss_of((const language_model *)model, tokens, targets, NULL, options));
}

th_tensor *th_language_model_packed_loss(th_module *model, th_tensor *tokens, th_tensor *targets, th_tensor *documents,
                                         const th_cross_entropy_options *options)
{
    if (!begin_with_classifier(model, "language_model_packed_loss"))
        return NULL;
    if (documents == NULL) {
        th_fail(model->ctx, TH_ERROR_ARGUMENT, "language_model_packed_loss", "documents is NULL");
        return th_module_end(model, NULL);
    }
    return th_module_end(model, loss_of((const language_model *)model, tokens, targets, documents, options));
}

const th_language_model_options *th_language_model_options_of(const th_module *model)
{
    return model && th_module_is(model, &language_model_type) ? &((const language_model *)model)->options : NULL;
}

/* -- construction -- */

static const char *const type = "language_model";

/* Checks the numbers that may be 0 for their default. */
static th_status check_numbers(th_context *ctx, const th_language_model_options *o)
{
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"embedding_scale", o->embedding_scale},
                   {"logit_divisor", o->logit_divisor},
                   {"logit_soft_cap", o->logit_soft_cap},
                   {"initialization.embedding_deviation", o->initialization.embedding_deviation},
                   {"initialization.deviation", o->initialization.deviation}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!(numbers[i].value >= 0) || !isfinite(numbers[i].value))
            return th_fail(ctx, TH_ERROR_ARGUMENT, type, "%s = %g must be a positive number, or 0 for none",
                           numbers[i].name, numbers[i].value);
    return TH_OK;
}

/* Each side has at least two buckets, and the last one begins behind those of one distance. */
static th_status check_relative_bias(th_context *ctx, const th_language_model_options *o)
{
    const int64_t sides = o->bidirectional ? 2 : 1;
    if (o->relative_buckets != 0 && (o->relative_buckets < 2 * sides || o->relative_buckets % sides != 0))
        return th_fail(ctx, TH_ERROR_ARGUMENT, type,
                       "relative_buckets = %lld must be 0 for none, or at least %d, and even in a bidirectional model",
                       (long long)o->relative_buckets, (int)(2 * sides));
    if (o->relative_distance != 0 && o->relative_distance <= o->relative_buckets / sides / 2)
        return th_fail(ctx, TH_ERROR_ARGUMENT, type,
                       "relative_distance = %lld must be more than %lld, the distances with a bucket each",
                       (long long)o->relative_distance, (long long)(o->relative_buckets / sides / 2));
    return TH_OK;
}

static th_status check_options(th_context *ctx, const th_language_model_options *o)
{
    static const char *const name[] = {"vocabulary", "length", "width", "heads", "layers"};
    const int64_t size[] = {o->vocabulary, o->length, o->width, o->heads, o->layers};
    if (th_check_positive_sizes(ctx, type, 5, name, size) != TH_OK)
        return ctx->error;
    if (o->layers > TH_MAX_LAYERS)
        return th_fail(ctx, TH_ERROR_ARGUMENT, type, "a model has at most %d layers, not %lld", (int)TH_MAX_LAYERS,
                       (long long)o->layers);
    if ((unsigned)o->positions > TH_POSITIONS_NONE)
        return th_fail(ctx, TH_ERROR_ARGUMENT, type, "unknown kind of positions: %d", (int)o->positions);
    if (o->block.cross_attention)
        return th_fail(ctx, TH_ERROR_ARGUMENT, type,
                       "a decoder-only model has no memory: .block.cross_attention must be false");
    if (check_numbers(ctx, o) != TH_OK)
        return ctx->error;
    if (o->bigram_rows < 0 || o->bigram_rows == 1)
        return th_fail(ctx, TH_ERROR_ARGUMENT, type, "bigram_rows = %lld must be at least 2, or 0 for no bigrams",
                       (long long)o->bigram_rows);
    if (o->initialization.uniform && o->initialization.deviation != 0)
        return th_fail(ctx, TH_ERROR_ARGUMENT, type,
                       "uniform weights have no deviation: initialization.deviation = %g must be 0",
                       o->initialization.deviation);
    if (o->initialization.zero_classifier && !o->untied)
        return th_fail(ctx, TH_ERROR_ARGUMENT, type,
                       "initialization.zero_classifier needs .untied: the embedding is the classifier of a tied model");
    if (o->no_classifier && (o->untied || o->classifier_bias || o->classifier_transform))
        return th_fail(
            ctx, TH_ERROR_ARGUMENT, type,
            "a model with .no_classifier has neither .untied nor .classifier_bias nor .classifier_transform");
    if (o->head.kind != TH_HEAD_NONE &&
        (o->no_classifier || o->untied || o->classifier_bias || o->classifier_transform))
        return th_fail(ctx, TH_ERROR_ARGUMENT, type,
                       "a head replaces the classifier: .no_classifier, .untied, .classifier_bias and "
                       ".classifier_transform must be false");
    if (th_head_check(ctx, type, &o->head) != TH_OK)
        return ctx->error;
    if (o->first_position < 0 || o->first_position > INT64_MAX - o->length)
        return th_fail(ctx, TH_ERROR_ARGUMENT, type, "first_position = %lld must be the number of a row, or 0",
                       (long long)o->first_position);
    if (o->token_types < 0)
        return th_fail(ctx, TH_ERROR_ARGUMENT, type, "token_types = %lld must be positive, or 0 for none",
                       (long long)o->token_types);
    if (check_relative_bias(ctx, o) != TH_OK)
        return ctx->error;
    if (th_check_rate(ctx, type, "dropout", o->dropout) != TH_OK)
        return ctx->error;
    return th_check_rate(ctx, type, "embedding_dropout", o->embedding_dropout);
}

/* Returns how the weights of one kind are drawn: normal with this deviation, unless the options say otherwise. */
static th_weight_draw draw_of(const th_initialization_options *o, bool zero, double deviation)
{
    return (th_weight_draw){zero ? TH_DRAW_ZERO : o->uniform ? TH_DRAW_UNIFORM : TH_DRAW_NORMAL, deviation};
}

/* Draws all weights again. Norms stay at 1 and 0. */
static th_status initialize_weights(const language_model *l)
{
    const th_initialization_options *o = &l->options.initialization;
    const th_weight_draw embedding = {TH_DRAW_NORMAL, o->embedding_deviation};
    if (th_draw_weight(th_module_find_parameter(l->embedding, "weight"), embedding) != TH_OK ||
        (l->options.positions == TH_POSITIONS_LEARNED && th_draw_weight(l->positions.table, embedding) != TH_OK))
        return l->base.ctx->error;
    if (l->type_embedding && th_draw_weight(th_module_find_parameter(l->type_embedding, "weight"), embedding) != TH_OK)
        return l->base.ctx->error;
    if (l->relative_bias && th_draw_weight(l->relative_bias, embedding) != TH_OK)
        return l->base.ctx->error;
    if (l->bigram_embedding && th_fill(th_module_find_parameter(l->bigram_embedding, "weight"), 0) != TH_OK)
        return l->base.ctx->error;
    const int64_t branches = l->options.layers * (l->options.block.no_mlp ? 1 : 2);
    const th_weight_draw inner = draw_of(o, false, o->deviation),
                         last = draw_of(o, o->zero_branches, o->deviation / sqrt((double)branches));
    for (const th_module *block = l->layers->first; block; block = block->next)
        if (th_block_initialize(block, inner, last) != TH_OK)
            return l->base.ctx->error;
    if (l->classifier_bias && th_fill(l->classifier_bias, 0) != TH_OK)
        return l->base.ctx->error;
    th_tensor *bias = l->transform ? th_module_find_parameter(l->transform, "bias") : NULL;
    if ((l->transform && th_draw_weight(th_module_find_parameter(l->transform, "weight"), inner) != TH_OK) ||
        (bias && th_fill(bias, 0) != TH_OK))
        return l->base.ctx->error;
    if (l->head && th_head_initialize(l->head, inner) != TH_OK)
        return l->base.ctx->error;
    return l->options.untied ? th_draw_weight(l->classifier, draw_of(o, o->zero_classifier, o->deviation)) : TH_OK;
}

static void release_options(th_module *m)
{
    th_language_model_options *o = &((language_model *)m)->options;
    th_score_options_release(m->ctx, &o->block.scores);
    th_score_options_release(m->ctx, &o->other_scores);
    th_label_names_release(m->ctx, o->head.label_names, o->head.labels);
}

/* Copies the arrays of the options. The blocks have checked those that they use. */
static void copy_option_arrays(language_model *l)
{
    if (!th_failed(l->base.ctx)) {
        l->base.destroy = release_options;
        (void)th_score_options_own_arrays(l->base.ctx, &l->options.block.scores, l->base.type);
        (void)th_score_options_own_arrays(l->base.ctx, &l->options.other_scores, l->base.type);
        l->options.head.label_names =
            th_label_names_copy(l->base.ctx, l->base.type, l->options.head.label_names, l->options.head.labels);
    }
}

static void fill_defaults(th_language_model_options *o)
{
    o->block.no_mlp_dropout = true;
    if (o->block.dropout == 0)
        o->block.dropout = o->dropout;
    if (o->embedding_dropout == 0)
        o->embedding_dropout = o->dropout;
    if (o->relative_buckets > 0 && o->relative_distance == 0)
        o->relative_distance = o->relative_buckets > 128 ? 2 * o->relative_buckets : 128;
    if (o->initialization.embedding_deviation == 0)
        o->initialization.embedding_deviation = 0.02;
    if (o->initialization.deviation == 0 && !o->initialization.uniform)
        o->initialization.deviation = 0.02;
    th_head_fill_defaults(&o->head, o->dropout);
    th_block_fill_defaults(&o->block, o->width, o->heads);
}

/* Returns the options of block i. */
static th_transformer_block_options block_options(const th_language_model_options *o, int64_t i)
{
    th_transformer_block_options block = th_options_of_block(&o->block, i);
    if (o->other_layers && o->other_layers[i])
        block.scores = o->other_scores;
    if (o->scale_by_layer)
        block.scale = (block.scale != 0 ? block.scale : 1 / sqrt((double)block.head_width)) / (double)(i + 1);
    return block;
}

static void add_blocks(const language_model *l)
{
    const th_language_model_options *o = &l->options;
    for (int64_t i = 0; i < o->layers && !th_failed(l->base.ctx); i++) {
        const th_transformer_block_options block = block_options(o, i);
        th_module_list_add(l->layers, th_transformer_block_new(l->base.ctx, o->width, o->heads, &block));
    }
}

static void add_classifier(language_model *l)
{
    const th_language_model_options *o = &l->options;
    th_context *ctx = l->base.ctx;
    if (o->classifier_transform) {
        const th_dense_layer_options dense = {.no_bias = o->block.no_bias};
        l->transform = th_module_add(&l->base, "transform", th_dense_new(ctx, o->width, o->width, &dense));
        l->transform_norm = th_module_add(&l->base, "transform_norm", th_block_norm_new(ctx, o->width, &o->block));
    }
    l->classifier = th_module_find_parameter(l->embedding, "weight");
    if (o->classifier_bias && !o->untied)
        l->classifier_bias = th_module_add_parameter(&l->base, "classifier_bias", TH_SHAPE(o->vocabulary));
    if (o->untied) {
        const th_dense_layer_options dense = {.no_bias = !o->classifier_bias};
        th_module *classifier = th_dense_new(ctx, o->width, o->vocabulary, &dense);
        l->output = th_module_add(&l->base, "classifier", classifier);
        l->classifier = th_module_find_parameter(l->output, "weight");
        if (o->classifier_bias)
            l->classifier_bias = th_module_find_parameter(l->output, "bias");
    }
}

static void add_members(language_model *l)
{
    const th_language_model_options *o = &l->options;
    th_context *ctx = l->base.ctx;
    l->embedding = th_module_add(&l->base, "embedding", th_embedding_new(ctx, o->vocabulary, o->width));
    if (o->bigram_rows > 0) {
        l->bigram_embedding =
            th_module_add(&l->base, "bigram_embedding", th_embedding_new(ctx, o->bigram_rows, o->width));
        l->base.state->cached = true;
    }
    l->positions.first = o->first_position;
    l->positions.length = o->length;
    th_positions_add_member(&l->positions, &l->base, "position", o->positions, o->width);
    if (o->token_types > 0)
        l->type_embedding = th_module_add(&l->base, "type_embedding", th_embedding_new(ctx, o->token_types, o->width));
    if (o->input_norm)
        l->input_norm = th_module_add(&l->base, "input_norm", th_block_norm_new(ctx, o->width, &o->block));
    if (o->relative_buckets > 0)
        l->relative_bias = th_module_add_parameter(&l->base, "relative_bias", TH_SHAPE(o->relative_buckets, o->heads));
    l->layers = th_module_add(&l->base, "layers", th_module_list_new(ctx));
    add_blocks(l);
    if (!o->block.post_norm)
        l->norm = th_module_add(&l->base, "norm", th_block_norm_new(ctx, o->width, &o->block));
    if (o->head.kind != TH_HEAD_NONE)
        l->head = th_module_add(&l->base, "head", th_head_new(ctx, o->width, &o->head, &o->block));
    else if (!o->no_classifier)
        add_classifier(l);
}

th_module *th_language_model_new(th_context *ctx, const th_language_model_options *options)
{
    const th_language_model_options given = options ? *options : (th_language_model_options){0};
    if (ctx == NULL || th_failed(ctx) || check_options(ctx, &given) != TH_OK)
        return NULL;
    const size_t flag_bytes = given.other_layers ? (size_t)given.layers * sizeof *given.other_layers : 0;
    language_model *l = th_module_new_longer(ctx, &language_model_type, flag_bytes);
    if (l == NULL)
        return NULL;
    l->options = given;
    if (given.other_layers)
        l->options.other_layers = memcpy(l->other_layers, given.other_layers, flag_bytes);
    fill_defaults(&l->options);
    add_members(l);
    copy_option_arrays(l);
    if (!th_failed(ctx))
        (void)initialize_weights(l); /* th_module_finish sees an error */
    return th_module_finish(&l->base);
}
