/* What FreeBSD has beside POSIX: affinity, preemptions of one thread, features in the auxiliary vector. */
#include "platform/system.h"
#include "platform/threads.h"

#ifdef __FreeBSD__

#include <sys/param.h> /* before the other headers of FreeBSD */

#include <pthread_np.h>
#include <sys/auxv.h>
#include <sys/cpuset.h>
#include <sys/resource.h>
#include <unistd.h>

long th_thread_preemptions(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

int th_thread_processors(bool first)
{
    cpuset_t set;
    const id_t id = first ? getpid() : -1;
    if (cpuset_getaffinity(CPU_LEVEL_WHICH, first ? CPU_WHICH_PID : CPU_WHICH_TID, id, sizeof set, &set) != 0)
        return 1;
    return CPU_COUNT(&set);
}

void th_thread_bind(th_thread thread, int count, const int *processors)
{
    cpuset_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < count; i++)
        if (processors[i] < CPU_SETSIZE)
            CPU_SET(processors[i], &set);
    pthread_setaffinity_np(thread, sizeof set, &set);
}

bool th_processor_has_crc32(void)
{
#ifdef __aarch64__
    unsigned long features = 0;
    return elf_aux_info(AT_HWCAP, &features, sizeof features) == 0 && (features & HWCAP_CRC32);
#else
    return false;
#endif
}

#endif
