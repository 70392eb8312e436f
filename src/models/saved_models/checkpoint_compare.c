/* Compares the state in a file with the program that loads it. */
#include <string.h>

#include "models/core/context.h"
#include "models/saved_models/checkpoint.h"

static bool has_same_bits(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static void compare_values(const char *name, double saved, double current, th_differences *d)
{
    if (!has_same_bits(saved, current))
        th_report_difference(d, TH_OTHER_OPTION,
                             "different option: %s of the optimizer is %.17g in the file and %.17g here", name, saved,
                             current);
}

/* Compares an option with the file's value under `key`, and reports a difference. */
static void compare_option(const json_t *options, const char *key, const char *name, double current, th_differences *d)
{
    const json_t *option = json_object_get(options, key);
    double saved;
    if (option == NULL)
        th_report_difference(d, TH_MISSING, "missing: %s of the optimizer", name);
    else if (!th_state_real(option, &saved))
        th_report_difference(d, TH_OTHER_TYPE, "different type: %s of the optimizer is not a number in the file", name);
    else
        compare_values(name, saved, current, d);
}

/* Returns how many lists of all groups the optimizer has: one of matrices and one of other parameters, or one. */
static int lists_of_groups(const th_optimizer *o)
{
    return o->matrices ? 2 : 1;
}

/* A group in messages: "group 3", "group 3 of matrices". */
typedef struct group_name {
    char text[48];
} group_name;

static group_name name_of_group(const th_optimizer *o, int64_t g)
{
    static const char *const kinds[] = {" of matrices", " of other parameters"};
    const int lists = lists_of_groups(o);
    const int64_t groups = o->n_groups / lists;
    group_name name;
    snprintf(name.text, sizeof name.text, "group %lld%s", (long long)(g % groups),
             lists == 1 ? "" : kinds[g >= groups]);
    return name;
}

static void compare_groups(const json_t *groups, const th_optimizer *o, th_differences *d)
{
    if (json_array_size(groups) != (size_t)o->n_groups) {
        th_report_difference(
            d, TH_OTHER_OPTION,
            "different option: the optimizer has %zu groups in the file and %d here (the last group has all "
            "other parameters)",
            json_array_size(groups) / (size_t)lists_of_groups(o), o->n_groups / lists_of_groups(o));
        return;
    }
    for (int g = 0; g < o->n_groups; g++) {
        char name[80];
        const group_name in = name_of_group(o, g);
        const json_t *group = json_array_get(groups, (size_t)g);
        snprintf(name, sizeof name, "learning_rate_factor in %s", in.text);
        compare_option(group, "learning_rate_factor", name, o->groups[g].learning_rate_factor, d);
        snprintf(name, sizeof name, "weight_decay in %s", in.text);
        compare_option(group, "weight_decay", name, o->groups[g].weight_decay, d);
    }
}

static void compare_options(const json_t *optimizer, const th_optimizer *o, th_differences *d)
{
    th_saved_option option[TH_MAX_SAVED_OPTIONS];
    const int n = th_optimizer_saved_options(o, option);
    const json_t *options = json_object_get(optimizer, "options");
    for (int i = 0; i < n; i++) {
        const char *name = option[i].name;
        if (!option[i].newer || json_object_get(options, name))
            compare_option(options, name, name, option[i].value, d);
        else
            compare_values(name, option[i].default_value, option[i].value, d);
    }
    compare_groups(json_object_get(optimizer, "groups"), o, d);
}

/* Compares the parameters of the optimizer, and their groups. */
static void compare_parameters(const json_t *parameters, const th_checkpoint *c, const th_parameter_list *list,
                               th_differences *d)
{
    for (int64_t i = 0; i < list->count; i++) {
        const th_listed_parameter *p = &list->parameter[i];
        const json_t *saved = json_object_get(parameters, p->name);
        const int64_t group = json_integer_value(json_object_get(saved, "group"));
        const int64_t current = p->optimizer_index >= 0 ? c->optimizer->parameters[p->optimizer_index].group : -1;
        if (saved == NULL)
            th_report_difference(d, TH_MISSING, "missing: the state of %s", p->name);
        else if ((group < 0) != (current < 0))
            th_report_difference(d, TH_OTHER_OPTION,
                                 "different option: %s is %s the optimizer's parameters in the file, but here it is%s",
                                 p->name, group < 0 ? "not" : "one of", current < 0 ? " not" : "");
        else if (current >= 0 && group != current && !c->other_options)
            th_report_difference(d, TH_OTHER_OPTION,
                                 "different option: %s is in %s of the optimizer in the file and in %s here", p->name,
                                 name_of_group(c->optimizer, group).text, name_of_group(c->optimizer, current).text);
    }
}

static void compare_numbers(const json_t *numbers, const th_checkpoint *c, th_differences *d)
{
    for (int i = 0; i < c->n_numbers; i++) {
        const th_checkpoint_number *n = &c->numbers[i];
        const json_t *saved = json_object_get(numbers, n->name);
        double value;
        if (saved == NULL)
            th_report_difference(d, TH_MISSING, "missing: the number \"%s\"", n->name);
        else if (n->integer ? !json_is_integer(saved) : !th_state_real(saved, &value))
            th_report_difference(d, TH_OTHER_TYPE, "different type: the number \"%s\" is not of type %s in the file",
                                 n->name, n->integer ? "integer" : "real");
    }
}

void th_state_compare(const json_t *state, const th_checkpoint *c, const th_parameter_list *list, th_differences *d)
{
    const json_t *optimizer = json_object_get(state, "optimizer");
    const char *saved = json_is_null(optimizer) ? "none" : json_string_value(json_object_get(optimizer, "rule"));
    const char *current = c->optimizer ? th_optimizer_rule_name(c->optimizer) : "none";
    char quoted[TH_QUOTED];
    if (strcmp(saved, current) != 0 && !c->only_model)
        th_report_difference(d, TH_OTHER_OPTION, "different optimizer: %s in the file, %s here",
                             th_quote(saved, quoted), current);
    else if (c->optimizer && !c->other_options)
        compare_options(optimizer, c->optimizer, d);
    if (strcmp(saved, current) == 0)
        compare_parameters(json_object_get(state, "parameters"), c, list, d);
    compare_numbers(json_object_get(state, "numbers"), c, d);
}
