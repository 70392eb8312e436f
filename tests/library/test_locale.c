/* The output of the library does not depend on the locale of the program: pictures, tables, progress lines, traces
 * and messages have decimal points, although printf writes commas. The test creates the locale, because the machine
 * may not have one with commas. */
#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tapehead/tapehead.h"

#include "context.h"

static char directory[] = "/tmp/th_locale_XXXXXX";
static char file_name[128];

/* Writes the locale category that printf reads, in the format of glibc: a magic number, the offsets of six entries
 * (decimal point, thousands separator, grouping, the first two as wide characters, character set), the entries. */
static bool make_comma_locale(void)
{
    struct {
        uint32_t magic, count, position[6];
        char text[16]; /* at 32: "," "" "" "UTF-8" */
        uint32_t wide[2];
    } numeric = {.magic = 0x20031115u ^ LC_NUMERIC, .count = 6, .position = {32, 34, 35, 48, 52, 36}, .wide = {','}};
    memcpy(numeric.text, ",\0\0\0UTF-8", 10);
    char folder[64];
    if (mkdtemp(directory) == NULL)
        return false;
    snprintf(folder, sizeof folder, "%s/comma", directory);
    snprintf(file_name, sizeof file_name, "%s/LC_NUMERIC", folder);
    if (mkdir(folder, 0700) != 0)
        return false;
    FILE *file = fopen(file_name, "wb");
    bool written = file && fwrite(&numeric, sizeof numeric, 1, file) == 1;
    written &= file && fclose(file) == 0;
    setenv("LOCPATH", directory, 1);
    if (!written || setlocale(LC_NUMERIC, "comma") == NULL)
        return false;
    char half[8];
    snprintf(half, sizeof half, "%.1f", 0.5);
    return strcmp(half, "0,5") == 0;
}

static void remove_comma_locale(void)
{
    setlocale(LC_ALL, "C");
    unlink(file_name);
    *strrchr(file_name, '/') = 0;
    rmdir(file_name);
    rmdir(directory);
}

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 1, .threads = 1});
}

static void teardown(void)
{
    char half[8];
    snprintf(half, sizeof half, "%.1f", 0.5);
    ck_assert_str_eq(half, "0,5"); /* the program's numbers still have commas */
    close_context();
}

/* Checks that no comma is between digits, except in indices such as x[0,2], and that a number has a point. */
static void expect_points(const char *text)
{
    bool point = false, index = false;
    for (const char *c = text; *c; c++) {
        index = *c == '[' || (index && *c != ']');
        const bool within = c > text && c[-1] >= '0' && c[-1] <= '9' && c[1] >= '0' && c[1] <= '9';
        ck_assert_msg(*c != ',' || !within || index, "\"%.60s\"", c - (c - text < 20 ? c - text : 20));
        point |= *c == '.' && within;
    }
    ck_assert_msg(point, "no number in \"%.200s\"", text);
}

/* Returns the text of a temporary file and closes it. */
static char *written(FILE *file)
{
    static char text[1 << 20];
    fflush(file);
    rewind(file);
    const size_t bytes = fread(text, 1, sizeof text - 1, file);
    text[bytes] = 0;
    fclose(file);
    return text;
}

START_TEST(pictures)
{
    char path[64];
    snprintf(path, sizeof path, "%s/picture.svg", directory);
    const double y[4] = {0.1, 0.25, 0.3, 0.55}, large[4] = {1.25e308, -1.5e308, 1.75e308, 0};
    const th_curve curves[2] = {{.name = "a", .count = 4, .y = y}, {.count = 4, .y = large}};
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(th_picture_curves(ctx, path, &curves[i], 1, NULL), TH_OK);
        expect_points(written(fopen(path, "r")));
    }
    th_tensor *map = th_from_data(ctx, TH_FLOAT64, TH_SHAPE(2, 2), y);
    ck_assert_int_eq(th_picture_heatmaps(map, path, NULL), TH_OK);
    const char *text = written(fopen(path, "r"));
    expect_points(text);
    ck_assert_ptr_nonnull(strstr(text, ": 0.25</title>"));
    ck_assert_ptr_nonnull(strstr(text, ">0.2</text>"));
    unlink(path);
}
END_TEST

static th_tensor *rounded(void *user, th_tensor *x)
{
    (void)user;
    return th_mul(x, th_detach(x));
}

START_TEST(sentences_and_reports)
{
    th_tensor *x = th_set_requires_gradient(th_full(ctx, TH_FLOAT64, TH_SHAPE(2, 3), 0.75), true);
    ck_assert_ptr_null(th_dropout(x, 1.25));
    ck_assert_ptr_nonnull(strstr(th_error_message(ctx), "1.25"));
    th_error_clear(ctx);
    th_gradient_report report;
    ck_assert_int_eq(th_check_gradient_of(rounded, NULL, x, NULL, &report), TH_ERROR_VALUE);
    expect_points(report.text);
    th_set_tracing(ctx, true);
    ck_assert_ptr_nonnull(th_log(th_add_scalar(x, -1.5)));
    ck_assert_ptr_nonnull(th_trace_finding(ctx));
    expect_points(th_trace_finding(ctx));
    char text[256];
    ck_assert_int_gt(th_print_text(x, text, sizeof text, NULL), 0);
    ck_assert_ptr_nonnull(strstr(text, "0.75"));
    ck_assert_int_gt(th_print_text(th_full(ctx, TH_FLOAT32, TH_SHAPE(2), 1.5e-20), text, sizeof text, NULL), 0);
    expect_points(text);
}
END_TEST

START_TEST(progress_and_profiles)
{
    FILE *file = tmpfile();
    th_progress *bar = th_progress_new(ctx, &(th_progress_options){.file = file, .steps = 4, .units_per_step = 3});
    th_progress_show(bar, "accuracy", 0.125);
    for (int step = 0; step < 4; step++)
        th_progress_update(bar, step, 1.0 / (1 + step));
    ck_assert_int_eq(th_progress_end(bar), TH_OK);
    expect_points(written(file));

    ck_assert_int_eq(th_profile_begin(ctx, NULL), TH_OK);
    th_tensor *x = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(64, 64)), true);
    ck_assert_int_eq(th_backward(th_sum(th_matmul(x, x), TH_ALL_AXES, NULL), NULL), TH_OK);
    ck_assert_int_eq(th_profile_end(ctx), TH_OK);
    file = tmpfile();
    ck_assert_int_eq(th_profile_print(ctx, file), TH_OK);
    expect_points(written(file));
    file = tmpfile();
    ck_assert_int_eq(th_profile_write_trace_to(ctx, file), TH_OK);
    expect_points(written(file));
}
END_TEST

START_TEST(tapes_and_arrays)
{
    th_keep_values(ctx, true);
    th_tensor *x = th_set_requires_gradient(th_full(ctx, TH_FLOAT32, TH_SHAPE(2, 3), 0.375), true);
    ck_assert_int_eq(th_backward(th_sum(th_mul(x, x), TH_ALL_AXES, NULL), NULL), TH_OK);
    FILE *file = tmpfile();
    ck_assert_int_eq(th_tape_print(ctx, file, &(th_tape_print_options){.formulas = true, .values = true}), TH_OK);
    expect_points(written(file));
    file = tmpfile();
    ck_assert_int_eq(th_tape_print_dot(ctx, file), TH_OK);
    ck_assert_ptr_nonnull(strstr(written(file), "digraph"));
    file = tmpfile();
    ck_assert_int_eq(th_npy_write_to(x, file), TH_OK);
    rewind(file);
    th_tensor *again = th_npy_read_from(ctx, file);
    ck_assert_msg(again != NULL, "%s", th_error_message(ctx));
    ck_assert_double_eq(th_get(again, TH_INDEX(1, 2)), 0.375);
    fclose(file);
}
END_TEST

int main(void)
{
    if (!make_comma_locale()) {
        remove_comma_locale();
        puts("skipped: this C library reads no locale that is made by hand");
        return 77;
    }
    TCase *writers = new_suite("locale", setup, teardown);
    tcase_add_test(writers, pictures);
    tcase_add_test(writers, sentences_and_reports);
    tcase_add_test(writers, progress_and_profiles);
    tcase_add_test(writers, tapes_and_arrays);
    const int status = run_suites();
    remove_comma_locale();
    return status;
}
