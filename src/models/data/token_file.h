/* The internals of an open token file, and its header. Shared by the files that read token files, write them, and cut
 * them into windows. */
#ifndef TH_MODELS_DATA_TOKEN_FILE_H
#define TH_MODELS_DATA_TOKEN_FILE_H

#include "tapehead/token_file.h"

enum { TH_TOKEN_HEADER = 64, TH_TOKEN_BLOCK = 1 << 20 }; /* bytes of the header; bytes of tokens with one checksum */
enum { TH_TOKEN_MARKS_AT = 30 };                         /* the lowest bit of the marks of a token */

typedef struct th_token_header {
    int64_t width; /* bytes of a token */
    int64_t count, vocabulary;
    bool marked; /* the tokens have marks */
} th_token_header;

struct th_token_file {
    th_context *ctx;
    char *path;
    th_token_header header;
    const unsigned char *map; /* the whole file */
    int64_t bytes, blocks;
    unsigned char *checked; /* [blocks], 1: the checksum was verified */
    int references;         /* one of the user, and one for each th_windows */
};

/* Returns the bytes of a token of this vocabulary. */
int64_t th_token_width(int64_t vocabulary, bool marked);
/* Returns the largest vocabulary of a file. */
int64_t th_token_max_vocabulary(bool marked);
/* Writes a header as the bytes of a file. */
void th_token_header_write(const th_token_header *header, unsigned char bytes[TH_TOKEN_HEADER]);
/* Reads a header from the bytes of a file. Returns NULL, or the end of a sentence that says what is wrong. */
const char *th_token_header_read(const unsigned char bytes[TH_TOKEN_HEADER], th_token_header *header);
/* Returns the number of blocks, each with a checksum. */
int64_t th_token_blocks(const th_token_header *header);

/* Copies the tokens begin .. begin + count, which must exist, after it has verified their checksums. */
th_status th_token_file_get(th_token_file *file, int64_t begin, int64_t count, int32_t *tokens);
/* Does the same for the marks. */
th_status th_token_file_get_marks(th_token_file *file, int64_t begin, int64_t count, unsigned char *marks);
/* Returns how many of the tokens begin .. end, which must exist, have no mark. It verifies no checksum. */
int64_t th_token_file_count_unmarked(const th_token_file *file, int64_t begin, int64_t end);
/* Removes a reference, and closes the file when none is left. */
void th_token_file_drop(th_token_file *file);

#endif
