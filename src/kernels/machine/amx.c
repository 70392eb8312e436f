/* Detects Intel AMX. The compiler must have built the kernels, the processor must have the instructions, and the
 * operating system must save the tile registers and permit their use. Permission is needed because a thread that uses
 * AMX takes 8 KB more to save its registers (Linux, Documentation/arch/x86/xstate.rst). */
#include "kernels/machine/amx.h"

#include <cpuid.h>
#include <stdbool.h>
#include <stddef.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "platform/threads.h"

#ifdef TAPEHEAD_TILES /* defined by the build */

static th_mutex mutex = TH_MUTEX_INITIALIZER;
static bool detected; /* `why_missing` is known */
static const char *why_missing;

enum {
    LEAF_1_ECX_OSXSAVE = 1 << 27,
    LEAF_7_EDX_AMX_BF16 = 1 << 22,
    LEAF_7_EDX_AMX_TILE = 1 << 24,
    LEAF_7_1_EAX_AVX512_BF16 = 1 << 5,
    XCR0_AMX = 1 << 17 | 1 << 18 /* tile configuration and tile data */
};

static bool processor_has_amx(void)
{
    unsigned int a, b, c, d;
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & LEAF_7_1_EAX_AVX512_BF16) &&
           __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & LEAF_7_EDX_AMX_BF16) && (d & LEAF_7_EDX_AMX_TILE);
}

/* Whether the operating system saves the tile registers of a thread, as the processor reports it. */
static bool system_saves_amx(void)
{
    unsigned int a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & LEAF_1_ECX_OSXSAVE))
        return false;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return (a & XCR0_AMX) == XCR0_AMX;
}

static bool system_permits_amx(void)
{
#ifdef __linux__
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
#else
    return false;
#endif
}

static void detect_amx(void)
{
    if (!processor_has_amx())
        why_missing = "TAPEHEAD_ISA is amx, but this processor has no AMX tiles of bfloat16 numbers";
    else if (!system_saves_amx() || !system_permits_amx())
        why_missing = "TAPEHEAD_ISA is amx, but the operating system does not let this process use AMX tiles";
}

const char *th_why_not_amx(void)
{
    th_mutex_lock(&mutex);
    if (!detected)
        detect_amx();
    detected = true;
    th_mutex_unlock(&mutex);
    return why_missing;
}

#else

const char *th_why_not_amx(void)
{
    return "TAPEHEAD_ISA is amx, but the compiler that built Tapehead has no AMX";
}

#endif
