/* The table of this instance's kernels. */
#include "kernels/kernels.h"
#include "kernels/vector/vector.h"

extern const th_kernels TH_KERNEL(kernels);

const th_kernels TH_KERNEL(kernels) = {
#define KERNEL(name, ...) .name = TH_KERNEL(name),
#include "kernels.def"
#undef KERNEL
};
