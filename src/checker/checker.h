/* The gradient checker from inside: what its parts share. check_gradient.c decides what is checked and what comes out,
 * run.c runs the function, leaves.c puts values of the checker's own where it reads, and everything
 * back, judge.c holds one derivative to difference quotients, compare.c goes through all of them,
 * report.c says what was found. */
#ifndef TH_CHECKER_CHECKER_H
#define TH_CHECKER_CHECKER_H

#include "autograd/tape.h"
#include "tapehead/gradient_check.h"
#include "tensor/gradient_buffer.h"

/* A tensor that the function reads: a copy of an input, or somebody else's (a parameter, a constant), which lies in
 * memory of the checker's, in the checking type, until the end of the check. */
typedef struct th_leaf {
    th_tensor_impl *tensor;
    bool copy;                   /* of an input: the checker's own */
    bool checked;                /* its gradient is */
    th_storage values;           /* of somebody else's: where it lies meanwhile; of a copy: the input once more */
    th_gradient_buffer gradient; /* of somebody else's: the place of the gradient that this check computes */
    struct {
        th_storage *storage;
        th_gradient_buffer *gradient;
        th_dtype dtype;
        char axes[TH_MAX_DIMS + 1];
        bool requires_gradient;
    } before;         /* somebody else's tensor as it was */
    uint32_t version; /* of the values, as the checker left them */
    int position;     /* of the input, or n_inputs and up for parameters */
    int64_t numel;
    int64_t first; /* column of its element 0 among all checked elements */
    char name[96];
} th_leaf;

enum { TH_MAX_CHECKED_INPUTS = TH_MAX_INPUTS * 4 };

/* What th_tensor_impl.checking says while a check runs: 0 for what the function has made in this run, 1 + its index for a
 * leaf, else one of these. */
enum {
    TH_CHECK_OUTSIDE = -1, /* was there before, or has outlived the run that made it */
    TH_CHECK_EARLIER = -2, /* left over from the first run: the second one shows whether it is still of use */
    TH_CHECK_PASSING = -3, /* made in this run and converted */
    TH_CHECK_STEP = -4     /* made in this run, of the step: the function, or a module, has opened a scope */
};

/* The context's settings, which the function may change and every run finds as they were. */
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
    th_context *ctx;
    th_gradient_function *function;
    void *user;
    int n_inputs;
    th_tensor *inputs[TH_MAX_CHECKED_INPUTS]; /* what the function gets: copies */
    th_gradient_options options;
    th_dtype dtype;
    th_pool leaves;  /* th_leaf: inputs first */
    th_pool passing; /* th_leaf: what the function has made in this run and the checker converted */
    th_pool made;    /* th_tensor_impl *: owned ones that the function has made */
    int parameters;
    int runs;                         /* since the leaves were last complete */
    bool recording;                   /* this run records */
    bool records;                     /* all do, for the function fails otherwise (it calls backward itself) */
    bool incomplete;                  /* a parameter was read for the first time after the first run */
    char late[96];                    /* that parameter's name */
    bool cut;                         /* recording was off when the function read something with a gradient */
    char cut_place[96];               /* where that was, "" unless it is known */
    const th_attachment *attachments; /* before the first run: the newest, and how many there were */
    int64_t attachment_count;
    int64_t columns;      /* elements of all checked leaves */
    int64_t rows;         /* elements of the output */
    double *base;         /* [rows]: the output at the point itself */
    double output_scale;  /* its largest finite magnitude */
    th_settings settings; /* the caller's */
    uint64_t random;
    th_gradient_report *report;
} th_checker;

/* Whether products round their operands to bfloat16: a function in float32, in a context of that precision. */
static inline bool th_checker_in_bfloat16(const th_checker *checker)
{
    return checker->options.float32 && checker->settings.precision == TH_PRECISION_BFLOAT16;
}

/* -- what the function reads (leaves.c) -- */
/* Copies the inputs, clears the tape, notes what there is. False with the error pending; th_leaves_end in either case.
 */
bool th_leaves_begin(th_checker *checker, th_tensor *const *inputs);
/* Everything back where it was; what the function has freed of it is freed now. */
void th_leaves_end(th_checker *checker);
/* Handles as every run finds them. */
void th_leaves_reset(th_checker *checker);
/* What the context tells while the function runs. */
th_watch th_leaves_watch(th_checker *checker);
/* As if an operation had read t. */
void th_leaves_meet(th_checker *checker, th_tensor_impl *t);
/* After a run, the tape being clear: gives back what it has made, puts right what it has written to. */
void th_leaves_settle(th_checker *checker);
static inline th_leaf *th_checker_leaf(const th_checker *checker, int64_t i)
{
    return th_pool_at(&checker->leaves, i);
}
double th_checker_element(const th_leaf *leaf, int64_t element);
void th_checker_set_element(th_leaf *leaf, int64_t element, double value);

/* -- running (run.c) -- */
/* Reads the context's settings, and restores them. */
th_settings th_checker_settings(const th_context *ctx);
void th_checker_apply(th_context *ctx, const th_settings *settings);
/* False with the error pending; th_checker_end in either case. */
bool th_checker_begin(th_checker *checker, th_tensor *const *inputs);
/* Puts everything back; with an error pending too. */
void th_checker_end(th_checker *checker);
/* From here on the parameters count as known: the next run is the first. */
void th_checker_restart(th_checker *checker);
/* Runs the function at the current values: its output, of the step, until th_checker_leave. NULL when it failed (the
 * error is pending). */
th_tensor_impl *th_checker_run(th_checker *checker, bool record);
/* Ends a run: clears the tape, gives back what the function has made, puts its changes right. False when no further run
 * makes sense: an error is pending, or a parameter was met that had been unknown (checker->incomplete). */
bool th_checker_leave(th_checker *checker);
/* A whole run: the output's elements as doubles into values[rows]. */
bool th_checker_values(th_checker *checker, double *values);
/* The elements of an array of the shape of t as doubles, row-major. */
void th_checker_read(const th_tensor_impl *t, const th_array *array, double *values);
/* Gradients of all checked leaves under this cotangent, into gradient[columns]; times backward passes run without
 * emptying in between. */
bool th_checker_gradient(th_checker *checker, th_tensor_impl *output, const double *cotangent, int times,
                         double *gradient);
/* Numbers of the checker's own; NULL with the error pending. */
double *th_checker_take(th_checker *checker, int64_t count);
void th_checker_give(th_checker *checker, double *memory, int64_t count);

/* -- judging (judge.c) -- */
/* A way through the current point: along one element of a leaf, or along a direction through all of them. */
typedef struct th_line {
    th_leaf *leaf;
    int64_t element;
    double x;                        /* the element's value */
    const double *direction, *start; /* [numel]: a direction, and where the leaf is; NULL: the element alone */
    double scale;   /* along a direction: what its terms amount to, which may cancel in the analytic derivative */
    double largest; /* of the leaf's analytic derivatives; 0: they do not count */
    double weight;  /* of the rounding of the point itself: x times derivative, all terms together */
    bool thorough;  /* nothing is to be seen of the derivative: larger steps are to see nothing either */
    bool brief;     /* only whether it is wrong as well */
} th_line;

typedef enum th_judgment_kind { TH_UNSETTLED, TH_RIGHT, TH_WRONG, TH_CANNOT_TELL } th_judgment_kind;

/* Why a derivative cannot be told right from wrong. */
typedef enum th_doubt {
    TH_DOUBT_OTHER,
    TH_DOUBT_NOT_A_NUMBER,
    TH_DOUBT_ROUNDING,
    TH_DOUBT_KINK,
    TH_DOUBT_JUMP
} th_doubt;

typedef struct th_judgment {
    th_judgment_kind kind;
    double numeric, error; /* the best difference quotient, and how far off it may be */
    th_doubt doubt;
    double below, above; /* at a kink: the slopes on both sides */
} th_judgment;

enum { TH_STEPS = 24 }; /* lengths of the step, each a fixed factor from the next */

/* What the judge works in. */
typedef struct th_judge {
    th_checker *checker;
    const double *cotangent; /* [rows]: outputs count by this sum alone; NULL: each by itself */
    int64_t count;           /* of derivatives along a line: rows, or 1 */
    double *memory;          /* of the next three */
    double *above, *below;   /* [rows]: the outputs at both ends of a step */
    double *step;            /* [TH_STEPS][3][count]: what each step has shown */
    double length[TH_STEPS]; /* of the step; 0: not tried */
    th_judgment *judgment;   /* [count]: of the last line */
    int64_t doubtful;        /* lines so far that could not be told */
} th_judge;

/* False with the error pending; th_judge_free in either case. */
bool th_judge_init(th_judge *judge, th_checker *checker, const double *cotangent, int64_t count);
void th_judge_free(th_judge *judge);
/* Judges analytic[0 .. count), `stride` apart. False when a run failed. */
bool th_judge_line(th_judge *judge, const th_line *line, const double *analytic, int64_t stride);

/* -- comparing (compare.c) -- */
/* False when a run failed. */
bool th_checker_full(th_checker *checker);
bool th_checker_fast(th_checker *checker);

/* -- reporting (report.c) -- */
/* All that is known of one leaf whose gradient is not right.  */
typedef struct th_finding {
    const th_leaf *leaf;
    int64_t element; /* the worst */
    double analytic;
    th_judgment judgment;
    const double *analytic_jacobian, *numeric_jacobian; /* element 0 of row 0 of this leaf's block; NULL in fast mode */
    int64_t row_stride;                                 /* of both */
    const double *analytic_vector,
        *numeric_vector; /* under one random cotangent, [numel]; fast mode: numeric is NaN where it was not sampled */
    const unsigned char *state; /* [numel]: th_judgment_kind */
    bool alone;                 /* some element is wrong by itself */
    bool overwrites, nonlinear; /* none is, but two backwards do not add up, or those of several outputs do not */
    bool along_direction; /* fast mode: a direction through the whole leaf is wrong, no single element is known to be */
    th_shape output_shape;
} th_finding;
void th_checker_report(th_checker *checker, const th_finding *finding);
/* Adds to the report's text. */
void th_checker_say(th_gradient_report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
