/* Special values in the inputs of an operation (check_op_parts.h).
 *
 * Forward shows which outputs depend on an element: those that change if it becomes NaN or has another value. If two
 * elements have no such output in common, one of them cannot change the gradient of the other. */
#include "checker/check_op_parts.h"

#include <math.h>
#include <string.h>

#include "checker/samples.h"
#include "tensor/convert.h"
#include "tensor/splitmix.h"

enum {
    MAX_ELEMENTS = 48, /* elements, of all inputs, whose outputs are found */
    MAX_OF_INPUT = 8,  /* the same of one input */
    MAX_INPUTS = 8     /* inputs that get a NaN */
};

typedef struct element {
    int input;
    int64_t index;
    unsigned char *depends; /* [rows]: 1 for an output that depends on it */
} element;

typedef struct dependence {
    th_graph *graph;
    element element[MAX_ELEMENTS];
    int count;
    int64_t rows;          /* elements of all outputs */
    double *usual_outputs; /* [rows]: for the sample's inputs */
    double *outputs;       /* [rows]: for other inputs */
    double *memory;        /* [memory_count]: both arrays, then the bytes of all element.depends */
    int64_t memory_count;
} dependence;

/* -- elements of inputs -- */

static double read_element(th_tensor *const *inputs, int i, int64_t index)
{
    const th_tensor_impl *t = th_tensor_impl_of(inputs[i]);
    return th_number_read(t->dtype, (char *)th_tensor_data(t) + index * (int64_t)th_dtype_size(t->dtype));
}

static void write_element(const th_graph *graph, int i, int64_t index, double value)
{
    const th_tensor_impl *t = th_tensor_impl_of(graph->inputs[i]);
    th_number_write(t->dtype, (char *)th_tensor_data(t) + index * (int64_t)th_dtype_size(t->dtype), value);
}

/* Returns a random element of input i. */
static int64_t random_element(th_graph *graph, int i)
{
    return (int64_t)(th_splitmix64(&graph->random) % (uint64_t)th_graph_numel(graph, i));
}

/* -- outputs -- */

/* Runs forward alone, and writes all outputs. Returns false with the error pending. */
static bool run_forward(const dependence *d, double *outputs)
{
    th_graph *graph = d->graph;
    th_context *ctx = graph->ctx;
    th_tensor *output[TH_MAX_OUTPUTS] = {NULL}, **requested[TH_MAX_OUTPUTS] = {NULL};
    for (int k = 1; k < TH_MAX_OUTPUTS; k++)
        requested[k - 1] = graph->output_mask & 1u << k ? &output[k] : NULL;
    th_checker_apply_settings(ctx, &graph->settings);
    ctx->no_grad_depth = 1;
    output[0] = th_apply_n(graph->guard->original, graph->sample->attributes, graph->sample->n_inputs, graph->inputs,
                           requested);
    for (int k = 0; k < TH_MAX_OUTPUTS && !ctx->error; k++)
        if (graph->output_mask & 1u << k) {
            const th_tensor_impl *t = th_tensor_impl_of(output[k]);
            const th_array array = th_tensor_array(t);
            th_checker_to_doubles(t, &array, outputs);
            outputs += graph->rows[k];
        }
    th_checker_apply_settings(ctx, &graph->settings);
    th_tape_clear(ctx);
    return !ctx->error;
}

/* Notes the outputs that differ from the usual ones. */
static void mark_dependents(const dependence *d, unsigned char *depends)
{
    for (int64_t j = 0; j < d->rows; j++)
        depends[j] |= d->outputs[j] != d->usual_outputs[j] && !(isnan(d->outputs[j]) && isnan(d->usual_outputs[j]));
}

/* Finds the outputs that depend on an element. */
static bool find_dependents(const dependence *d, const element *e)
{
    const double old_value = read_element(d->graph->inputs, e->input, e->index),
                 replacements[2] = {NAN, read_element(d->graph->others, e->input, e->index)};
    bool good = true;
    for (int i = 0; i < 2 && good; i++) {
        write_element(d->graph, e->input, e->index, replacements[i]);
        good = run_forward(d, d->outputs);
        mark_dependents(d, e->depends);
    }
    write_element(d->graph, e->input, e->index, old_value);
    return good;
}

/* Returns whether outputs depend on a, and none of them on b. */
static bool shares_no_output(const dependence *d, const element *a, const element *b)
{
    bool has_output = false;
    for (int64_t j = 0; j < d->rows; j++) {
        if (a->depends[j] && b->depends[j])
            return false;
        has_output |= a->depends[j] != 0;
    }
    return has_output;
}

/* -- a NaN or an infinity -- */

/* Chooses elements of each input: a random one, its neighbors, and others. */
static void choose_elements(dependence *d)
{
    th_graph *graph = d->graph;
    const int inputs = th_mask_count(graph->checked_mask),
              per_input = inputs * MAX_OF_INPUT <= MAX_ELEMENTS ? MAX_OF_INPUT : MAX_ELEMENTS / inputs;
    for (uint32_t remaining = graph->checked_mask; remaining; remaining &= remaining - 1) {
        const int i = th_mask_first(remaining);
        const int64_t numel = th_graph_numel(graph, i), middle = numel ? random_element(graph, i) : 0;
        for (int k = 0; k < per_input && k < numel; k++)
            d->element[d->count++] = (element){.input = i,
                                               .index = k == 0 || numel <= per_input ? (middle + k) % numel
                                                        : k == 1                     ? (middle + 1) % numel
                                                        : k == 2                     ? (middle + numel - 1) % numel
                                                                                     : random_element(graph, i)};
    }
}

/* Returns false with the error pending. Call end_dependence in either case. */
static bool begin_dependence(dependence *d, th_graph *graph)
{
    *d = (dependence){.graph = graph};
    for (int k = 0; k < TH_MAX_OUTPUTS; k++)
        d->rows += graph->rows[k];
    choose_elements(d);
    d->memory_count = 2 * d->rows + (d->count * d->rows + 7) / 8;
    d->memory = th_checker_allocate(graph->ctx, "check_op", d->memory_count);
    if (d->memory == NULL)
        return false;
    d->usual_outputs = d->memory;
    d->outputs = d->usual_outputs + d->rows;
    for (int i = 0; i < d->count; i++)
        d->element[i].depends = (unsigned char *)(d->outputs + d->rows) + i * d->rows;
    bool good = run_forward(d, d->usual_outputs);
    for (int i = 0; i < d->count && good; i++)
        good = find_dependents(d, &d->element[i]);
    return good;
}

static void end_dependence(dependence *d)
{
    th_checker_release(d->graph->ctx, d->memory, d->memory_count);
}

/* Makes graph->other_gradient the right gradients of the last run. If no output depends on both an element and this
 * one, the element has the gradient of the sample. Any other element may have any gradient. */
static void expect_usual_gradients(const dependence *d, const element *special)
{
    th_graph *graph = d->graph;
    memcpy(graph->other_gradient, graph->gradient, (size_t)graph->columns * sizeof *graph->other_gradient);
    for (int i = 0; i < d->count; i++) {
        const element *e = &d->element[i];
        const int64_t column = graph->first_column[e->input] + e->index;
        if (!shares_no_output(d, e, special))
            continue;
        graph->other_gradient[column] = 0;
        for (uint32_t remaining = graph->output_mask; remaining; remaining &= remaining - 1)
            graph->other_gradient[column] += graph->reference[th_mask_first(remaining)][column];
    }
    graph->other_size = th_largest_magnitude(graph->other_gradient, graph->columns);
}

/* Runs with this value of the element. Returns false if a run failed, or if the report has a mistake. */
static bool try_value(dependence *d, element *special, double value, th_gradient_report *report)
{
    th_graph *graph = d->graph;
    const th_variant variant = {.required_inputs = graph->checked_mask,
                                .given_outputs = graph->output_mask,
                                .special_input = special->input + 1};
    const double old_value = read_element(graph->inputs, special->input, special->index);
    write_element(graph, special->input, special->index, value);
    bool good = run_forward(d, d->outputs);
    mark_dependents(d, special->depends);
    th_graph_begin_other_values(graph);
    good = good && th_graph_run(graph, &variant);
    expect_usual_gradients(d, special);
    if (good && th_variant_is_wrong(graph, &variant)) {
        th_variant_report(graph, &variant, report);
        good = false;
    }
    th_graph_end_other_values(graph);
    write_element(graph, special->input, special->index, old_value);
    return good;
}

/* Returns whether the sample says in which range the input is. */
static bool has_range(const th_sample_input *input)
{
    return input->low != 0 || input->high != 0;
}

bool th_values_check(th_graph *graph, th_gradient_report *report)
{
    dependence d;
    bool good = begin_dependence(&d, graph);
    for (int i = 0, inputs = 0; i < d.count && good && inputs < MAX_INPUTS; i++) {
        element *e = &d.element[i];
        if (i > 0 && d.element[i - 1].input == e->input)
            continue;
        inputs++;
        good = try_value(&d, e, NAN, report);
        if (good && !has_range(th_sample_input_at(graph->sample, e->input)))
            good = try_value(&d, e, INFINITY, report);
    }
    end_dependence(&d);
    return !graph->ctx->error;
}

/* -- zeros -- */

bool th_values_plant_zeros(th_graph *graph, th_planted *zeros)
{
    bool has_zero = false;
    for (int i = 0; i < graph->sample->n_inputs; i++) {
        const th_sample_input *input = th_sample_input_at(graph->sample, i);
        zeros->element[i] = -1;
        if (!graph->checked[i] || th_graph_numel(graph, i) == 0 ||
            (has_range(input) && !(input->low < 0 && input->high > 0)))
            continue;
        zeros->element[i] = random_element(graph, i);
        zeros->value[i] = read_element(graph->inputs, i, zeros->element[i]);
        write_element(graph, i, zeros->element[i], 0);
        has_zero = true;
    }
    return has_zero;
}

void th_values_remove_zeros(th_graph *graph, const th_planted *zeros)
{
    for (int i = 0; i < graph->sample->n_inputs; i++)
        if (zeros->element[i] >= 0)
            write_element(graph, i, zeros->element[i], zeros->value[i]);
}
