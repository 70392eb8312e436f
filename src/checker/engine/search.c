/* Finds a wrong element among very many (search.h). An output that does not change along a direction has no rounding
 * error in the difference. So the error of a quotient shrinks with the elements that move, and halves of the elements show
 * a wrong one more clearly. */
#include "checker/engine/search.h"

#include <math.h>

#include "tensor/splitmix.h"

/* The step for each element. */
static const double step_of[TH_KINDS] = {1e-3, 1e-2, 0x1p-3, 0x1p-2};

/* The change of <cotangent, output> along a direction. */
typedef struct change {
    double quotient;
    double error; /* by rounding of the outputs, more than four standard deviations */
} change;

/* Moves the elements first to end - 1 by h and by -h. */
static bool compute_change(th_engine *engine, const th_search *s, int64_t first, int64_t end, double h, change *result)
{
    const th_engine_calls *calls = engine->calls;
    double sum = 0, squares = 0;
    calls->move(engine, s->variable, first, end, s->start, s->direction, -h);
    bool good = calls->compute_output(engine, s->below);
    calls->move(engine, s->variable, first, end, s->start, s->direction, h);
    good = good && calls->compute_output(engine, s->above);
    calls->move(engine, s->variable, first, end, s->start, s->direction, 0);
    for (int64_t j = 0; j < engine->rows && good; j++) {
        const double c = s->cotangent[j], moved = s->above[j] - s->below[j];
        if (c == 0 || moved == 0)
            continue;
        const double noise = engine->noise ? engine->noise[j] : 0, size = engine->unit * fabs(s->above[j]) + noise;
        sum += c * moved;
        squares += c * size * c * size;
    }
    result->quotient = sum / (2 * h);
    result->error = sqrt(squares) / h;
    return good;
}

/* Returns the analytic change along the direction. */
static double expected_change(const th_search *s, int64_t first, int64_t end)
{
    double sum = 0;
    for (int64_t e = first; e < end; e++)
        sum += s->gradient[e] * s->direction[e];
    return sum;
}

/* The rounding of the analytic gradients and of the point, which also limit the comparison. */
static double error_of_range(const th_engine *engine, const th_search *s, int64_t first, int64_t end, double h)
{
    double squares = 0;
    const double *noise = engine->gradient_noise ? engine->gradient_noise + s->variable->first_column : NULL;
    for (int64_t e = first; e < end; e++) {
        const double rounding = noise ? noise[e] * s->direction[e] : 0,
                     point = engine->unit * s->start[e] * s->gradient[e] / h;
        squares += rounding * rounding + point * point / 4;
    }
    return sqrt(squares);
}

/* Halves the elements. The whole range disagrees by this much. Sets *element to the last one. */
static bool halve(th_engine *engine, const th_search *s, int64_t first, int64_t end, double disagreement, double h,
                  int64_t *element)
{
    while (end - first > 1) {
        const int64_t middle = first + (end - first) / 2;
        change half;
        if (!compute_change(engine, s, first, middle, h, &half))
            return false;
        const double left = half.quotient - expected_change(s, first, middle), right = disagreement - left;
        disagreement = fabs(left) >= fabs(right) ? left : right;
        if (fabs(left) >= fabs(right))
            end = middle;
        else
            first = middle;
    }
    *element = first;
    return true;
}

/* Compares the change along the direction with the gradients of the elements first to end - 1. */
static bool search_range(th_engine *engine, th_search *s, int64_t first, int64_t end, int64_t *element)
{
    const double h = step_of[engine->kind];
    change once, twice;
    if (!compute_change(engine, s, first, end, h, &once) || !compute_change(engine, s, first, end, 2 * h, &twice))
        return false;
    /* Richardson's extrapolation: the truncation error of the sum is of fourth order in h. */
    const double quotient = (4 * once.quotient - twice.quotient) / 3,
                 truncation = fabs(once.quotient - twice.quotient) / 8,
                 error = once.error + truncation + error_of_range(engine, s, first, end, h),
                 disagreement = quotient - expected_change(s, first, end);
    if (!isfinite(disagreement) || !isfinite(error)) {
        s->incomplete = true;
        return true;
    }
    if (s->largest_derivative > 0) {
        engine->missed_error = fmax(engine->missed_error, 2 * error / (0.25 * s->largest_derivative));
    }
    return fabs(disagreement) <= error || halve(engine, s, first, end, disagreement, h, element);
}

double th_search_missed_probability(const th_search *s)
{
    const double beyond_four_deviations = 3.167e-5; /* of a normal distribution, on one side */
    int comparisons = 1;
    for (double range = fmin((double)s->variable->numel, TH_SEARCH_BLOCK); range > 1; range /= 2)
        comparisons++;
    return comparisons * beyond_four_deviations;
}

bool th_search_element(th_engine *engine, th_search *s, int64_t *element)
{
    const int64_t numel = s->variable->numel;
    *element = -1;
    for (int64_t e = 0; e < numel; e++) {
        s->start[e] = engine->calls->element(engine, s->variable, e);
        s->direction[e] = th_random_coefficient(&engine->random);
    }
    for (int64_t first = 0; first < numel && *element < 0; first += TH_SEARCH_BLOCK) {
        const int64_t end = first + TH_SEARCH_BLOCK < numel ? first + TH_SEARCH_BLOCK : numel;
        if (!search_range(engine, s, first, end, element))
            return false;
    }
    return true;
}
