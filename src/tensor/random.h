/* Fills tensors with random numbers. Element i (row-major) of call c of a stream in step s is a function of (seed,
 * stream, s, c, i). */
#ifndef TH_TENSOR_RANDOM_H
#define TH_TENSOR_RANDOM_H

#include "tensor/tensor.h"

/* Each function fills t, in any layout, with the next call of a stream. Errors: TH_ERROR_ARGUMENT for an illegal
 * range, TH_ERROR_STATE for a t that cannot be written, TH_ERROR_MEMORY. After an error the stream has not advanced. */

/* Uniform in [low, high). t has a floating type. */
th_status th_draw_uniform(th_tensor_impl *t, th_stream stream, const char *operation, double low, double high);
/* Normal. t has a floating type. */
th_status th_draw_normal(th_tensor_impl *t, th_stream stream, const char *operation, double mean,
                         double standard_deviation);
/* Integers, uniform in [low, high). t has an index type. */
th_status th_draw_integers(th_tensor_impl *t, th_stream stream, const char *operation, int64_t low, int64_t high);

#endif
