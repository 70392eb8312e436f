/* The place of a gradient: where it lies, and what is in it.
 *
 * A leaf has one as long as it lives, a result as long as its step, and a backward pass brings its own for tensors that
 * it was asked for by name. Views have none: their gradient is a part of their root's (th_part, tensor.h). What moves a
 * place from one state to the next is in autograd/gradient.c; a picture of it is in ARCHITECTURE.md. The fields are its
 * matter, and that of a pass while it runs (pass.c, backward.c); whoever else wants to know something asks one of the
 * questions below. */
#ifndef TH_TENSOR_GRADIENT_BUFFER_H
#define TH_TENSOR_GRADIENT_BUFFER_H

#include "tensor/tensor.h"

typedef enum th_gradient_state {
    TH_GRADIENT_BUFFER_EMPTY,       /* nothing that counts, though there may be memory */
    TH_GRADIENT_BUFFER_PRECOMPUTED, /* written by a forward for its own backward; empty for everybody else */
    TH_GRADIENT_BUFFER_PARTIAL,     /* parts have been written */
    TH_GRADIENT_BUFFER_FULL,
    TH_GRADIENT_BUFFER_KEPT, /* full, of a result whose backward has been: only to be read, the next pass begins anew */
    TH_GRADIENT_BUFFER_REJECTED /* full, of a leaf whose optimizer step was refused: the next pass begins anew */
} th_gradient_state;

typedef enum th_gradient_kind {
    TH_GRADIENT_OF_LEAF,   /* its memory stays, and what passes bring adds up */
    TH_GRADIENT_OF_RESULT, /* its memory is the step's: taken when first written, given back when used up */
    TH_GRADIENT_OF_PASS    /* a pass's own: as a result's, but kept until the pass ends */
} th_gradient_kind;

struct th_gradient_buffer {
    th_tensor_impl *root; /* the tensor whose gradient lies here */
    th_gradient_kind kind;
    th_gradient_state state;
    bool keep;          /* of a result: th_keep_gradient was called */
    bool listed;        /* of a leaf: the current pass has it in its list of what it has written */
    int destination;    /* 1 + the last input of the node backward is at that writes here, else 0 */
    int64_t node;       /* that made the root, and uses its gradient up; -1 for a leaf */
    th_storage *memory; /* NULL: none */
    union {
        struct {
            int64_t node;     /* whose forward has written it */
            uint32_t version; /* of the memory then */
        } precomputed;
        struct th_region *parts; /* that have been written, while it is partial (autograd/coverage.h) */
    };
    th_storage own_memory;  /* of a leaf: what `memory` points to */
    th_tensor_impl *tensor; /* of a leaf: what th_gradient gives, made on demand */
    th_gradient_buffer *next_listed;
};

/* An owned tensor, with room for the place of its gradient. */
typedef struct th_owned_tensor_impl {
    th_tensor_impl impl;
    th_gradient_buffer place;
    const char *made_file; /* the program's line that created it; NULL: not known */
    int made_line;
} th_owned_tensor_impl;

/* A place as it begins. */
static inline th_gradient_buffer th_gradient_buffer_new(th_tensor_impl *root, th_gradient_kind kind, int64_t node)
{
    return (th_gradient_buffer){.root = root, .kind = kind, .node = node};
}
/* An owned tensor's own. (While its gradient is checked, the checker's stands in its stead.) */
static inline th_gradient_buffer *th_gradient_buffer_of_leaf(th_tensor_impl *owned)
{
    return &((th_owned_tensor_impl *)owned)->place;
}
/* That of t's root; NULL where there is none. */
static inline th_gradient_buffer *th_gradient_buffer_of(const th_tensor_impl *t)
{
    return t->part.root ? t->part.root->gradient : NULL;
}
/* The node that made t's root; -1 when that is a leaf, or there is none. */
static inline int64_t th_gradient_buffer_node(const th_tensor_impl *t)
{
    const th_gradient_buffer *place = th_gradient_buffer_of(t);
    return place ? place->node : -1;
}
/* Something has been written that this pass goes on with, or, of a leaf, the next. */
static inline bool th_gradient_buffer_started(const th_gradient_buffer *place)
{
    return place && (place->state == TH_GRADIENT_BUFFER_PARTIAL || place->state == TH_GRADIENT_BUFFER_FULL);
}
/* All elements have been written. */
static inline bool th_gradient_buffer_complete(const th_gradient_buffer *place)
{
    return place && (place->state == TH_GRADIENT_BUFFER_FULL || place->state == TH_GRADIENT_BUFFER_KEPT ||
                     place->state == TH_GRADIENT_BUFFER_REJECTED);
}
static inline bool th_gradient_buffer_has_memory(const th_gradient_buffer *place)
{
    return place && place->memory;
}
/* Somebody needs the memory besides the place itself and its tensor. */
static inline bool th_gradient_buffer_in_use(const th_gradient_buffer *place)
{
    return place && place->memory && place->memory->holds > 1 + (place->tensor != NULL);
}
/* The first number of a root's gradient, which is complete; NULL in a shapes-only context. */
static inline void *th_gradient_buffer_data(const th_gradient_buffer *place)
{
    return place->memory->data;
}
static inline bool th_gradient_buffer_kept(const th_gradient_buffer *place)
{
    return place && place->state == TH_GRADIENT_BUFFER_KEPT;
}
static inline bool th_gradient_buffer_rejected(const th_gradient_buffer *place)
{
    return place && place->state == TH_GRADIENT_BUFFER_REJECTED;
}

/* The tensor that th_gradient made of a leaf's ends. */
void th_gradient_buffer_release_tensor(th_gradient_buffer *place);
/* That, and the memory goes: the place is as it began. */
void th_gradient_buffer_release(th_gradient_buffer *place);

#endif
