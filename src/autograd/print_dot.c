/* Prints the tape as a Graphviz graph. */
#include <inttypes.h>
#include <string.h>

#include "autograd/gradient.h"
#include "tapehead/module.h"
#include "tensor/convert.h"
#include "tensor/format.h"
#include "tensor/strided_iterator.h"

enum { TH_LINE_SIZE = 512, SHOWN_ELEMENTS = 8 };

/* Returns the node before `before` with t as output, or -1. */
static int64_t find_producer(const th_tape *tape, const th_tensor_impl *t, int64_t before)
{
    for (int64_t i = before - 1; i >= 0; i--) {
        const th_node *node = th_node_at(tape, i);
        for (int j = 0; j < node->n_outputs; j++)
            if (th_node_output(node, j)->tensor == t)
                return i;
    }
    return -1;
}

/* Finds the first node with t as input, and which input it is. */
static void find_first_use(const th_tape *tape, const th_tensor_impl *t, int64_t *node_index, int *input)
{
    for (*node_index = 0;; ++*node_index) {
        const th_node *node = th_node_at(tape, *node_index);
        for (*input = 0; *input < node->n_inputs; ++*input)
            if (th_node_input(node, *input)->tensor == t)
                return;
    }
}

/* Prints text for use between the quotes of a label. */
static void print_quoted(FILE *file, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', file);
        fputc(*text, file);
    }
}

/* Prints the elements of an array for a label, if they are few: "\n= 1 2 3". */
static void print_elements(FILE *file, const char *before, const th_array *array)
{
    th_iterator iterator;
    if (th_array_numel(array) > SHOWN_ELEMENTS || !th_iterator_build_row_major(&iterator, array, 0, NULL))
        return;
    fputs(before, file);
    th_iterator_position position;
    th_iterator_seek(&iterator, 0, &position);
    for (int64_t i = 0; i < iterator.numel; i++, th_iterator_advance(&iterator, 1, &position))
        th_format_to(file, i ? " %.4g" : "%.4g", th_number_read(array->dtype, position.address[0]));
}

/* Prints value and gradient of a tensor for its label, if th_keep_values keeps them and they have few elements. */
static void print_dot_values(FILE *file, const th_tensor_impl *t)
{
    const th_array value = th_tensor_array(t);
    if (!t->ctx->keep_values || value.data == NULL || th_is_storage_type(t->dtype))
        return;
    print_elements(file, "\\n= ", &value);
    if (!t->requires_gradient || !th_gradient_buffer_is_complete(th_gradient_buffer_of(t)))
        return;
    th_array gradient;
    th_gradient_array(t, &gradient);
    print_elements(file, "\\ngradient ", &gradient);
}

/* Writes the shape: "(B=2, E=3)", or "scalar". */
static const char *format_shape(const th_array *array, char text[TH_LINE_SIZE])
{
    snprintf(text, TH_LINE_SIZE, "%s", array->ndim == 0 ? "scalar" : TH_TEXT(array));
    return text;
}

static void print_dot_node(const th_tape *tape, FILE *file, int64_t index)
{
    const th_node *node = th_node_at(tape, index);
    const th_tensor_impl *result = th_node_output(node, 0)->tensor;
    const th_array output = th_tensor_array(result);
    char shape[TH_LINE_SIZE];
    fprintf(file, "  n%" PRId64 " [label=\"", index);
    if (result->label) {
        print_quoted(file, result->label->name);
        fputs(" = ", file);
    }
    print_quoted(file, node->op->name);
    fprintf(file, "\\n%s", format_shape(&output, shape));
    print_dot_values(file, result);
    fputs("\", tooltip=\"", file);
    print_quoted(file, node->op->gradient ? node->op->gradient : "view");
    fprintf(file, "\"];\n");
}

/* Prints "layers.0.linear1.", or nothing without a module or for one without a parent. */
static void print_module_path(FILE *file, const th_module *m)
{
    if (m == NULL || m->parent == NULL)
        return;
    print_module_path(file, m->parent);
    print_quoted(file, m->name);
    fputc('.', file);
}

/* A leaf of the graph. Its name consists of the node and the input where it is used first. */
typedef struct leaf {
    const th_tensor_impl *tensor; /* NULL: the input is not a leaf */
    int64_t node;
    int input;
} leaf;

static leaf leaf_at(const th_tape *tape, int64_t index, int input)
{
    leaf l = {.tensor = th_node_input(th_node_at(tape, index), input)->tensor};
    if (l.tensor && find_producer(tape, l.tensor, index) >= 0)
        l.tensor = NULL;
    if (l.tensor)
        find_first_use(tape, l.tensor, &l.node, &l.input);
    return l;
}

/* Prints a parameter under its full name, any other leaf under the name of th_set_name or as "input", then type, shape
 * and values. The frame is bold if the leaf requires a gradient, else dashed. */
static void print_dot_leaf(FILE *file, const leaf *l)
{
    const th_array array = th_tensor_array(l->tensor);
    const th_label *label = l->tensor->label;
    char shape[TH_LINE_SIZE];
    fprintf(file, "  t%" PRId64 "_%d [shape=box, style=%s, label=\"", l->node, l->input,
            l->tensor->requires_gradient ? "bold" : "dashed");
    if (label)
        print_module_path(file, label->module);
    print_quoted(file, label ? label->name : "input");
    fprintf(file, "\\n%s %s", th_dtype_name(array.dtype), format_shape(&array, shape));
    print_dot_values(file, l->tensor);
    fputs("\"];\n", file);
}

/* Returns whether a leaf has its name from a module. */
static bool has_module(const th_tensor_impl *t)
{
    return t->label && t->label->module;
}

/* Prints the leaves that a node is the first to use: its parameters, which go into its box, or the others. */
static void print_dot_leaves(const th_tape *tape, FILE *file, int64_t index, bool parameters)
{
    const th_node *node = th_node_at(tape, index);
    for (int i = 0; i < node->n_inputs; i++) {
        const leaf l = leaf_at(tape, index, i);
        if (l.tensor && l.node == index && l.input == i && has_module(l.tensor) == parameters)
            print_dot_leaf(file, &l);
    }
}

/* Prints the edges that lead to a node, from other nodes or from leaves. */
static void print_dot_edges(const th_tape *tape, FILE *file, int64_t index)
{
    const th_node *node = th_node_at(tape, index);
    for (int i = 0; i < node->n_inputs; i++) {
        const th_tensor_impl *t = th_node_input(node, i)->tensor;
        if (t == NULL)
            continue;
        const leaf l = leaf_at(tape, index, i);
        if (l.tensor)
            fprintf(file, "  t%" PRId64 "_%d -> n%" PRId64 ";\n", l.node, l.input, index);
        else
            fprintf(file, "  n%" PRId64 " -> n%" PRId64 ";\n", find_producer(tape, t, index), index);
    }
}

th_status th_tape_print_dot(th_context *ctx, FILE *file)
{
    if (ctx == NULL || file == NULL)
        return ctx ? th_fail(ctx, TH_ERROR_ARGUMENT, "tape_print_dot", "the file is NULL") : TH_ERROR_ARGUMENT;
    /* The title of a box is at the top left, where few edges enter. The margin separates it from the nodes. */
    fprintf(file, "digraph tape {\n  graph [fontname=\"sans-serif\", fontsize=11, labeljust=l, ranksep=0.4];\n"
                  "  node [shape=ellipse, fontname=\"sans-serif\"];\n");
    /* Each module becomes a box around its nodes. Edges come after all boxes, because an edge in a box would put both
     * of its ends there. */
    const char *open_path = "";
    int boxes = 0;
    for (int64_t i = 0; i < th_tape_length(ctx); i++) {
        const char *path = th_node_at(ctx->tape, i)->path;
        if (strcmp(path, open_path) != 0) {
            if (open_path[0])
                fprintf(file, "  }\n");
            if (path[0]) {
                fprintf(file, "  subgraph cluster_%d {\n  label=\"", boxes++);
                print_quoted(file, path);
                fprintf(file, "\"; style=rounded; margin=16;\n");
            }
            open_path = path;
        }
        print_dot_leaves(ctx->tape, file, i, true);
        print_dot_node(ctx->tape, file, i);
    }
    fprintf(file, "%s", open_path[0] ? "  }\n" : "");
    for (int64_t i = 0; i < th_tape_length(ctx); i++) {
        print_dot_leaves(ctx->tape, file, i, false);
        print_dot_edges(ctx->tape, file, i);
    }
    fprintf(file, "}\n");
    return fflush(file) || ferror(file) ? th_fail(ctx, TH_ERROR_FILE, "tape_print_dot", "writing failed") : TH_OK;
}
