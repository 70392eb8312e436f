/* The library's layers: modules (tapehead/module.h) with parameters. Names, shapes and initialization of parameters are
 * PyTorch's, so that checkpoints can be exchanged.
 *
 * Every constructor returns a module that belongs to the context until th_module_add gives it to a parent; NULL with
 * the error pending. New parameters have the context's default type. N: any leading dimensions. */
#ifndef TAPEHEAD_LAYERS_H
#define TAPEHEAD_LAYERS_H

#include "tapehead/cache.h"
#include "tapehead/module.h"
#include "tapehead/ops.h"

TH_BEGIN_DECLS

/* Options of th_dense_new. */
typedef struct th_dense_layer_options {
    bool no_bias;
} th_dense_layer_options;
/* Creates a dense layer, y = x W^T + b: (N, in) -> (N, out). Parameters: weight (out, in) and bias (out), both uniform
 * in +-1 / sqrt(in). options may be NULL. */
TH_API th_module *th_dense_new(th_context *ctx, int64_t in, int64_t out, const th_dense_layer_options *options);
/* Returns residual + dense(x), (N, out), as one operation; as two if the layer's forward was replaced. */
TH_API th_tensor *th_dense_residual(th_module *dense, th_tensor *x, th_tensor *residual);

/* Creates an embedding, which returns row i of its weight for every index i: (N) int32/int64 -> (N, width). Parameter:
 * weight (count, width), N(0, 1). */
TH_API th_module *th_embedding_new(th_context *ctx, int64_t count, int64_t width);

/* Options of th_layer_norm_new and th_rms_norm_new. */
typedef struct th_norm_layer_options {
    double eps;     /* 0: 1e-5 */
    bool no_weight; /* neither weight nor bias */
    bool no_bias;
    bool unit_offset; /* multiplies by 1 + weight, and weight starts at 0 (Gemma Team 2024). An error with no_weight */
} th_norm_layer_options;
/* Creates a layer that applies th_layer_norm to the last axis, (N, width) -> (N, width). Parameters: weight (width),
 * ones, and bias (width), zeros. options may be NULL. */
TH_API th_module *th_layer_norm_new(th_context *ctx, int64_t width, const th_norm_layer_options *options);
/* Creates a layer that applies th_rms_norm to the last axis, (N, width) -> (N, width). Parameter: weight (width), ones.
 * no_bias has no effect. options may be NULL. */
TH_API th_module *th_rms_norm_new(th_context *ctx, int64_t width, const th_norm_layer_options *options);

/* Creates a layer that applies th_dropout with 0 <= p < 1. It does nothing in evaluation. */
TH_API th_module *th_dropout_new(th_context *ctx, double p);

/* Options of the scores of self-attention, q k^T scale. All zero: plain scores. */
typedef struct th_score_options {
    bool rotary; /* th_rotary rotates queries and keys by their positions */
    th_rotary_pairing rotary_pairing;
    double rotary_base;   /* 0: 10000 */
    int64_t rotary_width; /* elements of each head that are rotated; 0: all */
    th_rotary_scaling rotary_scaling;
    /* th_attention_options.alibi with the slopes of Press et al. 2022: 2^(-8 (h + 1) / H) if H is a power of two.
     * Otherwise the slopes for the next smaller power of two, then every other slope for twice as many heads, as in
     * the authors' program and in BLOOM */
    bool alibi;
    /* th_rms_norm over each head of queries and keys before the rotation (as in Qwen 3 and Gemma 3). Parameters:
     * q_norm.weight and k_norm.weight (D), ones */
    bool qk_norm;
    /* Instead of qk_norm: one th_rms_norm over all heads of a query, and one over all heads of a key (as in OLMo 2).
     * Parameters: q_norm.weight (key_width), k_norm.weight (key_width Hkv / H), ones */
    bool qk_norm_whole;
    bool qk_norm_unit_offset; /* both norms have .unit_offset */
    bool qk_norm_no_weight;   /* both norms have .no_weight (nanochat); an error with qk_norm_unit_offset */
    double qk_norm_eps;       /* 0: 1e-5 */
    double soft_cap;          /* th_attention_options.soft_cap; 0: none */
    int64_t window;           /* with a causal mask a query attends to the last `window` keys up to its own. Without one
                                 it attends to keys at a distance less than `window` on both sides; 0: all */
} th_score_options;

/* Options of th_multi_head_attention_new. */
typedef struct th_multi_head_attention_options {
    double dropout; /* on the attention weights, in training; 0 <= p < 1 */
    bool no_bias;
    bool no_output_bias;  /* only the projections of query, key and value have biases (as in Qwen 2) */
    int64_t query_input;  /* width of the query tensor; 0: width */
    int64_t key_input;    /* width of the key tensor; 0: width */
    int64_t value_input;  /* width of the value tensor; 0: width */
    int64_t key_width;    /* of projected queries, over all heads; 0: width */
    int64_t value_width;  /* of projected values, over all heads; 0: width */
    int64_t output_width; /* 0: width */
    int64_t kv_heads; /* heads of key and value, a divisor of heads: query head h uses head h kv_heads / heads (Ainslie
                         et al. 2023); 0: heads */
    double scale;     /* of the scores; 0: 1 / sqrt(key_width / heads) */
    th_score_options scores;
    /* Self-attention attends to λ0 v + λ1 v1 instead of v, with the values v1 of the first layer
     * (th_attend_options.first_values; Zhou et al. 2024). Parameter: value_residual (2), λ0 and λ1, 0.5 */
    bool value_residual;
} th_multi_head_attention_options;
/* Creates multi-head attention (Vaswani et al. 2017), which th_attend runs:
 *
 *   concat_h(softmax(q_h k_h^T scale + mask) v_h) W_o^T + b_o
 *   q = query W_q^T + b_q; likewise k and v; q_h are the columns h D .. (h + 1) D - 1 of q
 *
 * Parameters, with D the width of a head and Hkv = kv_heads:
 *
 *   in_proj_weight (3 width, width)       W_q, W_k and W_v stacked, if all input and projected widths are equal to
 * `width`, and kv_heads is equal to `heads`. Self-attention is then one product. Otherwise:
 *   q_proj_weight (key_width, query_input), k_proj_weight (key_width Hkv / H, key_input),
 *   v_proj_weight (value_width Hkv / H, value_input)
 *   in_proj_bias                          b_q, b_k and b_v one after another, in both cases
 *   q_norm.weight, k_norm.weight          with scores.qk_norm or scores.qk_norm_whole, without qk_norm_no_weight
 *   value_residual (2)                    with value_residual
 *   out_proj.weight (output_width, value_width), out_proj.bias (output_width)
 *
 * Initialization: input projections Xavier uniform (in_proj_weight as one matrix), out_proj.weight as in th_dense_new,
 * biases 0. options may be NULL. */
TH_API th_module *th_multi_head_attention_new(th_context *ctx, int64_t width, int64_t heads,
                                              const th_multi_head_attention_options *options);

/* Options of th_attend. */
typedef struct th_attend_options {
    const th_mask *mask; /* over the scores (B, H, T, S) */
    /* Positions for rotary scores, int32/int64 (T) or (B, T): of the queries, and in self-attention of the keys too.
     * NULL: 0 .. T - 1 */
    th_tensor *positions;
    /* Self-attention attends to the keys in the cache, (B, capacity). The mask is then over (B, H, T, capacity), and
     * its .positions must be these positions. Cross attention projects its keys and values only once */
    th_cache *cache;
    /* *first_values: the projected values (B, T, value_width Hkv / H) of the first layer. A layer with .value_residual
     * needs them; another layer sets them to its own values if they are NULL. NULL: not wanted */
    th_tensor **first_values;
    th_tensor *residual; /* (B, T, output_width), added to the result in the same operation as the last projection */
    th_tensor **weights; /* set to the attention weights (B, H, T, S), before dropout; they belong to the tape */
} th_attend_options;
/* Runs multi-head attention: query (B, T, query_input), key (B, S, key_input) and value (B, S, value_input) -> (B, T,
 * output_width). B: any leading dimensions, or none; T: query length, S: key length; H: heads. th_attend(m, x, x, x,
 * NULL) is self-attention. th_module_forward fails for this layer, with TH_ERROR_ARGUMENT. If the program set
 * attention->attend, it runs that instead; attention may then be any module. options may be NULL. */
TH_API th_tensor *th_attend(th_module *attention, th_tensor *query, th_tensor *key, th_tensor *value,
                            const th_attend_options *options);

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_dense_new(...) TH_AT_POINTER(th_module, th_dense_new(__VA_ARGS__))
#define th_dense_residual(...) TH_AT(th_dense_residual(__VA_ARGS__))
#define th_embedding_new(...) TH_AT_POINTER(th_module, th_embedding_new(__VA_ARGS__))
#define th_layer_norm_new(...) TH_AT_POINTER(th_module, th_layer_norm_new(__VA_ARGS__))
#define th_rms_norm_new(...) TH_AT_POINTER(th_module, th_rms_norm_new(__VA_ARGS__))
#define th_dropout_new(...) TH_AT_POINTER(th_module, th_dropout_new(__VA_ARGS__))
#define th_multi_head_attention_new(...) TH_AT_POINTER(th_module, th_multi_head_attention_new(__VA_ARGS__))
#define th_attend(...) TH_AT(th_attend(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
