/* Opens token files and reads tokens. A file is mapped into memory, and everything that is read from it is checked. */
#include "models/data/token_file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "models/core/context.h"
#include "models/core/files.h"

static const char operation[] = "token_file";

static th_status fail(const th_token_file *f, const char *reason)
{
    return th_fail(f->ctx, TH_ERROR_FILE, operation, "%.300s: %s", f->path, reason);
}

/* -- contents -- */

static void widen_tokens(const th_token_file *f, int64_t begin, int64_t count, int32_t *tokens)
{
    const unsigned char *from = f->map + TH_TOKEN_HEADER + begin * f->header.width;
    if (f->header.width == 4) {
        memcpy(tokens, from, (size_t)count * sizeof *tokens);
        for (int64_t i = 0; f->header.marked && i < count; i++)
            tokens[i] &= (1 << TH_TOKEN_MARKS_AT) - 1;
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        uint16_t token;
        memcpy(&token, from + 2 * i, sizeof token);
        tokens[i] = token;
    }
}

/* Returns the index of the first token from `begin` on that is outside the vocabulary; `end` if all are inside. */
static int64_t find_invalid_token(const th_token_file *f, int64_t begin, int64_t end)
{
    int32_t tokens[1024];
    for (int64_t n; begin < end; begin += n) {
        n = end - begin < 1024 ? end - begin : 1024;
        widen_tokens(f, begin, n, tokens);
        for (int64_t i = 0; i < n; i++)
            if (tokens[i] < 0 || tokens[i] >= f->header.vocabulary)
                return begin + i;
    }
    return end;
}

static th_status check_block(th_token_file *f, int64_t block)
{
    const th_token_header *h = &f->header;
    const int64_t token_bytes = h->count * h->width, begin = block * TH_TOKEN_BLOCK;
    const int64_t bytes = token_bytes - begin < TH_TOKEN_BLOCK ? token_bytes - begin : TH_TOKEN_BLOCK;
    const unsigned char *tokens = f->map + TH_TOKEN_HEADER;
    uint32_t crc;
    memcpy(&crc, tokens + token_bytes + block * (int64_t)sizeof crc, sizeof crc);
    const int64_t first = begin / h->width, end = (begin + bytes) / h->width;
    if (crc != th_crc32c(0, tokens + begin, (size_t)bytes))
        return th_fail(f->ctx, TH_ERROR_FILE, operation,
                       "%.300s is damaged: the checksum of tokens %lld to %lld is wrong", f->path, (long long)first,
                       (long long)end - 1);
    const int64_t invalid = find_invalid_token(f, first, end);
    if (invalid < end)
        return th_fail(f->ctx, TH_ERROR_FILE, operation, "%.300s: token %lld is outside its vocabulary of %lld",
                       f->path, (long long)invalid, (long long)h->vocabulary);
    f->checked[block] = 1;
    return TH_OK;
}

/* Verifies the checksums of the blocks of some tokens. */
static th_status check_tokens(th_token_file *f, int64_t begin, int64_t count)
{
    if (count == 0)
        return TH_OK;
    const int64_t first = begin * f->header.width / TH_TOKEN_BLOCK;
    const int64_t last = ((begin + count) * f->header.width - 1) / TH_TOKEN_BLOCK;
    for (int64_t block = first; block <= last; block++)
        if (!f->checked[block] && check_block(f, block) != TH_OK)
            return th_error_code(f->ctx);
    return TH_OK;
}

th_status th_token_file_get(th_token_file *f, int64_t begin, int64_t count, int32_t *tokens)
{
    if (check_tokens(f, begin, count) != TH_OK)
        return th_error_code(f->ctx);
    widen_tokens(f, begin, count, tokens);
    return TH_OK;
}

/* Returns the marks of a token of a file with marks. */
static unsigned char marks_of(const th_token_file *f, int64_t token)
{
    uint32_t stored;
    memcpy(&stored, f->map + TH_TOKEN_HEADER + token * (int64_t)sizeof stored, sizeof stored);
    return (unsigned char)(stored >> TH_TOKEN_MARKS_AT);
}

th_status th_token_file_get_marks(th_token_file *f, int64_t begin, int64_t count, unsigned char *marks)
{
    if (check_tokens(f, begin, count) != TH_OK)
        return th_error_code(f->ctx);
    for (int64_t i = 0; i < count; i++)
        marks[i] = f->header.marked ? marks_of(f, begin + i) : 0;
    return TH_OK;
}

int64_t th_token_file_count_unmarked(const th_token_file *f, int64_t begin, int64_t end)
{
    int64_t count = f->header.marked ? 0 : end - begin;
    for (int64_t i = begin; f->header.marked && i < end; i++)
        count += marks_of(f, i) == 0;
    return count;
}

/* -- reading -- */

static th_status check_range(th_token_file *f, int64_t begin, int64_t count, const void *to)
{
    if (f == NULL || to == NULL)
        return th_fail_last(TH_ERROR_ARGUMENT, operation, "needs a file and a buffer");
    if (th_failed(f->ctx))
        return th_error_code(f->ctx);
    if (begin < 0 || count < 0 || begin > f->header.count || count > f->header.count - begin)
        return th_fail(f->ctx, TH_ERROR_INDEX, operation,
                       "%lld tokens starting at token %lld are outside %.300s, which has %lld", (long long)count,
                       (long long)begin, f->path, (long long)f->header.count);
    return TH_OK;
}

th_status th_token_file_read(th_token_file *f, int64_t begin, int64_t count, int32_t *tokens)
{
    const th_status status = check_range(f, begin, count, tokens);
    return status != TH_OK ? status : th_token_file_get(f, begin, count, tokens);
}

th_status th_token_file_read_marks(th_token_file *f, int64_t begin, int64_t count, unsigned char *marks)
{
    const th_status status = check_range(f, begin, count, marks);
    return status != TH_OK ? status : th_token_file_get_marks(f, begin, count, marks);
}

bool th_token_file_has_marks(const th_token_file *f)
{
    return f && f->header.marked;
}

int64_t th_token_file_count(const th_token_file *f)
{
    return f ? f->header.count : 0;
}

int64_t th_token_file_vocabulary(const th_token_file *f)
{
    return f ? f->header.vocabulary : 0;
}

/* -- opening -- */

/* Maps the descriptor's file, which has f->bytes bytes. Checks that its header and its size agree. */
static th_status map_file(th_token_file *f, int descriptor)
{
    if (f->bytes < TH_TOKEN_HEADER)
        return fail(f, "it is too short for a token file");
    void *memory = mmap(NULL, (size_t)f->bytes, PROT_READ, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED)
        return fail(f, strerror(errno));
    f->map = memory;
    const char *reason = th_token_header_read(f->map, &f->header);
    if (reason)
        return fail(f, reason);
    f->blocks = th_token_blocks(&f->header);
    const int64_t expected = TH_TOKEN_HEADER + f->header.count * f->header.width + 4 * f->blocks;
    if (f->bytes != expected)
        return th_fail(f->ctx, TH_ERROR_FILE, operation,
                       "%.300s: %lld tokens take %lld bytes, but it has %lld: it is %s", f->path,
                       (long long)f->header.count, (long long)expected, (long long)f->bytes,
                       f->bytes < expected ? "cut short" : "longer than it should be");
    return TH_OK;
}

static th_status check_all(th_token_file *f)
{
    (void)posix_madvise((void *)(uintptr_t)f->map, (size_t)f->bytes, POSIX_MADV_SEQUENTIAL);
    for (int64_t block = 0; block < f->blocks; block++)
        if (check_block(f, block) != TH_OK)
            return th_error_code(f->ctx);
    (void)posix_madvise((void *)(uintptr_t)f->map, (size_t)f->bytes, POSIX_MADV_RANDOM);
    return TH_OK;
}

static th_status open_file(th_token_file *f, const th_token_file_options *options)
{
    const char *reason;
    const int descriptor = th_regular_descriptor(f->path, &f->bytes, &reason);
    if (descriptor < 0)
        return fail(f, reason);
    th_status status = map_file(f, descriptor);
    close(descriptor);
    if (status != TH_OK)
        return status;
    f->checked = th_allocate(f->ctx, (size_t)f->blocks);
    if (f->checked == NULL && f->blocks > 0)
        return th_fail_memory(f->ctx, operation, (size_t)f->blocks);
    if (f->checked)
        memset(f->checked, 0, (size_t)f->blocks);
    return options && options->check_when_used ? TH_OK : check_all(f);
}

static void release(th_context *ctx, void *object)
{
    th_token_file *f = object;
    th_release(ctx, f->checked, (size_t)f->blocks);
    if (f->map)
        munmap((void *)(uintptr_t)f->map, (size_t)f->bytes);
    th_release(ctx, f->path, f->path ? strlen(f->path) + 1 : 0);
    th_release(ctx, f, sizeof *f);
}

th_token_file *th_token_file_open(th_context *ctx, const char *path, const th_token_file_options *options)
{
    if (!th_usable_context(ctx, operation))
        return NULL;
    if (path == NULL) {
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the path is NULL");
        return NULL;
    }
    th_token_file *f = th_allocate(ctx, sizeof *f);
    if (f)
        *f = (th_token_file){.ctx = ctx, .path = th_allocate(ctx, strlen(path) + 1), .references = 1};
    if (f && f->path)
        strcpy(f->path, path);
    if (f == NULL || f->path == NULL || !th_attach_object(ctx, f, release)) {
        if (f)
            release(ctx, f);
        th_fail_memory(ctx, operation, sizeof *f);
        return NULL;
    }
    if (open_file(f, options) == TH_OK)
        return f;
    th_token_file_close(f);
    return NULL;
}

void th_token_file_drop(th_token_file *f)
{
    if (--f->references > 0)
        return;
    th_detach_object(f->ctx, f);
    release(f->ctx, f);
}

void th_token_file_close(th_token_file *f)
{
    if (f)
        th_token_file_drop(f);
}
