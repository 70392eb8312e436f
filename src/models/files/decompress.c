/* Decompresses gzip (with zlib) and zstd (with libzstd), piece by piece: see tapehead/files.h. A build without one of these
 * libraries recognizes its format, and says that it cannot be read. */
#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "tapehead/files.h"

#ifdef TAPEHEAD_ZLIB
#define ZLIB_CONST
#include <zlib.h>
#endif
#ifdef TAPEHEAD_ZSTD
#include <zstd.h>
#include <zstd_errors.h>
#endif

static const char operation[] = "decompress";
enum { PIECE = 1 << 18, LEAST_LIMIT = 256 << 20, MOST_GROWTH = 200 };

typedef struct decompression {
    th_context *ctx;
    const char *name;
    const unsigned char *bytes; /* [count] */
    size_t count;
    unsigned char *piece; /* [PIECE]: the next part of the result */
    uint64_t written;
    bool (*sink)(void *user, const void *bytes, size_t count);
    void *user;
    bool stopped; /* by sink */
} decompression;

static th_status refuse(const decompression *d, const char *problem)
{
    return th_fail(d->ctx, TH_ERROR_FILE, operation, "%.300s: %s", d->name, problem);
}

#if defined TAPEHEAD_ZLIB || defined TAPEHEAD_ZSTD

/* What can be wrong with the data. */
static const char is_damaged[] = "the compressed data is damaged";
static const char ends_early[] = "the file ends within its compressed data: it is not complete";

/* Passes the first `count` bytes of the piece to sink. */
static th_status deliver(decompression *d, size_t count)
{
    const uint64_t limit = LEAST_LIMIT + (uint64_t)MOST_GROWTH * d->count;
    d->written += count;
    if (d->written > limit)
        return th_fail(d->ctx, TH_ERROR_FILE, operation,
                       "%.300s: its %zu bytes become more than %llu; decompress it yourself if this is right", d->name,
                       d->count, (unsigned long long)limit);
    d->stopped = count > 0 && !d->sink(d->user, d->piece, count);
    return TH_OK;
}

#endif
#ifdef TAPEHEAD_ZLIB

/* Decompresses the next bytes. Sets *done after the last member. */
static th_status expand_gzip_piece(decompression *d, z_stream *z, bool *done)
{
    const unsigned char *const end = d->bytes + d->count;
    const size_t rest = z->next_in ? (size_t)(end - z->next_in) : d->count;
    z->next_in = end - rest;
    z->avail_in = (uInt)th_smaller((int64_t)rest, INT32_MAX);
    z->next_out = d->piece;
    z->avail_out = PIECE;
    const int result = inflate(z, Z_NO_FLUSH);
    const size_t left = (size_t)(end - z->next_in);
    if (result == Z_MEM_ERROR)
        return th_fail_memory(d->ctx, operation, PIECE);
    if (result == Z_BUF_ERROR) /* no progress without more bytes */
        return refuse(d, ends_early);
    if (result != Z_OK && result != Z_STREAM_END)
        return refuse(d, is_damaged);
    *done = result == Z_STREAM_END && left == 0;
    const th_status status = deliver(d, PIECE - z->avail_out);
    if (status == TH_OK && result == Z_STREAM_END && left > 0 && inflateReset(z) != Z_OK)
        return refuse(d, is_damaged);
    return status;
}

static th_status expand_gzip(decompression *d)
{
    enum { GZIP_ONLY = 16 };
    z_stream z = {0};
    bool done = false;
    if (inflateInit2(&z, MAX_WBITS + GZIP_ONLY) != Z_OK)
        return th_fail_memory(d->ctx, operation, PIECE);
    th_status status = TH_OK;
    while (status == TH_OK && !done && !d->stopped)
        status = expand_gzip_piece(d, &z, &done);
    (void)inflateEnd(&z);
    return status;
}

#else

static th_status expand_gzip(decompression *d)
{
    return refuse(d, "gzip has compressed it, and this library was built without zlib; `gzip -d` decompresses it");
}

#endif
#ifdef TAPEHEAD_ZSTD

static th_status fail_zstd(const decompression *d, size_t result)
{
    switch (ZSTD_getErrorCode(result)) {
    case ZSTD_error_memory_allocation:
        return th_fail_memory(d->ctx, operation, PIECE);
    case ZSTD_error_frameParameter_windowTooLarge:
        return refuse(d, "its window is larger than 128 MiB; `zstd -d --long=31` decompresses it");
    default:
        return refuse(d, is_damaged);
    }
}

static th_status expand_zstd(decompression *d)
{
    ZSTD_DStream *stream = ZSTD_createDStream();
    ZSTD_inBuffer in = {d->bytes, d->count, 0};
    th_status status = stream ? TH_OK : th_fail_memory(d->ctx, operation, PIECE);
    for (bool done = false; status == TH_OK && !done && !d->stopped;) {
        ZSTD_outBuffer out = {d->piece, PIECE, 0};
        const size_t result = ZSTD_decompressStream(stream, &out, &in);
        if (ZSTD_isError(result))
            status = fail_zstd(d, result);
        else
            status = deliver(d, out.pos);
        done = in.pos == in.size && result == 0;
        if (status == TH_OK && !done && !d->stopped && in.pos == in.size && out.pos < out.size)
            status = refuse(d, ends_early);
    }
    ZSTD_freeDStream(stream);
    return status;
}

#else

static th_status expand_zstd(decompression *d)
{
    return refuse(d, "zstd has compressed it, and this library was built without libzstd; `zstd -d` decompresses it");
}

#endif

static const struct {
    const char *name, *magic;
    th_status (*expand)(decompression *d);
} formats[] = {{"gzip", "\x1f\x8b", expand_gzip}, {"zstd", "\x28\xb5\x2f\xfd", expand_zstd}};
enum { FORMATS = sizeof formats / sizeof *formats };

/* Returns the index of the format; FORMATS: none. */
static size_t find_format(const void *bytes, size_t count)
{
    size_t i = 0;
    while (i < FORMATS &&
           (count < strlen(formats[i].magic) || memcmp(bytes, formats[i].magic, strlen(formats[i].magic)) != 0))
        i++;
    return i;
}

const char *th_compression_name(const void *bytes, size_t count)
{
    const size_t format = bytes ? find_format(bytes, count) : FORMATS;
    return format < FORMATS ? formats[format].name : NULL;
}

th_status th_decompress(th_context *ctx, const char *name, const void *bytes, size_t count,
                        bool (*sink)(void *user, const void *bytes, size_t count), void *user)
{
    if (!th_usable_context(ctx, operation))
        return ctx ? th_error_code(ctx) : TH_ERROR_ARGUMENT;
    if (bytes == NULL || sink == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, bytes ? "sink is NULL" : "the bytes are NULL");
    decompression d = {
        .ctx = ctx, .name = name ? name : "the data", .bytes = bytes, .count = count, .sink = sink, .user = user};
    const size_t format = find_format(bytes, count);
    if (format == FORMATS)
        return refuse(&d, "neither gzip nor zstd has compressed it");
    d.piece = th_allocate(ctx, PIECE);
    const th_status status = d.piece ? formats[format].expand(&d) : th_fail_memory(ctx, operation, PIECE);
    th_release(ctx, d.piece, PIECE);
    return status;
}
