/* Runs statements and functions (language.h). */
#include <stdio.h>
#include <string.h>

#include "../marker/marker.h"
#include "language.h"

enum { MOST_CALLS = 64 };

typedef enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE, FLOW_RETURN } flow;

static flow execute(interpreter *in, const node *n);

void count_step(interpreter *in, int line)
{
    if (++in->steps > in->most_steps)
        end_guarded(ENDLESS, CAUSE_ENDLESS, "%s, line %d: your code did not finish within %lld passes of loops",
                    base_name_of(in->file), line, (long long)in->most_steps);
}

/* Reserves memory without values on the stack. */
static int64_t reserve(interpreter *in, int64_t bytes, int line)
{
    const int64_t begin = (in->top + 15) / 16 * 16;
    if (bytes < 0 || bytes > STACK - begin)
        end_guarded(STOPPED, "the variables and arrays of all running functions have 1 MiB: use smaller arrays",
                    "%s, line %d: the memory for variables does not suffice", base_name_of(in->file), line);
    in->top = begin + bytes;
    memset(in->written + begin, 0, (size_t)bytes);
    return begin;
}

/* -- declarations -- */

/* Sets elements to the values of the list, and the others to 0. */
static void set_elements(interpreter *in, const node *n, pointer p)
{
    for (int64_t i = 0; i < p.high; i++) {
        const bool listed = n->dimensions + i < n->count;
        p.index = i;
        store(p.base, element_of(in, &p, n->line, n->text, false),
              listed ? evaluate(in, n->list[n->dimensions + i]) : (number){0});
        note_written(&p);
    }
}

static void declare_array(interpreter *in, const node *n)
{
    pointer p = {.base = n->type.base, .what = n->text, .high = 1};
    for (int i = 0; i < n->dimensions; i++) {
        const int64_t size = evaluate(in, n->list[i]).i;
        if (size <= 0 || size > STACK)
            end_guarded(STOPPED,
                        "an array must have at least one element, and fit into 1 MiB: with N = 0 a declaration "
                        "double a[N] is wrong",
                        "%s, line %d: the array %s would have %lld elements", base_name_of(in->file), n->line, n->text,
                        (long long)size);
        p.high = p.high * size <= STACK ? p.high * size : STACK + 1;
        for (int k = 0; k < i; k++)
            p.inner[k] = (k == i - 1 ? 1 : p.inner[k]) * size;
    }
    const int64_t begin = reserve(in, p.high * element_size(p.base), n->line);
    p.data = in->stack + begin;
    p.written = in->written + begin;
    p.memory_high = p.high;
    memcpy(in->stack + in->frame + n->slot, &p, sizeof p);
    in->written[in->frame + n->slot] = 1;
    if (n->count > n->dimensions)
        set_elements(in, n, p);
}

static void declare(interpreter *in, const node *n)
{
    const int64_t at = in->frame + n->slot;
    if (n->type.array) {
        declare_array(in, n);
        return;
    }
    in->written[at] = 0;
    if (n->a && n->type.level) {
        const pointer p = point_to(in, n->a);
        memcpy(in->stack + at, &p, sizeof p);
    } else if (n->a) {
        store(n->type.base, in->stack + at, evaluate(in, n->a));
    }
    in->written[at] = n->a != NULL;
}

/* -- statements -- */

static bool holds(interpreter *in, const node *n)
{
    const number value = evaluate(in, n);
    return n->type.base >= BASE_FLOAT ? value.d != 0 : value.i != 0;
}

static flow execute_loop(interpreter *in, const node *n)
{
    const int64_t top = in->top;
    if (n->a)
        execute(in, n->a);
    for (bool first = n->after; first || n->b == NULL || holds(in, n->b); first = false) {
        count_step(in, n->line);
        const flow f = execute(in, n->body);
        if (f == FLOW_RETURN)
            return f;
        if (f == FLOW_BREAK)
            break;
        if (n->c)
            evaluate(in, n->c);
    }
    in->top = top;
    return FLOW_NEXT;
}

static flow execute_block(interpreter *in, const node *n)
{
    const int64_t top = in->top;
    flow f = FLOW_NEXT;
    for (int i = 0; i < n->count && f == FLOW_NEXT; i++)
        f = execute(in, n->list[i]);
    if (!n->after) /* a declaration: its arrays live as long as the block around it */
        in->top = top;
    return f;
}

static flow execute_return(interpreter *in, const node *n)
{
    if (n->a)
        in->result = evaluate(in, n->a);
    in->has_result = n->a != NULL;
    return FLOW_RETURN;
}

static flow execute(interpreter *in, const node *n)
{
    switch (n->kind) {
    case NODE_BLOCK:
        return execute_block(in, n);
    case NODE_DECLARE:
        declare(in, n);
        return FLOW_NEXT;
    case NODE_IF:
        if (holds(in, n->a))
            return execute(in, n->b);
        return n->c ? execute(in, n->c) : FLOW_NEXT;
    case NODE_LOOP:
        return execute_loop(in, n);
    case NODE_BREAK:
        return FLOW_BREAK;
    case NODE_CONTINUE:
        return FLOW_CONTINUE;
    case NODE_RETURN:
        return execute_return(in, n);
    case NODE_EMPTY:
        return FLOW_NEXT;
    default:
        evaluate(in, n);
        return FLOW_NEXT;
    }
}

/* -- functions -- */

/* Runs a function. `argument`: the pointer that is its only argument, if `call` is NULL. */
number call_function(interpreter *in, const function *f, const node *call, const pointer *argument)
{
    number value[MAX_PARAMETERS] = {{0}};
    pointer points[MAX_PARAMETERS];
    for (int i = 0; i < f->count; i++)
        if (call == NULL)
            points[i] = *argument;
        else if (f->parameter[i].level)
            points[i] = point_to(in, call->list[i]);
        else
            value[i] = evaluate(in, call->list[i]);
    const int line = call ? call->line : f->line;
    if (++in->calls > MOST_CALLS)
        end_guarded(STOPPED, "a function calls itself without end", "%s, line %d: %d functions are running",
                    base_name_of(in->file), line, MOST_CALLS);
    count_step(in, line);
    const int64_t frame = in->frame, top = in->top;
    in->frame = reserve(in, f->frame, line);
    for (int i = 0; i < f->count; i++) {
        char *slot = in->stack + in->frame + f->slot[i];
        if (f->parameter[i].level)
            memcpy(slot, &points[i], sizeof points[i]);
        else
            store(f->parameter[i].base, slot, value[i]);
        in->written[in->frame + f->slot[i]] = 1;
    }
    in->has_result = false;
    execute(in, f->body);
    if (f->result.base != BASE_VOID && !in->has_result)
        end_guarded(STOPPED, "every path through a function must end with return and its value",
                    "%s, line %d: %.*s ended without a value", base_name_of(in->file), line, f->length, f->name);
    in->frame = frame;
    in->top = top;
    in->calls--;
    return in->result;
}

/* Prints one value by its conversion, for example %8.3g. */
static int print_value(char *text, size_t size, const char *conversion, size_t length, number value)
{
    char format[32];
    size_t n = 0;
    const char kind = conversion[length - 1];
    for (size_t i = 0; i + 1 < length && n + 4 < sizeof format; i++)
        if (strchr("lzh", conversion[i]) == NULL)
            format[n++] = conversion[i];
    if (strchr("diux", kind)) {
        memcpy(format + n, "ll", 2);
        n += 2;
    }
    format[n++] = kind;
    format[n] = '\0';
    if (strchr("diux", kind))
        return snprintf(text, size, format, (long long)value.i);
    return snprintf(text, size, format, value.d);
}

number print_values(interpreter *in, const node *n)
{
    size_t used = strlen(in->printed);
    int next = 0;
    for (const char *s = n->text; *s && used + 1 < sizeof in->printed;) {
        const size_t length = *s == '%' ? strspn(s + 1, "-+ #0123456789.lzh") + 2 : 0;
        if (length == 0 || (length == 2 && s[1] == '%')) {
            in->printed[used++] = *s;
            s += length ? length : 1;
        } else {
            const int written =
                print_value(in->printed + used, sizeof in->printed - used, s, length, evaluate(in, n->list[next]));
            used += written > 0 ? (size_t)written : 0;
            next++;
            s += length;
        }
    }
    in->printed[used < sizeof in->printed ? used : sizeof in->printed - 1] = '\0';
    return (number){0};
}

void interpreter_begin(interpreter *in, int64_t steps)
{
    in->steps = 0;
    in->most_steps = steps;
    in->outside[0] = in->printed[0] = '\0';
    in->frame = in->top = 0;
    in->calls = 0;
}

void interpreter_run(interpreter *in, bool backward, const interpreter_call *call)
{
    const pointer c = {
        .data = (char *)(uintptr_t)call->call, .high = 1, .memory_high = 1, .base = BASE_CALL, .what = "c"};
    in->call = call;
    call_function(in, backward ? in->backward : in->forward, NULL, &c);
}
