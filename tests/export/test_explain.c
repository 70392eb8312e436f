/* th_tape_explain: the contributions to an element add up to its gradient, and the terms to their contribution. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "memory.h"
#include "tapehead/tapehead.h"

#include "context.h"

static char *text;
static size_t text_size;

static void open_all(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 3, .default_dtype = TH_FLOAT64});
    th_keep_values(ctx, true);
    text = NULL;
}

static void close_all(void)
{
    free(text);
    close_context();
}

static const char *explained(th_tensor *t, th_shape index)
{
    free(text);
    FILE *file = open_memstream(&text, &text_size);
    ck_assert_msg(th_tape_explain(ctx, file, t, index) == TH_OK, "%s", th_error_message(ctx));
    fclose(file);
    return text;
}

static void has(const char *part)
{
    ck_assert_msg(strstr(text, part) != NULL, "no \"%s\" in\n%.3000s", part, text);
}

static bool near(double a, double b, double scale)
{
    return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-9 * (scale + fabs(a));
}

/* Checks that the text's terms add up to their contributions, and these to the gradient. Returns their number. */
static int check_sums(double gradient)
{
    double contribution = 0, terms = 0, sum = 0, scale = 0;
    int count = 0, of_node = 0;
    bool ended = false;
    for (const char *line = strchr(text, '\n') + 1; *line; line = strchr(line, '\n') + 1) {
        const bool term = strncmp(line, "        ", 8) == 0;
        const char *others = strstr(line, "together ");
        const bool last = strstr(line, "is the sum of") && strstr(line, "is the sum of") < strchr(line, '\n');
        if (term) {
            const bool rest = others && others < strchr(line, '\n');
            const double number = strtod(rest ? others + 9 : line, NULL);
            terms += number;
            scale += fabs(number);
            of_node++;
            continue;
        }
        ck_assert_msg(of_node == 0 || near(terms, contribution, scale), "%.17g, not %.17g in\n%.3000s", terms,
                      contribution, text);
        terms = 0, of_node = 0;
        contribution = strtod(line, NULL);
        if (last) {
            ck_assert_msg(near(contribution, sum, scale) && near(sum, gradient, scale), "%.17g of %.17g in\n%.3000s",
                          sum, gradient, text);
            ck_assert(near(strtod(strstr(line, "gradient is ") + 12, NULL), gradient, scale));
            ended = true;
            continue;
        }
        sum += contribution;
        count++;
    }
    ck_assert(ended);
    return count;
}

/* Checks the explanation of every element of a tensor's gradient. Returns the number of contributions. */
static int check_all(th_tensor *t)
{
    th_tensor *gradient = th_gradient(t);
    ck_assert_ptr_nonnull(gradient);
    const th_shape shape = th_shape_of(t);
    int count = 0;
    for (int64_t i = 0; i < th_numel(t); i++) {
        th_shape index = {.ndim = shape.ndim};
        int64_t rest = i;
        for (int d = shape.ndim - 1; d >= 0; d--) {
            index.size[d] = rest % shape.size[d];
            rest /= shape.size[d];
        }
        explained(t, index);
        count = check_sums(th_get(gradient, index));
    }
    return count;
}

static th_tensor *leaf(th_shape shape)
{
    return th_set_requires_gradient(th_uniform(ctx, TH_FLOAT64, shape, -1, 1), true);
}

static void backward(th_tensor *y)
{
    th_tensor *cotangent = th_uniform(ctx, th_dtype_of(y), th_shape_of(y), -1, 1);
    ck_assert_msg(th_backward(y, &(th_backward_options){.cotangent = cotangent}) == TH_OK, "%s", th_error_message(ctx));
}

START_TEST(explains_a_product)
{
    th_tensor *x = th_set_requires_gradient(th_full(ctx, TH_FLOAT32, TH_SHAPE(1, 2), 3), true);
    th_tensor *w = th_set_requires_gradient(th_full(ctx, TH_FLOAT32, TH_SHAPE(2, 2), 0.5), true);
    ck_assert_int_eq(th_set(w, TH_INDEX(1, 0), -2), TH_OK);
    th_tensor *y = th_dense(x, w, NULL);
    ck_assert_int_eq(th_backward(th_sum(y, TH_ALL_AXES, NULL), NULL), TH_OK);
    explained(x, TH_INDEX(0, 0));
    has("gradient of the leaf[0, 0]\n    -1.5    node 0, dense, test_explain.c:");
    has(": dx = dy W, dW = dyᵀ x, db = column sums of dy, dresidual = dy\n");
    has("        -2 = 1 * -2    dy[0, 1] * x1[1, 0]\n        0.5 = 1 * 0.5    dy[0, 0] * x1[0, 0]\n");
    has("    -1.5    is the sum of 1 contribution; the gradient is -1.5\n");
    explained(y, TH_INDEX(0, -1));
    has("gradient of y0[0, 1]\n    1    node 1, sum, ");
    has("        1 = 1 * 1    dy * derivative of y1\n");
}
END_TEST

/* Compares the whole explanation, without the numbers of lines of this file. */
static void is_exactly(th_tensor *t, th_shape index, const char *expected)
{
    static const char file[] = "test_explain.c:";
    explained(t, index);
    for (char *at = text; (at = strstr(at, file)) != NULL;) {
        at += sizeof file - 1;
        memmove(at, at + strspn(at, "0123456789"), strlen(at + strspn(at, "0123456789")) + 1);
    }
    ck_assert_str_eq(text, expected);
}

static th_tensor *numbers(th_dtype dtype, const char *name, th_shape shape, const double *number)
{
    th_tensor *t = th_set_requires_gradient(th_empty(ctx, dtype, shape), true);
    for (int64_t i = 0; i < th_numel(t); i++)
        if (dtype == TH_FLOAT32)
            ((float *)th_data(t))[i] = (float)number[i];
        else
            ((double *)th_data(t))[i] = number[i];
    return name ? th_set_name(t, name) : t;
}

/* Nodes and leaves with and without names, both operands of a product, views, the start of backward, NaN. */
START_TEST(texts_are_as_written)
{
    th_tensor *x = numbers(TH_FLOAT32, "x", TH_SHAPE(2), (const double[]){3, -0.1});
    th_tensor *w = numbers(TH_FLOAT32, NULL, TH_SHAPE(2), (const double[]){2, NAN});
    th_tensor *y = th_mul(x, w), *square = th_set_name(th_mul(x, x), "square"), *z = th_add(y, square);
    const th_backward_options options = {.cotangent = th_full(ctx, TH_FLOAT32, TH_SHAPE(2), 0.1)};
    ck_assert_int_eq(th_backward(z, &options), TH_OK);
    is_exactly(x, TH_INDEX(0),
               "gradient of x[0]\n"
               "    0.3    node 1, mul, test_explain.c:: da = dy * b; db = dy * a\n"
               "        0.3 = 0.1 * 3    dy[0] * x[0]\n"
               "    0.3    node 1, mul, test_explain.c:: da = dy * b; db = dy * a\n"
               "        0.3 = 0.1 * 3    dy[0] * x[0]\n"
               "    0.2    node 0, mul, test_explain.c:: da = dy * b; db = dy * a\n"
               "        0.2 = 0.1 * 2    dy[0] * x1[0]\n"
               "    0.8    is the sum of 3 contributions; the gradient is 0.8\n");
    is_exactly(x, TH_INDEX(1),
               "gradient of x[1]\n"
               "    -0.01    node 1, mul, test_explain.c:: da = dy * b; db = dy * a\n"
               "        -0.01 = 0.1 * -0.1    dy[1] * x[1]\n"
               "    -0.01    node 1, mul, test_explain.c:: da = dy * b; db = dy * a\n"
               "        -0.01 = 0.1 * -0.1    dy[1] * x[1]\n"
               "    nan    node 0, mul, test_explain.c:: da = dy * b; db = dy * a\n"
               "        nan = 0.1 * nan    dy[1] * x1[1]\n"
               "    nan    is the sum of 3 contributions; the gradient is nan\n");
    is_exactly(w, TH_INDEX(-2),
               "gradient of the leaf[0]\n"
               "    0.3    node 0, mul, test_explain.c:: da = dy * b; db = dy * a\n"
               "        0.3 = 0.1 * 3    dy[0] * x[0]\n"
               "    0.3    is the sum of 1 contribution; the gradient is 0.3\n");
    is_exactly(square, TH_INDEX(0),
               "gradient of square[0]\n"
               "    0.1    node 2, add, test_explain.c:: da = dy; db = dy\n"
               "        0.1 = 0.1 * 1    dy[0]\n"
               "    0.1    is the sum of 1 contribution; the gradient is 0.1\n");
    is_exactly(z, TH_INDEX(1),
               "gradient of y2[1]\n"
               "    0.1    backward began here\n"
               "    0.1    is the sum of 1 contribution; the gradient is 0.1\n");
    th_tape_clear(ctx);
    th_tensor *column = numbers(TH_FLOAT64, NULL, TH_SHAPE(3, 1), (const double[]){1, 2, 4});
    th_tensor *row = th_transpose(column, TH_AXES(1, 0)), *e = th_mul(row, row), *part = th_slice(e, 1, 1, 3, 1);
    ck_assert_int_eq(th_backward(th_sum(part, TH_ALL_AXES, NULL), NULL), TH_OK);
    is_exactly(part, TH_INDEX(0, 1),
               "gradient of y2[0, 1], a view: the gradient of y1[0, 2]\n"
               "    1    node 2, slice, test_explain.c:: the gradient of a view of it\n"
               "    1    is the sum of 1 contribution; the gradient is 1\n");
    is_exactly(e, TH_INDEX(0, 2),
               "gradient of y1[0, 2]\n"
               "    1    node 2, slice, test_explain.c:: the gradient of a view of it\n"
               "    1    is the sum of 1 contribution; the gradient is 1\n");
    is_exactly(row, TH_INDEX(0, 2),
               "gradient of y0[0, 2], a view: the gradient of the leaf[2, 0]\n"
               "    8    node 0, transpose, test_explain.c:: the gradient of a view of it\n"
               "    8    is the sum of 1 contribution; the gradient is 8\n");
    is_exactly(column, TH_INDEX(2, 0),
               "gradient of the leaf[2, 0]\n"
               "    8    node 0, transpose, test_explain.c:: the gradient of a view of it\n"
               "    8    is the sum of 1 contribution; the gradient is 8\n");
}
END_TEST

/* 8 terms, and more than 8. */
START_TEST(texts_of_many_terms)
{
    static const char *const expected[] = {"gradient of x[0]\n"
                                           "    -2    node 0, mul, test_explain.c:: da = dy * b; db = dy * a\n"
                                           "        -7 = 1 * -7    dy[7] * y[7]\n"
                                           "        6.5 = 1 * 6.5    dy[6] * y[6]\n"
                                           "        -5 = 1 * -5    dy[5] * y[5]\n"
                                           "        4.5 = 1 * 4.5    dy[4] * y[4]\n"
                                           "        -3 = 1 * -3    dy[3] * y[3]\n"
                                           "        2.5 = 1 * 2.5    dy[2] * y[2]\n"
                                           "        -1 = 1 * -1    dy[1] * y[1]\n"
                                           "        0.5 = 1 * 0.5    dy[0] * y[0]\n"
                                           "    -2    is the sum of 1 contribution; the gradient is -2\n",
                                           "gradient of x[0]\n"
                                           "    6.5    node 0, mul, test_explain.c:: da = dy * b; db = dy * a\n"
                                           "        8.5 = 1 * 8.5    dy[8] * y[8]\n"
                                           "        -7 = 1 * -7    dy[7] * y[7]\n"
                                           "        6.5 = 1 * 6.5    dy[6] * y[6]\n"
                                           "        -5 = 1 * -5    dy[5] * y[5]\n"
                                           "        4.5 = 1 * 4.5    dy[4] * y[4]\n"
                                           "        -3 = 1 * -3    dy[3] * y[3]\n"
                                           "        2.5 = 1 * 2.5    dy[2] * y[2]\n"
                                           "        -1 = 1 * -1    dy[1] * y[1]\n"
                                           "        and 1 smaller terms, together 0.5\n"
                                           "    6.5    is the sum of 1 contribution; the gradient is 6.5\n",
                                           "gradient of x[0]\n"
                                           "    -2.5    node 0, mul, test_explain.c:: da = dy * b; db = dy * a\n"
                                           "        -9 = 1 * -9    dy[9] * y[9]\n"
                                           "        8.5 = 1 * 8.5    dy[8] * y[8]\n"
                                           "        -7 = 1 * -7    dy[7] * y[7]\n"
                                           "        6.5 = 1 * 6.5    dy[6] * y[6]\n"
                                           "        -5 = 1 * -5    dy[5] * y[5]\n"
                                           "        4.5 = 1 * 4.5    dy[4] * y[4]\n"
                                           "        -3 = 1 * -3    dy[3] * y[3]\n"
                                           "        2.5 = 1 * 2.5    dy[2] * y[2]\n"
                                           "        and 2 smaller terms, together -0.5\n"
                                           "    -2.5    is the sum of 1 contribution; the gradient is -2.5\n"};
    double number[10];
    for (int i = 0; i < 10; i++)
        number[i] = i % 2 ? -i : i + 0.5;
    for (int n = 8; n <= 10; n++) {
        th_tensor *x = numbers(TH_FLOAT64, "x", TH_SHAPE(1), (const double[]){2}),
                  *y = numbers(TH_FLOAT64, "y", TH_SHAPE(n), number);
        ck_assert_int_eq(th_backward(th_sum(th_mul(x, y), TH_ALL_AXES, NULL), NULL), TH_OK);
        is_exactly(x, TH_INDEX(0), expected[n - 8]);
        th_tape_clear(ctx);
    }
}
END_TEST

/* Each call of the allocator fails once. The text ends at the error, and nothing leaks. */
START_TEST(without_memory_there_is_an_error)
{
    test_memory memory = {0};
    th_context *outer = ctx;
    ctx = th_context_new(&(th_context_options){.threads = 1, .allocator = allocator_of(&memory)});
    th_keep_values(ctx, true);
    th_tensor *x = th_set_requires_gradient(th_full(ctx, TH_FLOAT64, TH_SHAPE(60, 1), 1), true),
              *b = th_set_requires_gradient(th_full(ctx, TH_FLOAT64, TH_SHAPE(8), 2), true);
    ck_assert_int_eq(th_backward(th_sum(th_exp(th_div(x, b)), TH_ALL_AXES, NULL), NULL), TH_OK);
    char *whole = strdup(explained(b, TH_INDEX(3)));
    const size_t live = th_memory(ctx).live;
    int failures = 0;
    for (int64_t call = 1;; call++) {
        free(text);
        FILE *file = open_memstream(&text, &text_size);
        memory.fail_at = memory.calls + call;
        const th_status status = th_tape_explain(ctx, file, b, TH_INDEX(3));
        const bool failed = memory.calls >= memory.fail_at;
        memory.fail_at = 0;
        fclose(file);
        ck_assert_int_eq(status, failed ? TH_ERROR_MEMORY : TH_OK);
        ck_assert_int_eq(th_error_code(ctx), status);
        ck_assert_int_eq(strncmp(text, whole, strlen(text)), 0);
        ck_assert_int_eq(strcmp(text, whole) == 0, !failed);
        th_error_clear(ctx);
        ck_assert_uint_eq(th_memory(ctx).live, live);
        if (!failed)
            break;
        failures++;
    }
    ck_assert_int_gt(failures, 0);
    free(whole);
    th_context_free(ctx);
    ck_assert_uint_eq(memory.bytes, 0);
    ctx = outer;
}
END_TEST

START_TEST(explains_shared_variables)
{
    th_tensor *x = leaf(TH_SHAPE(2, 3));
    th_tensor *y = th_add(th_mul(x, x), th_exp(x));
    backward(th_sum(th_mul(y, x), TH_ALL_AXES, NULL));
    ck_assert_int_eq(check_all(x), 4);
    ck_assert_int_eq(check_all(y), 1);
}
END_TEST

START_TEST(explains_broadcasting)
{
    th_tensor *a = leaf(TH_SHAPE(3, 1)), *b = leaf(TH_SHAPE(4)), *c = leaf(TH_SHAPE(2, 3, 4));
    backward(th_div(th_mul(th_add(a, b), c), th_add_scalar(th_exp(b), 1)));
    check_all(a);
    ck_assert_int_eq(check_all(b), 2);
    check_all(c);
    th_tape_clear(ctx);
    th_empty_gradient(a);
    backward(th_expand(a, TH_SHAPE(2, 3, 4)));
    ck_assert_int_eq(check_all(a), 1);
}
END_TEST

START_TEST(explains_matrix_products)
{
    th_tensor *a = leaf(TH_SHAPE(2, 1, 2, 3)), *b = leaf(TH_SHAPE(3, 3, 2)), *w = leaf(TH_SHAPE(4, 2)),
              *bias = leaf(TH_SHAPE(4)), *v = leaf(TH_SHAPE(4)), *residual = leaf(TH_SHAPE(2, 3, 2, 4));
    th_tensor *c = th_matmul(a, b);
    th_tensor *y = th_dense(c, w, &(th_dense_options){.bias = bias, .residual = residual});
    backward(th_matmul(y, v));
    th_tensor *const all[] = {a, b, w, bias, v, residual, c, y};
    for (int i = 0; i < 8; i++)
        check_all(all[i]);
}
END_TEST

START_TEST(explains_views)
{
    th_tensor *x = leaf(TH_SHAPE(4, 3));
    th_tensor *y = th_exp(x), *t = th_swap_axes(y, 0, 1), *part = th_slice(t, 1, 1, 4, 2), *row = th_select(y, 0, 1);
    th_tensor *sum = th_add(th_sum(th_mul(part, part), TH_ALL_AXES, NULL), th_sum(th_sin(row), TH_ALL_AXES, NULL));
    backward(th_add(sum, th_sum(y, TH_ALL_AXES, NULL)));
    check_all(x);
    check_all(y);
    check_all(t);
    ck_assert_int_eq(check_all(part), 3);
    check_all(row);
    explained(part, TH_INDEX(2, 0));
    has("gradient of y2[2, 0], a view: the gradient of y0[1, 2]\n");
    has(": the gradient of a view of it\n");
}
END_TEST

START_TEST(explains_zeros_and_nan)
{
    th_tensor *x = leaf(TH_SHAPE(3)), *gate = leaf(TH_SHAPE(3));
    ck_assert_int_eq(th_set(x, TH_INDEX(0), -1), TH_OK);
    ck_assert_int_eq(th_set(x, TH_INDEX(1), 1), TH_OK);
    ck_assert_int_eq(th_set(gate, TH_INDEX(1), NAN), TH_OK);
    backward(th_mul(th_relu(x), gate));
    check_all(x);
    explained(x, TH_INDEX(0));
    has("    0    is the sum of 1 contribution; the gradient is 0\n");
    explained(x, TH_INDEX(1));
    has("    nan    is the sum of 1 contribution; the gradient is nan\n");
}
END_TEST

START_TEST(leaves_many_terms_out)
{
    th_tensor *x = leaf(TH_SHAPE(1)), *y = leaf(TH_SHAPE(2000));
    backward(th_sum(th_tanh(th_mul(x, y)), TH_ALL_AXES, NULL));
    ck_assert_int_eq(check_all(x), 1);
    has("        and 1992 smaller terms, together ");
    explained(y, TH_INDEX(1999));
    check_sums(th_get(th_gradient(y), TH_INDEX(1999)));
}
END_TEST

START_TEST(explains_a_transformer_block)
{
    th_module *block = th_transformer_block_new(ctx, 4, 2, &(th_transformer_block_options){.dropout = 0.2});
    th_tensor *x = leaf(TH_SHAPE(1, 3, 4));
    const th_mask mask = {.causal = TH_CAUSAL_TOP_LEFT};
    backward(th_transform(block, x, &(th_transform_options){.mask = &mask}));
    check_all(x);
    for (th_parameter_iterator p = th_module_parameters(block); th_parameter_next(&p);)
        check_all(p.tensor);
    explained(th_module_find_parameter(block, "norm1.weight"), TH_INDEX(2));
    has("gradient of norm1.weight[2]\n");
    has(", layer_norm in norm1, ");
}
END_TEST

START_TEST(explains_the_start_of_backward)
{
    th_tensor *x = leaf(TH_SHAPE(2)), *y = th_exp(x);
    backward(y);
    ck_assert_int_eq(check_all(y), 1);
    has("    backward began here\n");
}
END_TEST

START_TEST(refuses_wrong_arguments)
{
    th_tensor *x = leaf(TH_SHAPE(2)), *unused = leaf(TH_SHAPE(2)), *y = th_exp(x);
    FILE *file = tmpfile();
    expect_status(th_tape_explain(ctx, file, x, TH_INDEX(0)), TH_ERROR_STATE, "backward did not reach it");
    backward(y);
    ck_assert_int_eq(th_tape_explain(NULL, file, x, TH_INDEX(0)), TH_ERROR_ARGUMENT);
    expect_status(th_tape_explain(ctx, NULL, x, TH_INDEX(0)), TH_ERROR_ARGUMENT, "the file is NULL");
    expect_status(th_tape_explain(ctx, file, NULL, TH_INDEX(0)), TH_ERROR_ARGUMENT, "tape_explain");
    expect_status(th_tape_explain(ctx, file, x, TH_INDEX(2)), TH_ERROR_INDEX, "index 2 is outside axis 0 of (2)");
    expect_status(th_tape_explain(ctx, file, x, TH_INDEX(0, 0)), TH_ERROR_INDEX, "2 indices given for a tensor (2)");
    expect_status(th_tape_explain(ctx, file, unused, TH_INDEX(0)), TH_ERROR_STATE, "backward did not reach it");
    th_tape_clear(ctx);
    th_empty_gradient(x);
    th_tensor *constant = th_ones(ctx, TH_FLOAT64, TH_SHAPE(2));
    backward(th_mul(x, constant));
    expect_status(th_tape_explain(ctx, file, constant, TH_INDEX(0)), TH_ERROR_STATE, "backward did not reach it");
    th_tape_clear(ctx);
    backward(th_exp(x));
    expect_status(th_tape_explain(ctx, file, x, TH_INDEX(0)), TH_ERROR_STATE, "gradients that leaves had before");
    fclose(file);
}
END_TEST

START_TEST(reports_a_full_disk)
{
    th_tensor *x = leaf(TH_SHAPE(2));
    backward(th_exp(x));
    FILE *full = fopen("/dev/full", "w");
    if (full == NULL)
        return;
    expect_status(th_tape_explain(ctx, full, x, TH_INDEX(0)), TH_ERROR_FILE, "writing failed");
    fclose(full);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("explain", open_all, close_all);
    tcase_add_test(tests, explains_a_product);
    tcase_add_test(tests, texts_are_as_written);
    tcase_add_test(tests, texts_of_many_terms);
    tcase_add_test(tests, without_memory_there_is_an_error);
    tcase_add_test(tests, explains_shared_variables);
    tcase_add_test(tests, explains_broadcasting);
    tcase_add_test(tests, explains_matrix_products);
    tcase_add_test(tests, explains_views);
    tcase_add_test(tests, explains_zeros_and_nan);
    tcase_add_test(tests, leaves_many_terms_out);
    tcase_add_test(tests, explains_a_transformer_block);
    tcase_add_test(tests, explains_the_start_of_backward);
    tcase_add_test(tests, refuses_wrong_arguments);
    tcase_add_test(tests, reports_a_full_disk);
    return run_suites();
}
