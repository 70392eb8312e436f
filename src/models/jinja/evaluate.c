/* Evaluates the expressions of a Jinja program. */
#include <string.h>

#include "models/jinja/run.h"

static th_jinja_value evaluate_items(th_jinja_run *run, const th_jinja_node *node, th_jinja_kind kind)
{
    const th_jinja_value list = th_jinja_list_of(run, kind, 0);
    for (const th_jinja_node *item = node->first; item && !run->failed; item = item->next)
        th_jinja_push(run, list, th_jinja_evaluate(run, item));
    return list;
}

static th_jinja_value evaluate_dict(th_jinja_run *run, const th_jinja_node *node)
{
    const th_jinja_value dict = th_jinja_dict_of(run, TH_JINJA_DICT);
    for (const th_jinja_node *pair = node->first; pair && !run->failed; pair = pair->next) {
        const th_jinja_value key = th_jinja_evaluate(run, pair->first);
        th_jinja_put(run, dict.dict, key, th_jinja_evaluate(run, pair->second));
    }
    return dict;
}

static bool compare(th_jinja_run *run, char op, th_jinja_value a, th_jinja_value b)
{
    switch (op) {
    case '=':
        return th_jinja_equal(run, a, b);
    case '!':
        return !th_jinja_equal(run, a, b);
    case 'n':
        return th_jinja_contains(run, b, a);
    case 'o':
        return !th_jinja_contains(run, b, a);
    case '<':
        return th_jinja_order(run, a, b, "<") == -1;
    case 'l':
        return th_jinja_order(run, a, b, "<=") <= 0;
    case '>':
        return th_jinja_order(run, a, b, ">") == 1;
    default: {
        const int order = th_jinja_order(run, a, b, ">=");
        return order == 0 || order == 1; /* 2: one is not a number */
    }
    }
}

static th_jinja_value evaluate_comparison(th_jinja_run *run, const th_jinja_node *node)
{
    th_jinja_value left = th_jinja_evaluate(run, node->first);
    for (const th_jinja_node *c = node->second; c && !run->failed; c = c->next) {
        const th_jinja_value right = th_jinja_evaluate(run, c->first);
        run->at = c;
        if (run->failed || !compare(run, c->op, left, right))
            return th_jinja_bool(false);
        left = right;
    }
    return th_jinja_bool(true);
}

/* -- slices -- */

/* Returns a bound of a slice; `missing` if there is none. */
static int64_t bound(th_jinja_run *run, const th_jinja_node *node, int64_t missing)
{
    const th_jinja_value value = node ? th_jinja_evaluate(run, node) : th_jinja_none();
    if (value.kind == TH_JINJA_NONE || run->failed)
        return missing;
    if (value.kind == TH_JINJA_BOOL)
        return value.boolean;
    if (value.kind == TH_JINJA_INT)
        return value.integer;
    th_jinja_fail(run, "a bound of a slice must be an integer; it is a %s", th_jinja_type(value));
    return missing;
}

/* Python's rule: negative bounds count from the end, and others are moved into the range. */
static int64_t clamp_bound(int64_t at, int64_t count, bool backwards)
{
    if (at < 0)
        at = at < -count ? -1 : at + count;
    if (at < 0)
        return backwards ? -1 : 0;
    return at >= count ? (backwards ? count - 1 : count) : at;
}

/* Characters begin .. end - 1. */
static th_jinja_value part_of_string(th_jinja_run *run, const th_jinja_string *string, int64_t begin, int64_t end)
{
    const size_t from = th_jinja_byte_of(string, (size_t)begin);
    const th_jinja_string rest = {.bytes = string->bytes + from, .count = string->count - from};
    return th_jinja_string_of(run, rest.bytes, end > begin ? th_jinja_byte_of(&rest, (size_t)(end - begin)) : 0);
}

/* A slice of a string, a list or a tuple; INT64_MIN is a bound that is missing. */
static th_jinja_value slice(th_jinja_run *run, th_jinja_value object, int64_t begin, int64_t end, int64_t step)
{
    const bool backwards = step < 0, text = object.kind == TH_JINJA_STRING;
    const int64_t count = (int64_t)(text ? th_jinja_length(object.string) : object.list->count);
    int64_t i = begin == INT64_MIN ? (backwards ? count - 1 : 0) : clamp_bound(begin, count, backwards);
    const int64_t stop = end == INT64_MIN ? (backwards ? -1 : count) : clamp_bound(end, count, backwards);
    if (!th_jinja_step(run, text ? object.string->count / 4 : 1))
        return object;
    if (text && step == 1)
        return part_of_string(run, object.string, i, stop);
    const th_jinja_value items = th_jinja_items(run, object);
    const th_jinja_value list = th_jinja_list_of(run, text ? TH_JINJA_LIST : object.kind, 0);
    const size_t written = text ? th_jinja_capture(run) : 0;
    while ((backwards ? i > stop : i < stop) && !run->failed) {
        const th_jinja_value item = items.list->item[i];
        if (text)
            th_jinja_write(run, item.string->bytes, item.string->count);
        else
            th_jinja_push(run, list, item);
        if (__builtin_add_overflow(i, step, &i))
            break;
    }
    return text ? th_jinja_captured(run, written) : list;
}

static th_jinja_value evaluate_slice(th_jinja_run *run, const th_jinja_node *node)
{
    const th_jinja_value object = th_jinja_evaluate(run, node->first);
    const int64_t begin = bound(run, node->second, INT64_MIN), end = bound(run, node->third, INT64_MIN);
    const int64_t step = bound(run, node->other, 1);
    run->at = node;
    if (run->failed)
        return object;
    if (object.kind == TH_JINJA_UNDEFINED)
        return th_jinja_item(run, object, th_jinja_int(0)); /* the error */
    if (object.kind != TH_JINJA_STRING && !th_jinja_is_sequence(object))
        return th_jinja_fail(run, "a %s has no slices", th_jinja_type(object));
    if (step == 0)
        return th_jinja_fail(run, "the step of a slice cannot be 0");
    return slice(run, object, begin, end, step);
}

/* -- calls -- */

static void spread(th_jinja_run *run, const th_jinja_node *node, th_jinja_value value, th_jinja_value list,
                   th_jinja_arguments *given)
{
    if (node->op == '*') {
        const th_jinja_value items = th_jinja_items(run, value);
        for (size_t i = 0; !run->failed && i < items.list->count; i++)
            th_jinja_push(run, list, items.list->item[i]);
    } else if (value.kind != TH_JINJA_DICT)
        th_jinja_fail(run, "the argument after ** must be a dict; it is a %s", th_jinja_type(value));
    else
        for (size_t i = 0; !run->failed && i < value.dict->count; i++)
            th_jinja_put(run, &given->named, value.dict->member[i].key, value.dict->member[i].value);
}

bool th_jinja_evaluate_arguments(th_jinja_run *run, const th_jinja_node *first, th_jinja_arguments *given)
{
    *given = (th_jinja_arguments){0};
    if (first == NULL)
        return !run->failed;
    const th_jinja_value list = th_jinja_list_of(run, TH_JINJA_LIST, 4);
    for (const th_jinja_node *node = first; node && !run->failed; node = node->next) {
        const bool plain = node->kind != TH_JINJA_NAMED && node->kind != TH_JINJA_SPREAD;
        const th_jinja_value value = th_jinja_evaluate(run, plain ? node : node->first);
        if (run->failed)
            break;
        if (plain)
            th_jinja_push(run, list, value);
        else if (node->kind == TH_JINJA_NAMED)
            th_jinja_put(run, &given->named, (th_jinja_value){.kind = TH_JINJA_STRING, .string = node->name}, value);
        else
            spread(run, node, value, list, given);
    }
    if (run->failed)
        return false;
    given->value = list.list->item;
    given->count = list.list->count;
    return true;
}

static th_jinja_value evaluate_call(th_jinja_run *run, const th_jinja_node *node)
{
    th_jinja_arguments given;
    const th_jinja_value function = th_jinja_evaluate(run, node->first);
    if (run->failed || !th_jinja_evaluate_arguments(run, node->second, &given))
        return th_jinja_undefined();
    run->at = node;
    return th_jinja_call(run, function, &given);
}

th_jinja_value th_jinja_apply_filter(th_jinja_run *run, const th_jinja_node *filter, th_jinja_value value)
{
    th_jinja_arguments given;
    if (run->failed || !th_jinja_evaluate_arguments(run, filter->second, &given))
        return th_jinja_undefined();
    run->at = filter;
    return th_jinja_filter(run, filter->name, value, &given);
}

th_jinja_value th_jinja_apply_filters(th_jinja_run *run, const th_jinja_node *filter, th_jinja_value text)
{
    if (filter->first && th_jinja_deepen(run))
        text = th_jinja_apply_filters(run, filter->first, text);
    run->depth -= filter->first != NULL;
    return th_jinja_apply_filter(run, filter, text);
}

static th_jinja_value evaluate_test(th_jinja_run *run, const th_jinja_node *node)
{
    th_jinja_arguments given;
    const th_jinja_value value = th_jinja_evaluate(run, node->first);
    if (run->failed || !th_jinja_evaluate_arguments(run, node->second, &given))
        return value;
    run->at = node;
    return th_jinja_bool(th_jinja_test(run, node->name, value, &given));
}

/* -- operators -- */

static th_jinja_value evaluate_sign(th_jinja_run *run, const th_jinja_node *node)
{
    const bool negative = node->kind == TH_JINJA_NEGATIVE;
    const th_jinja_value value = th_jinja_evaluate(run, node->first);
    run->at = node;
    if (run->failed)
        return value;
    if (!th_jinja_is_number(value))
        return th_jinja_fail(run, "a %s has no sign", th_jinja_type(value));
    if (value.kind == TH_JINJA_FLOAT)
        return th_jinja_float(negative ? -value.real : value.real);
    return th_jinja_arithmetic(run, negative ? '-' : '+', th_jinja_int(0), value);
}

static th_jinja_value evaluate_choice(th_jinja_run *run, const th_jinja_node *node)
{
    const bool chosen = th_jinja_truth(th_jinja_evaluate(run, node->first));
    const th_jinja_node *branch = chosen ? node->second : node->third;
    return run->failed || branch == NULL ? th_jinja_undefined() : th_jinja_evaluate(run, branch);
}

static th_jinja_value evaluate_operation(th_jinja_run *run, const th_jinja_node *node)
{
    const th_jinja_value a = th_jinja_evaluate(run, node->first);
    const th_jinja_value b = run->failed ? a : th_jinja_evaluate(run, node->second);
    run->at = node;
    return run->failed ? a : th_jinja_arithmetic(run, node->op, a, b);
}

static th_jinja_value evaluate_item(th_jinja_run *run, const th_jinja_node *node)
{
    const th_jinja_value object = th_jinja_evaluate(run, node->first);
    const th_jinja_value key = run->failed ? object : th_jinja_evaluate(run, node->second);
    run->at = node;
    return run->failed ? key : th_jinja_item(run, object, key);
}

static th_jinja_value evaluate_attribute(th_jinja_run *run, const th_jinja_node *node)
{
    const th_jinja_value object = th_jinja_evaluate(run, node->first);
    run->at = node;
    return run->failed ? object : th_jinja_attribute(run, object, node->name);
}

static th_jinja_value evaluate_logic(th_jinja_run *run, const th_jinja_node *node)
{
    const th_jinja_value a = th_jinja_evaluate(run, node->first);
    const bool decided = th_jinja_truth(a) == (node->kind == TH_JINJA_OR);
    return run->failed || decided ? a : th_jinja_evaluate(run, node->second);
}

static th_jinja_value evaluate_one(th_jinja_run *run, const th_jinja_node *node)
{
    switch (node->kind) {
    case TH_JINJA_CONSTANT:
        return node->value;
    case TH_JINJA_NAME:
        return th_jinja_get(run, node->name);
    case TH_JINJA_LIST_OF:
        return evaluate_items(run, node, TH_JINJA_LIST);
    case TH_JINJA_TUPLE_OF:
        return evaluate_items(run, node, TH_JINJA_TUPLE);
    case TH_JINJA_DICT_OF:
        return evaluate_dict(run, node);
    case TH_JINJA_AND:
    case TH_JINJA_OR:
        return evaluate_logic(run, node);
    case TH_JINJA_NOT:
        return th_jinja_bool(!th_jinja_truth(th_jinja_evaluate(run, node->first)));
    case TH_JINJA_NEGATIVE:
    case TH_JINJA_POSITIVE:
        return evaluate_sign(run, node);
    case TH_JINJA_CHOICE:
        return evaluate_choice(run, node);
    case TH_JINJA_OPERATION:
        return evaluate_operation(run, node);
    case TH_JINJA_COMPARE:
        return evaluate_comparison(run, node);
    case TH_JINJA_ATTRIBUTE:
        return evaluate_attribute(run, node);
    case TH_JINJA_ITEM:
        return evaluate_item(run, node);
    case TH_JINJA_SLICE:
        return evaluate_slice(run, node);
    case TH_JINJA_CALL:
        return evaluate_call(run, node);
    case TH_JINJA_FILTER:
        return th_jinja_apply_filter(run, node, th_jinja_evaluate(run, node->first));
    default:
        return evaluate_test(run, node);
    }
}

th_jinja_value th_jinja_evaluate(th_jinja_run *run, const th_jinja_node *node)
{
    th_jinja_value value = th_jinja_undefined();
    if (th_jinja_deepen(run) && th_jinja_step(run, 1)) {
        run->at = node;
        value = evaluate_one(run, node);
    }
    run->depth--;
    return run->failed ? th_jinja_undefined() : value;
}
