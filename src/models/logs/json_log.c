/* A log of one JSON object a line: writing, going on after an interruption, and reading what it says of one name. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/utf8.h"
#include "models/files/json.h"
#include "models/files/record_file.h"
#include "models/files/regular_file.h"
#include "tensor/tensor.h"

struct th_json_log {
    th_record_file file;
};

static const char operation[] = "json_log";
static const th_json_limits limits = {.bytes = 1 << 26, .depth = 16}; /* of a line */

/* -- writing -- */

/* Whether a character is a control: C0, DEL or C1. */
static bool is_control(const char *character, uint32_t *code)
{
    th_utf8_decode((const unsigned char *)character, code);
    return *code < 0x20 || (*code >= 0x7f && *code < 0xa0);
}

static void put_string(th_record_file *f, const char *text)
{
    th_record_put(f, "\"", 1);
    while (*text) {
        const char *part;
        size_t size;
        uint32_t code;
        text += th_utf8_sound(text, &part, &size);
        if (*part == '"' || *part == '\\')
            th_record_put(f, "\\", 1);
        if (*part == '\n')
            th_record_put(f, "\\n", 2);
        else if (is_control(part, &code)) /* (people look at a log in a terminal) */
            th_record_format(f, "\\u%04x", (unsigned)code);
        else
            th_record_put(f, part, size);
    }
    th_record_put(f, "\"", 1);
}

th_status th_json_log_write(th_json_log *log, int64_t step, const th_log_field *fields, int count)
{
    if (log == NULL)
        return th_fail_last(TH_ERROR_ARGUMENT, operation, "the log is NULL");
    th_record_file *f = &log->file;
    if (th_log_check(f, step, fields, count) != TH_OK)
        return f->ctx->error;
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

/* A line of a log: its step, and the value of one name if that is wanted and there. */
typedef struct log_line {
    int64_t step;
    const char *name; /* with its quotes, as it stands in the file; NULL: none is wanted */
    size_t name_bytes;
    bool has_value;
    double value;
} log_line;

/* Whether the line is an object with a step; what is wrong with it is left in the context's error. */
static bool read_line(const th_json_source *source, const char *text, size_t bytes, log_line *line)
{
    static const char step_key[] = "\"step\"";
    bool has_step = false;
    line->has_value = false;
    if (th_json_check(source, text, bytes, &limits) != TH_OK)
        return false;
    if (text[0] != '{') {
        th_fail(source->ctx, TH_ERROR_FILE, operation, "%.300s: a line is not an object", source->name);
        return false;
    }
    for (th_json_walk w = th_json_members(text, bytes); th_json_next(&w);) {
        const bool is_step = w.key_bytes == sizeof step_key - 1 && memcmp(w.key, step_key, w.key_bytes) == 0;
        const bool wanted =
            line->name && w.key_bytes == line->name_bytes && memcmp(w.key, line->name, w.key_bytes) == 0;
        if (!is_step && !wanted)
            continue;
        json_t *value = th_json_build(source, w.value, w.value_bytes);
        if (is_step && json_is_integer(value)) {
            has_step = true;
            line->step = json_integer_value(value);
        }
        if (wanted && (json_is_number(value) || json_is_null(value))) {
            line->has_value = true;
            line->value = json_is_number(value) ? json_number_value(value) : NAN;
        }
        json_decref(value);
    }
    if (!has_step && !th_failed(source->ctx))
        th_fail(source->ctx, TH_ERROR_FILE, operation, "%.300s: a line has no integer step", source->name);
    return has_step && !th_failed(source->ctx);
}

/* The next whole line, with its end, and how many bytes it has: 0 when there is none, it is longer than any that is
 * written, or memory is out. *text grows. */
static size_t next_line(th_context *ctx, FILE *file, char **text, size_t *room)
{
    size_t count = 0;
    for (int c; count < limits.bytes && (c = getc_unlocked(file)) != EOF;) {
        if (count == *room) {
            char *grown = realloc(*text, *room ? 2 * *room : 1024);
            if (grown == NULL) {
                th_fail_memory(ctx, operation, 2 * *room);
                return 0;
            }
            *text = grown;
            *room = *room ? 2 * *room : 1024;
        }
        (*text)[count++] = (char)c;
        if (c == '\n')
            return count;
    }
    return 0;
}

/* The beginning of every record. */
static const char record_start[] = "{\"step\": ";

/* Whether the file is empty, or has only a part of its first record, as after a power failure. */
static bool has_no_record_yet(int descriptor)
{
    char start[sizeof record_start - 1];
    const ssize_t bytes = pread(descriptor, start, sizeof start, 0);
    return bytes >= 0 && memcmp(start, record_start, (size_t)bytes) == 0;
}

/* Opens a stream that reads the file from its beginning; NULL with the error stored. */
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
        return ctx->error;
    char *text = NULL;
    size_t room = 0, n;
    log_line line = {0};
    bool is_record = false, is_log = false;
    *cut = 0;
    while ((n = next_line(ctx, file, &text, &room)) > 0) {
        is_record = read_line(&source, text, n - 1, &line);
        is_log = is_log || is_record;
        if (!is_record || line.step > step)
            break;
        *cut += (int64_t)n;
    }
    is_log = is_log || (n == 0 && has_no_record_yet(f->descriptor));
    if (ctx->error == TH_ERROR_FILE) /* the error in the line, which is cut off */
        th_error_clear(ctx);
    if (ferror(file) && !th_failed(ctx))
        th_fail(ctx, TH_ERROR_FILE, operation, "%.300s: it cannot be read", f->path);
    if (!is_log && !th_failed(ctx))
        th_fail(ctx, TH_ERROR_FILE, operation,
                "%.300s is not a log: its first line is not a record like {\"step\": 1}. The file was not changed; "
                "move it away to begin a new log",
                f->path);
    free(text);
    fclose(file);
    return ctx->error;
}

/* Numbers that grow by two, a step and a value. */
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
    size_t room = 0;
    int64_t number = 1;
    for (size_t n; (n = next_line(ctx, file, &text, &room)) > 0; number++) {
        snprintf(name, sizeof name, "%.4000s: line %lld", path, (long long)number);
        if (!read_line(&(th_json_source){ctx, operation, name}, text, n - 1, line))
            break;
        if (line->has_value && !add_pair(ctx, found, (double)line->step, line->value))
            break;
    }
    if (ferror(file) && !th_failed(ctx))
        th_fail(ctx, TH_ERROR_FILE, operation, "%.300s: it cannot be read", path);
    free(text);
}

/* (2, N) */
static th_tensor *tensor_of(th_context *ctx, const pairs *p)
{
    th_tensor *t = th_empty(ctx, TH_FLOAT64, TH_SHAPE(2, p->count));
    if (t == NULL || p->count == 0 || ctx->options.shapes_only)
        return t;
    double *number = th_data(t);
    for (int64_t i = 0; i < p->count; i++) {
        number[i] = p->number[2 * i];
        number[p->count + i] = p->number[2 * i + 1];
    }
    return t;
}

th_tensor *th_json_log_series(th_context *ctx, const char *path, const char *name)
{
    if (!th_usable_context(ctx, operation))
        return NULL;
    if (path == NULL || name == NULL) {
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "needs a path and a name");
        return NULL;
    }
    const char *trouble;
    FILE *file = th_regular_open(path, NULL, &trouble);
    if (file == NULL) {
        th_fail(ctx, TH_ERROR_FILE, operation, "%.300s: %s", path, trouble);
        return NULL;
    }
    th_record_file quoted = {.ctx = ctx, .operation = operation, .descriptor = -1}; /* only its memory */
    put_string(&quoted, name);
    pairs found = {0};
    if (quoted.short_of_memory)
        th_fail_memory(ctx, operation, strlen(name));
    else
        read_pairs(ctx, path, file, &(log_line){.name = (const char *)quoted.bytes, .name_bytes = quoted.used}, &found);
    fclose(file);
    th_tensor *t = th_failed(ctx) ? NULL : tensor_of(ctx, &found);
    th_release(ctx, found.number, (size_t)found.capacity * 2 * sizeof *found.number);
    th_record_close(&quoted);
    return t;
}

/* -- opening -- */

static void release(th_context *ctx, void *object)
{
    th_json_log *log = object;
    th_record_close(&log->file);
    th_release(ctx, log, sizeof *log);
}

/* Cuts off lines that do not count. */
static th_status resume(th_record_file *f, int64_t step)
{
    struct stat status;
    int64_t cut = 0;
    if (fstat(f->descriptor, &status) != 0 || !S_ISREG(status.st_mode))
        return th_fail(f->ctx, TH_ERROR_FILE, operation, "%.300s: it is not a regular file", f->path);
    if (find_cut(f, step, &cut) != TH_OK)
        return f->ctx->error;
    if (ftruncate(f->descriptor, cut) != 0)
        return th_fail(f->ctx, TH_ERROR_FILE, operation, "%.300s: %s", f->path, strerror(errno));
    f->size = cut;
    return TH_OK;
}

static th_status open_file(th_json_log *log, th_context *ctx, const char *path, const th_log_options *options)
{
    if (th_record_open(&log->file, ctx, operation, path, O_CREAT | (options->resume ? 0 : O_TRUNC)) != TH_OK)
        return ctx->error;
    return options->resume ? resume(&log->file, options->step) : TH_OK;
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
    th_json_log *log = th_allocate(ctx, sizeof *log);
    if (log == NULL) {
        th_fail_memory(ctx, operation, sizeof *log);
        return NULL;
    }
    *log = (th_json_log){.file = {.ctx = ctx, .descriptor = -1}};
    if (open_file(log, ctx, path, &given) == TH_OK) {
        if (th_attach(ctx, log, release))
            return log;
        th_fail_memory(ctx, operation, sizeof *log);
    }
    release(ctx, log);
    return NULL;
}

void th_json_log_close(th_json_log *log)
{
    if (log == NULL)
        return;
    th_context *ctx = log->file.ctx;
    th_detach_object(ctx, log);
    release(ctx, log);
}
