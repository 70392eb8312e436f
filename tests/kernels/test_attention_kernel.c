/* The attention kernels in float32 and float64. */
#include "attention_checks.h"
#include "instances.h"
#include "suite.h"

/* One machine for every instruction set of this processor. */
static int machines(th_machine *list)
{
    int count = 0;
    for (int isa = 0; isa < ISAS && supported(isa); isa++)
        list[count++] = machine_of(isa, 1);
    return count;
}

START_TEST(values_and_gradients_are_as_defined)
{
    th_machine list[ISAS];
    const int count = machines(list);
    check_values(&cases[_i], list, count, TH_FLOAT32, 4e-6);
    check_values(&cases[_i], list, count, TH_FLOAT64, 1e-13);
}
END_TEST

/* The baseline has no fused multiply-add. */
START_TEST(bits_do_not_depend_on_team_and_instruction_set)
{
    th_machine list[ISAS];
    const int count = machines(list);
    for (int dtype = 0; dtype < 2; dtype++) {
        check_teams(&cases[_i], list, 1, dtype ? TH_FLOAT64 : TH_FLOAT32);
        if (count > 1)
            check_teams(&cases[_i], list + 1, count - 1, dtype ? TH_FLOAT64 : TH_FLOAT32);
    }
}
END_TEST

START_TEST(bits_do_not_depend_on_the_batch)
{
    th_machine list[ISAS];
    const int count = machines(list);
    for (int m = 0; m < count; m++)
        check_batch(&cases[_i], &list[m]);
}
END_TEST

START_TEST(a_single_query_has_the_same_bits)
{
    th_machine list[ISAS];
    const int count = machines(list);
    for (int m = 0; m < count; m++) {
        check_queries_alone(&cases[_i], &list[m], TH_FLOAT32);
        check_queries_alone(&cases[_i], &list[m], TH_FLOAT64);
    }
}
END_TEST

START_TEST(masked_numbers_do_not_change_bits)
{
    th_machine list[ISAS];
    const int count = machines(list);
    check_hidden(&cases[_i], list, count, true);
}
END_TEST

/* Checks that need no loop over cases. */
START_TEST(promises)
{
    static void (*const checks[])(const th_machine *machine) = {check_visible_nan, check_queries_without_keys,
                                                                check_kinds_of_mask, check_each_gradient_alone};
    th_machine list[ISAS];
    const int count = machines(list);
    for (int m = 0; m < count; m++)
        checks[_i](&list[m]);
}
END_TEST

START_TEST(long_sequences_need_little_memory)
{
    th_machine list[ISAS];
    const int count = machines(list);
    char memory[1];
    const th_attention_array given = {.data = memory};
    const th_attention a = {.dims = 2,
                            .size = {1, 1},
                            .queries = 4096,
                            .keys = 4096,
                            .width = 64,
                            .value_width = 64,
                            .band = {.causal = true},
                            .scale = 1,
                            .q = given,
                            .k = given,
                            .v = given,
                            .o = given,
                            .log_sum_exp = given,
                            .o_gradient = given,
                            .q_gradient = given,
                            .wants_q = true,
                            .k_gradient = given,
                            .v_gradient = given};
    for (int m = 0; m < count; m++) {
        ck_assert_uint_le(th_attention_forward_workspace(&list[m], TH_FLOAT32, &a, 2), 3 << 20);
        ck_assert_uint_le(th_attention_backward_workspace(&list[m], TH_FLOAT32, &a, 2), 6 << 20);
    }
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("attention kernels", NULL, NULL);
    tcase_add_loop_test(tests, values_and_gradients_are_as_defined, 0, CASES);
    tcase_add_loop_test(tests, a_single_query_has_the_same_bits, 0, CASES);
    tcase_add_loop_test(tests, bits_do_not_depend_on_team_and_instruction_set, 0, CASES);
    tcase_add_loop_test(tests, bits_do_not_depend_on_the_batch, 0, CASES);
    tcase_add_loop_test(tests, masked_numbers_do_not_change_bits, 0, CASES);
    tcase_add_loop_test(tests, promises, 0, 4);
    tcase_add_test(tests, long_sequences_need_little_memory);
    return run_suites();
}
