/* The calls of POSIX that the programs use. On Windows the library has them. */
#ifndef PROGRAMS_SHARED_SYSTEM_H
#define PROGRAMS_SHARED_SYSTEM_H

#include <stdlib.h>

#ifdef _WIN32
#include "models/posix/posix.h" /* (a private header: on Windows the programs are built with the library) */

#define default_temporary_folder th_posix_temporary_folder()
#else
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <signal.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define default_temporary_folder "/tmp"
#endif

/* Makes the words of the command line UTF-8 on Windows, and lets standard input and output pass every byte as it is. */
static inline void begin_process(int *argc, char ***argv)
{
#ifdef _WIN32
    th_posix_begin(argc, argv);
#else
    (void)argc;
    (void)argv;
#endif
}

/* Returns the folder for temporary files: TMPDIR, or the system's. */
static inline const char *temporary_parent(void)
{
    const char *const folder = getenv("TMPDIR");
    return folder && folder[0] ? folder : default_temporary_folder;
}

/* Creates a file that has no name. (Windows removes the name when the file is neither open nor mapped.) `name` has six
 * letters X at its end, which are replaced. Returns a descriptor; -1 with errno. */
static inline int open_unnamed_file(char *name)
{
    const int file = mkstemp(name);
#ifndef _WIN32
    if (file >= 0)
        unlink(name);
#endif
    return file;
}

#endif
