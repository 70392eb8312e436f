/* Conversion between element types, in two steps: to double or int64_t, the widest type of its kind, and from there
 * to the other type. No value is rounded twice. The functions are generated from the list of types. */
#include "tensor/convert.h"

#include <math.h>

#include "tensor/tensor.h"

enum { CHUNK = 512 };

/* The smallest positive doubles that int32 and int64 cannot hold. */
static const double int32_end = 0x1p31, int64_end = 0x1p63;

/* -- double to each type, defined for every value -- */

static float real_to_TH_FLOAT32(double value)
{
    return (float)value;
}

static double real_to_TH_FLOAT64(double value)
{
    return value;
}

static int32_t real_to_TH_INT32(double value)
{
    return value >= int32_end ? INT32_MAX : value <= -int32_end ? INT32_MIN : isnan(value) ? 0 : (int32_t)value;
}

static int64_t real_to_TH_INT64(double value)
{
    return value >= int64_end ? INT64_MAX : value <= -int64_end ? INT64_MIN : isnan(value) ? 0 : (int64_t)value;
}

static bool real_to_TH_BOOL(double value)
{
    return value != 0;
}

/* -- each type to double or int64_t, and back -- */

#define CONVERTERS(dtype, text, type)                                                                                  \
    static void load_real_##dtype(int64_t n, const void *from, double *values)                                         \
    {                                                                                                                  \
        const type *x = from;                                                                                          \
        for (int64_t i = 0; i < n; i++)                                                                                \
            values[i] = (double)x[i];                                                                                  \
    }                                                                                                                  \
    static void load_whole_##dtype(int64_t n, const void *from, int64_t *values)                                       \
    {                                                                                                                  \
        const type *x = from;                                                                                          \
        for (int64_t i = 0; i < n; i++)                                                                                \
            values[i] = (int64_t)x[i];                                                                                 \
    }                                                                                                                  \
    static void store_real_##dtype(int64_t n, void *to, const double *values)                                          \
    {                                                                                                                  \
        type *y = to;                                                                                                  \
        for (int64_t i = 0; i < n; i++)                                                                                \
            y[i] = real_to_##dtype(values[i]);                                                                         \
    }                                                                                                                  \
    static void store_whole_##dtype(int64_t n, void *to, const int64_t *values)                                        \
    {                                                                                                                  \
        type *y = to;                                                                                                  \
        for (int64_t i = 0; i < n; i++)                                                                                \
            y[i] = (type)values[i];                                                                                    \
    }
TH_DTYPES(CONVERTERS)

#define ROW(dtype, text, type)                                                                                         \
    [dtype] = {load_real_##dtype, load_whole_##dtype, store_real_##dtype, store_whole_##dtype},

static const struct {
    void (*load_real)(int64_t n, const void *from, double *values);
    void (*load_integer)(int64_t n, const void *from, int64_t *values); /* integer types and bool only */
    void (*store_real)(int64_t n, void *to, const double *values);
    void (*store_integer)(int64_t n, void *to, const int64_t *values);
} converter[] = {TH_DTYPES(ROW)};

void th_convert_elements(int64_t n, th_dtype to_type, void *to, th_dtype from_type, const void *from)
{
    const size_t to_size = th_dtype_size(to_type), from_size = th_dtype_size(from_type);
    for (int64_t done = 0; done < n; done += CHUNK) {
        const int64_t count = n - done < CHUNK ? n - done : CHUNK;
        const char *source = (const char *)from + (size_t)done * from_size;
        char *destination = (char *)to + (size_t)done * to_size;
        if (th_is_floating(from_type)) {
            double values[CHUNK];
            converter[from_type].load_real(count, source, values);
            converter[to_type].store_real(count, destination, values);
        } else {
            int64_t values[CHUNK];
            converter[from_type].load_integer(count, source, values);
            converter[to_type].store_integer(count, destination, values);
        }
    }
}

double th_number_read(th_dtype dtype, const void *from)
{
    double value;
    converter[dtype].load_real(1, from, &value);
    return value;
}

int64_t th_integer_read(th_dtype dtype, const void *from)
{
    int64_t value;
    converter[dtype].load_integer(1, from, &value);
    return value;
}

void th_number_write(th_dtype dtype, void *to, double value)
{
    converter[dtype].store_real(1, to, &value);
}

bool th_number_fits(th_dtype dtype, double value)
{
    if (dtype == TH_INT32)
        return value > -int32_end - 1 && value < int32_end;
    if (dtype == TH_INT64)
        return value >= -int64_end && value < int64_end;
    return true;
}
