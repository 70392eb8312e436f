/* masked_matmul: c = a b without the masked pairs. No masked pair changes a bit of the result or of a gradient, not
 * even with NaN.
 *
 * A factor of 0 does not mask a number: 0 * NaN is NaN. So a product whose left operand is masked has two parts. The
 * first multiplies two copies: the left operand with 0 where it is masked, and the right operand with 0 instead of NaN
 * and infinity. It adds everything that is visible and finite, in the same order as any other product. The second part
 * adds the few elements that are not finite, where they are visible.
 *
 * Without a mask the same products run in the same order. So the bits of a sequence do not depend on whether another
 * sequence of its batch is masked. th_matmul would change the bits in three ways. Its gradient of b exchanges the
 * operands, and in bfloat16x3 the order of their parts matters. It adds to gradients in another order. It folds summed
 * leading axes into k, where the padding of a batch shifts the steps. */
#include "ops/shared/attributes.h"
#include "ops/shared/letters.h"
#include "ops/shared/product_call.h"
#include "tapehead/ops.h"
#include "tensor/elementwise.h"
#include "tensor/shape.h"
#include "tensor/strided_iterator.h"
#include "tensor/tensor.h"

enum { A, B, KEEP };

static bool mask_is_left(const th_call *call)
{
    return ((const th_masked_matmul_attributes *)call->attributes)->side == TH_MASK_LEFT;
}

static th_status masked_matmul_shape(th_call *call)
{
    const th_array *a = &call->input[A], *keep = &call->input[KEEP];
    const int32_t side = ((const th_masked_matmul_attributes *)call->attributes)->side;
    int64_t size[TH_MAX_DIMS];
    th_axis_letters letters;
    int ndim;
    const th_status status = th_product_shape(call, 2, &ndim, size, letters);
    if (status)
        return status;
    if (th_call_bool(call, KEEP))
        return TH_ERROR_TYPE;
    if (side != TH_MASK_RESULT && side != TH_MASK_LEFT)
        return th_call_fail(call, TH_ERROR_ARGUMENT, "unknown side of a mask: %d", (int)side);
    if (keep->given && side == TH_MASK_LEFT && !th_broadcasts_to(keep->ndim, keep->size, a->ndim, a->size))
        return th_call_fail(call, TH_ERROR_SHAPE, "keep, %s, does not broadcast to a, %s", TH_TEXT(keep), TH_TEXT(a));
    if (keep->given && side == TH_MASK_RESULT && !th_broadcasts_to(keep->ndim, keep->size, ndim, size))
        return th_call_fail(call, TH_ERROR_SHAPE, "keep, %s, does not broadcast to the result, %s", TH_TEXT(keep),
                            TH_SIZES_TEXT(ndim, size));
    th_call_output(call, 0, a->dtype, ndim, size, letters);
    return TH_OK;
}

/* c = left right without the masked elements of left. If an operand is transposed, so is its copy. */
typedef struct visible_product {
    th_array left, keep;     /* (.., m, k): the masked operand (masked_operand) and its mask */
    th_array right, finite;  /* (.., k, n): the right operand and its copy without NaN and infinity */
    th_array c;              /* (.., m, n) */
    size_t finite_offset;    /* of the copy */
    th_product_call product; /* left finite */
} visible_product;

typedef struct plan {
    size_t masked;              /* offset of the masked operand's copy, if it needs one */
    th_product_call product;    /* a product whose result is masked */
    visible_product visible[2]; /* forward: the first; backward: da, db */
} plan;

/* Returns x with the strides of a row-major copy, without data. */
static th_array packed(const th_array *x)
{
    th_array copy = *x;
    copy.data = NULL;
    th_contiguous_strides(x->ndim, x->size, copy.stride);
    return copy;
}

/* Plans c = a b. The precision does not depend on the number of masked pairs (long_sum, kernels/products/product.h). */
static th_product_call plan_product(const th_call *call, const th_array *a, const th_array *b, const th_array *c)
{
    th_product_call product = th_product_call_unfolded(a, b, c);
    product.product.long_sum = true;
    th_product_call_reserve(call, &product);
    return product;
}

/* Returns the mask; without a mask, a single `true`. */
static th_array keep_of(const th_call *call)
{
    static const bool visible = true;
    const th_array all = {.given = true, .data = (void *)&visible, .dtype = TH_BOOL};
    return call->input[KEEP].given ? call->input[KEEP] : all;
}

/* Describes c = masked right. */
static visible_product visible_of(const th_call *call, const th_array *masked, const th_array *right, const th_array *c)
{
    const th_array keep = keep_of(call);
    return (visible_product){.left = packed(masked),
                             .keep = th_broadcast_array(&keep, masked->ndim, masked->size),
                             .right = *right,
                             .finite = packed(right),
                             .c = *c};
}

static void transpose(th_array *array)
{
    *array = th_array_transposed(array);
}

static void reserve_visible(const th_call *call, visible_product *v)
{
    v->finite_offset = th_plan_scratch(call, th_array_numel(&v->finite), th_dtype_size(v->finite.dtype));
    v->product = plan_product(call, &v->left, &v->finite, &v->c);
}

/* Returns whether the masked operand needs a copy: always if there is a mask, otherwise only to make it contiguous. */
static bool is_copied(const th_call *call, const th_array *x)
{
    return call->input[KEEP].given || !th_array_contiguous(x);
}

static size_t reserve_copy(const th_call *call, const th_array *x)
{
    return is_copied(call, x) ? th_plan_scratch(call, th_array_numel(x), th_dtype_size(x->dtype)) : 0;
}

static void plan_forward(const th_call *call, plan *p)
{
    const th_array *a = &call->input[A], *b = &call->input[B], *c = &call->output[0];
    if (mask_is_left(call)) {
        p->masked = reserve_copy(call, a);
        p->visible[0] = visible_of(call, a, b, c);
        reserve_visible(call, &p->visible[0]);
    } else {
        p->product = plan_product(call, a, b, c);
    }
}

/* Mask on the left, c_ij = sum over the visible p of row i of a_ip b_pj:
 *     dL/da_ip = keep_ip sum_j dL/dc_ij b_pj                  da = (dc bᵀ) masked
 *     dL/db_pj = sum over the i that see p of a_ip dL/dc_ij   db = (a masked)ᵀ dc
 * The first has a masked result, the second a masked left operand. */
static void plan_left_backward(const th_call *call, plan *p)
{
    const th_array *a = &call->input[A], *dc = &call->output_gradient[0];
    const th_array *da = &call->input_gradient[A], *db = &call->input_gradient[B];
    if (da->given) {
        const th_array bt = th_array_transposed(&call->input[B]);
        p->product = plan_product(call, dc, &bt, da);
    }
    th_plan_reuse(call, 0);
    if (db->given) {
        p->masked = reserve_copy(call, a);
        visible_product *v = &p->visible[B];
        *v = visible_of(call, a, dc, db);
        transpose(&v->left);
        transpose(&v->keep);
        reserve_visible(call, v);
    }
}

/* Mask on the result, c_ij = keep_ij sum_p a_ip b_pj. With dc' = dc masked:
 *     dL/da_ip = sum over the visible j of row i of dL/dc_ij b_pj  da = dc' bᵀ
 *     dL/db_pj = sum over the i that see j of a_ip dL/dc_ij        dbᵀ = dc'ᵀ a
 * Both have a masked left operand. */
static void plan_result_backward(const th_call *call, plan *p)
{
    const th_array *dc = &call->output_gradient[0], *da = &call->input_gradient[A], *db = &call->input_gradient[B];
    p->masked = reserve_copy(call, dc);
    if (da->given) {
        visible_product *v = &p->visible[A];
        *v = visible_of(call, dc, &call->input[B], da);
        transpose(&v->right);
        transpose(&v->finite);
        reserve_visible(call, v);
        th_plan_reuse(call, v->finite_offset);
    }
    if (db->given) {
        visible_product *v = &p->visible[B];
        *v = visible_of(call, dc, &call->input[A], db);
        transpose(&v->left);
        transpose(&v->keep);
        transpose(&v->c);
        reserve_visible(call, v);
    }
}

static void masked_matmul_plan(const th_call *call, bool backward, void *memory)
{
    if (!backward)
        plan_forward(call, memory);
    else if (mask_is_left(call))
        plan_left_backward(call, memory);
    else
        plan_result_backward(call, memory);
}

/* to = keep ? x : 0 */
static void keep_visible(const th_call *call, const th_array *to, const th_array *x)
{
    const th_array *const operands[] = {x, &call->input[KEEP]};
    th_elementwise(call->ctx, th_call_kernels(call)->keep_if, NULL, to, false, 2, operands);
}

/* Writes 0 to the masked elements of a product. */
static void mask_result(const th_call *call, const th_array *result)
{
    if (call->input[KEEP].given)
        keep_visible(call, result, result);
}

/* Returns x, contiguous and with 0 where it is masked. */
static void *masked_operand(const th_call *call, const th_array *x)
{
    if (!is_copied(call, x))
        return x->data;
    th_array copy = packed(x);
    copy.data = th_call_scratch(call, ((const plan *)call->plan)->masked);
    if (call->input[KEEP].given)
        keep_visible(call, &copy, x);
    else
        th_copy_array(call->ctx, &copy, x, false);
    return copy.data;
}

static th_array leading_axes(const th_array *matrices)
{
    return th_array_axes(matrices, (1u << (matrices->ndim - 2)) - 1);
}

/* c += left right for the visible elements of right that are not finite. If c is a sum over leading axes, they are
 * added in the order of these axes. */
static void add_non_finite(const th_call *call, const visible_product *v, const th_array *left)
{
    const th_array lefts = leading_axes(left), keeps = leading_axes(&v->keep), rights = leading_axes(&v->right);
    th_array sums = leading_axes(&v->c), all = lefts;
    th_broadcast_sizes(lefts.ndim, lefts.size, rights.ndim, rights.size, &all.ndim, all.size);
    sums = th_broadcast_array(&sums, all.ndim, all.size);
    th_iterator iterator;
    if (!th_iterator_build(&iterator, &sums, 3, (const th_array *const[]){&lefts, &keeps, &rights}))
        return;
    const int l = left->ndim - 2, k = v->keep.ndim - 2, r = v->right.ndim - 2, c = v->c.ndim - 2;
    th_iterator_position position;
    th_iterator_seek(&iterator, 0, &position);
    for (int64_t i = 0; i < iterator.numel; i++, th_iterator_advance(&iterator, 1, &position))
        th_call_kernels(call)->add_non_finite(
            left->size[l], left->size[l + 1], v->right.size[r + 1], position.at[1], left->stride[l],
            left->stride[l + 1], (const bool *)position.at[2], v->keep.stride[k], v->keep.stride[k + 1], position.at[3],
            v->right.stride[r], v->right.stride[r + 1], position.at[0], v->c.stride[c], v->c.stride[c + 1]);
}

/* Computes the product. masked: the data of v->left. */
static void run_visible(const th_call *call, const visible_product *v, void *masked)
{
    th_array left = v->left, finite = v->finite;
    left.data = masked;
    finite.data = th_call_scratch(call, v->finite_offset);
    bool has_non_finite = false, *found = &has_non_finite;
    th_elementwise(call->ctx, th_call_kernels(call)->finite_part, &found, &finite, false, 1,
                   (const th_array *const[]){&v->right});
    th_product_call product = v->product;
    product.product.a = left.data;
    product.product.b = finite.data;
    th_product_call_run(call, &product, false);
    if (has_non_finite)
        add_non_finite(call, v, &left);
}

static void masked_matmul_forward(const th_call *call)
{
    const plan *p = call->plan;
    if (mask_is_left(call)) {
        run_visible(call, &p->visible[0], masked_operand(call, &call->input[A]));
    } else {
        th_product_call_run(call, &p->product, false);
        mask_result(call, &call->output[0]);
    }
}

static void masked_matmul_backward(const th_call *call)
{
    const plan *p = call->plan;
    const th_array *da = &call->input_gradient[A], *db = &call->input_gradient[B];
    const bool left = mask_is_left(call);
    if (left && da->given) {
        th_product_call_run(call, &p->product, false);
        mask_result(call, da);
    }
    if (left && !db->given)
        return;
    void *masked = masked_operand(call, left ? &call->input[A] : &call->output_gradient[0]);
    if (!left && da->given)
        run_visible(call, &p->visible[A], masked);
    if (db->given)
        run_visible(call, &p->visible[B], masked);
}

static int64_t masked_matmul_multiply_adds(const th_call *call)
{
    return th_multiply_adds(&call->output[0], call->input[A].size[call->input[A].ndim - 1]);
}

static const th_masked_matmul_attributes on_result = {TH_MASK_RESULT}, on_left = {TH_MASK_LEFT};

static const th_sample masked_matmul_samples[] = {
    {"result", &on_result, 3,
     .input = {{.shape = {2, {2, 3}}}, {.shape = {2, {3, 4}}}, {.shape = {2, {2, 4}}, .kind = TH_SAMPLE_BOOL}}},
    {"left", &on_left, 3,
     .input = {{.shape = {2, {3, 4}}}, {.shape = {2, {4, 2}}}, {.shape = {2, {3, 4}}, .kind = TH_SAMPLE_BOOL}}},
    {"result, batch, key mask", &on_result, 3,
     .input = {{.shape = {3, {2, 3, 2}}},
               {.shape = {3, {2, 2, 3}}},
               {.shape = {3, {2, 1, 3}}, .kind = TH_SAMPLE_BOOL}}},
    {"left, batch, key mask", &on_left, 3,
     .input = {{.shape = {3, {2, 3, 3}}},
               {.shape = {3, {2, 3, 2}}},
               {.shape = {3, {2, 1, 3}}, .kind = TH_SAMPLE_BOOL}}},
    {"result, b shared by a batch", &on_result, 3,
     .input = {{.shape = {3, {2, 2, 3}}}, {.shape = {2, {3, 2}}}, {.shape = {2, {2, 2}}, .kind = TH_SAMPLE_BOOL}}},
    {"left, a shared by a batch", &on_left, 3,
     .input = {{.shape = {2, {2, 3}}}, {.shape = {3, {2, 3, 2}}}, {.shape = {1, {3}}, .kind = TH_SAMPLE_BOOL}}},
    {"result, nothing masked", &on_result, 3, {{.shape = {3, {2, 2, 3}}}, {.shape = {2, {3, 2}}}, TH_ABSENT}, 0},
    {"left, nothing masked", &on_left, 3, {{.shape = {2, {2, 3}}}, {.shape = {3, {3, 3, 2}}}, TH_ABSENT}, 0},
    {.name = NULL},
};

const th_op th_op_masked_matmul = {
    .name = "masked_matmul",
    .value = "c = a b without the masked pairs",
    .gradient = "da = dc bᵀ, db = aᵀ dc, both without the masked pairs",
    .n_inputs = 3,
    .optional = TH_INPUT(KEEP),
    .attributes_size = sizeof(th_masked_matmul_attributes),
    .flags = TH_OP_CANNOT_ADD,
    .saves = TH_INPUT(KEEP),
    .saves_for = {[A] = TH_INPUT(B), [B] = TH_INPUT(A)},
    .shape = masked_matmul_shape,
    .forward = masked_matmul_forward,
    .backward = masked_matmul_backward,
    .plan = masked_matmul_plan,
    .plan_size = sizeof(plan),
    .multiply_adds = masked_matmul_multiply_adds,
    .samples = masked_matmul_samples,
};

th_tensor *th_masked_matmul(th_tensor *a, th_tensor *b, th_tensor *keep, th_mask_side side)
{
    return th_apply(&th_op_masked_matmul, &(th_masked_matmul_attributes){(int32_t)side}, a, b, keep);
}
