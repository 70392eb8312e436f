/* Fuzz target: token files, also with marks. The mutator repairs sizes and checksums. A file that is accepted has only
 * tokens of its vocabulary, and is the same when it is written again. Its windows have its tokens in order; packed and
 * shuffled windows have as many targets as they promise. */
#include "models/core/files.h"
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

/* The contents of a file. */
typedef struct contents {
    int64_t count;
    int32_t *tokens;      /* [count] */
    unsigned char *marks; /* [count] */
} contents;

static void write_again(th_context *ctx, const th_token_file *file, const contents *all, const char *original)
{
    const int64_t first = all->count / 3, rest = all->count - first, vocabulary = th_token_file_vocabulary(file);
    const bool marked = th_token_file_has_marks(file);
    size_t bytes;
    th_token_writer *writer = marked ? th_token_writer_open_marked(ctx, fuzz_path("b.tokens"), vocabulary)
                                     : th_token_writer_open(ctx, fuzz_path("b.tokens"), vocabulary);
    FUZZ_CHECK(writer && th_token_writer_append_marked(writer, all->tokens, marked ? all->marks : NULL, first) == TH_OK,
               "%s", th_error_message(ctx));
    FUZZ_CHECK(th_token_writer_append_marked(writer, all->tokens + first, marked ? all->marks + first : NULL, rest) ==
                       TH_OK &&
                   th_token_writer_close(writer) == TH_OK,
               "%s", th_error_message(ctx));
    char *written = fuzz_read(fuzz_path("b.tokens"), &bytes);
    fuzz_check_file(original, written, bytes);
    free(written);
}

/* Returns the first token at or behind `at` that may be a target. */
static int64_t next_target(const contents *all, int64_t at)
{
    while (at < all->count && all->marks[at])
        at++;
    return at;
}

/* In order, the targets of all windows are the tokens without marks from the second on. Documents begin at or before
 * their tokens, and a token that begins one has that place. */
static void check_windows(th_context *ctx, th_token_file *file, const contents *all, th_windows_options options)
{
    th_tensor *in = th_zeros(ctx, TH_INT32, TH_SHAPE(BATCH, LENGTH));
    th_tensor *out = th_zeros(ctx, TH_INT32, TH_SHAPE(BATCH, LENGTH));
    th_tensor *starts = th_zeros(ctx, TH_INT32, TH_SHAPE(BATCH, LENGTH));
    th_windows *windows = th_windows_new(file, &options);
    if (fuzz_failed_with(ctx, windows == NULL, TH_ERROR_ARGUMENT))
        return;
    const bool in_order = !options.shuffle && !options.pack;
    const int64_t all_targets = th_windows_targets(windows), count = th_windows_count(windows);
    int64_t seen = 0, at = next_target(all, 1);
    for (int64_t window = 0; window < count; window += BATCH) {
        FUZZ_CHECK(th_windows_next_packed(windows, in, out, starts) == TH_OK, "%s", th_error_message(ctx));
        for (int64_t i = 0; i < BATCH * LENGTH; i++) {
            const int32_t target = ((const int32_t *)th_data_const(out))[i];
            const int32_t start = ((const int32_t *)th_data_const(starts))[i];
            FUZZ_CHECK(start >= 0 && start <= i % LENGTH, "place %d begins at %d", (int)(i % LENGTH), (int)start);
            if (target == TH_NO_TARGET || window + i / LENGTH >= count) /* the batch may continue in the next epoch */
                continue;
            FUZZ_CHECK(!in_order || (at < all->count && target == all->tokens[at]), "target %lld is wrong",
                       (long long)at);
            at = next_target(all, at + 1);
            seen++;
        }
    }
    FUZZ_CHECK(seen == all_targets, "%lld targets instead of %lld", (long long)seen, (long long)all_targets);
    FUZZ_CHECK(!in_order || at >= all->count, "token %lld was no target", (long long)at);
    th_windows_free(windows);
}

static void check_tokens(th_context *ctx, th_token_file *file, const char *path)
{
    const int64_t count = th_token_file_count(file);
    contents all = {count, malloc(((size_t)count + 1) * sizeof *all.tokens), malloc((size_t)count + 1)};
    FUZZ_CHECK(all.tokens && all.marks && th_token_file_read(file, 0, count, all.tokens) == TH_OK &&
                   th_token_file_read_marks(file, 0, count, all.marks) == TH_OK,
               "%s", th_error_message(ctx));
    for (int64_t i = 0; i < count; i++) {
        int32_t again;
        unsigned char mark;
        FUZZ_CHECK(all.tokens[i] >= 0 && all.tokens[i] < th_token_file_vocabulary(file) &&
                       th_token_file_read(file, i, 1, &again) == TH_OK && again == all.tokens[i],
                   "token %lld is wrong", (long long)i);
        FUZZ_CHECK(th_token_file_read_marks(file, i, 1, &mark) == TH_OK && mark == all.marks[i] &&
                       mark <= TH_TOKEN_BEGINS + TH_TOKEN_GIVEN && (mark == 0 || th_token_file_has_marks(file)),
                   "mark %lld is wrong", (long long)i);
    }
    write_again(ctx, file, &all, path);
    for (int kind = 0; kind < 4; kind++)
        if (kind < 2 || th_token_file_has_marks(file))
            check_windows(ctx, file, &all,
                          (th_windows_options){.length = LENGTH, .shuffle = kind % 2, .seed = 7, .pack = kind >= 2});
    free(all.tokens);
    free(all.marks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > MAX_TOKENS)
        return 0;
    th_context *ctx = fuzz_context(1 << 22);
    const char *path = fuzz_write("a.tokens", data, size);
    th_token_file *file = th_token_file_open(ctx, path, NULL);
    const bool refused = fuzz_rejected(ctx, file == NULL, path);
    if (!refused)
        check_tokens(ctx, file, path);
    th_token_file_close(file);
    th_token_file *later = th_token_file_open(ctx, path, &(th_token_file_options){.check_when_used = true});
    if (!fuzz_rejected(ctx, later == NULL, path)) {
        const int64_t count = th_token_file_count(later);
        int32_t *tokens = malloc(((size_t)count + 1) * sizeof *tokens);
        const th_status status = th_token_file_read(later, 0, count, tokens);
        FUZZ_CHECK(fuzz_rejected(ctx, status != TH_OK, path) == refused, "the two ways to check differ");
        free(tokens);
    } else {
        FUZZ_CHECK(refused, "only the file that is checked later is refused");
    }
    th_token_file_close(later);
    fuzz_context_free(ctx);
    return 0;
}
