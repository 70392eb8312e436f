/* Checks in a program of several processes over MPI. */
#ifndef TESTS_MPI_CHECKS_H
#define TESTS_MPI_CHECKS_H

#include <stdio.h>
#include <string.h>

#include "tapehead/mpi.h"

/* Ends all processes with a message unless the condition holds. */
#define CHECK(condition) CHECK_THAT(condition, "not true: %s", #condition)
/* As CHECK, with a message as for printf. */
#define CHECK_THAT(condition, ...)                                                                                     \
    do                                                                                                                 \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                                            \
            fprintf(stderr, __VA_ARGS__);                                                                              \
            fprintf(stderr, "\n");                                                                                     \
            exit(EXIT_FAILURE);                                                                                        \
        }                                                                                                              \
    while (0)

/* Checks that a text has these words. */
static inline void check_words(const char *text, const char *words, const char *file, int line)
{
    if (text != NULL && strstr(text, words) != NULL)
        return;
    fprintf(stderr, "%s:%d: \"%s\" instead of \"%s\"\n", file, line, text ? text : "NULL", words);
    exit(EXIT_FAILURE);
}
#define CHECK_WORDS(text, words) check_words(text, words, __FILE__, __LINE__)

#endif
