/* Beam search (beam_search.h): a step extends the best candidates, and stores those that end as finished. */
#include "models/generation/beam_search.h"

#include <string.h>

/* The score of inactive beams: at the start only one beam is active, and a beam that ends becomes inactive. */
static const double inactive_score = -1e9;

int64_t th_beam_candidates(const th_beam_search *s)
{
    const int64_t each = s->n_end_tokens > 1 ? 1 + s->n_end_tokens : 2, wanted = each * s->beams,
                  available = s->beams * s->vocabulary;
    return wanted < available ? wanted : available;
}

size_t th_beam_bytes(int64_t beams, int64_t max_new_tokens)
{
    return (size_t)beams * (sizeof(double) + sizeof(th_finished_beam) + 3 * (size_t)max_new_tokens * sizeof(int64_t));
}

void th_beam_begin(th_beam_search *s, void *memory)
{
    const size_t beams = (size_t)s->beams, row = beams * (size_t)s->max_new_tokens;
    s->finished = memory;
    s->score = (double *)(void *)(s->finished + beams);
    s->tokens = (int64_t *)(void *)(s->score + beams);
    s->next = s->tokens + row;
    s->finished_tokens = s->next + row;
    s->length = s->n_finished = 0;
    s->ended = s->max_new_tokens == 0;
    for (int64_t i = 0; i < s->beams; i++)
        s->score[i] = i == 0 ? 0 : inactive_score;
}

static bool is_end_token(const th_beam_search *s, int64_t token)
{
    for (int64_t i = 0; i < s->n_end_tokens; i++)
        if (s->end_tokens[i] == token)
            return true;
    return false;
}

/* Returns score / length ^ penalty. */
static double normalize_score(const th_beam_search *s, double score, int64_t length)
{
    return score / th_scalar_pow((double)length, s->length_penalty);
}

static bool has_enough_finished(const th_beam_search *s)
{
    return s->n_finished == s->beams;
}

/* Stores beam `from` with `token` appended as finished, unless enough better beams are finished. */
static void add_finished(th_beam_search *s, int64_t from, int64_t token, double score)
{
    const int64_t length = s->length + 1;
    th_finished_beam finished = {.score = normalize_score(s, score, length), .length = length, .slot = s->n_finished};
    if (has_enough_finished(s)) {
        if (!(finished.score > s->finished[s->beams - 1].score))
            return;
        finished.slot = s->finished[s->beams - 1].slot;
        s->n_finished--;
    }
    int64_t at = s->n_finished++;
    for (; at > 0 && s->finished[at - 1].score < finished.score; at--)
        s->finished[at] = s->finished[at - 1];
    s->finished[at] = finished;
    int64_t *tokens = s->finished_tokens + finished.slot * s->max_new_tokens;
    memcpy(tokens, s->tokens + from * s->max_new_tokens, (size_t)s->length * sizeof *tokens);
    tokens[s->length] = token;
}

/* Sets beam `to` of the next step to beam `from` with `token` appended. */
static void extend_beam(th_beam_search *s, int64_t to, int64_t from, int64_t token)
{
    int64_t *tokens = s->next + to * s->max_new_tokens;
    memcpy(tokens, s->tokens + from * s->max_new_tokens, (size_t)s->length * sizeof *tokens);
    tokens[s->length] = token;
}

/* Whether the best active beam could still become one of the finished ones. */
static bool can_improve(const th_beam_search *s)
{
    const double worst = has_enough_finished(s) ? s->finished[s->beams - 1].score : inactive_score;
    return normalize_score(s, s->score[0], s->length) > worst;
}

void th_beam_step(th_beam_search *s, int64_t count, const th_ranked *candidates, int64_t *source)
{
    const bool last = s->length + 1 == s->max_new_tokens,
               accepts_finished = !(s->early_stopping && has_enough_finished(s));
    int64_t followed = 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t from = candidates[i].index / s->vocabulary, token = candidates[i].index % s->vocabulary;
        if (last || is_end_token(s, token)) {
            if (i < s->beams && accepts_finished)
                add_finished(s, from, token, candidates[i].score);
        } else if (followed < s->beams) {
            extend_beam(s, followed, from, token);
            source[followed] = from;
            s->score[followed++] = candidates[i].score;
        }
    }
    const bool stuck = followed == 0;
    for (int64_t i = 0; followed < s->beams; i++, followed++) { /* too few continue: inactive beams fill the rest */
        const int64_t from = candidates[i].index / s->vocabulary;
        extend_beam(s, followed, from, candidates[i].index % s->vocabulary);
        source[followed] = from;
        s->score[followed] = candidates[i].score + inactive_score;
    }
    int64_t *const swapped = s->tokens;
    s->tokens = s->next;
    s->next = swapped;
    s->length++;
    s->ended = stuck || !can_improve(s) || (s->early_stopping && has_enough_finished(s));
}

const int64_t *th_beam_result(const th_beam_search *s, int64_t rank, int64_t *length, double *score)
{
    if (rank >= s->n_finished) {
        rank -= s->n_finished;
        *length = s->length;
        *score = s->length > 0 ? normalize_score(s, s->score[rank], s->length) : 0;
        return s->tokens + rank * s->max_new_tokens;
    }
    *length = s->finished[rank].length;
    *score = s->finished[rank].score;
    return s->finished_tokens + s->finished[rank].slot * s->max_new_tokens;
}
