/* Days from 1969 to 2068, each in a random format and in ISO 8601. Independent of Tapehead. */
#ifndef EXAMPLES_TRANSLATE_DATES_DATES_H
#define EXAMPLES_TRANSLATE_DATES_DATES_H

#include <stdbool.h>

#include "../rng.h"

enum { DATE_SIZE = 40, ISO_SIZE = 11 }; /* bytes of a text, with its final 0 */

/* Draws a day and a format: "Thursday, May 3rd 2001" and "2001-05-03". Every tenth day is held out: held_out draws only
 * such days, otherwise only the others are drawn. */
void draw_date(rng *r, bool held_out, char text[DATE_SIZE], char iso[ISO_SIZE]);

#endif
