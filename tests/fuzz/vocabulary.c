/* Fuzz target: vocab.json and merges.txt. The input is the first file, NUL, the second file, NUL, and a text. */
#include "tokenizer_checks.h"

enum { MAX_TEXT = 2048 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_part part[3];
    fuzz_split(data, size, part, 3);
    if (part[2].count > MAX_TEXT)
        part[2].count = MAX_TEXT;
    th_context *ctx = fuzz_context(TOKENIZER_MEMORY);
    (void)mkdir(fuzz_path("vocabulary"), 0700);
    fuzz_write("vocabulary/vocab.json", part[0].bytes, part[0].count);
    fuzz_write("vocabulary/merges.txt", part[1].bytes, part[1].count);
    th_tokenizer *t = th_tokenizer_load(ctx, fuzz_path("vocabulary"));
    if (!fuzz_rejected(ctx, t == NULL, fuzz_path("vocabulary")))
        check_tokenizer(t, part[2]);
    fuzz_context_free(ctx);
    return 0;
}
