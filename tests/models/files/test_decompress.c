/* Decompression of gzip and zstd: several parts, damage at every byte, data that becomes too large. A build without one of
 * the libraries says so; then only this sentence is tested. */
#include <stdlib.h>
#include <string.h>

#include "tapehead/models.h"

#include "context.h"

static const char words[] = "a few words, a few words, a few words\n";
static const unsigned char gzip[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x4b, 0x54, 0x48,
                                     0x4b, 0x2d, 0x57, 0x28, 0xcf, 0x2f, 0x4a, 0x29, 0xd6, 0x51, 0x48, 0xc4, 0xc1,
                                     0xe1, 0x02, 0x00, 0x01, 0x80, 0x42, 0x27, 0x26, 0x00, 0x00, 0x00};
static const unsigned char zstd[] = {0x28, 0xb5, 0x2f, 0xfd, 0x24, 0x26, 0xa5, 0x00, 0x00, 0x70, 0x61,
                                     0x20, 0x66, 0x65, 0x77, 0x20, 0x77, 0x6f, 0x72, 0x64, 0x73, 0x2c,
                                     0x20, 0x0a, 0x01, 0x00, 0x00, 0xce, 0x2f, 0x7e, 0x9b, 0xf9, 0x4a};

static const struct {
    const char *name;
    const unsigned char *bytes;
    size_t count;
    size_t fixed; /* bytes at the beginning that damage changes */
} samples[] = {{"gzip", gzip, sizeof gzip, 4}, {"zstd", zstd, sizeof zstd, 4}};
enum { SAMPLES = sizeof samples / sizeof *samples };

typedef struct text {
    char bytes[1000];
    size_t count, most;
} text;

/* Collects the result, and ends the call after `most` bytes. */
static bool collect(void *user, const void *bytes, size_t count)
{
    text *to = user;
    ck_assert_uint_le(to->count + count, sizeof to->bytes);
    memcpy(to->bytes + to->count, bytes, count);
    to->count += count;
    return to->count < to->most;
}

static bool forget(void *user, const void *bytes, size_t count)
{
    ck_assert_ptr_nonnull(bytes);
    *(size_t *)user += count;
    return true;
}

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.threads = 1});
}

/* Whether this build has the library. */
static bool is_built(int i)
{
    text result = {.most = sizeof result.bytes};
    if (th_decompress(ctx, "it", samples[i].bytes, samples[i].count, collect, &result) == TH_OK)
        return true;
    expect_status(th_error_code(ctx), TH_ERROR_FILE, "and this library was built without ");
    return false;
}

START_TEST(parts_in_a_row)
{
    for (int i = 0; i < SAMPLES; i++) {
        unsigned char several[200];
        ck_assert_str_eq(th_compression_name(samples[i].bytes, samples[i].count), samples[i].name);
        for (size_t parts = 1; parts <= 3 && is_built(i); parts++) {
            text result = {.most = sizeof result.bytes};
            memcpy(several + (parts - 1) * samples[i].count, samples[i].bytes, samples[i].count);
            ck_assert_int_eq(th_decompress(ctx, "it", several, parts * samples[i].count, collect, &result), TH_OK);
            ck_assert_uint_eq(result.count, parts * (sizeof words - 1));
            for (size_t part = 0; part < parts; part++)
                ck_assert_mem_eq(result.bytes + part * (sizeof words - 1), words, sizeof words - 1);
        }
    }
}
END_TEST

START_TEST(the_sink_ends_it)
{
    for (int i = 0; i < SAMPLES; i++) {
        text result = {.most = 1};
        if (is_built(i))
            ck_assert_int_eq(th_decompress(ctx, "it", samples[i].bytes, samples[i].count - 1, collect, &result), TH_OK);
    }
}
END_TEST

START_TEST(cut_at_every_byte)
{
    for (int i = 0; i < SAMPLES; i++)
        for (size_t count = samples[i].fixed; count < samples[i].count && is_built(i); count++) {
            text result = {.most = sizeof result.bytes};
            unsigned char *copy = malloc(count); /* of exact size, for the sanitizers */
            memcpy(copy, samples[i].bytes, count);
            expect_status(th_decompress(ctx, "it", copy, count, collect, &result), TH_ERROR_FILE,
                          "decompress: it: the file ends within its compressed data");
            free(copy);
        }
}
END_TEST

START_TEST(damage_at_every_byte)
{
    for (int i = 0; i < SAMPLES; i++)
        for (size_t at = samples[i].fixed; at < samples[i].count && is_built(i); at++) {
            unsigned char damaged[100];
            text result = {.most = sizeof result.bytes};
            memcpy(damaged, samples[i].bytes, samples[i].count);
            damaged[at] = (unsigned char)~damaged[at];
            const th_status status = th_decompress(ctx, "it", damaged, samples[i].count, collect, &result);
            /* the time, the level and the system in the header of gzip do not matter */
            if (status == TH_OK)
                ck_assert(i == 0 && at < 10 && result.count == sizeof words - 1);
            else
                expect_status(status, TH_ERROR_FILE, "decompress: it: ");
        }
}
END_TEST

START_TEST(text_after_the_end)
{
    for (int i = 0; i < SAMPLES; i++) {
        unsigned char more[100];
        text result = {.most = sizeof result.bytes};
        if (!is_built(i))
            continue;
        memcpy(more, samples[i].bytes, samples[i].count);
        memcpy(more + samples[i].count, "more text", 9);
        expect_status(th_decompress(ctx, "it", more, samples[i].count + 9, collect, &result), TH_ERROR_FILE, "damaged");
    }
}
END_TEST

/* Blocks of equal bytes: 4 bytes become 128 KiB. */
START_TEST(too_large)
{
    enum { BLOCKS = 2200, BLOCK = 128 << 10, HEADER = 6 };
    static unsigned char bomb[HEADER + 4 * BLOCKS] = {0x28, 0xb5, 0x2f, 0xfd, 0, 7 << 3};
    size_t count = 0;
    for (int i = 0; i < BLOCKS; i++) {
        const unsigned header = (unsigned)(i == BLOCKS - 1) | 1u << 1 | (unsigned)BLOCK << 3;
        for (int byte = 0; byte < 3; byte++)
            bomb[HEADER + 4 * i + byte] = (unsigned char)(header >> 8 * byte);
    }
    if (!is_built(1))
        return;
    expect_status(th_decompress(ctx, "it", bomb, sizeof bomb, forget, &count), TH_ERROR_FILE,
                  "decompress: it: its 8806 bytes become more than 270196656; decompress it yourself");
    ck_assert_uint_le(count, (256u << 20) + 200 * sizeof bomb);
}
END_TEST

START_TEST(wrong_arguments)
{
    size_t count = 0;
    ck_assert_ptr_null(th_compression_name(NULL, 0));
    ck_assert_ptr_null(th_compression_name("\x1f", 1));
    ck_assert_ptr_null(th_compression_name("(\xb5/", 3));
    ck_assert_ptr_null(th_compression_name("text", 4));
    ck_assert_int_eq(th_decompress(NULL, "it", gzip, sizeof gzip, forget, &count), TH_ERROR_ARGUMENT);
    th_error_clear(ctx);
    expect_status(th_decompress(ctx, "it", NULL, 0, forget, &count), TH_ERROR_ARGUMENT,
                  "decompress: the bytes are NULL");
    expect_status(th_decompress(ctx, "it", gzip, sizeof gzip, NULL, NULL), TH_ERROR_ARGUMENT,
                  "decompress: sink is NULL");
    expect_status(th_decompress(ctx, NULL, "text", 4, forget, &count), TH_ERROR_FILE,
                  "decompress: the data: neither gzip nor zstd has compressed it");
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("decompress", setup, close_context);
    tcase_add_test(tests, parts_in_a_row);
    tcase_add_test(tests, the_sink_ends_it);
    tcase_add_test(tests, cut_at_every_byte);
    tcase_add_test(tests, damage_at_every_byte);
    tcase_add_test(tests, text_after_the_end);
    tcase_add_test(tests, too_large);
    tcase_add_test(tests, wrong_arguments);
    return run_suites();
}
