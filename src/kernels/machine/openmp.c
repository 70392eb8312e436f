/* The settings of OpenMP's library. openmp_off.c replaces them in a build without OpenMP. */
#include "kernels/machine/openmp.h"

#ifdef TAPEHEAD_OPENMP

#include <limits.h>
#include <omp.h>
#include <stdint.h>
#include <stdlib.h>

int th_openmp_threads(void)
{
    const int threads = omp_get_max_threads();
    return threads > 0 ? threads : INT_MAX; /* gcc's library takes only 32 bits of OMP_NUM_THREADS=3000000000 */
}

int th_openmp_thread_limit(void)
{
    return omp_get_thread_limit();
}

int th_openmp_processors(void)
{
    return omp_get_proc_bind() == omp_proc_bind_false ? 0 : omp_get_num_procs();
}

bool th_openmp_in_parallel(void)
{
    return omp_in_parallel();
}

th_openmp_count th_openmp_own_count(void)
{
    return (th_openmp_count){omp_get_max_threads, omp_set_num_threads};
}

/* -- places -- */

/* omp_proc_bind_primary of OpenMP 5.1. Compilers for earlier versions call it omp_proc_bind_master. */
#define BIND_PRIMARY ((omp_proc_bind_t)2)

/* Returns the place of a worker, or -1 if OpenMP has not defined places. Consecutive workers get different places,
 * because the first workers take part in every run. */
static int place_of(omp_proc_bind_t bind, int worker, int threads)
{
    const int places = omp_get_num_places();
    if (places < 1 || bind == BIND_PRIMARY)
        return places < 1 ? -1 : 0;
    return bind == omp_proc_bind_spread && threads < places ? (int)((int64_t)worker * places / threads)
                                                            : worker % places;
}

void th_openmp_bind(th_thread thread, int worker, int threads)
{
    const omp_proc_bind_t bind = omp_get_proc_bind();
    const int place = bind == omp_proc_bind_false ? -1 : place_of(bind, worker, threads);
    const int count = place < 0 ? 0 : omp_get_place_num_procs(place);
    int *const processors = count > 0 ? malloc((size_t)count * sizeof *processors) : NULL;
    if (!processors)
        return;
    omp_get_place_proc_ids(place, processors);
    th_thread_bind(thread, count, processors);
    free(processors);
}

#endif
