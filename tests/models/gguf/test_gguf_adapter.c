/* Tests adapters in GGUF files. What llama.cpp computes with base and adapter, base + alpha / r B A, is the merged model.
 * Also adapters of models that rotate neighbors, as Llama from a GGUF file does, in folders of PEFT. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/gguf/file.h"
#include "tapehead/models.h"

#include "folder.h"
#include "models.h"

static void setup(void)
{
    make_folder();
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 1});
}

static void teardown(void)
{
    close_context();
    remove_folder();
}

static th_module *base_of(const char *family)
{
    char path[512];
    snprintf(path, sizeof path, "%s/hugging_face/%s", FIXTURES, family);
    th_module *model = th_language_model_from_pretrained(ctx, path);
    no_error();
    return model;
}

/* Returns a Llama whose heads are wide enough that the order of their rows matters. */
static th_module *wide_llama(void)
{
    const th_language_model_options options = {.vocabulary = 16,
                                               .length = 16,
                                               .width = 32,
                                               .heads = 4,
                                               .layers = 2,
                                               .positions = TH_POSITIONS_NONE,
                                               .untied = true,
                                               .block = {.norm = TH_RMS_NORM,
                                                         .gated = true,
                                                         .activation = TH_SILU,
                                                         .no_bias = true,
                                                         .kv_heads = 2,
                                                         .scores = {.rotary = true}}};
    th_module *model = th_language_model_new(ctx, &options);
    no_error();
    return model;
}

/* Draws B of all adapters, so that each of them changes its projection. */
static void draw_adapters(th_module *model)
{
    th_lora_adapter adapter;
    for (int64_t i = 0; th_lora_find(model, i, &adapter); i++)
        ck_assert_int_eq(th_fill_uniform(adapter.b, -1, 1), TH_OK);
}

static void open_file(th_gguf *file, const char *name)
{
    ck_assert_msg(th_gguf_open(file, ctx, "test", in_folder(name)), "%s", th_error_message(ctx));
}

/* Returns a tensor's numbers, which the caller frees; NULL if the file does not have it. */
static float *numbers_of(const th_gguf *file, const char *name, int64_t size[2])
{
    const th_gguf_tensor *t = th_gguf_find_tensor(file, name);
    if (t == NULL)
        return NULL;
    float *numbers = malloc((size_t)t->bytes);
    ck_assert_int_eq(th_gguf_read(file, t, numbers), TH_OK);
    for (int i = 0; i < 2; i++)
        size[i] = t->shape.ndim == 2 ? t->shape.size[i] : 0;
    return numbers;
}

/* Adds alpha / r B A to base. Returns whether the file has an adapter for the tensor. */
static bool add_adapter(const th_gguf *adapters, const char *name, double alpha, float *base, const int64_t size[2])
{
    char name_a[TH_GGUF_MAX_NAME], name_b[TH_GGUF_MAX_NAME];
    int64_t size_a[2], size_b[2];
    snprintf(name_a, sizeof name_a, "%.200s.lora_a", name);
    snprintf(name_b, sizeof name_b, "%.200s.lora_b", name);
    float *a = numbers_of(adapters, name_a, size_a), *b = numbers_of(adapters, name_b, size_b);
    ck_assert((a == NULL) == (b == NULL));
    if (a == NULL)
        return false;
    ck_assert(size_a[1] == size[1] && size_b[0] == size[0] && size_a[0] == size_b[1]);
    for (int64_t i = 0; i < size[0]; i++)
        for (int64_t j = 0; j < size[1]; j++) {
            double sum = 0;
            for (int64_t k = 0; k < size_a[0]; k++)
                sum += (double)b[i * size_b[1] + k] * (double)a[k * size[1] + j];
            base[i * size[1] + j] += (float)(alpha / (double)size_a[0] * sum);
        }
    free(a);
    free(b);
    return true;
}

/* Compares base + adapter with the merged model, tensor by tensor. Returns the number of adapters. */
static int compare_files(const char *base_name, const char *adapter_name, const char *merged_name)
{
    th_gguf base, adapters, merged;
    double alpha = 0;
    int found = 0;
    open_file(&base, base_name);
    open_file(&adapters, adapter_name);
    open_file(&merged, merged_name);
    ck_assert(th_gguf_has_text(&adapters, "general.type", "adapter"));
    ck_assert(th_gguf_has_text(&adapters, "adapter.type", "lora"));
    ck_assert(th_gguf_real(&adapters, "adapter.lora.alpha", (th_range){.low = 0, .high = 1e9}, &alpha));
    for (int64_t i = 0; i < merged.n_tensors; i++) {
        const char *name = merged.tensor[i].name;
        int64_t size[2];
        float *expected = numbers_of(&merged, name, size), *sum = numbers_of(&base, name, size);
        found += add_adapter(&adapters, name, alpha, sum, size);
        for (int64_t j = 0; j < merged.tensor[i].bytes / 4; j++)
            ck_assert_msg(fabsf(sum[j] - expected[j]) < 1e-5F, "%s[%lld]: %g, not %g", name, (long long)j,
                          (double)sum[j], (double)expected[j]);
        free(expected);
        free(sum);
    }
    ck_assert_int_eq(adapters.n_tensors, 2 * found);
    th_gguf_close(&base);
    th_gguf_close(&adapters);
    th_gguf_close(&merged);
    return found;
}

static void check_model(th_module *model, const char *architecture, const th_lora_options *options, int expected)
{
    const th_gguf_export_options to = {.architecture = architecture};
    ck_assert_int_eq(th_language_model_export_gguf(model, in_folder("base.gguf"), &to), TH_OK);
    ck_assert_int_eq(th_lora_attach(model, options), TH_OK);
    draw_adapters(model);
    ck_assert_int_eq(th_lora_export_gguf(model, in_folder("adapter.gguf"), architecture), TH_OK);
    ck_assert_int_eq(th_lora_merge(model), TH_OK);
    ck_assert_int_eq(th_language_model_export_gguf(model, in_folder("merged.gguf"), &to), TH_OK);
    ck_assert_int_eq(compare_files("base.gguf", "adapter.gguf", "merged.gguf"), expected);
}

START_TEST(base_and_adapter_are_the_merged_model)
{
    static const char *const families[] = {"llama", "qwen3", "phi3", "gpt_neox", "gpt2", "phi", "granite"},
                             *const architectures[] = {"llama", "qwen3", "phi3", "gptneox", "gpt2", "phi2", "granite"};
    static const int per_layer[] = {7, 7, 4, 4, 4, 6, 7};
    for (int i = 0; i < 7; i++) {
        th_module *model = base_of(families[i]);
        const int layers = (int)th_language_model_options_of(model)->layers;
        check_model(model, architectures[i], &(th_lora_options){.rank = 3, .alpha = 5}, layers * per_layer[i]);
        th_module_free(model);
    }
}
END_TEST

START_TEST(rank_stabilized_adapters_have_their_scale)
{
    static const char *const patterns[] = {"q_proj", "linear2"};
    th_module *model = wide_llama();
    const int layers = (int)th_language_model_options_of(model)->layers;
    check_model(
        model, NULL,
        &(th_lora_options){.rank = 4, .alpha = 5, .rank_stabilized = true, .patterns = patterns, .n_patterns = 2},
        2 * layers);
}
END_TEST

static th_tensor *logits_of(th_module *model)
{
    const int32_t tokens[] = {3, 1, 4, 1, 5, 2};
    th_set_training(ctx, false);
    return th_keep(th_module_forward(model, th_from_data(ctx, TH_INT32, TH_SHAPE(1, 6), tokens)));
}

static double difference(th_tensor *a, th_tensor *b)
{
    const double worst = th_item(th_max(th_abs(th_sub(a, b)), TH_ALL_AXES, NULL));
    no_error();
    return worst;
}

/* A model from a GGUF file rotates neighbors, a model from a folder rotates halves. They share a folder of PEFT. */
START_TEST(models_that_rotate_neighbors_read_and_write_folders_of_peft)
{
    th_module *halves = wide_llama();
    ck_assert_int_eq(th_language_model_export_gguf(halves, in_folder("base.gguf"), NULL), TH_OK);
    th_module *neighbors = th_language_model_from_gguf(ctx, in_folder("base.gguf"), NULL);
    no_error();
    ck_assert_int_eq(th_language_model_options_of(neighbors)->block.scores.rotary_pairing, TH_ROTARY_NEIGHBORS);
    ck_assert_int_eq(th_lora_attach(neighbors, &(th_lora_options){.rank = 3}), TH_OK);
    draw_adapters(neighbors);
    ck_assert_int_eq(th_lora_save(neighbors, in_folder("adapter"), NULL), TH_OK);
    ck_assert_int_eq(th_lora_load(halves, in_folder("adapter")), TH_OK);
    th_tensor *expected = logits_of(neighbors);
    ck_assert_double_lt(difference(logits_of(halves), expected), 1e-4);
    ck_assert_int_eq(th_lora_detach(neighbors), TH_OK);
    ck_assert_double_gt(difference(logits_of(neighbors), expected), 1e-2);
    ck_assert_int_eq(th_lora_load(neighbors, in_folder("adapter")), TH_OK);
    ck_assert_double_lt(difference(logits_of(neighbors), expected), 1e-5);
    th_tape_clear(ctx);
}
END_TEST

START_TEST(wrong_calls_are_refused)
{
    th_module *model = base_of("llama");
    expect_status(th_lora_export_gguf(model, in_folder("a.gguf"), NULL), TH_ERROR_STATE, "has no adapter");
    expect_status(th_lora_export_gguf(model, NULL, NULL), TH_ERROR_ARGUMENT, "the path is NULL");
    ck_assert_int_eq(th_lora_attach(model, NULL), TH_OK);
    expect_status(th_lora_export_gguf(model, in_folder("a.gguf"), "typo"), TH_ERROR_ARGUMENT, "unknown architecture");
    expect_status(th_lora_export_gguf(model, in_folder("none/a.gguf"), NULL), TH_ERROR_FILE, "none/a.gguf");
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("gguf_adapter", setup, teardown);
    tcase_add_test(tests, base_and_adapter_are_the_merged_model);
    tcase_add_test(tests, rank_stabilized_adapters_have_their_scale);
    tcase_add_test(tests, models_that_rotate_neighbors_read_and_write_folders_of_peft);
    tcase_add_test(tests, wrong_calls_are_refused);
    return run_suites();
}
