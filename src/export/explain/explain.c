/* th_tape_explain: one element of a gradient as the sum of what each node contributed, in the order of backward. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "export/contribution.h"
#include "export/explain/explain.h"
#include "kernels/sizes.h"
#include "tapehead/export.h"
#include "tensor/format.h"

static const char operation[] = "tape_explain";

typedef struct explanation {
    th_listing listing;
    th_contributions contributions;
    FILE *file;
    int digits;
    int64_t tensor; /* whose gradient is explained: the root of the given one */
    th_element element;
    int64_t count; /* contributions printed */
    double sum;    /* of these contributions */
} explanation;

/* -- parts of the text -- */

static void put_number(const explanation *e, double number)
{
    if (isnan(number))
        fputs("nan", e->file);
    else
        th_format_to(e->file, "%.*g", e->digits, number);
}

static void put_element(const explanation *e, const char *name, int ndim, const th_element *element)
{
    fputs(name, e->file);
    for (int d = 0; d < ndim; d++)
        fprintf(e->file, "%s%" PRId64, d ? ", " : "[", element->index[d]);
    fputs(ndim ? "]" : "", e->file);
}

/* Writes the name of a tensor. Without a name, a result is y12 (node 12) or y12_1 (its second result), and a leaf is
 * "the leaf". */
static void tensor_name(const explanation *e, int64_t tensor, char name[TH_LISTED_NAME])
{
    const th_listed *t = &e->listing.tensor[tensor];
    if (th_listing_name(t->tensor, name)[0])
        return;
    if (t->producer < 0)
        th_append(name, TH_LISTED_NAME, "the leaf");
    for (int i = 0; t->producer >= 0 && i < th_listing_node(&e->listing, t->producer)->n_outputs; i++)
        if (th_listing_output(&e->listing, t->producer, i) == tensor)
            th_append(name, TH_LISTED_NAME, i ? "y%" PRId64 "_%d" : "y%" PRId64, t->producer, i);
}

/* Writes the name of an operand: its own, or x1 for input 1. */
static void operand_name(const explanation *e, int64_t node, int input, char name[TH_LISTED_NAME])
{
    const int64_t tensor = th_listing_input(&e->listing, node, input);
    if (th_listing_name(e->listing.tensor[tensor].tensor, name)[0] == 0)
        th_append(name, TH_LISTED_NAME, "x%d", input);
}

static void put_title(const explanation *e, const char *before, int64_t tensor, const th_element *element)
{
    char name[TH_LISTED_NAME];
    tensor_name(e, tensor, name);
    fputs(before, e->file);
    put_element(e, name, e->listing.tensor[tensor].tensor->ndim, element);
}

/* -- terms -- */

static void put_term(const explanation *e, int64_t node, const th_term *term)
{
    const th_tensor_impl *output = th_node_output(th_listing_node(&e->listing, node), term->output)->tensor;
    fputs("        ", e->file);
    put_number(e, term->value);
    fputs(" = ", e->file);
    put_number(e, term->dy);
    fputs(" * ", e->file);
    put_number(e, term->factor);
    fputs("    ", e->file);
    put_element(e, term->output ? "dy1" : "dy", output->ndim, &term->output_element);
    if (term->has_source && term->source.input >= 0) {
        char name[TH_LISTED_NAME];
        operand_name(e, node, term->source.input, name);
        fputs(" * ", e->file);
        put_element(e, name, th_node_input(th_listing_node(&e->listing, node), term->source.input)->tensor->ndim,
                    &term->source.element);
    } else if (!term->has_source) {
        put_title(e, " * derivative of ", th_listing_output(&e->listing, node, term->output), &term->output_element);
    }
    fputc('\n', e->file);
}

static th_status put_terms(explanation *e, int64_t node, int input)
{
    th_terms terms;
    if (th_split_terms(&e->listing, node, input, &e->element, &terms) != TH_OK)
        return e->listing.ctx->error;
    for (int i = 0; i < terms.count; i++)
        put_term(e, node, &terms.term[i]);
    if (terms.others > 0) {
        fprintf(e->file, "        and %" PRId64 " smaller terms, together ", terms.others);
        put_number(e, terms.others_sum);
        fputc('\n', e->file);
    }
    return TH_OK;
}

/* -- nodes -- */

static th_status put_contribution(explanation *e, int64_t index, int input, const th_contribution *contribution)
{
    const th_node *node = th_listing_node(&e->listing, index);
    const double number = th_element_value(&contribution->gradient, &e->element);
    fputs("    ", e->file);
    put_number(e, number);
    fprintf(e->file, "    node %" PRId64 ", %s", index, node->op->name);
    if (node->path[0])
        fprintf(e->file, " in %s", node->path);
    if (node->file)
        fprintf(e->file, ", %s:%d", th_base_name(node->file), node->line);
    if (contribution->how == TH_HOW_VIEW)
        fputs(": the gradient of a view of it", e->file);
    else if (node->op->gradient)
        fprintf(e->file, ": %s", node->op->gradient);
    fputc('\n', e->file);
    e->count++;
    e->sum += number;
    return contribution->how == TH_HOW_VIEW ? TH_OK : put_terms(e, index, input);
}

static th_status put_contributions(explanation *e)
{
    for (int64_t n = e->listing.nodes - 1; n >= 0; n--) {
        const th_node *node = th_listing_node(&e->listing, n);
        for (int i = 0; i < node->n_inputs; i++) {
            const th_contribution *c = th_contribution_of(&e->contributions, &e->listing, n, i);
            if (th_listing_input(&e->listing, n, i) == e->tensor && c->how != TH_HOW_NONE &&
                put_contribution(e, n, i, c) != TH_OK)
                return e->listing.ctx->error;
        }
    }
    return TH_OK;
}

/* Writes the gradient with which backward began, if it began at this tensor or at a view of it. */
static void put_start(explanation *e, const th_array *gradient)
{
    const th_tensor_impl *start = e->listing.ctx->tape->passes.start;
    if (start->gradient_view.root != e->listing.tensor[e->tensor].tensor)
        return;
    e->count++;
    e->sum += th_element_value(gradient, &e->element);
    fputs("    ", e->file);
    put_number(e, th_element_value(gradient, &e->element));
    fputs("    backward began here\n", e->file);
}

static th_status explain_root(explanation *e)
{
    th_array gradient;
    if (!th_listing_gradient(e->listing.tensor[e->tensor].tensor, &gradient))
        return th_fail(e->listing.ctx, TH_ERROR_STATE, operation,
                       "the tensor has no gradient: backward did not reach it");
    put_start(e, &gradient);
    if (put_contributions(e) != TH_OK)
        return e->listing.ctx->error;
    fputs("    ", e->file);
    put_number(e, e->sum);
    fprintf(e->file, "    is the sum of %" PRId64 " contribution%s; the gradient is ", e->count,
            e->count == 1 ? "" : "s");
    put_number(e, th_element_value(&gradient, &e->element));
    fputc('\n', e->file);
    return TH_OK;
}

/* -- the tensor -- */

/* Returns the element of a root at an offset of its gradient, whose axes do not overlap. */
static th_element element_at(const th_tensor_impl *root, int64_t offset)
{
    th_element element = {{0}};
    for (int axes_done = 0; axes_done < root->ndim; axes_done++) {
        int largest = -1; /* of the axes that have not been divided by */
        for (int d = 0; d < root->ndim; d++) {
            const int64_t stride = root->size[d] > 1 ? root->gradient_view.stride[d] : 0;
            if (stride > 0 && stride <= offset && (largest < 0 || stride > root->gradient_view.stride[largest]))
                largest = d;
        }
        if (largest < 0)
            break;
        element.index[largest] = offset / root->gradient_view.stride[largest];
        offset %= root->gradient_view.stride[largest];
    }
    return element;
}

static th_status explain(explanation *e, const th_tensor_impl *t, const th_element *element)
{
    th_context *ctx = e->listing.ctx;
    const th_tensor_impl *root = t->gradient_view.root;
    const int64_t tensor_index = th_listing_find(&e->listing, t);
    e->tensor = root ? th_listing_find(&e->listing, root) : -1;
    if (tensor_index < 0 || e->tensor < 0 || ctx->tape->passes.count == 0)
        return th_fail(ctx, TH_ERROR_STATE, operation, "the tensor has no gradient: backward did not reach it");
    e->digits = t->dtype == TH_FLOAT32 ? 7 : 12;
    e->element = *element;
    put_title(e, "gradient of ", tensor_index, element);
    if (t != root) {
        const int64_t offset = t->gradient_view.offset + th_offset_of(t->ndim, element->index, t->gradient_view.stride);
        e->element = element_at(root, offset);
        put_title(e, ", a view: the gradient of ", e->tensor, &e->element);
    }
    fputc('\n', e->file);
    return explain_root(e);
}

th_status th_tape_explain(th_context *ctx, FILE *file, th_tensor *tensor, th_shape index)
{
    if (ctx == NULL)
        return TH_ERROR_ARGUMENT;
    const th_tensor_impl *t = th_usable_tensor(tensor, ctx, operation, "the tensor");
    th_element element = {{0}};
    if (t == NULL || th_element_index(t, operation, &index, element.index) != TH_OK)
        return ctx->error;
    if (file == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the file is NULL");
    explanation e = {.file = file};
    if (th_listing_begin(&e.listing, ctx, operation) == TH_OK &&
        th_listing_require_one_pass(&e.listing, operation) == TH_OK) {
        if (th_contributions_begin(&e.contributions, &e.listing) == TH_OK)
            explain(&e, t, &element);
        th_contributions_end(&e.contributions, &e.listing);
    }
    th_listing_end(&e.listing);
    if (!ctx->error && (fflush(file) || ferror(file)))
        th_fail(ctx, TH_ERROR_FILE, operation, "writing failed");
    return ctx->error;
}
