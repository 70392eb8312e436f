/* Operations on strided arrays in random layouts, compared with loops over single elements: elementwise kernels,
 * copies, conversions, fills, sums over axes, rows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "instances.h"
#include "tapehead/tapehead.h"
#include "tensor/context.h"
#include "tensor/elementwise.h"
#include "tensor/shape.h"
#include "tensor/strided_iterator.h"
#include "tensor/tensor.h"

#include "context.h"

enum {
    GUARD = 32, /* bytes around every array that must not change */
    GUARD_BYTE = 0xa5
};

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 1});
    ck_assert_ptr_nonnull(ctx);
}

static uint64_t state = 1;

static int64_t below(int64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state >> 33) % (uint64_t)n);
}

/* An array and its memory, which has `bytes` bytes with the guards. */
typedef struct layout {
    th_array array;
    char *memory;
    size_t bytes;
} layout;

/* Creates an array: axes in a random order in memory, gaps between elements, expanded axes (stride 0) if allowed. */
static layout random_layout(th_dtype dtype, int ndim, const int64_t *size, bool expanded)
{
    layout l = {.array = {.given = true, .dtype = dtype, .ndim = ndim}};
    int order[TH_MAX_DIMS];
    for (int i = 0; i < ndim; i++)
        order[i] = i;
    const int style = (int)below(4); /* 0: contiguous; 1: permuted; 2: with gaps; 3: both */
    for (int i = ndim - 1; i > 0 && style % 2; i--) {
        const int j = (int)below(i + 1), swapped = order[i];
        order[i] = order[j];
        order[j] = swapped;
    }
    int64_t span = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        const int axis = order[i];
        l.array.size[axis] = size[axis];
        span *= style >= 2 && below(3) == 0 ? 2 : 1;
        const bool expand = expanded && below(6) == 0;
        l.array.stride[axis] = expand ? 0 : span;
        span *= expand || size[axis] == 0 ? 1 : size[axis];
    }
    l.bytes = 2 * GUARD + (size_t)span * th_dtype_size(dtype);
    l.memory = malloc(l.bytes);
    memset(l.memory, GUARD_BYTE, l.bytes);
    l.array.data = l.memory + GUARD;
    return l;
}

static int64_t numel_of(const th_array *a)
{
    int64_t n = 1;
    for (int i = 0; i < a->ndim; i++)
        n *= a->size[i];
    return n;
}

/* Returns the element of `a` for element i (row-major) of `whole`. `a` broadcasts to the shape of `whole`. */
static void *element(const th_array *a, const th_array *whole, int64_t i)
{
    int64_t offset = 0;
    for (int d = whole->ndim - 1; d >= 0; d--) {
        const int64_t index = i % whole->size[d];
        i /= whole->size[d];
        const int own = d - whole->ndim + a->ndim;
        if (own >= 0 && a->size[own] != 1)
            offset += index * a->stride[own];
    }
    return (char *)a->data + offset * (int64_t)th_dtype_size(a->dtype);
}

static double get(const th_array *a, const void *at)
{
    switch (a->dtype) {
    case TH_FLOAT32:
        return (double)*(const float *)at;
    case TH_FLOAT64:
        return *(const double *)at;
    case TH_INT32:
        return *(const int32_t *)at;
    case TH_INT64:
        return (double)*(const int64_t *)at;
    default:
        return *(const bool *)at;
    }
}

static void put(const th_array *a, void *at, double value)
{
    switch (a->dtype) {
    case TH_FLOAT32:
        *(float *)at = (float)value;
        break;
    case TH_FLOAT64:
        *(double *)at = value;
        break;
    case TH_INT32:
        *(int32_t *)at = (int32_t)value;
        break;
    case TH_INT64:
        *(int64_t *)at = (int64_t)value;
        break;
    default:
        *(bool *)at = value != 0;
        break;
    }
}

/* Small multiples of 1/8: sums and products of a few of them are exact. */
static void randomize(const layout *l)
{
    for (int64_t i = 0; i < numel_of(&l->array); i++)
        put(&l->array, element(&l->array, &l->array, i), (double)(below(65) - 32) / 8);
}

/* Checks the array and the memory around and between its elements. expected is a copy that was changed element by
 * element. */
static void assert_same_memory(const layout *l, const layout *expected)
{
    ck_assert_mem_eq(l->memory, expected->memory, l->bytes);
}

static layout copy_of(const layout *l)
{
    layout copy = *l;
    copy.memory = malloc(l->bytes);
    memcpy(copy.memory, l->memory, l->bytes);
    copy.array.data = copy.memory + GUARD;
    return copy;
}

static int random_shape(int64_t *size)
{
    const int ndim = (int)below(5);
    for (int i = 0; i < ndim; i++)
        size[i] = below(40) == 0 ? 0 : below(5) == 0 ? 1 : below(12) == 0 ? 30 + below(60) : 1 + below(8);
    if (ndim > 0 && below(15) == 0)
        size[ndim - 1] = 500 + below(700);
    if (below(40) == 0 && ndim > 1)
        size[0] = 200;
    return ndim;
}

/* Creates a source that broadcasts to size. */
static layout broadcast_source(th_dtype dtype, int ndim, const int64_t *size)
{
    int64_t own[TH_MAX_DIMS];
    const int missing = ndim > 0 && below(4) == 0 ? (int)below(ndim + 1) : 0;
    for (int i = missing; i < ndim; i++)
        own[i - missing] = below(5) == 0 ? 1 : size[i];
    const layout l = random_layout(dtype, ndim - missing, own, true);
    randomize(&l);
    return l;
}

START_TEST(test_kernels_on_any_layout)
{
    for (int round = 0; round < 1000; round++) {
        int64_t size[TH_MAX_DIMS];
        const int ndim = random_shape(size);
        const th_dtype dtype = below(2) ? TH_FLOAT32 : TH_FLOAT64;
        const th_kernels *kernels = th_context_kernels(ctx, dtype);
        const bool add = below(2), choose = below(3) == 0;
        const layout y = random_layout(dtype, ndim, size, false);
        randomize(&y);
        const layout expected = copy_of(&y);
        const layout a = broadcast_source(dtype, ndim, size), b = broadcast_source(dtype, ndim, size);
        const layout condition = broadcast_source(TH_BOOL, ndim, size);
        for (int64_t i = 0; i < numel_of(&y.array); i++) {
            void *at = element(&expected.array, &expected.array, i);
            const double va = get(&a.array, element(&a.array, &y.array, i)),
                         vb = get(&b.array, element(&b.array, &y.array, i));
            const double value = !choose                                                              ? va * vb
                                 : get(&condition.array, element(&condition.array, &y.array, i)) != 0 ? va
                                                                                                      : vb;
            put(&expected.array, at, add ? get(&expected.array, at) + value : value);
        }
        if (choose)
            th_elementwise(ctx, kernels->where, NULL, &y.array, add, 3,
                           (const th_array *const[]){&condition.array, &a.array, &b.array});
        else
            th_elementwise(ctx, kernels->mul, NULL, &y.array, add, 2, (const th_array *const[]){&a.array, &b.array});
        assert_same_memory(&y, &expected);
        free(y.memory), free(expected.memory), free(a.memory), free(b.memory), free(condition.memory);
    }
}
END_TEST

/* An operand may be the destination itself, in any layout. */
START_TEST(test_elementwise_in_place)
{
    for (int round = 0; round < 500; round++) {
        int64_t size[TH_MAX_DIMS];
        const int ndim = random_shape(size);
        const layout y = random_layout(TH_FLOAT32, ndim, size, false);
        randomize(&y);
        const layout expected = copy_of(&y), b = broadcast_source(TH_FLOAT32, ndim, size);
        for (int64_t i = 0; i < numel_of(&y.array); i++) {
            void *at = element(&expected.array, &expected.array, i);
            put(&expected.array, at, get(&expected.array, at) * get(&b.array, element(&b.array, &y.array, i)));
        }
        th_elementwise(ctx, th_context_kernels(ctx, TH_FLOAT32)->mul, NULL, &y.array, false, 2,
                       (const th_array *const[]){&y.array, &b.array});
        assert_same_memory(&y, &expected);
        free(y.memory), free(expected.memory), free(b.memory);
    }
}
END_TEST

START_TEST(test_copies_and_fills)
{
    static const th_dtype dtypes[] = {TH_FLOAT32, TH_FLOAT64, TH_INT32, TH_INT64, TH_BOOL};
    for (int round = 0; round < 1000; round++) {
        int64_t size[TH_MAX_DIMS];
        const int ndim = random_shape(size);
        const th_dtype dtype = dtypes[below(5)];
        const layout y = random_layout(dtype, ndim, size, false);
        randomize(&y);
        const bool add = th_is_floating(dtype) && below(2), fill = below(4) == 0;
        const layout expected = copy_of(&y), x = broadcast_source(dtype, ndim, size);
        const double constant = below(2) ? 0 : 3;
        for (int64_t i = 0; i < numel_of(&y.array); i++) {
            void *at = element(&expected.array, &expected.array, i);
            const double value = get(&x.array, element(&x.array, &y.array, i));
            put(&expected.array, at, fill ? constant : value + (add ? get(&expected.array, at) : 0));
        }
        if (fill)
            th_fill_array(ctx, &y.array, constant);
        else
            th_copy_array(ctx, &y.array, &x.array, add);
        assert_same_memory(&y, &expected);
        free(y.memory), free(expected.memory), free(x.memory);
    }
}
END_TEST

START_TEST(test_large_transposition)
{
    static const th_dtype dtypes[] = {TH_FLOAT32, TH_FLOAT64, TH_BOOL};
    for (size_t k = 0; k < 3; k++) {
        const int64_t size[] = {3, 257, 130};
        layout x = {0}, y = {0};
        do { /* until they are contiguous: the layout is random */
            free(x.memory);
            x = random_layout(dtypes[k], 3, size, false);
        } while (!th_array_contiguous(&x.array));
        randomize(&x);
        const int64_t transposed[] = {3, 130, 257};
        do {
            free(y.memory);
            y = random_layout(dtypes[k], 3, transposed, false);
        } while (!th_array_contiguous(&y.array));
        th_array view = x.array;
        memcpy(view.size, transposed, sizeof transposed);
        view.stride[1] = 1;
        view.stride[2] = 130;
        th_copy_array(ctx, &y.array, &view, false);
        for (int64_t i = 0; i < numel_of(&y.array); i++)
            ck_assert_mem_eq(element(&y.array, &y.array, i), element(&view, &y.array, i), th_dtype_size(dtypes[k]));
        free(x.memory), free(y.memory);
    }
}
END_TEST

START_TEST(test_conversions)
{
    static const th_dtype dtypes[] = {TH_FLOAT32, TH_FLOAT64, TH_INT32, TH_INT64, TH_BOOL};
    for (int round = 0; round < 700; round++) {
        int64_t size[TH_MAX_DIMS];
        const int ndim = random_shape(size);
        const layout y = random_layout(dtypes[below(5)], ndim, size, false),
                     x = broadcast_source(dtypes[below(5)], ndim, size);
        const layout expected = copy_of(&y);
        for (int64_t i = 0; i < numel_of(&y.array); i++)
            put(&expected.array, element(&expected.array, &expected.array, i),
                get(&x.array, element(&x.array, &y.array, i)));
        th_convert_array(ctx, &y.array, &x.array);
        assert_same_memory(&y, &expected);
        free(y.memory), free(expected.memory), free(x.memory);
    }
}
END_TEST

static th_array plain(th_dtype dtype, int64_t n, void *data)
{
    return (th_array){.given = true, .data = data, .dtype = dtype, .ndim = 1, .size = {n}, .stride = {1}};
}

START_TEST(test_conversion_at_the_limits)
{
    double reals[] = {NAN, INFINITY, -INFINITY, 1e300, -1e300, 2147483647.5, -2147483648.9, 0x1p63, -0x1p63, -2.9};
    enum { N = sizeof reals / sizeof *reals };
    int32_t narrow[N];
    int64_t wide[N];
    float single[N];
    bool truth[N];
    const th_array from = plain(TH_FLOAT64, N, reals), to32 = plain(TH_INT32, N, narrow),
                   to64 = plain(TH_INT64, N, wide);
    const th_array to_single = plain(TH_FLOAT32, N, single), to_bool = plain(TH_BOOL, N, truth);
    th_convert_array(ctx, &to32, &from);
    th_convert_array(ctx, &to64, &from);
    th_convert_array(ctx, &to_single, &from);
    th_convert_array(ctx, &to_bool, &from);
    const int32_t expected32[N] = {0,         INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN,
                                   INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN, -2};
    const int64_t expected64[N] = {0,          INT64_MAX,   INT64_MIN, INT64_MAX, INT64_MIN,
                                   2147483647, -2147483648, INT64_MAX, INT64_MIN, -2};
    ck_assert_mem_eq(narrow, expected32, sizeof narrow);
    ck_assert_mem_eq(wide, expected64, sizeof wide);
    ck_assert(isnan(single[0]) && single[1] == INFINITY && single[3] == INFINITY && single[9] == -2.9f);
    for (int i = 0; i < N; i++)
        ck_assert(truth[i]);
    /* integers are rounded only once: 2^53 + 1 is not a double, 2^24 + 1 is not a float */
    int64_t large[] = {((int64_t)1 << 53) + 1, ((int64_t)1 << 24) + 1, ((int64_t)1 << 61) + ((int64_t)1 << 37) + 1, -1};
    int32_t low[4];
    const th_array integers = plain(TH_INT64, 4, large), floats = plain(TH_FLOAT32, 4, single),
                   low32 = plain(TH_INT32, 4, low);
    th_convert_array(ctx, &floats, &integers);
    th_convert_array(ctx, &low32, &integers);
    for (int i = 0; i < 4; i++)
        ck_assert(single[i] == (float)large[i]);
    ck_assert(low[0] == 1 && low[1] == 16777217 && low[3] == -1);
}
END_TEST

/* The destination has the shape of the source with some axes of size 1 and some leading axes missing. */
START_TEST(test_sums_over_any_axes)
{
    for (int round = 0; round < 1000; round++) {
        int64_t size[TH_MAX_DIMS], reduced[TH_MAX_DIMS];
        int ndim = random_shape(size);
        if (below(20) == 0) { /* several stages */
            ndim = 3;
            size[0] = 150, size[1] = 2 + below(3), size[2] = 70 + below(1100);
        }
        const int missing = ndim > 0 && below(3) == 0 ? (int)below(ndim + 1) : 0;
        for (int i = missing; i < ndim; i++)
            reduced[i - missing] = below(2) ? 1 : size[i];
        const th_dtype dtype = below(2) ? TH_FLOAT32 : TH_FLOAT64;
        const layout x = random_layout(dtype, ndim, size, true),
                     y = random_layout(dtype, ndim - missing, reduced, false);
        randomize(&x);
        randomize(&y);
        const bool add = below(2);
        const layout expected = copy_of(&y);
        for (int64_t i = 0; i < numel_of(&y.array) && !add; i++)
            put(&expected.array, element(&expected.array, &expected.array, i), 0);
        for (int64_t i = 0; i < numel_of(&x.array); i++) { /* exact: multiples of 1/8, far below 2^21 */
            void *at = element(&expected.array, &x.array, i);
            put(&expected.array, at, get(&expected.array, at) + get(&x.array, element(&x.array, &x.array, i)));
        }
        th_sum_to_array(ctx, &y.array, &x.array, add);
        assert_same_memory(&y, &expected);
        free(x.memory), free(y.memory), free(expected.memory);
    }
}
END_TEST

/* Long sums of inexact numbers: blocks keep the error small, and the bits do not depend on the number of threads. */
START_TEST(test_bits_at_any_number_of_threads)
{
    enum { ROWS = 1003, COLUMNS = 517 };
    float *data = malloc(sizeof(float) * ROWS * COLUMNS), *product[5], *columns[5], *rows[5], *total[5];
    double exact = 0, magnitude = 0;
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        data[i] = (float)below(1 << 20) / 1048576.0f - 0.4f;
        exact += (double)data[i];
        magnitude += fabs((double)data[i]);
    }
    const th_array x = {
        .given = true, .data = data, .dtype = TH_FLOAT32, .ndim = 2, .size = {ROWS, COLUMNS}, .stride = {COLUMNS, 1}};
    th_array transposed = x;
    transposed.size[0] = COLUMNS, transposed.size[1] = ROWS, transposed.stride[0] = 1, transposed.stride[1] = COLUMNS;
    for (int threads = 1; threads <= 4; threads++) {
        ck_assert_int_eq(th_set_threads(ctx, threads), TH_OK);
        product[threads] = malloc(sizeof(float) * ROWS * COLUMNS);
        columns[threads] = malloc(sizeof(float) * COLUMNS);
        rows[threads] = malloc(sizeof(float) * ROWS);
        total[threads] = malloc(sizeof(float));
        th_array y = transposed;
        y.data = product[threads];
        y.stride[0] = ROWS, y.stride[1] = 1;
        th_elementwise(ctx, th_context_kernels(ctx, TH_FLOAT32)->exp, NULL, &y, false, 1,
                       (const th_array *const[]){&transposed});
        const th_array by_column = plain(TH_FLOAT32, COLUMNS, columns[threads]);
        const th_array by_row = {
            .given = true, .data = rows[threads], .dtype = TH_FLOAT32, .ndim = 2, .size = {ROWS, 1}, .stride = {1, 1}};
        const th_array all = {.given = true, .data = total[threads], .dtype = TH_FLOAT32};
        th_sum_to_array(ctx, &by_column, &x, false);
        th_sum_to_array(ctx, &by_row, &x, false);
        th_sum_to_array(ctx, &all, &transposed, false);
        ck_assert_mem_eq(product[threads], product[1], sizeof(float) * ROWS * COLUMNS);
        ck_assert_mem_eq(columns[threads], columns[1], sizeof(float) * COLUMNS);
        ck_assert_mem_eq(rows[threads], rows[1], sizeof(float) * ROWS);
        ck_assert_mem_eq(total[threads], total[1], sizeof(float));
    }
    ck_assert(fabs((double)*total[1] - exact) <= 2e-7 * magnitude);
    for (int j = 0; j < COLUMNS; j++) {
        double sum = 0, size = 0;
        for (int i = 0; i < ROWS; i++) {
            sum += (double)data[i * COLUMNS + j];
            size += fabs((double)data[i * COLUMNS + j]);
        }
        ck_assert(fabs((double)columns[1][j] - sum) <= 5e-7 * size);
    }
    for (int threads = 1; threads <= 4; threads++)
        free(product[threads]), free(columns[threads]), free(rows[threads]), free(total[threads]);
    free(data);
}
END_TEST

/* The kernels of sums add in the same order with every instruction set, for any length. */
START_TEST(test_sums_on_every_instruction_set)
{
    enum { ROWS = 37, COLUMNS = 301 };
    static float x[ROWS * COLUMNS], rows[ISAS][ROWS], columns[ISAS][COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++)
        x[i] = (float)below(1 << 20) / 1048576.0f - 0.4f;
    for (int n = 1; n <= COLUMNS; n += 1 + n / 40)
        for (int isa = 0; isa < ISAS && supported(isa); isa++) {
            f32[isa]->sum_rows(ROWS, n, x, COLUMNS, rows[isa]);
            f32[isa]->sum_columns(1 + n % ROWS, n, x, COLUMNS, columns[isa]);
            ck_assert_mem_eq(rows[isa], rows[0], sizeof rows[0]);
            ck_assert_mem_eq(columns[isa], columns[0], sizeof columns[0]);
            float sum = 0;
            for (int i = 0; i < 1 + n % ROWS; i++)
                sum += x[i * COLUMNS + n - 1];
            ck_assert(columns[isa][n - 1] == sum);
        }
}
END_TEST

/* The sum of a row does not depend on the number of rows, the sum of a sequence does not depend on its batch. */
START_TEST(test_sums_do_not_depend_on_the_batch)
{
    enum { BATCH = 9, T = 200, E = 37 };
    float *data = malloc(sizeof(float) * BATCH * T * E), one[T], many[BATCH * T], one_sum[E], many_sums[BATCH * E];
    for (int i = 0; i < BATCH * T * E; i++)
        data[i] = (float)below(1 << 20) / 1048576.0f;
    th_array x = {
        .given = true, .data = data, .dtype = TH_FLOAT32, .ndim = 3, .size = {BATCH, T, E}, .stride = {T * E, E, 1}};
    th_array rows = {
        .given = true, .data = many, .dtype = TH_FLOAT32, .ndim = 3, .size = {BATCH, T, 1}, .stride = {T, 1, 1}};
    th_array sums = {
        .given = true, .data = many_sums, .dtype = TH_FLOAT32, .ndim = 3, .size = {BATCH, 1, E}, .stride = {E, E, 1}};
    th_sum_to_array(ctx, &rows, &x, false);
    th_sum_to_array(ctx, &sums, &x, false);
    x.size[0] = rows.size[0] = sums.size[0] = 1;
    for (int b = 0; b < BATCH; b++) {
        x.data = data + b * T * E;
        rows.data = one;
        sums.data = one_sum;
        th_sum_to_array(ctx, &rows, &x, false);
        th_sum_to_array(ctx, &sums, &x, false);
        ck_assert_mem_eq(one, many + b * T, sizeof one);
        ck_assert_mem_eq(one_sum, many_sums + b * E, sizeof one_sum);
    }
    free(data);
}
END_TEST

/* Large partial sums are in step_memory and are released. */
START_TEST(test_sums_return_their_scratch_memory)
{
    enum { ROWS = 500, COLUMNS = 3000 };
    th_tensor *x = th_ones(ctx, TH_FLOAT64, TH_SHAPE(ROWS, COLUMNS)), *y = th_zeros(ctx, TH_FLOAT64, TH_SHAPE(COLUMNS));
    const th_array from = th_tensor_array(th_tensor_impl_of(x)), to = th_tensor_array(th_tensor_impl_of(y));
    const size_t live = th_memory(ctx).live;
    th_sum_to_array(ctx, &to, &from, true);
    ck_assert_uint_eq(th_memory(ctx).live, live);
    ck_assert(th_memory(ctx).peak > live);
    const size_t allocations = th_memory(ctx).allocations;
    th_sum_to_array(ctx, &to, &from, true);
    ck_assert_uint_eq(th_memory(ctx).allocations, allocations);
    for (int64_t j = 0; j < COLUMNS; j++)
        ck_assert(th_get(y, TH_INDEX(j)) == 2 * ROWS);
}
END_TEST

START_TEST(test_sums_without_memory)
{
    th_context *small = th_context_new(&(th_context_options){.memory_limit = 2 << 20});
    static double x[400 * 3000], y[3000];
    const th_array from = {
        .given = true, .data = x, .dtype = TH_FLOAT64, .ndim = 2, .size = {400, 3000}, .stride = {3000, 1}};
    const th_array to = plain(TH_FLOAT64, 3000, y);
    while (th_empty(small, TH_FLOAT64, TH_SHAPE(1024))) /* takes all memory */
        continue;
    th_error_clear(small);
    th_sum_to_array(small, &to, &from, true);
    ck_assert_int_eq(th_error_code(small), TH_ERROR_MEMORY);
    th_context_free(small);
}
END_TEST

/* An iterator visits every element once, in row-major order of the broadcast shape, from any start. */
START_TEST(test_iterates_in_row_major_order)
{
    for (int round = 0; round < 500; round++) {
        int64_t size[TH_MAX_DIMS];
        const int ndim = random_shape(size);
        const layout a = broadcast_source(TH_FLOAT32, ndim, size), b = broadcast_source(TH_BOOL, ndim, size);
        const layout *const longer = a.array.ndim > b.array.ndim ? &a : &b, *const shorter = longer == &a ? &b : &a;
        th_array whole = longer->array;
        for (int i = 0; i < shorter->array.ndim; i++)
            if (shorter->array.size[i] != 1)
                whole.size[i + whole.ndim - shorter->array.ndim] = shorter->array.size[i];
        const int64_t numel = numel_of(&whole), first = numel > 0 ? below(numel) : 0;
        th_iterator iterator;
        th_iterator_position position;
        const bool any = th_iterator_build_row_major(&iterator, &a.array, 1, (const th_array *const[]){&b.array});
        ck_assert_int_eq(any, numel > 0);
        if (any) {
            ck_assert_int_eq(iterator.numel, numel);
            th_iterator_seek(&iterator, first, &position);
        }
        const int last = any ? iterator.ndim - 1 : 0;
        for (int64_t done = first, run; done < numel; done += run, th_iterator_advance(&iterator, run, &position)) {
            run = th_iterator_run_length(&iterator, &position);
            ck_assert(run > 0 && run <= numel - done);
            for (int64_t i = 0; i < run; i++) {
                ck_assert_ptr_eq(position.address[0] + i * iterator.array[0].stride[last],
                                 element(&a.array, &whole, done + i));
                ck_assert_ptr_eq(position.address[1] + i * iterator.array[1].stride[last],
                                 element(&b.array, &whole, done + i));
            }
        }
        free(a.memory), free(b.memory);
    }
}
END_TEST

/* An iterator over lines is built from the axes except the one along the lines. */
START_TEST(test_axes_left_out)
{
    int64_t data[4 * 3 * 5];
    const th_array x = {.given = true,
                        .data = data,
                        .dtype = TH_INT64,
                        .ndim = 3,
                        .size = {4, 3, 5},
                        .stride = {15, 5, 1},
                        .axes = "B E"};
    const th_array lines = th_select_axes(&x, ~(1u << 1)), none = th_select_axes(&x, 0), middle = th_select_axes(&x, 2);
    ck_assert(lines.given && lines.dtype == TH_INT64 && lines.ndim == 2 && none.ndim == 0 && middle.ndim == 1);
    ck_assert(lines.size[0] == 4 && lines.size[1] == 5 && lines.stride[0] == 15 && lines.stride[1] == 1);
    ck_assert_str_eq(lines.axes, "BE");
    ck_assert_str_eq(middle.axes, "");
    th_iterator iterator;
    ck_assert(th_iterator_build_row_major(&iterator, &lines, 0, NULL));
    ck_assert(iterator.numel == 20 && iterator.ndim == 2 && iterator.array[0].stride[0] == 15 * 8);
    ck_assert(th_iterator_build(&iterator, &none, 0, NULL));
    ck_assert(iterator.numel == 1 && iterator.ndim == 1);
    const th_array empty = {.data = data, .dtype = TH_INT64, .ndim = 3, .size = {INT64_MAX, INT64_MAX, 0}};
    ck_assert(!th_iterator_build(&iterator, &empty, 0, NULL));
    const th_array missing = {.dtype = TH_INT64, .ndim = 1, .size = {2}, .stride = {1}};
    ck_assert(!th_iterator_build(&iterator, &x, 1, (const th_array *const[]){&missing}));
}
END_TEST

/* (Check's assertions work in one thread only.) */
static void visit(void *shared, int64_t first, int64_t end, int worker)
{
    unsigned char *visits = shared;
    for (int64_t i = first; i < end; i++)
        visits[i] = worker >= 0 && worker < 3 ? visits[i] + 1 : 100;
}

START_TEST(test_every_row_once)
{
    ck_assert_int_eq(th_set_threads(ctx, 3), TH_OK);
    for (int64_t rows = 0; rows < 100000; rows = rows * 7 + 1)
        for (int64_t cost = 0; cost < 100000; cost = cost * 5 + 1) {
            unsigned char *visits = calloc((size_t)rows + 1, 1);
            th_for_rows(ctx, rows, cost, visit, visits);
            int64_t once = 0;
            while (once < rows && visits[once] == 1)
                once++;
            ck_assert_int_eq(once, rows);
            free(visits);
        }
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("elementwise", setup, close_context);
    tcase_add_test(tests, test_kernels_on_any_layout);
    tcase_add_test(tests, test_elementwise_in_place);
    tcase_add_test(tests, test_copies_and_fills);
    tcase_add_test(tests, test_large_transposition);
    tcase_add_test(tests, test_conversions);
    tcase_add_test(tests, test_conversion_at_the_limits);
    tcase_add_test(tests, test_sums_over_any_axes);
    tcase_add_test(tests, test_bits_at_any_number_of_threads);
    tcase_add_test(tests, test_sums_on_every_instruction_set);
    tcase_add_test(tests, test_sums_do_not_depend_on_the_batch);
    tcase_add_test(tests, test_sums_return_their_scratch_memory);
    tcase_add_test(tests, test_sums_without_memory);
    tcase_add_test(tests, test_every_row_once);
    tcase_add_test(tests, test_iterates_in_row_major_order);
    tcase_add_test(tests, test_axes_left_out);
    return run_suites();
}
