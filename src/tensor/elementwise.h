/* Loops over strided arrays: what turns the contiguous kernels into operations on any layout. All of these are
 * threaded, cut by size. */
#ifndef TH_TENSOR_ELEMENTWISE_H
#define TH_TENSOR_ELEMENTWISE_H

#include "kernels/kernels.h"
#include "tapehead/op.h"

enum { TH_MAX_OPERANDS = 8 };

/* destination (+)= kernel(operands...). Operands broadcast NumPy's way to the destination's shape (aligned at the last
 * axis); element types may differ. Strided operands pass through small contiguous buffers, so that kernels see
 * contiguous memory only; with add, the result is added there. operand[0] is the first source. Works in place when an
 * operand lies exactly where the destination does. */
void th_elementwise(const th_context *ctx, th_elementwise_kernel *kernel, const void *parameters,
                    const th_array *destination, bool add, int n_operands, const th_array *const *operand);

/* For operations: TH_ELEMENTWISE(call, exp, NULL, &call->output[0], false, &call->input[0]) runs the map `exp` of the
 * destination's floating type (of the first operand's for a bool destination). */
#define TH_ELEMENTWISE(call, kernel, parameters, destination, add, ...)                                                \
    th_elementwise((call)->ctx, th_call_kernels(call)->kernel, (parameters), (destination), (add),                     \
                   (int)(sizeof((const th_array *[]){__VA_ARGS__}) / sizeof(const th_array *)),                        \
                   (const th_array *const[]){__VA_ARGS__})

/* The kernels of the call's floating type: the first floating input's, else the first output's. */
const th_kernels *th_call_kernels(const th_call *call);

/* destination = source, or += for floating types; the same element type, source broadcast to the destination. */
void th_copy_array(const th_context *ctx, const th_array *destination, const th_array *source, bool add);
/* destination = source converted as C does (bool: != 0), broadcast. */
void th_convert_array(const th_context *ctx, const th_array *destination, const th_array *source);
void th_fill_array(const th_context *ctx, const th_array *destination, double value);
/* destination (+)= source summed over the axes that destination lacks or has with size 1 (the reverse of broadcasting).
 * In fixed blocks of rows, combined in order. Partial sums lie in a block of the step's memory, where they need one: on
 * TH_ERROR_MEMORY the destination is left as it was. */
void th_sum_to_array(th_context *ctx, const th_array *destination, const th_array *source, bool add);
/* The same for an operation, whose scratch memory (64-byte aligned) has room for so many bytes. */
size_t th_sum_scratch(const th_array *destination, const th_array *source, bool add);
void th_sum_within(const th_context *ctx, const th_array *destination, const th_array *source, bool add, void *scratch);

/* target += source, element by element in order: for a target some of whose elements lie on one another. Of one shape
 * and floating type. */
void th_add_at_offsets(const th_array *target, const th_array *source);

/* Runs task for rows 0 .. rows-1 in fixed chunks, threaded; worker < th_threads for scratch. cost_per_row: in plain
 * passes over an element. */
typedef void th_rows_task(void *shared, int64_t first, int64_t end, int worker);
void th_for_rows(const th_context *ctx, int64_t rows, int64_t cost_per_row, th_rows_task *task, void *shared);

#endif
