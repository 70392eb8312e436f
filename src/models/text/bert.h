/* The characters that BERT's normalizer and pre-tokenizer treat alike (BertNormalizer and BertPreTokenizer of
 * tokenizer.json). */
#ifndef TH_MODELS_TEXT_BERT_H
#define TH_MODELS_TEXT_BERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum th_bert_class {
    TH_BERT_CONTROL, /* clean_text removes it */
    TH_BERT_CHINESE, /* handle_chinese_chars puts a space on each side */
    TH_BERT_MARK     /* strip_accents removes it */
} th_bert_class;

/* Whether a character belongs to the class. */
bool th_bert_has(th_bert_class characters, uint32_t code);

enum { TH_BERT_PATTERN = 2048 };
/* Writes the pattern whose matches are the signs of punctuation. Returns its length. */
size_t th_bert_punctuation_pattern(char pattern[TH_BERT_PATTERN]);
/* Writes the pattern whose matches are the words: one sign of punctuation, or neither punctuation nor white space.
 * Returns its length. */
size_t th_bert_pattern(char pattern[TH_BERT_PATTERN]);

#endif
