/* Fuzz target: tokenizers of a text: bytes, characters, and byte-pair encoding that is trained. The input has three
 * bytes with options (new tokens, minimum frequency, maximum length of a token), a pattern (empty: the default), NUL,
 * and the text, which is also encoded. Of every fourth length, WordPiece is trained on the text too. */
#include "tokenizer_checks.h"

enum { MAX_TEXT = 4096 };

/* Checks the tokenizers of bytes and of the text's characters. */
static void check_plain(th_context *ctx, fuzz_part text)
{
    check_tokenizer(th_tokenizer_bytes_new(ctx), text);
    th_tokenizer *characters = th_tokenizer_characters_new(ctx, text.bytes, text.count);
    if (!fuzz_failed(ctx, characters == NULL)) /* an empty text, or one that is not UTF-8 */
        check_tokenizer(characters, text);
}

/* Trains WordPiece with the options of three bytes. */
static void check_word_piece(th_context *ctx, const uint8_t *option, fuzz_part text)
{
    static const char *const specials[] = {"<s>", "ab", "##e", "a"};
    const th_word_piece_options options = {.vocabulary = 5 + option[0] * (option[1] % 4),
                                           .min_frequency = option[1] % 8,
                                           .limit_alphabet = option[2] % 32,
                                           .alphabet = option[2] & 32 ? "az\xc3\xa9" : NULL,
                                           .specials = specials,
                                           .n_specials = option[0] % 5,
                                           .cased = option[2] & 64,
                                           .accents = (th_accents)(option[1] % 3),
                                           .join_chinese = option[2] & 128};
    th_tokenizer *t = th_tokenizer_train_word_piece(ctx, text.bytes, text.count, &options);
    if (fuzz_failed(ctx, t == NULL))
        return;
    FUZZ_CHECK(th_tokenizer_size(t) <= options.vocabulary, "the vocabulary is too large");
    check_tokenizer(t, text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const specials[] = {"<|endoftext|>", "<s>"};
    if (size < 3)
        return 0;
    fuzz_part part[2];
    fuzz_split(data + 3, size - 3, part, 2);
    if (part[1].count > MAX_TEXT)
        part[1].count = MAX_TEXT;
    char *pattern = fuzz_copy(part[0]);
    const th_bpe_options options = {.vocabulary = 256 + data[0],
                                    .min_frequency = data[1],
                                    .max_bytes = data[2],
                                    .specials = specials,
                                    .n_specials = data[0] % 3,
                                    .pattern = pattern[0] ? pattern : NULL};
    th_context *ctx = fuzz_context(TOKENIZER_MEMORY);
    th_tokenizer *t = th_tokenizer_train(ctx, part[1].bytes, part[1].count, &options);
    if (!fuzz_failed(ctx, t == NULL)) {
        FUZZ_CHECK(th_tokenizer_size(t) <= options.vocabulary && keeps_text(t), "the tokenizer is not as requested");
        check_tokenizer(t, part[1]);
    }
    free(pattern);
    if (size % 4 == 1) /* (sanitizers make its pattern slow) */
        check_word_piece(ctx, data, part[1]);
    if (size % 4 == 0) /* (most time is for training) */
        check_plain(ctx, part[1]);
    fuzz_context_free(ctx);
    return 0;
}
