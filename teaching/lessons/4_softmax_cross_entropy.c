/* Lesson 4, softmax with cross entropy: why the gradient is p - y. teaching/lessons/4-softmax-cross-entropy.md explains it. */
#include "lesson.h"

enum { N = 2, V = 3 }; /* examples, classes */

static const double exponential[N][V] = {{1, 2, 5}, {2, 4, 2}};
static double z[N][V]; /* the scores: logarithms of these numbers, so that p has simple numbers */
static const int32_t target[N] = {2, 0};
static double p[N][V];

static void softmax(void)
{
    for (int n = 0; n < N; n++) {
        double largest = z[n][0], sum = 0;
        for (int i = 1; i < V; i++)
            largest = fmax(largest, z[n][i]);
        for (int i = 0; i < V; i++)
            sum += exp(z[n][i] - largest);
        for (int i = 0; i < V; i++)
            p[n][i] = exp(z[n][i] - largest) / sum;
    }
}

static double loss(void)
{
    double sum = 0;
    softmax();
    for (int n = 0; n < N; n++)
        sum += -log(p[n][target[n]]);
    return sum / N;
}

static double dp[N][V], dz[N][V], short_dz[N][V];

static void backward_in_two_steps(void)
{
    for (int n = 0; n < N; n++) {
        double sum = 0;
        dp[n][target[n]] = -1 / (N * p[n][target[n]]); /* the other elements stay 0 */
        for (int i = 0; i < V; i++)
            sum += p[n][i] * dp[n][i];
        for (int i = 0; i < V; i++)
            dz[n][i] = p[n][i] * (dp[n][i] - sum);
    }
}

static void backward_in_one_step(void)
{
    for (int n = 0; n < N; n++)
        for (int i = 0; i < V; i++) {
            const int y = i == target[n]; /* 1 for the right class, 0 for the others */
            short_dz[n][i] = (p[n][i] - y) / N;
        }
}

int main(int argc, char **argv)
{
    th_context *ctx = begin_lesson(argc, argv, "Lesson 4, softmax with cross entropy: the gradient is p - y");
    for (int n = 0; n < N; n++)
        for (int i = 0; i < V; i++)
            z[n][i] = log(exponential[n][i]);
    const double L = loss();
    backward_in_two_steps();
    backward_in_one_step();

    th_tensor *tz = leaf(ctx, "z", TH_SHAPE(N, V), *z); /* the same on the tape, in one operation */
    th_tensor *t_target = th_from_data(ctx, TH_INT32, TH_SHAPE(N), target);
    th_tensor *tL = th_cross_entropy(tz, t_target, NULL);

    th_tensor *tz2 = leaf(ctx, "z2", TH_SHAPE(N, V), *z); /* and in several */
    th_tensor *tp = th_keep_gradient(th_softmax(tz2, -1));
    th_tensor *right = th_gather(tp, -1, th_unsqueeze(t_target, 1)); /* p of the right class, (N, 1) */
    th_tensor *tL2 = th_neg(th_mean(th_log(right), TH_ALL_AXES, NULL));
    if (th_backward(tL, NULL) || th_backward(tL2, NULL))
        return end_lesson(ctx);

    show("z, the scores", N, V, *z, tz);
    show("p = softmax of each row of z", N, V, *p, tp);
    show("L = mean of -log p[target]", 1, 1, &L, tL);
    show("dp = -1 / (N p), or 0", N, V, *dp, th_gradient(tp));
    show_gradient("dz in two steps = p (dp - sum p dp)", N, V, *dz, th_gradient(tz2), *z, loss);
    show_gradient("dz in one step = (p - y) / N", N, V, *short_dz, th_gradient(tz), *z, loss);
    return end_lesson(ctx);
}
