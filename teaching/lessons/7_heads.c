/* Lesson 7: a whole attention layer with two heads, a causal mask and dropout. teaching/lessons/7-heads.md explains it. */
#include "dense.h"
#include "lesson.h"

enum { T = 3, E = 4, H = 2, D = E / H }; /* tokens, width, heads, width of a head */

static double f[T][E] = {{1, 0, -1, 0.5}, {0.5, 1, 0, -1}, {-0.5, 1, 1, 0}},
              r[T][E] = {{1, -1}, {0, 1, 1}, {2, 0, 0, -1}};
static double w[3 * E][E] = {{1, 0, 0.5, 0}, {0, 1, 0, -0.5}, {0.5, 0, -1, 0}, {0, 0.5, 0, 1},    /* Wq */
                             {0.5, 1, 0, 0}, {-1, 1, 0, 0},   {0, 0, 1, 0.5},  {0, 0.5, -0.5, 1}, /* Wk */
                             {1, 0, 0, 1},   {0, 1, 1, 0},    {0, -1, 1, 0},   {1, 0, 0, -1}};    /* Wv */
static double wo[E][E] = {{1, 0.5, 0, 0}, {0, 1, 0.5, 0}, {0, 0, 1, 0.5}, {0.5, 0, 0, 1}};
static double qkv[T][3 * E], a[H][T][T], m[H][T][T], o[T][E], y[T][E];
static double df[T][E], dw[3 * E][E], dwo[E][E], dqkv[T][3 * E], dout[T][E];

static void head(int t, int h)
{
    double sum = 0;
    for (int i = 0; i <= t; i++) { /* the causal mask: the loops end at query t's own key */
        double score = 0;
        for (int d = h * D; d < (h + 1) * D; d++)
            score += qkv[t][d] * qkv[i][E + d] / sqrt(D);
        sum += a[h][t][i] = exp(score);
    }
    for (int i = 0; i <= t; i++)
        a[h][t][i] /= sum;
    for (int d = h * D; d < (h + 1) * D; d++) {
        o[t][d] = 0;
        for (int i = 0; i <= t; i++)
            o[t][d] += a[h][t][i] * m[h][t][i] * qkv[i][2 * E + d];
    }
}

static void head_backward(int t, int h)
{
    double da[T] = {0}, row_sum = 0;
    for (int i = 0; i <= t; i++) {
        for (int d = h * D; d < (h + 1) * D; d++) {
            dqkv[i][2 * E + d] += a[h][t][i] * m[h][t][i] * dout[t][d];
            da[i] += dout[t][d] * qkv[i][2 * E + d] * m[h][t][i];
        }
        row_sum += a[h][t][i] * da[i];
    }
    for (int i = 0; i <= t; i++)
        for (int d = h * D; d < (h + 1) * D; d++) {
            const double ds = a[h][t][i] * (da[i] - row_sum);
            dqkv[t][d] += ds * qkv[i][E + d] / sqrt(D);
            dqkv[i][E + d] += ds * qkv[t][d] / sqrt(D);
        }
}

static double loss(void)
{
    double sum = 0;
    dense(T, E, 3 * E, *f, *w, *qkv);
    for (int i = 0; i < T * H; i++)
        head(i / H, i % H);
    dense(T, E, E, *o, *wo, *y);
    for (int i = 0; i < T * E; i++)
        sum += r[i / E][i % E] * y[i / E][i % E];
    return sum;
}

static void backward(void) /* r is dY */
{
    dense_backward(T, E, E, *o, *wo, *r, *dout, *dwo);
    for (int i = 0; i < T * H; i++)
        head_backward(i / H, i % H);
    dense_backward(T, E, 3 * E, *f, *w, *dqkv, *df, *dw);
}

int main(int argc, char **argv)
{
    th_context *ctx = begin_lesson(argc, argv, "Lesson 7, a whole attention layer: two heads, a causal mask, dropout");
    const double p = 0.25;
    th_tensor *tm = th_dropout(th_ones(ctx, TH_FLOAT64, TH_SHAPE(H, T, T)), p), *ta;
    th_set_seed(ctx, 1); /* the layer will draw the same factors again */
    th_module *layer =
        th_multi_head_attention_new(ctx, E, H, &(th_multi_head_attention_options){.dropout = p, .no_bias = true});
    th_tensor *tw = th_module_find_parameter(layer, "in_proj_weight"),
              *two = th_module_find_parameter(layer, "out_proj.weight");
    th_tensor *tf = leaf(ctx, "f", TH_SHAPE(T, E), *f);
    if (th_copy_out(tm, m, sizeof m) || th_copy_in(tw, w, sizeof w) || th_copy_in(two, wo, sizeof wo))
        return end_lesson(ctx);
    double L = loss();
    backward();
    const th_mask causal = {.causal = TH_CAUSAL_TOP_LEFT};
    th_tensor *ty = th_attend(layer, tf, tf, tf, &(th_attend_options){.mask = &causal, .weights = &ta});
    th_tensor *tL = th_sum(th_mul(ty, th_from_data(ctx, TH_FLOAT64, TH_SHAPE(T, E), r)), TH_ALL_AXES, NULL);
    if (th_backward(tL, NULL))
        return end_lesson(ctx);
    show("A, the rows of head 0 above those of head 1", H * T, T, **a, ta);
    show("M = 1 / (1 - p), or 0 where dropped", H * T, T, **m, tm);
    show("Y = O Woᵀ", T, E, *y, ty);
    show("L = sum (R ∘ Y), so dY = R", 1, 1, &L, tL);
    show_gradient("dF = dQKV W", T, E, *df, th_gradient(tf), *f, loss);
    show_gradient("dW = dQKVᵀ F, 4 rows each for queries, keys and values", 3 * E, E, *dw, th_gradient(tw), *w, loss);
    show_gradient("dWo = dYᵀ O", E, E, *dwo, th_gradient(two), *wo, loss);
    return end_lesson(ctx);
}
