/* A small grammar. Prepositions, adjectives and verbs in the past are the same in singular and plural: only nouns
 * differ. */
#include "sentences.h"

enum { CLASS = 1, GAP, COMMA, QUESTION, STOP, THE, THAT, ADJECTIVE, PREPOSITION = 12, VERB = 16, COMPLEMENT = 20 };
enum { KIND = 4, NOUN = 24 }; /* words of each kind; nouns alternate between singular and plural */

const char *const spelling[WORDS] = {
    "",    "[class]", "___",   ",",     "?",    ".",     "the",   "that",   /* PAD to THAT */
    "old", "small",   "quiet", "brave", "near", "above", "with",  "behind", /* ADJECTIVE, PREPOSITION */
    "saw", "loved",   "found", "heard", "here", "lost",  "late",  "famous", /* VERB, COMPLEMENT */
    "dog", "dogs",    "girl",  "girls", "king", "kings", "queen", "queens", /* NOUN */
    "key", "keys",    "tree",  "trees", "song", "songs", "house", "houses",
};

/* Appends one of the `choices` words that begin with `first`. A word that does not fit is only counted. */
static void add_word(sentence *s, rng *r, int first, int choices)
{
    const int word = first + rng_below(r, choices);
    if (s->length < LONGEST)
        s->word[s->length] = word;
    s->length++;
    s->checksum = s->checksum * 31 + (unsigned)word;
}

/* Appends a noun phrase: "the old king", "the dog with the key", "the girl that saw the dogs", "the girl that the dogs
 * saw". Phrases nest. Returns the position of the first noun. */
static int add_noun_phrase(sentence *s, rng *r)
{
    if (s->length >= LONGEST) /* too long already */
        return 0;
    add_word(s, r, THE, 1);
    while (rng_below(r, 4) == 0)
        add_word(s, r, ADJECTIVE, KIND);
    const int noun = s->length, extension = rng_below(r, 8);
    add_word(s, r, NOUN, WORDS - NOUN);
    if (extension < 2)
        add_word(s, r, PREPOSITION, KIND);
    if (extension == 2 || extension == 3)
        add_word(s, r, THAT, 1);
    if (extension == 2)
        add_word(s, r, VERB, KIND);
    if (extension < 4)
        add_noun_phrase(s, r);
    if (extension == 3)
        add_word(s, r, VERB, KIND);
    return noun;
}

/* Returns the position of the noun nearest to the gap. If two are equally near, it is the noun before the gap. */
static int nearest_noun(const sentence *s)
{
    int gap = 0;
    while (s->word[gap] != GAP)
        gap++;
    for (int distance = 1;; distance++) {
        if (gap >= distance && s->word[gap - distance] >= NOUN)
            return gap - distance;
        if (gap + distance < s->length && s->word[gap + distance] >= NOUN)
            return gap + distance;
    }
}

sentence draw_sentence(rng *r, int low, int high, bool held_out)
{
    sentence s;
    const int shortest = low + rng_below(r, high - low); /* otherwise most sentences would be short */
    do {
        s = (sentence){.checksum = 0};
        add_word(&s, r, CLASS, 1);
        if (rng_below(r, 2)) {
            add_word(&s, r, PREPOSITION, KIND);
            add_noun_phrase(&s, r);
            add_word(&s, r, COMMA, 1);
        }
        const bool question = rng_below(r, 2);
        if (question)
            add_word(&s, r, GAP, 1);
        s.subject = add_noun_phrase(&s, r);
        if (!question)
            add_word(&s, r, GAP, 1);
        add_word(&s, r, COMPLEMENT, KIND);
        add_word(&s, r, question ? QUESTION : STOP, 1);
    } while (s.length < shortest || s.length > high || (s.checksum % 10 == 0) != held_out);
    s.plural = (s.word[s.subject] - NOUN) % 2;
    s.nearest_plural = (s.word[nearest_noun(&s)] - NOUN) % 2;
    return s;
}
