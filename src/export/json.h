/* Writes JSON that an HTML page may contain in a script element. The locale does not change numbers. */
#ifndef TH_EXPORT_JSON_H
#define TH_EXPORT_JSON_H

#include <stdio.h>

#include "tapehead/op.h"

/* Writes a string in quotes; NULL as null. Bytes that are not UTF-8 become U+FFFD. The characters <, > and & are
 * escaped, so that no string ends the script element. */
void th_put_json_string(FILE *file, const char *text);
/* Writes a finite number with all its digits; NaN and infinity as null. */
void th_put_json_number(FILE *file, double value);
/* Writes "true" or "false". */
void th_put_json_bool(FILE *file, bool value);
/* Writes a list of sizes. */
void th_put_json_sizes(FILE *file, int ndim, const int64_t *size);

/* Reduces a shape to at most `limit` elements, from its largest axes: the first elements along each axis remain. */
void th_crop_sizes(int ndim, int64_t *size, int64_t limit);
/* Writes an array as an object: the shape that is shown, the type, and the elements as base64. An array with more than
 * `limit` elements is cropped. bool is written as float32, and other types that are not floating as float64. */
void th_put_json_array(FILE *file, const th_array *array, int64_t limit);
/* As th_put_json_array for an array of bool, with 8 elements in each byte: the first one is bit 0. */
void th_put_json_bits(FILE *file, const th_array *array, int64_t limit);

#endif
