/* Tests schedules of the learning rate and of the batch: the formulas, their limits, and values of PyTorch. */
#include <math.h>

#include "suite.h"
#include "tapehead/tapehead.h"

START_TEST(warm_up_and_cosine)
{
    const th_cosine_schedule s = {.peak = 2, .warmup_steps = 10, .total_steps = 110, .final_rate = 0.5};
    ck_assert_double_eq_tol(th_schedule_cosine(0, &s), 0.2, 1e-15);
    ck_assert_double_eq_tol(th_schedule_cosine(4, &s), 1.0, 1e-15);
    ck_assert_double_eq_tol(th_schedule_cosine(9, &s), 2.0, 1e-15);
    ck_assert_double_eq_tol(th_schedule_cosine(10, &s), 2.0, 1e-15);
    ck_assert_double_eq_tol(th_schedule_cosine(35, &s), 0.5 + 1.5 * 0.5 * (1 + sqrt(0.5)), 1e-14);
    ck_assert_double_eq_tol(th_schedule_cosine(60, &s), 1.25, 1e-14);
    ck_assert_double_eq_tol(th_schedule_cosine(110, &s), 0.5, 1e-15);
    ck_assert_double_eq_tol(th_schedule_cosine(5000, &s), 0.5, 1e-15);
    for (int64_t step = 1; step < 10; step++)
        ck_assert(th_schedule_cosine(step, &s) > th_schedule_cosine(step - 1, &s));
    for (int64_t step = 11; step <= 110; step++)
        ck_assert(th_schedule_cosine(step, &s) < th_schedule_cosine(step - 1, &s));
    /* Without warm-up the first rate is the peak. A run without steps after the warm-up has the final rate. */
    ck_assert(th_schedule_cosine(0, &(th_cosine_schedule){.peak = 3, .total_steps = 10}) == 3);
    ck_assert(th_schedule_cosine(7, &(th_cosine_schedule){.peak = 3, .warmup_steps = 5, .total_steps = 5}) == 0);
    ck_assert(th_schedule_cosine(0, &(th_cosine_schedule){.peak = 3, .final_rate = 1}) == 1);
}
END_TEST

START_TEST(noam)
{
    /* Vaswani et al. 2017, equation 3, width 512 and 4000 warm-up steps: the largest rate is 512^-1/2 4000^-1/2. */
    const th_noam_schedule s = {.width = 512, .warmup_steps = 4000};
    ck_assert_double_eq_tol(th_schedule_noam(3999, &s), 6.987712429686843e-4, 1e-15);
    ck_assert_double_eq_tol(th_schedule_noam(0, &s), pow(512, -0.5) * pow(4000, -1.5), 1e-18);
    ck_assert_double_eq_tol(th_schedule_noam(99999, &s), pow(512, -0.5) * pow(100000, -0.5), 1e-15);
    for (int64_t step = 1; step < 8000; step++)
        ck_assert_int_eq(th_schedule_noam(step, &s) > th_schedule_noam(step - 1, &s), step < 4000);
    const th_noam_schedule twice = {.width = 512, .warmup_steps = 4000, .factor = 2};
    ck_assert_double_eq_tol(th_schedule_noam(123, &twice), 2 * th_schedule_noam(123, &s), 1e-18);
    ck_assert(isfinite(th_schedule_noam(0, &(th_noam_schedule){.width = 64})));
}
END_TEST

/* A rate of PyTorch 2.13 at a step. */
typedef struct rate_at {
    int64_t step;
    double rate;
} rate_at;

/* SequentialLR of LinearLR(1/5, total_iters=4), then LinearLR(1, 0.05, total_iters=15), peak 2. */
START_TEST(linear_decay)
{
    const th_linear_schedule s = {.peak = 2, .warmup_steps = 5, .total_steps = 20, .final_rate = 0.1};
    const rate_at torch[] = {{0, 0.4},
                             {2, 1.2},
                             {4, 2},
                             {5, 2},
                             {6, 1.8733333333333333},
                             {12, 1.1133333333333333},
                             {19, 0.22666666666666668},
                             {20, 0.1},
                             {24, 0.1}};
    for (size_t i = 0; i < sizeof torch / sizeof *torch; i++)
        ck_assert_double_eq_tol(th_schedule_linear(torch[i].step, &s), torch[i].rate, 1e-15);
    ck_assert(th_schedule_linear(0, &(th_linear_schedule){.peak = 3, .total_steps = 10}) == 3);
    ck_assert(th_schedule_linear(5, &(th_linear_schedule){.peak = 3, .total_steps = 10}) == 1.5);
    ck_assert(th_schedule_linear(7, &(th_linear_schedule){.peak = 3, .warmup_steps = 5, .total_steps = 5}) == 0);
}
END_TEST

/* The same warm-up, ConstantLR for 7 steps, then 8 steps of LinearLR, of LambdaLR (1 - sqrt) or of CosineAnnealingLR. */
START_TEST(warm_up_stable_decay)
{
    static const rate_at torch[][4] = {
        [TH_DECAY_LINEAR] = {{12, 2}, {13, 1.7625}, {16, 1.05}, {19, 0.3375}},
        [TH_DECAY_SQRT] = {{12, 2}, {13, 1.3282485578727798}, {16, 0.6564971157455596}, {19, 0.22271274128237786}},
        [TH_DECAY_COSINE] = {{12, 2}, {13, 1.9276855558857224}, {16, 1.05}, {19, 0.1723144441142776}}};
    th_wsd_schedule s = {
        .peak = 2, .warmup_steps = 5, .total_steps = 20, .decay_steps = 8, .final_rate = 0.1, .decay = (th_decay)_i};
    for (int i = 0; i < 4; i++)
        ck_assert_double_eq_tol(th_schedule_wsd(torch[_i][i].step, &s), torch[_i][i].rate, 1e-15);
    ck_assert_double_eq_tol(th_schedule_wsd(0, &s), 0.4, 1e-15);
    for (int64_t step = 4; step <= 12; step++)
        ck_assert(th_schedule_wsd(step, &s) == 2);
    ck_assert(th_schedule_wsd(20, &s) == 0.1 && th_schedule_wsd(1000, &s) == 0.1);
    s.decay_steps = 15;
    const double after_warmup = th_schedule_wsd(9, &s);
    s.decay_steps = 1000; /* longer than what the warm-up leaves */
    ck_assert(th_schedule_wsd(4, &s) == 2 && th_schedule_wsd(9, &s) == after_warmup);
}
END_TEST

START_TEST(stable_without_decay)
{
    const th_wsd_schedule constant = {.peak = 3e-3, .warmup_steps = 5, .total_steps = 20, .final_rate = 3e-4};
    ck_assert_double_eq_tol(th_schedule_wsd(0, &constant), 6e-4, 1e-18);
    ck_assert(th_schedule_wsd(5, &constant) == 3e-3 && th_schedule_wsd(20, &constant) == 3e-3);
    ck_assert(th_schedule_wsd(INT64_MAX, &constant) == 3e-3);
    const th_wsd_schedule unknown = {.peak = 1, .total_steps = 2, .decay_steps = 2, .decay = (th_decay)3};
    ck_assert(isnan(th_schedule_wsd(1, &unknown)));
}
END_TEST

enum { MEASUREMENTS = 24 };
static const double losses[MEASUREMENTS] = {3,   2,   2.0001, 1.9999, 2,   2,   1.5, 1.49, 1.5, 1.6, NAN, 1.7,
                                            1.4, 1.5, 1.5,    1.5,    1.5, 1.5, 1.5, 1.5,  1.5, 1.5, 1.5, 1.5};

/* The options of a plateau schedule, and where ReduceLROnPlateau of PyTorch 2.13 reduces a rate of 1. */
typedef struct plateau_case {
    th_plateau_schedule options;
    int reductions[MEASUREMENTS]; /* measurements, counted from 1 */
} plateau_case;

static const plateau_case plateau_cases[] = {
    {{.rate = 1}, {24}},
    {{.rate = 1, .factor = 0.5, .patience = 2, .cooldown = 1, .final_rate = 0.1}, {5, 11, 16, 20}},
    {{.rate = 1, .factor = 0.5, .no_patience = true, .threshold = 0.005, .absolute = true},
     {3, 4, 5, 6, 9, 10, 11, 12, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24}},
    {{.rate = 1, .factor = 0.25, .patience = 3, .threshold = 0.01, .maximize = true}, {5, 9, 13, 17, 21}},
    {{.rate = 1,
      .factor = 0.5,
      .patience = 4,
      .cooldown = 2,
      .threshold = 0.05,
      .absolute = true,
      .maximize = true,
      .final_rate = 0.3},
     {6, 13}},
};

START_TEST(plateau)
{
    const plateau_case *c = &plateau_cases[_i];
    const double factor = c->options.factor == 0 ? 0.1 : c->options.factor;
    th_plateau_state state = {0};
    double expected = 1;
    for (int i = 0, next = 0; i < MEASUREMENTS; i++) {
        if (c->reductions[next] == i + 1) {
            expected = fmax(expected * factor, c->options.final_rate);
            next++;
        }
        ck_assert_msg(th_schedule_plateau(losses[i], &c->options, &state) == expected, "measurement %d: %g, not %g",
                      i + 1, state.rate, expected);
    }
    ck_assert_int_eq(state.measurements, MEASUREMENTS);
}
END_TEST

/* A state that was saved after any measurement, and restored, gives the same rates. */
START_TEST(plateau_resumes)
{
    const th_plateau_schedule *options = &plateau_cases[1].options;
    for (int at = 0; at < MEASUREMENTS; at++) {
        th_plateau_state whole = {0}, resumed = {0};
        for (int i = 0; i < MEASUREMENTS; i++) {
            if (i == at)
                resumed = whole;
            const double rate = th_schedule_plateau(losses[i], options, &whole);
            ck_assert(i < at || th_schedule_plateau(losses[i], options, &resumed) == rate);
        }
    }
}
END_TEST

START_TEST(plateau_limits)
{
    th_plateau_state state = {0};
    const th_plateau_schedule tiny = {.rate = 1e-8, .factor = 0.5, .no_patience = true, .no_threshold = true};
    ck_assert(th_schedule_plateau(1, &tiny, &state) == 1e-8);
    ck_assert(th_schedule_plateau(1, &tiny, &state) == 1e-8); /* the decrease would be less than 1e-8 */
    ck_assert_int_eq(state.bad, 0);
    ck_assert_int_eq(state.measurements, 2);
    const th_plateau_schedule wrong[] = {{.rate = 0},
                                         {.rate = INFINITY},
                                         {.rate = 1, .factor = 1},
                                         {.rate = 1, .factor = -0.1},
                                         {.rate = 1, .final_rate = -1},
                                         {.rate = 1, .patience = -1},
                                         {.rate = 1, .cooldown = -1},
                                         {.rate = 1, .threshold = -1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert(isnan(th_schedule_plateau(1, &wrong[i], &state)));
    ck_assert(isnan(th_schedule_plateau(1, NULL, &state)) && isnan(th_schedule_plateau(1, &tiny, NULL)));
    ck_assert_int_eq(state.measurements, 2);
}
END_TEST

START_TEST(batch_grows)
{
    const th_batch_schedule s = {.first = 4, .last = 12, .growth_steps = 100, .multiple = 2};
    const int64_t expected[][2] = {{0, 4},   {24, 4},  {25, 6},   {49, 6},  {50, 8},
                                   {75, 10}, {99, 10}, {100, 12}, {999, 12}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        ck_assert_int_eq(th_schedule_batch(expected[i][0], &s), expected[i][1]);
    const th_batch_schedule by_one = {.first = 1, .last = 8, .growth_steps = 7};
    for (int64_t step = 0; step < 9; step++)
        ck_assert_int_eq(th_schedule_batch(step, &by_one), step < 7 ? 1 + step : 8);
    ck_assert_int_eq(th_schedule_batch(0, &(th_batch_schedule){.first = 3, .last = 9}), 9);
    const th_batch_schedule largest = {.first = 1, .last = INT64_MAX, .growth_steps = INT64_MAX};
    ck_assert(th_schedule_batch(INT64_MAX - 1, &largest) > 0);
}
END_TEST

START_TEST(batch_limits)
{
    const th_batch_schedule wrong[] = {{.first = 0, .last = 4},
                                       {.first = 4, .last = 3},
                                       {.first = 1, .last = 4, .growth_steps = -1},
                                       {.first = 1, .last = 4, .multiple = -1},
                                       {.first = 3, .last = 4, .multiple = 2},
                                       {.first = 2, .last = 5, .multiple = 2}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert_int_eq(th_schedule_batch(1, &wrong[i]), 0);
    ck_assert_int_eq(th_schedule_batch(-1, &(th_batch_schedule){.first = 1, .last = 4}), 0);
}
END_TEST

int main(void)
{
    TCase *rates = new_suite("schedule", NULL, NULL);
    tcase_add_test(rates, warm_up_and_cosine);
    tcase_add_test(rates, noam);
    tcase_add_test(rates, linear_decay);
    tcase_add_loop_test(rates, warm_up_stable_decay, TH_DECAY_LINEAR, TH_DECAY_COSINE + 1);
    tcase_add_test(rates, stable_without_decay);
    tcase_add_loop_test(rates, plateau, 0, sizeof plateau_cases / sizeof *plateau_cases);
    tcase_add_test(rates, plateau_resumes);
    tcase_add_test(rates, plateau_limits);
    tcase_add_test(rates, batch_grows);
    tcase_add_test(rates, batch_limits);
    return run_suites();
}
