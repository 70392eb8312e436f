/* Runs the student's forward and backward on arrays with known strides (marker.h). */
#include <stdlib.h>
#include <string.h>

#include "marker.h"

static const double BEFORE = 12345; /* in memory that backward must overwrite */

/* An array in separate memory, perhaps with gaps between its elements. */
typedef struct block {
    th_array array;
    size_t element; /* bytes */
    int64_t numel;
    char *memory;
} block;

static char *element_of(const block *b, int64_t n)
{
    int64_t offset = 0;
    for (int d = b->array.ndim - 1; d >= 0; n /= b->array.size[d], d--)
        offset += n % b->array.size[d] * b->array.stride[d];
    return (char *)b->array.data + offset * (int64_t)b->element;
}

/* Sets strides and returns the number of elements that they span. Variants: 0 row-major, 1 column-major, 2 with gaps,
 * 3 backward with gaps. */
static int64_t set_strides(th_array *a, int variant)
{
    int64_t span = variant >= 2 ? 2 : 1;
    for (int i = 0; i < a->ndim; i++) {
        const int d = variant == 1 ? i : a->ndim - 1 - i;
        a->stride[d] = variant == 3 ? -span : span;
        span = span * a->size[d] + (variant >= 2 ? 3 : 0);
    }
    return span;
}

/* Makes an array of this tensor's shape. Its elements are undefined. */
static block block_of(const th_tensor *t, int variant)
{
    const th_shape shape = th_shape_of(t);
    block b = {.array = {.given = true, .dtype = th_dtype_of(t), .ndim = shape.ndim}, .numel = th_numel(t)};
    memcpy(b.array.size, shape.size, sizeof b.array.size);
    b.element = th_dtype_size(b.array.dtype);
    const int64_t span = set_strides(&b.array, variant);
    b.memory = calloc((size_t)(span > 0 ? span : 1), b.element);
    if (b.memory == NULL)
        end_guarded(STOPPED, "", "the marker has no memory");
    int64_t first = 0;
    for (int d = 0; d < b.array.ndim && b.numel > 0; d++)
        first -= b.array.stride[d] < 0 ? (b.array.size[d] - 1) * b.array.stride[d] : 0;
    b.array.data = b.memory + first * (int64_t)b.element;
    return b;
}

static block copy_of(th_tensor *t, int variant)
{
    block b = block_of(t, variant);
    const char *data = th_data_const(t);
    for (int64_t n = 0; n < b.numel; n++)
        memcpy(element_of(&b, n), data + n * (int64_t)b.element, b.element);
    return b;
}

static double *numbers_of(const block *b)
{
    double *numbers = malloc((size_t)(b->numel + 1) * sizeof *numbers);
    for (int64_t n = 0; numbers && n < b->numel; n++)
        memcpy(numbers + n, element_of(b, n), sizeof *numbers);
    if (numbers == NULL)
        end_guarded(STOPPED, "", "the marker has no memory");
    return numbers;
}

static void fill(const block *b, bool add)
{
    for (int64_t n = 0; n < b->numel; n++) {
        const double value = add ? 0.25 * (double)(n + 1) : BEFORE;
        memcpy(element_of(b, n), &value, sizeof value);
    }
}

void student_run(student *st, const scene *s, const mark_subject *subject, const mark_check *check, const th_op *op)
{
    block input[INPUTS] = {{.memory = NULL}}, output[OUTPUTS] = {{.memory = NULL}},
          gradient[INPUTS] = {{.memory = NULL}};
    th_array inputs[INPUTS] = {{.given = false}}, outputs[OUTPUTS] = {{.given = false}},
             gradients[INPUTS] = {{.given = false}}, dys[OUTPUTS] = {{.given = false}};
    bool add[INPUTS] = {false};
    *st = (student){.output = {NULL}};
    for (int i = 0; i < subject->n_inputs; i++) {
        input[i] = copy_of(s->input[i], check->strided ? 1 + i % 3 : 0);
        inputs[i] = input[i].array;
    }
    for (int i = 0; i < subject->n_outputs; i++) {
        output[i] = block_of(s->output[i], 0);
        outputs[i] = output[i].array;
        fill(&output[i], false);
    }
    th_call call = {.ctx = s->ctx,
                    .op = op,
                    .n_inputs = subject->n_inputs,
                    .n_outputs = subject->n_outputs,
                    .input = inputs,
                    .output = outputs};
    op->forward(&call);
    for (int i = 0; i < subject->n_outputs; i++)
        st->output[i] = numbers_of(&output[i]);

    block dy = copy_of(s->dy, check->strided ? 3 : 0);
    dys[0] = dy.array;
    for (int i = 0; i < subject->n_inputs; i++) {
        if ((op->saves & TH_INPUT(i)) == 0)
            inputs[i].data = NULL;
        if (s->gradient[i] == NULL)
            continue;
        gradient[i] = block_of(s->input[i], check->strided ? 1 + (i + 1) % 3 : 0);
        fill(&gradient[i], check->add);
        gradients[i] = gradient[i].array;
        add[i] = check->add;
        st->before[i] = numbers_of(&gradient[i]);
    }
    for (int i = 0; i < subject->n_outputs; i++)
        if ((op->saves & TH_OUTPUT(i)) == 0)
            outputs[i].data = NULL;
    call.output_gradient = dys;
    call.input_gradient = gradients;
    call.add = add;
    op->backward(&call);
    for (int i = 0; i < subject->n_inputs; i++)
        if (gradient[i].memory) {
            st->gradient[i] = numbers_of(&gradient[i]);
            st->outside[i] = gradient_outside(i);
        }
    for (int i = 0; i < INPUTS; i++) {
        free(input[i].memory);
        free(gradient[i].memory);
    }
    for (int i = 0; i < OUTPUTS; i++)
        free(output[i].memory);
    free(dy.memory);
}

void student_free(student *st)
{
    for (int i = 0; i < INPUTS; i++) {
        free(st->gradient[i]);
        free(st->before[i]);
    }
    for (int i = 0; i < OUTPUTS; i++)
        free(st->output[i]);
}
