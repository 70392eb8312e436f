/* Checks of the attention kernels: see attention_checks.h. */
#include "attention_checks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "guarded.h"
#include "memory.h"

/* -- the definition -- */

/* Returns the position of query t. */
static int64_t position_of(const problem *p, int64_t b, int64_t t)
{
    const operand *positions = &p->operands[POSITIONS];
    if (!positions->view.data)
        return t + p->attention.band.position;
    const int64_t i = offset(positions, b, 0, 0, t, 0);
    return p->attention.positions_64 ? ((const int64_t *)positions->view.data)[i]
                                     : ((const int32_t *)positions->view.data)[i];
}

static bool is_visible(const problem *p, int64_t b, int64_t h, int64_t g, int64_t t, int64_t s)
{
    const th_attention *a = &p->attention;
    const th_band *band = &a->band;
    const int64_t at = position_of(p, b, t);
    if (band->causal && s > at)
        return false;
    if (band->window && ((band->left >= 0 && band->left < 1 << 20 && s < at - band->left) ||
                         (band->right >= 0 && band->right < 1 << 20 && s > at + band->right)))
        return false;
    const operand *lengths = &p->operands[LENGTHS];
    if (lengths->view.data) {
        const int64_t i = offset(lengths, b, h, g, t, 0);
        if (s >=
            (a->valid_lengths_64 ? ((const int64_t *)lengths->view.data)[i] : ((const int32_t *)lengths->view.data)[i]))
            return false;
    }
    if (a->keep.data && !((const bool *)a->keep.data)[offset(&p->operands[KEEP], b, h, g, t, s)])
        return false;
    return !a->additive.data || get(p, ADDITIVE, b, h, g, t, s) != -INFINITY;
}

static double multiplier(const problem *p, int64_t b, int64_t h, int64_t g, int64_t t, int64_t s)
{
    const th_attention *a = &p->attention;
    if (!a->drops)
        return 1;
    uint32_t words[4];
    const int64_t row = ((b * p->heads + h) * p->group + g) * p->queries + t;
    th_philox_block(&a->dropout.random, (uint32_t)(s / 4), (uint32_t)row, words);
    return words[s % 4] >= a->dropout.threshold ? a->dropout.scale : 0;
}

/* The expected results, each in the layout of its operand. */
typedef struct expected {
    double *value[OPERANDS];
} expected;

static double *expected_at(const problem *p, expected *e, int which, int64_t b, int64_t h, int64_t g, int64_t row,
                           int64_t column)
{
    return e->value[which] + offset(&p->operands[which], b, h, g, row, column);
}

/* Numbers of one head, and of one query. The definition reads them once for each pair of a query and a key. */
typedef struct numbers {
    double *k, *v;               /* (S, width), (S, value_width) */
    double *q, *o_gradient;      /* (width), (value_width) */
    double *weight, *dz, *slope; /* (S) each */
} numbers;

static numbers make_numbers(const problem *p)
{
    const int64_t keys = p->keys, width = p->width, value_width = p->value_width;
    numbers n = {.k = calloc((size_t)((keys + 1) * (width + value_width + 3) + 1), sizeof(double))};
    ck_assert_ptr_nonnull(n.k);
    n.v = n.k + keys * width;
    n.q = n.v + keys * value_width;
    n.o_gradient = n.q + width;
    n.weight = n.o_gradient + value_width;
    n.dz = n.weight + keys;
    n.slope = n.dz + keys;
    return n;
}

static void read_row(const problem *p, int which, int64_t b, int64_t h, int64_t g, int64_t row, int64_t columns,
                     double *to)
{
    for (int64_t d = 0; d < columns; d++)
        to[d] = get(p, which, b, h, g, row, d);
}

static double dot_product(int64_t n, const double *x, const double *y)
{
    double sum = 0;
    for (int64_t d = 0; d < n; d++)
        sum += x[d] * y[d];
    return sum;
}

/* Adds factor * x to a row of expected results. */
static void add_row(const problem *p, expected *e, int which, int64_t b, int64_t h, int64_t g, int64_t row,
                    int64_t columns, double factor, const double *x)
{
    double *y = expected_at(p, e, which, b, h, g, row, 0);
    const int64_t step = p->operands[which].view.column;
    for (int64_t d = 0; d < columns; d++)
        y[d * step] += factor * x[d];
}

/* Computes the logits of query t; those of hidden keys are -INFINITY. */
static void define_logits(const problem *p, const numbers *n, int64_t b, int64_t h, int64_t g, int64_t t)
{
    const th_attention *a = &p->attention;
    const int64_t position = position_of(p, b, t);
    for (int64_t s = 0; s < p->keys; s++) {
        n->weight[s] = -INFINITY;
        if (!is_visible(p, b, h, g, t, s))
            continue;
        double z = dot_product(p->width, n->q, n->k + s * p->width) * a->scale;
        if (a->soft_cap > 0) {
            const double x = tanh(z / a->soft_cap);
            z = a->soft_cap * x;
            n->slope[s] = 1 - x * x;
        }
        if (a->alibi.data)
            z -= get(p, SLOPES, b, h, g, 0, 0) * fabs((double)(s - position));
        n->weight[s] = z + (a->additive.data ? get(p, ADDITIVE, b, h, g, t, s) : 0);
    }
}

/* Turns the logits into weights, and defines the log-sum-exp. */
static void define_weights(const problem *p, expected *e, const numbers *n, int64_t b, int64_t h, int64_t g, int64_t t)
{
    double max = -INFINITY, sum = 0;
    for (int64_t s = 0; s < p->keys; s++)
        max = fmax(max, n->weight[s]);
    const bool any = max > -INFINITY;
    for (int64_t s = 0; s < p->keys; s++) {
        n->weight[s] = any ? exp(n->weight[s] - max) : 0;
        sum += n->weight[s];
    }
    for (int64_t s = 0; any && s < p->keys; s++)
        n->weight[s] /= sum;
    *expected_at(p, e, LSE, b, h, g, t, 0) = any ? max + log(sum) : -INFINITY;
}

/* A key with the weight 0 adds nothing. */
static void define_row(const problem *p, expected *e, const numbers *n, int64_t b, int64_t h, int64_t g, int64_t t)
{
    const th_attention *a = &p->attention;
    const int64_t position = position_of(p, b, t), width = p->width, value_width = p->value_width;
    define_logits(p, n, b, h, g, t);
    define_weights(p, e, n, b, h, g, t);
    for (int64_t d = 0; d < value_width; d++)
        *expected_at(p, e, O, b, h, g, t, d) = 0;
    double dot = 0;
    for (int64_t s = 0; s < p->keys; s++) {
        if (n->weight[s] == 0)
            continue;
        const double m = multiplier(p, b, h, g, t, s), *v = n->v + s * value_width;
        add_row(p, e, O, b, h, g, t, value_width, n->weight[s] * m, v);
        add_row(p, e, DV, b, h, 0, s, value_width, n->weight[s] * m, n->o_gradient);
        n->dz[s] = m * dot_product(value_width, n->o_gradient, v);
        dot += n->weight[s] * n->dz[s];
    }
    for (int64_t s = 0; s < p->keys; s++) {
        if (n->weight[s] == 0)
            continue;
        const double dz = n->weight[s] * (n->dz[s] - dot + (p->c.with_lse ? get(p, DLSE, b, h, g, t, 0) : 0));
        if (a->additive.data)
            *expected_at(p, e, DADDITIVE, b, h, g, t, s) += dz;
        if (a->alibi.data)
            *expected_at(p, e, DSLOPES, b, h, g, 0, 0) -= dz * fabs((double)(s - position));
        const double dx = (a->soft_cap > 0 ? dz * n->slope[s] : dz) * a->scale;
        add_row(p, e, DQ, b, h, g, t, width, dx, n->k + s * width);
        add_row(p, e, DK, b, h, 0, s, width, dx, n->q);
    }
}

/* Computes the expected results. Called before p is run, because gradients are added to the values in memory, or to
 * 0. */
static expected define(const problem *p)
{
    expected e = {{NULL}};
    for (int i = 0; i < RESULTS; i++) {
        const int which = results[i];
        const operand *x = &p->operands[which];
        if (!x->owns)
            continue;
        e.value[which] = calloc((size_t)x->count + 1, sizeof(double));
        ck_assert_ptr_nonnull(e.value[which]);
        for (int64_t j = 0; p->c.add && which >= DQ && j < x->count; j++)
            e.value[which][j] =
                p->dtype == TH_FLOAT64 ? ((const double *)x->view.data)[j] : (double)((const float *)x->view.data)[j];
    }
    if (p->c.layout == PACKED) {
        e.value[DK] = e.value[DQ] + p->heads * p->width;
        e.value[DV] = e.value[DQ] + 2 * p->heads * p->width;
    }
    const numbers n = make_numbers(p);
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads; h++) {
            for (int64_t row = 0; row < p->keys; row++) {
                read_row(p, K, b, h, 0, row, p->width, n.k + row * p->width);
                read_row(p, V, b, h, 0, row, p->value_width, n.v + row * p->value_width);
            }
            for (int64_t g = 0; g < p->group; g++)
                for (int64_t t = 0; t < p->queries; t++) {
                    read_row(p, Q, b, h, g, t, p->width, n.q);
                    read_row(p, DO, b, h, g, t, p->value_width, n.o_gradient);
                    define_row(p, &e, &n, b, h, g, t);
                }
        }
    free(n.k);
    return e;
}

static const char *const operand_names[OPERANDS] = {"q",         "k",    "v",        "o",         "lse",    "lengths",
                                                    "positions", "keep", "additive", "slopes",    "do",     "dlse",
                                                    "dq",        "dk",   "dv",       "dadditive", "dslopes"};

/* tolerance: relative to the largest element of a result, at least 1 */
static void compare(const problem *p, const expected *e, double tolerance, const char *how)
{
    for (int i = 0; i < RESULTS; i++) {
        const int which = results[i];
        const operand *x = &p->operands[which];
        if (!x->owns)
            continue;
        double largest = which == DSLOPES ? 10 : 1; /* a sum of gradients of either sign times distances */
        for (int64_t j = 0; j < x->count; j++)
            if (isfinite(e->value[which][j]))
                largest = fmax(largest, fabs(e->value[which][j]));
        for (int64_t j = 0; j < x->count; j++) {
            const double value =
                p->dtype == TH_FLOAT64 ? ((const double *)x->view.data)[j] : (double)((const float *)x->view.data)[j];
            const double wanted = e->value[which][j];
            if (value == wanted || fabs(value - wanted) <= tolerance * largest)
                continue;
            ck_abort_msg("%s, %s: %s[%d] is %.9g, not %.9g", p->c.name, how, operand_names[which], (int)j, value,
                         wanted);
        }
    }
}

static void free_expected(const problem *p, expected *e)
{
    for (int i = 0; i < OPERANDS; i++)
        if (p->operands[i].owns)
            free(e->value[i]);
}

void check_values(const attention_case *c, const th_machine *machine, int machines, th_dtype dtype, double tolerance)
{
    problem *defined = make_problem(c, dtype);
    expected e = define(defined);
    for (int m = 0; m < machines; m++) {
        char how[128];
        th_machine_describe(&machine[m], how, sizeof how);
        problem *p = make_problem(c, dtype);
        run(p, &machine[m], 1);
        compare(p, &e, tolerance, how);
        free_problem(p);
    }
    free_expected(defined, &e);
    free_problem(defined);
}

/* -- bits -- */

void assert_same_bits(const problem *a, const problem *b, const char *what)
{
    for (int i = 0; i < RESULTS; i++) {
        const operand *x = &a->operands[results[i]], *y = &b->operands[results[i]];
        if (x->owns)
            ck_assert_msg(memcmp(x->view.data, y->view.data, (size_t)(x->count * element_size(a->dtype))) == 0,
                          "%s: %s differs: %s", a->c.name, operand_names[results[i]], what);
    }
}

void check_teams(const attention_case *c, const th_machine *machine, int machines, th_dtype dtype)
{
    problem *first = make_problem(c, dtype);
    run(first, &machine[0], 1);
    for (int m = 0; m < machines; m++)
        for (int threads = m == 0 || (UNDER_SANITIZER && m % 2 == 0) ? 2 : 1; threads <= 4;
             threads += UNDER_SANITIZER ? 2 : 1) {
            problem *p = make_problem(c, dtype);
            run(p, &machine[m], threads);
            assert_same_bits(first, p, threads > 1 ? "number of threads" : "instruction set");
            free_problem(p);
        }
    free_problem(first);
}

void check_batch(const attention_case *c, const th_machine *machine)
{
    if (c->dropout > 0 || c->additive || c->slopes)
        return;
    problem *all = make_problem(c, TH_FLOAT32), *each = make_problem(c, TH_FLOAT32);
    run(all, machine, 2);
    for (int64_t b = 0; b < all->batch; b++) {
        problem one = *each;
        th_attention *a = &one.attention;
        th_attention_array *const arrays[] = {&a->q,
                                              &a->k,
                                              &a->v,
                                              &a->o,
                                              &a->log_sum_exp,
                                              &a->o_gradient,
                                              &a->log_sum_exp_gradient,
                                              &a->q_gradient,
                                              &a->k_gradient,
                                              &a->v_gradient};
        for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
            if (arrays[i]->data)
                arrays[i]->data = (char *)arrays[i]->data + b * arrays[i]->leading[0] * 4;
        if (a->valid_lengths.data)
            a->valid_lengths.data =
                (char *)a->valid_lengths.data + b * a->valid_lengths.leading[0] * (a->valid_lengths_64 ? 8 : 4);
        if (a->positions.data)
            a->positions.data = (char *)a->positions.data + b * a->positions.leading[0] * (a->positions_64 ? 8 : 4);
        if (a->keep.data)
            a->keep.data = (char *)a->keep.data + b * a->keep.leading[0];
        a->size[0] = 1;
        run(&one, machine, 2);
    }
    assert_same_bits(all, each, "batch");
    free_problem(all);
    free_problem(each);
}

/* -- hidden values -- */

/* A changed row of an input: row `row` of operand `operand` of item (b, h, g). Only results that depend on it through a
 * visible pair may change. */
typedef struct plant {
    int operand;
    int64_t b, h, g, row;
} plant;

static bool row_has_keys(const problem *p, int64_t b, int64_t h, int64_t g, int64_t t)
{
    for (int64_t s = 0; s < p->keys; s++)
        if (is_visible(p, b, h, g, t, s))
            return true;
    return false;
}

static bool query_depends(const problem *p, const plant *x, int64_t b, int64_t h, int64_t g, int64_t t)
{
    if (b != x->b || h != x->h)
        return false;
    if (x->operand == K || x->operand == V)
        return is_visible(p, b, h, g, t, x->row);
    return g == x->g && t == x->row && row_has_keys(p, b, h, g, t);
}

/* Through a query that depends on the row and attends to s. */
static bool key_depends(const problem *p, const plant *x, int64_t b, int64_t h, int64_t s)
{
    if (b != x->b || h != x->h)
        return false;
    for (int64_t g = 0; g < p->group; g++)
        for (int64_t t = 0; t < p->queries; t++)
            if (query_depends(p, x, b, h, g, t) && is_visible(p, b, h, g, t, s))
                return true;
    return false;
}

static void assert_same_element(const problem *p, const problem *q, int which, int64_t b, int64_t h, int64_t g,
                                int64_t row, int64_t columns, const plant *x)
{
    const int64_t size = element_size(p->dtype);
    for (int64_t j = 0; j < columns; j++) {
        const int64_t at = offset(&p->operands[which], b, h, g, row, j) * size;
        if (memcmp((char *)p->operands[which].view.data + at, (char *)q->operands[which].view.data + at,
                   (size_t)size) == 0)
            continue;
        ck_abort_msg("%s: %s (%d, %d, %d, %d, %d) depends on the hidden row %d of %s (%d, %d, %d): %.9g, %.9g",
                     p->c.name, operand_names[which], (int)b, (int)h, (int)g, (int)row, (int)j, (int)x->row,
                     operand_names[x->operand], (int)x->b, (int)x->h, (int)x->g, get(p, which, b, h, g, row, j),
                     get(q, which, b, h, g, row, j));
    }
}

void check_queries_alone(const attention_case *c, const th_machine *machine, th_dtype dtype)
{
    if (c->dropout > 0 || c->queries < 2)
        return;
    problem *all = make_problem(c, dtype), *each = make_problem(c, dtype);
    run_forward(all, machine, 1);
    int64_t *positions = calloc((size_t)c->batch + 1, sizeof *positions);
    ck_assert_ptr_nonnull(positions);
    for (int64_t t = 0; t < c->queries; t += 1 + t / 7) {
        problem one = *each;
        th_attention *a = &one.attention;
        for (int64_t b = 0; b < c->batch; b++)
            positions[b] = position_of(all, b, t);
        a->queries = 1;
        a->positions = (th_attention_array){.data = positions, .leading = {1}};
        a->positions_64 = true;
        struct {
            th_attention_array *array;
            int64_t size;
        } rows[] = {{&a->q, element_size(dtype)},
                    {&a->o, element_size(dtype)},
                    {&a->log_sum_exp, element_size(dtype)},
                    {&a->valid_lengths, a->valid_lengths_64 ? 8 : 4},
                    {&a->keep, 1},
                    {&a->additive, element_size(dtype)}};
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            if (rows[i].array->data)
                rows[i].array->data = (char *)rows[i].array->data + t * rows[i].array->row * rows[i].size;
        run_forward(&one, machine, 1);
        for (int64_t b = 0; b < c->batch; b++)
            for (int64_t h = 0; h < c->heads; h++)
                for (int64_t g = 0; g < c->group; g++) {
                    const plant self = {.operand = Q, .b = b, .h = h, .g = g, .row = t};
                    assert_same_element(all, each, O, b, h, g, t, c->value_width, &self);
                    assert_same_element(all, each, LSE, b, h, g, t, 1, &self);
                }
    }
    free(positions);
    free_problem(all);
    free_problem(each);
}

/* Returns whether a row has the same bits in both problems. */
static bool same_row(const problem *p, const problem *q, int which, int64_t b, int64_t h, int64_t g, int64_t row,
                     int64_t columns)
{
    const int64_t size = element_size(p->dtype);
    bool same = true;
    for (int64_t j = 0; same && j < columns; j++) {
        const int64_t at = offset(&p->operands[which], b, h, g, row, j) * size;
        same = memcmp((char *)p->operands[which].view.data + at, (char *)q->operands[which].view.data + at,
                      (size_t)size) == 0;
    }
    return same;
}

/* Fails if a row differs that does not depend on x. (Whether it depends is asked only if it differs, because that takes longer.) */
static void compare_independent_results(const problem *p, const problem *q, const plant *x)
{
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads; h++) {
            for (int64_t g = 0; g < p->group; g++)
                for (int64_t t = 0; t < p->queries; t++) {
                    const struct {
                        int which;
                        int64_t columns;
                    } rows[] = {{O, p->value_width},
                                {LSE, 1},
                                {DQ, p->width},
                                {DADDITIVE, p->c.additive == PER_ITEM ? p->keys : 0}};
                    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
                        if (!same_row(p, q, rows[i].which, b, h, g, t, rows[i].columns) &&
                            !query_depends(p, x, b, h, g, t))
                            assert_same_element(p, q, rows[i].which, b, h, g, t, rows[i].columns, x);
                }
            for (int64_t s = 0; s < p->keys; s++)
                if ((!same_row(p, q, DK, b, h, 0, s, p->width) || !same_row(p, q, DV, b, h, 0, s, p->value_width)) &&
                    !key_depends(p, x, b, h, s)) {
                    assert_same_element(p, q, DK, b, h, 0, s, p->width, x);
                    assert_same_element(p, q, DV, b, h, 0, s, p->value_width, x);
                }
        }
}

static void plant_row(problem *p, const plant *x, double value)
{
    const int64_t columns = x->operand == Q || x->operand == K ? p->width : p->value_width;
    for (int64_t j = 0; j < columns; j++)
        if (j % 3 != 1)
            put_at(p, x->operand, offset(&p->operands[x->operand], x->b, x->h, x->g, x->row, j), value);
}

/* Compares a run with a finite value in the row with a run with a value that is not finite. */
static void check_plant(const attention_case *c, const th_machine *machine, th_dtype dtype, const plant *x, double junk)
{
    problem *clean = make_problem(c, dtype), *dirty = make_problem(c, dtype);
    plant_row(clean, x, -3);
    plant_row(dirty, x, junk);
    run(clean, machine, 1);
    run(dirty, machine, 1);
    compare_independent_results(clean, dirty, x);
    free_problem(clean);
    free_problem(dirty);
}

void check_hidden(const attention_case *c, const th_machine *machine, int machines, bool doubles)
{
    if (c->batch * c->heads * c->queries * c->keys == 0 || c->queries * c->keys > 70 * 2100)
        return;
    static const double junk[] = {NAN, INFINITY, -INFINITY, -NAN};
    static const int operands[] = {Q, K, V, DO};
    uint64_t state = 99;
    for (int i = 0; i < 12; i++) { /* each third one has all operands, four machines and both types */
        const int which = operands[i % 4];
        const bool of_keys = which == K || which == V;
        const int64_t rows = of_keys ? c->keys : c->queries, group = of_keys ? 1 : c->group;
        uint64_t draw = state;
        plant x = {.operand = which};
        x.b = (int64_t)((uniform(&draw) + 1) / 2 * (double)c->batch);
        x.h = (int64_t)((uniform(&draw) + 1) / 2 * (double)c->heads);
        x.g = (int64_t)((uniform(&draw) + 1) / 2 * (double)group);
        x.row = i < 8 ? (int64_t)((uniform(&draw) + 1) / 2 * (double)rows) : i == 8 || !of_keys ? 0 : rows - 1;
        if (!UNDER_SANITIZER || i % 3 == 0)
            check_plant(c, &machine[i % machines], doubles && i % 5 == 4 ? TH_FLOAT64 : TH_FLOAT32, &x,
                        junk[i / 4 % 4]);
        state = state * 2862933555777941757u + 3037000493u;
    }
}

void check_visible_nan(const th_machine *machine)
{
    problem *p = make_problem(&cases[6], TH_FLOAT32); /* causal */
    plant_row(p, &(plant){.operand = V, .b = 1, .h = 1, .row = 40}, NAN);
    run(p, machine, 1);
    for (int64_t t = 0; t < p->queries; t++) {
        ck_assert_int_eq(isnan(get(p, O, 1, 1, 0, t, 0)) != 0, t >= 40);
        ck_assert(!isnan(get(p, O, 1, 1, 0, t, 1)));
        ck_assert_int_eq(isnan(get(p, DQ, 1, 1, 0, t, 0)) != 0, t >= 40);
    }
    free_problem(p);
    p = make_problem(&cases[6], TH_FLOAT32);
    plant_row(p, &(plant){.operand = DO, .row = 30}, NAN);
    run(p, machine, 1);
    for (int64_t s = 0; s < p->keys; s++)
        ck_assert_int_eq(isnan(get(p, DV, 0, 0, 0, s, 0)) != 0, s <= 30);
    free_problem(p);
}

/* Returns whether all elements of a row are +0. */
static bool row_is_0(const problem *p, int which, int64_t b, int64_t h, int64_t g, int64_t row, int64_t columns)
{
    for (int64_t j = 0; j < columns; j++) {
        const double x = get(p, which, b, h, g, row, j);
        if (x != 0 || signbit(x))
            return false;
    }
    return true;
}

/* Counts the queries without visible keys, and checks each of them. */
static int64_t count_queries_without_keys(const problem *p)
{
    int64_t count = 0;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads; h++)
            for (int64_t g = 0; g < p->group; g++)
                for (int64_t t = 0; t < p->queries; t++) {
                    if (row_has_keys(p, b, h, g, t))
                        continue;
                    count++;
                    const bool right = get(p, LSE, b, h, g, t, 0) == -INFINITY &&
                                       row_is_0(p, O, b, h, g, t, p->value_width) &&
                                       row_is_0(p, DQ, b, h, g, t, p->width);
                    if (!right)
                        ck_abort_msg("%s: query %d", p->c.name, (int)t);
                }
    return count;
}

void check_queries_without_keys(const th_machine *machine)
{
    int64_t found = 0;
    for (int i = 0; i < CASES; i++) {
        if (cases[i].add || cases[i].queries > 100 || cases[i].keys > 100)
            continue;
        problem *p = make_problem(&cases[i], TH_FLOAT32);
        run(p, machine, 2);
        found += count_queries_without_keys(p);
        free_problem(p);
    }
    ck_assert_int_ge(found, 100);
}

void check_kinds_of_mask(const th_machine *machine)
{
    static const attention_case base = {"kinds", SIZES(1, 2, 1, 60, 60, 16, 16)};
    attention_case c = base;
    c.causal = true;
    problem *causal = make_problem(&c, TH_FLOAT32);
    run(causal, machine, 1);
    for (int kind = 0; kind < 3; kind++) {
        c = base;
        c.lengths = kind == 0 ? 2 : 0;
        c.keep = kind == 1 ? PER_PAIR : NO_MASK;
        c.additive = kind == 2 ? PER_PAIR : NO_MASK;
        problem *p = make_problem(&c, TH_FLOAT32);
        for (int64_t t = 0; t < 60; t++) {
            if (kind == 0)
                ((int64_t *)p->attention.valid_lengths.data)[t] = t + 1;
            for (int64_t s = 0; kind == 1 && s < 60; s++)
                ((bool *)p->attention.keep.data)[t * 60 + s] = s <= t;
            for (int64_t s = 0; kind == 2 && s < 60; s++)
                ((float *)p->attention.additive.data)[t * 60 + s] = s <= t ? 0 : -INFINITY;
        }
        run(p, machine, 1);
        if (p->operands[DADDITIVE].owns)
            free(p->operands[DADDITIVE].view.data); /* the other problem does not have this gradient */
        p->operands[DADDITIVE].owns = false;
        assert_same_bits(causal, p, "kind of mask");
        free_problem(p);
    }
    free_problem(causal);
}

void check_each_gradient_alone(const th_machine *machine)
{
    static const attention_case c = {"alone",
                                     SIZES(1, 2, 2, 60, 300, 16, 12),
                                     .causal = true,
                                     .bottom_right = true,
                                     .additive = PER_HEAD,
                                     .slopes = 1,
                                     .soft_cap = 3,
                                     .dropout = 0.2,
                                     .with_lse = true};
    for (int threads = 1; threads <= 3; threads += 2) {
        problem *all = make_problem(&c, TH_FLOAT32);
        run(all, machine, threads);
        for (int which = DQ; which <= DSLOPES; which++) {
            problem *p = make_problem(&c, TH_FLOAT32);
            th_attention *a = &p->attention;
            th_attention_array *const arrays[] = {&a->q_gradient, &a->k_gradient, &a->v_gradient, &a->additive_gradient,
                                                  &a->alibi_gradient};
            for (int i = DQ; i <= DSLOPES; i++)
                if (i != which)
                    arrays[i - DQ]->data = NULL;
            run(p, machine, threads);
            const operand *x = &all->operands[which];
            ck_assert_int_eq(memcmp(x->view.data, p->operands[which].view.data, (size_t)x->count * 4), 0);
            free_problem(p);
        }
        /* the log-sum-exp's cotangent alone: as with an output gradient of 0 */
        problem *zeros = make_problem(&c, TH_FLOAT32), *none = make_problem(&c, TH_FLOAT32);
        memset(zeros->operands[DO].view.data, 0, (size_t)zeros->operands[DO].count * 4);
        none->attention.o_gradient.data = NULL;
        run(zeros, machine, threads);
        run(none, machine, threads);
        assert_same_bits(zeros, none, "no output gradient");
        free_problem(zeros);
        free_problem(none);
        free_problem(all);
    }
}
