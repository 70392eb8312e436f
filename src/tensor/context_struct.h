/* The fields of a context. Use the functions of tensor/context.h instead, if one exists. */
#ifndef TH_TENSOR_CONTEXT_STRUCT_H
#define TH_TENSOR_CONTEXT_STRUCT_H

#include <stdatomic.h>

#include "kernels/kernels.h"
#include "kernels/machine/machine.h"
#include "tapehead/context.h"
#include "tapehead/op.h"
#include "tensor/block_allocator.h"
#include "tensor/pool.h"

enum { TH_MAX_THREADS = 1024, TH_MESSAGE_SIZE = 1024, TH_LOCATION_SIZE = 256 };

/* The random streams. Drawing from one stream does not change the numbers of another. */
typedef enum th_stream {
    TH_STREAM_DROPOUT,
    TH_STREAM_DATA,
    TH_STREAM_INITIALIZATION,
    TH_STREAM_COUNT, /* the streams above count their calls */

    TH_STREAM_GENERATION = TH_STREAM_COUNT /* th_generate uses it with its own seeds */
} th_stream;

struct th_tensor_impl;

/* Functions that the gradient checker registers while it runs a function (checker/run.c). */
typedef struct th_watch {
    /* Called before an operation reads t, for every operand. */
    void (*before_read)(struct th_tensor_impl *t, void *user);
    /* Called for a new tensor t that is not the result of an operation. */
    void (*after_create)(struct th_tensor_impl *t, void *user);
    /* Called when the function frees t, which existed before the check. t is kept until the check ends. */
    void (*on_free)(struct th_tensor_impl *t, void *user);
    void *user;
} th_watch;

/* The numbers of open scopes and of open th_no_grad_begin. */
typedef struct th_depths {
    int scopes, no_grad;
} th_depths;

/* The memory of freed modules and optimizers, oldest first (th_quarantine, tensor/memory.h). */
enum { TH_QUARANTINE_OBJECTS = 256, TH_QUARANTINE_BYTES = 1 << 20 };

typedef struct th_quarantined {
    struct {
        void *memory;
        size_t bytes;
    } object[TH_QUARANTINE_OBJECTS]; /* a ring buffer */
    size_t first, count;             /* index of the oldest object; number of objects */
    size_t bytes;                    /* of all objects together */
} th_quarantined;

struct th_context {
    uint32_t number;                   /* unique in the process (tensor/contexts.h) */
    _Atomic(const void *) last_thread; /* identifies the thread that used the context last (tensor/error.c) */
    th_context_options options;
    th_machine machine;
    double precision_time[TH_PRECISION_INT8 + 1]; /* th_precision_time; 0: not measured */
    int threads;
    th_dtype default_dtype;

    /* the first error */
    th_status error;
    char message[TH_MESSAGE_SIZE];      /* with the location */
    char message_text[TH_MESSAGE_SIZE]; /* without the location */
    char location[TH_LOCATION_SIZE];
    char build_info[256];

    /* mode */
    bool training, fusion, keep_values, tracing, profiling;
    int no_grad_depth, no_grad_at_clear;
    bool recompute;           /* inside a scope whose values are recomputed in backward instead of saved */
    bool recompute_blocks;    /* th_recompute_blocks */
    bool (*stop)(void *user); /* th_set_stop; NULL: nothing stops the step */
    void *stop_user;
    bool stopped; /* stop returned true */

    /* random state */
    uint64_t seed;
    int64_t step;
    uint32_t calls[TH_STREAM_COUNT]; /* calls of each stream in the current step */
    uint32_t calls_at_clear;         /* dropout calls at the last th_tape_clear that ended a step without an error */
    int shard;                       /* of the current step (th_shard); 0 outside its loop */
    uint64_t backward_count;         /* number of backward passes that added to gradients of leaves */
    uint64_t module_additions;       /* number of parameters and members that were added to modules */
    bool step_failed;                /* true from an error until the next backward or th_tape_clear */

    /* memory */
    size_t reserved, reserved_peak;  /* bytes taken from the allocator: now, and the maximum */
    size_t allocations;              /* number of calls of the allocator */
    size_t live_other;               /* bytes in use outside step_memory and owned_memory */
    size_t mapped;                   /* bytes in live_other that mapped files provide */
    size_t peak;                     /* maximum of all bytes in use */
    size_t refused_bytes;            /* of the last request if it exceeded the memory limit, else 0 */
    th_block_allocator step_memory;  /* values, gradients, saved results of the current step */
    th_block_allocator owned_memory; /* tensors that the user owns */
    bool skip_initialization;        /* a new module does not initialize large weights, because they will be read */
    bool defer_matrix_memory;        /* a new parameter with two or more axes has no memory yet */
    size_t expected_adapter_bytes;   /* capacity of the next block of adapters, which are about to be created; else 0 */
    struct th_parameter_block *parameter_blocks;
    struct th_parameter_entry *moving_entries; /* the entries with a successor: a list (tensor/parameter.h) */
    th_quarantined quarantine;

    /* tensors */
    th_pool step_tensors, owned_tensors;
    uint64_t ended_step_tensors; /* number of step tensors in all steps that th_tape_clear has ended */
    struct th_tensor_impl *owned_free_first, *owned_free_last; /* unused owned implementations, reused oldest first */
    struct th_tensor_impl *free_at_clear; /* owned tensors that were freed while the tape used them */

    const th_op *running_op; /* its shape rule, forward or backward runs now; it may not run other operations */

    bool in_step;           /* th_step_begin was called: the tape owns created tensors */
    int scope_depth;        /* number of open scopes */
    int owned_depth;        /* number of scopes that the caller of th_check_op has open; else 0. At this depth, and
                              outside th_step_begin, the user owns created tensors. */
    th_depths outer_depths; /* when th_module_forward or a gradient check began; th_tape_clear restores these depths */
    const char *scope_path; /* dotted names of the open scopes; "" outside */
    const th_watch *watch;  /* NULL except while the gradient checker runs a function */
    struct th_scratch_map *scratch_map; /* NULL except while the checker records a plan's reservations */
    struct th_tape *tape;               /* autograd/tape.h; created with the first scope or node */
    struct th_profile *profile;         /* autograd/profile.h; created with the first profile */
    struct th_attachment *attachments;  /* tensor/attachment.h */
    uint64_t last_object_number;        /* in the last handle of an attachment */
};

#endif
