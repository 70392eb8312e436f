/* Makes a model with shapes only to check options: see described.h. */
#include "models/families/described.h"

#include "models/core/context.h"
#include "tapehead/context.h"

/* Returns the options of a model with at most one layer of each kind. */
static th_language_model_options with_few_layers(const th_language_model_options *options)
{
    static const bool second_is_other[] = {false, true};
    th_language_model_options few = *options;
    few.layers = options->other_layers ? 2 : 1;
    few.other_layers = options->other_layers ? second_is_other : NULL;
    return few;
}

th_status th_described_check(th_context *ctx, const char *operation, const char *path,
                             const th_language_model_options *options)
{
    const th_language_model_options few = with_few_layers(options);
    th_context *shapes = th_context_new(&(th_context_options){.threads = 1, .shapes_only = true});
    const th_module *model = shapes ? th_language_model_new(shapes, &few) : NULL;
    /* (without memory, making the real model reports it) */
    if (shapes && model == NULL && th_error_code(shapes) != TH_ERROR_MEMORY)
        th_fail(ctx, TH_ERROR_FILE, operation, "%.300s: it describes a model that cannot be made: %s", path,
                th_error_text(shapes));
    th_context_free(shapes);
    th_use_context(ctx);
    return th_error_code(ctx);
}
