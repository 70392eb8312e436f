/* Rules that are wrong under one condition only. th_check_op rejects each, and names the condition. */
#include "memory.h"
#include "tensor/context.h"
#include "user_ops.h"

/* -- the right rule: y = a ∘ b, z = a + 2 b -- */

typedef enum mistake {
    NONE,
    WRONG_ALONE,
    WRONG_TOGETHER,
    WRONG_FOR_ONE_TENSOR,
    CLIPPED,
    FORGETS_SMALL,
    WRITES_NOTHING,
    LEAVES_ONE_OUT,
    CHANGES_AN_INPUT,
    CHANGES_THE_COTANGENT,
    WRITES_BEHIND_THE_OUTPUT,
    WRITES_BEHIND_THE_GRADIENT,
    READS_ITS_OUTPUT,
    COUNTS_ITS_CALLS,
    COUNTS_BACKWARD_CALLS,
    MOVES_ITS_OUTPUT,
    ADDS_UNASKED,
} mistake;

static mistake current;
static int calls;

static th_status pair_shape(th_call *c)
{
    if (th_call_floating(c, 0) || th_call_same_type(c))
        return TH_ERROR_TYPE;
    for (int k = 0; k < 2; k++)
        th_call_output(c, k, c->input[0].dtype, c->input[0].ndim, c->input[0].size, NULL);
    return TH_OK;
}

static void pair_forward(const th_call *c)
{
    const int64_t n = th_array_numel(&c->input[0]);
    for (int64_t i = 0; i < n; i++) {
        const double a = load(&c->input[0], i), b = load(&c->input[1], i);
        const double before = current == READS_ITS_OUTPUT ? 0 * load(&c->output[0], i) : 0;
        if (!(current == LEAVES_ONE_OUT && i == 1))
            store(&c->output[0], i, a * b + before);
        if (c->output[1].given)
            store(&c->output[1], i, a + 2 * b + (current == COUNTS_ITS_CALLS ? ++calls / 1000 : 0));
    }
    if (current == COUNTS_ITS_CALLS && n)
        store(&c->output[0], 0, load(&c->output[0], 0) + ++calls);
    if (current == CHANGES_AN_INPUT && n)
        store(&c->input[1], 0, load(&c->input[1], 0) + 1);
    if (current == WRITES_BEHIND_THE_OUTPUT && n)
        ((double *)c->output[0].data)[n] = 1;
    if (current == MOVES_ITS_OUTPUT)
        c->output[0].data = c->input[0].data;
}

static double cotangent(const th_call *c, int k, int64_t i)
{
    const double dy = c->output_gradient[k].given ? load(&c->output_gradient[k], i) : 0;
    if (current == CLIPPED)
        return dy > 2 ? 2 : dy < -2 ? -2 : dy;
    if (current == FORGETS_SMALL)
        return dy > -1e-6 && dy < 1e-6 ? 0 : dy;
    return dy;
}

static double mistaken(const th_call *c, int input)
{
    switch (current) {
    case WRONG_ALONE:
        return input == 1 && !c->input_gradient[0].given ? 3 : 1;
    case WRONG_TOGETHER:
        return c->output_gradient[0].given && c->output_gradient[1].given ? 3 : 1;
    case WRONG_FOR_ONE_TENSOR:
        return c->input[0].data == c->input[1].data ? 3 : 1;
    case COUNTS_BACKWARD_CALLS:
        return ++calls;
    default:
        return 1;
    }
}

static void pair_backward(const th_call *c)
{
    const int64_t n = th_array_numel(&c->input[0]);
    for (int k = 0; k < 2; k++) {
        if (!c->input_gradient[k].given || current == WRITES_NOTHING)
            continue;
        const double factor = mistaken(c, k);
        for (int64_t i = 0; i < n; i++) {
            const double other = load(&c->input[1 - k], i);
            const double gradient = factor * (cotangent(c, 0, i) * other + cotangent(c, 1, i) * (k == 1 ? 2 : 1));
            if (current == ADDS_UNASKED)
                store(&c->input_gradient[k], i, load(&c->input_gradient[k], i) + gradient);
            else
                give(c, k, i, gradient);
        }
        if (current == WRITES_BEHIND_THE_GRADIENT && n)
            ((double *)c->input_gradient[k].data)[n] = 1;
    }
    if (current == CHANGES_THE_COTANGENT && n && c->output_gradient[0].given)
        store(&c->output_gradient[0], 0, 0);
}

#define MATRIX                                                                                                         \
    {                                                                                                                  \
        .shape = TH_SIZES(2, 3)                                                                                        \
    }
static const th_sample pair_samples[] = {{.name = "matrices", .n_inputs = 2, .input = {MATRIX, MATRIX}},
                                         {.name = NULL}};
static const th_op pair = {.name = "pair",
                           .n_inputs = 2,
                           .n_outputs = 2,
                           .differentiable_outputs = 3,
                           .saves = TH_INPUT(0) | TH_INPUT(1),
                           .shape = pair_shape,
                           .forward = pair_forward,
                           .backward = pair_backward,
                           .samples = pair_samples};

static void expect_rejected(const th_op *op, const char *words)
{
    th_gradient_report report;
    calls = 0;
    const th_status status = th_check_op(ctx, op, NULL, &report);
    ck_assert_msg(th_error_code(ctx) == TH_OK, "%s", th_error_message(ctx));
    ck_assert_msg(status == TH_ERROR_VALUE && report.verdict == TH_GRADIENT_WRONG && !report.ok,
                  "passed, and should be wrong: %s", words);
    ck_assert_msg(strstr(report.text, words) != NULL, "no \"%s\" in\n%s", words, report.text);
    ck_assert_ptr_nonnull(strstr(report.text, "is wrong"));
    ck_assert_ptr_nonnull(strstr(report.text, op->name));
}

START_TEST(the_right_one_passes)
{
    current = NONE;
    ck_assert_op(ctx, &pair);
    ck_assert_op_with(ctx, &pair, &(th_gradient_options){.float32 = true});
}
END_TEST

static const struct {
    mistake mistake;
    const char *words;
} mistakes[] = {
    {WRONG_ALONE, "is wrong if only x1 requires a gradient: the gradient of x1["},
    {WRONG_TOGETHER, "is wrong if outputs 0 and 1 have a gradient at the same time: the gradient of x0["},
    {WRONG_FOR_ONE_TENSOR, "is wrong if the operation is called with the same tensor twice (x0 and x1)"},
    {CLIPPED, "is wrong if output gradients are multiplied by -1.07e+09: the rule is not linear in them"},
    {FORGETS_SMALL, "is wrong if output gradients are multiplied by 9.31e-10: the rule is not linear in them"},
    {WRITES_NOTHING, "backward wrote nothing to the gradient of x0[0,0] (call->add is false"},
    {LEAVES_ONE_OUT, "forward wrote nothing to output 0[0,1]"},
    {CHANGES_AN_INPUT, "forward changed x1, which it may only read"},
    {CHANGES_THE_COTANGENT, "backward changed the gradient of output 0, which it may only read"},
    {WRITES_BEHIND_THE_OUTPUT, "forward wrote outside the memory of output 0"},
    {WRITES_BEHIND_THE_GRADIENT, "backward wrote outside the memory of the gradient of x0"},
    {READS_ITS_OUTPUT, "forward read uninitialized memory of output 0"},
    {COUNTS_ITS_CALLS, "two runs of forward on the same inputs give different values of output 0"},
    {COUNTS_BACKWARD_CALLS, "two runs of backward on the same inputs give different values of the gradient of x0"},
    {ADDS_UNASKED, "backward read uninitialized memory of the gradient of x0 (call->add is false"},
    {MOVES_ITS_OUTPUT, "forward changed the data pointer or the sizes of output 0"},
};

START_TEST(a_rule_that_is_wrong_under_one_condition_is_rejected)
{
    current = mistakes[_i].mistake;
    expect_rejected(&pair, mistakes[_i].words);
    current = NONE;
    ck_assert_op(ctx, &pair);
}
END_TEST

/* -- false claims of an operation -- */

START_TEST(an_operand_that_is_read_must_be_saved)
{
    current = NONE;
    th_op op = pair;
    op.saves = TH_INPUT(0);
    expect_rejected(&op,
                    "backward read x1, which was not saved: its data is NULL unless .saves or .saves_for names it");
    op.saves = 0; /* saves each input for the gradient of the other, so both for both gradients */
    op.saves_for[0] = TH_INPUT(0);
    op.saves_for[1] = TH_INPUT(1);
    expect_rejected(&op, "requires a gradient: backward read x");
    op.saves_for[0] = TH_INPUT(1);
    op.saves_for[1] = TH_INPUT(0);
    ck_assert_op(ctx, &op);
}
END_TEST

/* y_i = x_i x_{i+1}, around the end: dx_i = dy_i x_{i+1} + dy_{i-1} x_{i-1}, element after element. */
static void ring_forward(const th_call *c)
{
    const int64_t n = th_array_numel(&c->input[0]);
    for (int64_t i = 0; i < n; i++)
        store(&c->output[0], i, load(&c->input[0], i) * load(&c->input[0], (i + 1) % n));
}

static void ring_backward(const th_call *c)
{
    const int64_t n = th_array_numel(&c->input[0]);
    for (int64_t i = 0; i < n; i++) {
        const int64_t after = (i + 1) % n, before = (i + n - 1) % n;
        give(c, 0, i,
             load(&c->output_gradient[0], i) * load(&c->input[0], after) +
                 load(&c->output_gradient[0], before) * load(&c->input[0], before));
    }
}

static const th_op ring = {.name = "ring",
                           .n_inputs = 1,
                           .saves = TH_INPUT(0),
                           .shape = same_shape,
                           .forward = ring_forward,
                           .backward = ring_backward,
                           .samples = square_samples};

START_TEST(a_false_claim_of_memory_is_rejected)
{
    ck_assert_op(ctx, &ring);
    th_op op = ring;
    op.flags = TH_OP_IN_PLACE;
    expect_rejected(&op, "if an input gradient is written over output gradient 0 (TH_OP_IN_PLACE)");
    op.flags = TH_OP_OVER_INPUT;
    expect_rejected(&op, "if the gradient of input 0 is written over its value (TH_OP_OVER_INPUT)");
    op.flags = TH_OP_OVER_INPUT | TH_OP_IN_PLACE;
    expect_rejected(&op, "is written over ");
}
END_TEST

/* The precomputed gradient is twice the one of backward. */
static void precomputing_forward(const th_call *c)
{
    double sum = 0;
    for (int64_t i = 0; i < th_array_numel(&c->input[0]); i++) {
        const double x = load(&c->input[0], i);
        sum += x * x / 2;
        if (c->precomputed)
            store(&c->input_gradient[0], i, 2 * x);
    }
    store(&c->output[0], 0, sum);
}

START_TEST(a_precomputed_gradient_equals_the_usual_one)
{
    ck_assert_op(ctx, &energy);
    th_op op = energy;
    op.forward = precomputing_forward;
    expect_rejected(&op, "is wrong if forward computes its gradients (.precomputed): the gradient of x[");
}
END_TEST

/* -- scratch memory -- */

typedef struct cubes {
    size_t squares, other;
} cubes;

static int64_t reserved_part; /* backward reserves 1 / reserved_part of its squares */
static bool less_without_data, reads_scratch;
static int writes_before; /* 1: forward writes before its scratch memory; 2: backward does */

/* y = x³, with x² in scratch memory. */
static void cube_plan(const th_call *c, bool backward, void *plan)
{
    cubes *p = plan;
    const int64_t n = th_array_numel(&c->input[0]);
    const bool less = less_without_data && c->input[0].data == NULL && !backward;
    p->squares = th_plan_scratch(c, less ? 1 : n / (backward ? reserved_part : 1), sizeof(double));
    p->other = th_plan_scratch(c, n, sizeof(double));
}

static double *squares_of(const th_call *c)
{
    const cubes *p = c->plan;
    double *squares = th_call_scratch(c, p->squares), *other = th_call_scratch(c, p->other);
    for (int64_t i = 0; i < th_array_numel(&c->input[0]); i++) {
        squares[i] = load(&c->input[0], i) * load(&c->input[0], i) + (reads_scratch ? 0 * other[i] : 0);
        other[i] = 0;
    }
    return squares;
}

static void cube_forward(const th_call *c)
{
    double *squares = squares_of(c);
    if (writes_before == 1)
        memset((char *)squares - 1, 0, 1);
    for (int64_t i = 0; i < th_array_numel(&c->input[0]); i++)
        store(&c->output[0], i, squares[i] * load(&c->input[0], i));
}

static void cube_backward(const th_call *c)
{
    double *squares = squares_of(c);
    if (writes_before == 2)
        memset((char *)squares - 1, 0, 1);
    for (int64_t i = 0; i < th_array_numel(&c->input[0]); i++)
        give(c, 0, i, 3 * squares[i] * load(&c->output_gradient[0], i));
}

static const th_sample cube_samples[] = {{.name = "vector", .n_inputs = 1, .input = {{.shape = TH_SIZES(128)}}},
                                         {.name = NULL}};
static const th_op cube = {.name = "cube",
                           .n_inputs = 1,
                           .saves = TH_INPUT(0),
                           .shape = same_shape,
                           .forward = cube_forward,
                           .backward = cube_backward,
                           .plan = cube_plan,
                           .plan_size = sizeof(cubes),
                           .samples = cube_samples};

START_TEST(kernels_use_only_reserved_scratch_memory)
{
    reserved_part = 1;
    less_without_data = reads_scratch = false;
    ck_assert_op(ctx, &cube);
    reserved_part = 2;
    expect_rejected(&cube, "backward reserved 512 bytes of scratch memory and wrote beyond them");
    reserved_part = 1;
    reads_scratch = true;
    expect_rejected(&cube, "forward read uninitialized scratch memory");
    reads_scratch = false;
    less_without_data = true;
    expect_rejected(&cube, "in a context of shapes only: the plan of forward reserves");
    less_without_data = false;
    writes_before = 1;
    expect_rejected(&cube, "is wrong: forward wrote before the scratch memory that its plan reserved");
    writes_before = 2;
    expect_rejected(&cube, "is wrong: backward wrote before the scratch memory that its plan reserved");
    writes_before = 0;
    ck_assert_ptr_null(ctx->scratch_map);
}
END_TEST

/* -- empty tensors -- */

/* y_j = sum over i of x_ij. The kernel writes y only at the first row. */
static void sum_of_rows_forward(const th_call *c)
{
    const th_array *x = &c->input[0];
    for (int64_t j = 0; j < x->size[1]; j++)
        for (int64_t i = 0; i < x->size[0]; i++)
            store(&c->output[0], j, (i ? load(&c->output[0], j) : 0) + load(x, i * x->size[1] + j));
}

static void sum_of_rows_backward(const th_call *c)
{
    const th_array *dx = &c->input_gradient[0];
    for (int64_t i = 0; i < th_array_numel(dx); i++)
        give(c, 0, i, load(&c->output_gradient[0], i % dx->size[1]));
}

static th_status sum_of_rows_shape(th_call *c)
{
    if (th_call_floating(c, 0))
        return TH_ERROR_TYPE;
    th_call_output(c, 0, c->input[0].dtype, 1, &c->input[0].size[1], NULL);
    return TH_OK;
}

START_TEST(an_empty_sum_is_written)
{
    static const th_sample samples[] = {{.name = "rows", .n_inputs = 1, .input = {MATRIX}}, {.name = NULL}};
    const th_op op = {.name = "sum of rows",
                      .n_inputs = 1,
                      .shape = sum_of_rows_shape,
                      .forward = sum_of_rows_forward,
                      .backward = sum_of_rows_backward,
                      .samples = samples};
    expect_rejected(&op, "(sample \"rows, axes of 2 empty\") is wrong: forward wrote nothing to output 0[0]");
}
END_TEST

/* y_j starts with x_0j, which does not exist if x has no rows. */
static void first_row_forward(const th_call *c)
{
    const th_array *x = &c->input[0];
    for (int64_t j = 0; j < x->size[1]; j++) {
        store(&c->output[0], j, ((const double *)x->data)[j * x->stride[1]]);
        for (int64_t i = 1; i < x->size[0]; i++)
            store(&c->output[0], j, load(&c->output[0], j) + load(x, i * x->size[1] + j));
    }
}

typedef enum careless { CAREFUL, WRITES_Y, READS_B, READS_DY, WRITES_DB } careless;
static careless carelessness;

static th_status outer_shape(th_call *c)
{
    if (th_call_floating(c, 0) || th_call_same_type(c))
        return TH_ERROR_TYPE;
    th_call_output(c, 0, c->input[0].dtype, 2, (int64_t[]){c->input[0].size[0], c->input[1].size[0]}, NULL);
    return TH_OK;
}

/* y_ij = a_i b_j */
static void outer_forward(const th_call *c)
{
    const int64_t n = c->input[1].size[0];
    for (int64_t e = 0; e < th_array_numel(&c->output[0]); e++)
        store(&c->output[0], e, load(&c->input[0], e / n) * load(&c->input[1], e % n));
    if (carelessness == WRITES_Y && th_array_numel(&c->output[0]) == 0)
        ((double *)c->output[0].data)[0] = 1;
}

/* da_i = sum of dy_ij b_j, db_j = sum of dy_ij a_i */
static void outer_backward(const th_call *c)
{
    const int64_t m = c->input[0].size[0], n = c->input[1].size[0];
    for (int64_t i = 0; i < m && c->input_gradient[0].given; i++) {
        double sum = carelessness == READS_B && n == 0    ? ((const double *)c->input[1].data)[0]
                     : carelessness == READS_DY && n == 0 ? ((const double *)c->output_gradient[0].data)[0]
                                                          : 0;
        for (int64_t j = 0; j < n; j++)
            sum += load(&c->output_gradient[0], i * n + j) * load(&c->input[1], j);
        give(c, 0, i, sum);
    }
    for (int64_t j = 0; j < n && c->input_gradient[1].given; j++) {
        double sum = 0;
        for (int64_t i = 0; i < m; i++)
            sum += load(&c->output_gradient[0], i * n + j) * load(&c->input[0], i);
        give(c, 1, j, sum);
    }
    if (carelessness == WRITES_DB && n == 0 && c->input_gradient[1].given)
        ((double *)c->input_gradient[1].data)[0] = 0;
}

static const struct {
    careless careless;
    const char *words;
} outer_mistakes[] = {
    {WRITES_Y, "(sample \"vectors, axes of 3 empty\") is wrong: forward wrote outside the memory of output 0"},
    {READS_B, "(sample \"vectors, axes of 2 empty\") is wrong: backward read x1, which has no elements"},
    {READS_DY, "2 empty\") is wrong: backward read the gradient of output 0, which has no elements: its data is NULL"},
    {WRITES_DB, "2 empty\") is wrong: backward wrote outside the memory of the gradient of x1"},
};

START_TEST(an_element_of_an_empty_array_is_not_used)
{
    static const th_sample rows[] = {{.name = "rows", .n_inputs = 1, .input = {MATRIX}}, {.name = NULL}};
    static const th_sample vectors[] = {
        {.name = "vectors", .n_inputs = 2, .input = {{.shape = TH_SIZES(3)}, {.shape = TH_SIZES(2)}}}, {.name = NULL}};
    const th_op sum = {.name = "sum of rows",
                       .n_inputs = 1,
                       .shape = sum_of_rows_shape,
                       .forward = first_row_forward,
                       .backward = sum_of_rows_backward,
                       .samples = rows};
    const th_op outer = {.name = "outer",
                         .n_inputs = 2,
                         .saves = TH_INPUT(0) | TH_INPUT(1),
                         .shape = outer_shape,
                         .forward = outer_forward,
                         .backward = outer_backward,
                         .samples = vectors};
    expect_rejected(&sum, "axes of 2 empty\") is wrong: forward read x, which has no elements: its data is NULL");
    for (size_t i = 0; i < sizeof outer_mistakes / sizeof *outer_mistakes; i++) {
        carelessness = outer_mistakes[i].careless;
        expect_rejected(&outer, outer_mistakes[i].words);
    }
    carelessness = CAREFUL;
    ck_assert_op(ctx, &outer);
}
END_TEST

/* -- axis letters -- */

static const char *letters;

static th_status named_shape(th_call *c)
{
    th_call_output(c, 0, c->input[0].dtype, c->input[0].ndim, c->input[0].size, letters);
    return TH_OK;
}

START_TEST(there_is_a_letter_for_each_axis)
{
    th_op op = square;
    op.shape = named_shape;
    letters = "ABCDEFGHIJKLMNOPQR";
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2, 3));
    ck_assert_ptr_null(th_apply(&op, NULL, x));
    expect_error(TH_ERROR_SHAPE,
                 "names the axes of output 0 \"ABCDEFGHIJKLMNOPQR\"; it has 2 axes and needs 2 letters");
    letters = "B";
    th_gradient_report report;
    ck_assert_int_eq(th_check_op(ctx, &op, NULL, &report), TH_ERROR_SHAPE);
    expect_error(TH_ERROR_SHAPE, "\"B\"");
    letters = "";
    ck_assert_ptr_nonnull(th_apply(&op, NULL, x));
    letters = "BT";
    ck_assert_str_eq(th_axes_of(th_apply(&op, NULL, x)), "BT");
}
END_TEST

/* -- the check itself -- */

START_TEST(a_sample_may_have_only_constants)
{
    const th_sample samples[] = {
        {.name = "constant", .n_inputs = 1, .input = {{.shape = TH_SIZES(3), .constant = true}}},
        {.name = "vector", .n_inputs = 1, .input = {{.shape = TH_SIZES(3)}}},
        {.name = NULL}};
    th_op op = square;
    op.samples = samples;
    ck_assert_op(ctx, &op);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    bool done = false;
    current = NONE;
    reserved_part = 1;
    for (int64_t after = 1; !done; after += 1 + after / 16) {
        test_memory memory = {0};
        th_context *c = th_context_new(&(th_context_options){.threads = 1, .allocator = allocator_of(&memory)});
        th_gradient_report report;
        const th_op *op = after % 2 ? &pair : &cube;
        memory.fail_at = memory.calls + after;
        const th_status status = th_check_op(c, op, NULL, &report);
        ck_assert_msg(status == TH_OK || status == TH_ERROR_MEMORY, "%s", report.text);
        ck_assert_int_eq(report.ok, status == TH_OK);
        done = memory.calls < memory.fail_at;
        memory.fail_at = 0;
        th_error_clear(c);
        ck_assert_int_eq(th_check_op(c, op, NULL, &report), TH_OK);
        th_context_free(c);
        ck_assert_int_lt(after, 100000);
    }
}
END_TEST

/* Scopes, settings and memory in use are the same before and after. */
START_TEST(a_check_leaves_everything_as_it_was)
{
    current = NONE;
    th_no_grad_begin(ctx);
    th_keep_values(ctx, true);
    ck_assert_op(ctx, &pair);
    ck_assert_op(ctx, th_op_find("dropout"));
    th_no_grad_end(ctx);
    th_keep_values(ctx, false);
    th_tape_clear(ctx);
    const th_memory_usage usage = th_memory(ctx);
    ck_assert_op(ctx, &pair);
    ck_assert_uint_eq(th_memory(ctx).live, usage.live);
    th_context *shapes = th_context_new(&(th_context_options){.shapes_only = true});
    ck_assert_int_eq(th_check_op(shapes, &pair, NULL, NULL), TH_ERROR_STATE);
    th_context_free(shapes);
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("false rules", setup, close_context);
    tcase_add_test(tcase, the_right_one_passes);
    tcase_add_loop_test(tcase, a_rule_that_is_wrong_under_one_condition_is_rejected, 0,
                        (int)(sizeof mistakes / sizeof *mistakes));
    tcase_add_test(tcase, an_operand_that_is_read_must_be_saved);
    tcase_add_test(tcase, a_false_claim_of_memory_is_rejected);
    tcase_add_test(tcase, a_precomputed_gradient_equals_the_usual_one);
    tcase_add_test(tcase, kernels_use_only_reserved_scratch_memory);
    tcase_add_test(tcase, an_empty_sum_is_written);
    tcase_add_test(tcase, an_element_of_an_empty_array_is_not_used);
    tcase_add_test(tcase, there_is_a_letter_for_each_axis);
    tcase_add_test(tcase, a_sample_may_have_only_constants);
    tcase_add_test(tcase, every_allocation_may_fail);
    tcase_add_test(tcase, a_check_leaves_everything_as_it_was);
    return run_suites();
}
