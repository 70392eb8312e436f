/* The sentences in which th_check_function names a likely mistake. */
#include "plain_functions.h"

static const th_dtype floats[] = {TH_FLOAT64, TH_FLOAT32};

/* -- functions of each element -- */

static double cube(double x)
{
    return x * x * x;
}

static double three_squares(double x)
{
    return 3 * x * x;
}

static double three(double x)
{
    return 3 * x;
}

static double three_cubes(double x)
{
    return 3 * x * x * x;
}

static double half_of_it(double x)
{
    return 1.5 * x * x;
}

static double too_large(double x)
{
    return 3 * x * x * (1.5 + 0.4 * sin(x));
}

static int ignoring_backward(void *user, const th_buffer *in, const th_buffer *out, const th_buffer *dout,
                             th_buffer *din)
{
    (void)out, (void)dout;
    for (int64_t i = 0; i < in->numel; i++)
        store(din, i, ((const elementwise *)user)->slope(load(in, i)));
    return 0;
}

START_TEST(sentences_name_the_mistake)
{
    for (int t = 0; t < 2; t++) {
        const th_port x = th_port_of("x", floats[t], TH_SHAPE(8));
        expect_wrong(check_elementwise(cube, three, &x), "a factor is missing: the gradient times the input is right");
        expect_wrong(check_elementwise(cube, three_cubes, &x), "there is a factor too many");
        expect_wrong(check_elementwise(cube, half_of_it, &x), "the rule has a wrong constant factor");
        expect_wrong(check_elementwise(cube, too_large, &x), "a factor or a term that depends on the element");
        elementwise user = {cube, three_squares};
        const th_function ignores = th_function_of("cube", elementwise_forward, ignoring_backward, &user, 1, &x, 1, &x);
        expect_wrong(check(&ignores), "the rule does not use the gradient of the output");
    }
}
END_TEST

/* -- a product of matrices, y = x w -- */

enum { N = 4 };

/* Mistakes of the rule of a product. */
typedef enum product_mistake {
    NONE,
    TRANSPOSED_GRADIENT,
    TRANSPOSITION_MISSING,
    NEXT_ROW,
    PREVIOUS_COLUMN,
    LAST_ROW_MISSING,
    EXCHANGED,
    PRODUCT_MISTAKES
} product_mistake;

static int product(void *user, const th_buffer *in, th_buffer *out)
{
    (void)user;
    for (int64_t i = 0; i < N; i++)
        for (int64_t j = 0; j < N; j++) {
            double sum = 0;
            for (int64_t k = 0; k < N; k++)
                sum += load(&in[0], i * N + k) * load(&in[1], k * N + j);
            store(out, i * N + j, sum);
        }
    return 0;
}

/* Element (i, k) of the gradient of x, or of w. */
static double product_gradient(bool of_w, bool transposes, const th_buffer *in, const th_buffer *dout, int64_t i,
                               int64_t k)
{
    double sum = 0;
    for (int64_t j = 0; j < N; j++)
        sum += of_w         ? load(&in[0], j * N + i) * load(dout, j * N + k)
               : transposes ? load(dout, i * N + j) * load(&in[1], k * N + j)
                            : load(dout, i * N + j) * load(&in[1], j * N + k);
    return sum;
}

static int product_backward(void *user, const th_buffer *in, const th_buffer *out, const th_buffer *dout,
                            th_buffer *din)
{
    const product_mistake m = *(const product_mistake *)user;
    (void)out;
    for (int64_t i = 0; i < N; i++)
        for (int64_t k = 0; k < N; k++) {
            const int64_t row = m == TRANSPOSED_GRADIENT ? k
                                : m == NEXT_ROW          ? (i + 1) % N
                                                         : i,
                          column = m == TRANSPOSED_GRADIENT ? i
                                   : m == PREVIOUS_COLUMN   ? (k + N - 1) % N
                                                            : k;
            const double dx = product_gradient(false, m != TRANSPOSITION_MISSING, in, dout, i, k),
                         dw = product_gradient(true, true, in, dout, row, column);
            store(&din[0], i * N + k, m == EXCHANGED ? dw : dx);
            store(&din[1], i * N + k, m == EXCHANGED ? dx : m == LAST_ROW_MISSING && i == N - 1 ? 0 : dw);
        }
    return 0;
}

START_TEST(sentences_on_a_product_of_matrices)
{
    static const struct {
        const char *words;
        int input;
    } expected[PRODUCT_MISTAKES] = {
        [TRANSPOSED_GRADIENT] = {"the gradient is transposed: exchanging its last two axes makes it right", 1},
        [TRANSPOSITION_MISSING] = {"multiplies by the Jacobian instead of its transpose: a transposition is missing",
                                   0},
        [NEXT_ROW] = {"off by one: elements have the gradient of the element after them on axis 0", 1},
        [PREVIOUS_COLUMN] = {"off by one: elements have the gradient of the element before them on axis 1", 1},
        [LAST_ROW_MISSING] = {"the wrong derivatives are 0: the rule leaves out elements", 1},
        [EXCHANGED] = {"it should be what the rule returns for w: they may be exchanged", 0}};
    for (int t = 0; t < 2; t++)
        for (product_mistake m = NONE; m < PRODUCT_MISTAKES; m++) {
            const th_port in[] = {th_port_of("x", floats[t], TH_SHAPE(N, N)),
                                  th_port_of("w", floats[t], TH_SHAPE(N, N))};
            const th_function function = th_function_of("product", product, product_backward, &m, 2, in, 1, in);
            if (m == NONE) {
                expect_right(check(&function));
                continue;
            }
            expect_wrong(check(&function), expected[m].words);
            ck_assert_int_eq(report.input, expected[m].input);
        }
}
END_TEST

/* -- a mask, and a sum in the wrong direction -- */

static int first_part(void *user, const th_buffer *in, th_buffer *out)
{
    (void)user;
    for (int64_t i = 0; i < in->numel; i++)
        store(out, i, i < 3 ? exp(load(in, i)) : 0);
    return 0;
}

static int masked_backward(void *user, const th_buffer *in, const th_buffer *out, const th_buffer *dout, th_buffer *din)
{
    const int64_t *range = user;
    (void)out;
    for (int64_t i = 0; i < in->numel; i++)
        store(din, i, i >= range[0] && i < range[1] ? exp(load(in, i)) * load(dout, i) : 0);
    return 0;
}

START_TEST(a_wrong_mask_is_named)
{
    static int64_t right[] = {0, 3}, shifted[] = {1, 4}, short_mask[] = {0, 2}, long_mask[] = {0, 8};
    for (int t = 0; t < 2; t++) {
        const th_port x = th_port_of("x", floats[t], TH_SHAPE(8));
        th_function function = th_function_of("f", first_part, masked_backward, right, 1, &x, 1, &x);
        expect_right(check(&function));
        function.user = shifted;
        expect_wrong(check(&function), "the rule has a wrong mask, or a wrong index");
        function.user = short_mask;
        expect_wrong(check(&function), "the wrong derivatives are 0: the rule leaves out elements");
        function.user = long_mask;
        expect_wrong(check(&function), "the function does not depend on the wrong elements");
    }
}
END_TEST

static int cumulative_sum(void *user, const th_buffer *in, th_buffer *out)
{
    double sum = 0;
    (void)user;
    for (int64_t i = 0; i < in->numel; i++)
        store(out, i, sum += load(in, i));
    return 0;
}

static int sum_in_the_same_direction(void *user, const th_buffer *in, const th_buffer *out, const th_buffer *dout,
                                     th_buffer *din)
{
    (void)in, (void)out;
    return cumulative_sum(user, dout, din);
}

static int copied(void *user, const th_buffer *in, const th_buffer *out, const th_buffer *dout, th_buffer *din)
{
    (void)user, (void)in, (void)out;
    for (int64_t i = 0; i < dout->numel; i++)
        store(din, i, load(dout, i));
    return 0;
}

START_TEST(a_wrong_sum_is_named)
{
    for (int t = 0; t < 2; t++) {
        const th_port x = th_port_of("x", floats[t], TH_SHAPE(7));
        th_function function = th_function_of("f", cumulative_sum, sum_in_the_same_direction, NULL, 1, &x, 1, &x);
        expect_wrong(check(&function), "or a sum runs in the wrong direction");
        function.backward = copied;
        expect_wrong(check(&function), "or terms of a sum");
    }
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("sentences on a mistake", NULL, NULL);
    tcase_add_test(tcase, sentences_name_the_mistake);
    tcase_add_test(tcase, sentences_on_a_product_of_matrices);
    tcase_add_test(tcase, a_wrong_mask_is_named);
    tcase_add_test(tcase, a_wrong_sum_is_named);
    return run_suites();
}
