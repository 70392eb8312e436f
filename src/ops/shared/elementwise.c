/* The forward and backward of elementwise operations. */
#include "ops/shared/elementwise.h"

#include "tensor/elementwise.h"

static th_elementwise_kernel *kernel_of(const th_call *call, th_elementwise_id id)
{
    const th_kernels *kernels = th_call_kernels(call);
    switch (id) {
#define ELEMENTWISE(name, sources, numbers)                                                                            \
    case th_elementwise_id_##name:                                                                                     \
        return kernels->name;
#include "elementwise.def"
#undef ELEMENTWISE
    case TH_ELEMENTWISE_KERNELS:
        break;
    }
    return NULL;
}

void th_elementwise_forward(const th_call *call)
{
    const th_elementwise_id *kernels = call->op->kernel;
    const th_array *operands[TH_MAX_INPUTS];
    for (int i = 0; i < call->n_inputs; i++)
        operands[i] = &call->input[i];
    th_elementwise(call->ctx, kernel_of(call, kernels[0]), call->attributes, &call->output[0], false, call->n_inputs,
                   operands);
}

void th_elementwise_backward(const th_call *call)
{
    const th_elementwise_id *gradient_kernels = (const th_elementwise_id *)call->op->kernel + 1;
    for (int i = 0; i < call->n_inputs; i++) {
        if (!call->input_gradient[i].given)
            continue;
        const uint32_t saves = call->op->saves | call->op->saves_for[i];
        const th_array *operands[TH_MAX_INPUTS + 2] = {&call->output_gradient[0]};
        int count = 1;
        for (int j = 0; j < call->n_inputs; j++)
            if (saves & TH_INPUT(j))
                operands[count++] = &call->input[j];
        if (saves & TH_OUTPUT(0))
            operands[count++] = &call->output[0];
        th_elementwise(call->ctx, kernel_of(call, gradient_kernels[i]), call->attributes, &call->input_gradient[i],
                       call->add[i], count, operands);
    }
}

void th_elementwise_by_dtype_forward(const th_call *call)
{
    th_elementwise_kernel *const *kernels = call->op->kernel;
    th_elementwise(call->ctx, kernels[call->input[0].dtype], NULL, &call->output[0], false, call->n_inputs,
                   (const th_array *const[]){&call->input[0], &call->input[1]});
}
