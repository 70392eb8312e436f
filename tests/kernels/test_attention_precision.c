/* The attention kernels with products of bfloat16 parts: the checks of float32 with the precision's tolerance, and
 * equal bits on every path of this processor. Then attention as single operations, which is as precise. */
#include "attention_checks.h"
#include "instances.h"
#include "suite.h"
#include "tapehead/tapehead.h"

static const struct {
    th_precision precision;
    double tolerance;
} precisions[] = {{TH_PRECISION_BFLOAT16X3, 3e-5}, {TH_PRECISION_BFLOAT16, 2e-2}};
enum { PRECISIONS = sizeof precisions / sizeof *precisions };

/* One machine for every path of this processor with fused multiply-add. Without AMX, which is interpreted on most
 * processors. */
static int machines(int precision, th_machine *list)
{
    int count = 0;
    for (int isa = FUSED; isa < PRODUCT_PATHS; isa++)
        if (isa != AMX && supported(isa)) {
            list[count] = machine_of(isa, 1);
            list[count++].precision = precisions[precision].precision;
        }
    return count;
}

START_TEST(values_and_gradients_are_as_defined)
{
    th_machine list[PRODUCT_PATHS];
    for (int precision = 0; precision < PRECISIONS; precision++) {
        const int count = machines(precision, list);
        check_values(&cases[_i], list, count, TH_FLOAT32, precisions[precision].tolerance);
        th_machine plainest = machine_of(0, 1);
        plainest.precision = precisions[precision].precision;
        check_values(&cases[_i], &plainest, 1, TH_FLOAT32, precisions[precision].tolerance);
    }
}
END_TEST

START_TEST(bits_do_not_depend_on_team_and_path)
{
    th_machine list[PRODUCT_PATHS];
    for (int precision = 0; precision < PRECISIONS; precision++) {
        const int count = machines(precision, list);
        if (count > 0)
            check_teams(&cases[_i], list, count, TH_FLOAT32);
    }
}
END_TEST

START_TEST(bits_do_not_depend_on_batch_and_other_queries)
{
    th_machine list[PRODUCT_PATHS];
    for (int precision = 0; precision < PRECISIONS; precision++) {
        const int count = machines(precision, list);
        for (int m = 0; m < count; m++) {
            check_batch(&cases[_i], &list[m]);
            check_queries_alone(&cases[_i], &list[m], TH_FLOAT32);
        }
    }
}
END_TEST

START_TEST(masked_numbers_do_not_change_bits)
{
    th_machine list[PRODUCT_PATHS];
    for (int precision = 0; precision < PRECISIONS; precision++) {
        const int count = machines(precision, list);
        if (count > 0)
            check_hidden(&cases[_i], list, count, false);
    }
}
END_TEST

START_TEST(promises)
{
    static void (*const checks[])(const th_machine *machine) = {check_visible_nan, check_queries_without_keys,
                                                                check_kinds_of_mask, check_each_gradient_alone};
    th_machine list[PRODUCT_PATHS];
    for (int precision = 0; precision < PRECISIONS; precision++) {
        const int count = machines(precision, list);
        for (int m = 0; m < count; m++)
            checks[_i](&list[m]);
    }
}
END_TEST

/* AMX, for a few small problems, because its interpreter is slow. */
START_TEST(tiles_have_the_same_bits)
{
    static const char *const small[] = {
        "one key", "odd", "causal", "grouped heads with everything", "packed, added", "slopes, no order", "no width"};
    th_machine list[PRODUCT_PATHS];
    for (int precision = 0; AMX < PRODUCT_PATHS && precision < PRECISIONS && supported(AMX); precision++) {
        const int count = machines(precision, list);
        th_machine tiles = machine_of(AMX, 1);
        tiles.precision = precisions[precision].precision;
        for (int i = 0; i < CASES; i++) {
            if (strcmp(cases[i].name, small[_i]) != 0)
                continue;
            problem *usual = make_problem(&cases[i], TH_FLOAT32), *p = make_problem(&cases[i], TH_FLOAT32);
            run(usual, &list[count - 1], 1);
            run(p, &tiles, 1);
            assert_same_bits(usual, p, "tiles");
            free_problem(usual);
            free_problem(p);
        }
    }
}
END_TEST

/* A precision does not affect float64. */
START_TEST(float64_does_not_change)
{
    th_machine list[PRODUCT_PATHS];
    if (machines(1, list) == 0)
        return;
    problem *plain = make_problem(&cases[_i], TH_FLOAT64), *set = make_problem(&cases[_i], TH_FLOAT64);
    run(set, &list[0], 1);
    list[0].precision = TH_PRECISION_FLOAT32;
    run(plain, &list[0], 1);
    assert_same_bits(plain, set, "precision");
    free_problem(plain);
    free_problem(set);
}
END_TEST

/* -- as single operations -- */

enum { ITEMS = 2, HEADS = 2, QUERIES = 40, KEYS = 70, WIDTH = 24, RESULT = ITEMS * HEADS * QUERIES * WIDTH };

/* The sum of o and of q's gradient, element by element. Invalid keys are NaN. */
static void attend(th_precision precision, bool fusion, float *sum)
{
    th_context *ctx = th_context_new(&(th_context_options){.seed = 5, .precision = precision});
    th_set_fusion(ctx, fusion);
    th_tensor *q =
        th_set_requires_gradient(th_uniform(ctx, TH_FLOAT32, TH_SHAPE(ITEMS, HEADS, QUERIES, WIDTH), -1, 1), true);
    th_tensor *k = th_uniform(ctx, TH_FLOAT32, TH_SHAPE(ITEMS, HEADS, KEYS, WIDTH), -1, 1);
    th_tensor *v = th_uniform(ctx, TH_FLOAT32, TH_SHAPE(ITEMS, HEADS, KEYS, WIDTH), -1, 1);
    th_tensor *lengths = th_from_data(ctx, TH_INT64, TH_SHAPE(ITEMS), (int64_t[]){33, 69});
    for (int i = 0; i < 2 * WIDTH; i++) {
        float *last = th_data(i < WIDTH ? k : v);
        last[KEYS * WIDTH - 1 - i % WIDTH] = NAN;
    }
    const th_mask mask = {.valid_lengths = lengths};
    th_tensor *o = th_scaled_dot_product_attention(q, k, v, &(th_attention_options){.mask = &mask, .dropout = 0.2});
    ck_assert_msg(th_backward(th_sum(th_mul(o, o), TH_ALL_AXES, NULL), NULL) == TH_OK, "%s", th_error_message(ctx));
    ck_assert_int_eq(th_copy_out(th_add(th_contiguous(o), th_gradient(q)), sum, RESULT * sizeof *sum), TH_OK);
    th_context_free(ctx);
}

START_TEST(single_operations_are_as_precise)
{
    static float exact[RESULT], sum[2][RESULT];
    attend(TH_PRECISION_FLOAT32, true, exact);
    for (int fusion = 0; fusion < 2; fusion++) {
        attend(precisions[_i].precision, fusion, sum[fusion]);
        ck_assert(memcmp(exact, sum[fusion], sizeof exact) != 0);
        for (int i = 0; i < RESULT; i++)
            ck_assert_double_eq_tol((double)sum[fusion][i], (double)exact[i], precisions[_i].tolerance);
    }
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("attention's precision", NULL, NULL);
    tcase_add_loop_test(tests, values_and_gradients_are_as_defined, 0, CASES);
    tcase_add_loop_test(tests, bits_do_not_depend_on_team_and_path, 0, CASES);
    tcase_add_loop_test(tests, bits_do_not_depend_on_batch_and_other_queries, 0, CASES);
    tcase_add_loop_test(tests, masked_numbers_do_not_change_bits, 0, CASES);
    tcase_add_loop_test(tests, promises, 0, 4);
    tcase_add_loop_test(tests, tiles_have_the_same_bits, 0, 7);
    tcase_add_loop_test(tests, float64_does_not_change, 0, 8);
    tcase_add_loop_test(tests, single_operations_are_as_precise, 0, PRECISIONS);
    return run_suites();
}
