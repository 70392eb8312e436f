/* The filters of lists and dictionaries. */
#include <string.h>

#include "models/jinja/filters.h"

/* Makes a list one that is read once, as jinja2's generators. */
static th_jinja_value as_iterator(th_jinja_value list)
{
    list.kind = list.kind == TH_JINJA_UNDEFINED ? list.kind : TH_JINJA_ITERATOR;
    return list;
}

/* -- attributes -- */

/* Returns object.a.b.0 for the path "a.b.0"; the path may be an integer too. */
static th_jinja_value follow(th_jinja_run *run, th_jinja_value object, th_jinja_value path)
{
    if (path.kind == TH_JINJA_INT)
        return th_jinja_item(run, object, path);
    if (path.kind != TH_JINJA_STRING)
        return th_jinja_fail(run, "an attribute must be a str; it is a %s", th_jinja_type(path));
    const char *at = path.string->bytes, *end = at + path.string->count;
    for (; !run->failed; at++) {
        const char *dot = memchr(at, '.', (size_t)(end - at)), *past = dot ? dot : end;
        int64_t index = 0;
        bool is_index = past > at && past - at < 10;
        for (const char *c = at; c < past && is_index; c++) {
            is_index = *c >= '0' && *c <= '9';
            index = index * 10 + (*c - '0');
        }
        object = th_jinja_item(run, object,
                               is_index ? th_jinja_int(index) : th_jinja_string_of(run, at, (size_t)(past - at)));
        if (dot == NULL)
            break;
        at = dot;
    }
    return object;
}

/* What items are compared by: the attribute, and lower case unless case_sensitive is true. */
typedef struct sort_key {
    th_jinja_value attribute;
    bool case_sensitive;
} sort_key;

static th_jinja_value key_of(th_jinja_run *run, th_jinja_value item, const sort_key *key)
{
    if (key->attribute.kind != TH_JINJA_UNDEFINED && key->attribute.kind != TH_JINJA_NONE)
        item = follow(run, item, key->attribute);
    if (item.kind == TH_JINJA_STRING && !key->case_sensitive)
        item = th_jinja_change_case(run, item.string, 'l');
    return item;
}

/* -- parts -- */

th_jinja_value th_jinja_filter_list(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    if (!th_jinja_bind(run, "list", "", given, NULL))
        return value;
    const th_jinja_value items = th_jinja_items(run, value), list = th_jinja_list_of(run, TH_JINJA_LIST, 0);
    for (size_t i = 0; !run->failed && i < items.list->count; i++)
        th_jinja_push(run, list, items.list->item[i]);
    return list;
}

th_jinja_value th_jinja_filter_first(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    if (!th_jinja_bind(run, "first", "", given, NULL))
        return value;
    const th_jinja_value items = th_jinja_items(run, value);
    return !run->failed && items.list->count > 0 ? items.list->item[0] : th_jinja_undefined();
}

th_jinja_value th_jinja_filter_last(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    if (!th_jinja_bind(run, "last", "", given, NULL))
        return value;
    if (value.kind == TH_JINJA_ITERATOR || value.kind == TH_JINJA_UNDEFINED)
        return th_jinja_fail(run, "a %s cannot be reversed", th_jinja_type(value));
    const th_jinja_value items = th_jinja_items(run, value);
    return !run->failed && items.list->count > 0 ? items.list->item[items.list->count - 1] : th_jinja_undefined();
}

th_jinja_value th_jinja_filter_reverse(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    if (!th_jinja_bind(run, "reverse", "", given, NULL))
        return value;
    const th_jinja_value items = th_jinja_items(run, value), list = th_jinja_list_of(run, TH_JINJA_LIST, 0);
    for (size_t i = run->failed ? 0 : items.list->count; i > 0; i--)
        th_jinja_push(run, list, items.list->item[i - 1]);
    if (value.kind != TH_JINJA_STRING || run->failed)
        return as_iterator(list);
    const size_t begin = th_jinja_capture(run);
    for (size_t i = 0; i < list.list->count; i++)
        th_jinja_write_value(run, list.list->item[i]);
    return th_jinja_captured(run, begin);
}

th_jinja_value th_jinja_filter_items(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    static const th_jinja_string name = {.bytes = "items", .count = 5};
    if (!th_jinja_bind(run, "items", "", given, NULL))
        return value;
    if (value.kind == TH_JINJA_UNDEFINED)
        return as_iterator(th_jinja_list_of(run, TH_JINJA_LIST, 0));
    if (value.kind != TH_JINJA_DICT)
        return th_jinja_fail(run, "items needs a dict; it has a %s", th_jinja_type(value));
    const th_jinja_method method = {value, &name};
    return as_iterator(th_jinja_call_method(run, &method, given));
}

th_jinja_value th_jinja_filter_batch(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    th_jinja_value argument[2];
    if (!th_jinja_bind(run, "batch", "linecount,fill_with=", given, argument))
        return value;
    if (argument[0].kind != TH_JINJA_INT || argument[0].integer < 1 || argument[0].integer > 100000)
        return th_jinja_fail(run, "batch needs a positive integer");
    const th_jinja_value items = th_jinja_items(run, value), all = th_jinja_list_of(run, TH_JINJA_LIST, 0);
    const size_t size = (size_t)argument[0].integer;
    th_jinja_value part = all;
    for (size_t i = 0; !run->failed && i < items.list->count; i++) {
        if (i % size == 0) {
            part = th_jinja_list_of(run, TH_JINJA_LIST, 0);
            th_jinja_push(run, all, part);
        }
        th_jinja_push(run, part, items.list->item[i]);
    }
    while (!run->failed && all.list->count > 0 && argument[1].kind != TH_JINJA_UNDEFINED &&
           argument[1].kind != TH_JINJA_NONE && part.list->count < size)
        th_jinja_push(run, part, argument[1]);
    return as_iterator(all);
}

/* -- joining and sums -- */

th_jinja_value th_jinja_filter_join(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    th_jinja_value argument[2];
    if (!th_jinja_bind(run, "join", "d=,attribute=", given, argument))
        return value;
    const th_jinja_value items = th_jinja_items(run, value);
    const bool by_attribute = argument[1].kind != TH_JINJA_UNDEFINED && argument[1].kind != TH_JINJA_NONE;
    const size_t begin = th_jinja_capture(run);
    for (size_t i = 0; !run->failed && i < items.list->count; i++) {
        if (i > 0)
            th_jinja_write_value(run, argument[0]);
        th_jinja_write_value(run, by_attribute ? follow(run, items.list->item[i], argument[1]) : items.list->item[i]);
    }
    return th_jinja_captured(run, begin);
}

th_jinja_value th_jinja_filter_sum(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    th_jinja_value argument[2];
    if (!th_jinja_bind(run, "sum", "attribute=,start=", given, argument))
        return value;
    const bool by_attribute = argument[0].kind != TH_JINJA_UNDEFINED && argument[0].kind != TH_JINJA_NONE;
    th_jinja_value sum = argument[1].kind == TH_JINJA_UNDEFINED ? th_jinja_int(0) : argument[1];
    const th_jinja_value items = th_jinja_items(run, value);
    if (sum.kind == TH_JINJA_STRING)
        return th_jinja_fail(run, "sum cannot join str");
    for (size_t i = 0; !run->failed && i < items.list->count; i++)
        sum = th_jinja_arithmetic(run, '+', sum,
                                  by_attribute ? follow(run, items.list->item[i], argument[0]) : items.list->item[i]);
    return sum;
}

/* -- order -- */

/* A stable sort by merging: moves items first .. past - 1 of both lists. */
static void sort_range(th_jinja_run *run, th_jinja_value *item, th_jinja_value *key, th_jinja_value *spare,
                       size_t count, bool reverse)
{
    if (count < 2 || run->failed)
        return;
    const size_t half = count / 2;
    sort_range(run, item, key, spare, half, reverse);
    sort_range(run, item + half, key + half, spare, count - half, reverse);
    size_t a = 0, b = half;
    for (size_t i = 0; i < count && !run->failed; i++) {
        bool second = a == half;
        if (a < half && b < count) {
            const int order = th_jinja_order(run, key[b], key[a], "sort");
            second = reverse ? order == 1 : order == -1;
        }
        spare[2 * i] = item[second ? b : a];
        spare[2 * i + 1] = key[second ? b : a];
        a += !second;
        b += second;
    }
    for (size_t i = 0; i < count && !run->failed; i++) {
        item[i] = spare[2 * i];
        key[i] = spare[2 * i + 1];
    }
}

static th_jinja_value sorted(th_jinja_run *run, th_jinja_value items, const sort_key *key, bool reverse)
{
    const th_jinja_value list = th_jinja_list_of(run, TH_JINJA_LIST, 0), keys = th_jinja_list_of(run, TH_JINJA_LIST, 0);
    for (size_t i = 0; !run->failed && i < items.list->count; i++) {
        th_jinja_push(run, list, items.list->item[i]);
        th_jinja_push(run, keys, key_of(run, items.list->item[i], key));
    }
    if (run->failed || list.list->count == 0)
        return list;
    th_jinja_value *spare = th_jinja_new(run, 2 * list.list->count * sizeof *spare);
    if (spare)
        sort_range(run, list.list->item, keys.list->item, spare, list.list->count, reverse);
    return list;
}

th_jinja_value th_jinja_filter_sort(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    th_jinja_value argument[3];
    if (!th_jinja_bind(run, "sort", "reverse=,case_sensitive=,attribute=", given, argument))
        return value;
    const sort_key key = {argument[2], th_jinja_truth(argument[1])};
    if (key.attribute.kind == TH_JINJA_STRING && memchr(key.attribute.string->bytes, ',', key.attribute.string->count))
        return th_jinja_fail(run, "sort by several attributes is not supported");
    const th_jinja_value items = th_jinja_items(run, value);
    return run->failed ? items : sorted(run, items, &key, th_jinja_truth(argument[0]));
}

th_jinja_value th_jinja_filter_dictsort(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    th_jinja_value argument[3];
    if (!th_jinja_bind(run, "dictsort", "case_sensitive=,by=,reverse=", given, argument))
        return value;
    const bool by_value = argument[1].kind == TH_JINJA_STRING && th_jinja_is(argument[1].string, "value");
    const sort_key key = {th_jinja_int(by_value), th_jinja_truth(argument[0])};
    if (value.kind != TH_JINJA_DICT)
        return th_jinja_fail(run, "dictsort needs a dict; it has a %s", th_jinja_type(value));
    const th_jinja_arguments none = {0};
    const th_jinja_value items = th_jinja_items(run, th_jinja_filter_items(run, value, &none));
    return run->failed ? items : sorted(run, items, &key, th_jinja_truth(argument[2]));
}

static th_jinja_value extreme(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given, bool largest)
{
    th_jinja_value argument[2], best = th_jinja_undefined(), best_key = best;
    if (!th_jinja_bind(run, largest ? "max" : "min", "case_sensitive=,attribute=", given, argument))
        return value;
    const sort_key key = {argument[1], th_jinja_truth(argument[0])};
    const th_jinja_value items = th_jinja_items(run, value);
    for (size_t i = 0; !run->failed && i < items.list->count; i++) {
        const th_jinja_value next = key_of(run, items.list->item[i], &key);
        if (i > 0 && th_jinja_order(run, next, best_key, largest ? ">" : "<") != (largest ? 1 : -1))
            continue;
        best = items.list->item[i];
        best_key = next;
    }
    return best;
}
th_jinja_value th_jinja_filter_max(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    return extreme(run, value, given, true);
}
th_jinja_value th_jinja_filter_min(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    return extreme(run, value, given, false);
}

th_jinja_value th_jinja_filter_unique(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    th_jinja_value argument[2];
    if (!th_jinja_bind(run, "unique", "case_sensitive=,attribute=", given, argument))
        return value;
    const sort_key key = {argument[1], th_jinja_truth(argument[0])};
    const th_jinja_value items = th_jinja_items(run, value), list = th_jinja_list_of(run, TH_JINJA_LIST, 0);
    const th_jinja_value seen = th_jinja_dict_of(run, TH_JINJA_DICT);
    for (size_t i = 0; !run->failed && i < items.list->count; i++) {
        const th_jinja_value next = key_of(run, items.list->item[i], &key);
        if (run->failed || th_jinja_find(run, seen.dict, next))
            continue;
        th_jinja_put(run, seen.dict, next, th_jinja_none());
        th_jinja_push(run, list, items.list->item[i]);
    }
    return as_iterator(list);
}

/* -- each item -- */

/* Whether jinja2 returns nothing for a value without looking at the arguments. */
static bool is_nothing(th_jinja_value value)
{
    return value.kind != TH_JINJA_ITERATOR && !th_jinja_truth(value);
}

/* Returns the arguments from `first` on. */
static th_jinja_arguments rest_of(const th_jinja_arguments *given, size_t first)
{
    th_jinja_arguments rest = *given;
    const size_t skipped = first < given->count ? first : given->count;
    rest.value = skipped > 0 ? given->value + skipped : given->value;
    rest.count -= skipped;
    return rest;
}

th_jinja_value th_jinja_filter_map(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    const th_jinja_value *attribute = th_jinja_find_name(run, &given->named, "attribute");
    const th_jinja_value *other = th_jinja_find_name(run, &given->named, "default");
    if (is_nothing(value))
        return as_iterator(th_jinja_list_of(run, TH_JINJA_LIST, 0));
    if (given->count == 0 && attribute == NULL)
        return th_jinja_fail(run, "map needs the name of a filter, or an attribute");
    if (given->count > 0 && given->value[0].kind != TH_JINJA_STRING)
        return th_jinja_fail(run, "map needs the name of a filter; it has a %s", th_jinja_type(given->value[0]));
    const th_jinja_value items = th_jinja_items(run, value), list = th_jinja_list_of(run, TH_JINJA_LIST, 0);
    const th_jinja_arguments rest = rest_of(given, 1);
    for (size_t i = 0; !run->failed && i < items.list->count; i++) {
        th_jinja_value item = items.list->item[i];
        if (given->count > 0)
            item = th_jinja_filter(run, given->value[0].string, item, &rest);
        else
            item = follow(run, item, *attribute);
        if (given->count == 0 && other && item.kind == TH_JINJA_UNDEFINED)
            item = *other;
        th_jinja_push(run, list, item);
    }
    return as_iterator(list);
}

/* Keeps items whose test has the result `wanted`. by_attribute: the first argument is the attribute that is tested. */
static th_jinja_value choose(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given,
                             bool by_attribute, bool wanted)
{
    const size_t first = by_attribute ? 1 : 0;
    if (is_nothing(value))
        return as_iterator(th_jinja_list_of(run, TH_JINJA_LIST, 0));
    if (given->count < first)
        return th_jinja_fail(run, "selectattr and rejectattr need an attribute");
    if (given->count > first && given->value[first].kind != TH_JINJA_STRING)
        return th_jinja_fail(run, "the name of a test must be a str; it is a %s", th_jinja_type(given->value[first]));
    const th_jinja_value items = th_jinja_items(run, value), list = th_jinja_list_of(run, TH_JINJA_LIST, 0);
    const th_jinja_arguments rest = rest_of(given, first + 1);
    for (size_t i = 0; !run->failed && i < items.list->count; i++) {
        const th_jinja_value item = items.list->item[i],
                             tested = by_attribute ? follow(run, item, given->value[0]) : item;
        const bool result = given->count > first ? th_jinja_test(run, given->value[first].string, tested, &rest)
                                                 : th_jinja_truth(tested);
        if (result == wanted)
            th_jinja_push(run, list, item);
    }
    return as_iterator(list);
}
th_jinja_value th_jinja_filter_select(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    return choose(run, value, given, false, true);
}
th_jinja_value th_jinja_filter_reject(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    return choose(run, value, given, false, false);
}
th_jinja_value th_jinja_filter_selectattr(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    return choose(run, value, given, true, true);
}
th_jinja_value th_jinja_filter_rejectattr(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    return choose(run, value, given, true, false);
}
