/* Tokens and the syntax tree of a Jinja program. */
#ifndef TH_MODELS_JINJA_SYNTAX_H
#define TH_MODELS_JINJA_SYNTAX_H

#include "models/jinja/value.h"

typedef enum th_jinja_node_kind {
    /* expressions */
    TH_JINJA_CONSTANT, /* value */
    TH_JINJA_NAME,     /* name */
    TH_JINJA_LIST_OF,  /* first: items */
    TH_JINJA_TUPLE_OF,
    TH_JINJA_DICT_OF,   /* first: PAIR nodes */
    TH_JINJA_PAIR,      /* first: key, second: value */
    TH_JINJA_AND,       /* first, second */
    TH_JINJA_OR,        /* first, second */
    TH_JINJA_NOT,       /* first */
    TH_JINJA_NEGATIVE,  /* first */
    TH_JINJA_POSITIVE,  /* first */
    TH_JINJA_CHOICE,    /* second if first else third (may be NULL) */
    TH_JINJA_OPERATION, /* first op second */
    TH_JINJA_COMPARE,   /* first, second: COMPARAND nodes */
    TH_JINJA_COMPARAND, /* op, first */
    TH_JINJA_ATTRIBUTE, /* first . name */
    TH_JINJA_ITEM,      /* first [ second ] */
    TH_JINJA_SLICE,     /* first [ SLICE: first : second : third ] */
    TH_JINJA_CALL,      /* first ( second: arguments ) */
    TH_JINJA_NAMED,     /* an argument: name, first */
    TH_JINJA_SPREAD,    /* an argument *first (op '*') or **first (op 'p') */
    TH_JINJA_FILTER,    /* first | name ( second ) */
    TH_JINJA_TEST,      /* first is name ( second ) */
    /* statements; next: the following one */
    TH_JINJA_TEXT,       /* value: a string */
    TH_JINJA_OUTPUT,     /* first: expressions */
    TH_JINJA_IF,         /* first: condition, second: body, third: else body */
    TH_JINJA_FOR,        /* first: target, second: iterable, third: condition or NULL; body, other: else body */
    TH_JINJA_SET,        /* first: target, second: value */
    TH_JINJA_SET_BLOCK,  /* first: target, second: filter or NULL, body */
    TH_JINJA_MACRO_OF,   /* name, first: parameters (NAMED nodes), body */
    TH_JINJA_CALL_BLOCK, /* first: call, second: parameters, body */
    TH_JINJA_FILTERED,   /* first: filter, body */
    TH_JINJA_WITH,       /* first: NAMED nodes, body */
    TH_JINJA_BREAK,
    TH_JINJA_CONTINUE,
    TH_JINJA_GENERATION /* body */
} th_jinja_node_kind;

typedef struct th_jinja_node {
    th_jinja_node_kind kind;
    char op;        /* + - * / % ~ i p; comparisons: = ! < > l (<=) g (>=) n (in) o (not in) */
    uint32_t place; /* in the program's text, for messages */
    const th_jinja_string *name;
    th_jinja_value value;
    struct th_jinja_node *first, *second, *third, *body, *other, *next;
} th_jinja_node;

struct th_jinja {
    th_jinja_arena arena;
    char *name;                           /* for messages */
    const th_jinja_string *loop, *caller; /* the names of these variables */
    const char *text;                     /* with "\n" as newlines, without the last one */
    size_t bytes;
    th_jinja_node *body;
    bool marks;
};

/* -- tokens -- */

typedef enum th_jinja_token_kind {
    TH_JINJA_END_OF_TEXT,
    TH_JINJA_DATA, /* text outside tags */
    TH_JINJA_BLOCK_BEGIN,
    TH_JINJA_BLOCK_END,
    TH_JINJA_VARIABLE_BEGIN,
    TH_JINJA_VARIABLE_END,
    TH_JINJA_WORD,
    TH_JINJA_QUOTED,
    TH_JINJA_INTEGER,
    TH_JINJA_REAL,
    TH_JINJA_OPERATOR
} th_jinja_token_kind;

typedef struct th_jinja_token {
    th_jinja_token_kind kind;
    const char *bytes; /* in the text; of a quoted string with its quotes */
    size_t count;
    uint32_t place;
} th_jinja_token;

typedef struct th_jinja_lexer {
    const char *text;
    size_t bytes, at;
    enum { TH_JINJA_OUTSIDE, TH_JINJA_IN_BLOCK, TH_JINJA_IN_VARIABLE } where;
    int brackets;
    char bracket[128];
    bool line_starts;    /* the text before `at` ends with a newline, or is empty */
    const char *problem; /* NULL, or what is wrong at `at` */
} th_jinja_lexer;

/* Returns the next token; END_OF_TEXT at the end, and for an error. */
th_jinja_token th_jinja_next(th_jinja_lexer *lexer);
/* Sets the line and the column, from 1, of a place in a text. */
void th_jinja_find_place(const char *text, size_t place, size_t *line, size_t *column);

#endif
