/* Text out of a model, a token at a time. */
#ifndef EXAMPLES_LANGUAGE_MODEL_SAMPLE_H
#define EXAMPLES_LANGUAGE_MODEL_SAMPLE_H

#include <tapehead/tapehead.h>

/* Writes the prompt (NULL: a new line, or what is like it in a tokenizer without) and how the model goes on from it to
 * a file, each character as soon as it is there. A terminal gets control characters escaped, such as "\x1b": a model
 * may write any text it has seen. Other files get the text unchanged. Of options, prompts and emit are filled in here.
 * The text ends when the end token of the settings is drawn. With ignore_end it continues, and the token's name is
 * written. */
th_status write_sample(th_module *model, th_tokenizer *tokenizer, const char *prompt,
                       const th_generate_options *options, bool ignore_end, FILE *file);

#endif
