/* Where text comes from: files, folders of files, pipes and standard input. Each file or stream is a document. All
 * documents lie one after another in mapped memory, so that they need not fit into it. */
#ifndef EXAMPLES_LANGUAGE_MODEL_TEXTS_H
#define EXAMPLES_LANGUAGE_MODEL_TEXTS_H

#include <stddef.h>

typedef struct texts {
    const char *name; /* of a single word, for sentences; otherwise "the text" */
    const char *bytes;
    size_t count;
    size_t *end; /* [documents] where each document ends in bytes */
    size_t documents;
} texts;

/* Opens the texts that the words name. A file or a pipe is one document, and so is "-", the standard input, which is
 * read to its end. A folder holds one document in each of its regular files, in the order of their names; it leaves out
 * empty files, hidden files and folders within it. Ends the program with a sentence for a word that cannot be read or
 * has no text. */
texts open_texts(const char *const *words, int count);
void close_texts(texts *text);

#endif
