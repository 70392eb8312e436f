/* Sentences with a gap for "is" or "are", from a small grammar. Independent of Tapehead. */
#ifndef EXAMPLES_CLASSIFY_SENTENCES_H
#define EXAMPLES_CLASSIFY_SENTENCES_H

#include <stdbool.h>

#include "../rng.h"

enum { WORDS = 40, SHORTEST = 5, LONGEST = 32 }; /* the vocabulary; the numbers of tokens in a sentence */
enum { PAD };                                    /* padding */

extern const char *const spelling[WORDS];

typedef struct {
    int word[LONGEST]; /* [class] first */
    int length;
    int subject;         /* the position of the noun that decides */
    bool plural;         /* the subject is plural: "are" is missing */
    bool nearest_plural; /* the noun nearest to the gap is plural */
    unsigned checksum;   /* of the words */
} sentence;

/* Draws a sentence of low to high tokens, with lengths of about equal frequency; SHORTEST <= low < high <= LONGEST. One
 * sentence in ten is held out: held_out draws only such sentences, otherwise only the others are drawn. */
sentence draw_sentence(rng *r, int low, int high, bool held_out);

#endif
