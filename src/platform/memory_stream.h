/* A stream that writes to memory. */
#ifndef TH_PLATFORM_MEMORY_STREAM_H
#define TH_PLATFORM_MEMORY_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Must not move while it is open. */
typedef struct th_memory_stream {
    FILE *file;
    char *text; /* after th_memory_close: the written bytes, then a zero; the caller frees it */
    size_t bytes;
} th_memory_stream;

/* Opens the stream. Returns false without memory. */
bool th_memory_open(th_memory_stream *s);
/* Closes the stream. Returns false, with text = NULL, if anything could not be written. */
bool th_memory_close(th_memory_stream *s);

#endif
