/* Groups of processes: exchanging bytes, and agreeing on errors. src/training uses them for steps of an optimizer. */
#ifndef TH_PROCESSES_GROUP_H
#define TH_PROCESSES_GROUP_H

#include "private_api.h"
#include "tapehead/group.h"
#include "tensor/context_struct.h"

struct th_group {
    th_context *ctx;
    th_transport transport; /* of a group of one process: rank 0, size 1, no exchange */
    double timeout_seconds; /* how long an exchange may wait without progress */
    bool stop_requested;    /* this process requests the end */
    bool stop_agreed;       /* as of the last agreement: a process requested the end */
    bool failed;            /* an exchange failed: the processes may have received different bytes */
    bool freed;
    th_group_traffic traffic;
};

/* Returns whether the group has more than one process. NULL is a group of one. */
static inline bool th_group_is_shared(const th_group *g)
{
    return g && g->transport.size > 1;
}

/* Runs one exchange of the transport. Errors: TH_ERROR_PROCESS. */
TH_PRIVATE_API th_status th_group_exchange(th_group *g, const char *operation, const th_message *send, int n_send,
                                           const th_message *receive, int n_receive);
/* Gathers blocks of `bytes` bytes: all [size] has the block of every process, in the order of the ranks. The caller has
 * put this process's block there. Does nothing in a group of one. */
th_status th_group_all_gather(th_group *g, const char *operation, void *all, size_t bytes);

/* A value that all processes must share. */
typedef struct th_fact {
    const char *name; /* "learning rate" */
    enum { TH_FACT_INTEGER, TH_FACT_REAL, TH_FACT_CHECKSUM } kind;
    union {
        int64_t integer; /* also a checksum */
        double real;
    };
} th_fact;
enum { TH_MAX_FACTS = 16 };

/* Collective: agrees on an error, as th_group_agree does. If no process has an error, compares facts: TH_ERROR_STATE
 * names the first process with a fact that differs from rank 0's fact. All processes list the same facts. If `equal` is
 * not NULL, *equal becomes true if all processes passed the same note, else false. */
TH_PRIVATE_API th_status th_group_agree_on(th_group *g, const char *operation, const th_fact *facts, int n_facts,
                                           uint64_t note, bool *equal);

#endif
