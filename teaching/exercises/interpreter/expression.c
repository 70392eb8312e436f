/* Parses expressions, and gives each of them its type (language.h). */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "language.h"

node *new_node(interpreter *in, node_kind kind, type t, node *a, node *b)
{
    const node n = {.kind = kind, .type = t, .line = peek(in)->line, .a = a, .b = b};
    return keep(in, &n, sizeof n);
}

static node *number_node(interpreter *in, base b, number value)
{
    node *n = new_node(in, NODE_NUMBER, number_type(b), NULL, NULL);
    n->value = value;
    return n;
}

bool constant_value(const node *n, int64_t *value)
{
    int64_t a = 0, b = 0;
    switch (n->kind) {
    case NODE_NUMBER:
        *value = n->value.i;
        return n->type.base < BASE_FLOAT;
    case NODE_CONVERT:
        return n->type.base == BASE_LONG && n->operation < BASE_FLOAT && n->a->type.level == 0 &&
               constant_value(n->a, value);
    case NODE_NEGATE:
        *value = constant_value(n->a, &a) ? -a : 0;
        return n->type.base < BASE_FLOAT && constant_value(n->a, &a);
    case NODE_ARITHMETIC:
        if (n->type.base >= BASE_FLOAT || !constant_value(n->a, &a) || !constant_value(n->b, &b))
            return false;
        if (llabs(a) > INT32_MAX || llabs(b) > INT32_MAX || ((n->op == '/' || n->op == '%') && b == 0))
            return false;
        *value = n->op == '+' ? a + b : n->op == '-' ? a - b : n->op == '*' ? a * b : n->op == '/' ? a / b : a % b;
        return true;
    default:
        return false;
    }
}

/* -- operators -- */

static bool is_place(const node *n)
{
    return n->kind == NODE_VARIABLE || n->kind == NODE_INDEX || (n->kind == NODE_ELEMENT && n->op == BASE_DOUBLE);
}

/* Checks the left side of an assignment. */
static void require_place(interpreter *in, const node *n)
{
    const char *text = n->text ? n->text : "this";
    if (n->kind == NODE_ELEMENT && n->op != BASE_DOUBLE)
        fail_at(in, n->line, "%s can only be read", text);
    else if (n->kind == NODE_MEMBER)
        fail_at(in, n->line, "the members of th_array and th_call can only be read");
    else if (!is_place(n) || n->type.array || (n->type.level == 0 && !is_number(n->type)))
        fail_at(in, n->line, "%s cannot be assigned%s", text, advice(n));
    else if (n->type.constant)
        fail_at(in, n->line, "%s is const: it cannot be assigned", text);
}

static node *arithmetic(interpreter *in, int op, node *a, node *b)
{
    const char name[] = {(char)op, '\0'};
    if ((op == '+' || op == '-') && a->type.level == 1 && is_number(b->type) && b->type.base < BASE_FLOAT) {
        type t = a->type;
        t.array = t.constant = false;
        node *n = new_node(in, NODE_MOVE, t, a, convert(in, b, number_type(BASE_LONG), "as a distance"));
        n->op = op;
        n->text = a->text;
        return n;
    }
    if (op == '+' && b->type.level == 1 && a->type.level == 0)
        return arithmetic(in, op, b, a);
    require_number(in, a, name);
    require_number(in, b, name);
    const base common = common_base(a->type.base, b->type.base);
    if (op == '%' && common >= BASE_FLOAT)
        fail_at(in, a->line, "%% needs integers: use fmod");
    node *n = new_node(in, NODE_ARITHMETIC, number_type(common), convert(in, a, number_type(common), name),
                       convert(in, b, number_type(common), name));
    n->op = op;
    return n;
}

static node *comparison(interpreter *in, int op, const char *name, node *a, node *b)
{
    require_number(in, a, name);
    require_number(in, b, name);
    const base common = common_base(a->type.base, b->type.base);
    node *n = new_node(in, NODE_COMPARE, number_type(BASE_INT), convert(in, a, number_type(common), name),
                       convert(in, b, number_type(common), name));
    n->op = op;
    n->operation = common;
    return n;
}

static const struct {
    const char *text;
    int strength, op;
} operators[] = {{"*", 6, '*'},  {"/", 6, '/'},  {"%", 6, '%'},  {"+", 5, '+'},  {"-", 5, '-'},
                 {"<", 4, '<'},  {">", 4, '>'},  {"<=", 4, 'l'}, {">=", 4, 'g'}, {"==", 3, '='},
                 {"!=", 3, '!'}, {"&&", 2, '&'}, {"||", 1, '|'}};
enum { OPERATORS = sizeof operators / sizeof *operators, CONDITION_OR = 1, CONDITION_AND };

static node *read_unary(interpreter *in);

static node *read_binary(interpreter *in, int strength)
{
    node *a = read_unary(in);
    for (;;) {
        int i = 0;
        while (i < OPERATORS && (!next_is(in, operators[i].text) || operators[i].strength < strength))
            i++;
        if (i == OPERATORS)
            break;
        const int line = peek(in)->line;
        advance(in);
        node *b = read_binary(in, operators[i].strength + 1);
        if (operators[i].strength <= CONDITION_AND) {
            require_number(in, a, operators[i].text);
            require_number(in, b, operators[i].text);
            a = new_node(in, operators[i].op == '&' ? NODE_AND : NODE_OR, number_type(BASE_INT), a, b);
        } else if (operators[i].strength <= 4) {
            a = comparison(in, operators[i].op, operators[i].text, a, b);
        } else {
            a = arithmetic(in, operators[i].op, a, b);
        }
        a->line = line;
    }
    static const char *const bits[] = {"<<", ">>", "&", "|", "^", "<<=", ">>=", "&=", "|=", "^="};
    for (int i = 0; i < (int)(sizeof bits / sizeof *bits); i++)
        if (next_is(in, bits[i]))
            unsupported(in, bits[i], i % 5 < 2 ? "multiply or divide by a power of 2" : "use && and ||, or arithmetic");
    return a;
}

static node *read_choice(interpreter *in)
{
    node *condition = read_binary(in, CONDITION_OR);
    if (!next_is(in, "?"))
        return condition;
    require_number(in, condition, "?");
    advance(in);
    node *a = read_expression(in);
    require(in, ":", "after ?");
    node *b = read_choice(in);
    type t = a->type;
    if (is_number(a->type) || is_number(b->type)) {
        require_number(in, a, "?");
        require_number(in, b, "?");
        t = number_type(common_base(a->type.base, b->type.base));
    }
    t.array = t.constant = false;
    node *n = new_node(in, NODE_CHOICE, t, condition, convert(in, a, t, "after ?"));
    n->c = convert(in, b, t, "after :");
    return n;
}

node *read_assignment(interpreter *in)
{
    static const char *const signs[] = {"=", "+=", "-=", "*=", "/=", "%="};
    node *a = read_choice(in);
    int i = 0;
    while (i < 6 && !next_is(in, signs[i]))
        i++;
    if (i == 6)
        return a;
    const int line = peek(in)->line;
    require_place(in, a);
    advance(in);
    node *b = read_assignment(in);
    type t = a->type;
    t.constant = false;
    node *n = new_node(in, NODE_ASSIGN, t, a, b);
    n->line = line;
    n->text = a->text;
    if (i == 0) {
        n->b = convert(in, b, t, "on the right of =");
    } else if (a->type.level) { /* p += n */
        n->op = signs[i][0];
        n->b = convert(in, b, number_type(BASE_LONG), signs[i]);
        if (n->op != '+' && n->op != '-')
            fail_at(in, line, "%s needs numbers, but the left side is a pointer", signs[i]);
    } else {
        n->op = signs[i][0];
        require_number(in, b, signs[i]);
        n->operation = common_base(a->type.base, b->type.base);
        n->b = convert(in, b, number_type(n->operation), signs[i]);
        if (n->op == '%' && n->operation >= BASE_FLOAT)
            fail_at(in, line, "%%= needs integers: use fmod");
    }
    return n;
}

node *read_expression(interpreter *in)
{
    node *a = read_assignment(in);
    while (accept(in, ",")) {
        node *b = read_assignment(in);
        a = new_node(in, NODE_COMMA, b->type, a, b);
        a->type.array = a->type.constant = false;
    }
    return a;
}

node *read_condition(interpreter *in)
{
    require(in, "(", "before the condition");
    node *n = require_number(in, read_expression(in), "a condition");
    require(in, ")", "after the condition");
    return n;
}

/* -- operands -- */

static node *read_number(interpreter *in, const token *t)
{
    char text[64];
    char *end = text;
    int length = t->length;
    advance(in);
    if (length >= (int)sizeof text) {
        fail_at(in, t->line, "this number is too long");
        length = 0;
    }
    memcpy(text, t->text, (size_t)length);
    text[length] = '\0';
    if (t->kind == TOKEN_REAL) {
        const double value = strtod(text, &end);
        const bool single = strcmp(end, "f") == 0 || strcmp(end, "F") == 0;
        if (*end && !single)
            fail_at(in, t->line, "%s is not a number", text);
        return number_node(in, single ? BASE_FLOAT : BASE_DOUBLE, (number){.d = single ? strtof(text, &end) : value});
    }
    errno = 0;
    const long long value = strtoll(text, &end, 0);
    const bool large = end[0] == 'l' || end[0] == 'L';
    if (errno == ERANGE ||
        (*end && strcmp(end, "l") != 0 && strcmp(end, "L") != 0 && strcmp(end, "ll") != 0 && strcmp(end, "LL") != 0))
        fail_at(in, t->line, "%s is not an integer of the exercises", text);
    return number_node(in, large || value > INT32_MAX ? BASE_LONG : BASE_INT, (number){.i = value});
}

/* Reads the number that a #define names. */
static node *read_macro(interpreter *in, const constant *c)
{
    const int at = in->at;
    in->at = c->at;
    const bool negative = accept(in, "-");
    node *n = NULL;
    if (next_is(in, "("))
        n = read_unary(in);
    else if (peek(in)->kind == TOKEN_INTEGER || peek(in)->kind == TOKEN_REAL)
        n = read_number(in, peek(in));
    if (n == NULL || peek(in)->kind != TOKEN_END) {
        fail_at(in, c->line, "the value of %.*s must be a number, or an expression in parentheses", c->length, c->name);
        return number_node(in, BASE_INT, (number){0});
    }
    in->at = in->error[0] ? in->at : at;
    if (!negative)
        return n;
    return new_node(in, NODE_NEGATE, number_type(common_base(n->type.base, BASE_INT)), n, NULL);
}

static node *read_name(interpreter *in)
{
    static const struct {
        const char *name;
        base base;
        double value;
    } values[] = {{"INFINITY", BASE_FLOAT, INFINITY},
                  {"NAN", BASE_FLOAT, NAN},
                  {"HUGE_VAL", BASE_DOUBLE, INFINITY},
                  {"M_PI", BASE_DOUBLE, 3.14159265358979323846},
                  {"M_E", BASE_DOUBLE, 2.7182818284590452354},
                  {"M_SQRT2", BASE_DOUBLE, 1.41421356237309504880},
                  {"M_SQRT1_2", BASE_DOUBLE, 0.70710678118654752440},
                  {"M_2_SQRTPI", BASE_DOUBLE, 1.12837916709551257390}};
    const token *name = peek(in);
    const variable *v = find_variable(in, name);
    const constant *c = v ? NULL : find_constant(in, name);
    advance(in);
    if (v) {
        node *n = new_node(in, NODE_VARIABLE, v->type, NULL, NULL);
        n->line = name->line;
        n->slot = v->slot;
        n->text = source_text(in, in->at - 1, in->at);
        return n;
    }
    if (c && c->macro)
        return read_macro(in, c);
    if (c)
        return number_node(in, BASE_INT, (number){.i = c->value});
    if (is_text(name, "true") || is_text(name, "false"))
        return number_node(in, BASE_INT, (number){.i = is_text(name, "true")});
    if (is_text(name, "NOT_YET"))
        return new_node(in, NODE_NOT_YET, number_type(BASE_VOID), NULL, NULL);
    for (int i = 0; i < (int)(sizeof values / sizeof *values); i++)
        if (is_text(name, values[i].name))
            return number_node(in, values[i].base, (number){.d = values[i].value});
    if (next_is(in, "("))
        return read_call(in, name);
    if (find_function(in, name))
        fail_at(in, name->line, "%.*s is a function: write ( and its arguments after it", name->length, name->text);
    else if (is_text(name, "NULL"))
        fail_at(in, name->line,
                "NULL is not in the C of the exercises: test .given, which says whether an array is there");
    else
        fail_at(in, name->line, "%.*s is not declared", name->length, name->text);
    return number_node(in, BASE_INT, (number){0});
}

static node *read_sizeof(interpreter *in)
{
    type t = {.base = BASE_INT};
    if (next_is(in, "(")) {
        advance(in);
        t = at_type(in) ? read_type(in) : read_expression(in)->type;
        require(in, ")", "after sizeof");
    } else {
        t = read_unary(in)->type;
    }
    if (t.array || t.base >= BASE_VOID)
        unsupported(in, "sizeof of something that is not a number or a pointer", "count its elements");
    return number_node(in, BASE_SIZE, (number){.i = size_of(t)});
}

static node *read_parentheses(interpreter *in)
{
    advance(in);
    if (!at_type(in)) {
        node *n = read_expression(in);
        require(in, ")", "after this expression");
        return n;
    }
    type t = read_type(in); /* a conversion */
    if (next_is(in, "[") || second_is(in, "{"))
        unsupported(in, "an array without a name", "declare an array");
    require(in, ")", "after this type");
    node *n = read_unary(in);
    t.constant = false;
    if (t.level == 0 && t.base > BASE_VOID)
        fail(in, "nothing can be converted to %s", type_text(t));
    n = convert(in, n, t, "in this conversion");
    if (n->kind == NODE_VARIABLE || n->kind == NODE_INDEX || n->kind == NODE_ELEMENT || n->kind == NODE_ASSIGN) {
        node *c = new_node(in, NODE_CONVERT, t, n, NULL); /* (double)d is no place */
        c->operation = n->type.base;
        return c;
    }
    return n;
}

/* a[b] and *a */
static node *read_index(interpreter *in, node *a, node *index)
{
    if (a->type.level == 0 || a->type.base == BASE_VOID) {
        fail_at(in, a->line, "%s%s",
                a->type.level ? "data has no type: assign it to a pointer first, double *p = x->data"
                              : "[ ] needs a pointer before it",
                a->type.level ? "" : advice(a));
        return a;
    }
    type t = a->type;
    t.level--;
    t.array = t.level > 0;
    t.constant = t.level == 0 && t.constant_target;
    if (a->type.array && t.level == 0)
        t.constant = a->type.constant;
    node *n = new_node(in, NODE_INDEX, t, a, convert(in, index, number_type(BASE_LONG), "as an index"));
    n->line = a->line;
    return n;
}

static node *read_operand(interpreter *in)
{
    const token *t = peek(in);
    if (t->kind == TOKEN_INTEGER || t->kind == TOKEN_REAL)
        return read_number(in, t);
    if (accept(in, "sizeof"))
        return read_sizeof(in);
    if (t->kind == TOKEN_NAME && !at_type(in))
        return read_name(in);
    if (next_is(in, "("))
        return read_parentheses(in);
    if (t->kind == TOKEN_TEXT || t->text[0] == '\'')
        unsupported(in, "a text here", "use numbers; a text can only be the first argument of printf");
    else
        fail(in, "an expression is missing before %.*s", t->kind == TOKEN_END ? 7 : t->length,
             t->kind == TOKEN_END ? "the end" : t->text);
    return number_node(in, BASE_INT, (number){0});
}

static node *increment(interpreter *in, node *n, bool after)
{
    require_place(in, n);
    type t = n->type;
    t.constant = false;
    node *all = new_node(in, NODE_INCREMENT, t, n, NULL);
    all->after = after;
    return all;
}

static node *read_postfix(interpreter *in)
{
    const int first = in->at;
    node *n = read_operand(in);
    for (;;) {
        if (accept(in, "[")) {
            node *index = read_expression(in);
            require(in, "]", "after an index");
            n = read_index(in, n, index);
        } else if (next_is(in, "->") || next_is(in, ".")) {
            advance(in);
            n = read_member(in, n, is_text(peek(in) - 1, "->"));
        } else if (next_is(in, "++") || next_is(in, "--")) {
            n = increment(in, n, true);
            n->op = peek(in)->text[0];
            advance(in);
        } else {
            break;
        }
        if (in->error[0])
            return n;
        n->text = source_text(in, first, in->at);
    }
    return n;
}

static node *read_unary(interpreter *in)
{
    const token *t = peek(in);
    if (accept(in, "++") || accept(in, "--")) {
        node *n = increment(in, read_unary(in), false);
        n->op = t->text[0];
        return n;
    }
    if (accept(in, "-") || accept(in, "+")) {
        node *a = require_number(in, read_unary(in), is_text(t, "-") ? "-" : "+");
        const type to = number_type(common_base(a->type.base, BASE_INT));
        a = convert(in, a, to, "here");
        node *n = new_node(in, is_text(t, "-") ? NODE_NEGATE : NODE_CONVERT, to, a, NULL);
        n->operation = to.base;
        return n;
    }
    if (accept(in, "!"))
        return new_node(in, NODE_NOT, number_type(BASE_INT), require_number(in, read_unary(in), "!"), NULL);
    if (accept(in, "*")) {
        const int first = in->at - 1;
        node *n = read_index(in, read_unary(in), number_node(in, BASE_LONG, (number){0}));
        n->text = source_text(in, first, in->at);
        return n;
    }
    if (accept(in, "&")) {
        const int first = in->at - 1;
        node *a = read_unary(in);
        type to = a->type;
        if (!is_place(a) || a->type.level)
            fail_at(in, t->line, "& needs a variable or an element");
        to.level = 1;
        to.constant_target = a->type.constant;
        to.constant = false;
        node *n = new_node(in, NODE_ADDRESS, to, a, NULL);
        n->text = source_text(in, first, in->at);
        return n;
    }
    if (next_is(in, "~"))
        unsupported(in, "~", "use arithmetic");
    return read_postfix(in);
}
