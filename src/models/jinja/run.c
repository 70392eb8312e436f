/* Executes the statements of a Jinja program. */
#include "models/jinja/run.h"

#include <string.h>

#include "models/text/grow.h"

/* -- variables -- */

void th_jinja_set(th_jinja_run *run, const th_jinja_string *name, th_jinja_value value)
{
    for (th_jinja_variable *v = run->scope->variable; v; v = v->next)
        if (v->name == name) {
            v->value = value;
            return;
        }
    th_jinja_variable *variable = th_jinja_new(run, sizeof *variable);
    if (variable == NULL)
        return;
    *variable = (th_jinja_variable){name, value, run->scope->variable};
    run->scope->variable = variable;
}

th_jinja_value th_jinja_get(th_jinja_run *run, const th_jinja_string *name)
{
    for (const th_jinja_scope *scope = run->scope; scope; scope = scope->outer)
        for (const th_jinja_variable *v = scope->variable; v; v = v->next)
            if (v->name == name)
                return v->value;
    const th_jinja_value *given =
        th_jinja_find(run, run->variables, (th_jinja_value){.kind = TH_JINJA_STRING, .string = name});
    if (given)
        return *given;
    const th_jinja_function *function = th_jinja_find_function(name);
    return function ? (th_jinja_value){.kind = TH_JINJA_FUNCTION, .function = function}
                    : (th_jinja_value){.kind = TH_JINJA_UNDEFINED, .string = name};
}

/* Begins a scope. Returns false with an error. */
static bool open_scope(th_jinja_run *run, th_jinja_scope *outer)
{
    th_jinja_scope *scope = th_jinja_new(run, sizeof *scope);
    if (scope == NULL)
        return false;
    scope->outer = outer;
    run->scope = scope;
    return true;
}

static void assign_attribute(th_jinja_run *run, const th_jinja_node *target, th_jinja_value value)
{
    const th_jinja_value object = th_jinja_get(run, target->first->name);
    if (object.kind != TH_JINJA_NAMESPACE)
        th_jinja_fail(run, "an attribute can be assigned to a namespace only; %.*s is a %s",
                      (int)th_smaller((int64_t)target->first->name->count, 60), target->first->name->bytes,
                      th_jinja_type(object));
    else if (target->name->bytes[0] == '_')
        th_jinja_fail(run, "an attribute of a namespace cannot begin with an underscore");
    else
        th_jinja_put(run, object.dict, (th_jinja_value){.kind = TH_JINJA_STRING, .string = target->name}, value);
}

static void assign(th_jinja_run *run, const th_jinja_node *target, th_jinja_value value)
{
    if (target->kind == TH_JINJA_NAME) {
        th_jinja_set(run, target->name, value);
        return;
    }
    if (target->kind == TH_JINJA_ATTRIBUTE) {
        assign_attribute(run, target, value);
        return;
    }
    const th_jinja_value items = th_jinja_items(run, value);
    size_t wanted = 0;
    for (const th_jinja_node *t = target->first; t; t = t->next)
        wanted++;
    if (!run->failed && items.list->count != wanted)
        th_jinja_fail(run, "%zu values cannot be assigned to %zu names", items.list->count, wanted);
    size_t i = 0;
    for (const th_jinja_node *t = target->first; t && !run->failed; t = t->next)
        assign(run, t, items.list->item[i++]);
}

/* -- blocks -- */

/* Executes a body in a scope of its own. */
static void execute_scoped(th_jinja_run *run, const th_jinja_node *body)
{
    th_jinja_scope *outer = run->scope;
    if (open_scope(run, outer))
        th_jinja_execute(run, body);
    run->scope = outer;
}

/* Returns the text of a body. */
static th_jinja_value text_of(th_jinja_run *run, const th_jinja_node *body)
{
    const size_t begin = th_jinja_capture(run);
    execute_scoped(run, body);
    return th_jinja_captured(run, begin);
}

static void execute_if(th_jinja_run *run, const th_jinja_node *node)
{
    const bool chosen = th_jinja_truth(th_jinja_evaluate(run, node->first));
    if (!run->failed)
        th_jinja_execute(run, chosen ? node->second : node->third);
}

/* Keeps the items for which the loop's condition is true. */
static th_jinja_value chosen_items(th_jinja_run *run, const th_jinja_node *node, th_jinja_value items)
{
    th_jinja_scope *outer = run->scope;
    const th_jinja_value chosen = th_jinja_list_of(run, TH_JINJA_LIST, 0);
    for (size_t i = 0; !run->failed && i < items.list->count && open_scope(run, outer); i++) {
        assign(run, node->first, items.list->item[i]);
        if (th_jinja_truth(th_jinja_evaluate(run, node->third)))
            th_jinja_push(run, chosen, items.list->item[i]);
    }
    run->scope = outer;
    return chosen;
}

static void execute_for(th_jinja_run *run, const th_jinja_node *node)
{
    th_jinja_scope *outer = run->scope;
    const th_jinja_value iterable = th_jinja_evaluate(run, node->second);
    th_jinja_value items = th_jinja_items(run, iterable);
    if (!run->failed && node->third)
        items = chosen_items(run, node, items);
    th_jinja_loop *loop = th_jinja_new(run, sizeof *loop);
    if (loop == NULL)
        return;
    *loop = (th_jinja_loop){.items = items.list};
    bool finished = false;
    for (size_t count = loop->items->count; loop->index < count && !run->failed && open_scope(run, outer);
         loop->index++) {
        th_jinja_set(run, run->program->loop, (th_jinja_value){.kind = TH_JINJA_LOOP, .loop = loop});
        assign(run, node->first, loop->items->item[loop->index]);
        th_jinja_execute(run, node->body);
        finished |= run->signal == TH_JINJA_GOES_ON;
        const bool breaks = run->signal == TH_JINJA_BREAKS;
        run->signal = TH_JINJA_GOES_ON;
        if (breaks)
            break;
    }
    run->scope = outer;
    if (!finished && !run->failed && node->other)
        execute_scoped(run, node->other);
}

static void execute_set_block(th_jinja_run *run, const th_jinja_node *node)
{
    th_jinja_value text = text_of(run, node->body);
    if (node->second && !run->failed)
        text = th_jinja_apply_filters(run, node->second, text);
    if (!run->failed)
        assign(run, node->first, text);
}

static void execute_with(th_jinja_run *run, const th_jinja_node *node)
{
    th_jinja_scope *outer = run->scope;
    if (open_scope(run, outer)) {
        th_jinja_scope *inner = run->scope;
        for (const th_jinja_node *v = node->first; v && !run->failed; v = v->next) {
            run->scope = outer;
            const th_jinja_value value = th_jinja_evaluate(run, v->first);
            run->scope = inner;
            th_jinja_set(run, v->name, value);
        }
        th_jinja_execute(run, node->body);
    }
    run->scope = outer;
}

static void execute_generation(th_jinja_run *run, const th_jinja_node *node)
{
    th_jinja_result *result = run->result;
    const size_t begin = run->captures ? run->base : result->text.count, from = result->text.count;
    execute_scoped(run, node->body);
    if (run->failed)
        return;
    if (!TH_GROW(result->span, result->capacity, result->spans + 1)) {
        th_jinja_fail(run, "memory ran out");
        run->status = TH_ERROR_MEMORY;
        return;
    }
    result->span[result->spans++] = (th_jinja_span){begin, begin + result->text.count - from};
}

/* -- macros -- */

static th_jinja_value make_macro(th_jinja_run *run, const th_jinja_string *name, const th_jinja_node *parameters,
                                 const th_jinja_node *body)
{
    th_jinja_macro *macro = th_jinja_new(run, sizeof *macro);
    if (macro == NULL)
        return th_jinja_undefined();
    *macro = (th_jinja_macro){name, parameters, body, run->scope};
    return (th_jinja_value){.kind = TH_JINJA_MACRO, .macro = macro};
}

/* Sets the macro's parameters in the scope. Named arguments that it does not have go to kwargs, if it reads them. */
static void set_parameters(th_jinja_run *run, const th_jinja_macro *macro, const th_jinja_arguments *given)
{
    size_t i = 0, used = 0;
    const char *name = macro->name ? macro->name->bytes : "caller";
    const int count = macro->name ? (int)th_smaller((int64_t)macro->name->count, 60) : 6;
    for (const th_jinja_node *p = macro->parameters; p && !run->failed; p = p->next, i++) {
        const th_jinja_value key = {.kind = TH_JINJA_STRING, .string = p->name};
        const th_jinja_value *named = th_jinja_find(run, &given->named, key);
        if (named && i < given->count)
            th_jinja_fail(run, "the macro %.*s has two values for %.*s", count, name,
                          (int)th_smaller((int64_t)p->name->count, 60), p->name->bytes);
        used += named != NULL;
        if (i < given->count)
            th_jinja_set(run, p->name, given->value[i]);
        else if (named)
            th_jinja_set(run, p->name, *named);
        else
            th_jinja_set(run, p->name,
                         p->first ? th_jinja_evaluate(run, p->first)
                                  : (th_jinja_value){.kind = TH_JINJA_UNDEFINED, .string = p->name});
    }
    const th_jinja_value *caller = th_jinja_find_name(run, &given->named, "caller");
    if (caller) {
        th_jinja_set(run, run->program->caller, *caller);
        used++;
    }
    if (given->count > i || given->named.count > used)
        th_jinja_fail(run, "the macro %.*s has %zu parameters; it is called with others (%zu and %zu named ones)",
                      count, name, i, given->count, given->named.count);
}

th_jinja_value th_jinja_call_macro(th_jinja_run *run, const th_jinja_macro *macro, const th_jinja_arguments *given)
{
    th_jinja_scope *outer = run->scope;
    if (!th_jinja_deepen(run) || !open_scope(run, macro->scope)) {
        run->depth--;
        return th_jinja_undefined();
    }
    set_parameters(run, macro, given);
    const size_t begin = th_jinja_capture(run);
    th_jinja_execute(run, macro->body);
    const th_jinja_value text = th_jinja_captured(run, begin);
    run->scope = outer;
    run->depth--;
    return text;
}

static void execute_call_block(th_jinja_run *run, const th_jinja_node *node)
{
    th_jinja_arguments given;
    const th_jinja_value function = th_jinja_evaluate(run, node->first->first);
    const th_jinja_value caller = make_macro(run, NULL, node->second, node->body);
    if (run->failed || !th_jinja_evaluate_arguments(run, node->first->second, &given))
        return;
    th_jinja_put(run, &given.named, th_jinja_literal(run, "caller"), caller);
    th_jinja_write_value(run, th_jinja_call(run, function, &given));
}

/* -- statements -- */

static void execute_one(th_jinja_run *run, const th_jinja_node *node)
{
    switch (node->kind) {
    case TH_JINJA_TEXT:
        th_jinja_write(run, node->value.string->bytes, node->value.string->count);
        break;
    case TH_JINJA_OUTPUT:
        th_jinja_write_value(run, th_jinja_evaluate(run, node->first));
        break;
    case TH_JINJA_IF:
        execute_if(run, node);
        break;
    case TH_JINJA_FOR:
        execute_for(run, node);
        break;
    case TH_JINJA_SET: {
        const th_jinja_value value = th_jinja_evaluate(run, node->second);
        if (!run->failed)
            assign(run, node->first, value);
        break;
    }
    case TH_JINJA_SET_BLOCK:
        execute_set_block(run, node);
        break;
    case TH_JINJA_MACRO_OF:
        th_jinja_set(run, node->name, make_macro(run, node->name, node->first, node->body));
        break;
    case TH_JINJA_CALL_BLOCK:
        execute_call_block(run, node);
        break;
    case TH_JINJA_FILTERED: {
        const th_jinja_value text = text_of(run, node->body);
        if (!run->failed)
            th_jinja_write_value(run, th_jinja_apply_filters(run, node->first, text));
        break;
    }
    case TH_JINJA_WITH:
        execute_with(run, node);
        break;
    case TH_JINJA_BREAK:
        run->signal = TH_JINJA_BREAKS;
        break;
    case TH_JINJA_CONTINUE:
        run->signal = TH_JINJA_CONTINUES;
        break;
    default: /* a generation block */
        execute_generation(run, node);
    }
}

void th_jinja_execute(th_jinja_run *run, const th_jinja_node *first)
{
    if (th_jinja_deepen(run))
        for (const th_jinja_node *node = first; node && run->signal == TH_JINJA_GOES_ON; node = node->next) {
            if (!th_jinja_step(run, 1))
                break;
            run->at = node;
            execute_one(run, node);
        }
    run->depth--;
}

/* -- programs -- */

void th_jinja_result_free(th_jinja_result *result)
{
    th_text_free(&result->text);
    free(result->span);
    *result = (th_jinja_result){0};
}

static th_status report(const th_jinja_run *run, const char *operation)
{
    size_t line = 1, column = 1;
    const th_jinja *program = run->program;
    th_jinja_find_place(program->text, run->at ? run->at->place : 0, &line, &column);
    return th_fail(program->arena.ctx, run->status, operation, "%.200s, line %zu, column %zu: %s", program->name, line,
                   column, run->problem);
}

th_status th_jinja_render(const th_jinja *program, const char *operation, const json_t *variables, time_t now,
                          const th_jinja_limits *limits, th_jinja_result *result)
{
    enum { STEPS = 100 << 20, MEMORY = 512 << 20, OUTPUT = 256 << 20 };
    const th_jinja_limits most = limits ? *limits : (th_jinja_limits){0};
    th_jinja_run run = {.program = program,
                        .arena = {.ctx = program->arena.ctx, .limit = most.memory ? most.memory : MEMORY},
                        .result = result,
                        .most_steps = most.steps ? most.steps : STEPS,
                        .most_output = most.output ? most.output : OUTPUT,
                        .now = now};
    if (!th_jinja_append(&result->text, "", 0))
        return th_fail_memory(program->arena.ctx, operation, 1);
    const th_jinja_value given = th_jinja_from_json(&run, variables);
    run.variables = given.dict;
    if (!run.failed && open_scope(&run, NULL))
        th_jinja_execute(&run, program->body);
    const th_status status = run.failed ? report(&run, operation) : TH_OK;
    th_jinja_arena_free(&run.arena);
    return status;
}
