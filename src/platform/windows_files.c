/* Files of Windows: see system_calls.h and atomic_file.h. Paths are UTF-8. Other programs may read, rename and remove an
 * open file, so that an atomic file replaces one that somebody reads. */
#include "platform/atomic_file.h"
#include "platform/system_calls.h"
#include "platform/windows.h"

#ifdef _WIN32

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdint.h>
#include <string.h>

enum { MAX_ATTEMPTS = 100 }; /* this many programs can write to one path at a time */
enum { MAX_PIECE = 1 << 30 };
enum { ALL_SHARING = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE };

/* -- errors and paths -- */

int th_windows_fail(void)
{
    static const struct {
        DWORD windows;
        int posix;
    } errors[] = {{ERROR_FILE_NOT_FOUND, ENOENT},    {ERROR_PATH_NOT_FOUND, ENOENT},   {ERROR_INVALID_NAME, ENOENT},
                  {ERROR_ACCESS_DENIED, EACCES},     {ERROR_SHARING_VIOLATION, EBUSY}, {ERROR_FILE_EXISTS, EEXIST},
                  {ERROR_ALREADY_EXISTS, EEXIST},    {ERROR_DISK_FULL, ENOSPC},        {ERROR_INVALID_HANDLE, EBADF},
                  {ERROR_NOT_ENOUGH_MEMORY, ENOMEM}, {ERROR_WRITE_PROTECT, EROFS},     {ERROR_NOT_SAME_DEVICE, EXDEV}};
    const DWORD error = GetLastError();
    errno = EIO;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].windows == error)
            errno = errors[i].posix;
    return -1;
}

bool th_windows_widen(wchar_t *wide, const char *path)
{
    if (MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, TH_MAX_PATH) > 0)
        return true;
    errno = GetLastError() == ERROR_INSUFFICIENT_BUFFER ? ENAMETOOLONG : EILSEQ;
    return false;
}

bool th_windows_narrow(char *path, size_t size, const wchar_t *wide)
{
    const int most = size < TH_MAX_PATH ? (int)size : TH_MAX_PATH;
    if (WideCharToMultiByte(CP_UTF8, WC_ERR_INVALID_CHARS, wide, -1, path, most, NULL, NULL) > 0)
        return true;
    errno = GetLastError() == ERROR_INSUFFICIENT_BUFFER ? ENAMETOOLONG : EILSEQ;
    return false;
}

/* Opens a path as CreateFileW does. Returns a descriptor; -1 with errno. */
static int open_path(const char *path, DWORD access, DWORD sharing, DWORD disposition, DWORD attributes)
{
    wchar_t wide[TH_MAX_PATH];
    if (!th_windows_widen(wide, path))
        return -1;
    const HANDLE handle = CreateFileW(wide, access, sharing, NULL, disposition, attributes, NULL);
    if (handle == INVALID_HANDLE_VALUE)
        return th_windows_fail();
    const int descriptor =
        _open_osfhandle((intptr_t)handle, _O_BINARY | _O_NOINHERIT | (access & GENERIC_WRITE ? 0 : _O_RDONLY));
    if (descriptor < 0)
        CloseHandle(handle);
    return descriptor;
}

int th_windows_open(const char *path, unsigned long access, unsigned long flags)
{
    return open_path(path, access, ALL_SHARING, OPEN_EXISTING, flags);
}

int th_windows_open_temporary(const char *path)
{
    return open_path(path, GENERIC_READ | GENERIC_WRITE | DELETE, FILE_SHARE_READ | FILE_SHARE_DELETE, CREATE_NEW,
                     FILE_ATTRIBUTE_TEMPORARY | FILE_FLAG_DELETE_ON_CLOSE);
}

static HANDLE handle_of(int descriptor)
{
    return (HANDLE)_get_osfhandle(descriptor); /* NOLINT: Windows gives handles as numbers */
}

/* -- system calls (system_calls.h) -- */

int th_open_file(const char *path, int flags, mode_t mode)
{
    (void)mode;
    const int direction = flags & (_O_RDONLY | _O_WRONLY | _O_RDWR);
    const DWORD access = direction == _O_RDONLY   ? GENERIC_READ
                         : direction == _O_WRONLY ? GENERIC_WRITE
                                                  : GENERIC_READ | GENERIC_WRITE;
    const DWORD disposition = flags & _O_CREAT   ? (flags & _O_EXCL    ? CREATE_NEW
                                                    : flags & _O_TRUNC ? CREATE_ALWAYS
                                                                       : OPEN_ALWAYS)
                              : flags & _O_TRUNC ? TRUNCATE_EXISTING
                                                 : OPEN_EXISTING;
    return open_path(path, access, ALL_SHARING, disposition, FILE_ATTRIBUTE_NORMAL);
}

int th_close_file(int descriptor)
{
    return _close(descriptor);
}

/* Returns what ReadFile and WriteFile need to begin at this offset. */
static OVERLAPPED begin_at(int64_t offset)
{
    OVERLAPPED position;
    memset(&position, 0, sizeof position);
    position.Offset = (DWORD)((uint64_t)offset & UINT32_MAX);
    position.OffsetHigh = (DWORD)((uint64_t)offset >> 32);
    return position;
}

static DWORD piece_of(size_t count)
{
    return count < MAX_PIECE ? (DWORD)count : MAX_PIECE;
}

size_t th_write_bytes(int descriptor, const void *bytes, size_t count, off_t begin)
{
    size_t done = 0;
    while (done < count) {
        OVERLAPPED position = begin_at(begin + (off_t)done);
        DWORD n = 0;
        if (!WriteFile(handle_of(descriptor), (const char *)bytes + done, piece_of(count - done), &n,
                       begin < 0 ? NULL : &position)) {
            th_windows_fail();
            break;
        }
        errno = EIO;
        if (n == 0)
            break;
        done += n;
    }
    return done;
}

ssize_t th_read_bytes_at(int descriptor, void *to, size_t count, off_t begin)
{
    size_t done = 0;
    while (done < count) {
        OVERLAPPED position = begin_at(begin + (off_t)done);
        DWORD n = 0;
        if (!ReadFile(handle_of(descriptor), (char *)to + done, piece_of(count - done), &n, &position) &&
            GetLastError() != ERROR_HANDLE_EOF)
            return th_windows_fail();
        if (n == 0)
            break;
        done += n;
    }
    return (ssize_t)done;
}

int th_synchronize_file(int descriptor)
{
    return FlushFileBuffers(handle_of(descriptor)) ? 0 : th_windows_fail();
}

int th_truncate_file(int descriptor, off_t size)
{
    return (errno = _chsize_s(descriptor, size)) == 0 ? 0 : -1;
}

static int get_status(HANDLE handle, struct th_posix_stat *status)
{
    BY_HANDLE_FILE_INFORMATION info;
    FILE_ATTRIBUTE_TAG_INFO tag = {0};
    const DWORD type = GetFileType(handle);
    *status = (struct th_posix_stat){.st_mode = type == FILE_TYPE_PIPE ? S_IFIFO : S_IFCHR};
    if (type == FILE_TYPE_PIPE || type == FILE_TYPE_CHAR)
        return 0;
    if (!GetFileInformationByHandle(handle, &info))
        return th_windows_fail();
    status->st_mode = info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY ? S_IFDIR : S_IFREG;
    if ((info.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) &&
        GetFileInformationByHandleEx(handle, FileAttributeTagInfo, &tag, sizeof tag) &&
        (tag.ReparseTag == IO_REPARSE_TAG_SYMLINK || tag.ReparseTag == IO_REPARSE_TAG_MOUNT_POINT))
        status->st_mode = TH_POSIX_LINK;
    status->st_dev = info.dwVolumeSerialNumber;
    status->st_ino = (uint64_t)info.nFileIndexHigh << 32 | info.nFileIndexLow;
    status->st_size = (int64_t)((uint64_t)info.nFileSizeHigh << 32 | info.nFileSizeLow);
    return 0;
}

int th_posix_fstat(int descriptor, struct th_posix_stat *status)
{
    return get_status(handle_of(descriptor), status);
}

int th_posix_stat(const char *path, struct th_posix_stat *status)
{
    const int descriptor = th_windows_open(path, FILE_READ_ATTRIBUTES, FILE_FLAG_BACKUP_SEMANTICS);
    const int result = descriptor < 0 ? -1 : th_posix_fstat(descriptor, status);
    if (descriptor >= 0)
        _close(descriptor);
    return result;
}

int th_path_exists(const char *path, th_file_status *status)
{
    if (th_posix_stat(path, status) == 0)
        return 1;
    return errno == ENOENT || errno == ENOTDIR ? 0 : -1;
}

bool th_stream_clear_interrupt(FILE *file)
{
    (void)file;
    return false;
}

size_t th_stream_read(FILE *file, void *to, size_t count)
{
    errno = 0;
    return fread(to, 1, count, file);
}

/* -- atomic files (atomic_file.h) -- */

bool th_path_join(char path[TH_MAX_PATH], const char *folder, const char *name)
{
    return snprintf(path, TH_MAX_PATH, "%s/%s", folder, name) < TH_MAX_PATH;
}

bool th_is_system_path(const char *path)
{
    return strncmp(path, "\\\\.\\", 4) == 0;
}

/* Opens the path if it is a device or a pipe, such as NUL. Returns -1 for everything else. */
static int open_direct(const char *path)
{
    const int descriptor = open_path(path, GENERIC_WRITE, ALL_SHARING, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL);
    if (descriptor < 0 || GetFileType(handle_of(descriptor)) != FILE_TYPE_DISK)
        return descriptor;
    _close(descriptor);
    return -1;
}

/* A writer does not let others write to its file, so only leftovers can be opened. The file vanishes when it is
 * closed. */
bool th_remove_leftover(const char *name)
{
    const int descriptor = open_path(name, GENERIC_WRITE | DELETE, 0, OPEN_EXISTING, FILE_FLAG_DELETE_ON_CLOSE);
    return descriptor >= 0 && _close(descriptor) == 0;
}

static int create_temporary(const char *name)
{
    return open_path(name, GENERIC_WRITE | DELETE, FILE_SHARE_READ | FILE_SHARE_DELETE, CREATE_NEW,
                     FILE_ATTRIBUTE_NORMAL);
}

static int open_temporary(th_atomic_file *f)
{
    for (int attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        if (snprintf(f->temporary, TH_MAX_PATH, "%s.unfinished%d", f->target, attempt) >= TH_MAX_PATH) {
            errno = ENAMETOOLONG;
            return -1;
        }
        int descriptor = create_temporary(f->temporary);
        const bool taken = descriptor < 0 && errno == EEXIST;
        if (taken && th_remove_leftover(f->temporary))
            descriptor = create_temporary(f->temporary);
        if (descriptor >= 0 || !taken)
            return descriptor;
    }
    errno = EEXIST;
    return -1;
}

/* Opens a stream for a copy of the descriptor: when the stream is closed, the descriptor stays open. */
static FILE *open_stream(int descriptor)
{
    const int copy = _dup(descriptor);
    FILE *const file = copy < 0 ? NULL : _fdopen(copy, "wb");
    if (file == NULL && copy >= 0)
        _close(copy);
    return file;
}

bool th_atomic_begin(th_atomic_file *f, const char *path)
{
    f->unsynchronized = false;
    f->write_error = 0;
    if (strlen(path) >= TH_MAX_PATH) {
        errno = ENAMETOOLONG;
        return false;
    }
    strcpy(f->target, path);
    f->descriptor = open_direct(path);
    f->direct = f->descriptor >= 0;
    if (!f->direct)
        f->descriptor = open_temporary(f);
    if (f->descriptor < 0)
        return false;
    f->file = open_stream(f->descriptor);
    if (f->file == NULL)
        th_atomic_discard(f);
    return f->file != NULL;
}

bool th_atomic_finish(th_atomic_file *f, bool written)
{
    int error = written ? 0 : errno ? errno : EIO;
    errno = 0;
    const bool failed = ferror(f->file) != 0;
    if ((fclose(f->file) != 0 || failed) && error == 0)
        error = errno ? errno : EIO;
    f->file = NULL;
    if (!f->direct && !f->unsynchronized && error == 0 && th_synchronize_file(f->descriptor) != 0)
        error = errno;
    if (error != 0)
        th_atomic_discard(f);
    errno = error;
    return error == 0;
}

static bool remove_path(const char *path)
{
    wchar_t wide[TH_MAX_PATH];
    return th_windows_widen(wide, path) && (DeleteFileW(wide) || th_windows_fail() == 0);
}

void th_atomic_discard(th_atomic_file *f)
{
    const int error = errno;
    if (!f->direct) /* before the file is closed: another process may remove a closed file as a leftover */
        (void)remove_path(f->temporary);
    _close(f->descriptor);
    errno = error;
}

/* Windows replaces no file that somebody reads: such a file gets another name first, and vanishes when its readers close
 * it. */
bool th_windows_replace(const char *from, const char *to, bool synchronized)
{
    char replaced[TH_MAX_PATH];
    wchar_t old_name[TH_MAX_PATH], new_name[TH_MAX_PATH], aside[TH_MAX_PATH];
    if (!th_windows_widen(old_name, from) || !th_windows_widen(new_name, to))
        return false;
    const DWORD flags = MOVEFILE_REPLACE_EXISTING | (synchronized ? MOVEFILE_WRITE_THROUGH : 0);
    if (MoveFileExW(old_name, new_name, flags))
        return true;
    th_windows_fail();
    if (errno != EACCES || snprintf(replaced, sizeof replaced, "%s.replaced", from) >= TH_MAX_PATH ||
        !th_windows_widen(aside, replaced) || !MoveFileExW(new_name, aside, MOVEFILE_REPLACE_EXISTING))
        return false;
    const bool moved = MoveFileExW(old_name, new_name, flags);
    if (!moved) {
        th_windows_fail();
        MoveFileExW(aside, new_name, 0);
    } else {
        DeleteFileW(aside);
    }
    return moved;
}

/* The complete file stays open while it gets its name, so that nobody takes it for a leftover. */
bool th_atomic_publish(th_atomic_file *f)
{
    if (!f->direct && !th_windows_replace(f->temporary, f->target, !f->unsynchronized)) {
        th_atomic_discard(f);
        return false;
    }
    return _close(f->descriptor) == 0;
}

bool th_atomic_end(th_atomic_file *f, bool written)
{
    return th_atomic_finish(f, written) && th_atomic_publish(f);
}

bool th_remove_file(const char *path)
{
    return remove_path(path) || errno == ENOENT;
}

#endif
