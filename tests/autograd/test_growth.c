/* Tests that the time of a step grows linearly with the length of the tape. Twenty times as many nodes may take at most
 * a hundred times as long: a busy machine stays below that, and quadratic growth (four hundred times) does not. */
#include <stdlib.h>
#include <time.h>

#include "tapehead/tapehead.h"

#include "leaf_and_loss.h"

enum { FEW = 2000, MANY = 40000, TIMES = 100 };

static th_tensor *x;    /* (16), a leaf */
static th_tensor *rows; /* (n, 16), a leaf */

/* Returns sum + t, or t if sum is NULL. */
static th_tensor *plus(th_tensor *sum, th_tensor *t)
{
    return sum ? th_add(sum, t) : t;
}

/* -- forms of a tape of about n nodes -- */

static th_tensor *chain_in_one_scope(int64_t n)
{
    th_scope_begin(ctx, "chain");
    th_tensor *y = x;
    for (int64_t i = 0; i < n; i++)
        y = th_tanh(y);
    return total(th_scope_end(ctx, y));
}

static th_tensor *a_scope_for_every_value(int64_t n)
{
    th_tensor *y = x;
    for (int64_t i = 0; i < n / 2; i++) {
        th_scope_begin(ctx, "link");
        y = th_scope_end(ctx, th_mul(th_tanh(y), y));
    }
    return total(y);
}

/* Only the first value is saved: the first backward recomputes all the others. */
static th_tensor *chain_recomputed(int64_t n)
{
    th_tensor *y = x;
    for (int64_t i = 0; i < n; i++)
        y = th_gelu_tanh(y);
    return total(th_mul(y, y));
}

static th_tensor *gradients_shared(int64_t n)
{
    th_tensor *y = th_tanh(x), *sum = NULL;
    for (int64_t i = 0; i < n / 2; i++)
        sum = plus(th_add(y, y), sum ? sum : x);
    return total(sum);
}

static th_tensor *gradients_saved(int64_t n)
{
    th_tensor *y = x;
    for (int64_t i = 0; i < n; i++)
        y = th_keep_gradient(th_tanh(y));
    return total(y);
}

static th_tensor *slices_of_one_tensor(int64_t n)
{
    th_tensor *sum = NULL;
    for (int64_t i = 0; i < n / 2; i++)
        sum = plus(sum, th_slice(rows, 0, i, i + 1, 1));
    return total(sum);
}

/* Every second column of a result, in a mixed order. */
static th_tensor *slices_with_gaps(int64_t n)
{
    th_tensor *columns = th_reshape(th_tanh(rows), TH_SHAPE(16, -1)), *sum = NULL;
    for (int64_t i = 0; i < n / 4; i++) {
        const int64_t at = 2 * (i * 7919 % (n / 4));
        sum = plus(sum, total(th_slice(columns, 1, at, at + 1, 1)));
    }
    return sum;
}

static th_tensor *stack_of_results(int64_t n)
{
    th_tensor **parts = malloc((size_t)n * sizeof(th_tensor *)), *sum = NULL;
    for (int64_t i = 0; i < n; i++) {
        parts[i] = th_tanh(x);
        sum = i % 2 ? plus(sum, parts[i]) : sum;
    }
    th_tensor *y = th_stack(parts, (int)n, 0);
    free(parts);
    return th_add(total(y), total(sum));
}

static th_tensor *concatenated_slices(int64_t n)
{
    th_tensor **parts = malloc((size_t)n * sizeof(th_tensor *));
    for (int64_t i = 0; i < n; i++)
        parts[i] = th_slice(rows, 0, i, i + 1, 1);
    th_tensor *y = th_concat(parts, (int)n, 0);
    free(parts);
    return total(y);
}

static th_tensor *leaves_of_many_sizes(int64_t n)
{
    th_tensor *sum = NULL;
    for (int64_t i = 0; i < n / 2; i++) {
        th_tensor *leaf = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(1 + i * 31 % 100));
        sum = plus(sum, total(th_set_requires_gradient(leaf, true)));
        if (i % 3)
            th_tensor_free(leaf); /* the tape keeps it until th_tape_clear */
    }
    return sum;
}

/* Micro-batches without th_tape_clear between them. */
static th_tensor *many_losses(int64_t n)
{
    for (int64_t i = 0; i < n / 2; i++)
        ck_assert_int_eq(th_backward(total(th_tanh(x)), NULL), TH_OK);
    return total(x);
}

typedef th_tensor *form(int64_t n);
static form *const forms[] = {chain_in_one_scope,  a_scope_for_every_value, chain_recomputed, gradients_shared,
                              gradients_saved,     slices_of_one_tensor,    slices_with_gaps, stack_of_results,
                              concatenated_slices, leaves_of_many_sizes,    many_losses};
enum { FORMS = sizeof forms / sizeof *forms };

/* Returns the processor time of this thread in seconds. */
static double processor_time(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Returns the time of the second step; the first one allocates memory. */
static double time_of_step(form *forward, int64_t n)
{
    ctx = th_context_new(&(th_context_options){.threads = 1});
    x = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(16)), true);
    rows = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(n, 16)), true);
    double begin = 0;
    for (int step = 0; step < 2; step++) {
        th_empty_gradient(x);
        th_empty_gradient(rows);
        begin = processor_time();
        ck_assert_msg(th_backward(forward(n), NULL) == TH_OK, "%s", th_error_message(ctx));
        th_tape_clear(ctx);
    }
    const double time = processor_time() - begin;
    th_context_free(ctx);
    return time;
}

START_TEST(time_grows_with_the_length_of_the_tape)
{
    double few = time_of_step(forms[_i], FEW);
    const double again = time_of_step(forms[_i], FEW), many = time_of_step(forms[_i], MANY);
    few = again < few ? again : few;
    ck_assert_msg(many < (double)TIMES * few, "%d: %.4f s, %d: %.4f s", FEW, few, MANY, many);
}
END_TEST

/* Returns the time for a model of n parameters, forty in each module: creation, backward, a step, a cast, the end. */
static double time_of_model(int64_t n)
{
    ctx = th_context_new(&(th_context_options){.threads = 1});
    const double begin = processor_time();
    th_module *model = th_module_list_new(ctx);
    for (int64_t i = 0; i < n / 40; i++) {
        th_module *layer = th_module_list_add(model, th_module_list_new(ctx));
        for (int j = 0; j < 40; j++) {
            const char name[] = {(char)('a' + j / 26), (char)('a' + j % 26), 0};
            th_module_add_parameter(layer, name, TH_SHAPE(4));
        }
    }
    th_optimizer *adam = th_adam_new(model, &(th_adam_options){.learning_rate = 0.1, .max_norm = 1});
    th_tensor *sum = NULL;
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
        sum = plus(sum, p.tensor);
    ck_assert_int_eq(th_backward(total(sum), NULL), TH_OK);
    ck_assert_int_eq(th_optimizer_step(adam), TH_OK);
    th_tape_clear(ctx);
    ck_assert_int_eq(th_module_cast(model, TH_FLOAT64), TH_OK);
    ck_assert_int_eq(th_module_count(model), 4 * n);
    th_optimizer_free(adam);
    th_module_free(model);
    const double time = processor_time() - begin;
    ck_assert_msg(th_error_code(ctx) == TH_OK, "%s", th_error_message(ctx));
    th_context_free(ctx);
    return time;
}

START_TEST(time_grows_with_the_number_of_parameters)
{
    const double few = time_of_model(FEW), many = time_of_model(MANY);
    ck_assert_msg(many < (double)TIMES * few, "%d: %.4f s, %d: %.4f s", FEW, few, MANY, many);
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("growth", NULL, NULL);
    tcase_add_loop_test(tcase, time_grows_with_the_length_of_the_tape, 0, FORMS);
    tcase_add_test(tcase, time_grows_with_the_number_of_parameters);
    return run_suites();
}
