/* Lesson 11, GELU and the two-layer network: z = x + W2 gelu(W1 x + b1) + b2, forward and backward.
 * teaching/lessons/11-two-layer-network.md explains it. */
#include "lesson.h"

enum { T = 2, E = 2, M = 4 }; /* tokens, numbers for each token, numbers in the middle */

static double x[T][E] = {{1, 0}, {-1, 1}};
static double w1[M][E] = {{1, 0}, {0, 1}, {-1, 1}, {1, 1}}, b1[M] = {0, 1, 0, -1};
static double w2[E][M] = {{1, 0, 2, -1}, {0, 1, -1, 1}}, b2[E] = {0.5, -0.5};
static const double g[T][E] = {{1, -1}, {0.5, 2}}; /* L = sum g z, so that dz = g */

static double h[T][M], a[T][M], z[T][E];

/* The normal distribution: its density, and the probability of a number below x. */
static double density(double number)
{
    return exp(-number * number / 2) / sqrt(2 * acos(-1));
}

static double probability(double number)
{
    return (1 + erf(number / sqrt(2))) / 2;
}

static double loss(void)
{
    double sum = 0;
    for (int t = 0; t < T; t++) {
        for (int m = 0; m < M; m++) {
            h[t][m] = b1[m];
            for (int e = 0; e < E; e++)
                h[t][m] += x[t][e] * w1[m][e];
            a[t][m] = h[t][m] * probability(h[t][m]); /* gelu */
        }
        for (int e = 0; e < E; e++) {
            z[t][e] = x[t][e] + b2[e]; /* the residual connection adds x */
            for (int m = 0; m < M; m++)
                z[t][e] += a[t][m] * w2[e][m];
            sum += g[t][e] * z[t][e];
        }
    }
    return sum;
}

static double da[T][M], slope[T][M], dh[T][M], dx[T][E], dw1[M][E], db1[M], dw2[E][M], db2[E]; /* all begin as 0 */

static void backward(void)
{
    for (int t = 0; t < T; t++) {
        for (int e = 0; e < E; e++) {
            dx[t][e] += g[t][e]; /* past the network */
            db2[e] += g[t][e];
            for (int m = 0; m < M; m++) {
                dw2[e][m] += g[t][e] * a[t][m];
                da[t][m] += g[t][e] * w2[e][m];
            }
        }
        for (int m = 0; m < M; m++) {
            slope[t][m] = probability(h[t][m]) + h[t][m] * density(h[t][m]);
            dh[t][m] = da[t][m] * slope[t][m];
            db1[m] += dh[t][m];
            for (int e = 0; e < E; e++) {
                dw1[m][e] += dh[t][m] * x[t][e];
                dx[t][e] += dh[t][m] * w1[m][e]; /* through the network */
            }
        }
    }
}

int main(int argc, char **argv)
{
    th_context *ctx = begin_lesson(argc, argv, "Lesson 11, GELU and the two-layer network of a transformer");
    const double L = loss();
    backward();

    th_tensor *tx = leaf(ctx, "x", TH_SHAPE(T, E), *x),
              *tw1 = leaf(ctx, "W1", TH_SHAPE(M, E), *w1); /* the same on the tape */
    th_tensor *tb1 = leaf(ctx, "b1", TH_SHAPE(M), b1), *tw2 = leaf(ctx, "W2", TH_SHAPE(E, M), *w2);
    th_tensor *tb2 = leaf(ctx, "b2", TH_SHAPE(E), b2);
    th_tensor *th = th_keep_gradient(th_dense(tx, tw1, &(th_dense_options){.bias = tb1}));
    th_tensor *ta = th_keep_gradient(th_gelu(th));
    th_tensor *tz = th_add(tx, th_dense(ta, tw2, &(th_dense_options){.bias = tb2}));
    th_tensor *tL = th_sum(th_mul(tz, th_from_data(ctx, TH_FLOAT64, TH_SHAPE(T, E), g)), TH_ALL_AXES, NULL);
    if (th_backward(tL, NULL))
        return end_lesson(ctx);

    show("h = x W1ᵀ + b1", T, M, *h, th);
    show("a = gelu(h) = h Φ(h)", T, M, *a, ta);
    show("z = x + a W2ᵀ + b2", T, E, *z, tz);
    show("L = sum g z", 1, 1, &L, tL);
    show_gradient("dW2 = dzᵀ a", E, M, *dw2, th_gradient(tw2), *w2, loss);
    show_gradient("db2 = column sums of dz", 1, E, db2, th_gradient(tb2), b2, loss);
    show("da = dz W2", T, M, *da, th_gradient(ta));
    show("dh = da (Φ(h) + h φ(h))", T, M, *dh, th_gradient(th));
    show_gradient("dW1 = dhᵀ x", M, E, *dw1, th_gradient(tw1), *w1, loss);
    show_gradient("db1 = column sums of dh", 1, M, db1, th_gradient(tb1), b1, loss);
    show_gradient("dx = dz + dh W1", T, E, *dx, th_gradient(tx), *x, loss);
    return end_lesson(ctx);
}
