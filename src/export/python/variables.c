/* The variables of the script: their names, and whether backward reaches them. */
#include <inttypes.h>
#include <string.h>

#include "export/python/script.h"
#include "tensor/format.h"
#include "tensor/memory.h"

/* -- names -- */

/* Writes "p_" and a parameter's dotted name, with "_" instead of characters that an identifier must not contain. Other
 * names get "x_". Returns false if the leaf has no name. */
static bool write_leaf_name(const th_tensor_impl *leaf, char name[TH_SCRIPT_NAME])
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

static uint32_t hash_text(const char *text)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash;
}

/* Returns whether a leaf has this name. */
static bool has_name(const th_script *script, int64_t leaf, uint32_t hash, const char *name)
{
    char other_name[TH_SCRIPT_NAME];
    return script->variable[leaf].hash == hash && write_leaf_name(script->listing.tensor[leaf].tensor, other_name) &&
           strcmp(other_name, name) == 0;
}

/* Names a leaf. Further leaves of the same name get the numbers 2, 3, ... The table t has the last leaf of each
 * name. */
static void name_leaf(th_script *script, int64_t tensor, const th_index_table *t, int64_t *unnamed)
{
    th_script_variable *v = &script->variable[tensor];
    char name[TH_SCRIPT_NAME];
    if (!write_leaf_name(script->listing.tensor[tensor].tensor, name)) {
        v->number = (*unnamed)++;
        return;
    }
    v->hash = hash_text(name);
    uint64_t probe = v->hash;
    while (t->slot[probe & t->mask] >= 0 && !has_name(script, t->slot[probe & t->mask], v->hash, name))
        probe++;
    int64_t *last_leaf = &t->slot[probe & t->mask];
    if (*last_leaf >= 0)
        v->number = script->variable[*last_leaf].number ? script->variable[*last_leaf].number + 1 : 2;
    *last_leaf = tensor;
}

const char *th_script_variable_name(const th_script *script, int64_t tensor, char name[TH_SCRIPT_NAME])
{
    const th_script_variable *v = &script->variable[tensor];
    name[0] = 0;
    if (script->listing.tensor[tensor].producer >= 0) {
        th_append(name, TH_SCRIPT_NAME, "y%" PRId64, v->number);
        if (v->output > 0)
            th_append(name, TH_SCRIPT_NAME, "_%d", v->output);
    } else if (!write_leaf_name(script->listing.tensor[tensor].tensor, name)) {
        th_append(name, TH_SCRIPT_NAME, "x%" PRId64, v->number);
    } else if (v->number > 0) {
        th_append(name, TH_SCRIPT_NAME, "__%" PRId64, v->number);
    }
    return name;
}

/* -- what backward reaches -- */

bool th_script_is_reached(const th_script *script, int64_t node)
{
    for (int i = 0; i < th_listing_node(&script->listing, node)->n_outputs; i++) {
        const int64_t output = th_listing_output(&script->listing, node, i);
        if (output >= 0 && script->variable[output].reached)
            return true;
    }
    return false;
}

static void mark_reached(th_script *script)
{
    for (int64_t i = 0; i < script->listing.tensors; i++)
        script->variable[i].reached = script->listing.tensor[i].tensor == script->start;
    for (int64_t n = script->listing.nodes - 1; n >= 0; n--) {
        if (!th_script_is_reached(script, n))
            continue;
        const th_node *node = th_listing_node(&script->listing, n);
        for (int i = 0; i < node->n_inputs; i++)
            if (th_node_input(node, i)->tensor && th_node_input(node, i)->requires_gradient)
                script->variable[th_listing_input(&script->listing, n, i)].reached = true;
    }
}

th_status th_script_name_variables(th_script *script)
{
    th_context *ctx = script->listing.ctx;
    script->variable =
        th_listing_zeros(ctx, script->listing.tensors, sizeof *script->variable, &script->bytes, "tape_write_python");
    if (script->variable == NULL)
        return ctx->error;
    for (int64_t n = 0; n < script->listing.nodes; n++)
        for (int i = 0; i < th_listing_node(&script->listing, n)->n_outputs; i++) {
            const int64_t output = th_listing_output(&script->listing, n, i);
            if (output >= 0)
                script->variable[output] = (th_script_variable){.number = n, .output = i};
        }
    th_index_table table;
    int64_t unnamed = 0;
    if (!th_index_table_init(&table, ctx, script->listing.tensors, "tape_write_python"))
        return ctx->error;
    for (int64_t i = 0; i < script->listing.tensors; i++)
        if (script->listing.tensor[i].producer < 0)
            name_leaf(script, i, &table, &unnamed);
    th_release(ctx, table.slot, table.bytes);
    mark_reached(script);
    return TH_OK;
}
