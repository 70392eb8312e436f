/* calls [--all] [NAME]: every system call about files fails once, in every operation with files, and in several ways.
 *
 * After a failure the error names the file and the reason, and every file is the old or the new one. No unfinished
 * file, no descriptor and no memory is left. The operation then succeeds in the same context, with the same bits. After
 * interrupted calls and short counts it succeeds at once. Without --all, there are fewer kinds of failures. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "calls_files.h"
#include "calls_gate.h"
#include "calls_operations.h"
#include "tapehead/models.h"

static char folder[64];

/* The result of an operation without failures. */
static struct reference {
    calls_files old, new;
    uint32_t bits;
} reference;

/* A way to fail. The operation must succeed all the same if `harmless`. */
typedef struct way {
    const char *name;
    calls_failure failure;
    bool harmless, more; /* more: only with --all */
} way;

static const way ways[] = {
    {"EIO", {.kind = CALLS_ANY, .error = EIO}, false, false},
    {"interrupted", {.kind = CALLS_THAT_WAIT, .error = EINTR}, true, false},
    {"short", {.kind = CALLS_SHORT}, true, false},
    {"full from here on", {.kind = CALLS_THAT_WRITE, .error = ENOSPC, .partly = true, .from = true}, false, false},
    {"ENOSPC", {.kind = CALLS_THAT_WRITE, .error = ENOSPC}, false, true},
    {"EMFILE", {.kind = CALLS_THAT_OPEN, .error = EMFILE}, false, true},
    {"EMFILE from here on", {.kind = CALLS_THAT_OPEN, .error = EMFILE, .from = true}, false, true},
    {"EIO from here on", {.kind = CALLS_ANY, .error = EIO, .partly = true, .from = true}, false, true},
    {"often interrupted", {.kind = CALLS_THAT_WAIT, .error = EINTR, .from = true}, true, true},
    {"short from here on", {.kind = CALLS_SHORT, .from = true}, true, true},
};

static int count_descriptors(void)
{
    int count = 0;
    for (int i = 0; i < 24; i++)
        count += fcntl(i, F_GETFD) >= 0;
    return count;
}

/* Starts the program again with a malloc that counts freed blocks as free at once. */
static void count_exactly(char **argv)
{
    if (getenv("GLIBC_TUNABLES") == NULL && setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1) == 0)
        execv("/proc/self/exe", argv);
}

/* The bytes that malloc has given out. AddressSanitizer's malloc does not count. */
static size_t memory_in_use(void)
{
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
    return mallinfo2().uordblks;
#else
    return 0;
#endif
}

static void end_setting(calls_setting *s)
{
    th_context_free(s->ctx);
    s->ctx = NULL;
}

static void prepare(const calls_operation *o, calls_setting *s)
{
    calls_folder_empty(folder);
    calls_setting_make(s, folder, 2);
    o->prepare(s);
    s->bits = 0;
}

static void make_reference(const calls_operation *o)
{
    calls_setting s;
    calls_files_free(&reference.old);
    calls_files_free(&reference.new);
    prepare(o, &s);
    calls_files_read(&reference.old, folder);
    if (!o->run(&s)) {
        printf("%s: without a failure: %s\n", o->name, th_error_message(s.ctx));
        exit(2);
    }
    calls_files_read(&reference.new, folder);
    reference.bits = s.bits;
    end_setting(&s);
}

/* -- the checks -- */

static bool names_file_and_reason(const char *message, int error)
{
    const bool names = strstr(message, folder) || strstr(message, FIXTURES),
               explains = strstr(message, strerror(error));
    if (!names || !explains)
        printf("    the message does not name the %s: %s\n", names ? "reason" : "file", message);
    return names && explains;
}

/* After a failed load the model is as before, or the message says that it may not be. */
static bool model_is_as_before(const calls_setting *s, uint32_t before)
{
    if (th_module_crc32c(s->model) == before || strstr(th_error_message(s->ctx), "some numbers may have changed"))
        return true;
    printf("    numbers of the model have changed: %s\n", th_error_message(s->ctx));
    return false;
}

static bool files_are_allowed(const way *w, const char *failed)
{
    calls_files now;
    calls_files_read(&now, folder);
    const bool cannot_remove = w->failure.from && w->failure.kind == CALLS_ANY;
    const bool good =
        calls_files_allowed(&now, &reference.old, &reference.new, cannot_remove || strcmp(failed, "unlink") == 0);
    calls_files_free(&now);
    return good;
}

static bool is_complete(const calls_setting *s, const calls_files *old)
{
    calls_files now;
    calls_files_read(&now, folder);
    const bool good = calls_files_new(&now, old, &reference.new), same = s->bits == reference.bits;
    if (!same)
        printf("    other bits\n");
    calls_files_free(&now);
    return good && same;
}

/* Checks the state after the run with a failure, then runs again. */
static bool check(const calls_operation *o, const way *w, calls_setting *s, bool done, const char *failed)
{
    bool good = true;
    if (done != (th_error_code(s->ctx) == TH_OK)) {
        printf("    the result and the error disagree: %s\n", th_error_message(s->ctx));
        good = false;
    }
    if (!done && w->harmless) {
        printf("    it failed: %s\n", th_error_message(s->ctx));
        good = false;
    }
    if (!done && !w->harmless)
        good &= names_file_and_reason(th_error_message(s->ctx), w->failure.error);
    good &= done ? is_complete(s, &reference.old) : files_are_allowed(w, failed);
    th_error_clear(s->ctx);
    s->bits = 0;
    if (!o->run(s)) {
        printf("    again: %s\n", th_error_message(s->ctx));
        return false;
    }
    /* A second run removes what the first one could not. */
    static const calls_files none;
    return is_complete(s, &none) && good;
}

/* Runs the operation with one failure. Returns false if it ended before that call; *good: whether all checks passed. */
static bool try(const calls_operation *o, const way *w, int number, bool *good)
{
    calls_setting s;
    const size_t memory = memory_in_use();
    prepare(o, &s);
    const int descriptors = count_descriptors();
    calls_failure failure = w->failure;
    failure.number = number;
    const uint32_t before = th_module_crc32c(s.model);
    calls_gate_arm(&failure);
    const bool done = o->run(&s);
    const char *failed = calls_gate_disarm();
    bool passed = done || model_is_as_before(&s, before);
    if (failed) {
        if (count_descriptors() != descriptors) {
            printf("    %d descriptors are left\n", count_descriptors() - descriptors);
            passed = false;
        }
        passed &= check(o, w, &s, done, failed);
    }
    end_setting(&s);
    if (failed && memory_in_use() != memory) {
        printf("    %ld bytes are left\n", (long)(memory_in_use() - memory));
        passed = false;
    }
    if (!passed) {
        printf("  %s, %s, call %d: %s\n", o->name, w->name, number, failed ? failed : "none");
        *good = false;
    }
    return failed != NULL;
}

static bool try_all(const calls_operation *o, bool more)
{
    bool good = true;
    int runs = 0;
    make_reference(o);
    make_reference(o); /* a second time: some memory of libc is taken only once */
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        int number = 1;
        if (ways[i].more && !more)
            continue;
        while (try(o, &ways[i], number, &good))
            number++;
        runs += number - 1;
    }
    printf("%-40s %4d failures%s\n", o->name, runs, good ? "" : ": FAILED");
    return good;
}

/* A record is written in part, and the part cannot be removed at once. The next record, which is shorter, replaces
 * it. */
static bool try_torn_record(void)
{
    char path[128], text[300] = "";
    calls_files now;
    calls_folder_empty(folder);
    snprintf(path, sizeof path, "%s/log.jsonl", folder);
    memset(text, 'x', sizeof text - 1);
    th_context *ctx = th_context_new(&(th_context_options){.threads = 1});
    th_json_log *log = th_json_log_open(ctx, path, NULL);
    calls_gate_arm(&(calls_failure){.kind = CALLS_ANY, .error = EIO, .partly = true, .from = true, .number = 1});
    const bool failed = th_json_log_write(log, 1, &(th_log_field){"text", .text = text}, 1) == TH_ERROR_FILE;
    calls_gate_disarm();
    th_error_clear(ctx);
    const bool written = th_json_log_write(log, 2, &(th_log_field){"loss", .value = 1}, 1) == TH_OK;
    th_context_free(ctx);
    calls_files_read(&now, folder);
    static const char expected[] = "{\"step\": 2, \"loss\": 1}\n";
    const bool good = failed && written && now.file[0].count == sizeof expected - 1 &&
                      memcmp(now.file[0].bytes, expected, sizeof expected - 1) == 0;
    calls_files_free(&now);
    printf("%-40s%s\n", "replace a torn record", good ? "" : ": FAILED");
    return good;
}

int main(int argc, char **argv)
{
    count_exactly(argv);
    const bool more = argc > 1 && strcmp(argv[1], "--all") == 0;
    const char *only = argc > 1 + more ? argv[1 + more] : NULL, *reason = NULL;
    const char *place = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(folder, sizeof folder, "%s/tapehead_calls_XXXXXX", place);
    if (mkdtemp(folder) == NULL) {
        perror(folder);
        return 2;
    }
    umask(022);
    setvbuf(stdout, NULL, _IOLBF, 4096);
    if (!calls_gate_install(&reason)) {
        rmdir(folder);
        printf("skipped: system calls cannot be filtered here: %s\n", reason);
        return 77;
    }
    bool good = only || try_torn_record();
    for (int i = 0; i < calls_operation_count; i++)
        if (only == NULL || strcmp(only, calls_operations[i].name) == 0)
            good &= try_all(&calls_operations[i], more);
    calls_folder_empty(folder);
    rmdir(folder);
    calls_files_free(&reference.old);
    calls_files_free(&reference.new);
    return good ? 0 : 1;
}
