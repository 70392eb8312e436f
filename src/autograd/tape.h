/* The tape from inside: nodes in the order they were recorded, and what backward needs besides. It walks the operation
 * interface and names no operation. */
#ifndef TH_AUTOGRAD_TAPE_H
#define TH_AUTOGRAD_TAPE_H

#include "private_api.h"
#include "tapehead/op.h"
#include "tapehead/tape.h"
#include "tensor/tensor.h"

/* How a node keeps an operand for its backward. */
typedef enum th_saved {
    TH_SAVED_NOT,
    TH_SAVED_HELD,      /* the node holds the storage */
    TH_SAVED_RECOMPUTED /* the storage's producer runs once more when it is needed */
} th_saved;

typedef struct th_operand_record {
    th_tensor_impl *tensor; /* NULL: an input left out, an output nobody asked for */
    th_saved saved;
    uint32_t version;       /* of the storage, when recorded */
    bool read;              /* by its backward; what is saved and not read is for running its forward again */
    bool requires_gradient; /* of an input, when recorded: otherwise nothing was saved for its gradient */
} th_operand_record;

typedef struct th_node {
    const th_op *op;
    void *attributes;
    int n_inputs, n_outputs;
    th_operand_record *operand; /* inputs, then outputs */
    th_random_call random;
    const th_part *repeats; /* of a view that repeats elements, which has a gradient of its own: the part of its base's
                               that this is added to */
    th_precision precision; /* of products when it was recorded: of those in its backward, too */
    bool training;
    bool consumed;   /* backward has been through and its saved values are given back */
    bool recomputed; /* some output was, and waits for this node's own backward */
    bool wanted;     /* in the current backward: a gradient is wanted of something below */
    int line;
    const char *path, *file;
    int64_t lowest;          /* no node before this one has a part in its value or its gradient */
    struct th_node *waiting; /* th_recompute: the node that needs this one's value first, or NULL */
    th_storage *missing;     /* and which value */
} th_node;

/* A backward pass (autograd/pass.h). */
typedef struct th_pass th_pass;

enum { TH_MAX_SCOPES = 64 };

typedef struct th_scope {
    int64_t first_handle; /* of the step's pool */
    const char *path;     /* outside it */
    void *owner;          /* a module whose forward it is, else NULL */
    void (*closed)(void *owner);
    int no_grad_depth;      /* when it was opened */
    bool recompute_outside; /* the context's, when it was opened */
    int64_t first_node;     /* recorded in it */
} th_scope;

typedef struct th_tape {
    th_pool nodes;
    th_pool storages; /* th_storage: of gradients of results */
    th_bump bytes;    /* attributes, operand records, paths, places of gradients and their regions */
    th_scope scope[TH_MAX_SCOPES];
    char finding[1024];  /* of tracing; "" when there is none */
    bool finding_is_old; /* it stems from the step before */
} th_tape;

/* A scope that belongs to somebody. False, and nothing is open, when there can be none: the error is stored. */
bool th_scope_open(th_context *ctx, const char *name, void *owner, void (*closed)(void *owner));
/* Closes the innermost scope of owner, with those that were left open in it; false when none is open. */
bool th_scope_close(th_context *ctx, const void *owner, th_tensor *const *results, int count);

/* Closes what was left open outside every forward that th_module_forward is running. */
void th_scopes_close(th_context *ctx);

/* How far the step had come at some time: what was made since can go, without the rest of the step. */
typedef struct th_step_mark {
    int64_t tensors;
    th_bump_mark bytes;
} th_step_mark;
TH_PRIVATE_API th_step_mark th_step_mark_now(const th_context *ctx);
/* Ends all tensors of the step made since, whatever th_keep_values says. Nothing was recorded meanwhile, and the scopes
 * that were open are. Their handles come again: nobody outside the library may have been given one. */
TH_PRIVATE_API void th_step_rewind(th_context *ctx, th_step_mark mark);

/* The context's tape, made when first needed; NULL with TH_ERROR_MEMORY. */
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
/* Gives back what a node saved. */
void th_node_release(th_context *ctx, th_node *node);
/* Gives back those of its outputs that were recomputed. */
void th_node_drop_recomputed(th_context *ctx, th_node *node);

/* Brings back the dropped bytes of a storage: what produced it runs once more. */
th_status th_recompute(th_context *ctx, th_storage *storage, const char *operation);
th_status th_check_version(th_context *ctx, const th_node *node, const th_operand_record *record);

#endif
