/* Counts the calls and the live allocations of malloc and its relatives, and makes a call fail. Include it in one file of a
 * program. Without OWN_MALLOC nothing is counted. */
#ifndef TESTS_COUNTED_MALLOC_H
#define TESTS_COUNTED_MALLOC_H

#include <stdbool.h>
#include <stdlib.h>

#include "memory.h"

/* Volatile, because compilers assume that malloc and free change no variable of the program. */
__attribute__((unused)) static volatile long calls, fail_at; /* call number fail_at fails; 0: none */
__attribute__((unused)) static volatile long live;           /* allocations that have not been freed */
#if OWN_MALLOC
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *memory);

static void *counted(void *memory)
{
    live += memory != NULL;
    return memory;
}

void *malloc(size_t bytes)
{
    return ++calls == fail_at ? NULL : counted(__libc_malloc(bytes));
}

void *calloc(size_t count, size_t bytes)
{
    return ++calls == fail_at ? NULL : counted(__libc_calloc(count, bytes));
}

void *realloc(void *memory, size_t bytes)
{
    if (memory == NULL)
        return malloc(bytes);
    return ++calls == fail_at ? NULL : __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) /* the context's */
{
    return counted(__libc_memalign(alignment, bytes));
}

void free(void *memory)
{
    live -= memory != NULL;
    __libc_free(memory);
}
#endif

/* Returns whether this malloc is the one that is called. The sanitizers and valgrind have their own. */
static inline bool counts_malloc(void)
{
    calls = 0;
    void *volatile byte = malloc(1);
    free(byte);
    return calls > 0;
}

#endif
