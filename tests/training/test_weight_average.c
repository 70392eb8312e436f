/* Averages of weights: the formulas, threads, tied, frozen, added, cast and freed parameters, the exchange, memory. */
#include <math.h>
#include <string.h>

#include "memory.h"
#include "tapehead/tapehead.h"
#include "training/weight_average.h"

#include "context.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 2});
    ck_assert_ptr_nonnull(ctx);
}

static th_module *module_new(th_context *c, th_dtype dtype, int64_t size)
{
    th_module *m = th_module_new(c, sizeof *m, "numbers", NULL);
    th_module_add_parameter(m, "p", TH_SHAPE(size));
    ck_assert_int_eq(th_module_cast(m, dtype), TH_OK);
    return m;
}

/* Sets element i of p to a number that depends on the step. */
static void set_values(th_module *m, int step)
{
    th_tensor *p = th_module_find_parameter(m, "p");
    for (int64_t i = 0; i < th_size(p, 0); i++)
        ck_assert_int_eq(th_set(p, TH_INDEX(i), sin(1.7 * (double)i + step) + step), TH_OK);
}

static double value(th_module *m, int64_t i)
{
    return th_get(th_module_find_parameter(m, "p"), TH_INDEX(i));
}

static void update(th_weight_average *a)
{
    ck_assert_msg(th_weight_average_update(a) == TH_OK, "%s", th_error_message(ctx));
}

static void swap(th_weight_average *a)
{
    ck_assert_msg(th_weight_average_swap(a) == TH_OK, "%s", th_error_message(ctx));
}

/* -- the formulas -- */

/* An exponential moving average, one with a warm-up, and a mean. */
static const th_weight_average_options kinds[] = {{.decay = 0.9}, {.decay = 0.75, .warm_up = true}, {.decay = 0}};
enum { KINDS = sizeof kinds / sizeof *kinds, SIZE = 37 };

static double decay_of(const th_weight_average_options *o, int n)
{
    return o->decay == 0 ? n / (n + 1.0) : o->warm_up ? fmin(o->decay, (1.0 + n) / (10.0 + n)) : o->decay;
}

START_TEST(formula_in_float64)
{
    th_module *m = module_new(ctx, TH_FLOAT64, SIZE);
    th_weight_average *a = th_weight_average_new(m, &kinds[_i]);
    double expected[SIZE] = {0};
    for (int step = 0; step < 40; step++) {
        const double d = step == 0 ? 0 : decay_of(&kinds[_i], step);
        set_values(m, step);
        update(a);
        for (int i = 0; i < SIZE; i++)
            expected[i] = d * expected[i] + (1 - d) * value(m, i);
        swap(a);
        for (int i = 0; i < SIZE; i++)
            ck_assert_double_eq_tol(value(m, i), expected[i], 1e-14 * (1 + fabs(expected[i])));
        swap(a);
    }
}
END_TEST

/* torch.optim.swa_utils.AveragedModel of PyTorch 2.13 in float64, with get_ema_multi_avg_fn(0.9) and without. */
START_TEST(as_in_pytorch)
{
    static const double torch[2][5][3] = {{{0, 1, 1},
                                           {0.1, 0.95, 0.95},
                                           {0.49, 0.855, 0.8883333333333333},
                                           {1.341, 0.7195, 0.8245},
                                           {2.8069, 0.54755, 0.76205}},
                                          {{0, 1, 1},
                                           {0.5, 0.75, 0.75},
                                           {1.6666666666666667, 0.5, 0.6111111111111112},
                                           {3.5, 0.25, 0.5208333333333334},
                                           {6, 0, 0.45666666666666667}}};
    th_module *m = module_new(ctx, TH_FLOAT64, 3);
    th_weight_average *a = th_weight_average_new(m, _i == 0 ? &kinds[0] : NULL);
    for (int t = 0; t < 5; t++) {
        const double weights[3] = {(double)t * t, -0.5 * t + 1, 1 / (t + 1.0)};
        for (int i = 0; i < 3; i++)
            ck_assert_int_eq(th_set(th_module_find_parameter(m, "p"), TH_INDEX(i), weights[i]), TH_OK);
        update(a);
        swap(a);
        for (int i = 0; i < 3; i++)
            ck_assert_double_eq_tol(value(m, i), torch[_i][t][i], 2e-15);
        swap(a);
    }
}
END_TEST

/* -- bits -- */

/* Returns the checksum of the averages of a large module after some updates. */
static uint32_t average_of_large(int threads)
{
    th_context *c = th_context_new(&(th_context_options){.seed = 3, .threads = threads});
    th_module *m = th_dense_new(c, 200, 301, NULL);
    th_weight_average *a = th_weight_average_new(m, &(th_weight_average_options){.decay = 0.99});
    for (int step = 0; step < 3; step++) {
        for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);)
            ck_assert_int_eq(th_fill_normal(p.tensor, 0, 1), TH_OK);
        ck_assert_int_eq(th_weight_average_update(a), TH_OK);
    }
    ck_assert_int_eq(th_weight_average_swap(a), TH_OK);
    const uint32_t crc = th_module_crc32c(m);
    ck_assert_int_eq(th_error_code(c), TH_OK);
    th_context_free(c);
    return crc;
}

START_TEST(same_bits_with_any_number_of_threads)
{
    ck_assert_uint_eq(average_of_large(_i), average_of_large(1));
}
END_TEST

START_TEST(a_second_exchange_restores_the_bits)
{
    th_module *m = th_dense_new(ctx, 150, 130, NULL);
    th_weight_average *a = th_weight_average_new(m, &kinds[0]);
    const uint32_t initial = th_module_crc32c(m);
    update(a);
    th_tensor *weight = th_module_find_parameter(m, "weight");
    ck_assert_int_eq(th_fill_normal(weight, 0, 1), TH_OK);
    update(a);
    const uint32_t trained = th_module_crc32c(m);
    ck_assert(!th_weight_average_is_swapped(a));
    swap(a);
    ck_assert(th_weight_average_is_swapped(a));
    ck_assert_uint_ne(th_module_crc32c(m), trained);
    ck_assert_uint_ne(th_module_crc32c(m), initial);
    swap(a);
    ck_assert(!th_weight_average_is_swapped(a));
    ck_assert_uint_eq(th_module_crc32c(m), trained);
}
END_TEST

START_TEST(the_first_average_is_a_copy)
{
    th_module *m = th_dense_new(ctx, 5, 7, NULL);
    th_weight_average *a = th_weight_average_new(m, &kinds[_i]);
    const uint32_t initial = th_module_crc32c(m);
    swap(a); /* nothing is averaged yet */
    ck_assert_uint_eq(th_module_crc32c(m), initial);
    swap(a);
    update(a);
    swap(a);
    ck_assert_uint_eq(th_module_crc32c(m), initial);
}
END_TEST

/* -- which parameters have averages -- */

static int64_t averages_begun(const th_weight_average *a)
{
    int64_t begun = 0;
    for (int64_t i = 0; i < a->count; i++)
        begun += a->parameters[i].updates > 0;
    return begun;
}

START_TEST(a_tied_parameter_has_one_average)
{
    const th_language_model_options options = {.vocabulary = 9, .length = 4, .width = 8, .heads = 2, .layers = 1};
    th_module *m = th_language_model_new(ctx, &options);
    th_weight_average *a = th_weight_average_new(m, &kinds[0]);
    int64_t parameters = 0;
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);)
        parameters++;
    const size_t before = th_memory(ctx).live;
    update(a);
    ck_assert_int_eq(averages_begun(a), parameters);
    const size_t padding = (size_t)parameters * 64;
    ck_assert_uint_le(th_memory(ctx).live - before, (size_t)th_module_count(m) * sizeof(float) + padding);
}
END_TEST

START_TEST(a_frozen_parameter_has_no_average_until_it_is_trained)
{
    th_module *m = module_new(ctx, TH_FLOAT64, 4), *child = th_module_add(m, "child", module_new(ctx, TH_FLOAT64, 4));
    th_weight_average *a = th_weight_average_new(m, &(th_weight_average_options){.decay = 0.5});
    ck_assert_int_eq(th_module_freeze(child, true), TH_OK);
    set_values(m, 0);
    set_values(child, 0);
    update(a);
    ck_assert_int_eq(averages_begun(a), 1);
    ck_assert_int_eq(th_module_freeze(child, false), TH_OK);
    set_values(child, 1);
    update(a);
    set_values(child, 2);
    update(a);
    ck_assert_int_eq(th_module_freeze(child, true), TH_OK); /* its average continues */
    const double first = sin(1) + 1, second = value(child, 0);
    update(a);
    swap(a);
    ck_assert_double_eq_tol(value(child, 0), 0.25 * first + 0.75 * second, 1e-15);
    ck_assert_double_eq_tol(value(m, 0), sin(0), 1e-15);
}
END_TEST

START_TEST(a_parameter_that_is_added_takes_part)
{
    th_module *m = module_new(ctx, TH_FLOAT32, 4);
    th_weight_average *a = th_weight_average_new(m, &kinds[2]);
    update(a);
    th_module *child = th_module_add(m, "child", module_new(ctx, TH_FLOAT32, 4));
    set_values(child, 1);
    update(a);
    set_values(child, 2);
    update(a);
    ck_assert_int_eq(averages_begun(a), 2);
    const double last = value(child, 1);
    swap(a);
    ck_assert_double_eq_tol(value(child, 1), (sin(1.7 + 1) + 1 + last) / 2, 1e-6);
}
END_TEST

/* -- casts, and parameters that end -- */

START_TEST(a_cast_converts_the_average)
{
    th_module *m = module_new(ctx, TH_FLOAT32, SIZE);
    th_weight_average *a = th_weight_average_new(m, &kinds[0]);
    double before[SIZE];
    for (int step = 0; step < 3; step++) {
        set_values(m, step);
        update(a);
    }
    swap(a);
    for (int i = 0; i < SIZE; i++)
        before[i] = value(m, i);
    swap(a);
    ck_assert_int_eq(th_module_cast(m, TH_FLOAT64), TH_OK);
    swap(a);
    for (int i = 0; i < SIZE; i++)
        ck_assert(value(m, i) == before[i]);
    swap(a);
    set_values(m, 3);
    update(a);
    swap(a);
    for (int i = 0; i < SIZE; i++) /* in float64 from here on */
        ck_assert_double_eq_tol(value(m, i), 0.9 * before[i] + 0.1 * (sin(1.7 * i + 3) + 3), 1e-15);
}
END_TEST

START_TEST(a_cast_without_memory_changes_nothing)
{
    test_memory memory = {0};
    th_context *c = th_context_new(&(th_context_options){.seed = 3, .threads = 1, .allocator = allocator_of(&memory)});
    th_module *m = th_dense_new(c, 200, 300, NULL);
    th_weight_average *a = th_weight_average_new(m, &kinds[0]);
    ck_assert_int_eq(th_weight_average_update(a), TH_OK);
    const uint32_t crc = th_module_crc32c(m);
    const size_t live = th_memory(c).live;
    int64_t failures = 0;
    th_status status = TH_ERROR_MEMORY;
    for (int64_t call = 1; status == TH_ERROR_MEMORY; call++) {
        memory.fail_at = memory.calls + call;
        status = th_module_cast(m, TH_FLOAT64);
        memory.fail_at = 0;
        th_error_clear(c);
        if (status == TH_OK)
            break;
        failures++;
        ck_assert_int_eq(status, TH_ERROR_MEMORY);
        ck_assert_uint_eq(th_memory(c).live, live);
        ck_assert_uint_eq(th_module_crc32c(m), crc);
    }
    ck_assert_int_ge(failures, 3); /* the block, and two averages */
    ck_assert_int_eq(th_module_cast(m, TH_FLOAT32), TH_OK);
    ck_assert_int_eq(th_weight_average_swap(a), TH_OK);
    ck_assert_uint_eq(th_module_crc32c(m), crc);
    th_context_free(c);
    ck_assert_uint_eq(memory.bytes, 0);
}
END_TEST

START_TEST(a_parameter_that_is_stored_has_no_average)
{
    th_module *m = th_dense_new(ctx, 64, 32, NULL);
    th_weight_average *a = th_weight_average_new(m, &kinds[0]);
    update(a);
    ck_assert_int_eq(th_module_freeze(m, true), TH_OK);
    ck_assert_int_eq(th_module_store(m, TH_Q8_0), TH_OK);
    ck_assert_int_eq(averages_begun(a), 1); /* the bias is not stored */
    const uint32_t crc = th_module_crc32c(m);
    update(a);
    swap(a);
    ck_assert_uint_eq(th_module_crc32c(m), crc);
}
END_TEST

START_TEST(freed_modules_and_averages)
{
    th_module *m = module_new(ctx, TH_FLOAT32, 4), *child = th_module_add(m, "child", module_new(ctx, TH_FLOAT32, 4));
    th_weight_average *a = th_weight_average_new(m, &kinds[0]);
    update(a);
    const size_t live = th_memory(ctx).live;
    th_module_free(child);
    ck_assert_uint_lt(th_memory(ctx).live, live);
    update(a);
    ck_assert_int_eq(averages_begun(a), 1);
    th_module_free(m);
    expect_status(th_weight_average_update(a), TH_ERROR_STATE, "the module has been freed");
    expect_status(th_weight_average_swap(a), TH_ERROR_STATE, "the module has been freed");
    th_weight_average_free(a);
    expect_status(th_weight_average_update(a), TH_ERROR_STATE, "the averages have been freed");
    th_weight_average_free(a);
    expect_error(TH_ERROR_STATE, "the averages have been freed");
    th_weight_average_free(NULL);
}
END_TEST

/* -- errors -- */

START_TEST(wrong_options)
{
    const th_weight_average_options wrong[] = {{.decay = -0.1}, {.decay = 1}, {.decay = NAN}, {.warm_up = true}};
    static const char *const words[] = {"it is -0.1", "it is 1", "it is nan", "warm_up needs a decay"};
    th_module *m = module_new(ctx, TH_FLOAT32, 4);
    for (int i = 0; i < 4; i++)
        assert_error(th_weight_average_new(m, &wrong[i]), TH_ERROR_ARGUMENT, words[i]);
    assert_error(th_weight_average_new(NULL, NULL), TH_ERROR_ARGUMENT, "NULL");
    assert_error(th_weight_average_new(th_dropout_new(ctx, 0.1), NULL), TH_ERROR_ARGUMENT, "dropout has no parameters");
    expect_status(th_weight_average_update(NULL), TH_ERROR_ARGUMENT, "the averages are NULL");
    ck_assert(!th_weight_average_is_swapped(NULL));
}
END_TEST

START_TEST(no_update_while_the_model_has_the_averages)
{
    th_module *m = module_new(ctx, TH_FLOAT32, 4);
    th_weight_average *a = th_weight_average_new(m, &kinds[0]);
    update(a);
    swap(a);
    expect_status(th_weight_average_update(a), TH_ERROR_STATE, "call th_weight_average_swap before you train");
    swap(a);
    update(a);
}
END_TEST

START_TEST(the_tape_notices_the_exchange)
{
    th_module *m = th_dense_new(ctx, 4, 3, NULL);
    th_weight_average *a = th_weight_average_new(m, &kinds[0]);
    update(a);
    th_tensor *x = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(2, 4)), true);
    th_tensor *loss = th_sum(th_module_forward(m, x), TH_ALL_AXES, NULL);
    swap(a);
    expect_status(th_backward(loss, NULL), TH_ERROR_STATE, "changed");
    th_tape_clear(ctx);
}
END_TEST

START_TEST(an_update_without_memory_can_be_repeated)
{
    test_memory memory = {0};
    th_context *c = th_context_new(&(th_context_options){.seed = 3, .threads = 1, .allocator = allocator_of(&memory)});
    th_module *m = th_dense_new(c, 200, 300, NULL);
    th_weight_average *a = th_weight_average_new(m, &kinds[0]);
    const uint32_t crc = th_module_crc32c(m);
    for (int call = 1; call <= 2; call++) { /* the weight, then the bias */
        memory.fail_at = memory.calls + call;
        ck_assert_int_eq(th_weight_average_update(a), TH_ERROR_MEMORY);
        memory.fail_at = 0;
        th_error_clear(c);
        ck_assert_int_eq(averages_begun(a), 0);
        ck_assert_int_eq(th_weight_average_swap(a), TH_OK); /* there is nothing to exchange */
        ck_assert_int_eq(th_weight_average_swap(a), TH_OK);
        ck_assert_uint_eq(th_module_crc32c(m), crc);
    }
    ck_assert_int_eq(th_weight_average_update(a), TH_OK);
    const int64_t calls = memory.calls;
    ck_assert_int_eq(th_weight_average_update(a), TH_OK);
    ck_assert_int_eq(th_weight_average_swap(a), TH_OK);
    ck_assert_int_eq(memory.calls, calls); /* later updates and exchanges allocate nothing */
    th_context_free(c);
    ck_assert_uint_eq(memory.bytes, 0);
}
END_TEST

START_TEST(a_shapes_only_context_counts_the_memory)
{
    th_context *c = th_context_new(&(th_context_options){.shapes_only = true});
    th_module *m = th_dense_new(c, 200, 300, NULL);
    th_weight_average *a = th_weight_average_new(m, &kinds[0]);
    const size_t live = th_memory(c).live;
    ck_assert_int_eq(th_weight_average_update(a), TH_OK);
    ck_assert_int_eq(th_weight_average_update(a), TH_OK);
    ck_assert_int_eq(th_weight_average_swap(a), TH_OK);
    ck_assert_uint_ge(th_memory(c).live - live, (200 * 300 + 300) * sizeof(float));
    th_context_free(c);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("weight_average", setup, close_context);
    tcase_add_loop_test(tests, formula_in_float64, 0, KINDS);
    tcase_add_loop_test(tests, as_in_pytorch, 0, 2);
    tcase_add_loop_test(tests, same_bits_with_any_number_of_threads, 2, 5);
    tcase_add_test(tests, a_second_exchange_restores_the_bits);
    tcase_add_loop_test(tests, the_first_average_is_a_copy, 0, KINDS);
    tcase_add_test(tests, a_tied_parameter_has_one_average);
    tcase_add_test(tests, a_frozen_parameter_has_no_average_until_it_is_trained);
    tcase_add_test(tests, a_parameter_that_is_added_takes_part);
    tcase_add_test(tests, a_cast_converts_the_average);
    tcase_add_test(tests, a_cast_without_memory_changes_nothing);
    tcase_add_test(tests, a_parameter_that_is_stored_has_no_average);
    tcase_add_test(tests, freed_modules_and_averages);
    tcase_add_test(tests, wrong_options);
    tcase_add_test(tests, no_update_while_the_model_has_the_averages);
    tcase_add_test(tests, the_tape_notices_the_exchange);
    tcase_add_test(tests, an_update_without_memory_can_be_repeated);
    tcase_add_test(tests, a_shapes_only_context_counts_the_memory);
    return run_suites();
}
