/* Reads config.json of any family as options of a language model. No weights are read. */
#include <math.h>
#include <string.h>

#include "models/core/context.h"
#include "models/core/modules.h"
#include "models/families/config.h"
#include "models/families/described.h"
#include "models/families/family.h"
#include "models/families/fields.h"

/* -- sizes that depend on others -- */

/* Returns the family's key for a member; the file may have its other name. */
static const char *key_of_member(const th_family *family, size_t member)
{
    const th_family_field *f = family->fields;
    while (f->key && f->member != member)
        f++;
    return f->key ? f->key : "";
}

static void check_divides(const th_config *c, const char *key, int64_t value, const char *of, int64_t multiple)
{
    if (multiple % value != 0)
        th_config_fail(c, "\"%s\" is %lld; it must divide \"%s\", which is %lld", key, (long long)value, of,
                       (long long)multiple);
}

/* Checks the sizes of heads, before defaults are filled in. All sizes are positive or not given. */
static void check_heads(const th_config *c, const th_family *family, const th_language_model_options *o)
{
    const char *heads = key_of_member(family, TH_MEMBER(heads));
    if (o->block.head_width == 0)
        check_divides(c, heads, o->heads, key_of_member(family, TH_MEMBER(width)), o->width);
    if (o->block.kv_heads > 0)
        check_divides(c, key_of_member(family, TH_MEMBER(block.kv_heads)), o->block.kv_heads, heads, o->heads);
}

static void complete_sizes(th_language_model_options *o)
{
    th_transformer_block_options *b = &o->block;
    if (b->mlp_width == 0)
        b->mlp_width = 4 * o->width;
    if (b->kv_heads == 0)
        b->kv_heads = o->heads;
    if (b->head_width == 0)
        b->head_width = o->width / o->heads;
}

void th_family_complete(const th_family *family, th_language_model_options *o)
{
    th_transformer_block_options *b = &o->block;
    complete_sizes(o);
    if (b->norm == TH_RMS_NORM && b->no_attention_bias && b->no_mlp_bias)
        b->no_bias = true;
    if (b->scores.qk_norm || b->scores.qk_norm_whole)
        b->scores.qk_norm_eps = b->eps;
    if (family->scaled_embedding)
        o->embedding_scale = sqrt((double)o->width);
}

/* Dynamic scaling lengthens max_position_embeddings. All other kinds have done so. */
static void apply_dynamic_length(th_language_model_options *o, const th_rotary_scaling *scaling)
{
    const double longer =
        scaling->kind == TH_ROTARY_DYNAMIC ? floor((double)scaling->original_length * scaling->factor) : 0;
    if (longer > (double)o->length)
        o->length = longer > TH_CONFIG_MAX_SIZE ? TH_CONFIG_MAX_SIZE : (int64_t)longer;
}

/* Returns the family, or NULL with the error pending. */
static const th_family *find_family(const th_config *c)
{
    if (!json_is_object(c->object)) /* then it has no member either, but this error stays */
        th_config_refuse(c, "it is not a JSON %s", "object");
    if (!th_config_is_given(c, "model_type")) {
        th_config_refuse(c, "it has no \"%s\"", "model_type");
        return NULL;
    }
    char list[240], sentence[320];
    const char *type = th_config_string(c, "model_type", "");
    const th_family *family = th_family_find(type);
    if (family == NULL) {
        th_family_list(list, sizeof list);
        snprintf(sentence, sizeof sentence, "model type \"%%s\" is not supported; %s are", list);
        th_config_refuse(c, sentence, type);
    }
    return family;
}

/* Subtracts the positions before the first one from max_position_embeddings. */
static void subtract_first_position(const th_config *c, const th_family *family, th_language_model_options *o)
{
    if (o->length <= o->first_position)
        th_config_fail(c, "\"%s\" is %lld; it must be more than %lld, the position of the first token",
                       key_of_member(family, TH_MEMBER(length)), (long long)o->length, (long long)o->first_position);
    o->length -= o->first_position;
}

/* Whether config.json describes a model with a classifier. BertForPreTraining has further outputs, which are ignored. */
static bool has_classifier(const th_config *c, const th_family *family)
{
    const json_t *list = json_object_get(c->object, "architectures"), *entry;
    size_t i;
    if (family->encoder_architecture == NULL)
        return true;
    json_array_foreach (list, i, entry) {
        const char *name = json_is_string(entry) ? json_string_value(entry) : "";
        if (strcmp(name, family->architecture) == 0 || strcmp(name, "BertForPreTraining") == 0)
            return true;
        if (strcmp(name, family->encoder_architecture) == 0)
            return false;
    }
    return !family->options.bidirectional;
}

/* Returns the object that describes the text part of a model with pictures; otherwise NULL. */
static const json_t *text_part(const th_config *c)
{
    const char *type = json_string_value(json_object_get(c->object, "model_type"));
    return type && strcmp(type, "gemma3") == 0 ? th_config_object(c, "text_config") : NULL;
}

/* Reads the description of a language model. whole: the file, which may have its end tokens. */
static void read_model(const th_config *c, const th_config *whole, th_foreign_config *described)
{
    th_context *ctx = c->source.ctx;
    const th_family *family = find_family(c);
    if (family == NULL)
        return;
    if (th_config_is_given(c, "quantization_config"))
        th_config_refuse(c, "the weights are quantized (\"%s\")", "quantization_config");
    if (!th_config_flag(c, "is_causal", true))
        th_config_refuse(c, "\"%s\" is false", "is_causal");
    *described =
        (th_foreign_config){.family = family, .has_pictures = c->object != whole->object, .options = family->options};
    th_language_model_options *o = &described->options;
    th_fields_read(c, family, o);
    if (!th_failed(ctx))
        check_heads(c, family, o);
    if (!th_failed(ctx))
        subtract_first_position(c, family, o);
    if (th_failed(ctx))
        return;
    const bool has_head = th_head_read(c, family, o);
    th_head_read_dropout(c, family, described->head_dropout);
    o->no_classifier = !has_head && !has_classifier(c, family);
    if (has_head || o->no_classifier)
        o->untied = o->classifier_bias = o->classifier_transform = false;
    th_family_complete(family, o);
    th_layers_read(c, family, o);
    apply_dynamic_length(o, &o->block.scores.rotary_scaling);
    apply_dynamic_length(o, &o->other_scores.rotary_scaling);
    th_end_tokens_read(th_config_is_given(whole, "eos_token_id") ? whole : c, described);
}

static void read_config(const th_config *c, th_foreign_config *described)
{
    const json_t *text = text_part(c);
    if (text && th_config_is_given(c, "quantization_config"))
        th_config_refuse(c, "the weights are quantized (\"%s\")", "quantization_config");
    if (text && !th_config_flag(c, "tie_word_embeddings", true))
        th_config_refuse(c, "\"%s\" is false, which is not supported beside text_config", "tie_word_embeddings");
    read_model(&(th_config){c->source, text ? text : c->object}, c, described);
}

/* Reads an object. After an error *described is unchanged. */
static th_status read_object(const th_json_source *source, const json_t *object, th_foreign_config *described)
{
    th_foreign_config read = {0};
    read_config(&(th_config){*source, object}, &read);
    if (th_failed(source->ctx))
        th_foreign_config_release(source->ctx, &read);
    else
        *described = read;
    return th_error_code(source->ctx);
}

th_status th_foreign_config_read(th_context *ctx, const char *operation, const char *path, th_foreign_config *described)
{
    const th_json_source source = {ctx, operation, path};
    size_t bytes;
    json_t *object = th_json_read_file(&source, &th_config_limits, &bytes);
    if (object == NULL)
        return th_error_code(ctx);
    th_foreign_config read;
    th_status status = read_object(&source, object, &read);
    th_json_release(ctx, object, bytes);
    if (status != TH_OK)
        return status;
    status = th_described_check(ctx, operation, path, &read.options);
    if (status == TH_OK)
        *described = read;
    else
        th_foreign_config_release(ctx, &read);
    return status;
}

th_status th_foreign_config_parse(th_context *ctx, const char *operation, const char *name, const char *text,
                                  size_t bytes, th_foreign_config *described)
{
    const th_json_source source = {ctx, operation, name};
    json_t *object = th_json_read(&source, text, bytes, &th_config_limits);
    if (object == NULL)
        return th_error_code(ctx);
    const th_status status = read_object(&source, object, described);
    json_decref(object);
    return status;
}

void th_foreign_config_release(th_context *ctx, th_foreign_config *described)
{
    th_options_release(ctx, &described->options);
}
