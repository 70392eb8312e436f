/* Tests of the memory of a step, and of its forecast in a shapes-only context. */
#include <math.h>

#include "tapehead/context.h"
#include "tapehead/gradient_check.h"
#include "tapehead/layers.h"
#include "tapehead/module.h"
#include "tapehead/op.h"
#include "tapehead/ops.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"

#include "leaf_and_loss.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 1});
    ck_assert_ptr_nonnull(ctx);
}

static double one_step(th_tensor *x)
{
    th_scope_begin(ctx, "model");
    th_tensor *h = th_gelu_tanh(th_matmul(x, x));
    th_tensor *parts[2];
    ck_assert_int_eq(th_split(h, 1, 2, (int64_t[]){8, 8}, parts), TH_OK);
    h = th_dropout(th_add(th_matmul(parts[0], th_swap_axes(parts[1], 0, 1)), h), 0.1);
    th_tensor *loss = th_scope_end(ctx, th_mean(th_mul(h, h), TH_ALL_AXES, NULL));
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    const double value = th_item(loss);
    th_tape_clear(ctx);
    th_empty_gradient(x);
    return value;
}

START_TEST(after_the_first_step_no_step_allocates)
{
    th_tensor *x = counting_leaf(TH_SHAPE(16, 16));
    ck_assert_int_eq(th_fill_uniform(x, -1, 1), TH_OK);
    one_step(x);
    const size_t before = th_memory(ctx).allocations;
    th_memory_reset_peak(ctx);
    const size_t live = th_memory(ctx).live;
    for (int i = 0; i < 5; i++)
        one_step(x);
    ck_assert_uint_eq(th_memory(ctx).allocations, before);
    ck_assert_uint_eq(th_memory(ctx).live, live);
}
END_TEST

/* Returns the peak memory of an operation's forward and backward on a sample, in bytes. */
static size_t peak_of_sample(const th_op *op, const th_sample *sample, th_dtype dtype, bool shapes_only,
                             th_shape *shape)
{
    th_context *c = th_context_new(&(th_context_options){.shapes_only = shapes_only, .default_dtype = dtype});
    th_tensor *inputs[TH_MAX_INPUTS];
    ck_assert_int_eq(th_sample_inputs(c, sample, dtype, 1, inputs), TH_OK);
    for (int i = 0; i < sample->n_inputs; i++) {
        const th_dtype storage = sample->input[i].storage;
        ck_assert(sample->input[i].kind > TH_SAMPLE_DISTINCT || th_dtype_of(inputs[i]) == (storage ? storage : dtype));
        if (inputs[i] && !storage && sample->input[i].kind <= TH_SAMPLE_DISTINCT && !sample->input[i].constant)
            ck_assert_ptr_nonnull(th_set_requires_gradient(inputs[i], true));
    }
    th_tensor *y = th_apply_n(op, sample->attributes, sample->n_inputs, inputs, NULL);
    ck_assert_msg(y != NULL, "%s", th_error_message(c));
    *shape = th_shape_of(y);
    if (th_requires_gradient(y)) {
        th_tensor *cotangent = th_ones(c, th_dtype_of(y), *shape);
        ck_assert_int_eq(th_backward(y, &(th_backward_options){.cotangent = cotangent}), TH_OK);
    }
    const size_t peak = th_memory(c).peak;
    th_context_free(c);
    return peak;
}

START_TEST(the_forecast_of_every_operation_is_exact)
{
    for (int i = 0; i < th_op_count(); i++) {
        const th_op *op = th_op_at(i);
        for (const th_sample *sample = op->samples; sample->name; sample++)
            for (int dtype = TH_FLOAT32; dtype <= TH_FLOAT64; dtype++) {
                th_shape real, forecast;
                const size_t peak = peak_of_sample(op, sample, (th_dtype)dtype, false, &real);
                ck_assert_uint_eq(peak_of_sample(op, sample, (th_dtype)dtype, true, &forecast), peak);
                ck_assert_int_eq(forecast.ndim, real.ndim);
                ck_assert_mem_eq(forecast.size, real.size, (size_t)real.ndim * sizeof real.size[0]);
            }
    }
}
END_TEST

START_TEST(a_shapes_only_run_forecasts_memory)
{
    size_t peak[2];
    for (int shapes_only = 0; shapes_only < 2; shapes_only++) {
        th_context *c = th_context_new(&(th_context_options){.seed = 1, .shapes_only = shapes_only});
        th_tensor *x = th_set_requires_gradient(th_randn(c, TH_FLOAT32, TH_SHAPE(128, 256)), true);
        th_tensor *w = th_set_requires_gradient(th_randn(c, TH_FLOAT32, TH_SHAPE(256, 256)), true);
        th_scope_begin(c, NULL);
        th_tensor *h = th_gelu_tanh(th_dense(x, w, NULL));
        h = th_layer_norm(th_dense(h, w, NULL), NULL);
        th_tensor *loss = th_scope_end(c, th_sum(th_mul(h, h), TH_ALL_AXES, NULL));
        ck_assert_msg(th_backward(loss, NULL) == TH_OK, "%s", th_error_message(c));
        ck_assert(shapes_only ? isnan(th_item(loss)) : isfinite(th_item(loss)));
        peak[shapes_only] = th_memory(c).peak;
        th_context_free(c);
    }
    ck_assert_double_eq_tol((double)peak[1] / (double)peak[0], 1, 0.05);
}
END_TEST

/* A shapes-only context counts the memory of contiguous copies, although it copies nothing. */
START_TEST(the_forecast_counts_copies_of_operands)
{
    size_t peak[2];
    for (int shapes_only = 0; shapes_only < 2; shapes_only++) {
        th_context *c = th_context_new(&(th_context_options){.seed = 1, .shapes_only = shapes_only});
        th_tensor *x = th_set_requires_gradient(th_zeros(c, TH_FLOAT32, TH_SHAPE(128, 64)), true);
        th_tensor *y = th_mean(th_dropout(th_swap_axes(x, 0, 1), 0.5), TH_ALL_AXES, NULL);
        ck_assert_int_eq(th_backward(y, NULL), TH_OK);
        peak[shapes_only] = th_memory(c).peak;
        th_context_free(c);
    }
    ck_assert_uint_eq(peak[1], peak[0]);
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("tape_memory", setup, close_context);
    tcase_add_test(tcase, after_the_first_step_no_step_allocates);
    tcase_add_test(tcase, the_forecast_of_every_operation_is_exact);
    tcase_add_test(tcase, a_shapes_only_run_forecasts_memory);
    tcase_add_test(tcase, the_forecast_counts_copies_of_operands);
    return run_suites();
}
