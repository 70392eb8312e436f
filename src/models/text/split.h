/* Splits a text into words in stages, as a pre-tokenizer of the reference. Each stage is a pattern that splits the
 * words of the stage before. This code does not depend on tokens. */
#ifndef TH_MODELS_TEXT_SPLIT_H
#define TH_MODELS_TEXT_SPLIT_H

#include "models/core.h"
#include "models/text/pattern.h"

/* Which parts of a text become words. */
typedef enum th_split_keep { TH_KEEP_ALL, TH_KEEP_MATCHES, TH_KEEP_GAPS } th_split_keep;

enum { TH_MAX_STAGES = 16 };

typedef struct th_text_split {
    struct {
        th_pattern *pattern;
        th_split_keep keep;
    } stage[TH_MAX_STAGES];
    int stages;
} th_text_split;

/* Receives a word. A result other than TH_OK ends the splitting. */
typedef struct th_word_sink {
    th_status (*take)(void *user, const char *word, size_t bytes);
    void *user;
} th_word_sink;

extern const char th_gpt2_pattern[];

/* Releases the patterns. */
void th_split_release(th_text_split *split);
/* Passes the words of a text to the sink, in order. Each byte that is not valid UTF-8 is a word; the bytes between two
 * such bytes are split separately. *budget is the text's budget (th_pattern_budget): TH_ERROR_VALUE if it is
 * exhausted. */
th_status th_split_text(const th_text_split *split, th_context *ctx, const char *operation, const char *text,
                        size_t bytes, uint64_t *budget, th_word_sink sink);

/* Returns the length of the character at the beginning of a text; 0 if it is not valid UTF-8. */
int th_character_length(const char *text, size_t bytes);
/* Returns the number of bytes of valid UTF-8 at the beginning of a text. */
size_t th_valid_bytes(const char *text, size_t bytes);

#endif
