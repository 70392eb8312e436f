/* Writes the text of tokens up to the first stop string. th_tokenizer_write makes whole characters of the tokens. The
 * stream then holds back the longest end of the text that begins a stop string. */
#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/core/files.h"
#include "models/text/tokenizer.h"

static th_status check_stream(const th_tokenizer *t, const char *operation, const th_stop_stream *stream,
                              const FILE *file)
{
    if (!th_tokenizer_usable(t, operation))
        return t ? th_error_code(t->ctx) : TH_ERROR_ARGUMENT;
    if (stream == NULL || file == NULL || stream->count < 0 || (stream->count > 0 && stream->strings == NULL))
        return th_fail(t->ctx, TH_ERROR_ARGUMENT, operation, "needs a stream with its strings and a file");
    for (int i = 0; i < stream->count; i++) {
        const size_t length = stream->strings[i] ? strlen(stream->strings[i]) : 0;
        if (length == 0 || length >= sizeof stream->held)
            return th_fail(t->ctx, TH_ERROR_ARGUMENT, operation, "stop string %d has %zu bytes, outside 1 .. %zu", i,
                           length, sizeof stream->held - 1);
    }
    return TH_OK;
}

/* Returns the length of the longest stop string that the held text ends with, or 0. */
static int held_stop_length(const th_stop_stream *s)
{
    int longest = 0;
    for (int i = 0; i < s->count; i++) {
        const int length = (int)strlen(s->strings[i]);
        if (length > longest && length <= s->n_held &&
            memcmp(s->held + s->n_held - length, s->strings[i], (size_t)length) == 0)
            longest = length;
    }
    return longest;
}

/* Returns how many bytes at the end of the held text begin a stop string. */
static int held_beginning_length(const th_stop_stream *s)
{
    for (int count = s->n_held; count > 0; count--)
        for (int i = 0; i < s->count; i++)
            if ((size_t)count < strlen(s->strings[i]) &&
                memcmp(s->strings[i], s->held + s->n_held - count, (size_t)count) == 0)
                return count;
    return 0;
}

/* Writes all of the held text but the last `count` bytes. Returns false if writing fails. */
static bool write_all_but(th_stop_stream *s, int count, FILE *file)
{
    const size_t bytes = (size_t)(s->n_held - count);
    const bool succeeded = fwrite(s->held, 1, bytes, file) == bytes;
    memmove(s->held, s->held + bytes, (size_t)count);
    s->n_held = count;
    return succeeded;
}

/* Takes one byte of the text. */
static bool take_byte(th_stop_stream *s, char byte, FILE *file)
{
    s->held[s->n_held++] = byte;
    const int stop = held_stop_length(s);
    if (stop == 0)
        return write_all_but(s, held_beginning_length(s), file);
    const bool succeeded = write_all_but(s, stop, file);
    s->found = true;
    s->n_held = 0;
    return succeeded;
}

static th_status finish_writing(const th_tokenizer *t, const char *operation, bool succeeded, FILE *file)
{
    return succeeded && fflush(file) == 0 ? TH_OK
                                          : th_fail(t->ctx, TH_ERROR_FILE, operation, "the text could not be written");
}

/* Writes the text of tokens, or with end what the text stream still holds. */
static th_status write_text(const th_tokenizer *t, const char *operation, const int32_t *tokens, size_t count, bool end,
                            th_stop_stream *stream, FILE *file)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    if (memory == NULL)
        return th_fail_memory(t->ctx, operation, count);
    const th_status status = end ? th_tokenizer_write_end(t, &stream->text, memory)
                                 : th_tokenizer_write(t, tokens, count, &stream->text, memory);
    bool succeeded = true;
    if (fclose(memory) != 0 || text == NULL) { /* glibc's fclose may lose the text without memory, and return 0 */
        free(text);
        return th_fail_memory(t->ctx, operation, bytes);
    }
    for (size_t i = 0; i < bytes && succeeded && !stream->found; i++)
        succeeded = take_byte(stream, text[i], file);
    free(text);
    return status ? status : finish_writing(t, operation, succeeded, file);
}

th_status th_tokenizer_write_until(const th_tokenizer *tokenizer, const int32_t *tokens, size_t count,
                                   th_stop_stream *stream, FILE *file)
{
    static const char operation[] = "tokenizer_write_until";
    if (check_stream(tokenizer, operation, stream, file) != TH_OK)
        return tokenizer ? th_error_code(tokenizer->ctx) : TH_ERROR_ARGUMENT;
    return stream->found ? TH_OK : write_text(tokenizer, operation, tokens, count, false, stream, file);
}

th_status th_tokenizer_write_until_end(const th_tokenizer *tokenizer, th_stop_stream *stream, FILE *file)
{
    static const char operation[] = "tokenizer_write_until_end";
    if (check_stream(tokenizer, operation, stream, file) != TH_OK)
        return tokenizer ? th_error_code(tokenizer->ctx) : TH_ERROR_ARGUMENT;
    if (!stream->found && write_text(tokenizer, operation, NULL, 0, true, stream, file) != TH_OK)
        return th_error_code(tokenizer->ctx);
    return stream->found ? TH_OK : finish_writing(tokenizer, operation, write_all_but(stream, 0, file), file);
}
