/* An open safetensors file from inside: safetensors_header.c verifies one file, safetensors_open.c opens it or those of
 * an index, safetensors_read.c reads numbers. (Writing: safetensors_write.h.) Files are read, not mapped: one that is
 * cut while it is open gives an error, not a signal. */
#ifndef TH_MODELS_STORE_SAFETENSORS_H
#define TH_MODELS_STORE_SAFETENSORS_H

#include "models/store/stored_types.h"
#include "tapehead/safetensors.h"
#include "tensor/tensor.h"

enum { TH_SAFETENSORS_MAX_HEADER = 1 << 24, TH_SAFETENSORS_MAX_DEPTH = 4 };

/* One tensor of one file. */
typedef struct th_stored {
    th_stored_tensor tensor; /* first: what users see */
    const th_stored_type *type;
    const struct th_stored_file *file;
    int64_t begin; /* bytes from the beginning of the file */
} th_stored;

/* One file. Its memory is one piece: the path, then names and texts. */
typedef struct th_stored_file {
    int descriptor;
    char *path;
    int64_t header_bytes; /* with the eight that say how many follow */
    int64_t count, n_metadata;
    th_stored *entry;          /* [count] in the order they lie */
    th_named_text *metadata;   /* [n_metadata] */
    const th_stored **by_name; /* [count] */
    void *memory;
    size_t bytes;
} th_stored_file;

struct th_safetensors {
    th_context *ctx;
    th_stored_file *file; /* [n_files] */
    int64_t n_files, file_capacity, count;
    const th_stored **in_order, **by_name; /* [count] */
};

/* Opens and verifies one file; false with the error stored, and nothing is open. */
bool th_stored_file_open(th_context *ctx, const char *operation, const char *path, th_stored_file *file);
void th_stored_file_close(th_context *ctx, th_stored_file *file);
/* By name; the one of that name among them, or NULL. */
void th_stored_sort(const th_stored **by_name, int64_t count);
const th_stored *th_stored_search(const th_stored *const *by_name, int64_t count, const char *name);

/* What a function given this file, and perhaps a name, works on; NULL with the error stored. */
const th_stored *th_stored_find(const th_safetensors *file, const char *name, const char *operation);
/* `bytes` at `begin` of the file, to memory; TH_ERROR_FILE. */
th_status th_stored_bytes(th_context *ctx, const th_stored_file *file, int64_t begin, void *to, size_t bytes,
                          const char *operation);
/* Into a tensor of the same shape and a type that fits. TH_ERROR_FILE: it cannot be read, or a number does not fit. */
th_status th_stored_read(const th_stored *stored, const th_tensor_impl *t, const char *operation);
/* CRC-32C of `bytes` at `begin` of the file. */
th_status th_stored_range_checksum(th_context *ctx, const th_stored_file *file, int64_t begin, int64_t bytes,
                                   const char *operation, uint32_t *crc);

#endif
