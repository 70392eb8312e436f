/* Elementwise operations, copies and sums of strided arrays. They apply the contiguous kernels of src/kernels to
 * arrays in any layout. All of them use the context's threads; the work is cut by size. */
#ifndef TH_TENSOR_ELEMENTWISE_H
#define TH_TENSOR_ELEMENTWISE_H

#include "kernels/kernels.h"
#include "tapehead/op.h"
#include "tensor/threaded_loop.h"

/* destination = kernel(operand[0], ...), or += with add. Operands broadcast to the destination's shape; element types
 * may differ. Computes in place if an operand has the destination's memory and strides. At most TH_MAX_OPERANDS
 * operands (tensor/strided_iterator.h). */
void th_elementwise(const th_context *ctx, th_elementwise_kernel *kernel, const void *parameters,
                    const th_array *destination, bool add, int n_operands, const th_array *const *operand);

/* For operations: TH_ELEMENTWISE(call, exp, NULL, &call->output[0], false, &call->input[0]) runs the kernel `exp` for
 * the call's floating type (th_call_kernels). */
#define TH_ELEMENTWISE(call, kernel, parameters, destination, add, ...)                                                \
    th_elementwise((call)->ctx, th_call_kernels(call)->kernel, (parameters), (destination), (add),                     \
                   (int)(sizeof((const th_array *[]){__VA_ARGS__}) / sizeof(const th_array *)),                        \
                   (const th_array *const[]){__VA_ARGS__})

/* Returns the kernels for the call's floating type: the first floating input's, or else the first output's. */
const th_kernels *th_call_kernels(const th_call *call);

/* destination = source, or += with add (floating types only). Both have one element type; the source broadcasts. */
void th_copy_array(const th_context *ctx, const th_array *destination, const th_array *source, bool add);
/* destination = source, converted as in tensor/convert.h. The source broadcasts. With storage types as
 * th_convert_storage: nothing broadcasts. */
void th_convert_array(const th_context *ctx, const th_array *destination, const th_array *source);
/* Sets every element of destination to value. Elements of a storage type become 0. */
void th_fill_array(const th_context *ctx, const th_array *destination, double value);

/* Sums source over the axes that the destination lacks or has with size 1, the reverse of broadcasting. Sets the
 * destination to the sum, or adds the sum to it (add). Blocks of fixed size are summed first and then combined in
 * order. Large partial sums are in step_memory; on TH_ERROR_MEMORY the destination does not change. */
void th_sum_to_array(th_context *ctx, const th_array *destination, const th_array *source, bool add);
/* Returns the bytes of scratch memory that th_sum_with_scratch needs. */
size_t th_sum_scratch_bytes(const th_array *destination, const th_array *source, bool add);
/* As th_sum_to_array, for an operation that provides the scratch memory, aligned to 64 bytes. */
void th_sum_with_scratch(const th_context *ctx, const th_array *destination, const th_array *source, bool add,
                         void *scratch);

/* target += source, element by element in order, so that elements of target may overlap. Both have one shape and one
 * floating type. */
void th_add_at_offsets(const th_array *target, const th_array *source);

#endif
