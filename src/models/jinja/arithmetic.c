/* Arithmetic with Python's rules, and membership. */
#include <math.h>
#include <string.h>

#include "models/core/files.h"
#include "models/core/kernels.h"
#include "models/jinja/value.h"

static th_jinja_value refuse(th_jinja_run *run, char op, th_jinja_value a, th_jinja_value b)
{
    const char *name = op == 'i' ? "//" : op == 'p' ? "**" : (const char[]){op, 0};
    const th_jinja_value undefined = a.kind == TH_JINJA_UNDEFINED ? a : b;
    if (undefined.kind == TH_JINJA_UNDEFINED && undefined.string)
        return th_jinja_fail(run, "'%.*s' is undefined", (int)th_smaller((int64_t)undefined.string->count, 60),
                             undefined.string->bytes);
    return th_jinja_fail(run, "%s cannot be applied to %s and %s", name, th_jinja_type(a), th_jinja_type(b));
}

/* -- integers -- */

/* Returns base ** exponent. */
static bool power(int64_t base, int64_t exponent, int64_t *result)
{
    *result = 1;
    if (base == 0 || base == 1 || base == -1) {
        *result = exponent == 0 || base == 1 ? 1 : base == 0 ? 0 : exponent % 2 ? -1 : 1;
        return true;
    }
    for (; exponent > 0; exponent--)
        if (__builtin_mul_overflow(*result, base, result))
            return false;
    return true;
}

static int64_t floor_divide(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static th_jinja_value integers(th_jinja_run *run, char op, int64_t a, int64_t b)
{
    int64_t result = 0;
    bool fits = true;
    if ((op == '/' || op == 'i' || op == '%') && b == 0)
        return th_jinja_fail(run, "a division by zero");
    switch (op) {
    case '+':
        fits = !__builtin_add_overflow(a, b, &result);
        break;
    case '-':
        fits = !__builtin_sub_overflow(a, b, &result);
        break;
    case '*':
        fits = !__builtin_mul_overflow(a, b, &result);
        break;
    case '/':
        return th_jinja_float((double)a / (double)b);
    case 'p':
        if (b < 0 && a != 0)
            return th_jinja_float(th_scalar_pow((double)a, (double)b));
        fits = b >= 0 && power(a, b, &result);
        break;
    default:
        fits = !(a == INT64_MIN && b == -1);
        if (fits)
            result = op == 'i' ? floor_divide(a, b) : a - floor_divide(a, b) * b;
    }
    return fits ? th_jinja_int(result) : th_jinja_fail(run, "an integer is too large");
}

static th_jinja_value reals(th_jinja_run *run, char op, double a, double b)
{
    if ((op == '/' || op == 'i' || op == '%') && b >= 0 && b <= 0)
        return th_jinja_fail(run, "a division by zero");
    double rest;
    switch (op) {
    case '+':
        return th_jinja_float(a + b);
    case '-':
        return th_jinja_float(a - b);
    case '*':
        return th_jinja_float(a * b);
    case '/':
        return th_jinja_float(a / b);
    case 'p':
        rest = th_scalar_pow(a, b);
        return rest == rest || a != a || b != b ? th_jinja_float(rest)
                                                : th_jinja_fail(run, "a complex number is not supported");
    default:
        rest = fmod(a, b);
        if (rest < 0 || rest > 0)
            rest += (rest < 0) != (b < 0) ? b : 0;
        else
            rest = copysign(0.0, b);
        return th_jinja_float(op == '%' ? rest : floor((a - rest) / b + 0.5));
    }
}

/* -- strings and lists -- */

/* escapes: as +, which escapes a string next to one that is safe. ~ does not. */
static th_jinja_value join_strings(th_jinja_run *run, th_jinja_value a, th_jinja_value b, bool escapes)
{
    const bool safe = escapes && (a.string->safe || b.string->safe);
    if (safe) {
        a = th_jinja_escape(run, a);
        b = th_jinja_escape(run, b);
    }
    char *bytes = run->failed ? NULL : th_jinja_new(run, a.string->count + b.string->count + 1);
    if (bytes == NULL || !th_jinja_step(run, (a.string->count + b.string->count) / 64))
        return th_jinja_undefined();
    memcpy(bytes, a.string->bytes, a.string->count);
    memcpy(bytes + a.string->count, b.string->bytes, b.string->count);
    th_jinja_string *joined = th_jinja_new(run, sizeof *joined);
    if (joined == NULL)
        return th_jinja_undefined();
    *joined = (th_jinja_string){bytes, a.string->count + b.string->count, safe};
    return (th_jinja_value){.kind = TH_JINJA_STRING, .string = joined};
}

static th_jinja_value join_lists(th_jinja_run *run, th_jinja_value a, th_jinja_value b)
{
    const th_jinja_value joined = th_jinja_list_of(run, a.kind, a.list->count + b.list->count);
    for (size_t i = 0; i < a.list->count && !run->failed; i++)
        th_jinja_push(run, joined, a.list->item[i]);
    for (size_t i = 0; i < b.list->count && !run->failed; i++)
        th_jinja_push(run, joined, b.list->item[i]);
    return joined;
}

static th_jinja_value repeat(th_jinja_run *run, th_jinja_value value, th_jinja_value times)
{
    const int64_t count = times.kind == TH_JINJA_INT ? times.integer : times.boolean;
    if (value.kind == TH_JINJA_STRING) {
        const size_t begin = th_jinja_capture(run);
        for (int64_t i = 0; i < count && value.string->count > 0 && !run->failed; i++)
            th_jinja_write(run, value.string->bytes, value.string->count);
        return th_jinja_captured(run, begin);
    }
    const th_jinja_value list = th_jinja_list_of(run, value.kind, 0);
    for (int64_t i = 0; i < count && value.list->count > 0 && !run->failed; i++)
        for (size_t k = 0; k < value.list->count && !run->failed; k++)
            th_jinja_push(run, list, value.list->item[k]);
    return list;
}

static bool is_integer(th_jinja_value value)
{
    return value.kind == TH_JINJA_INT || value.kind == TH_JINJA_BOOL;
}

static bool repeats(th_jinja_value value)
{
    return value.kind == TH_JINJA_STRING || th_jinja_is_sequence(value);
}

th_jinja_value th_jinja_arithmetic(th_jinja_run *run, char op, th_jinja_value a, th_jinja_value b)
{
    if (run->failed)
        return th_jinja_undefined();
    if (op == '~') {
        a = th_jinja_str(run, a);
        b = th_jinja_str(run, b);
        return run->failed ? a : join_strings(run, a, b, false);
    }
    if (is_integer(a) && is_integer(b))
        return integers(run, op, a.kind == TH_JINJA_INT ? a.integer : a.boolean,
                        b.kind == TH_JINJA_INT ? b.integer : b.boolean);
    if (th_jinja_is_number(a) && th_jinja_is_number(b))
        return reals(run, op, th_jinja_number(a), th_jinja_number(b));
    if (op == '+' && a.kind == TH_JINJA_STRING && b.kind == TH_JINJA_STRING)
        return join_strings(run, a, b, true);
    if (op == '+' && a.kind == b.kind && th_jinja_is_sequence(a))
        return join_lists(run, a, b);
    if (op == '*' && repeats(a) && is_integer(b))
        return repeat(run, a, b);
    if (op == '*' && is_integer(a) && repeats(b))
        return repeat(run, b, a);
    if (op == '%' && a.kind == TH_JINJA_STRING)
        return th_jinja_percent(run, a.string, b);
    return refuse(run, op, a, b);
}

bool th_jinja_contains(th_jinja_run *run, th_jinja_value container, th_jinja_value item)
{
    if (run->failed)
        return false;
    if (container.kind == TH_JINJA_STRING) {
        if (item.kind != TH_JINJA_STRING)
            return th_jinja_fail(run, "'in' needs a str in a str; it has a %s", th_jinja_type(item)), false;
        const th_jinja_string *text = container.string, *part = item.string;
        return th_jinja_step(run, text->count / 4) &&
               (part->count == 0 || memmem(text->bytes, text->count, part->bytes, part->count) != NULL);
    }
    if (container.kind == TH_JINJA_DICT)
        return th_jinja_find(run, container.dict, item) != NULL;
    const th_jinja_value items = th_jinja_items(run, container);
    for (size_t i = 0; !run->failed && i < items.list->count; i++)
        if (th_jinja_equal(run, items.list->item[i], item))
            return true;
    return false;
}
