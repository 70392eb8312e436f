/* Gradient buffers: the memory of a tensor's gradient, and what has been written to it.
 *
 * A leaf has a gradient buffer for its whole life, the result of an operation for its step. A backward pass has its
 * own buffers for the tensors in the list wrt of th_backward. Views do not have gradient buffers: the gradient of a
 * view is a view of its root's gradient (th_gradient_view, tensor/tensor.h).
 *
 * autograd/gradient.c changes the state of a buffer; docs/internals/tape-and-gradients.md has tables of its states.
 * The backward pass (autograd/pass.c, autograd/backward.c) uses the other fields. All other files use the functions
 * below. */
#ifndef TH_TENSOR_GRADIENT_BUFFER_H
#define TH_TENSOR_GRADIENT_BUFFER_H

#include "tensor/tensor.h"

typedef enum th_gradient_state {
    TH_GRADIENT_BUFFER_EMPTY,       /* no gradient, though there may be memory */
    TH_GRADIENT_BUFFER_PRECOMPUTED, /* a forward wrote it for its own backward; for other backwards it is empty */
    TH_GRADIENT_BUFFER_PARTIAL,     /* some regions have been written */
    TH_GRADIENT_BUFFER_FULL,        /* all elements have been written */
    /* Full and readable, but the next pass starts empty: a result whose node has run its backward, or a leaf whose
     * optimizer step was refused. */
    TH_GRADIENT_BUFFER_FINISHED
} th_gradient_state;

typedef enum th_gradient_kind {
    TH_GRADIENT_OF_LEAF,   /* its memory stays, and backward passes add to it */
    TH_GRADIENT_OF_RESULT, /* its memory is the step's: allocated at the first write, released after the last use */
    TH_GRADIENT_OF_PASS    /* as for a result, but the memory stays until the pass ends */
} th_gradient_kind;

struct th_gradient_buffer {
    th_tensor_impl *root; /* the tensor whose gradient it is */
    th_gradient_kind kind;
    th_gradient_state state;
    bool keep;          /* of a result: th_keep_gradient was called */
    bool listed;        /* of a leaf: in the current pass's list of written buffers */
    int last_input;     /* 1 + the last input of the current node whose gradient is written here; else 0 */
    int64_t node;       /* the node that made the root, and uses up its gradient; -1 for a leaf */
    th_storage *memory; /* NULL: none */
    union {
        struct {
            int64_t node;     /* the node whose forward wrote the gradient */
            uint32_t version; /* of the memory at that time */
        } precomputed;
        struct th_region *written_regions; /* in the state PARTIAL (autograd/coverage.h) */
    };
    th_storage own_memory;  /* of a leaf: *memory */
    th_tensor_impl *tensor; /* of a leaf: the result of th_gradient, created on demand */
    th_gradient_buffer *next_listed;
};

/* Bytes of the name of an owned tensor. */
enum { TH_OWNED_NAME_SIZE = 64 };

/* An owned tensor with its gradient buffer. */
typedef struct th_owned_tensor_impl {
    th_tensor_impl impl;
    th_gradient_buffer buffer;
    const char *made_file; /* the program's line that created it; NULL: unknown */
    int made_line;
    th_label label; /* impl.label points here after th_set_name */
    char name[TH_OWNED_NAME_SIZE];
} th_owned_tensor_impl;

/* Returns an empty buffer. */
static inline th_gradient_buffer th_gradient_buffer_new(th_tensor_impl *root, th_gradient_kind kind, int64_t node)
{
    return (th_gradient_buffer){.root = root, .kind = kind, .node = node};
}
/* Returns the buffer of an owned tensor. While the gradient checker runs, owned->gradient is another one. */
static inline th_gradient_buffer *th_gradient_buffer_of_leaf(th_tensor_impl *owned)
{
    return &((th_owned_tensor_impl *)owned)->buffer;
}
/* Returns the buffer of t's root; NULL without one. */
static inline th_gradient_buffer *th_gradient_buffer_of(const th_tensor_impl *t)
{
    return t->gradient_view.root ? t->gradient_view.root->gradient : NULL;
}
/* Returns the node that made t's root; -1 for a leaf, or without a buffer. */
static inline int64_t th_gradient_buffer_node(const th_tensor_impl *t)
{
    const th_gradient_buffer *buffer = th_gradient_buffer_of(t);
    return buffer ? buffer->node : -1;
}
/* Returns true if this pass (or, for a leaf, the next one) adds to what has been written. */
static inline bool th_gradient_buffer_is_started(const th_gradient_buffer *buffer)
{
    return buffer && (buffer->state == TH_GRADIENT_BUFFER_PARTIAL || buffer->state == TH_GRADIENT_BUFFER_FULL);
}
/* Returns true if all elements have been written. */
static inline bool th_gradient_buffer_is_complete(const th_gradient_buffer *buffer)
{
    return buffer && (buffer->state == TH_GRADIENT_BUFFER_FULL || buffer->state == TH_GRADIENT_BUFFER_FINISHED);
}
/* Returns true if the buffer has memory. */
static inline bool th_gradient_buffer_has_memory(const th_gradient_buffer *buffer)
{
    return buffer && buffer->memory;
}
/* Returns true if something other than the buffer and its tensor holds the memory. */
static inline bool th_gradient_buffer_is_in_use(const th_gradient_buffer *buffer)
{
    return buffer && buffer->memory && buffer->memory->holds > 1 + (buffer->tensor != NULL);
}
/* Returns the first number of a complete gradient; NULL in a shapes-only context. */
static inline void *th_gradient_buffer_data(const th_gradient_buffer *buffer)
{
    return buffer->memory->data;
}
/* Returns true in the state FINISHED. */
static inline bool th_gradient_buffer_is_finished(const th_gradient_buffer *buffer)
{
    return buffer && buffer->state == TH_GRADIENT_BUFFER_FINISHED;
}

/* Returns whether the optimizer step finds a gradient of the parameter. */
static inline bool th_has_gradient(const th_tensor_impl *parameter)
{
    return parameter->requires_gradient && th_gradient_buffer_is_complete(parameter->gradient);
}

/* Ends the tensor that th_gradient created. */
void th_gradient_buffer_release_tensor(th_gradient_buffer *buffer);
/* Ends that tensor, releases the memory, and empties the buffer. */
void th_gradient_buffer_release(th_gradient_buffer *buffer);

#endif
