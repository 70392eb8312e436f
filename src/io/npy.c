/* Reading and writing .npy files. All file input is untrusted: sizes are compared with the length of the file before
 * memory is taken. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "io/elements.h"
#include "io/npy_header.h"
#include "platform/atomic_file.h"
#include "platform/regular_file.h"
#include "platform/system_calls.h"
#include "tapehead/npy.h"
#include "tensor/checked.h"
#include "tensor/elementwise.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files store numbers in this memory format");
_Static_assert(sizeof(bool) == 1, "a bool takes one byte, as in the file");

static const char *const read_operation = "npy_read", *const write_operation = "npy_write";

/* A file and its name in error messages: its path, or "the file" for a stream. */
typedef struct npy_file {
    th_context *ctx;
    const char *name;
    FILE *file;
} npy_file;

static th_status fail(const npy_file *f, const char *operation, const char *problem)
{
    return th_fail(f->ctx, TH_ERROR_FILE, operation, "%.300s: %s", f->name, problem);
}

/* Sets the error after a read; errno is 0 at the end of the file. */
static th_status fail_to_read(const npy_file *f, const char *what)
{
    return th_fail(f->ctx, TH_ERROR_FILE, read_operation, "%.300s: %s could not be read in full: %s", f->name, what,
                   errno ? strerror(errno) : "it has become shorter");
}

/* -- reading -- */

/* Sets *bytes to the bytes from the current position to the end. Returns false with errno if they cannot be determined;
 * ESPIPE for anything except a regular file. */
static bool find_remaining_bytes(FILE *file, int64_t *bytes)
{
    struct stat status;
    const off_t at = ftello(file);
    if (at < 0 || fstat(fileno(file), &status) != 0)
        return false;
    errno = ESPIPE;
    if (!S_ISREG(status.st_mode))
        return false;
    *bytes = status.st_size > at ? (int64_t)(status.st_size - at) : 0;
    return true;
}

/* Reads preamble and header. Sets *remaining to the number of bytes after them. */
static th_status read_header(const npy_file *f, th_npy_header *header, int64_t *remaining)
{
    unsigned char preamble[TH_NPY_PREAMBLE];
    char text[TH_NPY_MAX_HEADER + 1], problem[TH_NPY_PROBLEM_SIZE];
    if (!find_remaining_bytes(f->file, remaining))
        return fail(f, read_operation,
                    errno == ESPIPE ? "it is not a regular file, so its size cannot be checked" : strerror(errno));
    if (*remaining < TH_NPY_PREAMBLE)
        return fail(f, read_operation, "it is too short for a .npy file");
    if (th_stream_read(f->file, preamble, sizeof preamble) != sizeof preamble)
        return fail_to_read(f, "its beginning");
    if (memcmp(preamble, "\x93NUMPY", 6) != 0)
        return fail(f, read_operation, "it is not a .npy file");
    if (preamble[6] != 1 || preamble[7] != 0) {
        snprintf(problem, sizeof problem, "it has .npy format %d.%d; only 1.0 is supported", preamble[6], preamble[7]);
        return fail(f, read_operation, problem);
    }
    const size_t length = preamble[8] | (size_t)preamble[9] << 8;
    *remaining -= TH_NPY_PREAMBLE;
    if ((int64_t)length > *remaining || length > TH_NPY_MAX_HEADER) {
        snprintf(problem, sizeof problem, "its header claims %zu bytes, but %lld follow", length,
                 (long long)*remaining);
        return fail(f, read_operation, problem);
    }
    if (th_stream_read(f->file, text, length) != length)
        return fail_to_read(f, "its header");
    *remaining -= (int64_t)length;
    text[length] = 0;
    if (strlen(text) != length)
        return fail(f, read_operation, "its header contains a zero byte");
    return th_npy_header_parse(text, header, problem) ? TH_OK : fail(f, read_operation, problem);
}

static bool bools_are_valid(const unsigned char *bytes, int64_t n)
{
    unsigned char any = 0;
    for (int64_t i = 0; i < n; i++)
        any |= bytes[i];
    return any < 2;
}

/* Reads `bytes` of elements into data and checks them. Without data (shapes only) it skips them. */
static th_status read_elements(const npy_file *f, th_dtype dtype, void *data, size_t bytes)
{
    if (data == NULL)
        return fseeko(f->file, (off_t)bytes, SEEK_CUR) == 0 ? TH_OK : fail_to_read(f, "its elements");
    if (th_stream_read(f->file, data, bytes) != bytes)
        return fail_to_read(f, "its elements");
    if (dtype == TH_BOOL && !bools_are_valid(data, (int64_t)bytes))
        return fail(f, read_operation, "it is damaged: a bool is neither 0 nor 1");
    return TH_OK;
}

/* As read_elements, for an array in Fortran order, through a block of the step's memory. */
static th_status read_transposed(const npy_file *f, const th_tensor_impl *t, size_t bytes)
{
    th_context *ctx = f->ctx;
    th_block *block = th_block_new(ctx, &ctx->step_memory, bytes, read_operation);
    if (block == NULL)
        return TH_ERROR_MEMORY;
    const th_status status = read_elements(f, t->dtype, th_block_data(block), bytes);
    if (status == TH_OK) {
        const th_array to = th_tensor_array(t);
        th_array from = to;
        from.data = th_block_data(block);
        for (int i = 0; i < t->ndim; i++)
            from.stride[i] = i == 0 ? 1 : from.stride[i - 1] * from.size[i - 1];
        th_copy_array(ctx, &to, &from, false);
    }
    th_block_free(&ctx->step_memory, block);
    return status;
}

/* Reads an array from the current position. to_end: the file must end after it. */
static th_tensor *read_array(const npy_file *f, bool to_end)
{
    th_context *ctx = f->ctx;
    th_npy_header header;
    int64_t remaining, numel, bytes = 0;
    if (read_header(f, &header, &remaining) != TH_OK)
        return NULL;
    const int ndim = header.shape.ndim;
    const size_t element = th_dtype_size(header.dtype);
    char problem[TH_NPY_PROBLEM_SIZE + TH_SHAPE_TEXT];
    const char *const shape = TH_SIZES_TEXT(ndim, header.shape.size);
    if (!th_checked_numel(ndim, header.shape.size, &numel) || !th_checked_multiply(numel, (int64_t)element, &bytes)) {
        snprintf(problem, sizeof problem, "the size of its shape %s in bytes overflows", shape);
        fail(f, read_operation, problem);
        return NULL;
    }
    if (bytes > remaining || (to_end && bytes < remaining)) {
        snprintf(problem, sizeof problem, "%s %s takes %lld bytes, but %lld follow its header",
                 th_dtype_name(header.dtype), shape, (long long)bytes, (long long)remaining);
        fail(f, read_operation, problem);
        return NULL;
    }
    th_tensor_impl *t =
        th_tensor_new(ctx, header.dtype, ndim, header.shape.size, th_creates_owned(ctx), read_operation);
    if (t == NULL)
        return NULL;
    th_status status = TH_OK;
    if (bytes > 0 && header.fortran_order && ndim > 1)
        status = read_transposed(f, t, (size_t)bytes);
    else if (bytes > 0)
        status = read_elements(f, header.dtype, th_tensor_data(t), (size_t)bytes);
    if (status == TH_OK)
        return th_handle_of(t);
    th_tensor_free(th_handle_of(t));
    return NULL;
}

static bool can_read(th_context *ctx, const void *source, const char *what)
{
    if (!th_usable_context(ctx, read_operation))
        return false;
    if (source == NULL)
        th_fail(ctx, TH_ERROR_ARGUMENT, read_operation, "the %s is NULL", what);
    return source != NULL;
}

th_tensor *th_npy_read_from(th_context *ctx, FILE *file)
{
    if (!can_read(ctx, file, "file"))
        return NULL;
    return read_array(&(npy_file){ctx, "the file", file}, false);
}

th_tensor *th_npy_read(th_context *ctx, const char *path)
{
    if (!can_read(ctx, path, "path"))
        return NULL;
    const char *problem;
    const npy_file f = {ctx, path, th_regular_open(path, NULL, &problem)};
    if (f.file == NULL) {
        fail(&f, read_operation, problem);
        return NULL;
    }
    th_tensor *t = read_array(&f, true);
    fclose(f.file);
    return t;
}

/* -- writing -- */

static th_status write_array(const npy_file *f, const th_tensor_impl *t)
{
    char bytes[TH_NPY_WRITTEN_HEADER];
    const th_npy_header header = {.dtype = t->dtype, .shape = th_shape_of(t->handle)};
    const size_t length = th_npy_header_format(&header, bytes);
    errno = 0;
    const th_array array = th_tensor_array(t);
    const bool written =
        fwrite(bytes, 1, length, f->file) == length && th_write_elements(&array, f->file, NULL) && fflush(f->file) == 0;
    return written ? TH_OK : fail(f, write_operation, errno ? strerror(errno) : "it cannot be written");
}

/* Returns the implementation of a tensor that can be written; NULL with the error pending. */
static const th_tensor_impl *check_operand(const th_tensor *handle, const void *target, const char *what)
{
    const th_tensor_impl *t = th_usable_tensor(handle, NULL, write_operation, "t");
    if (t == NULL)
        return NULL;
    if (target == NULL)
        th_fail(t->ctx, TH_ERROR_ARGUMENT, write_operation, "the %s is NULL", what);
    else if (th_is_storage_type(t->dtype))
        th_fail(t->ctx, TH_ERROR_TYPE, write_operation, "the format has no %s: th_cast converts it to float32",
                th_dtype_name(t->dtype));
    else if (th_tensor_data(t) == NULL && th_tensor_numel(t) > 0)
        th_fail(t->ctx, TH_ERROR_STATE, write_operation, "a shapes-only context has no values");
    else
        return t;
    return NULL;
}

th_status th_npy_write_to(th_tensor *handle, FILE *file)
{
    const th_tensor_impl *t = check_operand(handle, file, "file");
    return t ? write_array(&(npy_file){t->ctx, "the file", file}, t) : th_pending_status(handle);
}

th_status th_npy_write(th_tensor *handle, const char *path)
{
    const th_tensor_impl *t = check_operand(handle, path, "path");
    if (t == NULL)
        return th_pending_status(handle);
    th_atomic_file file;
    npy_file f = {t->ctx, path, NULL};
    if (!th_atomic_begin(&file, path))
        return fail(&f, write_operation, strerror(errno));
    file.unsynchronized = true; /* programs write many arrays, and can compute them again */
    f.file = file.file;
    const th_status status = write_array(&f, t);
    if (!th_atomic_end(&file, status == TH_OK) && status == TH_OK)
        return fail(&f, write_operation, strerror(errno));
    return status;
}
