/* dense: y = x Wᵀ + b + residual, a matrix product that starts each sum with the bias and the residual. The matrix
 * product's own work is in kernels/product.h. Rows that take no part in dW: ops/weight_gradient.h. */
#include "ops/shared/letters.h"
#include "ops/shared/product_call.h"
#include "ops/shared/scratch.h"
#include "ops/shared/weight_gradient.h"
#include "tapehead/op.h"
#include "tapehead/ops.h"
#include "tensor/elementwise.h"

enum { X, WEIGHT, BIAS, RESIDUAL };

static th_status dense_shape(th_call *call)
{
    const th_array *x = &call->input[X], *weight = &call->input[WEIGHT], *bias = &call->input[BIAS];
    if (th_call_floating(call, X) || th_call_floating(call, WEIGHT) || (bias->given && th_call_floating(call, BIAS)) ||
        (call->input[RESIDUAL].given && th_call_floating(call, RESIDUAL)) || th_call_same_type(call))
        return TH_ERROR_TYPE;
    if (weight->ndim != 2)
        return th_call_fail(call, TH_ERROR_SHAPE, "the weight must have two dimensions, (out, in); it is %s",
                            TH_TEXT(weight));
    if (x->ndim == 0 || x->size[x->ndim - 1] != weight->size[1])
        return th_call_fail(call, TH_ERROR_SHAPE,
                            "x must end in the weight's inputs: x is %s, the weight (out, in) is %s", TH_TEXT(x),
                            TH_TEXT(weight));
    if (bias->given && (bias->ndim != 1 || bias->size[0] != weight->size[0]))
        return th_call_fail(call, TH_ERROR_SHAPE,
                            "the bias must be as long as the weight's outputs: bias is %s, the weight (out, in) is %s",
                            TH_TEXT(bias), TH_TEXT(weight));
    const th_array *residual = &call->input[RESIDUAL];
    int64_t size[TH_MAX_DIMS];
    char letters[TH_MAX_DIMS + 1];
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

static th_array as_rows(const th_array *array)
{
    return array->ndim == 1 ? th_array_as_row(array) : *array;
}

/* The residual can be the first term of the product's sums; otherwise it is added afterwards. */
static bool begins_with_residual(const th_call *call)
{
    return call->input[RESIDUAL].given && th_array_contiguous(&call->input[RESIDUAL]) &&
           th_array_contiguous(&call->input[X]);
}

/* A contiguous (N, n) as a matrix. */
static th_array as_matrix(const th_array *array)
{
    th_array matrix = *array;
    const int64_t columns = array->size[array->ndim - 1];
    matrix.ndim = 2;
    matrix.size[0] = columns ? th_array_numel(array) / columns : 0;
    matrix.size[1] = matrix.stride[0] = columns;
    matrix.stride[1] = 1;
    return matrix;
}

static th_product_call y_product(const th_call *call, const void *bias)
{
    const th_array wt = th_array_transposed(&call->input[WEIGHT]);
    if (!begins_with_residual(call)) {
        const th_array x = as_rows(&call->input[X]), y = as_rows(&call->output[0]);
        return th_product_call_of(&x, &wt, &y, bias, false);
    }
    const th_array y = as_matrix(&call->output[0]);
    th_array x = as_matrix(&call->input[X]);
    x.size[0] = y.size[0]; /* even where it has no columns */
    th_product_call product = th_product_call_of(&x, &wt, &y, bias, false);
    product.product.residual = call->input[RESIDUAL].data;
    product.product.residual_row = y.size[1];
    return product;
}

static th_product_call dx_product(const th_call *call)
{
    const th_array dx = as_rows(&call->input_gradient[X]), dy = as_rows(&call->output_gradient[0]);
    return th_product_call_of(&dy, &call->input[WEIGHT], &dx, NULL, call->add[X]);
}

static th_product_call dw_product(const th_call *call)
{
    const th_array x = as_rows(&call->input[X]), dy = as_rows(&call->output_gradient[0]);
    const th_array dyt = th_array_transposed(&dy);
    return th_product_call_of(&dyt, &x, &call->input_gradient[WEIGHT], NULL, call->add[WEIGHT]);
}

/* Forward: the bias, where it is not contiguous, and a workspace. Backward: a block of x's rows and a workspace; after
 * them, in the same memory, the partial sums of the bias's gradient. */
static size_t dense_scratch(const th_call *call, bool backward)
{
    const th_context *ctx = call->ctx;
    const size_t element = th_dtype_size(call->input[X].dtype);
    if (!backward) {
        const th_product_call y = y_product(call, NULL);
        return th_scratch_add(th_product_call_workspace(ctx, &y),
                              call->input[BIAS].given ? call->input[BIAS].size[0] : 0, element);
    }
    size_t workspace = 0;
    int64_t copied = 0;
    if (call->input_gradient[X].given) {
        const th_product_call dx = dx_product(call);
        workspace = th_product_call_workspace(ctx, &dx);
    }
    if (call->input_gradient[WEIGHT].given) {
        const th_product_call dw = dw_product(call);
        workspace = th_scratch_larger(workspace, th_weight_gradient_workspace(ctx, &dw));
        copied = th_weight_gradient_copy(&dw);
    }
    size_t sums = 0;
    if (call->input_gradient[BIAS].given)
        sums = th_sum_scratch(&call->input_gradient[BIAS], &call->output_gradient[0], call->add[BIAS]);
    return th_scratch_larger(th_scratch_add(workspace, copied, element), sums);
}

static void dense_forward(const th_call *call)
{
    const th_array *bias = &call->input[BIAS];
    char *workspace = call->scratch;
    const void *row = NULL;
    if (bias->given) {
        row = bias->data;
        th_array copy = *bias;
        copy.data = th_scratch_take(&workspace, bias->size[0], th_dtype_size(bias->dtype));
        copy.stride[0] = 1;
        if (!th_array_contiguous(bias)) {
            th_copy_array(call->ctx, &copy, bias, false);
            row = copy.data;
        }
    }
    const th_product_call y = y_product(call, row);
    th_product_call_run(call->ctx, &y, workspace);
    if (call->input[RESIDUAL].given && !begins_with_residual(call))
        TH_MAP(call, add, NULL, &call->output[0], false, &call->output[0], &call->input[RESIDUAL]);
}

/* The residual's gradient is dL/dy, which the driver hands on. The others:
 * y_no = sum_i x_ni w_oi + b_o:  dL/dx_ni = sum_o dL/dy_no w_oi      dx = dy W
 *                                dL/dw_oi = sum_n dL/dy_no x_ni      dW = dyᵀ x, over the n with dy_n not all 0
 *                                dL/db_o  = sum_n dL/dy_no           column sums of dy */
static void dense_backward(const th_call *call)
{ /* dW first: dx may lie over x */
    char *workspace = call->scratch;
    if (call->input_gradient[WEIGHT].given) {
        const th_product_call dw = dw_product(call);
        void *copy = th_scratch_take(&workspace, th_weight_gradient_copy(&dw), th_dtype_size(dw.dtype));
        th_weight_gradient_run(call->ctx, &dw, copy, workspace);
    }
    if (call->input_gradient[X].given) {
        const th_product_call dx = dx_product(call);
        th_product_call_run(call->ctx, &dx, workspace);
    }
    if (call->input_gradient[BIAS].given)
        th_sum_within(call->ctx, &call->input_gradient[BIAS], &call->output_gradient[0], call->add[BIAS],
                      call->scratch);
}

static int64_t dense_multiply_adds(const th_call *call)
{
    return th_multiply_adds(&call->output[0], call->input[WEIGHT].size[1]);
}

static th_tensor *dense_composed(const void *attributes, th_tensor *const *inputs, int n_inputs)
{
    (void)attributes, (void)n_inputs;
    th_tensor *product = (th_matmul)(inputs[X], (th_swap_axes)(inputs[WEIGHT], 0, 1));
    product = inputs[BIAS] ? (th_add)(product, inputs[BIAS]) : product;
    return inputs[RESIDUAL] ? (th_add)(product, inputs[RESIDUAL]) : product;
}

#define NONE                                                                                                           \
    {                                                                                                                  \
        .kind = TH_SAMPLE_ABSENT                                                                                       \
    }
static const th_sample dense_samples[] = {
    {"rows", NULL, 4, {{.shape = {2, {3, 2}}}, {.shape = {2, {4, 2}}}, {.shape = {1, {4}}}, NONE}, 0},
    {"no bias", NULL, 4, {{.shape = {2, {2, 3}}}, {.shape = {2, {3, 3}}}, NONE, NONE}, 0},
    {"sequence", NULL, 4, {{.shape = {3, {2, 3, 2}}}, {.shape = {2, {3, 2}}}, {.shape = {1, {3}}}, NONE}, 0},
    {"one row", NULL, 4, {{.shape = {1, {3}}}, {.shape = {2, {2, 3}}}, {.shape = {1, {2}}}, NONE}, 0},
    {"one output", NULL, 4, {{.shape = {3, {2, 2, 2}}}, {.shape = {2, {1, 2}}}, {.shape = {1, {1}}}, NONE}, 0},
    {"no inputs", NULL, 4, {{.shape = {2, {2, 0}}}, {.shape = {2, {3, 0}}}, {.shape = {1, {3}}}, NONE}, 0},
    {"no rows", NULL, 4, {{.shape = {2, {0, 2}}}, {.shape = {2, {3, 2}}}, {.shape = {1, {3}}}, NONE}, 0},
    {"residual",
     NULL,
     4,
     {{.shape = {3, {2, 3, 2}}}, {.shape = {2, {3, 2}}}, {.shape = {1, {3}}}, {.shape = {3, {2, 3, 3}}}},
     0},
    {"residual, no bias, square",
     NULL,
     4,
     {{.shape = {2, {3, 3}}}, {.shape = {2, {3, 3}}}, NONE, {.shape = {2, {3, 3}}}},
     0},
    {"residual, one output",
     NULL,
     4,
     {{.shape = {2, {4, 3}}}, {.shape = {2, {1, 3}}}, {.shape = {1, {1}}}, {.shape = {2, {4, 1}}}},
     0},
    {"residual, no inputs",
     NULL,
     4,
     {{.shape = {2, {2, 0}}}, {.shape = {2, {3, 0}}}, {.shape = {1, {3}}}, {.shape = {2, {2, 3}}}},
     0},
    {.name = NULL},
};

const th_op th_op_dense = {
    .name = "dense",
    .value = "y = x Wᵀ + b + residual",
    .gradient = "dx = dy W, dW = dyᵀ x, db = column sums of dy, dresidual = dy",
    .n_inputs = 4,
    .optional = TH_SAVE_INPUT(BIAS) | TH_SAVE_INPUT(RESIDUAL),
    .identity_gradients = TH_SAVE_INPUT(RESIDUAL),
    .flags = TH_OP_OVER_INPUT,
    .saves_for = {[X] = TH_SAVE_INPUT(WEIGHT), [WEIGHT] = TH_SAVE_INPUT(X)},
    .shape = dense_shape,
    .forward = dense_forward,
    .backward = dense_backward,
    .scratch = dense_scratch,
    .multiply_adds = dense_multiply_adds,
    .composed = dense_composed,
    .samples = dense_samples,
};

th_tensor *(th_dense)(th_tensor *x, th_tensor *weight, const th_dense_options *options)
{
    const th_dense_options given = options ? *options : (th_dense_options){0};
    return th_apply(&th_op_dense, NULL, x, weight, given.bias, given.residual);
}
