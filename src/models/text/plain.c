/* Tokenizers without training: a token for each byte, or for each character of a text. Both are BPE without merges,
 * so the reference reads their files with the same meaning. */
#include <string.h>

#include "models/core/context.h"
#include "models/core/files.h"
#include "models/text/byte_alphabet.h"
#include "models/text/characters.h"
#include "models/text/tokenizer.h"

th_tokenizer *th_tokenizer_bytes_new(th_context *ctx)
{
    static const char operation[] = "tokenizer_bytes_new";
    th_tokenizer *t = th_tokenizer_make(ctx, operation);
    if (t == NULL)
        return NULL;
    bool made = th_tokenizer_set_own_parts(t, operation, th_byte_level_json(false), th_byte_level_json(false));
    for (int byte = 0; made && byte < 256; byte++) {
        char written[TH_BYTE_WRITTEN + 1];
        const size_t count = th_bytes_write(&(const char){(char)byte}, 1, written);
        made = th_tokenizer_add_model_token(t, written, count);
    }
    th_tokenizer_find_alphabet(t);
    return th_tokenizer_if_made(t, operation, made);
}

/* -- characters -- */

enum { CODE_POINTS = 0x110000 };

/* Marks the code points that occur in the text, with a bit for each. */
static void mark_characters(const char *text, size_t bytes, uint8_t *occurs)
{
    for (size_t at = 0; at < bytes;) {
        const int length = th_character_length(text + at, bytes - at);
        const uint32_t code = th_character_code(text + at, length);
        occurs[code / 8] |= (uint8_t)(1 << code % 8);
        at += (size_t)length;
    }
}

static bool add_characters(th_tokenizer *t, const uint8_t *occurs)
{
    char character[4];
    for (uint32_t code = 0; code < CODE_POINTS; code++)
        if (occurs[code / 8] >> code % 8 & 1 &&
            !th_tokenizer_add_model_token(t, character, th_utf8_write(code, character)))
            return false;
    th_tokenizer_find_alphabet(t);
    return true;
}

th_tokenizer *th_tokenizer_characters_new(th_context *ctx, const char *text, size_t bytes)
{
    static const char operation[] = "tokenizer_characters_new";
    if (!th_usable_context(ctx, operation))
        return NULL;
    if (text == NULL || bytes == 0) {
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the text is NULL or empty");
        return NULL;
    }
    const size_t valid = th_valid_bytes(text, bytes);
    if (valid < bytes || memchr(text, 0, bytes)) {
        if (valid < bytes)
            th_fail(ctx, TH_ERROR_VALUE, operation, "byte %zu of the text (0x%02x) is not UTF-8", valid,
                    (unsigned)(unsigned char)text[valid]);
        else
            th_fail(ctx, TH_ERROR_VALUE, operation, "byte %zu of the text is NUL, which tokenizer files cannot contain",
                    (size_t)((const char *)memchr(text, 0, bytes) - text));
        return NULL;
    }
    th_tokenizer *t = th_tokenizer_make(ctx, operation);
    if (t == NULL)
        return NULL;
    uint8_t *occurs = calloc(CODE_POINTS / 8, 1);
    if (occurs)
        mark_characters(text, bytes, occurs);
    const bool made = occurs &&
                      th_tokenizer_set_own_parts(t, operation, json_null(), json_pack("{s:s}", "type", "Fuse")) &&
                      add_characters(t, occurs);
    free(occurs);
    return th_tokenizer_if_made(t, operation, made);
}
