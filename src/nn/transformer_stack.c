/* Stacks of transformer blocks, and th_transform, which runs a block or a stack. transformer_block.c contains the
 * block. */
#include "autograd/tape.h"
#include "nn/attention_layer.h"
#include "nn/first_block.h"
#include "nn/transformer_block.h"
#include "tapehead/tensor.h"
#include "tensor/context.h"

typedef struct stack {
    th_module base;
    th_module *layers; /* blocks */
    th_module *norm;   /* or NULL */
    bool value_residual, embedding_skip;
} stack;

/* -- forward -- */

static th_tensor *run_stack(const stack *s, th_tensor *x, const th_transform_options *given)
{
    th_tensor *first_values = NULL;
    th_transform_options block_options = *given; /* weights point to the entry of the current block */
    th_first_block_options(&block_options, x, &first_values, s->value_residual, s->embedding_skip);
    if (!th_module_check_not_replaced(s->layers, s->base.type, "the stack runs each block separately"))
        return NULL;
    for (th_module *block = s->layers->first; block; block = block->next) {
        x = th_transform(block, x, &block_options);
        block_options.weights += block_options.weights != NULL;
        block_options.memory_weights += block_options.memory_weights != NULL;
    }
    return s->norm ? th_module_forward(s->norm, x) : x;
}

static th_tensor *stack_forward(th_module *m, th_tensor *x)
{
    const th_transform_options none = {0};
    return th_module_forward_runs_transform(m) ? m->transform(m, x, &none) : run_stack((const stack *)m, x, &none);
}

static const th_module_type encoder_type = {
    .name = "transformer_encoder", .bytes = sizeof(stack), .forward = stack_forward, .transforms = true};
static const th_module_type decoder_type = {
    .name = "transformer_decoder", .bytes = sizeof(stack), .forward = stack_forward, .transforms = true};

static bool is_stack(const th_module *m)
{
    return th_module_is(m, &encoder_type) || th_module_is(m, &decoder_type);
}

th_tensor *th_module_end_with(th_module *m, th_tensor *y, int64_t count, const th_transform_options *given)
{
    if (given->weights == NULL && given->memory_weights == NULL && given->first_values == NULL)
        return th_module_end(m, y);
    th_context *ctx = m->ctx;
    const size_t bytes = (size_t)(2 + 2 * count) * sizeof(th_tensor *);
    th_tensor **results =
        th_bump_allocate(ctx, &ctx->tape->records, bytes); /* released with the scope of the forward */
    if (results == NULL) {
        th_fail_memory(ctx, m->type, bytes);
        return th_module_end(m, NULL);
    }
    th_tensor **end = results;
    *end++ = y;
    *end++ = given->first_values ? *given->first_values : NULL;
    for (int64_t i = 0; i < count && y; i++) {
        if (given->weights)
            *end++ = given->weights[i];
        if (given->memory_weights)
            *end++ = given->memory_weights[i];
    }
    th_module_end_all(m, results, (int)(end - results));
    return th_failed(ctx) ? NULL : y;
}

/* Runs the replaced forward of a block or a stack. TH_ERROR_ARGUMENT if the options contain something that the forward
 * would not get. */
static th_tensor *run_replaced_forward(th_module *m, th_tensor *x, const th_transform_options *given)
{
    const char *unusable = !th_mask_hides_nothing(given->mask)   ? "it takes only x and would not get the mask"
                           : given->memory || given->memory_mask ? "it takes only x and would not get the memory"
                           : given->positions                    ? "it takes only x and would not get the positions"
                           : given->cache                        ? "it takes only x and would not get the cache"
                           : given->first_values                 ? "it takes only x and would not get the first values"
                           : given->first_input                  ? "it takes only x and would not get the first input"
                           : given->weights || given->memory_weights ? "it returns only y and no attention weights"
                                                                     : NULL;
    if (unusable && !th_module_check_not_replaced(m, "transform", unusable))
        return NULL;
    return th_module_forward(m, x);
}

/* Runs the user's function of a module. */
static th_tensor *run_user_transform(th_module *m, th_tensor *x, const th_transform_options *given)
{
    if (!th_module_begin(m))
        return NULL;
    const int64_t count = is_stack(m) ? th_module_list_length(((const stack *)m)->layers) : 1;
    for (int64_t i = 0; i < count; i++) {
        if (given->weights)
            given->weights[i] = NULL;
        if (given->memory_weights)
            given->memory_weights[i] = NULL;
    }
    return th_module_end_with(m, m->transform(m, x, given), count, given);
}

th_tensor *th_transform(th_module *block, th_tensor *x, const th_transform_options *options)
{
    const th_transform_options given = options ? *options : (th_transform_options){0};
    const bool usable = th_module_usable(block, "transform"), stacked = usable && is_stack(block);
    if (usable && th_module_runs_user_transform(block))
        return run_user_transform(block, x, &given);
    if (usable && (stacked || th_module_is(block, &th_block_type)) && th_module_is_replaced(block))
        return run_replaced_forward(block, x, &given);
    if (!th_module_begin_as(block, stacked ? block->state->type : &th_block_type, "transform",
                            "transformer_block or a stack of them"))
        return NULL;
    if (!stacked)
        return th_module_end_with(block, th_block_transform(block, x, &given), 1, &given);
    const stack *s = (const stack *)block;
    x = run_stack(s, x, &given);
    return th_module_end_with(block, x, th_module_list_length(s->layers), &given);
}

/* -- construction -- */

th_status th_check_positive_sizes(th_context *ctx, const char *model, int count, const char *const *name,
                                  const int64_t *size)
{
    for (int i = 0; i < count; i++)
        if (size[i] <= 0)
            return th_fail(ctx, TH_ERROR_ARGUMENT, model, "%s must be positive; it is %lld", name[i],
                           (long long)size[i]);
    return TH_OK;
}

static th_status check_options(th_context *ctx, const char *type, int64_t layers, const th_transformer_stack_options *o)
{
    if (layers <= 0 || layers > TH_MAX_LAYERS)
        return th_fail(ctx, TH_ERROR_ARGUMENT, type, "a stack has 1 to %d layers, not %lld", (int)TH_MAX_LAYERS,
                       (long long)layers);
    if ((unsigned)o->final_norm > TH_FINAL_NORM_NEVER)
        return th_fail(ctx, TH_ERROR_ARGUMENT, type, "unknown choice of a final norm: %d", (int)o->final_norm);
    return TH_OK;
}

static th_module *stack_new(th_context *ctx, const th_module_type *type, int64_t layers, int64_t width, int64_t heads,
                            const th_transformer_stack_options *o)
{
    if (check_options(ctx, type->name, layers, o) != TH_OK)
        return NULL;
    stack *s = th_module_new_of_type(ctx, type);
    if (s == NULL)
        return NULL;
    s->layers = th_module_add(&s->base, "layers", th_module_list_new(ctx));
    s->value_residual = o->block.value_residual;
    s->embedding_skip = o->block.embedding_skip;
    for (int64_t i = 0; i < layers && !th_failed(ctx); i++) {
        const th_transformer_block_options block = th_options_of_block(&o->block, i);
        th_module_list_add(s->layers, th_transformer_block_new(ctx, width, heads, &block));
    }
    if (!th_failed(ctx) &&
        (o->final_norm == TH_FINAL_NORM_ALWAYS || (o->final_norm == TH_FINAL_NORM_USUAL && !o->block.post_norm)))
        s->norm = th_module_add(&s->base, "norm", th_block_norm_new(ctx, width, &o->block));
    return th_module_finish(&s->base);
}

th_module *th_transformer_encoder_new(th_context *ctx, int64_t layers, int64_t width, int64_t heads,
                                      const th_transformer_stack_options *options)
{
    const th_transformer_stack_options given = options ? *options : (th_transformer_stack_options){0};
    if (ctx == NULL || th_failed(ctx))
        return NULL;
    if (given.block.cross_attention) {
        th_fail(ctx, TH_ERROR_ARGUMENT, encoder_type.name,
                "an encoder's blocks have no memory: .block.cross_attention must be false");
        return NULL;
    }
    return stack_new(ctx, &encoder_type, layers, width, heads, &given);
}

th_module *th_transformer_decoder_new(th_context *ctx, int64_t layers, int64_t width, int64_t heads,
                                      const th_transformer_stack_options *options)
{
    th_transformer_stack_options given = options ? *options : (th_transformer_stack_options){0};
    given.block.cross_attention = true;
    if (ctx == NULL || th_failed(ctx))
        return NULL;
    return stack_new(ctx, &decoder_type, layers, width, heads, &given);
}
