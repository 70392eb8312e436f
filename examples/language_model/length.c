/* How long windows are, and how many make a batch, for a pretrained model whose user has not said so: the model's own
 * length, as far as the text, the machine's memory and patience allow: some models see 131,072 tokens, where the attention
 * of one window alone takes minutes. */
#include <unistd.h>

#include "trainer.h"

/* Of a batch, if the user has not said how many windows it has: as many as a new model's batch has. */
enum { USUAL_TOKENS = USUAL_LENGTH * USUAL_BATCH };
enum { MOST_LENGTH = 4096 }; /* that is chosen here; --length may be more */

/* Half of the memory of the machine; the rest is for what else runs on it. */
static size_t usable_memory(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (size_t)pages / 2 * (size_t)size : SIZE_MAX;
}

static int64_t batch_for(int64_t length)
{
    const int64_t windows = USUAL_TOKENS / length;
    return windows < 1 ? 1 : windows > USUAL_BATCH ? USUAL_BATCH : windows;
}

/* Whether windows of this length fit into the memory, found by a run of shapes without data. */
static bool fits(int64_t length, bool batch_is_open, bool evaluate_only)
{
    const int64_t batch = chosen.batch;
    const th_context_options shapes = {.threads = (int)chosen.threads,
                                       .shapes_only = true,
                                       .memory_limit = usable_memory(),
                                       .precision = precision_called(PROGRAM, chosen.precision)};
    trainer t = {.ctx = th_context_new(&shapes)};
    chosen.length = length;
    chosen.batch = batch_is_open ? batch_for(length) : batch;
    th_status status = build_model(&t);
    if (status == TH_OK)
        status = make_batch(&t);
    for (int step = 0; status == TH_OK && step < (evaluate_only ? 1 : 2); step++)
        status = rehearse(&t, evaluate_only);
    th_context_free(t.ctx);
    chosen.batch = batch;
    return status != TH_ERROR_MEMORY; /* (any other error comes again, and is printed, when the model is made) */
}

void choose_windows(int64_t tokens, bool evaluate_only)
{
    const bool length_is_open = chosen.length == 0, batch_is_open = chosen.batch == 0;
    const char *reason = length_is_open ? "the model's own" : "as given";
    int64_t length = chosen.length;
    if (!length_is_open && !batch_is_open)
        return;
    if (length_is_open) {
        length = chosen.model.length;
        if (length > MOST_LENGTH) {
            length = MOST_LENGTH;
            reason = "the most without asking for more";
        }
        if (length > tokens - 1) {
            length = tokens > 2 ? tokens - 1 : 1;
            reason = "as many as the text has";
        }
        while (length > USUAL_LENGTH && !fits(length, batch_is_open, evaluate_only)) {
            length /= 2;
            reason = "as more would take over half of this machine's memory";
        }
    }
    chosen.length = length;
    if (batch_is_open)
        chosen.batch = batch_for(length);
    fprintf(stderr, PROGRAM ": --length is %lld, %s (the model sees up to %lld); --batch is %lld\n", (long long)length,
            reason, (long long)chosen.model.length, (long long)chosen.batch);
}
