/* The nodes around an operation in the graph of th_check_op (check_op_parts.h). */
#include "checker/check_op_parts.h"

#include "kernels/sizes.h"
#include "tapehead/ops.h"
#include "tapehead/tape.h"
#include "tensor/convert.h"
#include "tensor/elementwise.h"
#include "tensor/tensor.h"

/* -- layouts -- */

/* Returns the shape of a base: the last two axes exchanged, and the last one twice as long if there are gaps. The size
 * of an axis is at most INT64_MAX / 8. */
static th_shape base_shape(th_layout layout, th_shape shape)
{
    const int n = shape.ndim;
    if (n > 1) {
        const int64_t last = shape.size[n - 1];
        shape.size[n - 1] = shape.size[n - 2];
        shape.size[n - 2] = last;
    }
    if (layout == TH_LAYOUT_GAPS)
        shape.size[n - 1] *= 2;
    return shape;
}

th_tensor *th_operand_view(th_tensor *base, th_layout layout)
{
    const int n = th_ndim(base);
    if (layout == TH_LAYOUT_PLAIN || n == 0 || th_is_storage_type(th_dtype_of(base)))
        return base;
    th_tensor *view = layout == TH_LAYOUT_GAPS ? th_slice(base, n - 1, 0, th_size(base, n - 1), 2) : base;
    return n > 1 ? th_swap_axes(view, n - 1, n - 2) : view;
}

th_tensor *th_operand_base(th_tensor *x, th_layout layout)
{
    if (layout == TH_LAYOUT_PLAIN || th_ndim(x) == 0 || th_is_storage_type(th_dtype_of(x)))
        return x;
    th_context *ctx = th_context_of(x);
    th_tensor *base = th_zeros(ctx, th_dtype_of(x), base_shape(layout, th_shape_of(x)));
    th_tensor *view = base ? th_operand_view(base, layout) : NULL;
    const bool good = view && th_copy_into(view, x) == TH_OK;
    th_tape_clear(ctx);
    th_tensor_free(x);
    if (good)
        return base;
    th_tensor_free(base);
    return NULL;
}

/* -- copy: y = x, in the layout of x -- */

static th_status copy_shape(th_call *call)
{
    const th_array *x = &call->input[0];
    th_call_output(call, 0, x->dtype, x->ndim, x->size, x->axes);
    return TH_OK;
}

static void copy_forward(const th_call *call)
{
    th_copy_array(call->ctx, &call->output[0], &call->input[0], false);
}

static void copy_backward(const th_call *call)
{
    th_copy_array(call->ctx, &call->input_gradient[0], &call->output_gradient[0], call->add[0]);
}

const th_op th_op_check_copy = {.name = "copy",
                                .n_inputs = 1,
                                .flags = TH_OP_ANY_LAYOUT,
                                .shape = copy_shape,
                                .forward = copy_forward,
                                .backward = copy_backward};

/* -- probe: y = factor * sum over all inputs x and their elements of c x -- */

static double coefficient(const th_probe_attributes *a, int i, int64_t element)
{
    const bool counts = a->half[i] == 0 || (int)(element % 2) != a->half[i] - 1;
    return counts ? a->factor * (a->c[i] ? a->c[i][element] : 1) : 0;
}

static void *address_of(const th_array *array, int64_t element)
{
    int64_t index[TH_MAX_DIMS];
    th_index_at(array->ndim, array->size, element, index);
    return (char *)array->data + th_offset_of(array->ndim, index, array->stride) * (int64_t)th_dtype_size(array->dtype);
}

static th_status probe_shape(th_call *call)
{
    th_call_output(call, 0, call->input[0].dtype, 0, NULL, NULL);
    return TH_OK;
}

static void probe_forward(const th_call *call)
{
    double sum = 0;
    for (int i = 0; i < call->n_inputs; i++)
        for (int64_t e = 0; e < th_array_numel(&call->input[i]); e++)
            sum += coefficient(call->attributes, i, e) *
                   th_number_read(call->input[i].dtype, address_of(&call->input[i], e));
    th_number_write(call->output[0].dtype, call->output[0].data, sum);
}

static void probe_backward(const th_call *call)
{
    const double dy = th_number_read(call->output_gradient[0].dtype, call->output_gradient[0].data);
    for (int i = 0; i < call->n_inputs; i++)
        for (int64_t e = 0; call->input_gradient[i].given && e < th_array_numel(&call->input_gradient[i]); e++)
            th_number_write(call->input_gradient[i].dtype, address_of(&call->input_gradient[i], e),
                            dy * coefficient(call->attributes, i, e));
}

static const th_op op_probe = {.name = "probe",
                               .n_inputs = TH_ANY_INPUTS,
                               .attributes_size = sizeof(th_probe_attributes),
                               .flags = TH_OP_CANNOT_ADD,
                               .shape = probe_shape,
                               .forward = probe_forward,
                               .backward = probe_backward};

void th_probe_add(th_probe *p, th_tensor *t, const double *c, int half)
{
    p->input[p->count] = t;
    p->attributes.c[p->count] = c;
    p->attributes.half[p->count++] = half;
}

th_tensor *th_probe_apply(const th_probe *p)
{
    return th_apply_n(&op_probe, &p->attributes, p->count, p->input, NULL);
}
