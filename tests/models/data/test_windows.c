/* Windows of a token file: each occurs once in an epoch. The order is a function of (seed, epoch), can be continued
 * from any position, and is uniform. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tapehead/models.h"

#include "models/data/permutation.h"

#include "context.h"
#include "folder.h"

static char path[96];

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.threads = 1});
    make_folder();
    strcpy(path, in_folder("text.tokens"));
}

static void teardown(void)
{
    close_context();
    remove_folder();
}

/* Writes a file whose token i is i. */
static th_token_file *counting_file(int64_t count)
{
    int32_t *tokens = malloc((size_t)count * sizeof *tokens);
    for (int64_t i = 0; i < count; i++)
        tokens[i] = (int32_t)i;
    th_token_writer *writer = th_token_writer_open(ctx, path, 100000);
    ck_assert_int_eq(th_token_writer_append(writer, tokens, count), TH_OK);
    ck_assert_int_eq(th_token_writer_close(writer), TH_OK);
    free(tokens);
    th_token_file *file = th_token_file_open(ctx, path, NULL);
    no_error();
    return file;
}

START_TEST(permutations)
{
    static const uint64_t counts[] = {1, 2, 3, 4, 5, 15, 16, 17, 255, 1000, 65537};
    static unsigned char seen[65537];
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (uint64_t number = 0; number < 3; number++) {
            const th_permutation p = th_permutation_make(7, number, counts[c]);
            memset(seen, 0, sizeof seen);
            uint64_t wrong = 0;
            for (uint64_t i = 0; i < counts[c]; i++) {
                const uint64_t x = th_permutation_at(&p, i);
                wrong += x >= counts[c] || seen[x]++ > 0;
            }
            ck_assert_uint_eq(wrong, 0);
        }
    const th_permutation large = th_permutation_make(7, 0, UINT64_C(1) << 62);
    ck_assert_uint_ne(th_permutation_at(&large, 0), th_permutation_at(&large, 1));
    const th_permutation larger = th_permutation_make(7, 0, UINT64_MAX);
    ck_assert_uint_lt(th_permutation_at(&larger, UINT64_MAX - 1), UINT64_MAX);
}
END_TEST

/* Over many epochs each window is equally frequent at every position: chi-squared, with n - 1 = 6 degrees of
 * freedom. */
START_TEST(every_window_is_equally_frequent_at_every_position)
{
    enum { COUNT = 7, EPOCHS = 7000 };
    int64_t at[COUNT][COUNT] = {{0}}, after[COUNT][COUNT] = {{0}};
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        const th_permutation p = th_permutation_make(3, epoch, COUNT);
        for (uint64_t i = 0; i < COUNT; i++) {
            at[i][th_permutation_at(&p, i)]++;
            after[th_permutation_at(&p, i)][th_permutation_at(&p, (i + 1) % COUNT)]++;
        }
    }
    for (int i = 0; i < COUNT; i++) {
        double statistic = 0, followers = 0;
        for (int j = 0; j < COUNT; j++) {
            const double expected = (double)EPOCHS / (double)COUNT, follows = (double)EPOCHS / (double)(COUNT - 1);
            statistic += ((double)at[i][j] - expected) * ((double)at[i][j] - expected) / expected;
            if (i != j)
                followers += ((double)after[i][j] - follows) * ((double)after[i][j] - follows) / follows;
        }
        ck_assert_double_lt(statistic, 27); /* probability 1.4e-4 */
        ck_assert_double_lt(followers, 27);
    }
}
END_TEST

/* Returns the starts of the windows in the next batch of two (-1: padding), and checks their contents. */
static void next_rows(th_windows *windows, th_tensor *tokens, th_tensor *targets, int64_t begins[2])
{
    ck_assert_int_eq(th_windows_next(windows, tokens, targets), TH_OK);
    const int64_t length = th_size(tokens, 1);
    const int32_t *token = th_data_const(tokens), *target = th_data_const(targets);
    for (int64_t row = 0; row < 2; row++, token += length, target += length) {
        begins[row] = target[0] == TH_NO_TARGET ? -1 : token[0];
        for (int64_t i = 0; i < length; i++) {
            const bool padding = target[i] == TH_NO_TARGET;
            ck_assert_int_eq(token[i], padding ? 0 : begins[row] + i);
            ck_assert(padding || target[i] == begins[row] + i + 1);
            ck_assert(!padding || i == 0 || i + 1 == length || target[i + 1] == TH_NO_TARGET);
        }
    }
}

START_TEST(every_window_once)
{
    th_token_file *file = counting_file(1000);
    th_tensor *tokens = th_empty(ctx, TH_INT32, TH_SHAPE(2, 8)), *targets = th_empty(ctx, TH_INT32, TH_SHAPE(2, 8));
    const th_windows_options options = {.begin = 100, .end = 900, .length = 8, .shuffle = true, .seed = 5};
    th_windows *windows = th_windows_new(file, &options);
    int64_t begins[2], at = 2, offsets = 0, orders = 0;
    for (int64_t epoch = 0; epoch < 20; epoch++) {
        unsigned char seen[1000] = {0};
        int64_t last = 0, first = 1000, count = 0;
        do {
            if (at == 2) { /* a batch continues in the next epoch */
                next_rows(windows, tokens, targets, begins);
                at = 0;
            }
            if (count == 0 && at == 0)
                ck_assert_int_eq(th_windows_where(windows).epoch, epoch);
            orders += begins[at] < last;
            last = begins[at];
            first = first < begins[at] ? first : begins[at];
            ck_assert(begins[at] >= 100 && begins[at] + 8 < 900);
            ck_assert_int_eq(seen[begins[at]]++, 0);
            at++;
            count++;
            if (count == 98) { /* 98 or 99, by the offset */
                const int64_t in_epoch = (799 - (first - 100)) / 8;
                if (in_epoch == 98)
                    break;
            }
        } while (count < 99);
        for (int64_t i = first; i < first + 8 * count; i += 8)
            ck_assert_int_eq(seen[i], 1);
        ck_assert_int_lt(first, 108);
        offsets |= (int64_t)1 << (first - 100);
    }
    ck_assert_int_gt(orders, 20 * 30); /* not in order */
    ck_assert_int_gt(__builtin_popcountll((unsigned long long)offsets), 4);
}
END_TEST

/* After a restart at any position, the windows equal the windows of an uninterrupted order. Another seed gives
 * another order. */
START_TEST(the_order_continues_from_any_position)
{
    enum { ALL = 200 };
    th_token_file *file = counting_file(333);
    th_tensor *tokens = th_empty(ctx, TH_INT32, TH_SHAPE(2, 4)), *targets = th_empty(ctx, TH_INT32, TH_SHAPE(2, 4));
    th_windows_options options = {.length = 4, .shuffle = true, .seed = 1};
    th_windows *windows = th_windows_new(file, &options);
    int64_t begins[ALL][2];
    th_windows_position position[ALL];
    for (int i = 0; i < ALL; i++) {
        position[i] = th_windows_where(windows);
        next_rows(windows, tokens, targets, begins[i]);
    }
    ck_assert_int_eq(position[ALL - 1].epoch, 4);
    for (int i = ALL - 1; i >= 0; i -= 7) {
        int64_t again[2];
        th_windows *other = th_windows_new(file, &options);
        ck_assert_int_eq(th_windows_go_to(other, position[i]), TH_OK);
        for (int j = i; j < ALL && j < i + 3; j++) {
            next_rows(other, tokens, targets, again);
            ck_assert(again[0] == begins[j][0] && again[1] == begins[j][1]);
        }
        th_windows_free(other);
    }
    options.seed = 2;
    th_windows *other = th_windows_new(file, &options);
    int same = 0;
    for (int i = 0; i < ALL; i++) {
        int64_t row[2];
        next_rows(other, tokens, targets, row);
        same += row[0] == begins[i][0];
    }
    ck_assert_int_lt(same, 20);
    const th_windows_position nowhere[] = {{-1, 0}, {0, -1}, {0, 84}, {INT64_MAX, 0}, {INT64_MAX / 2 + 1, 0}};
    static const char *const sentences[] = {
        "the epoch must be 0 to 4611686018427387903; it is -1", "the next window of epoch 0 must be 0 to 82; it is -1",
        "the next window of epoch 0 must be 0 to 82; it is 84", "it is 9223372036854775807", "the epoch must be"};
    for (int i = 0; i < 5; i++) {
        const th_windows_position before = th_windows_where(windows);
        expect_status(th_windows_go_to(windows, nowhere[i]), TH_ERROR_ARGUMENT, sentences[i]);
        const th_windows_position after = th_windows_where(windows);
        ck_assert(before.epoch == after.epoch && before.index == after.index);
    }
    ck_assert_int_eq(th_windows_go_to(windows, (th_windows_position){INT64_MAX / 2, 80}), TH_OK);
    for (int i = 0; i < 3; i++) /* into the next epoch */
        ck_assert_int_eq(th_windows_next(windows, tokens, targets), TH_OK);
    ck_assert_int_eq(th_windows_where(windows).epoch, INT64_MAX / 2 + 1);
}
END_TEST

/* To skip windows leads to the same position as to read them in one batch, from any position and for any count. */
START_TEST(skipped_windows)
{
    enum { MOST = 40 }; /* more than two epochs */
    th_token_file *file = counting_file(60);
    th_tensor *next = th_empty(ctx, TH_INT32, TH_SHAPE(2, 4)), *other = th_empty(ctx, TH_INT32, TH_SHAPE(2, 4));
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        const th_windows_options options = {.length = 4, .shuffle = shuffle, .seed = 5};
        th_windows *read = th_windows_new(file, &options), *skip = th_windows_new(file, &options);
        for (int64_t index = 0; index <= th_windows_count(skip); index++)
            for (int64_t count = 0; count <= MOST; count++) {
                ck_assert_int_eq(th_windows_go_to(read, (th_windows_position){3, index}), TH_OK);
                ck_assert_int_eq(th_windows_go_to(skip, (th_windows_position){3, index}), TH_OK);
                if (count > 0) {
                    th_tensor *batch = th_empty(ctx, TH_INT32, TH_SHAPE(count, 4));
                    ck_assert_int_eq(th_windows_next(read, batch, batch), TH_OK);
                    th_tensor_free(batch);
                }
                ck_assert_int_eq(th_windows_skip(skip, count), TH_OK);
                ck_assert_int_eq(th_windows_where(skip).epoch, th_windows_where(read).epoch);
                ck_assert_int_eq(th_windows_where(skip).index, th_windows_where(read).index);
                ck_assert_int_eq(th_windows_count(skip), th_windows_count(read));
                int64_t begins[2], skipped[2];
                next_rows(read, next, other, begins);
                next_rows(skip, next, other, skipped);
                ck_assert_int_eq(skipped[0], begins[0]);
                th_tape_clear(ctx);
            }
        expect_status(th_windows_skip(skip, -1), TH_ERROR_ARGUMENT, "windows to skip must be 0 or more; it is -1");
        th_windows_free(read);
        th_windows_free(skip);
    }
    expect_status(th_windows_skip(NULL, 1), TH_ERROR_ARGUMENT, "windows: the windows are NULL");
}
END_TEST

/* Two epochs have different orders. Windows of length 1 begin at the first token in each epoch. */
START_TEST(every_epoch_has_its_own_order)
{
    enum { COUNT = 50 };
    th_token_file *file = counting_file(COUNT + 1);
    th_tensor *tokens = th_empty(ctx, TH_INT32, TH_SHAPE(COUNT, 1)),
              *targets = th_empty(ctx, TH_INT32, TH_SHAPE(COUNT, 1));
    th_windows *windows = th_windows_new(file, &(th_windows_options){.length = 1, .shuffle = true, .seed = 3});
    int32_t order[4][COUNT];
    for (int epoch = 0; epoch < 4; epoch++) {
        ck_assert_int_eq(th_windows_next(windows, tokens, targets), TH_OK);
        ck_assert_int_eq(th_windows_where(windows).epoch, epoch);
        memcpy(order[epoch], th_data_const(tokens), sizeof order[epoch]);
        for (int other = 0; other < epoch; other++) {
            int same = 0;
            for (int i = 0; i < COUNT; i++)
                same += order[epoch][i] == order[other][i];
            ck_assert_int_lt(same, COUNT / 4);
        }
    }
}
END_TEST

/* In order, every token except the first is a target once, in a pass of any length and with any batch. */
START_TEST(in_order)
{
    th_tensor *tokens = th_empty(ctx, TH_INT32, TH_SHAPE(2, 8)), *targets = th_empty(ctx, TH_INT32, TH_SHAPE(2, 8));
    th_token_file *file = counting_file(200);
    for (int64_t count = 2; count <= 60; count++) {
        const th_windows_options options = {.begin = 3, .end = 3 + count, .length = 8};
        th_windows *windows = th_windows_new(file, &options);
        ck_assert_int_eq(th_windows_targets(windows), count - 1);
        ck_assert_int_eq(th_windows_count(windows), (count - 1 + 7) / 8);
        for (int64_t epoch = 0; epoch < 2; epoch++) {
            int64_t met = 0, batches = 0;
            do {
                int64_t begins[2];
                next_rows(windows, tokens, targets, begins);
                ck_assert_int_eq(begins[0], 3 + 16 * batches++);
                const int32_t *target = th_data_const(targets);
                for (int i = 0; i < 16; i++)
                    met += target[i] != TH_NO_TARGET;
            } while (th_windows_where(windows).index < th_windows_count(windows));
            ck_assert_int_eq(met, count - 1);
            ck_assert_int_eq(batches, (th_windows_count(windows) + 1) / 2);
            ck_assert_int_eq(th_windows_where(windows).epoch, epoch);
        }
        th_windows_free(windows);
    }
}
END_TEST

START_TEST(the_smallest_ranges)
{
    th_token_file *file = counting_file(100);
    th_tensor *tokens = th_empty(ctx, TH_INT32, TH_SHAPE(2, 8)), *targets = th_empty(ctx, TH_INT32, TH_SHAPE(2, 8));
    for (int64_t count = 9; count < 30; count++) {
        const th_windows_options options = {.end = count, .length = 8, .shuffle = true};
        th_windows *windows = th_windows_new(file, &options);
        for (int i = 0; i < 40; i++) {
            int64_t begins[2];
            next_rows(windows, tokens, targets, begins);
            ck_assert(begins[0] >= 0 && begins[0] + 8 < count && begins[1] >= 0 && begins[1] + 8 < count);
        }
        th_windows_free(windows);
    }
}
END_TEST

START_TEST(wrong_arguments)
{
    th_token_file *file = counting_file(100);
    assert_error(th_windows_new(NULL, NULL), TH_ERROR_ARGUMENT, "the file is NULL");
    assert_error(th_windows_new(file, NULL), TH_ERROR_ARGUMENT, "length of a window must be positive");
    const struct {
        th_windows_options options;
        const char *sentence;
    } wrong[] = {
        {{.length = -1}, "positive; it is -1"},
        {{.length = 4, .begin = -1}, "tokens -1 to 100 are outside /"},
        {{.length = 4, .end = 101}, ", which has 100"},
        {{.length = 4, .begin = 60, .end = 50}, "tokens 60 to 50 are outside"},
        {{.length = 100, .shuffle = true},
         "has 100 tokens, but windows of length 100 need 101, including the last target"},
        {{.length = 4, .begin = 99}, "has 1 tokens, but even windows of length 1 need 2"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_error(th_windows_new(file, &wrong[i].options), TH_ERROR_ARGUMENT, wrong[i].sentence);
    th_windows *windows = th_windows_new(file, &(th_windows_options){.length = 4});
    th_tensor *good = th_empty(ctx, TH_INT32, TH_SHAPE(2, 4));
    expect_status(th_windows_next(NULL, good, good), TH_ERROR_ARGUMENT, "windows: the windows are NULL");
    expect_status(th_windows_go_to(NULL, (th_windows_position){0}), TH_ERROR_ARGUMENT, "windows: the windows are NULL");
    th_reshape(good, TH_SHAPE(3)); /* after an error, calls return it and change nothing */
    ck_assert_int_eq(th_windows_go_to(windows, (th_windows_position){1, 1}), TH_ERROR_SHAPE);
    ck_assert_int_eq(th_windows_next(windows, good, good), TH_ERROR_SHAPE);
    ck_assert_int_eq(th_windows_skip(windows, 1), TH_ERROR_SHAPE);
    ck_assert(th_windows_where(windows).epoch == 0 && th_windows_where(windows).index == 0);
    ck_assert_ptr_null(th_windows_new(file, &(th_windows_options){.length = 4}));
    expect_error(TH_ERROR_SHAPE, "reshape");
    expect_status(th_windows_next(windows, NULL, good), TH_ERROR_ARGUMENT, "tokens is NULL");
    expect_status(th_windows_next(windows, good, th_empty(ctx, TH_INT64, TH_SHAPE(2, 4))), TH_ERROR_TYPE,
                  "targets must be int32; they are int64");
    expect_status(th_windows_next(windows, th_empty(ctx, TH_INT32, TH_SHAPE(2, 5)), good), TH_ERROR_SHAPE, "(B, T=4)");
    expect_status(th_windows_next(windows, good, th_empty(ctx, TH_INT32, TH_SHAPE(3, 4))), TH_ERROR_SHAPE, "targets");
    expect_status(th_windows_next(windows, th_empty(ctx, TH_INT32, TH_SHAPE(8)), good), TH_ERROR_SHAPE, "tokens");
    th_tensor *transposed = th_transpose(th_empty(ctx, TH_INT32, TH_SHAPE(4, 2)), TH_AXES(1, 0));
    expect_status(th_windows_next(windows, transposed, good), TH_ERROR_SHAPE, "contiguous");
    th_token_file_close(file); /* the windows keep it open */
    th_tensor *targets = th_empty(ctx, TH_INT32, TH_SHAPE(2, 4));
    ck_assert_int_eq(th_windows_next(windows, good, targets), TH_OK);
    ck_assert(th_windows_count(NULL) == 0 && th_windows_targets(NULL) == 0 && th_windows_where(NULL).index == 0);
    th_windows_free(NULL);
}
END_TEST

/* A damaged block in the middle of a batch is an error, and the position stays. */
START_TEST(damage_while_training)
{
    th_token_file_close(counting_file(20000));
    FILE *bytes = fopen(path, "r+b");
    ck_assert(fseek(bytes, 64 + 100, SEEK_SET) == 0 && fputc(99, bytes) == 99 && fclose(bytes) == 0);
    th_token_file *file = th_token_file_open(ctx, path, &(th_token_file_options){.check_when_used = true});
    th_windows *windows = th_windows_new(file, &(th_windows_options){.length = 4});
    th_tensor *tokens = th_empty(ctx, TH_INT32, TH_SHAPE(2, 4)), *targets = th_empty(ctx, TH_INT32, TH_SHAPE(2, 4));
    expect_status(th_windows_next(windows, tokens, targets), TH_ERROR_FILE, "is wrong");
    ck_assert_int_eq(th_windows_where(windows).index, 0);
}
END_TEST

/* Changes a byte of token 50 on the disk; a second call repairs it. */
static void damage(void)
{
    FILE *file = fopen(path, "r+b");
    ck_assert_ptr_nonnull(file);
    fseek(file, 64 + 100, SEEK_SET);
    const int byte = fgetc(file);
    fseek(file, 64 + 100, SEEK_SET);
    ck_assert_int_eq(fputc(byte ^ 1, file), byte ^ 1);
    ck_assert_int_eq(fclose(file), 0);
}

/* A batch that fails changes nothing, also if it began a new epoch before. Afterwards the windows continue like others
 * that go to the same position. _i: rows left in the epoch. */
START_TEST(a_failed_batch_can_be_repeated)
{
    enum { LENGTH = 7, ROWS = 3, TOKENS = 60 };
    th_tensor *tokens[2], *targets[2];
    for (int i = 0; i < 2; i++) {
        tokens[i] = th_empty(ctx, TH_INT32, TH_SHAPE(ROWS, LENGTH));
        targets[i] = th_empty(ctx, TH_INT32, TH_SHAPE(ROWS, LENGTH));
    }
    th_token_file_close(counting_file(TOKENS));
    for (int shuffle = 0; shuffle < 2; shuffle++)
        for (int64_t epoch = 0; epoch < 8; epoch++) {
            damage();
            th_token_file *file = th_token_file_open(ctx, path, &(th_token_file_options){.check_when_used = true});
            const th_windows_options options = {.length = LENGTH, .shuffle = shuffle, .seed = 3};
            th_windows *windows = th_windows_new(file, &options), *others = th_windows_new(file, &options);
            ck_assert_int_eq(th_windows_go_to(windows, (th_windows_position){.epoch = epoch}), TH_OK);
            const int64_t count = th_windows_count(windows);
            const th_windows_position position = {epoch, count - _i};
            ck_assert_int_eq(th_windows_go_to(windows, position), TH_OK);
            for (int again = 0; again < 2; again++) {
                expect_status(th_windows_next(windows, tokens[0], targets[0]), TH_ERROR_FILE, "is wrong");
                ck_assert_int_eq(th_windows_where(windows).epoch, epoch);
                ck_assert_int_eq(th_windows_where(windows).index, count - _i);
                ck_assert_int_eq(th_windows_count(windows), count);
            }
            damage();
            ck_assert_int_eq(th_windows_go_to(others, position), TH_OK);
            for (int batch = 0; batch < 4; batch++) {
                ck_assert_int_eq(th_windows_next(windows, tokens[0], targets[0]), TH_OK);
                ck_assert_int_eq(th_windows_next(others, tokens[1], targets[1]), TH_OK);
                const size_t bytes = ROWS * LENGTH * sizeof(int32_t);
                ck_assert_mem_eq(th_data_const(tokens[0]), th_data_const(tokens[1]), bytes);
                ck_assert_mem_eq(th_data_const(targets[0]), th_data_const(targets[1]), bytes);
                ck_assert_int_eq(th_windows_where(windows).epoch, th_windows_where(others).epoch);
                ck_assert_int_eq(th_windows_where(windows).index, th_windows_where(others).index);
            }
            th_windows_free(windows);
            th_windows_free(others);
            th_token_file_close(file);
        }
}
END_TEST

START_TEST(shapes_only)
{
    th_token_file_close(counting_file(100));
    th_context *shapes = th_context_new(&(th_context_options){.shapes_only = true});
    th_token_file *file = th_token_file_open(shapes, path, NULL);
    th_windows *windows = th_windows_new(file, &(th_windows_options){.length = 4, .shuffle = true});
    th_tensor *tokens = th_empty(shapes, TH_INT32, TH_SHAPE(2, 4));
    for (int i = 0; i < 50; i++)
        ck_assert_int_eq(th_windows_next(windows, tokens, tokens), TH_OK);
    ck_assert_int_gt(th_windows_where(windows).epoch, 2);
    th_context_free(shapes);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("windows", setup, teardown);
    tcase_add_test(tests, permutations);
    tcase_add_test(tests, every_window_is_equally_frequent_at_every_position);
    tcase_add_test(tests, every_window_once);
    tcase_add_test(tests, the_order_continues_from_any_position);
    tcase_add_test(tests, skipped_windows);
    tcase_add_test(tests, every_epoch_has_its_own_order);
    tcase_add_test(tests, in_order);
    tcase_add_test(tests, the_smallest_ranges);
    tcase_add_test(tests, wrong_arguments);
    tcase_add_test(tests, damage_while_training);
    tcase_add_loop_test(tests, a_failed_batch_can_be_repeated, 0, 3);
    tcase_add_test(tests, shapes_only);
    return run_suites();
}
