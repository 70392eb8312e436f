/* Tests checkpoints of models with adapters, and without their frozen parameters. */
#include <string.h>

#include "tapehead/models.h"

#include "adapter_model.h"
#include "folder.h"
#include "models.h"

static void setup(void)
{
    make_folder();
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 1});
    ck_assert_ptr_nonnull(ctx);
}

static void teardown(void)
{
    close_context();
    remove_folder();
}

/* The model of bench/tuning.sh, but smaller. */
static const th_language_model_options llama = {.vocabulary = V,
                                                .length = LENGTH,
                                                .width = 64,
                                                .heads = 2,
                                                .layers = 3,
                                                .positions = TH_POSITIONS_NONE,
                                                .block = {.norm = TH_RMS_NORM,
                                                          .gated = true,
                                                          .activation = TH_SILU,
                                                          .no_bias = true,
                                                          .recompute = true,
                                                          .kv_heads = 1,
                                                          .mlp_width = 96,
                                                          .scores = {.rotary = true}}};

typedef th_module *model_function(void);

static th_module *small_with_adapters(void)
{
    th_module *model = th_language_model_new(ctx, &small);
    ck_assert_int_eq(th_lora_attach(model, &(th_lora_options){.rank = 2, .dropout = 0.2}), TH_OK);
    return model;
}

static th_module *q8_0_with_adapters(void)
{
    static const char *const patterns[] = {"q_proj", "v_proj"};
    th_module *model = th_language_model_new(ctx, &llama);
    ck_assert_int_eq(th_module_freeze(model, true), TH_OK);
    ck_assert_int_eq(th_module_store(model, TH_Q8_0), TH_OK);
    ck_assert_int_eq(th_lora_attach(model, &(th_lora_options){.rank = 2, .patterns = patterns, .n_patterns = 2}),
                     TH_OK);
    return model;
}

/* Trains until step `steps`, from a checkpoint unless `from` is NULL, and saves one. Returns the bits of the model. */
static uint32_t train(model_function *make, const char *from, const char *to, int64_t steps, bool without_frozen)
{
    th_context *before = ctx;
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 1});
    th_module *model = make();
    th_optimizer *adam = th_adam_w_new(model, &(th_adam_options){.learning_rate = 1e-2});
    const th_checkpoint run = {.model = model, .optimizer = adam, .without_frozen = without_frozen};
    if (from && th_checkpoint_load(from, &run))
        ck_abort_msg("%s", th_error_message(ctx));
    while (th_step(ctx) < steps)
        step_down(loss_of(model), adam);
    if (to && th_checkpoint_save(to, &run))
        ck_abort_msg("%s", th_error_message(ctx));
    const uint32_t bits = th_module_crc32c(model);
    th_context_free(ctx);
    ctx = before;
    return bits;
}

START_TEST(training_resumes_with_the_same_bits)
{
    char whole[256], part[256];
    strcpy(whole, in_folder("whole.safetensors"));
    strcpy(part, in_folder("part.safetensors"));
    const uint32_t bits = train(small_with_adapters, NULL, NULL, 12, false);
    train(small_with_adapters, NULL, whole, 5, false);
    train(small_with_adapters, NULL, part, 5, true);
    ck_assert_uint_eq(train(small_with_adapters, whole, NULL, 12, false), bits);
    ck_assert_uint_eq(train(small_with_adapters, part, NULL, 12, true), bits);
    ck_assert_uint_eq(train(small_with_adapters, part, NULL, 12, false), bits); /* the file says what it has */
    /* the small file has A, B and moments only */
    th_safetensors *file = th_safetensors_open(ctx, part);
    ck_assert_ptr_nonnull(file);
    for (int64_t i = 0; i < th_safetensors_count(file); i++) {
        const char *name = th_safetensors_at(file, i)->name;
        ck_assert_msg(strstr(name, "lora.") || strcmp(name, ".checksums") == 0, "%s", name);
    }
    th_safetensors_close(file);
    /* another base, and a merged one */
    th_module *model = th_language_model_new(ctx, &small);
    ck_assert_int_eq(th_lora_attach(model, &(th_lora_options){.rank = 2}), TH_OK);
    th_optimizer *adam = th_adam_w_new(model, &(th_adam_options){.learning_rate = 1e-2});
    const th_checkpoint run = {.model = model, .optimizer = adam, .without_frozen = true};
    ck_assert_int_eq(th_fill(th_module_find_parameter(model, "layers.0.gate.weight"), 1), TH_OK);
    const uint32_t before = th_module_crc32c(model);
    expect_status(th_checkpoint_load(part, &run), TH_ERROR_FILE, "different values: layers.0.gate.weight was frozen");
    ck_assert_uint_eq(th_module_crc32c(model), before);
    ck_assert_int_eq(th_lora_merge(model), TH_OK);
    expect_status(th_checkpoint_save(part, &run), TH_ERROR_ARGUMENT, "do not belong to language_model");
    expect_status(th_checkpoint_load(whole, &(th_checkpoint){.model = model}), TH_ERROR_FILE, "unexpected: ");
}
END_TEST

/* With adapters of two projections over q8_0, and recomputation. */
START_TEST(tuning_over_q8_0_resumes_with_the_same_bits)
{
    for (int without_frozen = 0; without_frozen < 2; without_frozen++) {
        char part[256];
        strcpy(part, in_folder("part.safetensors"));
        train(q8_0_with_adapters, NULL, part, 3, without_frozen);
        ck_assert_uint_eq(train(q8_0_with_adapters, part, NULL, 7, without_frozen),
                          train(q8_0_with_adapters, NULL, NULL, 7, false));
    }
}
END_TEST

START_TEST(the_memory_of_tuning_over_q8_0_is_forecast)
{
    th_context *before = ctx;
    th_memory_usage used[2];
    for (int shapes_only = 0; shapes_only < 2; shapes_only++) {
        ctx = th_context_new(&(th_context_options){.threads = 2, .shapes_only = shapes_only});
        th_module *model = q8_0_with_adapters();
        th_optimizer *adam = th_adam_w_new(model, &(th_adam_options){.learning_rate = 1e-2});
        th_memory_reset_peak(ctx);
        for (int step = 0; step < 2; step++)
            step_down(loss_of(model), adam);
        used[shapes_only] = th_memory(ctx);
        th_context_free(ctx);
    }
    ctx = before;
    ck_assert_uint_eq(used[0].peak, used[1].peak);
    ck_assert_uint_eq(used[0].live, used[1].live);
    ck_assert_uint_eq(used[0].reserved_peak, used[1].reserved_peak);
}
END_TEST

/* Parameters that were trained and then frozen keep their moments. */
START_TEST(moments_of_frozen_parameters_are_saved_and_loaded)
{
    uint32_t bits[2];
    char path[256];
    strcpy(path, in_folder("frozen.safetensors"));
    for (int resumed = 0; resumed < 2; resumed++) {
        th_context *before = ctx;
        ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 1});
        th_module *model = th_language_model_new(ctx, &small);
        th_optimizer *adam = th_adam_w_new(model, &(th_adam_options){.learning_rate = 1e-2});
        const th_checkpoint run = {.model = model, .optimizer = adam};
        if (resumed) {
            ck_assert_int_eq(th_module_freeze(model, true), TH_OK);
            ck_assert_int_eq(th_checkpoint_load(path, &run), TH_OK);
        } else {
            step_down(loss_of(model), adam);
            ck_assert_int_eq(th_module_freeze(th_module_find(model, "layers"), true), TH_OK);
            step_down(loss_of(model), adam);
            ck_assert_int_eq(th_checkpoint_save(path, &run), TH_OK);
        }
        step_down(loss_of(model), adam);
        ck_assert_int_eq(th_module_freeze(model, false), TH_OK);
        step_down(loss_of(model), adam);
        bits[resumed] = th_module_crc32c(model);
        th_context_free(ctx);
        ctx = before;
    }
    ck_assert_uint_eq(bits[0], bits[1]);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("lora_checkpoint", setup, teardown);
    tcase_add_test(tests, training_resumes_with_the_same_bits);
    tcase_add_test(tests, tuning_over_q8_0_resumes_with_the_same_bits);
    tcase_add_test(tests, the_memory_of_tuning_over_q8_0_is_forecast);
    tcase_add_test(tests, moments_of_frozen_parameters_are_saved_and_loaded);
    return run_suites();
}
