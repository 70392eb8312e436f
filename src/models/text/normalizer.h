/* The "normalizer" of tokenizer.json: changes of a text before it is split. */
#ifndef TH_MODELS_TEXT_NORMALIZER_H
#define TH_MODELS_TEXT_NORMALIZER_H

#include "models/text/character_map.h"
#include "models/text/normal_form.h"
#include "models/text/pattern/pattern.h"
#include "models/text/piece.h"
#include "tapehead/tokenizer.h"

enum { TH_MAX_NORMALIZERS = 16 };

typedef enum th_normalizer_kind {
    TH_NORMALIZE_FORM,
    TH_NORMALIZE_LOWER,
    TH_NORMALIZE_ACCENTS, /* removes marks */
    TH_NORMALIZE_CLEAN,   /* BERT's: white space becomes spaces, control characters disappear */
    TH_NORMALIZE_CHINESE, /* BERT's: a space on each side of a Chinese character */
    TH_NORMALIZE_MARKS,   /* BERT's: removes marks that take no space */
    TH_NORMALIZE_NMT,     /* SentencePiece's nmt: spaces of other kinds become spaces, control characters disappear */
    TH_NORMALIZE_STRIP,
    TH_NORMALIZE_PREPEND,
    TH_NORMALIZE_REPLACE,
    TH_NORMALIZE_MAP, /* SentencePiece's compiled map */
} th_normalizer_kind;

typedef struct th_normalizer_step {
    th_normalizer_kind kind;
    th_normal_form *form;
    th_character_map *map;
    bool left, right;       /* the ends that STRIP changes */
    th_replacement replace; /* REPLACE; PREPEND uses its `content` */
} th_normalizer_step;

typedef struct th_normalizer {
    th_normalizer_step step[TH_MAX_NORMALIZERS];
    int steps;
    th_text text[2]; /* each step reads one and writes the other */
} th_normalizer;

/* Normalizes a piece of a text. The result is valid until the next call. */
th_status th_normalizer_apply(th_normalizer *n, th_context *ctx, const char *operation, th_piece *piece);
/* Whether a step writes lower case. */
bool th_normalizer_lowers(const th_normalizer *n);
/* Makes the character maps replace the longest strings (th_character_map). */
void th_normalizer_match_longest(th_normalizer *n);
/* Releases the memory. */
void th_normalizer_release(th_normalizer *n);

#endif
