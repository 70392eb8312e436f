/* Reads config.json of GPT-2 and Llama as options of a language model. Every field that changes what the model
 * computes is honored or rejected. Missing fields, and fields that are null, have transformers' default. No weights
 * are read. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "models/core.h"
#include "models/files/json.h"
#include "models/store/hugging_face.h"
#include "tapehead/hugging_face.h"

enum { MAX_LAYERS = 4096 };
static const int64_t max = INT32_MAX; /* the largest value of any size */
static const th_json_limits limits = {.bytes = 1 << 20, .depth = 8, .memory = 16 << 20};

bool th_hugging_face_path(th_context *ctx, const char *operation, const char *folder, const char *name,
                          char path[TH_MAX_PATH])
{
    if (th_path_join(path, folder, name))
        return true;
    th_fail(ctx, TH_ERROR_FILE, operation, "%.300s...: the path is too long", folder);
    return false;
}

/* -- fields, or their defaults -- */

typedef struct config {
    th_json_source source;
    const json_t *object; /* the fields: of the whole file, or of one of its members */
} config;

static bool given(const config *c, const char *key)
{
    const json_t *member = json_object_get(c->object, key);
    return member && !json_is_null(member);
}

static void refuse(const config *c, const char *sentence, const char *detail) __attribute__((format(printf, 2, 0)));
static void refuse(const config *c, const char *sentence, const char *detail)
{
    char trouble[256], quoted[TH_QUOTED];
    snprintf(trouble, sizeof trouble, sentence, th_quote(detail, quoted));
    th_fail(c->source.ctx, TH_ERROR_FILE, c->source.operation, "%.300s: %s", c->source.name, trouble);
}

static int64_t integer(const config *c, const char *key, int64_t highest, int64_t missing)
{
    int64_t value;
    return given(c, key) && th_json_integer(&c->source, c->object, key, 1, highest, &value) ? value : missing;
}

static double number(const config *c, const char *key, double missing)
{
    double value = missing;
    if (given(c, key))
        th_json_number(&c->source, c->object, key, &value);
    return value;
}

/* Reads a field that must be positive, because 0 would select a default in our options. */
static double positive(const config *c, const char *key, double missing)
{
    const double value = number(c, key, missing);
    if (!(value > 0))
        refuse(c, "\"%s\" must be positive", key);
    return value;
}

static double probability(const config *c, const char *key, double missing)
{
    const double value = number(c, key, missing);
    if (!(value >= 0 && value < 1))
        refuse(c, "\"%s\" must be at least 0 and less than 1", key);
    return value;
}

static bool boolean(const config *c, const char *key, bool missing)
{
    bool value = missing;
    if (given(c, key))
        th_json_boolean(&c->source, c->object, key, &value);
    return value;
}

static const char *string(const config *c, const char *key, const char *missing)
{
    const char *value = missing;
    if (given(c, key))
        th_json_string(&c->source, c->object, key, &value);
    return value;
}

/* -- activations -- */

static th_activation activation(const config *c, const char *key, const char *missing)
{
    th_activation value = TH_GELU_TANH;
    const char *name = string(c, key, missing);
    if (!th_activation_find(name, &value))
        refuse(c, "activation \"%s\" is not supported; gelu_new, gelu, relu and silu are", name);
    return value;
}

/* -- GPT-2 -- */

/* Reads a size of GPT-2, which transformers also accepts under the name that other models use. */
static int64_t gpt2_size(const config *c, const char *key, const char *other, int64_t highest, int64_t missing)
{
    if (!given(c, key))
        return integer(c, other, highest, missing);
    const int64_t value = integer(c, key, highest, missing);
    if (integer(c, other, highest, value) != value)
        refuse(c, "\"%s\" contradicts its other name in the same file", other);
    return value;
}

static th_language_model_options gpt2(const config *c)
{
    const int64_t width = gpt2_size(c, "n_embd", "hidden_size", max, 768);
    if (!boolean(c, "scale_attn_weights", true))
        refuse(c, "\"%s\" is false, but Tapehead always scales scores", "scale_attn_weights");
    if (boolean(c, "scale_attn_by_inverse_layer_idx", false))
        refuse(c, "\"%s\" is true, which is not supported", "scale_attn_by_inverse_layer_idx");
    if (boolean(c, "add_cross_attention", false))
        refuse(c, "\"%s\" is true, but a decoder-only model has no cross attention", "add_cross_attention");
    return (th_language_model_options){
        .vocabulary = integer(c, "vocab_size", max, 50257),
        .length = gpt2_size(c, "n_positions", "max_position_embeddings", max, 1024),
        .width = width,
        .heads = gpt2_size(c, "n_head", "num_attention_heads", max, 12),
        .layers = gpt2_size(c, "n_layer", "num_hidden_layers", MAX_LAYERS, 12),
        .untied = !boolean(c, "tie_word_embeddings", true),
        .embedding_dropout = probability(c, "embd_pdrop", 0.1),
        .block =
            {
                .mlp_width = integer(c, "n_inner", max, 4 * width),
                .activation = activation(c, "activation_function", "gelu_new"),
                .dropout = probability(c, "resid_pdrop", 0.1),
                .attention_dropout = probability(c, "attn_pdrop", 0.1),
                .eps = positive(c, "layer_norm_epsilon", 1e-5),
            },
    };
}

/* -- Llama -- */

/* Returns the length before scaling. It is a member of the scaling or of the file. transformers reads both, and its
 * versions differ in which one they prefer. */
static int64_t original_length(const config *c, const config *rope)
{
    static const char *const key = "original_max_position_embeddings";
    const int64_t missing = integer(c, key, max, integer(c, "max_position_embeddings", max, 2048));
    const int64_t length = integer(rope, key, max, missing);
    if (given(c, key) && length != missing)
        refuse(c, "\"%s\" appears twice with different values", key);
    return length;
}

/* Returns the length that the model was first trained with. transformers takes it from another field for dynamic
 * scaling, and ignores the one of the other kinds. */
static int64_t length_before_dynamic(const config *c, const config *rope)
{
    const int64_t length = integer(c, "max_position_embeddings", max, 2048);
    if (original_length(c, rope) != length)
        refuse(c, "\"%s\" differs from max_position_embeddings, which dynamic scaling uses",
               "original_max_position_embeddings");
    return length;
}

/* Reads a field that is positive if it is given. Returns 0 if it is missing. */
static double positive_or_missing(const config *c, const char *key)
{
    return given(c, key) ? positive(c, key, 0) : 0;
}

/* Whether the field is a list of one number for each pair. */
static bool has_factors(const config *c, const config *rope, const char *key, int64_t pairs)
{
    const json_t *array = json_object_get(rope->object, key);
    bool usable = json_is_array(array) && json_array_size(array) == (size_t)pairs;
    for (size_t i = 0; i < json_array_size(array); i++)
        usable &= json_is_number(json_array_get(array, i)) != 0;
    if (!usable)
        refuse(c, "\"%s\" is not a list of one number for each pair of a head", key);
    return usable;
}

static void read_factors(const config *rope, const char *key, int64_t pairs, double *factors)
{
    for (int64_t i = 0; i < pairs; i++)
        factors[i] = json_number_value(json_array_get(json_object_get(rope->object, key), (size_t)i));
}

/* Reads the factors of LongRoPE into memory that th_score_options_release releases. */
static void read_longrope(const config *c, const config *rope, int64_t pairs, th_rotary_scaling *scaling)
{
    scaling->attention_factor = positive_or_missing(rope, "attention_factor");
    if (!has_factors(c, rope, "short_factor", pairs) || !has_factors(c, rope, "long_factor", pairs) || pairs == 0)
        return;
    const size_t bytes = 2 * (size_t)pairs * sizeof(double);
    double *factors = th_allocate(c->source.ctx, bytes);
    if (factors == NULL) {
        (void)th_fail_memory(c->source.ctx, c->source.operation, bytes);
        return;
    }
    read_factors(rope, "short_factor", pairs, factors);
    read_factors(rope, "long_factor", pairs, factors + pairs);
    scaling->short_factor = factors;
    scaling->long_factor = factors + pairs;
    scaling->n_factors = pairs;
}

static void read_yarn(const config *rope, th_rotary_scaling *scaling)
{
    scaling->attention_factor = positive_or_missing(rope, "attention_factor");
    scaling->beta_fast = number(rope, "beta_fast", 0);
    scaling->beta_slow = number(rope, "beta_slow", 0);
    scaling->mscale = number(rope, "mscale", 0);
    scaling->mscale_all_dim = number(rope, "mscale_all_dim", 0);
    scaling->no_truncate = !boolean(rope, "truncate", true);
}

/* Returns the factor of yarn and longrope if it is missing: how often the original length fits the model's. */
static double missing_factor(const config *c, const th_rotary_scaling *scaling)
{
    const bool has_ratio = scaling->kind == TH_ROTARY_YARN || scaling->kind == TH_ROTARY_LONGROPE;
    return has_ratio ? (double)integer(c, "max_position_embeddings", max, 2048) / (double)scaling->original_length : 0;
}

/* width: of a head. */
static th_rotary_scaling rotary_scaling(const config *c, const config *rope, double base, int64_t width)
{
    th_rotary_scaling scaling = {0};
    const char *type = string(rope, "rope_type", string(rope, "type", "default"));
    if (!th_rotary_scaling_find(type, &scaling.kind))
        refuse(c, "rope_type \"%s\" is not supported; default, linear, llama3, dynamic, yarn and longrope are", type);
    if (scaling.kind == TH_ROTARY_UNSCALED)
        return scaling;
    if (scaling.kind == TH_ROTARY_DYNAMIC)
        scaling.original_length = length_before_dynamic(c, rope);
    else if (scaling.kind != TH_ROTARY_LINEAR)
        scaling.original_length = original_length(c, rope);
    scaling.factor = number(rope, "factor", missing_factor(c, &scaling));
    if (scaling.kind == TH_ROTARY_LLAMA3) {
        scaling.low_freq_factor = number(rope, "low_freq_factor", 0);
        scaling.high_freq_factor = number(rope, "high_freq_factor", 0);
    }
    if (scaling.kind == TH_ROTARY_YARN)
        read_yarn(rope, &scaling);
    if (scaling.kind == TH_ROTARY_LONGROPE)
        read_longrope(c, rope, width / 2, &scaling);
    char trouble[TH_ROTARY_TROUBLE];
    if (!th_rotary_scaling_usable(&scaling, base, width, trouble))
        refuse(c, "rotary positions: %s", trouble);
    return scaling;
}

/* Whether the file has a nonempty object of that name. */
static bool has_members(const config *c, const char *key)
{
    const json_t *member = json_object_get(c->object, key);
    if (given(c, key) && !json_is_object(member))
        refuse(c, "\"%s\" is neither null nor an object", key);
    return json_object_size(member) > 0;
}

/* Reads base and scaling: rope_scaling with rope_theta beside it (transformers 4), or everything in rope_parameters
 * (5). If a file has both, rope_scaling is used. width: of a head. */
static th_score_options rotary(const config *c, int64_t width)
{
    th_score_options scores = {.rotary = true, .rotary_base = positive(c, "rope_theta", 10000)};
    const bool parameters = has_members(c, "rope_parameters"), scaled = has_members(c, "rope_scaling");
    if (number(c, "partial_rotary_factor", 1) != 1)
        refuse(c, "\"%s\" is not 1", "partial_rotary_factor");
    if (!parameters && !scaled)
        return scores;
    json_t *object = json_object_get(c->object, scaled ? "rope_scaling" : "rope_parameters");
    const config rope = {c->source, object};
    for (void *i = json_object_iter(object); i; i = json_object_iter_next(object, i))
        if (json_is_object(json_object_iter_value(i)))
            refuse(c, "rotary positions for one kind of layer (\"%s\") are not supported", json_object_iter_key(i));
    if (number(&rope, "partial_rotary_factor", 1) != 1)
        refuse(c, "\"%s\" is not 1", "partial_rotary_factor");
    scores.rotary_base = positive(&rope, "rope_theta", scores.rotary_base);
    scores.rotary_scaling = rotary_scaling(c, &rope, scores.rotary_base, width);
    return scores;
}

/* Rejects fields that Llama does not define, but that transformers applies to every model. */
static void refuse_others(const config *c)
{
    static const char *const others[] = {"sliding_window", "attention_chunk_size"};
    for (int i = 0; i < 2; i++)
        if (given(c, others[i]))
            refuse(c, "\"%s\" is given, but a Llama model does not have it", others[i]);
    const json_t *types = json_object_get(c->object, "layer_types");
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *type = json_string_value(json_array_get(types, i));
        if (type == NULL || strcmp(type, "full_attention") != 0)
            refuse(c, "\"%s\" has an entry that is not full_attention", "layer_types");
    }
}

/* Returns the number of positions. Dynamic scaling lengthens max_position_embeddings, and all others have done so. */
static int64_t llama_length(const config *c, const th_rotary_scaling *scaling)
{
    const int64_t length = integer(c, "max_position_embeddings", max, 2048);
    const double longer = scaling->kind == TH_ROTARY_DYNAMIC ? floor((double)length * scaling->factor) : 0;
    return longer > (double)max ? max : longer > (double)length ? (int64_t)longer : length;
}

static th_language_model_options llama(const config *c)
{
    const int64_t width = integer(c, "hidden_size", max, 4096), heads = integer(c, "num_attention_heads", max, 32);
    const int64_t head_width = integer(c, "head_dim", max, width / heads);
    const bool attention_bias = boolean(c, "attention_bias", false), mlp_bias = boolean(c, "mlp_bias", false);
    const th_score_options scores = rotary(c, head_width);
    refuse_others(c);
    return (th_language_model_options){
        .vocabulary = integer(c, "vocab_size", max, 32000),
        .length = llama_length(c, &scores.rotary_scaling),
        .width = width,
        .heads = heads,
        .layers = integer(c, "num_hidden_layers", MAX_LAYERS, 32),
        .positions = TH_POSITIONS_NONE,
        .untied = !boolean(c, "tie_word_embeddings", false),
        .block =
            {
                .mlp_width = integer(c, "intermediate_size", max, 11008),
                .gated = true,
                .activation = activation(c, "hidden_act", "silu"),
                .norm = TH_RMS_NORM,
                .no_bias = !attention_bias && !mlp_bias,
                .no_attention_bias = !attention_bias,
                .no_mlp_bias = !mlp_bias,
                .attention_dropout = probability(c, "attention_dropout", 0),
                .kv_heads = integer(c, "num_key_value_heads", max, heads),
                .head_width = head_width,
                .eps = positive(c, "rms_norm_eps", 1e-6),
                .scores = scores,
            },
    };
}

/* -- the architecture -- */

/* Adds a token unless it is outside the vocabulary or already there. */
static void add_end_token(const config *c, int64_t token, th_foreign_config *read)
{
    bool known = token < 0 || token >= read->options.vocabulary;
    for (int i = 0; i < read->n_end_tokens && !known; i++)
        known = read->end_tokens[i] == token;
    if (known)
        return;
    if (read->n_end_tokens == TH_MAX_END_TOKENS)
        refuse(c, "\"%s\" has more than 64 tokens", "eos_token_id");
    else
        read->end_tokens[read->n_end_tokens++] = token;
}

/* Reads eos_token_id, an integer or a list. `missing` is the token if it is missing. Small models often keep their
 * architecture's default although it is outside their vocabulary. */
static void read_end_tokens(const config *c, int64_t missing, th_foreign_config *read)
{
    const json_t *value = json_object_get(c->object, "eos_token_id");
    const size_t count = json_is_array(value) ? json_array_size(value) : value && !json_is_null(value);
    int64_t first = value && json_is_null(value) ? -1 : missing;
    if (value == NULL)
        add_end_token(c, missing, read);
    if (json_is_array(value) && count == 0)
        refuse(c, "\"%s\" is neither an integer nor a list of integers", "eos_token_id");
    for (size_t i = 0; i < count; i++) {
        const json_t *token = json_is_array(value) ? json_array_get(value, i) : value;
        if (!json_is_integer(token))
            refuse(c, "\"%s\" is neither an integer nor a list of integers", "eos_token_id");
        first = i == 0 ? json_integer_value(token) : first;
        add_end_token(c, json_integer_value(token), read);
    }
    read->end_token = first >= 0 && first < read->options.vocabulary ? first : -1;
}

static void read_config(const config *c, th_foreign_config *read)
{
    if (!json_is_object(c->object)) /* then it has no member either, but this error stays */
        refuse(c, "it is not a JSON %s", "object");
    if (!given(c, "model_type")) {
        refuse(c, "it has no \"%s\"", "model_type");
        return;
    }
    const char *type = string(c, "model_type", "");
    if (strcmp(type, "gpt2") != 0 && strcmp(type, "llama") != 0)
        refuse(c, "model type \"%s\" is not supported; gpt2 and llama are", type);
    if (given(c, "quantization_config"))
        refuse(c, "the weights are quantized (\"%s\")", "quantization_config");
    if (!boolean(c, "is_causal", true))
        refuse(c, "\"%s\" is false", "is_causal");
    const bool is_llama = strcmp(type, "llama") == 0;
    read->architecture = is_llama ? TH_LLAMA : TH_GPT2;
    read->options = is_llama ? llama(c) : gpt2(c);
    read_end_tokens(c, is_llama ? 2 : 50256, read);
}

th_status th_hugging_face_read_config(th_context *ctx, const char *operation, const char *folder,
                                      th_foreign_config *described)
{
    char path[TH_MAX_PATH];
    if (!th_hugging_face_path(ctx, operation, folder, "config.json", path))
        return th_error_code(ctx);
    const th_json_source source = {ctx, operation, path};
    size_t memory;
    json_t *object = th_json_read_file(&source, &limits, &memory);
    if (object == NULL)
        return th_error_code(ctx);
    th_foreign_config read = {0};
    read_config(&(config){source, object}, &read);
    th_json_release(ctx, object, memory);
    if (th_failed(ctx))
        th_foreign_config_release(ctx, &read);
    else
        *described = read;
    return th_error_code(ctx);
}

void th_foreign_config_release(th_context *ctx, th_foreign_config *described)
{
    th_score_options_release(ctx, &described->options.block.scores);
}

/* -- the public functions -- */

static void release_kept(th_context *ctx, void *kept)
{
    th_foreign_config_release(ctx, kept);
    th_release(ctx, kept, sizeof(th_foreign_config));
}

/* Gives the arrays of the options to the context, because th_language_model_options has no function that frees them. */
static th_status keep_arrays(th_context *ctx, const char *operation, th_foreign_config *read)
{
    if (read->options.block.scores.rotary_scaling.n_factors == 0)
        return TH_OK;
    th_foreign_config *kept = th_allocate(ctx, sizeof *kept);
    if (kept)
        *kept = *read;
    if (kept && th_attach(ctx, kept, release_kept))
        return TH_OK;
    th_release(ctx, kept, sizeof *kept);
    th_foreign_config_release(ctx, read);
    return th_fail_memory(ctx, operation, sizeof *kept);
}

th_status th_pretrained_options(th_context *ctx, const char *folder, th_language_model_options *options)
{
    static const char *const operation = "pretrained_options";
    th_foreign_config read;
    if (!th_usable_context(ctx, operation))
        return th_error_code(ctx);
    if (folder == NULL || options == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "%s is NULL", folder ? "options" : "the folder");
    if (th_hugging_face_read_config(ctx, operation, folder, &read) == TH_OK &&
        keep_arrays(ctx, operation, &read) == TH_OK)
        *options = read.options;
    return th_error_code(ctx);
}

th_status th_pretrained_end_token(th_context *ctx, const char *folder, int64_t *token)
{
    static const char *const operation = "pretrained_end_token";
    th_foreign_config read;
    if (!th_usable_context(ctx, operation))
        return th_error_code(ctx);
    if (folder == NULL || token == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "%s is NULL", folder ? "token" : "the folder");
    if (th_hugging_face_read_config(ctx, operation, folder, &read) == TH_OK) {
        *token = read.end_token;
        th_foreign_config_release(ctx, &read);
    }
    return th_error_code(ctx);
}

/* Replaces the end tokens by those of generation_config.json, if it has any. */
static void read_generation_config(th_context *ctx, const char *operation, const char *folder, th_foreign_config *read)
{
    char path[TH_MAX_PATH];
    if (!th_hugging_face_path(ctx, operation, folder, "generation_config.json", path) || access(path, F_OK) != 0)
        return;
    const th_json_source source = {ctx, operation, path};
    size_t memory;
    json_t *object = th_json_read_file(&source, &limits, &memory);
    const config c = {source, object};
    if (object && !json_is_object(object))
        refuse(&c, "it is not a JSON %s", "object");
    if (object && given(&c, "eos_token_id")) {
        read->n_end_tokens = 0;
        read_end_tokens(&c, -1, read);
    }
    th_json_release(ctx, object, memory);
}

th_status th_pretrained_end_tokens(th_context *ctx, const char *folder, int64_t *tokens, int max_tokens, int *count)
{
    static const char *const operation = "pretrained_end_tokens";
    th_foreign_config read;
    if (!th_usable_context(ctx, operation))
        return th_error_code(ctx);
    if (folder == NULL || count == NULL || max_tokens < 0 || (tokens == NULL && max_tokens > 0))
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "needs a folder, memory for tokens and a count");
    if (th_hugging_face_read_config(ctx, operation, folder, &read) != TH_OK)
        return th_error_code(ctx);
    read_generation_config(ctx, operation, folder, &read);
    if (!th_failed(ctx) && read.n_end_tokens > max_tokens)
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "%.300s has %d end tokens, but there is memory for %d", folder,
                read.n_end_tokens, max_tokens);
    if (!th_failed(ctx)) {
        *count = read.n_end_tokens;
        for (int i = 0; i < read.n_end_tokens; i++)
            tokens[i] = read.end_tokens[i];
    }
    th_foreign_config_release(ctx, &read);
    return th_error_code(ctx);
}
