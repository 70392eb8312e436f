/* Cuts words into pieces: see word_pieces.h. */
#include "models/text/word_pieces.h"

#include <string.h>

#include "models/text/characters.h"
#include "models/text/grow.h"

/* Returns the longest token at text[begin] that ends behind *at, and sets *at to its end; -1: none. */
static int32_t longest_piece(const th_word_pieces *w, const th_vocabulary *v, const char *text, size_t begin,
                             size_t bytes, size_t *at)
{
    for (size_t end = bytes - begin > w->longest ? begin + w->longest : bytes; end > *at; end--) {
        if (end < bytes && ((unsigned char)text[end] & 0xc0) == 0x80) /* inside a character */
            continue;
        const int32_t token = th_vocabulary_find(v, text + begin, end - begin);
        if (token >= 0) {
            *at = end;
            return token;
        }
    }
    return -1;
}

static bool is_too_long(const th_word_pieces *w, const char *word, size_t bytes)
{
    int64_t characters = 0;
    for (size_t i = 0; i < bytes; i++)
        characters += ((unsigned char)word[i] & 0xc0) != 0x80;
    return characters > w->max_characters;
}

th_pieces th_word_pieces_cut(const th_word_pieces *w, const th_vocabulary *v, th_word_memory *memory, const char *word,
                             size_t bytes, size_t *count)
{
    *count = 0;
    if (is_too_long(w, word, bytes))
        return TH_PIECES_UNKNOWN;
    const size_t all = w->prefix_bytes + bytes;
    if (!TH_GROW(memory->token, memory->capacity, bytes) || !TH_GROW(memory->text, memory->text_capacity, all))
        return TH_PIECES_NO_MEMORY;
    char *text = memory->text; /* [all]: before each piece but the first, the prefix overwrites what was there */
    memcpy(text + w->prefix_bytes, word, bytes);
    for (size_t at = w->prefix_bytes; at < all;) {
        const size_t begin = at > w->prefix_bytes ? at - w->prefix_bytes : at;
        if (begin < at)
            memcpy(text + begin, w->prefix, w->prefix_bytes);
        const int32_t token = longest_piece(w, v, text, begin, all, &at);
        if (token < 0)
            return TH_PIECES_UNKNOWN;
        memory->token[(*count)++] = token;
    }
    return TH_PIECES_FOUND;
}
