/* Decodes single tokens: see decoder.h. */
#include "models/text/decoder.h"

#include <string.h>

#include "models/core/context.h"
#include "models/text/characters.h"

void th_decoder_release(th_decoder *d)
{
    for (int i = 0; i < d->steps; i++)
        th_replacement_release(&d->step[i].replace);
    *d = (th_decoder){0};
}

bool th_decoder_changes_tokens(const th_decoder *d)
{
    return d->steps > 0 || d->byte_fallback;
}

/* Whether text[at] begins with a character. */
static bool has_character_at(const char *text, size_t bytes, size_t at, const char *character)
{
    const size_t length = strlen(character);
    return bytes - at >= length && memcmp(text + at, character, length) == 0;
}

static bool strip_token(const th_decoder_step *s, th_piece token, th_text *out)
{
    const size_t length = strlen(s->character);
    size_t begin = 0, end = token.bytes;
    for (size_t i = 0; i < s->start && has_character_at(token.text, token.bytes, begin, s->character); i++)
        begin += length;
    for (size_t i = 0;
         i < s->stop && end >= begin + length && has_character_at(token.text, end, end - length, s->character); i++)
        end -= length;
    return th_text_append(out, token.text + begin, end - begin);
}

static bool write_spaces(const th_decoder_step *s, th_piece token, bool first, th_text *out)
{
    for (size_t at = 0; at < token.bytes;) {
        const bool space = has_character_at(token.text, token.bytes, at, s->character);
        if (!(space && first && s->drops) && !th_text_append(out, space ? " " : token.text + at, 1))
            return false;
        at += space ? strlen(s->character) : 1;
    }
    return true;
}

/* Tokens inside words lose the prefix, and others begin with a space, except the first token. */
static bool join_pieces(const th_decoder_step *s, th_piece token, bool first, th_text *out)
{
    const th_replacement *prefix = &s->replace;
    if (first)
        return th_text_append(out, token.text, token.bytes);
    const bool inside =
        token.bytes >= prefix->string_bytes && memcmp(token.text, prefix->string, prefix->string_bytes) == 0;
    const size_t begin = inside ? prefix->string_bytes : 0;
    return (inside || th_text_append(out, " ", 1)) && th_text_append(out, token.text + begin, token.bytes - begin);
}

static th_status apply_step(const th_decoder_step *s, th_context *ctx, const char *operation, th_piece token,
                            bool first, th_text *out)
{
    size_t unused;
    if (s->kind == TH_DECODE_REPLACE)
        return th_replacement_apply(&s->replace, ctx, operation, th_replacement_limit(token.bytes), token, out,
                                    &unused);
    return (s->kind == TH_DECODE_STRIP    ? strip_token(s, token, out)
            : s->kind == TH_DECODE_PIECES ? join_pieces(s, token, first, out)
                                          : write_spaces(s, token, first, out))
               ? TH_OK
               : th_fail_memory(ctx, operation, token.bytes);
}

static int hexadecimal_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* Returns the byte that a token such as <0xE2> stands for; -1 for another token. */
static int fallback_byte(const th_text *token)
{
    const char *c = token->bytes;
    if (token->count != 6 || memcmp(c, "<0x", 3) != 0 || c[5] != '>' || hexadecimal_digit(c[3]) < 0 ||
        hexadecimal_digit(c[4]) < 0)
        return -1;
    return 16 * hexadecimal_digit(c[3]) + hexadecimal_digit(c[4]);
}

th_status th_decoder_token(const th_decoder *d, th_context *ctx, const char *operation, const char *token, size_t bytes,
                           bool first, th_text *text)
{
    th_text spare = {0};
    text->count = 0;
    th_status status = th_text_append(text, token, bytes) ? TH_OK : th_fail_memory(ctx, operation, bytes);
    for (int i = 0; status == TH_OK && i < d->steps; i++) {
        const th_text before = *text;
        *text = spare;
        spare = before;
        text->count = 0;
        status =
            apply_step(&d->step[i], ctx, operation, (th_piece){.text = spare.bytes, .bytes = spare.count}, first, text);
        if (status == TH_OK && !th_text_append(text, "", 0))
            status = th_fail_memory(ctx, operation, bytes);
    }
    th_text_free(&spare);
    const int byte = status == TH_OK && d->byte_fallback ? fallback_byte(text) : -1;
    if (byte >= 0) {
        text->bytes[0] = (char)byte;
        text->count = 1;
    }
    return status;
}
