/* allocations [--all] [--threads] [NAME...]: runs each program while allocation n fails, for n = 1, 2, 3, ... until the
 * program makes fewer, once and from n on. With --threads it is the creation of threads that fails. Without --all it
 * tries the first ten n and some of the others. The status is 1 after the first failure of a program. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "files.h"
#include "memory.h"
#include "programs.h"
#include "refusing.h"

/* An undisturbed run follows after every fifth n. The time limit of a run is for a busy machine. */
enum { FIRST = OWN_MALLOC ? 10 : 4, SAMPLED = OWN_MALLOC ? 10 : 4, TEAM = 3, UNDISTURBED = 5, SECONDS = 300 };

/* The run that is being checked. */
static struct {
    const program *program;
    refused_call kind;
    long nth; /* 0: undisturbed */
    bool forever, all;
    char root[64], folder[128];
    known_files complete;
    char damage[256]; /* found before the failed step was repeated */
    long runs;
} test = {.root = "/tmp/tapehead_failures_XXXXXX"};

/* -- what a check reports -- */

static const char *description(void)
{
    static char text[256];
    snprintf(text, sizeof text, "%s, %s %ld fails%s: ", test.program->name,
             test.kind == REFUSE_THREADS ? "creation of thread" : "allocation", test.nth,
             test.forever ? " with all later ones" : "");
    return text;
}

/* Ends a run that crashed or hangs, with the description that was prepared before it. */
static char crash_text[300];

static void on_signal(int number)
{
    const ssize_t written = write(STDERR_FILENO, crash_text, strlen(crash_text));
    const char *const reason = number == SIGALRM ? "the run does not end\n" : "the run crashes\n";
    _exit(written > 0 && write(STDERR_FILENO, reason, strlen(reason)) > 0 ? 1 : 2);
}

static bool complain(const char *problem)
{
    fprintf(stderr, "%s%s\n", description(), problem);
    return false;
}

/* -- a run -- */

static void begin(void)
{
    refuse(test.kind, test.nth, test.forever);
}

static void repeat(void)
{
    refuse_nothing();
    const char *damage = find_damage(&test.complete, test.folder);
    if (damage)
        snprintf(test.damage, sizeof test.damage, "%s", damage);
}

static program_result run_here(int threads)
{
    static const program_hooks hooks = {begin, repeat};
    const program_result result = run_program(test.program, test.folder, threads, &hooks);
    refuse_nothing();
    test.runs++;
    return result;
}

static void *run_with_a_team(void *result)
{
    *(program_result *)result = run_here(TEAM);
    return NULL;
}

/* Starts run_with_a_team in a thread with a stack of musl's size, 128 KiB, and 80 KiB for the thread-local variables of
 * the programs, which glibc takes from the stack. (The sanitizers need more.) */
static bool start_thread(pthread_t *thread, program_result *result)
{
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    if (!UNDER_SANITIZER)
        pthread_attr_setstacksize(&attributes, (128 + 80) * 1024);
    const bool started = pthread_create(thread, &attributes, run_with_a_team, result) == 0;
    pthread_attr_destroy(&attributes);
    return started;
}

/* Runs the program with failure nth, or undisturbed if nth is 0. A program with a team runs in a new thread, which has
 * no team yet. */
static program_result run(long nth)
{
    program_result result = {.status = TH_ERROR_STATE};
    pthread_t thread;
    test.nth = nth;
    snprintf(crash_text, sizeof crash_text, "%s", description());
    alarm(SECONDS);
    if (test.kind == REFUSE_ALLOCATIONS)
        result = run_here(1);
    else if (start_thread(&thread, &result))
        pthread_join(thread, NULL);
    alarm(0);
    return result;
}

/* -- what must hold -- */

/* Returns true if a text is a sentence that names memory. A context that could not be created has no text. */
static bool names_memory(const program_result *result)
{
    return result->step == 0 || (strlen(result->text) > 15 && strchr(result->text, ' ') &&
                                 (strstr(result->text, "memory") || strstr(result->text, "Memory") ||
                                  (result->status == TH_ERROR_MEMORY && strstr(result->text, "bytes"))));
}

static int lowest_free_descriptor(void)
{
    const int lowest = dup(STDERR_FILENO);
    close(lowest);
    return lowest;
}

/* Checks an undisturbed run after one that failed. */
static bool check_next(uint32_t crc, long live)
{
    const long failed_nth = test.nth;
    const program_result after = run(0);
    test.nth = failed_nth;
    return (after.status == TH_OK && after.crc == crc && live_blocks() == live) ||
           complain("the next run is disturbed");
}

/* Checks a run with failure nth. Sets *reached to false if the program made fewer calls. */
static bool check(long nth, uint32_t crc, bool *reached)
{
    char text[1400];
    const long live = live_blocks();
    const int descriptor = lowest_free_descriptor();
    test.damage[0] = 0;
    if (nth % 2) /* otherwise the old files are there */
        remove_files(test.folder);
    const program_result result = run(nth);
    *reached = calls_seen() >= nth;
    if (result.status != TH_OK) {
        snprintf(text, sizeof text, "step %d, code %d: %s", result.step, result.status, result.text);
        if (test.kind == REFUSE_THREADS || result.repeated != TH_OK || !names_memory(&result))
            return complain(text);
    }
    if (test.damage[0])
        return complain(test.damage);
    if (result.crc != crc) {
        snprintf(text, sizeof text, "%s has other bits (step %d: %s)",
                 result.status == TH_OK ? "the run, which succeeds," : "the repeated step or one after it", result.step,
                 result.text);
        return complain(text);
    }
    const long left = live_blocks() - live;
    const char *const damage = find_damage(&test.complete, test.folder);
    if (damage)
        return complain(damage);
    if (lowest_free_descriptor() != descriptor)
        return complain("a file stays open");
    if (left > 0) {
        snprintf(text, sizeof text, "%ld blocks are not released (step %d: %s)", left, result.step, result.text);
        return complain(text);
    }
    return nth % UNDISTURBED || check_next(crc, live);
}

/* Returns the n to try after n, of `count`. */
static long next(long n, long count)
{
    const long stride = (count - FIRST) / SAMPLED;
    return test.all || n < FIRST || stride <= 1 ? n + 1 : n + stride;
}

static bool sweep(const program *p)
{
    test.program = p;
    snprintf(test.folder, sizeof test.folder, "%s/%s", test.root, p->name);
    mkdir(test.folder, 0777);
    test.complete.count = 0;
    for (int i = 0; i < 2; i++) /* the first runs allocate what the process keeps */
        (void)run(0);
    const program_result undisturbed = run(0);
    const long count = calls_seen(), before = test.runs;
    const clock_t start = clock();
    if (undisturbed.status != TH_OK)
        return complain(undisturbed.text);
    read_files(&test.complete, test.folder);
    bool right = true;
    for (int forever = 0; forever < 2; forever++) {
        bool reached = true;
        test.forever = forever;
        for (long n = 1; reached && right; n = next(n, count))
            right = check(n, undisturbed.crc, &reached);
    }
    if (test.all)
        printf("%-28s %6ld calls %7ld runs %6.1f s\n", p->name, count, test.runs - before,
               (double)(clock() - start) / CLOCKS_PER_SEC);
    remove_files(test.folder);
    return right;
}

/* -- the command line -- */

static bool is_named(const char *name, int count, char **names)
{
    bool any = false;
    for (int i = 1; i < count; i++) {
        if (strcmp(names[i], name) == 0)
            return true;
        any = any || names[i][0] != '-';
    }
    return !any;
}

static bool has_option(const char *option, int count, char **arguments)
{
    for (int i = 1; i < count; i++)
        if (strcmp(arguments[i], option) == 0)
            return true;
    return false;
}

int main(int argc, char **argv)
{
    int failed = 0, swept = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGALRM, on_signal);
    signal(SIGSEGV, on_signal);
    signal(SIGABRT, on_signal);
    if (mkdtemp(test.root) == NULL)
        return 2;
    test.all = has_option("--all", argc, argv);
    test.kind = has_option("--threads", argc, argv) ? REFUSE_THREADS : REFUSE_ALLOCATIONS;
    for (int i = 0; i < program_count; i++)
        if (is_named(programs[i]->name, argc, argv)) {
            failed += !sweep(programs[i]);
            swept++;
        }
    remove_folder(test.root);
    if (swept == 0) {
        fprintf(stderr, "allocations: no program has this name\n");
        return 2;
    }
    printf("%d programs, %ld runs, %d failed\n", swept, test.runs, failed);
    return failed > 0;
}
