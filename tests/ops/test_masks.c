/* Masks against plain loops in double: masked_softmax, mask_keep and mask_explain for every kind of mask, equal bits
 * for equal masks, errors. */
#include <math.h>
#include <string.h>

#include "row_values.h"

/* Masks of every kind over scores (B, H, T, S). */
enum { B = 2, H = 2, T = 3, S = 20, SCORES = B * H * T * S };

/* The parts of each mask under test. */
typedef struct mask_parts {
    th_causal causal;
    th_window_range window;
    bool lengths;       /* of each example */
    bool query_lengths; /* of each query */
    bool keep, additive;
    bool additive_masks; /* one additive term is -inf */
} mask_parts;

static const mask_parts masks[] = {
    {.causal = TH_CAUSAL_NONE},
    {.causal = TH_CAUSAL_TOP_LEFT},
    {.causal = TH_CAUSAL_BOTTOM_RIGHT},
    {.window = {true, 16, 1}},
    {.lengths = true},
    {.query_lengths = true},
    {.keep = true},
    {.additive = true, .additive_masks = true},
    {.additive = true},
    {.causal = TH_CAUSAL_TOP_LEFT, .lengths = true, .additive = true, .additive_masks = true},
    {.causal = TH_CAUSAL_BOTTOM_RIGHT, .window = {true, 16, -1}, .keep = true},
    {.keep = true, .additive = true, .additive_masks = true},
};
enum { MASKS = sizeof masks / sizeof masks[0] };

/* A mask, and its meaning for each pair. */
typedef struct example {
    th_mask mask;
    bool masked[SCORES];
    double term[SCORES]; /* of the additive mask */
} example;

static bool outside_window(th_window_range window, int position, int s)
{
    return window.given &&
           ((window.left >= 0 && s < position - window.left) || (window.right >= 0 && s > position + window.right));
}

static void make_example(th_context *ctx, const mask_parts *parts, th_dtype dtype, example *e)
{
    const int64_t lengths[B] = {5, 17}, query_lengths[B * T] = {1, 0, 20, 16, 17, 2};
    th_tensor *keep =
        th_less(th_uniform(ctx, TH_FLOAT64, TH_SHAPE(B, 1, T, S), 0, 1), th_full(ctx, TH_FLOAT64, TH_SCALAR, 0.6));
    th_tensor *additive = th_uniform(ctx, dtype, TH_SHAPE(H, 1, S), -2, 2);
    if (parts->additive_masks && th_set(additive, TH_INDEX(1, 0, 4), -INFINITY))
        ck_abort();
    *e = (example){.mask = {.causal = parts->causal, .window = parts->window}};
    if (parts->lengths)
        e->mask.valid_lengths = th_from_data(ctx, TH_INT64, TH_SHAPE(B), lengths);
    if (parts->query_lengths)
        e->mask.valid_lengths = th_cast(th_from_data(ctx, TH_INT64, TH_SHAPE(B, T), query_lengths), TH_INT32);
    if (parts->keep)
        e->mask.keep = keep;
    if (parts->additive)
        e->mask.additive = additive;
    for (int i = 0; i < SCORES; i++) {
        const int b = i / (H * T * S), h = i / (T * S) % H, t = i / S % T, s = i % S;
        const int position = parts->causal == TH_CAUSAL_BOTTOM_RIGHT ? t + S - T : t;
        e->term[i] = parts->additive ? th_get(additive, TH_INDEX(h, 0, s)) : 0;
        e->masked[i] = (parts->causal && s > position) || outside_window(parts->window, position, s) ||
                       (parts->lengths && s >= lengths[b]) || (parts->query_lengths && s >= query_lengths[b * T + t]) ||
                       (parts->keep && th_get(keep, TH_INDEX(b, 0, t, s)) == 0) || e->term[i] == -INFINITY;
    }
}

static void masked_reference(const values *x, const example *e, values *y)
{
    y->count = x->count;
    for (int row = 0; row < x->count; row += S) {
        double largest = -INFINITY, sum = 0;
        for (int i = row; i < row + S; i++)
            if (!e->masked[i])
                largest = fmax(largest, x->at[i] + e->term[i]);
        for (int i = row; i < row + S; i++) {
            y->at[i] = e->masked[i] ? 0 : exp(x->at[i] + e->term[i] - largest);
            sum += y->at[i];
        }
        for (int i = row; i < row + S; i++)
            y->at[i] = e->masked[i] ? 0 : y->at[i] / sum;
    }
}

START_TEST(test_masked_softmax)
{
    static example e;
    static values x, y, got;
    th_context *ctx = open_context();
    for (int variant = 0; variant < 4; variant++) {
        const th_dtype dtype = types[variant % 2];
        th_tensor *scores = numbers(ctx, dtype, TH_SHAPE(B, H, T, S), -4, 4, variant / 2);
        read_values(scores, &x);
        make_example(ctx, &masks[_i], dtype, &e);
        masked_reference(&x, &e, &y);
        th_tensor *weights = th_masked_softmax(scores, &e.mask);
        assert_values(weights, &y, tolerance_of(dtype), "masked_softmax");
        read_values(weights, &got);
        bool any = false;
        th_tensor *keep = th_mask_keep(ctx, &e.mask, TH_SHAPE(B, H, T, S));
        ck_assert_msg(th_error_code(ctx) == TH_OK, "%s", th_error_message(ctx));
        for (int i = 0; i < SCORES; i++) {
            ck_assert(!e.masked[i] || got.at[i] == 0);
            any |= e.masked[i];
            const th_shape index = TH_INDEX(i / (H * T * S), i / (T * S) % H, i / S % T, i % S);
            ck_assert(!keep || th_get(keep, index) == !e.masked[i]);
            char text[256];
            ck_assert_int_eq(th_mask_explain(ctx, &e.mask, TH_SHAPE(B, H, T, S), index, text, sizeof text), TH_OK);
            ck_assert_msg((strstr(text, "no rule masks it") == NULL) == e.masked[i], "%s", text);
        }
        ck_assert((keep != NULL) == any);
    }
    close_context(ctx);
}
END_TEST

/* NaN and infinity in masked scores and output gradients change no bit of the result and of the gradients. */
START_TEST(test_masked_numbers_have_no_effect)
{
    static example e;
    th_context *ctx = open_context();
    make_example(ctx, &masks[_i], TH_FLOAT32, &e);
    th_tensor *scores = th_set_requires_gradient(th_uniform(ctx, TH_FLOAT32, TH_SHAPE(B, H, T, S), -4, 4), true);
    th_tensor *cotangent = th_uniform(ctx, TH_FLOAT32, TH_SHAPE(B, H, T, S), -1, 1);
    if (e.mask.additive)
        th_set_requires_gradient(e.mask.additive, true);
    float first[3][SCORES], second[3][SCORES];
    memset(first, 0, sizeof first);
    memset(second, 0, sizeof second);
    for (int planted = 0; planted < 2; planted++) {
        float(*result)[SCORES] = planted ? second : first;
        if (planted)
            for (int i = 0; i < SCORES; i++)
                if (e.masked[i])
                    ((float *)th_data(scores))[i] = ((float *)th_data(cotangent))[i] = i % 2 ? NAN : INFINITY;
        th_tensor *y = th_masked_softmax(scores, &e.mask);
        ck_assert_int_eq(th_copy_out(y, result[0], sizeof first[0]), TH_OK);
        ck_assert_int_eq(th_backward(y, &(th_backward_options){.cotangent = cotangent}), TH_OK);
        ck_assert_int_eq(th_copy_out(th_gradient(scores), result[1], sizeof first[1]), TH_OK);
        if (e.mask.additive) {
            th_tensor *gradient = th_gradient(e.mask.additive);
            ck_assert_int_eq(th_copy_out(gradient, result[2], (size_t)th_numel(gradient) * sizeof(float)), TH_OK);
            th_empty_gradient(e.mask.additive);
        }
        th_empty_gradient(scores);
        for (int i = 0; i < SCORES; i++)
            ck_assert(e.masked[i] ? result[0][i] == 0 && result[1][i] == 0
                                  : isfinite(result[0][i]) && isfinite(result[1][i]));
        if (!planted && e.mask.additive) { /* the sum over the axes along which the term was broadcast */
            double sum[H * S] = {0};
            for (int i = 0; i < SCORES; i++)
                sum[i / (T * S) % H * S + i % S] += (double)result[1][i];
            for (int i = 0; i < H * S; i++)
                ck_assert(close_to((double)result[2][i], sum[i], 1e-6));
        }
    }
    ck_assert(memcmp(first, second, sizeof first) == 0);
    close_context(ctx);
}
END_TEST

/* The same mask in several forms gives the same bits. */
START_TEST(test_forms_of_a_mask)
{
    th_context *ctx = open_context();
    th_tensor *scores = th_uniform(ctx, TH_FLOAT32, TH_SHAPE(2, 40, 40), -4, 4);
    int64_t lengths[2 * 40];
    bool keep[40 * 40];
    float term[40 * 40];
    for (int t = 0; t < 40; t++) {
        lengths[t] = lengths[40 + t] = t + 1;
        for (int s = 0; s < 40; s++) {
            keep[t * 40 + s] = s <= t;
            term[t * 40 + s] = s <= t ? 0 : -INFINITY;
        }
    }
    const th_mask forms[] = {{.causal = TH_CAUSAL_TOP_LEFT},
                             {.causal = TH_CAUSAL_BOTTOM_RIGHT},
                             {.window = TH_WINDOW(-1, 0)},
                             {.window = TH_WINDOW(INT64_MAX, 0)},
                             {.valid_lengths = th_from_data(ctx, TH_INT64, TH_SHAPE(2, 40), lengths)},
                             {.keep = th_from_data(ctx, TH_BOOL, TH_SHAPE(40, 40), keep)},
                             {.additive = th_from_data(ctx, TH_FLOAT32, TH_SHAPE(40, 40), term)}};
    static float first[3200], other[3200];
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        ck_assert_int_eq(th_copy_out(th_masked_softmax(scores, &forms[i]), i ? other : first, sizeof first), TH_OK);
        ck_assert_msg(i == 0 || memcmp(first, other, sizeof first) == 0, "form %zu", i);
    }
    /* without a mask: softmax */
    ck_assert_int_eq(th_copy_out(th_masked_softmax(scores, NULL), first, sizeof first), TH_OK);
    ck_assert_int_eq(th_copy_out(th_softmax(scores, -1), other, sizeof first), TH_OK);
    ck_assert(memcmp(first, other, sizeof first) == 0);
    /* two dimensions: a length for each query, or one for all */
    th_tensor *one = th_select(scores, 0, 0);
    ck_assert_int_eq(th_copy_out(th_masked_softmax(one, &forms[0]), first, 1600 * sizeof(float)), TH_OK);
    const th_mask each = {.valid_lengths = th_from_data(ctx, TH_INT64, TH_SHAPE(40), lengths)};
    ck_assert_int_eq(th_copy_out(th_masked_softmax(one, &each), other, 1600 * sizeof(float)), TH_OK);
    ck_assert(memcmp(first, other, 1600 * sizeof(float)) == 0);
    th_tensor *weights = th_masked_softmax(one, &(th_mask){.valid_lengths = th_full(ctx, TH_INT32, TH_SCALAR, 7)});
    for (int s = 0; s < 40; s++)
        ck_assert((th_get(weights, TH_INDEX(11, s)) > 0) == (s < 7));
    close_context(ctx);
}
END_TEST

START_TEST(test_visible_scores_that_are_not_finite)
{
    th_context *ctx = open_context();
    const float inf = INFINITY, nan = NAN;
    const float scores[] = {inf, 1, 2, nan, 1, 2, -inf, -inf, 2, 1, -inf, 2};
    th_tensor *x = th_from_data(ctx, TH_FLOAT32, TH_SHAPE(4, 3), scores);
    const values expected = {12, {nan, nan, 0, nan, nan, 0, nan, nan, 0, 1, 0, 0}};
    assert_values(th_masked_softmax(x, &(th_mask){.valid_lengths = th_full(ctx, TH_INT64, TH_SCALAR, 2)}), &expected, 0,
                  "masked_softmax");
    close_context(ctx);
}
END_TEST

static void assert_explained(th_context *ctx, const th_mask *mask, int64_t b, int64_t t, int64_t s,
                             const char *expected)
{
    char text[256];
    ck_assert_int_eq(th_mask_explain(ctx, mask, TH_SHAPE(2, 2, 3, 6), TH_INDEX(b, 1, t, s), text, sizeof text), TH_OK);
    ck_assert_str_eq(text, expected);
}

START_TEST(test_mask_explain)
{
    th_context *ctx = open_context();
    th_tensor *lengths = th_from_data(ctx, TH_INT32, TH_SHAPE(2), (int32_t[]){6, 3});
    assert_explained(ctx, &(th_mask){.valid_lengths = lengths}, 1, 0, 5, "key 5 is past valid_lengths[1] = 3");
    assert_explained(ctx, &(th_mask){.valid_lengths = lengths}, 0, 2, 5, "query 2 sees key 5: no rule masks it");
    th_tensor *each = th_from_data(ctx, TH_INT64, TH_SHAPE(2, 3), (int64_t[]){6, 6, 6, 0, 1, 2});
    assert_explained(ctx, &(th_mask){.valid_lengths = each}, 1, 2, 2, "key 2 is past valid_lengths[1, 2] = 2");
    assert_explained(ctx, &(th_mask){.causal = TH_CAUSAL_TOP_LEFT}, 0, 1, 2,
                     "key 2 is after query 1 (causal, top left)");
    assert_explained(ctx, &(th_mask){.causal = TH_CAUSAL_BOTTOM_RIGHT}, 0, 1, 5,
                     "key 5 is after query 1, which is at position 4 (causal, bottom right)");
    assert_explained(ctx, &(th_mask){.window = TH_WINDOW(1, 2)}, 0, 2, 0,
                     "key 0 is more than 1 before query 2 (window)");
    assert_explained(ctx, &(th_mask){.window = TH_WINDOW(1, 2)}, 0, 2, 5,
                     "key 5 is more than 2 after query 2 (window)");
    th_tensor *keep = th_zeros(ctx, TH_BOOL, TH_SHAPE(2, 1, 1, 6)),
              *additive = th_full(ctx, TH_FLOAT64, TH_SHAPE(3, 1), -INFINITY);
    assert_explained(ctx, &(th_mask){.keep = keep}, 1, 2, 4, "keep[1, 0, 0, 4] is false");
    assert_explained(ctx, &(th_mask){.additive = additive}, 1, 2, 4, "additive[2, 0] is -inf");
    assert_explained(
        ctx, &(th_mask){.causal = TH_CAUSAL_TOP_LEFT, .valid_lengths = lengths, .keep = keep}, 1, 1, 3,
        "key 3 is after query 1 (causal, top left); key 3 is past valid_lengths[1] = 3; keep[1, 0, 0, 3] is false");
    char text[12];
    ck_assert_int_eq(th_mask_explain(ctx, NULL, TH_SHAPE(3, 6), TH_INDEX(1, 2), text, sizeof text), TH_OK);
    ck_assert_str_eq(text, "query 1 see"); /* cut off at the size */
    close_context(ctx);
}
END_TEST

START_TEST(test_mask_errors)
{
    th_context *ctx = open_context();
    th_tensor *x = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2, 4, 6));
    th_tensor *lengths = th_from_data(ctx, TH_INT32, TH_SHAPE(2), (int32_t[]){6, 9});
    ASSERT_ERROR(ctx, th_masked_softmax(x, &(th_mask){.valid_lengths = lengths}), TH_ERROR_INDEX,
                 "masked_softmax: valid_lengths[1] = 9 is outside [0, 6]");
    ASSERT_ERROR(ctx, th_mask_keep(ctx, &(th_mask){.valid_lengths = lengths}, TH_SHAPE(2, 4, 6)), TH_ERROR_INDEX,
                 "mask_keep: valid_lengths[1] = 9 is outside [0, 6]");
    ASSERT_ERROR(ctx, th_masked_softmax(x, &(th_mask){.valid_lengths = th_zeros(ctx, TH_INT32, TH_SHAPE(4))}),
                 TH_ERROR_SHAPE, "valid_lengths is (4), but scores (2, 4, 6) take lengths of shape (B) or (B, T)");
    ASSERT_ERROR(ctx, th_masked_softmax(x, &(th_mask){.valid_lengths = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2))}),
                 TH_ERROR_TYPE, "valid_lengths is float32, but lengths are int32 or int64");
    ASSERT_ERROR(ctx, th_masked_softmax(x, &(th_mask){.keep = x}), TH_ERROR_TYPE,
                 "keep is float32, but it must be bool");
    ASSERT_ERROR(ctx, th_masked_softmax(x, &(th_mask){.keep = th_zeros(ctx, TH_BOOL, TH_SHAPE(2, 6))}), TH_ERROR_SHAPE,
                 "keep is (2, 6), which does not broadcast to scores (2, 4, 6)");
    ASSERT_ERROR(ctx, th_masked_softmax(x, &(th_mask){.additive = th_zeros(ctx, TH_FLOAT64, TH_SHAPE(6))}),
                 TH_ERROR_TYPE, "additive is float64, but the scores are float32");
    ASSERT_ERROR(ctx, th_masked_softmax(x, &(th_mask){.causal = (th_causal)9}), TH_ERROR_ARGUMENT, "causal is 9");
    ASSERT_ERROR(ctx, th_masked_softmax(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(6)), NULL), TH_ERROR_SHAPE,
                 "a mask needs at least (T, S)");
    ASSERT_ERROR(ctx, th_mask_keep(ctx, NULL, TH_SHAPE(-2, 3)), TH_ERROR_SHAPE, "mask_keep");
    char text[64];
    ck_assert_int_eq(th_mask_explain(ctx, NULL, TH_SHAPE(2, 3), TH_INDEX(2, 0), text, sizeof text), TH_ERROR_INDEX);
    ASSERT_ERROR(ctx, NULL, TH_ERROR_INDEX, "mask_explain: index 2 of dimension 0 is outside [0, 2)");
    ck_assert_ptr_null(th_mask_keep(ctx, &(th_mask){.window = TH_WINDOW(-1, -1)}, TH_SHAPE(2, 3)));
    /* whether causal order and window mask anything is known without data */
    static const struct {
        th_mask mask;
        int64_t queries, keys;
        bool masks;
    } bands[] = {
        {{.causal = TH_CAUSAL_TOP_LEFT}, 1, 1, false},
        {{.causal = TH_CAUSAL_TOP_LEFT}, 2, 1, false},
        {{.causal = TH_CAUSAL_TOP_LEFT}, 1, 2, true},
        {{.causal = TH_CAUSAL_BOTTOM_RIGHT}, 1, 2, false},
        {{.causal = TH_CAUSAL_BOTTOM_RIGHT}, 2, 2, true},
        {{.window = {true, 2, 1}}, 3, 2, false},
        {{.window = {true, 1, 1}}, 3, 2, true},
        {{.window = {true, 2, 0}}, 3, 2, true},
        {{.causal = TH_CAUSAL_BOTTOM_RIGHT, .window = {true, 2, -1}}, 1, 3, false},
        {{.causal = TH_CAUSAL_BOTTOM_RIGHT, .window = {true, 1, -1}}, 1, 3, true},
    };
    th_context *forecast = th_context_new(&(th_context_options){.shapes_only = true});
    for (size_t i = 0; i < sizeof bands / sizeof *bands; i++) {
        const th_shape scores = TH_SHAPE(bands[i].queries, bands[i].keys);
        ck_assert_int_eq(th_mask_keep(ctx, &bands[i].mask, scores) != NULL, bands[i].masks);
        ck_assert_int_eq(th_mask_keep(forecast, &bands[i].mask, scores) != NULL, bands[i].masks);
    }
    th_context_free(forecast);
    ck_assert_ptr_null(
        th_mask_keep(ctx, &(th_mask){.additive = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(3))}, TH_SHAPE(2, 3)));
    close_context(ctx);
}
END_TEST

START_TEST(test_wrong_masks_and_questions)
{
    th_context *ctx = open_context();
    char text[64] = "";
    const th_shape scores = {3, {2, 4, 5}}, index = {3, {0, 1, 2}};
    ck_assert_int_eq(th_mask_explain(ctx, NULL, scores, index, NULL, 64), TH_ERROR_ARGUMENT);
    ASSERT_ERROR(ctx, NULL, TH_ERROR_ARGUMENT, "mask_explain: the buffer");
    ck_assert_int_eq(th_mask_explain(ctx, NULL, scores, index, text, 0), TH_ERROR_ARGUMENT);
    ASSERT_ERROR(ctx, NULL, TH_ERROR_ARGUMENT, "mask_explain: the buffer");
    ck_assert_int_eq(th_mask_explain(ctx, NULL, scores, TH_INDEX(1, 2), text, sizeof text), TH_ERROR_INDEX);
    ASSERT_ERROR(ctx, NULL, TH_ERROR_INDEX, "mask_explain: the index has 2 numbers, but the scores have 3 dimensions");
    ck_assert_int_eq(th_mask_explain(ctx, NULL, scores, TH_INDEX(1, 2, 5), text, sizeof text), TH_ERROR_INDEX);
    ASSERT_ERROR(ctx, NULL, TH_ERROR_INDEX, "mask_explain: index 5 of dimension 2 is outside [0, 5)");
    ck_assert_int_eq(th_mask_explain(ctx, NULL, scores, TH_INDEX(1, -1, 0), text, sizeof text), TH_ERROR_INDEX);
    ASSERT_ERROR(ctx, NULL, TH_ERROR_INDEX, "mask_explain: index -1 of dimension 1 is outside [0, 4)");
    ck_assert_int_eq(th_mask_explain(NULL, NULL, scores, index, text, sizeof text), TH_ERROR_ARGUMENT);
    th_mask mask = {.additive = th_zeros(ctx, TH_INT64, TH_SHAPE(4, 5))};
    ck_assert_int_eq(th_mask_explain(ctx, &mask, scores, index, text, sizeof text), TH_ERROR_TYPE);
    ASSERT_ERROR(ctx, NULL, TH_ERROR_TYPE, "mask_explain: additive is int64, but it must be float32 or float64");
    ASSERT_ERROR(ctx, th_mask_keep(ctx, &mask, scores), TH_ERROR_TYPE, "mask_keep: additive is int64");
    static const int causal[] = {-1, 3};
    for (int i = 0; i < 2; i++) {
        mask = (th_mask){.causal = (th_causal)causal[i]};
        ASSERT_ERROR(ctx, th_mask_keep(ctx, &mask, scores), TH_ERROR_ARGUMENT,
                     i ? "mask_keep: causal is 3, which is not" : "mask_keep: causal is -1, which is not");
    }
    static const th_shape lengths[] = {{1, {3}}, {2, {2, 3}}, {2, {3, 4}}, {0, {0}}};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        mask = (th_mask){.valid_lengths = th_zeros(ctx, TH_INT64, lengths[i])};
        ASSERT_ERROR(ctx, th_mask_keep(ctx, &mask, scores), TH_ERROR_SHAPE,
                     "scores (2, 4, 5) take lengths of shape (B) or");
    }
    static const th_shape positions[] = {{1, {3}}, {2, {2, 3}}, {2, {3, 4}}, {0, {0}}, {3, {2, 4, 1}}};
    for (size_t i = 0; i < sizeof positions / sizeof *positions; i++) {
        mask = (th_mask){.positions = th_zeros(ctx, TH_INT64, positions[i])};
        ASSERT_ERROR(ctx, th_mask_keep(ctx, &mask, scores), TH_ERROR_SHAPE,
                     "scores (2, 4, 5) take positions of shape (T) or");
    }
    static const th_shape plane[] = {{1, {5}}, {2, {1, 4}}};
    for (size_t i = 0; i < 2; i++) {
        mask = (th_mask){.valid_lengths = th_zeros(ctx, TH_INT64, plane[i])};
        ASSERT_ERROR(ctx, th_mask_keep(ctx, &mask, TH_SHAPE(4, 5)), TH_ERROR_SHAPE, "take lengths of shape () or (T)");
    }
    th_context *forecast = th_context_new(&(th_context_options){.shapes_only = true});
    ck_assert_int_eq(th_mask_explain(forecast, NULL, scores, index, text, sizeof text), TH_ERROR_STATE);
    ck_assert_ptr_nonnull(strstr(th_error_message(forecast), "mask_explain: a shapes-only context has no values"));
    ck_assert_ptr_null(th_mask_keep(forecast, NULL, scores)); /* the first error stays */
    ck_assert_int_eq(th_error_code(forecast), TH_ERROR_STATE);
    th_context_free(forecast);
    close_context(ctx);
}
END_TEST

/* The gradient of an additive mask for all rows is a sum that needs scratch memory beside the gradient of the
 * scores. */
START_TEST(test_gradient_of_an_additive_mask_for_many_rows)
{
    th_context *ctx = open_context();
    const int64_t rows = 600, keys = 40;
    th_tensor *scores = th_randn(ctx, TH_FLOAT64, TH_SHAPE(rows, 3, keys)),
              *additive = th_randn(ctx, TH_FLOAT64, TH_SHAPE(40)),
              *cotangent = th_randn(ctx, TH_FLOAT64, th_shape_of(scores));
    ck_assert_ptr_nonnull(th_set_requires_gradient(scores, true));
    ck_assert_ptr_nonnull(th_set_requires_gradient(additive, true));
    th_tensor *y = th_masked_softmax(scores, &(th_mask){.additive = additive});
    ck_assert_int_eq(th_backward(y, &(th_backward_options){.cotangent = cotangent}), TH_OK);
    const double *p = th_data(y), *dy = th_data(cotangent), *found = th_data(th_gradient(scores));
    double sums[40] = {0};
    for (int64_t row = 0; row < 3 * rows; row++) {
        double dot = 0;
        for (int64_t i = row * keys; i < (row + 1) * keys; i++)
            dot += p[i] * dy[i];
        for (int64_t i = row * keys; i < (row + 1) * keys; i++) {
            const double gradient = p[i] * (dy[i] - dot);
            ck_assert_double_eq_tol(found[i], gradient, 1e-12);
            sums[i % keys] += gradient;
        }
    }
    for (int i = 0; i < 40; i++)
        ck_assert_double_eq_tol(((const double *)th_data(th_gradient(additive)))[i], sums[i], 1e-9);
    th_tape_clear(ctx);
    close_context(ctx);
}
END_TEST

START_TEST(test_masks_of_other_contexts_and_sizes)
{
    th_context *ctx = open_context(), *forecast = th_context_new(&(th_context_options){.shapes_only = true});
    th_tensor *negative = th_from_data(ctx, TH_INT64, TH_SHAPE(4), (int64_t[]){0, 5, -1, 2});
    const th_shape scores = {2, {4, 5}};
    ASSERT_ERROR(ctx, th_mask_keep(ctx, &(th_mask){.valid_lengths = negative}, scores), TH_ERROR_INDEX,
                 "mask_keep: valid_lengths[2] = -1 is outside [0, 5]");
    th_tensor *one = th_from_data(ctx, TH_INT64, TH_SCALAR, (int64_t[]){6});
    ASSERT_ERROR(ctx, th_mask_keep(ctx, &(th_mask){.valid_lengths = one}, scores), TH_ERROR_INDEX,
                 "mask_keep: valid_lengths = 6 is outside [0, 5]");
    ck_assert_ptr_nonnull(
        th_mask_keep(forecast, &(th_mask){.valid_lengths = th_zeros(forecast, TH_INT64, TH_SCALAR)}, scores));
    ASSERT_ERROR(forecast, th_mask_keep(forecast, &(th_mask){.valid_lengths = one}, scores), TH_ERROR_ARGUMENT,
                 "mask_keep: valid_lengths is a tensor of another context");
    ck_assert_ptr_null(th_mask_keep(NULL, NULL, scores));
    th_error_clear(ctx);
    th_error_clear(forecast);
    const th_mask none = {.additive = th_full(ctx, TH_FLOAT32, TH_SCALAR, -(double)INFINITY)};
    char text[100];
    ck_assert_int_eq(th_mask_explain(ctx, &none, scores, TH_INDEX(1, 2), text, sizeof text), TH_OK);
    ck_assert_str_eq(text, "additive is -inf");
    ck_assert_ptr_null(th_mask_keep(ctx, &none, TH_SHAPE(0, 4, 5)));
    th_context_free(forecast);
    close_context(ctx);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("masks", NULL, NULL);
    tcase_add_loop_test(tests, test_masked_softmax, 0, MASKS);
    tcase_add_loop_test(tests, test_masked_numbers_have_no_effect, 0, MASKS);
    tcase_add_test(tests, test_forms_of_a_mask);
    tcase_add_test(tests, test_visible_scores_that_are_not_finite);
    tcase_add_test(tests, test_mask_explain);
    tcase_add_test(tests, test_mask_errors);
    tcase_add_test(tests, test_wrong_masks_and_questions);
    tcase_add_test(tests, test_gradient_of_an_additive_mask_for_many_rows);
    tcase_add_test(tests, test_masks_of_other_contexts_and_sizes);
    return run_suites();
}
