/* The tape: recording, scopes, backward, gradients, and looking at what was recorded. Contract 2 in tapehead.h. */
#ifndef TAPEHEAD_TAPE_H
#define TAPEHEAD_TAPE_H

#include "tapehead/base.h"

TH_BEGIN_DECLS

/* -- leaves -- */
/* Marks a tensor that you own as one whose gradient is wanted. Errors: not a floating type, a result of the tape.
 * Returns t. */
TH_API th_tensor *th_set_requires_gradient(th_tensor *t, bool requires_gradient);
TH_API bool th_requires_gradient(const th_tensor *t);

/* -- backward -- */
typedef struct th_backward_options {
    th_tensor *cotangent;  /* dL/dt, of t's shape; NULL: 1, for a tensor of one element only */
    bool keep_tape;        /* saved values stay, a second backward is possible */
    th_tensor *const *wrt; /* gradients of these alone; leaves keep their gradients as they are */
    int n_wrt;
    th_tensor **gradients; /* [n_wrt] results, of the tape; zeros where nothing depends on it */
} th_backward_options;
/* d loss / d leaf for every leaf that requires a gradient, added to what earlier backwards left. loss has one element.
 * Consumes the tape it walks: a second backward over it is TH_ERROR_STATE. Other errors: nothing recorded, a saved
 * value changed since, TH_ERROR_MEMORY; every gradient that a failed backward touched is marked empty. */
TH_API th_status th_backward(th_tensor *t, const th_backward_options *options) TH_MUST_CHECK;

/* The gradient of a leaf, or of a result that th_keep_gradient was called on: a tensor of t's shape whose life ends
 * with t's. NULL without an error when there is none (yet). The gradient of a view is the same view of its base's. */
TH_API th_tensor *th_gradient(th_tensor *t);
/* Keeps the gradient of an intermediate result for reading after backward. Returns t. */
TH_API th_tensor *th_keep_gradient(th_tensor *t);
/* Marks the gradient of a leaf empty: the next backward overwrites it. */
TH_API void th_empty_gradient(th_tensor *t);

/* -- the step -- */
/* Begins a step: until the next th_tape_clear, created tensors (th_randn, th_from_data, ...) belong to the tape, as
 * results do, and end with the step. th_keep makes a copy that lasts. Use it in training loops that create their
 * batches:
 *
 *     for (int step = 0; step < steps; step++) {
 *         th_step_begin(ctx);
 *         th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(32, 8));
 *         ...
 *         if (th_backward(loss, NULL) || th_optimizer_step(adam))
 *             return report(ctx);
 *         th_tape_clear(ctx);
 *     }
 *
 * A second call in one step changes nothing. NULL is fine. Modules, optimizers, caches and their memory are not
 * affected. */
TH_API void th_step_begin(th_context *ctx);
/* Everything that the step made is gone: values, handles, nodes. Works with an error pending (which stays).
 *
 * It also closes every scope that is still open, such as that of a forward which returned before its th_module_end, but
 * for those of forwards that th_module_forward is running. A step in which an error occurred, and no backward succeeded
 * after it, is taken back: what is repeated draws the same random numbers, and what th_no_grad_begin has switched off
 * since the clear before is on again. Whether th_error_clear comes before or after makes no difference. */
TH_API void th_tape_clear(th_context *ctx);
/* A scope: when it ends, every value made in it but the result is given up, unless a node saved it. name (may be NULL)
 * becomes part of the path that nodes and errors carry. A module's forward is one. */
TH_API void th_scope_begin(th_context *ctx, const char *name);
/* A scope whose values are not even kept where a node saved them (activation checkpointing, Chen et al. 2016): of what
 * is recorded in it only that stays until backward which comes from outside, results included, and what was computed in
 * it unrecorded. When backward comes to the scope, its operations run again, dropout with the same numbers, as far as
 * they are needed, and what that gives stays until the backward of the operation that made it. Gradients are the same
 * bit for bit; the price is up to one more forward of the scope. It ends as any other; one within another of its kind
 * is a part of that one. Not under th_keep_values. */
TH_API void th_scope_begin_recomputed(th_context *ctx, const char *name);
TH_API th_tensor *th_scope_end(th_context *ctx, th_tensor *result); /* returns result; without a begin: nothing else */
TH_API void th_scope_end_all(th_context *ctx, th_tensor *const *results, int count);

/* -- looking -- */
typedef struct th_tape_print_options {
    bool formulas; /* value and gradient of each node in words */
    bool values;   /* each node's value and gradient as matrices: th_keep_values before the forward, th_keep_gradient is
                      implied */
} th_tape_print_options;
/* One line per node: operation, module path, named shapes, multiply-adds, what it saved and how many bytes; then the
 * totals. */
TH_API th_status th_tape_print(th_context *ctx, FILE *file, const th_tape_print_options *options) TH_MUST_CHECK;
/* The tape as a Graphviz graph. Each module has a box, whose title is the module's path. The box holds the nodes that
 * the module recorded, and the parameters that these nodes use first. Leaves are rectangles. A parameter has its name
 * from th_module_parameters; any other leaf is an "input". A bold frame means that the leaf requires a gradient. */
TH_API th_status th_tape_print_dot(th_context *ctx, FILE *file) TH_MUST_CHECK;
TH_API int64_t th_tape_length(const th_context *ctx);

/* One recorded node, to read. */
typedef struct th_node_info {
    const char *operation, *module, *file;
    int line;
    int64_t multiply_adds;
    size_t saved_bytes; /* bytes that this node alone keeps for backward */
    int n_inputs, n_outputs;
} th_node_info;
TH_API th_status th_tape_node(th_context *ctx, int64_t index, th_node_info *info) TH_MUST_CHECK;

/* While on, every value and gradient is examined as it is computed; the first that is not finite is the finding:
 * operation, module, line, and the ranges of the node's inputs. (-inf that comes from an input's -inf, an additive
 * mask, is no finding.) */
TH_API void th_set_tracing(th_context *ctx, bool tracing);
/* The finding of this step as a sentence; NULL if there is none. Valid until th_tape_clear of the next step. */
TH_API const char *th_trace_finding(const th_context *ctx);

#ifndef TAPEHEAD_NO_LOCATIONS
#define th_set_requires_gradient(...) TH_AT(th_set_requires_gradient(__VA_ARGS__))
#define th_backward(...) TH_AT_STATUS(th_backward(__VA_ARGS__))
#define th_gradient(...) TH_AT(th_gradient(__VA_ARGS__))
#define th_keep_gradient(...) TH_AT(th_keep_gradient(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
