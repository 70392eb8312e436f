/* OpenBLAS beside the program's own threads, with any build of OpenBLAS. One thread computes each call, on every thread
 * of the program. The program's OpenMP settings and signal handling do not change. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "openblas.h"
#include "suite.h"
#include "tapehead/tapehead.h"

enum { SIZE = 400 };

/* Multiplies two random matrices, or batches of them, with OpenBLAS in a context of this thread. */
static void multiply(int threads, th_shape a_shape, th_shape b_shape, float *to)
{
    th_context *ctx = th_context_new(&(th_context_options){.seed = 1, .threads = threads});
    th_tensor *product = th_matmul(th_randn(ctx, TH_FLOAT32, a_shape), th_randn(ctx, TH_FLOAT32, b_shape));
    ck_assert_msg(th_copy_out(product, to, SIZE * SIZE * sizeof *to) == TH_OK, "%s", th_error_message(ctx));
    ck_assert_ptr_nonnull(strstr(th_build_info(ctx), "gemm=openblas"));
    th_context_free(ctx);
}

/* OpenMP's functions: of the program, or else those that OpenBLAS was linked with. NULL if neither uses OpenMP. */
static int (*get_threads)(void);
static void (*set_threads)(int);

static void find_openmp(void)
{
    ck_assert_ptr_nonnull(th_openblas());
    void *library = dlsym(RTLD_DEFAULT, "omp_get_max_threads") ? RTLD_DEFAULT : NULL;
    if (!library)
        library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_NOLOAD);
    void *get = dlsym(library, "omp_get_max_threads"), *set = dlsym(library, "omp_set_num_threads");
    memcpy(&get_threads, &get, sizeof get);
    memcpy(&set_threads, &set, sizeof set);
}

/* The results of a thread: its product, and its number of OpenMP threads before and after. */
typedef struct finding {
    float product[SIZE * SIZE];
    int threads, before, after;
} finding;

static void *find(void *shared)
{
    finding *f = shared;
    if (f->threads > 0 && set_threads)
        set_threads(f->threads);
    f->before = get_threads ? get_threads() : 0;
    multiply(1, TH_SHAPE(SIZE, SIZE), TH_SHAPE(SIZE, SIZE), f->product);
    f->after = get_threads ? get_threads() : 0;
    return NULL;
}

START_TEST(test_the_same_bits_on_every_thread)
{
    static finding here = {.threads = 3}, there[4];
    find_openmp();
    find(&here);
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        there[i].threads = i; /* 0: the default */
        ck_assert_int_eq(pthread_create(&thread, NULL, find, &there[i]), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        ck_assert_msg(memcmp(here.product, there[i].product, sizeof here.product) == 0,
                      "other bits on a thread with %d OpenMP threads", there[i].before);
        ck_assert_int_eq(there[i].after, there[i].before);
    }
    ck_assert_int_eq(here.before, get_threads ? 3 : 0);
    ck_assert_int_eq(here.after, here.before);
}
END_TEST

START_TEST(test_the_same_bits_with_threads_of_ours)
{
    static float product[2][SIZE * SIZE];
    for (int i = 0; i < 2; i++)
        multiply(i == 0 ? 1 : 3, TH_SHAPE(8, SIZE / 8, SIZE), TH_SHAPE(8, SIZE, SIZE), product[i]);
    ck_assert_int_eq(memcmp(product[0], product[1], sizeof product[0]), 0);
}
END_TEST

START_TEST(test_a_signal_waits_for_the_program)
{
    ck_assert_ptr_nonnull(th_openblas());
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, &term, NULL), 0); /* after OpenBLAS has created its threads */
    ck_assert_int_eq(kill(getpid(), SIGTERM), 0);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL); /* one of them would take it and end the process */
    ck_assert_int_eq(sigtimedwait(&term, NULL, &(struct timespec){.tv_sec = 10}), SIGTERM);
    ck_assert_int_eq(pthread_sigmask(SIG_UNBLOCK, &term, NULL), 0);
}
END_TEST

int main(void)
{
    if (!there_is_openblas()) {
        puts("skipped: OpenBLAS is not installed");
        return 77;
    }
    setenv("TAPEHEAD_GEMM", "openblas", 1);
    TCase *openblas = new_suite("openblas", NULL, NULL);
    tcase_add_test(openblas, test_a_signal_waits_for_the_program); /* first, because Check may not fork */
    tcase_add_test(openblas, test_the_same_bits_on_every_thread);
    tcase_add_test(openblas, test_the_same_bits_with_threads_of_ours);
    return run_suites();
}
