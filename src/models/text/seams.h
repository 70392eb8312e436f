/* Places that no merge crosses. If the model works on characters, a piece of text can be a whole file. Cut at its
 * seams, it has the same tokens. The words are then short, and many occur again. */
#ifndef TH_MODELS_TEXT_SEAMS_H
#define TH_MODELS_TEXT_SEAMS_H

#include "models/text/merges.h"
#include "models/text/vocabulary.h"

/* A set of pairs of characters. It contains all pairs that some merged token has inside, and perhaps others. Between
 * the characters of any other pair, tokens never merge. */
typedef struct th_seams {
    uint64_t *bit; /* NULL: no seams are known */
    th_hash_key key;
} th_seams;

enum { TH_SEAM_BITS = 1 << 21 };

/* Finds the pairs of all merged tokens. Returns false if out of memory. */
bool th_seams_build(th_seams *s, const th_merges *m, const th_vocabulary *v);
/* Releases the memory. */
void th_seams_release(th_seams *s);

/* Returns the end of the word that begins at text[from]: the first seam, or the end of the text. Both characters at a
 * seam are tokens, so unknown text does not continue across it. */
size_t th_seams_next(const th_seams *s, const th_vocabulary *v, const char *text, size_t bytes, size_t from);

#endif
