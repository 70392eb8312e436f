/* The process, signals, time and random bytes of Windows: see posix.h. */
#define _CRT_RAND_S /* declares rand_s */
#include <stdlib.h>

#define TH_POSIX_SOURCE
#include "models/posix/posix.h"

#ifdef _WIN32

#include <stdatomic.h>

#include "platform/atomic_file.h"
#include "platform/system.h"
#include "platform/threads.h"
#include "platform/windows.h"

#include <shellapi.h>

/* -- the beginning of a program -- */

/* Returns a word in UTF-8, which stays allocated. */
static char *narrow_word(const wchar_t *word)
{
    const int size = WideCharToMultiByte(CP_UTF8, 0, word, -1, NULL, 0, NULL, NULL);
    char *const text = size > 0 ? malloc((size_t)size) : NULL;
    if (text)
        WideCharToMultiByte(CP_UTF8, 0, word, -1, text, size, NULL, NULL);
    return text;
}

static UINT old_code_page;

static void restore_console(void)
{
    SetConsoleOutputCP(old_code_page);
}

void th_posix_begin(int *argc, char ***argv)
{
    int count = 0;
    wchar_t **const words = CommandLineToArgvW(GetCommandLineW(), &count);
    char **const list = words ? calloc((size_t)count + 1, sizeof *list) : NULL;
    bool complete = list != NULL;
    for (int i = 0; complete && i < count; i++)
        complete = (list[i] = narrow_word(words[i])) != NULL;
    if (complete) {
        *argc = count;
        *argv = list;
    }
    LocalFree(words);
    for (int i = 0; i < 3; i++)
        (void)_setmode(i, _O_BINARY);
    (void)th_is_terminal(stdout); /* the console understands escape sequences from now on */
    (void)th_is_terminal(stderr);
    old_code_page = GetConsoleOutputCP();
    if (old_code_page != 0 && SetConsoleOutputCP(CP_UTF8))
        (void)atexit(restore_console);
}

/* -- signals -- */

enum { MAX_SIGNAL = 32 };
static th_posix_handler *_Atomic handlers[MAX_SIGNAL]; /* NULL is SIG_DFL */
static th_mutex signals_blocked = TH_MUTEX_INITIALIZER;

/* Windows calls this in a new thread. */
static BOOL WINAPI take_event(DWORD event)
{
    const bool interrupted = event == CTRL_C_EVENT || event == CTRL_BREAK_EVENT;
    const int number = interrupted ? SIGINT : SIGHUP;
    th_mutex_lock(&signals_blocked);
    th_posix_handler *const handler = handlers[number];
    if (handler != SIG_DFL && handler != SIG_IGN)
        handler(number);
    th_mutex_unlock(&signals_blocked);
    if (!interrupted && handler != SIG_DFL)
        Sleep(INFINITE); /* when this function returns, Windows ends the process at once */
    return handler != SIG_DFL;
}

th_posix_handler *th_posix_signal(int signal_number, th_posix_handler *handler)
{
    static atomic_bool registered;
    if (signal_number <= 0 || signal_number >= MAX_SIGNAL)
        return SIG_ERR;
    if (!atomic_exchange(&registered, true))
        SetConsoleCtrlHandler(take_event, TRUE);
    return atomic_exchange(&handlers[signal_number], handler);
}

int th_posix_raise(int signal_number)
{
    if (signal_number <= 0 || signal_number >= MAX_SIGNAL)
        return -1;
    th_posix_handler *const handler = handlers[signal_number];
    if (handler == SIG_DFL)
        TerminateProcess(GetCurrentProcess(), 128 + (UINT)signal_number);
    else if (handler != SIG_IGN)
        handler(signal_number);
    return 0;
}

int th_posix_sigmask(int how, const th_posix_signals *set, th_posix_signals *old)
{
    (void)set;
    if (old)
        *old = 0;
    if (how == SIG_BLOCK)
        th_mutex_lock(&signals_blocked);
    else
        th_mutex_unlock(&signals_blocked);
    return 0;
}

/* -- the machine -- */

long th_posix_sysconf(int name)
{
    SYSTEM_INFO system;
    MEMORYSTATUSEX memory = {.dwLength = sizeof memory};
    GetSystemInfo(&system);
    if (name == _SC_PAGESIZE)
        return (long)system.dwPageSize;
    if (name != _SC_PHYS_PAGES || !GlobalMemoryStatusEx(&memory))
        return -1;
    return (long)(memory.ullTotalPhys / system.dwPageSize);
}

int th_posix_gethostname(char *name, size_t size)
{
    wchar_t wide[256];
    DWORD count = sizeof wide / sizeof *wide;
    return GetComputerNameExW(ComputerNameDnsHostname, wide, &count) && th_windows_narrow(name, size, wide) ? 0 : -1;
}

int th_posix_getentropy(void *bytes, size_t count)
{
    unsigned char *byte = bytes;
    for (unsigned random; count > 0; count--) {
        if (rand_s(&random) != 0)
            return -1;
        *byte++ = (unsigned char)(random & UCHAR_MAX);
    }
    return 0;
}

/* -- time -- */

int th_posix_clock_gettime(int clock, struct timespec *time)
{
    enum { PER_SECOND = 1000000000 };
    int64_t nanoseconds;
    if (clock == CLOCK_MONOTONIC) {
        nanoseconds = th_nanoseconds_now();
    } else {
        const int64_t ticks_until_1970 = INT64_C(116444736000000000); /* since 1601, of 100 nanoseconds */
        FILETIME now;
        GetSystemTimeAsFileTime(&now);
        const uint64_t ticks = (uint64_t)now.dwHighDateTime << 32 | now.dwLowDateTime;
        nanoseconds = ((int64_t)ticks - ticks_until_1970) * 100;
    }
    time->tv_sec = nanoseconds / PER_SECOND;
    time->tv_nsec = (long)(nanoseconds % PER_SECOND);
    return 0;
}

int th_posix_nanosleep(const struct timespec *time, struct timespec *rest)
{
    (void)rest;
    Sleep((DWORD)(time->tv_sec * 1000 + (time->tv_nsec + 999999) / 1000000));
    return 0;
}

struct tm *th_posix_localtime_r(const time_t *time, struct tm *result)
{
    return localtime_s(result, time) == 0 ? result : NULL;
}

#endif
