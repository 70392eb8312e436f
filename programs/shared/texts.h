/* The sources of text: files, folders of files, pipes and standard input. Each file or stream is a document. All
 * documents are mapped, one after another, so they need not fit into the machine's memory. Files and streams that gzip or
 * zstd has compressed are decompressed. */
#ifndef PROGRAMS_SHARED_TEXTS_H
#define PROGRAMS_SHARED_TEXTS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct texts {
    const char *name; /* a single word, or "the text"; for messages */
    const char *bytes;
    size_t count;
    size_t *end;  /* [documents]: the offset of each document's end in bytes */
    char **paths; /* [documents]: for messages */
    size_t documents;
    size_t held_out; /* of the documents: the last ones are for validation only */
} texts;

/* Returns whether the text for training, or the one for validation, has several documents. */
bool has_documents(const texts *text);

/* Opens the texts that the words name. A file or a pipe is one document, and so is "-", the standard input, which is
 * read to its end. A folder holds one document in each of its regular files, in the order of their names; it leaves out
 * empty files, hidden files and folders within it. validation: NULL, or another such word, whose documents come last.
 * Ends the program with a message if a word cannot be read or has no text. */
texts open_texts(const char *const *words, int count, const char *validation);
/* Unmaps and frees the texts. */
void close_texts(texts *text);

#endif
