/* Reads the tokens that end a text: eos_token_id of config.json or generation_config.json. */
#include "models/families/config.h"
#include "models/families/family.h"
#include "models/families/fields.h"

/* Returns the token if it is inside the vocabulary, otherwise -1. Then stores an error, unless the token is the family's
 * default. */
static int64_t token_or_none(const th_config *c, int64_t token, const th_foreign_config *config)
{
    const int64_t vocabulary = config->options.vocabulary;
    if (token >= 0 && token < vocabulary)
        return token;
    if (token != config->family->end_token)
        th_config_fail(c, "\"eos_token_id\" is %lld; it must be in [0, %lld], as the vocabulary has %lld tokens",
                       (long long)token, (long long)(vocabulary - 1), (long long)vocabulary);
    return -1;
}

/* Adds a token unless it is -1 or already there. */
static void add_end_token(const th_config *c, int64_t token, th_foreign_config *config)
{
    bool skip = token < 0;
    for (int i = 0; i < config->n_end_tokens && !skip; i++)
        skip = config->end_tokens[i] == token;
    if (skip)
        return;
    if (config->n_end_tokens == TH_MAX_END_TOKENS)
        th_config_refuse(c, "\"%s\" has more than 64 tokens", "eos_token_id");
    else
        config->end_tokens[config->n_end_tokens++] = token;
}

void th_end_tokens_read(const th_config *c, th_foreign_config *config)
{
    const json_t *value = json_object_get(c->object, "eos_token_id");
    const size_t count = json_is_array(value) ? json_array_size(value) : value && !json_is_null(value);
    config->end_token = value ? -1 : token_or_none(c, config->family->end_token, config);
    add_end_token(c, config->end_token, config);
    if (json_is_array(value) && count == 0)
        th_config_refuse(c, "\"%s\" is neither an integer nor a list of integers", "eos_token_id");
    for (size_t i = 0; i < count; i++) {
        const json_t *token = json_is_array(value) ? json_array_get(value, i) : value;
        if (!json_is_integer(token))
            th_config_refuse(c, "\"%s\" is neither an integer nor a list of integers", "eos_token_id");
        const int64_t id = token_or_none(c, json_integer_value(token), config);
        config->end_token = i == 0 ? id : config->end_token;
        add_end_token(c, id, config);
    }
}

void th_end_tokens_read_generation_config(th_context *ctx, const char *operation, const char *path,
                                          th_foreign_config *config)
{
    const th_json_source source = {ctx, operation, path};
    size_t memory;
    json_t *object = th_json_read_file(&source, &th_config_limits, &memory);
    const th_config c = {source, object};
    if (object && !json_is_object(object))
        th_config_refuse(&c, "it is not a JSON %s", "object");
    if (object && th_config_is_given(&c, "eos_token_id")) {
        config->n_end_tokens = 0;
        th_end_tokens_read(&c, config);
    }
    th_json_release(ctx, object, memory);
}
