/* Fuzz target: logs with one JSON object on each line. Resuming keeps whole records up to a step, or changes nothing. A
 * record that is written afterwards can be read. */
#include "fuzz.h"
#include "tapehead/log.h"

/* Checks that the log on disk begins with the first `kept` bytes of the old one. Returns the number of its bytes. */
static size_t check_beginning(const char *path, const uint8_t *data, size_t kept)
{
    size_t bytes;
    char *text = fuzz_read(path, &bytes);
    FUZZ_CHECK(bytes >= kept && (kept == 0 || memcmp(text, data, kept) == 0), "the log begins with other bytes");
    FUZZ_CHECK(bytes == 0 || text[bytes - 1] == '\n', "the log does not end with a whole line");
    free(text);
    return bytes;
}

/* Writes a record and reads it again. */
static void append(th_context *ctx, th_json_log *log, const char *path, int64_t step)
{
    const th_log_field fields[] = {{.name = "fuzz/\xff\n", .value = 0.1}, {.name = "text", .text = "\x1b\"\xc3"}};
    FUZZ_CHECK(th_json_log_write(log, step, fields, 2) == TH_OK, "%s", th_error_message(ctx));
    th_tensor *series = th_json_log_series(ctx, path, fields[0].name);
    FUZZ_CHECK(series && th_size(series, 1) >= 1, "the record cannot be read: %s", th_error_message(ctx));
    const int64_t count = th_size(series, 1);
    const double *number = th_data_const(series);
    FUZZ_CHECK(number[count - 1] == (double)step && number[2 * count - 1] == 0.1, "the record is another one");
}

static void check_resume(const uint8_t *data, size_t size, int64_t step)
{
    th_context *ctx = fuzz_context(1 << 24);
    const char *path = fuzz_write("log.jsonl", data, size);
    th_json_log *log = th_json_log_open(ctx, path, &(th_log_options){.resume = true, .step = step});
    if (fuzz_rejected(ctx, log == NULL, path)) {
        fuzz_check_file(path, data, size);
    } else {
        const size_t kept = check_beginning(path, data, 0);
        FUZZ_CHECK(kept <= size && check_beginning(path, data, kept) == kept, "the resumed log is longer");
        th_tensor *steps = th_json_log_series(ctx, path, "step");
        FUZZ_CHECK(steps != NULL, "the kept records cannot be read: %s", th_error_message(ctx));
        const double *number = th_numel(steps) > 0 ? th_data_const(steps) : NULL;
        for (int64_t i = 0; i < th_numel(steps); i++)
            FUZZ_CHECK(number[i] <= (double)step, "step %g is later than %lld", number[i], (long long)step);
        append(ctx, log, path, step);
        th_json_log_close(log);
        th_json_log *again = th_json_log_open(ctx, path, &(th_log_options){.resume = true, .step = step});
        FUZZ_CHECK(again && check_beginning(path, data, kept) > kept, "resuming again removes the record");
        th_json_log_close(again);
    }
    fuzz_context_free(ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    th_context *ctx = fuzz_context(1 << 24);
    const char *path = fuzz_write("log.jsonl", data, size);
    th_tensor *first = th_json_log_series(ctx, path, "loss");
    if (!fuzz_rejected(ctx, first == NULL, path)) {
        th_tensor *second = th_json_log_series(ctx, path, "loss");
        FUZZ_CHECK(second != NULL, "%s", th_error_message(ctx));
        fuzz_check_same(first, second);
    }
    fuzz_check_file(path, data, size);
    fuzz_context_free(ctx);
    check_resume(data, size, 0);
    check_resume(data, size, 20);
    check_resume(data, size, INT64_MAX);
    return 0;
}
