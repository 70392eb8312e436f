/* Text into tokens and back: bytes, characters, and byte-level byte-pair encoding (Sennrich et al. 2016; Radford et al.
 * 2019), read from and written to the files of Hugging Face's tokenizers.
 *
 *     th_tokenizer *bpe = th_tokenizer_train(ctx, text, bytes, &(th_bpe_options){.vocabulary = 4096});
 *     th_token_list tokens = {0};
 *     if (th_tokenizer_encode(bpe, text, bytes, &tokens) || th_tokenizer_save(bpe, "run"))
 *         return report(ctx);
 *     ... tokens.token[0 .. tokens.count-1] ...
 *     th_token_list_free(&tokens);
 *
 * Text is bytes, with a length; NUL is a character like any other, and UTF-8 is expected but not demanded. A byte that
 * is no part of a character stands for itself, apart from what is around it: with bytes and byte-level BPE every text
 * comes back from its tokens bit for bit.
 *
 * Encoding and training give what the reference library gives (tokenizers 0.23, whose Unicode is 16.0). Where a
 * tokenizer splits text by classes of characters, they come from PCRE2, whose Unicode is 14.0 in version 10.42; what
 * 15.0 to 16.0 added is added to it. A PCRE2 with a newer Unicode than 16.0 knows more letters than the reference. */
#ifndef TAPEHEAD_TOKENIZER_H
#define TAPEHEAD_TOKENIZER_H

#include "tapehead/base.h"

TH_BEGIN_DECLS

/* Belongs to its context, which frees it with itself. To be used by one thread at a time, as its context is. */
typedef struct th_tokenizer th_tokenizer;

/* Tokens in memory that grows. Zero before its first use. */
typedef struct th_token_list {
    int32_t *token; /* [count] */
    size_t count, capacity;
} th_token_list;
TH_API void th_token_list_free(th_token_list *list);

/* Bytes in memory that grows, with a NUL behind them that does not count. Zero before its first use. */
typedef struct th_text {
    char *bytes; /* [count] */
    size_t count, capacity;
} th_text;
TH_API void th_text_free(th_text *text);

/* -- making: NULL with the error stored when it fails -- */

/* 256 tokens: a byte is its own token. */
TH_API th_tokenizer *th_tokenizer_bytes_new(th_context *ctx);
/* A token for each character (code point) of the text, in their order. The text must be UTF-8, without NUL, and not
 * empty. Another character cannot be encoded: TH_ERROR_VALUE. */
TH_API th_tokenizer *th_tokenizer_characters_new(th_context *ctx, const char *text, size_t bytes);

typedef struct th_bpe_options {
    /* always given; at least 256 and the special tokens. Fewer come out when nothing is left to merge */
    int64_t vocabulary;
    int64_t min_frequency;       /* of a pair that is merged; 0: 1 */
    int64_t max_bytes;           /* tokens that are merged from more than two are shorter than this; 0: of any length */
    const char *const *specials; /* [n_specials] such as "<|endoftext|>": the first ids, in this order. Copied */
    int n_specials;
    /* splits the text into words, beyond which nothing is merged: a regular expression whose matches are words, as is
     * what lies between them; NULL: GPT-2's */
    const char *pattern;
} th_bpe_options;

/* Byte-level BPE, as the reference's BpeTrainer learns it from the whole text as one sequence, with
 * ByteLevel.alphabet(): the most frequent pair of tokens becomes a token, again and again; of pairs that are equally
 * frequent, the one with the smaller ids. The text is held in memory by the caller; special tokens that stand in it are
 * text like any other. */
TH_API th_tokenizer *th_tokenizer_train(th_context *ctx, const char *text, size_t bytes, const th_bpe_options *options);

/* From a folder, with tokenizer.json or else with vocab.json and merges.txt (GPT-2's two files, with GPT-2's pattern;
 * "<|endoftext|>" is special if the vocabulary has it), or from a file in the format of tokenizer.json. It reads:
 *   model           BPE; merges as "a b" or as pairs; ignore_merges, unk_token, fuse_unk
 *   pre_tokenizer   null, ByteLevel, Split (Isolated, or Removed), Digits, and a Sequence of them
 *   added_tokens    special or not, with lstrip, rstrip, normalized; not single_word
 *   post_processor  null, ByteLevel (which changes no token), TemplateProcessing (th_tokenizer_encode_document)
 *   decoder         null, ByteLevel, Fuse: the text of tokens is always their bytes one after another
 * Anything else that could change a token is TH_ERROR_FILE, and the message names it: normalizers, dropout, prefixes
 * and suffixes of subwords, truncation, padding. So is every kind of damage, such as a merge of unknown tokens or an id
 * that occurs twice. A file has at most 64 MiB, and its values take at most 512 MiB while they are read. An added token
 * has at most 512 bytes. Other files of a transformers folder (tokenizer_config.json) are not read. */
TH_API th_tokenizer *th_tokenizer_load(th_context *ctx, const char *path);

/* Writes tokenizer.json, and a tokenizer_config.json with which transformers' AutoTokenizer opens it as it is; for
 * byte-level BPE with GPT-2's pattern also vocab.json and merges.txt (which do not say what tokens are special). The
 * folder must be there. The reference gives the same tokens with these files, but for a character that has no token:
 * it leaves that out without a word. Each file appears only when it is complete. */
TH_API th_status th_tokenizer_save(const th_tokenizer *tokenizer, const char *folder) TH_MUST_CHECK;

/* NULL is fine. Using one that was freed is TH_ERROR_STATE, as for a module (th_module_free). */
TH_API void th_tokenizer_free(th_tokenizer *tokenizer);

/* Makes content (1 to 512 bytes of UTF-8) a special token, found in text before all else. Returns its id: a new one,
 * unless the content is a token already. -1 with the error stored. */
TH_API int64_t th_tokenizer_add(th_tokenizer *tokenizer, const char *content);

/* -- text into tokens -- */

/* Appends the tokens of a text. Special and other added tokens are found in it first (from the left, the longest), then
 * the rest is split and merged. TH_ERROR_VALUE for a character without a token, unless the file names an unk_token.
 * Also TH_ERROR_VALUE if a file's pattern takes too many steps: 16 million for a text, and 1,024 more for each byte. */
TH_API th_status th_tokenizer_encode(th_tokenizer *tokenizer, const char *text, size_t bytes,
                                     th_token_list *tokens) TH_MUST_CHECK;
/* The same with the tokens around it that the file's post-processor asks for, such as Llama's "<|begin_of_text|>":
 * the reference's encode with add_special_tokens=True. */
TH_API th_status th_tokenizer_encode_document(th_tokenizer *tokenizer, const char *text, size_t bytes,
                                              th_token_list *tokens) TH_MUST_CHECK;

/* -- tokens into text -- */

/* Ids are 0 .. size-1. */
TH_API int64_t th_tokenizer_size(const th_tokenizer *tokenizer);
/* What a token stands for, which may be a part of a character, and how many bytes that is. Valid as long as the
 * tokenizer, until th_tokenizer_add. NULL for what is no token. */
TH_API const char *th_tokenizer_bytes(const th_tokenizer *tokenizer, int64_t token, size_t *bytes);
TH_API bool th_tokenizer_is_special(const th_tokenizer *tokenizer, int64_t token);
/* The token that stands for these bytes, special ones first: th_tokenizer_find(t, "<|endoftext|>"). -1: none. */
TH_API int64_t th_tokenizer_find(const th_tokenizer *tokenizer, const char *content);

/* Appends what the tokens stand for, special ones included. TH_ERROR_INDEX for what is no token. */
TH_API th_status th_tokenizer_decode(const th_tokenizer *tokenizer, const int32_t *tokens, size_t count,
                                     th_text *text) TH_MUST_CHECK;

/* The beginning of a character that is not complete yet. Zero before its first use. */
typedef struct th_text_stream {
    unsigned char held[4];
    int count;
} th_text_stream;
/* Writes what the tokens stand for to a file, in whole characters: what is incomplete at the end waits in the stream
 * for the next call, and what is no UTF-8 is written as U+FFFD. */
TH_API th_status th_tokenizer_write(const th_tokenizer *tokenizer, const int32_t *tokens, size_t count,
                                    th_text_stream *stream, FILE *file) TH_MUST_CHECK;
/* Writes U+FFFD for what still waits. */
TH_API th_status th_tokenizer_write_end(const th_tokenizer *tokenizer, th_text_stream *stream,
                                        FILE *file) TH_MUST_CHECK;

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_tokenizer_bytes_new(...) TH_AT_POINTER(th_tokenizer, th_tokenizer_bytes_new(__VA_ARGS__))
#define th_tokenizer_characters_new(...) TH_AT_POINTER(th_tokenizer, th_tokenizer_characters_new(__VA_ARGS__))
#define th_tokenizer_train(...) TH_AT_POINTER(th_tokenizer, th_tokenizer_train(__VA_ARGS__))
#define th_tokenizer_load(...) TH_AT_POINTER(th_tokenizer, th_tokenizer_load(__VA_ARGS__))
#define th_tokenizer_save(...) TH_AT_STATUS(th_tokenizer_save(__VA_ARGS__))
#define th_tokenizer_encode(...) TH_AT_STATUS(th_tokenizer_encode(__VA_ARGS__))
#define th_tokenizer_encode_document(...) TH_AT_STATUS(th_tokenizer_encode_document(__VA_ARGS__))
#define th_tokenizer_decode(...) TH_AT_STATUS(th_tokenizer_decode(__VA_ARGS__))
#define th_tokenizer_write(...) TH_AT_STATUS(th_tokenizer_write(__VA_ARGS__))
#define th_tokenizer_write_end(...) TH_AT_STATUS(th_tokenizer_write_end(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
