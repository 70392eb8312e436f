/* run FOLDER [NAME...]: runs the programs, or those with these names, and prints the name and the checksum of each. The
 * status is 1 if one fails. */
#include "programs.h"

#include <string.h>

static bool is_named(const char *name, int count, char **names)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return count == 0;
}

int main(int argc, char **argv)
{
    int failed = 0, found = 0;
    if (argc < 2) {
        fprintf(stderr, "usage: run FOLDER [NAME...]\n");
        return 2;
    }
    for (int i = 0; i < program_count; i++) {
        if (!is_named(programs[i]->name, argc - 2, argv + 2))
            continue;
        found++;
        const program_result result = run_program(programs[i], argv[1], 1, NULL);
        if (result.status == TH_OK)
            printf("%s %08x\n", programs[i]->name, (unsigned)result.crc);
        else
            printf("%s failed in step %d with code %d: %s\n", programs[i]->name, result.step, result.status,
                   result.text);
        failed += result.status != TH_OK;
    }
    if (found < argc - 2) {
        fprintf(stderr, "run: no program has this name\n");
        return 2;
    }
    return failed > 0;
}
