/* Blocks of numbers with common scales. */
#ifndef TH_MODELS_GGUF_BLOCKS_H
#define TH_MODELS_GGUF_BLOCKS_H

#include "models/gguf/file.h"

/* Returns the number of the first block whose scale is infinite or NaN; -1 if all scales are finite, and for types
 * without blocks. */
int64_t th_gguf_damaged_block(th_context *ctx, const th_gguf_type *type, const void *data, int64_t bytes);
/* Checks the scales of a tensor whose elements are at data. Returns false with TH_ERROR_FILE pending. */
bool th_gguf_check_blocks(const th_gguf *file, const th_gguf_tensor *tensor, const void *data);

#endif
