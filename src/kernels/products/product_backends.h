/* The interface of the backends: product_native.c, product_openblas.c, and product_int8.c for products that
 * th_product_is_int8 selects. Each runs one product with m, n > 0 and ignores its batch dimensions. Up to `threads`
 * tasks of a backend run at once; the workspace has memory for all of them. */
#ifndef TH_KERNELS_PRODUCTS_PRODUCT_BACKENDS_H
#define TH_KERNELS_PRODUCTS_PRODUCT_BACKENDS_H

#include "kernels/kernels.h"
#include "kernels/machine/machine.h"

typedef struct th_product th_product; /* product.h */

enum {
    TH_PRODUCT_SERIAL = 400000, /* multiply-adds; below, a team costs more than it saves */
    TH_PRODUCT_TASK = 200000    /* multiply-adds that a task should have at least */
};

size_t th_product_native_workspace(const th_machine *machine, th_dtype dtype, const th_product *product, int threads);
void th_product_native_run(const th_machine *machine, th_dtype dtype, const th_product *product, int threads,
                           void *workspace);

size_t th_product_openblas_workspace(const th_machine *machine, th_dtype dtype, const th_product *product, int threads);
void th_product_openblas_run(const th_machine *machine, th_dtype dtype, const th_product *product, int threads,
                             void *workspace);

size_t th_product_int8_workspace(const th_machine *machine, th_dtype dtype, const th_product *product, int threads);
void th_product_int8_run(const th_machine *machine, th_dtype dtype, const th_product *product, int threads,
                         void *workspace);

/* Sets C = residual + bias in rows row .. row + rows - 1 and columns column .. column + columns - 1. */
void th_product_residual(const th_kernels *kernels, int64_t size, const th_product *p, int64_t row, int64_t rows,
                         int64_t column, int64_t columns);

#endif
