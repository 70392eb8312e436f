/* Multiplies rounded rows of A by stored blocks of 32 numbers (product_int8.h). The products of the numbers are added as
 * integers, four at a time, so these sums are exact. */
#include "kernels/products/product_int8.h"

#include "kernels/product_block.h"
#include "kernels/storage/vector/block_parts.h"
#include "kernels/vector/vector_math.h"

#if TH_REAL_BITS == 32

enum {
    INT8_ROWS = TH_REGISTERS == 1 ? 8 : 4, /* max rows of a tile: its sums stay in registers */
    INT8_FEW_ROWS = 4,
    INT8_COLUMNS = 32, /* columns that all rows use before the next ones: they stay in an L2 cache */
    /* columns that one row uses together: half of the registers have their sums */
    INT8_STREAMS = TH_REGISTERS == 1 ? 8 : TH_VECTOR_REGISTERS / TH_REGISTERS / 2,
    INT8_AHEAD_BYTES = 768 /* of each column, prefetched before they are used */
};

/* -- weights -- */

typedef int8_t vec_bytes __attribute__((vector_size(TH_VECTOR_BYTES), aligned(1), may_alias));
typedef int8_t piece __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint8_t unsigned_piece __attribute__((vector_size(16), aligned(1), may_alias));

/* A pair of stored blocks of one column. */
typedef struct weight_pair {
    vec_bytes number[TH_REGISTERS];
    vec scale[TH_REGISTERS];
} weight_pair;

#if TH_VECTOR_BYTES > 16

/* The bytes of a stored block, twice if they hold two numbers each. */
TH_INLINE __m256i load_block(int storage, const char *block)
{
    const char *numbers = block + sizeof(uint16_t);
    return storage == TH_Q8_0 ? _mm256_loadu_si256((const __m256i *)numbers)
                              : _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)numbers));
}

/* The numbers in these bytes. The second half of the numbers of q4_0 is in the upper halves of the bytes. */
TH_INLINE vec_bytes numbers_of(int storage, vec_bytes bytes)
{
    if (storage == TH_Q8_0)
        return bytes;
#if TH_VECTOR_BYTES == 64
    const __m512i shift = _mm512_set_epi32(4, 4, 4, 4, 0, 0, 0, 0, 4, 4, 4, 4, 0, 0, 0, 0);
    return ((vec_bytes)_mm512_srlv_epi32((__m512i)bytes, shift) & 15) - 8;
#else
    return ((vec_bytes)_mm256_srlv_epi32((__m256i)bytes, _mm256_set_epi32(4, 4, 4, 4, 0, 0, 0, 0)) & 15) - 8;
#endif
}

TH_INLINE float scale_of(const char *block)
{
    uint16_t scale;
    memcpy(&scale, block, sizeof scale);
    return _cvtsh_ss(scale);
}

#else

/* Numbers 16 * which ... of a stored block. */
TH_INLINE piece load_piece(int storage, const char *block, int which)
{
    if (storage == TH_Q8_0)
        return *(const piece *)(block + sizeof(uint16_t) + 16 * which);
    const unsigned_piece both = *(const unsigned_piece *)(block + sizeof(uint16_t));
    return (which == 0 ? (piece)(both & 15) : (piece)(both >> 4)) - 8;
}

TH_INLINE float scale_of(const char *block)
{
    uint16_t scale;
    memcpy(&scale, block, sizeof scale);
    return float16_value(scale);
}

#endif

TH_INLINE weight_pair load_weight_pair(int storage, const char *first, const char *second)
{
    weight_pair w;
#if TH_VECTOR_BYTES == 64
    const __m512i bytes =
        _mm512_inserti64x4(_mm512_castsi256_si512(load_block(storage, first)), load_block(storage, second), 1);
    w.number[0] = numbers_of(storage, (vec_bytes)bytes);
    w.scale[0] = (vec)_mm512_mask_blend_ps(0xff00, _mm512_set1_ps(scale_of(first)), _mm512_set1_ps(scale_of(second)));
#elif TH_VECTOR_BYTES == 32
    w.number[0] = numbers_of(storage, (vec_bytes)load_block(storage, first));
    w.number[1] = numbers_of(storage, (vec_bytes)load_block(storage, second));
    w.scale[0] = vec_broadcast(scale_of(first));
    w.scale[1] = vec_broadcast(scale_of(second));
#else
    UNROLLED_FOR (int i = 0; i < TH_REGISTERS; i++) {
        const char *block = i < TH_REGISTERS / 2 ? first : second;
        w.number[i] = load_piece(storage, block, i % 2);
        w.scale[i] = vec_broadcast(scale_of(block));
    }
#endif
    return w;
}

/* -- products -- */

/* Lane i is the sum of four products, those of numbers 4 i to 4 i + 3. No step overflows, because numbers of A are -127
 * to 127, and those of B -128 to 127. */
TH_INLINE vec_int sums_of_four(vec_bytes a, vec_bytes b)
{
#if TH_VECTOR_BYTES == 64
    const __m512i x = (__m512i)a, w = (__m512i)b;
    const __m512i signed_x = _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(w), _mm512_setzero_si512(), x);
    const __m512i twos = _mm512_maddubs_epi16(_mm512_abs_epi8(w), signed_x);
    return (vec_int)_mm512_madd_epi16(twos, _mm512_set1_epi16(1));
#elif TH_VECTOR_BYTES == 32
    const __m256i x = (__m256i)a, w = (__m256i)b;
    const __m256i twos = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return (vec_int)_mm256_madd_epi16(twos, _mm256_set1_epi16(1));
#else
    typedef int8_t half __attribute__((vector_size(8)));
    typedef int16_t products __attribute__((vector_size(16)));
    vec_int twos[2];
    UNROLLED_FOR (int i = 0; i < 2; i++) {
        half x, w;
        memcpy(&x, (const char *)&a + 8 * i, sizeof x);
        memcpy(&w, (const char *)&b + 8 * i, sizeof w);
        const vec_int pair = (vec_int)(__builtin_convertvector(x, products) * __builtin_convertvector(w, products));
        twos[i] = (pair << 16 >> 16) + (pair >> 16);
    }
    return vec_shuffle(twos[0], twos[1], 0, 2, 4, 6) + vec_shuffle(twos[0], twos[1], 1, 3, 5, 7);
#endif
}

/* Adds the products of a pair of blocks, for each row. */
TH_INLINE void add_pair(int rows, int storage, const th_int8_pair *a, int64_t pairs, const char *first,
                        const char *second, lanes *sum)
{
    const weight_pair w = load_weight_pair(storage, first, second);
    UNROLLED_FOR (int r = 0; r < TH_REGISTERS; r++)
        UNROLLED_FOR (int i = 0; i < rows; i++) {
            const vec_bytes x = *(const vec_bytes *)(a[i * pairs].number + r * TH_VECTOR_BYTES);
            const vec scale = vec_rounded(vec_load(a[i * pairs].scale + r * TH_REGISTER_LANES) * w.scale[r]);
            const vec product = __builtin_convertvector(sums_of_four(x, w.number[r]), vec);
            sum[i].vecs[r] = vec_mul_add(scale, product, sum[i].vecs[r]);
        }
}

/* Computes `columns` columns of a tile: column j, and the others at this distance. */
TH_INLINE void int8_tile(int rows, int columns, int storage, const th_int8_product *p, int64_t row, int64_t j,
                         int64_t apart)
{
    static const th_q8_0 zero_block;
    const int64_t block_bytes = storage == TH_Q8_0 ? sizeof(th_q8_0) : sizeof(th_q4_0), pairs = th_int8_pairs(p->k);
    const th_int8_pair *a = (const th_int8_pair *)p->a + row * pairs;
    const char *b[INT8_STREAMS];
    int64_t blocks = p->k / TH_BLOCK_NUMBERS;
    lanes sum[INT8_STREAMS][INT8_ROWS];
    UNROLLED_FOR (int s = 0; s < columns; s++) {
        b[s] = (const char *)p->b + (j + s * apart) * p->b_bytes;
        UNROLLED_FOR (int i = 0; i < rows; i++)
            sum[s][i] = lanes_broadcast(0);
    }
    for (; blocks >= 2; blocks -= 2, a++)
        UNROLLED_FOR (int s = 0; s < columns; s++) {
            __builtin_prefetch(b[s] + INT8_AHEAD_BYTES);
            add_pair(rows, storage, a, pairs, b[s], b[s] + block_bytes, sum[s]);
            b[s] += 2 * block_bytes;
        }
    UNROLLED_FOR (int s = 0; s < columns; s++) {
        if (blocks > 0)
            add_pair(rows, storage, a, pairs, b[s], (const char *)&zero_block, sum[s]);
        UNROLLED_FOR (int i = 0; i < rows; i++) {
            const int64_t column = j + s * apart;
            const real total = lanes_sum(sum[s][i]);
            real *c = p->c + (row + i) * p->c_row + column * p->c_col;
            *c = p->init ? p->init[(row + i) * p->init_row + column * p->init_col] + total : total;
        }
    }
}

TH_INLINE void int8_one_row(int storage, const th_int8_product *p)
{
    const int64_t apart = th_columns_apart(p->n, INT8_STREAMS);
    for (int64_t j = 0; j < apart; j++)
        int8_tile(1, INT8_STREAMS, storage, p, 0, j, apart);
    for (int64_t j = apart * INT8_STREAMS; j < p->n; j++)
        int8_tile(1, 1, storage, p, 0, j, 1);
}

/* Multiplies `rows` rows by some columns. */
TH_INLINE void int8_tiles(int rows, int storage, const th_int8_product *p, int64_t row, int64_t column, int64_t columns)
{
    for (int64_t j = column; j < column + columns; j++)
        int8_tile(rows, 1, storage, p, row, j, 1);
}

/* Multiplies all rows by some columns. */
TH_INLINE void int8_columns(int storage, const th_int8_product *p, int64_t column, int64_t columns)
{
    int64_t row = 0;
    for (; row + INT8_ROWS <= p->m; row += INT8_ROWS)
        int8_tiles(INT8_ROWS, storage, p, row, column, columns);
    for (; row + INT8_FEW_ROWS <= p->m; row += INT8_FEW_ROWS)
        int8_tiles(INT8_FEW_ROWS, storage, p, row, column, columns);
    for (; row < p->m; row++)
        int8_tiles(1, storage, p, row, column, columns);
}

TH_INLINE void int8_rows(int storage, const th_int8_product *p)
{
    if (p->m == 1) {
        int8_one_row(storage, p);
        return;
    }
    for (int64_t j = 0; j < p->n; j += INT8_COLUMNS)
        int8_columns(storage, p, j, p->n - j < INT8_COLUMNS ? p->n - j : INT8_COLUMNS);
}

/* -- other types with blocks of 32 numbers. Some blocks of a column are unpacked, and then multiplied by all rows -- */

enum { UNPACKED_PAIRS = 16 /* that are unpacked together: 1024 numbers, in the first-level cache */ };

/* A pair of unpacked blocks. least: see product.h. */
typedef struct unpacked_pair {
    vec_bytes number[TH_REGISTERS];
    vec scale[TH_REGISTERS], least[TH_REGISTERS];
} unpacked_pair;

/* Register r of 16 lanes, in which each of 4 numbers is there 4 times. */
TH_INLINE vec repeated(const float *quarter, int r)
{
#if TH_VECTOR_BYTES == 64
    (void)r;
    const __m512i lane = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    return (vec)_mm512_permutexvar_ps(lane, _mm512_castps128_ps512(_mm_loadu_ps(quarter)));
#elif TH_VECTOR_BYTES == 32
    return (vec)_mm256_set_m128(_mm_set1_ps(quarter[2 * r + 1]), _mm_set1_ps(quarter[2 * r]));
#else
    return vec_broadcast(quarter[r]);
#endif
}

/* The numbers of a block without their offset, and its scales. */
typedef struct block_part {
    _Alignas(PART) int8_t number[PART];
    float scale[2], least[2]; /* of each half */
} block_part;

TH_INLINE void unpack_pair(const block_part *part, unpacked_pair *to)
{
    const float scale[4] = {part[0].scale[0], part[0].scale[1], part[1].scale[0], part[1].scale[1]},
                least[4] = {part[0].least[0], part[0].least[1], part[1].least[0], part[1].least[1]};
    memcpy(to->number, part[0].number, PART);
    memcpy((char *)to->number + PART, part[1].number, PART);
    UNROLLED_FOR (int r = 0; r < TH_REGISTERS; r++) {
        to->scale[r] = repeated(scale, r);
        to->least[r] = repeated(least, r);
    }
}

TH_INLINE void read_part(int storage, const uint8_t *block, block_part *to)
{
    const part_bytes numbers = read_numbers(storage, block, 0) - (uint8_t)offset_of(storage);
    float_scales scales;
    memcpy(to->number, &numbers, sizeof numbers);
    read_float_scales(storage, block, 2, &scales);
    memcpy(to->scale, scales.scale, sizeof to->scale);
    memcpy(to->least, scales.least, sizeof to->least);
}

/* Unpacks `count` blocks of a column. Zeros fill the last pair. */
TH_INLINE void unpack_parts(int storage, int64_t bytes, const uint8_t *block, int64_t count, unpacked_pair *to)
{
    block_part part[2];
    for (; count > 0; count -= 2, block += 2 * bytes) {
        part[1] = (block_part){.number = {0}};
        read_part(storage, block, &part[0]);
        if (count > 1)
            read_part(storage, block + bytes, &part[1]);
        unpack_pair(part, to++);
    }
}

#define UNPACK(dtype, name, numbers)                                                                                   \
    static void unpack_##name(const uint8_t *block, int64_t count, unpacked_pair *to)                                  \
    {                                                                                                                  \
        unpack_parts(dtype, dtype##_BYTES, block, count, to);                                                          \
    }

TH_FORMATS_OF_32(UNPACK)

#define UNPACK_CASE(dtype, name, numbers)                                                                              \
    case dtype:                                                                                                        \
        unpack_##name(block, count, to);                                                                               \
        break;

static void unpack(int storage, const uint8_t *block, int64_t count, unpacked_pair *to)
{
    switch (storage) {
        TH_FORMATS_OF_32(UNPACK_CASE)
    default:
        break;
    }
}

/* Adds the products of unpacked pairs, for each row. */
TH_INLINE void add_unpacked(int rows, bool with_least, const th_int8_pair *a, int64_t pairs, int64_t count,
                            const unpacked_pair *w, lanes *sum)
{
    const vec_bytes ones = 1 - (vec_bytes){0};
    lanes total[INT8_FEW_ROWS];
    UNROLLED_FOR (int i = 0; i < rows; i++)
        total[i] = sum[i];
    for (int64_t p = 0; p < count; p++, a++, w++)
        UNROLLED_FOR (int r = 0; r < TH_REGISTERS; r++)
            UNROLLED_FOR (int i = 0; i < rows; i++) {
                const vec_bytes x = *(const vec_bytes *)(a[i * pairs].number + r * TH_VECTOR_BYTES);
                const vec x_scale = vec_load(a[i * pairs].scale + r * TH_REGISTER_LANES);
                const vec product = __builtin_convertvector(sums_of_four(x, w->number[r]), vec);
                total[i].vecs[r] = vec_mul_add(vec_rounded(x_scale * w->scale[r]), product, total[i].vecs[r]);
                if (with_least) {
                    const vec numbers = __builtin_convertvector(sums_of_four(x, ones), vec);
                    total[i].vecs[r] = vec_mul_add(-vec_rounded(x_scale * w->least[r]), numbers, total[i].vecs[r]);
                }
            }
    UNROLLED_FOR (int i = 0; i < rows; i++)
        sum[i] = total[i];
}

static void add_unpacked_row(bool with_least, const th_int8_pair *a, int64_t count, const unpacked_pair *w, lanes *sum)
{
    if (with_least)
        add_unpacked(1, true, a, 0, count, w, sum);
    else
        add_unpacked(1, false, a, 0, count, w, sum);
}

static void add_unpacked_rows(bool with_least, const th_int8_pair *a, int64_t pairs, int64_t count,
                              const unpacked_pair *w, lanes *sum)
{
    if (with_least)
        add_unpacked(INT8_FEW_ROWS, true, a, pairs, count, w, sum);
    else
        add_unpacked(INT8_FEW_ROWS, false, a, pairs, count, w, sum);
}

/* Adds the products of unpacked pairs to the sums of all rows. */
static void add_rows_unpacked(int storage, const th_int8_product *p, int64_t first, int64_t count,
                              const unpacked_pair *w, lanes *sum)
{
    const int64_t pairs = th_int8_pairs(p->k);
    const th_int8_pair *a = (const th_int8_pair *)p->a + first;
    int64_t row = 0;
    for (; row + INT8_FEW_ROWS <= p->m; row += INT8_FEW_ROWS)
        add_unpacked_rows(has_least(storage), a + row * pairs, pairs, count, w, sum + row);
    for (; row < p->m; row++)
        add_unpacked_row(has_least(storage), a + row * pairs, count, w, sum + row);
}

static void int8_unpacked_column(int storage, int64_t bytes, const th_int8_product *p, int64_t j)
{
    const uint8_t *column = (const uint8_t *)p->b + j * p->b_bytes;
    const int64_t pairs = th_int8_pairs(p->k), parts = p->k / PART;
    lanes sum[TH_INT8_MOST_ROWS];
    for (int64_t i = 0; i < p->m; i++)
        sum[i] = lanes_broadcast(0);
    for (int64_t pair = 0; pair < pairs; pair += UNPACKED_PAIRS) {
        unpacked_pair w[UNPACKED_PAIRS];
        const int64_t count = pairs - pair < UNPACKED_PAIRS ? pairs - pair : UNPACKED_PAIRS;
        const int64_t rest = parts - 2 * pair;
        unpack(storage, column + 2 * pair * bytes, rest < 2 * count ? rest : 2 * count, w);
        add_rows_unpacked(storage, p, pair, count, w, sum);
    }
    for (int64_t i = 0; i < p->m; i++) {
        const real total = lanes_sum(sum[i]);
        real *c = p->c + i * p->c_row + j * p->c_col;
        *c = p->init ? p->init[i * p->init_row + j * p->init_col] + total : total;
    }
}

#define INT8_CASE(dtype, name, numbers)                                                                                \
    case dtype:                                                                                                        \
        for (int64_t j = 0; j < p->n; j++)                                                                             \
            int8_unpacked_column(dtype, dtype##_BYTES, p, j);                                                          \
        break;

#endif

/* Multiplies by a B with this storage type, whose blocks have 32 numbers. p->a: th_int8_pair. Float32 only. */
void TH_KERNEL(product_int8)(int storage, const th_int8_product *p)
{
#if TH_REAL_BITS == 32
    switch (storage) {
    case TH_Q8_0:
        int8_rows(TH_Q8_0, p);
        break;
    case TH_Q4_0:
        int8_rows(TH_Q4_0, p);
        break;
        TH_FORMATS_OF_32(INT8_CASE)
    default:
        break;
    }
#else
    (void)storage, (void)p;
#endif
}
