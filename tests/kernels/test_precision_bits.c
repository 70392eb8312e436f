/* The bits of products of bfloat16 parts. Every path of this processor is compared with the scalar model
 * (tile_model.h), over shapes, layouts, beginnings of the sum, batches, teams and special values. Then their distance
 * from the exact product. The caller's floating-point state must neither change them nor be changed. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bits.h"
#include "guarded.h"
#include "instances.h"
#include "kernels/products/product.h"
#include "kernels/vector/float_state.h"
#include "suite.h"
#include "tile_model.h"

/* -- paths: a test runs once for each path and each number of parts -- */

enum { MAX_PARTS = 2, WAYS = PRODUCT_PATHS * MAX_PARTS };

static int parts_of(int way)
{
    return 1 + way % MAX_PARTS;
}

static int path_of(int way)
{
    return way / MAX_PARTS;
}

/* Sets *machine to this path; returns false, with a message, if this processor does not support it. */
static bool machine_on(int way, th_machine *machine)
{
    *machine = machine_of(path_of(way), 1);
    machine->precision = parts_of(way) == 1 ? TH_PRECISION_BFLOAT16 : TH_PRECISION_BFLOAT16X3;
    if (!supported(path_of(way)))
        printf("skipped: this processor has no %s\n", th_isa_choices[path_of(way)].name);
    return supported(path_of(way));
}

static void run(const th_machine *machine, const th_product *product, int threads)
{
    const size_t bytes = (th_product_workspace(machine, TH_FLOAT32, product, threads) + 63) / 64 * 64;
    void *workspace = memory_end(IN_WORKSPACE, bytes);
    memset(workspace, 0xff, bytes < 1 << 20 ? bytes : 1 << 20); /* NaN: no result may depend on old contents */
    th_product_run(machine, TH_FLOAT32, product, threads, workspace);
}

/* -- numbers -- */

/* A number of any sign and mantissa, whose biased exponent is between these. */
static float between(int low, int high)
{
    const int64_t exponent = low + draw(high - low + 1);
    return float_of((uint32_t)draw(2) << 31 | (uint32_t)exponent << 23 | (uint32_t)draw(1 << 23));
}

/* The numbers of operands. */
typedef enum numbers {
    ORDINARY, /* about 1 */
    UNIFORM,  /* between -1 and 1 */
    COARSE,   /* few bits: sums and parts that are exact, cancel, or are ties */
    RARE,     /* ordinary ones with a few infinities, NaN, zeros, denormals */
    TINY,     /* products and sums of them underflow */
    LARGE,    /* and overflow */
    ANY,      /* any bits */
    NUMBERS
} numbers;

/* Returns a special number. WebAssembly keeps denormal numbers, which the model counts as 0. There the result has no
 * denormal products. */
static float rare(void)
{
    static const uint32_t bits[] = {
        0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0xffffffff, /* infinities, NaN */
        0,          0x80000000, 1,          0x80000001, 0x007fffff,
        0x807fffff, 0x00800000, 0x80800000,                         /* the smallest normal numbers, */
        0x3f808000, 0x3f818000, 0x3f808001, 0x3f817fff, 0x3fffffff, /* ties, and almost ties */
        0xbf808080, 0x3f818180, 0x3f7f7f80,
    };
    float x;
    do
        x = float_of(PICK(bits));
    while (TH_FLOAT_FLUSH == TH_FLOAT_USUAL && x != 0 && fabsf(x) <= FLT_MIN);
    return x;
}

static float number(numbers kind)
{
    static const uint32_t extremes[] = {0x7f7fffff, 0x7f7f8000, 0x7f7f7fff, 0x7f7f0000, 0xff7fffff, 0xff7f8000};
    switch (kind) {
    case UNIFORM:
        return (float)(draw(1 << 24) - (1 << 23)) / (1 << 23);
    case COARSE:
        return (float)(draw(1025) - 512) / 256;
    case RARE:
        return draw(60) == 0 ? rare() : between(120, 130);
    case TINY:
        return draw(8) == 0 ? rare() : between(40, 90);
    case LARGE:
        return draw(20) == 0 ? float_of(PICK(extremes)) : draw(3) == 0 ? between(110, 130) : between(170, 195);
    case ANY:
        return float_of((uint32_t)draw((int64_t)1 << 31) << 1 | (uint32_t)draw(2));
    default:
        return between(120, 130);
    }
}

/* -- products -- */

/* The layout of a matrix: strides, the offset of the first element, and the span of all. */
typedef struct layout {
    int64_t row, column, origin, span;
} layout;

typedef enum arrangement { ROWS, COLUMNS, PADDED, REVERSED, SPREAD, SAME_ROW, ARRANGEMENTS } arrangement;

static layout arrange(arrangement how, int64_t rows, int64_t columns)
{
    layout l = {columns, 1, 0, rows * columns};
    if (how == COLUMNS)
        l = (layout){1, rows, 0, rows * columns};
    else if (how == PADDED)
        l = (layout){columns + 5, 1, 0, rows * (columns + 5)};
    else if (how == REVERSED)
        l = (layout){-columns, 1, rows > 0 ? (rows - 1) * columns : 0, rows * columns};
    else if (how == SPREAD)
        l = (layout){3 * columns + 1, 3, 0, rows * (3 * columns + 1)};
    else if (how == SAME_ROW)
        l = (layout){0, 1, 0, columns};
    return l;
}

typedef struct recipe {
    int64_t m, n, k, batch[2]; /* batch[0] = 0: none; batch[1] is over A and C alone */
    arrangement a, b, c;
    bool add, bias, residual;
    numbers numbers;
} recipe;

static float *numbers_new(int purpose, int64_t count, numbers kind)
{
    float *x = memory_end(purpose, (size_t)count * sizeof *x);
    for (int64_t i = 0; i < count; i++)
        x[i] = number(kind);
    return x;
}

typedef struct product_case {
    th_product product;
    float *c, *before, *expected; /* (c_count): all memory of C */
    int64_t c_count;
} product_case;

static product_case case_new(const recipe *r)
{
    const layout a = arrange(r->a, r->m, r->k), b = arrange(r->b, r->k, r->n), c = arrange(r->c, r->m, r->n);
    const int64_t first = r->batch[0] ? r->batch[0] : 1, second = r->batch[0] ? r->batch[1] : 1;
    product_case t = {.c_count = first * second * c.span};
    t.c = numbers_new(IN_C, t.c_count, r->numbers);
    t.product = (th_product){.m = r->m,
                             .n = r->n,
                             .k = r->k,
                             .a = numbers_new(IN_A, first * second * a.span, r->numbers) + a.origin,
                             .a_row = a.row,
                             .a_col = a.column,
                             .b = numbers_new(IN_B, first * b.span, r->numbers) + b.origin,
                             .b_row = b.row,
                             .b_col = b.column,
                             .c = t.c + c.origin,
                             .c_row = c.row,
                             .c_col = c.column,
                             .add = r->add,
                             .bias = r->bias && !r->add ? numbers_new(IN_BIAS, r->n, r->numbers) : NULL,
                             .long_sum = true,
                             .batch_dims = r->batch[0] ? 2 : 0,
                             .batch = {first, second},
                             .a_batch = {second * a.span, a.span},
                             .b_batch = {b.span, 0},
                             .c_batch = {second * c.span, c.span}};
    if (r->residual && !r->add && !r->batch[0] && c.column == 1) {
        t.product.residual_row = r->n + 3;
        t.product.residual = numbers_new(IN_RESIDUAL, r->m * (r->n + 3), r->numbers);
    }
    t.before = malloc((size_t)t.c_count * sizeof *t.before + 1);
    t.expected = malloc((size_t)t.c_count * sizeof *t.expected + 1);
    ck_assert(t.before && t.expected);
    memcpy(t.before, t.c, (size_t)t.c_count * sizeof *t.c);
    return t;
}

static void case_free(product_case *t)
{
    free(t->before);
    free(t->expected);
}

/* The expected contents of C's memory: the model's C, and the old numbers between its elements. */
static void expect(product_case *t, int parts)
{
    memcpy(t->c, t->before, (size_t)t->c_count * sizeof *t->c);
    model_product(&t->product, parts);
    memcpy(t->expected, t->c, (size_t)t->c_count * sizeof *t->c);
}

/* Runs the product on the old C, and compares. */
static void check(const product_case *t, const th_machine *machine, int threads, const char *text)
{
    const th_product *p = &t->product;
    memcpy(t->c, t->before, (size_t)t->c_count * sizeof *t->c);
    run(machine, p, threads);
    for (int64_t i = 0; i < t->c_count; i++)
        if (!same_bits(t->c[i], t->expected[i]))
            ck_abort_msg(
                "%s: (%ld, %ld, %ld), %d threads, A %ld %ld, B %ld %ld, C %ld %ld%s%s%s: element %ld of C's memory "
                "is %a, not %a",
                text, (long)p->m, (long)p->n, (long)p->k, threads, (long)p->a_row, (long)p->a_col, (long)p->b_row,
                (long)p->b_col, (long)p->c_row, (long)p->c_col, p->add ? ", adding" : "", p->bias ? ", bias" : "",
                p->residual ? ", residual" : "", (long)i, (double)t->c[i], (double)t->expected[i]);
}

static void check_recipe(const recipe *r, const th_machine *machine, int parts, int threads, const char *text)
{
    product_case t = case_new(r);
    expect(&t, parts);
    check(&t, machine, threads, text);
    case_free(&t);
}

/* Returns small numbers if the path has no fused multiply-add: its products must not overflow before the addition. */
static numbers random_numbers(int way)
{
    return (numbers)draw(path_of(way) < FUSED ? TINY : NUMBERS);
}

static recipe random_recipe(int way)
{
    static const int64_t rows[] = {1, 1, 2, 3, 5, 6, 7, 11, 12, 13, 16, 17, 25, 31, 33, 49};
    static const int64_t columns[] = {1, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 64, 65};
    static const int64_t steps[] = {1, 2, 3, 15, 16, 17, 31, 32, 33, 34, 47, 48, 63, 64, 65, 67, 95, 96, 127};
    recipe r = {.m = PICK(rows),
                .n = PICK(columns),
                .k = PICK(steps),
                .batch = {draw(5) == 0 ? 1 + draw(3) : 0, 1 + draw(3)},
                .a = (arrangement)draw(ARRANGEMENTS),
                .b = (arrangement)draw(ARRANGEMENTS),
                .c = (arrangement)draw(SAME_ROW),
                .add = draw(3) == 0,
                .bias = draw(2) == 0,
                .residual = draw(3) == 0,
                .numbers = random_numbers(way)};
    return r;
}

START_TEST(test_random_products)
{
    th_machine machine;
    if (!machine_on(_i, &machine))
        return;
    random_state = 1;
    for (int i = 0; i < 150; i++) {
        const recipe r = random_recipe(_i);
        check_recipe(&r, &machine, parts_of(_i), 1 + (int)draw(4), "random");
    }
}
END_TEST

/* The ends of groups and blocks. */
START_TEST(test_steps)
{
    static const int64_t ends[] = {TH_PART_GROUP, TH_PRODUCT_BLOCK, 2 * TH_PRODUCT_BLOCK, 3 * TH_PRODUCT_BLOCK};
    th_machine machine;
    if (!machine_on(_i, &machine))
        return;
    random_state = 2;
    for (size_t end = 0; end < sizeof ends / sizeof *ends; end++)
        for (int64_t past = -2; past <= 33; past += past < 2 ? 1 : 31)
            for (int with = 0; with < 3; with++) {
                const recipe r = {.m = 1 + draw(4),
                                  .n = 1 + draw(4),
                                  .k = ends[end] + past,
                                  .a = (arrangement)draw(2),
                                  .b = (arrangement)draw(2),
                                  .c = (arrangement)draw(2),
                                  .add = with == 1,
                                  .bias = with == 2,
                                  .numbers = random_numbers(_i)};
                check_recipe(&r, &machine, parts_of(_i), 1, "steps");
            }
}
END_TEST

/* Few rows, with contiguous columns of B: B is read in place. One row more is packed as usual. */
START_TEST(test_few_rows)
{
    th_machine machine;
    if (!machine_on(_i, &machine))
        return;
    random_state = 10;
    for (int64_t m = 1; m <= TH_FEW_PART_ROWS + 1; m++)
        for (int i = 0; i < 12; i++) {
            const recipe r = {.m = m,
                              .n = 1 + draw(i < 6 ? 80 : 33),
                              .k = i < 10 ? 1 + draw(100) : 500 + draw(600),
                              .batch = {i == 5 ? 2 : 0, 1},
                              .a = (arrangement)draw(ARRANGEMENTS),
                              .b = COLUMNS,
                              .c = (arrangement)draw(SAME_ROW),
                              .add = draw(3) == 0,
                              .bias = draw(2) == 0,
                              .residual = draw(3) == 0,
                              .numbers = random_numbers(_i)};
            check_recipe(&r, &machine, parts_of(_i), 1 + (int)draw(3), "few rows");
        }
}
END_TEST

/* Several blocks of rows and of k, passes over B and tasks: some elements, compared with the model of a product of one
 * element. */
START_TEST(test_large_products)
{
    static const recipe large[] = {
        {.m = 131, .n = 997, .k = 1301, .b = COLUMNS, .bias = true}, {.m = 1, .n = 3001, .k = 513, .b = COLUMNS},
        {.m = 257, .n = 190, .k = 1537, .a = COLUMNS, .add = true},  {.m = 700, .n = 65, .k = 384, .c = PADDED},
        {.m = 300, .n = 101, .k = 511, .c = COLUMNS, .bias = true},  {.m = 13, .n = 33, .k = 5001, .a = COLUMNS},
        {.m = 97, .n = 3200, .k = 71, .a = SPREAD, .b = SPREAD},     {.m = 500, .n = 1, .k = 900, .residual = true},
    };
    th_machine machine;
    if (!machine_on(_i, &machine))
        return;
    random_state = 3;
    for (int i = 0; i < (int)(sizeof large / sizeof *large); i++) {
        product_case t = case_new(&large[i]);
        run(&machine, &t.product, 1 + i % 4);
        for (int sample = 0; sample < 25; sample++) {
            const int64_t row = draw(large[i].m), column = draw(large[i].n);
            th_product one = t.product;
            const int64_t at = (float *)one.c - t.c + row * one.c_row + column * one.c_col;
            const float got = t.c[at];
            one.m = one.n = 1;
            one.a = (const float *)one.a + row * one.a_row;
            one.b = (const float *)one.b + column * one.b_col;
            one.c = memcpy(t.expected, t.before + at, sizeof *t.before);
            one.bias = one.bias ? (const float *)one.bias + column : NULL;
            one.residual = one.residual ? (const float *)one.residual + row * one.residual_row + column : NULL;
            model_product(&one, parts_of(_i));
            if (!same_bits(got, t.expected[0]))
                ck_abort_msg("large: (%ld, %ld, %ld), element (%ld, %ld) is %a, not %a", (long)large[i].m,
                             (long)large[i].n, (long)large[i].k, (long)row, (long)column, (double)got,
                             (double)t.expected[0]);
        }
        case_free(&t);
    }
}
END_TEST

/* One product as part of a batch, of a larger product, by any team and on every path. */
START_TEST(test_same_bits_everywhere)
{
    enum { M = 200, N = 130, K = 601 };
    static float a[M * K], at[M * K], b[K * N], bt[K * N], first[M * N], c[M * N];
    th_machine machine;
    if (!machine_on(_i, &machine))
        return;
    random_state = 4;
    for (int i = 0; i < M; i++)
        for (int k = 0; k < K; k++)
            a[i * K + k] = at[k * M + i] = number(ORDINARY);
    for (int k = 0; k < K; k++)
        for (int j = 0; j < N; j++)
            b[k * N + j] = bt[j * K + k] = number(ORDINARY);
    th_machine plainest = machine_of(0, 1);
    plainest.precision = machine.precision;
    th_product p = row_major_product(M, N, K, a, b, first);
    run(&plainest, &p, 1);
    p.c = c;
    for (int way = 0; way < 8; way++) {
        p.a = way & 1 ? at : a, p.a_row = way & 1 ? 1 : K, p.a_col = way & 1 ? M : 1;
        p.b = way & 2 ? bt : b, p.b_row = way & 2 ? 1 : N, p.b_col = way & 2 ? K : 1;
        run(&machine, &p, 1 + way % 4);
        ck_assert_mem_eq(c, first, sizeof first);
    }
    th_product row = row_major_product(1, N, K, a, b, c);
    for (int i = 0; i < M; i += 13) { /* alone */
        row.a = a + i * K;
        run(&machine, &row, 1);
        ck_assert_mem_eq(c, first + i * N, N * sizeof *c);
    }
    th_product batch = row_major_product(20, N, K, a, b, c);
    batch.batch_dims = 1;
    batch.batch[0] = M / 20;
    batch.a_batch[0] = 20 * K;
    batch.c_batch[0] = 20 * N;
    memset(c, 0, sizeof c);
    run(&machine, &batch, 3);
    ck_assert_mem_eq(c, first, sizeof first);
}
END_TEST

/* Column j: 2^-126 - 2^-(127 + j), whose difference from the smallest normal number becomes smaller and smaller. A
 * result is tiny, and 0, if it is below that number after rounding to 24 digits. */
START_TEST(test_tiny_after_rounding)
{
    enum { M = TH_FEW_PART_ROWS + 1, N = 60, K = 70, ODD = 33, LAST = 64 };
    static float a[M * K], b[K * N], c[M * N];
    th_machine machine;
    if (!machine_on(_i, &machine) || !machine.isa->fused)
        return;
    for (int i = 0; i < M; i++) {
        const float sign = i % 2 ? -1 : 1;
        a[i * K] = a[i * K + ODD] = sign;
        a[i * K + 2] = a[i * K + ODD + 2] = -0x1p-60f * sign;
        a[i * K + LAST] = 0x1p-126f;
    }
    for (int j = 0; j < N; j++) { /* columns are contiguous */
        b[j * K] = b[j * K + ODD] = 0x1p-126f;
        b[j * K + 2] = b[j * K + ODD + 2] = ldexpf(1, -127 - j + 60);
        b[j * K + LAST] = 1;
    }
    for (int64_t rows = 1; rows <= M; rows += M - 1) { /* B in place, and packed */
        th_product p = row_major_product(rows, N, K, a, b, c);
        p.b_row = 1;
        p.b_col = K;
        p.long_sum = true;
        run(&machine, &p, 1);
        for (int64_t i = 0; i < rows; i++)
            for (int j = 0; j < N; j++) {
                const float one = j < 24 ? 0 : i % 2 ? -0x1p-126f : 0x1p-126f, expected = 2 * one + 0x1p-126f;
                if (!same_bits(c[i * N + j], expected))
                    ck_abort_msg("of %ld rows, element (%ld, %d) is %a, not %a", (long)rows, (long)i, j,
                                 (double)c[i * N + j], (double)expected);
            }
    }
}
END_TEST

/* -- against the exact product -- */

/* The largest allowed error relative to the sum of |a b|: from the parts, then from float32's sums. Two parts leave up
 * to 2^-17 of a number, and the product of second parts is up to 2^-16: they average out only in long sums. */
static double bound(int parts, int64_t k)
{
    return (parts == 1 ? 0x1p-7 : k < TH_SHORT_SUM ? 0x1p-15 : exp2(-20.5)) + (double)k * 0x1p-24;
}

START_TEST(test_error)
{
    th_machine machine;
    if (!machine_on(_i, &machine))
        return;
    random_state = 5;
    for (int i = 0; i < 60; i++) {
        static const int64_t steps[] = {32, 33, 40, 64, 100, 128, 384, 512, 768, 1024};
        const recipe r = {.m = 1 + draw(20), .n = 1 + draw(40), .k = PICK(steps), .numbers = UNIFORM};
        product_case t = case_new(&r);
        const th_product *p = &t.product;
        run(&machine, p, 1);
        for (int64_t x = 0; x < r.m; x++)
            for (int64_t y = 0; y < r.n; y++) {
                double sum = 0, magnitude = 0;
                for (int64_t k = 0; k < r.k; k++) {
                    const double part = (double)((const float *)p->a)[x * p->a_row + k] *
                                        (double)((const float *)p->b)[k * p->b_row + y];
                    sum += part;
                    magnitude += fabs(part);
                }
                const double error = fabs((double)t.c[x * r.n + y] - sum) / magnitude;
                if (!(error <= bound(parts_of(_i), r.k)))
                    ck_abort_msg("(%ld, %ld, %ld), element (%ld, %ld): an error of %g of the sum of |a b|", (long)r.m,
                                 (long)r.n, (long)r.k, (long)x, (long)y, error);
            }
        case_free(&t);
    }
}
END_TEST

/* Infinite operands give the results of IEEE 754 for the exact operands, also if a second part of 0 meets infinity. */
START_TEST(test_infinite)
{
    enum { M = 7, N = 9, K = 600 };
    static float a[M * K], b[K * N], c[M * N];
    th_machine machine;
    if (!machine_on(_i, &machine))
        return;
    random_state = 6;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < M * K; i++)
            a[i] = draw(3 * K) == 0 ? (draw(2) ? INFINITY : -INFINITY) : number(draw(4) ? ORDINARY : COARSE);
        for (int i = 0; i < K * N; i++)
            b[i] = draw(3 * K) == 0 ? (draw(2) ? INFINITY : -INFINITY) : number(draw(4) ? ORDINARY : COARSE);
        const th_product p = row_major_product(M, N, K, a, b, c);
        run(&machine, &p, 1);
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) {
                double sum = 0;
                for (int k = 0; k < K; k++)
                    sum += (double)a[i * K + k] * (double)b[k * N + j];
                const double got = (double)c[i * N + j];
                if (!(isnan(sum) ? isnan(got) : isinf(sum) ? got == sum : isfinite(got)))
                    ck_abort_msg("element (%d, %d) is %g, not %g", i, j, got, sum);
            }
    }
}
END_TEST

/* -- the caller's floating-point state -- */

#ifdef __x86_64__
static const th_float_state flags = 0x3f, states[] = {
                                              0x3f80, 0x5f80, 0x7f80, /* rounding down, up, to 0 */
                                              0x9fc0,                 /* denormal operands and results are 0 */
                                              0x7fff, /* rounding to 0, denormal operands are 0, all flags raised */
                                              0x1f80, /* the default */
};
#elif defined __wasm32__    /* it has no such state */
static const th_float_state flags = 0, states[] = {0};
#elif defined __riscv       /* rounding down, up, to 0; the last with all flags raised; the default */
static const th_float_state flags = 0x1f, states[] = {2 << 5, 3 << 5, 1 << 5, 1 << 5 | 0x1f, 0};
#elif defined __powerpc64__ /* rounding down, up, to 0; the default */
static const th_float_state flags = 0xfffff700, states[] = {3, 2, 1, 0};
#else
static const th_float_state flags = (th_float_state)0x9f << 32,
                            states[] = {
                                2 << 22,
                                1 << 22,
                                3 << 22, /* rounding down, up, to 0 */
                                1 << 24, /* denormal operands and results are 0 */
                                3 << 22 | 1 << 24 | 1 << 25 |
                                    (th_float_state)0x9f << 32, /* both, default NaN, all flags raised */
                                0,                              /* the default */
};
#endif

/* With any state of the caller, the bits are the same, and the state stays. */
START_TEST(test_bits_in_any_state)
{
    th_machine machine;
    if (!machine_on(_i, &machine))
        return;
    random_state = 7;
    for (int i = 0; i < 60; i++) {
        recipe r = random_recipe(_i);
        r.residual = false; /* bias + residual is an ordinary float32 sum */
        product_case t = case_new(&r);
        expect(&t, parts_of(_i));
        const th_float_state usual = th_float_state_get(), state = PICK(states);
        th_float_state_set(state);
        check(&t, &machine, 1 + (int)draw(2), "in the caller's floating-point state");
        const th_float_state after = th_float_state_get();
        th_float_state_set(usual);
        ck_assert_msg((after | flags) == (state | flags), "the state was %llx and is %llx", (unsigned long long)state,
                      (unsigned long long)after);
        case_free(&t);
    }
}
END_TEST

/* Kernels raise no flag, and no signal if the caller has unmasked exceptions. */
START_TEST(test_kernels_leave_the_state)
{
    enum { M = 13, N = 33, K = 70, STEPS = 96, ROOM = 64 * 64 * STEPS };
    static float a[M * K], b[K * N], c[M * N];
    static _Alignas(64) float packed_a[ROOM], packed_b[ROOM];
    th_machine machine;
    if (!machine_on(_i, &machine))
        return;
    const th_product_kernels *kernels = &machine.products[parts_of(_i) - 1];
    const int64_t elements = STEPS / TH_PART_GROUP * kernels->group_elements;
    const th_product_block block = {.m = M,
                                    .n = N,
                                    .k = K,
                                    .a = packed_a,
                                    .a_panel = kernels->rows * elements,
                                    .a_row = 1,
                                    .a_col = kernels->rows,
                                    .b = packed_b,
                                    .b_panel = kernels->columns * elements,
                                    .b_row = kernels->columns,
                                    .c = c,
                                    .c_row = N};
    random_state = 8;
    for (int i = 0; i < 20; i++) {
        const bool by_rows = draw(2);
        for (int e = 0; e < M * K; e++)
            a[e] = number(ANY);
        for (int e = 0; e < K * N; e++)
            b[e] = number(ANY);
        const th_float_state usual = th_float_state_get();
        th_float_state_set(0); /* no flags, and on x86-64 all exceptions unmasked */
        kernels->pack_a(M, K, a, by_rows ? K : 1, by_rows ? 1 : M, packed_a);
        kernels->pack_b(K, N, b, by_rows ? 1 : N, by_rows ? K : 1, packed_b, block.b_panel);
        kernels->block(&block);
        if (kernels->few_rows) {
            th_product_block few = block;
            few.b = b;
            few.b_panel = K;
            kernels->few_rows(&few);
            kernels->few_rows_stored(&few); /* any bits, too */
        }
        const th_float_state after = th_float_state_get();
        th_float_state_set(usual);
        ck_assert_uint_eq(after, 0);
    }
}
END_TEST

/* -- products without parts -- */

/* bfloat16x3 with few steps is float32, unless the product is part of sums of any length. */
START_TEST(test_untouched)
{
    enum { SIZE = TH_SHORT_SUM };
    static float a[SIZE * SIZE], b[SIZE * SIZE], c[3][SIZE * SIZE];
    th_machine machine;
    if (path_of(_i) < FUSED || !machine_on(_i, &machine))
        return; /* (the baseline leaves them to OpenBLAS, which may be missing) */
    th_machine plain = machine;
    plain.precision = TH_PRECISION_FLOAT32;
    random_state = 9;
    for (int i = 0; i < SIZE * SIZE; i++) {
        a[i] = number(ORDINARY);
        b[i] = number(ORDINARY);
    }
    for (int64_t k = TH_SHORT_SUM - 1; k <= TH_SHORT_SUM; k++) {
        th_product p = row_major_product(SIZE, SIZE, k, a, b, c[0]);
        run(&plain, &p, 1);
        p.c = c[1];
        run(&machine, &p, 1);
        const bool few = parts_of(_i) > 1 && k < TH_SHORT_SUM;
        ck_assert_int_eq(memcmp(c[0], c[1], sizeof c[0]) == 0, few);
        p.c = c[2];
        p.long_sum = true;
        run(&machine, &p, 1);
        ck_assert(memcmp(c[0], c[2], sizeof c[0]) != 0);
    }
}
END_TEST

int main(void)
{
    TCase *bits = new_suite("precision: bits", NULL, NULL);
    tcase_add_loop_test(bits, test_random_products, 0, WAYS);
    tcase_add_loop_test(bits, test_steps, 0, WAYS);
    tcase_add_loop_test(bits, test_few_rows, 0, WAYS);
    tcase_add_loop_test(bits, test_large_products, 0, WAYS);
    tcase_add_loop_test(bits, test_same_bits_everywhere, 0, WAYS);
    tcase_add_loop_test(bits, test_tiny_after_rounding, 0, WAYS);
    tcase_add_loop_test(bits, test_untouched, 0, WAYS);
    TCase *values = new_suite("precision: values", NULL, NULL);
    tcase_add_loop_test(values, test_error, 0, WAYS);
    tcase_add_loop_test(values, test_infinite, 0, WAYS);
    TCase *state = new_suite("precision: the caller's floating-point state", NULL, NULL);
    tcase_add_loop_test(state, test_bits_in_any_state, 0, WAYS);
    tcase_add_loop_test(state, test_kernels_leave_the_state, 0, WAYS);
    return run_suites();
}
