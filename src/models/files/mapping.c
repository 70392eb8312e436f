/* Maps and reads parts of files: see mapping.h. */
#include "models/files/mapping.h"

#include <sys/stat.h>
#include <unistd.h>

#include "models/core/context.h"
#include "models/core/files.h"
#include "models/core/kernels.h"

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

enum { PIECE = 4 << 20 }; /* bytes that one thread reads at a time */

static int64_t page_bytes(void)
{
    const long bytes = sysconf(_SC_PAGESIZE);
    return bytes > 0 ? bytes : 4096;
}

/* -- mapping -- */

bool th_part_can_map(const th_file_part *part, size_t alignment)
{
    struct stat status;
    if (part->bytes == 0 || part->begin % (int64_t)alignment != 0 || fstat(part->descriptor, &status) != 0)
        return false;
    const int64_t page = page_bytes(), pages = th_ceil_div(status.st_size, page);
    return part->begin + (int64_t)part->bytes <= pages * page;
}

/* Returns how many bytes of the first page are before `data`. */
static size_t offset_in_page(const void *data)
{
    return (uintptr_t)data % (uintptr_t)page_bytes();
}

static void unmap(void *data, size_t bytes)
{
    (void)munmap((char *)data - offset_in_page(data), offset_in_page(data) + bytes);
}

bool th_part_map(const th_file_part *part, th_lent_memory *memory)
{
    const int64_t lead = part->begin % page_bytes();
    const size_t length = (size_t)lead + part->bytes;
    /* Without reservation: the pages of the file are memory that the system can always read again. */
    char *pages = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, part->descriptor,
                       (off_t)(part->begin - lead));
    if (pages == MAP_FAILED)
        return false;
    (void)posix_madvise(pages, length, POSIX_MADV_WILLNEED);
    *memory = (th_lent_memory){.data = pages + lead, .release = unmap};
    return true;
}

/* -- reading -- */

typedef struct reading {
    const th_file_part *part;
    char *data;
    _Atomic bool failed;
} reading;

static void read_piece(void *shared, int64_t index, int worker)
{
    (void)worker;
    reading *r = shared;
    const int64_t begin = index * PIECE, bytes = th_smaller((int64_t)r->part->bytes - begin, PIECE);
    if (th_read_bytes_at(r->part->descriptor, r->data + begin, (size_t)bytes, (off_t)(r->part->begin + begin)) !=
        (ssize_t)bytes)
        r->failed = true;
}

bool th_part_read(th_context *ctx, const th_file_part *part, void *data)
{
    reading r = {.part = part, .data = data};
    const int64_t pieces = th_ceil_div((int64_t)part->bytes, PIECE);
    if (pieces > 1)
        th_parallel(th_threads(ctx), pieces, read_piece, &r);
    else if (pieces == 1)
        read_piece(&r, 0, 0);
    return !r.failed;
}
