#include "processes.h"

#include <check.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

void *shared_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_msg(memory != MAP_FAILED, "mmap failed for %zu shared bytes", bytes);
    return memory;
}

/* -- the transport: a ring of bytes for each pair of processes and direction -- */

enum { RING = 1 << 16 };

/* `written` and `read` count bytes from the beginning. One process writes, one reads. */
typedef struct ring {
    _Alignas(64) _Atomic uint64_t written;
    _Alignas(64) _Atomic uint64_t read;
    unsigned char bytes[RING];
} ring;

/* The memory that all processes share. */
typedef struct shared {
    process_result result[MAX_PROCESSES];
    ring ring[MAX_PROCESSES][MAX_PROCESSES]; /* [from][to] */
} shared;

/* One process's end of the transport. */
typedef struct port {
    shared *shared;
    int rank;
    char problem[128];
} port;

/* The unfinished part of a message. The message begins with its length, so that the receiver can compare the lengths. */
typedef struct part {
    const th_message *message;
    uint64_t length;
    size_t done; /* bytes of the length and the message together */
} part;

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Copies n bytes between the ring, from its position, and memory. */
static void copy(ring *r, uint64_t position, void *memory, size_t n, bool write)
{
    const size_t start = (size_t)(position % RING), head = (size_t)least(n, RING - start);
    unsigned char *bytes = memory;
    if (write) {
        memcpy(r->bytes + start, bytes, head);
        memcpy(r->bytes, bytes + head, n - head);
    } else {
        memcpy(bytes, r->bytes + start, head);
        memcpy(bytes + head, r->bytes, n - head);
    }
}

/* Moves as many bytes of a part as the ring has, or has space for. Returns whether it moved any. */
static bool move(ring *r, part *p, bool write)
{
    const uint64_t written = atomic_load(&r->written), read = atomic_load(&r->read);
    uint64_t possible = write ? RING - (written - read) : written - read, position = write ? written : read;
    const uint64_t before = position;
    while (possible > 0 && p->done < sizeof p->length + p->message->bytes) {
        const bool in_length = p->done < sizeof p->length;
        unsigned char *memory = in_length ? (unsigned char *)&p->length + p->done
                                          : (unsigned char *)p->message->data + (p->done - sizeof p->length);
        const size_t n =
            (size_t)least(possible, (in_length ? sizeof p->length : sizeof p->length + p->message->bytes) - p->done);
        copy(r, position, memory, n, write);
        p->done += n;
        position += n;
        possible -= n;
        if (!write && p->done == sizeof p->length && p->length != p->message->bytes)
            break;
    }
    atomic_store(write ? &r->written : &r->read, position);
    return position > before;
}

static bool is_done(const part *p)
{
    return p->done == sizeof p->length + p->message->bytes;
}

/* Moves bytes of all parts once. Only the first unfinished part for each peer may move. Returns the number of
 * unfinished parts, and sets *moved if any byte moved. */
static int move_all(port *own, part *parts, int n, bool write, bool *moved)
{
    bool busy[MAX_PROCESSES] = {false};
    int unfinished = 0;
    for (int i = 0; i < n; i++) {
        const int peer = parts[i].message->peer;
        if (is_done(&parts[i]))
            continue;
        unfinished++;
        if (busy[peer])
            continue;
        ring *r = write ? &own->shared->ring[own->rank][peer] : &own->shared->ring[peer][own->rank];
        *moved |= move(r, &parts[i], write);
        busy[peer] = !is_done(&parts[i]);
    }
    return unfinished;
}

static const char *wrong_length(port *own, const part *parts, int n)
{
    for (int i = 0; i < n; i++)
        if (parts[i].done == sizeof parts[i].length && parts[i].length != parts[i].message->bytes) {
            snprintf(own->problem, sizeof own->problem, "rank %d sent %llu bytes instead of %zu",
                     parts[i].message->peer, (unsigned long long)parts[i].length, parts[i].message->bytes);
            return own->problem;
        }
    return NULL;
}

static const char *no_answer(port *own, const part *parts, int n, double seconds)
{
    int first = 0;
    while (first < n - 1 && is_done(&parts[first]))
        first++;
    snprintf(own->problem, sizeof own->problem, "rank %d has not answered for %g second%s", parts[first].message->peer,
             seconds, seconds == 1 ? "" : "s");
    return own->problem;
}

/* Gives the processor to another thread; after many vain tries sleeps for a moment. */
static void idle(int vain)
{
    if (vain < 200)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

static const char *exchange_parts(port *own, part *parts, int n_receive, int n_send, double seconds)
{
    double deadline = now() + seconds;
    for (int vain = 0;; vain++) {
        bool moved = false;
        const int unfinished =
            move_all(own, parts, n_receive, false, &moved) + move_all(own, parts + n_receive, n_send, true, &moved);
        const char *problem = wrong_length(own, parts, n_receive);
        if (problem || unfinished == 0)
            return problem;
        if (moved) {
            vain = 0;
            deadline = now() + seconds;
        } else if (now() > deadline) {
            return no_answer(own, parts, n_receive + n_send, seconds);
        } else {
            idle(vain);
        }
    }
}

static const char *exchange(void *user, const th_message *send, int n_send, const th_message *receive, int n_receive,
                            double seconds)
{
    const int n = n_receive + n_send;
    part *parts = calloc((size_t)n + 1, sizeof *parts);
    if (parts == NULL)
        return "memory is exhausted";
    for (int i = 0; i < n_receive; i++)
        parts[i] = (part){.message = &receive[i]};
    for (int i = 0; i < n_send; i++)
        parts[n_receive + i] = (part){.message = &send[i], .length = send[i].bytes};
    const char *problem = exchange_parts(user, parts, n_receive, n_send, seconds);
    free(parts);
    return problem;
}

/* -- processes -- */

static process_result *own_result; /* in a process that a test forked */

void process_print(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(own_result->text, sizeof own_result->text, format, values);
    va_end(values);
}

void fail_process(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(own_result->text, sizeof own_result->text, format, values);
    va_end(values);
    _exit(1);
}

_Noreturn static void be_process(shared *memory, int rank, int n, process_function *function, void *user)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    port own = {.shared = memory, .rank = rank};
    own_result = &memory->result[rank];
    exit(function(&(th_transport){.rank = rank, .size = n, .exchange = exchange, .user = &own}, user));
}

/* Returns the status of an ended process as a shell does. */
static int status_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Stores the status of each process that has ended. Returns how many still run. */
static int collect(pid_t *processes, int n, process_result *results)
{
    int running = 0, status;
    for (int i = 0; i < n; i++) {
        if (processes[i] != 0 && waitpid(processes[i], &status, WNOHANG) == processes[i]) {
            results[i].status = status_of(status);
            processes[i] = 0;
        }
        running += processes[i] != 0;
    }
    return running;
}

static void kill_all(pid_t *processes, int n, process_result *results)
{
    for (int i = 0; i < n; i++)
        if (processes[i] != 0)
            kill(processes[i], SIGKILL);
    while (collect(processes, n, results) > 0)
        idle(1000);
}

static int first_failure(const process_result *results, int n)
{
    int i = 0;
    while (i < n && results[i].status == 0)
        i++;
    return i;
}

/* Returns the first process that failed, or n. `together`: its failure ends the others. */
static int run(int n, process_function *function, void *user, double seconds, bool together, process_result *results)
{
    ck_assert_int_le(n, MAX_PROCESSES);
    shared *memory = shared_memory(sizeof *memory);
    pid_t processes[MAX_PROCESSES];
    fflush(NULL); /* otherwise each process would write it again */
    for (int i = 0; i < n; i++) {
        processes[i] = fork();
        if (processes[i] == 0)
            be_process(memory, i, n, function, user);
        ck_assert_int_gt(processes[i], 0);
    }
    memset(results, 0, (size_t)n * sizeof *results);
    const double deadline = now() + seconds;
    int failed = n;
    while (collect(processes, n, results) > 0 && now() < deadline && (!together || failed == n)) {
        idle(1000);
        failed = first_failure(results, n);
    }
    if (failed == n)
        failed = first_failure(results, n);
    kill_all(processes, n, results);
    for (int i = 0; i < n; i++)
        memcpy(results[i].text, memory->result[i].text, sizeof results[i].text);
    munmap(memory, sizeof *memory);
    return failed;
}

int run_until_failure(int n, process_function *function, void *user, process_result *results)
{
    return run(n, function, user, INFINITY, true, results);
}

void run_processes(int n, process_function *function, void *user)
{
    process_result results[MAX_PROCESSES];
    const int failed = run_until_failure(n, function, user, results);
    ck_assert_msg(failed == n, "process %d of %d ended with status %d: %s", failed, n, results[failed % n].status,
                  results[failed % n].text);
}

void try_processes(int n, process_function *function, void *user, double seconds, process_result *results)
{
    run(n, function, user, seconds, false, results);
}
