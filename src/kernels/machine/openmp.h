/* What the library takes from OpenMP: limits of the number of threads, and the processors on which they run (places).
 * OpenMP's threads are not used.
 *
 * A build with TAPEHEAD_OPENMP=OFF reads OMP_NUM_THREADS and OMP_THREAD_LIMIT itself. It has no places, and does not
 * know whether the program computes in a parallel region of OpenMP. */
#ifndef TH_KERNELS_MACHINE_OPENMP_H
#define TH_KERNELS_MACHINE_OPENMP_H

#include <stdbool.h>

#include "platform/threads.h"

/* Returns OMP_NUM_THREADS, or the number that the program has set later. By default it is INT_MAX or the number of
 * processors. */
int th_openmp_threads(void);

/* Returns OMP_THREAD_LIMIT; INT_MAX by default. */
int th_openmp_thread_limit(void);

/* Returns the number of processors in all places; 0 if OpenMP does not bind threads. */
int th_openmp_processors(void);

/* Binds a thread, this worker of a team of `threads`, to its place according to OMP_PROC_BIND and OMP_PLACES. Worker 0
 * belongs to the first place. Does nothing if OpenMP does not bind threads. */
void th_openmp_bind(th_thread thread, int worker, int threads);

/* Whether the calling thread computes in a parallel region of OpenMP. */
bool th_openmp_in_parallel(void);

/* The functions that get and set the calling thread's number of threads, in one OpenMP library. */
typedef struct th_openmp_count {
    int (*get)(void);
    void (*set)(int);
} th_openmp_count;

/* Returns the functions of this library's OpenMP; NULL without OpenMP. */
th_openmp_count th_openmp_own_count(void);

#endif
