/* Newton-Schulz iterations against their formula in long double, for equal bits with any number of threads and
 * matrices, and with numbers that overflow, underflow or are not finite. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "instances.h"
#include "kernels/products/orthogonalize.h"
#include "suite.h"

static uint64_t state;

static double draw(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(state >> 11) * 0x1p-52 - 1;
}

static void *allocate(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 128) / 64 * 64);
    ck_assert_ptr_nonnull(memory);
    return memory;
}

static double get(th_dtype dtype, const void *x, int64_t i)
{
    return dtype == TH_FLOAT64 ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

static void put(th_dtype dtype, void *x, int64_t i, double number)
{
    if (dtype == TH_FLOAT64)
        ((double *)x)[i] = number;
    else
        ((float *)x)[i] = (float)number;
}

/* A new matrix of random numbers in [-scale, scale). */
static void *random_matrix(th_dtype dtype, int64_t numel, double scale)
{
    void *x = allocate((size_t)numel * th_dtype_size(dtype));
    for (int64_t i = 0; i < numel; i++)
        put(dtype, x, i, (double)(float)draw() * scale);
    return x;
}

/* -- the formula -- */

/* c (m, n) = a b, through strides */
static void multiply(int64_t m, int64_t n, int64_t k, const long double *a, int64_t a_row, int64_t a_col,
                     const long double *b, int64_t b_row, int64_t b_col, long double *c)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            long double sum = 0;
            for (int64_t step = 0; step < k; step++)
                sum += a[i * a_row + step * a_col] * b[step * b_row + j * b_col];
            c[i * n + j] = sum;
        }
}

static long double norm_of(int64_t numel, const long double *x)
{
    long double squares = 0;
    for (int64_t i = 0; i < numel; i++)
        squares += x[i] * x[i];
    return sqrtl(squares);
}

/* x (rows, columns) <- a x + (b A + c A A) x, or the same from the other side. With root, x is divided by the square
 * root of ||A|| first. */
static void reference_step(const double *weight, bool root, int64_t rows, int64_t columns, long double *x)
{
    const bool wide = rows <= columns;
    const int64_t n = wide ? rows : columns, k = wide ? columns : rows;
    const int64_t across = wide ? columns : 1, along = wide ? 1 : columns;
    long double *gram = allocate((size_t)(n * n) * sizeof *x), *square = allocate((size_t)(n * n) * sizeof *x);
    long double *product = allocate((size_t)(rows * columns) * sizeof *x);
    multiply(n, n, k, x, across, along, x, along, across, gram);
    const long double norm = root ? fmaxl(norm_of(n * n, gram), 1 / sqrtl((long double)n)) : 1;
    for (int64_t i = 0; i < rows * columns; i++)
        x[i] /= sqrtl(norm);
    for (int64_t i = 0; i < n * n; i++)
        gram[i] /= norm;
    multiply(n, n, n, gram, n, 1, gram, n, 1, square);
    for (int64_t i = 0; i < n * n; i++)
        gram[i] = weight[1] * gram[i] + weight[2] * square[i];
    if (wide)
        multiply(n, columns, n, gram, n, 1, x, columns, 1, product);
    else
        multiply(rows, n, n, x, n, 1, gram, n, 1, product);
    for (int64_t i = 0; i < rows * columns; i++)
        x[i] = weight[0] * x[i] + product[i];
    free(gram);
    free(square);
    free(product);
}

/* Returns the result for a matrix of numbers of this type. */
static long double *reference(const th_newton_schulz *schulz, th_dtype dtype, int64_t rows, int64_t columns,
                              const void *matrix)
{
    long double *x = allocate((size_t)(rows * columns) * sizeof *x);
    for (int64_t i = 0; i < rows * columns; i++)
        x[i] = get(dtype, matrix, i);
    const long double norm = fmaxl(norm_of(rows * columns, x), schulz->eps);
    for (int64_t i = 0; i < rows * columns; i++)
        x[i] /= norm;
    for (int step = 0; step < schulz->steps; step++)
        reference_step(schulz->coefficient[step], step == 0 && schulz->normalizes_by_gram, rows, columns, x);
    return x;
}

/* -- runs -- */

/* Runs with scratch memory full of NaN, and checks that nothing is written after it. */
static void run(const th_machine *machine, th_dtype dtype, const th_newton_schulz *schulz, int64_t count, int64_t rows,
                int64_t columns, void *const matrix[], int threads)
{
    const size_t bytes = th_orthogonalize_scratch(machine, dtype, count, rows, columns, threads);
    const size_t all = (bytes + 64) * (size_t)(threads + 1);
    unsigned char *scratch = allocate(all);
    memset(scratch, 0xff, all);
    th_orthogonalize(machine, dtype, schulz, count, rows, columns, matrix, scratch, threads);
    size_t end = bytes;
    while (end < all && scratch[end] == 0xff)
        end++;
    ck_assert_uint_eq(end, all);
    free(scratch);
}

/* Returns a copy of the matrix, orthogonalized alone, on one thread. */
static void *run_alone(const th_machine *machine, th_dtype dtype, const th_newton_schulz *schulz, int64_t rows,
                       int64_t columns, const void *matrix)
{
    const size_t bytes = (size_t)(rows * columns) * th_dtype_size(dtype);
    void *x = allocate(bytes);
    memcpy(x, matrix, bytes);
    run(machine, dtype, schulz, 1, rows, columns, &x, 1);
    return x;
}

/* Compares the results of all instruction sets with the formula. */
static void assert_near(th_dtype dtype, const th_newton_schulz *schulz, int64_t rows, int64_t columns,
                        const void *matrix, double error)
{
    long double *expected = reference(schulz, dtype, rows, columns, matrix);
    for (int isa = 0; isa < ISAS && supported(isa); isa++) {
        const th_machine machine = machine_of(isa, 1);
        void *x = run_alone(&machine, dtype, schulz, rows, columns, matrix);
        for (int64_t i = 0; i < rows * columns; i++)
            ck_assert_double_le(fabs(get(dtype, x, i) - (double)expected[i]), error);
        free(x);
    }
    free(expected);
}

static const int64_t shapes[][2] = {{1, 1},   {1, 9},   {9, 1},   {2, 3},   {3, 2},    {16, 16},
                                    {17, 17}, {31, 33}, {33, 31}, {24, 72}, {72, 24},  {5, 530},
                                    {530, 5}, {70, 37}, {33, 49}, {33, 50}, {12, 270}, {270, 12}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static th_newton_schulz schulz_number(int i)
{
    return i == 0   ? th_newton_schulz_jordan(5)
           : i == 1 ? th_newton_schulz_jordan(1)
                    : th_newton_schulz_polar_express(i + 1); /* 3, 4, 5 */
}

START_TEST(test_formula)
{
    const int64_t rows = shapes[_i][0], columns = shapes[_i][1];
    state = (uint64_t)(7 + _i);
    void *x = random_matrix(TH_FLOAT64, rows * columns, 1), *single = random_matrix(TH_FLOAT32, rows * columns, 1);
    void *small = random_matrix(TH_FLOAT64, rows * columns, 1e-9); /* with a norm below eps */
    for (int i = 0; i < 5; i++) {
        const th_newton_schulz schulz = schulz_number(i);
        const bool is_steep = i >= 2 && (rows == 1 || columns == 1); /* at the end of the interval, where X is then */
        assert_near(TH_FLOAT64, &schulz, rows, columns, x, is_steep ? 1e-11 : 1e-12);
        assert_near(TH_FLOAT32, &schulz, rows, columns, single, is_steep ? 5e-3 : 1e-4);
        assert_near(TH_FLOAT64, &schulz, rows, columns, small, 1e-12);
    }
    free(small);
    free(x);
    free(single);
}
END_TEST

START_TEST(test_no_steps_divide_by_the_norm)
{
    const th_machine machine = machine_of(0, 1);
    const th_newton_schulz schulz = th_newton_schulz_jordan(0);
    double x[4] = {1, -1, 1, 1}, y[2] = {3e-9, 4e-9};
    run(&machine, TH_FLOAT64, &schulz, 1, 2, 2, (void *[]){x}, 1);
    for (int i = 0; i < 4; i++)
        ck_assert_double_eq(x[i], i == 1 ? -0.5 : 0.5);
    run(&machine, TH_FLOAT64, &schulz, 1, 2, 1, (void *[]){y}, 1); /* eps is larger than the norm */
    ck_assert_double_eq_tol(y[0], 3e-2, 1e-15);
    ck_assert_double_eq_tol(y[1], 4e-2, 1e-15);
}
END_TEST

/* -- bits -- */

enum { MATRICES = 5 };

/* Orthogonalizes `count` of the matrices together, and compares each with its result alone. */
static void assert_same_as_alone(const th_machine *machine, th_dtype dtype, int64_t count, int64_t rows,
                                 int64_t columns, int threads)
{
    const th_newton_schulz schulz = th_newton_schulz_jordan(5);
    const size_t bytes = (size_t)(rows * columns) * th_dtype_size(dtype);
    void *matrix[MATRICES], *expected[MATRICES];
    for (int64_t i = 0; i < count; i++) {
        matrix[i] = random_matrix(dtype, rows * columns, 1);
        expected[i] = run_alone(machine, dtype, &schulz, rows, columns, matrix[i]);
    }
    run(machine, dtype, &schulz, count, rows, columns, matrix, threads);
    for (int64_t i = 0; i < count; i++) {
        ck_assert(memcmp(matrix[i], expected[i], bytes) == 0);
        free(matrix[i]);
        free(expected[i]);
    }
}

/* The last two shapes are large enough for the team to divide a matrix. */
START_TEST(test_threads_and_matrices)
{
    static const int64_t sizes[][2] = {{20, 50}, {130, 37}, {40, 40}, {150, 160}, {96, 400}};
    const int64_t rows = sizes[_i][0], columns = sizes[_i][1];
    const th_machine machine = machine_of(FUSED < ISAS && supported(FUSED) ? FUSED : 0, 2);
    for (int64_t count = 1; count <= MATRICES; count += 2)
        for (int threads = 2; threads <= 4; threads++)
            for (int dtype = 0; dtype < 2; dtype++)
                assert_same_as_alone(&machine, dtype ? TH_FLOAT64 : TH_FLOAT32, count, rows, columns, threads);
}
END_TEST

/* With fewer matrices than threads, any thread may take one: the scratch memory must suffice. Often, because the
 * threads that take them differ. */
START_TEST(test_more_threads_than_matrices)
{
    enum { ROWS = 60, COLUMNS = 150, COUNT = 2, THREADS = 8 };
    const th_machine machine = machine_of(0, THREADS);
    const th_newton_schulz schulz = th_newton_schulz_jordan(1);
    void *matrix[COUNT];
    for (int i = 0; i < COUNT; i++)
        matrix[i] = random_matrix(TH_FLOAT32, ROWS * COLUMNS, 1);
    for (int i = 0; i < 50; i++)
        run(&machine, TH_FLOAT32, &schulz, COUNT, ROWS, COLUMNS, matrix, THREADS);
    for (int i = 0; i < COUNT; i++)
        free(matrix[i]);
}
END_TEST

START_TEST(test_instruction_sets)
{
    const int64_t rows = shapes[_i][0], columns = shapes[_i][1];
    for (int i = 0; i < 2; i++) {
        const th_dtype dtype = i ? TH_FLOAT64 : TH_FLOAT32;
        void *x = random_matrix(dtype, rows * columns, 1), *first = NULL;
        for (int isa = FUSED; isa < ISAS && supported(isa); isa++) {
            const th_machine machine = machine_of(isa, 1);
            const th_newton_schulz schulz = th_newton_schulz_polar_express(5);
            void *result = run_alone(&machine, dtype, &schulz, rows, columns, x);
            ck_assert(!first || memcmp(first, result, (size_t)(rows * columns) * th_dtype_size(dtype)) == 0);
            free(first);
            first = result;
        }
        free(x);
        free(first);
    }
}
END_TEST

START_TEST(test_transposed_matrix)
{
    enum { ROWS = 37, COLUMNS = 60 };
    const th_machine machine = machine_of(0, 1);
    th_newton_schulz schulz = th_newton_schulz_jordan(5);
    schulz.eps = 64; /* larger than the norm, whose bits depend on the order of the elements in memory */
    float x[ROWS][COLUMNS], y[COLUMNS][ROWS];
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            y[j][i] = x[i][j] = (float)draw();
    run(&machine, TH_FLOAT32, &schulz, 1, ROWS, COLUMNS, (void *[]){x}, 1);
    run(&machine, TH_FLOAT32, &schulz, 1, COLUMNS, ROWS, (void *[]){y}, 1);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            ck_assert(same((double)x[i][j], (double)y[j][i]));
}
END_TEST

/* Completes a square from its numbers on and above the diagonal: c = 2 a - 4 c, then the mirror image. */
START_TEST(test_mirror)
{
    enum { N = 64, STRIDE = 70 };
    static float a[N * STRIDE], c[N * STRIDE];
    for (int isa = 0; isa < ISAS && supported(isa); isa++)
        for (int weighted = 0; weighted < 2; weighted++) {
            for (int i = 0; i < N * STRIDE; i++) {
                a[i] = (float)i;
                c[i] = i / STRIDE <= i % STRIDE ? (float)(i % 89) : NAN;
            }
            for (int first = 0; first < N; first += TH_TILE_COLUMNS(th_isas[isa].vector_bytes, (int)sizeof(float)))
                f32[isa]->product_mirror(first, weighted ? a : NULL, (const double[]){2, -4}, c, STRIDE);
            for (int i = 0; i < N; i++)
                for (int j = i; j < N; j++) {
                    const float number = (float)((i * STRIDE + j) % 89);
                    ck_assert_float_eq(c[i * STRIDE + j], weighted ? 2 * a[i * STRIDE + j] - 4 * number : number);
                    ck_assert_float_eq(c[j * STRIDE + i], c[i * STRIDE + j]);
                }
        }
}
END_TEST

/* -- singular values -- */

/* A matrix (n, m) with singular values from 1 down to `least`: reflections of a diagonal. */
static void *matrix_of_condition(th_dtype dtype, int64_t n, int64_t m, double least)
{
    void *x = allocate((size_t)(n * m) * th_dtype_size(dtype));
    double u[64], v[256], u_squares = 0, v_squares = 0;
    for (int64_t i = 0; i < n; i++) {
        u[i] = draw();
        u_squares += u[i] * u[i];
    }
    for (int64_t i = 0; i < m; i++) {
        v[i] = draw();
        v_squares += v[i] * v[i];
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < m; j++) {
            double sum = 0;
            for (int64_t k = 0; k < n; k++) {
                const double left = (i == k) - 2 * u[i] * u[k] / u_squares;
                const double right = (j == k) - 2 * v[j] * v[k] / v_squares;
                sum += left * pow(least, (double)k / (double)(n - 1)) * right;
            }
            put(dtype, x, i * m + j, sum);
        }
    return x;
}

/* Without a bound on the growth of errors, they would be larger in every case. */
START_TEST(test_small_singular_values)
{
    static const double least[] = {1e-2, 2e-3, 1e-4, 1e-7, 1e-12};
    state = 1;
    for (int i = 0; i < 5; i++) {
        const th_newton_schulz schulz = schulz_number(i);
        void *x = matrix_of_condition(TH_FLOAT64, 24, 96, least[_i]);
        void *single = matrix_of_condition(TH_FLOAT32, 24, 96, least[_i]);
        assert_near(TH_FLOAT64, &schulz, 24, 96, x, i < 2 ? 1e-13 : 5e-12);
        assert_near(TH_FLOAT32, &schulz, 24, 96, single, i < 2 ? 3e-5 : 1e-3);
        free(x);
        free(single);
    }
}
END_TEST

/* A diagonal remains diagonal: its elements become the polynomial of themselves. */
START_TEST(test_polar_express_bounds)
{
    static const double least[] = {0.01, 0.005, 0.001, 0.001}, bound[] = {0.27367, 0.08659, 0.12356, 0.00119};
    const th_machine machine = machine_of(0, 1);
    th_newton_schulz schulz = th_newton_schulz_polar_express(3 + _i);
    schulz.normalizes_by_gram = false;
    double most = 0;
    for (double s = least[_i]; s < 0.7; s *= 1.01) {
        double x[4] = {s, 0, 0, sqrt(1 - s * s)};
        run(&machine, TH_FLOAT64, &schulz, 1, 2, 2, (void *[]){x}, 1);
        most = fmax(most, fmax(fabs(x[0] - 1), fabs(x[3] - 1)));
    }
    ck_assert_double_le(most, bound[_i]);
    ck_assert_double_ge(most, 0.99 * bound[_i]);
}
END_TEST

/* -- extremes -- */

START_TEST(test_zeros)
{
    const th_machine machine = machine_of(0, 1);
    const th_newton_schulz schulz = th_newton_schulz_polar_express(5);
    float x[120] = {0}, empty = 7;
    run(&machine, TH_FLOAT32, &schulz, 1, 3, 40, (void *[]){x}, 1);
    for (int i = 0; i < 120; i++)
        ck_assert_double_eq((double)x[i], 0);
    for (int64_t count = 0; count < 2; count++)
        for (int64_t rows = 0; rows < 2; rows++) {
            const int64_t columns = count == 1 && rows == 1 ? 0 : 5;
            ck_assert_uint_eq(th_orthogonalize_scratch(&machine, TH_FLOAT32, count, rows, columns, 2), 0);
            th_orthogonalize(&machine, TH_FLOAT32, &schulz, count, rows, columns, (void *[]){&empty}, NULL, 2);
        }
    ck_assert_double_eq((double)empty, 7);
}
END_TEST

START_TEST(test_numbers_that_are_not_finite)
{
    static const double special[] = {NAN, INFINITY, -INFINITY};
    const th_machine machine = machine_of(0, 1);
    const th_newton_schulz schulz = th_newton_schulz_jordan(5);
    for (int i = 0; i < 2; i++) {
        const th_dtype dtype = i ? TH_FLOAT64 : TH_FLOAT32;
        void *x = random_matrix(dtype, 6 * 35, 1), *other = random_matrix(dtype, 6 * 35, 1);
        void *expected = run_alone(&machine, dtype, &schulz, 6, 35, other);
        put(dtype, x, 209, special[_i]);
        run(&machine, dtype, &schulz, 2, 6, 35, (void *[]){x, other}, 1);
        for (int64_t j = 0; j < 6 * 35; j++) {
            ck_assert(isnan(get(dtype, x, j)));
            ck_assert_double_eq(get(dtype, other, j), get(dtype, expected, j));
        }
        free(x);
        free(other);
        free(expected);
    }
}
END_TEST

/* A power of two changes nothing, even where squares overflow or underflow. eps has the same power. */
START_TEST(test_largest_and_smallest_norms)
{
    static const int exponents[2][6] = {{126, 99, -101, -127, -111, -1}, {1016, 599, -601, -1023, -901, -1}};
    const th_machine machine = machine_of(0, 1);
    th_newton_schulz schulz = th_newton_schulz_polar_express(5);
    for (int i = 0; i < 4; i++) {
        const th_dtype dtype = i % 2 ? TH_FLOAT64 : TH_FLOAT32;
        const int exponent = exponents[i % 2][_i];
        double numbers[9 * 21];
        void *x = allocate(sizeof numbers);
        for (int64_t j = 0; j < 9 * 21; j++)
            put(dtype, x, j, numbers[j] = (double)(float)(1.0001 + 0.4999 * draw()) * (j % 2 ? -1 : 1));
        schulz.eps = i < 2 ? 0 : 64; /* the norm is about 14 */
        void *expected = run_alone(&machine, dtype, &schulz, 9, 21, x);
        for (int64_t j = 0; j < 9 * 21; j++)
            put(dtype, x, j, ldexp(numbers[j], exponent));
        schulz.eps = ldexp(schulz.eps, exponent);
        run(&machine, dtype, &schulz, 1, 9, 21, &x, 1);
        for (int64_t j = 0; j < 9 * 21; j++)
            ck_assert_double_le(fabs(get(dtype, x, j) - get(dtype, expected, j)), i % 2 ? 1e-13 : 1e-4);
        free(x);
        free(expected);
    }
}
END_TEST

START_TEST(test_sizes_that_are_too_large)
{
    const th_machine machine = machine_of(0, 1);
    ck_assert_uint_eq(th_orthogonalize_scratch(&machine, TH_FLOAT32, 1, INT64_MAX, INT64_MAX, 1), SIZE_MAX);
    ck_assert_uint_eq(th_orthogonalize_scratch(&machine, TH_FLOAT32, 1, 1, INT64_MAX, 1), SIZE_MAX);
    ck_assert_uint_eq(th_orthogonalize_scratch(&machine, TH_FLOAT64, 1, INT64_C(1) << 30, INT64_C(1) << 30, 1),
                      SIZE_MAX);
    ck_assert_uint_eq(th_orthogonalize_scratch(&machine, TH_FLOAT32, 1 << 30, INT64_C(1) << 28, 16, 1 << 30), SIZE_MAX);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("orthogonalize", NULL, NULL);
    tcase_add_loop_test(tests, test_formula, 0, SHAPES);
    tcase_add_test(tests, test_no_steps_divide_by_the_norm);
    tcase_add_loop_test(tests, test_threads_and_matrices, 0, 5);
    tcase_add_test(tests, test_more_threads_than_matrices);
    tcase_add_loop_test(tests, test_instruction_sets, 0, SHAPES);
    tcase_add_test(tests, test_transposed_matrix);
    tcase_add_test(tests, test_mirror);
    tcase_add_loop_test(tests, test_small_singular_values, 0, 5);
    tcase_add_loop_test(tests, test_polar_express_bounds, 0, 4);
    tcase_add_test(tests, test_zeros);
    tcase_add_loop_test(tests, test_numbers_that_are_not_finite, 0, 3);
    tcase_add_loop_test(tests, test_largest_and_smallest_norms, 0, 6);
    tcase_add_test(tests, test_sizes_that_are_too_large);
    return run_suites();
}
