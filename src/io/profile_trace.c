/* A profile's events as a Chrome trace. The locale does not change its numbers, and names are escaped. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "autograd/profile.h"
#include "io/text_file.h"
#include "io/text_output.h"

static const char operation[] = "profile_write_trace";

/* Writes the contents of a JSON string. */
static void put_escaped(FILE *file, const char *text)
{
    char escaped[TH_JSON_ESCAPED_SIZE];
    while (*text) {
        text += th_json_escape(text, escaped);
        fputs(escaped, file);
    }
}

/* Writes nanoseconds as microseconds. */
static void put_time(FILE *file, const char *name, int64_t nanoseconds)
{
    fprintf(file, ",\"%s\":%" PRId64 ".%03d", name, nanoseconds / 1000, (int)(nanoseconds % 1000));
}

/* Writes "float32 (B=2, T=4, E=8), float32 (8, 8) -> float32 (B=2, T=4, 8)". */
static void put_shapes(FILE *file, const th_profile_event *event)
{
    bool first = true, outputs = false;
    for (int i = 0; i < event->n_shapes; i++) {
        const th_profile_shape *shape = &event->shape[i];
        if (shape->output && !outputs)
            fputs(first ? "-> " : " -> ", file);
        if (shape->output && !outputs)
            first = outputs = true;
        if (!shape->given)
            continue;
        th_array array = {.given = true, .dtype = (th_dtype)shape->dtype, .ndim = shape->ndim};
        memcpy(array.size, shape->size, sizeof array.size);
        memcpy(array.axes, shape->axes, sizeof array.axes);
        fprintf(file, "%s%s ", first ? "" : ", ", th_dtype_name(array.dtype));
        put_escaped(file, TH_TEXT(&array));
        first = false;
    }
}

static void put_event(FILE *file, const th_profile_event *event)
{
    fputs(",\n{\"name\":\"", file);
    put_escaped(file, event->operation);
    fprintf(file, "\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":1,\"tid\":1", th_profile_phase_name(event->phase));
    put_time(file, "ts", event->start);
    put_time(file, "dur", event->duration);
    fprintf(file, ",\"args\":{\"phase\":\"%s\"", th_profile_phase_name(event->phase));
    if (event->path[0]) {
        fputs(",\"module\":\"", file);
        put_escaped(file, event->path);
        fputc('"', file);
    }
    if (event->file) {
        fputs(",\"line\":\"", file);
        put_escaped(file, event->file);
        fprintf(file, ":%d\"", event->line);
    }
    if (event->n_shapes) {
        fputs(",\"shapes\":\"", file);
        put_shapes(file, event);
        fputc('"', file);
    }
    if (event->multiply_adds)
        fprintf(file, ",\"multiply_adds\":%" PRId64, event->multiply_adds);
    fputs("}}", file);
}

/* Writes the trace. Returns false, with errno, if a part could not be written. */
static bool write_trace(th_context *ctx, FILE *file)
{
    fprintf(file, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"dropped_events\":%" PRId64 "},\n\"traceEvents\":[\n",
            th_profile_sum(ctx).dropped);
    fputs("{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{\"name\":\"tapehead\"}}", file);
    for (int64_t i = 0; i < th_profile_event_count(ctx) && !ferror(file); i++)
        put_event(file, th_profile_event_at(ctx, i));
    fputs("\n]}\n", file);
    return fflush(file) == 0 && !ferror(file);
}

th_status th_profile_write_trace_to(th_context *ctx, FILE *file)
{
    if (!th_profile_readable(ctx, operation))
        return ctx ? ctx->error : TH_ERROR_ARGUMENT;
    if (file == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the file is NULL");
    errno = 0;
    if (write_trace(ctx, file))
        return TH_OK;
    return th_fail(ctx, TH_ERROR_FILE, operation, "the file could not be written in full: %s",
                   errno ? strerror(errno) : "writing failed");
}

th_status th_profile_write_trace(th_context *ctx, const char *path)
{
    if (!th_profile_readable(ctx, operation))
        return ctx ? ctx->error : TH_ERROR_ARGUMENT;
    if (path == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the path is NULL");
    th_atomic_file trace;
    if (th_text_file_begin(&trace, ctx, path, operation) != TH_OK)
        return ctx->error;
    return th_text_file_end(&trace, write_trace(ctx, trace.file), ctx, path, operation);
}
