/* Observers of parameters: objects of upper layers that refer to parameters or modules, such as optimizers and caches
 * of keys and values. Code that moves, reads or frees parameters calls the functions below, and knows no observer. */
#ifndef TH_TENSOR_PARAMETER_OBSERVER_H
#define TH_TENSOR_PARAMETER_OBSERVER_H

#include "tensor/tensor.h"

/* What an object does when parameters change. NULL: nothing. */
typedef struct th_parameter_observer {
    /* Some parameters will move to their reserved entries (successor in tensor/parameter.h). Allocates the memory that
     * the object needs for this. Only this function can fail. */
    th_status (*reserve)(th_context *ctx, void *object, const char *operation);
    /* The parameters stay where they are. Frees the memory of reserve, which may not have been called. */
    void (*unreserve)(th_context *ctx, void *object);
    /* The parameters are about to move. They still have their old values, type and entry. */
    void (*move)(th_context *ctx, void *object);
    /* Values of parameters are read from a file. */
    void (*read)(th_context *ctx, void *object);
    /* A parameter or a module is about to be freed. Another one may get the same address later. */
    void (*forget_parameter)(th_context *ctx, void *object, const th_tensor_impl *parameter);
    void (*forget_module)(th_context *ctx, void *object, const void *module);
} th_parameter_observer;

/* Makes an object an observer, until it is detached. It must be attached (tensor/attachment.h). */
void th_observe_parameters(th_context *ctx, const void *object, const th_parameter_observer *observer);

/* Each function th_observers_notify_X calls the function X of all observers of the context. th_observers_notify_reserve
 * stops at the first error. */
th_status th_observers_notify_reserve(th_context *ctx, const char *operation);
void th_observers_notify_unreserve(th_context *ctx);
void th_observers_notify_move(th_context *ctx);
TH_PRIVATE_API void th_observers_notify_read(th_context *ctx);
void th_observers_notify_forget_parameter(th_context *ctx, const th_tensor_impl *parameter);
void th_observers_notify_forget_module(th_context *ctx, const void *module);

#endif
