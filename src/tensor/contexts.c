/* The live contexts of the process, by number. A handle contains the number of its context, and each thread keeps the
 * number of the context that it used last. Looking up the number of a freed context gives NULL.
 *
 * Adding and removing take a lock. Looking up does not. */
#include "tensor/contexts.h"

#include "kernels/machine/locks.h"
#include "tensor/context_struct.h"
#include "tensor/handle_bits.h"

/* How many contexts can live at once. The context with number n uses slot n % TH_MAX_CONTEXTS. */
enum { TH_MAX_CONTEXTS = TH_HANDLE_FIRST_CONTEXT < 4096 ? TH_HANDLE_FIRST_CONTEXT : 4096 };

typedef struct slot {
    _Atomic uint32_t number; /* 0: the slot is free */
    _Atomic(th_context *) ctx;
} slot;

static slot slots[TH_MAX_CONTEXTS];
static uint32_t last_number; /* the last one given to a context; the lock protects it */

bool th_contexts_add(th_context *ctx)
{
    const th_held_lock held = th_lock_take(TH_LOCK_CONTEXTS);
    bool found = false;
    for (int tries = 0; tries < TH_MAX_CONTEXTS && !found; tries++) {
        last_number = last_number < TH_HANDLE_FIRST_CONTEXT || last_number == TH_HANDLE_LAST_CONTEXT
                          ? TH_HANDLE_FIRST_CONTEXT
                          : last_number + 1;
        slot *s = &slots[last_number % TH_MAX_CONTEXTS];
        found = atomic_load_explicit(&s->number, memory_order_relaxed) == 0;
        if (found) {
            ctx->number = last_number;
            atomic_store_explicit(&s->ctx, ctx, memory_order_relaxed);
            atomic_store_explicit(&s->number, last_number, memory_order_release);
        }
    }
    th_lock_release(&held);
    return found;
}

void th_contexts_remove(th_context *ctx)
{
    const th_held_lock held = th_lock_take(TH_LOCK_CONTEXTS);
    atomic_store_explicit(&slots[ctx->number % TH_MAX_CONTEXTS].number, 0, memory_order_relaxed);
    th_lock_release(&held);
}

th_context *th_contexts_find(uint32_t number)
{
    slot *s = &slots[number % TH_MAX_CONTEXTS];
    if (number == 0 || atomic_load_explicit(&s->number, memory_order_acquire) != number)
        return NULL;
    return atomic_load_explicit(&s->ctx, memory_order_relaxed);
}
