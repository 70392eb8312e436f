/* Writing a safetensors file from memory: tensors, and the moments of an optimizer.
 *
 * th_safetensors_write_contents writes the whole file. A caller whose elements are not all in memory writes it tensor
 * by tensor:
 *
 *     th_safetensors_writer file;
 *     th_status status = th_safetensors_writer_begin(&file, &contents);
 *     if (status == TH_OK) {
 *         for (int64_t i = 0; i < contents.count; i++)
 *             th_safetensors_writer_next(&file, the elements of contents.tensor[i]);
 *         status = th_safetensors_writer_end(&file, TH_OK);
 *     } */
#ifndef TH_MODELS_SAVED_MODELS_SAFETENSORS_WRITE_H
#define TH_MODELS_SAVED_MODELS_SAFETENSORS_WRITE_H

#include "models/core/files.h"
#include "tapehead/op.h"
#include "tapehead/safetensors.h"

typedef struct th_safetensors_item {
    const char *name;
    th_array array;     /* with data, unless it is empty; th_safetensors_writer_begin uses only its type and shape */
    const void *source; /* for the caller */
} th_safetensors_item;

typedef struct th_safetensors_contents {
    th_context *ctx;
    const char *operation, *path;
    th_safetensors_item *tensor; /* [count]; sorted into the order of the file */
    int64_t count;
    const th_named_text *metadata; /* [n_metadata] */
    int64_t n_metadata;
    /* NULL, or the name of an additional last tensor of checksums, U32 (count + 1): the CRC-32C of each tensor in the
     * order of the file, then of all bytes before the tensors. */
    const char *checksums;
} th_safetensors_contents;

/* Writes the file. TH_ERROR_FILE. */
th_status th_safetensors_write_contents(const th_safetensors_contents *s);

/* Sorts tensors into the order of the file. */
void th_safetensors_sort_items(th_safetensors_item *tensor, int64_t count);

/* A file that is being written. It must not move. */
typedef struct th_safetensors_writer {
    const th_safetensors_contents *contents;
    char *header; /* with its length */
    size_t header_bytes;
    uint32_t *sums;   /* [count + 1]; NULL without checksums */
    int64_t next;     /* the tensor that is written next */
    int error_number; /* the value of errno after a failed write; nothing is written after it */
    th_atomic_file file;
} th_safetensors_writer;

/* Sorts the tensors, opens the file and writes the header. After an error th_safetensors_writer_end must not be
 * called. */
th_status th_safetensors_writer_begin(th_safetensors_writer *f, const th_safetensors_contents *s);
/* Writes the elements of the next tensor. th_safetensors_writer_end reports an error; until then further calls are
 * allowed. */
void th_safetensors_writer_next(th_safetensors_writer *f, const th_array *elements);
/* Completes the file. If status is not TH_OK, an error is pending: discards the file and returns status. */
th_status th_safetensors_writer_end(th_safetensors_writer *f, th_status status);

/* Writes the whole file under its temporary name; th_safetensors_writer_publish or th_atomic_discard follows. */
th_status th_safetensors_writer_prepare(th_safetensors_writer *f, const th_safetensors_contents *s);

/* The two halves of th_safetensors_writer_end, as of th_atomic_end: the file is complete, and then gets its name. */
th_status th_safetensors_writer_finish(th_safetensors_writer *f, th_status status);
th_status th_safetensors_writer_publish(th_safetensors_writer *f);

/* Returns a list of named tensors, which th_release frees with *bytes, for th_safetensors_contents.tensor; NULL with
 * the error pending. */
th_safetensors_item *th_safetensors_list_items(th_context *ctx, const char *operation, const th_named_tensor *tensors,
                                               int64_t count, size_t *bytes);

#endif
