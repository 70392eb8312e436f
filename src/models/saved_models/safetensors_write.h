/* Writing a safetensors file from memory: tensors, and the moments of an optimizer.
 *
 * th_store writes the whole file. A caller whose elements are not all in memory writes it tensor by tensor:
 *
 *     th_store_file file;
 *     th_status status = th_store_begin(&file, &storing);
 *     if (status == TH_OK) {
 *         for (int64_t i = 0; i < storing.count; i++)
 *             th_store_next(&file, the elements of storing.tensor[i]);
 *         status = th_store_end(&file, TH_OK);
 *     } */
#ifndef TH_MODELS_SAVED_MODELS_SAFETENSORS_WRITE_H
#define TH_MODELS_SAVED_MODELS_SAFETENSORS_WRITE_H

#include "models/core/files.h"
#include "tapehead/op.h"
#include "tapehead/safetensors.h"

typedef struct th_to_store {
    const char *name;
    th_array array;     /* with data, unless it is empty; th_store_begin uses only its type and shape */
    const void *source; /* for the caller */
} th_to_store;

typedef struct th_storing {
    th_context *ctx;
    const char *operation, *path;
    th_to_store *tensor; /* [count]; sorted into the order of the file */
    int64_t count;
    const th_named_text *metadata; /* [n_metadata] */
    int64_t n_metadata;
    /* NULL, or the name of an additional last tensor of checksums, U32 (count + 1): the CRC-32C of each tensor in the
     * order of the file, then of all bytes before the tensors. */
    const char *checksums;
} th_storing;

/* Writes the file. TH_ERROR_FILE. */
th_status th_store(const th_storing *s);

/* Sorts tensors into the order of the file. */
void th_store_sort(th_to_store *tensor, int64_t count);

/* A file that is being written. It must not move. */
typedef struct th_store_file {
    const th_storing *storing;
    char *header; /* with its length */
    size_t header_bytes;
    uint32_t *sums;   /* [count + 1]; NULL without checksums */
    int64_t next;     /* the tensor that is written next */
    int error_number; /* the value of errno after a failed write; nothing is written after it */
    th_atomic_file file;
} th_store_file;

/* Sorts the tensors, opens the file and writes the header. After an error th_store_end must not be called. */
th_status th_store_begin(th_store_file *f, const th_storing *s);
/* Writes the elements of the next tensor. th_store_end reports an error; until then further calls are allowed. */
void th_store_next(th_store_file *f, const th_array *elements);
/* Completes the file. If status is not TH_OK, an error is pending: discards the file and returns status. */
th_status th_store_end(th_store_file *f, th_status status);

/* Writes the whole file under its temporary name; th_store_publish or th_atomic_discard follows. */
th_status th_store_prepare(th_store_file *f, const th_storing *s);

/* The two halves of th_store_end, as of th_atomic_end: the file is complete, and then gets its name. */
th_status th_store_finish(th_store_file *f, th_status status);
th_status th_store_publish(th_store_file *f);

/* Returns a list of named tensors, which th_release frees with *bytes, for th_storing.tensor; NULL with the error
 * stored. */
th_to_store *th_store_list(th_context *ctx, const char *operation, const th_named_tensor *tensors, int64_t count,
                           size_t *bytes);

#endif
