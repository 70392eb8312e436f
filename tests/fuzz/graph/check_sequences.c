/* Contract 6: the bits of a sequence do not depend on its batch, on its padding, or on a cache. */
#include "check.h"

/* Runs each sequence alone, with or without its padding, and compares it with the batch. */
static bool check_alone(const program *p, setting s, const outcome *batch, finding *f)
{
    outcome alone;
    for (s.sequence = 0; s.sequence < p->batch && !f->check[0]; s.sequence++) {
        program_run(p, &s, &alone);
        const comparison c = {.check = s.name, .values = true, .gradients = true, .batch_only = true};
        if (alone.status)
            report(f, s.name, "sequence %d fails: %s", (int)s.sequence, alone.message);
        else
            same_outcomes(p, &c, batch, &alone, &s, f);
        outcome_free(&alone);
    }
    return f->check[0] == 0;
}

/* Returns whether enough of the program has this track. */
static bool worth_while(const program *p, unsigned track)
{
    for (int i = 0; i < p->lines; i++)
        if (!p->line[i].dropped && (p->value[p->line[i].first].tracks & track) == track &&
            shape_find(&p->value[p->line[i].first].shape, 'B') >= 0)
            return true;
    return false;
}

static void set_way(const program *p, setting *s)
{
    s->composed = p->sequence_way == 1;
    s->weights = p->sequence_way == 2;
}

bool check_sequences(const program *p, finding *f)
{
    static const struct {
        const char *name;
        unsigned track;
    } parts[] = {{"alone", ALONE}, {"alone, without padding", TRIM}, {"in pieces with a cache", PIECES}};
    for (int i = 0; i < 3 && !f->check[0]; i++) {
        if (!worth_while(p, parts[i].track))
            continue;
        setting s = {.name = parts[i].name, .track = parts[i].track, .sequence = -1};
        set_way(p, &s);
        s.padding = s.track == TRIM;
        s.forward_only = s.track == PIECES;
        outcome whole, pieces;
        program_run(p, &s, &whole);
        if (whole.status) {
            report(f, s.name, "the batch fails: %s", whole.message);
        } else if (s.track == PIECES) {
            program_run_pieces(p, s, &pieces);
            const comparison c = {.check = s.name, .values = true};
            if (pieces.status)
                report(f, s.name, "a piece fails: %s", pieces.message);
            else if (p->tokens)
                same_outcomes(p, &c, &whole, &pieces, NULL, f);
            outcome_free(&pieces);
        } else {
            s.trimmed = s.track == TRIM;
            check_alone(p, s, &whole, f);
        }
        outcome_free(&whole);
    }
    return f->check[0] == 0;
}
