/* Mapped files, streams into memory and temporary files on Windows: see posix.h. */
#define TH_POSIX_SOURCE
#include "models/posix/posix.h"

#ifdef _WIN32

#include <stdlib.h>

#include "platform/atomic_file.h"
#include "platform/memory_stream.h"
#include "platform/threads.h"
#include "platform/windows.h"

static th_mutex lock = TH_MUTEX_INITIALIZER; /* of the two lists */

/* -- mapped files -- */

/* Keeps the file open while it is mapped: a temporary file vanishes only after both. */
typedef struct mapping {
    struct mapping *next;
    void *memory;
    HANDLE file;
} mapping;

static mapping *mappings;

static void *map_handle(HANDLE file, size_t bytes)
{
    const HANDLE section = CreateFileMappingW(file, NULL, PAGE_READONLY, 0, 0, NULL);
    if (section == NULL)
        return NULL;
    void *const memory = MapViewOfFile(section, FILE_MAP_READ, 0, 0, bytes);
    CloseHandle(section);
    return memory;
}

void *th_posix_mmap(void *address, size_t bytes, int protection, int flags, int descriptor, off_t begin)
{
    (void)address;
    (void)flags;
    errno = ENOTSUP;
    if (protection != PROT_READ || begin != 0)
        return MAP_FAILED;
    mapping *const m = malloc(sizeof *m);
    const HANDLE process = GetCurrentProcess(), file = (HANDLE)_get_osfhandle(descriptor); /* NOLINT */
    errno = ENOMEM;
    if (m == NULL)
        return MAP_FAILED;
    if (!DuplicateHandle(process, file, process, &m->file, 0, FALSE, DUPLICATE_SAME_ACCESS)) {
        th_windows_fail();
        free(m);
        return MAP_FAILED;
    }
    m->memory = map_handle(m->file, bytes);
    if (m->memory == NULL) {
        th_windows_fail();
        CloseHandle(m->file);
        free(m);
        return MAP_FAILED;
    }
    th_mutex_lock(&lock);
    m->next = mappings;
    mappings = m;
    th_mutex_unlock(&lock);
    return m->memory;
}

int th_posix_munmap(void *address, size_t bytes)
{
    (void)bytes;
    th_mutex_lock(&lock);
    mapping **link = &mappings;
    while (*link && (*link)->memory != address)
        link = &(*link)->next;
    mapping *const m = *link;
    if (m)
        *link = m->next;
    th_mutex_unlock(&lock);
    errno = EINVAL;
    if (m == NULL)
        return -1;
    UnmapViewOfFile(m->memory);
    CloseHandle(m->file);
    free(m);
    return 0;
}

/* -- streams into memory -- */

typedef struct open_stream {
    struct open_stream *next;
    th_memory_stream stream;
    char **text;
    size_t *bytes;
} open_stream;

static open_stream *streams;

FILE *th_posix_open_memstream(char **text, size_t *bytes)
{
    open_stream *const s = malloc(sizeof *s);
    *text = NULL;
    *bytes = 0;
    if (s == NULL || !th_memory_open(&s->stream)) {
        free(s);
        return NULL;
    }
    s->text = text;
    s->bytes = bytes;
    th_mutex_lock(&lock);
    s->next = streams;
    streams = s;
    th_mutex_unlock(&lock);
    return s->stream.file;
}

int th_posix_fclose(FILE *file)
{
    th_mutex_lock(&lock);
    open_stream **link = &streams;
    while (*link && (*link)->stream.file != file)
        link = &(*link)->next;
    open_stream *const s = *link;
    if (s)
        *link = s->next;
    th_mutex_unlock(&lock);
    if (s == NULL)
        return (fclose)(file);
    const bool closed = th_memory_close(&s->stream);
    *s->text = s->stream.text;
    *s->bytes = s->stream.bytes;
    free(s);
    return closed ? 0 : EOF;
}

/* -- temporary files -- */

/* Puts random letters in place of the six letters X at the end of the name. */
static bool fill_name(char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz012345";
    unsigned char random[6];
    if (th_posix_getentropy(random, sizeof random) != 0)
        return false;
    for (size_t i = 0; i < sizeof random; i++)
        name[strlen(name) - sizeof random + i] = letters[random[i] % 32];
    return true;
}

int th_posix_mkstemp(char *name)
{
    return fill_name(name) ? th_windows_open_temporary(name) : -1;
}

char *th_posix_mkdtemp(char *name)
{
    return fill_name(name) && th_posix_mkdir(name, 0700) == 0 ? name : NULL;
}

const char *th_posix_temporary_folder(void)
{
    static char folder[TH_MAX_PATH];
    wchar_t wide[MAX_PATH + 1];
    const DWORD count = GetTempPathW(MAX_PATH + 1, wide);
    const bool fits = count > 0 && count <= MAX_PATH && th_windows_narrow(folder, sizeof folder, wide);
    return fits ? folder : ".";
}

#endif
