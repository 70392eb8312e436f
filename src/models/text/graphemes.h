/* Grapheme clusters (UAX 29): characters that are seen as one, such as a letter and its accents. */
#ifndef TH_MODELS_TEXT_GRAPHEMES_H
#define TH_MODELS_TEXT_GRAPHEMES_H

#include <stddef.h>

/* Returns the length of the cluster at the beginning of a text with at least one byte. A byte that is not valid UTF-8 is a
 * cluster. */
size_t th_grapheme_length(const char *text, size_t bytes);

#endif
