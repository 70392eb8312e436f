/* The tile registers of Intel AMX, and memory to load them from and to store them to. Part of amx.c. */
#ifndef TH_KERNELS_BFLOAT16_VECTOR_AMX_TILES_H
#define TH_KERNELS_BFLOAT16_VECTOR_AMX_TILES_H

#include "kernels/bfloat16/vector/amx_panels.h"

/* The numbers of the tile registers: tiles of C, rows of A, columns of B. Intrinsics need them as constants. */
#define C00 0
#define C01 1
#define C10 2
#define C11 3
#define A0 4
#define A1 5
#define B0 6
#define B1 7

typedef struct tile_configuration {
    uint8_t palette, start_row, zeros[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_configuration;

/* Static, because gcc does not know that its intrinsic reads the whole structure. */
static const tile_configuration full_tiles = {
    .palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

/* Keeps the compiler from moving earlier stores behind the load of a tile. Compilers do not know that
 * loading a tile reads memory. */
TH_INLINE void order_stores(void)
{
    __asm__ volatile("" ::: "memory");
}

/* Rows of numbers. */
typedef struct tile_rows {
    float *data;
    int64_t stride; /* from row to row; may be 0 */
} tile_rows;

/* Memory of whole tiles, for sums that do not fill them. */
typedef struct tile_buffer {
    _Alignas(64) float number[PANEL_LINES][PANEL_LINES];
} tile_buffer;

/* Copies `rows` rows and `columns` columns into the buffer. */
static void load_buffer(tile_buffer *buffer, int64_t rows, int64_t columns, const tile_rows *from)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j += TILE_LINES) {
            const __m512 numbers = _mm512_maskz_loadu_ps(first_lanes(columns - j), from->data + i * from->stride + j);
            _mm512_store_ps(&buffer->number[i][j], numbers);
        }
    order_stores();
}

/* Copies `rows` rows and `columns` columns out of the buffer. */
static void store_buffer(const tile_buffer *buffer, int64_t rows, int64_t columns, const tile_rows *to)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j += TILE_LINES)
            _mm512_mask_storeu_ps(to->data + i * to->stride + j, first_lanes(columns - j),
                                  _mm512_load_ps(&buffer->number[i][j]));
}

#endif
