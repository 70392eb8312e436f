/* Prints the tape: a line for each node, optionally formulas and matrices. print_dot.c prints it as a graph. */
#include <inttypes.h>
#include <string.h>

#include "autograd/frame.h"
#include "autograd/gradient.h"
#include "tensor/checked.h"
#include "tensor/format.h"

enum { TH_LINE_SIZE = 512 };

static size_t bytes_held_by(const th_node *node)
{
    size_t bytes = 0;
    for (int i = 0; i < node->n_inputs + node->n_outputs; i++) {
        const th_operand_record *operand = &node->operand[i];
        if (operand->saved == TH_SAVED_HELD && !operand->tensor->storage->owned)
            bytes += operand->tensor->storage->bytes;
    }
    return bytes;
}

/* Writes what the file still buffers. Returns an error if this, or anything before, could not be written. */
static th_status finish_file(th_context *ctx, FILE *file, const char *operation)
{
    return fflush(file) || ferror(file) ? th_fail(ctx, TH_ERROR_FILE, operation, "writing failed") : TH_OK;
}

static bool check_index(th_context *ctx, int64_t index)
{
    if (ctx->tape && index >= 0 && index < ctx->tape->nodes.count)
        return true;
    th_fail(ctx, TH_ERROR_INDEX, "tape_node", "node %" PRId64 " of a tape of %" PRId64, index, th_tape_length(ctx));
    return false;
}

th_status th_tape_node(th_context *ctx, int64_t index, th_node_info *info)
{
    if (ctx == NULL || info == NULL)
        return ctx ? th_fail(ctx, TH_ERROR_ARGUMENT, "tape_node", "the information is NULL") : TH_ERROR_ARGUMENT;
    if (!check_index(ctx, index))
        return ctx->error;
    const th_node *node = th_node_at(ctx->tape, index);
    *info = (th_node_info){
        .operation = node->op->name,
        .module = node->path,
        .file = node->file,
        .line = node->line,
        .multiply_adds = th_node_multiply_adds(ctx, node),
        .saved_bytes = th_node_saved_bytes(ctx->tape, index, true),
        .n_inputs = node->n_inputs,
        .n_outputs = node->n_outputs,
    };
    return TH_OK;
}

/* Writes the operands' shapes: "(B=2, T=4, E=8) (8, 8) -> (B=2, T=4, 8)". */
static void format_shapes(const th_node *node, char *text, size_t size)
{
    text[0] = 0;
    for (int i = 0; i < node->n_inputs + node->n_outputs; i++) {
        const th_tensor_impl *t = node->operand[i].tensor;
        if (i == node->n_inputs)
            th_append(text, size, "%s->", text[0] ? " " : "");
        if (t == NULL)
            continue;
        const th_array array = th_tensor_array(t);
        th_append(text, size, "%s%s", text[0] ? " " : "", TH_TEXT(&array));
    }
}

/* Writes the saved operands: "x0,y0" (x: inputs, y: outputs); one in parentheses is recomputed. */
static void format_saved_operands(const th_node *node, char *text, size_t size)
{
    text[0] = 0;
    for (int i = 0; i < node->n_inputs + node->n_outputs; i++) {
        const th_saved saved = node->operand[i].saved;
        if (saved == TH_SAVED_NOT)
            continue;
        const bool input = i < node->n_inputs;
        const char *format = saved == TH_SAVED_RECOMPUTED ? "%s(%c%d)" : "%s%c%d";
        th_append(text, size, format, text[0] ? "," : "", input ? 'x' : 'y', input ? i : i - node->n_inputs);
    }
}

static void print_node_line(th_context *ctx, FILE *file, int64_t index)
{
    const th_node *node = th_node_at(ctx->tape, index);
    char shapes[TH_LINE_SIZE], saves[TH_LINE_SIZE];
    format_shapes(node, shapes, sizeof shapes);
    format_saved_operands(node, saves, sizeof saves);
    fprintf(file, "%4" PRId64 "  %-18s %-28s %-52s %12" PRId64 " %11zu  %s\n", index, node->op->name,
            node->path[0] ? node->path : "-", shapes, th_node_multiply_adds(ctx, node), bytes_held_by(node), saves);
}

static th_status print_matrix(FILE *file, const char *title, th_tensor_impl *t)
{
    fprintf(file, "      %s =\n", title);
    const th_life life = t->life;
    t->life = TH_LIFE_LIVE; /* th_print refuses tensors whose scope has ended */
    const th_status status = th_print(t->handle, file, NULL);
    t->life = life;
    return status;
}

/* Prints the formulas that the operation's descriptor has. */
static void print_formulas(FILE *file, const th_op *op)
{
    const char *gradient = op->gradient             ? op->gradient
                           : op->flags & TH_OP_VIEW ? "a view: its gradient is the same view"
                                                    : NULL;
    if (op->value)
        fprintf(file, "      %s\n", op->value);
    if (gradient)
        fprintf(file, "      %s\n", gradient);
}

static th_status print_values(th_context *ctx, FILE *file, const th_node *node)
{
    for (int i = 0; i < node->n_outputs; i++) {
        th_tensor_impl *output = th_node_output(node, i)->tensor;
        if (output == NULL || output->storage->dropped || ctx->options.shapes_only)
            continue;
        if (print_matrix(file, i ? "value of another output" : "value", output) != TH_OK)
            return ctx->error;
        const th_gradient_buffer *buffer = th_gradient_buffer_of(output);
        if (!th_gradient_buffer_is_finished(buffer) || buffer->kind == TH_GRADIENT_OF_LEAF)
            continue;
        th_tensor_impl *gradient = th_gradient_tensor(output);
        if (gradient == NULL || print_matrix(file, "gradient", gradient) != TH_OK)
            return ctx->error;
    }
    return TH_OK;
}

th_status th_tape_print(th_context *ctx, FILE *file, const th_tape_print_options *options)
{
    if (ctx == NULL || file == NULL)
        return ctx ? th_fail(ctx, TH_ERROR_ARGUMENT, "tape_print", "the file is NULL") : TH_ERROR_ARGUMENT;
    const th_tape_print_options defaults = {0};
    options = options ? options : &defaults;
    fprintf(file, "%4s  %-18s %-28s %-52s %12s %11s  %s\n", "node", "operation", "module", "shapes", "mul-adds",
            "saved bytes", "saves");
    int64_t multiply_adds = 0;
    size_t saved = 0;
    for (int64_t i = 0; i < th_tape_length(ctx); i++) {
        const th_node *node = th_node_at(ctx->tape, i);
        print_node_line(ctx, file, i);
        if (!th_checked_add(multiply_adds, th_node_multiply_adds(ctx, node), &multiply_adds))
            multiply_adds = INT64_MAX;
        saved += th_node_saved_bytes(ctx->tape, i, true);
        if (options->formulas)
            print_formulas(file, node->op);
        if (options->values && print_values(ctx, file, node) != TH_OK)
            return ctx->error;
    }
    const th_memory_usage memory = th_memory(ctx);
    fprintf(file,
            "%" PRId64 " nodes, %" PRId64
            " multiply-adds forward, %zu bytes saved for backward, %zu bytes live, %zu at peak\n",
            th_tape_length(ctx), multiply_adds, saved, memory.live, memory.peak);
    return finish_file(ctx, file, "tape_print");
}
