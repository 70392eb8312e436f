/* The "decoder" of tokenizer.json: what the text of a token is, and what is removed from the beginning of a text. */
#ifndef TH_MODELS_TEXT_DECODER_H
#define TH_MODELS_TEXT_DECODER_H

#include "models/text/piece.h"
#include "tapehead/tokenizer.h"

enum { TH_MAX_DECODERS = 16 };

typedef enum th_decoder_kind {
    TH_DECODE_REPLACE,
    TH_DECODE_STRIP,
    TH_DECODE_METASPACE,
    TH_DECODE_PIECES
} th_decoder_kind;

typedef struct th_decoder_step {
    th_decoder_kind kind;
    th_replacement replace; /* REPLACE. PIECES: its string is the prefix of tokens inside words */
    char character[5];      /* STRIP; METASPACE: it becomes a space */
    size_t start, stop;     /* STRIP: how many are removed at most from the beginning and from the end */
    bool drops;             /* METASPACE: the first token of a text loses the characters */
} th_decoder_step;

typedef struct th_decoder {
    th_decoder_step step[TH_MAX_DECODERS]; /* applied to each token */
    int steps;
    bool byte_fallback; /* <0xE2> is a byte */
    bool first_differs; /* the text of a token depends on whether it is the first one */
    char start[5];      /* at the beginning of a text up to `start_count` of this character are removed */
    size_t start_count;
} th_decoder;

/* Sets `text` to the text of a token, which files write as token[0 .. bytes-1]; `first`: it is a text's first token. */
th_status th_decoder_token(const th_decoder *d, th_context *ctx, const char *operation, const char *token, size_t bytes,
                           bool first, th_text *text);
/* Whether the text of a token can differ from what files write. */
bool th_decoder_changes_tokens(const th_decoder *d);
/* Releases the memory. */
void th_decoder_release(th_decoder *d);

#endif
