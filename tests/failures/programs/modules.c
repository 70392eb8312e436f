/* Programs about modules: trees of a program's own, the library's layers, attention. */
#include "subjects.h"

/* -- a module of the program's own -- */

typedef struct pair {
    th_module base;
    th_module *first, *list;
} pair;

static th_tensor *pair_forward(th_module *m, th_tensor *x)
{
    pair *p = (pair *)m;
    return th_add(th_mul(x, m->parameters->tensor), th_module_forward(p->list, th_module_forward(p->first, x)));
}

/* A function of two arguments. */
static th_tensor *pair_run(th_module *m, th_tensor *x, th_tensor *y)
{
    if (!th_module_begin(m))
        return NULL;
    th_tensor *both[2] = {th_sin(x), NULL};
    if (th_module_begin(m)) {
        both[1] = th_cos(y);
        th_module_end_all(m, both, 2);
    }
    return th_module_end(m, th_mul(both[0], both[1]));
}

static th_module *pair_new(th_context *ctx)
{
    pair *p = th_module_new(ctx, sizeof *p, "pair", pair_forward);
    if (p == NULL)
        return NULL;
    th_module *m = &p->base;
    th_tensor *scale = th_module_add_parameter(m, "scale", TH_SHAPE(6));
    if (scale && th_fill_normal(scale, 0, 1) != TH_OK)
        return NULL;
    p->first = th_module_add(m, "first", th_dense_new(ctx, 6, 6, NULL));
    p->list = th_module_add(m, "list", th_module_list_new(ctx));
    th_module_list_add(p->list, th_layer_norm_new(ctx, 6, NULL));
    th_module_list_add(p->list, th_dropout_new(ctx, 0.2));
    th_module *tied = th_module_list_add(p->list, th_module_new(ctx, sizeof(th_module), "tied", NULL));
    th_module_tie_parameter(tied, "weight", th_module_find_parameter(p->first, "weight"));
    th_module_free(tied);
    return m;
}

static th_status own_setup(program_run *r)
{
    r->model = pair_new(r->ctx);
    r->tensor[0] = leaf(r, TH_SHAPE(3, 6), 41);
    return th_error_code(r->ctx);
}

static th_status own_forward(program_run *r)
{
    th_tensor *y = th_module_forward(r->model, r->tensor[0]);
    y = th_add(y, pair_run(r->model, y, r->tensor[0]));
    add_tensor(r, y);
    add_tensor(r, th_module_evaluate(r->model, r->tensor[0]));
    TRY(th_backward(th_sum(y, TH_ALL_AXES, NULL), NULL));
    add_gradients(r, r->model);
    th_empty_gradient(r->tensor[0]);
    return th_error_code(r->ctx);
}

static th_status own_tree(program_run *r)
{
    char name[TH_FULL_NAME_SIZE];
    th_module *norm = th_module_list_at(th_module_find(r->model, "list"), 0);
    TRY(th_error_code(r->ctx));
    add_text(r, th_module_full_name(norm, name));
    add_number(r, (double)th_module_list_length(th_module_find(r->model, "list")));
    add_number(r, (double)(th_module_count(r->model) + 1000 * th_module_count_trainable(r->model)));
    th_module_pin_evaluation(norm, true);
    add_number(r, th_module_is_training(norm) + 2 * th_module_is_training(r->model));
    th_module_pin_evaluation(norm, false);
    TRY(th_module_freeze(r->model, true));
    add_number(r, (double)th_module_count_trainable(r->model));
    return th_module_freeze(r->model, false);
}

static th_status own_widened(program_run *r)
{
    TRY(th_module_cast(r->model, TH_FLOAT64));
    add_number(r, th_module_crc32c(r->model));
    return th_error_code(r->ctx);
}

static th_status own_narrowed(program_run *r)
{
    TRY(th_module_cast(r->model, TH_FLOAT32));
    add_number(r, th_module_crc32c(r->model));
    return th_error_code(r->ctx);
}

static th_status own_freed(program_run *r)
{
    th_module_free(r->model);
    return th_error_code(r->ctx);
}

const program own_modules = {.name = "own_modules",
                             .setup = own_setup,
                             .step = {own_forward, own_tree, own_widened, own_narrowed, own_forward, own_freed}};

/* -- the layers -- */

static th_status layers_setup(program_run *r)
{
    r->model = th_module_list_new(r->ctx);
    th_module_list_add(r->model, th_embedding_new(r->ctx, 9, 8));
    th_module_list_add(r->model, th_rms_norm_new(r->ctx, 8, NULL));
    th_module_list_add(r->model, th_layer_norm_new(r->ctx, 8, &(th_norm_layer_options){.no_bias = true}));
    th_module_list_add(r->model, th_dropout_new(r->ctx, 0.5));
    th_module_list_add(r->model, th_dense_new(r->ctx, 8, 8, &(th_dense_layer_options){.no_bias = true}));
    return th_error_code(r->ctx);
}

static th_status layers_step(program_run *r)
{
    th_tensor *x = th_module_forward(r->model, integers(r, TH_SHAPE(2, 5), 9, 42));
    th_tensor *y = th_dense_residual(th_module_list_at(r->model, 4), x, x);
    add_tensor(r, y);
    TRY(th_backward(th_mean(y, TH_ALL_AXES, NULL), NULL));
    add_gradients(r, r->model);
    return th_error_code(r->ctx);
}

const program layers = {.name = "layers", .setup = layers_setup, .step = {layers_step, layers_step}};

/* -- attention -- */

static th_status heads_setup(program_run *r)
{
    r->tensor[0] = leaf(r, TH_SHAPE(2, 4, 5, 6), 43);
    r->tensor[1] = leaf(r, TH_SHAPE(2, 2, 7, 6), 44);
    r->tensor[2] = leaf(r, TH_SHAPE(4), 45);
    return th_error_code(r->ctx);
}

static th_status attended(program_run *r, const th_attention_options *options)
{
    th_tensor *y = th_scaled_dot_product_attention(r->tensor[0], r->tensor[1], r->tensor[1], options);
    add_tensor(r, y);
    TRY(th_backward(th_sum(th_mul(y, y), TH_ALL_AXES, NULL), NULL));
    for (int i = 0; i < 3; i++) {
        add_tensor(r, th_gradient(r->tensor[i]));
        th_empty_gradient(r->tensor[i]);
    }
    return th_error_code(r->ctx);
}

static th_status heads_fused(program_run *r)
{
    th_tensor *log_sum_exp = NULL;
    const th_mask mask = {.causal = TH_CAUSAL_BOTTOM_RIGHT, .window = TH_WINDOW(3, 1)};
    TRY(attended(
        r, &(th_attention_options){.mask = &mask, .alibi = r->tensor[2], .dropout = 0.2, .log_sum_exp = &log_sum_exp}));
    add_tensor(r, log_sum_exp);
    return th_error_code(r->ctx);
}

static th_status heads_composed(program_run *r)
{
    th_tensor *weights = NULL, *keep = th_greater(numbers(r, TH_SHAPE(5, 7), 46), numbers(r, TH_SHAPE(7), 47));
    const th_mask mask = {.valid_lengths = integers(r, TH_SHAPE(2), 7, 3),
                          .keep = keep,
                          .additive = numbers(r, TH_SHAPE(2, 1, 5, 7), 48)};
    TRY(attended(r, &(th_attention_options){.mask = &mask, .soft_cap = 5, .weights = &weights}));
    add_tensor(r, weights);
    return th_error_code(r->ctx);
}

static th_status masks_explained(program_run *r)
{
    char text[256];
    const th_mask mask = {.causal = TH_CAUSAL_TOP_LEFT, .positions = integers(r, TH_SHAPE(5), 7, 8)};
    const th_shape scores = TH_SHAPE(2, 4, 5, 7);
    add_tensor(r, th_mask_keep(r->ctx, &mask, scores));
    TRY(th_mask_explain(r->ctx, &mask, scores, TH_INDEX(1, 2, 3, 4), text, sizeof text));
    add_text(r, text);
    add_tensor(r, th_masked_softmax(numbers(r, scores, 49), &mask));
    return th_error_code(r->ctx);
}

const program attention_of_heads = {
    .name = "attention_of_heads", .setup = heads_setup, .step = {heads_fused, heads_composed, masks_explained}};

static th_status attention_setup(program_run *r)
{
    const th_score_options scores = {.rotary = true, .qk_norm = true, .window = 3, .soft_cap = 20};
    r->model = th_multi_head_attention_new(
        r->ctx, 8, 4, &(th_multi_head_attention_options){.dropout = 0.1, .kv_heads = 2, .scores = scores});
    r->other = th_multi_head_attention_new(r->ctx, 8, 2, NULL);
    r->tensor[0] = leaf(r, TH_SHAPE(2, 5, 8), 50);
    r->tensor[1] = leaf(r, TH_SHAPE(2, 3, 8), 51);
    return th_error_code(r->ctx);
}

static th_status attention_self(program_run *r)
{
    th_tensor *x = r->tensor[0], *weights = NULL;
    const th_mask mask = {.causal = TH_CAUSAL_TOP_LEFT};
    th_tensor *y = th_attend(r->model, x, x, x, &(th_attend_options){.mask = &mask, .residual = x});
    y = th_attend(r->other, y, y, y, &(th_attend_options){.mask = &mask, .weights = &weights});
    add_tensor(r, y);
    add_tensor(r, weights);
    TRY(th_backward(th_mean(y, TH_ALL_AXES, NULL), NULL));
    add_gradients(r, r->model);
    add_gradients(r, r->other);
    th_empty_gradient(x);
    return th_error_code(r->ctx);
}

static th_status attention_cross(program_run *r)
{
    th_tensor *y = th_attend(r->other, r->tensor[0], r->tensor[1], r->tensor[1], NULL);
    add_tensor(r, y);
    TRY(th_backward(th_mean(y, TH_ALL_AXES, NULL), NULL));
    add_gradients(r, r->other);
    for (int i = 0; i < 2; i++)
        th_empty_gradient(r->tensor[i]);
    return th_error_code(r->ctx);
}

/* The scores at given positions, and without the fused operation. */
static th_status attention_positions(program_run *r)
{
    th_tensor *x = r->tensor[0], *positions = integers(r, TH_SHAPE(2, 5), 9, 52);
    const th_mask mask = {.causal = TH_CAUSAL_TOP_LEFT};
    const th_attend_options options = {.mask = &mask, .positions = positions};
    th_set_fusion(r->ctx, false);
    add_tensor(r, th_attend(r->model, x, x, x, &options));
    th_set_fusion(r->ctx, true);
    return th_error_code(r->ctx);
}

const program attention_layers = {.name = "attention_layers",
                                  .setup = attention_setup,
                                  .step = {attention_self, attention_cross, attention_positions}};

/* -- the cache -- */

static th_status cache_setup(program_run *r)
{
    const th_language_model_options options = {.vocabulary = 11, .length = 12, .width = 8, .heads = 2, .layers = 2};
    r->model = th_language_model_new(r->ctx, &options);
    r->cache = th_cache_new(r->model, 2, 12);
    return th_error_code(r->ctx);
}

/* Every step begins with a reset, so a repeated step begins as the first attempt did. */
static th_status cache_filled(program_run *r)
{
    TRY(th_cache_reset(r->cache));
    th_no_grad_begin(r->ctx);
    th_tensor *tokens = integers(r, TH_SHAPE(2, 6), 11, 53);
    th_language_model_logits_options options = {.cache = r->cache};
    add_tensor(r, th_language_model_logits(r->model, th_slice(tokens, 1, 0, 4, 1), &options));
    for (int64_t t = 4; t < 6; t++) {
        options.positions = th_full(r->ctx, TH_INT32, TH_SHAPE(2, 1), (double)t);
        add_tensor(r, th_language_model_logits(r->model, th_slice(tokens, 1, t, t + 1, 1), &options));
    }
    add_number(r, (double)th_cache_bytes(r->cache));
    const th_status status = th_error_code(r->ctx);
    th_no_grad_end(r->ctx);
    return status;
}

/* A token that is computed again without a reset, after the step before stored the keys and values of the others. */
static th_status cache_continued(program_run *r)
{
    th_no_grad_begin(r->ctx);
    const th_language_model_logits_options options = {.cache = r->cache,
                                                      .positions = th_full(r->ctx, TH_INT32, TH_SHAPE(2, 1), 6),
                                                      .rows = integers(r, TH_SHAPE(2), 1, 0)};
    add_tensor(r, th_language_model_logits(r->model, integers(r, TH_SHAPE(2, 1), 11, 54), &options));
    const th_status status = th_error_code(r->ctx);
    th_no_grad_end(r->ctx);
    return status;
}

static th_status stored_setup(program_run *r)
{
    r->model = th_dense_new(r->ctx, 32, 4, NULL);
    TRY(th_error_code(r->ctx));
    return th_module_freeze(r->model, true);
}

static th_status stored_written(program_run *r)
{
    TRY(th_module_store(r->model, TH_Q8_0));
    add_number(r, (double)th_dtype_numbers(th_dtype_of(th_module_find_parameter(r->model, "weight"))));
    add_number(r, th_module_crc32c(r->model));
    return th_error_code(r->ctx);
}

static th_status stored_read(program_run *r)
{
    th_tensor *x = leaf(r, TH_SHAPE(2, 32), 55);
    th_tensor *y = th_module_forward(r->model, x);
    add_tensor(r, y);
    TRY(th_backward(th_sum(y, TH_ALL_AXES, NULL), NULL));
    add_tensor(r, th_gradient(x));
    th_tape_clear(r->ctx);
    th_tensor_free(x);
    return th_error_code(r->ctx);
}

const program stored_weights = {.name = "stored_weights", .setup = stored_setup, .step = {stored_written, stored_read}};

static th_status lora_setup(program_run *r)
{
    static const th_language_model_options options = {
        .vocabulary = 5, .length = 4, .width = 8, .heads = 2, .layers = 1, .untied = true};
    r->model = th_language_model_new(r->ctx, &options);
    return th_error_code(r->ctx);
}

static th_status lora_attached(program_run *r)
{
    static const char *const patterns[] = {"in_proj"};
    TRY(th_lora_attach(r->model, &(th_lora_options){.rank = 2, .patterns = patterns, .n_patterns = 1}));
    th_lora_adapter adapter;
    for (int64_t i = 0; th_lora_find(r->model, i, &adapter); i++)
        TRY(th_fill(adapter.b, 0.5));
    add_number(r, (double)th_lora_count(r->model));
    return th_error_code(r->ctx);
}

static th_status lora_trained(program_run *r)
{
    const int32_t token[] = {1, 2, 3, 4};
    th_tensor *tokens = th_from_data(r->ctx, TH_INT32, TH_SHAPE(1, 4), token);
    th_tensor *loss = th_language_model_loss(r->model, tokens, tokens, NULL);
    add_tensor(r, loss);
    TRY(th_backward(loss, NULL));
    th_lora_adapter adapter;
    for (int64_t i = 0; th_lora_find(r->model, i, &adapter); i++) {
        add_tensor(r, th_gradient(adapter.b));
        th_empty_gradient(adapter.b);
        th_empty_gradient(adapter.a);
    }
    th_tape_clear(r->ctx);
    return th_error_code(r->ctx);
}

static th_status lora_merged(program_run *r)
{
    TRY(th_lora_merge(r->model));
    add_number(r, th_module_crc32c(r->model));
    TRY(th_lora_unmerge(r->model));
    return th_error_code(r->ctx);
}

static th_status lora_detached(program_run *r)
{
    TRY(th_lora_detach(r->model));
    add_number(r, th_module_crc32c(r->model));
    return th_error_code(r->ctx);
}

const program lora = {
    .name = "lora", .setup = lora_setup, .step = {lora_attached, lora_trained, lora_merged, lora_detached}};

static th_status cache_retyped(program_run *r)
{
    TRY(th_module_cast(r->model, TH_FLOAT64));
    TRY(cache_filled(r));
    th_tape_clear(r->ctx);
    TRY(th_module_cast(r->model, TH_FLOAT32));
    th_cache_free(NULL);
    return th_error_code(r->ctx);
}

static th_status cache_freed(program_run *r)
{
    th_cache_free(r->cache);
    return th_error_code(r->ctx);
}

const program cache = {.name = "cache",
                       .setup = cache_setup,
                       .step = {cache_filled, cache_continued, cache_retyped, cache_filled, cache_freed}};
