/* The configurations of configurations.def, for the programs that train. */
#ifndef BENCH_CONFIGURATIONS_H
#define BENCH_CONFIGURATIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "options.h"

typedef struct {
    const char *name;
    int64_t layers, width, heads, vocabulary, batch, length;
    bool mlp;
} configuration;

/* Returns the configuration with this name. Ends the program if the name is unknown. */
static inline const configuration *configuration_named(const char *program, const char *name)
{
    static const configuration all[] = {
#define CONFIGURATION(name, ...) {#name, __VA_ARGS__},
#include "configurations.def"
#undef CONFIGURATION
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(name, all[i].name) == 0)
            return &all[i];
    refuse(program, "unknown configuration ", name);
    return NULL;
}

#endif
