/* The function compute() of the script: the leaves, a line for each node, and backward. PyTorch's script calls
 * autograd; NumPy's script calls the rule of each node, from the last to the first. */
#include <inttypes.h>
#include <string.h>

#include "export/python/script.h"
#include "tensor/format.h"

static void put_variable(const th_script *script, int64_t tensor)
{
    char name[TH_SCRIPT_NAME];
    fputs(tensor < 0 ? "None" : th_script_variable_name(script, tensor, name), script->file);
}

static void put_shape(const th_script *script, const th_tensor_impl *t)
{
    const th_array array = th_tensor_array(t);
    fprintf(script->file, "%s ", th_dtype_name(t->dtype));
    th_script_put_text(script->file, TH_TEXT(&array));
}

/* -- leaves -- */

static void put_leaf(const th_script *script, int64_t tensor)
{
    const th_tensor_impl *t = script->listing.tensor[tensor].tensor;
    char name[TH_SCRIPT_NAME], full[TH_LISTED_NAME];
    th_script_variable_name(script, tensor, name);
    const bool differentiated = t->requires_gradient && !script->numpy;
    fprintf(script->file, "    %s = %s(\"%s\")  # ", name, differentiated ? "leaf" : "given", name);
    if (th_listing_name(t, full)[0]) {
        th_script_put_text(script->file, full);
        fputs(", ", script->file);
    }
    put_shape(script, t);
    fputc('\n', script->file);
}

/* -- nodes -- */

static void put_location(const th_script *script, const th_node *node, int64_t index)
{
    fprintf(script->file, "  # node %" PRId64, index);
    if (node->path[0]) {
        fputs(" in ", script->file);
        th_script_put_text(script->file, node->path);
    }
    if (node->file) {
        fputs(", ", script->file);
        th_script_put_text(script->file, th_base_name(node->file));
        fprintf(script->file, ":%d", node->line);
    }
}

static void put_arguments(const th_script *script, int64_t index)
{
    const th_node *node = th_listing_node(&script->listing, index);
    const bool list = node->op->n_inputs == TH_ANY_INPUTS;
    fputs(list ? "[" : "", script->file);
    for (int i = 0; i < node->n_inputs; i++) {
        fputs(i ? ", " : "", script->file);
        put_variable(script, th_listing_input(&script->listing, index, i));
    }
    fputs(list ? "]" : "", script->file);
    th_script_put_attributes(script, index);
    th_script_put_kept(script, index);
    fputc(')', script->file);
}

static void put_node(const th_script *script, int64_t index)
{
    const th_node *node = th_listing_node(&script->listing, index);
    fputs("    ", script->file);
    for (int i = 0; i < node->n_outputs; i++) {
        const int64_t output = th_listing_output(&script->listing, index, i);
        fputs(i ? ", " : "", script->file);
        if (output < 0)
            fputc('_', script->file);
        else
            put_variable(script, output);
    }
    fprintf(script->file, " = th_%s(", node->op->name);
    put_arguments(script, index);
    put_location(script, node, index);
    fputs(", ", script->file);
    put_shape(script, th_node_output(node, 0)->tensor);
    fputc('\n', script->file);
}

/* -- backward with NumPy's formulas -- */

static bool is_differentiable(const th_op *op, int output)
{
    return (op->differentiable_outputs ? op->differentiable_outputs : 1) >> output & 1;
}

static void put_output_gradients(const th_script *script, int64_t index)
{
    const th_node *node = th_listing_node(&script->listing, index);
    for (int i = 0; i < node->n_outputs; i++) {
        const int64_t output = th_listing_output(&script->listing, index, i);
        if (!is_differentiable(node->op, i))
            continue;
        const bool reached = output >= 0 && script->variable[output].reached;
        fputs(reached ? "d_" : "", script->file);
        put_variable(script, reached ? output : -1);
        fputs(", ", script->file);
    }
}

/* Returns whether a node's rule computes a gradient of input i. */
static bool is_wanted(const th_script *script, int64_t index, int i)
{
    return th_listing_input(&script->listing, index, i) >= 0 &&
           th_node_input(th_listing_node(&script->listing, index), i)->requires_gradient;
}

/* Registers the gradient of input i. Returns true if it has to be added to one that an earlier rule computed. Repeated
 * calls return the same. */
static bool register_gradient(const th_script *script, int64_t index, int i)
{
    int64_t *begun = &script->variable[th_listing_input(&script->listing, index, i)].first_rule;
    const int64_t position = 1 + script->listing.first_operand[index] + i;
    if (*begun == 0)
        *begun = position;
    return *begun != position;
}

/* Writes "d_" and the variable of input i; "_" if its gradient is not wanted. A gradient that is added to another one
 * first has the name more0, more1, ... */
static void put_target(const th_script *script, int64_t index, int i)
{
    if (!is_wanted(script, index, i)) {
        fputc('_', script->file);
    } else if (register_gradient(script, index, i)) {
        fprintf(script->file, "more%d", i);
    } else {
        fputs("d_", script->file);
        put_variable(script, th_listing_input(&script->listing, index, i));
    }
}

static void put_rule(const th_script *script, int64_t index)
{
    const th_node *node = th_listing_node(&script->listing, index);
    const bool list = node->op->n_inputs == TH_ANY_INPUTS;
    fputs(list ? "    [" : "    ", script->file);
    for (int i = 0; i < node->n_inputs; i++) {
        fputs(i ? ", " : "", script->file);
        put_target(script, index, i);
    }
    fprintf(script->file, "%s = th_%s_gradient(", list ? "]" : "", node->op->name);
    put_output_gradients(script, index);
    put_arguments(script, index);
    put_location(script, node, index);
    fputc('\n', script->file);
    for (int i = 0; i < node->n_inputs; i++) {
        if (!is_wanted(script, index, i) || !register_gradient(script, index, i))
            continue;
        char name[TH_SCRIPT_NAME];
        th_script_variable_name(script, th_listing_input(&script->listing, index, i), name);
        fprintf(script->file, "    d_%s = d_%s + more%d\n", name, name, i);
    }
}

static void put_backward(const th_script *script, int64_t start)
{
    char name[TH_SCRIPT_NAME];
    th_script_variable_name(script, start, name);
    if (!script->numpy) {
        fprintf(
            script->file,
            "    for name in GRADIENTS:\n        values[name].retain_grad()\n    %s.backward(given(\"cotangent\"))\n"
            "    return values, {name: values[name].grad for name in GRADIENTS}\n",
            name);
        return;
    }
    fprintf(script->file,
            "\n    # backward: the rule of each node, from the last to the first\n    d_%s = given(\"cotangent\")\n",
            name);
    script->variable[start].first_rule = -1;
    for (int64_t n = script->listing.nodes - 1; n >= 0; n--)
        if (th_script_is_reached(script, n))
            put_rule(script, n);
    fputs("    return values, {name[2:]: d for name, d in locals().items() if name.startswith(\"d_\")}\n",
          script->file);
}

void th_script_put_compute(th_script *script)
{
    fputs("def compute():\n    \"\"\"Returns all values and gradients by name.\"\"\"\n    # leaves\n", script->file);
    for (int64_t i = 0; i < script->listing.tensors; i++)
        if (script->listing.tensor[i].producer < 0)
            put_leaf(script, i);
    fputs("\n    # forward: a line for each node of the tape\n", script->file);
    for (int64_t n = 0; n < script->listing.nodes; n++)
        put_node(script, n);
    fputs("    values = dict(locals())\n", script->file);
    const int64_t start = th_listing_find(&script->listing, script->start);
    if (start >= 0)
        put_backward(script, start);
    else
        fputs("    return values, {}\n", script->file);
}
