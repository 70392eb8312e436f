/* TensorBoard's event files. A record is a length, its checksum, a message, and the message's checksum. The message
 * is an Event in Protocol Buffers' encoding. Only the fields that this file writes are defined here:
 *
 *     Event    1 wall_time (double), 2 step, 3 file_version, 5 summary, 7 session_log
 *     Summary  1 value: 1 tag, 2 simple_value (float), 8 tensor, 9 metadata */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "models/core/context.h"
#include "models/core/files.h"
#include "models/files/record_file.h"

struct th_event_log {
    th_record_file file;
};

static const char operation[] = "event_log";
static const char prefix[] = "events.out.tfevents.";
enum { VARINT, FIXED64, BYTES, FIXED32 = 5 }; /* the types of a value, a part of its key */

/* -- the encoding; field numbers are below 16 here, so a key is one byte -- */

static size_t varint_size(uint64_t value)
{
    size_t size = 1;
    for (; value >= 128; value >>= 7)
        size++;
    return size;
}

static void put_varint(th_record_file *f, uint64_t value)
{
    for (; value >= 128; value >>= 7)
        th_record_put(f, &(unsigned char){(unsigned char)(value | 128)}, 1);
    th_record_put(f, &(unsigned char){(unsigned char)value}, 1);
}

static void put_key(th_record_file *f, int field, int kind)
{
    put_varint(f, (uint64_t)(field << 3 | kind));
}

/* Writes the key and the length of a field of bytes. */
static void begin_bytes(th_record_file *f, int field, size_t bytes)
{
    put_key(f, field, BYTES);
    put_varint(f, bytes);
}

static void put_text(th_record_file *f, int field, const char *text, size_t bytes)
{
    begin_bytes(f, field, bytes);
    th_record_put(f, text, bytes);
}

static size_t bytes_size(size_t bytes)
{
    return 1 + varint_size(bytes) + bytes;
}

/* -- a value of a summary -- */

/* metadata: plugin_data (1): plugin_name (1) "text" */
static const char text_metadata[] = "\x0a\x06\x0a\x04text";
/* tensor: dtype (1) DT_STRING, tensor_shape (2): dim (2): size (1) 1; its string_val (8) follows */
static const char text_tensor[] = "\x08\x07\x12\x04\x12\x02\x08\x01";

static size_t tensor_size(const th_log_field *field)
{
    return sizeof text_tensor - 1 + bytes_size(th_valid_utf8_size(field->text));
}

static size_t value_size(const th_log_field *field)
{
    const size_t tag = bytes_size(th_valid_utf8_size(field->name));
    return field->text ? tag + bytes_size(tensor_size(field)) + bytes_size(sizeof text_metadata - 1) : tag + 5;
}

static void put_valid_text(th_record_file *f, int field, const char *text)
{
    begin_bytes(f, field, th_valid_utf8_size(text));
    while (*text) {
        const char *part;
        size_t size;
        text += th_next_valid_utf8(text, &part, &size);
        th_record_put(f, part, size);
    }
}

static void put_value(th_record_file *f, const th_log_field *field)
{
    begin_bytes(f, 1, value_size(field));
    put_valid_text(f, 1, field->name);
    if (field->text == NULL) {
        const float value = (float)field->value;
        put_key(f, 2, FIXED32);
        th_record_put(f, &value, sizeof value);
        return;
    }
    begin_bytes(f, 8, tensor_size(field));
    th_record_put(f, text_tensor, sizeof text_tensor - 1);
    put_valid_text(f, 8, field->text);
    put_text(f, 9, text_metadata, sizeof text_metadata - 1);
}

/* -- records -- */

/* Returns a checksum as records contain it. It is masked, because a plain CRC is unreliable for data that contains
 * plain CRCs. */
static uint32_t masked_crc(const void *bytes, size_t n)
{
    const uint32_t crc = th_crc32c(0, bytes, n);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* Reserves the bytes of the length and its checksum, and writes the fields of every event. */
static void begin_event(th_record_file *f, int64_t step)
{
    const unsigned char reserved[12] = {0};
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const double time = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    th_record_put(f, reserved, sizeof reserved);
    put_key(f, 1, FIXED64);
    th_record_put(f, &time, sizeof time);
    put_key(f, 2, VARINT);
    put_varint(f, (uint64_t)step);
}

static th_status end_event(th_record_file *f)
{
    if (!f->short_of_memory) {
        const uint64_t length = f->used - 12;
        memcpy(f->bytes, &length, sizeof length);
        const uint32_t length_crc = masked_crc(f->bytes, sizeof length);
        memcpy(f->bytes + sizeof length, &length_crc, sizeof length_crc);
        const uint32_t crc = masked_crc(f->bytes + 12, (size_t)length);
        th_record_put(f, &crc, sizeof crc);
    }
    return th_record_write(f);
}

th_status th_event_log_write(th_event_log *log, int64_t step, const th_log_field *fields, int count)
{
    if (log == NULL)
        return th_fail_last(TH_ERROR_ARGUMENT, operation, "the log is NULL");
    th_record_file *f = &log->file;
    if (th_log_check_arguments(f, step, fields, count) != TH_OK)
        return th_error_code(f->ctx);
    size_t summary = 0;
    for (int i = 0; i < count; i++)
        summary += bytes_size(value_size(&fields[i]));
    begin_event(f, step);
    begin_bytes(f, 5, summary);
    for (int i = 0; i < count; i++)
        put_value(f, &fields[i]);
    return end_event(f);
}

/* -- opening -- */

/* Sets *seconds to a time for the name of a new file. TensorBoard reads the files of a folder in the order of their
 * names, so the time is later than those of existing files. Returns false with errno. */
static bool time_for_name(const char *folder, long long *seconds)
{
    DIR *directory = th_open_folder(folder);
    if (directory == NULL)
        return false;
    *seconds = (long long)time(NULL);
    errno = 0;
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        long long other = 0;
        const char *digit = entry->d_name + sizeof prefix - 1;
        if (strncmp(entry->d_name, prefix, sizeof prefix - 1) != 0)
            continue;
        for (; *digit >= '0' && *digit <= '9' && other < 9999999998; digit++)
            other = 10 * other + (*digit - '0');
        *seconds = other >= *seconds && other < 9999999999 ? other + 1 : *seconds;
    }
    const int error_number = errno;
    closedir(directory);
    errno = error_number;
    return error_number == 0;
}

static th_status open_file(th_event_log *log, th_context *ctx, const char *folder)
{
    char host[65] = "", name[256], path[TH_MAX_PATH];
    long long seconds;
    if (!time_for_name(folder, &seconds))
        return th_fail(ctx, TH_ERROR_FILE, operation, "%.300s: %s", folder, strerror(errno));
    (void)gethostname(host, sizeof host - 1);
    for (char *c = host; *c; c++)
        *c = *c == '/' ? '-' : *c;
    snprintf(name, sizeof name, "%s%010lld.%s.%ld", prefix, seconds, host[0] ? host : "localhost", (long)getpid());
    if (!th_path_join(path, folder, name))
        return th_fail(ctx, TH_ERROR_FILE, operation, "%.300s: %s", folder, strerror(ENAMETOOLONG));
    return th_record_open(&log->file, ctx, operation, path, O_CREAT | O_EXCL);
}

/* Writes the records that TensorBoard needs first. A START makes it discard later steps only if it is not the first
 * START, so every file has one. */
static th_status begin_file(th_record_file *f, const th_log_options *options)
{
    static const char version[] = "brain.Event:2", start[] = "\x08\x01"; /* status (1) START */
    begin_event(f, 0);
    put_text(f, 3, version, sizeof version - 1);
    if (end_event(f) != TH_OK)
        return th_error_code(f->ctx);
    begin_event(f, options->resume ? options->step + 1 : 0);
    put_text(f, 7, start, sizeof start - 1);
    return end_event(f);
}

th_event_log *th_event_log_open(th_context *ctx, const char *folder, const th_log_options *options)
{
    const th_log_options given = options ? *options : (th_log_options){0};
    if (!th_usable_context(ctx, operation))
        return NULL;
    if (folder == NULL || given.step < 0 || given.step == INT64_MAX) {
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "needs a folder and a step of at least 0");
        return NULL;
    }
    th_event_log *log = (th_event_log *)th_record_new(ctx, operation);
    if (log && open_file(log, ctx, folder) == TH_OK) {
        if (begin_file(&log->file, &given) == TH_OK)
            return log;
        unlink(log->file.path); /* it is new and lacks the records that TensorBoard needs first */
    }
    th_event_log_close(log);
    return NULL;
}

void th_event_log_close(th_event_log *log)
{
    th_record_free((th_record_file *)log);
}
