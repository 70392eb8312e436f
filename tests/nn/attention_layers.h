/* Layers of multi-head attention for tests: with all options, and with masks. B batch, T query length, S key length, H heads,
 * E width. */
#ifndef TESTS_ATTENTION_LAYERS_H
#define TESTS_ATTENTION_LAYERS_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tapehead/tapehead.h"

#include "context.h"

static inline void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 21, .threads = 2});
    ck_assert_ptr_nonnull(ctx);
}

/* Returns the bytes of a tensor, to compare bits. The caller frees them. */
static inline void *bytes_of(th_tensor *t, size_t *size)
{
    ck_assert_ptr_nonnull(t);
    *size = (size_t)th_numel(t) * th_dtype_size(th_dtype_of(t));
    void *bytes = malloc(*size + 1);
    ck_assert_msg(th_copy_out(t, bytes, *size) == TH_OK, "%s", th_error_message(ctx));
    return bytes;
}

static inline double largest_difference(th_tensor *a, th_tensor *b)
{
    no_error();
    return th_item(th_max(th_abs(th_sub(a, b)), TH_ALL_AXES, NULL));
}

/* Draws biases, so that they affect results. */
static inline void draw_biases(th_module *m)
{
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);)
        if (strstr(p.name, "bias"))
            ck_assert_int_eq(th_fill_normal(p.tensor, 0, 0.5), TH_OK);
}

static inline th_tensor *leaf(th_shape shape)
{
    return th_set_requires_gradient(th_randn(ctx, TH_FLOAT32, shape), true);
}

static inline th_module *lengths_layer(void)
{
    th_module *m =
        th_multi_head_attention_new(ctx, 100, 5, &(th_multi_head_attention_options){.dropout = 0.5, .no_bias = true});
    th_set_training(ctx, false);
    no_error();
    return m;
}

typedef struct {
    const char *name;
    int64_t width, heads;
    th_multi_head_attention_options options;
    int64_t B, T, S;
    int tensors; /* 1: query, key and value are the same tensor; 2: key and value are; 3: all differ */
} construction;

static const construction constructions[] = {
    {"self", 6, 3, {.dropout = 0}, 2, 4, 4, 1},
    {"no bias", 6, 3, {.no_bias = true}, 2, 4, 4, 1},
    {"cross", 6, 2, {.dropout = 0}, 2, 3, 5, 2},
    {"all different", 6, 2, {.dropout = 0}, 2, 3, 5, 3},
    {"one head", 3, 1, {.dropout = 0}, 1, 4, 6, 3},
    {"a head for each number", 4, 4, {.dropout = 0}, 1, 4, 6, 3},
    {"scale", 6, 3, {.scale = 0.1}, 2, 4, 4, 1},
    {"inputs of other widths", 4, 2, {.query_input = 3, .key_input = 5, .value_input = 2}, 2, 3, 4, 3},
    {"narrow",
     8,
     4,
     {.query_input = 4, .key_input = 4, .value_input = 4, .key_width = 4, .value_width = 8, .output_width = 5},
     2,
     3,
     4,
     3},
    {"output width", 4, 2, {.output_width = 3}, 2, 3, 4, 3},
    {"grouped", 6, 6, {.kv_heads = 2}, 2, 3, 4, 3},
    {"one key head for all", 6, 2, {.kv_heads = 1, .value_width = 10}, 2, 3, 4, 2},
    {"rotary halves", 12, 2, {.scores = {.rotary = true}}, 2, 4, 4, 1},
    {"rotary neighbors",
     12,
     2,
     {.scores = {.rotary = true, .rotary_pairing = TH_ROTARY_NEIGHBORS, .rotary_base = 50, .rotary_width = 4}},
     2,
     4,
     4,
     1},
    {"rotary scaled",
     12,
     2,
     {.scores = {.rotary = true, .rotary_scaling = {.kind = TH_ROTARY_LINEAR, .factor = 3}}},
     2,
     4,
     4,
     1},
    {"slopes", 6, 6, {.scores = {.alibi = true}}, 2, 4, 4, 1},
    {"slopes of 4 heads", 8, 4, {.scores = {.alibi = true}}, 2, 4, 4, 1},
    {"slope of 1 head", 4, 1, {.scores = {.alibi = true}}, 1, 3, 5, 2},
    {"norms of queries and keys", 8, 2, {.kv_heads = 1, .scores = {.qk_norm = true, .qk_norm_eps = 0.01}}, 2, 4, 4, 1},
    {"soft cap", 6, 3, {.scores = {.soft_cap = 0.5}}, 2, 4, 4, 1},
    {"window", 6, 3, {.scores = {.window = 2}}, 2, 4, 4, 1},
    {"every option",
     12,
     6,
     {.kv_heads = 3, .scores = {.rotary = true, .alibi = true, .qk_norm = true, .soft_cap = 2, .window = 3}},
     2,
     4,
     5,
     2},
};
enum { CONSTRUCTIONS = sizeof constructions / sizeof *constructions };

typedef struct {
    th_module *module;
    th_tensor *x[3];
} built;

static inline built build(const construction *c, th_dtype dtype)
{
    built b = {.module = th_multi_head_attention_new(ctx, c->width, c->heads, &c->options)};
    no_error();
    draw_biases(b.module);
    ck_assert_int_eq(th_module_cast(b.module, dtype), TH_OK);
    const th_multi_head_attention_options *o = &c->options;
    b.x[0] = th_randn(ctx, dtype, TH_SHAPE(c->B, c->T, o->query_input ? o->query_input : c->width));
    b.x[1] =
        c->tensors == 1 ? b.x[0] : th_randn(ctx, dtype, TH_SHAPE(c->B, c->S, o->key_input ? o->key_input : c->width));
    b.x[2] = c->tensors == 1   ? b.x[0]
             : c->tensors == 2 ? b.x[1]
                               : th_randn(ctx, dtype, TH_SHAPE(c->B, c->S, o->value_input ? o->value_input : c->width));
    no_error();
    return b;
}

/* -- masks by number, as options and as a bias of the scores -- */
enum { MASKS = 6 };

/* The ALiBi slope of head h of 1, 4 or 6, as in the authors' program. */
static inline double slope_of(int64_t h, int64_t heads)
{
    static const double slopes[] = {1 / 4.0, 1 / 16.0, 1 / 64.0, 1 / 256.0, 1 / 2.0, 1 / 8.0};
    ck_assert(heads == 1 || heads == 4 || heads == 6);
    return heads == 1 ? 1 / 256.0 : slopes[h];
}

static inline th_mask make_mask(const construction *c, int which, double *bias)
{
    const int64_t H = c->heads, T = c->T, S = c->S, n = c->B * H * T * S;
    th_mask mask = {0};
    if (which == 1)
        mask.causal = TH_CAUSAL_TOP_LEFT;
    if (which == 2) {
        mask.causal = TH_CAUSAL_BOTTOM_RIGHT;
        mask.window = TH_WINDOW(1, -1);
    }
    if (which == 3 || which == 5) {
        mask.valid_lengths = th_zeros(ctx, TH_INT64, TH_SHAPE(c->B));
        for (int64_t b = 0; b < c->B; b++)
            ck_assert_int_eq(th_set(mask.valid_lengths, TH_INDEX(b), (double)(S - 1 - b)), TH_OK);
    }
    if (which == 4) { /* padding: (B, 1, 1, S), the first key hidden */
        mask.keep = th_full(ctx, TH_BOOL, TH_SHAPE(c->B, 1, 1, S), 1);
        for (int64_t b = 0; b < c->B; b++)
            ck_assert_int_eq(th_set(mask.keep, TH_INDEX(b, 0, 0, 0), 0), TH_OK);
    }
    if (which == 5) { /* all masks at once; query 0 has no visible key */
        mask.keep = th_full(ctx, TH_BOOL, TH_SHAPE(T, 1), 1);
        ck_assert_int_eq(th_set(mask.keep, TH_INDEX(0, 0), 0), TH_OK);
        mask.additive = th_randn(ctx, TH_FLOAT64, TH_SHAPE(H, T, S));
        mask.causal = TH_CAUSAL_TOP_LEFT;
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t b = i / (H * T * S), h = i / (T * S) % H, t = i / S % T, s = i % S;
        bias[i] = mask.additive ? th_get(mask.additive, TH_INDEX(h, t, s)) : 0;
        const int64_t aligned = t + (which == 2 ? S - T : 0);
        if (c->options.scores.alibi)
            bias[i] -= slope_of(h, H) * fabs((double)(s - aligned));
        const int64_t reach = c->options.scores.window ? c->options.scores.window - 1 : S + T;
        const bool hidden = s < aligned - reach || s > aligned + (mask.causal ? 0 : reach) ||
                            (which == 2 && s < aligned - 1) || (mask.valid_lengths && s >= S - 1 - b) ||
                            (which == 4 && s == 0) || (which == 5 && t == 0);
        if (hidden)
            bias[i] = -INFINITY;
    }
    no_error();
    return mask;
}

#endif
