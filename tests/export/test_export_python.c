/* Tapes as Python scripts: their lines and their errors. scripts/interop.sh runs the scripts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tapehead/tapehead.h"

#include "context.h"

static char path[64], *text;

static void open_all(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 3});
    th_keep_values(ctx, true);
    snprintf(path, sizeof path, "/tmp/test_export_python.%ld.py", (long)getpid());
    text = NULL;
}

static void close_all(void)
{
    unlink(path);
    free(text);
    close_context();
}

static const char *read_file(void)
{
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    rewind(file);
    free(text);
    text = calloc(1, (size_t)size + 1);
    ck_assert_uint_eq(fread(text, 1, (size_t)size, file), (size_t)size);
    fclose(file);
    return text;
}

static const char *written(bool numpy)
{
    ck_assert_int_eq(th_tape_write_python(ctx, path, &(th_python_options){.numpy = numpy}), TH_OK);
    return read_file();
}

static void has(const char *script, const char *part)
{
    ck_assert_msg(strstr(script, part) != NULL, "no \"%s\" in\n%.3000s", part, script);
}

static void lacks(const char *script, const char *part)
{
    ck_assert_msg(strstr(script, part) == NULL, "\"%s\" in\n%.3000s", part, script);
}

static th_tensor *leaf(th_dtype dtype, double a, double b)
{
    th_tensor *t = th_empty(ctx, dtype, TH_SHAPE(2));
    ck_assert_int_eq(th_set(t, TH_SHAPE(0), a), TH_OK);
    ck_assert_int_eq(th_set(t, TH_SHAPE(1), b), TH_OK);
    return th_set_requires_gradient(t, true);
}

/* Records sum(a b) and returns it. */
static th_tensor *product(th_tensor *a, th_tensor *b)
{
    return th_sum(th_mul(a, b), TH_ALL_AXES, NULL);
}

static th_tensor *usual_product(void)
{
    return product(leaf(TH_FLOAT32, 0.1, -2), leaf(TH_FLOAT32, 1e-9, 3));
}

/* Numbers have the fewest digits that tell them from all others of their type, in the attributes and in the data. */
START_TEST(numbers_are_shortest)
{
    static const double number[] = {0.1,      -2.5e-7,   1e16, 9999999999999998, 1e-4, 9.99e-5, 1e300, 5e-324, -1e-100,
                                    INFINITY, -INFINITY, NAN,  1.0 / 3,          -0.0, 12,      1.5e10};
    for (int i = 0; i < 2; i++) {
        const th_dtype type = i ? TH_FLOAT32 : TH_FLOAT64;
        th_tensor *x = th_set_requires_gradient(th_empty(ctx, type, TH_SHAPE(4, 4)), true);
        for (int j = 0; j < 16; j++)
            ck_assert_int_eq(th_set(x, TH_INDEX(j / 4, j % 4), number[j]), TH_OK);
        th_clamp(th_scale(th_scale(x, 1.0 / 3), 1e-100), -INFINITY, 2e20);
        const char *script = written(false);
        has(script,
            i ? "    \"x0\": (\"float32\", (4, 4), \"0.1 -2.5e-07 1e16 1e16 1e-04 9.99e-05 inf 0 -0 inf -inf nan "
                "0.33333334 -0 12 15000000000\"),\n"
              : "    \"x0\": (\"float64\", (4, 4), \"0.1 -2.5e-07 1e16 9999999999999998 0.0001 9.99e-05 1e300 5e-324 "
                "-1e-100 inf -inf nan 0.3333333333333333 -0 12 15000000000\"),\n");
        has(script, "th_scale(x0, factor=0.3333333333333333)");
        has(script, "th_scale(y0, factor=1e-100)");
        has(script, "low=-math.inf, high=2e20)");
        th_tape_clear(ctx);
    }
}
END_TEST

/* 64 numbers are decimal, 65 are in base64: lines of 112 characters. */
START_TEST(many_numbers_are_in_base64)
{
    for (int n = 64; n <= 65; n++) {
        th_neg(th_set_requires_gradient(th_zeros(ctx, TH_FLOAT64, TH_SHAPE(n)), true));
        const char *script = written(false),
                   *data = strstr(script, n == 64 ? "\"x0\": (\"float64\", (64,), \"0 0 0 "
                                                  : "\"x0\": (\"float64\", (65,), b64decode(\"\"\"\nAAAA");
        ck_assert_msg(data != NULL, "%.3000s", strstr(script, "LEAVES = "));
        if (n == 65) { /* 520 bytes: 6 lines of 84, and 16 */
            data = strchr(data, '\n') + 1;
            for (int line = 0; line < 7; line++, data = strchr(data, '\n') + 1)
                ck_assert_uint_eq(strcspn(data, "\n\""), line < 6 ? 112u : 24u);
        }
        th_tape_clear(ctx);
    }
}
END_TEST

START_TEST(has_lines_and_exact_numbers)
{
    ck_assert_int_eq(th_backward(usual_product(), NULL), TH_OK);
    const char *script = written(false);
    has(script, "\n    x0 = leaf(\"x0\")  # float32 (2)\n");
    has(script, "\n    y0 = th_mul(x0, x1)  # node 0, test_export_python.c:");
    has(script, "\n    y1 = th_sum(y0, axes=(0,), keep_axes=False)  # node 1, ");
    has(script, "\n    y1.backward(given(\"cotangent\"))\n");
    has(script, "\n    \"x0\": (\"float32\", (2,), \"0.1 -2\"),\n");
    has(script, "\n    \"x1\": (\"float32\", (2,), \"1e-09 3\"),\n");
    has(script, "\n    \"y1\": (\"float32\", (), \"-6\"),\n");
    has(script,
        "GRADIENTS = {\n    \"y0\": (\"float32\", (2,), \"1 1\"),\n    \"x1\": (\"float32\", (2,), \"0.1 -2\"),\n");
    has(script, "\ndef th_mul(a, b):\n    return a * b\n");
    lacks(script, "def th_exp");
    lacks(script, "import numpy");
}
END_TEST

START_TEST(numpy_has_the_rules)
{
    ck_assert_int_eq(th_backward(usual_product(), NULL), TH_OK);
    const char *script = written(true);
    has(script, "\n    d_y1 = given(\"cotangent\")\n    d_y0 = th_sum_gradient(d_y1, y0, axes=(0,), keep_axes=False)");
    has(script, "\n    d_x0, d_x1 = th_mul_gradient(d_y0, x0, x1)  # node 0, ");
    has(script, "\ndef th_mul_gradient(dy, a, b):\n    return sum_to(dy * b, a), sum_to(dy * a, b)\n");
    has(script, "\ndef sum_to(g, x):\n");
    lacks(script, "import torch");
}
END_TEST

/* The least precise products set the tolerance. Without stored weights those of int8 are float32. */
START_TEST(the_tolerance_depends_on_the_precision)
{
    static const int rank[] = {0, 1, 2, 0};
    static const char *const tolerance[] = {"\nTOLERANCE = 1e-4\n", "\nTOLERANCE = 1e-3\n", "\nTOLERANCE = 5e-2\n"};
    for (int first = TH_PRECISION_FLOAT32; first <= TH_PRECISION_INT8; first++)
        for (int second = TH_PRECISION_FLOAT32; second <= TH_PRECISION_INT8; second++) {
            const int largest = rank[first] > rank[second] ? rank[first] : rank[second];
            ck_assert_int_eq(th_set_precision(ctx, (th_precision)first), TH_OK);
            th_tensor *a = th_matmul(leaf(TH_FLOAT32, 1, 2), leaf(TH_FLOAT32, 3, 4));
            ck_assert_int_eq(th_set_precision(ctx, (th_precision)second), TH_OK);
            ck_assert_int_eq(th_backward(th_mul(a, a), NULL), TH_OK);
            has(written(false), tolerance[largest]);
            th_tape_clear(ctx);
        }
}
END_TEST

/* Leaves of one name have different variables; many, so that names meet in the table of names. */
START_TEST(numbers_equal_names)
{
    enum { NAMES = 20, USES = 3 };
    th_tensor *sum = leaf(TH_FLOAT32, 1, 2);
    for (int i = 0; i < NAMES * USES; i++) {
        char name[16];
        snprintf(name, sizeof name, "name%d", i % NAMES);
        sum = th_add(sum, th_set_name(leaf(TH_FLOAT32, 1, 2), name));
    }
    const char *script = written(false);
    for (int i = 0; i < NAMES; i++) {
        char line[64];
        snprintf(line, sizeof line, "\n    x_name%d = leaf(", i);
        has(script, line);
        for (int use = 2; use <= USES; use++) {
            snprintf(line, sizeof line, "\n    x_name%d__%d = leaf(", i, use);
            has(script, line);
        }
    }
    ck_assert_ptr_null(strstr(script, "__1"));
    ck_assert_ptr_null(strstr(script, "__4"));
}
END_TEST

START_TEST(numpy_adds_gradients_of_shared_variables)
{
    th_tensor *x = leaf(TH_FLOAT64, 1, 2);
    ck_assert_int_eq(th_backward(product(x, x), NULL), TH_OK);
    const char *script = written(true);
    has(script, "\n    d_x0, more1 = th_mul_gradient(d_y0, x0, x0)");
    has(script, "\n    d_x0 = d_x0 + more1\n");
    has(script, "TOLERANCE = 1e-11\n");
}
END_TEST

START_TEST(names_parameters_and_modules)
{
    th_module *first = th_dense_new(ctx, 2, 2, NULL), *second = th_dense_new(ctx, 2, 2, NULL);
    th_tensor *y = th_module_forward(second, th_module_forward(first, leaf(TH_FLOAT32, 1, 2)));
    ck_assert_int_eq(th_backward(th_sum(y, TH_ALL_AXES, NULL), NULL), TH_OK);
    const char *script = written(false);
    has(script, "\n    p_weight = leaf(\"p_weight\")  # weight, float32 (2, 2)\n");
    has(script, "\n    p_weight__2 = leaf(\"p_weight__2\")  # weight, float32 (2, 2)\n");
    has(script, "\n    y0 = th_dense(x0, p_weight, p_bias, None)");
    has(script, "\n    y1 = th_dense(y0, p_weight__2, p_bias__2, None)");
}
END_TEST

START_TEST(writes_special_numbers_and_large_tensors)
{
    th_tensor *x = leaf(TH_FLOAT64, NAN, -INFINITY);
    th_tensor *large = th_full(ctx, TH_FLOAT32, TH_SHAPE(65), 1);
    th_set_requires_gradient(large, true);
    th_neg(x);
    th_neg(large);
    no_error();
    const char *script = written(false);
    has(script, "\n    \"x0\": (\"float64\", (2,), \"nan -inf\"),\n");
    has(script, "\n    \"x1\": (\"float32\", (65,), b64decode(\"\"\"\nAACAPwAAgD8AAIA/");
    has(script, "\n    return values, {}\n"); /* no backward */
    has(script, "GRADIENTS = {\n}\n");
}
END_TEST

START_TEST(has_the_elements_that_dropout_kept)
{
    th_tensor *x = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(3, 7)), true);
    th_tensor *y = th_dropout(x, 0.5);
    char kept[256] = "\n    \"kept0\": (\"bool\", (3, 7), \"";
    for (int i = 0; i < 21; i++)
        snprintf(kept + strlen(kept), 8, "%s%d", i ? " " : "", th_get(y, TH_SHAPE(i / 7, i % 7)) != 0);
    const char *script = written(false);
    has(script, kept);
    has(script, "th_dropout(x0, p=0.5, kept=given(\"kept0\"))");
}
END_TEST

START_TEST(knows_every_recorded_operation)
{
    int recorded = 0;
    for (int i = 0; i < th_op_count(); i++) {
        const th_op *op = th_op_at(i);
        if (op->not_differentiable)
            continue;
        th_tensor *input[TH_MAX_SAMPLE_INPUTS];
        ck_assert_int_eq(th_sample_inputs(ctx, op->samples, TH_FLOAT64, 1, input), TH_OK);
        for (int j = 0; j < op->samples->n_inputs; j++)
            if (input[j] && th_dtype_of(input[j]) == TH_FLOAT64)
                th_set_requires_gradient(input[j], true);
        th_apply_n(op, op->samples->attributes, op->samples->n_inputs, input, NULL);
        char line[128];
        for (int numpy = 0; numpy < 2; numpy++) {
            const char *script = written(numpy);
            snprintf(line, sizeof line, " = th_%s(", op->name);
            has(script, line);
            snprintf(line, sizeof line, "\ndef th_%s(", op->name);
            has(script, line);
        }
        th_tape_clear(ctx);
        recorded++;
    }
    ck_assert_int_ge(recorded, 60);
}
END_TEST

/* -- errors -- */

static void refuses(th_status code, const char *words)
{
    FILE *file = fopen(path, "w");
    fputs("old", file);
    fclose(file);
    expect_status(th_tape_write_python(ctx, path, NULL), code, words);
    ck_assert_str_eq(read_file(), "old");
}

START_TEST(refuses_an_empty_tape)
{
    refuses(TH_ERROR_STATE, "the tape is empty");
    ck_assert_int_eq(th_tape_write_python(NULL, path, NULL), TH_ERROR_ARGUMENT);
}
END_TEST

START_TEST(refuses_values_that_were_not_kept)
{
    th_keep_values(ctx, false);
    th_tensor *x = leaf(TH_FLOAT32, 1, 2);
    th_scope_begin(ctx, "inner");
    th_tensor *y = th_scope_end(ctx, th_add(th_neg(x), x));
    (void)y;
    refuses(TH_ERROR_STATE, "call th_keep_values before the forward");
}
END_TEST

START_TEST(refuses_changed_values)
{
    th_tensor *x = leaf(TH_FLOAT32, 1, 2);
    th_neg(x);
    ck_assert_int_eq(th_set(x, TH_SHAPE(0), 5), TH_OK);
    refuses(TH_ERROR_STATE, "a value of neg, recorded at ");
}
END_TEST

START_TEST(refuses_several_passes)
{
    th_tensor *x = leaf(TH_FLOAT32, 1, 2), *y = product(x, x);
    ck_assert_int_eq(th_backward(y, &(th_backward_options){.keep_tape = true}), TH_OK);
    ck_assert_int_eq(th_backward(y, NULL), TH_OK);
    refuses(TH_ERROR_STATE, "2 backward passes");
    th_tape_clear(ctx);
    ck_assert_int_eq(th_backward(product(x, x), NULL), TH_OK);
    refuses(TH_ERROR_STATE, "gradients that leaves had before");
    th_tape_clear(ctx);
    th_empty_gradient(x);
    ck_assert_int_eq(th_backward(product(x, x), NULL), TH_OK);
    written(false);
}
END_TEST

START_TEST(refuses_bad_paths)
{
    usual_product();
    expect_status(th_tape_write_python(ctx, NULL, NULL), TH_ERROR_ARGUMENT, "the path is NULL");
    expect_status(th_tape_write_python(ctx, "/nonexistent/x.py", NULL), TH_ERROR_FILE, "cannot be opened");
    if (access("/dev/full", W_OK) == 0)
        expect_status(th_tape_write_python(ctx, "/dev/full", NULL), TH_ERROR_FILE, "could not be written in full");
}
END_TEST

static th_status own_shape(th_call *call)
{
    th_call_output(call, 0, call->input[0].dtype, call->input[0].ndim, call->input[0].size, NULL);
    return TH_OK;
}

static void own_forward(const th_call *call)
{
    memcpy(call->output[0].data, call->input[0].data, 2 * sizeof(float));
}

static const th_op own = {.name = "my_op",
                          .n_inputs = 1,
                          .flags = TH_OP_CONTIGUOUS,
                          .shape = own_shape,
                          .forward = own_forward,
                          .identity_gradients = TH_INPUT(0)};

START_TEST(refuses_operations_of_a_program)
{
    th_apply(&own, NULL, leaf(TH_FLOAT32, 1, 2));
    refuses(TH_ERROR_ARGUMENT, "node 0 is my_op, recorded at ");
}
END_TEST

/* The title and names cannot end a string or a comment. */
START_TEST(escapes_text)
{
    th_tensor *x = leaf(TH_FLOAT32, 1, 2);
    th_scope_begin(ctx, "a\nimport os");
    th_scope_end(ctx, th_neg(x));
    ck_assert_int_eq(th_tape_write_python(ctx, path, &(th_python_options){.title = "\"\"\"\nx = 1"}), TH_OK);
    const char *script = read_file();
    lacks(script, "\nimport os");
    lacks(script, "\nx = 1");
    has(script, "\"\"\"\\\"\\\"\\\"\\nx = 1\n");
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("export_python", open_all, close_all);
    tcase_add_test(tests, numbers_are_shortest);
    tcase_add_test(tests, many_numbers_are_in_base64);
    tcase_add_test(tests, has_lines_and_exact_numbers);
    tcase_add_test(tests, numpy_has_the_rules);
    tcase_add_test(tests, numpy_adds_gradients_of_shared_variables);
    tcase_add_test(tests, the_tolerance_depends_on_the_precision);
    tcase_add_test(tests, numbers_equal_names);
    tcase_add_test(tests, names_parameters_and_modules);
    tcase_add_test(tests, writes_special_numbers_and_large_tensors);
    tcase_add_test(tests, has_the_elements_that_dropout_kept);
    tcase_add_test(tests, knows_every_recorded_operation);
    tcase_add_test(tests, refuses_an_empty_tape);
    tcase_add_test(tests, refuses_values_that_were_not_kept);
    tcase_add_test(tests, refuses_changed_values);
    tcase_add_test(tests, refuses_several_passes);
    tcase_add_test(tests, refuses_bad_paths);
    tcase_add_test(tests, refuses_operations_of_a_program);
    tcase_add_test(tests, escapes_text);
    return run_suites();
}
