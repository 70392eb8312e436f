/* The peak of bfloat16 tile products (AMX): tdpbf16ps, 16 x 16 sums of 32 products each. Linux gives a process
 * the tiles when it asks for them: tile_products_permitted does, before the others are called. */
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe_isa.h"

enum { TILES = 8, TILE_ROWS = 16, ROW_BYTES = 64, TILE_BYTES = TILE_ROWS * ROW_BYTES };
static const double product_work = 2.0 * 16 * 16 * 32;

bool tile_products_permitted(void)
{
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 }; /* of asm/prctl.h, in newer headers than one may have */
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

/* What is at p is written now: gcc's intrinsics do not say that the instructions read it. */
static inline void settle(const void *p)
{
    __asm__ volatile("" : : "r"(p) : "memory");
}

static void configure(void)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } configuration = {.palette = 1};
    for (int i = 0; i < TILES; i++) {
        configuration.row_bytes[i] = ROW_BYTES;
        configuration.rows[i] = TILE_ROWS;
    }
    settle(&configuration);
    _tile_loadconfig(&configuration);
}

/* Halves and minus ones, as bfloat16 numbers: sums stay finite. */
static void fill(uint16_t *tile)
{
    for (int i = 0; i < TILE_BYTES / 2; i++)
        tile[i] = i % 3 ? 0x3f00 : 0xbf80;
    settle(tile);
}

static void finish(float *sink)
{
    float sum[TILE_BYTES / sizeof(float)];
    _tile_stored(0, sum, ROW_BYTES);
    _tile_release();
    *sink = sum[0];
}

/* Six sums: more than the latency of a product in times of the interval between two. */
double tile_products_registers(int64_t rounds, float *sink)
{
    _Alignas(64) uint16_t operand[TILE_BYTES / 2];
    fill(operand);
    configure();
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_loadd(6, operand, ROW_BYTES);
    _tile_loadd(7, operand, ROW_BYTES);
    for (int64_t i = 0; i < rounds; i++) {
        _tile_dpbf16ps(0, 6, 7);
        _tile_dpbf16ps(1, 6, 7);
        _tile_dpbf16ps(2, 6, 7);
        _tile_dpbf16ps(3, 6, 7);
        _tile_dpbf16ps(4, 6, 7);
        _tile_dpbf16ps(5, 6, 7);
    }
    finish(sink);
    return 6 * product_work * (double)rounds;
}

/* As a matrix product has it: two tiles of either operand, loaded from the first-level cache, for four products. */
double tile_products_l1(int64_t rounds, float *sink)
{
    enum { STEPS = 4 }; /* of two tiles for each operand: 16 KiB in all */
    _Alignas(64) uint16_t a[STEPS][TILE_BYTES], b[STEPS][TILE_BYTES];
    for (int step = 0; step < STEPS; step++)
        for (int half = 0; half < 2; half++) {
            fill(a[step] + half * (TILE_BYTES / 2));
            fill(b[step] + half * (TILE_BYTES / 2));
        }
    configure();
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t i = 0; i < rounds; i++) {
        const uint16_t *const left = a[i % STEPS], *const right = b[i % STEPS];
        _tile_loadd(4, left, ROW_BYTES);
        _tile_loadd(6, right, ROW_BYTES);
        _tile_loadd(5, left + TILE_BYTES / 2, ROW_BYTES);
        _tile_loadd(7, right + TILE_BYTES / 2, ROW_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    finish(sink);
    return 4 * product_work * (double)rounds;
}
