/* The environment variables of the machine, and the errors for them. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/machine/machine.h"
#include "kernels/machine/openblas.h"
#include "kernels/machine/paths.h"
#include "kernels/machine/processors.h"
#include "kernels/product_block.h"
#include "suite.h"
#include "tapehead/tapehead.h"

static void set(const char *isa, const char *gemm)
{
    setenv("TAPEHEAD_ISA", isa, 1);
    setenv("TAPEHEAD_GEMM", gemm, 1);
}

/* Choices of this architecture. Each is possible exactly if the processor has its instructions. */
typedef struct choice {
    const char *name;
    bool possible;
    const char *products;
} choice;

#ifdef __x86_64__

static bool fused(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

enum { CHOICES = 3 };

static void choices(choice *list)
{
    const bool avx512 = fused() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    list[0] = (choice){"avx2", fused(), "products=fma"};
    list[1] = (choice){"avx512", avx512, "products=fma"};
    list[2] = (choice){"avx512_bf16", avx512 && __builtin_cpu_supports("avx512bf16"), "products=avx512_bf16"};
}

#elif defined __wasm__

static bool fused(void)
{
    return false;
}

enum { CHOICES = 1 };

static void choices(choice *list)
{
    list[0] = (choice){"simd128", true, "products=fma"};
}

#else

static bool fused(void)
{
    return true;
}

enum { CHOICES = 1 };

static void choices(choice *list)
{
#ifdef __aarch64__
    list[0] = (choice){"neon", true, "products=fma"};
#else
    list[0] = (choice){"generic", true, "products=fma"};
#endif
}

#endif

/* Whether the library was built for an instruction set with fused multiply-add (TAPEHEAD_ISAS). */
static bool builds_fused(void)
{
    bool is = false;
    for (const th_isa *isa = th_isas; isa < th_isas + th_isa_count; isa++)
        is = is || (isa->fused && isa->kernels[0]);
    return is;
}

/* The products without TAPEHEAD_GEMM: OpenBLAS is faster without fused multiply-add. */
static th_gemm automatic_gemm(bool isa_fused)
{
    return isa_fused || !th_openblas() ? TH_GEMM_NATIVE : TH_GEMM_OPENBLAS;
}

START_TEST(test_automatic)
{
    th_machine machine, same;
    unsetenv("TAPEHEAD_ISA");
    unsetenv("TAPEHEAD_GEMM");
    ck_assert_ptr_null(th_machine_detect(&machine));
    const bool is_fused = fused() && builds_fused();
    ck_assert_int_eq(machine.gemm, automatic_gemm(is_fused));
    ck_assert_int_eq(machine.isa->fused, is_fused);
    ck_assert_ptr_eq(th_kernels_for(&machine, TH_FLOAT64), machine.isa->kernels[1]);
    set("", "auto"); /* empty means not set */
    ck_assert_ptr_null(th_machine_detect(&same));
    ck_assert_ptr_eq(same.isa, machine.isa);
    ck_assert_int_eq(same.gemm, machine.gemm);
}
END_TEST

START_TEST(test_every_instruction_set)
{
    th_machine machine;
    char text[200], words[40];
    for (const th_isa *isa = th_isas; isa < th_isas + th_isa_count; isa++) {
        set(isa->name, "auto");
        const char *sentence = th_machine_detect(&machine);
        if (sentence) { /* allowed only if the processor or the build does not have it */
            ck_assert(isa != th_isas || !isa->kernels[0]);
            continue;
        }
        ck_assert_ptr_eq(machine.isa, isa);
        ck_assert_int_eq(machine.gemm, automatic_gemm(isa->fused));
        th_machine_describe(&machine, text, sizeof text);
        snprintf(words, sizeof words, "isa=%s ", isa->name);
        ck_assert_msg(strncmp(text, words, strlen(words)) == 0, "%s: %s", words, text);
    }
}
END_TEST

START_TEST(test_choices_need_their_instructions)
{
    th_machine machine;
    char text[200];
    choice expected[CHOICES];
    choices(expected);
    for (int i = 0; i < CHOICES; i++) {
        set(expected[i].name, "auto");
        const char *sentence = th_machine_detect(&machine);
        char begin[64];
        snprintf(begin, sizeof begin, "TAPEHEAD_ISA is %s, but this processor has no", expected[i].name);
        if (!expected[i].possible) {
            ck_assert_msg(sentence && strncmp(sentence, begin, strlen(begin)) == 0, "%s: %s", begin, sentence);
            continue;
        }
        if (sentence && strstr(sentence, "but this library was built without"))
            continue; /* test_isas.c has its sentences */
        ck_assert_msg(sentence == NULL, "%s", sentence);
        ck_assert(!machine.automatic); /* a request for other instructions excludes AMX */
        ck_assert(th_machine_set_precision(&machine, TH_PRECISION_BFLOAT16));
        th_machine_describe(&machine, text, sizeof text);
        ck_assert_msg(strstr(text, expected[i].products) != NULL, "%s: %s", expected[i].name, text);
    }
}
END_TEST

START_TEST(test_precisions_have_names)
{
    th_machine machine;
    static const char *const names[] = {"float32", "bfloat16x3", "bfloat16"};
    static const th_precision precisions[] = {TH_PRECISION_FLOAT32, TH_PRECISION_BFLOAT16X3, TH_PRECISION_BFLOAT16};
    set("", "");
    (void)th_machine_detect(&machine);
    for (int i = 0; i < 3; i++) {
        char text[200], words[40];
        ck_assert_str_eq(th_precision_name(precisions[i]), names[i]);
        ck_assert(th_machine_set_precision(&machine, precisions[i]));
        th_machine_describe(&machine, text, sizeof text);
        snprintf(words, sizeof words, " precision=%s products=", names[i]);
        ck_assert_int_eq(strstr(text, words) != NULL, i > 0);
    }
    ck_assert(!th_machine_set_precision(&machine, (th_precision)17));
    ck_assert_int_eq(machine.precision, TH_PRECISION_BFLOAT16);
    ck_assert_str_eq(th_precision_name((th_precision)17), "?");
}
END_TEST

/* -- paths: the times that a processor would take, in the order of the paths, and noise in all rounds but one -- */

enum { PATHS = 3 };
static const th_product_kernels three[PATHS] = {{.name = "fma"}, {.name = "avx512_bf16"}, {.name = "amx"}};
static const double *invented;
static int measurements;

static double invented_time(const th_product_kernels *path)
{
    const int round = measurements++ / PATHS;
    return invented[path - three] + (round == 3 ? 0 : 1 + measurements % 5);
}

/* The fastest path depends on times only, not on names: dot products at half rate lose, and so do slow tiles. */
START_TEST(test_fastest_path)
{
    static const struct {
        double times[PATHS];
        int fastest;
    } processors[] = {{{3, 4, 1}, 2}, {{3, 2, 8}, 1}, {{3, 4, 8}, 0}, {{2, 2, 2}, 2}};
    const th_product_kernels *const paths[PATHS] = {&three[0], &three[1], &three[2]};
    for (size_t i = 0; i < sizeof processors / sizeof *processors; i++) {
        invented = processors[i].times;
        measurements = 0;
        ck_assert_ptr_eq(th_path_fastest(PATHS, paths, invented_time), &three[processors[i].fastest]);
        measurements = 3 * PATHS;
        ck_assert_ptr_eq(th_path_fastest(1, paths, invented_time), &three[0]);
    }
}
END_TEST

/* The measured product fits every path's panels, and every path of this processor computes it. */
START_TEST(test_paths_are_measured)
{
    for (int i = 0; i < th_isa_choice_count; i++) {
        const th_isa_choice *given = &th_isa_choices[i];
        if (!given->products || (given->why_not && given->why_not()))
            continue;
        ck_assert_int_eq(TH_PATH_ROWS % given->products->rows, 0);
        ck_assert_int_eq(TH_PATH_COLUMNS % given->products->columns, 0);
        ck_assert_int_eq(TH_PATH_STEPS % given->products->group, 0);
        ck_assert(th_panel_elements(given->products, TH_PATH_STEPS) <= TH_PATH_STEPS);
        ck_assert(th_path_time(given->products) > 0);
    }
}
END_TEST

/* The automatic path belongs to the instruction set of the kernels, and is the same in all contexts of the process. */
START_TEST(test_automatic_path)
{
    th_machine machine;
    set("", "");
    for (int i = 0; i < 4; i++) {
        (void)th_machine_detect(&machine);
        const struct th_product_kernels *before = machine.products;
        ck_assert(th_machine_set_precision(&machine, TH_PRECISION_INT8));
        ck_assert_ptr_eq(machine.products, before); /* int8 has no bfloat16 parts */
        ck_assert(th_machine_set_precision(&machine, i % 2 ? TH_PRECISION_BFLOAT16 : TH_PRECISION_BFLOAT16X3));
        ck_assert_ptr_eq(machine.products, th_path_automatic());
        bool possible = false;
        for (int c = 0; c < th_isa_choice_count; c++)
            possible |= th_isa_choices[c].isa == machine.isa && th_isa_choices[c].products == machine.products;
        ck_assert(possible);
    }
}
END_TEST

START_TEST(test_sentences)
{
    th_machine machine;
    set("sse9", "");
    const char *sentence = th_machine_detect(&machine);
    ck_assert_str_eq(sentence, th_isa_choice_names);
    ck_assert_int_eq(strncmp(sentence, "TAPEHEAD_ISA must be ", 21), 0);
    const char *name = sentence + 21;
    for (int i = 0; i < th_isa_choice_count; i++) { /* "a", "a or b", "a, b or c" */
        const size_t length = strlen(th_isa_choices[i].name);
        ck_assert_msg(strncmp(name, th_isa_choices[i].name, length) == 0, "%s: %s", th_isa_choices[i].name, sentence);
        name += length;
        const char *between = i + 1 == th_isa_choice_count ? "" : i + 2 == th_isa_choice_count ? " or " : ", ";
        ck_assert_msg(strncmp(name, between, strlen(between)) == 0, "%s", sentence);
        name += strlen(between);
    }
    ck_assert_str_eq(name, "");
    set("", "mkl");
    ck_assert_str_eq(th_machine_detect(&machine), "TAPEHEAD_GEMM must be auto, native or openblas");
}
END_TEST

START_TEST(test_native_products_with_every_instruction_set)
{
    for (const th_isa *isa = th_isas; isa < th_isas + th_isa_count; isa++) {
        th_machine machine;
        char text[200];
        set(isa->name, "native");
        if (th_machine_detect(&machine))
            continue; /* this processor does not have it */
        ck_assert_int_eq(machine.gemm, TH_GEMM_NATIVE);
        th_machine_describe(&machine, text, sizeof text);
        ck_assert_ptr_nonnull(strstr(text, "gemm=native"));
    }
}
END_TEST

/* An impossible request is the context's first error; a caller that clears it has a machine that computes. */
START_TEST(test_continues_without_the_request)
{
    static const char *const wishes[][2] = {{"sse9", ""}, {"amx", ""}, {"", "mkl"}, {"", "openblas"}, {"sse9", "mkl"}};
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++) {
        set(wishes[i][0], wishes[i][1]);
        th_context *ctx = th_context_new(NULL);
        th_error_clear(ctx);
        for (int p = TH_PRECISION_FLOAT32; p <= TH_PRECISION_BFLOAT16; p++) {
            ck_assert_int_eq(th_set_precision(ctx, (th_precision)p), TH_OK);
            th_tensor *a = th_ones(ctx, TH_FLOAT32, TH_SHAPE(70, 70));
            ck_assert(th_item(th_sum(th_matmul(a, a), TH_ALL_AXES, NULL)) == 70.0 * 70 * 70);
        }
        th_context_free(ctx);
    }
}
END_TEST

/* The library loads OpenBLAS by itself: with a copy from the system in this process, the search must succeed. */
START_TEST(test_openblas_is_found)
{
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return;
    ck_assert_ptr_nonnull(th_openblas());
    ck_assert(strcmp(th_openblas()->version, "?") != 0 && strcmp(th_openblas()->core, "?") != 0);
    dlclose(library);
}
END_TEST

START_TEST(test_openblas_on_request)
{
    th_machine machine;
    char text[200], cut[8];
    set("", "openblas");
    if (!th_openblas()) {
        ck_assert_ptr_nonnull(strstr(th_machine_detect(&machine), "OpenBLAS was not found"));
        return;
    }
    ck_assert_ptr_null(th_machine_detect(&machine));
    ck_assert_int_eq(machine.gemm, TH_GEMM_OPENBLAS);
    const int length = th_machine_describe(&machine, text, sizeof text);
    ck_assert_int_eq(length, (int)strlen(text));
    ck_assert_ptr_nonnull(strstr(text, "gemm=openblas"));
    ck_assert_ptr_nonnull(strstr(text, th_openblas()->version));
    ck_assert_int_eq(th_machine_describe(&machine, cut, sizeof cut), length);
    ck_assert_int_eq((int)strlen(cut), (int)sizeof cut - 1);
}
END_TEST

START_TEST(test_threads_are_the_default_team)
{
    th_machine machine;
    set("", "");
    if (th_machine_detect(&machine))
        return;
    ck_assert_int_eq(machine.threads, th_processors_default_team());
}
END_TEST

/* The fastest of many: detection reads the processor and two variables, and loads nothing. */
START_TEST(test_detection_is_cheap)
{
    set("", "");
    double best = 1;
    for (int i = 0; i < 20 && fused(); i++) {
        struct timespec start, end;
        th_machine machine;
        clock_gettime(CLOCK_MONOTONIC, &start);
        ck_assert_ptr_null(th_machine_detect(&machine));
        clock_gettime(CLOCK_MONOTONIC, &end);
        const double seconds = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
        best = seconds < best ? seconds : best;
    }
    ck_assert(!fused() || best < 1e-3);
}
END_TEST

/* -- without OpenBLAS: this function replaces dlopen, and counts the files that the library looks for -- */

static const char *replacement; /* of OpenBLAS: another library; "": none */
static int searches;

void *dlopen(const char *name, int mode)
{
    void *(*replaced)(const char *, int), *symbol = dlsym(RTLD_NEXT, "dlopen");
    memcpy(&replaced, &symbol, sizeof replaced);
    if (!replacement || !name || strncmp(name, "libopenblas.so", 14) != 0)
        return replaced(name, mode);
    searches++;
    return replacement[0] ? replaced(replacement, mode) : NULL;
}

START_TEST(test_openblas_is_missing)
{
    static const char *const others[] = {"", "libm.so.6"}; /* no library, or one without its functions */
    th_machine machine;
    char text[200];
    replacement = others[_i];
    set("", "openblas");
    ck_assert_str_eq(th_machine_detect(&machine),
                     "TAPEHEAD_GEMM is openblas, but OpenBLAS was not found (libopenblas.so.0)");
    ck_assert_int_eq(machine.gemm, TH_GEMM_NATIVE);
    ck_assert_ptr_null(th_openblas());
    ck_assert_int_eq(searches, _i == 0 ? 2 : 1);
    th_machine_describe(&machine, text, sizeof text);
    ck_assert_ptr_null(strstr(text, "openblas="));
    for (int i = 0; i < 2; i++) { /* the automatic choice needs no OpenBLAS, also without fused multiply-add */
        set(i && th_isas[0].kernels[0] ? th_isas[0].name : "", "");
        ck_assert_ptr_null(th_machine_detect(&machine));
        ck_assert_int_eq(machine.gemm, TH_GEMM_NATIVE);
    }
}
END_TEST

static void *detect(void *machine)
{
    return (void *)(uintptr_t)th_machine_detect(machine);
}

START_TEST(test_detection_from_several_threads)
{
    if (!th_openblas())
        return;
    set("", "openblas");
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    th_machine machines[THREADS];
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, detect, &machines[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        void *sentence;
        ck_assert_int_eq(pthread_join(threads[i], &sentence), 0);
        ck_assert_ptr_null(sentence);
        ck_assert_int_eq(machines[i].gemm, TH_GEMM_OPENBLAS);
    }
}
END_TEST

int main(void)
{
    TCase *detection = new_suite("machine", NULL, NULL);
    tcase_add_test(detection, test_automatic);
    tcase_add_test(detection, test_every_instruction_set);
    tcase_add_test(detection, test_choices_need_their_instructions);
    tcase_add_test(detection, test_precisions_have_names);
    tcase_add_test(detection, test_fastest_path);
    tcase_add_test(detection, test_paths_are_measured);
    tcase_add_test(detection, test_automatic_path);
    tcase_add_test(detection, test_sentences);
    tcase_add_test(detection, test_native_products_with_every_instruction_set);
    tcase_add_test(detection, test_continues_without_the_request);
    tcase_add_test(detection, test_openblas_is_found);
    tcase_add_loop_test(detection, test_openblas_is_missing, 0, 2);
    tcase_add_test(detection, test_openblas_on_request);
    tcase_add_test(detection, test_threads_are_the_default_team);
    tcase_add_test(detection, test_detection_is_cheap);
    tcase_add_test(detection, test_detection_from_several_threads);
    return run_suites();
}
