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
#endif

#endif
