/* Builds and runs automata: see automaton.h.
 *
 * 1. A state is a list of steps, in order of preference, at which matches that are still possible continue. Reading a
 *    character leads from one list to another. If one of the steps ends the program, there is a match; it ends before
 *    this character, and the steps behind it are dropped. So a transition depends on the state and on the next
 *    character, or on the end of the text.
 * 2. Characters that are in the same sets of the expression have the same transitions: they are a class. A table has
 *    the class of each character that was seen before. */
#include "models/text/pattern/automaton.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "models/text/unicode.h"

enum { MAX_SETS = 64, MAX_RANGES = 512 }; /* of the expression */
enum { MAX_STEPS = 256, MAX_STATES = 192, MAX_CLASSES = 192, CODES = 0x110000 };
enum { NO_CLASS = 0, END_OF_TEXT = 1, FIRST_CLASS = 2 };
enum { DEAD = 0, START = 1 };

struct th_automaton {
    uint16_t *transition; /* [states][classes]: 2 * the next state, + 1 if a match ends before the character */
    int states, classes;  /* their numbers, with NO_CLASS and END_OF_TEXT */
    const th_character_sets *sets;
    uint64_t in_sets[MAX_CLASSES]; /* which sets have the characters of a class: bit i for set i */
    uint8_t class_of[CODES];       /* NO_CLASS: not known yet */
};

/* -- classes -- */

/* Returns the sets of which a range has a character: bit i for set i. */
static uint64_t sets_with_range(const th_automaton *a, uint32_t code)
{
    uint64_t with_range = 0;
    for (size_t i = 0; i < a->sets->sets; i++)
        with_range |= (uint64_t)th_character_sets_have_range(a->sets, i, code) << i;
    return with_range;
}

/* Returns the sets that have a character with these properties. */
static uint64_t sets_with(const th_automaton *a, uint64_t with_range, uint32_t properties)
{
    uint64_t in_sets = 0;
    for (size_t i = 0; i < a->sets->sets; i++) {
        const th_character_set *set = &a->sets->set[i];
        const bool has = with_range >> i & 1 || (set->properties & properties) != 0;
        in_sets |= (uint64_t)(has != set->inverted) << i;
    }
    return in_sets;
}

/* Returns the class of characters in these sets; a->classes if it does not exist. */
static int find_class(const th_automaton *a, uint64_t in_sets)
{
    int i = FIRST_CLASS;
    while (i < a->classes && a->in_sets[i] != in_sets)
        i++;
    return i;
}

static bool add_class(th_automaton *a, uint64_t in_sets)
{
    if (find_class(a, in_sets) < a->classes)
        return true;
    if (a->classes == MAX_CLASSES)
        return false;
    a->in_sets[a->classes++] = in_sets;
    return true;
}

/* Adds the classes of characters from `code` to the next one at which a range of some set begins or ends: one class for
 * all properties that they could have. Characters of ASCII are known. */
static bool add_classes_from(th_automaton *a, uint32_t code)
{
    const uint32_t separators = th_unicode_categories("Z"), controls = th_unicode_categories("Cc");
    const uint64_t with_range = sets_with_range(a, code);
    if (code < 0x80)
        return add_class(a, sets_with(a, with_range, th_unicode_properties(code)));
    bool added = add_class(a, sets_with(a, with_range, controls | TH_SPACE));
    for (int category = 0; added && category < TH_CATEGORIES; category++) {
        const uint32_t property = UINT32_C(1) << category, space = property & separators ? TH_SPACE : 0;
        added = add_class(a, sets_with(a, with_range, property | space)) &&
                add_class(a, sets_with(a, with_range, property | space | TH_HAN));
    }
    return added;
}

/* Finds all possible classes. Returns false if there are too many. */
static bool find_classes(th_automaton *a)
{
    a->classes = FIRST_CLASS;
    bool found = true;
    for (uint32_t code = 0; found && code <= 0x80; code++)
        found = add_classes_from(a, code);
    for (size_t i = 0; found && i < a->sets->ranges; i++)
        found = add_classes_from(a, a->sets->range[i].first) && add_classes_from(a, a->sets->range[i].last + 1);
    return found;
}

/* Returns the class of a character that is not in the table, and keeps it there. The table has a place for every
 * character: a text may repeat any of them, and finding a class may take thousands of comparisons. */
static __attribute__((noinline)) int class_of_code(th_automaton *a, uint32_t code)
{
    const int class = find_class(a, sets_with(a, sets_with_range(a, code), th_unicode_properties(code)));
    a->class_of[code] = (uint8_t) class;
    return class;
}

/* -- states -- */

/* Steps in order of preference; each at most once. */
typedef struct step_list {
    int count;
    uint8_t step[MAX_STEPS];
} step_list;

typedef struct state_table {
    th_automaton *automaton;
    const th_program *program;
    step_list state[MAX_STATES];
    int states;
} state_table;

/* A transition in progress. */
typedef struct state_search {
    const th_program *program;
    uint64_t in_sets; /* of the next character; 0 at the end of the text */
    bool ends;
    bool visited[MAX_STEPS], listed[MAX_STEPS];
    bool accepts;
    step_list next;
} state_search;

/* Follows a step up to those that read a character. */
static void follow_step(state_search *m, int at)
{
    const th_program_step *s = &m->program->step[at];
    if (m->accepts || m->visited[at])
        return;
    m->visited[at] = true;
    const bool reads = !m->ends && (m->in_sets >> s->set & 1);
    if (s->kind == TH_STEP_ACCEPT) {
        m->accepts = true;
    } else if (s->kind == TH_STEP_BRANCH) {
        follow_step(m, s->next);
        follow_step(m, s->other);
    } else if (s->kind != TH_STEP_READ) {
        if (reads == (s->kind == TH_STEP_AHEAD))
            follow_step(m, s->next);
    } else if (reads && !m->listed[s->next]) {
        m->listed[s->next] = true;
        m->next.step[m->next.count++] = (uint8_t)s->next;
    }
}

/* Returns the number of a state, which is perhaps new. Returns MAX_STATES if there are too many. */
static int state_of(state_table *b, const step_list *steps)
{
    int i = 0;
    while (i < b->states &&
           (b->state[i].count != steps->count || memcmp(b->state[i].step, steps->step, (size_t)steps->count) != 0))
        i++;
    if (i == b->states && i < MAX_STATES)
        b->state[b->states++] = *steps;
    return i;
}

/* Sets the transition from a state by a character of a class. Returns false if there are too many states. */
static bool set_transition(state_table *b, int state, int class)
{
    state_search m = {.program = b->program, .in_sets = b->automaton->in_sets[class], .ends = class == END_OF_TEXT};
    for (int i = 0; i < b->state[state].count; i++)
        follow_step(&m, b->state[state].step[i]);
    const int next = state_of(b, &m.next);
    b->automaton->transition[state * b->automaton->classes + class] = (uint16_t)(2 * next + m.accepts);
    return next < MAX_STATES;
}

/* Sets *fits to false if there are too many states. Returns false if out of memory. */
static bool find_states(state_table *b, bool *fits)
{
    th_automaton *a = b->automaton;
    (void)state_of(b, &(step_list){.count = 0}); /* DEAD */
    (void)state_of(b, &(step_list){.count = 1, .step = {(uint8_t)b->program->entry}});
    const size_t row = (size_t)a->classes * sizeof *a->transition;
    for (int state = DEAD; *fits && state < b->states; state++) {
        uint16_t *grown = realloc(a->transition, ((size_t)state + 1) * row);
        if (grown == NULL)
            return false;
        a->transition = grown;
        for (int class = NO_CLASS; *fits && class < a->classes; class ++)
            *fits = set_transition(b, state, class);
    }
    a->states = b->states;
    return true;
}

/* -- automata -- */

/* Returns the automaton of a program. Sets *fits to false if it is too large. Returns NULL if out of memory. */
static th_automaton *build_automaton(const th_program *program, bool *fits)
{
    th_automaton *a = calloc(1, sizeof *a);
    state_table *b = calloc(1, sizeof *b);
    bool built = a && b;
    if (built) {
        a->sets = &program->sets;
        *b = (state_table){.automaton = a, .program = program};
        *fits = find_classes(a);
        built = !*fits || find_states(b, fits);
    }
    free(b);
    if (built)
        return a;
    th_automaton_free(a);
    return NULL;
}

bool th_automaton_new(const th_program *program, th_automaton **automaton)
{
    *automaton = NULL;
    bool fits = program->plain && program->steps <= MAX_STEPS && program->sets.sets <= MAX_SETS &&
                program->sets.ranges <= MAX_RANGES;
    if (!fits)
        return true;
    th_automaton *a = build_automaton(program, &fits);
    if (a == NULL)
        return false;
    if (fits)
        *automaton = a;
    else
        th_automaton_free(a);
    return true;
}

void th_automaton_free(th_automaton *automaton)
{
    if (automaton == NULL)
        return;
    free(automaton->transition);
    free(automaton);
}

size_t th_automaton_memory(const th_automaton *automaton)
{
    const th_automaton *a = automaton;
    return a ? sizeof *a + (size_t)a->states * (size_t)a->classes * sizeof *a->transition : 0;
}

/* Returns the code point at text[0], which is not ASCII, and sets *length. The text is valid. */
static inline uint32_t code_at(const unsigned char *text, size_t *length)
{
    const uint32_t first = text[0], second = text[1] & 0x3f;
    if (first < 0xe0) {
        *length = 2;
        return (first & 0x1f) << 6 | second;
    }
    if (first < 0xf0) {
        *length = 3;
        return (first & 0xf) << 12 | second << 6 | (text[2] & 0x3f);
    }
    *length = 4;
    return (first & 0x7) << 18 | second << 12 | (uint32_t)(text[2] & 0x3f) << 6 | (text[3] & 0x3f);
}

size_t th_automaton_match(th_automaton *automaton, const char *text, size_t count, size_t at, size_t *seen)
{
    const unsigned char *byte = (const unsigned char *)text;
    const uint16_t *const transition = automaton->transition;
    const size_t classes = (size_t)automaton->classes;
    size_t end = at, state = START;
    while (at < count) {
        size_t length = 1;
        const uint32_t code = byte[at] < 0x80 ? byte[at] : code_at(byte + at, &length);
        size_t class = automaton->class_of[code];
        if (class == NO_CLASS)
            class = (size_t)class_of_code(automaton, code);
        const unsigned entry = transition[state * classes + class];
        end = entry & 1 ? at : end;
        state = entry >> 1;
        if (state == DEAD) {
            *seen = at;
            return end;
        }
        at += length;
    }
    *seen = count;
    return transition[state * classes + END_OF_TEXT] & 1 ? count : end;
}
