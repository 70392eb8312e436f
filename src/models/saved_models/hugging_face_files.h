/* The weights of a folder of transformers as one file, or as several with an index. The files are written beside an
 * older model, and replace its files when all are complete:
 *
 *     th_weight_files s = {.ctx = ctx, .operation = operation, .folder = folder, .tensor = list, .n_tensors = count};
 *     if (th_weight_files_plan(&s, most) == TH_OK && th_weight_files_write(&s, values) == TH_OK)
 *         status = th_weight_files_publish(&s);
 *     th_weight_files_free(&s); */
#ifndef TH_MODELS_SAVED_MODELS_HUGGING_FACE_FILES_H
#define TH_MODELS_SAVED_MODELS_HUGGING_FACE_FILES_H

#include "models/saved_models/safetensors_write.h"

/* A file of weights. */
typedef struct th_weight_file {
    int64_t begin, end; /* its tensors in the list */
    char path[TH_MAX_PATH];
    th_safetensors_contents contents;
    th_safetensors_writer file;
} th_weight_file;

typedef struct th_weight_files {
    /* the caller's: */
    th_context *ctx;
    const char *operation, *folder;
    th_safetensors_item *tensor; /* [n_tensors] with type and shape; sorted within each file */
    int64_t n_tensors;
    /* private: */
    th_weight_file *file; /* [count] */
    int64_t count, finished, published;
    int64_t bytes, numbers; /* of all tensors */
    th_atomic_file index;
    bool has_index; /* it is complete and not yet published */
} th_weight_files;

/* Decides which tensors each file has: in their order, as many as fit `most` bytes, at least one. 0: one file. */
th_status th_weight_files_plan(th_weight_files *s, int64_t most);
/* Writes all files under temporary names, and keeps them open. `values` returns the elements of a tensor, which belong
 * to the scope, or NULL with the error pending. After an error the folder is as before. */
th_status th_weight_files_write(th_weight_files *s, th_tensor *(*values)(const th_safetensors_item *tensor));
/* Removes the weights of an older model and gives the files their names. In between, the folder has no complete
 * weights. */
th_status th_weight_files_publish(th_weight_files *s);
/* Discards what is not published, and releases the memory. */
void th_weight_files_free(th_weight_files *s);

#endif
