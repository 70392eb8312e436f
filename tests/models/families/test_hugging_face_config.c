/* config.json of transformers: every field that is honored or rejected. */
#include <string.h>

#include "tapehead/models.h"

#include "hugging_face_models.h"

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
    check_end_tokens(", \"eos_token_id\": [7, 5, 7]", NULL, 2, (const int64_t[]){7, 5});
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
    ck_assert_int_eq(end_token("gpt2", ", \"vocab_size\": 65, \"eos_token_id\": 50256"), -1);
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
         "\"short_factor\"[1] is 0; it must be in [1e-06, 1e+06]"},
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
        {"\"hidden_act\": \"selu\"", "selu"},
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

int main(void)
{
    TCase *tests = new_suite("hugging_face_config", setup, teardown);
    tcase_add_test(tests, test_fields_that_are_missing_or_null);
    tcase_add_test(tests, test_fields_that_are_given);
    tcase_add_test(tests, test_end_token);
    tcase_add_test(tests, test_end_tokens);
    tcase_add_test(tests, test_rotary_scaling);
    tcase_add_test(tests, test_rotary_scaling_for_long_texts);
    tcase_add_test(tests, test_rejected_config);
    return run_suites();
}
