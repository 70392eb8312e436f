/* The tokens of texts, one text after another, from which batches are made (text_batch.c). A row is a text, a pair of texts,
 * or a text of words. */
#ifndef TH_MODELS_TEXT_TEXT_ROWS_H
#define TH_MODELS_TEXT_TEXT_ROWS_H

#include "tapehead/text_batch.h"

typedef struct th_text_rows {
    const char *operation; /* for errors */
    th_tokenizer *tokenizer;
    int64_t n;
    th_token_list tokens;
    int64_t *begin;       /* [n + 1]: where each row begins in tokens */
    int32_t *word, *type; /* [tokens.count] as in th_text_batch; NULL without words, or without pairs */
    size_t words, types;  /* their capacities */
    char *joined;         /* a text with what precedes it */
    size_t joined_bytes;
} th_text_rows;

/* Encodes n texts, each after the prompt, in a struct with operation, tokenizer and n. Rows have at most `length` tokens, as in
 * th_text_batch_make. th_text_rows_free is needed also after an error. */
th_status th_text_rows_make(th_text_rows *rows, const char *prompt, const char *const *texts, int64_t length);
void th_text_rows_free(th_text_rows *rows);

/* Returns the number of tokens of row i. */
static inline int64_t th_text_row_tokens(const th_text_rows *rows, int64_t i)
{
    return rows->begin[i + 1] - rows->begin[i];
}

/* Makes a batch of rows. row [count]: their numbers; NULL: 0 .. count - 1. */
th_status th_text_rows_batch(const th_text_rows *rows, const int64_t *row, int64_t count, th_text_batch *batch);
/* Returns values of the rows, [rows->tokens.count], as a tensor (count, longest row). */
th_tensor *th_text_rows_pad(const th_text_rows *rows, const int64_t *row, int64_t count, const int32_t *values,
                            int32_t padding);

#endif
