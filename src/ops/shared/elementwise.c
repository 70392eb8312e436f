/* The forward and backward of elementwise operations. */
#include "ops/shared/elementwise.h"

#include <string.h>

#include "tensor/elementwise.h"

static void run(const th_call *call, const th_elementwise_call *map, const th_array *destination, bool add)
{
    const th_array *const from[] = {call->input, call->output, call->output_gradient};
    const th_array *operand[sizeof map->reads / sizeof map->reads[0]];
    for (unsigned i = 0; i < map->count; i++)
        operand[i] = from[map->reads[i] / TH_MAX_INPUTS] + map->reads[i] % TH_MAX_INPUTS;
    th_elementwise_kernel *kernel;
    memcpy(&kernel, (const char *)th_call_kernels(call) + map->kernel, sizeof kernel);
    th_elementwise(call->ctx, kernel, call->attributes, destination, add, (int)map->count, operand);
}

void th_elementwise_forward(const th_call *call)
{
    const th_elementwise_kernels *maps = call->op->kernel;
    run(call, &maps->value, &call->output[0], false);
}

void th_elementwise_backward(const th_call *call)
{
    const th_elementwise_kernels *maps = call->op->kernel;
    for (int i = 0; i < call->n_inputs; i++)
        if (call->input_gradient[i].given)
            run(call, &maps->gradient[i], &call->input_gradient[i], call->add[i]);
}

void th_elementwise_by_dtype_forward(const th_call *call)
{
    th_elementwise_kernel *const *maps = call->op->kernel;
    th_elementwise(call->ctx, maps[call->input[0].dtype], NULL, &call->output[0], false, call->n_inputs,
                   (const th_array *const[]){&call->input[0], &call->input[1]});
}
