/* The processes of an example. An example that was built with MPI (scripts/run.sh --processes builds it so) runs in all
 * processes that mpirun or srun starts:
 *
 *     parse_options(...);                           (--help ends the program here)
 *     start_processes(&argc, &argv);
 *     th_context *ctx = th_context_new(...);
 *     th_group *group = group_of(ctx);
 *     ...
 *     th_context_free(ctx);
 *     end_processes();
 *
 * A program that was started alone is a group of one process, and MPI is not used. */
#ifndef EXAMPLES_PROCESSES_H
#define EXAMPLES_PROCESSES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tapehead/tapehead.h>
#ifdef EXAMPLES_WITH_MPI /* CMakeLists.txt defines this with TAPEHEAD_MPI=ON */
#include <tapehead/mpi.h>
#endif

/* Returns the largest number in environment variables that tell a process its number of processes, or its rank; -1 if
 * none of them is set. The list of names ends with NULL. */
static inline int number_in_environment(const char *const *names)
{
    int largest = -1;
    for (; *names; names++) {
        const char *text = getenv(*names);
        const int number = text ? atoi(text) : -1;
        largest = number > largest ? number : largest;
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
    const int size = number_in_environment(names), least = started_rank() + 1;
    return size > least ? size : least > 1 ? least : 1;
}

/* Ends the program. Of several processes the first one prints the sentence. */
static inline void end_without_processes(const char *argv0, const char *problem)
{
    const char *slash = strrchr(argv0, '/');
    if (started_rank() < 1)
        fprintf(stderr, "%s: %s\n", slash ? slash + 1 : argv0, problem);
    exit(EXIT_FAILURE);
}

#ifdef EXAMPLES_WITH_MPI

/* Starts MPI if mpirun or srun started this process. Ends the program if this MPI does not find the other processes. */
static inline void start_processes(int *argc, char ***argv)
{
    int provided, size;
    if (started_rank() < 0 && started_processes() == 1)
        return;
    if (MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
        end_without_processes((*argv)[0], "MPI_Init_thread failed");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size == 1 && started_processes() > 1)
        end_without_processes((*argv)[0],
                              "each process finds itself alone: start it with the mpirun of the MPI that it "
                              "was built with, or with srun --mpi=pmix");
}

/* Creates the group of all processes. It belongs to the context. Returns NULL with the error stored. */
static inline th_group *group_of(th_context *ctx)
{
    int started;
    MPI_Initialized(&started);
    return started ? th_mpi_group_new(ctx, MPI_COMM_WORLD) : th_group_new(ctx, NULL);
}

/* Ends MPI, after the contexts were freed. All processes call this when they end without an error. After an error a
 * process ends with a status other than 0 instead, and mpirun ends the others. */
static inline void end_processes(void)
{
    int started;
    MPI_Initialized(&started);
    if (started)
        MPI_Finalize();
}

#else

/* Ends the program if mpirun or srun started several processes: each of them would do all of the work. */
static inline void start_processes(int *argc, char ***argv)
{
    if (*argc > 0 && started_processes() > 1)
        end_without_processes((*argv)[0], "built without MPI: it cannot share the work with other processes; "
                                          "scripts/run.sh --processes N builds it with MPI");
}

/* Creates the group of this process alone. It belongs to the context. Returns NULL with the error stored. */
static inline th_group *group_of(th_context *ctx)
{
    return th_group_new(ctx, NULL);
}

/* Nothing is to be ended: only a program with MPI starts something. */
static inline void end_processes(void)
{
}

#endif

#endif
