/* The checkpoints of a run: last.safetensors is the newest, last.1.safetensors the one before, and so on. */
#ifndef EXAMPLES_LANGUAGE_MODEL_CHECKPOINTS_H
#define EXAMPLES_LANGUAGE_MODEL_CHECKPOINTS_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/run_folder.h"

/* A checkpoint is saved as NEXT_CHECKPOINT. When it is complete, it is renamed to NEWEST_CHECKPOINT. */
#define NEXT_CHECKPOINT "next.safetensors"

enum { MAX_CHECKPOINTS = 100 };

/* Makes NEXT_CHECKPOINT the newest checkpoint, and keeps the keep - 1 newest of the others. Whenever the process ends,
 * there is a complete checkpoint. Ends the program with a message if a file cannot be renamed. */
void rotate_checkpoints(const char *run, int64_t keep);
/* Returns whether the folder has a checkpoint, the newest or an older one. */
bool has_checkpoint(const char *run);
/* Returns the name of the newest intact checkpoint. Prints a message to standard error for each newer one, which is
 * damaged. Ends the program if no checkpoint is intact. */
const char *find_intact_checkpoint(const char *run);
/* Makes this checkpoint, which is intact and loaded, the newest. The newer ones, which are damaged, get names that end
 * in ".damaged". */
void return_to_checkpoint(const char *run, const char *name);

#endif
