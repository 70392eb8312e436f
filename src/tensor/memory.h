/* Memory of a context. The context's allocator provides all of it; every byte is counted and limited. */
#ifndef TH_TENSOR_MEMORY_H
#define TH_TENSOR_MEMORY_H

#include "private_api.h"
#include "tapehead/context.h"
#include "tensor/block_allocator.h"

/* Allocates memory outside the block allocators. bytes is rounded up to cache lines. Returns NULL, without an error,
 * if memory runs out. */
TH_PRIVATE_API void *th_allocate(th_context *ctx, size_t bytes);
/* Releases memory of th_allocate. bytes is the size that was requested. NULL is legal. */
TH_PRIVATE_API void th_release(th_context *ctx, void *memory, size_t bytes);

/* Allocates memory for numbers outside the block allocators. In a shapes-only context it is counted, but *memory is
 * NULL. Errors: TH_ERROR_MEMORY. */
TH_PRIVATE_API th_status th_allocate_numbers(th_context *ctx, size_t bytes, void **memory, const char *operation);
/* Releases memory of th_allocate_numbers. */
TH_PRIVATE_API void th_release_numbers(th_context *ctx, void *memory, size_t bytes);

/* Takes memory for numbers that is not in use yet: it counts as reserved, not as live. Otherwise as
 * th_allocate_numbers. */
th_status th_reserve_numbers(th_context *ctx, size_t bytes, void **memory, const char *operation);
/* Releases memory of th_reserve_numbers, which is no longer in use. */
void th_unreserve_numbers(th_context *ctx, void *memory, size_t bytes);
/* Counts bytes (whole cache lines) of reserved memory as live, because their use begins. */
void th_count_live(th_context *ctx, size_t bytes);
/* Undoes th_count_live. */
void th_uncount_live(th_context *ctx, size_t bytes);

/* Counts memory that the C library or another library allocates for the context. Errors: TH_ERROR_MEMORY beyond the
 * context's memory_limit. */
TH_PRIVATE_API th_status th_count_memory(th_context *ctx, size_t bytes, const char *operation);
/* Undoes th_count_memory. */
TH_PRIVATE_API void th_uncount_memory(th_context *ctx, size_t bytes);

/* Counts memory that a mapped file provides: it is in use, but not reserved. */
void th_count_mapped(th_context *ctx, size_t bytes);
/* Undoes th_count_mapped. */
void th_uncount_mapped(th_context *ctx, size_t bytes);

/* Sets the limit on the bytes from the allocator; 0: none. Returns the limit before. */
TH_PRIVATE_API size_t th_set_memory_limit(th_context *ctx, size_t limit);

/* Allocates a block from step_memory or owned_memory. Returns NULL with TH_ERROR_MEMORY pending if memory runs out. */
th_block *th_block_new(th_context *ctx, th_block_allocator *allocator, size_t bytes, const char *operation);

/* Sets TH_ERROR_MEMORY for a request of that many bytes. The message names the memory limit if that was the cause,
 * and the program's line that created most tensors if there are many. Returns TH_ERROR_MEMORY. */
TH_PRIVATE_API th_status th_fail_memory(th_context *ctx, const char *operation, size_t bytes);

/* Releases memory like th_release, but later: when enough other objects have been freed after it. Until then the
 * object in the memory can say that it was freed, so that using it is an error and not a crash. */
TH_PRIVATE_API void th_quarantine(th_context *ctx, void *memory, size_t bytes);
/* Releases everything in quarantine. */
void th_release_quarantine(th_context *ctx);

/* Returns where the context's block allocators get their chunks. */
th_chunk_source th_context_chunk_source(th_context *ctx);

/* Returns true if memory is aligned to 64 bytes, as the memory of an allocator must be. */
static inline bool th_is_aligned(const void *memory)
{
    return (uintptr_t)memory % 64 == 0;
}

#endif
