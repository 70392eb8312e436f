/* Compares a tokenizer with config.json: see readers.h. */
#include "models/core/context.h"
#include "models/text/json/readers.h"

static int64_t added_from(const th_tokenizer *t, int64_t first)
{
    int64_t found = 0;
    for (size_t i = 0; i < t->added.all.count; i++)
        found += t->added.all.token[i].id >= first;
    return found;
}

bool th_tokenizer_check_size(const th_tokenizer *t, const char *operation, const char *path)
{
    const th_json_source source = {t->ctx, operation, path};
    const int64_t size = (int64_t)t->vocabulary.size;
    size_t memory;
    json_t *config = th_json_read_file(&source, &th_model_limits, &memory);
    const json_t *value = json_object_get(config, "vocab_size");
    const int64_t vocabulary = json_is_integer(value) ? json_integer_value(value) : size;
    if (config && size - added_from(t, vocabulary) > vocabulary)
        th_fail(t->ctx, TH_ERROR_FILE, operation,
                "%.300s: \"vocab_size\" is %lld, but the tokenizer has %lld tokens; it must be at least %lld", path,
                (long long)vocabulary, (long long)size, (long long)size);
    th_json_release(t->ctx, config, memory);
    return !th_failed(t->ctx);
}
