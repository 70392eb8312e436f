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
 * leading axes into k, where the padding of a batch shifts the steps.
 *
 * Documents (th_mask.documents) divide a square mask: it shows pairs of one document only. Each document has its own
 * products. So its sums count their steps from its first token on, as in a separate sequence. */
#include "kernels/sizes.h"
#include "ops/shared/attributes.h"
#include "ops/shared/letters.h"
#include "ops/shared/mask.h"
#include "ops/shared/mask_samples.h"
#include "ops/shared/product_call.h"
#include "tapehead/ops.h"
#include "tensor/elementwise.h"
#include "tensor/shape.h"
#include "tensor/strided_iterator.h"
#include "tensor/tensor.h"

enum { A, B, KEEP, DOCUMENTS, INPUTS };

static bool mask_is_left(const th_call *call)
{
    return ((const th_masked_matmul_attributes *)call->attributes)->side == TH_MASK_LEFT;
}

/* Checks that the documents fit the masked matrices (.., T, T). Documents of each example divide axis 0 of a and b. */
static th_status check_documents(th_call *call, int ndim, const int64_t *size)
{
    const th_array *a = &call->input[A], *b = &call->input[B], *documents = &call->input[DOCUMENTS];
    if (th_call_index_type(call, DOCUMENTS))
        return TH_ERROR_TYPE;
    const int64_t tokens = size[ndim - 1];
    bool fits = size[ndim - 2] == tokens;
    if (documents->ndim == 1)
        fits = fits && documents->size[0] == tokens;
    else
        fits = fits && documents->ndim == 2 && documents->size[1] == tokens && ndim > 2 && a->ndim == b->ndim &&
               documents->size[0] == a->size[0] && documents->size[0] == b->size[0];
    return fits ? TH_OK
                : th_call_fail(call, TH_ERROR_SHAPE,
                               "documents, %s, must be (T) or (B, T) for a mask of (.., T, T): a is %s, b is %s",
                               TH_TEXT(documents), TH_TEXT(a), TH_TEXT(b));
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
    if (call->input[DOCUMENTS].given &&
        check_documents(call, side == TH_MASK_LEFT ? a->ndim : ndim, side == TH_MASK_LEFT ? a->size : size))
        return call->ctx->error;
    th_call_output(call, 0, a->dtype, ndim, size, letters);
    return TH_OK;
}

/* c = left right, and which of left and c is masked. */
typedef struct factors {
    th_array left, right, c; /* (.., m, k), (.., k, n), (.., m, n) */
    bool left_masked;        /* otherwise c */
    th_product_call product;
} factors;

/* c = left right without the masked elements of left. If an operand is transposed, so is its copy. */
typedef struct visible_product {
    factors factors;      /* left: the masked operand (masked_operand); right: the copy without NaN and infinity */
    th_array keep, right; /* the mask of left; the right operand */
    size_t finite_offset; /* of the copy */
} visible_product;

typedef struct plan {
    size_t masked;              /* offset of the masked operand's copy, if it needs one */
    factors result;             /* a product whose result is masked */
    visible_product visible[2]; /* forward: the first; backward: da, db */
} plan;

/* Returns x with the strides of a row-major copy, without data. */
static th_array row_major_copy(const th_array *x)
{
    th_array copy = *x;
    copy.data = NULL;
    th_compute_contiguous_strides(x->ndim, x->size, copy.stride);
    return copy;
}

/* Describes the product. The precision does not depend on the number of masked pairs (long_sum,
 * kernels/products/product.h). */
static th_product_call product_of(const factors *f)
{
    th_product_call product = th_product_call_unfolded(&f->left, &f->right, &f->c);
    product.product.long_sum = true;
    return product;
}

/* A document: tokens of one example, or of all. */
typedef struct document {
    bool of_example;
    int64_t example;
    th_key_range tokens;
} document;

/* Advances to the next document; before the first one, *d is all 0. Returns false after the last one. */
static bool next_document(const th_call *call, document *d)
{
    const th_array *numbers = &call->input[DOCUMENTS];
    const int last = numbers->ndim - 1;
    const int64_t tokens = numbers->size[last], examples = last > 0 ? numbers->size[0] : 1;
    if (d->tokens.past == tokens) {
        d->example++;
        d->tokens.past = 0;
    }
    if (tokens == 0 || d->example >= examples)
        return false;
    d->of_example = last > 0;
    d->tokens = th_mask_document(numbers, last > 0 ? d->example * numbers->stride[0] : 0, numbers->stride[last],
                                 d->tokens.past, tokens);
    return true;
}

/* Returns the elements of an example, and of a document's rows and columns. */
static th_array elements_of_document(const th_array *x, const document *d, bool rows, bool columns)
{
    th_array part = *x;
    int64_t offset = 0;
    if (d->of_example) {
        offset = d->example * x->stride[0];
        part.size[0] = 1;
    }
    for (int axis = x->ndim - 2; axis < x->ndim; axis++)
        if (axis == x->ndim - 2 ? rows : columns) {
            offset += d->tokens.first * x->stride[axis];
            part.size[axis] = d->tokens.past - d->tokens.first;
        }
    if (x->data)
        part.data = (char *)x->data + offset * (int64_t)th_dtype_size(x->dtype);
    return part;
}

/* Returns the product of one document. */
static factors product_of_document(const factors *f, const document *d)
{
    factors part = {.left = elements_of_document(&f->left, d, true, f->left_masked),
                    .right = elements_of_document(&f->right, d, f->left_masked, !f->left_masked),
                    .c = elements_of_document(&f->c, d, true, !f->left_masked),
                    .left_masked = f->left_masked};
    part.product = product_of(&part);
    part.product.workspace = f->product.workspace;
    return part;
}

/* Returns the bytes of scratch memory that the product of any document needs. A plan may not read the documents, and a
 * longer one does not always need more. */
static size_t largest_workspace(const th_call *call, const factors *f)
{
    const th_array *documents = &call->input[DOCUMENTS];
    document d = {.of_example = documents->ndim == 2};
    size_t most = 0;
    for (d.tokens.past = 1; d.tokens.past <= documents->size[documents->ndim - 1]; d.tokens.past++) {
        const factors part = product_of_document(f, &d);
        const size_t bytes =
            th_product_workspace(&call->ctx->machine, part.product.dtype, &part.product.product, call->ctx->threads);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static void reserve_product(const th_call *call, factors *f)
{
    f->product = product_of(f);
    if (call->input[DOCUMENTS].given)
        f->product.workspace = th_plan_scratch(call, 1, largest_workspace(call, f));
    else
        th_product_call_reserve(call, &f->product);
}

/* Plans c = a b whose result is masked. */
static void plan_result(const th_call *call, factors *f, const th_array *a, const th_array *b, const th_array *c)
{
    *f = (factors){.left = *a, .right = *b, .c = *c};
    reserve_product(call, f);
}

/* Returns the mask; without a mask, a single `true`. */
static th_array keep_of(const th_call *call)
{
    static const bool visible = true;
    const th_array all = {.given = true, .data = (void *)&visible, .dtype = TH_BOOL};
    return call->input[KEEP].given ? call->input[KEEP] : all;
}

/* Describes c = masked right. */
static visible_product describe_visible(const th_call *call, const th_array *masked, const th_array *right,
                                        const th_array *c)
{
    const th_array keep = keep_of(call);
    return (visible_product){
        .factors = {.left = row_major_copy(masked), .right = row_major_copy(right), .c = *c, .left_masked = true},
        .keep = th_broadcast_array(&keep, masked->ndim, masked->size),
        .right = *right,
    };
}

static void transpose(th_array *array)
{
    *array = th_array_transposed(array);
}

static void reserve_visible(const th_call *call, visible_product *v)
{
    v->finite_offset = th_plan_scratch(call, th_array_numel(&v->right), th_dtype_size(v->right.dtype));
    reserve_product(call, &v->factors);
}

/* Returns whether the masked operand needs a copy: always if there is a mask, otherwise only to make it contiguous. */
static bool needs_copy(const th_call *call, const th_array *x)
{
    return call->input[KEEP].given || !th_array_contiguous(x);
}

static size_t reserve_copy(const th_call *call, const th_array *x)
{
    return needs_copy(call, x) ? th_plan_scratch(call, th_array_numel(x), th_dtype_size(x->dtype)) : 0;
}

static void plan_forward(const th_call *call, plan *p)
{
    const th_array *a = &call->input[A], *b = &call->input[B], *c = &call->output[0];
    if (mask_is_left(call)) {
        p->masked = reserve_copy(call, a);
        p->visible[0] = describe_visible(call, a, b, c);
        reserve_visible(call, &p->visible[0]);
    } else {
        plan_result(call, &p->result, a, b, c);
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
        plan_result(call, &p->result, dc, &bt, da);
    }
    th_plan_reuse(call, 0);
    if (db->given) {
        p->masked = reserve_copy(call, a);
        visible_product *v = &p->visible[B];
        *v = describe_visible(call, a, dc, db);
        transpose(&v->factors.left);
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
        *v = describe_visible(call, dc, &call->input[B], da);
        transpose(&v->right);
        transpose(&v->factors.right);
        reserve_visible(call, v);
        th_plan_reuse(call, v->finite_offset);
    }
    if (db->given) {
        visible_product *v = &p->visible[B];
        *v = describe_visible(call, dc, &call->input[A], db);
        transpose(&v->factors.left);
        transpose(&v->keep);
        transpose(&v->factors.c);
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

/* Returns x, contiguous and with 0 where it is masked. */
static void *masked_operand(const th_call *call, const th_array *x)
{
    if (!needs_copy(call, x))
        return x->data;
    th_array copy = row_major_copy(x);
    copy.data = th_call_scratch(call, ((const plan *)call->plan)->masked);
    if (call->input[KEEP].given)
        keep_visible(call, &copy, x);
    else
        th_copy_array(call->ctx, &copy, x, false);
    return copy.data;
}

static th_array leading_axes(const th_array *matrices)
{
    return th_select_axes(matrices, (1u << (matrices->ndim - 2)) - 1);
}

/* c += left right for the visible elements of right that are not finite. If c is a sum over leading axes, they are
 * added in the order of these axes. */
static void add_non_finite(const th_call *call, const visible_product *v)
{
    const th_array *left = &v->factors.left, *sum = &v->factors.c;
    const th_array lefts = leading_axes(left), keeps = leading_axes(&v->keep), rights = leading_axes(&v->right);
    th_array sums = leading_axes(sum), all = lefts;
    th_broadcast_sizes(lefts.ndim, lefts.size, rights.ndim, rights.size, &all.ndim, all.size);
    sums = th_broadcast_array(&sums, all.ndim, all.size);
    th_iterator iterator;
    if (!th_iterator_build(&iterator, &sums, 3, (const th_array *const[]){&lefts, &keeps, &rights}))
        return;
    const int l = left->ndim - 2, k = v->keep.ndim - 2, r = v->right.ndim - 2, c = sum->ndim - 2;
    th_iterator_position position;
    th_iterator_seek(&iterator, 0, &position);
    for (int64_t i = 0; i < iterator.numel; i++, th_iterator_advance(&iterator, 1, &position))
        th_call_kernels(call)->add_non_finite(
            left->size[l], left->size[l + 1], v->right.size[r + 1], position.address[1], left->stride[l],
            left->stride[l + 1], (const bool *)position.address[2], v->keep.stride[k], v->keep.stride[k + 1],
            position.address[3], v->right.stride[r], v->right.stride[r + 1], position.address[0], sum->stride[c],
            sum->stride[c + 1]);
}

/* Computes a product whose result is masked. */
static void compute_masked_result(const th_call *call, const factors *f)
{
    if (call->input[DOCUMENTS].given) {
        th_fill_array(call->ctx, &f->c, 0);
        for (document d = {0}; next_document(call, &d);) {
            const factors part = product_of_document(f, &d);
            th_product_call_run(call, &part.product, false);
        }
    } else {
        th_product_call_run(call, &f->product, false);
    }
    if (call->input[KEEP].given)
        keep_visible(call, &f->c, &f->c);
}

/* Computes both parts of a product, or of one document. */
static void multiply_visible(const th_call *call, const visible_product *v, bool has_non_finite)
{
    th_product_call_run(call, &v->factors.product, false);
    if (has_non_finite)
        add_non_finite(call, v);
}

/* Computes a product whose left operand is masked. masked: the operand's data. */
static void compute_visible_product(const th_call *call, const visible_product *planned, void *masked)
{
    visible_product v = *planned;
    v.factors.product.product.a = v.factors.left.data = masked;
    v.factors.product.product.b = v.factors.right.data = th_call_scratch(call, v.finite_offset);
    bool has_non_finite = false, *found = &has_non_finite;
    th_elementwise(call->ctx, th_call_kernels(call)->finite_part, &found, &v.factors.right, false, 1,
                   (const th_array *const[]){&v.right});
    if (!call->input[DOCUMENTS].given) {
        multiply_visible(call, &v, has_non_finite);
        return;
    }
    for (document d = {0}; next_document(call, &d);) {
        const visible_product part = {.factors = product_of_document(&v.factors, &d),
                                      .keep = elements_of_document(&v.keep, &d, true, true),
                                      .right = elements_of_document(&v.right, &d, true, false)};
        multiply_visible(call, &part, has_non_finite);
    }
}

static void masked_matmul_forward(const th_call *call)
{
    const plan *p = call->plan;
    if (mask_is_left(call))
        compute_visible_product(call, &p->visible[0], masked_operand(call, &call->input[A]));
    else
        compute_masked_result(call, &p->result);
}

static void masked_matmul_backward(const th_call *call)
{
    const plan *p = call->plan;
    const th_array *da = &call->input_gradient[A], *db = &call->input_gradient[B];
    const bool left = mask_is_left(call);
    if (left && da->given)
        compute_masked_result(call, &p->result);
    if (left && !db->given)
        return;
    void *masked = masked_operand(call, left ? &call->input[A] : &call->output_gradient[0]);
    if (!left && da->given)
        compute_visible_product(call, &p->visible[A], masked);
    if (db->given)
        compute_visible_product(call, &p->visible[B], masked);
}

static int64_t masked_matmul_multiply_adds(const th_call *call)
{
    return th_multiply_adds(&call->output[0], call->input[A].size[call->input[A].ndim - 1]);
}

static const th_masked_matmul_attributes on_result = {TH_MASK_RESULT}, on_left = {TH_MASK_LEFT};

static const th_sample masked_matmul_samples[] = {
    {"result", &on_result, INPUTS,
     .input =
         {{.shape = {2, {2, 3}}}, {.shape = {2, {3, 4}}}, {.shape = {2, {2, 4}}, .kind = TH_SAMPLE_BOOL}, TH_ABSENT}},
    {"left", &on_left, INPUTS,
     .input =
         {{.shape = {2, {3, 4}}}, {.shape = {2, {4, 2}}}, {.shape = {2, {3, 4}}, .kind = TH_SAMPLE_BOOL}, TH_ABSENT}},
    {"result, batch, key mask", &on_result, INPUTS,
     .input = {{.shape = {3, {2, 3, 2}}},
               {.shape = {3, {2, 2, 3}}},
               {.shape = {3, {2, 1, 3}}, .kind = TH_SAMPLE_BOOL},
               TH_ABSENT}},
    {"left, batch, key mask", &on_left, INPUTS,
     .input = {{.shape = {3, {2, 3, 3}}},
               {.shape = {3, {2, 3, 2}}},
               {.shape = {3, {2, 1, 3}}, .kind = TH_SAMPLE_BOOL},
               TH_ABSENT}},
    {"result, b shared by a batch", &on_result, INPUTS,
     .input = {{.shape = {3, {2, 2, 3}}},
               {.shape = {2, {3, 2}}},
               {.shape = {2, {2, 2}}, .kind = TH_SAMPLE_BOOL},
               TH_ABSENT}},
    {"left, a shared by a batch", &on_left, INPUTS,
     .input =
         {{.shape = {2, {2, 3}}}, {.shape = {3, {2, 3, 2}}}, {.shape = {1, {3}}, .kind = TH_SAMPLE_BOOL}, TH_ABSENT}},
    {"result, nothing masked",
     &on_result,
     INPUTS,
     {{.shape = {3, {2, 2, 3}}}, {.shape = {2, {3, 2}}}, TH_ABSENT, TH_ABSENT},
     0},
    {"left, nothing masked",
     &on_left,
     INPUTS,
     {{.shape = {2, {2, 3}}}, {.shape = {3, {3, 3, 2}}}, TH_ABSENT, TH_ABSENT},
     0},
    {"result, documents", &on_result, INPUTS, .input = {REAL(2, 5, 3), REAL(3, 5), TH_ABSENT, INTEGERS(0, 2, 5)}},
    {"left, documents of each example", &on_left, INPUTS,
     .input = {REAL(2, 2, 6, 6), REAL(2, 1, 6, 3), KEEP(6, 6), INTEGERS(0, 2, 2, 6)}},
    {.name = NULL},
};

const th_op th_op_masked_matmul = {
    .name = "masked_matmul",
    .value = "c = a b without the masked pairs",
    .gradient = "da = dc bᵀ, db = aᵀ dc, both without the masked pairs",
    .n_inputs = INPUTS,
    .optional = TH_INPUT(KEEP) | TH_INPUT(DOCUMENTS),
    .attributes_size = sizeof(th_masked_matmul_attributes),
    .flags = TH_OP_CANNOT_ADD,
    .saves = TH_INPUT(KEEP) | TH_INPUT(DOCUMENTS),
    .saves_for = {[A] = TH_INPUT(B), [B] = TH_INPUT(A)},
    .shape = masked_matmul_shape,
    .forward = masked_matmul_forward,
    .backward = masked_matmul_backward,
    .plan = masked_matmul_plan,
    .plan_size = sizeof(plan),
    .multiply_adds = masked_matmul_multiply_adds,
    .samples = masked_matmul_samples,
};

th_tensor *th_documents_matmul(th_tensor *a, th_tensor *b, th_tensor *keep, th_tensor *documents, th_mask_side side)
{
    return th_apply(&th_op_masked_matmul, &(th_masked_matmul_attributes){(int32_t)side}, a, b, keep, documents);
}

th_tensor *th_masked_matmul(th_tensor *a, th_tensor *b, th_tensor *keep, th_mask_side side)
{
    return th_documents_matmul(a, b, keep, NULL, side);
}
