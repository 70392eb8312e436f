/* Stores the frozen weights of a module tree as a storage type, and converts them back. */
#include <string.h>

#include "nn/module.h"
#include "tapehead/tape.h"
#include "tensor/context.h"
#include "tensor/parameter.h"

static const char operation[] = "module_store";

/* Returns whether the operations of the module read its two-dimensional parameters through th_dense or th_embedding. */
static bool reads_storage_types(const th_module *m)
{
    static const char *const types[] = {"dense", "embedding", "multi_head_attention"};
    for (size_t i = 0; m->state->type && i < sizeof types / sizeof *types; i++)
        if (strcmp(m->state->type->name, types[i]) == 0)
            return true;
    return false;
}

bool th_module_can_store(const th_parameter_iterator *p)
{
    return th_ndim(p->tensor) == 2 && reads_storage_types(p->module);
}

/* Returns the type that the iterator's parameter will have. */
static th_dtype new_type_of(const th_parameter_iterator *p, th_dtype dtype)
{
    const th_dtype current = th_dtype_of(p->tensor);
    if (th_is_storage_type(dtype))
        return th_module_can_store(p) && !th_requires_gradient(p->tensor) ? dtype : current;
    return th_is_storage_type(current) ? dtype : current;
}

/* Checks the weights, and marks the blocks that lose one. */
static th_status mark_blocks(th_module *m, th_dtype dtype)
{
    int64_t weights = 0, frozen = 0;
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);) {
        const th_tensor_impl *t = th_tensor_impl_of(p.tensor);
        const th_dtype new_type = new_type_of(&p, dtype);
        weights += th_module_can_store(&p);
        frozen += th_module_can_store(&p) && !t->requires_gradient;
        if (new_type == t->dtype)
            continue;
        if (th_parameter_bytes(t, new_type) == 0 && th_tensor_numel(t) > 0)
            return th_fail(m->ctx, TH_ERROR_SHAPE, operation,
                           "%s is %s: the last size must be a multiple of %d to be stored as %s", p.name,
                           TH_SIZES_TEXT(t->ndim, t->size), TH_BLOCK_NUMBERS, th_dtype_name(new_type));
        th_parameter_entry_of(t)->block->moving_out = true;
    }
    if (th_is_storage_type(dtype) && frozen == 0)
        return th_fail(m->ctx, TH_ERROR_STATE, operation, "%s has %s: th_module_freeze freezes them", m->type,
                       weights ? "no frozen weights" : "no weights that can be stored");
    return TH_OK;
}

static bool must_move(const th_tensor_impl *t)
{
    return th_parameter_entry_of(t)->block->moving_out;
}

/* Reserves memory for every parameter in a marked block: exactly as much as they need. */
static th_status reserve_all(th_module *m, th_dtype dtype)
{
    size_t remaining_bytes[TH_DTYPE_COUNT] = {0};
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);)
        if (must_move(th_tensor_impl_of(p.tensor)))
            remaining_bytes[new_type_of(&p, dtype)] +=
                th_parameter_bytes(th_tensor_impl_of(p.tensor), new_type_of(&p, dtype));
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);) {
        th_tensor_impl *t = th_tensor_impl_of(p.tensor);
        const th_dtype new_type = new_type_of(&p, dtype);
        if (!must_move(t))
            continue;
        if (th_tensor_in_use(t))
            return th_fail(m->ctx, TH_ERROR_STATE, operation, "the tape still uses %s: th_tape_clear first", p.name);
        if (th_parameter_reserve(t, new_type, remaining_bytes[new_type], operation) != TH_OK)
            return m->ctx->error;
        remaining_bytes[new_type] -= th_parameter_bytes(t, new_type);
    }
    return TH_OK;
}

th_status th_module_store(th_module *m, th_dtype dtype)
{
    if (!th_module_usable(m, operation))
        return m ? m->ctx->error : TH_ERROR_ARGUMENT;
    th_context *ctx = m->ctx;
    if (th_refuse_in_check(ctx, operation) != TH_OK)
        return ctx->error;
    if (!th_can_round_to(dtype) && !th_is_floating(dtype))
        return th_fail(ctx, TH_ERROR_TYPE, operation, "weights are not stored as %s", th_dtype_name(dtype));
    if (mark_blocks(m, dtype) == TH_OK)
        (void)reserve_all(m, dtype);
    const th_status status = th_parameters_move(ctx, operation);
    for (th_parameter_block *block = ctx->parameter_blocks; block; block = block->next)
        block->moving_out = false;
    return status;
}
