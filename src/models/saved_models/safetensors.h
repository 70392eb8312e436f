/* The internals of an open safetensors file: safetensors_header.c verifies one file, safetensors_open.c opens one
 * file or the files of an index, safetensors_read.c finds and reads tensors. (Writing: safetensors_write.h.) Files
 * are read, so a file that is truncated while it is open gives an error, not a signal. Only hugging_face_model.c maps
 * matrices. */
#ifndef TH_MODELS_SAVED_MODELS_SAFETENSORS_H
#define TH_MODELS_SAVED_MODELS_SAFETENSORS_H

#include "models/core/tensors.h"
#include "models/saved_models/safetensors_types.h"
#include "tapehead/safetensors.h"

enum { TH_SAFETENSORS_MAX_HEADER = 1 << 24, TH_SAFETENSORS_MAX_DEPTH = 4 };

/* One tensor of one file. */
typedef struct th_safetensors_entry {
    th_stored_tensor tensor; /* first: the public part */
    const th_safetensors_type *type;
    const struct th_safetensors_file *file;
    int64_t begin; /* bytes from the beginning of the file */
} th_safetensors_entry;

/* One file. Its memory is one block: the tables, the path, then names and texts. */
typedef struct th_safetensors_file {
    int descriptor;
    const char *path;
    int64_t header_bytes; /* including the eight bytes of the header's length */
    int64_t count, n_metadata;
    th_safetensors_entry *entry;          /* [count] in the order of the file */
    th_named_text *metadata;              /* [n_metadata] */
    const th_safetensors_entry **by_name; /* [count] */
    void *memory;
    size_t bytes;
} th_safetensors_file;

struct th_safetensors {
    th_context *ctx;
    th_safetensors_file *file; /* [n_files] */
    int64_t n_files, file_capacity, count;
    const th_safetensors_entry **in_order, **by_name; /* [count] */
};

/* Opens and verifies one file. Returns false with the error pending; then nothing is open. */
bool th_safetensors_file_open(th_context *ctx, const char *operation, const char *path, th_safetensors_file *file);
/* Closes a file; also one that could not be opened. */
void th_safetensors_file_close(th_context *ctx, th_safetensors_file *file);
/* Sorts by name. */
void th_safetensors_sort(const th_safetensors_entry **by_name, int64_t count);
/* Returns the tensor of that name in a sorted array, or NULL. */
const th_safetensors_entry *th_safetensors_search(const th_safetensors_entry *const *by_name, int64_t count,
                                                  const char *name);

/* Reads `bytes` bytes, which begin at byte `begin` of the file. TH_ERROR_FILE. */
th_status th_safetensors_file_read(th_context *ctx, const th_safetensors_file *file, int64_t begin, void *to,
                                   size_t bytes, const char *operation);
/* Reads into a tensor of the same shape and a type that fits. TH_ERROR_FILE if reading fails, or if an element does
 * not fit the type. */
th_status th_safetensors_entry_read(const th_safetensors_entry *entry, const th_tensor_impl *t, const char *operation);
/* Computes the CRC-32C of `bytes` at `begin` of the file. */
th_status th_safetensors_range_checksum(th_context *ctx, const th_safetensors_file *file, int64_t begin, int64_t bytes,
                                        const char *operation, uint32_t *crc);

#endif
