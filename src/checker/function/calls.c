/* Calls of the user's functions (function.h). After each call: no function wrote outside its buffers, changed what it
 * only reads, or changed the mode of floating-point arithmetic. */
#include <fenv.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "checker/function/function.h"
#include "tensor/format.h"

bool th_run_note(th_run *run, const char *format, ...)
{
    if (run->mistake[0])
        return false;
    va_list arguments;
    va_start(arguments, format);
    th_append_arguments(run->mistake, sizeof run->mistake, format, arguments);
    va_end(arguments);
    return false;
}

bool th_run_out_of_memory(th_run *run)
{
    run->failed = run->no_memory = true;
    return th_run_note(run, "the buffers do not fit into memory");
}

double *th_run_allocate(th_run *run, int64_t count)
{
    double *memory = (double *)calloc((size_t)(count > 0 ? count : 1), sizeof *memory);
    if (memory == NULL)
        (void)th_run_out_of_memory(run);
    return memory;
}

/* -- memory -- */

unsigned char *th_run_save_blocks(th_run *run, const th_function_memory *memory)
{
    size_t bytes = 1;
    for (int i = 0; i < TH_MAX_PORTS; i++)
        bytes += memory[i].block ? memory[i].bytes : 0;
    unsigned char *saved = (unsigned char *)malloc(bytes), *at = saved;
    if (saved == NULL)
        (void)th_run_out_of_memory(run);
    for (int i = 0; i < TH_MAX_PORTS && saved; i++)
        if (memory[i].block) {
            memcpy(at, memory[i].block, memory[i].bytes);
            at += memory[i].bytes;
        }
    return saved;
}

void th_run_restore_blocks(th_function_memory *memory, const unsigned char *saved)
{
    for (int i = 0; i < TH_MAX_PORTS && saved; i++)
        if (memory[i].block) {
            memcpy(memory[i].block, saved, memory[i].bytes);
            saved += memory[i].bytes;
        }
}

bool th_run_init(th_run *run)
{
    const th_function *f = run->function;
    bool good = true;
    for (int i = 0; i < f->n_inputs && good; i++) {
        const th_port *port = &f->inputs[i];
        good = th_memory_init(&run->in[i], port, port->dtype);
        if (good && run->variable[i].checked)
            good = th_memory_init(&run->din[i], port, port->dtype);
        if (good && f->reference)
            good = th_memory_init(&run->exact_in[i], port, th_is_checked_type(port->dtype) ? TH_FLOAT64 : port->dtype);
    }
    for (int k = 0; k < f->n_outputs && good; k++) {
        const th_port *port = &f->outputs[k];
        good = th_memory_init(&run->out[k], port, port->dtype) &&
               (!th_is_checked_type(port->dtype) || th_memory_init(&run->dout[k], port, port->dtype));
        if (good && f->reference)
            good = th_memory_init(&run->exact_out[k], port, th_is_checked_type(port->dtype) ? TH_FLOAT64 : port->dtype);
    }
    return good || th_run_out_of_memory(run);
}

void th_run_free(th_run *run)
{
    for (int i = 0; i < TH_MAX_PORTS; i++) {
        th_function_memory *const all[] = {&run->in[i],  &run->out[i],      &run->dout[i],
                                           &run->din[i], &run->exact_in[i], &run->exact_out[i]};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            th_memory_free(all[k]);
    }
}

void th_run_set_exact(th_run *run)
{
    for (int i = 0; i < run->function->n_inputs && run->function->reference; i++)
        for (int64_t e = 0; e < run->in[i].buffer.numel; e++)
            th_buffer_write(&run->exact_in[i].buffer, e, th_buffer_read(&run->in[i].buffer, e));
}

/* -- the state around a call -- */

/* Calls of each function after which all inputs are compared. Less if there are very many elements, to save time. */
enum { TH_THOROUGH_CALLS = 16, TH_THOROUGH_CALLS_OF_MANY = 4, TH_MANY_COMPARED = 1000000 };

/* What a call must not change. */
typedef struct guarded_call {
    const char *name;
    const th_function_memory *read[3]; /* arrays of buffers that the function only reads */
    int count[3];
    uint64_t sum[3][TH_MAX_PORTS];
    bool thorough;
    int rounding;
} guarded_call;

static void begin_call(th_run *run, guarded_call *call, int64_t calls)
{
    const bool many = run->engine.columns + run->engine.rows > TH_MANY_COMPARED;
    call->thorough = calls <= (many ? TH_THOROUGH_CALLS_OF_MANY : TH_THOROUGH_CALLS);
    for (int s = 0; s < 3 && call->thorough; s++)
        for (int i = 0; i < call->count[s]; i++)
            call->sum[s][i] = call->read[s][i].block ? th_memory_sum(&call->read[s][i]) : 0;
    call->rounding = fegetround();
    th_process_begin_call(call->name, run->options.time_limit);
}

static const char *read_name(const th_run *run, const th_function_memory *read, int i)
{
    const th_function *f = run->function;
    const bool input = read == run->in || read == run->exact_in || read == run->din;
    return input ? f->inputs[i].name : f->outputs[i].name;
}

static const char *prefix_of(const th_run *run, const th_function_memory *read)
{
    return read == run->din || read == run->dout ? "the gradient of " : "";
}

static bool end_call(th_run *run, const guarded_call *call, int error)
{
    th_process_end_call();
    const int rounding = fegetround();
    if (rounding != call->rounding) {
        fesetround(call->rounding);
        return th_run_note(run, "%s changes the rounding mode of floating-point arithmetic", call->name);
    }
    volatile double smallest = 0x1p-1022;
    if (smallest / 2 == 0)
        return th_run_note(run, "%s sets flush-to-zero: subnormal numbers become 0", call->name);
    if (error) {
        run->failed = true;
        return th_run_note(run, "%s returned %d", call->name, error);
    }
    for (int s = 0; s < 3 && call->thorough; s++)
        for (int i = 0; i < call->count[s]; i++)
            if (call->read[s][i].block && call->sum[s][i] != th_memory_sum(&call->read[s][i]))
                return th_run_note(run, "%s changes %s%s, which it must only read", call->name,
                                   prefix_of(run, call->read[s]), read_name(run, call->read[s], i));
    return true;
}

static bool check_walls(th_run *run, const char *name, const th_function_memory *written, int count, int byte)
{
    for (int i = 0; i < count; i++)
        if (written[i].block && !th_memory_is_intact(&written[i], byte))
            return th_run_note(run, "%s writes outside %s%s", name, prefix_of(run, written),
                               read_name(run, written, i));
    return true;
}

/* The buffers that the user's function gets. */
typedef struct call_buffers {
    th_buffer in[TH_MAX_PORTS], out[TH_MAX_PORTS], dout[TH_MAX_PORTS], din[TH_MAX_PORTS];
} call_buffers;

static void give_buffers(const th_run *run, const th_function_memory *in, const th_function_memory *out,
                         call_buffers *buffers)
{
    for (int i = 0; i < run->function->n_inputs; i++) {
        buffers->in[i] = in[i].buffer;
        if (in == run->in && run->shared[0] != run->shared[1] && i == run->shared[1])
            buffers->in[i].data = run->in[run->shared[0]].buffer.data;
        buffers->din[i] = run->din[i].buffer;
    }
    for (int k = 0; k < run->function->n_outputs; k++) {
        buffers->out[k] = out[k].buffer;
        buffers->dout[k] = run->dout[k].buffer;
    }
}

/* -- the calls -- */

static bool call_forward(th_run *run, const char *name, th_function_forward *forward, const th_function_memory *in,
                         th_function_memory *out, int byte)
{
    const th_function *f = run->function;
    call_buffers b;
    for (int k = 0; k < f->n_outputs; k++)
        th_memory_fill(&out[k], byte);
    give_buffers(run, in, out, &b);
    if (f->set_seed)
        f->set_seed(f->user, run->seed);
    guarded_call call = {.name = name, .read = {in}, .count = {f->n_inputs}};
    begin_call(run, &call, ++run->forward_calls);
    return end_call(run, &call, forward(f->user, b.in, b.out)) && check_walls(run, name, out, f->n_outputs, byte);
}

bool th_run_forward(th_run *run, int byte)
{
    return call_forward(run, "forward", run->function->forward, run->in, run->out, byte);
}

bool th_run_reference(th_run *run)
{
    return call_forward(run, "reference", run->function->reference, run->exact_in, run->exact_out, TH_BUFFER_NAN);
}

void th_run_set_cotangent(th_run *run, const double *cotangent)
{
    for (int k = 0; k < run->function->n_outputs; k++) {
        if (run->dout[k].block == NULL)
            continue;
        th_memory_fill(&run->dout[k], TH_BUFFER_FINITE);
        th_buffer_store(&run->dout[k].buffer, cotangent);
        cotangent += run->dout[k].buffer.numel;
    }
}

/* Writes a number to every element of the gradients. */
static void set_gradients(th_run *run, double value)
{
    for (int i = 0; i < run->function->n_inputs; i++)
        for (int64_t e = 0; run->din[i].block && e < run->din[i].buffer.numel; e++)
            th_buffer_write(&run->din[i].buffer, e, value);
}

static bool call_backward(th_run *run, int byte)
{
    const th_function *f = run->function;
    call_buffers b;
    for (int i = 0; i < f->n_inputs; i++)
        if (run->din[i].block)
            th_memory_fill(&run->din[i], byte);
    if (f->accumulates)
        set_gradients(run, run->start_gradient);
    give_buffers(run, run->in, run->out, &b);
    guarded_call call = {
        .name = "backward", .read = {run->in, run->out, run->dout}, .count = {f->n_inputs, f->n_outputs, f->n_outputs}};
    begin_call(run, &call, ++run->backward_calls);
    return end_call(run, &call, f->backward(f->user, b.in, b.out, b.dout, b.din)) &&
           check_walls(run, "backward", run->din, f->n_inputs, byte);
}

bool th_run_jvp(th_run *run, double *values)
{
    const th_function *f = run->function;
    call_buffers b;
    give_buffers(run, run->in, run->out, &b);
    for (int k = 0; k < f->n_outputs; k++)
        if (run->dout[k].block)
            th_memory_fill(&run->dout[k], TH_BUFFER_NAN);
    guarded_call call = {
        .name = "jvp", .read = {run->in, run->out, run->din}, .count = {f->n_inputs, f->n_outputs, f->n_inputs}};
    begin_call(run, &call, ++run->backward_calls);
    const bool good = end_call(run, &call, f->jvp(f->user, b.in, b.out, b.din, b.dout)) &&
                      check_walls(run, "jvp", run->dout, f->n_outputs, TH_BUFFER_NAN);
    th_run_read_outputs(run, run->dout, values);
    return good;
}

void th_run_set_tangent(th_run *run, const double *tangent)
{
    for (int i = 0; i < run->function->n_inputs; i++)
        if (run->din[i].block) {
            th_memory_fill(&run->din[i], TH_BUFFER_FINITE);
            th_buffer_store(&run->din[i].buffer, tangent + run->variable[i].first_column);
        }
}

/* Computes the gradients of dout from calls of jvp along the unit vector of each element. */
static bool transpose_jvp(th_run *run)
{
    const int64_t rows = run->engine.rows, columns = run->engine.columns;
    double *cotangent = th_run_allocate(run, 2 * rows + 2 * columns);
    if (cotangent == NULL)
        return false;
    double *along_unit = cotangent + rows, *gradient = along_unit + rows, *tangent = gradient + columns;
    bool good = true;
    th_run_read_outputs(run, run->dout, cotangent);
    th_run_set_tangent(run, tangent);
    for (int i = 0; i < run->function->n_inputs; i++) {
        const th_buffer *unit = &run->din[i].buffer;
        for (int64_t e = 0; run->din[i].block && e < unit->numel && good; e++) {
            th_buffer_write(unit, e, 1);
            good = th_run_jvp(run, along_unit);
            th_buffer_write(unit, e, 0);
            double *sum = &gradient[run->variable[i].first_column + e];
            for (int64_t j = 0; j < rows; j++)
                *sum += cotangent[j] == 0 ? 0 : cotangent[j] * along_unit[j];
        }
    }
    th_run_set_tangent(run, gradient);
    th_run_set_cotangent(run, cotangent);
    free(cotangent);
    return good;
}

bool th_run_backward(th_run *run, int byte)
{
    return run->function->backward ? call_backward(run, byte) : transpose_jvp(run);
}

/* -- results -- */

void th_run_read_outputs(const th_run *run, const th_function_memory *out, double *values)
{
    for (int k = 0; k < run->function->n_outputs; k++)
        if (run->dout[k].block) {
            th_buffer_load(&out[k].buffer, 0, out[k].buffer.numel, values);
            values += out[k].buffer.numel;
        }
}

void th_run_outputs(const th_run *run, double *values)
{
    th_run_read_outputs(run, run->function->reference ? run->exact_out : run->out, values);
}

void th_run_gradients(const th_run *run, double *gradient)
{
    for (int i = 0; i < run->function->n_inputs; i++)
        if (run->din[i].block) {
            th_buffer_load(&run->din[i].buffer, 0, run->din[i].buffer.numel, gradient);
            gradient += run->din[i].buffer.numel;
        }
}
