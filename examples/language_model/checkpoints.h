/* The checkpoints of a run: last.safetensors is the newest, last.1.safetensors the one before, and so on. */
#ifndef EXAMPLES_LANGUAGE_MODEL_CHECKPOINTS_H
#define EXAMPLES_LANGUAGE_MODEL_CHECKPOINTS_H

#include <stdbool.h>
#include <stdint.h>

/* A checkpoint is saved under the first name, and is the newest under the second when it is complete. */
#define NEXT_CHECKPOINT "next.safetensors"
#define NEWEST_CHECKPOINT "last.safetensors"

enum { MOST_CHECKPOINTS = 100 };

/* Makes NEXT_CHECKPOINT the newest checkpoint; of those before, the newest keep - 1 stay. Whenever the process ends,
 * there is a complete checkpoint. Ends the program with a sentence if a file cannot be renamed. */
void keep_checkpoint(const char *run, int64_t keep);
/* Whether the folder has a checkpoint, the newest or an older one. */
bool has_checkpoint(const char *run);
/* The name of the newest checkpoint that is intact, after a sentence on standard error for each newer one that is not.
 * Ends the program if none is. */
const char *find_intact_checkpoint(const char *run);
/* Makes this checkpoint, which was found intact and has been loaded, the newest. The damaged ones that were newer get
 * other names, which end in ".damaged". */
void return_to_checkpoint(const char *run, const char *name);

#endif
