/* Tests multi-head attention layers, fused and composed: masks by lengths, splitting of heads, all options against
 * plain loops in float64, narrow projections, cross attention, dropout and gradients. B batch, T query length, S key
 * length, H heads, E width. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tapehead/check.h"
#include "tapehead/tapehead.h"

#include "context.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 21, .threads = 2});
    ck_assert_ptr_nonnull(ctx);
}

/* Returns the bytes of a tensor, to compare bits. The caller frees them. */
static void *bytes_of(th_tensor *t, size_t *size)
{
    ck_assert_ptr_nonnull(t);
    *size = (size_t)th_numel(t) * th_dtype_size(th_dtype_of(t));
    void *bytes = malloc(*size + 1);
    ck_assert_msg(th_copy_out(t, bytes, *size) == TH_OK, "%s", th_error_message(ctx));
    return bytes;
}

static double largest_difference(th_tensor *a, th_tensor *b)
{
    no_error();
    return th_item(th_max(th_abs(th_sub(a, b)), TH_ALL_AXES, NULL));
}

/* Draws biases, so that they affect results. */
static void draw_biases(th_module *m)
{
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);)
        if (strstr(p.name, "bias"))
            ck_assert_int_eq(th_fill_normal(p.tensor, 0, 0.5), TH_OK);
}

/* -- valid lengths: hidden keys and values change no bit -- */

/* The results of one call: output and gradients of parameters and inputs, as bytes. */
enum { PARTS = 6 };
typedef struct {
    void *bytes[PARTS];
    size_t size[PARTS];
} outcome;

static void free_outcome(outcome *l)
{
    for (int i = 0; i < PARTS; i++)
        free(l->bytes[i]);
}

/* Runs the layer forward and backward with the cotangent. Inputs are leaves. first_hidden[b]: the first hidden key,
 * from which on gradients of keys and values must be 0. */
static outcome run(th_module *m, th_tensor *q, th_tensor *k, th_tensor *v, const th_mask *mask, th_tensor *cotangent,
                   const int64_t *first_hidden)
{
    outcome l;
    th_tensor *y = th_attend(m, q, k, v, &(th_attend_options){.mask = mask});
    l.bytes[0] = bytes_of(y, &l.size[0]);
    ck_assert_msg(th_backward(y, &(th_backward_options){.cotangent = cotangent}) == TH_OK, "%s", th_error_message(ctx));
    l.bytes[1] = bytes_of(th_gradient(th_module_find_parameter(m, "in_proj_weight")), &l.size[1]);
    l.bytes[2] = bytes_of(th_gradient(th_module_find_parameter(m, "out_proj.weight")), &l.size[2]);
    l.bytes[3] = bytes_of(th_gradient(q), &l.size[3]);
    th_tensor *const kv[2] = {k, v};
    for (int i = 0; i < 2; i++) {
        float *gradient = bytes_of(th_gradient(kv[i]), &l.size[4 + i]);
        const int64_t S = th_size(k, 1), E = th_size(k, 2);
        for (int64_t b = 0; b < th_size(k, 0); b++)
            for (int64_t s = first_hidden[b]; s < S; s++)
                for (int64_t e = 0; e < E; e++) {
                    float *g = &gradient[(b * S + s) * E + e];
                    ck_assert_msg(*g == 0, "the gradient of a hidden key is %g", *g);
                    *g = 0; /* the sign of a zero does not matter */
                }
        l.bytes[4 + i] = gradient;
    }
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);)
        th_empty_gradient(p.tensor);
    th_empty_gradient(q);
    th_empty_gradient(k);
    th_empty_gradient(v);
    th_tape_clear(ctx);
    no_error();
    return l;
}

static void assert_same_bits(const outcome *a, const outcome *b, const char *what)
{
    static const char *const part[PARTS] = {"output",
                                            "gradient of in_proj_weight",
                                            "gradient of out_proj.weight",
                                            "gradient of the query",
                                            "gradient of visible keys",
                                            "gradient of visible values"};
    for (int i = 0; i < PARTS; i++)
        ck_assert_msg(a->size[i] == b->size[i] && memcmp(a->bytes[i], b->bytes[i], a->size[i]) == 0,
                      "%s: the %s changed", what, part[i]);
}

static th_tensor *leaf(th_shape shape)
{
    return th_set_requires_gradient(th_randn(ctx, TH_FLOAT32, shape), true);
}

/* Overwrites the rows (b, s) of t with s >= first[b]: with NaN, or with different numbers around value. */
static void overwrite(th_tensor *t, const int64_t *first, float value)
{
    float *x = th_data(t);
    const int64_t S = th_size(t, 1), E = th_size(t, 2);
    for (int64_t b = 0; b < th_size(t, 0); b++)
        for (int64_t i = first[b] * E; i < S * E; i++)
            x[b * S * E + i] = isnan(value) ? value : value + (float)(i % 7);
}

static th_module *lengths_layer(void)
{
    th_module *m =
        th_multi_head_attention_new(ctx, 100, 5, &(th_multi_head_attention_options){.dropout = 0.5, .no_bias = true});
    th_set_training(ctx, false);
    no_error();
    return m;
}

static const float hidden_values[] = {NAN, INFINITY, 3, -1e30f};

/* _i: 0 fused, 1 composed. */
START_TEST(lengths_hide_keys)
{
    th_set_fusion(ctx, _i == 0);
    th_module *m = lengths_layer();
    th_tensor *q = leaf(TH_SHAPE(2, 4, 100)), *k = leaf(TH_SHAPE(2, 6, 100)), *v = leaf(TH_SHAPE(2, 6, 100));
    const int32_t lengths[2] = {3, 2};
    const int64_t first[2] = {3, 2};
    const th_mask mask = {.valid_lengths = th_from_data(ctx, TH_INT32, TH_SHAPE(2), lengths)};
    th_tensor *cotangent = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 4, 100));
    assert_shape(th_attend(m, q, k, v, &(th_attend_options){.mask = &mask}), TH_SHAPE(2, 4, 100));
    th_tape_clear(ctx);
    outcome before = run(m, q, k, v, &mask, cotangent, first);
    for (int i = 0; i < 8; i++) {
        overwrite(i < 4 ? k : v, first, hidden_values[i % 4]);
        outcome after = run(m, q, k, v, &mask, cotangent, first);
        assert_same_bits(&before, &after, i < 4 ? "keys past the valid length" : "values too");
        free_outcome(&after);
    }
    free_outcome(&before);
}
END_TEST

START_TEST(lengths_per_query_hide_keys)
{
    th_set_fusion(ctx, _i == 0);
    th_module *m = lengths_layer();
    th_tensor *q = leaf(TH_SHAPE(2, 4, 100)), *k = leaf(TH_SHAPE(2, 6, 100)), *v = leaf(TH_SHAPE(2, 6, 100));
    const int32_t lengths[8] = {1, 5, 2, 3, 4, 1, 4, 2};
    const int64_t max[2] = {5, 4};
    const th_mask mask = {.valid_lengths = th_from_data(ctx, TH_INT32, TH_SHAPE(2, 4), lengths)};
    th_tensor *all = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 4, 100));
    /* Keys and values that all queries hide may have any value. */
    outcome before = run(m, q, k, v, &mask, all, max);
    overwrite(k, max, NAN);
    overwrite(v, max, INFINITY);
    outcome after = run(m, q, k, v, &mask, all, max);
    assert_same_bits(&before, &after, "past every query's length");
    free_outcome(&before);
    free_outcome(&after);
    /* Keys that one query hides affect neither its row of the output nor the gradients from this row. */
    overwrite(k, max, 0);
    overwrite(v, max, 0);
    for (int row = 0; row < 8; row++) {
        th_tensor *one = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2, 4, 100));
        float *c = th_data(one);
        for (int e = 0; e < 100; e++)
            c[row * 100 + e] = 0.01f * (float)(e + 1);
        int64_t first[2] = {6, 6};
        first[row / 4] = lengths[row];
        outcome one_before = run(m, q, k, v, &mask, one, first);
        th_tensor *k2 = th_set_requires_gradient(th_keep(k), true), *v2 = th_set_requires_gradient(th_keep(v), true);
        overwrite(k2, first, 2);
        overwrite(v2, first, -5);
        outcome one_after = run(m, q, k2, v2, &mask, one, first);
        /* only this row of the output is the same */
        memmove(one_before.bytes[0], (float *)one_before.bytes[0] + row * 100, one_before.size[0] = 400);
        memmove(one_after.bytes[0], (float *)one_after.bytes[0] + row * 100, one_after.size[0] = 400);
        assert_same_bits(&one_before, &one_after, "one query");
        free_outcome(&one_before);
        free_outcome(&one_after);
    }
}
END_TEST

START_TEST(lengths_1_to_T_per_query_are_a_causal_mask)
{
    th_set_fusion(ctx, _i == 0);
    th_module *m = lengths_layer();
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 6, 100));
    const int32_t lengths[12] = {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6};
    th_tensor *by_lengths =
        th_attend(m, x, x, x,
                  &(th_attend_options){
                      .mask = &(th_mask){.valid_lengths = th_from_data(ctx, TH_INT32, TH_SHAPE(2, 6), lengths)}});
    th_tensor *causal = th_attend(m, x, x, x, &(th_attend_options){.mask = &(th_mask){.causal = TH_CAUSAL_TOP_LEFT}});
    ck_assert(largest_difference(by_lengths, causal) == 0);
}
END_TEST

/* -- heads -- */

START_TEST(heads_split_and_merge)
{
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 4, 100));
    th_tensor *split =
        th_reshape(th_transpose(th_reshape(x, TH_SHAPE(2, 4, 5, 20)), TH_AXES(0, 2, 1, 3)), TH_SHAPE(10, 4, 20));
    th_tensor *merged =
        th_reshape(th_transpose(th_reshape(split, TH_SHAPE(2, 5, 4, 20)), TH_AXES(0, 2, 1, 3)), TH_SHAPE(2, 4, 100));
    size_t size, again;
    void *a = bytes_of(x, &size), *b = bytes_of(merged, &again);
    ck_assert_uint_eq(size, again);
    ck_assert_int_eq(memcmp(a, b, size), 0);
    free(a);
    free(b);
}
END_TEST

/* Returns the multiply-adds of all recorded nodes, and counts the nodes of an operation. */
static int64_t multiply_adds(const char *operation, int *count)
{
    int64_t sum = 0;
    *count = 0;
    for (int64_t i = 0; i < th_tape_length(ctx); i++) {
        th_node_info info;
        ck_assert_int_eq(th_tape_node(ctx, i, &info), TH_OK);
        sum += info.multiply_adds;
        *count += strcmp(info.operation, operation) == 0;
    }
    return sum;
}

START_TEST(the_number_of_heads_does_not_change_multiply_adds)
{
    static const int64_t heads[] = {1, 2, 5, 20};
    int64_t expected = 0;
    for (int fusion = 0; fusion < 2; fusion++)
        for (int i = 0; i < 4; i++) {
            th_set_fusion(ctx, fusion);
            th_module *m = th_multi_head_attention_new(ctx, 100, heads[i], NULL);
            th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 4, 100));
            ck_assert_ptr_nonnull(th_attend(m, x, x, x, NULL));
            int products;
            const int64_t sum = multiply_adds("dense", &products);
            ck_assert_int_eq(products, 2); /* one for query, key and value, one for the output */
            if (expected == 0)
                expected = sum;
            ck_assert_int_eq(sum, expected);
            ck_assert_int_eq(sum, 2 * 4 * 100 * 400 + 2 * 2 * 4 * 4 * 100);
            th_tape_clear(ctx);
        }
}
END_TEST

START_TEST(heads_in_the_batch_give_the_same_result)
{
    th_set_fusion(ctx, _i == 0);
    th_module *m = lengths_layer();
    th_tensor *q = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 4, 100)), *k = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 6, 100)),
              *v = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 6, 100));
    const int32_t lengths[2] = {3, 2}, repeated[10] = {3, 3, 3, 3, 3, 2, 2, 2, 2, 2};
    th_tensor *y = th_attend(
        m, q, k, v,
        &(th_attend_options){.mask = &(th_mask){.valid_lengths = th_from_data(ctx, TH_INT32, TH_SHAPE(2), lengths)}});
    th_tensor *weight = th_module_find_parameter(m, "in_proj_weight");
    th_tensor *const x[3] = {q, k, v};
    th_tensor *folded[3];
    for (int i = 0; i < 3; i++) {
        const int64_t length = th_size(x[i], 1);
        th_tensor *p = th_dense(x[i], th_slice(weight, 0, 100 * i, 100 * (i + 1), 1), NULL);
        folded[i] = th_reshape(th_transpose(th_reshape(p, TH_SHAPE(2, length, 5, 20)), TH_AXES(0, 2, 1, 3)),
                               TH_SHAPE(10, length, 20));
    }
    const th_mask mask = {.valid_lengths = th_from_data(ctx, TH_INT32, TH_SHAPE(10), repeated)};
    th_tensor *o =
        th_scaled_dot_product_attention(folded[0], folded[1], folded[2], &(th_attention_options){.mask = &mask});
    o = th_reshape(th_transpose(th_reshape(o, TH_SHAPE(2, 5, 4, 20)), TH_AXES(0, 2, 1, 3)), TH_SHAPE(2, 4, 100));
    o = th_dense(o, th_module_find_parameter(m, "out_proj.weight"), NULL);
    ck_assert_double_le(largest_difference(y, o), 1e-6);
}
END_TEST

/* Splitting and merging heads makes no copy, forward and backward. (The last product of the composition is (B, H, T, D)
 * in memory, so merging needs one copy.) */
START_TEST(heads_are_views)
{
    for (int fusion = 0; fusion < 2; fusion++) {
        th_set_fusion(ctx, fusion);
        th_module *m = th_multi_head_attention_new(ctx, 64, 4, NULL);
        th_tensor *x = leaf(TH_SHAPE(2, 5, 64)), *memory = leaf(TH_SHAPE(2, 7, 64));
        int copies, products;
        ck_assert_ptr_nonnull(th_attend(m, x, x, x, NULL));
        multiply_adds("contiguous", &copies);
        ck_assert_int_eq(copies, fusion ? 0 : 1);
        th_tape_clear(ctx);
        ck_assert_ptr_nonnull(th_attend(m, x, memory, memory, NULL));
        multiply_adds("contiguous", &copies);
        multiply_adds("dense", &products);
        ck_assert_int_eq(copies, fusion ? 0 : 1);
        ck_assert_int_eq(products, 3); /* query; key and value; output */
        th_tape_clear(ctx);
    }
}
END_TEST

/* -- all options against plain loops in float64 -- */

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

static double at(const th_tensor *t, int64_t i)
{
    return ((const double *)th_data_const(t))[i];
}

/* Returns row r of projection i (0 query, 1 key, 2 value) of x (input). */
static double projected(const th_module *m, int i, const int64_t *rows, const int64_t *inputs, int64_t r,
                        const double *x)
{
    static const char *const own[3] = {"q_proj_weight", "k_proj_weight", "v_proj_weight"};
    int64_t before = 0;
    for (int j = 0; j < i; j++)
        before += rows[j];
    const th_tensor *packed = th_module_find_parameter(m, "in_proj_weight"),
                    *weight = packed ? packed : th_module_find_parameter(m, own[i]);
    const th_tensor *bias = th_module_find_parameter(m, "in_proj_bias");
    ck_assert_ptr_nonnull(weight);
    double sum = bias ? at(bias, before + r) : 0;
    for (int64_t e = 0; e < inputs[i]; e++)
        sum += x[e] * at(weight, ((packed ? before : 0) + r) * inputs[i] + e);
    return sum;
}

/* A head (D) of queries (i = 0) or keys (1): rows first .. first + D - 1 of x's projection, normalized and rotated. */
static void head_vector(const construction *c, const th_module *m, int i, const int64_t *rows, const int64_t *inputs,
                        int64_t first, int64_t D, int64_t position, const double *x, double *head)
{
    const th_score_options *scores = &c->options.scores;
    double squares = 0;
    for (int64_t d = 0; d < D; d++) {
        head[d] = projected(m, i, rows, inputs, first + d, x);
        squares += head[d] * head[d];
    }
    const th_tensor *norm = th_module_find_parameter(m, i == 0 ? "q_norm.weight" : "k_norm.weight");
    ck_assert_int_eq(norm != NULL, scores->qk_norm);
    for (int64_t d = 0; norm && d < D; d++)
        head[d] *= at(norm, d) / sqrt(squares / (double)D + (scores->qk_norm_eps > 0 ? scores->qk_norm_eps : 1e-5));
    const int64_t width = scores->rotary_width ? scores->rotary_width : D;
    for (int64_t pair = 0; scores->rotary && pair < width / 2; pair++) {
        const double base = scores->rotary_base > 0 ? scores->rotary_base : 10000;
        const double factor = scores->rotary_scaling.kind == TH_ROTARY_LINEAR ? scores->rotary_scaling.factor : 1;
        const double angle = (double)position / factor * pow(base, -2.0 * (double)pair / (double)width);
        const bool halves = scores->rotary_pairing == TH_ROTARY_HALVES;
        double *a = &head[halves ? pair : 2 * pair], *b = &head[halves ? pair + width / 2 : 2 * pair + 1];
        const double rotated = *a * cos(angle) - *b * sin(angle);
        *b = *b * cos(angle) + *a * sin(angle);
        *a = rotated;
    }
}

/* Computes the layer's output (B, T, out) and weights (B, H, T, S) in plain loops. bias (B, H, T, S) is added to the
 * scores; -inf hides. */
static void reference(const construction *c, const th_module *m, const double *const x[3], const double *bias,
                      double *y, double *weights)
{
    const th_multi_head_attention_options *o = &c->options;
    const int64_t H = c->heads, kv = o->kv_heads ? o->kv_heads : H;
    const int64_t kw = o->key_width ? o->key_width : c->width, vw = o->value_width ? o->value_width : c->width;
    const int64_t out = o->output_width ? o->output_width : c->width, D = kw / H, Dv = vw / H;
    const int64_t inputs[3] = {o->query_input ? o->query_input : c->width, o->key_input ? o->key_input : c->width,
                               o->value_input ? o->value_input : c->width};
    const int64_t rows[3] = {kw, D * kv, Dv * kv};
    const double scale = o->scale != 0 ? o->scale : 1 / sqrt((double)D);
    const th_tensor *wo = th_module_find_parameter(m, "out_proj.weight"),
                    *bo = th_module_find_parameter(m, "out_proj.bias");
    for (int64_t b = 0; b < c->B; b++)
        for (int64_t t = 0; t < c->T; t++) {
            double heads[64] = {0};
            for (int64_t h = 0; h < H; h++) {
                double *w = &weights[((b * H + h) * c->T + t) * c->S], largest = -INFINITY, sum = 0;
                const int64_t g = h / (H / kv);
                double q[16], k[16];
                ck_assert_int_le(D, 16);
                head_vector(c, m, 0, rows, inputs, h * D, D, t, x[0] + (b * c->T + t) * inputs[0], q);
                for (int64_t s = 0; s < c->S; s++) {
                    head_vector(c, m, 1, rows, inputs, g * D, D, s, x[1] + (b * c->S + s) * inputs[1], k);
                    w[s] = 0;
                    for (int64_t d = 0; d < D; d++)
                        w[s] += q[d] * k[d] * scale;
                    if (o->scores.soft_cap > 0)
                        w[s] = o->scores.soft_cap * tanh(w[s] / o->scores.soft_cap);
                    w[s] += (bias ? bias[((b * H + h) * c->T + t) * c->S + s] : 0);
                    largest = fmax(largest, w[s]);
                }
                for (int64_t s = 0; s < c->S; s++)
                    sum += w[s] = largest == -INFINITY ? 0 : exp(w[s] - largest);
                for (int64_t s = 0; s < c->S; s++) {
                    w[s] = sum > 0 ? w[s] / sum : 0;
                    for (int64_t d = 0; d < Dv; d++)
                        heads[h * Dv + d] += w[s] == 0 ? 0
                                                       : w[s] * projected(m, 2, rows, inputs, g * Dv + d,
                                                                          x[2] + (b * c->S + s) * inputs[2]);
                }
            }
            for (int64_t e = 0; e < out; e++) {
                double *to = &y[(b * c->T + t) * out + e];
                *to = bo ? at(bo, e) : 0;
                for (int64_t i = 0; i < vw; i++)
                    *to += heads[i] * at(wo, e * vw + i);
            }
        }
}

typedef struct {
    th_module *module;
    th_tensor *x[3];
} built;

static built build(const construction *c, th_dtype dtype)
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
static double slope_of(int64_t h, int64_t heads)
{
    static const double slopes[] = {1 / 4.0, 1 / 16.0, 1 / 64.0, 1 / 256.0, 1 / 2.0, 1 / 8.0};
    ck_assert(heads == 1 || heads == 4 || heads == 6);
    return heads == 1 ? 1 / 256.0 : slopes[h];
}

/* Returns whether the layer accepts the mask: a window needs a causal mask. */
static bool takes_mask(const construction *c, int which)
{
    return c->options.scores.window == 0 || which == 1 || which == 2 || which == 5;
}

static th_mask make_mask(const construction *c, int which, double *bias)
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
        const bool hidden = s < aligned - reach || (mask.causal && s > aligned) || (which == 2 && s < aligned - 1) ||
                            (mask.valid_lengths && s >= S - 1 - b) || (which == 4 && s == 0) || (which == 5 && t == 0);
        if (hidden)
            bias[i] = -INFINITY;
    }
    no_error();
    return mask;
}

static void assert_close(th_tensor *t, const double *expected, double tolerance, const char *name, int mask,
                         const char *what)
{
    size_t size;
    double *values = bytes_of(t, &size);
    for (int64_t i = 0; i < th_numel(t); i++)
        ck_assert_msg(fabs(values[i] - expected[i]) <= tolerance,
                      "%s, mask %d: element %lld of the %s is %.15g, not %.15g", name, mask, (long long)i, what,
                      values[i], expected[i]);
    free(values);
}

/* _i: construction, fused or composed. */
START_TEST(against_plain_loops)
{
    const construction *c = &constructions[_i / 2];
    th_set_fusion(ctx, _i % 2 == 0);
    built l = build(c, TH_FLOAT64);
    const int64_t out = c->options.output_width ? c->options.output_width : c->width,
                  scores = c->B * c->heads * c->T * c->S;
    double *y = calloc((size_t)(c->B * c->T * out), sizeof *y), *weights = calloc((size_t)scores, sizeof *weights),
           *bias = calloc((size_t)scores, sizeof *bias);
    const double *const x[3] = {th_data_const(l.x[0]), th_data_const(l.x[1]), th_data_const(l.x[2])};
    for (int which = 0; which < MASKS; which++) {
        if (!takes_mask(c, which))
            continue;
        const th_mask mask = make_mask(c, which, bias);
        reference(c, l.module, x, bias, y, weights);
        th_tensor *w = NULL, *result = th_attend(l.module, l.x[0], l.x[1], l.x[2],
                                                 &(th_attend_options){.mask = &mask, .weights = &w});
        assert_shape(result, TH_SHAPE(c->B, c->T, out));
        assert_shape(w, TH_SHAPE(c->B, c->heads, c->T, c->S));
        assert_close(result, y, 1e-12, c->name, which, "output");
        assert_close(w, weights, 1e-12, c->name, which, "weights");
        /* the same result with weights */
        ck_assert_double_le(largest_difference(result, th_attend(l.module, l.x[0], l.x[1], l.x[2],
                                                                 &(th_attend_options){.mask = &mask})),
                            1e-14);
        th_tape_clear(ctx);
    }
    free(y);
    free(weights);
    free(bias);
}
END_TEST

/* -- narrow projections, cross attention, additive masks -- */

START_TEST(narrow_projections)
{
    const int64_t value_width = _i == 0 ? 64 : 48;
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(64, 5, 64));
    th_multi_head_attention_options o = {.query_input = 64,
                                         .key_input = 64,
                                         .value_input = 64,
                                         .key_width = 64,
                                         .value_width = value_width,
                                         .output_width = 512};
    th_module *m = th_multi_head_attention_new(ctx, 512, 8, &o);
    assert_shape(th_module_find_parameter(m, "q_proj_weight"), TH_SHAPE(64, 64));
    assert_shape(th_module_find_parameter(m, "v_proj_weight"), TH_SHAPE(value_width, 64));
    assert_shape(th_module_find_parameter(m, "in_proj_bias"), TH_SHAPE(128 + value_width));
    assert_shape(th_module_find_parameter(m, "out_proj.weight"), TH_SHAPE(512, value_width));
    th_tensor *padding = th_full(ctx, TH_BOOL, TH_SHAPE(64, 1, 1, 5), 1);
    for (int64_t b = 0; b < 64; b++)
        for (int64_t s = 1 + b % 5; s < 5; s++)
            ck_assert_int_eq(th_set(padding, TH_INDEX(b, 0, 0, s), 0), TH_OK);
    const th_mask masks[3] = {{0}, {.causal = TH_CAUSAL_TOP_LEFT}, {.keep = padding}};
    o.scale = 0.125; /* 1 / sqrt(64), from the key width of all heads */
    th_module *scaled = th_multi_head_attention_new(ctx, 512, 8, &o);
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);)
        ck_assert_int_eq(th_copy_into(th_module_find_parameter(scaled, p.name), p.tensor), TH_OK);
    /* Larger queries and a smaller scale give the same scores. */
    th_tensor *wq = th_module_find_parameter(scaled, "q_proj_weight");
    ck_assert_int_eq(th_copy_into(wq, th_scale(wq, sqrt(8))), TH_OK);
    for (int i = 0; i < 3; i++) {
        th_tensor *y = th_attend(m, x, x, x, &(th_attend_options){.mask = &masks[i]});
        assert_shape(y, TH_SHAPE(64, 5, 512));
        ck_assert_double_le(largest_difference(y, th_attend(scaled, x, x, x, &(th_attend_options){.mask = &masks[i]})),
                            1e-5);
    }
}
END_TEST

START_TEST(cross_attention)
{
    th_set_fusion(ctx, _i == 0);
    th_module *m = th_multi_head_attention_new(ctx, 512, 8, NULL);
    draw_biases(m);
    th_tensor *q = th_randn(ctx, TH_FLOAT32, TH_SHAPE(1, 62, 512)),
              *kv = th_randn(ctx, TH_FLOAT32, TH_SHAPE(1, 60, 512)), *weights = NULL;
    th_tensor *y = th_attend(m, q, kv, kv, &(th_attend_options){.weights = &weights});
    assert_shape(y, TH_SHAPE(1, 62, 512));
    assert_shape(weights, TH_SHAPE(1, 8, 62, 60));
    th_tensor *sums = th_sum(weights, TH_AXES(-1), NULL);
    ck_assert_double_le(largest_difference(sums, th_ones(ctx, TH_FLOAT32, TH_SHAPE(1, 8, 62))), 1e-5);
}
END_TEST

/* Positions rotate the queries of cross attention only: queries at 5, 6 and 7 give the rows 5, 6 and 7 of a longer
 * query. Keys from a cache too. */
START_TEST(positions_of_cross_attention)
{
    th_module *m =
        th_multi_head_attention_new(ctx, 12, 2, &(th_multi_head_attention_options){.scores = {.rotary = true}});
    th_tensor *query = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 8, 12)), *last = th_slice(query, 1, 5, 8, 1);
    th_tensor *memory = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 3, 12)), *from = th_arange(ctx, TH_INT64, 5, 8, 1);
    th_no_grad_begin(ctx);
    th_cache *cache = th_cache_new(m, 2, 8);
    th_tensor *whole = th_slice(th_attend(m, query, memory, memory, NULL), 1, 5, 8, 1);
    ck_assert_double_gt(largest_difference(whole, th_attend(m, last, memory, memory, NULL)), 1e-3);
    for (int i = 0; i < 3; i++) {
        const th_attend_options given = {.positions = from, .cache = i == 0 ? NULL : cache};
        ck_assert_double_le(largest_difference(whole, th_attend(m, last, memory, memory, &given)), 1e-5);
    }
    th_no_grad_end(ctx);
}
END_TEST

START_TEST(an_additive_mask_of_large_numbers_hides)
{
    th_set_fusion(ctx, _i == 0);
    th_module *m = th_multi_head_attention_new(ctx, 512, 8, NULL);
    th_tensor *q = th_randn(ctx, TH_FLOAT32, TH_SHAPE(1, 62, 512)),
              *kv = th_randn(ctx, TH_FLOAT32, TH_SHAPE(1, 60, 512));
    th_tensor *hidden = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(1, 8, 62, 60)),
              *keep = th_zeros(ctx, TH_BOOL, TH_SHAPE(1, 8, 62, 60));
    float *number = th_data(hidden);
    bool *visible = th_data(keep);
    for (int64_t i = 0; i < 8 * 62 * 60; i++) {
        visible[i] = i % 60 == i / 60 % 60 || (i * 2654435761u >> 7) % 3 == 0; /* at least one in every row */
        number[i] = visible[i] ? 0 : 1;
    }
    th_tensor *by_number =
        th_attend(m, q, kv, kv, &(th_attend_options){.mask = &(th_mask){.additive = th_scale(hidden, -1e9)}});
    th_tensor *by_keep = th_attend(m, q, kv, kv, &(th_attend_options){.mask = &(th_mask){.keep = keep}});
    ck_assert_double_le(largest_difference(by_number, by_keep), 1e-6);
}
END_TEST

/* -- training: dropout and gradients -- */

/* Dropout acts on the weights. With values of 1, the output is the sum of each row's remaining weights. */
START_TEST(dropout_of_weights)
{
    th_set_fusion(ctx, _i == 0);
    const th_multi_head_attention_options o = {.dropout = 0.5, .no_bias = true};
    th_module *m = th_multi_head_attention_new(ctx, 8, 2, &o);
    th_tensor *weight = th_module_find_parameter(m, "in_proj_weight"),
              *out = th_module_find_parameter(m, "out_proj.weight");
    /* Queries are 0, so the weights are 1 / S. Values are 1. The output projection selects one element of each head. */
    ck_assert_int_eq(th_fill(weight, 0), TH_OK);
    ck_assert_int_eq(th_fill(th_slice(weight, 0, 16, 24, 1), 0.125), TH_OK);
    ck_assert_int_eq(th_fill(out, 0), TH_OK);
    ck_assert_int_eq(th_set(out, TH_INDEX(0, 0), 1), TH_OK);
    ck_assert_int_eq(th_set(out, TH_INDEX(1, 4), 1), TH_OK);
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(3, 50, 8)), *weights = NULL;
    th_tensor *y = th_attend(m, x, x, x, &(th_attend_options){.weights = &weights});
    double sum = 0;
    int levels = 0;
    for (int64_t i = 0; i < 300; i++) {
        /* an integer number of weights 1 / 50, doubled */
        const double remaining = th_get(y, TH_INDEX(i / 100, i / 2 % 50, i % 2)) * 25;
        ck_assert_double_eq_tol(remaining, round(remaining), 1e-4);
        levels += fabs(remaining - 25) > 0.5;
        sum += remaining;
    }
    ck_assert_int_gt(levels, 100);
    ck_assert_double_eq_tol(sum / 300, 25, 5 * sqrt(50 * 0.25 / 300));
    ck_assert_double_eq_tol(th_get(weights, TH_INDEX(2, 1, 49, 49)), 0.02, 1e-6); /* before dropout */
    /* each head draws other numbers */
    int different = 0;
    for (int64_t t = 0; t < 50; t++)
        different += th_get(y, TH_INDEX(0, t, 0)) != th_get(y, TH_INDEX(0, t, 1));
    ck_assert_int_gt(different, 10);
    /* no dropout in evaluation */
    th_set_training(ctx, false);
    y = th_attend(m, x, x, x, NULL);
    for (int64_t t = 0; t < 50; t++)
        ck_assert_double_eq_tol(th_get(y, TH_INDEX(1, t, 1)), 1, 1e-5);
    no_error();
}
END_TEST

START_TEST(fused_and_composed_draw_the_same_dropout)
{
    th_module *m = th_multi_head_attention_new(ctx, 24, 3, &(th_multi_head_attention_options){.dropout = 0.3});
    th_tensor *x = leaf(TH_SHAPE(2, 9, 24));
    th_tensor *y[2], *g[2];
    for (int i = 0; i < 2; i++) {
        th_context *c = ctx;
        th_set_seed(c, 77); /* restarts the random numbers */
        th_set_fusion(c, i == 0);
        th_tensor *result =
            th_attend(m, x, x, x, &(th_attend_options){.mask = &(th_mask){.causal = TH_CAUSAL_TOP_LEFT}});
        ck_assert_int_eq(th_backward(th_sum(th_mul(result, result), TH_ALL_AXES, NULL), NULL), TH_OK);
        y[i] = th_keep(result);
        g[i] = th_keep(th_gradient(x));
        th_empty_gradient(x);
        th_tape_clear(c);
    }
    ck_assert_double_le(largest_difference(y[0], y[1]), 1e-5);
    ck_assert_double_le(largest_difference(g[0], g[1]), 1e-4);
}
END_TEST

START_TEST(every_parameter_receives_a_gradient)
{
    const construction *c = &constructions[_i];
    th_multi_head_attention_options o = c->options;
    o.dropout = 0.2;
    construction dropped = *c;
    dropped.options = o;
    built l = build(&dropped, TH_FLOAT32);
    const th_mask causal = {.causal = TH_CAUSAL_TOP_LEFT};
    th_tensor *y =
        th_attend(l.module, l.x[0], l.x[1], l.x[2], &(th_attend_options){.mask = takes_mask(c, 0) ? NULL : &causal});
    th_tensor *cotangent = th_randn(ctx, TH_FLOAT32, th_shape_of(y));
    ck_assert_int_eq(th_backward(y, &(th_backward_options){.cotangent = cotangent}), TH_OK);
    for (th_parameter_iterator p = th_module_parameters(l.module); th_parameter_next(&p);) {
        ck_assert_msg(th_gradient(p.tensor) != NULL, "%s: %s received no gradient", c->name, p.name);
        ck_assert_msg(th_item(th_max(th_abs(th_gradient(p.tensor)), TH_ALL_AXES, NULL)) > 0,
                      "%s: the gradient of %s is 0", c->name, p.name);
    }
    no_error();
}
END_TEST

/* A layer and its mask for the gradient checker: self-attention with one input, or attention with two or three. */
typedef struct {
    th_module *module;
    const th_mask *mask;
    int inputs;
} masked_layer;

static th_tensor *masked_forward(void *user, th_tensor *const *x)
{
    const masked_layer *l = user;
    return th_attend(l->module, x[0], x[l->inputs > 1 ? 1 : 0], x[l->inputs - 1],
                     &(th_attend_options){.mask = l->mask});
}

static void check_layer(const construction *c, built *l, int which, th_gradient_mode mode)
{
    double *bias = calloc((size_t)(c->B * c->heads * c->T * c->S), sizeof *bias);
    const th_mask mask = make_mask(c, which, bias);
    masked_layer layer = {l->module, &mask, c->tensors};
    th_gradient_report report;
    const th_status status = th_check_gradient(ctx, masked_forward, &layer, layer.inputs, l->x,
                                               &(th_gradient_options){.mode = mode, .name = c->name}, &report);
    ck_assert_msg(status == TH_OK, "%s, mask %d: %s%s", c->name, which, report.text, th_error_message(ctx));
    ck_assert_int_eq(report.mode, mode);
    ck_assert_int_gt(report.checked, 0);
    free(bias);
}

/* _i: construction, fused or composed. Checks every entry, with the same dropout in each run. */
START_TEST(gradient_check)
{
    construction c = constructions[_i / 2];
    c.options.dropout = 0.3;
    th_set_fusion(ctx, _i % 2 == 0);
    built l = build(&c, TH_FLOAT32);
    for (int which = 0; which < MASKS; which += 5) /* no mask, and all masks */
        if (takes_mask(&c, which))
            check_layer(&c, &l, which, TH_GRADIENT_FULL);
    no_error();
}
END_TEST

/* Larger sizes. */
START_TEST(gradient_check_of_larger_sizes)
{
    static const construction full[] = {
        {"lengths", 100, 5, {.dropout = 0.5, .no_bias = true}, 2, 4, 6, 3},
        {"narrow projections",
         512,
         8,
         {.dropout = 0.1,
          .query_input = 64,
          .key_input = 64,
          .value_input = 64,
          .key_width = 64,
          .value_width = 48,
          .output_width = 512},
         64,
         5,
         5,
         1},
        {"cross attention", 512, 8, {.dropout = 0.1}, 1, 62, 60, 2},
    };
    built l = build(&full[_i], TH_FLOAT32);
    check_layer(&full[_i], &l, _i == 0 ? 3 : _i == 1 ? 4 : 0, TH_GRADIENT_FAST);
    no_error();
}
END_TEST

/* -- parameters, shapes and errors -- */

START_TEST(parameters_and_their_initialization)
{
    th_module *m = th_multi_head_attention_new(ctx, 64, 4, NULL);
    th_tensor *in = th_module_find_parameter(m, "in_proj_weight");
    assert_shape(in, TH_SHAPE(192, 64));
    assert_shape(th_module_find_parameter(m, "in_proj_bias"), TH_SHAPE(192));
    assert_shape(th_module_find_parameter(m, "out_proj.weight"), TH_SHAPE(64, 64));
    assert_shape(th_module_find_parameter(m, "out_proj.bias"), TH_SHAPE(64));
    ck_assert_int_eq(th_module_count(m), 4 * 64 * 64 + 4 * 64);
    /* Xavier uniform of the packed matrix: +-sqrt(6 / (64 + 192)); out: +-1 / sqrt(64); biases 0. */
    ck_assert_double_eq_tol(th_item(th_max(th_abs(in), TH_ALL_AXES, NULL)), sqrt(6.0 / 256), 1e-3);
    ck_assert_double_eq_tol(th_item(th_max(th_abs(th_module_find_parameter(m, "out_proj.weight")), TH_ALL_AXES, NULL)),
                            0.125, 1e-3);
    ck_assert(th_item(th_max(th_abs(th_module_find_parameter(m, "in_proj_bias")), TH_ALL_AXES, NULL)) == 0);
    ck_assert(th_item(th_max(th_abs(th_module_find_parameter(m, "out_proj.bias")), TH_ALL_AXES, NULL)) == 0);
    th_module *grouped = th_multi_head_attention_new(ctx, 64, 4, &(th_multi_head_attention_options){.kv_heads = 2});
    ck_assert_ptr_null(th_module_find_parameter(grouped, "in_proj_weight"));
    assert_shape(th_module_find_parameter(grouped, "k_proj_weight"), TH_SHAPE(32, 64));
    ck_assert_double_eq_tol(
        th_item(th_max(th_abs(th_module_find_parameter(grouped, "k_proj_weight")), TH_ALL_AXES, NULL)), sqrt(6.0 / 96),
        2e-3);
    assert_shape(th_module_find_parameter(grouped, "in_proj_bias"), TH_SHAPE(128));
}
END_TEST

START_TEST(any_leading_dimensions)
{
    for (int fusion = 0; fusion < 2; fusion++) {
        th_set_fusion(ctx, fusion);
        th_module *m = th_multi_head_attention_new(ctx, 12, 3, NULL);
        th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 3, 5, 12));
        th_tensor *four = th_attend(m, x, x, x, NULL);
        assert_shape(four, TH_SHAPE(2, 3, 5, 12));
        th_tensor *flat = th_reshape(x, TH_SHAPE(6, 5, 12)), *three = th_attend(m, flat, flat, flat, NULL);
        ck_assert_double_le(largest_difference(th_reshape(four, TH_SHAPE(6, 5, 12)), three), 0);
        th_tensor *one = th_select(flat, 0, 4), *two = th_attend(m, one, one, one, NULL);
        assert_shape(two, TH_SHAPE(5, 12));
        /* independent of the rest of the batch, except with OpenBLAS */
        const bool openblas = strstr(th_build_info(ctx), "gemm=openblas") != NULL;
        ck_assert_double_le(largest_difference(two, th_select(three, 0, 4)), openblas ? 1e-6 : 0);
        th_tensor *none = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(0, 5, 12));
        assert_shape(th_attend(m, none, none, none, NULL), TH_SHAPE(0, 5, 12));
    }
}
END_TEST

START_TEST(axes_have_letters)
{
    th_module *m = th_multi_head_attention_new(ctx, 12, 3, NULL);
    th_tensor *x = th_set_axes(th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 5, 12)), "BTE"), *weights = NULL;
    th_tensor *y = th_attend(m, x, x, x, &(th_attend_options){.weights = &weights});
    ck_assert_str_eq(th_axes_of(y), "BTE");
    ck_assert_str_eq(th_axes_of(weights), "BHTS");
}
END_TEST

START_TEST(errors)
{
    th_module *m = th_multi_head_attention_new(ctx, 12, 3, NULL), *dense = th_dense_new(ctx, 12, 12, NULL);
    th_tensor *x = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2, 5, 12)),
              *narrow = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2, 5, 11));
    ck_assert_ptr_null(th_attend(m, narrow, x, x, NULL));
    expect_error(TH_ERROR_SHAPE, "the query is (2, 5, 11), but the layer takes (..., length, 12)");
    ck_assert_ptr_null(th_attend(m, x, x, narrow, NULL));
    expect_error(TH_ERROR_SHAPE, "the value is");
    ck_assert_ptr_null(th_attend(m, x, th_zeros(ctx, TH_FLOAT32, TH_SHAPE(12)), x, NULL));
    expect_error(TH_ERROR_SHAPE, "the key is (12)");
    ck_assert_ptr_null(th_attend(m, x, NULL, x, NULL));
    expect_error(TH_ERROR_ARGUMENT, "key is NULL");
    ck_assert_ptr_null(th_attend(NULL, x, x, x, NULL));
    expect_error(TH_ERROR_ARGUMENT, "the module is NULL");
    ck_assert_ptr_null(th_attend(dense, x, x, x, NULL));
    expect_error(TH_ERROR_ARGUMENT, "dense is not a multi_head_attention");
    ck_assert_ptr_null(th_module_forward(m, x));
    expect_error(TH_ERROR_ARGUMENT, "call th_attend");
    ck_assert_ptr_null(th_attend(m, x, th_slice(x, 1, 0, 4, 1), x, NULL));
    ck_assert_int_eq(th_error_code(ctx), TH_ERROR_SHAPE); /* four keys, five values */
    th_error_clear(ctx);
    ck_assert_ptr_null(th_attend(m, th_zeros(ctx, TH_FLOAT64, TH_SHAPE(2, 5, 12)), x, x, NULL));
    ck_assert_int_eq(th_error_code(ctx), TH_ERROR_TYPE);
    th_error_clear(ctx);
    static const struct {
        int64_t width, heads;
        th_multi_head_attention_options options;
        th_status code;
        const char *words;
    } bad[] = {
        {12, 5, {.dropout = 0}, TH_ERROR_SHAPE, "5 heads must divide the key width 12"},
        {12, 3, {.value_width = 10}, TH_ERROR_SHAPE, "value width 10"},
        {12, 3, {.kv_heads = 2}, TH_ERROR_SHAPE, "kv_heads = 2 must divide the 3 heads"},
        {12, 3, {.kv_heads = 6}, TH_ERROR_SHAPE, "kv_heads = 6"},
        {12, 3, {.dropout = 1}, TH_ERROR_ARGUMENT, "dropout must be in [0, 1)"},
        {12, 3, {.dropout = -0.5}, TH_ERROR_ARGUMENT, "dropout"},
        {0, 3, {.dropout = 0}, TH_ERROR_ARGUMENT, "must be positive"},
        {12, 0, {.dropout = 0}, TH_ERROR_ARGUMENT, "must be positive"},
        {12, 3, {.output_width = -4}, TH_ERROR_ARGUMENT, "no size negative"},
        {INT64_MAX, 1, {.dropout = 0}, TH_ERROR_ARGUMENT, "too large"},
        {9, 3, {.scores = {.rotary = true}}, TH_ERROR_SHAPE, "3 must be even and at most the 3 elements of a head"},
        {12, 3, {.scores = {.rotary = true, .rotary_width = 6}}, TH_ERROR_SHAPE, "6 must be even and at most the 4"},
        {12, 3, {.scores = {.rotary = true, .rotary_width = -2}}, TH_ERROR_SHAPE, "-2 must be even"},
        {12, 3, {.scores = {.rotary = true, .rotary_base = -1}}, TH_ERROR_ARGUMENT, "rotary_base = -1"},
        {12, 3, {.scores = {.rotary = true, .rotary_pairing = 2}}, TH_ERROR_ARGUMENT, "rotary_pairing is 2"},
        {12,
         3,
         {.scores = {.rotary = true, .rotary_scaling = {.kind = TH_ROTARY_LINEAR}}},
         TH_ERROR_ARGUMENT,
         "rotary_scaling: factor = 0"},
        {12, 3, {.scores = {.soft_cap = -1}}, TH_ERROR_ARGUMENT, "soft_cap = -1 must be a positive number"},
        {12, 3, {.scores = {.soft_cap = INFINITY}}, TH_ERROR_ARGUMENT, "soft_cap = inf"},
        {12, 3, {.scores = {.window = -1}}, TH_ERROR_ARGUMENT, "window = -1"},
        {12, 3, {.scores = {.qk_norm = true, .qk_norm_eps = NAN}}, TH_ERROR_ARGUMENT, "qk_norm_eps is nan"},
        {12, 3, {.scores = {.qk_norm = true, .qk_norm_eps = INFINITY}}, TH_ERROR_ARGUMENT, "qk_norm_eps is inf"},
        {12, 3, {.scores = {.qk_norm = true, .qk_norm_eps = -1}}, TH_ERROR_ARGUMENT, "qk_norm_eps is -1"},
        {12, 3, {.scores = {.rotary = true, .rotary_base = INFINITY}}, TH_ERROR_ARGUMENT, "rotary_base = inf"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_ptr_null(th_multi_head_attention_new(ctx, bad[i].width, bad[i].heads, &bad[i].options));
        ck_assert_ptr_eq(strstr(th_error_message(ctx), "multi_head_attention: "), th_error_message(ctx));
        expect_error(bad[i].code, bad[i].words);
    }
    th_module *windowed = th_multi_head_attention_new(
        ctx, 12, 3, &(th_multi_head_attention_options){.scores = {.rotary = true, .window = 2}});
    ck_assert_ptr_null(th_attend(windowed, x, x, x, NULL));
    expect_error(TH_ERROR_ARGUMENT, "a window of 2 keys needs a causal mask");
    const th_mask causal = {.causal = TH_CAUSAL_TOP_LEFT};
    th_tensor *positions = th_zeros(ctx, TH_INT64, TH_SHAPE(3));
    ck_assert_ptr_null(th_attend(windowed, x, x, x, &(th_attend_options){.mask = &causal, .positions = positions}));
    expect_error(TH_ERROR_SHAPE, "positions is (3)");
    assert_shape(th_attend(m, x, x, x, NULL), TH_SHAPE(2, 5, 12)); /* the layer still works */
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("multi_head_attention", setup, close_context);
    tcase_add_loop_test(tests, lengths_hide_keys, 0, 2);
    tcase_add_loop_test(tests, lengths_per_query_hide_keys, 0, 2);
    tcase_add_loop_test(tests, lengths_1_to_T_per_query_are_a_causal_mask, 0, 2);
    tcase_add_test(tests, heads_split_and_merge);
    tcase_add_test(tests, the_number_of_heads_does_not_change_multiply_adds);
    tcase_add_loop_test(tests, heads_in_the_batch_give_the_same_result, 0, 2);
    tcase_add_test(tests, heads_are_views);
    tcase_add_loop_test(tests, against_plain_loops, 0, 2 * CONSTRUCTIONS);
    tcase_add_loop_test(tests, narrow_projections, 0, 2);
    tcase_add_loop_test(tests, cross_attention, 0, 2);
    tcase_add_test(tests, positions_of_cross_attention);
    tcase_add_loop_test(tests, an_additive_mask_of_large_numbers_hides, 0, 2);
    tcase_add_loop_test(tests, dropout_of_weights, 0, 2);
    tcase_add_test(tests, fused_and_composed_draw_the_same_dropout);
    tcase_add_loop_test(tests, every_parameter_receives_a_gradient, 0, CONSTRUCTIONS);
    tcase_add_loop_test(tests, gradient_check, 0, 2 * CONSTRUCTIONS);
    tcase_add_loop_test(tests, gradient_check_of_larger_sizes, 0, 3);
    tcase_add_test(tests, parameters_and_their_initialization);
    tcase_add_test(tests, any_leading_dimensions);
    tcase_add_test(tests, axes_have_letters);
    tcase_add_test(tests, errors);
    return run_suites();
}
