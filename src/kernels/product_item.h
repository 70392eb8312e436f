/* What product.c asks of the two backends. An item is a th_product without batch dimensions (which are not looked at)
 * and with m, n > 0; `threads` of it may run at once, and each backend says how much workspace it takes for that. */
#ifndef TH_KERNELS_PRODUCT_ITEM_H
#define TH_KERNELS_PRODUCT_ITEM_H

#include "kernels/kernels.h"
#include "kernels/product.h"

enum {
    TH_ITEM_ALIGNMENT = 64,
    TH_ITEM_SERIAL = 400000, /* multiply-adds below which a team costs more than it brings */
    TH_ITEM_TASK = 200000    /* multiply-adds that a task should have at least */
};

size_t th_product_native_workspace(const th_machine *machine, th_dtype dtype, const th_product *item, int threads);
void th_product_native_run(const th_machine *machine, th_dtype dtype, const th_product *item, int threads,
                           void *workspace);

size_t th_product_openblas_workspace(const th_machine *machine, th_dtype dtype, const th_product *item, int threads);
void th_product_openblas_run(const th_machine *machine, th_dtype dtype, const th_product *item, int threads,
                             void *workspace);

/* Whether its operands are rounded to bfloat16: then our own tiles multiply, whatever the machine's backend. */
static inline bool th_item_is_rounded(const th_machine *machine, th_dtype dtype, const th_product *item)
{
    return machine->bfloat16_products && dtype == TH_FLOAT32 && !item->exact;
}

/* C = residual + bias in rows row .. row + rows - 1 and columns column .. column + columns - 1. */
void th_product_residual(const th_kernels *kernels, int64_t size, const th_product *p, int64_t row, int64_t rows,
                         int64_t column, int64_t columns);

/* Bytes of an element. */
static inline int64_t th_item_size(th_dtype dtype)
{
    return dtype == TH_FLOAT64 ? (int64_t)sizeof(double) : (int64_t)sizeof(float);
}

static inline int64_t th_item_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* a / b rounded up, for a >= 0 and b > 0. */
static inline int64_t th_item_parts(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

static inline size_t th_item_aligned(size_t bytes)
{
    return (bytes + TH_ITEM_ALIGNMENT - 1) / TH_ITEM_ALIGNMENT * TH_ITEM_ALIGNMENT;
}

/* Multiply-adds as a double: three sizes multiplied may be more than an int64_t holds. */
static inline double th_item_work(const th_product *item)
{
    return (double)item->m * (double)item->n * (double)item->k;
}

#endif
