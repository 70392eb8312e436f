/* A file that grows by whole records: each is put together in memory and written at once, and taken back if the disk
 * had no room for all of it. */
#ifndef TH_MODELS_FILES_RECORD_FILE_H
#define TH_MODELS_FILES_RECORD_FILE_H

#include "tapehead/log.h"
#include "tensor/context.h"

typedef struct th_record_file {
    th_context *ctx;
    const char *operation;
    char *path;
    int descriptor;
    int64_t size;         /* of the whole records */
    unsigned char *bytes; /* [capacity], of which `used` are the record so far */
    size_t used, capacity;
    bool short_of_memory;
} th_record_file;

/* Opens the file to read and write, with more of open's flags (O_CREAT, O_TRUNC, O_EXCL). A symbolic link at the path
 * is an error: an untrusted folder must not lead a log to another file. After an error there is nothing to close. */
th_status th_record_open(th_record_file *f, th_context *ctx, const char *operation, const char *path, int flags);
void th_record_close(th_record_file *f);

/* More of the record; the second as printf does, with a decimal point whatever the locale. */
void th_record_put(th_record_file *f, const void *bytes, size_t n);
void th_record_format(th_record_file *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes what was put. */
th_status th_record_write(th_record_file *f);

/* Checks what both logs are given: fields that are there and have names. */
th_status th_log_check(th_record_file *f, int64_t step, const th_log_field *fields, int count);

#endif
