/* Contexts, files and checks for the fuzz targets: see fuzz.h. */
#include "fuzz.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tensor/utf8.h"

void fuzz_abort(const char *file, int line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s:%d: ", file, line);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    abort();
}

/* -- contexts -- */

/* The memory of all contexts of the current input, and their number. */
static struct {
    size_t bytes, limit;
    int contexts;
} memory;

static void *take(void *user, size_t bytes)
{
    (void)user;
    memory.bytes += bytes;
    FUZZ_CHECK(memory.bytes <= memory.limit, "%zu bytes are taken, more than the limit of %zu", memory.bytes,
               memory.limit);
    return aligned_alloc(64, bytes);
}

static void give(void *user, void *block, size_t bytes)
{
    (void)user;
    memory.bytes -= bytes;
    free(block);
}

th_context *fuzz_context(size_t memory_limit)
{
    memory.limit = memory.bytes + memory_limit;
    th_context *ctx = th_context_new(
        &(th_context_options){.seed = 1, .threads = 1, .memory_limit = memory_limit, .allocator = {take, give, NULL}});
    FUZZ_CHECK(ctx && th_error_code(ctx) == TH_OK, "there is no context");
    memory.contexts++;
    return ctx;
}

void fuzz_context_free(th_context *ctx)
{
    FUZZ_CHECK(th_error_code(ctx) == TH_OK, "an error is left: %s", th_error_message(ctx));
    th_context_free(ctx);
    FUZZ_CHECK(--memory.contexts > 0 || memory.bytes == 0, "%zu bytes of contexts are left", memory.bytes);
}

/* Whether a terminal shows a character: no control character, none that hides or reorders text. */
static bool is_shown(uint32_t code)
{
    return code >= ' ' && (code < 0x7f || code > 0x9f) && (code < 0x200b || code > 0x200f) &&
           (code < 0x2028 || code > 0x202e) && (code < 0x2060 || code > 0x206f) && code != 0xfeff &&
           (code < 0xe0000 || code > 0xe0fff);
}

bool fuzz_failed(th_context *ctx, bool failed)
{
    const char *message = th_error_message(ctx);
    FUZZ_CHECK(failed == (th_error_code(ctx) != TH_OK), failed ? "there is no error" : "error without a failure: %s",
               message);
    for (const char *at = message; *at;) {
        uint32_t code = 0;
        const int length = th_utf8_decode((const unsigned char *)at, &code);
        FUZZ_CHECK(length > 0 && is_shown(code), "a message is not visible text: %s", message);
        at += length;
    }
    FUZZ_CHECK(!failed || (strlen(message) > 10 && strstr(message, ": ")), "a message is not a sentence: %s", message);
    th_error_clear(ctx);
    return failed;
}

bool fuzz_failed_with(th_context *ctx, bool failed, th_status code)
{
    FUZZ_CHECK(!failed || th_error_code(ctx) == code || th_error_code(ctx) == TH_ERROR_MEMORY, "error %d, not %d: %s",
               (int)th_error_code(ctx), (int)code, th_error_message(ctx));
    return fuzz_failed(ctx, failed);
}

bool fuzz_rejected(th_context *ctx, bool failed, const char *path)
{
    const char *message = th_error_message(ctx);
    FUZZ_CHECK(!failed || th_error_code(ctx) == TH_ERROR_MEMORY || strstr(message, path),
               "a message does not name %s: %s", path, message);
    return fuzz_failed_with(ctx, failed, TH_ERROR_FILE);
}

/* -- files -- */

static char folder[64];

static void remove_folder(void)
{
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    FUZZ_CHECK(system(command) == 0, "%s failed", command);
}

const char *fuzz_path(const char *name)
{
    static char path[4][256];
    static int turn;
    if (folder[0] == 0) {
        strcpy(folder, access("/dev/shm", W_OK) == 0 ? "/dev/shm/tapehead_fuzz_XXXXXX" : "/tmp/tapehead_fuzz_XXXXXX");
        FUZZ_CHECK(mkdtemp(folder) && atexit(remove_folder) == 0, "a folder for files cannot be made");
    }
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

const char *fuzz_write(const char *name, const void *bytes, size_t count)
{
    const char *path = fuzz_path(name);
    const int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    FUZZ_CHECK(descriptor >= 0 && (count == 0 || write(descriptor, bytes, count) == (ssize_t)count),
               "%s cannot be written", path);
    close(descriptor);
    return path;
}

char *fuzz_read(const char *path, size_t *count)
{
    struct stat status = {0};
    const int descriptor = open(path, O_RDONLY);
    FUZZ_CHECK(descriptor >= 0 && fstat(descriptor, &status) == 0, "%s cannot be opened", path);
    *count = (size_t)status.st_size;
    char *bytes = malloc(*count + 1);
    FUZZ_CHECK(bytes && read(descriptor, bytes, *count) == (ssize_t)*count, "%s cannot be read", path);
    bytes[*count] = 0;
    close(descriptor);
    return bytes;
}

void fuzz_remove(const char *name)
{
    (void)unlink(fuzz_path(name));
}

void fuzz_check_file(const char *path, const void *bytes, size_t count)
{
    size_t now;
    char *text = fuzz_read(path, &now);
    FUZZ_CHECK(now == count && (count == 0 || memcmp(text, bytes, count) == 0),
               "%s has changed: %zu bytes, not these %zu", path, now, count);
    free(text);
}

/* -- inputs of several parts -- */

void fuzz_split(const uint8_t *data, size_t size, fuzz_part *part, int n)
{
    const char *at = (const char *)data, *const end = at + size;
    for (int i = 0; i < n; i++) {
        const char *nul = i < n - 1 && at < end ? memchr(at, 0, (size_t)(end - at)) : NULL;
        part[i] = (fuzz_part){at, (size_t)((nul ? nul : end) - at)};
        at = nul ? nul + 1 : end;
    }
}

char *fuzz_copy(fuzz_part part)
{
    char *copy = malloc(part.count + 1);
    FUZZ_CHECK(copy != NULL, "out of memory");
    memcpy(copy, part.bytes, part.count);
    copy[part.count] = 0;
    return copy;
}

/* -- tensors -- */

void fuzz_check_same(const th_tensor *a, const th_tensor *b)
{
    FUZZ_CHECK(th_dtype_of(a) == th_dtype_of(b) && th_ndim(a) == th_ndim(b), "two tensors have other types or sizes");
    for (int i = 0; i < th_ndim(a); i++)
        FUZZ_CHECK(th_size(a, i) == th_size(b, i), "two tensors have other sizes");
    const size_t bytes = (size_t)th_numel(a) * th_dtype_size(th_dtype_of(a));
    FUZZ_CHECK(bytes == 0 || memcmp(th_data_const(a), th_data_const(b), bytes) == 0, "two tensors have other bits");
}
