/* Programs that call every operation, by its function and through the registry with its samples. */
#include "subjects.h"

/* -- by name -- */

static th_status two_numbers(program_run *r)
{
    r->tensor[0] = leaf(r, TH_SHAPE(3, 5), 3);
    r->tensor[1] = leaf(r, TH_SHAPE(5), 4);
    return th_error_code(r->ctx);
}

/* Runs backward from the sum of y, and adds y and the gradients of the two leaves to the checksum. */
static th_status differentiate(program_run *r, th_tensor *y)
{
    add_tensor(r, y);
    TRY(th_backward(th_sum(y, TH_ALL_AXES, NULL), NULL));
    for (int i = 0; i < 2; i++) {
        add_tensor(r, th_gradient(r->tensor[i]));
        th_empty_gradient(r->tensor[i]);
    }
    return th_error_code(r->ctx);
}

static th_status arithmetic_forward(program_run *r)
{
    th_tensor *a = r->tensor[0], *b = r->tensor[1], *positive = th_add_scalar(th_abs(a), 0.5);
    th_tensor *y = th_div(th_sub(th_mul(a, b), th_scale(b, 2)), positive);
    y = th_add(y, th_pow(positive, th_neg(b)));
    y = th_add(th_maximum(y, a), th_minimum(y, b));
    y = th_add(y, th_pow_scalar(positive, 1.5));
    return differentiate(r, th_clamp(y, -3, 3));
}

static th_status functions_forward(program_run *r)
{
    th_tensor *a = r->tensor[0], *positive = th_exp(a);
    th_tensor *y = th_add(th_log(positive), th_add(th_sqrt(positive), th_rsqrt(positive)));
    y = th_add(y, th_add(th_sin(a), th_cos(a)));
    y = th_add(y, th_relu_squared(a));
    y = th_add(y, th_softplus(a));
    y = th_add(y, th_add(th_relu(a), th_add(th_gelu(a), th_gelu_tanh(a))));
    return differentiate(r, th_mul(th_add(th_silu(y), th_add(th_tanh(y), th_sigmoid(y))), r->tensor[1]));
}

static th_status comparisons(program_run *r)
{
    th_tensor *a = r->tensor[0], *b = r->tensor[1];
    th_tensor *smaller = th_logical_or(th_less(a, b), th_equal(a, b));
    th_tensor *larger = th_logical_and(th_greater_equal(a, b), th_logical_not(th_less_equal(a, b)));
    add_tensor(r, th_not_equal(smaller, larger));
    add_tensor(r, th_argmax(a, 1));
    return differentiate(r, th_where(th_greater(a, b), th_mul(a, a), b));
}

const program elementwise_operations = {.name = "elementwise_operations",
                                        .setup = two_numbers,
                                        .step = {arithmetic_forward, functions_forward, comparisons}};

static th_status reduced(program_run *r)
{
    th_tensor *a = r->tensor[0];
    const th_reduce_options keep = {.keep_axes = true, .correction = 1};
    th_tensor *y = th_add(th_mean(a, TH_AXES(1), &keep), th_variance(a, TH_AXES(1), &keep));
    y = th_add(y, th_add(th_max(a, TH_AXES(0), &keep), th_log_sum_exp(a, TH_AXES(0, 1), &keep)));
    return differentiate(r, th_add(y, th_mul(th_softmax(a, 1), th_log_softmax(a, 0))));
}

static th_status normed(program_run *r)
{
    th_tensor *a = r->tensor[0], *b = r->tensor[1];
    th_tensor *y = th_layer_norm(a, &(th_norm_options){.weight = b, .bias = b});
    y = th_dropout_residual(y, 0.3, a);
    return differentiate(r, th_rms_norm(th_dropout(y, 0.2), &(th_norm_options){.weight = b}));
}

static th_status lost(program_run *r)
{
    th_tensor *a = r->tensor[0], *targets = integers(r, TH_SHAPE(3), 5, 6);
    const th_cross_entropy_options options = {.label_smoothing = 0.1, .normalizer = 2, TH_IGNORE(4)};
    add_number(r, (double)th_target_count(targets, &options));
    th_tensor *loss = th_cross_entropy(a, targets, &options);
    loss = th_add(loss, th_dense_cross_entropy(a, th_reshape(r->tensor[1], TH_SHAPE(1, 5)),
                                               integers(r, TH_SHAPE(3), 1, 0), NULL));
    return differentiate(r, th_add(loss, th_mse(a, r->tensor[1])));
}

static th_status lost_tasks(program_run *r)
{
    th_tensor *a = r->tensor[0], *b = th_mul(a, r->tensor[1]), *targets = th_select(b, 1, 0);
    th_tensor *loss = th_add(th_cosine_similarity_loss(a, b, targets), th_cosent_loss(a, b, targets, 0));
    loss = th_add(loss, th_ranking_loss(a, b, a, &(th_ranking_options){.symmetric = true}));
    loss = th_add(loss, th_triplet_loss(a, b, a, NULL));
    loss = th_add(loss, th_binary_cross_entropy(a, th_sigmoid(b), r->tensor[1]));
    loss = th_add(loss, th_weighted_cross_entropy(a, integers(r, TH_SHAPE(3), 5, 6), th_sigmoid(th_select(b, 0, 0)),
                                                  &(th_cross_entropy_options){TH_IGNORE(4)}));
    add_tensor(r, th_cosine_similarity(a, b));
    return differentiate(r, loss);
}

const program reductions_and_losses = {
    .name = "reductions_and_losses", .setup = two_numbers, .step = {reduced, normed, lost, lost_tasks}};

static th_status multiplied(program_run *r)
{
    th_tensor *a = r->tensor[0], *b = r->tensor[1];
    th_tensor *square = th_matmul(a, th_swap_axes(a, 0, 1)); /* (3, 3) */
    th_tensor *keep = th_greater(square, th_zeros(r->ctx, TH_FLOAT32, TH_SHAPE(3, 3)));
    th_tensor *y = th_masked_matmul(square, a, keep, TH_MASK_LEFT);
    return differentiate(r, th_dense(y, a, &(th_dense_options){.bias = th_slice(b, 0, 0, 3, 1), .residual = square}));
}

static th_status looked_up(program_run *r)
{
    th_tensor *a = r->tensor[0], *index = integers(r, TH_SHAPE(2, 4), 3, 5);
    th_tensor *rows = th_embedding(a, index); /* (2, 4, 5) */
    add_tensor(r, th_one_hot(index, 3));
    add_tensor(r, th_topk(a, 1, 3));
    add_tensor(r, th_argmin(a, 1));
    th_tensor *some = th_gather(a, 0, index), *turned = th_rotary(th_slice(rows, 2, 0, 4, 1), NULL);
    return differentiate(r, th_add(th_mul(turned, th_unsqueeze(some, 2)), th_slice(r->tensor[1], 0, 1, 5, 1)));
}

/* A product that is large enough to be packed and split. */
static th_status multiplied_packed(program_run *r)
{
    th_tensor *a = th_expand(th_unsqueeze(r->tensor[0], 0), TH_SHAPE(40, 3, 5));
    th_tensor *x = th_reshape(a, TH_SHAPE(40, 15)), *y = th_matmul(x, th_swap_axes(x, 0, 1));
    return differentiate(r, th_matmul(th_tanh(y), x));
}

const program products_and_indices = {
    .name = "products_and_indices", .setup = two_numbers, .step = {multiplied, looked_up, multiplied_packed}};

/* -- through the registry -- */

static th_status run_sample(program_run *r, const th_op *op, const th_sample *sample)
{
    th_tensor *input[TH_MAX_SAMPLE_INPUTS] = {NULL}, *extra[TH_MAX_OUTPUTS] = {NULL}, **wanted[TH_MAX_OUTPUTS];
    TRY(th_sample_inputs(r->ctx, sample, TH_FLOAT32, 9, input));
    for (int i = 0; i < TH_MAX_OUTPUTS; i++)
        wanted[i] = &extra[i];
    const bool real = op->backward || op->identity_gradients || op->flags & TH_OP_VIEW;
    for (int i = 0; i < sample->n_inputs; i++) {
        const th_dtype type = th_dtype_of(input[i]);
        if (input[i] && real && (type == TH_FLOAT32 || type == TH_FLOAT64)) {
            th_tensor *owned = th_keep(input[i]);
            input[i] = th_set_requires_gradient(owned, true);
        }
    }
    TRY(th_apply_check(op, sample->attributes, sample->n_inputs, input));
    th_tensor *y = th_apply_n(op, sample->attributes, sample->n_inputs, input, wanted);
    add_tensor(r, y);
    for (int i = 0; i + 1 < op->n_outputs; i++)
        add_tensor(r, extra[i]);
    if (y && th_requires_gradient(y) && th_numel(y) > 0 && th_dtype_of(y) == TH_FLOAT32)
        TRY(th_backward(th_sum(y, TH_ALL_AXES, NULL), NULL));
    for (int i = 0; i < sample->n_inputs; i++) {
        if (input[i] && th_requires_gradient(input[i]))
            add_tensor(r, th_gradient(input[i]));
        th_tensor_free(input[i]);
    }
    return th_error_code(r->ctx);
}

/* Runs the first two samples of each operation with this remainder. Each is a step, so the seed is set first: a
 * repetition begins again with the first operation. */
static th_status run_operations(program_run *r, int remainder)
{
    th_set_seed(r->ctx, PROGRAM_SEED);
    for (int i = remainder; i < th_op_count(); i += 4) {
        const th_op *op = th_op_at(i);
        add_number(r, th_op_find(op->name) == op);
        for (int sample = 0; sample < 2 && op->samples && op->samples[sample].name; sample++)
            TRY(run_sample(r, op, &op->samples[sample]));
        th_tape_clear(r->ctx);
        th_step_begin(r->ctx);
    }
    return th_error_code(r->ctx);
}

static th_status operations_0(program_run *r)
{
    return run_operations(r, 0);
}

static th_status operations_1(program_run *r)
{
    return run_operations(r, 1);
}

static th_status operations_2(program_run *r)
{
    return run_operations(r, 2);
}

static th_status operations_3(program_run *r)
{
    return run_operations(r, 3);
}

const program operations_of_the_registry = {.name = "operations_of_the_registry",
                                            .step = {operations_0, operations_1, operations_2, operations_3}};
