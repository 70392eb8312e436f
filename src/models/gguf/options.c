/* Reads and writes the sizes and options of a model. Both use the same tables of keys. */
#include "models/gguf/options.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/core/context.h"
#include "models/core/modules.h"
#include "models/families/config.h"
#include "models/families/family.h"
#include "models/families/fields.h"
#include "models/gguf/encoder.h"

/* -- the architecture -- */

const th_gguf_architecture *th_gguf_architecture_of(const th_gguf *file)
{
    const char *name = "";
    size_t bytes = 0;
    char list[160], text[TH_QUOTED], quoted[TH_QUOTED];
    if (!th_gguf_text(file, "general.architecture", &name, &bytes))
        return NULL;
    for (int i = 0; i < TH_GGUF_ARCHITECTURES; i++)
        if (th_gguf_has_text(file, "general.architecture", th_gguf_architectures[i].name))
            return &th_gguf_architectures[i];
    th_gguf_list_architectures(list, sizeof list);
    snprintf(text, sizeof text, "%.*s", (int)(bytes < 60 ? bytes : 60), name);
    th_gguf_refuse(file, "the architecture \"%s\" is not supported; %s are", th_quote(text, quoted), list);
    return NULL;
}

/* -- keys and members -- */

typedef struct size_key {
    const char *key;
    size_t member;
    bool of_kv_heads; /* only architectures with has_kv_heads have it, and a file may omit it */
} size_key;

static const size_key sizes[] = {
    {"context_length", TH_MEMBER(length), false},
    {"embedding_length", TH_MEMBER(width), false},
    {"block_count", TH_MEMBER(layers), false},
    {"feed_forward_length", TH_MEMBER(block.mlp_width), false},
    {"attention.head_count", TH_MEMBER(heads), false},
    {"attention.head_count_kv", TH_MEMBER(block.kv_heads), true},
    {"attention.key_length", TH_MEMBER(block.head_width), true},
};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* Keys that a file may have beside the keys of the tables and of positions.c. */
static const char *const other_keys[] = {
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "attention.layer_norm_epsilon",
    "attention.sliding_window",
    "attention.causal",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.attn_factor",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "vocab_size",
    "use_parallel_residual",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "embedding_scale",
    "residual_scale",
    "logit_scale",
    "attention.scale",
    "tensor_data_layout",
    "pooling_type",
    "classifier.output_labels",
};

static bool is_known(const char *key)
{
    for (int i = 0; i < SIZES; i++)
        if (strcmp(key, sizes[i].key) == 0)
            return true;
    for (size_t i = 0; i < sizeof other_keys / sizeof *other_keys; i++)
        if (strcmp(key, other_keys[i]) == 0)
            return true;
    return false;
}

/* Whether the value is 0 or false, which switches a feature off. */
static bool is_zero(const th_gguf_value *v)
{
    static const uint8_t bytes[TH_GGUF_KINDS] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    for (int i = 0; i < bytes[v->kind]; i++)
        if (v->bytes[i] != 0)
            return false;
    return bytes[v->kind] > 0;
}

/* Refuses values of the architecture that are not known: they may change a result. */
static void check_keys(const th_gguf *file, const th_gguf_architecture *a)
{
    const size_t prefix = strlen(a->name);
    char quoted[TH_QUOTED];
    for (int64_t i = 0; i < file->n_values; i++) {
        const char *key = file->value[i].key;
        if (strncmp(key, a->name, prefix) == 0 && key[prefix] == '.' && !is_known(key + prefix + 1) &&
            !is_zero(&file->value[i]))
            th_gguf_refuse(file, "the value %s is not supported", th_quote(key, quoted));
    }
}

/* -- reading -- */

static void read_sizes(const th_gguf *file, const th_gguf_architecture *a, th_language_model_options *o)
{
    char key[TH_GGUF_LONGEST_KEY];
    o->block.kv_heads = o->block.head_width = 0;
    for (int i = 0; i < SIZES; i++) {
        int64_t *member = (int64_t *)(void *)((char *)o + sizes[i].member);
        const bool is_layers = sizes[i].member == TH_MEMBER(layers);
        if (sizes[i].of_kv_heads && !a->has_kv_heads)
            continue;
        th_gguf_key(a, sizes[i].key, key);
        if (!sizes[i].of_kv_heads && th_gguf_find(file, key) == NULL)
            th_gguf_refuse(file, "the value %s is missing", key);
        th_gguf_integer(file, key, 1, is_layers ? TH_CONFIG_MAX_LAYERS : TH_CONFIG_MAX_SIZE, member);
    }
}

static void check_divides(const th_gguf *file, const th_gguf_architecture *a, const char *name, int64_t value,
                          const char *multiple_name, int64_t multiple)
{
    char key[TH_GGUF_LONGEST_KEY], other[TH_GGUF_LONGEST_KEY];
    if (multiple % value != 0)
        th_gguf_refuse(file, "\"%s\" is %lld; it must divide \"%s\", which is %lld", th_gguf_key(a, name, key),
                       (long long)value, th_gguf_key(a, multiple_name, other), (long long)multiple);
}

/* Checks the sizes of heads that the file has. */
static void check_heads(const th_gguf *file, const th_gguf_architecture *a, const th_language_model_options *o)
{
    if (o->block.head_width == 0)
        check_divides(file, a, "attention.head_count", o->heads, "embedding_length", o->width);
    if (o->block.kv_heads > 0)
        check_divides(file, a, "attention.head_count_kv", o->block.kv_heads, "attention.head_count", o->heads);
}

/* Takes from the tensors what the values do not say. */
static void read_from_tensors(const th_gguf *file, const th_gguf_architecture *a, th_language_model_options *o)
{
    const th_gguf_tensor *embedding = th_gguf_find_tensor(file, "token_embd.weight");
    if (embedding && embedding->shape.ndim == 2)
        o->vocabulary = embedding->shape.size[0];
    o->untied = th_gguf_find_tensor(file, "output.weight") != NULL;
    if (a->attention_biases) {
        o->block.no_attention_bias = th_gguf_find_tensor(file, "blk.0.attn_q.bias") == NULL;
        o->block.no_output_bias = th_gguf_find_tensor(file, "blk.0.attn_output.bias") == NULL;
    }
    if (a->mlp_biases)
        o->block.no_mlp_bias = th_gguf_find_tensor(file, "blk.0.ffn_up.bias") == NULL;
}

static void read_other_values(const th_gguf *file, const th_gguf_architecture *a, th_language_model_options *o)
{
    char key[TH_GGUF_LONGEST_KEY];
    double eps = 0;
    bool causal = true;
    const th_range eps_range = TH_EPS_RANGE, cap_range = TH_CAP_RANGE;
    if (th_gguf_real(file, th_gguf_key(a, a->eps, key), eps_range, &eps) && eps == 0)
        th_gguf_refuse(file, "the value %s is missing or 0; it must be in [%g, %g]", key, eps_range.low,
                       eps_range.high);
    o->block.eps = eps;
    if (a->has_parallel)
        th_gguf_flag(file, th_gguf_key(a, "use_parallel_residual", key), &o->block.parallel);
    th_gguf_flag(file, th_gguf_key(a, "attention.causal", key), &causal);
    if (!causal && !a->encoder)
        th_gguf_refuse(file, "%s is false", key);
    if (a->has_final_soft_cap)
        o->logit_soft_cap = 0;
    if (a->has_soft_caps || a->has_final_soft_cap)
        th_gguf_real(file, th_gguf_key(a, "final_logit_softcapping", key), cap_range, &o->logit_soft_cap);
    if (a->has_soft_caps)
        th_gguf_real(file, th_gguf_key(a, "attn_logit_softcapping", key), cap_range, &o->block.scores.soft_cap);
}

/* Reads a multiplier, which is 1 if the file lacks it. */
static double read_scale(const th_gguf *file, const th_gguf_architecture *a, const char *name, double missing)
{
    char key[TH_GGUF_LONGEST_KEY];
    double value = missing;
    th_gguf_real(file, th_gguf_key(a, name, key), (th_range)TH_MULTIPLIER_RANGE, &value);
    return value;
}

static void read_scales(const th_gguf *file, const th_gguf_architecture *a, th_language_model_options *o)
{
    const th_gguf_scales *s = &a->scales;
    const double depth = s->depth > 0 ? s->depth / sqrt((double)o->layers) : 1;
    const double divisor = s->base_width > 0 ? (double)o->width / s->base_width : 1;
    o->embedding_scale = read_scale(file, a, "embedding_scale", s->embedding > 0 ? s->embedding : 1);
    o->block.branch_scale = read_scale(file, a, "residual_scale", depth);
    o->logit_divisor = read_scale(file, a, "logit_scale", divisor);
    if (a->has_attention_scale)
        o->block.scale = read_scale(file, a, "attention.scale", 0);
}

/* Sets what follows from the sizes. */
static void complete_options(const th_gguf *file, const th_gguf_architecture *a, th_language_model_options *o)
{
    const th_family *family = th_family_find(a->family);
    char key[TH_GGUF_LONGEST_KEY];
    o->dropout = o->embedding_dropout = o->block.dropout = o->block.attention_dropout = 0;
    th_family_complete(family, o);
    int64_t value_width = o->block.head_width;
    th_gguf_integer(file, th_gguf_key(a, "attention.value_length", key), 1, TH_CONFIG_MAX_SIZE, &value_width);
    if (value_width != o->block.head_width)
        th_gguf_refuse(file, "%s differs from the width of keys", key);
    if (a->wide_scale_layers > 0) {
        const bool wide = o->layers == a->wide_scale_layers;
        o->block.scale = 1 / sqrt((double)(wide ? o->width / o->heads : o->block.head_width));
    }
}

/* Sets the defaults of the family, as for an empty config.json. */
static bool set_defaults(const th_gguf *file, const th_family *family, th_language_model_options *o)
{
    json_t *empty = json_object();
    if (empty == NULL) {
        (void)th_fail_memory(file->ctx, file->operation, 0);
        return false;
    }
    const th_config c = {{file->ctx, file->operation, file->path}, empty};
    *o = family->options;
    th_fields_read(&c, family, o);
    json_decref(empty);
    return !th_failed(file->ctx);
}

th_status th_gguf_read_options(const th_gguf *file, const th_gguf_architecture *a, th_language_model_options *options)
{
    const th_family *family = th_family_find(a->family);
    th_context *ctx = file->ctx;
    if (!set_defaults(file, family, options))
        return th_error_code(ctx);
    check_keys(file, a);
    read_sizes(file, a, options);
    if (!th_failed(ctx))
        check_heads(file, a, options);
    if (th_failed(ctx))
        return th_error_code(ctx);
    read_from_tensors(file, a, options);
    read_other_values(file, a, options);
    if (a->has_scales)
        read_scales(file, a, options);
    if (a->encoder)
        th_gguf_read_encoder(file, a, options);
    complete_options(file, a, options);
    if (!th_failed(ctx))
        th_gguf_read_positions(file, a, options);
    if (th_failed(ctx))
        th_options_release(ctx, options);
    return th_error_code(ctx);
}

/* -- writing -- */

static void put_size(th_gguf_writer *w, const th_gguf_architecture *a, const char *name, int64_t size)
{
    char key[TH_GGUF_LONGEST_KEY];
    th_gguf_put_uint32(w, th_gguf_key(a, name, key), (uint32_t)size);
}

static void put_real(th_gguf_writer *w, const th_gguf_architecture *a, const char *name, double value)
{
    char key[TH_GGUF_LONGEST_KEY];
    th_gguf_put_float32(w, th_gguf_key(a, name, key), value);
}

static int64_t window_in_use(const th_language_model_options *o)
{
    return o->block.scores.window > 0 ? o->block.scores.window : o->other_layers ? o->other_scores.window : 0;
}

/* Returns the scores of layers without a window, if there are such layers. */
static const th_score_options *full_scores(const th_language_model_options *o)
{
    const bool other = o->other_layers && (o->block.scores.window > 0 || !o->block.scores.rotary);
    return other ? &o->other_scores : &o->block.scores;
}

static void write_scaling(th_gguf_writer *w, const th_gguf_architecture *a, const th_rotary_scaling *s)
{
    static const char *const types[] = {[TH_ROTARY_LINEAR] = "linear", [TH_ROTARY_YARN] = "yarn"};
    char key[TH_GGUF_LONGEST_KEY];
    if (a->factors == TH_GGUF_TWO_FACTORS && s->kind == TH_ROTARY_LONGROPE) {
        put_size(w, a, "rope.scaling.original_context_length", s->original_length);
        put_real(w, a, "rope.scaling.attn_factor", th_rotary_attention_factor(s));
    } else if (s->kind == TH_ROTARY_LINEAR || s->kind == TH_ROTARY_YARN) {
        th_gguf_put_text(w, th_gguf_key(a, "rope.scaling.type", key), types[s->kind], strlen(types[s->kind]));
        put_real(w, a, "rope.scaling.factor", s->factor);
    }
    if (s->kind != TH_ROTARY_YARN)
        return;
    put_size(w, a, "rope.scaling.original_context_length", s->original_length);
    if (s->beta_fast != 0)
        put_real(w, a, "rope.scaling.yarn_beta_fast", s->beta_fast);
    if (s->beta_slow != 0)
        put_real(w, a, "rope.scaling.yarn_beta_slow", s->beta_slow);
}

void th_gguf_write_options(th_gguf_writer *w, const th_gguf_architecture *a, const th_language_model_options *o)
{
    char key[TH_GGUF_LONGEST_KEY];
    th_gguf_put_text(w, "general.architecture", a->name, strlen(a->name));
    for (int i = 0; i < SIZES; i++)
        if (!sizes[i].of_kv_heads || a->has_kv_heads)
            put_size(w, a, sizes[i].key, *(const int64_t *)(const void *)((const char *)o + sizes[i].member));
    if (a->has_kv_heads)
        put_size(w, a, "attention.value_length", o->block.head_width);
    put_size(w, a, "vocab_size", o->vocabulary);
    put_real(w, a, a->eps, o->block.eps);
    if (a->has_parallel)
        th_gguf_put_flag(w, th_gguf_key(a, "use_parallel_residual", key), o->block.parallel);
    if (a->has_soft_caps)
        put_real(w, a, "attn_logit_softcapping", o->block.scores.soft_cap);
    if (a->has_soft_caps || (a->has_final_soft_cap && o->logit_soft_cap > 0))
        put_real(w, a, "final_logit_softcapping", o->logit_soft_cap);
    if (a->has_scales) {
        put_real(w, a, "embedding_scale", o->embedding_scale);
        put_real(w, a, "residual_scale", o->block.branch_scale);
        put_real(w, a, "logit_scale", o->logit_divisor);
    }
    if (a->encoder)
        th_gguf_write_encoder(w, a, o);
    if (a->has_attention_scale)
        put_real(w, a, "attention.scale", o->block.scale);
    const th_score_options *full = full_scores(o);
    if (full->rotary) {
        put_size(w, a, "rope.dimension_count", full->rotary_width);
        put_real(w, a, "rope.freq_base", full->rotary_base);
        write_scaling(w, a, &full->rotary_scaling);
    }
    if (a->window_except > 0 && window_in_use(o) > 0)
        put_size(w, a, "attention.sliding_window", window_in_use(o));
}
