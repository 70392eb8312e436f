/* Difference quotients along a line, with their rounding errors (quotients.h). */
#include "checker/engine/quotients.h"

#include <float.h>
#include <math.h>

double th_line_step_factor(const th_line *line)
{
    return line->direction || isinf(line->x) ? 1 : fmax(1, fabs(line->x));
}

/* -- memory -- */

bool th_quotients_init(th_quotients *quotients, th_engine *engine, const double *cotangent, int64_t count)
{
    *quotients = (th_quotients){.engine = engine, .cotangent = cotangent, .count = count};
    quotients->memory = engine->calls->allocate(engine, 2 * engine->rows + 3 * TH_STEPS * count);
    if (quotients->memory == NULL)
        return false;
    quotients->above = quotients->memory;
    quotients->below = quotients->above + engine->rows;
    quotients->results = quotients->below + engine->rows;
    return true;
}

void th_quotients_free(th_quotients *quotients)
{
    if (quotients->memory)
        quotients->engine->calls->release(quotients->engine, quotients->memory,
                                          2 * quotients->engine->rows + 3 * TH_STEPS * quotients->count);
}

void th_quotients_start_line(th_quotients *quotients)
{
    for (int k = 0; k < TH_STEPS; k++)
        quotients->length[k] = 0;
}

/* -- one step -- */

/* Returns the power of two with the nearest logarithm. */
static double nearest_power_of_two(double x)
{
    int exponent;
    const double part = frexp(x, &exponent); /* in [0.5, 1) */
    return ldexp(1, part < sqrt(0.5) ? exponent - 1 : exponent);
}

static double step_length(const th_engine *engine, const th_line *line, int k)
{
    const th_gradient_options *o = &engine->options;
    double length = (o->step > 0 ? o->step : th_limits.step[engine->kind]) * th_line_step_factor(line);
    if (line->direction)
        length *= line->variable->numel > 1 ? 4 / sqrt((double)line->variable->numel) : 4;
    if (engine->kind >= TH_KIND_FLOAT16 && o->step <= 0)
        length = nearest_power_of_two(length); /* it keeps the sum with a short number exact */
    for (int i = TH_USUAL_STEP; i < k; i++)
        length *= th_limits.ratio[engine->kind];
    for (int i = TH_USUAL_STEP; i > k; i--)
        length /= th_limits.ratio[engine->kind];
    return length;
}

/* Returns b - a, or 0 if both are the same infinity. */
static double change_between(double a, double b)
{
    return a == b ? 0 : b - a;
}

/* Computes the results of step k from the outputs at x + above and x - below. The rounding error of a quotient has two
 * causes: the outputs are rounded, and the point is rounded. A stable function does not enlarge the second error. */
static void compute_quotients(th_quotients *quotients, const th_line *line, int k, double above, double below)
{
    const th_engine *engine = quotients->engine;
    const double unit = engine->unit, *c = quotients->cotangent, mean_step = (above + below) / 2;
    double *quotient = th_quotients_of(quotients, k), *bend = th_bends_of(quotients, k),
           *rounding = th_roundings_of(quotients, k);
    const double x = isinf(line->x) ? 0 : line->x; /* a finite step does not move an infinite element */
    double difference_sum = 0, bend_sum = 0, rounding_square = 0;
    quotients->length[k] = mean_step;
    for (int64_t j = 0; j < engine->rows; j++) {
        const double base = engine->base[j], high = quotients->above[j], low = quotients->below[j];
        const double size = fmax(
            fabs(high), fabs(low)); /* if infinite, so is the rounding error, and only two derivatives of 0 are equal */
        if (c == NULL) {
            quotient[j] = change_between(low, high) / (2 * mean_step);
            bend[j] = change_between(base, high) / above - change_between(low, base) / below;
            rounding[j] = unit * (size + fabs(x * quotient[j])) / mean_step;
        } else {
            difference_sum += c[j] * change_between(low, high);
            const double bend_term = c[j] * (change_between(base, high) / above - change_between(low, base) / below);
            bend_sum += engine->at_kinks ? fabs(bend_term)
                                         : bend_term * bend_term; /* bends of different outputs must not cancel */
            rounding_square += c[j] == 0 ? 0 : c[j] * size * c[j] * size;
        }
    }
    if (c) {
        quotient[0] = difference_sum / (2 * mean_step);
        bend[0] = engine->at_kinks ? bend_sum : sqrt(bend_sum);
        rounding[0] = unit * (sqrt(rounding_square) + fabs(x * quotient[0]) + line->gradient_start_norm) / mean_step;
    }
}

/* Moves the point along the line by h, or by the nearest distance that the type can represent. Returns that distance.
 * An infinite element does not move: its derivative is right if the outputs do not change. */
static double move_point(th_engine *engine, const th_line *line, double h)
{
    th_variable *variable = line->variable;
    if (line->direction == NULL) {
        engine->calls->set_element(engine, variable, line->element, line->x + h);
        return isinf(line->x) ? h : engine->calls->element(engine, variable, line->element) - line->x;
    }
    engine->calls->move(engine, variable, 0, variable->numel, line->start, line->direction, h);
    return h;
}

bool th_quotients_run_step(th_quotients *quotients, const th_line *line, int k)
{
    th_engine *engine = quotients->engine;
    const double h = step_length(engine, line, k), x = line->direction || isinf(line->x) ? 0 : line->x;
    if (k < TH_USUAL_STEP && h < TH_SHORTEST_STEP_UNITS * engine->epsilon * fabs(x))
        return true;
    const double below = -move_point(engine, line, -h);
    bool good = engine->calls->compute_output(engine, quotients->below);
    const double above = move_point(engine, line, h);
    good = good && engine->calls->compute_output(engine, quotients->above);
    move_point(engine, line, 0);
    if (good && above > 0 && below > 0)
        compute_quotients(quotients, line, k, above, below);
    return good;
}
