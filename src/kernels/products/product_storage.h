/* Loads parts of stored operands of products (th_product.b_storage) as numbers of the product's type. Products load a
 * part just before they pack or multiply it. So the operations and the numbers are the same as with a converted
 * operand, and no whole copy of the operand exists. */
#ifndef TH_KERNELS_PRODUCTS_PRODUCT_STORAGE_H
#define TH_KERNELS_PRODUCTS_PRODUCT_STORAGE_H

#include "kernels/kernels.h"
#include "tapehead/base.h"

/* A matrix in memory. */
typedef struct th_product_matrix {
    const void *data;
    int64_t row, column; /* strides */
} th_product_matrix;

/* Returns the bytes of memory for a part of this size. size: bytes of a loaded number. */
size_t th_product_load_bytes(int64_t size, int64_t rows, int64_t columns);

/* Loads `rows` rows from `row` and `columns` columns from `column` of a stored matrix into `memory`. Numbers next to
 * each other in `stored` are next to each other in the result. */
th_product_matrix th_product_load(const th_kernels *kernels, int64_t size, th_dtype storage, th_product_matrix stored,
                                  int64_t row, int64_t rows, int64_t column, int64_t columns, void *memory);

#endif
