/* The defaults of --length and --batch for a pretrained model. Windows get the model's length, unless the text or half
 * of the machine's memory is too small for it. The default is at most MAX_LENGTH: some models have a length of 131,072
 * tokens, and the attention of one such window takes minutes. */

#include "shared/system.h"
#include "trainer.h"

/* The tokens in a batch if --batch is not given: the same number as for a new model. */
enum { DEFAULT_TOKENS = DEFAULT_LENGTH * DEFAULT_BATCH };
enum { TUNING_TOKENS = 2048 }; /* the same for a file with marks, in which only some tokens count */
enum { MAX_LENGTH = 4096 };    /* the largest default; --length may be larger */

size_t machine_memory(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages <= 0 || size <= 0                   ? 0
           : (size_t)pages > SIZE_MAX / (size_t)size ? SIZE_MAX
                                                     : (size_t)pages * (size_t)size;
}

/* Half of the machine's memory. The other half is for other programs. */
static size_t half_of_memory(void)
{
    const size_t machine = machine_memory();
    return machine > 0 ? machine / 2 : SIZE_MAX;
}

const char *spell_bytes(size_t bytes, char *text, size_t size)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double number = (double)bytes;
    size_t unit = 0;
    while (number >= 1000 && unit + 1 < sizeof units / sizeof *units) {
        number /= 1024;
        unit++;
    }
    snprintf(text, size, number < 10 && unit > 0 ? "%.1f %s" : "%.0f %s", number, units[unit]);
    return text;
}

/* Returns the default of --batch, a multiple of the number of shards. */
static int64_t default_batch(int64_t length)
{
    const int64_t windows = (chosen.marked ? TUNING_TOKENS : DEFAULT_TOKENS) / length,
                  max_windows = windows > DEFAULT_BATCH ? DEFAULT_BATCH : windows;
    const int64_t windows_per_shard = max_windows / chosen.shards;
    return chosen.shards * (windows_per_shard < 1 ? 1 : windows_per_shard);
}

/* (It measures in a shapes-only context.) */
bool fits_into_memory(bool evaluate_only)
{
    const th_context_options shapes = {
        .threads = (int)chosen.threads, .shapes_only = true, .precision = parse_precision(PROGRAM, chosen.precision)};
    trainer t = {.ctx = th_context_new(&shapes)};
    make_model(&t);
    make_batch(&t);
    if (!evaluate_only)
        make_optimizer(&t);
    for (int step = 0; step < (evaluate_only ? 1 : 2); step++)
        require_ok(&t, run_memory_trial(&t, evaluate_only));
    const th_memory_usage memory = th_memory(t.ctx);
    const size_t needed = memory.reserved_peak + memory.mapped;
    th_context_free(t.ctx);
    return needed <= half_of_memory();
}

static void set_windows(int64_t length)
{
    chosen.length = length;
    if (!was_given.batch)
        chosen.batch = default_batch(length);
}

void choose_windows(int64_t tokens, bool evaluate_only)
{
    const char *reason = chosen.length > 0 ? "as given" : "the model's own";
    if (chosen.length > 0 && was_given.batch)
        return;
    if (chosen.length > 0)
        set_windows(chosen.length);
    else {
        set_windows(chosen.model.length);
        if (chosen.length > MAX_LENGTH) {
            set_windows(MAX_LENGTH);
            reason = "the largest default";
        }
        if (chosen.length > tokens - 1) {
            set_windows(tokens > 2 ? tokens - 1 : 1);
            reason = chosen.marked ? "enough for the examples" : "as many as the text has";
        }
        while (chosen.length > DEFAULT_LENGTH && !fits_into_memory(evaluate_only)) {
            set_windows(chosen.length / 2);
            reason = "as more would take over half of this machine's memory";
        }
    }
    fprintf(stderr, PROGRAM ": --length is %lld, %s (the model sees up to %lld); --batch is %lld",
            (long long)chosen.length, reason, (long long)chosen.model.length, (long long)chosen.batch);
    fprintf(stderr, evaluate_only ? "\n" : "; --lr is %g\n", chosen.lr);
}
