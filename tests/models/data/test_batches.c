/* Batches of examples: each example once in an epoch, orders, positions, similar lengths. */
#include <string.h>

#include "tapehead/models.h"

#include "context.h"

enum { COUNT = 103, BATCH = 8 };

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.threads = 1});
}

/* Runs an epoch and checks that it has each example at most once. Writes the order; returns the number of examples. */
static int64_t run_epoch(th_batches *b, int64_t order[COUNT])
{
    bool seen[COUNT] = {false};
    int64_t rows[BATCH], n = 0;
    const int64_t epoch = b->epoch;
    while (b->epoch == epoch) {
        const int64_t size = th_batches_next(b, rows);
        ck_assert_int_gt(size, 0);
        ck_assert(size == BATCH || b->index == 0);
        for (int64_t i = 0; i < size; i++) {
            ck_assert(rows[i] >= 0 && rows[i] < COUNT && !seen[rows[i]]);
            seen[rows[i]] = true;
            order[n++] = rows[i];
        }
    }
    ck_assert_int_eq(b->index, 0);
    return n;
}

START_TEST(orders)
{
    int64_t in_order[COUNT], first[COUNT], second[COUNT], other[COUNT];
    th_batches plain = {.count = COUNT, .batch = BATCH},
               a = {.count = COUNT, .batch = BATCH, .shuffle = true, .seed = 1},
               b = {.count = COUNT, .batch = BATCH, .shuffle = true, .seed = 2};
    ck_assert_int_eq(run_epoch(&plain, in_order), COUNT);
    for (int64_t i = 0; i < COUNT; i++)
        ck_assert_int_eq(in_order[i], i);
    ck_assert_int_eq(run_epoch(&a, first), COUNT);
    ck_assert_int_eq(run_epoch(&a, second), COUNT);
    ck_assert_int_eq(run_epoch(&b, other), COUNT);
    ck_assert(memcmp(first, in_order, sizeof first) != 0);
    ck_assert(memcmp(first, second, sizeof first) != 0);
    ck_assert(memcmp(first, other, sizeof first) != 0);
    th_batches drop = {.count = COUNT, .batch = BATCH, .drop_last = true};
    ck_assert_int_eq(run_epoch(&drop, other), COUNT - COUNT % BATCH);
}
END_TEST

START_TEST(positions)
{
    int64_t lengths[COUNT], rows[BATCH], wanted[BATCH];
    for (int64_t i = 0; i < COUNT; i++)
        lengths[i] = i * 7 % 29;
    for (int64_t window = 0; window < 5; window += 4) {
        const th_batches options = {
            .count = COUNT, .batch = BATCH, .shuffle = true, .seed = 3, .lengths = lengths, .window = window};
        th_batches b = options;
        for (int i = 0; i < 30; i++) {
            th_batches resumed = options;
            resumed.epoch = b.epoch;
            resumed.index = b.index;
            const int64_t size = th_batches_next(&b, wanted);
            ck_assert_int_eq(th_batches_next(&resumed, rows), size);
            ck_assert_int_eq(memcmp(rows, wanted, (size_t)size * sizeof *rows), 0);
            ck_assert(resumed.epoch == b.epoch && resumed.index == b.index);
        }
    }
}
END_TEST

/* Returns the tokens of an epoch's padded batches. */
static int64_t padded(th_batches b)
{
    int64_t rows[BATCH], tokens = 0;
    while (b.epoch == 0) {
        const int64_t size = th_batches_next(&b, rows);
        int64_t longest = 0;
        for (int64_t i = 0; i < size; i++)
            longest = b.lengths[rows[i]] > longest ? b.lengths[rows[i]] : longest;
        tokens += size * longest;
    }
    return tokens;
}

START_TEST(similar_lengths)
{
    int64_t lengths[COUNT], order[COUNT], tokens = 0;
    for (int64_t i = 0; i < COUNT; i++)
        tokens += lengths[i] = 5 + i * i % 83;
    th_batches b = {.count = COUNT, .batch = BATCH, .shuffle = true, .seed = 4, .lengths = lengths};
    const int64_t unsorted = padded(b);
    b.window = 5;
    const int64_t sorted = padded(b);
    ck_assert_msg(sorted - tokens < (unsorted - tokens) / 2, "%lld, %lld, %lld", (long long)tokens, (long long)sorted,
                  (long long)unsorted);
    ck_assert_int_eq(run_epoch(&b, order), COUNT);
    b.window = COUNT; /* one window: the first batch is not the shortest */
    b.epoch = 0;
    ck_assert_int_eq(run_epoch(&b, order), COUNT);
    b.shuffle = false;
    b.epoch = 0;
    ck_assert_int_eq(run_epoch(&b, order), COUNT);
    for (int64_t i = 1; i < COUNT; i++)
        ck_assert_int_ge(lengths[order[i]], lengths[order[i - 1]]);
}
END_TEST

START_TEST(members_out_of_range)
{
    int64_t rows[BATCH] = {0}, lengths[COUNT] = {0};
    const th_batches wrong[] = {{.count = 0, .batch = BATCH},
                                {.count = COUNT},
                                {.count = COUNT, .batch = BATCH, .index = COUNT},
                                {.count = COUNT, .batch = BATCH, .index = -1},
                                {.count = COUNT, .batch = BATCH, .epoch = -1},
                                {.count = COUNT, .batch = BATCH, .window = -1},
                                {.count = COUNT, .batch = BATCH, .window = INT64_MAX},
                                {.count = COUNT, .batch = BATCH, .window = 2, .lengths = lengths, .index = 3},
                                {.count = BATCH - 1, .batch = BATCH, .drop_last = true}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        th_batches b = wrong[i];
        ck_assert_int_eq(th_batches_next(&b, rows), 0);
        ck_assert(b.epoch == wrong[i].epoch && b.index == wrong[i].index);
    }
    ck_assert_int_eq(th_batches_next(NULL, rows), 0);
    ck_assert_int_eq(th_batches_next(&(th_batches){.count = 1, .batch = 1}, NULL), 0);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("batches", setup, close_context);
    tcase_add_test(tests, orders);
    tcase_add_test(tests, positions);
    tcase_add_test(tests, similar_lengths);
    tcase_add_test(tests, members_out_of_range);
    return run_suites();
}
