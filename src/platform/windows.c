/* Threads, time and consoles of Windows: see threads.h and system.h. It has no cancellation, no signals for threads and
 * no fork. */
#include "platform/windows.h"
#include "platform/system.h"
#include "platform/threads.h"

#ifdef _WIN32

#include <io.h>
#include <limits.h>
#include <malloc.h>
#include <stdlib.h>

/* -- threads -- */

/* What a new thread does. */
typedef struct beginning {
    th_thread_main *run;
    void *argument;
} beginning;

static DWORD WINAPI begin_thread(void *argument)
{
    const beginning b = *(beginning *)argument;
    free(argument);
    b.run(b.argument);
    return 0;
}

bool th_thread_create(th_thread *thread, size_t stack, th_thread_main *run, void *argument)
{
    beginning *const b = malloc(sizeof *b);
    if (b == NULL)
        return false;
    *b = (beginning){run, argument};
    *thread = CreateThread(NULL, stack, begin_thread, b, STACK_SIZE_PARAM_IS_A_RESERVATION, NULL);
    if (*thread == NULL)
        free(b);
    return *thread != NULL;
}

void th_thread_join(th_thread thread)
{
    WaitForSingleObject(thread, INFINITE);
    CloseHandle(thread);
}

long th_thread_preemptions(void)
{
    return 0;
}

/* Returns the number of processors in the mask of the process. It is 0 if threads of the process run in several groups
 * of 64 processors. */
int th_thread_processors(bool first)
{
    (void)first;
    DWORD_PTR process = 0, system = 0;
    if (GetProcessAffinityMask(GetCurrentProcess(), &process, &system) && process)
        return __builtin_popcountll(process);
    const DWORD count = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    return count < 1 ? 1 : count < INT_MAX ? (int)count : INT_MAX;
}

void th_thread_bind(th_thread thread, int count, const int *processors)
{
    DWORD_PTR mask = 0;
    for (int i = 0; i < count; i++)
        if (processors[i] < (int)sizeof mask * CHAR_BIT)
            mask |= (DWORD_PTR)1 << processors[i];
    if (mask)
        SetThreadAffinityMask(thread, mask);
}

/* The values of a key are passed to `end` at the end of each thread, as those of POSIX. */
bool th_thread_key_create(th_thread_key *key, void (*end)(void *value))
{
    *key = FlsAlloc((PFLS_CALLBACK_FUNCTION)end);
    return *key != FLS_OUT_OF_INDEXES;
}

bool th_thread_key_set(th_thread_key key, void *value)
{
    return FlsSetValue(key, value);
}

/* The key stays until the process ends: FlsFree passes the values of living threads to `end`, unlike POSIX. */
void th_thread_key_delete(th_thread_key key)
{
    (void)key;
}

/* -- what interrupts a thread -- */

int th_cancellation_disable(void)
{
    return 0;
}

void th_cancellation_restore(int state)
{
    (void)state;
}

void th_signals_block(th_signals *before)
{
    *before = 0;
}

void th_signals_restore(const th_signals *before)
{
    (void)before;
}

void th_on_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void))
{
    (void)before;
    (void)in_parent;
    (void)in_child;
}

/* -- waiting -- */

_Static_assert(sizeof(th_mutex) == sizeof(SRWLOCK) && sizeof(th_condition) == sizeof(CONDITION_VARIABLE),
               "threads.h declares the locks of Windows without its headers");

void th_mutex_lock(th_mutex *mutex)
{
    AcquireSRWLockExclusive((SRWLOCK *)mutex);
}

void th_mutex_unlock(th_mutex *mutex)
{
    ReleaseSRWLockExclusive((SRWLOCK *)mutex);
}

void th_condition_wait(th_condition *condition, th_mutex *mutex, int64_t time)
{
    const DWORD milliseconds = time == TH_NO_LIMIT ? INFINITE : (DWORD)((time + 999999) / 1000000);
    SleepConditionVariableSRW((CONDITION_VARIABLE *)condition, (SRWLOCK *)mutex, milliseconds, 0);
}

void th_condition_wake_all(th_condition *condition)
{
    WakeAllConditionVariable((CONDITION_VARIABLE *)condition);
}

/* -- time, memory, consoles -- */

int64_t th_nanoseconds_now(void)
{
    LARGE_INTEGER ticks, per_second;
    QueryPerformanceCounter(&ticks);
    QueryPerformanceFrequency(&per_second);
    const int64_t whole = ticks.QuadPart / per_second.QuadPart, rest = ticks.QuadPart % per_second.QuadPart;
    return whole * 1000000000 + rest * 1000000000 / per_second.QuadPart;
}

void *th_aligned_allocate(size_t alignment, size_t bytes)
{
    return _aligned_malloc(bytes, alignment);
}

void th_aligned_free(void *memory)
{
    _aligned_free(memory);
}

static HANDLE handle_of(FILE *file)
{
    return (HANDLE)_get_osfhandle(_fileno(file)); /* NOLINT: Windows gives handles as numbers */
}

/* Makes the console understand escape sequences, as it does from Windows 10 on. */
bool th_is_terminal(FILE *file)
{
    DWORD mode;
    return GetConsoleMode(handle_of(file), &mode) &&
           SetConsoleMode(handle_of(file), mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
}

int th_terminal_columns(FILE *file)
{
    CONSOLE_SCREEN_BUFFER_INFO info;
    return GetConsoleScreenBufferInfo(handle_of(file), &info) ? info.srWindow.Right - info.srWindow.Left + 1 : 0;
}

bool th_processor_has_crc32(void)
{
    return IsProcessorFeaturePresent(PF_ARM_V8_CRC32_INSTRUCTIONS_AVAILABLE);
}

#endif
