/* WordPiece (Schuster & Nakajima 2012, Devlin et al. 2018): a word becomes its longest beginning that is a token, then the
 * longest beginning of the rest, and so on. Tokens inside a word begin with a prefix, such as ##. */
#ifndef TH_MODELS_TEXT_WORD_PIECES_H
#define TH_MODELS_TEXT_WORD_PIECES_H

#include "models/text/merges.h"
#include "models/text/vocabulary.h"

enum { TH_MAX_PIECE_PREFIX = 16, TH_MAX_PIECE_CHARACTERS = 4096 };

typedef struct th_word_pieces {
    bool used; /* the model is WordPiece, not BPE */
    char prefix[TH_MAX_PIECE_PREFIX];
    size_t prefix_bytes;
    int64_t max_characters; /* a longer word is the unknown token */
    size_t longest;         /* token, in bytes */
} th_word_pieces;

/* What th_word_pieces_cut found. */
typedef enum th_pieces { TH_PIECES_FOUND, TH_PIECES_UNKNOWN, TH_PIECES_NO_MEMORY } th_pieces;

/* Writes the tokens of a word to memory->token and their number to *count. TH_PIECES_UNKNOWN: the word is too long, or
 * a part of it has no token. Takes at most characters times the longest token's bytes look-ups. */
th_pieces th_word_pieces_cut(const th_word_pieces *w, const th_vocabulary *v, th_word_memory *memory, const char *word,
                             size_t bytes, size_t *count);

#endif
