/* Logs: lines and records are complete or absent, resuming cuts at the right record, and no name or text breaks the
 * format. scripts/interop checks event files with TensorBoard itself. */
#include <dirent.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tapehead/models.h"

#include "kernels/machine/crc32c.h"
#include "memory.h"

#include "context.h"
#include "folder.h"

static char path[96];
static test_memory memory;

static void setup(void)
{
    memory = (test_memory){0};
    ctx = th_context_new(&(th_context_options){.threads = 1, .allocator = allocator_of(&memory)});
    make_folder();
    strcpy(path, in_folder("log.jsonl"));
}

static void teardown(void)
{
    close_context();
    ck_assert_uint_eq(memory.bytes, 0);
    remove_folder();
}

/* Returns the file's bytes and a NUL behind them. */
static char *bytes_of(const char *name, size_t *size)
{
    static char bytes[1 << 16];
    FILE *file = fopen(name, "rb");
    ck_assert_msg(file != NULL, "%s", name);
    *size = fread(bytes, 1, sizeof bytes - 1, file);
    bytes[*size] = 0;
    fclose(file);
    return bytes;
}

static void expect_bytes(const char *name, const char *text)
{
    size_t size;
    ck_assert_str_eq(bytes_of(name, &size), text);
}

static void expect_text(const char *text)
{
    expect_bytes(path, text);
}

static void put_text(const char *text, const char *mode)
{
    FILE *file = fopen(path, mode);
    ck_assert(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* -- JSON -- */

START_TEST(json_lines)
{
    th_json_log *log = th_json_log_open(ctx, path, NULL);
    const th_log_field numbers[] = {{"a", 0.5, NULL}, {"b", 1e300, NULL}, {"c", -1.25e-7, NULL}, {"d", -0.0, NULL}};
    const th_log_field odd[] = {
        {"nan", NAN, NULL}, {"inf", -INFINITY, NULL}, {"quote \" \\ \n\x01\x7f\xc2\x9b", 1, NULL}};
    const th_log_field texts[] = {{"t", 0, "To be,\nor \"not\" \xff\xc3\xa9\xe2\x82"}};
    setlocale(LC_NUMERIC, "de_DE.UTF-8");
    ck_assert_int_eq(th_json_log_write(log, 0, numbers, 4), TH_OK);
    ck_assert_int_eq(th_json_log_write(log, INT64_MAX, odd, 3), TH_OK);
    expect_text("{\"step\": 0, \"a\": 0.5, \"b\": 1e+300, \"c\": -1.25e-07, \"d\": 0}\n"
                "{\"step\": 9223372036854775807, \"nan\": null, \"inf\": null, \"quote \\\" \\\\ "
                "\\n\\u0001\\u007f\\u009b\": 1}\n");
    ck_assert_int_eq(th_json_log_write(log, 3, texts, 1), TH_OK);
    ck_assert_int_eq(th_json_log_write(log, 4, NULL, 0), TH_OK);
    size_t size;
    ck_assert_ptr_nonnull(strstr(bytes_of(path, &size), "\n{\"step\": 3, \"t\": \"To be,\\nor \\\"not\\\" \xef\xbf\xbd"
                                                        "\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\"}\n{\"step\": 4}\n"));
    th_json_log_close(log);
    th_json_log_close(th_json_log_open(ctx, path, NULL)); /* begins anew */
    expect_text("");
}
END_TEST

START_TEST(json_resumes)
{
    static const char good[] = "{\"step\": 1, \"a\": 1}\n{\"step\": 2, \"a\": 2}\n{\"step\": 2, \"b\": 2}\n";
    static const char *const cut_off[] = {"",
                                          "{\"step\": 3}\n",
                                          "{\"step\": 2, \"torn",
                                          "\n",
                                          "{}\n",
                                          "[1]\n",
                                          "3\n",
                                          "{\"step\": 2.0}\n",
                                          "{\"\\u0073tep\": 2}\n",
                                          " {\"step\": 2}\n",
                                          "{\"step\": \"2\"}\n{\"step\": 2}\n",
                                          "\xff\n",
                                          "{\"step\": 2}",
                                          "{\"step\": 1, \"step\": 2}\n",
                                          "{\"step\": 99999999999999999999}\n"};
    for (size_t i = 0; i < sizeof cut_off / sizeof *cut_off; i++) {
        put_text(good, "w");
        put_text(cut_off[i], "a");
        th_json_log *log = th_json_log_open(ctx, path, &(th_log_options){.resume = true, .step = 2});
        no_error();
        ck_assert_int_eq(th_json_log_write(log, 3, &(th_log_field){"a", 3, NULL}, 1), TH_OK);
        th_json_log_close(log);
        char expected[200];
        snprintf(expected, sizeof expected, "%s{\"step\": 3, \"a\": 3}\n", good);
        expect_text(expected);
    }
    th_json_log_close(th_json_log_open(ctx, path, &(th_log_options){.resume = true, .step = 0}));
    expect_text("");
    unlink(path); /* without a file, a log begins */
    th_json_log_close(th_json_log_open(ctx, path, &(th_log_options){.resume = true, .step = 5}));
    expect_text("");
}
END_TEST

/* A line of half a TiB must not be read into memory. */
START_TEST(json_resumes_behind_a_hole)
{
    put_text("{\"step\": 1}\n", "w");
    ck_assert_int_eq(truncate(path, (off_t)1 << 39), 0);
    ck_assert_ptr_nonnull(th_json_log_series(ctx, path, "a"));
    th_json_log_close(th_json_log_open(ctx, path, &(th_log_options){.resume = true, .step = 5}));
    no_error();
    expect_text("{\"step\": 1}\n");
}
END_TEST

/* Resuming does not empty a file that is not a log. */
START_TEST(json_resumes_only_a_log)
{
    static const char *const others[] = {
        "export PATH=/bin\n",
        "hello",
        "\n",
        "\n{\"step\": 1}\n",
        "{\"a\": 1}\n{\"step\": 1}\n",
        "[{\"step\": 1}]\n",
        "{\"step\": \"1\"}\n",
        "{\"steps\": 1",
        "{\n  \"step\": 1\n}\n",
        " {\"a",
    };
    static const char *const begun[] = {"", "{", "{\"st", "{\"step\": ", "{\"step\": 12, \"loss", "{\"step\": 1}"};
    const th_log_options resumed = {.resume = true, .step = 7};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        put_text(others[i], "w");
        assert_error(th_json_log_open(ctx, path, &resumed), TH_ERROR_FILE, "its first line is not a record");
        expect_text(others[i]);
    }
    for (size_t i = 0; i < sizeof begun / sizeof *begun; i++) { /* its first record was not written completely */
        put_text(begun[i], "w");
        th_json_log_close(th_json_log_open(ctx, path, &resumed));
        no_error();
        expect_text("");
    }
    const th_log_options precomputed = {.resume = true, .step = 0};
    put_text("{\"step\": 1}\n", "w"); /* every record is later */
    th_json_log_close(th_json_log_open(ctx, path, &precomputed));
    no_error();
    expect_text("");
}
END_TEST

/* In an untrusted folder, a link must not lead a log to another file. A log must not wait for a device or a pipe. */
START_TEST(json_follows_no_link)
{
    static const char victim_text[] = "{\"step\": 1}\n";
    char victim[96];
    strcpy(victim, in_folder("victim"));
    for (int dangling = 0; dangling < 2; dangling++)
        for (int resume = 0; resume < 2; resume++) {
            const th_log_options options = {.resume = resume, .step = 0};
            unlink(victim);
            if (!dangling)
                write_bytes(victim, victim_text, sizeof victim_text - 1);
            ck_assert_int_eq(symlink(victim, path), 0);
            assert_error(th_json_log_open(ctx, path, &options), TH_ERROR_FILE, "log.jsonl is a symbolic link");
            ck_assert_int_eq(unlink(path), 0);
            if (!dangling)
                expect_bytes(victim, victim_text);
            ck_assert_int_eq(access(victim, F_OK), dangling ? -1 : 0);
        }
    char through[200]; /* a folder may be a link */
    ck_assert_int_eq(symlink(folder, in_folder("folder")), 0);
    snprintf(through, sizeof through, "%s/folder/log.jsonl", folder);
    th_json_log_close(th_json_log_open(ctx, through, NULL));
    no_error();
    expect_text("");
    snprintf(through, sizeof through, "%s/folder", folder);
    th_event_log_close(th_event_log_open(ctx, through, NULL));
    no_error();
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    assert_error(th_json_log_open(ctx, path, NULL), TH_ERROR_FILE, "it is not a regular file");
    assert_error(th_json_log_open(ctx, "/dev/zero", &(th_log_options){.resume = true}), TH_ERROR_FILE,
                 "/dev/zero: it is not a regular file");
    th_json_log *log = th_json_log_open(ctx, "/dev/null", NULL);
    ck_assert_int_eq(th_json_log_write(log, 1, NULL, 0), TH_OK);
    th_json_log_close(log);
}
END_TEST

START_TEST(json_series)
{
    put_text(
        "{\"step\": 1, \"a\": 1.5, \"b\": 7}\n{\"step\": 2, \"b\": 8}\n{\"step\": 30, \"a\": null, \"x\": {\"a\": 3}}\n"
        "{\"step\": 31, \"a\": \"text\"}\n{\"a\": -2, \"step\": 40}\n{\"step\": 41, \"a\": 5",
        "w");
    th_tensor *series = th_json_log_series(ctx, path, "a");
    assert_shape(series, TH_SHAPE(2, 3));
    const double *number = th_data_const(series);
    ck_assert(number[0] == 1 && number[1] == 30 && number[2] == 40);
    ck_assert(number[3] == 1.5 && isnan(number[4]) && number[5] == -2);
    th_tensor_free(series);
    assert_shape(th_json_log_series(ctx, path, "nobody"), TH_SHAPE(2, 0));
    put_text("}\n{\"step\": 42]\n", "a");
    assert_error(th_json_log_series(ctx, path, "a"), TH_ERROR_FILE, "log.jsonl: line 7");
    th_json_log *log = th_json_log_open(ctx, path, NULL);
    for (int i = 0; i < 2000; i++)
        ck_assert_int_eq(th_json_log_write(log, i, &(th_log_field){"long \"name\"", i * 0.5, NULL}, 1), TH_OK);
    th_tensor *all = th_json_log_series(ctx, path, "long \"name\"");
    assert_shape(all, TH_SHAPE(2, 2000));
    ck_assert_double_eq(th_get(all, TH_INDEX(1, 1999)), 999.5);
    unlink(path);
    assert_error(th_json_log_series(ctx, path, "a"), TH_ERROR_FILE, "No such file");
}
END_TEST

/* -- events -- */

/* Returns the record at *at, and moves *at behind it. Checks its two checksums. */
static const unsigned char *next_record(const unsigned char *bytes, size_t size, size_t *at, uint64_t *length)
{
    uint32_t crc[2];
    if (*at == size)
        return NULL;
    ck_assert_uint_le(*at + 16, size);
    memcpy(length, bytes + *at, 8);
    ck_assert_uint_le(*at + 16 + *length, size);
    memcpy(&crc[0], bytes + *at + 8, 4);
    memcpy(&crc[1], bytes + *at + 12 + *length, 4);
    const uint32_t actual[] = {th_crc32c(0, bytes + *at, 8), th_crc32c(0, bytes + *at + 12, *length)};
    for (int i = 0; i < 2; i++)
        ck_assert_uint_eq(crc[i], (uint32_t)(((actual[i] >> 15) | (actual[i] << 17)) + 0xa282ead8u));
    const unsigned char *record = bytes + *at + 12;
    *at += 16 + *length;
    return record;
}

/* Lists the names of the event files, the newest last. */
static int event_files(char names[4][400])
{
    struct dirent **entries;
    int found = 0;
    const int all = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < all; i++) {
        if (strncmp(entries[i]->d_name, "events.out.tfevents.", 20) == 0 && found < 4)
            snprintf(names[found++], 400, "%s/%s", folder, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return found;
}

START_TEST(event_records)
{
    char names[4][400];
    th_event_log *log = th_event_log_open(ctx, folder, NULL);
    const th_log_field fields[] = {{"loss/train", 2.5, NULL}, {"text", 0, "To be"}};
    ck_assert_int_eq(th_event_log_write(log, 300, fields, 2), TH_OK);
    ck_assert_int_eq(event_files(names), 1);
    size_t size, at = 0;
    const unsigned char *bytes = (const unsigned char *)bytes_of(names[0], &size); /* the log is still open */
    uint64_t length;
    const unsigned char *record = next_record(bytes, size, &at, &length);
    ck_assert_uint_eq(length, 9 + 2 + 2 + 13); /* time, step, "brain.Event:2" */
    ck_assert_mem_eq(record + 9,
                     "\x10\x00\x1a\x0d"
                     "brain.Event:2",
                     17);
    record = next_record(bytes, size, &at, &length);
    ck_assert_mem_eq(record + 9, "\x10\x00\x3a\x02\x08\x01", 6); /* step 0, session_log START */
    record = next_record(bytes, size, &at, &length);
    ck_assert_mem_eq(record + 9, "\x10\xac\x02\x2a\x36\x0a\x11\x0a\x0aloss/train\x15\x00\x00\x20\x40", 24);
    ck_assert_mem_eq(record + 9 + 24,
                     "\x0a\x21\x0a\x04text\x42\x0f\x08\x07\x12\x04\x12\x02\x08\x01\x42\x05To be"
                     "\x4a\x08\x0a\x06\x0a\x04text",
                     2 + 0x21);
    ck_assert_ptr_null(next_record(bytes, size, &at, &length));
    th_event_log_close(log);
}
END_TEST

START_TEST(events_resume_in_a_later_file)
{
    char names[4][400];
    for (int i = 0; i < 3; i++)
        th_event_log_close(th_event_log_open(ctx, folder, &(th_log_options){.resume = i > 0, .step = 41}));
    no_error();
    ck_assert_int_eq(event_files(names), 3);
    size_t size, at = 0;
    uint64_t length;
    const unsigned char *bytes = (const unsigned char *)bytes_of(names[2], &size);
    next_record(bytes, size, &at, &length);
    const unsigned char *start = next_record(bytes, size, &at, &length);
    ck_assert_uint_eq(length, 9 + 2 + 4);
    ck_assert_mem_eq(start + 9, "\x10\x2a\x3a\x02\x08\x01", 6); /* step 42, session_log START */
    ck_assert_ptr_null(next_record(bytes, size, &at, &length));
}
END_TEST

/* -- both -- */

/* Nothing can be cut off a device, so each write tries it again. */
START_TEST(a_full_device)
{
    const th_log_field small = {"a", 1, NULL};
    th_json_log *log = th_json_log_open(ctx, "/dev/full", NULL);
    for (int i = 1; i < 3; i++)
        expect_status(th_json_log_write(log, i, &small, 1), TH_ERROR_FILE, "/dev/full: No space left on device");
    th_json_log_close(log);
}
END_TEST

START_TEST(full_disk)
{
    char names[4][400], text[6000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    const th_log_field small = {"a", 1, NULL}, large = {"t", 0, text};
    th_json_log *log = th_json_log_open(ctx, path, NULL);
    th_event_log *events = th_event_log_open(ctx, folder, NULL);
    ck_assert_int_eq(th_json_log_write(log, 1, &small, 1), TH_OK);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 4096;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    expect_status(th_json_log_write(log, 2, &large, 1), TH_ERROR_FILE, "log.jsonl: File too large");
    expect_status(th_event_log_write(events, 2, &large, 1), TH_ERROR_FILE, "File too large");
    limit.rlim_cur = before;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_eq(th_json_log_write(log, 3, &small, 1), TH_OK); /* there is room again */
    ck_assert_int_eq(th_event_log_write(events, 3, &small, 1), TH_OK);
    expect_text("{\"step\": 1, \"a\": 1}\n{\"step\": 3, \"a\": 1}\n");
    size_t size, at = 0;
    uint64_t length;
    ck_assert_int_eq(event_files(names), 1);
    const unsigned char *bytes = (const unsigned char *)bytes_of(names[0], &size);
    for (int i = 0; i < 3; i++) /* two records that begin the file, and the record of step 3 */
        ck_assert_ptr_nonnull(next_record(bytes, size, &at, &length));
    ck_assert_ptr_null(next_record(bytes, size, &at, &length));
}
END_TEST

START_TEST(wrong_arguments)
{
    const th_log_field nameless = {NULL, 1, NULL};
    th_json_log *log = th_json_log_open(ctx, path, NULL);
    th_event_log *events = th_event_log_open(ctx, folder, NULL);
    expect_status(th_json_log_write(NULL, 0, NULL, 0), TH_ERROR_ARGUMENT, "the log is NULL");
    expect_status(th_event_log_write(NULL, 0, NULL, 0), TH_ERROR_ARGUMENT, "the log is NULL");
    expect_status(th_json_log_write(log, -1, NULL, 0), TH_ERROR_ARGUMENT, "of at least 0");
    expect_status(th_json_log_write(log, 0, NULL, 2), TH_ERROR_ARGUMENT, "2 fields");
    expect_status(th_json_log_write(log, 0, &nameless, -1), TH_ERROR_ARGUMENT, "-1 fields with names");
    expect_status(th_event_log_write(events, -1, NULL, 0), TH_ERROR_ARGUMENT, "of at least 0");
    expect_status(th_event_log_write(events, 0, &nameless, 1), TH_ERROR_ARGUMENT, "names");
    assert_error(th_json_log_open(ctx, NULL, NULL), TH_ERROR_ARGUMENT, "a path");
    assert_error(th_event_log_open(ctx, NULL, NULL), TH_ERROR_ARGUMENT, "a folder");
    assert_error(th_event_log_open(ctx, folder, &(th_log_options){true, -1}), TH_ERROR_ARGUMENT, "of at least 0");
    assert_error(th_event_log_open(ctx, folder, &(th_log_options){true, INT64_MAX}), TH_ERROR_ARGUMENT, "a folder");
    assert_error(th_event_log_open(ctx, "/nonexistent", NULL), TH_ERROR_FILE, "/nonexistent: No such file");
    assert_error(th_json_log_open(ctx, folder, NULL), TH_ERROR_FILE, "Is a directory");
    assert_error(th_json_log_open(ctx, path, &(th_log_options){true, -1}), TH_ERROR_ARGUMENT, "of at least 0");
    assert_error(th_json_log_series(ctx, path, NULL), TH_ERROR_ARGUMENT, "a name");
    /* Files without an end, or without a beginning. */
    const th_log_options resumed = {.resume = true};
    assert_error(th_json_log_series(ctx, "/dev/zero", "a"), TH_ERROR_FILE, "/dev/zero: it is not a regular file");
    th_json_log_close(log);
    unlink(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    assert_error(th_json_log_series(ctx, path, "a"), TH_ERROR_FILE, "it is not a regular file");
    assert_error(th_json_log_open(ctx, path, &resumed), TH_ERROR_FILE, "it is not a regular file");
    th_json_log_close(NULL);
    th_event_log_close(NULL);
}
END_TEST

START_TEST(out_of_memory)
{
    char text[5000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    const th_log_field large = {"t", 0, text};
    bool whole = false;
    for (int64_t after = 1; !whole; after++) {
        memory.fail_at = memory.calls + after;
        th_json_log *log = th_json_log_open(ctx, path, NULL);
        th_event_log *events = th_event_log_open(ctx, folder, NULL);
        whole = log && events && th_json_log_write(log, 1, &large, 1) == TH_OK &&
                th_event_log_write(events, 1, &large, 1) == TH_OK && th_json_log_series(ctx, path, "t");
        memory.fail_at = 0;
        if (!whole)
            expect_error(TH_ERROR_MEMORY, "memory");
        th_json_log_close(log);
        th_event_log_close(events);
        ck_assert_int_lt(after, 50);
    }
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("log", setup, teardown);
    tcase_add_test(tests, json_lines);
    tcase_add_test(tests, json_resumes);
    tcase_add_test(tests, json_resumes_behind_a_hole);
    tcase_add_test(tests, json_resumes_only_a_log);
    tcase_add_test(tests, json_follows_no_link);
    tcase_add_test(tests, json_series);
    tcase_add_test(tests, event_records);
    tcase_add_test(tests, events_resume_in_a_later_file);
    tcase_add_test(tests, a_full_device);
    tcase_add_test(tests, full_disk);
    tcase_add_test(tests, wrong_arguments);
    tcase_add_test(tests, out_of_memory);
    return run_suites();
}
