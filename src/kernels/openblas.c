/* Finding OpenBLAS and its functions at run time. */
#include "kernels/openblas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static th_openblas_functions functions; /* written once, before anybody reads it */
static bool found;

/* A function of the library, or NULL; target is a pointer to a function pointer. */
static bool find(void *library, const char *name, void *target)
{
    void *symbol = dlsym(library, name);
    memcpy(target, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..." has the version as its second word. */
static void read_version(const char *config)
{
    if (sscanf(config, "OpenBLAS %15s", functions.version) != 1)
        strcpy(functions.version, "?");
}

static void load(void)
{
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        library = dlopen("libopenblas.so", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return;
    if (!find(library, "cblas_sgemm", &functions.sgemm) || !find(library, "cblas_dgemm", &functions.dgemm)) {
        dlclose(library);
        return;
    }
    void (*set_threads)(int);
    char *(*text)(void);
    if (find(library, "openblas_set_num_threads", &set_threads))
        set_threads(1);
    read_version(find(library, "openblas_get_config", &text) ? text() : "");
    snprintf(functions.core, sizeof functions.core, "%s", find(library, "openblas_get_corename", &text) ? text() : "?");
    found = true;
}

const th_openblas_functions *th_openblas(void)
{
    pthread_once(&once, load);
    return found ? &functions : NULL;
}
