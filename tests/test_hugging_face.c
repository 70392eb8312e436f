/* Models in transformers' format: fixtures that transformers wrote, with its results; every field of config.json
 * that is honored or rejected; weights that do not fit; and files written for transformers. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "tapehead/models.h"

#include "hugging_face_folder.h"

static void write_config(const char *text)
{
    FILE *file = fopen(in_directory("config.json"), "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

/* -- compared with transformers' results -- */

/* Returns the elements of t as float64, in memory of the context. */
static const double *numbers_of(th_tensor *t)
{
    no_error();
    th_tensor *wide = th_empty(ctx, TH_FLOAT64, th_shape_of(t));
    ck_assert_int_eq(th_copy_into(wide, t), TH_OK);
    return th_data_const(wide);
}

/* Checks that the largest difference, relative to the largest expected element, is at most limit. */
static void assert_close(th_tensor *t, th_tensor *expected, double limit, const char *name)
{
    const double *a = numbers_of(t), *b = numbers_of(expected);
    double difference = 0, largest = 0;
    ck_assert_int_eq(th_numel(t), th_numel(expected));
    for (int64_t i = 0; i < th_numel(t); i++) {
        difference = fmax(difference, fabs(a[i] - b[i]));
        largest = fmax(largest, fabs(b[i]));
    }
    ck_assert_msg(difference <= limit * largest && largest > 0, "%s: %g of %g", name, difference, largest);
}

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

/* The last three have norms at the end of branches. In bfloat16 they amplify the rounding errors of the small branches
 * of these models to 30 % of a gradient. */
static const char *const folders[] = {"gpt2",  "llama", "gpt2_shards", "llama_shards", "mistral", "smollm3", "qwen2",
                                      "qwen3", "phi3",  "gpt_neox",    "gemma2",       "gemma3",  "olmo2"};
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

/* -- config.json -- */

static th_language_model_options read_options(const char *config)
{
    th_language_model_options o;
    write_config(config);
    ck_assert_msg(th_pretrained_options(ctx, directory, &o) == TH_OK, "%s: %s", config, th_error_message(ctx));
    return o;
}

START_TEST(test_fields_that_are_missing_or_null)
{
    const th_language_model_options g = read_options("{\"model_type\": \"gpt2\", \"n_inner\": null}");
    ck_assert(g.vocabulary == 50257 && g.length == 1024 && g.width == 768 && g.heads == 12 && g.layers == 12 &&
              !g.untied && g.positions == TH_POSITIONS_LEARNED);
    ck_assert(g.block.mlp_width == 3072 && g.block.activation == TH_GELU_TANH && g.block.eps == 1e-5);
    ck_assert(g.embedding_dropout == 0.1 && g.block.dropout == 0.1 && g.block.attention_dropout == 0.1);
    const th_language_model_options l = read_options("{\"model_type\": \"llama\", \"num_key_value_heads\": null}");
    ck_assert(l.vocabulary == 32000 && l.length == 2048 && l.width == 4096 && l.heads == 32 && l.layers == 32 &&
              l.untied && l.positions == TH_POSITIONS_NONE);
    ck_assert(l.block.mlp_width == 11008 && l.block.gated && l.block.activation == TH_SILU &&
              l.block.norm == TH_RMS_NORM && l.block.no_bias && l.block.kv_heads == 32 && l.block.head_width == 128 &&
              l.block.eps == 1e-6 && l.block.attention_dropout == 0);
    ck_assert(l.block.scores.rotary && l.block.scores.rotary_base == 10000 &&
              l.block.scores.rotary_pairing == TH_ROTARY_HALVES);
}
END_TEST

START_TEST(test_fields_that_are_given)
{
    th_language_model_options o =
        read_options("{\"model_type\": \"gpt2\", \"vocab_size\": 5, \"n_positions\": 6, \"n_embd\": 8, \"n_head\": 2, "
                     "\"n_layer\": 3,"
                     " \"n_inner\": 7, \"activation_function\": \"relu\", \"resid_pdrop\": 0, \"embd_pdrop\": 0.2,"
                     " \"attn_pdrop\": 0.3, \"layer_norm_epsilon\": 1, \"tie_word_embeddings\": false}");
    ck_assert(o.vocabulary == 5 && o.length == 6 && o.width == 8 && o.heads == 2 && o.layers == 3 && o.untied);
    ck_assert(o.block.mlp_width == 7 && o.block.activation == TH_RELU && o.block.eps == 1 && o.block.dropout == 0 &&
              o.embedding_dropout == 0.2 && o.block.attention_dropout == 0.3 && o.dropout == 0);
    o = read_options("{\"model_type\": \"gpt2\", \"hidden_size\": 24, \"num_attention_heads\": 3, \"n_head\": 3}");
    ck_assert(o.width == 24 && o.heads == 3);
    o = read_options("{\"model_type\": \"llama\", \"hidden_size\": 12, \"num_attention_heads\": 4, \"head_dim\": 6,"
                     " \"num_key_value_heads\": 1, \"attention_bias\": true, \"mlp_bias\": true, \"rope_theta\": 77,"
                     " \"rope_scaling\": null, \"hidden_act\": \"gelu\", \"attention_dropout\": 0.5,"
                     " \"tie_word_embeddings\": true, \"rms_norm_eps\": 0.001}");
    ck_assert(o.width == 12 && o.heads == 4 && o.block.head_width == 6 && o.block.kv_heads == 1 && !o.block.no_bias &&
              o.block.scores.rotary_base == 77 && o.block.activation == TH_GELU && o.block.attention_dropout == 0.5 &&
              !o.untied && o.block.eps == 0.001);
    o = read_options("{\"model_type\": \"llama\", \"attention_bias\": true}");
    ck_assert(!o.block.no_bias && !o.block.no_attention_bias && o.block.no_mlp_bias);
    o = read_options("{\"model_type\": \"llama\", \"mlp_bias\": true}");
    ck_assert(!o.block.no_bias && o.block.no_attention_bias && !o.block.no_mlp_bias);
    o = read_options("{\"model_type\": \"llama\", \"rope_theta\": 77,"
                     " \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 88.5}}");
    ck_assert(o.block.scores.rotary_base == 88.5 && o.block.scores.rotary_scaling.kind == TH_ROTARY_UNSCALED);
}
END_TEST

static int64_t end_token(const char *type, const char *fields)
{
    char config[200];
    int64_t token = -7;
    snprintf(config, sizeof config, "{\"model_type\": \"%s\"%s}", type, fields);
    write_config(config);
    ck_assert_msg(th_pretrained_end_token(ctx, directory, &token) == TH_OK, "%s", th_error_message(ctx));
    return token;
}

static void check_end_tokens(const char *config, const char *generation, int wanted, const int64_t *expected)
{
    int64_t tokens[8];
    int count = -1;
    char text[300], file_name[400];
    snprintf(text, sizeof text, "{\"model_type\": \"llama\"%s}", config);
    write_config(text);
    snprintf(file_name, sizeof file_name, "%s/generation_config.json", directory);
    remove(file_name);
    if (generation) {
        FILE *file = fopen(file_name, "w");
        ck_assert_ptr_nonnull(file);
        fputs(generation, file);
        fclose(file);
    }
    ck_assert_msg(th_pretrained_end_tokens(ctx, directory, tokens, 8, &count) == TH_OK, "%s", th_error_message(ctx));
    ck_assert_int_eq(count, wanted);
    for (int i = 0; i < count; i++)
        ck_assert_int_eq(tokens[i], expected[i]);
}

START_TEST(test_end_tokens)
{
    int64_t tokens[2];
    int count;
    check_end_tokens("", NULL, 1, (const int64_t[]){2});
    check_end_tokens(", \"vocab_size\": 2", NULL, 0, NULL);
    check_end_tokens(", \"eos_token_id\": null", NULL, 0, NULL);
    check_end_tokens(", \"eos_token_id\": [7, 40000, 5, 7, -3]", NULL, 2, (const int64_t[]){7, 5});
    check_end_tokens(", \"eos_token_id\": [7, 5]", "{}", 2, (const int64_t[]){7, 5});
    check_end_tokens(", \"eos_token_id\": [7, 5]", "{\"eos_token_id\": null}", 2, (const int64_t[]){7, 5});
    check_end_tokens(", \"eos_token_id\": 7", "{\"eos_token_id\": [9, 8, 7]}", 3, (const int64_t[]){9, 8, 7});
    expect_status(th_pretrained_end_tokens(ctx, directory, tokens, 2, &count), TH_ERROR_ARGUMENT,
                  "has 3 end tokens, but there is memory for 2");
    check_end_tokens("", NULL, 1, (const int64_t[]){2}); /* removes generation_config.json */
    expect_status(th_pretrained_end_tokens(ctx, directory, NULL, 2, &count), TH_ERROR_ARGUMENT, "needs a folder");
    expect_status(th_pretrained_end_tokens(ctx, NULL, tokens, 2, &count), TH_ERROR_ARGUMENT, "needs a folder");
    write_config("{\"model_type\": \"llama\", \"eos_token_id\": [1, \"2\"]}");
    expect_status(th_pretrained_end_tokens(ctx, directory, tokens, 2, &count), TH_ERROR_FILE, "a list of integers");
}
END_TEST

START_TEST(test_end_token)
{
    ck_assert_int_eq(end_token("gpt2", ""), 50256); /* transformers' default */
    ck_assert_int_eq(end_token("llama", ""), 2);
    ck_assert_int_eq(end_token("gpt2", ", \"vocab_size\": 65"), -1);
    ck_assert_int_eq(end_token("gpt2", ", \"eos_token_id\": null"), -1);
    ck_assert_int_eq(end_token("gpt2", ", \"vocab_size\": 65, \"eos_token_id\": 0"), 0);
    ck_assert_int_eq(end_token("llama", ", \"vocab_size\": 65, \"eos_token_id\": 65"), -1);
    ck_assert_int_eq(end_token("llama", ", \"eos_token_id\": -1"), -1);
    ck_assert_int_eq(end_token("llama", ", \"vocab_size\": 128256, \"eos_token_id\": [128001, 128009]"), 128001);
    static const char *const refused[] = {"\"2\"", "true", "2.0", "[]", "[\"2\"]", "{}"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        char config[100];
        int64_t token = 42;
        snprintf(config, sizeof config, "{\"model_type\": \"llama\", \"eos_token_id\": %s}", refused[i]);
        write_config(config);
        expect_status(th_pretrained_end_token(ctx, directory, &token), TH_ERROR_FILE,
                      "\"eos_token_id\" is neither an integer");
        ck_assert_int_eq(token, 42);
    }
    expect_status(th_pretrained_end_token(ctx, directory, NULL), TH_ERROR_ARGUMENT, "token is NULL");
    expect_status(th_pretrained_end_token(ctx, NULL, &(int64_t){0}), TH_ERROR_ARGUMENT, "the folder is NULL");
}
END_TEST

static th_rotary_scaling read_scaling(const char *fields, double base)
{
    char config[512];
    snprintf(config, sizeof config, "{\"model_type\": \"llama\", \"max_position_embeddings\": 99, %s}", fields);
    const th_language_model_options o = read_options(config);
    ck_assert_double_eq(o.block.scores.rotary_base, base);
    return o.block.scores.rotary_scaling;
}

/* As version 4 of transformers wrote it, as version 5 does, and both in one file. */
START_TEST(test_rotary_scaling)
{
    static const char *const linear[] = {
        "\"rope_theta\": 50, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}",
        "\"rope_parameters\": {\"rope_type\": \"linear\", \"rope_theta\": 50.0, \"factor\": 2.0}",
        "\"rope_theta\": 50, \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2},"
        " \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 7}",
        "\"rope_theta\": 7, \"rope_scaling\": {},"
        " \"rope_parameters\": {\"type\": \"linear\", \"factor\": 2, \"rope_theta\": 50}",
    };
    for (size_t i = 0; i < sizeof linear / sizeof *linear; i++) {
        const th_rotary_scaling s = read_scaling(linear[i], 50);
        ck_assert(s.kind == TH_ROTARY_LINEAR && s.factor == 2);
    }
#define BY_FREQUENCY                                                                                                   \
    "\"rope_type\": \"llama3\", \"factor\": 32, \"low_freq_factor\": 1, \"high_freq_factor\": 4.5, \"rope_theta\": "   \
    "5e5"
    static const struct {
        const char *fields;
        int64_t length;
    } llama3[] = {
        {"\"rope_scaling\": {" BY_FREQUENCY ", \"original_max_position_embeddings\": 33}", 33},
        {"\"rope_parameters\": {" BY_FREQUENCY "}", 99},
        {"\"rope_parameters\": {" BY_FREQUENCY "}, \"original_max_position_embeddings\": 44", 44},
    };
    for (size_t i = 0; i < sizeof llama3 / sizeof *llama3; i++) {
        const th_rotary_scaling s = read_scaling(llama3[i].fields, 5e5);
        ck_assert(s.kind == TH_ROTARY_LLAMA3 && s.factor == 32 && s.low_freq_factor == 1 && s.high_freq_factor == 4.5);
        ck_assert_int_eq(s.original_length, llama3[i].length);
    }
}
END_TEST

/* Kinds that have more members, or take their defaults from other fields. */
START_TEST(test_rotary_scaling_for_long_texts)
{
    th_rotary_scaling s = read_scaling("\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2.5}", 10000);
    ck_assert(s.kind == TH_ROTARY_DYNAMIC && s.factor == 2.5 && s.original_length == 99);
    ck_assert_int_eq(read_options("{\"model_type\": \"llama\", \"max_position_embeddings\": 99,"
                                  " \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2.5}}")
                         .length,
                     247); /* floor(2.5 * 99) */
    s = read_scaling("\"rope_scaling\": {\"type\": \"yarn\", \"original_max_position_embeddings\": 33}", 10000);
    ck_assert(s.kind == TH_ROTARY_YARN && s.factor == 3 && s.original_length == 33 && !s.no_truncate);
    ck_assert(s.attention_factor == 0 && s.beta_fast == 0 && s.beta_slow == 0 && s.mscale == 0 &&
              s.mscale_all_dim == 0);
    s = read_scaling("\"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 4, \"attention_factor\": 1.25, "
                     "\"beta_fast\": 20, \"beta_slow\": 2, \"mscale\": 0.5, \"mscale_all_dim\": 0.75, "
                     "\"truncate\": false}",
                     10000);
    ck_assert(s.factor == 4 && s.attention_factor == 1.25 && s.beta_fast == 20 && s.beta_slow == 2 && s.mscale == 0.5 &&
              s.mscale_all_dim == 0.75 && s.no_truncate && s.original_length == 99);
    s = read_scaling("\"head_dim\": 6, \"original_max_position_embeddings\": 11, \"rope_scaling\": {\"rope_type\": "
                     "\"longrope\", \"short_factor\": [1, 1.5, 2], \"long_factor\": [2, 3, 4.5]}",
                     10000);
    ck_assert(s.kind == TH_ROTARY_LONGROPE && s.factor == 9 && s.original_length == 11 && s.n_factors == 3);
    ck_assert(s.short_factor[1] == 1.5 && s.long_factor[0] == 2 && s.long_factor[2] == 4.5);
}
END_TEST

START_TEST(test_rejected_config)
{
    static const char *const gpt2[][2] = {
        {"\"scale_attn_weights\": 1", "scale_attn_weights"},
        {"\"scale_attn_by_inverse_layer_idx\": 0", "scale_attn_by_inverse_layer_idx"},
        {"\"add_cross_attention\": true", "add_cross_attention"},
        {"\"activation_function\": \"quick_gelu\"", "quick_gelu"},
        {"\"quantization_config\": {}", "quantization_config"},
        {"\"is_causal\": false", "is_causal"},
        {"\"n_embd\": 768.0", "\"n_embd\""},
        {"\"n_embd\": 0", "\"n_embd\" is 0"},
        {"\"n_layer\": 5000", "5000, outside 1 to 4096"},
        {"\"n_head\": 99999999999999999999", ""},
        {"\"n_embd\": 8, \"hidden_size\": 9", "hidden_size"},
        {"\"n_embd\": 8, \"n_embd\": 8", "n_embd"},
        {"\"embd_pdrop\": 1", "embd_pdrop"},
        {"\"attn_pdrop\": \"0.1\"", "attn_pdrop"},
        {"\"layer_norm_epsilon\": 0", "layer_norm_epsilon"},
        {"\"tie_word_embeddings\": 1", "tie_word_embeddings"},
    };
    static const char *const llama[][2] = {
        {"\"rope_scaling\": {\"type\": \"su\"}", "rope_type \"su\" is not supported; default, linear, llama3, dynamic"},
        {"\"rope_scaling\": {\"type\": \"dynamic\"}", "factor = 0"},
        {"\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2, \"original_max_position_embeddings\": 9}",
         "original_max_position_embeddings\" differs from max_position_embeddings"},
        {"\"rope_parameters\": {\"rope_type\": \"yarn\", \"beta_slow\": 33}", "beta_slow = 33"},
        {"\"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 2, \"attention_factor\": 0}", "attention_factor"},
        {"\"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 2, \"truncate\": 1}", "truncate"},
        {"\"rope_scaling\": {\"rope_type\": \"longrope\"}", "\"short_factor\" is not a list"},
        {"\"head_dim\": 4, \"rope_scaling\": {\"rope_type\": \"longrope\", \"short_factor\": [1, 2]}",
         "\"long_factor\" is not a list of one number for each pair"},
        {"\"head_dim\": 4, \"rope_scaling\": {\"rope_type\": \"longrope\", \"short_factor\": [1, \"2\"]}",
         "\"short_factor\" is not a list"},
        {"\"head_dim\": 4, \"rope_scaling\": {\"rope_type\": \"longrope\", \"short_factor\": [1, 2, 3]}",
         "\"short_factor\" is not a list"},
        {"\"head_dim\": 4, \"rope_scaling\": {\"rope_type\": \"longrope\", \"short_factor\": [1, 0],"
         " \"long_factor\": [1, 2]}",
         "short_factor[1] = 0"},
        {"\"rope_scaling\": {\"type\": \"linear\"}", "factor = 0"},
        {"\"rope_scaling\": {\"type\": \"linear\", \"factor\": \"2\"}", "\"factor\""},
        {"\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8}", "low_freq_factor = 0"},
        {"\"rope_scaling\": {" BY_FREQUENCY ", \"original_max_position_embeddings\": 8.5}", "original_max_position"},
        {"\"rope_scaling\": {" BY_FREQUENCY ", \"original_max_position_embeddings\": 8},"
         " \"original_max_position_embeddings\": 9",
         "twice with different values"},
        {"\"rope_parameters\": {\"partial_rotary_factor\": 0.5}", "partial_rotary_factor"},
        {"\"rope_parameters\": [1]", "rope_parameters"},
        {"\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"linear\", \"factor\": 2}}", "full_attention"},
        {"\"rope_theta\": -1", "rope_theta"},
        {"\"mlp_bias\": 1", "mlp_bias"},
        {"\"hidden_act\": \"tanh\"", "tanh"},
        {"\"sliding_window\": 128", "sliding_window"},
        {"\"layer_types\": [\"full_attention\", \"sliding_attention\"]", "layer_types"},
        {"\"num_attention_heads\": 0", "num_attention_heads"},
        {"\"rms_norm_eps\": -1e-6", "rms_norm_eps"},
    };
    static const char *const whole[][2] = {
        {"{}", "model_type"},
        {"{\"model_type\": \"bloom\"}", "model type \"bloom\" is not supported; gpt2, llama, mistral, "},
        {"{\"model_type\": 3}", "model_type"},
        {"[]", "object"},
        {"{\"model_type\": \"gpt2\"", ""},
        {"", ""},
        {"{\"model_type\": \"gpt2\"} x", ""},
    };
    char config[512];
    th_language_model_options o = {.width = 42};
    for (size_t i = 0; i < sizeof gpt2 / sizeof gpt2[0] + sizeof llama / sizeof llama[0]; i++) {
        const bool first = i < sizeof gpt2 / sizeof gpt2[0];
        const char *const *entry = first ? gpt2[i] : llama[i - sizeof gpt2 / sizeof gpt2[0]];
        snprintf(config, sizeof config, "{\"model_type\": \"%s\", %s}", first ? "gpt2" : "llama", entry[0]);
        write_config(config);
        expect_status(th_pretrained_options(ctx, directory, &o), TH_ERROR_FILE, entry[1]);
    }
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        write_config(whole[i][0]);
        expect_status(th_pretrained_options(ctx, directory, &o), TH_ERROR_FILE, whole[i][1]);
    }
    ck_assert_int_eq(o.width, 42);
}
END_TEST

/* -- weights that do not fit -- */

/* A model like the fixture's, whose weights can be written under any names. */
static const char small[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 5, \"n_positions\": 4, \"n_embd\": 4, \"n_head\": 2, \"n_layer\": 1}";

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

/* -- writing -- */

/* A model that was exported and loaded has the same options, parameters and bits. */
static void round_trip(th_module *model)
{
    ck_assert_int_eq(th_language_model_export(model, directory, NULL), TH_OK);
    th_module *again = th_language_model_from_pretrained(ctx, directory);
    no_error();
    const th_language_model_options *a = th_language_model_options_of(model), *b = th_language_model_options_of(again);
    ck_assert(a->vocabulary == b->vocabulary && a->length == b->length && a->width == b->width &&
              a->heads == b->heads && a->layers == b->layers && a->positions == b->positions && a->untied == b->untied);
    ck_assert(a->block.mlp_width == b->block.mlp_width && a->block.kv_heads == b->block.kv_heads &&
              a->block.activation == b->block.activation && a->block.eps == b->block.eps &&
              a->block.no_bias == b->block.no_bias && a->block.attention_dropout == b->block.attention_dropout);
    const th_rotary_scaling *s = &a->block.scores.rotary_scaling, *t = &b->block.scores.rotary_scaling;
    ck_assert(s->kind == t->kind && s->factor == t->factor && s->low_freq_factor == t->low_freq_factor &&
              s->high_freq_factor == t->high_freq_factor && s->original_length == t->original_length &&
              s->attention_factor == t->attention_factor && s->beta_fast == t->beta_fast &&
              s->beta_slow == t->beta_slow && s->mscale == t->mscale && s->mscale_all_dim == t->mscale_all_dim &&
              s->no_truncate == t->no_truncate && s->n_factors == t->n_factors);
    for (int64_t i = 0; i < s->n_factors; i++)
        ck_assert(s->short_factor[i] == t->short_factor[i] && s->long_factor[i] == t->long_factor[i]);
    ck_assert_uint_eq(th_module_crc32c(model), th_module_crc32c(again));
}

START_TEST(test_round_trip)
{
    th_module *model = th_language_model_from_pretrained(ctx, _i == 0 ? FOLDER "gpt2" : FOLDER "llama");
    round_trip(model);
    /* options whose numbers have no short decimals */
    round_trip(th_language_model_new(
        ctx, &(th_language_model_options){
                 .vocabulary = 5,
                 .length = 6,
                 .width = 8,
                 .heads = 2,
                 .layers = 1,
                 .untied = _i == 1,
                 .dropout = 1. / 3,
                 .block = {.activation = _i == 0 ? TH_RELU : TH_SILU, .eps = 1e-5 / 3, .attention_dropout = 1. / 7}}));
}
END_TEST

static const th_language_model_options llama = {
    .vocabulary = 5,
    .length = 6,
    .width = 8,
    .heads = 2,
    .layers = 1,
    .positions = TH_POSITIONS_NONE,
    .untied = true,
    .block = {.norm = TH_RMS_NORM, .gated = true, .activation = TH_SILU, .no_bias = true, .scores = {.rotary = true}},
};

/* Biases of attention alone or of the MLP alone exist as in LlamaForCausalLM. */
START_TEST(test_round_trip_of_biases)
{
    th_language_model_options o = llama;
    o.block.no_bias = false;
    o.block.no_attention_bias = _i == 0;
    o.block.no_mlp_bias = _i == 1;
    th_module *model = th_language_model_new(ctx, &o);
    ck_assert_int_eq(th_module_find_parameter(model, "layers.0.self_attn.in_proj_bias") != NULL, _i == 1);
    ck_assert_int_eq(th_module_find_parameter(model, "layers.0.self_attn.out_proj.bias") != NULL, _i == 1);
    ck_assert_int_eq(th_module_find_parameter(model, "layers.0.linear1.bias") != NULL, _i == 0);
    ck_assert_int_eq(th_module_find_parameter(model, "layers.0.linear2.bias") != NULL, _i == 0);
    ck_assert_int_eq(th_module_find_parameter(model, "layers.0.gate.bias") != NULL, _i == 0);
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
        ck_assert_int_eq(th_fill_normal(p.tensor, 0.2, 1), TH_OK);
    round_trip(model);
}
END_TEST

START_TEST(test_round_trip_of_scaling)
{
    static const double short_factor[2] = {1, 1. / 3}, long_factor[2] = {1. / 7, 2};
    static const th_rotary_scaling scalings[] = {
        {TH_ROTARY_LINEAR, .factor = 4. / 3},
        {TH_ROTARY_LLAMA3, .factor = 8, .low_freq_factor = 1. / 3, .high_freq_factor = 4, .original_length = 8192},
        {TH_ROTARY_DYNAMIC, .factor = 1.5, .original_length = 4},
        {TH_ROTARY_YARN, .factor = 4. / 3, .original_length = 3},
        {TH_ROTARY_YARN, .factor = 4, .original_length = 3, .attention_factor = 1. / 3, .beta_fast = 20,
         .beta_slow = 1. / 7, .mscale = 2, .mscale_all_dim = 3, .no_truncate = true},
        {TH_ROTARY_LONGROPE, .factor = 4, .original_length = 3, .short_factor = short_factor,
         .long_factor = long_factor, .n_factors = 2},
    };
    th_language_model_options o = llama;
    o.block.scores.rotary_scaling = scalings[_i];
    th_module *model = th_language_model_new(ctx, &o);
    round_trip(model);
    o.block.scores.rotary_base = 10000;
    o.block.eps = 1e-5;
    ck_assert_int_eq(th_pretrained_load(th_language_model_new(ctx, &o), directory, NULL), TH_OK);
    if (scalings[_i].kind == TH_ROTARY_LONGROPE) {
        o.block.scores.rotary_scaling.long_factor = short_factor;
        expect_status(th_pretrained_load(th_language_model_new(ctx, &o), directory, NULL), TH_ERROR_ARGUMENT,
                      "long_factor is 1, config.json in");
    }
    o.block.scores.rotary_scaling.factor = 9;
    expect_status(th_pretrained_load(th_language_model_new(ctx, &o), directory, NULL), TH_ERROR_ARGUMENT,
                  "rotary_scaling.factor is 9, config.json");
    o.block.scores.rotary_scaling = (th_rotary_scaling){0};
    expect_status(th_pretrained_load(th_language_model_new(ctx, &o), directory, NULL), TH_ERROR_ARGUMENT,
                  "rotary_scaling.kind is 0");
}
END_TEST

/* The order of rows changes, but the logits do not. */
START_TEST(test_neighbors_become_halves)
{
    th_language_model_options o = llama;
    o.block.scores.rotary_pairing = TH_ROTARY_NEIGHBORS;
    o.block.no_bias = _i == 0;
    o.block.kv_heads = 1 + _i;
    th_module *model = th_language_model_new(ctx, &o);
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
        ck_assert_int_eq(th_fill_normal(p.tensor, 0.2, 1), TH_OK);
    ck_assert_int_eq(th_language_model_export(model, directory, NULL), TH_OK);
    th_module *again = th_language_model_from_pretrained(ctx, directory);
    no_error();
    ck_assert(th_language_model_options_of(again)->block.scores.rotary_pairing == TH_ROTARY_HALVES);
    ck_assert_uint_ne(th_module_crc32c(model), th_module_crc32c(again));
    th_tensor *tokens = th_random_integers(ctx, TH_INT32, TH_SHAPE(2, 6), 0, 5);
    assert_close(th_module_evaluate(again, tokens), th_module_evaluate(model, tokens), 1e-5, "logits");
}
END_TEST

static void expect_objection(th_language_model_options o, const char *words)
{
    th_module *model = th_language_model_new(ctx, &o);
    no_error();
    expect_status(th_language_model_export(model, directory, NULL), TH_ERROR_ARGUMENT, words);
    ck_assert_int_ne(access(in_directory("config.json"), F_OK), 0);
    th_module_free(model);
}

START_TEST(test_options_that_cannot_be_expressed)
{
    const th_language_model_options gpt2 = {.vocabulary = 5, .length = 6, .width = 8, .heads = 2, .layers = 1};
    const struct {
        th_transformer_block_options block;
        const char *words;
    } blocks[] = {
        {{.post_norm = true}, "The closest is GPT-2, which does not support this model's .block.post_norm"},
        {{.no_mlp = true}, ".block.no_mlp"},
        {{.gated = true, .no_bias = true}, "GPT-2, which does not support this model's .block.gated, .block.no_bias"},
        {{.no_attention_bias = true}, ".block.no_attention_bias"},
        {{.no_output_bias = true}, "model's .block.no_output_bias"},
        {{.no_mlp_bias = true}, ".block.no_mlp_bias"},
        {{.norm = TH_RMS_NORM}, "model's .block.norm"},
        {{.kv_heads = 1}, "model's .block.kv_heads"},
        {{.head_width = 6}, ".block.head_width"},
        {{.scale = 0.1}, "model's .block.scale"},
        {{.scores = {.rotary = true}}, "GPT-2, which does not support this model's .block.scores.rotary"},
        {{.scores = {.alibi = true}}, ".block.scores.alibi"},
        {{.scores = {.qk_norm = true}}, ".block.scores.qk_norm"},
        {{.scores = {.soft_cap = 5}}, ".block.scores.soft_cap"},
        {{.scores = {.window = 3}}, ".block.scores.window"},
        {{.scores = {.qk_norm_whole = true}}, ".block.scores.qk_norm_whole"},
        {{.output_norm = true}, ".block.output_norm"},
        {{.parallel = true}, ".block.parallel"},
        {{.unit_offset = true}, ".block.unit_offset"},
        {{.no_output_bias = true}, ".block.no_output_bias"},
        {{.scale = 0.2}, ".block.scale"},
    };
    const bool other_layers[1] = {true};
    th_language_model_options o = gpt2;
    o.embedding_scale = o.logit_soft_cap = 2;
    o.other_layers = other_layers;
    o.other_scores.soft_cap = 3;
    expect_objection(o, "model's .embedding_scale, .logit_soft_cap, .other_scores.soft_cap");
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        o = gpt2;
        o.block = blocks[i].block;
        expect_objection(o, blocks[i].words);
    }
    o = gpt2;
    o.positions = TH_POSITIONS_SINUSOIDAL;
    expect_objection(o, "model's .positions");
    o = gpt2;
    o.embedding_scale = 2;
    expect_objection(o, "model's .embedding_scale");
    o = llama;
    o.logit_soft_cap = 2;
    expect_objection(o, "Llama, which does not support this model's .logit_soft_cap");
}
END_TEST

START_TEST(test_misuse)
{
    th_module *model = th_language_model_new(ctx, &llama);
    expect_failure(th_language_model_from_pretrained(ctx, NULL) == NULL, TH_ERROR_ARGUMENT, "the folder is NULL");
    expect_failure(th_language_model_from_pretrained(ctx, directory) == NULL, TH_ERROR_FILE, "config.json");
    expect_status(th_pretrained_options(ctx, directory, NULL), TH_ERROR_ARGUMENT, "options is NULL");
    expect_status(th_pretrained_load(NULL, directory, NULL), TH_ERROR_ARGUMENT, "the module is NULL");
    expect_status(th_pretrained_load(model, NULL, NULL), TH_ERROR_ARGUMENT, "the folder is NULL");
    expect_status(th_language_model_export(NULL, directory, NULL), TH_ERROR_ARGUMENT, "the module is NULL");
    expect_status(th_language_model_export(model, NULL, NULL), TH_ERROR_ARGUMENT, "the folder is NULL");
    expect_status(th_language_model_export(model, "/dev/null/model", NULL), TH_ERROR_FILE, "/dev/null/model");
    expect_status(th_language_model_export(th_dense_new(ctx, 2, 2, NULL), directory, NULL), TH_ERROR_ARGUMENT, "dense");
    expect_status(th_language_model_export(model, directory, &(th_export_options){TH_END_TOKEN(5)}), TH_ERROR_ARGUMENT,
                  "end token 5 is outside the vocabulary of 5");
    write_config(small);
    expect_failure(th_language_model_from_pretrained(ctx, directory) == NULL, TH_ERROR_FILE, "model.safetensors");
}
END_TEST

START_TEST(test_shapes_only)
{
    th_context *shapes = th_context_new(&(th_context_options){.shapes_only = true});
    th_module *model = th_language_model_from_pretrained(shapes, FOLDER "llama");
    ck_assert_ptr_nonnull(model);
    ck_assert_int_eq(th_language_model_export(model, directory, NULL), TH_ERROR_STATE);
    th_context_free(shapes);
}
END_TEST

/* Every allocation fails in turn: the result is an error, and nothing is left. */
START_TEST(test_out_of_memory)
{
    for (int64_t at = 1;; at++) {
        test_memory own = {.fail_at = at};
        th_context *other = th_context_new(&(th_context_options){.allocator = allocator_of(&own)});
        if (other == NULL)
            continue;
        th_module *model = th_language_model_from_pretrained(other, FOLDER "gpt2");
        const th_status status = model ? th_language_model_export(model, directory, NULL) : th_error_code(other);
        ck_assert(status == TH_OK || status == TH_ERROR_MEMORY);
        th_context_free(other);
        ck_assert_uint_eq(own.bytes, 0);
        if (own.calls < at)
            break;
    }
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("hugging_face", setup, teardown);
    tcase_add_loop_test(tests, test_as_transformers_in_float32, 0, FOLDERS);
    tcase_add_loop_test(tests, test_as_transformers_in_bfloat16x3, 0, FOLDERS);
    tcase_add_loop_test(tests, test_as_transformers_in_bfloat16, 0, FOLDERS - 3);
    tcase_add_loop_test(tests, test_as_transformers_in_float64, 0, FOLDERS);
    tcase_add_test(tests, test_fields_that_are_missing_or_null);
    tcase_add_test(tests, test_fields_that_are_given);
    tcase_add_test(tests, test_end_token);
    tcase_add_test(tests, test_end_tokens);
    tcase_add_test(tests, test_rotary_scaling);
    tcase_add_test(tests, test_rotary_scaling_for_long_texts);
    tcase_add_test(tests, test_rejected_config);
    tcase_add_test(tests, test_weights_that_do_not_fit);
    tcase_add_test(tests, test_classifier_beside_a_tied_embedding);
    tcase_add_test(tests, test_sizes_that_differ_from_the_weights);
    tcase_add_test(tests, test_other_options_than_config);
    tcase_add_loop_test(tests, test_round_trip, 0, 2);
    tcase_add_loop_test(tests, test_round_trip_of_biases, 0, 2);
    tcase_add_loop_test(tests, test_round_trip_of_scaling, 0, 6);
    tcase_add_loop_test(tests, test_neighbors_become_halves, 0, 2);
    tcase_add_test(tests, test_options_that_cannot_be_expressed);
    tcase_add_test(tests, test_misuse);
    tcase_add_test(tests, test_shapes_only);
    tcase_add_test(tests, test_out_of_memory);
    return run_suites();
}
