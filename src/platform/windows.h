/* The declarations of Windows, without the macros that other code has as names. */
#ifndef TH_PLATFORM_WINDOWS_H
#define TH_PLATFORM_WINDOWS_H

#ifdef _WIN32
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#define NOGDI
#include <windows.h>
#undef near
#undef far
#undef small

#include <stdbool.h>
#include <stddef.h>

/* -- what the files for Windows share (windows_files.c) -- */

/* Sets errno to what the last call of Windows reported, and returns -1. */
int th_windows_fail(void);
/* Converts a path of TH_MAX_PATH units to or from UTF-8. They return false with errno if it is too long or invalid. */
bool th_windows_widen(wchar_t *wide, const char *path);
bool th_windows_narrow(char *path, size_t size, const wchar_t *wide);
/* Opens an existing file or folder, which other programs may change meanwhile. Returns a descriptor; -1 with errno. */
int th_windows_open(const char *path, unsigned long access, unsigned long flags);
/* Creates a file that vanishes when it is closed. Returns a descriptor; -1 with errno. */
int th_windows_open_temporary(const char *path);
/* Gives a file another name, in place of the file that has it. If somebody reads that file, there is a moment in which no
 * file has the name. Returns false with errno. */
bool th_windows_replace(const char *from, const char *to, bool synchronized);

#endif

#endif
