/* Packed windows and windows of marked files: every target that counts occurs once in an epoch, whole documents stay
 * together, and the packing is close to the best one. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tapehead/models.h"

#include "memory.h"

#include "context.h"
#include "folder.h"

enum { LENGTH = 32, DOCUMENTS = 400, ROWS = 3 };
static char path[96];
static test_memory memory;
static int32_t *token; /* token i is i */
static unsigned char *mark;
static int64_t tokens, counted;

static void setup(void)
{
    memory = (test_memory){0};
    ctx = th_context_new(&(th_context_options){.threads = 1, .allocator = allocator_of(&memory)});
    make_folder();
    strcpy(path, in_folder("marked.tokens"));
    token = malloc(DOCUMENTS * 4 * LENGTH * sizeof *token);
    mark = malloc(DOCUMENTS * 4 * LENGTH);
    tokens = counted = 0;
    srand(5);
}

static void teardown(void)
{
    close_context();
    ck_assert_uint_eq(memory.bytes, 0);
    remove_folder();
    free(token);
    free(mark);
}

/* Adds a document whose first `given` tokens are given. */
static void add(int64_t count, int64_t given)
{
    for (int64_t i = 0; i < count; i++, tokens++) {
        token[tokens] = (int32_t)tokens;
        mark[tokens] = (unsigned char)((i == 0 ? TH_TOKEN_BEGINS : 0) | (i < given ? TH_TOKEN_GIVEN : 0));
        counted += mark[tokens] == 0;
    }
}

static th_token_file *write_file(void)
{
    th_token_writer *writer = th_token_writer_open_marked(ctx, path, 1 << 20);
    ck_assert_int_eq(th_token_writer_append_marked(writer, token, mark, tokens), TH_OK);
    ck_assert_int_eq(th_token_writer_close(writer), TH_OK);
    th_token_file *file = th_token_file_open(ctx, path, NULL);
    no_error();
    return file;
}

static void add_random(void)
{
    for (int i = 0; i < DOCUMENTS; i++) {
        const int64_t count = 1 + rand() % (i % 20 == 0 ? 3 * LENGTH : LENGTH + 1);
        add(count, rand() % (count + 1));
    }
}

/* Reads an epoch. Returns the number of its batches. seen: [tokens], how often each token is a target. */
static int64_t read_epoch(th_windows *windows, int *seen)
{
    th_tensor *t[3];
    for (int i = 0; i < 3; i++)
        t[i] = th_zeros(ctx, TH_INT32, TH_SHAPE(ROWS, LENGTH));
    int64_t batches = 0;
    const int64_t count = th_windows_count(windows);
    for (bool more = true; more; batches++) {
        ck_assert_int_eq(th_windows_next_packed(windows, t[0], t[1], t[2]), TH_OK);
        more = th_windows_where(windows).index < count;
        const int32_t *in = th_data(t[0]), *target = th_data(t[1]), *start = th_data(t[2]);
        for (int i = 0; i < ROWS * LENGTH; i++) {
            const int place = i % LENGTH, begin = i - place + start[i];
            ck_assert(start[i] >= 0 && start[i] <= place);
            if (target[i] == TH_NO_TARGET)
                continue;
            seen[target[i]]++;
            ck_assert_int_eq(mark[target[i]], 0);
            ck_assert_int_eq(target[i], in[i] + 1);
            ck_assert_int_eq(in[i] - in[begin], i - begin); /* one document from in[begin] to in[i] */
            for (int k = begin + 1; k <= i; k++)
                ck_assert_int_eq(mark[in[k]] & TH_TOKEN_BEGINS, 0);
        }
    }
    return batches;
}

START_TEST(every_target_occurs_once)
{
    const bool pack = _i & 1, shuffle = _i & 2;
    add_random();
    th_token_file *file = write_file();
    int *seen = calloc((size_t)tokens, sizeof *seen);
    th_windows *windows =
        th_windows_new(file, &(th_windows_options){.length = LENGTH, .shuffle = shuffle, .seed = 9, .pack = pack});
    no_error();
    const int64_t targets = th_windows_targets(windows);
    if (shuffle) { /* batches continue in the next epoch: read window by window */
        th_tensor *t[3];
        for (int i = 0; i < 3; i++)
            t[i] = th_zeros(ctx, TH_INT32, TH_SHAPE(1, LENGTH));
        for (int64_t w = 0, n = th_windows_count(windows); w < n; w++) {
            ck_assert_int_eq(th_windows_next_packed(windows, t[0], t[1], t[2]), TH_OK);
            for (int i = 0; i < LENGTH; i++)
                if (((int32_t *)th_data(t[1]))[i] != TH_NO_TARGET)
                    seen[((int32_t *)th_data(t[1]))[i]]++;
        }
    } else
        (void)read_epoch(windows, seen);
    int64_t total = 0;
    for (int64_t i = 0; i < tokens; i++) {
        ck_assert_int_le(seen[i], mark[i] == 0);
        if (pack || !shuffle)
            ck_assert_int_eq(seen[i], mark[i] == 0);
        total += seen[i];
    }
    ck_assert_int_eq(total, targets);
    if (pack || !shuffle)
        ck_assert_int_eq(total, counted);
    th_windows_free(windows);
    th_token_file_close(file);
    free(seen);
}
END_TEST

START_TEST(windows_are_full)
{
    int64_t places = 0;
    for (int i = 0; i < DOCUMENTS; i++) {
        const int64_t count = 3 + rand() % (LENGTH - 2);
        add(count, 1);
        places += count - 1;
    }
    th_token_file *file = write_file();
    th_windows *windows = th_windows_new(file, &(th_windows_options){.length = LENGTH, .pack = true});
    const int64_t best = (places + LENGTH - 1) / LENGTH;
    ck_assert_int_le(th_windows_count(windows), best + best / 20 + 1);
    th_windows_free(windows);
    th_token_file_close(file);
}
END_TEST

START_TEST(a_long_document_is_divided)
{
    add(2 * LENGTH + 6, 0);
    th_token_file *file = write_file();
    th_windows *windows = th_windows_new(file, &(th_windows_options){.length = LENGTH, .pack = true});
    ck_assert_int_eq(th_windows_count(windows), 3);
    ck_assert_int_eq(th_windows_targets(windows), 2 * LENGTH + 5);
    th_windows_free(windows);
    th_token_file_close(file);
}
END_TEST

START_TEST(marks_are_read_back)
{
    unsigned char read[8];
    int32_t back[8];
    add(5, 2);
    add(3, 0);
    th_token_file *file = write_file();
    ck_assert(th_token_file_has_marks(file));
    ck_assert_int_eq(th_token_file_read_marks(file, 0, 8, read), TH_OK);
    ck_assert_mem_eq(read, mark, 8);
    ck_assert_int_eq(th_token_file_read(file, 0, 8, back), TH_OK);
    ck_assert_mem_eq(back, token, sizeof back);
    expect_status(th_token_file_read_marks(file, 7, 2, read), TH_ERROR_INDEX, "2 tokens starting at token 7");
    th_token_file_close(file);
    th_token_writer *writer = th_token_writer_open_marked(ctx, path, 10);
    mark[1] = 4;
    expect_status(th_token_writer_append_marked(writer, token, mark, 2), TH_ERROR_VALUE, "which is unknown");
    th_token_writer_free(writer);
    writer = th_token_writer_open(ctx, path, 10);
    expect_status(th_token_writer_append_marked(writer, token, mark, 1), TH_ERROR_STATE, "has no marks");
    ck_assert_int_eq(th_token_writer_append(writer, token, 1), TH_OK);
    ck_assert_int_eq(th_token_writer_close(writer), TH_OK);
    file = th_token_file_open(ctx, path, NULL);
    ck_assert(!th_token_file_has_marks(file));
    expect_failure(th_windows_new(file, &(th_windows_options){.length = 1, .pack = true}) == NULL, TH_ERROR_ARGUMENT,
                   "has no marks");
    th_token_file_close(file);
    ck_assert_ptr_null(th_token_writer_open_marked(ctx, path, (1 << 30) + 1));
    expect_error(TH_ERROR_ARGUMENT, "1 to 2^30");
}
END_TEST

START_TEST(nothing_counts)
{
    add(5, 5);
    add(1, 0);
    th_token_file *file = write_file();
    expect_failure(th_windows_new(file, &(th_windows_options){.length = 4, .pack = true}) == NULL, TH_ERROR_ARGUMENT,
                   "is a target");
    th_token_file_close(file);
}
END_TEST

START_TEST(out_of_memory)
{
    add_random();
    th_token_file *file = write_file();
    th_windows *windows = NULL;
    for (int i = 1; windows == NULL; i++) {
        memory.fail_at = memory.calls + i;
        windows = th_windows_new(file, &(th_windows_options){.length = LENGTH, .pack = true});
        ck_assert(windows || th_error_code(ctx) == TH_ERROR_MEMORY);
        th_error_clear(ctx);
        ck_assert_int_lt(i, 50);
    }
    memory.fail_at = 0;
    th_windows_free(windows);
    th_token_file_close(file);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("packing", setup, teardown);
    tcase_add_loop_test(tests, every_target_occurs_once, 0, 4);
    tcase_add_test(tests, windows_are_full);
    tcase_add_test(tests, a_long_document_is_divided);
    tcase_add_test(tests, marks_are_read_back);
    tcase_add_test(tests, nothing_counts);
    tcase_add_test(tests, out_of_memory);
    return run_suites();
}
