/* A frame: a th_call with memory for its operands. It exists while the driver makes a call (apply.c), runs it
 * (call.c), records it (record.c) or runs the backward of its node (backward.c). */
#ifndef TH_AUTOGRAD_FRAME_H
#define TH_AUTOGRAD_FRAME_H

#include "autograd/tape.h"

/* The scratch memory that a plan reserves. */
typedef struct th_scratch {
    size_t bytes; /* reserved */
    size_t end;   /* offset of the next reservation */
} th_scratch;

typedef struct th_frame {
    th_call call;        /* first: shape rules and kernels get a pointer to it */
    const th_node *node; /* the recorded node of the call; NULL while the call is being made */
    void *attributes;    /* call.attributes, which a shape rule may change */
    int64_t view_offset;
    uint32_t declared; /* bits 1 << i of the outputs that the shape rule declared */
    bool drawn;        /* the call has drawn its random numbers */
    th_scratch scratch_memory;
    th_scratch *scratch;      /* &scratch_memory: a plan gets a const th_call and reserves through this pointer */
    th_tensor_impl **operand; /* [n_inputs] of a call that is being made */
    /* memory for the usual number of operands */
    th_tensor_impl *own_operand[TH_MAX_INPUTS];
    th_array input[TH_MAX_INPUTS], output[TH_MAX_OUTPUTS], output_gradient[TH_MAX_OUTPUTS],
        input_gradient[TH_MAX_INPUTS];
    bool add[TH_MAX_INPUTS];
} th_frame;

/* The reservations of a plan while an operation is checked (checker/check_op_guard.c). Unused memory follows each
 * one. */
enum { TH_MAX_RESERVATIONS = 64 };
typedef struct th_scratch_map {
    int count;
    struct {
        size_t offset, bytes;
    } reservation[TH_MAX_RESERVATIONS];
} th_scratch_map;

/* -- checks of an operation (descriptor.c); each failure has an error message -- */
th_status th_check_descriptor(th_context *ctx, const th_op *op);
th_status th_check_attributes(th_context *ctx, const th_op *op, const void *attributes);
/* Runs the shape rule and checks the outputs that it declares. */
th_status th_frame_run_shape_rule(th_frame *frame);
/* Returns whether a mask of TH_INPUT bits contains input i of an operation. */
static inline bool th_op_mask_has(const th_op *op, uint32_t mask, int i)
{
    return op->n_inputs == TH_ANY_INPUTS ? (mask & ((1u << TH_MAX_INPUTS) - 1)) != 0 : mask >> i & 1;
}

/* -- frames (call.c) -- */
/* Initializes a frame for an operation with n inputs; no operand is given yet. */
th_status th_frame_init(th_frame *frame, th_context *ctx, th_tape *tape, const th_op *op, int n_inputs,
                        void *attributes);
/* Initializes a frame of a recorded node: shapes and strides of all operands, no data. */
th_status th_frame_init_from_node(th_frame *frame, th_context *ctx, const th_node *node);
/* Gives the frame of a node the operands that backward reads; their values must exist. Fails if one was changed after
 * the call was recorded. */
th_status th_frame_read_operands(th_frame *frame);
/* Returns the number of multiply-adds of a node's forward; 0 if its operation does not define it. */
int64_t th_node_multiply_adds(th_context *ctx, const th_node *node);
/* Runs forward or backward: plans, allocates scratch memory, copies operands that must be contiguous. */
th_status th_frame_run(th_frame *frame, bool backward);
/* Allocates a contiguous array with the shape of `like` from the step's memory. NULL with TH_ERROR_MEMORY. */
th_block *th_allocate_temporary(th_context *ctx, const th_array *like, th_array *temporary, const char *operation);

/* Records a call that has run (record.c). saved: TH_INPUT and TH_OUTPUT bits of the operands that its backward
 * reads. */
th_status th_record_call(th_frame *frame, th_tape *tape, int n, th_tensor_impl *const *inputs,
                         th_tensor_impl *const *outputs, uint32_t saved);

/* Stores a finding if an output of the call (in backward, an input gradient) is not finite (trace.c). node: NULL if the
 * call is not recorded. */
void th_trace_call(th_frame *frame, const th_node *node, bool backward);

#endif
