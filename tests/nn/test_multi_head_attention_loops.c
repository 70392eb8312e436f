/* Tests of multi-head attention, fused and composed: all options against plain loops in float64. */
#include <math.h>
#include <stdlib.h>

#include "tapehead/tapehead.h"

#include "attention_layers.h"

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

int main(void)
{
    TCase *tests = new_suite("multi_head_attention_loops", setup, close_context);
    tcase_add_loop_test(tests, against_plain_loops, 0, 2 * CONSTRUCTIONS);
    return run_suites();
}
