/* A file that contains only complete records. Each record is assembled in memory and written at once. If the
 * disk is full, the file is cut back to the last complete record. */
#ifndef TH_MODELS_FILES_RECORD_FILE_H
#define TH_MODELS_FILES_RECORD_FILE_H

#include "tapehead/log.h"

typedef struct th_record_file {
    th_context *ctx;
    const char *operation;
    char *path;
    int descriptor;
    int64_t size;         /* bytes of the complete records */
    unsigned char *bytes; /* [capacity]; the first `used` are the record so far */
    size_t used, capacity;
    bool short_of_memory;
    bool torn; /* the file may end with a part of a record, which could not be cut off */
} th_record_file;

/* Returns a record file that is not open yet and belongs to the context. Returns NULL with the error pending. A log is
 * a struct with a th_record_file as its only member. */
th_record_file *th_record_new(th_context *ctx, const char *operation);
/* Closes and frees it; NULL is allowed. */
void th_record_free(th_record_file *f);

/* Opens the file to read and write, with more of open's flags (O_CREAT, O_TRUNC, O_EXCL). A symbolic link at the path
 * is an error: an untrusted folder must not lead a log to another file. After an error there is nothing to close. */
th_status th_record_open(th_record_file *f, th_context *ctx, const char *operation, const char *path, int flags);
/* Closes the file and releases the memory. */
void th_record_close(th_record_file *f);

/* Appends bytes to the record. */
void th_record_put(th_record_file *f, const void *bytes, size_t n);
/* Appends formatted numbers. Their decimal point does not depend on the locale. */
void th_record_format(th_record_file *f, const char *format, ...) TH_FORMAT(2, 3);
/* Writes the record. After an error the file contains only complete records. */
th_status th_record_write(th_record_file *f);

/* Checks the arguments of both kinds of logs: a step of at least 0, and fields with names. */
th_status th_log_check_arguments(th_record_file *f, int64_t step, const th_log_field *fields, int count);

#endif
