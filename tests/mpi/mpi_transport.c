/* mpi_transport CASE: tests of the transport of tapehead/mpi.h. Runs under mpirun, with at least two processes. */
#include "mpi_checks.h"

#include <time.h>

#include "transport_checks.h"

static th_context *ctx;
static th_transport transport;

static void start(int level)
{
    int provided;
    CHECK(MPI_Init_thread(NULL, NULL, level, &provided) == MPI_SUCCESS);
    CHECK(provided >= level);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    ctx = th_context_new(&(th_context_options){.threads = 1});
}

static void open_transport(void)
{
    start(MPI_THREAD_FUNNELED);
    th_mpi_transport_(ctx, MPI_COMM_WORLD, &transport);
    CHECK_THAT(transport.error == NULL, "%s", transport.error);
    CHECK(transport.size > 1);
}

static void end(void)
{
    if (transport.user)
        transport.free(transport.user);
    th_context_free(ctx);
    MPI_Finalize();
}

static const char *send(int peer, void *data, size_t bytes, double seconds)
{
    return transport.exchange(transport.user, &(th_message){peer, data, bytes}, 1, NULL, 0, seconds);
}

static const char *receive(int peer, void *data, size_t bytes, double seconds)
{
    return transport.exchange(transport.user, NULL, 0, &(th_message){peer, data, bytes}, 1, seconds);
}

/* -- the cases -- */

/* The program sends messages too. They do not meet the transport's messages. */
static void exchanges(void)
{
    open_transport();
    const int before = (transport.rank + transport.size - 1) % transport.size,
              after = (transport.rank + 1) % transport.size;
    int own = transport.rank, got = -1;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]);
    const char *problem = check_mixtures(&transport, 1, 40, 3 << 20);
    CHECK_THAT(problem == NULL, "%s", problem);
    problem = check_all_pairs(&transport, 5, 300001);
    CHECK_THAT(problem == NULL, "%s", problem);
    problem = check_turns(&transport, 50);
    CHECK_THAT(problem == NULL, "%s", problem);
    MPI_Isend(&own, 1, MPI_INT, after, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, statuses);
    CHECK(got == before);
    end();
}

/* Rank 1 does not send. */
static void no_sender(void)
{
    char data[8];
    open_transport();
    if (transport.rank == 0) {
        const double begin = MPI_Wtime();
        CHECK_WORDS(receive(1, data, sizeof data, 0.5), "rank 1 has not answered for 0.5 seconds");
        CHECK(MPI_Wtime() - begin >= 0.5);
    }
    end();
}

/* Rank 1 receives too late. */
static void no_receiver(void)
{
    static char data[100000];
    open_transport();
    if (transport.rank == 0) {
        CHECK_WORDS(send(1, data, sizeof data, 1), "rank 1 has not answered for 1 second");
        while (th_mpi_unfinished_(transport.user) > 0)
            sched_yield();
    } else if (transport.rank == 1) {
        nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 500000000}, NULL);
        CHECK(receive(0, data, sizeof data, 300) == NULL);
    }
    end();
}

/* Rank 0 sends messages of 16 bytes and of another length; rank 1 expects 16 bytes. */
static void send_another_length(size_t bytes, const char *words)
{
    static char data[100];
    open_transport();
    if (transport.rank == 0) {
        CHECK(send(1, data, 16, 300) == NULL);
        CHECK(send(1, data, bytes, 300) == NULL);
    } else if (transport.rank == 1) {
        CHECK(receive(0, data, 16, 300) == NULL);
        CHECK_WORDS(receive(0, data, 16, 300), words);
    }
    end();
}

static void too_short(void)
{
    send_another_length(8, "rank 0 sent 8 bytes instead of 16");
}

static void too_long(void)
{
    send_another_length(24, "rank 0 sent more than 16 bytes");
}

/* MPI reports a wrong rank. */
static void wrong_rank(void)
{
    char data = 0;
    open_transport();
    CHECK_WORDS(transport.rank ? send(transport.size, &data, 1, 300) : receive(transport.size, &data, 1, 300),
                transport.rank ? "MPI_Isend failed: " : "MPI_Irecv failed: ");
    end();
}

static void refuse_group(MPI_Comm comm, const char *words)
{
    CHECK(th_mpi_group_new(ctx, comm) == NULL);
    CHECK(th_error_code(ctx) == TH_ERROR_STATE);
    CHECK_WORDS(th_error_message(ctx), words);
    CHECK_WORDS(th_error_message(ctx), "; at mpi_transport.c:");
    th_error_clear(ctx);
}

/* Groups before MPI_Init, after MPI_Finalize, and of unusable communicators. */
static void refusals(void)
{
    ctx = th_context_new(&(th_context_options){.threads = 1});
    refuse_group(MPI_COMM_WORLD, "group: MPI is not initialized: call MPI_Init_thread first");
    th_context_free(ctx);
    start(MPI_THREAD_FUNNELED);
    refuse_group(MPI_COMM_NULL, "the communicator is MPI_COMM_NULL");
    MPI_Comm half, both;
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 0, &both);
    refuse_group(both, "the communicator is an intercommunicator");
    MPI_Comm_free(&both);
    th_group *group = th_mpi_group_new(ctx, half);
    CHECK_THAT(group != NULL, "%s", th_error_message(ctx));
    CHECK(th_group_rank(group) == rank / 2);
    CHECK(th_group_size(group) == (size + 1 - rank % 2) / 2);
    MPI_Comm_free(&half);
    CHECK(th_group_agree(group) == TH_OK);
    th_group_free(group);
    group = th_mpi_group_new(ctx, MPI_COMM_WORLD);
    CHECK(th_group_agree(group) == TH_OK);
    MPI_Finalize();
    refuse_group(MPI_COMM_WORLD, "MPI is already finalized");
    th_context_free(ctx); /* frees the group too, and must not call MPI */
}

/* MPI_Init promises MPI that the process has one thread. */
static void one_thread(void)
{
    start(MPI_THREAD_SINGLE);
    int level;
    MPI_Query_thread(&level);
    CHECK(th_set_threads(ctx, 2) == TH_OK);
    if (level == MPI_THREAD_SINGLE && th_team_size(ctx) == 2)
        refuse_group(MPI_COMM_WORLD, "MPI was initialized for a process with one thread, and the context has several");
    else
        printf("not tested: MPI_THREAD_SINGLE gives level %d, and the team has %d threads\n", level, th_team_size(ctx));
    CHECK(th_set_threads(ctx, 1) == TH_OK);
    th_group *group = th_mpi_group_new(ctx, MPI_COMM_WORLD);
    CHECK_THAT(group != NULL, "%s", th_error_message(ctx));
    end();
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"exchanges", exchanges}, {"no_sender", no_sender},   {"no_receiver", no_receiver},
                 {"too_short", too_short}, {"too_long", too_long},     {"wrong_rank", wrong_rank},
                 {"refusals", refusals},   {"one_thread", one_thread}, {NULL, NULL}};
    int i = 0;
    while (cases[i].name && (argc != 2 || strcmp(argv[1], cases[i].name) != 0))
        i++;
    if (cases[i].name == NULL) {
        fprintf(stderr, "mpi_transport: unknown case\n");
        return 2;
    }
    cases[i].run();
    return EXIT_SUCCESS;
}
