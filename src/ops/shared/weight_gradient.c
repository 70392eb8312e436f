/* The gradient of a dense layer's weight: see weight_gradient.h. */
#include "ops/shared/weight_gradient.h"

#include "ops/shared/scratch.h"

/* The block of rows from `first` on of one term of dW, as a product of its own. */
static th_product block_at(const th_product *term, int64_t first, size_t element)
{
    th_product block = *term;
    block.k = term->k - first < TH_PRODUCT_BLOCK ? term->k - first : TH_PRODUCT_BLOCK;
    if (first > 0) {
        block.a = (const char *)term->a + first * term->a_col * (int64_t)element;
        block.b = (const char *)term->b + first * term->b_row * (int64_t)element;
        block.add = true;
    }
    return block;
}

/* The same with the rows of x from memory of their own, (count, n), which lies in memory in x's order. */
static th_product with_copied_rows(const th_product *block, void *copy)
{
    const bool columns_first = block->b_row == 1 && block->b_col != 1;
    th_product copied = *block;
    copied.b = copy;
    copied.b_row = columns_first ? 1 : block->n;
    copied.b_col = columns_first ? block->k : 1;
    return copied;
}

/* Which rows of the block are idle (all of dy is 0) and not finite. */
static bool find_idle(const th_kernels *kernels, const th_product *block, bool *idle)
{
    bool found = false;
    kernels->idle_rows(block->k, block->m, block->a, block->a_col, block->a_row, block->n, block->b, block->b_row,
                       block->b_col, idle, &found);
    return found;
}

static bool has_idle(const th_kernels *kernels, const th_product *term, size_t element)
{
    bool idle[TH_PRODUCT_BLOCK], found = false;
    for (int64_t first = 0; first < term->k && !found; first += TH_PRODUCT_BLOCK) {
        const th_product block = block_at(term, first, element);
        found = find_idle(kernels, &block, idle);
    }
    return found;
}

/* Blocks of TH_PRODUCT_BLOCK rows add up to the bits of one product, so that a block with idle rows that are not finite
 * can be multiplied from a copy. */
void th_weight_gradient_run(const th_context *ctx, const th_product_call *dw, void *copy, void *workspace)
{
    const th_kernels *kernels = th_context_kernels(ctx, dw->dtype);
    const size_t element = th_dtype_size(dw->dtype);
    bool idle[TH_PRODUCT_BLOCK];
    for (int64_t t = 0, terms = th_product_call_terms(dw); t < terms; t++) {
        const th_product term = th_product_call_term(dw, t);
        if (!has_idle(kernels, &term, element)) {
            th_product_run(&ctx->machine, dw->dtype, &term, ctx->threads, workspace);
            continue;
        }
        for (int64_t first = 0; first < term.k; first += TH_PRODUCT_BLOCK) {
            th_product block = block_at(&term, first, element);
            if (find_idle(kernels, &block, idle)) {
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

/* For whole terms, and for full and last blocks, as they lie or copied. */
size_t th_weight_gradient_workspace(const th_context *ctx, const th_product_call *dw)
{
    size_t most = th_product_call_workspace(ctx, dw);
    const int64_t last = dw->product.k % TH_PRODUCT_BLOCK;
    for (int i = 0; i < 2; i++) {
        th_product block = block_at(&dw->product, 0, 0);
        block.k = i == 0 ? block.k : last;
        const th_product copied = with_copied_rows(&block, NULL);
        most = th_scratch_larger(most, th_product_workspace(&ctx->machine, dw->dtype, &block, ctx->threads));
        most = th_scratch_larger(most, th_product_workspace(&ctx->machine, dw->dtype, &copied, ctx->threads));
    }
    return most;
}

int64_t th_weight_gradient_copy(const th_product_call *dw)
{
    return block_at(&dw->product, 0, 0).k * dw->product.n;
}
