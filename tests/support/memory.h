/* An allocator for contexts that counts bytes and fails on request. */
#ifndef TESTS_MEMORY_H
#define TESTS_MEMORY_H

#include <malloc.h>
#include <stdlib.h>

#include "platform/system.h"
#include "tapehead/context.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNDER_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define UNDER_SANITIZER 1
#endif
#endif
#ifndef UNDER_SANITIZER
#define UNDER_SANITIZER 0
#endif

/* 1 if a test may define malloc, with glibc's own __libc_malloc. The sanitizers define malloc themselves. */
#if defined(__GLIBC__) && !UNDER_SANITIZER
#define OWN_MALLOC 1
#else
#define OWN_MALLOC 0
#endif

/* Returns the bytes that malloc has given out. It does not count them in other C libraries than glibc, under the sanitizers
 * and under valgrind; then this is 0. */
static inline size_t bytes_of_malloc(void)
{
#ifdef __GLIBC__
    const struct mallinfo2 all = mallinfo2();
    return all.uordblks + all.hblkhd;
#else
    return 0;
#endif
}

typedef struct test_memory {
    int64_t calls, fail_at; /* call number fail_at fails; 0: no call fails */
    bool forever;           /* all later calls fail too */
    size_t bytes, max;      /* in use; their maximum */
} test_memory;

static inline void *test_memory_take(void *user, size_t bytes)
{
    test_memory *m = user;
    m->calls++;
    if (m->fail_at && (m->calls == m->fail_at || (m->forever && m->calls > m->fail_at)))
        return NULL;
    m->bytes += bytes;
    m->max = m->bytes > m->max ? m->bytes : m->max;
    return th_aligned_allocate(64, bytes);
}

static inline void test_memory_give(void *user, void *memory, size_t bytes)
{
    ((test_memory *)user)->bytes -= bytes;
    th_aligned_free(memory);
}

/* Makes all calls fail from now on, until fail_at is set to 0. */
static inline void run_out(test_memory *m)
{
    m->fail_at = m->calls + 1;
    m->forever = true;
}

/* Returns the allocator for th_context_options. */
static inline th_allocator allocator_of(test_memory *m)
{
    return (th_allocator){test_memory_take, test_memory_give, m};
}

#endif
