/* The tensors of a GGUF file that is written. */
#ifndef TH_MODELS_GGUF_EXPORT_H
#define TH_MODELS_GGUF_EXPORT_H

#include <stdio.h>

#include "models/families/tensors.h"
#include "models/gguf/architecture.h"
#include "models/gguf/types.h"

/* A tensor of the file: one of the model's, or factors of rotary positions. */
typedef struct th_gguf_out {
    const char *name;
    const th_foreign_tensor *source; /* NULL: factors */
    const double *factors;
    const th_gguf_type *type;
    th_shape shape; /* in numbers */
    int64_t bytes;
} th_gguf_out;

typedef struct th_gguf_export {
    th_context *ctx;
    const char *operation;
    const th_gguf_architecture *architecture;
    const th_language_model_options *options; /* normal */
    th_dtype type;                            /* of matrices */
    th_foreign_tensors list;
    th_gguf_out *out; /* [n_out] */
    int64_t n_out;
    size_t out_bytes;
    double *factors; /* [factor_count] */
    size_t factor_count;
    bool reorder; /* queries and keys rotate halves in the model, and neighbors in the file */
} th_gguf_export;

enum { TH_GGUF_ALIGNMENT = 32 };

/* Returns llama.cpp's number for a file whose matrices have this type. */
uint32_t th_gguf_file_type(th_dtype type);

/* TH_ERROR_ARGUMENT if the path is NULL or too long, or the architecture unknown; TH_ERROR_STATE in a shapes-only
 * context. */
th_status th_gguf_check_target(th_context *ctx, const char *asker, const char *path, const char *architecture);
/* Returns the first architecture that has the options, or only the one of that name; NULL with the error pending. */
const th_gguf_architecture *th_gguf_choose_architecture(th_context *ctx, const char *asker,
                                                        const th_language_model_options *options, const char *only);

/* Adds a tensor to e->out, which has space for it. */
void th_gguf_add_tensor(th_gguf_export *e, const char *name, const th_foreign_tensor *source);
/* Lists the tensors. Views belong to the open scope. */
th_status th_gguf_list(th_gguf_export *e, th_module *model, const th_family *family);
void th_gguf_list_free(th_gguf_export *e);
/* Writes the file: header, values, tensors. Errors are errors of the stream, or stored in the context. */
void th_gguf_write_all(const th_gguf_export *e, FILE *file, const char *values, size_t bytes, int64_t n_values);
/* Writes the file under its name when it is complete. */
th_status th_gguf_publish(const th_gguf_export *e, const char *path, const char *values, size_t bytes,
                          int64_t n_values);

#endif
