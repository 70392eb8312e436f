/* The operation interface, for built-in operations and for a user's own alike.
 *
 * An operation is a descriptor (th_op): a shape rule, a forward, a backward, the list of saved operands, and
 * samples for the gradient check. Only the shape rule checks operands. The driver records the call, skips gradients
 * that are not needed, sums gradients of broadcast inputs, accumulates, and manages memory.
 *
 * Every call checks the descriptor and what its shape rule declares. Errors are TH_ERROR_ARGUMENT or TH_ERROR_SHAPE:
 * numbers of operands outside the limits below, bits that name a missing operand, contradictory fields, wrong shapes.
 *
 * A descriptor must stay unchanged until th_tape_clear, because the tape refers to it. Its functions compute on the
 * arrays that they receive. If they call another operation, backward or th_tape_clear, the result is TH_ERROR_STATE.
 * Forward may run again during backward (TH_OP_RECOMPUTE, th_scope_begin_recomputed) and must compute the same values
 * then. */
#ifndef TAPEHEAD_OP_H
#define TAPEHEAD_OP_H

#include "tapehead/base.h"

TH_BEGIN_DECLS

/* Limits of the operation interface. */
enum {
    TH_MAX_INPUTS = 8, /* inputs of an operation with a fixed number of them */
    TH_MAX_OUTPUTS = 4,
    TH_MAX_SAMPLE_INPUTS = 32,
    TH_ANY_INPUTS = -1, /* th_op.n_inputs of an operation that takes any number of inputs, such as concat */
    TH_MAX_PLAN = 4096, /* bytes of th_op.plan_size */
    TH_SHAPE_TEXT = 160 /* bytes of the text of th_array_text */
};

typedef struct th_call th_call;
typedef struct th_sample th_sample;

/* -- the descriptor -- */

/* The bit of input i in the masks of th_op. An operation with TH_ANY_INPUTS treats all inputs alike: any
 * TH_INPUT bit in its masks means all inputs. */
#define TH_INPUT(i) (1u << ((i) <= TH_MAX_INPUTS - 1 ? (i) : TH_MAX_INPUTS - 1))

/* The bit of output i in the masks of th_op. */
#define TH_OUTPUT(i) (1u << (TH_MAX_INPUTS + (i)))

/* The bits of th_op.flags. */
enum {
    /* Inputs broadcast to output 0. Backward computes each input gradient in the output's shape; the driver sums it to
     * the input's shape. */
    TH_OP_BROADCASTS = 1 << 0,
    /* Inputs, output gradients and destinations must be contiguous. The driver copies those that are not. */
    TH_OP_CONTIGUOUS = 1 << 1,
    /* Backward always overwrites its destinations. The driver accumulates. */
    TH_OP_CANNOT_ADD = 1 << 2,
    /* Results are not saved for backward but recomputed. All inputs are saved instead. For results that cost less to
     * compute again than to keep. */
    TH_OP_RECOMPUTE = 1 << 3,
    /* The output is a view of the only input: the shape rule calls th_call_view and no kernel runs. The output's
     * gradient is added to the same elements of the input's gradient. An input element that the view contains more than
     * once gets the sum. */
    TH_OP_VIEW = 1 << 4,
    /* An input gradient may use the memory of output gradient 0: backward reads each element before it writes there. */
    TH_OP_IN_PLACE = 1 << 5,
    /* Output 0 gets the memory layout of input 0 if their shapes agree (elementwise operations). */
    TH_OP_ANY_LAYOUT = 1 << 6,
    /* The gradient of input 0 may use the memory of its saved value: backward reads each element before it writes
     * there. */
    TH_OP_OVER_INPUT = 1 << 7
};

/* A descriptor of an operation. */
typedef struct th_op {
    const char *name;
    const char *value, *gradient; /* formulas, which th_tape_print prints */
    int n_inputs;                 /* or TH_ANY_INPUTS */
    uint32_t optional;            /* TH_INPUT bits of inputs that may be NULL */
    /* TH_INPUT bits of inputs whose gradients forward can compute, so that backward need not recompute values. The
     * operation must have one differentiable output, of one element. When a call is recorded, forward computes the
     * requested gradients (th_call.precomputed) if all of this is true:
     *
     *   - the gradient of each such input is empty and contiguous, and no tensor is passed as two of these
     * inputs
     *   - every other input that requires a gradient has an identity gradient (see below)
     *   - th_keep_values is off
     *
     * Otherwise backward computes them. */
    uint32_t precomputed;
    int n_outputs;                   /* 0 means 1 */
    uint32_t differentiable_outputs; /* bits 1 << i; 0 means output 0 only */
    size_t attributes_size;
    uint32_t flags; /* TH_OP_* */
    /* TH_INPUT and TH_OUTPUT bits of the operands that every backward reads. They are saved; in all other operands
     * backward finds data == NULL. */
    uint32_t saves;
    /* What the gradient of input i reads in addition. With TH_ANY_INPUTS, entry 0 holds for all inputs. */
    uint32_t saves_for[TH_MAX_INPUTS];
    /* TH_INPUT bits of inputs whose gradient is output gradient 0 itself, summed where the input broadcasts. The driver
     * passes it on and does not ask backward for it. */
    uint32_t identity_gradients;
    th_status (*shape)(th_call *call);
    void (*forward)(const th_call *call);
    /* NULL: not differentiable, or a view, or all gradients are identities. */
    void (*backward)(const th_call *call);
    const void *kernel; /* data for functions that several operations share, such as the kernels to run */
    size_t plan_size;   /* bytes that .plan writes, at most TH_MAX_PLAN */
    /* Plans a forward or backward before it runs: writes plan_size bytes to `plan`, which becomes call->plan, and
     * reserves scratch memory (th_plan_scratch). It may read shapes, strides and data pointers, not the data: in a
     * context with shapes_only the data pointers are NULL and nothing runs afterwards. May be NULL. */
    void (*plan)(const th_call *call, bool backward, void *plan);
    /* The number of multiply-adds of forward, for the printed tape. NULL: 0. */
    int64_t (*multiply_adds)(const th_call *call);
    /* For a fused operation: computes the same output 0 with other operations. May be NULL. */
    th_tensor *(*composed)(const void *attributes, th_tensor *const *inputs, int n_inputs);
    const char *not_differentiable; /* the reason, if the operation lacks a gradient */
    uint32_t storage;               /* TH_INPUT bits of inputs that may have a storage type (TH_STORAGE_TYPES) */
    const th_sample *samples;       /* the last entry has no name */
} th_op;

/* -- what the functions of a descriptor receive -- */

/* An operand: what an operation's functions see of a tensor. */
typedef struct th_array {
    /* False: an optional input that the caller omitted, an output that is not requested, a gradient that is not needed,
     * or an output gradient that is zero. */
    bool given;
    /* The first element. NULL if not given, in a shape rule, and in backward for operands that were not saved. */
    void *data;
    th_dtype dtype;
    int ndim;
    int64_t size[TH_MAX_DIMS], stride[TH_MAX_DIMS]; /* strides in elements */
    char axes[TH_MAX_DIMS + 1];                     /* letters or ' '; "" if unnamed */
} th_array;

/* The random numbers of one recorded call, which are the same when the call is recomputed: Philox 4x32-10 with this key
 * and the counter (column / 4, row, call, step). */
typedef struct th_random_call {
    uint32_t key[2];
    uint32_t call, step;
} th_random_call;

/* One call of an operation. */
struct th_call {
    th_context *ctx;
    const th_op *op;
    const void *attributes; /* a copy made when the call was recorded; th_call_attributes lets a shape rule change it */
    int n_inputs, n_outputs;
    th_array *input;           /* [n_inputs] */
    th_array *output;          /* [n_outputs]; forward computes those that are given */
    th_array *output_gradient; /* [n_outputs], in backward: dL/d output, of the output's shape; not given: zero */
    th_array *input_gradient;  /* [n_inputs], in backward: where dL/d input is written; not given: not needed */
    bool *add;                 /* [n_inputs], in backward: add to input_gradient instead of overwriting it */
    bool training;             /* the mode when the call was recorded, also in the shape rule and in forward */
    /* In forward: true if it must also write input_gradient, for an output gradient of 1 (th_op.precomputed). In
     * backward: true if forward did so. Backward then only multiplies input_gradient by the output gradient; the data
     * of saved operands is NULL. */
    bool precomputed;
    th_random_call random; /* after th_call_draw in the shape rule */
    const void *plan;      /* what .plan wrote */
    void *scratch;         /* the reserved scratch memory, 64-byte aligned; use th_call_scratch */
};

/* Returns the number of elements. */
TH_API int64_t th_array_numel(const th_array *array);

/* Returns whether the elements are in row-major order without gaps. */
TH_API bool th_array_contiguous(const th_array *array);

/* -- for shape rules -- */

/* Declares output i: contiguous, row-major. axes: a letter or ' ' for each axis; NULL or "": unnamed. A shape rule must
 * declare output 0 and every other output that the caller requests or that is saved. */
TH_API void th_call_output(th_call *call, int i, th_dtype dtype, int ndim, const int64_t *size, const char *axes);

/* After th_call_output: stores the output's axes in this order in memory, outermost first, instead of row-major. */
TH_API void th_call_output_order(th_call *call, int i, const int *order);

/* Returns the attributes, writable: a shape rule may complete them, for example negative axes. */
TH_API void *th_call_attributes(th_call *call);

/* Ends a shape rule with an error: return th_call_fail(call, TH_ERROR_SHAPE, "inner sizes differ: a is %s, b is %s",
 * ...). The message gets the operation's name and the caller's line. Returns code. */
TH_API th_status th_call_fail(th_call *call, th_status code, const char *format, ...) TH_FORMAT(3, 4);

/* Writes the shape, such as "(B=2, T=4, 3)", to text (TH_SHAPE_TEXT bytes). Returns text. */
TH_API const char *th_array_text(const th_array *array, char *text);

/* Calls th_array_text with a temporary buffer that is valid until the end of the enclosing block (C only). */
#define TH_TEXT(array) th_array_text((array), (char[TH_SHAPE_TEXT]){0})

/* Makes *axis non-negative. Fails if it is outside [-ndim, ndim). */
TH_API th_status th_call_axis(th_call *call, int *axis, int ndim);

/* Checks that input i is float32 or float64. */
TH_API th_status th_call_floating(th_call *call, int i);

/* Checks that input i is int32 or int64. */
TH_API th_status th_call_index_type(th_call *call, int i);

/* Checks that input i is bool. */
TH_API th_status th_call_bool(th_call *call, int i);

/* Checks that all given floating inputs have the same type. */
TH_API th_status th_call_same_type(th_call *call);

/* Writes to *ndim and size the shape to which a and b broadcast by NumPy's rules. They may point to a->ndim and
 * a->size. TH_ERROR_SHAPE, with both shapes in the message, if they do not broadcast. */
TH_API th_status th_call_broadcast(th_call *call, const th_array *a, const th_array *b, int *ndim, int64_t *size);

/* A ready-made shape rule: all inputs are floating, of one type, and broadcast to output 0. */
TH_API th_status th_shape_elementwise(th_call *call);

/* Declares output 0 with this type and the shape to which all inputs broadcast. Inputs may have any types. A shape
 * rule ends with: return th_shape_broadcast(call, dtype); */
TH_API th_status th_shape_broadcast(th_call *call, th_dtype dtype);

/* Declares output 0 as a view of input 0, in the shape rule of a view. The output has these strides (in elements, of
 * any sign) and starts `offset` elements after input 0's first element. The rule must compute both from input 0's
 * strides: it also runs on input 0's gradient, whose strides may differ from those of the value. TH_ERROR_SHAPE if an
 * element of the view is outside the memory between input 0's first and last element. */
TH_API void th_call_view(th_call *call, int ndim, const int64_t *size, const int64_t *stride, int64_t offset,
                         const char *axes);

/* Declares that this call draws random numbers: sets call->random, which stays the same when the call is recomputed. A
 * second call changes nothing. */
TH_API void th_call_draw(th_call *call);

/* -- scratch memory, reserved by th_op.plan -- */

/* In .plan: reserves `count` elements of `element` bytes for this run, 64-byte aligned. Returns their offset for
 * th_call_scratch. After a negative count, or a size that does not fit into size_t, the call fails with
 * TH_ERROR_MEMORY when .plan has returned. */
TH_API size_t th_plan_scratch(const th_call *call, int64_t count, size_t element);

/* In .plan: makes the scratch memory from this offset on available to later reservations. Parts of an operation that
 * run one after the other can then use the same memory. */
TH_API void th_plan_reuse(const th_call *call, size_t offset);

/* In forward and backward: returns the memory at an offset that the plan reserved, uninitialized. It is released when
 * the function returns. NULL if the plan reserved no bytes at all. */
TH_API void *th_call_scratch(const th_call *call, size_t offset);

/* -- samples: the inputs on which the gradient check runs an operation -- */

/* What a sample's input contains. */
typedef enum th_sample_kind {
    TH_SAMPLE_REAL,     /* the floating type under test, uniform on [low, high] ([-1, 1] if both are 0) */
    TH_SAMPLE_DISTINCT, /* the same range, distinct: (high - low) / numel apart, in random order; for max, say */
    TH_SAMPLE_INDEX,    /* int64 on [low, high) */
    TH_SAMPLE_BOOL,     /* true with probability high (1/2 if 0) */
    TH_SAMPLE_ABSENT    /* an optional input that is omitted */
} th_sample_kind;

/* One input of a sample. */
typedef struct th_sample_input {
    th_shape shape;
    th_sample_kind kind;
    double low, high;
    int n_kinks;
    double kinks[3];  /* [n_kinks] values to avoid: no derivative exists there, as at 0 for abs */
    double clearance; /* of TH_SAMPLE_REAL: every element is at least this far from each kink; 0 means 0.05 */
    bool constant;    /* no gradient is requested */
    /* Of TH_SAMPLE_REAL: the numbers are converted to this storage type (TH_STORAGE_TYPES). `shape` is the shape of the
     * numbers. No gradient is requested. 0: the type under test. */
    th_dtype storage;
} th_sample_input;

/* clang-format off */
/* In a sample's list of inputs: an optional input that is omitted. */
#define TH_ABSENT {.kind = TH_SAMPLE_ABSENT}
/* clang-format on */

/* One sample. */
struct th_sample {
    const char *name;                     /* the case that it covers, such as "causal"; NULL ends a list */
    const void *attributes;               /* NULL for an operation without attributes */
    int n_inputs;                         /* at most TH_MAX_SAMPLE_INPUTS */
    th_sample_input input[TH_MAX_INPUTS]; /* the ninth input is like the first, the tenth like the second, ... */
    double tolerance;                     /* 0: the checker's default */
};

/* -- running an operation -- */

/* Runs an operation and records it. inputs: [n], NULL where optional. extra: NULL, or [n_outputs - 1] pointers; output
 * i + 1 is stored at extra[i] unless that is NULL. Returns output 0, which belongs to the tape; NULL on error. An
 * operation without inputs runs in the context that this thread used last. */
TH_API th_tensor *th_apply_n(const th_op *op, const void *attributes, int n, th_tensor *const *inputs,
                             th_tensor **const *extra);

/* Runs the checks of th_apply_n, including the shape rule, and nothing else. Call it first in a function that runs a
 * composition instead of a fused operation. Error messages then name the fused operation. */
TH_API th_status th_apply_check(const th_op *op, const void *attributes, int n, th_tensor *const *inputs) TH_MUST_CHECK;

/* th_apply_n with the inputs as arguments: th_apply(&softplus, NULL, x). In C, attributes with a comma need
 * parentheses: th_apply(&select, (&(select_attributes){axis, index}), x). */
#ifdef __cplusplus
TH_END_DECLS
template <class... Inputs> inline th_tensor *th_apply_inputs(const th_op *op, const void *attributes, Inputs... inputs)
{
    th_tensor *const list[] = {inputs...};
    return th_apply_n(op, attributes, int(sizeof...(inputs)), list, nullptr);
}
#define th_apply(op, attributes, ...) TH_AT(th_apply_inputs((op), (attributes), __VA_ARGS__))
TH_BEGIN_DECLS
#else
#define th_apply(op, attributes, ...)                                                                                  \
    th_apply_n((op), (attributes), TH_COUNT_(__VA_ARGS__), (th_tensor *const[]){__VA_ARGS__}, NULL)
#endif

/* Returns the number of built-in operations. */
TH_API int th_op_count(void);

/* Returns built-in operation `index`; NULL outside 0 .. th_op_count() - 1. */
TH_API const th_op *th_op_at(int index);

/* Returns the built-in operation of this name, or NULL. */
TH_API const th_op *th_op_find(const char *name);

TH_END_DECLS

#endif
