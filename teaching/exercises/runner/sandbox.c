/* Restricts the process by seccomp and Landlock (sandbox.h). */
#include "sandbox.h"

#if defined __linux__ && __has_include(<linux/seccomp.h>)
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined __x86_64__
#define MACHINE AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define MACHINE AUDIT_ARCH_AARCH64
#elif defined __riscv && __riscv_xlen == 64
#define MACHINE AUDIT_ARCH_RISCV64
#endif

#if __has_include(<linux/landlock.h>) && defined SYS_landlock_create_ruleset
#include <linux/landlock.h>

static void restrict_files(const char *readable_file)
{
    const struct landlock_ruleset_attr all = {.handled_access_fs =
                                                  LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE |
                                                  LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_WRITE_FILE};
    const int rules = (int)syscall(SYS_landlock_create_ruleset, &all, sizeof all, 0);
    const int file = open(readable_file, O_RDONLY | O_CLOEXEC);
    const struct landlock_path_beneath_attr one = {
        .allowed_access = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE, .parent_fd = file};
    if (rules >= 0 && file >= 0 && syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &one, 0) == 0)
        syscall(SYS_landlock_restrict_self, rules, 0);
    close(file);
    close(rules);
}
#else
static void restrict_files(const char *readable_file)
{
    (void)readable_file;
}
#endif

#ifdef MACHINE
/* The system calls of the C library's loader, memory and output, and those of abort. */
static const int allowed[] = {
    SYS_read,         SYS_write,         SYS_writev,     SYS_close,          SYS_lseek,  SYS_pread64,
    SYS_mmap,         SYS_mprotect,      SYS_munmap,     SYS_mremap,         SYS_brk,    SYS_madvise,
    SYS_futex,        SYS_exit,          SYS_exit_group, SYS_rt_sigprocmask, SYS_getpid, SYS_gettid,
    SYS_rt_sigreturn, SYS_clock_gettime, SYS_getrandom,  SYS_fstat,
#ifdef SYS_newfstatat
    SYS_newfstatat,
#endif
#ifdef SYS_statx
    SYS_statx,
#endif
};
enum { ALLOWED = sizeof allowed / sizeof *allowed };

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field))
#define IF_EQUAL(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), (yes), (no))
#define RESULT(value) BPF_STMT(BPF_RET | BPF_K, (value))
/* Allows an open that only reads. */
#define READS_ONLY(call, flags)                                                                                        \
    LOAD(nr), IF_EQUAL(call, 0, 4), LOAD(args[flags]),                                                                 \
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, O_ACCMODE | O_CREAT | O_TRUNC), IF_EQUAL(0, 0, 1),                         \
        RESULT(SECCOMP_RET_ALLOW)
/* Allows a signal to this process, for abort. */
#define SIGNALS_ITSELF(call)                                                                                           \
    LOAD(nr), IF_EQUAL(call, 0, 3), LOAD(args[0]), IF_EQUAL(getpid(), 0, 1), RESULT(SECCOMP_RET_ALLOW)

static void restrict_calls(void)
{
    const struct sock_filter first[] = {
        LOAD(arch),
        IF_EQUAL(MACHINE, 1, 0),
        RESULT(SECCOMP_RET_KILL_PROCESS),
        READS_ONLY(SYS_openat, 2),
#ifdef SYS_open
        READS_ONLY(SYS_open, 1),
#endif
        SIGNALS_ITSELF(SYS_tgkill),
        SIGNALS_ITSELF(SYS_tkill),
        LOAD(nr),
    };
    enum { FIRST = sizeof first / sizeof *first, LENGTH = FIRST + ALLOWED + 2 };
    struct sock_filter filter[LENGTH];
    for (int i = 0; i < FIRST; i++)
        filter[i] = first[i];
    for (int i = 0; i < ALLOWED; i++)
        filter[FIRST + i] = (struct sock_filter)IF_EQUAL(allowed[i], (uint8_t)(ALLOWED - i), 0);
    filter[LENGTH - 2] = (struct sock_filter)RESULT(SECCOMP_RET_ERRNO | EPERM);
    filter[LENGTH - 1] = (struct sock_filter)RESULT(SECCOMP_RET_ALLOW);
    const struct sock_fprog program = {.len = LENGTH, .filter = filter};
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
#else
static void restrict_calls(void)
{
}
#endif

void enter_sandbox(const char *readable_file)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return;
    restrict_files(readable_file);
    restrict_calls();
}
#else
void enter_sandbox(const char *readable_file)
{
    (void)readable_file;
}
#endif
