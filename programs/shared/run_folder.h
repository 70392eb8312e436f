/* What the programs share: paths in the folder of a run, its lock, the form of models, and the clock. */
#ifndef PROGRAMS_SHARED_RUN_FOLDER_H
#define PROGRAMS_SHARED_RUN_FOLDER_H

#include <tapehead/models.h>

/* The name of the program, with which messages begin. Each program defines it. */
extern const char *const program_name;

/* The newest checkpoint of a run, in its folder. */
#define NEWEST_CHECKPOINT "last.safetensors"

/* Returns the path RUN/NAME, in memory that is valid for four calls. */
const char *path_in(const char *run, const char *name);
/* Returns the path as a word of a command line: "./-x" instead of "-x", which would be an option. In the memory of
 * path_in. */
const char *as_word(const char *path);
/* Ends the program: "PATH cannot be WHAT: " and the reason in errno. */
_Noreturn void give_up_file(const char *path, const char *what);
/* Creates the folder unless it is there. Ends the program if a link is at the path, so that files of an untrusted run
 * stay in its folder. */
void create_folder(const char *path);
/* Locks the run against other processes until this one ends. Ends the program if another process holds the lock. */
void lock_run(const char *run);

/* Whether the path is a file that begins with "GGUF". */
bool is_gguf(const char *path);

/* Returns the type of weights that export writes. block_types: also those of GGUF files. Ends the program for another
 * word. */
th_dtype parse_export_type(const char *name, bool block_types);

/* Returns the seconds of a monotonic clock. */
double monotonic_seconds(void);

#endif
