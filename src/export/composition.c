/* Runs compositions (composition.h). They use another context, so that the tape, the random numbers and the step of the
 * caller's context stay as they are. */
#include "export/composition.h"

#include <string.h>

#include "kernels/dtype.h"
#include "tensor/elementwise.h"
#include "tensor/format.h"
#include "tensor/random_state.h"

enum { MAX_NESTING = 24, MAX_SHARDS = 4096 };
static const char operation[] = "export";

/* Moves the error of the composition's context to the caller's context. */
static th_status move_error(const th_composition *c)
{
    if (c->ctx == NULL)
        return th_fail_memory(c->caller, operation, sizeof *c->ctx);
    if (c->ctx->error == TH_OK)
        return TH_OK;
    return th_fail(c->caller, c->ctx->error, NULL, "%s", th_error_text(c->ctx));
}

/* Makes the next operation draw the random numbers of this call. */
static void set_random_call(th_context *ctx, const th_context *caller, const th_random_call *random)
{
    ctx->seed = caller->seed;
    ctx->step = random->step;
    for (ctx->shard = 0; ctx->shard < MAX_SHARDS; ctx->shard++) {
        const th_random_call next_call = th_random_next_call(ctx, TH_STREAM_DROPOUT);
        if (memcmp(next_call.key, random->key, sizeof next_call.key) == 0)
            break;
    }
    ctx->calls[TH_STREAM_DROPOUT] = random->call;
}

static th_context *make_context(const th_listing *listing, const th_node *node, bool shapes_only)
{
    const th_context *caller = listing->ctx;
    th_context *ctx = th_context_new(&(th_context_options){
        .threads = caller->threads, .allocator = caller->options.allocator, .shapes_only = shapes_only});
    if (ctx == NULL)
        return NULL;
    ctx->machine.precision = node->precision;
    ctx->training = node->training;
    ctx->fusion = false;
    th_keep_values(ctx, true);
    set_random_call(ctx, caller, &node->random);
    return ctx;
}

/* Copies a tensor into the context of the composition. The copy requires a gradient if it is floating. */
static th_tensor *copy_input(th_context *ctx, const th_tensor_impl *from)
{
    if (from == NULL)
        return NULL;
    const th_array source = th_tensor_array(from);
    th_tensor_impl *to = th_tensor_new(ctx, source.dtype, source.ndim, source.size, true, operation);
    if (to == NULL)
        return NULL;
    const th_array target = th_tensor_array(to);
    if (!ctx->options.shapes_only)
        th_copy_array(ctx, &target, &source, false);
    return th_is_floating(source.dtype) ? th_set_requires_gradient(to->handle, true) : to->handle;
}

/* Runs the composition forward. Returns its result; NULL after an error. */
static th_tensor *run_forward(th_composition *c, const th_node *node, th_tensor **inputs)
{
    for (int i = 0; i < node->n_inputs; i++)
        inputs[i] = copy_input(c->ctx, th_node_input(node, i)->tensor);
    return th_failed(c->ctx) ? NULL : node->op->composed(node->attributes, inputs, node->n_inputs);
}

static th_status run_backward(th_composition *c, th_tensor *result, const th_array *gradient)
{
    th_tensor_impl *cotangent = th_tensor_new(c->ctx, gradient->dtype, gradient->ndim, gradient->size, true, operation);
    if (cotangent == NULL)
        return c->ctx->error;
    const th_array target = th_tensor_array(cotangent);
    th_copy_array(c->ctx, &target, gradient, false);
    return th_backward(result, &(th_backward_options){.cotangent = cotangent->handle});
}

th_status th_composition_run(th_composition *c, const th_listing *listing, int64_t node, const th_array *gradient)
{
    const th_node *fused = th_listing_node(listing, node);
    *c = (th_composition){.caller = listing->ctx, .ctx = make_context(listing, fused, false)};
    th_tensor *inputs[TH_MAX_INPUTS];
    th_tensor *result = c->ctx ? run_forward(c, fused, inputs) : NULL;
    if (result && (gradient == NULL || run_backward(c, result, gradient) == TH_OK) &&
        th_listing_begin(&c->listing, c->ctx, operation) == TH_OK)
        th_contributions_begin(&c->contributions, &c->listing);
    th_use_context(c->caller);
    return move_error(c);
}

void th_composition_end(th_composition *c)
{
    if (c->listing.ctx) {
        th_contributions_end(&c->contributions, &c->listing);
        th_listing_end(&c->listing);
    }
    th_context_free(c->ctx);
    th_use_context(c->caller);
}

/* -- text -- */

typedef struct expression {
    const th_listing *listing;
    th_tensor_impl *input[TH_MAX_INPUTS];
    int n_inputs;
    char *text;
    size_t size;
} expression;

/* Appends a tensor as an expression of the inputs. */
static void put_expression(const expression *e, const th_tensor_impl *t, int nesting)
{
    for (int i = 0; i < e->n_inputs; i++)
        if (e->input[i] == t) {
            th_append(e->text, e->size, "x%d", i);
            return;
        }
    const int64_t index = th_listing_find(e->listing, t),
                  producer = index < 0 ? -1 : e->listing->tensor[index].producer;
    if (producer < 0 || nesting == MAX_NESTING) {
        th_append(e->text, e->size, producer < 0 ? "constant" : "...");
        return;
    }
    const th_node *node = th_listing_node(e->listing, producer);
    th_append(e->text, e->size, "%s(", node->op->name);
    const char *separator = "";
    for (int i = 0; i < node->n_inputs; i++) {
        const th_tensor_impl *input = th_node_input(node, i)->tensor;
        if (input == NULL)
            continue;
        th_append(e->text, e->size, "%s", separator);
        put_expression(e, input, nesting + 1);
        separator = ", ";
    }
    th_append(e->text, e->size, ")");
}

th_status th_composition_text(const th_listing *listing, int64_t index, char *text, size_t size)
{
    const th_node *node = th_listing_node(listing, index);
    text[0] = 0;
    if (node->op->composed == NULL || node->n_inputs > TH_MAX_INPUTS)
        return TH_OK;
    th_composition c = {.caller = listing->ctx, .ctx = make_context(listing, node, true)};
    th_tensor *inputs[TH_MAX_INPUTS] = {NULL};
    const th_tensor *result = c.ctx ? run_forward(&c, node, inputs) : NULL;
    if (result && th_tape_length(c.ctx) > 0 && th_listing_begin_unchecked(&c.listing, c.ctx, operation) == TH_OK) {
        expression e = {.listing = &c.listing, .n_inputs = node->n_inputs, .text = text, .size = size};
        for (int i = 0; i < node->n_inputs; i++)
            e.input[i] = th_tensor_impl_of(inputs[i]);
        put_expression(&e, th_tensor_impl_of(result), 0);
    }
    const th_status status = move_error(&c);
    th_composition_end(&c);
    return status;
}
