/* The parser of Jinja programs: its state, tokens, and expressions. */
#ifndef TH_MODELS_JINJA_PARSER_H
#define TH_MODELS_JINJA_PARSER_H

#include "models/jinja/syntax.h"

typedef struct th_jinja_name {
    th_jinja_string string;
    const struct th_jinja_name *next;
} th_jinja_name;

typedef struct th_jinja_parser {
    th_jinja *program;
    th_jinja_lexer lexer;
    th_jinja_token token, ahead;
    const th_jinja_name *names;
    int depth, loops;
    bool failed, out_of_memory;
    uint32_t place; /* of the error */
    char problem[200];
    th_jinja_string nameless; /* instead of a name after an error */
    th_jinja_node nowhere;    /* instead of a node after an error */
} th_jinja_parser;

/* Stops the parser with a message about the current token. The first one counts. */
void th_jinja_refuse(th_jinja_parser *p, const char *format, ...) TH_FORMAT(2, 3);
void th_jinja_advance(th_jinja_parser *p);
bool th_jinja_at_operator(const th_jinja_parser *p, const char *text);
bool th_jinja_at_word(const th_jinja_parser *p, const char *text);
/* Moves behind the token if it is this one. Returns whether it was. */
bool th_jinja_skip_operator(th_jinja_parser *p, const char *text);
bool th_jinja_skip_word(th_jinja_parser *p, const char *text);
void th_jinja_expect(th_jinja_parser *p, const char *text);
/* Returns memory of zeros, which belongs to the program; NULL after an error. */
void *th_jinja_take_memory(th_jinja_parser *p, size_t bytes);
/* Returns the only string of the program with these bytes. */
const th_jinja_string *th_jinja_intern(th_jinja_parser *p, const char *bytes, size_t count);
const th_jinja_string *th_jinja_take_name(th_jinja_parser *p);
th_jinja_node *th_jinja_make(th_jinja_parser *p, th_jinja_node_kind kind);
/* Counts a level of nesting, which the caller takes back. Returns false after an error. */
bool th_jinja_enter(th_jinja_parser *p);

/* -- expressions.c: none returns NULL -- */

/* Reads an expression. */
th_jinja_node *th_jinja_parse_expression(th_jinja_parser *p);
/* Reads an expression, or several with commas: a tuple. simple: expressions without "if". */
th_jinja_node *th_jinja_parse_tuple(th_jinja_parser *p, bool simple);
/* Reads a name, names with commas, or, if attributes is true, name.attribute. */
th_jinja_node *th_jinja_parse_target(th_jinja_parser *p, bool attributes);
/* Reads filters of a value. value NULL: of a block's text; the first one may lack its sign |. */
th_jinja_node *th_jinja_parse_filters(th_jinja_parser *p, th_jinja_node *value);

#endif
