/* Fuzz target: token files. The mutator repairs sizes and checksums. A file that is accepted has only tokens of its
 * vocabulary, is the same when it is written again, and its windows have its tokens in order. */
#include "models/data/token_file.h"

#include "fuzz.h"

enum { MAX_TOKENS = 1 << 16, LENGTH = 5, BATCH = 2 };

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    enum { AT_WIDTH = 12, AT_COUNT = 16, AT_CHECKSUM = TH_TOKEN_HEADER - 4 };
    size = LLVMFuzzerMutate(data, size, max_size);
    if (seed % 16 == 0 || size < TH_TOKEN_HEADER + 4)
        return size;
    uint32_t width;
    memcpy(&width, data + AT_WIDTH, sizeof width);
    if (seed % 16 > 4 && (width == 2 || width == 4)) { /* the count that the size allows */
        const int64_t count = (int64_t)((size - TH_TOKEN_HEADER - 4) / width);
        memcpy(data + AT_COUNT, &count, sizeof count);
        size = TH_TOKEN_HEADER + (size_t)count * width + (count > 0 ? 4 : 0);
    }
    const uint32_t header = th_crc32c(0, data, AT_CHECKSUM);
    memcpy(data + AT_CHECKSUM, &header, sizeof header);
    if (size >= TH_TOKEN_HEADER + 4 && seed % 16 != 1) {
        const uint32_t tokens = th_crc32c(0, data + TH_TOKEN_HEADER, size - TH_TOKEN_HEADER - 4);
        memcpy(data + size - 4, &tokens, sizeof tokens);
    }
    return size;
}

static void write_again(th_context *ctx, const th_token_file *file, const int32_t *tokens, const char *original)
{
    const int64_t count = th_token_file_count(file);
    size_t bytes;
    th_token_writer *writer = th_token_writer_open(ctx, fuzz_path("b.tokens"), th_token_file_vocabulary(file));
    FUZZ_CHECK(writer && th_token_writer_append(writer, tokens, count / 3) == TH_OK &&
                   th_token_writer_append(writer, tokens + count / 3, count - count / 3) == TH_OK &&
                   th_token_writer_close(writer) == TH_OK,
               "%s", th_error_message(ctx));
    char *written = fuzz_read(fuzz_path("b.tokens"), &bytes);
    fuzz_check_file(original, written, bytes);
    free(written);
}

/* In order, the targets of all windows are the tokens from the second on. */
static void check_order(th_context *ctx, th_token_file *file, const int32_t *tokens, bool shuffle)
{
    th_tensor *in = th_zeros(ctx, TH_INT32, TH_SHAPE(BATCH, LENGTH));
    th_tensor *out = th_zeros(ctx, TH_INT32, TH_SHAPE(BATCH, LENGTH));
    th_windows *windows = th_windows_new(file, &(th_windows_options){.length = LENGTH, .shuffle = shuffle, .seed = 7});
    if (fuzz_failed_with(ctx, windows == NULL, TH_ERROR_ARGUMENT))
        return;
    const int64_t all = th_windows_targets(windows);
    int64_t seen = 0;
    while (seen < all && th_windows_next(windows, in, out) == TH_OK)
        for (int i = 0; i < BATCH * LENGTH; i++) {
            const int32_t target = ((const int32_t *)th_data_const(out))[i];
            FUZZ_CHECK(shuffle || target == TH_NO_TARGET || target == tokens[seen + 1], "target %lld is wrong",
                       (long long)seen);
            seen += target != TH_NO_TARGET;
        }
    FUZZ_CHECK(seen >= all, "%lld targets instead of %lld: %s", (long long)seen, (long long)all, th_error_message(ctx));
    th_windows_free(windows);
}

static void check_tokens(th_context *ctx, th_token_file *file, const char *path)
{
    const int64_t count = th_token_file_count(file);
    int32_t *tokens = malloc(((size_t)count + 1) * sizeof *tokens), again;
    FUZZ_CHECK(tokens && th_token_file_read(file, 0, count, tokens) == TH_OK, "%s", th_error_message(ctx));
    for (int64_t i = 0; i < count; i++)
        FUZZ_CHECK(tokens[i] >= 0 && tokens[i] < th_token_file_vocabulary(file) &&
                       th_token_file_read(file, i, 1, &again) == TH_OK && again == tokens[i],
                   "token %lld is wrong", (long long)i);
    write_again(ctx, file, tokens, path);
    check_order(ctx, file, tokens, false);
    check_order(ctx, file, tokens, true);
    free(tokens);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > MAX_TOKENS)
        return 0;
    th_context *ctx = fuzz_context(1 << 22);
    const char *path = fuzz_write("a.tokens", data, size);
    th_token_file *file = th_token_file_open(ctx, path, NULL);
    const bool refused = fuzz_failed_with(ctx, file == NULL, TH_ERROR_FILE);
    if (!refused)
        check_tokens(ctx, file, path);
    th_token_file_close(file);
    th_token_file *later = th_token_file_open(ctx, path, &(th_token_file_options){.check_when_used = true});
    if (!fuzz_failed_with(ctx, later == NULL, TH_ERROR_FILE)) {
        const int64_t count = th_token_file_count(later);
        int32_t *tokens = malloc(((size_t)count + 1) * sizeof *tokens);
        const th_status status = th_token_file_read(later, 0, count, tokens);
        FUZZ_CHECK(fuzz_failed_with(ctx, status != TH_OK, TH_ERROR_FILE) == refused, "the two ways to check differ");
        free(tokens);
    } else {
        FUZZ_CHECK(refused, "only the file that is checked later is refused");
    }
    th_token_file_close(later);
    fuzz_context_free(ctx);
    return 0;
}
