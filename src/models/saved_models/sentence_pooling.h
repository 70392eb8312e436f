/* The kinds of pooling in the files of sentence-transformers (sentence_options.c, sentence_export.c). */
#ifndef TH_MODELS_SAVED_MODELS_SENTENCE_POOLING_H
#define TH_MODELS_SAVED_MODELS_SENTENCE_POOLING_H

#include "tapehead/pooling.h"

typedef struct th_pooling_name {
    const char *flag, *name; /* in files of older and of newer versions */
    th_pooling_kind kind;
} th_pooling_name;

enum { TH_POOLING_NAMES = 6 };
extern const th_pooling_name th_pooling_names[TH_POOLING_NAMES];

#endif
