/* Random numbers for tensors: element i (row-major) of the c-th call of a stream within step s is a function of (seed,
 * stream, s, c, i). */
#ifndef TH_TENSOR_RANDOM_H
#define TH_TENSOR_RANDOM_H

#include "tensor/tensor.h"

/* Each fills t, of any layout, with the numbers of the stream's next call. On failure nothing is drawn:
 * TH_ERROR_ARGUMENT for bounds that make no sense, TH_ERROR_MEMORY. t has a floating type, for integers an index type.
 */
th_status th_draw_uniform(th_tensor_impl *t, th_stream stream, const char *operation, double low, double high);
th_status th_draw_normal(th_tensor_impl *t, th_stream stream, const char *operation, double mean,
                         double standard_deviation);
th_status th_draw_integers(th_tensor_impl *t, th_stream stream, const char *operation, int64_t low, int64_t high);

#endif
