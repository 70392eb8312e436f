/* Pictures: well-formed SVG for any numbers and names, and an error for every file that cannot be written. */
#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tapehead/tapehead.h"

#include "context.h"

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
    close_context();
}

/* Skips the characters of a set. */
static const char *skip(const char *c, const char *set)
{
    return c + strspn(c, set);
}

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-";

/* Skips text between two tags. Checks that it has no control characters and only XML's entities. */
static const char *skip_text(const char *c)
{
    for (; *c && *c != '<'; c++) {
        ck_assert((unsigned char)*c >= 32 || *c == '\n');
        if (*c == '&')
            ck_assert(!strncmp(c, "&lt;", 4) || !strncmp(c, "&gt;", 4) || !strncmp(c, "&amp;", 5) ||
                      !strncmp(c, "&quot;", 6));
    }
    return c;
}

/* Skips the attributes of a tag, name="value". Checks that numbers are finite and not enormous. */
static const char *skip_attributes(const char *c)
{
    while (*c == ' ') {
        c = skip(c + 1, letters);
        const size_t digits = strspn(c, "0123456789"); /* x1 */
        c += digits;
        ck_assert_msg(c[0] == '=' && c[1] == '"', "no value at \"%.40s\"", c);
        const char *end = strchr(c + 2, '"');
        ck_assert_ptr_nonnull(end);
        for (const char *v = c + 2; v < end; v++) {
            ck_assert(*v != '<' && *v != '&');
            ck_assert_msg(strncmp(v, "nan", 3) && strncmp(v, "inf", 3), "\"%.60s\"", c);
            if (strspn(v, "0123456789") > 0 && c[2] != '#' && strncmp(c, "=\"http", 6)) {
                ck_assert_uint_le(strspn(v, "0123456789"), 7);
                v = skip(v, "0123456789") - 1;
            }
        }
        c = end + 1;
    }
    return c;
}

/* Checks that the text is one element, in which tags nest correctly. */
static void check_xml(const char *text)
{
    const char *open[16];
    int depth = 0;
    const char *c = text;
    do {
        ck_assert_msg(*c == '<', "no tag at \"%.40s\"", c);
        const bool closes = c[1] == '/';
        const char *name = c + 1 + closes, *end = skip(name, letters);
        ck_assert_ptr_ne(name, end);
        if (closes) {
            ck_assert_int_gt(depth, 0);
            ck_assert_int_eq(strncmp(open[--depth], name, (size_t)(end - name)), 0);
            c = end;
        } else {
            c = skip_attributes(end);
            if (*c == '/')
                c++;
            else
                open[depth++] = name;
            ck_assert_int_lt(depth, 16);
        }
        ck_assert_msg(*c == '>', "a tag ends in \"%.40s\"", c);
        c = skip_text(c + 1);
    } while (depth > 0 && *c);
    ck_assert_int_eq(depth, 0);
    ck_assert_str_eq(c, "");
}

/* Returns the picture's text, for free. Checks that it is well-formed and that its numbers are finite. */
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
    check_xml(text);
    ck_assert_ptr_null(strstr(text, "nan"));
    ck_assert_ptr_null(strstr(text, "=\"inf"));
    return text;
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

/* Returns numbers near both limits of a double, and from the range between them. */
static double any_number(uint64_t *state)
{
    static const double ends[] = {
        5e-324, 1e-320,   2.2e-308, 1e-300, 1e-290, 1e290, 1e300, 1.7e308, 1.7976931348623157e308,
        NAN,    INFINITY, 0,        1,      3e-39};
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    const uint64_t high = *state >> 32;
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    const double sign = *state >> 63 ? -1 : 1;
    if (high % 2)
        return sign * ends[high / 2 % (sizeof ends / sizeof *ends)];
    const uint64_t bits = high << 32 | *state >> 32;
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* Whether a picture has this tick. */
static bool has_tick(const char *text, const char *label)
{
    char tick[64];
    snprintf(tick, sizeof tick, ">%s</text>", label);
    return strstr(text, tick) != NULL;
}

/* Checks the labels of a picture's ticks. */
static void expect_ticks(const char *text, const char *const *labels)
{
    for (; *labels; labels++)
        ck_assert_msg(has_tick(text, *labels), "no tick \"%s\"", *labels);
}

START_TEST(curves_of_the_largest_numbers)
{
    static const struct {
        double y[4];
        bool log_y;
        const char *labels[4];
    } cases[] = {
        {{-1.7e308, 1.7e308, 0, 1}, false, {"0", "1e+308", "-1e+308"}},
        {{1.7e308, 1.7e308, 1.7e308, 1.7e308}, false, {"1e+308", "2e+308"}},
        {{1.7976931348623157e308, 0, 1, 2}, false, {"0", "1.5e+308"}},
        {{5e-324, 1e-323, 0, 5e-324}, false, {"0", "0.4"}},
        {{5e-324, 1.7e308, 1, 2}, true, {"1e-318", "1e-212", "1e+212"}},
        {{5e-324, 1e-322, 1e-321, 1e-320}, true, {"1e-323", "1e-321"}},
        {{1e17, 1e17, 1e17, 1e17}, false, {"1e+17"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int transposed = 0; transposed < 2; transposed++) {
            const th_curve curve = {.count = 4, .x = transposed ? cases[i].y : NULL, .y = cases[i].y};
            const th_chart_options options = {.log_y = cases[i].log_y};
            ck_assert_int_eq(th_picture_curves(ctx, path, &curve, 1, &options), TH_OK);
            char *text = read_picture();
            expect_ticks(text, cases[i].labels);
            free(text);
        }
    /* One point far out: the axis must not have length 0. */
    const double far[] = {1e17};
    ck_assert_int_eq(th_picture_curves(ctx, path, &(th_curve){.count = 1, .x = far, .y = far}, 1, NULL), TH_OK);
    free(read_picture());
    uint64_t state = 1;
    for (int round = 0; round < 400; round++) {
        double x[6], y[6];
        for (int i = 0; i < 6; i++) {
            x[i] = any_number(&state);
            y[i] = any_number(&state);
        }
        const th_curve curve = {.count = 1 + round % 6, .x = round % 3 ? x : NULL, .y = y};
        ck_assert_int_eq(th_picture_curves(ctx, path, &curve, 1, &(th_chart_options){.log_y = round % 2}), TH_OK);
        char *text = read_picture();
        ck_assert_uint_lt(strlen(text), 20000);
        free(text);
    }
}
END_TEST

/* The axis of nearly constant data begins at 0 in every run, so that they look constant. */
START_TEST(an_axis_that_includes_zero)
{
    static const struct {
        double y[3];
        const char *largest; /* a label at the other end */
    } cases[] = {{{16000, 17000, 16500}, "15000"},
                 {{-16000, -17000, -16500}, "-15000"},
                 {{1e5, 2, 5e4}, "100000"},
                 {{7, 7, 7}, "6"},
                 {{-5, 5, 3}, "4"},
                 {{0, 0, 0}, "0.4"}};
    const double x[3] = {10, 20, 30}; /* so that no tick of x is 0 */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const th_curve curve = {.count = 3, .x = x, .y = cases[i].y};
        ck_assert_int_eq(th_picture_curves(ctx, path, &curve, 1, &(th_chart_options){.y_from_zero = true}), TH_OK);
        char *text = read_picture();
        ck_assert_msg(has_tick(text, "0") && has_tick(text, cases[i].largest), "case %zu: %s", i, text);
        free(text);
    }
    const th_curve steady = {.count = 3, .x = x, .y = cases[0].y};
    ck_assert_int_eq(th_picture_curves(ctx, path, &steady, 1, NULL), TH_OK);
    char *text = read_picture();
    ck_assert(!has_tick(text, "0"));
    free(text);
    ck_assert_int_eq(th_picture_curves(ctx, path, &steady, 1, &(th_chart_options){.log_y = true, .y_from_zero = true}),
                     TH_OK);
    text = read_picture();
    ck_assert(!has_tick(text, "0") && has_tick(text, "10000"));
    free(text);
}
END_TEST

START_TEST(heat_maps_of_the_largest_numbers)
{
    th_tensor *map = th_zeros(ctx, TH_FLOAT64, TH_SHAPE(2, 3));
    static const struct {
        double values[6], high;
        const char *labels[4];
    } cases[] = {
        {{5e-324, 0, 0, 0, 0, 0}, 0, {"0", "2e-324", "4e-324"}},
        {{5e-324, 1e-320, 0, -5e-324, 0, 0}, 0, {"0", "2e-321", "8e-321"}},
        {{1.7976931348623157e308, 1, -1.7976931348623157e308, 0, 0, 0}, 0, {"0", "5e+307", "1.5e+308"}},
        {{1, 2, 3, 4, 5, 6}, INFINITY, {"0", "2", "6"}},
        {{1, 2, 3, 4, 5, 6}, NAN, {"0", "2", "6"}},
        {{1, 2, 3, 4, 5, 6}, -1, {"0", "2", "6"}},
        {{1, 2, 3, 4, 5, 6}, 5e-324, {"0", "4e-324"}},
        {{1, 2, 3, 4, 5, 6}, 1.7976931348623157e308, {"0", "1e+308"}},
        {{NAN, NAN, NAN, NAN, NAN, NAN}, 0, {"0"}},
        {{-1, -2, -3, -4, -5, -6}, 0, {"0"}},
        {{0.125, 0.5, 2, 1, 0, 0}, 0, {"0", "1", "2"}}, /* the largest, not the first */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_int_eq(th_copy_in(map, cases[i].values, sizeof cases[i].values), TH_OK);
        ck_assert_int_eq(th_picture_heatmaps(map, path, &(th_heatmap_options){.high = cases[i].high}), TH_OK);
        char *text = read_picture();
        expect_ticks(text, cases[i].labels);
        free(text);
    }
    uint64_t state = 2;
    for (int round = 0; round < 200; round++) {
        double values[6];
        for (int i = 0; i < 6; i++)
            values[i] = any_number(&state);
        ck_assert_int_eq(th_copy_in(map, values, sizeof values), TH_OK);
        ck_assert_int_eq(
            th_picture_heatmaps(map, path, &(th_heatmap_options){.high = round % 2 ? any_number(&state) : 0}), TH_OK);
        char *text = read_picture();
        ck_assert_uint_lt(strlen(text), 50000);
        free(text);
    }
}
END_TEST

/* Invalid UTF-8 and characters that XML forbids must not spoil the file. */
START_TEST(names_of_any_bytes)
{
    static const char *const names[2] = {"a\xFF\xC3", "\xEF\xBF\xBF\x01\x7F\xED\xA0\x80z"};
    const double y[2] = {1, 2};
    const th_curve two[2] = {{names[0], 2, NULL, y}, {names[1], 2, NULL, y}};
    ck_assert_int_eq(th_picture_curves(ctx, path, two, 2, &(th_chart_options){.title = names[1]}), TH_OK);
    char *text = read_picture();
    ck_assert_int_eq(count(text, ">a\xEF\xBF\xBD\xEF\xBF\xBD<"), 1);
    ck_assert_ptr_null(strstr(text, "\xEF\xBF\xBF"));
    ck_assert_ptr_null(strchr(text, '\xED'));
    free(text);
    th_tensor *w = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2, 2));
    const th_heatmap_options options = {.row_letters = "\xE9\xFF", .column_names = names};
    ck_assert_int_eq(th_picture_heatmaps(w, path, &options), TH_OK);
    text = read_picture();
    ck_assert_ptr_null(strchr(text, '\xE9'));
    free(text);
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
    ck_assert_int_eq(count(text, "</title></rect>"), 60); /* the number of every entry is shown under the pointer */
    ck_assert_int_eq(count(text, ">head 2<"), 1);
    ck_assert_ptr_nonnull(strstr(text, "&lt; \xE2\x86\x90 |: "));
    free(text);
    /* Strided, two dimensions, float64, names. */
    static const char *const names[4] = {"the", "\xC3\xA9t\xC3\xA9", NULL, "&"};
    th_tensor *transposed = th_swap_axes(th_cast(th_select(w, 0, 1), TH_FLOAT64), 0, 1); /* (5, 4) */
    ck_assert_int_eq(th_picture_heatmaps(transposed, path, &(th_heatmap_options){.column_names = names}), TH_OK);
    text = read_picture();
    ck_assert_int_eq(count(text, "</title></rect>"), 20);
    char value[32];
    snprintf(value, sizeof value, "4 \xE2\x86\x90 the: %.4g<", th_get(w, TH_INDEX(1, 0, 4)));
    ck_assert_msg(strstr(text, value) != NULL, "no \"%s\"", value);
    free(text);
}
END_TEST

START_TEST(panels_with_different_names)
{
    static const char *const names[3] = {"first", NULL, "<last>"};
    th_tensor *w = th_ones(ctx, TH_FLOAT32, TH_SHAPE(3, 2, 2));
    ck_assert_int_eq(th_picture_heatmaps(w, path, &(th_heatmap_options){.panel_names = names}), TH_OK);
    char *text = read_picture();
    ck_assert_int_eq(count(text, ">first<"), 1);
    ck_assert_int_eq(count(text, ">&lt;last&gt;<"), 1);
    ck_assert_int_eq(count(text, "head "), 0);
    free(text);
    ck_assert_int_eq(th_picture_heatmaps(th_select(w, 0, 0), path, &(th_heatmap_options){.panel_names = names}), TH_OK);
    text = read_picture();
    ck_assert_int_eq(count(text, ">first<"), 1); /* a single panel has a name only if one is given */
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
    ck_assert_int_eq(count(text, "#d1242f"), 2); /* NaN is visible */
    free(text);
    /* Large heat maps are drawn in runs. */
    th_tensor *large = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(16, 200, 200));
    ck_assert_int_eq(th_set(large, TH_INDEX(7, 100, 50), 1), TH_OK);
    ck_assert_int_eq(th_picture_heatmaps(large, path, NULL), TH_OK);
    text = read_picture();
    ck_assert_uint_lt(strlen(text), 100000);
    free(text);
}
END_TEST

/* Copies the text between the next `before` and the next `after`. Returns its end, or NULL. */
static const char *between(const char *text, const char *before, const char *after, char found[80])
{
    const char *from = strstr(text, before);
    from = from ? from + strlen(before) : NULL;
    const char *to = from ? strstr(from, after) : NULL;
    if (to)
        snprintf(found, 80, "%.*s", (int)(to - from), from);
    return to;
}

/* Each of 35 curves has its own style (color and dashes), and the legend shows the same style. */
START_TEST(curves_differ_without_color)
{
    enum { CURVES = 35 };
    static const double y[2] = {0, 1};
    th_curve drawn[CURVES];
    char style[CURVES][80], in_legend[80];
    for (int c = 0; c < CURVES; c++)
        drawn[c] = (th_curve){.name = "a curve", .count = 2, .y = y};
    ck_assert_int_eq(th_picture_curves(ctx, path, drawn, CURVES, NULL), TH_OK);
    char *text = read_picture();
    const char *curve = text, *key = text;
    for (int c = 0; c < CURVES; c++) {
        ck_assert_ptr_nonnull(curve = between(curve, "class=\"curve\"", " d=", style[c]));
        ck_assert_ptr_nonnull(key = between(key, "<g stroke-width=\"3\"", ">", in_legend));
        ck_assert_str_eq(style[c], in_legend);
        for (int other = 0; other < c; other++)
            ck_assert_str_ne(style[c], style[other]);
        ck_assert_int_eq(strstr(style[c], "dasharray") == NULL, c % 5 == 0);
    }
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
    expect_error(TH_ERROR_ARGUMENT, "needs a path");
    ck_assert_int_eq(th_picture_curves(ctx, path, &wrong, 1, NULL), TH_ERROR_ARGUMENT);
    expect_error(TH_ERROR_ARGUMENT, "needs a path");
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
    ck_assert_int_eq(th_picture_heatmaps(th_ones(ctx, TH_FLOAT32, TH_SHAPE(10001, 1, 1)), path, NULL), TH_ERROR_SHAPE);
    expect_error(TH_ERROR_SHAPE, "at most 10000 panels");
}
END_TEST

/* Several charts in a picture, and a curve with more points than columns: its spike is visible, and its text is
 * short. */
START_TEST(panels_and_many_points)
{
    enum { POINTS = 200000 };
    double *y = malloc(POINTS * sizeof *y);
    for (int i = 0; i < POINTS; i++)
        y[i] = i == 77777 ? 1000 : sin(i * 0.01);
    const th_curve two[] = {{"training", POINTS, NULL, y}, {"validation", 3, NULL, y}};
    const th_panel panels[] = {{two, 2, {.title = "loss", .x_label = "step", .y_label = "nats"}},
                               {two + 1, 1, {.title = "<rate>", .log_y = true}},
                               {NULL, 0, {.title = "nothing"}}};
    ck_assert_int_eq(th_picture_panels(ctx, path, panels, 3, "A run & more"), TH_OK);
    FILE *file = fopen(path, "r");
    char *text = calloc(1, 1 << 20);
    const size_t size = fread(text, 1, (1 << 20) - 1, file);
    fclose(file);
    ck_assert_uint_lt(size, 60000);
    check_xml(text);
    ck_assert_int_eq(count(text, "class=\"curve\""), 3);
    ck_assert_ptr_nonnull(strstr(text, "A run &amp; more"));
    ck_assert_ptr_nonnull(strstr(text, "width=\"1240\" height=\"724\""));
    ck_assert_ptr_nonnull(strstr(text, " 96")); /* the spike, at the top of the first panel */
    free(text);
    ck_assert_int_eq(th_picture_panels(ctx, path, panels, 1, NULL), TH_OK);
    const th_panel wrong = {two, -1, {0}};
    expect_status(th_picture_panels(ctx, path, panels, 0, NULL), TH_ERROR_ARGUMENT, "1 to 64 panels, not 0");
    expect_status(th_picture_panels(ctx, path, panels, 65, NULL), TH_ERROR_ARGUMENT, "not 65");
    expect_status(th_picture_panels(ctx, path, NULL, 1, NULL), TH_ERROR_ARGUMENT, "panels");
    expect_status(th_picture_panels(ctx, path, &wrong, 1, NULL), TH_ERROR_ARGUMENT, "-1 curves");
    expect_status(th_picture_panels(ctx, NULL, panels, 1, NULL), TH_ERROR_ARGUMENT, "a path");
    free(y);
}
END_TEST

START_TEST(curves_without_names_and_points)
{
    const double y[2] = {1, 2};
    const th_curve some[] = {{.count = 2, .y = y}, {"second", 2, NULL, y}, {.count = 0}, {"fourth", 2, NULL, y}};
    ck_assert_int_eq(th_picture_curves(ctx, path, some, 4, NULL), TH_OK);
    char *text = read_picture();
    ck_assert_int_eq(count(text, "class=\"key\""), 2); /* a curve without a name is not in the legend */
    ck_assert(strstr(text, ">second<") && strstr(text, ">fourth<"));
    free(text);
    const th_curve wrong[] = {{.count = -1, .y = y}, {.count = 1}};
    for (int i = 0; i < 2; i++)
        expect_status(th_picture_curves(ctx, path, &wrong[i], 1, NULL), TH_ERROR_ARGUMENT,
                      "picture_curves: needs a path and 1 curves with their points");
    expect_status(th_picture_curves(ctx, path, NULL, 1, NULL), TH_ERROR_ARGUMENT, "picture_curves: needs a path");
    const th_panel panel = {wrong, 1, {0}};
    expect_status(th_picture_panels(ctx, path, &panel, 1, NULL), TH_ERROR_ARGUMENT, "picture_panels: needs a path");
    const th_panel right = {some, 2, {0}};
    expect_status(th_picture_panels(ctx, "/nonexistent/p.svg", &right, 1, NULL), TH_ERROR_FILE, "picture_panels: ");
    ck_assert_int_eq(th_picture_panels(NULL, path, &right, 1, NULL), TH_ERROR_ARGUMENT);
    /* with an error pending nothing is written */
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_ptr_null(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(-1)));
    ck_assert_int_eq(th_picture_panels(ctx, path, &right, 1, NULL), TH_ERROR_SHAPE);
    ck_assert_int_eq(th_picture_curves(ctx, path, some, 1, NULL), TH_ERROR_SHAPE);
    ck_assert_int_ne(access(path, F_OK), 0);
    th_error_clear(ctx);
}
END_TEST

/* Letters name as many rows and columns as there are letters; the others have numbers. */
START_TEST(fewer_letters_than_rows)
{
    th_tensor *w = th_ones(ctx, TH_FLOAT32, TH_SHAPE(3, 4));
    const th_heatmap_options options = {.row_letters = "ab", .column_letters = "xyz"};
    ck_assert_int_eq(th_picture_heatmaps(w, path, &options), TH_OK);
    char *text = read_picture();
    ck_assert_int_eq(count(text, "<title>a \xE2\x86\x90 x: 1</title>"), 1);
    ck_assert_int_eq(count(text, "<title>b \xE2\x86\x90 z: 1</title>"), 1);
    ck_assert_int_eq(count(text, "<title>2 \xE2\x86\x90 y: 1</title>"), 1); /* the third row */
    ck_assert_int_eq(count(text, "<title>a \xE2\x86\x90 3: 1</title>"), 1); /* the fourth column */
    free(text);
    expect_status(th_picture_heatmaps(w, NULL, NULL), TH_ERROR_ARGUMENT, "picture_heatmaps: needs a path");
    expect_status(th_picture_heatmaps(th_ones(ctx, TH_FLOAT32, TH_SHAPE(1, 2, 2, 2)), path, NULL), TH_ERROR_SHAPE,
                  "they are (1, 2, 2, 2)");
    th_context *shapes = th_context_new(&(th_context_options){.shapes_only = true});
    ck_assert_int_eq(th_picture_heatmaps(th_ones(shapes, TH_FLOAT32, TH_SHAPE(2, 2)), path, NULL), TH_ERROR_ARGUMENT);
    th_context_free(shapes);
}
END_TEST

int main(void)
{
    setlocale(LC_ALL, ""); /* coordinates have a decimal point in any locale */
    TCase *pictures = new_suite("picture", setup, teardown);
    tcase_add_test(pictures, curves);
    tcase_add_test(pictures, curves_of_any_numbers);
    tcase_add_test(pictures, curves_of_the_largest_numbers);
    tcase_add_test(pictures, an_axis_that_includes_zero);
    tcase_add_test(pictures, heat_maps_of_the_largest_numbers);
    tcase_add_test(pictures, names_of_any_bytes);
    tcase_add_test(pictures, heat_maps);
    tcase_add_test(pictures, panels_with_different_names);
    tcase_add_test(pictures, heat_maps_of_any_numbers);
    tcase_add_test(pictures, curves_differ_without_color);
    tcase_add_test(pictures, errors);
    tcase_add_test(pictures, panels_and_many_points);
    tcase_add_test(pictures, curves_without_names_and_points);
    tcase_add_test(pictures, fewer_letters_than_rows);
    return run_suites();
}
