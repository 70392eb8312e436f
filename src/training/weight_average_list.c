/* The parameters that have averages: finds them, and follows them when they are cast or freed. */
#include <string.h>

#include "nn/module.h"
#include "tensor/elementwise.h"
#include "tensor/parameter.h"
#include "tensor/storage_types.h"
#include "training/weight_average.h"

/* -- the list of parameters -- */

int64_t th_weight_average_index(const th_weight_average *a, const th_tensor_impl *parameter, int64_t *hint)
{
    for (int64_t i = 0; i < a->count; i++) {
        const int64_t at = (*hint + i) % a->count;
        if (a->parameters[at].tensor == parameter) {
            *hint = at + 1;
            return at;
        }
    }
    return -1;
}

static int64_t count_parameters(const th_module *m)
{
    int64_t count = 0;
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);)
        count++;
    return count;
}

/* Makes space for `capacity` parameters in the list. */
static th_status grow_list(th_weight_average *a, int64_t capacity, const char *operation)
{
    const size_t bytes = (size_t)capacity * sizeof *a->parameters;
    th_averaged_parameter *parameters = th_allocate(a->ctx, bytes);
    if (parameters == NULL)
        return th_fail_memory(a->ctx, operation, bytes);
    if (a->count > 0)
        memcpy(parameters, a->parameters, (size_t)a->count * sizeof *parameters);
    th_release(a->ctx, a->parameters, (size_t)a->capacity * sizeof *parameters);
    a->parameters = parameters;
    a->capacity = capacity;
    return TH_OK;
}

th_status th_weight_average_complete_list(th_weight_average *a, const char *operation)
{
    const uint64_t additions = a->ctx->module_additions;
    int64_t hint = 0;
    if (a->module == NULL || (a->additions == additions && a->capacity > 0))
        return TH_OK;
    const int64_t most = a->count + count_parameters(a->module);
    if (most > a->capacity && grow_list(a, most, operation) != TH_OK)
        return a->ctx->error;
    for (th_parameter_iterator p = th_module_parameters(a->module); th_parameter_next(&p);) {
        th_tensor_impl *tensor = th_tensor_impl_of(p.tensor);
        if (th_weight_average_index(a, tensor, &hint) < 0)
            a->parameters[a->count++] = (th_averaged_parameter){.tensor = tensor};
    }
    a->additions = additions;
    return TH_OK;
}

th_status th_weight_average_allocate(th_weight_average *a, int64_t index, const char *operation)
{
    th_averaged_parameter *p = &a->parameters[index];
    const size_t bytes = (size_t)th_tensor_numel(p->tensor) * th_dtype_size(p->tensor->dtype);
    if (p->bytes > 0 || bytes == 0)
        return TH_OK;
    if (th_allocate_numbers(a->ctx, bytes, &p->data, operation) != TH_OK)
        return a->ctx->error;
    p->bytes = bytes;
    return TH_OK;
}

/* -- parameters that move or end -- */

void th_weight_average_forget(th_context *ctx, th_averaged_parameter *p)
{
    if (p->bytes)
        th_release_numbers(ctx, p->data, p->bytes);
    p->data = NULL;
    p->bytes = 0;
    p->updates = 0;
}

static void unreserve(th_context *ctx, void *object)
{
    th_weight_average *a = object;
    for (int64_t i = 0; i < a->count; i++) {
        th_averaged_parameter *p = &a->parameters[i];
        if (p->reserved_bytes)
            th_release_numbers(ctx, p->reserved, p->reserved_bytes);
        p->reserved = NULL;
        p->reserved_bytes = 0;
    }
}

/* Returns the type that a parameter with an average will have; its own if it does not move. */
static th_dtype next_type(const th_averaged_parameter *p)
{
    const th_parameter_entry *successor = th_parameter_entry_of(p->tensor)->successor;
    return successor ? successor->block->dtype : p->tensor->dtype;
}

static bool moves(const th_averaged_parameter *p)
{
    return p->bytes > 0 && th_parameter_entry_of(p->tensor)->successor;
}

static th_status reserve(th_context *ctx, void *object, const char *operation)
{
    th_weight_average *a = object;
    for (int64_t i = 0; i < a->count; i++) {
        th_averaged_parameter *p = &a->parameters[i];
        if (!moves(p) || th_is_storage_type(next_type(p)))
            continue;
        const size_t bytes = p->bytes / th_dtype_size(p->tensor->dtype) * th_dtype_size(next_type(p));
        if (th_allocate_numbers(ctx, bytes, &p->reserved, operation) != TH_OK)
            return ctx->error;
        p->reserved_bytes = bytes;
    }
    return TH_OK;
}

/* A parameter that will be stored stays frozen: its average ends. */
static void move(th_context *ctx, void *object)
{
    th_weight_average *a = object;
    for (int64_t i = 0; i < a->count; i++) {
        th_averaged_parameter *p = &a->parameters[i];
        if (!moves(p))
            continue;
        const th_averaged_parameter moved = {p->tensor, p->updates, p->reserved, p->reserved_bytes, NULL, 0};
        th_array before = th_tensor_array(p->tensor), after = before;
        before.data = p->data;
        after.data = p->reserved;
        after.dtype = next_type(p);
        if (p->updates > 0 && before.data && after.data)
            th_convert_array(ctx, &after, &before);
        th_weight_average_forget(ctx, p);
        if (moved.bytes)
            *p = moved;
    }
}

static void forget_parameter(th_context *ctx, void *object, const th_tensor_impl *parameter)
{
    th_weight_average *a = object;
    int64_t hint = 0;
    const int64_t at = th_weight_average_index(a, parameter, &hint);
    if (at < 0)
        return;
    th_weight_average_forget(ctx, &a->parameters[at]);
    a->count--;
    memmove(&a->parameters[at], &a->parameters[at + 1], (size_t)(a->count - at) * sizeof *a->parameters);
}

static void forget_module(th_context *ctx, void *object, const void *module)
{
    (void)ctx;
    th_weight_average *a = object;
    if (a->module == module)
        a->module = NULL;
}

const th_parameter_observer th_weight_average_observer = {.reserve = reserve,
                                                          .unreserve = unreserve,
                                                          .move = move,
                                                          .forget_parameter = forget_parameter,
                                                          .forget_module = forget_module};
