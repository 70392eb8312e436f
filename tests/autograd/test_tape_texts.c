/* Tests of whole texts about a tape: the printed tape, its graph, findings of tracing, errors that name lines, and
 * profiles. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/profile.h"
#include "memory.h"
#include "tapehead/tapehead.h"

#include "leaf_and_loss.h"

static test_memory memory;

static void setup(void)
{
    memory = (test_memory){0};
    ctx = th_context_new(&(th_context_options){.threads = 1, .allocator = allocator_of(&memory)});
}

/* -- texts -- */

typedef struct text {
    char *content;
    size_t size;
    FILE *file;
} text;

static void begin(text *t)
{
    t->file = open_memstream(&t->content, &t->size);
}

/* Compares two texts and frees them. */
static void expect_same(text *actual, text *expected)
{
    fclose(actual->file);
    fclose(expected->file);
    ck_assert_str_eq(actual->content, expected->content);
    free(actual->content);
    free(expected->content);
}

static void put_header(FILE *file)
{
    fprintf(file, "%4s  %-18s %-28s %-52s %12s %11s  %s\n", "node", "operation", "module", "shapes", "mul-adds",
            "saved bytes", "saves");
}

/* Writes the line of a node as th_tape_print does. */
static void put_node(FILE *file, int index, const char *operation, const char *module, const char *shapes, int work,
                     int bytes, const char *saves)
{
    fprintf(file, "%4d  %-18s %-28s %-52s %12d %11d  %s\n", index, operation, module, shapes, work, bytes, saves);
}

static void put_sums(FILE *file, int nodes, int work, int saved)
{
    const th_memory_usage usage = th_memory(ctx);
    fprintf(file, "%d nodes, %d multiply-adds forward, %d bytes saved for backward, %zu bytes live, %zu at peak\n",
            nodes, work, saved, usage.live, usage.peak);
}

/* -- the printed tape -- */

/* A parameter's memory is not counted as saved. A value that two nodes save counts for both, and once in the sum. */
START_TEST(the_printed_tape)
{
    th_tensor *x = th_set_axes(counting_leaf(TH_SHAPE(2, 3)), "BE"), *w = counting_leaf(TH_SHAPE(4, 3));
    th_tensor *h = th_scale(x, 2);
    th_scope_begin(ctx, "layers");
    th_scope_begin(ctx, "0");
    th_tensor *y = th_dense(h, w, NULL);
    th_tensor *g = th_gelu(y);
    y = th_scope_end(ctx, th_mul(g, th_exp(y)));
    y = th_scope_end(ctx, th_mul(h, h));
    th_tensor *turned = total(th_swap_axes(h, 0, 1));
    th_tensor *loss = th_add(total(y), turned);
    ck_assert_ptr_nonnull(loss);
    text actual, expected;
    begin(&actual);
    begin(&expected);
    ck_assert_int_eq(th_tape_print(ctx, actual.file, NULL), TH_OK);
    put_header(expected.file);
    put_node(expected.file, 0, "scale", "-", "(B=2, E=3) -> (B=2, E=3)", 0, 0, "");
    put_node(expected.file, 1, "dense", "layers.0", "(B=2, E=3) (4, 3) -> (B=2, 4)", 24, 64, "x0,x1");
    put_node(expected.file, 2, "gelu", "layers.0", "(B=2, 4) -> (B=2, 4)", 0, 64, "x0");
    put_node(expected.file, 3, "exp", "layers.0", "(B=2, 4) -> (B=2, 4)", 0, 64, "y0");
    put_node(expected.file, 4, "mul", "layers.0", "(B=2, 4) (B=2, 4) -> (B=2, 4)", 0, 64, "(x0),x1");
    put_node(expected.file, 5, "mul", "layers", "(B=2, E=3) (B=2, E=3) -> (B=2, E=3)", 0, 128, "x0,x1");
    put_node(expected.file, 6, "transpose", "-", "(B=2, E=3) -> (E=3, B=2)", 0, 0, "");
    put_node(expected.file, 7, "sum", "-", "(E=3, B=2) -> ()", 0, 0, "");
    put_node(expected.file, 8, "sum", "-", "(B=2, E=3) -> ()", 0, 0, "");
    put_node(expected.file, 9, "add", "-", "() () -> ()", 0, 0, "");
    put_sums(expected.file, 10, 24, 192);
    expect_same(&actual, &expected);
}
END_TEST

/* Printing values changes no tensor: one whose scope has ended is printed, and stays unusable. */
START_TEST(the_printed_tape_with_formulas_and_values)
{
    th_keep_values(ctx, true);
    th_tensor *x = counting_leaf(TH_SHAPE(2));
    th_scope_begin(ctx, NULL);
    th_tensor *h = th_scale(x, 2);
    th_tensor *loss = th_scope_end(ctx, total(th_reshape(h, TH_SHAPE(2, 1))));
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    text actual, expected;
    begin(&actual);
    begin(&expected);
    ck_assert_int_eq(th_tape_print(ctx, actual.file, &(th_tape_print_options){.formulas = true, .values = true}),
                     TH_OK);
    ck_assert_double_eq(th_item(loss), 6);
    put_header(expected.file);
    put_node(expected.file, 0, "scale", "-", "(2) -> (2)", 0, 0, "");
    fputs("      y = x * factor\n      dx = dy * factor\n      value =\n[2. 4.]\n      gradient =\n[1. 1.]\n",
          expected.file);
    put_node(expected.file, 1, "reshape", "-", "(2) -> (2, 1)", 0, 0, "");
    fputs("      y = x under another shape\n      dx = dy under x's shape\n"
          "      value =\n[[2.]\n [4.]]\n      gradient =\n[[1.]\n [1.]]\n",
          expected.file);
    put_node(expected.file, 2, "sum", "-", "(2, 1) -> ()", 0, 0, "");
    fputs("      y = sum_j x_j\n      dx_j = dy\n      value =\n6.0\n      gradient =\n1.0\n", expected.file);
    put_sums(expected.file, 3, 0, 0);
    expect_same(&actual, &expected);
}
END_TEST

/* The graph leaves out an optional input that is not given. Edges come from leaves and from nodes. */
START_TEST(the_graph)
{
    th_tensor *x = counting_leaf(TH_SHAPE(2, 3)), *w = th_ones(ctx, TH_FLOAT32, TH_SHAPE(4, 3));
    th_scope_begin(ctx, "first");
    th_tensor *h = th_scope_end(ctx, th_exp(th_dense(x, w, NULL)));
    th_scope_begin(ctx, "second");
    th_tensor *y = th_scope_end(ctx, th_mul(h, h));
    ck_assert_ptr_nonnull(total(th_mul(y, th_full(ctx, TH_FLOAT32, (th_shape){0}, 2))));
    text actual, expected;
    begin(&actual);
    begin(&expected);
    ck_assert_int_eq(th_tape_print_dot(ctx, actual.file), TH_OK);
    fputs("digraph tape {\n"
          "  graph [fontname=\"sans-serif\", fontsize=11, labeljust=l, ranksep=0.4];\n"
          "  node [shape=ellipse, fontname=\"sans-serif\"];\n"
          "  subgraph cluster_0 {\n"
          "  label=\"first\"; style=rounded; margin=16;\n"
          "  n0 [label=\"dense\\n(2, 4)\", "
          "tooltip=\"dx = dy W, dW = dyᵀ x, db = column sums of dy, dresidual = dy\"];\n"
          "  n1 [label=\"exp\\n(2, 4)\", tooltip=\"dx = dy * y\"];\n"
          "  }\n"
          "  subgraph cluster_1 {\n"
          "  label=\"second\"; style=rounded; margin=16;\n"
          "  n2 [label=\"mul\\n(2, 4)\", tooltip=\"da = dy * b; db = dy * a\"];\n"
          "  }\n"
          "  n3 [label=\"mul\\n(2, 4)\", tooltip=\"da = dy * b; db = dy * a\"];\n"
          "  n4 [label=\"sum\\nscalar\", tooltip=\"dx_j = dy\"];\n"
          "  t0_0 [shape=box, style=bold, label=\"input\\nfloat32 (2, 3)\"];\n"
          "  t0_1 [shape=box, style=dashed, label=\"input\\nfloat32 (4, 3)\"];\n"
          "  t0_0 -> n0;\n"
          "  t0_1 -> n0;\n"
          "  n0 -> n1;\n"
          "  n1 -> n2;\n"
          "  n1 -> n2;\n"
          "  t3_1 [shape=box, style=dashed, label=\"input\\nfloat32 scalar\"];\n"
          "  n2 -> n3;\n"
          "  t3_1 -> n3;\n"
          "  n3 -> n4;\n"
          "}\n",
          expected.file);
    expect_same(&actual, &expected);
}
END_TEST

/* A file that cannot be written is an error, also if it buffers the whole text. */
START_TEST(writing_fails)
{
    ck_assert_ptr_nonnull(th_exp(counting_leaf(TH_SHAPE(2))));
    for (int buffered = 0; buffered < 2; buffered++) {
        FILE *full = fopen("/dev/full", "w");
        setvbuf(full, NULL, buffered ? _IOFBF : _IONBF, BUFSIZ);
        expect_status(th_tape_print(ctx, full, &(th_tape_print_options){.formulas = true}), TH_ERROR_FILE,
                      "tape_print: writing failed");
        expect_status(th_tape_print_dot(ctx, full), TH_ERROR_FILE, "tape_print_dot: writing failed");
        const th_tape_print_options values = {.values = true};
        expect_status(th_tape_print(ctx, full, &values), TH_ERROR_FILE, "print: the file could not be written");
        fclose(full);
    }
    ck_assert_ptr_null(th_exp(NULL)); /* a pending error, with which no value can be printed */
    FILE *nowhere = fopen("/dev/null", "w");
    expect_status(th_tape_print(ctx, nowhere, &(th_tape_print_options){.values = true}), TH_ERROR_ARGUMENT, "exp");
    fclose(nowhere);
}
END_TEST

/* Gradients of results become tensors of the step when they are printed. */
START_TEST(printing_without_memory_is_an_error)
{
    th_tensor *x = counting_leaf(TH_SHAPE(2)), *loss = th_keep_gradient(total(th_scale(x, 3)));
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    FILE *nowhere = fopen("/dev/null", "w");
    th_no_grad_begin(ctx);
    int failed = 0;
    for (int i = 0; i < 400; i++) {
        if (i % 2) /* takes a handle of the step; printing takes one too */
            ck_assert_ptr_nonnull(th_scale(x, 1));
        run_out(&memory);
        const th_status status = th_tape_print(ctx, nowhere, &(th_tape_print_options){.values = true});
        memory.fail_at = 0;
        ck_assert_int_eq(status, th_error_code(ctx));
        failed += status == TH_ERROR_MEMORY;
        th_error_clear(ctx);
    }
    ck_assert_int_gt(failed, 0);
    th_no_grad_end(ctx);
    fclose(nowhere);
}
END_TEST

START_TEST(wrong_arguments)
{
    th_node_info info;
    expect_status(th_tape_node(ctx, 0, &info), TH_ERROR_INDEX, "tape_node: node 0 of a tape of 0");
    ck_assert_ptr_nonnull(total(counting_leaf(TH_SHAPE(2))));
    ck_assert_int_eq(th_tape_node(ctx, 0, &info), TH_OK);
    expect_status(th_tape_node(ctx, 1, &info), TH_ERROR_INDEX, "tape_node: node 1 of a tape of 1");
    expect_status(th_tape_node(ctx, -1, &info), TH_ERROR_INDEX, "tape_node: node -1 of a tape of 1");
    expect_status(th_tape_node(ctx, 0, NULL), TH_ERROR_ARGUMENT, "tape_node: the information is NULL");
    expect_status(th_tape_print(ctx, NULL, NULL), TH_ERROR_ARGUMENT, "tape_print: the file is NULL");
    expect_status(th_tape_print_dot(ctx, NULL), TH_ERROR_ARGUMENT, "tape_print_dot: the file is NULL");
    ck_assert_int_eq(th_tape_node(NULL, 0, &info), TH_ERROR_ARGUMENT);
    ck_assert_int_eq(th_tape_print(NULL, stdout, NULL), TH_ERROR_ARGUMENT);
    ck_assert_int_eq(th_tape_print_dot(NULL, stdout), TH_ERROR_ARGUMENT);
    ck_assert_int_eq(th_tape_length(NULL), 0);
}
END_TEST

/* -- findings of tracing -- */

/* Compares the finding with a text that contains the line, and begins a step without a finding. */
static void expect_finding(const char *format, int line)
{
    char expected[400];
    snprintf(expected, sizeof expected, format, line); /* formats are literals of this file */
    ck_assert_ptr_nonnull(th_trace_finding(ctx));
    ck_assert_str_eq(th_trace_finding(ctx), expected);
    th_tape_clear(ctx);
    th_tape_clear(ctx);
    ck_assert_ptr_null(th_trace_finding(ctx));
}

START_TEST(findings)
{
    const float numbers[] = {-1, -2, 0, 4};
    th_tensor *x = th_set_requires_gradient(th_from_data(ctx, TH_FLOAT32, TH_SHAPE(4), (const void *)numbers), true);
    th_set_tracing(ctx, true);
    int line = __LINE__ + 1;
    ck_assert_ptr_nonnull(th_log(x));
    expect_finding("log: output 0 is not finite (1.386 .. 1.386, 2 NaN, 1 -inf); at test_tape_texts.c:%d; "
                   "input 0: -2 .. 4",
                   line);
    ck_assert_ptr_nonnull((th_log)(x)); /* not the macro, which stores the line */
    expect_finding("log: output 0 is not finite (1.386 .. 1.386, 2 NaN, 1 -inf); at ?:%d; input 0: -2 .. 4", 0);
    th_no_grad_begin(ctx);
    th_scope_begin(ctx, "quiet");
    line = __LINE__ + 1;
    th_scope_end(ctx, th_log(x));
    th_no_grad_end(ctx);
    expect_finding("log: output 0 is not finite (1.386 .. 1.386, 2 NaN, 1 -inf); in quiet; at test_tape_texts.c:%d; "
                   "input 0: -2 .. 4",
                   line);
}
END_TEST

START_TEST(findings_of_backward)
{
    th_tensor *a = th_set_requires_gradient(th_full(ctx, TH_FLOAT32, TH_SHAPE(2), 1e30), true);
    th_tensor *b = th_set_requires_gradient(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2)), true);
    th_tensor *large = th_full(ctx, TH_FLOAT32, TH_SHAPE(2), 1e30);
    th_set_tracing(ctx, true);
    int line = __LINE__ + 1;
    th_tensor *y = th_mul(a, b);
    ck_assert_int_eq(th_backward(y, &(th_backward_options){.cotangent = large}), TH_OK);
    expect_finding("mul: the gradient of input 1 is not finite (nothing finite, 2 inf); at test_tape_texts.c:%d; "
                   "input 0: 1e+30 .. 1e+30; input 1: 0 .. 0; gradient of output 0: 1e+30 .. 1e+30",
                   line);
    /* The gradient is written over the gradient of the output, whose values are lost. */
    line = __LINE__ + 1;
    y = th_sqrt(th_scale(b, 1));
    ck_assert_int_eq(th_backward(y, &(th_backward_options){.cotangent = large}), TH_OK);
    expect_finding("sqrt: the gradient of input 0 is not finite (nothing finite, 2 inf); at test_tape_texts.c:%d",
                   line);
}
END_TEST

/* A mask passes its -inf on. Without one among the inputs, -inf is a finding. */
START_TEST(an_infinity_of_a_mask_is_no_finding)
{
    th_tensor *x = counting_leaf(TH_SHAPE(2));
    th_tensor *mask = th_full(ctx, TH_FLOAT32, TH_SHAPE(2), -INFINITY);
    th_set_tracing(ctx, true);
    ck_assert_ptr_nonnull(th_add(x, mask));
    ck_assert_ptr_nonnull(th_add(mask, x));
    ck_assert_ptr_null(th_trace_finding(ctx));
    ck_assert_ptr_nonnull(th_mul(mask, mask)); /* +inf */
    ck_assert_ptr_nonnull(strstr(th_trace_finding(ctx), "mul: output 0 is not finite (nothing finite, 2 inf)"));
    th_tape_clear(ctx);
    th_tape_clear(ctx);
    ck_assert_ptr_nonnull(th_log(th_scale(x, 0)));
    ck_assert_ptr_nonnull(strstr(th_trace_finding(ctx), "log: output 0 is not finite (nothing finite, 2 -inf)"));
    th_set_tracing(NULL, true);
    ck_assert_ptr_null(th_trace_finding(NULL));
}
END_TEST

/* -- errors that name lines -- */

START_TEST(the_error_of_a_changed_value_names_both_lines)
{
    th_tensor *x = counting_leaf(TH_SHAPE(2));
    const int line = __LINE__ + 1;
    th_tensor *loss = total(th_mul(x, x));
    ck_assert_int_eq(th_fill(x, 7), TH_OK);
    char expected[200];
    snprintf(expected, sizeof expected, "a value that mul saved at %s:%d was changed at %s:%d, before its backward",
             __FILE__, line, __FILE__, line + 1);
    expect_status(th_backward(loss, NULL), TH_ERROR_STATE, expected);
    th_tape_clear(ctx);
    loss = total((th_mul)(x, x));
    ck_assert_int_eq((th_fill)(x, 7), TH_OK);
    expect_status(th_backward(loss, NULL), TH_ERROR_STATE, "saved at ?:0 was changed at ?:0, before");
    th_tape_clear(ctx);
    ck_assert_int_eq(th_backward(total((th_exp)(x)), NULL), TH_OK);
}
END_TEST

/* -- profiles -- */

/* Records a forward and a backward in which the gradient of b has two parts. Then gives the operations 4, 3, 2 and 1
 * microseconds in the order of their first calls, and the profile 20. */
static int profiled_step(th_profile_options options)
{
    th_tensor *a = th_set_requires_gradient(th_ones(ctx, TH_FLOAT64, TH_SHAPE(2, 3)), true);
    th_tensor *b = th_set_requires_gradient(th_ones(ctx, TH_FLOAT64, TH_SHAPE(3)), true);
    ck_assert_int_eq(th_profile_begin(ctx, &options), TH_OK);
    const int line = __LINE__ + 1;
    th_tensor *y = th_matmul(th_add(th_add(a, b), b), th_ones(ctx, TH_FLOAT64, TH_SHAPE(3, 1000)));
    ck_assert_int_eq(th_backward(y, &(th_backward_options){.cotangent = y}), TH_OK);
    ck_assert_int_eq(th_profile_end(ctx), TH_OK);
    th_profile *p = ctx->profile;
    ck_assert_int_eq(p->table.tallies.count, 4);
    for (int i = 0; i < 4; i++)
        ((th_profile_tally *)th_pool_at(&p->table.tallies, i))->nanoseconds = (4 - i) * 1000;
    p->begin = 5000000;
    p->end = 5270000;
    p->overhead = 250000;
    return line;
}

START_TEST(the_table_of_a_profile)
{
    profiled_step((th_profile_options){0});
    text actual, expected;
    begin(&actual);
    begin(&expected);
    ck_assert_int_eq(th_profile_print(ctx, actual.file), TH_OK);
    fputs("operation                      phase         calls          ms    share     GF/s     GB/s\n"
          "add                            forward           2       0.004   20.0 %        -      0.1\n"
          "matmul                         forward           1       0.003   15.0 %      4.0     13.3\n"
          "matmul                         backward          1       0.002   10.0 %      6.0     20.0\n"
          "gradient sum                   backward          3       0.001    5.0 %        -      0.3\n"
          "outside operations                                       0.010   50.0 %\n"
          "total                                                    0.020  100.0 %\n"
          "7 calls, 12000 multiply-adds; recording them took 0.250 ms more\n",
          expected.file);
    expect_same(&actual, &expected);
}
END_TEST

START_TEST(a_profile_counts_bytes_of_each_type_and_sum)
{
    const int line = profiled_step((th_profile_options){0});
    const int64_t bytes[] = {2 * 8 * (6 + 3 + 6), 8 * (6 + 3000 + 2000), 8 * (6 + 3000 + 2000),
                             8 * (6 + 3 + 6 + 6 + 6 + 2 * 3)};
    for (int i = 0; i < 4; i++) {
        th_profile_entry entry;
        ck_assert_int_eq(th_profile_entry_at(ctx, i, &entry), TH_OK);
        ck_assert_int_eq(entry.bytes, bytes[i]);
    }
    text trace;
    begin(&trace);
    ck_assert_int_eq(th_profile_write_trace_to(ctx, trace.file), TH_OK);
    fclose(trace.file);
    char place[64];
    snprintf(place, sizeof place, "test_tape_texts.c:%d\"", line);
    ck_assert_int_eq(count(trace.content, place), 7); /* every event */
    ck_assert_int_eq(count(trace.content, "\"float64 (2, 3), float64 (3) -> float64 (2, 3)\""), 2);
    ck_assert_int_eq(count(trace.content, "\"float64 (2, 3), float64 (3, 1000) -> float64 (2, 1000)\""), 2);
    ck_assert_int_eq(count(trace.content, "\"float64 (2, 3) -> float64 (3)\""), 2);
    ck_assert_int_eq(count(trace.content, "\"float64 (2, 3) -> float64 (2, 3)\""), 1);
    free(trace.content);
    th_tape_clear(ctx);
    th_tensor *a = th_set_requires_gradient(th_ones(ctx, TH_FLOAT64, TH_SHAPE(3)), true);
    th_tensor *y = th_mul(a, th_ones(ctx, TH_FLOAT64, TH_SHAPE(2, 3)));
    ck_assert_int_eq(th_profile_begin(ctx, NULL), TH_OK);
    ck_assert_int_eq(th_backward(y, &(th_backward_options){.cotangent = y}), TH_OK);
    ck_assert_int_eq(th_profile_end(ctx), TH_OK);
    const th_profile_tally *sum = th_pool_at(&ctx->profile->table.tallies, 1); /* after mul */
    ck_assert_str_eq(sum->operation, "gradient sum");
    ck_assert_int_eq(sum->bytes, 8 * (6 + 3));
    expect_status(th_profile_entry_at(ctx, 0, NULL), TH_ERROR_ARGUMENT, "profile_entry_at: the entry is NULL");
}
END_TEST

START_TEST(the_table_of_a_full_profile)
{
    profiled_step((th_profile_options){.max_events = 4});
    text actual;
    begin(&actual);
    ck_assert_int_eq(th_profile_print(ctx, actual.file), TH_OK);
    fclose(actual.file);
    ck_assert_ptr_nonnull(strstr(actual.content, "recording them took 0.250 ms more; the trace was full for 3 of the "
                                                 "calls\n"));
    free(actual.content);
    ck_assert_int_eq(th_profile_sum(NULL).calls, 0);
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("texts about a tape", setup, close_context);
    tcase_add_test(tcase, the_printed_tape);
    tcase_add_test(tcase, the_printed_tape_with_formulas_and_values);
    tcase_add_test(tcase, the_graph);
    tcase_add_test(tcase, writing_fails);
    tcase_add_test(tcase, printing_without_memory_is_an_error);
    tcase_add_test(tcase, wrong_arguments);
    tcase_add_test(tcase, findings);
    tcase_add_test(tcase, findings_of_backward);
    tcase_add_test(tcase, an_infinity_of_a_mask_is_no_finding);
    tcase_add_test(tcase, the_error_of_a_changed_value_names_both_lines);
    tcase_add_test(tcase, the_table_of_a_profile);
    tcase_add_test(tcase, a_profile_counts_bytes_of_each_type_and_sum);
    tcase_add_test(tcase, the_table_of_a_full_profile);
    return run_suites();
}
