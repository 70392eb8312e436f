/* dense_cross_entropy: the gradients that forward precomputes, and every way in which their buffers can be used before
 * backward needs them, compared with the composition, in one chunk of rows and in several. (test_gradients.c checks
 * gradients on samples.) */
#include <math.h>
#include <string.h>

#include "tapehead/tapehead.h"

#include "context.h"

enum { ROWS = 1300, WIDTH = 12, CLASSES = 17 };       /* one chunk */
enum { MANY_CLASSES = 4097, CHUNK = 512 /* rows */ }; /* ROWS take three chunks */

static th_tensor *x, *weight, *targets;

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 5, .threads = 2});
    x = th_set_requires_gradient(th_randn(ctx, TH_FLOAT32, TH_SHAPE(ROWS, WIDTH)), true);
    weight = th_set_requires_gradient(th_randn(ctx, TH_FLOAT32, TH_SHAPE(CLASSES, WIDTH)), true);
    targets = th_random_integers(ctx, TH_INT32, TH_SHAPE(ROWS), 0, CLASSES);
}

static th_tensor *classify(bool fused, th_tensor *of, const th_cross_entropy_options *options)
{
    return fused ? th_dense_cross_entropy(of, weight, targets, options)
                 : th_cross_entropy(th_dense(of, weight, NULL), targets, options);
}

static void expect_close(th_tensor *a, th_tensor *b, const char *what)
{
    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_nonnull(b);
    const float *p = th_data(a), *q = th_data(b);
    float largest = 0;
    for (int64_t i = 0; i < th_numel(b); i++)
        largest = fmaxf(largest, fabsf(q[i]));
    for (int64_t i = 0; i < th_numel(a); i++)
        if (!(fabsf(p[i] - q[i]) <= 1e-6F + 4e-6F * largest))
            ck_abort_msg("%s[%d]: %g, composed %g", what, (int)i, (double)p[i], (double)q[i]);
}

/* -- ways to compute the gradients of x and weight -- */

typedef void scenario(bool fused);

static void plain(bool fused)
{
    ck_assert_int_eq(th_backward(classify(fused, x, NULL), NULL), TH_OK);
}

static void scaled(bool fused)
{
    ck_assert_int_eq(th_backward(th_scale(classify(fused, x, &(th_cross_entropy_options){TH_IGNORE(3)}), -2.5), NULL),
                     TH_OK);
}

/* The gradients are not empty: forward cannot precompute them. */
static void accumulated(bool fused)
{
    plain(fused);
    th_tape_clear(ctx);
    plain(fused);
}

static void both_losses_before_backward(bool fused)
{
    th_tensor *first = classify(fused, x, NULL), *second = classify(fused, x, NULL);
    ck_assert_int_eq(th_backward(th_add(first, th_scale(second, 3)), NULL), TH_OK);
}

/* Recorded later, so backward visits it earlier and uses both gradient buffers. */
static void used_again(bool fused)
{
    th_tensor *loss = classify(fused, x, NULL);
    th_tensor *other = th_mean(th_dense(x, weight, NULL), TH_ALL_AXES, NULL);
    ck_assert_int_eq(th_backward(th_add(loss, other), NULL), TH_OK);
}

static void visited_twice(bool fused)
{
    th_tensor *loss = classify(fused, x, NULL);
    ck_assert_int_eq(th_backward(loss, &(th_backward_options){.keep_tape = true}), TH_OK);
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
}

/* First a gradient for chosen tensors, in separate memory. */
static void chosen_before(bool fused)
{
    th_tensor *loss = classify(fused, x, NULL), *chosen = NULL;
    ck_assert_int_eq(
        th_backward(loss, &(th_backward_options){.keep_tape = true, .wrt = &weight, .n_wrt = 1, .gradients = &chosen}),
        TH_OK);
    ck_assert_ptr_null(th_gradient(weight));
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    expect_close(th_gradient(weight), chosen, "the chosen gradient");
}

static void replayed(bool fused)
{
    th_keep_values(ctx, true);
    plain(fused);
    th_keep_values(ctx, false);
}

static void of_an_intermediate(bool fused)
{
    ck_assert_int_eq(th_backward(classify(fused, th_tanh(th_scale(x, 0.5)), NULL), NULL), TH_OK);
}

/* The gradient of a view has no separate buffer. */
static void of_a_view(bool fused)
{
    th_tensor *halves = th_reshape(th_scale(x, 0.5), TH_SHAPE(2, ROWS / 2, WIDTH));
    ck_assert_int_eq(th_backward(classify(fused, th_reshape(halves, TH_SHAPE(ROWS, WIDTH)), NULL), NULL), TH_OK);
}

static void never_visited(bool fused)
{
    ck_assert_ptr_nonnull(classify(fused, th_scale(x, 2), NULL));
    ck_assert_ptr_null(th_gradient(weight));
    th_tape_clear(ctx);
    plain(fused);
}

/* A failing backward releases all gradients of intermediate results. */
static void after_a_failed_backward(bool fused)
{
    th_tensor *loss = classify(fused, th_tanh(x), NULL), *constant = th_ones(ctx, TH_FLOAT32, TH_SHAPE(1));
    ck_assert_int_eq(th_backward(loss, &(th_backward_options){.wrt = &constant, .n_wrt = 1}), TH_ERROR_ARGUMENT);
    th_error_clear(ctx);
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
}

/* Chosen in a pass that does not reach it. */
static void chosen_for_another_loss(bool fused)
{
    th_tensor *h = th_tanh(x), *loss = classify(fused, h, NULL), *other = th_mean(weight, TH_ALL_AXES, NULL), *chosen;
    ck_assert_int_eq(th_backward(other, &(th_backward_options){.wrt = &h, .n_wrt = 1, .gradients = &chosen}), TH_OK);
    ck_assert_double_eq(th_get(chosen, TH_INDEX(0, 0)), 0);
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
}

/* Backward first visits the node that produced x for its other output. */
static void beside_another_result(bool fused)
{
    th_tensor *log_sum_exp = NULL, *q = th_reshape(x, TH_SHAPE(ROWS, WIDTH, 1));
    th_tensor *y =
        th_scaled_dot_product_attention(q, q, q, &(th_attention_options){.log_sum_exp = &log_sum_exp}); /* (N, E, 1) */
    th_tensor *loss = classify(fused, log_sum_exp, NULL), *other = th_mean(y, TH_ALL_AXES, NULL);
    ck_assert_int_eq(th_backward(other, &(th_backward_options){.keep_tape = true}), TH_OK);
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
}

/* Reads the gradient through a handle that is older than the gradient. */
static void written_to_from_outside(bool fused)
{
    plain(fused);
    th_tensor *handle = th_gradient(weight);
    th_empty_gradient(weight);
    th_empty_gradient(x);
    th_tape_clear(ctx);
    th_tensor *loss = classify(fused, x, NULL);
    ck_assert_int_eq(th_fill(handle, 7), TH_OK);
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
}

static scenario *const scenarios[] = {written_to_from_outside,
                                      plain,
                                      scaled,
                                      accumulated,
                                      both_losses_before_backward,
                                      used_again,
                                      visited_twice,
                                      replayed,
                                      of_an_intermediate,
                                      of_a_view,
                                      never_visited,
                                      chosen_before,
                                      after_a_failed_backward,
                                      chosen_for_another_loss,
                                      beside_another_result};

START_TEST(gradients_equal_those_of_the_composition)
{
    th_tensor *dx[2], *dw[2];
    for (int fused = 0; fused < 2; fused++) {
        scenarios[_i](fused);
        dx[fused] = th_keep(th_gradient(x));
        dw[fused] = th_keep(th_gradient(weight));
        th_empty_gradient(x);
        th_empty_gradient(weight);
        th_tape_clear(ctx);
    }
    expect_close(dx[1], dx[0], "dx");
    expect_close(dw[1], dw[0], "dweight");
}
END_TEST

/* The loss and both gradients equal the composition's for `rows` rows, with and without early gradients. */
static void expect_equal_to_the_composition(int64_t rows, double normalizer, double factor, bool early)
{
    const th_cross_entropy_options options = {.normalizer = normalizer, TH_IGNORE(3), .label_smoothing = 0.1};
    th_tensor *part = th_slice(x, 0, 0, rows, 1), *all = targets, *dx[2], *dw[2];
    double loss[2];
    targets = th_slice(all, 0, 0, rows, 1);
    for (int fused = 0; fused < 2; fused++) {
        th_tensor *own = th_set_requires_gradient(th_keep(th_contiguous(th_detach(part))), true);
        for (int pass = 0; pass < (early ? 1 : 2); pass++) { /* a second pass accumulates, so nothing is precomputed */
            th_tensor *l = th_scale(classify(fused, own, &options), factor);
            loss[fused] = th_item(l);
            ck_assert_int_eq(th_backward(l, NULL), TH_OK);
        }
        dx[fused] = th_keep(th_gradient(own));
        dw[fused] = th_keep(th_gradient(weight));
        th_empty_gradient(weight);
    }
    targets = all;
    ck_assert_double_eq_tol(loss[1], loss[0], 1e-5 * fabs(loss[0]));
    expect_close(dx[1], dx[0], "dx");
    expect_close(dw[1], dw[0], "dweight");
    th_tape_clear(ctx);
}

/* Logits of different rows have very different sums of exponentials. _i: without or with early gradients. */
START_TEST(chunks_have_their_rows)
{
    static const int64_t rows[] = {1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, ROWS};
    weight = th_set_requires_gradient(th_randn(ctx, TH_FLOAT32, TH_SHAPE(MANY_CLASSES, WIDTH)), true);
    targets = th_random_integers(ctx, TH_INT32, TH_SHAPE(ROWS), 0, MANY_CLASSES);
    for (int i = 2; i < ROWS; i += 7)
        ck_assert_int_eq(th_set(targets, TH_INDEX(i), 3), TH_OK); /* some are ignored */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect_equal_to_the_composition(rows[i], i % 2 ? 0 : (double)rows[i], i % 3 ? 1 : -2.5, _i);
}
END_TEST

/* A short last chunk has the precision of the whole sum: dW has the bits of one product. _i: the precision. */
START_TEST(a_short_last_chunk_has_the_precision_of_the_others)
{
    if (strstr(th_build_info(ctx), "gemm=native") == NULL)
        return;
    ck_assert_int_eq(th_set_precision(ctx, (th_precision)_i), TH_OK);
    weight = th_set_requires_gradient(th_randn(ctx, TH_FLOAT32, TH_SHAPE(MANY_CLASSES, WIDTH)), true);
    th_tensor *all = x, *dw[2];
    x = th_slice(all, 0, 0, 2 * CHUNK + 1, 1);
    targets = th_random_integers(ctx, TH_INT32, TH_SHAPE(2 * CHUNK + 1), 0, MANY_CLASSES);
    for (int fused = 0; fused < 2; fused++) {
        plain(fused);
        dw[fused] = th_keep(th_gradient(weight));
        th_empty_gradient(weight);
    }
    ck_assert_mem_eq(th_data(dw[0]), th_data(dw[1]), sizeof(float) * MANY_CLASSES * WIDTH);
}
END_TEST

START_TEST(only_requested_gradients_are_computed)
{
    th_tensor *frozen = th_keep(weight);
    ck_assert_int_eq(th_backward(th_dense_cross_entropy(x, frozen, targets, NULL), NULL), TH_OK);
    th_tensor *dx = th_keep(th_gradient(x));
    ck_assert_ptr_null(th_gradient(frozen));
    th_empty_gradient(x);
    ck_assert_int_eq(th_backward(th_dense_cross_entropy(th_detach(x), weight, targets, NULL), NULL), TH_OK);
    ck_assert_ptr_null(th_gradient(x));
    ck_assert_ptr_nonnull(th_gradient(weight));
    plain(false);
    expect_close(dx, th_gradient(x), "dx");
}
END_TEST

START_TEST(the_logits_are_never_stored_as_a_whole)
{
    enum { MANY = 20000 };
    th_context *small = th_context_new(
        &(th_context_options){.shapes_only = true, .precision = _i ? TH_PRECISION_INT8 : TH_PRECISION_FLOAT32});
    th_tensor *w = th_set_requires_gradient(th_randn(small, TH_FLOAT32, TH_SHAPE(MANY, 8)), true);
    th_tensor *t = th_zeros(small, TH_INT32, TH_SHAPE(8 * CHUNK));
    th_tensor *h = th_randn(small, TH_FLOAT32, TH_SHAPE(8 * CHUNK, 8));
    const size_t before = th_memory(small).peak;
    ck_assert_int_eq(th_backward(th_dense_cross_entropy(h, w, t, NULL), NULL), TH_OK);
    const size_t chunk = sizeof(float) * MANY * CHUNK;
    ck_assert_uint_gt(th_memory(small).peak - before, chunk);
    ck_assert_uint_lt(th_memory(small).peak - before, 2 * chunk);
    th_context_free(small);
}
END_TEST

/* A frozen weight has no dW, so its chunks have fewer rows. */
START_TEST(a_stored_weight_takes_shorter_chunks_with_the_same_bits)
{
    enum { MANY = 40000, INPUTS = 32, SHORT = 150, SHORT_CHUNK = (2 << 20) / MANY };
    th_tensor *stored = th_keep(th_cast(th_randn(ctx, TH_FLOAT32, TH_SHAPE(MANY, INPUTS)), TH_Q8_0));
    th_tensor *h = th_set_requires_gradient(th_randn(ctx, TH_FLOAT32, TH_SHAPE(SHORT, INPUTS)), true);
    th_tensor *t = th_random_integers(ctx, TH_INT32, TH_SHAPE(SHORT), 0, MANY);
    th_tensor *converted = th_keep(th_cast(stored, TH_FLOAT32)), *loss[2], *dh[2];
    for (int i = 0; i < 2; i++) {
        th_tape_clear(ctx);
        const size_t before = th_memory(ctx).live, chunk = sizeof(float) * MANY * SHORT_CHUNK;
        th_memory_reset_peak(ctx);
        loss[i] = th_dense_cross_entropy(h, i ? converted : stored, t, NULL);
        ck_assert_msg(th_backward(loss[i], NULL) == TH_OK, "%s", th_error_message(ctx));
        loss[i] = th_keep(loss[i]);
        dh[i] = th_keep(th_gradient(h));
        th_empty_gradient(h);
        ck_assert_uint_gt(th_memory(ctx).peak - before, chunk);
        ck_assert(i == 1 || th_memory(ctx).peak - before < 2 * chunk);
    }
    ck_assert_int_eq(th_set_precision(ctx, TH_PRECISION_INT8), TH_OK);
    th_tape_clear(ctx);
    th_memory_reset_peak(ctx);
    const size_t before = th_memory(ctx).live;
    ck_assert_int_eq(th_backward(th_dense_cross_entropy(h, stored, t, NULL), NULL), TH_OK);
    ck_assert_uint_lt(th_memory(ctx).peak - before, 2 * sizeof(float) * MANY * SHORT_CHUNK);
    ck_assert_int_eq(memcmp(th_data_const(loss[0]), th_data_const(loss[1]), sizeof(float)), 0);
    ck_assert_int_eq(memcmp(th_data_const(dh[0]), th_data_const(dh[1]), sizeof(float) * SHORT * INPUTS), 0);
}
END_TEST

START_TEST(ignored_rows_have_no_effect)
{
    const th_cross_entropy_options options = {TH_IGNORE(0)};
    float *rows = th_data(x);
    int32_t *target = th_data(targets);
    th_tensor *expected = NULL;
    for (int poisoned = 0; poisoned < 2; poisoned++) {
        for (int64_t i = 0; i < ROWS; i += 5) {
            target[i] = 0;
            for (int64_t j = 0; j < WIDTH; j++)
                rows[i * WIDTH + j] = poisoned ? NAN : 1;
        }
        ck_assert_int_eq(th_backward(th_dense_cross_entropy(x, weight, targets, &options), NULL), TH_OK);
        if (poisoned)
            ck_assert_mem_eq(th_data(th_gradient(weight)), th_data(expected), sizeof(float) * CLASSES * WIDTH);
        else
            expected = th_keep(th_gradient(weight));
        const float *dx = th_data(th_gradient(x));
        for (int64_t i = 0; i < ROWS; i += 5)
            for (int64_t j = 0; j < WIDTH; j++)
                if (!(dx[i * WIDTH + j] == 0))
                    ck_abort_msg("dx[%d, %d] is %g", (int)i, (int)j, (double)dx[i * WIDTH + j]);
        th_empty_gradient(x);
        th_empty_gradient(weight);
        th_tape_clear(ctx);
    }
}
END_TEST

START_TEST(the_same_bits_on_any_team)
{
    th_tensor *dx = NULL, *dw = NULL;
    double loss = 0;
    for (int threads = 1; threads <= 4; threads++) {
        ck_assert_int_eq(th_set_threads(ctx, threads), TH_OK);
        th_tensor *l = classify(true, x, NULL);
        ck_assert_int_eq(th_backward(l, NULL), TH_OK);
        if (threads > 1) {
            ck_assert(th_item(l) == loss);
            ck_assert_mem_eq(th_data(th_gradient(x)), th_data(dx), sizeof(float) * ROWS * WIDTH);
            ck_assert_mem_eq(th_data(th_gradient(weight)), th_data(dw), sizeof(float) * CLASSES * WIDTH);
        } else {
            loss = th_item(l);
            dx = th_keep(th_gradient(x));
            dw = th_keep(th_gradient(weight));
        }
        th_empty_gradient(x);
        th_empty_gradient(weight);
        th_tape_clear(ctx);
    }
}
END_TEST

START_TEST(a_weight_changed_before_backward_is_an_error)
{
    th_tensor *loss = classify(true, x, NULL);
    ck_assert_int_eq(th_fill(weight, 1), TH_OK);
    ck_assert_int_eq(th_backward(loss, NULL), TH_ERROR_STATE);
    ck_assert_ptr_nonnull(strstr(th_error_message(ctx), "was changed at"));
    th_error_clear(ctx);
}
END_TEST

START_TEST(wrong_calls_are_errors)
{
    const struct {
        th_tensor *x, *weight, *targets;
        const char *sentence;
    } mistakes[] = {
        {x, th_zeros(ctx, TH_FLOAT32, TH_SHAPE(4, 3)), targets, "x is (N, E) and the weight (V, E)"},
        {x, weight, th_zeros(ctx, TH_INT32, TH_SHAPE(3)), "x is (N, E) and targets (N)"},
        {x, weight, x, "int"},
        {x, weight, th_full(ctx, TH_INT32, TH_SHAPE(ROWS), CLASSES), "target[0] = 17 is outside [0, 17)"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        ck_assert_ptr_null(th_dense_cross_entropy(mistakes[i].x, mistakes[i].weight, mistakes[i].targets, NULL));
        ck_assert_msg(strstr(th_error_message(ctx), mistakes[i].sentence), "%s", th_error_message(ctx));
        th_error_clear(ctx);
    }
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("dense_cross_entropy", setup, close_context);
    tcase_add_loop_test(tests, gradients_equal_those_of_the_composition, 0,
                        (int)(sizeof scenarios / sizeof *scenarios));
    tcase_add_loop_test(tests, chunks_have_their_rows, 0, 2);
    tcase_add_test(tests, a_stored_weight_takes_shorter_chunks_with_the_same_bits);
    tcase_add_loop_test(tests, a_short_last_chunk_has_the_precision_of_the_others, 0, TH_PRECISION_BFLOAT16 + 1);
    tcase_add_test(tests, only_requested_gradients_are_computed);
    tcase_add_loop_test(tests, the_logits_are_never_stored_as_a_whole, 0, 2);
    tcase_add_test(tests, ignored_rows_have_no_effect);
    tcase_add_test(tests, the_same_bits_on_any_team);
    tcase_add_test(tests, a_weight_changed_before_backward_is_an_error);
    tcase_add_test(tests, wrong_calls_are_errors);
    return run_suites();
}
