/* Lesson 2, a dense layer: y = x Wᵀ + b and its gradients, from the definition. teaching/lessons/2-dense.md explains it. */
#include "lesson.h"

enum { N = 2, IN = 3, OUT = 4 }; /* rows of x, numbers in a row of x, numbers in a row of y */

static double x[N][IN] = {{1, 2, -1}, {3, 0, 1}};
static double w[OUT][IN] = {{1, 0, 2}, {-1, 1, 0}, {0, 2, 1}, {1, 1, 1}};
static double b[OUT] = {1, 0, -2, 0.5};
static const double target[N][OUT] = {{1, 0, 0, 2}, {4, -1, -1, 3.5}};

static double y[N][OUT];

static void forward(void)
{
    for (int n = 0; n < N; n++)
        for (int j = 0; j < OUT; j++) {
            y[n][j] = b[j];
            for (int i = 0; i < IN; i++)
                y[n][j] += x[n][i] * w[j][i];
        }
}

static double loss(void)
{
    double sum = 0;
    forward();
    for (int n = 0; n < N; n++)
        for (int j = 0; j < OUT; j++)
            sum += (y[n][j] - target[n][j]) * (y[n][j] - target[n][j]) / 2;
    return sum;
}

static double dy[N][OUT], dx[N][IN], dw[OUT][IN], db[OUT]; /* all begin as 0 */

static void backward(void)
{
    for (int n = 0; n < N; n++)
        for (int j = 0; j < OUT; j++)
            dy[n][j] = y[n][j] - target[n][j];

    for (int n = 0; n < N; n++)
        for (int j = 0; j < OUT; j++) {
            db[j] += dy[n][j];
            for (int i = 0; i < IN; i++) {
                dw[j][i] += dy[n][j] * x[n][i];
                dx[n][i] += dy[n][j] * w[j][i];
            }
        }
}

int main(int argc, char **argv)
{
    th_context *ctx = begin_lesson(argc, argv, "Lesson 2, a dense layer: the gradients of its weight, bias and input");
    const double L = loss();
    backward();

    th_tensor *tx = leaf(ctx, "x", TH_SHAPE(N, IN), *x),
              *tw = leaf(ctx, "w", TH_SHAPE(OUT, IN), *w); /* the same on the tape */
    th_tensor *tb = leaf(ctx, "b", TH_SHAPE(OUT), b);
    th_tensor *ty = th_keep_gradient(th_dense(tx, tw, &(th_dense_options){.bias = tb}));
    th_tensor *error = th_sub(ty, th_from_data(ctx, TH_FLOAT64, TH_SHAPE(N, OUT), target));
    th_tensor *tL = th_scale(th_sum(th_mul(error, error), TH_ALL_AXES, NULL), 0.5);
    if (th_backward(tL, NULL))
        return end_lesson(ctx);

    show("y = x Wᵀ + b", N, OUT, *y, ty);
    show("L = 1/2 sum (y - target)²", 1, 1, &L, tL);
    show("dy = y - target", N, OUT, *dy, th_gradient(ty));
    show_gradient("dW = dyᵀ x", OUT, IN, *dw, th_gradient(tw), *w, loss);
    show_gradient("db = the sum of the rows of dy", 1, OUT, db, th_gradient(tb), b, loss);
    show_gradient("dx = dy W", N, IN, *dx, th_gradient(tx), *x, loss);
    return end_lesson(ctx);
}
