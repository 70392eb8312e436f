/* Files for the second library: opening, writing and publishing them, checksums, numbers and UTF-8 as text. */
#ifndef TH_MODELS_CORE_FILES_H
#define TH_MODELS_CORE_FILES_H

#include "io/atomic_file.h"
#include "io/regular_file.h"
#include "io/system_calls.h"
#include "io/text_output.h"
#include "kernels/machine/crc32c.h"
#include "tensor/decimal.h"
#include "tensor/utf8.h"

#endif
