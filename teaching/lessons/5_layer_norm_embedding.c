/* Lesson 5, embedding and layer norm, forward and backward. teaching/lessons/5-layer-norm-embedding.md explains it. */
#include "lesson.h"

enum { V = 3, E = 4, T = 3 }; /* words of the vocabulary, numbers for each word, words of the text */

static const int32_t word[T] = {0, 2, 0};
static double table[V][E] = {{9, -5, 3, 1}, {4, 4, 2, 2}, {1, 3, 3, 1}};
static double weight[E] = {1, 2, -1, 1}, bias[E] = {0, 0, 0.5, -1};
static const double g[T][E] = {{1, 0, 2, 0}, {0, 1, 0, 2}, {1, 1, 0, -1}}; /* L = sum g y, so that dy = g */

static double x[T][E], n[T][E], y[T][E], deviation[T];

static void forward(void)
{
    for (int t = 0; t < T; t++) {
        double mean = 0, variance = 0;
        for (int i = 0; i < E; i++) {
            x[t][i] = table[word[t]][i];
            mean += x[t][i] / E;
        }
        for (int i = 0; i < E; i++)
            variance += (x[t][i] - mean) * (x[t][i] - mean) / E;
        deviation[t] = sqrt(variance + 1e-5);
        for (int i = 0; i < E; i++) {
            n[t][i] = (x[t][i] - mean) / deviation[t];
            y[t][i] = n[t][i] * weight[i] + bias[i];
        }
    }
}

static double loss(void)
{
    double sum = 0;
    forward();
    for (int t = 0; t < T; t++)
        for (int i = 0; i < E; i++)
            sum += g[t][i] * y[t][i];
    return sum;
}

static double dn[T][E], dx[T][E], dtable[V][E], dweight[E], dbias[E]; /* all begin as 0 */

static void backward(void)
{
    for (int t = 0; t < T; t++) {
        double mean_dn = 0, mean_dn_n = 0;
        for (int i = 0; i < E; i++) {
            dweight[i] += g[t][i] * n[t][i];
            dbias[i] += g[t][i];
            dn[t][i] = g[t][i] * weight[i];
            mean_dn += dn[t][i] / E;
            mean_dn_n += dn[t][i] * n[t][i] / E;
        }
        for (int i = 0; i < E; i++) {
            dx[t][i] = (dn[t][i] - mean_dn - n[t][i] * mean_dn_n) / deviation[t];
            dtable[word[t]][i] += dx[t][i];
        }
    }
}

int main(int argc, char **argv)
{
    th_context *ctx = begin_lesson(argc, argv, "Lesson 5, embedding and layer norm, forward and backward");
    const double L = loss();
    backward();

    th_tensor *t_table = leaf(ctx, "table", TH_SHAPE(V, E), *table); /* the same on the tape */
    th_tensor *t_weight = leaf(ctx, "weight", TH_SHAPE(E), weight), *t_bias = leaf(ctx, "bias", TH_SHAPE(E), bias);
    th_tensor *tx = th_keep_gradient(th_embedding(t_table, th_from_data(ctx, TH_INT32, TH_SHAPE(T), word)));
    th_tensor *tn = th_keep_gradient(th_layer_norm(tx, NULL));
    th_tensor *ty = th_add(th_mul(tn, t_weight), t_bias);
    th_tensor *tL = th_sum(th_mul(ty, th_from_data(ctx, TH_FLOAT64, TH_SHAPE(T, E), g)), TH_ALL_AXES, NULL);
    if (th_backward(tL, NULL))
        return end_lesson(ctx);

    show("x = rows of the table", T, E, *x, tx);
    show("n = (x - mean) / deviation", T, E, *n, tn);
    show("y = n weight + bias", T, E, *y, ty);
    show("L = sum g y", 1, 1, &L, tL);
    show_gradient("dbias = column sums of dy", 1, E, dbias, th_gradient(t_bias), bias, loss);
    show_gradient("dweight = column sums of dy n", 1, E, dweight, th_gradient(t_weight), weight, loss);
    show("dn = dy weight", T, E, *dn, th_gradient(tn));
    show("dx = (dn - mean(dn) - n mean(dn n)) / deviation", T, E, *dx, th_gradient(tx));
    show_gradient("dtable = sums of rows of dx", V, E, *dtable, th_gradient(t_table), *table, loss);
    return end_lesson(ctx);
}
