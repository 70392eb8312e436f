/* An open GGUF file, version 2 or 3:
 *
 *     "GGUF", uint32 version, uint64 number of tensors, uint64 number of values
 *     values:  key, uint32 type, the value
 *     tensors: name, uint32 axes, uint64 sizes (the last axis first), uint32 type, uint64 offset
 *     padding up to a multiple of general.alignment (32), then the elements of all tensors
 *
 * Numbers are little-endian. A string is a uint64 length and its bytes. All file input is untrusted: opening checks
 * every length, count, type and offset. The header is read, not mapped. Tensors are read, or mapped as parameters of a
 * frozen model (models/files/mapping.h). */
#ifndef TH_MODELS_GGUF_FILE_H
#define TH_MODELS_GGUF_FILE_H

#include "models/families/ranges.h"
#include "models/gguf/types.h"

enum {
    TH_GGUF_MAX_HEADER = 1 << 28, /* bytes before the elements */
    TH_GGUF_MAX_VALUES = 1 << 16,
    TH_GGUF_MAX_TENSORS = 1 << 16,
    TH_GGUF_MAX_KEY = 256,
    TH_GGUF_MAX_NAME = 256,
    TH_GGUF_MAX_ALIGNMENT = 1 << 20
};

/* The types of values, with their codes. */
typedef enum th_gguf_kind {
    TH_GGUF_UINT8,
    TH_GGUF_INT8,
    TH_GGUF_UINT16,
    TH_GGUF_INT16,
    TH_GGUF_UINT32,
    TH_GGUF_INT32,
    TH_GGUF_FLOAT32,
    TH_GGUF_BOOL,
    TH_GGUF_STRING,
    TH_GGUF_ARRAY,
    TH_GGUF_UINT64,
    TH_GGUF_INT64,
    TH_GGUF_FLOAT64,
    TH_GGUF_KINDS
} th_gguf_kind;

typedef struct th_gguf_value {
    const char *key;
    th_gguf_kind kind, item; /* item: of an array's elements */
    uint64_t count;          /* bytes of a string, elements of an array */
    const char *bytes;       /* the value itself */
} th_gguf_value;

typedef struct th_gguf_tensor {
    const char *name;
    const th_gguf_type *type;
    th_shape shape; /* in numbers, the last axis last */
    int64_t begin;  /* from the beginning of the file */
    int64_t bytes;
    int64_t users; /* how often th_gguf_find_tensor has returned it */
} th_gguf_tensor;

typedef struct th_gguf {
    th_context *ctx;
    const char *operation, *path; /* for messages; the caller keeps them */
    int descriptor;               /* -1: none */
    int64_t file_bytes;
    th_gguf_value *value;   /* [n_values] */
    th_gguf_tensor *tensor; /* [n_tensors] sorted by name */
    int64_t n_values, n_tensors;
    char *header; /* [capacity] */
    size_t capacity;
    size_t value_bytes, tensor_bytes; /* of the two arrays */
} th_gguf;

/* Opens and checks the file. Returns false with TH_ERROR_FILE pending; then nothing is open. */
bool th_gguf_open(th_gguf *file, th_context *ctx, const char *operation, const char *path);
/* Does the same with the bytes of a file without tensors in memory; `path` is its name in messages. */
bool th_gguf_open_bytes(th_gguf *file, th_context *ctx, const char *operation, const char *path, const void *bytes,
                        size_t count);
/* Closes the file; a second call does nothing. */
void th_gguf_close(th_gguf *file);

/* Sets TH_ERROR_FILE: the path, and a sentence. Returns false. */
bool th_gguf_refuse(const th_gguf *file, const char *format, ...) TH_FORMAT(2, 3);

/* Returns the value, or NULL. */
const th_gguf_value *th_gguf_find(const th_gguf *file, const char *key);
/* Returns the tensor, or NULL. */
th_gguf_tensor *th_gguf_find_tensor(const th_gguf *file, const char *name);

/* Each sets *result and returns true; a missing key leaves *result. A value of another type or range is TH_ERROR_FILE,
 * and the function returns false. 0 is in the range of every real: most keys mean "off" by it. Reals are float32 in
 * most files; the result is then the number with the fewest decimal digits that rounds to it, because 1e-5 was meant
 * and not 9.99999974738e-06. */
bool th_gguf_integer(const th_gguf *file, const char *key, int64_t low, int64_t high, int64_t *result);
bool th_gguf_real(const th_gguf *file, const char *key, th_range range, double *result);
bool th_gguf_flag(const th_gguf *file, const char *key, bool *result);
/* Sets *text to the bytes of a string, which have no NUL at their end. */
bool th_gguf_text(const th_gguf *file, const char *key, const char **text, size_t *bytes);
/* Whether the value is this string. */
bool th_gguf_has_text(const th_gguf *file, const char *key, const char *text);
/* Returns an array of strings, of int32 or of float32; NULL if the key is missing, or with TH_ERROR_FILE if it has
 * another type. */
const th_gguf_value *th_gguf_array(const th_gguf *file, const char *key, th_gguf_kind item);

/* Steps through an array of strings: begin with *at = value->bytes, and call at most value->count times. */
const char *th_gguf_next_string(const char **at, size_t *bytes);

/* Reads the elements of a tensor, tensor->bytes of them. TH_ERROR_FILE. */
th_status th_gguf_read(const th_gguf *file, const th_gguf_tensor *tensor, void *to);

/* Checks that all sizes of the vocabulary are equal, and that the tokens that begin and end a text are inside. */
bool th_gguf_check_vocabulary(const th_gguf *file);

#define TH_GGUF_UNKNOWN_TOKEN "tokenizer.ggml.unknown_token_id"
#define TH_GGUF_BEGIN_TOKEN "tokenizer.ggml.bos_token_id"
#define TH_GGUF_END_TOKEN "tokenizer.ggml.eos_token_id"

#endif
