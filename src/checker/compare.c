/* The two ways of comparing: the whole Jacobian, or directions and samples. */
#include <math.h>
#include <string.h>

#include "checker/checker.h"
#include "tensor/splitmix.h"

/* Uniform on (-1, 1), away from 0. */
static double random_number(th_checker *checker)
{
    const uint64_t z = th_splitmix64(&checker->random);
    const double magnitude = 0.25 + 0.75 * (double)(z >> 12) * 0x1p-52;
    return z & 1 ? magnitude : -magnitude;
}

static void random_vector(th_checker *checker, double *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = random_number(checker);
}

static double badness(double analytic, double numeric)
{
    const double difference = fabs(analytic - numeric);
    return isnan(difference) ? INFINITY : difference;
}

/* a = b, both analytic, up to rounding: of terms of this total size, and the error of what they were compared with. */
static bool sums_agree(const th_checker *checker, double a, double b, double size, double error)
{
    const double relative = th_checker_in_bfloat16(checker) ? 5e-2 : checker->options.float32 ? 1e-3 : 1e-7;
    return fabs(a - b) <= relative * size + error; /* NaN fails */
}

/* The worst of a leaf so far: something wrong goes before something doubtful. */
static void note(th_finding *finding, int64_t element, double analytic, const th_judgment *judgment)
{
    const th_judgment_kind kind = finding->judgment.kind;
    if (kind == TH_WRONG && judgment->kind != TH_WRONG)
        return;
    if (kind == judgment->kind &&
        badness(analytic, judgment->numeric) <= badness(finding->analytic, finding->judgment.numeric))
        return;
    finding->element = element;
    finding->analytic = analytic;
    finding->judgment = *judgment;
}

/* Keeps the finding that is to be told: the first leaf that is wrong, else the first that cannot be told. */
static void keep_finding(th_finding *kept, const th_finding *finding)
{
    if (finding->judgment.kind == TH_WRONG || (finding->judgment.kind == TH_CANNOT_TELL && kept->leaf == NULL))
        *kept = *finding;
}

/* The largest finite magnitude of some rows. */
static double largest_of(const double *values, int64_t count, int64_t rows, int64_t stride)
{
    double largest = 0;
    for (int64_t j = 0; j < rows; j++)
        for (int64_t i = 0; i < count; i++)
            if (isfinite(values[j * stride + i]))
                largest = fmax(largest, fabs(values[j * stride + i]));
    return largest;
}

/* A direction through a leaf whose gradient is this. */
static th_line random_direction(th_checker *checker, th_leaf *leaf, const double *gradient, double *direction,
                                double *start)
{
    double scale = 0, weight = 0;
    random_vector(checker, direction, leaf->numel);
    for (int64_t e = 0; e < leaf->numel; e++) {
        const double term = gradient[e] * direction[e];
        start[e] = th_checker_element(leaf, e);
        scale += term * term;
        weight += start[e] * gradient[e] * start[e] * gradient[e];
    }
    return (th_line){.leaf = leaf,
                     .direction = direction,
                     .start = start,
                     .scale = isfinite(scale) ? sqrt(scale) : 0,
                     .weight = isfinite(weight) ? sqrt(weight) : 0};
}

static th_finding along_direction(const th_leaf *leaf, double analytic, const th_judgment *judgment)
{
    return (th_finding){.leaf = leaf, .analytic = analytic, .judgment = *judgment, .along_direction = true};
}

/* Of a run that records, to go back from; NULL when that makes no sense. */
static th_tensor_impl *recorded_output(th_checker *checker)
{
    th_tensor_impl *output = th_checker_run(checker, true);
    if (output == NULL || checker->incomplete)
        return NULL;
    if (th_tensor_numel(output) == checker->rows && output->requires_gradient)
        return output;
    th_fail(checker->ctx, TH_ERROR_SHAPE, "check_gradient",
            "the output's shape or its path back changes from run to run");
    return NULL;
}

/* -- the whole Jacobian -- */

typedef struct full {
    double *analytic, *numeric; /* [rows][columns] */
    double *cotangent, *unit;   /* [rows] */
    double *once, *twice;       /* [columns]: one and two backwards under the random cotangent */
    double *expected;           /* [columns]: the same from the quotients */
    double *direction, *start;  /* [columns] */
    unsigned char *state;       /* [columns] */
    double largest;             /* of the leaf's analytic derivatives */
    th_shape output_shape;
    th_judge judge;
} full;

static bool analytic_jacobian(th_checker *checker, full *f)
{
    th_tensor_impl *output = recorded_output(checker);
    random_vector(checker, f->cotangent, checker->rows);
    bool good = output != NULL;
    if (good) {
        f->output_shape.ndim = output->ndim;
        memcpy(f->output_shape.size, output->size, sizeof output->size);
    }
    for (int64_t j = 0; j < checker->rows && good; j++) {
        f->unit[j] = 1;
        good = th_checker_gradient(checker, output, f->unit, 1, f->analytic + j * checker->columns);
        f->unit[j] = 0;
    }
    if (good && th_checker_gradient(checker, output, f->cotangent, 1, f->once))
        (void)th_checker_gradient(checker, output, f->cotangent, 2, f->twice);
    return th_checker_leave(checker);
}

/* Backward under many outputs at once, and a second one on top. */
static void judge_sums(th_checker *checker, const full *f, int64_t column, double error, th_judgment *judgment,
                       double *analytic, th_finding *finding)
{
    double sum = 0, size = 0;
    for (int64_t j = 0; j < checker->rows; j++) {
        const double term = f->cotangent[j] * f->analytic[j * checker->columns + column];
        sum += term;
        size += fabs(term);
    }
    checker->report->checked += 2;
    const bool once = sums_agree(checker, f->once[column], sum, size, error);
    if (once && sums_agree(checker, f->twice[column], 2 * sum, 2 * size, 2 * error))
        return;
    finding->nonlinear |= !once;
    finding->overwrites |= once;
    *analytic = once ? f->twice[column] : f->once[column];
    *judgment = (th_judgment){.kind = TH_WRONG, .numeric = once ? 2 * sum : sum, .error = error};
}

static bool judge_element(th_checker *checker, full *f, th_leaf *leaf, int64_t element, th_finding *finding)
{
    const int64_t rows = checker->rows, columns = checker->columns, column = leaf->first + element;
    const th_line line = {.leaf = leaf,
                          .element = element,
                          .x = th_checker_element(leaf, element),
                          .largest = f->largest,
                          .brief = finding->judgment.kind == TH_WRONG};
    if (!th_judge_line(&f->judge, &line, f->analytic + column, columns))
        return false;
    double error = 0;
    th_judgment_kind state = TH_RIGHT;
    for (int64_t j = 0; j < rows; j++) {
        const th_judgment *judgment = &f->judge.judgment[j];
        f->numeric[j * columns + column] = judgment->numeric;
        f->expected[column] += f->cotangent[j] * judgment->numeric;
        error += fabs(f->cotangent[j]) * judgment->error;
        checker->report->checked++;
        if (judgment->kind == TH_RIGHT)
            continue;
        state = judgment->kind == TH_WRONG ? TH_WRONG : state == TH_RIGHT ? TH_CANNOT_TELL : state;
        note(finding, element, f->analytic[j * columns + column], judgment);
        finding->alone |= judgment->kind == TH_WRONG;
    }
    if (state == TH_RIGHT) {
        th_judgment judgment = {.kind = TH_RIGHT};
        double analytic = 0;
        judge_sums(checker, f, column, error, &judgment, &analytic, finding);
        state = judgment.kind;
        if (state == TH_WRONG)
            note(finding, element, analytic, &judgment);
    }
    f->state[column] = (unsigned char)state;
    return true;
}

/* Where neither side has seen anything of a leaf, larger steps along a direction through all of it are to see nothing
 * either. */
static bool judge_nothing(th_checker *checker, full *f, th_leaf *leaf, th_finding *finding)
{
    for (int64_t j = 0; j < checker->rows; j++)
        for (int64_t e = leaf->first; e < leaf->first + leaf->numel; e++)
            if (f->analytic[j * checker->columns + e] != 0 || f->numeric[j * checker->columns + e] != 0)
                return true;
    th_line line = random_direction(checker, leaf, f->once + leaf->first, f->direction, f->start);
    line.thorough = true;
    if (!th_judge_line(&f->judge, &line, f->unit, 1)) /* all 0 */
        return false;
    for (int64_t j = 0; j < checker->rows; j++)
        if (f->judge.judgment[j].kind == TH_WRONG)
            *finding = along_direction(leaf, 0, &f->judge.judgment[j]);
    return true;
}

static bool compare_full(th_checker *checker, full *f)
{
    th_finding kept = {.leaf = NULL};
    for (int64_t i = 0; i < checker->leaves.count && kept.judgment.kind != TH_WRONG; i++) {
        th_leaf *leaf = th_checker_leaf(checker, i);
        if (!leaf->checked || leaf->numel == 0)
            continue;
        th_finding finding = {.leaf = leaf,
                              .analytic_jacobian = f->analytic + leaf->first,
                              .numeric_jacobian = f->numeric + leaf->first,
                              .row_stride = checker->columns,
                              .analytic_vector = f->once + leaf->first,
                              .numeric_vector = f->expected + leaf->first,
                              .state = f->state + leaf->first,
                              .output_shape = f->output_shape};
        f->largest = largest_of(f->analytic + leaf->first, leaf->numel, checker->rows, checker->columns);
        for (int64_t e = 0; e < leaf->numel; e++)
            if (!judge_element(checker, f, leaf, e, &finding))
                return false;
        if (finding.judgment.kind == TH_UNSETTLED && !judge_nothing(checker, f, leaf, &finding))
            return false;
        keep_finding(&kept, &finding);
    }
    if (kept.leaf)
        th_checker_report(checker, &kept);
    return true;
}

bool th_checker_full(th_checker *checker)
{
    const int64_t m = checker->rows, n = checker->columns;
    if (n > INT64_MAX / 32 / (m + 8)) {
        th_fail(checker->ctx, TH_ERROR_SHAPE, "check_gradient",
                "a Jacobian of %lld by %lld numbers is too large: use the fast mode", (long long)m, (long long)n);
        return false;
    }
    const int64_t count = 2 * m * n + 2 * m + 5 * n + (n + 7) / 8;
    double *memory = th_checker_take(checker, count);
    if (memory == NULL)
        return false;
    full f = {.analytic = memory, .numeric = memory + m * n, .cotangent = memory + 2 * m * n};
    f.unit = f.cotangent + m;
    f.once = f.unit + m;
    f.twice = f.once + n;
    f.expected = f.twice + n;
    f.direction = f.expected + n;
    f.start = f.direction + n;
    f.state = (unsigned char *)(f.start + n);
    const bool good =
        th_judge_init(&f.judge, checker, NULL, m) && analytic_jacobian(checker, &f) && compare_full(checker, &f);
    th_judge_free(&f.judge);
    th_checker_give(checker, memory, count);
    return good;
}

/* -- directions and samples -- */

typedef struct fast {
    double *cotangent;         /* [rows] */
    double *once, *twice;      /* [columns] */
    double *sampled;           /* [columns]: numeric values, NaN where not sampled */
    double *direction, *start; /* [columns] */
    unsigned char *state;      /* [columns] */
    double largest;            /* of the leaf's analytic derivatives */
    th_judge judge;
} fast;

static double dot(const double *a, const double *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* The change of <cotangent, f> along a random direction through one leaf, against the gradient's. */
static bool judge_direction(th_checker *checker, fast *f, th_leaf *leaf, bool thorough, th_finding *finding)
{
    th_line line = random_direction(checker, leaf, f->once + leaf->first, f->direction, f->start);
    line.thorough = thorough;
    const double analytic = dot(f->once + leaf->first, f->direction, leaf->numel);
    if (!th_judge_line(&f->judge, &line, &analytic, 1))
        return false;
    checker->report->checked++;
    const th_judgment *judgment = &f->judge.judgment[0];
    if (judgment->kind == TH_WRONG || (judgment->kind == TH_CANNOT_TELL && !thorough))
        *finding = along_direction(leaf, analytic, judgment);
    return true;
}

/* Half of the samples where the gradient is largest of some tried, half anywhere. */
static int64_t choose(th_checker *checker, const fast *f, const th_leaf *leaf, int sample)
{
    int64_t best = 0;
    double largest = -1;
    for (int tries = 0; tries < (sample % 2 ? 1 : 32); tries++) {
        const double u = (random_number(checker) + 1) / 2;
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

static bool judge_sample(th_checker *checker, fast *f, th_leaf *leaf, int64_t element, th_finding *finding)
{
    const int64_t column = leaf->first + element;
    const double once = f->once[column], twice = f->twice[column];
    const th_line line = {.leaf = leaf,
                          .element = element,
                          .x = th_checker_element(leaf, element),
                          .largest = f->largest,
                          .brief = finding->judgment.kind == TH_WRONG};
    if (!th_judge_line(&f->judge, &line, &once, 1))
        return false;
    th_judgment judgment = f->judge.judgment[0];
    double analytic = once;
    f->sampled[column] = judgment.numeric;
    checker->report->checked += 2;
    if (judgment.kind == TH_RIGHT && !sums_agree(checker, twice, 2 * once, fabs(2 * once), 2 * judgment.error)) {
        finding->overwrites = true;
        analytic = twice;
        judgment = (th_judgment){.kind = TH_WRONG, .numeric = 2 * once, .error = 2 * judgment.error};
    } else {
        finding->alone |= judgment.kind == TH_WRONG;
    }
    f->state[column] = (unsigned char)judgment.kind;
    if (judgment.kind != TH_RIGHT)
        note(finding, element, analytic, &judgment);
    return true;
}

static bool is_zero(const double *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (values[i] != 0 && !isnan(values[i]))
            return false;
    return true;
}

static bool judge_leaf(th_checker *checker, fast *f, th_leaf *leaf, th_finding *finding)
{
    const int samples = checker->options.samples > 0 ? checker->options.samples : 24;
    const int directions = checker->options.directions > 0 ? checker->options.directions : 8;
    *finding = (th_finding){.leaf = leaf,
                            .analytic_vector = f->once + leaf->first,
                            .numeric_vector = f->sampled + leaf->first,
                            .state = f->state + leaf->first};
    f->largest = largest_of(f->once + leaf->first, leaf->numel, 1, 0);
    for (int64_t e = 0; e < leaf->numel; e++)
        f->sampled[leaf->first + e] = NAN;
    for (int s = 0; s < samples && s < leaf->numel; s++)
        if (!judge_sample(checker, f, leaf, leaf->numel <= samples ? s : choose(checker, f, leaf, s), finding))
            return false;
    const bool nothing = is_zero(f->once + leaf->first, leaf->numel) && is_zero(finding->numeric_vector, leaf->numel);
    /* with every element compared, a direction through all of them shows no more than larger steps where there is
     * nothing; but kinks beside several of them, which it crosses at once, may look like a mistake */
    if (leaf->numel <= samples && !nothing)
        return true;
    for (int d = 0; d < directions && finding->judgment.kind == TH_UNSETTLED; d++)
        if (!judge_direction(checker, f, leaf, nothing && d == 0, finding))
            return false;
    return true;
}

static bool analytic_gradients(th_checker *checker, fast *f)
{
    th_tensor_impl *output = recorded_output(checker);
    random_vector(checker, f->cotangent, checker->rows);
    for (int64_t j = 0; j < checker->rows; j++) /* an infinite output would hide all others in the sum */
        if (isinf(checker->base[j]))
            f->cotangent[j] = 0;
    if (output && th_checker_gradient(checker, output, f->cotangent, 1, f->once))
        (void)th_checker_gradient(checker, output, f->cotangent, 2, f->twice);
    return th_checker_leave(checker);
}

static bool compare_fast(th_checker *checker, fast *f)
{
    th_finding kept = {.leaf = NULL};
    for (int64_t i = 0; i < checker->leaves.count && kept.judgment.kind != TH_WRONG; i++) {
        th_leaf *leaf = th_checker_leaf(checker, i);
        th_finding finding;
        if (!leaf->checked || leaf->numel == 0)
            continue;
        if (!judge_leaf(checker, f, leaf, &finding))
            return false;
        keep_finding(&kept, &finding);
    }
    if (kept.leaf)
        th_checker_report(checker, &kept);
    return true;
}

bool th_checker_fast(th_checker *checker)
{
    const int64_t m = checker->rows, n = checker->columns, count = m + 5 * n + (n + 7) / 8;
    double *memory = th_checker_take(checker, count);
    if (memory == NULL)
        return false;
    fast f = {.cotangent = memory, .once = memory + m};
    f.twice = f.once + n;
    f.sampled = f.twice + n;
    f.direction = f.sampled + n;
    f.start = f.direction + n;
    f.state = (unsigned char *)(f.start + n);
    const bool good = th_judge_init(&f.judge, checker, f.cotangent, 1) && analytic_gradients(checker, &f) &&
                      compare_fast(checker, &f);
    th_judge_free(&f.judge);
    th_checker_give(checker, memory, count);
    return good;
}
