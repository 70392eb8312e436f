/* Contexts for the second library: errors, memory, modes, attached objects, and the text of messages. */
#ifndef TH_MODELS_CORE_CONTEXT_H
#define TH_MODELS_CORE_CONTEXT_H

#include "kernels/sizes.h"
#include "tensor/attachment.h"
#include "tensor/checked.h"
#include "tensor/error.h"
#include "tensor/format.h"
#include "tensor/memory.h"
#include "tensor/mode.h"
#include "tensor/visible.h"

#endif
