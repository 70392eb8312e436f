/* Sentences with a gap for "is" or "are", from a small grammar. Nothing here is about Tapehead. */
#ifndef EXAMPLES_CLASSIFY_SENTENCES_H
#define EXAMPLES_CLASSIFY_SENTENCES_H

#include <stdbool.h>

#include "../chance.h"

enum { WORDS = 40, SHORTEST = 5, LONGEST = 32 }; /* different words; tokens of a sentence */
enum { PAD };                                    /* the word that fills up */

extern const char *const spelling[WORDS];

typedef struct {
    int word[LONGEST]; /* [class] first */
    int length;
    int subject;         /* the place of the noun that decides */
    bool plural;         /* of the subject: it is "are" that is missing */
    bool nearest_plural; /* of the noun nearest to the gap: what who does not look would go by */
    unsigned checksum;   /* of the words */
} sentence;

/* A sentence of low to high tokens, long ones about as often as short ones; SHORTEST <= low < high <= LONGEST. One in
 * ten is held out: it is drawn with held_out only, and with held_out no other. */
sentence draw_sentence(chance *c, int low, int high, bool held_out);

#endif
