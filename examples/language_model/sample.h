/* Generates text with a model, one token at a time. */
#ifndef EXAMPLES_LANGUAGE_MODEL_SAMPLE_H
#define EXAMPLES_LANGUAGE_MODEL_SAMPLE_H

#include "page.h"

/* Writes the prompt and the model's continuation to a file, each character as soon as it is complete. A prompt of NULL
 * is a new line, or a similar token. A terminal gets control characters escaped, such as "\x1b", because a model may
 * write any text from its training. Other files get the text unchanged. write_sample sets prompts and emit in options.
 * The text ends when the end token of the settings is drawn. With ignore_end it continues, and the token's name is
 * written. first: NULL, or receives the first tokens of prompt and continuation. */
th_status write_sample(th_module *model, th_tokenizer *tokenizer, const char *prompt,
                       const th_generate_options *options, bool ignore_end, FILE *file, first_tokens *first);

#endif
