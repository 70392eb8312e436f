/* Matrix products against their definition: every element is one sequence of fused multiply-adds over k, in blocks of
 * TH_PRODUCT_BLOCK. It must have the same bits with every driver, layout, batch, team and instruction set. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guarded.h"
#include "instances.h"
#include "kernels/kernels.h"
#include "kernels/machine/openblas.h"
#include "kernels/products/product.h"
#include "memory.h"
#include "suite.h"

/* One machine for every instruction set of this processor with fused multiply-add. */
static int machines(th_machine *list)
{
    int count = 0;
    for (int isa = FUSED; isa < ISAS && supported(isa); isa++)
        list[count++] = machine_of(isa, 2);
    if (count == 0)
        printf("skipped: native products need a processor with fused multiply-add\n");
    return count;
}

static double get(th_dtype dtype, const void *base, int64_t offset)
{
    return dtype == TH_FLOAT64 ? ((const double *)base)[offset] : (double)((const float *)base)[offset];
}

static void put(th_dtype dtype, void *base, int64_t offset, double value)
{
    if (dtype == TH_FLOAT64)
        ((double *)base)[offset] = value;
    else
        ((float *)base)[offset] = (float)value;
}

/* The layout of an operand: batch strides, row and column stride, the offset of element (0, ..., 0), and the span of
 * all. */
typedef struct layout {
    int64_t row, column, batch[TH_PRODUCT_BATCH_DIMS];
    int64_t origin, span;
} layout;

typedef enum arrangement { ROWS, COLUMNS, PADDED, REVERSED, SPREAD, SAME_ROW, SAME_COLUMN, ARRANGEMENTS } arrangement;

static layout arrange(arrangement how, int64_t rows, int64_t columns, int batch_dims, const int64_t *batch,
                      int repeated)
{
    layout l = {0};
    const int64_t pad = how == PADDED ? 3 : how == SPREAD ? 2 : 0;
    l.row = columns + pad;
    l.column = 1;
    if (how == COLUMNS) {
        l.row = 1;
        l.column = rows;
    } else if (how == REVERSED) {
        l.row = -columns - 2;
    } else if (how == SPREAD) {
        l.column = -2;
        l.row = 2 * columns + pad;
    } else if (how == SAME_ROW) {
        l.row = 0;
    } else if (how == SAME_COLUMN) {
        l.row = 1;
        l.column = 0;
    }
    int64_t low = 0, high = 0;
    const int64_t strides[2] = {l.row, l.column}, sizes[2] = {rows, columns};
    for (int d = 0; d < 2; d++) {
        const int64_t reach = sizes[d] > 0 ? (sizes[d] - 1) * strides[d] : 0;
        low += reach < 0 ? reach : 0;
        high += reach > 0 ? reach : 0;
    }
    int64_t stride = how == ROWS || how == COLUMNS ? rows * columns : high - low + 1 + pad;
    int64_t reach = 0;
    for (int d = batch_dims - 1; d >= 0; d--) {
        const bool same = repeated >> d & 1;
        l.batch[d] = same ? 0 : stride;
        reach += batch[d] > 0 ? (batch[d] - 1) * l.batch[d] : 0;
        stride *= same || batch[d] == 0 ? 1 : batch[d];
    }
    l.origin = -low;
    l.span = high - low + 1 + reach;
    return l;
}

typedef enum numbers { ORDINARY, SPECIAL } numbers;

static void fill(th_dtype dtype, void *base, int64_t count, numbers kind)
{
    const double tiny = dtype == TH_FLOAT64 ? DBL_MIN : FLT_MIN;
    const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, tiny / 4, -tiny, 1e30};
    for (int64_t i = 0; i < count; i++)
        put(dtype, base, i,
            kind == SPECIAL && draw(64) == 0
                ? PICK(special)
                : (double)(draw(1 << 24) - (1 << 23)) / (1 << 22) * (kind == SPECIAL && draw(4) == 0 ? tiny : 1));
}

/* A product with its operands, and the old contents of C. */
typedef struct product_case {
    th_dtype dtype;
    th_product product;
    layout a, b, c;
    void *all_of_c; /* (c.span) */
    void *before;   /* (c.span) */
} product_case;

static void *allocate_matrix(int purpose, th_dtype dtype, const layout *l, numbers kind)
{
    const size_t size = th_dtype_size(dtype);
    char *start = memory_end(purpose, (size_t)l->span * size);
    fill(dtype, start, l->span, kind);
    return start + (size_t)l->origin * size;
}

/* How to make a case. */
typedef struct recipe {
    th_dtype dtype;
    int64_t m, n, k;
    arrangement a, b, c;
    bool add, bias;
    numbers kind;
    int batch_dims;
    int64_t batch[TH_PRODUCT_BATCH_DIMS];
    int a_repeated, b_repeated; /* bit d: the same for all of batch dimension d */
} recipe;

static product_case case_new(const recipe *r)
{
    product_case t = {.dtype = r->dtype};
    t.a = arrange(r->a, r->m, r->k, r->batch_dims, r->batch, r->a_repeated);
    t.b = arrange(r->b, r->k, r->n, r->batch_dims, r->batch, r->b_repeated);
    t.c = arrange(r->c, r->m, r->n, r->batch_dims, r->batch, 0);
    th_product *p = &t.product;
    p->m = r->m, p->n = r->n, p->k = r->k;
    p->a = allocate_matrix(IN_A, r->dtype, &t.a, r->kind), p->a_row = t.a.row, p->a_col = t.a.column;
    p->b = allocate_matrix(IN_B, r->dtype, &t.b, r->kind), p->b_row = t.b.row, p->b_col = t.b.column;
    p->c = allocate_matrix(IN_C, r->dtype, &t.c, r->kind), p->c_row = t.c.row, p->c_col = t.c.column;
    const layout bias = {.span = r->n};
    p->bias = allocate_matrix(IN_BIAS, r->dtype, &bias, r->kind);
    p->add = r->add && !r->bias;
    if (!r->bias)
        p->bias = NULL;
    p->batch_dims = r->batch_dims;
    for (int d = 0; d < r->batch_dims; d++) {
        p->batch[d] = r->batch[d];
        p->a_batch[d] = t.a.batch[d];
        p->b_batch[d] = t.b.batch[d];
        p->c_batch[d] = t.c.batch[d];
    }
    const size_t bytes = (size_t)t.c.span * th_dtype_size(r->dtype);
    t.before = malloc(bytes + 1);
    ck_assert_ptr_nonnull(t.before);
    t.all_of_c = (char *)p->c - (size_t)t.c.origin * th_dtype_size(r->dtype);
    memcpy(t.before, t.all_of_c, bytes);
    return t;
}

static void case_free(product_case *t)
{
    free(t->before);
}

/* Runs the product on the old C, in a workspace of exactly the requested size. */
static void case_run(const product_case *t, const th_machine *machine, int threads)
{
    memcpy(t->all_of_c, t->before, (size_t)t->c.span * th_dtype_size(t->dtype));
    const size_t bytes = (th_product_workspace(machine, t->dtype, &t->product, threads) + 63) / 64 * 64;
    void *workspace = memory_end(IN_WORKSPACE, bytes);
    memset(workspace, 0xff, bytes < 1 << 20 ? bytes : 1 << 20); /* NaN: no result may depend on old contents */
    th_product_run(machine, t->dtype, &t->product, threads, workspace);
}

/* Returns a b + c, rounded once. (The functions of musl before 1.2.5 return 0 if a b rounds to -0 and c is 0.) */
static double fused(th_dtype dtype, double a, double b, double c)
{
    if (c == 0 && a != 0 && b != 0)
        return dtype == TH_FLOAT64 ? a * b : (double)((float)a * (float)b);
    return dtype == TH_FLOAT64 ? fma(a, b, c) : (double)fmaf((float)a, (float)b, (float)c);
}

/* The definition. magnitude (or NULL) becomes the sum of the absolute values of all products. */
static double expected(const product_case *t, const int64_t *at, int64_t i, int64_t j, double *magnitude)
{
    const th_product *p = &t->product;
    int64_t a = i * p->a_row, b = j * p->b_col, c = t->c.origin + i * p->c_row + j * p->c_col;
    for (int d = 0; d < p->batch_dims; d++) {
        a += at[d] * p->a_batch[d];
        b += at[d] * p->b_batch[d];
        c += at[d] * p->c_batch[d];
    }
    double sum = p->add ? get(t->dtype, t->before, c) : p->bias ? get(t->dtype, p->bias, j) : 0, size = fabs(sum);
    for (int64_t block = 0; block < p->k; block += TH_PRODUCT_BLOCK) {
        const int64_t end = block + TH_PRODUCT_BLOCK < p->k ? block + TH_PRODUCT_BLOCK : p->k;
        double block_sum = 0;
        for (int64_t k = block; k < end; k++) {
            const double x = get(t->dtype, p->a, a + k * p->a_col), y = get(t->dtype, p->b, b + k * p->b_row);
            block_sum = fused(t->dtype, x, y, block_sum);
            size += fabs(x * y);
        }
        if (block == 0 && !p->add && !p->bias)
            sum = block_sum;
        else
            sum = t->dtype == TH_FLOAT64 ? sum + block_sum : (double)((float)sum + (float)block_sum);
    }
    if (magnitude)
        *magnitude = size;
    return sum;
}

static bool same_bits(double x, double y)
{
    return (isnan(x) && isnan(y)) || (x == y && signbit(x) == signbit(y));
}

static void describe(const product_case *t, const th_machine *machine, int threads, char *text, size_t size)
{
    const th_product *p = &t->product;
    snprintf(text, size,
             "%s isa %s threads %d: (%ld, %ld, %ld), a %ld %ld, b %ld %ld, c %ld %ld, add %d, bias %d, batch dims %d",
             th_dtype_name(t->dtype), machine->isa->name, threads, (long)p->m, (long)p->n, (long)p->k, (long)p->a_row,
             (long)p->a_col, (long)p->b_row, (long)p->b_col, (long)p->c_row, (long)p->c_col, p->add, p->bias != NULL,
             p->batch_dims);
}

/* Compares one element. tolerance 0: equal bits; otherwise this many epsilons of the magnitude, and more for long
 * sums. */
static void check_element(const product_case *t, const int64_t *at, int64_t i, int64_t j, double tolerance,
                          const char *text)
{
    int64_t c = t->c.origin + i * t->product.c_row + j * t->product.c_col;
    for (int d = 0; d < t->product.batch_dims; d++)
        c += at[d] * t->product.c_batch[d];
    const double got = get(t->dtype, t->all_of_c, c);
    double magnitude;
    const double want = expected(t, at, i, j, &magnitude);
    const double epsilon = t->dtype == TH_FLOAT64 ? DBL_EPSILON : (double)FLT_EPSILON;
    const bool ok = tolerance > 0
                        ? fabs(got - want) <= tolerance * (1 + (double)t->product.k / 16) * epsilon * magnitude
                        : same_bits(got, want);
    if (!ok) /* (a passed assertion writes to a pipe: too slow for every element) */
        ck_abort_msg("%s: element (%ld, %ld) is %a, not %a", text, (long)i, (long)j, got, want);
}

/* Compares every element of every product, or `samples` of them if that is not 0. */
static void check_values(const product_case *t, double tolerance, int samples, const char *text)
{
    const th_product *p = &t->product;
    int64_t items = p->m > 0 && p->n > 0;
    for (int d = 0; d < p->batch_dims; d++)
        items *= p->batch[d];
    const int64_t elements = items * p->m * p->n;
    for (int64_t e = 0; e < (samples > 0 && elements > samples ? samples : elements); e++) {
        int64_t index = samples > 0 && elements > samples ? draw(elements) : e, at[TH_PRODUCT_BATCH_DIMS];
        const int64_t j = index % p->n, i = index / p->n % p->m;
        index /= p->n * p->m;
        for (int d = p->batch_dims - 1; d >= 0; d--) {
            at[d] = index % p->batch[d];
            index /= p->batch[d];
        }
        check_element(t, at, i, j, tolerance, text);
    }
}

/* Marks the elements of C; all others must be unchanged. */
static void check_surroundings(const product_case *t, const char *text)
{
    const th_product *p = &t->product;
    bool *inside = calloc((size_t)t->c.span, sizeof *inside);
    ck_assert_ptr_nonnull(inside);
    int64_t items = p->m > 0 && p->n > 0;
    for (int d = 0; d < p->batch_dims; d++)
        items *= p->batch[d];
    for (int64_t e = 0; e < items * p->m * p->n; e++) {
        int64_t index = e / (p->m * p->n), c = t->c.origin + e / p->n % p->m * p->c_row + e % p->n * p->c_col;
        for (int d = p->batch_dims - 1; d >= 0; d--) {
            c += index % p->batch[d] * p->c_batch[d];
            index /= p->batch[d];
        }
        inside[c] = true;
    }
    for (int64_t i = 0; i < t->c.span; i++)
        if (!inside[i] && !same_bits(get(t->dtype, t->all_of_c, i), get(t->dtype, t->before, i)))
            ck_abort_msg("%s: memory beside C was written", text);
    free(inside);
}

static void check_case(const recipe *r, const th_machine *machine, int threads, double tolerance, int samples)
{
    product_case t = case_new(r);
    char text[300];
    describe(&t, machine, threads, text, sizeof text);
    case_run(&t, machine, threads);
    check_values(&t, tolerance, samples, text);
    check_surroundings(&t, text);
    case_free(&t);
}

static const int64_t some_rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 23, 24, 25, 31, 47, 95, 96, 97, 101};
static const int64_t some_columns[] = {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 97, 129};
static const int64_t some_steps[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 67, 127};

static recipe random_recipe(th_dtype dtype)
{
    return (recipe){.dtype = dtype,
                    .m = PICK(some_rows),
                    .n = PICK(some_columns),
                    .k = PICK(some_steps),
                    .a = (arrangement)draw(ARRANGEMENTS),
                    .b = (arrangement)draw(ARRANGEMENTS),
                    .c = (arrangement)draw(SAME_ROW),
                    .add = draw(3) == 0,
                    .bias = draw(3) == 0};
}

/* Everything at random: sizes, layouts, adding or not, special numbers, teams. */
static void check_random(th_dtype dtype, int cases)
{
    th_machine list[ISAS];
    const int count = machines(list);
    random_state = 1;
    for (int i = 0; i < cases && count > 0; i++) {
        recipe r = random_recipe(dtype);
        r.kind = draw(4) == 0 ? SPECIAL : ORDINARY;
        for (int m = 0; m < count; m++)
            check_case(&r, &list[m], 1 + (int)draw(4), 0, 0);
    }
}

START_TEST(test_random_float32)
{
    check_random(TH_FLOAT32, 500);
}
END_TEST

START_TEST(test_random_float64)
{
    check_random(TH_FLOAT64, 500);
}
END_TEST

/* Every number of rows and of columns up to two tiles, on both sides of the team's threshold. */
START_TEST(test_every_edge)
{
    th_machine list[ISAS];
    const int count = machines(list);
    const th_dtype dtype = _i ? TH_FLOAT64 : TH_FLOAT32;
    for (int m = 0; m < count; m++)
        for (int64_t size = 0; size <= 66; size++) {
            const recipe rows = {
                .dtype = dtype, .m = size, .n = 19, .k = 21, .a = size % 2 ? ROWS : COLUMNS, .add = size % 3 == 0};
            const recipe columns = {
                .dtype = dtype, .m = 7, .n = size, .k = 18, .b = size % 3 ? ROWS : COLUMNS, .bias = size % 2};
            const recipe packed = {.dtype = dtype, .m = 97, .n = size, .k = 35, .b = COLUMNS, .bias = size % 2 == 0};
            const recipe few = {.dtype = dtype,
                                .m = size,
                                .n = size % 4 ? 37 : 107,
                                .k = 45,
                                .a = size % 2 ? ROWS : COLUMNS,
                                .b = COLUMNS,
                                .bias = size % 3 == 0,
                                .add = size % 3 == 1};
            const recipe steps = {.dtype = dtype, .m = 14, .n = 35, .k = size, .a = COLUMNS, .b = COLUMNS};
            check_case(&rows, &list[m], 1, 0, 0);
            check_case(&columns, &list[m], 2, 0, 0);
            check_case(&packed, &list[m], 3, 0, 0);
            check_case(&few, &list[m], 2, 0, 0);
            check_case(&steps, &list[m], 4, 0, 0);
        }
}
END_TEST

/* More than one block of k, around its edges. */
START_TEST(test_blocks_of_k)
{
    th_machine list[ISAS];
    const int count = machines(list);
    const int64_t steps[] = {511, 512, 513, 1024, 1031, 1537};
    const int64_t rows[] = {1, 4, 7, 13, 24, 40, 64, 110};
    random_state = 2;
    for (int m = 0; m < count; m++)
        for (size_t s = 0; s < sizeof steps / sizeof *steps; s++)
            for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                const recipe r = {.dtype = _i ? TH_FLOAT64 : TH_FLOAT32,
                                  .m = rows[i],
                                  .n = PICK(some_columns),
                                  .k = steps[s],
                                  .a = (arrangement)draw(SAME_ROW),
                                  .b = (arrangement)draw(SAME_ROW),
                                  .c = (arrangement)draw(SAME_ROW),
                                  .add = draw(2),
                                  .bias = draw(2)};
                check_case(&r, &list[m], 1 + (int)draw(3), 0, 300);
            }
}
END_TEST

/* Sizes at which B takes several passes, in columns and in k, and the team divides C in both directions. */
static const struct {
    int64_t m, n, k;
    arrangement a, b, c;
} large[] = {
    {100, 3300, 520, ROWS, COLUMNS, ROWS},    {300, 500, 3600, COLUMNS, ROWS, ROWS},
    {131, 997, 1300, ROWS, COLUMNS, ROWS},    {97, 3200, 1100, COLUMNS, COLUMNS, ROWS},
    {1, 5000, 700, ROWS, ROWS, ROWS},         {3, 3001, 900, ROWS, COLUMNS, ROWS},
    {2000, 1, 900, ROWS, ROWS, ROWS},         {700, 65, 384, ROWS, COLUMNS, PADDED},
    {500, 300, 1100, ROWS, ROWS, COLUMNS},    {257, 190, 700, SPREAD, SPREAD, SPREAD},
    {5, 400, 700, ROWS, COLUMNS, SPREAD},     {20, 150, 4700, ROWS, COLUMNS, ROWS},
    {61, 101, 8300, SPREAD, COLUMNS, PADDED},
};
enum { LARGE = sizeof large / sizeof *large };

/* Each size in both types; under the sanitizers, which are slow, in one of them. */
START_TEST(test_large)
{
    const int i = _i / 2;
    if (UNDER_SANITIZER && (i + _i) % 2)
        return;
    th_machine list[ISAS];
    const int count = machines(list);
    for (int m = 0; m < count; m++) {
        const recipe r = {.dtype = _i % 2 ? TH_FLOAT64 : TH_FLOAT32,
                          .m = large[i].m,
                          .n = large[i].n,
                          .k = large[i].k,
                          .a = large[i].a,
                          .b = large[i].b,
                          .c = large[i].c,
                          .add = i % 3 == 1,
                          .bias = i % 3 == 2};
        check_case(&r, &list[m], 1 + i % 4, 0, 200);
    }
}
END_TEST

/* More threads than long blocks of rows, panels of B, or columns of one pass: blocks are short, and passes equal. */
START_TEST(test_many_threads)
{
    static const int64_t sizes[][3] = {{300, 700, 600}, {200, 3100, 520}, {384, 384, 1100}};
    th_machine list[ISAS];
    const int count = machines(list);
    for (int m = 0; m < count; m++) {
        for (int threads = 16; threads <= 64; threads += UNDER_SANITIZER ? 48 : 24) {
            const recipe r = {.dtype = _i % 2 ? TH_FLOAT64 : TH_FLOAT32,
                              .m = sizes[_i / 2][0],
                              .n = sizes[_i / 2][1],
                              .k = sizes[_i / 2][2],
                              .a = threads == 40 ? COLUMNS : ROWS,
                              .b = threads == 16 ? COLUMNS : ROWS,
                              .c = ROWS,
                              .add = threads == 64};
            check_case(&r, &list[m], threads, 0, 200);
        }
    }
}
END_TEST

static void check_batches(th_dtype dtype, const th_machine *machine, double tolerance, int cases)
{
    random_state = 3;
    for (int i = 0; i < cases; i++) {
        const bool big = i % 8 == 0;
        recipe r = {.dtype = dtype,
                    .m = big ? 40 + draw(90) : draw(20),
                    .n = big ? 40 + draw(30) : draw(40),
                    .k = big ? 100 + draw(60) : draw(20),
                    .a = (arrangement)draw(ARRANGEMENTS),
                    .b = (arrangement)draw(ARRANGEMENTS),
                    .c = (arrangement)draw(SAME_ROW),
                    .add = draw(3) == 0,
                    .bias = draw(3) == 0,
                    .batch_dims = (int)draw(big ? 3 : TH_PRODUCT_BATCH_DIMS + 1),
                    .a_repeated = (int)draw(64) & (int)draw(64),
                    .b_repeated = (int)draw(64)};
        for (int d = 0; d < r.batch_dims; d++)
            r.batch[d] = draw(40) == 0 ? 0 : 1 + draw(3);
        check_case(&r, machine, 1 + (int)draw(4), tolerance, 1500);
    }
}

START_TEST(test_batches)
{
    th_machine list[ISAS];
    const int count = machines(list);
    for (int m = 0; m < count; m++)
        check_batches(_i ? TH_FLOAT64 : TH_FLOAT32, &list[m], 0, 250);
}
END_TEST

/* A batch whose products are adjacent in memory and share B is one product with more rows: same bits, and the same as
 * alone. */
START_TEST(test_row_does_not_depend_on_its_batch)
{
    enum { ROWS_ALL = 150, N = 70, K = 600 };
    th_machine list[ISAS];
    const int count = machines(list);
    static float a[ROWS_ALL * K], b[K * N], all[ROWS_ALL * N], alone[N];
    random_state = 4;
    fill(TH_FLOAT32, a, ROWS_ALL * K, ORDINARY);
    fill(TH_FLOAT32, b, K * N, ORDINARY);
    void *workspace = aligned_alloc(64, 32 << 20);
    for (int m = 0; m < count; m++) {
        th_product p = row_major_product(ROWS_ALL, N, K, a, b, all);
        ck_assert(th_product_workspace(&list[m], TH_FLOAT32, &p, 2) <= 32 << 20);
        th_product_run(&list[m], TH_FLOAT32, &p, 2, workspace);
        for (int row = 0; row < ROWS_ALL; row += 7) {
            p.m = 1, p.a = a + row * K, p.c = alone;
            th_product_run(&list[m], TH_FLOAT32, &p, 1, workspace);
            ck_assert_mem_eq(alone, all + row * N, sizeof alone);
        }
    }
    free(workspace);
}
END_TEST

/* One NaN and one infinity reach exactly their own rows and columns. */
START_TEST(test_not_finite)
{
    th_machine list[ISAS];
    const int count = machines(list);
    random_state = 5;
    for (int m = 0; m < count; m++)
        for (int i = 0; i < 40; i++) {
            recipe r = {.dtype = i % 2 ? TH_FLOAT64 : TH_FLOAT32,
                        .m = 1 + draw(40),
                        .n = 1 + draw(70),
                        .k = 1 + draw(40),
                        .a = (arrangement)draw(2),
                        .b = (arrangement)draw(2)};
            product_case t = case_new(&r);
            const int64_t row = draw(r.m), column = draw(r.n);
            put(r.dtype, (void *)(uintptr_t)t.product.a, row * t.product.a_row + draw(r.k) * t.product.a_col, NAN);
            put(r.dtype, (void *)(uintptr_t)t.product.b, column * t.product.b_col + draw(r.k) * t.product.b_row,
                INFINITY);
            case_run(&t, &list[m], 1);
            for (int64_t x = 0; x < r.m; x++)
                for (int64_t y = 0; y < r.n; y++) {
                    const double got = get(r.dtype, t.product.c, x * t.product.c_row + y * t.product.c_col);
                    if (!(x == row ? isnan(got) : y == column ? !isfinite(got) : isfinite(got)))
                        ck_abort_msg("element (%ld, %ld) is %g", (long)x, (long)y, got);
                }
            case_free(&t);
        }
}
END_TEST

static bool has_openblas(th_machine *machine)
{
    th_machine list[ISAS];
    const int count = machines(list);
    if (count == 0 || !th_openblas()) {
        printf("skipped: no OpenBLAS on this machine\n");
        return false;
    }
    *machine = list[count - 1];
    machine->gemm = TH_GEMM_OPENBLAS;
    return true;
}

START_TEST(test_openblas)
{
    th_machine machine;
    if (!has_openblas(&machine))
        return;
    const th_dtype dtype = _i ? TH_FLOAT64 : TH_FLOAT32;
    random_state = 6;
    for (int i = 0; i < 300; i++) {
        const recipe r = random_recipe(dtype);
        check_case(&r, &machine, 1 + (int)draw(4), 4, 0);
    }
    check_batches(dtype, &machine, 4, 100);
}
END_TEST

/* Slices have a fixed size: the same bits with any team. */
START_TEST(test_openblas_does_not_depend_on_the_team)
{
    th_machine machine;
    if (!has_openblas(&machine))
        return;
    const recipe r = {.dtype = TH_FLOAT32,
                      .m = 500,
                      .n = 900,
                      .k = 700,
                      .a = _i == 1 ? SPREAD : ROWS,
                      .b = _i == 2 ? SPREAD : COLUMNS};
    product_case t = case_new(&r);
    const size_t bytes = (size_t)t.c.span * sizeof(float);
    float *first = malloc(bytes);
    ck_assert_ptr_nonnull(first);
    case_run(&t, &machine, 1);
    memcpy(first, t.all_of_c, bytes);
    for (int threads = 2; threads <= 4; threads++) {
        case_run(&t, &machine, threads);
        ck_assert_mem_eq(first, t.all_of_c, bytes);
    }
    check_values(&t, 4, 300, "openblas");
    free(first);
    case_free(&t);
}
END_TEST

int main(void)
{
    TCase *bits = new_suite("product: bits", NULL, NULL);
    tcase_add_test(bits, test_random_float32);
    tcase_add_test(bits, test_random_float64);
    tcase_add_loop_test(bits, test_every_edge, 0, 2);
    tcase_add_loop_test(bits, test_blocks_of_k, 0, 2);
    tcase_add_loop_test(bits, test_large, 0, 2 * LARGE);
    tcase_add_loop_test(bits, test_many_threads, 0, 6);
    tcase_add_loop_test(bits, test_batches, 0, 2);
    tcase_add_test(bits, test_row_does_not_depend_on_its_batch);
    tcase_add_test(bits, test_not_finite);
    TCase *openblas = new_suite("product: openblas", NULL, NULL);
    tcase_add_loop_test(openblas, test_openblas, 0, 2);
    tcase_add_loop_test(openblas, test_openblas_does_not_depend_on_the_team, 0, 3);
    return run_suites();
}
