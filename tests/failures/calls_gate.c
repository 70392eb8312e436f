/* Makes chosen system calls fail: see calls_gate.h. */
#include "calls_gate.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__linux__) && defined(__x86_64__)
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

enum { WRITES = 1, OPENS = 2, WAITS = 4, HAS_COUNT = 8 };

/* The calls about files; all of them belong to CALLS_ANY. */
static const struct gated_call {
    long number;
    const char *name;
    int kinds;
} gated[] = {
    {SYS_open, "open", OPENS | WAITS},
    {SYS_openat, "openat", OPENS | WAITS},
    {SYS_close, "close", WAITS},
    {SYS_read, "read", WAITS | HAS_COUNT},
    {SYS_pread64, "pread64", WAITS | HAS_COUNT},
    {SYS_readv, "readv", WAITS},
    {SYS_write, "write", WRITES | WAITS | HAS_COUNT},
    {SYS_pwrite64, "pwrite64", WRITES | WAITS | HAS_COUNT},
    {SYS_writev, "writev", WRITES | WAITS},
    {SYS_fsync, "fsync", WRITES | WAITS},
    {SYS_fdatasync, "fdatasync", WRITES | WAITS},
    {SYS_ftruncate, "ftruncate", WAITS},
    {SYS_flock, "flock", WAITS},
    {SYS_fchmod, "fchmod", WAITS},
    {SYS_fchown, "fchown", WAITS},
    {SYS_rename, "rename", 0},
    {SYS_renameat, "renameat", 0},
    {SYS_renameat2, "renameat2", 0},
    {SYS_unlink, "unlink", 0},
    {SYS_unlinkat, "unlinkat", 0},
    {SYS_link, "link", 0},
    {SYS_symlink, "symlink", 0},
    {SYS_mkdir, "mkdir", WRITES},
    {SYS_stat, "stat", 0},
    {SYS_fstat, "fstat", 0},
    {SYS_lstat, "lstat", 0},
    {SYS_newfstatat, "newfstatat", 0},
    {SYS_statx, "statx", 0},
    {SYS_access, "access", 0},
    {SYS_faccessat, "faccessat", 0},
    {SYS_readlink, "readlink", 0},
    {SYS_readlinkat, "readlinkat", 0},
    {SYS_getdents64, "getdents64", 0},
    {SYS_lseek, "lseek", 0},
    {SYS_mmap, "mmap", 0}, /* only of files */
    {SYS_fcntl, "fcntl", OPENS},
    {SYS_dup, "dup", OPENS},
    {SYS_ioctl, "ioctl", 0},
    {SYS_getrandom, "getrandom", 0},
    {SYS_uname, "uname", 0},
};
enum { GATED = sizeof gated / sizeof *gated, SIZE_OF_FILTER = 2 * GATED + 16 };

static struct {
    bool armed;
    calls_failure failure;
    int count;
    const char *failed;
} gate;

/* -- making a call -- */

/* Makes a system call. The filter allows the calls of this instruction. */
long calls_gate_raw(long number, const long long argument[6]);
extern const char calls_gate_raw_end[];
__asm__(".text\n"
        ".globl calls_gate_raw\n"
        ".type calls_gate_raw, @function\n"
        "calls_gate_raw:\n"
        "    mov %rdi, %rax\n"
        "    mov %rsi, %r11\n"
        "    mov (%r11), %rdi\n"
        "    mov 8(%r11), %rsi\n"
        "    mov 16(%r11), %rdx\n"
        "    mov 24(%r11), %r10\n"
        "    mov 32(%r11), %r8\n"
        "    mov 40(%r11), %r9\n"
        "    syscall\n"
        ".globl calls_gate_raw_end\n"
        "calls_gate_raw_end:\n"
        "    ret\n"
        ".size calls_gate_raw, . - calls_gate_raw\n");

static bool is_of_kind(const struct gated_call *call, const long long argument[6])
{
    switch (gate.failure.kind) {
    case CALLS_ANY:
        return true;
    case CALLS_THAT_WRITE:
        return (call->kinds & WRITES) || (call->number == SYS_openat && (argument[2] & O_CREAT));
    case CALLS_THAT_OPEN:
        return call->number == SYS_fcntl ? argument[1] == F_DUPFD_CLOEXEC : (call->kinds & OPENS) != 0;
    case CALLS_THAT_WAIT:
        return (call->kinds & WAITS) != 0;
    case CALLS_SHORT:
        return (call->kinds & HAS_COUNT) && argument[2] > 1;
    }
    return false;
}

/* Counts the call. Returns whether it fails. */
static bool is_chosen(const struct gated_call *call, const long long argument[6])
{
    if (!gate.armed || !is_of_kind(call, argument))
        return false;
    const int past = ++gate.count - gate.failure.number, every = gate.failure.kind == CALLS_THAT_WAIT ? 2 : 1;
    const bool chosen = past == 0 || (past > 0 && gate.failure.from && past % every == 0);
    if (chosen && gate.failed == NULL)
        gate.failed = call->name;
    return chosen;
}

/* Makes the call or fails. Returns the result for the kernel's interface: a negative value is an error. */
static long long pass(const struct gated_call *call, long long argument[6])
{
    const bool fails = is_chosen(call, argument);
    const bool is_write = (call->kinds & WRITES) && (call->kinds & HAS_COUNT) && argument[2] > 1;
    const bool partly = gate.failure.partly && gate.count == gate.failure.number && is_write;
    if (fails && (gate.failure.kind == CALLS_SHORT || partly))
        argument[2] = argument[2] < 64 ? argument[2] / 2 : argument[2] / 3 | 1;
    else if (fails && call->number != SYS_close)
        return -gate.failure.error;
    if (call->number == SYS_fsync || call->number == SYS_fdatasync)
        return 0; /* faster; no test turns the machine off */
    const long long result = calls_gate_raw(call->number, argument);
    return fails && call->number == SYS_close && result == 0 ? -gate.failure.error : result;
}

static void on_call(int signal_number, siginfo_t *info, void *interrupted)
{
    (void)signal_number;
    greg_t *r = ((ucontext_t *)interrupted)->uc_mcontext.gregs;
    long long argument[6] = {r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10], r[REG_R8], r[REG_R9]};
    const struct gated_call other = {info->si_syscall, "another call", 0}, *call = &other;
    for (int i = 0; i < GATED; i++)
        if (gated[i].number == info->si_syscall)
            call = &gated[i];
    const int saved = errno;
    r[REG_RAX] = pass(call, argument);
    errno = saved;
}

/* -- the filter -- */

/* Makes a filter: only calls of the table become signals, unless calls_gate_raw makes them. */
static unsigned short make_filter(struct sock_filter f[SIZE_OF_FILTER])
{
    const uint64_t allowed = (uint64_t)(uintptr_t)calls_gate_raw_end;
    const uint32_t at = offsetof(struct seccomp_data, instruction_pointer);
    const struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct sock_filter trap = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
    unsigned short n = 0;
    f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
    f[n++] = allow;
    f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at);
    f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)allowed, 0, 3);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at + 4);
    f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(allowed >> 32), 0, 1);
    f[n++] = allow;
    f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[4]));
    f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, UINT32_MAX, 0, 1); /* memory without a file */
    f[n++] = allow;
    f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < GATED; i++) {
        f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)gated[i].number, 0, 1);
        f[n++] = trap;
    }
    f[n++] = allow;
    return n;
}

bool calls_gate_install(const char **reason)
{
    struct sock_filter filter[SIZE_OF_FILTER];
    const struct sock_fprog program = {make_filter(filter), filter};
    const struct sigaction action = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO | SA_NODEFER};
    if (sigaction(SIGSYS, &action, NULL) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0)
        return true;
    *reason = strerror(errno);
    return false;
}

void calls_gate_arm(const calls_failure *failure)
{
    gate.failure = *failure;
    gate.count = 0;
    gate.failed = NULL;
    gate.armed = true;
}

const char *calls_gate_disarm(void)
{
    gate.armed = false;
    return gate.failed;
}
#else
bool calls_gate_install(const char **reason)
{
    *reason = "the filter of system calls is written for Linux on x86-64";
    return false;
}

void calls_gate_arm(const calls_failure *failure)
{
    (void)failure;
}

const char *calls_gate_disarm(void)
{
    return NULL;
}
#endif
