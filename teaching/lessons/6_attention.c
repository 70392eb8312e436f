/* Lesson 6: one attention head on three tokens, forward and backward. teaching/lessons/6-attention.md explains it. */
#include "lesson.h"

enum { T = 3, D = 2 }; /* tokens, width of a head */

static double q[T][D] = {{1, 0}, {0, 2}, {1, 1}}, k[T][D] = {{1, 0.5}, {-1, 1.5}, {0.5, -1}}; /* a token in each row */
static double v[T][D] = {{1, 2}, {3, -1}, {-2, 0.5}}, target[T][D] = {{0, 1}, {1, 0}, {0.5, 0.5}};
static double s[T][T], a[T][T], o[T][D]; /* row t of s and a: query t, with a column for each key */

static void forward(void)
{
    for (int t = 0; t < T; t++) {
        double sum = 0;
        for (int i = 0; i < T; i++) {
            s[t][i] = 0;
            for (int d = 0; d < D; d++)
                s[t][i] += q[t][d] * k[i][d] / sqrt(D);
            sum += exp(s[t][i]);
        }
        for (int i = 0; i < T; i++)
            a[t][i] = exp(s[t][i]) / sum;
        for (int d = 0; d < D; d++) {
            o[t][d] = 0;
            for (int i = 0; i < T; i++)
                o[t][d] += a[t][i] * v[i][d];
        }
    }
}

static double loss(void)
{
    double sum = 0;
    forward();
    for (int t = 0; t < T; t++)
        for (int d = 0; d < D; d++)
            sum += 0.5 * (o[t][d] - target[t][d]) * (o[t][d] - target[t][d]);
    return sum;
}

static double dq[T][D], dk[T][D], dv[T][D], ds[T][T], da[T][T], dout[T][D];

static void backward(void)
{
    for (int t = 0; t < T; t++) {
        double row_sum = 0;
        for (int d = 0; d < D; d++)
            dout[t][d] = o[t][d] - target[t][d];
        for (int i = 0; i < T; i++) {
            for (int d = 0; d < D; d++) { /* O = A V */
                dv[i][d] += a[t][i] * dout[t][d];
                da[t][i] += dout[t][d] * v[i][d];
            }
            row_sum += a[t][i] * da[t][i];
        }
        for (int i = 0; i < T; i++) {
            ds[t][i] = a[t][i] * (da[t][i] - row_sum); /* A = softmax(S) */
            for (int d = 0; d < D; d++) {              /* S = Q Kᵀ / sqrt(D) */
                dq[t][d] += ds[t][i] * k[i][d] / sqrt(D);
                dk[i][d] += ds[t][i] * q[t][d] / sqrt(D);
            }
        }
    }
}

int main(int argc, char **argv)
{
    th_context *ctx = begin_lesson(argc, argv, "Lesson 6, attention: one head on three tokens, forward and backward");
    double L = loss();
    backward();

    const th_shape shape = TH_SHAPE(T, D); /* the same on the tape */
    th_tensor *tq = leaf(ctx, "q", shape, *q), *tk = leaf(ctx, "k", shape, *k), *tv = leaf(ctx, "v", shape, *v);
    th_tensor *ts = th_scale(th_matmul(tq, th_swap_axes(tk, 0, 1)), 1 / sqrt(D));
    th_tensor *ta = th_softmax(ts, -1), *to = th_matmul(ta, tv);
    th_tensor *error = th_sub(to, th_from_data(ctx, TH_FLOAT64, shape, target));
    th_tensor *tL = th_scale(th_sum(th_mul(error, error), TH_ALL_AXES, NULL), 0.5);
    th_keep_gradient(ts), th_keep_gradient(ta), th_keep_gradient(to);
    if (th_backward(tL, NULL))
        return end_lesson(ctx);

    show("S = Q Kᵀ / sqrt(2)", T, T, *s, ts);
    show("A = softmax of each row of S", T, T, *a, ta);
    show("O = A V", T, D, *o, to);
    show("L = 1/2 sum (O - target)²", 1, 1, &L, tL);
    show("dO = O - target", T, D, *dout, th_gradient(to));
    show("dA = dO Vᵀ", T, T, *da, th_gradient(ta));
    show("dS = A ∘ (dA - rowsum(A ∘ dA))", T, T, *ds, th_gradient(ts));
    show_gradient("dQ = dS K / sqrt(2)", T, D, *dq, th_gradient(tq), *q, loss);
    show_gradient("dK = dSᵀ Q / sqrt(2)", T, D, *dk, th_gradient(tk), *k, loss);
    show_gradient("dV = Aᵀ dO", T, D, *dv, th_gradient(tv), *v, loss);
    return end_lesson(ctx);
}
