/* Computes tables: see table.h.
 *
 * A table has the positions of a part of the text, the window. For the last of them it first assumes that more text
 * follows: the match from a step that needs it is unknown. If the match is unknown at a position that the caller needs,
 * the next window begins there. If that position is in the first half of the window, the next one is twice as large.
 *
 * A window of w characters has w / 2 more at most, which only lookbehinds see. If the window gives the matches of w / 2
 * characters or more, it costs at most 3 of its characters for each of these. The other windows double in size up to
 * the length n of the text, and together have at most 4.5 n. So all windows have fewer than 10 n. */
#include "models/text/pattern/table.h"

#include <stdlib.h>

#include "models/text/characters.h"
#include "models/text/unicode.h"

/* The characters of the first window, and of the largest that is kept for the next text. */
enum { FIRST_WIDTH = 512, KEPT_WIDTH = 1 << 16 };
/* NONE: no match from a step. UNKNOWN: it depends on text behind the window. Other values: where the match ends. */
#define NONE UINT32_MAX
#define UNKNOWN (UINT32_MAX - 1)

struct th_table {
    const th_program *program;
    uint32_t *match[2]; /* [steps] the match from each step at one position, and at the position next to it */
    bool *in_set;       /* [sets] whether the set has the character */
    const char *text;
    size_t count;
    size_t width;      /* characters of the window */
    size_t capacity;   /* positions that fit into the memory */
    size_t *position;  /* [positions] in the text */
    uint32_t *row;     /* [rows][capacity] the matches of the program's rows */
    size_t positions;  /* 0: without a window */
    size_t first;      /* the index of the position that was asked for; those before it are for lookbehinds */
    size_t last_asked; /* the index of the position that was asked for last */
    uint64_t visits;
};

th_table *th_table_new(const th_program *program)
{
    th_table *t = calloc(1, sizeof *t);
    if (t == NULL)
        return NULL;
    t->program = program;
    t->match[0] = malloc((size_t)program->steps * sizeof(uint32_t));
    t->match[1] = malloc((size_t)program->steps * sizeof(uint32_t));
    t->in_set = malloc(program->sets.sets + 1);
    if (t->match[0] && t->match[1] && t->in_set)
        return t;
    th_table_free(t);
    return NULL;
}

static void release_window(th_table *t)
{
    free(t->position);
    free(t->row);
    t->position = NULL;
    t->row = NULL;
    t->capacity = t->positions = 0;
}

void th_table_free(th_table *table)
{
    if (table == NULL)
        return;
    release_window(table);
    free(table->match[0]);
    free(table->match[1]);
    free(table->in_set);
    free(table);
}

void th_table_begin(th_table *table, const char *text, size_t count)
{
    if (table->capacity > KEPT_WIDTH)
        release_window(table);
    table->text = text;
    table->count = count;
    table->positions = 0;
    table->width = 2 * table->program->behind > FIRST_WIDTH ? 2 * table->program->behind : FIRST_WIDTH;
}

uint64_t th_table_visits(const th_table *table)
{
    return table->visits;
}

/* -- windows -- */

/* Makes room for positions. Returns false if out of memory. */
static bool reserve_positions(th_table *t, size_t positions)
{
    const size_t rows = (size_t)t->program->rows;
    if (positions <= t->capacity)
        return true;
    release_window(t);
    if (positions >= UNKNOWN || positions > PTRDIFF_MAX / (rows * sizeof *t->row) ||
        positions > PTRDIFF_MAX / sizeof *t->position)
        return false;
    t->position = malloc(positions * sizeof *t->position);
    t->row = malloc(positions * rows * sizeof *t->row);
    if (t->position == NULL || t->row == NULL) {
        release_window(t);
        return false;
    }
    t->capacity = positions;
    return true;
}

/* Sets the positions of a window at text[at]. Returns false if out of memory. */
static bool set_positions(th_table *t, size_t at)
{
    const size_t left = t->count - at, width = t->width < left ? t->width : left;
    if (width > SIZE_MAX - t->program->behind - 1 || !reserve_positions(t, t->program->behind + width + 1))
        return false;
    size_t begin = at;
    for (t->first = 0; t->first < t->program->behind && begin > 0; t->first++)
        begin = th_character_before(t->text, 0, begin);
    t->position[0] = begin;
    for (t->positions = 1; t->positions <= t->first + width && begin < t->count; t->positions++) {
        begin += (size_t)th_character_length(t->text + begin, t->count - begin);
        t->position[t->positions] = begin;
    }
    t->last_asked = t->first;
    return true;
}

/* -- matches -- */

/* The match from steps at one position. */
typedef struct place {
    const th_table *table;
    size_t i;              /* the index of the position */
    bool character, known; /* whether a character follows; whether the window shows what follows */
    const uint32_t *match; /* at this position, of the steps before in the order */
    const uint32_t *next;  /* at the next position */
} place;

static uint32_t row_at(const place *here, int row, size_t i)
{
    return here->table->row[(size_t)row * here->table->capacity + i];
}

/* Returns the match from a step that looks at something. wanted: whether the step needs it to be there. */
static uint32_t match_if(const place *here, const th_program_step *step, uint32_t looked, bool wanted)
{
    return looked == UNKNOWN ? UNKNOWN : (looked != NONE) == wanted ? here->match[step->next] : NONE;
}

/* Returns 0 if the next character is in the step's set. */
static uint32_t look_ahead(const place *here, const th_program_step *step)
{
    return !here->known ? UNKNOWN : here->character && here->table->in_set[step->set] ? 0 : NONE;
}

static uint32_t look_behind(const place *here, const th_program_step *step)
{
    const size_t length = (size_t)step->length;
    return length > here->i ? NONE : row_at(here, step->row, here->i - length);
}

static uint32_t match_atomic(const place *here, const th_program_step *step)
{
    const uint32_t end = here->match[step->inner];
    if (end == NONE || end == UNKNOWN)
        return end;
    return end == here->i ? here->match[step->other] : row_at(here, step->row, end);
}

static uint32_t match_step(const place *here, const th_program_step *step)
{
    switch (step->kind) {
    case TH_STEP_READ:
        return !here->known                                        ? UNKNOWN
               : here->character && here->table->in_set[step->set] ? here->next[step->next]
                                                                   : NONE;
    case TH_STEP_AHEAD:
    case TH_STEP_NOT_AHEAD:
        return match_if(here, step, look_ahead(here, step), step->kind == TH_STEP_AHEAD);
    case TH_STEP_BRANCH:
        return here->match[step->next] == NONE ? here->match[step->other] : here->match[step->next];
    case TH_STEP_LOOK:
    case TH_STEP_NOT_LOOK:
        return match_if(here, step, here->match[step->inner], step->kind == TH_STEP_LOOK);
    case TH_STEP_BEHIND:
    case TH_STEP_NOT_BEHIND:
        return match_if(here, step, look_behind(here, step), step->kind == TH_STEP_BEHIND);
    case TH_STEP_ATOMIC:
        return match_atomic(here, step);
    default:
        return (uint32_t)here->i;
    }
}

/* Finds the sets that have the character at a position. */
static void find_sets(th_table *t, size_t at)
{
    const uint32_t code = th_character_code(t->text + at, th_character_length(t->text + at, t->count - at));
    const uint32_t properties = th_unicode_properties(code);
    for (size_t i = 0; i < t->program->sets.sets; i++)
        t->in_set[i] = th_character_sets_have(&t->program->sets, i, code, properties);
}

/* Computes the rows of a pass. */
static void run_pass(th_table *t, const th_program_pass *pass)
{
    const th_program *p = t->program;
    for (size_t i = t->positions; i-- > 0;) {
        uint32_t *match = t->match[i % 2];
        const bool character = i + 1 < t->positions;
        const place here = {.table = t,
                            .i = i,
                            .character = character,
                            .known = character || t->position[i] == t->count,
                            .match = match,
                            .next = t->match[(i + 1) % 2]};
        if (character)
            find_sets(t, t->position[i]);
        for (int k = pass->begin; k < pass->end; k++)
            match[p->order[k]] = match_step(&here, &p->step[p->order[k]]);
        for (int row = 0; row < p->rows; row++)
            if (p->row[row] >= pass->begin && p->row[row] < pass->end)
                t->row[(size_t)row * t->capacity + i] = match[p->order[p->row[row]]];
    }
    t->visits += (uint64_t)t->positions * (uint64_t)(pass->end - pass->begin);
}

bool th_table_match(th_table *table, size_t at, size_t *end)
{
    th_table *t = table;
    for (;;) {
        if (t->positions > 0 && at <= t->position[t->positions - 1]) {
            while (t->position[t->last_asked] < at)
                t->last_asked++;
            const uint32_t match = t->row[(size_t)t->program->entry_row * t->capacity + t->last_asked];
            *end = match == NONE ? at : match == UNKNOWN ? 0 : t->position[match];
            if (match != UNKNOWN)
                return true;
            if (t->last_asked - t->first < t->width / 2)
                t->width *= 2;
        }
        if (!set_positions(t, at))
            return false;
        for (int i = 0; i < t->program->passes; i++)
            run_pass(t, &t->program->pass[i]);
    }
}
