/* The properties of an optimizer. create.c makes optimizers, step.c runs steps. */
#include "training/optimizer.h"

#include <math.h>

#include "tensor/error.h"

bool th_optimizer_usable(const th_optimizer *o, const char *operation)
{
    if (o == NULL)
        th_fail_last(TH_ERROR_ARGUMENT, operation, "the optimizer is NULL");
    else if (o->freed)
        th_fail(o->ctx, TH_ERROR_STATE, operation, "the optimizer (%s) has been freed", o->rule->name);
    return o && !o->freed;
}

th_status th_optimizer_set_learning_rate(th_optimizer *o, double learning_rate)
{
    if (!th_optimizer_usable(o, "optimizer_set_learning_rate"))
        return o ? o->ctx->error : TH_ERROR_ARGUMENT;
    if (!(learning_rate >= 0 && isfinite(learning_rate)))
        return th_fail(o->ctx, TH_ERROR_ARGUMENT, o->rule->name,
                       "the learning rate must be finite and not negative; it is %g", learning_rate);
    o->learning_rate = learning_rate;
    return TH_OK;
}

double th_optimizer_learning_rate(const th_optimizer *o)
{
    return o && th_optimizer_usable(o, "optimizer_learning_rate") ? o->learning_rate : 0;
}

double th_optimizer_gradient_norm(const th_optimizer *o)
{
    return o && th_optimizer_usable(o, "optimizer_gradient_norm") ? o->norm : 0;
}

double th_optimizer_loss(const th_optimizer *o)
{
    return o && th_optimizer_usable(o, "optimizer_loss") ? o->loss : 0;
}

void th_forget_local_steps(th_optimizer *o)
{
    o->local_steps = 0;
    for (int64_t i = 0; i < o->count; i++)
        o->parameters[i].changed = false;
}
