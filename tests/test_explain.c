/* th_tape_explain: the contributions to an element add up to its gradient, and the terms to their contribution. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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
