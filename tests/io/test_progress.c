/* The progress line: plain lines in a file, one rewritten line on a terminal (here a pseudo-terminal), and errors of
 * writing at the end. */
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "memory.h"

#include "tapehead/tapehead.h"

#include "context.h"

/* The time that the progress line reads, in seconds. It passes only when a test says so. */
static double clock_seconds;

int clock_gettime(clockid_t clock, struct timespec *t)
{
    (void)clock;
    t->tv_sec = (time_t)floor(clock_seconds);
    t->tv_nsec = lround(1e9 * (clock_seconds - floor(clock_seconds)));
    return 0;
}

static void setup(void)
{
    clock_seconds = 1000;
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
        clock_seconds += 0.01;
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
    clock_seconds += 0.02;
    th_progress_update(bar, 999000, 1); /* one step in 0.02 s, 999 left */
    ck_assert_int_eq(th_progress_end(bar), TH_OK);
    fclose(file);
    ck_assert_str_eq(text, "step  999001/1000000 100%  loss 1.0000  50 samples/s  0:20 left\n");
    free(text);
    expect_failure(!th_progress_new(ctx, &(th_progress_options){.file = stderr, .begin = -1}), TH_ERROR_ARGUMENT,
                   "no number may be negative");
}
END_TEST

/* Returns a new pseudo-terminal, or -1 if these are not available. */
static int open_terminal(void)
{
#ifdef __EMSCRIPTEN__ /* its unlockpt ends the program */
    return -1;
#else
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    return terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0 ? terminal : -1;
#endif
}

/* Reads what was written to the pseudo-terminal. */
static void read_all(int terminal, char *text, size_t size)
{
    size_t used = 0;
    fcntl(terminal, F_SETFL, O_NONBLOCK);
    for (ssize_t n; used + 1 < size && (n = read(terminal, text + used, size - 1 - used)) > 0;)
        used += (size_t)n;
    text[used] = 0;
}

START_TEST(on_a_terminal)
{
    const int terminal = open_terminal();
    if (terminal < 0)
        return;
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
    char text[8192];
    read_all(terminal, text, sizeof text);
    fclose(file);
    close(terminal);
    ck_assert_ptr_nonnull(strstr(text, "\r\033[Kstep    1/1000   0%  loss 2.5000"));
    ck_assert_ptr_nonnull(strstr(text, "\r\033[Ka note\r\n")); /* (the terminal adds the carriage return) */
    ck_assert_ptr_nonnull(strstr(text, "step 1000/1000 100%  loss 2.5000\r\n"));
    ck_assert_int_lt(count(text, "step"), 100); /* ten times a second, not a thousand lines */
}
END_TEST

/* Returns the only line of a run with these options in which the first step takes `seconds`. The caller frees it. */
static char *line_after(double seconds, th_progress_options options)
{
    char *text = NULL;
    size_t size = 0;
    options.file = open_memstream(&text, &size);
    th_progress *bar = th_progress_new(ctx, &options);
    no_error();
    clock_seconds += seconds;
    th_progress_update(bar, options.begin, 1);
    ck_assert_int_eq(th_progress_end(bar), TH_OK);
    fclose(options.file);
    return text;
}

START_TEST(rates_in_few_characters)
{
    static const struct {
        int64_t units;
        const char *rate;
    } cases[] = {{1, "  1 samples/s"},
                 {950, "  950 samples/s"},
                 {999, "  999 samples/s"},
                 {1000, "  1.0k samples/s"},
                 {9949, "  9.9k samples/s"},
                 {9951, "  10k samples/s"},
                 {12345, "  12k samples/s"},
                 {999499, "  999k samples/s"},
                 {999501, "  1.0M samples/s"},
                 {1300000, "  1.3M samples/s"},
                 {2500000000, "  2.5G samples/s"},
                 {7200000000000, "  7.2T samples/s"},
                 {5000000000000000, "  5000T samples/s"}};
    char expected[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = line_after(1, (th_progress_options){.units_per_step = cases[i].units});
        snprintf(expected, sizeof expected, "step 1  loss 1.0000%s\n", cases[i].rate);
        ck_assert_str_eq(text, expected);
        free(text);
        text = line_after(0.5, (th_progress_options){.units_per_step = cases[i].units / 2, .unit = "u"});
        ck_assert_int_eq(count(text, " u/s\n"), cases[i].units > 1);
        free(text);
    }
    char *text = line_after(0, (th_progress_options){.units_per_step = 5}); /* no time has passed */
    ck_assert_str_eq(text, "step 1  loss 1.0000\n");
    free(text);
}
END_TEST

START_TEST(the_time_that_is_left)
{
    static const struct {
        double seconds;
        int64_t steps;
        const char *left;
    } cases[] = {{1, 60, "  0:59 left\n"},          {1, 61, "  1:00 left\n"},        {0.25, 3, "  0:01 left\n"},
                 {0.5, 4, "  0:02 left\n"},         {1, 3600, "  59:59 left\n"},     {1, 3601, "  1:00:00 left\n"},
                 {1, 3662, "  1:01:01 left\n"},     {10, 3601, "  10:00:00 left\n"}, {1e9, 2, "  277777:46:40 left\n"},
                 {7e9, 9, "  277777:46:40 left\n"}, {1, 1, "  loss 1.0000\n"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (sizeof(time_t) == 4 && cases[i].seconds > INT32_MAX) /* the clock cannot tell this time */
            continue;
        char *text = line_after(cases[i].seconds, (th_progress_options){.steps = cases[i].steps});
        const size_t length = strlen(text), end = strlen(cases[i].left);
        ck_assert_msg(length > end && strcmp(text + length - end, cases[i].left) == 0, "%zu: %s", i, text);
        free(text);
    }
}
END_TEST

/* Without .plain_every, a file gets about 20 lines of a run, or every step of a short one. */
START_TEST(how_often_a_file_gets_a_line)
{
    static const int64_t cases[][3] = {
        {0, 250, 3},  {0, 101, 2},  {19, 19, 19},  {20, 20, 20},
        {39, 39, 39}, {40, 40, 20}, {100, 100, 20}}; /* .steps, steps run, lines of them */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = NULL;
        size_t size = 0;
        FILE *file = open_memstream(&text, &size);
        th_progress *bar = th_progress_new(ctx, &(th_progress_options){.file = file, .steps = cases[i][0]});
        for (int64_t step = 0; step < cases[i][1]; step++)
            th_progress_update(bar, step, 1);
        fflush(file);
        ck_assert_msg(count(text, "\n") == cases[i][2], "%d steps: %d lines", (int)cases[i][0], count(text, "\n"));
        ck_assert_int_eq(th_progress_end(bar), TH_OK);
        fclose(file);
        free(text);
    }
}
END_TEST

/* On a terminal, the line is written again after a tenth of a second, and it is cut at the terminal's width. */
START_TEST(a_terminal_of_40_columns)
{
    const int terminal = open_terminal();
    if (terminal < 0)
        return;
    FILE *file = fopen(ptsname(terminal), "w");
    if (file == NULL || ioctl(fileno(file), TIOCSWINSZ, &(struct winsize){.ws_col = 40}) != 0)
        return;
    th_progress *bar = th_progress_new(ctx, &(th_progress_options){.file = file, .units_per_step = 100000});
    th_progress_show(bar, "accuracy", 0.5);
    th_progress_update(bar, 0, 1); /* the first is written at once */
    clock_seconds += 0.0625;
    th_progress_update(bar, 1, 2);
    clock_seconds += 0.0625;
    th_progress_update(bar, 2, 3);
    clock_seconds += 0.0625;
    th_progress_update(bar, 3, 4);
    ck_assert_int_eq(th_progress_end(bar), TH_OK);
    char text[8192];
    read_all(terminal, text, sizeof text);
    fclose(file);
    close(terminal);
    ck_assert_str_eq(text, "\r\033[Kstep 1  loss 1.0000  accuracy 0.500"
                           "\r\033[Kstep 3  loss 3.0000  accuracy 0.500  2."
                           "\r\033[Kstep 4  loss 4.0000  accuracy 0.500  2.\r\n");
}
END_TEST

START_TEST(more_figures_than_fit)
{
    char *text = NULL, name[32];
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    th_progress *bar = th_progress_new(ctx, &(th_progress_options){.file = file});
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 40; i++) {
            snprintf(name, sizeof name, "f%02d", i);
            th_progress_show(bar, name, round + i);
        }
    th_progress_show(bar, NULL, 1);
    th_progress_update(bar, 0, 1);
    ck_assert_int_eq(th_progress_end(bar), TH_OK);
    fclose(file);
    const int shown = count(text, "  f");
    ck_assert_int_ge(shown, 4);
    ck_assert_int_lt(shown, 40);
    snprintf(name, sizeof name, "f%02d %d.000\n", shown - 1, shown); /* the first names stay, with their last value */
    ck_assert_ptr_nonnull(strstr(text, "  f00 1.000  f01 2.000"));
    ck_assert_ptr_nonnull(strstr(text, name));
    free(text);
}
END_TEST

/* Each allocation fails in turn. */
START_TEST(no_memory_for_a_line)
{
    for (int64_t at = 1; at <= 2; at++) {
        test_memory memory = {0};
        th_context *small = th_context_new(&(th_context_options){.threads = 1, .allocator = allocator_of(&memory)});
        const size_t bytes = memory.bytes;
        memory.fail_at = memory.calls + at;
        ck_assert_ptr_null(th_progress_new(small, &(th_progress_options){.file = stderr}));
        ck_assert_int_eq(th_error_code(small), TH_ERROR_MEMORY);
        ck_assert_msg(strstr(th_error_message(small), "progress: ") != NULL, "%s", th_error_message(small));
        ck_assert_uint_eq(memory.bytes, bytes);
        ck_assert_ptr_null(th_progress_new(small, &(th_progress_options){.file = stderr})); /* an error is pending */
        th_error_clear(small);
        ck_assert_ptr_nonnull(th_progress_new(small, &(th_progress_options){.file = stderr}));
        th_context_free(small);
        ck_assert_uint_eq(memory.bytes, 0);
    }
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
    const th_progress_options wrong[] = {{.steps = 1},
                                         {.file = stderr, .steps = -1},
                                         {.file = stderr, .begin = -1},
                                         {.file = stderr, .units_per_step = -1},
                                         {.file = stderr, .plain_every = -1}};
    for (int i = 0; i < 5; i++)
        expect_failure(!th_progress_new(ctx, &wrong[i]), TH_ERROR_ARGUMENT, "progress: a file must be given");
    ck_assert_ptr_null(th_progress_new(NULL, &wrong[0]));
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
    tcase_add_test(lines, rates_in_few_characters);
    tcase_add_test(lines, the_time_that_is_left);
    tcase_add_test(lines, how_often_a_file_gets_a_line);
    tcase_add_test(lines, a_terminal_of_40_columns);
    tcase_add_test(lines, more_figures_than_fit);
    tcase_add_test(lines, no_memory_for_a_line);
    tcase_add_test(lines, odd_steps_and_names);
    tcase_add_test(lines, errors);
    return run_suites();
}
