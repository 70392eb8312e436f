/* Converts texts to tokens: makes a tokenizer for the texts, and a token file. It writes the file in pieces, so that
 * neither text nor tokens need fit into memory. One document is encoded as it is. If there are several, the end-of-text
 * token follows each. (The name of this token in a text becomes the token too, as in GPT-2.) */
#ifndef EXAMPLES_LANGUAGE_MODEL_CORPUS_H
#define EXAMPLES_LANGUAGE_MODEL_CORPUS_H

#include <tapehead/models.h>

#include "shared/texts.h"

/* The end-of-text token of tokenizers that are made here. */
#define END_OF_TEXT "<|endoftext|>"

/* Creates the tokenizer of the settings for this text. For several documents it gets an end-of-text token, unless it
 * belongs to a pretrained model without that token. NULL with the error in the context. */
th_tokenizer *make_tokenizer(th_context *ctx, const texts *text);

/* Returns whether each document ends with the settings' end-of-text token. */
bool ends_documents(const th_tokenizer *tokenizer, const texts *text);
/* Writes the text's tokens to a token file. Sets the training tokens of the settings if documents are held out. */
th_status encode_text(th_context *ctx, th_tokenizer *tokenizer, const texts *text, const char *path);

/* Counts the bytes of text in tokens begin .. end of a file, for bits per byte. Special tokens count as 0 bytes. -1
 * with the error pending. */
int64_t count_token_bytes(const th_tokenizer *tokenizer, th_token_file *file, int64_t begin, int64_t end);

#endif
