/* Values of config.json that no model can have, in every family: the error is TH_ERROR_FILE and names the file, the
 * key, the value and the range. So options that are accepted always make a model. */
#include <string.h>

#include "tapehead/models.h"

#include "hugging_face_models.h"

static void expect_rejected(const char *config, const char *words)
{
    th_language_model_options o = {.width = 42};
    write_config(config);
    const th_status status = th_pretrained_options(ctx, directory, &o);
    ck_assert_msg(strstr(th_error_message(ctx), in_directory("config.json")), "%s: %s", config, th_error_message(ctx));
    expect_status(status, TH_ERROR_FILE, words);
    ck_assert_int_eq(o.width, 42);
    const th_module *model = th_language_model_from_pretrained(ctx, directory);
    expect_failure(model == NULL, TH_ERROR_FILE, words);
}

/* -- heads -- */

static const struct family {
    const char *type, *width, *heads;
    bool has_kv_heads, has_head_width, rotary, rotary_part;
} families[] = {
    {"gpt2", "n_embd", "n_head", false, false, false, false},
    {"llama", "hidden_size", "num_attention_heads", true, true, true, false},
    {"mistral", "hidden_size", "num_attention_heads", true, true, true, false},
    {"smollm3", "hidden_size", "num_attention_heads", true, true, true, false},
    {"qwen2", "hidden_size", "num_attention_heads", true, true, true, false},
    {"qwen3", "hidden_size", "num_attention_heads", true, true, true, false},
    {"phi3", "hidden_size", "num_attention_heads", true, true, true, true},
    {"olmo2", "hidden_size", "num_attention_heads", true, true, true, false},
    {"gemma2", "hidden_size", "num_attention_heads", true, true, true, false},
    {"gemma3_text", "hidden_size", "num_attention_heads", true, true, true, false},
    {"gpt_neox", "hidden_size", "num_attention_heads", false, false, true, false},
};
enum { FAMILIES = sizeof families / sizeof *families };

START_TEST(heads_of_every_family)
{
    const struct family *f = &families[_i];
    const bool fixed = strncmp(f->type, "gemma", 5) == 0 || strcmp(f->type, "qwen3") == 0; /* a default of head_dim */
    char config[400], words[200];
    if (!fixed) {
        snprintf(config, sizeof config, "{\"model_type\": \"%s\", \"%s\": 64, \"%s\": 12%s}", f->type, f->width,
                 f->heads, f->has_kv_heads ? ", \"num_key_value_heads\": 12" : "");
        snprintf(words, sizeof words, "\"%s\" is 12; it must divide \"%s\", which is 64", f->heads, f->width);
        expect_rejected(config, words);
        snprintf(config, sizeof config, "{\"model_type\": \"%s\", \"%s\": 64, \"%s\": 2147483647}", f->type, f->width,
                 f->heads);
        expect_rejected(config, "\" is 2147483647; it must divide");
    }
    if (f->has_kv_heads) {
        snprintf(config, sizeof config, "{\"model_type\": \"%s\", \"%s\": 64, \"%s\": 8, \"num_key_value_heads\": 3}",
                 f->type, f->width, f->heads);
        snprintf(words, sizeof words, "\"num_key_value_heads\" is 3; it must divide \"%s\", which is 8", f->heads);
        expect_rejected(config, words);
    }
    if (f->has_head_width && f->rotary) {
        snprintf(config, sizeof config,
                 "{\"model_type\": \"%s\", \"%s\": 64, \"%s\": 8, \"num_key_value_heads\": 8, \"head_dim\": 7}",
                 f->type, f->width, f->heads);
        expect_rejected(config, f->rotary_part
                                    ? "of 7 elements of a head; rotary positions need a positive and even number"
                                    : "is 7; rotary positions need an even number");
    }
}
END_TEST

/* Sizes whose products overflow reach the model's constructor, and its error becomes one of the file. */
START_TEST(errors_of_the_constructor)
{
    expect_rejected(
        "{\"model_type\": \"llama\", \"hidden_size\": 2147483646, \"num_attention_heads\": 2147483646,"
        " \"num_key_value_heads\": 2147483646, \"head_dim\": 2147483646}",
        "/config.json: it describes a model that cannot be made: transformer_block: 2147483646 heads of width");
}
END_TEST

/* -- real numbers -- */

START_TEST(numbers_outside_their_range)
{
    static const char *const wrong[][3] = {
        {"llama", "\"rms_norm_eps\": 1e38", "\"rms_norm_eps\" is 1e+38; it must be in [1e-20, 1]"},
        {"llama", "\"rms_norm_eps\": 0", "\"rms_norm_eps\" is 0; it must be in [1e-20, 1]"},
        {"llama", "\"rms_norm_eps\": 1e-300", "\"rms_norm_eps\" is 1e-300; it must be in [1e-20, 1]"},
        {"gpt2", "\"layer_norm_epsilon\": 2", "\"layer_norm_epsilon\" is 2; it must be in [1e-20, 1]"},
        {"gpt_neox", "\"layer_norm_eps\": 1e38", "\"layer_norm_eps\" is 1e+38"},
        {"llama", "\"rope_theta\": 1e-38", "\"rope_theta\" is 1e-38; it must be in [1, 1e+15]"},
        {"llama", "\"rope_parameters\": {\"rope_theta\": 1e38}", "\"rope_theta\" is 1e+38; it must be in [1, 1e+15]"},
        {"gemma3_text", "\"rope_local_base_freq\": 0.5", "\"rope_local_base_freq\" is 0.5; it must be in [1, 1e+15]"},
        {"gpt_neox", "\"rotary_emb_base\": 0", "\"rotary_emb_base\" is 0; it must be in [1, 1e+15]"},
        {"gpt_neox", "\"rotary_pct\": 1e-9", "\"rotary_pct\" is 1e-09; it must be in [1e-06, 1]"},
        {"gpt_neox", "\"hidden_dropout\": 1", "\"hidden_dropout\" is 1; it must be at least 0 and less than 1"},
        {"llama", "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 1e30}",
         "\"factor\" is 1e+30; it must be in [1e-06, 1e+06]"},
        {"llama", "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4, \"beta_fast\": 1e30}", "\"beta_fast\" is"},
        {"llama", "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4, \"attention_factor\": 1e30}",
         "\"attention_factor\" is 1e+30; it must be in [1e-06, 1e+06]"},
        {"llama",
         "\"rope_scaling\": {\"type\": \"llama3\", \"factor\": 4, \"low_freq_factor\": 1, \"high_freq_factor\": 1e9}",
         "\"high_freq_factor\" is 1e+09; it must be in [1e-06, 1e+06]"},
        {"gemma2", "\"attn_logit_softcapping\": 1e-38",
         "\"attn_logit_softcapping\" is 1e-38; it must be in [0.001, 1e"},
        {"gemma2", "\"final_logit_softcapping\": 1e300", "\"final_logit_softcapping\" is 1e+300"},
        {"mistral", "\"sliding_window\": 0", "\"sliding_window\" is 0, outside 1 to "},
        {"gemma2", "\"query_pre_attn_scalar\": 0", "\"query_pre_attn_scalar\" is 0, outside 1 to "},
    };
    char config[300];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(config, sizeof config, "{\"model_type\": \"%s\", %s}", wrong[i][0], wrong[i][1]);
        expect_rejected(config, wrong[i][2]);
    }
}
END_TEST

/* Numbers of published models that are near an end of their range. */
START_TEST(unusual_numbers_of_real_models)
{
    static const char *const right[][2] = {
        {"llama", "\"rope_theta\": 3580165449.0, \"rms_norm_eps\": 1e-12"},
        {"llama", "\"rope_theta\": 1e7, \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 128, \"beta_fast\": 0}"},
        {"gpt2", "\"layer_norm_epsilon\": 1, \"initializer_range\": 1e9, \"pad_token_id\": -1"},
        {"gemma2", "\"attn_logit_softcapping\": null, \"final_logit_softcapping\": 15"},
        {"qwen2", "\"vocab_size\": 152064, \"eos_token_id\": [151645, 151643], \"bos_token_id\": null"},
    };
    char config[300];
    th_language_model_options o;
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        snprintf(config, sizeof config, "{\"model_type\": \"%s\", %s}", right[i][0], right[i][1]);
        write_config(config);
        ck_assert_msg(th_pretrained_options(ctx, directory, &o) == TH_OK, "%s: %s", config, th_error_message(ctx));
    }
}
END_TEST

/* -- end tokens -- */

static void write_text(const char *name, const char *text)
{
    FILE *file = fopen(in_directory(name), "w");
    ck_assert(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

START_TEST(end_tokens_outside_the_vocabulary)
{
    static const char *const wrong[] = {"65", "-1", "[1, 65]", "[64, -3, 5]", "99999"};
    char text[200];
    int64_t tokens[4];
    int n;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(text, sizeof text, "{\"model_type\": \"llama\", \"vocab_size\": 65, \"eos_token_id\": %s}", wrong[i]);
        expect_rejected(text, "it must be in [0, 64], because the vocabulary has 65 tokens");
        write_config("{\"model_type\": \"llama\", \"vocab_size\": 65}");
        snprintf(text, sizeof text, "{\"eos_token_id\": %s}", wrong[i]);
        write_text("generation_config.json", text);
        const th_status status = th_pretrained_end_tokens(ctx, directory, tokens, 4, &n);
        ck_assert_ptr_nonnull(strstr(th_error_message(ctx), in_directory("generation_config.json")));
        expect_status(status, TH_ERROR_FILE, "it must be in [0, 64]");
        unlink(in_directory("generation_config.json"));
    }
}
END_TEST

/* Exactly the tokens are written, and only if there is memory for all of them. */
START_TEST(end_tokens_fill_the_memory_that_is_given)
{
    int64_t tokens[4] = {-5, -5, -5, -5};
    int n = 9;
    write_config("{\"model_type\": \"llama\", \"vocab_size\": 65, \"eos_token_id\": [3, 64, 0]}");
    expect_status(th_pretrained_end_tokens(ctx, directory, tokens, 2, &n), TH_ERROR_ARGUMENT,
                  "has 3 end tokens, but there is memory for 2");
    ck_assert(n == 9 && tokens[0] == -5);
    ck_assert_int_eq(th_pretrained_end_tokens(ctx, directory, tokens, 3, &n), TH_OK);
    ck_assert(n == 3 && tokens[0] == 3 && tokens[1] == 64 && tokens[2] == 0 && tokens[3] == -5);
    expect_status(th_pretrained_end_tokens(ctx, directory, NULL, 1, &n), TH_ERROR_ARGUMENT, "needs a folder, memory");
    expect_status(th_pretrained_end_tokens(ctx, directory, tokens, -1, &n), TH_ERROR_ARGUMENT,
                  "needs a folder, memory");
    expect_status(th_pretrained_end_tokens(ctx, directory, tokens, 3, NULL), TH_ERROR_ARGUMENT,
                  "needs a folder, memory");
    expect_status(th_pretrained_end_tokens(ctx, NULL, tokens, 3, &n), TH_ERROR_ARGUMENT, "needs a folder, memory");
    write_config("{\"model_type\": \"llama\", \"vocab_size\": 65, \"eos_token_id\": null}");
    ck_assert_int_eq(th_pretrained_end_tokens(ctx, directory, NULL, 0, &n), TH_OK);
    ck_assert_int_eq(n, 0);
}
END_TEST

/* transformers writes the family's default into the files of every model, also of a small one. */
START_TEST(default_end_token_of_a_small_model)
{
    int64_t tokens[4] = {0}, first = 9;
    int n = 9;
    write_config("{\"model_type\": \"gpt2\", \"vocab_size\": 65, \"eos_token_id\": 50256}");
    write_text("generation_config.json", "{\"eos_token_id\": 50256}");
    ck_assert_int_eq(th_pretrained_end_token(ctx, directory, &first), TH_OK);
    ck_assert_int_eq(th_pretrained_end_tokens(ctx, directory, tokens, 4, &n), TH_OK);
    ck_assert(first == -1 && n == 0);
    unlink(in_directory("generation_config.json"));
}
END_TEST

/* -- the tokenizer in the folder -- */

static th_tokenizer *load_beside(const char *config)
{
    write_config(config);
    return th_tokenizer_load(ctx, directory);
}

/* More tokens in config.json are padding. Added tokens may be outside: Gemma 3 has one. Others may not. */
START_TEST(tokens_outside_the_vocabulary)
{
    static const char *const right[] = {"{\"vocab_size\": 256}", "{\"vocab_size\": 999}", "{}",
                                        "{\"vocab_size\": null}"};
    th_tokenizer *t = th_tokenizer_bytes_new(ctx);
    ck_assert_int_eq(th_tokenizer_add(t, "<|end|>"), 256);
    ck_assert_int_eq(th_tokenizer_save(t, directory), TH_OK);
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        ck_assert_msg(load_beside(right[i]) != NULL, "%s: %s", right[i], th_error_message(ctx));
        no_error();
    }
    expect_failure(load_beside("{\"vocab_size\": 255}") == NULL, TH_ERROR_FILE,
                   "config.json: \"vocab_size\" is 255, but the tokenizer has 257 tokens; it must be at least 257");
    expect_failure(load_beside("{\"vocab_size\": 25") == NULL, TH_ERROR_FILE, "config.json");
    ck_assert_ptr_nonnull(th_tokenizer_load(ctx, in_directory("tokenizer.json")));
    no_error();
    unlink(in_directory("tokenizer.json"));
    unlink(in_directory("tokenizer_config.json"));
    unlink(in_directory("vocab.json"));
    unlink(in_directory("merges.txt"));
}
END_TEST

/* -- the token that begins a text -- */

START_TEST(begin_token_of_an_export)
{
    const th_language_model_options o = {.vocabulary = 5, .length = 4, .width = 4, .heads = 2, .layers = 1};
    static const struct {
        th_export_options given;
        const char *words;
    } cases[] = {
        {{TH_END_TOKEN(3)}, "\"bos_token_id\": 3,"},
        {{TH_END_TOKEN(3), .begin_token = 1, .has_begin_token = true}, "\"bos_token_id\": 1,"},
        {{TH_END_TOKEN(3), .begin_token = -1, .has_begin_token = true}, "\"bos_token_id\": null,"},
    };
    th_module *model = th_language_model_new(ctx, &o);
    for (int i = 0; i < 3; i++) {
        char text[4096] = "";
        ck_assert_int_eq(th_language_model_export(model, directory, &cases[i].given), TH_OK);
        FILE *file = fopen(in_directory("config.json"), "r");
        ck_assert(file && fread(text, 1, sizeof text - 1, file) > 0 && fclose(file) == 0);
        ck_assert_msg(strstr(text, cases[i].words) && strstr(text, "\"eos_token_id\": 3,"), "%s", text);
    }
    const th_export_options outside = {.begin_token = 5, .has_begin_token = true};
    expect_status(th_language_model_export(model, directory, &outside), TH_ERROR_ARGUMENT, "begin token 5 is outside");
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("config_ranges", setup, teardown);
    tcase_add_loop_test(tests, heads_of_every_family, 0, FAMILIES);
    tcase_add_test(tests, errors_of_the_constructor);
    tcase_add_test(tests, numbers_outside_their_range);
    tcase_add_test(tests, unusual_numbers_of_real_models);
    tcase_add_test(tests, end_tokens_outside_the_vocabulary);
    tcase_add_test(tests, end_tokens_fill_the_memory_that_is_given);
    tcase_add_test(tests, default_end_token_of_a_small_model);
    tcase_add_test(tests, tokens_outside_the_vocabulary);
    tcase_add_test(tests, begin_token_of_an_export);
    return run_suites();
}
