/* The gradient of a dense layer's weight: see weight_gradient.h. */
#include "ops/shared/weight_gradient.h"

#include <stdatomic.h>

#include "tensor/threaded_loop.h"

th_weight_gradient th_weight_gradient_of(const th_array *dy, const th_array *x, const th_array *dw)
{
    const th_array dyt = th_array_transposed(dy);
    return (th_weight_gradient){.product = th_product_call_of(&dyt, x, dw)};
}

/* Returns up to TH_PRODUCT_BLOCK rows, from row `first` on, of one of the products whose sum is dW. The block has the
 * precision of the whole sum, because th_product_call_of sets long_sum. */
static th_product block_at(const th_product *product, int64_t first, size_t element)
{
    th_product block = *product;
    block.k = product->k - first < TH_PRODUCT_BLOCK ? product->k - first : TH_PRODUCT_BLOCK;
    if (first > 0) {
        block.a = (const char *)product->a + first * product->a_col * (int64_t)element;
        block.b = (const char *)product->b + first * product->b_row * (int64_t)element;
        block.add = true;
    }
    return block;
}

/* Returns the same block, which reads the rows of x from `copy` (count, n). The copy has the same order of axes in
 * memory as x. */
static th_product with_copied_rows(const th_product *block, void *copy)
{
    const bool columns_first = block->b_row == 1 && block->b_col != 1;
    th_product copied = *block;
    copied.b = copy;
    copied.b_row = columns_first ? 1 : block->n;
    copied.b_col = columns_first ? block->k : 1;
    return copied;
}

/* Sets idle[i] to whether row i of the block is idle (its dy is all 0) and its x is not finite. Returns whether there
 * is such a row. */
static bool find_idle_rows(const th_kernels *kernels, const th_product *block, bool *idle)
{
    bool found = false;
    kernels->idle_rows(block->k, block->m, block->a, block->a_col, block->a_row, block->n, block->b, block->b_row,
                       block->b_col, idle, &found);
    return found;
}

/* The search for such rows in all blocks. */
typedef struct idle_search {
    const th_kernels *kernels;
    const th_product *product;
    size_t element;
    atomic_bool found;
} idle_search;

static void search_rows(void *shared, int64_t first, int64_t end, int worker)
{
    (void)worker;
    idle_search *search = shared;
    bool idle[TH_PRODUCT_BLOCK];
    for (; first < end; first += TH_PRODUCT_BLOCK) {
        th_product block = block_at(search->product, first, search->element);
        block.k = block.k < end - first ? block.k : end - first;
        if (find_idle_rows(search->kernels, &block, idle))
            atomic_store_explicit(&search->found, true, memory_order_relaxed);
    }
}

/* Returns whether any row is idle and not finite. If dy is too large for an L2 cache, the team searches: most time is
 * then the wait for the first element of each row. */
static bool has_idle_rows(const th_context *ctx, const th_kernels *kernels, const th_product *product, size_t element)
{
    enum { ROW_COST = 64, LARGE = 1 << 20 };
    idle_search search = {.kernels = kernels, .product = product, .element = element};
    if (product->k * product->m < LARGE)
        search_rows(&search, 0, product->k, 0);
    else
        th_for_rows(ctx, product->k, ROW_COST, search_rows, &search);
    return atomic_load_explicit(&search.found, memory_order_relaxed);
}

/* Reserves workspace for whole products, and for full and last blocks, copied or not. */
void th_weight_gradient_reserve(const th_call *call, th_weight_gradient *gradient)
{
    const th_context *ctx = call->ctx;
    const th_product *dw = &gradient->product.product;
    const th_dtype dtype = gradient->product.dtype;
    th_product block = block_at(dw, 0, 0);
    gradient->copy = th_plan_scratch(call, block.k * dw->n, th_dtype_size(dtype));
    th_product_call_reserve(call, &gradient->product);
    for (int last = 0; last < 2; last++) {
        block.k = last ? dw->k % TH_PRODUCT_BLOCK : block.k;
        const th_product copied = with_copied_rows(&block, NULL);
        const th_product *const either[] = {&block, &copied};
        for (int i = 0; i < 2; i++) {
            th_plan_reuse(call, gradient->product.workspace);
            th_plan_scratch(call, 1, th_product_workspace(&ctx->machine, dtype, either[i], ctx->threads));
        }
    }
}

/* Blocks of TH_PRODUCT_BLOCK rows add up to the bits of one product. So a block with idle rows that are not finite
 * can be multiplied from a copy in which these rows are 0. */
void th_weight_gradient_run(const th_call *call, const th_weight_gradient *gradient, bool add)
{
    const th_context *ctx = call->ctx;
    const th_product_call *dw = &gradient->product;
    const th_kernels *kernels = th_context_kernels(ctx, dw->dtype);
    const size_t element = th_dtype_size(dw->dtype);
    void *workspace = th_call_scratch(call, dw->workspace), *copy = th_call_scratch(call, gradient->copy);
    bool idle[TH_PRODUCT_BLOCK];
    for (int64_t t = 0, products = th_product_call_count(dw); t < products; t++) {
        const th_product product = th_product_call_at(dw, t, add);
        if (!has_idle_rows(ctx, kernels, &product, element)) {
            th_product_run(&ctx->machine, dw->dtype, &product, ctx->threads, workspace);
            continue;
        }
        for (int64_t first = 0; first < product.k; first += TH_PRODUCT_BLOCK) {
            th_product block = block_at(&product, first, element);
            if (find_idle_rows(kernels, &block, idle)) {
                const th_product copied = with_copied_rows(&block, copy);
                kernels->product_copy(block.k, block.n, block.b, block.b_row, block.b_col, copy, copied.b_row,
                                      copied.b_col);
                for (int64_t i = 0; i < block.k; i++)
                    if (idle[i])
                        kernels->product_copy(1, block.n, th_zero((int64_t)element), 0, 0,
                                              (char *)copy + i * copied.b_row * (int64_t)element, 0, copied.b_col);
                block = copied;
            }
            th_product_run(&ctx->machine, dw->dtype, &block, ctx->threads, workspace);
        }
    }
}
