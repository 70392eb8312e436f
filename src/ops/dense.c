/* dense: y = x Wᵀ + b + residual, a matrix product whose sums start with the bias and the residual. Matrix products are
 * in kernels/products/product.h; shared/weight_gradient.h says which rows of x take part in dW. */
#include "ops/shared/letters.h"
#include "ops/shared/stored_weight.h"
#include "ops/shared/weight_gradient.h"
#include "tapehead/op.h"
#include "tapehead/ops.h"
#include "tensor/elementwise.h"

enum { X, WEIGHT, BIAS, RESIDUAL };

static th_status dense_shape(th_call *call)
{
    const th_array *x = &call->input[X], *bias = &call->input[BIAS];
    th_array numbers;
    const th_array *weight = &numbers;
    if (th_call_floating(call, X) || th_call_weight(call, WEIGHT, &numbers) || th_call_floating(call, BIAS) ||
        th_call_floating(call, RESIDUAL) || th_call_same_type(call))
        return TH_ERROR_TYPE;
    if (weight->ndim != 2)
        return th_call_fail(call, TH_ERROR_SHAPE, "the weight must have two dimensions, (out, in); it is %s",
                            TH_TEXT(weight));
    if (x->ndim == 0 || x->size[x->ndim - 1] != weight->size[1])
        return th_call_fail(call, TH_ERROR_SHAPE,
                            "the last axis of x must match the weight's inputs: x is %s, the weight (out, in) is %s",
                            TH_TEXT(x), TH_TEXT(weight));
    if (bias->given && (bias->ndim != 1 || bias->size[0] != weight->size[0]))
        return th_call_fail(call, TH_ERROR_SHAPE,
                            "the bias must match the weight's outputs: bias is %s, the weight (out, in) is %s",
                            TH_TEXT(bias), TH_TEXT(weight));
    const th_array *residual = &call->input[RESIDUAL];
    int64_t size[TH_MAX_DIMS];
    th_axis_letters letters;
    bool fits = residual->ndim == x->ndim;
    for (int i = 0; i < x->ndim; i++) {
        const bool last = i == x->ndim - 1;
        size[i] = last ? weight->size[0] : x->size[i];
        letters[i] = last ? th_letter(weight, 0) : th_letter(x, i);
        fits = fits && residual->size[i] == size[i];
    }
    if (residual->given && !fits)
        return th_call_fail(call, TH_ERROR_SHAPE,
                            "the residual must have the result's shape: residual is %s, x is %s, the weight (out, in) "
                            "is %s",
                            TH_TEXT(residual), TH_TEXT(x), TH_TEXT(weight));
    th_call_output(call, 0, x->dtype, x->ndim, size, th_letters(letters, x->ndim));
    return TH_OK;
}

typedef struct plan {
    th_product_call y;     /* forward */
    bool copies_bias;      /* because it is not contiguous */
    size_t bias;           /* offset of the copy */
    bool copies_residual;  /* to y, with the bias, because the product cannot read its layout */
    th_weight_gradient dw; /* in backward, dW comes first: dx may use the memory of x */
    th_product_call dx;
    size_t sums; /* offset of the partial sums of db */
} plan;

static th_array as_rows(const th_array *array)
{
    return array->ndim == 1 ? th_array_as_row(array) : *array;
}

/* Returns a contiguous array (N, n) as a matrix (rows, n). */
static th_array as_matrix(const th_array *array, int64_t rows)
{
    const int64_t columns = array->size[array->ndim - 1];
    return (th_array){.given = true,
                      .data = array->data,
                      .dtype = array->dtype,
                      .ndim = 2,
                      .size = {rows, columns},
                      .stride = {columns, 1}};
}

static void plan_forward(const th_call *call, plan *p)
{
    const th_array *x = &call->input[X], *bias = &call->input[BIAS], *residual = &call->input[RESIDUAL];
    const th_array *y = &call->output[0], weight = th_weight_numbers(&call->input[WEIGHT]);
    const th_array wt = th_array_transposed(&weight);
    const bool product_adds_residual = residual->given && th_array_contiguous(residual) && th_array_contiguous(x);
    const int64_t outputs = wt.size[1], rows = outputs ? th_array_numel(y) / outputs : 0;
    const th_array x_rows = product_adds_residual ? as_matrix(x, rows) : as_rows(x),
                   y_rows = product_adds_residual ? as_matrix(y, rows) : as_rows(y);
    p->y = th_product_call_of(&x_rows, &wt, &y_rows);
    p->copies_residual = residual->given && !product_adds_residual;
    if (!p->copies_residual) {
        p->y.product.biased = bias->given;
        p->y.product.bias = bias->data;
    }
    if (product_adds_residual) {
        p->y.product.residual = residual->data;
        p->y.product.residual_row = outputs;
    }
    p->copies_bias = p->y.product.biased && !th_array_contiguous(bias);
    if (p->copies_bias)
        p->bias = th_plan_scratch(call, outputs, th_dtype_size(bias->dtype));
    th_product_call_reserve(call, &p->y);
}

static void plan_backward(const th_call *call, plan *p)
{
    const th_array *dw = &call->input_gradient[WEIGHT], *db = &call->input_gradient[BIAS];
    const th_array dy = as_rows(&call->output_gradient[0]);
    if (dw->given) {
        const th_array x = as_rows(&call->input[X]);
        p->dw = th_weight_gradient_of(&dy, &x, dw);
        th_weight_gradient_reserve(call, &p->dw);
    }
    th_plan_reuse(call, 0);
    if (call->input_gradient[X].given) {
        const th_array dx = as_rows(&call->input_gradient[X]), weight = th_weight_numbers(&call->input[WEIGHT]);
        p->dx = th_product_call_of(&dy, &weight, &dx);
        th_product_call_reserve(call, &p->dx);
    }
    th_plan_reuse(call, 0);
    if (db->given)
        p->sums = th_plan_scratch(call, 1, th_sum_scratch_bytes(db, &call->output_gradient[0], call->add[BIAS]));
}

static void dense_plan(const th_call *call, bool backward, void *memory)
{
    if (backward)
        plan_backward(call, memory);
    else
        plan_forward(call, memory);
}

/* Sets y to residual + bias, the start of its sums. */
static void copy_residual(const th_call *call)
{
    const th_array *y = &call->output[0], *residual = &call->input[RESIDUAL], *bias = &call->input[BIAS];
    if (bias->given)
        TH_ELEMENTWISE(call, add, NULL, y, false, residual, bias);
    else
        th_copy_array(call->ctx, y, residual, false);
}

static void dense_forward(const th_call *call)
{
    const plan *p = call->plan;
    th_product_call y = p->y;
    if (p->copies_bias) {
        const th_array *bias = &call->input[BIAS];
        th_array copy = *bias;
        copy.data = th_call_scratch(call, p->bias);
        copy.stride[0] = 1;
        th_copy_array(call->ctx, &copy, bias, false);
        y.product.bias = copy.data;
    }
    if (p->copies_residual)
        copy_residual(call);
    th_product_call_run(call, &y, p->copies_residual);
}

/* The residual's gradient is dL/dy itself. The others:
 * y_no = sum_i x_ni w_oi + b_o:  dL/dx_ni = sum_o dL/dy_no w_oi      dx = dy W
 *                                dL/dw_oi = sum_n dL/dy_no x_ni      dW = dyᵀ x, over the n with dy_n not all 0
 *                                dL/db_o  = sum_n dL/dy_no           column sums of dy */
static void dense_backward(const th_call *call)
{
    const plan *p = call->plan;
    if (call->input_gradient[WEIGHT].given)
        th_weight_gradient_run(call, &p->dw, call->add[WEIGHT]);
    if (call->input_gradient[X].given)
        th_product_call_run(call, &p->dx, call->add[X]);
    if (call->input_gradient[BIAS].given)
        th_sum_with_scratch(call->ctx, &call->input_gradient[BIAS], &call->output_gradient[0], call->add[BIAS],
                            th_call_scratch(call, p->sums));
}

static int64_t dense_multiply_adds(const th_call *call)
{
    return th_multiply_adds(&call->output[0], th_weight_numbers(&call->input[WEIGHT]).size[1]);
}

static th_tensor *dense_composed(const void *attributes, th_tensor *const *inputs, int n_inputs)
{
    (void)attributes, (void)n_inputs;
    th_tensor *product = th_matmul(inputs[X], th_swap_axes(th_weight_like(inputs[WEIGHT], inputs[X]), 0, 1));
    product = inputs[BIAS] ? th_add(product, inputs[BIAS]) : product;
    return inputs[RESIDUAL] ? th_add(product, inputs[RESIDUAL]) : product;
}

static const th_sample dense_samples[] = {
    {"rows", NULL, 4, {{.shape = {2, {3, 2}}}, {.shape = {2, {4, 2}}}, {.shape = {1, {4}}}, TH_ABSENT}, 0},
    {"no bias", NULL, 4, {{.shape = {2, {2, 3}}}, {.shape = {2, {3, 3}}}, TH_ABSENT, TH_ABSENT}, 0},
    {"sequence", NULL, 4, {{.shape = {3, {2, 3, 2}}}, {.shape = {2, {3, 2}}}, {.shape = {1, {3}}}, TH_ABSENT}, 0},
    {"one row", NULL, 4, {{.shape = {1, {3}}}, {.shape = {2, {2, 3}}}, {.shape = {1, {2}}}, TH_ABSENT}, 0},
    {"one output", NULL, 4, {{.shape = {3, {2, 2, 2}}}, {.shape = {2, {1, 2}}}, {.shape = {1, {1}}}, TH_ABSENT}, 0},
    {"no inputs", NULL, 4, {{.shape = {2, {2, 0}}}, {.shape = {2, {3, 0}}}, {.shape = {1, {3}}}, TH_ABSENT}, 0},
    {"no rows", NULL, 4, {{.shape = {2, {0, 2}}}, {.shape = {2, {3, 2}}}, {.shape = {1, {3}}}, TH_ABSENT}, 0},
    {"residual", NULL, 4,
     .input = {{.shape = {3, {2, 3, 2}}}, {.shape = {2, {3, 2}}}, {.shape = {1, {3}}}, {.shape = {3, {2, 3, 3}}}}},
    {"residual, no bias, square", NULL, 4,
     .input = {{.shape = {2, {3, 3}}}, {.shape = {2, {3, 3}}}, TH_ABSENT, {.shape = {2, {3, 3}}}}},
    {"residual, one output", NULL, 4,
     .input = {{.shape = {2, {4, 3}}}, {.shape = {2, {1, 3}}}, {.shape = {1, {1}}}, {.shape = {2, {4, 1}}}}},
    {"residual, no inputs", NULL, 4,
     .input = {{.shape = {2, {2, 0}}}, {.shape = {2, {3, 0}}}, {.shape = {1, {3}}}, {.shape = {2, {2, 3}}}}},
    {"bfloat16 weight", NULL, 4,
     .input =
         {{.shape = {3, {2, 2, 3}}}, {.shape = {2, {4, 3}}, .storage = TH_BFLOAT16}, {.shape = {1, {4}}}, TH_ABSENT}},
    {"float16 weight, one output", NULL, 4,
     .input =
         {{.shape = {2, {3, 5}}}, {.shape = {2, {1, 5}}, .storage = TH_FLOAT16}, TH_ABSENT, {.shape = {2, {3, 1}}}}},
    {"q8_0 weight", NULL, 4,
     .input = {{.shape = {2, {2, 64}}}, {.shape = {2, {3, 64}}, .storage = TH_Q8_0}, {.shape = {1, {3}}}, TH_ABSENT}},
    {"q4_0 weight, one row", NULL, 4,
     .input = {{.shape = {1, {32}}}, {.shape = {2, {2, 32}}, .storage = TH_Q4_0}, TH_ABSENT, TH_ABSENT}},
    {.name = NULL},
};

const th_op th_op_dense = {
    .name = "dense",
    .value = "y = x Wᵀ + b + residual",
    .gradient = "dx = dy W, dW = dyᵀ x, db = column sums of dy, dresidual = dy",
    .n_inputs = 4,
    .optional = TH_INPUT(BIAS) | TH_INPUT(RESIDUAL),
    .identity_gradients = TH_INPUT(RESIDUAL),
    .flags = TH_OP_OVER_INPUT,
    .saves_for = {[X] = TH_INPUT(WEIGHT), [WEIGHT] = TH_INPUT(X)},
    .shape = dense_shape,
    .forward = dense_forward,
    .backward = dense_backward,
    .plan = dense_plan,
    .plan_size = sizeof(plan),
    .multiply_adds = dense_multiply_adds,
    .composed = dense_composed,
    .samples = dense_samples,
    .storage = TH_INPUT(WEIGHT),
};

th_tensor *th_dense(th_tensor *x, th_tensor *weight, const th_dense_options *options)
{
    const th_dense_options given = options ? *options : (th_dense_options){0};
    return th_apply(&th_op_dense, NULL, x, weight, given.bias, given.residual);
}
