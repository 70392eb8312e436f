/* What mpirun or srun told this process when it started it. MPI need not have begun. */
#ifndef EXAMPLES_STARTED_H
#define EXAMPLES_STARTED_H

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

/* Returns the largest number in environment variables that tell a process its number of processes, or its rank; -1 if
 * none of them is set. The list of names ends with NULL. */
static inline int number_in_environment(const char *const *names)
{
    int largest = -1;
    for (; *names; names++) {
        const char *text = getenv(*names);
        char *end = NULL;
        const long number = text ? strtol(text, &end, 10) : -1;
        if (end != text && number > largest && number <= INT_MAX)
            largest = (int)number;
    }
    return largest;
}

/* Returns this process's rank, as mpirun or srun set it; -1 if neither started this process. */
static inline int started_rank(void)
{
    /* Open MPI, PMIx (Open MPI 5, Slurm), MPICH and Intel MPI, MVAPICH2 */
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", NULL};
    return number_in_environment(names);
}

/* Returns how many processes mpirun or srun started; 1 if this process was started alone, or if that is unknown. */
static inline int started_processes(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
                                        "SLURM_STEP_NUM_TASKS", NULL};
    const int size = number_in_environment(names), at_least = started_rank() + 1;
    return size > at_least ? size : at_least > 1 ? at_least : 1;
}

/* Returns how many of these processes share this machine; 1 if that is unknown. */
static inline int started_on_this_machine(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE",
                                        "SLURM_NTASKS_PER_NODE", NULL};
    const int size = started_rank() < 0 ? 1 : number_in_environment(names);
    return size > 1 ? size : 1;
}

/* Waits in every process except the first, before it ends with an error. If the first process has the same error, it
 * reports it in this time, and mpirun ends the others: it sends SIGTERM after a second. */
static inline void wait_for_first_report(void)
{
    if (started_rank() > 0 && sleep(2) > 0) /* a signal, with a handler */
        exit(EXIT_FAILURE);
}

#endif
