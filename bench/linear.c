/* Times x wᵀ of float32 matrices, x (m, k) and w (n, k), in one precision, each product in a separate step, and
 * measures its error against float64. linear.py compares the results with PyTorch's.
 *
 *     linear 256,2304,768 512,512,512 --precision bfloat16x3 --threads 1       each word is m,n,k
 *
 * Prints th_build_info on the first line, then CSV. error: |y - exact sum| / (sum of |x w| over k), the maximum over
 * SAMPLES elements of the result. */
#include <tapehead/tapehead.h>

#include "measure.h"
#include "options.h"
#include "precision.h"
#include "suggest.h"

static const char program[] = "linear";
enum { MAX_SHAPES = 64, SAMPLES = 2000 };
static int64_t threads;
static double seconds = 0.2;
static const char *precision = "float32";
static const program_option options[] = {
    {"precision", "of matrix products: float32, bfloat16x3, bfloat16 or int8", .text = &precision},
    {"threads", "0: one for each processor", .integer = &threads, .low = 0, .high = 1024},
    {"seconds", "for each shape", .real = &seconds, .low = 0, .high = 100},
    {0},
};

typedef struct {
    th_context *ctx;
    th_tensor *x, *w; /* (m, k), (n, k) */
} operands;

static void run(void *what)
{
    const operands *o = what;
    if (th_dense(o->x, o->w, NULL) == NULL)
        give_up(program, th_error_message(o->ctx));
    th_tape_clear(o->ctx);
}

/* Returns the largest error of y (m, n) = x wᵀ at every stride-th element. */
static double largest_error(const float *x, const float *w, const float *y, const int64_t size[3])
{
    const int64_t m = size[0], n = size[1], k = size[2];
    const int64_t stride =
        (m * n / SAMPLES) | 1; /* odd, so that samples have different columns if n is a power of two */
    double largest = 0;
    for (int64_t at = 0; at < m * n; at += stride) {
        const float *row = x + at / n * k, *column = w + at % n * k;
        double sum = 0, magnitude = 0;
        for (int64_t l = 0; l < k; l++) {
            sum += (double)row[l] * (double)column[l];
            magnitude += fabs((double)row[l] * (double)column[l]);
        }
        largest = fmax(largest, fabs(sum - (double)y[at]) / magnitude);
    }
    return largest;
}

static void print_shape(th_context *ctx, const int64_t size[3])
{
    operands o = {ctx, th_uniform(ctx, TH_FLOAT32, TH_SHAPE(size[0], size[2]), -1, 1),
                  th_uniform(ctx, TH_FLOAT32, TH_SHAPE(size[1], size[2]), -1, 1)};
    th_tensor *y = th_dense(o.x, o.w, NULL); /* (m, n) */
    if (y == NULL)
        give_up(program, th_error_message(ctx));
    const double error = largest_error(th_data_const(o.x), th_data_const(o.w), th_data_const(y), size);
    const double least = least_seconds(run, &o, seconds);
    const double work = 2.0 * (double)size[0] * (double)size[1] * (double)size[2];
    printf("%lld,%lld,%lld,%.2f,%.1f,%.2e\n", (long long)size[0], (long long)size[1], (long long)size[2], least * 1e6,
           work / least * 1e-9, error);
    th_tensor_free(o.x);
    th_tensor_free(o.w);
}

static void parse_shape(const char *word, int64_t size[3])
{
    long long m, n, k;
    char rest;
    if (sscanf(word, "%lld,%lld,%lld%c", &m, &n, &k, &rest) != 3 || m < 1 || n < 1 || k < 1)
        refuse(program, "a shape must be m,n,k with numbers of at least 1, not ", word);
    size[0] = m, size[1] = n, size[2] = k;
}

int main(int argc, char **argv)
{
    const char *words[MAX_SHAPES];
    int64_t sizes[MAX_SHAPES][3];
    const int count = parse_options_and_words(
        argc, argv, program, "linear M,N,K ...: times the products of linear layers", options, words, MAX_SHAPES);
    for (int i = 0; i < count; i++)
        parse_shape(words[i], sizes[i]);
    th_context *ctx = th_context_new(
        &(th_context_options){.seed = 1, .threads = (int)threads, .precision = precision_named(program, precision)});
    if (ctx == NULL || th_error_code(ctx))
        give_up(program, ctx ? th_error_message(ctx) : "out of memory");
    printf("build=%s\nm,n,k,us,gflops,error\n", th_build_info(ctx));
    th_no_grad_begin(ctx);
    for (int i = 0; i < count; i++)
        print_shape(ctx, sizes[i]);
    th_no_grad_end(ctx);
    th_context_free(ctx);
    return end_with_suggestion(program, argv[0], NULL, "products", (const char *const[]){NULL});
}
