/* Makes the inputs of a check, and the right results by the library's operations and the tape (marker.h). */
#include <stdio.h>
#include <stdlib.h>

#include "marker.h"

static void require(const scene *s, const mark_check *check)
{
    if (th_error_code(s->ctx) == TH_OK)
        return;
    end_guarded(STOPPED, "", "the marker itself failed in the check \"%s\": %s", check->name, th_error_message(s->ctx));
}

/* Replaces the random elements of an input. */
static void set_values(th_tensor *t, const double *values)
{
    const bool integer = th_dtype_of(t) == TH_INT64, boolean = th_dtype_of(t) == TH_BOOL;
    void *data = th_data(t);
    for (int64_t i = 0; i < th_numel(t); i++)
        if (integer)
            ((int64_t *)data)[i] = (int64_t)values[i];
        else if (boolean)
            ((bool *)data)[i] = values[i] != 0;
        else
            ((double *)data)[i] = values[i];
}

static bool requested(const mark_check *check, int input)
{
    const th_sample_kind kind = check->input[input].kind;
    return (kind == TH_SAMPLE_REAL || kind == TH_SAMPLE_DISTINCT) &&
           (check->requested == 0 || (check->requested & TH_INPUT(input)) != 0);
}

static void compute_gradients(scene *s, const mark_subject *subject, const mark_check *check)
{
    th_tensor *wrt[INPUTS], *gradients[INPUTS] = {NULL};
    int count = 0, input[INPUTS];
    for (int i = 0; i < subject->n_inputs; i++)
        if (requested(check, i)) {
            wrt[count] = s->input[i];
            input[count++] = i;
        }
    const th_backward_options options = {.cotangent = s->dy, .wrt = wrt, .n_wrt = count, .gradients = gradients};
    if (th_backward(s->output[0], &options) == TH_OK)
        for (int i = 0; i < count; i++)
            s->gradient[input[i]] = gradients[i];
}

void scene_make(scene *s, const mark_subject *subject, const mark_check *check)
{
    *s = (scene){.ctx = th_context_new(&(th_context_options){.seed = 7, .threads = 1, .default_dtype = TH_FLOAT64}),
                 .add = check->add};
    if (s->ctx == NULL)
        end_guarded(STOPPED, "", "the marker has no memory");
    th_sample sample = {.name = check->name, .n_inputs = subject->n_inputs};
    for (int i = 0; i < subject->n_inputs; i++)
        sample.input[i] = check->input[i];
    if (th_sample_inputs(s->ctx, &sample, TH_FLOAT64, 7, s->input) == TH_OK)
        for (int i = 0; i < subject->n_inputs; i++) {
            if (check->values[i])
                set_values(s->input[i], check->values[i]);
            if (requested(check, i))
                th_set_requires_gradient(s->input[i], true);
        }
    require(s, check);
    subject->compute(s);
    require(s, check);
    const th_shape shape = th_shape_of(s->output[0]);
    s->dy = check->ones ? th_ones(s->ctx, TH_FLOAT64, shape) : th_uniform(s->ctx, TH_FLOAT64, shape, -2, 2);
    compute_gradients(s, subject, check);
    require(s, check);
}

void scene_free(scene *s)
{
    th_context_free(s->ctx);
}
