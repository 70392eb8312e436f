/* Sets of characters, as [..] in a regular expression names them: ranges and general categories of Unicode. */
#ifndef TH_MODELS_TEXT_CHARACTER_SET_H
#define TH_MODELS_TEXT_CHARACTER_SET_H

#include <stdbool.h>
#include <stdint.h>

enum { TH_MAX_SET_RANGES = 64 };

/* Initialize it with zeros: an empty set. Two sets that were made in the same way have the same bytes. */
typedef struct th_character_set {
    uint32_t categories; /* 1 << category (th_unicode_category) for each one that belongs to it */
    uint32_t ranges;
    struct {
        uint32_t first, last;
    } range[TH_MAX_SET_RANGES];
    uint32_t inverted; /* 1: it has all other characters */
} th_character_set;

/* Adds characters. Returns false if the set has too many ranges. */
bool th_character_set_add(th_character_set *s, uint32_t first, uint32_t last);
/* Adds White_Space. Returns false if the set has too many ranges. */
bool th_character_set_add_spaces(th_character_set *s);
/* Adds a general category, such as "L" or "Lu". Returns false if the name is unknown. */
bool th_character_set_add_category(th_character_set *s, const char *name);
/* Whether a set contains a character of this category. */
bool th_character_set_has(const th_character_set *s, uint32_t code, int category);

#endif
