/* Writes a language model as a folder that transformers loads. The model's options decide between GPT-2 and Llama. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "models/core.h"
#include "models/store/hugging_face.h"
#include "tapehead/hugging_face.h"
#include "tapehead/ops.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"

static const char *const operation = "language_model_export";

/* -- checking what the architecture can express -- */

/* An option, and whether the model sets it to a value that the architecture does not support. */
typedef struct unsupported_option {
    bool is_set;
    const char *option;
} unsupported_option;

static th_status fail_if_any_is_set(th_context *ctx, const char *architecture, const unsupported_option *unsupported,
                                    size_t count)
{
    char list[1024] = ""; /* all options together have 800 bytes */
    for (size_t i = 0; i < count; i++)
        if (unsupported[i].is_set) {
            strcat(list, list[0] ? ", " : "");
            strcat(list, unsupported[i].option);
        }
    return list[0] == 0 ? TH_OK
                        : th_fail(ctx, TH_ERROR_ARGUMENT, operation,
                                  "with its .positions the model is exported as a %s, which does not support: %s",
                                  architecture, list);
}

static th_status check_options(th_context *ctx, const th_language_model_options *o, th_architecture architecture)
{
    const th_transformer_block_options *b = &o->block;
    const th_score_options *scores = &b->scores;
    const bool gpt2 = architecture == TH_GPT2;
    const unsupported_option unsupported[] = {
        {o->positions == TH_POSITIONS_SINUSOIDAL, "sinusoidal .positions"},
        {b->post_norm, ".block.post_norm"},
        {b->no_mlp, ".block.no_mlp"},
        {gpt2 && b->norm != TH_LAYER_NORM, "RMS norms (.block.norm)"},
        {!gpt2 && b->norm != TH_RMS_NORM, "layer norms (.block.norm)"},
        {gpt2 && b->gated, ".block.gated"},
        {!gpt2 && !b->gated, "an MLP without a gate (.block.gated)"},
        {gpt2 && b->no_bias, ".block.no_bias"},
        {gpt2 && b->no_attention_bias, ".block.no_attention_bias"},
        {gpt2 && b->no_mlp_bias, ".block.no_mlp_bias"},
        {gpt2 && b->kv_heads != o->heads, "grouped heads (.block.kv_heads)"},
        {gpt2 && b->head_width != o->width / o->heads, ".block.head_width"},
        {gpt2 && scores->rotary, ".block.scores.rotary"},
        {!gpt2 && !scores->rotary, "attention without positions (.block.scores.rotary)"},
        {scores->rotary_width && scores->rotary_width != b->head_width, ".block.scores.rotary_width"},
        {scores->alibi, ".block.scores.alibi"},
        {scores->qk_norm, ".block.scores.qk_norm"},
        {scores->soft_cap != 0, ".block.scores.soft_cap"},
        {scores->window != 0, ".block.scores.window"},
        {scores->qk_norm_whole, ".block.scores.qk_norm_whole"},
        {b->output_norm, ".block.output_norm"},
        {b->parallel, ".block.parallel"},
        {b->unit_offset, ".block.unit_offset"},
        {b->no_output_bias, ".block.no_output_bias"},
        {b->scale != 0, ".block.scale"},
        {o->embedding_scale != 0, ".embedding_scale"},
        {o->logit_soft_cap != 0, ".logit_soft_cap"},
        {o->other_layers != NULL, ".other_layers"},
        {o->scale_by_layer, ".scale_by_layer"},
    };
    return fail_if_any_is_set(ctx, gpt2 ? "GPT-2" : "Llama", unsupported, sizeof unsupported / sizeof unsupported[0]);
}

/* -- config.json -- */

typedef struct object {
    FILE *file;
    bool begun;
} object;

/* Writes "key": and the text before it. */
static void put_key(object *o, const char *key)
{
    fprintf(o->file, "%s\n  \"%s\": ", o->begun ? "," : "{", key);
    o->begun = true;
}

static void put_text(object *o, const char *key, const char *text)
{
    put_key(o, key);
    fprintf(o->file, "\"%s\"", text);
}

static void put_integer(object *o, const char *key, int64_t value)
{
    put_key(o, key);
    fprintf(o->file, "%lld", (long long)value);
}

static void put_bool(object *o, const char *key, bool value)
{
    put_key(o, key);
    fputs(value ? "true" : "false", o->file);
}

/* Writes the fewest digits that read back as the same number, with a point, so that it is not an integer. */
static void put_number(object *o, const char *key, double value)
{
    const bool small = value != 0 && fabs(value) < 1e-4, large = fabs(value) >= 1e16;
    const th_decimal d =
        small || large ? th_decimal_scientific(value, false, -1) : th_decimal_positional(value, false, -1);
    if (key)
        put_key(o, key);
    fprintf(o->file, "%s%s.%s", d.negative ? "-" : "", d.whole, d.fraction[0] ? d.fraction : "0");
    if (d.exponent[0])
        fprintf(o->file, "e%s%s", d.exponent_negative ? "-" : "+", d.exponent);
}

static void put_token(object *o, const char *key, const th_export_options *given)
{
    if (given->has_end_token)
        put_integer(o, key, given->end_token);
    else {
        put_key(o, key);
        fputs("null", o->file);
    }
}

static void put_gpt2(object *o, const th_language_model_options *m)
{
    put_text(o, "activation_function", th_activation_name(m->block.activation));
    put_number(o, "attn_pdrop", m->block.attention_dropout);
    put_number(o, "embd_pdrop", m->embedding_dropout > 0 ? m->embedding_dropout : m->dropout);
    put_number(o, "layer_norm_epsilon", m->block.eps);
    put_integer(o, "n_embd", m->width);
    put_integer(o, "n_head", m->heads);
    put_integer(o, "n_inner", m->block.mlp_width);
    put_integer(o, "n_layer", m->layers);
    put_integer(o, "n_positions", m->length);
    put_number(o, "resid_pdrop", m->block.dropout > 0 ? m->block.dropout : m->dropout);
}

/* Writes "key": number after `before`. */
static void put_inner(object *o, const char *before, const char *key, double value)
{
    fprintf(o->file, "%s\"%s\": ", before, key);
    put_number(o, NULL, value);
}

/* As put_inner, unless the value is 0, which is the default. */
static void put_given(object *o, const char *key, double value)
{
    if (value != 0)
        put_inner(o, ", ", key, value);
}

/* Writes , "key": [numbers] */
static void put_factors(object *o, const char *key, const double *factors, int64_t count)
{
    fprintf(o->file, ", \"%s\": [", key);
    for (int64_t i = 0; i < count; i++) {
        fputs(i ? ", " : "", o->file);
        put_number(o, NULL, factors[i]);
    }
    fputc(']', o->file);
}

static void put_scaling(object *o, const th_rotary_scaling *scaling)
{
    fprintf(o->file, "\"rope_type\": \"%s\"", th_rotary_scaling_name(scaling->kind));
    if (scaling->kind == TH_ROTARY_UNSCALED)
        return;
    put_inner(o, ", ", "factor", scaling->factor);
    if (scaling->kind == TH_ROTARY_LINEAR || scaling->kind == TH_ROTARY_DYNAMIC)
        return;
    if (scaling->kind == TH_ROTARY_LLAMA3) {
        put_inner(o, ", ", "low_freq_factor", scaling->low_freq_factor);
        put_inner(o, ", ", "high_freq_factor", scaling->high_freq_factor);
    } else {
        put_given(o, "attention_factor", scaling->attention_factor);
    }
    if (scaling->kind == TH_ROTARY_YARN) {
        put_given(o, "beta_fast", scaling->beta_fast);
        put_given(o, "beta_slow", scaling->beta_slow);
        put_given(o, "mscale", scaling->mscale);
        put_given(o, "mscale_all_dim", scaling->mscale_all_dim);
        fprintf(o->file, ", \"truncate\": %s", scaling->no_truncate ? "false" : "true");
    }
    if (scaling->kind == TH_ROTARY_LONGROPE) {
        put_factors(o, "short_factor", scaling->short_factor, scaling->n_factors);
        put_factors(o, "long_factor", scaling->long_factor, scaling->n_factors);
    }
    fprintf(o->file, ", \"original_max_position_embeddings\": %lld", (long long)scaling->original_length);
}

/* Writes each setting twice: where transformers 5 expects it, and where 4 does. */
static void put_rotary(object *o, const th_score_options *scores)
{
    const double base = scores->rotary_base > 0 ? scores->rotary_base : 10000;
    put_key(o, "rope_parameters");
    put_inner(o, "{", "rope_theta", base);
    fputs(", ", o->file);
    put_scaling(o, &scores->rotary_scaling);
    fputs("}", o->file);
    if (scores->rotary_scaling.kind != TH_ROTARY_UNSCALED) {
        put_key(o, "rope_scaling");
        fputs("{", o->file);
        put_scaling(o, &scores->rotary_scaling);
        fputs("}", o->file);
    }
    put_number(o, "rope_theta", base);
}

/* Returns max_position_embeddings, which is the length before scaling if the scaling is dynamic. */
static int64_t positions_of(const th_language_model_options *m)
{
    const th_rotary_scaling *scaling = &m->block.scores.rotary_scaling;
    return scaling->kind == TH_ROTARY_DYNAMIC ? scaling->original_length : m->length;
}

static void put_llama(object *o, const th_language_model_options *m)
{
    put_bool(o, "attention_bias", !m->block.no_bias && !m->block.no_attention_bias);
    put_number(o, "attention_dropout", m->block.attention_dropout);
    put_integer(o, "head_dim", m->block.head_width);
    put_text(o, "hidden_act", th_activation_name(m->block.activation));
    put_integer(o, "hidden_size", m->width);
    put_integer(o, "intermediate_size", m->block.mlp_width);
    put_integer(o, "max_position_embeddings", positions_of(m));
    put_bool(o, "mlp_bias", !m->block.no_bias && !m->block.no_mlp_bias);
    put_integer(o, "num_attention_heads", m->heads);
    put_integer(o, "num_hidden_layers", m->layers);
    put_integer(o, "num_key_value_heads", m->block.kv_heads);
    put_number(o, "rms_norm_eps", m->block.eps);
    put_rotary(o, &m->block.scores);
}

static void put_config(FILE *file, th_architecture architecture, const th_language_model_options *m, th_dtype dtype,
                       const th_export_options *given)
{
    object o = {.file = file};
    put_key(&o, "architectures");
    fprintf(file, "[\"%s\"]", architecture == TH_GPT2 ? "GPT2LMHeadModel" : "LlamaForCausalLM");
    put_text(&o, "model_type", architecture == TH_GPT2 ? "gpt2" : "llama");
    (architecture == TH_GPT2 ? put_gpt2 : put_llama)(&o, m);
    put_integer(&o, "vocab_size", m->vocabulary);
    put_bool(&o, "tie_word_embeddings", !m->untied);
    put_token(&o, "bos_token_id", given);
    put_token(&o, "eos_token_id", given);
    put_text(&o, "torch_dtype", th_dtype_name(dtype));
    fputs("\n}\n", file);
}

static th_status write_config(th_context *ctx, const char *folder, th_architecture architecture,
                              const th_language_model_options *m, th_dtype dtype, const th_export_options *given)
{
    char path[TH_MAX_PATH];
    th_atomic_file f;
    if (!th_hugging_face_path(ctx, operation, folder, "config.json", path))
        return th_error_code(ctx);
    bool written = th_atomic_begin(&f, path);
    if (written) {
        errno = 0;
        put_config(f.file, architecture, m, dtype, given);
        written = th_atomic_end(&f, !ferror(f.file));
    }
    return written ? TH_OK : th_fail(ctx, TH_ERROR_FILE, operation, "%.300s: %s", path, strerror(errno));
}

/* -- model.safetensors -- */

/* Reorders the rows of a projection from heads that rotate neighbors to heads that rotate halves: for each head the
 * even rows, then the odd rows. */
static th_tensor *halves_of(th_tensor *t, int64_t head_width)
{
    const th_shape shape = th_shape_of(t);
    const int64_t heads = shape.size[0] / head_width, rest = shape.ndim == 2 ? shape.size[1] : 1;
    th_tensor *pairs = th_reshape(t, TH_SHAPE(heads, head_width / 2, 2, rest));
    return th_reshape(th_swap_axes(pairs, 1, 2), shape);
}

static void write_weights(th_module *model, const char *folder, th_architecture architecture,
                          const th_language_model_options *m)
{
    static const th_named_text metadata = {"format", "pt"}; /* transformers rejects a file without it */
    th_context *ctx = model->ctx;
    const int64_t head_width = m->block.head_width;
    char path[TH_MAX_PATH];
    th_foreign_tensors list;
    if (!th_hugging_face_path(ctx, operation, folder, "model.safetensors", path) ||
        th_foreign_tensors_list(model, architecture, operation, &list) != TH_OK)
        return;
    for (int64_t i = 0; i < list.count && m->block.scores.rotary_pairing == TH_ROTARY_NEIGHBORS; i++) {
        th_named_tensor *t = &list.tensor[i];
        if (th_name_ends_with(t->name, "q_proj.weight") || th_name_ends_with(t->name, "k_proj.weight") ||
            th_name_ends_with(t->name, "q_proj.bias") || th_name_ends_with(t->name, "k_proj.bias"))
            t->tensor = halves_of(t->tensor, head_width);
    }
    th_status status = th_safetensors_write(ctx, path, list.tensor, list.count, &metadata, 1);
    (void)status; /* the error is stored */
    th_foreign_tensors_free(ctx, &list);
}

static th_status check_given(th_context *ctx, const char *folder, const th_language_model_options *m,
                             const th_export_options *given)
{
    if (folder == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the folder is NULL");
    if (given->has_end_token && (given->end_token < 0 || given->end_token >= m->vocabulary))
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "end token %lld is outside the vocabulary of %lld",
                       (long long)given->end_token, (long long)m->vocabulary);
    if (th_is_shapes_only(ctx))
        return th_fail(ctx, TH_ERROR_STATE, operation, "a shapes-only context has no values");
    return TH_OK;
}

/* A folder has float32 or float64 weights. */
static th_status check_types(const th_module *model)
{
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
        if (th_is_storage(th_dtype_of(p.tensor)))
            return th_fail(model->ctx, TH_ERROR_TYPE, operation,
                           "%s is stored as %s; th_module_store converts it back to float32", p.name,
                           th_dtype_name(th_dtype_of(p.tensor)));
    return TH_OK;
}

th_status th_language_model_export(th_module *model, const char *folder, const th_export_options *options)
{
    const th_export_options given = options ? *options : (th_export_options){0};
    if (!th_module_usable(model, operation))
        return model ? th_error_code(model->ctx) : TH_ERROR_ARGUMENT;
    th_context *ctx = model->ctx;
    const th_language_model_options *m = th_language_model_options_of(model);
    if (m == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the module is a %s, not a language model", model->type);
    const th_architecture architecture = m->positions == TH_POSITIONS_NONE ? TH_LLAMA : TH_GPT2;
    if (check_given(ctx, folder, m, &given) != TH_OK || check_options(ctx, m, architecture) != TH_OK ||
        check_types(model) != TH_OK)
        return th_error_code(ctx);
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return th_fail(ctx, TH_ERROR_FILE, operation, "%.300s: %s", folder, strerror(errno));
    const th_dtype dtype = th_dtype_of(th_module_find_parameter(model, "embedding.weight"));
    th_scope_begin(ctx, NULL);
    th_no_grad_begin(ctx);
    write_weights(model, folder, architecture, m);
    th_no_grad_end(ctx);
    th_scope_end(ctx, NULL);
    /* written last: a folder with config.json has a whole model */
    return th_failed(ctx) ? th_error_code(ctx) : write_config(ctx, folder, architecture, m, dtype, &given);
}
