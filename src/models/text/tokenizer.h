/* The internals of a tokenizer. Creating one fills the parts below in this order: split, vocabulary, alphabet,
 * merges, added tokens. After that it only encodes and decodes. */
#ifndef TH_MODELS_TEXT_TOKENIZER_H
#define TH_MODELS_TEXT_TOKENIZER_H

#include "models/files/file_set.h"
#include "models/files/json.h"
#include "models/text/added_tokens.h"
#include "models/text/decoder.h"
#include "models/text/merges.h"
#include "models/text/normalizer.h"
#include "models/text/pair_template.h"
#include "models/text/seams.h"
#include "models/text/split.h"
#include "models/text/unigram.h"
#include "models/text/vocabulary.h"
#include "models/text/word_pieces.h"
#include "tapehead/tokenizer.h"

enum { TH_CACHED_BYTES = 22, TH_CACHED_TOKENS = 10, TH_CACHED_WORDS = 1 << 15 };

/* A word and its tokens: one cache line. */
typedef struct th_cached_word {
    uint8_t bytes, count;
    char word[TH_CACHED_BYTES];
    int32_t token[TH_CACHED_TOKENS];
} th_cached_word;

/* Tokens around a text. */
typedef struct th_template {
    int32_t *before, *after;
    size_t n_before, n_after;
    th_pair_template pair;
} th_template;

struct th_tokenizer {
    th_context *ctx;
    bool freed;

    bool byte_level;   /* tokens consist of bytes; otherwise of characters */
    bool prefix_space; /* a space is added before a text that does not begin with one */
    th_normalizer normalizer;
    th_text_split split;
    th_vocabulary vocabulary;
    int32_t byte_token[256]; /* byte_level; -1: none */
    th_merges merges;
    th_seams seams;
    th_word_pieces pieces; /* WordPiece, instead of merges */
    th_unigram unigram;    /* Unigram, instead of merges */
    bool ignore_merges;    /* a word that is a token is not merged from its parts */
    bool byte_fallback;    /* a character without a token becomes the tokens of its bytes, such as <0xE2> */
    int32_t fallback_token[256];
    int32_t unknown;   /* the token for characters without a token; -1: none */
    bool fuse_unknown; /* one token for several unknown characters in a row */
    th_added_tokens added;
    th_template template;
    th_decoder decoder;
    th_truncation truncation;
    th_padding padding;
    bool truncates, pads; /* the file has these settings */

    /* as in tokenizer.json */
    json_t *truncation_json, *padding_json, *normalizer_json, *pre_tokenizer, *post_processor, *decoder_json;

    th_cached_word *cache; /* [TH_CACHED_WORDS]; a word has one possible slot */
    uint32_t *cache_mark;  /* [TH_CACHED_WORDS]: a part of each word's hash; 0: empty */
    size_t counted_bytes;  /* bytes of the parts above, as counted by the context */
    th_word_memory word_memory;
    char *spaced_text; /* a text with a space before it */
    size_t spaced_capacity;
};

/* -- creating (tokenizer.c) -- */
/* Returns an empty tokenizer, which belongs to its context. Returns NULL with the error pending. */
th_tokenizer *th_tokenizer_make(th_context *ctx, const char *operation);
/* Returns the tokenizer if `made` is true. Otherwise frees it, sets TH_ERROR_MEMORY unless another error is pending,
 * and returns NULL. */
th_tokenizer *th_tokenizer_if_made(th_tokenizer *t, const char *operation, bool made);
/* Whether a tokenizer can be used: not NULL, not freed, no error pending. */
bool th_tokenizer_usable(const th_tokenizer *t, const char *operation);
/* Adds the files of a usable tokenizer to the set. */
th_status th_tokenizer_add_files(const th_tokenizer *t, th_file_set *set);
/* Adds the next token of the model, in the form of files. Returns false if out of memory. */
bool th_tokenizer_add_model_token(th_tokenizer *t, const char *written, size_t bytes);
/* Finds the tokens of single bytes or characters, after all model tokens were added, and if byte_fallback is set, the
 * tokens of bytes. */
void th_tokenizer_find_alphabet(th_tokenizer *t);
/* Adds a merge. Returns false if out of memory. */
bool th_tokenizer_add_merge(th_tokenizer *t, th_merge merge);
/* Adds the merges of SentencePiece's BPE after all model tokens: two tokens merge if their texts together are a token.
 * The token with the highest score is made first, the leftmost of equal ones. score: [vocabulary.size], finite. Returns
 * false if out of memory, or with the error pending. */
bool th_tokenizer_add_score_merges(th_tokenizer *t, const char *operation, const float *score);
/* Sets score [vocabulary.size] to numbers for which th_tokenizer_add_score_merges makes the merges of this tokenizer, and
 * *equal to whether there are such numbers. A special token may have more merges then. Returns false if out of
 * memory. */
bool th_tokenizer_scores(const th_tokenizer *t, float *score, bool *equal);
/* Adds an added token. Its id is the id of an existing token, or the next free one. Returns false if memory is
 * short, or with the error pending. */
bool th_tokenizer_add_added(th_tokenizer *t, const char *operation, th_added_token token);
/* Decodes all tokens. Returns false if out of memory, or with the error pending. */
bool th_tokenizer_set_texts(th_tokenizer *t, const char *operation);

/* -- the parts of tokenizer.json (json/) -- */

/* Sets both parts of a tokenizer that does not come from a file, and takes ownership of the values. Returns false if
 * a value is NULL or rejected. */
bool th_tokenizer_set_own_parts(th_tokenizer *t, const char *operation, json_t *pre_tokenizer, json_t *decoder);
/* Returns a ByteLevel, as pre-tokenizer and as decoder. */
json_t *th_byte_level_json(bool use_regex);

/* Returns parts of BERT's tokenizer.json; NULL if out of memory. `accents` is null, true or false. Takes ownership of
 * values. The model lacks its vocabulary. */
json_t *th_bert_normalizer_json(bool lower, bool chinese, json_t *accents);
json_t *th_word_piece_json(json_t *unknown);
json_t *th_word_piece_decoder_json(void);
/* Returns an element of added_tokens; NULL if out of memory. */
json_t *th_special_token_json(int id, const char *content);

/* How BERT's normalizer changes a text. */
typedef struct th_bert_text {
    bool lower, chinese; /* lower case; Chinese characters are words */
    json_t *accents;     /* strip_accents: null, true or false */
} th_bert_text;
/* Returns a tokenizer of WordPiece with the other parts of BERT's. vocab: {"token": id}, added: added_tokens; NULL if out
 * of memory. Returns NULL with the error pending. */
th_tokenizer *th_word_piece_new(const th_json_source *source, const th_bert_text *text, json_t *vocab, json_t *added);

/* Returns a token in the form of files; NULL if out of memory. The caller releases it with free. */
char *th_tokenizer_token_in_files(const th_tokenizer *t, int32_t id);
/* Scores of the model's tokens, which are not in the contents of a tokenizer.json. */
typedef struct th_token_scores {
    const float *score;  /* for each token of the model. Unigram: -INFINITY if the token is not in the lattice */
    float unknown_score; /* Unigram: of a character without a token */
} th_token_scores;
/* Returns the tokenizer that the contents of a tokenizer.json describe; NULL with the error pending. scores: they replace
 * the merges of the contents (th_tokenizer_add_score_merges), or the scores of Unigram; NULL: the contents have all. */
th_tokenizer *th_tokenizer_of_json(const th_json_source *source, const json_t *file, const th_token_scores *scores);
/* Whether the split is GPT-2's, which vocab.json and merges.txt imply. */
bool th_tokenizer_splits_as_gpt2(const th_tokenizer *t);

#endif
