/* The tokens around a pair of texts, and the types of all tokens: the rules for pairs in a post_processor of tokenizer.json. */
#ifndef TH_MODELS_TEXT_PAIR_TEMPLATE_H
#define TH_MODELS_TEXT_PAIR_TEMPLATE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Places of added tokens: before the first text, between the texts, behind the second one. */
enum { TH_PAIR_BEFORE, TH_PAIR_BETWEEN, TH_PAIR_AFTER, TH_PAIR_PLACES };

typedef struct th_pair_template {
    bool given;
    int32_t *token[TH_PAIR_PLACES], *type[TH_PAIR_PLACES]; /* [count] */
    size_t count[TH_PAIR_PLACES];
    int32_t text_type[2]; /* of the tokens of each text */
} th_pair_template;

/* Reads the "pair" of a TemplateProcessing, whose ids must be below `vocabulary`. A template that does not have each text
 * once, the first text first, is not given. Returns false if memory runs out. */
bool th_pair_template_read(th_pair_template *template, const json_t *pair, const json_t *specials, int64_t vocabulary);
/* Sets [CLS] A [SEP] B [SEP] with types 0 and 1, as BertProcessing; or <s> A </s></s> B </s> with type 0, as
 * RobertaProcessing. Returns false if memory runs out. */
bool th_pair_template_set(th_pair_template *template, int32_t cls, int32_t sep, bool roberta);
void th_pair_template_release(th_pair_template *template);

#endif
