/* Files and folders of Windows as POSIX has them: see posix.h. */
#define TH_POSIX_SOURCE
#include "models/posix/posix.h"

#ifdef _WIN32

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "platform/atomic_file.h"
#include "platform/threads.h"
#include "platform/windows.h"

static HANDLE handle_of(int descriptor)
{
    return (HANDLE)_get_osfhandle(descriptor); /* NOLINT: Windows gives handles as numbers */
}

/* Returns 0, or -1 with errno if `done` is false. */
static int result_of(BOOL done)
{
    return done ? 0 : th_windows_fail();
}

/* -- descriptors -- */

int th_posix_open(const char *path, int flags, ...)
{
    const bool is_null = strcmp(path, "/dev/null") == 0;
    if (flags & (_O_WRONLY | _O_RDWR | _O_CREAT) || is_null)
        return th_open_file(is_null ? "NUL" : path, flags, 0);
    return th_windows_open(path, GENERIC_READ, FILE_FLAG_BACKUP_SEMANTICS); /* a folder needs this flag */
}

/* Returns how many bytes one call of the C library can transfer. */
static unsigned piece_of(size_t count)
{
    return count < INT_MAX ? (unsigned)count : INT_MAX;
}

ssize_t th_posix_read(int descriptor, void *to, size_t count)
{
    return _read(descriptor, to, piece_of(count));
}

ssize_t th_posix_write(int descriptor, const void *bytes, size_t count)
{
    return _write(descriptor, bytes, piece_of(count));
}

ssize_t th_posix_pread(int descriptor, void *to, size_t count, off_t begin)
{
    return th_read_bytes_at(descriptor, to, count, begin);
}

int th_posix_fcntl(int descriptor, int command, ...)
{
    if (command == F_DUPFD_CLOEXEC)
        return _dup(descriptor);
    return handle_of(descriptor) == INVALID_HANDLE_VALUE ? -1 : 0;
}

/* Whether the descriptor leads to a console. (_isatty also accepts NUL.) */
int th_posix_isatty(int descriptor)
{
    DWORD mode;
    return GetConsoleMode(handle_of(descriptor), &mode) != 0;
}

/* The lock is an object of the system. Its name has the number of the file, and it lives until the process ends. */
int th_posix_flock(int descriptor, int operation)
{
    (void)operation;
    struct th_posix_stat status;
    wchar_t name[64];
    if (th_posix_fstat(descriptor, &status) != 0)
        return -1;
    _snwprintf(name, sizeof name / sizeof *name, L"Local\\tapehead_%llx_%llx", (unsigned long long)status.st_dev,
               (unsigned long long)status.st_ino);
    const HANDLE lock = CreateMutexW(NULL, FALSE, name);
    if (lock == NULL)
        return th_windows_fail();
    if (GetLastError() != ERROR_ALREADY_EXISTS)
        return 0;
    CloseHandle(lock);
    errno = EWOULDBLOCK;
    return -1;
}

/* -- the status of a path -- */

int th_posix_lstat(const char *path, struct th_posix_stat *status)
{
    const int descriptor =
        th_windows_open(path, FILE_READ_ATTRIBUTES, FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT);
    const int result = descriptor < 0 ? -1 : th_posix_fstat(descriptor, status);
    if (descriptor >= 0)
        _close(descriptor);
    return result;
}

int th_posix_access(const char *path, int mode)
{
    wchar_t wide[TH_MAX_PATH];
    (void)mode;
    return th_windows_widen(wide, path) ? result_of(GetFileAttributesW(wide) != INVALID_FILE_ATTRIBUTES) : -1;
}

char *th_posix_realpath(const char *path, char *resolved)
{
    wchar_t wide[TH_MAX_PATH], whole[TH_MAX_PATH];
    char result[TH_MAX_PATH];
    (void)resolved;
    if (th_posix_access(path, F_OK) != 0 || !th_windows_widen(wide, path))
        return NULL;
    const DWORD count = GetFullPathNameW(wide, TH_MAX_PATH, whole, NULL);
    errno = ENAMETOOLONG;
    return count > 0 && count < TH_MAX_PATH && th_windows_narrow(result, TH_MAX_PATH, whole) ? strdup(result) : NULL;
}

/* -- changes -- */

int th_posix_unlink(const char *path)
{
    wchar_t wide[TH_MAX_PATH];
    return th_windows_widen(wide, path) ? result_of(DeleteFileW(wide)) : -1;
}

int th_posix_link(const char *old_path, const char *new_path)
{
    wchar_t from[TH_MAX_PATH], to[TH_MAX_PATH];
    return th_windows_widen(from, old_path) && th_windows_widen(to, new_path)
               ? result_of(CreateHardLinkW(to, from, NULL))
               : -1;
}

int th_posix_rename(const char *old_path, const char *new_path)
{
    return th_windows_replace(old_path, new_path, true) ? 0 : -1;
}

int th_posix_mkdir(const char *path, unsigned mode)
{
    wchar_t wide[TH_MAX_PATH];
    (void)mode;
    return th_windows_widen(wide, path) ? result_of(CreateDirectoryW(wide, NULL)) : -1;
}

int th_posix_rmdir(const char *path)
{
    wchar_t wide[TH_MAX_PATH];
    return th_windows_widen(wide, path) ? result_of(RemoveDirectoryW(wide)) : -1;
}

/* -- names in an open folder -- */

/* Writes the path of a name in the folder. */
static bool path_at(char path[TH_MAX_PATH], int folder, const char *name)
{
    wchar_t wide[TH_MAX_PATH];
    char of_folder[TH_MAX_PATH];
    const DWORD count = GetFinalPathNameByHandleW(handle_of(folder), wide, TH_MAX_PATH, 0);
    if (count == 0) {
        th_windows_fail();
        return false;
    }
    errno = ENAMETOOLONG;
    return count < TH_MAX_PATH && th_windows_narrow(of_folder, sizeof of_folder, wide) &&
           snprintf(path, TH_MAX_PATH, "%s\\%s", of_folder, name) < TH_MAX_PATH;
}

int th_posix_openat(int folder, const char *name, int flags)
{
    char path[TH_MAX_PATH];
    return path_at(path, folder, name) ? th_posix_open(path, flags) : -1;
}

int th_posix_fstatat(int folder, const char *name, struct th_posix_stat *status, int flags)
{
    char path[TH_MAX_PATH];
    (void)flags;
    return path_at(path, folder, name) ? th_posix_stat(path, status) : -1;
}

int th_posix_unlinkat(int folder, const char *name, int flags)
{
    char path[TH_MAX_PATH];
    if (!path_at(path, folder, name))
        return -1;
    return flags & AT_REMOVEDIR ? th_posix_rmdir(path) : th_posix_unlink(path);
}

#endif
