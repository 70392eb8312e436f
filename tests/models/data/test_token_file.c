/* Token files: written files can be read, for both widths and any length. A file that is cut, longer, or has any
 * bit changed is rejected. Nothing appears before it is complete. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tapehead/models.h"

#include "kernels/machine/crc32c.h"
#include "memory.h"
#include "models/data/token_file.h"

#include "context.h"
#include "folder.h"

static char path[96];
static test_memory memory;

static void setup(void)
{
    memory = (test_memory){0};
    ctx = th_context_new(&(th_context_options){.threads = 1, .allocator = allocator_of(&memory)});
    make_folder();
    strcpy(path, in_folder("text.tokens"));
}

static void teardown(void)
{
    close_context();
    ck_assert_uint_eq(memory.bytes, 0);
    unlink(path);
    ck_assert_int_eq(rmdir(folder), 0); /* nothing else was left in it */
}

/* Returns token i of these files. */
static int32_t token_at(int64_t i, int64_t vocabulary)
{
    return (int32_t)((uint64_t)i * UINT64_C(2654435761) % (uint64_t)vocabulary);
}

/* Writes a file of `count` tokens, `piece` at a time. */
static void write_tokens(int64_t count, int64_t vocabulary, int64_t piece)
{
    int32_t *tokens = malloc((size_t)count * sizeof *tokens + 1);
    for (int64_t i = 0; i < count; i++)
        tokens[i] = token_at(i, vocabulary);
    th_token_writer *writer = th_token_writer_open(ctx, path, vocabulary);
    for (int64_t i = 0; i < count; i += piece)
        ck_assert_int_eq(th_token_writer_append(writer, tokens + i, count - i < piece ? count - i : piece), TH_OK);
    ck_assert_int_ne(access(path, F_OK), 0); /* not there before it is complete */
    ck_assert_int_eq(th_token_writer_close(writer), TH_OK);
    free(tokens);
}

static void check_tokens(th_token_file *file, int64_t begin, int64_t count)
{
    int32_t *tokens = malloc((size_t)count * sizeof *tokens + 1);
    ck_assert_int_eq(th_token_file_read(file, begin, count, tokens), TH_OK);
    int64_t wrong = 0;
    for (int64_t i = 0; i < count; i++)
        wrong += tokens[i] != token_at(begin + i, th_token_file_vocabulary(file));
    ck_assert_int_eq(wrong, 0);
    free(tokens);
}

START_TEST(round_trips)
{
    const struct {
        int64_t count, vocabulary, piece, bytes;
    } files[] = {
        {0, 10, 1, 64},
        {1, 1, 1, 64 + 2 + 4},
        {1000, 65, 7, 64 + 2000 + 4},
        {1000, 65536, 1000, 64 + 2000 + 4},
        {1000, 65537, 1000, 64 + 4000 + 4},
        {524288, 300, 524288, 64 + 1048576 + 4}, /* exactly a block */
        {524289, 300, 100000, 64 + 1048578 + 8},
        {600000, (int64_t)1 << 31, 33333, 64 + 2400000 + 12},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        write_tokens(files[i].count, files[i].vocabulary, files[i].piece);
        struct stat status;
        ck_assert_int_eq(stat(path, &status), 0);
        ck_assert_int_eq(status.st_size, files[i].bytes);
        for (int when_used = 0; when_used < 2; when_used++) {
            const th_token_file_options options = {.check_when_used = when_used};
            th_token_file *file = th_token_file_open(ctx, path, &options);
            no_error();
            ck_assert_int_eq(th_token_file_count(file), files[i].count);
            ck_assert_int_eq(th_token_file_vocabulary(file), files[i].vocabulary);
            check_tokens(file, 0, files[i].count);
            check_tokens(file, files[i].count / 2, files[i].count - files[i].count / 2);
            check_tokens(file, files[i].count, 0);
            th_token_file_close(file);
        }
        unlink(path);
    }
}
END_TEST

static void refused(const char *words)
{
    assert_error(th_token_file_open(ctx, path, NULL), TH_ERROR_FILE, words);
}

START_TEST(every_damage_is_found)
{
    write_tokens(20, 65, 20);
    size_t size;
    unsigned char *bytes = (unsigned char *)read_bytes(path, &size);
    for (size_t n = 0; n < size; n++) {
        write_bytes(path, bytes, n);
        refused(n < 64 ? "too short" : "cut short");
    }
    bytes[size] = 0;
    write_bytes(path, bytes, size + 1);
    refused("longer than it should be");
    for (size_t bit = 0; bit < 8 * size; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        write_bytes(path, bytes, size);
        refused(bit < 64       ? "not a token file"
                : bit < 8 * 64 ? "its header is damaged"
                               : "the checksum of tokens 0 to 19 is wrong");
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    write_bytes(path, bytes, size);
    th_token_file_close(th_token_file_open(ctx, path, NULL));
    free(bytes);
}
END_TEST

/* Each block has a checksum. Damage is found when the block is first used. */
START_TEST(damage_is_found_when_used)
{
    write_tokens(1500000, 50257, 1 << 20);
    size_t size;
    unsigned char *bytes = (unsigned char *)read_bytes(path, &size);
    bytes[64 + (1 << 20) + 10] ^= 4; /* in the second block */
    write_bytes(path, bytes, size);
    refused("is damaged: the checksum of tokens 524288 to 1048575 is wrong");
    th_token_file *file = th_token_file_open(ctx, path, &(th_token_file_options){.check_when_used = true});
    no_error();
    check_tokens(file, 0, 524288);
    check_tokens(file, 1048576, 1000);
    int32_t tokens[2];
    expect_status(th_token_file_read(file, 524287, 2, tokens), TH_ERROR_FILE, "tokens 524288 to 1048575");
    expect_status(th_token_file_read(file, 1048575, 1, tokens), TH_ERROR_FILE, "tokens 524288 to 1048575");
    free(bytes);
}
END_TEST

/* Headers with a correct checksum and invalid contents. */
START_TEST(hostile_headers)
{
    const struct {
        int64_t at, value;
        const char *sentence;
    } files[] = {
        {8, 3, "its format version is neither 1 nor 2"},
        {12, 4, "do not match"},
        {24, 0, "do not match"},
        {24, ((int64_t)1 << 31) + 1, "do not match"},
        {32, 1, "has fields that versions 1"},
        {56, 1, "has fields that versions 1"},
        {24, -1, "do not match"},
        {24, 70000, "do not match"},
        {24, (int64_t)1 << 32, "do not match"},
        {16, -1, "number of tokens in its header is impossible"},
        {16, INT64_MAX, "number of tokens in its header is impossible"},
        {16, INT64_MAX / 8 + 1, "number of tokens in its header is impossible"},
        {16, INT64_MAX / 8, "cut short"},
        {16, 101, "cut short"},
        {16, 99, "longer than it should be"},
        {40, 1, "has fields that versions 1"},
        {24, 10, "token 1 is outside its vocabulary of 10"},
    };
    write_tokens(100, 65, 100);
    size_t size;
    unsigned char *bytes = (unsigned char *)read_bytes(path, &size);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        unsigned char changed[64];
        memcpy(changed, bytes, 64);
        memcpy(changed + files[i].at, &files[i].value, files[i].at < 16 ? 4 : 8);
        const uint32_t crc = th_crc32c(0, changed, 60);
        memcpy(changed + 60, &crc, 4);
        write_bytes(path, bytes, size);
        FILE *file = fopen(path, "r+b");
        ck_assert(file && fwrite(changed, 1, 64, file) == 64 && fclose(file) == 0);
        refused(files[i].sentence);
    }
    free(bytes);
    unlink(path);
    refused("No such file");
    ck_assert_int_eq(mkdir(path, 0700), 0);
    refused("not a regular file");
    rmdir(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    refused("not a regular file");
}
END_TEST

/* A file that does not open keeps no memory, and neither does one that was closed. */
START_TEST(closing_releases_everything)
{
    write_tokens(20, 65, 20);
    size_t size;
    char *bytes = read_bytes(path, &size);
    const size_t before = memory.bytes;
    for (int i = 0; i < 2; i++) {
        th_token_file *file = th_token_file_open(ctx, path, NULL);
        ck_assert_uint_gt(memory.bytes, before);
        th_windows *windows = i ? th_windows_new(file, &(th_windows_options){.length = 8}) : NULL;
        no_error();
        th_token_file_close(file);
        if (windows) /* they hold the file */
            ck_assert_uint_gt(memory.bytes, before);
        th_windows_free(windows);
        ck_assert_uint_eq(memory.bytes, before);
    }
    write_bytes(path, bytes, size - 1);
    refused("20 tokens take 108 bytes, but it has 107: it is cut short");
    ck_assert_uint_eq(memory.bytes, before);
    bytes[70] ^= 1;
    write_bytes(path, bytes, size);
    refused("the checksum of tokens 0 to 19 is wrong");
    ck_assert_uint_eq(memory.bytes, before);
    unlink(path);
    refused("No such file");
    ck_assert_uint_eq(memory.bytes, before);
    free(bytes);
}
END_TEST

/* The checksum of a block is verified once, not at each use. */
START_TEST(a_block_is_verified_once)
{
    int32_t tokens[2];
    for (int when_used = 0; when_used < 2; when_used++) {
        write_tokens(20, 65, 20);
        th_token_file *file = th_token_file_open(ctx, path, &(th_token_file_options){.check_when_used = when_used});
        ck_assert_int_eq(th_token_file_read(file, 0, 2, tokens), TH_OK);
        FILE *other = fopen(path, "r+b");
        ck_assert(other && fseek(other, 64, SEEK_SET) == 0 && fputc(tokens[0] ^ 1, other) != EOF);
        ck_assert_int_eq(fclose(other), 0);
        ck_assert_int_eq(th_token_file_read(file, 0, 2, tokens), TH_OK);
        ck_assert_int_eq(tokens[0], token_at(0, 65) ^ 1);
        th_token_file_close(file);
        unlink(path);
    }
}
END_TEST

/* The list of checksums grows several times. */
START_TEST(a_file_may_have_many_blocks)
{
    const int64_t count = 10 * (1 << 19) + 1;
    write_tokens(count, 300, 1 << 20);
    th_token_file *file = th_token_file_open(ctx, path, NULL);
    no_error();
    check_tokens(file, 0, count);
}
END_TEST

/* Writes a file with this vocabulary in its header, whose checksum is correct. All its tokens are 0, except one. */
static void write_one_token(int64_t count, int64_t at, int64_t token, int64_t vocabulary)
{
    int32_t *tokens = calloc((size_t)count, sizeof *tokens);
    tokens[at] = (int32_t)token;
    th_token_writer *writer = th_token_writer_open(ctx, path, token + 1);
    ck_assert_int_eq(th_token_writer_append(writer, tokens, count), TH_OK);
    ck_assert_int_eq(th_token_writer_close(writer), TH_OK);
    free(tokens);
    unsigned char header[64];
    FILE *file = fopen(path, "r+b");
    ck_assert(file && fread(header, 1, sizeof header, file) == sizeof header);
    memcpy(header + 24, &vocabulary, sizeof vocabulary);
    const uint32_t crc = th_crc32c(0, header, 60);
    memcpy(header + 60, &crc, sizeof crc);
    rewind(file);
    ck_assert(fwrite(header, 1, sizeof header, file) == sizeof header && fclose(file) == 0);
}

/* The vocabulary is the first number that is no token, wherever that stands. */
START_TEST(a_token_equal_to_the_vocabulary_is_an_error)
{
    static const int64_t tokens[] = {1, 64, 65535, 65537, 100000}, places[] = {0, 1, 1023, 1024, 1025, 2999, 524289};
    char words[96];
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        for (size_t j = 0; j < sizeof places / sizeof *places; j++) {
            const int64_t count = places[j] < 3000 ? 3000 : places[j] + 1, token = tokens[i];
            write_one_token(count, places[j], token, token);
            snprintf(words, sizeof words, "token %d is outside its vocabulary of %d", (int)places[j], (int)token);
            refused(words);
            int32_t read[2];
            th_token_file *file = th_token_file_open(ctx, path, &(th_token_file_options){.check_when_used = true});
            no_error();
            expect_status(th_token_file_read(file, places[j], 1, read), TH_ERROR_FILE, words);
            th_token_file_close(file);
            write_one_token(count, places[j], token, token + 1);
            file = th_token_file_open(ctx, path, NULL);
            ck_assert_int_eq(th_token_file_read(file, places[j], 1, read), TH_OK);
            ck_assert_int_eq(read[0], token);
            ck_assert_int_eq(th_token_file_vocabulary(file), token + 1);
            th_token_file_close(file);
        }
}
END_TEST

START_TEST(wrong_arguments)
{
    assert_error(th_token_writer_open(ctx, NULL, 5), TH_ERROR_ARGUMENT, "needs a path and a vocabulary");
    assert_error(th_token_writer_open(ctx, path, 0), TH_ERROR_ARGUMENT, "not 0");
    assert_error(th_token_writer_open(ctx, path, ((int64_t)1 << 31) + 1), TH_ERROR_ARGUMENT, "not 2147483649");
    char longest[5000];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    char too_long[100];
    snprintf(too_long, sizeof too_long, "aaa: %s", strerror(ENAMETOOLONG));
    assert_error(th_token_writer_open(ctx, longest, 5), TH_ERROR_FILE, too_long);
    assert_error(th_token_writer_open(ctx, "/nonexistent/x", 5), TH_ERROR_FILE, "No such file");
    assert_error(th_token_file_open(ctx, NULL, NULL), TH_ERROR_ARGUMENT, "the path is NULL");
    expect_status(th_token_writer_append(NULL, NULL, 0), TH_ERROR_ARGUMENT, "token_writer: the writer is NULL");
    expect_status(th_token_writer_close(NULL), TH_ERROR_ARGUMENT, "token_writer: the writer is NULL");
    expect_status(th_token_file_read(NULL, 0, 0, NULL), TH_ERROR_ARGUMENT, "token_file: needs a file");
    const int32_t strangers[] = {4, 5, -1};
    for (int i = 1; i < 3; i++) {
        th_token_writer *writer = th_token_writer_open(ctx, path, 5);
        ck_assert_int_eq(th_token_writer_append(writer, strangers, 1), TH_OK);
        expect_status(th_token_writer_append(writer, strangers + i, 1), TH_ERROR_INDEX,
                      i == 1 ? "text.tokens is 5, outside a vocabulary of 5" : "is -1");
        expect_status(th_token_writer_append(writer, strangers, 1), TH_ERROR_ARGUMENT, "an earlier call failed");
        expect_status(th_token_writer_close(writer), TH_ERROR_STATE, "is incomplete");
        ck_assert_int_ne(access(path, F_OK), 0);
    }
    th_token_writer *writer = th_token_writer_open(ctx, path, 5);
    expect_status(th_token_writer_append(writer, NULL, 1), TH_ERROR_ARGUMENT, "the tokens are NULL");
    expect_status(th_token_writer_append(writer, strangers, -1), TH_ERROR_ARGUMENT, "the tokens are NULL");
    th_token_writer_free(writer);
    th_token_writer_free(NULL);
    write_tokens(100, 65, 100);
    th_token_file *file = th_token_file_open(ctx, path, NULL);
    int32_t tokens[2];
    expect_status(th_token_file_read(file, 99, 2, tokens), TH_ERROR_INDEX, "2 tokens starting at token 99 are outside");
    expect_status(th_token_file_read(file, -1, 2, tokens), TH_ERROR_INDEX, "starting at token -1");
    expect_status(th_token_file_read(file, 1, INT64_MAX, tokens), TH_ERROR_INDEX, "outside");
    expect_status(th_token_file_read(file, 0, 1, NULL), TH_ERROR_ARGUMENT, "needs a file and a buffer");
    th_token_file_close(file);
    th_token_file_close(NULL);
    ck_assert_int_eq(th_token_file_count(NULL), 0);
    ck_assert_int_eq(th_token_file_vocabulary(NULL), 0);
}
END_TEST

/* The old file stays if the disk is full, and if a writer is not closed. */
START_TEST(the_old_file_stays)
{
    write_tokens(100, 65, 100);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 100000;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    static int32_t zeros[200000];
    th_token_writer *writer = th_token_writer_open(ctx, path, 65);
    th_status status = th_token_writer_append(writer, zeros, 200000);
    status = status == TH_OK ? th_token_writer_close(writer) : status;
    limit.rlim_cur = before;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    expect_status(status, TH_ERROR_FILE, "text.tokens: File too large");
    expect_status(th_token_writer_append(writer, zeros, 1), TH_ERROR_ARGUMENT, "an earlier call failed");
    expect_status(th_token_writer_close(writer), TH_ERROR_STATE, "text.tokens is incomplete: an earlier call failed");
    writer = th_token_writer_open(ctx, path, 65); /* the context closes it */
    ck_assert_int_eq(th_token_writer_append(writer, zeros, 10), TH_OK);
    th_token_file *file = th_token_file_open(ctx, path, NULL);
    ck_assert_int_eq(th_token_file_count(file), 100);
    check_tokens(file, 0, 100);
}
END_TEST

START_TEST(out_of_memory)
{
    write_tokens(1000000, 65, 1 << 19);
    for (int64_t after = 1;; after++) {
        memory.fail_at = memory.calls + after;
        th_token_file *file = th_token_file_open(ctx, path, NULL);
        th_windows *windows = th_windows_new(file, &(th_windows_options){.length = 8});
        th_token_writer *writer = windows ? th_token_writer_open(ctx, path, 65) : NULL;
        memory.fail_at = 0;
        if (file == NULL || windows == NULL || writer == NULL)
            expect_error(TH_ERROR_MEMORY, "memory");
        th_windows_free(windows);
        th_token_file_close(file);
        th_token_writer_free(writer);
        if (writer)
            break;
        ck_assert_int_lt(after, 50);
    }
}
END_TEST

/* After an error, every call returns it, and a writer that has failed stays failed. */
START_TEST(errors_stay)
{
    static int32_t zeros[1 << 20];
    write_tokens(100, 65, 100);
    th_token_file *file = th_token_file_open(ctx, path, NULL);
    th_token_writer *writer = th_token_writer_open(ctx, path, 65);
    th_reshape(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2)), TH_SHAPE(3));
    int32_t token;
    ck_assert_int_eq(th_token_file_read(file, 0, 1, &token), TH_ERROR_SHAPE);
    ck_assert_int_eq(th_token_writer_append(writer, zeros, 1), TH_ERROR_SHAPE);
    ck_assert(th_token_file_open(ctx, path, NULL) == NULL && th_token_writer_open(ctx, path, 65) == NULL);
    ck_assert_int_eq(th_token_writer_close(writer), TH_ERROR_SHAPE);
    expect_error(TH_ERROR_SHAPE, "reshape");
    check_tokens(file, 0, 100); /* the file is the old one */
    writer = th_token_writer_open(ctx, path, 65);
    for (int i = 0; i < 2; i++) /* 4 blocks */
        ck_assert_int_eq(th_token_writer_append(writer, zeros, 1 << 20), TH_OK);
    run_out(&memory);
    expect_status(th_token_writer_append(writer, zeros, 1), TH_ERROR_MEMORY, "token_writer: ");
    memory.fail_at = 0;
    expect_status(th_token_writer_append(writer, zeros, 1), TH_ERROR_ARGUMENT, "an earlier call failed");
    expect_status(th_token_writer_close(writer), TH_ERROR_STATE, "is incomplete");
    expect_failure(th_token_file_open(NULL, path, NULL) == NULL, TH_ERROR_ARGUMENT, "the context is NULL");
    expect_failure(th_token_writer_open(NULL, path, 65) == NULL, TH_ERROR_ARGUMENT, "the context is NULL");
    expect_status(th_token_file_read(file, 101, 0, zeros), TH_ERROR_INDEX, "0 tokens starting at token 101");
    expect_status(th_token_file_read(file, 0, -1, zeros), TH_ERROR_INDEX, "-1 tokens starting at token 0");
    th_token_writer *full = th_token_writer_open(ctx, "/dev/full", 65);
    expect_status(th_token_writer_close(full), TH_ERROR_FILE, "/dev/full: No space left on device");
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("token_file", setup, teardown);
    tcase_add_test(tests, round_trips);
    tcase_add_test(tests, every_damage_is_found);
    tcase_add_test(tests, damage_is_found_when_used);
    tcase_add_test(tests, hostile_headers);
    tcase_add_test(tests, closing_releases_everything);
    tcase_add_test(tests, a_block_is_verified_once);
    tcase_add_test(tests, a_file_may_have_many_blocks);
    tcase_add_test(tests, a_token_equal_to_the_vocabulary_is_an_error);
    tcase_add_test(tests, wrong_arguments);
    tcase_add_test(tests, the_old_file_stays);
    tcase_add_test(tests, out_of_memory);
    tcase_add_test(tests, errors_stay);
    return run_suites();
}
