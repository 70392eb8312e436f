/* Reads and writes tensors as NumPy's .npy, format 1.0, which numpy.save writes and numpy.load reads. Types: float32,
 * float64, int32, int64 and bool, little endian, up to 8 dimensions. Errors are TH_ERROR_FILE: for a file that cannot
 * be opened, read or written, and for every kind of damage.
 *
 * Every file that the library writes whole (arrays, checkpoints, safetensors, tokens, tokenizers, pictures, traces)
 * replaces the old one in one step and keeps its permissions. Until it is complete, its name is PATH.unfinished0, or
 * has a higher number. A symbolic link at the path is followed if you own it and it leads to a name in its own folder.
 * The new file replaces any other link. So an untrusted folder cannot make a program write outside that folder. */
#ifndef TAPEHEAD_NPY_H
#define TAPEHEAD_NPY_H

#include "tapehead/base.h"

TH_BEGIN_DECLS

/* Returns the array in a file as a new tensor with the ownership of tensors from th_empty. An array in Fortran order
 * becomes row-major. The file's size must agree exactly with its header; this is checked before any memory is taken.
 * Returns NULL with the error pending. */
TH_API th_tensor *th_npy_read(th_context *ctx, const char *path);
/* As th_npy_read, from the current position of a regular file opened for reading. Afterwards the position is behind the
 * array, so a file can contain several. */
TH_API th_tensor *th_npy_read_from(th_context *ctx, FILE *file);

/* Writes t, of any layout, in row-major order. A regular file appears at path only when it is complete. Until then,
 * and after an error, the old file stays. */
TH_API th_status th_npy_write(th_tensor *t, const char *path) TH_MUST_CHECK;
/* As th_npy_write, to a stream opened for writing, which it flushes. */
TH_API th_status th_npy_write_to(th_tensor *t, FILE *file) TH_MUST_CHECK;

#ifndef TAPEHEAD_NO_LOCATIONS
#define th_npy_read(...) TH_AT(th_npy_read(__VA_ARGS__))
#define th_npy_read_from(...) TH_AT(th_npy_read_from(__VA_ARGS__))
#define th_npy_write(...) TH_AT_STATUS(th_npy_write(__VA_ARGS__))
#define th_npy_write_to(...) TH_AT_STATUS(th_npy_write_to(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
