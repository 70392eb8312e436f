/* Lesson 1, the chain rule: L = u u + u with u = w x, forward and backward. teaching/lessons/1-chain-rule.md explains it. */
#include "lesson.h"

static double w = 2, x = 1.5;

static double loss(void)
{
    const double u = w * x, v = u * u;
    return v + u;
}

int main(int argc, char **argv)
{
    th_context *ctx = begin_lesson(argc, argv, "Lesson 1, the chain rule: three operations, forward and backward");

    const double u = w * x, v = u * u, L = v + u;

    double dL = 1, dv = 0, du = 0, dw = 0, dx = 0;
    dv += dL, du += dL;         /* L = v + u */
    du += dv * u, du += dv * u; /* v = u u */
    dw += du * x, dx += du * w; /* u = w x */

    th_tensor *tw = leaf(ctx, "w", TH_SCALAR, &w), *tx = leaf(ctx, "x", TH_SCALAR, &x); /* the same on the tape */
    th_tensor *tu = th_mul(tw, tx), *tv = th_mul(tu, tu), *tL = th_add(tv, tu);
    th_keep_gradient(tu), th_keep_gradient(tv);
    if (th_backward(tL, NULL))
        return end_lesson(ctx);

    show("u = w x", 1, 1, &u, tu);
    show("v = u u", 1, 1, &v, tv);
    show("L = v + u", 1, 1, &L, tL);
    show("dv = dL", 1, 1, &dv, th_gradient(tv));
    show("du = dL + dv u + dv u", 1, 1, &du, th_gradient(tu));
    show_gradient("dw = du x", 1, 1, &dw, th_gradient(tw), &w, loss);
    show_gradient("dx = du w", 1, 1, &dx, th_gradient(tx), &x, loss);
    return end_lesson(ctx);
}
