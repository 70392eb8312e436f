/* The context from inside: everything that has no other home hangs here. */
#ifndef TH_TENSOR_CONTEXT_H
#define TH_TENSOR_CONTEXT_H

#include <stdarg.h>
#include <stdatomic.h>

#include "kernels/kernels.h"
#include "kernels/machine/machine.h"
#include "private_api.h"
#include "tapehead/context.h"
#include "tapehead/op.h"
#include "tensor/block_allocator.h"
#include "tensor/pool.h"

enum { TH_MESSAGE_SIZE = 1024, TH_LOCATION_SIZE = 256 };

/* The random streams: what is drawn from one never moves another. */
typedef enum th_stream {
    TH_STREAM_DROPOUT,
    TH_STREAM_DATA,
    TH_STREAM_INITIALIZATION,
    TH_STREAM_COUNT,                       /* of those that count their calls */
    TH_STREAM_GENERATION = TH_STREAM_COUNT /* th_generate's, with seeds of its own */
} th_stream;

/* Something of an upper layer that lives as long as the context: tape, modules, optimizers. */
typedef struct th_attachment {
    void (*release)(th_context *ctx, void *object); /* called once by th_context_free, newest first */
    void *object;
    uint64_t number; /* in the object's handle; 0: no handle was requested */
    struct th_attachment *next;
} th_attachment;

struct th_tensor_impl;

/* What the gradient checker wants to hear while it runs a function (checker/run.c). */
typedef struct th_watch {
    void (*reads)(struct th_tensor_impl *t, void *user); /* before an operation reads t, any operand */
    void (*makes)(struct th_tensor_impl *t, void *user); /* t is new, and no result of an operation */
    void (*frees)(struct th_tensor_impl *t,
                  void *user); /* t, which was there before, is to be freed: it waits until the end */
    void *user;
} th_watch;

/* How deep scopes and th_no_grad_begin were nested where something began. */
typedef struct th_depths {
    int scopes, no_grad;
} th_depths;

/* The memory of modules and optimizers that were freed: it stays for a while, so that one used or freed once more is
 * recognized (th_quarantine). */
enum { TH_QUARANTINE_OBJECTS = 256, TH_QUARANTINE_BYTES = 1 << 20 };

typedef struct th_quarantined {
    struct {
        void *memory;
        size_t bytes;
    } object[TH_QUARANTINE_OBJECTS];
    size_t first, count, bytes; /* oldest; of all of them */
} th_quarantined;

struct th_context {
    uint32_t number;              /* among all that this process has made (tensor/contexts.c) */
    _Atomic(const void *) thread; /* that used it last (tensor/error.c) */
    th_context_options options;
    th_machine machine;
    int threads;
    th_dtype default_dtype;

    /* the first error */
    th_status error;
    char message[TH_MESSAGE_SIZE], message_text[TH_MESSAGE_SIZE]; /* with and without the location */
    char location[TH_LOCATION_SIZE];
    char build_info[256];

    /* mode */
    bool training, fusion, keep_values, tracing, profiling;
    int no_grad_depth, no_grad_at_clear;
    bool recompute; /* within a scope whose values are not kept but recomputed */

    /* randomness */
    uint64_t seed;
    int64_t step;
    uint32_t calls[TH_STREAM_COUNT]; /* calls within the step, per stream */
    uint32_t calls_at_clear; /* of the dropout stream, at the last clear that ended a step that had not failed */
    uint64_t backwards;      /* number of backwards that added to gradients of leaves */
    bool step_failed;        /* an error has occurred, and since then neither a backward nor a clear */

    /* memory */
    size_t reserved, reserved_peak, allocations; /* bytes from the allocator; its calls */
    size_t live_other, peak;                     /* bytes in use outside the allocators; in all, at most */
    size_t refused;                              /* bytes of the last request if it would have passed the limit */
    th_block_allocator step_memory;              /* values, gradients, saved results of the current step */
    th_block_allocator owned_memory;             /* tensors that the user owns */
    struct th_parameter_block *parameter_blocks;
    th_quarantined quarantine;

    /* handles */
    th_pool step_tensors, owned_tensors;
    uint64_t tensors_before;                                   /* tensors of the steps that th_tape_clear has ended */
    struct th_tensor_impl *owned_free_first, *owned_free_last; /* freed owned bodies, used again oldest first */
    struct th_tensor_impl *free_at_clear; /* owned tensors that were freed while the tape used them */

    const th_op *running; /* whose shape rule, forward or backward runs now: it may compute, but run no operation */

    bool in_step;          /* since th_step_begin: created tensors belong to the tape */
    int scope_depth;       /* open scopes; owned_depth of them: created tensors are the user's, unless in_step */
    int owned_depth;       /* 0, except within th_check_op, whose caller may have scopes open */
    th_depths around;      /* open when th_module_forward or a gradient check began, which alone closes them */
    const char *path;      /* dotted names of the open scopes; "" outside */
    const th_watch *watch; /* NULL except while the gradient checker runs a function */
    struct th_scratch_map *scratch_map; /* NULL except while the checker notes a plan's reservations */
    struct th_tape *tape;               /* autograd/tape.h; made with the first scope or node */
    struct th_profile *profile;         /* autograd/profile.h; made with the first profile */
    th_attachment *attachments;
    uint64_t objects; /* handles given to attachments so far */
};

/* -- errors (tensor/error.c) -- */
/* Stores the first error: "<operation>: <sentence>; at file:line". operation may be NULL. Returns code. */
TH_PRIVATE_API th_status th_fail(th_context *ctx, th_status code, const char *operation, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
th_status th_fail_arguments(th_context *ctx, th_status code, const char *operation, const char *format,
                            va_list arguments);
/* True when an error is pending. */
static inline bool th_failed(const th_context *ctx)
{
    return ctx->error != TH_OK;
}
/* This thread uses ctx. */
TH_PRIVATE_API void th_use_context(th_context *ctx);
/* The context this thread used last, for calls that were given no other; NULL if this thread used none, it has been freed,
 * or another thread has used it since. Under TH_LOCK_CONTEXTS, because another thread may free it. */
th_context *th_last_context(void);
/* The code of the error pending in that context; TH_OK without a context. */
th_status th_last_error(void);
/* th_fail in that context, if there is one. It may be freed by another thread at the same time. */
TH_PRIVATE_API th_status th_fail_last(th_status code, const char *operation, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The innermost location pushed by TH_AT; file NULL when there is none. */
void th_location(const char **file, int *line);
/* Checks the context of a function that was given one: not NULL (an error in the one used last), no error pending. */
TH_PRIVATE_API bool th_usable_context(th_context *ctx, const char *operation);

/* For what cannot be done while the gradient checker has changed a function's parameters under it: TH_ERROR_STATE then.
 */
static inline th_status th_refuse_in_check(th_context *ctx, const char *operation)
{
    return ctx->watch == NULL ? TH_OK
                              : th_fail(ctx, TH_ERROR_STATE, operation,
                                        "must not be called while the gradient of its caller is being checked");
}

/* -- the contexts that live (tensor/contexts.c) --
 *
 * While a thread holds TH_LOCK_CONTEXTS (kernels/machine/locks.h), no context is freed: for the rare use of one that another
 * thread may free. */
/* Gives ctx its number, which no other context of the process gets; false when too many live. */
bool th_contexts_add(th_context *ctx);
void th_contexts_remove(th_context *ctx);
/* The one with this number; NULL when it has been freed. */
th_context *th_contexts_find(uint32_t number);

/* -- memory (tensor/memory.c) -- */
th_chunk_source th_context_chunks(th_context *ctx);
/* Memory outside the allocators, counted and limited; NULL without setting an error when there is none. bytes is
 * rounded up to cache lines. */
TH_PRIVATE_API void *th_allocate(th_context *ctx, size_t bytes);
TH_PRIVATE_API void th_release(th_context *ctx, void *memory, size_t bytes);
/* To 64 bytes, as all memory of an allocator must be. */
static inline bool th_is_aligned(const void *memory)
{
    return (uintptr_t)memory % 64 == 0;
}
/* In place of th_release, for an object that says of itself that it has been freed: its memory is given back when so
 * many others have followed that it is no longer kept. */
TH_PRIVATE_API void th_quarantine(th_context *ctx, void *memory, size_t bytes);
void th_quarantine_end(th_context *ctx); /* gives all of it back */
/* Memory for numbers outside the allocators: counted and limited alike, but *memory is NULL in a shapes-only context. */
TH_PRIVATE_API th_status th_allocate_numbers(th_context *ctx, size_t bytes, void **memory, const char *operation);
TH_PRIVATE_API void th_release_numbers(th_context *ctx, void *memory, size_t bytes);
/* Counts memory that the C library or another library allocates for the context, within the context's memory_limit. */
TH_PRIVATE_API th_status th_count_memory(th_context *ctx, size_t bytes, const char *operation);
TH_PRIVATE_API void th_uncount_memory(th_context *ctx, size_t bytes);
/* A block of the step's or the owned memory; NULL with TH_ERROR_MEMORY set. */
th_block *th_take_block(th_context *ctx, th_block_allocator *allocator, size_t bytes, const char *operation);
TH_PRIVATE_API th_status th_fail_memory(th_context *ctx, const char *operation, size_t bytes);
/* Registers an object that th_context_free releases; false when memory is out. */
TH_PRIVATE_API bool th_attach(th_context *ctx, void *object, void (*release)(th_context *ctx, void *object));
TH_PRIVATE_API void th_detach_object(th_context *ctx, void *object); /* forgets it again */
/* The handle of an attached object: a number in the form of a pointer, like a tensor's, which no other object gets. */
void *th_object_handle(th_context *ctx, const void *object);
/* The object of a handle that was attached with this release; NULL once it was detached, or its context freed. */
void *th_object_of(const void *handle, void (*release)(th_context *ctx, void *object));
/* The context of a handle of an object; NULL when it has been freed. */
th_context *th_object_context(const void *handle);

/* -- randomness (tensor/random.c) -- */
/* The Philox key of a stream. */
TH_PRIVATE_API uint64_t th_stream_key(uint64_t seed, th_stream stream);
/* The next call of a stream. Evaluation moves none: what is drawn in evaluation does not come through here. */
th_random_call th_random_next(th_context *ctx, th_stream stream);
/* An optimizer step succeeded: the step count moves and calls start again. */
void th_random_step_done(th_context *ctx);
/* It was refused: the dropout calls go back to the start of the step, so that the repeated step draws the same numbers.
 */
void th_random_step_refused(th_context *ctx);

static inline const th_kernels *th_context_kernels(const th_context *ctx, th_dtype dtype)
{
    return th_kernels_for(&ctx->machine, dtype);
}

#endif
