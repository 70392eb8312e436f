/* Contract 6 for attention: the bits of a sequence depend only on the sequence. The tests have random shapes and masks.
 * They run each sequence in a batch, in a batch with other lengths, alone, alone without its padding, and query by
 * query with a cache of keys. They compare outputs and gradients in every precision: fused, composed, and with the
 * weights requested. The last tests are about the dense layers before and after attention. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "bits.h"
#include "tapehead/tapehead.h"

#include "context.h"

enum { MAX_BATCH = 3, MAX_HEADS = 4, MAX_ROWS = 96, MAX_WIDTH = 72, PRECISIONS = TH_PRECISION_BFLOAT16 + 1 };
enum { SETUPS = 60, ELEMENTS = MAX_BATCH * MAX_HEADS * MAX_ROWS * MAX_WIDTH };
typedef enum way { FUSED, COMPOSED, WEIGHTS, WAYS } way;
static const char *const way_names[] = {"fused", "composed", "weights requested"};

/* -- random problems -- */

static uint64_t random_state;

static uint32_t draw(uint32_t below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % below;
}

/* Attention of `batch` sequences; self: their queries and keys are the same tokens. Sequence b has length[b] keys, and
 * as many queries in self-attention; the rest is padding. */
typedef struct setup {
    int64_t batch, heads, group, queries, keys, width, value_width, length[MAX_BATCH];
    bool self, alibi;
    bool by_tokens; /* memory has the order (B, T, H, D), as after dense layers */
    th_causal causal;
    th_window_range window;
    double soft_cap;
    th_precision precision;
} setup;

static setup random_setup(th_precision precision)
{
    static const int64_t widths[] = {1, 3, 8, 16, 24, 33, 64, 72};
    setup s = {.batch = 1 + draw(MAX_BATCH),
               .heads = 1 + draw(2),
               .group = 1 + draw(2),
               .self = draw(3) > 0,
               .by_tokens = draw(2),
               .width = widths[draw(8)],
               .value_width = widths[draw(8)],
               .precision = precision};
    s.keys = 1 + draw(draw(4) ? 40 : MAX_ROWS);
    s.queries = s.self ? s.keys : 1 + draw(draw(4) ? 10 : MAX_ROWS);
    if (s.self) {
        s.causal = draw(3) ? TH_CAUSAL_TOP_LEFT : TH_CAUSAL_NONE;
        if (draw(3) == 0)
            s.window = TH_WINDOW(draw(20), draw(5));
        s.alibi = draw(4) == 0;
    }
    s.soft_cap = draw(4) ? 0 : 3;
    for (int b = 0; b < s.batch; b++)
        s.length[b] = draw(4) ? 1 + draw((uint32_t)s.keys) : s.keys;
    return s;
}

typedef enum operand { Q, K, V, O_GRADIENT, OPERANDS } operand;

/* Every number is a function of its index in the whole batch. */
static float number(operand which, int64_t b, int64_t h, int64_t row, int64_t column)
{
    uint64_t x = (uint64_t)(((((int64_t)which * 7 + b) * 11 + h) * 1009 + row) * 101 + column) * 0x9e3779b97f4a7c15u;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9u;
    return (float)((double)(x >> 40) / (1 << 23) - 1);
}

/* -- one run -- */

/* A part of a setup that runs by itself: `batch` sequences from `first`, their queries from `query`. Keys after the
 * setup's keys are stale entries of a cache. */
typedef struct part {
    int64_t first, batch, query, queries, keys;
    const int64_t *length; /* of the sequences; NULL: all keys are valid */
    bool at_positions;     /* the mask has the positions of the queries, as with a cache */
    bool forward_only;
    th_causal causal;
} part;

typedef enum result { O, DQ, DK, DV, P, RESULTS } result;
static const char *const result_names[] = {"the output", "dq", "dk", "dv", "the weights"};

/* Row-major (batch, heads, rows, columns). */
typedef struct results {
    int64_t rows[RESULTS], columns[RESULTS], heads[RESULTS];
    float data[RESULTS][ELEMENTS + MAX_BATCH * MAX_HEADS * MAX_ROWS * (MAX_ROWS + 64)];
} results;

static bool is_padding(const setup *s, const part *p, int64_t b, int64_t row)
{
    return s->self && p->length && row >= p->length[b];
}

/* Rows first .. first + rows - 1 of an operand as a leaf (B, H, rows, columns). *base: its owner. */
static th_tensor *leaf(const setup *s, const part *p, operand which, int64_t heads, int64_t row, int64_t rows,
                       int64_t columns, th_tensor **base)
{
    static float data[MAX_BATCH * MAX_HEADS * (MAX_ROWS + 64) * MAX_WIDTH];
    const bool of_keys = which == K || which == V;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t r = 0; r < rows; r++)
                for (int64_t c = 0; c < columns; c++) {
                    const int64_t at = s->by_tokens ? ((b * rows + r) * heads + h) * columns + c
                                                    : ((b * heads + h) * rows + r) * columns + c;
                    float x = number(which, p->first + b, h, row + r, c);
                    if (which == O_GRADIENT && is_padding(s, p, b, row + r))
                        x = 0;
                    if (of_keys && row + r >= s->keys)
                        x = r % 3 ? 1e4F * x : NAN;
                    data[at] = x;
                }
    *base = th_from_data(
        ctx, TH_FLOAT32,
        s->by_tokens ? TH_SHAPE(p->batch, rows, heads, columns) : TH_SHAPE(p->batch, heads, rows, columns), data);
    th_set_requires_gradient(*base, which != O_GRADIENT && !p->forward_only);
    return s->by_tokens ? th_transpose(*base, TH_AXES(0, 2, 1, 3)) : *base;
}

static void keep_result(results *to, result which, th_tensor *x)
{
    no_error();
    ck_assert_ptr_nonnull(x);
    to->heads[which] = th_size(x, 1), to->rows[which] = th_size(x, 2), to->columns[which] = th_size(x, 3);
    ck_assert_uint_le((size_t)th_numel(x) * sizeof(float), sizeof to->data[which]);
    ck_assert_int_eq(th_copy_out(x, to->data[which], (size_t)th_numel(x) * sizeof(float)), TH_OK);
}

static void run(const setup *s, const part *p, way how, results *to)
{
    th_tensor *base[OPERANDS + 3] = {NULL}, *weights = NULL;
    const int64_t heads = s->heads * s->group;
    ck_assert_int_eq(th_set_precision(ctx, s->precision), TH_OK);
    th_set_fusion(ctx, how != COMPOSED);
    th_tensor *q = leaf(s, p, Q, heads, p->query, p->queries, s->width, &base[Q]);
    th_tensor *k = leaf(s, p, K, s->heads, 0, p->keys, s->width, &base[K]);
    th_tensor *v = leaf(s, p, V, s->heads, 0, p->keys, s->value_width, &base[V]);
    th_tensor *dy = leaf(s, p, O_GRADIENT, heads, p->query, p->queries, s->value_width, &base[O_GRADIENT]);
    th_mask mask = {.causal = p->causal, .window = s->window};
    if (p->length)
        mask.valid_lengths = base[OPERANDS] = th_from_data(ctx, TH_INT64, TH_SHAPE(p->batch), p->length);
    int64_t position[MAX_BATCH * MAX_ROWS];
    for (int64_t i = 0; i < p->batch * p->queries; i++)
        position[i] = p->query + i % p->queries;
    if (p->at_positions)
        mask.positions = base[OPERANDS + 1] = th_from_data(ctx, TH_INT64, TH_SHAPE(p->batch, p->queries), position);
    static const float slopes[] = {0.5F, 0.25F, 0.3F, 0.1F};
    th_attention_options options = {.mask = &mask, .soft_cap = s->soft_cap};
    if (s->alibi)
        options.alibi = base[OPERANDS + 2] = th_from_data(ctx, TH_FLOAT32, TH_SHAPE(heads), slopes);
    if (how == WEIGHTS)
        options.weights = &weights;
    th_tensor *o = th_scaled_dot_product_attention(q, k, v, &options);
    keep_result(to, O, o);
    if (weights)
        keep_result(to, P, weights);
    if (!p->forward_only) {
        ck_assert_int_eq(th_backward(o, &(th_backward_options){.cotangent = dy}), TH_OK);
        keep_result(to, DQ, th_gradient(q));
        keep_result(to, DK, th_gradient(k));
        keep_result(to, DV, th_gradient(v));
    }
    th_tape_clear(ctx);
    for (size_t i = 0; i < sizeof base / sizeof *base; i++)
        th_tensor_free(base[i]);
}

/* -- comparisons -- */

static int compared;

/* Compares rows of sequence b of x, from `row`, with sequence c of y from its first row. */
static void same_rows(const setup *s, way how, const char *what, result which, const results *x, int64_t b, int64_t row,
                      const results *y, int64_t c, int64_t rows)
{
    const int64_t columns = x->columns[which] < y->columns[which] ? x->columns[which] : y->columns[which];
    compared++;
    for (int64_t h = 0; h < x->heads[which]; h++)
        for (int64_t r = 0; r < rows; r++)
            for (int64_t i = 0; i < columns; i++) {
                const float
                    one =
                        x->data[which][((b * x->heads[which] + h) * x->rows[which] + row + r) * x->columns[which] + i],
                    other = y->data[which][((c * y->heads[which] + h) * y->rows[which] + r) * y->columns[which] + i];
                if (!same_bits(one, other))
                    ck_abort_msg("%s, %s, precision %d: %s of sequence %d at (%d, %d, %d) is %.9g, and %.9g in (%d, "
                                 "%dx%d, %d, %d), widths %d, %d",
                                 way_names[how], what, (int)s->precision, result_names[which], (int)b, (int)h,
                                 (int)(row + r), (int)i, (double)one, (double)other, (int)s->batch, (int)s->heads,
                                 (int)s->group, (int)s->queries, (int)s->keys, (int)s->width, (int)s->value_width);
            }
}

/* Compares all results of sequence b of x, without its padding, with sequence c of y. */
static void same_sequence(const setup *s, way how, const char *what, const results *x, int64_t b, const results *y,
                          int64_t c)
{
    const int64_t keys = s->length[b], queries = s->self ? keys : s->queries;
    same_rows(s, how, what, O, x, b, 0, y, c, queries);
    same_rows(s, how, what, DQ, x, b, 0, y, c, queries);
    same_rows(s, how, what, DK, x, b, 0, y, c, keys);
    same_rows(s, how, what, DV, x, b, 0, y, c, keys);
    if (how == WEIGHTS)
        same_rows(s, how, what, P, x, b, 0, y, c, queries);
}

static part whole(const setup *s, const int64_t *length)
{
    return (part){.batch = s->batch, .queries = s->queries, .keys = s->keys, .length = length, .causal = s->causal};
}

static void check_batch(const setup *s, way how)
{
    static results batch, other;
    part p = whole(s, s->length);
    run(s, &p, how, &batch);
    for (int64_t b = 0; b < s->batch; b++) {
        int64_t lengths[MAX_BATCH] = {s->keys, s->keys, s->keys};
        lengths[b] = s->length[b];
        p = whole(s, lengths);
        run(s, &p, how, &other);
        same_sequence(s, how, "with full sequences", &batch, b, &other, b);
        p = whole(s, &s->length[b]);
        p.first = b, p.batch = 1;
        run(s, &p, how, &other);
        same_sequence(s, how, "alone", &batch, b, &other, 0);
        p.length = NULL;
        p.keys = s->length[b];
        p.queries = s->self ? p.keys : s->queries;
        run(s, &p, how, &other);
        same_sequence(s, how, "alone, not padded", &batch, b, &other, 0);
    }
}

/* A causal forward in pieces, with stale keys after them. Each last query runs also with just its visible keys. */
static void check_pieces(const setup *s, way how)
{
    static results all, piece;
    if (s->causal == TH_CAUSAL_NONE || (s->window.given && s->window.right > 0))
        return;
    part p = whole(s, NULL);
    p.forward_only = true;
    run(s, &p, how, &all);
    for (int64_t query = 0; query < s->queries; query += p.queries) {
        p.query = query;
        p.queries = draw(3) ? 1 : 1 + draw((uint32_t)(s->queries - query));
        p.keys = s->keys + draw(40);
        p.at_positions = true;
        run(s, &p, how, &piece);
        for (int64_t b = 0; b < s->batch; b++)
            same_rows(s, how, "with a cache", O, &all, b, query, &piece, b, p.queries);
        part last = p;
        last.at_positions = false;
        last.causal = TH_CAUSAL_BOTTOM_RIGHT;
        last.keys = query + p.queries;
        run(s, &last, how, &piece);
        for (int64_t b = 0; b < s->batch; b++)
            same_rows(s, how, "after its keys", O, &all, b, query, &piece, b, p.queries);
        if (query + p.queries < s->queries && draw(2)) /* not all of them */
            p.queries += draw((uint32_t)(s->queries - query - p.queries) + 1);
    }
}

/* Requesting the weights changes nothing; fused attention differs only by rounding. */
static void check_ways(const setup *s)
{
    static const double tolerance[PRECISIONS] = {
        [TH_PRECISION_FLOAT32] = 1e-4, [TH_PRECISION_BFLOAT16X3] = 1e-3, [TH_PRECISION_BFLOAT16] = 0.2};
    static results fused, composed, weights;
    const part p = whole(s, s->length);
    run(s, &p, FUSED, &fused);
    run(s, &p, COMPOSED, &composed);
    run(s, &p, WEIGHTS, &weights);
    for (int64_t b = 0; b < s->batch; b++)
        for (int which = O; which <= DV; which++) {
            same_rows(s, COMPOSED, "with weights", (result)which, &composed, b, 0, &weights, b, composed.rows[which]);
            const int64_t count = fused.heads[which] * fused.rows[which] * fused.columns[which];
            for (int64_t i = b * count; i < (b + 1) * count; i++)
                ck_assert_msg(fabsf(fused.data[which][i] - composed.data[which][i]) <= tolerance[s->precision],
                              "%s is %g fused and %g composed", result_names[which], (double)fused.data[which][i],
                              (double)composed.data[which][i]);
        }
}

static void open_context(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 1, .threads = 1});
    ck_assert_ptr_nonnull(ctx);
}

/* OpenBLAS's bits depend on the shape of a product (contract 6). */
static bool has_contract(void)
{
    return strstr(th_build_info(ctx), "gemm=native") != NULL;
}

START_TEST(a_sequence_has_its_own_bits)
{
    if (!has_contract())
        return;
    random_state = 31 + (uint64_t)_i;
    for (int i = 0; i < SETUPS; i++) {
        const setup s = random_setup((th_precision)(_i / WAYS));
        check_batch(&s, (way)(_i % WAYS));
        check_pieces(&s, (way)(_i % WAYS));
    }
    ck_assert_int_gt(compared, 1000);
}
END_TEST

START_TEST(weights_change_nothing)
{
    if (!has_contract())
        return;
    random_state = 77;
    for (int i = 0; i < SETUPS; i++) {
        const setup s = random_setup((th_precision)_i);
        check_ways(&s);
    }
}
END_TEST

/* -- dense layers -- */

/* A slice of one sequence is contiguous, a slice of several is not. Both begin their sums with bias and residual. */
START_TEST(dense_starts_with_the_residual)
{
    enum { B = 3, T = 7, PART = 4, IN = 70, OUT = 33 };
    if (!has_contract())
        return;
    ck_assert_int_eq(th_set_precision(ctx, (th_precision)_i), TH_OK);
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(B, T, IN)), *w = th_randn(ctx, TH_FLOAT32, TH_SHAPE(OUT, IN));
    th_tensor *biases[] = {NULL, th_randn(ctx, TH_FLOAT32, TH_SHAPE(OUT))};
    th_tensor *residual = th_randn(ctx, TH_FLOAT32, TH_SHAPE(B, T, OUT));
    for (int i = 0; i < 2; i++) {
        float all[B][PART][OUT], one[PART][OUT];
        th_tensor *y =
            th_dense(th_slice(x, 1, 0, PART, 1), w, &(th_dense_options){biases[i], th_slice(residual, 1, 0, PART, 1)});
        ck_assert_int_eq(th_copy_out(y, all, sizeof all), TH_OK);
        for (int b = 0; b < B; b++) {
            th_tensor *alone = th_slice(th_slice(x, 0, b, b + 1, 1), 1, 0, PART, 1);
            th_tensor *rest = th_slice(th_slice(residual, 0, b, b + 1, 1), 1, 0, PART, 1);
            y = th_dense(alone, w, &(th_dense_options){biases[i], rest});
            ck_assert_int_eq(th_copy_out(y, one, sizeof one), TH_OK);
            ck_assert_mem_eq(all[b], one, sizeof one);
        }
        th_tape_clear(ctx);
    }
}
END_TEST

/* A sum over several axes stays long if strides split it into short sums: x with gaps and x without gaps have the same
 * precision. */
START_TEST(a_long_sum_stays_long)
{
    enum { B = 3, T = 40, IN = 5, OUT = 6 };
    if (!has_contract())
        return;
    th_tensor *wide = th_randn(ctx, TH_FLOAT32, TH_SHAPE(B, 2 * T, IN));
    th_tensor *dy = th_randn(ctx, TH_FLOAT32, TH_SHAPE(B, T, OUT));
    th_tensor *w = th_set_requires_gradient(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(OUT, IN)), true);
    float gradient[2][OUT * IN];
    for (int precision = TH_PRECISION_FLOAT32; precision <= TH_PRECISION_BFLOAT16X3; precision++) {
        th_tensor *x = th_slice(wide, 1, 0, T, 1);
        x = _i ? th_contiguous(x) : x;
        ck_assert_int_eq(th_set_precision(ctx, (th_precision)precision), TH_OK);
        ck_assert_int_eq(th_backward(th_dense(x, w, NULL), &(th_backward_options){.cotangent = dy}), TH_OK);
        ck_assert_int_eq(th_copy_out(th_gradient(w), gradient[precision], sizeof gradient[precision]), TH_OK);
        th_empty_gradient(w);
        th_tape_clear(ctx);
    }
    ck_assert_int_ne(memcmp(gradient[0], gradient[1], sizeof gradient[0]), 0);
}
END_TEST

int main(void)
{
    TCase *attention = new_suite("one sequence: attention", open_context, close_context);
    tcase_add_loop_test(attention, a_sequence_has_its_own_bits, 0, PRECISIONS * WAYS);
    tcase_add_loop_test(attention, weights_change_nothing, 0, PRECISIONS);
    TCase *beside = new_suite("one sequence: beside attention", open_context, close_context);
    tcase_add_loop_test(beside, dense_starts_with_the_residual, 0, PRECISIONS);
    tcase_add_loop_test(beside, a_long_sum_stays_long, 0, 2);
    return run_suites();
}
