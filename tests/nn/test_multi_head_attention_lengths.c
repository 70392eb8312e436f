/* Tests of multi-head attention with valid lengths, fused and composed: hidden keys and values change no bit. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tapehead/tapehead.h"

#include "attention_layers.h"

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

/* Overwrites the rows (b, s) of t with s >= first[b]: with NaN, or with different numbers around value. */
static void overwrite(th_tensor *t, const int64_t *first, float value)
{
    float *x = th_data(t);
    const int64_t S = th_size(t, 1), E = th_size(t, 2);
    for (int64_t b = 0; b < th_size(t, 0); b++)
        for (int64_t i = first[b] * E; i < S * E; i++)
            x[b * S * E + i] = isnan(value) ? value : value + (float)(i % 7);
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

int main(void)
{
    TCase *tests = new_suite("multi_head_attention_lengths", setup, close_context);
    tcase_add_loop_test(tests, lengths_hide_keys, 0, 2);
    tcase_add_loop_test(tests, lengths_per_query_hide_keys, 0, 2);
    tcase_add_loop_test(tests, lengths_1_to_T_per_query_are_a_causal_mask, 0, 2);
    return run_suites();
}
