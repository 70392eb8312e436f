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

typedef enum th_place_state {
    TH_PLACE_EMPTY,   /* nothing that counts, though there may be memory */
    TH_PLACE_EARLY,   /* written by a forward for its own backward; empty for everybody else */
    TH_PLACE_PARTIAL, /* parts have been written */
    TH_PLACE_FULL,
    TH_PLACE_KEPT,   /* full, of a result whose backward has been: only to be read, the next pass begins anew */
    TH_PLACE_REFUSED /* full, of a leaf whose optimiser step was refused: the next pass begins anew */
} th_place_state;

typedef enum th_place_kind {
    TH_PLACE_OF_LEAF,   /* its memory stays, and what passes bring adds up */
    TH_PLACE_OF_RESULT, /* its memory is the step's: taken when first written, given back when used up */
    TH_PLACE_OF_PASS    /* a pass's own: as a result's, but kept until the pass ends */
} th_place_kind;

struct th_place {
    th_body *root; /* the tensor whose gradient lies here */
    th_place_kind kind;
    th_place_state state;
    bool keep;          /* of a result: th_keep_gradient was called */
    bool listed;        /* of a leaf: the current pass has it in its list of what it has written */
    int destination;    /* 1 + the last input of the node backward is at that writes here, else 0 */
    int64_t node;       /* that made the root, and uses its gradient up; -1 for a leaf */
    th_storage *memory; /* NULL: none */
    union {
        struct {
            int64_t node;     /* whose forward has written it */
            uint32_t version; /* of the memory then */
        } early;
        struct th_region *parts; /* that have been written, while it is partial (autograd/coverage.h) */
    };
    th_storage own_memory; /* of a leaf: what `memory` points to */
    th_body *tensor;       /* of a leaf: what th_gradient gives, made on demand */
    th_place *next_listed;
};

/* An owned tensor, with room for the place of its gradient. */
typedef struct th_owned_body {
    th_body body;
    th_place place;
    const char *made_file; /* the program's line that created it; NULL: not known */
    int made_line;
} th_owned_body;

/* A place as it begins. */
static inline th_place th_place_new(th_body *root, th_place_kind kind, int64_t node)
{
    return (th_place){.root = root, .kind = kind, .node = node};
}
/* An owned tensor's own. (While its gradient is checked, the checker's stands in its stead.) */
static inline th_place *th_place_beside(th_body *owned)
{
    return &((th_owned_body *)owned)->place;
}
/* That of t's root; NULL where there is none. */
static inline th_place *th_place_of(const th_body *t)
{
    return t->part.root ? t->part.root->gradient : NULL;
}
/* The node that made t's root; -1 when that is a leaf, or there is none. */
static inline int64_t th_place_node(const th_body *t)
{
    const th_place *place = th_place_of(t);
    return place ? place->node : -1;
}
/* Something has been written that this pass goes on with, or, of a leaf, the next. */
static inline bool th_place_begun(const th_place *place)
{
    return place && (place->state == TH_PLACE_PARTIAL || place->state == TH_PLACE_FULL);
}
/* All elements have been written. */
static inline bool th_place_complete(const th_place *place)
{
    return place &&
           (place->state == TH_PLACE_FULL || place->state == TH_PLACE_KEPT || place->state == TH_PLACE_REFUSED);
}
static inline bool th_place_has_memory(const th_place *place)
{
    return place && place->memory;
}
/* Somebody needs the memory besides the place itself and its tensor. */
static inline bool th_place_in_use(const th_place *place)
{
    return place && place->memory && place->memory->holds > 1 + (place->tensor != NULL);
}
/* The first number of a root's gradient, which is complete; NULL in a shapes-only context. */
static inline void *th_place_data(const th_place *place)
{
    return place->memory->data;
}
static inline bool th_place_kept(const th_place *place)
{
    return place && place->state == TH_PLACE_KEPT;
}
static inline bool th_place_refused(const th_place *place)
{
    return place && place->state == TH_PLACE_REFUSED;
}

/* The tensor that th_gradient made of a leaf's ends. */
void th_place_end_tensor(th_place *place);
/* That, and the memory goes: the place is as it began. */
void th_place_end(th_place *place);

#endif
