/* muon FOLDER SETTINGS: trains the module of muon_training.h. Reads initial.NAME, target.NAME and curvature.NAME of each
 * parameter. Writes the parameters after all steps. */
#include "driver.h"
#include "muon_training.h"

typedef struct source {
    th_context *ctx;
    const char *folder;
} source;

static th_tensor *read(void *user, const char *prefix, const char *name)
{
    const source *s = user;
    char full[TH_FULL_NAME_SIZE];
    if (snprintf(full, sizeof full, "%s%s", prefix, name) >= (int)sizeof full)
        exit(EXIT_FAILURE);
    return driver_read(s->ctx, s->folder, full);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    const th_dtype dtype = setting(argv[2], "float64") != 0 ? TH_FLOAT64 : TH_FLOAT32;
    th_context *ctx = th_context_new(&(th_context_options){.default_dtype = dtype});
    th_module *m = muon_model_new(ctx);
    source s = {ctx, argv[1]};
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);)
        if (th_copy_into(p.tensor, read(&s, "initial.", p.name)))
            driver_check(ctx);
    th_optimizer *muon = muon_new_from(m, argv[2]);
    if (muon == NULL || muon_train(m, muon, read, &s))
        driver_check(ctx);
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);)
        driver_write(ctx, argv[1], p.name, p.tensor);
    th_context_free(ctx);
}
