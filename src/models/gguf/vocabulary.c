/* Compares what a GGUF file says about its vocabulary. A file may have a tokenizer, a number of tokens and an
 * embedding, or only some of them. */
#include <string.h>

#include "models/gguf/options.h"

typedef struct sizes {
    const char *name; /* of what has the first size */
    int64_t size;     /* -1: none so far */
} sizes;

static bool compare_size(const th_gguf *file, sizes *s, const char *name, int64_t size)
{
    if (s->size < 0)
        *s = (sizes){name, size};
    return s->size == size || th_gguf_refuse(file, "%s has %lld tokens, but %s has %lld; they must be the same", name,
                                             (long long)size, s->name, (long long)s->size);
}

/* Writes the key of the number of tokens. Returns false if the file has no such key. */
static bool find_size_key(const th_gguf *file, char key[TH_GGUF_LONGEST_KEY])
{
    static const char end[] = "vocab_size";
    const th_gguf_value *name = th_gguf_find(file, "general.architecture");
    if (name == NULL || name->kind != TH_GGUF_STRING || name->count + sizeof end + 1 > TH_GGUF_LONGEST_KEY)
        return false;
    snprintf(key, TH_GGUF_LONGEST_KEY, "%.*s.%s", (int)name->count, name->bytes, end);
    return th_gguf_find(file, key) != NULL;
}

bool th_gguf_check_vocabulary(const th_gguf *file)
{
    static const char tokens_key[] = "tokenizer.ggml.tokens", embedding_name[] = "token_embd.weight";
    static const char *const ends[] = {TH_GGUF_BEGIN_TOKEN, TH_GGUF_END_TOKEN};
    char key[TH_GGUF_LONGEST_KEY];
    sizes s = {.size = -1};
    int64_t size = 0;
    const th_gguf_value *tokens = th_gguf_find(file, tokens_key);
    const th_gguf_tensor *embedding = th_gguf_find_tensor(file, embedding_name);
    if (embedding && embedding->shape.ndim == 2)
        (void)compare_size(file, &s, embedding_name, embedding->shape.size[0]);
    if (tokens && tokens->kind == TH_GGUF_ARRAY && !compare_size(file, &s, tokens_key, (int64_t)tokens->count))
        return false;
    if (find_size_key(file, key) &&
        (!th_gguf_integer(file, key, 1, INT32_MAX, &size) || !compare_size(file, &s, key, size)))
        return false;
    for (int i = 0; s.size > 0 && i < 2; i++)
        if (!th_gguf_integer(file, ends[i], 0, s.size - 1, &size))
            return false;
    return true;
}
