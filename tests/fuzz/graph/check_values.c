/* Compares numbers: fused with composed, the program's precision with float64, and gradients with central differences.
 * A second run with slightly moved inputs shows how far rounding can go. */
#include <math.h>
#include <string.h>

#include "check.h"

static bool runs(const program *p, const setting *s, outcome *out, finding *f)
{
    program_run(p, s, out);
    return out->status == TH_OK || report(f, s->name, "fails: %s", out->message);
}

/* Returns the largest number of an outcome; infinite if one is not finite. */
static double magnitude(const program *p, const outcome *out)
{
    double y = 0;
    for (int v = 0; v < p->values; v++)
        for (int64_t i = 0; out->value[v].data && i < shape_count(&out->value[v].shape); i++) {
            const double x = fabs(out->value[v].data[i]);
            y = x <= y ? y : isfinite(x) ? x : INFINITY;
        }
    return y;
}

/* -- central differences -- */

enum { STEPS = 3 };

/* Returns dL/dh along the direction of one leaf or parameter (1 + its index), or of all (0). */
static bool quotient(const program *p, const outcome *exact, int shifted, double step, double *y, finding *f)
{
    double loss[2];
    outcome out;
    for (int side = 0; side < 2; side++) {
        const setting s = {.name = "a moved run",
                           .sequence = -1,
                           .double_precision = true,
                           .shift = side ? step : -step,
                           .shifted = shifted,
                           .frozen = exact,
                           .loss_only = true};
        const bool ok = runs(p, &s, &out, f);
        loss[side] = out.loss;
        outcome_free(&out);
        if (!ok)
            return false;
    }
    *y = (loss[1] - loss[0]) / (2 * step);
    return true;
}

static bool check_direction(const program *p, const outcome *exact, int shifted, double slope, finding *f)
{
    static const double steps[STEPS] = {1e-3, 1e-4, 1e-5};
    double q[STEPS];
    for (int i = 0; i < STEPS; i++)
        if (!quotient(p, exact, shifted, steps[i], &q[i], f))
            return false;
    const double one = fabs(q[0] - q[1]), two = fabs(q[1] - q[2]), off = fmin(one, two), best = one < two ? q[0] : q[2];
    const double size = fmax(fabs(q[1]), fabs(slope));
    if (!isfinite(q[0] + q[1] + q[2]) || one > 0.01 * size || two > 1e-3 * size)
        return true; /* a kink, or rounding: cannot tell */
    if (fabs(slope - q[1]) <= 1e-5 * size + 30 * off + 1e-11 * (1 + fabs(exact->loss)) / steps[1] ||
        fabs(slope - best) <= 1e-5 * size)
        return true;
    if (shifted == 0)
        return report(f, "central differences",
                      "the gradient along a direction is %.10g, the quotients are %.10g %.10g %.10g", slope, q[0], q[1],
                      q[2]);
    return report(f, "central differences",
                  "the gradient of %s %d along a direction is %.10g, the quotients are %.10g %.10g %.10g",
                  shifted <= MAX_LEAVES ? "v" : "parameter",
                  shifted <= MAX_LEAVES ? p->leaf[shifted - 1].value : shifted - 1 - MAX_LEAVES, slope, q[0], q[1],
                  q[2]);
}

static bool check_quotients(const program *p, const outcome *exact, finding *f)
{
    double all = 0;
    int count = 0, one = 0;
    for (int i = 0; i < MAX_GRADIENTS; i++)
        if (exact->gradient[i].data) {
            all += exact->slope[i];
            count++;
            if (p->seed % (uint32_t)count == 0)
                one = i;
        }
    return count == 0 ||
           (check_direction(p, exact, 0, all, f) && check_direction(p, exact, 1 + one, exact->slope[one], f));
}

/* -- rounding -- */

/* Returns whether a program in float64 converts to float32. */
static bool has_casts(const program *p)
{
    for (int i = 0; i < p->lines; i++)
        if (!p->line[i].dropped && strstr(p->line[i].label, "cast to the other"))
            return true;
    return false;
}

bool check_values(const program *p, const outcome *base, finding *f)
{
    static const double errors[] = {1e-6, 2e-5, 1e-2};
    setting s = {.name = "float64", .sequence = -1, .double_precision = true};
    outcome exact[2], other;
    if (!runs(p, &s, &exact[0], f))
        return false;
    const double size = magnitude(p, &exact[0]);
    const double error = p->dtype == TH_FLOAT32 ? errors[p->precision] : has_casts(p) ? errors[0] : 1e-12;
    s.shift = error / 10, s.name = "a moved run";
    bool ok = runs(p, &s, &exact[1], f);
    if (ok && size < 1e4) {
        const comparison c = {"float64", .values = true, .gradients = true, .spread = exact, .tolerance = 30 * error};
        ok = same_outcomes(p, &c, &exact[0], base, NULL, f);
    }
    if (ok) {
        setting strided = {.name = "strided", .sequence = -1, .strided = true};
        const comparison c = {"strided", .values = true, .gradients = true, .spread = exact, .tolerance = 30 * error};
        if ((ok = runs(p, &strided, &other, f)) && size < 1e4)
            ok = same_outcomes(p, &c, &exact[0], &other, NULL, f);
        outcome_free(&other);
    }
    outcome_free(&exact[1]);
    s.shift = 1e-11;
    ok = ok && runs(p, &s, &exact[1], f);
    s.shift = 0, s.composed = true, s.name = "composed";
    if (ok && (ok = runs(p, &s, &other, f)) && size < 1e6) {
        const comparison c = {"composed", .values = true, .gradients = true, .spread = exact, .tolerance = 1e-10};
        ok = same_outcomes(p, &c, &exact[0], &other, NULL, f);
    }
    if (s.composed && f->check[0] == 0)
        outcome_free(&other);
    if (ok) {
        s = (setting){.name = "twice", .sequence = -1, .double_precision = true, .twice = true};
        const comparison c = {"gradients added up", .gradients = true, .spread = exact, .tolerance = 1e-10,
                              .factor = 2};
        if (!random_numbers(p) && (ok = runs(p, &s, &other, f)))
            ok = same_outcomes(p, &c, &exact[0], &other, NULL, f);
        if (!random_numbers(p))
            outcome_free(&other);
    }
    if (ok && size < 1e4)
        ok = check_quotients(p, &exact[0], f);
    outcome_free(&exact[0]);
    outcome_free(&exact[1]);
    return ok;
}
