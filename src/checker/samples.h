/* Samples of an operation: shared by th_sample_inputs and th_check_op. */
#ifndef TH_CHECKER_SAMPLES_H
#define TH_CHECKER_SAMPLES_H

#include "kernels/dtype.h"
#include "tapehead/gradient_check.h"
#include "tapehead/op.h"
#include "tapehead/tensor.h"

/* Returns the description of input i. */
static inline const th_sample_input *th_sample_input_at(const th_sample *sample, int i)
{
    return &sample->input[i % TH_MAX_INPUTS];
}

/* Returns whether the checks compare the gradient of input i. */
static inline bool th_sample_is_checked(const th_sample *sample, int i, const th_tensor *input)
{
    return input && th_is_floating(th_dtype_of(input)) && !th_sample_input_at(sample, i)->constant;
}

/* Rejects a sample with impossible inputs, in the name of `operation`. Creating the inputs checks their shapes. */
th_status th_check_sample(th_context *ctx, const char *operation, const th_sample *sample);

#endif
