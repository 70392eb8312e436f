/* The attributes of operations in exported scripts, word by word: axes and indices count from the beginning, and only the
 * members that a formula reads are there. Names of outputs; sizes of cropped arrays. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "export/json.h"
#include "folder.h"
#include "tapehead/gradient_check.h"
#include "tapehead/op.h"
#include "tapehead/tapehead.h"

#include "context.h"

static char *script;

static void setup(void)
{
    make_folder();
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 1, .default_dtype = TH_FLOAT64});
    th_keep_values(ctx, true);
}

static void teardown(void)
{
    free(script);
    script = NULL;
    close_context();
    remove_folder();
}

static th_tensor *leaf(th_shape shape)
{
    return th_set_requires_gradient(th_uniform(ctx, TH_FLOAT64, shape, 1, 2), true);
}

/* Checks that the script of the current tape has this text, and clears the tape. */
static void expect(const char *words)
{
    size_t bytes;
    no_error();
    ck_assert_msg(th_tape_write_python(ctx, in_folder("a.py"), NULL) == TH_OK, "%s", th_error_message(ctx));
    free(script);
    script = read_bytes(in_folder("a.py"), &bytes);
    const char *call = strstr(script, " = th_");
    ck_assert_msg(strstr(script, words) != NULL, "no \"%s\", but \"%.300s\"", words, call ? call : script);
    th_tape_clear(ctx);
}

START_TEST(axes_and_indices)
{
    th_tensor *x = leaf(TH_SHAPE(3, 4, 5));
    th_select(x, -1, -2);
    expect("th_select(x0, axis=2, index=3)");
    th_select(x, 1, 0);
    expect("th_select(x0, axis=1, index=0)");
    th_slice(x, -2, -3, -1, 1);
    expect("th_slice(x0, axis=1, start=1, stop=3, step=1)");
    th_slice(x, 0, 0, 3, 2);
    expect("th_slice(x0, axis=0, start=0, stop=3, step=2)");
    th_transpose(x, TH_AXES(-1, 0, 1));
    expect("th_transpose(x0, order=(2, 0, 1))");
    th_reshape(x, TH_SHAPE(6, -1));
    expect("th_reshape(x0, shape=(6, 10))");
    th_unsqueeze(x, -1);
    expect("axis=3)");
    th_squeeze(th_slice(x, 1, 0, 1, 1), -2);
    expect("th_squeeze(y0, axis=1)");
    th_softmax(x, -3);
    expect("th_softmax(x0, axis=0)");
    th_expand(leaf(TH_SHAPE(1, 5)), TH_SHAPE(2, 4, 5));
    expect("th_expand(x0, shape=(2, 4, 5))");
    th_scale(x, 0.375);
    expect("0.375");
}
END_TEST

static const double factors[2] = {1.5, 2.5};

START_TEST(scalings_of_rotary_positions)
{
    static const struct {
        th_rotary_scaling scaling;
        const char *words;
    } cases[] = {
        {{.kind = TH_ROTARY_LINEAR, .factor = 4}, "{\"kind\": \"linear\", \"factor\": 4}"},
        {{.kind = TH_ROTARY_DYNAMIC, .factor = 2, .original_length = 8},
         "{\"kind\": \"dynamic\", \"factor\": 2, \"original_length\": 8}"},
        {{.kind = TH_ROTARY_LLAMA3, .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_length = 16},
         "{\"kind\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1, \"high_freq_factor\": 4, "
         "\"original_length\": 16}"},
        {{.kind = TH_ROTARY_YARN, .factor = 4, .original_length = 8, .attention_factor = 1.25},
         "{\"kind\": \"yarn\", \"factor\": 4, \"original_length\": 8, \"attention_factor\": 1.25, \"beta_fast\": "
         "32, \"beta_slow\": 1, \"truncate\": 1}"},
        {{.kind = TH_ROTARY_YARN,
          .factor = 4,
          .original_length = 8,
          .attention_factor = 1.25,
          .beta_fast = 16,
          .beta_slow = 2,
          .no_truncate = true},
         "{\"kind\": \"yarn\", \"factor\": 4, \"original_length\": 8, \"attention_factor\": 1.25, \"beta_fast\": "
         "16, \"beta_slow\": 2, \"truncate\": 0}"},
        {{.kind = TH_ROTARY_LONGROPE,
          .factor = 4,
          .original_length = 8,
          .attention_factor = 1.25,
          .short_factor = factors,
          .long_factor = factors,
          .n_factors = 2},
         "{\"kind\": \"longrope\", \"original_length\": 8, \"attention_factor\": 1.25"},
    };
    th_tensor *x = leaf(TH_SHAPE(1, 6, 4));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        th_rotary(x, &(th_rotary_options){.base = 100, .scaling = cases[i].scaling});
        expect(cases[i].words);
    }
}
END_TEST

/* The second output of an operation has another name. */
START_TEST(names_of_outputs)
{
    th_tensor *x = leaf(TH_SHAPE(1, 2, 3, 4)), *sums = NULL;
    th_tensor *y = th_scaled_dot_product_attention(x, x, x, &(th_attention_options){.log_sum_exp = &sums});
    ck_assert_ptr_nonnull(sums);
    ck_assert_int_eq(th_backward(th_add(th_sum(y, TH_ALL_AXES, NULL), th_sum(sums, TH_ALL_AXES, NULL)), NULL), TH_OK);
    expect("y0, y0_1 = th_");
}
END_TEST

/* A part of a leaf that is used twice is added; the other parts are written. */
START_TEST(contributions_to_parts)
{
    th_tensor *other = leaf(TH_SHAPE(2)), *x = leaf(TH_SHAPE(3, 2)), *sum = th_exp(other);
    th_tensor *parts[3] = {th_select(x, 0, 0), th_select(x, 0, 1), th_select(x, 0, 0)};
    for (int i = 0; i < 3; i++)
        sum = th_add(sum, th_exp(parts[i]));
    ck_assert_int_eq(th_backward(th_sum(sum, TH_ALL_AXES, NULL), NULL), TH_OK);
    size_t bytes;
    ck_assert_int_eq(th_tape_write_html(ctx, in_folder("a.html"), NULL), TH_OK);
    char *page = read_bytes(in_folder("a.html"), &bytes);
    int added = 0, written = 0;
    for (const char *node = page; (node = strstr(node, "{\"op\":\"exp\"")) != NULL; node++) {
        const char *how = strstr(node, "\"how\":\"");
        ck_assert_ptr_nonnull(how);
        written += strncmp(how + 7, "written", 7) == 0;
        added += strncmp(how + 7, "added", 5) == 0;
    }
    ck_assert_int_eq(written, 3);
    ck_assert_int_eq(added, 1);
    free(page);
}
END_TEST

/* Appends the line of the script that computes the result of a sample, without its comment, unless it is the same as the
 * last one. */
static void append_call(const th_op *op, const th_sample *sample, FILE *calls)
{
    static char last[600];
    char call[600];
    th_tensor *inputs[TH_MAX_SAMPLE_INPUTS] = {NULL};
    size_t bytes;
    for (int i = 0; i < sample->n_inputs; i++)
        if (sample->input[i % TH_MAX_INPUTS].storage)
            return; /* exports refuse stored inputs */
    ck_assert_int_eq(th_sample_inputs(ctx, sample, TH_FLOAT64, 5, inputs), TH_OK);
    for (int i = 0; i < sample->n_inputs; i++)
        if (inputs[i] && th_dtype_of(inputs[i]) == TH_FLOAT64 && !sample->input[i % TH_MAX_INPUTS].constant)
            th_set_requires_gradient(inputs[i], true);
    th_tensor *y = th_apply_n(op, sample->attributes, sample->n_inputs, inputs, NULL);
    ck_assert_ptr_nonnull(y);
    if (!th_requires_gradient(y))
        return;
    ck_assert_msg(th_tape_write_python(ctx, in_folder("a.py"), NULL) == TH_OK, "%s", th_error_message(ctx));
    free(script);
    script = read_bytes(in_folder("a.py"), &bytes);
    char *line = strstr(script, "    # forward");
    ck_assert_ptr_nonnull(line);
    line = strchr(line, '\n') + 1;
    line += strspn(line, " ");
    snprintf(call, sizeof call, "%.*s", (int)(strstr(line, "  # node") - line), line);
    if (strcmp(call, last) != 0)
        fprintf(calls, "%s\n", call);
    memcpy(last, call, sizeof last);
    th_tape_clear(ctx);
    for (int i = 0; i < sample->n_inputs; i++)
        th_tensor_free(inputs[i]);
    no_error();
}

/* The calls of all operations, with the attributes of their samples, are in a file. */
START_TEST(calls_are_as_written)
{
    char *text = NULL;
    size_t size, bytes;
    FILE *calls = open_memstream(&text, &size);
    for (int i = 0; i < th_op_count(); i++)
        for (const th_sample *sample = th_op_at(i)->samples; sample && sample->name; sample++)
            append_call(th_op_at(i), sample, calls);
    fclose(calls);
    char *expected = read_bytes(FIXTURES "/export/calls.txt", &bytes), *rest = expected, *own = text;
    for (int number = 1; own || rest; number++) {
        const char *line = strsep(&own, "\n"), *wanted = strsep(&rest, "\n");
        ck_assert_msg(line && wanted && strcmp(line, wanted) == 0, "calls.txt, line %d is \"%.300s\", not \"%.300s\"",
                      number, line ? line : "", wanted ? wanted : "");
    }
    free(expected);
    free(text);
}
END_TEST

/* The largest axis becomes shorter until all elements fit, or until another one is larger. */
START_TEST(cropped_sizes)
{
    static const struct {
        int ndim;
        int64_t size[3], limit, cropped[3];
    } cases[] = {
        {1, {10}, 10, {10}},
        {1, {11}, 10, {10}},
        {1, {11}, 0, {1}},
        {2, {40, 30}, 100, {8, 12}},
        {2, {40, 3}, 100, {33, 3}},
        {2, {3, 40}, 100, {3, 33}},
        {2, {1, 1000}, 7, {1, 7}},
        {3, {2, 9, 5}, 50, {2, 5, 5}},
        {3, {2, 9, 5}, 89, {2, 8, 5}},
        {3, {2, 9, 5}, 90, {2, 9, 5}},
        {3, {7, 7, 7}, 1, {1, 1, 1}},
        {3, {0, 900, 900}, 1, {0, 900, 900}},
        {2, {INT64_MAX / 4, 4}, 8, {2, 4}},
        {0, {0}, 1, {0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t size[3];
        memcpy(size, cases[i].size, sizeof size);
        th_crop_sizes(cases[i].ndim, size, cases[i].limit);
        for (int d = 0; d < cases[i].ndim; d++)
            ck_assert_msg(size[d] == cases[i].cropped[d], "case %d, axis %d: %lld", (int)i, d, (long long)size[d]);
    }
}
END_TEST

/* Returns the bytes of the page's data for layers of attention over T tokens, and of their matrices of attention. */
static size_t data_bytes(int64_t T, int layers, int64_t *side)
{
    size_t bytes;
    th_tensor *x = leaf(TH_SHAPE(1, 1, T, 2));
    for (int i = 0; i < layers; i++)
        x = th_scaled_dot_product_attention(x, x, x, &(th_attention_options){.soft_cap = 50});
    ck_assert_int_eq(th_backward(th_sum(x, TH_ALL_AXES, NULL), NULL), TH_OK);
    ck_assert_int_eq(th_tape_write_html(ctx, in_folder("a.html"), &(th_html_options){.max_differences = -1}), TH_OK);
    char *page = read_bytes(in_folder("a.html"), &bytes), *begin = strstr(page, "<script type=\"application/json\">"),
         *end = strstr(begin, "</script>"), *scores = strstr(begin, "\"scores\":{\"shape\":[1,1,");
    ck_assert_ptr_nonnull(scores);
    *side = atoi(scores + strlen("\"scores\":{\"shape\":[1,1,"));
    const size_t data = (size_t)(end - begin);
    const char *scale = strstr(begin, "\"heads\":1,\"scale\":");
    ck_assert_ptr_nonnull(scale);
    ck_assert_double_eq(strtod(scale + 18, NULL), 1 / sqrt(2));
    free(page);
    th_tape_clear(ctx);
    return data;
}

/* With a soft cap the viewer cannot compute the matrices. All arrays take at most 320 KB, and nearly as many: attention two thirds, the others the rest. */
START_TEST(large_tapes_are_cropped_to_the_limit)
{
    int64_t side;
    for (int layers = 1; layers < 7; layers += 2) {
        const size_t bytes = data_bytes(500, layers, &side);
        ck_assert_msg(bytes < 330000, "%zu bytes", bytes);
        const double matrices = (double)(side * side) * 8 * 4 / 3 * 4 * layers; /* of 4 arrays */
        ck_assert_msg(matrices < 320e3 * 2 / 3 + 4000 && matrices > 320e3 * 2 / 3 * 0.5, "%d layers: %g bytes", layers,
                      matrices);
    }
    data_bytes(8, 1, &side);
    ck_assert_int_eq(side, 8);
}
END_TEST

/* The limit of a tape without attention, to the element: the first of 2^20, 7/8 of it, ... with which the arrays fit. */
START_TEST(the_limit_of_large_arrays_is_exact)
{
    enum { N = 50000, ALL = 320000 };
    size_t bytes;
    th_tensor *x = th_set_name(leaf(TH_SHAPE(N)), "x");
    ck_assert_int_eq(th_backward(th_sum(th_exp(x), TH_ALL_AXES, NULL), NULL), TH_OK);
    ck_assert_int_eq(th_tape_write_html(ctx, in_folder("a.html"), &(th_html_options){.max_differences = -1}), TH_OK);
    char *page = read_bytes(in_folder("a.html"), &bytes), *at = strstr(page, "\"value\":{\"shape\":[");
    ck_assert_ptr_nonnull(at);
    int64_t limit = 1 << 20;
    /* two values, two gradients and two contributions of `limit` elements; the loss and its gradient: 8 bytes are 32 / 3
     * characters, and an array has 60 more */
    while (6 * (limit * 32 / 3 + 60) + 2 * (32 / 3 + 60) > ALL)
        limit -= limit / 8;
    ck_assert_int_eq(atoi(at + strlen("\"value\":{\"shape\":[")), limit);
    free(page);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("export attributes", setup, teardown);
    tcase_add_test(tests, axes_and_indices);
    tcase_add_test(tests, scalings_of_rotary_positions);
    tcase_add_test(tests, names_of_outputs);
    tcase_add_test(tests, calls_are_as_written);
    tcase_add_test(tests, contributions_to_parts);
    tcase_add_test(tests, cropped_sizes);
    tcase_add_test(tests, large_tapes_are_cropped_to_the_limit);
    tcase_add_test(tests, the_limit_of_large_arrays_is_exact);
    return run_suites();
}
