/* Reads and writes whole files by the rules of this library (SECURITY.md), for programs that also keep settings, samples or
 * reports in files. */
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

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_file_read(...) TH_AT_STATUS(th_file_read(__VA_ARGS__))
#define th_file_write(...) TH_AT_STATUS(th_file_write(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
