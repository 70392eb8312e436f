/* Lesson 3, shapes: slice, broadcast, transpose, reshape, and their gradients. teaching/lessons/3-shapes.md explains it. */
#include "lesson.h"

enum { R = 2, C = 3 }; /* rows, columns */

static double a[3][C] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}; /* x = the first R rows of a */
static double r[C] = {1, -1, 0}, c[R] = {2, -1};           /* a row and a column */

static double y[R][C], z[R][C];
static double t[C][R]; /* zᵀ */
static double s[C][R]; /* the elements of z in the same order, three rows of two */

static void forward(void)
{
    for (int i = 0; i < R; i++)
        for (int j = 0; j < C; j++) {
            const int k = i * C + j; /* the position of z[i][j] in memory */
            y[i][j] = a[i][j] + r[j];
            z[i][j] = c[i] * y[i][j];
            t[j][i] = z[i][j];
            s[k / R][k % R] = z[i][j];
        }
}

static double loss(void)
{
    double sum = 0;
    forward();
    for (int j = 0; j < C; j++)
        for (int i = 0; i < R; i++)
            sum += t[j][i] * s[j][i];
    return sum;
}

static double dz[R][C], dy[R][C], da[3][C], dr[C], dc[R]; /* all begin as 0 */

static void backward(void)
{
    for (int i = 0; i < R; i++)
        for (int j = 0; j < C; j++) {
            const int k = i * C + j;
            dz[i][j] += s[j][i];         /* dt = s, transposed back */
            dz[i][j] += t[k / R][k % R]; /* ds = t, reshaped back */
            dc[i] += dz[i][j] * y[i][j];
            dy[i][j] += dz[i][j] * c[i];
            dr[j] += dy[i][j];
            da[i][j] += dy[i][j];
        }
}

static void print_layout(const char *name, th_tensor *tensor, th_tensor *base)
{
    printf("%s: strides (%d, %d)%s\n", name, (int)th_stride(tensor, 0), (int)th_stride(tensor, 1),
           th_shares_memory(tensor, base) ? ", the memory of z" : "");
}

int main(int argc, char **argv)
{
    th_context *ctx =
        begin_lesson(argc, argv, "Lesson 3, shapes: the gradients of slice, broadcast, transpose, reshape");
    const double L = loss();
    backward();

    th_tensor *ta = leaf(ctx, "a", TH_SHAPE(3, C), *a); /* the same on the tape */
    th_tensor *tr = leaf(ctx, "r", TH_SHAPE(C), r), *tc = leaf(ctx, "c", TH_SHAPE(R, 1), c);
    th_tensor *ty = th_add(th_slice(ta, 0, 0, R, 1), tr), *tz = th_mul(ty, tc);
    th_tensor *tt = th_transpose(tz, TH_AXES(1, 0)), *ts = th_reshape(tz, TH_SHAPE(C, R));
    th_tensor *tL = th_sum(th_mul(tt, ts), TH_ALL_AXES, NULL);
    th_keep_gradient(ty), th_keep_gradient(tz);
    if (th_backward(tL, NULL))
        return end_lesson(ctx);

    show("y = x + r", R, C, *y, ty);
    show("z = c y", R, C, *z, tz);
    show("t = zᵀ", C, R, *t, tt);
    show("s = z reshaped to (3, 2)", C, R, *s, ts);
    show("L = sum t s", 1, 1, &L, tL);
    print_layout("z", tz, tL);
    print_layout("t", tt, tz);
    print_layout("s", ts, tz);
    show("dz = sᵀ + t reshaped to (2, 3)", R, C, *dz, th_gradient(tz));
    show_gradient("dc = row sums of dz y", R, 1, dc, th_gradient(tc), c, loss);
    show("dy = dz c", R, C, *dy, th_gradient(ty));
    show_gradient("dr = column sums of dy", 1, C, dr, th_gradient(tr), r, loss);
    show_gradient("da = dy in the first rows", 3, C, *da, th_gradient(ta), *a, loss);
    return end_lesson(ctx);
}
