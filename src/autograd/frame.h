/* A call of an operation from inside: what it is made of while it is made, run, recorded, or walked backward. */
#ifndef TH_AUTOGRAD_FRAME_H
#define TH_AUTOGRAD_FRAME_H

#include "autograd/tape.h"

/* With room for the usual number of operands. */
typedef struct th_frame {
    th_call call;        /* first: shape rules get a pointer to it */
    const th_node *node; /* that the call comes from; NULL while it is being made */
    int64_t view_offset;
    uint32_t declared;        /* outputs that the shape rule declared */
    bool drawn;               /* it has drawn its random numbers */
    size_t scratch_bytes;     /* that its plan has reserved */
    size_t scratch_end;       /* where its next reservation lies */
    th_tensor_impl **operand; /* [n_inputs] of a call being made */
    th_tensor_impl *own_operand[TH_MAX_INPUTS];
    th_array input[TH_MAX_INPUTS], output[TH_MAX_OUTPUTS], output_gradient[TH_MAX_OUTPUTS],
        input_gradient[TH_MAX_INPUTS];
    bool add[TH_MAX_INPUTS];
} th_frame;

/* The reservations of plans while an operation is checked (checker/check_op_guard.c). Unused memory follows each of
 * them. */
enum { TH_MAX_RESERVATIONS = 64 };
typedef struct th_scratch_map {
    int count;
    struct {
        size_t place, bytes;
    } reservation[TH_MAX_RESERVATIONS];
} th_scratch_map;

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

/* Writes the node of a call that has been run (autograd/record.c). saved: TH_INPUT and TH_OUTPUT bits of what its
 * backward has to find. */
th_status th_record(th_frame *frame, th_tape *tape, int n, th_tensor_impl *const *inputs,
                    th_tensor_impl *const *outputs, uint32_t saved);

/* -- gradients that a forward computes (autograd/precomputed.c), of an operation that names some as .early -- */
/* Before a forward that will be recorded: offers it the memory of its early gradients, if all that are wanted can be.
 */
th_status th_precomputed_offer(th_frame *frame, int n, th_tensor_impl *const *inputs);
/* After it was recorded as this node: what it wrote there stands until somebody else takes the memory. */
void th_precomputed_claim(const th_frame *frame, int n, th_tensor_impl *const *inputs, int64_t node);
/* Whether all that the pass wants of it still stands. */
bool th_precomputed_valid(const th_pass *pass, const th_node *node);
/* At a clear. */
void th_precomputed_discard(const th_node *node);

/* -- tracing (autograd/trace.c) -- */
/* Notes the finding if an output of the call (an input gradient, in backward) is not finite. node may be NULL (not
 * recorded). */
void th_trace_call(th_frame *frame, const th_node *node, bool backward);

#endif
