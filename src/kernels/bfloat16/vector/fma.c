/* Products of bfloat16 parts with fused multiply-adds, for processors without a faster instruction. A tile of C is as
 * wide as in float32. For each group of steps it first computes the even sum of product.h, then the odd one. Operands
 * are packed first (fma_panels.h), except for few rows (fma_few_rows.h). */
#include "kernels/bfloat16/vector/fma_few_rows.h"
#include "kernels/bfloat16/vector/part_tiles.h"

enum { GROUP_OF_A = TH_PART_GROUP * TILE_ROWS, GROUP_OF_B = TH_PART_GROUP * TILE_COLUMNS };

/* sum = the sum over the even, or the odd, steps of a group. Prefetches B half a group ahead. */
TH_INLINE void multiply_half(int rows, int registers, const float *a, const float *b, vec sum[TILE_ROWS][2])
{
    UNROLLED_FOR (int i = 0; i < rows; i++)
        UNROLLED_FOR (int j = 0; j < registers; j++)
            sum[i][j] = (vec){0};
    for (int step = 0; step < HALF_GROUP; step++) {
        vec columns[2];
        UNROLLED_FOR (int j = 0; j < registers; j++)
            columns[j] = vec_load(b + j * TH_REGISTER_LANES);
        UNROLLED_FOR (int j = 0; j < registers * TH_REGISTER_LANES; j += 16)
            __builtin_prefetch(b + HALF_GROUP * TILE_COLUMNS + j);
        UNROLLED_FOR (int i = 0; i < rows; i++)
            UNROLLED_FOR (int j = 0; j < registers; j++)
                sum[i][j] += vec_broadcast(a[i]) * columns[j];
        a += TILE_ROWS;
        b += TILE_COLUMNS;
    }
}

/* c = c + (even + odd) over one group of steps. */
TH_INLINE void add_group(int rows, int registers, const float *a, const float *b, sum_row *c)
{
    sum_row even[TILE_ROWS];
    vec sum[TILE_ROWS][2];
    multiply_half(rows, registers, a, b, sum);
    UNROLLED_FOR (int i = 0; i < rows; i++)
        UNROLLED_FOR (int j = 0; j < registers; j++)
            vec_store(&even[i][j * TH_REGISTER_LANES], sum[i][j]);
    multiply_half(rows, registers, a + HALF_GROUP * TILE_ROWS, b + HALF_GROUP * TILE_COLUMNS, sum);
    UNROLLED_FOR (int i = 0; i < rows; i++)
        UNROLLED_FOR (int j = 0; j < registers; j++) {
            real *at = &c[i][j * TH_REGISTER_LANES];
            vec_store(at, vec_load(at) + (vec_load(&even[i][j * TH_REGISTER_LANES]) + sum[i][j]));
        }
}

typedef void fma_function(int parts, bool both, const tile_operands *t, sum_row *c);

TH_INLINE void multiply_groups(int rows, int registers, int parts, bool both, const tile_operands *t, sum_row *c)
{
    static const struct {
        int a, b;
    } product[] = {{0, 0}, {0, GROUP_OF_B}, {GROUP_OF_A, 0}};
    const float *a = t->a, *b = t->b;
    for (int64_t step = 0; step < t->k; step += TH_PART_GROUP) {
        for (int i = 0; i < (both ? 3 : 1); i++)
            add_group(rows, registers, a + product[i].a, b + product[i].b, c);
        a += parts * GROUP_OF_A;
        b += parts * GROUP_OF_B;
    }
}

/* Defines fma_tile_<rows>_<registers>. The numbers must be constants so that the loops are unrolled. */
#define FMA_TILE(rows, registers)                                                                                      \
    static __attribute__((noinline)) void fma_tile_##rows##_##registers(int parts, bool both, const tile_operands *t,  \
                                                                        sum_row *c)                                    \
    {                                                                                                                  \
        multiply_groups(rows, registers, parts, both, t, c);                                                           \
    }                                                                                                                  \
    static fma_function fma_tile_##rows##_##registers
#define FMA_TILES(rows)                                                                                                \
    FMA_TILE(rows, 1);                                                                                                 \
    FMA_TILE(rows, 2)

FMA_TILES(1);
FMA_TILES(2);
FMA_TILES(3);
FMA_TILES(4);
FMA_TILES(5);
FMA_TILES(6);
#if TH_VECTOR_REGISTERS == 32
FMA_TILES(7);
FMA_TILES(8);
FMA_TILES(9);
FMA_TILES(10);
FMA_TILES(11);
FMA_TILES(12);
#endif
#undef FMA_TILE
#undef FMA_TILES

/* [rows - 1][one or two registers] */
static fma_function *const fma_functions[TILE_ROWS][2] = {
    {fma_tile_1_1, fma_tile_1_2},   {fma_tile_2_1, fma_tile_2_2},   {fma_tile_3_1, fma_tile_3_2},
    {fma_tile_4_1, fma_tile_4_2},   {fma_tile_5_1, fma_tile_5_2},   {fma_tile_6_1, fma_tile_6_2},
#if TH_VECTOR_REGISTERS == 32
    {fma_tile_7_1, fma_tile_7_2},   {fma_tile_8_1, fma_tile_8_2},   {fma_tile_9_1, fma_tile_9_2},
    {fma_tile_10_1, fma_tile_10_2}, {fma_tile_11_1, fma_tile_11_2}, {fma_tile_12_1, fma_tile_12_2},
#endif
};

#ifdef __aarch64__
/* As add_group, for sums that pass through tiny numbers (fma_underflow.h). */
TH_INLINE void add_tiny_group(int64_t rows, const float *a, const float *b, sum_row *c)
{
    for (int64_t i = 0; i < rows; i++)
        for (int j = 0; j < TILE_COLUMNS; j += TH_REGISTER_LANES) {
            vec half[2] = {{0}, {0}};
            for (int step = 0; step < TH_PART_GROUP; step++) {
                vec *sum = &half[step / HALF_GROUP];
                *sum = flushing_mul_add(vec_broadcast(a[step * TILE_ROWS + i]), vec_load(b + step * TILE_COLUMNS + j),
                                        *sum);
            }
            vec_store(&c[i][j], flushing_add_sums(vec_load(&c[i][j]), half[0], half[1]));
        }
}

/* As multiply_groups. */
static __attribute__((noinline)) void add_tiny_tile(int parts, bool both, int64_t rows, const tile_operands *t,
                                                    sum_row *c)
{
    const float *a = t->a, *b = t->b;
    for (int64_t step = 0; step < t->k; step += TH_PART_GROUP) {
        add_tiny_group(rows, a, b, c);
        if (both) {
            add_tiny_group(rows, a, b + GROUP_OF_B, c);
            add_tiny_group(rows, a + GROUP_OF_A, b, c);
        }
        a += parts * GROUP_OF_A;
        b += parts * GROUP_OF_B;
    }
}
#endif

TH_INLINE void add_fma_tile(int parts, bool both, int64_t rows, const tile_operands *t, sum_row *c)
{
    fma_functions[rows - 1][t->columns > TH_REGISTER_LANES](parts, both, t, c);
#ifdef __aarch64__
    if (th_float_underflowed(c)) {
        th_float_state_set(TH_FLOAT_USUAL);
        load_sums(rows, t, c);
        add_tiny_tile(parts, both, rows, t, c);
        th_float_state_set(TH_FLOAT_FLUSH);
    }
#endif
}

TH_INLINE void multiply_fma(int parts, const th_product_block *block)
{
    multiply_tiles(parts, TILE_ROWS, 0, add_fma_tile, block);
}

static void few_rows(const th_product_block *block)
{
    multiply_in_state(few_rows_fma, block);
}

static void few_rows_stored(const th_product_block *block)
{
    multiply_in_state(few_rows_stored_fma, block);
}

/* -- the functions of th_product_kernels -- */

TH_INLINE void pack_fma(int parts, bool of_a, const part_operand *operand)
{
    pack_parts(parts, of_a ? TILE_ROWS : TILE_COLUMNS, operand);
}

PART_KERNELS(1, pack_fma, multiply_fma, GROUP_OF_A);
PART_KERNELS(2, pack_fma, multiply_fma, GROUP_OF_A);

extern const th_product_kernels TH_KERNEL(product_fma)[MAX_PARTS];

/* [parts - 1] */
const th_product_kernels TH_KERNEL(product_fma)[MAX_PARTS] = {
    {"fma", TILE_ROWS, TILE_COLUMNS, TH_PART_GROUP, TH_PART_GROUP, pack_a_1, pack_b_1, block_1, pack_a_1, few_rows,
     few_rows_stored},
    {"fma", TILE_ROWS, TILE_COLUMNS, TH_PART_GROUP, 2 * TH_PART_GROUP, pack_a_2, pack_b_2, block_2, NULL, NULL, NULL},
};
