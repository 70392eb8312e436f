/* replay TARGET FOLDER [CHANGES]: runs a fuzz target on each file of a folder, without libFuzzer, and on CHANGES
 * changed copies of each file (none by default). The changes are the same in each run. Prints each name, so that the
 * last line names an input that fails. */
#include <dirent.h>
#include <unistd.h>

#include "fuzz.h"

/* CMake lists the targets in targets.def, and gives each target's functions these names. */
#define TARGET(name)                                                                                                   \
    int name##_test(const uint8_t *data, size_t size);                                                                 \
    size_t name##_mutate(uint8_t *data, size_t size, size_t max_size, unsigned seed) __attribute__((weak));
#include "targets.def"
#undef TARGET

typedef struct target {
    const char *name;
    int (*test)(const uint8_t *data, size_t size);
    size_t (*mutate)(uint8_t *data, size_t size, size_t max_size, unsigned seed); /* NULL: the general one */
} target;

static const target targets[] = {
#define TARGET(name) {#name, name##_test, name##_mutate},
#include "targets.def"
#undef TARGET
};

enum { LARGEST_INPUT = 1 << 17, SECONDS = 120 }; /* the time limit only finds endless loops */

/* -- the general mutator -- */

static uint64_t state;

static size_t draw(size_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(state >> 33) % below;
}

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size)
{
    if (size == 0)
        return 0;
    const size_t at = draw(size), length = 1 + draw(size - at < 16 ? size - at : 16);
    switch (draw(4)) {
    case 0:
        data[at] ^= (uint8_t)(1u << draw(8));
        break;
    case 1:
        data[at] = (uint8_t)draw(256);
        break;
    case 2: /* removes a part */
        memmove(data + at, data + at + length, size - at - length);
        return size - length;
    default: /* repeats a part */
        if (size + length > max_size)
            break;
        memmove(data + at + length, data + at, size - at);
        return size + length;
    }
    return size;
}

/* -- running -- */

static void run(const target *t, const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1); /* sanitizers detect a read behind it */
    FUZZ_CHECK(copy != NULL, "out of memory");
    memcpy(copy, bytes, size);
    (void)alarm(SECONDS);
    (void)t->test(copy, size);
    (void)alarm(0);
    free(copy);
}

static void run_file(const target *t, const char *path, int changes)
{
    static uint8_t bytes[LARGEST_INPUT];
    FILE *file = fopen(path, "rb");
    FUZZ_CHECK(file != NULL, "%s cannot be opened", path);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    printf("%s\n", path);
    fflush(stdout);
    run(t, bytes, size);
    state = size;
    for (int i = 0; i < changes; i++) {
        size = t->mutate ? t->mutate(bytes, size, sizeof bytes, (unsigned)draw(1u << 31))
                         : LLVMFuzzerMutate(bytes, size, sizeof bytes);
        run(t, bytes, size);
    }
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

int main(int argc, char **argv)
{
    const target *found = NULL;
    struct dirent **entry;
    char path[4096];
    for (size_t i = 0; argc > 2 && i < sizeof targets / sizeof *targets; i++)
        if (strcmp(argv[1], targets[i].name) == 0)
            found = &targets[i];
    const int files = found ? scandir(argv[2], &entry, is_visible, alphasort) : 0;
    if (files <= 0) {
        fprintf(stderr, "replay: no such target, or no inputs\n");
        return EXIT_FAILURE;
    }
    for (int i = 0; i < files; i++) {
        snprintf(path, sizeof path, "%s/%s", argv[2], entry[i]->d_name);
        run_file(found, path, argc > 3 ? atoi(argv[3]) : 0);
        free(entry[i]);
    }
    free(entry);
    printf("%d inputs of %s\n", files, found->name);
    return EXIT_SUCCESS;
}
