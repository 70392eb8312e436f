/* The operation interface: what the tape walks, for built-in operations and for a user's own alike.
 *
 * An operation is a descriptor (th_op): a shape rule, which is the only place that checks anything, a forward, a
 * backward, what is saved, samples. Recording, skipping what needs no gradient, broadcasting back, accumulating and
 * memory are the driver's work.
 *
 * A descriptor, and what its shape rule declares, are checked at every call: numbers of operands outside their limits,
 * bits that name what is not there, combinations that mean nothing, shapes that do not fit are TH_ERROR_ARGUMENT or
 * TH_ERROR_SHAPE with a sentence. A descriptor must live and stay as it is until th_tape_clear, since the tape refers
 * to it. Its functions compute on the arrays that they are given: a call of another operation, of backward or of
 * th_tape_clear in them is TH_ERROR_STATE. Forward may run again in backward (TH_OP_RECOMPUTE,
 * th_scope_begin_recomputed) and has to give the same then. */
#ifndef TAPEHEAD_OP_H
#define TAPEHEAD_OP_H

#include "tapehead/base.h"

TH_BEGIN_DECLS

enum {
    TH_MAX_INPUTS = 8, /* of an operation with a fixed number of inputs */
    TH_MAX_OUTPUTS = 4,
    TH_MAX_SAMPLE_INPUTS = 32,
    TH_ANY_INPUTS = -1, /* concat, stack: any number of inputs */
    TH_MAX_PLAN = 4096, /* bytes of what an operation plans for a call */
    TH_SHAPE_TEXT = 160
};

typedef struct th_call th_call;
typedef struct th_sample th_sample;

/* -- what an operation is -- */

/* The bits of input i and output i in the masks of th_op. In an operation of any number of inputs all are alike: each
 * TH_INPUT bit names every one of them. */
#define TH_INPUT(i) (1u << ((i) <= TH_MAX_INPUTS - 1 ? (i) : TH_MAX_INPUTS - 1))
#define TH_OUTPUT(i) (1u << (TH_MAX_INPUTS + (i)))

enum {
    TH_OP_BROADCASTS = 1 << 0, /* inputs broadcast to output 0; each input gradient is handed out in the output's shape
                                  and summed by the driver */
    TH_OP_CONTIGUOUS =
        1 << 1, /* wants contiguous inputs, output gradients and destinations: the driver copies where they are not */
    TH_OP_CANNOT_ADD = 1 << 2, /* backward always overwrites: the driver adds */
    TH_OP_RECOMPUTE = 1 << 3,  /* its results are not kept for backward but recomputed */
    TH_OP_VIEW = 1 << 4, /* the output shares the memory of the one input: the shape rule calls th_call_view, no kernel
                            runs. Its gradient is the same view of the input's; where elements lie on one another, they
                            are added up there */
    TH_OP_IN_PLACE = 1 << 5,   /* an input gradient may lie in the memory of output gradient 0 (same element read before
                                  it is written) */
    TH_OP_ANY_LAYOUT = 1 << 6, /* output 0 lies in memory as input 0 does when their shapes agree (elementwise) */
    TH_OP_OVER_INPUT = 1 << 7  /* the gradient of input 0 may lie in the memory of its saved value: backward has read it
                                  before it writes there */
};

typedef struct th_op {
    const char *name;
    const char *value, *gradient;    /* the formulas as a person reads them */
    int n_inputs;                    /* or TH_ANY_INPUTS */
    uint32_t optional;               /* TH_INPUT bits of inputs that may be NULL */
    uint32_t precomputed;            /* TH_INPUT bits of inputs whose gradient forward can compute on the way, where
                                     backward would have to recompute the values: when all those wanted have
                                     empty, contiguous memory, and no other input but those with identity gradients
                                     requires one, recording hands it to forward as input_gradient. One differentiable
                                     output, of one element. Otherwise backward computes them as usual */
    int n_outputs;                   /* 0 counts as 1 */
    uint32_t differentiable_outputs; /* bits 1 << i; 0: output 0 alone */
    size_t attributes_size;
    uint32_t flags; /* TH_OP_* */
    /* what is kept for backward, which finds data NULL in every other operand: TH_INPUT and TH_OUTPUT bits */
    uint32_t saves;                    /* what every backward reads */
    uint32_t saves_for[TH_MAX_INPUTS]; /* what the gradient of input i reads besides (any number of inputs: entry 0
                                          counts for all) */
    /* inputs whose gradient is output gradient 0 itself, summed where they broadcast to it: the driver hands it on,
     * backward is not asked for them */
    uint32_t identity_gradients;
    th_status (*shape)(th_call *call);
    void (*forward)(const th_call *call);
    /* NULL: not differentiable, or a view, or all gradients are identities */
    void (*backward)(const th_call *call);
    const void *kernel; /* what a forward and backward shared by several operations computes with */
    size_t plan_size;   /* bytes of what .plan writes, at most TH_MAX_PLAN */
    /* Decides before every forward and backward what it will do and what scratch memory it needs, in plan_size bytes at
     * `plan`, which are call->plan afterwards. It may read the geometry of every operand and note where its data lies,
     * but read no data: with shapes_only there is none, and nothing follows. May be NULL. */
    void (*plan)(const th_call *call, bool backward, void *plan);
    int64_t (*multiply_adds)(const th_call *call); /* of forward, for the printed tape; may be NULL: 0 */
    th_tensor *(*composed)(const void *attributes, th_tensor *const *inputs,
                           int n_inputs); /* a fused operation: what output 0 equals */
    const char *not_differentiable;       /* the reason, when it is not */
    const th_sample *samples;             /* ended by an entry without a name */
} th_op;

/* -- what its functions are given -- */

/* What an operation's functions see of a tensor. */
typedef struct th_array {
    bool given; /* false: an optional input left out, an output nobody asked for, a gradient not needed or not there
                   (then zero) */
    void *data; /* first element; NULL when not given, in a shape rule, and in backward for what was not saved */
    th_dtype dtype;
    int ndim;
    int64_t size[TH_MAX_DIMS], stride[TH_MAX_DIMS]; /* elements */
    char axes[TH_MAX_DIMS + 1];                     /* letters or ' '; "" when unnamed */
} th_array;

/* The random numbers of one recorded call, the same when it is replayed: Philox 4x32-10 with this key, counter (column
 * / 4, row, call, step). */
typedef struct th_random_call {
    uint32_t key[2];
    uint32_t call, step;
} th_random_call;

struct th_call {
    th_context *ctx;
    const th_op *op;
    const void *attributes; /* the bytes copied at record time; a shape rule may complete them (negative axes) through
                               th_call_attributes */
    int n_inputs, n_outputs;
    th_array *input;           /* [n_inputs] */
    th_array *output;          /* [n_outputs]; forward computes those that are given */
    th_array *output_gradient; /* [n_outputs], backward: dL/d output, of the output's shape, any strides; not given
                                  means zero */
    th_array *input_gradient;  /* [n_inputs], backward: where dL/d input goes; not given means not needed */
    bool *add;                 /* [n_inputs], backward: add to what is there instead of overwriting it */
    bool training;             /* the mode when the call was recorded (given to the shape rule and forward too) */
    bool precomputed;          /* forward: input_gradient is on offer (th_op.early); backward: what forward wrote there,
                                  for an output gradient of 1, still stands in input_gradient; nothing saved is given */
    th_random_call random;     /* after th_call_draw in the shape rule */
    const void *plan;          /* what .plan wrote; forward and backward find their scratch memory by it */
    void *scratch;             /* the bytes that the plan has reserved (th_call_scratch), 64-byte aligned */
};

/* The number of elements, and whether they lie row-major without gaps. */
TH_API int64_t th_array_numel(const th_array *array);
TH_API bool th_array_contiguous(const th_array *array);

/* -- what a shape rule calls -- */

/* Declares output i: contiguous, row-major. axes: a letter or ' ' for each axis; NULL or "": unnamed. The shape rule
 * must declare output 0, and every other output that the caller requests or that is saved. */
TH_API void th_call_output(th_call *call, int i, th_dtype dtype, int ndim, const int64_t *size, const char *axes);
/* After th_call_output: lays the output in memory in this order of its axes (outermost first) instead. */
TH_API void th_call_output_order(th_call *call, int i, const int *order);
/* The attributes, writable in a shape rule only. */
TH_API void *th_call_attributes(th_call *call);
/* Ends a shape rule with an error: th_call_fail(call, TH_ERROR_SHAPE, "inner sizes differ: a is %s, b is %s", ...); the
 * operation's name and the caller's line are added around it. Returns code. */
TH_API th_status th_call_fail(th_call *call, th_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* "(B=2, T=4, 3)" into text (of TH_SHAPE_TEXT bytes), which is returned. */
TH_API const char *th_array_text(const th_array *array, char *text);
/* The same into a temporary of the enclosing block (C only). */
#define TH_TEXT(array) th_array_text((array), (char[TH_SHAPE_TEXT]){0})
/* *axis made non-negative; an error sentence if it is outside [-ndim, ndim). */
TH_API th_status th_call_axis(th_call *call, int *axis, int ndim);
/* Checks that input i is floating / an index type / bool. */
TH_API th_status th_call_floating(th_call *call, int i);
TH_API th_status th_call_index_type(th_call *call, int i);
TH_API th_status th_call_bool(th_call *call, int i);
/* Checks that all given floating inputs have one type, the first's. */
TH_API th_status th_call_same_type(th_call *call);
/* NumPy's broadcast of two shapes into size/ndim (which may be a's own); TH_ERROR_SHAPE naming both if they do not fit.
 */
TH_API th_status th_call_broadcast(th_call *call, const th_array *a, const th_array *b, int *ndim, int64_t *size);
/* Ready-made shape rules: all inputs broadcast together into output 0, floating ones of one type; of any types into an
 * output of this one. */
TH_API th_status th_shape_elementwise(th_call *call);
TH_API th_status th_shape_broadcast(th_call *call, th_dtype dtype);
/* In the shape rule of a view: output 0 has these strides (elements, of any sign) and starts `offset` elements after
 * input 0's first. They must come from input 0's strides: where its gradient lies otherwise than its value, the rule is
 * asked again with the gradient's. TH_ERROR_SHAPE when the view leaves the memory that input 0's elements span. */
TH_API void th_call_view(th_call *call, int ndim, const int64_t *size, const int64_t *stride, int64_t offset,
                         const char *axes);
/* This call draws random numbers: gives it call->random, the same ones whenever it is replayed. Once: a second time
 * changes nothing. */
TH_API void th_call_draw(th_call *call);

/* -- scratch memory, planned once (th_op.plan) -- */

/* In .plan: reserves that many elements of so many bytes for this run, from a 64-byte boundary on. Returns their place
 * for th_call_scratch. A negative count, and what does not fit into a size_t, is TH_ERROR_MEMORY when the plan is done.
 */
TH_API size_t th_plan_scratch(const th_call *call, int64_t count, size_t element);
/* In .plan: what is reserved from here on may lie over what was reserved at this place and after it: for steps that
 * need their memory one after the other. */
TH_API void th_plan_reuse(const th_call *call, size_t place);
/* In forward and backward: the memory at a place that the plan reserved, NULL when all in all it reserved none.
 * Uninitialized, and given back afterwards. */
TH_API void *th_call_scratch(const th_call *call, size_t place);

/* -- samples: what the gradient check runs an operation on -- */

typedef enum th_sample_kind {
    TH_SAMPLE_REAL,     /* the floating type under test, uniform on [low, high] ([-1, 1] when both are 0) */
    TH_SAMPLE_DISTINCT, /* the same, no two elements closer than 4 / numel of half the range: for max and the like */
    TH_SAMPLE_INDEX,    /* int64 on [low, high) */
    TH_SAMPLE_BOOL,     /* true with probability high (1/2 when 0) */
    TH_SAMPLE_ABSENT    /* an optional input left out */
} th_sample_kind;

typedef struct th_sample_input {
    th_shape shape;
    th_sample_kind kind;
    double low, high;
    int n_kinks; /* values are kept `clearance` (0: 0.05) away from these */
    double kinks[3];
    double clearance;
    bool constant; /* no gradient is asked for */
} th_sample_input;

/* In a sample's list of inputs: one left out. */
#define TH_ABSENT                                                                                                      \
    {                                                                                                                  \
        .kind = TH_SAMPLE_ABSENT                                                                                       \
    }

struct th_sample {
    const char *name;                     /* what it covers: "broadcast", "causal"; NULL ends a list of samples */
    const void *attributes;               /* NULL when the operation has none */
    int n_inputs;                         /* at most TH_MAX_SAMPLE_INPUTS */
    th_sample_input input[TH_MAX_INPUTS]; /* the ninth is described as the first is, and so on */
    double tolerance;                     /* 0: the checker's default */
};

/* -- running one -- */

/* Runs an operation and records it. inputs: [n], NULL where optional. extra: [n_outputs - 1] results asked for besides
 * output 0 are stored through the non-NULL entries; extra itself may be NULL. Returns output 0, of the tape; NULL with
 * the error pending. Without any input the operation runs in the context that this thread used last. */
TH_API th_tensor *th_apply_n(const th_op *op, const void *attributes, int n, th_tensor *const *inputs,
                             th_tensor **const *extra);
/* Whether th_apply_n would take these operands: its checks, the shape rule's among them, and nothing else. For a
 * function that runs a composition in place of its fused operation: errors then name the operation all the same. */
TH_API th_status th_apply_check(const th_op *op, const void *attributes, int n, th_tensor *const *inputs) TH_MUST_CHECK;
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

/* The built-in operations: th_op_count of them, th_op_at(0 .. count-1), or by name; NULL when there is none. */
TH_API int th_op_count(void);
TH_API const th_op *th_op_at(int index);
TH_API const th_op *th_op_find(const char *name);

TH_END_DECLS

#endif
