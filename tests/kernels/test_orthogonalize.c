/* Newton-Schulz iterations against their formula in float64. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "instances.h"
#include "kernels/products/orthogonalize.h"
#include "suite.h"

static const th_newton_schulz jordan = {.steps = 5,
                                        .coefficient = {{3.4445, -4.7750, 2.0315},
                                                        {3.4445, -4.7750, 2.0315},
                                                        {3.4445, -4.7750, 2.0315},
                                                        {3.4445, -4.7750, 2.0315},
                                                        {3.4445, -4.7750, 2.0315}},
                                        .eps = 1e-7};

static uint64_t state;

static double draw(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(state >> 11) * 0x1p-52 - 1;
}

static void *allocate(size_t bytes)
{
    void *memory = malloc(bytes + 1);
    ck_assert_ptr_nonnull(memory);
    return memory;
}

/* c (m, n) = a b, through strides; sums in long double */
static void multiply(int64_t m, int64_t n, int64_t k, const double *a, int64_t a_row, int64_t a_col, const double *b,
                     int64_t b_row, int64_t b_col, double *c)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            long double sum = 0;
            for (int64_t step = 0; step < k; step++)
                sum += (long double)a[i * a_row + step * a_col] * (long double)b[step * b_row + j * b_col];
            c[i * n + j] = (double)sum;
        }
}

/* The formula, without any of the kernel's choices: x (rows, columns) in place. */
static void reference(const th_newton_schulz *schulz, int64_t rows, int64_t columns, double *x)
{
    const int64_t n = rows < columns ? rows : columns, numel = rows * columns;
    double *gram = allocate((size_t)(n * n) * sizeof *gram), *square = allocate((size_t)(n * n) * sizeof *square);
    double *product = allocate((size_t)numel * sizeof *product);
    long double squares = 0;
    for (int64_t i = 0; i < numel; i++)
        squares += (long double)x[i] * (long double)x[i];
    const long double norm = sqrtl(squares) > (long double)schulz->eps ? sqrtl(squares) : (long double)schulz->eps;
    for (int64_t i = 0; i < numel; i++)
        x[i] = (double)((long double)x[i] / norm);
    for (int step = 0; step < schulz->steps; step++) {
        const double *c = schulz->coefficient[step];
        const bool wide = rows <= columns;
        multiply(n, n, wide ? columns : rows, x, wide ? columns : 1, wide ? 1 : columns, x, wide ? 1 : columns,
                 wide ? columns : 1, gram);
        multiply(n, n, n, gram, n, 1, gram, n, 1, square);
        for (int64_t i = 0; i < n * n; i++)
            gram[i] = c[1] * gram[i] + c[2] * square[i];
        if (wide)
            multiply(n, columns, n, gram, n, 1, x, columns, 1, product);
        else
            multiply(rows, n, n, x, n, 1, gram, n, 1, product);
        for (int64_t i = 0; i < numel; i++)
            x[i] = c[0] * x[i] + product[i];
    }
    free(gram);
    free(square);
    free(product);
}

static void run(const th_machine *machine, th_dtype dtype, const th_newton_schulz *schulz, int64_t count, int64_t rows,
                int64_t columns, void *const matrix[], int threads)
{
    const size_t bytes = th_orthogonalize_scratch(machine, dtype, count, rows, columns, threads);
    void *scratch = aligned_alloc(64, bytes + 64);
    ck_assert_ptr_nonnull(scratch);
    memset(scratch, 0xff, bytes + 64);
    th_orthogonalize(machine, dtype, schulz, count, rows, columns, matrix, scratch, threads);
    for (size_t i = bytes; i < bytes + 64; i++)
        ck_assert_int_eq(((const unsigned char *)scratch)[i], 0xff);
    free(scratch);
}

static const int64_t shapes[][2] = {{1, 1},    {1, 9},   {9, 1},    {2, 3},    {3, 2},   {16, 16}, {17, 17},
                                    {31, 33},  {33, 31}, {64, 192}, {192, 64}, {5, 530}, {530, 5}, {100, 37},
                                    {37, 100}, {65, 65}, {96, 97},  {530, 40}, {40, 530}};

START_TEST(test_formula)
{
    const int64_t rows = shapes[_i][0], columns = shapes[_i][1], numel = rows * columns;
    double *x = allocate((size_t)numel * sizeof *x), *expected = allocate((size_t)numel * sizeof *x);
    float *single = allocate((size_t)numel * sizeof *single);
    state = (uint64_t)(7 + _i);
    for (int isa = 0; isa < ISAS && supported(isa); isa++) {
        const th_machine machine = machine_of(isa, 2);
        for (int64_t i = 0; i < numel; i++)
            single[i] = (float)(x[i] = expected[i] = (double)(float)draw());
        reference(&jordan, rows, columns, expected);
        run(&machine, TH_FLOAT64, &jordan, 1, rows, columns, (void *[]){x}, 2);
        run(&machine, TH_FLOAT32, &jordan, 1, rows, columns, (void *[]){single}, 2);
        for (int64_t i = 0; i < numel; i++) {
            ck_assert_double_le(fabs(x[i] - expected[i]), 1e-12);
            ck_assert_double_le(fabs((double)single[i] - expected[i]), 1e-4);
        }
    }
    free(x);
    free(expected);
    free(single);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("orthogonalize", NULL, NULL);
    tcase_add_loop_test(tests, test_formula, 0, sizeof shapes / sizeof *shapes);
    return run_suites();
}
