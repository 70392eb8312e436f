/* Blocks of parameters. Parameters lie one after another in blocks that never move. Gradients have the layout of their
 * block, and so do the moments of an optimizer (src/training). So an optimizer step, a norm or a checksum traverses a
 * few contiguous runs of memory. Names and modules belong to src/nn. */
#ifndef TH_TENSOR_PARAMETER_H
#define TH_TENSOR_PARAMETER_H

#include "tensor/tensor.h"

/* Where the numbers of a block are. */
typedef enum th_block_place {
    TH_BLOCK_ALLOCATED,
    TH_BLOCK_LENT,  /* in memory of the caller, such as a mapped file; the block has one entry */
    TH_BLOCK_ABSENT /* nowhere: the parameters wait for th_parameter_allocate or th_parameter_lend */
} th_block_place;

/* Memory for one parameter that the context's allocator does not provide. */
typedef struct th_lent_memory {
    void *data;                                /* aligned to elements; NULL in a shapes-only context */
    void (*release)(void *data, size_t bytes); /* called once with data that is not NULL */
} th_lent_memory;

/* The position of one parameter in a block. Gaps between entries contain only zeros. */
typedef struct th_parameter_entry {
    struct th_parameter_block *block;
    th_tensor_impl *tensor;
    size_t offset, bytes;                       /* in the block; whole cache lines, padded with zeros */
    int owners;                                 /* number of modules that contain the parameter */
    struct th_parameter_entry *previous, *next; /* in the block, by offset */
    struct th_parameter_entry *successor;       /* reserved in another block for a move; else NULL */
    struct th_parameter_entry *next_moving;     /* in the context's list of entries with a successor */
    void *mark;                                 /* for code that traverses the entries; else NULL */
} th_parameter_entry;

typedef struct th_parameter_block {
    th_dtype dtype;
    th_block_place place;
    size_t capacity, used;                     /* bytes */
    char *data;                                /* NULL in a shapes-only context, and if absent */
    void (*release)(void *data, size_t bytes); /* of a lent block; otherwise NULL */
    char *gradient;    /* same layout as data; NULL until has_gradient, and in a shapes-only context */
    bool has_gradient; /* true: no more parameters are added to the block */
    bool moving_out;   /* its parameters are about to move, so none is added */
    bool adapters;     /* it has parameters of adapters only, because gradients have the size of their block */
    size_t gradient_bytes;
    th_parameter_entry *first, *last;
    struct th_parameter_block *next; /* in the context's list, newest first */
} th_parameter_block;

/* Creates a parameter of zeros that one module owns. It does not require a gradient yet. adapter: it is in a block with
 * other parameters of adapters. After th_defer_matrix_memory, other parameters with two or more axes have no memory.
 * Returns NULL with an error pending: TH_ERROR_SHAPE, TH_ERROR_MEMORY. */
th_tensor_impl *th_parameter_new(th_context *ctx, th_dtype dtype, th_shape shape, bool adapter, const char *operation);
/* Adds an owner. */
void th_parameter_share(th_tensor_impl *t);
/* Removes an owner. Without owners, the parameter is forgotten by the observers and freed: at once, or at the next
 * th_tape_clear if the tape still uses it. */
void th_parameter_free(th_tensor_impl *t);
/* Returns the entry of a parameter; NULL for a tensor that is not in a block. */
static inline th_parameter_entry *th_parameter_entry_of(const th_tensor_impl *t)
{
    return t->own_storage.parameter;
}
/* Sets *memory to t's range in its block's gradient, which is allocated on demand. Errors: TH_ERROR_MEMORY. */
th_status th_parameter_gradient_memory(const th_tensor_impl *t, th_storage *memory);

/* Converting parameters to another type takes two steps, so that all of them move or none does: th_parameter_reserve
 * for each, then th_parameters_move. */

/* Reserves an entry for t in a block of type dtype. A new block, if one is needed, has at least `capacity` bytes; 0
 * means the default growth. Errors: TH_ERROR_SHAPE if the last axis is not whole elements of dtype, TH_ERROR_MEMORY. */
th_status th_parameter_reserve(th_tensor_impl *t, th_dtype dtype, size_t capacity, const char *operation);
/* Returns the bytes of an entry for t in a block of type dtype; 0 if its last axis is not whole elements of dtype. */
TH_PRIVATE_API size_t th_parameter_bytes(const th_tensor_impl *t, th_dtype dtype);
/* Moves all parameters to their reserved entries, and tells the observers (tensor/parameter_observer.h). Converts the
 * values, and the shapes to or from blocks, empties the gradients, and keeps the handles. If an error is pending, or an
 * observer lacks memory, releases the reserved entries instead and returns the error. */
th_status th_parameters_move(th_context *ctx, const char *operation);

/* Gives new memory to a parameter, which may have had no memory. The parameter then has this type, and the shape that
 * belongs to it; its values are undefined. capacity: as for th_parameter_reserve. Errors: TH_ERROR_SHAPE,
 * TH_ERROR_MEMORY. */
TH_PRIVATE_API th_status th_parameter_allocate(th_tensor_impl *t, th_dtype dtype, size_t capacity,
                                               const char *operation);
/* Does the same with the caller's memory, which has the parameter's values. The type must fit (th_parameter_bytes is
 * not 0), and all of these bytes must be accessible: blocks are copied in whole cache lines. They count as mapped.
 * After an error the caller still owns the memory. Errors: TH_ERROR_MEMORY. */
TH_PRIVATE_API th_status th_parameter_lend(th_tensor_impl *t, th_dtype dtype, const th_lent_memory *memory,
                                           const char *operation);
/* Returns whether the parameter is in lent memory. */
TH_PRIVATE_API bool th_parameter_is_lent(const th_tensor_impl *t);

/* Removes the parameter of a storage from its block. tensor/handle.c calls it when nothing holds the bytes. */
void th_parameter_release(th_context *ctx, th_storage *storage);
/* Releases all blocks. th_context_free calls it. */
void th_parameter_blocks_destroy(th_context *ctx);

#endif
