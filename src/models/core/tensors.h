/* Tensors for the second library: types, shapes, elements, and memory that parameters borrow. */
#ifndef TH_MODELS_CORE_TENSORS_H
#define TH_MODELS_CORE_TENSORS_H

#include "io/elements.h"
#include "kernels/dtype.h"
#include "tensor/convert.h"
#include "tensor/gradient_buffer.h"
#include "tensor/parameter.h"
#include "tensor/parameter_observer.h"
#include "tensor/shape.h"
#include "tensor/storage_types.h"
#include "tensor/strided_iterator.h"
#include "tensor/tensor.h"

#endif
