/* Computation outside the tape for the second library: threads, kernels, random numbers. */
#ifndef TH_MODELS_CORE_KERNELS_H
#define TH_MODELS_CORE_KERNELS_H

#include "kernels/elementwise/scalar.h"
#include "kernels/kernels.h"
#include "kernels/machine/parallel.h"
#include "kernels/random/philox.h"
#include "kernels/storage/block_formats.h"
#include "tensor/context.h"
#include "tensor/random_state.h"
#include "tensor/splitmix.h"

#endif
