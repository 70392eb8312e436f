/* Reads the tokens that end a text: eos_token_id of config.json or generation_config.json. */
#include "models/families/config.h"
#include "models/families/family.h"
#include "models/families/fields.h"

/* Returns the token if it is inside the vocabulary; -1 for the family's default, and with an error stored for others. */
static int64_t valid_token(const th_config *c, int64_t token, const th_foreign_config *read)
{
    const int64_t vocabulary = read->options.vocabulary;
    if (token >= 0 && token < vocabulary)
        return token;
    if (token != read->family->end_token)
        th_config_fail(c, "\"eos_token_id\" is %lld; it must be in [0, %lld], as the vocabulary has %lld tokens",
                       (long long)token, (long long)(vocabulary - 1), (long long)vocabulary);
    return -1;
}

/* Adds a token unless it is -1 or already there. */
static void add_end_token(const th_config *c, int64_t token, th_foreign_config *read)
{
    bool known = token < 0;
    for (int i = 0; i < read->n_end_tokens && !known; i++)
        known = read->end_tokens[i] == token;
    if (known)
        return;
    if (read->n_end_tokens == TH_MAX_END_TOKENS)
        th_config_refuse(c, "\"%s\" has more than 64 tokens", "eos_token_id");
    else
        read->end_tokens[read->n_end_tokens++] = token;
}

void th_end_tokens_read(const th_config *c, th_foreign_config *read)
{
    const json_t *value = json_object_get(c->object, "eos_token_id");
    const size_t count = json_is_array(value) ? json_array_size(value) : value && !json_is_null(value);
    read->end_token = value ? -1 : valid_token(c, read->family->end_token, read);
    add_end_token(c, read->end_token, read);
    if (json_is_array(value) && count == 0)
        th_config_refuse(c, "\"%s\" is neither an integer nor a list of integers", "eos_token_id");
    for (size_t i = 0; i < count; i++) {
        const json_t *token = json_is_array(value) ? json_array_get(value, i) : value;
        if (!json_is_integer(token))
            th_config_refuse(c, "\"%s\" is neither an integer nor a list of integers", "eos_token_id");
        const int64_t id = valid_token(c, json_integer_value(token), read);
        read->end_token = i == 0 ? id : read->end_token;
        add_end_token(c, id, read);
    }
}

void th_end_tokens_replace(th_context *ctx, const char *operation, const char *path, th_foreign_config *read)
{
    const th_json_source source = {ctx, operation, path};
    size_t memory;
    json_t *object = th_json_read_file(&source, &th_config_limits, &memory);
    const th_config c = {source, object};
    if (object && !json_is_object(object))
        th_config_refuse(&c, "it is not a JSON %s", "object");
    if (object && th_config_is_given(&c, "eos_token_id")) {
        read->n_end_tokens = 0;
        th_end_tokens_read(&c, read);
    }
    th_json_release(ctx, object, memory);
}
