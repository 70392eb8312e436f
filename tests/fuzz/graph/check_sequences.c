/* Contract 6: the bits of a sequence do not depend on its batch, on its padding, or on a cache. The bits of a document
 * do not depend on the other documents of its sequence. */
#include "check.h"

/* Runs each sequence alone, with or without its padding, and compares it with the batch. */
static bool check_alone(const program *p, setting s, const outcome *batch, finding *f)
{
    outcome alone;
    for (s.sequence = 0; s.sequence < p->batch && !f->check[0]; s.sequence++) {
        program_run(p, &s, &alone);
        const comparison c = {.check = s.name, .values = true, .gradients = true, .axes = "B"};
        if (alone.status)
            report(f, s.name, "sequence %d fails: %s", (int)s.sequence, alone.message);
        else
            same_outcomes(p, &c, batch, &alone, &s, f);
        outcome_free(&alone);
    }
    return f->check[0] == 0;
}

/* Runs each document alone, and compares it with the sequence. */
static bool check_documents(const program *p, setting s, const outcome *whole, finding *f)
{
    outcome alone;
    s.document = true;
    for (int64_t b = 0; b < (p->same_documents ? 1 : p->batch); b++) {
        s.sequence = p->same_documents ? -1 : b;
        for (s.first = 0; s.first < p->tokens && !f->check[0]; s.first = s.end) {
            s.end = document_end(p, b, s.first);
            program_run(p, &s, &alone);
            const comparison c = {
                .check = s.name, .values = true, .gradients = true, .axes = p->same_documents ? "T" : "BT"};
            if (alone.status)
                report(f, s.name, "tokens %d to %d fail: %s", (int)s.first, (int)s.end - 1, alone.message);
            else
                same_outcomes(p, &c, whole, &alone, &s, f);
            outcome_free(&alone);
        }
    }
    return f->check[0] == 0;
}

static bool has_documents(const program *p, const line *l)
{
    for (int k = 0; k < l->operands; k++)
        if (l->operand[k] >= 0 && p->value[l->operand[k]].content == DOCUMENTS)
            return true;
    return false;
}

/* Returns whether enough of the program has this track. */
static bool worth_while(const program *p, unsigned track)
{
    for (int i = 0; i < p->lines; i++) {
        const line *l = &p->line[i];
        if (!l->dropped && (p->value[l->first].tracks & track) == track &&
            (track == DOCUMENT ? has_documents(p, l) : shape_find(&p->value[l->first].shape, 'B') >= 0))
            return true;
    }
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
    } parts[] = {{"alone", ALONE},
                 {"alone, without padding", TRIM},
                 {"in pieces with a cache", PIECES},
                 {"a document alone", DOCUMENT}};
    for (int i = 0; i < 4 && !f->check[0]; i++) {
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
        } else if (s.track == DOCUMENT) {
            check_documents(p, s, &whole, f);
        } else {
            s.trimmed = s.track == TRIM;
            check_alone(p, s, &whole, f);
        }
        outcome_free(&whole);
    }
    return f->check[0] == 0;
}
