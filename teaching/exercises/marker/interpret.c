/* Runs a student's functions by the interpreter (marker.h, interpreter/interpreter.h). */
#include <string.h>

#include "../interpreter/interpreter.h"
#include "regions.h"

enum { PASSES = 5000000 };

typedef struct mark_source {
    interpreter *interpreter;
    int64_t steps; /* passes of loops for each check */
} mark_source;

static struct {
    interpreter *in;
    const th_op *original;
} code;

static void start_interpreter(const void *user, const mark_report *report, mark_result *r)
{
    const mark_source *source = user;
    if (interpreter_operation(source->interpreter)[0] == '\0')
        end_guarded(STOPPED, "", "the file has no operation with the name `exercise`: keep its last lines");
    require_operation(report, interpreter_operation(source->interpreter));
    interpreter_begin(source->interpreter, source->steps);
    r->state = RIGHT;
}

/* Memory outside an array makes a check wrong, even if its numbers are right. */
static void finish_interpreter(const void *user, mark_result *r)
{
    const mark_source *source = user;
    const char *outside = interpreter_outside(source->interpreter);
    write_text(r->note, CAUSE, "%s", outside);
    write_text(r->printed, PRINT, "%s", interpreter_printed(source->interpreter));
    if (outside[0] == '\0' || r->state != RIGHT)
        return;
    r->state = WRONG;
    write_text(r->sentence, SENTENCE, "%s", outside);
    write_text(r->cause, CAUSE, "%s", CAUSE_OUTSIDE);
}

static void interpret(const message_call *m, region *regions)
{
    static message_call request; /* its add is not const */
    th_array array[ARRAYS];
    interpreter_extent extent[ARRAYS];
    request = *m;
    for (int i = 0; i < ARRAYS; i++) {
        extent[i] = (interpreter_extent){0};
        if (m->array[i].has_data)
            memcpy(regions[i].received, regions[i].sent, regions[i].bytes);
        array[i] = array_of_message(&m->array[i], regions[i].received);
        extent_of(&array[i], &extent[i].low, &extent[i].high);
        extent[i].memory_low = -m->array[i].first;
        extent[i].memory_high = m->array[i].slots - m->array[i].first;
    }
    const th_call call = call_of_message(code.original, &request, array);
    if (interpreter_defines(code.in, m->backward))
        interpreter_run(code.in, m->backward, &(interpreter_call){&call, array, extent});
    else
        (m->backward ? code.original->backward : code.original->forward)(&call);
}

static void interpreted_forward(const th_call *c)
{
    call_on_regions(c, false, interpret);
}

static void interpreted_backward(const th_call *c)
{
    call_on_regions(c, true, interpret);
}

static th_op interpreted_op(const void *user, const th_op *original)
{
    const mark_source *source = user;
    code.in = source->interpreter;
    code.original = original;
    th_op op = *original;
    op.forward = interpreted_forward;
    op.backward = interpreted_backward;
    return op;
}

void mark_interpreted(mark_report *r)
{
    interpreter *in = interpreter_new(r->file, r->source);
    const mark_source source = {.interpreter = in, .steps = PASSES};
    const mark_code interpreted = {
        .user = &source, .start = start_interpreter, .op = interpreted_op, .finish = finish_interpreter};
    if (in == NULL)
        refuse_source(r, "the memory does not suffice");
    else if (interpreter_error(in)[0])
        refuse_source(r, interpreter_error(in));
    else
        mark_all(r, &interpreted);
    interpreter_free(in);
}
