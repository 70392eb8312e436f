/* Lesson 10: attention in tiles of two keys, forward and backward. Of a row of weights only its log-sum-exp is saved.
 * teaching/lessons/10-running-softmax.md explains it. */
#include "lesson.h"

enum { T = 2, S = 6, D = 2, TILE = 2 }; /* queries, keys, width of a head, keys in a tile */

static double q[T][D] = {{1, 0}, {0, 2}}, r[T][D] = {{1, -1}, {0.5, 2}};
static double k[S][D] = {{1, 0.5}, {-1, 1.5}, {0.5, -1}, {3, 1}, {0, 2}, {2, -2}};
static double v[S][D] = {{1, 2}, {3, -1}, {-2, 0.5}, {0, 1}, {1, 1}, {-1, 0}};
static double state[T * S / TILE][3 + D], o[T][D], lse[T], delta[T], dq[T][D], dk[S][D], dv[S][D];

static double dot(const double *a, const double *b)
{
    return a[0] * b[0] + a[1] * b[1];
}

static void forward(int t)
{
    double m = -INFINITY, z = 0, mix[D] = {0};
    for (int first = 0; first < S; first += TILE) {
        double score[TILE], higher = m;
        for (int i = 0; i < TILE; i++) {
            score[i] = dot(q[t], k[first + i]) / sqrt(D);
            higher = fmax(higher, score[i]);
        }
        const double factor = exp(m - higher); /* the sums so far have the factor e^-m, and need e^-higher */
        z *= factor;
        for (int d = 0; d < D; d++)
            mix[d] *= factor;
        for (int i = 0; i < TILE; i++) {
            const double term = exp(score[i] - higher);
            z += term;
            for (int d = 0; d < D; d++)
                mix[d] += term * v[first + i][d];
        }
        m = higher;
        const double now[] = {m, factor, z, mix[0], mix[1]};
        memcpy(state[(t * S + first) / TILE], now, sizeof now);
    }
    for (int d = 0; d < D; d++)
        o[t][d] = mix[d] / z;
    lse[t] = m + log(z);
}

static void backward(int t)
{
    delta[t] = dot(o[t], r[t]); /* r is dO */
    for (int i = 0; i < S; i++) {
        const double a = exp(dot(q[t], k[i]) / sqrt(D) - lse[t]), da = dot(r[t], v[i]), ds = a * (da - delta[t]);
        for (int d = 0; d < D; d++) {
            dv[i][d] += a * r[t][d];
            dq[t][d] += ds * k[i][d] / sqrt(D);
            dk[i][d] += ds * q[t][d] / sqrt(D);
        }
    }
}

static double loss(void)
{
    double sum = 0;
    for (int t = 0; t < T; t++) {
        forward(t);
        sum += dot(r[t], o[t]);
    }
    return sum;
}

int main(int argc, char **argv)
{
    th_context *ctx = begin_lesson(argc, argv, "Lesson 10, attention in tiles with a running softmax");
    double L = loss();
    for (int t = 0; t < T; t++)
        backward(t);

    th_tensor *tq = leaf(ctx, "q", TH_SHAPE(T, D), *q), *tk = leaf(ctx, "k", TH_SHAPE(S, D), *k);
    th_tensor *tv = leaf(ctx, "v", TH_SHAPE(S, D), *v), *tr = th_from_data(ctx, TH_FLOAT64, TH_SHAPE(T, D), r), *tlse;
    th_tensor *to = th_scaled_dot_product_attention(tq, tk, tv, &(th_attention_options){.log_sum_exp = &tlse});
    th_tensor *tL = th_sum(th_mul(to, tr), TH_ALL_AXES, NULL);
    if (th_backward(tL, NULL) || write_page(ctx))
        return end_lesson(ctx);
    th_tensor *whole = th_softmax(th_scale(th_matmul(tq, th_swap_axes(tk, 0, 1)), 1 / sqrt(D)), -1); /* (T, S) */

    print_versions("m, factor, z and mix after each tile of query 0, then of query 1", T * S / TILE, 3 + D, 1,
                   (const double *const[]){*state});
    show("O = mix / z, and the tape with all weights at once", T, D, *o, th_matmul(whole, tv));
    show("O in tiles, and the tape in tiles", T, D, *o, to);
    show("log-sum-exp = maximum + log z", T, 1, lse, tlse);
    show("L = sum (R ∘ O), so dO = R", 1, 1, &L, tL);
    show("rowsum(A ∘ dA) = rowsum(O ∘ dO)", T, 1, delta,
         th_sum(th_mul(whole, th_matmul(tr, th_swap_axes(tv, 0, 1))), TH_AXES(1), NULL));
    show_gradient("dQ", T, D, *dq, th_gradient(tq), *q, loss);
    show_gradient("dK", S, D, *dk, th_gradient(tk), *k, loss);
    show_gradient("dV", S, D, *dv, th_gradient(tv), *v, loss);
    return end_lesson(ctx);
}
