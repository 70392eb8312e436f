/* A temporary folder for a test, and functions for whole files in it. */
#ifndef TESTS_FOLDER_H
#define TESTS_FOLDER_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "suite.h"

static char folder[64];

static inline void make_folder(void)
{
    strcpy(folder, "/tmp/tapehead_test_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static inline void remove_folder(void)
{
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

/* Returns a path in the folder. Four such paths can be in use at a time. */
static inline const char *in_folder(const char *name)
{
    static char path[4][256];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static inline void write_bytes(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert(fwrite(bytes, 1, count, file) == count);
    ck_assert_int_eq(fclose(file), 0);
}

/* Returns a whole file; the caller releases it with free. */
static inline char *read_bytes(const char *path, size_t *count)
{
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s", path);
    fseek(file, 0, SEEK_END);
    *count = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*count + 1);
    ck_assert(fread(bytes, 1, *count, file) == *count);
    bytes[*count] = 0;
    fclose(file);
    return bytes;
}

static inline void expect_same_files(const char *a, const char *b)
{
    size_t n, m;
    char *x = read_bytes(a, &n), *y = read_bytes(b, &m);
    ck_assert_msg(n == m && memcmp(x, y, n) == 0, "%s and %s differ", a, b);
    free(x);
    free(y);
}

/* Returns the descriptor that the next opened file gets. It is a larger one if a file stays open. */
static inline int next_descriptor(void)
{
    const int descriptor = open("/dev/null", O_RDONLY);
    ck_assert_int_ge(descriptor, 0);
    close(descriptor);
    return descriptor;
}

/* Returns the number of entries in the folder. */
static inline int count_files(void)
{
    char command[96];
    int count = -1;
    snprintf(command, sizeof command, "ls -A %s | wc -l", folder);
    FILE *pipe = popen(command, "r");
    ck_assert_ptr_nonnull(pipe);
    ck_assert_int_eq(fscanf(pipe, "%d", &count), 1);
    pclose(pipe);
    return count;
}

#endif
