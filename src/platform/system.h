/* What programs ask the operating system for: time, memory, libraries, terminals, features of the processor. */
#ifndef TH_PLATFORM_SYSTEM_H
#define TH_PLATFORM_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Returns a time in nanoseconds that never runs backward. */
int64_t th_nanoseconds_now(void);

/* Allocates as aligned_alloc does. Returns memory for th_aligned_free. */
void *th_aligned_allocate(size_t alignment, size_t bytes);
void th_aligned_free(void *memory);

/* Loads a shared library by its name. Returns NULL if the system does not find it. */
void *th_library_open(const char *name);
/* Returns the address of a function of the library, or NULL. */
void *th_library_find(void *library, const char *name);
void th_library_close(void *library);

/* The names of OpenBLAS on this system, best first. */
#if defined _WIN32
#define TH_OPENBLAS_NAMES "libopenblas.dll"
#elif defined __APPLE__
#define TH_OPENBLAS_NAMES "libopenblas.0.dylib", "libopenblas.dylib"
#else
#define TH_OPENBLAS_NAMES "libopenblas.so.0", "libopenblas.so"
#endif

/* Returns whether the stream writes to a terminal that understands escape sequences. */
bool th_is_terminal(FILE *file);
/* Returns the number of columns of a terminal; 0 if they are unknown. */
int th_terminal_columns(FILE *file);

/* Returns whether this processor has the instructions for CRC-32C of AArch64. */
bool th_processor_has_crc32(void);

#endif
