/* A program that defines operations. They use every function that th_op's functions may call. */
#include "subjects.h"

typedef struct weighing {
    int axis; /* may be negative */
    double exponent;
} weighing;

enum { PLANNED = 3 };

typedef struct weighing_plan {
    size_t offset[PLANNED];
} weighing_plan;

/* y = x w keep noise, with noise in [0, 1); index is only checked. Output 1: the strides exchanged. */
static th_status weigh_shape(th_call *c)
{
    weighing *attributes = th_call_attributes(c);
    const th_array *x = &c->input[0];
    int ndim = x->ndim;
    int64_t size[TH_MAX_DIMS];
    if (th_call_axis(c, &attributes->axis, ndim) || th_call_floating(c, 0) || th_call_same_type(c))
        return TH_ERROR_TYPE;
    if (th_call_bool(c, 2) || th_call_index_type(c, 3) || th_call_broadcast(c, x, &c->input[1], &ndim, size))
        return TH_ERROR_SHAPE;
    if (x->dtype != TH_FLOAT32)
        return th_call_fail(c, TH_ERROR_TYPE, "x is %s %s; it should be float32", th_dtype_name(x->dtype), TH_TEXT(x));
    th_call_output(c, 0, x->dtype, ndim, size, x->axes);
    th_call_output(c, 1, x->dtype, ndim, size, NULL);
    if (ndim == 2)
        th_call_output_order(c, 1, (const int[]){1, 0});
    th_call_draw(c);
    return TH_OK;
}

static void weigh_plan(const th_call *c, bool backward, void *memory)
{
    weighing_plan *plan = memory;
    for (int i = 0; i < PLANNED; i++)
        plan->offset[i] = th_plan_scratch(c, th_array_numel(&c->input[0]), sizeof(float));
    if (backward)
        th_plan_reuse(c, plan->offset[1]);
}

static float weight_of(const th_call *c, int64_t i)
{
    const float *w = c->input[1].data;
    const bool *keep = c->input[2].data;
    return keep[i] ? w[i] * (float)(c->random.key[0] % 64 + c->random.call) / 64 : 0;
}

static void weigh_forward(const th_call *c)
{
    const weighing_plan *plan = c->plan;
    float *scratch = th_call_scratch(c, plan->offset[2]);
    const float *x = c->input[0].data;
    for (int64_t i = 0; i < th_array_numel(&c->output[0]); i++) {
        scratch[i] = x[i] * weight_of(c, i);
        ((float *)c->output[0].data)[i] = scratch[i] * (float)((const weighing *)c->attributes)->exponent;
        if (c->output[1].given)
            ((float *)c->output[1].data)[i] = th_array_contiguous(&c->output[1]) ? 1 : 2;
    }
}

static void weigh_backward(const th_call *c)
{
    const float *dy = c->output_gradient[0].data;
    float *dx = c->input_gradient[0].data;
    for (int64_t i = 0; c->input_gradient[0].given && i < th_array_numel(&c->input[0]); i++)
        dx[i] = dy[i] * weight_of(c, i) * (float)((const weighing *)c->attributes)->exponent;
}

static const th_op weigh = {.name = "weigh",
                            .n_inputs = 4,
                            .n_outputs = 2,
                            .attributes_size = sizeof(weighing),
                            .flags = TH_OP_CONTIGUOUS | TH_OP_CANNOT_ADD,
                            .saves = TH_INPUT(1) | TH_INPUT(2),
                            .shape = weigh_shape,
                            .plan_size = sizeof(weighing_plan),
                            .plan = weigh_plan,
                            .forward = weigh_forward,
                            .backward = weigh_backward};

/* The last axis reversed. */
static th_status reversed_shape(th_call *c)
{
    const th_array *x = &c->input[0];
    const int last = x->ndim - 1;
    int64_t stride[TH_MAX_DIMS];
    for (int d = 0; d <= last; d++)
        stride[d] = d == last ? -x->stride[d] : x->stride[d];
    th_call_view(c, x->ndim, x->size, stride, (x->size[last] - 1) * x->stride[last], NULL);
    return TH_OK;
}

static const th_op reversed = {.name = "reversed", .n_inputs = 1, .flags = TH_OP_VIEW, .shape = reversed_shape};

static void cubed_forward(const th_call *c)
{
    for (int64_t i = 0; i < th_array_numel(&c->output[0]); i++) {
        const float x = ((const float *)c->input[0].data)[i];
        ((float *)c->output[0].data)[i] = x * x * x;
    }
}

static void cubed_backward(const th_call *c)
{
    for (int64_t i = 0; i < th_array_numel(&c->output_gradient[0]); i++) {
        const float x = ((const float *)c->input[0].data)[i];
        ((float *)c->input_gradient[0].data)[i] = 3 * x * x * ((const float *)c->output_gradient[0].data)[i];
    }
}

static const th_op cubed = {.name = "cubed",
                            .n_inputs = 1,
                            .flags = TH_OP_CONTIGUOUS | TH_OP_CANNOT_ADD | TH_OP_RECOMPUTE,
                            .saves = TH_INPUT(0),
                            .shape = th_shape_elementwise,
                            .forward = cubed_forward,
                            .backward = cubed_backward};

static th_status positive_shape(th_call *c)
{
    return th_shape_broadcast(c, TH_BOOL);
}

static void positive_forward(const th_call *c)
{
    for (int64_t i = 0; i < th_array_numel(&c->output[0]); i++)
        ((bool *)c->output[0].data)[i] = ((const float *)c->input[0].data)[i] > 0;
}

static const th_op positive = {.name = "positive",
                               .n_inputs = 1,
                               .flags = TH_OP_CONTIGUOUS,
                               .shape = positive_shape,
                               .forward = positive_forward,
                               .not_differentiable = "it is a step"};

static th_status own_setup(program_run *r)
{
    r->tensor[0] = leaf(r, TH_SHAPE(3, 4), 31);
    r->tensor[1] = th_keep(numbers(r, TH_SHAPE(3, 4), 32));
    return th_error_code(r->ctx);
}

static th_status own_step(program_run *r)
{
    const weighing attributes = {.axis = -1, .exponent = 0.5};
    th_tensor *x = r->tensor[0], *keep = th_apply(&positive, NULL, x), *second = NULL, **extra[1] = {&second};
    th_tensor *inputs[4] = {th_apply(&cubed, NULL, x), r->tensor[1], keep, integers(r, TH_SHAPE(2), 3, 1)};
    th_tensor *y = th_apply_n(&weigh, &attributes, 4, inputs, extra);
    y = th_mul(th_apply(&reversed, NULL, y), x);
    add_tensor(r, y);
    add_tensor(r, second);
    TRY(th_backward(th_sum(y, TH_ALL_AXES, NULL), NULL));
    add_tensor(r, th_gradient(x));
    th_empty_gradient(x);
    return th_error_code(r->ctx);
}

/* A shape rule that fails. */
static th_status own_error(program_run *r)
{
    const weighing attributes = {.axis = 0, .exponent = 1};
    th_tensor *x = th_cast(r->tensor[0], TH_FLOAT64), *keep = th_apply(&positive, NULL, r->tensor[0]);
    th_tensor *inputs[4] = {x, x, keep, integers(r, TH_SHAPE(2), 3, 1)};
    TRY(th_error_code(r->ctx));
    const th_status status = th_apply_check(&weigh, &attributes, 4, inputs);
    if (status == TH_ERROR_MEMORY)
        return status;
    add_text(r, th_error_text(r->ctx));
    th_error_clear(r->ctx);
    return TH_OK;
}

/* A function that passes its caller's line. */
static double number_of(th_tensor *t)
{
    return th_item(th_sum(t, TH_ALL_AXES, NULL));
}

static th_status own_lines(program_run *r)
{
    add_number(r, TH_AT_NUMBER(number_of(TH_AT(th_exp(r->tensor[0])))));
    TRY(TH_AT_STATUS(th_error_code(r->ctx)));
    add_number(r, TH_AT_POINTER(const void, (void *)r) == r);
    return th_error_code(r->ctx);
}

const program own_operations = {.name = "own_operations", .setup = own_setup, .step = {own_step, own_error, own_lines}};
