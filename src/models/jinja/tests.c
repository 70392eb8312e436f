/* The tests of a Jinja program: "value is name(arguments)". */
#include <string.h>

#include "models/jinja/value.h"

typedef bool test_call(th_jinja_run *run, th_jinja_value value, th_jinja_value argument);

static bool is_kind(th_jinja_run *run, th_jinja_value value, th_jinja_value argument);
static bool is_defined(th_jinja_run *run, th_jinja_value value, th_jinja_value argument)
{
    (void)run, (void)argument;
    return value.kind != TH_JINJA_UNDEFINED;
}
static bool is_undefined(th_jinja_run *run, th_jinja_value value, th_jinja_value argument)
{
    return !is_defined(run, value, argument);
}
static bool is_true(th_jinja_run *run, th_jinja_value value, th_jinja_value argument)
{
    (void)run, (void)argument;
    return value.kind == TH_JINJA_BOOL && value.boolean;
}
static bool is_false(th_jinja_run *run, th_jinja_value value, th_jinja_value argument)
{
    (void)run, (void)argument;
    return value.kind == TH_JINJA_BOOL && !value.boolean;
}
static bool is_number(th_jinja_run *run, th_jinja_value value, th_jinja_value argument)
{
    (void)run, (void)argument;
    return th_jinja_is_number(value);
}
static bool is_sequence(th_jinja_run *run, th_jinja_value value, th_jinja_value argument)
{
    (void)run, (void)argument;
    return th_jinja_is_sequence(value) || value.kind == TH_JINJA_STRING || value.kind == TH_JINJA_DICT ||
           value.kind == TH_JINJA_UNDEFINED;
}
static bool is_iterable(th_jinja_run *run, th_jinja_value value, th_jinja_value argument)
{
    return is_sequence(run, value, argument) || value.kind == TH_JINJA_ITERATOR || value.kind == TH_JINJA_LOOP;
}
static bool is_callable(th_jinja_run *run, th_jinja_value value, th_jinja_value argument)
{
    (void)run, (void)argument;
    return value.kind == TH_JINJA_MACRO || value.kind == TH_JINJA_FUNCTION || value.kind == TH_JINJA_METHOD ||
           value.kind == TH_JINJA_LOOP || value.kind == TH_JINJA_UNDEFINED;
}
static bool is_escaped(th_jinja_run *run, th_jinja_value value, th_jinja_value argument)
{
    (void)run, (void)argument;
    return value.kind == TH_JINJA_STRING && value.string->safe;
}

static bool in_case(th_jinja_run *run, th_jinja_value value, bool upper)
{
    th_jinja_string name = {.bytes = upper ? "isupper" : "islower", .count = 7};
    const th_jinja_method method = {th_jinja_str(run, value), &name};
    const th_jinja_arguments none = {0};
    return !run->failed && th_jinja_truth(th_jinja_call_method(run, &method, &none));
}
static bool is_upper(th_jinja_run *run, th_jinja_value value, th_jinja_value argument)
{
    (void)argument;
    return in_case(run, value, true);
}
static bool is_lower(th_jinja_run *run, th_jinja_value value, th_jinja_value argument)
{
    (void)argument;
    return in_case(run, value, false);
}

static bool is_multiple(th_jinja_run *run, th_jinja_value value, th_jinja_value divisor)
{
    const th_jinja_value rest = th_jinja_arithmetic(run, '%', value, divisor);
    return !run->failed && th_jinja_equal(run, rest, th_jinja_int(0));
}
static bool is_even(th_jinja_run *run, th_jinja_value value, th_jinja_value argument)
{
    (void)argument;
    return is_multiple(run, value, th_jinja_int(2));
}
static bool is_odd(th_jinja_run *run, th_jinja_value value, th_jinja_value argument)
{
    (void)argument;
    const th_jinja_value rest = th_jinja_arithmetic(run, '%', value, th_jinja_int(2));
    return !run->failed && th_jinja_equal(run, rest, th_jinja_int(1));
}

static bool is_equal(th_jinja_run *run, th_jinja_value value, th_jinja_value other)
{
    return th_jinja_equal(run, value, other);
}
static bool is_unequal(th_jinja_run *run, th_jinja_value value, th_jinja_value other)
{
    return !th_jinja_equal(run, value, other);
}
static bool is_less(th_jinja_run *run, th_jinja_value value, th_jinja_value other)
{
    return th_jinja_order(run, value, other, "<") == -1;
}
static bool is_at_most(th_jinja_run *run, th_jinja_value value, th_jinja_value other)
{
    return th_jinja_order(run, value, other, "<=") <= 0;
}
static bool is_greater(th_jinja_run *run, th_jinja_value value, th_jinja_value other)
{
    return th_jinja_order(run, value, other, ">") == 1;
}
static bool is_at_least(th_jinja_run *run, th_jinja_value value, th_jinja_value other)
{
    const int order = th_jinja_order(run, value, other, ">=");
    return order == 0 || order == 1;
}
static bool is_same(th_jinja_run *run, th_jinja_value value, th_jinja_value other)
{
    return value.kind == other.kind && th_jinja_equal(run, value, other);
}
static bool is_in(th_jinja_run *run, th_jinja_value value, th_jinja_value container)
{
    return th_jinja_contains(run, container, value);
}

static const struct {
    const char *name;
    test_call *call;
    int arguments;
    th_jinja_kind kind; /* of is_kind */
} tests[] = {{"defined", is_defined, 0, 0},
             {"undefined", is_undefined, 0, 0},
             {"none", is_kind, 0, TH_JINJA_NONE},
             {"string", is_kind, 0, TH_JINJA_STRING},
             {"mapping", is_kind, 0, TH_JINJA_DICT},
             {"boolean", is_kind, 0, TH_JINJA_BOOL},
             {"integer", is_kind, 0, TH_JINJA_INT},
             {"float", is_kind, 0, TH_JINJA_FLOAT},
             {"true", is_true, 0, 0},
             {"false", is_false, 0, 0},
             {"number", is_number, 0, 0},
             {"sequence", is_sequence, 0, 0},
             {"iterable", is_iterable, 0, 0},
             {"callable", is_callable, 0, 0},
             {"escaped", is_escaped, 0, 0},
             {"upper", is_upper, 0, 0},
             {"lower", is_lower, 0, 0},
             {"even", is_even, 0, 0},
             {"odd", is_odd, 0, 0},
             {"divisibleby", is_multiple, 1, 0},
             {"eq", is_equal, 1, 0},
             {"equalto", is_equal, 1, 0},
             {"==", is_equal, 1, 0},
             {"ne", is_unequal, 1, 0},
             {"!=", is_unequal, 1, 0},
             {"lt", is_less, 1, 0},
             {"lessthan", is_less, 1, 0},
             {"<", is_less, 1, 0},
             {"le", is_at_most, 1, 0},
             {"<=", is_at_most, 1, 0},
             {"gt", is_greater, 1, 0},
             {"greaterthan", is_greater, 1, 0},
             {">", is_greater, 1, 0},
             {"ge", is_at_least, 1, 0},
             {">=", is_at_least, 1, 0},
             {"sameas", is_same, 1, 0},
             {"in", is_in, 1, 0}};

/* argument: the kind, as an integer. */
static bool is_kind(th_jinja_run *run, th_jinja_value value, th_jinja_value argument)
{
    (void)run;
    return (int64_t)value.kind == argument.integer;
}

bool th_jinja_test(th_jinja_run *run, const th_jinja_string *name, th_jinja_value value,
                   const th_jinja_arguments *given)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (!th_jinja_is(name, tests[i].name))
            continue;
        th_jinja_value argument = th_jinja_int((int64_t)tests[i].kind);
        if (tests[i].arguments ? !th_jinja_bind(run, tests[i].name, "other", given, &argument)
                               : !th_jinja_bind(run, tests[i].name, "", given, NULL))
            return false;
        return !run->failed && tests[i].call(run, value, argument);
    }
    th_jinja_fail(run, "the test '%.*s' is unknown or not supported", (int)th_smaller((int64_t)name->count, 60),
                  name->bytes);
    return false;
}
