/* The interpreter of AMX's instructions, or the processor if it has them: products against the model, loads and stores
 * in every form of address, configurations, errors, threads. */
#include "tile_interpreter.h"

#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bits.h"
#include "guarded.h"
#include "suite.h"
#include "tile_model.h"

enum { ROWS = 16, COLUMNS = 16, ROW_BYTES = 64, TILES = 8 };

typedef struct configuration {
    uint8_t palette, start_row, zeros[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} configuration;

static const configuration full = {
    .palette = 1, .bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

/* Not with intrinsics: those of gcc 12 declare that 8 of the 64 bytes are read or written, so the compiler stores only
 * these. Its _tile_loadd does not declare that it reads memory, so memory is written before the configuration. */
static void configure(const configuration *c)
{
    __asm__ volatile("ldtilecfg %0" : : "m"(*c) : "memory");
}

static configuration stored_configuration(void)
{
    configuration c;
    memset(&c, 255, sizeof c);
    __asm__ volatile("sttilecfg %0" : "+m"(c));
    return c;
}

/* -- products -- */

/* Bits of bfloat16 numbers: of any kind, or of about the same size, or about the square root of the smallest number. */
static uint16_t any_bfloat16(int kind)
{
    const uint16_t bits = (uint16_t)draw(1 << 16);
    if (kind == 0)
        return bits;
    const int64_t exponent = kind == 1 ? 120 + draw(14) : 56 + draw(12);
    return (uint16_t)((bits & 0x807f) | (draw(9) == 0 ? 0 : exponent << 7));
}

static float any_sum(int kind)
{
    const float x = float_of((uint32_t)draw((int64_t)1 << 32));
    return kind == 0 ? x : kind == 1 ? (float)(draw(1000) - 500) / 8 : draw(2) ? 0x1p-126f * (float)draw(3) : -0.f;
}

/* One instruction on tiles of any shape. Compares whole tiles: elements outside the result are 0. */
static void check_product(int kind, int m, int n, int pairs)
{
    uint16_t a[ROWS][2 * COLUMNS] = {0}, b[ROWS][2 * COLUMNS] = {0};
    float c[ROWS][COLUMNS] = {0}, y[ROWS][COLUMNS];
    for (int i = 0; i < m; i++)
        for (int k = 0; k < 2 * pairs; k++)
            a[i][k] = any_bfloat16(kind);
    for (int k = 0; k < pairs; k++)
        for (int j = 0; j < 2 * n; j++)
            b[k][j] = any_bfloat16(kind);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            c[i][j] = any_sum(kind);
    configuration shape = {.palette = 1};
    shape.rows[2] = shape.rows[5] = (uint8_t)m;
    shape.bytes[2] = shape.bytes[7] = (uint16_t)(4 * n);
    shape.bytes[5] = (uint16_t)(4 * pairs);
    shape.rows[7] = (uint8_t)pairs;
    configure(&shape);
    _tile_loadd(2, c, ROW_BYTES);
    _tile_loadd(5, a, ROW_BYTES);
    _tile_stream_loadd(7, b, ROW_BYTES);
    _tile_dpbf16ps(2, 5, 7);
    memset(y, 0, sizeof y);
    _tile_stored(2, y, ROW_BYTES);
    _tile_release();
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) {
            uint16_t column[2 * ROWS];
            for (int k = 0; k < 2 * pairs; k++)
                column[k] = b[k / 2][2 * j + k % 2];
            const float expected = i < m && j < n ? tile_dot(c[i][j], a[i], column, 2 * pairs) : 0;
            if (!same_bits(y[i][j], expected))
                ck_abort_msg("%d x %d, %d pairs, kind %d: element (%d, %d) is %a, not %a", m, n, pairs, kind, i, j,
                             (double)y[i][j], (double)expected);
        }
}

START_TEST(test_products)
{
    for (int i = 0; i < 120; i++)
        check_product(i % 3, 16, 16, 16);
    for (int i = 0; i < 400; i++)
        check_product(i % 3, 1 + (int)draw(16), 1 + (int)draw(16), 1 + (int)draw(16));
}
END_TEST

/* The floating-point mode and flags have no effect and do not change, and registers stay. */
START_TEST(test_unchanged_state)
{
    const unsigned mode = _mm_getcsr(), other = (_MM_MASK_MASK | _MM_ROUND_UP);
    uint16_t a[ROWS][2 * COLUMNS], b[ROWS][2 * COLUMNS];
    float expected[ROWS][COLUMNS], y[ROWS][COLUMNS];
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < 2 * COLUMNS; k++) {
            a[i][k] = any_bfloat16(1);
            b[i][k] = any_bfloat16(1);
        }
    configure(&full);
    _tile_loadd(1, a, ROW_BYTES);
    _tile_loadd(2, b, ROW_BYTES);
    _tile_zero(0);
    _tile_dpbf16ps(0, 1, 2);
    _tile_stored(0, expected, ROW_BYTES);
    _tile_zero(0);
    _mm_setcsr(other);
    _tile_dpbf16ps(0, 1, 2);
    const unsigned after = _mm_getcsr();
    _mm_setcsr(mode);
    ck_assert_uint_eq(after, other);
    _tile_stored(0, y, ROW_BYTES);
    ck_assert_mem_eq(y, expected, sizeof y);
    double numbers[2] = {1.25, -3}, kept[2] = {0};
    int64_t general = 5;
    __asm__ volatile("movupd %1, %%xmm9\n\ttdpbf16ps %%tmm2, %%tmm1, %%tmm0\n\tmovupd %%xmm9, %0"
                     : "=m"(kept), "+m"(numbers), "+r"(general)
                     :
                     : "xmm9");
    ck_assert_mem_eq(kept, numbers, sizeof kept);
    ck_assert_int_eq(general, 5);
    _tile_release();
}
END_TEST

/* -- memory -- */

static char memory[1 << 18];
static char *const origin = memory + (1 << 17);

static void fill_memory(void)
{
    for (size_t i = 0; i < sizeof memory; i++)
        memory[i] = (char)draw(256);
}

/* Checks that tile 3 holds rows of `stride` bytes from `from`. */
static void check_loaded(const char *from, int64_t stride)
{
    char rows[ROWS][ROW_BYTES];
    _tile_stored(3, rows, ROW_BYTES);
    for (int row = 0; row < ROWS; row++)
        ck_assert_mem_eq(rows[row], from + row * stride, ROW_BYTES);
    _tile_zero(3);
}

/* Loads from `origin` with rows 1024 bytes apart, with these registers. */
#define LOAD(base, index, displacement, scale)                                                                         \
    do {                                                                                                               \
        register char *from __asm__(#base) = origin - (displacement);                                                  \
        register int64_t stride __asm__(#index) = 1024 / (scale);                                                      \
        __asm__ volatile("tileloadd " #displacement "(%%" #base ", %%" #index ", " #scale "), %%tmm3"                  \
                         :                                                                                             \
                         : "r"(from), "r"(stride)                                                                      \
                         : "memory");                                                                                  \
        check_loaded(origin, 1024);                                                                                    \
    } while (0)

START_TEST(test_addresses)
{
    fill_memory();
    configure(&full);
    LOAD(rax, rbx, 0, 1);
    LOAD(rcx, rdx, 64, 2);
    LOAD(rsi, rdi, -70000, 4);
    LOAD(r8, r9, 127, 8);
    LOAD(r10, r15, -128, 1);
    LOAD(r12, r14, 0, 2);
    LOAD(r13, r11, 0, 1);
    LOAD(r13, r12, 128, 4);
    LOAD(r15, rax, 0, 8);
    LOAD(rdx, r8, 100000, 1);
    char *from = origin;
    int64_t stride = 1024;
    __asm__ volatile("xchg %%rbp, %0\n\ttileloadd (%%rbp, %1, 1), %%tmm3\n\txchg %%rbp, %0"
                     : "+a"(from)
                     : "b"(stride)
                     : "memory");
    check_loaded(origin, 1024);
    __asm__ volatile("xchg %%rbp, %1\n\ttileloadd 8(%0, %%rbp, 2), %%tmm3\n\txchg %%rbp, %1"
                     : "+a"(from), "+b"(stride)
                     :
                     : "memory");
    check_loaded(origin + 8, 2048);
    if (tiles_interpreted()) { /* no index: the same row repeated (but Bochs, an emulator, takes it for %rsp) */
        __asm__ volatile("tileloadd 16(%0), %%tmm3" : : "r"(from) : "memory");
        check_loaded(origin + 16, 0);
    }
    _tile_loadd(3, origin, -192);
    check_loaded(origin, -192);
    /* From the stack: a copy below the compiler's data. */
    const char *source = origin;
    void *to;
    int64_t bytes = ROWS * ROW_BYTES;
    __asm__ volatile("lea -2048(%%rsp), %%rsp\n\tmov %%rsp, %0\n\trep movsb\n\t"
                     "tileloadd 64(%%rsp, %3, 1), %%tmm3\n\tlea 2048(%%rsp), %%rsp"
                     : "=&D"(to), "+S"(source), "+c"(bytes)
                     : "r"((int64_t)48)
                     : "memory");
    check_loaded(origin + 64, 48);
    /* No base, the address in the instruction: needs memory below two gigabytes. */
    char *const low = mmap((void *)0x30000000, sizeof memory, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (low != (void *)0x30000000) {
        puts("skipped: no memory at 0x30000000");
    } else {
        memcpy(low, origin, sizeof memory / 2);
        __asm__ volatile("tileloadd 0x30000080(, %0, 4), %%tmm3" : : "r"((int64_t)25) : "memory");
        check_loaded(origin + 128, 100);
    }
    _tile_release();
}
END_TEST

/* Only the configured part of a tile is read and written, and its other elements are 0. Loading begins at start_row,
 * once. */
START_TEST(test_partial_tiles)
{
    enum { M = 5, BYTES = 12 };
    configuration c = {.palette = 1, .rows = {16, M}, .bytes = {64, BYTES}};
    fill_memory();
    char *end = memory_end(IN_A, M * BYTES);
    memcpy(end, origin, M * BYTES);
    configure(&c);
    _tile_loadd(1, end, BYTES);
    static char stored[ROWS][ROW_BYTES], before[ROWS][ROW_BYTES];
    memcpy(stored, origin + 4096, sizeof stored);
    memcpy(before, stored, sizeof stored);
    _tile_stored(1, stored, ROW_BYTES);
    for (int row = 0; row < M; row++)
        memcpy(before[row], origin + row * BYTES, BYTES);
    ck_assert_mem_eq(stored, before, sizeof stored);
    c.start_row = 3;
    configure(&c); /* tiles are 0 again */
    _tile_loadd(1, end, BYTES);
    _tile_stored(1, stored, ROW_BYTES);
    for (int row = 0; row < 3; row++)
        memset(before[row], 0, BYTES);
    ck_assert_mem_eq(stored, before, sizeof stored);
    _tile_loadd(1, end, BYTES);
    _tile_stored(1, stored, ROW_BYTES);
    ck_assert_mem_eq(stored[0], origin, BYTES);
    _tile_release();
}
END_TEST

/* -- configurations -- */

START_TEST(test_configurations)
{
    static const configuration none, constant = {.palette = 1, .rows = {1}, .bytes = {4}};
    configuration now = full;
    ck_assert(!tiles_configured());
    now = stored_configuration();
    ck_assert_mem_eq(&now, &none, sizeof now);
    configuration odd = {.palette = 1, .start_row = 2, .rows = {3, 0, 16}, .bytes = {6, 0, 62}};
    configure(&odd);
    ck_assert(tiles_configured());
    now = stored_configuration();
    ck_assert_mem_eq(&now, &odd, sizeof now);
    configure(&constant); /* relative to the instruction */
    now = stored_configuration();
    ck_assert_mem_eq(&now, &constant, sizeof now);
    ck_assert(tiles_configured());
    _tile_release();
    ck_assert(!tiles_configured());
    now = stored_configuration();
    ck_assert_mem_eq(&now, &none, sizeof now);
    _tile_release();
    ck_assert(!tiles_configured());
    configure(&full);
    odd.palette = 0; /* and all other fields are ignored */
    configure(&odd);
    ck_assert(!tiles_configured());
    now = stored_configuration();
    ck_assert_mem_eq(&now, &none, sizeof now);
}
END_TEST

START_TEST(test_counting)
{
    const int64_t before = tiles_instructions();
    configure(&full);
    _tile_zero(0);
    _tile_release();
    ck_assert_int_eq(tiles_instructions() - before, tiles_interpreted() ? 3 : 0);
}
END_TEST

/* -- errors: like a processor, the interpreter ends the program, but with a message -- */

static void load_wrong(uint8_t palette, int at, uint8_t byte)
{
    configuration c = full;
    c.palette = palette;
    ((uint8_t *)&c)[at] = byte;
    configure(&c);
}

static void use_unconfigured(void)
{
    _tile_zero(0);
}

static void load_released(void)
{
    configure(&full);
    _tile_release();
    _tile_loadd(0, memory, ROW_BYTES);
}

static void palette_2(void)
{
    load_wrong(2, 0, 2);
}

static void reserved_byte(void)
{
    load_wrong(1, 15, 1);
}

static void wide_row(void)
{
    load_wrong(1, 16, 65);
}

static void many_rows(void)
{
    load_wrong(1, 48, 17);
}

static void no_rows(void)
{
    load_wrong(1, 49, 0);
}

static void no_columns(void)
{
    load_wrong(1, 18, 0);
}

static void ninth_tile(void)
{
    load_wrong(1, 32, 4);
}

static void ninth_rows(void)
{
    load_wrong(1, 63, 1);
}

static void zero_absent(void)
{
    configure(&(configuration){.palette = 1, .rows = {1}, .bytes = {4}});
    _tile_zero(1);
}

static void store_odd_bytes(void)
{
    configure(&(configuration){.palette = 1, .rows = {1}, .bytes = {6}});
    _tile_stored(0, memory, ROW_BYTES);
}

static void start_beyond(void)
{
    configure(&(configuration){.palette = 1, .start_row = 2, .rows = {2}, .bytes = {4}});
    _tile_loadd(0, memory, ROW_BYTES);
}

/* c (2 x 3) += a (2 x 4 pairs) b (4 x 3), with one of the six numbers changed. */
static void product_with(int at, uint8_t value)
{
    configuration c = {.palette = 1, .rows = {2, 2, 4}, .bytes = {12, 16, 12}};
    ((uint8_t *)&c)[at] = value;
    configure(&c);
    _tile_dpbf16ps(0, 1, 2);
}

static void product_rows(void)
{
    product_with(49, 3);
}

static void product_columns(void)
{
    product_with(16, 8);
}

static void product_steps(void)
{
    product_with(18, 12);
}

static void product_absent(void)
{
    configure(&(configuration){.palette = 1, .rows = {2, 2}, .bytes = {12, 16}});
    _tile_dpbf16ps(0, 1, 2);
}

static void product_of_one(void)
{
    configure(&full);
    __asm__ volatile(".byte 0xc4, 0xe2, 0x72, 0x5c, 0xc1"); /* tdpbf16ps %tmm1, %tmm1, %tmm0 */
}

static void product_of_itself(void)
{
    configure(&full);
    __asm__ volatile(".byte 0xc4, 0xe2, 0x7a, 0x5c, 0xc1"); /* tdpbf16ps %tmm0, %tmm1, %tmm0 */
}

static void tile_9(void)
{
    configure(&full);
    __asm__ volatile(".byte 0xc4, 0x62, 0x7b, 0x49, 0xc8"); /* tilezero %tmm9 */
}

static void without_sib(void)
{
    configure(&full);
    __asm__ volatile(".byte 0xc4, 0xe2, 0x7b, 0x4b, 0x00" : : "a"(memory)); /* tileloadd (%rax), %tmm0 */
}

static void vector_length(void)
{
    configure(&full);
    __asm__ volatile(".byte 0xc4, 0xe2, 0x7f, 0x49, 0xc0"); /* tilezero %tmm0 of 256 bits */
}

static void third_register(void)
{
    configure(&full);
    __asm__ volatile(".byte 0xc4, 0xe2, 0x73, 0x49, 0xc0"); /* tilezero %tmm0, and tmm1 in vvvv */
}

static void no_instruction(void)
{
    __asm__ volatile("ud2");
}

static const struct {
    void (*run)(void);
    const char *sentence;
} refusals[] = {
    {use_unconfigured, "none is configured"},
    {load_released, "none is configured"},
    {palette_2, "no palette 2"},
    {reserved_byte, "reserved"},
    {wide_row, "tile 0 cannot have 16 rows of 65 bytes"},
    {many_rows, "tile 0 cannot have 17 rows of 64 bytes"},
    {no_rows, "tile 1 cannot have 0 rows of 64 bytes"},
    {no_columns, "tile 1 cannot have 16 rows of 0 bytes"},
    {ninth_tile, "8 tiles"},
    {ninth_rows, "8 tiles"},
    {zero_absent, "tile 1 is used, but has no rows"},
    {store_odd_bytes, "its rows of 6 bytes"},
    {start_beyond, "start_row is 2, and tile 0 has 2 rows"},
    {product_rows, "2 x 3, 3 x 4 and 4 x 3 elements do not match"},
    {product_columns, "2 x 2, 2 x 4 and 4 x 3 elements do not match"},
    {product_steps, "2 x 3, 2 x 3 and 4 x 3 elements do not match"},
    {product_absent, "tile 2 is used, but has no rows"},
    {product_of_one, "must differ"},
    {product_of_itself, "must differ"},
    {tile_9, "no tile 9"},
    {without_sib, "SIB"},
    {vector_length, "c4 e2 7f 49 c0"},
    {third_register, "vvvv"},
    {no_instruction, "begins with 0f 0b"},
};

START_TEST(test_errors)
{
    char message[512] = "";
    int ends[2], status;
    ck_assert_int_eq(pipe(ends), 0);
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        signal(SIGSEGV, SIG_DFL); /* ThreadSanitizer would exit instead */
        refusals[_i].run();
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t more; (more = read(ends[0], message + length, sizeof message - 1 - length)) > 0;)
        length += (size_t)more;
    close(ends[0]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    if (tiles_interpreted())
        ck_assert_msg(strstr(message, refusals[_i].sentence) != NULL, "\"%s\" without \"%s\"", message,
                      refusals[_i].sentence);
    ck_assert_msg(WIFSIGNALED(status), "\"%s\" is what a processor refuses", refusals[_i].sentence);
}
END_TEST

/* -- threads -- */

/* Each thread has its own tiles. Every thread sums a different number in them. */
static void *sum_in_tiles(void *number)
{
    enum { ADDITIONS = 200 };
    const float value = *(const float *)number;
    uint16_t ones[ROWS][2 * COLUMNS], values[ROWS][2 * COLUMNS];
    float y[ROWS][COLUMNS];
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < 2 * COLUMNS; k++) {
            ones[i][k] = model_part(1, 0);
            values[i][k] = model_part(value, 0);
        }
    configure(&full);
    _tile_loadd(6, ones, ROW_BYTES);
    _tile_loadd(7, values, ROW_BYTES);
    for (int i = 0; i < ADDITIONS; i++) {
        _tile_dpbf16ps(4, 6, 7);
        sched_yield();
    }
    _tile_stored(4, y, ROW_BYTES);
    _tile_release();
    bool right = true;
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            right = right && y[i][j] == 32 * ADDITIONS * value;
    return right ? number : NULL;
}

START_TEST(test_threads)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    float numbers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = (float)(1 + i);
        ck_assert_int_eq(pthread_create(&threads[i], NULL, sum_in_tiles, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *result;
        ck_assert_int_eq(pthread_join(threads[i], &result), 0);
        ck_assert_ptr_eq(result, &numbers[i]);
    }
    ck_assert(!tiles_configured());
}
END_TEST

/* If tiles are interpreted, other threads can tell that a thread holds a configuration. */
static void *keep_configured(void *unused)
{
    configure(&full);
    return unused;
}

START_TEST(test_leak_in_a_thread)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, keep_configured, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(tiles_configured() == tiles_interpreted());
}
END_TEST

int main(void)
{
    if (!tiles_start())
        return 77;
    puts(tiles_interpreted() ? "AMX's instructions are interpreted" : "AMX's instructions are the processor's own");
    TCase *tests = new_suite("tile interpreter", NULL, NULL);
    tcase_add_test(tests, test_products);
    tcase_add_test(tests, test_unchanged_state);
    tcase_add_test(tests, test_addresses);
    tcase_add_test(tests, test_partial_tiles);
    tcase_add_test(tests, test_configurations);
    tcase_add_test(tests, test_counting);
    tcase_add_loop_test(tests, test_errors, 0, sizeof refusals / sizeof *refusals);
    tcase_add_test(tests, test_threads);
    tcase_add_test(tests, test_leak_in_a_thread);
    return run_suites();
}
