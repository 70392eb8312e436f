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
static void add(sentence *s, chance *c, int first, int choices)
{
    const int word = first + pick(c, choices);
    if (s->length < LONGEST)
        s->word[s->length] = word;
    s->length++;
    s->checksum = s->checksum * 31 + (unsigned)word;
}

/* Appends a noun phrase: "the old king", "the dog with the key", "the girl that saw the dogs", "the girl that the dogs
 * saw". Phrases nest. Returns the position of the first noun. */
static int add_noun_phrase(sentence *s, chance *c)
{
    if (s->length >= LONGEST) /* too long already */
        return 0;
    add(s, c, THE, 1);
    while (pick(c, 4) == 0)
        add(s, c, ADJECTIVE, KIND);
    const int noun = s->length, what = pick(c, 8);
    add(s, c, NOUN, WORDS - NOUN);
    if (what < 2)
        add(s, c, PREPOSITION, KIND);
    if (what == 2 || what == 3)
        add(s, c, THAT, 1);
    if (what == 2)
        add(s, c, VERB, KIND);
    if (what < 4)
        add_noun_phrase(s, c);
    if (what == 3)
        add(s, c, VERB, KIND);
    return noun;
}

/* Returns the position of the noun nearest to the gap; of two, the one before it. */
static int nearest_noun(const sentence *s)
{
    int gap = 0;
    while (s->word[gap] != GAP)
        gap++;
    for (int away = 1;; away++) {
        if (gap >= away && s->word[gap - away] >= NOUN)
            return gap - away;
        if (gap + away < s->length && s->word[gap + away] >= NOUN)
            return gap + away;
    }
}

sentence draw_sentence(chance *c, int low, int high, bool held_out)
{
    sentence s;
    const int shortest = low + pick(c, high - low); /* otherwise most sentences would be short */
    do {
        s = (sentence){.checksum = 0};
        add(&s, c, CLASS, 1);
        if (pick(c, 2)) {
            add(&s, c, PREPOSITION, KIND);
            add_noun_phrase(&s, c);
            add(&s, c, COMMA, 1);
        }
        const bool question = pick(c, 2);
        if (question)
            add(&s, c, GAP, 1);
        s.subject = add_noun_phrase(&s, c);
        if (!question)
            add(&s, c, GAP, 1);
        add(&s, c, COMPLEMENT, KIND);
        add(&s, c, question ? QUESTION : STOP, 1);
    } while (s.length < shortest || s.length > high || (s.checksum % 10 == 0) != held_out);
    s.plural = (s.word[s.subject] - NOUN) % 2;
    s.nearest_plural = (s.word[nearest_noun(&s)] - NOUN) % 2;
    return s;
}
