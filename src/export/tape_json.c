/* Writes the data of a page (tape_json.h). */
#include "export/tape_json.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "autograd/frame.h"
#include "export/json.h"
#include "ops/shared/attention.h"
#include "tensor/format.h"
#include "tensor/strided_iterator.h"

/* -- small parts -- */

static void put_key(FILE *file, const char *key)
{
    fprintf(file, ",\"%s\":", key);
}

static void put_text(FILE *file, const char *key, const char *text)
{
    put_key(file, key);
    th_put_json_string(file, text && text[0] ? text : NULL);
}

static void put_number(FILE *file, const char *key, int64_t value)
{
    fprintf(file, ",\"%s\":%" PRId64, key, value);
}

static void put_array(FILE *file, const char *key, const th_array *array, int64_t limit)
{
    put_key(file, key);
    if (array && array->given)
        th_put_json_array(file, array, limit);
    else
        fputs("null", file);
}

/* -- tensors -- */

static void put_tensor(const th_page *page, FILE *file, int64_t index)
{
    const th_listed *t = &page->listing.tensor[index];
    const th_tensor_impl *tensor = t->tensor;
    const th_array value = th_tensor_array(tensor);
    th_array gradient = {.given = false};
    (void)th_listing_gradient(tensor, &gradient);
    fputs("{\"name\":", file);
    th_put_json_string(file, page->name[index]);
    put_text(file, "kind", t->producer >= 0 ? "result" : tensor->parameter ? "parameter" : "input");
    put_key(file, "shape");
    th_put_json_sizes(file, tensor->ndim, tensor->size);
    put_text(file, "axes", tensor->axes);
    put_text(file, "type", th_dtype_name(tensor->dtype));
    put_key(file, "requires_gradient");
    th_put_json_bool(file, tensor->requires_gradient);
    put_number(file, "node", t->producer);
    put_number(file, "view_of", t->view_of);
    put_array(file, "value", &value, page->limit);
    put_array(file, "gradient", &gradient, page->limit);
    put_array(file, "difference", &page->difference[index], page->limit);
    fputc('}', file);
}

/* -- nodes -- */

/* Returns whether two arrays of one shape have the same bytes. */
static bool have_same_elements(const th_array *a, const th_array *b)
{
    th_iterator iterator;
    if (!th_iterator_build_row_major(&iterator, a, 1, &b))
        return true;
    th_iterator_position position;
    th_iterator_seek(&iterator, 0, &position);
    for (int64_t i = 0; i < iterator.numel; i++, th_iterator_advance(&iterator, 1, &position))
        if (memcmp(position.address[0], position.address[1], th_dtype_size(a->dtype)) != 0)
            return false;
    return true;
}

static void put_contribution(const th_page *page, FILE *file, int64_t node, int i)
{
    static const char *const how_names[] = {"none", "written", "added", "passed on", "view"};
    const th_contribution *c = th_contribution_of(&page->contributions, &page->listing, node, i);
    const th_listed *input = &page->listing.tensor[th_listing_input(&page->listing, node, i)];
    th_array gradient;
    const bool equals_gradient =
        th_listing_gradient(input->tensor, &gradient) && have_same_elements(&c->gradient, &gradient);
    fprintf(file, "{\"input\":%d", i);
    put_array(file, "gradient", equals_gradient ? NULL : &c->gradient, page->limit);
    put_text(file, "how", how_names[c->how]);
    put_key(file, "summed");
    fputc('[', file);
    const char *separator = "";
    for (int d = 0; d < TH_MAX_DIMS; d++)
        if (c->summed >> d & 1) {
            fprintf(file, "%s%d", separator, d);
            separator = ",";
        }
    fputs("]}", file);
}

static void put_contributions(const th_page *page, FILE *file, int64_t node)
{
    const char *separator = "";
    put_key(file, "contributions");
    fputc('[', file);
    for (int i = 0; i < th_listing_node(&page->listing, node)->n_inputs; i++) {
        if (th_contribution_of(&page->contributions, &page->listing, node, i)->how == TH_HOW_NONE)
            continue;
        fputs(separator, file);
        put_contribution(page, file, node, i);
        separator = ",";
    }
    fputc(']', file);
}

/* Lists the results whose gradient backward releases after the node: its outputs that have a gradient buffer. */
static void put_released(const th_page *page, FILE *file, int64_t node)
{
    const char *separator = "";
    put_key(file, "released");
    fputc('[', file);
    for (int i = 0; i < th_listing_node(&page->listing, node)->n_outputs; i++) {
        const int64_t id = th_listing_output(&page->listing, node, i);
        if (id < 0 || page->contributions.order[node] < 0 || page->listing.tensor[id].gradient_owner != id)
            continue;
        fprintf(file, "%s%" PRId64, separator, id);
        separator = ",";
    }
    fputc(']', file);
}

/* Lists the operands that backward reads: "x0" is input 0, "y0" output 0. */
static void put_saved(FILE *file, const th_node *node)
{
    const char *separator = "";
    put_key(file, "saved");
    fputc('[', file);
    for (int i = 0; i < node->n_inputs + node->n_outputs; i++) {
        if (node->operand[i].tensor == NULL || !node->operand[i].read)
            continue;
        const bool input = i < node->n_inputs;
        fprintf(file, "%s\"%c%d\"", separator, input ? 'x' : 'y', input ? i : i - node->n_inputs);
        separator = ",";
    }
    fputc(']', file);
}

static void put_operands(FILE *file, const char *key, const int64_t *id, int count)
{
    put_key(file, key);
    th_put_json_sizes(file, count, id);
}

enum { STORED_SCORES = 1 << 14 }; /* the viewer computes the matrices of attention with more scores, if it can */

/* Returns whether the page has all elements of an array. */
static bool is_whole(const th_page *page, const th_array *array)
{
    th_array shown = *array;
    th_crop_sizes(shown.ndim, shown.size, page->limit);
    return array->given && th_array_numel(&shown) == th_array_numel(array);
}

/* Returns whether a fused node's scores are products of Q and K alone, and the page has Q, K, V and dO, so that the viewer
 * can compute the matrices of its attention. */
static bool can_compute(const th_page *page, int64_t index)
{
    const th_node *node = th_listing_node(&page->listing, index);
    const th_attention_inside *a = page->attention[index];
    if (!th_node_is(node, "scaled_dot_product_attention") || th_array_numel(&a->scores) <= STORED_SCORES)
        return false;
    const th_attention_attributes *attributes = node->attributes;
    const th_tensor_impl *sums = th_node_output(node, TH_ATTENTION_LOG_SUM_EXP)->tensor;
    th_array gradient;
    if (attributes->soft_cap != 0 || th_node_input(node, TH_ATTENTION_ADDITIVE)->tensor ||
        th_node_input(node, TH_ATTENTION_ALIBI)->tensor || (sums && th_listing_gradient(sums, &gradient)))
        return false;
    for (int i = TH_ATTENTION_Q; i <= TH_ATTENTION_V; i++) {
        const th_array input = th_tensor_array(th_node_input(node, i)->tensor);
        if (!is_whole(page, &input))
            return false;
    }
    return !a->dweights.given ||
           (th_listing_gradient(th_node_output(node, TH_ATTENTION_O)->tensor, &gradient) && is_whole(page, &gradient));
}

/* Writes a matrix that the viewer computes: its shape and type. */
static void put_computed(FILE *file, const char *key, const th_array *array)
{
    put_key(file, key);
    if (!array->given) {
        fputs("null", file);
        return;
    }
    fputs("{\"shape\":", file);
    th_put_json_sizes(file, array->ndim, array->size);
    fprintf(file, ",\"type\":\"%s\",\"computed\":true}", array->dtype == TH_FLOAT32 ? "float32" : "float64");
}

static void put_mask(FILE *file, const th_array *mask, int64_t limit)
{
    put_key(file, "mask");
    if (mask->given)
        th_put_json_bits(file, mask, limit);
    else
        fputs("null", file);
}

static void put_attention(const th_page *page, FILE *file, int64_t node)
{
    const th_attention_inside *a = page->attention[node];
    put_key(file, "attention");
    if (a == NULL) {
        fputs("null", file);
        return;
    }
    fprintf(file, "{\"heads\":%" PRId64, a->heads);
    put_key(file, "scale");
    th_put_json_number(file, a->scale);
    const bool computed = can_compute(page, node);
    const int64_t limit = computed ? INT64_MAX : page->attention_limit;
    put_mask(file, &a->mask, limit);
    put_array(file, "dropped", &a->dropped, limit);
    const char *const key[] = {"scores", "weights", "dweights", "dscores"};
    const th_array *const array[] = {&a->scores, &a->weights, &a->dweights, &a->dscores};
    for (int i = 0; i < 4; i++)
        if (computed)
            put_computed(file, key[i], array[i]);
        else
            put_array(file, key[i], array[i], limit);
    fputc('}', file);
}

static void put_node(const th_page *page, FILE *file, int64_t index)
{
    const th_node *node = th_listing_node(&page->listing, index);
    const th_op *op = node->op;
    const int64_t *operand = &page->listing.operand[page->listing.first_operand[index]];
    fputs("{\"op\":", file);
    th_put_json_string(file, op->name);
    put_text(file, "value", op->value);
    put_text(file, "gradient",
             op->gradient             ? op->gradient
             : op->flags & TH_OP_VIEW ? "a view: its gradient is the same view"
                                      : NULL);
    put_text(file, "module", node->path);
    put_text(file, "file", node->file ? th_base_name(node->file) : NULL);
    put_number(file, "line", node->line);
    put_operands(file, "inputs", operand, node->n_inputs);
    put_operands(file, "outputs", operand + node->n_inputs, node->n_outputs);
    put_saved(file, node);
    put_number(file, "saved_bytes", (int64_t)th_node_saved_bytes(page->listing.ctx->tape, index, false));
    put_number(file, "multiply_adds", th_node_multiply_adds(page->listing.ctx, node));
    put_text(file, "attributes", page->attributes[index]);
    put_key(file, "recomputed");
    th_put_json_bool(file, node->drops_results);
    put_text(file, "fused", page->fused[index]);
    put_number(file, "order", page->contributions.order[index]);
    put_contributions(page, file, index);
    put_released(page, file, index);
    put_attention(page, file, index);
    fputc('}', file);
}

/* -- the page -- */

static void put_tokens(FILE *file, const th_html_options *options)
{
    put_key(file, "tokens");
    if (options->tokens == NULL || options->n_tokens <= 0) {
        fputs("null", file);
        return;
    }
    for (int i = 0; i < options->n_tokens; i++) {
        fputc(i ? ',' : '[', file);
        th_put_json_string(file, options->tokens[i]);
    }
    fputc(']', file);
}

void th_page_write_json(const th_page *page, FILE *file, const th_html_options *options)
{
    fputs("{\"version\":2,\"title\":", file);
    th_put_json_string(file, options->title ? options->title : "Tape");
    put_text(file, "library", TAPEHEAD_VERSION);
    put_key(file, "backward");
    th_put_json_bool(file, page->listing.backward_ran);
    put_number(file, "loss", page->loss);
    put_tokens(file, options);
    put_key(file, "tensors");
    fputc('[', file);
    for (int64_t i = 0; i < page->listing.tensors; i++) {
        fputs(i ? ",\n" : "\n", file);
        put_tensor(page, file, i);
    }
    fputs("],\n\"nodes\":[", file);
    for (int64_t i = 0; i < page->listing.nodes; i++) {
        fputs(i ? ",\n" : "\n", file);
        put_node(page, file, i);
    }
    fputs("]}", file);
}

th_status th_tape_write_json(th_context *ctx, FILE *file, const th_html_options *options)
{
    static const char operation[] = "tape_write_json";
    const th_html_options defaults = {0};
    options = options ? options : &defaults;
    th_page page;
    if (th_page_begin(&page, ctx, options, operation) == TH_OK) {
        th_page_write_json(&page, file, options);
        if (fflush(file) || ferror(file))
            th_fail(ctx, TH_ERROR_FILE, operation, "the file could not be written: %s", strerror(errno));
    }
    th_page_end(&page);
    return ctx->error;
}
