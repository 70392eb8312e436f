/* Options of attention besides its mask: rotary positions, positions of queries, slopes, soft cap, window. Single
 * queries with a cache of keys are compared with the whole sequence. (Values and gradients are compared with plain
 * loops in test_attention_kernel and test_multi_head_attention, and on samples in test_gradients.) B sequences, H
 * heads, T queries, S keys, D elements of a head. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tapehead/tapehead.h"

#include "context.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 5, .threads = 2});
    ck_assert_ptr_nonnull(ctx);
}

static bool native(void)
{
    return strstr(th_build_info(ctx), "gemm=native") != NULL;
}

static th_tensor *integers(th_dtype dtype, th_shape shape, const int64_t *value)
{
    th_tensor *t = th_from_data(ctx, TH_INT64, shape, value);
    return dtype == TH_INT64 ? t : th_cast(t, dtype);
}

/* The bytes of a tensor in row-major order; the caller frees them. */
static char *bytes_of(th_tensor *t, size_t *size)
{
    no_error();
    *size = (size_t)th_numel(t) * th_dtype_size(th_dtype_of(t));
    char *bytes = malloc(*size + 1);
    ck_assert_ptr_nonnull(bytes);
    ck_assert_int_eq(th_copy_out(t, bytes, *size), TH_OK);
    return bytes;
}

static void assert_same_bits(th_tensor *a, th_tensor *b, const char *what)
{
    size_t of_a, of_b;
    char *x = bytes_of(a, &of_a), *y = bytes_of(b, &of_b);
    ck_assert_uint_eq(of_a, of_b);
    ck_assert_msg(memcmp(x, y, of_a) == 0, "%s", what);
    free(x);
    free(y);
}

/* -- rotary -- */

#define LLAMA3(by, low, high, length)                                                                                  \
    .kind = TH_ROTARY_LLAMA3, .factor = by, .low_freq_factor = low, .high_freq_factor = high, .original_length = length

static const th_rotary_options rotaries[] = {
    {.base = 0},
    {.pairing = TH_ROTARY_NEIGHBORS},
    {.base = 500000, .width = 12},
    {.base = 30, .pairing = TH_ROTARY_NEIGHBORS, .width = 18},
    {.scaling = {TH_ROTARY_LINEAR, .factor = 2.5}},
    {.base = 500000, .pairing = TH_ROTARY_NEIGHBORS, .scaling = {LLAMA3(8, 1, 4, 8192)}},
};
enum { ROTARIES = sizeof rotaries / sizeof *rotaries };

/* A scaled frequency, as transformers computes it: by wavelength. */
static double scaled(const th_rotary_scaling *s, double frequency)
{
    const double length = (double)s->original_length, wavelength = 2 * acos(-1) / frequency;
    if (s->kind == TH_ROTARY_LINEAR || (s->kind == TH_ROTARY_LLAMA3 && wavelength > length / s->low_freq_factor))
        return frequency / s->factor;
    if (s->kind == TH_ROTARY_UNSCALED || wavelength < length / s->high_freq_factor)
        return frequency;
    const double smooth = (length / wavelength - s->low_freq_factor) / (s->high_freq_factor - s->low_freq_factor);
    return (1 - smooth) * frequency / s->factor + smooth * frequency;
}

/* Rotates row x (D) at a position, by the formula. */
static void rotate(const th_rotary_options *o, int64_t D, int64_t position, const double *x, double *y)
{
    const int64_t width = o->width ? o->width : D;
    memcpy(y, x, (size_t)D * sizeof *x);
    for (int64_t i = 0; i < width / 2; i++) {
        const double base = o->base > 0 ? o->base : 10000;
        const double angle = (double)position * scaled(&o->scaling, pow(base, -2.0 * (double)i / (double)width));
        const int64_t a = o->pairing == TH_ROTARY_HALVES ? i : 2 * i,
                      b = o->pairing == TH_ROTARY_HALVES ? i + width / 2 : 2 * i + 1;
        y[a] = x[a] * cos(angle) - x[b] * sin(angle);
        y[b] = x[b] * cos(angle) + x[a] * sin(angle);
    }
}

/* _i: options, times type. Positions by default, given, and given for each sequence; also distant ones. */
START_TEST(rotary_is_as_defined)
{
    enum { B = 2, H = 3, T = 5, D = 38 };
    const th_dtype dtype = _i % 2 ? TH_FLOAT64 : TH_FLOAT32;
    th_rotary_options o = rotaries[_i / 2];
    static const int64_t position[B * T] = {3, 0, 1000, 7, 7, 131071, 2, -4, 1, 0};
    th_tensor *x = th_randn(ctx, dtype, TH_SHAPE(B, H, T, D));
    for (int kind = 0; kind < 3; kind++) {
        o.positions = kind == 0   ? NULL
                      : kind == 1 ? integers(TH_INT32, TH_SHAPE(T), position)
                                  : integers(TH_INT64, TH_SHAPE(B, T), position);
        th_tensor *y = th_rotary(x, &o);
        assert_shape(y, TH_SHAPE(B, H, T, D));
        for (int64_t b = 0; b < B; b++)
            for (int64_t h = 0; h < H; h++)
                for (int64_t t = 0; t < T; t++) {
                    double row[D], expected[D];
                    for (int64_t d = 0; d < D; d++)
                        row[d] = th_get(x, TH_INDEX(b, h, t, d));
                    rotate(&o, D, kind == 0 ? t : position[(kind == 2 ? b * T : 0) + t], row, expected);
                    for (int64_t d = 0; d < D; d++)
                        ck_assert_double_eq_tol(th_get(y, TH_INDEX(b, h, t, d)), expected[d],
                                                dtype == TH_FLOAT64 ? 1e-10 : 1e-6);
                }
    }
}
END_TEST

/* Values and gradients of heads in a packed projection equal the values and gradients of a copy; the operation copies
 * nothing. A row has the same bits at any address. */
START_TEST(rotary_reads_views_and_does_not_depend_on_rows)
{
    enum { B = 2, T = 7, H = 3, D = 20 };
    const th_rotary_options *o = &rotaries[_i];
    th_tensor *packed = th_randn(ctx, TH_FLOAT32, TH_SHAPE(B, T, 3, H, D));
    ck_assert_ptr_nonnull(th_set_requires_gradient(packed, true));
    th_tensor *q = th_swap_axes(th_select(packed, 2, 1), 1, 2);
    th_tensor *copy = th_set_requires_gradient(th_keep(th_contiguous(th_detach(q))), true);
    th_tensor *y = th_rotary(q, o), *z = th_rotary(copy, o);
    assert_same_bits(y, z, "a view and its copy");
    th_tensor *cotangent = th_randn(ctx, TH_FLOAT32, TH_SHAPE(B, H, T, D));
    ck_assert_int_eq(th_backward(y, &(th_backward_options){.cotangent = cotangent}), TH_OK);
    ck_assert_int_eq(th_backward(z, &(th_backward_options){.cotangent = cotangent}), TH_OK);
    assert_same_bits(th_swap_axes(th_select(th_gradient(packed), 2, 1), 1, 2), th_gradient(copy), "their gradients");
    for (int64_t t = 0; t < T; t++) {
        th_rotary_options alone = *o;
        const int64_t position[B] = {t, t};
        alone.positions = integers(TH_INT64, TH_SHAPE(B, 1), position);
        assert_same_bits(th_rotary(th_slice(q, 2, t, t + 1, 1), &alone), th_slice(y, 2, t, t + 1, 1), "a row alone");
    }
}
END_TEST

/* Values and gradients of many rows, which several threads share. */
START_TEST(rotary_has_the_same_bits_with_any_number_of_threads)
{
    enum { T = 6000, D = 64 };
    const th_rotary_options *o = &rotaries[_i];
    th_tensor *x = th_set_requires_gradient(th_randn(ctx, TH_FLOAT32, TH_SHAPE(T, D)), true);
    th_tensor *cotangent = th_randn(ctx, TH_FLOAT32, TH_SHAPE(T, D)), *y[2], *dx[2];
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(th_set_threads(ctx, i ? 4 : 1), TH_OK);
        y[i] = th_rotary(x, o);
        ck_assert_int_eq(th_backward(y[i], &(th_backward_options){.cotangent = cotangent, .keep_tape = true}), TH_OK);
        dx[i] = th_keep(th_gradient(x));
        th_empty_gradient(x);
    }
    assert_same_bits(y[0], y[1], "values");
    assert_same_bits(dx[0], dx[1], "gradients");
}
END_TEST

/* -- single queries -- */

typedef struct option {
    const char *name;
    bool rotary, alibi, keep, additive;
    double soft_cap;
    int64_t window;
} option;
static const option options[] = {
    {"nothing", .rotary = false},
    {"rotary", .rotary = true},
    {"ALiBi", .alibi = true},
    {"soft cap", .soft_cap = 3},
    {"window", .window = 70},
    {"window beyond a block of keys", .window = 1030},
    {"keep and additive", .keep = true, .additive = true},
    {"everything", .rotary = true, .alibi = true, .keep = true, .additive = true, .soft_cap = 5, .window = 300},
};
enum { OPTIONS = sizeof options / sizeof *options, B = 2, H = 4, KV = 2, S = 1060, CAPACITY = 1090 };

typedef struct sequence {
    th_tensor *q, *k, *v;       /* (B, H, S, D), (B, KV, CAPACITY, D) twice; NaN from S */
    th_tensor *slopes;          /* (H) */
    th_tensor *keep, *additive; /* (B, 1, 1, CAPACITY), (H, 1, CAPACITY) */
} sequence;

static sequence sequence_new(th_dtype dtype, int64_t D)
{
    sequence s = {.q = th_randn(ctx, dtype, TH_SHAPE(B, H, S, D)),
                  .k = th_full(ctx, dtype, TH_SHAPE(B, KV, CAPACITY, D), NAN),
                  .v = th_full(ctx, dtype, TH_SHAPE(B, KV, CAPACITY, D), NAN),
                  .slopes = th_uniform(ctx, dtype, TH_SHAPE(H), 0.01, 0.5),
                  .keep = th_full(ctx, TH_BOOL, TH_SHAPE(B, 1, 1, CAPACITY), 1),
                  .additive = th_randn(ctx, dtype, TH_SHAPE(H, 1, CAPACITY))};
    no_error();
    th_tensor *const rows[] = {s.k, s.v};
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(th_copy_into(th_slice(rows[i], 2, 0, S, 1), th_randn(ctx, dtype, TH_SHAPE(B, KV, S, D))),
                         TH_OK);
    for (int64_t key = 0; key < CAPACITY; key += 3)
        ck_assert_int_eq(th_set(s.keep, TH_INDEX(key % B, 0, 0, key), 0), TH_OK);
    return s;
}

/* The output (B, H, T, D) of queries first .. first + T - 1 of q at positions (NULL: their indices), with their keys
 * among the first `keys`. */
static th_tensor *attend(const option *o, const sequence *s, th_tensor *q, th_tensor *positions, int64_t keys)
{
    th_mask mask = {.causal = TH_CAUSAL_TOP_LEFT, .positions = positions};
    if (o->window)
        mask.window = TH_WINDOW(o->window - 1, -1);
    if (o->keep)
        mask.keep = th_slice(s->keep, -1, 0, keys, 1);
    if (o->additive)
        mask.additive = th_slice(s->additive, -1, 0, keys, 1);
    th_tensor *k = th_slice(s->k, 2, 0, keys, 1), *v = th_slice(s->v, 2, 0, keys, 1);
    if (o->rotary)
        q = th_rotary(q, &(th_rotary_options){.positions = positions});
    return th_scaled_dot_product_attention(
        q, k, v, &(th_attention_options){.mask = &mask, .soft_cap = o->soft_cap, .alibi = o->alibi ? s->slopes : NULL});
}

/* _i: width of a head, times type. Each sequence of the batch has a different position; later entries of the cache are
 * NaN. */
START_TEST(a_single_query_has_the_same_bits_as_the_whole_sequence)
{
    static const int64_t widths[] = {8, 20, 64}, cases[] = {0, 1, 15, 16, 47, 255, 256, 1023, 1024, 1059};
    if (!native()) /* OpenBLAS's bits depend on the shape of a product */
        return;
    th_no_grad_begin(ctx);
    const sequence s = sequence_new(_i % 2 ? TH_FLOAT64 : TH_FLOAT32, widths[_i / 2]);
    for (int i = 0; i < OPTIONS; i++) {
        th_tensor *whole = attend(&options[i], &s, s.q, NULL, S);
        for (size_t j = 0; j < sizeof cases / sizeof *cases; j++) {
            const int64_t position[B] = {cases[j], (cases[j] * 7 + 3) % S};
            th_tensor *alone[B], *among[B];
            for (int64_t b = 0; b < B; b++) {
                alone[b] = th_slice(th_slice(s.q, 2, position[b], position[b] + 1, 1), 0, b, b + 1, 1);
                among[b] = th_slice(th_slice(whole, 2, position[b], position[b] + 1, 1), 0, b, b + 1, 1);
            }
            th_tensor *q = th_concat(alone, B, 0), *expected = th_concat(among, B, 0);
            th_tensor *positions = integers(j % 2 ? TH_INT32 : TH_INT64, TH_SHAPE(B, 1), position);
            assert_same_bits(attend(&options[i], &s, q, positions, CAPACITY), expected, options[i].name);
        }
        th_tape_clear(ctx);
    }
    th_no_grad_end(ctx);
}
END_TEST

/* In composed attention a single query differs only by rounding. */
START_TEST(composed_single_queries)
{
    enum { POSITIONS = 3 };
    static const int64_t position[B * POSITIONS] = {4, 1059, 30, 700, 0, 301};
    th_no_grad_begin(ctx);
    const sequence s = sequence_new(TH_FLOAT64, 8);
    for (int i = 0; i < OPTIONS; i++) {
        th_tensor *positions = integers(TH_INT32, TH_SHAPE(B, POSITIONS), position),
                  *q = th_slice(s.q, 2, 0, POSITIONS, 1);
        th_set_fusion(ctx, true);
        th_tensor *fused = attend(&options[i], &s, q, positions, CAPACITY);
        th_set_fusion(ctx, false);
        th_tensor *composed = attend(&options[i], &s, q, positions, CAPACITY);
        const double difference = th_item(th_max(th_abs(th_sub(fused, composed)), TH_ALL_AXES, NULL));
        no_error();
        ck_assert_msg(difference < 1e-13, "%s: %g", options[i].name, difference);
        th_tape_clear(ctx);
    }
    th_no_grad_end(ctx);
}
END_TEST

/* -- the layer with a cache -- */

static const th_multi_head_attention_options layers[] = {
    {.scores = {.rotary = true}},
    {.kv_heads = 2, .scores = {.rotary = true, .rotary_pairing = TH_ROTARY_NEIGHBORS, .qk_norm = true}},
    {.scores = {.rotary = true, .rotary_scaling = {LLAMA3(4, 1, 3, 20)}}},
    {.scores = {.alibi = true, .soft_cap = 2}},
    {.kv_heads = 1, .scores = {.rotary = true, .rotary_width = 4, .alibi = true, .window = 3, .soft_cap = 4}},
};
enum { LAYERS = sizeof layers / sizeof *layers };

/* _i: options, times type. The second of two sequences begins two positions later. Tokens one by one and together. */
START_TEST(a_layer_with_a_cache_has_the_same_bits_as_without)
{
    enum { T = 9, WIDTH = 24, ROOM = 12 };
    static const int64_t cuts[][T + 1] = {{1, 1, 1, 1, 1, 1, 1, 1, 1}, {4, 1, 3, 1}, {9}};
    if (!native())
        return;
    const th_dtype dtype = _i % 2 ? TH_FLOAT64 : TH_FLOAT32;
    th_module *m = th_multi_head_attention_new(ctx, WIDTH, 4, &layers[_i / 2]);
    ck_assert_int_eq(th_module_cast(m, dtype), TH_OK);
    th_tensor *x = th_randn(ctx, dtype, TH_SHAPE(2, T, WIDTH));
    th_no_grad_begin(ctx);
    th_tensor *whole = th_attend(m, x, x, x, &(th_attend_options){.mask = &(th_mask){.causal = TH_CAUSAL_TOP_LEFT}});
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
        th_cache *cache = th_cache_new(m, 2, ROOM);
        int64_t first = 0;
        for (int i = 0; cuts[c][i]; i++) {
            const int64_t count = cuts[c][i];
            int64_t position[T];
            for (int64_t t = 0; t < count; t++)
                position[t] = first + t;
            th_tensor *piece = th_slice(x, 1, first, first + count, 1),
                      *positions = integers(TH_INT64, TH_SHAPE(count), position);
            const th_mask mask = {.causal = TH_CAUSAL_TOP_LEFT, .positions = positions};
            const th_attend_options with = {.mask = &mask, .positions = positions, .cache = cache};
            assert_same_bits(th_attend(m, piece, piece, piece, &with), th_slice(whole, 1, first, first + count, 1),
                             "a piece");
            first += count;
        }
        th_cache_free(cache);
    }
    th_no_grad_end(ctx);
}
END_TEST

/* -- masks with positions -- */

START_TEST(mask_explain_names_positions)
{
    static const int64_t position[2 * 2] = {3, 0, 7, 4};
    const th_shape scores = TH_SHAPE(2, 3, 2, 5);
    const th_mask mask = {.causal = TH_CAUSAL_BOTTOM_RIGHT,
                          .window = TH_WINDOW(2, -1),
                          .positions = integers(TH_INT32, TH_SHAPE(2, 2), position)};
    th_tensor *keep = th_mask_keep(ctx, &mask, scores);
    assert_shape(keep, scores);
    for (int64_t b = 0; b < 2; b++)
        for (int64_t t = 0; t < 2; t++)
            for (int64_t s = 0; s < 5; s++) {
                const int64_t at = position[2 * b + t];
                ck_assert_int_eq(th_get(keep, TH_INDEX(b, 1, t, s)) != 0, s <= at && s >= at - 2);
            }
    static const struct {
        int64_t b, t, s;
        const char *words;
    } pairs[] = {
        {0, 0, 3, "query 0 sees key 3: no rule masks it"},
        {0, 0, 4, "key 4 is after query 0, which is at position 3 (causal, by positions)"},
        {0, 1, 2, "key 2 is after query 1, which is at position 0 (causal, by positions)"},
        {1, 0, 4, "key 4 is more than 2 before query 0, which is at position 7 (window)"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char text[200];
        const th_shape index = TH_SHAPE(pairs[i].b, 2, pairs[i].t, pairs[i].s);
        ck_assert_int_eq(th_mask_explain(ctx, &mask, scores, index, text, sizeof text), TH_OK);
        ck_assert_str_eq(text, pairs[i].words);
    }
    /* positions alone are not a rule */
    ck_assert_ptr_null(th_mask_keep(ctx, &(th_mask){.positions = mask.positions}, scores));
    no_error();
}
END_TEST

/* -- errors -- */

static th_tensor *attend_mask(th_tensor *x, const th_mask *mask)
{
    return th_scaled_dot_product_attention(x, x, x, &(th_attention_options){.mask = mask});
}

START_TEST(errors)
{
    th_set_fusion(ctx, _i);
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 3, 4, 6));
    static const int64_t position[] = {0, 5, -2, 3, 1, 1, 1, 1};
    th_mask mask = {.causal = TH_CAUSAL_TOP_LEFT, .positions = integers(TH_INT64, TH_SHAPE(4), position)};
    ck_assert_ptr_null(attend_mask(x, &mask));
    expect_error(TH_ERROR_INDEX, "positions[2] = -2 is negative");
    mask.positions = integers(TH_INT32, TH_SHAPE(2, 4), position);
    ck_assert_ptr_null(th_masked_softmax(th_matmul(x, th_swap_axes(x, -1, -2)), &mask));
    expect_error(TH_ERROR_INDEX, "positions[0, 2] = -2 is negative");
    mask.positions = integers(TH_INT64, TH_SHAPE(3), position);
    ck_assert_ptr_null(attend_mask(x, &mask));
    expect_error(TH_ERROR_SHAPE, "positions is (3), but scores (2, 3, 4, 4) take positions of shape (T) or (B, T)");
    mask.positions = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(4));
    ck_assert_ptr_null(attend_mask(x, &mask));
    expect_error(TH_ERROR_TYPE, "positions are int32 or int64");
    th_tensor *plane = th_randn(ctx, TH_FLOAT32, TH_SHAPE(4, 6));
    mask.positions = integers(TH_INT64, TH_SHAPE(2, 4), position);
    ck_assert_ptr_null(attend_mask(plane, &mask));
    expect_error(TH_ERROR_SHAPE, "scores (4, 4) take positions of shape (T)");

    ck_assert_ptr_null(th_scaled_dot_product_attention(x, x, x, &(th_attention_options){.soft_cap = -2}));
    expect_error(TH_ERROR_ARGUMENT, "soft_cap = -2 must be a positive number");
    ck_assert_ptr_null(th_scaled_dot_product_attention(x, x, x, &(th_attention_options){.soft_cap = NAN}));
    expect_error(TH_ERROR_ARGUMENT, "soft_cap = nan");
    th_attention_options slopes = {.alibi = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2))};
    ck_assert_ptr_null(th_scaled_dot_product_attention(x, x, x, &slopes));
    expect_error(TH_ERROR_SHAPE, "alibi is (2), which does not broadcast to the leading dimensions of q");
    slopes.alibi = th_zeros(ctx, TH_FLOAT64, TH_SHAPE(3));
    ck_assert_ptr_null(th_scaled_dot_product_attention(x, x, x, &slopes));
    expect_error(TH_ERROR_TYPE, "float64");
    slopes.alibi = th_zeros(ctx, TH_INT64, TH_SHAPE(3));
    ck_assert_ptr_null(th_scaled_dot_product_attention(x, x, x, &slopes));
    expect_error(TH_ERROR_TYPE, "int64");
}
END_TEST

/* The window of a mask and the window of the layer combine. A negative left or right side of a mask limits nothing. _i:
 * the kind of causal mask. */
START_TEST(a_layer_combines_its_window_with_that_of_a_mask)
{
    enum { T = 9, WIDTH = 8 };
    static const int64_t sides[] = {-100, -1, 0, 1, 2, 3, 100};
    enum { SIDES = sizeof sides / sizeof *sides };
    const th_causal causal = _i ? TH_CAUSAL_BOTTOM_RIGHT : TH_CAUSAL_TOP_LEFT;
    th_set_seed(ctx, 1);
    th_module *whole = th_multi_head_attention_new(ctx, WIDTH, 2, NULL);
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, T, WIDTH));
    for (int64_t window = 1; window <= T + 1; window += window < 4 ? 1 : 3) {
        th_set_seed(ctx, 1); /* the same weights */
        th_module *limited = th_multi_head_attention_new(
            ctx, WIDTH, 2, &(th_multi_head_attention_options){.scores = {.window = window}});
        for (int i = 0; i <= SIDES * SIDES; i++) {
            const bool given = i < SIDES * SIDES; /* the last mask has no window */
            const int64_t left = given ? sides[i / SIDES] : -1, right = given ? sides[i % SIDES] : -1;
            const th_mask own = {.causal = causal, .window = given ? TH_WINDOW(left, right) : (th_window_range){0}};
            const int64_t both = left >= 0 && left < window - 1 ? left : window - 1;
            const th_mask combined = {.causal = causal, .window = TH_WINDOW(both, right)};
            assert_same_bits(th_attend(limited, x, x, x, &(th_attend_options){.mask = &own}),
                             th_attend(whole, x, x, x, &(th_attend_options){.mask = &combined}), "two windows");
            ck_assert_int_eq(own.window.left, given ? left : 0); /* the caller's mask does not change */
        }
        th_tape_clear(ctx);
        th_module_free(limited);
    }
}
END_TEST

START_TEST(rotary_errors)
{
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 3, 5));
    static const struct {
        th_rotary_options options;
        th_status code;
        const char *words;
    } bad[] = {
        {{.width = 6}, TH_ERROR_ARGUMENT, "width = 6 must be an even number in [0, 5]; x is (2, 3, 5)"},
        {{.width = 3}, TH_ERROR_ARGUMENT, "width = 3 must be an even number"},
        {{.width = -2}, TH_ERROR_ARGUMENT, "width = -2"},
        {{.width = 0}, TH_ERROR_SHAPE, "pairs need an even number of elements, x is (2, 3, 5)"},
        {{.width = 4, .base = -1}, TH_ERROR_ARGUMENT, "base = -1 must be a positive number"},
        {{.width = 4, .base = INFINITY}, TH_ERROR_ARGUMENT, "base = inf"},
        {{.width = 4, .pairing = 7}, TH_ERROR_ARGUMENT, "pairing is 7, which is not a th_rotary_pairing"},
        {{.width = 4, .scaling = {.kind = 9}}, TH_ERROR_ARGUMENT, "scaling: kind is 9, which is no"},
        {{.width = 4, .scaling = {.kind = TH_ROTARY_LINEAR}},
         TH_ERROR_ARGUMENT,
         "scaling: factor = 0 must be a positive"},
        {{.width = 4, .scaling = {.kind = TH_ROTARY_LINEAR, .factor = NAN}}, TH_ERROR_ARGUMENT, "factor = nan"},
        {{.width = 4, .scaling = {LLAMA3(8, 4, 4, 9)}},
         TH_ERROR_ARGUMENT,
         "low_freq_factor = 4 must be positive and less than high_freq_factor = 4"},
        {{.width = 4, .scaling = {LLAMA3(8, 0, 4, 9)}}, TH_ERROR_ARGUMENT, "low_freq_factor = 0"},
        {{.width = 4, .scaling = {LLAMA3(8, 1, INFINITY, 9)}}, TH_ERROR_ARGUMENT, "high_freq_factor = inf"},
        {{.width = 4, .scaling = {.kind = TH_ROTARY_LLAMA3, .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4}},
         TH_ERROR_ARGUMENT,
         "original_length = 0"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_error(th_rotary(x, &bad[i].options), bad[i].code, bad[i].words);
    th_rotary_options o = {.width = 4, .positions = th_zeros(ctx, TH_INT64, TH_SHAPE(2))};
    assert_error(th_rotary(x, &o), TH_ERROR_SHAPE,
                 "positions is (2), but x (2, 3, 5) takes positions of shape (T) or (B, T)");
    o.positions = th_zeros(ctx, TH_INT64, TH_SHAPE(3, 2));
    assert_error(th_rotary(x, &o), TH_ERROR_SHAPE, "positions is (3, 2)");
    o.positions = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(3));
    assert_error(th_rotary(x, &o), TH_ERROR_TYPE, "float32");
    assert_error(th_rotary(th_zeros(ctx, TH_INT64, TH_SHAPE(3, 4)), NULL), TH_ERROR_TYPE, "int64");
    assert_error(th_rotary(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(4)), NULL), TH_ERROR_SHAPE,
                 "at least two dimensions, (T, D)");
    assert_error(th_rotary(NULL, NULL), TH_ERROR_ARGUMENT, "input 0 is NULL");
    /* nothing to rotate */
    assert_shape(th_rotary(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2, 0, 4)), NULL), TH_SHAPE(2, 0, 4));
    assert_shape(th_rotary(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2, 3, 0)), NULL), TH_SHAPE(2, 3, 0));
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("attention options", setup, close_context);
    tcase_add_loop_test(tests, rotary_is_as_defined, 0, 2 * ROTARIES);
    tcase_add_loop_test(tests, rotary_has_the_same_bits_with_any_number_of_threads, 0, 2);
    tcase_add_loop_test(tests, rotary_reads_views_and_does_not_depend_on_rows, 0, ROTARIES);
    tcase_add_loop_test(tests, a_single_query_has_the_same_bits_as_the_whole_sequence, 0, 6);
    tcase_add_test(tests, composed_single_queries);
    tcase_add_loop_test(tests, a_layer_with_a_cache_has_the_same_bits_as_without, 0, 2 * LAYERS);
    tcase_add_test(tests, mask_explain_names_positions);
    tcase_add_loop_test(tests, errors, 0, 2);
    tcase_add_loop_test(tests, a_layer_combines_its_window_with_that_of_a_mask, 0, 2);
    tcase_add_test(tests, rotary_errors);
    return run_suites();
}
