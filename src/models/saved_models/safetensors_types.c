/* Element types of safetensors files: see safetensors_types.h. */
#include "models/saved_models/safetensors_types.h"

#include <string.h>

#include "models/core/tensors.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files store numbers in this memory format");

typedef enum kind { F64, F32, F16, BF16, I64, I32, I16, I8, U64, U32, U16, U8, BOOL, OTHER } kind;

/* In the order of `kind`, then the types that are recognized but cannot be read. */
static const th_safetensors_type types[] = {
    {"F64", 64, true, TH_FLOAT64},
    {"F32", 32, true, TH_FLOAT32},
    {"F16", 16, true, TH_FLOAT32},
    {"BF16", 16, true, TH_FLOAT32},
    {"I64", 64, true, TH_INT64},
    {"I32", 32, true, TH_INT32},
    {"I16", 16, true, TH_INT32},
    {"I8", 8, true, TH_INT32},
    {"U64", 64, true, TH_INT64},
    {"U32", 32, true, TH_INT64},
    {"U16", 16, true, TH_INT32},
    {"U8", 8, true, TH_INT32},
    {"BOOL", 8, true, TH_BOOL},
    {"F4", 4, false, TH_FLOAT32},
    {"F6_E2M3", 6, false, TH_FLOAT32},
    {"F6_E3M2", 6, false, TH_FLOAT32},
    {"F8_E5M2", 8, false, TH_FLOAT32},
    {"F8_E4M3", 8, false, TH_FLOAT32},
    {"F8_E8M0", 8, false, TH_FLOAT32},
    {"F8_E4M3FNUZ", 8, false, TH_FLOAT32},
    {"F8_E5M2FNUZ", 8, false, TH_FLOAT32},
    {"C64", 64, false, TH_FLOAT32},
};

static kind kind_of(const th_safetensors_type *type)
{
    const size_t i = (size_t)(type - types);
    return i < OTHER ? (kind)i : OTHER;
}

const th_safetensors_type *th_safetensors_type_find(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    return NULL;
}

const th_safetensors_type *th_safetensors_type_of(th_dtype dtype)
{
    static const kind kinds[] = {[TH_FLOAT32] = F32, [TH_FLOAT64] = F64,   [TH_INT32] = I32,  [TH_INT64] = I64,
                                 [TH_BOOL] = BOOL,   [TH_BFLOAT16] = BF16, [TH_FLOAT16] = F16};
    return &types[th_dtype_numbers(dtype) > 1 ? U8 : kinds[dtype]];
}

th_dtype th_safetensors_type_dtype(const th_safetensors_type *type)
{
    static const th_dtype dtypes[] = {TH_FLOAT32, TH_FLOAT64, TH_BFLOAT16, TH_FLOAT16};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (type == th_safetensors_type_of(dtypes[i]))
            return dtypes[i];
    return TH_DTYPE_COUNT;
}

bool th_safetensors_type_fits(const th_safetensors_type *type, th_dtype dtype)
{
    const bool floating = type->dtype == TH_FLOAT32 || type->dtype == TH_FLOAT64;
    const bool index = type->dtype == TH_INT32 || type->dtype == TH_INT64;
    const bool blocks = th_dtype_numbers(dtype) > 1 && kind_of(type) == U8;
    return type->readable && ((floating && (th_is_floating(dtype) || th_can_round_to(dtype))) ||
                              (index && (dtype == TH_INT32 || dtype == TH_INT64)) || dtype == type->dtype || blocks);
}

/* -- blocks -- */

/* Returns the elements of a file for one element of dtype. */
static int64_t elements_in_file(const th_safetensors_type *type, th_dtype dtype)
{
    const int64_t numbers = th_dtype_numbers(dtype);
    return numbers > 1 && kind_of(type) == U8 ? (int64_t)th_dtype_size(dtype) : numbers;
}

int64_t th_safetensors_element_bytes(const th_safetensors_type *type, th_dtype dtype)
{
    return elements_in_file(type, dtype) * type->bits / 8;
}

bool th_safetensors_shape_fits(const th_safetensors_type *type, const th_shape *stored, th_dtype dtype, int ndim,
                               const int64_t *size)
{
    bool fits = stored->ndim == ndim;
    for (int i = 0; fits && i < ndim; i++) {
        const int64_t elements = i == ndim - 1 ? elements_in_file(type, dtype) : 1;
        fits = stored->size[i] % elements == 0 && stored->size[i] / elements == size[i];
    }
    return fits;
}

int64_t th_safetensors_last_size(th_dtype dtype, int64_t size)
{
    return size * elements_in_file(th_safetensors_type_of(dtype), dtype);
}

/* -- conversion -- */

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Converts IEEE 754 binary16. All its values are float32 values. */
static float float_of_half(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
    if (exponent == 0x1f)
        return float_of_bits(sign | 0x7f800000u | fraction << 13);
    if (exponent > 0)
        return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
    const float small = (float)fraction * 0x1p-24f;
    return sign ? -small : small;
}

static double read_floating(kind type, const char *from)
{
    uint16_t short_bits;
    float single;
    double number;
    switch (type) {
    case F64:
        memcpy(&number, from, sizeof number);
        return number;
    case F32:
        memcpy(&single, from, sizeof single);
        return single;
    default:
        memcpy(&short_bits, from, sizeof short_bits);
        return type == F16 ? float_of_half(short_bits) : float_of_bits((uint32_t)short_bits << 16);
    }
}

/* Reads an integer. Returns false if it does not fit int64. */
static bool read_integer(kind type, const char *from, int64_t *value)
{
    const bool has_sign = type <= I8;
    const size_t bytes = (size_t)types[type].bits / 8;
    uint64_t bits = 0;
    memcpy(&bits, from, bytes);
    if (has_sign && bytes < 8 && bits >> (8 * bytes - 1))
        bits |= UINT64_MAX << 8 * bytes;
    memcpy(value, &bits, sizeof bits);
    return has_sign || *value >= 0;
}

static void convert_to_floating(int64_t n, th_dtype dtype, void *to, kind type, const char *from)
{
    const int64_t bytes = types[type].bits / 8;
    for (int64_t i = 0; i < n; i++) {
        const double value = read_floating(type, from + i * bytes);
        if (dtype == TH_FLOAT32)
            ((float *)to)[i] = (float)value;
        else
            ((double *)to)[i] = value;
    }
}

/* Rounds to a storage type, a few elements at a time. */
static void round_to_storage(int64_t n, th_dtype dtype, void *to, kind type, const char *from)
{
    enum { SOME = 4 };
    const int64_t bytes = types[type].bits / 8, numbers = th_dtype_numbers(dtype);
    for (int64_t i = 0; i < n; i += SOME) {
        double values[SOME * TH_BLOCK_NUMBERS];
        const int64_t count = (n - i < SOME ? n - i : SOME) * numbers;
        for (int64_t j = 0; j < count; j++)
            values[j] = read_floating(type, from + (i * numbers + j) * bytes);
        th_round_to_storage_type(count, dtype, (char *)to + (size_t)i * th_dtype_size(dtype), values);
    }
}

static bool convert_to_integers(int64_t n, th_dtype dtype, void *to, kind type, const char *from)
{
    const int64_t bytes = types[type].bits / 8;
    for (int64_t i = 0; i < n; i++) {
        int64_t value;
        if (!read_integer(type, from + i * bytes, &value) ||
            (dtype == TH_INT32 && (value < INT32_MIN || value > INT32_MAX)))
            return false;
        if (dtype == TH_INT32)
            ((int32_t *)to)[i] = (int32_t)value;
        else
            ((int64_t *)to)[i] = value;
    }
    return true;
}

static bool bools_are_valid(int64_t n, const unsigned char *bytes)
{
    unsigned char any = 0;
    for (int64_t i = 0; i < n; i++)
        any |= bytes[i];
    return any < 2;
}

bool th_safetensors_convert(int64_t n, th_dtype dtype, void *to, const th_safetensors_type *type, const void *from)
{
    if (dtype == TH_BOOL && !bools_are_valid(n, from))
        return false;
    if (type == th_safetensors_type_of(dtype))
        memcpy(to, from, (size_t)n * th_dtype_size(dtype));
    else if (dtype == TH_INT32 || dtype == TH_INT64)
        return convert_to_integers(n, dtype, to, kind_of(type), from);
    else if (th_is_storage_type(dtype))
        round_to_storage(n, dtype, to, kind_of(type), from);
    else
        convert_to_floating(n, dtype, to, kind_of(type), from);
    return true;
}
