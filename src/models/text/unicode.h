/* What tokenizers need to know of characters, by utf8proc. The reference library gives the same answers, with
 * any version of utf8proc: tables name the characters that differ. */
#ifndef TH_MODELS_TEXT_UNICODE_H
#define TH_MODELS_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TH_CATEGORIES = 30 };
/* Properties of characters, beside 1 << category for each category. */
#define TH_SPACE (UINT32_C(1) << 30) /* White_Space */
#define TH_HAN (UINT32_C(1) << 31)   /* the script Han */

typedef struct th_code_range {
    uint32_t first, last;
} th_code_range;

/* Whether one of the ranges contains a character. The ranges are sorted and disjoint. */
bool th_code_ranges_contain(const th_code_range *ranges, size_t count, uint32_t code);
/* Writes the lower case of a character, in at most two. Returns their number. */
int th_unicode_lower(uint32_t code, uint32_t lower[2]);
/* Returns the general category of a character in Unicode 16.0, from 0 to TH_CATEGORIES - 1. Of the characters that 15.0
 * to 16.0 added, marks have the same category, and so do signs of punctuation, and symbols. */
int th_unicode_category(uint32_t code);
/* Returns the sum of a character's properties: its category, and perhaps TH_SPACE and TH_HAN. */
uint32_t th_unicode_properties(uint32_t code);
/* Returns the sum of 1 << category for the categories with a name such as "L" or "Lu"; 0 if there is none. */
uint32_t th_unicode_categories(const char *name);
/* Whether a character is in White_Space. */
bool th_unicode_is_space(uint32_t code);
/* Whether a character belongs to words, as \w in the reference's expressions. */
bool th_unicode_is_word(uint32_t code);
/* Whether a character is a mark, such as an accent, in Unicode 9.0. */
bool th_unicode_is_mark(uint32_t code);
/* Whether normalization in Unicode 9.0 may change a character, reorder it, or combine it with another. */
bool th_unicode_may_normalize(uint32_t code);

/* Returns the beginning of the white space that ends at text[at - 1] and begins at `from` or later. */
size_t th_spaces_before(const char *text, size_t from, size_t at);
/* Returns the end of the white space that begins at text[at]. */
size_t th_spaces_after(const char *text, size_t bytes, size_t at);

#endif
