/* Creates modules, and adds members and parameters to them. A parent owns its members; module_free.c frees them. */
#include "nn/module.h"

#include <string.h>

#include "tapehead/tape.h"
#include "tensor/context.h"
#include "tensor/parameter.h"

static void release_root(th_context *ctx, void *object)
{
    (void)ctx;
    th_module_destroy(object);
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
    /* One allocation holds the struct and the state behind it, so that both enter quarantine together. */
    const size_t alignment = _Alignof(th_module_state), offset = (bytes + alignment - 1) / alignment * alignment;
    const size_t total = offset + sizeof(th_module_state);
    th_module *m = total > bytes ? th_allocate(ctx, total) : NULL;
    if (m == NULL) {
        th_fail_memory(ctx, "module_new", bytes);
        return NULL;
    }
    memset(m, 0, total);
    m->ctx = ctx;
    m->state = (th_module_state *)((char *)m + offset);
    m->state->bytes = total;
    m->forward = m->state->own_forward = forward;
    strcpy(m->type, type);
    if (!th_attach_object(ctx, m, release_root)) {
        th_release(ctx, m, total);
        th_fail_memory(ctx, "module_new", sizeof(th_attachment));
        return NULL;
    }
    return m;
}

/* The forward of a library module that runs only through functions of its type, such as th_attend. */
static th_tensor *fail_forward(th_module *m, th_tensor *x)
{
    (void)x;
    th_fail(m->ctx, TH_ERROR_ARGUMENT, m->type, "%s", m->state->type->no_forward);
    return NULL;
}

void *th_module_new_longer(th_context *ctx, const th_module_type *type, size_t more)
{
    th_module *m = th_module_new(ctx, type->bytes + more, type->name, type->forward ? type->forward : fail_forward);
    if (m)
        m->state->type = type;
    return m;
}

void *th_module_new_of_type(th_context *ctx, const th_module_type *type)
{
    return th_module_new_longer(ctx, type, 0);
}

/* Returns the length of m's dotted name, with a dot at its end. */
static size_t full_name_length(const th_module *m)
{
    size_t length = 0;
    for (; m && m->parent; m = m->parent)
        length += strlen(m->name) + 1;
    return length;
}

/* Returns the length of the longest dotted name of a member below m, with its final 0. */
static size_t longest_name_length(const th_module *m)
{
    size_t longest = 0;
    for (const th_parameter *p = m->parameters; p; p = p->next) {
        const size_t length = strlen(p->name) + 1;
        longest = length > longest ? length : longest;
    }
    for (const th_module *child = m->first; child; child = child->next) {
        const size_t length = strlen(child->name) + 1 + longest_name_length(child);
        longest = length > longest ? length : longest;
    }
    return longest;
}

static bool has_member(const th_module *m, const char *name)
{
    for (const th_parameter *p = m->parameters; p; p = p->next)
        if (strcmp(p->name, name) == 0)
            return true;
    for (const th_module *child = m->first; child; child = child->next)
        if (strcmp(child->name, name) == 0)
            return true;
    return false;
}

/* Checks the name of a new member of m. below: the length of the longest name under the member. */
static bool check_member_name(const th_module *m, const char *name, size_t below, const char *operation)
{
    if (name == NULL || name[0] == 0 || strchr(name, '.') || strlen(name) >= TH_NAME_SIZE)
        th_fail(m->ctx, TH_ERROR_ARGUMENT, operation,
                "a member of %s needs a name of 1 to %d bytes without a dot, not \"%s\"", m->type, TH_NAME_SIZE - 1,
                name ? name : "NULL");
    else if (m->state->finished && m->forward == m->state->own_forward && !m->attend && !m->transform)
        th_fail(
            m->ctx, TH_ERROR_ARGUMENT, operation,
            "%s would never use \"%s\": its forward uses its own members only. Replace its ->forward first, or make "
            "a module of your own that has both as members",
            m->type, name);
    else if (has_member(m, name))
        th_fail(m->ctx, TH_ERROR_ARGUMENT, operation, "%s already has a member \"%s\"", m->type, name);
    else if (full_name_length(m) + strlen(name) + 1 + below > TH_FULL_NAME_SIZE)
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
    if (!check_member_name(m, name, longest_name_length(child), "module_add"))
        return NULL;
    th_detach_object(m->ctx, child); /* from now on its parent frees it */
    strcpy(child->name, name);
    child->parent = m;
    th_module **link = &m->first;
    while (*link)
        link = &(*link)->next;
    *link = child;
    m->ctx->module_additions++;
    return child;
}

th_module *th_module_add_part(th_module *m, const char *name, th_module *child)
{
    const bool finished = m->state->finished;
    m->state->finished = false;
    th_module *added = th_module_add(m, name, child);
    m->state->finished = finished;
    if (added)
        added->part = true;
    return added;
}

static th_tensor *append_parameter(th_module *m, const char *name, th_tensor_impl *tensor, const char *operation)
{
    th_module_member *p = th_allocate(m->ctx, sizeof *p);
    if (p == NULL) {
        th_fail_memory(m->ctx, operation, sizeof *p);
        return NULL;
    }
    *p = (th_module_member){.parameter = {.tensor = tensor->handle}, .label = {p->parameter.name, m}};
    strcpy(p->parameter.name, name);
    th_parameter **link = &m->parameters;
    while (*link)
        link = &(*link)->next;
    *link = &p->parameter;
    m->ctx->module_additions++;
    if (tensor->label == NULL)
        tensor->label = &p->label;
    return tensor->handle;
}

static th_tensor *add_parameter(th_module *m, const char *name, th_shape shape, th_dtype dtype, bool adapter)
{
    static const char operation[] = "module_add_parameter";
    if (!th_module_usable(m, operation) || !check_member_name(m, name, 0, operation))
        return NULL;
    th_tensor_impl *t = th_parameter_new(m->ctx, dtype, shape, adapter, operation);
    if (t == NULL)
        return NULL;
    if (th_set_requires_gradient(t->handle, true) == NULL || append_parameter(m, name, t, operation) == NULL) {
        th_parameter_free(t);
        return NULL;
    }
    return t->handle;
}

th_tensor *th_module_add_parameter(th_module *m, const char *name, th_shape shape)
{
    return add_parameter(m, name, shape, m ? m->ctx->default_dtype : TH_FLOAT32, false);
}

th_tensor *th_module_add_adapter_parameter(th_module *m, const char *name, th_shape shape, th_dtype dtype)
{
    return add_parameter(m, name, shape, dtype, true);
}

th_tensor *th_module_tie_parameter(th_module *m, const char *name, th_tensor *parameter)
{
    if (!th_module_usable(m, "module_tie_parameter"))
        return NULL;
    th_tensor_impl *t = th_usable_tensor(parameter, m->ctx, "module_tie_parameter", "the parameter");
    if (t == NULL || !check_member_name(m, name, 0, "module_tie_parameter"))
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
