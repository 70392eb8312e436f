/* The place of a reader in a regular expression. */
#ifndef TH_MODELS_TEXT_PATTERN_EXPRESSION_H
#define TH_MODELS_TEXT_PATTERN_EXPRESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct th_expression {
    const char *at, *end;
} th_expression;

/* Whether this text is next. */
static inline bool th_next_is(const th_expression *e, const char *text)
{
    const size_t count = strlen(text);
    return (size_t)(e->end - e->at) >= count && memcmp(e->at, text, count) == 0;
}

/* Does the same, and moves behind the text. */
static inline bool th_accept(th_expression *e, const char *text)
{
    const bool is = th_next_is(e, text);
    if (is)
        e->at += strlen(text);
    return is;
}

#endif
