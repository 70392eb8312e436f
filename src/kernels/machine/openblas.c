/* Finds OpenBLAS and its functions at run time, and limits its calls to one thread.
 *
 * The pthread build has one thread count for the whole process; load_library() sets it to 1. The OpenMP build uses
 * OpenMP's thread count, which each thread has for itself. It is set to 1 around the calls, and restored afterwards. */
#include "kernels/machine/openblas.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "kernels/machine/locks.h"
#include "kernels/machine/openmp.h"
#include "platform/system.h"

static _Atomic enum { NOT_LOADED, MISSING, LOADED } state;
static th_openblas_functions functions; /* written once, before `state` is LOADED */

/* The OpenMP libraries that OpenBLAS may call: the one of this library, and the one that OpenBLAS was linked with. Both
 * may be the same; a program may also load two (gcc's and clang's). Empty for a build without OpenMP. */
static th_openmp_count openmps[TH_OPENMPS];
static int openmp_count;

/* Writes the address of a function of the library to *target, a function pointer. Returns false if the library lacks
 * it. */
static bool find_function(void *library, const char *name, void *target)
{
    void *symbol = th_library_find(library, name);
    memcpy(target, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* The version is the second word of "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...". */
static void read_version(const char *config)
{
    if (sscanf(config, "OpenBLAS %15s", functions.version) != 1)
        strcpy(functions.version, "?");
}

/* Whether this is the OpenMP build. */
static bool uses_openmp(void *library)
{
    int (*parallel)(void);
    return find_function(library, "openblas_get_parallel", &parallel) && parallel() == 2;
}

static void find_openmp(void *library)
{
    const th_openmp_count ours = th_openmp_own_count();
    th_openmp_count linked;
    if (ours.set)
        openmps[openmp_count++] = ours;
    if (find_function(library, "omp_get_max_threads", &linked.get) &&
        find_function(library, "omp_set_num_threads", &linked.set) && linked.set != ours.set)
        openmps[openmp_count++] = linked;
}

/* Loads OpenBLAS; returns false if it was not found. The caller holds the lock, which blocks signals. Threads that
 * OpenBLAS creates inherit this. */
static bool load_library(void)
{
    static const char *const names[] = {TH_OPENBLAS_NAMES};
    void *library = NULL;
    for (size_t i = 0; !library && i < sizeof names / sizeof *names; i++)
        library = th_library_open(names[i]);
    if (!library)
        return false;
    if (!find_function(library, "cblas_sgemm", &functions.sgemm) ||
        !find_function(library, "cblas_dgemm", &functions.dgemm)) {
        th_library_close(library);
        return false;
    }
    void (*set_threads)(int);
    char *(*get_text)(void);
    if (uses_openmp(library))
        find_openmp(library);
    else if (find_function(library, "openblas_set_num_threads", &set_threads))
        set_threads(1);
    read_version(find_function(library, "openblas_get_config", &get_text) ? get_text() : "");
    snprintf(functions.core, sizeof functions.core, "%s",
             find_function(library, "openblas_get_corename", &get_text) ? get_text() : "?");
    return true;
}

const th_openblas_functions *th_openblas(void)
{
    if (atomic_load_explicit(&state, memory_order_acquire) == NOT_LOADED) {
        const th_held_lock held = th_lock_take(TH_LOCK_OPENBLAS);
        if (atomic_load_explicit(&state, memory_order_relaxed) == NOT_LOADED)
            atomic_store_explicit(&state, load_library() ? LOADED : MISSING, memory_order_release);
        th_lock_release(&held);
    }
    return atomic_load_explicit(&state, memory_order_acquire) == LOADED ? &functions : NULL;
}

th_openblas_threads th_openblas_begin(void)
{
    th_openblas_threads before = {{0}};
    for (int i = 0; i < openmp_count; i++) {
        before.count[i] = openmps[i].get();
        if (before.count[i] != 1)
            openmps[i].set(1);
    }
    return before;
}

void th_openblas_end(const th_openblas_threads *before)
{
    for (int i = 0; i < openmp_count; i++)
        if (before->count[i] != 1)
            openmps[i].set(before->count[i]);
}
