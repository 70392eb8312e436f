/* Text into tokens and back: bytes, characters, byte-pair encoding (Sennrich et al. 2016; Radford et al. 2019), WordPiece
 * (Schuster & Nakajima 2012) and Unigram (Kudo 2018), in the files of Hugging Face's tokenizers.
 *
 *     th_tokenizer *bpe = th_tokenizer_train(ctx, text, bytes, &(th_bpe_options){.vocabulary = 4096});
 *     th_token_list tokens = {0};
 *     if (th_tokenizer_encode(bpe, text, bytes, &tokens) || th_tokenizer_save(bpe, "run"))
 *         return report(ctx);
 *     ... tokens.token[0 .. tokens.count-1] ...
 *     th_token_list_free(&tokens);
 *
 * Text is bytes with a length. NUL is a character like any other. UTF-8 is expected but not required: a byte that does
 * not belong to a character is treated as a single unit, separate from its neighbors. With byte tokens and byte-level
 * BPE, decoding gives back every text bit for bit.
 *
 * Encoding and training give the results of the reference library (tokenizers 0.23, Unicode 16.0). A tokenizer that
 * splits text by classes of characters uses utf8proc's classes. utf8proc 2.8 has Unicode 15.0; this library adds the
 * characters of 15.1 to 16.0. A utf8proc with a newer Unicode than 16.0 knows more letters than the reference.
 * Normalization follows Unicode 9.0, and lower case Unicode 17.0, with any version of utf8proc: so does the
 * reference. */
#ifndef TAPEHEAD_TOKENIZER_H
#define TAPEHEAD_TOKENIZER_H

#include "tapehead/base.h"

TH_BEGIN_DECLS

/* A tokenizer. It belongs to its context, which frees it. Only one thread may use it at a time, as for its context. */
typedef struct th_tokenizer th_tokenizer;

/* Tokens in memory that grows. Initialize it with zeros. */
typedef struct th_token_list {
    int32_t *token; /* [count] */
    size_t count, capacity;
} th_token_list;
/* Releases the memory; the list is empty again. */
TH_API void th_token_list_free(th_token_list *list);

/* Bytes in memory that grows. A NUL follows them, which count does not include. Initialize it with zeros. */
typedef struct th_text {
    char *bytes; /* [count] */
    size_t count, capacity;
} th_text;
/* Releases the memory; the text is empty again. */
TH_API void th_text_free(th_text *text);

/* -- creating: these functions return NULL with the error pending -- */

/* Creates a tokenizer of 256 tokens: a byte is its own token. */
TH_API th_tokenizer *th_tokenizer_bytes_new(th_context *ctx);
/* Creates a tokenizer with a token for each character (code point) of the text, in the order of code points. The text
 * must be UTF-8, without NUL, and not empty. Encoding any other character is TH_ERROR_VALUE. */
TH_API th_tokenizer *th_tokenizer_characters_new(th_context *ctx, const char *text, size_t bytes);

typedef struct th_bpe_options {
    /* required; at least 256 plus the special tokens. The result has fewer tokens if there is nothing left to merge */
    int64_t vocabulary;
    int64_t min_frequency;       /* pairs that occur less often are not merged; 0: 1 */
    int64_t max_bytes;           /* tokens merged from more than two are shorter than this; 0: any length */
    const char *const *specials; /* [n_specials] such as "<|endoftext|>": the first ids, in this order. Copied */
    int n_specials;
    /* splits the text into words; merges do not cross words. A regular expression: its matches are words, and so is
     * the text between them. It has at most 4,096 bytes and 5,000 steps: characters, | and repetitions, times their
     * counts. NULL: GPT-2's */
    const char *pattern;
} th_bpe_options;

/* Learns byte-level BPE as the reference's BpeTrainer does, with ByteLevel.alphabet() and the whole text as one
 * sequence. It repeatedly merges the most frequent pair of tokens into a new token; of equally frequent pairs, the one
 * with the smaller ids. The caller holds the text in memory. Special tokens in the text are ordinary text. */
TH_API th_tokenizer *th_tokenizer_train(th_context *ctx, const char *text, size_t bytes, const th_bpe_options *options);

/* What BERT's normalizer does with accents. */
typedef enum th_accents {
    TH_ACCENTS_BY_CASE, /* removes them if it makes letters small, as the reference does by default */
    TH_ACCENTS_REMOVE,
    TH_ACCENTS_KEEP,
} th_accents;

typedef struct th_word_piece_options {
    /* required; at least the special tokens and the characters, alone and behind ##. The result has fewer tokens if there
     * is nothing left to merge */
    int64_t vocabulary;
    int64_t min_frequency;       /* pairs that occur less often are not merged; 0: 2 */
    int64_t limit_alphabet;      /* only the most frequent characters have tokens; 0: 1,000 */
    const char *alphabet;        /* characters in UTF-8 that come before the most frequent ones; NULL: none */
    const char *const *specials; /* [n_specials] further special tokens: the ids from 5, in this order. Copied */
    int n_specials;
    bool cased; /* keeps capital letters */
    th_accents accents;
    bool join_chinese; /* Chinese characters in a row are one word; by default each of them is a word */
} th_word_piece_options;

/* Learns WordPiece as the reference's BertWordPieceTokenizer does: the text goes through BERT's normalizer and
 * pre-tokenizer, and BPE on characters makes the tokens. A character inside a word has the prefix ##. Pairs are merged
 * as by th_tokenizer_train. The special tokens [PAD], [UNK], [CLS], [SEP] and [MASK] have the ids 0 to 4.
 * th_tokenizer_encode_document returns [CLS] text [SEP].
 *
 * The reference numbers the tokens with ## in the order of a hash table, which differs in each run. Its choice among
 * equally frequent pairs depends on these numbers. Here the tokens have the order in which the text first has them. Of
 * equally frequent characters at the limit of the alphabet, those with the smaller code points stay. Training reads a
 * word as if it lacked its characters without a token. Wrong options are TH_ERROR_ARGUMENT. */
TH_API th_tokenizer *th_tokenizer_train_word_piece(th_context *ctx, const char *text, size_t bytes,
                                                   const th_word_piece_options *options);

/* Loads a tokenizer from a folder with tokenizer.json, or else with vocab.txt, or else with vocab.json and merges.txt:
 * GPT-2's two files, with GPT-2's pattern ("<|endoftext|>" is special if the vocabulary has it). vocab.txt has a token
 * of BERT's WordPiece in each line. do_lower_case, tokenize_chinese_chars and strip_accents of a tokenizer_config.json
 * beside it apply, and a never_split is TH_ERROR_FILE. path may also be a file in the format of
 * tokenizer.json, or a GGUF file (th_tokenizer_from_gguf). Supported:
 *   normalizer      null, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Prepend, Replace, Precompiled,
 *                   Nmt, BertNormalizer, and a Sequence of them
 *   pre_tokenizer   null, ByteLevel, Metaspace, Split, Digits, Whitespace, WhitespaceSplit, BertPreTokenizer,
 *                   Punctuation, and a Sequence of them
 *   model           with or without its type. BPE; merges as "a b" or as pairs; ignore_merges, unk_token, fuse_unk, byte_fallback. WordPiece;
 *                   max_input_chars_per_word up to 4,096, and a prefix of at most 15 bytes. Unigram; byte_fallback
 *   added_tokens    special or not, with single_word, lstrip, rstrip, normalized
 *   post_processor  null, ByteLevel (which changes no token), TemplateProcessing,
 *                   BertProcessing and RobertaProcessing (th_tokenizer_encode_document)
 *   decoder         null, ByteLevel, Metaspace, WordPiece, Replace, Strip, ByteFallback, Fuse, and a Sequence of them, in which
 *                   only a Strip of the beginning follows Fuse. With null and ByteLevel the text of tokens is their
 *                   bytes one after another.
 *   truncation, padding   th_tokenizer_truncation, th_tokenizer_padding; they are not applied
 * Any other setting that could change a token is TH_ERROR_FILE, and the message names it: other normalizers, dropout,
 * prefixes and suffixes of subwords. So is every kind of damage, such as a merge of unknown tokens or an id that occurs
 * twice. A file has at most 64 MiB, and its values take at most 512 MiB while they are read. An added token has at most
 * 512 bytes, a pattern 4,096 bytes and 5,000 steps (th_bpe_options). The folder may have a config.json. If that has a
 * vocab_size, each token from this number on must be an added token; otherwise TH_ERROR_FILE. Beside a
 * tokenizer.json, other files of a transformers folder (tokenizer_config.json) are not read. */
TH_API th_tokenizer *th_tokenizer_load(th_context *ctx, const char *path);

/* Writes tokenizer.json, and a tokenizer_config.json, so that transformers' AutoTokenizer can open the folder. For
 * byte-level BPE with GPT-2's pattern it also writes vocab.json and merges.txt, which do not tell which tokens are
 * special. The folder must exist. The reference gives the same tokens with these files, except for a character without
 * a token: it omits that character without an error. The files replace older ones when all are complete. */
TH_API th_status th_tokenizer_save(const th_tokenizer *tokenizer, const char *folder) TH_MUST_CHECK;

/* Frees the tokenizer; NULL is allowed. Using a freed tokenizer is TH_ERROR_STATE, as for a module (th_module_free). */
TH_API void th_tokenizer_free(th_tokenizer *tokenizer);

/* Makes content (1 to 512 bytes of UTF-8) a special token, which is found in a text before anything else. Returns its
 * id, which is new unless the content is a token already. Returns -1 with the error pending. */
TH_API int64_t th_tokenizer_add(th_tokenizer *tokenizer, const char *content);

/* -- settings for batches of texts: they are saved again, but th_tokenizer_encode does not apply them -- */

/* Which text of a pair is truncated. */
typedef enum th_truncation_strategy {
    TH_TRUNCATE_LONGEST, /* the longer one first */
    TH_TRUNCATE_FIRST,
    TH_TRUNCATE_SECOND,
} th_truncation_strategy;

typedef struct th_truncation {
    int64_t max_length; /* tokens of a text, with the tokens that the post-processor adds */
    int64_t stride;     /* tokens that a part of a text shares with the part before */
    th_truncation_strategy strategy;
    bool left; /* tokens are removed from the beginning, not from the end */
} th_truncation;

typedef struct th_padding {
    int64_t fixed;       /* the length of each text; -1: the longest text's */
    int64_t multiple_of; /* the length becomes a multiple of this; 0: it need not */
    int64_t token, type; /* the id that is added; its type id */
    const char *content; /* the token that is added */
    bool left;           /* tokens are added at the beginning, not at the end */
} th_padding;

/* Returns the file's truncation, which belongs to the tokenizer; NULL if the file has no truncation. */
TH_API const th_truncation *th_tokenizer_truncation(const th_tokenizer *tokenizer);
/* Returns the file's padding, which belongs to the tokenizer; NULL if the file has no padding. */
TH_API const th_padding *th_tokenizer_padding(const th_tokenizer *tokenizer);

/* -- text into tokens -- */

/* Appends the tokens of a text. It first finds special and other added tokens (from the left, the longest), then
 * normalizes, splits and merges the rest. TH_ERROR_VALUE for a character without a token, unless the file names
 * an unk_token or has tokens for the character's bytes. The same error if a file's replacements would make the text
 * longer than 64 times its bytes and 64 KiB. Patterns take time proportional to the text, whatever the text is: at most
 * 50,000 steps for each character (docs/internals/text.md). */
TH_API th_status th_tokenizer_encode(th_tokenizer *tokenizer, const char *text, size_t bytes,
                                     th_token_list *tokens) TH_MUST_CHECK;
/* As th_tokenizer_encode, but adds the tokens that the file's post-processor puts around it, such as Llama's
 * "<|begin_of_text|>". The reference's encode does this with add_special_tokens=True. */
TH_API th_status th_tokenizer_encode_document(th_tokenizer *tokenizer, const char *text, size_t bytes,
                                              th_token_list *tokens) TH_MUST_CHECK;

/* -- tokens into text -- */

/* Returns the number of tokens. Ids are 0 .. size-1. */
TH_API int64_t th_tokenizer_size(const th_tokenizer *tokenizer);
/* Returns the text of a token inside a text, and sets *bytes to its length. It may be a part of a character. Valid
 * until the next th_tokenizer_add or the end of the tokenizer. Returns NULL if the id is not a token. */
TH_API const char *th_tokenizer_bytes(const th_tokenizer *tokenizer, int64_t token, size_t *bytes);
/* Returns true if a token is special; false if the id is not a token. */
TH_API bool th_tokenizer_is_special(const th_tokenizer *tokenizer, int64_t token);
/* Returns the token with these bytes, a special one first: th_tokenizer_find(t, "<|endoftext|>"). Returns -1 if no
 * token has them. If tokens consist of characters, the bytes are those of files: "\u2581the", "<0x0A>". */
TH_API int64_t th_tokenizer_find(const th_tokenizer *tokenizer, const char *content);

/* Appends the text of the tokens, including special ones. A decoder such as Llama's removes the space at the beginning
 * of a text: here the first of these tokens is the beginning. Tokens such as <0xE2> become bytes, also if they are not
 * valid UTF-8 together; the reference then returns U+FFFD for each byte. TH_ERROR_INDEX for an id outside the
 * vocabulary. */
TH_API th_status th_tokenizer_decode(const th_tokenizer *tokenizer, const int32_t *tokens, size_t count,
                                     th_text *text) TH_MUST_CHECK;

/* A text that is written in parts. Initialize it with zeros. Set `begun` to true and `stripped` to -1 if the text
 * continues another one: then a space at its beginning remains. */
typedef struct th_text_stream {
    unsigned char held[4]; /* the beginning of a character that is not complete yet */
    int count;
    bool begun;   /* a token has been written */
    int stripped; /* characters that the decoder has removed from the beginning; -1: it removes no more */
} th_text_stream;
/* Writes the text of the tokens to a file, in whole characters. An incomplete character at the end waits in the stream
 * for the next call. Invalid UTF-8 becomes U+FFFD. */
TH_API th_status th_tokenizer_write(const th_tokenizer *tokenizer, const int32_t *tokens, size_t count,
                                    th_text_stream *stream, FILE *file) TH_MUST_CHECK;
/* Writes U+FFFD for an incomplete character that still waits in the stream. */
TH_API th_status th_tokenizer_write_end(const th_tokenizer *tokenizer, th_text_stream *stream,
                                        FILE *file) TH_MUST_CHECK;

/* A text that ends before the first of some stop strings. Set strings and count, and initialize the rest with zeros. */
typedef struct th_stop_stream {
    const char *const *strings; /* [count] UTF-8 of 1 to 255 bytes, which the caller keeps */
    int count;                  /* 0: the text never ends */
    bool found;                 /* a stop string has appeared, and the text before it is written */
    th_text_stream text;
    char held[256]; /* the end of the text, which may be the beginning of a stop string */
    int n_held;
} th_stop_stream;
/* Writes the text of the tokens like th_tokenizer_write, up to the first stop string, which may span several tokens.
 * If several end with the same character, the longest counts. Text that may be the beginning of a stop string waits in
 * the stream. After .found the function writes nothing. For th_generate_options.emit:
 *
 *   return th_tokenizer_write_until(tokenizer, &id, 1, &stream, stdout) == TH_OK && !stream.found; */
TH_API th_status th_tokenizer_write_until(const th_tokenizer *tokenizer, const int32_t *tokens, size_t count,
                                          th_stop_stream *stream, FILE *file) TH_MUST_CHECK;
/* Writes the text that still waits in the stream. */
TH_API th_status th_tokenizer_write_until_end(const th_tokenizer *tokenizer, th_stop_stream *stream,
                                              FILE *file) TH_MUST_CHECK;

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_tokenizer_bytes_new(...) TH_AT_POINTER(th_tokenizer, th_tokenizer_bytes_new(__VA_ARGS__))
#define th_tokenizer_characters_new(...) TH_AT_POINTER(th_tokenizer, th_tokenizer_characters_new(__VA_ARGS__))
#define th_tokenizer_train(...) TH_AT_POINTER(th_tokenizer, th_tokenizer_train(__VA_ARGS__))
#define th_tokenizer_train_word_piece(...) TH_AT_POINTER(th_tokenizer, th_tokenizer_train_word_piece(__VA_ARGS__))
#define th_tokenizer_load(...) TH_AT_POINTER(th_tokenizer, th_tokenizer_load(__VA_ARGS__))
#define th_tokenizer_save(...) TH_AT_STATUS(th_tokenizer_save(__VA_ARGS__))
#define th_tokenizer_encode(...) TH_AT_STATUS(th_tokenizer_encode(__VA_ARGS__))
#define th_tokenizer_encode_document(...) TH_AT_STATUS(th_tokenizer_encode_document(__VA_ARGS__))
#define th_tokenizer_decode(...) TH_AT_STATUS(th_tokenizer_decode(__VA_ARGS__))
#define th_tokenizer_write(...) TH_AT_STATUS(th_tokenizer_write(__VA_ARGS__))
#define th_tokenizer_write_end(...) TH_AT_STATUS(th_tokenizer_write_end(__VA_ARGS__))
#define th_tokenizer_write_until(...) TH_AT_STATUS(th_tokenizer_write_until(__VA_ARGS__))
#define th_tokenizer_write_until_end(...) TH_AT_STATUS(th_tokenizer_write_until_end(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
