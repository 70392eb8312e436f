/* Finds values and tensors of an open GGUF file, and converts values. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/gguf/file.h"

bool th_gguf_refuse(const th_gguf *file, const char *format, ...)
{
    char sentence[400] = "";
    va_list arguments;
    va_start(arguments, format);
    th_append_arguments(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    if (!th_failed(file->ctx))
        th_fail(file->ctx, TH_ERROR_FILE, file->operation, "%.300s: %s", file->path, sentence);
    return false;
}

static int compare_key(const void *key, const void *value)
{
    return strcmp(key, ((const th_gguf_value *)value)->key);
}

static int compare_name(const void *name, const void *tensor)
{
    return strcmp(name, ((const th_gguf_tensor *)tensor)->name);
}

const th_gguf_value *th_gguf_find(const th_gguf *file, const char *key)
{
    return bsearch(key, file->value, (size_t)file->n_values, sizeof *file->value, compare_key);
}

th_gguf_tensor *th_gguf_find_tensor(const th_gguf *file, const char *name)
{
    return bsearch(name, file->tensor, (size_t)file->n_tensors, sizeof *file->tensor, compare_name);
}

/* Sets *result to an integer value. Returns false for other values. */
static bool read_integer(const th_gguf_value *v, int64_t *result)
{
    uint64_t bits = 0;
    switch (v->kind) {
    case TH_GGUF_UINT8:
        *result = (uint8_t)v->bytes[0];
        return true;
    case TH_GGUF_INT8:
        *result = (int8_t)v->bytes[0];
        return true;
    case TH_GGUF_UINT16:
    case TH_GGUF_INT16:
        memcpy(&bits, v->bytes, 2);
        *result = v->kind == TH_GGUF_INT16 ? (int16_t)(uint16_t)bits : (int64_t)bits;
        return true;
    case TH_GGUF_UINT32:
    case TH_GGUF_INT32:
        memcpy(&bits, v->bytes, 4);
        *result = v->kind == TH_GGUF_INT32 ? (int32_t)(uint32_t)bits : (int64_t)bits;
        return true;
    case TH_GGUF_UINT64:
    case TH_GGUF_INT64:
        memcpy(&bits, v->bytes, 8);
        *result = (int64_t)bits;
        return v->kind == TH_GGUF_INT64 || bits <= INT64_MAX;
    default:
        return false;
    }
}

bool th_gguf_integer(const th_gguf *file, const char *key, int64_t low, int64_t high, int64_t *result)
{
    const th_gguf_value *v = th_gguf_find(file, key);
    int64_t value;
    if (v == NULL)
        return true;
    if (!read_integer(v, &value))
        return th_gguf_refuse(file, "\"%s\" is not an integer", key);
    if (value < low || value > high)
        return th_gguf_refuse(file, "\"%s\" is %lld; it must be in [%lld, %lld]", key, (long long)value, (long long)low,
                              (long long)high);
    *result = value;
    return true;
}

/* Returns the exponent of the first decimal digit of a positive number. */
static int decimal_exponent(double x)
{
    int exponent = 0;
    for (; x >= 10; x /= 10)
        exponent++;
    for (; x < 1; x *= 10)
        exponent--;
    return exponent;
}

/* Returns the number with the fewest decimal digits that rounds to this float32. */
static double shortest_decimal(float value)
{
    const double wanted = (double)value;
    if (!(fabs(wanted) > 1e-20 && fabs(wanted) < 1e20))
        return wanted;
    const int exponent = decimal_exponent(fabs(wanted));
    for (int digits = 1; digits <= 9; digits++) {
        const int shift = digits - 1 - exponent; /* at most 28; powers up to 22 are exact */
        double power = 1;
        for (int i = 0; i < abs(shift); i++)
            power *= 10;
        const double candidate = shift >= 0 ? nearbyint(wanted * power) / power : nearbyint(wanted / power) * power;
        if ((float)candidate == value)
            return candidate;
    }
    return wanted;
}

bool th_gguf_real(const th_gguf *file, const char *key, th_range range, double *result)
{
    const th_gguf_value *v = th_gguf_find(file, key);
    double value = 0;
    float single;
    int64_t integer;
    if (v == NULL)
        return true;
    if (v->kind == TH_GGUF_FLOAT32) {
        memcpy(&single, v->bytes, sizeof single);
        value = shortest_decimal(single);
    } else if (v->kind == TH_GGUF_FLOAT64) {
        memcpy(&value, v->bytes, sizeof value);
    } else if (read_integer(v, &integer)) {
        value = (double)integer;
    } else {
        return th_gguf_refuse(file, "\"%s\" is not a number", key);
    }
    if (value != 0 && !th_in_range(range, value))
        return th_gguf_refuse(file, "\"%s\" is %g; it must be in [%g, %g]", key, value, range.low, range.high);
    *result = value;
    return true;
}

bool th_gguf_flag(const th_gguf *file, const char *key, bool *result)
{
    const th_gguf_value *v = th_gguf_find(file, key);
    if (v == NULL)
        return true;
    if (v->kind != TH_GGUF_BOOL || (v->bytes[0] != 0 && v->bytes[0] != 1))
        return th_gguf_refuse(file, "\"%s\" is neither true nor false", key);
    *result = v->bytes[0] == 1;
    return true;
}

bool th_gguf_text(const th_gguf *file, const char *key, const char **text, size_t *bytes)
{
    const th_gguf_value *v = th_gguf_find(file, key);
    if (v == NULL)
        return true;
    if (v->kind != TH_GGUF_STRING)
        return th_gguf_refuse(file, "\"%s\" is not a string", key);
    *text = v->bytes;
    *bytes = (size_t)v->count;
    return true;
}

bool th_gguf_has_text(const th_gguf *file, const char *key, const char *text)
{
    const th_gguf_value *v = th_gguf_find(file, key);
    return v && v->kind == TH_GGUF_STRING && v->count == strlen(text) && memcmp(v->bytes, text, strlen(text)) == 0;
}

const th_gguf_value *th_gguf_array(const th_gguf *file, const char *key, th_gguf_kind item)
{
    const th_gguf_value *v = th_gguf_find(file, key);
    if (v == NULL)
        return NULL;
    if (v->kind == TH_GGUF_ARRAY && v->item == item)
        return v;
    th_gguf_refuse(file, "\"%s\" is not an array of %s", key,
                   item == TH_GGUF_STRING  ? "strings"
                   : item == TH_GGUF_INT32 ? "int32"
                   : item == TH_GGUF_INT8  ? "bytes"
                                           : "float32");
    return NULL;
}

const char *th_gguf_next_string(const char **at, size_t *bytes)
{
    uint64_t count;
    memcpy(&count, *at, sizeof count);
    const char *text = *at + sizeof count;
    *bytes = (size_t)count;
    *at = text + count;
    return text;
}
