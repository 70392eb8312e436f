/* The variables of the script: their names, and whether backward reaches them. */
#include <inttypes.h>
#include <string.h>

#include "export/python/script.h"
#include "tensor/format.h"
#include "tensor/memory.h"

/* -- names -- */

/* Writes "p_" and a parameter's dotted name, with "_" instead of characters that an identifier must not contain. Other
 * names get "x_". Returns false if the leaf has no name. */
static bool leaf_name(const th_tensor_impl *leaf, char name[TH_SCRIPT_NAME])
{
    char full[TH_LISTED_NAME];
    if (th_listing_name(leaf, full)[0] == 0)
        return false;
    snprintf(name, TH_SCRIPT_NAME, "%c_%s", leaf->parameter ? 'p' : 'x', full);
    for (char *c = name; *c; c++)
        if (!((*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z')))
            *c = '_';
    return true;
}

static uint32_t hash_of(const char *text)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash;
}

/* Returns 0, or a number from 2 on if earlier leaves have the same name. */
static int64_t number_of_name(const th_script *s, int64_t tensor, const char *name)
{
    int64_t same = 0;
    for (int64_t i = 0; i < tensor; i++) {
        char other[TH_SCRIPT_NAME];
        if (s->listing.tensor[i].producer < 0 && s->variable[i].hash == s->variable[tensor].hash &&
            leaf_name(s->listing.tensor[i].tensor, other) && strcmp(other, name) == 0)
            same++;
    }
    return same ? same + 1 : 0;
}

static void name_leaf(th_script *s, int64_t tensor, int64_t *unnamed)
{
    th_script_variable *v = &s->variable[tensor];
    char name[TH_SCRIPT_NAME];
    if (leaf_name(s->listing.tensor[tensor].tensor, name)) {
        v->hash = hash_of(name);
        v->number = number_of_name(s, tensor, name);
    } else {
        v->number = (*unnamed)++;
    }
}

const char *th_script_variable_name(const th_script *s, int64_t tensor, char name[TH_SCRIPT_NAME])
{
    const th_script_variable *v = &s->variable[tensor];
    name[0] = 0;
    if (s->listing.tensor[tensor].producer >= 0) {
        th_append(name, TH_SCRIPT_NAME, "y%" PRId64, v->number);
        if (v->output > 0)
            th_append(name, TH_SCRIPT_NAME, "_%d", v->output);
    } else if (!leaf_name(s->listing.tensor[tensor].tensor, name)) {
        th_append(name, TH_SCRIPT_NAME, "x%" PRId64, v->number);
    } else if (v->number > 0) {
        th_append(name, TH_SCRIPT_NAME, "__%" PRId64, v->number);
    }
    return name;
}

/* -- what backward reaches -- */

bool th_script_reached(const th_script *s, int64_t node)
{
    for (int i = 0; i < th_listing_node(&s->listing, node)->n_outputs; i++) {
        const int64_t output = th_listing_output(&s->listing, node, i);
        if (output >= 0 && s->variable[output].reached)
            return true;
    }
    return false;
}

static void mark_reached(th_script *s)
{
    for (int64_t i = 0; i < s->listing.tensors; i++)
        s->variable[i].reached = s->listing.tensor[i].tensor == s->start;
    for (int64_t n = s->listing.nodes - 1; n >= 0; n--) {
        if (!th_script_reached(s, n))
            continue;
        const th_node *node = th_listing_node(&s->listing, n);
        for (int i = 0; i < node->n_inputs; i++)
            if (th_node_input(node, i)->tensor && th_node_input(node, i)->requires_gradient)
                s->variable[th_listing_input(&s->listing, n, i)].reached = true;
    }
}

th_status th_script_name_variables(th_script *s)
{
    th_context *ctx = s->listing.ctx;
    s->variable = th_listing_zeros(ctx, s->listing.tensors, sizeof *s->variable, &s->bytes, "tape_write_python");
    if (s->variable == NULL)
        return ctx->error;
    for (int64_t n = 0; n < s->listing.nodes; n++)
        for (int i = 0; i < th_listing_node(&s->listing, n)->n_outputs; i++) {
            const int64_t output = th_listing_output(&s->listing, n, i);
            if (output >= 0)
                s->variable[output] = (th_script_variable){.number = n, .output = i};
        }
    int64_t unnamed = 0;
    for (int64_t i = 0; i < s->listing.tensors; i++)
        if (s->listing.tensor[i].producer < 0)
            name_leaf(s, i, &unnamed);
    mark_reached(s);
    return TH_OK;
}
