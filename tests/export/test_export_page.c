/* The section of a page for tapes whose numbers are exact on all processors, compared byte for byte with the files in
 * tests/fixtures/export: the picture, the table and the data. */
#include <math.h>
#include <string.h>

#include "folder.h"
#include "tapehead/tapehead.h"

#include "context.h"

static void setup(void)
{
    make_folder();
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 1, .default_dtype = TH_FLOAT64});
    th_keep_values(ctx, true);
}

static void teardown(void)
{
    close_context();
    remove_folder();
}

/* A leaf of small multiples of 1 / 4. */
static th_tensor *leaf(const char *name, th_shape shape)
{
    th_tensor *t = th_empty(ctx, TH_FLOAT64, shape);
    double *x = th_data(t);
    for (int64_t i = 0; i < th_numel(t); i++)
        x[i] = (double)(i * 5 % 9 - 4) / 4;
    return name ? th_set_name(th_set_requires_gradient(t, true), name) : t;
}

static th_tensor *sum(th_tensor *t)
{
    return th_sum(t, TH_ALL_AXES, NULL);
}

/* -- the tapes -- */

/* A layer, shared variables, broadcasting, views. */
static void layers(void)
{
    th_module *dense = th_dense_new(ctx, 3, 4, NULL);
    th_tensor *w = th_module_find_parameter(dense, "weight"), *b = th_module_find_parameter(dense, "bias");
    ck_assert(th_copy_into(w, leaf(NULL, TH_SHAPE(4, 3))) == TH_OK &&
              th_copy_into(b, leaf(NULL, TH_SHAPE(4))) == TH_OK);
    th_tensor *x = leaf("x", TH_SHAPE(2, 3)), *row = leaf("row <&> \xc3\xa9", TH_SHAPE(4));
    th_tensor *h = th_set_name(th_relu(th_module_forward(dense, x)), "hidden");
    th_tensor *y = th_mul(h, th_add(row, h));
    th_tensor *shift = th_reshape(leaf("shift", TH_SHAPE(8)), TH_SHAPE(4, 2));
    th_tensor *z = th_sub(th_transpose(y, TH_AXES(1, 0)), shift);
    (void)!th_backward(sum(th_scale(z, 0.5)), NULL);
}

/* A long chain with arcs of several lengths, and without backward. */
static void chain(void)
{
    th_tensor *x = leaf("x", TH_SCALAR), *values[40];
    values[0] = th_add_scalar(x, 1);
    for (int i = 1; i < 40; i++)
        values[i] = i % 7 == 0 ? th_add(values[i - 1], values[i / 2]) : th_neg(values[i - 1]);
}

/* Values that are not finite, very small or very large; arrays that the table does not show; a loss of several elements. */
static void values(void)
{
    static const double numbers[] = {INFINITY,    -INFINITY, NAN,      -0.0,   1e-4,
                                     9.765625e-5, -1e6,      999999.5, 1e-300, 1234.5678};
    th_tensor *x =
        th_set_name(th_set_requires_gradient(th_from_data(ctx, TH_FLOAT64, TH_SHAPE(2, 5), numbers), true), "n");
    th_tensor *y = th_add(x, leaf("column", TH_SHAPE(2, 1)));
    th_tensor *large = th_mul(leaf("24", TH_SHAPE(4, 6)), leaf("of 24", TH_SHAPE(4, 6))),
              *larger = th_mul(leaf("25", TH_SHAPE(25)), leaf("of 25", TH_SHAPE(25)));
    th_tensor *none = th_mul(leaf("empty", TH_SHAPE(0, 3)), leaf("empty too", TH_SHAPE(0, 3)));
    th_tensor *sum_of_none = sum(none), *sum_of_larger = sum(larger);
    th_tensor *all = th_add(th_add(sum(large), sum_of_larger), sum_of_none);
    (void)!th_backward(th_add(th_scale(y, 0), all), &(th_backward_options){.cotangent = leaf(NULL, TH_SHAPE(2, 5))});
}

static const struct tape {
    const char *name;
    void (*record)(void);
} tapes[] = {{"layers", layers}, {"chain", chain}, {"values", values}};
enum { TAPES = sizeof tapes / sizeof *tapes };

/* -- the comparison -- */

/* Removes the numbers of lines of this file and the library's version. */
static void remove_changing(char *text)
{
    static const char *const keys[] = {"\"line\":", "\"library\":\""};
    for (int k = 0; k < 2; k++)
        for (char *at = text; (at = strstr(at, keys[k])) != NULL;) {
            at += strlen(keys[k]);
            memmove(at, at + strspn(at, "0123456789."), strlen(at + strspn(at, "0123456789.")) + 1);
        }
}

START_TEST(sections_are_as_written)
{
    const struct tape *tape = &tapes[_i];
    char name[64];
    size_t bytes;
    tape->record();
    no_error();
    const th_html_options options = {.title = tape->name, .max_differences = -1};
    ck_assert_int_eq(th_tape_write_html(ctx, in_folder("page.html"), &options), TH_OK);
    char *page = read_bytes(in_folder("page.html"), &bytes), *begin = strstr(page, "<section"),
         *end = strstr(page, "</section>");
    ck_assert(begin && end);
    *end = 0;
    remove_changing(begin);
    snprintf(name, sizeof name, FIXTURES "/export/%s.html", tape->name);
    char *expected = read_bytes(name, &bytes), *rest = expected;
    for (int number = 1; begin || rest; number++) {
        const char *line = strsep(&begin, "\n"), *wanted = strsep(&rest, "\n");
        ck_assert_msg(line && wanted && strcmp(line, wanted) == 0, "%s, line %d is \"%.300s\", not \"%.300s\"",
                      tape->name, number, line ? line : "", wanted ? wanted : "");
    }
    free(page);
    free(expected);
}
END_TEST

START_TEST(the_picture_ends_after_400_nodes)
{
    size_t bytes;
    for (int more = 0; more < 2; more++) {
        th_tensor *x = leaf("x", TH_SHAPE(1));
        for (int i = 0; i < 400 + more; i++)
            x = th_neg(x);
        ck_assert_int_eq(th_tape_write_html(ctx, in_folder("page.html"), NULL), TH_OK);
        char *page = read_bytes(in_folder("page.html"), &bytes);
        ck_assert_int_eq(count(page, "<rect "), 400);
        ck_assert_int_eq(count(page, "<p>The picture shows the first 400 of 401 nodes.</p>"), more);
        ck_assert_int_eq(count(page, "height=\"10416\""), 1);
        free(page);
        th_tape_clear(ctx);
    }
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("export page", setup, teardown);
    tcase_add_loop_test(tests, sections_are_as_written, 0, TAPES);
    tcase_add_test(tests, the_picture_ends_after_400_nodes);
    return run_suites();
}
