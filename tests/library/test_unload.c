/* Tests that a plugin with the static library can be unloaded while threads that used it continue. Afterwards no code
 * of the library runs: neither its worker threads, nor its destructor for these threads. */
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "suite.h"

enum { THREADS = 4, CALLERS = 3 };
static const double sum = 300.0 * 300 * 300 / 4;

typedef double compute(int threads);

static void *load(compute **function)
{
    void *plugin = dlopen(PLUGIN, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(plugin != NULL, "%s", dlerror());
    void *symbol = dlsym(plugin, "plugin_compute");
    ck_assert_ptr_nonnull(symbol);
    memcpy(function, &symbol, sizeof symbol);
    return plugin;
}

static bool is_loaded(void)
{
    void *plugin = dlopen(PLUGIN, RTLD_NOW | RTLD_NOLOAD);
    if (plugin)
        dlclose(plugin);
    return plugin != NULL;
}

static int threads_of_this_process(void)
{
    DIR *directory = opendir("/proc/self/task");
    ck_assert_ptr_nonnull(directory);
    int threads = -2; /* . and .. */
    while (readdir(directory))
        threads++;
    closedir(directory);
    return threads;
}

/* Returns whether the process has this many threads within ten seconds: the system counts a thread for a moment after
 * its end. */
static bool number_of_threads_becomes(int threads)
{
    for (int i = 0; threads_of_this_process() != threads && i < 1000; i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    return threads_of_this_process() == threads;
}

static pthread_barrier_t computed, unloaded;

static void *compute_and_outlive(void *function)
{
    compute *in_plugin;
    memcpy(&in_plugin, function, sizeof in_plugin);
    ck_assert_double_eq(in_plugin(THREADS), sum);
    pthread_barrier_wait(&computed);
    pthread_barrier_wait(&unloaded);
    return NULL;
}

START_TEST(test_threads_outlive_the_plugin)
{
    const int before = threads_of_this_process();
    for (int times = 0; times < 3; times++) { /* the plugin is loaded again each time */
        compute *function;
        void *plugin = load(&function);
        pthread_t thread[CALLERS];
        pthread_barrier_init(&computed, NULL, CALLERS + 1);
        pthread_barrier_init(&unloaded, NULL, CALLERS + 1);
        for (int i = 0; i < CALLERS; i++)
            ck_assert_int_eq(pthread_create(&thread[i], NULL, compute_and_outlive, &function), 0);
        ck_assert_double_eq(function(THREADS), sum); /* the thread that unloads the plugin has workers too */
        pthread_barrier_wait(&computed);
        ck_assert_int_eq(dlclose(plugin), 0);
        ck_assert_msg(!is_loaded(), "the plugin stays loaded, so that this tests nothing");
        ck_assert(number_of_threads_becomes(before + CALLERS));
        pthread_barrier_wait(&unloaded);
        for (int i = 0; i < CALLERS; i++)
            ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
        ck_assert(number_of_threads_becomes(before));
    }
}
END_TEST

int main(void)
{
#ifndef __GLIBC__
    puts("skipped: this C library never unloads a plugin");
    return 77;
#endif
    TCase *unload = new_suite("unload", NULL, NULL);
    tcase_add_test(unload, test_threads_outlive_the_plugin);
    return run_suites();
}
