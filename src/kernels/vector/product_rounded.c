/* Products of float32 matrices whose operands are rounded to bfloat16, where the processor has no dot products of
 * those: panels are packed and multiplied as ever, and rounded in between. */
#include "kernels/vector/bfloat16.h"
#include "kernels/vector/product.h"

#if TH_REAL_BITS == 32

static void round_panel(int64_t count, void *panel)
{
    typedef uint32_t bits __attribute__((may_alias));
    bits *x = panel;
    for (int64_t i = 0; i < count; i++)
        x[i] = round_to_bfloat16(x[i]);
}

static void pack_a(int64_t m, int64_t k, const void *a, int64_t row, int64_t column, void *panels)
{
    TH_KERNEL(product_pack_a)(m, k, a, row, column, panels);
    round_panel((m + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS * k, panels);
}

static void pack_b(int64_t k, int64_t n, const void *b, int64_t row, int64_t column, void *panels, int64_t stride)
{
    TH_KERNEL(product_pack_b)(k, n, b, row, column, panels, stride);
    for (int64_t j = 0; j < n; j += TILE_COLUMNS)
        round_panel(k * TILE_COLUMNS, (real *)panels + j / TILE_COLUMNS * stride);
}

extern const th_product_kernels TH_KERNEL(bfloat16_kernels);

const th_product_kernels TH_KERNEL(bfloat16_kernels) = {1, pack_a, pack_b, TH_KERNEL(product_block)};

#endif
