/* Reads and writes whole files by the rules of this library (SECURITY.md), for programs that also keep settings, samples or
 * reports in files. Decompresses data. */
#ifndef TAPEHEAD_FILES_H
#define TAPEHEAD_FILES_H

#include "tapehead/context.h"
#include "tapehead/tokenizer.h"

TH_BEGIN_DECLS

/* Appends the first `most` bytes of a file to text, or the whole file if it is shorter. A program that must not cut a file
 * passes its limit plus 1. Only a regular file is read: a pipe or a device is TH_ERROR_FILE, because it may never end.
 * After an error the text is as before. Errors:
 *
 *   TH_ERROR_ARGUMENT  the context, the path or the text is NULL
 *   TH_ERROR_FILE      the file cannot be read, or becomes shorter meanwhile
 *   TH_ERROR_MEMORY */
TH_API th_status th_file_read(th_context *ctx, const char *path, size_t most, th_text *text) TH_MUST_CHECK;
/* Writes a file that appears at its path only when it is complete: until then, and after an error or a crash, the old file
 * stays. The file is synchronized with the disk, and has the permissions of the old one. A link at the path is followed
 * if this user owns it and it leads to a name in its own folder; any other link is replaced. Nothing else than a regular
 * file is replaced: a device, or a pipe that a process reads, is written to. bytes may be NULL if count is 0. Errors:
 *
 *   TH_ERROR_ARGUMENT  the context, the path or the bytes are NULL
 *   TH_ERROR_FILE      the file cannot be written */
TH_API th_status th_file_write(th_context *ctx, const char *path, const void *bytes, size_t count) TH_MUST_CHECK;

/* Returns what has compressed these bytes, by their first ones: "gzip" or "zstd". NULL: neither of them. */
TH_API const char *th_compression_name(const void *bytes, size_t count);
/* Decompresses the bytes of a whole file, and passes the result to sink, in pieces. The call ends when sink returns false.
 * Several compressed parts in a row are one result. It may have 256 MiB and 200 times the compressed bytes, so that a small
 * file cannot fill the disk. The call takes less than 1 MiB of memory, and for zstd also the window of the file, at most
 * 128 MiB. name: the file's, for messages. Errors:
 *
 *   TH_ERROR_ARGUMENT  the context, the bytes or sink is NULL
 *   TH_ERROR_FILE      th_compression_name is NULL, the bytes are damaged or end too early, the result is too large, or
 *                      this library was built without zlib or libzstd. Before the error, sink may have got a part
 *   TH_ERROR_MEMORY */
TH_API th_status th_decompress(th_context *ctx, const char *name, const void *bytes, size_t count,
                               bool (*sink)(void *user, const void *bytes, size_t count), void *user) TH_MUST_CHECK;

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_file_read(...) TH_AT_STATUS(th_file_read(__VA_ARGS__))
#define th_file_write(...) TH_AT_STATUS(th_file_write(__VA_ARGS__))
#define th_decompress(...) TH_AT_STATUS(th_decompress(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
