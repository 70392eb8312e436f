/* Kernels with a bool result. The tables are indexed by the element type of the operands. The kernels take y, a, b
 * (logical not: y, a). Comparisons with NaN are false, except not_equal. The logical kernels exist for bool only. */
#ifndef TH_KERNELS_ELEMENTWISE_COMPARE_H
#define TH_KERNELS_ELEMENTWISE_COMPARE_H

#include "kernels/kernels.h"
#include "tapehead/base.h"

typedef th_elementwise_kernel *const th_elementwise_by_dtype[TH_DTYPE_COUNT];

extern th_elementwise_by_dtype th_compare_equal, th_compare_not_equal, th_compare_less, th_compare_less_equal,
    th_compare_greater, th_compare_greater_equal;
extern th_elementwise_by_dtype th_logical_and_kernels, th_logical_or_kernels, th_logical_not_kernels;

#endif
