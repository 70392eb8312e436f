/* Long runs: memory must not grow, and the bits must equal a short run.
 *
 *     soak steps N FILE        N steps of one model. FILE is a checkpoint that the program writes and removes
 *     soak contexts N          N contexts, created and freed
 *     soak threads SECONDS     eight threads, each with its own contexts
 *     soak short FILE          all three in about a second
 *
 * The model is copyA of bench/configurations.def. scripts/defects/soak.sh makes the long runs. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tapehead/core.h>
#include <tapehead/models.h>
#include <time.h>
#include <unistd.h>

enum {
    THREADS = 8,
    INTERVALS = 20, /* measurements of a run; the first ones are before the memory is steady */
    WARM_UP = 4,    /* as many of them */
    FEW_STEPS = 50, /* of a short run */
    SEEDS = 5,      /* of contexts */
    SAMPLES = 100,  /* of the memory of several threads, in an interval */
    MIB = 1 << 20
};

static _Noreturn void fail(const char *what, const char *why)
{
    fprintf(stderr, "soak: %s: %s\n", what, why);
    exit(1);
}

/* -- training -- */

typedef struct training {
    th_context *ctx;
    th_module *model;
    th_optimizer *adam;
    th_tensor *tokens, *targets; /* (B, T) */
} training;

static th_language_model_options copy_a(int64_t *batch)
{
#define CONFIGURATION(name, layers_, width_, heads_, vocabulary_, batch_, length_, mlp_)                               \
    if (strcmp(#name, "copyA") == 0) {                                                                                 \
        *batch = batch_;                                                                                               \
        return (th_language_model_options){.vocabulary = vocabulary_,                                                  \
                                           .length = length_,                                                          \
                                           .width = width_,                                                            \
                                           .heads = heads_,                                                            \
                                           .layers = layers_,                                                          \
                                           .dropout = 0.1,                                                             \
                                           .block = {.no_mlp = !mlp_}};                                                \
    }
#include "configurations.def"
#undef CONFIGURATION
    fail("bench/configurations.def", "there is no copyA");
}

static void check(const training *t)
{
    if (th_error_code(t->ctx))
        fail("training", th_error_message(t->ctx));
}

static training begin(uint64_t seed, int threads)
{
    int64_t batch = 0;
    const th_language_model_options gpt = copy_a(&batch);
    training t = {.ctx = th_context_new(&(th_context_options){.seed = seed, .threads = threads})};
    if (t.ctx == NULL)
        fail("th_context_new", "out of memory");
    t.model = th_language_model_new(t.ctx, &gpt);
    t.adam = th_adam_w_new(t.model, &(th_adam_options){.learning_rate = 3e-4, .weight_decay = 0.1});
    t.tokens = th_random_integers(t.ctx, TH_INT32, TH_SHAPE(batch, gpt.length), 0, gpt.vocabulary);
    t.targets = th_random_integers(t.ctx, TH_INT32, TH_SHAPE(batch, gpt.length), 0, gpt.vocabulary);
    check(&t);
    return t;
}

static void train(const training *t, int64_t steps)
{
    for (int64_t i = 0; i < steps; i++) {
        th_tape_clear(t->ctx);
        if (th_backward(th_language_model_loss(t->model, t->tokens, t->targets, NULL), NULL) ||
            th_optimizer_step(t->adam))
            break;
    }
    th_tape_clear(t->ctx);
    check(t);
}

/* Returns the checksum of the parameters after this number of steps in a new context. */
static uint32_t short_run(uint64_t seed, int threads, int64_t steps)
{
    const training t = begin(seed, threads);
    train(&t, steps);
    const uint32_t sum = th_module_crc32c(t.model);
    th_context_free(t.ctx);
    return sum;
}

static void compare(const char *what, uint32_t got, uint32_t expected)
{
    if (got == expected)
        return;
    char why[80];
    snprintf(why, sizeof why, "the parameters are %08x, not %08x", (unsigned)got, (unsigned)expected);
    fail(what, why);
}

/* -- memory -- */

typedef struct watch {
    const char *what;
    size_t bound;                    /* bytes that resident memory may grow: the C library keeps some pages */
    size_t resident, first_resident; /* bytes now; after the warm-up */
    th_memory_usage usage, first;    /* now; after the warm-up */
} watch;

static size_t resident_bytes(void)
{
    long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (statm == NULL || fscanf(statm, "%*d %ld", &pages) != 1)
        fail("/proc/self/statm", "cannot be read");
    fclose(statm);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Prints the resident memory, and the context's if there is one. Fails if they have grown since the warm-up. */
static void judge(watch *w, int interval, const th_context *ctx)
{
    if (ctx)
        w->usage = th_memory(ctx);
    if (interval <= WARM_UP) {
        w->first_resident = w->resident > w->first_resident ? w->resident : w->first_resident;
        w->first = w->usage;
    }
    printf("%s %3d %%: resident %.2f MiB, context %zu bytes of %zu\n", w->what, 100 * interval / INTERVALS,
           (double)w->resident / (double)MIB, w->usage.live, w->usage.reserved);
    fflush(stdout);
    if (w->resident > w->first_resident + w->bound)
        fail(w->what, "resident memory grows");
    if (w->usage.live > w->first.live || w->usage.reserved > w->first.reserved)
        fail(w->what, "the context's memory grows");
}

/* -- the runs -- */

/* The first FEW_STEPS equal a short run. The last FEW_STEPS equal a new context that loads a checkpoint and makes only
 * these steps. */
static void soak_steps(int64_t steps, const char *file)
{
    const training t = begin(1, 2);
    const th_checkpoint saved = {.model = t.model, .optimizer = t.adam};
    watch w = {.what = "steps", .bound = 2 * MIB};
    train(&t, FEW_STEPS);
    compare("the first steps", th_module_crc32c(t.model), short_run(1, 1, FEW_STEPS));
    int64_t done = FEW_STEPS;
    for (int i = 1; i <= INTERVALS; i++) {
        const int64_t end = (steps - FEW_STEPS) * i / INTERVALS;
        train(&t, end > done ? end - done : 0);
        done = end > done ? end : done;
        w.resident = resident_bytes();
        judge(&w, i, t.ctx);
    }
    if (th_checkpoint_save(file, &saved))
        fail(file, th_error_message(t.ctx));
    train(&t, FEW_STEPS);
    const training fresh = begin(1, 1); /* with the same tokens */
    const th_checkpoint loaded = {.model = fresh.model, .optimizer = fresh.adam};
    if (th_checkpoint_load(file, &loaded))
        fail(file, th_error_message(fresh.ctx));
    remove(file);
    train(&fresh, FEW_STEPS);
    compare("the last steps", th_module_crc32c(t.model), th_module_crc32c(fresh.model));
    printf("steps: %lld, parameters_crc32c=%08x\n", (long long)th_step(t.ctx), (unsigned)th_module_crc32c(t.model));
    th_context_free(fresh.ctx);
    th_context_free(t.ctx);
}

static void soak_contexts(int contexts)
{
    uint32_t expected[SEEDS];
    for (int seed = 0; seed < SEEDS; seed++)
        expected[seed] = short_run((uint64_t)seed, 1, 2);
    watch w = {.what = "contexts", .bound = 2 * MIB};
    for (int i = 1, done = 0; i <= INTERVALS; i++) {
        for (; done < contexts * i / INTERVALS; done++)
            compare("a context", short_run((uint64_t)(done % SEEDS), 1 + done % 3, 2), expected[done % SEEDS]);
        w.resident = resident_bytes();
        judge(&w, i, NULL);
    }
    printf("contexts: %d\n", contexts);
}

/* What the threads of soak_threads share. */
typedef struct shared {
    uint32_t expected[THREADS]; /* of a thread alone */
    atomic_int next;            /* the next thread's seed */
    atomic_bool stop;
    atomic_llong runs;
} shared;

/* Trains again and again with its seed. */
static void *train_again(void *argument)
{
    shared *s = argument;
    const int seed = atomic_fetch_add(&s->next, 1);
    while (!atomic_load(&s->stop)) {
        compare("a thread", short_run((uint64_t)seed, 2, FEW_STEPS), s->expected[seed]);
        atomic_fetch_add(&s->runs, 1);
    }
    return NULL;
}

/* The memory depends on how many threads have a context at the same time. In a long run, all have one in each
 * interval. */
static void soak_threads(double seconds, size_t bound)
{
    static shared s;
    pthread_t thread[THREADS];
    watch w = {.what = "threads", .bound = bound};
    for (int seed = 0; seed < THREADS; seed++)
        s.expected[seed] = short_run((uint64_t)seed, 1, FEW_STEPS);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, train_again, &s))
            fail("threads", "cannot be created");
    const long long pause = (long long)(1e9 * seconds / (INTERVALS * SAMPLES));
    for (int i = 1; i <= INTERVALS; i++) {
        w.resident = 0;
        for (int sample = 0; sample < SAMPLES; sample++) {
            nanosleep(&(struct timespec){pause / 1000000000, pause % 1000000000}, NULL);
            const size_t resident = resident_bytes();
            w.resident = resident > w.resident ? resident : w.resident;
        }
        judge(&w, i, NULL);
    }
    atomic_store(&s.stop, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    printf("threads: %lld runs of %d steps\n", (long long)atomic_load(&s.runs), FEW_STEPS);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "steps") == 0 && argc == 4 && atoll(argv[2]) > 3 * FEW_STEPS) {
        soak_steps(atoll(argv[2]), argv[3]);
    } else if (strcmp(what, "contexts") == 0 && argc == 3 && atoi(argv[2]) >= INTERVALS) {
        soak_contexts(atoi(argv[2]));
    } else if (strcmp(what, "threads") == 0 && argc == 3 && atof(argv[2]) > 0) {
        soak_threads(atof(argv[2]), 4 * MIB);
    } else if (strcmp(what, "short") == 0 && argc == 3) {
        soak_steps(500, argv[2]);
        soak_contexts(100);
        soak_threads(0.5, THREADS * 4 * MIB);
    } else {
        fprintf(stderr, "usage: soak steps N FILE | contexts N | threads SECONDS | short FILE\n");
        return 2;
    }
    return 0;
}
