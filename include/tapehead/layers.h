/* The layers that come with the library: modules (tapehead/module.h) with their parameters named, shaped and
 * initialized as PyTorch does, so that checkpoints mean something outside. Every constructor returns a module of the
 * context (th_module_add gives it to a parent); NULL with the error stored. New parameters have the context's default
 * type. N: any leading dimensions. */
#ifndef TAPEHEAD_LAYERS_H
#define TAPEHEAD_LAYERS_H

#include "tapehead/cache.h"
#include "tapehead/module.h"
#include "tapehead/ops.h"

TH_BEGIN_DECLS

/* y = x W^T + b: (N, in) -> (N, out). weight (out, in), bias (out); both uniform on +-1 / sqrt(in). */
typedef struct th_dense_layer_options {
    bool no_bias;
} th_dense_layer_options;
TH_API th_module *th_dense_new(th_context *ctx, int64_t in, int64_t out, const th_dense_layer_options *options);
/* The same layer with residual (N, out) added to its result, as one operation (as two when its forward was replaced). */
TH_API th_tensor *th_dense_residual(th_module *dense, th_tensor *x, th_tensor *residual);

/* Row i of weight (count, width) for every index i: (N) int32/int64 -> (N, width). weight: N(0, 1). */
TH_API th_module *th_embedding_new(th_context *ctx, int64_t count, int64_t width);

/* th_layer_norm over the last axis, (N, width) -> (N, width): weight (width) ones, bias (width) zeros. */
typedef struct th_norm_layer_options {
    double eps;     /* 0: 1e-5 */
    bool no_weight; /* neither weight nor bias */
    bool no_bias;
} th_norm_layer_options;
TH_API th_module *th_layer_norm_new(th_context *ctx, int64_t width, const th_norm_layer_options *options);
/* th_rms_norm: weight (width) ones; there is no bias. */
TH_API th_module *th_rms_norm_new(th_context *ctx, int64_t width, const th_norm_layer_options *options);

/* th_dropout with 0 <= p < 1; does nothing in evaluation. */
TH_API th_module *th_dropout_new(th_context *ctx, double p);

/* How the scores of self-attention come about besides q kᵀ scale. All zero: nothing of it. */
typedef struct th_score_options {
    bool rotary; /* queries and keys are turned by their positions (th_rotary) */
    th_rotary_pairing rotary_pairing;
    double rotary_base;   /* 0: 10000 */
    int64_t rotary_width; /* of each head; 0: all */
    th_rotary_scaling rotary_scaling;
    /* th_attention_options.alibi with the slopes of Press et al. 2022: 2^(-8 (h + 1) / H) where H is a power of two;
     * else those of the next smaller power of two and then every other one of twice as many heads, as in their program
     * and in BLOOM */
    bool alibi;
    /* th_rms_norm over each head of queries and keys before they are turned (as Qwen 3 and Gemma 3 have it): parameters
     * q_norm.weight and k_norm.weight (D), ones */
    bool qk_norm;
    double qk_norm_eps; /* 0: 1e-5 */
    double soft_cap;    /* th_attention_options.soft_cap; 0: none */
    int64_t window;     /* a query sees so many keys, itself the last; 0: all. Only with a causal mask */
} th_score_options;

/* Multi-head attention (Vaswani et al. 2017): concat_h(softmax(q_h k_h^T scale + mask) v_h) W_o^T + b_o with q = query
 * W_q^T + b_q and so on, head h being columns h D .. (h + 1) D of q. B batch (any leading dimensions, or none), T query
 * length, S key length, H heads.
 *
 *   in_proj_weight (3 width, width)   W_q, W_k, W_v one upon the other, when query, key and value have that width on
 *                                     both sides and no heads are grouped; self-attention then runs one product.
 *                                     Otherwise q_proj_weight (key_width, query_input), k_proj_weight (key_width Hkv /
 *                                     H, key_input), v_proj_weight (value_width Hkv / H, value_input)
 *   in_proj_bias                      b_q, b_k, b_v one after another, in both cases
 *   q_norm.weight, k_norm.weight (D)  with scores.qk_norm
 *   out_proj.weight (output_width, value_width), out_proj.bias (output_width)
 *
 * Weights of the projections in: Xavier uniform (the packed one as one matrix); of the projection out: as th_dense_new;
 * biases 0. */
typedef struct th_multi_head_attention_options {
    double dropout; /* on the weights, in training; 0 <= p < 1 */
    bool no_bias;
    int64_t query_input; /* width of the queries that come in; 0: width. The same for the next two. */
    int64_t key_input;
    int64_t value_input;
    int64_t key_width;    /* of projected queries, over all heads; 0: width */
    int64_t value_width;  /* of projected values, over all heads; 0: width */
    int64_t output_width; /* 0: width */
    int64_t kv_heads; /* heads of key and value, a divisor of heads: query head h uses head h kv_heads / heads (Ainslie
                         et al. 2023); 0: heads */
    double scale;     /* 0: 1 / sqrt(key_width / heads) */
    th_score_options scores;
} th_multi_head_attention_options;
TH_API th_module *th_multi_head_attention_new(th_context *ctx, int64_t width, int64_t heads,
                                              const th_multi_head_attention_options *options);

typedef struct th_attend_options {
    const th_mask *mask;
    /* int32/int64 (T) or (B, T): of the queries, and of the keys where they are the same tensor, for rotary positions;
     * NULL: 0 .. T - 1 */
    th_tensor *positions;
    /* self-attention: the keys are those of the cache, (B, capacity), and the mask, whose .positions are to be these,
     * is over (B, H, T, capacity). Cross attention: the memory is projected once */
    th_cache *cache;
    th_tensor *residual; /* (B, T, output_width), added to the result, as one operation with the last projection */
    th_tensor **weights; /* asked for: (B, H, T, S) per head, before dropout; like every result they are the tape's */
} th_attend_options;
/* query (B, T, query_input), key (B, S, key_input), value (B, S, value_input) -> (B, T, output_width). options may be
 * NULL; their mask is over the scores (B, H, T, S). th_attend(m, x, x, x, NULL) is self-attention. The module has no other
 * forward. */
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
