/* Fuzz target: data as people have it. The input is a text of examples of any format, perhaps compressed. It is recognized
 * and encoded. The counts agree with the file of tokens. An array of the examples, and lines of them, have the same tokens. */
#include "tapehead/models.h"

#include "fuzz.h"

enum { MEMORY = 64 << 20, MOST = 1 << 16 };

typedef struct text {
    char bytes[MOST];
    size_t count;
} text;

/* Collects at most MOST bytes. */
static bool collect(void *user, const void *bytes, size_t count)
{
    text *to = user;
    const size_t taken = count < MOST - to->count ? count : MOST - to->count;
    memcpy(to->bytes + to->count, bytes, taken);
    to->count += taken;
    return taken == count;
}

/* Encodes a text into a file. Returns whether it was accepted. */
static bool encode(th_context *ctx, const char *bytes, size_t count, const char *name, th_instruction_counts *counts)
{
    th_chat_template *chat = th_chat_template_new(ctx, "plain", NULL, "</s>");
    th_tokenizer *tokenizer = th_tokenizer_bytes_new(ctx);
    th_token_writer *writer = th_token_writer_open_marked(ctx, fuzz_path(name), th_tokenizer_size(tokenizer));
    FUZZ_CHECK(writer != NULL, "%s", th_error_text(ctx));
    const th_status status = th_instructions_append(chat, tokenizer, bytes, count, "the data", writer, counts);
    const bool failed = status != TH_OK;
    FUZZ_CHECK(status == TH_OK || status == TH_ERROR_VALUE || status == TH_ERROR_FILE || status == TH_ERROR_MEMORY,
               "status %d", (int)status);
    if (fuzz_failed(ctx, failed))
        th_token_writer_free(writer);
    else
        FUZZ_CHECK(th_token_writer_close(writer) == TH_OK, "%s", th_error_text(ctx));
    th_tokenizer_free(tokenizer);
    th_chat_template_free(chat);
    return !failed;
}

static void check_counts(th_context *ctx, const th_instruction_counts *counts)
{
    if (counts->tokens == 0) /* a file without tokens cannot be opened */
        return;
    th_token_file *file = th_token_file_open(ctx, fuzz_path("a.tokens"), NULL);
    FUZZ_CHECK(file && th_token_file_count(file) == counts->tokens, "%lld tokens are counted",
               (long long)counts->tokens);
    FUZZ_CHECK(counts->targets > 0 && counts->targets < counts->tokens && counts->longest <= counts->tokens &&
                   counts->examples <= counts->tokens / 2,
               "the counts are wrong");
    th_token_file_close(file);
}

/* Whether a text of JSON can be put in an array: it has no array itself. */
static bool is_objects(const char *bytes, size_t count)
{
    size_t i = 0;
    while (i < count && memchr(" \t\r\n", bytes[i], 4))
        i++;
    return i < count && bytes[i] == '{' && memchr(bytes, '[', count) == NULL;
}

/* An array of the same objects has the same tokens. */
static void check_array(th_context *ctx, const char *bytes, size_t count, const th_instruction_counts *counts)
{
    size_t before, now;
    th_instruction_counts again = {0};
    char *array = malloc(count + 2);
    FUZZ_CHECK(array != NULL, "out of memory");
    array[0] = '[';
    memcpy(array + 1, bytes, count);
    array[count + 1] = ']';
    FUZZ_CHECK(encode(ctx, array, count + 2, "b.tokens", &again), "an array is refused");
    FUZZ_CHECK(memcmp(&again, counts, sizeof again) == 0, "an array has other counts");
    free(array);
    char *a = fuzz_read(fuzz_path("a.tokens"), &before), *b = fuzz_read(fuzz_path("b.tokens"), &now);
    FUZZ_CHECK(before == now && memcmp(a, b, now) == 0, "an array has other tokens");
    free(a);
    free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static text plain;
    th_context *ctx = fuzz_context(MEMORY);
    th_instruction_counts counts = {0};
    plain.count = 0;
    if (th_compression_name(data, size))
        (void)fuzz_failed_with(ctx, th_decompress(ctx, "the data", data, size, collect, &plain) != TH_OK,
                               TH_ERROR_FILE);
    else
        (void)collect(&plain, data, size);
    char *copy = malloc(plain.count > 0 ? plain.count : 1); /* of exact size, for the sanitizers */
    FUZZ_CHECK(copy != NULL, "out of memory");
    memcpy(copy, plain.bytes, plain.count);
    (void)th_instructions_format(copy, plain.count);
    if (encode(ctx, copy, plain.count, "a.tokens", &counts)) {
        check_counts(ctx, &counts);
        if (counts.examples > 0 && is_objects(copy, plain.count))
            check_array(ctx, copy, plain.count, &counts);
    }
    free(copy);
    fuzz_context_free(ctx);
    return 0;
}
