/* The tree of modules: its members are made and added, belong to their parents, and are freed with them. */
#include "nn/module.h"

#include <string.h>

#include "autograd/tape.h"
#include "nn/attention_layer.h"
#include "nn/cache.h"
#include "nn/optimizer.h"
#include "tensor/context.h"
#include "tensor/parameter.h"

/* -- making -- */

static void destroy(th_module *m);

static void release_root(th_context *ctx, void *object)
{
    (void)ctx;
    destroy(object);
}

void *th_module_new(th_context *ctx, size_t bytes, const char *type, th_forward_function *forward)
{
    if (ctx == NULL || th_failed(ctx))
        return NULL;
    if (bytes < sizeof(th_module) || type == NULL || type[0] == 0 || strlen(type) >= TH_NAME_SIZE) {
        th_fail(ctx, TH_ERROR_ARGUMENT, "module_new",
                "a module needs a type name of 1 to %d bytes and a size of at least %zu bytes; its size is %zu",
                TH_NAME_SIZE - 1, sizeof(th_module), bytes);
        return NULL;
    }
    /* the state lies behind the user's struct: what is freed, and what rests, is one piece */
    const size_t alignment = _Alignof(th_module_state), offset = (bytes + alignment - 1) / alignment * alignment;
    const size_t whole = offset + sizeof(th_module_state);
    th_module *m = whole > bytes ? th_allocate(ctx, whole) : NULL;
    if (m == NULL) {
        th_fail_memory(ctx, "module_new", bytes);
        return NULL;
    }
    memset(m, 0, whole);
    m->ctx = ctx;
    m->state = (th_module_state *)((char *)m + offset);
    m->state->bytes = whole;
    m->forward = m->state->made_with = forward;
    strcpy(m->type, type);
    if (!th_attach(ctx, m, release_root)) {
        th_release(ctx, m, whole);
        th_fail_memory(ctx, "module_new", sizeof(th_attachment));
        return NULL;
    }
    return m;
}

static size_t full_name_length(const th_module *m)
{
    size_t length = 0;
    for (; m && m->parent; m = m->parent)
        length += strlen(m->name) + 1;
    return length;
}

/* Of the longest name below m, its own not included. */
static size_t longest_name(const th_module *m)
{
    size_t longest = 0;
    for (const th_parameter *p = m->parameters; p; p = p->next)
        if (strlen(p->name) + 1 > longest)
            longest = strlen(p->name) + 1;
    for (const th_module *child = m->first; child; child = child->next) {
        const size_t length = strlen(child->name) + 1 + longest_name(child);
        longest = length > longest ? length : longest;
    }
    return longest;
}

static bool taken(const th_module *m, const char *name)
{
    for (const th_parameter *p = m->parameters; p; p = p->next)
        if (strcmp(p->name, name) == 0)
            return true;
    for (const th_module *child = m->first; child; child = child->next)
        if (strcmp(child->name, name) == 0)
            return true;
    return false;
}

/* Whether a member may have this name; `below` is the length of the longest name under it. */
static bool legal_name(const th_module *m, const char *name, size_t below, const char *operation)
{
    if (name == NULL || name[0] == 0 || strchr(name, '.') || strlen(name) >= TH_NAME_SIZE)
        th_fail(m->ctx, TH_ERROR_ARGUMENT, operation,
                "a member of %s needs a name of 1 to %d bytes without a dot, not \"%s\"", m->type, TH_NAME_SIZE - 1,
                name ? name : "NULL");
    else if (m->state->finished && m->forward == m->state->made_with)
        th_fail(
            m->ctx, TH_ERROR_ARGUMENT, operation,
            "%s would never use \"%s\": its forward uses its own members only. Replace its ->forward first, or make "
            "a module of your own that has both as members",
            m->type, name);
    else if (taken(m, name))
        th_fail(m->ctx, TH_ERROR_ARGUMENT, operation, "%s already has a member \"%s\"", m->type, name);
    else if (full_name_length(m) + strlen(name) + 1 + below >= TH_FULL_NAME_SIZE)
        th_fail(m->ctx, TH_ERROR_ARGUMENT, operation,
                "the full name of a member under \"%s\" would be longer than %d bytes", name, TH_FULL_NAME_SIZE - 1);
    else
        return true;
    return false;
}

bool th_module_usable(const th_module *m, const char *operation)
{
    if (m == NULL) {
        th_fail_last(TH_ERROR_ARGUMENT, operation, "the module is NULL");
        return false;
    }
    th_use_context(m->ctx);
    if (m->state->freed)
        th_fail(m->ctx, TH_ERROR_STATE, operation, "%s has been freed", m->type);
    return !th_failed(m->ctx);
}

th_module *th_module_finish(th_module *m)
{
    for (th_module *child = m->first; child; child = child->next)
        child->part = true;
    m->state->finished = true;
    if (!th_failed(m->ctx))
        return m;
    th_module_free(m);
    return NULL;
}

th_status th_check_widths(th_context *ctx, const char *layer, int count, const int64_t *sizes)
{
    for (int i = 0; i < count; i++)
        if (sizes[i] < (i < 2) || sizes[i] > INT64_MAX / 4)
            return th_fail(ctx, TH_ERROR_ARGUMENT, layer,
                           "width and heads must be positive, and no size negative or too large; one is %lld",
                           (long long)sizes[i]);
    return TH_OK;
}

th_module *th_module_add(th_module *m, const char *name, th_module *child)
{
    if (!th_module_usable(m, "module_add") || !th_module_usable(child, "module_add"))
        return NULL;
    for (const th_module *above = m; above; above = above->parent)
        if (above == child) {
            th_fail(m->ctx, TH_ERROR_ARGUMENT, "module_add", "%s would contain itself", child->type);
            return NULL;
        }
    if (child->ctx != m->ctx) {
        th_fail(m->ctx, TH_ERROR_ARGUMENT, "module_add", "%s belongs to another context", child->type);
        return NULL;
    }
    if (child->parent) {
        th_fail(m->ctx, TH_ERROR_ARGUMENT, "module_add", "%s already is the member \"%s\" of %s", child->type,
                child->name, child->parent->type);
        return NULL;
    }
    if (!legal_name(m, name, longest_name(child), "module_add"))
        return NULL;
    th_detach_object(m->ctx, child); /* freed with its parent from now on */
    strcpy(child->name, name);
    child->parent = m;
    th_module **link = &m->first;
    while (*link)
        link = &(*link)->next;
    *link = child;
    return child;
}

/* A parameter in a module's list, and its label if no module had the tensor before. */
typedef struct member {
    th_parameter parameter;
    th_label label;
} member;

static th_tensor *append_parameter(th_module *m, const char *name, th_tensor_impl *tensor, const char *operation)
{
    member *p = th_allocate(m->ctx, sizeof *p);
    if (p == NULL) {
        th_fail_memory(m->ctx, operation, sizeof *p);
        return NULL;
    }
    *p = (member){.parameter = {.tensor = tensor->handle}, .label = {p->parameter.name, m}};
    strcpy(p->parameter.name, name);
    th_parameter **link = &m->parameters;
    while (*link)
        link = &(*link)->next;
    *link = &p->parameter;
    if (tensor->label == NULL)
        tensor->label = &p->label;
    return tensor->handle;
}

th_tensor *th_module_add_parameter(th_module *m, const char *name, th_shape shape)
{
    if (!th_module_usable(m, "module_add_parameter") || !legal_name(m, name, 0, "module_add_parameter"))
        return NULL;
    th_tensor_impl *t = th_parameter_new(m->ctx, m->ctx->default_dtype, shape, "module_add_parameter");
    if (t == NULL)
        return NULL;
    if (th_set_requires_gradient(t->handle, true) == NULL ||
        append_parameter(m, name, t, "module_add_parameter") == NULL) {
        th_parameter_free(t);
        return NULL;
    }
    return t->handle;
}

th_tensor *th_module_tie_parameter(th_module *m, const char *name, th_tensor *parameter)
{
    if (!th_module_usable(m, "module_tie_parameter"))
        return NULL;
    th_tensor_impl *t = th_usable(parameter, m->ctx, "module_tie_parameter", "the parameter");
    if (t == NULL || !legal_name(m, name, 0, "module_tie_parameter"))
        return NULL;
    if (!t->parameter) {
        th_fail(m->ctx, TH_ERROR_ARGUMENT, "module_tie_parameter", "\"%s\" can only be tied to a parameter of a module",
                name);
        return NULL;
    }
    if (append_parameter(m, name, t, "module_tie_parameter") == NULL)
        return NULL;
    th_parameter_share(t);
    return parameter;
}

/* -- freeing -- */

static void destroy(th_module *m)
{
    th_context *ctx = m->ctx;
    m->state->freed = true;
    if (m->destroy)
        m->destroy(m);
    while (m->first) {
        th_module *child = m->first;
        m->first = child->next;
        destroy(child);
    }
    th_optimizers_forget_module(ctx, m);
    if (th_is_attention(m))
        th_caches_forget(ctx, m);
    while (m->parameters) {
        member *p = (member *)m->parameters;
        m->parameters = p->parameter.next;
        th_tensor_impl *t = th_tensor_impl_of(p->parameter.tensor);
        if (th_parameter_entry_of(t)->owners == 1)
            th_optimizers_forget_parameter(ctx, t);
        if (t->label == &p->label)
            t->label = NULL;
        th_parameter_free(t);
        th_release(ctx, p, sizeof *p);
    }
    m->parent = m->next = NULL;
    th_quarantine(ctx, m, m->state->bytes);
}

static bool running(const th_module *m)
{
    bool found = m->state->entered > 0;
    for (const th_module *child = m->first; child && !found; child = child->next)
        found = running(child);
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
    if (running(m) && th_failed(m->ctx)) /* it has returned early, or the one that runs is another */
        th_scopes_close(m->ctx);
    if (running(m)) {
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
    destroy(m);
}
