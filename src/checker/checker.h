/* The gradient checker: the types and functions that its files share.
 *
 *     check_gradient.c   checks the arguments, chooses full or fast mode, sets the verdict of the report
 *     leaves.c           replaces every tensor that the function reads by a copy in the checking type, and restores it
 *     run.c              runs the function and its backward
 *     engine/            compares derivatives with difference quotients, and writes the report (engine.h) */
#ifndef TH_CHECKER_CHECKER_H
#define TH_CHECKER_CHECKER_H

#include <float.h>

#include "autograd/tape.h"
#include "checker/engine/engine.h"
#include "tapehead/gradient_check.h"
#include "tensor/gradient_buffer.h"

/* A tensor that the function reads: a copy of an input, or an outside tensor (a parameter or a constant). During the
 * check, the handle of an outside tensor points to memory of the checker with the values in the checking type. */
typedef struct th_leaf {
    th_variable variable; /* first, so that a variable is also its leaf */
    th_tensor_impl *tensor;
    bool is_copy;                /* the tensor is a copy of an input, and the checker owns it */
    th_storage working_values;   /* of an outside tensor: its memory during the check */
    th_storage initial_values;   /* of a copy: a second copy of the input, which no run changes */
    th_gradient_buffer gradient; /* outside tensor: the gradient buffer during the check */
    struct {
        th_storage *storage;
        th_gradient_buffer *gradient;
        th_dtype dtype;
        char axes[TH_MAX_DIMS + 1];
        bool requires_gradient;
    } original;       /* the members of an outside tensor before the check */
    uint32_t version; /* the version of the storage after the checker last wrote the values */
} th_leaf;

enum { TH_MAX_CHECKED_INPUTS = TH_MAX_INPUTS * 4 };

/* Values of th_tensor_impl.check_role during a check. 0 is a tensor that the function made in this run. */
enum {
    TH_CHECK_LEAF = 1,  /* the tensor of an entry of th_checker.leaves */
    TH_CHECK_OUTSIDE,   /* existed before the check, or outlived the run that made it */
    TH_CHECK_FIRST_RUN, /* made in the first run; the second run shows whether the function still reads it */
    TH_CHECK_TEMPORARY, /* made in this run, and converted to the checking type */
    TH_CHECK_STEP,      /* made in this run, in the memory of the step */
    TH_CHECK_PERTURBED  /* a result of this run that was multiplied by 1 plus or minus the rounding unit */
};

/* Settings of the context that the function may change. Every run starts with the same settings. */
typedef struct th_settings {
    th_dtype default_dtype;
    bool training, fusion, keep_values, tracing;
    th_precision precision;
    int no_grad_depth, no_grad_at_clear, threads;
    th_depths around;
    uint64_t seed;
    int64_t step;
    uint32_t calls[TH_STREAM_COUNT], calls_at_clear;
    bool step_failed, in_step;
} th_settings;

typedef struct th_checker {
    th_engine engine; /* first, so that an engine is also its checker */
    th_context *ctx;
    th_gradient_function *function;
    void *user;
    int n_inputs;
    th_tensor *inputs[TH_MAX_CHECKED_INPUTS]; /* the copies that the function receives */
    th_dtype dtype;                           /* the checking type */
    th_pool leaves;                           /* th_leaf: inputs first */
    th_pool temporaries;                      /* th_leaf: tensors of this run that the checker converted */
    th_pool made_tensors;                     /* th_tensor_impl *: owned tensors that the function made */
    int parameter_count;
    int runs;                         /* the number of runs since the list of leaves was last complete */
    bool recording;                   /* this run records */
    bool always_records;              /* all runs record, because the function calls backward */
    bool incomplete;                  /* a parameter was first read after the first run */
    char late_parameter_name[96];     /* its name */
    bool recording_off;               /* recording was off when the function read a tensor that requires a gradient */
    char recording_off_at[96];        /* the location of that read; "" if unknown */
    const th_attachment *attachments; /* the newest one before the first run */
    int64_t attachment_count;         /* the number of attachments before the first run */
    th_tensor_impl *recorded;         /* the output, between begin_gradients and end_gradients */
    bool perturbs;                    /* this run multiplies all results by 1 plus or minus the rounding unit */
    th_settings settings;             /* the caller's */
} th_checker;

/* If the precision is int8, sets float32, and returns the precision to restore. With int8, forward rounds its products
 * and backward does not. The slope of the rounded function then differs from the gradient. */
static inline th_precision th_checker_leave_int8(th_context *ctx)
{
    const th_precision precision = ctx->machine.precision;
    if (precision == TH_PRECISION_INT8)
        ctx->machine.precision = TH_PRECISION_FLOAT32;
    return precision;
}

/* -- the tensors that the function reads (leaves.c) -- */
/* Copies the inputs, clears the tape, and marks all other tensors as outside tensors. Returns false with the error
 * pending. Call th_leaves_end in either case. */
bool th_leaves_begin(th_checker *checker, th_tensor *const *inputs);
/* Restores all outside tensors, and frees those that the function freed. */
void th_leaves_end(th_checker *checker);
/* Prepares the leaves for a run: restores their requires_gradient, and empties their gradients. */
void th_leaves_begin_run(th_checker *checker);
/* Returns the callbacks that the context calls while the function runs. */
th_watch th_leaves_watch(th_checker *checker);
/* Records that the function read t, as if an operation had read it. */
void th_leaves_note_read(th_checker *checker, th_tensor_impl *t);
/* Releases the tensors that a run made, and restores values that it wrote to. Call it when the tape is clear. */
void th_leaves_end_run(th_checker *checker);
static inline th_leaf *th_checker_leaf(const th_checker *checker, int64_t i)
{
    return th_pool_at(&checker->leaves, i);
}
/* Reads or writes one element of a leaf. */
double th_checker_element(const th_engine *engine, const th_variable *variable, int64_t element);
void th_checker_set_element(th_engine *engine, th_variable *variable, int64_t element, double value);

/* -- running the function (run.c) -- */
/* Returns the current settings of a context. */
th_settings th_checker_read_settings(const th_context *ctx);
/* Sets the settings of a context. */
void th_checker_apply_settings(th_context *ctx, const th_settings *settings);
/* Prepares the runs. Returns false with the error pending. Call th_checker_end in either case. */
bool th_checker_begin(th_checker *checker, th_tensor *const *inputs);
/* Restores the context and all tensors, also with an error pending. */
void th_checker_end(th_checker *checker);
/* Makes the next run count as the first one. The leaves found so far stay known. */
void th_checker_restart(th_checker *checker);
/* Runs the function at the current values. The output is valid until th_checker_end_run. NULL: the error is pending. */
th_tensor_impl *th_checker_run(th_checker *checker, bool record);
/* Ends a run: clears the tape, releases the tensors that the function made, and restores values that it changed. False
 * if the check cannot continue: an error is pending, or the run read a new parameter (checker->incomplete). */
bool th_checker_end_run(th_checker *checker);
/* Runs the function from start to end. Writes the output's elements to values[rows]. */
bool th_checker_compute_output(th_checker *checker, double *values);
/* Converts an array with the shape of t to row-major doubles. */
void th_checker_to_doubles(const th_tensor_impl *t, const th_array *array, double *values);
/* Writes the gradients of all checked leaves under this cotangent to gradient[columns]. Runs backward `times` times
 * without emptying the gradients in between. */
bool th_checker_compute_gradients(th_checker *checker, th_tensor_impl *output, const double *cotangent, int times,
                                  double *gradient);
/* Allocates an array of zeros, for this operation in error messages; NULL with the error pending. */
double *th_checker_allocate(th_context *ctx, const char *name, int64_t count);
/* Releases memory of th_checker_allocate. memory may be NULL. */
void th_checker_release(th_context *ctx, double *memory, int64_t count);
/* Returns whether a check can run in this context. Otherwise the error is pending, in the name of this operation. */
bool th_checker_accepts_context(th_context *ctx, const char *name);

/* th_check_gradient for special points. A derivative that the check cannot tell counts as right. At a kink, any number
 * between the slopes on both sides is right, and any other number is wrong. */
th_status th_check_gradient_at_kinks(th_context *ctx, th_gradient_function *function, void *user, int n_inputs,
                                     th_tensor *const *inputs, const th_gradient_options *options,
                                     th_gradient_report *report);

#endif
