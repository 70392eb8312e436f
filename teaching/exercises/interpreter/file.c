/* Reads what is outside functions: names of functions, constants, and the descriptor of the operation (language.h).
 * Functions are parsed only if forward or backward calls them, so that shape rules need not be in the subset. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "language.h"

static bool same_name(const token *t, const char *name, int length)
{
    return t->length == length && strncmp(t->text, name, (size_t)length) == 0;
}

function *find_function(const interpreter *in, const token *name)
{
    for (function *f = in->functions; f; f = f->next)
        if (same_name(name, f->name, f->length))
            return f;
    return NULL;
}

const constant *find_constant(const interpreter *in, const token *name)
{
    for (const constant *c = in->constants; c; c = c->next)
        if (same_name(name, c->name, c->length))
            return c;
    return NULL;
}

void read_enum(interpreter *in)
{
    int64_t value = 0;
    require(in, "enum", "here");
    if (peek(in)->kind == TOKEN_NAME)
        advance(in);
    require(in, "{", "after enum");
    while (!next_is(in, "}") && peek(in)->kind != TOKEN_END) {
        const token *name = peek(in);
        if (name->kind != TOKEN_NAME) {
            fail(in, "a name is missing in this enum, before %.*s", name->length, name->text);
            return;
        }
        advance(in);
        if (accept(in, "=") && !constant_value(read_assignment(in), &value))
            fail_at(in, name->line, "the value of %.*s must be a constant integer", name->length, name->text);
        const constant c = {
            .name = name->text, .length = name->length, .line = name->line, .value = value, .next = in->constants};
        in->constants = keep(in, &c, sizeof c);
        value++;
        if (!accept(in, ","))
            break;
    }
    require(in, "}", "at the end of this enum");
    require(in, ";", "after this enum");
}

/* Skips to the token after a closing bracket. The next token is the opening one. */
static void skip_brackets(interpreter *in)
{
    const token *first = peek(in);
    int depth = 0;
    do {
        const token *t = peek(in);
        depth += is_text(t, "(") || is_text(t, "{") || is_text(t, "[");
        depth -= is_text(t, ")") || is_text(t, "}") || is_text(t, "]");
        if (t->kind == TOKEN_END) {
            fail_at(in, first->line, "%.*s has no closing bracket", first->length, first->text);
            return;
        }
        advance(in);
    } while (depth > 0);
}

/* Reads the descriptor: its name and functions. The next token is {. */
static void read_descriptor(interpreter *in)
{
    const int first = in->at;
    skip_brackets(in);
    for (int i = first; i + 3 < in->at; i++) {
        const token *t = &in->tokens[i];
        if (!is_text(t, ".") || !is_text(t + 2, "="))
            continue;
        if (is_text(t + 1, "name") && t[3].kind == TOKEN_TEXT && in->operation[0] == '\0')
            snprintf(in->operation, sizeof in->operation, "%.*s", t[3].length - 2, t[3].text + 1);
        else if (is_text(t + 1, "forward"))
            in->forward = find_function(in, t + 3);
        else if (is_text(t + 1, "backward"))
            in->backward = find_function(in, t + 3);
    }
}

/* Reads a declaration outside functions, up to its ; or the end of its body. */
static void read_outside(interpreter *in)
{
    const int first = in->at;
    const token *name = NULL;
    bool operation = false;
    for (;;) {
        const token *t = peek(in);
        if (t->kind == TOKEN_END) {
            fail_at(in, in->tokens[first].line, "what begins here has no end");
            return;
        }
        operation = operation || is_text(t, "exercise");
        if (t->kind == TOKEN_NAME && is_text(t + 1, "(") && name == NULL)
            name = t;
        if (accept(in, ";"))
            return;
        if (next_is(in, "{") && operation) {
            read_descriptor(in);
        } else if (next_is(in, "{") && name) {
            if (find_function(in, name))
                fail_at(in, name->line, "the file has two functions %.*s", name->length, name->text);
            const function f = {
                .name = name->text, .length = name->length, .at = first, .line = name->line, .next = in->functions};
            in->functions = keep(in, &f, sizeof f);
            skip_brackets(in);
            return;
        } else if (next_is(in, "{") || next_is(in, "(") || next_is(in, "[")) {
            skip_brackets(in);
        } else {
            advance(in);
        }
    }
}

/* Parses the body of a function. */
static void read_function(interpreter *in, function *f)
{
    in->current = f;
    in->n_variables = in->depth = in->loops = 0;
    read_signature(in, f);
    f->body = read_block(in);
    f->parsed = true;
}

/* Parses every function that is called from forward or backward. */
static void read_functions(interpreter *in)
{
    for (bool more = true; more && in->error[0] == '\0';) {
        more = false;
        for (function *f = in->functions; f && in->error[0] == '\0'; f = f->next)
            if (f->wanted && !f->parsed) {
                in->at = f->at;
                read_function(in, f);
                more = true;
            }
    }
}

void read_file(interpreter *in)
{
    while (peek(in)->kind != TOKEN_END)
        if (next_is(in, "enum"))
            read_enum(in);
        else
            read_outside(in);
    if (in->forward)
        in->forward->wanted = true;
    if (in->backward)
        in->backward->wanted = true;
    read_functions(in);
    for (int backward = 0; backward < 2 && in->error[0] == '\0'; backward++) {
        const function *f = backward ? in->backward : in->forward;
        if (f && (f->count != 1 || f->parameter[0].base != BASE_CALL || f->result.base != BASE_VOID))
            fail_at(in, f->line, "%.*s must be void %.*s(const th_call *c)", f->length, f->name, f->length, f->name);
    }
}

/* -- the interpreter as a whole (interpreter.h) -- */

interpreter *interpreter_new(const char *name, const char *source)
{
    interpreter *in = calloc(1, sizeof *in);
    if (in == NULL)
        return NULL;
    in->file = name;
    in->source = source;
    in->stack = malloc(STACK);
    in->written = calloc(STACK, 1);
    if (in->stack && in->written && read_tokens(in))
        read_file(in);
    else
        in->no_memory = in->error[0] == '\0';
    if (in->no_memory) {
        interpreter_free(in);
        return NULL;
    }
    return in;
}

void interpreter_free(interpreter *in)
{
    if (in == NULL)
        return;
    release_tree(in);
    free(in->tokens);
    free(in->stack);
    free(in->written);
    free(in);
}

const char *interpreter_error(const interpreter *in)
{
    return in->error;
}

const char *interpreter_operation(const interpreter *in)
{
    return in->operation;
}

bool interpreter_defines(const interpreter *in, bool backward)
{
    return (backward ? in->backward : in->forward) != NULL;
}

const char *interpreter_outside(const interpreter *in)
{
    return in->outside;
}

const char *interpreter_printed(const interpreter *in)
{
    return in->printed;
}
