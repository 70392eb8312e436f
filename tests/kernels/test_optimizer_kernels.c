/* Tests the optimizer kernels against plain float64 arithmetic over 1,000 steps, and for equal bits on AVX2 and
 * AVX-512. */
#include <math.h>
#include <string.h>

#include "instances.h"
#include "kernels/elementwise/optimizer_kernels.h"
#include "suite.h"

enum { N = 83, STEPS = 1000 };

static uint64_t state;
static double uniform(double low, double high)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(state >> 11) * 0x1p-53;
}

typedef struct adam_case {
    const char *name;
    double scale, coupled, decoupled, eps_inside, eps_outside;
    bool amsgrad;
} adam_case;

static const adam_case adam_cases[] = {
    {"adam", 1, 0, 0, 0, 1e-8, false},       {"adam with weight decay, clipped", 0.37, 1e-2, 0, 0, 1e-8, false},
    {"adamw", 1, 0, 1e-2, 0, 1e-8, false},   {"amsgrad", 1, 0, 0, 0, 1e-8, true},
    {"eps inside", 1, 0, 0, 1e-6, 0, false},
};

START_TEST(test_adam)
{
    const adam_case *a = &adam_cases[_i];
    const double rate = 1e-3, beta1 = 0.9, beta2 = 0.999;
    static float p[ISAS][N], gradient[N], m[ISAS][N], v[ISAS][N], largest[ISAS][N];
    static double p64[N], m64[N], v64[N], largest64[N], kernel64[4][N], gradient64[N];
    state = 7;
    for (int i = 0; i < N; i++) {
        p64[i] = (double)(float)uniform(-1, 1);
        m64[i] = v64[i] = largest64[i] = 0;
        for (int isa = 0; isa < ISAS; isa++) {
            p[isa][i] = (float)p64[i];
            m[isa][i] = v[isa][i] = largest[isa][i] = 0;
        }
        kernel64[0][i] = p64[i];
        kernel64[1][i] = kernel64[2][i] = kernel64[3][i] = 0;
    }
    for (int t = 1; t <= STEPS; t++) {
        for (int i = 0; i < N; i++)
            gradient64[i] = (double)(gradient[i] = (float)(uniform(-1, 1.2) * exp(-i / 8.0)));
        const th_adam_update update = {.gradient_scale = a->scale,
                                       .weight_decay = a->coupled,
                                       .beta1 = beta1,
                                       .beta2 = beta2,
                                       .shrink = rate * a->decoupled,
                                       .step_size = rate / (1 - pow(beta1, t)),
                                       .second_scale = 1 / (1 - pow(beta2, t)),
                                       .eps_inside = a->eps_inside,
                                       .eps_outside = a->eps_outside};
        for (int isa = 0; isa < ISAS && supported(isa); isa++)
            f32[isa]->adam(N, p[isa], gradient, m[isa], v[isa], a->amsgrad ? largest[isa] : NULL, &update);
        f64[0]->adam(N, kernel64[0], gradient64, kernel64[1], kernel64[2], a->amsgrad ? kernel64[3] : NULL, &update);
        for (int i = 0; i < N; i++) { /* the formulas of the papers */
            const double g = a->scale * gradient64[i] + a->coupled * p64[i];
            m64[i] = beta1 * m64[i] + (1 - beta1) * g;
            v64[i] = beta2 * v64[i] + (1 - beta2) * g * g;
            largest64[i] = a->amsgrad ? fmax(largest64[i], v64[i]) : v64[i];
            const double m_hat = m64[i] / (1 - pow(beta1, t)), v_hat = largest64[i] / (1 - pow(beta2, t));
            p64[i] -= rate * a->decoupled * p64[i];
            p64[i] -= rate * m_hat / (sqrt(v_hat + a->eps_inside) + a->eps_outside);
        }
    }
    for (int i = 0; i < N; i++) {
        for (int isa = 0; isa < ISAS && supported(isa); isa++)
            ck_assert_msg(fabs((double)p[isa][i] - p64[i]) <= 1e-5 * fmax(1, fabs(p64[i])), "%s: %.9g, not %.9g",
                          a->name, (double)p[isa][i], p64[i]);
        ck_assert(fabs(kernel64[0][i] - p64[i]) <= 1e-12);
    }
    for (int isa = FUSED + 1; isa < ISAS && supported(isa); isa++) {
        ck_assert(memcmp(p[FUSED], p[isa], sizeof p[0]) == 0 && memcmp(m[FUSED], m[isa], sizeof m[0]) == 0);
        ck_assert(memcmp(v[FUSED], v[isa], sizeof v[0]) == 0 && memcmp(largest[FUSED], largest[isa], sizeof v[0]) == 0);
    }
}
END_TEST

/* With and without Nesterov's momentum: every length gives the same elements, and writes nothing after them. */
START_TEST(test_lengths)
{
    const th_adam_update adam = {.gradient_scale = 0.5,
                                 .weight_decay = 0.1,
                                 .beta1 = 0.9,
                                 .beta2 = 0.99,
                                 .shrink = 0.01,
                                 .step_size = 0.1,
                                 .second_scale = 2,
                                 .eps_outside = 1e-8};
    const th_sgd_update sgd = {
        .gradient_scale = 0.7, .weight_decay = 0.1, .momentum = 0.9, .nesterov = _i, .learning_rate = 0.1};
    for (int isa = 0; isa < ISAS && supported(isa); isa++) {
        float start[5][N], whole[5][N], part[5][N];
        state = 3;
        for (int k = 0; k < 5; k++)
            for (int i = 0; i < N; i++)
                start[k][i] = (float)uniform(0.1, 1);
        memcpy(whole, start, sizeof whole);
        f32[isa]->adam(N, whole[0], whole[1], whole[2], whole[3], whole[4], &adam);
        f32[isa]->sgd(N, whole[0], whole[1], whole[2], &sgd);
        for (int n = 0; n < N; n++) {
            memcpy(part, start, sizeof part);
            f32[isa]->adam(n, part[0], part[1], part[2], part[3], part[4], &adam);
            f32[isa]->sgd(n, part[0], part[1], part[2], &sgd);
            for (int k = 0; k < 5; k++) {
                ck_assert(memcmp(part[k], whole[k], (size_t)n * sizeof(float)) == 0);
                ck_assert(memcmp(part[k] + n, start[k] + n, (size_t)(N - n) * sizeof(float)) == 0);
            }
        }
    }
}
END_TEST

START_TEST(test_sgd)
{
    const bool momentum = _i > 0, nesterov = _i > 1;
    const double rate = 1e-2, mu = momentum ? 0.9 : 0, decay = 1e-3, scale = 0.7;
    static float p[ISAS][N], velocity[ISAS][N], gradient[N];
    static double p64[N], velocity64[N];
    state = 5;
    for (int i = 0; i < N; i++) {
        p64[i] = (double)(float)uniform(-1, 1);
        velocity64[i] = 0;
        for (int isa = 0; isa < ISAS; isa++) {
            p[isa][i] = (float)p64[i];
            velocity[isa][i] = 0;
        }
    }
    const th_sgd_update update = {
        .gradient_scale = scale, .weight_decay = decay, .momentum = mu, .nesterov = nesterov, .learning_rate = rate};
    for (int t = 1; t <= STEPS; t++) {
        for (int i = 0; i < N; i++)
            gradient[i] = (float)uniform(-1, 1);
        for (int isa = 0; isa < ISAS && supported(isa); isa++)
            f32[isa]->sgd(N, p[isa], gradient, momentum ? velocity[isa] : NULL, &update);
        for (int i = 0; i < N; i++) {
            const double g = scale * (double)gradient[i] + decay * p64[i];
            velocity64[i] = mu * velocity64[i] + g;
            p64[i] -= rate * (nesterov ? g + mu * velocity64[i] : velocity64[i]);
        }
    }
    for (int i = 0; i < N; i++)
        for (int isa = 0; isa < ISAS && supported(isa); isa++)
            ck_assert(fabs((double)p[isa][i] - p64[i]) <= 1e-5 * fmax(1, fabs(p64[i])));
    for (int isa = FUSED + 1; isa < ISAS && supported(isa); isa++)
        ck_assert(memcmp(p[FUSED], p[isa], sizeof p[0]) == 0 &&
                  memcmp(velocity[FUSED], velocity[isa], sizeof p[0]) == 0);
}
END_TEST

/* -- gradients whose squares overflow -- */

typedef struct huge_case {
    double gradient;  /* in the first two steps; then 1e-3 */
    double coupled;   /* weight decay */
    double parameter; /* its initial value */
} huge_case;

static const huge_case huge_cases[] = {{1e20, 0, 1}, {3e38, 0, 1}, {-3e38, 0.1, 1}, {1, 1, 3e38}};

#define NEAR_LARGEST(x) (fabs((double)(x)) < 1e38)

/* After a finite gradient of any size, moments and parameters are finite, and Adam moves by the learning rate. */
#define CHECK_HUGE(real, table, factor)                                                                                \
    for (int isa = 0; isa < ISAS && supported(isa); isa++)                                                             \
        for (int amsgrad = 0; amsgrad < 2; amsgrad++) {                                                                \
            real p[N], g[N], m[N] = {0}, v[N] = {0}, largest[N] = {0};                                                 \
            for (int i = 0; i < N; i++)                                                                                \
                p[i] = (real)h->parameter;                                                                             \
            for (int t = 1; t <= 50; t++) {                                                                            \
                for (int i = 0; i < N; i++)                                                                            \
                    g[i] = t < 3 ? (real)(t == 2 ? -h->gradient : h->gradient) * (real)(factor) : (real)1e-3;          \
                const th_adam_update update = {.gradient_scale = 1,                                                    \
                                               .weight_decay = h->coupled,                                             \
                                               .beta1 = 0.9,                                                           \
                                               .beta2 = 0.999,                                                         \
                                               .step_size = 1e-3 / (1 - pow(0.9, t)),                                  \
                                               .second_scale = 1 / (1 - pow(0.999, t)),                                \
                                               .eps_outside = 1e-8};                                                   \
                table[isa]->adam(N, p, g, m, v, amsgrad ? largest : NULL, &update);                                    \
                for (int i = 0; i < N; i++) {                                                                          \
                    ck_assert_msg(isfinite(p[i]) && isfinite(m[i]) && isfinite(v[i]) && isfinite(largest[i]),          \
                                  "isa %d, step %d, gradient %g: p %g, m %g, v %g", isa, t, (double)g[i],              \
                                  (double)p[i], (double)m[i], (double)v[i]);                                           \
                    if (t == 1 && NEAR_LARGEST(h->parameter))                                                          \
                        ck_assert_double_eq_tol((double)p[i], h->parameter - copysign(1e-3, h->gradient), 1e-6);       \
                }                                                                                                      \
            }                                                                                                          \
        }

START_TEST(test_adam_with_huge_gradients)
{
    const huge_case *h = &huge_cases[_i];
    CHECK_HUGE(float, f32, 1)
    CHECK_HUGE(double, f64, NEAR_LARGEST(h->parameter) ? 1e270 : 1)
}
END_TEST

/* SGD's momentum is limited to the largest finite number. */
#define CHECK_VELOCITY(real, table, huge)                                                                              \
    for (int isa = 0; isa < ISAS && supported(isa); isa++) {                                                           \
        real p[N] = {0}, g[N], velocity[N] = {0};                                                                      \
        const th_sgd_update update = {                                                                                 \
            .gradient_scale = 1, .momentum = 0.9, .nesterov = _i == 1, .learning_rate = 1e-6};                         \
        for (int t = 1; t <= 40; t++) {                                                                                \
            for (int i = 0; i < N; i++)                                                                                \
                g[i] = t < 20 ? (real)(huge) : -(real)(huge);                                                          \
            table[isa]->sgd(N, p, g, _i == 2 ? NULL : velocity, &update);                                              \
            for (int i = 0; i < N; i++)                                                                                \
                ck_assert_msg(isfinite(p[i]) && isfinite(velocity[i]), "isa %d, step %d: p %g, velocity %g", isa, t,   \
                              (double)p[i], (double)velocity[i]);                                                      \
        }                                                                                                              \
    }

START_TEST(test_sgd_with_huge_gradients){CHECK_VELOCITY(float, f32, 3e38) CHECK_VELOCITY(double, f64, 1.7e308)} END_TEST

    int main(void)
{
    TCase *tests = new_suite("optimizer_kernels", NULL, NULL);
    tcase_add_loop_test(tests, test_adam, 0, sizeof adam_cases / sizeof *adam_cases);
    tcase_add_loop_test(tests, test_sgd, 0, 3);
    tcase_add_loop_test(tests, test_lengths, 0, 2);
    tcase_add_loop_test(tests, test_adam_with_huge_gradients, 0, sizeof huge_cases / sizeof *huge_cases);
    tcase_add_loop_test(tests, test_sgd_with_huge_gradients, 0, 3);
    return run_suites();
}
