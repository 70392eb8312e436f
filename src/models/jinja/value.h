/* Values of a Jinja program, in an arena that one call frees, and the state of a rendering. */
#ifndef TH_MODELS_JINJA_VALUE_H
#define TH_MODELS_JINJA_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "models/jinja/jinja.h"

/* -- memory -- */

typedef struct th_jinja_chunk th_jinja_chunk;
/* Memory that th_jinja_arena_free frees at once. */
typedef struct th_jinja_arena {
    th_context *ctx;
    th_jinja_chunk *chunk;
    size_t used, limit; /* bytes */
} th_jinja_arena;
/* Returns memory of zeros; NULL if the limit or the context's memory does not suffice. */
void *th_jinja_allocate(th_jinja_arena *arena, size_t bytes);
void th_jinja_arena_free(th_jinja_arena *arena);

/* -- values -- */

typedef enum th_jinja_kind {
    TH_JINJA_UNDEFINED,
    TH_JINJA_NONE,
    TH_JINJA_BOOL,
    TH_JINJA_INT,
    TH_JINJA_FLOAT,
    TH_JINJA_STRING,
    TH_JINJA_LIST,
    TH_JINJA_TUPLE,
    TH_JINJA_ITERATOR, /* a list that is read once, as Python's generators */
    TH_JINJA_DICT,
    TH_JINJA_NAMESPACE,
    TH_JINJA_MACRO,
    TH_JINJA_LOOP,
    TH_JINJA_FUNCTION, /* of the environment */
    TH_JINJA_METHOD    /* of a value */
} th_jinja_kind;

/* UTF-8, without NUL at the end. */
typedef struct th_jinja_string {
    const char *bytes;
    size_t count;
    bool safe; /* escaped, as jinja2's Markup */
} th_jinja_string;

typedef struct th_jinja_list th_jinja_list;
typedef struct th_jinja_dict th_jinja_dict;
typedef struct th_jinja_macro th_jinja_macro;
typedef struct th_jinja_loop th_jinja_loop;
typedef struct th_jinja_method th_jinja_method;
typedef struct th_jinja_function th_jinja_function;

typedef struct th_jinja_value {
    th_jinja_kind kind;
    union {
        bool boolean;
        int64_t integer;
        double real;
        const th_jinja_string *string; /* also of UNDEFINED: what is undefined, for messages; or NULL */
        th_jinja_list *list;
        th_jinja_dict *dict; /* and of a namespace */
        th_jinja_macro *macro;
        th_jinja_loop *loop;
        th_jinja_method *method;
        const th_jinja_function *function;
    };
} th_jinja_value;

struct th_jinja_list {
    th_jinja_value *item;
    size_t count, capacity;
    const char *view; /* NULL, or Python's name of the object that a program sees as a list, such as dict_keys */
};

typedef struct th_jinja_member {
    th_jinja_value key, value;
} th_jinja_member;
/* In the order of insertion. */
struct th_jinja_dict {
    th_jinja_member *member;
    size_t count, capacity;
};

/* A method of `self`; name is one of those that it has. */
struct th_jinja_method {
    th_jinja_value self;
    const th_jinja_string *name;
};

/* -- a rendering -- */

/* The deepest nesting of expressions, blocks, calls and values. */
enum { TH_JINJA_DEPTH = 400 };

struct th_jinja_node;
typedef struct th_jinja_variable {
    const th_jinja_string *name; /* of the program: equal names have equal pointers */
    th_jinja_value value;
    struct th_jinja_variable *next;
} th_jinja_variable;
typedef struct th_jinja_scope {
    th_jinja_variable *variable;
    struct th_jinja_scope *outer;
} th_jinja_scope;

typedef struct th_jinja_run {
    const th_jinja *program;
    th_jinja_arena arena;
    th_jinja_dict *variables;
    th_jinja_scope *scope;
    th_jinja_result *result;
    const struct th_jinja_node *at; /* what is executed, for messages */
    size_t steps, most_steps, most_output;
    size_t base; /* bytes of text outside all captured texts */
    int depth, captures;
    enum { TH_JINJA_GOES_ON, TH_JINJA_BREAKS, TH_JINJA_CONTINUES } signal;
    time_t now;
    bool failed;
    th_status status;
    char problem[400];
} th_jinja_run;

/* Stops the rendering with a message. The first one counts. Returns an undefined value. */
th_jinja_value th_jinja_fail(th_jinja_run *run, const char *format, ...) TH_FORMAT(2, 3);
/* Counts steps. Returns false, with an error, if the limit is reached. */
bool th_jinja_step(th_jinja_run *run, size_t steps);
/* As th_jinja_allocate, with an error. */
void *th_jinja_new(th_jinja_run *run, size_t bytes);

static inline th_jinja_value th_jinja_none(void)
{
    return (th_jinja_value){.kind = TH_JINJA_NONE};
}
static inline th_jinja_value th_jinja_bool(bool value)
{
    return (th_jinja_value){.kind = TH_JINJA_BOOL, .boolean = value};
}
static inline th_jinja_value th_jinja_int(int64_t value)
{
    return (th_jinja_value){.kind = TH_JINJA_INT, .integer = value};
}
static inline th_jinja_value th_jinja_float(double value)
{
    return (th_jinja_value){.kind = TH_JINJA_FLOAT, .real = value};
}
static inline th_jinja_value th_jinja_undefined(void)
{
    return (th_jinja_value){.kind = TH_JINJA_UNDEFINED};
}
/* A string that shares the bytes, which must live as long as the rendering. */
th_jinja_value th_jinja_string_of(th_jinja_run *run, const char *bytes, size_t count);
/* The same for a literal. */
th_jinja_value th_jinja_literal(th_jinja_run *run, const char *text);
th_jinja_value th_jinja_list_of(th_jinja_run *run, th_jinja_kind kind, size_t capacity);
void th_jinja_push(th_jinja_run *run, th_jinja_value list, th_jinja_value item);
th_jinja_value th_jinja_dict_of(th_jinja_run *run, th_jinja_kind kind);
/* Adds a member, or replaces the value of its key. */
void th_jinja_put(th_jinja_run *run, th_jinja_dict *dict, th_jinja_value key, th_jinja_value value);
/* Returns the value of a key; NULL without it. */
th_jinja_value *th_jinja_find(th_jinja_run *run, const th_jinja_dict *dict, th_jinja_value key);
th_jinja_value *th_jinja_find_name(th_jinja_run *run, const th_jinja_dict *dict, const char *name);
th_jinja_value th_jinja_from_json(th_jinja_run *run, const json_t *json);

bool th_jinja_is_sequence(th_jinja_value value); /* a list or a tuple */
bool th_jinja_is_number(th_jinja_value value);   /* an integer, a real or a boolean */
double th_jinja_number(th_jinja_value value);
bool th_jinja_truth(th_jinja_value value);
bool th_jinja_equal(th_jinja_run *run, th_jinja_value a, th_jinja_value b);
/* Returns -1, 0 or 1; an error for values without an order. operator: for the message. */
int th_jinja_order(th_jinja_run *run, th_jinja_value a, th_jinja_value b, const char *operator);
/* Returns Python's name of the type. */
const char *th_jinja_type(th_jinja_value value);
/* Returns the items of a value as a list: characters, keys, or items. An error for others. */
th_jinja_value th_jinja_items(th_jinja_run *run, th_jinja_value value);
/* Returns whether `text` equals a string. */
bool th_jinja_is(const th_jinja_string *string, const char *text);
/* The number of characters. */
size_t th_jinja_length(const th_jinja_string *string);
/* Returns the byte where character `index` begins, or the end. */
size_t th_jinja_byte_of(const th_jinja_string *string, size_t index);

/* -- text -- */

/* Appends to the output. */
void th_jinja_write(th_jinja_run *run, const char *bytes, size_t count);
/* Appends formatted numbers or names of at most 200 bytes. */
void th_jinja_write_format(th_jinja_run *run, const char *format, ...) TH_FORMAT(2, 3);
/* What follows in the output is taken back by th_jinja_captured, which returns it as a string. */
size_t th_jinja_capture(th_jinja_run *run);
th_jinja_value th_jinja_captured(th_jinja_run *run, size_t begin);
/* Writes as Python's str, and repr. */
void th_jinja_write_value(th_jinja_run *run, th_jinja_value value);
void th_jinja_write_repr(th_jinja_run *run, th_jinja_value value);
/* Returns str(value). */
th_jinja_value th_jinja_str(th_jinja_run *run, th_jinja_value value);

/* -- calls -- */

/* Arguments: positional and named. */
typedef struct th_jinja_arguments {
    th_jinja_value *value; /* [count] */
    size_t count;
    th_jinja_dict named;
} th_jinja_arguments;

/* Binds arguments to parameters: names such as "a, b=, c="; those with '=' may be missing, and are undefined then. */
bool th_jinja_bind(th_jinja_run *run, const char *function, const char *parameters, const th_jinja_arguments *given,
                   th_jinja_value *value);
th_jinja_value th_jinja_call(th_jinja_run *run, th_jinja_value function, const th_jinja_arguments *given);
th_jinja_value th_jinja_attribute(th_jinja_run *run, th_jinja_value object, const th_jinja_string *name);
th_jinja_value th_jinja_item(th_jinja_run *run, th_jinja_value object, th_jinja_value key);
th_jinja_value th_jinja_filter(th_jinja_run *run, const th_jinja_string *name, th_jinja_value value,
                               const th_jinja_arguments *given);
bool th_jinja_test(th_jinja_run *run, const th_jinja_string *name, th_jinja_value value,
                   const th_jinja_arguments *given);
bool th_jinja_contains(th_jinja_run *run, th_jinja_value container, th_jinja_value item);
/* Whether a value of this kind has the method. */
bool th_jinja_has_method(th_jinja_value self, const th_jinja_string *name);
th_jinja_value th_jinja_call_method(th_jinja_run *run, const th_jinja_method *method, const th_jinja_arguments *given);
/* A function of the environment; NULL if the name is unknown. */
const th_jinja_function *th_jinja_find_function(const th_jinja_string *name);
th_jinja_value th_jinja_call_function(th_jinja_run *run, const th_jinja_function *function,
                                      const th_jinja_arguments *given);
th_jinja_value th_jinja_call_macro(th_jinja_run *run, const th_jinja_macro *macro, const th_jinja_arguments *given);
th_jinja_value th_jinja_call_loop(th_jinja_run *run, const th_jinja_method *method, const th_jinja_arguments *given);
th_jinja_value th_jinja_loop_attribute(th_jinja_run *run, th_jinja_value loop, const th_jinja_string *name);
/* Arithmetic: op is a character of + - * / % ~ or 'i' (floor division) or 'p' (power). */
th_jinja_value th_jinja_arithmetic(th_jinja_run *run, char op, th_jinja_value a, th_jinja_value b);
/* Writes a text with "%s" and the like filled in. */
th_jinja_value th_jinja_percent(th_jinja_run *run, const th_jinja_string *format, th_jinja_value arguments);
/* Writes as json.dumps. */
th_jinja_value th_jinja_to_json(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given);
/* strip of Python: mode 1 at the beginning, 2 at the end, 3 both; characters NULL: white space. */
th_jinja_value th_jinja_strip(th_jinja_run *run, const th_jinja_string *text, const th_jinja_string *characters,
                              int mode);
th_jinja_value th_jinja_replace(th_jinja_run *run, const th_jinja_string *text, const th_jinja_string *old,
                                const th_jinja_string *new, int64_t most);
/* Upper 'u', lower 'l', capitalize 'c', title 't' (Python's) or 'T' (jinja2's) case. */
th_jinja_value th_jinja_change_case(th_jinja_run *run, const th_jinja_string *text, char mode);
th_jinja_value th_jinja_escape(th_jinja_run *run, th_jinja_value value);

#endif
