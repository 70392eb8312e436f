/* Generation by beam search. The model runs all beams of all sequences as rows of one batch; beam_search.c chooses
 * which continue. */
#include <math.h>
#include <string.h>

#include "models/generation/beam_search.h"
#include "models/generation/generation.h"

typedef struct beams {
    th_generation *generation;
    th_beam_search *search; /* [batch] */
    int64_t candidates;     /* of a beam, and of a step */
    th_ranked *of_row;      /* (rows, candidates) */
    th_ranked *best;        /* (beams * candidates) */
    double *scores;         /* (beams * candidates) */
    int64_t *source;        /* (rows) */
    int64_t *first, *past;  /* (rows) the positions first .. past - 1 are copied from the row's source */
    char *states;           /* [batch] memory of the searches */
} beams;

/* Places the arrays in memory; returns the bytes. */
static size_t lay_out_arrays(beams *s, char *memory)
{
    const th_generation *g = s->generation;
    const size_t rows = (size_t)g->rows, batch = (size_t)g->batch, per_row = (size_t)s->candidates,
                 per_sequence = (size_t)g->options.beams * per_row;
    char *at = memory;
#define TAKE(field, count) (s->field = (void *)at, at += th_aligned((count) * sizeof *s->field))
    TAKE(search, batch);
    TAKE(of_row, rows * per_row);
    TAKE(best, per_sequence);
    TAKE(scores, per_sequence);
    TAKE(source, rows);
    TAKE(first, rows);
    TAKE(past, rows);
    TAKE(states, batch * th_beam_bytes(g->options.beams, g->options.max_new_tokens));
#undef TAKE
    return (size_t)(at - memory);
}

/* Finds the best candidates of one row, and adds the score of its beam. */
static void rank_row(void *shared, int64_t row, int worker)
{
    const beams *s = shared;
    th_generation *g = s->generation;
    const th_beam_search *search = &s->search[row / g->options.beams];
    if (search->ended)
        return;
    th_sampling_space space = th_generation_worker_space(g, worker);
    const th_logits_row logits = th_generation_row(g, row);
    if (!th_log_probabilities(&g->sampling, &logits, &space)) {
        g->chosen[row] = -1;
        return;
    }
    const int64_t beam = row % g->options.beams;
    th_ranked *candidates = s->of_row + row * s->candidates;
    const int64_t found = th_select_best(g->vocabulary, space.score, s->candidates, candidates);
    for (int64_t i = 0; i < found; i++) {
        candidates[i].score += search->score[beam];
        candidates[i].index += beam * g->vocabulary;
    }
}

/* Finds the best candidates of all beams of a sequence. Writes them to s->best; returns their number. */
static int64_t merge_candidates(const beams *s, int64_t sequence)
{
    const th_generation *g = s->generation;
    const int64_t of_beam = th_smaller(s->candidates, g->vocabulary), all = g->options.beams * of_beam;
    const th_ranked *candidates = s->of_row + sequence * g->options.beams * s->candidates;
#define CANDIDATE(i) candidates[(i) / of_beam * s->candidates + (i) % of_beam]
    for (int64_t i = 0; i < all; i++)
        s->scores[i] = CANDIDATE(i).score;
    const int64_t found = th_select_best(all, s->scores, s->candidates, s->best);
    for (int64_t i = 0; i < found; i++)
        s->best[i].index = CANDIDATE(s->best[i].index).index;
#undef CANDIDATE
    return found;
}

/* Does one step of a sequence. Afterwards the rows of the cache must be reordered. Returns false, with the error
 * pending, if no beam can continue. */
static bool advance_search(const beams *s, int64_t sequence)
{
    th_generation *g = s->generation;
    th_beam_search *search = &s->search[sequence];
    const int64_t begin = sequence * g->options.beams, found = merge_candidates(s, sequence);
    if (!(s->best[0].score > -INFINITY))
        return th_generation_refuse_logits(g, sequence) == TH_OK;
    th_beam_step(search, found, s->best, s->source + begin);
    g->ended[sequence] = search->ended;
    for (int64_t beam = 0; beam < g->options.beams; beam++) {
        const int64_t row = begin + beam;
        s->source[row] = search->ended ? row : begin + s->source[row];
        s->first[row] = g->prompt_length[row];
        s->past[row] = g->count[row]; /* the model has not processed the new token yet */
        g->count[row] = g->prompt_length[row] + search->length;
        memcpy(g->tokens + row * g->stride + g->prompt_length[row], search->tokens + beam * search->max_new_tokens,
               (size_t)search->length * sizeof *g->tokens);
    }
    return true;
}

/* Whether any search continues. */
static bool advance_searches(const beams *s)
{
    th_generation *g = s->generation;
    bool any = false;
    for (int64_t sequence = 0; sequence < g->batch; sequence++) {
        for (int64_t row = sequence * g->options.beams; row < (sequence + 1) * g->options.beams; row++) {
            if (g->chosen[row] < 0)
                return th_generation_refuse_logits(g, sequence) == TH_OK;
            s->source[row] = row;
        }
        if (!s->search[sequence].ended && !advance_search(s, sequence))
            return false;
        any |= !s->search[sequence].ended;
    }
    return any && th_cache_copy_sequences(g->cache, s->source, s->first, s->past) == TH_OK;
}

/* Copies the best sequences of each search to its first rows, and passes their tokens to the caller. */
static void take_results(const beams *s)
{
    th_generation *g = s->generation;
    const int64_t sequences = g->options.sequences;
    for (int64_t result = 0; result < g->prompts * sequences; result++) {
        const int64_t row = th_generation_row_of(g, result);
        int64_t length;
        const int64_t *tokens =
            th_beam_result(&s->search[result / sequences], result % sequences, &length, &g->score[row]);
        memcpy(g->tokens + row * g->stride + g->prompt_length[row], tokens, (size_t)length * sizeof *tokens);
        g->count[row] = g->prompt_length[row] + length;
        for (int64_t i = 0; i < length && !th_failed(g->ctx) && th_generation_emit(g, result, tokens[i]); i++)
            continue;
    }
}

static void begin_searches(beams *s)
{
    const th_generation *g = s->generation;
    const th_generate_options *o = &g->options;
    for (int64_t sequence = 0; sequence < g->batch; sequence++) {
        s->search[sequence] = (th_beam_search){.beams = o->beams,
                                               .vocabulary = g->vocabulary,
                                               .max_new_tokens = o->max_new_tokens,
                                               .length_penalty = o->length_penalty,
                                               .early_stopping = o->early_stopping,
                                               .end_tokens = o->end_tokens,
                                               .n_end_tokens = o->n_end_tokens};
        th_beam_begin(&s->search[sequence], s->states + (size_t)sequence * th_beam_bytes(o->beams, o->max_new_tokens));
    }
}

static void run_searches(beams *s)
{
    th_generation *g = s->generation;
    bool whole = true, more;
    begin_searches(s);
    do {
        if (th_generation_run(g, whole) == TH_OK)
            th_parallel(g->threads, g->rows, rank_row, s);
        th_generation_end_run(g);
        more = !th_failed(g->ctx) && advance_searches(s);
        whole = more && th_generation_rotation_changes(g);
    } while (more);
    if (!th_failed(g->ctx))
        take_results(s);
}

th_status th_generate_beams(th_generation *g)
{
    th_context *ctx = g->ctx;
    beams s = {.generation = g};
    s.candidates = th_beam_candidates(&(th_beam_search){
        .beams = g->options.beams, .vocabulary = g->vocabulary, .n_end_tokens = g->options.n_end_tokens});
    const size_t bytes = lay_out_arrays(&s, NULL);
    char *memory = th_allocate(ctx, bytes);
    if (memory == NULL)
        return th_fail_memory(ctx, "generate", bytes);
    lay_out_arrays(&s, memory);
    if (!th_is_shapes_only(ctx))
        run_searches(&s);
    else if (th_generation_measure_memory(g) == TH_OK)
        (void)th_cache_copy_sequences(g->cache, s.source, s.first, s.past); /* allocates memory, and changes nothing */
    th_release(ctx, memory, bytes);
    return th_error_code(ctx);
}
