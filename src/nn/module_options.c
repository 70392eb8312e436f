/* Options of library modules: their checksum, and their comparison between processes. */
#include "nn/module_options.h"

#include <stdio.h>
#include <string.h>

#include "kernels/machine/crc32c.h"
#include "tensor/format.h"

enum { OPTION_TEXT_SIZE = TH_FULL_NAME_SIZE + 2 * TH_NAME_SIZE };

/* Visits all options of a tree. For each module: its type, whether it is pinned to evaluation, then the options of its
 * type. */
typedef struct option_walk {
    const th_module *root, *m;
    int next; /* the option of m */
} option_walk;

static option_walk options_of(const th_module *root)
{
    return (option_walk){.root = root, .m = root};
}

/* Returns the value of a module's option as a fact without a name. */
static th_fact option_value(const th_module *m, const th_module_option *option)
{
    const char *address = (const char *)m + option->offset;
    th_fact fact = {.kind = option->kind == TH_OPTION_REAL ? TH_FACT_REAL : TH_FACT_INTEGER};
    bool flag;
    int choice;
    switch (option->kind) {
    case TH_OPTION_REAL:
        memcpy(&fact.real, address, sizeof fact.real);
        break;
    case TH_OPTION_INTEGER:
        memcpy(&fact.integer, address, sizeof fact.integer);
        break;
    case TH_OPTION_FLAG:
        memcpy(&flag, address, sizeof flag);
        fact.integer = flag;
        break;
    case TH_OPTION_CHOICE:
        memcpy(&choice, address, sizeof choice);
        fact.integer = choice;
        break;
    }
    return fact;
}

/* Sets *fact to the next option, with its name within the module. Returns its module; NULL at the end. */
static const th_module *next_option(option_walk *walk, th_fact *fact)
{
    static const th_module_option evaluation = TH_MODULE_FLAG(th_module, evaluation);
    while (walk->m) {
        const th_module *m = walk->m;
        const th_module_option *options = m->state->type ? m->state->type->options : NULL;
        const int i = walk->next++;
        if (i == 0) {
            *fact =
                (th_fact){.name = "type", .kind = TH_FACT_CHECKSUM, .integer = th_crc32c(0, m->type, strlen(m->type))};
            return m;
        }
        const th_module_option *option = i == 1 ? &evaluation : options ? &options[i - 2] : NULL;
        if (option && option->name) {
            *fact = option_value(m, option);
            fact->name = option->name;
            return m;
        }
        walk->m = th_module_next(m, walk->root);
        walk->next = 0;
    }
    return NULL;
}

uint32_t th_module_options_crc32c(const th_module *root)
{
    uint32_t crc = 0;
    th_fact fact;
    for (option_walk walk = options_of(root); next_option(&walk, &fact);)
        crc = th_crc32c(crc, &fact.integer, sizeof fact.integer);
    return crc;
}

/* Sets facts [TH_MAX_FACTS] to the next options, with full names in text. Returns their number. */
static int next_facts(option_walk *walk, th_fact *facts, char (*text)[OPTION_TEXT_SIZE])
{
    int n = 0;
    char name[TH_FULL_NAME_SIZE];
    for (const th_module *m; n < TH_MAX_FACTS && (m = next_option(walk, &facts[n])); n++) {
        const char *path = th_module_name_below(m, walk->root, name);
        text[n][0] = 0;
        th_append(text[n], OPTION_TEXT_SIZE, "%s of %s%s%s", facts[n].name, m->type, path[0] ? " " : "", path);
        facts[n].name = text[n];
    }
    return n;
}

th_status th_module_options_agree(const th_module *root, th_group *group, const char *operation)
{
    th_fact facts[TH_MAX_FACTS] = {{.name = "number of the modules' options", .kind = TH_FACT_INTEGER}};
    char text[TH_MAX_FACTS][OPTION_TEXT_SIZE];
    bool equal;
    for (option_walk walk = options_of(root); next_option(&walk, &facts[1]);)
        facts[0].integer++;
    th_status status = th_group_agree_on(group, operation, facts, 1, th_module_options_crc32c(root), &equal);
    option_walk walk = options_of(root);
    for (int n; status == TH_OK && !equal && (n = next_facts(&walk, facts, text)) > 0;)
        status = th_group_agree_on(group, operation, facts, n, 0, NULL);
    return status;
}
