/* Checks the scales of blocks, which are float16. A scale that is infinite or NaN makes all numbers of the block NaN.
 * Numbers of other types may be infinite or NaN, as in transformers and llama.cpp. */
#include "models/gguf/blocks.h"

#include <string.h>

#include "models/core/context.h"
#include "models/core/kernels.h"

enum { PIECE = 1 << 17 }; /* blocks that one thread checks at a time */

typedef struct checking {
    const char *data;
    int64_t count, bytes; /* the number of blocks; the bytes of one block */
    int first, scales;    /* the offset of the scales in a block, and their number */
    _Atomic bool damaged;
} checking;

/* Returns the first damaged block of begin .. end - 1, or -1. */
static int64_t find_damaged(const checking *c, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++)
        for (int k = 0; k < c->scales; k++) {
            uint16_t scale;
            memcpy(&scale, c->data + i * c->bytes + c->first + 2 * k, sizeof scale);
            if ((scale & 0x7c00) == 0x7c00)
                return i;
        }
    return -1;
}

static void check_piece(void *shared, int64_t index, int worker)
{
    (void)worker;
    checking *c = shared;
    if (find_damaged(c, index * PIECE, th_smaller((index + 1) * PIECE, c->count)) >= 0)
        c->damaged = true;
}

int64_t th_gguf_damaged_block(th_context *ctx, const th_gguf_type *type, const void *data, int64_t bytes)
{
    const th_block_format *format = th_block_format_of(type->dtype);
    if (format == NULL)
        return -1;
    checking c = {.data = data,
                  .count = bytes / type->bytes,
                  .bytes = type->bytes,
                  .first = format->scale,
                  .scales = format->scales};
    th_parallel(th_threads(ctx), th_ceil_div(c.count, PIECE), check_piece, &c);
    return c.damaged ? find_damaged(&c, 0, c.count) : -1;
}

bool th_gguf_check_blocks(const th_gguf *file, const th_gguf_tensor *tensor, const void *data)
{
    const int64_t block = th_gguf_damaged_block(file->ctx, tensor->type, data, tensor->bytes);
    return block < 0 || th_gguf_refuse(file, "the scale of block %lld of %s is infinite or NaN; it must be finite",
                                       (long long)block, tensor->name);
}
