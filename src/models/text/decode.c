/* Converts tokens to text: to bytes in memory, or to whole characters in a stream. */
#include <string.h>

#include "models/core/context.h"
#include "models/text/characters.h"
#include "models/text/grow.h"
#include "models/text/tokenizer.h"

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

static th_status check_tokens(const th_tokenizer *t, const char *operation, const int32_t *tokens, size_t count,
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

/* Sets *text to the text of a token. `first` is memory for the text of a first token that differs. */
static th_status token_text(const th_tokenizer *t, const char *operation, int32_t token, bool is_first, th_text *first,
                            const char **text, size_t *bytes)
{
    const th_token_entry *e = &t->vocabulary.entry[token];
    *text = th_vocabulary_text(&t->vocabulary, token);
    *bytes = e->text_bytes;
    if (!is_first || !t->decoder.first_differs)
        return TH_OK;
    const th_added_token *added = th_added_tokens_normalized(&t->added, token);
    const char *file_form = added ? added->content : th_vocabulary_bytes(&t->vocabulary, token);
    if (th_decoder_token(&t->decoder, t->ctx, operation, file_form, added ? added->bytes : e->bytes, true, first))
        return th_error_code(t->ctx);
    *text = first->bytes;
    *bytes = first->count;
    return TH_OK;
}

/* Removes from text[from ..] what the decoder removes from the beginning of a text. */
static void strip_start(const th_decoder *d, th_text *text, size_t from)
{
    const size_t length = strlen(d->start);
    size_t end = from;
    for (size_t i = 0;
         i < d->start_count && text->count - end >= length && memcmp(text->bytes + end, d->start, length) == 0; i++)
        end += length;
    memmove(text->bytes + from, text->bytes + end, text->count - end);
    text->count -= end - from;
}

th_status th_tokenizer_decode(const th_tokenizer *tokenizer, const int32_t *tokens, size_t count, th_text *text)
{
    static const char operation[] = "tokenizer_decode";
    if (check_tokens(tokenizer, operation, tokens, count, text))
        return tokenizer ? th_error_code(tokenizer->ctx) : TH_ERROR_ARGUMENT;
    const size_t before = text->count;
    size_t total = before;
    for (size_t i = 0; i < count; i++)
        total += tokenizer->vocabulary.entry[tokens[i]].text_bytes;
    if (!TH_GROW(text->bytes, text->capacity, total + 1))
        return th_fail_memory(tokenizer->ctx, operation, total + 1);
    th_text first = {0};
    for (size_t i = 0; i < count && !th_failed(tokenizer->ctx); i++) {
        const char *bytes;
        size_t n;
        if (token_text(tokenizer, operation, tokens[i], i == 0, &first, &bytes, &n) == TH_OK &&
            !th_text_append(text, bytes, n))
            th_fail_memory(tokenizer->ctx, operation, n);
    }
    th_text_free(&first);
    if (th_failed(tokenizer->ctx))
        text->count = before;
    else
        strip_start(&tokenizer->decoder, text, before);
    text->bytes[text->count] = 0;
    return th_error_code(tokenizer->ctx);
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

/* Whether the decoder removes the character held[0 .. length-1], because it is at the beginning of the text. */
static bool strips_character(const th_decoder *d, th_text_stream *s, int length)
{
    const bool stripped = s->stripped >= 0 && (size_t)s->stripped < d->start_count &&
                          strlen(d->start) == (size_t)length && memcmp(s->held, d->start, (size_t)length) == 0;
    s->stripped = stripped ? s->stripped + 1 : -1;
    return stripped;
}

/* Writes the complete characters of the held bytes. Returns false if writing fails. */
static bool write_held(const th_decoder *d, th_text_stream *s, FILE *file)
{
    while (s->count > 0) {
        const int length = th_character_length((const char *)s->held, (size_t)s->count);
        if (length == 0 && is_beginning(s->held, s->count))
            return true;
        /* the bytes before the last one, which began a character, become one U+FFFD */
        const int consumed = length > 0 ? length : s->count > 1 ? s->count - 1 : 1;
        const size_t bytes = length > 0 ? (size_t)length : sizeof replacement - 1;
        const bool succeeded = strips_character(d, s, length) ||
                               fwrite(length > 0 ? (const char *)s->held : replacement, 1, bytes, file) == bytes;
        s->count -= consumed;
        memmove(s->held, s->held + consumed, (size_t)s->count);
        if (!succeeded) /* the held bytes must not become more with each further call */
            return false;
    }
    return true;
}

static th_status finish_writing(const th_tokenizer *t, const char *operation, bool succeeded, FILE *file)
{
    return succeeded && fflush(file) == 0 ? TH_OK
                                          : th_fail(t->ctx, TH_ERROR_FILE, operation, "the text could not be written");
}

th_status th_tokenizer_write(const th_tokenizer *tokenizer, const int32_t *tokens, size_t count, th_text_stream *stream,
                             FILE *file)
{
    static const char operation[] = "tokenizer_write";
    if (check_tokens(tokenizer, operation, tokens, count, stream && file ? stream : NULL))
        return tokenizer ? th_error_code(tokenizer->ctx) : TH_ERROR_ARGUMENT;
    th_text first = {0};
    bool succeeded = true;
    for (size_t i = 0; i < count; i++) {
        const char *text;
        size_t bytes;
        if (token_text(tokenizer, operation, tokens[i], !stream->begun, &first, &text, &bytes))
            break;
        stream->begun = true;
        for (size_t k = 0; succeeded && k < bytes; k++) {
            stream->held[stream->count++] = (unsigned char)text[k];
            succeeded = write_held(&tokenizer->decoder, stream, file);
        }
    }
    th_text_free(&first);
    return th_failed(tokenizer->ctx) ? th_error_code(tokenizer->ctx)
                                     : finish_writing(tokenizer, operation, succeeded, file);
}

th_status th_tokenizer_write_end(const th_tokenizer *tokenizer, th_text_stream *stream, FILE *file)
{
    static const char operation[] = "tokenizer_write_end";
    if (check_tokens(tokenizer, operation, NULL, 0, stream && file ? stream : NULL))
        return tokenizer ? th_error_code(tokenizer->ctx) : TH_ERROR_ARGUMENT;
    const bool succeeded =
        stream->count == 0 || fwrite(replacement, 1, sizeof replacement - 1, file) == sizeof replacement - 1;
    stream->count = 0;
    return finish_writing(tokenizer, operation, succeeded, file);
}
