/* Follows the parameters of optimizers when modules are freed or cast. */
#include <string.h>

#include "tensor/error.h"
#include "training/moments.h"

static th_optimizer_parameter *parameter_of(const th_optimizer *o, const th_tensor_impl *parameter)
{
    for (int64_t i = 0; i < o->count; i++)
        if (o->parameters[i].tensor == parameter)
            return &o->parameters[i];
    return NULL;
}

/* Whether some optimizer of the context has a parameter. */
static bool is_optimized(const th_context *ctx, const th_tensor_impl *parameter)
{
    for (const th_attachment *at = ctx->attachments; at; at = at->next)
        if (at->observer == &th_optimizer_observer && parameter_of(at->object, parameter))
            return true;
    return false;
}

/* Visits the parameters only after an addition to a module. */
th_status th_optimizer_check_additions(th_optimizer *o)
{
    const uint64_t additions = o->ctx->module_additions;
    bool settled = true;
    if (o->module == NULL || o->additions == additions)
        return TH_OK;
    for (th_parameter_iterator p = th_module_parameters(o->module); th_parameter_next(&p);) {
        const th_tensor_impl *parameter = th_tensor_impl_of(p.tensor);
        if (parameter_of(o, parameter) || is_optimized(o->ctx, parameter))
            continue;
        if (parameter->requires_gradient)
            return th_fail(o->ctx, TH_ERROR_STATE, "optimizer_step",
                           "%s was made before the parameter %s was added, and would not train it: make the optimizer "
                           "after all parameters, or freeze this one",
                           o->rule->name, p.name);
        settled = false; /* it is frozen, perhaps not for ever */
    }
    if (settled)
        o->additions = additions;
    return TH_OK;
}

static void forget(th_optimizer *o, th_optimizer_parameter *removed)
{
    th_moments_clear(o, removed);
    o->count--;
    memmove(removed, removed + 1, (size_t)(&o->parameters[o->count] - removed) * sizeof *removed);
    o->sorted = false;
    th_moments_drop_unused(o);
    th_shards_discard_sums(o);
}

static void forget_parameter(th_context *ctx, void *object, const th_tensor_impl *parameter)
{
    (void)ctx;
    th_optimizer_parameter *removed = parameter_of(object, parameter);
    if (removed)
        forget(object, removed);
}

static void forget_module(th_context *ctx, void *object, const void *module)
{
    (void)ctx;
    th_optimizer *o = object;
    if (o->module == module)
        o->module = NULL;
}

/* Returns whether the parameter will be stored: an optimizer cannot train it then. */
static bool leaves(const th_optimizer_parameter *p)
{
    return p->entry->successor && th_is_storage_type(p->entry->successor->block->dtype);
}

/* Returns whether the moments of a parameter will move. */
static bool moments_move(const th_optimizer_parameter *p)
{
    return p->moments && p->entry->successor && !leaves(p);
}

static th_status reserve(th_context *ctx, void *object, const char *operation)
{
    th_optimizer *o = object;
    for (int64_t i = 0; i < o->count; i++) {
        const th_optimizer_parameter *moving = &o->parameters[i];
        if (moments_move(moving) && o->diloco.local_steps > 0)
            return th_fail(ctx, TH_ERROR_STATE, operation,
                           "%s takes local steps: cast the module before the first step", o->rule->name);
        if (moments_move(moving) && o->shards.processes > 1)
            return th_fail(ctx, TH_ERROR_STATE, operation,
                           "several processes share the moments of %s: cast the module before the first step",
                           o->rule->name);
        if (moments_move(moving) && th_moments_reserve(o, moving->entry->successor->block) != TH_OK)
            return ctx->error;
    }
    return TH_OK;
}

static void unreserve(th_context *ctx, void *object)
{
    (void)ctx;
    th_moments_discard_reserved(object);
}

static void move(th_context *ctx, void *object)
{
    (void)ctx;
    th_optimizer *o = object;
    bool moved = false;
    for (int64_t i = o->count - 1; i >= 0; i--)
        if (leaves(&o->parameters[i]))
            forget(o, &o->parameters[i]);
    th_moments_adopt_reserved(o);
    for (int64_t i = 0; i < o->count; i++) {
        th_optimizer_parameter *p = &o->parameters[i];
        if (p->entry->successor == NULL)
            continue;
        if (p->moments)
            th_moments_move(o, p);
        p->entry = p->entry->successor;
        o->sorted = false;
        moved = true;
    }
    th_moments_drop_unused(o);
    if (moved)
        th_shards_discard_sums(o);
}

static void read(th_context *ctx, void *object)
{
    (void)ctx;
    th_optimizer *o = object;
    o->compared = false;
}

const th_parameter_observer th_optimizer_observer = {.reserve = reserve,
                                                     .unreserve = unreserve,
                                                     .move = move,
                                                     .read = read,
                                                     .forget_parameter = forget_parameter,
                                                     .forget_module = forget_module};
