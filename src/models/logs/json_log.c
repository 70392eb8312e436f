/* Writes and resumes a log with one JSON object on each line, and reads the values of one name from it. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "models/core/context.h"
#include "models/core/files.h"
#include "models/files/json.h"
#include "models/files/record_file.h"
#include "tapehead/tensor.h"

struct th_json_log {
    th_record_file file;
};

static const char operation[] = "json_log";
/* The limits of one line. */
static const th_json_limits limits = {.bytes = 1 << 26, .depth = 16, .memory = 512 << 20, .plain_key = "step"};

/* -- writing -- */

static void put_string(th_record_file *f, const char *text)
{
    char escaped[TH_JSON_ESCAPED_SIZE];
    th_record_put(f, "\"", 1);
    while (*text) {
        text += th_json_escape(text, escaped);
        th_record_put(f, escaped, strlen(escaped));
    }
    th_record_put(f, "\"", 1);
}

th_status th_json_log_write(th_json_log *log, int64_t step, const th_log_field *fields, int count)
{
    if (log == NULL)
        return th_fail_last(TH_ERROR_ARGUMENT, operation, "the log is NULL");
    th_record_file *f = &log->file;
    if (th_log_check_arguments(f, step, fields, count) != TH_OK)
        return th_error_code(f->ctx);
    th_record_format(f, "{\"step\": %lld", (long long)step);
    for (int i = 0; i < count; i++) {
        th_record_put(f, ", ", 2);
        put_string(f, fields[i].name);
        th_record_put(f, ": ", 2);
        if (fields[i].text)
            put_string(f, fields[i].text);
        else if (!isfinite(fields[i].value))
            th_record_put(f, "null", 4);
        else if (fields[i].value == 0) /* of either sign */
            th_record_put(f, "0", 1);
        else
            th_record_format(f, "%.9g", fields[i].value);
    }
    th_record_put(f, "}\n", 2);
    return th_record_write(f);
}

/* -- reading -- */

/* A line of a log: its step, and the value of one name if it is wanted and present. */
typedef struct log_line {
    int64_t step;
    const char *name; /* valid UTF-8; NULL: none is wanted */
    bool has_value;
    double value;
} log_line;

/* Reads a line, which must be an object with a step. Returns false with the error pending. */
static bool read_line(const th_json_source *source, const char *text, size_t bytes, log_line *line)
{
    json_t *object = th_json_read(source, text, bytes, &limits);
    const json_t *step = json_object_get(object, "step");
    const json_t *value = line->name ? json_object_get(object, line->name) : NULL;
    const bool is_record = json_is_integer(step);
    if (object && !json_is_object(object))
        th_fail(source->ctx, TH_ERROR_FILE, operation, "%.300s: a line is not an object", source->name);
    else if (object && !is_record)
        th_fail(source->ctx, TH_ERROR_FILE, operation, "%.300s: a line has no integer step", source->name);
    line->step = json_integer_value(step);
    line->has_value = json_is_number(value) || json_is_null(value);
    line->value = json_is_number(value) ? json_number_value(value) : NAN;
    json_decref(object);
    return is_record;
}

/* Returns the next byte of the stream, or EOF. */
static int next_byte(FILE *file)
{
    int c = getc_unlocked(file);
    while (c == EOF && th_stream_clear_interrupt(file))
        c = getc_unlocked(file);
    return c;
}

/* Reads the next whole line and its newline; *text grows. Returns its bytes, or 0 at the end, if the line is longer
 * than any that is written, if out of memory, or after an error of reading, with errno. */
static size_t next_line(th_context *ctx, FILE *file, char **text, size_t *capacity)
{
    size_t count = 0;
    for (int c; count < limits.bytes && (c = next_byte(file)) != EOF;) {
        if (count == *capacity) {
            char *grown = realloc(*text, *capacity ? 2 * *capacity : 1024);
            if (grown == NULL) {
                th_fail_memory(ctx, operation, 2 * *capacity);
                return 0;
            }
            *text = grown;
            *capacity = *capacity ? 2 * *capacity : 1024;
        }
        (*text)[count++] = (char)c;
        if (c == '\n')
            return count;
    }
    return 0;
}

/* Sets the error, unless there is one already. */
static void fail_to_read(th_context *ctx, const char *path, int error_number)
{
    if (!th_failed(ctx))
        th_fail(ctx, TH_ERROR_FILE, operation, "%.300s cannot be read: %s", path, strerror(error_number));
}

/* Every record begins with this. */
static const char record_start[] = "{\"step\": ";

/* Whether the file is empty, or has only a part of its first record, as after a power failure. After an error of
 * reading, which is stored, the result is true. */
static bool has_no_record_yet(const th_record_file *f)
{
    char start[sizeof record_start - 1];
    const ssize_t bytes = th_read_bytes_at(f->descriptor, start, sizeof start, 0);
    if (bytes < 0)
        fail_to_read(f->ctx, f->path, errno);
    return bytes < 0 || memcmp(start, record_start, (size_t)bytes) == 0;
}

/* Opens a stream that reads the file from its beginning; NULL with the error pending. */
static FILE *open_stream(const th_record_file *f)
{
    const int descriptor = fcntl(f->descriptor, F_DUPFD_CLOEXEC, 0);
    FILE *file = descriptor >= 0 && lseek(descriptor, 0, SEEK_SET) == 0 ? fdopen(descriptor, "rb") : NULL;
    if (file == NULL) {
        th_fail(f->ctx, TH_ERROR_FILE, operation, "%.300s: %s", f->path, strerror(errno));
        if (descriptor >= 0)
            close(descriptor);
    }
    return file;
}

/* Finds where a log that continues after `step` is cut: at the first line that is not whole, is not an object with a
 * step, or has a later step. A file whose first line is not a record is not a log, and does not change. */
static th_status find_cut(const th_record_file *f, int64_t step, int64_t *cut)
{
    th_context *ctx = f->ctx;
    const th_json_source source = {ctx, operation, f->path};
    FILE *file = open_stream(f);
    if (file == NULL)
        return th_error_code(ctx);
    char *text = NULL;
    size_t capacity = 0, n;
    log_line line = {0};
    bool is_record = false, is_log = false;
    *cut = 0;
    while ((n = next_line(ctx, file, &text, &capacity)) > 0) {
        is_record = read_line(&source, text, n - 1, &line);
        is_log = is_log || is_record;
        if (!is_record || line.step > step)
            break;
        *cut += (int64_t)n;
    }
    const int error_number = ferror(file) ? errno : 0;
    if (th_error_code(ctx) == TH_ERROR_FILE) /* the error is in the line that is cut off */
        th_error_clear(ctx);
    if (error_number)
        fail_to_read(ctx, f->path, error_number);
    is_log = is_log || (n == 0 && has_no_record_yet(f));
    if (!is_log && !th_failed(ctx))
        th_fail(ctx, TH_ERROR_FILE, operation,
                "%.300s is not a log: its first line is not a record like {\"step\": 1}. The file was not changed; "
                "move it away to begin a new log",
                f->path);
    free(text);
    fclose(file);
    return th_error_code(ctx);
}

/* An array of pairs (step, value) that grows. */
typedef struct pairs {
    double *number;
    int64_t count, capacity;
} pairs;

static bool add_pair(th_context *ctx, pairs *p, double step, double value)
{
    if (p->count == p->capacity) {
        const int64_t capacity = p->capacity ? 2 * p->capacity : 512;
        double *number = th_allocate(ctx, (size_t)capacity * 2 * sizeof *number);
        if (number == NULL) {
            th_fail_memory(ctx, operation, (size_t)capacity * 2 * sizeof *number);
            return false;
        }
        if (p->count)
            memcpy(number, p->number, (size_t)p->count * 2 * sizeof *number);
        th_release(ctx, p->number, (size_t)p->capacity * 2 * sizeof *number);
        p->number = number;
        p->capacity = capacity;
    }
    p->number[2 * p->count] = step;
    p->number[2 * p->count + 1] = value;
    p->count++;
    return true;
}

static void read_pairs(th_context *ctx, const char *path, FILE *file, log_line *line, pairs *found)
{
    char name[4200], *text = NULL;
    size_t capacity = 0;
    int64_t number = 1;
    for (size_t n; (n = next_line(ctx, file, &text, &capacity)) > 0; number++) {
        snprintf(name, sizeof name, "%.4000s: line %lld", path, (long long)number);
        if (!read_line(&(th_json_source){ctx, operation, name}, text, n - 1, line))
            break;
        if (line->has_value && !add_pair(ctx, found, (double)line->step, line->value))
            break;
    }
    if (ferror(file))
        fail_to_read(ctx, path, errno);
    free(text);
}

/* Returns a tensor (2, N). */
static th_tensor *tensor_of(th_context *ctx, const pairs *p)
{
    th_tensor *t = th_empty(ctx, TH_FLOAT64, TH_SHAPE(2, p->count));
    if (t == NULL || p->count == 0 || th_is_shapes_only(ctx))
        return t;
    double *number = th_data(t);
    for (int64_t i = 0; i < p->count; i++) {
        number[i] = p->number[2 * i];
        number[p->count + i] = p->number[2 * i + 1];
    }
    return t;
}

/* Returns a name as the log contains it, with invalid UTF-8 replaced. Returns NULL with the error pending. */
static json_t *written_name(th_context *ctx, const char *name)
{
    th_record_file text = {.ctx = ctx, .operation = operation, .descriptor = -1}; /* used only as memory */
    put_string(&text, name);
    const th_json_source source = {ctx, operation, "the name"};
    json_t *written = text.short_of_memory ? NULL : th_json_build(&source, (char *)text.bytes, text.used);
    if (text.short_of_memory)
        th_fail_memory(ctx, operation, strlen(name));
    th_record_close(&text);
    return written;
}

th_tensor *th_json_log_series(th_context *ctx, const char *path, const char *name)
{
    if (!th_usable_context(ctx, operation))
        return NULL;
    if (path == NULL || name == NULL) {
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "needs a path and a name");
        return NULL;
    }
    const char *reason;
    FILE *file = th_regular_open(path, NULL, &reason);
    if (file == NULL) {
        th_fail(ctx, TH_ERROR_FILE, operation, "%.300s: %s", path, reason);
        return NULL;
    }
    json_t *key = written_name(ctx, name);
    pairs found = {0};
    if (key)
        read_pairs(ctx, path, file, &(log_line){.name = json_string_value(key)}, &found);
    fclose(file);
    th_tensor *t = th_failed(ctx) ? NULL : tensor_of(ctx, &found);
    th_release(ctx, found.number, (size_t)found.capacity * 2 * sizeof *found.number);
    json_decref(key);
    return t;
}

/* -- opening -- */

/* Cuts off lines of later steps and incomplete lines. */
static th_status cut_later_lines(th_record_file *f, int64_t step)
{
    struct stat status;
    int64_t cut = 0;
    if (fstat(f->descriptor, &status) != 0)
        return th_fail(f->ctx, TH_ERROR_FILE, operation, "%.300s: %s", f->path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return th_fail(f->ctx, TH_ERROR_FILE, operation, "%.300s: it is not a regular file", f->path);
    if (find_cut(f, step, &cut) != TH_OK)
        return th_error_code(f->ctx);
    if (th_truncate_file(f->descriptor, cut) != 0)
        return th_fail(f->ctx, TH_ERROR_FILE, operation, "%.300s: %s", f->path, strerror(errno));
    f->size = cut;
    return TH_OK;
}

static th_status open_file(th_json_log *log, th_context *ctx, const char *path, const th_log_options *options)
{
    if (th_record_open(&log->file, ctx, operation, path, O_CREAT | (options->resume ? 0 : O_TRUNC)) != TH_OK)
        return th_error_code(ctx);
    return options->resume ? cut_later_lines(&log->file, options->step) : TH_OK;
}

th_json_log *th_json_log_open(th_context *ctx, const char *path, const th_log_options *options)
{
    const th_log_options given = options ? *options : (th_log_options){0};
    if (!th_usable_context(ctx, operation))
        return NULL;
    if (path == NULL || given.step < 0) {
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "needs a path and a step of at least 0");
        return NULL;
    }
    th_json_log *log = (th_json_log *)th_record_new(ctx, operation);
    if (log && open_file(log, ctx, path, &given) == TH_OK)
        return log;
    th_json_log_close(log);
    return NULL;
}

void th_json_log_close(th_json_log *log)
{
    th_record_free((th_record_file *)log);
}
