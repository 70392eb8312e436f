/* Programs about the tape: scopes, recomputation, gradients, printing, tracing, and operations of a program's own. */
#include "subjects.h"

#include <math.h>
#include <string.h>

static th_status two_leaves(program_run *r)
{
    r->tensor[0] = leaf(r, TH_SHAPE(4, 6), 21);
    r->tensor[1] = leaf(r, TH_SHAPE(6, 6), 22);
    return th_error_code(r->ctx);
}

static void empty_gradients(program_run *r)
{
    for (int i = 0; i < 2; i++)
        th_empty_gradient(r->tensor[i]);
}

static void add_leaf_gradients(program_run *r)
{
    for (int i = 0; i < 2; i++)
        add_tensor(r, th_gradient(r->tensor[i]));
    empty_gradients(r);
}

/* -- scopes -- */

static th_tensor *layer(program_run *r, th_tensor *x)
{
    return th_dropout(th_gelu(th_matmul(x, r->tensor[1])), 0.25);
}

static th_status plain_scopes(program_run *r)
{
    th_scope_begin(r->ctx, "outer");
    th_tensor *a = layer(r, r->tensor[0]);
    th_scope_begin(r->ctx, NULL);
    th_tensor *b = th_tanh(layer(r, a)), *c = th_sin(b), *both[2] = {b, c};
    th_scope_end_all(r->ctx, both, 2);
    th_tensor *y = th_scope_end(r->ctx, th_mul(b, c));
    add_tensor(r, y);
    TRY(th_backward(th_mean(y, TH_ALL_AXES, NULL), NULL));
    add_leaf_gradients(r);
    return th_error_code(r->ctx);
}

static th_status recomputed_scopes(program_run *r)
{
    th_tensor *x = r->tensor[0];
    for (int i = 0; i < 3; i++) {
        th_scope_begin_recomputed(r->ctx, "layer");
        x = th_scope_end(r->ctx, layer(r, layer(r, x)));
    }
    add_tensor(r, x);
    TRY(th_backward(th_mse(x, r->tensor[0]), NULL));
    add_leaf_gradients(r);
    return th_error_code(r->ctx);
}

/* Returns with open scopes and without th_no_grad_end. */
static th_status open_scopes(program_run *r)
{
    th_scope_begin(r->ctx, "open");
    th_no_grad_begin(r->ctx);
    add_tensor(r, layer(r, r->tensor[0]));
    th_scope_begin_recomputed(r->ctx, "open too");
    const th_status status = th_error_code(r->ctx);
    th_no_grad_end(r->ctx);
    return status;
}

const program scopes = {
    .name = "scopes", .setup = two_leaves, .step = {plain_scopes, recomputed_scopes, open_scopes, plain_scopes}};

/* -- options of backward -- */

static th_status twice(program_run *r)
{
    empty_gradients(r);
    th_tensor *y = layer(r, r->tensor[0]), *cotangent = numbers(r, TH_SHAPE(4, 6), 23);
    const th_backward_options options = {.cotangent = cotangent, .keep_tape = true};
    TRY(th_backward(y, &options));
    TRY(th_backward(y, &(th_backward_options){.cotangent = cotangent}));
    add_leaf_gradients(r);
    return th_error_code(r->ctx);
}

static th_status chosen(program_run *r)
{
    th_tensor *hidden = layer(r, r->tensor[0]), *wrt[2] = {hidden, r->tensor[1]}, *gradient[2] = {NULL, NULL};
    th_tensor *loss = th_mean(layer(r, hidden), TH_ALL_AXES, NULL);
    TRY(th_backward(loss, &(th_backward_options){.wrt = wrt, .n_wrt = 2, .gradients = gradient}));
    add_tensor(r, gradient[0]);
    add_tensor(r, gradient[1]);
    return th_error_code(r->ctx);
}

/* Reads gradients of a result and of a view of a leaf. Gradients of several backwards are added, so a repetition begins
 * with empty ones. */
static th_status kept(program_run *r)
{
    empty_gradients(r);
    th_tensor *hidden = th_keep_gradient(layer(r, r->tensor[0]));
    TRY(th_backward(th_sum(th_exp(hidden), TH_ALL_AXES, NULL), NULL));
    TRY(th_backward(th_sum(th_slice(r->tensor[0], 0, 1, 3, 1), TH_ALL_AXES, NULL), NULL));
    add_tensor(r, th_gradient(hidden));
    add_tensor(r, th_gradient(th_select(r->tensor[1], 0, 2)));
    add_leaf_gradients(r);
    return th_error_code(r->ctx);
}

const program gradients = {.name = "gradients", .setup = two_leaves, .step = {twice, chosen, kept}};

/* -- looking at the tape -- */

/* The text is not added to the checksum, because it names the memory in use. */
static th_status printed(program_run *r)
{
    th_keep_values(r->ctx, true);
    th_tensor *loss = th_mean(layer(r, th_set_axes(th_tanh(r->tensor[0]), "BE")), TH_ALL_AXES, NULL);
    th_status status = th_backward(loss, NULL);
    if (status == TH_OK)
        status = th_tape_print(r->ctx, r->out, &(th_tape_print_options){.formulas = true, .values = true});
    th_keep_values(r->ctx, false);
    empty_gradients(r);
    return status;
}

static th_status walked(program_run *r)
{
    (void)th_mse(layer(r, r->tensor[0]), r->tensor[0]);
    TRY(th_tape_print_dot(r->ctx, r->out));
    add_output(r);
    for (int64_t i = 0; i < th_tape_length(r->ctx); i++) {
        th_node_info node;
        TRY(th_tape_node(r->ctx, i, &node));
        add_text(r, node.operation);
        add_number(r, (double)node.multiply_adds + node.n_inputs);
    }
    return th_error_code(r->ctx);
}

static th_status traced(program_run *r)
{
    th_set_tracing(r->ctx, true);
    (void)th_log(th_scale(th_relu(r->tensor[0]), -1));
    th_set_tracing(r->ctx, false);
    TRY(th_error_code(r->ctx));
    add_text(r, th_trace_finding(r->ctx));
    return th_error_code(r->ctx);
}

static th_status kept_and_exported(program_run *r)
{
    th_tensor *y = th_gelu(th_matmul(r->tensor[0], r->tensor[1]));
    TRY(th_backward(th_mse(y, r->tensor[0]), NULL));
    TRY(th_tape_write_python(r->ctx, in_folder(r, "tape.torch.py"), &(th_python_options){.title = "a script"}));
    TRY(th_tape_write_python(r->ctx, in_folder(r, "tape.numpy.py"), &(th_python_options){.numpy = true}));
    TRY(th_tape_explain(r->ctx, r->out, r->tensor[0], TH_INDEX(1, 2)));
    add_file(r, in_folder(r, "tape.torch.py"));
    add_file(r, in_folder(r, "tape.numpy.py"));
    add_output(r);
    return th_error_code(r->ctx);
}

static th_status exported(program_run *r)
{
    empty_gradients(r);
    th_keep_values(r->ctx, true);
    const th_status status = kept_and_exported(r);
    th_keep_values(r->ctx, false);
    empty_gradients(r);
    return status;
}

const program looking_at_the_tape = {
    .name = "looking_at_the_tape", .setup = two_leaves, .step = {printed, walked, traced, exported}};

/* -- a tape of many nodes -- */

static th_status long_tape(program_run *r)
{
    th_tensor *x = r->tensor[0];
    for (int i = 0; i < 300; i++)
        x = th_add(th_sin(x), r->tensor[0]);
    TRY(th_backward(th_mean(x, TH_ALL_AXES, NULL), NULL));
    add_leaf_gradients(r);
    return th_error_code(r->ctx);
}

const program many_nodes = {.name = "many_nodes", .setup = two_leaves, .step = {long_tape, long_tape}};

/* -- checking gradients -- */

static th_tensor *checked_function(void *user, th_tensor *const *inputs)
{
    (void)user;
    return th_mul(th_tanh(th_matmul(inputs[0], inputs[1])), th_dropout(inputs[0], 0.5));
}

static th_tensor *checked_function_of_one(void *user, th_tensor *x)
{
    return th_add(th_module_forward(user, x), th_exp(x));
}

static th_status checks_setup(program_run *r)
{
    TRY(two_leaves(r));
    r->model = th_rms_norm_new(r->ctx, 6, NULL);
    return th_error_code(r->ctx);
}

static th_status check_function(program_run *r)
{
    const th_gradient_options fast = {.mode = TH_GRADIENT_FAST, .directions = 1, .samples = 2};
    th_gradient_report report;
    TRY(th_check_gradient(r->ctx, checked_function, NULL, 2, r->tensor, &fast, &report));
    add_number(r, (double)report.checked);
    return th_error_code(r->ctx);
}

static th_status check_layer(program_run *r)
{
    const th_gradient_options options = {.mode = TH_GRADIENT_FAST, .directions = 1, .samples = 1};
    th_gradient_report report;
    TRY(th_check_gradient_of(checked_function_of_one, r->model, r->tensor[0], &options, &report));
    add_number(r, (double)report.checked);
    add_number(r, th_module_crc32c(r->model));
    return th_error_code(r->ctx);
}

/* A step of 0.5 is too long: the report says that the gradient is wrong. The context has no error. */
static th_status check_wrong(program_run *r)
{
    const th_gradient_options options = {
        .mode = TH_GRADIENT_FAST, .directions = 1, .samples = 1, .relative_tolerance = 1e-9, .step = 0.5};
    th_gradient_report report;
    const th_status status = th_check_gradient_of(checked_function_of_one, r->model, r->tensor[0], &options, &report);
    if (status != TH_ERROR_VALUE)
        return status;
    add_number(r, report.verdict);
    add_number(r, strlen(report.text) > 0);
    return th_error_code(r->ctx);
}

static double number_of(const th_buffer *b, int64_t i)
{
    return b->dtype == TH_FLOAT32 ? ((const float *)b->data)[i] : ((const double *)b->data)[i];
}

static void set_number(const th_buffer *b, int64_t i, double number)
{
    if (b->dtype == TH_FLOAT32)
        ((float *)b->data)[i] = (float)number;
    else
        ((double *)b->data)[i] = number;
}

static int cube(void *user, const th_buffer *in, th_buffer *out)
{
    (void)user;
    for (int64_t i = 0; i < in->numel; i++)
        set_number(out, i, pow(number_of(in, i), 3));
    return 0;
}

static int cube_backward(void *user, const th_buffer *in, const th_buffer *out, const th_buffer *dout, th_buffer *din)
{
    (void)user, (void)out;
    for (int64_t i = 0; i < in->numel; i++)
        set_number(din, i, 3 * pow(number_of(in, i), 2) * number_of(dout, i));
    return 0;
}

static th_status check_cube(program_run *r, th_dtype dtype)
{
    const th_port port = th_port_of("x", dtype, TH_SHAPE(2, 3));
    const th_function function = th_function_of("cube", cube, cube_backward, NULL, 1, &port, 1, &port);
    const char *name = "cube";
    th_function_report report;
    const th_status checked = th_check_function(&function, NULL, &report);
    if (checked) {
        snprintf(r->other_text, sizeof r->other_text, "%.1000s", report.text);
        return checked;
    }
    add_number(r, (double)report.checked);
    FILE *file = tmpfile();
    const th_status status = file ? th_write_function_reports(file, TH_REPORT_TAP, 1, &name, &report) : TH_ERROR_FILE;
    if (file)
        fclose(file);
    if (status)
        snprintf(r->other_text, sizeof r->other_text, "no memory for the file of the results");
    return status;
}

static th_status check_plain_function(program_run *r)
{
    return check_cube(r, TH_FLOAT64);
}

static th_status check_plain_float32(program_run *r)
{
    return check_cube(r, TH_FLOAT32);
}

const program gradient_checks = {
    .name = "gradient_checks",
    .setup = checks_setup,
    .step = {check_function, check_layer, check_wrong, check_plain_function, check_plain_float32}};

static th_status check_operation(program_run *r)
{
    th_gradient_report report;
    const th_gradient_options fast = {.mode = TH_GRADIENT_FAST, .directions = 1, .samples = 1};
    TRY(th_check_op(r->ctx, th_op_find("sin"), &fast, &report));
    add_number(r, (double)report.checked);
    return th_error_code(r->ctx);
}

const program operation_check = {.name = "operation_check", .step = {check_operation}};
