/* Splits a text into words: see split.h. */
#include "models/text/split.h"

#include <string.h>

#include "models/core.h"

const char th_gpt2_pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

typedef struct cutting {
    const th_text_split *split;
    th_context *ctx;
    const char *operation;
    uint64_t *budget;
    th_word_sink sink;
} cutting;

void th_split_release(th_text_split *split)
{
    for (int i = 0; i < split->stages; i++)
        th_pattern_free(split->stage[i].pattern);
    *split = (th_text_split){0};
}

int th_character_length(const char *text, size_t bytes)
{
    unsigned char character[5] = {0};
    if (bytes >= 4)
        return th_utf8_length((const unsigned char *)text);
    memcpy(character, text, bytes);
    const int length = th_utf8_length(character);
    return (size_t)length <= bytes ? length : 0;
}

size_t th_valid_bytes(const char *text, size_t bytes)
{
    size_t at = 0;
    while (at < bytes) {
        uint64_t eight;
        while (bytes - at >= 8 && (memcpy(&eight, text + at, 8), (eight & 0x8080808080808080u) == 0))
            at += 8;
        const int length = at < bytes ? th_character_length(text + at, bytes - at) : 0;
        if (length == 0)
            break;
        at += (size_t)length;
    }
    return at;
}

static th_status cut(const cutting *c, int stage, const char *text, size_t bytes)
{
    if (stage == c->split->stages)
        return c->sink.take(c->sink.user, text, bytes);
    const th_split_keep keep = c->split->stage[stage].keep;
    size_t at = 0;
    while (at < bytes) {
        size_t begin = bytes, end = bytes;
        const th_match match =
            th_pattern_next(c->split->stage[stage].pattern, text, bytes, at, c->budget, &begin, &end);
        if (match == TH_MATCH_GAVE_UP)
            return th_fail(c->ctx, TH_ERROR_VALUE, c->operation,
                           "the pattern that splits the text takes too many steps");
        if (begin > at && keep != TH_KEEP_MATCHES && cut(c, stage + 1, text + at, begin - at))
            return th_error_code(c->ctx);
        if (end > begin && keep != TH_KEEP_GAPS && cut(c, stage + 1, text + begin, end - begin))
            return th_error_code(c->ctx);
        at = end;
    }
    return TH_OK;
}

th_status th_split_text(const th_text_split *split, th_context *ctx, const char *operation, const char *text,
                        size_t bytes, uint64_t *budget, th_word_sink sink)
{
    const cutting c = {split, ctx, operation, budget, sink};
    for (size_t at = 0; at < bytes; at++) { /* each run of valid UTF-8 is followed by an invalid byte */
        const size_t valid = th_valid_bytes(text + at, bytes - at);
        if (valid > 0 && cut(&c, 0, text + at, valid))
            return th_error_code(ctx);
        at += valid;
        if (at < bytes && sink.take(sink.user, text + at, 1))
            return th_error_code(ctx);
    }
    return TH_OK;
}
