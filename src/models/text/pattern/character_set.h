/* Sets of characters, as [..] in a regular expression names them: ranges and properties of Unicode. */
#ifndef TH_MODELS_TEXT_PATTERN_CHARACTER_SET_H
#define TH_MODELS_TEXT_PATTERN_CHARACTER_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct th_character_range {
    uint32_t first, last;
} th_character_range;

typedef struct th_character_set {
    uint32_t properties;  /* characters with one of them belong to it (th_unicode_properties) */
    size_t first, ranges; /* so do those of range[first .. first + ranges - 1] of all sets */
    bool inverted;        /* it has all other characters instead */
} th_character_set;

/* The sets of an expression, each once. Initialize it with zeros. */
typedef struct th_character_sets {
    th_character_set *set; /* [sets] */
    size_t sets, set_capacity;
    th_character_range *range; /* [ranges] */
    size_t ranges, range_capacity;
} th_character_sets;

/* Returns an empty set, which is not among the sets yet. Only one such set may exist at a time. */
static inline th_character_set th_character_set_begin(const th_character_sets *s)
{
    return (th_character_set){.first = s->ranges};
}
/* Adds characters to such a set. Returns false if out of memory. */
bool th_character_set_add(th_character_sets *s, th_character_set *set, uint32_t first, uint32_t last);
/* Adds such a set to the sets, unless they have it, and sets *index. Returns false if out of memory. */
bool th_character_sets_add(th_character_sets *s, const th_character_set *set, int *index);
/* Whether a range of set i has a character. */
bool th_character_sets_have_range(const th_character_sets *s, size_t i, uint32_t code);
/* Whether set i has a character with these properties. */
bool th_character_sets_have(const th_character_sets *s, size_t i, uint32_t code, uint32_t properties);
/* Returns the memory of sets. */
size_t th_character_sets_memory(const th_character_sets *s);
/* Releases the memory. */
void th_character_sets_release(th_character_sets *s);

#endif
