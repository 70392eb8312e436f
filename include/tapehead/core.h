/* The core library, libtapehead: tensors, the tape, operations, modules, layers, transformers, optimizers, the
 * gradient checker, pictures, pages, progress lines and NumPy's array files. It needs libc, POSIX threads and, by default,
 * OpenMP. tapehead/tapehead.h states the contracts of both libraries. Read the headers in this order. */
#ifndef TAPEHEAD_CORE_H
#define TAPEHEAD_CORE_H

/* basic types, the context, tensors */
#include "tapehead/base.h"
#include "tapehead/context.h"
#include "tapehead/tensor.h"

/* operations, backward */
#include "tapehead/ops.h"
#include "tapehead/tape.h"

/* modules, layers, whole models */
#include "tapehead/module.h"

#include "tapehead/cache.h"
#include "tapehead/layers.h"
#include "tapehead/pooling.h"
#include "tapehead/transformer_block.h"

#include "tapehead/language_model.h"
#include "tapehead/lora.h"
#include "tapehead/losses.h"
#include "tapehead/transformer.h"

/* training, also with several processes */
#include "tapehead/group.h"

#include "tapehead/metrics.h"
#include "tapehead/optimizer.h"
#include "tapehead/weight_average.h"

/* pictures, pages, progress lines, NumPy's array files */
#include "tapehead/export.h"
#include "tapehead/npy.h"
#include "tapehead/picture.h"
#include "tapehead/progress.h"

/* your own operations, gradient checks */
#include "tapehead/check_function.h"
#include "tapehead/gradient_check.h"
#include "tapehead/op.h"

/* profiles */
#include "tapehead/profile.h"

#endif
