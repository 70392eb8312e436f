/* Checks the gradient of a ggml graph against central differences with the two files of scripts/amalgamate.sh --check.
 *
 *     struct ggml_tensor *x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 8, 4), *inputs[] = {x};
 *     ... fill x ...
 *     if (check_ggml("silu", inputs, 1, ggml_silu(ctx, x), NULL, &report))
 *         puts(report.text);
 *
 * The graph can have one node or many. Include ggml's headers and the checker's before this file. */
#ifndef CHECK_GGML_H
#define CHECK_GGML_H

#include <stdlib.h>
#include <string.h>

enum { CHECK_GGML_NODES = 2048 };

typedef struct check_ggml_graph {
    struct ggml_tensor **inputs, *output;
    int n_inputs;
    struct ggml_context *work;                   /* holds the graphs and the nodes of the backward graph */
    struct ggml_cgraph *forward, *with_backward; /* with_backward is NULL until the first backward */
} check_ggml_graph;

/* Copies between a tensor of ggml, which may be a view with any strides, and a contiguous array. */
static void check_ggml_copy(struct ggml_tensor *t, void *array, bool to_tensor)
{
    size_t bytes = ggml_type_size(t->type);
    char *a = array;
    for (int64_t i3 = 0; i3 < t->ne[3]; i3++)
        for (int64_t i2 = 0; i2 < t->ne[2]; i2++)
            for (int64_t i1 = 0; i1 < t->ne[1]; i1++)
                for (int64_t i0 = 0; i0 < t->ne[0]; i0++, a += bytes) {
                    char *element = (char *)t->data + (size_t)i0 * t->nb[0] + (size_t)i1 * t->nb[1] +
                                    (size_t)i2 * t->nb[2] + (size_t)i3 * t->nb[3];
                    memcpy(to_tensor ? element : a, to_tensor ? a : element, bytes);
                }
}

/* Runs a graph on one thread. Returns 0, or 1 if memory is lacking or ggml reports an error. */
static int check_ggml_run(struct ggml_cgraph *graph)
{
    struct ggml_cplan plan = ggml_graph_plan(graph, 1, NULL);
    plan.work_data = malloc(plan.work_size + 1);
    if (!plan.work_data)
        return 1;
    enum ggml_status status = ggml_graph_compute(graph, &plan);
    free(plan.work_data);
    return status != GGML_STATUS_SUCCESS;
}

static int check_ggml_forward(void *user, const th_buffer *in, th_buffer *out)
{
    check_ggml_graph *g = (check_ggml_graph *)user;
    for (int i = 0; i < g->n_inputs; i++)
        check_ggml_copy(g->inputs[i], in[i].data, true);
    if (check_ggml_run(g->forward))
        return 1;
    check_ggml_copy(g->output, out->data, false);
    return 0;
}

/* Marks the output as the loss: ggml then starts from its gradient, which the check fills with a cotangent. */
static void check_ggml_build_backward(check_ggml_graph *g)
{
    g->with_backward = ggml_new_graph_custom(g->work, CHECK_GGML_NODES, true);
    g->output->flags |= GGML_TENSOR_FLAG_LOSS;
    ggml_build_forward_expand(g->with_backward, g->output);
    ggml_build_backward_expand(g->work, g->with_backward, NULL);
}

static int check_ggml_backward(void *user, const th_buffer *in, const th_buffer *out, const th_buffer *dout,
                               th_buffer *din)
{
    check_ggml_graph *g = (check_ggml_graph *)user;
    (void)out;
    if (!g->with_backward)
        check_ggml_build_backward(g);
    for (int i = 0; i < g->n_inputs; i++)
        check_ggml_copy(g->inputs[i], in[i].data, true);
    check_ggml_copy(ggml_graph_get_grad(g->with_backward, g->output), dout->data, true);
    if (check_ggml_run(g->with_backward))
        return 1;
    for (int i = 0; i < g->n_inputs; i++) {
        struct ggml_tensor *gradient = ggml_graph_get_grad(g->with_backward, g->inputs[i]);
        if (din[i].data && gradient)
            check_ggml_copy(gradient, din[i].data, false);
        else if (din[i].data) /* ggml: the output does not depend on this input */
            memset(din[i].data, 0, (size_t)din[i].numel * sizeof(float));
    }
    return 0;
}

static th_port check_ggml_port(const struct ggml_tensor *t)
{
    th_port port = TH_PORT_SCALAR(t->name, TH_FLOAT32);
    if (t->type == GGML_TYPE_I32)
        port.dtype = TH_INT32;
    port.ndim = ggml_n_dims(t);
    for (int d = 0; d < port.ndim; d++) /* ggml names the fastest dimension first */
        port.size[d] = t->ne[port.ndim - 1 - d];
    return port;
}

/* Checks the gradient of output with respect to inputs at the values that the inputs have. Inputs and output are
 * contiguous leaves of type F32; an input of type I32 is not differentiated. Every other leaf is a constant. The check
 * overwrites the inputs' values, and it marks the inputs as parameters and the output as the loss.
 *
 * options and report may be NULL. ggml aborts where a node has no backward: with options->isolate (POSIX), the report
 * names the abort, and the process continues. Returns what th_check_function returns. */
static th_status check_ggml(const char *name, struct ggml_tensor **inputs, int n_inputs, struct ggml_tensor *output,
                            const th_function_options *options, th_function_report *report)
{
    if (!output->name[0])
        ggml_set_name(output, "output");
    th_port in[TH_MAX_PORTS], out = check_ggml_port(output);
    if (n_inputs < 1 || n_inputs > TH_MAX_PORTS)
        return TH_ERROR_ARGUMENT;
    struct ggml_init_params memory = {2 * ggml_graph_overhead_custom(CHECK_GGML_NODES, true) +
                                          CHECK_GGML_NODES * ggml_tensor_overhead() + ((size_t)16 << 20),
                                      NULL, false};
    check_ggml_graph graph = {inputs, output, n_inputs, ggml_init(memory), NULL, NULL};
    if (!graph.work)
        return TH_ERROR_MEMORY;
    for (int i = 0; i < n_inputs; i++) {
        if (!inputs[i]->name[0])
            ggml_format_name(inputs[i], "input %d", i);
        in[i] = check_ggml_port(inputs[i]);
        in[i].values = malloc(ggml_nbytes(inputs[i]) + 1);
        if (in[i].values)
            check_ggml_copy(inputs[i], (void *)(uintptr_t)in[i].values, false);
        if (inputs[i]->type == GGML_TYPE_F32)
            ggml_set_param(inputs[i]);
    }
    graph.forward = ggml_new_graph_custom(graph.work, CHECK_GGML_NODES, false);
    ggml_build_forward_expand(graph.forward, output);
    th_function function = th_function_of(name, check_ggml_forward, check_ggml_backward, &graph, n_inputs, in, 1, &out);
    th_status status = th_check_function(&function, options, report);
    for (int i = 0; i < n_inputs; i++)
        free((void *)(uintptr_t)in[i].values);
    ggml_free(graph.work);
    return status;
}

#endif
