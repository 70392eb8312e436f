/* Parameters lie one after another in blocks that never move; gradients, and in src/nn the moments of an optimizer,
 * mirror a block's layout, so that a step, a norm or a checksum walks a few contiguous runs. Names and modules are
 * src/nn's matter. */
#ifndef TH_TENSOR_PARAMETER_H
#define TH_TENSOR_PARAMETER_H

#include "tensor/tensor.h"

/* Where one parameter lies. Gaps between entries hold zeros only. */
typedef struct th_parameter_entry {
    struct th_parameter_block *block;
    th_tensor_impl *tensor;
    size_t offset, bytes;                       /* in the block; whole cache lines, the rest of the last one is zero */
    int owners;                                 /* modules that have it */
    struct th_parameter_entry *previous, *next; /* of the block, by offset */
    struct th_parameter_entry *successor;       /* reserved for it where it is about to move; else NULL */
    void *mark;                                 /* of who walks the entries, meanwhile; else NULL */
} th_parameter_entry;

typedef struct th_parameter_block {
    th_dtype dtype;
    size_t capacity, used; /* bytes */
    char *data;            /* NULL in a shapes-only context */
    char *gradient;        /* mirrors data; NULL until has_gradient, and in a shapes-only context */
    bool has_gradient;     /* then no parameter joins the block any more */
    size_t gradient_bytes;
    th_parameter_entry *first, *last;
    struct th_parameter_block *next; /* of the context, newest first */
} th_parameter_block;

/* A new parameter, all zeros, that does not yet ask for a gradient, owned by one module. NULL with the error stored. */
th_tensor_impl *th_parameter_new(th_context *ctx, th_dtype dtype, th_shape shape, const char *operation);
/* One owner more, one less; the last one frees it (at the next clear if the tape still uses it). */
void th_parameter_share(th_tensor_impl *t);
void th_parameter_free(th_tensor_impl *t);
/* NULL for a tensor that does not lie in a block. */
static inline th_parameter_entry *th_parameter_entry_of(const th_tensor_impl *t)
{
    return t->own_storage.parameter;
}
/* *memory: t's part of its block's gradient; TH_ERROR_MEMORY. */
th_status th_parameter_gradient_memory(const th_tensor_impl *t, th_storage *memory);
/* Room for t as `dtype` in another block, its successor; then either the move itself, which cannot fail (values
 * converted, gradient emptied, the handle stays), or nothing has happened. */
th_status th_parameter_reserve(th_tensor_impl *t, th_dtype dtype, const char *operation);
void th_parameter_move(th_tensor_impl *t);
void th_parameter_unreserve(th_tensor_impl *t);

/* Called by tensor/handle.c when nobody needs a parameter's bytes any more, and by th_context_free. */
void th_parameter_release(th_context *ctx, th_storage *storage);
void th_parameter_blocks_destroy(th_context *ctx);

#endif
