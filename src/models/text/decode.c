/* Converts tokens to text: to bytes in memory, or to whole characters in a stream. */
#include <string.h>

#include "models/text/grow.h"
#include "models/text/tokenizer.h"

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

void th_text_free(th_text *text)
{
    if (text == NULL)
        return;
    free(text->bytes);
    *text = (th_text){0};
}

static th_status check(const th_tokenizer *t, const char *operation, const int32_t *tokens, size_t count,
                       const void *target)
{
    if (!th_tokenizer_usable(t, operation))
        return t ? th_error_code(t->ctx) : TH_ERROR_ARGUMENT;
    if ((tokens == NULL && count > 0) || target == NULL)
        return th_fail(t->ctx, TH_ERROR_ARGUMENT, operation, "needs tokens and a destination for their text");
    for (size_t i = 0; i < count; i++)
        if (!th_vocabulary_has(&t->vocabulary, tokens[i]))
            return th_fail(t->ctx, TH_ERROR_INDEX, operation, "token %zu is %ld, outside 0 .. %zu", i, (long)tokens[i],
                           t->vocabulary.size - 1);
    return TH_OK;
}

th_status th_tokenizer_decode(const th_tokenizer *tokenizer, const int32_t *tokens, size_t count, th_text *text)
{
    static const char operation[] = "tokenizer_decode";
    if (check(tokenizer, operation, tokens, count, text))
        return tokenizer ? th_error_code(tokenizer->ctx) : TH_ERROR_ARGUMENT;
    const th_vocabulary *v = &tokenizer->vocabulary;
    size_t bytes = text->count;
    for (size_t i = 0; i < count; i++)
        bytes += v->entry[tokens[i]].bytes;
    if (!TH_GROW(text->bytes, text->capacity, bytes + 1))
        return th_fail_memory(tokenizer->ctx, operation, bytes + 1);
    for (size_t i = 0; i < count; i++) {
        const th_token_entry *e = &v->entry[tokens[i]];
        memcpy(text->bytes + text->count, v->pool + e->offset, e->bytes);
        text->count += e->bytes;
    }
    text->bytes[text->count] = 0;
    return TH_OK;
}

/* -- streams -- */

/* Whether an incomplete character may begin with these bytes. They are completed with up to three bytes, each the
 * greatest or the least possible. */
static bool is_beginning(const unsigned char *bytes, int count)
{
    char trial[8];
    for (int length = count + 1; length <= 4; length++)
        for (int fill = 0x80; fill <= 0xbf; fill += 0x3f) {
            memcpy(trial, bytes, (size_t)count);
            memset(trial + count, fill, (size_t)(length - count));
            if (th_character_length(trial, (size_t)length) == length)
                return true;
        }
    return false;
}

/* Writes the complete characters of the held bytes. Returns false if writing fails. */
static bool write_held(th_text_stream *s, FILE *file)
{
    while (s->count > 0) {
        const int length = th_character_length((const char *)s->held, (size_t)s->count);
        if (length == 0 && is_beginning(s->held, s->count))
            return true;
        /* the bytes before the last one, which began a character, become one U+FFFD */
        const int consumed = length > 0 ? length : s->count > 1 ? s->count - 1 : 1;
        const size_t bytes = length > 0 ? (size_t)length : sizeof replacement - 1;
        const bool good = fwrite(length > 0 ? (const char *)s->held : replacement, 1, bytes, file) == bytes;
        s->count -= consumed;
        memmove(s->held, s->held + consumed, (size_t)s->count);
        if (!good) /* the held bytes must not become more with each further call */
            return false;
    }
    return true;
}

static th_status written(const th_tokenizer *t, const char *operation, bool good, FILE *file)
{
    return good && fflush(file) == 0 ? TH_OK
                                     : th_fail(t->ctx, TH_ERROR_FILE, operation, "the text could not be written");
}

th_status th_tokenizer_write(const th_tokenizer *tokenizer, const int32_t *tokens, size_t count, th_text_stream *stream,
                             FILE *file)
{
    static const char operation[] = "tokenizer_write";
    if (check(tokenizer, operation, tokens, count, stream && file ? stream : NULL))
        return tokenizer ? th_error_code(tokenizer->ctx) : TH_ERROR_ARGUMENT;
    const th_vocabulary *v = &tokenizer->vocabulary;
    bool good = true;
    for (size_t i = 0; i < count; i++) {
        const th_token_entry *e = &v->entry[tokens[i]];
        for (size_t k = 0; good && k < e->bytes; k++) {
            stream->held[stream->count++] = (unsigned char)v->pool[e->offset + k];
            good = write_held(stream, file);
        }
    }
    return written(tokenizer, operation, good, file);
}

th_status th_tokenizer_write_end(const th_tokenizer *tokenizer, th_text_stream *stream, FILE *file)
{
    static const char operation[] = "tokenizer_write_end";
    if (check(tokenizer, operation, NULL, 0, stream && file ? stream : NULL))
        return tokenizer ? th_error_code(tokenizer->ctx) : TH_ERROR_ARGUMENT;
    const bool good =
        stream->count == 0 || fwrite(replacement, 1, sizeof replacement - 1, file) == sizeof replacement - 1;
    stream->count = 0;
    return written(tokenizer, operation, good, file);
}
