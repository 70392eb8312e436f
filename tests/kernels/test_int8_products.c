/* Products in the precision int8: the sums that product.h defines, for all instruction sets, sizes, layouts and teams; the
 * size of the error; and everything that the precision must not change. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/machine/openblas.h"
#include "kernels/products/product.h"
#include "kernels/products/product_int8.h"
#include "tapehead/base.h"

#include "guarded.h"
#include "instances.h"
#include "suite.h"

enum { BLOCK = TH_BLOCK_NUMBERS };

/* A matrix (n, k) of stored blocks, and its integers and scales. */
typedef struct weight {
    th_dtype dtype;
    int64_t n, k;
    char *stored;
    int *number;  /* (n, k) */
    float *scale; /* (n, k / BLOCK) */
} weight;

/* Returns the value of a float16 number. */
static float half_value(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
    const float size = exponent == 31  ? (fraction ? NAN : INFINITY)
                       : exponent == 0 ? ldexpf((float)fraction, -24)
                                       : ldexpf((float)(1024 + fraction), exponent - 25);
    return bits & 0x8000 ? -size : size;
}

/* special: some scales are any float16 number. */
static weight weight_new(th_dtype dtype, int64_t n, int64_t k, bool special)
{
    weight w = {.dtype = dtype, .n = n, .k = k};
    const size_t size = th_dtype_size(dtype), blocks = (size_t)(n * k / BLOCK);
    w.stored = memory_end(IN_B, blocks * size);
    w.number = malloc((size_t)(n * k) * sizeof *w.number);
    w.scale = malloc(blocks * sizeof *w.scale);
    for (size_t b = 0; b < blocks; b++) {
        char *block = w.stored + b * size;
        const uint16_t usual = (uint16_t)(draw(2) << 15 | (8 + draw(6)) << 10 | draw(1024));
        const uint16_t bits = special && draw(8) == 0 ? (uint16_t)draw(1 << 16) : usual;
        memcpy(block, &bits, sizeof bits);
        w.scale[b] = half_value(bits);
        for (size_t i = sizeof bits; i < size; i++)
            block[i] = (char)(draw(8) == 0 ? 128 : draw(256));
        for (int i = 0; i < BLOCK; i++) {
            const int byte = (unsigned char)block[2 + (dtype == TH_Q8_0 ? i : i % (BLOCK / 2))];
            w.number[b * BLOCK + (size_t)i] = dtype == TH_Q8_0 ? (int8_t)byte
                                              : i < BLOCK / 2  ? (byte & 15) - 8
                                                               : (byte >> 4) - 8;
        }
    }
    return w;
}

static void weight_free(weight *w)
{
    free(w->number);
    free(w->scale);
}

/* Rounds a block of n numbers as product.h says. */
static float round_numbers(int n, const float *x, int *number)
{
    float most = 0;
    for (int i = 0; i < n; i++)
        most = isnan(x[i]) || isnan(most) ? NAN : fmaxf(most, fabsf(x[i]));
    const bool usual = isfinite(most) && most >= 0x1p-118F;
    const volatile float inverse = usual ? 127 / most : 0;
    for (int i = 0; i < n; i++) {
        const volatile float multiple = x[i] * inverse;
        number[i] = usual ? (int)lrintf(multiple) : 0;
    }
    return usual ? most / 127 : isfinite(most) ? 0 : NAN;
}

static float round_block(const float *x, int *number)
{
    return round_numbers(BLOCK, x, number);
}

/* Element (row, column) without what it is added to. */
static float expected(bool fused, const float *x, const weight *w, int64_t column)
{
    float sum = 0;
    for (int64_t b = 0; b < w->k / BLOCK; b++) {
        int number[BLOCK], exact = 0;
        const int *weights = w->number + column * w->k + b * BLOCK;
        const volatile float scale = round_block(x + b * BLOCK, number) * w->scale[column * (w->k / BLOCK) + b];
        for (int i = 0; i < BLOCK; i++)
            exact += number[i] * weights[i];
        const volatile float product = scale * (float)exact;
        sum = fused ? fmaf(scale, (float)exact, sum) : sum + product;
    }
    return sum;
}

static void run(const th_machine *machine, const th_product *p, int threads)
{
    const size_t bytes = th_product_workspace(machine, TH_FLOAT32, p, threads);
    th_product_run(machine, TH_FLOAT32, p, threads, bytes ? memory_end(IN_WORKSPACE, bytes) : NULL);
}

static float *random_values(int64_t n)
{
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = ldexpf((float)(draw(1 << 20) - (1 << 19)), -18 - (int)draw(12));
    return x;
}

/* Puts unusual numbers into some blocks of x. */
static void make_special(float *x, int64_t n)
{
    static const float special[] = {INFINITY, -INFINITY, NAN, 3e38F, -3.4e38F, 1e-40F, 0x1p-118F, 0x1p-119F, -0.0F};
    for (int64_t b = 0; b < n / BLOCK; b++)
        if (draw(4) == 0)
            x[b * BLOCK + (int64_t)draw(BLOCK)] = PICK(special);
        else if (draw(4) == 0)
            for (int64_t i = 0; i < BLOCK; i++)
                x[b * BLOCK + i] *= draw(2) ? 0 : 0x1p-120F;
}

typedef struct recipe {
    int64_t m, n, k;
    bool columns_of_a, columns_of_c, add, bias, residual, special;
} recipe;

static void check(const th_machine *machine, th_dtype dtype, const recipe *r, int threads)
{
    weight w = weight_new(dtype, r->n, r->k, r->special);
    float *x = random_values(r->m * r->k), *bias = random_values(r->n), *residual = random_values(r->m * r->n),
          *c = random_values(r->m * r->n), *a = malloc((size_t)(r->m * r->k) * sizeof *a),
          *before = malloc((size_t)(r->m * r->n) * sizeof *before);
    if (r->special)
        make_special(x, r->m * r->k);
    memcpy(before, c, (size_t)(r->m * r->n) * sizeof *c);
    for (int64_t i = 0; i < r->m * r->k; i++)
        a[r->columns_of_a ? i % r->k * r->m + i / r->k : i] = x[i];
    const th_product p = {.m = r->m,
                          .n = r->n,
                          .k = r->k,
                          .a = a,
                          .a_row = r->columns_of_a ? 1 : r->k,
                          .a_col = r->columns_of_a ? r->m : 1,
                          .b = w.stored,
                          .b_row = 1,
                          .b_col = r->k,
                          .b_storage = dtype,
                          .c = c,
                          .c_row = r->columns_of_c ? 1 : r->n,
                          .c_col = r->columns_of_c ? r->m : 1,
                          .add = r->add,
                          .bias = r->bias ? bias : NULL,
                          .biased = r->bias,
                          .residual = r->residual ? residual : NULL,
                          .residual_row = r->residual ? r->n : 0};
    run(machine, &p, threads);
    for (int64_t i = 0; i < r->m; i++)
        for (int64_t j = 0; j < r->n; j++) {
            const int64_t at = i * p.c_row + j * p.c_col;
            const float sum = expected(machine->isa->fused, x + i * r->k, &w, j);
            const float begin = r->residual ? residual[i * r->n + j] + (r->bias ? bias[j] : 0)
                                : r->bias   ? bias[j]
                                            : before[at];
            const float right = r->add || r->bias || r->residual ? begin + sum : sum;
            ck_assert_msg(same((double)c[at], (double)right),
                          "%s %s, m %lld n %lld k %lld, %d threads: element (%lld, %lld) is %a, not %a",
                          machine->isa->name, th_dtype_name(dtype), (long long)r->m, (long long)r->n, (long long)r->k,
                          threads, (long long)i, (long long)j, (double)c[at], (double)right);
        }
    free(x), free(bias), free(residual), free(c), free(a), free(before);
    weight_free(&w);
}

static th_machine int8_machine(int choice)
{
    th_machine machine = machine_of(choice, 3);
    machine.precision = TH_PRECISION_INT8;
    machine.gemm = TH_GEMM_NATIVE;
    return machine;
}

START_TEST(every_path_computes_the_sums)
{
    static const int64_t rows[] = {1, 2, 3, 4, 5, 7, 9, 15, 40, 67, 130}, columns[] = {1, 2, 5, 16, 31, 33, 70},
                         blocks[] = {1, 2, 3, 5, 16, 33};
    for (int choice = 0; choice < ISAS; choice++) {
        if (!supported(choice))
            continue;
        const th_machine machine = int8_machine(choice);
        for (int i = 0; i < 120; i++) {
            recipe r = {.m = PICK(rows), .n = PICK(columns), .k = BLOCK * PICK(blocks)};
            r.columns_of_a = draw(4) == 0;
            r.add = draw(3) == 0;
            r.bias = !r.add && draw(2);
            r.residual = !r.add && draw(3) == 0;
            r.columns_of_c = !r.residual && draw(6) == 0;
            r.special = draw(3) == 0;
            check(&machine, i % 2 ? TH_Q8_0 : TH_Q4_0, &r, 1 + (int)draw(3));
        }
    }
}
END_TEST

/* The team divides this product's rows and columns. */
START_TEST(a_large_product)
{
    const th_machine machine = int8_machine(supported(ISAS - 1) ? ISAS - 1 : 0);
    check(&machine, TH_Q8_0, &(recipe){.m = 70, .n = 300, .k = 1056}, 3);
    check(&machine, TH_Q4_0, &(recipe){.m = 1, .n = 3000, .k = 1056, .bias = true}, 3);
}
END_TEST

/* An x differs from its rounded value by at most half the scale of its block. */
START_TEST(the_error_is_bounded)
{
    enum { M = 5, N = 40, K = 512 };
    const th_machine machine = int8_machine(supported(ISAS - 1) ? ISAS - 1 : 0);
    weight w = weight_new(TH_Q8_0, N, K, false);
    float *x = random_values(M * K), c[M * N];
    const th_product p = {.m = M,
                          .n = N,
                          .k = K,
                          .a = x,
                          .a_row = K,
                          .a_col = 1,
                          .b = w.stored,
                          .b_row = 1,
                          .b_col = K,
                          .b_storage = TH_Q8_0,
                          .c = c,
                          .c_row = N,
                          .c_col = 1};
    run(&machine, &p, 1);
    double largest = 0;
    for (int i = 0; i < M * N; i++) {
        double exact = 0, bound = 0, sizes = 0;
        for (int k = 0; k < K; k++) {
            int number[BLOCK];
            const float *row = x + i / N * K;
            const double v = (double)w.scale[(i % N * K + k) / BLOCK] * w.number[i % N * K + k];
            exact += v * (double)row[k];
            sizes += fabs(v * (double)row[k]);
            bound += fabs(v) * (double)round_block(row + k / BLOCK * BLOCK, number) / 2;
        }
        const double error = fabs((double)c[i] - exact);
        ck_assert_double_le(error, bound * (1 + 1e-5) + sizes * 1e-5);
        largest = fmax(largest, error / sizes);
    }
    ck_assert_double_gt(largest, 1e-5); /* or nothing was rounded */
    free(x);
    weight_free(&w);
}
END_TEST

/* A matrix (N, K) of a type whose blocks have random bytes, and its numbers. */
static const char *random_blocks(th_dtype dtype, int64_t count, float *numbers)
{
    const th_block_format *format = th_block_format_of(dtype);
    const size_t size = th_dtype_size(dtype), blocks = (size_t)(count / format->numbers);
    char *stored = memory_end(IN_B, blocks * size);
    for (size_t b = 0; b < blocks; b++) {
        for (size_t i = 0; i < size; i++)
            stored[b * size + i] = (char)draw(256);
        for (int k = 0; k < format->scales; k++) {
            const uint16_t scale = (uint16_t)(draw(2) << 15 | (8 + draw(6)) << 10 | draw(1024));
            memcpy(stored + b * size + format->scale + 2 * k, &scale, sizeof scale);
        }
    }
    f32[0]->storage_load(count, (int)dtype, stored, 0, numbers);
    return stored;
}

/* Compares a product with exact arithmetic. A number x differs from its rounded value by at most half the scale of its
 * block. The other term bounds the rounding of the sums: the numbers that they add are at most 4 times the largest
 * weight of the column. block: the numbers with one scale. */
static void check_bound(const float *c, const float *x, const float *w, int64_t n, int64_t k, int block)
{
    for (int64_t j = 0; j < n; j++) {
        double exact = 0, bound = 0, sizes = 0, largest = 0;
        int number[TH_INT8_WIDE];
        double half_scale = 0;
        bool is_rounded = false;
        for (int64_t i = 0; i < k; i++) {
            const double v = (double)w[j * k + i];
            if (i % block == 0) {
                half_scale = (double)round_numbers(block, x + i, number) / 2;
                is_rounded = half_scale != 0.5; /* otherwise all x are integers up to 127 */
            }
            exact += v * (double)x[i];
            sizes += fabs((double)x[i]);
            largest = fmax(largest, fabs(v));
            bound += is_rounded ? fabs(v) * half_scale : 0;
        }
        ck_assert_double_le(fabs((double)c[j] - exact), bound * (1 + 1e-5) + 4e-6 * sizes * largest);
    }
}

/* The types that are unpacked: the bound of the error, and the same bits for every instruction set with fused
 * multiply-add, number of rows and team. */
START_TEST(unpacked_types)
{
    enum { M = 9, N = 40, MOST = 2304 };
    static const th_dtype types[] = {TH_Q4_1, TH_Q5_0, TH_Q5_1, TH_Q2_K,   TH_Q3_K,
                                     TH_Q4_K, TH_Q5_K, TH_Q6_K, TH_IQ4_NL, TH_IQ4_XS};
    static float w[N * MOST], c[M * N], first[M * N];
    const th_dtype dtype = types[_i];
    const int64_t k = th_dtype_numbers(dtype) == BLOCK ? 1056 : MOST; /* an odd number of blocks; 9 blocks of 256 */
    const char *stored = random_blocks(dtype, N * k, w);
    const int block = th_dtype_numbers(dtype);
    float *x = random_values(M * k);
    for (int64_t i = 0; i < 5 * k; i++) /* rows of integers: rounding is exact, and the bound small */
        x[i] = i % block == 0 ? 127 : (float)draw(255) - 127;
    for (int choice = 0, seen = 0; choice < ISAS; choice++) {
        if (!supported(choice))
            continue;
        const th_machine machine = int8_machine(choice);
        for (int threads = 1; threads <= 3; threads++)
            for (int64_t m = 1; m <= M; m += 4) {
                th_product p = row_major_product(m, N, k, x, (const float *)(const void *)stored, c);
                p.b_row = 1, p.b_col = k, p.b_storage = dtype;
                run(&machine, &p, threads);
                for (int64_t i = 0; i < m && threads == 1; i++)
                    check_bound(c + i * N, x + i * k, w, N, k, block);
                if (machine.isa->fused && seen++ == 0) {
                    p.m = M;
                    p.c = first;
                    run(&machine, &p, 1);
                }
                ck_assert(!machine.isa->fused || memcmp(c, first, (size_t)(m * N) * sizeof *c) == 0);
            }
    }
    free(x);
}
END_TEST

/* Products that the precision does not apply to: no stored B, a B that is stored along n, bfloat16, float64. */
START_TEST(other_products_are_float32)
{
    enum { M = 6, N = 64, K = 96 };
    static const struct {
        th_dtype real, storage;
        bool along_k;
    } cases[] = {{TH_FLOAT32, TH_FLOAT32, true}, {TH_FLOAT32, TH_FLOAT32, false}, {TH_FLOAT32, TH_Q8_0, false},
                 {TH_FLOAT32, TH_Q4_0, false},   {TH_FLOAT32, TH_BFLOAT16, true}, {TH_FLOAT32, TH_FLOAT16, true},
                 {TH_FLOAT64, TH_Q8_0, true}};
    static char b[K * N * 8];
    static double a[M * K], c[2][M * N]; /* memory for either type */
    void *numbers = a;
    float *random = random_values(M * K);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t j = 0; j < sizeof b; j++)
            b[j] = (char)(j % 2 ? 0x30 + draw(8) : draw(256));
        for (int64_t j = 0; j < M * K; j++)
            if (cases[i].real == TH_FLOAT64)
                ((double *)numbers)[j] = (double)random[j];
            else
                ((float *)numbers)[j] = random[j];
        for (int int8 = 0; int8 < 2; int8++) {
            th_machine machine = int8_machine(0);
            machine.precision = int8 ? TH_PRECISION_INT8 : TH_PRECISION_FLOAT32;
            const th_product p = {.m = M,
                                  .n = N,
                                  .k = K,
                                  .a = a,
                                  .a_row = K,
                                  .a_col = 1,
                                  .b = b,
                                  .b_row = cases[i].along_k ? 1 : N,
                                  .b_col = cases[i].along_k ? K : 1,
                                  .b_storage = cases[i].storage,
                                  .c = c[int8],
                                  .c_row = N,
                                  .c_col = 1};
            const size_t bytes = th_product_workspace(&machine, cases[i].real, &p, 1);
            th_product_run(&machine, cases[i].real, &p, 1, bytes ? memory_end(IN_WORKSPACE, bytes) : NULL);
        }
        ck_assert_msg(memcmp(c[0], c[1], (size_t)(M * N) * th_dtype_size(cases[i].real)) == 0, "case %d differs",
                      (int)i);
    }
    free(random);
}
END_TEST

/* Blocks of small numbers are rounded like all others, down to 2^-118; smaller ones are zeros. */
START_TEST(the_smallest_scale)
{
    static const struct {
        float x;
        bool is_zero;
    } cases[] = {{0x1p-70F, false},  {0x1p-100F, false},       {0x1p-117F, false}, {0x1.8p-118F, false},
                 {0x1p-118F, false}, {0x1.fffffep-119F, true}, {0x1p-126F, true},  {0x1p-149F, true}};
    enum { BLOCKS = 2, K = BLOCKS * BLOCK };
    for (int choice = 0; choice < ISAS; choice++)
        for (size_t i = 0; supported(choice) && i < sizeof cases / sizeof *cases; i++) {
            float x[K] = {0};
            th_int8_block block[BLOCKS];
            x[3] = cases[i].x;
            x[4] = -cases[i].x / 2;
            x[BLOCK] = 1; /* the other block has the usual scale */
            f32[choice]->product_int8_round(1, K, x, K, 1, block);
            const float scale = cases[i].is_zero ? 0 : cases[i].x / 127;
            ck_assert_msg(block[0].scale == scale, "%a has the scale %a", (double)cases[i].x, (double)block[0].scale);
            ck_assert(block[1].scale == 1.0F / 127);
            ck_assert_int_eq(block[0].number[BLOCK / 2 + 1], cases[i].is_zero ? 0 : 127);
            ck_assert_int_eq(block[0].number[2], cases[i].is_zero ? 0 : -64);
            ck_assert_int_eq(block[0].sum, cases[i].is_zero ? 0 : 127 - 64);
            ck_assert_int_eq(block[1].number[0], 127);
        }
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("int8 products", NULL, NULL);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, every_path_computes_the_sums);
    tcase_add_test(tests, a_large_product);
    tcase_add_test(tests, the_error_is_bounded);
    tcase_add_loop_test(tests, unpacked_types, 0, 10);
    tcase_add_test(tests, other_products_are_float32);
    tcase_add_test(tests, the_smallest_scale);
    return run_suites();
}
