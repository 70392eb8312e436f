/* Products of bfloat16 terms by fused multiply-adds, where the processor has nothing faster for them: the even and the
 * odd chain of product.h for a tile of C, each element of which is a pair of registers while a group of steps lasts.
 *
 * Panels hold terms as float32 numbers: [group of k][term][step][row of A, or column of B]. What is not there is 0. */
#include <immintrin.h>

#include "kernels/vector/bfloat16.h"
#include "kernels/vector/product.h"

#if TH_REAL_BITS == 32

enum { CHAIN_ROWS = TILE_ROWS / 2, CHAIN_REGISTERS = 2, MOST_TERMS = 2 };

/* -- packing -- */

/* A matrix as packing sees it: `lines` rows of A or columns of B, of k steps each. */
typedef struct term_source {
    int64_t lines, k;
    const float *at;
    int64_t line, step; /* strides */
} term_source;

TH_INLINE void pack_terms(int terms, int width, const term_source *s, float *panels, int64_t stride)
{
    for (int64_t first = 0; first < s->lines; first += width) {
        float *panel = panels + first / width * stride;
        for (int64_t group = 0; group < s->k; group += TH_TERM_GROUP)
            for (int64_t step = 0; step < TH_TERM_GROUP; step++)
                for (int64_t i = 0; i < width; i++) {
                    const bool given = first + i < s->lines && group + step < s->k;
                    const uint32_t bits =
                        given ? bits_of_float(s->at[(first + i) * s->line + (group + step) * s->step]) : 0;
                    const uint32_t term = round_to_bfloat16(bits);
                    float *to = panel + (group * terms + step) * width + i;
                    to[0] = float_of_bits(term);
                    if (terms == 2)
                        to[TH_TERM_GROUP * width] = float_of_bits(second_term(bits, term));
                }
    }
}

TH_INLINE void pack_a_terms(int terms, int64_t m, int64_t k, const void *a, int64_t row, int64_t column, void *panels)
{
    const term_source s = {m, k, a, row, column};
    pack_terms(terms, CHAIN_ROWS, &s, panels,
               (k + TH_TERM_GROUP - 1) / TH_TERM_GROUP * TH_TERM_GROUP * terms * CHAIN_ROWS);
}

TH_INLINE void pack_b_terms(int terms, int64_t k, int64_t n, const void *b, int64_t row, int64_t column, void *panels,
                            int64_t stride)
{
    const term_source s = {n, k, b, column, row};
    pack_terms(terms, TILE_COLUMNS, &s, panels, stride);
}

/* -- tiles -- */

typedef vec sums[CHAIN_ROWS][CHAIN_REGISTERS];

/* c += a b over one group of steps: the even chain and the odd one. */
TH_INLINE void add_group(const float *a, const float *b, sums c)
{
    sums even, odd;
    UNROLLED_FOR (int i = 0; i < CHAIN_ROWS; i++)
        UNROLLED_FOR (int j = 0; j < CHAIN_REGISTERS; j++)
            even[i][j] = odd[i][j] = (vec){0};
    for (int step = 0; step < TH_TERM_GROUP; step += 2) {
        UNROLLED_FOR (int i = 0; i < CHAIN_ROWS; i++)
            UNROLLED_FOR (int j = 0; j < CHAIN_REGISTERS; j++) {
                const vec *columns = (const vec *)(b + j * TH_REGISTER_LANES);
                even[i][j] += (a[i] - (vec){0}) * *columns;
            }
        UNROLLED_FOR (int i = 0; i < CHAIN_ROWS; i++)
            UNROLLED_FOR (int j = 0; j < CHAIN_REGISTERS; j++) {
                const vec *columns = (const vec *)(b + TILE_COLUMNS + j * TH_REGISTER_LANES);
                odd[i][j] += (a[CHAIN_ROWS + i] - (vec){0}) * *columns;
            }
        a += 2 * CHAIN_ROWS;
        b += 2 * TILE_COLUMNS;
    }
    UNROLLED_FOR (int i = 0; i < CHAIN_ROWS; i++)
        UNROLLED_FOR (int j = 0; j < CHAIN_REGISTERS; j++)
            c[i][j] = c[i][j] + (even[i][j] + odd[i][j]);
}

/* c += the products of terms, of operands that have `terms` of them: of the first ones only, or of both. */
TH_INLINE void multiply_groups(int terms, bool both, const tile_operands *t, sums c)
{
    const float *a = t->a, *b = t->b;
    for (int64_t step = 0; step < t->k; step += TH_TERM_GROUP) {
        add_group(a, b, c);
        if (both) {
            add_group(a, b + TH_TERM_GROUP * TILE_COLUMNS, c);
            add_group(a + TH_TERM_GROUP * CHAIN_ROWS, b, c);
        }
        a += terms * TH_TERM_GROUP * CHAIN_ROWS;
        b += terms * TH_TERM_GROUP * TILE_COLUMNS;
    }
}

static void load_sums(int64_t rows, const tile_operands *t, sums c)
{
    memset(c, 0, sizeof(sums));
    if (t->init)
        for (int64_t i = 0; i < rows; i++)
            memcpy(c[i], t->init + i * t->init_row, (size_t)t->columns * sizeof(real));
}

/* Computes elements that are NaN again, from the first terms. */
static __attribute__((noinline)) void mend_tile(int64_t rows, const tile_operands *t, sums c)
{
    sums first;
    load_sums(rows, t, first);
    multiply_groups(MOST_TERMS, false, t, first);
    for (int i = 0; i < CHAIN_ROWS; i++)
        for (int j = 0; j < CHAIN_REGISTERS; j++)
            for (int lane = 0; lane < TH_REGISTER_LANES; lane++)
                if (c[i][j][lane] != c[i][j][lane])
                    c[i][j][lane] = first[i][j][lane];
}

static bool any_nan(sums c)
{
    vec_int any = {0};
    for (int i = 0; i < CHAIN_ROWS; i++)
        for (int j = 0; j < CHAIN_REGISTERS; j++)
            any |= c[i][j] != c[i][j];
    int64_t words[TH_VECTOR_BYTES / 8], found = 0;
    memcpy(words, &any, sizeof any);
    for (int i = 0; i < TH_VECTOR_BYTES / 8; i++)
        found |= words[i];
    return found != 0;
}

TH_INLINE void chain_tile(int terms, int64_t rows, const tile_operands *t)
{
    sums c;
    load_sums(rows, t, c);
    multiply_groups(terms, terms > 1, t, c);
    if (terms > 1 && any_nan(c))
        mend_tile(rows, t, c);
    for (int64_t i = 0; i < rows; i++)
        memcpy(t->c + i * t->c_row, c[i], (size_t)t->columns * sizeof(real));
}

TH_INLINE void multiply_tiles(int terms, const th_product_block *block)
{
    tile_operands t = {.k = block->k, .c_row = block->c_row, .init_row = block->init_row};
    for (int64_t j = 0; j < block->n; j += TILE_COLUMNS) {
        t.b = (const float *)block->b + j / TILE_COLUMNS * block->b_panel;
        t.columns = block->n - j < TILE_COLUMNS ? block->n - j : TILE_COLUMNS;
        for (int64_t i = 0; i < block->m; i += CHAIN_ROWS) {
            t.a = (const float *)block->a + i / CHAIN_ROWS * block->a_panel;
            t.c = (real *)block->c + i * block->c_row + j;
            t.init = block->init ? (const real *)block->init + i * block->init_row + j : NULL;
            chain_tile(terms, block->m - i < CHAIN_ROWS ? block->m - i : CHAIN_ROWS, &t);
        }
    }
}

/* Functions of their own, so that no arithmetic moves out of where denormal numbers are 0. */
static __attribute__((noinline)) void multiply_tiles_1(const th_product_block *block)
{
    multiply_tiles(1, block);
}

static __attribute__((noinline)) void multiply_tiles_2(const th_product_block *block)
{
    multiply_tiles(2, block);
}

/* -- as a driver sees it -- */

enum { AS_TILES_ROUND = 0x9fc0 }; /* of MXCSR: exceptions masked, to nearest, denormals taken and given as 0 */

#define KERNELS(terms)                                                                                                 \
    static void pack_a_##terms(int64_t m, int64_t k, const void *a, int64_t row, int64_t column, void *panels)         \
    {                                                                                                                  \
        pack_a_terms(terms, m, k, a, row, column, panels);                                                             \
    }                                                                                                                  \
    static void pack_b_##terms(int64_t k, int64_t n, const void *b, int64_t row, int64_t column, void *panels,         \
                               int64_t stride)                                                                         \
    {                                                                                                                  \
        pack_b_terms(terms, k, n, b, row, column, panels, stride);                                                     \
    }                                                                                                                  \
    static void block_##terms(const th_product_block *block)                                                           \
    {                                                                                                                  \
        const unsigned int before = _mm_getcsr();                                                                      \
        _mm_setcsr(AS_TILES_ROUND);                                                                                    \
        multiply_tiles_##terms(block);                                                                                 \
        _mm_setcsr(before);                                                                                            \
    }                                                                                                                  \
    static void block_##terms(const th_product_block *block)
KERNELS(1);
KERNELS(2);
#undef KERNELS

extern const th_product_kernels TH_KERNEL(product_chains)[2];

/* [terms - 1] */
const th_product_kernels TH_KERNEL(product_chains)[2] = {
    {CHAIN_ROWS, TILE_COLUMNS, TH_TERM_GROUP, TH_TERM_GROUP, pack_a_1, pack_b_1, block_1},
    {CHAIN_ROWS, TILE_COLUMNS, TH_TERM_GROUP, 2 * TH_TERM_GROUP, pack_a_2, pack_b_2, block_2},
};

#endif
