/* Cutting a text into words: stages of patterns, each of which cuts up what the one before left, as a pre-tokenizer of
 * the reference. It knows nothing of tokens. */
#ifndef TH_MODELS_TEXT_SPLIT_H
#define TH_MODELS_TEXT_SPLIT_H

#include "models/text/pattern.h"
#include "tensor/context.h"

/* What becomes a word. */
typedef enum th_keep { TH_KEEP_ALL, TH_KEEP_MATCHES, TH_KEEP_GAPS } th_keep;

enum { TH_MAX_STAGES = 16 };

typedef struct th_split {
    struct {
        th_pattern *pattern;
        th_keep keep;
    } stage[TH_MAX_STAGES];
    int stages;
} th_split;

/* Takes a word; what it returns ends the cutting if it is no TH_OK. */
typedef struct th_word_sink {
    th_status (*take)(void *user, const char *word, size_t bytes);
    void *user;
} th_word_sink;

extern const char th_gpt2_pattern[];

void th_split_release(th_split *split);
/* Passes the words of a text to the sink, in order. Each byte that is not valid UTF-8 is a word; the bytes between two
 * such bytes are split separately. *budget is the text's budget (th_pattern_budget): TH_ERROR_VALUE if it is
 * exhausted. */
th_status th_split_text(const th_split *split, th_context *ctx, const char *operation, const char *text, size_t bytes,
                        uint64_t *budget, th_word_sink sink);

/* The length of the character at the beginning of a text; 0 where there is none. */
int th_character_length(const char *text, size_t bytes);
/* How many bytes of the text's beginning are UTF-8. */
size_t th_valid_bytes(const char *text, size_t bytes);

#endif
