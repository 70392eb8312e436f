/* Tests that the gradient checker detects a broken backward driver, which overwrites gradients instead of adding. The
 * test compiles the driver (backward.c) with two of its calls replaced, and links it instead of the library's. */
#define TAPEHEAD_NO_LOCATIONS
#include <stdbool.h>

#include "autograd/gradient.h"
#include "tensor/elementwise.h"

typedef enum breakage { NOTHING, OPEN_OVERWRITES, SUM_OVERWRITES, BREAKAGES } breakage;
static breakage broken;

static th_status broken_open(th_gradient_buffer **written, th_tensor_impl *t, th_array *target, bool *add)
{
    const th_status status = th_gradient_open_for_write(written, t, target, add);
    if (broken == OPEN_OVERWRITES)
        *add = false;
    return status;
}

static void broken_sum(th_context *ctx, const th_array *target, const th_array *source, bool add)
{
    th_sum_to_array(ctx, target, source, add && broken != SUM_OVERWRITES);
}

#define th_gradient_open_for_write broken_open
#define th_sum_to_array broken_sum
#include "autograd/backward.c"
#undef th_gradient_open_for_write
#undef th_sum_to_array

#include "tapehead/gradient_check.h"
#include "tapehead/ops.h"

#include "context.h"

static void setup(void)
{
    broken = NOTHING;
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 1});
}

static th_tensor *square(void *user, th_tensor *x)
{
    (void)user;
    return th_mul(x, x);
}

static th_tensor *residual(void *user, th_tensor *x)
{
    (void)user;
    th_tensor *h = th_scale(x, 1);
    return th_add(h, th_exp(h));
}

static th_tensor *broadcast_twice(void *user, th_tensor *x)
{
    (void)user;
    th_tensor *wide = th_ones(th_context_of(x), th_dtype_of(x), TH_SHAPE(5, 3, 4));
    return th_mul(th_mul(x, wide), x);
}

static th_tensor *expanded(void *user, th_tensor *x)
{
    (void)user;
    return th_add(th_expand(x, TH_SHAPE(2, 3, 4)), x);
}

static th_tensor *overlapping(void *user, th_tensor *x)
{
    (void)user;
    return th_matmul(th_slice(x, 0, 0, 2, 1), th_swap_axes(th_slice(x, 0, 1, 3, 1), 0, 1));
}

/* Operations that cannot add: they write to a temporary, which the driver adds. */
static th_tensor *cast_twice(void *user, th_tensor *x) /* float32 */
{
    (void)user;
    return th_cast(th_mul(th_cast(x, TH_FLOAT64), th_cast(x, TH_FLOAT64)), TH_FLOAT32);
}

static th_tensor *dropped_twice(void *user, th_tensor *x)
{
    (void)user;
    return th_add(th_dropout(x, 0.3), th_dropout(x, 0.4));
}

static th_tensor *masked_twice(void *user, th_tensor *x)
{
    (void)user;
    th_tensor *keep = th_ones(th_context_of(x), TH_BOOL, TH_SHAPE(3, 3));
    return th_masked_matmul(x, th_swap_axes(x, 0, 1), keep, TH_MASK_RESULT);
}

static th_status check(th_gradient_function_of_one *function)
{
    th_gradient_report report;
    const th_status status = th_check_gradient_of(function, NULL, th_randn(ctx, TH_FLOAT64, TH_SHAPE(3, 4)),
                                                  &(th_gradient_options){.float32 = function == cast_twice}, &report);
    ck_assert_msg(th_error_code(ctx) == TH_OK, "%s", th_error_message(ctx));
    return status;
}

static th_gradient_function_of_one *const functions[] = {square,      residual,   broadcast_twice, expanded,
                                                         overlapping, cast_twice, dropped_twice,   masked_twice};
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

START_TEST(the_unchanged_driver_passes)
{
    ck_assert_int_eq(check(functions[_i]), TH_OK);
}
END_TEST

START_TEST(a_driver_that_overwrites_is_rejected)
{
    broken = OPEN_OVERWRITES;
    ck_assert_int_eq(check(functions[_i]), TH_ERROR_VALUE);
}
END_TEST

START_TEST(a_driver_whose_sums_overwrite_is_rejected)
{
    broken = SUM_OVERWRITES;
    if (functions[_i] != residual && functions[_i] != overlapping) /* nothing is summed there */
        ck_assert_int_eq(check(functions[_i]), TH_ERROR_VALUE);
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("mutated driver", setup, close_context);
    tcase_add_loop_test(tcase, the_unchanged_driver_passes, 0, FUNCTIONS);
    tcase_add_loop_test(tcase, a_driver_that_overwrites_is_rejected, 0, FUNCTIONS);
    tcase_add_loop_test(tcase, a_driver_whose_sums_overwrite_is_rejected, 0, FUNCTIONS);
    return run_suites();
}
