/* Copies the arrays of a call to regions of memory and back (regions.h). */
#include "regions.h"

#include <stdlib.h>
#include <string.h>

enum { MARGIN = 16 }; /* elements */
static const double OUTSIDE = 54321;

static struct {
    mark_outside gradient[INPUTS];
    bool any;
} outside;

static int64_t offset_of(const th_array *a, int64_t n)
{
    int64_t offset = 0;
    for (int d = a->ndim - 1; d >= 0; n /= a->size[d], d--)
        offset += n % a->size[d] * a->stride[d];
    return offset;
}

void extent_of(const th_array *a, int64_t *low, int64_t *high)
{
    *low = *high = 0;
    if (th_array_numel(a) == 0)
        return;
    for (int d = 0; d < a->ndim; d++)
        *(a->stride[d] < 0 ? low : high) += (a->size[d] - 1) * a->stride[d];
    ++*high;
}

/* Describes the array. The margins are wide enough for offsets that are 8 times too large. */
static void describe(const th_array *a, message_array *m)
{
    int64_t low, high;
    extent_of(a, &low, &high);
    *m = (message_array){.given = a->given,
                         .has_data = a->given && a->data,
                         .dtype = a->dtype,
                         .ndim = a->ndim,
                         .element = (int64_t)th_dtype_size(a->dtype)};
    memcpy(m->size, a->size, sizeof m->size);
    memcpy(m->stride, a->stride, sizeof m->stride);
    m->first = MARGIN - 8 * low;
    m->slots = m->first + 8 * (high > 0 ? high - 1 : 0) + 1 + MARGIN;
}

/* Fills the region with the array. */
static void fill(region *g)
{
    const message_array *m = g->m;
    g->bytes = (size_t)(m->slots * m->element);
    g->sent = calloc(2, g->bytes);
    if (g->sent == NULL)
        end_guarded(STOPPED, "", "the marker has no memory");
    g->received = g->sent + g->bytes;
    for (int64_t i = 0; m->dtype == TH_FLOAT64 && i < m->slots; i++)
        memcpy(g->sent + i * m->element, &OUTSIDE, sizeof OUTSIDE);
    for (int64_t n = 0; n < th_array_numel(g->array); n++) {
        const int64_t offset = offset_of(g->array, n) * m->element;
        memcpy(g->sent + m->first * m->element + offset, (const char *)g->array->data + offset, (size_t)m->element);
    }
}

/* Compares what came back with what was sent, outside the elements. */
static mark_outside outside_of(const region *g)
{
    const message_array *m = g->m;
    char *first = g->received + m->first * m->element;
    const char *sent = g->sent + m->first * m->element;
    bool bytes = true;
    for (int64_t n = 0; n < th_array_numel(g->array); n++) {
        const int64_t offset = offset_of(g->array, n) * m->element;
        bytes = bytes && (offset == 0 || memcmp(first + 8 * offset, sent + 8 * offset, (size_t)m->element) != 0);
    }
    for (int64_t n = 0; n < th_array_numel(g->array); n++) {
        const int64_t offset = offset_of(g->array, n) * m->element;
        memcpy(first + offset, sent + offset, (size_t)m->element);
    }
    if (memcmp(g->received, g->sent, g->bytes) == 0)
        return NOTHING_OUTSIDE;
    return bytes ? BYTES_OUTSIDE : SOMETHING_OUTSIDE;
}

/* Copies the elements to the array, if the call may write it. */
static mark_outside take(const region *g, bool writable)
{
    const message_array *m = g->m;
    for (int64_t n = 0; n < th_array_numel(g->array); n++) {
        const int64_t offset = offset_of(g->array, n) * m->element;
        const char *element = g->received + m->first * m->element + offset;
        if (writable)
            memcpy((char *)g->array->data + offset, element, (size_t)m->element);
        else if (memcmp(element, (const char *)g->array->data + offset, (size_t)m->element) != 0)
            end_guarded(WRONG, "your lines may read the inputs and dy, and write the gradients only",
                        "an array that must only be read was written");
    }
    return outside_of(g);
}

static void add_arrays(message_call *m, region *regions, int first, th_array *arrays, int count)
{
    for (int i = 0; arrays && i < count; i++) {
        describe(&arrays[i], &m->array[first + i]);
        regions[first + i] = (region){.m = &m->array[first + i], .array = &arrays[i]};
    }
}

void call_on_regions(const th_call *c, bool backward, mark_exchange *exchange)
{
    static message_call m;
    region regions[ARRAYS] = {{.m = NULL}};
    m = (message_call){
        .backward = backward, .training = c->training, .n_inputs = c->n_inputs, .n_outputs = c->n_outputs};
    add_arrays(&m, regions, OF_INPUT, c->input, c->n_inputs);
    add_arrays(&m, regions, OF_OUTPUT, c->output, c->n_outputs);
    if (backward) {
        add_arrays(&m, regions, OF_OUTPUT_GRADIENT, c->output_gradient, c->n_outputs);
        add_arrays(&m, regions, OF_INPUT_GRADIENT, c->input_gradient, c->n_inputs);
        memcpy(m.add, c->add, sizeof *m.add * (size_t)c->n_inputs);
    }
    for (int i = 0; i < ARRAYS; i++)
        if (m.array[i].has_data)
            fill(&regions[i]);
    exchange(&m, regions);
    for (int i = 0; i < ARRAYS; i++) {
        if (!m.array[i].has_data)
            continue;
        const bool gradient = i >= OF_INPUT_GRADIENT, output = i >= OF_OUTPUT && i < OF_OUTPUT_GRADIENT;
        const mark_outside found = take(&regions[i], gradient || (output && !backward));
        outside.any = outside.any || found != NOTHING_OUTSIDE;
        if (gradient)
            outside.gradient[i - OF_INPUT_GRADIENT] = found;
        free(regions[i].sent);
    }
}

void forget_outside(void)
{
    memset(&outside, 0, sizeof outside);
}

mark_outside gradient_outside(int input)
{
    return outside.gradient[input];
}

bool any_outside(void)
{
    return outside.any;
}
