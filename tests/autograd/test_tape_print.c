/* Tests of parts of the printed tape and of its graph, names of tensors, and findings of tracing. (Whole texts: test_tape_texts.) */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tapehead/context.h"
#include "tapehead/gradient_check.h"
#include "tapehead/layers.h"
#include "tapehead/module.h"
#include "tapehead/op.h"
#include "tapehead/ops.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"

#include "leaf_and_loss.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 1});
    ck_assert_ptr_nonnull(ctx);
}

START_TEST(tracing_finds_the_first_value_that_is_not_finite)
{
    th_tensor *x = counting_leaf(TH_SHAPE(3));
    th_set_tracing(ctx, true);
    th_scope_begin(ctx, "head");
    th_tensor *y = th_log(th_add_scalar(x, -2));
    th_scope_end(ctx, th_exp(y));
    const char *finding = th_trace_finding(ctx);
    ck_assert_ptr_nonnull(finding);
    ck_assert_msg(strncmp(finding, "log: output 0 is not finite", 27) == 0, "%s", finding);
    ck_assert_ptr_nonnull(strstr(finding, "in head"));
    ck_assert_ptr_nonnull(strstr(finding, "test_tape_print.c:"));
    ck_assert_ptr_nonnull(strstr(finding, "-1 .. 1"));
    th_tape_clear(ctx);
    ck_assert_ptr_nonnull(th_trace_finding(ctx));
    th_tape_clear(ctx);
    ck_assert_ptr_null(th_trace_finding(ctx));
}
END_TEST

/* An operation whose name contains quotes, without formulas. */
static th_status twice_shape(th_call *call)
{
    th_call_output(call, 0, call->input[0].dtype, call->input[0].ndim, call->input[0].size, NULL);
    return TH_OK;
}

static void twice_forward(const th_call *call)
{
    const float *x = call->input[0].data; /* (n) */
    float *y = call->output[0].data;      /* (n) */
    for (int64_t i = 0; i < th_array_numel(&call->input[0]); i++)
        y[i] = 2 * x[i];
}

static void twice_backward(const th_call *call)
{
    const float *dy = call->output_gradient[0].data; /* (n) */
    float *dx = call->input_gradient[0].data;        /* (n) */
    for (int64_t i = 0; i < th_array_numel(&call->input_gradient[0]); i++)
        dx[i] = 2 * dy[i];
}

START_TEST(any_name_can_be_printed)
{
    static const th_op twice = {.name = "\"twice\"",
                                .n_inputs = 1,
                                .flags = TH_OP_CONTIGUOUS | TH_OP_CANNOT_ADD,
                                .shape = twice_shape,
                                .forward = twice_forward,
                                .backward = twice_backward};
    th_tensor *x = counting_leaf(TH_SHAPE(3));
    th_scope_begin(ctx, "a \"quoted\" \\ name");
    th_scope_end(ctx, th_add(th_apply(&twice, NULL, x), x));
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    ck_assert_int_eq(th_tape_print(ctx, file, &(th_tape_print_options){.formulas = true}), TH_OK);
    fflush(file);
    ck_assert_ptr_null(strstr(text, "(null)"));
    ck_assert_ptr_null(strstr(text, "a view"));
    ck_assert_int_eq(th_tape_print_dot(ctx, file), TH_OK);
    fclose(file);
    ck_assert_ptr_nonnull(strstr(text, "label=\"a \\\"quoted\\\" \\\\ name\""));
    ck_assert_ptr_nonnull(strstr(text, "label=\"\\\"twice\\\"\\n(3)\""));
    ck_assert_ptr_null(strstr(strstr(text, " -> n"), "subgraph")); /* edges come after all boxes */
    free(text);
}
END_TEST

/* The operation's own gradient is finite; the sum over the broadcast axis is not. */
START_TEST(tracing_finds_a_broadcast_sum_that_overflows)
{
    th_tensor *x = counting_leaf(TH_SHAPE(1)), *ones = th_ones(ctx, TH_FLOAT32, TH_SHAPE(4));
    const th_backward_options options = {.cotangent = th_full(ctx, TH_FLOAT32, TH_SHAPE(4), 1e38)};
    th_set_tracing(ctx, true);
    ck_assert_int_eq(th_backward(th_mul(x, ones), &options), TH_OK);
    ck_assert(isinf(th_get(th_gradient(x), TH_INDEX(0))));
    ck_assert_ptr_nonnull(th_trace_finding(ctx));
    ck_assert_ptr_nonnull(strstr(th_trace_finding(ctx), "mul: the gradient of input 0"));
    th_tape_clear(ctx);
    th_empty_gradient(x);
    ck_assert_int_eq(th_backward(th_expand(x, TH_SHAPE(4)), &options), TH_OK);
    ck_assert_ptr_nonnull(strstr(th_trace_finding(ctx), "expand: the gradient of input 0"));
}
END_TEST

/* dropout computes on a contiguous copy, which is freed before the finding is written. AddressSanitizer detects a read
 * of the copy. */
START_TEST(tracing_reads_operands_and_not_freed_copies)
{
    th_tensor *x = counting_leaf(TH_SHAPE(2, 64));
    ck_assert_int_eq(th_set(x, TH_INDEX(1, 3), INFINITY), TH_OK);
    ck_assert_int_eq(th_fill(th_slice(x, 1, 4, 64, 1), 1.5), TH_OK);
    th_set_tracing(ctx, true);
    th_tensor *y = th_dropout(th_swap_axes(x, 0, 1), 0.01);
    ck_assert_ptr_nonnull(th_trace_finding(ctx));
    ck_assert_ptr_nonnull(strstr(th_trace_finding(ctx), "dropout: output 0 is not finite"));
    ck_assert_ptr_nonnull(strstr(th_trace_finding(ctx), "input 0: 1 .. 67, 1 inf"));
    ck_assert_ptr_nonnull(y);
}
END_TEST

START_TEST(the_printed_tape_names_shapes_modules_and_costs)
{
    th_tensor *x = th_set_axes(counting_leaf(TH_SHAPE(2, 3)), "BE");
    th_scope_begin(ctx, "layers.0");
    th_tensor *y = th_scope_end(ctx, th_softmax(th_matmul(x, th_swap_axes(x, 0, 1)), -1));
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    ck_assert_int_eq(th_tape_print(ctx, file, &(th_tape_print_options){.formulas = true}), TH_OK);
    ck_assert_int_eq(th_tape_print_dot(ctx, file), TH_OK);
    fclose(file);
    for (const char *const *part = (const char *[]){"layers.0", "(B=2, E=3)", "matmul", "softmax",
                                                    "exp(x_i) / sum_j exp(x_j)", "digraph", "->", NULL};
         *part; part++)
        ck_assert_msg(strstr(text, *part) != NULL, "\"%s\" is not in\n%s", *part, text);
    free(text);
    th_node_info info;
    ck_assert_int_eq(th_tape_node(ctx, 1, &info), TH_OK);
    ck_assert_str_eq(info.operation, "matmul");
    ck_assert_int_eq(info.multiply_adds, 2 * 2 * 3);
    ck_assert_int_eq(th_backward(y, &(th_backward_options){.cotangent = y}), TH_OK);
}
END_TEST

/* Names are copied. That of an owned tensor has at most 63 bytes. */
START_TEST(names)
{
    char text[100] = "";
    th_tensor *x = counting_leaf(TH_SHAPE(2));
    ck_assert_ptr_eq(th_set_name(x, "first"), x);
    ck_assert_ptr_eq(th_set_name(x, "x"), x);
    memset(text, 'a', 80);
    th_tensor *y = th_set_name(th_exp(x), text);
    memcpy(text + 60, "ééé", 6);
    th_tensor *w = th_set_name(th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(2)), true), text);
    memset(text, 'b', 80);
    ck_assert_ptr_nonnull(th_mul(y, w));
    char *dot = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&dot, &size);
    ck_assert_int_eq(th_tape_print_dot(ctx, file), TH_OK);
    fclose(file);
    ck_assert_ptr_nonnull(strstr(dot, "label=\"x\\nfloat32 (2)\""));
    memset(text, 'a', 80);
    strcpy(text + 80, " = exp\\n(2)\"");
    ck_assert_ptr_nonnull(strstr(dot, text)); /* a result's name is not cut */
    strcpy(text + 60, "é\\nfloat32 (2)\"");   /* the name of an owned tensor is cut, after a whole character */
    ck_assert_ptr_nonnull(strstr(dot, text));
    free(dot);
    assert_error(th_set_name(x, NULL), TH_ERROR_ARGUMENT, "the name is NULL");
    assert_error(th_set_name(NULL, "x"), TH_ERROR_ARGUMENT, "the tensor is NULL");
}
END_TEST

/* With th_keep_values the graph shows few numbers, not many. */
START_TEST(the_graph_has_values)
{
    th_keep_values(ctx, true);
    th_tensor *x = counting_leaf(TH_SHAPE(2)), *many = counting_leaf(TH_SHAPE(9));
    ck_assert_int_eq(th_backward(th_add(total(th_mul(x, x)), total(many)), NULL), TH_OK);
    char *dot = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&dot, &size);
    ck_assert_int_eq(th_tape_print_dot(ctx, file), TH_OK);
    fclose(file);
    ck_assert_ptr_nonnull(strstr(dot, "label=\"mul\\n(2)\\n= 1 4\\ngradient 1 1\""));
    ck_assert_ptr_nonnull(strstr(dot, "label=\"input\\nfloat32 (2)\\n= 1 2\\ngradient 2 4\""));
    ck_assert_ptr_nonnull(strstr(dot, "label=\"input\\nfloat32 (9)\""));
    free(dot);
}
END_TEST

static char *dot_of_tape(void) /* free */
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    ck_assert_int_eq(th_tape_print_dot(ctx, file), TH_OK);
    fclose(file);
    return text;
}

START_TEST(the_graph_names_its_leaves)
{
    th_module *model = th_module_new(ctx, sizeof *model, "model", NULL);
    th_module *inner = th_module_add(model, "block", th_module_new(ctx, sizeof *model, "inner", NULL));
    th_module *dense = th_module_add(inner, "linear1", th_dense_new(ctx, 2, 3, NULL));
    th_tensor *x = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(4, 2)), *factor = th_full(ctx, TH_FLOAT32, (th_shape){0}, 2);
    th_tensor *axes = th_set_axes(counting_leaf(TH_SHAPE(3)), "E");
    th_tensor *y = th_mul(th_add(th_module_forward(dense, x), axes), factor);
    ck_assert_ptr_nonnull(th_sum(y, TH_ALL_AXES, NULL));
    char *text = dot_of_tape();
    for (const char *const *part =
             (const char *[]){"style=bold, label=\"block.linear1.weight\\nfloat32 (3, 2)\"",
                              "style=bold, label=\"block.linear1.bias\\nfloat32 (3)\"",
                              "style=dashed, label=\"input\\nfloat32 (4, 2)\"",
                              "style=dashed, label=\"input\\nfloat32 scalar\"",
                              "style=bold, label=\"input\\nfloat32 (E=3)\"", "label=\"sum\\nscalar\"", NULL};
         *part; part++)
        ck_assert_msg(strstr(text, *part) != NULL, "\"%s\" is not in\n%s", *part, text);
    ck_assert_ptr_null(strstr(text, "()"));
    /* The box of a module contains its parameters, but no inputs. Its title is at the left, above a margin. */
    const char *box = strstr(text, "subgraph"), *end = strstr(box, "\n  }"), *graph = strstr(text, "labeljust=l");
    ck_assert(graph && graph < box && strstr(box, "margin=16") < end);
    ck_assert(strstr(box, "linear1.weight") < end && strstr(box, "linear1.bias") < end);
    ck_assert_ptr_null(strstr(text, "cluster_1"));
    ck_assert(strstr(text, "label=\"input") > end);
    free(text);
    th_module_free(model); /* its parameters, which the tape still uses, lose their names */
    text = dot_of_tape();
    ck_assert_ptr_nonnull(strstr(text, "style=bold, label=\"input\\nfloat32 (3, 2)\""));
    ck_assert_ptr_null(strstr(text, "weight"));
    free(text);
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("tape_print", setup, close_context);
    tcase_add_test(tcase, tracing_finds_the_first_value_that_is_not_finite);
    tcase_add_test(tcase, any_name_can_be_printed);
    tcase_add_test(tcase, tracing_finds_a_broadcast_sum_that_overflows);
    tcase_add_test(tcase, tracing_reads_operands_and_not_freed_copies);
    tcase_add_test(tcase, the_printed_tape_names_shapes_modules_and_costs);
    tcase_add_test(tcase, names);
    tcase_add_test(tcase, the_graph_has_values);
    tcase_add_test(tcase, the_graph_names_its_leaves);
    return run_suites();
}
