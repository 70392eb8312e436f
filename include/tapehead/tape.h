/* The tape: recording, scopes, backward, gradients, and printing of recorded nodes. Contract 2 in tapehead.h. */
#ifndef TAPEHEAD_TAPE_H
#define TAPEHEAD_TAPE_H

#include "tapehead/base.h"

TH_BEGIN_DECLS

/* -- leaves -- */
/* Sets whether backward computes the gradient of t, a tensor that you own. Returns t. Errors: not a floating type, a
 * result of the tape. */
TH_API th_tensor *th_set_requires_gradient(th_tensor *t, bool requires_gradient);
/* Returns true for a leaf that requires a gradient, and for every recorded result that depends on such a leaf. */
TH_API bool th_requires_gradient(const th_tensor *t);

/* -- backward -- */
typedef struct th_backward_options {
    th_tensor *cotangent;  /* dL/dt, of t's shape; NULL: 1, for a tensor of one element only */
    bool keep_tape;        /* the saved values stay, for a second backward */
    th_tensor *const *wrt; /* [n_wrt] compute only these tensors' gradients; th_gradient of leaves does not change */
    int n_wrt;
    th_tensor **gradients; /* [n_wrt] the results, which the tape owns; zeros if t does not depend on the tensor */
} th_backward_options;
/* Computes dL/d leaf for every leaf that requires a gradient, and adds it to the leaf's gradient. L is t, unless
 * options contain a cotangent. t must have one element, or options must contain a cotangent. Without keep_tape it
 * releases the saved values of the nodes that it runs: a second backward through them is TH_ERROR_STATE. Other errors:
 * nothing was recorded, a saved value was changed, TH_ERROR_MEMORY. A failed backward empties every gradient that it
 * wrote to (see th_empty_gradient). */
TH_API th_status th_backward(th_tensor *t, const th_backward_options *options) TH_MUST_CHECK;

/* Returns the gradient of a leaf, or of a result after th_keep_gradient: a tensor of t's shape that is valid as long as
 * t. NULL without an error before the first backward. The gradient of a view is the same view of the gradient of
 * its base. */
TH_API th_tensor *th_gradient(th_tensor *t);
/* Saves the gradient of an intermediate result for reading after backward. Returns t. */
TH_API th_tensor *th_keep_gradient(th_tensor *t);
/* Empties the gradient of a leaf: the next backward overwrites it. */
TH_API void th_empty_gradient(th_tensor *t);

/* -- the step -- */
/* Makes the tape the owner of all tensors that the program creates (th_randn, th_from_data, ...) until the step ends. A
 * step is the time from one th_tape_clear to the next. Results of operations belong to the tape in any case. th_keep
 * makes a copy that you own. Call th_step_begin at the start of each iteration of a training loop that creates its
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
 * A second call in one step changes nothing. ctx may be NULL. Modules, optimizers and caches are not affected. */
TH_API void th_step_begin(th_context *ctx);
/* Ends the step: frees its values, handles and nodes. The next step begins. A pending error stays.
 *
 * It also closes every open scope, for example of a forward that returned before its th_module_end. Scopes of forwards
 * that th_module_forward is running stay open.
 *
 * A step failed if an error occurred in it and no backward succeeded afterwards. After a failed step, the operations
 * of the next step draw the same random numbers again, for example in dropout. If the failed step called
 * th_no_grad_begin without th_no_grad_end, recording is on again. You can call th_error_clear before or after
 * th_tape_clear. */
TH_API void th_tape_clear(th_context *ctx);
/* Begins a scope. Its end releases every tensor created in it, except the results. A value that a node saved stays in
 * memory for backward. The name becomes a part of the path of nodes and errors; it may be NULL. A module's forward is a
 * scope. */
TH_API void th_scope_begin(th_context *ctx, const char *name);
/* Begins a scope whose values are recomputed (activation checkpointing, Chen et al. 2016). A node in it saves a value
 * only if the value comes from outside the scope, was computed without recording, or is a result of the scope. When
 * backward reaches the scope, its operations run again as far as necessary, dropout with the same random numbers. A
 * recomputed value stays until the backward of the operation that produced it. Gradients are the same bit for bit; the
 * cost is at most one more forward of the scope. th_scope_end ends it. A recomputed scope inside another recomputed
 * scope is a part of the outer one. With th_keep_values it is a plain scope. */
TH_API void th_scope_begin_recomputed(th_context *ctx, const char *name);
/* Ends the innermost scope, with one result or several. th_scope_end returns result. If no scope that th_scope_begin
 * opened is still open, it only returns result. */
TH_API th_tensor *th_scope_end(th_context *ctx, th_tensor *result);
TH_API void th_scope_end_all(th_context *ctx, th_tensor *const *results, int count);

/* -- printing and tracing -- */
/* Names a tensor: th_tape_print_dot and th_tape_write_html show the name. Returns t. The name is copied; of a tensor
 * that you own at most 63 bytes. A parameter has its name from its module, and keeps it. Errors: TH_ERROR_MEMORY,
 * TH_ERROR_ARGUMENT for NULL. */
TH_API th_tensor *th_set_name(th_tensor *t, const char *name);
typedef struct th_tape_print_options {
    bool formulas; /* formulas of each node's value and gradient */
    bool values; /* each node's value and gradient as matrices. Call th_keep_values before the forward: it saves both */
} th_tape_print_options;
/* Prints one line per node: operation, module path, shapes with axis names, multiply-adds, bytes and names of the saved
 * operands. The totals follow. */
TH_API th_status th_tape_print(th_context *ctx, FILE *file, const th_tape_print_options *options) TH_MUST_CHECK;
/* Prints the tape as a Graphviz graph. Each module has a box, whose title is the module's path. The box contains the
 * nodes that the module recorded. A parameter is in the box of the first node that uses it. Leaves are rectangles. A
 * parameter has its name from th_module_parameters, and any other tensor the name of th_set_name; a leaf without a name
 * is an "input". A bold frame means that the leaf requires a gradient. With th_keep_values, values and gradients of at
 * most 8 elements are shown. */
TH_API th_status th_tape_print_dot(th_context *ctx, FILE *file) TH_MUST_CHECK;
/* Returns the number of recorded nodes. */
TH_API int64_t th_tape_length(const th_context *ctx);

/* A recorded node. */
typedef struct th_node_info {
    const char *operation, *module, *file;
    int line;
    int64_t multiply_adds;
    size_t saved_bytes; /* saved for backward by this node and by no earlier one */
    int n_inputs, n_outputs;
} th_node_info;
/* Sets *info to node `index` of the tape. Errors: TH_ERROR_INDEX. */
TH_API th_status th_tape_node(th_context *ctx, int64_t index, th_node_info *info) TH_MUST_CHECK;

/* Switches tracing on or off. While it is on, every value and gradient is checked when it is computed. The first one
 * with a NaN or an infinity is the finding: operation, module, line, and the ranges of the node's inputs. (A -inf is
 * not reported if an input contains -inf, such as an additive mask.) */
TH_API void th_set_tracing(th_context *ctx, bool tracing);
/* Returns the finding of this step as text; NULL without a finding. Valid until th_tape_clear of the next step. */
TH_API const char *th_trace_finding(const th_context *ctx);

#ifndef TAPEHEAD_NO_LOCATIONS
#define th_set_requires_gradient(...) TH_AT(th_set_requires_gradient(__VA_ARGS__))
#define th_backward(...) TH_AT_STATUS(th_backward(__VA_ARGS__))
#define th_gradient(...) TH_AT(th_gradient(__VA_ARGS__))
#define th_keep_gradient(...) TH_AT(th_keep_gradient(__VA_ARGS__))
#define th_set_name(...) TH_AT(th_set_name(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
