/* For two_files.sh: prints numbers that float32 computes with kernels for float64 (angles, stored numbers). What macros
 * left out is refused with a sentence that names the macro.
 * OF_LIBRARY: it is linked to the library, which has everything. */
#include "tapehead.h"

#include <stdio.h>
#include <string.h>

/* Whether the pending error has this text. Clears the error. */
static bool refused(th_context *ctx, const char *text)
{
    const bool found = strstr(th_error_message(ctx), text) != NULL;
    if (!found)
        printf("the error is \"%s\", without %s\n", th_error_message(ctx), text);
    th_error_clear(ctx);
    return found;
}

static bool refuses(th_context *ctx)
{
    bool ok = ctx != NULL;
#if defined TAPEHEAD_NO_FLOAT64 && !defined OF_LIBRARY
    ok &= th_zeros(ctx, TH_FLOAT64, TH_SHAPE(2)) == NULL && refused(ctx, "TAPEHEAD_NO_FLOAT64");
    ok &= th_cast(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2)), TH_FLOAT64) == NULL && refused(ctx, "TAPEHEAD_NO_FLOAT64");
    th_module *layer = th_dense_new(ctx, 2, 3, NULL);
    ok &= th_module_cast(layer, TH_FLOAT64) != TH_OK && refused(ctx, "TAPEHEAD_NO_FLOAT64");
#endif
#if defined TAPEHEAD_NO_STORAGE_TYPES && !defined OF_LIBRARY
    th_module *frozen = th_dense_new(ctx, 32, 2, NULL);
    ok &= th_module_freeze(frozen, true) == TH_OK;
    ok &= th_module_store(frozen, TH_Q8_0) != TH_OK && refused(ctx, "TAPEHEAD_NO_STORAGE_TYPES");
#endif
#if defined TAPEHEAD_NO_PRECISIONS && !defined OF_LIBRARY
    ok &= th_set_precision(ctx, TH_PRECISION_BFLOAT16) != TH_OK && refused(ctx, "TAPEHEAD_NO_PRECISIONS");
    ok &= th_set_precision(ctx, TH_PRECISION_INT8) != TH_OK && refused(ctx, "TAPEHEAD_NO_PRECISIONS");
#endif
    (void)refused;
    return ok;
}

int main(void)
{
    th_context *ctx = th_context_new(&(th_context_options){.seed = 1});
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(1, 3000, 8));
    printf("rotated %a\n", th_item(th_sum(th_mul(th_rotary(x, NULL), x), TH_ALL_AXES, NULL)));
    th_module *layer = th_dense_new(ctx, 8, 8, NULL);
    bool ok = th_module_freeze(layer, true) == TH_OK;
#ifndef TAPEHEAD_NO_STORAGE_TYPES
    ok = th_module_store(layer, TH_BFLOAT16) == TH_OK;
#endif
    printf("stored %a\n", th_item(th_sum(th_module_evaluate(layer, x), TH_ALL_AXES, NULL)));
    ok &= th_error_code(ctx) == TH_OK && refuses(ctx);
    th_context_free(ctx);
    return !ok;
}
