/* The groups of an optimizer's parameters: which group a parameter belongs to, and whether each pattern of names
 * matches one. */
#include <string.h>

#include "tensor/format.h"
#include "tensor/name_pattern.h"
#include "training/optimizer.h"

enum { NEAREST = 3 };

int th_optimizer_group_of(const th_parameter_group *groups, int n_groups, const th_parameter_iterator *p)
{
    int g = 0;
    while (g < n_groups &&
           !(groups[g].pattern ? th_name_matches(groups[g].pattern, p->name)
                               : !groups[g].takes || groups[g].takes(p->name, p->tensor, groups[g].user)))
        g++;
    return g;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Returns how many characters must be inserted, removed or replaced until the pattern matches the name. In the pattern,
 * * and ? have their meaning; [ is a character. */
static int distance(const char *pattern, const char *name)
{
    int d[TH_FULL_NAME_SIZE]; /* of the pattern so far, to the first i characters of the name */
    const int length = (int)strlen(name);
    for (int i = 0; i <= length; i++)
        d[i] = i;
    for (; *pattern; pattern++) {
        const bool any = *pattern == '*';
        int diagonal = d[0];
        d[0] += !any;
        for (int i = 1; i <= length; i++) {
            const int replaced = diagonal + (*pattern != '?' && *pattern != name[i - 1]);
            diagonal = d[i];
            d[i] = any ? least(d[i], d[i - 1]) : least(replaced, least(d[i], d[i - 1]) + 1);
        }
    }
    return d[length];
}

/* Parameters whose names are nearest to a pattern. */
typedef struct nearest {
    int count, distance[NEAREST];
    char name[NEAREST][TH_FULL_NAME_SIZE];
} nearest;

/* Keeps a name if it is one of the nearest. */
static void consider(nearest *n, const char *name, int at_distance)
{
    int place = n->count;
    while (place > 0 && n->distance[place - 1] > at_distance)
        place--;
    if (place == NEAREST)
        return;
    n->count += n->count < NEAREST;
    for (int i = n->count - 1; i > place; i--) {
        n->distance[i] = n->distance[i - 1];
        strcpy(n->name[i], n->name[i - 1]);
    }
    n->distance[place] = at_distance;
    strcpy(n->name[place], name);
}

/* Fails for a pattern that matches no parameter, and names the nearest parameters. */
static th_status fail_unmatched(th_module *m, const char *operation, const char *pattern, int group)
{
    nearest n = {0};
    char list[2 * TH_FULL_NAME_SIZE] = "";
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);)
        consider(&n, p.name, distance(pattern, p.name));
    for (int i = 0; i < n.count; i++)
        th_append_item(list, sizeof list, i, n.count, n.name[i]);
    return th_fail(m->ctx, TH_ERROR_ARGUMENT, operation,
                   "the pattern \"%.100s\" of group %d matches no parameter; the nearest %s %s", pattern, group,
                   n.count == 1 ? "name is" : "names are", list);
}

th_status th_optimizer_check_groups(th_module *m, const char *operation, const th_parameter_group *groups, int n_groups)
{
    for (int g = 0; g < n_groups; g++) {
        bool used = groups[g].pattern == NULL;
        for (th_parameter_iterator p = th_module_parameters(m); !used && th_parameter_next(&p);)
            used = th_name_matches(groups[g].pattern, p.name);
        if (!used)
            return fail_unmatched(m, operation, groups[g].pattern, g);
    }
    return TH_OK;
}
