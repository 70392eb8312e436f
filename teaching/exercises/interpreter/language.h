/* The parts of the interpreter (interpreter.h): tokens, types, the syntax tree, and what a running function has.
 *
 *     lexer.c        source -> tokens
 *     file.c         the functions, constants and the descriptor of a file
 *     declaration.c  declared types and names
 *     statement.c    tokens -> statements
 *     expression.c   tokens -> expressions; every expression has a type
 *     convert.c      types: conversions, and the checks of operands
 *     member.c       members of th_array and th_call
 *     call.c         calls: functions of the file, of mathematics and of exercise.h
 *     evaluate.c     computes expressions
 *     execute.c      runs statements
 *     memory.c       loads and stores, with bounds
 *     errors.c       sentences */
#ifndef TAPEHEAD_LANGUAGE_H
#define TAPEHEAD_LANGUAGE_H

#include "interpreter.h"

/* -- tokens -- */

typedef enum token_kind { TOKEN_END, TOKEN_NAME, TOKEN_INTEGER, TOKEN_REAL, TOKEN_TEXT, TOKEN_SIGN } token_kind;

typedef struct token {
    token_kind kind;
    const char *text;
    int length, line;
    bool spaced; /* white space is before it */
} token;

/* -- types -- */

/* Numbers in the order of C's conversions, then what a pointer may point to. */
typedef enum base {
    BASE_BOOL,
    BASE_INT,
    BASE_LONG,
    BASE_SIZE,
    BASE_FLOAT,
    BASE_DOUBLE,
    BASE_VOID,
    BASE_ARRAY,
    BASE_CALL
} base;

typedef struct type {
    base base;
    int level;  /* 0: an object; 1: a pointer; 2 and 3: a declared array of arrays */
    bool array; /* a declared array: it cannot be assigned */
    bool constant, constant_target;
} type;

/* -- values -- */

/* Integers of all types are in i, real numbers in d. */
typedef union number {
    int64_t i;
    double d;
} number;

enum { MAX_LEVEL = 3 };

/* A pointer with bounds, in elements. Its element is at data + index * (bytes of base). */
typedef struct pointer {
    char *data;
    unsigned char *written; /* for each byte: it has a value; NULL: all have one */
    int64_t index, low, high, memory_low, memory_high;
    int64_t inner[MAX_LEVEL - 1]; /* of arrays of arrays: elements of a row, of a row of the row */
    base base;
    const char *what; /* what it points to, for sentences */
} pointer;

/* -- the syntax tree -- */

typedef enum node_kind {
    NODE_NUMBER,
    NODE_VARIABLE,
    NODE_INDEX,      /* a[b] */
    NODE_MEMBER,     /* a->member */
    NODE_ADDRESS,    /* &a */
    NODE_NEGATE,     /* -a */
    NODE_NOT,        /* !a */
    NODE_ARITHMETIC, /* a op b: numbers of the same type */
    NODE_COMPARE,
    NODE_AND,
    NODE_OR,
    NODE_CHOICE, /* a ? b : c */
    NODE_COMMA,
    NODE_ASSIGN,    /* a = b; for a += b, op is '+' and operation the type in which it is computed */
    NODE_INCREMENT, /* ++a, and a++ if `after`; op is '+' or '-' */
    NODE_CONVERT,
    NODE_MOVE,    /* pointer a + integer b */
    NODE_MATH,    /* a mathematical function */
    NODE_CALL,    /* a function of the file */
    NODE_ELEMENT, /* at, integer_at, bool_at */
    NODE_START_GRADIENT,
    NODE_NOT_YET,
    NODE_PRINT,

    NODE_BLOCK,
    NODE_DECLARE, /* a: the initial value; list: the sizes of an array, or its elements */
    NODE_IF,
    NODE_LOOP, /* for and while: a first, b condition, c step, body; do: `after` */
    NODE_BREAK,
    NODE_CONTINUE,
    NODE_RETURN,
    NODE_EMPTY
} node_kind;

typedef enum member {
    MEMBER_INPUT,
    MEMBER_OUTPUT,
    MEMBER_INPUT_GRADIENT,
    MEMBER_OUTPUT_GRADIENT,
    MEMBER_ADD,
    MEMBER_N_INPUTS,
    MEMBER_N_OUTPUTS,
    MEMBER_TRAINING,
    MEMBER_GIVEN,
    MEMBER_NDIM,
    MEMBER_SIZE,
    MEMBER_STRIDE,
    MEMBER_DATA
} member;

typedef struct function function;
typedef struct math_function math_function;

typedef struct node {
    node_kind kind;
    type type;
    int line, op;
    bool after;
    base operation;
    member member;
    int slot; /* of a variable: its place in the frame, in bytes */
    number value;
    struct node *a, *b, *c, *body;
    struct node **list;
    int count, dimensions;
    const char *text; /* of a variable or an element, as in the source */
    const function *called;
    const math_function *math;
} node;

enum { MAX_PARAMETERS = 8 };

struct function {
    const char *name;
    int length;
    int at; /* its first token */
    int line;
    bool signature, wanted, parsed;
    type result, parameter[MAX_PARAMETERS];
    int slot[MAX_PARAMETERS], count;
    int frame; /* bytes */
    node *body;
    function *next;
};

/* A mathematical function with `count` real arguments. */
struct math_function {
    const char *name;
    int count;
    base result; /* BASE_INT for isnan and its like */
    double (*one)(double);
    double (*two)(double, double);
};

/* -- an interpreter -- */

typedef struct constant { /* an enumerator, or a #define */
    const char *name;
    int length, at, line; /* at: the first token of a #define */
    bool macro;
    int64_t value;
    struct constant *next;
} constant;

typedef struct variable {
    const char *name;
    int length, depth, slot;
    type type;
} variable;

enum { VARIABLES = 256, ERROR_TEXT = 400, STACK = 1 << 20, PRINTED = 4000 };

struct interpreter {
    const char *file, *source;
    char error[ERROR_TEXT];
    struct block *blocks; /* memory of the tree */
    bool no_memory;

    /* parsing */
    token *tokens;
    int n_tokens, at;
    function *functions, *current;
    constant *constants;
    char operation[64];
    function *forward, *backward;
    variable variables[VARIABLES];
    int n_variables, depth, loops;

    /* running */
    const interpreter_call *call;
    char *stack;            /* STACK bytes */
    unsigned char *written; /* for each of them */
    int64_t frame, top;     /* of the running function; the first free byte */
    int64_t steps, most_steps;
    int calls; /* functions that are running */
    number result;
    bool has_result;
    char outside[ERROR_TEXT], printed[PRINTED];
};

/* -- errors.c -- */

/* Stores the file's first error, with its line. After that only the end of the file remains to be read. */
void fail_at(interpreter *in, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
void fail(interpreter *in, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A construct outside the subset, and what to write instead. */
void unsupported(interpreter *in, const char *construct, const char *instead);
/* Returns a type in C, in one of a few static texts. */
const char *type_text(type t);
/* Copies memory of the interpreter, or returns zeros if `data` is NULL. Never returns NULL: without memory the file
 * has an error, and all callers get the same spare memory. */
void *keep(interpreter *in, const void *data, size_t bytes);
void release_tree(interpreter *in);

/* -- lexer.c -- */

bool read_tokens(interpreter *in);
const token *peek(const interpreter *in);
bool is_text(const token *t, const char *text);
bool next_is(const interpreter *in, const char *text);
bool second_is(const interpreter *in, const char *text);
/* Skips a token. The end stays. */
void advance(interpreter *in);
/* Skips a token with this text, if it is the next one. */
bool accept(interpreter *in, const char *text);
void require(interpreter *in, const char *text, const char *where);
/* The source between two tokens, as the preprocessor's # writes it. */
const char *source_text(interpreter *in, int first, int end);

/* -- file.c -- */

void read_file(interpreter *in);
function *find_function(const interpreter *in, const token *name);
const constant *find_constant(const interpreter *in, const token *name);
void read_enum(interpreter *in);

/* -- declaration.c -- */

bool at_type(const interpreter *in);
/* Reads the words of a type and the stars after it. */
type read_type(interpreter *in);
type read_base_type(interpreter *in);
type read_stars(interpreter *in, type t);
const variable *find_variable(const interpreter *in, const token *name);
/* Adds a variable to the block. Returns its place in the frame. */
int add_variable(interpreter *in, const token *name, type t);
node *read_declaration(interpreter *in);
void read_signature(interpreter *in, function *f);

/* -- statement.c -- */

node *read_statement(interpreter *in);
node *read_block(interpreter *in);

/* -- expression.c -- */

node *new_node(interpreter *in, node_kind kind, type t, node *a, node *b);
node *read_expression(interpreter *in);
node *read_assignment(interpreter *in); /* without commas */
node *read_condition(interpreter *in);
/* Computes a constant expression of integers. */
bool constant_value(const node *n, int64_t *value);

/* -- convert.c -- */

type number_type(base b);
bool is_number(type t);
node *convert(interpreter *in, node *n, type to, const char *where);
/* Returns what to write instead of a pointer or an array where a number is needed: the end of a sentence, or "". */
const char *advice(const node *n);
node *require_number(interpreter *in, node *n, const char *operator_);
/* C's usual arithmetic conversions. */
base common_base(base a, base b);
int size_of(type t);

/* -- member.c -- */

/* Reads what follows -> or . after a pointer to a struct. */
node *read_member(interpreter *in, node *owner, bool arrow);

/* -- call.c -- */

node *read_call(interpreter *in, const token *name);

/* -- memory.c -- */

int element_size(base b);
number load(base b, const char *data);
void store(base b, char *data, number value);
number change_type(number value, base from, base to);
/* Returns where the pointer's element is. Checks the bounds, and before a read that it has a value. */
char *element_of(interpreter *in, const pointer *p, int line, const char *text, bool reads);
void note_written(const pointer *p);
pointer array_data(interpreter *in, const th_array *a, int line);

/* -- evaluate.c, execute.c -- */

number evaluate(interpreter *in, const node *n);
pointer point_to(interpreter *in, const node *n);
number call_function(interpreter *in, const function *f, const node *call, const pointer *argument);
number print_values(interpreter *in, const node *n);
void count_step(interpreter *in, int line);
const char *base_name_of(const char *file);

#endif
