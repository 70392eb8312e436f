/* The tape as lists: its tensors in the order in which they appear, and for each node its operands in that list. The
 * exporters read it. It does not change the tape, and is valid until the next operation or th_tape_clear. */
#ifndef TH_EXPORT_LISTING_H
#define TH_EXPORT_LISTING_H

#include "autograd/tape.h"

/* One tensor of the tape. */
typedef struct th_listed {
    th_tensor_impl *tensor;
    int64_t producer; /* the node that made it; -1 for a leaf */
    int64_t view_of;  /* the tensor whose memory it views, if a recorded node made the view; else -1 */
    /* The tensor whose gradient buffer contains its gradient: itself unless it is a view; -1 without a buffer. */
    int64_t gradient_owner;
} th_listed;

typedef struct th_listing {
    th_context *ctx;
    int64_t nodes, tensors, operands;
    th_listed *tensor;      /* [tensors] */
    int64_t *first_operand; /* [nodes + 1] the position of a node's first operand in `operand` */
    int64_t *operand;       /* [operands] inputs, then outputs, as indices of `tensor`; -1: absent */
    bool backward_ran;      /* a pass of backward ran through the tape, and its gradients were kept */
    bool profiling;         /* ctx->profiling before the listing */
    th_step_mark mark;      /* before the first temporary tensor */
    size_t bytes[3];        /* of tensor, first and operand */
} th_listing;

/* Lists the tape of a context. th_listing_end must follow, also after an error. Until then the exporter may create
 * temporary tensors (th_listing_array), and the profile does not count what it runs. Errors: TH_ERROR_MEMORY;
 * TH_ERROR_STATE if the tape is empty, if values or gradients were not kept (th_keep_values), or if a value was changed
 * since; an error that is already pending. */
th_status th_listing_begin(th_listing *listing, th_context *ctx, const char *operation);
/* Lists the tape without these checks. The tape may be empty, and values may be missing. */
th_status th_listing_begin_unchecked(th_listing *listing, th_context *ctx, const char *operation);
/* Fails with TH_ERROR_STATE if several backward passes ran through the tape, or if one added to gradients that leaves
 * had before it. */
th_status th_listing_require_one_pass(const th_listing *listing, const char *operation);
/* Releases the lists and every temporary tensor. */
void th_listing_end(th_listing *listing);

static inline const th_node *th_listing_node(const th_listing *listing, int64_t node)
{
    return th_node_at(listing->ctx->tape, node);
}
/* Returns whether a node's operation is the library's operation of this name. A caller's operation may have the same
 * name, but other operands and attributes. */
bool th_node_is(const th_node *node, const char *name);
/* Returns input i of a node as an index of listing->tensor, or -1. */
static inline int64_t th_listing_input(const th_listing *listing, int64_t node, int i)
{
    return listing->operand[listing->first_operand[node] + i];
}
/* Returns output i of a node as an index of listing->tensor, or -1. */
static inline int64_t th_listing_output(const th_listing *listing, int64_t node, int i)
{
    return listing->operand[listing->first_operand[node] + th_listing_node(listing, node)->n_inputs + i];
}
/* Returns the index of a tensor in listing->tensor, or -1. Looks at all tensors. */
int64_t th_listing_find(const th_listing *listing, const th_tensor_impl *t);
/* Returns whether a tensor has a gradient, and sets *array to it. */
bool th_listing_gradient(const th_tensor_impl *t, th_array *array);
/* Allocates zeroed memory for `count` elements. *bytes is for th_release. NULL with TH_ERROR_MEMORY. */
void *th_listing_zeros(th_context *ctx, int64_t count, size_t element, size_t *bytes, const char *operation);
/* A hash table of indices. Linear probing begins at slot[hash & mask]. */
typedef struct th_index_table {
    int64_t *slot; /* indices, or -1 */
    uint64_t mask;
    size_t bytes; /* of slot, for th_release */
} th_index_table;
/* Allocates an empty table for at most max_indices indices. Errors: TH_ERROR_MEMORY. */
bool th_index_table_init(th_index_table *t, th_context *ctx, int64_t max_indices, const char *operation);
/* Allocates a contiguous array with the shape of `like` and this type, until th_listing_end. Errors:
 * TH_ERROR_MEMORY. */
th_status th_listing_array(th_listing *listing, const th_array *like, th_dtype dtype, th_array *array);
/* As th_listing_array, with the strides of `like`, so that the array can have the same views as `like`. */
th_status th_listing_array_strided(th_listing *listing, const th_array *like, th_dtype dtype, th_array *array);

enum { TH_LISTED_NAME = 256 };
/* Writes the name of a tensor: the dotted name of a parameter, the name of th_set_name, or "". Returns name. */
const char *th_listing_name(const th_tensor_impl *t, char name[TH_LISTED_NAME]);

#endif
