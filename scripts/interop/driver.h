/* Shared by the programs of the comparisons. A program reads operands from a folder of .npy files, each named after its
 * operand, and writes its results to the same folder. Any error prints a message and ends the program. */
#ifndef INTEROP_DRIVER_H
#define INTEROP_DRIVER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tapehead/tapehead.h>

enum { MAX_DRIVER_PATH = 1024 };

/* Prints a pending error and ends the program. */
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
        fprintf(stderr, "%s: the path is too long\n", folder);
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

/* Reads a tensor, or returns NULL if the file does not exist. */
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

/* Casts the model to dtype and reads every parameter from the file with its name. */
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
