/* The files of a folder, and which of them may be there after a failure. */
#ifndef TESTS_CALLS_FILES_H
#define TESTS_CALLS_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { MOST_FILES = 24, LONGEST_NAME = 128 };

typedef struct calls_file {
    char name[LONGEST_NAME]; /* within the folder */
    mode_t mode;
    char *bytes; /* of a link: the name that it leads to */
    size_t count;
} calls_file;

typedef struct calls_files {
    int count;
    calls_file file[MOST_FILES];
} calls_files;

/* Reads all files of the folder and of its folders. */
void calls_files_read(calls_files *files, const char *folder);
void calls_files_free(calls_files *files);
/* Removes all files of the folder and its folders, and creates it again. */
void calls_folder_empty(const char *folder);

/* Whether every file is the old one or the new one, and complete. A JSON log (*.jsonl) may have whole lines of either,
 * a file of TensorBoard (events.*) whole records. Files in a folder whose config.json is gone may be gone too. With
 * `leftovers`, unfinished files and lines may be there. Prints what is wrong. */
bool calls_files_allowed(const calls_files *now, const calls_files *old, const calls_files *new, bool leftovers);
/* Whether every file is the new one. Files of `old` that are not in `new` may be there. Prints what is wrong. */
bool calls_files_new(const calls_files *now, const calls_files *old, const calls_files *new);

#endif
