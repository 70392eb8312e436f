/* The tree: members, names, scopes, visiting. What a layer computes is in layers.c and the user's own files. */
#include "nn/module.h"

#include <string.h>

#include "autograd/tape.h"
#include "nn/optimizer.h"
#include "tapehead/module.h"
#include "tapehead/tape.h"
#include "tensor/context.h"
#include "tensor/parameter.h"

/* -- making -- */

static void destroy(th_module *m);

static void release_root(th_context *ctx, void *object)
{
    (void)ctx;
    destroy(object);
}

void *(th_module_new)(th_context *ctx, size_t bytes, const char *type, th_forward_function *forward)
{
    if (ctx == NULL || th_failed(ctx))
        return NULL;
    if (bytes < sizeof(th_module) || type == NULL || type[0] == 0 || strlen(type) >= TH_NAME_SIZE) {
        th_fail(ctx, TH_ERROR_ARGUMENT, "module_new",
                "a module needs a type name of 1 to %d bytes and at least %zu bytes, it was given %zu",
                TH_NAME_SIZE - 1, sizeof(th_module), bytes);
        return NULL;
    }
    th_module *m = th_allocate(ctx, bytes);
    if (m == NULL) {
        th_fail_memory(ctx, "module_new", bytes);
        return NULL;
    }
    memset(m, 0, bytes);
    m->ctx = ctx;
    m->bytes = bytes;
    m->forward = forward;
    strcpy(m->type, type);
    if (!th_attach(ctx, m, release_root)) {
        th_release(ctx, m, bytes);
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
    else if (taken(m, name))
        th_fail(m->ctx, TH_ERROR_ARGUMENT, operation, "%s already has a member \"%s\"", m->type, name);
    else if (full_name_length(m) + strlen(name) + 1 + below >= TH_FULL_NAME_SIZE)
        th_fail(m->ctx, TH_ERROR_ARGUMENT, operation,
                "the full name of a member under \"%s\" would be longer than %d bytes", name, TH_FULL_NAME_SIZE - 1);
    else
        return true;
    return false;
}

/* NULL with an error pending, or when m is NULL (then that is the error). */
static bool usable(const th_module *m, const char *operation)
{
    if (m == NULL) {
        th_fail_last(TH_ERROR_ARGUMENT, operation, "the module is NULL");
        return false;
    }
    th_use_context(m->ctx);
    if (m->freed)
        th_fail(m->ctx, TH_ERROR_STATE, operation, "%s has been freed", m->type);
    return !th_failed(m->ctx);
}

void th_module_complete(th_module *m)
{
    for (th_module *child = m->first; child; child = child->next)
        child->part = true;
}

th_module *(th_module_add)(th_module *m, const char *name, th_module *child)
{
    if (!usable(m, "module_add") || !usable(child, "module_add"))
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

static th_tensor *append_parameter(th_module *m, const char *name, th_body *tensor, const char *operation)
{
    th_parameter *p = th_allocate(m->ctx, sizeof *p);
    if (p == NULL) {
        th_fail_memory(m->ctx, operation, sizeof *p);
        return NULL;
    }
    *p = (th_parameter){.tensor = tensor->handle};
    strcpy(p->name, name);
    th_parameter **link = &m->parameters;
    while (*link)
        link = &(*link)->next;
    *link = p;
    if (tensor->label == NULL)
        tensor->label = p->name;
    return tensor->handle;
}

th_tensor *(th_module_add_parameter)(th_module *m, const char *name, th_shape shape)
{
    if (!usable(m, "module_add_parameter") || !legal_name(m, name, 0, "module_add_parameter"))
        return NULL;
    th_body *t = th_parameter_new(m->ctx, m->ctx->default_dtype, shape, "module_add_parameter");
    if (t == NULL)
        return NULL;
    if (th_set_requires_gradient(t->handle, true) == NULL ||
        append_parameter(m, name, t, "module_add_parameter") == NULL) {
        th_parameter_free(t);
        return NULL;
    }
    return t->handle;
}

th_tensor *(th_module_tie_parameter)(th_module *m, const char *name, th_tensor *parameter)
{
    if (!usable(m, "module_tie_parameter"))
        return NULL;
    th_body *t = th_usable(parameter, m->ctx, "module_tie_parameter", "the parameter");
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

static void destroy(th_module *m)
{
    th_context *ctx = m->ctx;
    m->freed = true;
    if (m->destroy)
        m->destroy(m);
    while (m->first) {
        th_module *child = m->first;
        m->first = child->next;
        destroy(child);
    }
    th_optimizers_forget_module(ctx, m);
    while (m->parameters) {
        th_parameter *p = m->parameters;
        m->parameters = p->next;
        th_body *t = th_body_of(p->tensor);
        if (th_parameter_entry_of(t)->owners == 1)
            th_optimizers_forget_parameter(ctx, t);
        if (t->label == p->name)
            t->label = NULL;
        th_parameter_free(t);
        th_release(ctx, p, sizeof *p);
    }
    m->parent = m->next = NULL;
    th_rest(ctx, m, m->bytes);
}

static bool running(const th_module *m)
{
    bool found = m->entered > 0;
    for (const th_module *child = m->first; child && !found; child = child->next)
        found = running(child);
    return found;
}

void th_module_free(th_module *m)
{
    if (m == NULL)
        return;
    if (m->freed) {
        th_fail(m->ctx, TH_ERROR_STATE, "module_free", "%s has been freed before", m->type);
        return;
    }
    if (m->part && m->parent) {
        th_fail(m->ctx, TH_ERROR_STATE, "module_free", "%s is a part of %s and freed with it", m->name,
                m->parent->type);
        return;
    }
    if (running(m) && th_failed(m->ctx)) /* it has returned early, or the one that runs is another */
        th_scopes_close(m->ctx);
    if (running(m)) {
        th_fail(m->ctx, TH_ERROR_STATE, "module_free",
                "%s cannot be freed while its forward runs (one that returned before th_module_end is ended by "
                "th_tape_clear)",
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

/* -- lists -- */

static th_tensor *list_forward(th_module *list, th_tensor *x)
{
    for (th_module *member = list->first; member; member = member->next)
        x = (th_module_forward)(member, x);
    return x;
}

th_module *(th_module_list_new)(th_context *ctx)
{
    return (th_module_new)(ctx, sizeof(th_module), "module_list", list_forward);
}

static bool usable_list(const th_module *list, const char *operation)
{
    if (!usable(list, operation))
        return false;
    if (list->forward != list_forward) {
        th_fail(list->ctx, TH_ERROR_ARGUMENT, operation, "%s is not a list of modules", list->type);
        return false;
    }
    return true;
}

th_module *(th_module_list_add)(th_module *list, th_module *member)
{
    if (!usable_list(list, "module_list_add"))
        return NULL;
    char name[TH_NAME_SIZE];
    snprintf(name, sizeof name, "%lld", (long long)th_module_list_length(list));
    return (th_module_add)(list, name, member);
}

int64_t th_module_list_length(const th_module *list)
{
    int64_t length = 0;
    for (const th_module *member = list ? list->first : NULL; member; member = member->next)
        length++;
    return length;
}

th_module *(th_module_list_at)(th_module *list, int64_t index)
{
    if (!usable_list(list, "module_list_at"))
        return NULL;
    th_module *member = list->first;
    for (int64_t i = 0; member && i < index; i++)
        member = member->next;
    if (index < 0 || member == NULL) {
        th_fail(list->ctx, TH_ERROR_INDEX, "module_list_at", "index %lld is outside a list of %lld modules",
                (long long)index, (long long)th_module_list_length(list));
        return NULL;
    }
    return member;
}

/* -- running -- */

/* The dotted name of m from below `above` (NULL: from the root) on. */
static const char *name_below(const th_module *m, const th_module *above, char *name)
{
    size_t length = 0;
    for (const th_module *n = m; n != above && n->parent; n = n->parent)
        length += strlen(n->name) + 1;
    name[0] = 0;
    if (length == 0)
        return name;
    size_t end = length - 1;
    name[end] = 0;
    for (const th_module *n = m; n != above && n->parent; n = n->parent) {
        const size_t own = strlen(n->name);
        memcpy(name + end - own, n->name, own);
        if (end > own) {
            name[end - own - 1] = '.';
            end -= own + 1;
        }
    }
    return name;
}

const char *th_module_full_name(const th_module *m, char *name)
{
    if (name == NULL)
        return "";
    name[0] = 0;
    return m ? name_below(m, NULL, name) : name;
}

/* Whether m, or a module above it, is pinned to evaluation. */
static bool is_pinned(const th_module *m)
{
    bool pinned = false;
    for (const th_module *above = m; above && !pinned; above = above->parent)
        pinned = above->evaluation;
    return pinned;
}

/* What begin changed in m and in the context's mode; a mode that was set since then stands. */
static void leave(void *module)
{
    th_module *m = module;
    const bool inside = m->training_outside && !is_pinned(m);
    if (--m->entered == 0 && m->ctx->training == inside)
        m->ctx->training = m->training_outside;
}

bool th_module_begin(th_module *m)
{
    if (!usable(m, "module_forward"))
        return false;
    /* Its scope is named from the nearest module that runs: a list has no forward of its own when its members are
     * called one by one. */
    const th_module *above = m->parent;
    while (above && above->entered == 0)
        above = above->parent;
    char name[TH_FULL_NAME_SIZE];
    name_below(m, above, name);
    if (!th_scope_open(m->ctx, name, m, leave))
        return false;
    if (m->entered++ == 0) {
        m->training_outside = m->ctx->training;
        m->ctx->training = th_module_is_training(m);
    }
    return true;
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

th_tensor *(th_module_forward)(th_module *m, th_tensor *x)
{
    if (!usable(m, "module_forward") || !th_usable(x, m->ctx, m->type, "x"))
        return NULL;
    if (m->forward == NULL) {
        th_fail(m->ctx, TH_ERROR_ARGUMENT, "module_forward", "%s takes more than one tensor: call its own function",
                m->type);
        return NULL;
    }
    if (!th_module_begin(m))
        return NULL;
    th_context *ctx = m->ctx;
    const th_depths around = ctx->around;
    ctx->around = (th_depths){ctx->scope_depth, ctx->no_grad_depth};
    th_tensor *y = m->forward(m, x);
    ctx->around = around;
    return th_module_end(m, y);
}

th_tensor *(th_module_evaluate)(th_module *m, th_tensor *x)
{
    if (!usable(m, "module_evaluate"))
        return NULL;
    th_context *ctx = m->ctx;
    const bool training = ctx->training;
    const int no_grad_depth = ctx->no_grad_depth++;
    ctx->training = false;
    th_tensor *y = (th_module_forward)(m, x);
    ctx->no_grad_depth = no_grad_depth;
    ctx->training = training;
    return y;
}

/* -- training and evaluation -- */

void th_module_pin_evaluation(th_module *m, bool pinned)
{
    if (m)
        m->evaluation = pinned;
}

bool th_module_is_training(const th_module *m)
{
    return m && m->ctx->training && !is_pinned(m);
}

th_status(th_module_freeze)(th_module *m, bool frozen)
{
    if (!usable(m, "module_freeze"))
        return m ? m->ctx->error : TH_ERROR_ARGUMENT;
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);) {
        if (frozen)
            th_empty_gradient(p.tensor);
        th_set_requires_gradient(p.tensor, !frozen);
    }
    return m->ctx->error;
}

/* Room for every parameter of another type and for its moments. */
static th_status reserve_all(th_module *m, th_dtype dtype)
{
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);) {
        th_body *t = th_body_of(p.tensor);
        if (t->dtype == dtype)
            continue;
        if (th_tensor_in_use(t))
            return th_fail(m->ctx, TH_ERROR_STATE, "module_cast", "the tape still uses %s: th_tape_clear first",
                           p.name);
        if (th_parameter_reserve(t, dtype, "module_cast") != TH_OK)
            return m->ctx->error;
    }
    return th_optimizers_reserve(m->ctx);
}

th_status(th_module_cast)(th_module *m, th_dtype dtype)
{
    if (!usable(m, "module_cast"))
        return m ? m->ctx->error : TH_ERROR_ARGUMENT;
    th_context *ctx = m->ctx;
    if (th_refuse_in_check(ctx, "module_cast") != TH_OK)
        return ctx->error;
    if (!th_is_floating(dtype))
        return th_fail(ctx, TH_ERROR_TYPE, "module_cast", "parameters are float32 or float64, not %s",
                       th_dtype_name(dtype));
    const th_status status = reserve_all(m, dtype);
    if (status == TH_OK)
        th_optimizers_move(ctx);
    else
        th_optimizers_unreserve(ctx);
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);) {
        th_body *t = th_body_of(p.tensor);
        if (status != TH_OK)
            th_parameter_unreserve(t);
        else if (t->dtype != dtype)
            th_parameter_move(t);
    }
    return status;
}

/* -- looking -- */

/* The module after m in the tree below root, children first; NULL at the end. */
static const th_module *following(const th_module *m, const th_module *root)
{
    if (m->first)
        return m->first;
    while (m != root && m->next == NULL)
        m = m->parent;
    return m == root ? NULL : m->next;
}

th_parameter_iterator th_module_parameters(const th_module *m)
{
    return (th_parameter_iterator){.root = m, .module = m, .parameter = m ? m->parameters : NULL};
}

/* A tied parameter is visited where it comes first. */
static bool comes_first(const th_module *root, const th_parameter *p)
{
    for (const th_module *m = root; m; m = following(m, root))
        for (const th_parameter *q = m->parameters; q; q = q->next)
            if (q->tensor == p->tensor)
                return q == p;
    return true;
}

bool th_parameter_next(th_parameter_iterator *it)
{
    if (it == NULL)
        return false;
    while (it->module) {
        const th_parameter *p = it->parameter;
        if (p == NULL) {
            it->module = following(it->module, it->root);
            it->parameter = it->module ? it->module->parameters : NULL;
            continue;
        }
        it->parameter = p->next;
        const th_parameter_entry *entry = th_parameter_entry_of(th_body_of(p->tensor));
        if (entry && entry->owners > 1 && !comes_first(it->root, p))
            continue;
        it->tensor = p->tensor;
        name_below(it->module, it->root, it->name);
        strcat(it->name, it->name[0] ? "." : "");
        strcat(it->name, p->name);
        return true;
    }
    it->tensor = NULL;
    return false;
}

/* Walks down name as long as its parts are children; returns the module reached and where the rest begins. */
static const th_module *descend(const th_module *m, const char **name)
{
    for (const char *dot = strchr(*name, '.'); m && dot; dot = strchr(*name, '.')) {
        const size_t length = (size_t)(dot - *name);
        const th_module *child = m->first;
        while (child && (strncmp(child->name, *name, length) != 0 || child->name[length] != 0))
            child = child->next;
        m = child;
        *name = dot + 1;
    }
    return m;
}

th_tensor *th_module_find_parameter(const th_module *m, const char *name)
{
    if (m == NULL || name == NULL)
        return NULL;
    m = descend(m, &name);
    for (const th_parameter *p = m ? m->parameters : NULL; p; p = p->next)
        if (strcmp(p->name, name) == 0)
            return p->tensor;
    return NULL;
}

th_module *th_module_find(th_module *m, const char *name)
{
    if (m == NULL || name == NULL)
        return NULL;
    if (name[0] == 0)
        return m;
    const th_module *above = descend(m, &name);
    for (th_module *child = above ? above->first : NULL; child; child = child->next)
        if (strcmp(child->name, name) == 0)
            return child;
    return NULL;
}

int64_t th_module_count(const th_module *m)
{
    int64_t count = 0;
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);)
        count += th_numel(p.tensor);
    return count;
}

int64_t th_module_count_trainable(const th_module *m)
{
    int64_t count = 0;
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);)
        count += th_requires_gradient(p.tensor) ? th_numel(p.tensor) : 0;
    return count;
}

uint32_t th_module_crc32c(const th_module *m)
{
    uint32_t table[256];
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++)
            table[i] = (table[i] >> 1) ^ (table[i] & 1 ? 0x82F63B78u : 0); /* the Castagnoli polynomial, reversed */
    }
    if (m == NULL || m->ctx->options.shapes_only)
        return 0;
    uint32_t crc = 0xFFFFFFFFu;
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);) {
        const th_body *t = th_body_of(p.tensor);
        const unsigned char *bytes = th_tensor_data(t);
        const size_t count = (size_t)th_tensor_numel(t) * th_dtype_size(t->dtype);
        for (size_t i = 0; i < count; i++)
            crc = (crc >> 8) ^ table[(crc ^ bytes[i]) & 255];
    }
    return ~crc;
}
