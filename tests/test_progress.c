/* The progress line: plain lines in a file, one rewritten line on a terminal (here a pseudo-terminal), and errors of
 * writing at the end. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tapehead/tapehead.h"

#include "context.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.threads = 1});
}

START_TEST(plain_lines)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size); /* it has no descriptor, so it is not a terminal */
    const size_t live = th_memory(ctx).live;
    th_progress *bar = th_progress_new(
        ctx, &(th_progress_options){.file = file, .steps = 200, .units_per_step = 512, .unit = "tokens"});
    ck_assert_ptr_nonnull(bar);
    for (int64_t step = 0; step < 200; step++) {
        if (step == 50)
            th_progress_show(bar, "accuracy", 0.25);
        if (step == 60)
            th_progress_show(bar, "accuracy", 0.5);
        if (step == 100)
            th_progress_note(bar, "half of %d", 200);
        th_progress_update(bar, step, 1.0 / (double)(step + 1));
    }
    ck_assert_int_eq(th_progress_end(bar), TH_OK);
    ck_assert_uint_eq(th_memory(ctx).live, live);
    fclose(file);
    ck_assert_int_eq(count(text, "\n"), 20 + 1 + 1); /* twenty, the note, the last */
    ck_assert_int_eq(count(text, "\r"), 0);
    ck_assert_ptr_nonnull(strstr(text, "step   1/200   0%  loss 1.0000  "));
    ck_assert_ptr_nonnull(strstr(text, "\nhalf of 200\n"));
    ck_assert_ptr_nonnull(strstr(text, "step  51/200  26%  loss 0.0196  accuracy 0.250  "));
    ck_assert_ptr_nonnull(strstr(text, "step 200/200 100%  loss 0.0050  accuracy 0.500  "));
    ck_assert_int_eq(count(text, " tokens/s"), 21);
    ck_assert_int_eq(count(text, " left"), 20); /* the last has nothing left */
    free(text);
}
END_TEST

START_TEST(a_line_after_a_number_of_steps)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    th_progress *bar = th_progress_new(ctx, &(th_progress_options){.file = file, .steps = 10, .plain_every = 4});
    for (int64_t step = 0; step < 10; step++)
        th_progress_update(bar, step, 1);
    ck_assert_int_eq(th_progress_end(bar), TH_OK);
    fclose(file);
    ck_assert_int_eq(count(text, "\n"), 4);
    ck_assert_ptr_nonnull(strstr(text, "step  1/10"));
    ck_assert_ptr_nonnull(strstr(text, "step  5/10"));
    ck_assert_ptr_nonnull(strstr(text, "step  9/10"));
    ck_assert_ptr_nonnull(strstr(text, "step 10/10"));
    free(text);
}
END_TEST

/* Steps before a resumed run do not count for the rate. */
START_TEST(resumed)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    const th_progress_options options = {.file = file, .steps = 1000000, .begin = 999000, .units_per_step = 1};
    th_progress *bar = th_progress_new(ctx, &options);
    usleep(20000);
    th_progress_update(bar, 999000, 1); /* one step in 0.02 s, 999 left */
    ck_assert_int_eq(th_progress_end(bar), TH_OK);
    fclose(file);
    ck_assert_ptr_nonnull(strstr(text, "step  999001/1000000 100%  loss 1.0000  "));
    ck_assert_ptr_null(strstr(text, "0:01 left"));
    ck_assert_ptr_null(strstr(text, "k samples/s"));
    free(text);
    expect_failure(!th_progress_new(ctx, &(th_progress_options){.file = stderr, .begin = -1}), TH_ERROR_ARGUMENT,
                   "no number may be negative");
}
END_TEST

START_TEST(on_a_terminal)
{
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0)
        return; /* pseudo-terminals are not available */
    FILE *file = fopen(ptsname(terminal), "w");
    if (file == NULL)
        return;
    th_progress *bar = th_progress_new(ctx, &(th_progress_options){.file = file, .steps = 1000});
    for (int64_t step = 0; step < 1000; step++) {
        th_progress_update(bar, step, 2.5);
        if (step == 500)
            th_progress_note(bar, "a note");
    }
    ck_assert_int_eq(th_progress_end(bar), TH_OK);
    fflush(file);
    char text[8192] = "";
    size_t used = 0;
    fcntl(terminal, F_SETFL, O_NONBLOCK);
    for (ssize_t n; used + 1 < sizeof text && (n = read(terminal, text + used, sizeof text - 1 - used)) > 0;)
        used += (size_t)n;
    fclose(file);
    close(terminal);
    ck_assert_ptr_nonnull(strstr(text, "\r\033[Kstep    1/1000   0%  loss 2.5000"));
    ck_assert_ptr_nonnull(strstr(text, "\r\033[Ka note\r\n")); /* (the terminal adds the carriage return) */
    ck_assert_ptr_nonnull(strstr(text, "step 1000/1000 100%  loss 2.5000\r\n"));
    ck_assert_int_lt(count(text, "step"), 100); /* ten times a second, not a thousand lines */
}
END_TEST

START_TEST(odd_steps_and_names)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    th_progress *bar = th_progress_new(ctx, &(th_progress_options){.file = file, .plain_every = 1});
    char name[200];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    for (int i = 0; i < 9; i++) /* one value, shown several times */
        th_progress_show(bar, name, i);
    th_progress_show(bar, "last", 7);
    th_progress_update(bar, INT64_MAX, NAN);
    th_progress_update(bar, INT64_MIN, INFINITY);
    th_progress_note(bar, NULL);
    ck_assert_int_eq(th_progress_end(bar), TH_OK);
    fclose(file);
    ck_assert_int_eq(count(text, " nnn"), 2);
    ck_assert_int_eq(count(text, " 8.000  last 7.000"), 2);
    ck_assert_ptr_nonnull(strstr(text, "step 9223372036854775807  loss nan"));
    free(text);
}
END_TEST

START_TEST(errors)
{
    ck_assert_ptr_null(th_progress_new(ctx, NULL));
    ck_assert_int_eq(th_error_code(ctx), TH_ERROR_ARGUMENT);
    th_error_clear(ctx);
    ck_assert_ptr_null(th_progress_new(ctx, &(th_progress_options){.file = stderr, .steps = -1}));
    ck_assert_int_eq(th_error_code(ctx), TH_ERROR_ARGUMENT);
    th_error_clear(ctx);
    FILE *full = fopen("/dev/full", "w");
    th_progress *bar = th_progress_new(ctx, &(th_progress_options){.file = full, .steps = 3});
    th_progress_update(bar, 0, 1);
    ck_assert_int_eq(th_progress_end(bar), TH_ERROR_FILE);
    ck_assert_int_eq(th_error_code(ctx), TH_ERROR_FILE);
    th_error_clear(ctx);
    fclose(full);
    th_progress_show(NULL, "x", 1);
    th_progress_update(NULL, 0, 1);
    th_progress_note(NULL, "nothing");
    ck_assert_int_eq(th_progress_end(NULL), TH_OK);
    /* Never ended: the context frees it. */
    ck_assert_ptr_nonnull(th_progress_new(ctx, &(th_progress_options){.file = stderr}));
}
END_TEST

int main(void)
{
    TCase *lines = new_suite("progress", setup, close_context);
    tcase_add_test(lines, plain_lines);
    tcase_add_test(lines, a_line_after_a_number_of_steps);
    tcase_add_test(lines, resumed);
    tcase_add_test(lines, on_a_terminal);
    tcase_add_test(lines, odd_steps_and_names);
    tcase_add_test(lines, errors);
    return run_suites();
}
