/* The kernels that keep masked numbers out of products, beside plain loops, with every instruction set. */
#include <math.h>
#include <string.h>

#include "guarded.h"
#include "instances.h"
#include "suite.h"
#include "tapehead/base.h"

static const double usual[] = {1, -1, 0.5, -2, 3}, others[] = {NAN, INFINITY, -INFINITY};

static const th_kernels *kernels_of(int isa, th_dtype dtype)
{
    return dtype == TH_FLOAT64 ? f64[isa] : f32[isa];
}

static double get(th_dtype dtype, const void *x, int64_t i)
{
    return dtype == TH_FLOAT64 ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

static void put(th_dtype dtype, void *x, int64_t i, double value)
{
    if (dtype == TH_FLOAT64)
        ((double *)x)[i] = value;
    else
        ((float *)x)[i] = (float)value;
}

/* A matrix without spare elements, row-major or column-major, before an unreadable page. */
typedef struct matrix {
    void *data;
    int64_t rows, columns, row, column;
} matrix;

static matrix matrix_new(int purpose, th_dtype dtype, int64_t rows, int64_t columns)
{
    const bool by_columns = draw(2);
    return (matrix){.data = memory_end(purpose, (size_t)(rows * columns) * th_dtype_size(dtype)),
                    .rows = rows,
                    .columns = columns,
                    .row = by_columns ? 1 : columns,
                    .column = by_columns ? rows : 1};
}

static int64_t place(const matrix *x, int64_t i, int64_t j)
{
    return i * x->row + j * x->column;
}

/* Fills row i with zeros or other finite numbers. `change`: an element of the row gets the value `changed`. */
static void fill_row(th_dtype dtype, const matrix *x, int64_t i, bool zeros, bool change, double changed)
{
    for (int64_t j = 0; j < x->columns; j++)
        put(dtype, x->data, place(x, i, j), zeros ? (draw(2) ? 0.0 : -0.0) : PICK(usual));
    if (change && x->columns > 0)
        put(dtype, x->data, place(x, i, draw(x->columns)), changed);
}

static bool row_has(th_dtype dtype, const matrix *x, int64_t i, bool non_finite)
{
    bool has = false;
    for (int64_t j = 0; j < x->columns; j++) {
        const double value = get(dtype, x->data, place(x, i, j));
        has |= non_finite ? !isfinite(value) : value != 0;
    }
    return has;
}

/* A row is idle if a has only zeros there and b has a number that is not finite. */
START_TEST(test_idle_rows)
{
    const th_dtype dtype = _i ? TH_FLOAT64 : TH_FLOAT32;
    enum { MOST = 9 };
    for (int round = 0; round < 300; round++) {
        const int64_t rows = draw(MOST);
        const matrix a = matrix_new(IN_A, dtype, rows, draw(6)), b = matrix_new(IN_B, dtype, rows, draw(6));
        for (int64_t i = 0; i < rows; i++) {
            fill_row(dtype, &a, i, draw(4) > 0, draw(3) == 0, PICK(usual));
            fill_row(dtype, &b, i, draw(4) == 0, draw(3) > 0, PICK(others));
        }
        const bool earlier = draw(8) == 0;
        for (int isa = 0; isa < ISAS && supported(isa); isa++) {
            bool idle[2 * MOST], found = earlier, any = earlier;
            for (int i = 0; i < 2 * MOST; i++)
                idle[i] = i % 3 == 0;
            kernels_of(isa, dtype)
                ->idle_rows(rows, a.columns, a.data, a.row, a.column, b.columns, b.data, b.row, b.column, idle, &found);
            for (int64_t i = 0; i < rows; i++) {
                const bool expected = !row_has(dtype, &a, i, false) && row_has(dtype, &b, i, true);
                any |= expected;
                ck_assert_int_eq(idle[i], expected);
            }
            for (int64_t i = rows; i < 2 * MOST; i++)
                ck_assert_int_eq(idle[i], i % 3 == 0);
            ck_assert_int_eq(found, any);
        }
    }
}
END_TEST

/* c += a b only for the elements of b that are not finite, and only where keep is true. */
START_TEST(test_add_non_finite)
{
    const th_dtype dtype = _i ? TH_FLOAT64 : TH_FLOAT32;
    enum { MOST = 6 };
    for (int round = 0; round < 100; round++) {
        const matrix a = matrix_new(IN_A, dtype, draw(MOST), draw(MOST)),
                     b = matrix_new(IN_B, dtype, a.columns, draw(MOST)), c = matrix_new(IN_C, dtype, a.rows, b.columns);
        matrix keep = a;
        keep.data = memory_end(IN_BIAS, (size_t)(a.rows * a.columns));
        if (draw(2))
            keep.row = a.column == 1 ? 1 : a.columns, keep.column = a.column == 1 ? a.rows : 1;
        for (int64_t i = 0; i < a.rows; i++)
            fill_row(dtype, &a, i, draw(4) == 0, true, PICK(usual));
        for (int64_t i = 0; i < b.rows; i++)
            fill_row(dtype, &b, i, false, draw(2), PICK(others));
        for (int64_t i = 0; i < a.rows * a.columns; i++)
            ((bool *)keep.data)[i] = draw(3) > 0;
        for (int isa = 0; isa < ISAS && supported(isa); isa++) {
            for (int64_t i = 0; i < c.rows * c.columns; i++)
                put(dtype, c.data, i, (double)i);
            kernels_of(isa, dtype)
                ->add_non_finite(a.rows, a.columns, b.columns, a.data, a.row, a.column, keep.data, keep.row,
                                 keep.column, b.data, b.row, b.column, c.data, c.row, c.column);
            for (int64_t i = 0; i < c.rows; i++)
                for (int64_t j = 0; j < c.columns; j++) {
                    double sum = (double)place(&c, i, j);
                    for (int64_t k = 0; k < a.columns; k++) {
                        const double factor = get(dtype, b.data, place(&b, k, j));
                        if (!isfinite(factor) && ((bool *)keep.data)[place(&keep, i, k)])
                            sum += get(dtype, a.data, place(&a, i, k)) * factor;
                    }
                    ck_assert(same(get(dtype, c.data, place(&c, i, j)), sum));
                }
        }
    }
}
END_TEST

/* The same in attention, where a weight of -0 marks a masked pair. */
START_TEST(test_attention_add_non_finite)
{
    enum { M = 5, K = 4, N = 3 };
    for (int isa = 0; isa < ISAS && supported(isa); isa++)
        for (int row = 0; row < M; row++)
            for (int step = 0; step < K; step++) {
                float a[M * K], weights[M * K], b[K * N] = {0}, c[M * N] = {0};
                for (int i = 0; i < M * K; i++) {
                    a[i] = 2;
                    weights[i] = i == row * K + step ? 1.0f : -0.0f;
                }
                for (int k = 0; k < K; k++)
                    b[k * N + 1] = INFINITY;
                const th_product_block block = {
                    .m = M, .n = N, .k = K, .a = a, .a_row = K, .a_col = 1, .b = b, .b_row = N, .c = c, .c_row = N};
                f32[isa]->attention_add_non_finite(&block, weights);
                for (int i = 0; i < M * N; i++)
                    ck_assert(c[i] == (i == row * N + 1 ? INFINITY : 0));
            }
}
END_TEST

/* Kernels that choose between numbers, for every length. */
START_TEST(test_choices)
{
    const th_dtype dtype = _i ? TH_FLOAT64 : TH_FLOAT32;
    const size_t size = th_dtype_size(dtype);
    for (int64_t n = 0; n < 70; n++) {
        void *a = memory_end(IN_A, (size_t)n * size), *b = memory_end(IN_B, (size_t)n * size),
             *y = memory_end(IN_C, (size_t)n * size);
        bool *truth = memory_end(IN_BIAS, (size_t)n);
        int64_t bad = 0;
        for (int64_t i = 0; i < n; i++) {
            put(dtype, a, i, draw(20) ? PICK(usual) : PICK(others));
            put(dtype, b, i, draw(2) ? PICK(usual) : PICK(others));
            truth[i] = draw(2);
            bad += !isfinite(get(dtype, a, i));
        }
        for (int isa = 0; isa < ISAS && supported(isa); isa++) {
            const th_kernels *kernels = kernels_of(isa, dtype);
            kernels->keep_if(n, (void *const[]){y, a, truth}, NULL);
            for (int64_t i = 0; i < n; i++)
                ck_assert(same(get(dtype, y, i), truth[i] ? get(dtype, a, i) : 0));
            kernels->keep_unless(n, (void *const[]){y, a, truth}, NULL);
            for (int64_t i = 0; i < n; i++)
                ck_assert(same(get(dtype, y, i), truth[i] ? 0 : get(dtype, a, i)));
            kernels->where(n, (void *const[]){y, truth, a, b}, NULL);
            for (int64_t i = 0; i < n; i++)
                ck_assert(same(get(dtype, y, i), get(dtype, truth[i] ? a : b, i)));
            kernels->copy(n, (void *const[]){y, b}, NULL);
            for (int64_t i = 0; i < n; i++)
                ck_assert(same(get(dtype, y, i), get(dtype, b, i)));
            for (int earlier = 0; earlier < 2; earlier++) {
                bool found = earlier, *const at = &found;
                kernels->finite_part(n, (void *const[]){y, a}, &at);
                for (int64_t i = 0; i < n; i++)
                    ck_assert(same(get(dtype, y, i), isfinite(get(dtype, a, i)) ? get(dtype, a, i) : 0));
                ck_assert_int_eq(found, earlier || bad > 0);
            }
        }
    }
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("masking kernels", NULL, NULL);
    tcase_add_loop_test(tests, test_idle_rows, 0, 2);
    tcase_add_loop_test(tests, test_add_non_finite, 0, 2);
    tcase_add_test(tests, test_attention_add_non_finite);
    tcase_add_loop_test(tests, test_choices, 0, 2);
    return run_suites();
}
