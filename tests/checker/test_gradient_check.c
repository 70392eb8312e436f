/* The gradient checker on difficult functions: they make and free tensors, leave scopes open, or read parameters late.
 * The check must leave everything as it was. */
#include "memory.h"

#include "gradient_checks.h"

/* -- parameters and constants that a function reads late -- */

static th_tensor *either_weight(void *user, th_tensor *x)
{
    (void)user;
    return th_get(x, TH_INDEX(0)) > 0 ? th_mul(th_exp(x), weight) : th_mul(x, other);
}

START_TEST(a_parameter_behind_a_branch_is_found)
{
    /* the usual step crosses the branch, where the slope is different; a shorter step does not */
    expect(either_weight, NULL, vector(1e-7, 0.5, 2), TH_GRADIENT_RIGHT, NULL);
}
END_TEST

static th_tensor *bent_at_zero(void *user, th_tensor *x)
{
    (void)user;
    return th_get(x, TH_INDEX(0)) > 0 ? th_mul(x, weight) : th_mul(x, other);
}

START_TEST(a_branch_that_flips_at_the_point_cannot_be_told)
{
    expect(bent_at_zero, NULL, th_zeros(ctx, TH_FLOAT64, TH_SHAPE(3)), TH_GRADIENT_CANNOT_TELL, "a kink, or a branch");
}
END_TEST

typedef struct lazy {
    th_module *layer;
    th_tensor *table;
    int calls;
} lazy;

static th_tensor *with_lazy_layer(void *user, th_tensor *x)
{
    lazy *l = user;
    if (l->layer == NULL)
        l->layer = th_dense_new(ctx, 3, 2, NULL);
    return th_module_forward(l->layer, x);
}

START_TEST(a_layer_made_in_the_first_run_is_a_parameter)
{
    lazy l = {.layer = NULL};
    th_tensor *x = th_randn(ctx, TH_FLOAT64, TH_SHAPE(2, 3));
    ck_assert_int_eq(th_check_gradient_of(with_lazy_layer, &l, x, NULL, &report), TH_OK);
    /* 4 outputs: x, weight and bias, each element with every output and twice under a cotangent */
    ck_assert_int_eq(report.checked, (6 + 6 + 2) * (4 + 2));
    expect(with_lazy_layer, &l, x, TH_GRADIENT_RIGHT, NULL);
    ck_assert_ptr_nonnull(th_module_forward(l.layer, x));
}
END_TEST

static th_tensor *with_lazy_table(void *user, th_tensor *x)
{
    lazy *l = user;
    if (l->table == NULL)
        l->table = th_full(ctx, TH_FLOAT32, TH_SHAPE(3), 2);
    return th_mul(x, l->table);
}

START_TEST(a_constant_kept_from_run_to_run_stays)
{
    lazy l = {.layer = NULL};
    expect(with_lazy_table, &l, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL);
    ck_assert_int_eq(th_dtype_of(l.table), TH_FLOAT32);
    ck_assert_double_eq(th_get(l.table, TH_INDEX(2)), 2);
}
END_TEST

static th_tensor *another_every_time(void *user, th_tensor *x)
{
    lazy *l = user;
    l->table = th_set_requires_gradient(th_full(ctx, TH_FLOAT64, TH_SHAPE(3), 2), true);
    th_tensor *kept = l->calls++ % 2 ? weight : other;
    return th_mul(th_mul(x, l->table), th_mul(kept, th_scale(kept, 0)));
}

START_TEST(a_leaf_made_inside_is_a_constant_of_the_run)
{
    lazy l = {.layer = NULL};
    expect(another_every_time, &l, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL);
}
END_TEST

typedef struct many {
    th_tensor *all[64];
    int calls;
} many;

static th_tensor *never_the_same(void *user, th_tensor *x)
{
    many *m = user;
    return th_add(x, th_scale(m->all[m->calls++], 0));
}

START_TEST(new_parameters_in_every_run_are_rejected)
{
    many m = {.calls = 0};
    for (int i = 0; i < 64; i++)
        m.all[i] = th_set_requires_gradient(th_zeros(ctx, TH_FLOAT64, TH_SHAPE(3)), true);
    expect_status(th_check_gradient_of(never_the_same, &m, vector(1, 2, 3), NULL, &report), TH_ERROR_STATE,
                  "other parameters in every run");
}
END_TEST

/* -- tensors and modules that a function makes and frees -- */

static th_tensor *freeing_its_constants(void *user, th_tensor *x)
{
    (void)user;
    th_tensor *two = th_full(ctx, TH_FLOAT32, TH_SHAPE(3), 2), *three = th_full(ctx, TH_FLOAT64, TH_SHAPE(3), 3),
              *unused = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(3));
    th_tensor *y = th_add(th_mul(th_mul(x, two), weight), three);
    th_tensor_free(two);
    th_tensor_free(three);
    th_tensor_free(unused);
    return y;
}

static th_tensor *keeping_copies(void *user, th_tensor *x)
{
    (void)user;
    th_tensor *kept = th_keep(th_exp(x));
    return th_mul(th_mul(x, kept), th_keep(th_scale(kept, 0)));
}

static th_tensor *layer_made_and_freed(void *user, th_tensor *x)
{
    (void)user;
    th_module *layer = th_dense_new(ctx, 3, 2, NULL);
    th_tensor *y = th_module_forward(layer, th_reshape(x, TH_SHAPE(1, 3)));
    th_module_free(layer);
    return y;
}

START_TEST(tensors_made_inside_are_released)
{
    expect(with_constants, NULL, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL);
    expect(freeing_its_constants, NULL, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL);
    expect(layer_made_and_freed, NULL, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL);
    expect(keeping_copies, NULL, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL);
}
END_TEST

/* A function that counts, for each quarter of x, the runs in which one element of this quarter differs from 1. */
static th_tensor *counting_samples(void *user, th_tensor *x)
{
    int *samples = user;
    const double *values = th_data_const(x);
    const int64_t n = th_numel(x);
    int64_t changed = 0, last = 0;
    for (int64_t i = 0; i < n; i++)
        if (values[i] != 1) {
            changed++;
            last = i;
        }
    if (changed == 1)
        samples[4 * last / n]++;
    return th_mul(x, x);
}

START_TEST(samples_of_the_fast_mode_come_from_the_whole_leaf)
{
    const th_gradient_options fast = {.mode = TH_GRADIENT_FAST, .samples = 24, .input_names = NULL};
    int samples[4] = {0};
    ck_assert_gradient_with(counting_samples, samples, th_ones(ctx, TH_FLOAT64, TH_SHAPE(400)), &fast);
    for (int quarter = 0; quarter < 4; quarter++)
        ck_assert_int_gt(samples[quarter], 0);
}
END_TEST

START_TEST(constants_of_thousands_of_runs_are_released)
{
    th_tensor *x = th_randn(ctx, TH_FLOAT64, TH_SHAPE(600, 3));
    const th_gradient_options fast = {.mode = TH_GRADIENT_FAST, .samples = 1800, .input_names = NULL};
    ck_assert_gradient_with(with_constants, NULL, x, &fast);
    const size_t live = th_memory(ctx).live;
    ck_assert_gradient_with(with_constants, NULL, x, &fast);
    ck_assert_uint_eq(th_memory(ctx).live, live);
}
END_TEST

static th_tensor *layer_left_behind(void *user, th_tensor *x)
{
    (void)user;
    return th_module_forward(th_dense_new(ctx, 3, 2, NULL), th_reshape(x, TH_SHAPE(1, 3)));
}

START_TEST(a_new_layer_in_every_run_is_rejected)
{
    expect_status(th_check_gradient_of(layer_left_behind, NULL, vector(1, 2, 3), NULL, &report), TH_ERROR_STATE,
                  "makes a module or an optimizer in every run");
}
END_TEST

static th_tensor *freeing_weight(void *user, th_tensor *x)
{
    th_tensor *y = th_mul(x, user);
    th_tensor_free(user);
    return y;
}

static th_tensor *freeing_module(void *user, th_tensor *x)
{
    lazy *l = user;
    ck_assert_msg(l->calls++ == 0, "the function ran a second time");
    th_tensor *y = th_module_forward(l->layer, th_reshape(x, TH_SHAPE(1, 3)));
    th_module_free(l->layer);
    return y;
}

static th_tensor *freeing_module_unread(void *user, th_tensor *x)
{
    lazy *l = user;
    ck_assert_msg(l->calls++ == 0, "the function ran a second time");
    th_module_free(l->layer);
    return th_exp(x);
}

static th_tensor *freeing_input(void *user, th_tensor *x)
{
    (void)user;
    th_tensor *y = th_exp(x);
    th_tensor_free(x);
    return y;
}

START_TEST(outside_objects_must_not_be_freed)
{
    th_tensor *mine = th_set_requires_gradient(th_full(ctx, TH_FLOAT32, TH_SHAPE(3), 2), true);
    expect_status(th_check_gradient_of(freeing_weight, mine, vector(1, 2, 3), NULL, &report), TH_ERROR_STATE,
                  "frees parameter 0, which it did not make");
    ck_assert_ptr_null(th_exp(mine)); /* the function did free it */
    th_error_clear(ctx);
    for (int child = 0; child < 2; child++) {
        th_module *list = th_module_list_new(ctx);
        lazy l = {.layer = th_dense_new(ctx, 3, 2, NULL)};
        if (child)
            ck_assert_ptr_nonnull(th_module_list_add(list, l.layer));
        expect_status(th_check_gradient_of(freeing_module, &l, vector(1, 2, 3), NULL, &report), TH_ERROR_STATE,
                      "weight, which it did not make");
        l = (lazy){.layer = th_dense_new(ctx, 3, 2, NULL)};
        ck_assert_int_eq(th_check_gradient_of(freeing_module_unread, &l, vector(1, 2, 3), NULL, &report),
                         TH_ERROR_STATE);
        th_error_clear(ctx);
        l = (lazy){.layer = th_dropout_new(ctx, 0.5)};
        ck_assert_int_eq(th_check_gradient_of(freeing_module_unread, &l, vector(1, 2, 3), NULL, &report),
                         TH_ERROR_STATE);
        ck_assert_ptr_nonnull(strstr(th_error_message(ctx), "frees a module"));
        th_error_clear(ctx);
    }
    expect(freeing_input, NULL, vector(1, 2, 3), TH_GRADIENT_COULD_NOT_RUN, "frees x, which it did not make");
}
END_TEST

/* -- results of a function -- */

static th_tensor *identity(void *user, th_tensor *x)
{
    (void)user;
    return x;
}

static th_tensor *part_of_it(void *user, th_tensor *x)
{
    (void)user;
    return th_slice(x, 0, 0, 3, 2);
}

static th_tensor *weight_alone(void *user, th_tensor *x)
{
    (void)user;
    (void)x;
    return weight;
}

static th_tensor *constant_alone(void *user, th_tensor *x)
{
    (void)user;
    (void)x;
    return th_full(ctx, TH_FLOAT32, TH_SHAPE(3), 2);
}

static th_tensor *integers(void *user, th_tensor *x)
{
    (void)user;
    return th_argmax(x, 0);
}

START_TEST(any_floating_tensor_may_be_the_result)
{
    expect(identity, NULL, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL);
    expect(part_of_it, NULL, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL);
    expect(weight_alone, NULL, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL);
    expect_status(th_check_gradient_of(constant_alone, NULL, vector(1, 2, 3), NULL, &report), TH_ERROR_STATE,
                  "no gradient passes from the output");
    expect(integers, NULL, vector(1, 2, 3), TH_GRADIENT_COULD_NOT_RUN, "output is int64");
}
END_TEST

/* -- side effects of a function -- */

static th_tensor *leaving_scopes_open(void *user, th_tensor *x)
{
    (void)user;
    th_scope_begin(ctx, "open");
    th_scope_begin(ctx, "wide");
    th_no_grad_begin(ctx);
    th_no_grad_end(ctx);
    th_set_training(ctx, false);
    th_set_fusion(ctx, false);
    ck_assert_int_eq(th_set_threads(ctx, 2), TH_OK);
    th_set_seed(ctx, 99);
    th_set_step(ctx, 7);
    ck_assert_int_eq(th_set_default_dtype(ctx, TH_FLOAT64), TH_OK);
    return th_mul(th_exp(x), weight);
}

static th_tensor *leaving_no_grad_open(void *user, th_tensor *x)
{
    (void)user;
    th_tensor *y = th_mul(th_exp(x), weight);
    th_no_grad_begin(ctx);
    return y;
}

static th_tensor *ending_scopes_of_the_caller(void *user, th_tensor *x)
{
    (void)user;
    th_no_grad_end(ctx);
    th_scope_end(ctx, NULL);
    return th_mul(th_exp(x), weight);
}

static th_tensor *clearing_first(void *user, th_tensor *x)
{
    (void)user;
    ck_assert_ptr_nonnull(th_mul(x, weight));
    th_tape_clear(ctx);
    return th_mul(th_exp(x), weight);
}

static th_tensor *clearing_last(void *user, th_tensor *x)
{
    (void)user;
    th_tensor *y = th_mul(x, weight);
    th_tape_clear(ctx);
    return y;
}

static th_tensor *calling_backward(void *user, th_tensor *x)
{
    (void)user;
    if (th_backward(th_sum(th_mul(x, weight), TH_ALL_AXES, NULL), NULL))
        return NULL;
    ck_assert_ptr_nonnull(th_gradient(x));
    ck_assert_ptr_nonnull(th_gradient(weight));
    return th_keep_gradient(th_mul(th_exp(x), th_keep(th_gradient(x))));
}

static th_tensor *checking_again(void *user, th_tensor *x)
{
    th_gradient_report inner;
    const th_status status = th_check_gradient_of(calling_backward, user, x, NULL, &inner);
    ck_assert(status == TH_ERROR_STATE && !inner.ok);
    return th_exp(x);
}

static th_tensor *failing(void *user, th_tensor *x)
{
    (void)user;
    th_scope_begin(ctx, NULL);
    return th_add(th_mul(x, weight), th_zeros(ctx, TH_FLOAT64, TH_SHAPE(5)));
}

static th_tensor *failing_later(void *user, th_tensor *x)
{
    (void)user;
    return th_get(x, TH_INDEX(1)) == 2 ? th_mul(x, weight) : failing(NULL, x);
}

static th_tensor *returning_nothing(void *user, th_tensor *x)
{
    (void)user;
    th_no_grad_begin(ctx);
    (void)th_mul(x, weight);
    return NULL;
}

static th_tensor *clearing_its_error(void *user, th_tensor *x)
{
    (void)user;
    ck_assert_ptr_null(failing(NULL, x));
    th_error_clear(ctx);
    return th_mul(x, weight);
}

START_TEST(side_effects_are_undone)
{
    th_tensor *x = vector(1, 2, 3);
    expect(leaving_scopes_open, NULL, x, TH_GRADIENT_RIGHT, NULL);
    expect(leaving_no_grad_open, NULL, x, TH_GRADIENT_RIGHT, NULL);
    expect(ending_scopes_of_the_caller, NULL, x, TH_GRADIENT_RIGHT, NULL);
    expect(clearing_first, NULL, x, TH_GRADIENT_RIGHT, NULL);
    expect(clearing_last, NULL, x, TH_GRADIENT_COULD_NOT_RUN, "what the function returned");
    expect(clearing_its_error, NULL, x, TH_GRADIENT_RIGHT, NULL);
    expect(failing, NULL, x, TH_GRADIENT_COULD_NOT_RUN, "do not broadcast");
    expect(failing_later, NULL, x, TH_GRADIENT_COULD_NOT_RUN, "do not broadcast");
    expect(returning_nothing, NULL, x, TH_GRADIENT_COULD_NOT_RUN, "returned NULL");
    expect(checking_again, NULL, x, TH_GRADIENT_COULD_NOT_RUN, "is being checked");
}
END_TEST

START_TEST(a_function_may_call_backward)
{
    expect(calling_backward, NULL, vector(1, 2, 3), TH_GRADIENT_WRONG,
           NULL); /* the gradient through th_gradient is lost */
    ck_assert_int_eq(report.input, 1);
}
END_TEST

START_TEST(kept_values_and_traces_change_nothing)
{
    th_keep_values(ctx, true);
    th_set_tracing(ctx, true);
    expect(with_constants, NULL, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL);
    expect(leaving_scopes_open, NULL, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL);
}
END_TEST

START_TEST(a_check_works_in_a_scope_and_with_recording_off)
{
    th_tensor *x = vector(1, 2, 3);
    th_scope_begin(ctx, "outer");
    th_no_grad_begin(ctx);
    const state before = state_now();
    ck_assert_gradient(with_constants, NULL, x);
    expect_unchanged(&before);
    th_no_grad_end(ctx);
    th_scope_end(ctx, NULL);
    ck_assert_int_eq(ctx->scope_depth, 0);
}
END_TEST

START_TEST(a_check_works_in_a_step)
{
    th_step_begin(ctx);
    th_tensor *x = vector(1, 2, 3);
    const state before = state_now();
    ck_assert(th_check_op(ctx, th_op_find("silu"), NULL, &report) == TH_OK && report.ok);
    ck_assert_msg(ctx->in_step, "the step must continue");
    x = vector(1, 2, 3); /* the check released the first x */
    ck_assert_gradient(with_constants, NULL, x);
    ck_assert(ctx->in_step && ctx->step == before.step);
    x = vector(1, 2, 3);
    th_tape_clear(ctx);
    ck_assert_int_eq(th_get(x, TH_INDEX(0)) == 1, 0);
    ck_assert_int_eq(th_error_code(ctx), TH_ERROR_STATE);
    th_error_clear(ctx);
}
END_TEST

START_TEST(a_check_of_an_operation_works_in_a_scope)
{
    th_scope_begin(ctx, "outer");
    const state before = state_now();
    ck_assert_msg(th_check_op(ctx, th_op_find("silu"), NULL, &report) == TH_OK, "%s", report.text);
    expect_unchanged(&before);
    th_scope_end(ctx, NULL);
    ck_assert(ctx->scope_depth == 0 && th_error_code(ctx) == TH_OK);
}
END_TEST

static th_tensor *ending_the_forward_around(void *user, th_tensor *x)
{
    th_module_end(user, NULL);
    th_scope_end(ctx, NULL);
    ck_assert(th_module_begin(user)); /* left open */
    th_tensor *y = th_mul(th_exp(x), weight);
    th_no_grad_begin(ctx);
    return y;
}

/* Checks a gradient in the middle of a forward. */
static th_tensor *checking_forward(th_module *m, th_tensor *x)
{
    const state before = state_now();
    ck_assert_gradient(ending_the_forward_around, m, x);
    expect_unchanged(&before);
    return th_scale(x, 2);
}

START_TEST(a_forward_may_check_a_gradient)
{
    th_tensor *x = vector(1, 2, 3);
    th_module *m = th_module_new(ctx, sizeof *m, "checking", checking_forward);
    for (int i = 0; i < 3; i++) {
        ck_assert_double_eq(th_get(th_module_forward(m, x), TH_INDEX(2)), 6);
        ck_assert_int_eq(ctx->scope_depth, 0);
        th_tape_clear(ctx);
    }
    th_module_free(m);
    ck_assert_msg(th_error_code(ctx) == TH_OK, "%s", th_error_message(ctx));
}
END_TEST

static th_tensor *failing_in_no_grad(void *user, th_tensor *x)
{
    (void)user;
    th_no_grad_begin(ctx);
    return th_dropout(th_add(x, th_zeros(ctx, TH_FLOAT64, TH_SHAPE(5))), 0.5);
}

/* A check that fails makes the step fail, in either order of th_error_clear and th_tape_clear. */
START_TEST(a_failed_check_is_a_failed_step)
{
    for (int order = 0; order < 2; order++) {
        th_tape_clear(ctx);
        const uint32_t calls = ctx->calls[TH_STREAM_DROPOUT];
        ck_assert_ptr_nonnull(th_dropout(weight, 0.5));
        ck_assert_int_eq(th_check_gradient_of(failing_in_no_grad, NULL, vector(1, 2, 3), NULL, &report),
                         TH_ERROR_SHAPE);
        ck_assert_uint_eq(ctx->calls[TH_STREAM_DROPOUT], calls + 1);
        if (order == 0)
            th_error_clear(ctx);
        th_tape_clear(ctx);
        th_error_clear(ctx);
        ck_assert_uint_eq(ctx->calls[TH_STREAM_DROPOUT], calls);
        ck_assert(th_is_recording(ctx));
    }
}
END_TEST

static th_tensor *stepping(void *user, th_tensor *x)
{
    lazy *l = user;
    th_tensor *y = th_module_forward(l->layer, th_reshape(x, TH_SHAPE(1, 3)));
    if (l->calls == 0)
        (void)!(th_backward(th_sum(y, TH_ALL_AXES, NULL), NULL) || th_optimizer_step((th_optimizer *)(void *)l->table));
    else
        (void)!th_module_cast(l->layer, TH_FLOAT32);
    return y;
}

START_TEST(a_function_must_not_change_a_model)
{
    lazy l = {.layer = th_dense_new(ctx, 3, 2, NULL)};
    th_optimizer *sgd = th_sgd_new(l.layer, &(th_sgd_options){.learning_rate = 1});
    l.table = (th_tensor *)(void *)sgd;
    const uint32_t bits = th_module_crc32c(l.layer);
    for (l.calls = 0; l.calls < 2; l.calls++)
        expect(stepping, &l, vector(1, 2, 3), TH_GRADIENT_COULD_NOT_RUN, "is being checked");
    ck_assert_uint_eq(th_module_crc32c(l.layer), bits);
}
END_TEST

static th_tensor *changing_its_input(void *user, th_tensor *x)
{
    (void)user;
    ck_assert_int_eq(th_fill(x, 0.5), TH_OK);
    return th_exp(x);
}

static th_tensor *changing_its_parameter(void *user, th_tensor *x)
{
    (void)user;
    th_tensor *y = th_mul(x, weight);
    return th_set(weight, TH_INDEX(0), 7) ? NULL : th_mul(th_exp(x), th_detach(y));
}

/* Reads a tensor through a pointer that allows writing, and updates its mean in place. */
static th_tensor *running_mean(void *user, th_tensor *x)
{
    th_tensor *mean = user;
    const double *p = th_data(x);
    th_tensor *y = th_mul(th_add(x, mean), th_full(ctx, TH_FLOAT64, TH_SHAPE(3), p ? 2 : 0));
    return th_copy_into(mean, th_detach(y)) ? NULL : y;
}

/* Reads a parameter through a pointer that allows writing. */
static th_tensor *reading_data(void *user, th_tensor *x)
{
    th_tensor *w = user, *y = th_add(x, w);
    return th_data(w) ? y : NULL;
}

/* Three numbers leave a part of their memory unused. Old numbers there do not count as a change. */
START_TEST(unused_memory_does_not_count_as_a_change)
{
    for (int i = 0; i < 8; i++) {
        th_tensor *old = th_randn(ctx, TH_FLOAT64, TH_SHAPE(32 << i));
        th_tensor_free(old);
        th_tensor *w = th_set_requires_gradient(th_full(ctx, TH_FLOAT64, TH_SHAPE(3), 2), true);
        expect(reading_data, w, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL);
        th_tensor_free(w);
    }
}
END_TEST

START_TEST(changes_in_place_are_rejected)
{
    expect(changing_its_input, NULL, vector(1, 2, 3), TH_GRADIENT_COULD_NOT_RUN, "changes x in place");
    expect(changing_its_parameter, NULL, vector(1, 2, 3), TH_GRADIENT_COULD_NOT_RUN, "changes parameter 0 in place");
    th_tensor *mean = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(3));
    expect(running_mean, mean, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL);
    ck_assert_double_eq(th_get(mean, TH_INDEX(1)), 0);
}
END_TEST

/* -- gradients that do not pass, outputs that differ -- */

static th_tensor *without_recording(void *user, th_tensor *x)
{
    (void)user;
    th_no_grad_begin(ctx);
    th_tensor *y = th_exp(x);
    th_no_grad_end(ctx);
    return y;
}

static th_tensor *partly_without_recording(void *user, th_tensor *x)
{
    (void)user;
    th_tensor *h = th_exp(x);
    th_no_grad_begin(ctx);
    th_tensor *scale = th_sum(h, TH_ALL_AXES, NULL);
    th_no_grad_end(ctx);
    return th_mul(h, scale);
}

static th_tensor *detached(void *user, th_tensor *x)
{
    (void)user;
    return th_exp(th_detach(x));
}

START_TEST(the_report_names_recording_that_was_off)
{
    expect(without_recording, NULL, vector(1, 2, 3), TH_GRADIENT_COULD_NOT_RUN, "recording was off inside");
    expect(partly_without_recording, NULL, vector(0.1, 0.2, 0.3), TH_GRADIENT_WRONG, "recording was off inside");
    expect(detached, NULL, vector(1, 2, 3), TH_GRADIENT_COULD_NOT_RUN, "th_detach");
    ck_assert_ptr_null(strstr(report.text, "recording was off"));
}
END_TEST

static th_tensor *fresh_numbers(void *user, th_tensor *x)
{
    (void)user;
    return th_scale(x, 1 + rand() / (double)RAND_MAX);
}

static th_tensor *counting(void *user, th_tensor *x)
{
    return th_add_scalar(x, ++((lazy *)user)->calls);
}

static th_tensor *replayed_numbers(void *user, th_tensor *x)
{
    (void)user;
    return th_dropout(th_mul(x, th_uniform(ctx, TH_FLOAT64, TH_SHAPE(3), 1, 2)), 0.5);
}

START_TEST(the_report_names_fresh_random_numbers)
{
    lazy l = {.layer = NULL};
    expect(fresh_numbers, NULL, vector(1, 2, 3), TH_GRADIENT_COULD_NOT_RUN, "fresh random numbers");
    expect(counting, &l, vector(1, 2, 3), TH_GRADIENT_COULD_NOT_RUN, "keeps a state");
    expect(replayed_numbers, NULL, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL);
}
END_TEST

/* -- nothing compared -- */

static th_tensor *embedded(void *user, th_tensor *x)
{
    return th_embedding(user, x);
}

static th_tensor *of_no_element(void *user, th_tensor *x)
{
    (void)user;
    return th_slice(x, 0, 1, 1, 1);
}

static th_tensor *nothing_at_all(void *user, th_tensor *const *inputs)
{
    (void)inputs;
    return th_exp(user);
}

START_TEST(a_check_that_compares_nothing_reports_it)
{
    th_tensor *frozen = th_randn(ctx, TH_FLOAT32, TH_SHAPE(4, 2));
    expect(embedded, frozen, th_arange(ctx, TH_INT64, 0, 3, 1), TH_GRADIENT_NOTHING_COMPARED, "no parameter requires");
    expect(exponential, NULL, th_zeros(ctx, TH_FLOAT64, TH_SHAPE(0, 3)), TH_GRADIENT_NOTHING_COMPARED, "no elements");
    expect(of_no_element, NULL, vector(1, 2, 3), TH_GRADIENT_NOTHING_COMPARED, "the output has no elements");
    ck_assert_int_eq(th_check_gradient(ctx, nothing_at_all, frozen, 0, NULL, NULL, &report), TH_ERROR_VALUE);
    ck_assert_int_eq(report.verdict, TH_GRADIENT_NOTHING_COMPARED);
    ck_assert_int_eq(th_check_gradient(ctx, nothing_at_all, weight, 0, NULL, NULL, &report), TH_OK);
}
END_TEST

START_TEST(an_operation_must_compare_something)
{
    th_op exp = *th_op_find("exp");
    const th_sample some[] = {{.name = "nothing", .n_inputs = 1, .input = {{.shape = TH_SIZES(0, 3)}}},
                              {.name = "some", .n_inputs = 1, .input = {{.shape = TH_SIZES(2, 3)}}},
                              {.name = "nothing", .n_inputs = 1, .input = {{.shape = TH_SIZES(0, 3)}}},
                              {.name = NULL}};
    const th_sample none[] = {some[0], {.name = NULL}};
    exp.samples = some;
    ck_assert_int_eq(th_check_op(ctx, &exp, NULL, &report), TH_OK);
    ck_assert(report.ok && report.text[0] == 0 && report.verdict == TH_GRADIENT_RIGHT);
    ck_assert_int_eq(report.checked, 2 * (6 * 8 + 0) + 6 * 8 + 6 * 2); /* the last: where an element is 0 */
    exp.samples = none;
    ck_assert_int_eq(th_check_op(ctx, &exp, NULL, &report), TH_ERROR_VALUE);
    ck_assert(!report.ok && report.verdict == TH_GRADIENT_NOTHING_COMPARED);
    ck_assert_int_eq(th_check_op(ctx, th_op_find("argmax"), NULL, &report), TH_ERROR_VALUE);
    ck_assert(!report.ok && report.verdict == TH_GRADIENT_NOTHING_COMPARED);
    ck_assert_ptr_nonnull(strstr(report.text, th_op_find("argmax")->not_differentiable));
}
END_TEST

/* -- memory that runs out -- */

START_TEST(every_allocation_may_fail)
{
    bool done = false;
    for (int64_t after = 1; !done; after++) {
        test_memory memory = {0};
        th_context *c = th_context_new(&(th_context_options){.threads = 1, .allocator = allocator_of(&memory)});
        lazy l = {.layer = th_dense_new(c, 3, 2, NULL)};
        th_tensor *x = th_randn(c, TH_FLOAT32, TH_SHAPE(4, 3));
        const uint32_t bits = th_module_crc32c(l.layer);
        memory.fail_at = memory.calls + after;
        const th_status status = th_check_gradient_of(with_lazy_layer, &l, x, NULL, &report);
        ck_assert(status == TH_OK || status == TH_ERROR_MEMORY);
        ck_assert_int_eq(report.ok, status == TH_OK);
        done = status == TH_OK;
        memory.fail_at = 0;
        th_error_clear(c);
        ck_assert_uint_eq(th_module_crc32c(l.layer), bits);
        ck_assert_int_eq(th_check_gradient_of(with_lazy_layer, &l, x, NULL, &report), TH_OK);
        th_context_free(c);
        ck_assert_int_lt(after, 1000);
    }
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("gradient check", setup, close_context);
    tcase_add_test(tcase, a_parameter_behind_a_branch_is_found);
    tcase_add_test(tcase, a_branch_that_flips_at_the_point_cannot_be_told);
    tcase_add_test(tcase, a_layer_made_in_the_first_run_is_a_parameter);
    tcase_add_test(tcase, a_constant_kept_from_run_to_run_stays);
    tcase_add_test(tcase, a_leaf_made_inside_is_a_constant_of_the_run);
    tcase_add_test(tcase, new_parameters_in_every_run_are_rejected);
    tcase_add_test(tcase, tensors_made_inside_are_released);
    tcase_add_test(tcase, samples_of_the_fast_mode_come_from_the_whole_leaf);
    tcase_add_test(tcase, constants_of_thousands_of_runs_are_released);
    tcase_add_test(tcase, a_new_layer_in_every_run_is_rejected);
    tcase_add_test(tcase, outside_objects_must_not_be_freed);
    tcase_add_test(tcase, any_floating_tensor_may_be_the_result);
    tcase_add_test(tcase, side_effects_are_undone);
    tcase_add_test(tcase, kept_values_and_traces_change_nothing);
    tcase_add_test(tcase, a_function_may_call_backward);
    tcase_add_test(tcase, a_check_works_in_a_scope_and_with_recording_off);
    tcase_add_test(tcase, a_check_works_in_a_step);
    tcase_add_test(tcase, a_check_of_an_operation_works_in_a_scope);
    tcase_add_test(tcase, a_forward_may_check_a_gradient);
    tcase_add_test(tcase, a_failed_check_is_a_failed_step);
    tcase_add_test(tcase, a_function_must_not_change_a_model);
    tcase_add_test(tcase, unused_memory_does_not_count_as_a_change);
    tcase_add_test(tcase, changes_in_place_are_rejected);
    tcase_add_test(tcase, the_report_names_recording_that_was_off);
    tcase_add_test(tcase, the_report_names_fresh_random_numbers);
    tcase_add_test(tcase, a_check_that_compares_nothing_reports_it);
    tcase_add_test(tcase, an_operation_must_compare_something);
    tcase_add_test(tcase, every_allocation_may_fail);
    return run_suites();
}
