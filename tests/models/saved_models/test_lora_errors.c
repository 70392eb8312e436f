/* Tests what adapters refuse, patterns, failing allocations, the forecast of memory. */
#include <math.h>
#include <string.h>

#include "tapehead/tapehead.h"

#include "adapter_model.h"
#include "models.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 1});
    ck_assert_ptr_nonnull(ctx);
}

/* -- patterns -- */

static int64_t count_matches(th_module *model, const char *first, const char *second)
{
    const char *const patterns[] = {first, second};
    if (th_lora_attach(model, &(th_lora_options){.rank = 1, .patterns = patterns, .n_patterns = second ? 2 : 1}))
        return -1;
    const int64_t matched = th_lora_count(model);
    ck_assert_int_eq(th_lora_detach(model), TH_OK);
    return matched;
}

START_TEST(patterns_match_as_target_modules_do)
{
    th_language_model_options options = small;
    options.untied = true;
    th_module *model = th_language_model_new(ctx, &options);
    ck_assert_int_eq(count_matches(model, "q_proj", NULL), 2);
    ck_assert_int_eq(count_matches(model, "q_proj", "v_proj"), 4);
    ck_assert_int_eq(count_matches(model, "layers.1.self_attn.q_proj", NULL), 1);
    ck_assert_int_eq(count_matches(model, "self_attn.q_proj", NULL), 2);
    ck_assert_int_eq(count_matches(model, "layers.0.*", NULL), 7);
    ck_assert_int_eq(count_matches(model, "linear?", "gate"), 6);
    ck_assert_int_eq(count_matches(model, "*_proj", NULL), 8);
    ck_assert_int_eq(count_matches(model, "in_proj", NULL), 6);
    ck_assert_int_eq(count_matches(model, "in_proj", "out_proj"), 8);
    ck_assert_int_eq(count_matches(model, "layers.0.self_attn.in_proj", "layers.1.self_attn.q_proj"), 4);
    ck_assert_int_eq(count_matches(model, "classifier", NULL), 1);
    ck_assert_int_eq(count_matches(model, "*", NULL), 15);
    ck_assert_int_eq(th_lora_attach(model, NULL), TH_OK); /* all except the classifier */
    ck_assert_int_eq(th_lora_count(model), 14);
    ck_assert_int_eq(th_lora_detach(model), TH_OK);
    ck_assert_int_eq(count_matches(th_module_find(model, "layers.0"), "self_attn.q_proj", NULL), 1);
    ck_assert_int_eq(count_matches(model, "proj", NULL), -1);
    expect_error(TH_ERROR_ARGUMENT, "\"proj\" matches no projection; there are q_proj, k_proj, v_proj, out_proj, "
                                    "linear1, linear2, gate, classifier.");
    ck_assert_int_eq(count_matches(model, "q_proj", "o_proj"), -1);
    expect_error(TH_ERROR_ARGUMENT, "\"o_proj\" matches no projection");
    ck_assert_int_eq(count_matches(model, "in_proj", "k_proj"), -1);
    expect_error(TH_ERROR_ARGUMENT, "layers.0.self_attn.k_proj matches \"k_proj\", and \"in_proj\" matches query, key");
    ck_assert_int_eq(count_matches(model, "embedding", NULL), -1);
    expect_error(TH_ERROR_ARGUMENT, "Embeddings");
}
END_TEST

START_TEST(a_tied_classifier_has_no_adapter)
{
    th_module *model = th_language_model_new(ctx, &small);
    ck_assert_int_eq(count_matches(model, "classifier", NULL), -1);
    expect_error(TH_ERROR_ARGUMENT, "a classifier that is the embedding");
}
END_TEST

START_TEST(in_proj_shares_a)
{
    th_module *model = th_language_model_new(ctx, &small);
    static const char *const pattern[] = {"in_proj"};
    ck_assert_int_eq(th_lora_attach(model, &(th_lora_options){.rank = 3, .patterns = pattern, .n_patterns = 1}), TH_OK);
    th_lora_adapter q, k, other;
    ck_assert(th_lora_find(model, 0, &q) && th_lora_find(model, 1, &k) && th_lora_find(model, 3, &other));
    ck_assert_ptr_eq(q.a, k.a);
    ck_assert_ptr_ne(q.a, other.a);
    ck_assert_ptr_ne(q.b, k.b);
    ck_assert_int_eq(th_module_count_trainable(model), 2 * (3 * 16 + 3 * 16 * 3));
    ck_assert(!th_lora_find(model, 6, &q) && !th_lora_find(model, -1, &q) && !th_lora_find(NULL, 0, &q));
    ck_assert_int_eq(th_lora_count(NULL), 0);
}
END_TEST

/* -- refused -- */

/* Projections of tensors with different widths cannot share A. */
START_TEST(different_inputs_cannot_share_a)
{
    static const char *const whole[] = {"in_proj"};
    th_module *cross = th_multi_head_attention_new(ctx, 8, 2, &(th_multi_head_attention_options){.key_input = 6});
    expect_status(th_lora_attach(cross, &(th_lora_options){.patterns = whole, .n_patterns = 1}), TH_ERROR_ARGUMENT,
                  "k_proj has 6 inputs and the query 8: only projections of one tensor can share A");
    ck_assert_int_eq(th_lora_count(cross), 0);
}
END_TEST

START_TEST(options_out_of_range_are_refused)
{
    static const char *const last_empty[] = {"q_proj", ""};
    static const char *const empty[] = {""}, *const null[] = {NULL}, *const some[] = {"q_proj"};
    static const struct {
        th_lora_options options;
        const char *words;
    } wrong[] = {
        {{.rank = -1}, "rank = -1"},
        {{.alpha = -2}, "alpha = -2"},
        {{.alpha = INFINITY}, "alpha = inf"},
        {{.alpha = NAN}, "alpha = "},
        {{.dropout = 1}, "dropout must be in [0, 1); it is 1"},
        {{.dropout = -0.5}, "dropout must be"},
        {{.dropout = NAN}, "dropout must be"},
        {{.patterns = empty, .n_patterns = 1}, "pattern 0 is empty"},
        {{.patterns = null, .n_patterns = 1}, "pattern 0 is NULL"},
        {{.patterns = last_empty, .n_patterns = 2}, "pattern 1 is empty"},
        {{.n_patterns = 1}, "there are 1 patterns, but their list is NULL"},
        {{.patterns = some}, "there are 0 patterns, but their list is given"},
        {{.patterns = some, .n_patterns = -1}, "there are -1 patterns"},
    };
    th_module *model = th_language_model_new(ctx, &small);
    const uint32_t bits = th_module_crc32c(model);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_status(th_lora_attach(model, &wrong[i].options), TH_ERROR_ARGUMENT, wrong[i].words);
    ck_assert_uint_eq(th_module_crc32c(model), bits);
    ck_assert_int_eq(th_module_count_trainable(model), th_module_count(model)); /* nothing was frozen */
    ck_assert_int_eq(th_lora_attach(NULL, NULL), TH_ERROR_ARGUMENT);
    ck_assert_int_eq(th_lora_merge(NULL), TH_ERROR_ARGUMENT);
    ck_assert_int_eq(th_lora_unmerge(NULL), TH_ERROR_ARGUMENT);
    ck_assert_int_eq(th_lora_detach(NULL), TH_ERROR_ARGUMENT);
    th_error_clear(ctx);
    th_module *norm = th_layer_norm_new(ctx, 4, NULL);
    expect_status(th_lora_attach(norm, NULL), TH_ERROR_ARGUMENT, "layer_norm has no dense layers and no attention");
    expect_status(th_lora_attach(model, &(th_lora_options){.rank = INT64_MAX / 8}), TH_ERROR_SHAPE, "overflow");
    ck_assert_int_eq(th_lora_count(model), 0);
    ck_assert_int_eq(th_module_count_trainable(model), th_module_count(model));
}
END_TEST

START_TEST(calls_out_of_order_are_refused)
{
    th_module *model = th_language_model_new(ctx, &small);
    expect_status(th_lora_merge(model), TH_ERROR_STATE, "language_model has no adapter");
    expect_status(th_lora_unmerge(model), TH_ERROR_STATE, "has no adapter");
    expect_status(th_lora_detach(model), TH_ERROR_STATE, "has no adapter");
    static const char *const one[] = {"layers.1.gate"};
    ck_assert_int_eq(th_lora_attach(model, &(th_lora_options){.patterns = one, .n_patterns = 1}), TH_OK);
    expect_status(th_lora_attach(model, NULL), TH_ERROR_STATE, "layers.1.gate has an adapter already");
    expect_status(th_lora_unmerge(model), TH_ERROR_STATE, "the adapter of layers.1.gate is not merged");
    ck_assert_ptr_nonnull(loss_of(model));
    expect_status(th_lora_merge(model), TH_ERROR_STATE, "the tape still uses layers.1.gate");
    th_tape_clear(ctx);
    ck_assert_int_eq(th_lora_merge(model), TH_OK);
    expect_status(th_lora_merge(model), TH_ERROR_STATE, "the adapter of layers.1.gate is merged already");
    expect_status(th_lora_attach(model, NULL), TH_ERROR_STATE, "has an adapter already");
    th_module *gate = th_module_find(model, "layers.1.gate");
    ck_assert(th_module_begin(gate));
    expect_status(th_lora_detach(model), TH_ERROR_STATE, "the forward of the dense with layers.1.gate runs");
    th_module_end(gate, NULL);
    ck_assert_int_eq(th_lora_unmerge(model), TH_OK);
    th_module *lora = th_module_find(gate, "lora");
    th_module_free(lora);
    expect_error(TH_ERROR_STATE, "lora is part of dense");
    th_module_forward(lora, tokens_new());
    expect_error(TH_ERROR_ARGUMENT, "is a part of the layer that it adapts");
}
END_TEST

static th_forward_function *dense_forward;

static th_tensor *doubled(th_module *m, th_tensor *x)
{
    return th_scale(dense_forward(m, x), 2);
}

START_TEST(replaced_forwards_are_refused_before_and_run_after)
{
    th_module *model = th_language_model_new(ctx, &small), *gate = th_module_find(model, "layers.0.gate");
    dense_forward = gate->forward;
    gate->forward = doubled;
    expect_status(th_lora_attach(model, NULL), TH_ERROR_ARGUMENT,
                  "the forward of the dense with layers.0.gate was replaced");
    ck_assert_int_eq(count_matches(model, "linear1", NULL), 2);
    gate->forward = dense_forward;
    ck_assert_int_eq(th_lora_attach(model, NULL), TH_OK);
    gate->forward = doubled;
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 16));
    th_lora_adapter adapter;
    for (int64_t i = 0; th_lora_find(model, i, &adapter); i++)
        ck_assert_int_eq(th_fill(adapter.b, 1), TH_OK);
    const double sum = th_item(th_sum(th_module_forward(gate, x), TH_ALL_AXES, NULL));
    gate->forward = dense_forward;
    ck_assert_double_eq_tol(sum, 2 * th_item(th_sum(th_module_forward(gate, x), TH_ALL_AXES, NULL)), 1e-5);
    th_tape_clear(ctx);
}
END_TEST

START_TEST(a_weight_with_a_second_name_is_not_merged)
{
    th_module *first = th_dense_new(ctx, 3, 3, NULL), *second = th_module_new(ctx, sizeof(th_module), "second", NULL);
    ck_assert_ptr_nonnull(th_module_tie_parameter(second, "weight", th_module_find_parameter(first, "weight")));
    ck_assert_int_eq(th_lora_attach(first, NULL), TH_OK);
    expect_status(th_lora_merge(first), TH_ERROR_ARGUMENT, "is tied to another module");
}
END_TEST

/* -- memory -- */

START_TEST(after_a_failed_allocation_nothing_has_changed)
{
    for (int merging = 0; merging < 2; merging++) {
        test_memory f = {.fail_at = 0};
        th_context *own = th_context_new(&(th_context_options){.threads = 1, .allocator = allocator_of(&f)});
        th_module *model = th_language_model_new(own, &small);
        if (merging) {
            ck_assert_int_eq(th_lora_attach(model, NULL), TH_OK);
            th_lora_adapter adapter;
            for (int64_t i = 0; th_lora_find(model, i, &adapter); i++)
                ck_assert_int_eq(th_fill(adapter.b, 0.1), TH_OK);
        }
        const uint32_t bits = th_module_crc32c(model);
        const int64_t trainable = th_module_count_trainable(model);
        int64_t failed = 0;
        for (int64_t i = 1;; i++) {
            f.calls = 0;
            f.fail_at = i;
            const th_status status = merging ? th_lora_merge(model) : th_lora_attach(model, NULL);
            f.fail_at = 0;
            if (status == TH_OK)
                break;
            ck_assert_int_eq(status, TH_ERROR_MEMORY);
            th_error_clear(own);
            th_tape_clear(own);
            failed++;
            ck_assert_uint_eq(th_module_crc32c(model), bits);
            ck_assert_int_eq(th_module_count_trainable(model), trainable);
            ck_assert_int_eq(th_lora_count(model), merging ? 14 : 0);
        }
        ck_assert_int_gt(failed, 0);
        th_context_free(own);
        ck_assert_uint_eq(f.bytes, 0);
    }
}
END_TEST

/* Two steps of training with an adapter, then a merge. */
static th_memory_usage train_and_merge(bool shapes_only)
{
    th_context *before = ctx;
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 1, .shapes_only = shapes_only});
    th_module *model = th_language_model_new(ctx, &small);
    ck_assert_int_eq(th_lora_attach(model, &(th_lora_options){.rank = 4, .dropout = 0.1}), TH_OK);
    ck_assert_int_eq(th_module_store(model, TH_BFLOAT16), TH_OK);
    th_optimizer *adam = th_adam_w_new(model, &(th_adam_options){.learning_rate = 1e-3});
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(th_backward(loss_of(model), NULL), TH_OK);
        ck_assert_int_eq(th_optimizer_step(adam), TH_OK);
        th_tape_clear(ctx);
    }
    ck_assert_int_eq(th_module_store(model, TH_FLOAT32), TH_OK);
    ck_assert_int_eq(th_lora_merge(model), TH_OK);
    ck_assert_int_eq(th_lora_unmerge(model), TH_OK);
    ck_assert_int_eq(th_lora_merge(model), TH_OK);
    ck_assert_int_eq(th_lora_detach(model), TH_OK);
    const th_memory_usage usage = th_memory(ctx);
    th_context_free(ctx);
    ctx = before;
    return usage;
}

START_TEST(the_forecast_is_exact)
{
    const th_memory_usage forecast = train_and_merge(true), usage = train_and_merge(false);
    ck_assert_uint_eq(forecast.peak, usage.peak);
    ck_assert_uint_eq(forecast.reserved_peak, usage.reserved_peak);
    ck_assert_uint_eq(forecast.live, usage.live);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("lora_errors", setup, close_context);
    tcase_add_test(tests, patterns_match_as_target_modules_do);
    tcase_add_test(tests, a_tied_classifier_has_no_adapter);
    tcase_add_test(tests, in_proj_shares_a);
    tcase_add_test(tests, different_inputs_cannot_share_a);
    tcase_add_test(tests, options_out_of_range_are_refused);
    tcase_add_test(tests, calls_out_of_order_are_refused);
    tcase_add_test(tests, replaced_forwards_are_refused_before_and_run_after);
    tcase_add_test(tests, a_weight_with_a_second_name_is_not_merged);
    tcase_add_test(tests, after_a_failed_allocation_nothing_has_changed);
    tcase_add_test(tests, the_forecast_is_exact);
    return run_suites();
}
