/* Attention forward and backward in plain loops, from the formulas. Read this file first. The forward functions come in
 * the order of the computation. The backward functions come in the same order, so read them from `backward` up. */
#include "loops.h"

#include <math.h>

/* the causal mask: a query does not attend to later keys */
static bool is_hidden(int t, int s)
{
    return causal && s > t;
}

/* -- forward -- */

/* Q = F Wqᵀ, K = F Wkᵀ, V = F Wvᵀ */
static void project(struct numbers *n)
{
    for (int t = 0; t < T; t++)
        for (int i = 0; i < heads * D; i++) {
            double q = 0, k = 0, v = 0;
            for (int j = 0; j < heads * D; j++) {
                q += n->f[t][j] * n->wq[i][j];
                k += n->f[t][j] * n->wk[i][j];
                v += n->f[t][j] * n->wv[i][j];
            }
            n->q[t][i] = q;
            n->k[t][i] = k;
            n->v[t][i] = v;
        }
}

/* S = Q Kᵀ / sqrt(D); hidden pairs are not computed */
static void score(struct numbers *n, int h)
{
    for (int t = 0; t < T; t++)
        for (int s = 0; s < T; s++) {
            double sum = 0;
            for (int d = 0; d < D && !is_hidden(t, s); d++)
                sum += n->q[t][h * D + d] * n->k[s][h * D + d];
            n->s[h][t][s] = sum / sqrt(D);
        }
}

/* A = exp(S) / row sum of exp(S), over the keys that are not hidden */
void softmax(struct numbers *n, int h)
{
    for (int t = 0; t < T; t++) {
        double sum = 0;
        for (int s = 0; s < T; s++)
            sum += is_hidden(t, s) ? 0 : exp(n->s[h][t][s]);
        for (int s = 0; s < T; s++)
            n->a[h][t][s] = is_hidden(t, s) ? 0 : exp(n->s[h][t][s]) / sum;
    }
}

/* P = A ∘ M, elementwise */
static void drop(struct numbers *n, int h)
{
    for (int t = 0; t < T; t++)
        for (int s = 0; s < T; s++)
            n->p[h][t][s] = n->a[h][t][s] * n->m[h][t][s];
}

/* O = P V; hidden pairs are skipped */
static void mix(struct numbers *n, int h)
{
    for (int t = 0; t < T; t++)
        for (int d = 0; d < D; d++) {
            double sum = 0;
            for (int s = 0; s < T; s++)
                sum += is_hidden(t, s) ? 0 : n->p[h][t][s] * n->v[s][h * D + d];
            n->o[t][h * D + d] = sum;
        }
}

/* Y = O Woᵀ with concatenated heads; without projections Y = O */
static void merge(struct numbers *n)
{
    for (int t = 0; t < T; t++)
        for (int i = 0; i < heads * D; i++) {
            double sum = 0;
            for (int j = 0; j < heads * D; j++)
                sum += n->o[t][j] * n->wo[i][j];
            n->y[t][i] = heads > 1 ? sum : n->o[t][i];
        }
}

/* L = 1/2 sum (Y - target)² */
static double loss_of(const struct numbers *n)
{
    double sum = 0;
    for (int t = 0; t < T; t++)
        for (int i = 0; i < heads * D; i++)
            sum += 0.5 * (n->y[t][i] - n->target[t][i]) * (n->y[t][i] - n->target[t][i]);
    return sum;
}

double forward_from(enum stage first, struct numbers *n)
{
    if (first <= PROJECT && heads > 1)
        project(n);
    for (int h = 0; h < heads; h++) {
        if (first <= SCORE)
            score(n, h);
        if (first <= SOFTMAX)
            softmax(n, h);
        if (first <= DROP)
            drop(n, h);
        if (first <= MIX)
            mix(n, h);
    }
    if (first <= MERGE)
        merge(n);
    return loss_of(n);
}

/* -- backward: n holds the values, g receives the gradients -- */

/* dWq = dQᵀ F, dWk = dKᵀ F, dWv = dVᵀ F, dF = dQ Wq + dK Wk + dV Wv */
static void project_backward(const struct numbers *n, struct numbers *g)
{
    for (int t = 0; t < T; t++)
        for (int i = 0; i < heads * D; i++)
            for (int j = 0; j < heads * D; j++) {
                g->wq[i][j] += g->q[t][i] * n->f[t][j];
                g->wk[i][j] += g->k[t][i] * n->f[t][j];
                g->wv[i][j] += g->v[t][i] * n->f[t][j];
                g->f[t][j] += g->q[t][i] * n->wq[i][j] + g->k[t][i] * n->wk[i][j] + g->v[t][i] * n->wv[i][j];
            }
}

/* dQ = dS K / sqrt(D), dK = dSᵀ Q / sqrt(D) */
static void score_backward(const struct numbers *n, struct numbers *g, int h)
{
    for (int t = 0; t < T; t++)
        for (int s = 0; s < T; s++)
            for (int d = 0; d < D; d++) {
                g->q[t][h * D + d] += g->s[h][t][s] * n->k[s][h * D + d] / sqrt(D);
                g->k[s][h * D + d] += g->s[h][t][s] * n->q[t][h * D + d] / sqrt(D);
            }
}

/* dS = A ∘ (dA - rowsum(A ∘ dA)) */
static void softmax_backward(const struct numbers *n, struct numbers *g, int h)
{
    for (int t = 0; t < T; t++) {
        double rowsum = 0;
        for (int s = 0; s < T; s++)
            rowsum += n->a[h][t][s] * g->a[h][t][s];
        for (int s = 0; s < T; s++)
            g->s[h][t][s] = n->a[h][t][s] * (g->a[h][t][s] - rowsum);
    }
}

/* dA = dP ∘ M */
static void drop_backward(const struct numbers *n, struct numbers *g, int h)
{
    for (int t = 0; t < T; t++)
        for (int s = 0; s < T; s++)
            g->a[h][t][s] = g->p[h][t][s] * n->m[h][t][s];
}

/* dV = Pᵀ dO, dP = dO Vᵀ; hidden pairs remain 0 */
static void mix_backward(const struct numbers *n, struct numbers *g, int h)
{
    for (int t = 0; t < T; t++)
        for (int s = 0; s < T; s++)
            for (int d = 0; d < D && !is_hidden(t, s); d++) {
                g->v[s][h * D + d] += n->p[h][t][s] * g->o[t][h * D + d];
                g->p[h][t][s] += g->o[t][h * D + d] * n->v[s][h * D + d];
            }
}

/* dWo = dYᵀ O, dO = dY Wo; without projections dO = dY */
static void merge_backward(const struct numbers *n, struct numbers *g)
{
    for (int t = 0; t < T; t++)
        for (int i = 0; i < heads * D; i++)
            for (int j = 0; j < heads * D; j++) {
                g->wo[i][j] += g->y[t][i] * n->o[t][j];
                g->o[t][j] += g->y[t][i] * (heads > 1 ? n->wo[i][j] : i == j);
            }
}

void backward(const struct numbers *n, struct numbers *g)
{
    for (int t = 0; t < T; t++)
        for (int i = 0; i < heads * D; i++)
            g->y[t][i] = n->y[t][i] - n->target[t][i]; /* dY = Y - target */
    merge_backward(n, g);
    for (int h = 0; h < heads; h++) {
        mix_backward(n, g, h);
        drop_backward(n, g, h);
        softmax_backward(n, g, h);
        score_backward(n, g, h);
    }
    if (heads > 1)
        project_backward(n, g);
}
