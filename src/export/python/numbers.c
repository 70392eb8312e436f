/* Numbers and text of the script. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "export/base64.h"
#include "export/python/script.h"
#include "io/text_output.h"
#include "tensor/convert.h"
#include "tensor/decimal.h"
#include "tensor/strided_iterator.h"

enum {
    READABLE = 64,   /* numbers of a tensor that is written in decimal; larger ones are in base64 */
    LINE_BYTES = 84, /* of a line of base64: 112 characters */
};

void th_script_put_integers(FILE *file, int n, const int64_t *number)
{
    fputc('(', file);
    for (int i = 0; i < n; i++)
        fprintf(file, "%s%" PRId64, i ? ", " : "", number[i]);
    fputs(n == 1 ? ",)" : ")", file);
}

/* Writes a finite number with the fewest digits that tell it from all others of its type. */
static void put_decimal(FILE *file, double number, bool single)
{
    const double size = fabs(number);
    const bool positional = size == 0 || (size >= 1e-4 && size < 1e16);
    const th_decimal d =
        positional ? th_decimal_positional(number, single, -1) : th_decimal_scientific(number, single, -1);
    fprintf(file, "%s%s%s%s", d.negative ? "-" : "", d.whole, d.fraction[0] ? "." : "", d.fraction);
    if (d.exponent[0])
        fprintf(file, "e%s%s", d.exponent_negative ? "-" : "", d.exponent);
}

void th_script_put_double(FILE *file, double number)
{
    if (isinf(number))
        fputs(number > 0 ? "math.inf" : "-math.inf", file);
    else
        put_decimal(file, number, false);
}

void th_script_put_text(FILE *file, const char *text)
{
    char escaped[TH_JSON_ESCAPED_SIZE];
    while (*text) {
        text += th_json_escape(text, escaped);
        fputs(escaped, file);
    }
}

static void put_element(FILE *file, th_dtype dtype, const char *at)
{
    const double number = th_number_read(dtype, at);
    if (!th_is_floating(dtype))
        fprintf(file, "%" PRId64, th_integer_read(dtype, at));
    else if (isfinite(number))
        put_decimal(file, number, dtype == TH_FLOAT32);
    else
        fputs(isnan(number) ? "nan" : number > 0 ? "inf" : "-inf", file);
}

/* -- entries -- */

void th_script_put_entry(FILE *file, const char *key, const th_array *array)
{
    const int64_t numel = th_array_numel(array);
    const bool readable = numel <= READABLE;
    fprintf(file, "    \"%s\": (\"%s\", ", key, th_dtype_name(array->dtype));
    th_script_put_integers(file, array->ndim, array->size);
    fputs(readable ? ", \"" : ", b64decode(\"\"\"\n", file);
    th_iterator iterator;
    th_iterator_position position;
    th_base64 b = {.file = file, .line_bytes = LINE_BYTES};
    if (th_iterator_build_row_major(&iterator, array, 0, NULL)) {
        th_iterator_seek(&iterator, 0, &position);
        for (int64_t i = 0; i < numel; i++, th_iterator_advance(&iterator, 1, &position)) {
            if (!readable) {
                th_base64_put(&b, position.address[0], th_dtype_size(array->dtype));
                continue;
            }
            fputs(i ? " " : "", file);
            put_element(file, array->dtype, position.address[0]);
        }
    }
    th_base64_end(&b);
    fputs(readable ? "\"),\n" : "\"\"\")),\n", file);
}
