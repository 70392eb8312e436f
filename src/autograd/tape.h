/* The tape from inside: nodes in the order they were recorded, and what backward needs besides. It walks the operation
 * interface and names no operation. */
#ifndef TH_AUTOGRAD_TAPE_H
#define TH_AUTOGRAD_TAPE_H

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
    th_body *tensor; /* NULL: an input left out, an output nobody asked for */
    th_saved saved;
    uint32_t version;       /* of the storage, when recorded */
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
    bool training;
    bool bfloat16;   /* products were rounded when it was recorded: they are in its backward, too */
    bool consumed;   /* backward has been through and its saved values are given back */
    bool recomputed; /* output 0 was, and waits for this node's own backward */
    bool wanted;     /* in the current backward: a gradient is wanted of something below */
    int line;
    const char *path, *file;
    int64_t lowest;          /* no node before this one has a part in its value or its gradient */
    struct th_node *waiting; /* th_recompute: the node that needs this one's value first, or NULL */
} th_node;

/* A backward pass (autograd/pass.h). */
typedef struct th_pass th_pass;

enum { TH_MAX_SCOPES = 64 };

typedef struct th_scope {
    int64_t first_handle; /* of the step's pool */
    const char *path;     /* outside it */
    void *owner;          /* a module whose forward it is, else NULL */
    void (*closed)(void *owner);
    int no_grad_depth; /* when it was opened */
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

/* -- a call being made, with room for the usual number of operands -- */
typedef struct th_frame {
    th_call call;        /* first: shape rules get a pointer to it */
    const th_node *node; /* that the call comes from; NULL while it is being made */
    int64_t view_offset;
    uint32_t declared;    /* outputs that the shape rule declared */
    bool drawn;           /* it has drawn its random numbers */
    size_t scratch_bytes; /* that its plan has reserved */
    size_t scratch_end;   /* where its next reservation lies */
    th_body **operand;    /* [n_inputs] of a call being made */
    th_body *own_operand[TH_MAX_INPUTS];
    th_array input[TH_MAX_INPUTS], output[TH_MAX_OUTPUTS], output_gradient[TH_MAX_OUTPUTS],
        input_gradient[TH_MAX_INPUTS];
    bool add[TH_MAX_INPUTS];
} th_frame;

/* -- what every operation must keep to (autograd/descriptor.c); a sentence for each breach -- */
th_status th_check_descriptor(th_context *ctx, const th_op *op);
th_status th_check_attributes(th_context *ctx, const th_op *op, const void *attributes);
/* Runs the shape rule and checks what it declares. */
th_status th_frame_shape(th_frame *frame);
/* Whether a mask of TH_INPUT bits names input i of an operation. */
static inline bool th_op_names(const th_op *op, uint32_t mask, int i)
{
    return op->n_inputs == TH_ANY_INPUTS ? (mask & ((1u << TH_MAX_INPUTS) - 1)) != 0 : mask >> i & 1;
}

/* A frame for an operation with n inputs, nothing given yet. */
th_status th_frame_init(th_frame *frame, th_context *ctx, th_tape *tape, const th_op *op, int n_inputs,
                        void *attributes);
/* A frame of a recorded node: geometry of all operands, no data. */
th_status th_frame_of_node(th_frame *frame, th_context *ctx, const th_node *node);
/* Runs forward or backward of a filled frame: scratch, contiguous copies where the operation wants them. */
th_status th_frame_run(th_frame *frame, bool backward);
/* A temporary of the step with the geometry of `like`, contiguous. NULL with TH_ERROR_MEMORY. */
th_block *th_contiguous_temporary(th_context *ctx, const th_array *like, th_array *temporary, const char *operation);

/* -- recording a call (autograd/record.c) -- */
/* Whether it is to be recorded; false with an error, too. */
bool th_record_wanted(th_context *ctx, const th_op *op, int n, th_body *const *inputs);
/* What backward of a node whose inputs are these has to find: TH_SAVE_* bits. */
uint32_t th_record_saves(const th_op *op, int n, th_body *const *inputs);
/* Writes the node of a call that has been run. */
th_status th_record(th_frame *frame, th_tape *tape, int n, th_body *const *inputs, th_body *const *outputs,
                    uint32_t saved);

/* -- gradients that a forward computes (autograd/early.c) -- */
/* Before a forward that will be recorded: offers it the memory of its early gradients, if all that are wanted can be.
 */
th_status th_early_offer(th_frame *frame, int n, th_body *const *inputs);
/* After it was recorded as this node: what it wrote there stands until somebody else takes the memory. */
void th_early_claim(const th_frame *frame, int n, th_body *const *inputs, int64_t node);
/* Whether all that the pass wants of it still stands. */
bool th_early_stands(const th_pass *pass, const th_node *node);
/* At a clear. */
void th_early_forget(const th_node *node);

/* Brings back the dropped bytes of a storage: what produced it runs once more. */
th_status th_recompute(th_context *ctx, th_storage *storage, const char *operation);
th_status th_check_version(th_context *ctx, const th_node *node, const th_operand_record *record);

/* -- tracing (autograd/trace.c) -- */
/* Notes the finding if an output of the call (an input gradient, in backward) is not finite. node may be NULL (not
 * recorded). */
void th_trace_call(th_frame *frame, const th_node *node, bool backward);

#endif
