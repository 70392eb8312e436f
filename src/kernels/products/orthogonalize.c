/* Newton-Schulz iterations (orthogonalize.h), as products of the short side. */
#include "kernels/products/orthogonalize.h"

#include <float.h>
#include <math.h>

#include "kernels/kernels.h"
#include "kernels/products/product.h"
#include "kernels/sizes.h"

/* The iteration of one shape. The short side of a matrix X has n elements, and G = X X^T or X^T X is (n, n). */
typedef struct iteration {
    th_machine machine;
    const th_kernels *kernels;
    th_dtype dtype;
    int64_t size; /* bytes of an element */
    int64_t rows, columns, n;
    int threads;
    char *x, *gram, *square; /* (rows, columns), (n, n), (n, n) */
    void *workspace;         /* of the products */
} iteration;

/* gram = X X^T or X^T X */
static th_product gram_product(const iteration *s, const void *x)
{
    const bool wide = s->rows <= s->columns;
    const int64_t across = wide ? s->columns : 1, along = wide ? 1 : s->columns;
    return (th_product){.m = s->n,
                        .n = s->n,
                        .k = wide ? s->columns : s->rows,
                        .a = x,
                        .a_row = across,
                        .a_col = along,
                        .b = x,
                        .b_row = along,
                        .b_col = across,
                        .c = s->gram,
                        .c_row = s->n,
                        .c_col = 1};
}

/* square = gram gram */
static th_product square_product(const iteration *s)
{
    return (th_product){.m = s->n,
                        .n = s->n,
                        .k = s->n,
                        .a = s->gram,
                        .a_row = s->n,
                        .a_col = 1,
                        .b = s->gram,
                        .b_row = s->n,
                        .b_col = 1,
                        .c = s->square,
                        .c_row = s->n,
                        .c_col = 1};
}

/* y = gram x or x gram */
static th_product update_product(const iteration *s, const void *x, void *y)
{
    const bool wide = s->rows <= s->columns;
    return (th_product){.m = s->rows,
                        .n = s->columns,
                        .k = s->n,
                        .a = wide ? s->gram : x,
                        .a_row = s->n,
                        .a_col = 1,
                        .b = wide ? x : s->gram,
                        .b_row = s->columns,
                        .b_col = 1,
                        .c = y,
                        .c_row = s->columns,
                        .c_col = 1};
}

static iteration iteration_of(const th_machine *machine, th_dtype dtype, int64_t rows, int64_t columns, int threads)
{
    iteration s = {.machine = *machine,
                   .kernels = th_kernels_for(machine, dtype),
                   .dtype = dtype,
                   .size = th_element_size(dtype),
                   .rows = rows,
                   .columns = columns,
                   .n = th_smaller(rows, columns),
                   .threads = threads < 1 ? 1 : threads};
    s.machine.precision = TH_PRECISION_FLOAT32;
    return s;
}

static size_t larger_of(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t workspace_of(const iteration *s)
{
    const th_product gram = gram_product(s, NULL), square = square_product(s), update = update_product(s, NULL, NULL);
    const size_t a = th_product_workspace(&s->machine, s->dtype, &gram, s->threads);
    const size_t b = th_product_workspace(&s->machine, s->dtype, &square, s->threads);
    return larger_of(larger_of(a, b), th_product_workspace(&s->machine, s->dtype, &update, s->threads));
}

/* Adds the bytes of a matrix (rows, columns), aligned, to *bytes. Returns false if a size_t cannot hold the sum. */
static bool reserve(int64_t rows, int64_t columns, int64_t size, size_t *bytes)
{
    size_t more;
    return !__builtin_mul_overflow(rows, columns, &more) && !__builtin_mul_overflow(more, size, &more) &&
           !__builtin_add_overflow(more, (size_t)TH_ALIGNMENT - 1, &more) &&
           !__builtin_add_overflow(*bytes, more / TH_ALIGNMENT * TH_ALIGNMENT, bytes);
}

size_t th_orthogonalize_scratch(const th_machine *machine, th_dtype dtype, int64_t count, int64_t rows, int64_t columns,
                                int threads)
{
    const iteration s = iteration_of(machine, dtype, rows, columns, threads);
    size_t bytes = 0;
    if (count == 0 || s.n == 0)
        return 0;
    if (!reserve(rows, columns, s.size, &bytes) || !reserve(s.n, s.n, s.size, &bytes) ||
        !reserve(s.n, s.n, s.size, &bytes) || __builtin_add_overflow(bytes, workspace_of(&s), &bytes))
        return SIZE_MAX;
    return bytes;
}

static double element_at(const iteration *s, const char *x, int64_t i)
{
    return s->dtype == TH_FLOAT64 ? ((const double *)(const void *)x)[i] : (double)((const float *)(const void *)x)[i];
}

static void scale(const iteration *s, int64_t numel, void *x, double factor)
{
    s->kernels->scale(numel, (void *[]){x, x}, &factor);
}

/* Multiplies by a power of two. One factor could overflow, two cannot. */
static void scale_by_power(const iteration *s, int64_t numel, void *x, int exponent)
{
    scale(s, numel, x, ldexp(1, exponent / 2));
    scale(s, numel, x, ldexp(1, exponent - exponent / 2));
}

/* Returns the largest magnitude; NaN or infinity if there is one. */
static double largest_magnitude(const iteration *s, int64_t numel, const char *x)
{
    double largest = 0;
    for (int64_t i = 0; i < numel && largest <= DBL_MAX; i++) {
        const double magnitude = fabs(element_at(s, x, i));
        largest = magnitude <= largest ? largest : magnitude;
    }
    return largest;
}

/* Divides X by its norm, or by eps if that is larger. Returns false if that is all: X is 0 or NaN. */
static bool normalize(const iteration *s, char *x, double eps)
{
    const int64_t numel = s->rows * s->columns;
    const double most = s->dtype == TH_FLOAT64 ? 1e200 : 1e60;
    double squares;
    s->kernels->sum_squares(numel, x, &squares);
    if (!(squares >= 1 / most &&
          squares <= most)) { /* it may have overflowed or underflowed: make the largest about 1 */
        const double largest = largest_magnitude(s, numel, x);
        if (!(largest <= DBL_MAX))
            scale(s, numel, x, (double)NAN);
        if (!(largest > 0 && largest <= DBL_MAX))
            return false;
        int exponent;
        (void)frexp(largest, &exponent);
        scale_by_power(s, numel, x, -exponent);
        s->kernels->sum_squares(numel, x, &squares);
        eps = ldexp(eps, -exponent);
    }
    scale(s, numel, x, 1 / fmax(sqrt(squares), eps));
    return true;
}

static void run(const iteration *s, const th_product *product)
{
    th_product_run(&s->machine, s->dtype, product, s->threads, s->workspace);
}

/* gram = a I + b gram + c square */
static void combine(const iteration *s, const double coefficient[3])
{
    scale(s, s->n * s->n, s->gram, coefficient[1]);
    scale(s, s->n * s->n, s->square, coefficient[2]);
    s->kernels->add(s->n * s->n, (void *[]){s->gram, s->gram, s->square}, NULL);
    for (int64_t i = 0; i < s->n; i++) {
        if (s->dtype == TH_FLOAT64)
            ((double *)(void *)s->gram)[i * (s->n + 1)] += coefficient[0];
        else
            ((float *)(void *)s->gram)[i * (s->n + 1)] += (float)coefficient[0];
    }
}

static void orthogonalize_one(const iteration *s, const th_newton_schulz *schulz, void *matrix)
{
    if (!normalize(s, matrix, schulz->eps))
        return;
    for (int step = 0; step < schulz->steps; step++) {
        const th_product gram = gram_product(s, matrix), square = square_product(s);
        const th_product update = update_product(s, matrix, s->x);
        run(s, &gram);
        run(s, &square);
        combine(s, schulz->coefficient[step]);
        run(s, &update);
        s->kernels->copy(s->rows * s->columns, (void *[]){matrix, s->x}, NULL);
    }
}

void th_orthogonalize(const th_machine *machine, th_dtype dtype, const th_newton_schulz *schulz, int64_t count,
                      int64_t rows, int64_t columns, void *const matrix[], void *scratch, int threads)
{
    iteration s = iteration_of(machine, dtype, rows, columns, threads);
    if (s.n == 0)
        return;
    const size_t square_bytes = th_aligned((size_t)(s.n * s.n * s.size));
    s.x = scratch;
    s.gram = s.x + th_aligned((size_t)(rows * columns * s.size));
    s.square = s.gram + square_bytes;
    s.workspace = s.square + square_bytes;
    for (int64_t i = 0; i < count; i++)
        orthogonalize_one(&s, schulz, matrix[i]);
}
