/* Frees modules. */
#include "autograd/tape.h"
#include "nn/module.h"
#include "tensor/context.h"
#include "tensor/parameter.h"
#include "tensor/parameter_observer.h"

void th_module_destroy(th_module *m)
{
    th_context *ctx = m->ctx;
    m->state->freed = true;
    if (m->destroy)
        m->destroy(m);
    while (m->first) {
        th_module *child = m->first;
        m->first = child->next;
        th_module_destroy(child);
    }
    th_observers_notify_forget_module(ctx, m);
    while (m->parameters) {
        th_module_member *p = (th_module_member *)m->parameters;
        m->parameters = p->parameter.next;
        th_tensor_impl *t = th_tensor_impl_of(p->parameter.tensor);
        if (t->label == &p->label)
            t->label = NULL;
        th_parameter_free(t);
        th_release(ctx, p, sizeof *p);
    }
    m->parent = m->next = NULL;
    th_quarantine(ctx, m, m->state->bytes);
}

static bool is_running(const th_module *m)
{
    bool found = m->state->running_forwards > 0;
    for (const th_module *child = m->first; child && !found; child = child->next)
        found = is_running(child);
    return found;
}

void th_module_free(th_module *m)
{
    if (m == NULL)
        return;
    if (m->state->freed) {
        th_fail(m->ctx, TH_ERROR_STATE, "module_free", "%s has already been freed", m->type);
        return;
    }
    if (m->part && m->parent) {
        th_fail(m->ctx, TH_ERROR_STATE, "module_free", "%s is part of %s, which frees it", m->name, m->parent->type);
        return;
    }
    if (is_running(m) && th_failed(m->ctx)) /* after an error, scopes of earlier forwards may still be open */
        th_scopes_close(m->ctx);
    if (is_running(m)) {
        th_fail(m->ctx, TH_ERROR_STATE, "module_free",
                "%s cannot be freed while its forward runs (th_tape_clear ends a forward that returned before "
                "th_module_end)",
                m->type);
        return;
    }
    if (m->parent) {
        th_module **link = &m->parent->first;
        while (*link != m)
            link = &(*link)->next;
        *link = m->next;
    } else {
        th_detach_object(m->ctx, m);
    }
    th_module_destroy(m);
}
