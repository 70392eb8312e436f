/* Makes a model with shapes only for a comparison: see shapes_first.h. */
#include "models/saved_models/shapes_first.h"

#include "models/core/context.h"
#include "tapehead/context.h"

th_status th_shapes_first(const th_safetensors *file, const th_language_model_options *options, const char *path,
                          const char *operation, th_compare_shapes *compare, void *user)
{
    /* Modules take memory even without values. A layer has at least one tensor, so the file limits their number. */
    if (options->layers > file->count)
        return th_fail(file->ctx, TH_ERROR_FILE, operation,
                       "%.300s does not fit: it has %lld tensors, too few for a model of %lld layers", path,
                       (long long)file->count, (long long)options->layers);
    th_context *ctx = th_context_new(&(th_context_options){.shapes_only = true});
    th_module *model = th_language_model_new(ctx, options);
    if (model)
        compare(model, user);
    th_context_free(ctx);
    th_use_context(file->ctx);
    return th_error_code(file->ctx);
}
