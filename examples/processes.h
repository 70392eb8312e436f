/* The processes of an example. An example that was built with MPI (scripts/run.sh --processes builds it so) runs in all
 * processes that mpirun or srun starts:
 *
 *     parse_options(...);                           (--help ends the program here)
 *     start_processes(&argc, &argv);
 *     th_context *ctx = th_context_new(...);
 *     th_group *group = new_process_group(ctx);
 *     ...
 *     th_context_free(ctx);
 *     end_processes();
 *
 * A program that was started alone is a group of one process, and MPI is not used. */
#ifndef EXAMPLES_PROCESSES_H
#define EXAMPLES_PROCESSES_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tapehead/tapehead.h>

#include "options.h"
#include "started.h"
#ifdef EXAMPLES_WITH_MPI /* CMakeLists.txt defines this with TAPEHEAD_MPI=ON */
#include <tapehead/mpi.h>
#endif

/* Ends the program. Only the first of several processes prints the problem. */
static inline void end_without_processes(const char *argv0, const char *problem)
{
    const char *slash = strrchr(argv0, '/');
    wait_for_first_report();
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

/* Creates the group of all processes. It belongs to the context. Returns NULL with the error pending. */
static inline th_group *new_process_group(th_context *ctx)
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

/* Creates the group of this process alone. It belongs to the context. Returns NULL with the error pending. */
static inline th_group *new_process_group(th_context *ctx)
{
    return th_group_new(ctx, NULL);
}

/* Does nothing: without MPI there is nothing to end. */
static inline void end_processes(void)
{
}

#endif

/* -- with and without MPI -- */

#define SHARDS_HELP "of a step, for as many processes; they divide the batch"

/* Ends the program unless the shards divide the batch. */
static inline void check_shards(const char *program, int64_t shards, int64_t batch)
{
    char problem[120];
    snprintf(problem, sizeof problem, "--shards %lld does not divide --batch %lld", (long long)shards,
             (long long)batch);
    if (batch % shards != 0)
        refuse(program, problem, "");
}

/* Returns new_process_group(ctx). Ends the program on an error, because without a group the other processes
 * cannot learn of the error. */
static inline th_group *join_processes(const char *program, th_context *ctx)
{
    th_group *group = new_process_group(ctx);
    if (group == NULL)
        give_up(program, th_error_message(ctx));
    return group;
}

/* Ends the program if there are more processes than shards. */
static inline void check_processes(const char *program, const th_group *group, int64_t shards)
{
    const int size = th_group_size(group);
    char problem[120];
    snprintf(problem, sizeof problem, "%d processes need --shards %d or more", size, size);
    if (size > shards)
        refuse(program, problem, "");
}

/* Ends the program after an error that all processes have: th_optimizer_step or th_group_agree returned it. The first
 * process prints the message. If the processes have lost each other, each reports what it knows. */
static inline void give_up_together(const char *program, const th_context *ctx, const char *message)
{
    if (th_error_code(ctx) == TH_ERROR_PROCESS)
        give_up(program, message);
    if (started_rank() < 1)
        fprintf(stderr, "%s: %s\n", program, message);
    end_processes();
    exit(EXIT_FAILURE);
}

/* Reduces the default number of threads, one for each processor, in a process that shares the machine with others of
 * the group. option_threads: the program's option; 0 is the default. OMP_NUM_THREADS has priority. */
static inline th_status share_processors(th_context *ctx, int64_t option_threads)
{
    const int team = th_team_size(ctx);
#ifdef _WIN32
    const long processors = team;
#else
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
#endif
    const long share = processors / started_on_this_machine();
    if (option_threads != 0 || getenv("OMP_NUM_THREADS") || share >= team)
        return TH_OK;
    return th_set_threads(ctx, share > 1 ? (int)share : 1);
}

/* -- the end of training -- */

/* Calls the handler at Ctrl-C. mpirun does not pass SIGINT on: it sends SIGTERM a second after it, and SIGKILL another
 * second later (odls_base_sigkill_timeout changes both times). It passes SIGUSR1 on, and does nothing else. */
static inline void catch_signals(void (*handler)(int signal_number))
{
    signal(SIGINT, handler);
    if (started_rank() < 0)
        return;
    signal(SIGTERM, handler);
#ifdef SIGUSR1 /* not on Windows */
    signal(SIGUSR1, handler);
#endif
}

/* Returns whether training should end, because a signal arrived in one of the processes. All get the same answer after
 * the same step. interrupted: a signal arrived in this process. */
static inline bool should_stop_training(th_group *group, bool interrupted)
{
    if (interrupted)
        th_group_request_stop(group);
    return th_group_stop_requested(group);
}

#endif
