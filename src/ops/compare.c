/* equal, not_equal, less, less_equal, greater, greater_equal: bool, broadcast, of two tensors of one type, any. Without
 * a gradient. This file: shape rule, values, samples. */
#include "kernels/compare.h"
#include "ops/shared/broadcast.h"
#include "tapehead/ops.h"
#include "tensor/elementwise.h"

static th_status compare_shape(th_call *c)
{
    const th_array *a = &c->input[0], *b = &c->input[1];
    if (a->dtype != b->dtype)
        return th_call_fail(c, TH_ERROR_TYPE, "types are mixed: a is %s, b is %s (th_cast converts)",
                            th_dtype_name(a->dtype), th_dtype_name(b->dtype));
    return th_broadcast_inputs(c, TH_BOOL);
}

/* output = a op b, by one of the tables of kernels/compare.h. */
static void compare(const th_call *c, th_map_kernel *const *table, const th_array *a, const th_array *b)
{
    th_elementwise(c->ctx, table[a->dtype], NULL, &c->output[0], false, 2, (const th_array *const[]){a, b});
}

static const th_sample compare_samples[] = {
    {"same shapes", NULL, 2, {{.shape = {2, {3, 4}}}, {.shape = {2, {3, 4}}}}, 0},
    {"broadcast", NULL, 2, {{.shape = {2, {3, 1}}}, {.shape = {1, {4}}}}, 0},
    {"indices",
     NULL,
     2,
     {{.shape = {2, {3, 4}}, .kind = TH_SAMPLE_INDEX, .high = 3},
      {.shape = {1, {4}}, .kind = TH_SAMPLE_INDEX, .high = 3}},
     0},
    {.name = NULL},
};

static const char no_gradient[] = "a truth value does not vary continuously";

static void equal_forward(const th_call *c)
{
    compare(c, th_compare_equal, &c->input[0], &c->input[1]);
}

const th_op th_op_equal = {
    .name = "equal",
    .value = "y = a == b",
    .gradient = "none",
    .n_inputs = 2,
    .shape = compare_shape,
    .forward = equal_forward,
    .not_differentiable = no_gradient,
    .samples = compare_samples,
};

th_tensor *(th_equal)(th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_equal, NULL, a, b);
}

static void not_equal_forward(const th_call *c)
{
    compare(c, th_compare_not_equal, &c->input[0], &c->input[1]);
}

const th_op th_op_not_equal = {
    .name = "not_equal",
    .value = "y = a != b",
    .gradient = "none",
    .n_inputs = 2,
    .shape = compare_shape,
    .forward = not_equal_forward,
    .not_differentiable = no_gradient,
    .samples = compare_samples,
};

th_tensor *(th_not_equal)(th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_not_equal, NULL, a, b);
}

static void less_forward(const th_call *c)
{
    compare(c, th_compare_less, &c->input[0], &c->input[1]);
}

const th_op th_op_less = {
    .name = "less",
    .value = "y = a < b",
    .gradient = "none",
    .n_inputs = 2,
    .shape = compare_shape,
    .forward = less_forward,
    .not_differentiable = no_gradient,
    .samples = compare_samples,
};

th_tensor *(th_less)(th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_less, NULL, a, b);
}

static void less_equal_forward(const th_call *c)
{
    compare(c, th_compare_less_equal, &c->input[0], &c->input[1]);
}

const th_op th_op_less_equal = {
    .name = "less_equal",
    .value = "y = a <= b",
    .gradient = "none",
    .n_inputs = 2,
    .shape = compare_shape,
    .forward = less_equal_forward,
    .not_differentiable = no_gradient,
    .samples = compare_samples,
};

th_tensor *(th_less_equal)(th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_less_equal, NULL, a, b);
}

static void greater_forward(const th_call *c)
{
    compare(c, th_compare_less, &c->input[1], &c->input[0]);
}

const th_op th_op_greater = {
    .name = "greater",
    .value = "y = a > b",
    .gradient = "none",
    .n_inputs = 2,
    .shape = compare_shape,
    .forward = greater_forward,
    .not_differentiable = no_gradient,
    .samples = compare_samples,
};

th_tensor *(th_greater)(th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_greater, NULL, a, b);
}

static void greater_equal_forward(const th_call *c)
{
    compare(c, th_compare_less_equal, &c->input[1], &c->input[0]);
}

const th_op th_op_greater_equal = {
    .name = "greater_equal",
    .value = "y = a >= b",
    .gradient = "none",
    .n_inputs = 2,
    .shape = compare_shape,
    .forward = greater_equal_forward,
    .not_differentiable = no_gradient,
    .samples = compare_samples,
};

th_tensor *(th_greater_equal)(th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_greater_equal, NULL, a, b);
}
