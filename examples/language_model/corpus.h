/* From a text file to tokens: the text mapped into memory, the tokenizer that suits it, and a token file, made a piece
 * at a time, so that neither text nor tokens need fit into memory. */
#ifndef EXAMPLES_LANGUAGE_MODEL_CORPUS_H
#define EXAMPLES_LANGUAGE_MODEL_CORPUS_H

#include <tapehead/tapehead.h>

typedef struct text_file {
    const char *path;
    const char *bytes;
    size_t count;
} text_file;

/* Ends the program, with a sentence, for what is no file, cannot be read, or is empty. */
text_file open_text(const char *path);

/* The tokenizer of the settings for this text. NULL with the error in the context. */
th_tokenizer *make_tokenizer(th_context *ctx, const text_file *text);

/* Writes the text's tokens to a token file. */
th_status encode_text(th_context *ctx, th_tokenizer *tokenizer, const text_file *text, const char *path);

/* The bytes of text that tokens begin .. end of a file stand for: for bits per byte. -1 with the error stored. */
int64_t bytes_of_tokens(const th_tokenizer *tokenizer, th_token_file *file, int64_t begin, int64_t end);

#endif
