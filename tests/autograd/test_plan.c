/* Plans of a user's operation: scratch memory of the requested size, the same bytes with shapes only, and rejected
 * plans. Includes public headers only. */
#include <stdint.h>
#include <string.h>

#include "memory.h"
#include "tapehead/check.h"
#include "tapehead/tapehead.h"

#include "context.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 5, .threads = 2});
}

/* y = x³, with squares in scratch memory. Backward computes squares there, then factors in the same memory. */
typedef struct steps {
    bool backward;
    int64_t count;
    size_t bytes, squares, tail, factors;
} steps;

static int plans, runs;

static th_status cube_shape(th_call *c)
{
    th_call_output(c, 0, c->input[0].dtype, c->input[0].ndim, c->input[0].size, c->input[0].axes);
    return th_call_floating(c, 0);
}

static void cube_plan(const th_call *c, bool backward, void *plan)
{
    steps *s = plan;
    plans++;
    *s = (steps){.backward = backward,
                 .count = th_array_numel(&c->input[0]),
                 .bytes = c->input[0].dtype == TH_FLOAT64 ? sizeof(double) : sizeof(float)};
    s->squares = th_plan_scratch(c, s->count, s->bytes);
    s->tail = th_plan_scratch(c, 3, 1);
    if (backward) {
        th_plan_reuse(c, s->squares);
        s->factors = th_plan_scratch(c, 2 * s->count, s->bytes);
    }
}

static double at(const steps *s, const void *data, int64_t i)
{
    return s->bytes == sizeof(double) ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

static void put(const steps *s, void *data, int64_t i, double value)
{
    if (s->bytes == sizeof(double))
        ((double *)data)[i] = value;
    else
        ((float *)data)[i] = (float)value;
}

/* All reserved memory can be written, and its parts do not overlap. */
static void *squares_of(const th_call *c, const steps *s)
{
    char *squares = th_call_scratch(c, s->squares), *tail = th_call_scratch(c, s->tail);
    ck_assert_uint_eq((uintptr_t)squares % 64, 0);
    ck_assert_uint_eq((uintptr_t)tail % 64, 0);
    memset(tail, 1, 3);
    for (int64_t i = 0; i < s->count; i++)
        put(s, squares, i, at(s, c->input[0].data, i) * at(s, c->input[0].data, i));
    ck_assert(tail[0] == 1 && tail[1] == 1 && tail[2] == 1);
    return squares;
}

static void cube_forward(const th_call *c)
{
    const steps *s = c->plan;
    runs++;
    ck_assert(!s->backward);
    const void *squares = squares_of(c, s);
    for (int64_t i = 0; i < s->count; i++)
        put(s, c->output[0].data, i, at(s, squares, i) * at(s, c->input[0].data, i));
}

static void cube_backward(const th_call *c)
{
    const steps *s = c->plan;
    runs++;
    ck_assert(s->backward);
    const void *squares = squares_of(c, s);
    for (int64_t i = 0; i < s->count; i++)
        put(s, c->input_gradient[0].data, i, 3 * at(s, squares, i) * at(s, c->output_gradient[0].data, i));
    memset(th_call_scratch(c, s->factors), 1, 2 * (size_t)s->count * s->bytes);
}

static const th_sample cube_samples[] = {
    {"some", NULL, 1, {{.shape = TH_SIZES(3, 5)}}, 0},
    {"one", NULL, 1, {{.shape = {0, {0}}}}, 0},
    {"none", NULL, 1, {{.shape = TH_SIZES(0)}}, 0},
    {.name = NULL},
};

static const th_op cube = {
    .name = "cube",
    .value = "y = x³",
    .gradient = "dx = 3 x² dy",
    .n_inputs = 1,
    .flags = TH_OP_CONTIGUOUS | TH_OP_CANNOT_ADD,
    .saves = TH_INPUT(0),
    .shape = cube_shape,
    .forward = cube_forward,
    .backward = cube_backward,
    .plan = cube_plan,
    .plan_size = sizeof(steps),
    .samples = cube_samples,
};

START_TEST(reserved_memory_can_be_used)
{
    th_gradient_report report;
    const th_status status = th_check_op(ctx, &cube, NULL, &report);
    ck_assert_msg(status == TH_OK, "%s", report.text);
}
END_TEST

START_TEST(each_run_is_planned_once_and_counted_without_data)
{
    size_t peak[2];
    for (int shapes_only = 0; shapes_only < 2; shapes_only++) {
        th_context *own = th_context_new(&(th_context_options){.threads = 1, .shapes_only = shapes_only});
        th_tensor *x = th_set_requires_gradient(th_full(own, TH_FLOAT32, TH_SHAPE(40, 50), 2), true);
        plans = runs = 0;
        th_tensor *y = th_apply(&cube, NULL, x);
        ck_assert_int_eq(plans, 1);
        ck_assert_int_eq(th_backward(th_sum(y, TH_ALL_AXES, NULL), NULL), TH_OK);
        ck_assert_int_eq(plans, 2);
        ck_assert_int_eq(runs, shapes_only ? 0 : 2);
        if (!shapes_only)
            ck_assert_float_eq(((const float *)th_data(th_gradient(x)))[7], 12);
        /* x, y and both gradients, the larger of backward's two steps, and a cache line for one element */
        peak[shapes_only] = th_memory(own).peak;
        ck_assert_uint_ge(peak[shapes_only], (4 + 2) * 2000 * sizeof(float));
        th_context_free(own);
    }
    ck_assert_uint_eq(peak[0], peak[1]);
}
END_TEST

/* -- impossible plans -- */

static void endless_plan(const th_call *c, bool backward, void *plan)
{
    (void)backward, (void)plan;
    th_plan_scratch(c, INT64_MAX, sizeof(double));
    th_plan_scratch(c, 1, 1);
}

static void negative_plan(const th_call *c, bool backward, void *plan)
{
    (void)backward, (void)plan;
    th_plan_scratch(c, -1, 1);
}

static void endless_element_plan(const th_call *c, bool backward, void *plan)
{
    (void)backward, (void)plan;
    th_plan_scratch(c, 1, SIZE_MAX);
}

static void endless_sum_plan(const th_call *c, bool backward, void *plan)
{
    (void)backward, (void)plan;
    for (int i = 0; i < 3; i++)
        th_plan_scratch(c, INT64_MAX - 63, 1);
}

static void endless_step_plan(const th_call *c, bool backward, void *plan)
{
    (void)backward, (void)plan;
    const size_t offset = th_plan_scratch(c, 8, 1);
    th_plan_scratch(c, INT64_MAX, 2);
    th_plan_reuse(c, offset);
    th_plan_scratch(c, 8, 1);
}

START_TEST(overflowing_sizes_are_a_memory_error)
{
    void (*const plan[])(const th_call *, bool, void *) = {endless_plan, negative_plan, endless_element_plan,
                                                           endless_sum_plan, endless_step_plan};
    for (size_t i = 0; i < sizeof plan / sizeof *plan; i++) {
        th_op op = cube;
        op.plan = plan[i];
        runs = 0;
        ck_assert_ptr_null(th_apply(&op, NULL, th_ones(ctx, TH_FLOAT32, TH_SHAPE(2))));
        ck_assert_int_eq(runs, 0);
        expect_error(TH_ERROR_MEMORY, "cube");
        th_context *own = th_context_new(&(th_context_options){.shapes_only = true});
        ck_assert_ptr_null(th_apply(&op, NULL, th_ones(own, TH_FLOAT32, TH_SHAPE(2))));
        ck_assert_int_eq(th_error_code(own), TH_ERROR_MEMORY);
        th_context_free(own);
    }
}
END_TEST

START_TEST(a_plan_fits_its_size)
{
    th_op op = cube;
    op.plan_size = TH_MAX_PLAN + 1;
    ck_assert_ptr_null(th_apply(&op, NULL, th_ones(ctx, TH_FLOAT32, TH_SHAPE(2))));
    expect_error(TH_ERROR_ARGUMENT, "plan_size must be at most 4096; it is 4097");
    op = cube;
    op.plan = NULL;
    ck_assert_ptr_null(th_apply(&op, NULL, th_ones(ctx, TH_FLOAT32, TH_SHAPE(2))));
    expect_error(TH_ERROR_ARGUMENT, "but there is no plan");
}
END_TEST

/* A fused operation's operands are checked before its composition runs on them. */
START_TEST(operands_are_checked_before_the_composition_runs)
{
    th_tensor *integers = th_zeros(ctx, TH_INT32, TH_SHAPE(2)), *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2));
    plans = runs = 0;
    ck_assert_int_eq(th_apply_check(&cube, NULL, 1, &x), TH_OK);
    ck_assert_int_eq(th_apply_check(&cube, NULL, 1, &integers), TH_ERROR_TYPE);
    expect_error(TH_ERROR_TYPE, "cube: input 0 must be float32 or float64; it is int32");
    x = NULL;
    ck_assert_int_ne(th_apply_check(&cube, NULL, 1, &x), TH_OK);
    expect_error(TH_ERROR_ARGUMENT, "cube");
    ck_assert_int_eq(plans + runs, 0);
}
END_TEST

/* -- y = x, planned without scratch memory -- */

static void counting_plan(const th_call *c, bool backward, void *plan)
{
    for (int i = 0; i < c->n_inputs && (c->op->flags & TH_OP_CONTIGUOUS); i++)
        ck_assert(th_array_contiguous(&c->input[i]) || (backward && c->input[i].data == NULL));
    *(char *)plan = 0;
    plans++;
}

static void same_forward(const th_call *c)
{
    runs++;
    memcpy(c->output[0].data, c->input[0].data, (size_t)th_array_numel(&c->output[0]) * sizeof(float));
}

static void same_backward(const th_call *c)
{
    runs++;
    float *dx = c->input_gradient[0].data;
    for (int64_t i = 0; i < th_array_numel(&c->input_gradient[0]); i++)
        dx[i] = ((const float *)c->output_gradient[0].data)[i];
}

/* Each allocation of a chain, a short one or one of many small tensors, fails once. No plan is made for a kernel that
 * then does not run. In the first half every second operation copies its input. In the second half gradients use the
 * memory of values. */
START_TEST(a_failed_call_makes_no_plan)
{
    const int length = _i ? 150 : 2;
    const th_shape shape = _i ? TH_SHAPE(4, 5) : TH_SHAPE(600, 400);
    th_op copying = cube, overwriting;
    copying.plan = counting_plan;
    copying.forward = same_forward;
    copying.backward = same_backward;
    overwriting = copying;
    overwriting.flags = TH_OP_OVER_INPUT | TH_OP_CANNOT_ADD;
    bool reached = true;
    int failures = 0;
    for (int call = 1; reached; call++) {
        test_memory memory = {0};
        th_context *c = th_context_new(&(th_context_options){.threads = 1, .allocator = allocator_of(&memory)});
        th_tensor *x = th_set_requires_gradient(th_ones(c, TH_FLOAT32, shape), true);
        th_backward_options options = {.cotangent = th_ones(c, TH_FLOAT32, shape)};
        memory.fail_at = memory.calls + call;
        plans = runs = 0;
        th_scope_begin(c, NULL);
        th_tensor *y = x;
        for (int i = 0; i < length; i++) {
            y = th_apply(&overwriting, NULL, y);
            y = th_swap_axes(th_apply(&copying, NULL, th_swap_axes(y, 0, 1)), 0, 1);
        }
        for (int i = 0; i < 2 * length; i++)
            y = th_apply(&overwriting, NULL, y);
        const th_status status = th_backward(th_scope_end(c, y), &options);
        const bool failed = status != TH_OK;
        reached = memory.calls >= memory.fail_at;
        failures += failed;
        ck_assert_int_eq(status, failed ? TH_ERROR_MEMORY : TH_OK);
        ck_assert_int_eq(plans, runs);
        ck_assert_int_eq(runs == 8 * length, !failed);
        th_context_free(c);
    }

    ck_assert_int_gt(failures, 3);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("plan", setup, close_context);
    tcase_add_test(tests, reserved_memory_can_be_used);
    tcase_add_test(tests, each_run_is_planned_once_and_counted_without_data);
    tcase_add_test(tests, overflowing_sizes_are_a_memory_error);
    tcase_add_test(tests, a_plan_fits_its_size);
    tcase_add_test(tests, operands_are_checked_before_the_composition_runs);
    tcase_add_loop_test(tests, a_failed_call_makes_no_plan, 0, 2);
    return run_suites();
}
