/* The tape: nodes in the order in which calls were recorded, the values that they saved, and the open scopes. It uses
 * operations only through the interface in tapehead/op.h. frame.h turns a node back into a call; gradient.h has the
 * gradients; step.c clears the tape. */
#ifndef TH_AUTOGRAD_TAPE_H
#define TH_AUTOGRAD_TAPE_H

#include "private_api.h"
#include "tapehead/op.h"
#include "tapehead/tape.h"
#include "tensor/tensor.h"

/* How a node saves an operand for its backward. */
typedef enum th_saved {
    TH_SAVED_NOT,
    TH_SAVED_HELD,      /* the node holds the storage */
    TH_SAVED_RECOMPUTED /* the node that produced the storage runs again when the value is needed */
} th_saved;

typedef struct th_operand_record {
    th_tensor_impl *tensor; /* NULL: an optional input left out, or an output that was not requested */
    th_saved saved;
    uint32_t version;       /* of the storage when the call was recorded */
    bool read;              /* backward reads it; an operand saved but not read is only for running forward again */
    bool requires_gradient; /* of an input, when the call was recorded: if false, nothing was saved for its gradient */
} th_operand_record;

/* One recorded call of an operation. */
typedef struct th_node {
    const th_op *op;
    void *attributes;
    int n_inputs, n_outputs;
    th_operand_record *operand; /* inputs, then outputs */
    th_random_call random;
    /* For a view that contains elements more than once, and so has its own gradient buffer: backward adds this gradient
     * to the base's gradient, with these strides. Otherwise NULL. */
    const th_gradient_view *repeating_view;
    th_precision precision; /* of matrix products when the call was recorded; backward uses it too */
    bool training;
    bool drops_results; /* they are recomputed in backward, unless th_keep_values is on */
    bool consumed;      /* backward has run and released the saved values */
    bool recomputed;    /* an output was recomputed, and its memory is held until this node's own backward */
    bool wanted;        /* in the current pass: a gradient is wanted for this node or for one that it depends on */
    int line;
    const char *path, *file;
    int64_t first_contributor;    /* no node before this index contributes to this node's value or gradient */
    struct th_node *waiting_node; /* in th_recompute_storage: the node that needs this node's value next, or NULL */
    th_storage *missing_value;    /* in th_recompute_storage: the value that it needs */
} th_node;

enum { TH_MAX_SCOPES = 64 };

typedef struct th_scope {
    int64_t first_tensor;   /* index in ctx->step_tensors of the first tensor created in the scope */
    const char *outer_path; /* ctx->scope_path when the scope was opened */
    void *owner;            /* the module whose forward opened the scope, or NULL */
    void (*on_close)(void *owner);
    int no_grad_depth;      /* when the scope was opened */
    bool recompute_outside; /* ctx->recompute when the scope was opened */
    int64_t first_node;     /* recorded in the scope */
} th_scope;

/* The backward passes through the tape, for exporters, which must know where the gradients come from. */
typedef struct th_tape_passes {
    int64_t count;               /* that succeeded */
    const th_tensor_impl *start; /* of the last one: the tensor that was differentiated */
    bool requested;              /* the last one computed the gradients of wrt only */
    bool added;                  /* one of them added to a leaf's gradient that existed before the pass */
    bool failed;                 /* another pass failed, which released the gradients of all results */
} th_tape_passes;

typedef struct th_tape {
    th_pool nodes;
    th_pool storages; /* th_storage: of gradients of results */
    th_bump names;    /* th_label and name of tensors of the step (th_set_name) */
    th_bump records;  /* attributes, operand records, paths, gradient buffers and their regions */
    th_scope scope[TH_MAX_SCOPES];
    th_tape_passes passes;
    char finding[1024];  /* of tracing, or "" */
    bool finding_is_old; /* it is from the previous step */
} th_tape;

/* -- the tape and its nodes (tape.c) -- */
/* Returns the context's tape, allocated at the first call; NULL with TH_ERROR_MEMORY. */
th_tape *th_tape_of(th_context *ctx, const char *operation);
static inline th_node *th_node_at(const th_tape *tape, int64_t index)
{
    return th_pool_at(&tape->nodes, index);
}
static inline th_operand_record *th_node_input(const th_node *node, int i)
{
    return &node->operand[i];
}
static inline th_operand_record *th_node_output(const th_node *node, int i)
{
    return &node->operand[node->n_inputs + i];
}
/* Releases the values that a node saved, and marks it consumed. */
void th_node_release_saved(th_context *ctx, th_node *node);
/* Fails if the saved value was changed after the call was recorded. */
th_status th_check_saved_version(th_context *ctx, const th_node *node, const th_operand_record *record);

/* -- the memory of saved values (saved_bytes.c) -- */
/* Returns the bytes of the step's memory that this node saves and no earlier node saves. With held, counts the values
 * that the nodes hold now. Otherwise counts the values that their backward reads. Visits all earlier nodes. */
size_t th_node_saved_bytes(const th_tape *tape, int64_t index, bool held);

/* -- recomputation (recompute.c) -- */
/* Runs the node that produced a dropped storage again, so that the storage has its bytes back. */
th_status th_recompute_storage(th_context *ctx, th_storage *storage, const char *operation);
/* Releases those outputs of a node that were recomputed. */
void th_node_drop_recomputed(th_context *ctx, th_node *node);

/* -- scopes (scope.c) -- */
/* Opens a scope that belongs to `owner`. Returns false with an error pending; then no scope is open. */
bool th_scope_open(th_context *ctx, const char *name, void *owner, void (*on_close)(void *owner));
/* Closes the innermost scope of `owner`, and all scopes in it that are still open. Returns false without one. */
bool th_scope_close(th_context *ctx, const void *owner, th_tensor *const *results, int count);
/* Closes all open scopes, except those outside the forward that th_module_forward is running. */
void th_scopes_close(th_context *ctx);

/* -- marks in a step (step.c) -- */
/* A point in the step. th_step_rewind ends everything created after it, and nothing before it. */
typedef struct th_step_mark {
    int64_t tensors;
    th_bump_mark records;
} th_step_mark;
TH_PRIVATE_API th_step_mark th_step_get_mark(const th_context *ctx);
/* Ends all tensors of the step created after the mark, even with th_keep_values. The caller guarantees that nothing was
 * recorded since, and that the same scopes are open. The handles of these tensors are used again, so no code outside
 * the library may hold one. */
TH_PRIVATE_API void th_step_rewind(th_context *ctx, th_step_mark mark);

#endif
