/* Difference quotients along a line, with their rounding errors (quotients.h). */
#include "checker/quotients.h"

#include <float.h>
#include <math.h>

#include "kernels/elementwise/scalar.h"

double th_line_step_factor(const th_line *line)
{
    return line->direction || isinf(line->x) ? 1 : fmax(1, fabs(line->x));
}

/* -- memory -- */

bool th_quotients_init(th_quotients *quotients, th_checker *checker, const double *cotangent, int64_t count)
{
    *quotients = (th_quotients){.checker = checker, .cotangent = cotangent, .count = count};
    quotients->memory = th_checker_allocate(checker->ctx, "check_gradient", 2 * checker->rows + 3 * TH_STEPS * count);
    if (quotients->memory == NULL)
        return false;
    quotients->above = quotients->memory;
    quotients->below = quotients->above + checker->rows;
    quotients->results = quotients->below + checker->rows;
    return true;
}

void th_quotients_free(th_quotients *quotients)
{
    if (quotients->memory)
        th_checker_release(quotients->checker->ctx, quotients->memory,
                           2 * quotients->checker->rows + 3 * TH_STEPS * quotients->count);
}

void th_quotients_start_line(th_quotients *quotients)
{
    for (int k = 0; k < TH_STEPS; k++)
        quotients->length[k] = 0;
}

/* -- one step -- */

static double step_length(const th_checker *checker, const th_line *line, int k)
{
    const th_gradient_options *o = &checker->options;
    double length = (o->step > 0 ? o->step : th_limits.step[o->float32]) * th_line_step_factor(line);
    if (line->direction)
        length *= line->leaf->numel > 1 ? 4 / sqrt((double)line->leaf->numel) : 4;
    return length * th_scalar_pow(th_limits.ratio[o->float32], k - TH_USUAL_STEP);
}

/* Returns b - a, or 0 if both are the same infinity. */
static double difference(double a, double b)
{
    return a == b ? 0 : b - a;
}

/* Computes the results of step k from the outputs at x + above and x - below. The rounding error of a quotient has two
 * causes: the outputs are rounded, and the point is rounded. A stable function does not enlarge the second error. */
static void compute_quotients(th_quotients *quotients, const th_line *line, int k, double above, double below)
{
    const th_checker *checker = quotients->checker;
    const double unit = th_rounding_unit(checker), *c = quotients->cotangent, mean_step = (above + below) / 2;
    double *quotient = th_quotients_of(quotients, k), *bend = th_bends_of(quotients, k),
           *rounding = th_roundings_of(quotients, k);
    const double x = isinf(line->x) ? 0 : line->x; /* a finite step does not move an infinite element */
    double difference_sum = 0, bend_sum = 0, rounding_square = 0;
    quotients->length[k] = mean_step;
    for (int64_t j = 0; j < checker->rows; j++) {
        const double base = checker->base[j], high = quotients->above[j], low = quotients->below[j];
        const double size = fmax(
            fabs(high), fabs(low)); /* if infinite, so is the rounding error, and only two derivatives of 0 are equal */
        if (c == NULL) {
            quotient[j] = difference(low, high) / (2 * mean_step);
            bend[j] = difference(base, high) / above - difference(low, base) / below;
            rounding[j] = unit * (size + fabs(x * quotient[j])) / mean_step;
        } else {
            difference_sum += c[j] * difference(low, high);
            const double bend_term = c[j] * (difference(base, high) / above - difference(low, base) / below);
            bend_sum += checker->at_kinks ? fabs(bend_term)
                                          : bend_term * bend_term; /* bends of different outputs must not cancel */
            rounding_square += c[j] == 0 ? 0 : c[j] * size * c[j] * size;
        }
    }
    if (c) {
        quotient[0] = difference_sum / (2 * mean_step);
        bend[0] = checker->at_kinks ? bend_sum : sqrt(bend_sum);
        rounding[0] = unit * (sqrt(rounding_square) + fabs(x * quotient[0]) + line->gradient_start_norm) / mean_step;
    }
}

/* Moves the point along the line by h, or by the nearest distance that the type can represent. Returns that distance.
 * An infinite element does not move: its derivative is right if the outputs do not change. */
static double move_point(const th_line *line, double h)
{
    th_leaf *leaf = line->leaf;
    if (line->direction == NULL) {
        th_checker_set_element(leaf, line->element, line->x + h);
        return isinf(line->x) ? h : th_checker_element(leaf, line->element) - line->x;
    }
    for (int64_t e = 0; e < leaf->numel; e++)
        th_checker_set_element(leaf, e, line->start[e] + h * line->direction[e]);
    return h;
}

bool th_quotients_run_step(th_quotients *quotients, const th_line *line, int k)
{
    th_checker *checker = quotients->checker;
    const double h = step_length(checker, line, k), x = line->direction || isinf(line->x) ? 0 : line->x;
    if (k < TH_USUAL_STEP && h < TH_SHORTEST_STEP_UNITS * th_checker_epsilon(checker) * fabs(x))
        return true;
    const double below = -move_point(line, -h);
    bool good = th_checker_compute_output(checker, quotients->below);
    const double above = move_point(line, h);
    good = good && th_checker_compute_output(checker, quotients->above);
    move_point(line, 0);
    if (good && above > 0 && below > 0)
        compute_quotients(quotients, line, k, above, below);
    return good;
}
