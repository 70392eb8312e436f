/* Products with operands rounded to bfloat16: the rounding itself, every layout against plain loops over rounded
 * numbers, the same bits whatever the team or the batch, on the processor's own dot products and emulated; then the
 * context's switch and what it leaves alone. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guarded.h"
#include "instances.h"
#include "kernels/kernels.h"
#include "kernels/product.h"
#include "kernels/product_block.h"
#include "suite.h"
#include "tapehead/tapehead.h"

/* -- the paths that this processor can run -- */

enum { PATHS = PRODUCT_PATHS };

/* The machine that takes this path; false, with a word, where this processor does not have it. */
static bool machine_on(int path, th_machine *machine)
{
    static const char *const names[PATHS] = {"baseline", "avx2", "avx512", "AVX-512 with BF16", "AMX"};
    *machine = machine_of(path, 1);
    machine->precision = TH_PRECISION_BFLOAT16;
    if (!supported(path))
        printf("skipped: this processor has no %s\n", names[path]);
    return supported(path);
}

/* -- a product by itself -- */

static void run(const th_machine *machine, const th_product *product, int threads)
{
    const size_t bytes = (th_product_workspace(machine, TH_FLOAT32, product, threads) + 63) / 64 * 64;
    void *workspace = memory_end(IN_WORKSPACE, bytes);
    memset(workspace, 0xff, bytes < 1 << 20 ? bytes : 1 << 20); /* NaN: nothing may depend on what was there */
    th_product_run(machine, TH_FLOAT32, product, threads, workspace);
}

/* -- rounding -- */

static float from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* By definition: of the two neighbours with 8 bits of precision the nearer one, or the even one. */
static float rounded(float x)
{
    if (isnan(x) || isinf(x))
        return x;
    if (fabsf(x) < FLT_MIN)
        return 0;
    const double largest = (double)from_bits(0x7f7f0000);
    if (fabs((double)x) > largest)
        return (float)copysign(largest, (double)x);
    int exponent;
    const double mantissa = frexp((double)x, &exponent); /* in [1/2, 1) */
    return (float)ldexp(nearbyint(ldexp(mantissa, 8)), exponent - 8);
}

/* x as a product sees it: alone, times 1; as left or right operand, with steps or rows next to each other. */
static float through_product(const th_machine *machine, float x, bool left, bool steps)
{
    float operand[2] = {x, x}, one = 1, c[2] = {0};
    th_product p = {.m = left && !steps ? 2 : 1, .n = !left && !steps ? 2 : 1, .k = 1, .a = &one, .b = &one, .c = c};
    p.a_row = p.b_col = p.c_row = p.c_col = 1;
    p.a_col = p.b_row = steps ? 1 : 2;
    *(left ? &p.a : &p.b) = operand;
    run(machine, &p, 1);
    return c[0];
}

static bool same_number(float x, float y)
{
    return (isnan(x) && isnan(y)) || x == y;
}

START_TEST(test_rounding)
{
    th_machine machine;
    if (!machine_on(_i, &machine))
        return;
    static const struct {
        uint32_t from, to;
    } known[] = {
        {0x3f800000, 0x3f800000},                           /* 1 */
        {0x3f808000, 0x3f800000},                           /* a tie goes to the even neighbour: down, */
        {0x3f818000, 0x3f820000},                           /* up */
        {0x3f808001, 0x3f810000},                           /* above and below a tie */
        {0x3f817fff, 0x3f810000}, {0x3fffffff, 0x40000000}, /* into the next exponent */
        {0xbf818000, 0xbf820000}, {0x7f7f0000, 0x7f7f0000}, /* the largest bfloat16 number */
        {0x7f7f7fff, 0x7f7f0000}, {0x7f7f8000, 0x7f7f0000}, /* and what is nearer to the next, */
        {0xff7fffff, 0xff7f0000}, {0x7f800000, 0x7f800000}, {0xff800000, 0xff800000},
        {0x7fc00000, 0x7fc00000},                                   /* NaN, */
        {0x7f800001, 0x7fc00000},                                   /* also where only the lower half says so */
        {0xffffffff, 0x7fc00000}, {0x00800000, 0x00800000},         /* the smallest normal number */
        {0x007fffff, 0},          {0x807fffff, 0},          {1, 0}, /* below it */
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (int way = 0; way < 4; way++) {
            const float x = from_bits(known[i].from), got = through_product(&machine, x, way & 1, way & 2);
            if (!same_number(got, from_bits(known[i].to)))
                ck_abort_msg("%08x (way %d) becomes %a, not %a", known[i].from, way, (double)got,
                             (double)from_bits(known[i].to));
        }
    random_state = 1;
    for (int i = 0; i < 20000; i++) {
        const float x = from_bits((uint32_t)draw((int64_t)1 << 31) << 1 | (uint32_t)draw(2));
        const float got = through_product(&machine, x, i & 1, i & 2);
        if (!same_number(got, rounded(x)))
            ck_abort_msg("%a (way %d) becomes %a, not %a", (double)x, i & 3, (double)got, (double)rounded(x));
    }
}
END_TEST

/* -- products -- */

/* How a matrix lies: strides, the first element's place and the span of all. */
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

/* The first element of a matrix of ordinary numbers. */
static float *lay(int purpose, const layout *l)
{
    float *memory = memory_end(purpose, (size_t)l->span * sizeof(float));
    for (int64_t i = 0; i < l->span; i++)
        memory[i] = (float)(draw(1 << 24) - (1 << 23)) / (1 << 22);
    return memory + l->origin;
}

typedef struct recipe {
    int64_t m, n, k;
    arrangement a, b, c;
    bool add, bias;
} recipe;

static recipe random_recipe(void)
{
    static const int64_t rows[] = {0, 1, 2, 3, 5, 6, 7, 11, 12, 13, 23, 24, 25, 47, 95, 96, 97, 131};
    static const int64_t columns[] = {0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 64, 65, 97, 129, 257};
    static const int64_t steps[] = {0, 1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 34, 47, 63, 64, 65, 67, 127};
    return (recipe){.m = PICK(rows),
                    .n = PICK(columns),
                    .k = PICK(steps),
                    .a = (arrangement)draw(ARRANGEMENTS),
                    .b = (arrangement)draw(ARRANGEMENTS),
                    .c = (arrangement)draw(SAME_ROW),
                    .add = draw(3) == 0,
                    .bias = draw(3) == 0};
}

typedef struct product_case {
    th_product product;
    layout c;
    float *before; /* (c.span) */
} product_case;

static product_case case_new(const recipe *r)
{
    const layout a = arrange(r->a, r->m, r->k), b = arrange(r->b, r->k, r->n), bias = {.span = r->n};
    product_case t = {.c = arrange(r->c, r->m, r->n)};
    t.product = (th_product){.m = r->m,
                             .n = r->n,
                             .k = r->k,
                             .a = lay(IN_A, &a),
                             .a_row = a.row,
                             .a_col = a.column,
                             .b = lay(IN_B, &b),
                             .b_row = b.row,
                             .b_col = b.column,
                             .c = lay(IN_C, &t.c),
                             .c_row = t.c.row,
                             .c_col = t.c.column,
                             .add = r->add && !r->bias,
                             .bias = r->bias ? lay(IN_BIAS, &bias) : NULL};
    t.before = malloc((size_t)t.c.span * sizeof(float) + 1);
    ck_assert_ptr_nonnull(t.before);
    memcpy(t.before, (float *)t.product.c - t.c.origin, (size_t)t.c.span * sizeof(float));
    return t;
}

/* Runs it on C as it was before. */
static void case_run(const product_case *t, const th_machine *machine, int threads)
{
    memcpy((float *)t->product.c - t->c.origin, t->before, (size_t)t->c.span * sizeof(float));
    run(machine, &t->product, threads);
}

/* Every element, or `samples` of them where that is not 0, within 1e-6 of the sum of all terms' absolute values. */
static void check_values(const product_case *t, int64_t samples, const char *text)
{
    const th_product *p = &t->product;
    const int64_t elements = p->m * p->n, count = samples > 0 && samples < elements ? samples : elements;
    for (int64_t e = 0; e < count; e++) {
        const int64_t at = count < elements ? draw(elements) : e, i = at / p->n, j = at % p->n;
        const int64_t c = i * p->c_row + j * p->c_col;
        double sum = p->add ? (double)t->before[t->c.origin + c] : p->bias ? (double)((const float *)p->bias)[j] : 0;
        double magnitude = fabs(sum);
        for (int64_t k = 0; k < p->k; k++) {
            const double term = (double)rounded(((const float *)p->a)[i * p->a_row + k * p->a_col]) *
                                (double)rounded(((const float *)p->b)[k * p->b_row + j * p->b_col]);
            sum += term;
            magnitude += fabs(term);
        }
        const double got = (double)((const float *)p->c)[c];
        if (!(fabs(got - sum) <= 1e-6 * magnitude))
            ck_abort_msg("%s: (%ld, %ld, %ld), element (%ld, %ld) is %.9g, not %.9g", text, (long)p->m, (long)p->n,
                         (long)p->k, (long)i, (long)j, got, sum);
    }
}

static void check_case(const recipe *r, const th_machine *machine, int threads, int64_t samples, const char *text)
{
    product_case t = case_new(r);
    case_run(&t, machine, threads);
    check_values(&t, samples, text);
    free(t.before);
}

START_TEST(test_random_products)
{
    th_machine machine;
    if (!machine_on(_i, &machine))
        return;
    random_state = 2;
    for (int i = 0; i < 300; i++) {
        const recipe r = random_recipe();
        check_case(&r, &machine, 1 + (int)draw(4), 500, "random");
    }
}
END_TEST

/* Several blocks of k, passes over B and tasks. */
START_TEST(test_large_products)
{
    static const recipe large[] = {
        {.m = 131, .n = 997, .k = 1301, .b = COLUMNS, .bias = true}, {.m = 1, .n = 3001, .k = 513, .b = COLUMNS},
        {.m = 257, .n = 190, .k = 1537, .a = COLUMNS, .add = true},  {.m = 700, .n = 65, .k = 384, .c = PADDED},
        {.m = 300, .n = 101, .k = 511, .c = COLUMNS, .bias = true},  {.m = 13, .n = 33, .k = 5001, .a = COLUMNS},
        {.m = 97, .n = 3200, .k = 71, .a = SPREAD, .b = SPREAD},     {.m = 500, .n = 1, .k = 900},
    };
    th_machine machine;
    if (!machine_on(_i, &machine))
        return;
    random_state = 3;
    for (int i = 0; i < (int)(sizeof large / sizeof *large); i++)
        check_case(&large[i], &machine, 1 + i % 4, 60, "large");
}
END_TEST

/* No bit depends on the team, nor on how the operands lie. */
START_TEST(test_same_bits_for_any_team_and_layout)
{
    enum { M = 200, N = 130, K = 601 };
    th_machine machine;
    if (!machine_on(_i, &machine))
        return;
    static float a[M * K], at[M * K], b[K * N], bt[K * N], first[M * N], c[M * N];
    random_state = 4;
    for (int i = 0; i < M; i++)
        for (int k = 0; k < K; k++)
            a[i * K + k] = at[k * M + i] = (float)(draw(1 << 24) - (1 << 23)) / (1 << 22);
    for (int k = 0; k < K; k++)
        for (int j = 0; j < N; j++)
            b[k * N + j] = bt[j * K + k] = (float)(draw(1 << 24) - (1 << 23)) / (1 << 22);
    for (int way = 0; way < 8; way++) {
        const bool turn_a = way & 1, turn_b = way & 2;
        const th_product p = {.m = M,
                              .n = N,
                              .k = K,
                              .a = turn_a ? at : a,
                              .a_row = turn_a ? 1 : K,
                              .a_col = turn_a ? M : 1,
                              .b = turn_b ? bt : b,
                              .b_row = turn_b ? 1 : N,
                              .b_col = turn_b ? K : 1,
                              .c = way == 0 ? first : c,
                              .c_row = N,
                              .c_col = 1};
        run(&machine, &p, 1 + way % 4);
        ck_assert_mem_eq(p.c, first, sizeof first);
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

/* Emulated, they are products of rounded operands like any other: the same bits with any fused multiply-add. */
START_TEST(test_emulations_agree)
{
    th_machine avx2, avx512;
    if (!machine_on(AVX2, &avx2) || !machine_on(AVX512, &avx512))
        return;
    random_state = 5;
    for (int i = 0; i < 50; i++) {
        const recipe r = random_recipe();
        product_case t = case_new(&r);
        const size_t bytes = (size_t)t.c.span * sizeof(float);
        float *all = (float *)t.product.c - t.c.origin, *first = malloc(bytes + 1);
        ck_assert_ptr_nonnull(first);
        case_run(&t, &avx2, 2);
        memcpy(first, all, bytes);
        case_run(&t, &avx512, 1);
        ck_assert(memcmp(all, first, bytes) == 0);
        free(first);
        free(t.before);
    }
}
END_TEST

/* One NaN and one infinity reach exactly the rows and columns they belong to. */
START_TEST(test_not_finite)
{
    th_machine machine;
    if (!machine_on(_i, &machine))
        return;
    random_state = 6;
    for (int i = 0; i < 40; i++) {
        const recipe r = {.m = 1 + draw(40),
                          .n = 1 + draw(70),
                          .k = 1 + draw(40),
                          .a = (arrangement)draw(2),
                          .b = (arrangement)draw(2)};
        product_case t = case_new(&r);
        const th_product *p = &t.product;
        const int64_t row = draw(r.m), column = draw(r.n);
        ((float *)(uintptr_t)p->a)[row * p->a_row + draw(r.k) * p->a_col] = NAN;
        ((float *)(uintptr_t)p->b)[column * p->b_col + draw(r.k) * p->b_row] = INFINITY;
        case_run(&t, &machine, 1);
        for (int64_t x = 0; x < r.m; x++)
            for (int64_t y = 0; y < r.n; y++) {
                const float got = ((const float *)p->c)[x * p->c_row + y * p->c_col];
                if (!(x == row ? isnan(got) : y == column ? !isfinite(got) : isfinite(got)))
                    ck_abort_msg("element (%ld, %ld) is %g", (long)x, (long)y, (double)got);
            }
        free(t.before);
    }
}
END_TEST

/* -- the context -- */

#define RUNS(status) ck_assert_msg((status) == TH_OK, "%s", th_error_message(ctx))

static th_context *open_context(bool rounded)
{
    th_context *ctx = th_context_new(
        &(th_context_options){.seed = 7, .precision = rounded ? TH_PRECISION_BFLOAT16 : TH_PRECISION_FLOAT32});
    ck_assert_ptr_nonnull(ctx);
    RUNS(th_error_code(ctx));
    return ctx;
}

START_TEST(test_switch)
{
    unsetenv("TAPEHEAD_ISA");
    th_context *ctx = open_context(false);
    ck_assert_int_eq(th_precision_of(ctx), TH_PRECISION_FLOAT32);
    ck_assert_ptr_null(strstr(th_build_info(ctx), "precision"));
    RUNS(th_set_precision(ctx, TH_PRECISION_BFLOAT16));
    ck_assert_int_eq(th_precision_of(ctx), TH_PRECISION_BFLOAT16);
    ck_assert_ptr_nonnull(strstr(th_build_info(ctx), " precision=bfloat16 products="));
    RUNS(th_set_precision(ctx, TH_PRECISION_FLOAT32));
    ck_assert_int_eq(th_precision_of(ctx), TH_PRECISION_FLOAT32);
    ck_assert_int_eq(th_set_precision(ctx, (th_precision)17), TH_ERROR_ARGUMENT);
    ck_assert_int_eq(th_precision_of(ctx), TH_PRECISION_FLOAT32);
    th_context_free(ctx);
    ctx = open_context(true);
    ck_assert_int_eq(th_precision_of(ctx), TH_PRECISION_BFLOAT16);
    th_context_free(ctx);
    ck_assert_int_eq(th_set_precision(NULL, TH_PRECISION_BFLOAT16), TH_ERROR_ARGUMENT);
    ck_assert_int_eq(th_precision_of(NULL), TH_PRECISION_FLOAT32);
}
END_TEST

/* Results of operands that bfloat16 does not hold, as sums of squares. */
typedef double operation(th_context *ctx, th_dtype dtype);

static double square_sum(th_tensor *y)
{
    return th_item(th_cast(th_mse(y, th_scale(y, 0)), TH_FLOAT64));
}

static th_tensor *operand(th_context *ctx, th_dtype dtype, int64_t rows, int64_t columns)
{
    return th_set_requires_gradient(th_uniform(ctx, dtype, TH_SHAPE(rows, columns), -1, 1), true);
}

static double matmul(th_context *ctx, th_dtype dtype)
{
    return square_sum(th_matmul(operand(ctx, dtype, 7, 9), operand(ctx, dtype, 9, 5)));
}

static double dense(th_context *ctx, th_dtype dtype)
{
    return square_sum(th_dense(operand(ctx, dtype, 7, 9), operand(ctx, dtype, 5, 9), NULL));
}

static double dense_gradients(th_context *ctx, th_dtype dtype)
{
    th_tensor *x = operand(ctx, dtype, 7, 9), *w = operand(ctx, dtype, 5, 9);
    th_tensor *cotangent = th_uniform(ctx, dtype, TH_SHAPE(7, 5), -1, 1);
    RUNS(th_backward_with(th_dense(x, w, NULL), &(th_backward_options){.cotangent = cotangent}));
    return square_sum(th_gradient(x)) + square_sum(th_gradient(w));
}

static double masked_matmul(th_context *ctx, th_dtype dtype)
{
    th_tensor *keep = th_full(ctx, TH_BOOL, TH_SHAPE(7, 9), 1);
    return square_sum(th_masked_matmul(operand(ctx, dtype, 7, 9), operand(ctx, dtype, 9, 5), keep, TH_MASK_LEFT));
}

static double attention(th_context *ctx, th_dtype dtype)
{
    return square_sum(th_scaled_dot_product_attention(operand(ctx, dtype, 7, 9), operand(ctx, dtype, 6, 9),
                                                      operand(ctx, dtype, 6, 5), NULL));
}

static bool changes(operation *compute, th_dtype dtype)
{
    double result[2];
    for (int on = 0; on < 2; on++) {
        th_context *ctx = open_context(on);
        result[on] = compute(ctx, dtype);
        RUNS(th_error_code(ctx));
        ck_assert(isfinite(result[on]) && result[on] > 0);
        th_context_free(ctx);
    }
    if (result[0] != result[1])
        ck_assert_double_eq_tol(result[0], result[1], 1e-2 * result[0]);
    return result[0] != result[1];
}

START_TEST(test_what_it_changes)
{
    ck_assert(changes(matmul, TH_FLOAT32));
    ck_assert(changes(dense, TH_FLOAT32));
    ck_assert(changes(dense_gradients, TH_FLOAT32));
    ck_assert(changes(masked_matmul, TH_FLOAT32));
    ck_assert(changes(attention, TH_FLOAT32));
    ck_assert(!changes(matmul, TH_FLOAT64));
    ck_assert(!changes(dense_gradients, TH_FLOAT64));
    ck_assert(!changes(attention, TH_FLOAT64));
}
END_TEST

/* One operation of each kind that multiplies, recorded in one mode; then the switch is thrown before backward. */
enum { TOKENS = 70, WIDTH_OF_X = 24, CLASSES = 50, GRADIENT = TOKENS * WIDTH_OF_X + CLASSES * WIDTH_OF_X };

static th_tensor *recorded(th_context *ctx, int kind, th_tensor *x, th_tensor *w)
{
    th_tensor *targets = th_random_integers(ctx, TH_INT64, TH_SHAPE(TOKENS), 0, CLASSES);
    switch (kind) {
    case 0:
        return th_mse(th_dense(x, w, NULL), th_zeros(ctx, TH_FLOAT32, TH_SHAPE(TOKENS, CLASSES)));
    case 1:
        return th_mse(th_matmul(x, th_swap_axes(w, 0, 1)), th_zeros(ctx, TH_FLOAT32, TH_SHAPE(TOKENS, CLASSES)));
    case 2: /* with early gradients */
        return th_dense_cross_entropy(x, w, targets, NULL);
    default: /* the second finds their memory taken: its logits are recomputed */
        return th_add(th_dense_cross_entropy(x, w, targets, NULL), th_dense_cross_entropy(x, w, targets, NULL));
    }
}

static void gradients_of(int kind, bool forward, bool backward, float *gradients /* (GRADIENT) */)
{
    th_context *ctx = open_context(forward);
    th_tensor *x = operand(ctx, TH_FLOAT32, TOKENS, WIDTH_OF_X), *w = operand(ctx, TH_FLOAT32, CLASSES, WIDTH_OF_X);
    th_tensor *loss = recorded(ctx, kind, x, w);
    RUNS(th_set_precision(ctx, backward ? TH_PRECISION_BFLOAT16 : TH_PRECISION_FLOAT32));
    RUNS(th_backward(loss));
    ck_assert((th_precision_of(ctx) != TH_PRECISION_FLOAT32) == backward);
    RUNS(th_copy_out(th_gradient(x), gradients, TOKENS * WIDTH_OF_X * sizeof(float)));
    RUNS(th_copy_out(th_gradient(w), gradients + TOKENS * WIDTH_OF_X, CLASSES * WIDTH_OF_X * sizeof(float)));
    th_context_free(ctx);
}

START_TEST(test_backward_rounds_as_its_forward_did)
{
    float expected[GRADIENT], other[GRADIENT], switched[GRADIENT];
    for (int forward = 0; forward < 2; forward++) {
        gradients_of(_i, forward, forward, expected);
        gradients_of(_i, forward, !forward, switched);
        ck_assert_mem_eq(switched, expected, sizeof expected);
        gradients_of(_i, !forward, !forward, other);
        ck_assert_mem_ne(other, expected, sizeof expected);
    }
}
END_TEST

/* A row that nothing came back to takes no part in dW, whatever it holds: not even a number that only rounding makes
 * infinite. */
START_TEST(test_hidden_rows)
{
    enum { ROWS_OF_X = 30, IN = 8, OUT = 5 };
    static const float hidden[] = {1, NAN, INFINITY, FLT_MAX, -3.397e38f};
    th_context *ctx = open_context(true);
    th_tensor *x = th_uniform(ctx, TH_FLOAT32, TH_SHAPE(ROWS_OF_X, IN), -1, 1), *w = operand(ctx, TH_FLOAT32, OUT, IN);
    th_tensor *cotangent = th_uniform(ctx, TH_FLOAT32, TH_SHAPE(ROWS_OF_X, OUT), -1, 1);
    memset((float *)th_data(cotangent) + 7 * OUT, 0, OUT * sizeof(float));
    float gradient[OUT * IN], first[OUT * IN];
    for (int i = 0; i < (int)(sizeof hidden / sizeof *hidden); i++) {
        ((float *)th_data(x))[7 * IN + 3] = hidden[i];
        RUNS(th_backward_with(th_dense(x, w, NULL), &(th_backward_options){.cotangent = cotangent}));
        RUNS(th_copy_out(th_gradient(w), gradient, sizeof gradient));
        th_tape_clear(ctx);
        th_empty_gradient(w);
        if (i == 0)
            memcpy(first, gradient, sizeof first);
        ck_assert_mem_eq(gradient, first, sizeof first);
    }
    th_context_free(ctx);
}
END_TEST

enum { STEPS = 30 };

/* Losses of two layers that learn to reproduce a product. */
static void train(bool rounded, double *losses /* (STEPS) */)
{
    th_context *ctx = open_context(rounded);
    th_module *first = th_dense_new(ctx, 12, 32, NULL), *second = th_dense_new(ctx, 32, 3, NULL);
    th_optimizer *optimizers[] = {th_adam_new(first, &(th_adam_options){.learning_rate = 0.01}),
                                  th_adam_new(second, &(th_adam_options){.learning_rate = 0.01})};
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(40, 12)),
              *y = th_uniform(ctx, TH_FLOAT32, TH_SHAPE(40, 3), -1, 1);
    for (int step = 0; step < STEPS; step++) {
        th_tensor *loss = th_mse(th_module_forward(second, th_tanh(th_module_forward(first, x))), y);
        losses[step] = th_item(loss);
        RUNS(th_backward(loss));
        for (int i = 0; i < 2; i++)
            RUNS(th_optimizer_step(optimizers[i]));
        th_tape_clear(ctx);
    }
    for (int i = 0; i < 2; i++)
        th_optimizer_free(optimizers[i]);
    th_context_free(ctx);
}

START_TEST(test_training)
{
    static const char *const isas[] = {"baseline", "avx2", "avx512"};
    double expected[STEPS], losses[STEPS];
    train(false, expected);
    ck_assert_double_lt(expected[STEPS - 1], 0.7 * expected[0]);
    for (int i = 0; i < 3; i++) {
        th_machine machine;
        setenv("TAPEHEAD_ISA", isas[i], 1);
        if (th_machine_detect(&machine) != NULL) {
            printf("skipped: no %s\n", isas[i]);
            continue;
        }
        train(true, losses);
        ck_assert_mem_ne(losses, expected, sizeof losses);
        for (int step = 0; step < STEPS; step++)
            ck_assert_double_eq_tol(losses[step], expected[step], 1e-2 * expected[step]);
    }
    unsetenv("TAPEHEAD_ISA");
}
END_TEST

int main(void)
{
    TCase *products = new_suite("bfloat16: products", NULL, NULL);
    tcase_add_loop_test(products, test_rounding, 0, PATHS);
    tcase_add_loop_test(products, test_random_products, 0, PATHS);
    tcase_add_loop_test(products, test_large_products, 0, PATHS);
    tcase_add_loop_test(products, test_same_bits_for_any_team_and_layout, 0, PATHS);
    tcase_add_test(products, test_emulations_agree);
    tcase_add_loop_test(products, test_not_finite, 0, PATHS);
    TCase *context = new_suite("bfloat16: context", NULL, NULL);
    tcase_add_test(context, test_switch);
    tcase_add_test(context, test_what_it_changes);
    tcase_add_loop_test(context, test_backward_rounds_as_its_forward_did, 0, 4);
    tcase_add_test(context, test_hidden_rows);
    tcase_add_test(context, test_training);
    return run_suites();
}
