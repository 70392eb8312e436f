/* What kernels are run on: numbers at random that are the same in every run, in memory that ends where no memory is. */
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

/* Memory after whose last byte there is none, so that reading or writing beyond it is a crash. There is one of these
 * for every purpose, as large as the largest so far. */
static inline void *memory_end(int purpose, size_t bytes)
{
    static struct {
        char *pages;
        size_t bytes; /* without the page that cannot be read */
    } memories[PURPOSES];
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes / page + 1) * page;
    if (memories[purpose].bytes < room) {
        if (memories[purpose].pages)
            munmap(memories[purpose].pages, memories[purpose].bytes + page);
        char *pages = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ck_assert(pages != MAP_FAILED);
        ck_assert_int_eq(mprotect(pages + room, page, PROT_NONE), 0);
        memories[purpose].pages = pages;
        memories[purpose].bytes = room;
    }
    return memories[purpose].pages + memories[purpose].bytes - bytes;
}

/* c = a b, of matrices whose elements lie row by row. */
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
