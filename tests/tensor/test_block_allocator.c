/* The block allocator: first fit, the same addresses for the same requests, joining of free runs, empty blocks, a
 * failing source, chunks without memory, time by the number of blocks. With AddressSanitizer: a read or write past a
 * block is detected. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "suite.h"
#include "tapehead/context.h"
#include "tapehead/ops.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"
#include "tensor/block_allocator.h"
#include "tensor/tensor.h"

#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif
#ifndef HAS_ASAN
#define HAS_ASAN 0
#endif

/* A source that counts, and fails beyond a limit. */
static struct {
    size_t taken, limit; /* bytes in use; their maximum, 0: no limit */
    size_t counted;      /* bytes of chunks without memory */
    int takes;
} source;

static void *take(void *owner, size_t bytes)
{
    (void)owner;
    if (source.limit && source.taken + bytes > source.limit)
        return NULL;
    source.taken += bytes;
    source.takes++;
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void give(void *owner, void *memory, size_t bytes)
{
    (void)owner;
    source.taken -= bytes;
    free(memory);
}

static bool take_chunk(void *owner, size_t bytes, void **memory)
{
    *memory = take(owner, bytes);
    return *memory != NULL;
}

/* A source of chunks without memory, which are only counted. */
static bool count_chunk(void *owner, size_t bytes, void **memory)
{
    (void)owner;
    *memory = NULL;
    source.counted += bytes;
    return true;
}

static void discount_chunk(void *owner, void *memory, size_t bytes)
{
    (void)owner;
    ck_assert_ptr_null(memory);
    source.counted -= bytes;
}

static th_block_allocator allocator;

static void setup(void)
{
    memset(&source, 0, sizeof source);
    th_block_allocator_init(&allocator, (th_chunk_source){take, give, take_chunk, give, NULL});
}

static void teardown(void)
{
    th_block_allocator_destroy(&allocator);
    ck_assert_uint_eq(source.taken, 0);
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

START_TEST(blocks_are_aligned_and_apart)
{
    th_block *block[64];
    for (size_t i = 0; i < 64; i++) {
        block[i] = th_block_allocate(&allocator, 1 + 97 * i);
        ck_assert_ptr_nonnull(block[i]);
        ck_assert_uint_eq((uintptr_t)th_block_data(block[i]) % 64, 0);
        memset(th_block_data(block[i]), (int)i, 1 + 97 * i);
    }
    for (size_t i = 0; i < 64; i++) {
        const unsigned char *data = th_block_data(block[i]);
        for (size_t j = 0; j < 1 + 97 * i; j++)
            ck_assert_uint_eq(data[j], i);
        th_block_free(&allocator, block[i]);
    }
    ck_assert_uint_eq(allocator.live, 0);
}
END_TEST

START_TEST(the_first_hole_that_fits_is_taken)
{
    th_block *block[8];
    for (int i = 0; i < 8; i++)
        block[i] = th_block_allocate(&allocator, 1024);
    const void *third = th_block_data(block[2]), *sixth = th_block_data(block[5]);
    th_block_free(&allocator, block[5]);
    th_block_free(&allocator, block[2]);
    block[2] = th_block_allocate(&allocator, 512);
    ck_assert_ptr_eq(th_block_data(block[2]), third);
    block[5] = th_block_allocate(&allocator, 1024); /* too large for the rest of the first hole */
    ck_assert_ptr_eq(th_block_data(block[5]), sixth);
    for (int i = 0; i < 8; i++)
        th_block_free(&allocator, block[i]);
}
END_TEST

/* Neighbors that are freed in any order become one hole. */
START_TEST(freed_neighbors_join)
{
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int i = 0; i < 6; i++) {
        th_block *block[3], *fence;
        for (int j = 0; j < 3; j++)
            block[j] = th_block_allocate(&allocator, 4096);
        fence = th_block_allocate(&allocator, 64);
        const void *first = th_block_data(block[0]);
        for (int j = 0; j < 3; j++)
            th_block_free(&allocator, block[orders[i][j]]);
        th_block *joined = th_block_allocate(&allocator, (size_t)3 * 4096);
        ck_assert_ptr_eq(th_block_data(joined), first);
        th_block_free(&allocator, fence);
        th_block_free(&allocator, joined);
    }
    ck_assert_uint_eq(allocator.live, 0);
}
END_TEST

/* Allocates and frees in a random order, and frees everything at the end. Stores the addresses. */
static void random_sequence(uint64_t seed, const void **addresses, int count)
{
    th_block *held[32] = {NULL};
    for (int i = 0; i < count; i++) {
        const size_t at = next_random(&seed) % 32;
        const size_t bytes = next_random(&seed) % (next_random(&seed) % 8 ? 4000 : 200000);
        addresses[i] = NULL;
        if (held[at]) {
            th_block_free(&allocator, held[at]);
            held[at] = NULL;
            continue;
        }
        held[at] = th_block_allocate(&allocator, bytes);
        ck_assert_ptr_nonnull(held[at]);
        addresses[i] = th_block_data(held[at]);
        if (addresses[i])
            memset(th_block_data(held[at]), 1, bytes);
    }
    for (int i = 0; i < 32; i++)
        if (held[i])
            th_block_free(&allocator, held[i]);
}

START_TEST(a_repeated_sequence_takes_no_new_chunk)
{
    enum { COUNT = 2000 };
    static const void *first[COUNT], *again[COUNT];
    random_sequence(7, first, COUNT);
    ck_assert_uint_eq(allocator.live, 0);
    const int takes = source.takes;
    random_sequence(7, first, COUNT); /* all chunks exist now: from here on the addresses repeat too */
    for (int i = 0; i < 5; i++) {
        random_sequence(7, again, COUNT);
        ck_assert_mem_eq(first, again, sizeof first);
    }
    ck_assert_int_eq(source.takes, takes);
    ck_assert_uint_eq(allocator.live, 0);
}
END_TEST

START_TEST(an_empty_block_has_no_memory)
{
    th_block *empty = th_block_allocate(&allocator, 0);
    ck_assert_ptr_nonnull(empty);
    ck_assert_ptr_null(th_block_data(empty));
    ck_assert_uint_eq(allocator.live, 0);
    th_block_free(&allocator, empty);
}
END_TEST

START_TEST(a_request_beyond_the_limit_fails_and_later_ones_succeed)
{
    source.limit = 1 << 20;
    ck_assert_ptr_null(th_block_allocate(&allocator, SIZE_MAX));
    ck_assert_ptr_null(th_block_allocate(&allocator, SIZE_MAX / 8));
    ck_assert_ptr_null(th_block_allocate(&allocator, 2 << 20));
    ck_assert_uint_eq(allocator.live, 0);
    th_block *block = th_block_allocate(
        &allocator, 900 * 1024); /* takes only what is needed, because a chunk of the usual size exceeds the limit */
    ck_assert_ptr_nonnull(block);
    ck_assert_ptr_null(th_block_allocate(&allocator, 200 * 1024));
    th_block_free(&allocator, block);
    block = th_block_allocate(&allocator, 200 * 1024);
    ck_assert_ptr_nonnull(block);
    th_block_free(&allocator, block);
}
END_TEST

/* The source fails once, at every call in turn. The result is NULL, nothing is lost, and the next request succeeds. */
START_TEST(a_failing_source_loses_nothing)
{
    for (size_t limit = 64; limit < 800 * 1024; limit += limit < 32 * 1024 ? 64 : 8 * 1024) {
        source.limit = limit;
        th_block *held[40];
        int count = 0;
        for (int i = 0; i < 40; i++) {
            th_block *block = th_block_allocate(&allocator, (size_t)i * 1000);
            if (block)
                held[count++] = block;
        }
        for (int i = 0; i < count; i++)
            th_block_free(&allocator, held[i]);
        ck_assert_uint_eq(allocator.live, 0);
        source.limit = 0;
        th_block *block = th_block_allocate(&allocator, 1 << 20);
        ck_assert_ptr_nonnull(block);
        th_block_free(&allocator, block);
        th_block_allocator_destroy(&allocator);
        ck_assert_uint_eq(source.taken, 0);
    }
}
END_TEST

/* Equal requests take chunks of equal sizes, with and without memory. */
START_TEST(without_memory_the_same_chunks_are_taken)
{
    enum { COUNT = 2000 };
    static const void *addresses[COUNT];
    size_t reserved[2], records[2];
    for (int without = 0; without < 2; without++) {
        th_block_allocator_destroy(&allocator);
        th_block_allocator_init(&allocator, without ? (th_chunk_source){take, give, count_chunk, discount_chunk, NULL}
                                                    : (th_chunk_source){take, give, take_chunk, give, NULL});
        random_sequence(11, addresses, COUNT);
        random_sequence(11, addresses, COUNT);
        reserved[without] = allocator.reserved;
        records[without] = source.taken + source.counted;
        for (int i = 0; without && i < COUNT; i++)
            ck_assert_ptr_null(addresses[i]);
    }
    ck_assert_uint_eq(reserved[1], reserved[0]);
    ck_assert_uint_eq(records[1], records[0]);
    ck_assert_uint_eq(source.counted, allocator.reserved);

    th_block *block = th_block_allocate(&allocator, (size_t)1 << 40);
    ck_assert_ptr_nonnull(block);
    ck_assert_ptr_null(th_block_data(block));
    ck_assert_uint_eq(allocator.live, (size_t)1 << 40);
    ck_assert_uint_lt(source.taken, 1 << 20);
    th_block_free(&allocator, block);
    ck_assert_uint_eq(allocator.live, 0);
    th_block_allocator_destroy(&allocator);
    ck_assert_uint_eq(source.counted, 0);
}
END_TEST

/* Returns the processor time of this thread in seconds. */
static double spent(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Frees and allocates `count` neighboring blocks, in orders in which no neighbor is free and all holes are too small.
 * Returns the shortest time of three runs. */
static double time_of_blocks(size_t count)
{
    th_block **block = malloc(count * sizeof *block);
    double least = 1e9;
    for (int run = 0; run < 3; run++) {
        th_block *whole = th_block_allocate(&allocator, 256 * count); /* one chunk for all blocks */
        th_block_free(&allocator, whole);
        const double begin = spent();
        for (size_t i = 0; i < count; i++)
            block[i] = th_block_allocate(&allocator, 128);
        for (size_t i = count; i-- > 0;)
            if (i % 2)
                th_block_free(&allocator, block[i]); /* no free run is before it */
        for (size_t i = 1; i < count; i += 2)
            block[i] = th_block_allocate(&allocator, i % 4 == 1 ? 192 : 64); /* after every hole, or in the first one */
        for (size_t i = 0; i < count; i++)
            th_block_free(&allocator, block[i * 7919 % count]);
        const double time = spent() - begin;
        least = time < least ? time : least;
        ck_assert_uint_eq(allocator.live, 0);
    }
    free(block);
    return least;
}

/* Ten times as many blocks take about ten times the time. Visiting all neighbors or holes would take a hundred times.
 */
START_TEST(time_grows_with_the_number_of_blocks)
{
    const double few = time_of_blocks(5000), many = time_of_blocks(50000);
    ck_assert_msg(many < 80 * few, "5000 blocks: %.4f s, 50000 blocks: %.4f s", few, many);
}
END_TEST

/* -- with AddressSanitizer -- */

/* Runs an illegal access in another process. Returns true if AddressSanitizer reported poisoned memory. */
static bool is_detected(void (*illegal_access)(void))
{
    int report[2];
    ck_assert_int_eq(pipe(report), 0);
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        dup2(report[1], STDERR_FILENO);
        close(report[0]);
        close(report[1]);
        illegal_access();
        _exit(0);
    }
    close(report[1]);
    char text[16 * 1024];
    size_t used = 0;
    for (ssize_t got; (got = read(report[0], text + used, sizeof text - 1 - used)) > 0;)
        used += (size_t)got;
    text[used] = 0;
    close(report[0]); /* the rest of the report is not needed */
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    const bool ended = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    return ended && strstr(text, "use-after-poison") != NULL;
}

static volatile char sink;

static void write_past_a_block(void)
{
    th_block *block = th_block_allocate(&allocator, 100), *next = th_block_allocate(&allocator, 100);
    volatile char *data = th_block_data(block);
    data[100] = 1;
    (void)next;
}

static void read_past_a_whole_line(void)
{
    th_block *block = th_block_allocate(&allocator, 128), *next = th_block_allocate(&allocator, 128);
    const volatile char *data = th_block_data(block);
    sink = data[128];
    (void)next;
}

static void read_before_a_block(void)
{
    th_block *first = th_block_allocate(&allocator, 64), *block = th_block_allocate(&allocator, 64);
    const volatile char *data = th_block_data(block);
    sink = data[-1];
    (void)first;
}

static void read_after_free(void)
{
    th_block *block = th_block_allocate(&allocator, 64);
    const volatile char *data = th_block_data(block);
    th_block_free(&allocator, block);
    sink = data[0];
}

/* Reads, through the public interface, a value that its scope has released. */
static void read_a_released_value(void)
{
    th_context *ctx = th_context_new(NULL);
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(16));
    th_scope_begin(ctx, NULL);
    th_tensor *y = th_exp(x);
    const volatile float *data = th_data_const(y);
    th_scope_end(ctx, NULL);
    sink = (char)data[0];
}

static void write_past_a_tensor(void)
{
    th_context *ctx = th_context_new(NULL);
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(16));
    volatile float *data = th_data(x);
    data[16] = 1;
}

static void stay_within(void)
{
    th_block *block = th_block_allocate(&allocator, 100);
    memset(th_block_data(block), 1, 100);
    th_block_free(&allocator, block);
}

START_TEST(illegal_accesses_are_detected)
{
    ck_assert(is_detected(write_past_a_block));
    ck_assert(is_detected(read_past_a_whole_line));
    ck_assert(is_detected(read_before_a_block));
    ck_assert(is_detected(read_after_free));
    ck_assert(is_detected(read_a_released_value));
    ck_assert(is_detected(write_past_a_tensor));
    ck_assert(!is_detected(stay_within));
}
END_TEST

/* Handles are not poisoned: using a stale one is an error, not a crash. */
START_TEST(a_stale_handle_can_be_inspected)
{
    th_context *ctx = th_context_new(NULL);
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(16));
    th_tensor *y = th_exp(x);
    th_tape_clear(ctx);
    th_tensor_free(x);
    ck_assert_ptr_null(th_exp(y));
    ck_assert_int_eq(th_error_code(ctx), TH_ERROR_STATE);
    th_error_clear(ctx);
    ck_assert_ptr_null(th_exp(x));
    ck_assert_int_eq(th_error_code(ctx), TH_ERROR_STATE);
    th_context_free(ctx);
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("allocator", setup, teardown);
    tcase_add_test(tcase, blocks_are_aligned_and_apart);
    tcase_add_test(tcase, the_first_hole_that_fits_is_taken);
    tcase_add_test(tcase, freed_neighbors_join);
    tcase_add_test(tcase, a_repeated_sequence_takes_no_new_chunk);
    tcase_add_test(tcase, an_empty_block_has_no_memory);
    tcase_add_test(tcase, a_request_beyond_the_limit_fails_and_later_ones_succeed);
    tcase_add_test(tcase, a_failing_source_loses_nothing);
    tcase_add_test(tcase, without_memory_the_same_chunks_are_taken);
    tcase_add_test(tcase, time_grows_with_the_number_of_blocks);
    tcase_add_test(tcase, a_stale_handle_can_be_inspected);
    if (HAS_ASAN)
        tcase_add_test(tcase, illegal_accesses_are_detected);
    else
        printf("skipped: illegal_accesses_are_detected (this build is without AddressSanitizer)\n");
    return run_suites();
}
