/* A tuner (tapehead/tune.h). A micro-batch is a shard of the optimizer's step (th_shard). Its gradients are apart from the
 * sum of the others. Its random numbers are a function of its number. So an abandoned micro-batch leaves no trace. */
#include <string.h>

#include "models/chat/chat.h"
#include "models/core/context.h"
#include "models/core/modules.h"
#include "models/core/training.h"
#include "models/families/options.h"
#include "models/text/tokenizer.h"
#include "models/tuning/examples.h"
#include "tapehead/gguf.h"
#include "tapehead/peft.h"
#include "tapehead/tape.h"
#include "tapehead/tune.h"

static const char operation[] = "tune_new", step_operation[] = "tune_step";
enum { DEFAULT_LENGTH = 512, SHORTEST = 16, DEFAULT_RANK = 16, MAX_MICRO_BATCHES = 1 << 16 };

struct th_tune {
    th_context *ctx;
    th_module *model;
    th_tokenizer *tokenizer;
    const th_chat_template *chat;
    th_optimizer *optimizer;
    th_tune_options given; /* complete */
    char *base_model;      /* or NULL */
    th_tune_examples examples;
    th_tune_place next;  /* where the next micro-batch begins */
    th_tune_batch batch; /* its arrays have the length of the options */
    th_shard shard;      /* of the micro-batch */
    bool in_step;        /* the loop over the shards has begun */
    int64_t steps;
    bool stopped, recompute;
    double loss; /* of the last complete micro-batch, summed */
    int64_t tokens, targets;
};

/* -- creating and freeing -- */

static size_t batch_bytes(int64_t length)
{
    return 3 * (size_t)length * sizeof(int32_t);
}

static void release(th_context *ctx, void *object)
{
    th_tune *t = object;
    th_tune_examples_free(ctx, &t->examples);
    th_release(ctx, t->batch.token, batch_bytes(t->given.length));
    th_release(ctx, t->base_model, t->base_model ? strlen(t->base_model) + 1 : 0);
    th_release(ctx, t, sizeof *t);
}

/* Replaces options of 0 by their defaults. */
static th_tune_options complete(const th_tune_options *options, int64_t model_length)
{
    th_tune_options o = options ? *options : (th_tune_options){0};
    if (o.lora.rank == 0)
        o.lora.rank = DEFAULT_RANK;
    if (o.lora.alpha == 0)
        o.lora.alpha = 2 * (double)o.lora.rank;
    if (o.learning_rate == 0)
        o.learning_rate = 2e-4;
    if (o.max_norm == 0)
        o.max_norm = 1;
    if (o.length == 0)
        o.length = model_length < DEFAULT_LENGTH ? model_length : DEFAULT_LENGTH;
    if (o.micro_batches == 0)
        o.micro_batches = 1;
    return o;
}

static th_status check_model(th_module *model, const th_tokenizer *tokenizer, const th_chat_template *chat)
{
    th_context *ctx = model->ctx;
    if (th_refuse_in_check(ctx, operation) != TH_OK)
        return th_error_code(ctx);
    const th_language_model_options *m = th_require_language_model(model, operation);
    if (m == NULL)
        return th_error_code(ctx);
    if (tokenizer == NULL || chat == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the %s is NULL", tokenizer ? "chat template" : "tokenizer");
    if (!th_tokenizer_usable(tokenizer, operation))
        return tokenizer->ctx == ctx ? th_error_code(ctx)
                                     : th_fail(ctx, TH_ERROR_STATE, operation, "the tokenizer cannot be used");
    if (tokenizer->ctx != ctx || chat->ctx != ctx)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the %s belongs to another context than the model",
                       tokenizer->ctx != ctx ? "tokenizer" : "chat template");
    if (th_tokenizer_size(tokenizer) > m->vocabulary)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the tokenizer has %lld tokens, and the model only %lld",
                       (long long)th_tokenizer_size(tokenizer), (long long)m->vocabulary);
    if (th_is_shapes_only(ctx))
        return th_fail(ctx, TH_ERROR_STATE, operation, "a shapes-only context has no values");
    return TH_OK;
}

static th_status check_options(th_context *ctx, const th_tune_options *o, int64_t model_length)
{
    if (o->length < 1 || o->length > model_length)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the length must be 1 to %lld, the model's; it is %lld",
                       (long long)model_length, (long long)o->length);
    if (o->micro_batches < 1 || o->micro_batches > MAX_MICRO_BATCHES)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "a step has 1 to %d micro-batches, not %d",
                       (int)MAX_MICRO_BATCHES, o->micro_batches);
    return TH_OK;
}

/* Attaches adapters unless the model has some. */
static th_status ensure_adapters(const th_tune *t)
{
    th_lora_adapter adapter;
    if (th_lora_count(t->model) == 0)
        return th_lora_attach(t->model, &t->given.lora);
    for (int64_t i = 0; th_lora_find(t->model, i, &adapter); i++)
        if (adapter.merged)
            return th_fail(t->ctx, TH_ERROR_STATE, operation, "the adapter of %s is merged: th_lora_unmerge first",
                           adapter.name);
    return TH_OK;
}

static th_status allocate_arrays(th_tune *t)
{
    const char *base = t->given.base_model;
    int32_t *arrays = th_allocate(t->ctx, batch_bytes(t->given.length));
    if (arrays == NULL)
        return th_fail_memory(t->ctx, operation, batch_bytes(t->given.length));
    t->batch =
        (th_tune_batch){arrays, arrays + t->given.length, arrays + 2 * t->given.length, t->given.length, 0, 0, 0};
    if (base == NULL)
        return TH_OK;
    t->base_model = th_allocate(t->ctx, strlen(base) + 1);
    if (t->base_model == NULL)
        return th_fail_memory(t->ctx, operation, strlen(base) + 1);
    strcpy(t->base_model, base);
    return TH_OK;
}

/* Makes everything that belongs to the tuner. */
static th_status make_parts(th_tune *t)
{
    const th_tune_options *o = &t->given;
    if (allocate_arrays(t) != TH_OK || ensure_adapters(t) != TH_OK)
        return th_error_code(t->ctx);
    t->optimizer = th_adam_w_new(t->model, &(th_adam_options){.learning_rate = o->learning_rate,
                                                              .weight_decay = o->weight_decay,
                                                              .max_norm = o->max_norm,
                                                              .shards = o->micro_batches});
    return t->optimizer ? th_optimizer_reserve(t->optimizer) : th_error_code(t->ctx);
}

/* Applies the tuner's limit, if it is lower than the context's. Returns the context's limit. */
static size_t begin_limit(th_context *ctx, size_t limit)
{
    const size_t before = th_set_memory_limit(ctx, limit);
    if (limit == 0 || (before > 0 && before < limit))
        (void)th_set_memory_limit(ctx, before);
    return before;
}

static th_tune *make(th_module *model, th_tokenizer *tokenizer, const th_chat_template *chat,
                     const th_tune_options *options)
{
    th_context *ctx = model->ctx;
    th_tune *t = th_allocate(ctx, sizeof *t);
    if (t == NULL || !th_attach_object(ctx, memset(t, 0, sizeof *t), release)) {
        th_release(ctx, t, sizeof *t);
        th_fail_memory(ctx, operation, sizeof *t);
        return NULL;
    }
    *t = (th_tune){.ctx = ctx,
                   .model = model,
                   .tokenizer = tokenizer,
                   .chat = chat,
                   .given = *options,
                   .examples.seed = options->seed,
                   .recompute = options->recompute};
    const bool adapted = th_lora_count(model) > 0;
    if (make_parts(t) == TH_OK)
        return t;
    th_tune_free(t);
    if (!adapted)
        th_lora_remove_all(model);
    return NULL;
}

th_tune *th_tune_new(th_module *model, th_tokenizer *tokenizer, const th_chat_template *chat,
                     const th_tune_options *options)
{
    if (!th_module_usable(model, operation) || check_model(model, tokenizer, chat) != TH_OK)
        return NULL;
    const int64_t length = th_language_model_options_of(model)->length;
    const th_tune_options given = complete(options, length);
    if (check_options(model->ctx, &given, length) != TH_OK)
        return NULL;
    const size_t limit = begin_limit(model->ctx, given.memory_limit);
    th_tune *t = make(model, tokenizer, chat, &given);
    (void)th_set_memory_limit(model->ctx, limit);
    return t;
}

void th_tune_free(th_tune *t)
{
    if (t == NULL)
        return;
    th_optimizer_free(t->optimizer);
    th_detach_object(t->ctx, t);
    release(t->ctx, t);
}

static bool is_usable(const th_tune *t, const char *name)
{
    if (t)
        return th_module_usable(t->model, name);
    th_fail_last(TH_ERROR_ARGUMENT, name, "the tuner is NULL");
    return false;
}

static th_status unusable(const th_tune *t)
{
    return t ? th_error_code(t->ctx) : TH_ERROR_ARGUMENT;
}

/* -- examples -- */

/* Adds encoded tokens with their marks, and frees both. */
static th_status add_encoded(th_tune *t, th_status status, th_token_list *tokens, th_text *marks)
{
    if (status == TH_OK) {
        const size_t limit = begin_limit(t->ctx, t->given.memory_limit);
        status = th_tune_examples_add(t->ctx, &t->examples, tokens, marks);
        (void)th_set_memory_limit(t->ctx, limit);
    }
    th_token_list_free(tokens);
    th_text_free(marks);
    return status;
}

th_status th_tune_add(th_tune *t, const th_chat_message *messages, size_t count)
{
    static const th_chat_options training = {.all_thoughts = true};
    th_token_list tokens = {0};
    th_text marks = {0};
    if (!is_usable(t, "tune_add"))
        return unusable(t);
    const th_status status = th_chat_encode(t->chat, t->tokenizer, messages, count, &training, &tokens, &marks);
    return add_encoded(t, status, &tokens, &marks);
}

th_status th_tune_add_json(th_tune *t, const char *line, size_t bytes, const char *source)
{
    th_token_list tokens = {0};
    th_text marks = {0};
    if (!is_usable(t, "tune_add_json"))
        return unusable(t);
    const th_status status = th_instruction_encode(t->chat, t->tokenizer, line, bytes, source, &tokens, &marks);
    return add_encoded(t, status, &tokens, &marks);
}

/* -- a micro-batch -- */

/* Runs forward and backward for the examples from *next on, and moves *next behind them. */
static th_status compute(th_tune *t, th_tune_place *next)
{
    static const th_cross_entropy_options sum = {TH_IGNORE(TH_NO_TARGET), .normalizer = 1};
    th_context *ctx = t->ctx;
    *next = t->next;
    th_tune_batch_fill(&t->batch, &t->examples, next);
    th_step_begin(ctx);
    const th_shape shape = TH_SHAPE(1, t->batch.tokens);
    th_tensor *tokens = th_from_data(ctx, TH_INT32, shape, t->batch.token);
    th_tensor *targets = th_from_data(ctx, TH_INT32, shape, t->batch.target);
    th_tensor *starts = t->batch.documents > 1 ? th_from_data(ctx, TH_INT32, shape, t->batch.start) : NULL;
    th_tensor *loss = starts ? th_language_model_packed_loss(t->model, tokens, targets, starts, &sum)
                             : th_language_model_loss(t->model, tokens, targets, &sum);
    t->shard.loss = th_item(loss);
    t->shard.weight = (double)t->batch.targets;
    return th_backward(loss, NULL);
}

/* Prepares a smaller micro-batch after one that needs more memory than the limit. Returns false, with the error pending,
 * after another error, and if it cannot become smaller. */
static bool use_less_memory(th_tune *t)
{
    if (th_error_code(t->ctx) != TH_ERROR_MEMORY || t->given.memory_limit == 0 ||
        (t->recompute && t->batch.length <= SHORTEST))
        return false;
    if (t->recompute)
        t->batch.length = th_larger(t->batch.length / 2, SHORTEST);
    t->recompute = true;
    th_tape_clear(t->ctx);
    th_error_clear(t->ctx);
    return true;
}

static void run(th_tune *t)
{
    th_tune_place next;
    if (!t->in_step) {
        t->shard = th_optimizer_shards(t->optimizer);
        t->in_step = th_shard_next(&t->shard);
    }
    th_set_stop(t->ctx, t->given.stop, t->given.user);
    do {
        th_recompute_blocks(t->ctx, t->recompute);
    } while (compute(t, &next) != TH_OK && use_less_memory(t));
    t->stopped = th_failed(t->ctx) && th_was_stopped(t->ctx);
    th_set_stop(t->ctx, NULL, NULL);
    if (th_failed(t->ctx))
        return;
    t->next = next;
    t->loss = t->shard.loss;
    t->tokens = t->batch.tokens;
    t->targets = t->batch.targets;
    th_tape_clear(t->ctx);
    t->in_step = th_shard_next(&t->shard);
    if (!t->in_step && th_optimizer_step(t->optimizer) == TH_OK)
        t->steps++;
}

th_status th_tune_step(th_tune *t)
{
    if (!is_usable(t, step_operation))
        return unusable(t);
    th_context *ctx = t->ctx;
    if (th_refuse_in_check(ctx, step_operation) != TH_OK)
        return th_error_code(ctx);
    if (t->examples.count == 0)
        return th_fail(ctx, TH_ERROR_STATE, step_operation, "the tuner has no examples: th_tune_add adds them");
    if (!th_is_recording(ctx))
        return th_fail(ctx, TH_ERROR_STATE, step_operation, "recording is off: th_no_grad_end");
    const bool training = th_is_training(ctx);
    const size_t limit = begin_limit(ctx, t->given.memory_limit);
    th_tape_clear(ctx);
    th_set_training(ctx, true);
    run(t);
    th_tape_clear(ctx);
    if (t->stopped)
        th_error_clear(ctx);
    th_recompute_blocks(ctx, false);
    th_set_training(ctx, training);
    (void)th_set_memory_limit(ctx, limit);
    return th_error_code(ctx);
}

/* -- the rest -- */

th_tune_progress th_tune_progress_of(const th_tune *t)
{
    if (t == NULL)
        return (th_tune_progress){0};
    return (th_tune_progress){.examples = t->examples.count,
                              .passes = t->next.pass + (t->next.examples > 0 && t->next.index == t->next.examples),
                              .steps = t->steps,
                              .micro_batches = t->in_step ? t->shard.index : 0,
                              .stopped = t->stopped,
                              .loss = t->targets > 0 ? t->loss / (double)t->targets : 0,
                              .tokens = t->tokens,
                              .targets = t->targets,
                              .length = t->batch.length,
                              .recompute = t->recompute};
}

th_optimizer *th_tune_optimizer(th_tune *t)
{
    return t ? t->optimizer : NULL;
}

th_status th_tune_save(th_tune *t, const char *path)
{
    if (!is_usable(t, "tune_save"))
        return unusable(t);
    if (path && th_name_ends_with(path, ".gguf"))
        return th_lora_export_gguf(t->model, path, NULL);
    return th_lora_save(t->model, path, &(th_lora_save_options){.base_model = t->base_model});
}
