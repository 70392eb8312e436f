/* Maps with a truth value as their result, for every element type: operands are bool y, a, b (logical not: bool y, a).
 */
#ifndef TH_KERNELS_COMPARE_H
#define TH_KERNELS_COMPARE_H

#include "kernels/kernels.h"
#include "tapehead/base.h"

/* By the operands' element type. Comparisons with NaN are false, but for not_equal. */
extern th_map_kernel *const th_compare_equal[TH_DTYPE_COUNT];
extern th_map_kernel *const th_compare_not_equal[TH_DTYPE_COUNT];
extern th_map_kernel *const th_compare_less[TH_DTYPE_COUNT];
extern th_map_kernel *const th_compare_less_equal[TH_DTYPE_COUNT];

/* Of bool operands. */
th_map_kernel th_logical_and_map, th_logical_or_map, th_logical_not_map;

#endif
