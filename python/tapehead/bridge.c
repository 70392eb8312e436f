/* Calls th_check_function for Python: only pointers and numbers cross the border, so that no structure is described twice. */
#include "tapehead_check.h"

#include <string.h>

/* Calls a Python function. which is 0 for forward and 1 for backward. Each array has one address for each port. */
typedef int python_call(int which, void **in, void **out, void **dout, void **din);

/* A port; dtype is the place in types, below. */
typedef struct python_port {
    int dtype, ndim, constant;
    int64_t size[TH_MAX_DIMS];
    const void *values;
} python_port;

typedef struct python_options {
    double step, relative_tolerance, absolute_tolerance;
    int64_t seed;
    int mode, only_this_point;
} python_options;

typedef struct python_report {
    int status, verdict, input, not_deterministic;
    int64_t checked, forward_calls, backward_calls;
    double analytic, numeric, error, uncertainty, noise;
    char text[TH_GRADIENT_TEXT];
} python_report;

typedef struct bridge {
    python_call *call;
    int n_inputs, n_outputs;
} bridge;

static void addresses(int n, const th_buffer *buffers, void **data)
{
    for (int i = 0; i < n; i++)
        data[i] = buffers[i].data;
}

static int forward(void *user, const th_buffer *in, th_buffer *out)
{
    const bridge *b = user;
    void *x[TH_MAX_PORTS], *y[TH_MAX_PORTS];
    addresses(b->n_inputs, in, x);
    addresses(b->n_outputs, out, y);
    return b->call(0, x, y, NULL, NULL);
}

static int backward(void *user, const th_buffer *in, const th_buffer *out, const th_buffer *dout, th_buffer *din)
{
    const bridge *b = user;
    void *x[TH_MAX_PORTS], *y[TH_MAX_PORTS], *dy[TH_MAX_PORTS], *dx[TH_MAX_PORTS];
    addresses(b->n_inputs, in, x);
    addresses(b->n_outputs, out, y);
    addresses(b->n_outputs, dout, dy);
    addresses(b->n_inputs, din, dx);
    return b->call(1, x, y, dy, dx);
}

static th_port port_of(const python_port *from, const char *name)
{
    const th_dtype types[] = {TH_FLOAT64, TH_FLOAT32, TH_FLOAT16, TH_BFLOAT16, TH_INT32, TH_INT64, TH_BOOL};
    th_port port = TH_PORT_SCALAR(name, types[from->dtype]);
    port.ndim = from->ndim;
    memcpy(port.size, from->size, sizeof port.size);
    port.constant = from->constant != 0;
    port.values = from->values;
    return port;
}

TH_API int tapehead_python_check(const char *name, python_call *call, int n_inputs, const python_port *inputs,
                                 const char *const *input_names, int n_outputs, const python_port *outputs,
                                 const char *const *output_names, const python_options *options, python_report *result)
{
    if (n_inputs > TH_MAX_PORTS || n_outputs > TH_MAX_PORTS)
        return -1;
    bridge b = {call, n_inputs, n_outputs};
    th_port in[TH_MAX_PORTS], out[TH_MAX_PORTS];
    for (int i = 0; i < n_inputs; i++)
        in[i] = port_of(&inputs[i], input_names[i]);
    for (int i = 0; i < n_outputs; i++)
        out[i] = port_of(&outputs[i], output_names[i]);
    th_function function = {.name = name,
                            .forward = forward,
                            .backward = backward,
                            .user = &b,
                            .inputs = in,
                            .outputs = out,
                            .n_inputs = n_inputs,
                            .n_outputs = n_outputs};
    th_function_options o = {.mode = (th_gradient_mode)options->mode,
                             .step = options->step,
                             .relative_tolerance = options->relative_tolerance,
                             .absolute_tolerance = options->absolute_tolerance,
                             .seed = (uint64_t)options->seed,
                             .only_this_point = options->only_this_point != 0};
    th_function_report report = {0};
    result->status = th_check_function(&function, &o, &report);
    result->verdict = (int)report.verdict;
    result->input = report.input;
    result->not_deterministic = report.not_deterministic;
    result->checked = report.checked;
    result->forward_calls = report.forward_calls;
    result->backward_calls = report.backward_calls;
    result->analytic = report.analytic;
    result->numeric = report.numeric;
    result->error = report.error;
    result->uncertainty = report.uncertainty;
    result->noise = report.noise;
    memcpy(result->text, report.text, sizeof result->text);
    return 0;
}
