/* Escapes text from files, paths and users for messages. A terminal interprets control characters, and some format
 * characters hide or reorder the text around them. They are written as \n, \u001b, \u202e, \U000e0041. Bytes that are
 * not UTF-8 are written as \xff. All other characters do not change. */
#ifndef TH_TENSOR_VISIBLE_H
#define TH_TENSOR_VISIBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "private_api.h"

/* Returns false for control characters (C0, DEL, C1), line and paragraph separators, controls of the text direction,
 * and characters without a visible form (Unicode's Default_Ignorable_Code_Point). */
bool th_is_visible(uint32_t code);

/* Appends text, escaped, to the string in memory of size bytes. Stops before the first character that does not fit. */
TH_PRIVATE_API void th_append_visible(char *string, size_t size, const char *text);

/* Writes text, escaped, into quoted: at most 60 bytes, then "..." if the text continues. Returns quoted. */
enum { TH_QUOTED = 68 };
TH_PRIVATE_API const char *th_quote(const char *text, char quoted[TH_QUOTED]);

#endif
