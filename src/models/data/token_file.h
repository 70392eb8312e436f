/* A token file in memory, and its header; for the files that read, write and cut it into windows. */
#ifndef TH_MODELS_DATA_TOKEN_FILE_H
#define TH_MODELS_DATA_TOKEN_FILE_H

#include "tapehead/token_file.h"
#include "tensor/context.h"

enum { TH_TOKEN_HEADER = 64, TH_TOKEN_BLOCK = 1 << 20 }; /* bytes of the header; of what has one checksum */

typedef struct th_token_header {
    int64_t width; /* bytes of a token */
    int64_t count, vocabulary;
} th_token_header;

struct th_token_file {
    th_context *ctx;
    char *path;
    th_token_header header;
    const unsigned char *map; /* the whole file */
    int64_t bytes, blocks;
    unsigned char *checked; /* [blocks], 1: has its checksum */
    int holds;              /* the user's, and one for each th_windows */
};

/* The width that tokens of this vocabulary have. */
int64_t th_token_width(int64_t vocabulary);
/* To and from the bytes of a file. Reading: NULL, or what is wrong as the end of a sentence. */
void th_token_header_write(const th_token_header *header, unsigned char bytes[TH_TOKEN_HEADER]);
const char *th_token_header_read(const unsigned char bytes[TH_TOKEN_HEADER], th_token_header *header);
/* Blocks of so many tokens. */
int64_t th_token_blocks(const th_token_header *header);

/* Tokens begin .. begin + count, which there are, after their checksums. */
th_status th_token_file_get(th_token_file *file, int64_t begin, int64_t count, int32_t *tokens);
/* One hold less; at 0 the file is closed. */
void th_token_file_drop(th_token_file *file);

#endif
