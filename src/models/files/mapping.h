/* Maps parts of files as memory of parameters. The mapping is private: a write changes the memory of this process, and
 * not the file. A file that another program truncates meanwhile kills this process (SIGBUS), so a file in use must
 * be replaced by rename. */
#ifndef TH_MODELS_FILES_MAPPING_H
#define TH_MODELS_FILES_MAPPING_H

#include "models/core/tensors.h"

/* A part of an open file. */
typedef struct th_file_part {
    int descriptor;
    int64_t begin;
    size_t bytes;
} th_file_part;

/* Returns whether the part can be mapped as elements that need this alignment. The last page of the file may extend
 * beyond its end, and the part may extend into it. */
bool th_part_can_map(const th_file_part *part, size_t alignment);
/* Maps the part. Returns false if the system refuses. */
bool th_part_map(const th_file_part *part, th_lent_memory *memory);

/* Reads the part into data, the large ones with all threads of the context. Returns false after an error. */
bool th_part_read(th_context *ctx, const th_file_part *part, void *data);

#endif
