/* Models in transformers' format: fixtures that transformers wrote, with its results, and weights that do not fit. */
#include <string.h>

#include "tapehead/models.h"

#include "hugging_face_models.h"

/* -- compared with transformers' results -- */
/* Checks that the model in a fixture computes the logits, the loss and, if the file has them, all gradients in the
 * file beside it. */
static void compare_fixture(const char *folder, double logits_limit, double gradient_limit)
{
    char name[TH_FULL_NAME_SIZE + 16];
    snprintf(name, sizeof name, FOLDER "%s/expected.safetensors", folder);
    th_safetensors *file = th_safetensors_open(ctx, name);
    snprintf(name, sizeof name, FOLDER "%s", folder);
    th_module *model = th_language_model_from_pretrained(ctx, name);
    no_error();
    th_set_training(ctx, false);
    th_tensor *tokens = th_safetensors_read(file, "tokens"), *targets = th_safetensors_read(file, "targets");
    assert_close(th_module_forward(model, tokens), th_safetensors_read(file, "logits"), logits_limit, "logits");
    th_tensor *loss = th_language_model_loss(model, tokens, targets, NULL);
    assert_close(loss, th_safetensors_read(file, "loss"), logits_limit / 10, "loss");
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    int64_t compared = 0;
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p); compared++) {
        snprintf(name, sizeof name, "gradient.%s", p.name);
        if (th_safetensors_find(file, name))
            assert_close(th_gradient(p.tensor), th_safetensors_read(file, name), gradient_limit, name);
        else
            ck_assert_ptr_nonnull(strstr(folder, "_shards"));
    }
    ck_assert_int_gt(compared, 10);
    th_safetensors_close(file);
}

/* The last four have norms at the end of branches. In bfloat16 they amplify the rounding errors of the small branches
 * of these models to 30 % of a gradient. */
static const char *const folders[] = {"gpt2",   "llama",           "gpt2_shards", "llama_shards", "mistral", "smollm3",
                                      "qwen2",  "qwen3",           "phi3",        "gpt_neox",     "phi",     "granite",
                                      "bert",   "roberta",         "distilbert",  "modernbert",   "mpnet",   "gemma2",
                                      "gemma3", "gemma3_pictures", "olmo2"};
enum { FOLDERS = sizeof folders / sizeof *folders };

START_TEST(test_as_transformers_in_float32)
{
    compare_fixture(folders[_i], 1e-4, 1e-4);
}
END_TEST

START_TEST(test_as_transformers_in_bfloat16x3)
{
    ck_assert_int_eq(th_set_precision(ctx, TH_PRECISION_BFLOAT16X3), TH_OK);
    compare_fixture(folders[_i], 1e-4, 1e-4);
}
END_TEST

START_TEST(test_as_transformers_in_bfloat16)
{
    ck_assert_int_eq(th_set_precision(ctx, TH_PRECISION_BFLOAT16), TH_OK);
    compare_fixture(folders[_i], 2e-2, 5e-2);
}
END_TEST

START_TEST(test_as_transformers_in_float64)
{
    ck_assert_int_eq(th_set_default_dtype(ctx, TH_FLOAT64), TH_OK);
    compare_fixture(folders[_i], 1e-10, 1e-10);
}
END_TEST

/* -- weights that do not fit -- */
enum { TENSORS = 17 };
static const th_named_tensor *small_tensors(void)
{
    static const struct {
        const char *name;
        int64_t size[2];
    } entries[TENSORS] = {
        {"wte.weight", {5, 4}},
        {"wpe.weight", {4, 4}},
        {"h.0.ln_1.weight", {4, 0}},
        {"h.0.ln_1.bias", {4, 0}},
        {"h.0.ln_2.weight", {4, 0}},
        {"h.0.ln_2.bias", {4, 0}},
        {"h.0.attn.c_attn.bias", {12}},
        {"h.0.mlp.c_fc.bias", {16}},
        {"h.0.attn.c_attn.weight", {4, 12}},
        {"h.0.attn.c_proj.bias", {4}},
        {"h.0.mlp.c_proj.bias", {4}},
        {"h.0.attn.c_proj.weight", {4, 4}},
        {"h.0.mlp.c_fc.weight", {4, 16}},
        {"h.0.mlp.c_proj.weight", {16, 4}},
        {"ln_f.weight", {4}},
        {"ln_f.bias", {4}},
        {"lm_head.weight", {5, 4}},
    };
    static th_named_tensor tensors[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        const th_shape shape =
            entries[i].size[1] ? TH_SHAPE(entries[i].size[0], entries[i].size[1]) : TH_SHAPE(entries[i].size[0]);
        tensors[i] = (th_named_tensor){entries[i].name, th_ones(ctx, TH_FLOAT32, shape)};
    }
    return tensors;
}

static void write_weights(const th_named_tensor *tensors, int64_t n)
{
    no_error();
    ck_assert_int_eq(th_safetensors_write(ctx, in_directory("model.safetensors"), tensors, n, NULL, 0), TH_OK);
}

static char heard[1024];

static void receive_line(const char *line, void *user)
{
    ck_assert_ptr_null(user);
    snprintf(heard + strlen(heard), sizeof heard - strlen(heard), "%s\n", line);
}

START_TEST(test_weights_that_do_not_fit)
{
    th_named_tensor tensors[TENSORS];
    write_config(small);
    memcpy(tensors, small_tensors(), sizeof tensors);
    write_weights(tensors, TENSORS); /* complete: without the prefix, with a classifier that equals the embedding */
    th_module *model = th_language_model_from_pretrained(ctx, directory);
    no_error();
    const uint32_t crc = th_module_crc32c(model);

    tensors[0].name = "odd.weight";
    tensors[1].tensor = th_ones(ctx, TH_FLOAT32, TH_SHAPE(4, 3));
    tensors[5].tensor = th_ones(ctx, TH_FLOAT64, TH_SHAPE(4, 1));
    tensors[6].tensor = th_ones(ctx, TH_INT64, TH_SHAPE(12));
    write_weights(tensors, TENSORS - 2);
    static const char *const troubles[] = {"missing: transformer.wte.weight",
                                           "missing: transformer.ln_f.bias",
                                           "different shape: wpe.weight is (4, 3) in the file and (4, 4) in the model",
                                           "different shape: h.0.ln_2.bias is (4, 1) in the file and (4) in the model",
                                           "different type: h.0.attn.c_attn.bias is I64 in the file",
                                           "unexpected: odd.weight",
                                           "2 missing, 1 unexpected, 2 of a different shape, 1 of a different type"};
    for (int i = 0; i < 7; i++) {
        expect_failure(th_language_model_from_pretrained(ctx, directory) == NULL, TH_ERROR_FILE, troubles[i]);
        heard[0] = 0;
        expect_status(th_pretrained_load(model, directory, &(th_pretrained_load_options){.report = receive_line}),
                      TH_ERROR_FILE, troubles[i]);
        ck_assert_msg(i == 6 || strstr(heard, troubles[i]), "%s is not in %s", troubles[i], heard);
    }
    ck_assert_uint_eq(th_module_crc32c(model), crc);
}
END_TEST

START_TEST(test_classifier_beside_a_tied_embedding)
{
    th_named_tensor tensors[TENSORS];
    write_config(small);
    memcpy(tensors, small_tensors(), sizeof tensors);
    ck_assert_int_eq(th_set(tensors[TENSORS - 1].tensor, TH_INDEX(4, 3), 2), TH_OK);
    write_weights(tensors, TENSORS);
    expect_failure(th_language_model_from_pretrained(ctx, directory) == NULL, TH_ERROR_FILE,
                   "differs from the embedding");
    write_weights(tensors + 1, TENSORS - 1); /* the classifier alone: it is also the embedding */
    th_module *model = th_language_model_from_pretrained(ctx, directory);
    no_error();
    ck_assert(th_get(th_module_find_parameter(model, "embedding.weight"), TH_INDEX(4, 3)) == 2);
}
END_TEST

/* A config.json that asks for far more memory than there is. The file of weights shows that it is wrong. */
START_TEST(test_sizes_that_differ_from_the_weights)
{
    static const char *const cases[][2] = {{"17", "(in all: "}, {"4096", "too few for a model of 4096 layers"}};
    const size_t before = memory.max;
    for (int i = 0; i < 2; i++) {
        char config[300];
        snprintf(config, sizeof config,
                 "{\"model_type\": \"llama\", \"vocab_size\": 2000000000, \"hidden_size\": 2000000, "
                 "\"intermediate_size\": 2000000000, \"num_attention_heads\": 2, \"num_hidden_layers\": %s}",
                 cases[i][0]);
        write_config(config);
        write_weights(small_tensors(), TENSORS);
        expect_failure(th_language_model_from_pretrained(ctx, directory) == NULL, TH_ERROR_FILE, cases[i][1]);
    }
    ck_assert_uint_le(memory.max - before, 1 << 20);
}
END_TEST

START_TEST(test_other_options_than_config)
{
    th_language_model_options o;
    ck_assert_int_eq(th_pretrained_options(ctx, FOLDER "llama", &o), TH_OK);
    o.block.attention_dropout = 0.5; /* this option and recompute may differ from config.json */
    o.block.recompute = true;
    o.block.scores.rotary_width = 2; /* the whole head */
    ck_assert_int_eq(th_pretrained_load(th_language_model_new(ctx, &o), FOLDER "llama", NULL), TH_OK);
    o.block.scores.rotary_base = 0;
    expect_status(th_pretrained_load(th_language_model_new(ctx, &o), FOLDER "llama", NULL), TH_ERROR_ARGUMENT,
                  "rotary_base is 10000, config.json");
    const bool other_layers[64] = {true};
    const struct {
        th_language_model_options options;
        const char *words;
    } others[] = {
        {{.block = {.parallel = true}}, "block.parallel is 1, config.json"},
        {{.block = {.output_norm = true}}, "block.output_norm is 1"},
        {{.block = {.unit_offset = true}}, "block.unit_offset is 1"},
        {{.block = {.scale = 2}}, "block.scale is 2"},
        {{.block = {.scores = {.soft_cap = 3}}}, "block.scores.soft_cap is 3"},
        {{.block = {.scores = {.window = 3}}}, "block.scores.window is 3"},
        {{.block = {.scores = {.alibi = true}}}, "block.scores.alibi is 1"},
        {{.embedding_scale = 2}, "embedding_scale is 2"},
        {{.logit_soft_cap = 30}, "logit_soft_cap is 30"},
        {{.other_layers = other_layers}, "the model's .other_scores.rotary is 0"},
        {{.scale_by_layer = true}, "scale_by_layer is 1"},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const th_language_model_options *other = &others[i].options;
        ck_assert_int_eq(th_pretrained_options(ctx, FOLDER "llama", &o), TH_OK);
        o.block.parallel = other->block.parallel;
        o.block.output_norm = other->block.output_norm;
        o.block.unit_offset = other->block.unit_offset;
        o.block.scale = other->block.scale;
        o.block.scores.soft_cap = other->block.scores.soft_cap;
        o.block.scores.window = other->block.scores.window;
        o.block.scores.alibi = other->block.scores.alibi;
        o.embedding_scale = other->embedding_scale;
        o.logit_soft_cap = other->logit_soft_cap;
        o.other_layers = other->other_layers;
        o.scale_by_layer = other->scale_by_layer;
        expect_status(th_pretrained_load(th_language_model_new(ctx, &o), FOLDER "llama", NULL), TH_ERROR_ARGUMENT,
                      others[i].words);
    }
    expect_status(th_pretrained_load(th_dense_new(ctx, 2, 2, NULL), FOLDER "llama", NULL), TH_ERROR_ARGUMENT, "dense");
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("hugging_face", setup, teardown);
    tcase_add_loop_test(tests, test_as_transformers_in_float32, 0, FOLDERS);
    tcase_add_loop_test(tests, test_as_transformers_in_bfloat16x3, 0, FOLDERS);
    tcase_add_loop_test(tests, test_as_transformers_in_bfloat16, 0, FOLDERS - 4);
    tcase_add_loop_test(tests, test_as_transformers_in_float64, 0, FOLDERS);
    tcase_add_test(tests, test_weights_that_do_not_fit);
    tcase_add_test(tests, test_classifier_beside_a_tied_embedding);
    tcase_add_test(tests, test_sizes_that_differ_from_the_weights);
    tcase_add_test(tests, test_other_options_than_config);
    return run_suites();
}
