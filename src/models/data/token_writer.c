/* Writes token files in pieces. Only a buffer and the checksums so far are in memory. */
#include <errno.h>
#include <string.h>

#include "models/core/context.h"
#include "models/core/files.h"
#include "models/data/token_file.h"

enum { BUFFER = 1 << 16, FIRST_BLOCKS = 4 };

struct th_token_writer {
    th_context *ctx;
    th_atomic_file file;
    bool open, failed;
    char path[TH_MAX_PATH];
    th_token_header header;
    uint32_t *crc; /* [capacity], of the blocks begun so far; there is always space for one more */
    int64_t capacity;
    unsigned char buffer[BUFFER];
};

static const char operation[] = "token_writer";

static void release(th_context *ctx, void *object)
{
    th_token_writer *w = object;
    if (w->open)
        th_atomic_end(&w->file, false);
    th_release(ctx, w->crc, (size_t)w->capacity * sizeof *w->crc);
    th_release(ctx, w, sizeof *w);
}

/* Makes space for the checksum of one more block. */
static bool grow_checksums(th_token_writer *w, int64_t blocks)
{
    if (blocks < w->capacity)
        return true;
    const int64_t capacity = w->capacity ? 2 * w->capacity : FIRST_BLOCKS;
    uint32_t *crc = th_allocate(w->ctx, (size_t)capacity * sizeof *crc);
    if (crc == NULL)
        return false;
    if (w->capacity)
        memcpy(crc, w->crc, (size_t)w->capacity * sizeof *crc);
    memset(crc + w->capacity, 0, (size_t)(capacity - w->capacity) * sizeof *crc);
    th_release(w->ctx, w->crc, (size_t)w->capacity * sizeof *crc);
    w->crc = crc;
    w->capacity = capacity;
    return true;
}

static th_status fail_file(th_token_writer *w)
{
    w->failed = true;
    return th_fail(w->ctx, TH_ERROR_FILE, operation, "%.300s: %s", w->path,
                   errno ? strerror(errno) : "it cannot be written");
}

static bool put_header(th_token_writer *w)
{
    unsigned char bytes[TH_TOKEN_HEADER];
    th_token_header_write(&w->header, bytes);
    return fwrite(bytes, 1, sizeof bytes, w->file.file) == sizeof bytes;
}

static th_token_writer *open_writer(th_context *ctx, const char *path, int64_t vocabulary, bool marked)
{
    if (!th_usable_context(ctx, operation))
        return NULL;
    if (path == NULL || vocabulary < 1 || vocabulary > th_token_max_vocabulary(marked)) {
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "needs a path and a vocabulary of 1 to 2^%d, not %lld",
                marked ? TH_TOKEN_MARKS_AT : 31, (long long)vocabulary);
        return NULL;
    }
    th_token_writer *w = th_allocate(ctx, sizeof *w);
    if (w)
        *w = (th_token_writer){
            .ctx = ctx,
            .header = {.width = th_token_width(vocabulary, marked), .vocabulary = vocabulary, .marked = marked}};
    if (w == NULL || !grow_checksums(w, 0) || !th_attach_object(ctx, w, release)) {
        if (w)
            release(ctx, w);
        th_fail_memory(ctx, operation, sizeof *w);
        return NULL;
    }
    snprintf(w->path, sizeof w->path, "%s", path); /* for messages: th_atomic_begin rejects longer paths */
    errno = 0;
    w->open = th_atomic_begin(&w->file, path);
    if (w->open && put_header(w)) /* reserves the bytes of the header, whose contents are known only at the end */
        return w;
    fail_file(w);
    th_token_writer_free(w);
    return NULL;
}

th_token_writer *th_token_writer_open(th_context *ctx, const char *path, int64_t vocabulary)
{
    return open_writer(ctx, path, vocabulary, false);
}

th_token_writer *th_token_writer_open_marked(th_context *ctx, const char *path, int64_t vocabulary)
{
    return open_writer(ctx, path, vocabulary, true);
}

/* Writes whole tokens, at most up to the end of a block. */
static bool put_bytes(th_token_writer *w, size_t bytes)
{
    const int64_t block = w->header.count * w->header.width / TH_TOKEN_BLOCK;
    if (!grow_checksums(w, block)) {
        th_fail_memory(w->ctx, operation, (size_t)w->capacity * sizeof *w->crc);
        w->failed = true;
        return false;
    }
    w->crc[block] = th_crc32c(w->crc[block], w->buffer, bytes);
    w->header.count += (int64_t)bytes / w->header.width;
    errno = 0;
    if (fwrite(w->buffer, 1, bytes, w->file.file) == bytes)
        return true;
    fail_file(w);
    return false;
}

/* Adds the marks to tokens in the buffer. Returns false at an unknown mark. */
static bool add_marks(th_token_writer *w, const unsigned char *marks, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t stored;
        if (marks[i] > (TH_TOKEN_BEGINS | TH_TOKEN_GIVEN)) {
            w->failed = true;
            th_fail(w->ctx, TH_ERROR_VALUE, operation, "the marks of token %lld of %.300s are %d, which is unknown",
                    (long long)(w->header.count + i), w->path, (int)marks[i]);
            return false;
        }
        unsigned char *at = w->buffer + i * (int64_t)sizeof stored;
        memcpy(&stored, at, sizeof stored);
        stored |= (uint32_t)marks[i] << TH_TOKEN_MARKS_AT;
        memcpy(at, &stored, sizeof stored);
    }
    return true;
}

/* Converts tokens to the file's width in the buffer. Returns false at a token outside the vocabulary. */
static bool narrow_tokens(th_token_writer *w, const int32_t *tokens, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (tokens[i] < 0 || tokens[i] >= w->header.vocabulary) {
            w->failed = true;
            th_fail(w->ctx, TH_ERROR_INDEX, operation, "token %lld of %.300s is %d, outside a vocabulary of %lld",
                    (long long)(w->header.count + i), w->path, (int)tokens[i], (long long)w->header.vocabulary);
            return false;
        }
        memcpy(w->buffer + i * w->header.width, &tokens[i], (size_t)w->header.width);
    }
    return true;
}

th_status th_token_writer_append(th_token_writer *w, const int32_t *tokens, int64_t count)
{
    return th_token_writer_append_marked(w, tokens, NULL, count);
}

th_status th_token_writer_append_marked(th_token_writer *w, const int32_t *tokens, const unsigned char *marks,
                                        int64_t count)
{
    if (w == NULL)
        return th_fail_last(TH_ERROR_ARGUMENT, operation, "the writer is NULL");
    if (th_failed(w->ctx))
        return th_error_code(w->ctx);
    if (marks && !w->header.marked)
        return th_fail(w->ctx, TH_ERROR_STATE, operation,
                       "%.300s has no marks; th_token_writer_open_marked begins a file with marks", w->path);
    if (w->failed || count < 0 || (tokens == NULL && count > 0))
        return th_fail(w->ctx, TH_ERROR_ARGUMENT, operation,
                       "the tokens are NULL, their number is negative, or an earlier call failed");
    /* The end of a block is always the end of a buffer, too. */
    for (int64_t done = 0, n; done < count; done += n) {
        const int64_t filled = w->header.count * w->header.width % BUFFER, space = (BUFFER - filled) / w->header.width;
        n = count - done < space ? count - done : space;
        if (!narrow_tokens(w, tokens + done, n) || (marks && !add_marks(w, marks + done, n)) ||
            !put_bytes(w, (size_t)(n * w->header.width)))
            return th_error_code(w->ctx);
    }
    return TH_OK;
}

/* Writes the checksums after the tokens, and the header at the start of the file. */
static bool write_checksums_and_header(th_token_writer *w)
{
    const size_t blocks = (size_t)th_token_blocks(&w->header);
    return fwrite(w->crc, sizeof *w->crc, blocks, w->file.file) == blocks && fseeko(w->file.file, 0, SEEK_SET) == 0 &&
           put_header(w);
}

th_status th_token_writer_close(th_token_writer *w)
{
    if (w == NULL)
        return th_fail_last(TH_ERROR_ARGUMENT, operation, "the writer is NULL");
    th_context *ctx = w->ctx;
    if (!th_failed(ctx) && w->failed)
        th_fail(ctx, TH_ERROR_STATE, operation, "%.300s is incomplete: an earlier call failed", w->path);
    if (!th_failed(ctx)) {
        errno = 0;
        const bool written = write_checksums_and_header(w);
        w->open = false;
        if (!th_atomic_end(&w->file, written))
            fail_file(w);
    }
    const th_status status = th_error_code(ctx);
    th_token_writer_free(w);
    return status;
}

void th_token_writer_free(th_token_writer *w)
{
    if (w == NULL)
        return;
    th_detach_object(w->ctx, w);
    release(w->ctx, w);
}
