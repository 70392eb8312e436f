/* The contributions of nodes to the gradients of their inputs (src/export/contribution.h), and the central differences
 * of the float64 replay (src/export/replay.h). They are computed for every operation of the registry, and for shared
 * variables, broadcasts and views. The contributions to a leaf must sum up to its gradient, which must equal the
 * differences. */
#include <math.h>
#include <string.h>

#include "autograd/tape.h"
#include "export/replay.h"
#include "tapehead/gradient_check.h"
#include "tapehead/op.h"
#include "tensor/convert.h"
#include "tensor/elementwise.h"
#include "tensor/strided_iterator.h"

#include "leaf_and_loss.h"

static const int64_t work = 200 * 1000 * 1000;

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 1});
    ck_assert_ptr_nonnull(ctx);
    th_keep_values(ctx, true);
}

/* Returns the largest difference between two arrays of one shape, relative to the largest element. */
static double distance(const th_array *a, const th_array *b)
{
    th_iterator iterator;
    double worst = 0, largest = 1e-3;
    if (!th_iterator_build_row_major(&iterator, a, 1, &b))
        return 0;
    for (int64_t i = 0; i < iterator.numel; i++) {
        th_iterator_position at;
        th_iterator_seek(&iterator, i, &at);
        const double x = th_number_read(a->dtype, at.address[0]), y = th_number_read(b->dtype, at.address[1]);
        ck_assert_msg(isfinite(x) && isfinite(y), "%g and %g", x, y);
        worst = fmax(worst, fabs(x - y));
        largest = fmax(largest, fabs(x));
    }
    return worst / largest;
}

/* Adds up the contributions that reach a leaf, in the order of backward. */
static th_array sum_at(th_listing *listing, const th_contributions *all, int64_t leaf)
{
    const th_array shape = th_tensor_array(listing->tensor[leaf].tensor);
    th_array sum;
    ck_assert_int_eq(th_listing_array(listing, &shape, shape.dtype, &sum), TH_OK);
    th_fill_array(ctx, &sum, 0);
    for (int64_t n = listing->nodes - 1; n >= 0; n--)
        for (int i = 0; i < th_listing_node(listing, n)->n_inputs; i++) {
            const th_contribution *c = th_contribution_of(all, listing, n, i);
            if (th_listing_input(listing, n, i) == leaf && c->how != TH_HOW_NONE)
                th_copy_array(ctx, &sum, &c->gradient, true);
        }
    return sum;
}

/* Compares sums and differences with the gradient of every leaf. Returns the number of leaves with a gradient. */
static int compare_leaves(const char *name, double tolerance)
{
    th_listing listing;
    th_contributions all;
    th_replay replay;
    int leaves = 0;
    ck_assert_msg(th_listing_begin(&listing, ctx, "test") == TH_OK, "%s: %s", name, th_error_message(ctx));
    ck_assert_msg(th_contributions_begin(&all, &listing) == TH_OK, "%s: %s", name, th_error_message(ctx));
    ck_assert_msg(th_replay_begin(&replay, &listing, &all, work) == TH_OK, "%s: %s", name, th_error_message(ctx));
    for (int64_t i = 0; i < listing.tensors; i++) {
        th_array gradient, difference;
        bool computed;
        if (!th_listing_gradient(listing.tensor[i].tensor, &gradient) || listing.tensor[i].gradient_owner != i)
            continue;
        if (listing.tensor[i].producer < 0) {
            const th_array sum = sum_at(&listing, &all, i);
            ck_assert_msg(distance(&gradient, &sum) <= 1e-14, "%s: the contributions to tensor %d differ by %g", name,
                          (int)i, distance(&gradient, &sum));
            leaves++;
        }
        ck_assert_int_eq(th_replay_difference(&replay, i, &difference, &computed), TH_OK);
        ck_assert_msg(computed, "%s: tensor %d has no differences", name, (int)i);
        ck_assert_msg(distance(&gradient, &difference) <= tolerance, "%s: the differences of tensor %d differ by %g",
                      name, (int)i, distance(&gradient, &difference));
    }
    th_replay_end(&replay);
    th_contributions_end(&all, &listing);
    th_listing_end(&listing);
    no_error();
    return leaves;
}

/* Returns a loss that depends on every element of y in another way. */
static th_tensor *loss_of(th_tensor *y)
{
    const th_shape shape = th_shape_of(y);
    th_tensor *weights = th_uniform(ctx, th_dtype_of(y), shape, 0.5, 1.5);
    return total(th_mul(th_mul(y, y), weights));
}

static void run_sample(const th_op *op, const th_sample *sample)
{
    th_tensor *inputs[TH_MAX_SAMPLE_INPUTS] = {NULL};
    char name[128];
    snprintf(name, sizeof name, "%s, %s", op->name, sample->name);
    ck_assert_int_eq(th_sample_inputs(ctx, sample, TH_FLOAT64, 5, inputs), TH_OK);
    bool wanted = false, stored = false; /* exports refuse stored inputs */
    for (int i = 0; i < sample->n_inputs; i++)
        stored |= sample->input[i % TH_MAX_INPUTS].storage != 0;
    for (int i = 0; i < sample->n_inputs; i++)
        if (!stored && inputs[i] && th_dtype_of(inputs[i]) == TH_FLOAT64 &&
            !sample->input[i % TH_MAX_INPUTS].constant) {
            th_set_requires_gradient(inputs[i], true);
            wanted = true;
        }
    th_tensor *y = th_apply_n(op, sample->attributes, sample->n_inputs, inputs, NULL);
    ck_assert_msg(y != NULL, "%s: %s", name, th_error_message(ctx));
    if (wanted && th_requires_gradient(y) && th_numel(y) > 0) {
        ck_assert_int_eq(th_backward(loss_of(y), NULL), TH_OK);
        ck_assert_msg(compare_leaves(name, 1e-6) > 0, "%s: no leaf has a gradient", name);
    }
    th_tape_clear(ctx);
    for (int i = 0; i < sample->n_inputs; i++)
        th_tensor_free(inputs[i]);
    no_error();
}

START_TEST(every_operation)
{
    for (int i = 0; i < th_op_count(); i++)
        for (const th_sample *sample = th_op_at(i)->samples; sample && sample->name; sample++)
            run_sample(th_op_at(i), sample);
}
END_TEST

/* -- graphs -- */

static th_tensor *leaf(th_shape shape)
{
    return th_set_requires_gradient(th_uniform(ctx, TH_FLOAT64, shape, -1, 1), true);
}

START_TEST(shared_and_broadcast)
{
    th_tensor *a = leaf(TH_SHAPE(3, 4)), *b = leaf(TH_SHAPE(4)), *c = leaf(TH_SHAPE(3, 1)), *s = leaf(TH_SCALAR);
    th_tensor *x = th_add(th_mul(a, b), th_mul(a, c));
    x = th_add(th_sub(th_mul(x, x), th_add(a, b)), th_mul(s, b));
    ck_assert_int_eq(th_backward(loss_of(th_add(x, x)), NULL), TH_OK);
    ck_assert_int_eq(compare_leaves("shared", 1e-6), 4);
}
END_TEST

START_TEST(views)
{
    th_tensor *a = leaf(TH_SHAPE(4, 6));
    th_tensor *rows = th_slice(a, 0, 0, 4, 2), *columns = th_transpose(a, TH_AXES(1, 0));
    th_tensor *inner = th_slice(th_reshape(rows, TH_SHAPE(2, 2, 3)), 2, 0, 3, 2);
    th_tensor *wide = th_expand(th_slice(a, 0, 1, 2, 1), TH_SHAPE(3, 6));
    th_tensor *x = th_add(total(th_mul(inner, inner)), total(th_mul(columns, columns)));
    x = th_add(x, th_add(total(th_exp(wide)), total(th_select(rows, 0, 1))));
    x = th_add(x, total(th_mul(a, a)));
    no_error();
    ck_assert_int_eq(th_backward(x, NULL), TH_OK);
    ck_assert_int_eq(compare_leaves("views", 1e-6), 1);
}
END_TEST

START_TEST(a_view_is_the_loss)
{
    th_tensor *a = leaf(TH_SHAPE(1, 1));
    ck_assert_int_eq(th_backward(th_reshape(th_mul(a, a), TH_SCALAR), NULL), TH_OK);
    ck_assert_int_eq(compare_leaves("view", 1e-6), 1);
}
END_TEST

START_TEST(cotangent)
{
    th_tensor *a = leaf(TH_SHAPE(2, 3)), *y = th_exp(a);
    const th_backward_options options = {.cotangent = th_uniform(ctx, TH_FLOAT64, TH_SHAPE(2, 3), -1, 1)};
    ck_assert_int_eq(th_backward(y, &options), TH_OK);
    ck_assert_int_eq(compare_leaves("cotangent", 1e-6), 1);
}
END_TEST

/* How each contribution is combined. */
START_TEST(how)
{
    th_tensor *a = leaf(TH_SHAPE(2, 3)), *b = leaf(TH_SHAPE(3));
    th_tensor *y = th_add(a, b), *z = th_mul(y, a);
    ck_assert_int_eq(th_backward(total(th_reshape(z, TH_SHAPE(6))), NULL), TH_OK);
    th_listing listing;
    th_contributions all;
    ck_assert_int_eq(th_listing_begin(&listing, ctx, "test"), TH_OK);
    ck_assert_int_eq(th_contributions_begin(&all, &listing), TH_OK);
    ck_assert_int_eq(th_contribution_of(&all, &listing, 1, 0)->how, TH_HOW_WRITTEN); /* mul to y */
    ck_assert_int_eq(th_contribution_of(&all, &listing, 1, 1)->how, TH_HOW_WRITTEN); /* mul to a */
    ck_assert_int_eq(th_contribution_of(&all, &listing, 0, 0)->how, TH_HOW_ADDED);   /* add to a */
    ck_assert_int_eq(th_contribution_of(&all, &listing, 0, 1)->how, TH_HOW_PASSED_ON);
    ck_assert_int_eq(th_contribution_of(&all, &listing, 0, 1)->summed, 1u << 0);
    ck_assert_int_eq(th_contribution_of(&all, &listing, 2, 0)->how, TH_HOW_VIEW);
    ck_assert_int_eq(all.order[3], 0);
    ck_assert_int_eq(all.order[0], 3);
    th_contributions_end(&all, &listing);
    th_listing_end(&listing);
}
END_TEST

/* The exporter leaves gradients, the profile and the number of tensors as they are. */
START_TEST(nothing_changes)
{
    th_tensor *a = leaf(TH_SHAPE(2, 3));
    ck_assert_int_eq(th_backward(loss_of(th_softmax(a, -1)), NULL), TH_OK);
    double before[6], after[6];
    ck_assert_int_eq(th_copy_out(th_gradient(a), before, sizeof before), TH_OK);
    const th_memory_usage usage = th_memory(ctx);
    for (int i = 0; i < 3; i++)
        compare_leaves("unchanged", 1e-6);
    ck_assert_int_eq(th_copy_out(th_gradient(a), after, sizeof after), TH_OK);
    ck_assert_mem_eq(before, after, sizeof before);
    ck_assert_uint_eq(th_memory(ctx).live, usage.live);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("contributions", setup, close_context);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, every_operation);
    tcase_add_test(tests, shared_and_broadcast);
    tcase_add_test(tests, views);
    tcase_add_test(tests, a_view_is_the_loss);
    tcase_add_test(tests, cotangent);
    tcase_add_test(tests, how);
    tcase_add_test(tests, nothing_changes);
    return run_suites();
}
