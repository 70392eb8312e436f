/* The examples of a tuner and its micro-batches: see examples.h. */
#include "models/tuning/examples.h"

#include <string.h>

#include "models/core/context.h"
#include "models/data/permutation.h"
#include "tapehead/token_file.h"

static const char operation[] = "tune_add";

/* -- the examples -- */

static size_t bytes_of(int64_t tokens)
{
    return (size_t)tokens * (sizeof(int32_t) + 1);
}

static const unsigned char *marks_of(const th_tune_example *e)
{
    return (const unsigned char *)(e->token + e->count);
}

/* Returns whether a token is one that the loss counts. The first one has no token before it. */
static bool is_target(const th_tune_example *e, int64_t i)
{
    return i > 0 && i < e->count && !(marks_of(e)[i] & TH_TOKEN_GIVEN);
}

static bool has_target(const th_tune_example *e, int64_t begin, int64_t end)
{
    while (begin < end && !is_target(e, begin))
        begin++;
    return begin < end;
}

static bool ensure_capacity(th_context *ctx, th_tune_examples *examples)
{
    enum { FIRST = 16 };
    if (examples->count < examples->capacity)
        return true;
    const int64_t capacity = examples->capacity ? 2 * examples->capacity : FIRST;
    size_t bytes;
    th_tune_example *grown = th_checked_bytes(capacity, sizeof *grown, &bytes) ? th_allocate(ctx, bytes) : NULL;
    if (grown == NULL)
        return false;
    if (examples->count > 0)
        memcpy(grown, examples->example, (size_t)examples->count * sizeof *grown);
    th_release(ctx, examples->example, (size_t)examples->capacity * sizeof *grown);
    examples->example = grown;
    examples->capacity = capacity;
    return true;
}

th_status th_tune_examples_add(th_context *ctx, th_tune_examples *examples, const th_token_list *tokens,
                               const th_text *marks)
{
    th_tune_example e = {.count = (int64_t)tokens->count};
    size_t bytes;
    if (!th_checked_bytes(e.count, sizeof(int32_t) + 1, &bytes) || !ensure_capacity(ctx, examples) ||
        (e.token = th_allocate(ctx, bytes)) == NULL)
        return th_fail_memory(ctx, operation, tokens->count * (sizeof(int32_t) + 1));
    if (e.count > 0) {
        memcpy(e.token, tokens->token, tokens->count * sizeof *e.token);
        memcpy(e.token + e.count, marks->bytes, tokens->count);
    }
    if (!has_target(&e, 0, e.count)) {
        th_release(ctx, e.token, bytes);
        return th_fail(ctx, TH_ERROR_VALUE, operation,
                       "nothing in this conversation counts: it needs an answer of the assistant");
    }
    examples->example[examples->count++] = e;
    return TH_OK;
}

void th_tune_examples_free(th_context *ctx, th_tune_examples *examples)
{
    while (examples->count > 0) {
        const th_tune_example *e = &examples->example[--examples->count];
        th_release(ctx, e->token, bytes_of(e->count));
    }
    th_release(ctx, examples->example, (size_t)examples->capacity * sizeof *examples->example);
    *examples = (th_tune_examples){.seed = examples->seed};
}

/* -- micro-batches -- */

/* Moves on to the next pass if this one is complete. */
static void begin_pass(const th_tune_examples *examples, th_tune_place *place)
{
    if (place->index < place->examples)
        return;
    *place = (th_tune_place){.pass = place->pass + (place->examples > 0), .examples = examples->count};
}

static const th_tune_example *example_at(const th_tune_examples *examples, const th_tune_place *place)
{
    const th_permutation order = th_permutation_make(examples->seed, (uint64_t)place->pass, (uint64_t)place->examples);
    return &examples->example[th_permutation_at(&order, (uint64_t)place->index)];
}

/* Appends `count` tokens of an example, from `offset` on, as a document. The last target follows them. */
static void append(th_tune_batch *batch, const th_tune_example *e, int64_t offset, int64_t count)
{
    const int64_t start = batch->tokens;
    for (int64_t i = offset; i < offset + count; i++, batch->tokens++) {
        const bool counts = is_target(e, i + 1);
        batch->token[batch->tokens] = e->token[i];
        batch->target[batch->tokens] = counts ? e->token[i + 1] : TH_NO_TARGET;
        batch->start[batch->tokens] = (int32_t)start;
        batch->targets += counts;
    }
    batch->documents++;
}

void th_tune_batch_fill(th_tune_batch *batch, const th_tune_examples *examples, th_tune_place *place)
{
    batch->tokens = batch->targets = batch->documents = 0;
    do {
        begin_pass(examples, place);
        const th_tune_example *e = example_at(examples, place);
        const int64_t rest = e->count - 1 - place->offset, space = batch->length - batch->tokens;
        if (rest > space && batch->tokens > 0)
            return;
        const int64_t part = rest < space ? rest : space;
        if (has_target(e, place->offset + 1, place->offset + part + 1))
            append(batch, e, place->offset, part);
        place->offset += part;
        if (part == rest) {
            place->index++;
            place->offset = 0;
        }
    } while (place->index < place->examples || batch->tokens == 0);
}
