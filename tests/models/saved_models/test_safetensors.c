/* Safetensors files: written files can be read, types are converted, and tensors may have any layout. Damaged or
 * hostile files are rejected, quickly and in little memory. */
#include <math.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "folder.h"
#include "memory.h"
#include "models/files/json.h"
#include "models/saved_models/safetensors.h"
#include "models/saved_models/safetensors_types.h"
#include "tapehead/models.h"

#include "context.h"

static test_memory memory;

static void setup(void)
{
    make_folder();
    memory = (test_memory){0};
    ctx = th_context_new(&(th_context_options){.allocator = allocator_of(&memory)});
}

static void teardown(void)
{
    close_context();
    ck_assert_uint_eq(memory.bytes, 0);
    remove_folder();
}

/* Writes a file with this header, followed by `data_bytes` bytes 0, 1, 2, ... */
static const char *file_of(const char *header, size_t header_bytes, size_t data_bytes)
{
    const char *path = in_folder("made.safetensors");
    char *bytes = malloc(8 + header_bytes + data_bytes);
    const uint64_t length = header_bytes;
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, header_bytes);
    for (size_t i = 0; i < data_bytes; i++)
        bytes[8 + header_bytes + i] = (char)i;
    write_bytes(path, bytes, 8 + header_bytes + data_bytes);
    free(bytes);
    return path;
}

static void expect_refusal(const char *path, const char *words)
{
    const size_t live = memory.bytes;
    ck_assert_ptr_null(th_safetensors_open(ctx, path));
    ck_assert_msg(strstr(th_error_message(ctx), "safetensors_open: "), "%s", th_error_message(ctx));
    expect_failure(true, TH_ERROR_FILE, words);
    ck_assert_uint_eq(memory.bytes, live);
}

static void expect_header_refused(const char *header, size_t data_bytes, const char *words)
{
    expect_refusal(file_of(header, strlen(header), data_bytes), words);
}

/* -- writing -- */

START_TEST(what_is_written_is_read)
{
    const char *path = in_folder("all.safetensors");
    th_tensor *matrix = th_randn(ctx, TH_FLOAT32, TH_SHAPE(3, 70, 5)), *turned = th_transpose(matrix, TH_AXES(2, 0, 1));
    const th_named_tensor tensors[] = {
        {"mask", th_full(ctx, TH_BOOL, TH_SHAPE(3), 1)},
        {"matrix", matrix},
        {"turned \"\xc3\xa9\"\n", turned},
        {"double", th_randn(ctx, TH_FLOAT64, TH_SHAPE(2, 2))},
        {"index", th_arange(ctx, TH_INT64, -3, 4, 1)},
        {"short", th_arange(ctx, TH_INT32, 0, 5, 1)},
        {"scalar", th_full(ctx, TH_FLOAT32, TH_SCALAR, 2.5)},
        {"empty", th_empty(ctx, TH_FLOAT32, TH_SHAPE(4, 0, 2))},
    };
    enum { COUNT = sizeof tensors / sizeof *tensors };
    const th_named_text texts[] = {{"format", "pt"}, {"quoted", "{\"a\": \"\\\xc3\xa9\"}"}};
    ck_assert_msg(th_safetensors_write(ctx, path, tensors, COUNT, texts, 2) == TH_OK, "%s", th_error_message(ctx));
    th_safetensors *file = th_safetensors_open(ctx, path);
    no_error();
    ck_assert_int_eq(th_safetensors_count(file), COUNT);
    ck_assert_str_eq(th_safetensors_metadata(file, "quoted"), texts[1].text);
    ck_assert_ptr_null(th_safetensors_metadata(file, "other"));
    ck_assert_ptr_null(th_safetensors_find(file, "other"));
    ck_assert_ptr_null(th_safetensors_at(file, COUNT));
    ck_assert_ptr_null(th_safetensors_at(file, -1));
    for (int i = 0; i < COUNT; i++) {
        const th_stored_tensor *stored = th_safetensors_find(file, tensors[i].name);
        th_tensor *read = th_safetensors_read(file, tensors[i].name), *plain = th_keep(tensors[i].tensor);
        assert_shape(read, stored->shape);
        assert_shape(tensors[i].tensor, stored->shape);
        ck_assert_int_eq(stored->dtype, th_dtype_of(plain));
        ck_assert_int_eq(th_dtype_of(read), th_dtype_of(plain));
        ck_assert_int_eq(stored->bytes, th_numel(plain) * (int64_t)th_dtype_size(stored->dtype));
        ck_assert(stored->bytes == 0 || memcmp(th_data_const(read), th_data_const(plain), (size_t)stored->bytes) == 0);
    }
    ck_assert_str_eq(th_safetensors_at(file, 0)->name, "double"); /* longer elements first */
    ck_assert_str_eq(th_safetensors_at(file, COUNT - 1)->name, "mask");
    th_tensor *again = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(3, 70, 5));
    ck_assert_int_eq(th_safetensors_read_into(file, "turned \"\xc3\xa9\"\n", th_transpose(again, TH_AXES(2, 0, 1))),
                     TH_OK);
    ck_assert_int_eq(memcmp(th_data_const(again), th_data_const(matrix), 3 * 70 * 5 * 4), 0);
    th_safetensors_close(file);
    th_safetensors_close(NULL);
    th_tape_clear(ctx);
}
END_TEST

START_TEST(nothing_at_all_can_be_written)
{
    const char *path = in_folder("nothing.safetensors");
    ck_assert_int_eq(th_safetensors_write(ctx, path, NULL, 0, NULL, 0), TH_OK);
    th_safetensors *file = th_safetensors_open(ctx, path);
    no_error();
    ck_assert_int_eq(th_safetensors_count(file), 0);
    ck_assert_ptr_null(th_safetensors_metadata(file, "format")); /* (the context closes it) */
}
END_TEST

static int64_t json_blocks; /* that jansson holds */

static void *take_counted(size_t bytes)
{
    json_blocks++;
    return malloc(bytes);
}

static void give_counted(void *block)
{
    json_blocks -= block != NULL;
    free(block);
}

START_TEST(what_cannot_be_written_is_named)
{
    th_tensor *t = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2));
    const char *path = in_folder("x.safetensors");
    const th_named_tensor twice[] = {{"a", t}, {"a", t}}, reserved = {"__metadata__", t}, unnamed = {NULL, t},
                          bytes = {"\xff", t}, absent = {"a", NULL};
    const th_named_text same[] = {{"k", "v"}, {"k", "w"}}, bad = {"k", "\xff"};
    json_set_alloc_funcs(take_counted, give_counted);
    expect_status(th_safetensors_write(ctx, path, twice, 2, NULL, 0), TH_ERROR_ARGUMENT, "\"a\" is given twice");
    ck_assert_int_eq(json_blocks, 0);
    expect_status(th_safetensors_write(ctx, path, &reserved, 1, NULL, 0), TH_ERROR_ARGUMENT, "is not allowed");
    expect_status(th_safetensors_write(ctx, path, &unnamed, 1, NULL, 0), TH_ERROR_ARGUMENT, "is not allowed");
    expect_status(th_safetensors_write(ctx, path, &bytes, 1, NULL, 0), TH_ERROR_ARGUMENT, "not UTF-8");
    expect_status(th_safetensors_write(ctx, path, &absent, 1, NULL, 0), TH_ERROR_ARGUMENT, "a tensor is NULL");
    expect_status(th_safetensors_write(ctx, path, twice, 1, same, 2), TH_ERROR_ARGUMENT, "text 1 of the metadata");
    expect_status(th_safetensors_write(ctx, path, twice, 1, &bad, 1), TH_ERROR_ARGUMENT, "text 0 of the metadata");
    expect_status(th_safetensors_write(ctx, NULL, twice, 1, NULL, 0), TH_ERROR_ARGUMENT, "NULL");
    expect_status(th_safetensors_write(ctx, path, twice, -1, NULL, 0), TH_ERROR_ARGUMENT, "negative");
    expect_status(th_safetensors_write(ctx, in_folder("no/x"), twice, 1, NULL, 0), TH_ERROR_FILE, "No such file");
    json_set_alloc_funcs(malloc, free);
    ck_assert_int_eq(json_blocks, 0);
    ck_assert_int_eq(count_files(), 0);
}
END_TEST

/* -- types -- */

static void expect_numbers(const char *type, int bits, const void *bytes, int n, const double *expected)
{
    char header[160];
    const int data = n * bits / 8;
    const int length =
        sprintf(header, "{\"x\":{\"dtype\":\"%s\",\"shape\":[%d],\"data_offsets\":[0,%d]}}", type, n, data);
    const char *path = file_of(header, (size_t)length, (size_t)data);
    FILE *file = fopen(path, "r+b");
    fseek(file, 8 + length, SEEK_SET);
    ck_assert(fwrite(bytes, 1, (size_t)data, file) == (size_t)data);
    fclose(file);
    th_safetensors *f = th_safetensors_open(ctx, path);
    th_tensor *x = th_safetensors_read(f, "x");
    no_error();
    ck_assert_str_eq(th_safetensors_at(f, 0)->type, type);
    for (int i = 0; i < n; i++) {
        const double value = th_get(x, TH_INDEX(i));
        ck_assert_msg(value == expected[i] || (isnan(value) && isnan(expected[i])), "%s: %g, not %g", type, value,
                      expected[i]);
        ck_assert_int_eq(signbit(value) != 0, signbit(expected[i]) != 0);
    }
    th_tensor_free(x);
    th_safetensors_close(f);
}

START_TEST(types_of_others_are_converted)
{
    const uint16_t halves[] = {0x0000, 0x8000, 0x3c00, 0xc000, 0x7bff, 0x0400, 0x0001, 0x83ff, 0x7c00, 0xfc00, 0x3555};
    const double half_numbers[] = {0.0,     -0.0,         1,        -2,        65504,     0x1p-14,
                                   0x1p-24, -0x1.ff8p-15, INFINITY, -INFINITY, 0x1.554p-2};
    expect_numbers("F16", 16, halves, 11, half_numbers);
    const uint16_t nan_half = 0x7e00, brains[] = {0x3f80, 0xc000, 0x0001, 0x7f80, 0x8000};
    expect_numbers("F16", 16, &nan_half, 1, (double[]){NAN});
    expect_numbers("BF16", 16, brains, 5, (double[]){1, -2, 0x1p-133, INFINITY, -0.0});
    expect_numbers("F64", 64, (double[]){1e300, -0.1}, 2, (double[]){1e300, -0.1});
    expect_numbers("I8", 8, (int8_t[]){-128, 127}, 2, (double[]){-128, 127});
    expect_numbers("U8", 8, (uint8_t[]){255, 1}, 2, (double[]){255, 1});
    expect_numbers("I16", 16, (int16_t[]){-32768, 5}, 2, (double[]){-32768, 5});
    expect_numbers("U16", 16, (uint16_t[]){65535}, 1, (double[]){65535});
    expect_numbers("U32", 32, (uint32_t[]){UINT32_MAX}, 1, (double[]){4294967295.0});
    expect_numbers("U64", 64, (uint64_t[]){1ull << 40}, 1, (double[]){1099511627776.0});
}
END_TEST

START_TEST(a_tensor_takes_what_fits_it)
{
    const char header[] = "{\"f\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                          "\"i\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[8,16]},"
                          "\"b\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[16,18]},"
                          "\"u\":{\"dtype\":\"U64\",\"shape\":[1],\"data_offsets\":[18,26]},"
                          "\"e\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[26,27]}}";
    const char *path = file_of(header, sizeof header - 1, 27);
    FILE *made = fopen(path, "r+b");
    fseek(made, (long)(8 + sizeof header - 1 + 25), SEEK_SET);
    fputc(0xff, made);
    fclose(made);
    th_safetensors *f = th_safetensors_open(ctx, path);
    no_error();
    th_tensor *f64 = th_zeros(ctx, TH_FLOAT64, TH_SHAPE(2)), *i32 = th_zeros(ctx, TH_INT32, TH_SHAPE(1)),
              *i64 = th_zeros(ctx, TH_INT64, TH_SHAPE(1)), *flags = th_zeros(ctx, TH_BOOL, TH_SHAPE(2)),
              *other = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(1, 2));
    ck_assert_int_eq(th_safetensors_read_into(f, "f", f64), TH_OK);
    ck_assert_int_eq(th_safetensors_read_into(f, "i", i64), TH_OK);
    ck_assert_double_eq(th_item(i64), (double)0x0f0e0d0c0b0a0908);
    expect_status(th_safetensors_read_into(f, "i", i32), TH_ERROR_FILE, "\"i\": it has a number that does not fit");
    expect_status(th_safetensors_read_into(f, "u", i64), TH_ERROR_FILE, "\"u\": it has a number that does not fit");
    expect_status(th_safetensors_read_into(f, "b", flags), TH_ERROR_FILE, "\"b\": it has a number that does not fit");
    expect_status(th_safetensors_read_into(f, "f", i32), TH_ERROR_TYPE, "is F32, which cannot be read as int32");
    expect_status(th_safetensors_read_into(f, "i", f64), TH_ERROR_TYPE, "is I64, which cannot be read as float64");
    expect_status(th_safetensors_read_into(f, "f", other), TH_ERROR_SHAPE, "\"f\" is (2), not (1, 2)");
    expect_status(th_safetensors_read_into(f, "g", other), TH_ERROR_FILE, "there is no tensor \"g\" in ");
    expect_status(th_safetensors_read_into(f, "f", NULL), TH_ERROR_ARGUMENT, "NULL");
    expect_status(th_safetensors_read_into(f, "f", th_expand(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(1)), TH_SHAPE(2))),
                  TH_ERROR_STATE, "overlap in memory");
    const size_t live = th_memory(ctx).live;
    expect_failure(th_safetensors_read(f, "b") == NULL, TH_ERROR_FILE, "safetensors_read: ");
    expect_status(th_safetensors_read_into(f, "b", flags), TH_ERROR_FILE, "safetensors_read_into: ");
    ck_assert_uint_eq(th_memory(ctx).live, live); /* a tensor that was not read is released */
    ck_assert(!th_safetensors_find(f, "e")->readable);
    expect_failure(th_safetensors_read(f, "e") == NULL, TH_ERROR_TYPE, "is F8_E4M3, which cannot be read");
    expect_failure(th_safetensors_read(NULL, "e") == NULL, TH_ERROR_ARGUMENT, "the file is NULL");
    ck_assert_int_eq(truncate(path, 40), 0);
    expect_failure(th_safetensors_read(f, "f") == NULL, TH_ERROR_FILE, "shorter since it was opened");
    th_tape_clear(ctx);
}
END_TEST

/* Tensors larger than any buffer, into another type and another layout, and from it: every element is at its place. */
START_TEST(large_tensors_are_converted_in_pieces)
{
    enum { ROWS = 47, COLUMNS = 251 }; /* 94 KB as float64 */
    const char *path = in_folder("large.safetensors");
    th_tensor *full = th_empty(ctx, TH_FLOAT64, TH_SHAPE(ROWS, COLUMNS)),
              *single = th_empty(ctx, TH_FLOAT32, TH_SHAPE(ROWS, COLUMNS));
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        ((double *)th_data(full))[i] = i + 0.25;
        ((float *)th_data(single))[i] = (float)i - 0.5F;
    }
    const th_named_tensor named[] = {{"turned", th_swap_axes(full, 0, 1)}, {"single", single}};
    ck_assert_int_eq(th_safetensors_write(ctx, path, named, 2, NULL, 0), TH_OK);
    th_safetensors *file = th_safetensors_open(ctx, path);
    for (int turned = 0; turned < 2; turned++) { /* the layout in memory of the tensor that is read */
        th_tensor *a = th_zeros(ctx, TH_FLOAT32, turned ? TH_SHAPE(ROWS, COLUMNS) : TH_SHAPE(COLUMNS, ROWS)),
                  *b = th_zeros(ctx, TH_FLOAT64, turned ? TH_SHAPE(COLUMNS, ROWS) : TH_SHAPE(ROWS, COLUMNS));
        ck_assert_int_eq(th_safetensors_read_into(file, "turned", turned ? th_swap_axes(a, 0, 1) : a), TH_OK);
        ck_assert_int_eq(th_safetensors_read_into(file, "single", turned ? th_swap_axes(b, 0, 1) : b), TH_OK);
        int wrong = 0;
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            const int across = i % COLUMNS * ROWS + i / COLUMNS;
            wrong += ((const float *)th_data(a))[turned ? i : across] != (float)(i + 0.25);
            wrong += ((const double *)th_data(b))[turned ? across : i] != i - 0.5;
        }
        ck_assert_int_eq(wrong, 0);
    }
    th_safetensors_close(file);
    th_tape_clear(ctx);
}
END_TEST

/* Types that are known, so that the other tensors of a file can be read, but that have no type here. */
START_TEST(types_without_an_equal_here_are_not_read)
{
    static const struct {
        const char *type;
        int bits;
    } cases[] = {{"F4", 4},      {"F6_E2M3", 6},     {"F6_E3M2", 6},     {"F8_E5M2", 8}, {"F8_E4M3", 8},
                 {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"C64", 64}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char header[160], words[160];
        const int length = sprintf(header, "{\"x\":{\"dtype\":\"%s\",\"shape\":[4],\"data_offsets\":[0,%d]}}",
                                   cases[i].type, cases[i].bits / 2);
        th_safetensors *f = th_safetensors_open(ctx, file_of(header, (size_t)length, (size_t)cases[i].bits / 2));
        no_error();
        const th_stored_tensor *stored = th_safetensors_find(f, "x");
        ck_assert(!stored->readable && stored->bytes == cases[i].bits / 2);
        snprintf(words, sizeof words, "safetensors_read: %s/made.safetensors: tensor \"x\" is %s, which cannot be read",
                 folder, cases[i].type);
        expect_failure(th_safetensors_read(f, "x") == NULL, TH_ERROR_TYPE, words);
        th_tensor *to = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(4));
        expect_status(th_safetensors_read_into(f, "x", to), TH_ERROR_TYPE, "which cannot be read as float32");
        th_tensor_free(to);
        th_safetensors_close(f);
    }
}
END_TEST

/* Converting n elements changes n elements of the requested type. */
START_TEST(a_conversion_ends_after_its_elements)
{
    static const char *const types[] = {"F64", "F32", "F16", "BF16", "I64", "I32",
                                        "I16", "I8",  "U64", "U32",  "U16", "U8"};
    static const th_dtype dtypes[] = {TH_FLOAT32, TH_FLOAT64, TH_INT32, TH_INT64};
    const char from[64] = {0};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (int k = 0; k < 4; k++) {
            const th_safetensors_type *type = th_safetensors_type_find(types[i]);
            if (!th_safetensors_type_fits(type, dtypes[k]))
                continue;
            for (int64_t n = 0; n <= 4; n++) {
                unsigned char to[64];
                memset(to, 7, sizeof to);
                ck_assert(th_safetensors_convert(n, dtypes[k], to, type, from));
                const int64_t changed = n * (int64_t)th_dtype_size(dtypes[k]);
                for (int64_t b = 0; b < 64; b++)
                    ck_assert_int_eq(to[b], b < changed ? 0 : 7);
            }
        }
}
END_TEST

/* As json.dumps(..., indent=2) and other writers format a header. */
START_TEST(metadata_is_the_same_however_a_header_is_laid_out)
{
    static const char *const headers[] = {
        "{\"__metadata__\":{\"k\":\"v\",\"e\":\"\\\"\\u0041\",\"s\":\" \"}}",
        "{\"__metadata__\": {\"k\": \"v\" , \"e\": \"\\\"\\u0041\" , \"s\": \" \" }}",
        "{\n  \"__metadata__\": {\n    \"k\": \"v\",\n    \"e\": \"\\\"\\u0041\",\n    \"s\": \" \"\n  }\n}\n",
        "{\t\"__metadata__\" : {\r\n\"k\" : \"v\"\r\n, \"e\" : \"\\\"\\u0041\"\t\n, \"s\" : \" \"   } } ",
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        th_safetensors *f = th_safetensors_open(ctx, file_of(headers[i], strlen(headers[i]), 0));
        no_error();
        ck_assert_str_eq(th_safetensors_metadata(f, "k"), "v");
        ck_assert_str_eq(th_safetensors_metadata(f, "e"), "\"A");
        ck_assert_str_eq(th_safetensors_metadata(f, "s"), " ");
        th_safetensors_close(f);
    }
}
END_TEST

/* -- damage -- */

#define ENTRY(type, shape, offsets) "{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

START_TEST(a_header_is_what_the_format_says)
{
    static const struct {
        const char *header;
        size_t data;
        const char *words;
    } cases[] = {
        {"{}", 1, "its tensors take 0 bytes, but 1 follow"},
        {" {}", 0, "does not begin with {"},
        {"[]", 0, "does not begin with {"},
        {"{}x", 0, "byte 2: there is more text after the value"},
        {"{\"a\":1}", 0, "is not an object"},
        {"{\"a\":{}}", 0, "tensor \"a\": it must have dtype, shape, data_offsets, and nothing else"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4, "and nothing else"},
        {"{\"a\":" ENTRY("F31", "[1]", "[0,4]") "}", 4, "unknown type \"F31\""},
        {"{\"a\":" ENTRY("f32", "[1]", "[0,4]") "}", 4, "unknown type \"f32\""},
        {"{\"a\":{\"dtype\":1,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "it must have dtype"},
        {"{\"a\":" ENTRY("F32", "1", "[0,4]") "}", 4, "its shape is not a list"},
        {"{\"a\":" ENTRY("F32", "[1.0]", "[0,4]") "}", 4, "not a non-negative integer"},
        {"{\"a\":" ENTRY("F32", "[1e0]", "[0,4]") "}", 4, "not a non-negative integer"},
        {"{\"a\":" ENTRY("F32", "[-1]", "[0,4]") "}", 4, "not a non-negative integer"},
        {"{\"a\":" ENTRY("F32", "[-0]", "[0,0]") "}", 0, "the integer -0 is not supported"},
        {"{\"a\":" ENTRY("F32", "[\"1\"]", "[0,4]") "}", 4, "not a non-negative integer"},
        {"{\"a\":" ENTRY("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4, "9 dimensions, more than 8"},
        {"{\"a\":" ENTRY("F32", "[1]", "[0]") "}", 4, "not two integers"},
        {"{\"a\":" ENTRY("F32", "[1]", "[0,4,4]") "}", 4, "not two integers"},
        {"{\"a\":" ENTRY("F32", "[1]", "[0,4.0]") "}", 4, "not two integers"},
        {"{\"a\":" ENTRY("F32", "[1]", "{}") "}", 4, "not two integers"},
        {"{\"a\":" ENTRY("F32", "[1]", "[4,0]") "}", 4, "data_offsets 4 to 0 are outside the 4 bytes"},
        {"{\"a\":" ENTRY("F32", "[2]", "[0,8]") "}", 4, "data_offsets 0 to 8 are outside the 4 bytes"},
        {"{\"a\":" ENTRY("F32", "[1]", "[-4,0]") "}", 4, "data_offsets -4 to 0 are outside"},
        {"{\"a\":" ENTRY("F32", "[2]", "[0,4]") "}", 4, "takes 64 bits of F32, but its data_offsets span 4 bytes"},
        {"{\"a\":" ENTRY("F4", "[3]", "[0,1]") "}", 1, "takes 12 bits of F4"},
        {"{\"a\":" ENTRY("F32", "[4294967296,4294967296]", "[0,0]") "}", 0, "overflows"},
        {"{\"a\":" ENTRY("F32", "[4611686018427387904,0]", "[0,0]") "}", 0, "overflows"},
        {"{\"a\":" ENTRY("F32", "[99999999999999999999]", "[0,0]") "}", 0, "an integer is too large"},
        {"{\"a\":" ENTRY("F32", "[1]", "[0,4]") "}", 8, "its tensors take 4 bytes, but 8 follow"},
        {"{\"a\":" ENTRY("F32", "[1]", "[4,8]") "}", 8,
         "begins at byte 4 of the data, but the previous tensor ends at 0"},
        {"{\"a\":" ENTRY("F32", "[1]", "[0,4]") ",\"b\":" ENTRY("F32", "[1]", "[0,4]") "}", 4,
         "begins at byte 0 of the data, but the previous tensor ends at 4"},
        {"{\"a\":" ENTRY("F32", "[1]", "[0,4]") ",\"a\":" ENTRY("F32", "[1]", "[4,8]") "}", 8, "\"a\" appears twice"},
        {"{\"a\":" ENTRY("F32", "[1]", "[0,4]") ",\"\\u0061\":" ENTRY("F32", "[1]", "[4,8]") "}", 8,
         "\"a\" appears twice"},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
         "the key \"dtype\" occurs twice"},
        {"{\"a\\u0000b\":" ENTRY("F32", "[1]", "[0,4]") "}", 4, "\\u0000 is not allowed"},
        {"{\"__metadata__\":1}", 0, "its \"__metadata__\" is not an object"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "a value of its \"__metadata__\" is not a string"},
        {"{\"__metadata__\":{\"a\":\"b\",\"a\":\"b\"}}", 0, "the key \"a\" occurs twice"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "\"__metadata__\" appears twice"},
        {"{\"__metadata__\":{}]", 0, "a comma or a closing bracket is missing"},
        {"{\"\\u005f_metadata__\":{\"a\":\"b\"}}", 0, "contains escapes"},
        {"{\"\\u005f_metadata__\":" ENTRY("F32", "[1]", "[0,4]") "}", 4, "contains escapes"},
        {"{\"a\":[[[[]]]]}", 0, "nested too deeply"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_header_refused(cases[i].header, cases[i].data, cases[i].words);
}
END_TEST

START_TEST(a_header_has_a_sane_length)
{
    const char *path = in_folder("short");
    write_bytes(path, "\x02\0\0\0\0\0\0\0{}", 7);
    expect_refusal(path, "too short for a safetensors file");
    write_bytes(path, "\x03\0\0\0\0\0\0\0{}", 10);
    expect_refusal(path, "its header claims 3 bytes, but 2 follow");
    write_bytes(path, "\0\0\0\0\0\0\0\0{}", 10);
    expect_refusal(path, "its header claims 0 bytes");
    write_bytes(path, "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    expect_refusal(path, "claims 18446744073709551615 bytes");
    write_bytes(path, "\x01\0\0\x01\0\0\0\0{}", 10);
    ck_assert_int_eq(truncate(path, (1 << 24) + 100), 0);
    expect_refusal(path, "at most 16777216 are accepted");
    expect_refusal(in_folder("none"), "No such file");
    expect_refusal("/dev/null", "not a regular file");
    ck_assert_int_eq(mkfifo(in_folder("pipe"), 0600), 0);
    expect_refusal(in_folder("pipe"), "not a regular file");
    expect_refusal(folder, "neither model.safetensors nor model.safetensors.index.json");
    expect_failure(th_safetensors_open(ctx, NULL) == NULL, TH_ERROR_ARGUMENT, "the path is NULL");
}
END_TEST

/* Headers of 16 MiB: keys without end, deep nesting, a number of a hundred thousand digits. */
START_TEST(hostile_headers_take_little_time_and_memory)
{
    const size_t bytes = 1 << 24;
    char *header = malloc(bytes + 1), *at = header;
    *at++ = '{';
    for (int i = 0; i < 1000000; i++)
        at += sprintf(at, "\"%x\":{},", i);
    memcpy(at - 1, "}", 2);
    expect_header_refused(header, 0, "it must have dtype");
    at = header + sprintf(header, "{\"a\":{");
    for (int i = 0; i < 1000000; i++)
        at += sprintf(at, "\"%x\":{},", i);
    memcpy(at - 1, "}}", 3);
    expect_header_refused(header, 0, "\"a\": its description takes 10930097 bytes");
    memset(header, '[', bytes);
    memcpy(header, "{\"a\":", 5);
    header[bytes] = 0;
    expect_header_refused(header, 0, "nested too deeply");
    memset(header + 5, '1', 100000);
    header[100005] = 0;
    expect_header_refused(header, 0, "a number has more than 64 characters");
    free(header);
    ck_assert_uint_lt(memory.max, 192 << 20);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    ck_assert_int_lt(usage.ru_maxrss, 400 << 10); /* KiB; the test and the sanitizers use most of it */
}
END_TEST

/* -- several files -- */

static void write_one(const char *name, const char *tensor, double value)
{
    const th_named_tensor one = {tensor, th_full(ctx, TH_FLOAT32, TH_SHAPE(2), value)};
    ck_assert_int_eq(th_safetensors_write(ctx, in_folder(name), &one, 1, NULL, 0), TH_OK);
}

static void expect_index_refused(const char *index, const char *words)
{
    write_bytes(in_folder("model.safetensors.index.json"), index, strlen(index));
    expect_refusal(folder, words);
}

START_TEST(an_index_leads_to_several_files)
{
    write_one("one.safetensors", "a", 1);
    write_one("two.safetensors", "b", 2);
    const char *index = "{\"metadata\":{\"total_size\":16},\"weight_map\":{\"b\":\"two.safetensors\",\"a\":"
                        "\"one.safetensors\"}}";
    write_bytes(in_folder("model.safetensors.index.json"), index, strlen(index));
    for (int i = 0; i < 2; i++) {
        th_safetensors *f = th_safetensors_open(ctx, i ? folder : in_folder("model.safetensors.index.json"));
        no_error();
        ck_assert_int_eq(th_safetensors_count(f), 2);
        ck_assert_str_eq(th_safetensors_at(f, 0)->name, "b");
        ck_assert_double_eq(th_get(th_safetensors_read(f, "a"), TH_INDEX(0)), 1);
        ck_assert_double_eq(th_get(th_safetensors_read(f, "b"), TH_INDEX(1)), 2);
        th_safetensors_close(f);
    }
    expect_index_refused("{\"weight_map\":{\"a\":\"../one.safetensors\"}}",
                         "\"../one.safetensors\" is not the name of a file");
    expect_index_refused("{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "is not the name of a file in");
    expect_index_refused("{\"weight_map\":{\"a\":\"..\"}}", "is not the name of a file in");
    expect_index_refused("{\"weight_map\":{\"a\":\"\"}}", "is not the name of a file in");
    expect_index_refused("{\"weight_map\":{\"a\":1}}", "\"a\" has no file name");
    expect_index_refused("{\"weight_map\":{\"a\":\"three.safetensors\"}}", "No such file");
    expect_index_refused("{\"weight_map\":{\"b\":\"one.safetensors\"}}", "\"b\" is not in the file");
    expect_index_refused("{\"weight_map\":[]}", "is not an object");
    expect_index_refused("{\"weight_map\":{},\"weight_map\":{}}", "occurs twice");
    expect_index_refused("{}", "\"weight_map\" is missing");
    expect_index_refused("[]", "\"weight_map\" is missing");
    expect_index_refused("{\"\\u0077eight_map\":{\"a\":\"one.safetensors\"}}", "\"weight_map\" is missing");
    expect_index_refused(" {\"weight_map\":{\"a\":\"one.safetensors\"}}", "\"weight_map\" is missing");
    expect_index_refused("", "it is empty");
    write_one("model.safetensors", "c", 3); /* is preferred to the index */
    ck_assert_ptr_nonnull(th_safetensors_find(th_safetensors_open(ctx, folder), "c"));
}
END_TEST

/* Returns the memory that a refused index with this many names takes. All names are of a file that does not exist. */
static size_t taken_by_index(int names)
{
    char *index = malloc((size_t)names * 16 + 64), *at = index + sprintf(index, "{\"weight_map\":{");
    for (int i = 0; i < names; i++)
        at += sprintf(at, "%s\"%x\":\"f\"", i ? "," : "", i);
    strcpy(at, "}}");
    const size_t before = memory.bytes;
    memory.max = before;
    expect_index_refused(index, "/f: No such file");
    free(index);
    return memory.max - before;
}

/* Beyond 4096 files, each name takes memory for itself only, not for a file of its own. */
START_TEST(an_index_has_a_limit_of_files)
{
    const size_t few = taken_by_index(4200), many = taken_by_index(8000);
    ck_assert_uint_lt(many - few, 3800 * sizeof(th_safetensors_file) * 3 / 4);
}
END_TEST

START_TEST(memory_may_run_out_anywhere)
{
    write_one("one.safetensors", "a", 1);
    const th_named_tensor one = {"a", th_full(ctx, TH_FLOAT32, TH_SHAPE(2), 2)};
    bool opened = false;
    for (int64_t after = 1; !opened; after++) {
        memory.fail_at = memory.calls + after;
        th_safetensors *f = th_safetensors_open(ctx, in_folder("one.safetensors"));
        opened = f != NULL;
        memory.fail_at = 0;
        if (opened)
            th_safetensors_close(f);
        else
            expect_failure(true, TH_ERROR_MEMORY, "safetensors_open: ");
    }
    for (int64_t after = 1, written = 0; !written; after++) {
        memory.fail_at = memory.calls + after;
        written = th_safetensors_write(ctx, in_folder("two"), &one, 1, NULL, 0) == TH_OK;
        memory.fail_at = 0;
        if (!written)
            expect_error(TH_ERROR_MEMORY, "safetensors_write: ");
    }
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("safetensors", setup, teardown);
    tcase_add_test(tests, what_is_written_is_read);
    tcase_add_test(tests, large_tensors_are_converted_in_pieces);
    tcase_add_test(tests, nothing_at_all_can_be_written);
    tcase_add_test(tests, what_cannot_be_written_is_named);
    tcase_add_test(tests, types_of_others_are_converted);
    tcase_add_test(tests, a_tensor_takes_what_fits_it);
    tcase_add_test(tests, types_without_an_equal_here_are_not_read);
    tcase_add_test(tests, a_conversion_ends_after_its_elements);
    tcase_add_test(tests, metadata_is_the_same_however_a_header_is_laid_out);
    tcase_add_test(tests, a_header_is_what_the_format_says);
    tcase_add_test(tests, a_header_has_a_sane_length);
    tcase_add_test(tests, hostile_headers_take_little_time_and_memory);
    tcase_add_test(tests, an_index_leads_to_several_files);
    tcase_add_test(tests, an_index_has_a_limit_of_files);
    tcase_add_test(tests, memory_may_run_out_anywhere);
    return run_suites();
}
