/* Batches of texts for encoders: tokens of several texts, padded to the longest. B texts, T tokens in the longest one.
 *
 *     th_text_batch batch;
 *     if (th_text_batch_make(tokenizer, texts, n, 512, &batch))
 *         return report(ctx);
 *     th_tensor *logits = th_language_model_logits(
 *         model, batch.tokens, &(th_language_model_logits_options){.lengths = batch.lengths, .types = batch.types}); */
#ifndef TAPEHEAD_TEXT_BATCH_H
#define TAPEHEAD_TEXT_BATCH_H

#include "tapehead/base.h"
#include "tapehead/tokenizer.h"

TH_BEGIN_DECLS

/* Tensors with the ownership of results. All are int32. */
typedef struct th_text_batch {
    th_tensor *tokens;  /* (B, T), padded with token 0 */
    th_tensor *lengths; /* (B): the number of tokens of each text */
    th_tensor *types; /* (B, T): the type of each token, such as 1 for the second text of a pair. NULL without pairs */
    th_tensor *words; /* (B, T): the number of the word whose first token this is; -1: another token. NULL without
                           words */
} th_text_batch;

/* Encodes n texts, which end with NUL, with the tokens that th_tokenizer_encode_document adds. Texts with more than
 * `length` tokens lose tokens at their end, but not those that the tokenizer adds. Errors: TH_ERROR_ARGUMENT, TH_ERROR_VALUE
 * for a text without tokens, TH_ERROR_MEMORY. */
TH_API th_status th_text_batch_make(th_tokenizer *tokenizer, const char *const *texts, int64_t n, int64_t length,
                                    th_text_batch *batch) TH_MUST_CHECK;
/* As th_text_batch_make, for n pairs: texts[2 i] and texts[2 i + 1]. The tokens around them, and the types, are those of
 * tokenizer.json: [CLS] A [SEP] B [SEP] for BERT. If a pair is too long, its longer text loses tokens, then both
 * (transformers' longest_first). TH_ERROR_STATE if the tokenizer has no template for pairs. A model without token_types takes
 * no types. */
TH_API th_status th_text_batch_make_pairs(th_tokenizer *tokenizer, const char *const *texts, int64_t n, int64_t length,
                                          th_text_batch *batch) TH_MUST_CHECK;
/* As th_text_batch_make, for n lists of words. Text i has the words word_begin[i] to word_begin[i + 1] - 1. Each word is
 * encoded by itself, with a space before it. */
TH_API th_status th_text_batch_make_words(th_tokenizer *tokenizer, const char *const *words, const int64_t *word_begin,
                                          int64_t n, int64_t length, th_text_batch *batch) TH_MUST_CHECK;

/* -- windows of long texts, for extractive question answering -- */

/* Tensors with the ownership of results: B rows, one for each window. */
typedef struct th_text_windows {
    th_text_batch batch;
    th_tensor *pair; /* (B) int32: which pair a row is of */
    /* (B, T) int32: the token is of the bytes begin to end - 1 of the second text. -1: of none */
    th_tensor *begin, *end;
} th_text_windows;

/* Encodes n pairs, texts[2 i] and texts[2 i + 1]: a question, and a text that may have its answer. If both have more than
 * `length` tokens, there are several rows, with windows of the second text. Each has `overlap` tokens of the window before, or
 * half a window if that is less. Questions have at most half of the room, and lose tokens at their end. The tokens and types
 * around the texts are those of th_text_batch_make_pairs. The second text is encoded by words. Tokens have the place of their
 * word, or of a part of it where a division leaves all tokens as they are, such as beside punctuation. Errors:
 * TH_ERROR_ARGUMENT, also if `length` has no room for both texts; TH_ERROR_STATE as th_text_batch_make_pairs; TH_ERROR_VALUE
 * for a text of more than 2^31 - 1 bytes; TH_ERROR_MEMORY. */
TH_API th_status th_text_windows_make(th_tokenizer *tokenizer, const char *const *texts, int64_t n, int64_t length,
                                      int64_t overlap, th_text_windows *windows) TH_MUST_CHECK;

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_text_batch_make(...) TH_AT_STATUS(th_text_batch_make(__VA_ARGS__))
#define th_text_batch_make_pairs(...) TH_AT_STATUS(th_text_batch_make_pairs(__VA_ARGS__))
#define th_text_batch_make_words(...) TH_AT_STATUS(th_text_batch_make_words(__VA_ARGS__))
#define th_text_windows_make(...) TH_AT_STATUS(th_text_windows_make(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
