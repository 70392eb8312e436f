/* Attention composed from other operations (attention.h): the reference for the fused operation, with its letters. */
#include <math.h>
#include <string.h>

#include "kernels/sizes.h"
#include "ops/shared/attention.h"
#include "tapehead/tensor.h"
#include "tensor/convert.h"
#include "tensor/tensor.h"

/* Returns x (.., H, T, D) as (.., Hkv, G, T, D): G query heads for each of Hkv heads. */
static th_tensor *split_groups(th_tensor *x, int64_t group)
{
    if (x == NULL || group == 1)
        return x;
    const th_shape whole = th_shape_of(x);
    th_shape shape = {.ndim = whole.ndim + 1};
    const int heads = whole.ndim - 3;
    memcpy(shape.size, whole.size, (size_t)heads * sizeof shape.size[0]);
    shape.size[heads] = whole.size[heads] / group;
    shape.size[heads + 1] = group;
    shape.size[heads + 2] = whole.size[heads + 1];
    shape.size[heads + 3] = whole.size[heads + 2];
    return th_reshape(x, shape);
}

/* What a call masks. */
typedef struct masked_pairs {
    th_tensor *keep;      /* over the scores; NULL: nothing is masked */
    th_tensor *documents; /* or NULL */
} masked_pairs;

/* a @ b over grouped heads: a, keep and the result have all heads, b has one for each group. */
static th_tensor *grouped_matmul(th_tensor *a, th_tensor *b, const masked_pairs *mask, th_mask_side side, int64_t group)
{
    if (a == NULL || b == NULL)
        return NULL;
    if (group > 1)
        b = th_unsqueeze(b, -3);
    a = split_groups(a, group);
    th_tensor *product = th_documents_matmul(a, b, split_groups(mask->keep, group), mask->documents, side);
    if (product == NULL || group == 1)
        return product;
    const th_shape grouped = th_shape_of(product);
    th_shape merged = {.ndim = grouped.ndim - 1};
    const int heads = merged.ndim - 3;
    memcpy(merged.size, grouped.size, (size_t)heads * sizeof merged.size[0]);
    merged.size[heads] = grouped.size[heads] * grouped.size[heads + 1];
    merged.size[heads + 1] = grouped.size[heads + 2];
    merged.size[heads + 2] = grouped.size[heads + 3];
    return th_reshape(product, merged);
}

/* Returns -|key - position of the query|. It has the dimensions of the scores on which it depends: (T, S), or (B, 1,
 * .., T, S). */
static th_tensor *negative_distances(th_context *ctx, const th_mask *mask, th_dtype dtype, th_shape scores)
{
    const char *const operation = "scaled_dot_product_attention";
    th_mask_rules rules;
    th_array tensors[TH_MASK_INPUTS];
    if (!th_mask_open(ctx, operation, mask, &scores, &rules, tensors))
        return NULL;
    th_mask_view view;
    th_mask_view_init(&view, &rules, tensors, scores.ndim, scores.size);
    const int key_axis = scores.ndim - 1;
    th_shape shape = scores;
    int64_t rows = scores.size[key_axis - 1];
    for (int d = 0; d < key_axis - 1; d++) {
        shape.size[d] = view.positions.stride[d] ? scores.size[d] : 1;
        rows *= shape.size[d];
    }
    th_tensor_impl *result = th_tensor_new(ctx, dtype, shape.ndim, shape.size, false, operation);
    char *at = result ? th_tensor_data(result) : NULL; /* NULL in a context with shapes_only */
    for (int64_t r = 0; at && r < rows; r++) {
        int64_t index[TH_MAX_DIMS];
        th_index_at(key_axis, shape.size, r, index);
        const int64_t position = th_mask_position(&view, index);
        for (int64_t s = 0; s < scores.size[key_axis]; s++, at += th_dtype_size(dtype))
            th_number_write(dtype, at, -fabs((double)(s - position)));
    }
    return th_handle_of(result);
}

th_tensor *th_attention_compose(const th_attention_attributes *attributes, th_tensor *const *inputs,
                                th_tensor **weights)
{
    th_tensor *q = inputs[TH_ATTENTION_Q], *k = inputs[TH_ATTENTION_K], *v = inputs[TH_ATTENTION_V];
    th_tensor *const *tensors = &inputs[TH_ATTENTION_MASK], *alibi = inputs[TH_ATTENTION_ALIBI];
    const th_mask_rules *rules = &attributes->rules;
    const th_mask mask = {.causal = (th_causal)rules->causal,
                          .window = {rules->has_window != 0, rules->left, rules->right},
                          .valid_lengths = rules->documents ? NULL : tensors[TH_MASK_VALID_LENGTHS],
                          .documents = rules->documents ? tensors[TH_MASK_VALID_LENGTHS] : NULL,
                          .keep = tensors[TH_MASK_KEEP],
                          .additive = tensors[TH_MASK_ADDITIVE],
                          .positions = tensors[TH_MASK_POSITIONS]};
    th_context *ctx = th_context_of(q);
    const th_shape q_shape = th_shape_of(q), k_shape = th_shape_of(k);
    const int last = q_shape.ndim - 1;
    th_shape scores = q_shape;
    scores.size[last] = k_shape.size[last - 1];
    int64_t group = th_attention_group(q_shape.ndim, q_shape.size, k_shape.size);
    if (group == 0) { /* q has no heads, so no head of k and v is used */
        k = th_slice(k, -3, 0, 0, 1), v = th_slice(v, -3, 0, 0, 1);
        group = 1;
    }
    const double scale = th_attention_scale(attributes, q_shape.size[last]), cap = attributes->soft_cap;

    const masked_pairs pairs = {th_mask_keep(ctx, &mask, scores), mask.documents};
    if (th_failed(ctx))
        return NULL;
    th_tensor *products = grouped_matmul(q, th_swap_axes(k, -1, -2), &pairs, TH_MASK_RESULT, group);
    th_tensor *s = cap > 0 ? th_scale(th_tanh(th_scale(products, scale / cap)), cap) : th_scale(products, scale);
    if (alibi) {
        alibi = th_unsqueeze(th_unsqueeze(alibi, -1), -1);
        s = th_add(s, th_mul(alibi, negative_distances(ctx, &mask, th_dtype_of(q), scores)));
    }
    th_tensor *a = th_masked_softmax(s, &mask);
    if (weights)
        *weights = a;
    return grouped_matmul(th_dropout(a, attributes->dropout), v, &pairs, TH_MASK_LEFT, group);
}
