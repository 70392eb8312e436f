/* Days from 1969 to 2068, each as people write it and as ISO 8601 does. Nothing here is about Tapehead. */
#ifndef EXAMPLES_TRANSLATE_DATES_DATES_H
#define EXAMPLES_TRANSLATE_DATES_DATES_H

#include <stdbool.h>

#include "../chance.h"

enum { DATE_SIZE = 40, ISO_SIZE = 11 }; /* bytes that a text takes, with its final 0 */

/* A day by chance, in a form by chance: "Thursday, May 3rd 2001" and "2001-05-03". Every tenth day is held out: it is
 * drawn with held_out only, and with held_out no other. */
void draw_date(chance *c, bool held_out, char text[DATE_SIZE], char iso[ISO_SIZE]);

#endif
