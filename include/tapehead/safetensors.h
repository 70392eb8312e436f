/* Reads and writes named tensors in Hugging Face's safetensors format, which transformers, PyTorch users and most
 * model archives exchange. Reading is stricter than the reference library: it also rejects repeated keys, headers of
 * more than 16 MiB or nested deeper than 4, and members that the format does not know. Errors are TH_ERROR_FILE with
 * the path, the tensor and the numbers.
 *
 *     th_safetensors *file = th_safetensors_open(ctx, "model.safetensors");
 *     th_tensor *table = th_safetensors_read(file, "transformer.wte.weight");
 *     th_safetensors_close(file);
 */
#ifndef TAPEHEAD_SAFETENSORS_H
#define TAPEHEAD_SAFETENSORS_H

#include "tapehead/base.h"

TH_BEGIN_DECLS

typedef struct th_safetensors th_safetensors;

/* One tensor of a file. Names and types live until the file is closed. */
typedef struct th_stored_tensor {
    const char *name;
    const char *type; /* as the file says: "F32", "BF16", "I64", ... */
    bool readable;    /* false for types that are listed but cannot be read (F8_E4M3, C64, ...) */
    th_dtype dtype;   /* of th_safetensors_read: float64 for F64, float32 for F32, F16 and BF16, int64 for I64,
                     * U64 and U32, int32 for shorter integers, bool for BOOL */
    th_shape shape;
    int64_t bytes; /* in the file */
} th_stored_tensor;

/* -- reading -- */
/* Opens and verifies a file, without reading its tensors. A path that ends in ".index.json" is an index and opens all
 * of its files. In a folder it opens model.safetensors, or else model.safetensors.index.json. The files stay open
 * until th_safetensors_close or the end of the context; meanwhile they may be replaced or removed. Returns NULL with
 * the error pending. The functions below accept NULL as file, and return NULL, 0 or an error. */
TH_API th_safetensors *th_safetensors_open(th_context *ctx, const char *path);
/* Closes the file; NULL is allowed. */
TH_API void th_safetensors_close(th_safetensors *file);

/* Returns the number of tensors. */
TH_API int64_t th_safetensors_count(const th_safetensors *file);
/* Returns a tensor by its index, in the order of the file or the index file. Returns NULL, without an error, outside
 * 0 .. count-1. */
TH_API const th_stored_tensor *th_safetensors_at(const th_safetensors *file, int64_t index);
/* Returns a tensor by its name; NULL, without an error, if the file does not have it. */
TH_API const th_stored_tensor *th_safetensors_find(const th_safetensors *file, const char *name);
/* Returns a text of the file's "__metadata__" (of an index: of its first file). Returns NULL, without an error, if the
 * file does not have the key. */
TH_API const char *th_safetensors_metadata(const th_safetensors *file, const char *key);

/* Reads a tensor into a new one with the ownership of tensors from th_empty. TH_ERROR_TYPE for a type that is not
 * readable. Returns NULL with the error pending. */
TH_API th_tensor *th_safetensors_read(th_safetensors *file, const char *name);
/* Reads into a tensor of the same shape and any layout. Floating numbers go into either floating type, rounded as C
 * does; integers into an index type that holds all of them; BOOL into bool. TH_ERROR_SHAPE, TH_ERROR_TYPE. */
TH_API th_status th_safetensors_read_into(th_safetensors *file, const char *name, th_tensor *t) TH_MUST_CHECK;

/* -- writing -- */
/* A tensor to write. */
typedef struct th_named_tensor {
    const char *name; /* UTF-8, not "__metadata__" */
    th_tensor *tensor;
} th_named_tensor;
/* A text of "__metadata__". */
typedef struct th_named_text {
    const char *name, *text; /* UTF-8 */
} th_named_text;

/* Writes `count` tensors of any layout one after another, without copying them. Tensors with longer elements come
 * first, so all are aligned. metadata, of n_metadata texts, may be NULL. A regular file appears at path only when it
 * is complete and has reached the disk. Until then, and after an error, the old file stays. */
TH_API th_status th_safetensors_write(th_context *ctx, const char *path, const th_named_tensor *tensors, int64_t count,
                                      const th_named_text *metadata, int64_t n_metadata) TH_MUST_CHECK;

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_safetensors_open(...) TH_AT_POINTER(th_safetensors, th_safetensors_open(__VA_ARGS__))
#define th_safetensors_read(...) TH_AT(th_safetensors_read(__VA_ARGS__))
#define th_safetensors_read_into(...) TH_AT_STATUS(th_safetensors_read_into(__VA_ARGS__))
#define th_safetensors_write(...) TH_AT_STATUS(th_safetensors_write(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
