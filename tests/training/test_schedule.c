/* Tests learning-rate schedules: the formulas and their limits. */
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

int main(void)
{
    TCase *rates = new_suite("schedule", NULL, NULL);
    tcase_add_test(rates, warm_up_and_cosine);
    tcase_add_test(rates, noam);
    return run_suites();
}
