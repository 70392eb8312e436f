/* Runs a module's forward, in a scope and with the module's training mode. */
#include "autograd/tape.h"
#include "nn/module.h"
#include "tensor/context.h"
#include "tensor/tensor.h"

/* Returns whether m or one of its ancestors is pinned to evaluation. */
static bool is_pinned(const th_module *m)
{
    bool pinned = false;
    for (const th_module *above = m; above && !pinned; above = above->parent)
        pinned = above->evaluation;
    return pinned;
}

void th_module_pin_evaluation(th_module *m, bool pinned)
{
    if (m)
        m->evaluation = pinned;
}

bool th_module_is_training(const th_module *m)
{
    return m && m->ctx->training && !is_pinned(m);
}

/* Undoes th_module_begin. The context's training mode is restored unless the forward has set another one. */
static void leave_forward(void *module)
{
    th_module *m = module;
    const bool training_inside = m->state->training_outside && !is_pinned(m);
    if (--m->state->running_forwards == 0 && m->ctx->training == training_inside)
        m->ctx->training = m->state->training_outside;
}

/* Returns false, with the error pending, if the user set a function that m never runs. */
static bool check_functions(const th_module *m)
{
    if (!th_module_has_unused_function(m))
        return true;
    th_fail(m->ctx, TH_ERROR_ARGUMENT, "module_forward", "%s never runs ->%s: set another function", m->type,
            m->attend && !m->state->type->attends ? "attend" : "transform");
    return false;
}

bool th_module_begin(th_module *m)
{
    if (!th_module_usable(m, "module_forward") || !check_functions(m))
        return false;
    /* The scope's name is relative to the nearest ancestor that runs. A list does not run while its members are called
     * one by one. */
    const th_module *above = m->parent;
    while (above && above->state->running_forwards == 0)
        above = above->parent;
    char name[TH_FULL_NAME_SIZE];
    th_module_name_below(m, above, name);
    if (!th_scope_open(m->ctx, name, m, leave_forward))
        return false;
    if (m->state->running_forwards++ == 0) {
        m->state->training_outside = m->ctx->training;
        m->ctx->training = th_module_is_training(m);
    }
    return true;
}

bool th_module_begin_as(th_module *m, const th_module_type *type, const char *operation, const char *kind)
{
    if (!th_module_begin(m))
        return false;
    if (th_module_is(m, type))
        return true;
    th_fail(m->ctx, TH_ERROR_ARGUMENT, operation, "%s is not a %s", m->type, kind);
    th_module_end(m, NULL);
    return false;
}

bool th_module_check_not_replaced(const th_module *m, const char *operation, const char *why)
{
    if (th_module_is_replaced(m))
        th_fail(m->ctx, TH_ERROR_ARGUMENT, operation, "the forward of %s (%s) was replaced and cannot run here: %s",
                m->name[0] ? m->name : "the module", m->type, why);
    return !th_failed(m->ctx);
}

th_tensor *th_module_end(th_module *m, th_tensor *result)
{
    if (m == NULL)
        return result;
    if (th_failed(m->ctx))
        result = NULL;
    th_module_end_all(m, &result, 1);
    return result;
}

void th_module_end_all(th_module *m, th_tensor *const *results, int count)
{
    if (m)
        th_scope_close(m->ctx, m, results, count);
}

th_tensor *th_module_forward(th_module *m, th_tensor *x)
{
    if (!th_module_usable(m, "module_forward") || !th_usable_tensor(x, m->ctx, m->type, "x"))
        return NULL;
    if (m->forward == NULL) {
        th_fail(m->ctx, TH_ERROR_ARGUMENT, "module_forward", "%s takes more than one tensor: call its own function",
                m->type);
        return NULL;
    }
    if (!th_module_begin(m))
        return NULL;
    th_context *ctx = m->ctx;
    const th_depths outer = ctx->outer_depths;
    ctx->outer_depths = (th_depths){ctx->scope_depth, ctx->no_grad_depth};
    th_tensor *y = m->forward(m, x);
    ctx->outer_depths = outer;
    return th_module_end(m, y);
}

th_tensor *th_module_evaluate(th_module *m, th_tensor *x)
{
    if (!th_module_usable(m, "module_evaluate"))
        return NULL;
    th_context *ctx = m->ctx;
    const th_mode previous = th_mode_evaluate(ctx);
    th_tensor *y = th_module_forward(m, x);
    th_mode_restore(ctx, previous);
    return y;
}
