/* What src/platform uses of the C libraries of macOS and FreeBSD, for systems.sh: the compiler reads this file under the names of
 * all their headers. The types are those of the two systems where they matter for warnings; the values of macros do not matter.
 * fopencookie, off64_t and other names of glibc must not be here. */
#ifndef TESTS_SYSTEMS_H
#define TESTS_SYSTEMS_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* -- types -- */

typedef int64_t off_t;
typedef long ssize_t;
typedef int pid_t;
typedef uint32_t uid_t, gid_t;
typedef int64_t time_t;
#ifdef __APPLE__
typedef uint16_t mode_t, nlink_t;
typedef int32_t dev_t;
typedef uint64_t ino_t;
#else
typedef uint16_t mode_t;
typedef uint64_t nlink_t, dev_t, ino_t;
typedef int64_t id_t;
#endif

/* -- the C library -- */

typedef struct stream FILE;
#define INT_MAX 0x7fffffff
#define SEEK_SET 0
int *errno_of_thread(void);
#define errno (*errno_of_thread())
enum { EINTR = 4, EIO = 5, EACCES = 13, EEXIST = 17, ENOTDIR = 20, EINVAL = 22, ENOENT = 2, ENAMETOOLONG = 63 };
#define EWOULDBLOCK 35

void *memcpy(void *restrict, const void *restrict, size_t);
void *memset(void *, int, size_t);
void *memchr(const void *, int, size_t);
int strcmp(const char *, const char *);
int strncmp(const char *, const char *, size_t);
size_t strlen(const char *);
char *strcpy(char *restrict, const char *restrict);
char *strchr(const char *, int);
char *strrchr(const char *, int);
char *strerror(int);
int snprintf(char *restrict, size_t, const char *restrict, ...);
void free(void *);
void *aligned_alloc(size_t, size_t);

int fclose(FILE *);
int ferror(FILE *);
void clearerr(FILE *);
int fileno(FILE *);
size_t fread(void *restrict, size_t, size_t, FILE *restrict);
FILE *fdopen(int, const char *);
FILE *open_memstream(char **, size_t *);
FILE *funopen(const void *, int (*)(void *, char *, int), int (*)(void *, const char *, int),
              off_t (*)(void *, off_t, int), int (*)(void *));

typedef struct locale_data *locale_t;
#define LC_ALL_MASK 63
locale_t newlocale(int, const char *, locale_t);
locale_t uselocale(locale_t);
int freelocale(locale_t);

struct timespec {
    time_t tv_sec;
    long tv_nsec;
};
#ifdef __APPLE__
typedef enum { CLOCK_REALTIME, CLOCK_MONOTONIC = 6 } clockid_t;
#else
typedef int clockid_t;
#define CLOCK_REALTIME 0
#define CLOCK_MONOTONIC 4
#endif
int clock_gettime(clockid_t, struct timespec *);

/* -- files -- */

enum {
    O_RDONLY,
    O_WRONLY,
    O_NONBLOCK = 4,
    O_NOFOLLOW = 0x100,
    O_CREAT = 0x200,
    O_TRUNC = 0x400,
    O_EXCL = 0x800,
    O_NOCTTY = 0x20000,
    O_CLOEXEC = 0x1000000,
    O_DIRECTORY = 0x100000
};
#define F_GETFL 3
#define F_SETFL 4
#define F_DUPFD_CLOEXEC 67
#ifdef __APPLE__
#define F_FULLFSYNC 51
#endif
#define LOCK_EX 2
#define LOCK_NB 4

struct stat {
    dev_t st_dev;
    ino_t st_ino;
    nlink_t st_nlink;
    mode_t st_mode;
    uid_t st_uid;
    gid_t st_gid;
    off_t st_size;
};
#define S_ISREG(mode) (((mode)&0170000) == 0100000)
#define S_ISLNK(mode) (((mode)&0170000) == 0120000)

typedef struct folder DIR;
DIR *opendir(const char *);
int open(const char *, int, ...);
int close(int);
int fcntl(int, int, ...);
int flock(int, int);
int stat(const char *restrict, struct stat *restrict);
int lstat(const char *restrict, struct stat *restrict);
int fstat(int, struct stat *);
int fchmod(int, mode_t);
int fchown(int, uid_t, gid_t);
int fsync(int);
int ftruncate(int, off_t);
int rename(const char *, const char *);
int unlink(const char *);
off_t lseek(int, off_t, int);
ssize_t readlink(const char *restrict, char *restrict, size_t);
ssize_t write(int, const void *, size_t);
ssize_t pwrite(int, const void *, size_t, off_t);
ssize_t pread(int, void *, size_t, off_t);
int isatty(int);
int ioctl(int, unsigned long, ...);
struct winsize {
    unsigned short ws_row, ws_col;
};
#define TIOCGWINSZ 0x40087468UL

/* -- processes, threads, shared libraries -- */

pid_t getpid(void);
uid_t geteuid(void);
long sysconf(int);
#define _SC_NPROCESSORS_ONLN 58

void *dlopen(const char *, int);
void *dlsym(void *restrict, const char *restrict);
int dlclose(void *);
#define RTLD_NOW 2
#define RTLD_LOCAL 4

#ifdef __APPLE__
typedef uint32_t sigset_t;
typedef unsigned long pthread_key_t;
typedef struct mutex {
    long signature;
    char opaque[56];
} pthread_mutex_t;
typedef struct mutex pthread_cond_t, pthread_attr_t;
#define PTHREAD_MUTEX_INITIALIZER                                                                                      \
    {                                                                                                                  \
        0x32aaaba7,                                                                                                    \
        {                                                                                                              \
            0                                                                                                          \
        }                                                                                                              \
    }
#define PTHREAD_COND_INITIALIZER PTHREAD_MUTEX_INITIALIZER
#else
typedef struct signals {
    uint32_t bits[4];
} sigset_t;
typedef int pthread_key_t;
typedef struct mutex *pthread_mutex_t;
typedef struct condition *pthread_cond_t;
typedef struct attributes *pthread_attr_t;
#define PTHREAD_MUTEX_INITIALIZER NULL
#define PTHREAD_COND_INITIALIZER NULL
#endif
typedef struct thread *pthread_t;
enum { PTHREAD_CANCEL_DISABLE = 1, SIG_BLOCK = 1, SIG_SETMASK = 3 };
#define SIGILL 4
#define SIGTRAP 5
#define SIGFPE 8
#define SIGBUS 10
#define SIGSEGV 11
#define SIGSYS 12
int sigfillset(sigset_t *);
int sigdelset(sigset_t *, int);
int pthread_sigmask(int, const sigset_t *restrict, sigset_t *restrict);
int pthread_attr_init(pthread_attr_t *);
int pthread_attr_destroy(pthread_attr_t *);
int pthread_attr_setstacksize(pthread_attr_t *, size_t);
int pthread_create(pthread_t *restrict, const pthread_attr_t *restrict, void *(*)(void *), void *restrict);
int pthread_join(pthread_t, void **);
int pthread_key_create(pthread_key_t *, void (*)(void *));
int pthread_key_delete(pthread_key_t);
int pthread_setspecific(pthread_key_t, const void *);
int pthread_setcancelstate(int, int *);
int pthread_atfork(void (*)(void), void (*)(void), void (*)(void));
int pthread_mutex_lock(pthread_mutex_t *);
int pthread_mutex_unlock(pthread_mutex_t *);
int pthread_cond_wait(pthread_cond_t *restrict, pthread_mutex_t *restrict);
int pthread_cond_timedwait(pthread_cond_t *restrict, pthread_mutex_t *restrict, const struct timespec *restrict);
int pthread_cond_broadcast(pthread_cond_t *);

#ifdef __FreeBSD__
struct rusage {
    long ru_nvcsw, ru_nivcsw;
};
#define RUSAGE_THREAD 1
int getrusage(int, struct rusage *);

#define CPU_SETSIZE 1024
typedef struct processors {
    long bits[CPU_SETSIZE / 64];
} cpuset_t;
enum { CPU_LEVEL_WHICH = 3, CPU_WHICH_TID = 1, CPU_WHICH_PID };
#define CPU_ZERO(set) memset(set, 0, sizeof *(set))
#define CPU_SET(i, set) ((void)((set)->bits[(i) / 64] |= 1L << (i) % 64))
int processors_in(const cpuset_t *);
#define CPU_COUNT(set) processors_in(set)
int cpuset_getaffinity(int, int, id_t, size_t, cpuset_t *);
int pthread_setaffinity_np(pthread_t, size_t, const cpuset_t *);

#define AT_HWCAP 25
#define HWCAP_CRC32 0x80
int elf_aux_info(int, void *, int);
#endif

#endif
