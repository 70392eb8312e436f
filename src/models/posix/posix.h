/* The calls of POSIX that this library and the programs use. Other systems have them; on Windows the files of this folder
 * do. Paths and names are UTF-8 there. A function does only what its callers need, and its comment says what differs.
 * This header comes after all other headers, because its macros have the names of functions. */
#ifndef TH_MODELS_POSIX_POSIX_H
#define TH_MODELS_POSIX_POSIX_H

#ifndef _WIN32

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#else

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <process.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#include "platform/system_calls.h"

/* Replaces the words of the command line by the same words in UTF-8, lets standard input and output pass every byte as
 * it is, and lets the console show UTF-8. A program calls it first. */
void th_posix_begin(int *argc, char ***argv);

/* -- files and folders (files.c) -- */

int th_posix_open(const char *path, int flags, ...); /* folders too; /dev/null is NUL */
ssize_t th_posix_read(int descriptor, void *to, size_t count);
ssize_t th_posix_write(int descriptor, const void *bytes, size_t count);
ssize_t th_posix_pread(int descriptor, void *to, size_t count, off_t begin);
int th_posix_fcntl(int descriptor, int command, ...); /* F_GETFD, F_DUPFD_CLOEXEC */
int th_posix_lstat(const char *path, struct th_posix_stat *status);
int th_posix_access(const char *path, int mode); /* F_OK */
int th_posix_unlink(const char *path);
int th_posix_link(const char *old_path, const char *new_path);
int th_posix_rename(const char *old_path, const char *new_path);
int th_posix_mkdir(const char *path, unsigned mode);
int th_posix_rmdir(const char *path);
char *th_posix_realpath(const char *path, char *resolved); /* resolved: NULL; the caller frees the result */
int th_posix_isatty(int descriptor);
/* The process keeps the lock until it ends; other threads of the process cannot take it either. LOCK_EX | LOCK_NB */
int th_posix_flock(int descriptor, int operation);

/* A folder that is read. Names that are not valid UTF-16 are left out. */
typedef struct th_posix_folder th_posix_folder;
typedef struct th_posix_entry {
    char d_name[3 * 260];
} th_posix_entry;
th_posix_folder *th_posix_opendir(const char *path);
th_posix_entry *th_posix_readdir(th_posix_folder *folder);
int th_posix_closedir(th_posix_folder *folder);
int th_posix_dirfd(th_posix_folder *folder);
int th_posix_scandir(const char *path, th_posix_entry ***list, int (*wanted)(const th_posix_entry *entry),
                     int (*compare)(const th_posix_entry **a, const th_posix_entry **b));
int th_posix_alphasort(const th_posix_entry **a, const th_posix_entry **b);
int th_posix_openat(int folder, const char *name, int flags);
int th_posix_fstatat(int folder, const char *name, struct th_posix_stat *status, int flags);
int th_posix_unlinkat(int folder, const char *name, int flags);

/* -- memory and temporary files (memory.c) -- */

/* Maps a file from its beginning, for reading. A mapped file cannot be replaced, so a mapping for writing is refused:
 * ENOTSUP. */
void *th_posix_mmap(void *address, size_t bytes, int protection, int flags, int descriptor, off_t begin);
int th_posix_munmap(void *address, size_t bytes);
/* A stream into a temporary file; th_posix_fclose reads it. */
FILE *th_posix_open_memstream(char **text, size_t *bytes);
int th_posix_fclose(FILE *file);
/* The file vanishes when it is neither open nor mapped: unlink must not be called. */
int th_posix_mkstemp(char *name);
char *th_posix_mkdtemp(char *name);
/* Returns the folder for temporary files. It is valid until the next call. */
const char *th_posix_temporary_folder(void);

/* -- the process (process.c) -- */

typedef void th_posix_handler(int signal_number);
/* SIGINT is Ctrl-C and Ctrl-Break. SIGHUP is the end of the console, of the session or of the system: Windows ends the
 * process five seconds after it. Nothing sends SIGTERM. Another thread calls the handler. */
th_posix_handler *th_posix_signal(int signal_number, th_posix_handler *handler);
int th_posix_raise(int signal_number);
typedef int th_posix_signals;
int th_posix_sigmask(int how, const th_posix_signals *set,
                     th_posix_signals *old); /* blocks all of these signals, or none */
long th_posix_sysconf(int name);
int th_posix_gethostname(char *name, size_t size);
int th_posix_getentropy(void *bytes, size_t count);
int th_posix_clock_gettime(int clock, struct timespec *time);
int th_posix_nanosleep(const struct timespec *time, struct timespec *rest);
struct tm *th_posix_localtime_r(const time_t *time, struct tm *result);

/* -- text (text.c) -- */

void *th_posix_memmem(const void *text, size_t count, const void *part, size_t part_count);
char *th_posix_strndup(const char *text, size_t most);
char *th_posix_strsep(char **text, const char *separators);
ssize_t th_posix_getline(char **line, size_t *capacity, FILE *file); /* (a console too, in UTF-8) */
int th_posix_fnmatch(const char *pattern, const char *text, int flags);
size_t th_posix_strftime(char *text, size_t size, const char *format, const struct tm *time); /* in the C locale */

/* -- the names of POSIX -- */

#define O_NOFOLLOW 0
#define O_NOCTTY 0
#define O_DIRECTORY 0
#define F_GETFD 1
#define F_DUPFD_CLOEXEC 2
#define LOCK_EX 2
#define LOCK_NB 4
#define AT_REMOVEDIR 1
#define PROT_READ 1
#define PROT_WRITE 2
#define MAP_SHARED 1
#define MAP_PRIVATE 2
#define MAP_FAILED ((void *)-1) /* NOLINT: as in POSIX */
#define FNM_PERIOD 4
#define _SC_PAGESIZE 1
#define _SC_PHYS_PAGES 2
#undef SIGHUP
#define SIGHUP 1
#undef SIG_BLOCK
#define SIG_BLOCK 0
#undef SIG_SETMASK
#define SIG_SETMASK 2
#ifndef CLOCK_MONOTONIC
#define CLOCK_REALTIME 0
#define CLOCK_MONOTONIC 1
#endif
#ifndef F_OK
#define F_OK 0
#endif
#ifndef STDIN_FILENO
#define STDIN_FILENO 0
#define STDOUT_FILENO 1
#define STDERR_FILENO 2
#endif
#undef S_ISREG
#undef S_ISDIR
#undef S_ISCHR
#undef S_ISBLK
#undef S_ISLNK
#define S_ISREG(mode) (((mode)&S_IFMT) == S_IFREG)
#define S_ISDIR(mode) (((mode)&S_IFMT) == S_IFDIR)
#define S_ISCHR(mode) (((mode)&S_IFMT) == S_IFCHR)
#define S_ISBLK(mode) 0
#define S_ISLNK(mode) ((mode) == TH_POSIX_LINK)

#ifndef TH_POSIX_SOURCE /* the files of this folder call the functions of the C library, too */
#undef stat
#undef fstat
#define stat th_posix_stat
#define lstat th_posix_lstat
#define fstat th_posix_fstat
#define open th_posix_open
#define read th_posix_read
#define write th_posix_write
#define pread th_posix_pread
#define fcntl th_posix_fcntl
#define access th_posix_access
#define unlink th_posix_unlink
#define link th_posix_link
#define rename th_posix_rename
#define mkdir th_posix_mkdir
#define rmdir th_posix_rmdir
#define realpath th_posix_realpath
#define isatty th_posix_isatty
#define flock th_posix_flock
#define DIR th_posix_folder
#define dirent th_posix_entry
#define opendir th_posix_opendir
#define th_open_folder th_posix_opendir
#define readdir th_posix_readdir
#define closedir th_posix_closedir
#define dirfd th_posix_dirfd
#define scandir th_posix_scandir
#define alphasort th_posix_alphasort
#define openat th_posix_openat
#define fstatat th_posix_fstatat
#define unlinkat th_posix_unlinkat
#define mmap th_posix_mmap
#define munmap th_posix_munmap
#define posix_madvise(address, bytes, advice) 0
#define open_memstream th_posix_open_memstream
#define fclose th_posix_fclose
#define mkstemp th_posix_mkstemp
#define mkdtemp th_posix_mkdtemp
#define signal th_posix_signal
#define raise th_posix_raise
#define sigset_t th_posix_signals
#define sigfillset(set) ((void)(*(set) = 0)) /* (a set has no content) */
#undef pthread_sigmask
#define pthread_sigmask th_posix_sigmask
#define sysconf th_posix_sysconf
#define gethostname th_posix_gethostname
#define getentropy th_posix_getentropy
#define clock_gettime th_posix_clock_gettime
#define nanosleep th_posix_nanosleep
#define localtime_r th_posix_localtime_r
#define memmem th_posix_memmem
#define strndup th_posix_strndup
#define strsep th_posix_strsep
#define getline th_posix_getline
#define getc_unlocked getc
#define fnmatch th_posix_fnmatch
#define locale_t int
#define LC_ALL_MASK 0
#define newlocale(mask, name, base) 1
#define freelocale(locale) ((void)(locale))
#define strftime_l(text, size, format, time, locale) th_posix_strftime(text, size, format, time)

#endif
#endif
#endif
