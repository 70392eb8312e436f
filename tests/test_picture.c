/* Pictures: well-formed SVG whatever the numbers and names are, and a sentence for every file that cannot be written.
 */
#include <check.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tapehead/tapehead.h"

static th_context *ctx;
static char path[64];

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.threads = 1});
    strcpy(path, "/tmp/th_picture_XXXXXX");
    const int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    close(file);
}

static void teardown(void)
{
    unlink(path);
    th_context_free(ctx);
}

static void expect_error(th_status code, const char *words)
{
    ck_assert_int_eq(th_error_code(ctx), code);
    ck_assert_msg(strstr(th_error_message(ctx), words) != NULL, "\"%s\" does not say \"%s\"", th_error_message(ctx),
                  words);
    th_error_clear(ctx);
}

/* The picture's text; free. Fails unless its tags are balanced, its attributes quoted and its numbers finite. */
static char *read_picture(void)
{
    ck_assert_msg(th_error_code(ctx) == TH_OK, "%s", th_error_message(ctx));
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    fseek(file, 0, SEEK_END);
    const size_t size = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(size + 1);
    ck_assert_uint_eq(fread(text, 1, size, file), size);
    text[size] = 0;
    fclose(file);
    int depth = 0;
    for (const char *c = text; (c = strchr(c, '<')) != NULL; c++) {
        const char *end = strchr(c, '>');
        ck_assert_ptr_nonnull(end);
        int quotes = 0;
        for (const char *q = c; q < end; q++)
            quotes += *q == '"';
        ck_assert_int_eq(quotes % 2, 0);
        depth += c[1] == '/' ? -1 : end[-1] == '/' ? 0 : 1;
        ck_assert_int_ge(depth, 0);
    }
    ck_assert_int_eq(depth, 0);
    ck_assert_ptr_null(strstr(text, "nan"));
    ck_assert_ptr_null(strstr(text, "=\"inf"));
    return text;
}

static int count(const char *text, const char *part)
{
    int found = 0;
    for (const char *c = text; (c = strstr(c, part)) != NULL; c++)
        found++;
    return found;
}

START_TEST(curves)
{
    double y[50], x[50];
    for (int i = 0; i < 50; i++) {
        x[i] = 10 * i;
        y[i] = exp(-0.1 * i);
    }
    const th_curve two[2] = {{"training", 50, x, y}, {"a < b & \"c\"", 50, NULL, x}};
    const th_chart_options options = {.title = "Loss", .x_label = "step", .y_label = "cross entropy"};
    ck_assert_int_eq(th_picture_curves(ctx, path, two, 2, &options), TH_OK);
    char *text = read_picture();
    ck_assert_int_eq(count(text, "class=\"curve\""), 2);
    ck_assert_int_eq(count(text, "a &lt; b &amp; &quot;c&quot;"), 1);
    ck_assert_int_eq(count(text, ">Loss<") + count(text, ">step<") + count(text, ">cross entropy<"), 3);
    free(text);
}
END_TEST

START_TEST(curves_of_any_numbers)
{
    static const double odd[][4] = {
        {NAN, 1, NAN, 2}, {INFINITY, -INFINITY, 0, 1}, {5, 5, 5, 5},         {0, 0, 0, 0},
        {-1, -2, -3, -4}, {1e-300, 1e300, 1, 2},       {NAN, NAN, NAN, NAN}, {1e9, 1e9 + 1, 1e9, 1e9}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        for (int log_y = 0; log_y < 2; log_y++)
            for (int points = 0; points <= 4; points += points == 0 ? 1 : 3) {
                const th_curve curve = {.count = points, .y = odd[i]};
                ck_assert_int_eq(th_picture_curves(ctx, path, &curve, 1, &(th_chart_options){.log_y = log_y}), TH_OK);
                free(read_picture());
            }
    ck_assert_int_eq(th_picture_curves(ctx, path, NULL, 0, NULL), TH_OK);
    free(read_picture());
}
END_TEST

START_TEST(heat_maps)
{
    th_tensor *w = th_softmax(th_randn(ctx, TH_FLOAT32, TH_SHAPE(3, 4, 5)), -1);
    const th_heatmap_options options = {.title = "Attention",
                                        .row_label = "query",
                                        .column_label = "key",
                                        .row_letters = "ABC<",
                                        .column_letters = "ABC|D"};
    ck_assert_int_eq(th_picture_heatmaps(w, path, &options), TH_OK);
    char *text = read_picture();
    ck_assert_int_eq(count(text, "</title></rect>"), 60); /* every entry tells its number */
    ck_assert_int_eq(count(text, ">head 2<"), 1);
    ck_assert_ptr_nonnull(strstr(text, "&lt; \xE2\x86\x90 |: "));
    free(text);
    /* Strided, two dimensions, float64, names. */
    static const char *const names[4] = {"the", "\xC3\xA9t\xC3\xA9", NULL, "&"};
    th_tensor *turned = th_swap_axes(th_cast(th_select(w, 0, 1), TH_FLOAT64), 0, 1); /* (5, 4) */
    ck_assert_int_eq(th_picture_heatmaps(turned, path, &(th_heatmap_options){.column_names = names}), TH_OK);
    text = read_picture();
    ck_assert_int_eq(count(text, "</title></rect>"), 20);
    char value[32];
    snprintf(value, sizeof value, "4 \xE2\x86\x90 the: %.4g<", th_get(w, TH_INDEX(1, 0, 4)));
    ck_assert_msg(strstr(text, value) != NULL, "no \"%s\"", value);
    free(text);
}
END_TEST

START_TEST(heat_maps_of_any_numbers)
{
    th_tensor *odd = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2, 3));
    ck_assert_int_eq(th_picture_heatmaps(odd, path, NULL), TH_OK); /* all zeros */
    free(read_picture());
    static const float values[6] = {-1, INFINITY, -INFINITY, 1e-30f, 0, 3};
    ck_assert_int_eq(th_copy_in(odd, values, sizeof values), TH_OK);
    ck_assert_int_eq(th_picture_heatmaps(odd, path, NULL), TH_OK);
    char *text = read_picture();
    ck_assert_int_eq(count(text, "#d1242f"), 2); /* what is no number shows */
    free(text);
    /* Large ones are drawn in runs. */
    th_tensor *large = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(16, 200, 200));
    ck_assert_int_eq(th_set(large, TH_INDEX(7, 100, 50), 1), TH_OK);
    ck_assert_int_eq(th_picture_heatmaps(large, path, NULL), TH_OK);
    text = read_picture();
    ck_assert_uint_lt(strlen(text), 100000);
    free(text);
}
END_TEST

START_TEST(errors)
{
    const double y[2] = {1, 2};
    const th_curve curve = {.count = 2, .y = y}, wrong = {.count = 2};
    th_tensor *w = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2, 2));
    ck_assert_int_eq(th_picture_curves(ctx, "/nonexistent/picture.svg", &curve, 1, NULL), TH_ERROR_FILE);
    expect_error(TH_ERROR_FILE, "/nonexistent/picture.svg cannot be opened");
    ck_assert_int_eq(th_picture_curves(ctx, "/dev/full", &curve, 1, NULL), TH_ERROR_FILE);
    expect_error(TH_ERROR_FILE, "written in full");
    ck_assert_int_eq(th_picture_heatmaps(w, "/dev/full", NULL), TH_ERROR_FILE);
    expect_error(TH_ERROR_FILE, "written in full");
    ck_assert_int_eq(th_picture_curves(ctx, NULL, &curve, 1, NULL), TH_ERROR_ARGUMENT);
    expect_error(TH_ERROR_ARGUMENT, "must be given");
    ck_assert_int_eq(th_picture_curves(ctx, path, &wrong, 1, NULL), TH_ERROR_ARGUMENT);
    expect_error(TH_ERROR_ARGUMENT, "must be given");
    ck_assert_int_eq(th_picture_curves(NULL, path, &curve, 1, NULL), TH_ERROR_ARGUMENT);
    ck_assert_int_ne(th_picture_heatmaps(NULL, path, NULL), TH_OK);
    expect_error(TH_ERROR_ARGUMENT, "values is NULL");
    ck_assert_int_eq(th_picture_heatmaps(th_ones(ctx, TH_INT32, TH_SHAPE(2, 2)), path, NULL), TH_ERROR_ARGUMENT);
    expect_error(TH_ERROR_ARGUMENT, "floating");
    ck_assert_int_eq(th_picture_heatmaps(th_ones(ctx, TH_FLOAT32, TH_SHAPE(2)), path, NULL), TH_ERROR_SHAPE);
    expect_error(TH_ERROR_SHAPE, "they are (2)");
    ck_assert_int_eq(th_picture_heatmaps(th_ones(ctx, TH_FLOAT32, TH_SHAPE(0, 2)), path, NULL), TH_ERROR_SHAPE);
    th_error_clear(ctx);
    ck_assert_int_eq(th_picture_heatmaps(th_ones(ctx, TH_FLOAT32, TH_SHAPE(1001, 1000)), path, NULL), TH_ERROR_SHAPE);
    th_error_clear(ctx);
}
END_TEST

static Suite *picture_suite(void)
{
    Suite *suite = suite_create("picture");
    TCase *pictures = tcase_create("pictures");
    tcase_add_checked_fixture(pictures, setup, teardown);
    tcase_add_test(pictures, curves);
    tcase_add_test(pictures, curves_of_any_numbers);
    tcase_add_test(pictures, heat_maps);
    tcase_add_test(pictures, heat_maps_of_any_numbers);
    tcase_add_test(pictures, errors);
    suite_add_tcase(suite, pictures);
    return suite;
}

int main(void)
{
    setlocale(LC_ALL, ""); /* coordinates have points, whatever the user's locale */
    SRunner *runner = srunner_create(picture_suite());
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
