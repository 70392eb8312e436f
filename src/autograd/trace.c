/* Tracing: finds the first value or gradient of a step that is not finite, and describes it with its operands' ranges.
 * The driver calls th_trace_call after every forward and backward while tracing is on. */
#include <math.h>

#include "autograd/frame.h"
#include "tensor/convert.h"
#include "tensor/format.h"
#include "tensor/strided_iterator.h"

/* Counts and range of an array's elements. */
typedef struct survey {
    int64_t nan, plus_infinite, minus_infinite; /* counts */
    double low, high;                           /* range of the finite elements */
    int64_t finite;
} survey;

static void count_element(survey *s, double x)
{
    if (isnan(x)) {
        s->nan++;
    } else if (isinf(x)) {
        *(x > 0 ? &s->plus_infinite : &s->minus_infinite) += 1;
    } else {
        s->low = s->finite == 0 || x < s->low ? x : s->low;
        s->high = s->finite == 0 || x > s->high ? x : s->high;
        s->finite++;
    }
}

static survey survey_array(const th_array *array)
{
    survey s = {0};
    th_iterator iterator;
    th_iterator_position position;
    if (!array->given || !th_is_floating(array->dtype) || !th_iterator_build(&iterator, array, 0, NULL))
        return s;
    th_iterator_seek(&iterator, 0, &position);
    for (int64_t i = 0; i < iterator.numel; i++, th_iterator_advance(&iterator, 1, &position))
        count_element(&s, th_number_read(array->dtype, position.address[0]));
    return s;
}

static void append_survey(char *text, size_t size, const survey *s)
{
    if (s->finite)
        th_append(text, size, "%.4g .. %.4g", s->low, s->high);
    else
        th_append(text, size, "nothing finite");
    if (s->nan)
        th_append(text, size, ", %lld NaN", (long long)s->nan);
    if (s->plus_infinite)
        th_append(text, size, ", %lld inf", (long long)s->plus_infinite);
    if (s->minus_infinite)
        th_append(text, size, ", %lld -inf", (long long)s->minus_infinite);
}

/* A -inf is a finding only if no operand contains one: an additive mask passes its -inf on. */
static bool is_finding(const survey *result, bool inputs_have_minus_infinity)
{
    return result->nan || result->plus_infinite || (result->minus_infinite && !inputs_have_minus_infinity);
}

static bool any_minus_infinity(const th_call *call)
{
    for (int i = 0; i < call->n_inputs; i++)
        if (survey_array(&call->input[i]).minus_infinite)
            return true;
    return false;
}

/* Returns whether backward wrote its gradient of input `result_index` over this operand's values. */
static bool is_overwritten(const th_call *call, const th_array *operand, int result_index)
{
    return operand->data == call->input_gradient[result_index].data;
}

static void write_finding(th_tape *tape, const th_call *call, const th_node *node, bool backward, int result_index,
                          const survey *result)
{
    const size_t size = sizeof tape->finding;
    const char *file = node ? node->file : NULL, *path = node ? node->path : call->ctx->scope_path;
    int line = node ? node->line : 0;
    if (node == NULL)
        th_caller_location(&file, &line);
    char *text = tape->finding;
    text[0] = 0;
    th_append(text, size, "%s: %s %d is not finite (", call->op->name, backward ? "the gradient of input" : "output",
              result_index);
    append_survey(text, size, result);
    th_append(text, size, ")%s%s; at %s:%d", path && path[0] ? "; in " : "", path ? path : "",
              file ? th_base_name(file) : "?", line);
    for (int i = 0; i < call->n_inputs; i++) {
        if (call->input[i].data == NULL || !th_is_floating(call->input[i].dtype) ||
            (backward && is_overwritten(call, &call->input[i], result_index)))
            continue;
        const survey input = survey_array(&call->input[i]);
        th_append(text, size, "; input %d: ", i);
        append_survey(text, size, &input);
    }
    for (int i = 0; backward && i < call->n_outputs; i++) {
        if (!call->output_gradient[i].given || is_overwritten(call, &call->output_gradient[i], result_index))
            continue;
        const survey gradient = survey_array(&call->output_gradient[i]);
        th_append(text, size, "; gradient of output %d: ", i);
        append_survey(text, size, &gradient);
    }
    tape->finding_is_old = false;
}

void th_trace_call(th_frame *frame, const th_node *node, bool backward)
{
    th_call *call = &frame->call;
    th_tape *tape = call->ctx->tape;
    if ((tape->finding[0] && !tape->finding_is_old) || call->ctx->options.shapes_only)
        return;
    const int n_results = backward ? call->n_inputs : call->n_outputs;
    for (int i = 0; i < n_results; i++) {
        const survey result = survey_array(backward ? &call->input_gradient[i] : &call->output[i]);
        if ((result.nan || result.plus_infinite || result.minus_infinite) &&
            is_finding(&result, !backward && any_minus_infinity(call))) {
            write_finding(tape, call, node, backward, i, &result);
            return;
        }
    }
}

void th_set_tracing(th_context *ctx, bool tracing)
{
    if (ctx)
        ctx->tracing = tracing;
}

const char *th_trace_finding(const th_context *ctx)
{
    return ctx && ctx->tape && ctx->tape->finding[0] ? ctx->tape->finding : NULL;
}
