/* Shared by the vector kernels of matrix products: the tile sizes of this instance, the operands of a tile, and storing
 * a tile. */
#ifndef TH_KERNELS_PRODUCTS_VECTOR_PRODUCT_H
#define TH_KERNELS_PRODUCTS_VECTOR_PRODUCT_H

#include "kernels/product_block.h"
#include "kernels/vector/vector.h"

/* Whether B may have a storage type. TAPEHEAD_NO_STORAGE_TYPES is a macro of the two files (docs/two-files.md). */
#if TH_REAL_BITS == 32 && !defined TAPEHEAD_NO_STORAGE_TYPES
#define TH_STORED 1
#else
#define TH_STORED 0
#endif

enum {
    TILE_ROWS = TH_TILE_ROWS(TH_VECTOR_REGISTERS),
    TILE_COLUMNS = TH_TILE_COLUMNS(TH_VECTOR_BYTES, (int)sizeof(real))
};

enum { WIDE_COLUMNS = 2 * TILE_COLUMNS }; /* of the widest tile: 4 registers */

/* C = init + A B for one tile; the pointers point to its first element. `columns` columns are stored. */
typedef struct tile_operands {
    int64_t k;
    const void *a; /* (rows, k) */
    int64_t a_row, a_col;
    const void *b; /* (k, registers of columns) */
    int64_t b_row;
    real *c; /* (rows, columns) */
    int64_t c_row;
    const real *init; /* (rows, columns), or NULL */
    int64_t init_row;
    int64_t columns;
} tile_operands;

/* c = init + sum if the tile's columns do not fill its registers. */
static __attribute__((noinline, unused)) void store_part(int rows, real sum[TILE_ROWS][WIDE_COLUMNS],
                                                         const tile_operands *t)
{
    for (int i = 0; i < rows; i++)
        for (int64_t j = 0; j < t->columns; j++)
            t->c[i * t->c_row + j] = t->init ? t->init[i * t->init_row + j] + sum[i][j] : sum[i][j];
}

TH_INLINE void store(int rows, int registers, vec sum[TILE_ROWS][4], const tile_operands *t)
{
    if (t->columns < registers * TH_REGISTER_LANES) {
        real part[TILE_ROWS][WIDE_COLUMNS];
        UNROLLED_FOR (int i = 0; i < rows; i++)
            UNROLLED_FOR (int j = 0; j < registers; j++)
                *(vec *)&part[i][j * TH_REGISTER_LANES] = sum[i][j];
        store_part(rows, part, t);
        return;
    }
    if (t->init)
        UNROLLED_FOR (int i = 0; i < rows; i++)
            UNROLLED_FOR (int j = 0; j < registers; j++)
                sum[i][j] = *(const vec *)(t->init + i * t->init_row + j * TH_REGISTER_LANES) + sum[i][j];
    UNROLLED_FOR (int i = 0; i < rows; i++)
        UNROLLED_FOR (int j = 0; j < registers; j++)
            *(vec *)(t->c + i * t->c_row + j * TH_REGISTER_LANES) = sum[i][j];
}

#endif
