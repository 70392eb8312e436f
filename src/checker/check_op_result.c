/* Compares and reports the results of a variant (check_op_parts.h). */
#include "checker/check_op_parts.h"

#include <math.h>
#include <stdarg.h>

#include "checker/engine/report.h"
#include "checker/samples.h"
#include "kernels/sizes.h"
#include "tensor/format.h"

/* Rounding may be this many units in the last place of the largest number. */
enum { ROUNDINGS = 16 };

/* -- comparing -- */

/* Returns the right value of element e of input i's gradient. */
static double expected_gradient(const th_graph *graph, const th_variant *variant, int i, int64_t e)
{
    const int64_t column = graph->first_column[i] + e;
    double value = 0;
    if (th_variant_repeats_input(variant)) {
        value = graph->other_gradient[column];
        if (i == variant->same_inputs[0])
            value += graph->other_gradient[graph->first_column[variant->same_inputs[1]] + e];
    } else if (th_variant_has_other_values(variant)) {
        value = graph->other_gradient[column];
    } else {
        for (uint32_t remaining = variant->given_outputs; remaining; remaining &= remaining - 1)
            value += graph->reference[th_mask_first(remaining)][column];
    }
    if (variant->shares_inputs)
        value += graph->extra_gradient[column];
    return value * (variant->scale != 0 ? variant->scale : 1) * (variant->passes ? variant->passes : 1);
}

/* Returns the largest gradient or output of this run. Every gradient may have rounding of this size. */
static double largest_result(const th_graph *graph, const th_variant *variant)
{
    double largest = variant->shares_inputs ? 1 : 0;
    for (uint32_t remaining = variant->given_outputs; remaining; remaining &= remaining - 1) {
        const int k = th_mask_first(remaining);
        largest = fmax(largest, th_largest_magnitude(graph->reference[k], graph->columns));
        if (graph->value[k])
            largest = fmax(largest, th_largest_magnitude(graph->value[k], graph->rows[k]));
    }
    if (th_variant_has_other_values(variant))
        largest = fmax(largest, graph->other_size);
    return largest * fabs(variant->scale != 0 ? variant->scale : 1);
}

/* Returns the element of input i's gradient that is furthest from its right value; -1 if the gradient is right. */
static int64_t worst_element(const th_graph *graph, const th_variant *variant, int i, double result_size)
{
    const int64_t numel = th_graph_numel(graph, i);
    double size = graph->unit > 0 ? (double)ROUNDINGS * graph->unit / graph->tolerance * result_size : 0,
           largest_distance = -1;
    int64_t worst = -1;
    for (int64_t e = 0; e < numel; e++) {
        const double value = expected_gradient(graph, variant, i, e);
        size = isfinite(value) ? fmax(size, fabs(value)) : size;
    }
    for (int64_t e = 0; e < numel; e++) {
        const double analytic = graph->gradient[graph->first_column[i] + e],
                     value = expected_gradient(graph, variant, i, e);
        const double distance = isnan(analytic - value) ? INFINITY : fabs(analytic - value);
        if (distance > largest_distance && !th_graph_is_close(graph, analytic, value, size)) {
            largest_distance = distance;
            worst = e;
        }
    }
    return worst;
}

/* Returns the first input whose gradient is wrong in the last run; -1 if all are right. */
static int wrong_input(const th_graph *graph, const th_variant *variant, int64_t *element)
{
    const double largest = largest_result(graph, variant);
    for (uint32_t remaining = variant->required_inputs; remaining; remaining &= remaining - 1) {
        const int i = th_mask_first(remaining);
        if (th_variant_repeats_input(variant) && i == variant->same_inputs[1])
            continue;
        *element = worst_element(graph, variant, i, largest);
        if (*element >= 0)
            return i;
    }
    return -1;
}

bool th_variant_is_wrong(const th_graph *graph, const th_variant *variant)
{
    int64_t element;
    return graph->finding[0] || wrong_input(graph, variant, &element) >= 0;
}

/* -- reporting -- */

typedef struct sentence {
    char text[400];
    int conditions;
} sentence;

static void add_condition(sentence *s, const char *format, ...) TH_FORMAT(2, 3);
static void add_condition(sentence *s, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    th_append(s->text, sizeof s->text, "%s", s->conditions++ ? " and " : " if ");
    th_append_arguments(s->text, sizeof s->text, format, arguments);
    va_end(arguments);
}

static const char *input_name(const th_graph *graph, int i, char *text, size_t size)
{
    text[0] = 0;
    th_append(text, size, graph->sample->n_inputs == 1 ? "x" : "x%d", i);
    return text;
}

#define INPUT_NAME(i) input_name(graph, (i), (char[16]){0}, 16)

/* "x0, x2 and x3", "0 and 1" */
static void list_names(const th_graph *graph, uint32_t mask, bool inputs, char *text, size_t size)
{
    text[0] = 0;
    for (uint32_t remaining = mask; remaining; remaining &= remaining - 1) {
        const char *comma = remaining == mask ? "" : remaining & (remaining - 1) ? ", " : " and ";
        if (inputs)
            th_append(text, size, "%s%s", comma, INPUT_NAME(th_mask_first(remaining)));
        else
            th_append(text, size, "%s%d", comma, th_mask_first(remaining));
    }
}

static void report_masks(const th_graph *graph, const th_variant *variant, sentence *s)
{
    char names[160];
    const uint32_t missing = graph->checked_mask & ~variant->required_inputs;
    if (missing && !th_variant_repeats_input(variant)) {
        const bool few = th_mask_count(variant->required_inputs) <= th_mask_count(missing);
        list_names(graph, few ? variant->required_inputs : missing, true, names, sizeof names);
        if (few)
            add_condition(s, "only %s require%s a gradient", names,
                          th_mask_count(variant->required_inputs) == 1 ? "s" : "");
        else
            add_condition(s, "%s require%s no gradient", names, th_mask_count(missing) == 1 ? "s" : "");
    }
    if (th_mask_count(variant->given_outputs) > 1 && !th_variant_has_other_values(variant)) {
        list_names(graph, variant->given_outputs, false, names, sizeof names);
        add_condition(s, "outputs %s have a gradient at the same time", names);
    }
}

static void report_conditions(const th_graph *graph, const th_variant *variant, sentence *s)
{
    const uint32_t flags = variant->flags & graph->guard->original->flags;
    report_masks(graph, variant, s);
    if (th_variant_repeats_input(variant))
        add_condition(s, "the operation is called with the same tensor twice (%s and %s)",
                      INPUT_NAME(variant->same_inputs[0]), INPUT_NAME(variant->same_inputs[1]));
    if (variant->expanded_input)
        add_condition(s, "%s is expanded, with a stride of 0", INPUT_NAME(variant->expanded_input - 1));
    if (variant->special_input)
        add_condition(s, "an element of %s is NaN or infinite, on which these outputs do not depend",
                      INPUT_NAME(variant->special_input - 1));
    if (variant->followed)
        add_condition(s, "another call with other inputs comes between forward and backward");
    if (flags & TH_OP_IN_PLACE)
        add_condition(s, "an input gradient is written over output gradient 0 (TH_OP_IN_PLACE)");
    if (flags & TH_OP_OVER_INPUT)
        add_condition(s, "the gradient of input 0 is written over its value (TH_OP_OVER_INPUT)");
    if (flags & TH_OP_RECOMPUTE)
        add_condition(s, "its results are recomputed (TH_OP_RECOMPUTE)");
    if (variant->precomputed && graph->guard->original->precomputed)
        add_condition(s, "forward computes its gradients (.precomputed)");
    if (variant->inputs_are_results && !(flags & (TH_OP_IN_PLACE | TH_OP_OVER_INPUT)))
        add_condition(s, "its inputs are results of other operations");
    if (variant->recomputed)
        add_condition(s, "its values are recomputed (th_scope_begin_recomputed)");
    if (variant->shares_inputs)
        add_condition(s, "others read its inputs too, so that gradients are added up (call->add)");
    if (variant->passes > 1)
        add_condition(s, "a second backward adds to the gradients of the first");
    if (variant->scale != 0)
        add_condition(s, "output gradients are multiplied by %.3g: the rule is not linear in them", variant->scale);
    if (variant->half)
        add_condition(s, "every second element of the output gradients is 0: the rule is not linear in them");
}

static void report_element(const th_graph *graph, const th_variant *variant, th_gradient_report *report)
{
    int64_t element;
    const int i = wrong_input(graph, variant, &element);
    if (i < 0)
        return;
    const bool expanded = variant->expanded_input == i + 1;
    const th_shape shape = expanded ? th_shape_of(graph->inputs[i]) : th_sample_input_at(graph->sample, i)->shape;
    report->input = i;
    report->index.ndim = shape.ndim;
    th_index_at(shape.ndim, shape.size, element, report->index.size);
    report->analytic = graph->gradient[graph->first_column[i] + element];
    report->numeric = expected_gradient(graph, variant, i, element);
    const double difference = fabs(report->analytic - report->numeric);
    report->error = difference / fmax(fabs(report->analytic), fabs(report->numeric));
    if (isnan(report->error))
        report->error = INFINITY;
    th_report_append(report, "the gradient of %s[", INPUT_NAME(i));
    for (int d = 0; d < shape.ndim; d++)
        th_report_append(report, "%s%lld", d ? "," : "", (long long)report->index.size[d]);
    th_report_append(report, "] is %.9g; it should be %.9g\n", report->analytic, report->numeric);
}

void th_variant_report(const th_graph *graph, const th_variant *variant, th_gradient_report *report)
{
    static const char *const layouts[TH_LAYOUTS] = {"", ", strided", ", axes exchanged in memory"};
    const th_op *op = graph->guard->original;
    sentence s = {.conditions = 0};
    report_conditions(graph, variant, &s);
    const int64_t checked = report->checked;
    *report = (th_gradient_report){
        .verdict = TH_GRADIENT_WRONG, .mode = report->mode, .checked = checked, .input = -1, .error = INFINITY};
    th_report_append(report, "%s (sample \"%s\"%s%s) is wrong%s: ", op->name, graph->sample->name,
                     layouts[graph->layout], graph->mode ? graph->mode : "", s.text);
    if (graph->finding[0])
        th_report_append(report, "%s\n", graph->finding);
    else
        report_element(graph, variant, report);
}
