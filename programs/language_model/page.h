/* A page that shows the model on a text: the tape of a forward and its backward. */
#ifndef EXAMPLES_LANGUAGE_MODEL_PAGE_H
#define EXAMPLES_LANGUAGE_MODEL_PAGE_H

#include <tapehead/models.h>

/* The first tokens of a text. */
enum { PAGE_TOKENS = 33 };
typedef struct first_tokens {
    int32_t token[PAGE_TOKENS];
    int count;
} first_tokens;

/* Adds tokens, as long as there is room. */
void append_first_tokens(first_tokens *first, const int32_t *tokens, size_t count);
/* Runs the model without dropout on all tokens except the last, and then backward. The loss is for predicting each next
 * token. Writes the tape as a page. */
th_status write_page(th_module *model, const th_tokenizer *tokenizer, const first_tokens *first, const char *path);

#endif
