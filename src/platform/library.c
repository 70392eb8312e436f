/* Loading shared libraries: see system.h. */
#include "platform/system.h"

#ifdef _WIN32
#include "platform/windows.h"

#include <string.h>

void *th_library_open(const char *name)
{
    return LoadLibraryA(name);
}

void *th_library_find(void *library, const char *name)
{
    const FARPROC function = GetProcAddress(library, name);
    void *address;
    memcpy(&address, &function, sizeof address);
    return address;
}

void th_library_close(void *library)
{
    FreeLibrary(library);
}

#elif !defined __EMSCRIPTEN__ /* WebAssembly loads no libraries */
#include <dlfcn.h>

void *th_library_open(const char *name)
{
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

void *th_library_find(void *library, const char *name)
{
    return dlsym(library, name);
}

void th_library_close(void *library)
{
    dlclose(library);
}

#endif
