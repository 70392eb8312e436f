/* Tests of multi-head attention in training: dropout and gradients, fused and composed. */
#include <math.h>
#include <stdlib.h>

#include "tapehead/check.h"
#include "tapehead/tapehead.h"

#include "attention_layers.h"

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
    th_tensor *y = th_attend(l.module, l.x[0], l.x[1], l.x[2], NULL);
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

int main(void)
{
    TCase *tests = new_suite("multi_head_attention_gradients", setup, close_context);
    tcase_add_loop_test(tests, dropout_of_weights, 0, 2);
    tcase_add_test(tests, fused_and_composed_draw_the_same_dropout);
    tcase_add_loop_test(tests, every_parameter_receives_a_gradient, 0, CONSTRUCTIONS);
    tcase_add_loop_test(tests, gradient_check, 0, 2 * CONSTRUCTIONS);
    tcase_add_loop_test(tests, gradient_check_of_larger_sizes, 0, 3);
    return run_suites();
}
