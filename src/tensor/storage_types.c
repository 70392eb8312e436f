/* Conversion to and from the storage types: see storage_types.h. */
#include "tensor/storage_types.h"

#include <math.h>
#include <string.h>

#include "kernels/dtype.h"
#include "kernels/kernels.h"
#include "kernels/sizes.h"
#include "tensor/checked.h"
#include "tensor/context.h"
#include "tensor/convert.h"
#include "tensor/half.h"
#include "tensor/strided_iterator.h"
#include "tensor/threaded_loop.h"

enum { CHUNK = 512 }; /* numbers that are converted at a time: whole blocks */

/* -- rounding -- */

/* Returns the number with the largest magnitude in a block, the first one of several; NaN if a number is not finite. */
static float largest_magnitude(const float *values)
{
    float result = 0;
    for (int i = 0; i < TH_BLOCK_NUMBERS; i++) {
        if (!isfinite(values[i]))
            return NAN;
        result = fabsf(values[i]) > fabsf(result) ? values[i] : result;
    }
    return result;
}

static void round_block_to_float32(const double *values, float *block)
{
    for (int i = 0; i < TH_BLOCK_NUMBERS; i++)
        block[i] = (float)values[i];
}

/* Rounds x / scale to -127 .. 127. 1 / scale is infinite for the smallest scales, and then 0 / scale is NaN. */
static int8_t round_to_8_bits(float x, float inverse)
{
    const float number = roundf(x * inverse);
    return (int8_t)(number >= 127 ? 127 : number <= -127 ? -127 : isnan(number) ? 0 : (int)number);
}

/* scale = max |x| / 127, number = round(x / scale) */
static void round_q8_0(const double *values, th_q8_0 *to)
{
    float x[TH_BLOCK_NUMBERS];
    round_block_to_float32(values, x);
    const float scale = fabsf(largest_magnitude(x)) / 127, inverse = scale > 0 ? 1 / scale : 0;
    to->scale = th_half_round(th_float16_format, (double)scale);
    for (int i = 0; i < TH_BLOCK_NUMBERS; i++)
        to->number[i] = isnan(scale) ? 0 : round_to_8_bits(x[i], inverse);
}

/* Returns floor(x / scale + 8.5) in 0 .. 15. The product is not rounded before the addition, as with fused
 * multiply-add: ggml's reference is compiled so on most processors, and the package gguf computes so. */
static uint8_t round_to_4_bits(float x, float inverse)
{
    const float number = (float)((double)x * (double)inverse + 8.5);
    return (uint8_t)(number >= 15 ? 15 : number > 0 ? (int)number : 0);
}

/* scale = (number of largest magnitude) / -8, number = x / scale + 8 */
static void round_q4_0(const double *values, th_q4_0 *to)
{
    float x[TH_BLOCK_NUMBERS];
    round_block_to_float32(values, x);
    const float scale = largest_magnitude(x) / -8, inverse = scale > 0 || scale < 0 ? 1 / scale : 0;
    to->scale = th_half_round(th_float16_format, (double)scale);
    for (int i = 0; i < TH_BLOCK_NUMBERS / 2; i++) {
        const uint8_t low = isnan(scale) ? 8 : round_to_4_bits(x[i], inverse);
        const uint8_t high = isnan(scale) ? 8 : round_to_4_bits(x[i + TH_BLOCK_NUMBERS / 2], inverse);
        to->pair[i] = (uint8_t)(low | high << 4);
    }
}

void th_round_to_storage_type(int64_t n, th_dtype dtype, void *to, const double *values)
{
    uint16_t *halves = to;
    if (dtype == TH_BFLOAT16 || dtype == TH_FLOAT16)
        for (int64_t i = 0; i < n; i++)
            halves[i] = th_half_round(dtype == TH_BFLOAT16 ? th_bfloat16_format : th_float16_format, values[i]);
    else if (dtype == TH_Q8_0)
        for (int64_t i = 0; i < n / TH_BLOCK_NUMBERS; i++)
            round_q8_0(values + i * TH_BLOCK_NUMBERS, (th_q8_0 *)to + i);
    else
        for (int64_t i = 0; i < n / TH_BLOCK_NUMBERS; i++)
            round_q4_0(values + i * TH_BLOCK_NUMBERS, (th_q4_0 *)to + i);
}

void th_load_storage_type(const th_context *ctx, int64_t n, th_dtype dtype, const void *from, double *values)
{
    th_context_kernels(ctx, TH_FLOAT64)->storage_load(n, (int)dtype, from, 0, values);
}

/* -- arrays -- */

/* A row of an array, some numbers at a time. */
typedef struct row {
    th_dtype dtype;
    int64_t element, stride; /* bytes; from one element to the next */
    char *first;
} row;

static row row_of(const th_array *array, int64_t index)
{
    const int64_t element = (int64_t)th_dtype_size(array->dtype);
    row r = {array->dtype, element, element, array->data};
    if (array->ndim == 0)
        return r;
    r.stride = array->stride[array->ndim - 1] * element;
    if (array->ndim > 1) {
        int64_t indices[TH_MAX_DIMS];
        th_index_at(array->ndim - 1, array->size, index, indices);
        r.first += th_offset_of(array->ndim - 1, indices, array->stride) * element;
    }
    return r;
}

typedef struct conversion {
    const th_context *ctx;
    const th_array *to, *from;
    int64_t width; /* numbers in a row */
} conversion;

/* Loads n numbers of a storage type or a floating type. */
static void load_numbers(const th_context *ctx, int64_t n, th_dtype dtype, const void *from, double *values)
{
    if (th_is_storage_type(dtype))
        th_load_storage_type(ctx, n, dtype, from, values);
    else
        th_convert_elements(n, TH_FLOAT64, values, dtype, from);
}

static void convert_rows(void *shared, int64_t first, int64_t end, int worker)
{
    (void)worker;
    const conversion *c = shared;
    for (int64_t index = first; index < end; index++) {
        const row from = row_of(c->from, index), to = row_of(c->to, index);
        for (int64_t begin = 0; begin < c->width; begin += CHUNK) {
            const int64_t n = th_smaller(c->width - begin, CHUNK);
            double values[CHUNK];
            _Alignas(8) char elements[CHUNK * sizeof(double)];
            const int64_t source_index = begin / th_dtype_numbers(from.dtype),
                          source_count = n / th_dtype_numbers(from.dtype);
            th_copy_strided(source_count, from.element, elements, from.element, from.first + source_index * from.stride,
                            from.stride);
            if (th_is_floating(to.dtype)) {
                th_context_kernels(c->ctx, to.dtype)->storage_load(n, (int)from.dtype, elements, 0, values);
                memcpy(elements, values, (size_t)(n * to.element));
            } else {
                load_numbers(c->ctx, n, from.dtype, elements, values);
                th_round_to_storage_type(n, to.dtype, elements, values);
            }
            const int64_t destination_index = begin / th_dtype_numbers(to.dtype),
                          destination_count = n / th_dtype_numbers(to.dtype);
            th_copy_strided(destination_count, to.element, to.first + destination_index * to.stride, to.stride,
                            elements, to.element);
        }
    }
}

void th_convert_storage(const th_context *ctx, const th_array *destination, const th_array *source)
{
    conversion c = {ctx, destination, source, 1};
    int64_t rows = 1;
    for (int i = 0; i < source->ndim; i++)
        *(i == source->ndim - 1 ? &c.width : &rows) *= source->size[i];
    c.width *= th_dtype_numbers(source->dtype);
    if (rows > 0 && c.width > 0)
        th_for_rows(ctx, rows, 4 * c.width, convert_rows, &c);
}

bool th_converted_size(th_dtype from, int64_t size, th_dtype to, int64_t *result)
{
    int64_t numbers;
    if (!th_checked_multiply(size, th_dtype_numbers(from), &numbers) || numbers % th_dtype_numbers(to) != 0)
        return false;
    *result = numbers / th_dtype_numbers(to);
    return true;
}
