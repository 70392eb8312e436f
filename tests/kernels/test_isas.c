/* A library that was built without some instruction sets (TAPEHEAD_ISAS). This program has its own src/kernels/machine/x86_64.c,
 * which replaces the library's: with BUILT, the name of one instruction set, or without any. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/machine/machine.h"
#include "suite.h"
#include "tapehead/tapehead.h"

#ifdef BUILT

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

/* Each other choice is refused with one sentence: about the processor if it lacks the instructions, otherwise about the
 * build. */
START_TEST(test_missing_instruction_sets)
{
    static const struct {
        const char *name, *isa;
    } choices[] = {{"baseline", "baseline"}, {"avx2", "avx2"}, {"avx512", "avx512"}, {"avx512_bf16", "avx512"}};
    int built = 0;
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        th_machine machine;
        char wanted[200], processor[80];
        setenv("TAPEHEAD_ISA", choices[i].name, 1);
        const char *sentence = th_machine_detect(&machine);
        ck_assert_str_eq(machine.isa->name, BUILT);
        if (!sentence) {
            ck_assert_str_eq(choices[i].isa, BUILT);
            built++;
            continue;
        }
        snprintf(processor, sizeof processor, "TAPEHEAD_ISA is %s, but this processor has no", choices[i].name);
        if (strcmp(choices[i].name, "baseline") != 0 && strncmp(sentence, processor, strlen(processor)) == 0)
            continue;
        ck_assert_str_ne(choices[i].isa, BUILT);
        snprintf(wanted, sizeof wanted,
                 "TAPEHEAD_ISA is %s, but this library was built without %s (TAPEHEAD_ISAS of its build)",
                 choices[i].name, choices[i].isa);
        ck_assert_str_eq(sentence, wanted);
    }
    ck_assert_int_ge(built, 1);
}
END_TEST

/* The sentence is the context's error, and after it is cleared the context computes with what was built. */
START_TEST(test_context)
{
    setenv("TAPEHEAD_ISA", strcmp(BUILT, "baseline") == 0 ? "avx2" : "baseline", 1);
    th_context *ctx = th_context_new(NULL);
    ck_assert_int_eq(th_error_code(ctx), TH_ERROR_ARGUMENT);
    if (has_avx2())
        ck_assert_msg(strstr(th_error_message(ctx), "but this library was built without") != NULL, "%s",
                      th_error_message(ctx));
    th_error_clear(ctx);
    th_tensor *a = th_ones(ctx, TH_FLOAT32, TH_SHAPE(70, 70));
    ck_assert(th_item(th_sum(th_matmul(a, a), TH_ALL_AXES, NULL)) == 70.0 * 70 * 70);
    th_context_free(ctx);
}
END_TEST

/* AMX needs the kernels for AVX-512 too. */
START_TEST(test_tiles_need_avx512)
{
    const char *why_not = th_isa_choices[th_isa_choice_count - 1].why_not();
    ck_assert_str_eq(th_isa_choices[th_isa_choice_count - 1].name, "amx");
    if (strcmp(BUILT, "avx512") != 0)
        ck_assert_str_eq(why_not,
                         "TAPEHEAD_ISA is amx, but this library was built without avx512 (TAPEHEAD_ISAS of its build)");
}
END_TEST

#else

/* As on a processor that supports no instruction set of the build. */
START_TEST(test_no_instruction_set)
{
    unsetenv("TAPEHEAD_ISA");
    ck_assert(!th_machine_possible());
    ck_assert_ptr_null(th_context_new(NULL));
    ck_assert_str_eq(th_error_message(NULL), "no context: this processor supports no instruction set that the "
                                             "library was built for (TAPEHEAD_ISAS of its build)");
    ck_assert_str_eq(th_error_text(NULL), th_error_message(NULL));
    setenv("TAPEHEAD_ISA", "baseline", 1);
    ck_assert_ptr_null(th_context_new(NULL));
}
END_TEST

#endif

int main(void)
{
    TCase *isas = new_suite("isas", NULL, NULL);
#ifdef BUILT
    tcase_add_test(isas, test_missing_instruction_sets);
    tcase_add_test(isas, test_context);
    tcase_add_test(isas, test_tiles_need_avx512);
#else
    tcase_add_test(isas, test_no_instruction_set);
#endif
    return run_suites();
}
