/* A map of short strings to strings that replace them, as SentencePiece compiles it from rules such as NFKC: a double
 * array (Darts), and the replacements. */
#ifndef TH_MODELS_TEXT_CHARACTER_MAP_H
#define TH_MODELS_TEXT_CHARACTER_MAP_H

#include "models/text/piece.h"

typedef struct th_character_map {
    uint32_t *unit; /* [units] */
    size_t units;
    char *text; /* [text_bytes]: replacements, each followed by a NUL */
    size_t text_bytes;
    /* The longest string at each place is replaced, as in llama.cpp. Otherwise as in the reference library: it looks at
     * grapheme clusters of less than 6 bytes, and replaces one by what the shortest string at its beginning becomes;
     * or else each of its characters alone. */
    bool longest;
} th_character_map;

/* Reads a compiled map: the size of the array as uint32, the array, the replacements. Returns NULL with *reason if the
 * bytes are damaged; *reason is NULL if out of memory. */
th_character_map *th_character_map_new(const unsigned char *compiled, size_t bytes, const char **reason);
/* Frees it; NULL is allowed. */
void th_character_map_free(th_character_map *m);
/* Appends the piece, with all replaced, and sets *first (th_piece). TH_ERROR_VALUE if `out` would be longer than the
 * limit. A byte that is not valid UTF-8 is copied, or becomes U+FFFD if the map is `longest`. */
th_status th_character_map_apply(const th_character_map *m, th_context *ctx, const char *operation, size_t limit,
                                 th_piece piece, th_text *out, size_t *first);

#endif
