/* Runs a pattern: see pattern.h. pattern_translate.c translates it for PCRE2, which checks it. If possible, an
 * automaton (pattern_automaton.c) then matches it, several times as fast, and otherwise PCRE2. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "models/text/pattern.h"

#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/text/pattern_automaton.h"

/* The first attempt at a match gets few bytes and few steps, which is enough for the words of real texts. Each further
 * attempt gets MORE times the bytes or MORE times the steps, which are subtracted from the text's budget. */
enum { FIRST_BYTES = 1024, FIRST_STEPS = 256, MORE = 4 };
/* The steps in the budget: for a text, and for each of its bytes. */
enum { STEPS_OF_A_TEXT = 1 << 24, STEPS_OF_A_BYTE = 4 * FIRST_STEPS };
enum { MAX_KIBIBYTES = 64 * 1024, FIRST_STACK = 32 * 1024, MAX_STACK = 16 * 1024 * 1024 };
/* A translation is longer than its expression, because classes are spelled out. */
enum { MAX_TRANSLATED = 256 * 1024 };

struct th_pattern {
    th_automaton *automaton; /* NULL: PCRE2 matches */
    pcre2_code *code;
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

/* Returns the options of an expression. PCRE2 first looks for characters that a match must have. If an expression looks
 * ahead, it may look for one too many: (?=a)b*?a does not match "a" then. */
static uint32_t options_of(const char *translated)
{
    return PCRE2_UTF | PCRE2_UCP | (strstr(translated, "(?=") ? PCRE2_NO_START_OPTIMIZE : 0u);
}

static bool compile(th_pattern *p, const char *translated, char *trouble)
{
    int error;
    PCRE2_SIZE at;
    pcre2_compile_context *newlines = pcre2_compile_context_create(NULL);
    if (newlines == NULL)
        return false;
    pcre2_set_newline(newlines, PCRE2_NEWLINE_LF);
    p->code =
        pcre2_compile((PCRE2_SPTR)translated, PCRE2_ZERO_TERMINATED, options_of(translated), &error, &at, newlines);
    pcre2_compile_context_free(newlines);
    if (p->code == NULL) {
        if (error != PCRE2_ERROR_HEAP_FAILED) {
            char said[128];
            pcre2_get_error_message(error, (PCRE2_UCHAR *)said, sizeof said);
            snprintf(trouble, TH_PATTERN_TROUBLE, "PCRE2 reports: %s", said);
        }
        return false;
    }
    uint32_t empty = 0;
    pcre2_pattern_info(p->code, PCRE2_INFO_MATCHEMPTY, &empty);
    if (empty) {
        snprintf(trouble, TH_PATTERN_TROUBLE, "it can match the empty string");
        return false;
    }
    return true;
}

/* Prepares matches by PCRE2. Returns false if out of memory. */
static bool prepare(th_pattern *p)
{
    /* Without a just-in-time compiler the pattern is interpreted. */
    (void)pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
    p->data = pcre2_match_data_create(1, NULL);
    p->context = pcre2_match_context_create(NULL);
    p->stack = pcre2_jit_stack_create(FIRST_STACK, MAX_STACK, NULL);
    if (!p->data || !p->context || !p->stack)
        return false;
    pcre2_set_heap_limit(p->context, MAX_KIBIBYTES);
    pcre2_jit_stack_assign(p->context, NULL, p->stack);
    return true;
}

th_pattern *th_pattern_new(const char *expression, size_t count, char trouble[TH_PATTERN_TROUBLE])
{
    trouble[0] = 0;
    char *translated = malloc(MAX_TRANSLATED);
    th_pattern *p = calloc(1, sizeof *p);
    const bool made = translated && p && th_pattern_translate(expression, count, translated, MAX_TRANSLATED, trouble) &&
                      compile(p, translated, trouble) && th_automaton_new(expression, count, &p->automaton) &&
                      (p->automaton || prepare(p));
    free(translated);
    if (!made) {
        th_pattern_free(p);
        return NULL;
    }
    return p;
}

size_t th_pattern_memory(const th_pattern *pattern)
{
    return pattern ? th_automaton_memory(pattern->automaton) : 0;
}

void th_pattern_free(th_pattern *pattern)
{
    if (pattern == NULL)
        return;
    th_automaton_free(pattern->automaton);
    pcre2_code_free(pattern->code);
    pcre2_match_data_free(pattern->data);
    pcre2_match_context_free(pattern->context);
    pcre2_jit_stack_free(pattern->stack);
    free(pattern);
}

uint64_t th_pattern_budget(size_t bytes)
{
    return STEPS_OF_A_TEXT + (uint64_t)bytes * STEPS_OF_A_BYTE;
}

/* Returns the end of the character that contains `at` or follows it. */
static size_t character_end(const char *text, size_t count, size_t at)
{
    while (at < count && ((unsigned char)text[at] & 0xc0) == 0x80)
        at++;
    return at;
}

/* A search for a match, with the limits of the next attempt. */
typedef struct search {
    size_t at;
    bool here;      /* the match must begin at `at`; otherwise the attempt also tries later positions */
    size_t bytes;   /* of the text that the attempt gets */
    uint32_t steps; /* the largest number that the attempt may take */
} search;

/* Returns PCRE2's result. PCRE2_ERROR_PARTIAL: the result depends on bytes that the attempt did not get. */
static int attempt(th_pattern *p, const char *text, size_t count, const search *s)
{
    const size_t limit = s->bytes < count - s->at ? character_end(text, count, s->at + s->bytes) : count;
    const uint32_t options =
        PCRE2_NO_UTF_CHECK | (limit < count ? PCRE2_PARTIAL_HARD : 0u) | (s->here ? PCRE2_ANCHORED : 0u);
    pcre2_set_match_limit(p->context, s->steps);
    const int found = pcre2_match(p->code, (PCRE2_SPTR)text, limit, s->at, options, p->data, p->context);
    return found == PCRE2_ERROR_NOMATCH && limit < count && !s->here ? PCRE2_ERROR_PARTIAL : found;
}

/* Sets the limits of the next attempt. Returns its cost, or 0 if a further attempt is useless. */
static uint64_t widen(search *s, int found, const char *text, size_t count)
{
    switch (found) {
    case PCRE2_ERROR_PARTIAL:
        s->bytes *= MORE;
        return s->bytes;
    case PCRE2_ERROR_MATCHLIMIT:
        s->steps *= s->here ? MORE : 1;
        s->here = true;
        return s->steps;
    case PCRE2_ERROR_NOMATCH: /* at this position */
        s->at = character_end(text, count, s->at + 1);
        s->steps = FIRST_STEPS;
        return s->steps;
    default:
        return 0;
    }
}

/* th_pattern_next by the automaton. Characters that it reads behind a match cost a step each, if they are many. */
static th_match next_by_automaton(th_automaton *automaton, const char *text, size_t count, size_t from,
                                  uint64_t *budget, size_t *begin, size_t *end)
{
    for (size_t at = from, seen; at < count; at = character_end(text, count, at + 1)) {
        const size_t stop = th_automaton_match(automaton, text, count, at, &seen);
        const uint64_t cost = seen - stop > FIRST_BYTES ? seen - stop : 0;
        if (cost > *budget)
            return TH_MATCH_GAVE_UP;
        *budget -= cost;
        if (stop > at) {
            *begin = at;
            *end = stop;
            return TH_MATCH;
        }
    }
    return TH_NO_MATCH;
}

th_match th_pattern_next(th_pattern *pattern, const char *text, size_t count, size_t from, uint64_t *budget,
                         size_t *begin, size_t *end)
{
    if (pattern->automaton)
        return next_by_automaton(pattern->automaton, text, count, from, budget, begin, end);
    search s = {.at = from, .bytes = FIRST_BYTES, .steps = FIRST_STEPS};
    while (s.at < count) {
        const int found = attempt(pattern, text, count, &s);
        if (found >= 0) {
            const PCRE2_SIZE *range = pcre2_get_ovector_pointer(pattern->data);
            *begin = range[0];
            *end = range[1];
            return TH_MATCH;
        }
        if (found == PCRE2_ERROR_NOMATCH && !s.here)
            return TH_NO_MATCH;
        const uint64_t cost = widen(&s, found, text, count);
        if (cost == 0 || cost > *budget)
            return TH_MATCH_GAVE_UP;
        *budget -= cost;
    }
    return TH_NO_MATCH;
}
