/* Dotted names: iterates over all parameters of a module tree, and finds members by name. */
#include <string.h>

#include "kernels/machine/crc32c.h"
#include "nn/module.h"
#include "tapehead/tape.h"
#include "tensor/context.h"
#include "tensor/parameter.h"

/* -- names -- */

const char *th_module_name_below(const th_module *m, const th_module *above, char *name)
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
        const size_t own_length = strlen(n->name);
        memcpy(name + end - own_length, n->name, own_length);
        if (end > own_length) {
            name[end - own_length - 1] = '.';
            end -= own_length + 1;
        }
    }
    return name;
}

const char *th_module_full_name(const th_module *m, char *name)
{
    if (name == NULL)
        return "";
    name[0] = 0;
    return m ? th_module_name_below(m, NULL, name) : name;
}

bool th_name_ends_with(const char *name, const char *end)
{
    const size_t length = strlen(name), tail = strlen(end);
    return length >= tail && strcmp(name + length - tail, end) == 0;
}

/* -- every parameter -- */

/* Returns the first module from m on, among children of the same parent, that is not hidden. */
static const th_module *first_visible(const th_module *m)
{
    while (m && m->state->hidden)
        m = m->next;
    return m;
}

const th_module *th_module_next(const th_module *m, const th_module *root)
{
    const th_module *next = first_visible(m->first);
    for (; next == NULL && m != root; m = m->parent)
        next = first_visible(m->next);
    return next;
}

th_parameter_iterator th_module_parameters(const th_module *m)
{
    return (th_parameter_iterator){.root = m, .module = m, .parameter = m ? m->parameters : NULL};
}

/* Returns whether p is the first use of its tensor in the tree: tied parameters are visited once. */
static bool is_first_use(const th_module *root, const th_parameter *p)
{
    for (const th_module *m = root; m; m = th_module_next(m, root))
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
            it->module = th_module_next(it->module, it->root);
            it->parameter = it->module ? it->module->parameters : NULL;
            continue;
        }
        it->parameter = p->next;
        const th_parameter_entry *entry = th_parameter_entry_of(th_tensor_impl_of(p->tensor));
        if (entry && entry->owners > 1 && !is_first_use(it->root, p))
            continue;
        it->tensor = p->tensor;
        th_module_name_below(it->module, it->root, it->name);
        strcat(it->name, it->name[0] ? "." : "");
        strcat(it->name, p->name);
        return true;
    }
    it->tensor = NULL;
    return false;
}

/* -- by name -- */

/* Follows a dotted name up to its last dot. Returns the module there, or NULL, and sets *name to the name after the
 * dot. */
static const th_module *find_parent(const th_module *m, const char **name)
{
    for (const char *dot = strchr(*name, '.'); m && dot; dot = strchr(*name, '.')) {
        const size_t length = (size_t)(dot - *name);
        const th_module *child = first_visible(m->first);
        while (child && (strncmp(child->name, *name, length) != 0 || child->name[length] != 0))
            child = first_visible(child->next);
        m = child;
        *name = dot + 1;
    }
    return m;
}

th_tensor *th_module_find_parameter(const th_module *m, const char *name)
{
    if (m == NULL || name == NULL)
        return NULL;
    m = find_parent(m, &name);
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
    const th_module *above = find_parent(m, &name);
    for (th_module *child = above ? above->first : NULL; child; child = child->next)
        if (strcmp(child->name, name) == 0 && !child->state->hidden)
            return child;
    return NULL;
}

/* -- all parameters -- */

int64_t th_module_count(const th_module *m)
{
    int64_t count = 0;
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);)
        count += th_numel(p.tensor) * th_dtype_numbers(th_dtype_of(p.tensor));
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
    if (m == NULL || m->ctx->options.shapes_only)
        return 0;
    uint32_t crc = 0;
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);) {
        const th_tensor_impl *t = th_tensor_impl_of(p.tensor);
        crc = th_crc32c(crc, th_tensor_data(t), (size_t)th_tensor_numel(t) * th_dtype_size(t->dtype));
    }
    return crc;
}
