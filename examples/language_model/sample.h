/* Text out of a model, a token at a time. */
#ifndef EXAMPLES_LANGUAGE_MODEL_SAMPLE_H
#define EXAMPLES_LANGUAGE_MODEL_SAMPLE_H

#include <tapehead/tapehead.h>

/* Writes the prompt (NULL: a new line, or what is like it in a tokenizer without) and how the model goes on from it to
 * a file, each character as soon as it is there. A terminal gets control characters escaped, such as "\x1b": a model
 * may write any text it has seen. Other files get the text unchanged. Of options, prompts and emit are filled in here;
 * text ends where the end token of the settings, if there is one, is drawn. */
th_status write_sample(th_module *model, th_tokenizer *tokenizer, const char *prompt,
                       const th_generate_options *options, FILE *file);

#endif
