/* What the vector kernels of matrix products share: the sizes of this instance's tile. */
#ifndef TH_KERNELS_VECTOR_PRODUCT_H
#define TH_KERNELS_VECTOR_PRODUCT_H

#include "kernels/product_block.h"
#include "kernels/vector/vector.h"

enum { TILE_ROWS = TH_TILE_ROWS(TH_VECTOR_BYTES), TILE_COLUMNS = TH_TILE_COLUMNS(TH_VECTOR_BYTES, (int)sizeof(real)) };

#endif
