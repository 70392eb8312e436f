/* Computes expressions (language.h). The parser has checked all types. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../marker/marker.h"
#include "language.h"

/* -- places -- */

/* Returns the pointer to a variable that is a number. */
static pointer variable_place(const interpreter *in, const node *n)
{
    const int64_t at = in->frame + n->slot;
    return (pointer){.data = in->stack + at,
                     .written = in->written + at,
                     .high = 1,
                     .memory_high = 1,
                     .base = n->type.base,
                     .what = n->text};
}

static void read_indices(interpreter *in, const node *n, int64_t *index)
{
    for (int i = 1; i < n->count; i++)
        index[i - 1] = evaluate(in, n->list[i]).i;
}

/* Returns the th_array that an expression points to. */
static const th_array *array_of(interpreter *in, const node *n)
{
    const pointer p = point_to(in, n);
    return (const th_array *)(const void *)element_of(in, &p, n->line, n->text, true);
}

static pointer element_place(interpreter *in, const node *n)
{
    int64_t index[TH_MAX_DIMS];
    const th_array *a = array_of(in, n->list[0]);
    read_indices(in, n, index);
    const double *element = exercise_at(in->file, n->line, n->text, a, n->count - 1, index);
    pointer p = array_data(in, a, n->line);
    p.index = element - (const double *)a->data;
    return p;
}

/* Returns the pointer to what an expression names. */
static pointer place_of(interpreter *in, const node *n)
{
    if (n->kind == NODE_VARIABLE)
        return variable_place(in, n);
    if (n->kind == NODE_ELEMENT)
        return element_place(in, n);
    pointer p = point_to(in, n->a);
    p.index += evaluate(in, n->b).i;
    return p;
}

/* -- numbers -- */

static number arithmetic(const interpreter *in, const node *n, int op, base b, number x, number y)
{
    number result;
    if (b == BASE_DOUBLE) {
        result.d = op == '+' ? x.d + y.d : op == '-' ? x.d - y.d : op == '*' ? x.d * y.d : x.d / y.d;
        return result;
    }
    if (b == BASE_FLOAT) {
        const float u = (float)x.d, v = (float)y.d;
        result.d = (double)(op == '+' ? u + v : op == '-' ? u - v : op == '*' ? u * v : u / v);
        return result;
    }
    const uint64_t u = (uint64_t)x.i, v = (uint64_t)y.i;
    if (op == '/' || op == '%') {
        const int64_t smallest = b == BASE_INT ? INT32_MIN : INT64_MIN;
        if (y.i == 0 || (b != BASE_SIZE && y.i == -1 && x.i == smallest))
            end_guarded(STOPPED, CAUSE_DIVISION,
                        "your code stopped with an arithmetic error: %s, line %d: an integer is divided by %d",
                        base_name_of(in->file), n->line, y.i == 0 ? 0 : -1);
        if (b == BASE_SIZE)
            result.i = (int64_t)(op == '/' ? u / v : u % v);
        else
            result.i = op == '/' ? x.i / y.i : x.i % y.i;
        return result;
    }
    result.i = (int64_t)(op == '+' ? u + v : op == '-' ? u - v : u * v);
    if (b == BASE_INT)
        result.i = (int32_t)(uint32_t)(uint64_t)result.i;
    return result;
}

static bool compare(int op, base b, number x, number y)
{
    const bool real = b >= BASE_FLOAT, wide = b == BASE_SIZE;
    const bool less = real ? x.d < y.d : wide ? (uint64_t)x.i < (uint64_t)y.i : x.i < y.i;
    const bool same = real ? x.d == y.d : x.i == y.i;
    const bool more = real ? x.d > y.d : !less && !same;
    switch (op) {
    case '<':
        return less;
    case '>':
        return more;
    case 'l':
        return less || same;
    case 'g':
        return more || same;
    case '=':
        return same;
    default:
        return !same;
    }
}

static bool truth(interpreter *in, const node *n)
{
    const number value = evaluate(in, n);
    return n->type.base >= BASE_FLOAT ? value.d != 0 : value.i != 0;
}

static number of_integer(int64_t i)
{
    return (number){.i = i};
}

/* As gcc, it computes the right side first. */
static number assign(interpreter *in, const node *n)
{
    number value = evaluate(in, n->b);
    const pointer p = place_of(in, n->a);
    if (n->op) {
        const base b = n->operation, stored = n->a->type.base;
        const number before = load(p.base, element_of(in, &p, n->line, n->a->text, true));
        value = change_type(arithmetic(in, n, n->op, b, change_type(before, stored, b), value), b, stored);
    }
    store(p.base, element_of(in, &p, n->line, n->a->text, false), value);
    note_written(&p);
    return value;
}

static number increment(interpreter *in, const node *n)
{
    const pointer p = place_of(in, n->a);
    const base b = n->type.base, common = common_base(b, BASE_INT);
    char *data = element_of(in, &p, n->line, n->a->text, true);
    const number before = load(b, data);
    const number one = common >= BASE_FLOAT ? (number){.d = 1} : of_integer(1);
    const number value = change_type(arithmetic(in, n, n->op, common, change_type(before, b, common), one), common, b);
    store(b, data, value);
    return n->after ? before : value;
}

static number read_place(interpreter *in, const node *n)
{
    const pointer p = place_of(in, n);
    return load(p.base, element_of(in, &p, n->line, n->text, true));
}

static number read_element(interpreter *in, const node *n)
{
    int64_t index[TH_MAX_DIMS];
    const th_array *a = array_of(in, n->list[0]);
    read_indices(in, n, index);
    if (n->op == BASE_LONG)
        return of_integer(exercise_integer_at(in->file, n->line, n->text, a, n->count - 1, index));
    if (n->op == BASE_BOOL)
        return of_integer(exercise_bool_at(in->file, n->line, n->text, a, n->count - 1, index));
    return (number){.d = *exercise_at(in->file, n->line, n->text, a, n->count - 1, index)};
}

static number member_value(interpreter *in, const node *n)
{
    if (n->member >= MEMBER_GIVEN) {
        const th_array *a = array_of(in, n->a);
        return of_integer(n->member == MEMBER_GIVEN ? a->given : a->ndim);
    }
    const th_call *c = in->call->call;
    return of_integer(n->member == MEMBER_N_INPUTS    ? c->n_inputs
                      : n->member == MEMBER_N_OUTPUTS ? c->n_outputs
                                                      : c->training);
}

static number call_math(interpreter *in, const node *n)
{
    const double x = evaluate(in, n->list[0]).d, y = n->count > 1 ? evaluate(in, n->list[1]).d : 0;
    const double result = n->count > 1 ? n->math->two(x, y) : n->math->one(x);
    return n->type.base == BASE_INT ? of_integer(result != 0) : (number){.d = result};
}

static number convert_value(interpreter *in, const node *n)
{
    const number value = evaluate(in, n->a);
    return n->type.base == BASE_VOID || n->operation == BASE_VOID ? value
                                                                  : change_type(value, n->operation, n->type.base);
}

static number negate(interpreter *in, const node *n)
{
    const number value = evaluate(in, n->a);
    if (n->type.base >= BASE_FLOAT)
        return (number){.d = -value.d};
    return arithmetic(in, n, '-', n->type.base, of_integer(0), value);
}

static number start_gradient_of(interpreter *in, const node *n)
{
    const int64_t input = evaluate(in, n->list[1]).i;
    if (input < 0 || input >= in->call->call->n_inputs || in->call->call->input_gradient == NULL)
        end_guarded(STOPPED, "", "%s, line %d: start_gradient: the call has no gradient of input %lld",
                    base_name_of(in->file), n->line, (long long)input);
    return of_integer(start_gradient(in->call->call, (int)input));
}

/* A pointer in a place of numbers, such as p = q; or p++; as a statement. */
static number evaluate_pointer(interpreter *in, const node *n)
{
    point_to(in, n);
    return of_integer(0);
}

number evaluate(interpreter *in, const node *n)
{
    if (n->type.level)
        return evaluate_pointer(in, n);
    switch (n->kind) {
    case NODE_NUMBER:
        return n->value;
    case NODE_VARIABLE:
    case NODE_INDEX:
        return read_place(in, n);
    case NODE_ELEMENT:
        return read_element(in, n);
    case NODE_MEMBER:
        return member_value(in, n);
    case NODE_NEGATE:
        return negate(in, n);
    case NODE_NOT:
        return of_integer(!truth(in, n->a));
    case NODE_ARITHMETIC: {
        const number x = evaluate(in, n->a);
        return arithmetic(in, n, n->op, n->type.base, x, evaluate(in, n->b));
    }
    case NODE_COMPARE: {
        const number x = evaluate(in, n->a);
        return of_integer(compare(n->op, n->operation, x, evaluate(in, n->b)));
    }
    case NODE_AND:
        return of_integer(truth(in, n->a) && truth(in, n->b));
    case NODE_OR:
        return of_integer(truth(in, n->a) || truth(in, n->b));
    case NODE_CHOICE:
        return truth(in, n->a) ? evaluate(in, n->b) : evaluate(in, n->c);
    case NODE_COMMA:
        evaluate(in, n->a);
        return evaluate(in, n->b);
    case NODE_ASSIGN:
        return assign(in, n);
    case NODE_INCREMENT:
        return increment(in, n);
    case NODE_CONVERT:
        return convert_value(in, n);
    case NODE_MATH:
        return call_math(in, n);
    case NODE_CALL:
        return call_function(in, n->called, n, NULL);
    case NODE_START_GRADIENT:
        return start_gradient_of(in, n);
    case NODE_NOT_YET:
        exercise_not_yet(in->file, n->line);
        return of_integer(0);
    case NODE_PRINT:
        return print_values(in, n);
    default:
        return of_integer(0);
    }
}

/* -- pointers -- */

static pointer struct_member(interpreter *in, const node *n)
{
    if (n->member >= MEMBER_GIVEN) {
        const th_array *a = array_of(in, n->a);
        if (n->member == MEMBER_DATA && a->data == NULL) /* an error only where it is read */
            return (pointer){.base = BASE_DOUBLE,
                             .what = a->given ? "an array that was not saved" : "an array that is not given"};
        if (n->member == MEMBER_DATA)
            return array_data(in, a, n->line);
        return (pointer){.data = (char *)(uintptr_t)(n->member == MEMBER_SIZE ? a->size : a->stride),
                         .high = a->ndim,
                         .memory_high = TH_MAX_DIMS,
                         .base = BASE_LONG,
                         .what = n->member == MEMBER_SIZE ? "size" : "stride"};
    }
    const th_call *c = in->call->call;
    const bool output = n->member == MEMBER_OUTPUT || n->member == MEMBER_OUTPUT_GRADIENT;
    void *const data[] = {c->input, c->output, c->input_gradient, c->output_gradient, c->add};
    const int64_t high = data[n->member] == NULL ? 0 : output ? c->n_outputs : c->n_inputs;
    return (pointer){.data = data[n->member], .high = high, .memory_high = high, .base = n->type.base, .what = n->text};
}

/* Returns a[b] of an array of arrays: a row. */
static pointer row_of(interpreter *in, const node *n)
{
    const pointer whole = point_to(in, n->a);
    const int64_t index = evaluate(in, n->b).i, length = whole.inner[0];
    pointer row = whole;
    row.index = whole.index + index * length;
    if (row.index < whole.low || row.index + length > whole.high)
        end_guarded(STOPPED, CAUSE_LOCAL_INDEX, "%s, line %d: the index of %s is %lld, but %s has the rows 0 to %lld",
                    base_name_of(in->file), n->line, n->text, (long long)index, whole.what,
                    (long long)((whole.high - whole.low) / (length > 0 ? length : 1)) - 1);
    row.low = row.memory_low = row.index;
    row.high = row.memory_high = row.index + length;
    row.inner[0] = whole.inner[1];
    row.inner[1] = 0;
    return row;
}

static void store_pointer(interpreter *in, const node *to, const pointer *p)
{
    memcpy(in->stack + in->frame + to->slot, p, sizeof *p);
    in->written[in->frame + to->slot] = 1;
}

static pointer read_pointer(interpreter *in, const node *n)
{
    pointer p;
    if (!in->written[in->frame + n->slot])
        end_guarded(WRONG, CAUSE_NO_VALUE, "%s, line %d: %s is read before it has a value", base_name_of(in->file),
                    n->line, n->text);
    memcpy(&p, in->stack + in->frame + n->slot, sizeof p);
    return p;
}

static pointer convert_pointer(interpreter *in, const node *n)
{
    const pointer p = point_to(in, n->a);
    if (n->type.base != BASE_VOID && n->type.base != p.base && p.data)
        end_guarded(STOPPED, "a pointer must have the type of the elements: double, int64_t for integers, bool",
                    "%s, line %d: these elements are %s, not %s", base_name_of(in->file), n->line,
                    type_text(number_type(p.base)), type_text(number_type(n->type.base)));
    return p;
}

/* p = q, p += n, p++ */
static pointer assign_pointer(interpreter *in, const node *n)
{
    if (n->kind == NODE_ASSIGN && n->op == 0) {
        const pointer p = point_to(in, n->b);
        store_pointer(in, n->a, &p);
        return p;
    }
    const pointer before = read_pointer(in, n->a);
    const int64_t distance = n->kind == NODE_ASSIGN ? evaluate(in, n->b).i : 1;
    pointer p = before;
    p.index += n->op == '-' ? -distance : distance;
    store_pointer(in, n->a, &p);
    return n->kind == NODE_INCREMENT && n->after ? before : p;
}

pointer point_to(interpreter *in, const node *n)
{
    pointer p = {.data = NULL};
    switch (n->kind) {
    case NODE_VARIABLE:
        return read_pointer(in, n);
    case NODE_INDEX:
        return row_of(in, n);
    case NODE_MEMBER:
        return struct_member(in, n);
    case NODE_ADDRESS:
        return place_of(in, n->a);
    case NODE_MOVE:
        p = point_to(in, n->a);
        p.index += n->op == '-' ? -evaluate(in, n->b).i : evaluate(in, n->b).i;
        return p;
    case NODE_CHOICE:
        return truth(in, n->a) ? point_to(in, n->b) : point_to(in, n->c);
    case NODE_COMMA:
        evaluate(in, n->a);
        return point_to(in, n->b);
    case NODE_ASSIGN:
    case NODE_INCREMENT:
        return assign_pointer(in, n);
    case NODE_CONVERT:
        return convert_pointer(in, n);
    default:
        return p;
    }
}
