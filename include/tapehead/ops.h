/* The built-in operations.
 *
 * Each takes tensors and attributes and returns a tensor that belongs to the tape. It is recorded if an input requires
 * a gradient. If an error is pending or a required tensor is NULL, it returns NULL (contract 3 in tapehead.h). All
 * floating inputs of a call must have the same type. "Broadcast" means NumPy's rules.
 *
 * Letters: B batch, T query length, S key length, H heads, D head size, E embedding, V vocabulary, N any leading
 * dimensions. */
#ifndef TAPEHEAD_OPS_H
#define TAPEHEAD_OPS_H

#include "tapehead/base.h"

TH_BEGIN_DECLS

/* -- shape: views share memory and run no kernel, forward or backward -- */

/* Returns the same elements in row-major order with another shape; one size may be -1. The result is a view if x's
 * strides allow it, otherwise a view of a contiguous copy. */
TH_API th_tensor *th_reshape(th_tensor *x, th_shape shape);

/* Permutes the axes: axis i of the result is axis order[i] of x. Example: th_transpose(x, TH_AXES(0, 2, 1)). */
TH_API th_tensor *th_transpose(th_tensor *x, th_shape order);

/* Exchanges two axes. */
TH_API th_tensor *th_swap_axes(th_tensor *x, int axis_a, int axis_b);

/* Returns the elements start, start + step, ... before stop of one axis; step >= 1. Negative start and stop count from
 * the end. If start = stop, the result is empty. Errors: TH_ERROR_INDEX for bounds outside [0, size] and for start >
 * stop (Python's slices clip them instead); TH_ERROR_ARGUMENT for the step. */
TH_API th_tensor *th_slice(th_tensor *x, int axis, int64_t start, int64_t stop, int64_t step);

/* Returns the slice at one index, without the axis. */
TH_API th_tensor *th_select(th_tensor *x, int axis, int64_t index);

/* Returns a view in which axes of size 1 are repeated to the sizes in `shape`. `shape` may have new leading axes; -1
 * keeps a size. The gradient sums over the repetitions. */
TH_API th_tensor *th_expand(th_tensor *x, th_shape shape);

/* Removes an axis of size 1. */
TH_API th_tensor *th_squeeze(th_tensor *x, int axis);

/* Inserts an axis of size 1; it is axis `axis` of the result. */
TH_API th_tensor *th_unsqueeze(th_tensor *x, int axis);

/* Returns a view of the same values through which no gradient passes. */
TH_API th_tensor *th_detach(th_tensor *x);

/* -- copying and indexing -- */

/* Returns x itself if it is contiguous, otherwise a contiguous copy. */
TH_API th_tensor *th_contiguous(th_tensor *x);

/* Converts the elements to another type by C's rules. Differentiable between floating types. Returns x itself if it has
 * this type already.
 *
 * Storage types convert to the floating types, TH_BFLOAT16, TH_FLOAT16, TH_Q8_0 and TH_Q4_0. Floating types convert to
 * these four. x (.., n) becomes (.., n / 32) in TH_Q8_0 and TH_Q4_0; n must be a multiple of 32. Rounding: TH_BFLOAT16
 * and TH_FLOAT16 to nearest, ties to even; TH_Q8_0 and TH_Q4_0 as ggml's reference, except that a block with NaN or an
 * infinite number becomes NaN. In the floating types every number has the value that ggml's reference computes in
 * float32. */
TH_API th_tensor *th_cast(th_tensor *x, th_dtype dtype);

/* Tiles x as numpy.tile does: times[i] copies along axis i. If `times` has more axes than x, the additional ones are
 * leading axes. */
TH_API th_tensor *th_repeat(th_tensor *x, th_shape times);

/* Joins `count` tensors along an existing axis. */
TH_API th_tensor *th_concat(th_tensor *const *xs, int count, int axis);

/* Joins `count` tensors of one shape along a new axis, which is axis `axis` of the result. */
TH_API th_tensor *th_stack(th_tensor *const *xs, int count, int axis);

/* Splits one axis into consecutive views: parts[i] has size sizes[i]. The sizes must add up to the axis's size. */
TH_API th_status th_split(th_tensor *x, int axis, int count, const int64_t *sizes, th_tensor **parts) TH_MUST_CHECK;

/* y[i, j, ...] = x[.., index[i, j, ...], ..] at `axis`, as PyTorch's gather. index is int32 or int64. It has as many
 * dimensions as x and is not larger than x on the other axes. */
TH_API th_tensor *th_gather(th_tensor *x, int axis, th_tensor *index);

/* Selects rows of table (V, E) by indices (N) -> (N, E). Backward adds rows in a fixed order. */
TH_API th_tensor *th_embedding(th_tensor *table, th_tensor *indices);

/* -- matrix products -- */

/* The optional operands of th_dense. */
typedef struct th_dense_options {
    th_tensor *bias;     /* (out) */
    th_tensor *residual; /* (N, out), added to the result; saves one pass over memory compared with th_add */
} th_dense_options;

/* y = x Wᵀ + bias + residual: x (N, in), weight (out, in) -> (N, out). Rows of x whose output gradient is exactly 0 do
 * not take part in dW. */
TH_API th_tensor *th_dense(th_tensor *x, th_tensor *weight, const th_dense_options *options);

/* a (N, m, k) @ b (N, k, n) -> (N, m, n), with broadcast leading dimensions. Operands may have any strides: transposed
 * views are not copied. One-dimensional operands as in NumPy: a (k) is a row, b (k) a column, and this dimension is
 * dropped from the result. */
TH_API th_tensor *th_matmul(th_tensor *a, th_tensor *b);

/* Where th_masked_matmul applies its mask. */
typedef enum th_mask_side {
    TH_MASK_RESULT, /* keep broadcasts to the result (N, m, n); masked entries are 0 */
    TH_MASK_LEFT    /* keep broadcasts to a (N, m, k); the sums leave masked entries out */
} th_mask_side;

/* a @ b without the masked pairs. With TH_MASK_RESULT, keep = false masks the pair of a row of a and a column of b.
 * With TH_MASK_LEFT it masks the pair of a row of a and a row of b. NaN in masked pairs reaches neither the result nor
 * a gradient. If keep is NULL, nothing is masked. The bits are then the same as with a keep that is true everywhere. */
TH_API th_tensor *th_masked_matmul(th_tensor *a, th_tensor *b, th_tensor *keep, th_mask_side side);

/* -- arithmetic, broadcast -- */

TH_API th_tensor *th_add(th_tensor *a, th_tensor *b);     /* a + b */
TH_API th_tensor *th_sub(th_tensor *a, th_tensor *b);     /* a - b */
TH_API th_tensor *th_mul(th_tensor *a, th_tensor *b);     /* a b, elementwise */
TH_API th_tensor *th_div(th_tensor *a, th_tensor *b);     /* a / b */
TH_API th_tensor *th_pow(th_tensor *a, th_tensor *b);     /* a^b; d/db is 0 where a = 0 and b >= 0 */
TH_API th_tensor *th_maximum(th_tensor *a, th_tensor *b); /* max(a, b), NaN if either is; ties halve the gradient */
TH_API th_tensor *th_minimum(th_tensor *a, th_tensor *b); /* min(a, b), NaN if either is; ties halve the gradient */
TH_API th_tensor *th_where(th_tensor *condition, th_tensor *a, th_tensor *b); /* condition (bool) ? a : b */

/* -- elementwise -- */

TH_API th_tensor *th_neg(th_tensor *x);                         /* -x */
TH_API th_tensor *th_scale(th_tensor *x, double factor);        /* factor x */
TH_API th_tensor *th_add_scalar(th_tensor *x, double number);   /* x + number */
TH_API th_tensor *th_pow_scalar(th_tensor *x, double exponent); /* x^exponent */
TH_API th_tensor *th_exp(th_tensor *x);                         /* e^x */
TH_API th_tensor *th_log(th_tensor *x);                         /* natural logarithm */
TH_API th_tensor *th_sqrt(th_tensor *x);                        /* square root; gradient infinite at 0 */
TH_API th_tensor *th_rsqrt(th_tensor *x);                       /* 1 / sqrt(x) */
TH_API th_tensor *th_sin(th_tensor *x);                         /* sine of radians */
TH_API th_tensor *th_cos(th_tensor *x);                         /* cosine of radians */
TH_API th_tensor *th_abs(th_tensor *x);                         /* |x|; gradient 0 at 0 */
TH_API th_tensor *th_tanh(th_tensor *x);                        /* hyperbolic tangent */
TH_API th_tensor *th_sigmoid(th_tensor *x);                     /* 1 / (1 + e^-x) */
TH_API th_tensor *th_softplus(th_tensor *x);                    /* log(1 + e^x), without overflow */
TH_API th_tensor *th_relu(th_tensor *x);                        /* max(x, 0); gradient 0 at 0 */
TH_API th_tensor *th_relu_squared(th_tensor *x);                /* max(x, 0)² (So et al. 2021); gradient 2 max(x, 0) */
TH_API th_tensor *th_gelu(th_tensor *x);                        /* x Φ(x) with erf (Hendrycks & Gimpel 2016) */
TH_API th_tensor *th_gelu_tanh(th_tensor *x);                   /* x/2 (1 + tanh(sqrt(2/π) (x + 0.044715 x³))) */
TH_API th_tensor *th_silu(th_tensor *x);                        /* x sigmoid(x) */

/* min(max(x, low), high). The gradient passes where low <= x <= high. NaN stays NaN. */
TH_API th_tensor *th_clamp(th_tensor *x, double low, double high);

/* In training, sets each element to 0 with probability p, otherwise to x / (1 - p) (Srivastava et al. 2014). Returns x
 * itself in evaluation mode or if p = 0. 0 <= p < 1. */
TH_API th_tensor *th_dropout(th_tensor *x, double p);

/* residual + th_dropout(x, p), bit for bit, in one operation: it saves one pass over memory, and x is not saved. x and
 * residual must have the same shape (TH_ERROR_SHAPE; nothing broadcasts). */
TH_API th_tensor *th_dropout_residual(th_tensor *x, double p, th_tensor *residual);

/* -- reductions over axes; TH_ALL_AXES for all -- */

/* Options of reductions. */
typedef struct th_reduce_options {
    bool keep_axes;    /* reduced axes remain, with size 1 */
    double correction; /* th_variance divides by count - correction; 0: the population variance */
} th_reduce_options;

/* Sum over the axes. The sum of no elements is 0. */
TH_API th_tensor *th_sum(th_tensor *x, th_shape axes, const th_reduce_options *options);

/* Mean over the axes. The mean of no elements is NaN. */
TH_API th_tensor *th_mean(th_tensor *x, th_shape axes, const th_reduce_options *options);

/* Mean of (x - mean)² over the axes. The variance of no elements is NaN. */
TH_API th_tensor *th_variance(th_tensor *x, th_shape axes, const th_reduce_options *options);

/* Maximum over the axes; NaN if an element is NaN. Equal maxima share the gradient evenly. TH_ERROR_SHAPE if the axes
 * have no elements. */
TH_API th_tensor *th_max(th_tensor *x, th_shape axes, const th_reduce_options *options);

/* log sum exp(x) over the axes, without overflow. For no elements it is -inf. */
TH_API th_tensor *th_log_sum_exp(th_tensor *x, th_shape axes, const th_reduce_options *options);

/* -- along one axis -- */

TH_API th_tensor *th_softmax(th_tensor *x, int axis);     /* e^x / sum e^x */
TH_API th_tensor *th_log_softmax(th_tensor *x, int axis); /* x - log sum e^x */

/* Options of th_layer_norm and th_rms_norm. */
typedef struct th_norm_options {
    th_tensor *weight, *bias; /* (E) or NULL; th_rms_norm takes no bias */
    double eps;               /* 0 means 1e-5 */
} th_norm_options;

/* (x - mean) / sqrt(variance + eps) * weight + bias, with mean and variance over the last axis (Ba et al. 2016). */
TH_API th_tensor *th_layer_norm(th_tensor *x, const th_norm_options *options);

/* x / sqrt(mean(x²) + eps) * weight, with the mean over the last axis (Zhang & Sennrich 2019). */
TH_API th_tensor *th_rms_norm(th_tensor *x, const th_norm_options *options);

/* -- losses: scalars -- */

/* Options of th_cross_entropy and th_dense_cross_entropy. */
typedef struct th_cross_entropy_options {
    int64_t ignore_index;   /* targets of this value do not count; needs .ignore */
    bool ignore;            /* TH_IGNORE(-100) sets both */
    double label_smoothing; /* 0 .. 1: this share of the target is spread over all classes (Szegedy et al. 2016) */
    double normalizer;      /* the loss is sum / normalizer; 0: the mean over counted targets */
} th_cross_entropy_options;

/* Sets .ignore_index and .ignore. */
#define TH_IGNORE(index) .ignore_index = (index), .ignore = true

/* -log softmax(logits)[target]: logits (N, V), targets (N) int32/int64. 0 if no target counts. TH_ERROR_INDEX for a
 * target outside [0, V) that is not ignored. */
TH_API th_tensor *th_cross_entropy(th_tensor *logits, th_tensor *targets, const th_cross_entropy_options *options);

/* th_cross_entropy of the logits x weightᵀ: x (N, E), weight (V, E), targets (N). A classifier and its loss as one
 * operation. Logits exist only for a chunk of rows at a time: 512 rows or about 2^21 numbers. While recording, forward
 * computes the gradients of x and weight with each chunk if their gradient buffers are empty. Otherwise backward
 * recomputes the logits. */
TH_API th_tensor *th_dense_cross_entropy(th_tensor *x, th_tensor *weight, th_tensor *targets,
                                         const th_cross_entropy_options *options);

/* Returns the number of targets that count; 0 on error. To accumulate gradients over several micro-batches, use the sum
 * of their counts as the normalizer of each. */
TH_API int64_t th_target_count(th_tensor *targets, const th_cross_entropy_options *options);

/* mean((a - b)²), broadcast. */
TH_API th_tensor *th_mse(th_tensor *a, th_tensor *b);

/* -- without a gradient -- */

/* These return bool, broadcast. a and b have the same type, which may be any. */

TH_API th_tensor *th_equal(th_tensor *a, th_tensor *b);         /* a == b */
TH_API th_tensor *th_not_equal(th_tensor *a, th_tensor *b);     /* a != b */
TH_API th_tensor *th_less(th_tensor *a, th_tensor *b);          /* a < b */
TH_API th_tensor *th_less_equal(th_tensor *a, th_tensor *b);    /* a <= b */
TH_API th_tensor *th_greater(th_tensor *a, th_tensor *b);       /* a > b */
TH_API th_tensor *th_greater_equal(th_tensor *a, th_tensor *b); /* a >= b */
TH_API th_tensor *th_logical_and(th_tensor *a, th_tensor *b);   /* a and b, both bool */
TH_API th_tensor *th_logical_or(th_tensor *a, th_tensor *b);    /* a or b, both bool */
TH_API th_tensor *th_logical_not(th_tensor *a);                 /* not a, bool */

/* Returns the index (int64) of the maximum along `axis`, without the axis. The first of equal elements wins; NaN
 * wins over numbers. */
TH_API th_tensor *th_argmax(th_tensor *x, int axis);

/* th_argmax(th_neg(x), axis): the index of the minimum. */
TH_API th_tensor *th_argmin(th_tensor *x, int axis);

/* Returns the indices (int64) of the k largest elements along `axis`, the largest first; the axis has size k. The first of
 * equal elements is first; NaN is before numbers. th_gather(x, axis, indices) has the elements, with their gradient.
 * TH_ERROR_ARGUMENT for k outside [0, size of the axis]. */
TH_API th_tensor *th_topk(th_tensor *x, int axis, int64_t k);

/* indices (N) -> (N, classes) of the default floating type: 1 at the index, 0 elsewhere. */
TH_API th_tensor *th_one_hot(th_tensor *indices, int64_t classes);

/* -- rotary positions -- */

/* The pairs of elements that are rotated together. */
typedef enum th_rotary_pairing {
    TH_ROTARY_HALVES,   /* i with i + width / 2: GPT-NeoX, Llama in transformers */
    TH_ROTARY_NEIGHBORS /* 2 i with 2 i + 1: Su et al. 2021, GPT-J, Llama as published */
} th_rotary_pairing;

/* How to lower the frequencies base^(-2 i / width), in radians for each position. A model that was trained on short
 * texts can then read longer ones. The formulas are those of transformers. */
typedef enum th_rotary_scaling_kind {
    TH_ROTARY_UNSCALED,
    /* Every frequency f becomes f / factor (Chen et al. 2023). */
    TH_ROTARY_LINEAR,
    /* High frequencies stay and low ones become f / factor (Llama 3.1, Grattafiori et al. 2024): f becomes
     * s f + (1 - s) f / factor. Let r = original_length f / 2 pi, the rotations within original_length positions. s
     * rises linearly from 0 at r = low_freq_factor to 1 at r = high_freq_factor. */
    TH_ROTARY_LLAMA3,
    /* NTK-aware scaling by the length L of the sequence: if L > original_length, the base is multiplied by
     * (factor L / original_length - factor + 1)^(width / (width - 2)). */
    TH_ROTARY_DYNAMIC,
    /* YaRN (Peng et al. 2023): the frequency f of pair i becomes (1 - r) f + r f / factor. r rises linearly with i,
     * from 0 at d(beta_fast) to 1 at d(beta_slow). d(b) = width log(original_length / 2 pi b) / (2 log(base)) is the pair
     * that makes b rotations within original_length positions. d is rounded down for beta_fast and up for beta_slow,
     * unless no_truncate is set, and then limited to [0, width - 1]. Cosines and sines are multiplied by
     * attention_factor. */
    TH_ROTARY_YARN,
    /* LongRoPE (Ding et al. 2024): the frequency f of pair i becomes f / long_factor[i] if the length L of the sequence
     * is above original_length, otherwise f / short_factor[i]. Cosines and sines are multiplied by attention_factor. */
    TH_ROTARY_LONGROPE
} th_rotary_scaling_kind;

/* Frequency scaling. The members have the names of rope_parameters in transformers' config.json, except
 * original_length, which is original_max_position_embeddings there (TH_ROTARY_DYNAMIC: max_position_embeddings), and
 * no_truncate, which is the opposite of truncate.
 *
 * The length L of a sequence is 1 + its largest position in the call of th_rotary: in its row of .positions, or in all
 * of them if .positions is (T). Without .positions it is T. It does not depend on other sequences of a batch, while
 * transformers uses the longest sequence of the batch. All positions of a call are rotated for the same L. Keys in a
 * cache stay as they were rotated when they were stored. */
typedef struct th_rotary_scaling {
    th_rotary_scaling_kind kind;
    double factor;                            /* positive, for all kinds */
    double low_freq_factor, high_freq_factor; /* for TH_ROTARY_LLAMA3: 0 < low < high */
    int64_t original_length; /* for all but TH_ROTARY_LINEAR: the context length of the first training */
    /* For TH_ROTARY_YARN and TH_ROTARY_LONGROPE: the factor of cosines and sines. 0 means
     *   YARN      m(1), where m(s) = 1 + 0.1 s log(factor), or 1 if factor <= 1;
     *             m(mscale) / m(mscale_all_dim) if neither is 0
     *   LONGROPE  sqrt(1 + log(factor) / log(original_length)), or 1 if factor <= 1 */
    double attention_factor;
    double beta_fast, beta_slow;   /* for TH_ROTARY_YARN: 0 < slow <= fast; 0 means 32 and 1 */
    double mscale, mscale_all_dim; /* for TH_ROTARY_YARN; 0: none */
    bool no_truncate;              /* for TH_ROTARY_YARN */
    /* For TH_ROTARY_LONGROPE: [n_factors] positive numbers, n_factors = width / 2. Layers and models copy the arrays.
     * th_rotary does not: its backward reads them. */
    const double *short_factor, *long_factor;
    int64_t n_factors;
} th_rotary_scaling;

/* Options of th_rotary. */
typedef struct th_rotary_options {
    double base; /* 0 means 10000 */
    th_rotary_pairing pairing;
    int64_t width; /* the first `width` elements of each row are rotated; even; 0: all */
    th_rotary_scaling scaling;
    th_tensor *positions; /* int32/int64 (T) or (B, T), for x (B, ..., T, D); NULL: 0 .. T - 1 */
} th_rotary_options;

/* Rotary positions (Su et al. 2021): x (N, T, D) -> (N, T, D). Each pair (a, b) of a row becomes (a cos - b sin, b cos
 * + a sin). For pair i of the row at position p the angle is p f, where f is the frequency base^(-2 i / width), changed
 * by .scaling if it is given. Some kinds of scaling also multiply cosines and sines by a factor. Angles are computed in
 * float64. A row's bits depend on its position, and for some kinds of scaling on the length of its sequence. They do
 * not depend on its index in the tensor. x may have any strides, such as the heads of a packed projection. Backward
 * rotates the gradient back. */
TH_API th_tensor *th_rotary(th_tensor *x, const th_rotary_options *options);

/* -- attention -- */

/* Causal masks of T queries over S keys. */
typedef enum th_causal {
    TH_CAUSAL_NONE,
    TH_CAUSAL_TOP_LEFT,    /* query t sees key s if s <= t */
    TH_CAUSAL_BOTTOM_RIGHT /* query t sees key s if s <= t + S - T: the last query sees all keys */
} th_causal;

/* A window of visible keys; use TH_WINDOW. */
typedef struct th_window_range {
    bool given;
    int64_t left, right;
} th_window_range;

/* Query t sees keys p - left .. p + right. p is its position: from th_mask.positions if given, t + S - T with
 * TH_CAUSAL_BOTTOM_RIGHT, otherwise t. Negative: unlimited on this side. */
#ifdef __cplusplus
#define TH_WINDOW(left, right) (th_window_range{true, (left), (right)})
#else
#define TH_WINDOW(left, right) ((th_window_range){true, (left), (right)})
#endif

/* The (query, key) pairs that attention sees. All given parts combine: a pair must be visible in each of them, and
 * additive masks are summed. */
typedef struct th_mask {
    th_causal causal;
    th_window_range window;
    /* int32/int64 (T) or (B, T), for scores (B, ..., T, S); (T) for scores (T, S). Query t has position positions[b, t]
     * among the keys instead of its index in the tensor. Both causal masks, the window and ALiBi use this position. A
     * query whose keys come from a cache then has the same bits as in the whole sequence. Positions must not be
     * negative; they may exceed the last key. */
    th_tensor *positions;
    /* int32/int64. (B): keys s < valid_lengths[b] are visible. (B, T): a length for each query. For scores (T, S):
     * () or (T). Lengths outside [0, S] are TH_ERROR_INDEX. */
    th_tensor *valid_lengths;
    /* int32/int64 (T) or (B, T), for self-attention: the number of each token's document. Tokens that are next to each
     * other and have the same number are one document; queries see only keys of their own. So several documents share a
     * sequence. Outputs and gradients of q, k and v have the bits of separate sequences, fused or composed, in every
     * precision, and no pair of two documents is multiplied. Documents combine with causal order, the window, ALiBi and
     * additive, but not with the other tensors. For scores (T, T): (T). With grouped heads and q (H, T, D): (T). */
    th_tensor *documents;
    /* bool, broadcast to the scores (B, H, T, S): true is visible. */
    th_tensor *keep;
    /* Added to the scores: of their type, broadcast to them; may require a gradient. -inf masks its pair; finite values
     * never do. */
    th_tensor *additive;
} th_mask;

/* Options of th_scaled_dot_product_attention. */
typedef struct th_attention_options {
    const th_mask *mask;
    double scale; /* 0 means 1 / sqrt(D) */
    /* Scores become soft_cap tanh(scores / soft_cap) before anything is added (Gemma Team 2024). 0: off. */
    double soft_cap;
    /* ALiBi slopes (Press et al. 2022): -slope |s - position of the query| is added to the scores. Of the operands'
     * type, broadcast to the leading dimensions: (H), (B, H), ...; may require a gradient. */
    th_tensor *alibi;
    double dropout;          /* on the weights, in training */
    th_tensor **weights;     /* if not NULL, receives the softmax weights (N, T, S) before dropout */
    th_tensor **log_sum_exp; /* if not NULL, receives log sum exp of the scores (N, T); -inf for a query without keys */
} th_attention_options;

/* softmax(cap(q kᵀ scale) + alibi + mask) v: q (N, T, D), k (N, S, D), v (N, S, Dv) -> (N, T, Dv).
 *
 * Leading dimensions must agree. Exception: the heads axis (-3) of k and v may be a divisor of q's. Then query head
 * h uses key head h / (Hq / Hkv) (grouped-query attention). A query without visible keys gives 0. No bit of the
 * output or of a gradient depends on a masked pair. The operation is fused and tiled (Rabe & Staats 2021, Dao et al.
 * 2022): nothing of size T x S is stored. It is composed of other operations if fusion is off or weights are
 * requested. */
TH_API th_tensor *th_scaled_dot_product_attention(th_tensor *q, th_tensor *k, th_tensor *v,
                                                  const th_attention_options *options);

/* Softmax over the last axis of scores (N, T, S) under a mask: masked entries are exactly 0; a row without visible keys
 * is all 0. */
TH_API th_tensor *th_masked_softmax(th_tensor *scores, const th_mask *mask);

/* Returns all parts of a mask as one bool tensor, broadcast to scores of this shape (N, T, S). NULL without an error if
 * the mask masks nothing; th_masked_matmul accepts this NULL as its keep. */
TH_API th_tensor *th_mask_keep(th_context *ctx, const th_mask *mask, th_shape scores);

/* Writes a sentence to text (size bytes) that says why a pair is masked, or that it is visible: "key 5 is past
 * valid_lengths[1] = 3". scores: (N, T, S); index: the pair's index in it. */
TH_API th_status th_mask_explain(th_context *ctx, const th_mask *mask, th_shape scores, th_shape index, char *text,
                                 size_t size) TH_MUST_CHECK;

/* -- macros of the same names, which record the caller's file and line for error messages -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_reshape(...) TH_AT(th_reshape(__VA_ARGS__))
#define th_transpose(...) TH_AT(th_transpose(__VA_ARGS__))
#define th_swap_axes(...) TH_AT(th_swap_axes(__VA_ARGS__))
#define th_slice(...) TH_AT(th_slice(__VA_ARGS__))
#define th_select(...) TH_AT(th_select(__VA_ARGS__))
#define th_expand(...) TH_AT(th_expand(__VA_ARGS__))
#define th_squeeze(...) TH_AT(th_squeeze(__VA_ARGS__))
#define th_unsqueeze(...) TH_AT(th_unsqueeze(__VA_ARGS__))
#define th_detach(...) TH_AT(th_detach(__VA_ARGS__))
#define th_contiguous(...) TH_AT(th_contiguous(__VA_ARGS__))
#define th_cast(...) TH_AT(th_cast(__VA_ARGS__))
#define th_repeat(...) TH_AT(th_repeat(__VA_ARGS__))
#define th_concat(...) TH_AT(th_concat(__VA_ARGS__))
#define th_stack(...) TH_AT(th_stack(__VA_ARGS__))
#define th_gather(...) TH_AT(th_gather(__VA_ARGS__))
#define th_embedding(...) TH_AT(th_embedding(__VA_ARGS__))
#define th_dense(...) TH_AT(th_dense(__VA_ARGS__))
#define th_matmul(...) TH_AT(th_matmul(__VA_ARGS__))
#define th_masked_matmul(...) TH_AT(th_masked_matmul(__VA_ARGS__))
#define th_add(...) TH_AT(th_add(__VA_ARGS__))
#define th_sub(...) TH_AT(th_sub(__VA_ARGS__))
#define th_mul(...) TH_AT(th_mul(__VA_ARGS__))
#define th_div(...) TH_AT(th_div(__VA_ARGS__))
#define th_pow(...) TH_AT(th_pow(__VA_ARGS__))
#define th_maximum(...) TH_AT(th_maximum(__VA_ARGS__))
#define th_minimum(...) TH_AT(th_minimum(__VA_ARGS__))
#define th_where(...) TH_AT(th_where(__VA_ARGS__))
#define th_neg(...) TH_AT(th_neg(__VA_ARGS__))
#define th_scale(...) TH_AT(th_scale(__VA_ARGS__))
#define th_add_scalar(...) TH_AT(th_add_scalar(__VA_ARGS__))
#define th_pow_scalar(...) TH_AT(th_pow_scalar(__VA_ARGS__))
#define th_exp(...) TH_AT(th_exp(__VA_ARGS__))
#define th_log(...) TH_AT(th_log(__VA_ARGS__))
#define th_sqrt(...) TH_AT(th_sqrt(__VA_ARGS__))
#define th_rsqrt(...) TH_AT(th_rsqrt(__VA_ARGS__))
#define th_sin(...) TH_AT(th_sin(__VA_ARGS__))
#define th_cos(...) TH_AT(th_cos(__VA_ARGS__))
#define th_abs(...) TH_AT(th_abs(__VA_ARGS__))
#define th_clamp(...) TH_AT(th_clamp(__VA_ARGS__))
#define th_tanh(...) TH_AT(th_tanh(__VA_ARGS__))
#define th_sigmoid(...) TH_AT(th_sigmoid(__VA_ARGS__))
#define th_relu(...) TH_AT(th_relu(__VA_ARGS__))
#define th_softplus(...) TH_AT(th_softplus(__VA_ARGS__))
#define th_relu_squared(...) TH_AT(th_relu_squared(__VA_ARGS__))
#define th_gelu(...) TH_AT(th_gelu(__VA_ARGS__))
#define th_gelu_tanh(...) TH_AT(th_gelu_tanh(__VA_ARGS__))
#define th_silu(...) TH_AT(th_silu(__VA_ARGS__))
#define th_dropout(...) TH_AT(th_dropout(__VA_ARGS__))
#define th_dropout_residual(...) TH_AT(th_dropout_residual(__VA_ARGS__))
#define th_sum(...) TH_AT(th_sum(__VA_ARGS__))
#define th_mean(...) TH_AT(th_mean(__VA_ARGS__))
#define th_variance(...) TH_AT(th_variance(__VA_ARGS__))
#define th_max(...) TH_AT(th_max(__VA_ARGS__))
#define th_log_sum_exp(...) TH_AT(th_log_sum_exp(__VA_ARGS__))
#define th_softmax(...) TH_AT(th_softmax(__VA_ARGS__))
#define th_log_softmax(...) TH_AT(th_log_softmax(__VA_ARGS__))
#define th_layer_norm(...) TH_AT(th_layer_norm(__VA_ARGS__))
#define th_rms_norm(...) TH_AT(th_rms_norm(__VA_ARGS__))
#define th_cross_entropy(...) TH_AT(th_cross_entropy(__VA_ARGS__))
#define th_dense_cross_entropy(...) TH_AT(th_dense_cross_entropy(__VA_ARGS__))
#define th_mse(...) TH_AT(th_mse(__VA_ARGS__))
#define th_equal(...) TH_AT(th_equal(__VA_ARGS__))
#define th_not_equal(...) TH_AT(th_not_equal(__VA_ARGS__))
#define th_less(...) TH_AT(th_less(__VA_ARGS__))
#define th_less_equal(...) TH_AT(th_less_equal(__VA_ARGS__))
#define th_greater(...) TH_AT(th_greater(__VA_ARGS__))
#define th_greater_equal(...) TH_AT(th_greater_equal(__VA_ARGS__))
#define th_logical_and(...) TH_AT(th_logical_and(__VA_ARGS__))
#define th_logical_or(...) TH_AT(th_logical_or(__VA_ARGS__))
#define th_logical_not(...) TH_AT(th_logical_not(__VA_ARGS__))
#define th_argmax(...) TH_AT(th_argmax(__VA_ARGS__))
#define th_argmin(...) TH_AT(th_argmin(__VA_ARGS__))
#define th_topk(...) TH_AT(th_topk(__VA_ARGS__))
#define th_one_hot(...) TH_AT(th_one_hot(__VA_ARGS__))
#define th_scaled_dot_product_attention(...) TH_AT(th_scaled_dot_product_attention(__VA_ARGS__))
#define th_rotary(...) TH_AT(th_rotary(__VA_ARGS__))
#define th_masked_softmax(...) TH_AT(th_masked_softmax(__VA_ARGS__))
#define th_mask_keep(...) TH_AT(th_mask_keep(__VA_ARGS__))
#define th_split(...) TH_AT_STATUS(th_split(__VA_ARGS__))
#define th_mask_explain(...) TH_AT_STATUS(th_mask_explain(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
