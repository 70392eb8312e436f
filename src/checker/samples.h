/* What making the inputs of samples (th_sample_inputs) and checking operations on them (th_check_op) share. */
#ifndef TH_CHECKER_SAMPLES_H
#define TH_CHECKER_SAMPLES_H

#include "tapehead/gradient_check.h"
#include "tapehead/op.h"

/* What a sample says of input i. */
static inline const th_sample_input *th_sample_input_at(const th_sample *sample, int i)
{
    return &sample->input[i % TH_MAX_INPUTS];
}

/* Refuses, as `operation`, a sample whose inputs cannot be; their shapes are looked at when they are made. */
th_status th_check_description(th_context *ctx, const char *operation, const th_sample *sample);

#endif
