/* The search of th_check_function for one wrong element among many, and what the report says of the chance to miss one. */
#include "plain_functions.h"

enum { COUNT = 100003 };

typedef struct wrong_element {
    int64_t element; /* -1: none */
    double error;
} wrong_element;

static int swish(void *user, const th_buffer *in, th_buffer *out)
{
    (void)user;
    for (int64_t i = 0; i < in->numel; i++)
        store(out, i, load(in, i) / (1 + exp(-load(in, i))));
    return 0;
}

static int swish_backward(void *user, const th_buffer *in, const th_buffer *out, const th_buffer *dout, th_buffer *din)
{
    const wrong_element *wrong = user;
    (void)out;
    for (int64_t i = 0; i < in->numel; i++) {
        const double x = load(in, i), s = 1 / (1 + exp(-x));
        store(din, i, (s * (1 + x * (1 - s)) + (i == wrong->element ? wrong->error : 0)) * load(dout, i));
    }
    return 0;
}

static th_status check_swish(th_dtype dtype, int64_t rows, int64_t columns, wrong_element *wrong)
{
    const th_port x = th_port_of("x", dtype, TH_SHAPE(rows, columns));
    const th_function function = th_function_of("swish", swish, swish_backward, wrong, 1, &x, 1, &x);
    return check(&function);
}

START_TEST(one_wrong_element_of_many_is_found)
{
    static const int64_t elements[] = {77777, COUNT - 1};
    for (int e = 0; e < 2; e++) {
        wrong_element wrong = {elements[e], 0.7};
        expect_wrong(check_swish(TH_FLOAT32, 1, COUNT, &wrong), "gradient of swish is wrong: worst at x[0,");
        ck_assert_int_eq(report.index.size[1], elements[e]);
        ck_assert_int_lt(report.forward_calls, 150);
        ck_assert_msg(strchr(report.text, '#') != NULL, "the map does not show the element:\n%s", report.text);
    }
}
END_TEST

START_TEST(float64_shows_small_mistakes)
{
    wrong_element wrong = {1234, 1e-3};
    expect_wrong(check_swish(TH_FLOAT64, 250, 401, &wrong), "worst at x[3,31]");
}
END_TEST

START_TEST(the_report_has_the_probability_of_a_missed_element)
{
    wrong_element none = {-1, 0};
    expect_right(check_swish(TH_FLOAT32, 1, COUNT, &none));
    ck_assert(report.missed_error > 0 && report.missed_error < 1);
    ck_assert(report.missed_probability > 1e-12 && report.missed_probability < 1e-2);
    expect_right(check_swish(TH_FLOAT32, 3, 4, &none));
    ck_assert(report.missed_error == 0 && report.missed_probability == 0);
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("search for a wrong element", NULL, NULL);
    tcase_add_test(tcase, one_wrong_element_of_many_is_found);
    tcase_add_test(tcase, float64_shows_small_mistakes);
    tcase_add_test(tcase, the_report_has_the_probability_of_a_missed_element);
    return run_suites();
}
