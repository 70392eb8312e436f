/* Losses for classifiers and embeddings, composed of operations. */
#include "tapehead/losses.h"

#include <string.h>

#include "autograd/tape.h"
#include "tapehead/pooling.h"
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

/* Returns which targets count, (N, 1) of the type of the logits. */
static th_tensor *counted_rows(th_tensor *targets, th_dtype dtype, const th_cross_entropy_options *o)
{
    th_tensor *ignored = th_full(th_context_of(targets), th_dtype_of(targets), TH_SHAPE(1), (double)o->ignore_index);
    return th_unsqueeze(th_cast(th_not_equal(targets, ignored), dtype), -1);
}

/* Returns targets with 0 where a target is ignored. th_where computes with floating numbers. */
static th_tensor *valid_targets(th_tensor *targets, const th_cross_entropy_options *o)
{
    th_context *ctx = th_context_of(targets);
    th_tensor *ignored = th_full(ctx, th_dtype_of(targets), TH_SHAPE(1), (double)o->ignore_index);
    th_tensor *numbers = th_cast(targets, TH_FLOAT64), *zero = th_zeros(ctx, TH_FLOAT64, TH_SHAPE(1));
    return th_cast(th_where(th_equal(targets, ignored), zero, numbers), TH_INT64);
}

static th_tensor *weighted_cross_entropy(th_tensor *logits, th_tensor *targets, th_tensor *weights,
                                         const th_cross_entropy_options *o)
{
    const int64_t classes = th_size(logits, -1);
    const double smoothing = o->label_smoothing;
    const double divisor = th_target_count(targets, o) == 0 ? 1 : o->normalizer;
    th_tensor *counted = o->ignore ? counted_rows(targets, th_dtype_of(logits), o) : NULL;
    th_tensor *share = th_one_hot(o->ignore ? valid_targets(targets, o) : targets, classes); /* (N, V) */
    share = th_mul(th_cast(share, th_dtype_of(logits)), th_detach(weights));
    share = counted ? th_mul(share, counted) : share;
    th_tensor *sum = th_sum(share, TH_ALL_AXES, NULL);
    if (smoothing > 0) {
        th_tensor *all = th_scale(th_detach(weights), smoothing / (double)classes);
        share = th_add(th_scale(share, 1 - smoothing), counted ? th_mul(counted, all) : all);
    }
    th_tensor *loss = th_neg(th_sum(th_mul(share, th_log_softmax(logits, -1)), TH_ALL_AXES, NULL));
    return divisor > 0 ? th_scale(loss, 1 / divisor) : th_div(loss, sum);
}

th_tensor *th_weighted_cross_entropy(th_tensor *logits, th_tensor *targets, th_tensor *class_weights,
                                     const th_cross_entropy_options *options)
{
    static const char operation[] = "weighted_cross_entropy";
    const th_cross_entropy_options given = options ? *options : (th_cross_entropy_options){0};
    if (logits == NULL || targets == NULL || class_weights == NULL)
        return NULL;
    th_context *ctx = th_context_of(logits);
    if (!th_usable_tensor(logits, ctx, operation, "logits") || !th_usable_tensor(targets, ctx, operation, "targets") ||
        !th_usable_tensor(class_weights, ctx, operation, "class_weights"))
        return NULL;
    const th_shape x = th_shape_of(logits), t = th_shape_of(targets), w = th_shape_of(class_weights);
    if (x.ndim != t.ndim + 1 || memcmp(x.size, t.size, (size_t)t.ndim * sizeof t.size[0]) != 0 || w.ndim != 1 ||
        w.size[0] != x.size[x.ndim - 1]) {
        th_fail(ctx, TH_ERROR_SHAPE, operation,
                "logits are (N, V), targets (N) and class_weights (V), but they are %s, %s and %s",
                TH_SIZES_TEXT(x.ndim, x.size), TH_SIZES_TEXT(t.ndim, t.size), TH_SIZES_TEXT(w.ndim, w.size));
        return NULL;
    }
    if (!(given.label_smoothing >= 0 && given.label_smoothing <= 1)) {
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "label_smoothing must be in [0, 1], it is %g",
                given.label_smoothing);
        return NULL;
    }
    th_scope_begin(ctx, operation);
    return th_scope_end(ctx, weighted_cross_entropy(logits, targets, class_weights, &given));
}

/* -- embeddings -- */

/* Returns whether the tensors are usable and (N, E), all of one shape. */
static bool are_embeddings(th_tensor *a, const char *a_name, th_tensor *b, const char *b_name, const char *operation)
{
    if (!have_same_shape(a, a_name, b, b_name, operation))
        return false;
    if (th_ndim(a) == 2)
        return true;
    th_fail(th_context_of(a), TH_ERROR_SHAPE, operation, "%s must be (N, E); they have %d axes", a_name, th_ndim(a));
    return false;
}

/* Returns whether targets are usable and (N), with one for each row of a. */
static bool are_targets(th_tensor *a, th_tensor *targets, const char *operation)
{
    th_context *ctx = th_context_of(a);
    if (targets == NULL || !th_usable_tensor(targets, ctx, operation, "targets"))
        return false;
    if (th_ndim(targets) == 1 && th_size(targets, 0) == th_size(a, 0))
        return true;
    const th_shape t = th_shape_of(targets);
    th_fail(ctx, TH_ERROR_SHAPE, operation, "targets must be (%lld), one for each pair; they are %s",
            (long long)th_size(a, 0), TH_SIZES_TEXT(t.ndim, t.size));
    return false;
}

static th_tensor *cosine(th_tensor *a, th_tensor *b)
{
    return th_sum(th_mul(th_unit_length(a), th_unit_length(b)), TH_AXES(1), NULL);
}

th_tensor *th_cosine_similarity(th_tensor *a, th_tensor *b)
{
    if (!are_embeddings(a, "a", b, "b", "cosine_similarity"))
        return NULL;
    th_context *ctx = th_context_of(a);
    th_scope_begin(ctx, "cosine_similarity");
    return th_scope_end(ctx, cosine(a, b));
}

th_tensor *th_cosine_similarity_loss(th_tensor *a, th_tensor *b, th_tensor *targets)
{
    static const char operation[] = "cosine_similarity_loss";
    if (!are_embeddings(a, "a", b, "b", operation) || !are_targets(a, targets, operation))
        return NULL;
    th_context *ctx = th_context_of(a);
    th_scope_begin(ctx, operation);
    return th_scope_end(ctx, th_mse(cosine(a, b), targets));
}

/* softplus(log sum exp) over the pairs that count. The others have a number whose exponential is 0; infinity would make
 * the gradient NaN if no pair counts. */
static th_tensor *cosent(th_tensor *a, th_tensor *b, th_tensor *targets, double scale)
{
    static const double never = -1e12;
    th_tensor *score = th_scale(cosine(a, b), scale);
    th_tensor *difference = th_sub(th_unsqueeze(score, 0), th_unsqueeze(score, 1)); /* [i, j]: score j - score i */
    th_tensor *counts = th_greater(th_unsqueeze(targets, 1), th_unsqueeze(targets, 0));
    th_tensor *other = th_full(th_context_of(a), th_dtype_of(a), TH_SHAPE(1), never);
    return th_softplus(th_log_sum_exp(th_where(counts, difference, other), TH_ALL_AXES, NULL));
}

th_tensor *th_cosent_loss(th_tensor *a, th_tensor *b, th_tensor *targets, double scale)
{
    static const char operation[] = "cosent_loss";
    if (!are_embeddings(a, "a", b, "b", operation) || !are_targets(a, targets, operation))
        return NULL;
    th_context *ctx = th_context_of(a);
    th_scope_begin(ctx, operation);
    return th_scope_end(ctx, cosent(a, b, targets, scale == 0 ? 20 : scale));
}

/* Returns the cross entropy of finding row i of `to` for row i of `from`. */
static th_tensor *find_loss(th_tensor *from, th_tensor *to, double scale)
{
    const int64_t count = th_size(from, 0);
    th_tensor *numbers = th_arange(th_context_of(from), TH_INT64, 0, (double)count, 1);
    return th_cross_entropy(th_scale(th_matmul(from, th_swap_axes(to, 0, 1)), scale), numbers, NULL);
}

static th_tensor *ranking(th_tensor *anchors, th_tensor *positives, th_tensor *negatives, double scale, bool symmetric)
{
    anchors = th_unit_length(anchors);
    positives = th_unit_length(positives);
    th_tensor *candidates = positives;
    if (negatives)
        candidates = th_concat((th_tensor *const[]){positives, th_unit_length(negatives)}, 2, 0);
    th_tensor *loss = find_loss(anchors, candidates, scale);
    return symmetric ? th_scale(th_add(loss, find_loss(positives, anchors, scale)), 0.5) : loss;
}

th_tensor *th_ranking_loss(th_tensor *anchors, th_tensor *positives, th_tensor *negatives,
                           const th_ranking_options *options)
{
    static const char operation[] = "ranking_loss";
    const th_ranking_options o = options ? *options : (th_ranking_options){0};
    if (!are_embeddings(anchors, "anchors", positives, "positives", operation))
        return NULL;
    th_context *ctx = th_context_of(anchors);
    if (negatives && !th_usable_tensor(negatives, ctx, operation, "negatives"))
        return NULL;
    if (negatives && (th_ndim(negatives) != 2 || th_size(negatives, 1) != th_size(anchors, 1))) {
        const th_shape n = th_shape_of(negatives);
        th_fail(ctx, TH_ERROR_SHAPE, operation, "negatives must be (M, %lld); they are %s",
                (long long)th_size(anchors, 1), TH_SIZES_TEXT(n.ndim, n.size));
        return NULL;
    }
    th_scope_begin(ctx, operation);
    return th_scope_end(ctx, ranking(anchors, positives, negatives, o.scale == 0 ? 20 : o.scale, o.symmetric));
}

static th_tensor *distance(th_tensor *a, th_tensor *b, th_distance kind)
{
    if (kind == TH_COSINE)
        return th_add_scalar(th_neg(cosine(a, b)), 1);
    th_tensor *difference = th_sub(a, b);
    return th_sqrt(th_add_scalar(th_sum(th_mul(difference, difference), TH_AXES(1), NULL), 1e-24));
}

th_tensor *th_triplet_loss(th_tensor *anchors, th_tensor *positives, th_tensor *negatives,
                           const th_triplet_options *options)
{
    static const char operation[] = "triplet_loss";
    const th_triplet_options o = options ? *options : (th_triplet_options){0};
    if (!are_embeddings(anchors, "anchors", positives, "positives", operation) ||
        !are_embeddings(anchors, "anchors", negatives, "negatives", operation))
        return NULL;
    th_context *ctx = th_context_of(anchors);
    if ((unsigned)o.distance > TH_COSINE) {
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "unknown distance: %d", (int)o.distance);
        return NULL;
    }
    const double margin = o.margin != 0 ? o.margin : o.distance == TH_COSINE ? 0.5 : 5;
    th_scope_begin(ctx, operation);
    th_tensor *more = th_sub(distance(anchors, positives, o.distance), distance(anchors, negatives, o.distance));
    return th_scope_end(ctx, th_mean(th_relu(th_add_scalar(more, margin)), TH_ALL_AXES, NULL));
}
