/* Several threads or processes: one of them frees a context while another one uses it or stores an error. */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tapehead/tapehead.h"

#include "misuse.h"

static th_context *shared;
static atomic_int stage;

static void wait_for(int value)
{
    while (atomic_load(&stage) < value)
        sched_yield();
}

/* Uses a context that another thread then frees or uses. */
static void *use_and_continue(void *unused)
{
    (void)unused;
    th_tensor *t = th_ones(shared, TH_FLOAT32, TH_SHAPE(1));
    ck_assert_double_eq(th_item(t), 1);
    atomic_store(&stage, 1);
    wait_for(2); /* the other thread uses it now */
    ck_assert_ptr_null(th_add(NULL, NULL));
    ck_assert_ptr_null(th_module_forward(NULL, NULL));
    ck_assert_int_ne(th_backward(NULL, NULL), TH_OK);
    atomic_store(&stage, 3);
    wait_for(4); /* it is freed */
    ck_assert_ptr_null(th_add(NULL, NULL));
    ck_assert_ptr_null(th_stack(NULL, 0, 0));
    ck_assert(isnan(th_item(NULL)) && isnan(th_item(t)));
    ck_assert_int_ne(th_backward(NULL, NULL), TH_OK);
    ck_assert_int_ne(th_optimizer_step(NULL), TH_OK);
    ck_assert_ptr_null(th_zeros(NULL, TH_FLOAT32, TH_SHAPE(1)));
    return NULL;
}

START_TEST(another_thread_frees_the_context_that_was_used_last)
{
    pthread_t thread;
    atomic_store(&stage, 0);
    shared = th_context_new(NULL);
    ck_assert_int_eq(pthread_create(&thread, NULL, use_and_continue, NULL), 0);
    wait_for(1);
    th_tensor *t = th_ones(shared, TH_FLOAT32, TH_SHAPE(1));
    atomic_store(&stage, 2);
    wait_for(3);
    ck_assert_double_eq(th_item(t), 1); /* errors of the other thread are not stored in this context */
    ck_assert_int_eq(th_error_code(shared), TH_OK);
    th_context_free(shared);
    atomic_store(&stage, 4);
    pthread_join(thread, NULL);
}
END_TEST

/* Calls without an operand while another thread frees the context used last. */
static void *use_and_fail(void *unused)
{
    (void)unused;
    th_tensor *t = th_ones(shared, TH_FLOAT32, TH_SHAPE(1));
    atomic_store(&stage, 1);
    for (int i = 0; i < 200; i++) {
        ck_assert_ptr_null(th_add(NULL, NULL));
        ck_assert_ptr_null(th_module_forward(NULL, NULL));
        ck_assert_ptr_null(th_apply_n(th_op_find("add"), NULL, 0, NULL, NULL));
        ck_assert_int_ne(th_backward(NULL, NULL), TH_OK);
    }
    (void)t;
    return NULL;
}

START_TEST(a_context_is_freed_while_an_error_is_stored_in_it)
{
    for (int i = 0; i < 50; i++) {
        pthread_t thread;
        atomic_store(&stage, 0);
        shared = th_context_new(NULL);
        ck_assert_int_eq(pthread_create(&thread, NULL, use_and_fail, NULL), 0);
        wait_for(1);
        th_context_free(shared);
        pthread_join(thread, NULL);
    }
}
END_TEST

/* An allocator whose memory cannot be read after its release. */
static void *map(void *user, size_t bytes)
{
    (void)user;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void unmap(void *user, void *memory, size_t bytes)
{
    (void)user;
    munmap(memory, bytes);
}

static atomic_int stopped, freed;

static void wait_until_freed(int number)
{
    (void)number;
    atomic_store(&stopped, 1);
    for (int i = 0; !atomic_load(&freed) && i < 10000;
         i++) /* with a limit, because the signal may have interrupted a call that holds a lock */
        sched_yield();
}

static void *use_and_fail_until_freed(void *unused)
{
    (void)unused;
    (void)th_ones(shared, TH_FLOAT32, TH_SHAPE(1));
    atomic_store(&stage, 1);
    while (!atomic_load(&freed)) {
        for (int i = 0; i < 10; i++)
            (void)th_apply_n(th_op_find("add"), NULL, 0, NULL, NULL);
        (void)(th_backward(NULL, NULL) == TH_OK);
    }
    return NULL;
}

/* Another thread frees the context while a signal handler delays a call without an operand. */
START_TEST(a_context_is_freed_in_the_middle_of_a_call_without_operand)
{
    signal(SIGUSR1, wait_until_freed);
    for (int i = 0; i < 50; i++) {
        pthread_t thread;
        atomic_store(&stage, 0);
        atomic_store(&stopped, 0);
        atomic_store(&freed, 0);
        shared = th_context_new(&(th_context_options){.threads = 1, .allocator = {map, unmap, NULL}});
        ck_assert_int_eq(pthread_create(&thread, NULL, use_and_fail_until_freed, NULL), 0);
        wait_for(1);
        ck_assert_int_eq(pthread_kill(thread, SIGUSR1), 0);
        while (!atomic_load(&stopped))
            sched_yield();
        th_context_free(shared);
        atomic_store(&freed, 1);
        pthread_join(thread, NULL);
    }
    signal(SIGUSR1, SIG_DFL);
}
END_TEST

static void *fail_until_stopped(void *unused)
{
    (void)unused;
    th_context *c = th_context_new(NULL);
    while (atomic_load(&stage) == 0) {
        (void)th_add(NULL, NULL);
        th_error_clear(c);
    }
    th_context_free(c);
    return NULL;
}

START_TEST(a_process_is_forked_while_other_threads_store_errors)
{
    pthread_t thread[2];
    atomic_store(&stage, 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, fail_until_stopped, NULL), 0);
    for (int i = 0; i < 100; i++) {
        const pid_t child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0) {
            alarm(60);
            th_context *c = th_context_new(NULL);
            const bool right = th_item(th_ones(c, TH_FLOAT32, TH_SHAPE(1))) == 1;
            th_context_free(c);
            _exit(!right);
        }
        int status = 0;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child %d: %s", i,
                      WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "a wrong number");
    }
    atomic_store(&stage, 1);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("misuse_threads", setup, close_context);
    tcase_add_test(tcase, another_thread_frees_the_context_that_was_used_last);
    tcase_add_test(tcase, a_context_is_freed_while_an_error_is_stored_in_it);
    tcase_add_test(tcase, a_context_is_freed_in_the_middle_of_a_call_without_operand);
    tcase_add_test(tcase, a_process_is_forked_while_other_threads_store_errors);
    return run_suites();
}
