/* Tokenizers in GGUF files. */
#ifndef TH_MODELS_GGUF_TOKENIZER_H
#define TH_MODELS_GGUF_TOKENIZER_H

#include "models/gguf/writer.h"
#include "models/text/tokenizer.h"

/* The types of tokens, with their codes. */
enum {
    TH_GGUF_NORMAL = 1,
    TH_GGUF_UNKNOWN = 2,      /* special */
    TH_GGUF_CONTROL = 3,      /* special */
    TH_GGUF_USER_DEFINED = 4, /* added, but not special */
    TH_GGUF_UNUSED = 5,
    TH_GGUF_BYTE = 6 /* <0xE2> */
};

/* The kinds of tokenizers, tokenizer.ggml.model. */
typedef enum th_gguf_tokenizer_kind {
    TH_GGUF_BYTE_LEVEL, /* gpt2: byte-level BPE with merges */
    TH_GGUF_SCORES,     /* llama: SentencePiece's BPE, which has a score for each token and no merges */
    TH_GGUF_SPACES,     /* gemma4: BPE with merges of characters, in which U+2581 is a space */
    TH_GGUF_PIECES,     /* bert: WordPiece. U+2581 begins the tokens that begin words */
    TH_GGUF_UNIGRAM     /* t5: SentencePiece's Unigram with scores and a character map. Only read */
} th_gguf_tokenizer_kind;
enum { TH_GGUF_TOKENIZER_KINDS = 5 };
extern const char *const th_gguf_tokenizer_kinds[]; /* their names */

#define TH_GGUF_SPACE "\xe2\x96\x81" /* U+2581, which represents a space */

/* -- parts of tokenizer.json (tokenizer_kind.c); NULL if out of memory -- */

/* Keys of the normalizer of TH_GGUF_PIECES, and of its tokens. */
#define TH_GGUF_LOWER_CASE "tokenizer.ggml.normalizer.lowercase"
#define TH_GGUF_STRIP_ACCENTS "tokenizer.ggml.normalizer.strip_accents"
#define TH_GGUF_CLS_TOKEN "tokenizer.ggml.cls_token_id"
#define TH_GGUF_SEPARATOR_TOKEN "tokenizer.ggml.seperator_token_id" /* (misspelled in all files) */
#define TH_GGUF_PADDING_TOKEN "tokenizer.ggml.padding_token_id"
#define TH_GGUF_MASK_TOKEN "tokenizer.ggml.mask_token_id"

/* Returns the normalizer of TH_GGUF_SCORES and TH_GGUF_SPACES; prefix: a space is added before a text. */
json_t *th_gguf_character_normalizer(bool prefix);
/* Returns the normalizer of TH_GGUF_UNIGRAM: the character map, if compiled is not NULL, then one space before each word
 * and none elsewhere, as U+2581. */
json_t *th_gguf_unigram_normalizer(const void *compiled, size_t bytes);
/* Returns the pre-tokenizer of TH_GGUF_SPACES: lines of text, and the ends of lines between them. */
json_t *th_gguf_line_split(void);
/* Finds the kind that has the tokenizer's parts, and whether a space is added before a text. Returns false if there is
 * none. */
bool th_gguf_tokenizer_find_kind(const th_tokenizer *t, th_gguf_tokenizer_kind *kind, bool *prefix);

enum { TH_GGUF_NAMES = 12, TH_GGUF_PATTERNS = 6 };

/* A way to split text before merging. */
typedef struct th_gguf_split {
    const char *name[TH_GGUF_NAMES]; /* of tokenizer.ggml.pre, up to the first NULL; the first one is written */
    /* applied one after another, up to the first NULL; none: GPT-2's pattern */
    const char *pattern[TH_GGUF_PATTERNS];
    bool digits;        /* each digit is a separate word */
    bool ignore_merges; /* as llama.cpp does for these names */
    bool nfc;           /* the tokenizers of this name have a normalizer NFC */
    bool begins;        /* without add_bos_token a text begins with the token, as in llama.cpp */
} th_gguf_split;

/* Returns the split of that name, or NULL. */
const th_gguf_split *th_gguf_split_find(const char *name, size_t bytes);
/* Returns the split of a tokenizer; NULL if GGUF has no name for its split. */
const th_gguf_split *th_gguf_split_of(const th_tokenizer *t);
enum { TH_GGUF_SPLIT_LIST = 400 };
/* Writes the first name of each split to text. */
void th_gguf_list_splits(char *text, size_t bytes);
/* Returns the pre_tokenizer of tokenizer.json; NULL if out of memory. */
json_t *th_gguf_split_json(const th_gguf_split *split);

/* Checks that the tokenizer can be written; otherwise sets TH_ERROR_ARGUMENT with the reason in ctx. vocabulary: the
 * number of the model's tokens. */
bool th_gguf_tokenizer_check(th_context *ctx, const char *operation, const th_tokenizer *t, int64_t vocabulary);
/* Writes the tokenizer's values, with further unused tokens up to the model's vocabulary. If t is NULL, the file says
 * "none". begin_token and end_token begin and end a text, if t does not add others; -1: none. Returns false if out of
 * memory. */
bool th_gguf_write_tokenizer(th_gguf_writer *w, const th_tokenizer *t, int64_t vocabulary, int64_t begin_token,
                             int64_t end_token);

#endif
