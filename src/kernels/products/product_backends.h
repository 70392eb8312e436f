/* What product.c asks of the two backends: one product, which is a th_product whose batch dimensions are not looked at,
 * with m, n > 0. `threads` of a backend's tasks may run at once, and it says how much workspace it takes for that. */
#ifndef TH_KERNELS_PRODUCTS_PRODUCT_BACKENDS_H
#define TH_KERNELS_PRODUCTS_PRODUCT_BACKENDS_H

#include "kernels/kernels.h"
#include "kernels/products/product.h"
#include "kernels/products/product_block.h"
#include "kernels/sizes.h"

enum {
    TH_PRODUCT_SERIAL = 400000, /* multiply-adds below which a team costs more than it brings */
    TH_PRODUCT_TASK = 200000    /* multiply-adds that a task should have at least */
};

size_t th_product_native_workspace(const th_machine *machine, th_dtype dtype, const th_product *product, int threads);
void th_product_native_run(const th_machine *machine, th_dtype dtype, const th_product *product, int threads,
                           void *workspace);

size_t th_product_openblas_workspace(const th_machine *machine, th_dtype dtype, const th_product *product, int threads);
void th_product_openblas_run(const th_machine *machine, th_dtype dtype, const th_product *product, int threads,
                             void *workspace);

/* The precision of every sum that is not short, and of all sums of attention. */
static inline th_precision th_long_sum_precision(const th_machine *machine, th_dtype dtype)
{
    return dtype == TH_FLOAT32 ? machine->precision : TH_PRECISION_FLOAT32;
}

/* The precision of this product. If it is not float32 our own tiles multiply, whatever the machine's backend. */
static inline th_precision th_product_precision(const th_machine *machine, th_dtype dtype, const th_product *product)
{
    const bool short_sum = product->k < TH_SHORT_SUM && !product->long_sum;
    return short_sum && machine->precision == TH_PRECISION_BFLOAT16X3 ? TH_PRECISION_FLOAT32
                                                                      : th_long_sum_precision(machine, dtype);
}

/* C = residual + bias in rows row .. row + rows - 1 and columns column .. column + columns - 1. */
void th_product_residual(const th_kernels *kernels, int64_t size, const th_product *p, int64_t row, int64_t rows,
                         int64_t column, int64_t columns);

/* Multiply-adds as a double: three sizes multiplied may be more than an int64_t holds. */
static inline double th_product_work(const th_product *product)
{
    return (double)product->m * (double)product->n * (double)product->k;
}

#endif
