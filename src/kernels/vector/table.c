/* The table of this instance, made from the one list. */
#include "kernels/kernels.h"
#include "kernels/vector/vector.h"

extern const th_kernels TH_KERNEL(kernels);

const th_kernels TH_KERNEL(kernels) = {
#define MAP(name) .name = TH_KERNEL(name),
#define KERNEL(name, ...) .name = TH_KERNEL(name),
#include "kernels/kernels.def"
#undef MAP
#undef KERNEL
};
