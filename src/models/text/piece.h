/* Pieces of a text, and the replacement of strings in them. */
#ifndef TH_MODELS_TEXT_PIECE_H
#define TH_MODELS_TEXT_PIECE_H

#include "models/text/pattern/pattern.h"
#include "tapehead/tokenizer.h"

/* A part of a text, perhaps normalized. `first` is the number of its first bytes that the reference library assigns to
 * the first character of the whole text: Metaspace's prepend_scheme "first" depends on it. */
typedef struct th_piece {
    const char *text;
    size_t bytes;
    size_t first;
    bool continues; /* it continues the piece before, after a byte that is not valid UTF-8 */
} th_piece;

/* Returns text[begin .. end-1] of a piece. */
static inline th_piece th_piece_of(th_piece whole, size_t begin, size_t end)
{
    return (th_piece){
        .text = whole.text + begin,
        .bytes = end - begin,
        .first = whole.first > begin ? whole.first - begin : 0,
        .continues = begin == 0 && whole.continues,
    };
}

/* Replaces what matches a pattern, or else a string. */
typedef struct th_replacement {
    th_pattern *pattern;
    char *string, *content; /* owned */
    size_t string_bytes, content_bytes;
} th_replacement;

/* Returns the length that replacements may give a text. */
static inline size_t th_replacement_limit(size_t bytes)
{
    return bytes < SIZE_MAX / 128 ? 64 * bytes + 65536 : bytes;
}
/* Appends the piece, with everything replaced, and sets *first (th_piece). TH_ERROR_VALUE if `out` would be
 * longer than the limit. */
th_status th_replacement_apply(const th_replacement *r, th_context *ctx, const char *operation, size_t limit,
                               th_piece piece, th_text *out, size_t *first);
/* Sets the error of a text that would be longer than the limit. */
th_status th_replacement_refuse(th_context *ctx, const char *operation, size_t limit);
/* Releases the memory. */
void th_replacement_release(th_replacement *r);

#endif
