/* The coefficients of Newton-Schulz iterations (orthogonalize.h). */
#include <string.h>

#include "kernels/products/orthogonalize.h"

static const double jordan[3] = {3.4445, -4.7750, 2.0315};

/* Polar Express for 3, for 4, and for any number of steps. bench/studies/polar_express.py computes them. The
 * last list ends with the Newton-Schulz iteration of degree 5, which further steps repeat. */
static const double express_3[][3] = {
    {7.9893632142225082, -22.747832123744796, 16.678598023544325},
    {3.6434181477950878, -2.7268652746987332, 0.53710789535705394},
    {2.6712664799600772, -1.98531544297439, 0.45352251714071595},
};
static const double express_4[][3] = {
    {8.1521074582081265, -23.211208070240787, 17.018342976089446},
    {3.9094317928813305, -2.899780758546016, 0.55387066673711838},
    {3.1898183202169923, -2.3919490197840063, 0.49912741806326899},
    {2.2000281800359818, -1.5770596350587667, 0.40893738237389943},
};
static const double express[][3] = {
    {8.2872120181456239, -23.59588651909883, 17.300387312530926},
    {4.1070591115421999, -2.9478499167379102, 0.54484310829266025},
    {3.9486908534822938, -2.9089021159629462, 0.551819139437013},
    {3.3184196573706011, -2.4884880243148748, 0.51004894012372026},
    {2.3006520199548182, -1.6689039845747498, 0.41880731195256699},
    {1.891301407787398, -1.267995827194587, 0.37680408948524841},
    {1.875, -1.25, 0.375},
};

/* Returns `steps` steps with these coefficients. The last one of a shorter list repeats. */
static th_newton_schulz schulz_of(int steps, const double (*list)[3], int length)
{
    th_newton_schulz schulz = {.steps = steps, .eps = 1e-7};
    for (int i = 0; i < steps && i < TH_MAX_NEWTON_SCHULZ_STEPS; i++)
        memcpy(schulz.coefficient[i], list[i < length ? i : length - 1], sizeof schulz.coefficient[i]);
    return schulz;
}

th_newton_schulz th_newton_schulz_jordan(int steps)
{
    return schulz_of(steps, &jordan, 1);
}

th_newton_schulz th_newton_schulz_polar_express(int steps)
{
    th_newton_schulz schulz = steps == 3   ? schulz_of(steps, express_3, 3)
                              : steps == 4 ? schulz_of(steps, express_4, 4)
                                           : schulz_of(steps, express, sizeof express / sizeof *express);
    schulz.normalizes_by_gram = true;
    return schulz;
}
