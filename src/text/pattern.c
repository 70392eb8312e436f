/* Running a pattern with PCRE2: see pattern.h. Its translation is in pattern_translate.c. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pattern.h"

#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Steps of one match, before it gives up: a match of GPT-2's pattern takes one for each character or fewer. */
enum {
    MOST_STEPS = 50 * 1000 * 1000,
    MOST_KIBIBYTES = 64 * 1024,
    FIRST_STACK = 32 * 1024,
    MOST_STACK = 16 * 1024 * 1024
};
/* A translation is longer than its expression, by the spelt out classes. */
enum { MOST_TRANSLATED = 256 * 1024 };

struct th_pattern {
    pcre2_code *code;
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

static bool compile(th_pattern *p, const char *translated, char *trouble)
{
    int error;
    PCRE2_SIZE at;
    pcre2_compile_context *newlines = pcre2_compile_context_create(NULL);
    if (newlines == NULL)
        return false;
    pcre2_set_newline(newlines, PCRE2_NEWLINE_LF);
    p->code =
        pcre2_compile((PCRE2_SPTR)translated, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &error, &at, newlines);
    pcre2_compile_context_free(newlines);
    if (p->code == NULL) {
        if (error != PCRE2_ERROR_HEAP_FAILED) {
            char said[128];
            pcre2_get_error_message(error, (PCRE2_UCHAR *)said, sizeof said);
            snprintf(trouble, TH_PATTERN_TROUBLE, "PCRE2 says of it: %s", said);
        }
        return false;
    }
    uint32_t empty = 0;
    pcre2_pattern_info(p->code, PCRE2_INFO_MATCHEMPTY, &empty);
    if (empty) {
        snprintf(trouble, TH_PATTERN_TROUBLE, "it can match nothing at all, between any two characters");
        return false;
    }
    (void)pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE); /* where there is none, it is interpreted */
    return true;
}

th_pattern *th_pattern_new(const char *expression, size_t count, char trouble[TH_PATTERN_TROUBLE])
{
    trouble[0] = 0;
    char *translated = malloc(MOST_TRANSLATED);
    th_pattern *p = calloc(1, sizeof *p);
    bool made = translated && p && th_pattern_translate(expression, count, translated, MOST_TRANSLATED, trouble) &&
                compile(p, translated, trouble);
    free(translated);
    if (made) {
        p->data = pcre2_match_data_create(1, NULL);
        p->context = pcre2_match_context_create(NULL);
        p->stack = pcre2_jit_stack_create(FIRST_STACK, MOST_STACK, NULL);
        made = p->data && p->context && p->stack;
    }
    if (!made) {
        th_pattern_free(p);
        return NULL;
    }
    pcre2_set_match_limit(p->context, MOST_STEPS);
    pcre2_set_heap_limit(p->context, MOST_KIBIBYTES);
    pcre2_jit_stack_assign(p->context, NULL, p->stack);
    return p;
}

void th_pattern_free(th_pattern *pattern)
{
    if (pattern == NULL)
        return;
    pcre2_code_free(pattern->code);
    pcre2_match_data_free(pattern->data);
    pcre2_match_context_free(pattern->context);
    pcre2_jit_stack_free(pattern->stack);
    free(pattern);
}

th_match th_pattern_next(th_pattern *pattern, const char *text, size_t count, size_t from, size_t *begin, size_t *end)
{
    const int found =
        pcre2_match(pattern->code, (PCRE2_SPTR)text, count, from, PCRE2_NO_UTF_CHECK, pattern->data, pattern->context);
    if (found < 0)
        return found == PCRE2_ERROR_NOMATCH ? TH_NO_MATCH : TH_MATCH_GAVE_UP;
    const PCRE2_SIZE *place = pcre2_get_ovector_pointer(pattern->data);
    *begin = place[0];
    *end = place[1];
    return TH_MATCH;
}
