/* A stream that writes to memory: see memory_stream.h. On Windows it is a temporary file. */
#include "platform/memory_stream.h"

#include <stdlib.h>

#ifdef _WIN32
#include "platform/windows.h"

#include <fcntl.h>
#include <io.h>
#include <stdatomic.h>
#include <stdint.h>

/* Opens a file that vanishes when it is closed. */
static FILE *open_temporary_file(void)
{
    wchar_t folder[MAX_PATH + 1], path[MAX_PATH + 1];
    if (GetTempPathW(MAX_PATH + 1, folder) == 0 || GetTempFileNameW(folder, L"th", 0, path) == 0)
        return NULL;
    const HANDLE handle = CreateFileW(path, GENERIC_READ | GENERIC_WRITE | DELETE, 0, NULL, CREATE_ALWAYS,
                                      FILE_ATTRIBUTE_TEMPORARY | FILE_FLAG_DELETE_ON_CLOSE, NULL);
    const int descriptor = handle == INVALID_HANDLE_VALUE ? -1 : _open_osfhandle((intptr_t)handle, _O_BINARY | _O_RDWR);
    FILE *const file = descriptor < 0 ? NULL : _fdopen(descriptor, "w+b");
    if (file == NULL && descriptor >= 0)
        _close(descriptor);
    else if (file == NULL && handle != INVALID_HANDLE_VALUE)
        CloseHandle(handle);
    return file;
}

/* A file that a closed stream has left for the next one: a program that generates text opens one for each token. */
static FILE *_Atomic spare;
enum { MAX_SPARE = 1 << 20 }; /* the size of such a file */

bool th_memory_open(th_memory_stream *s)
{
    FILE *const left = atomic_exchange(&spare, NULL);
    *s = (th_memory_stream){.file = left ? left : open_temporary_file()};
    return s->file != NULL;
}

/* Keeps the file for the next stream, or removes it. */
static void give_back(FILE *file, bool reusable)
{
    FILE *none = NULL;
    rewind(file);
    if (!reusable || !atomic_compare_exchange_strong(&spare, &none, file))
        fclose(file);
}

bool th_memory_close(th_memory_stream *s)
{
    const bool failed = fflush(s->file) != 0 || ferror(s->file);
    const int64_t bytes = failed ? -1 : _ftelli64(s->file);
    s->text = bytes < 0 ? NULL : malloc((size_t)bytes + 1);
    s->bytes = s->text ? (size_t)bytes : 0;
    rewind(s->file);
    if (s->text && fread(s->text, 1, s->bytes, s->file) != s->bytes) {
        free(s->text);
        s->text = NULL;
    }
    if (s->text)
        s->text[s->bytes] = 0;
    give_back(s->file, s->text && bytes <= MAX_SPARE);
    return s->text != NULL;
}

#else

bool th_memory_open(th_memory_stream *s)
{
    s->text = NULL;
    s->bytes = 0;
    s->file = open_memstream(&s->text, &s->bytes);
    return s->file != NULL;
}

bool th_memory_close(th_memory_stream *s)
{
    const bool failed = ferror(s->file);
    if (fclose(s->file) == 0 && !failed && s->text)
        return true;
    free(s->text);
    s->text = NULL;
    return false;
}

#endif
