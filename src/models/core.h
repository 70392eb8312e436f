/* The private interface between the two libraries: the core's internals that src/models may use. Files in
 * src/models include no other header of the core, except public ones. The core exports the functions with
 * TH_PRIVATE_API (private_api.h). Everything else here is a type, a macro or an inline function. */
#ifndef TH_MODELS_CORE_H
#define TH_MODELS_CORE_H

#include "autograd/tape.h"
#include "io/atomic_file.h"
#include "io/elements.h"
#include "io/system_calls.h"
#include "io/text_output.h"
#include "kernels/elementwise/scalar.h"
#include "kernels/kernels.h"
#include "kernels/machine/crc32c.h"
#include "kernels/machine/parallel.h"
#include "kernels/random/philox.h"
#include "kernels/sizes.h"
#include "nn/cache.h"
#include "nn/module.h"
#include "nn/optimizer_saved.h"
#include "nn/optimizer_state.h"
#include "ops/shared/rotary_scaling.h"
#include "processes/group.h"
#include "tensor/attachment.h"
#include "tensor/checked.h"
#include "tensor/context.h"
#include "tensor/convert.h"
#include "tensor/decimal.h"
#include "tensor/dtype.h"
#include "tensor/elementwise.h"
#include "tensor/error.h"
#include "tensor/format.h"
#include "tensor/gradient_buffer.h"
#include "tensor/memory.h"
#include "tensor/mode.h"
#include "tensor/random_state.h"
#include "tensor/shape.h"
#include "tensor/splitmix.h"
#include "tensor/strided_iterator.h"
#include "tensor/tensor.h"
#include "tensor/utf8.h"
#include "tensor/visible.h"

#endif
