/* What the programs of the comparisons share. A program is given a folder of .npy files, NAME.npy holding the operand
 * of that name, and leaves its results there in the same way. Whatever goes wrong ends it with a sentence. */
#ifndef INTEROP_DRIVER_H
#define INTEROP_DRIVER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tapehead/tapehead.h>

enum { MAX_DRIVER_PATH = 1024 };

/* Ends the program if an error is pending. */
static inline void driver_check(th_context *ctx)
{
    if (th_error_code(ctx) == TH_OK)
        return;
    fprintf(stderr, "%s\n", th_error_message(ctx));
    exit(EXIT_FAILURE);
}

static inline char *driver_path(char *path, const char *folder, const char *prefix, const char *name)
{
    if (snprintf(path, MAX_DRIVER_PATH, "%s/%s%s.npy", folder, prefix, name) >= MAX_DRIVER_PATH) {
        fprintf(stderr, "%s: this path is too long\n", folder);
        exit(EXIT_FAILURE);
    }
    return path;
}

static inline th_tensor *driver_read(th_context *ctx, const char *folder, const char *name)
{
    char path[MAX_DRIVER_PATH];
    th_tensor *t = th_npy_read(ctx, driver_path(path, folder, "", name));
    driver_check(ctx);
    return t;
}

/* The same, or NULL where there is no such file. */
static inline th_tensor *driver_read_optional(th_context *ctx, const char *folder, const char *name)
{
    char path[MAX_DRIVER_PATH];
    FILE *file = fopen(driver_path(path, folder, "", name), "rb");
    if (file == NULL)
        return NULL;
    fclose(file);
    return driver_read(ctx, folder, name);
}

static inline void driver_write(th_context *ctx, const char *folder, const char *name, th_tensor *t)
{
    char path[MAX_DRIVER_PATH];
    driver_check(ctx);
    if (t == NULL || th_npy_write(t, driver_path(path, folder, "", name)))
        driver_check(ctx);
}

/* Every parameter of the model takes its values from the file of its name; the model computes in dtype from now on. */
static inline void driver_read_parameters(th_module *model, const char *folder, th_dtype dtype)
{
    if (th_module_cast(model, dtype))
        driver_check(model->ctx);
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);) {
        th_tensor *values = driver_read(model->ctx, folder, p.name);
        if (th_copy_into(p.tensor, values))
            driver_check(model->ctx);
        th_tensor_free(values);
    }
}

/* Writes the gradient of every parameter that has one as gradient.NAME. */
static inline void driver_write_gradients(th_module *model, const char *folder)
{
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);) {
        char path[MAX_DRIVER_PATH];
        th_tensor *gradient = th_gradient(p.tensor);
        if (gradient && th_npy_write(gradient, driver_path(path, folder, "gradient.", p.name)))
            driver_check(model->ctx);
    }
}

#endif
