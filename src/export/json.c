/* JSON for pages: see json.h. */
#include "export/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "export/base64.h"
#include "io/text_output.h"
#include "tensor/convert.h"
#include "tensor/decimal.h"
#include "tensor/strided_iterator.h"

void th_put_json_string(FILE *file, const char *text)
{
    if (text == NULL) {
        fputs("null", file);
        return;
    }
    fputc('"', file);
    while (*text) {
        char escaped[TH_JSON_ESCAPED_SIZE];
        if (*text == '<' || *text == '>' || *text == '&') {
            fprintf(file, "\\u%04x", (unsigned)*text++);
            continue;
        }
        text += th_json_escape(text, escaped);
        fputs(escaped, file);
    }
    fputc('"', file);
}

void th_put_json_number(FILE *file, double value)
{
    if (!isfinite(value)) {
        fputs("null", file);
        return;
    }
    const th_decimal d = th_decimal_scientific(value, false, -1);
    fprintf(file, "%s%s%s%se%s%s", d.negative ? "-" : "", d.whole, d.fraction[0] ? "." : "", d.fraction,
            d.exponent_negative ? "-" : "+", d.exponent[0] ? d.exponent : "0");
}

void th_put_json_bool(FILE *file, bool value)
{
    fputs(value ? "true" : "false", file);
}

void th_put_json_sizes(FILE *file, int ndim, const int64_t *size)
{
    fputc('[', file);
    for (int d = 0; d < ndim; d++)
        fprintf(file, "%s%" PRId64, d ? "," : "", size[d]);
    fputc(']', file);
}

/* -- elements -- */

/* Writes the bytes of a number, little endian. */
static void put_bits(th_base64 *b, uint64_t bits, size_t bytes)
{
    unsigned char byte[sizeof bits];
    for (size_t i = 0; i < bytes; i++)
        byte[i] = (unsigned char)(bits >> 8 * i & 255);
    th_base64_put(b, byte, bytes);
}

static void put_element(th_base64 *b, double value, bool single)
{
    if (single) {
        const float narrow = (float)value;
        uint32_t bits;
        memcpy(&bits, &narrow, sizeof bits);
        put_bits(b, bits, sizeof bits);
        return;
    }
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_bits(b, bits, sizeof bits);
}

/* -- arrays -- */

void th_crop_sizes(int ndim, int64_t *size, int64_t limit)
{
    limit = limit > 1 ? limit : 1;
    for (;;) {
        int largest = 0;
        int64_t others = 1;
        for (int d = 1; d < ndim; d++)
            largest = size[d] > size[largest] ? d : largest;
        for (int d = 0; d < ndim; d++) {
            if (size[d] == 0)
                return;
            if (d != largest)
                others = others > INT64_MAX / size[d] ? INT64_MAX : others * size[d];
        }
        if (ndim == 0 || size[largest] <= limit / others)
            return;
        const int64_t fits = limit / others;
        int64_t second = 1;
        for (int d = 0; d < ndim; d++)
            if (d != largest && size[d] > second)
                second = size[d];
        second = second < size[largest] ? second : (size[largest] + 1) / 2;
        size[largest] = fits > second ? fits : second;
    }
}

/* Writes the elements in row-major order: bits, float32 or float64. */
static void put_elements(FILE *file, const th_array *array, const char *type)
{
    const bool single = strcmp(type, "float32") == 0, bits = strcmp(type, "bits") == 0;
    unsigned char byte = 0;
    th_base64 b = {.file = file};
    th_iterator iterator;
    if (th_iterator_build_row_major(&iterator, array, 0, NULL)) {
        th_iterator_position position;
        th_iterator_seek(&iterator, 0, &position);
        for (int64_t i = 0; i < iterator.numel; i++, th_iterator_advance(&iterator, 1, &position)) {
            const double value = th_number_read(array->dtype, position.address[0]);
            byte = (unsigned char)((i % 8 ? byte : 0) | (value != 0) << i % 8);
            if (!bits)
                put_element(&b, value, single);
            else if (i % 8 == 7 || i == iterator.numel - 1)
                th_base64_put(&b, &byte, 1);
        }
    }
    th_base64_end(&b);
}

static void put_array(FILE *file, const th_array *array, int64_t limit, const char *type)
{
    th_array shown = *array;
    th_crop_sizes(shown.ndim, shown.size, limit);
    fputs("{\"shape\":", file);
    th_put_json_sizes(file, shown.ndim, shown.size);
    fprintf(file, ",\"type\":\"%s\",\"data\":\"", type);
    put_elements(file, &shown, type);
    fputs("\"}", file);
}

void th_put_json_array(FILE *file, const th_array *array, int64_t limit)
{
    const bool single = array->dtype == TH_FLOAT32 || array->dtype == TH_BOOL;
    put_array(file, array, limit, single ? "float32" : "float64");
}

void th_put_json_bits(FILE *file, const th_array *array, int64_t limit)
{
    put_array(file, array, limit, "bits");
}
