/* The operations. Each takes tensors and attributes, returns a tensor of the tape and records itself when an input
 * requires a gradient. With an error pending, or given NULL, each returns NULL (contract 3). Floating inputs of one
 * call have one type; "broadcast" is NumPy's. Letters: B batch, T query length, S key length, H heads, D head size, E
 * embedding, V vocabulary, N any leading dimensions. */
#ifndef TAPEHEAD_OPS_H
#define TAPEHEAD_OPS_H

#include "tapehead/base.h"

TH_BEGIN_DECLS

/* -- shape: views share memory and run no kernel, forward or backward -- */
/* The same elements in row-major order under another shape; one size may be -1. A view where the strides allow, else
 * contiguous and a view. */
TH_API th_tensor *th_reshape(th_tensor *x, th_shape shape);
/* Axes in another order: y's axis i is x's axis order[i]. th_transpose(x, TH_AXES(0, 2, 1)). */
TH_API th_tensor *th_transpose(th_tensor *x, th_shape order);
/* Two axes exchanged. */
TH_API th_tensor *th_swap_axes(th_tensor *x, int axis_a, int axis_b);
/* Elements start, start + step, ... before stop of one axis; negative start and stop count from the end; step >= 1.
 * start = stop gives no elements. Errors: TH_ERROR_INDEX for bounds outside [0, size] and for a start behind stop
 * (unlike Python's slices, which are cut and empty then); TH_ERROR_ARGUMENT for the step. */
TH_API th_tensor *th_slice(th_tensor *x, int axis, int64_t start, int64_t stop, int64_t step);
/* The slice at one index, without the axis. */
TH_API th_tensor *th_select(th_tensor *x, int axis, int64_t index);
/* Sizes of 1 (and new leading dimensions) repeated to `shape` without a copy; -1 keeps a size. The gradient sums. */
TH_API th_tensor *th_expand(th_tensor *x, th_shape shape);
TH_API th_tensor *th_squeeze(th_tensor *x, int axis);   /* an axis of size 1 removed */
TH_API th_tensor *th_unsqueeze(th_tensor *x, int axis); /* an axis of size 1 inserted before `axis` (of the result) */
/* The same values without a path for gradients. A view. */
TH_API th_tensor *th_detach(th_tensor *x);

/* -- data movement -- */
TH_API th_tensor *th_contiguous(th_tensor *x); /* x itself if it is contiguous, else a copy */
/* Converted as C does; differentiable between floating types; x itself if it has the type. */
TH_API th_tensor *th_cast(th_tensor *x, th_dtype dtype);
/* Tiled times[i] along axis i, as numpy.tile; new leading dimensions allowed. */
TH_API th_tensor *th_repeat(th_tensor *x, th_shape times);
TH_API th_tensor *th_concat(th_tensor *const *xs, int count, int axis);
TH_API th_tensor *th_stack(th_tensor *const *xs, int count, int axis);
/* Views of consecutive parts of one axis, sizes[i] long each (they must add up), into parts[count]. */
TH_API th_status th_split(th_tensor *x, int axis, int count, const int64_t *sizes, th_tensor **parts) TH_MUST_CHECK;
/* y[i, j, ...] = x[.., index[i, j, ...], ..] along `axis`; index int32/int64 of x's number of dimensions, not larger
 * than x on the other axes (PyTorch's gather). */
TH_API th_tensor *th_gather(th_tensor *x, int axis, th_tensor *index);
/* Rows of table (V, E) at indices (N): (N, E). Backward adds rows in a fixed order. */
TH_API th_tensor *th_embedding(th_tensor *table, th_tensor *indices);

/* -- products -- */
/* y = x Wᵀ + b + residual: x (N, in), weight (out, in), bias (out) or NULL -> (N, out). Rows of x whose output gradient
 * is exactly 0 take no part in dW. */
typedef struct th_dense_options {
    th_tensor *bias;
    th_tensor *residual; /* (N, out), added to the result: one pass less over memory than th_add */
} th_dense_options;
TH_API th_tensor *th_dense(th_tensor *x, th_tensor *weight, const th_dense_options *options);
/* a (N, m, k) @ b (N, k, n) -> (N, m, n), leading dimensions broadcast; read through their strides, so transposed views
 * cost nothing. One-dimensional operands as NumPy: a (k) is a row, b (k) a column, and that dimension is dropped from
 * the result. */
TH_API th_tensor *th_matmul(th_tensor *a, th_tensor *b);
/* Where a mask of th_masked_matmul stands. */
typedef enum th_mask_side { TH_MASK_RESULT, TH_MASK_LEFT } th_mask_side;
/* a @ b without the hidden pairs (keep = false): NaN in them reaches neither the result nor a gradient. TH_MASK_RESULT:
 * keep broadcasts to the result (N, m, n), whose hidden entries are 0. TH_MASK_LEFT: keep broadcasts to a (N, m, k),
 * whose hidden entries are left out of the sums. If keep is NULL, nothing is hidden. The bits are then the same as with
 * a keep that is true everywhere. */
TH_API th_tensor *th_masked_matmul(th_tensor *a, th_tensor *b, th_tensor *keep, th_mask_side side);

/* -- arithmetic, broadcast -- */
TH_API th_tensor *th_add(th_tensor *a, th_tensor *b);     /* a + b */
TH_API th_tensor *th_sub(th_tensor *a, th_tensor *b);     /* a - b */
TH_API th_tensor *th_mul(th_tensor *a, th_tensor *b);     /* a b */
TH_API th_tensor *th_div(th_tensor *a, th_tensor *b);     /* a / b */
TH_API th_tensor *th_pow(th_tensor *a, th_tensor *b);     /* a^b; d/db is 0 where a = 0 and b >= 0 */
TH_API th_tensor *th_maximum(th_tensor *a, th_tensor *b); /* ties share the gradient half and half; NaN wins */
TH_API th_tensor *th_minimum(th_tensor *a, th_tensor *b); /* likewise */
TH_API th_tensor *th_where(th_tensor *condition, th_tensor *a, th_tensor *b); /* bool ? a : b */

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
TH_API th_tensor *th_abs(th_tensor *x);                         /* gradient 0 at 0 */
TH_API th_tensor *th_clamp(th_tensor *x, double low,
                           double high);      /* gradient passes on the closed interval; NaN passes through */
TH_API th_tensor *th_tanh(th_tensor *x);      /* hyperbolic tangent */
TH_API th_tensor *th_sigmoid(th_tensor *x);   /* 1 / (1 + e^-x) */
TH_API th_tensor *th_relu(th_tensor *x);      /* gradient 0 at 0 */
TH_API th_tensor *th_gelu(th_tensor *x);      /* x Φ(x) with erf (Hendrycks & Gimpel 2016) */
TH_API th_tensor *th_gelu_tanh(th_tensor *x); /* x/2 (1 + tanh(sqrt(2/π) (x + 0.044715 x³))) */
TH_API th_tensor *th_silu(th_tensor *x);      /* x sigmoid(x) */
/* In training each element is 0 with probability p, else x / (1 - p) (Srivastava et al. 2014); in evaluation, or at p =
 * 0, x itself. 0 <= p < 1. */
TH_API th_tensor *th_dropout(th_tensor *x, double p);
/* residual + th_dropout(x, p), bit for bit, as one operation: one pass less over memory, and x is not kept. Both have
 * one shape (nothing is broadcast: TH_ERROR_SHAPE). */
TH_API th_tensor *th_dropout_residual(th_tensor *x, double p, th_tensor *residual);

/* -- reductions over axes; TH_ALL_AXES for all -- */
typedef struct th_reduce_options {
    bool keep_axes;    /* reduced axes stay with size 1 */
    double correction; /* variance: divide by count - correction; 0: the population variance */
} th_reduce_options;
TH_API th_tensor *th_sum(th_tensor *x, th_shape axes, const th_reduce_options *options);      /* of nothing: 0 */
TH_API th_tensor *th_mean(th_tensor *x, th_shape axes, const th_reduce_options *options);     /* of nothing: NaN */
TH_API th_tensor *th_variance(th_tensor *x, th_shape axes, const th_reduce_options *options); /* mean of (x - mean)² */
/* The largest; of nothing: an error; NaN wins; ties share the gradient evenly. */
TH_API th_tensor *th_max(th_tensor *x, th_shape axes, const th_reduce_options *options);
TH_API th_tensor *th_log_sum_exp(th_tensor *x, th_shape axes,
                                 const th_reduce_options *options); /* log sum exp(x), stable; of nothing: -inf */

/* -- along one axis -- */
TH_API th_tensor *th_softmax(th_tensor *x, int axis);     /* e^x / sum e^x */
TH_API th_tensor *th_log_softmax(th_tensor *x, int axis); /* x - log sum e^x */
/* Mean over the last axis, then (x - mean) / sqrt(variance + eps) * weight + bias (Ba et al. 2016). weight, bias (E) or
 * NULL. eps 0: 1e-5. */
typedef struct th_norm_options {
    th_tensor *weight, *bias; /* (E); rms_norm has no bias */
    double eps;               /* 0: 1e-5 */
} th_norm_options;
TH_API th_tensor *th_layer_norm(th_tensor *x, const th_norm_options *options);
/* x / sqrt(mean(x²) + eps) * weight (Zhang & Sennrich 2019). */
TH_API th_tensor *th_rms_norm(th_tensor *x, const th_norm_options *options);

/* -- losses: scalars -- */
typedef struct th_cross_entropy_options {
    int64_t ignore_index;   /* with .ignore, and an error without: targets of this value do not count; */
    bool ignore;            /* TH_IGNORE(-100) sets both */
    double label_smoothing; /* 0 .. 1: this share of the target is spread over all classes (Szegedy et al. 2016) */
    double normalizer;      /* 0: the mean over counted targets; else sum / normalizer */
} th_cross_entropy_options;
#define TH_IGNORE(index) .ignore_index = (index), .ignore = true
/* -log softmax(logits)[target], logits (N, V), targets (N) int32/int64. No counted target: 0. Errors: a target outside
 * [0, V) that is not ignored. */
TH_API th_tensor *th_cross_entropy(th_tensor *logits, th_tensor *targets, const th_cross_entropy_options *options);
/* th_cross_entropy of the logits x weightᵀ, x (N, E), weight (V, E), targets (N): a classifier and its loss as one
 * operation. Logits exist for a chunk of rows at a time only, 512 or about 2^21 numbers, and while recording their
 * gradients are computed with them, straight into those of x and weight where these are empty; otherwise backward
 * recomputes the logits. */
TH_API th_tensor *th_dense_cross_entropy(th_tensor *x, th_tensor *weight, th_tensor *targets,
                                         const th_cross_entropy_options *options);
/* How many targets count: the normalizer over several micro-batches is their sum. 0 on error. */
TH_API int64_t th_target_count(th_tensor *targets, const th_cross_entropy_options *options);
/* mean((a - b)²), broadcast. */
TH_API th_tensor *th_mse(th_tensor *a, th_tensor *b);

/* -- without a gradient -- */
TH_API th_tensor *th_equal(th_tensor *a, th_tensor *b);      /* these six: bool, broadcast, any type (both the same) */
TH_API th_tensor *th_not_equal(th_tensor *a, th_tensor *b);  /* a != b */
TH_API th_tensor *th_less(th_tensor *a, th_tensor *b);       /* a < b */
TH_API th_tensor *th_less_equal(th_tensor *a, th_tensor *b); /* a <= b */
TH_API th_tensor *th_greater(th_tensor *a, th_tensor *b);    /* a > b */
TH_API th_tensor *th_greater_equal(th_tensor *a, th_tensor *b); /* a >= b */
TH_API th_tensor *th_logical_and(th_tensor *a, th_tensor *b);   /* bool, broadcast */
TH_API th_tensor *th_logical_or(th_tensor *a, th_tensor *b);    /* a or b */
TH_API th_tensor *th_logical_not(th_tensor *a);                 /* not a */
TH_API th_tensor *th_argmax(th_tensor *x, int axis); /* int64, without the axis; the first of equals; NaN wins */
TH_API th_tensor *th_one_hot(th_tensor *indices,
                             int64_t classes); /* (N) -> (N, classes) of the default floating type */

/* -- attention -- */
/* Which elements are turned together. */
typedef enum th_rotary_pairing {
    TH_ROTARY_HALVES,   /* i with i + width / 2: GPT-NeoX, Llama in transformers */
    TH_ROTARY_NEIGHBORS /* 2 i with 2 i + 1: Su et al. 2021, GPT-J, Llama as published */
} th_rotary_pairing;

/* How models that were trained on short texts are made to read longer ones: their frequencies, base^(-2 i / width)
 * radians from one position to the next, are lowered. The members are called as in the rope_scaling of transformers'
 * config.json, but for original_length: original_max_position_embeddings there. */
typedef enum th_rotary_scaling_kind {
    TH_ROTARY_UNSCALED,
    TH_ROTARY_LINEAR, /* every frequency f becomes f / factor: as if positions were (Chen et al. 2023) */
    TH_ROTARY_LLAMA3 /* high ones stay, low ones become f / factor (Llama 3.1, Grattafiori et al. 2024): f becomes s f +
                         (1 - s) f / factor, s rising from 0 to 1 while the turns in original_length positions,
                         original_length f / 2 pi, rise from low_freq_factor to high_freq_factor */
} th_rotary_scaling_kind;
typedef struct th_rotary_scaling {
    th_rotary_scaling_kind kind;
    double factor;                            /* positive, with both kinds */
    double low_freq_factor, high_freq_factor; /* this and the next with TH_ROTARY_LLAMA3: 0 < low < high */
    int64_t original_length;                  /* what the model was first trained on */
} th_rotary_scaling;

typedef struct th_rotary_options {
    double base; /* 0: 10000 */
    th_rotary_pairing pairing;
    int64_t width; /* of every row the first so many elements are turned, an even number; 0: all */
    th_rotary_scaling scaling;
    th_tensor *positions; /* int32/int64 (T) or (B, T), whatever stands between; NULL: 0 .. T - 1 */
} th_rotary_options;
/* Rotary positions (Su et al. 2021): x (N, T, D), in which pair i of the row at position p, (a, b), becomes (a cos - b
 * sin, b cos + a sin) of the angle p base^(-2 i / width), or p times what scaling makes of that frequency. A row's bits
 * depend on its position, not on its place. Its gradient is turned back. Any strides, as of heads in a packed
 * projection, are read where they are. Angles are computed in float64. */
TH_API th_tensor *th_rotary(th_tensor *x, const th_rotary_options *options);

typedef enum th_causal {
    TH_CAUSAL_NONE,
    TH_CAUSAL_TOP_LEFT,    /* query t sees key s if s <= t */
    TH_CAUSAL_BOTTOM_RIGHT /* query t sees key s if s <= t + S - T: the last query sees all */
} th_causal;

typedef struct th_window_range {
    bool given;
    int64_t left, right;
} th_window_range;
/* Query t (at its causal alignment) sees keys t - left .. t + right; negative: no limit on that side. */
#ifdef __cplusplus
#define TH_WINDOW(left, right) (th_window_range{true, (left), (right)})
#else
#define TH_WINDOW(left, right) ((th_window_range){true, (left), (right)})
#endif

/* Which (query, key) pairs count. All that are given combine: keeps by AND, additive terms by sum. */
typedef struct th_mask {
    th_causal causal;
    th_window_range window;
    th_tensor *positions; /* int32/int64 (T) or (B, T), whatever stands between: query t stands at key positions[b, t],
                              from where causal order (either one), the window and ALiBi count, instead of at its place
                              in the tensor. A query whose keys are in a cache has the bits of the whole sequence. For
                              scores (T, S): (T). Not negative; may be past the last key */
    th_tensor
        *valid_lengths;  /* int32/int64 (B): keys s < valid_lengths[b]; or (B, T): per query, whatever stands between.
                              For scores (T, S): () or (T). Lengths outside [0, S] are an error */
    th_tensor *keep;     /* bool, broadcast to the scores (B, H, T, S): true keeps */
    th_tensor *additive; /* the scores' type, broadcast to them, added; may require a gradient; -inf hides its pair, a
                              finite term never does */
} th_mask;

typedef struct th_attention_options {
    const th_mask *mask;
    double scale; /* 0: 1 / sqrt(D) */
    /* scores become soft_cap tanh(scores / soft_cap) before anything is added (Gemma Team 2024); 0: none */
    double soft_cap;
    /* slopes, of the operands' type, broadcast to the leading dimensions: (H) or (B, H) ...; may require a gradient.
     * -slope |s - place of the query| is added (ALiBi, Press et al. 2022), the place being that of the mask's alignment
     * or positions */
    th_tensor *alibi;
    double dropout;          /* on the weights, in training */
    th_tensor **weights;     /* asked for: softmax weights (N, T, S) before dropout */
    th_tensor **log_sum_exp; /* asked for: (N, T), -inf for a query without keys */
} th_attention_options;
/* softmax(cap(q kᵀ scale) + alibi + mask) v: q (N, T, D), k (N, S, D), v (N, S, Dv) -> (N, T, Dv); leading dimensions
 * alike, except that with at least three dimensions the heads axis (-3) of k and v may be a divisor of q's (grouped
 * heads: query head h uses key head h / (Hq / Hkv)). A query without keys gives 0. No bit of output or gradient depends
 * on a hidden pair. Fused in tiles (Rabe & Staats 2021, Dao et al. 2022): nothing of size T x S exists. Composed when
 * fusion is off or the weights are asked for. */
TH_API th_tensor *th_scaled_dot_product_attention(th_tensor *q, th_tensor *k, th_tensor *v,
                                                  const th_attention_options *options);
/* The same softmax over the last axis of scores (N, T, S) under a mask: hidden entries are exactly 0, a row without
 * keys all 0. */
TH_API th_tensor *th_masked_softmax(th_tensor *scores, const th_mask *mask);
/* All parts of a mask as one bool tensor, broadcast to scores of this shape (N, T, S). NULL without an error if the
 * mask hides nothing; th_masked_matmul accepts this NULL as its keep. */
TH_API th_tensor *th_mask_keep(th_context *ctx, const th_mask *mask, th_shape scores);
/* Why the pair is hidden, or that it is kept, as a sentence into text: "key 5 is past valid_lengths[1] = 3". scores (N, T,
 * S); index the pair in it. */
TH_API th_status th_mask_explain(th_context *ctx, const th_mask *mask, th_shape scores, th_shape index, char *text,
                                 size_t size) TH_MUST_CHECK;

/* -- with the caller's line -- */
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
