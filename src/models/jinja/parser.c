/* Parses a Jinja program into a tree: statements here, expressions in expressions.c. */
#include "models/jinja/parser.h"

#include <stdarg.h>
#include <string.h>

enum { PROGRAM_MEMORY = 64 << 20, MAX_PROGRAM = 1 << 22 };

/* -- tokens -- */

void th_jinja_refuse(th_jinja_parser *p, const char *format, ...)
{
    if (p->failed)
        return;
    va_list arguments;
    va_start(arguments, format);
    p->problem[0] = 0;
    th_append_arguments(p->problem, sizeof p->problem, format, arguments);
    va_end(arguments);
    p->failed = true;
    p->place = p->token.place;
    p->token = (th_jinja_token){.place = p->place};
}

void th_jinja_advance(th_jinja_parser *p)
{
    if (p->failed)
        return;
    p->token = p->ahead;
    p->ahead = th_jinja_next(&p->lexer);
    if (p->token.kind == TH_JINJA_END_OF_TEXT && p->lexer.problem)
        th_jinja_refuse(p, "%s", p->lexer.problem);
}

static bool has_text(const th_jinja_token *token, const char *text)
{
    return strlen(text) == token->count && memcmp(token->bytes, text, token->count) == 0;
}

bool th_jinja_at_operator(const th_jinja_parser *p, const char *text)
{
    return p->token.kind == TH_JINJA_OPERATOR && has_text(&p->token, text);
}

bool th_jinja_at_word(const th_jinja_parser *p, const char *text)
{
    return p->token.kind == TH_JINJA_WORD && has_text(&p->token, text);
}

bool th_jinja_skip_operator(th_jinja_parser *p, const char *text)
{
    const bool found = th_jinja_at_operator(p, text);
    if (found)
        th_jinja_advance(p);
    return found;
}

bool th_jinja_skip_word(th_jinja_parser *p, const char *text)
{
    const bool found = th_jinja_at_word(p, text);
    if (found)
        th_jinja_advance(p);
    return found;
}

void th_jinja_expect(th_jinja_parser *p, const char *text)
{
    if (th_jinja_skip_operator(p, text) || p->failed)
        return;
    if (p->token.kind == TH_JINJA_END_OF_TEXT)
        th_jinja_refuse(p, "the template ends where '%s' is expected", text);
    else
        th_jinja_refuse(p, "'%s' is expected instead of '%.*s'", text, (int)th_smaller((int64_t)p->token.count, 60),
                        p->token.bytes);
}

void *th_jinja_take_memory(th_jinja_parser *p, size_t bytes)
{
    void *memory = th_jinja_allocate(&p->program->arena, bytes);
    if (memory == NULL) {
        p->out_of_memory = true;
        th_jinja_refuse(p, "the template is too large");
    }
    return memory;
}

const th_jinja_string *th_jinja_intern(th_jinja_parser *p, const char *bytes, size_t count)
{
    for (const th_jinja_name *name = p->names; name; name = name->next)
        if (name->string.count == count && memcmp(name->string.bytes, bytes, count) == 0)
            return &name->string;
    th_jinja_name *name = th_jinja_take_memory(p, sizeof *name);
    if (name == NULL)
        return &p->nameless;
    *name = (th_jinja_name){{.bytes = bytes, .count = count}, p->names};
    p->names = name;
    return &name->string;
}

const th_jinja_string *th_jinja_take_name(th_jinja_parser *p)
{
    if (p->token.kind != TH_JINJA_WORD)
        th_jinja_refuse(p, "a name is expected");
    if (p->failed)
        return &p->nameless;
    const th_jinja_string *name = th_jinja_intern(p, p->token.bytes, p->token.count);
    th_jinja_advance(p);
    return name;
}

th_jinja_node *th_jinja_make(th_jinja_parser *p, th_jinja_node_kind kind)
{
    th_jinja_node *node = th_jinja_take_memory(p, sizeof *node);
    if (node == NULL)
        node = &p->nowhere;
    *node = (th_jinja_node){.kind = kind, .place = p->token.place, .name = &p->nameless};
    return node;
}

bool th_jinja_enter(th_jinja_parser *p)
{
    enum { DEEPEST = 120 };
    if (++p->depth > DEEPEST)
        th_jinja_refuse(p, "the template is nested too deep");
    return !p->failed;
}

/* -- statements -- */

static th_jinja_node *parse_body(th_jinja_parser *p, const char *const ends[]);

/* Reads "%}". */
static void end_block(th_jinja_parser *p)
{
    if (p->token.kind == TH_JINJA_BLOCK_END)
        th_jinja_advance(p);
    else
        th_jinja_refuse(p, "the tag should end before '%.*s'", (int)th_smaller((int64_t)p->token.count, 60),
                        p->token.bytes);
}

/* Reads a body up to the statement `end`, with that tag. */
static th_jinja_node *parse_until(th_jinja_parser *p, const char *end)
{
    end_block(p);
    th_jinja_node *body = parse_body(p, (const char *const[]){end, NULL});
    th_jinja_advance(p); /* the word */
    end_block(p);
    return body;
}

static th_jinja_node *parse_if(th_jinja_parser *p)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    th_jinja_node *node = th_jinja_make(p, TH_JINJA_IF);
    if (!th_jinja_enter(p))
        return node;
    th_jinja_advance(p);
    node->first = th_jinja_parse_tuple(p, false);
    end_block(p);
    node->second = parse_body(p, ends);
    if (th_jinja_at_word(p, "elif"))
        node->third = parse_if(p);
    else if (th_jinja_skip_word(p, "else"))
        node->third = parse_until(p, "endif");
    else {
        th_jinja_advance(p);
        end_block(p);
    }
    p->depth--;
    return node;
}

static th_jinja_node *parse_for(th_jinja_parser *p)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    th_jinja_node *node = th_jinja_make(p, TH_JINJA_FOR);
    th_jinja_advance(p);
    node->first = th_jinja_parse_target(p, false);
    if (!th_jinja_skip_word(p, "in"))
        th_jinja_refuse(p, "the loop needs 'in'");
    node->second = th_jinja_parse_tuple(p, true);
    if (th_jinja_skip_word(p, "if"))
        node->third = th_jinja_parse_expression(p);
    if (th_jinja_at_word(p, "recursive"))
        th_jinja_refuse(p, "recursive loops are not supported");
    end_block(p);
    p->loops++;
    node->body = parse_body(p, ends);
    p->loops--;
    if (th_jinja_skip_word(p, "else"))
        node->other = parse_until(p, "endfor");
    else {
        th_jinja_advance(p);
        end_block(p);
    }
    return node;
}

static th_jinja_node *parse_set(th_jinja_parser *p)
{
    th_jinja_node *node = th_jinja_make(p, TH_JINJA_SET);
    th_jinja_advance(p);
    node->first = th_jinja_parse_target(p, true);
    if (th_jinja_skip_operator(p, "=")) {
        node->second = th_jinja_parse_tuple(p, false);
        end_block(p);
        return node;
    }
    node->kind = TH_JINJA_SET_BLOCK;
    if (th_jinja_at_operator(p, "|"))
        node->second = th_jinja_parse_filters(p, NULL);
    node->body = parse_until(p, "endset");
    return node;
}

/* Reads "(a, b=1)". */
static th_jinja_node *parse_parameters(th_jinja_parser *p)
{
    th_jinja_node *first = NULL, **link = &first;
    bool defaults = false;
    th_jinja_expect(p, "(");
    while (!p->failed && !th_jinja_at_operator(p, ")")) {
        if (first)
            th_jinja_expect(p, ",");
        th_jinja_node *parameter = th_jinja_make(p, TH_JINJA_NAMED);
        parameter->name = th_jinja_take_name(p);
        if (th_jinja_skip_operator(p, "=")) {
            parameter->first = th_jinja_parse_expression(p);
            defaults = true;
        } else if (defaults)
            th_jinja_refuse(p, "a parameter without a default value follows one with a value");
        *link = parameter;
        link = &parameter->next;
    }
    th_jinja_expect(p, ")");
    return first;
}

static th_jinja_node *parse_macro(th_jinja_parser *p)
{
    th_jinja_node *node = th_jinja_make(p, TH_JINJA_MACRO_OF);
    const int loops = p->loops;
    th_jinja_advance(p);
    node->name = th_jinja_take_name(p);
    node->first = parse_parameters(p);
    p->loops = 0;
    node->body = parse_until(p, "endmacro");
    p->loops = loops;
    return node;
}

static th_jinja_node *parse_call_block(th_jinja_parser *p)
{
    th_jinja_node *node = th_jinja_make(p, TH_JINJA_CALL_BLOCK);
    const int loops = p->loops;
    th_jinja_advance(p);
    if (th_jinja_at_operator(p, "("))
        node->second = parse_parameters(p);
    node->first = th_jinja_parse_expression(p);
    if (!p->failed && node->first->kind != TH_JINJA_CALL)
        th_jinja_refuse(p, "a call is expected");
    p->loops = 0;
    node->body = parse_until(p, "endcall");
    p->loops = loops;
    return node;
}

static th_jinja_node *parse_filter_block(th_jinja_parser *p)
{
    th_jinja_node *node = th_jinja_make(p, TH_JINJA_FILTERED);
    th_jinja_advance(p);
    node->first = th_jinja_parse_filters(p, NULL);
    node->body = parse_until(p, "endfilter");
    return node;
}

static th_jinja_node *parse_with(th_jinja_parser *p)
{
    th_jinja_node *node = th_jinja_make(p, TH_JINJA_WITH), **link = &node->first;
    th_jinja_advance(p);
    while (!p->failed && p->token.kind != TH_JINJA_BLOCK_END) {
        if (node->first)
            th_jinja_expect(p, ",");
        th_jinja_node *variable = th_jinja_make(p, TH_JINJA_NAMED);
        variable->name = th_jinja_take_name(p);
        th_jinja_expect(p, "=");
        variable->first = th_jinja_parse_expression(p);
        *link = variable;
        link = &variable->next;
    }
    node->body = parse_until(p, "endwith");
    return node;
}

static th_jinja_node *parse_generation(th_jinja_parser *p)
{
    th_jinja_node *node = th_jinja_make(p, TH_JINJA_GENERATION);
    const int loops = p->loops;
    th_jinja_advance(p);
    p->loops = 0; /* the block is a function, which a loop outside cannot end */
    node->body = parse_until(p, "endgeneration");
    p->loops = loops;
    p->program->marks = true;
    return node;
}

static th_jinja_node *parse_jump(th_jinja_parser *p)
{
    th_jinja_node *node = th_jinja_make(p, th_jinja_at_word(p, "break") ? TH_JINJA_BREAK : TH_JINJA_CONTINUE);
    if (p->loops == 0)
        th_jinja_refuse(p, "'%.*s' is outside a loop", (int)p->token.count, p->token.bytes);
    th_jinja_advance(p);
    end_block(p);
    return node;
}

static th_jinja_node *parse_statement(th_jinja_parser *p)
{
    static const struct {
        const char *word;
        th_jinja_node *(*parse)(th_jinja_parser *p);
    } statements[] = {{"if", parse_if},           {"for", parse_for},
                      {"set", parse_set},         {"macro", parse_macro},
                      {"call", parse_call_block}, {"filter", parse_filter_block},
                      {"with", parse_with},       {"generation", parse_generation},
                      {"break", parse_jump},      {"continue", parse_jump}};
    static const char *const others[] = {"block", "extends", "include", "import", "from", "autoescape", "print"};
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        if (th_jinja_at_word(p, statements[i].word))
            return statements[i].parse(p);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (th_jinja_at_word(p, others[i]))
            th_jinja_refuse(p, "the statement '%s' is not supported", others[i]);
    th_jinja_refuse(p, "the statement '%.*s' is unknown", (int)th_smaller((int64_t)p->token.count, 60), p->token.bytes);
    return NULL;
}

/* -- bodies -- */

static th_jinja_node *parse_text(th_jinja_parser *p)
{
    th_jinja_node *node = th_jinja_make(p, TH_JINJA_TEXT);
    th_jinja_string *string = th_jinja_take_memory(p, sizeof *string);
    if (string == NULL)
        return NULL;
    *string = (th_jinja_string){.bytes = p->token.bytes, .count = p->token.count};
    node->value = (th_jinja_value){.kind = TH_JINJA_STRING, .string = string};
    th_jinja_advance(p);
    return node;
}

static th_jinja_node *parse_output(th_jinja_parser *p)
{
    th_jinja_node *node = th_jinja_make(p, TH_JINJA_OUTPUT);
    th_jinja_advance(p);
    node->first = th_jinja_parse_tuple(p, false);
    if (p->token.kind == TH_JINJA_VARIABLE_END)
        th_jinja_advance(p);
    else
        th_jinja_refuse(p, "the expression should end before '%.*s'", (int)th_smaller((int64_t)p->token.count, 60),
                        p->token.bytes);
    return node;
}

/* Whether a block begins with one of the words. */
static bool at_end(const th_jinja_parser *p, const char *const ends[])
{
    for (size_t i = 0; ends[i]; i++)
        if (p->token.kind == TH_JINJA_BLOCK_BEGIN && p->ahead.kind == TH_JINJA_WORD && has_text(&p->ahead, ends[i]))
            return true;
    return false;
}

/* Reads statements up to one of the words; the tag's "{%" is read. No words: up to the end of the text. */
static th_jinja_node *parse_body(th_jinja_parser *p, const char *const ends[])
{
    th_jinja_node *first = NULL, **link = &first;
    if (!th_jinja_enter(p))
        return NULL;
    while (!p->failed && !at_end(p, ends)) {
        th_jinja_node *node = NULL;
        if (p->token.kind == TH_JINJA_END_OF_TEXT && ends[0])
            th_jinja_refuse(p, "the template ends where '%s' is expected", ends[0]);
        if (p->token.kind == TH_JINJA_END_OF_TEXT)
            break;
        if (p->token.kind == TH_JINJA_DATA)
            node = parse_text(p);
        else if (p->token.kind == TH_JINJA_VARIABLE_BEGIN)
            node = parse_output(p);
        else {
            th_jinja_advance(p);
            node = parse_statement(p);
        }
        if (node) {
            *link = node;
            link = &node->next;
        }
    }
    if (ends[0])
        th_jinja_advance(p); /* "{%" */
    p->depth--;
    return first;
}

/* -- programs -- */

static char *copy_name(th_jinja *program, const char *name)
{
    char *copy = th_jinja_allocate(&program->arena, strlen(name) + 1);
    return copy ? strcpy(copy, name) : NULL;
}

/* Copies a text with "\n" as newlines, without the last one. Returns false if out of memory. */
static bool copy_text(th_jinja *program, const char *text, size_t bytes)
{
    char *copy = th_jinja_allocate(&program->arena, bytes + 1);
    if (copy == NULL)
        return false;
    program->text = copy;
    for (size_t i = 0; i < bytes; i++) {
        const bool pair = text[i] == '\r' && i + 1 < bytes && text[i + 1] == '\n';
        if (!pair)
            copy[program->bytes++] = text[i] == '\r' ? '\n' : text[i];
    }
    if (program->bytes > 0 && copy[program->bytes - 1] == '\n')
        program->bytes--;
    return true;
}

static bool parse_program(th_context *ctx, const char *operation, const char *name, th_jinja *program)
{
    th_jinja_parser p = {.program = program, .lexer = {.text = program->text, .bytes = program->bytes}};
    p.lexer.line_starts = true;
    program->loop = th_jinja_intern(&p, "loop", 4);
    program->caller = th_jinja_intern(&p, "caller", 6);
    p.ahead = th_jinja_next(&p.lexer);
    th_jinja_advance(&p);
    program->body = parse_body(&p, (const char *const[]){NULL});
    if (!p.failed)
        return true;
    size_t line, column;
    th_jinja_find_place(program->text, p.place, &line, &column);
    if (p.out_of_memory && program->arena.used + MAX_PROGRAM < PROGRAM_MEMORY)
        th_fail_memory(ctx, operation, program->arena.used);
    else
        th_fail(ctx, TH_ERROR_FILE, operation, "%.200s, line %zu, column %zu: %s", name, line, column, p.problem);
    return false;
}

th_jinja *th_jinja_parse(th_context *ctx, const char *operation, const char *name, const char *text, size_t bytes)
{
    th_jinja_arena arena = {.ctx = ctx, .limit = PROGRAM_MEMORY};
    if (bytes > MAX_PROGRAM) {
        th_fail(ctx, TH_ERROR_FILE, operation, "%.200s has %zu bytes; a template may have %d", name, bytes,
                (int)MAX_PROGRAM);
        return NULL;
    }
    th_jinja *program = th_jinja_allocate(&arena, sizeof *program);
    if (program == NULL) {
        th_fail_memory(ctx, operation, sizeof *program);
        return NULL;
    }
    program->arena = arena;
    if ((program->name = copy_name(program, name)) == NULL || !copy_text(program, text, bytes))
        th_fail_memory(ctx, operation, bytes);
    else if (parse_program(ctx, operation, name, program))
        return program;
    th_jinja_free(program);
    return NULL;
}

void th_jinja_free(th_jinja *program)
{
    if (program == NULL)
        return;
    th_jinja_arena arena = program->arena; /* which has the program itself */
    th_jinja_arena_free(&arena);
}

bool th_jinja_marks_answers(const th_jinja *program)
{
    return program->marks;
}
