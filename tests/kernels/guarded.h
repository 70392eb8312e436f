/* Operands for tests of kernels: random numbers, the same in every run, and memory that ends at an unreadable page. */
#ifndef TESTS_GUARDED_H
#define TESTS_GUARDED_H

#include <check.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/products/product.h"

static uint64_t random_state;

static inline int64_t draw(int64_t below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((random_state >> 33) % (uint64_t)below);
}

#define PICK(list) (list)[draw((int64_t)(sizeof(list) / sizeof *(list)))]

enum { IN_A, IN_B, IN_C, IN_BIAS, IN_RESIDUAL, IN_WORKSPACE, PURPOSES };

/* Returns `bytes` bytes that end at an unreadable page, so that an access beyond them crashes. Each purpose has one
 * memory, which grows on demand. */
static inline void *memory_end(int purpose, size_t bytes)
{
    static struct {
        char *pages;
        size_t bytes; /* without the unreadable page */
    } memories[PURPOSES];
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), capacity = (bytes / page + 1) * page;
    if (memories[purpose].bytes < capacity) {
        if (memories[purpose].pages)
            munmap(memories[purpose].pages, memories[purpose].bytes + page);
        char *pages = mmap(NULL, capacity + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ck_assert(pages != MAP_FAILED);
        ck_assert_int_eq(mprotect(pages + capacity, page, PROT_NONE), 0);
        memories[purpose].pages = pages;
        memories[purpose].bytes = capacity;
    }
    return memories[purpose].pages + memories[purpose].bytes - bytes;
}

/* Returns c = a b for row-major matrices. */
static inline th_product row_major_product(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c)
{
    return (th_product){.m = m,
                        .n = n,
                        .k = k,
                        .a = a,
                        .a_row = k,
                        .a_col = 1,
                        .b = b,
                        .b_row = n,
                        .b_col = 1,
                        .c = c,
                        .c_row = n,
                        .c_col = 1};
}

#endif
