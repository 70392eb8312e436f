/* A tokenizer from inside. Making one fills the parts below in this order: split, vocabulary, alphabet, merges, added
 * tokens; then it only encodes and decodes. */
#ifndef TH_MODELS_TEXT_TOKENIZER_H
#define TH_MODELS_TEXT_TOKENIZER_H

#include "models/files/json.h"
#include "models/text/added_tokens.h"
#include "models/text/merges.h"
#include "models/text/split.h"
#include "models/text/vocabulary.h"
#include "tapehead/tokenizer.h"
#include "tensor/context.h"

enum { TH_CACHED_BYTES = 22, TH_CACHED_TOKENS = 10, TH_CACHED_WORDS = 1 << 15 };

/* A word and its tokens: one cache line. */
typedef struct th_cached_word {
    uint8_t bytes, count; /* bytes 0: empty */
    char word[TH_CACHED_BYTES];
    int32_t token[TH_CACHED_TOKENS];
} th_cached_word;

/* Tokens around a text. */
typedef struct th_template {
    int32_t *before, *after;
    size_t n_before, n_after;
} th_template;

struct th_tokenizer {
    th_context *ctx;
    bool freed;

    bool byte_level;   /* tokens are made of bytes; otherwise of characters */
    bool prefix_space; /* a text that begins with no space is given one */
    th_split split;
    th_vocabulary vocabulary;
    int32_t byte_token[256]; /* byte_level: -1, none */
    th_merges merges;
    bool ignore_merges; /* a word that is a token is not merged from its parts */
    int32_t unknown;    /* for what has no token; -1: none */
    bool fuse_unknown;  /* one for several in a row */
    th_added_tokens added;
    th_template template;

    json_t *pre_tokenizer, *post_processor, *decoder; /* as in tokenizer.json */

    th_cached_word *cache; /* [TH_CACHED_WORDS]; a word has one place */
    th_hash_key cache_key;
    size_t counted; /* bytes of the parts above, as counted by the context */
    th_word_memory word;
    char *padded; /* a text with a space before it */
    size_t padded_capacity;
};

/* -- making (tokenizer.c) -- */
/* An empty one, which belongs to its context; NULL with the error stored. */
th_tokenizer *th_tokenizer_make(th_context *ctx, const char *operation);
/* The tokenizer when `made`, otherwise NULL, having freed it and stored TH_ERROR_MEMORY if there was no error yet. */
th_tokenizer *th_tokenizer_made(th_tokenizer *t, const char *operation, bool made);
/* A tokenizer that can be used: not NULL, not freed, no error pending. */
bool th_tokenizer_usable(const th_tokenizer *t, const char *operation);
/* The next token of the model, as files write it; false when memory is out. */
bool th_tokenizer_add_model_token(th_tokenizer *t, const char *written, size_t bytes);
/* Finds the tokens of single bytes or characters, once all model tokens are there. */
void th_tokenizer_find_alphabet(th_tokenizer *t);
/* false when memory is out. */
bool th_tokenizer_add_merge(th_tokenizer *t, th_merge merge);
/* An added token, whose id is that of a token or the next free one. false when memory is out. */
bool th_tokenizer_add_added(th_tokenizer *t, th_added_token token);

/* -- tokenizer.json's parts (pre_tokenizer.c, post_processor.c), used by reading and by making alike -- */
/* Both keep the value (not NULL) and build what it says. */
th_status th_tokenizer_set_pre_tokenizer(th_tokenizer *t, const th_json_source *source, json_t *value);
/* For a tokenizer that is made here: both values become the tokenizer's; false when one is NULL or refused. */
bool th_tokenizer_set_own_parts(th_tokenizer *t, const char *operation, json_t *pre_tokenizer, json_t *decoder);
/* A ByteLevel, as pre-tokenizer and as decoder. */
json_t *th_byte_level_json(bool use_regex);
th_status th_tokenizer_set_post_processor(th_tokenizer *t, const th_json_source *source, json_t *value);

/* Whether the split is GPT-2's, which vocab.json and merges.txt do not say. */
bool th_tokenizer_splits_as_gpt2(const th_tokenizer *t);

#endif
