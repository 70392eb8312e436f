/* The loops of lesson 2 for a dense layer without bias, for the programs of later lessons. */
#ifndef EXAMPLES_CLASS_DENSE_H
#define EXAMPLES_CLASS_DENSE_H

/* Y = X Wᵀ: x (rows, in), w (out, in), y (rows, out). */
static inline void dense(int rows, int in, int out, const double *x, const double *w, double *y)
{
    for (int t = 0; t < rows; t++)
        for (int i = 0; i < out; i++) {
            double sum = 0;
            for (int j = 0; j < in; j++)
                sum += x[t * in + j] * w[i * in + j];
            y[t * out + i] = sum;
        }
}

/* dX += dY W, dW += dYᵀ X. */
static inline void dense_backward(int rows, int in, int out, const double *x, const double *w, const double *dy,
                                  double *dx, double *dw)
{
    for (int t = 0; t < rows; t++)
        for (int i = 0; i < out; i++)
            for (int j = 0; j < in; j++) {
                dx[t * in + j] += dy[t * out + i] * w[i * in + j];
                dw[i * in + j] += dy[t * out + i] * x[t * in + j];
            }
}

#endif
