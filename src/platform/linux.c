/* What only Linux has: the futex, affinity masks, preemptions of one thread, features in the auxiliary vector. */
#include "platform/system.h"
#include "platform/threads.h"

#ifdef __linux__

#include <sched.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* -- waiting: the operations of futex(2). linux/futex.h defines them too, but musl comes without the kernel's headers -- */

enum { WAIT_PRIVATE = 128, WAKE_PRIVATE = 129 };

/* The call with this program's struct timespec: on 32-bit processors time_t has 32 or 64 bits. */
#ifdef SYS_futex_time64
enum { FUTEX = sizeof(time_t) > sizeof(long) ? SYS_futex_time64 : SYS_futex };
#else
enum { FUTEX = SYS_futex };
#endif

void th_wait_while(_Atomic uint32_t *word, uint32_t value, int64_t time)
{
    const struct timespec limit = {.tv_sec = (time_t)(time / 1000000000), .tv_nsec = (long)(time % 1000000000)};
    const struct timespec *const most = time == TH_NO_LIMIT ? NULL : &limit;
    syscall(FUTEX, word, WAIT_PRIVATE, value, most, NULL, 0);
}

void th_wake_one(_Atomic uint32_t *word)
{
    syscall(FUTEX, word, WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* -- threads -- */

long th_thread_preemptions(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

int th_thread_processors(bool first)
{
    const pid_t thread = first ? getpid() : 0;
    for (int capacity = 1024; capacity <= 1 << 20; capacity *= 4) {
        cpu_set_t *set = CPU_ALLOC((size_t)capacity);
        if (!set)
            return 1;
        const size_t size = CPU_ALLOC_SIZE((size_t)capacity);
        const bool known = sched_getaffinity(thread, size, set) == 0;
        const int count = known ? CPU_COUNT_S(size, set) : 0;
        CPU_FREE(set);
        if (known)
            return count;
    }
    return 1;
}

void th_thread_bind(th_thread thread, int count, const int *processors)
{
    size_t capacity = 0;
    for (int i = 0; i < count; i++)
        capacity = (size_t)processors[i] >= capacity ? (size_t)processors[i] + 1 : capacity;
    const size_t size = CPU_ALLOC_SIZE(capacity);
    cpu_set_t *set = CPU_ALLOC(capacity);
    if (!set)
        return;
    CPU_ZERO_S(size, set);
    for (int i = 0; i < count; i++)
        CPU_SET_S((size_t)processors[i], size, set);
    pthread_setaffinity_np(thread, size, set);
    CPU_FREE(set);
}

/* -- features of the processor -- */

bool th_processor_has_crc32(void)
{
#ifdef __aarch64__
    return getauxval(AT_HWCAP) & HWCAP_CRC32;
#else
    return false;
#endif
}

#endif
