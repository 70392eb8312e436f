/* Objects of upper layers that live as long as the context: tape, modules, optimizers, caches. */
#ifndef TH_TENSOR_ATTACHMENT_H
#define TH_TENSOR_ATTACHMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "private_api.h"
#include "tapehead/base.h"

typedef struct th_attachment {
    void (*release)(th_context *ctx, void *object); /* th_context_free calls it once, newest object first */
    void *object;
    uint64_t number;                              /* in the object's handle; 0: no handle was requested */
    const struct th_parameter_observer *observer; /* tensor/parameter_observer.h; NULL: the object observes nothing */
    struct th_attachment *next;
} th_attachment;

/* Registers an object that th_context_free releases. Returns false if memory runs out. */
TH_PRIVATE_API bool th_attach_object(th_context *ctx, void *object, void (*release)(th_context *ctx, void *object));
/* Unregisters the object. */
TH_PRIVATE_API void th_detach_object(th_context *ctx, void *object);

/* Returns the handle of an attached object: like a tensor's, a number in the form of a pointer that no other object
 * gets. */
void *th_object_handle(th_context *ctx, const void *object);
/* Returns the object of a handle if it was attached with this release function. Returns NULL after it was detached or
 * its context was freed. */
void *th_object_of(const void *handle, void (*release)(th_context *ctx, void *object));
/* Returns the context of an object's handle; NULL when the context was freed. */
th_context *th_object_context(const void *handle);

#endif
