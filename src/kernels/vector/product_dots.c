/* Products of bfloat16 terms by the processor's dot products of pairs (AVX-512 with BF16, the only instance of this
 * file). One of them is two fused multiply-adds, the upper product first, with denormal numbers taken and given as 0: so
 * pairs of steps 4q (upper half) and 4q + 2 make two links of product.h's even chain, and 4q + 1 and 4q + 3 two of the
 * odd one. Operands are never read in place.
 *
 * Panels hold pairs, of the even and the odd chain in turn: A as [group of k][term][row][pair], from which a tile takes
 * one pair at a time; B as [group of k][term][pair][column]. What is not there is 0. */
#include <immintrin.h>

#include "kernels/vector/bfloat16_registers.h"
#include "kernels/vector/product.h"
#include "kernels/vector/registers.h"
#include "kernels/vector/transpose.h"

typedef uint32_t pair; /* of bfloat16 numbers */
typedef pair pairs __attribute__((vector_size(TH_VECTOR_BYTES), aligned(4), may_alias));

enum {
    GROUP_PAIRS = TH_TERM_GROUP / 2,
    QUADS_OF_STEPS = TH_TERM_GROUP / 4, /* in a group; a pair of the even chain and one of the odd chain each */
    A_GROUP = TILE_ROWS * GROUP_PAIRS,
    B_GROUP = TILE_COLUMNS * GROUP_PAIRS
};

/* -- packing -- */

/* A matrix as packing sees it: `lines` rows of A or columns of B, of k steps each. */
typedef struct dot_source {
    int64_t lines, k;
    const float *at;
    int64_t line, step; /* strides */
} dot_source;

/* A register for each of 16 lines, with the pairs of a group; or for each pair, with 16 lines. */
typedef vec square[MOST_TERMS][TERM_LANES];

TH_INLINE __mmask16 lanes_given(int64_t count)
{
    return (__mmask16)(count >= TERM_LANES ? 0xffff : count <= 0 ? 0 : (1 << count) - 1);
}

/* 32 steps of a line to the pairs of the chains. */
TH_INLINE __m512i in_chains(__m512i steps)
{
    const __m128i order = _mm_setr_epi8(4, 5, 0, 1, 6, 7, 2, 3, 12, 13, 8, 9, 14, 15, 10, 11);
    return _mm512_shuffle_epi8(steps, _mm512_broadcast_i32x4(order));
}

/* Lines first ... of one group, whose steps are neighbours in memory: a register for each line. */
TH_INLINE void take_lines(int terms, const float *from, int64_t line, int64_t lines, int64_t steps, square to)
{
    const __mmask16 low = lanes_given(steps), high = lanes_given(steps - TERM_LANES);
    UNROLLED_FOR (int i = 0; i < TERM_LANES; i++) {
        const float *at = from + (i < lines ? i : lines - 1) * line;
        __m512i term[MOST_TERMS];
        split_in_order(terms, _mm512_maskz_loadu_ps(low, at), _mm512_maskz_loadu_ps(high, at + TERM_LANES), term);
        UNROLLED_FOR (int t = 0; t < terms; t++)
            to[t][i] = (vec)in_chains(term[t]);
    }
}

/* Where lines are neighbours in memory: a register for each pair. */
TH_INLINE void take_steps(int terms, const float *from, int64_t step, int64_t lines, int64_t steps, square to)
{
    const __mmask16 given = lanes_given(lines);
    UNROLLED_FOR (int i = 0; i < GROUP_PAIRS; i++) {
        const int first = i / 2 * 4 + i % 2; /* step of the pair */
        const __m512 high = _mm512_maskz_loadu_ps(first < steps ? given : 0, from + first * step);
        const __m512 low = _mm512_maskz_loadu_ps(first + 2 < steps ? given : 0, from + (first + 2) * step);
        __m512i term[MOST_TERMS];
        split_in_pairs(terms, low, high, term);
        UNROLLED_FOR (int t = 0; t < terms; t++)
            to[t][i] = (vec)term[t];
    }
}

/* Any strides. */
static __attribute__((noinline)) void gather_lines(const float *from, int64_t line, int64_t step, int64_t lines,
                                                   int64_t steps, float to[TERM_LANES][TH_TERM_GROUP])
{
    for (int64_t i = 0; i < lines; i++)
        for (int64_t j = 0; j < steps; j++)
            to[i][j] = from[i * line + j * step];
}

/* 16 lines of a group, or as many as there are: a register for each line, or (by_pair) for each pair. */
TH_INLINE void take(int terms, bool by_pair, const dot_source *s, int64_t first, int64_t group, square to)
{
    const int64_t lines = s->lines - first < TERM_LANES ? s->lines - first : TERM_LANES;
    const int64_t steps = s->k - group < TH_TERM_GROUP ? s->k - group : TH_TERM_GROUP;
    const float *from = s->at + first * s->line + group * s->step;
    const bool neighbours = s->line == 1 && s->step != 1;
    if (neighbours) {
        take_steps(terms, from, s->step, lines, steps, to);
    } else if (s->step == 1) {
        take_lines(terms, from, s->line, lines, steps, to);
    } else {
        float gathered[TERM_LANES][TH_TERM_GROUP];
        gather_lines(from, s->line, s->step, lines, steps, gathered);
        take_lines(terms, gathered[0], TH_TERM_GROUP, lines, steps, to);
    }
    if (neighbours != by_pair)
        UNROLLED_FOR (int t = 0; t < terms; t++)
            transpose_registers(to[t]);
}

TH_INLINE void pack_a_dots(int terms, int64_t m, int64_t k, const void *a, int64_t row, int64_t column, void *panels)
{
    const dot_source s = {m, k, a, row, column};
    const int64_t panel = (k + TH_TERM_GROUP - 1) / TH_TERM_GROUP * terms * A_GROUP;
    for (int64_t group = 0; group < k; group += TH_TERM_GROUP)
        for (int64_t first = 0; first < m; first += TERM_LANES) {
            square rows;
            take(terms, false, &s, first, group, rows);
            for (int t = 0; t < terms; t++)
                for (int64_t i = 0; i < TERM_LANES && first + i < m; i++)
                    *(vec *)((pair *)panels + (first + i) / TILE_ROWS * panel +
                             (group / TH_TERM_GROUP * terms + t) * A_GROUP + (first + i) % TILE_ROWS * GROUP_PAIRS) =
                        rows[t][i];
        }
}

TH_INLINE void pack_b_dots(int terms, int64_t k, int64_t n, const void *b, int64_t row, int64_t column, void *panels,
                           int64_t stride)
{
    const dot_source s = {n, k, b, column, row};
    for (int64_t group = 0; group < k; group += TH_TERM_GROUP)
        for (int64_t first = 0; first < n; first += TERM_LANES) {
            square pair_rows;
            take(terms, true, &s, first, group, pair_rows);
            pair *to = (pair *)panels + first / TILE_COLUMNS * stride + group / TH_TERM_GROUP * terms * B_GROUP +
                       first % TILE_COLUMNS;
            for (int t = 0; t < terms; t++)
                UNROLLED_FOR (int i = 0; i < GROUP_PAIRS; i++)
                    *(vec *)(to + t * B_GROUP + i * TILE_COLUMNS) = pair_rows[t][i];
        }
}

/* -- tiles -- */

enum { DOT_ROWS = TILE_ROWS / 2, DOT_REGISTERS = 2 }; /* with two chains, 24 registers */

typedef vec dot_sums[DOT_ROWS][DOT_REGISTERS] __attribute__((aligned(TH_VECTOR_BYTES)));

typedef struct dot_tile {
    const pair *a, *b;
    int64_t k;
} dot_tile;

/* sum += the upper products, then the lower ones. */
TH_INLINE vec add_products(vec sum, pairs a, pairs b)
{
    return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}

/* c += a b over one group of steps. */
TH_INLINE void add_dots(int rows, int registers, const pair *a, const pair *b, vec (*c)[DOT_REGISTERS])
{
    vec chain[2][DOT_ROWS][DOT_REGISTERS];
    UNROLLED_FOR (int i = 0; i < rows; i++)
        UNROLLED_FOR (int j = 0; j < registers; j++)
            chain[0][i][j] = chain[1][i][j] = (vec){0};
    for (int quad = 0; quad < QUADS_OF_STEPS; quad++) {
        UNROLLED_FOR (int odd = 0; odd < 2; odd++) {
            pairs columns[DOT_REGISTERS];
            UNROLLED_FOR (int j = 0; j < registers; j++)
                columns[j] = *(const pairs *)(b + odd * TILE_COLUMNS + j * TH_REGISTER_LANES);
            UNROLLED_FOR (int i = 0; i < rows; i++) {
                const pairs broadcast = a[i * GROUP_PAIRS + odd] - (pairs){0};
                UNROLLED_FOR (int j = 0; j < registers; j++)
                    chain[odd][i][j] = add_products(chain[odd][i][j], broadcast, columns[j]);
            }
        }
        a += 2;
        b += 2 * TILE_COLUMNS;
    }
    UNROLLED_FOR (int i = 0; i < rows; i++)
        UNROLLED_FOR (int j = 0; j < registers; j++)
            c[i][j] = c[i][j] + (chain[0][i][j] + chain[1][i][j]);
}

typedef void dots_function(const dot_tile *t, vec (*c)[DOT_REGISTERS]);

/* c += the products of terms, of operands that have `terms` of them. */
TH_INLINE void add_groups(int terms, int rows, int registers, const dot_tile *t, vec (*c)[DOT_REGISTERS])
{
    const pair *a = t->a, *b = t->b;
    for (int64_t step = 0; step < t->k; step += TH_TERM_GROUP) {
        add_dots(rows, registers, a, b, c);
        if (terms == 2) {
            add_dots(rows, registers, a, b + B_GROUP, c);
            add_dots(rows, registers, a + A_GROUP, b, c);
        }
        a += terms * A_GROUP;
        b += terms * B_GROUP;
    }
}

#define DOTS(rows)                                                                                                     \
    static void dots_1_##rows(const dot_tile *t, vec (*c)[DOT_REGISTERS])                                              \
    {                                                                                                                  \
        add_groups(1, rows, 2, t, c);                                                                                  \
    }                                                                                                                  \
    static void dots_2_##rows(const dot_tile *t, vec (*c)[DOT_REGISTERS])                                              \
    {                                                                                                                  \
        add_groups(2, rows, 2, t, c);                                                                                  \
    }                                                                                                                  \
    static dots_function dots_1_##rows, dots_2_##rows
DOTS(1);
DOTS(2);
DOTS(3);
DOTS(4);
DOTS(5);
DOTS(6);
#undef DOTS

/* [terms - 1][rows - 1] */
static dots_function *const dots[MOST_TERMS][DOT_ROWS] = {
    {dots_1_1, dots_1_2, dots_1_3, dots_1_4, dots_1_5, dots_1_6},
    {dots_2_1, dots_2_2, dots_2_3, dots_2_4, dots_2_5, dots_2_6},
};

/* The first term of both, where they have two. */
static __attribute__((noinline)) void add_first_terms(const dot_tile *t, vec (*c)[DOT_REGISTERS])
{
    const pair *a = t->a, *b = t->b;
    for (int64_t step = 0; step < t->k; step += TH_TERM_GROUP) {
        for (int i = 0; i < DOT_ROWS; i++)
            add_dots(1, DOT_REGISTERS, a + i * GROUP_PAIRS, b, c + i);
        a += MOST_TERMS * A_GROUP;
        b += MOST_TERMS * B_GROUP;
    }
}

/* The part of C that one tile computes. */
typedef struct dot_place {
    int64_t rows, columns;
    float *c;
    int64_t c_row;
    const float *init;
    int64_t init_row;
} dot_place;

static void load_init(const dot_place *p, dot_sums c)
{
    for (int64_t i = 0; i < p->rows; i++) {
        const float *from = p->init + i * p->init_row;
        if (!p->init)
            c[i][0] = c[i][1] = (vec){0};
        else if (p->columns == TILE_COLUMNS)
            memcpy(c[i], from, sizeof c[i]);
        else
            memcpy(c[i], from, (size_t)p->columns * sizeof(float));
    }
}

static void store_c(const dot_place *p, dot_sums c)
{
    for (int64_t i = 0; i < p->rows; i++) {
        float *to = p->c + i * p->c_row;
        if (p->columns == TILE_COLUMNS)
            memcpy(to, c[i], sizeof c[i]);
        else
            memcpy(to, c[i], (size_t)p->columns * sizeof(float));
    }
}

static bool any_nan_sum(int64_t rows, dot_sums c)
{
    vec_int any = {0};
    for (int64_t i = 0; i < rows; i++)
        any |= (c[i][0] != c[i][0]) | (c[i][1] != c[i][1]);
    return vec_any(any);
}

/* Computes elements that are NaN again, from the first terms. */
static __attribute__((noinline)) void mend(const dot_tile *t, const dot_place *p, dot_sums c)
{
    dot_sums first;
    load_init(p, first);
    add_first_terms(t, first);
    for (int64_t i = 0; i < p->rows; i++)
        for (int j = 0; j < DOT_REGISTERS; j++)
            c[i][j] = vec_select(c[i][j] != c[i][j], first[i][j], c[i][j]);
}

static __attribute__((noinline)) void multiply_dots(int terms, const th_product_block *block)
{
    dot_sums c = {0};
    dot_tile t = {.k = block->k};
    dot_place p = {.c_row = block->c_row, .init_row = block->init_row};
    for (int64_t j = 0; j < block->n; j += TILE_COLUMNS) {
        t.b = (const pair *)block->b + j / TILE_COLUMNS * block->b_panel;
        p.columns = block->n - j < TILE_COLUMNS ? block->n - j : TILE_COLUMNS;
        for (int64_t i = 0; i < block->m; i += DOT_ROWS) {
            t.a = (const pair *)block->a + i / TILE_ROWS * block->a_panel + i % TILE_ROWS * GROUP_PAIRS;
            p.rows = block->m - i < DOT_ROWS ? block->m - i : DOT_ROWS;
            p.c = (float *)block->c + i * block->c_row + j;
            p.init = block->init ? (const float *)block->init + i * block->init_row + j : NULL;
            load_init(&p, c);
            dots[terms - 1][p.rows - 1](&t, c);
            if (terms == 2 && any_nan_sum(p.rows, c))
                mend(&t, &p, c);
            store_c(&p, c);
        }
    }
}

/* -- as a driver sees it -- */

enum { AS_TILES_ROUND = 0x9fc0 }; /* of MXCSR: exceptions masked, to nearest, denormals taken and given as 0 */

#define KERNELS(terms)                                                                                                 \
    static void pack_a_##terms(int64_t m, int64_t k, const void *a, int64_t row, int64_t column, void *panels)         \
    {                                                                                                                  \
        pack_a_dots(terms, m, k, a, row, column, panels);                                                              \
    }                                                                                                                  \
    static void pack_b_##terms(int64_t k, int64_t n, const void *b, int64_t row, int64_t column, void *panels,         \
                               int64_t stride)                                                                         \
    {                                                                                                                  \
        pack_b_dots(terms, k, n, b, row, column, panels, stride);                                                      \
    }                                                                                                                  \
    static void block_##terms(const th_product_block *block)                                                           \
    {                                                                                                                  \
        const unsigned int before = _mm_getcsr();                                                                      \
        _mm_setcsr(AS_TILES_ROUND);                                                                                    \
        multiply_dots(terms, block);                                                                                   \
        _mm_setcsr(before);                                                                                            \
    }                                                                                                                  \
    static void block_##terms(const th_product_block *block)
KERNELS(1);
KERNELS(2);
#undef KERNELS

extern const th_product_kernels TH_KERNEL(product_dots)[MOST_TERMS];

/* [terms - 1] */
const th_product_kernels TH_KERNEL(product_dots)[MOST_TERMS] = {
    {TILE_ROWS, TILE_COLUMNS, TH_TERM_GROUP, GROUP_PAIRS, pack_a_1, pack_b_1, block_1},
    {TILE_ROWS, TILE_COLUMNS, TH_TERM_GROUP, 2 * GROUP_PAIRS, pack_a_2, pack_b_2, block_2},
};
