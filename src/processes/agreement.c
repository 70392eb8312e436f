/* Agreement: all processes of a group learn the first error of any of them, and whether their facts are equal. */
#include <stdlib.h>
#include <string.h>

#include "processes/group.h"
#include "tensor/error.h"
#include "tensor/format.h"
#include "tensor/memory.h"

/* What a process tells the others in every agreement. */
typedef struct record {
    char operation[32];
    int32_t status, stop;
    uint64_t fact[TH_MAX_FACTS], note;
} record;

/* An error, as one process tells it to the others. */
typedef struct error_text {
    char text[TH_MESSAGE_SIZE], location[TH_LOCATION_SIZE];
} error_text;

/* -- errors -- */

/* Returns whether the text of an error names a rank, because it came from an earlier agreement. */
static bool names_rank(const char *text)
{
    int rank, length = 0;
    return sscanf(text, "rank %d: %n", &rank, &length) == 1 && length > 0;
}

/* Sends the error of process `rank` to all others, which store it. */
static th_status share_error(th_group *g, const char *operation, int rank, th_status status)
{
    th_context *ctx = g->ctx;
    const int size = g->transport.size, own = g->transport.rank;
    error_text error = {"", ""};
    if (own == rank) {
        if (!names_rank(ctx->message_text))
            th_append(error.text, sizeof error.text, "rank %d: ", rank);
        th_append(error.text, sizeof error.text, "%s", ctx->message_text);
        th_append(error.location, sizeof error.location, "%s", ctx->location);
        for (int peer = 0; peer < size; peer++)
            if (peer != own &&
                th_group_exchange(g, operation, &(th_message){peer, &error, sizeof error}, 1, NULL, 0) != TH_OK)
                break;
    } else if (th_group_exchange(g, operation, NULL, 0, &(th_message){rank, &error, sizeof error}, 1) != TH_OK) {
        return ctx->error;
    }
    error.text[sizeof error.text - 1] = error.location[sizeof error.location - 1] = 0;
    th_error_set(ctx, status, error.text, error.location);
    return ctx->error;
}

/* -- facts -- */

static const char *format_fact(const th_fact *fact, uint64_t bits, char text[40])
{
    double real;
    text[0] = 0;
    memcpy(&real, &bits, sizeof real);
    if (fact->kind == TH_FACT_INTEGER)
        th_append(text, 40, "%lld", (long long)bits);
    else if (fact->kind == TH_FACT_REAL)
        th_append(text, 40, "%.17g", real);
    else
        th_append(text, 40, "%08llx", (unsigned long long)bits);
    return text;
}

static th_status compare_facts(const th_group *g, const record *all, const char *operation, const th_fact *facts,
                               int n_facts)
{
    char theirs[40], first[40];
    for (int rank = 1; rank < g->transport.size; rank++) {
        if (memcmp(all[rank].operation, all[0].operation, sizeof all->operation) != 0)
            return th_fail(g->ctx, TH_ERROR_PROCESS, operation, "rank 0 calls %.31s, but rank %d calls %.31s",
                           all[0].operation, rank, all[rank].operation);
        for (int i = 0; i < n_facts; i++)
            if (all[rank].fact[i] != all[0].fact[i])
                return th_fail(g->ctx, TH_ERROR_STATE, operation,
                               "the processes differ: the %s is %s on rank 0, but %s on rank %d", facts[i].name,
                               format_fact(&facts[i], all[0].fact[i], first),
                               format_fact(&facts[i], all[rank].fact[i], theirs), rank);
    }
    return TH_OK;
}

/* -- agreement -- */

static record own_record(const th_group *g, const char *operation, const th_fact *facts, int n_facts, uint64_t note)
{
    record own = {.status = (int32_t)g->ctx->error, .stop = g->stop_requested, .note = note};
    th_append(own.operation, sizeof own.operation, "%s", operation);
    for (int i = 0; i < n_facts; i++)
        memcpy(&own.fact[i], &facts[i].integer, sizeof own.fact[i]);
    return own;
}

static th_status evaluate_records(th_group *g, const record *all, const char *operation, const th_fact *facts,
                                  int n_facts)
{
    const int size = g->transport.size;
    g->stop_agreed = false;
    for (int rank = 0; rank < size; rank++)
        g->stop_agreed |= all[rank].stop != 0;
    for (int rank = 0; rank < size; rank++)
        if (all[rank].status != TH_OK)
            return share_error(g, operation, rank, (th_status)all[rank].status);
    return compare_facts(g, all, operation, facts, n_facts);
}

th_status th_group_agree_on(th_group *g, const char *operation, const th_fact *facts, int n_facts, uint64_t note,
                            bool *equal)
{
    th_context *ctx = g->ctx;
    if (equal)
        *equal = true;
    if (!th_group_is_shared(g) || (g->failed && ctx->error))
        return ctx->error;
    const int size = g->transport.size;
    /* (not the context's memory: an agreement must be possible when that is used up) */
    record few[16], *all = size <= 16 ? few : malloc((size_t)size * sizeof *all);
    if (all == NULL) {
        g->failed = true;
        return th_fail_memory(ctx, operation, (size_t)size * sizeof *all);
    }
    memset(all, 0, (size_t)size * sizeof *all);
    all[g->transport.rank] = own_record(g, operation, facts, n_facts, note);
    th_status status = th_group_all_gather(g, operation, all, sizeof *all);
    if (status == TH_OK)
        status = evaluate_records(g, all, operation, facts, n_facts);
    for (int rank = 1; rank < size && equal; rank++)
        *equal &= all[rank].note == all[0].note;
    if (all != few)
        free(all);
    return status;
}

th_status th_group_agree(th_group *g)
{
    if (g == NULL)
        return th_last_error();
    if (g->freed)
        return th_fail(g->ctx, TH_ERROR_STATE, "group_agree", "the group has been freed");
    return th_group_agree_on(g, "group_agree", NULL, 0, 0, NULL);
}
