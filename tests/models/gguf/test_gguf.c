/* Language models and tokenizers in GGUF files: every architecture and type written and read again, damaged files, and
 * models that no file can describe. */
#include <math.h>
#include <string.h>

#include "tapehead/models.h"

#include "gguf_parts.h"

#include "written_models.h"

/* -- architectures -- */

#define HEADER SIZES, .positions = TH_POSITIONS_NONE
#define GATED BLOCK, .eps = 1e-6
static const bool windows6[7] = {true, true, true, true, true, false, true},
                  no_rotary[5] = {false, false, false, true, false};
static const double short_factors[4] = {1, 1.5, 2, 3}, long_factors[4] = {2, 2.5, 4, 8};

#define GEMMA                                                                                                          \
    .norm = TH_RMS_NORM, .gated = true, .activation = TH_GELU_TANH, .mlp_width = MLP, .no_bias = true,                 \
    .output_norm = true, .unit_offset = true, .eps = 1e-6, .kv_heads = 2, .head_width = 32

static const struct described {
    const char *architecture;
    th_language_model_options options;
} architectures[] = {
    {"llama",
     {HEADER, .layers = 2, .block = {GATED, .no_bias = true, .kv_heads = 2, .scores = {HALVES, .rotary_base = 5e5}}}},
    {"llama",
     {HEADER, .layers = 2, .untied = true,
      .block = {GATED, .head_width = 32,
                .scores = {.rotary = true, .rotary_scaling = {.kind = TH_ROTARY_LINEAR, .factor = 4}}}}},
    {"llama",
     {HEADER, .layers = 1,
      .block = {GATED, .no_bias = true,
                .scores = {HALVES, .rotary_scaling = {.kind = TH_ROTARY_LLAMA3,
                                                      .factor = 8,
                                                      .low_freq_factor = 1,
                                                      .high_freq_factor = 4,
                                                      .original_length = 8}}}}},
    {"llama",
     {HEADER, .layers = 1,
      .block = {GATED, .no_bias = true,
                .scores = {HALVES, .rotary_scaling = {.kind = TH_ROTARY_YARN, .factor = 4, .original_length = 4}}}}},
    {"qwen2",
     {HEADER, .layers = 2,
      .block = {GATED, .no_output_bias = true, .no_mlp_bias = true, .kv_heads = 2,
                .scores = {HALVES, .rotary_base = 1e6}}}},
    {"qwen3",
     {HEADER, .layers = 2, .untied = true,
      .block = {GATED, .no_bias = true, .kv_heads = 1, .head_width = 32,
                .scores = {HALVES, .qk_norm = true, .qk_norm_eps = 1e-6}}}},
    {"smollm3",
     {HEADER, .layers = 5, .block = {GATED, .no_bias = true, .scores = {HALVES, .rotary_base = 2e6}},
      .other_layers = no_rotary}},
    {"phi3",
     {HEADER, .layers = 2, .untied = true,
      .block = {GATED, .no_bias = true, .kv_heads = 2,
                .scores = {HALVES, .rotary_width = 8, .window = 5,
                           .rotary_scaling = {.kind = TH_ROTARY_LONGROPE,
                                              .factor = 4,
                                              .original_length = 4,
                                              .n_factors = 4,
                                              .short_factor = short_factors,
                                              .long_factor = long_factors}}}}},
    {"olmo2",
     {HEADER, .layers = 2, .untied = true,
      .block = {GATED, .no_bias = true, .output_norm = true, .no_input_norm = true,
                .scores = {HALVES, .qk_norm_whole = true, .qk_norm_eps = 1e-6}}}},
    {"gemma2",
     {HEADER, .layers = 3, .embedding_scale = 8, .logit_soft_cap = 30,
      .block = {GEMMA, .scores = {HALVES, .soft_cap = 50, .window = 3}}, .other_scores = {HALVES, .soft_cap = 50},
      .other_layers = (const bool[]){false, true, false}}},
    {"gemma3",
     {HEADER, .layers = 7, .embedding_scale = 8,
      .block = {GEMMA, .scores = {HALVES, .rotary_base = 1e6, .qk_norm = true, .qk_norm_eps = 1e-6,
                                  .rotary_scaling = {.kind = TH_ROTARY_LINEAR, .factor = 8}}},
      .other_scores = {HALVES, .qk_norm = true, .qk_norm_eps = 1e-6, .window = 3}, .other_layers = windows6}},
    {"gptneox",
     {HEADER, .layers = 2, .untied = true,
      .block = {.activation = TH_GELU, .parallel = true, .scores = {HALVES, .rotary_width = 4}}}},
    {"phi2",
     {HEADER, .layers = 2, .untied = true, .classifier_bias = true,
      .block = {.parallel = true, .shared_norm = true, .scores = {HALVES, .rotary_width = 4}}}},
    {"minicpm",
     {HEADER, .layers = 2, .embedding_scale = 12, .logit_divisor = 1.5,
      .block = {GATED, .no_bias = true, .branch_scale = 0.25, .scores = {HALVES}}}},
    {"granite",
     {HEADER, .layers = 2, .embedding_scale = 12, .logit_divisor = 8,
      .block = {GATED, .kv_heads = 2, .scale = 0.015625, .branch_scale = 0.22, .scores = {HALVES}}}},
    {"gpt2",
     {.vocabulary = V, .length = LENGTH, .width = E, .heads = H, .layers = 2, .block = {.activation = TH_GELU_TANH}}},
};
enum { ARCHITECTURES = sizeof architectures / sizeof *architectures };

/* Returns the largest difference, relative to the largest element of b. */
static double difference(th_tensor *a, th_tensor *b)
{
    const float *x = th_data_const(a), *y = th_data_const(b);
    double largest = 0, size = 0;
    ck_assert_int_eq(th_numel(a), th_numel(b));
    for (int64_t i = 0; i < th_numel(a); i++) {
        largest = fmax(largest, fabs((double)x[i] - (double)y[i]));
        size = fmax(size, fabs((double)y[i]));
    }
    return largest / size;
}

/* Every architecture is chosen for its model, and a file of F32 gives the same logits. A second export writes the same
 * bytes. */
START_TEST(test_every_architecture)
{
    const struct described *w = &architectures[_i];
    th_module *model = model_of(ctx, &w->options);
    if (th_language_model_export_gguf(model, in_folder("a.gguf"), NULL) != TH_OK)
        ck_abort_msg("%s: %s", w->architecture, th_error_message(ctx));
    size_t bytes;
    char *file = read_bytes(in_folder("a.gguf"), &bytes), key[64];
    snprintf(key, sizeof key, "%s.context_length", w->architecture);
    ck_assert_msg(memmem(file, bytes, key, strlen(key)) != NULL, "%s is not chosen", w->architecture);
    free(file);
    th_module *again = th_language_model_from_gguf(ctx, in_folder("a.gguf"), NULL);
    ck_assert_msg(again != NULL, "%s: %s", w->architecture, th_error_message(ctx));
    const double d = difference(logits_of(again), logits_of(model));
    ck_assert_msg(d < 2e-6, "%s: %g", w->architecture, d);
    ck_assert_int_eq(th_language_model_export_gguf(again, in_folder("b.gguf"), NULL), TH_OK);
    if (strncmp(w->architecture, "gemma", 5) != 0) /* (norms are rounded when 1 is added and subtracted) */
        expect_same_files(in_folder("a.gguf"), in_folder("b.gguf"));
}
END_TEST

/* -- types -- */

static const th_dtype types[] = {TH_FLOAT16, TH_BFLOAT16, TH_Q8_0, TH_Q4_0};

/* A file with matrices of each type gives the bits of th_module_store, read as float32 or stored. */
START_TEST(test_types_of_matrices)
{
    const th_dtype type = types[_i];
    th_module *model = model_of(ctx, &architectures[4].options);
    ck_assert_int_eq(th_module_freeze(model, true), TH_OK);
    ck_assert_int_eq(th_language_model_export_gguf(model, in_folder("a.gguf"), &(th_gguf_export_options){.type = type}),
                     TH_OK);
    ck_assert_int_eq(th_module_store(model, type), TH_OK);
    /* a weight stored in the wanted type is copied */
    ck_assert_int_eq(th_language_model_export_gguf(model, in_folder("b.gguf"), &(th_gguf_export_options){.type = type}),
                     TH_OK);
    expect_same_files(in_folder("a.gguf"), in_folder("b.gguf"));
    th_module *stored = th_language_model_from_gguf(ctx, in_folder("a.gguf"), &(th_gguf_load_options){.stored = true});
    no_error();
    ck_assert_int_eq(th_dtype_of(th_module_find_parameter(stored, "layers.1.self_attn.out_proj.weight")), type);
    ck_assert_int_eq(th_dtype_of(th_module_find_parameter(stored, "norm.weight")), TH_FLOAT32);
    ck_assert_uint_eq(th_module_crc32c(stored), th_module_crc32c(model));
    ck_assert_int_eq(th_module_count_trainable(stored), 0);
    th_module *wide = th_language_model_from_gguf(ctx, in_folder("a.gguf"), NULL);
    no_error();
    ck_assert_int_gt(th_module_count_trainable(wide), 0);
    ck_assert_int_eq(th_module_store(model, TH_FLOAT32), TH_OK);
    ck_assert_uint_eq(th_module_crc32c(wide), th_module_crc32c(model));
    /* a model of another type is written too */
    ck_assert_int_eq(th_language_model_export_gguf(stored, in_folder("c.gguf"), NULL), TH_OK);
    ck_assert_int_eq(th_language_model_export_gguf(wide, in_folder("b.gguf"), NULL), TH_OK);
    expect_same_files(in_folder("c.gguf"), in_folder("b.gguf"));
}
END_TEST

/* Rows of queries and keys of Llama change their order also as blocks. */
START_TEST(test_stored_rows_in_another_order)
{
    th_module *model = model_of(ctx, &architectures[0].options);
    ck_assert_int_eq(th_module_freeze(model, true), TH_OK);
    ck_assert_int_eq(th_module_store(model, TH_Q8_0), TH_OK);
    ck_assert_int_eq(
        th_language_model_export_gguf(model, in_folder("a.gguf"), &(th_gguf_export_options){.type = TH_Q8_0}), TH_OK);
    th_module *again = th_language_model_from_gguf(ctx, in_folder("a.gguf"), &(th_gguf_load_options){.stored = true});
    no_error();
    ck_assert_double_lt(difference(logits_of(again), logits_of(model)), 2e-6);
    /* such a model cannot become Qwen 2, which rotates halves */
    ck_assert_int_ne(
        th_language_model_export_gguf(again, in_folder("b.gguf"), &(th_gguf_export_options){.architecture = "qwen2"}),
        TH_OK);
    th_error_clear(ctx);
}
END_TEST

/* Rows that are not whole blocks become float16. */
START_TEST(test_short_rows)
{
    th_language_model_options o = architectures[0].options;
    o.block.mlp_width = 40;
    th_module *model = model_of(ctx, &o);
    ck_assert_int_eq(
        th_language_model_export_gguf(model, in_folder("a.gguf"), &(th_gguf_export_options){.type = TH_Q4_0}), TH_OK);
    th_module *again = th_language_model_from_gguf(ctx, in_folder("a.gguf"), &(th_gguf_load_options){.stored = true});
    no_error();
    ck_assert_int_eq(th_dtype_of(th_module_find_parameter(again, "layers.0.linear2.weight")), TH_FLOAT16);
    ck_assert_int_eq(th_dtype_of(th_module_find_parameter(again, "layers.0.linear1.weight")), TH_Q4_0);
}
END_TEST

/* Writes b.gguf, which is a.gguf with a license, a name and two tokens. */
static void write_source(uint32_t padding)
{
    static const char license[] = "\6\0\0\0\0\0\0\0apache", name[] = "\4\0\0\0\0\0\0\0Tiny";
    static const uint32_t unknown = 3;
    gguf_parts p;
    gguf_read(in_folder("a.gguf"), &p);
    gguf_set(&p, "general.license", STRING, license, sizeof license - 1);
    gguf_set(&p, "general.name", STRING, name, sizeof name - 1);
    gguf_set(&p, "tokenizer.ggml.unknown_token_id", UINT32, &unknown, sizeof unknown);
    gguf_set(&p, "tokenizer.ggml.padding_token_id", UINT32, &padding, sizeof padding);
    gguf_write(in_folder("b.gguf"), &p);
    gguf_free(&p);
}

static void expect_value(gguf_parts *p, const char *key, const void *bytes, size_t count)
{
    const gguf_value *v = gguf_find(p, key);
    ck_assert_msg(v != NULL, "%s is missing", key);
    ck_assert_uint_eq(v->count, count);
    ck_assert_mem_eq(v->bytes, bytes, count);
}

/* A file that is made from another one has its texts and tokens, except a name that the caller gives. */
START_TEST(test_source)
{
    th_module *model = model_of(ctx, &architectures[0].options);
    gguf_parts p;
    ck_assert_int_eq(th_language_model_export_gguf(model, in_folder("a.gguf"), NULL), TH_OK);
    write_source(2);
    char source[256];
    snprintf(source, sizeof source, "%s", in_folder("b.gguf"));
    th_gguf_export_options given = {.source = source};
    for (int named = 0; named < 2; named++) {
        given.name = named ? "other" : NULL;
        ck_assert_int_eq(th_language_model_export_gguf(model, in_folder("c.gguf"), &given), TH_OK);
        gguf_read(in_folder("c.gguf"), &p);
        expect_value(&p, "general.license", "\6\0\0\0\0\0\0\0apache", 14);
        expect_value(&p, "general.name", named ? "\5\0\0\0\0\0\0\0other" : "\4\0\0\0\0\0\0\0Tiny", named ? 13 : 12);
        expect_value(&p, "tokenizer.ggml.unknown_token_id", &(uint32_t){3}, 4);
        expect_value(&p, "tokenizer.ggml.padding_token_id", &(uint32_t){2}, 4);
        gguf_free(&p);
    }
    write_source(100000);
    expect_status(th_language_model_export_gguf(model, in_folder("c.gguf"), &given), TH_ERROR_FILE, "padding_token_id");
    given.source = "/missing.gguf";
    expect_status(th_language_model_export_gguf(model, in_folder("c.gguf"), &given), TH_ERROR_FILE, "/missing.gguf");
}
END_TEST

/* -- models that no file describes -- */

START_TEST(test_options_that_cannot_be_expressed)
{
    static const struct {
        th_language_model_options options;
        const char *architecture, *expected;
    } wrong[] = {
        {{HEADER, .layers = 1, .block = {GATED, .no_bias = true, .scores = {HALVES, .alibi = true}}},
         NULL,
         ".scores.alibi"},
        {{HEADER, .layers = 1, .block = {GATED, .no_bias = true, .scores = {HALVES, .window = 4}}},
         "llama",
         ".scores.window"},
        {{HEADER, .layers = 1, .block = {GATED, .no_bias = true, .scale = 0.3, .scores = {HALVES}}},
         "llama",
         ".block.scale"},
        {{HEADER, .layers = 1, .block = {GATED, .no_bias = true, .scores = {HALVES}}}, "gemma2", ".block.output_norm"},
        {{HEADER, .layers = 1,
          .block = {GATED, .no_bias = true,
                    .scores = {HALVES,
                               .rotary_scaling = {.kind = TH_ROTARY_DYNAMIC, .factor = 2, .original_length = 8}}}},
         NULL,
         ".rotary_scaling.kind"},
        {{HEADER, .layers = 1, .block = {GATED, .no_bias = true, .value_residual = true, .scores = {HALVES}}},
         NULL,
         ".block.value_residual"},
        {{HEADER, .layers = 1, .bigram_rows = 9, .block = {GATED, .no_bias = true, .scores = {HALVES}}},
         NULL,
         ".bigram_rows"},
        {{HEADER, .layers = 1, .block = {GATED, .no_bias = true, .scores = {HALVES}}}, "mamba", "unknown architecture"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        th_module *model = model_of(ctx, &wrong[i].options);
        const th_gguf_export_options given = {.architecture = wrong[i].architecture};
        ck_assert_int_eq(th_language_model_export_gguf(model, in_folder("a.gguf"), &given), TH_ERROR_ARGUMENT);
        ck_assert_msg(strstr(th_error_message(ctx), wrong[i].expected) != NULL, "%s", th_error_message(ctx));
        th_error_clear(ctx);
    }
    ck_assert_int_eq(count_files(), 0);
}
END_TEST

START_TEST(test_misuse)
{
    th_module *model = model_of(ctx, &architectures[0].options), *dense = th_dense_new(ctx, 2, 2, NULL);
    const struct {
        th_module *model;
        const char *path;
        th_gguf_export_options options;
        th_status expected;
    } wrong[] = {
        {NULL, "x", {0}, TH_ERROR_ARGUMENT},
        {dense, "x", {0}, TH_ERROR_ARGUMENT},
        {model, NULL, {0}, TH_ERROR_ARGUMENT},
        {model, "x", {.type = TH_INT32}, TH_ERROR_TYPE},
        {model, "x", {.type = TH_FLOAT64}, TH_ERROR_TYPE},
        {model, "x", {TH_END_TOKEN(V)}, TH_ERROR_ARGUMENT},
        {model, "/nowhere/x", {0}, TH_ERROR_FILE},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_int_eq(th_language_model_export_gguf(wrong[i].model, wrong[i].path, &wrong[i].options),
                         wrong[i].expected);
        th_error_clear(ctx);
    }
    int64_t token;
    th_text text = {0};
    ck_assert_ptr_null(th_language_model_from_gguf(ctx, NULL, NULL));
    th_error_clear(ctx);
    ck_assert_ptr_null(th_language_model_from_gguf(ctx, folder, NULL));
    th_error_clear(ctx);
    ck_assert_ptr_null(th_tokenizer_from_gguf(ctx, in_folder("none")));
    th_error_clear(ctx);
    ck_assert_int_ne(th_gguf_end_token(ctx, in_folder("none"), &token), TH_OK);
    th_error_clear(ctx);
    ck_assert_int_ne(th_gguf_chat_template(ctx, in_folder("none"), &text), TH_OK);
    th_error_clear(ctx);
}
END_TEST

/* -- tokenizers -- */

static const char corpus[] =
    "It's 2026: the tokenizer's tokens, and the others'. In 12345 days\n\n  they'll 'RE-do it? Stra\xc3\x9f"
    "e!";

static void expect_same_tokens(th_tokenizer *a, th_tokenizer *b)
{
    static const char text[] =
        "The tokens' 2nd of 12345,\n don't <|end|> it\xe2\x80\x99s the\xff\n\n others  e\xcc\x81 ";
    th_token_list x = {0}, y = {0};
    ck_assert_int_eq(th_tokenizer_encode_document(a, text, sizeof text - 1, &x), TH_OK);
    ck_assert_int_eq(th_tokenizer_encode_document(b, text, sizeof text - 1, &y), TH_OK);
    ck_assert_uint_eq(x.count, y.count);
    ck_assert_mem_eq(x.token, y.token, x.count * sizeof *x.token);
    ck_assert_int_eq(th_tokenizer_size(a), th_tokenizer_size(b));
    th_token_list_free(&x);
    th_token_list_free(&y);
}

static const char *const patterns[] = {
    NULL,
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
};

START_TEST(test_tokenizers)
{
    static const char *const specials[] = {"<|end|>"};
    th_tokenizer *t = th_tokenizer_train(
        ctx, corpus, sizeof corpus - 1,
        &(th_bpe_options){.vocabulary = 300, .specials = specials, .n_specials = 1, .pattern = patterns[_i]});
    no_error();
    th_language_model_options o = architectures[0].options;
    o.vocabulary = th_tokenizer_size(t) + 3;
    th_module *model = model_of(ctx, &o);
    const th_gguf_export_options given = {
        .tokenizer = t, .chat_template = "{{ messages }}", .name = "small", TH_END_TOKEN(0)};
    ck_assert_int_eq(th_language_model_export_gguf(model, in_folder("a.gguf"), &given), TH_OK);
    th_tokenizer *again = th_tokenizer_from_gguf(ctx, in_folder("a.gguf"));
    no_error();
    expect_same_tokens(t, again);
    ck_assert(th_tokenizer_is_special(again, th_tokenizer_find(again, "<|end|>")));
    int64_t token = 9;
    ck_assert_int_eq(th_gguf_end_token(ctx, in_folder("a.gguf"), &token), TH_OK);
    ck_assert_int_eq(token, 0);
    th_text text = {0};
    ck_assert_int_eq(th_gguf_chat_template(ctx, in_folder("a.gguf"), &text), TH_OK);
    ck_assert_uint_eq(text.count, 14);
    ck_assert_str_eq(text.bytes, "{{ messages }}");
    th_text_free(&text);
    ck_assert_ptr_nonnull(th_language_model_from_gguf(ctx, in_folder("a.gguf"), NULL));
    no_error();
}
END_TEST

START_TEST(test_byte_tokenizers)
{
    th_tokenizer *t = th_tokenizer_bytes_new(ctx);
    th_language_model_options o = architectures[0].options;
    o.vocabulary = 256;
    ck_assert_int_eq(th_language_model_export_gguf(model_of(ctx, &o), in_folder("a.gguf"),
                                                   &(th_gguf_export_options){.tokenizer = t}),
                     TH_OK);
    th_tokenizer *again = th_tokenizer_from_gguf(ctx, in_folder("a.gguf"));
    no_error();
    expect_same_tokens(t, again);
    int64_t token = 9;
    ck_assert_int_eq(th_gguf_end_token(ctx, in_folder("a.gguf"), &token), TH_OK);
    ck_assert_int_eq(token, -1);
}
END_TEST

START_TEST(test_other_tokenizers)
{
    th_language_model_options o = architectures[0].options;
    o.vocabulary = 300;
    th_module *model = model_of(ctx, &o);
    th_tokenizer *wrong[] = {
        th_tokenizer_characters_new(ctx, "abc", 3),
        th_tokenizer_train(ctx, corpus, sizeof corpus - 1, &(th_bpe_options){.vocabulary = 280, .pattern = "[a-z]+"}),
        th_tokenizer_train(ctx, corpus, sizeof corpus - 1, &(th_bpe_options){.vocabulary = 320}),
    };
    static const char *const expected[] = {"byte-level", "another split", "has 3"};
    no_error();
    for (int i = 0; i < 3; i++) {
        const th_gguf_export_options given = {.tokenizer = wrong[i]};
        ck_assert_int_eq(th_language_model_export_gguf(model, in_folder("a.gguf"), &given), TH_ERROR_ARGUMENT);
        ck_assert_msg(strstr(th_error_message(ctx), expected[i]) != NULL, "%s", th_error_message(ctx));
        th_error_clear(ctx);
    }
    ck_assert_int_eq(th_language_model_export_gguf(model, in_folder("a.gguf"), NULL), TH_OK);
    ck_assert_ptr_null(th_tokenizer_from_gguf(ctx, in_folder("a.gguf")));
    ck_assert_ptr_nonnull(strstr(th_error_message(ctx), "\"none\""));
    th_error_clear(ctx);
}
END_TEST

/* -- damaged files -- */

/* Every prefix of a file, and every file with one changed byte of its header, is read or refused with TH_ERROR_FILE,
 * without a leak. */
START_TEST(test_damaged_files)
{
    th_language_model_options o = architectures[2].options;
    o.width = 32;
    o.heads = 1;
    o.block.mlp_width = 32;
    th_tokenizer *t = th_tokenizer_bytes_new(ctx);
    o.vocabulary = 256;
    ck_assert_int_eq(th_language_model_export_gguf(model_of(ctx, &o), in_folder("a.gguf"),
                                                   &(th_gguf_export_options){.type = TH_Q4_0, .tokenizer = t}),
                     TH_OK);
    size_t bytes;
    char *file = read_bytes(in_folder("a.gguf"), &bytes);
    const int descriptor = next_descriptor();
    int64_t refused = 0;
    for (size_t i = 0; i < bytes; i += i < 900 ? 1 : 97) {
        write_bytes(in_folder("b.gguf"), file, i);
        th_module *model = th_language_model_from_gguf(ctx, in_folder("b.gguf"), NULL);
        ck_assert_msg(model == NULL && th_error_code(ctx) == TH_ERROR_FILE, "%zu of %zu bytes: %s", i, bytes,
                      th_error_message(ctx));
        ck_assert_ptr_nonnull(strstr(th_error_message(ctx), "b.gguf"));
        th_error_clear(ctx);
    }
    for (size_t i = 0; i < bytes; i += i < 900 ? 1 : 61)
        for (int bit = 0; bit < 8; bit += 3) {
            file[i] ^= (char)(1 << bit);
            write_bytes(in_folder("b.gguf"), file, bytes);
            file[i] ^= (char)(1 << bit);
            th_module *model =
                th_language_model_from_gguf(ctx, in_folder("b.gguf"), &(th_gguf_load_options){.stored = i % 2});
            refused += model == NULL;
            if (model)
                th_module_free(model);
            else
                ck_assert_msg(th_error_code(ctx) == TH_ERROR_FILE || th_error_code(ctx) == TH_ERROR_MEMORY,
                              "byte %zu: %s", i, th_error_message(ctx));
            th_error_clear(ctx);
            th_tokenizer_free(th_tokenizer_from_gguf(ctx, in_folder("b.gguf")));
            th_error_clear(ctx);
        }
    ck_assert_int_gt(refused, 500);
    ck_assert_int_eq(next_descriptor(), descriptor);
    free(file);
}
END_TEST

#define CHANGE(from, to, expected)                                                                                     \
    {                                                                                                                  \
        from, to, sizeof from - 1, expected                                                                            \
    }
START_TEST(test_what_is_not_known)
{
    static const struct {
        const char *from, *to;
        size_t length;
        const char *expected;
    } changes[] = {
        CHANGE("GGUF\3", "GGUF\4", "version 4"),
        CHANGE("GGUF\3", "GGML\3", "not a GGUF file"),
        CHANGE("GGUF\3\0\0\0", "GGUF\0\0\0\3", "big-endian"),
        CHANGE("\5\0\0\0\0\0\0\0qwen2", "\5\0\0\0\0\0\0\0qwenX", "\"qwenX\" is not supported; qwen2, llama"),
        CHANGE("qwen2.context_length", "other.context_length", "qwen2.context_length is missing"),
        CHANGE("qwen2.vocab_size", "qwen2.vocab_sizX", "qwen2.vocab_sizX is not supported"),
        CHANGE("qwen2.vocab_size", "qwen2.block_coun", "qwen2.block_coun is not supported"),
        CHANGE("blk.0.ffn_up.weight", "blk.0.ffn_uX.weight", "blk.0.ffn_up.weight is missing"),
        CHANGE("blk.0.attn_q.bias", "blk.1.attn_q.bias", "occurs twice"),
        CHANGE("head_count_kv\4\0\0\0\2", "head_count_kv\4\0\0\0\3",
               "\"qwen2.attention.head_count_kv\" is 3; it must divide \"qwen2.attention.head_count\", which is 4"),
        CHANGE("dimension_count\4\0\0\0\20", "dimension_count\4\0\0\0\17", "is 15, which is not even"),
    };
    size_t bytes;
    ck_assert_int_eq(th_language_model_export_gguf(model_of(ctx, &architectures[4].options), in_folder("a.gguf"), NULL),
                     TH_OK);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char *file = read_bytes(in_folder("a.gguf"), &bytes);
        char *at = memmem(file, bytes, changes[i].from, changes[i].length);
        ck_assert_ptr_nonnull(at);
        memcpy(at, changes[i].to, changes[i].length);
        write_bytes(in_folder("b.gguf"), file, bytes);
        ck_assert_ptr_null(th_language_model_from_gguf(ctx, in_folder("b.gguf"), NULL));
        ck_assert_msg(th_error_code(ctx) == TH_ERROR_FILE && strstr(th_error_message(ctx), changes[i].expected),
                      "%zu: %s", i, th_error_message(ctx));
        const char *place = strstr(th_error_message(ctx), "; at ");
        ck_assert_msg(place && strstr(place + 1, "; at ") == NULL, "%s", th_error_message(ctx)); /* the caller's only */
        th_error_clear(ctx);
        free(file);
    }
}
END_TEST

/* -- headers -- */

static void print_value(FILE *to, const gguf_value *v)
{
    uint32_t integer;
    float real;
    uint64_t bytes;
    fprintf(to, "    %s ", v->key);
    if (v->kind == UINT32) {
        memcpy(&integer, v->bytes, sizeof integer);
        fprintf(to, "%u\n", integer);
    } else if (v->kind == FLOAT32) {
        memcpy(&real, v->bytes, sizeof real);
        fprintf(to, "%.7gf\n", (double)real);
    } else if (v->kind == STRING) {
        memcpy(&bytes, v->bytes, sizeof bytes);
        fprintf(to, "\"%.*s\"\n", (int)bytes, (const char *)v->bytes + sizeof bytes);
    } else {
        ck_assert_uint_eq(v->kind, BOOL);
        fprintf(to, "%s\n", *(const char *)v->bytes ? "true" : "false");
    }
}

static void print_header(FILE *to, const struct described *w)
{
    static gguf_parts parts;
    ck_assert_int_eq(th_language_model_export_gguf(model_of(ctx, &w->options), in_folder("a.gguf"), NULL), TH_OK);
    gguf_read(in_folder("a.gguf"), &parts);
    fprintf(to, "version %u\n", parts.version);
    for (uint64_t i = 0; i < parts.n_values; i++)
        print_value(to, &parts.value[i]);
    for (uint64_t i = 0; i < parts.n_tensors; i++) {
        const gguf_tensor *t = &parts.tensor[i];
        fprintf(to, "    type %u %s", t->type, t->name);
        for (uint32_t k = 0; k < t->axes; k++)
            fprintf(to, " %llu", (unsigned long long)t->size[k]);
        fprintf(to, "\n");
    }
    gguf_free(&parts);
}

/* Files have the values and tensors in tests/fixtures/gguf/headers.txt, which llama.cpp reads. */
START_TEST(test_headers)
{
    char *text = NULL;
    size_t bytes, expected_bytes;
    FILE *memory_file = open_memstream(&text, &bytes);
    for (int i = 0; i < ARCHITECTURES; i++)
        print_header(memory_file, &architectures[i]);
    fclose(memory_file);
    char *expected = read_bytes(FIXTURES "/gguf/headers.txt", &expected_bytes), *rest = expected, *at = text;
    for (int number = 1; *at || *rest; number++) {
        const char *line = strsep(&at, "\n"), *wanted = strsep(&rest, "\n");
        ck_assert_msg(at && rest && strcmp(line, wanted) == 0, "line %d is \"%s\", not \"%s\"", number, line, wanted);
    }
    free(text);
    free(expected);
}
END_TEST

/* The message has the numbers of a tensor that begins outside the file. */
START_TEST(test_a_tensor_outside_the_file)
{
    static const char name[] = "token_embd.weight";
    enum { FIELDS = sizeof(uint32_t) + 2 * sizeof(uint64_t) + sizeof(uint32_t) }; /* axes, sizes, type */
    const uint64_t offset = UINT64_C(1) << 40;
    char words[100];
    size_t bytes;
    ck_assert_int_eq(th_language_model_export_gguf(model_of(ctx, &architectures[4].options), in_folder("a.gguf"), NULL),
                     TH_OK);
    char *file = read_bytes(in_folder("a.gguf"), &bytes), *at = memmem(file, bytes, name, sizeof name - 1);
    ck_assert_ptr_nonnull(at);
    memcpy(at + sizeof name - 1 + FIELDS, &offset, sizeof offset);
    write_bytes(in_folder("b.gguf"), file, bytes);
    snprintf(words, sizeof words, "%s begins at byte 1099511627776 of the elements, but the file has only %zu bytes",
             name, bytes);
    expect_failure(th_language_model_from_gguf(ctx, in_folder("b.gguf"), NULL) == NULL, TH_ERROR_FILE, words);
    free(file);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("gguf", setup, teardown);
    tcase_add_loop_test(tests, test_every_architecture, 0, ARCHITECTURES);
    tcase_add_loop_test(tests, test_types_of_matrices, 0, 4);
    tcase_add_test(tests, test_stored_rows_in_another_order);
    tcase_add_test(tests, test_short_rows);
    tcase_add_test(tests, test_source);
    tcase_add_test(tests, test_options_that_cannot_be_expressed);
    tcase_add_test(tests, test_misuse);
    tcase_add_loop_test(tests, test_tokenizers, 0, 3);
    tcase_add_test(tests, test_byte_tokenizers);
    tcase_add_test(tests, test_other_tokenizers);
    tcase_add_test(tests, test_damaged_files);
    tcase_add_test(tests, test_what_is_not_known);
    tcase_add_test(tests, test_headers);
    tcase_add_test(tests, test_a_tensor_outside_the_file);
    return run_suites();
}
