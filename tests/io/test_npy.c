/* .npy files: bytes as numpy.save writes them, round trips, Fortran order, and damaged or hostile files. Each of
 * those gives an error message and takes no memory. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tapehead/tapehead.h"

#include "context.h"

static char directory[64], path[128];

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 3});
    ck_assert_ptr_nonnull(ctx);
    th_tensor_free(
        th_zeros(ctx, TH_FLOAT32, TH_SHAPE(100))); /* from now on there is memory for handles and small tensors */
    strcpy(directory, "/tmp/tapehead_npy_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/array.npy", directory);
}

/* Only the file under test may be left: no temporary file. */
static void teardown(void)
{
    unlink(path);
    ck_assert_msg(rmdir(directory) == 0, "%s: %s", directory, strerror(errno));
    close_context();
}

static void write_bytes(const void *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, n, file), n);
    ck_assert_int_eq(fclose(file), 0);
}

static size_t read_bytes(char *bytes, size_t capacity)
{
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    const size_t n = fread(bytes, 1, capacity, file);
    fclose(file);
    return n;
}

/* Writes a file with this header (padded with spaces and a newline to `length` if that is longer) and data. */
static void write_npy(const char *header, size_t length, const void *data, size_t bytes)
{
    char file[4096];
    const size_t written = strlen(header);
    length = length > written ? length : written;
    ck_assert(10 + length + bytes <= sizeof file);
    memcpy(file, "\x93NUMPY\x01\x00", 8);
    file[8] = (char)(length & 255);
    file[9] = (char)(length >> 8);
    memset(file + 10, ' ', length);
    memcpy(file + 10, header, written);
    if (bytes > 0)
        memcpy(file + 10 + length, data, bytes);
    write_bytes(file, 10 + length + bytes);
}

/* numpy.save("array.npy", numpy.array([[1.5, -2, 3], [0, 0.1, numpy.inf]], "float32")), NumPy 2.4 */
static const char numpy_file[] =
    "\x93NUMPY\x01\x00\x76\x00"
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }                                                       "
    "   \n"
    "\x00\x00\xc0\x3f\x00\x00\x00\xc0\x00\x00\x40\x40\x00\x00\x00\x00\xcd\xcc\xcc\x3d\x00\x00\x80\x7f";
static const float numpy_values[6] = {1.5f, -2, 3, 0, 0.1f, INFINITY};

START_TEST(test_as_numpy_writes)
{
    char bytes[256];
    th_tensor *t = th_from_data(ctx, TH_FLOAT32, TH_SHAPE(2, 3), numpy_values);
    ck_assert_int_eq(th_npy_write(t, path), TH_OK);
    ck_assert_uint_eq(read_bytes(bytes, sizeof bytes), sizeof numpy_file - 1);
    ck_assert_mem_eq(bytes, numpy_file, sizeof numpy_file - 1);
    write_bytes(numpy_file, sizeof numpy_file - 1);
    th_tensor *read = th_npy_read(ctx, path);
    ck_assert_msg(read != NULL, "%s", th_error_message(ctx));
    ck_assert(th_dtype_of(read) == TH_FLOAT32 && th_ndim(read) == 2 && th_size(read, 0) == 2 && th_size(read, 1) == 3);
    ck_assert_mem_eq(th_data_const(read), numpy_values, sizeof numpy_values);
}
END_TEST

static void assert_equal(th_tensor *a, th_tensor *b)
{
    ck_assert_msg(a && b, "%s", th_error_message(ctx));
    ck_assert(th_dtype_of(a) == th_dtype_of(b) && th_ndim(a) == th_ndim(b));
    for (int i = 0; i < th_ndim(a); i++)
        ck_assert_int_eq(th_size(a, i), th_size(b, i));
    const size_t bytes = (size_t)th_numel(a) * th_dtype_size(th_dtype_of(a));
    char *x = malloc(bytes + 1), *y = malloc(bytes + 1);
    ck_assert_int_eq(th_copy_out(a, x, bytes), TH_OK);
    ck_assert_int_eq(th_copy_out(b, y, bytes), TH_OK);
    ck_assert(memcmp(x, y, bytes) == 0);
    free(x), free(y);
}

START_TEST(test_round_trips)
{
    static const th_shape shapes[] = {
        {0, {0}}, {1, {0}}, {1, {7}}, {2, {3, 0}}, {3, {4, 5, 6}}, {8, {1, 2, 1, 3, 1, 2, 2, 1}}, {2, {300, 400}}};
    for (int dtype = 0; dtype <= TH_BOOL; dtype++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            th_tensor *numbers = th_random_integers(ctx, TH_INT64, shapes[s], -100, 100),
                      *t = th_empty(ctx, (th_dtype)dtype, shapes[s]);
            ck_assert_int_eq(th_copy_into(t, numbers), TH_OK);
            ck_assert_int_eq(th_npy_write(t, path), TH_OK);
            th_tensor *read = th_npy_read(ctx, path);
            assert_equal(t, read);
            ck_assert(th_is_contiguous(read));
            th_tensor_free(numbers), th_tensor_free(t), th_tensor_free(read);
        }
}
END_TEST

START_TEST(test_views_are_written_row_major)
{
    th_tensor *t = th_arange(ctx, TH_INT32, 0, 300 * 200, 1);
    th_tensor *view = th_slice(th_transpose(th_reshape(t, TH_SHAPE(300, 200)), TH_AXES(1, 0)), 0, 3, 180, 2);
    ck_assert_int_eq(th_npy_write(view, path), TH_OK);
    assert_equal(view, th_npy_read(ctx, path));
}
END_TEST

START_TEST(test_fortran_order)
{
    const double columns[6] = {1, 4, 2, 5, 3, 6};
    write_npy("{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3), }\n", 118, columns, sizeof columns);
    th_tensor *read = th_npy_read(ctx, path);
    ck_assert_msg(read != NULL, "%s", th_error_message(ctx));
    ck_assert(th_is_contiguous(read));
    for (int i = 0; i < 6; i++)
        ck_assert(((const double *)th_data_const(read))[i] == i + 1);
    const bool truth[8] = {true, false, true, true, false, false, true, false}; /* (2, 2, 2) */
    write_npy("{'descr': '|b1', 'fortran_order': True, 'shape': (2, 2, 2), }", 0, truth, sizeof truth);
    read = th_npy_read(ctx, path);
    ck_assert_msg(read != NULL, "%s", th_error_message(ctx));
    for (int64_t i = 0; i < 8; i++)
        ck_assert(th_get(read, TH_INDEX(i & 1, i >> 1 & 1, i >> 2)) == truth[i]);
}
END_TEST

/* Spellings that Python reads, too. */
START_TEST(test_other_spellings)
{
    static const char *const headers[] = {
        "{\"shape\":(2,3),\"descr\":\"<f4\",\"fortran_order\":False}",
        " { 'fortran_order' : False , 'shape' : ( 2 , 3 , ) , 'descr' : '<f4' , } ",
        "{'descr': '<f4',\n\t'fortran_order': False,\n 'shape': (02, 3), }\n",
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        write_npy(headers[i], 0, numpy_values, sizeof numpy_values);
        th_tensor *read = th_npy_read(ctx, path);
        ck_assert_msg(read != NULL, "%s", th_error_message(ctx));
        ck_assert_mem_eq(th_data_const(read), numpy_values, sizeof numpy_values);
    }
}
END_TEST

/* Several arrays in one stream. */
START_TEST(test_streams)
{
    th_tensor *a = th_randn(ctx, TH_FLOAT64, TH_SHAPE(3, 4)), *b = th_arange(ctx, TH_INT32, 0, 5, 1);
    FILE *file = fopen(path, "w+b");
    ck_assert_int_eq(th_npy_write_to(a, file), TH_OK);
    ck_assert_int_eq(th_npy_write_to(b, file), TH_OK);
    rewind(file);
    assert_equal(a, th_npy_read_from(ctx, file));
    assert_equal(b, th_npy_read_from(ctx, file));
    ck_assert_ptr_null(th_npy_read_from(ctx, file));
    ck_assert_msg(strstr(th_error_message(ctx), "npy_read: the file: it is too short for a .npy file; at test_npy.c"),
                  "%s", th_error_message(ctx));
    th_error_clear(ctx);
    fclose(file);
    ck_assert_ptr_null(th_npy_read(ctx, path)); /* a file has one array */
    ck_assert_msg(strstr(th_error_message(ctx), "float64 (3, 4) takes 96 bytes, but 244 follow its header"), "%s",
                  th_error_message(ctx));
    th_error_clear(ctx);
}
END_TEST

/* Reading fails with this message, and allocates nothing. */
static void assert_refused(const char *sentence)
{
    const th_memory_usage before = th_memory(ctx);
    ck_assert_msg(th_npy_read(ctx, path) == NULL, "read, instead of: %s", sentence);
    expect_error(TH_ERROR_FILE, sentence);
    ck_assert_uint_eq(th_memory(ctx).live, before.live);
    ck_assert_uint_eq(th_memory(ctx).allocations, before.allocations);
}

/* What the error says about a size that needs 64 bits. */
#define LARGE_SIZE(sentence) (sizeof(size_t) == 8 ? (sentence) : "in bytes overflows")

START_TEST(test_hostile_headers)
{
    const struct {
        const char *header, *sentence;
    } files[] = {
        {"", "its header lacks a '{'"},
        {"[]", "its header lacks a '{'"},
        {"{}", "lacks the key 'descr'"},
        {"{'descr': '<f4', 'shape': (6,)}", "lacks the key 'fortran_order'"},
        {"{'descr': '<f4', 'fortran_order': False}", "lacks the key 'shape'"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (6,)}", "has the key 'descr' twice"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'shape': (6,)}", "has the key 'shape' twice"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'more': 1}", "unknown key 'more'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,)", "no comma between two entries"},
        {"{'descr': '<f4' 'fortran_order': False, 'shape': (6,)}", "no comma between two entries"},
        {"{'descr' '<f4', 'fortran_order': False, 'shape': (6,)}", "its header lacks a ':'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,)} x", "continues after its end"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,)}{}", "continues after its end"},
        {"{'descr': '<f4", "a string in its header does not end"},
        {"{'desc\\x72': '<f4', 'fortran_order': False, 'shape': (6,)}", "a string in its header does not end"},
        {"{'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa': 1}",
         "a string in its header does not end"},
        {"{'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa': 1}", "unknown key 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'"}, /* 31 letters */
        {"{'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa': 1}", "a string in its header does not end"},
        {"{'de\x7fscr': '<f4'}", "a string in its header does not end"},
        {"{'de\tscr': '<f4'}", "a string in its header does not end"},
        {"{'~ ': '<f4'}", "unknown key '~ '"},
        {"{descr: '<f4'}", "its header lacks a string"},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (6,)}", "element type '>f4' is not one of"},
        {"{'descr': '<f2', 'fortran_order': False, 'shape': (6,)}", "element type '<f2' is not one of"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (6,)}", "element type '|O' is not one of"},
        {"{'descr': '%n%s%n%s', 'fortran_order': False, 'shape': (6,)}", "element type '%n%s%n%s' is not one of"},
        {"{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (6,)}", "its elements are records"},
        {"{'descr': 4, 'fortran_order': False, 'shape': (6,)}", "its header lacks a string"},
        {"{'descr': '<f4', 'fortran_order': Perhaps, 'shape': (6,)}", "neither True nor False"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (6,)}", "neither True nor False"},
        {"{'descr': '<f4', 'fortran_order': Falsehood, 'shape': (6,)}", "no comma between two entries"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6)}", "its shape is not a tuple"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 6}", "its header lacks a '('"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': [6]}", "its header lacks a '('"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}", "no comma between two sizes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (,)}", "not a non-negative integer"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-6,)}", "not a non-negative integer"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2, -3)}", "not a non-negative integer"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (nan,)}", "not a non-negative integer"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6.0,)}", "no comma between two sizes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1e9,)}", "no comma between two sizes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "a size in its shape overflows"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}", "a size in its shape overflows"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807,)}",
         "its shape (9223372036854775807) in bytes overflows"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (:,)}", "not a non-negative integer"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6/,)}", "no comma between two sizes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6:,)}", "no comma between two sizes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
         "(4294967296, 4294967296) in bytes overflows"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (2305843009213693952,)}", "overflows"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}",
         LARGE_SIZE("takes 4000000000000 bytes, but 24 follow")},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (1000000, 1000000)}",
         LARGE_SIZE("takes 4000000000000 bytes, but 24 follow")},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (7,)}", "float32 (7) takes 28 bytes, but 24 follow"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (5,)}", "float32 (5) takes 20 bytes, but 24 follow"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 1152921504606846975)}",
         LARGE_SIZE("takes 0 bytes, but 24 follow")},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 6)}", "more than 8 dimensions"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (((((((((((((((((((((((((((", "not a non-negative integer"},
        {"{'descr': '|b1', 'fortran_order': False, 'shape': (24,)}", "a bool is neither 0 nor 1"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        write_npy(files[i].header, 0, numpy_values, sizeof numpy_values);
        assert_refused(files[i].sentence);
    }
    char header[100];
    snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 1, %lld)}",
             (long long)PTRDIFF_MAX / 8);
    write_npy(header, 0, NULL, 0);
    th_tensor *empty = th_npy_read(ctx, path); /* unusual, but valid */
    ck_assert(empty && th_numel(empty) == 0 && th_size(empty, 2) == PTRDIFF_MAX / 8);
    write_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 2, 9223372036854775807)}", 0, NULL, 0);
    assert_refused("verflow");
}
END_TEST

START_TEST(test_damaged_files)
{
    char bytes[sizeof numpy_file];
    const size_t size = sizeof numpy_file - 1;
    for (size_t n = 0; n < size; n++) { /* cut at every byte */
        write_bytes(numpy_file, n);
        assert_refused(n < 10 ? "too short" : n < 128 ? "claims 118 bytes" : "takes 24 bytes");
    }
    static const char values[] = {0, 1, 2, '8', 'i', ',', ')', '\'', '}', ' ', -1};
    for (size_t n = 0; n < 10 + 60; n++) /* each byte changed: an error, or an array of the same size */
        for (size_t value = 0; value < sizeof values; value++) {
            memcpy(bytes, numpy_file, size);
            bytes[n] = values[value];
            write_bytes(bytes, size);
            th_tensor *t = th_npy_read(ctx, path);
            ck_assert(t != NULL || th_error_code(ctx) == TH_ERROR_FILE);
            ck_assert(t == NULL || th_numel(t) * (int64_t)th_dtype_size(th_dtype_of(t)) == 24);
            th_tensor_free(t);
            th_error_clear(ctx);
        }
    memcpy(bytes, numpy_file, size);
    bytes[6] = 2;
    write_bytes(bytes, size);
    assert_refused("it has .npy format 2.0; only 1.0 is supported");
    bytes[6] = 1;
    bytes[8] = bytes[9] = (char)0xff;
    write_bytes(bytes, size);
    assert_refused("its header claims 65535 bytes, but 142 follow");
    bytes[0] = 'N';
    write_bytes(bytes, size);
    assert_refused("it is not a .npy file");
    memcpy(bytes, numpy_file, size);
    bytes[40] = 0;
    write_bytes(bytes, size);
    assert_refused("contains a zero byte");
    write_bytes("", 0);
    assert_refused("too short");
    unlink(path);
    assert_refused("No such file");
    ck_assert_int_eq(mkdir(path, 0700), 0);
    assert_refused("not a regular file");
    rmdir(path);
    struct stat made;
    ck_assert(mkfifo(path, 0600) == 0 && stat(path, &made) == 0);
    if (S_ISFIFO(made.st_mode)) /* WebAssembly in node makes a regular file */
        assert_refused("not a regular file");
    unlink(path);
    write_bytes(numpy_file, size);
}
END_TEST

/* A shapes-only context reads the shapes of all arrays of a stream, and skips their elements. */
START_TEST(test_shapes_only)
{
    th_context *shapes = th_context_new(&(th_context_options){.shapes_only = true});
    FILE *file = fopen(path, "w+");
    for (int64_t i = 0; i < 3; i++)
        ck_assert_int_eq(th_npy_write_to(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(i, 3 + i)), file), TH_OK);
    rewind(file);
    for (int64_t i = 0; i < 3; i++) {
        th_tensor *t = th_npy_read_from(shapes, file);
        ck_assert_msg(t != NULL, "%s", th_error_message(shapes));
        ck_assert(th_size(t, 0) == i && th_size(t, 1) == 3 + i);
    }
    ck_assert_ptr_null(th_npy_read_from(shapes, file));
    ck_assert_ptr_nonnull(strstr(th_error_message(shapes), "npy_read: the file: it is too short for a .npy file"));
    th_error_clear(shapes);
    ck_assert_int_eq(th_npy_write(th_ones(shapes, TH_FLOAT32, TH_SHAPE(2)), path), TH_ERROR_STATE);
    ck_assert_ptr_nonnull(strstr(th_error_message(shapes), "npy_write: a shapes-only context has no values"));
    fclose(file);
    th_context_free(shapes);
}
END_TEST

START_TEST(test_arguments)
{
    th_tensor *t = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2));
    ck_assert(th_npy_read(ctx, NULL) == NULL && th_error_code(ctx) == TH_ERROR_ARGUMENT);
    th_error_clear(ctx);
    ck_assert(th_npy_read_from(ctx, NULL) == NULL && th_error_code(ctx) == TH_ERROR_ARGUMENT);
    th_error_clear(ctx);
    ck_assert(th_npy_read(NULL, path) == NULL && strstr(th_error_message(ctx), "the context is NULL"));
    th_error_clear(ctx);
    ck_assert_int_eq(th_npy_write(t, NULL), TH_ERROR_ARGUMENT);
    th_error_clear(ctx);
    ck_assert_int_eq(th_npy_write_to(t, NULL), TH_ERROR_ARGUMENT);
    th_error_clear(ctx);
    ck_assert_int_eq(th_npy_write(NULL, path), TH_ERROR_ARGUMENT);
    ck_assert(strstr(th_error_message(ctx), "npy_write: t is NULL; at test_npy.c"));
    ck_assert_int_eq(th_npy_write(t, path), TH_ERROR_ARGUMENT); /* with an error pending nothing happens */
    ck_assert_int_ne(access(path, F_OK), 0);
    th_error_clear(ctx);
    ck_assert_int_eq(th_npy_write(t, "/nonexistent/x.npy"), TH_ERROR_FILE);
    ck_assert(strstr(th_error_message(ctx), "npy_write: /nonexistent/x.npy: No such file or directory"));
    th_error_clear(ctx);
    write_bytes("", 0);
}
END_TEST

/* If the disk becomes full, the old file stays. */
START_TEST(test_full_disk)
{
    th_tensor *small = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2)), *large = th_ones(ctx, TH_FLOAT32, TH_SHAPE(100000));
    ck_assert_int_eq(th_npy_write(small, path), TH_OK);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 100000;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const bool limited = limit.rlim_cur == 100000; /* WebAssembly ignores limits */
    const th_status status = th_npy_write(large, path);
    limit.rlim_cur = before;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_eq(status, limited ? TH_ERROR_FILE : TH_OK);
    th_error_clear(ctx);
    assert_equal(limited ? small : large, th_npy_read(ctx, path));
    if (access("/dev/full", W_OK) == 0) { /* a device is written to, not replaced */
        ck_assert_int_eq(th_npy_write(small, "/dev/full"), TH_ERROR_FILE);
        th_error_clear(ctx);
        th_tensor *view = th_swap_axes(th_ones(ctx, TH_FLOAT32, TH_SHAPE(300, 400)), 0, 1);
        ck_assert_int_eq(th_npy_write(view, "/dev/full"), TH_ERROR_FILE);
        th_error_clear(ctx);
        struct stat device;
        ck_assert(stat("/dev/full", &device) == 0 && S_ISCHR(device.st_mode));
    }
}
END_TEST

START_TEST(test_out_of_memory)
{
    th_tensor *t = th_ones(ctx, TH_FLOAT32, TH_SHAPE(1000000));
    ck_assert_int_eq(th_npy_write(t, path), TH_OK);
    th_context *limited = th_context_new(&(th_context_options){.memory_limit = 3 << 20});
    ck_assert_ptr_null(th_npy_read(limited, path));
    ck_assert_int_eq(th_error_code(limited), TH_ERROR_MEMORY);
    th_context_free(limited);
    th_context *shapes = th_context_new(&(th_context_options){.shapes_only = true});
    th_tensor *read = th_npy_read(shapes, path);
    ck_assert(read && th_numel(read) == 1000000 && th_npy_write(read, path) == TH_ERROR_STATE);
    th_context_free(shapes);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("npy", setup, teardown);
    tcase_add_test(tests, test_as_numpy_writes);
    tcase_add_test(tests, test_round_trips);
    tcase_add_test(tests, test_views_are_written_row_major);
    tcase_add_test(tests, test_fortran_order);
    tcase_add_test(tests, test_other_spellings);
    tcase_add_test(tests, test_streams);
    tcase_add_test(tests, test_hostile_headers);
    tcase_add_test(tests, test_damaged_files);
    tcase_add_test(tests, test_shapes_only);
    tcase_add_test(tests, test_arguments);
    tcase_add_test(tests, test_full_disk);
    tcase_add_test(tests, test_out_of_memory);
    return run_suites();
}
