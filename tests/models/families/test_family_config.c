/* config.json of families in memory: the whole message of every refusal, the ends of every range, end tokens, and the
 * text that is written, byte by byte. The choice of a family. */
#include <string.h>

#include "models/families/config.h"
#include "models/families/family.h"
#include "models/families/writer.h"

#include "memory.h"

#include "context.h"

static test_memory memory;

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.threads = 1, .allocator = allocator_of(&memory)});
}

static void teardown(void)
{
    close_context();
    ck_assert_uint_eq(memory.bytes, 0);
}

static th_status parse(const char *family, const char *fields, th_foreign_config *read)
{
    char text[700];
    snprintf(text, sizeof text, "{\"model_type\": \"%s\"%s%s}", family, fields[0] ? ", " : "", fields);
    return th_foreign_config_parse(ctx, "test", "c.json", text, strlen(text), read);
}

/* -- refusals -- */

static void expect_sentence(const char *sentence)
{
    const char *at = strstr(th_error_text(ctx), "test: c.json: ");
    ck_assert_int_eq(th_error_code(ctx), TH_ERROR_FILE);
    ck_assert_msg(at == th_error_text(ctx) && strcmp(at + 14, sentence) == 0, "\"%s\", not \"%s\"", th_error_text(ctx),
                  sentence);
    th_error_clear(ctx);
}

#define PAIRS "\"hidden_size\": 16, \"num_attention_heads\": 4, \"num_key_value_heads\": 4, \"head_dim\": 4, "
#define LAYERS2 "\"num_hidden_layers\": 2, "

START_TEST(refusals)
{
    static const char *const cases[][3] = {
        {"llama", "\"quantization_config\": {}", "the weights are quantized (\"quantization_config\")"},
        {"llama", "\"is_causal\": false", "\"is_causal\" is false"},
        {"gpt2", "\"n_embd\": 12, \"n_head\": 5", "\"n_head\" is 5; it must divide \"n_embd\", which is 12"},
        {"llama", "\"hidden_size\": 12, \"num_attention_heads\": 4, \"num_key_value_heads\": 3",
         "\"num_key_value_heads\" is 3; it must divide \"num_attention_heads\", which is 4"},
        {"gpt2", "\"n_embd\": 8, \"hidden_size\": 9", "\"hidden_size\" contradicts its other name in the same file"},
        {"gpt2", "\"activation_function\": \"x\"",
         "activation \"x\" is not supported; gelu_new, gelu, relu, relu2, silu and tanh are"},
        {"gpt2", "\"add_cross_attention\": true", "\"add_cross_attention\" is true, which is not supported"},
        {"gpt_neox", "\"head_dim\": 8", "\"head_dim\" is given, which is not supported"},
        {"gpt2", "\"resid_pdrop\": 1", "\"resid_pdrop\" is 1; it must be at least 0 and less than 1"},
        {"gpt2", "\"embd_pdrop\": -0.5", "\"embd_pdrop\" is -0.5; it must be at least 0 and less than 1"},
        {"llama", "\"rms_norm_eps\": 2", "\"rms_norm_eps\" is 2; it must be in [1e-20, 1]"},
        {"llama", "\"rope_scaling\": 5", "\"rope_scaling\" is neither null nor an object"},
        {"llama", "\"rope_parameters\": []", "\"rope_parameters\" is neither null nor an object"},
        {"llama", "\"sliding_window\": 8", "\"sliding_window\" is given, but such a model does not have it"},
        {"llama", "\"attention_chunk_size\": 8",
         "\"attention_chunk_size\" is given, but such a model does not have it"},
        {"llama", LAYERS2 "\"layer_types\": [\"full_attention\"]",
         "\"layer_types\" is not a list with an entry for each layer"},
        {"llama", LAYERS2 "\"layer_types\": [\"full_attention\", \"full_attention\", \"full_attention\"]",
         "\"layer_types\" is not a list with an entry for each layer"},
        {"llama", LAYERS2 "\"layer_types\": [\"full_attention\", \"x\"]",
         "\"layer_types\" has an entry that is neither full_attention nor sliding_attention"},
        {"llama", LAYERS2 "\"layer_types\": [\"full_attention\", \"sliding_attention\"]",
         "\"layer_types\" contradicts sliding_window"},
        {"smollm3", LAYERS2 "\"no_rope_layers\": [1]", "\"no_rope_layers\" is not a list with an entry for each layer"},
        {"smollm3", LAYERS2 "\"no_rope_layers\": [1, 2]", "\"no_rope_layers\" has an entry that is neither 0 nor 1"},
        {"smollm3", LAYERS2 "\"no_rope_layers\": [-1, 1]", "\"no_rope_layers\" has an entry that is neither 0 nor 1"},
        {"smollm3", LAYERS2 "\"no_rope_layers\": [0.5, 1]", "\"no_rope_layers\" has an entry that is neither 0 nor 1"},
        {"qwen2", LAYERS2 "\"layer_types\": [\"full_attention\", \"sliding_attention\"]",
         "layers have a window, but \"sliding_window\" is null or switched off"},
        {"smollm3",
         "\"num_hidden_layers\": 3, \"sliding_window\": 7, \"use_sliding_window\": true, \"no_rope_layers\": [1, 1, "
         "0], "
         "\"layer_types\": [\"full_attention\", \"sliding_attention\", \"full_attention\"]",
         "the layers have more than two kinds of attention"},
        {"llama", "\"rope_parameters\": {\"full_attention\": {}}",
         "rotary positions for one kind of layer (\"full_attention\") are not supported"},
        {"gemma3_text", "\"rope_parameters\": {\"rope_theta\": 5}",
         "\"rope_theta\" in rope_parameters is not an object for one kind of layer"},
        {"gemma3_text", "\"rope_parameters\": {\"full_attention\": 5}",
         "\"full_attention\" in rope_parameters is not an object for one kind of layer"},
        {"gemma3_text", "\"rope_parameters\": {\"full_attention\": {\"factor\": 2}}, \"rope_scaling\": {\"factor\": 3}",
         "\"factor\" differs between rope_scaling and rope_parameters"},
        {"gpt_neox", "\"rope_theta\": 7", "\"rope_theta\" contradicts the base of rotary positions"},
        {"llama", "\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\" is not 1"},
        {"gpt_neox", "\"partial_rotary_factor\": 0.5",
         "\"partial_rotary_factor\" is given twice with different values"},
        {"phi3", PAIRS "\"partial_rotary_factor\": 0.75",
         "\"partial_rotary_factor\" is 0.75, which selects 3 of 4 elements of a head; rotary positions need a positive "
         "and even number"},
        {"phi3", PAIRS "\"partial_rotary_factor\": 0.2",
         "\"partial_rotary_factor\" is 0.2, which selects 0 of 4 elements of a head; rotary positions need a positive "
         "and even number"},
        {"llama", "\"head_dim\": 7",
         "\"head_dim\", or hidden_size divided by num_attention_heads, is 7; rotary positions need an even number"},
        {"llama",
         "\"original_max_position_embeddings\": 9, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 2, "
         "\"original_max_position_embeddings\": 8}",
         "\"original_max_position_embeddings\" appears twice with different values"},
        {"gemma3_text",
         "\"original_max_position_embeddings\": 8, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 2}",
         "\"original_max_position_embeddings\" is not a member of rope_parameters"},
        {"llama",
         "\"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 2, \"original_max_position_embeddings\": 9}",
         "\"original_max_position_embeddings\" differs from max_position_embeddings, which dynamic scaling uses"},
        {"llama", PAIRS "\"rope_scaling\": {\"rope_type\": \"longrope\", \"short_factor\": [1]}",
         "\"short_factor\" is not a list of one number for each pair of a head"},
        {"llama",
         PAIRS "\"rope_scaling\": {\"rope_type\": \"longrope\", \"short_factor\": [1, 2], \"long_factor\": [1, \"x\"]}",
         "\"long_factor\" is not a list of one number for each pair of a head"},
        {"llama",
         PAIRS "\"rope_scaling\": {\"rope_type\": \"longrope\", \"short_factor\": [1, 2], \"long_factor\": [1, 2e6]}",
         "\"long_factor\"[1] is 2e+06; it must be in [1e-06, 1e+06]"},
        {"llama", "\"rope_scaling\": {\"rope_type\": \"x\"}",
         "rope_type \"x\" is not supported; default, linear, llama3, dynamic, yarn and longrope are"},
        {"phi3", "\"rope_scaling\": {\"rope_type\": \"linear\"}",
         "rope_type \"linear\" is not supported; default and longrope are"},
        {"llama", "\"vocab_size\": 5, \"eos_token_id\": 5",
         "\"eos_token_id\" is 5; it must be in [0, 4], because the vocabulary has 5 tokens"},
        {"llama", "\"vocab_size\": 5, \"eos_token_id\": [0, -1]",
         "\"eos_token_id\" is -1; it must be in [0, 4], because the vocabulary has 5 tokens"},
        {"llama", "\"eos_token_id\": []", "\"eos_token_id\" is neither an integer nor a list of integers"},
        {"llama", "\"eos_token_id\": [1, \"x\"]", "\"eos_token_id\" is neither an integer nor a list of integers"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        th_foreign_config read = {.end_token = 77};
        ck_assert_msg(parse(cases[i][0], cases[i][1], &read) == TH_ERROR_FILE, "no error, instead of \"%s\"",
                      cases[i][2]);
        ck_assert_int_eq(read.end_token, 77);
        expect_sentence(cases[i][2]);
    }
    static const char *const whole[][2] = {
        {"[]", "it is not a JSON object"},
        {"{}", "it has no \"model_type\""},
        {"{\"model_type\": \"x\"}",
         "model type \"x\" is not supported; gpt2, llama, mistral, qwen2, qwen3, smollm3, phi3, olmo2, gemma2, "
         "gemma3_text, gpt_neox, phi, granite, minicpm, bert, roberta, xlm-roberta, distilbert, "
         "modernbert and mpnet are"},
    };
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        th_foreign_config read;
        ck_assert_int_eq(th_foreign_config_parse(ctx, "test", "c.json", whole[i][0], strlen(whole[i][0]), &read),
                         TH_ERROR_FILE);
        expect_sentence(whole[i][1]);
    }
}
END_TEST

/* -- ranges -- */

START_TEST(ends_of_ranges)
{
    static const struct {
        const char *family, *field, *right[2], *wrong[2]; /* NULL: none */
    } cases[] = {
        {"llama", "\"vocab_size\": %s", {"1", "2147483647"}, {"0", "2147483648"}},
        {"llama", "\"num_hidden_layers\": %s", {"1", "4096"}, {"0", "4097"}},
        {"llama", "\"rms_norm_eps\": %s", {"1e-20", "1"}, {"0.9e-20", "1.000001"}},
        {"llama", "\"attention_dropout\": %s", {"0", "0.999999"}, {"-1e-9", "1"}},
        {"llama", "\"rope_theta\": %s", {"1", "1e15"}, {"0.999", "1.001e15"}},
        {"llama", "\"rope_scaling\": {\"type\": \"linear\", \"factor\": %s}", {"1", "1e6"}, {"0.9e-6", "1.1e6"}},
        {"gemma2", "\"attn_logit_softcapping\": %s", {"1e-3", "1e6"}, {"0.9e-3", "1.1e6"}},
        {"gemma2", "\"query_pre_attn_scalar\": %s", {"1", "2147483647"}, {"0", "2147483648"}},
        {"gpt_neox", "\"rotary_pct\": %s", {"0.5", "1"}, {"1e-7", "1.01"}},
        {"gemma2", "\"sliding_window\": %s", {"1", "2147483647"}, {"0", "2147483648"}},
        {"gemma3_text", "\"sliding_window_pattern\": %s", {"1", "2147483647"}, {"0", "2147483648"}},
        {"qwen2", "\"max_window_layers\": %s", {"0", "2147483647"}, {"-1", "2147483648"}},
        {"smollm3", "\"no_rope_layer_interval\": %s", {"1", "2147483647"}, {"0", "2147483648"}},
        {"gpt2", "\"n_head\": 1, \"hidden_size\": %s", {"1", "2147483647"}, {"0", "2147483648"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int j = 0; j < 4; j++) {
            char field[200];
            th_foreign_config read;
            const char *value = j < 2 ? cases[i].right[j] : cases[i].wrong[j - 2];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            snprintf(field, sizeof field, cases[i].field, value);
#pragma GCC diagnostic pop
            const th_status status = parse(cases[i].family, field, &read);
            ck_assert_msg(status == (j < 2 ? TH_OK : TH_ERROR_FILE), "%s: %s", field, th_error_text(ctx));
            th_error_clear(ctx);
            if (status == TH_OK)
                th_foreign_config_release(ctx, &read);
        }
}
END_TEST

/* -- end tokens -- */

START_TEST(end_tokens)
{
    static const struct {
        const char *family, *field;
        int count;
        int64_t first, tokens[3];
    } cases[] = {
        {"llama", "", 1, 2, {2}},
        {"llama", "\"vocab_size\": 2", 0, -1, {0}},
        {"llama", "\"vocab_size\": 3", 1, 2, {2}},
        {"qwen2", "", 0, -1, {0}},
        {"llama", "\"eos_token_id\": null", 0, -1, {0}},
        {"llama", "\"eos_token_id\": 0", 1, 0, {0}},
        {"llama", "\"eos_token_id\": [7, 5, 7, 9]", 3, 7, {7, 5, 9}},
        {"gpt2", "\"vocab_size\": 9, \"eos_token_id\": [50256, 8]", 1, -1, {8}},
        {"gpt2", "\"vocab_size\": 9, \"eos_token_id\": [8, 50256]", 1, 8, {8}},
    };
    th_foreign_config read;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_msg(parse(cases[i].family, cases[i].field, &read) == TH_OK, "%s", th_error_message(ctx));
        ck_assert_msg(read.end_token == cases[i].first && read.n_end_tokens == cases[i].count, "case %zu: %d of %d", i,
                      (int)read.end_token, read.n_end_tokens);
        for (int t = 0; t < cases[i].count; t++)
            ck_assert_int_eq(read.end_tokens[t], cases[i].tokens[t]);
        th_foreign_config_release(ctx, &read);
    }
    for (int count = 64; count <= 65; count++) {
        char field[400] = "\"eos_token_id\": [";
        for (int t = 0; t < count; t++)
            snprintf(field + strlen(field), sizeof field - strlen(field), "%s%d", t ? "," : "", t);
        strcat(field, "]");
        ck_assert_int_eq(parse("llama", field, &read), count == 64 ? TH_OK : TH_ERROR_FILE);
        if (count == 65) {
            expect_sentence("\"eos_token_id\" has more than 64 tokens");
            continue;
        }
        ck_assert_int_eq(read.n_end_tokens, 64);
        th_foreign_config_release(ctx, &read);
    }
}
END_TEST

/* -- writing -- */

#define SMALL                                                                                                          \
    "\"num_hidden_layers\": 4, \"hidden_size\": 16, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "          \
    "\"vocab_size\": 9"

/* Each family and each kind of scaling. fixtures/families/configs.txt has the texts of config.json. */
static const char *const written[][2] = {
    {"gpt2", "\"n_layer\": 2, \"n_embd\": 8, \"n_head\": 2, \"vocab_size\": 9, \"scale_attn_weights\": false, "
             "\"scale_attn_by_inverse_layer_idx\": true, \"resid_pdrop\": 0.25"},
    {"llama", SMALL ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 0.5, "
                    "\"high_freq_factor\": 4, \"original_max_position_embeddings\": 512}"},
    {"llama",
     SMALL ", \"rms_norm_eps\": 1e-12, \"rope_theta\": 1e15, \"hidden_act\": \"relu\", \"attention_bias\": true"},
    {"llama", SMALL ", \"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 2.5}"},
    {"mistral", SMALL ", \"sliding_window\": 7"},
    {"mistral", SMALL ", \"sliding_window\": null, \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2}"},
    {"qwen2", SMALL ", \"use_sliding_window\": true, \"max_window_layers\": 2, \"sliding_window\": 5"},
    {"qwen3",
     SMALL ", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": "
           "512, \"attention_factor\": 1.25, \"beta_fast\": 16, \"beta_slow\": 2, \"mscale\": 0.5, "
           "\"mscale_all_dim\": 0.75, \"truncate\": false}"},
    {"smollm3", SMALL ", \"no_rope_layers\": [1, 0, 1, 0]"},
    {"phi3", SMALL ", \"max_position_embeddings\": 8192, \"rope_scaling\": {\"rope_type\": \"longrope\", "
                   "\"short_factor\": [1, 1.5], \"long_factor\": [2, 3]}"},
    {"phi3", SMALL ", \"partial_rotary_factor\": 0.5"},
    {"olmo2", SMALL},
    {"gemma2", SMALL ", \"attn_logit_softcapping\": null, \"query_pre_attn_scalar\": 144"},
    {"gemma3_text",
     SMALL ", \"sliding_window_pattern\": 2, \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 8}"},
    {"gpt_neox", SMALL ", \"rotary_pct\": 0.5, \"rotary_emb_base\": 50, \"use_parallel_residual\": false"},
};
enum { WRITTEN = sizeof written / sizeof *written };

static void write_all(FILE *to)
{
    for (int i = 0; i < WRITTEN; i++) {
        th_foreign_config read;
        ck_assert_msg(parse(written[i][0], written[i][1], &read) == TH_OK, "%d: %s", i, th_error_message(ctx));
        th_foreign_config_write(to, read.family, &read.options, i % 3 - 1, read.end_token,
                                i % 2 ? "float32" : "bfloat16");
        th_foreign_config_release(ctx, &read);
    }
}

START_TEST(texts_that_are_written)
{
    char *found = NULL, wanted[200];
    size_t bytes;
    FILE *to = open_memstream(&found, &bytes);
    write_all(to);
    fclose(to);
    FILE *file = fopen(FIXTURES "/families/configs.txt", "r");
    ck_assert_ptr_nonnull(file);
    const char *at = found;
    for (int line = 1; fgets(wanted, sizeof wanted, file); line++) {
        ck_assert_msg(strncmp(at, wanted, strlen(wanted)) == 0, "line %d: %s instead of %.200s", line, wanted, at);
        at += strlen(wanted);
    }
    ck_assert_str_eq(at, "");
    fclose(file);
    free(found);
}
END_TEST

/* Numbers always have a fraction, as in Python, and an exponent below 1e-4 and from 1e16 on. */
START_TEST(numbers_that_are_written)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0, "0.0"},
                 {1, "1.0"},
                 {-2.5, "-2.5"},
                 {1e-4, "0.0001"},
                 {-1e-4, "-0.0001"},
                 {1.25e-4, "0.000125"},
                 {9.99e-5, "9.99e-05"},
                 {-1e-5, "-1.0e-05"},
                 {9.5e15, "9500000000000000.0"},
                 {1e16, "1.0e+16"},
                 {-1e16, "-1.0e+16"},
                 {1.5e300, "1.5e+300"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *found = NULL, wanted[60];
        size_t bytes;
        th_writer w = {.file = open_memstream(&found, &bytes)};
        th_put_number(&w, "a", cases[i].value);
        th_put_number(&w, "b", cases[i].value);
        fclose(w.file);
        snprintf(wanted, sizeof wanted, "{\n  \"a\": %s,\n  \"b\": %s", cases[i].text, cases[i].text);
        ck_assert_str_eq(found, wanted);
        free(found);
    }
}
END_TEST

/* -- the choice of a family -- */

static int found[3]; /* of each candidate */

static const char *title_of(int i)
{
    static const char *const titles[] = {"Zero", "One", "Two"};
    return titles[i];
}

static const th_family *family_of(int i)
{
    return th_family_find(i == 1 ? "gpt2" : "llama");
}

static int differences_of(int i, const th_language_model_options *model,
                          th_option_difference difference[TH_MAX_OPTIONS])
{
    ck_assert(model->embedding_scale == 1 && model->block.scores.rotary_pairing == TH_ROTARY_HALVES);
    for (int d = 0; d < found[i]; d++)
        snprintf(difference[d].name, sizeof difference[d].name, ".%d%c", i, 'a' + d);
    return found[i];
}

/* The first candidate without differences is chosen. Otherwise the closest is named with them; one with other positions
 * is farther than the others. */
START_TEST(the_closest_candidate)
{
    static const th_candidates candidates = {"kind", "tests", 3, title_of, family_of, differences_of};
    static const struct {
        int found[3], only, chosen;
        const char *message; /* NULL: none */
    } cases[] = {
        {{0, 0, 0}, -1, 0, NULL},
        {{1, 2, 0}, -1, 2, NULL},
        {{1, 0, 0}, 2, 2, NULL},
        {{-1, -1, 0}, -1, 2, NULL},
        {{1, 2, 0}, 0, -1, "asker: the kind is Zero, which does not support this model's .0a"},
        {{2, 2, 3},
         -1,
         -1,
         "asker: no kind has all options of the model. The closest is Zero, which does not support this model's .0a, "
         ".0b"},
        {{3, 1, 2},
         -1,
         -1,
         "asker: no kind has all options of the model. The closest is Two, which does not support this model's .2a, "
         ".2b"},
        {{-1, 2, -1},
         -1,
         -1,
         "asker: no kind has all options of the model. The closest is One, which does not support this model's .1a, "
         ".1b"},
        {{-1, -1, -1}, -1, -1, "asker: no kind of tests can express the model's options"},
        {{-1, 0, 0}, 0, -1, "asker: no kind of tests can express the model's options"},
    };
    const th_language_model_options o = {.positions = TH_POSITIONS_NONE,
                                         .block.scores = {.rotary = true, .rotary_pairing = TH_ROTARY_NEIGHBORS}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memcpy(found, cases[i].found, sizeof found);
        ck_assert_int_eq(th_first_candidate(ctx, "asker", &candidates, &o, cases[i].only), cases[i].chosen);
        ck_assert_int_eq(th_error_code(ctx), cases[i].message ? TH_ERROR_ARGUMENT : TH_OK);
        if (cases[i].message)
            ck_assert_str_eq(th_error_text(ctx), cases[i].message);
        th_error_clear(ctx);
    }
    memcpy(found, (const int[]){1, -2, 0}, sizeof found);
    ck_assert_int_eq(th_first_candidate(ctx, "asker", &candidates, &o, -1), -1);
    ck_assert_int_eq(th_error_code(ctx), TH_ERROR_MEMORY);
    th_error_clear(ctx);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("family_config", setup, teardown);
    tcase_add_test(tests, refusals);
    tcase_add_test(tests, ends_of_ranges);
    tcase_add_test(tests, end_tokens);
    tcase_add_test(tests, the_closest_candidate);
    tcase_add_test(tests, texts_that_are_written);
    tcase_add_test(tests, numbers_that_are_written);
    return run_suites();
}
