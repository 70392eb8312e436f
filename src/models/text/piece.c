/* Replaces strings in pieces of texts: see piece.h. */
#include "models/text/piece.h"

#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/text/characters.h"

void th_replacement_release(th_replacement *r)
{
    th_pattern_free(r->pattern);
    free(r->string);
    free(r->content);
    *r = (th_replacement){0};
}

/* Finds the next match at `from` or later in text[0 .. bytes-1], which is UTF-8 if there is a pattern. */
static th_match find_next(const th_replacement *r, const char *text, size_t bytes, size_t from, size_t *begin,
                          size_t *end)
{
    if (r->pattern)
        return th_pattern_next(r->pattern, from, begin, end);
    const char *at = text + from;
    while ((size_t)(text + bytes - at) >= r->string_bytes &&
           (at = memchr(at, r->string[0], (size_t)(text + bytes - at) - r->string_bytes + 1))) {
        if (memcmp(at, r->string, r->string_bytes) == 0) {
            *begin = (size_t)(at - text);
            *end = *begin + r->string_bytes;
            return TH_MATCH;
        }
        at++;
    }
    return TH_NO_MATCH;
}

/* A replacement in progress. */
typedef struct replacing {
    const th_replacement *r;
    th_piece piece;
    th_text *out;
    size_t limit; /* of the output's length */
    size_t first; /* th_piece, of the output */
    enum { GOING_ON, NO_MEMORY, TOO_LONG } state;
} replacing;

/* Copies piece.text[begin .. end-1], or writes the content instead. */
static void write_part(replacing *p, size_t begin, size_t end, bool replaced)
{
    const size_t bytes = replaced ? p->r->content_bytes : end - begin;
    if (replaced && end <= p->piece.first)
        p->first += bytes;
    else if (!replaced && begin < p->piece.first)
        p->first += (end < p->piece.first ? end : p->piece.first) - begin;
    if (bytes > p->limit - p->out->count)
        p->state = TOO_LONG;
    else if (!th_text_append(p->out, replaced ? p->r->content : p->piece.text + begin, bytes))
        p->state = NO_MEMORY;
}

/* Replaces in piece.text[begin .. end-1]. */
static void append_replacement(replacing *p, size_t begin, size_t end)
{
    const char *text = p->piece.text + begin;
    size_t at = 0, match, after;
    if (p->r->pattern)
        th_pattern_begin(p->r->pattern, text, end - begin);
    while (p->state == GOING_ON && at < end - begin) {
        const th_match found = find_next(p->r, text, end - begin, at, &match, &after);
        if (found == TH_MATCH_NO_MEMORY)
            p->state = NO_MEMORY;
        if (found != TH_MATCH)
            break;
        write_part(p, begin + at, begin + match, false);
        if (p->state == GOING_ON)
            write_part(p, begin + match, begin + after, true);
        at = after;
    }
    if (p->state == GOING_ON)
        write_part(p, begin + at, end, false);
}

th_status th_replacement_refuse(th_context *ctx, const char *operation, size_t limit)
{
    return th_fail(ctx, TH_ERROR_VALUE, operation, "replacements would make the text longer than %zu bytes", limit);
}

th_status th_replacement_apply(const th_replacement *r, th_context *ctx, const char *operation, size_t limit,
                               th_piece piece, th_text *out, size_t *first)
{
    replacing p = {.r = r, .piece = piece, .limit = limit, .out = out};
    for (size_t at = 0; p.state == GOING_ON && at < piece.bytes; at++) {
        const size_t end = r->pattern ? at + th_valid_bytes(piece.text + at, piece.bytes - at) : piece.bytes;
        append_replacement(&p, at, end);
        at = end;
        if (p.state == GOING_ON && at < piece.bytes) /* a pattern needs UTF-8: other bytes are copied */
            write_part(&p, at, at + 1, false);
    }
    *first = p.first;
    if (p.state == TOO_LONG)
        return th_replacement_refuse(ctx, operation, limit);
    return p.state == NO_MEMORY ? th_fail_memory(ctx, operation, piece.bytes) : TH_OK;
}
