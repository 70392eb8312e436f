/* Tests adapters: the bits at B = 0, the formula, gradients, trained parameters, merging. */
#include <math.h>
#include <string.h>

#include "tapehead/tapehead.h"

#include "family_options.h"
#include "models.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 11, .threads = 1});
    ck_assert_ptr_nonnull(ctx);
}

enum { BATCH = 2, T = 6 };

/* The second text reads other positions of the same tokens. */
static th_tensor *tokens_new(int shift)
{
    int32_t token[BATCH * T];
    for (int i = 0; i < BATCH * T; i++)
        token[i] = ((i + shift) * 7 + i / 4) % V;
    return th_from_data(ctx, TH_INT32, TH_SHAPE(BATCH, T), token);
}

static const char *const everything[] = {"*"};
#define EVERYTHING .patterns = everything, .n_patterns = 1

static void attach(th_module *m, const th_lora_options *options)
{
    if (th_lora_attach(m, options) != TH_OK)
        ck_abort_msg("%s", th_error_message(ctx));
}

/* Draws every B. */
static void fill_b(th_module *m)
{
    th_lora_adapter adapter;
    for (int64_t i = 0; th_lora_find(m, i, &adapter); i++)
        ck_assert_int_eq(th_fill_normal(adapter.b, 0, 0.1), TH_OK);
}

/* -- bits -- */

/* Copies the numbers of a float32 tensor, and clears the tape. */
static int64_t copy_numbers(th_tensor *t, float *numbers, int64_t capacity)
{
    no_error();
    const int64_t n = th_numel(t);
    ck_assert_int_le(n, capacity);
    ck_assert_int_eq(th_copy_out(t, numbers, (size_t)n * sizeof *numbers), TH_OK);
    th_tape_clear(ctx);
    return n;
}

enum { OUTPUTS = 4096 };

/* Copies everything that a language model computes: logits, a loss in training, and a decoding step with a cache. */
static int64_t run_model(th_module *model, float *numbers)
{
    int64_t n = copy_numbers(th_module_forward(model, tokens_new(0)), numbers, OUTPUTS);
    n += copy_numbers(th_language_model_loss(model, tokens_new(0), tokens_new(1), NULL), numbers + n, OUTPUTS - n);
    th_cache *cache = th_cache_new(model, BATCH, LENGTH);
    const int64_t half = T / 2;
    th_no_grad_begin(ctx);
    for (int part = 0; part < 2; part++) {
        th_tensor *tokens = th_slice(tokens_new(0), 1, part * half, (part + 1) * half, 1),
                  *positions = th_arange(ctx, TH_INT64, part * half, (part + 1) * half, 1);
        n += copy_numbers(
            th_language_model_logits(model, tokens,
                                     &(th_language_model_logits_options){.cache = cache, .positions = positions}),
            numbers + n, OUTPUTS - n);
    }
    th_no_grad_end(ctx);
    th_cache_free(cache);
    return n;
}

static void compare_at_zero(const char *name, const th_language_model_options *options, const th_lora_options *lora)
{
    static float before[OUTPUTS], after[OUTPUTS];
    for (int fused = 0; fused < 2; fused++) {
        th_set_fusion(ctx, fused);
        th_module *model = th_language_model_new(ctx, options);
        const int64_t n = run_model(model, before);
        attach(model, lora);
        ck_assert_int_eq(run_model(model, after), n);
        for (int64_t i = 0; i < n; i++)
            ck_assert_msg(before[i] == after[i] && isfinite(before[i]), "%s, fused %d: number %lld was %g and is %g",
                          name, fused, (long long)i, (double)before[i], (double)after[i]);
        fill_b(model);
        run_model(model, after);
        int64_t same = 0;
        for (int64_t i = 0; i < n; i++)
            same += before[i] == after[i];
        ck_assert_msg(same < n / 4, "%s, fused %d: %lld of %lld numbers do not see B", name, fused, (long long)same,
                      (long long)n);
        th_module_free(model);
    }
}

START_TEST(with_b_zero_every_family_keeps_its_bits)
{
    for (int i = 0; i < FAMILIES; i++)
        compare_at_zero(families[i].name, &families[i].options, &(th_lora_options){.rank = 3, EVERYTHING});
}
END_TEST

/* Each projection alone: no path ignores its adapter. */
START_TEST(each_projection_alone_keeps_the_bits_and_sees_b)
{
    static const char *const each[] = {"q_proj", "k_proj",  "v_proj",  "in_proj",   "out_proj",
                                       "gate",   "linear1", "linear2", "classifier"};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        const th_language_model_options packed = {SIZES, .untied = true,
                                                  .block = {.gated = true, .norm = TH_RMS_NORM, .recompute = i % 2}};
        th_language_model_options grouped = packed;
        grouped.block.kv_heads = KV;
        const th_lora_options lora = {.rank = 2, .alpha = 6, .patterns = &each[i], .n_patterns = 1};
        compare_at_zero(each[i], &packed, &lora);
        compare_at_zero(each[i], &grouped, &lora);
    }
}
END_TEST

/* Sizes around the blocks of products, in every precision, with residual, strided x and one row. */
START_TEST(with_b_zero_a_dense_layer_keeps_its_bits)
{
    static const struct {
        int64_t rows, in, out;
    } sizes[] = {{1, 1, 1}, {1, 300, 70}, {5, 7, 3}, {33, 129, 65}, {64, 600, 96}, {100, 1100, 33}, {2, 4100, 17}};
    static const th_precision precisions[] = {TH_PRECISION_FLOAT32, TH_PRECISION_BFLOAT16X3, TH_PRECISION_BFLOAT16};
    static float before[8192], after[8192];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int k = 0; k < 3 * 2 * 2; k++) {
            ck_assert_int_eq(th_set_precision(ctx, precisions[k % 3]), TH_OK);
            th_module *dense = th_dense_new(ctx, sizes[i].in, sizes[i].out, NULL);
            th_tensor *wide = th_keep(th_randn(ctx, TH_FLOAT32, TH_SHAPE(sizes[i].rows, 2 * sizes[i].in))),
                      *residual = th_keep(th_randn(ctx, TH_FLOAT32, TH_SHAPE(sizes[i].rows, sizes[i].out)));
            int64_t n = 0;
            for (int adapted = 0; adapted < 2; adapted++) {
                th_tensor *x =
                    k / 3 % 2 ? th_slice(wide, 1, 0, 2 * sizes[i].in, 2) : th_slice(wide, 1, 0, sizes[i].in, 1);
                if (adapted)
                    attach(dense, NULL);
                th_tensor *y = k / 6 ? th_dense_residual(dense, x, residual) : th_module_forward(dense, x);
                n = copy_numbers(y, adapted ? after : before, 8192);
            }
            ck_assert_msg(memcmp(before, after, (size_t)n * sizeof *before) == 0, "size %zu, case %d", i, k);
            th_module_free(dense);
            th_tensor_free(wide);
            th_tensor_free(residual);
        }
}
END_TEST

/* -- the formula -- */

static void check_formula(const th_lora_options *options, double scale)
{
    th_module *dense = th_dense_new(ctx, 5, 4, NULL);
    attach(dense, options);
    fill_b(dense);
    th_lora_adapter adapter;
    ck_assert(th_lora_find(dense, 0, &adapter));
    ck_assert_double_eq_tol(adapter.scale, scale, 1e-15);
    const int64_t rank = th_size(adapter.a, 0);
    assert_shape(adapter.a, TH_SHAPE(rank, 5));
    assert_shape(adapter.b, TH_SHAPE(4, rank));
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(3, 5)), *w = th_module_find_parameter(dense, "weight"),
              *b = th_module_find_parameter(dense, "bias"), *y = th_module_forward(dense, x);
    ck_assert_ptr_eq(adapter.a, th_module_find_parameter(dense, "lora.A"));
    ck_assert_ptr_eq(adapter.b, th_module_find_parameter(dense, "lora.B"));
    for (int64_t n = 0; n < 3; n++)
        for (int64_t o = 0; o < 4; o++) {
            double sum = th_get(b, TH_INDEX(o));
            for (int64_t i = 0; i < 5; i++) {
                double weight = th_get(w, TH_INDEX(o, i));
                for (int64_t j = 0; j < rank; j++)
                    weight += scale * th_get(adapter.b, TH_INDEX(o, j)) * th_get(adapter.a, TH_INDEX(j, i));
                sum += weight * th_get(x, TH_INDEX(n, i));
            }
            ck_assert_double_eq_tol(th_get(y, TH_INDEX(n, o)), sum, 1e-5);
        }
    th_tape_clear(ctx);
    th_module_free(dense);
}

START_TEST(the_sum_is_that_of_the_formula)
{
    check_formula(NULL, 1);
    check_formula(&(th_lora_options){.rank = 2}, 1);
    check_formula(&(th_lora_options){.rank = 2, .alpha = 6}, 3);
    check_formula(&(th_lora_options){.rank = 9, .alpha = 6, .rank_stabilized = true}, 2);
    check_formula(&(th_lora_options){.rank = 4, .rank_stabilized = true}, 2);
}
END_TEST

START_TEST(a_is_uniform_and_determined_by_the_seed)
{
    float first[2][8 * 300];
    for (int run = 0; run < 2; run++) {
        th_context *own = th_context_new(&(th_context_options){.seed = 4, .threads = 1});
        th_module *dense = th_dense_new(own, 300, 2, NULL);
        ck_assert_int_eq(th_lora_attach(dense, NULL), TH_OK);
        th_lora_adapter adapter;
        ck_assert(th_lora_find(dense, 0, &adapter));
        ck_assert_int_eq(th_copy_out(adapter.a, first[run], sizeof first[run]), TH_OK);
        th_context_free(own);
    }
    ck_assert_mem_eq(first[0], first[1], sizeof first[0]);
    double least = 1, most = -1, squares = 0;
    for (int i = 0; i < 8 * 300; i++) {
        least = fmin(least, first[0][i]);
        most = fmax(most, first[0][i]);
        squares += (double)first[0][i] * first[0][i];
    }
    const double bound = 1 / sqrt(300);
    ck_assert(least >= -bound && least < -0.99 * bound && most <= bound && most > 0.99 * bound);
    ck_assert_double_eq_tol(squares / (8 * 300), bound * bound / 3, 0.1 * bound * bound / 3);
}
END_TEST

START_TEST(dropout_scales_and_leaves_out_inputs_of_a_in_training)
{
    th_module *dense = th_dense_new(ctx, 1, 1, NULL);
    attach(dense, &(th_lora_options){.rank = 1, .dropout = 0.25});
    th_lora_adapter adapter;
    ck_assert(th_lora_find(dense, 0, &adapter));
    ck_assert(th_fill(adapter.a, 1) == TH_OK && th_fill(adapter.b, 1) == TH_OK &&
              th_fill(th_module_find_parameter(dense, "weight"), 0) == TH_OK &&
              th_fill(th_module_find_parameter(dense, "bias"), 0) == TH_OK);
    th_tensor *x = th_full(ctx, TH_FLOAT32, TH_SHAPE(4000, 1), 3), *y = th_module_forward(dense, x);
    int dropped = 0;
    for (int64_t i = 0; i < 4000; i++) {
        const double value = th_get(y, TH_INDEX(i, 0));
        dropped += value == 0;
        ck_assert(value == 0 || fabs(value - 4) < 1e-5);
    }
    ck_assert_int_gt(dropped, 850);
    ck_assert_int_lt(dropped, 1150);
    /* the gradient of A has the same mask */
    ck_assert_int_eq(th_backward(th_sum(y, TH_ALL_AXES, NULL), NULL), TH_OK);
    ck_assert_double_eq_tol(th_get(th_gradient(adapter.a), TH_INDEX(0, 0)), 4.0 * (4000 - dropped), 1);
    th_tape_clear(ctx);
    y = th_module_evaluate(dense, th_full(ctx, TH_FLOAT32, TH_SHAPE(5, 1), 3));
    for (int64_t i = 0; i < 5; i++)
        ck_assert_double_eq_tol(th_get(y, TH_INDEX(i, 0)), 3, 1e-6);
}
END_TEST

/* -- gradients -- */

static th_tensor *loss_of(void *model, th_tensor *const *inputs)
{
    (void)inputs;
    return th_language_model_loss(model, tokens_new(0), tokens_new(1), NULL);
}

static void check_gradients(const th_language_model_options *options, const char *pattern, const th_lora_options *lora)
{
    th_lora_options given = *lora;
    given.patterns = &pattern;
    given.n_patterns = 1;
    th_module *model = th_language_model_new(ctx, options);
    attach(model, &given);
    fill_b(model);
    th_gradient_report report;
    const th_status status =
        th_check_gradient(ctx, loss_of, model, 0, NULL, &(th_gradient_options){.mode = TH_GRADIENT_FAST}, &report);
    ck_assert_msg(status == TH_OK, "%s: %s%s", pattern, report.text, th_error_message(ctx));
    /* every A and B, and nothing else, has a gradient */
    ck_assert_int_eq(th_backward(loss_of(model, NULL), NULL), TH_OK);
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);) {
        const bool adapter = strstr(p.name, "lora.") != NULL;
        ck_assert_msg(th_requires_gradient(p.tensor) == adapter && (th_gradient(p.tensor) != NULL) == adapter, "%s",
                      p.name);
    }
    th_tape_clear(ctx);
    th_module_free(model);
}

START_TEST(gradients_of_each_projection_are_right)
{
    static const char *const each[] = {"q_proj", "k_proj", "v_proj", "in_proj", "out_proj", "linear1", "linear2", "*"};
    const th_language_model_options gpt2 = {.vocabulary = V, .length = LENGTH, .width = E, .heads = 2, .layers = 2};
    th_language_model_options llama = {
        .vocabulary = V,
        .length = LENGTH,
        .width = E,
        .heads = H,
        .layers = 2,
        .positions = TH_POSITIONS_NONE,
        .untied = true,
        .block = {LLAMA_BLOCK, .no_bias = true, .activation = TH_SILU, .scores = {.rotary = true}}};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        check_gradients(&gpt2, each[i], &(th_lora_options){.rank = 3, .alpha = 6});
        llama.block.recompute = i % 2;
        check_gradients(&llama, each[i], &(th_lora_options){.rank = 2, .rank_stabilized = true, .dropout = 0.3});
    }
    check_gradients(&llama, "gate", &(th_lora_options){.rank = 1});
    check_gradients(&llama, "classifier", &(th_lora_options){.rank = 20, .alpha = 0.5});
}
END_TEST

static th_tensor *translate(void *model, th_tensor *const *inputs)
{
    (void)inputs;
    return th_transformer_loss(model, tokens_new(0), NULL, tokens_new(1), tokens_new(2), NULL);
}

START_TEST(encoder_and_decoder_have_adapters)
{
    th_module *model = th_transformer_new(ctx, &(th_transformer_options){.source_vocabulary = V,
                                                                         .target_vocabulary = V,
                                                                         .length = LENGTH,
                                                                         .width = E,
                                                                         .heads = 2,
                                                                         .encoder_layers = 1,
                                                                         .decoder_layers = 1,
                                                                         .untied = true});
    const double before = th_item(translate(model, NULL));
    th_tape_clear(ctx);
    attach(model, &(th_lora_options){.rank = 2, EVERYTHING});
    ck_assert_int_eq(th_lora_count(model), 6 + 10 + 1);
    ck_assert(th_item(translate(model, NULL)) == before);
    th_tape_clear(ctx);
    fill_b(model);
    th_gradient_report report;
    const th_status status =
        th_check_gradient(ctx, translate, model, 0, NULL, &(th_gradient_options){.mode = TH_GRADIENT_FAST}, &report);
    ck_assert_msg(status == TH_OK, "%s%s", report.text, th_error_message(ctx));
    ck_assert_int_eq(th_backward(translate(model, NULL), NULL), TH_OK);
    th_lora_adapter adapter;
    for (int64_t i = 0; th_lora_find(model, i, &adapter); i++)
        ck_assert_msg(th_gradient(adapter.a) && th_gradient(adapter.b), "%s", adapter.name);
    th_tape_clear(ctx);
}
END_TEST

/* -- training -- */

static const th_language_model_options small = {
    .vocabulary = V, .length = LENGTH, .width = 32, .heads = 2, .layers = 2, .untied = true};

START_TEST(only_a_and_b_change)
{
    th_module *model = th_language_model_new(ctx, &small);
    const int64_t base = th_module_count(model);
    const uint32_t bits = th_module_crc32c(model);
    attach(model, &(th_lora_options){.rank = 4, .dropout = 0.1});
    const int64_t adapters = 2 * (4 * 4 * (32 + 32) + 2 * 4 * (32 + 128)); /* q, k, v, out; linear1, linear2 */
    ck_assert_int_eq(th_module_count_trainable(model), adapters);
    ck_assert_int_eq(th_module_count(model), base + adapters);
    th_optimizer *adam = th_adam_w_new(model, &(th_adam_options){.learning_rate = 1e-2, .weight_decay = 0.1});
    double first = 0, last = 0;
    for (int i = 0; i < 60; i++) {
        last = step_down(th_language_model_loss(model, tokens_new(0), tokens_new(1), NULL), adam);
        first = i == 0 ? last : first;
    }
    ck_assert_msg(last < 0.8 * first, "the loss was %g and is %g", first, last);
    ck_assert_int_eq(th_lora_detach(model), TH_OK);
    ck_assert_uint_eq(th_module_crc32c(model), bits);
    ck_assert_int_eq(th_module_count(model), base);
    ck_assert_int_eq(th_module_count_trainable(model), 0);
}
END_TEST

/* Returns the bytes that backward and the first step add to the context: gradients, moments and the tape. */
static size_t bytes_of_a_step(bool adapted)
{
    th_module *model = th_language_model_new(
        ctx, &(th_language_model_options){.vocabulary = V, .length = LENGTH, .width = 256, .heads = 2, .layers = 2});
    if (adapted)
        attach(model, &(th_lora_options){.rank = 1});
    th_optimizer *adam = th_adam_w_new(model, &(th_adam_options){.learning_rate = 1e-3});
    const size_t before = th_memory(ctx).live;
    ck_assert_int_eq(th_backward(th_language_model_loss(model, tokens_new(0), tokens_new(1), NULL), NULL), TH_OK);
    ck_assert_int_eq(th_optimizer_step(adam), TH_OK);
    th_tape_clear(ctx);
    const size_t bytes = th_memory(ctx).live - before;
    th_optimizer_free(adam);
    th_module_free(model);
    return bytes;
}

START_TEST(frozen_weights_have_no_gradients_and_no_moments)
{
    const size_t weights = 2 * 12 * 256 * 256 * sizeof(float);
    ck_assert_uint_gt(bytes_of_a_step(false), 3 * weights);
    ck_assert_uint_lt(bytes_of_a_step(true), weights / 2);
}
END_TEST

/* The memory of adapters is exactly as large as they are, so gradients and moments are too. */
START_TEST(adapters_take_no_unused_memory)
{
    static const char *const lists[][2] = {{"in_proj", "linear1"}, {"q_proj", "v_proj"}, {"*", "*"}};
    static const th_dtype types[] = {TH_FLOAT32, TH_FLOAT64};
    for (int i = 0; i < 6; i++) {
        th_module *model = th_language_model_new(
            ctx, &(th_language_model_options){.vocabulary = V, .length = LENGTH, .width = 96, .heads = 2, .layers = 3});
        ck_assert_int_eq(th_module_cast(model, types[i % 2]), TH_OK);
        const size_t before = th_memory(ctx).live;
        attach(model, &(th_lora_options){.rank = 48, .patterns = lists[i / 2], .n_patterns = 2});
        const size_t bytes = (size_t)th_module_count_trainable(model) * th_dtype_size(types[i % 2]);
        ck_assert_uint_lt(th_memory(ctx).live - before, bytes + bytes / 20); /* bytes / 20: records of modules */
        th_module_free(model);
    }
}
END_TEST

/* -- merging -- */

START_TEST(merging_adds_and_unmerging_restores_the_bits)
{
    static float unmerged[OUTPUTS], merged[OUTPUTS], base[OUTPUTS];
    for (int i = 0; i < FAMILIES; i++) {
        th_module *model = th_language_model_new(ctx, &families[i].options);
        const int64_t parameters = th_module_count(model);
        const uint32_t bits = th_module_crc32c(model);
        run_model(model, base);
        attach(model, &(th_lora_options){.rank = 3, .alpha = 5, EVERYTHING});
        fill_b(model);
        const uint32_t adapted_bits = th_module_crc32c(model);
        const int64_t n = run_model(model, unmerged);
        ck_assert_int_eq(th_lora_merge(model), TH_OK);
        ck_assert_int_eq(th_module_count(model), parameters);
        ck_assert_uint_ne(th_module_crc32c(model), bits);
        run_model(model, merged);
        double worst = 0, change = 0;
        for (int64_t k = 0; k < n; k++) {
            worst = fmax(worst, fabs((double)merged[k] - (double)unmerged[k]));
            change = fmax(change, fabs((double)base[k] - (double)unmerged[k]));
        }
        ck_assert_msg(worst < 1e-5 && change > 1e-3, "%s: %g of %g", families[i].name, worst, change);
        ck_assert_int_eq(th_lora_unmerge(model), TH_OK);
        ck_assert_uint_eq(th_module_crc32c(model), adapted_bits);
        run_model(model, merged);
        ck_assert_mem_eq(merged, unmerged, (size_t)n * sizeof *merged);
        ck_assert_int_eq(th_lora_detach(model), TH_OK);
        ck_assert_uint_eq(th_module_crc32c(model), bits);
        th_module_free(model);
    }
}
END_TEST

START_TEST(detaching_a_merged_adapter_keeps_the_sum)
{
    th_module *model = th_language_model_new(ctx, &small);
    attach(model, &(th_lora_options){.rank = 2});
    fill_b(model);
    ck_assert_int_eq(th_lora_merge(model), TH_OK);
    th_lora_adapter adapter;
    ck_assert(th_lora_find(model, 0, &adapter) && adapter.merged);
    ck_assert_str_eq(adapter.name, "layers.0.self_attn.q_proj");
    ck_assert_ptr_null(th_module_find(model, "layers.0.linear1.lora"));
    ck_assert_ptr_null(th_module_find_parameter(model, "layers.0.linear1.lora.A"));
    const uint32_t bits = th_module_crc32c(model);
    ck_assert_int_eq(th_lora_detach(model), TH_OK);
    ck_assert_uint_eq(th_module_crc32c(model), bits);
    ck_assert_int_eq(th_lora_count(model), 0);
    attach(model, NULL); /* the next adapter */
    ck_assert_int_eq(th_lora_count(model), 12);
    ck_assert_int_eq(th_lora_merge(model), TH_OK);
    th_module_free(model); /* a merged model */
}
END_TEST

START_TEST(unmerging_needs_the_merged_weights)
{
    th_module *model = th_language_model_new(ctx, &small);
    attach(model, &(th_lora_options){.rank = 2});
    fill_b(model);
    ck_assert_int_eq(th_lora_merge(model), TH_OK);
    ck_assert_int_eq(th_fill(th_module_find_parameter(model, "layers.1.linear2.weight"), 2), TH_OK);
    const uint32_t bits = th_module_crc32c(model);
    expect_status(th_lora_unmerge(model), TH_ERROR_STATE, "the weight of layers.1.linear2 was changed after the merge");
    ck_assert_uint_eq(th_module_crc32c(model), bits);
    ck_assert_int_eq(th_lora_detach(model), TH_OK);
    attach(model, NULL);
    ck_assert_int_eq(th_lora_merge(model), TH_OK);
    ck_assert_int_eq(th_module_cast(model, TH_FLOAT64), TH_OK);
    expect_status(th_lora_unmerge(model), TH_ERROR_STATE, "was changed after the merge");
}
END_TEST

/* -- stored weights -- */

START_TEST(a_base_in_a_storage_type_has_adapters)
{
    static const th_dtype types[] = {TH_BFLOAT16, TH_FLOAT16, TH_Q8_0, TH_Q4_0};
    static float before[OUTPUTS], after[OUTPUTS];
    for (int i = 0; i < 4; i++)
        for (int stored_first = 0; stored_first < 2; stored_first++) {
            th_module *model = th_language_model_new(ctx, &small);
            const th_lora_options lora = {.rank = 3, EVERYTHING};
            if (!stored_first)
                attach(model, &lora);
            ck_assert_int_eq(th_module_freeze(th_module_find(model, "embedding"), true), TH_OK);
            if (stored_first)
                ck_assert_int_eq(th_module_freeze(model, true), TH_OK);
            ck_assert_int_eq(th_module_store(model, types[i]), TH_OK);
            ck_assert_int_eq(th_dtype_of(th_module_find_parameter(model, "layers.0.linear1.weight")), types[i]);
            const int64_t n = run_model(model, before);
            if (stored_first)
                attach(model, &lora);
            ck_assert_int_eq(run_model(model, after), n);
            ck_assert_mem_eq(before, after, (size_t)n * sizeof *before);
            fill_b(model);
            th_lora_adapter adapter;
            for (int64_t k = 0; th_lora_find(model, k, &adapter); k++)
                ck_assert(th_dtype_of(adapter.a) == TH_FLOAT32 && th_dtype_of(adapter.b) == TH_FLOAT32);
            expect_status(th_lora_merge(model), TH_ERROR_TYPE, "layers.0.self_attn.q_proj is stored as");
            /* the same numbers as with the rounded weights in float32 */
            run_model(model, before);
            ck_assert_int_eq(th_module_store(model, TH_FLOAT32), TH_OK);
            run_model(model, after);
            ck_assert_mem_eq(before, after, (size_t)n * sizeof *before);
            ck_assert_int_eq(th_lora_merge(model), TH_OK);
            th_module_free(model);
        }
}
END_TEST

START_TEST(gradients_over_a_stored_base_are_right)
{
    th_module *model = th_language_model_new(ctx, &small);
    attach(model, &(th_lora_options){.rank = 3, EVERYTHING});
    fill_b(model);
    ck_assert_int_eq(th_module_store(model, TH_Q8_0), TH_OK);
    float gradient[2][4 * 128];
    for (int stored = 1; stored >= 0; stored--) {
        if (!stored)
            ck_assert_int_eq(th_module_store(model, TH_FLOAT32), TH_OK);
        ck_assert_int_eq(th_backward(loss_of(model, NULL), NULL), TH_OK);
        th_tensor *b = th_module_find_parameter(model, "layers.0.linear1.lora.B");
        ck_assert_int_eq(th_copy_out(th_gradient(b), gradient[stored], (size_t)th_numel(b) * sizeof(float)), TH_OK);
        for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
            if (th_requires_gradient(p.tensor))
                th_empty_gradient(p.tensor);
        th_tape_clear(ctx);
    }
    ck_assert_mem_eq(gradient[0], gradient[1], 3 * 128 * sizeof(float));
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("lora", setup, close_context);
    tcase_add_test(tests, with_b_zero_every_family_keeps_its_bits);
    tcase_add_test(tests, each_projection_alone_keeps_the_bits_and_sees_b);
    tcase_add_test(tests, with_b_zero_a_dense_layer_keeps_its_bits);
    tcase_add_test(tests, the_sum_is_that_of_the_formula);
    tcase_add_test(tests, a_is_uniform_and_determined_by_the_seed);
    tcase_add_test(tests, dropout_scales_and_leaves_out_inputs_of_a_in_training);
    tcase_add_test(tests, gradients_of_each_projection_are_right);
    tcase_add_test(tests, encoder_and_decoder_have_adapters);
    tcase_add_test(tests, only_a_and_b_change);
    tcase_add_test(tests, frozen_weights_have_no_gradients_and_no_moments);
    tcase_add_test(tests, adapters_take_no_unused_memory);
    tcase_add_test(tests, merging_adds_and_unmerging_restores_the_bits);
    tcase_add_test(tests, detaching_a_merged_adapter_keeps_the_sum);
    tcase_add_test(tests, unmerging_needs_the_merged_weights);
    tcase_add_test(tests, a_base_in_a_storage_type_has_adapters);
    tcase_add_test(tests, gradients_over_a_stored_base_are_right);
    return run_suites();
}
