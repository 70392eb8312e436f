/* masked_matmul: a product with hidden pairs, of which no bit reaches the result or a gradient, NaN included.
 *
 * A factor of 0 alone does not hide: 0 * NaN is NaN. So each product whose left operand is masked is formed of two
 * parts. The left operand is copied with 0 in hidden places and the right one with 0 in place of what is not finite;
 * their product is what everything visible and finite adds up to, in the order of every other product. Then the few
 * elements that were left out of the right operand are added where they are visible. */
#include "ops/shared/letters.h"
#include "ops/shared/product_call.h"
#include "ops/shared/scratch.h"
#include "ops/shared/walk.h"
#include "tapehead/op.h"
#include "tapehead/ops.h"
#include "tensor/elementwise.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

enum { A, B, KEEP };

typedef struct masked_matmul_attributes {
    int32_t side; /* th_mask_side */
} masked_matmul_attributes;

static bool mask_is_left(const th_call *call)
{
    return ((const masked_matmul_attributes *)call->attributes)->side == TH_MASK_LEFT;
}

static th_status masked_matmul_shape(th_call *call)
{
    const th_array *a = &call->input[A], *b = &call->input[B], *keep = &call->input[KEEP];
    const int32_t side = ((const masked_matmul_attributes *)call->attributes)->side;
    if (th_call_floating(call, A) || th_call_floating(call, B) || th_call_same_type(call) || th_call_bool(call, KEEP))
        return TH_ERROR_TYPE;
    if (side != TH_MASK_RESULT && side != TH_MASK_LEFT)
        return th_call_fail(call, TH_ERROR_ARGUMENT, "%d is no side for a mask", (int)side);
    if (a->ndim < 2 || b->ndim < 2)
        return th_call_fail(call, TH_ERROR_SHAPE, "both operands need two dimensions: a is %s, b is %s", TH_TEXT(a),
                            TH_TEXT(b));
    if (a->size[a->ndim - 1] != b->size[b->ndim - 2])
        return th_call_fail(call, TH_ERROR_SHAPE, "inner sizes differ: a is %s, b is %s", TH_TEXT(a), TH_TEXT(b));
    int64_t size[TH_MAX_DIMS];
    int ndim;
    if (!th_broadcast_sizes(a->ndim - 2, a->size, b->ndim - 2, b->size, &ndim, size))
        return th_call_fail(call, TH_ERROR_SHAPE, "leading dimensions do not broadcast: a is %s, b is %s", TH_TEXT(a),
                            TH_TEXT(b));
    char letters[TH_MAX_DIMS + 1];
    for (int i = 0; i < ndim; i++) {
        const int in_a = i - ndim + a->ndim - 2, in_b = i - ndim + b->ndim - 2;
        letters[i] = in_a >= 0 ? th_letter(a, in_a) : ' ';
        if (letters[i] == ' ' && in_b >= 0)
            letters[i] = th_letter(b, in_b);
    }
    letters[ndim] = th_letter(a, a->ndim - 2);
    size[ndim++] = a->size[a->ndim - 2];
    letters[ndim] = th_letter(b, b->ndim - 1);
    size[ndim++] = b->size[b->ndim - 1];
    if (side == TH_MASK_LEFT && !th_broadcasts_to(keep->ndim, keep->size, a->ndim, a->size))
        return th_call_fail(call, TH_ERROR_SHAPE, "keep, %s, does not broadcast to a, %s", TH_TEXT(keep), TH_TEXT(a));
    if (side == TH_MASK_RESULT && !th_broadcasts_to(keep->ndim, keep->size, ndim, size))
        return th_call_fail(call, TH_ERROR_SHAPE, "keep, %s, does not broadcast to the result, %s", TH_TEXT(keep),
                            TH_SIZES_TEXT(ndim, size));
    th_call_output(call, 0, a->dtype, ndim, size, th_letters(letters, ndim));
    return TH_OK;
}

/* The array `x` as if it lay in `memory`, row-major. */
static th_array copy_in(const th_array *x, void *memory)
{
    th_array copy = *x;
    copy.data = memory;
    th_contiguous_strides(x->ndim, x->size, copy.stride);
    return copy;
}

/* keep as an array of the masked operand's shape. */
static th_array spread(const th_array *keep, const th_array *masked)
{
    th_array full = *keep;
    full.ndim = masked->ndim;
    for (int i = 0; i < masked->ndim; i++) {
        const int own = i - (masked->ndim - keep->ndim);
        full.size[i] = masked->size[i];
        full.stride[i] = own >= 0 && keep->size[own] != 1 ? keep->stride[own] : 0;
    }
    return full;
}

/* to = keep ? x : 0. to may be x. */
static void hide(const th_call *call, const th_array *to, const th_array *x)
{
    const th_array *const operands[] = {x, &call->input[KEEP]};
    th_elementwise(call->ctx, th_call_kernels(call)->hide, NULL, to, false, 2, operands);
}

/* c = a b, never rounded to bfloat16: what is finite in a hidden place must stay so, and these are attention's
 * products, which are float32 where they are fused, too. */
static th_product_call exact_product(const th_array *a, const th_array *b, const th_array *c)
{
    th_product_call call = th_product_call_of(a, b, c, NULL, false);
    call.product.exact = true;
    return call;
}

/* The right operand of a product, its finite part copied to memory. */
typedef struct right_operand {
    th_array all, finite;
    bool has_more; /* what is not finite */
} right_operand;

static right_operand finite_part(const th_call *call, const th_array *x, void *memory)
{
    right_operand right = {.all = *x, .finite = copy_in(x, memory)};
    bool *found = &right.has_more;
    th_elementwise(call->ctx, th_call_kernels(call)->finite_part, &found, &right.finite, false, 1,
                   (const th_array *const[]){x});
    return right;
}

static right_operand transposed(const right_operand *right)
{
    return (right_operand){th_array_transposed(&right->all), th_array_transposed(&right->finite), right->has_more};
}

/* c += left right for the elements of right that are not finite, where keep, of left's shape, shows them. */
static void add_non_finite(const th_call *call, const th_array *left, const th_array *keep, const th_array *right,
                           const th_array *c)
{
    th_walk walk = {.ndim = TH_PRODUCT_BATCH_DIMS}; /* operands: left, keep, right, c */
    for (int i = 0; i < TH_PRODUCT_BATCH_DIMS; i++) {
        const int to = TH_PRODUCT_BATCH_DIMS - 1 - i;
        walk.size[to] = th_outer_size(left, i) == 1 ? th_outer_size(right, i) : th_outer_size(left, i);
        walk.stride[0][to] = th_outer_stride(left, i);
        walk.stride[1][to] = th_outer_stride(keep, i);
        walk.stride[2][to] = th_outer_stride(right, i);
        walk.stride[3][to] = th_outer_stride(c, i);
    }
    const int64_t element = (int64_t)th_dtype_size(c->dtype);
    const int l = left->ndim - 2, r = right->ndim - 2, to = c->ndim - 2;
    for (int64_t i = 0, count = th_walk_count(&walk); i < count; i++, th_walk_next(&walk))
        th_call_kernels(call)->add_non_finite(
            left->size[l], left->size[l + 1], right->size[r + 1], (const char *)left->data + walk.offset[0] * element,
            left->stride[l], left->stride[l + 1], (const bool *)keep->data + walk.offset[1], keep->stride[l],
            keep->stride[l + 1], (const char *)right->data + walk.offset[2] * element, right->stride[r],
            right->stride[r + 1], (char *)c->data + walk.offset[3] * element, c->stride[to], c->stride[to + 1]);
}

/* c = left right, where left is 0 in hidden places and nothing in right reaches c through those. */
static void multiply_visible(const th_call *call, const th_array *left, const th_array *keep,
                             const right_operand *right, const th_array *c, void *workspace)
{
    const th_product_call product = exact_product(left, &right->finite, c);
    th_product_call_run(call->ctx, &product, workspace);
    if (right->has_more)
        add_non_finite(call, left, keep, &right->all, c);
}

/* Scratch memory: the masked operand's copy, the other's finite part, and a workspace for the products. */
typedef struct masked_matmul_scratch_plan {
    int64_t masked, finite; /* elements */
    size_t workspace;
} scratch_plan;

static void plan_product(scratch_plan *plan, const th_call *call, const th_array *left, const th_array *right,
                         const th_array *c)
{
    const th_product_call product = exact_product(left, right, c);
    const size_t bytes = th_product_call_workspace(call->ctx, &product);
    plan->workspace = bytes > plan->workspace ? bytes : plan->workspace;
}

static void plan_copies(scratch_plan *plan, const th_array *masked, const th_array *finite)
{
    plan->masked = th_array_numel(masked);
    const int64_t elements = th_array_numel(finite);
    plan->finite = elements > plan->finite ? elements : plan->finite;
}

static scratch_plan plan_scratch(const th_call *call, bool backward)
{
    scratch_plan plan = {0};
    const th_array *a = &call->input[A], *b = &call->input[B];
    const bool left = mask_is_left(call);
    const th_array a_copy = copy_in(a, NULL), b_copy = copy_in(b, NULL);
    if (!backward) {
        if (left)
            plan_copies(&plan, a, b);
        plan_product(&plan, call, left ? &a_copy : a, left ? &b_copy : b, &call->output[0]);
        return plan;
    }
    const th_array *dc = &call->output_gradient[0], *da = &call->input_gradient[A], *db = &call->input_gradient[B];
    const th_array dc_copy = copy_in(dc, NULL);
    if (da->given) {
        const th_array bt = th_array_transposed(left ? b : &b_copy);
        if (!left)
            plan_copies(&plan, dc, b);
        plan_product(&plan, call, left ? dc : &dc_copy, &bt, da);
    }
    if (db->given && left) {
        const th_array at = th_array_transposed(&a_copy);
        plan_copies(&plan, a, dc);
        plan_product(&plan, call, &at, &dc_copy, db);
    } else if (db->given) {
        const th_array dct = th_array_transposed(&dc_copy), dbt = th_array_transposed(db);
        plan_copies(&plan, dc, a);
        plan_product(&plan, call, &dct, &a_copy, &dbt);
    }
    return plan;
}

static size_t masked_matmul_scratch(const th_call *call, bool backward)
{
    const scratch_plan plan = plan_scratch(call, backward);
    const size_t element = th_dtype_size(call->input[A].dtype);
    return th_scratch_add(th_scratch_add(plan.workspace, plan.masked, element), plan.finite, element);
}

typedef struct scratch_memory {
    void *masked, *finite, *workspace;
} scratch_memory;

static scratch_memory lay_out(const th_call *call, bool backward)
{
    const scratch_plan plan = plan_scratch(call, backward);
    const size_t element = th_dtype_size(call->input[A].dtype);
    char *left = call->scratch;
    scratch_memory memory = {.masked = th_scratch_take(&left, plan.masked, element)};
    memory.finite = th_scratch_take(&left, plan.finite, element);
    memory.workspace = left;
    return memory;
}

static void masked_matmul_forward(const th_call *call)
{
    const th_array *a = &call->input[A], *b = &call->input[B], *c = &call->output[0];
    const scratch_memory memory = lay_out(call, false);
    if (mask_is_left(call)) {
        const th_array masked = copy_in(a, memory.masked), keep = spread(&call->input[KEEP], a);
        hide(call, &masked, a);
        const right_operand right = finite_part(call, b, memory.finite);
        multiply_visible(call, &masked, &keep, &right, c, memory.workspace);
    } else {
        const th_product_call product = exact_product(a, b, c);
        th_product_call_run(call->ctx, &product, memory.workspace);
        hide(call, c, c);
    }
}

/* Mask on the left, c_ij = sum over the p kept in row i of a_ip b_pj:
 *     dL/da_ip = keep_ip sum_j dL/dc_ij b_pj                  da = (dc bᵀ) masked
 *     dL/db_pj = sum over the i that keep p of a_ip dL/dc_ij  db = (a masked)ᵀ dc
 * the first a product with a masked result, the second one with a masked left operand. */
static void left_backward(const th_call *call, const scratch_memory *memory)
{
    const th_array *a = &call->input[A], *dc = &call->output_gradient[0];
    const th_array *da = &call->input_gradient[A], *db = &call->input_gradient[B];
    if (da->given) {
        const th_array bt = th_array_transposed(&call->input[B]);
        const th_product_call product = exact_product(dc, &bt, da);
        th_product_call_run(call->ctx, &product, memory->workspace);
        hide(call, da, da);
    }
    if (db->given) {
        const th_array masked = copy_in(a, memory->masked), keep = spread(&call->input[KEEP], a);
        const th_array at = th_array_transposed(&masked), keep_t = th_array_transposed(&keep);
        hide(call, &masked, a);
        const right_operand right = finite_part(call, dc, memory->finite);
        multiply_visible(call, &at, &keep_t, &right, db, memory->workspace);
    }
}

/* Mask on the result, c_ij = keep_ij sum_p a_ip b_pj. With dc' = dc masked:
 *     dL/da_ip = sum over the j kept in row i of dL/dc_ij b_pj     da = dc' bᵀ
 *     dL/db_pj = sum over the i that keep j of a_ip dL/dc_ij       dbᵀ = dc'ᵀ a
 * two products with a masked left operand. */
static void result_backward(const th_call *call, const scratch_memory *memory)
{
    const th_array *dc = &call->output_gradient[0], *da = &call->input_gradient[A], *db = &call->input_gradient[B];
    const th_array masked = copy_in(dc, memory->masked), keep = spread(&call->input[KEEP], dc);
    hide(call, &masked, dc);
    if (da->given) {
        const right_operand b = finite_part(call, &call->input[B], memory->finite), bt = transposed(&b);
        multiply_visible(call, &masked, &keep, &bt, da, memory->workspace);
    }
    if (db->given) {
        const th_array masked_t = th_array_transposed(&masked), keep_t = th_array_transposed(&keep),
                       dbt = th_array_transposed(db);
        const right_operand a = finite_part(call, &call->input[A], memory->finite);
        multiply_visible(call, &masked_t, &keep_t, &a, &dbt, memory->workspace);
    }
}

static void masked_matmul_backward(const th_call *call)
{
    const scratch_memory memory = lay_out(call, true);
    if (mask_is_left(call))
        left_backward(call, &memory);
    else
        result_backward(call, &memory);
}

static int64_t masked_matmul_multiply_adds(const th_call *call)
{
    return th_multiply_adds(&call->output[0], call->input[A].size[call->input[A].ndim - 1]);
}

static const masked_matmul_attributes on_result = {TH_MASK_RESULT}, on_left = {TH_MASK_LEFT};

static const th_sample masked_matmul_samples[] = {
    {"result",
     &on_result,
     3,
     {{.shape = {2, {2, 3}}}, {.shape = {2, {3, 4}}}, {.shape = {2, {2, 4}}, .kind = TH_SAMPLE_BOOL}},
     0},
    {"left",
     &on_left,
     3,
     {{.shape = {2, {3, 4}}}, {.shape = {2, {4, 2}}}, {.shape = {2, {3, 4}}, .kind = TH_SAMPLE_BOOL}},
     0},
    {"result, batch, key mask",
     &on_result,
     3,
     {{.shape = {3, {2, 3, 2}}}, {.shape = {3, {2, 2, 3}}}, {.shape = {3, {2, 1, 3}}, .kind = TH_SAMPLE_BOOL}},
     0},
    {"left, batch, key mask",
     &on_left,
     3,
     {{.shape = {3, {2, 3, 3}}}, {.shape = {3, {2, 3, 2}}}, {.shape = {3, {2, 1, 3}}, .kind = TH_SAMPLE_BOOL}},
     0},
    {"result, b shared by a batch",
     &on_result,
     3,
     {{.shape = {3, {2, 2, 3}}}, {.shape = {2, {3, 2}}}, {.shape = {2, {2, 2}}, .kind = TH_SAMPLE_BOOL}},
     0},
    {"left, a shared by a batch",
     &on_left,
     3,
     {{.shape = {2, {2, 3}}}, {.shape = {3, {2, 3, 2}}}, {.shape = {1, {3}}, .kind = TH_SAMPLE_BOOL}},
     0},
    {.name = NULL},
};

const th_op th_op_masked_matmul = {
    .name = "masked_matmul",
    .value = "c = a b without the hidden pairs",
    .gradient = "da = dc bᵀ, db = aᵀ dc, both without the hidden pairs",
    .n_inputs = 3,
    .attributes_size = sizeof(masked_matmul_attributes),
    .flags = TH_OP_CANNOT_ADD,
    .saves = TH_SAVE_INPUT(KEEP),
    .saves_for = {[A] = TH_SAVE_INPUT(B), [B] = TH_SAVE_INPUT(A)},
    .shape = masked_matmul_shape,
    .forward = masked_matmul_forward,
    .backward = masked_matmul_backward,
    .scratch = masked_matmul_scratch,
    .multiply_adds = masked_matmul_multiply_adds,
    .samples = masked_matmul_samples,
};

th_tensor *(th_masked_matmul)(th_tensor *a, th_tensor *b, th_tensor *keep, th_mask_side side)
{
    return th_apply(&th_op_masked_matmul, &(masked_matmul_attributes){(int32_t)side}, a, b, keep);
}
