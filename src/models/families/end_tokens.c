/* Reads eos_token_id, the tokens that end a text, from config.json or generation_config.json. */
#include "models/families/config.h"
#include "models/families/family.h"
#include "models/families/fields.h"

/* Returns the token, or -1 if it is outside the vocabulary. A token outside is an error, except the family's
 * default. */
static int64_t token_in_vocabulary(const th_config *c, int64_t token, const th_foreign_config *described)
{
    const int64_t vocabulary = described->options.vocabulary;
    if (token >= 0 && token < vocabulary)
        return token;
    if (token != described->family->end_token)
        th_config_fail(c, "\"eos_token_id\" is %lld; it must be in [0, %lld], because the vocabulary has %lld tokens",
                       (long long)token, (long long)(vocabulary - 1), (long long)vocabulary);
    return -1;
}

/* Adds a token to the list, unless the token is -1 or is in the list already. */
static void add_end_token(const th_config *c, int64_t token, th_foreign_config *described)
{
    bool ignored = token < 0;
    for (int i = 0; i < described->n_end_tokens && !ignored; i++)
        ignored = described->end_tokens[i] == token;
    if (ignored)
        return;
    if (described->n_end_tokens == TH_MAX_END_TOKENS)
        th_config_fail(c, "\"eos_token_id\" has more than %d tokens", (int)TH_MAX_END_TOKENS);
    else
        described->end_tokens[described->n_end_tokens++] = token;
}

void th_end_tokens_read(const th_config *c, th_foreign_config *described)
{
    const json_t *value = json_object_get(c->object, "eos_token_id");
    const size_t count = json_is_array(value) ? json_array_size(value) : value && !json_is_null(value);
    described->end_token = value ? -1 : token_in_vocabulary(c, described->family->end_token, described);
    add_end_token(c, described->end_token, described);
    if (json_is_array(value) && count == 0)
        th_config_refuse(c, "\"%s\" is neither an integer nor a list of integers", "eos_token_id");
    for (size_t i = 0; i < count; i++) {
        const json_t *token = json_is_array(value) ? json_array_get(value, i) : value;
        if (!json_is_integer(token))
            th_config_refuse(c, "\"%s\" is neither an integer nor a list of integers", "eos_token_id");
        const int64_t id = token_in_vocabulary(c, json_integer_value(token), described);
        described->end_token = i == 0 ? id : described->end_token;
        add_end_token(c, id, described);
    }
}

void th_end_tokens_read_generation_config(th_context *ctx, const char *operation, const char *path,
                                          th_foreign_config *described)
{
    const th_json_source source = {ctx, operation, path};
    size_t bytes;
    json_t *object = th_json_read_file(&source, &th_config_limits, &bytes);
    const th_config c = {source, object};
    if (object && !json_is_object(object))
        th_config_refuse(&c, "it is not a JSON %s", "object");
    if (object && th_config_is_given(&c, "eos_token_id")) {
        described->n_end_tokens = 0;
        th_end_tokens_read(&c, described);
    }
    th_json_release(ctx, object, bytes);
}
