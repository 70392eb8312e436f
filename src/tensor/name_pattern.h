/* Patterns of names, as fnmatch(3) matches them in the C locale. */
#ifndef TH_TENSOR_NAME_PATTERN_H
#define TH_TENSOR_NAME_PATTERN_H

#include <stdbool.h>

/* Returns whether the pattern matches the whole name. In a pattern
 *
 *     *            any characters, or none
 *     ?            one character
 *     [a-z_]       one of these characters; [!a-z_] or [^a-z_] one of the others. A class such as [:digit:] may be among
 *                  them
 *     \            takes the meaning from the next character
 *
 * A [ without its ] is a character. */
bool th_name_matches(const char *pattern, const char *name);

#endif
