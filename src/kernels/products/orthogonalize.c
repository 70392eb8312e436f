/* Newton-Schulz iterations (orthogonalize.h). The iteration works on a copy X (m, n) of the matrix, or of its
 * transpose, with m >= n. Its rows are padded with zeros to whole tiles. So all operands of the products are read in
 * place.
 *
 * The steps are divided into segments. A segment computes the Gram matrix of X, and multiplies X once, at its end:
 *
 *     gram = X^T X
 *     for each step:  update = a I + b gram + c gram gram,  chain = chain update,  gram = update gram update
 *     X = X chain
 *
 * All results except the last are symmetric, because they are polynomials of the first gram: only panels of columns
 * down to the diagonal are computed, then mirrored. If m is n, or little more, a segment has one step. Otherwise
 * segments are longer: each step that does not end a segment saves 1.5 (m - n) n n multiply-adds.
 *
 * The error of a longer segment. Q is the polynomial of the segment, and gram is X^T X + E: ||E|| is about the rounding
 * error of the type, because ||X|| is about 1. So X is multiplied by Q(X^T X + E). Besides the rounding errors of any
 * product, the result has at most the error
 *
 *     ||E|| max s |Q(s^2) - Q(t^2)| / |s^2 - t^2|  over s, t in [0, 1]
 *
 * For Jordan's coefficients and Polar Express this maximum is below 3 g. A step multiplies small eigenvalues of gram,
 * and their errors, by a^2. g is the product of a^2 over all steps of the segment but the last. A segment ends before g
 * exceeds MAX_GROWTH. So the error is at most about 2e-4 in float32, and 3e-13 in float64. The next segment computes
 * gram again, so that errors do not grow further.
 *
 * A sum over k consists of blocks of STEPS steps, each one chain of fused multiply-adds from 0, which are added in
 * order. */
#include "kernels/products/orthogonalize.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/machine/parallel.h"
#include "kernels/product_block.h"
#include "kernels/products/product_backends.h"
#include "kernels/products/product_plan.h"
#include "kernels/sizes.h"

enum {
    STEPS = 256,       /* of a block of k: a panel of B then stays in the L1 cache */
    ROW_BLOCK = 96,    /* rows of X that a task computes or copies: whole tiles */
    SQUARES_PARTS = 32 /* of a matrix, for the sum of its squares */
};

/* Of the errors in a segment. */
static const double MAX_GROWTH = 1000;

/* m / n from which segments have several steps. With a smaller ratio they save little. */
static const double LONG_SEGMENTS_FROM = 1.5;

/* What all matrices of one shape share. */
typedef struct shape {
    const th_kernels *kernels;
    th_product_kernels multiply;
    th_dtype dtype;
    int64_t size;           /* bytes of an element */
    int64_t rows, columns;  /* of the matrix */
    int64_t m, n;           /* the larger and the smaller of these */
    int64_t padded, stride; /* n in whole tiles; elements from row to row of X and of the squares */
    bool long_segments;
    int squares; /* matrices (padded, stride) of an iteration */
    size_t x_bytes, square_bytes;
} shape;

/* One matrix, and the scratch memory for it. */
typedef struct iteration {
    const shape *shape;
    int threads;
    char *matrix;                        /* (rows, columns) */
    char *x, *next;                      /* (m, stride) */
    char *gram, *update, *chain, *spare; /* squares (padded, stride); the last two only with long segments */
    const char *right;                   /* the square that X is multiplied by */
    double weight[3];                    /* a, b, c of this step */
    double factor;                       /* of the copy to X */
    double squares[SQUARES_PARTS];
} iteration;

/* Sets *bytes to those of rows x columns elements, aligned. Returns false if a size_t cannot hold them. */
static bool matrix_bytes(int64_t rows, int64_t columns, int64_t size, size_t *bytes)
{
    return !__builtin_mul_overflow((size_t)rows, (size_t)columns, bytes) &&
           !__builtin_mul_overflow(*bytes, (size_t)size, bytes) &&
           !__builtin_add_overflow(*bytes, (size_t)TH_ALIGNMENT, bytes) &&
           (*bytes = *bytes / TH_ALIGNMENT * TH_ALIGNMENT) > 0;
}

/* Fills *s; returns false if its sizes are too large. */
static bool set_shape(shape *s, const th_machine *machine, th_dtype dtype, int64_t rows, int64_t columns)
{
    *s = (shape){.kernels = th_kernels_for(machine, dtype),
                 .multiply = th_product_kernels_of(machine, dtype, TH_PRECISION_FLOAT32),
                 .dtype = dtype,
                 .size = th_element_size(dtype),
                 .rows = rows,
                 .columns = columns,
                 .m = th_larger(rows, columns),
                 .n = th_smaller(rows, columns)};
    if (s->m > INT64_MAX / 2)
        return false;
    s->long_segments = (double)s->m >= LONG_SEGMENTS_FROM * (double)s->n;
    s->squares = s->long_segments ? 4 : 2;
    s->padded = th_ceil_div(s->n, s->multiply.columns) * s->multiply.columns;
    /* An odd number of cache lines: the rows of a column are in different places of the cache. */
    s->stride = (th_ceil_div(s->padded, TH_ALIGNMENT / s->size) | 1) * (TH_ALIGNMENT / s->size);
    return matrix_bytes(s->m, s->stride, s->size, &s->x_bytes) &&
           matrix_bytes(s->padded, s->stride, s->size, &s->square_bytes);
}

/* Returns whether tasks are whole matrices. Otherwise, and for the rest of a division by the number of threads, the
 * team divides each matrix. */
static bool is_small(const shape *s)
{
    return (double)s->m * (double)s->n * (double)s->n < 8 * (double)TH_PRODUCT_SERIAL;
}

/* Returns how many of the matrices are tasks. */
static int64_t whole_matrices(const shape *s, int64_t count, int threads)
{
    return is_small(s) ? count : count - count % threads;
}

/* Returns how many threads these tasks have: each needs scratch memory. */
static int matrix_threads(int64_t tasks, int threads)
{
    return (int)th_larger(1, th_smaller(threads, tasks));
}

/* Sets *bytes to the scratch memory of one matrix. */
static bool iteration_bytes(const shape *s, size_t *bytes)
{
    size_t squares;
    return !__builtin_mul_overflow(s->x_bytes, (size_t)2, bytes) &&
           !__builtin_mul_overflow(s->square_bytes, (size_t)s->squares, &squares) &&
           !__builtin_add_overflow(*bytes, squares, bytes);
}

size_t th_orthogonalize_scratch(const th_machine *machine, th_dtype dtype, int64_t count, int64_t rows, int64_t columns,
                                int threads)
{
    shape s;
    size_t bytes;
    if (count == 0 || rows == 0 || columns == 0)
        return 0;
    if (!set_shape(&s, machine, dtype, rows, columns) || !iteration_bytes(&s, &bytes))
        return SIZE_MAX;
    threads = threads < 1 ? 1 : threads;
    const int team = matrix_threads(whole_matrices(&s, count, threads), threads);
    return __builtin_mul_overflow(bytes, (size_t)team, &bytes) ? SIZE_MAX : bytes;
}

static char *row_at(const shape *s, char *x, int64_t row)
{
    return x + row * s->stride * s->size;
}

/* -- products -- */

/* Multiplies: C = A B over all steps of k, for m rows and n columns of C. The block has the operands at step 0. */
static void multiply(const shape *s, th_product_block *block, int64_t k)
{
    const char *a = block->a, *b = block->b;
    for (int64_t step = 0; step < k; step += STEPS) {
        block->k = th_smaller(k - step, STEPS);
        block->a = a + step * block->a_col * s->size;
        block->b = b + step * block->b_row * s->size;
        block->init = step > 0 ? block->c : NULL;
        block->init_row = block->c_row;
        s->multiply.block(block);
    }
}

/* Computes a panel of columns of the symmetric product to = left^T right, over k rows, down to the diagonal. Then
 * to = weight[1] gram + weight[2] to if `weight` is given, and the panel is mirrored. */
static void symmetric_panel(const shape *s, int64_t panel, const char *left, const char *right, int64_t k, char *to,
                            const char *gram, const double *weight)
{
    const int64_t first = panel * s->multiply.columns;
    th_product_block block = {.m = first + s->multiply.columns,
                              .n = s->multiply.columns,
                              .a = left,
                              .a_panel = s->multiply.rows,
                              .a_row = 1,
                              .a_col = s->stride,
                              .b = right + first * s->size,
                              .b_panel = s->multiply.columns,
                              .b_row = s->stride,
                              .c = to + first * s->size,
                              .c_row = s->stride};
    multiply(s, &block, k);
    s->kernels->product_mirror(first, gram, weight ? weight + 1 : NULL, to, s->stride);
}

static int64_t panel_count(const shape *s)
{
    return s->padded / s->multiply.columns;
}

/* One symmetric product for the team. */
typedef struct symmetric_product {
    const iteration *iteration;
    const char *left, *right; /* (k, padded) */
    int64_t k;
    char *to;
    bool is_update; /* to = a I + b gram + c left^T right */
} symmetric_product;

static void add_to(const shape *s, char *x, int64_t i, double number)
{
    if (s->dtype == TH_FLOAT64)
        ((double *)(void *)x)[i] += number;
    else
        ((float *)(void *)x)[i] += (float)number;
}

/* The largest panels first, so that the team ends at the same time. */
static void symmetric_task(void *shared, int64_t index, int worker)
{
    const symmetric_product *p = shared;
    const iteration *t = p->iteration;
    const shape *s = t->shape;
    const int64_t panel = panel_count(s) - 1 - index, first = panel * s->multiply.columns;
    (void)worker;
    symmetric_panel(s, panel, p->left, p->right, p->k, p->to, p->is_update ? t->gram : NULL,
                    p->is_update ? t->weight : NULL);
    for (int64_t i = first; p->is_update && i < first + s->multiply.columns; i++)
        add_to(s, p->to, i * (s->stride + 1), t->weight[0]);
}

static void multiply_symmetric(const iteration *t, const char *left, const char *right, char *to)
{
    symmetric_product p = {t, left, right, t->shape->n, to, false};
    th_parallel(t->threads, panel_count(t->shape), symmetric_task, &p);
}

/* gram = X^T X */
static void compute_gram(const iteration *t)
{
    symmetric_product p = {t, t->x, t->x, t->shape->m, t->gram, false};
    th_parallel(t->threads, panel_count(t->shape), symmetric_task, &p);
}

/* update = a I + b gram + c gram gram */
static void compute_update(const iteration *t)
{
    symmetric_product p = {t, t->gram, t->gram, t->shape->n, t->update, true};
    th_parallel(t->threads, panel_count(t->shape), symmetric_task, &p);
}

/* Computes a block of rows of next = X right. */
static void product_task(void *shared, int64_t index, int worker)
{
    const iteration *t = shared;
    const shape *s = t->shape;
    const int64_t row = index * ROW_BLOCK;
    (void)worker;
    th_product_block block = {.m = th_smaller(s->m - row, ROW_BLOCK),
                              .n = s->padded,
                              .a = row_at(s, t->x, row),
                              .a_panel = s->multiply.rows * s->stride,
                              .a_row = s->stride,
                              .a_col = 1,
                              .b = t->right,
                              .b_panel = s->multiply.columns,
                              .b_row = s->stride,
                              .c = row_at(s, t->next, row),
                              .c_row = s->stride};
    multiply(s, &block, s->n);
}

/* -- copies -- */

/* Copies rows of X from the matrix, times a factor. The padding becomes 0. */
static void load_task(void *shared, int64_t index, int worker)
{
    const iteration *t = shared;
    const shape *s = t->shape;
    const int64_t row = index * ROW_BLOCK, rows = th_smaller(s->m - row, ROW_BLOCK), rest = s->padded - s->n;
    (void)worker;
    if (s->rows < s->columns)
        s->kernels->product_transpose(s->n, rows, t->matrix + row * s->size, s->columns, t->factor,
                                      row_at(s, t->x, row), s->stride);
    for (int64_t i = row; i < row + rows; i++) {
        char *x = row_at(s, t->x, i);
        if (s->rows >= s->columns)
            s->kernels->scale(s->n, (void *[]){x, t->matrix + i * s->n * s->size}, &t->factor);
        s->kernels->product_copy(1, rest, th_zero(s->size), 0, 0, x + s->n * s->size, 0, 1);
    }
}

/* Copies rows of X to the matrix. */
static void store_task(void *shared, int64_t index, int worker)
{
    const iteration *t = shared;
    const shape *s = t->shape;
    const int64_t row = index * ROW_BLOCK, rows = th_smaller(s->m - row, ROW_BLOCK);
    (void)worker;
    if (s->rows < s->columns)
        s->kernels->product_transpose(rows, s->n, row_at(s, t->x, row), s->stride, 1, t->matrix + row * s->size,
                                      s->columns);
    else
        for (int64_t i = row; i < row + rows; i++)
            s->kernels->copy(s->n, (void *[]){t->matrix + i * s->n * s->size, row_at(s, t->x, i)}, NULL);
}

/* -- the norm -- */

static void squares_task(void *shared, int64_t index, int worker)
{
    iteration *t = shared;
    const int64_t numel = t->shape->m * t->shape->n, part = th_ceil_div(numel, SQUARES_PARTS);
    const int64_t first = th_smaller(index * part, numel);
    (void)worker;
    t->shape->kernels->sum_squares(th_smaller(numel - first, part), t->matrix + first * t->shape->size,
                                   &t->squares[index]);
}

static double sum_of_squares(iteration *t)
{
    double sum = 0;
    th_parallel(t->threads, SQUARES_PARTS, squares_task, t);
    for (int i = 0; i < SQUARES_PARTS; i++)
        sum += t->squares[i];
    return sum;
}

/* Returns the largest magnitude of the matrix; NaN or infinity if there is one. */
static double largest_magnitude(const iteration *t)
{
    const int64_t numel = t->shape->m * t->shape->n;
    const double *full = (const double *)(const void *)t->matrix;
    const float *single = (const float *)(const void *)t->matrix;
    double largest = 0;
    for (int64_t i = 0; i < numel && largest <= DBL_MAX; i++) {
        const double magnitude = fabs(t->shape->dtype == TH_FLOAT64 ? full[i] : (double)single[i]);
        largest = magnitude <= largest ? largest : magnitude;
    }
    return largest;
}

static void scale_matrix(const iteration *t, double factor)
{
    t->shape->kernels->scale(t->shape->m * t->shape->n, (void *[]){t->matrix, t->matrix}, &factor);
}

/* Multiplies the matrix by a power of two. One factor could overflow, two cannot. */
static void scale_by_power(const iteration *t, int exponent)
{
    scale_matrix(t, ldexp(1, exponent / 2));
    scale_matrix(t, ldexp(1, exponent - exponent / 2));
}

/* Sets the factor that divides the matrix by its norm, or by eps if that is larger. Returns false if the matrix is 0 or
 * has become NaN: no iteration changes it. */
static bool set_factor(iteration *t, double eps)
{
    const double most = t->shape->dtype == TH_FLOAT64 ? 1e200 : 1e60;
    double squares = sum_of_squares(t);
    if (!(squares >= 1 / most && squares <= most)) { /* rounded too much: makes the largest magnitude about 1 */
        const double largest = largest_magnitude(t);
        int exponent;
        if (!(largest <= DBL_MAX))
            scale_matrix(t, (double)NAN);
        if (!(largest > 0 && largest <= DBL_MAX))
            return false;
        (void)frexp(largest, &exponent);
        scale_by_power(t, -exponent);
        squares = sum_of_squares(t);
        eps = ldexp(eps, -exponent);
    }
    t->factor = 1 / fmax(sqrt(squares), eps);
    return true;
}

/* -- steps -- */

static void swap(char **a, char **b)
{
    char *const before = *a;
    *a = *b;
    *b = before;
}

/* Scales the first step's coefficients, so that X is divided by the square root of ||gram||, which is at least its
 * largest singular value. If X was divided by eps, ||gram|| counts as at least 1 / sqrt(n), the least for ||X|| = 1. */
static void normalize_by_gram(iteration *t)
{
    const shape *s = t->shape;
    double sum = 0;
    for (int64_t i = 0; i < s->n; i++) {
        double squares;
        s->kernels->sum_squares(s->n, row_at(s, t->gram, i), &squares);
        sum += squares;
    }
    const double norm = fmax(sqrt(sum), 1 / sqrt((double)s->n));
    t->weight[0] /= sqrt(norm);
    t->weight[1] /= sqrt(norm) * norm;
    t->weight[2] /= sqrt(norm) * norm * norm;
}

/* gram = update gram update */
static void advance_gram(const iteration *t)
{
    multiply_symmetric(t, t->gram, t->update, t->spare);
    multiply_symmetric(t, t->spare, t->update, t->gram);
}

/* chain = chain update. The first step of a segment has chain = update. */
static void extend_chain(iteration *t, bool first)
{
    if (first) {
        swap(&t->chain, &t->update);
        return;
    }
    multiply_symmetric(t, t->chain, t->update, t->spare);
    swap(&t->chain, &t->spare);
}

/* X = X right */
static void multiply_x(iteration *t, const char *right)
{
    t->right = right;
    th_parallel(t->threads, th_ceil_div(t->shape->m, ROW_BLOCK), product_task, t);
    swap(&t->x, &t->next);
}

static void iterate(iteration *t, const th_newton_schulz *schulz)
{
    double growth = 1; /* of the segment */
    bool first = true; /* step of the segment */
    for (int step = 0; step < schulz->steps; step++) {
        const double *weight = schulz->coefficient[step];
        memcpy(t->weight, weight, sizeof t->weight);
        if (first)
            compute_gram(t);
        if (step == 0 && schulz->normalizes_by_gram)
            normalize_by_gram(t);
        compute_update(t);
        growth *= fmax(weight[0] * weight[0], 1);
        if (step + 1 < schulz->steps && t->shape->long_segments && growth <= MAX_GROWTH) {
            advance_gram(t);
            extend_chain(t, first);
            first = false;
            continue;
        }
        if (!first)
            extend_chain(t, false);
        multiply_x(t, first ? t->update : t->chain);
        growth = 1;
        first = true;
    }
}

/* -- whole matrices -- */

static void orthogonalize_one(iteration *t, const th_newton_schulz *schulz)
{
    const int64_t row_blocks = th_ceil_div(t->shape->m, ROW_BLOCK);
    if (!set_factor(t, schulz->eps))
        return;
    th_parallel(t->threads, row_blocks, load_task, t);
    iterate(t, schulz);
    th_parallel(t->threads, row_blocks, store_task, t);
}

/* All matrices of a call. */
typedef struct batch {
    const shape *shape;
    const th_newton_schulz *schulz;
    void *const *matrix;
    char *scratch;
} batch;

static void orthogonalize_at(const batch *b, int64_t index, int worker, int threads)
{
    const shape *s = b->shape;
    iteration t = {.shape = s, .threads = threads, .matrix = b->matrix[index]};
    t.x = b->scratch + (size_t)worker * (2 * s->x_bytes + (size_t)s->squares * s->square_bytes);
    t.next = t.x + s->x_bytes;
    t.gram = t.next + s->x_bytes;
    t.update = t.gram + s->square_bytes;
    t.chain = s->long_segments ? t.update + s->square_bytes : NULL;
    t.spare = s->long_segments ? t.chain + s->square_bytes : NULL;
    orthogonalize_one(&t, b->schulz);
}

static void matrix_task(void *shared, int64_t index, int worker)
{
    orthogonalize_at(shared, index, worker, 1);
}

void th_orthogonalize(const th_machine *machine, th_dtype dtype, const th_newton_schulz *schulz, int64_t count,
                      int64_t rows, int64_t columns, void *const matrix[], void *scratch, int threads)
{
    shape s;
    if (count == 0 || rows == 0 || columns == 0 || !set_shape(&s, machine, dtype, rows, columns))
        return;
    threads = threads < 1 ? 1 : threads;
    batch b = {.shape = &s, .schulz = schulz, .matrix = matrix, .scratch = scratch};
    const int64_t whole = whole_matrices(&s, count, threads);
    th_parallel(matrix_threads(whole, threads), whole, matrix_task, &b);
    for (int64_t i = whole; i < count; i++)
        orthogonalize_at(&b, i, 0, threads);
}
