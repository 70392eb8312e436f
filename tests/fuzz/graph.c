/* Fuzz target: random programs of the library's operations and layers. Each runs in many settings, whose results are
 * compared (graph/check.h). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "graph/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static program p;
    static finding f;
    program_decode(&p, data, size);
    if (check_program(&p, &f))
        return 0;
    minimize(&p, &f);
    program_print(&p, stderr);
    fprintf(stderr, "%s: %s\n", f.check, f.text);
    abort();
}
