/* Checks the gradients of six plain C functions: swish, cumulative sum, Huber loss, softmax, a matrix product and a float32
 * convolution. Beside each function a check takes three or four lines. The functions also run with the checker alone
 * (scripts/amalgamate.sh). The program exits with 0 if all are right. */
#include <math.h>
#include <stdio.h>
#include <tapehead/check_function.h>

#include "options.h"

#define ARGUMENTS void *user, const th_buffer *in, const th_buffer *out, const th_buffer *dout, th_buffer *din

static int status;

static void check(const char *name, th_function_forward *forward, th_function_backward *backward, int n_inputs,
                  const th_port *inputs, const th_port *outputs)
{
    const th_function function = th_function_of(name, forward, backward, NULL, n_inputs, inputs, 1, outputs);
    th_function_report report;
    if (th_check_function(&function, NULL, &report)) {
        status = 1;
        fputs(report.text, stdout);
    } else {
        printf("%-15s right: %lld comparisons\n", name, (long long)report.checked);
    }
}

/* -- swish -- */

static int swish(void *user, const th_buffer *in, th_buffer *out)
{
    const double *x = in->data;
    double *y = out->data;
    (void)user;
    for (int64_t i = 0; i < in->numel; i++)
        y[i] = x[i] / (1 + exp(-x[i]));
    return 0;
}

static int swish_backward(ARGUMENTS)
{
    const double *x = in->data, *dy = dout->data;
    double *dx = din->data;
    (void)user, (void)out;
    for (int64_t i = 0; i < in->numel; i++) {
        const double s = 1 / (1 + exp(-x[i]));
        dx[i] = dy[i] * s * (1 + x[i] * (1 - s));
    }
    return 0;
}

static void check_swish(void)
{
    const th_port x[] = {TH_PORT("x", TH_FLOAT64, 3, 7)};
    check("swish", swish, swish_backward, 1, x, x);
}

/* -- cumulative sum -- */

static int cumulative_sum(void *user, const th_buffer *in, th_buffer *out)
{
    const double *x = in->data;
    double *y = out->data, sum = 0;
    (void)user;
    for (int64_t i = 0; i < in->numel; i++)
        y[i] = sum += x[i];
    return 0;
}

static int cumulative_sum_backward(ARGUMENTS)
{
    const double *dy = dout->data;
    double *dx = din->data, sum = 0;
    (void)user, (void)out;
    for (int64_t i = in->numel - 1; i >= 0; i--)
        dx[i] = sum += dy[i];
    return 0;
}

static void check_cumulative_sum(void)
{
    const th_port x[] = {TH_PORT("x", TH_FLOAT64, 12)};
    check("cumulative sum", cumulative_sum, cumulative_sum_backward, 1, x, x);
}

/* -- Huber loss: the mean over all elements -- */

static int huber(void *user, const th_buffer *in, th_buffer *out)
{
    const double *x = in[0].data, *target = in[1].data;
    double sum = 0;
    (void)user;
    for (int64_t i = 0; i < in->numel; i++) {
        const double e = fabs(x[i] - target[i]);
        sum += e < 1 ? e * e / 2 : e - 0.5;
    }
    *(double *)out->data = sum / (double)in->numel;
    return 0;
}

static int huber_backward(ARGUMENTS)
{
    const double *x = in[0].data, *target = in[1].data, *dy = dout->data;
    double *dx = din[0].data;
    (void)user, (void)out;
    for (int64_t i = 0; i < in->numel; i++)
        dx[i] = dy[0] * fmax(-1, fmin(1, x[i] - target[i])) / (double)in->numel;
    return 0;
}

static void check_huber(void)
{
    th_port in[] = {TH_PORT("x", TH_FLOAT64, 4, 5), TH_PORT("target", TH_FLOAT64, 4, 5)};
    const th_port loss[] = {TH_PORT_SCALAR("loss", TH_FLOAT64)};
    in[1].constant = true;
    check("Huber loss", huber, huber_backward, 2, in, loss);
}

/* -- softmax over the rows -- */

static int softmax(void *user, const th_buffer *in, th_buffer *out)
{
    const int64_t n = in->size[1];
    (void)user;
    for (int64_t r = 0; r < in->size[0]; r++) {
        const double *x = (const double *)in->data + r * n;
        double *y = (double *)out->data + r * n, largest = x[0], sum = 0;
        for (int64_t c = 1; c < n; c++)
            largest = fmax(largest, x[c]);
        for (int64_t c = 0; c < n; c++)
            sum += y[c] = exp(x[c] - largest);
        for (int64_t c = 0; c < n; c++)
            y[c] /= sum;
    }
    return 0;
}

static int softmax_backward(ARGUMENTS)
{
    const int64_t n = in->size[1];
    (void)user;
    for (int64_t r = 0; r < in->size[0]; r++) {
        const double *y = (const double *)out->data + r * n, *dy = (const double *)dout->data + r * n;
        double *dx = (double *)din->data + r * n, dot = 0;
        for (int64_t c = 0; c < n; c++)
            dot += y[c] * dy[c];
        for (int64_t c = 0; c < n; c++)
            dx[c] = y[c] * (dy[c] - dot);
    }
    return 0;
}

static void check_softmax(void)
{
    const th_port x[] = {TH_PORT("x", TH_FLOAT64, 3, 6)};
    check("softmax", softmax, softmax_backward, 1, x, x);
}

/* -- a matrix product, (M, K) x (K, N) -- */

/* y (m, n) = sum over k of a[i * ai + k * ak] * b[k * bk + j * bj]: cblas_dgemm computes the same. */
static void multiply(int64_t m, int64_t n, int64_t count, const double *a, int64_t ai, int64_t ak, const double *b,
                     int64_t bk, int64_t bj, double *y)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t k = 0; k < count; k++)
                sum += a[i * ai + k * ak] * b[k * bk + j * bj];
            y[i * n + j] = sum;
        }
}

static int product(void *user, const th_buffer *in, th_buffer *out)
{
    const int64_t m = in[0].size[0], k = in[0].size[1], n = in[1].size[1];
    (void)user;
    multiply(m, n, k, in[0].data, k, 1, in[1].data, n, 1, out->data);
    return 0;
}

static int product_backward(ARGUMENTS)
{
    const int64_t m = in[0].size[0], k = in[0].size[1], n = in[1].size[1];
    (void)user, (void)out;
    multiply(m, k, n, dout->data, n, 1, in[1].data, 1, n, din[0].data);
    multiply(k, n, m, in[0].data, 1, k, dout->data, n, 1, din[1].data);
    return 0;
}

static void check_product(void)
{
    const th_port in[] = {TH_PORT("a", TH_FLOAT64, 3, 5), TH_PORT("b", TH_FLOAT64, 5, 4)};
    const th_port y[] = {TH_PORT("y", TH_FLOAT64, 3, 4)};
    check("product", product, product_backward, 2, in, y);
}

/* -- a convolution in float32: x (channels, length), w (filters, channels, width) -> (filters, length - width + 1) -- */

static int convolution(void *user, const th_buffer *in, th_buffer *out)
{
    const int64_t channels = in[1].size[1], width = in[1].size[2], length = in[0].size[1], n = out->size[1];
    const float *x = in[0].data, *w = in[1].data;
    (void)user;
    for (int64_t i = 0; i < out->numel; i++) {
        float sum = 0;
        for (int64_t c = 0; c < channels; c++)
            for (int64_t k = 0; k < width; k++)
                sum += x[c * length + i % n + k] * w[(i / n * channels + c) * width + k];
        ((float *)out->data)[i] = sum;
    }
    return 0;
}

static int convolution_backward(ARGUMENTS)
{
    const int64_t channels = in[1].size[1], width = in[1].size[2], length = in[0].size[1], n = out->size[1];
    const float *x = in[0].data, *w = in[1].data, *dy = dout->data;
    float *dx = din[0].data, *dw = din[1].data;
    (void)user;
    for (int64_t i = 0; i < in[0].numel; i++)
        dx[i] = 0;
    for (int64_t i = 0; i < in[1].numel; i++)
        dw[i] = 0;
    for (int64_t i = 0; i < out->numel; i++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t k = 0; k < width; k++) {
                dx[c * length + i % n + k] += dy[i] * w[(i / n * channels + c) * width + k];
                dw[(i / n * channels + c) * width + k] += dy[i] * x[c * length + i % n + k];
            }
    return 0;
}

static void check_convolution(void)
{
    const th_port in[] = {TH_PORT("x", TH_FLOAT32, 3, 20), TH_PORT("w", TH_FLOAT32, 4, 3, 5)};
    const th_port y[] = {TH_PORT("y", TH_FLOAT32, 4, 16)};
    check("convolution", convolution, convolution_backward, 2, in, y);
}

int main(int argc, char **argv)
{
    parse_options(argc, argv, "check_functions",
                  "check_functions: checks the gradients of six plain C functions, without tensors",
                  (const program_option[]){{0}});
    check_swish();
    check_cumulative_sum();
    check_huber();
    check_softmax();
    check_product();
    check_convolution();
    finish_output("check_functions");
    print_next(argv[0], "gradcheck_your_op",
               (const char *const[]){NULL}); /* the same for an operation of the library */
    return status;
}
