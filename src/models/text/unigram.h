/* Unigram (Kudo 2018): each token has a score, the logarithm of a probability. A word becomes the tokens with the greatest
 * sum of scores (Viterbi's algorithm over the lattice of all tokens in it). */
#ifndef TH_MODELS_TEXT_UNIGRAM_H
#define TH_MODELS_TEXT_UNIGRAM_H

#include "models/text/merges.h"
#include "models/text/token_trie.h"
#include "models/text/vocabulary.h"
#include "models/text/word_pieces.h"

/* The best way to a place in a word. */
typedef struct th_lattice_place {
    double score;
    uint32_t bytes; /* of the last token on the way */
    int32_t token;
} th_lattice_place;

#define TH_UNKNOWN_PENALTY 10.0 /* the least score minus this is the score of a character without a token */

typedef struct th_unigram {
    bool used;            /* the model is Unigram, not BPE */
    double *score;        /* [size]; -INFINITY: the token is not in the lattice */
    size_t size;          /* tokens of the model */
    double unknown_score; /* of a character without a token */
    th_token_trie trie;
    th_lattice_place *place; /* memory for the places of a word */
    size_t capacity;
} th_unigram;

/* Builds the trie of the tokens, which are all in the vocabulary. score: [v->size]; the model takes ownership.
 * Returns false if out of memory. */
bool th_unigram_build(th_unigram *u, const th_vocabulary *v, double *score, double unknown_score);
/* Releases the memory. */
void th_unigram_release(th_unigram *u);
/* Returns the memory that the context counts. */
size_t th_unigram_memory(const th_unigram *u);

/* Writes the tokens of a word to memory->token and their number to *count. Unknown characters in a row are one unknown
 * token, or, if fallback has tokens for all of their bytes, these tokens. TH_PIECES_UNKNOWN: the character at
 * word[*count] has no token, and `unknown` is -1. Of equal sums the one is taken whose last token is the longest, as in
 * the reference. */
th_pieces th_unigram_cut(th_unigram *u, const th_vocabulary *v, th_word_memory *memory, const char *word, size_t bytes,
                         int32_t unknown, const int32_t fallback[256], size_t *count);

/* Returns the number that the reference reads where a file has the shortest decimal form of `value`. The reference divides
 * the digits by a power of ten, and so rounds twice. */
double th_unigram_read_score(double value);
/* Returns the number that must be written with 17 digits for the reference to read `score`. */
double th_unigram_written_score(double score);

#endif
