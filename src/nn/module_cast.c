/* Freezes and casts all parameters of a module tree in place. */
#include "nn/module.h"
#include "tapehead/tape.h"
#include "tensor/context.h"
#include "tensor/parameter.h"

th_status th_module_freeze(th_module *m, bool frozen)
{
    if (!th_module_usable(m, "module_freeze"))
        return m ? m->ctx->error : TH_ERROR_ARGUMENT;
    for (th_parameter_iterator p = th_module_parameters(m); !frozen && th_parameter_next(&p);)
        if (th_is_storage_type(th_dtype_of(p.tensor)))
            return th_fail(m->ctx, TH_ERROR_TYPE, "module_freeze",
                           "%s is stored as %s and stays frozen; th_module_store can store float32 again", p.name,
                           th_dtype_name(th_dtype_of(p.tensor)));
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);) {
        if (th_is_storage_type(th_dtype_of(p.tensor))) /* frozen already */
            continue;
        if (frozen)
            th_empty_gradient(p.tensor);
        th_set_requires_gradient(p.tensor, !frozen);
    }
    return m->ctx->error;
}

/* Allocates memory of the new type for every parameter of another type. */
static th_status reserve_all(th_module *m, th_dtype dtype)
{
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);) {
        th_tensor_impl *t = th_tensor_impl_of(p.tensor);
        if (t->dtype == dtype || th_is_storage_type(t->dtype))
            continue;
        if (th_tensor_in_use(t))
            return th_fail(m->ctx, TH_ERROR_STATE, "module_cast", "the tape still uses %s: th_tape_clear first",
                           p.name);
        if (th_parameter_reserve(t, dtype, 0, "module_cast") != TH_OK)
            return m->ctx->error;
    }
    return TH_OK;
}

th_status th_module_cast(th_module *m, th_dtype dtype)
{
    if (!th_module_usable(m, "module_cast"))
        return m ? m->ctx->error : TH_ERROR_ARGUMENT;
    th_context *ctx = m->ctx;
    if (th_refuse_in_check(ctx, "module_cast") != TH_OK)
        return ctx->error;
    if (!th_is_floating(dtype))
        return th_fail(ctx, TH_ERROR_TYPE, "module_cast", "parameters are float32 or float64, not %s",
                       th_dtype_name(dtype));
    (void)reserve_all(m, dtype);
    return th_parameters_move(ctx, "module_cast");
}
