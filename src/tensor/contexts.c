/* The contexts that live in this process, by number. A handle carries its context's number, and each thread keeps that
 * of the context it used last, so that neither can lead into one that has been freed. Threads share nothing else but
 * what kernels/machine/team.c counts and OpenBLAS. Nothing here is locked but adding, removing, and the rare error that is
 * stored in a context which another thread may be freeing. */
#include "kernels/machine/locks.h"
#include "tensor/context.h"
#include "tensor/handle.h"

/* How many can live at once: the context with number n has place n % TH_MAX_CONTEXTS. */
enum { TH_MAX_CONTEXTS = 4096 };

typedef struct place {
    _Atomic uint32_t number; /* 0: empty */
    _Atomic(th_context *) ctx;
} place;

static place places[TH_MAX_CONTEXTS];
static uint32_t last_number; /* that was given out; under the lock */

bool th_contexts_add(th_context *ctx)
{
    const th_held_lock held = th_lock_take(TH_LOCK_CONTEXTS);
    bool found = false;
    for (int tries = 0; tries < TH_MAX_CONTEXTS && !found; tries++) {
        last_number = last_number < TH_HANDLE_FIRST_CONTEXT || last_number == TH_HANDLE_LAST_CONTEXT
                          ? TH_HANDLE_FIRST_CONTEXT
                          : last_number + 1;
        place *p = &places[last_number % TH_MAX_CONTEXTS];
        found = atomic_load_explicit(&p->number, memory_order_relaxed) == 0;
        if (found) {
            ctx->number = last_number;
            atomic_store_explicit(&p->ctx, ctx, memory_order_relaxed);
            atomic_store_explicit(&p->number, last_number, memory_order_release);
        }
    }
    th_lock_release(&held);
    return found;
}

void th_contexts_remove(th_context *ctx)
{
    const th_held_lock held = th_lock_take(TH_LOCK_CONTEXTS);
    atomic_store_explicit(&places[ctx->number % TH_MAX_CONTEXTS].number, 0, memory_order_relaxed);
    th_lock_release(&held);
}

th_context *th_contexts_find(uint32_t number)
{
    place *p = &places[number % TH_MAX_CONTEXTS];
    if (number == 0 || atomic_load_explicit(&p->number, memory_order_acquire) != number)
        return NULL;
    return atomic_load_explicit(&p->ctx, memory_order_relaxed);
}
