/* The readers of tokenizer.json and of the files beside it. */
#ifndef TH_MODELS_TEXT_JSON_READERS_H
#define TH_MODELS_TEXT_JSON_READERS_H

#include "models/text/tokenizer.h"

/* -- the "model"; vocab.json and merges.txt are parts of it (read_model.c) -- */

/* For tokenizer.json, vocab.json and merges.txt: several times the size of the largest files in use. */
extern const th_json_limits th_model_limits;

/* Reads the whole model. scores: as for th_tokenizer_of_json. This function and those below return false with the error
 * pending (or none if out of memory). */
bool th_read_model(th_tokenizer *t, const th_json_source *source, const json_t *model, const th_token_scores *scores);
/* Reads the model Unigram (read_unigram.c). */
bool th_read_unigram(th_tokenizer *t, const th_json_source *source, const json_t *model, const th_token_scores *scores);
/* Reads {"token": id, ...}. The ids must be 0 .. n-1. */
bool th_read_vocabulary(th_tokenizer *t, const th_json_source *source, const json_t *vocab);
/* Reads merges.txt, with a line "left right" for each merge. source->name is its path. */
bool th_read_merges_file(th_tokenizer *t, const th_json_source *source, const json_t *vocab);

/* Returns the whole file source->name, followed by a NUL, which the caller releases with free. Returns NULL with the
 * error pending (or none if out of memory); a NUL in the file is an error. */
char *th_read_text_file(const th_json_source *source);

/* -- vocab.txt of WordPiece (word_piece.c) -- */

/* Returns the tokenizer of a vocab.txt, which has a token in each line, and of the tokenizer_config.json at config_path,
 * or NULL for BERT's defaults. Returns NULL with the error pending. */
th_tokenizer *th_word_piece_load(th_context *ctx, const char *operation, const char *path, const char *config_path);

/* -- the number of tokens in config.json (read_size.c) -- */

/* Checks that every token of the tokenizer is inside the vocabulary of the config.json at path, except added tokens.
 * Some published models have added tokens that their embedding lacks. More tokens in config.json are padding. A
 * config.json without vocab_size is right. Returns false with TH_ERROR_FILE pending. */
bool th_tokenizer_check_size(const th_tokenizer *t, const char *operation, const char *path);

/* -- a Metaspace, which is a pre-tokenizer or a decoder (read_metaspace.c) -- */

typedef struct th_metaspace {
    char space[5]; /* the character that represents a space */
    th_prepend prepend;
    bool splits;
} th_metaspace;

/* Reads a member that is a string of one character. Returns false with the error pending. */
bool th_read_character(const th_json_source *source, const json_t *value, const char *key, char character[5]);
/* Reads a Metaspace. Returns false with the error pending. */
bool th_read_metaspace(const th_json_source *source, const json_t *value, th_metaspace *metaspace);

/* -- the pattern and the content of a Replace, which is a normalizer or a decoder (read_replacement.c) -- */

/* Sets *copy to a string that the caller releases, and *bytes to its length. */
th_status th_read_text(const th_json_source *source, const json_t *value, const char *key, char **copy, size_t *bytes);
/* Reads "pattern" and "content"; `part` is "normalizer" or "decoder". */
th_status th_read_replacement(const th_json_source *source, const json_t *value, const char *part, th_replacement *r);

/* -- "normalizer" and "decoder" (read_normalizer.c, read_decoder.c) -- */

/* Both read the value of a file, or null. Errors name what is not supported. `byte_level`: tokens consist of bytes. */
th_status th_normalizer_read(th_normalizer *n, const th_json_source *source, const json_t *value);
th_status th_decoder_read(th_decoder *d, const th_json_source *source, const json_t *value, bool byte_level);

/* -- "pre_tokenizer" and "post_processor" (pre_tokenizer.c, post_processor.c) -- */

/* Keeps the value (not NULL) and builds the split that it describes. */
th_status th_tokenizer_set_pre_tokenizer(th_tokenizer *t, const th_json_source *source, json_t *value);
/* Keeps the value (not NULL) and reads its template. */
th_status th_tokenizer_set_post_processor(th_tokenizer *t, const th_json_source *source, json_t *value);

/* -- "truncation" and "padding" (call_settings.c) -- */

/* Both read the value of a file; if it is null, they set *given to false. Strings belong to the value. They return
 * false with the error pending. */
bool th_read_truncation(const th_json_source *source, const json_t *value, th_truncation *truncation, bool *given);
bool th_read_padding(const th_json_source *source, const json_t *value, th_padding *padding, bool *given);

#endif
