/* Text files that appear at their path only when they are complete (atomic_file.h), with the errors of a context. A
 * crash of the machine may lose them, because people look at them at once, and they can be written again. */
#ifndef TH_IO_TEXT_FILE_H
#define TH_IO_TEXT_FILE_H

#include "platform/atomic_file.h"
#include "tapehead/context.h"

/* Opens f->file for writing, and sets errno to 0. After an error, th_text_file_end must not be called. Errors:
 * TH_ERROR_FILE. */
th_status th_text_file_begin(th_atomic_file *f, th_context *ctx, const char *path, const char *operation);
/* Closes the file, which replaces the old one if `written` is true and nothing fails. If `written` is false, errno must
 * be the caller's error, or an error must be pending. Errors: TH_ERROR_FILE; an error that is already pending. */
th_status th_text_file_end(th_atomic_file *f, bool written, th_context *ctx, const char *path, const char *operation);

#endif
