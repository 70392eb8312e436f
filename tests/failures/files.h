/* Compares the files that a program leaves in its folder with the files of an undisturbed run. */
#ifndef FAILURES_FILES_H
#define FAILURES_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FILES = 32 };

typedef struct known_file {
    char name[128]; /* relative to the folder */
    uint32_t hash;
    int64_t bytes;
    bool whole_lines; /* the last byte is a newline, or the file is empty */
} known_file;

typedef struct known_files {
    known_file file[FILES];
    int count;
} known_files;

/* Reads all files of a folder and of its folders. None of these functions leaves memory allocated. */
void read_files(known_files *files, const char *folder);
/* Removes them, but not the folders. */
void remove_files(const char *folder);
/* Removes a folder and everything in it. */
void remove_folder(const char *folder);
/* Returns NULL if each file is complete: it has the bytes of the file in `complete`. A log may lack lines at its end.
 * Otherwise returns a sentence. */
const char *find_damage(const known_files *complete, const char *folder);

#endif
