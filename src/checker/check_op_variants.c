/* The variants of th_check_op (check_op_parts.h). No variant takes difference quotients: its gradients must equal
 * the gradients of the plainest variant, which were checked. */
#include "checker/check_op_parts.h"

#include <string.h>

#include "tapehead/ops.h"
#include "tensor/convert.h"

/* Up to ALL_SUBSETS inputs: every subset. Up to ALL_PAIRS: every pair. Up to MAX_COMBINATIONS runs: every subset of
 * inputs with every subset of output gradients. */
enum { ALL_SUBSETS = 4, ALL_PAIRS = 8, MAX_COMBINATIONS = 32 };

/* Factors that reach a threshold or a clipped gradient. They are powers of 2, so nothing is rounded. */
#define LARGE (-0x1p30)
#define SMALL 0x1p-30

static const uint32_t every_flag = TH_OP_IN_PLACE | TH_OP_OVER_INPUT | TH_OP_RECOMPUTE;

static th_variant plainest_variant(const th_graph *graph)
{
    return (th_variant){.required_inputs = graph->checked_mask, .given_outputs = graph->output_mask};
}

/* Returns the variant in the middle of a graph, with all properties that the operation claims. */
static th_variant full_variant(const th_graph *graph)
{
    return (th_variant){.required_inputs = graph->checked_mask,
                        .given_outputs = graph->output_mask,
                        .flags = every_flag,
                        .precomputed = true,
                        .inputs_are_results = true};
}

/* -- reducing a wrong variant -- */

static bool is_still_wrong(th_graph *graph, const th_variant *variant)
{
    return th_graph_run(graph, variant) && th_variant_is_wrong(graph, variant);
}

/* Replaces the variant by a simpler one if that is also wrong. */
static void simplify(th_graph *graph, th_variant *variant, const th_variant *simpler)
{
    if (!graph->ctx->error && is_still_wrong(graph, simpler))
        *variant = *simpler;
}

#define SIMPLIFY(field, value)                                                                                         \
    do {                                                                                                               \
        th_variant simpler_ = *variant;                                                                                \
        simpler_.field = (value);                                                                                      \
        if (memcmp(&simpler_.field, &variant->field, sizeof variant->field) != 0)                                      \
            simplify(graph, variant, &simpler_);                                                                       \
    } while (0)

/* Drops every condition without which the variant is still wrong, the outermost first. Then runs the reduced variant
 * once more. */
static void reduce_variant(th_graph *graph, th_variant *variant)
{
    SIMPLIFY(followed, false);
    SIMPLIFY(passes, 0);
    SIMPLIFY(scale, 0);
    SIMPLIFY(half, 0);
    SIMPLIFY(recomputed, false);
    SIMPLIFY(shares_inputs, false);
    SIMPLIFY(precomputed, false);
    for (uint32_t flag = 1; flag <= every_flag; flag <<= 1)
        SIMPLIFY(flags, variant->flags & ~flag);
    SIMPLIFY(inputs_are_results, false);
    if (!th_variant_has_other_values(
            variant)) /* with other values, the right gradients are known for all inputs and outputs only */
        SIMPLIFY(required_inputs, graph->checked_mask);
    for (uint32_t remaining = th_variant_has_other_values(variant) ? 0 : variant->given_outputs;
         remaining && th_mask_count(variant->given_outputs) > 1; remaining &= remaining - 1)
        SIMPLIFY(given_outputs, remaining & ~(remaining - 1));
    (void)th_graph_run(graph, variant);
}

/* -- the variants -- */

typedef struct variant_runs {
    th_graph *graph;
    th_gradient_report *report;
    bool done; /* a variant was wrong, or its run failed */
} variant_runs;

static void try_variant(variant_runs *r, const th_variant *variant)
{
    if (r->done)
        return;
    if (!th_graph_run(r->graph, variant)) {
        r->done = true;
    } else if (th_variant_is_wrong(r->graph, variant)) {
        th_variant reduced = *variant;
        reduce_variant(r->graph, &reduced);
        if (!r->graph->ctx->error)
            th_variant_report(r->graph, &reduced, r->report);
        r->done = true;
    }
}

/* Calls try_with for subsets of the checked inputs. If there are many inputs, the subsets are all inputs, one, all
 * except one, and pairs. */
static void for_each_subset(variant_runs *r, void (*try_with)(variant_runs *r, uint32_t required))
{
    const uint32_t all = r->graph->checked_mask;
    const int n = th_mask_count(all);
    try_with(r, all);
    for (uint32_t subset = (all - 1) & all; n <= ALL_SUBSETS && subset; subset = (subset - 1) & all)
        try_with(r, subset);
    if (n <= ALL_SUBSETS)
        return;
    for (uint32_t remaining = all; remaining; remaining &= remaining - 1) {
        const uint32_t one = remaining & ~(remaining - 1), others_mask = remaining & ~one;
        try_with(r, one);
        try_with(r, all & ~one);
        for (uint32_t others = others_mask; others; others &= others - 1) {
            try_with(r, one | (others & ~(others - 1)));
            if (n > ALL_PAIRS)
                break;
        }
    }
}

/* Tries every subset of the output gradients. */
static void try_given_outputs(variant_runs *r, uint32_t required)
{
    th_variant variant = full_variant(r->graph);
    const int n = th_mask_count(variant.required_inputs), inputs = n <= ALL_SUBSETS ? 1 << n : MAX_COMBINATIONS;
    const bool few = inputs << th_mask_count(variant.given_outputs) <= 2 * MAX_COMBINATIONS;
    const uint32_t all = variant.given_outputs;
    variant.required_inputs = required;
    try_variant(r, &variant);
    for (uint32_t given = (all - 1) & all; given && (few || required == r->graph->checked_mask);
         given = (given - 1) & all) {
        variant.given_outputs = given;
        try_variant(r, &variant);
    }
}

static void try_shared_inputs(variant_runs *r, uint32_t required)
{
    th_variant variant = full_variant(r->graph);
    variant.required_inputs = required;
    variant.shares_inputs = true;
    try_variant(r, &variant);
}

static void try_claims(variant_runs *r, uint32_t required)
{
    th_variant variant = full_variant(r->graph);
    variant.required_inputs = required;
    try_variant(r, &variant);
}

/* Tries the other conditions, a few at a time. */
static void try_conditions(variant_runs *r)
{
    const th_graph *graph = r->graph;
    th_variant variant = full_variant(graph);
    variant.recomputed = true;
    try_variant(r, &variant);
    variant.recomputed = false;
    variant.followed = graph->others != NULL;
    try_variant(r, &variant);
    variant.followed = false;
    variant.scale = LARGE;
    try_variant(r, &variant);
    variant.shares_inputs = true;
    variant.scale = SMALL;
    try_variant(r, &variant);
    variant = plainest_variant(graph);
    variant.precomputed = true;
    variant.flags = every_flag;
    variant.passes = 2;
    try_variant(r, &variant);
}

/* Runs with each half of the output gradients: the results must add up to the gradients of the whole. */
static void try_halves(variant_runs *r)
{
    th_graph *graph = r->graph;
    th_variant variant = plainest_variant(graph);
    double *sum = r->done ? NULL : th_checker_allocate(graph->ctx, "check_op", graph->columns);
    for (variant.half = 1; variant.half <= 2 && sum && !r->done; variant.half++) {
        r->done = !th_graph_run(graph, &variant);
        for (int64_t c = 0; c < graph->columns && !r->done; c++)
            sum[c] += graph->gradient[c];
    }
    if (sum && !r->done) {
        variant.half = 2;
        memcpy(graph->gradient, sum, (size_t)graph->columns * sizeof *sum);
        if (th_variant_is_wrong(graph, &variant)) {
            th_variant_report(graph, &variant, r->report);
            r->done = true;
        }
    }
    th_checker_release(graph->ctx, sum, graph->columns);
}

static bool are_alike(const th_graph *graph, int a, int b)
{
    const th_tensor_impl *x = th_tensor_impl_of(graph->inputs[a]), *y = th_tensor_impl_of(graph->inputs[b]);
    return x->dtype == y->dtype && x->ndim == y->ndim &&
           memcmp(x->size, y->size, (size_t)x->ndim * sizeof *x->size) == 0;
}

/* Runs with inputs whose values are not the sample's. Later runs must repeat the gradients and outputs of this one. */
static bool run_with_other_values(variant_runs *r)
{
    th_graph *graph = r->graph;
    const th_variant variant = plainest_variant(graph);
    r->done = r->done || !th_graph_run(graph, &variant);
    memcpy(graph->other_gradient, graph->gradient, (size_t)graph->columns * sizeof *graph->other_gradient);
    graph->other_size = th_largest_magnitude(graph->other_gradient, graph->columns);
    return !r->done;
}

/* Runs with the values of input a in both inputs: first as two tensors, for the reference, then as one tensor. */
static void try_repeated_input(variant_runs *r, int a, int b)
{
    th_graph *graph = r->graph;
    th_tensor *original = graph->inputs[b];
    if (r->done)
        return;
    th_graph_begin_other_values(graph);
    graph->inputs[b] = th_keep(graph->inputs[a]);
    r->done = graph->inputs[b] == NULL || !run_with_other_values(r);
    th_tensor_free(graph->inputs[b]);
    graph->inputs[b] = original;
    th_variant variant = full_variant(graph);
    variant.same_inputs[0] = a;
    variant.same_inputs[1] = b;
    try_variant(r, &variant);
    th_graph_end_other_values(graph);
}

/* Tries every pair of inputs of equal type and shape; if there are many inputs, only neighbors. */
static void try_repeated_inputs(variant_runs *r)
{
    const th_graph *graph = r->graph;
    const int n = graph->sample->n_inputs;
    for (int a = 0; a < n; a++)
        for (int b = a + 1; b < n && (n <= ALL_PAIRS || b == a + 1); b++)
            if (graph->checked[a] && graph->checked[b] && are_alike(graph, a, b))
                try_repeated_input(r, a, b);
}

/* -- expanded inputs -- */

/* Replaces the gradient of the expanded tensor in graph->other_gradient by the gradient of the tensor that was
 * expanded: the sums over the axis. */
static void sum_expanded_gradient(th_graph *graph, int i, int axis)
{
    const th_tensor_impl *t = th_tensor_impl_of(graph->inputs[i]);
    double *gradient = graph->other_gradient + graph->first_column[i];
    const int64_t numel = th_tensor_numel(t), size = t->size[axis];
    int64_t inner = 1;
    for (int d = axis + 1; d < t->ndim; d++)
        inner *= t->size[d];
    for (int64_t e = 0; e < numel; e++) { /* a sum is never behind the element that is read */
        const int64_t sum = e / (size * inner) * inner + e % inner;
        gradient[sum] = gradient[e] + (e / inner % size ? gradient[sum] : 0);
    }
    graph->other_size *= (double)size;
    memset(gradient + numel / size, 0, (size_t)(numel - numel / size) * sizeof *gradient);
}

/* Changes every element by a few units in the last place. */
static void change_last_places(const th_graph *graph, int i)
{
    const th_tensor_impl *t = th_tensor_impl_of(graph->inputs[i]);
    const size_t size = th_dtype_size(t->dtype);
    for (int64_t e = 0; e < th_tensor_numel(t) && graph->checked[i]; e++) {
        void *at = (char *)th_tensor_data(t) + (size_t)e * size;
        th_number_write(t->dtype, at, th_number_read(t->dtype, at) * (1 + (double)(e % 5 - 2) * graph->unit));
    }
}

/* Runs with equal elements along an axis. Returns whether gradients and outputs are a reference for other layouts: they
 * must hardly change if the last places of the elements do. They change if equal elements are a kink (max), or the
 * gradient is a rounding error divided by another one (the standard deviation of equal numbers). */
static bool run_with_equal_elements(variant_runs *r, int i)
{
    th_graph *graph = r->graph;
    const th_variant variant = plainest_variant(graph), compared = {.required_inputs = variant.required_inputs,
                                                                    .given_outputs = variant.given_outputs,
                                                                    .expanded_input = i + 1};
    if (!run_with_other_values(r))
        return false;
    change_last_places(graph, i);
    r->done = !th_graph_run(graph, &variant);
    return !r->done && !th_variant_is_wrong(graph, &compared);
}

/* Returns whether the operation accepts the expanded operand. */
static bool accepts_expanded(const th_graph *graph, int i, th_tensor *base)
{
    th_tensor *operand[TH_MAX_SAMPLE_INPUTS];
    memcpy(operand, graph->inputs, (size_t)graph->sample->n_inputs * sizeof *operand);
    operand[i] = th_expand(base, th_shape_of(graph->inputs[i]));
    const bool accepts = operand[i] && th_apply_check(graph->guard->original, graph->sample->attributes,
                                                      graph->sample->n_inputs, operand) == TH_OK;
    if (graph->ctx->error != TH_ERROR_MEMORY)
        th_error_clear(graph->ctx);
    th_tape_clear(graph->ctx);
    return accepts;
}

/* Expands input i along an axis. */
static void try_expanded(variant_runs *r, int i, int axis)
{
    th_graph *graph = r->graph;
    th_context *ctx = graph->ctx;
    th_tensor *original = graph->inputs[i];
    if (r->done)
        return;
    th_no_grad_begin(ctx);
    th_tensor *base = th_keep(th_slice(original, axis, 0, 1, 1)),
              *equal = th_keep(th_expand(base, th_shape_of(original)));
    th_no_grad_end(ctx);
    th_tape_clear(ctx);
    th_graph_begin_other_values(graph);
    if (equal && accepts_expanded(graph, i, base)) {
        graph->inputs[i] = equal;
        const bool compares = run_with_equal_elements(r, i);
        if (compares && graph->checked[i])
            sum_expanded_gradient(graph, i, axis);
        graph->inputs[i] = base;
        th_variant variant = full_variant(graph);
        variant.expanded_input = i + 1;
        if (compares)
            try_variant(r, &variant);
        graph->inputs[i] = original;
    }
    th_graph_end_other_values(graph);
    th_tensor_free(base);
    th_tensor_free(equal);
    r->done |= ctx->error != TH_OK;
}

/* Expands each input along its first and its last axis. */
static void try_all_expanded(variant_runs *r)
{
    const th_graph *graph = r->graph;
    for (int i = 0; i < graph->sample->n_inputs; i++) {
        const th_tensor_impl *t = graph->inputs[i] ? th_tensor_impl_of(graph->inputs[i]) : NULL;
        if (t == NULL || th_is_storage_type(t->dtype) || th_tensor_numel(t) == 0)
            continue;
        int first = 0, last = t->ndim - 1;
        while (first < t->ndim && t->size[first] == 1)
            first++;
        while (last > first && t->size[last] == 1)
            last--;
        if (first <= last)
            try_expanded(r, i, first);
        if (first < last)
            try_expanded(r, i, last);
    }
}

/* -- the mode -- */

bool th_variants_mode_matters(th_graph *graph)
{
    th_variant variant[2] = {plainest_variant(graph), full_variant(graph)};
    bool matters = false;
    for (int i = 0; i < 2 && !matters && !graph->ctx->error; i++) {
        variant[i].other_mode = true;
        matters = is_still_wrong(graph, &variant[i]);
    }
    if (graph->ctx->error != TH_ERROR_MEMORY)
        th_error_clear(graph->ctx); /* the operation does not run in this mode */
    return matters;
}

/* -- all variants -- */

bool th_variants_set_reference(th_graph *graph)
{
    for (uint32_t remaining = graph->output_mask; remaining; remaining &= remaining - 1) {
        th_variant variant = plainest_variant(graph);
        variant.given_outputs = remaining & ~(remaining - 1);
        if (!th_graph_run(graph, &variant) || graph->finding[0])
            return false;
        memcpy(graph->reference[th_mask_first(remaining)], graph->gradient,
               (size_t)graph->columns * sizeof *graph->gradient);
    }
    return true;
}

bool th_variants_check(th_graph *graph, th_gradient_report *report)
{
    variant_runs r = {.graph = graph, .report = report};
    switch (graph->layout) {
    case TH_LAYOUT_PLAIN:
        for_each_subset(&r, try_given_outputs);
        try_conditions(&r);
        try_halves(&r);
        try_repeated_inputs(&r);
        try_all_expanded(&r);
        break;
    case TH_LAYOUT_GAPS:
        for_each_subset(&r, try_shared_inputs);
        break;
    default:
        for_each_subset(&r, try_claims);
    }
    return !graph->ctx->error;
}
