/* Packs a stored matrix whose rows are contiguous (the weight of a dense layer in backward, dx = dy W). The numbers are
 * those of storage_load. Some panels are packed together, in the order of memory. */
#include "kernels/products/vector/load_columns.h"

#if TH_STORED

enum { STORED_AHEAD = 8 }; /* rows to prefetch ahead: each may be on another page */

typedef uint16_t register_halves __attribute__((vector_size(2 * TH_REGISTER_LANES), aligned(2), may_alias));
typedef int8_t register_bytes __attribute__((vector_size(TH_REGISTER_LANES), aligned(1), may_alias));

/* One byte for each lane. (gcc 12 widens bytes one by one.) */
TH_INLINE vec_int load_bytes(const void *from)
{
#if TH_VECTOR_BYTES == 64
    return (vec_int)_mm512_cvtepi8_epi32(_mm_loadu_si128(from));
#elif TH_VECTOR_BYTES == 32
    return (vec_int)_mm256_cvtepi8_epi32(_mm_loadl_epi64(from));
#else
    return __builtin_convertvector(*(const register_bytes *)from, vec_int);
#endif
}

TH_INLINE vec block_scale_of(uint16_t scale)
{
    return float16_values((vec_bits){0} + scale);
}

TH_INLINE void pack_q8_0(const th_q8_0 *block, int64_t first, real *to)
{
    const vec scale = block_scale_of(block->scale);
    UNROLLED_FOR (int g = 0; g < GROUPS; g++) {
        const vec_int numbers = load_bytes(block->number + first + g * TH_REGISTER_LANES);
        vec_store(to + g * TH_REGISTER_LANES, scale * __builtin_convertvector(numbers, vec));
    }
}

TH_INLINE void pack_q4_0(const th_q4_0 *block, int64_t first, real *to)
{
    enum { PAIRS = TH_BLOCK_NUMBERS / 2 };
    const vec scale = block_scale_of(block->scale);
    UNROLLED_FOR (int g = 0; g < GROUPS; g++) {
        const int64_t at = first + g * TH_REGISTER_LANES;
        const vec_int pairs = load_bytes(block->pair + at % PAIRS), numbers = (at < PAIRS ? pairs : pairs >> 4) & 15;
        vec_store(to + g * TH_REGISTER_LANES, scale * __builtin_convertvector(numbers - 8, vec));
    }
}

TH_INLINE void pack_halves(int storage, const uint16_t *number, real *to)
{
    UNROLLED_FOR (int g = 0; g < GROUPS; g++) {
        const register_halves halves = *(const register_halves *)(number + g * TH_REGISTER_LANES);
        vec_store(to + g * TH_REGISTER_LANES, half_values(storage, __builtin_convertvector(halves, vec_bits)));
    }
}

/* Returns the address of a number, or of the block that contains it. */
TH_INLINE const char *number_at(int storage, const char *row, int64_t column)
{
    return row + (storage == TH_Q8_0   ? column / TH_BLOCK_NUMBERS * (int64_t)sizeof(th_q8_0)
                  : storage == TH_Q4_0 ? column / TH_BLOCK_NUMBERS * (int64_t)sizeof(th_q4_0)
                                       : column * 2);
}

/* Packs one row of a full panel. The panel is a part of a block. */
TH_INLINE void pack_panel_row(int storage, const char *row, int64_t column, real *to)
{
    const char *from = number_at(storage, row, column);
    if (storage == TH_Q8_0)
        pack_q8_0((const th_q8_0 *)from, column % TH_BLOCK_NUMBERS, to);
    else if (storage == TH_Q4_0)
        pack_q4_0((const th_q4_0 *)from, column % TH_BLOCK_NUMBERS, to);
    else
        pack_halves(storage, (const uint16_t *)from, to);
}

TH_INLINE void pack_stored_rows(int storage, int64_t k, int64_t n, const char *b, int64_t b_bytes, int64_t column,
                                real *panels, int64_t stride)
{
    const int64_t full = n / TILE_COLUMNS * TILE_COLUMNS;
    for (int64_t step = 0; step < k; step++, b += b_bytes) {
        real *to = panels + step * TILE_COLUMNS;
        for (int64_t j = 0; j < full; j += TILE_COLUMNS, to += stride) {
            __builtin_prefetch(number_at(storage, b + STORED_AHEAD * b_bytes, column + j));
            pack_panel_row(storage, b, column + j, to);
        }
        if (full < n) { /* only plain numbers: a panel is a part of a block */
            uint16_t rest[TILE_COLUMNS] = {0};
            memcpy(rest, number_at(storage, b, column + full), (size_t)(n - full) * sizeof *rest);
            pack_halves(storage, rest, to);
        }
    }
}

#endif

/* Like product_pack_b, for k rows and n columns, from `column` on, of a stored B with contiguous rows. Row i begins i *
 * b_bytes bytes after b. Both `column` and n begin and end panels, except at the end of a row. Float32 only. */
void TH_KERNEL(product_pack_stored_rows)(int64_t k, int64_t n, const void *b, int b_storage, int64_t b_bytes,
                                         int64_t column, void *panels, int64_t stride)
{
#if TH_STORED
    switch (b_storage) {
    case TH_BFLOAT16:
        pack_stored_rows(TH_BFLOAT16, k, n, b, b_bytes, column, panels, stride);
        return;
    case TH_FLOAT16:
        pack_stored_rows(TH_FLOAT16, k, n, b, b_bytes, column, panels, stride);
        return;
    case TH_Q8_0:
        pack_stored_rows(TH_Q8_0, k, n, b, b_bytes, column, panels, stride);
        return;
    default:
        pack_stored_rows(TH_Q4_0, k, n, b, b_bytes, column, panels, stride);
        return;
    }
#else
    (void)k, (void)n, (void)b, (void)b_storage, (void)b_bytes, (void)column, (void)panels, (void)stride;
#endif
}
