/* Replaces the functions that allocate. The executable defines malloc and its like, so jansson and PCRE2 call them too.
 * The sanitizers and other C libraries than glibc do not allow this: with them the linker redirects calls in the
 * library's files (--wrap). The linker always redirects calls of mmap, munmap, pthread_create and fsync. It also
 * redirects calls of the library's allocators, which cut blocks and records from larger pieces of memory. */
#include "refusing.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "memory.h"
#include "tensor/block_allocator.h"
#include "tensor/pool.h"

static atomic_long seen, live;
static atomic_long refused_at;
static atomic_bool refused_forever, watching;
static refused_call watched;

void refuse(refused_call kind, long nth, bool forever)
{
    watched = kind;
    seen = 0;
    refused_at = nth;
    refused_forever = forever;
    watching = true;
}

void refuse_nothing(void)
{
    watching = false;
}

long calls_seen(void)
{
    return seen;
}

long live_blocks(void)
{
    return OWN_MALLOC ? live : 0;
}

/* Counts a call. Returns true, with errno, if it must fail. */
static bool is_refused(refused_call kind, int error)
{
    if (!watching || watched != kind)
        return false;
    const long call = atomic_fetch_add(&seen, 1) + 1, nth = refused_at;
    const bool refused = nth > 0 && (call == nth || (refused_forever && call > nth));
    if (refused)
        errno = error;
    return refused;
}

static bool no_memory(void)
{
    return is_refused(REFUSE_ALLOCATIONS, ENOMEM);
}

static void *counted(void *memory)
{
    live += memory != NULL;
    return memory;
}

#if OWN_MALLOC
#define FUNCTION(name) name
#define REAL(name) __libc_##name
#else
#define FUNCTION(name) __wrap_##name
#define REAL(name) __real_##name
#endif

void *REAL(malloc)(size_t bytes);
void *REAL(calloc)(size_t count, size_t bytes);
void *REAL(realloc)(void *memory, size_t bytes);

void *FUNCTION(malloc)(size_t bytes);
void *FUNCTION(calloc)(size_t count, size_t bytes);
void *FUNCTION(realloc)(void *memory, size_t bytes);
void *FUNCTION(aligned_alloc)(size_t alignment, size_t bytes);

void *FUNCTION(malloc)(size_t bytes)
{
    return no_memory() ? NULL : counted(REAL(malloc)(bytes));
}

void *FUNCTION(calloc)(size_t count, size_t bytes)
{
    return no_memory() ? NULL : counted(REAL(calloc)(count, bytes));
}

void *FUNCTION(realloc)(void *memory, size_t bytes)
{
    if (bytes > 0 && no_memory())
        return NULL;
    void *const moved = REAL(realloc)(memory, bytes);
    live += (moved != NULL && memory == NULL) - (memory != NULL && bytes == 0);
    return moved;
}

#if OWN_MALLOC
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *memory);

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return no_memory() ? NULL : counted(__libc_memalign(alignment, bytes));
}

void *memalign(size_t alignment, size_t bytes);
void *memalign(size_t alignment, size_t bytes)
{
    return aligned_alloc(alignment, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    void *const block = aligned_alloc(alignment, bytes);
    if (block)
        *memory = block;
    return block ? 0 : ENOMEM;
}

void free(void *memory)
{
    const int error = errno;
    live -= memory != NULL;
    __libc_free(memory);
    errno = error;
}
#else
void *__real_aligned_alloc(size_t alignment, size_t bytes);

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return no_memory() ? NULL : __real_aligned_alloc(alignment, bytes);
}

char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
    const size_t bytes = strlen(text) + 1;
    char *const copy = __wrap_malloc(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}
#endif

/* -- mappings and threads -- */

void *__real_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset);
int __real_munmap(void *memory, size_t bytes);
int __wrap_munmap(void *memory, size_t bytes);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *),
                          void *argument);

void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset)
{
    if (no_memory())
        return MAP_FAILED;
    void *const memory = __real_mmap(at, bytes, protection, flags, file, offset);
    live += memory != MAP_FAILED;
    return memory;
}

int __wrap_munmap(void *memory, size_t bytes)
{
    live--;
    return __real_munmap(memory, bytes);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *),
                          void *argument)
{
    return is_refused(REFUSE_THREADS, EAGAIN) ? EAGAIN : __real_pthread_create(thread, attributes, function, argument);
}

/* -- the library's allocators: any call may need a new chunk or page -- */

th_block *__real_th_block_allocate(th_block_allocator *allocator, size_t bytes);
th_block *__wrap_th_block_allocate(th_block_allocator *allocator, size_t bytes);
void *__real_th_pool_new(th_context *ctx, th_pool *pool);
void *__wrap_th_pool_new(th_context *ctx, th_pool *pool);
void *__real_th_bump_allocate(th_context *ctx, th_bump *bump, size_t bytes);
void *__wrap_th_bump_allocate(th_context *ctx, th_bump *bump, size_t bytes);

th_block *__wrap_th_block_allocate(th_block_allocator *allocator, size_t bytes)
{
    return no_memory() ? NULL : __real_th_block_allocate(allocator, bytes);
}

void *__wrap_th_pool_new(th_context *ctx, th_pool *pool)
{
    return no_memory() ? NULL : __real_th_pool_new(ctx, pool);
}

void *__wrap_th_bump_allocate(th_context *ctx, th_bump *bump, size_t bytes)
{
    return no_memory() ? NULL : __real_th_bump_allocate(ctx, bump, bytes);
}

/* -- waiting for the disk, which takes most of the time of a run and is not tested here -- */

int __wrap_fsync(int file);

int __wrap_fsync(int file)
{
    (void)file;
    return 0;
}
