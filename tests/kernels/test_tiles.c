/* Products with AMX. Compared with the model: edges of every size, C in whole and partial tiles, panels from any
 * layout, elements that are computed again. Also: tile configurations end with the product, and the system may refuse
 * permission. Processors without AMX interpret it. (test_precision_bits.c tests the properties that all paths
 * share.) */
#include <errno.h>
#include <fenv.h>
#include <float.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "guarded.h"
#include "instances.h"
#include "kernels/machine/amx.h"
#include "suite.h"
#include "tapehead/tapehead.h"
#include "tile_interpreter.h"
#include "tile_model.h"

/* -- products against the model -- */

typedef enum kind { ORDINARY, SPECIAL, TINY } kind;

static float number(kind k)
{
    static const float special[] = {INFINITY, -INFINITY, NAN, FLT_MAX, -FLT_MAX, 0x1p-140f, -0.f, 0, FLT_MIN};
    const float x = (float)(draw(1 << 24) - (1 << 23)) / (1 << 22);
    return k == SPECIAL && draw(40) == 0 ? PICK(special) : k == TINY ? ldexpf(x, (int)-draw(140)) : x;
}

typedef enum layout { ROWS, COLUMNS, SPREAD, LAYOUTS } layout;

/* A matrix of numbers, with gaps between its lines. Sets the strides. */
static float *allocate_matrix(int purpose, kind k, layout l, int64_t rows, int64_t columns, int64_t *row,
                              int64_t *column)
{
    *row = l == ROWS ? columns + 3 : l == COLUMNS ? 1 : 2 * columns + 1;
    *column = l == ROWS ? 1 : l == COLUMNS ? rows + 3 : 2;
    const int64_t span = (rows - 1) * *row + (columns - 1) * *column + 1;
    float *at = memory_end(purpose, (size_t)span * sizeof(float));
    for (int64_t i = 0; i < span; i++)
        at[i] = number(k);
    return at;
}

typedef enum start { FROM_ZERO, FROM_C, FROM_BIAS, STARTS } start;

static th_product product_new(kind k, int64_t m, int64_t n, int64_t steps, layout a, layout b, layout c, start s)
{
    th_product p = {.m = m, .n = n, .k = steps, .add = s == FROM_C, .long_sum = true};
    int64_t row, column;
    p.a = allocate_matrix(IN_A, k, a, m, steps, &p.a_row, &p.a_col);
    p.b = allocate_matrix(IN_B, k, b, steps, n, &p.b_row, &p.b_col);
    p.c = allocate_matrix(IN_C, k, c, m, n, &p.c_row, &p.c_col);
    if (s == FROM_BIAS)
        p.bias = allocate_matrix(IN_BIAS, k, ROWS, 1, n, &row, &column);
    return p;
}

static th_machine tile_machine(int parts)
{
    th_machine machine = machine_of(AMX, 1);
    machine.precision = parts == 1 ? TH_PRECISION_BFLOAT16 : TH_PRECISION_BFLOAT16X3;
    return machine;
}

/* Runs the product on C, and checks that no tile remains configured. */
static void run(const th_product *product, int parts)
{
    const th_machine machine = tile_machine(parts);
    const size_t bytes = (th_product_workspace(&machine, TH_FLOAT32, product, 1) + 63) / 64 * 64;
    void *workspace = memory_end(IN_WORKSPACE, bytes);
    memset(workspace, 0xff, bytes);
    th_product_run(&machine, TH_FLOAT32, product, 1, workspace);
    ck_assert(!tiles_configured());
}

/* Checks that the product with AMX has the model's bits, and that memory between C's elements does not change. */
static void check(const th_product *p, int parts)
{
    const size_t span = (size_t)((p->m - 1) * p->c_row + (p->n - 1) * p->c_col + 1);
    float *c = p->c, *before = malloc(span * sizeof(float)), *expected = malloc(span * sizeof(float));
    ck_assert(before && expected);
    memcpy(before, c, span * sizeof(float));
    model_product(p, parts);
    memcpy(expected, c, span * sizeof(float));
    memcpy(c, before, span * sizeof(float));
    run(p, parts);
    for (size_t i = 0; i < span; i++)
        if (!same((double)c[i], (double)expected[i]))
            ck_abort_msg("%d terms, %d x %d x %d: element %zu is %a, not %a", parts, (int)p->m, (int)p->n, (int)p->k, i,
                         (double)c[i], (double)expected[i]);
    free(before);
    free(expected);
}

static bool ready(void)
{
    const bool is = supported(AMX);
    if (!is)
        printf("skipped: tiles need a processor with AVX-512 and BF16\n");
    return is;
}

enum { LARGEST = 70 };

static void check_both(kind k, int64_t m, int64_t n, int64_t steps, layout a, layout b, layout c, start s)
{
    for (int parts = 1; parts <= 2; parts++) {
        const th_product p = product_new(k, m, n, steps, a, b, c, s);
        check(&p, parts);
    }
}

/* Sizes 1 .. 70 of one dimension, with edges in the others. */
START_TEST(test_every_size)
{
    if (!ready())
        return;
    random_state = (uint64_t)_i;
    for (int64_t size = 1; size <= LARGEST; size++) {
        const int64_t sizes[3] = {_i == 0 ? size : 35, _i == 1 ? size : 17 + size % 2 * 16, _i == 2 ? size : 37};
        check_both(ORDINARY, sizes[0], sizes[1], sizes[2], (layout)(size % LAYOUTS), (layout)(size / 3 % LAYOUTS),
                   (layout)draw(LAYOUTS), (start)draw(STARTS));
    }
}
END_TEST

/* Whole tiles, one and two in each direction, and one element more or less; every beginning of a sum. */
START_TEST(test_direct_and_buffered)
{
    static const int64_t edges[] = {15, 16, 17, 31, 32, 33, 64};
    if (!ready())
        return;
    random_state = 5;
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        for (size_t j = 0; j < sizeof edges / sizeof *edges; j++)
            for (start s = FROM_ZERO; s < STARTS; s++)
                check_both(ORDINARY, edges[i], edges[j], 32, ROWS, ROWS, ROWS, s);
}
END_TEST

/* More than one block of k, and more than one part of a block. */
START_TEST(test_long_sums)
{
    static const int64_t steps[] = {255, 256, 257, 511, 512, 513, 800, 1100};
    if (!ready())
        return;
    random_state = 6;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        check_both(ORDINARY, 33, 20, steps[i], ROWS, COLUMNS, ROWS, (start)draw(STARTS));
        check_both(ORDINARY, 16, 32, steps[i], COLUMNS, ROWS, ROWS, (start)draw(STARTS));
    }
}
END_TEST

/* Infinities, NaN, overflow and denormals, at any element. */
START_TEST(test_special_values)
{
    if (!ready())
        return;
    random_state = 7;
    for (int i = 0; i < 120; i++)
        check_both(i % 2 ? SPECIAL : TINY, 1 + draw(LARGEST), 1 + draw(LARGEST), 1 + draw(2 * LARGEST),
                   (layout)draw(LAYOUTS), (layout)draw(LAYOUTS), (layout)draw(LAYOUTS), (start)draw(STARTS));
    for (start s = FROM_ZERO; s < STARTS; s++) {
        check_both(SPECIAL, 32, 48, 64, ROWS, ROWS, ROWS, s); /* computed again without a buffer for the beginning of
                                                                 the sum */
        check_both(SPECIAL, 20, 40, 530, ROWS, ROWS, ROWS, s);
    }
}
END_TEST

/* One infinity in a part affects only its own row. */
START_TEST(test_infinity_times_one)
{
    if (!ready())
        return;
    for (int edge = 0; edge < 2; edge++) {
        th_product p = product_new(ORDINARY, 32, 32 - edge, 64, ROWS, ROWS, ROWS, FROM_ZERO);
        float *a = (float *)p.a, *b = (float *)p.b, *c = p.c;
        for (int64_t i = 0; i < 64; i++)
            b[i * p.b_row + 3] = 1;
        a[5 * p.a_row + 40] = INFINITY;
        check(&p, 2);
        ck_assert(isinf(c[5 * p.c_row + 3]) && c[5 * p.c_row + 3] > 0);
        ck_assert(isfinite(c[4 * p.c_row + 3]));
    }
}
END_TEST

/* The user's floating-point settings change no bit and stay. */
START_TEST(test_floating_point_state)
{
    enum { FLUSHING = 0x8040 };
    if (!ready())
        return;
    random_state = 8;
    for (int parts = 1; parts <= 2; parts++) {
        const th_product p = product_new(TINY, 20, 20, 70, ROWS, COLUMNS, ROWS, FROM_ZERO);
        float expected[20 * 23];
        run(&p, parts);
        memcpy(expected, p.c, (size_t)(19 * p.c_row + 20) * sizeof(float));
        fesetround(FE_DOWNWARD);
        const unsigned int state = __builtin_ia32_stmxcsr() | FLUSHING;
        __builtin_ia32_ldmxcsr(state);
        run(&p, parts);
        ck_assert_uint_eq(__builtin_ia32_stmxcsr() | 0x3f, state | 0x3f); /* except the flags of past exceptions */
        __builtin_ia32_ldmxcsr(0x1f80);
        fesetround(FE_TONEAREST);
        ck_assert_mem_eq(p.c, expected, (size_t)(19 * p.c_row + 20) * sizeof(float));
    }
}
END_TEST

/* Several threads at once: each has its own tiles and releases them. Short blocks of rows that share a packed B; one
 * block of rows, whose columns share a packed A. */
START_TEST(test_threads)
{
    static const int64_t sizes[2][3] = {{150, 150, 150}, {40, 300, 520}};
    if (!ready())
        return;
    random_state = 9;
    const th_product p = product_new(ORDINARY, sizes[_i][0], sizes[_i][1], sizes[_i][2], ROWS, ROWS, ROWS, FROM_ZERO);
    const size_t span = (size_t)((p.m - 1) * p.c_row + p.n) * sizeof(float);
    float *one = malloc(span);
    ck_assert_ptr_nonnull(one);
    for (int parts = 1; parts <= 2; parts++) {
        const th_machine machine = tile_machine(parts);
        for (int threads = 1; threads <= 3; threads += 2) {
            const size_t bytes = (th_product_workspace(&machine, TH_FLOAT32, &p, threads) + 63) / 64 * 64;
            th_product_run(&machine, TH_FLOAT32, &p, threads, memory_end(IN_WORKSPACE, bytes));
            ck_assert(!tiles_configured());
            if (threads == 1)
                memcpy(one, p.c, span);
        }
        ck_assert_mem_eq(p.c, one, span);
    }
    free(one);
}
END_TEST

/* -- detection -- */

/* Makes the operating system refuse AMX to this process from now on. */
static bool refuse_tiles(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023 };
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH_REQ_XCOMP_PERM, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, 18) == -1;
}

static bool build_info_has(const char *words)
{
    th_context *ctx = th_context_new(&(th_context_options){.precision = TH_PRECISION_BFLOAT16X3});
    const bool has = ctx && th_error_code(ctx) == TH_OK && strstr(th_build_info(ctx), words);
    if (ctx)
        th_context_free(ctx);
    return has;
}

/* In a child process: 0, or the number of the failed check. */
static int in_refused_process(void)
{
    if (!refuse_tiles())
        return 77;
    setenv("TAPEHEAD_ISA", "amx", 1);
    th_context *ctx = th_context_new(NULL);
    if (!ctx || th_error_code(ctx) != TH_ERROR_ARGUMENT || !strstr(th_error_message(ctx), "TAPEHEAD_ISA is amx, but "))
        return 1;
    th_context_free(ctx);
    unsetenv("TAPEHEAD_ISA");
    if (build_info_has("products=amx") || !build_info_has(" products="))
        return 2;
    return 0;
}

/* Before any other detection in this process. */
START_TEST(test_permission_refused)
{
    if (!supported(AVX512))
        return;
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0)
        _exit(in_refused_process());
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        printf("skipped: no system call can be refused here\n");
    else
        ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

/* A reduced precision selects AMX only if the processor has it, and the path that the environment names. */
START_TEST(test_selection)
{
    const th_product_kernels *products = th_isa_choices[AMX].products;
    if (!supported(AVX512))
        return;
    const char *missing = th_why_not_amx();
    ck_assert_msg(!missing || strncmp(missing, "TAPEHEAD_ISA is amx, but ", 25) == 0, "%s", missing);
    ck_assert_ptr_eq(th_why_not_amx(), missing);
    if (!supported(AMX) || tiles_interpreted())
        ck_assert_ptr_nonnull(missing);

    unsetenv("TAPEHEAD_ISA");
    th_machine machine;
    ck_assert_ptr_null(th_machine_detect(&machine));
    ck_assert_ptr_ne(machine.products, products);
    ck_assert(th_machine_set_precision(&machine, TH_PRECISION_BFLOAT16));
    ck_assert(machine.products != products || !missing);
    ck_assert_ptr_eq(machine.isa, &th_isas[AVX512]);
    ck_assert_ptr_eq(machine.isa->kernels[0], f32[AVX512]);
    ck_assert_int_eq(build_info_has(" isa=avx512 "), true);
    ck_assert_int_eq(build_info_has(" products=amx"), machine.products == products);

    setenv("TAPEHEAD_ISA", "avx512", 1);
    ck_assert(build_info_has(" isa=avx512 ") && build_info_has(" products=fma"));
    setenv("TAPEHEAD_ISA", "amx", 1);
    const char *sentence = th_machine_detect(&machine);
    if (missing)
        ck_assert_str_eq(sentence, missing);
    else
        ck_assert_ptr_eq(machine.products, products);
    ck_assert_int_eq(build_info_has(" isa=avx512 ") && build_info_has(" products=amx"), !missing);
    unsetenv("TAPEHEAD_ISA");
}
END_TEST

static void *choose(void *machine)
{
    const bool known = !th_machine_detect(machine) && th_machine_set_precision(machine, TH_PRECISION_BFLOAT16);
    return known ? machine : NULL;
}

START_TEST(test_detection_from_several_threads)
{
    enum { THREADS = 4 };
    if (!supported(AVX512))
        return;
    pthread_t threads[THREADS];
    th_machine machines[THREADS];
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, choose, &machines[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        void *machine;
        ck_assert_int_eq(pthread_join(threads[i], &machine), 0);
        ck_assert_ptr_eq(machine, &machines[i]);
        ck_assert_ptr_eq(machines[i].products, machines[0].products);
    }
}
END_TEST

int main(void)
{
    TCase *choice = new_suite("tiles: whether there are any", NULL, NULL);
    tcase_add_test(choice, test_permission_refused);
    tcase_add_test(choice, test_detection_from_several_threads);
    tcase_add_test(choice, test_selection);
    TCase *products = new_suite("tiles: products", NULL, NULL);
    tcase_add_loop_test(products, test_every_size, 0, 3);
    tcase_add_test(products, test_direct_and_buffered);
    tcase_add_test(products, test_long_sums);
    tcase_add_test(products, test_special_values);
    tcase_add_test(products, test_infinity_times_one);
    tcase_add_test(products, test_floating_point_state);
    tcase_add_loop_test(products, test_threads, 0, 2);
    return run_suites();
}
