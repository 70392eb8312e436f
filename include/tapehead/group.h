/* Groups: processes that train one model together (data parallelism). Each process runs the same program. A step
 * consists of shards (tapehead/optimizer.h), and each process computes some of them. The result has the same bits for
 * every number of processes.
 *
 * tapehead/mpi.h makes a group of an MPI communicator. A group of your own needs a transport: one function that sends
 * and receives bytes.
 *
 *     th_group *group = th_mpi_group_new(ctx, MPI_COMM_WORLD);
 * th_optimizer *adam = th_adam_w_new(model, &(th_adam_options){.learning_rate = 1e-3, .shards = 8, .group = group});
 *     while (th_step(ctx) < steps) {
 *         for (th_shard shard = th_optimizer_shards(adam); th_shard_next(&shard);) {
 *             th_tensor *loss = th_language_model_loss(model, tokens_of(shard), targets_of(shard), NULL);
 *             if (th_backward(loss, NULL))
 *                 break;
 *             th_tape_clear(ctx);
 *         }
 *         if (th_optimizer_step(adam))
 *             return report(th_error_message(ctx));     (the same sentence on every process)
 *     }
 *
 * docs/many-machines.md has whole programs, a transport included.
 *
 * Some functions are collective: all processes of the group must call them, in the same order. These are
 * th_optimizer_step, th_group_agree, and th_checkpoint_save with an optimizer that has a group. */
#ifndef TAPEHEAD_GROUP_H
#define TAPEHEAD_GROUP_H

#include "tapehead/base.h"

TH_BEGIN_DECLS

/* -- transport -- */

/* Bytes to send to a process, or to receive from it. */
typedef struct th_message {
    int peer; /* the other process's rank */
    void *data;
    size_t bytes; /* positive; both sides list the same number */
} th_message;

/* How the processes of a group exchange bytes. */
typedef struct th_transport {
    int rank, size; /* this process's number, in [0, size); the number of processes */
    /* Sends and receives all messages at the same time. Returns when all of them are complete. Messages from one
     * process to another arrive in the order of the lists. No message goes to the process itself. Returns NULL, or a
     * sentence about what went wrong, for example "rank 3 has not answered for 60 seconds". The sentence is valid until
     * the next call. `seconds` limits the time that the function may wait without progress. */
    const char *(*exchange)(void *user, const th_message *send, int n_send, const th_message *receive, int n_receive,
                            double seconds);
    void (*free)(void *user); /* called once, when the group is freed; may be NULL */
    void *user;
    /* A sentence that tells why the transport could not be made, or NULL. th_group_new stores it as TH_ERROR_STATE. */
    const char *error;
} th_transport;

/* -- groups -- */

/* A group of processes. */
typedef struct th_group th_group;

/* Creates a group. It belongs to the context. transport is copied; NULL makes a group of this process alone. Returns
 * NULL with the error pending: TH_ERROR_ARGUMENT for a rank outside [0, size) or a missing exchange, TH_ERROR_STATE
 * with the transport's error, TH_ERROR_MEMORY. After an error the transport's free is not called. */
TH_API th_group *th_group_new(th_context *ctx, const th_transport *transport);
/* Frees a group; NULL is allowed. Afterwards the steps of its optimizers are TH_ERROR_STATE. */
TH_API void th_group_free(th_group *group);
/* Returns this process's rank; 0 for NULL. */
TH_API int th_group_rank(const th_group *group);
/* Returns the number of processes; 1 for NULL. */
TH_API int th_group_size(const th_group *group);
/* Sets how long this process waits for another one before it reports TH_ERROR_PROCESS. The default is 1800 seconds;
 * infinity is allowed. TH_ERROR_ARGUMENT if seconds is not positive. */
TH_API th_status th_group_set_timeout(th_group *group, double seconds);

/* Collective. Returns TH_OK if no process has a pending error. Otherwise the first process with an error decides: its
 * error becomes the pending error of every process, with the rank in front of the message. Call it after work that only
 * one process does, such as writing a log. Returns TH_ERROR_PROCESS if a process does not answer, or calls another
 * collective function. */
TH_API th_status th_group_agree(th_group *group) TH_MUST_CHECK;

/* Requests that all processes end training, for example after a signal arrived in one of them. The request reaches the
 * others with their next collective call. Do not call it in a signal handler. */
TH_API void th_group_request_stop(th_group *group);
/* Returns whether a process has requested the end, as of the last collective call: all processes get the same answer.
 * false for NULL. */
TH_API bool th_group_stop_requested(const th_group *group);

/* What a group has exchanged so far. */
typedef struct th_group_traffic {
    uint64_t bytes_sent; /* by this process */
    uint64_t exchanges;  /* calls of the transport's exchange */
    double seconds;      /* in these calls, including the time that this process waited for others */
} th_group_traffic;
/* Returns the traffic; zeros for NULL. */
TH_API th_group_traffic th_group_traffic_so_far(const th_group *group);

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_group_new(...) TH_AT_POINTER(th_group, th_group_new(__VA_ARGS__))
#define th_group_agree(...) TH_AT_STATUS(th_group_agree(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
