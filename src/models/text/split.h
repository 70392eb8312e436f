/* Splits a text into words in stages, as a pre-tokenizer of the reference. Each stage splits the words of the stage
 * before, by a pattern or as a Metaspace. This code does not depend on tokens. */
#ifndef TH_MODELS_TEXT_SPLIT_H
#define TH_MODELS_TEXT_SPLIT_H

#include "models/text/pattern/pattern.h"
#include "models/text/piece.h"

/* What becomes of the matches of a pattern, and of the gaps between them. With `inverted`, matches are gaps and gaps
 * are matches. */
typedef enum th_split_behavior {
    TH_SPLIT_ISOLATED,   /* each is a word */
    TH_SPLIT_REMOVED,    /* matches disappear */
    TH_SPLIT_CONTIGUOUS, /* neighboring matches are one word */
    TH_SPLIT_PREVIOUS,   /* a match after a gap belongs to it */
    TH_SPLIT_NEXT,       /* a match before a gap belongs to it */
} th_split_behavior;

/* Where Metaspace adds its character to the beginning. */
typedef enum th_prepend { TH_PREPEND_ALWAYS, TH_PREPEND_FIRST, TH_PREPEND_NEVER } th_prepend;

enum { TH_MAX_STAGES = 16 };

typedef struct th_split_stage {
    th_pattern *pattern; /* NULL: a Metaspace */
    th_split_behavior behavior;
    bool inverted;
    /* Metaspace: spaces become `space` */
    char space[5];
    th_prepend prepend;
    bool splits;     /* before each `space` */
    th_text *buffer; /* owned: the stage's text */
} th_split_stage;

typedef struct th_text_split {
    th_split_stage stage[TH_MAX_STAGES];
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
 * such bytes are split separately. */
th_status th_split_text(const th_text_split *split, th_context *ctx, const char *operation, th_piece text,
                        th_word_sink sink);

#endif
