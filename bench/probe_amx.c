/* The peak of bfloat16 tile products (AMX): tdpbf16ps computes 16 x 16 sums of 32 products each. A process must ask
 * Linux for permission to use tiles: call amx_permitted before the other functions. */
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe_isa.h"

enum { TILES = 8, TILE_ROWS = 16, ROW_BYTES = 64, TILE_BYTES = TILE_ROWS * ROW_BYTES };
static const double product_work = 2.0 * 16 * 16 * 32;

bool amx_permitted(void)
{
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 }; /* from asm/prctl.h; older headers lack them */
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

/* Forces writes to *p to be complete: GCC's intrinsics do not declare that the instructions read memory. */
static inline void complete_writes(const void *p)
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
    complete_writes(&configuration);
    _tile_loadconfig(&configuration);
}

/* Fills a tile with the bfloat16 numbers 0.5 and -1, so that sums stay finite. */
static void fill(uint16_t *tile)
{
    for (int i = 0; i < TILE_BYTES / 2; i++)
        tile[i] = i % 3 ? 0x3f00 : 0xbf80;
    complete_writes(tile);
}

static void finish(float *sink)
{
    float sum[TILE_BYTES / sizeof(float)];
    _tile_stored(0, sum, ROW_BYTES);
    _tile_release();
    *sink = sum[0];
}

/* Six sums: more than a product's latency divided by the interval between two products. */
double amx_loop_registers(int64_t rounds, float *sink)
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

/* Like a matrix product: loads two tiles of each operand from the first-level cache for every four products. */
double amx_loop_l1(int64_t rounds, float *sink)
{
    enum { STEPS = 4 }; /* two tiles of each operand in a step: 16 KiB in total */
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
