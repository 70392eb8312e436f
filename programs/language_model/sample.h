/* Generates text with a model, one token at a time. */
#ifndef EXAMPLES_LANGUAGE_MODEL_SAMPLE_H
#define EXAMPLES_LANGUAGE_MODEL_SAMPLE_H

#include "page.h"

typedef struct sample_options {
    th_generate_options generate; /* generate_sample sets prompts, end tokens and emit */
    bool ignore_end;              /* the text continues after an end token, and has the token's name */
    const int64_t *end_tokens;    /* [n_end_tokens] of a model folder; 0: the one of the settings */
    int n_end_tokens;
    const char *const *stop; /* [n_stop] the text ends before the first of these strings */
    int n_stop;
    const th_token_list *question; /* the prompt, instead of a text; NULL or empty: the text */
    bool without_prompt;           /* writes the continuation only */
    th_token_list *answer;         /* NULL, or receives the tokens of the continuation that have a text */
} sample_options;

/* Writes the prompt and the model's continuation to a file, each character as soon as it is complete. A prompt of NULL
 * is a new line, or a similar token. A terminal gets control characters escaped, such as "\x1b", because a model may
 * write any text from its training. Other files get the text unchanged. The text ends when an end token is drawn.
 * Several samples (generate.sequences) are written at the end, each after a line with its number. first: NULL, or
 * receives the first tokens of the prompt and its first continuation. */
th_status generate_sample(th_module *model, th_tokenizer *tokenizer, const char *prompt, const sample_options *options,
                          FILE *file, first_tokens *first);

#endif
