/* The parts of th_check_op (check_op.c): nodes, guards and their memory, the graph around an operation, the variants of
 * its conditions, special values, and checks of sizes. */
#ifndef TH_CHECKER_CHECK_OP_PARTS_H
#define TH_CHECKER_CHECK_OP_PARTS_H

#include "autograd/frame.h"
#include "checker/bytes.h"
#include "checker/checker.h"
#include "tapehead/op.h"

/* -- check_op_nodes.c --
 * The nodes around an operation in the graph of th_check_op. Views lay its operands out, copies make results of
 * leaves, and probes have known gradients. */

/* The memory layout of an operand: row-major; the last two axes exchanged, with gaps; the same without gaps. */
typedef enum th_layout { TH_LAYOUT_PLAIN, TH_LAYOUT_GAPS, TH_LAYOUT_EXCHANGED, TH_LAYOUTS } th_layout;

/* Returns a tensor that th_operand_view turns into x in this layout. Frees x, unless it returns x. NULL with the error
 * pending. */
th_tensor *th_operand_base(th_tensor *x, th_layout layout);
/* Returns the view of a base in this layout. */
th_tensor *th_operand_view(th_tensor *base, th_layout layout);

/* y = x, in the layout of x. */
extern const th_op th_op_check_copy;

/* A probe is y = factor * sum over all inputs x and their elements of c x. */
enum { TH_MAX_PROBED = TH_MAX_SAMPLE_INPUTS + 2 * TH_MAX_OUTPUTS + 1 };

typedef struct th_probe_attributes {
    double factor;
    const double *c[TH_MAX_PROBED]; /* [elements of input i], row-major; NULL: 1 for each */
    int half[TH_MAX_PROBED];        /* 1: elements 0, 2, ... have the factor 0; 2: elements 1, 3, ... */
} th_probe_attributes;

/* The inputs of a probe, and their constants. */
typedef struct th_probe {
    th_tensor *input[TH_MAX_PROBED];
    th_probe_attributes attributes;
    int count;
} th_probe;

/* Adds an input with its constants; half: see th_probe_attributes. */
void th_probe_add(th_probe *p, th_tensor *t, const double *c, int half);
/* Applies the probe to its inputs. */
th_tensor *th_probe_apply(const th_probe *p);

/* -- check_op_memory.c --
 * The memory of a guarded kernel: walls around arrays that it writes, checksums of arrays that it only reads. A
 * finding is a mistake of a kernel that a comparison of gradients would not show: see th_check_op. */

enum {
    TH_FINDING_TEXT = 400,
    TH_MAX_READ = TH_MAX_SAMPLE_INPUTS + 2 * TH_MAX_OUTPUTS,
    TH_MAX_GUARDED = TH_MAX_SAMPLE_INPUTS + TH_MAX_OUTPUTS,
    TH_MAX_PLANS = 4
};

/* An array that a kernel may write, and its memory during a run. */
typedef struct th_guarded {
    th_array *array;          /* the call's */
    th_array original;        /* as the driver passed it */
    th_array *alias;          /* an array in the same memory (TH_OP_IN_PLACE, TH_OP_OVER_INPUT), or NULL */
    bool may_be_read;         /* the kernel may read its values */
    unsigned char *block;     /* [block_bytes]: the elements, and memory that the kernel must not change */
    unsigned char *element;   /* the first element, within block */
    unsigned char *result[2]; /* [bytes]: the elements after either run, contiguous */
    size_t block_bytes, bytes;
} th_guarded;

/* A guarded operation, and what its last run showed. */
typedef struct th_guard {
    th_op op; /* first, so that a call's op is also its guard */
    const th_op *original;
    char finding[TH_FINDING_TEXT];        /* the first mistake of a kernel, or "" */
    th_scratch_map map;                   /* of the last plan */
    int plan_count;                       /* plans made so far */
    uint64_t planned_bytes[TH_MAX_PLANS]; /* bytes that the first plans reserved */
    th_guarded guarded[TH_MAX_GUARDED];
    int count;
    unsigned char *memory;     /* [memory_bytes]: walls and results, then values for missing operands */
    unsigned char *missing[2]; /* [missing_bytes] */
    size_t memory_bytes, missing_bytes;
} th_guard;

/* Bytes of uninitialized memory: NaN in either floating type, or a small finite number. Missing operands have another
 * finite number, so that a copied one does not look like memory that the kernel did not write. TH_WALL: bytes on each
 * side of an array that the kernel must not change. */
enum { TH_FILL = 0xFF, TH_OTHER_FILL = 0x3C, TH_MISSING_FILL = 0x3D, TH_WALL = 256 };

/* Findings. */

/* Notes a finding, unless there is one. */
void th_guard_note_mistake(th_guard *guard, const char *format, ...) TH_FORMAT(2, 3);
/* Returns "forward" or "backward". */
const char *th_kernel_name(bool backward);
/* Writes the name of an array of the call to text, and returns text: "x1", "output 0", "the gradient of x1", "the
 * gradient of output 0". */
const char *th_guard_array_name(const th_call *call, const th_array *array, char *text, size_t size);
#define TH_ARRAY_NAME(array) th_guard_array_name(call, (array), (char[64]){0}, 64)

/* Elements of strided arrays as bytes. */

enum { TH_AS_IT_IS = -1 };
/* Copies the elements to contiguous memory. Then overwrites them with the byte fill, unless it is TH_AS_IT_IS. */
void th_copy_elements_out(const th_array *array, unsigned char *from, unsigned char *to, int fill);
/* Copies them back. */
void th_copy_elements_in(const th_array *array, unsigned char *to, const unsigned char *from);
/* Computes how many elements the array extends before and behind its first one. */
void th_compute_extent(const th_array *array, int64_t *before, int64_t *behind);

/* Arrays that a kernel may only read. */

typedef struct th_read_only {
    const th_array *array[TH_MAX_READ];
    th_array before[TH_MAX_READ];
    uint64_t sum[TH_MAX_READ];
    int count;
} th_read_only;

/* Computes the checksums of all arrays that the kernel may only read. */
void th_read_only_begin(const th_guard *guard, const th_call *call, bool backward, th_read_only *r);
/* Notes the first array that changed since th_read_only_begin. */
void th_read_only_check(th_guard *guard, const th_call *call, bool backward, const th_read_only *r);

/* Memory for arrays that it writes. */

/* Moves everything that the kernel may write between walls. Without memory it moves nothing; the error is pending. */
void th_guard_surround(th_guard *guard, const th_call *call, bool backward);
/* Moves every array back to the driver's memory, with the values of the second run. */
void th_guard_move_back(th_guard *guard);
/* The operands that a kernel reads: the inputs, then the outputs and their gradients in backward. */
th_array *th_guard_operand(const th_call *call, int i);
int th_guard_operand_count(const th_call *call, bool backward);
/* Returns whether the data of an operand is NULL: backward did not save it, or it has no elements. */
bool th_is_missing(const th_array *array);
/* Returns the address at which a missing operand gets the bytes TH_MISSING_FILL (other) or TH_FILL. Integers and bool
 * are 0 or 1, because a kernel may use them as an index. */
void *th_guard_missing_data(const th_guard *guard, const th_array *array, bool other);
/* Frees the memory of the guard. */
void th_guard_free(th_guard *guard, th_context *ctx);

/* -- check_op_guard.c --
 * Guards an operation: copies its descriptor. The kernels of the copy run twice, in memory of the checker. */

/* Makes guard->op a copy of op with guarded kernels. (A view has no kernel.) Free the guard with th_guard_free. */
void th_guard_init(th_guard *guard, const th_op *op);

/* -- check_op_graph.c --
 * The graph in which th_check_op runs an operation, and the conditions of a run. */

/* The conditions under which an operation runs. If all members except the masks are 0, they are the same as for
 * difference quotients. */
typedef struct th_variant {
    uint32_t required_inputs; /* bit i: input i requires a gradient */
    uint32_t given_outputs;   /* bit k: output k has a gradient */
    uint32_t flags;   /* which of the operation's TH_OP_IN_PLACE, TH_OP_OVER_INPUT and TH_OP_RECOMPUTE stay set */
    bool precomputed; /* th_op.precomputed stays set */
    bool inputs_are_results; /* its inputs are results of other operations, not leaves */
    bool recomputed;         /* in a scope whose values are recomputed */
    bool shares_inputs;      /* its inputs are read before and after it, its outputs twice: gradients are added up */
    int half;   /* 1: output gradients are 0 in elements 0, 2, ...; 2: in elements 1, 3, ... Not with shares_inputs */
    int passes; /* number of forwards and backwards, which add to the same gradients; 0: 1 */
    int same_inputs[2]; /* the first of these inputs is used for both; if they are equal, nothing changes */
    int expanded_input; /* 1 + i: input i is expanded from its leaf, so that a stride is 0; 0: none */
    int special_input;  /* 1 + i: an element of input i is NaN or infinite; 0: none */
    bool followed;      /* another call, with other inputs, comes between forward and backward */
    bool other_mode;    /* in evaluation mode if the context is in training mode, and the reverse */
    double scale;       /* factor of the output gradients; 0: 1 */
} th_variant;

/* Returns whether one tensor is used for two inputs. */
static inline bool th_variant_repeats_input(const th_variant *variant)
{
    return variant->same_inputs[0] != variant->same_inputs[1];
}

/* Returns whether the inputs have other values than the sample's. The right gradients are then
 * th_graph.other_gradient. */
static inline bool th_variant_has_other_values(const th_variant *variant)
{
    return th_variant_repeats_input(variant) || variant->expanded_input > 0 || variant->special_input > 0;
}

/* The number of inputs or outputs in a mask, and the first of them. */
static inline int th_mask_count(uint32_t mask)
{
    return __builtin_popcount(mask);
}
static inline int th_mask_first(uint32_t mask)
{
    return __builtin_ctz(mask);
}

/* A sample's inputs, and the values and gradients that runs are compared with. */
typedef struct th_graph {
    th_context *ctx;
    th_guard *guard;
    const th_sample *sample;
    th_layout layout;
    th_tensor **inputs; /* bases */
    th_tensor **others; /* the inputs of another call, or NULL */
    const char *mode;   /* of the context, for the report: "" if it is the caller's */
    const bool *checked;
    th_settings settings; /* the context's */
    uint64_t random;
    double unit;                        /* the last place of 1 in the floating type, or of products in bfloat16 */
    double tolerance;                   /* for numbers that should be equal, relative to the largest of their kind */
    uint32_t checked_mask, output_mask; /* inputs that are checked, outputs that have a gradient */
    int64_t columns;                    /* elements of all checked inputs */
    int64_t first_column[TH_MAX_SAMPLE_INPUTS];                /* the column of each input's first element */
    int64_t rows[TH_MAX_OUTPUTS];                              /* elements of output k; 0 before its first use */
    double *value[TH_MAX_OUTPUTS], *cotangent[TH_MAX_OUTPUTS]; /* [rows] */
    double *saved_value[TH_MAX_OUTPUTS]; /* [rows]: of the sample's inputs, while value belongs to others */
    double *extra_gradient;              /* [columns]: the gradient that other readers of the inputs bring */
    double *gradient;                    /* [columns]: of the last run */
    double *reference[TH_MAX_OUTPUTS];   /* [columns]: under the cotangent of output k alone */
    double *other_gradient;              /* [columns]: of all outputs, where inputs have other values */
    double other_size;             /* the largest number in other_gradient, or the size of the terms of a sum there */
    char finding[TH_FINDING_TEXT]; /* a mistake in the last run, other than in gradients; or "" */
} th_graph;

/* Allocates the graph's arrays. Returns false with the error pending. Call th_graph_end in either case. */
bool th_graph_begin(th_graph *graph);
void th_graph_end(th_graph *graph);
/* Between these calls the inputs have other values than the sample's. The outputs of the first run become the values
 * that later runs must repeat. th_graph_end_other_values restores the sample's outputs. Calls must not nest. */
void th_graph_begin_other_values(th_graph *graph);
void th_graph_end_other_values(th_graph *graph);
/* Returns whether a equals b within the tolerance for numbers of this size, or both are NaN. */
bool th_graph_is_close(const th_graph *graph, double a, double b, double size);
/* Returns the number of elements of input i. */
int64_t th_graph_numel(const th_graph *graph, int i);
/* Runs forward, and backward where an input requires a gradient. Gradients go to graph->gradient, other mistakes to
 * graph->finding. False with the error pending. The tape is clear before and after. */
bool th_graph_run(th_graph *graph, const th_variant *variant);

/* -- check_op_variants.c --
 * The variants of th_check_op: the conditions under which it runs an operation. If a rule is wrong, it finds the
 * conditions that matter. */

/* Runs the operation under the conditions of the difference quotients, and keeps the gradients as the reference.
 * Returns false if a run failed (the error is pending) or if graph->finding says what is wrong. */
bool th_variants_set_reference(th_graph *graph);
/* Runs all variants. Reduces the first wrong one to the conditions that it needs, and reports it. Returns false with
 * the error pending. */
bool th_variants_check(th_graph *graph, th_gradient_report *report);
/* Returns whether outputs or gradients change from training to evaluation mode, or the reverse. The operation must then
 * be checked in both. False also if it rejects the other mode, or with the error pending. */
bool th_variants_mode_matters(th_graph *graph);

/* -- check_op_result.c --
 * Compares the results of a variant with the references, and reports a wrong one. */

/* Returns whether the last run, of this variant, has a finding, or a gradient that differs from the references. */
bool th_variant_is_wrong(const th_graph *graph, const th_variant *variant);
/* Reports the last run, of this variant, as wrong under the variant's conditions. */
void th_variant_report(const th_graph *graph, const th_variant *variant, th_gradient_report *report);

/* -- check_op_sizes.c --
 * Checks of an operation other than its gradients: empty tensors, and planning without data. */

/* Runs the operation on this sample with empty axes: for each size among its inputs, all axes of that size. It skips
 * shapes that the operation rejects, and samples with indices. TH_ERROR_VALUE, with the report, if the operation is
 * wrong. */
th_status th_check_op_empty(th_context *ctx, th_guard *guard, const th_sample *sample, th_dtype dtype,
                            th_gradient_report *report);
/* Plans the operation on its samples in a context of shapes only: it must reserve the scratch memory that it reserves
 * with data. Errors as above. */
th_status th_check_op_plans(th_context *ctx, th_guard *guard, const th_op *op, th_dtype dtype,
                            th_gradient_report *report);

/* -- check_op_values.c --
 * Special values in the inputs of an operation: NaN, infinities and 0. */

/* Sets an element of each input to NaN, and to an infinity if the sample gives no range. If no output depends on both
 * this element and another one, the other's gradient must stay the same. Reports a wrong gradient. Returns false with
 * the error pending. */
bool th_values_check(th_graph *graph, th_gradient_report *report);

/* The elements that are 0 between th_values_plant_zeros and th_values_remove_zeros. */
typedef struct th_planted {
    int64_t element[TH_MAX_SAMPLE_INPUTS]; /* -1: none */
    double value[TH_MAX_SAMPLE_INPUTS];    /* before */
} th_planted;

/* Sets an element of each checked input to 0 if its range contains 0. Returns whether there is one. */
bool th_values_plant_zeros(th_graph *graph, th_planted *zeros);
/* Restores the elements. */
void th_values_remove_zeros(th_graph *graph, const th_planted *zeros);

#endif
