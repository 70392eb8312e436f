/* Systems that bind no threads to processors: macOS, and BSD systems except FreeBSD. */
#include "platform/system.h"
#include "platform/threads.h"

#if !defined __linux__ && !defined __FreeBSD__ && !defined _WIN32

#include <limits.h>
#include <unistd.h>

long th_thread_preemptions(void)
{
    return 0;
}

int th_thread_processors(bool first)
{
    (void)first;
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count < INT_MAX ? (int)count : INT_MAX;
}

void th_thread_bind(th_thread thread, int count, const int *processors)
{
    (void)thread;
    (void)count;
    (void)processors;
}

/* Every processor of Apple with AArch64 has these instructions. */
bool th_processor_has_crc32(void)
{
#ifdef __APPLE__
    return true;
#else
    return false;
#endif
}

#endif
