/* Products with a stored operand: the bits of the product with the loaded operand, for all storage types, instruction
 * sets, precisions, sizes, layouts and teams. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/machine/openblas.h"
#include "kernels/products/product.h"
#include "kernels/storage/block_formats.h"
#include "tapehead/base.h"

#include "guarded.h"
#include "instances.h"
#include "suite.h"

static const th_dtype stored[] = {TH_BFLOAT16, TH_FLOAT16, TH_Q8_0, TH_Q4_0, TH_Q4_1, TH_Q5_0,   TH_Q5_1,
                                  TH_Q2_K,     TH_Q3_K,    TH_Q4_K, TH_Q5_K, TH_Q6_K, TH_IQ4_NL, TH_IQ4_XS};
enum { STORED = sizeof stored / sizeof *stored };

/* Returns the next multiple of the numbers in an element. */
static int64_t whole_elements(th_dtype dtype, int64_t length)
{
    const int64_t numbers = th_dtype_numbers(dtype);
    return (length + numbers - 1) / numbers * numbers;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* A float16 or bfloat16 number of moderate size. One of 64 is unusual if `special`. */
static uint16_t half_number(th_dtype dtype, bool special)
{
    static const uint16_t unusual[2][6] = {{0x8000, 0x7f80, 0x7fc1, 0x0001, 0x80ff, 0xff80},
                                           {0x8000, 0x7c00, 0x7e01, 0x0001, 0x83ff, 0xfc00}};
    const int type = dtype == TH_FLOAT16, fraction = type ? 10 : 7, bias = type ? 15 : 127;
    if (special && draw(64) == 0)
        return unusual[type][draw(6)];
    return (uint16_t)(draw(2) << 15 | (bias - 3 + draw(4)) << fraction | draw(1 << fraction));
}

static void fill_stored(th_dtype dtype, int64_t elements, void *to, bool special)
{
    const size_t size = th_dtype_size(dtype);
    const th_block_format *format = th_block_format_of(dtype);
    for (int64_t i = 0; i < elements; i++) {
        char *at = (char *)to + (size_t)i * size;
        for (size_t j = 0; j < size && format; j++)
            at[j] = (char)draw(256);
        for (int k = 0; k < (format ? format->scales : 1); k++) {
            const uint16_t half = half_number(dtype == TH_BFLOAT16 ? dtype : TH_FLOAT16, special);
            memcpy(at + (format ? format->scale : 0) + 2 * k, &half, sizeof half);
        }
    }
}

/* A matrix of `rows` stored rows of `length` numbers, `stride` numbers apart, and the same loaded. */
typedef struct weight {
    char *stored;
    void *plain; /* (rows, length), contiguous */
    int64_t stride;
} weight;

static weight weight_new(const th_machine *machine, th_dtype real, th_dtype dtype, int64_t rows, int64_t length,
                         bool special)
{
    const int64_t numbers = th_dtype_numbers(dtype), size = (int64_t)th_dtype_size(dtype);
    weight w = {.stride = length + numbers * (int64_t)draw(3)};
    const int64_t elements = ((rows - 1) * w.stride + length) / numbers;
    w.stored = memory_end(IN_B, (size_t)(elements * size));
    fill_stored(dtype, elements, w.stored, special);
    w.plain = memory_end(IN_RESIDUAL, (size_t)(rows * length) * th_dtype_size(real));
    for (int64_t i = 0; i < rows; i++)
        th_kernels_for(machine, real)
            ->storage_load(length, (int)dtype, w.stored + i * w.stride / numbers * size, 0,
                           (char *)w.plain + (size_t)(i * length) * th_dtype_size(real));
    return w;
}

static void run(const th_machine *machine, th_dtype real, const th_product *p, int threads)
{
    const size_t bytes = th_product_workspace(machine, real, p, threads);
    void *workspace = bytes ? memory_end(IN_WORKSPACE, bytes) : NULL;
    th_product_run(machine, real, p, threads, workspace);
}

static void random_values(th_dtype real, void *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const double x = (double)(draw(1 << 20) - (1 << 19)) / (1 << 18);
        if (real == TH_FLOAT64)
            ((double *)to)[i] = x;
        else
            ((float *)to)[i] = (float)x;
    }
}

typedef struct recipe {
    int64_t m, n, k;
    bool weight_along_k; /* B = Wᵀ, as in forward; else B = W, as in backward */
    bool column_result;  /* C is contiguous by columns */
    bool add, bias, special;
} recipe;

/* Compares one product with a stored B and the same with the loaded B. */
static void compare(const th_machine *machine, th_dtype real, th_dtype dtype, const recipe *r, int threads)
{
    const size_t size = th_dtype_size(real);
    const int64_t rows = r->weight_along_k ? r->n : r->k, length = r->weight_along_k ? r->k : r->n;
    const weight w = weight_new(machine, real, dtype, rows, length, r->special);
    th_product p = {.m = r->m, .n = r->n, .k = r->k, .a_row = r->k, .a_col = 1, .add = r->add};
    void *a = malloc((size_t)larger(1, r->m * r->k) * size), *bias = malloc((size_t)r->n * size);
    void *c[2] = {malloc((size_t)(r->m * r->n) * size), malloc((size_t)(r->m * r->n) * size)};
    random_values(real, a, r->m * r->k);
    random_values(real, bias, r->n);
    random_values(real, c[0], r->m * r->n);
    memcpy(c[1], c[0], (size_t)(r->m * r->n) * size);
    p.a = a;
    p.bias = r->bias ? bias : NULL;
    p.biased = r->bias;
    p.c_row = r->column_result ? 1 : r->n;
    p.c_col = r->column_result ? r->m : 1;
    for (int loaded = 0; loaded < 2; loaded++) {
        const int64_t stride = loaded ? length : w.stride;
        p.b = loaded ? w.plain : w.stored;
        p.b_row = r->weight_along_k ? 1 : stride;
        p.b_col = r->weight_along_k ? stride : 1;
        p.b_storage = loaded ? TH_FLOAT32 : dtype;
        p.c = c[loaded];
        run(machine, real, &p, loaded ? 1 : threads);
    }
    for (int64_t i = 0; i < r->m * r->n; i++) {
        const double first = real == TH_FLOAT64 ? ((double *)c[0])[i] : (double)((float *)c[0])[i];
        const double second = real == TH_FLOAT64 ? ((double *)c[1])[i] : (double)((float *)c[1])[i];
        ck_assert_msg(same(first, second),
                      "%s %s %s, m %lld n %lld k %lld%s%s%s%s, %d threads: element %lld is %a with the stored operand, "
                      "%a with the loaded one",
                      machine->isa->name, th_precision_name(machine->precision), th_dtype_name(dtype), (long long)r->m,
                      (long long)r->n, (long long)r->k, r->weight_along_k ? " transposed" : "",
                      r->column_result ? " column" : "", r->add ? " add" : "", r->bias ? " bias" : "", threads,
                      (long long)i, first, second);
    }
    free(a);
    free(bias);
    free(c[0]);
    free(c[1]);
}

static void random_recipes(const th_machine *machine, th_dtype real, int count)
{
    static const int64_t rows[] = {1, 2, 3, 7, 12, 13, 16, 17, 24, 25, 40, 97, 200},
                         sizes[] = {1, 2, 5, 16, 31, 32, 33, 47, 64, 80, 129, 300, 511, 513, 700, 1030};
    for (int i = 0; i < count; i++) {
        const th_dtype dtype = stored[i % STORED];
        recipe r = {.m = PICK(rows), .n = PICK(sizes), .k = PICK(sizes)};
        r.weight_along_k = draw(2);
        r.column_result = draw(6) == 0;
        r.add = draw(3) == 0;
        r.bias = !r.add && draw(2);
        r.special = draw(4) == 0;
        int64_t *along = r.weight_along_k ? &r.k : &r.n;
        *along = whole_elements(dtype, *along);
        compare(machine, real, dtype, &r, 1 + (int)draw(3));
    }
}

/* Every instruction set and path, float32 and float64, in our own kernels and, if it is installed, OpenBLAS. */
START_TEST(stored_operands_give_the_bits_of_loaded_ones)
{
    for (int choice = 0; choice < PRODUCT_PATHS; choice++) {
        if (!supported(choice))
            continue;
        for (int precision = TH_PRECISION_FLOAT32; precision <= TH_PRECISION_BFLOAT16; precision++) {
            th_machine machine = machine_of(choice, 3);
            machine.gemm = TH_GEMM_NATIVE;
            machine.precision = (th_precision)precision;
            random_recipes(&machine, TH_FLOAT32, choice == AMX ? 24 : 120);
            if (precision == TH_PRECISION_FLOAT32 && choice < ISAS)
                random_recipes(&machine, TH_FLOAT64, 80);
        }
    }
}
END_TEST

START_TEST(openblas_too)
{
    if (th_openblas() == NULL) {
        printf("skipped: OpenBLAS is not installed\n");
        return;
    }
    th_machine machine = machine_of(0, 3);
    machine.gemm = TH_GEMM_OPENBLAS;
    random_recipes(&machine, TH_FLOAT32, 200);
    random_recipes(&machine, TH_FLOAT64, 100);
}
END_TEST

/* Every path reads few rows' weights that are stored as bfloat16 in place: it needs no memory for converted ones. */
START_TEST(stored_bfloat16_is_not_converted)
{
    for (int choice = 0; choice < PRODUCT_PATHS; choice++) {
        if (!supported(choice))
            continue;
        th_machine machine = machine_of(choice, 1);
        machine.precision = TH_PRECISION_BFLOAT16;
        for (int64_t m = 1; m <= TH_FEW_PART_ROWS; m++) {
            th_product p = {.m = m, .n = 300, .k = TH_PRODUCT_BLOCK, .a_row = TH_PRODUCT_BLOCK, .a_col = 1};
            p.b_row = p.c_col = 1;
            p.b_col = TH_PRODUCT_BLOCK;
            p.c_row = p.n;
            const size_t plain = th_product_workspace(&machine, TH_FLOAT32, &p, 1);
            p.b_storage = TH_BFLOAT16;
            ck_assert_uint_eq(th_product_workspace(&machine, TH_FLOAT32, &p, 1), plain);
        }
    }
}
END_TEST

/* More columns and steps than one pass packs, and more rows than one task has. */
START_TEST(large_products)
{
    th_machine machine = machine_of(supported(ISAS - 1) ? ISAS - 1 : 0, 3);
    machine.gemm = TH_GEMM_NATIVE;
    for (int type = 0; type < STORED; type++)
        for (int along_k = 0; along_k < 2; along_k++) {
            const int64_t k[] = {whole_elements(stored[type], 800), whole_elements(stored[type], 2080)};
            const recipe wide = {.m = 210, .n = 4096, .k = k[0], .weight_along_k = along_k};
            const recipe few = {.m = 3, .n = 2048, .k = k[1], .weight_along_k = along_k};
            compare(&machine, TH_FLOAT32, stored[type], &wide, 3);
            compare(&machine, TH_FLOAT32, stored[type], &few, 2);
        }
}
END_TEST

/* The first rows of a product equal the product with 1 to 12 rows: all plans that read few rows. With NULL the
 * operand is not stored. */
static void compare_batches(const th_machine *machine, const th_dtype *dtype, int64_t n, int64_t k)
{
    enum { ROWS = 40, FEW = 12 };
    const weight w = weight_new(machine, TH_FLOAT32, dtype ? *dtype : TH_BFLOAT16, n, k, false);
    float *a = malloc((size_t)(ROWS * k) * sizeof *a), *all = malloc((size_t)(ROWS * n) * sizeof *all),
          *few = malloc((size_t)(FEW * n) * sizeof *few), *bias = malloc((size_t)n * sizeof *bias);
    random_values(TH_FLOAT32, a, ROWS * k);
    random_values(TH_FLOAT32, bias, n);
    th_product p = {.n = n, .k = k, .a = a, .a_row = k, .a_col = 1, .b_row = 1, .c_row = n, .c_col = 1};
    p.bias = bias;
    p.biased = true;
    p.b = dtype ? w.stored : w.plain;
    p.b_col = dtype ? w.stride : k;
    p.b_storage = dtype ? *dtype : TH_FLOAT32;
    p.m = ROWS;
    p.c = all;
    run(machine, TH_FLOAT32, &p, 1);
    for (p.m = 1; p.m <= FEW; p.m++)
        for (int threads = 1; threads <= 3; threads++) {
            p.c = few;
            run(machine, TH_FLOAT32, &p, threads);
            ck_assert_msg(memcmp(few, all, (size_t)(p.m * n) * sizeof *few) == 0,
                          "%s %s: %lld rows with %d threads differ from %d rows, n %lld k %lld", machine->isa->name,
                          dtype ? th_dtype_name(*dtype) : "float32", (long long)p.m, threads, (int)ROWS, (long long)n,
                          (long long)k);
        }
    free(a);
    free(all);
    free(few);
    free(bias);
}

START_TEST(rows_do_not_depend_on_the_batch)
{
    static const int64_t sizes[][2] = {{1, 32}, {33, 64}, {47, 544}, {130, 1056}, {700, 320}, {1024, 2080}};
    for (int choice = 0; choice < ISAS; choice++) {
        if (!supported(choice))
            continue;
        th_machine machine = machine_of(choice, 3);
        machine.gemm = TH_GEMM_NATIVE;
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            compare_batches(&machine, NULL, sizes[i][0], sizes[i][1]);
            for (int type = 0; type < STORED; type++)
                compare_batches(&machine, &stored[type], sizes[i][0], whole_elements(stored[type], sizes[i][1]));
        }
    }
}
END_TEST

/* An infinite scale reaches its own column only, and gives infinity, wherever the column is in a panel. All numbers are 3,
 * so that no difference of infinities hides it. */
START_TEST(an_infinite_scale_of_one_column)
{
    enum { N = 33, K = 64, BLOCKS = K / TH_BLOCK_NUMBERS, MOST = 40 };
    static const int64_t rows[] = {1, 2, 3, MOST};
    static float a[MOST * K], c[MOST * N];
    const th_dtype dtype = _i ? TH_Q4_0 : TH_Q8_0;
    const size_t size = th_dtype_size(dtype);
    char *b = memory_end(IN_B, (size_t)(N * BLOCKS) * size);
    for (int i = 0; i < MOST * K; i++)
        a[i] = 1;
    for (int choice = 0; choice < ISAS; choice++)
        for (int column = 0; column < N && supported(choice); column++) {
            th_machine machine = machine_of(choice, 1);
            machine.gemm = TH_GEMM_NATIVE;
            memset(b, dtype == TH_Q4_0 ? 0xbb : 3, (size_t)(N * BLOCKS) * size);
            for (int i = 0; i < N * BLOCKS; i++) {
                const uint16_t scale = i == column * BLOCKS + column % BLOCKS ? 0x7c00 : 0x3c00; /* infinity or 1 */
                memcpy(b + (size_t)i * size, &scale, sizeof scale);
            }
            for (size_t m = 0; m < sizeof rows / sizeof *rows; m++) {
                th_product p = row_major_product(rows[m], N, K, a, (const float *)(const void *)b, c);
                p.b_row = 1, p.b_col = K, p.b_storage = dtype;
                run(&machine, TH_FLOAT32, &p, 1);
                for (int i = 0; i < rows[m] * N; i++)
                    ck_assert(c[i] == (i % N == column ? INFINITY : 3.0f * K));
            }
        }
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("stored products", NULL, NULL);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, stored_operands_give_the_bits_of_loaded_ones);
    tcase_add_loop_test(tests, an_infinite_scale_of_one_column, 0, 2);
    tcase_add_test(tests, openblas_too);
    tcase_add_test(tests, stored_bfloat16_is_not_converted);
    tcase_add_test(tests, large_products);
    tcase_add_test(tests, rows_do_not_depend_on_the_batch);
    return run_suites();
}
