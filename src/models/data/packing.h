/* Documents packed into windows of fixed length. */
#ifndef TH_MODELS_DATA_PACKING_H
#define TH_MODELS_DATA_PACKING_H

#include "models/data/token_file.h"

/* A document, or the part of a long one that fits a window. */
typedef struct th_packed_piece {
    int64_t first;  /* its first token in the file */
    int64_t places; /* its tokens except the last, which is a target only */
} th_packed_piece;

/* The pieces of all windows: window w has the pieces begin[w] .. begin[w + 1] - 1. */
typedef struct th_packing {
    int64_t windows, pieces;
    int64_t *begin;         /* [windows + 1] */
    th_packed_piece *piece; /* [pieces] */
    int64_t targets;        /* in all windows */
} th_packing;

/* Packs the documents among the tokens begin .. end of a file with marks into windows of this length. On an error,
 * which is stored, the packing is empty. */
th_status th_pack(th_token_file *file, int64_t begin, int64_t end, int64_t length, th_packing *packing);
void th_packing_free(th_context *ctx, th_packing *packing);

#endif
