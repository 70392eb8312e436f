/* Runs a pattern: see pattern.h. If possible, an automaton matches it, otherwise a table, which takes more time for
 * each character. After a match the automaton may have read more characters than the match has, and so read them again.
 * If these become many, the table matches the rest of the text.
 *
 * So for a text of n characters the automaton reads at most 18 n characters and 4096 more. The table visits each step
 * of the expression at most 10 n times. */
#include "models/text/pattern/pattern.h"

#include <stdlib.h>

#include "models/text/pattern/automaton.h"
#include "models/text/pattern/program.h"
#include "models/text/pattern/table.h"
#include "models/text/pattern/tree.h"

/* The bytes that the automaton may read again: for a text, and for each byte up to its position. */
enum { AGAIN_IN_A_TEXT = 4096, AGAIN_FOR_A_BYTE = 16 };

struct th_pattern {
    th_program *program;
    th_automaton *automaton; /* NULL: the table matches */
    th_table *table;         /* NULL: it was not used yet */
    const char *text;
    size_t count;
    size_t again;     /* bytes of the text that the automaton has read again */
    bool needs_table; /* for this text */
    uint64_t read;
};

th_pattern *th_pattern_new(const char *expression, size_t count, char reason[TH_PATTERN_REASON])
{
    reason[0] = 0;
    th_pattern_tree tree = {0};
    th_pattern *p = calloc(1, sizeof *p);
    const bool made = p && th_pattern_tree_read(expression, count, &tree, reason) &&
                      (p->program = th_program_new(&tree)) && th_automaton_new(p->program, &p->automaton);
    th_pattern_tree_release(&tree);
    if (made)
        return p;
    th_pattern_free(p);
    return NULL;
}

size_t th_pattern_memory(const th_pattern *pattern)
{
    return pattern ? th_program_memory(pattern->program) + th_automaton_memory(pattern->automaton) : 0;
}

void th_pattern_free(th_pattern *pattern)
{
    if (pattern == NULL)
        return;
    th_table_free(pattern->table);
    th_automaton_free(pattern->automaton);
    th_program_free(pattern->program);
    free(pattern);
}

uint64_t th_pattern_work(const th_pattern *pattern)
{
    return pattern->read + (pattern->table ? th_table_visits(pattern->table) : 0);
}

void th_pattern_begin(th_pattern *pattern, const char *text, size_t count)
{
    pattern->text = text;
    pattern->count = count;
    pattern->again = 0;
    pattern->needs_table = pattern->automaton == NULL;
    if (pattern->table)
        th_table_begin(pattern->table, text, count);
}

/* Returns the table, which perhaps is new. Returns NULL if out of memory. */
static th_table *table_of(th_pattern *p)
{
    if (p->table == NULL && (p->table = th_table_new(p->program)))
        th_table_begin(p->table, p->text, p->count);
    return p->table;
}

/* Matches at text[at] by the automaton. Decides whether the table matches from then on. */
static size_t match_by_automaton(th_pattern *p, size_t at)
{
    size_t seen;
    const size_t end = th_automaton_match(p->automaton, p->text, p->count, at, &seen);
    p->read += seen - at;
    p->again += seen - end;
    p->needs_table = p->again > AGAIN_IN_A_TEXT && (p->again - AGAIN_IN_A_TEXT) / AGAIN_FOR_A_BYTE > at;
    return end;
}

/* Returns the position behind the character at text[at]. */
static size_t next_character(const th_pattern *p, size_t at)
{
    do
        at++;
    while (at < p->count && ((unsigned char)p->text[at] & 0xc0) == 0x80);
    return at;
}

th_match th_pattern_next(th_pattern *pattern, size_t from, size_t *begin, size_t *end)
{
    th_pattern *p = pattern;
    for (size_t at = from, stop; at < p->count; at = next_character(p, at)) {
        if (!p->needs_table)
            stop = match_by_automaton(p, at);
        else if (table_of(p) == NULL || !th_table_match(p->table, at, &stop))
            return TH_MATCH_NO_MEMORY;
        if (stop > at) {
            *begin = at;
            *end = stop;
            return TH_MATCH;
        }
    }
    return TH_NO_MATCH;
}
