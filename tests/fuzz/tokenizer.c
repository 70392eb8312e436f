/* Fuzz target: tokenizer.json. The input is the file, NUL, and a text. */
#include "tokenizer_checks.h"

enum { MAX_TEXT = 2048 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_part part[2];
    fuzz_split(data, size, part, 2);
    if (part[1].count > MAX_TEXT)
        part[1].count = MAX_TEXT;
    th_context *ctx = fuzz_context(TOKENIZER_MEMORY);
    const char *path = fuzz_write("tokenizer.json", part[0].bytes, part[0].count);
    th_tokenizer *t = th_tokenizer_load(ctx, path);
    if (!fuzz_rejected(ctx, t == NULL, path))
        check_tokenizer(t, part[1]);
    fuzz_context_free(ctx);
    return 0;
}
