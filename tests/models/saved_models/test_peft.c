/* Tests adapters in folders of PEFT: fixtures that PEFT wrote, folders that we write, and what is refused. */
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "tapehead/models.h"

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

static th_module *base_of(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/hugging_face/%s", FIXTURES, name);
    th_module *model = th_language_model_from_pretrained(ctx, path);
    no_error();
    return model;
}

/* Returns the largest difference between two tensors, relative to the largest entry of b. */
static double difference(th_tensor *a, th_tensor *b)
{
    th_tensor *delta = th_abs(th_sub(a, b));
    const double worst = th_item(th_max(delta, TH_ALL_AXES, NULL)) / th_item(th_max(th_abs(b), TH_ALL_AXES, NULL));
    no_error();
    return worst;
}

static const char *const adapters[] = {"gpt2", "llama", "phi3", "gpt_neox"};
enum { ADAPTERS = sizeof adapters / sizeof *adapters };

START_TEST(adapters_of_peft_give_its_logits)
{
    for (int i = 0; i < ADAPTERS; i++) {
        char path[512], file_name[600];
        snprintf(path, sizeof path, "%s/lora/%s", FIXTURES, adapters[i]);
        snprintf(file_name, sizeof file_name, "%s/expected.safetensors", path);
        th_safetensors *file = th_safetensors_open(ctx, file_name);
        th_tensor *tokens = th_keep(th_safetensors_read(file, "tokens")),
                  *logits = th_keep(th_safetensors_read(file, "logits"));
        th_safetensors_close(file);
        th_module *model = base_of(adapters[i]);
        th_set_training(ctx, false);
        ck_assert_double_gt(difference(th_module_forward(model, tokens), logits), 1e-2);
        ck_assert_int_eq(th_lora_load(model, path), TH_OK);
        ck_assert_double_lt(difference(th_module_forward(model, tokens), logits), 1e-5);
        th_tape_clear(ctx);
        /* our folder is read with the same bits, also by another model */
        const uint32_t bits = th_module_crc32c(model);
        const char *again = in_folder(adapters[i]);
        const th_lora_save_options named = {.family = adapters[i], .base_model = "a \"base\""};
        ck_assert_int_eq(th_lora_merge(model), TH_OK);
        ck_assert_int_eq(th_lora_save(model, again, &named), TH_OK);
        ck_assert_int_eq(th_lora_unmerge(model), TH_OK);
        ck_assert_uint_eq(th_module_crc32c(model), bits);
        th_module *other = base_of(adapters[i]);
        ck_assert_int_eq(th_lora_load(other, again), TH_OK);
        ck_assert_uint_eq(th_module_crc32c(other), bits);
        ck_assert_int_eq(th_module_count_trainable(other), th_module_count_trainable(model));
        th_module_free(other);
        th_module_free(model);
        th_tensor_free(tokens);
        th_tensor_free(logits);
    }
}
END_TEST

/* Adapters of the parts of a packed module become one adapter. */
START_TEST(parts_of_a_packed_module_are_saved_as_one)
{
    static const struct {
        const char *base, *patterns[3];
        int count;
    } cases[] = {{"gpt2", {"q_proj", "v_proj"}, 2},
                 {"phi3", {"k_proj", "gate", "linear2"}, 3},
                 {"gpt_neox", {"q_proj", "k_proj", "v_proj"}, 3}};
    for (int i = 0; i < 3; i++)
        for (int stabilized = 0; stabilized < 2; stabilized++) {
            th_module *model = base_of(cases[i].base), *other = base_of(cases[i].base);
            ck_assert_int_eq(th_lora_attach(model, &(th_lora_options){.rank = 2,
                                                                      .alpha = 3,
                                                                      .rank_stabilized = stabilized,
                                                                      .patterns = cases[i].patterns,
                                                                      .n_patterns = cases[i].count}),
                             TH_OK);
            th_lora_adapter adapter;
            for (int64_t k = 0; th_lora_find(model, k, &adapter); k++)
                ck_assert_int_eq(th_fill_normal(adapter.b, 0, 0.3), TH_OK);
            const char *path = in_folder("parts");
            ck_assert_int_eq(th_lora_save(model, path, &(th_lora_save_options){.family = cases[i].base}), TH_OK);
            ck_assert_int_eq(th_lora_load(other, path), TH_OK);
            th_set_training(ctx, false);
            th_tensor *tokens = th_random_integers(ctx, TH_INT32, TH_SHAPE(2, 5), 0, 13);
            ck_assert_double_lt(difference(th_module_forward(other, tokens), th_module_forward(model, tokens)), 1e-5);
            th_tape_clear(ctx);
            th_module_free(model);
            th_module_free(other);
        }
}
END_TEST

/* -- the configuration -- */

/* Checks the whole adapter_config.json of an adapter of q_proj, k_proj, v_proj together and linear1. */
static void expect_config(const th_lora_options *options, const char *base, const char *expected)
{
    static const char *const patterns[] = {"in_proj", "linear1"};
    const th_language_model_options sizes = {.vocabulary = 16, .length = 8, .width = 16, .heads = 2, .layers = 2};
    th_module *model = th_language_model_new(ctx, &sizes);
    th_lora_options all = *options;
    size_t bytes;
    all.patterns = patterns;
    all.n_patterns = 2;
    ck_assert_int_eq(th_lora_attach(model, &all), TH_OK);
    ck_assert_int_eq(th_lora_save(model, in_folder("adapter"), &(th_lora_save_options){.base_model = base}), TH_OK);
    char *text = read_bytes(in_folder("adapter/adapter_config.json"), &bytes);
    ck_assert_str_eq(text, expected);
    free(text);
}

START_TEST(configurations_are_as_written)
{
    expect_config(&(th_lora_options){.rank = 3, .alpha = 6.5, .dropout = 0.25, .rank_stabilized = true}, "a \"base\"",
                  "{\n"
                  "  \"alpha_pattern\": {},\n"
                  "  \"auto_mapping\": null,\n"
                  "  \"base_model_name_or_path\": \"a \\\"base\\\"\",\n"
                  "  \"bias\": \"none\",\n"
                  "  \"fan_in_fan_out\": false,\n"
                  "  \"inference_mode\": true,\n"
                  "  \"init_lora_weights\": true,\n"
                  "  \"lora_alpha\": 6.5,\n"
                  "  \"lora_dropout\": 0.25,\n"
                  "  \"modules_to_save\": null,\n"
                  "  \"peft_type\": \"LORA\",\n"
                  "  \"r\": 3,\n"
                  "  \"rank_pattern\": {},\n"
                  "  \"target_modules\": [\"c_attn\", \"c_fc\"],\n"
                  "  \"task_type\": \"CAUSAL_LM\",\n"
                  "  \"use_dora\": false,\n"
                  "  \"use_rslora\": true\n"
                  "}\n");
    expect_config(&(th_lora_options){.rank = 1}, NULL,
                  "{\n"
                  "  \"alpha_pattern\": {},\n"
                  "  \"auto_mapping\": null,\n"
                  "  \"base_model_name_or_path\": null,\n"
                  "  \"bias\": \"none\",\n"
                  "  \"fan_in_fan_out\": false,\n"
                  "  \"inference_mode\": true,\n"
                  "  \"init_lora_weights\": true,\n"
                  "  \"lora_alpha\": 1,\n"
                  "  \"lora_dropout\": 0.0,\n"
                  "  \"modules_to_save\": null,\n"
                  "  \"peft_type\": \"LORA\",\n"
                  "  \"r\": 1,\n"
                  "  \"rank_pattern\": {},\n"
                  "  \"target_modules\": [\"c_attn\", \"c_fc\"],\n"
                  "  \"task_type\": \"CAUSAL_LM\",\n"
                  "  \"use_dora\": false,\n"
                  "  \"use_rslora\": false\n"
                  "}\n");
}
END_TEST

/* -- refused -- */

/* Copies Llama's adapter to the folder, with another value of a setting. */
static const char *with_setting(const char *setting)
{
    char command[1200];
    const char *path = in_folder("changed");
    snprintf(command, sizeof command, "rm -rf %s && cp -r %s/lora/llama %s && chmod -R u+w %s", path, FIXTURES, path,
             path);
    ck_assert_int_eq(system(command), 0);
    char file_name[600];
    snprintf(file_name, sizeof file_name, "%s/adapter_config.json", path);
    size_t bytes;
    char *text = read_bytes(file_name, &bytes);
    FILE *file = fopen(file_name, "w");
    ck_assert_ptr_nonnull(file);
    char key[64] = "";
    (void)sscanf(setting, "%60[^:]", key);
    fprintf(file, "{\n%s", setting);
    bool within = false; /* a removed object */
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        const bool removed = key[0] && strstr(line, key);
        if (line[0] != '{' && !removed && !within)
            fprintf(file, "\n%s", line);
        within = (within || (removed && strchr(line, '{'))) && strchr(line, '}') == NULL;
    }
    fclose(file);
    free(text);
    return path;
}

START_TEST(settings_that_change_the_result_are_refused_by_name)
{
    static const struct {
        const char *setting, *words;
    } wrong[] = {
        {"\"use_dora\": true,", "\"use_dora\" is not supported"},
        {"\"bias\": \"all\",", "\"bias\": \"all\" is not supported"},
        {"\"peft_type\": \"IA3\",", "\"peft_type\": \"IA3\" is not supported"},
        {"\"modules_to_save\": [\"lm_head\"],", "\"modules_to_save\" is not supported"},
        {"\"layer_replication\": [[0, 1]],", "\"layer_replication\" is not supported"},
        {"\"lora_bias\": true,", "\"lora_bias\" is not supported"},
        {"\"init_lora_weights\": \"pissa\",", "\"init_lora_weights\": \"pissa\" is not supported"},
        {"\"something_new\": 1,", "\"something_new\" is not supported"},
        {"\"rank_pattern\": {\".*proj\": 3},", "\"rank_pattern\" has \".*proj\"; only names"},
        {"\"alpha_pattern\": {\"q_proj\": 0},", "\"alpha_pattern\" of \"q_proj\" must be a positive number"},
        {"\"rank_pattern\": [3],", "\"rank_pattern\" is not supported"},
        {"\"rank_pattern\": {\"q_proj\": 3.5},", "\"rank_pattern\" of \"q_proj\" must be a positive integer"},
        {"\"r\": 0,", "\"r\""},
        {"\"r\": 2,", "must be floating and (2,"},
        {"\"lora_alpha\": -1,", "\"lora_alpha\" is -1"},
        {"\"lora_alpha\": 1e300,", "\"lora_alpha\" is 1e+300, but it must be positive and at most 2147483647"},
        {"\"lora_dropout\": 1,", "\"lora_dropout\" is 1"},
        {"\"use_rslora\": 3,", "\"use_rslora\""},
    };
    th_module *model = base_of("llama");
    const uint32_t bits = th_module_crc32c(model);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_status(th_lora_load(model, with_setting(wrong[i].setting)), TH_ERROR_FILE, wrong[i].words);
    ck_assert_int_eq(th_lora_count(model), 0);
    ck_assert_uint_eq(th_module_crc32c(model), bits);
    ck_assert_int_eq(th_module_count_trainable(model), th_module_count(model));
    ck_assert_int_eq(th_lora_load(model, with_setting("\"something_new\": null,")), TH_OK);
    expect_status(th_lora_load(model, in_folder("changed")), TH_ERROR_STATE, "has an adapter already");
}
END_TEST

START_TEST(tensors_that_do_not_fit_are_refused_by_name)
{
    th_module *model = base_of("llama");
    const char *path = with_setting("");
    char file_name[600];
    snprintf(file_name, sizeof file_name, "%s/adapter_model.safetensors", path);
    th_tensor *a = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(3, 1));
    static const char *const names[] = {"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight",
                                        "base_model.model.model.layers.0.mlp.other.lora_A.weight",
                                        "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector",
                                        "base_model.model.model.layers.0.self_attn.v_proj.base_layer.weight"},
                             *const words[] = {"q_proj.lora_A.weight\" is F32 (3, 1), but",
                                               "is not A or B of a projection", "is not A or B of a projection",
                                               "v_proj.lora_A.weight\" is missing"};
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(th_safetensors_write(ctx, file_name, &(th_named_tensor){names[i], a}, 1, NULL, 0), TH_OK);
        th_lora_load(model, path) == TH_OK ? ck_abort() : expect_error(TH_ERROR_FILE, words[i]);
    }
    const th_stored_tensor *stored = NULL;
    char original[600];
    snprintf(original, sizeof original, "%s/lora/llama/adapter_model.safetensors", FIXTURES);
    th_safetensors *file = th_safetensors_open(ctx, original);
    stored = th_safetensors_find(file, names[0]);
    ck_assert_ptr_nonnull(stored);
    a = th_safetensors_read(file, names[0]);
    ck_assert_int_eq(th_safetensors_write(ctx, file_name, &(th_named_tensor){names[0], a}, 1, NULL, 0), TH_OK);
    expect_status(th_lora_load(model, path), TH_ERROR_FILE, "q_proj.lora_B.weight\" is missing");
    ck_assert_int_eq(th_safetensors_write(ctx, file_name, NULL, 0, NULL, 0), TH_OK);
    expect_status(th_lora_load(model, path), TH_ERROR_FILE, "it has no adapter");
    th_safetensors_close(file);
    ck_assert_int_eq(th_lora_count(model), 0);
}
END_TEST

/* PEFT writes a copy of the base's weight for a classifier only, which is never packed. */
START_TEST(a_weight_of_a_packed_module_is_refused)
{
    th_module *model = base_of("gpt2");
    char file_name[600];
    snprintf(file_name, sizeof file_name, "%s/adapter_model.safetensors", with_setting(""));
    const th_named_tensor tensors[] = {
        {"base_model.model.transformer.h.0.attn.c_attn.lora_A.weight", th_zeros(ctx, TH_FLOAT32, TH_SHAPE(4, 8))},
        {"base_model.model.transformer.h.0.attn.c_attn.lora_B.weight", th_zeros(ctx, TH_FLOAT32, TH_SHAPE(24, 4))},
        {"base_model.model.transformer.h.0.attn.c_attn.base_layer.weight", th_ones(ctx, TH_FLOAT32, TH_SHAPE(8, 24))}};
    ck_assert_int_eq(th_safetensors_write(ctx, file_name, tensors, 3, NULL, 0), TH_OK);
    expect_status(th_lora_load(model, in_folder("changed")), TH_ERROR_FILE, "base_layer.weight\" is not supported");
    ck_assert_int_eq(th_safetensors_write(ctx, file_name, tensors, 2, NULL, 0), TH_OK);
    ck_assert_int_eq(th_lora_load(model, in_folder("changed")), TH_OK);
}
END_TEST

START_TEST(models_that_do_not_fit_are_refused)
{
    th_module *dense = th_dense_new(ctx, 3, 3, NULL), *model = base_of("llama");
    ck_assert_int_eq(th_lora_attach(dense, NULL), TH_OK);
    expect_status(th_lora_save(dense, folder, NULL), TH_ERROR_ARGUMENT, "is a dense, not a language model");
    expect_status(th_lora_load(dense, folder), TH_ERROR_ARGUMENT, "is a dense, not a language model");
    expect_status(th_lora_save(model, in_folder("none"), NULL), TH_ERROR_STATE, "has no adapter");
    expect_status(th_lora_load(model, in_folder("none")), TH_ERROR_FILE, "adapter_config.json");
    expect_status(th_lora_load(model, NULL), TH_ERROR_ARGUMENT, "the folder is NULL");
    ck_assert_int_eq(th_lora_attach(model, NULL), TH_OK);
    expect_status(th_lora_save(model, folder, &(th_lora_save_options){.family = "mamba"}), TH_ERROR_ARGUMENT,
                  "unknown family \"mamba\"");
    expect_status(th_lora_save(model, folder, &(th_lora_save_options){.family = "gpt2"}), TH_ERROR_ARGUMENT, "GPT-2");
    expect_status(th_lora_save(model, folder, &(th_lora_save_options){.base_model = "\xff"}), TH_ERROR_ARGUMENT,
                  "not UTF-8");
    expect_status(th_language_model_export(model, in_folder("export"), NULL), TH_ERROR_ARGUMENT, "lora.A");
    ck_assert_int_eq(th_lora_merge(model), TH_OK);
    ck_assert_int_eq(th_language_model_export(model, in_folder("merged"), NULL), TH_OK);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("peft", setup, teardown);
    tcase_add_test(tests, adapters_of_peft_give_its_logits);
    tcase_add_test(tests, parts_of_a_packed_module_are_saved_as_one);
    tcase_add_test(tests, configurations_are_as_written);
    tcase_add_test(tests, settings_that_change_the_result_are_refused_by_name);
    tcase_add_test(tests, tensors_that_do_not_fit_are_refused_by_name);
    tcase_add_test(tests, a_weight_of_a_packed_module_is_refused);
    tcase_add_test(tests, models_that_do_not_fit_are_refused);
    return run_suites();
}
