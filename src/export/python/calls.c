/* The function compute() of the script: the leaves, a line for each node, and backward. PyTorch's script calls
 * autograd; NumPy's script calls the rule of each node, from the last to the first. */
#include <inttypes.h>
#include <string.h>

#include "export/python/script.h"
#include "tensor/format.h"

static void put_variable(const th_script *s, int64_t tensor)
{
    char name[TH_SCRIPT_NAME];
    fputs(tensor < 0 ? "None" : th_script_variable_name(s, tensor, name), s->file);
}

static void put_shape(const th_script *s, const th_tensor_impl *t)
{
    const th_array array = th_tensor_array(t);
    fprintf(s->file, "%s ", th_dtype_name(t->dtype));
    th_script_put_text(s->file, TH_TEXT(&array));
}

/* -- leaves -- */

static void put_leaf(const th_script *s, int64_t tensor)
{
    const th_tensor_impl *t = s->listing.tensor[tensor].tensor;
    char name[TH_SCRIPT_NAME], full[TH_LISTED_NAME];
    th_script_variable_name(s, tensor, name);
    const bool differentiated = t->requires_gradient && !s->numpy;
    fprintf(s->file, "    %s = %s(\"%s\")  # ", name, differentiated ? "leaf" : "given", name);
    if (th_listing_name(t, full)[0]) {
        th_script_put_text(s->file, full);
        fputs(", ", s->file);
    }
    put_shape(s, t);
    fputc('\n', s->file);
}

/* -- nodes -- */

static void put_location(const th_script *s, const th_node *node, int64_t index)
{
    fprintf(s->file, "  # node %" PRId64, index);
    if (node->path[0]) {
        fputs(" in ", s->file);
        th_script_put_text(s->file, node->path);
    }
    if (node->file) {
        fputs(", ", s->file);
        th_script_put_text(s->file, th_base_name(node->file));
        fprintf(s->file, ":%d", node->line);
    }
}

static void put_arguments(const th_script *s, int64_t index)
{
    const th_node *node = th_listing_node(&s->listing, index);
    const bool list = node->op->n_inputs == TH_ANY_INPUTS;
    fputs(list ? "[" : "", s->file);
    for (int i = 0; i < node->n_inputs; i++) {
        fputs(i ? ", " : "", s->file);
        put_variable(s, th_listing_input(&s->listing, index, i));
    }
    fputs(list ? "]" : "", s->file);
    th_script_put_attributes(s, index);
    th_script_put_kept(s, index);
    fputc(')', s->file);
}

static void put_node(const th_script *s, int64_t index)
{
    const th_node *node = th_listing_node(&s->listing, index);
    fputs("    ", s->file);
    for (int i = 0; i < node->n_outputs; i++) {
        const int64_t output = th_listing_output(&s->listing, index, i);
        fputs(i ? ", " : "", s->file);
        if (output < 0)
            fputc('_', s->file);
        else
            put_variable(s, output);
    }
    fprintf(s->file, " = th_%s(", node->op->name);
    put_arguments(s, index);
    put_location(s, node, index);
    fputs(", ", s->file);
    put_shape(s, th_node_output(node, 0)->tensor);
    fputc('\n', s->file);
}

/* -- backward with NumPy's formulas -- */

static bool is_differentiable(const th_op *op, int output)
{
    return (op->differentiable_outputs ? op->differentiable_outputs : 1) >> output & 1;
}

static void put_output_gradients(const th_script *s, int64_t index)
{
    const th_node *node = th_listing_node(&s->listing, index);
    for (int i = 0; i < node->n_outputs; i++) {
        const int64_t output = th_listing_output(&s->listing, index, i);
        if (!is_differentiable(node->op, i))
            continue;
        const bool reached = output >= 0 && s->variable[output].reached;
        fputs(reached ? "d_" : "", s->file);
        put_variable(s, reached ? output : -1);
        fputs(", ", s->file);
    }
}

/* Returns whether a node's rule computes a gradient of input i. */
static bool is_wanted(const th_script *s, int64_t index, int i)
{
    return th_listing_input(&s->listing, index, i) >= 0 &&
           th_node_input(th_listing_node(&s->listing, index), i)->requires_gradient;
}

/* Registers the gradient of input i. Returns true if it has to be added to one that an earlier rule computed. Repeated
 * calls return the same. */
static bool register_gradient(const th_script *s, int64_t index, int i)
{
    int64_t *begun = &s->variable[th_listing_input(&s->listing, index, i)].first_rule;
    const int64_t position = 1 + s->listing.first_operand[index] + i;
    if (*begun == 0)
        *begun = position;
    return *begun != position;
}

/* Writes "d_" and the variable of input i; "_" if its gradient is not wanted. A gradient that is added to another one
 * first has the name more0, more1, ... */
static void put_target(const th_script *s, int64_t index, int i)
{
    if (!is_wanted(s, index, i)) {
        fputc('_', s->file);
    } else if (register_gradient(s, index, i)) {
        fprintf(s->file, "more%d", i);
    } else {
        fputs("d_", s->file);
        put_variable(s, th_listing_input(&s->listing, index, i));
    }
}

static void put_rule(const th_script *s, int64_t index)
{
    const th_node *node = th_listing_node(&s->listing, index);
    const bool list = node->op->n_inputs == TH_ANY_INPUTS;
    fputs(list ? "    [" : "    ", s->file);
    for (int i = 0; i < node->n_inputs; i++) {
        fputs(i ? ", " : "", s->file);
        put_target(s, index, i);
    }
    fprintf(s->file, "%s = th_%s_gradient(", list ? "]" : "", node->op->name);
    put_output_gradients(s, index);
    put_arguments(s, index);
    put_location(s, node, index);
    fputc('\n', s->file);
    for (int i = 0; i < node->n_inputs; i++) {
        if (!is_wanted(s, index, i) || !register_gradient(s, index, i))
            continue;
        char name[TH_SCRIPT_NAME];
        th_script_variable_name(s, th_listing_input(&s->listing, index, i), name);
        fprintf(s->file, "    d_%s = d_%s + more%d\n", name, name, i);
    }
}

static void put_backward(const th_script *s, int64_t start)
{
    char name[TH_SCRIPT_NAME];
    th_script_variable_name(s, start, name);
    if (!s->numpy) {
        fprintf(
            s->file,
            "    for name in GRADIENTS:\n        values[name].retain_grad()\n    %s.backward(given(\"cotangent\"))\n"
            "    return values, {name: values[name].grad for name in GRADIENTS}\n",
            name);
        return;
    }
    fprintf(s->file,
            "\n    # backward: the rule of each node, from the last to the first\n    d_%s = given(\"cotangent\")\n",
            name);
    s->variable[start].first_rule = -1;
    for (int64_t n = s->listing.nodes - 1; n >= 0; n--)
        if (th_script_is_reached(s, n))
            put_rule(s, n);
    fputs("    return values, {name[2:]: d for name, d in locals().items() if name.startswith(\"d_\")}\n", s->file);
}

void th_script_put_compute(th_script *s)
{
    fputs("def compute():\n    \"\"\"Returns all values and gradients by name.\"\"\"\n    # leaves\n", s->file);
    for (int64_t i = 0; i < s->listing.tensors; i++)
        if (s->listing.tensor[i].producer < 0)
            put_leaf(s, i);
    fputs("\n    # forward: a line for each node of the tape\n", s->file);
    for (int64_t n = 0; n < s->listing.nodes; n++)
        put_node(s, n);
    fputs("    values = dict(locals())\n", s->file);
    const int64_t start = th_listing_find(&s->listing, s->start);
    if (start >= 0)
        put_backward(s, start);
    else
        fputs("    return values, {}\n", s->file);
}
