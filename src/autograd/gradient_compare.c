/* The two ways of comparing: the whole Jacobian, or directions and samples. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/checker.h"

/* Rows of doubles that a comparison needs, in one piece. */
typedef struct room {
    double *memory;
    size_t count;
} room;

static double *take(th_checker *checker, room *r, int64_t count)
{
    r->count = (size_t)count;
    r->memory = th_allocate(checker->ctx, r->count * sizeof(double));
    if (r->memory == NULL)
        th_fail_memory(checker->ctx, "check_gradient", r->count * sizeof(double));
    else
        memset(r->memory, 0, r->count * sizeof(double));
    return r->memory;
}

static void give(th_checker *checker, room *r)
{
    th_release(checker->ctx, r->memory, r->count * sizeof(double));
}

static double larger(double a, double b)
{
    return fabs(a) > fabs(b) ? fabs(a) : fabs(b);
}

static double badness(double analytic, double numeric)
{
    const double difference = fabs(analytic - numeric);
    return isnan(difference) ? INFINITY : difference;
}

static void random_vector(th_checker *checker, double *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = th_checker_random(checker);
}

/* (f(x + h e) - f(x - h e)) / 2h for one element, into change[rows]. */
static th_status perturb(th_checker *checker, th_leaf *leaf, int64_t element, double *up, double *change)
{
    const double x = th_checker_element(leaf, element);
    const double h = th_checker_step(checker) * (fabs(x) > 1 ? fabs(x) : 1);
    th_checker_set_element(leaf, element, x + h);
    const double above = th_checker_element(leaf, element);
    th_status status = th_checker_values(checker, up);
    th_checker_set_element(leaf, element, x - h);
    const double below = th_checker_element(leaf, element);
    if (status == TH_OK)
        status = th_checker_values(checker, change);
    th_checker_set_element(leaf, element, x);
    for (int64_t j = 0; j < checker->rows && status == TH_OK; j++)
        change[j] = up[j] == change[j] ? 0 : (up[j] - change[j]) / (above - below);
    return status;
}

/* -- the whole Jacobian -- */

typedef struct full {
    double *analytic, *numeric;      /* [rows][columns] */
    double *cotangent, *up, *change; /* [rows] */
    double *once, *twice, *expected; /* [columns], under the random cotangent */
    bool *wrong;                     /* [columns] */
    th_shape output_shape;
} full;

static th_status numeric_jacobian(th_checker *checker, full *f)
{
    for (int i = 0; i < checker->leaves; i++) {
        th_leaf *leaf = &checker->leaf[i];
        for (int64_t e = 0; e < leaf->numel && leaf->checked; e++) {
            if (perturb(checker, leaf, e, f->up, f->change) != TH_OK)
                return checker->ctx->error;
            for (int64_t j = 0; j < checker->rows; j++)
                f->numeric[j * checker->columns + leaf->first + e] = f->change[j];
        }
    }
    return TH_OK;
}

static th_status analytic_jacobian(th_checker *checker, full *f)
{
    th_body *output = th_checker_run(checker, true);
    if (output == NULL)
        return checker->ctx->error;
    f->output_shape.ndim = output->ndim;
    memcpy(f->output_shape.size, output->size, sizeof output->size);
    for (int64_t j = 0; j < checker->rows; j++) {
        memset(f->up, 0, (size_t)checker->rows * sizeof *f->up);
        f->up[j] = 1;
        if (th_checker_gradient(checker, output, f->up, 1, f->analytic + j * checker->columns) != TH_OK)
            return checker->ctx->error;
    }
    random_vector(checker, f->cotangent, checker->rows);
    if (th_checker_gradient(checker, output, f->cotangent, 1, f->once) != TH_OK ||
        th_checker_gradient(checker, output, f->cotangent, 2, f->twice) != TH_OK)
        return checker->ctx->error;
    for (int64_t j = 0; j < checker->rows; j++)
        for (int64_t i = 0; i < checker->columns; i++)
            f->expected[i] += f->cotangent[j] * f->numeric[j * checker->columns + i];
    return TH_OK;
}

/* Compares one leaf's columns; fills the finding when something is wrong. */
static bool leaf_is_right(th_checker *checker, full *f, const th_leaf *leaf, th_finding *finding)
{
    double worst = -1;
    *finding = (th_finding){.leaf = leaf,
                            .analytic_jacobian = f->analytic + leaf->first,
                            .numeric_jacobian = f->numeric + leaf->first,
                            .row_stride = checker->columns,
                            .analytic_vector = f->once + leaf->first,
                            .numeric_vector = f->expected + leaf->first,
                            .wrong = f->wrong + leaf->first,
                            .output_shape = f->output_shape};
    const double rows = sqrt((double)checker->rows);
    for (int64_t e = 0; e < leaf->numel; e++) {
        const int64_t column = leaf->first + e;
        bool good = true, sums = true;
        for (int64_t j = 0; j < checker->rows; j++) {
            const double a = f->analytic[j * checker->columns + column], n = f->numeric[j * checker->columns + column];
            checker->report->checked++;
            if (th_checker_close(checker, a, n, larger(a, n)))
                continue;
            good = false;
            if (badness(a, n) > worst) {
                worst = badness(a, n);
                finding->element = e;
                finding->analytic = a;
                finding->numeric = n;
            }
        }
        const double once = f->once[column], twice = f->twice[column], expected = f->expected[column];
        sums = th_checker_close(checker, once / rows, expected / rows, larger(once, expected)) &&
               th_checker_close(checker, twice / rows, 2 * expected / rows, larger(twice, expected));
        checker->report->checked += 2;
        if (good && !sums && badness(twice, 2 * expected) > worst) {
            worst = badness(twice, 2 * expected);
            finding->overwrites = true;
            finding->element = e;
            finding->analytic = twice;
            finding->numeric = 2 * expected;
        }
        f->wrong[column] = !(good && sums);
        finding->overwrites &= good;
    }
    return worst < 0;
}

static void compare_full(th_checker *checker, full *f)
{
    for (int i = 0; i < checker->leaves; i++) {
        const th_leaf *leaf = &checker->leaf[i];
        th_finding finding;
        if (leaf->checked && !leaf_is_right(checker, f, leaf, &finding)) {
            th_checker_report(checker, &finding);
            return;
        }
    }
}

th_status th_checker_full(th_checker *checker)
{
    const int64_t m = checker->rows, n = checker->columns;
    room r;
    double *memory = take(checker, &r, 2 * m * n + 3 * m + 3 * n + (n + 7) / 8);
    if (memory == NULL)
        return checker->ctx->error;
    full f = {.analytic = memory, .numeric = memory + m * n, .cotangent = memory + 2 * m * n};
    f.up = f.cotangent + m;
    f.change = f.up + m;
    f.once = f.change + m;
    f.twice = f.once + n;
    f.expected = f.twice + n;
    f.wrong = (bool *)(void *)(f.expected + n);
    if (numeric_jacobian(checker, &f) == TH_OK && analytic_jacobian(checker, &f) == TH_OK)
        compare_full(checker, &f);
    give(checker, &r);
    return checker->ctx->error;
}

/* -- directions and samples -- */

typedef struct fast {
    double *cotangent, *up, *change; /* [rows] */
    double *once, *twice;            /* [columns] */
    double *sampled;                 /* [columns]: numeric values, NaN where not sampled */
    double *direction, *values;      /* [columns] */
    bool *wrong;                     /* [columns] */
} fast;

static double dot(const double *a, const double *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

static void move(th_leaf *leaf, const double *values, const double *direction, double h)
{
    for (int64_t e = 0; e < leaf->numel; e++)
        th_checker_set_element(leaf, e, values[e] + h * direction[e]);
}

/* The change of <cotangent, f> along a random direction through one leaf, against the gradient's. */
static th_status check_direction(th_checker *checker, fast *f, th_leaf *leaf, th_finding *finding, bool *good)
{
    double *direction = f->direction, *values = f->values;
    random_vector(checker, direction, leaf->numel);
    for (int64_t e = 0; e < leaf->numel; e++)
        values[e] = th_checker_element(leaf, e);
    const double h = th_checker_step(checker) / (leaf->numel > 1 ? sqrt((double)leaf->numel) : 1) * 4;
    move(leaf, values, direction, h);
    th_status status = th_checker_values(checker, f->up);
    move(leaf, values, direction, -h);
    if (status == TH_OK)
        status = th_checker_values(checker, f->change);
    move(leaf, values, direction, 0);
    if (status != TH_OK)
        return status;
    double numeric = 0, noise = 0;
    for (int64_t j = 0; j < checker->rows; j++) {
        numeric += f->cotangent[j] * (f->up[j] - f->change[j]) / (2 * h);
        noise += fabs(f->up[j]);
    }
    const double analytic = dot(f->once + leaf->first, direction, leaf->numel);
    /* the differences' rounding adds up over the output */
    const double rounding = noise / sqrt((double)checker->rows) * (checker->options.float32 ? 6e-8 : 1.2e-16) / h * 8;
    checker->report->checked++;
    *good =
        fabs(analytic - numeric) <= rounding || th_checker_close(checker, analytic, numeric, larger(analytic, numeric));
    if (!*good)
        *finding = (th_finding){.leaf = leaf, .analytic = analytic, .numeric = numeric, .along_direction = true};
    return TH_OK;
}

/* Half of the samples where the gradient is largest of some tried, half anywhere. */
static int64_t choose(th_checker *checker, const fast *f, const th_leaf *leaf, int sample)
{
    int64_t best = 0;
    double largest = -1;
    for (int tries = 0; tries < (sample % 2 ? 1 : 32); tries++) {
        const double u = (th_checker_random(checker) + 1) / 2;
        int64_t e = (int64_t)(u * (double)leaf->numel);
        e = e < 0 ? 0 : e >= leaf->numel ? leaf->numel - 1 : e;
        const double size = fabs(f->once[leaf->first + e]);
        if (!(size <= largest)) {
            largest = size;
            best = e;
        }
    }
    return best;
}

static th_status check_samples(th_checker *checker, fast *f, th_leaf *leaf, th_finding *finding, bool *good)
{
    const int samples = checker->options.samples > 0 ? checker->options.samples : 24;
    double worst = -1;
    for (int64_t e = 0; e < leaf->numel; e++)
        f->sampled[leaf->first + e] = NAN;
    for (int s = 0; s < samples && s < leaf->numel; s++) {
        const int64_t e = leaf->numel <= samples ? s : choose(checker, f, leaf, s);
        const int64_t column = leaf->first + e;
        if (perturb(checker, leaf, e, f->up, f->change) != TH_OK)
            return checker->ctx->error;
        const double numeric = dot(f->cotangent, f->change, checker->rows), analytic = f->once[column],
                     twice = f->twice[column];
        const double scale = sqrt((double)checker->rows);
        f->sampled[column] = numeric;
        checker->report->checked += 2;
        const bool right = th_checker_close(checker, analytic / scale, numeric / scale, larger(analytic, numeric));
        const bool sums = th_checker_close(checker, twice / scale, 2 * numeric / scale, larger(twice, numeric));
        f->wrong[column] = !(right && sums);
        const double bad = right ? badness(twice, 2 * numeric) : badness(analytic, numeric);
        if (!f->wrong[column] || bad <= worst)
            continue;
        worst = bad;
        *finding = (th_finding){.leaf = leaf,
                                .element = e,
                                .analytic = right ? twice : analytic,
                                .numeric = right ? 2 * numeric : numeric,
                                .analytic_vector = f->once + leaf->first,
                                .numeric_vector = f->sampled + leaf->first,
                                .wrong = f->wrong + leaf->first,
                                .overwrites = right};
    }
    *good = worst < 0;
    return TH_OK;
}

static th_status check_leaf(th_checker *checker, fast *f, th_leaf *leaf, bool *good)
{
    th_finding finding;
    if (check_samples(checker, f, leaf, &finding, good) != TH_OK)
        return checker->ctx->error;
    const int directions = checker->options.directions > 0 ? checker->options.directions : 8;
    for (int d = 0; d < directions && *good; d++)
        if (check_direction(checker, f, leaf, &finding, good) != TH_OK)
            return checker->ctx->error;
    if (!*good)
        th_checker_report(checker, &finding);
    return TH_OK;
}

static th_status compare_fast(th_checker *checker, fast *f)
{
    th_body *output = th_checker_run(checker, true);
    if (output == NULL)
        return checker->ctx->error;
    random_vector(checker, f->cotangent, checker->rows);
    if (th_checker_gradient(checker, output, f->cotangent, 1, f->once) != TH_OK ||
        th_checker_gradient(checker, output, f->cotangent, 2, f->twice) != TH_OK)
        return checker->ctx->error;
    bool good = true;
    for (int i = 0; i < checker->leaves && good; i++)
        if (checker->leaf[i].checked && checker->leaf[i].numel &&
            check_leaf(checker, f, &checker->leaf[i], &good) != TH_OK)
            return checker->ctx->error;
    return TH_OK;
}

th_status th_checker_fast(th_checker *checker)
{
    const int64_t m = checker->rows, n = checker->columns;
    room r;
    double *memory = take(checker, &r, 3 * m + 5 * n + (n + 7) / 8);
    if (memory == NULL)
        return checker->ctx->error;
    fast f = {.cotangent = memory, .up = memory + m, .change = memory + 2 * m, .once = memory + 3 * m};
    f.twice = f.once + n;
    f.sampled = f.twice + n;
    f.direction = f.sampled + n;
    f.values = f.direction + n;
    f.wrong = (bool *)(void *)(f.values + n);
    const th_status status = compare_fast(checker, &f);
    give(checker, &r);
    return status;
}
