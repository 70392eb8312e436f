/* The options that the values of a GGUF file describe, read and written: the defaults of every architecture, every value
 * beside its limits, and the whole message of every refusal. The files are in memory, and have no elements. */
#include <math.h>
#include <string.h>

#include "models/families/family.h"
#include "models/families/options.h"
#include "models/gguf/options.h"

#include "gguf_bytes.h"

/* A value of a file: an integer, a float32 or a text. */
typedef struct value {
    const char *key; /* without the architecture's name; NULL: none */
    double number;
    const char *text; /* NULL: a number */
    uint32_t kind;
} value;
#define SIZE(key, size)                                                                                                \
    {                                                                                                                  \
        key, size, NULL, TH_GGUF_UINT32                                                                                \
    }
#define REAL(key, real)                                                                                                \
    {                                                                                                                  \
        key, real, NULL, TH_GGUF_FLOAT32                                                                               \
    }
#define FLAG(key, flag)                                                                                                \
    {                                                                                                                  \
        key, flag, NULL, TH_GGUF_BOOL                                                                                  \
    }
#define TEXT(key, text)                                                                                                \
    {                                                                                                                  \
        key, 0, text, TH_GGUF_STRING                                                                                   \
    }

static void put_one(const char *architecture, const value *v)
{
    char key[200];
    const float real = (float)v->number;
    const char flag = v->number != 0;
    snprintf(key, sizeof key, "%s.%s", architecture, v->key);
    put_text(key);
    put32(v->kind);
    if (v->text)
        put_text(v->text);
    else if (v->kind == TH_GGUF_UINT32)
        put32((uint32_t)(int64_t)v->number);
    else if (v->kind == TH_GGUF_FLOAT32)
        put(&real, sizeof real);
    else
        put(&flag, 1);
}

static const value usual[] = {SIZE("context_length", 64),      SIZE("embedding_length", 48),
                              SIZE("block_count", 8),          SIZE("feed_forward_length", 40),
                              SIZE("attention.head_count", 4), REAL("attention.layer_norm_rms_epsilon", 0.25)};
enum { USUAL = sizeof usual / sizeof *usual };
static const char *omitted; /* the key of a usual value that the file lacks; NULL: none */

/* Whether an architecture has layer norms, and as many heads of keys as of queries. */
static bool has_layer_eps(const char *architecture)
{
    return strncmp(architecture, "gpt", 3) == 0 || strcmp(architecture, "phi2") == 0;
}

/* Opens a file with the usual values and others, which replace usual ones of the same key. */
static const th_gguf_architecture *open_with(const char *architecture, const value *others, bool layer_eps)
{
    int counted = 0;
    bool replaced[USUAL] = {false};
    begin(3, 0, 0);
    put_text("general.architecture");
    put32(TH_GGUF_STRING);
    put_text(architecture);
    for (int i = 0; others && others[i].key; i++, counted++)
        put_one(architecture, &others[i]);
    for (int i = 0; i < USUAL; i++) {
        for (int j = 0; others && others[j].key; j++)
            replaced[i] |= strcmp(others[j].key, usual[i].key) == 0;
        value v = usual[i];
        if (layer_eps && i == USUAL - 1)
            v.key = "attention.layer_norm_epsilon";
        if (replaced[i] || (omitted && strcmp(usual[i].key, omitted) == 0))
            continue;
        put_one(architecture, &v);
        counted++;
    }
    const uint64_t values = (uint64_t)counted + 1;
    memcpy(made + 16, &values, sizeof values);
    ck_assert_msg(opens(bytes), "%s", th_error_message(ctx));
    const th_gguf_architecture *a = th_gguf_architecture_of(&file);
    ck_assert_msg(a != NULL, "%s", th_error_message(ctx));
    ck_assert_str_eq(a->name, architecture);
    return a;
}

static void read_with(const char *architecture, const value *others, th_language_model_options *o)
{
    const bool layer_eps = has_layer_eps(architecture);
    const th_gguf_architecture *a = open_with(architecture, others, layer_eps);
    ck_assert_msg(th_gguf_read_options(&file, a, o) == TH_OK, "%s: %s", architecture, th_error_message(ctx));
    th_gguf_close(&file);
}

static void expect_refusal(const char *architecture, const value *others, const char *sentence)
{
    th_language_model_options o;
    const bool layer_eps = has_layer_eps(architecture);
    const th_gguf_architecture *a = open_with(architecture, others, layer_eps);
    ck_assert_msg(th_gguf_read_options(&file, a, &o) == TH_ERROR_FILE, "no error, instead of \"%s\"", sentence);
    th_gguf_close(&file);
    expect_sentence(sentence);
}

/* -- defaults -- */

static const struct defaults {
    const char *name, *layers; /* of 8 layers, 1: the others */
    bool rms, neighbors, plus_one, output_norm, no_input_norm, gated, norm_of_queries, norm_of_all_queries, parallel,
        shared_norm, learned, no_bias, no_attention_bias, no_output_bias, no_mlp_bias;
    th_activation activation;
    double soft_cap, logit_soft_cap, scale, embedding_scale, depth, logit_divisor, base;
} defaults[] = {
    {"qwen2", NULL, .rms = true, .gated = true, .activation = TH_SILU, .base = 1e4, .no_output_bias = true,
     .no_mlp_bias = true},
    {"llama", NULL, .rms = true, .gated = true, .activation = TH_SILU, .base = 1e4, .neighbors = true, .no_bias = true,
     .no_attention_bias = true, .no_output_bias = true, .no_mlp_bias = true},
    {"qwen3", NULL, .rms = true, .gated = true, .activation = TH_SILU, .base = 1e4, .norm_of_queries = true,
     .no_bias = true, .no_attention_bias = true, .no_mlp_bias = true},
    {"smollm3", "00010001", .rms = true, .gated = true, .activation = TH_SILU, .base = 1e4, .neighbors = true,
     .no_bias = true, .no_attention_bias = true, .no_mlp_bias = true},
    {"phi3", NULL, .rms = true, .gated = true, .activation = TH_SILU, .base = 1e4, .no_bias = true},
    {"olmo2", NULL, .rms = true, .gated = true, .activation = TH_SILU, .base = 1e4, .output_norm = true,
     .no_input_norm = true, .norm_of_all_queries = true, .no_bias = true, .no_attention_bias = true,
     .no_mlp_bias = true},
    {"gemma2", NULL, .rms = true, .gated = true, .activation = TH_GELU_TANH, .base = 1e4, .output_norm = true,
     .plus_one = true, .soft_cap = 50, .logit_soft_cap = 30, .scale = 1, .embedding_scale = 48, .no_bias = true,
     .no_attention_bias = true, .no_mlp_bias = true},
    {"gemma3", NULL, .rms = true, .gated = true, .activation = TH_GELU_TANH, .base = 1e4, .output_norm = true,
     .plus_one = true, .norm_of_queries = true, .scale = 1, .embedding_scale = 48, .no_bias = true,
     .no_attention_bias = true, .no_mlp_bias = true},
    {"gptneox", NULL, .activation = TH_GELU, .base = 1e4, .parallel = true},
    {"phi2", NULL, .activation = TH_GELU_TANH, .base = 1e4, .parallel = true, .shared_norm = true},
    {"minicpm", NULL, .rms = true, .gated = true, .activation = TH_SILU, .base = 1e4, .neighbors = true,
     .no_bias = true, .no_attention_bias = true, .no_output_bias = true, .no_mlp_bias = true, .embedding_scale = 12,
     .depth = 1.4, .logit_divisor = 0.1875},
    {"granite", NULL, .rms = true, .gated = true, .activation = TH_SILU, .base = 1e4, .neighbors = true,
     .no_bias = true, .no_attention_bias = true, .no_output_bias = true, .no_mlp_bias = true, .embedding_scale = 1,
     .depth = 2.8284271247461903 /* sqrt(8) */, .logit_divisor = 1},
    {"gpt2", NULL, .activation = TH_GELU_TANH, .learned = true},
};

#define SAME(member, wanted) ck_assert_msg((member) == (wanted), "%s: " #member, d->name)

START_TEST(options_of_every_architecture)
{
    const struct defaults *d = &defaults[_i];
    const bool is_gpt = has_layer_eps(d->name);
    th_language_model_options o;
    read_with(d->name, NULL, &o);
    ck_assert(o.length == 64 && o.width == 48 && o.layers == 8 && o.heads == 4 && o.block.mlp_width == 40);
    ck_assert(o.block.kv_heads == 4 && o.block.head_width == 12 && o.block.eps == 0.25 && !o.untied);
    ck_assert(o.dropout == 0 && o.embedding_dropout == 0 && o.block.dropout == 0 && o.block.attention_dropout == 0);
    SAME(o.positions, d->learned ? TH_POSITIONS_LEARNED : TH_POSITIONS_NONE);
    SAME(o.block.norm, d->rms ? TH_RMS_NORM : TH_LAYER_NORM);
    SAME(o.block.gated, d->gated);
    SAME(o.block.activation, d->activation);
    SAME(o.block.output_norm, d->output_norm);
    SAME(o.block.no_input_norm, d->no_input_norm);
    SAME(o.block.unit_offset, d->plus_one);
    SAME(o.block.parallel, d->parallel);
    SAME(o.block.shared_norm, d->shared_norm);
    SAME(o.classifier_bias, d->shared_norm);
    SAME(o.block.branch_scale, d->depth / sqrt(8));
    SAME(o.logit_divisor, d->logit_divisor);
    SAME(o.block.no_bias, d->no_bias);
    SAME(o.block.no_attention_bias, d->no_attention_bias);
    SAME(o.block.no_output_bias, d->no_output_bias);
    SAME(o.block.no_mlp_bias, d->no_mlp_bias);
    SAME(o.block.scores.rotary, !d->learned);
    SAME(o.block.scores.rotary_width, 0);
    SAME(o.block.scores.rotary_base, d->base);
    SAME(o.block.scores.rotary_scaling.kind, TH_ROTARY_UNSCALED);
    SAME(o.block.scores.rotary_scaling.factor, 0);
    SAME(o.block.scores.window, 0);
    SAME(o.block.scores.qk_norm, d->norm_of_queries);
    SAME(o.block.scores.qk_norm_whole, d->norm_of_all_queries);
    SAME(o.block.scores.qk_norm_eps, d->norm_of_queries || d->norm_of_all_queries ? 0.25 : 0);
    SAME(o.block.scores.soft_cap, d->soft_cap);
    SAME(o.logit_soft_cap, d->logit_soft_cap);
    SAME(o.block.scale, d->scale > 0 ? 1 / sqrt(12) : 0);
    SAME(o.embedding_scale, d->embedding_scale == 48 ? sqrt(48) : d->embedding_scale);
    if (!d->learned)
        SAME(o.block.scores.rotary_pairing, d->neighbors ? TH_ROTARY_NEIGHBORS : TH_ROTARY_HALVES);
    SAME(o.other_layers != NULL, d->layers != NULL);
    for (int i = 0; d->layers && i < 8; i++)
        SAME(o.other_layers[i], d->layers[i] == '1');
    if (d->layers)
        SAME(o.other_scores.rotary, false);
    th_layers_release(ctx, &o);
    /* these keys exist unless the architecture has no grouped heads */
    const value heads[] = {
        SIZE("attention.head_count_kv", 2), SIZE("attention.key_length", 20), SIZE("attention.value_length", 20), {0}};
    if (is_gpt)
        return;
    read_with(d->name, heads, &o);
    SAME(o.block.kv_heads, 2);
    SAME(o.block.head_width, 20);
    th_layers_release(ctx, &o);
}
END_TEST

/* -- windows -- */

START_TEST(windows_of_layers)
{
    static const struct {
        const char *name, *layers;
        int64_t window, other_window;
        double base, other_base;
    } cases[] = {
        {"phi3", NULL, 7, 0, 1e4, 0},
        {"gemma2", "10101010", 0, 7, 1e4, 1e4},
        {"gemma3", "11111011", 7, 0, 1e4, 1e4},
    };
    const value values[] = {SIZE("attention.sliding_window", 7), REAL("rope.freq_base", 2e6),
                            REAL("rope.freq_base_swa", 3e4),     REAL("rope.scaling.factor", 8),
                            TEXT("rope.scaling.type", "linear"), {0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        th_language_model_options o;
        const bool is_gemma3 = i == 2;
        read_with(cases[i].name, values, &o);
        ck_assert_int_eq(o.other_layers != NULL, i > 0);
        for (int l = 0; i > 0 && l < 8; l++)
            ck_assert_msg(o.other_layers[l] == (cases[i].layers[l] == '1'), "%s: layer %d", cases[i].name, l);
        ck_assert_int_eq(o.block.scores.window, i == 0 ? 7 : 0);
        ck_assert_int_eq(o.other_scores.window, i == 0 ? 0 : 7);
        ck_assert_double_eq(o.block.scores.rotary_base, 2e6);
        ck_assert_int_eq(o.block.scores.rotary_scaling.kind, TH_ROTARY_LINEAR);
        ck_assert_double_eq(o.block.scores.rotary_scaling.factor, 8);
        if (i > 0) {
            ck_assert_double_eq(o.other_scores.rotary_base, is_gemma3 ? 3e4 : 2e6);
            ck_assert_int_eq(o.other_scores.rotary_scaling.kind, is_gemma3 ? TH_ROTARY_UNSCALED : TH_ROTARY_LINEAR);
        }
        th_layers_release(ctx, &o);
    }
    th_language_model_options o;
    const value window[] = {SIZE("attention.sliding_window", 7), {0}};
    read_with("gemma3", window, &o);
    ck_assert_double_eq(o.other_scores.rotary_base, 1e4);
    th_layers_release(ctx, &o);
}
END_TEST

/* Gemma's largest models divide scores by the square root of width / heads. */
START_TEST(scales_of_large_models)
{
    static const struct {
        const char *name;
        uint32_t layers;
        bool wide;
    } cases[] = {{"gemma2", 45, false}, {"gemma2", 46, true}, {"gemma2", 47, false}, {"gemma2", 62, false},
                 {"gemma3", 61, false}, {"gemma3", 62, true}, {"gemma3", 63, false}, {"gemma3", 46, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        th_language_model_options o;
        const value values[] = {SIZE("block_count", cases[i].layers), SIZE("attention.key_length", 20), {0}};
        read_with(cases[i].name, values, &o);
        ck_assert_double_eq(o.block.scale, 1 / sqrt(cases[i].wide ? 12 : 20));
        th_layers_release(ctx, &o);
    }
}
END_TEST

/* -- other values -- */

START_TEST(values_that_are_read)
{
    th_language_model_options o;
    const value caps[] = {REAL("attn_logit_softcapping", 20), REAL("final_logit_softcapping", 10), {0}};
    read_with("gemma2", caps, &o);
    ck_assert(o.block.scores.soft_cap == 20 && o.logit_soft_cap == 10);
    read_with("gemma3", caps, &o);
    ck_assert(o.block.scores.soft_cap == 0 && o.logit_soft_cap == 10);
    const value serial[] = {FLAG("use_parallel_residual", 0), SIZE("rope.dimension_count", 6), {0}};
    read_with("gptneox", serial, &o);
    ck_assert(!o.block.parallel && o.block.scores.rotary_width == 6);
    const value yarn[] = {TEXT("rope.scaling.type", "yarn"),
                          REAL("rope.scaling.factor", 4),
                          SIZE("rope.scaling.original_context_length", 16),
                          REAL("rope.scaling.yarn_beta_fast", 30),
                          REAL("rope.scaling.yarn_beta_slow", 2),
                          {0}};
    read_with("qwen2", yarn, &o);
    const th_rotary_scaling *s = &o.block.scores.rotary_scaling;
    ck_assert(s->kind == TH_ROTARY_YARN && s->factor == 4 && s->original_length == 16);
    ck_assert(s->beta_fast == 30 && s->beta_slow == 2 && s->attention_factor == 0);
    const value none[] = {TEXT("rope.scaling.type", "none"), REAL("rope.scaling.factor", 4), {0}};
    read_with("qwen2", none, &o);
    ck_assert(s->kind == TH_ROTARY_UNSCALED && s->factor == 0);
    const value factor[] = {REAL("rope.scaling.factor", 4), {0}};
    read_with("qwen2", factor, &o);
    ck_assert(s->kind == TH_ROTARY_LINEAR && s->factor == 4);
    const value one[] = {REAL("rope.scaling.factor", 1), TEXT("rope.scaling.type", "linear"), {0}};
    read_with("qwen2", one, &o);
    ck_assert(s->kind == TH_ROTARY_UNSCALED && s->factor == 0);
}
END_TEST

/* Every known key is accepted, and an unknown one only if its value is off. */
START_TEST(known_keys)
{
    static const char *const keys[] = {"attention.value_length",
                                       "attention.layer_norm_epsilon",
                                       "attention.causal",
                                       "rope.dimension_count",
                                       "rope.freq_base_swa",
                                       "rope.scaling.attn_factor",
                                       "rope.scaling.original_context_length",
                                       "rope.scaling.finetuned",
                                       "rope.scaling.yarn_beta_fast",
                                       "rope.scaling.yarn_beta_slow",
                                       "vocab_size",
                                       "use_parallel_residual",
                                       "attn_logit_softcapping",
                                       "final_logit_softcapping",
                                       "tensor_data_layout"};
    th_language_model_options o;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        value values[] = {{keys[i], 12, NULL, i == 2 ? TH_GGUF_BOOL : TH_GGUF_UINT32}, {0}};
        read_with("qwen2", values, &o);
    }
    const value off[] = {SIZE("other", 0), FLAG("another", 0), REAL("a_third", 0), {0}};
    read_with("qwen2", off, &o);
    const value kinds[][2] = {{SIZE("other.key", 1), {0}},
                              {SIZE("other.key", 1 << 24), {0}},
                              {FLAG("other.key", 1), {0}},
                              {REAL("other.key", -1), {0}},
                              {TEXT("other.key", ""), {0}}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        expect_refusal("qwen2", kinds[i], "the value qwen2.other.key is not supported");
}
END_TEST

/* -- writing -- */

static void put_key_size(const char *name, const char *key, uint32_t size)
{
    put_one(name, &(value){key, size, NULL, TH_GGUF_UINT32});
}

static void put_key_real(const char *name, const char *key, double real)
{
    put_one(name, &(value){key, real, NULL, TH_GGUF_FLOAT32});
}

/* Puts the values that a file of the architecture has, in their order. window: 0 for none. */
static void put_written(const struct defaults *d, const value *scaling, uint32_t window)
{
    static const char *const sizes[] = {"context_length", "embedding_length", "block_count", "feed_forward_length",
                                        "attention.head_count"};
    static const uint32_t numbers[] = {64, 48, 8, 40, 4};
    const bool is_gpt = has_layer_eps(d->name);
    bytes = 0;
    put_text("general.architecture");
    put32(TH_GGUF_STRING);
    put_text(d->name);
    for (int i = 0; i < 5; i++)
        put_key_size(d->name, sizes[i], numbers[i]);
    if (!is_gpt) {
        put_key_size(d->name, "attention.head_count_kv", 4);
        put_key_size(d->name, "attention.key_length", 12);
        put_key_size(d->name, "attention.value_length", 12);
    }
    put_key_size(d->name, "vocab_size", 77);
    put_key_real(d->name, is_gpt ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", 0.25);
    if (strcmp(d->name, "gptneox") == 0)
        put_one(d->name, &(value)FLAG("use_parallel_residual", 1));
    if (d->soft_cap > 0)
        put_key_real(d->name, "attn_logit_softcapping", 50);
    if (d->soft_cap > 0)
        put_key_real(d->name, "final_logit_softcapping", 30);
    if (d->depth > 0) {
        put_key_real(d->name, "embedding_scale", d->embedding_scale);
        put_key_real(d->name, "residual_scale", d->depth / sqrt(8));
        put_key_real(d->name, "logit_scale", d->logit_divisor);
    }
    if (strcmp(d->name, "granite") == 0)
        put_key_real(d->name, "attention.scale", 1 / sqrt(12));
    if (!d->learned) {
        put_key_size(d->name, "rope.dimension_count", 12);
        put_key_real(d->name, "rope.freq_base", 10000);
    }
    for (; scaling && scaling->key; scaling++)
        put_one(d->name, scaling);
    if (window > 0)
        put_key_size(d->name, "attention.sliding_window", window);
}

/* Reads the values, and compares what is written with what put_written puts. */
static void expect_written(const struct defaults *d, const value *others, const value *scaling, uint32_t window)
{
    char *found = NULL;
    size_t count;
    th_language_model_options o;
    read_with(d->name, others, &o);
    o.vocabulary = 77;
    const th_language_model_options normal = th_normal_options(&o);
    th_gguf_writer w = {.file = open_memstream(&found, &count)};
    const th_gguf_architecture *a = NULL;
    for (int i = 0; i < TH_GGUF_ARCHITECTURES; i++)
        if (strcmp(th_gguf_architectures[i].name, d->name) == 0)
            a = &th_gguf_architectures[i];
    th_gguf_write_options(&w, a, &normal);
    fclose(w.file);
    put_written(d, scaling, window);
    ck_assert_msg(count == bytes && memcmp(found, made, bytes) == 0, "%s: other values", d->name);
    free(found);
    th_layers_release(ctx, &o);
}

/* The bytes of the values of every architecture, with windows and with each scaling. */
START_TEST(values_that_are_written)
{
    const struct defaults *d = &defaults[_i];
    const value linear[] = {TEXT("rope.scaling.type", "linear"), REAL("rope.scaling.factor", 4), {0}};
    const value yarn[] = {TEXT("rope.scaling.type", "yarn"),
                          REAL("rope.scaling.factor", 4),
                          SIZE("rope.scaling.original_context_length", 16),
                          {0}};
    const value betas[] = {
        yarn[0], yarn[1], yarn[2], REAL("rope.scaling.yarn_beta_fast", 30), REAL("rope.scaling.yarn_beta_slow", 2),
        {0}};
    const value window[] = {SIZE("attention.sliding_window", 7), {0}};
    const bool has_window = strncmp(d->name, "gemma", 5) == 0 || strcmp(d->name, "phi3") == 0;
    expect_written(d, NULL, NULL, 0);
    if (has_window)
        expect_written(d, window, NULL, 7);
    if (d->learned)
        return;
    expect_written(d, linear, linear, 0);
    expect_written(d, yarn, yarn, 0);
    expect_written(d, betas, betas, 0);
}
END_TEST

/* -- refusals -- */

START_TEST(values_that_are_refused)
{
    static const struct {
        const char *architecture;
        value values[3];
        const char *sentence;
    } cases[] = {
        {"qwen2", {SIZE("context_length", 0)}, "\"qwen2.context_length\" is 0; it must be in [1, 2147483647]"},
        {"qwen2", {SIZE("block_count", 4097)}, "\"qwen2.block_count\" is 4097; it must be in [1, 4096]"},
        {"qwen2",
         {SIZE("embedding_length", 2147483648.0)},
         "\"qwen2.embedding_length\" is 2147483648; it must be in [1, 2147483647]"},
        {"qwen2",
         {SIZE("attention.head_count", 5)},
         "\"qwen2.attention.head_count\" is 5; it must divide \"qwen2.embedding_length\", which is 48"},
        {"qwen2",
         {SIZE("attention.head_count_kv", 3)},
         "\"qwen2.attention.head_count_kv\" is 3; it must divide \"qwen2.attention.head_count\", which is 4"},
        {"qwen2", {SIZE("attention.value_length", 13)}, "qwen2.attention.value_length differs from the width of keys"},
        {"qwen2",
         {SIZE("attention.value_length", 0)},
         "\"qwen2.attention.value_length\" is 0; it must be in [1, 2147483647]"},
        {"qwen2",
         {REAL("attention.layer_norm_rms_epsilon", 0)},
         "the value qwen2.attention.layer_norm_rms_epsilon is missing or 0; it must be in [1e-20, 1]"},
        {"qwen2",
         {REAL("attention.layer_norm_rms_epsilon", 2)},
         "\"qwen2.attention.layer_norm_rms_epsilon\" is 2; it must be in [1e-20, 1]"},
        {"qwen2", {FLAG("attention.causal", 0)}, "qwen2.attention.causal is false"},
        {"gemma2",
         {REAL("attn_logit_softcapping", 2e6)},
         "\"gemma2.attn_logit_softcapping\" is 2e+06; it must be in [0.001, 1e+06]"},
        {"gemma3",
         {REAL("final_logit_softcapping", 1e-4)},
         "\"gemma3.final_logit_softcapping\" is 0.0001; it must be in [0.001, 1e+06]"},
        {"qwen2", {SIZE("rope.dimension_count", 11)}, "qwen2.rope.dimension_count is 11, which is not even"},
        {"qwen2", {SIZE("rope.dimension_count", 10)}, "qwen2.rope.dimension_count is 10, but heads have a width of 12"},
        {"phi3", {SIZE("rope.dimension_count", 14)}, "phi3.rope.dimension_count is 14, but heads have a width of 12"},
        {"phi3",
         {SIZE("rope.dimension_count", 1)},
         "\"phi3.rope.dimension_count\" is 1; it must be in [2, 2147483647]"},
        {"qwen2",
         {SIZE("attention.sliding_window", 1)},
         "qwen2.attention.sliding_window is not supported in this architecture"},
        {"qwen2", {REAL("rope.freq_base", 0)}, "\"qwen2.rope.freq_base\" is 0; it must be in [1, 1e+15]"},
        {"qwen2", {REAL("rope.freq_base", 0.5)}, "\"qwen2.rope.freq_base\" is 0.5; it must be in [1, 1e+15]"},
        {"gemma3",
         {SIZE("attention.sliding_window", 7), REAL("rope.freq_base_swa", 0)},
         "\"gemma3.rope.freq_base_swa\" is 0; it must be in [1, 1e+15]"},
        {"qwen2",
         {TEXT("rope.scaling.type", "longrope")},
         "qwen2.rope.scaling.type is not supported; none, linear and yarn are"},
        {"qwen2",
         {REAL("rope.scaling.factor", 2e6)},
         "\"qwen2.rope.scaling.factor\" is 2e+06; it must be in [1e-06, 1e+06]"},
        {"qwen2",
         {TEXT("rope.scaling.type", "yarn"), SIZE("rope.scaling.original_context_length", 0)},
         "\"qwen2.rope.scaling.original_context_length\" is 0; it must be in [1, 2147483647]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refusal(cases[i].architecture, cases[i].values, cases[i].sentence);
    static const char *const needed[] = {"context_length", "embedding_length", "block_count", "feed_forward_length",
                                         "attention.head_count"};
    for (int i = 0; i < 5; i++) {
        char sentence[160];
        omitted = needed[i];
        snprintf(sentence, sizeof sentence, "the value llama.%s is missing", omitted);
        expect_refusal("llama", NULL, sentence);
    }
}
END_TEST

START_TEST(architectures_that_are_refused)
{
    static const char end[] =
        "\" is not supported; qwen2, llama, qwen3, smollm3, phi3, olmo2, gemma2, gemma3, gptneox, "
        "phi2, minicpm, granite, bert and gpt2 are";
    static const char longer[] = "0123456789012345678901234567890123456789012345678901234567890";
    static const char *const names[] = {"", "Llama", "llam", "llama2", longer};
    char sentence[300];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        begin_packed(0, 1);
        put_text("general.architecture");
        put32(TH_GGUF_STRING);
        put_text(names[i]);
        ck_assert(opens(bytes));
        ck_assert_ptr_null(th_gguf_architecture_of(&file));
        snprintf(sentence, sizeof sentence, "the architecture \"%.60s%s", names[i], end);
        expect_sentence(sentence);
        th_gguf_close(&file);
    }
    begin_packed(0, 0);
    ck_assert(opens(bytes));
    ck_assert_ptr_null(th_gguf_architecture_of(&file));
    snprintf(sentence, sizeof sentence, "the architecture \"%s", end);
    expect_sentence(sentence);
    th_gguf_close(&file);
}
END_TEST

/* -- the vocabulary -- */

/* A tokenizer's size, the file's size and the ends of texts. -1: not in the file. */
static void open_vocabulary(int tokens, int size, int begin_token, int end_token)
{
    begin_packed(0, 1 + (uint64_t)(tokens >= 0) + (uint64_t)(size >= 0) + (uint64_t)(begin_token >= 0) +
                        (uint64_t)(end_token >= 0));
    put_value("general.architecture", TH_GGUF_STRING, "\5\0\0\0\0\0\0\0llama", 13);
    if (size >= 0)
        put_value("llama.vocab_size", TH_GGUF_UINT32, &size, 4);
    if (begin_token >= 0)
        put_value("tokenizer.ggml.bos_token_id", TH_GGUF_UINT32, &begin_token, 4);
    if (end_token >= 0)
        put_value("tokenizer.ggml.eos_token_id", TH_GGUF_UINT32, &end_token, 4);
    if (tokens >= 0) {
        put_value("tokenizer.ggml.tokens", TH_GGUF_ARRAY, "\0\0\0\0", 4);
        put64((uint64_t)tokens);
        bytes += (size_t)tokens;
    }
    ck_assert_msg(opens(bytes), "%s", th_error_message(ctx));
}

START_TEST(sizes_of_the_vocabulary)
{
    static const struct {
        int tokens, size, begin, end;
        const char *sentence; /* NULL: none */
    } cases[] = {
        {-1, -1, -1, -1, NULL},
        {-1, -1, 7, 9, NULL},
        {5, 5, 0, 4, NULL},
        {5, -1, 4, 0, NULL},
        {-1, 5, 4, 4, NULL},
        {5, 6, -1, -1, "llama.vocab_size has 6 tokens, but tokenizer.ggml.tokens has 5; they must be the same"},
        {5, 5, 5, -1, "\"tokenizer.ggml.bos_token_id\" is 5; it must be in [0, 4]"},
        {5, 5, -1, 5, "\"tokenizer.ggml.eos_token_id\" is 5; it must be in [0, 4]"},
        {-1, 5, 6, 7, "\"tokenizer.ggml.bos_token_id\" is 6; it must be in [0, 4]"},
        {-1, 0, -1, -1, "\"llama.vocab_size\" is 0; it must be in [1, 2147483647]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        open_vocabulary(cases[i].tokens, cases[i].size, cases[i].begin, cases[i].end);
        const bool right = th_gguf_check_vocabulary(&file);
        ck_assert_msg(right == (cases[i].sentence == NULL), "case %zu: %s", i, th_error_text(ctx));
        if (!right)
            expect_sentence(cases[i].sentence);
        no_error();
        th_gguf_close(&file);
    }
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("gguf_options", setup, teardown);
    tcase_add_loop_test(tests, options_of_every_architecture, 0, sizeof defaults / sizeof *defaults);
    tcase_add_test(tests, windows_of_layers);
    tcase_add_test(tests, scales_of_large_models);
    tcase_add_test(tests, values_that_are_read);
    tcase_add_test(tests, known_keys);
    tcase_add_loop_test(tests, values_that_are_written, 0, sizeof defaults / sizeof *defaults);
    tcase_add_test(tests, values_that_are_refused);
    tcase_add_test(tests, architectures_that_are_refused);
    tcase_add_test(tests, sizes_of_the_vocabulary);
    return run_suites();
}
