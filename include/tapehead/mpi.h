/* Groups of processes over MPI. Only this header uses MPI, and your program includes it: compile the program with MPI's
 * compiler (mpicc). The library itself is independent of MPI. The functions are in the header, so that they fit the
 * MPI of your program: Open MPI, MPICH and others differ in their binary interfaces.
 *
 *     #include <tapehead/mpi.h>
 *     #include <tapehead/tapehead.h>
 *
 *     int main(int argc, char **argv)
 *     {
 *         int provided;
 *         MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
 *         th_context *ctx = th_context_new(NULL);
 *         th_group *group = th_mpi_group_new(ctx, MPI_COMM_WORLD);
 *         ...                                              (tapehead/group.h)
 *         th_context_free(ctx);
 *         MPI_Finalize();
 *     } */
#ifndef TAPEHEAD_MPI_H
#define TAPEHEAD_MPI_H

#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>

#include "tapehead/context.h"
#include "tapehead/group.h"

TH_BEGIN_DECLS

/* Larger messages are sent in parts of this many bytes. So every part that arrives shows that the other process is
 * alive, and MPI's counts of type int are large enough. All processes must use the same value. */
#ifndef TAPEHEAD_MPI_PART
#define TAPEHEAD_MPI_PART ((size_t)4 << 20)
#endif

/* -- internal: the transport -- */

/* One message for MPI: a th_message, or a part of one. */
typedef struct th_mpi_part_ {
    int peer, bytes;
    bool received;
} th_mpi_part_;

/* A transport's state. */
typedef struct th_mpi_ {
    MPI_Comm comm;
    int capacity, posted; /* the space in the lists; the parts in them */
    th_mpi_part_ *parts;
    MPI_Request *requests;
    char problem[MPI_MAX_ERROR_STRING + 200];
} th_mpi_;

/* Returns an MPI error as a sentence. */
static inline const char *th_mpi_problem_(th_mpi_ *m, const char *function, int code)
{
    char text[MPI_MAX_ERROR_STRING + 1];
    int length = 0;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
        length = 0;
    snprintf(m->problem, sizeof m->problem, "%s failed: %.*s", function, length, text);
    return m->problem;
}

static inline void th_mpi_release_(th_mpi_ *m)
{
    free(m->parts);
    free(m->requests);
    m->parts = NULL;
    m->requests = NULL;
    m->capacity = 0;
}

/* Makes space for this many parts. */
static inline bool th_mpi_reserve_(th_mpi_ *m, size_t parts)
{
    if (parts <= (size_t)m->capacity)
        return true;
    th_mpi_release_(m);
    if (parts > INT_MAX)
        return false;
    m->parts = TH_CAST_(th_mpi_part_ *, malloc(parts * sizeof *m->parts));
    m->requests = TH_CAST_(MPI_Request *, malloc(parts * sizeof *m->requests));
    if (m->parts == NULL || m->requests == NULL) {
        th_mpi_release_(m);
        return false;
    }
    m->capacity = (int)parts;
    return true;
}

static inline size_t th_mpi_count_parts_(const th_message *messages, int n)
{
    size_t parts = 0;
    for (int i = 0; i < n; i++)
        parts += (messages[i].bytes - 1) / TAPEHEAD_MPI_PART + 1;
    return parts;
}

/* Starts to send or to receive a part. Returns MPI's code. */
static inline int th_mpi_start_(th_mpi_ *m, th_mpi_part_ part, char *data)
{
    MPI_Request *request = &m->requests[m->posted];
    const int code = part.received ? MPI_Irecv(data, part.bytes, MPI_BYTE, part.peer, 0, m->comm, request)
                                   : MPI_Isend(data, part.bytes, MPI_BYTE, part.peer, 0, m->comm, request);
    if (code == MPI_SUCCESS)
        m->parts[m->posted++] = part;
    return code;
}

/* Starts all messages of a list, in order: MPI keeps the order of messages between two processes. */
static inline int th_mpi_start_all_(th_mpi_ *m, const th_message *messages, int n, bool received)
{
    int code = MPI_SUCCESS;
    for (int i = 0; i < n; i++) {
        char *data = TH_CAST_(char *, messages[i].data);
        for (size_t left = messages[i].bytes; left > 0 && code == MPI_SUCCESS;) {
            const size_t bytes = left < TAPEHEAD_MPI_PART ? left : TAPEHEAD_MPI_PART;
            const th_mpi_part_ part = {messages[i].peer, (int)bytes, received};
            code = th_mpi_start_(m, part, data);
            data += bytes;
            left -= bytes;
        }
    }
    return code;
}

/* Returns how many parts MPI has not completed. */
static inline int th_mpi_unfinished_(th_mpi_ *m)
{
    int unfinished = 0, done;
    for (int i = 0; i < m->posted; i++)
        if (m->requests[i] != MPI_REQUEST_NULL) {
            done = 0;
            MPI_Test(&m->requests[i], &done, MPI_STATUS_IGNORE);
            unfinished += !done;
        }
    return unfinished;
}

/* Ends an exchange that failed. Receives are cancelled. A send, or a receive whose data has begun to arrive, cannot be
 * cancelled: MPI may use its memory until MPI_Abort or MPI_Finalize. */
static inline void th_mpi_give_up_(th_mpi_ *m)
{
    for (int i = 0; i < m->posted; i++)
        if (m->parts[i].received && m->requests[i] != MPI_REQUEST_NULL)
            MPI_Cancel(&m->requests[i]);
    th_mpi_unfinished_(m);
}

/* Judges a finished part by the code of MPI_Test and the status. */
static inline const char *th_mpi_judge_(th_mpi_ *m, const th_mpi_part_ *part, int code, const MPI_Status *status)
{
    int kind = MPI_SUCCESS, bytes = part->bytes;
    MPI_Error_class(code, &kind);
    if (kind == MPI_ERR_TRUNCATE)
        snprintf(m->problem, sizeof m->problem, "rank %d sent more than %d bytes", part->peer, part->bytes);
    else if (kind != MPI_SUCCESS)
        return th_mpi_problem_(m, part->received ? "MPI_Irecv" : "MPI_Isend", code);
    else if (part->received && MPI_Get_count(status, MPI_BYTE, &bytes) == MPI_SUCCESS && bytes != part->bytes)
        snprintf(m->problem, sizeof m->problem, "rank %d sent %d bytes instead of %d", part->peer, bytes, part->bytes);
    else
        return NULL;
    return m->problem;
}

/* Gives the processor to other processes of the group, which compute what this one waits for. After a second it sleeps
 * a millisecond. It does not sleep earlier: some of MPI's transports move a small part of a message in each call. */
static inline void th_mpi_idle_(double waited)
{
    struct timeval millisecond;
    millisecond.tv_sec = 0;
    millisecond.tv_usec = 1000;
    if (waited < 1)
        sched_yield();
    else
        select(0, NULL, NULL, NULL, &millisecond);
}

/* Waits until all parts are complete, one after the other. MPI works on all of them meanwhile. */
static inline const char *th_mpi_wait_(th_mpi_ *m, double seconds)
{
    double since = MPI_Wtime(), now = since;
    for (int i = 0, done = 0; i < m->posted; i += done) {
        MPI_Status status;
        const int code = MPI_Test(&m->requests[i], &done, &status);
        const char *problem = done || code != MPI_SUCCESS ? th_mpi_judge_(m, &m->parts[i], code, &status) : NULL;
        if (problem)
            return problem;
        now = MPI_Wtime();
        if (done) {
            since = now;
        } else if (now - since > seconds) {
            snprintf(m->problem, sizeof m->problem, "rank %d has not answered for %g second%s", m->parts[i].peer,
                     seconds, seconds == 1 ? "" : "s");
            return m->problem;
        } else {
            th_mpi_idle_(now - since);
        }
    }
    return NULL;
}

static inline const char *th_mpi_exchange_(void *user, const th_message *send, int n_send, const th_message *receive,
                                           int n_receive, double seconds)
{
    th_mpi_ *m = TH_CAST_(th_mpi_ *, user);
    m->posted = 0;
    if (!th_mpi_reserve_(m, th_mpi_count_parts_(send, n_send) + th_mpi_count_parts_(receive, n_receive)))
        return "memory for the list of messages is exhausted";
    const char *problem = NULL, *function = "MPI_Irecv";
    int code = th_mpi_start_all_(m, receive, n_receive, true);
    if (code == MPI_SUCCESS) {
        function = "MPI_Isend";
        code = th_mpi_start_all_(m, send, n_send, false);
    }
    problem = code == MPI_SUCCESS ? th_mpi_wait_(m, seconds) : th_mpi_problem_(m, function, code);
    if (problem)
        th_mpi_give_up_(m);
    return problem;
}

/* Frees a transport; NULL is allowed. The communicator cannot be freed after MPI_Finalize, or while messages are
 * unfinished. */
static inline void th_mpi_free_(void *user)
{
    th_mpi_ *m = TH_CAST_(th_mpi_ *, user);
    int finalized = 0;
    if (m == NULL)
        return;
    MPI_Finalized(&finalized);
    if (!finalized && m->comm != MPI_COMM_NULL && th_mpi_unfinished_(m) == 0)
        MPI_Comm_free(&m->comm);
    th_mpi_release_(m);
    free(m);
}

/* Returns why this thread cannot use the communicator now, or NULL. */
static inline const char *th_mpi_unusable_(const th_context *ctx, MPI_Comm comm)
{
    int initialized = 0, finalized = 0, level = MPI_THREAD_SINGLE, in_main = 1, inter = 0;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (!initialized)
        return "MPI is not initialized: call MPI_Init_thread first";
    if (finalized)
        return "MPI is already finalized";
    MPI_Query_thread(&level);
    MPI_Is_thread_main(&in_main);
    if (level < MPI_THREAD_FUNNELED && th_team_size(ctx) > 1)
        return "MPI was initialized for a process with one thread, and the context has several: call MPI_Init_thread "
               "with MPI_THREAD_FUNNELED";
    if (level < MPI_THREAD_SERIALIZED && !in_main)
        return "MPI was initialized for calls by the main thread only, and this is another thread: call "
               "MPI_Init_thread with MPI_THREAD_SERIALIZED";
    if (comm == MPI_COMM_NULL)
        return "the communicator is MPI_COMM_NULL";
    if (MPI_Comm_test_inter(comm, &inter) == MPI_SUCCESS && inter)
        return "the communicator is an intercommunicator";
    return NULL;
}

/* Duplicates the communicator for a transport, so that its messages never meet the program's own. Returns NULL, or a
 * sentence about the error. */
static inline const char *th_mpi_duplicate_(th_mpi_ *m, MPI_Comm comm, th_transport *transport)
{
    int code = MPI_Comm_dup(comm, &m->comm);
    if (code != MPI_SUCCESS)
        return th_mpi_problem_(m, "MPI_Comm_dup", code);
    code = MPI_Comm_set_errhandler(m->comm, MPI_ERRORS_RETURN);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_rank(m->comm, &transport->rank);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_size(m->comm, &transport->size);
    return code == MPI_SUCCESS ? NULL : th_mpi_problem_(m, "MPI_Comm_dup", code);
}

/* Makes a transport. If that fails, transport->error tells why. */
static inline void th_mpi_transport_(const th_context *ctx, MPI_Comm comm, th_transport *transport)
{
    memset(transport, 0, sizeof *transport);
    th_mpi_ *m = TH_CAST_(th_mpi_ *, calloc(1, sizeof *m));
    transport->user = m;
    transport->exchange = th_mpi_exchange_;
    transport->free = th_mpi_free_;
    transport->error = m ? th_mpi_unusable_(ctx, comm) : "memory for the transport is exhausted";
    if (m)
        m->comm = MPI_COMM_NULL;
    if (transport->error == NULL)
        transport->error = th_mpi_duplicate_(m, comm, transport);
}

/* -- the group -- */

/* Creates a group of the processes of a communicator. Collective: all of them must call it. The ranks are the same. The
 * group uses a duplicate of the communicator, and frees it with the group or with the context. It is not freed after
 * MPI_Finalize. Free the context before, so that MPI reports no lost communicator.
 *
 * The context's other threads never call MPI. MPI_THREAD_FUNNELED is enough, if the main thread uses the context.
 * Several contexts with groups in several threads need MPI_THREAD_MULTIPLE.
 *
 * Returns NULL with the error pending: TH_ERROR_STATE if MPI is not initialized, is finalized, or allows fewer threads;
 * if comm is MPI_COMM_NULL or an intercommunicator; or if MPI reports an error. TH_ERROR_MEMORY as th_group_new.
 *
 * MPI's errors become TH_ERROR_PROCESS, not a message of MPI that ends the program. MPICH needs for this:
 *
 *     MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
 *
 * After a TH_ERROR_PROCESS of this group call MPI_Abort, not MPI_Finalize, which would wait for the other processes.
 * Call it before you free the context: MPI may still use the memory of messages that it could not cancel. */
static inline th_group *th_mpi_group_new(th_context *ctx, MPI_Comm comm)
{
    th_transport transport;
    th_mpi_transport_(ctx, comm, &transport);
    th_group *group = (th_group_new)(ctx, &transport);
    if (group == NULL)
        th_mpi_free_(transport.user);
    return group;
}

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_mpi_group_new(...) TH_AT_POINTER(th_group, th_mpi_group_new(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
