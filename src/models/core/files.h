/* Files for the second library: opening, writing and publishing them, checksums, numbers and UTF-8 as text. */
#ifndef TH_MODELS_CORE_FILES_H
#define TH_MODELS_CORE_FILES_H

#include "io/text_output.h"
#include "kernels/machine/crc32c.h"
#include "platform/atomic_file.h"
#include "platform/regular_file.h"
#include "platform/system_calls.h"
#include "tensor/decimal.h"
#include "tensor/utf8.h"

#include "models/posix/posix.h"

#endif
