/* Writes the members of a JSON object, one on each line. Keys and texts need no escapes: they are constants of this
 * library. */
#ifndef TH_MODELS_FAMILIES_WRITER_H
#define TH_MODELS_FAMILIES_WRITER_H

#include "tapehead/base.h"

typedef struct th_writer {
    FILE *file;
    bool begun;
} th_writer;

/* Writes "key": and the text before it. */
void th_put_key(th_writer *w, const char *key);
void th_put_text(th_writer *w, const char *key, const char *text);
void th_put_integer(th_writer *w, const char *key, int64_t value);
void th_put_flag(th_writer *w, const char *key, bool value);
void th_put_null(th_writer *w, const char *key);
/* Writes the fewest digits that read back as the same number, with a point, so that it is not an integer. */
void th_put_number(th_writer *w, const char *key, double value);
/* Writes a string without a key, with escapes. */
void th_put_string(th_writer *w, const char *text);
/* Writes a number without a key. */
void th_put_value(th_writer *w, double value);

#endif
