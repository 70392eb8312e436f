/* Values of GGUF files that no model can have: the error is TH_ERROR_FILE and names the file, the key, the value and the
 * range. */
#include <math.h>
#include <string.h>

#include "tapehead/models.h"

#include "written_models.h"

static const th_language_model_options llama = {SIZES, .layers = 2, .positions = TH_POSITIONS_NONE,
                                                .block = {BLOCK, .no_bias = true, .kv_heads = 2, .scores = {HALVES}}};
static const th_language_model_options gemma2 = {SIZES,
                                                 .layers = 2,
                                                 .positions = TH_POSITIONS_NONE,
                                                 .embedding_scale = 8,
                                                 .logit_soft_cap = 30,
                                                 .block = {.norm = TH_RMS_NORM,
                                                           .gated = true,
                                                           .activation = TH_GELU_TANH,
                                                           .mlp_width = MLP,
                                                           .no_bias = true,
                                                           .output_norm = true,
                                                           .unit_offset = true,
                                                           .scores = {HALVES, .soft_cap = 50}}};
static const th_language_model_options scaled = {
    SIZES, .layers = 1, .positions = TH_POSITIONS_NONE,
    .block = {BLOCK, .no_bias = true,
              .scores = {HALVES, .rotary_scaling = {.kind = TH_ROTARY_YARN, .factor = 4, .original_length = 4}}}};

static char *bytes;
static size_t file_bytes;

static void read_file(void)
{
    free(bytes);
    bytes = read_bytes(in_folder("a.gguf"), &file_bytes);
}

static void export(const th_language_model_options *options, const th_gguf_export_options *given)
{
    ck_assert_msg(th_language_model_export_gguf(model_of(ctx, options), in_folder("a.gguf"), given) == TH_OK, "%s",
                  th_error_message(ctx));
    read_file();
}

/* Returns the place behind a text in the file. */
static char *behind(const char *text)
{
    char *at = memmem(bytes, file_bytes, text, strlen(text));
    ck_assert_msg(at != NULL, "there is no %s", text);
    return at + strlen(text);
}

/* Writes the file with n bytes of the value behind its key, which begins with its type. */
static const char *changed(const char *key, const void *value, size_t n)
{
    char *at = behind(key) + 4, old[8];
    memcpy(old, at, n);
    memcpy(at, value, n);
    write_bytes(in_folder("b.gguf"), bytes, file_bytes);
    memcpy(at, old, n);
    return in_folder("b.gguf");
}

static const char *changed_number(const char *key, float value)
{
    return changed(key, &value, sizeof value);
}

static const char *changed_size(const char *key, uint32_t value)
{
    return changed(key, &value, sizeof value);
}

static void expect_rejected(const char *file, const char *words)
{
    const bool stored = true;
    for (int i = 0; i < 2; i++) {
        const th_module *model =
            th_language_model_from_gguf(ctx, file, &(th_gguf_load_options){.stored = i == 0 ? !stored : stored});
        ck_assert_msg(strstr(th_error_message(ctx), file) != NULL, "%s: %s", words, th_error_message(ctx));
        expect_failure(model == NULL, TH_ERROR_FILE, words);
    }
}

START_TEST(numbers_outside_their_range)
{
    static const struct {
        const char *key;
        float value;
        const char *words;
    } numbers[] = {
        {"llama.attention.layer_norm_rms_epsilon", 1e38F, "is 1e+38; it must be in [1e-20, 1]"},
        {"llama.attention.layer_norm_rms_epsilon", -1e-6F, "is -1e-06; it must be in [1e-20, 1]"},
        {"llama.attention.layer_norm_rms_epsilon", 0, "is missing or 0; it must be in [1e-20, 1]"},
        {"llama.attention.layer_norm_rms_epsilon", NAN, "nan; it must be in [1e-20, 1]"},
        {"llama.rope.freq_base", 1e-38F, "is 1e-38; it must be in [1, 1e+15]"},
        {"llama.rope.freq_base", 0, "\"llama.rope.freq_base\" is 0; it must be in [1, 1e+15]"},
        {"llama.rope.freq_base", INFINITY, "\"llama.rope.freq_base\" is inf; it must be in [1, 1e+15]"},
        {"llama.rope.scaling.factor", 1e30F, "\"llama.rope.scaling.factor\" is 1e+30; it must be in [1e-06, 1e+06]"},
        {"gemma2.attn_logit_softcapping", 1e-38F, "\"gemma2.attn_logit_softcapping\" is 1e-38"},
        {"gemma2.final_logit_softcapping", -30, "\"gemma2.final_logit_softcapping\" is -30; it must be in [0.001"},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const bool scaling = strstr(numbers[i].key, "factor");
        export(strncmp(numbers[i].key, "gemma2", 6) == 0 ? &gemma2 : scaling ? &scaled : &llama, NULL);
        expect_rejected(changed_number(numbers[i].key, numbers[i].value), numbers[i].words);
    }
}
END_TEST

START_TEST(heads_that_do_not_divide)
{
    export(&models[2].options, NULL);
    expect_rejected(changed_size("gpt2.attention.head_count", 3),
                    "\"gpt2.attention.head_count\" is 3; it must divide \"gpt2.embedding_length\", which is 64");
    expect_rejected(changed_size("gpt2.attention.head_count", 65), "is 65; it must divide");
    export(&llama, NULL);
    expect_rejected(
        changed_size("llama.attention.head_count_kv", 3),
        "\"llama.attention.head_count_kv\" is 3; it must divide \"llama.attention.head_count\", which is 4");
}
END_TEST

/* -- the vocabulary -- */

START_TEST(vocabularies_that_contradict)
{
    th_tokenizer *t = th_tokenizer_bytes_new(ctx);
    th_language_model_options o = llama;
    int64_t token = 7;
    o.vocabulary = 256;
    export(&o, &(th_gguf_export_options){.tokenizer = t, TH_END_TOKEN(3)});
    expect_rejected(changed_size("llama.vocab_size", 255),
                    "llama.vocab_size has 255 tokens, but token_embd.weight has 256; they must be the same");
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.bos_token_id"};
    for (int i = 0; i < 2; i++) {
        const char *file = changed_size(keys[i], 256);
        expect_rejected(file, "_token_id\" is 256; it must be in [0, 255]");
        expect_failure(th_tokenizer_from_gguf(ctx, file) == NULL, TH_ERROR_FILE, "is 256; it must be in [0, 255]");
        expect_status(th_gguf_end_token(ctx, file, &token), TH_ERROR_FILE, "is 256; it must be in [0, 255]");
        expect_status(th_gguf_begin_token(ctx, file, &token), TH_ERROR_FILE, "is 256; it must be in [0, 255]");
        ck_assert_int_eq(token, 7);
    }
}
END_TEST

/* A file with fewer tokens than its embedding has rows. */
START_TEST(fewer_tokens_than_rows)
{
    th_tokenizer *t = th_tokenizer_bytes_new(ctx);
    th_language_model_options o = llama;
    size_t small;
    o.vocabulary = 256;
    export(&o, &(th_gguf_export_options){.tokenizer = t});
    char *tokens = read_bytes(in_folder("a.gguf"), &small);
    o.vocabulary = 257;
    export(&o, &(th_gguf_export_options){.tokenizer = t});
    /* the values of the first file before the tensors of the second */
    const char *end = memmem(tokens, small, "\x11\0\0\0\0\0\0\0token_embd.weight", 25);
    const char *begin = memmem(bytes, file_bytes, "\x11\0\0\0\0\0\0\0token_embd.weight", 25);
    ck_assert(end && begin);
    const size_t values = (size_t)(end - tokens), header = (size_t)(begin - bytes);
    ck_assert_uint_gt(header, values);
    const size_t shorter = (header - values) / 32 * 32; /* elements begin at multiples of 32 */
    char *both = calloc(1, file_bytes);
    ck_assert_ptr_nonnull(both);
    memcpy(both, tokens, values);
    memcpy(both + values, bytes + header, file_bytes - header);
    write_bytes(in_folder("b.gguf"), both, file_bytes - shorter);
    const th_module *model = th_language_model_from_gguf(ctx, in_folder("b.gguf"), NULL);
    expect_failure(model == NULL, TH_ERROR_FILE,
                   "tokenizer.ggml.tokens has 256 tokens, but token_embd.weight has 257; they must be the same");
    free(both);
    free(tokens);
}
END_TEST

/* -- blocks -- */

/* A scale that is not finite, in each place of a matrix, in mapped and in copied weights. */
START_TEST(scales_that_are_not_finite)
{
    static const uint16_t scales[] = {0x7c00, 0xfc00, 0x7e00, 0x7c01};
    const th_dtype type = _i ? TH_Q4_0 : TH_Q8_0;
    const size_t block = _i ? 18 : 34;
    export(&llama, &(th_gguf_export_options){.type = type});
    th_module *model = th_language_model_from_gguf(ctx, in_folder("a.gguf"), &(th_gguf_load_options){.stored = true});
    no_error();
    const th_tensor *matrix = th_module_find_parameter(model, "layers.1.linear2.weight");
    const size_t blocks = (size_t)th_numel(matrix);
    char *at = memmem(bytes, file_bytes, th_data_const(matrix), blocks * block);
    ck_assert_ptr_nonnull(at);
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        const size_t wrong = i == 0 ? 0 : i == 1 ? blocks - 1 : 5 * i;
        char old[2], words[100];
        memcpy(old, at + wrong * block, 2);
        memcpy(at + wrong * block, &scales[i], 2);
        write_bytes(in_folder("b.gguf"), bytes, file_bytes);
        memcpy(at + wrong * block, old, 2);
        snprintf(words, sizeof words, "the scale of block %zu of blk.1.ffn_down.weight is infinite or NaN; it must be",
                 wrong);
        expect_rejected(in_folder("b.gguf"), words);
        const th_module *copied = th_language_model_from_gguf(
            ctx, in_folder("b.gguf"), &(th_gguf_load_options){.stored = true, .no_mapping = true});
        expect_failure(copied == NULL, TH_ERROR_FILE, words);
    }
}
END_TEST

START_TEST(numbers_without_blocks_may_be_nan)
{
    export(&llama, &(th_gguf_export_options){.type = TH_FLOAT16});
    const float nan = NAN;
    memcpy(bytes + file_bytes - sizeof nan, &nan, sizeof nan); /* of the last norm */
    write_bytes(in_folder("b.gguf"), bytes, file_bytes);
    th_module *model = th_language_model_from_gguf(ctx, in_folder("b.gguf"), NULL);
    no_error();
    bool found = false;
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
        found |= isnan(((const float *)th_data_const(p.tensor))[th_numel(p.tensor) - 1]);
    ck_assert(found);
}
END_TEST

/* Export writes no file that reading refuses. */
START_TEST(export_of_blocks_without_a_scale)
{
    static const double wrong[] = {NAN, INFINITY, 1e8};
    for (int i = 0; i < 3; i++) {
        th_module *model = model_of(ctx, &llama);
        th_tensor *weight = th_module_find_parameter(model, "layers.0.linear2.weight");
        ck_assert_int_eq(th_set(weight, TH_INDEX(1, 2), wrong[i]), TH_OK);
        expect_status(
            th_language_model_export_gguf(model, in_folder("c.gguf"), &(th_gguf_export_options){.type = TH_Q8_0}),
            TH_ERROR_VALUE, "blk.0.ffn_down.weight cannot be written as Q8_0: block 3 has a number");
        ck_assert_int_eq(th_language_model_export_gguf(model, in_folder("c.gguf"), NULL), TH_OK);
        ck_assert_ptr_nonnull(th_language_model_from_gguf(ctx, in_folder("c.gguf"), NULL));
        th_module_free(model);
    }
}
END_TEST

/* A norm in blocks: no program writes it. */
START_TEST(blocks_of_a_vector)
{
    export(&llama, NULL);
    char *at = behind("blk.0.attn_norm.weight");
    const uint32_t type = 8; /* Q8_0, behind the number of axes and the size */
    memcpy(at + 4 + 8, &type, sizeof type);
    write_bytes(in_folder("b.gguf"), bytes, file_bytes);
    expect_rejected(in_folder("b.gguf"), "blk.0.attn_norm.weight has the type Q8_0, which only matrices can have");
}
END_TEST

/* -- the token that begins a text -- */

START_TEST(begin_token)
{
    th_tokenizer *t = th_tokenizer_bytes_new(ctx);
    th_language_model_options o = llama;
    int64_t begin = 9, end = 9;
    o.vocabulary = 256;
    export(&o, &(th_gguf_export_options){.tokenizer = t, TH_END_TOKEN(3), .begin_token = 5, .has_begin_token = true});
    ck_assert_int_eq(th_gguf_begin_token(ctx, in_folder("a.gguf"), &begin), TH_OK);
    ck_assert_int_eq(th_gguf_end_token(ctx, in_folder("a.gguf"), &end), TH_OK);
    ck_assert(begin == 5 && end == 3);
    export(&o, &(th_gguf_export_options){.tokenizer = t, TH_END_TOKEN(3), .begin_token = -1, .has_begin_token = true});
    ck_assert_int_eq(th_gguf_begin_token(ctx, in_folder("a.gguf"), &begin), TH_OK);
    ck_assert_int_eq(begin, -1);
    expect_status(th_language_model_export_gguf(model_of(ctx, &o), in_folder("c.gguf"),
                                                &(th_gguf_export_options){.begin_token = 256, .has_begin_token = true}),
                  TH_ERROR_ARGUMENT, "begin token 256 is outside the vocabulary of 256");
    expect_status(th_gguf_begin_token(ctx, in_folder("a.gguf"), NULL), TH_ERROR_ARGUMENT, "token is NULL");
}
END_TEST

/* Returns a tokenizer that a GGUF file calls gpt-2, or one that it calls llama-bpe. */
static th_tokenizer *tokenizer_of(bool is_llama)
{
    static const char pattern[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
                                  "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    size_t size;
    th_tokenizer *t = th_tokenizer_train(ctx, "a text", 6,
                                         &(th_bpe_options){.vocabulary = 258, .pattern = is_llama ? pattern : NULL});
    if (!is_llama)
        return t;
    ck_assert_int_eq(th_tokenizer_save(t, folder), TH_OK);
    char *json = read_bytes(in_folder("tokenizer.json"), &size), *at = memmem(json, size, "\"ignore_merges\"", 15);
    at = at ? memmem(at, size - (size_t)(at - json), "false", 5) : NULL;
    ck_assert_ptr_nonnull(at);
    memcpy(at, "true ", 5);
    write_bytes(in_folder("tokenizer.json"), json, size);
    free(json);
    return th_tokenizer_load(ctx, in_folder("tokenizer.json"));
}

/* Without add_bos_token, a text begins with the token only if the tokenizer is like Llama 3's, as in llama.cpp. */
START_TEST(begin_token_without_its_flag)
{
    th_tokenizer *t = tokenizer_of(_i);
    th_language_model_options o = llama;
    th_token_list tokens = {0};
    int64_t begin;
    no_error();
    o.vocabulary = th_tokenizer_size(t);
    export(&o, &(th_gguf_export_options){.tokenizer = t, TH_END_TOKEN(3)});
    ck_assert_mem_eq(behind("tokenizer.ggml.pre") + 12, _i ? "llama-bpe" : "gpt-2", 5);
    memcpy(behind("add_bos_token") - 5, "tokeX", 5);
    write_bytes(in_folder("b.gguf"), bytes, file_bytes);
    th_tokenizer *again = th_tokenizer_from_gguf(ctx, in_folder("b.gguf"));
    ck_assert_int_eq(th_gguf_begin_token(ctx, in_folder("b.gguf"), &begin), TH_OK);
    ck_assert_int_eq(begin, 3);
    ck_assert_int_eq(th_tokenizer_encode_document(again, "a", 1, &tokens), TH_OK);
    ck_assert_uint_eq(tokens.count, _i ? 2 : 1);
    ck_assert(_i == 0 || tokens.token[0] == 3);
    th_token_list_free(&tokens);
}
END_TEST

static void free_bytes(void)
{
    free(bytes);
    bytes = NULL;
    teardown();
}

int main(void)
{
    TCase *tests = new_suite("gguf_ranges", setup, free_bytes);
    tcase_add_test(tests, numbers_outside_their_range);
    tcase_add_test(tests, heads_that_do_not_divide);
    tcase_add_test(tests, vocabularies_that_contradict);
    tcase_add_test(tests, fewer_tokens_than_rows);
    tcase_add_loop_test(tests, scales_that_are_not_finite, 0, 2);
    tcase_add_test(tests, numbers_without_blocks_may_be_nan);
    tcase_add_test(tests, export_of_blocks_without_a_scale);
    tcase_add_test(tests, blocks_of_a_vector);
    tcase_add_test(tests, begin_token);
    tcase_add_loop_test(tests, begin_token_without_its_flag, 0, 2);
    return run_suites();
}
