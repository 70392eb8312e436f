/* Losses for classifiers and embeddings, composed of operations. */
#include "tapehead/losses.h"

#include <string.h>

#include "autograd/tape.h"
#include "tapehead/tensor.h"
#include "tensor/context.h"
#include "tensor/tensor.h"

/* Returns whether both tensors are usable and have the same shape. Otherwise the error is pending. */
static bool have_same_shape(th_tensor *a, const char *a_name, th_tensor *b, const char *b_name, const char *operation)
{
    if (a == NULL || b == NULL)
        return false;
    th_context *ctx = th_context_of(a);
    if (!th_usable_tensor(a, ctx, operation, a_name) || !th_usable_tensor(b, ctx, operation, b_name))
        return false;
    const th_shape x = th_shape_of(a), y = th_shape_of(b);
    if (x.ndim == y.ndim && memcmp(x.size, y.size, (size_t)x.ndim * sizeof x.size[0]) == 0)
        return true;
    th_fail(ctx, TH_ERROR_SHAPE, operation, "%s are %s, but %s are %s", a_name, TH_SIZES_TEXT(x.ndim, x.size), b_name,
            TH_SIZES_TEXT(y.ndim, y.size));
    return false;
}

/* -- classification -- */

/* (1 - t) x + w softplus(-x), with w = 1 + (p - 1) t */
static th_tensor *binary_cross_entropy(th_tensor *x, th_tensor *t, th_tensor *p)
{
    th_tensor *softplus = th_softplus(th_neg(x)), *negative = th_mul(th_add_scalar(th_neg(t), 1), x);
    if (p)
        softplus = th_mul(th_add_scalar(th_mul(th_add_scalar(p, -1), t), 1), softplus);
    return th_mean(th_add(negative, softplus), TH_ALL_AXES, NULL);
}

th_tensor *th_binary_cross_entropy(th_tensor *logits, th_tensor *targets, th_tensor *positive_weight)
{
    if (!have_same_shape(logits, "logits", targets, "targets", "binary_cross_entropy"))
        return NULL;
    th_context *ctx = th_context_of(logits);
    th_scope_begin(ctx, "binary_cross_entropy");
    return th_scope_end(ctx, binary_cross_entropy(logits, targets, positive_weight));
}
