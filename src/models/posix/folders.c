/* Lists folders of Windows as POSIX does: see posix.h. */
#define TH_POSIX_SOURCE
#include "models/posix/posix.h"

#ifdef _WIN32

#include <stdlib.h>

#include "platform/atomic_file.h"
#include "platform/windows.h"

struct th_posix_folder {
    HANDLE search; /* INVALID_HANDLE_VALUE: the folder has no entry */
    int descriptor;
    bool has_next;
    WIN32_FIND_DATAW next;
    th_posix_entry entry;
};

th_posix_folder *th_posix_opendir(const char *path)
{
    char pattern[TH_MAX_PATH];
    wchar_t wide[TH_MAX_PATH];
    struct th_posix_stat status;
    if (!th_path_join(pattern, path, "*") || !th_windows_widen(wide, pattern)) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    const int descriptor = th_posix_open(path, O_RDONLY);
    if (descriptor < 0 || th_posix_fstat(descriptor, &status) != 0)
        return NULL;
    th_posix_folder *folder = S_ISDIR(status.st_mode) ? malloc(sizeof *folder) : NULL;
    if (folder == NULL) {
        _close(descriptor);
        errno = S_ISDIR(status.st_mode) ? ENOMEM : ENOTDIR;
        return NULL;
    }
    folder->descriptor = descriptor;
    folder->search = FindFirstFileW(wide, &folder->next);
    folder->has_next = folder->search != INVALID_HANDLE_VALUE;
    return folder;
}

th_posix_entry *th_posix_readdir(th_posix_folder *folder)
{
    bool valid = false;
    while (folder->has_next && !valid) {
        valid = th_windows_narrow(folder->entry.d_name, sizeof folder->entry.d_name, folder->next.cFileName);
        folder->has_next = FindNextFileW(folder->search, &folder->next);
    }
    return valid ? &folder->entry : NULL;
}

int th_posix_closedir(th_posix_folder *folder)
{
    if (folder->search != INVALID_HANDLE_VALUE)
        FindClose(folder->search);
    const int result = _close(folder->descriptor);
    free(folder);
    return result;
}

int th_posix_dirfd(th_posix_folder *folder)
{
    return folder->descriptor;
}

int th_posix_alphasort(const th_posix_entry **a, const th_posix_entry **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(th_posix_entry *const *)a)->d_name, (*(th_posix_entry *const *)b)->d_name);
}

/* Appends a copy of the entry. Returns false without memory. */
static bool append_entry(th_posix_entry ***list, int count, const th_posix_entry *entry)
{
    th_posix_entry *const copy = malloc(sizeof *copy), **grown = realloc(*list, ((size_t)count + 1) * sizeof *grown);
    *list = grown ? grown : *list;
    if (copy == NULL || grown == NULL) {
        free(copy);
        return false;
    }
    *copy = *entry;
    grown[count] = copy;
    return true;
}

int th_posix_scandir(const char *path, th_posix_entry ***list, int (*wanted)(const th_posix_entry *entry),
                     int (*compare)(const th_posix_entry **a, const th_posix_entry **b))
{
    (void)compare; /* th_posix_alphasort is the only one */
    th_posix_folder *const folder = th_posix_opendir(path);
    int count = 0;
    *list = NULL;
    if (folder == NULL)
        return -1;
    for (const th_posix_entry *entry; count >= 0 && (entry = th_posix_readdir(folder)) != NULL;)
        if (wanted(entry))
            count = append_entry(list, count, entry) ? count + 1 : -count - 1;
    th_posix_closedir(folder);
    for (int i = 0; count < 0 && i < -count - 1; i++)
        free((*list)[i]);
    if (count < 0) {
        free(*list);
        errno = ENOMEM;
        return -1;
    }
    if (count > 0)
        qsort(*list, (size_t)count, sizeof **list, compare_names);
    return count;
}

#endif
