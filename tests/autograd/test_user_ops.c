/* User-written operations, each checked on its samples: recomputed, with precomputed gradients, with any number of
 * inputs, and fused. */

#include <stdio.h>
#include <stdlib.h>

#include "memory.h"

#include "user_ops.h"

START_TEST(a_cheap_operation_is_recomputed)
{
    ck_assert_op(ctx, &square);
    th_tensor *x = th_set_requires_gradient(th_full(ctx, TH_FLOAT32, TH_SHAPE(4), 3), true);
    square_runs = 0;
    th_scope_begin(ctx, "fourth power");
    th_tensor *y = th_apply(&square, NULL, th_apply(&square, NULL, x));
    th_tensor *loss = th_scope_end(ctx, th_sum(y, TH_ALL_AXES, NULL));
    ck_assert_int_eq(square_runs, 2);
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    ck_assert_int_eq(square_runs, 3); /* x^2 is recomputed for the outer square */
    ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(1)), 4 * 27);
}
END_TEST

START_TEST(a_precomputed_gradient_is_used_in_place)
{
    ck_assert_op(ctx, &energy);
    th_tensor *x = th_set_requires_gradient(th_full(ctx, TH_FLOAT32, TH_SHAPE(3), 5), true);
    precomputed_forwards = precomputed_backwards = 0;
    ck_assert_int_eq(th_backward(th_scale(th_apply(&energy, NULL, x), 2), NULL), TH_OK);
    ck_assert_int_eq(precomputed_forwards, 1);
    ck_assert_int_eq(precomputed_backwards, 1);
    ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(2)), 10);
    th_tape_clear(ctx);
    ck_assert_int_eq(th_backward(th_apply(&energy, NULL, x), NULL), TH_OK); /* accumulates */
    ck_assert_int_eq(precomputed_backwards, 1);
    ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(2)), 15);
}
END_TEST

/* -- a product of two vectors, with a precomputed gradient of the second only: s = sum of a_i b_i -- */

static th_status dot_shape(th_call *c)
{
    th_call_output(c, 0, c->input[0].dtype, 0, NULL, NULL);
    return TH_OK;
}

static void dot_forward(const th_call *c)
{
    double sum = 0;
    for (int64_t i = 0; i < th_array_numel(&c->input[0]); i++) {
        sum += load(&c->input[0], i) * load(&c->input[1], i);
        if (c->precomputed)
            store(&c->input_gradient[1], i, load(&c->input[0], i));
    }
    store(&c->output[0], 0, sum);
    precomputed_forwards += c->precomputed;
}

static void dot_backward(const th_call *c)
{
    const double dy = load(&c->output_gradient[0], 0);
    for (int i = 0; i < 2; i++)
        for (int64_t j = 0; c->input_gradient[i].given && j < th_array_numel(&c->input_gradient[i]); j++)
            if (i == 1 && c->precomputed)
                store(&c->input_gradient[1], j, load(&c->input_gradient[1], j) * dy);
            else
                give(c, i, j, load(&c->input[1 - i], j) * dy);
}

static const th_op dot = {.name = "dot",
                          .n_inputs = 2,
                          .precomputed = TH_INPUT(1),
                          .saves = TH_INPUT(0) | TH_INPUT(1),
                          .shape = dot_shape,
                          .forward = dot_forward,
                          .backward = dot_backward};

/* With a precomputed gradient, backward has nothing to compute and gets no values. */
START_TEST(a_precomputed_gradient_is_used_if_no_other_is_requested)
{
    th_tensor *a = th_set_requires_gradient(th_full(ctx, TH_FLOAT32, TH_SHAPE(2), 3), true);
    th_tensor *b = th_set_requires_gradient(th_full(ctx, TH_FLOAT32, TH_SHAPE(2), 5), true);
    precomputed_forwards = 0;
    ck_assert_int_eq(th_backward(th_apply(&dot, NULL, a, b), NULL), TH_OK);
    ck_assert_int_eq(precomputed_forwards, 0);
    ck_assert_double_eq(th_get(th_gradient(a), TH_INDEX(1)), 5);
    ck_assert_double_eq(th_get(th_gradient(b), TH_INDEX(1)), 3);
    th_empty_gradient(a);
    ck_assert_int_eq(th_backward(th_apply(&dot, NULL, a, a), NULL), TH_OK);
    ck_assert_double_eq(th_get(th_gradient(a), TH_INDEX(0)), 6);
    th_empty_gradient(b);
    ck_assert_int_eq(th_backward(th_apply(&dot, NULL, th_detach(a), b), NULL), TH_OK);
    ck_assert_int_eq(precomputed_forwards, 1);
    ck_assert_double_eq(th_get(th_gradient(b), TH_INDEX(0)), 3);
}
END_TEST

/* A backward pass for chosen tensors computes the gradient, and so does the pass after it: both give the same bits.
 * A pass that does not reach the leaf keeps the precomputed gradient. */
START_TEST(a_precomputed_gradient_is_released_after_another_pass)
{
    for (int reached = 0; reached < 2; reached++) {
        th_tensor *x = th_set_requires_gradient(th_full(ctx, TH_FLOAT32, TH_SHAPE(3), 5), true), *chosen = NULL;
        th_tensor *other = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SCALAR), true);
        precomputed_forwards = precomputed_backwards = 0;
        th_tensor *y = th_apply(&energy, NULL, x);
        const th_backward_options options = {.keep_tape = true, .wrt = &x, .n_wrt = 1, .gradients = &chosen};
        ck_assert_int_eq(th_backward(reached ? y : th_exp(other), &options), TH_OK);
        ck_assert_double_eq(th_get(chosen, TH_INDEX(2)), reached ? 5 : 0);
        ck_assert_int_eq(th_backward(y, NULL), TH_OK);
        ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(2)), 5);
        ck_assert_int_eq(precomputed_forwards, 1);
        ck_assert_int_eq(precomputed_backwards, !reached);
    }
}
END_TEST

START_TEST(any_number_of_inputs_is_saved_and_contiguous)
{
    ck_assert_op(ctx, &product);
    th_op other = product; /* saved for the gradient of each input, by any of its bits */
    other.saves = 0;
    other.saves_for[0] = TH_INPUT(11);
    ck_assert_op(ctx, &other);
    /* A change of a saved input is an error, even after the eighth input. */
    th_tensor *x[12];
    for (int i = 0; i < 12; i++)
        x[i] = th_set_requires_gradient(th_full(ctx, TH_FLOAT32, TH_SHAPE(2), 2), true);
    th_tensor *y = th_sum(th_apply_n(&product, NULL, 12, x, NULL), TH_ALL_AXES, NULL);
    ck_assert_double_eq(th_item(y), 2 * 4096);
    FILE *file = tmpfile();
    ck_assert_int_eq(th_tape_print(ctx, file, &(th_tape_print_options){.formulas = true}), TH_OK);
    ck_assert_int_eq(th_tape_print_dot(ctx, file), TH_OK);
    fclose(file);
    ck_assert_int_eq(th_fill(x[10], 3), TH_OK);
    ck_assert_int_ne(th_backward(y, NULL), TH_OK);
    expect_error(TH_ERROR_STATE, "a value that product saved");
    for (int i = 0; i < 12; i++)
        th_tensor_free(x[i]);
    ck_assert_ptr_null(th_apply_n(&product, NULL, 0, NULL, NULL));
    expect_error(TH_ERROR_ARGUMENT, "nothing to multiply");
}
END_TEST

START_TEST(the_forecast_counts_every_copy)
{
    size_t peak[2];
    for (int shapes_only = 0; shapes_only < 2; shapes_only++) {
        th_context *own = th_context_new(&(th_context_options){.threads = 1, .shapes_only = shapes_only});
        th_tensor *x[12];
        for (int i = 0; i < 12; i++)
            x[i] = th_swap_axes(th_set_requires_gradient(th_ones(own, TH_FLOAT32, TH_SHAPE(40, 50)), true), 0, 1);
        ck_assert_int_eq(th_backward(th_sum(th_apply_n(&product, NULL, 12, x, NULL), TH_ALL_AXES, NULL), NULL), TH_OK);
        peak[shapes_only] = th_memory(own).peak;
        th_context_free(own);
    }
    ck_assert_uint_eq(peak[0], peak[1]);
}
END_TEST

/* With any number of inputs, either all have identity gradients or none has. */
static void sum_forward(const th_call *c)
{
    for (int64_t i = 0; i < th_array_numel(&c->output[0]); i++) {
        double sum = 0;
        for (int k = 0; k < c->n_inputs; k++)
            sum += c->input[k].given ? load(&c->input[k], i) : 0;
        store(&c->output[0], i, sum);
    }
}

static th_status first_given_shape(th_call *c)
{
    for (int k = 0; k < c->n_inputs; k++)
        if (c->input[k].given) {
            th_call_output(c, 0, c->input[k].dtype, c->input[k].ndim, c->input[k].size, NULL);
            return TH_OK;
        }
    return th_call_fail(c, TH_ERROR_ARGUMENT, "there is nothing to add");
}

static const th_op total = {.name = "total",
                            .n_inputs = TH_ANY_INPUTS,
                            .optional = TH_INPUT(0),
                            .identity_gradients = TH_INPUT(0),
                            .shape = first_given_shape,
                            .forward = sum_forward,
                            .samples = product_samples};

START_TEST(any_number_of_inputs_can_be_passed_or_left_out)
{
    ck_assert_op(ctx, &total);
    th_tensor *x = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(2)), true);
    th_tensor *some[11] = {[3] = x, [9] = x, [10] = x};
    ck_assert_int_eq(th_backward(th_sum(th_apply_n(&total, NULL, 11, some, NULL), TH_ALL_AXES, NULL), NULL), TH_OK);
    ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(0)), 3);
    ck_assert_ptr_null(th_apply_n(&total, NULL, 10, (th_tensor *[10]){NULL}, NULL));
    expect_error(TH_ERROR_ARGUMENT, "nothing to add");
}
END_TEST

START_TEST(a_fused_operation_equals_its_composition)
{
    ck_assert_op(ctx, &line);
    for (const th_sample *sample = line.samples; sample->name; sample++) {
        th_tensor *inputs[3], *gradients[2][3];
        double value[2];
        ck_assert_int_eq(th_sample_inputs(ctx, sample, TH_FLOAT64, 3, inputs), TH_OK);
        for (int composed = 0; composed < 2; composed++) {
            for (int i = 0; i < 3; i++)
                th_empty_gradient(th_set_requires_gradient(inputs[i], true));
            th_tensor *y = composed ? line.composed(NULL, inputs, 3) : th_apply_n(&line, NULL, 3, inputs, NULL);
            th_tensor *loss = th_sum(th_mul(y, th_sin(y)), TH_ALL_AXES, NULL);
            value[composed] = th_item(loss);
            ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
            for (int i = 0; i < 3; i++)
                gradients[composed][i] = th_keep(th_gradient(inputs[i]));
            th_tape_clear(ctx);
        }
        ck_assert_double_eq_tol(value[0], value[1], 1e-14);
        for (int i = 0; i < 3; i++)
            for (int64_t k = 0; k < th_numel(inputs[i]); k++)
                ck_assert_double_eq_tol(((const double *)th_data_const(gradients[0][i]))[k],
                                        ((const double *)th_data_const(gradients[1][i]))[k], 1e-14);
    }
}
END_TEST

/* -- without memory -- */

enum { MANY = 200 };

/* A step with views that repeat elements, parts of a gradient, many inputs, and the gradient of an unused tensor. */
static th_status varied_step(th_tensor *x, th_tensor *unused, int many)
{
    th_tensor *inputs[MANY], *gradients[2] = {NULL}, *wrt[] = {x, unused};
    th_tensor *rows = th_reshape(x, TH_SHAPE(3, 4));
    for (int i = 0; i < many; i++)
        inputs[i] = th_slice(rows, 0, i % 3, i % 3 + 1, 1);
    th_tensor *b = th_sum(th_exp(th_apply(&windows, &(one_number){3}, x)), TH_ALL_AXES, NULL);
    const th_status checked = th_apply_check(&product, NULL, many, inputs);
    ck_assert_int_eq(checked, th_error_code(th_context_of(x)));
    th_tensor *a = th_sum(th_apply_n(&product, NULL, many, inputs, NULL), TH_ALL_AXES, NULL);
    th_tensor *loss = th_add(a, b);
    const th_backward_options requested = {.keep_tape = true, .wrt = wrt, .n_wrt = 2, .gradients = gradients};
    const th_status status = th_backward(loss, &requested);
    if (status != TH_OK)
        return status;
    ck_assert(gradients[0] && gradients[1]);
    ck_assert_double_eq(th_get(gradients[1], TH_INDEX(4)), 0);
    const double first = th_get(gradients[0], TH_INDEX(5));
    if (th_backward(loss, NULL) != TH_OK)
        return th_error_code(th_context_of(x));
    ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(5)), first);
    return TH_OK;
}

typedef struct limited {
    test_memory memory;
    th_context *ctx;
    th_tensor *x, *unused;
} limited;

static void limited_new(limited *l, int64_t numel)
{
    *l = (limited){.ctx = NULL};
    l->ctx = th_context_new(&(th_context_options){.threads = 1, .allocator = allocator_of(&l->memory)});
    l->x = th_set_requires_gradient(th_ones(l->ctx, TH_FLOAT64, TH_SHAPE(12)), true);
    l->unused = th_set_requires_gradient(th_ones(l->ctx, TH_FLOAT64, TH_SHAPE(numel)), true);
}

/* Ends a step that may have failed, and checks that the next one succeeds. */
static void next_step(limited *l, int many)
{
    l->memory.fail_at = 0;
    l->memory.forever = false;
    th_tape_clear(l->ctx);
    th_error_clear(l->ctx);
    th_empty_gradient(l->x);
    ck_assert_msg(varied_step(l->x, l->unused, many) == TH_OK, "%s", th_error_message(l->ctx));
    th_context_free(l->ctx);
}

/* Each allocation fails once, or it and all later ones. */
START_TEST(an_allocation_of_a_step_fails)
{
    bool reached = true;
    int failures = 0;
    for (int call = 1; reached; call++) {
        limited l;
        limited_new(&l, 60000);
        l.memory.fail_at = l.memory.calls + call;
        l.memory.forever = _i;
        const th_status status = varied_step(l.x, l.unused, MANY);
        reached = l.memory.calls >= l.memory.fail_at;
        failures += status == TH_ERROR_MEMORY;
        ck_assert(status == TH_OK || status == TH_ERROR_MEMORY);
        ck_assert_int_eq(th_error_code(l.ctx), status);
        next_step(&l, MANY);
    }
    ck_assert_int_gt(failures, 10);
}
END_TEST

/* The tape's memory ends at every point in the first 16 kB of a step: the names of scopes fill all pages but the end of
 * the last one. */
START_TEST(the_tape_fills_its_memory)
{
    enum { PAGE = 16 * 1024, FEW = 9 };
    static char name[PAGE];
    memset(name, 'x', sizeof name - 1);
    int failures = 0;
    for (int left = 0; left < PAGE - 64; left += 16) {
        limited l;
        limited_new(&l, 10);
        ck_assert_int_eq(varied_step(l.x, l.unused, FEW), TH_OK);
        th_tape_clear(l.ctx);
        th_empty_gradient(l.x);
        for (int64_t calls = l.memory.calls; l.memory.calls == calls;) {
            th_scope_begin(l.ctx, &name[32]);
            th_scope_end(l.ctx, NULL);
        }
        th_scope_begin(l.ctx, &name[32 + left]);
        run_out(&l.memory);
        const th_status status = varied_step(l.x, l.unused, FEW);
        ck_assert_int_eq(th_error_code(l.ctx), status);
        ck_assert(status == TH_OK || status == TH_ERROR_MEMORY);
        failures += status != TH_OK;
        th_scope_end(l.ctx, NULL);
        next_step(&l, FEW);
    }
    ck_assert_int_gt(failures, 1000);
}
END_TEST

/* A scope that could not be opened still counts. Its end restores the state before it. */
START_TEST(a_scope_without_memory_can_be_ended)
{
    test_memory memory = {0};
    th_context *c = th_context_new(&(th_context_options){.threads = 1, .allocator = allocator_of(&memory)});
    run_out(&memory);
    th_scope_begin(c, "first");
    ck_assert_int_eq(th_error_code(c), TH_ERROR_MEMORY);
    memory.fail_at = 0;
    th_error_clear(c);
    th_scope_begin(c, "second");
    th_scope_end(c, NULL);
    th_scope_end(c, NULL);
    th_tensor *x = th_set_requires_gradient(th_ones(c, TH_FLOAT32, TH_SHAPE(2)), true);
    th_scope_begin(c, "third");
    th_node_info info;
    th_tensor *y = th_exp(x);
    ck_assert_msg(y != NULL, "%s", th_error_message(c));
    ck_assert_int_eq(th_tape_node(c, 0, &info), TH_OK);
    ck_assert_str_eq(info.module, "third");
    th_scope_end(c, NULL);
    th_context_free(c);
}
END_TEST

START_TEST(a_module_does_not_end_a_scope_without_memory)
{
    test_memory memory = {0};
    th_context *c = th_context_new(&(th_context_options){.threads = 1, .allocator = allocator_of(&memory)});
    th_module *module = th_module_new(c, sizeof *module, "module", NULL);
    th_tensor *x = th_ones(c, TH_FLOAT32, TH_SHAPE(2));
    run_out(&memory);
    th_scope_begin(c, NULL);
    memory.fail_at = 0;
    th_error_clear(c);
    ck_assert_ptr_null(th_module_end(module, NULL)); /* it did not begin */
    th_tensor *y = th_exp(x);
    th_scope_end(c, NULL);
    ck_assert_ptr_null(th_exp(y));
    ck_assert_ptr_nonnull(strstr(th_error_message(c), "was released when its scope ended"));
    th_context_free(c);
}
END_TEST

/* -- names of the library's operations, which exports look into -- */

static const char *const library_names[] = {"add",    "dense",         "dropout",   "dropout_residual",
                                            "expand", "masked_matmul", "matmul",    "masked_softmax",
                                            "mul",    "softmax",       "transpose", "scaled_dot_product_attention",
                                            "where",  "scale",         "sub"};

START_TEST(exports_know_the_librarys_operations_only)
{
    th_op own = square;
    own.name = library_names[_i];
    th_keep_values(ctx, true);
    th_tensor *x = th_set_requires_gradient(th_full(ctx, TH_FLOAT32, TH_SHAPE(2, 2), 3), true);
    th_tensor *t = th_matmul(x, x), *y = th_matmul(th_apply(&own, NULL, t), x);
    ck_assert_int_eq(th_backward(th_sum(y, TH_ALL_AXES, NULL), NULL), TH_OK);
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    ck_assert_int_eq(th_tape_explain(ctx, file, t, TH_INDEX(0, 0)), TH_OK);
    fclose(file);
    ck_assert_ptr_nonnull(strstr(text, "216 = 6 * 36    dy[0, 0] * derivative of y1[0, 0]\n"));
    free(text);
    ck_assert_int_eq(th_tape_write_html(ctx, "/dev/null", NULL), TH_OK);
    expect_status(th_tape_write_python(ctx, "/dev/null", NULL), TH_ERROR_ARGUMENT, "the library's own operations only");
    th_tape_clear(ctx); /* `own` ends with this function */
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("a user's operations", setup, close_context);
    tcase_add_test(tcase, a_cheap_operation_is_recomputed);
    tcase_add_test(tcase, a_precomputed_gradient_is_used_in_place);
    tcase_add_test(tcase, a_precomputed_gradient_is_used_if_no_other_is_requested);
    tcase_add_test(tcase, a_precomputed_gradient_is_released_after_another_pass);
    tcase_add_test(tcase, any_number_of_inputs_is_saved_and_contiguous);
    tcase_add_test(tcase, the_forecast_counts_every_copy);
    tcase_add_test(tcase, any_number_of_inputs_can_be_passed_or_left_out);
    tcase_add_test(tcase, a_fused_operation_equals_its_composition);
    tcase_add_loop_test(tcase, an_allocation_of_a_step_fails, 0, 2);
    tcase_add_loop_test(tcase, exports_know_the_librarys_operations_only, 0,
                        sizeof library_names / sizeof library_names[0]);
    tcase_add_test(tcase, the_tape_fills_its_memory);
    tcase_add_test(tcase, a_scope_without_memory_can_be_ended);
    tcase_add_test(tcase, a_module_does_not_end_a_scope_without_memory);
    return run_suites();
}
