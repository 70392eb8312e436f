/* The float64 replay of a tape (src/export/replay.h): its budget, to the unit; changed leaves; tapes in float32; errors. */
#include <math.h>

#include "export/replay.h"
#include "memory.h"
#include "tapehead/tapehead.h"
#include "tensor/convert.h"

#include "leaf_and_loss.h"

static test_memory memory;

static void setup(void)
{
    memory = (test_memory){0};
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 1, .allocator = allocator_of(&memory)});
    ck_assert_ptr_nonnull(ctx);
    th_keep_values(ctx, true);
}

static th_tensor *leaf(th_dtype dtype, th_shape shape)
{
    return th_set_requires_gradient(th_uniform(ctx, dtype, shape, 0.5, 1.5), true);
}

/* The replay of the current tape. */
typedef struct {
    th_listing listing;
    th_contributions all;
    th_replay replay;
} opened;

static void open_replay(opened *o, int64_t work)
{
    ck_assert_int_eq(th_listing_begin(&o->listing, ctx, "test"), TH_OK);
    ck_assert_int_eq(th_contributions_begin(&o->all, &o->listing), TH_OK);
    ck_assert_int_eq(th_replay_begin(&o->replay, &o->listing, &o->all, work), TH_OK);
}

static void close_replay(opened *o)
{
    th_replay_end(&o->replay);
    th_contributions_end(&o->all, &o->listing);
    th_listing_end(&o->listing);
}

/* Returns the position of a tensor in the listing. */
static int64_t place_of(const opened *o, th_tensor *t)
{
    int64_t i = 0;
    while (i < o->listing.tensors && o->listing.tensor[i].tensor->handle != t)
        i++;
    ck_assert_int_lt(i, o->listing.tensors);
    return i;
}

static bool is_valid(int64_t work)
{
    opened o;
    open_replay(&o, work);
    const bool valid = o.replay.valid;
    close_replay(&o);
    return valid;
}

/* Checks that the differences of t take exactly `work` units. */
static void takes(opened *o, th_tensor *t, int64_t work)
{
    const int64_t place = place_of(o, t);
    for (int less = 1; less >= 0; less--) {
        th_array difference;
        bool computed = less != 0;
        o->replay.work_left = work - less;
        ck_assert_int_eq(th_replay_difference(&o->replay, place, &difference, &computed), TH_OK);
        ck_assert_msg(computed == !less, "%d of %d units: %d", (int)(work - less), (int)work, computed);
        ck_assert_int_eq(o->replay.work_left, less ? work - 1 : 0);
    }
}

/* -- the budget: 600 units for a node, 2 for each element that it writes, 1 for each multiplication and addition -- */

START_TEST(the_budget_is_exact)
{
    th_tensor *w = leaf(TH_FLOAT64, TH_SHAPE(4, 3)), *x = leaf(TH_FLOAT64, TH_SHAPE(2, 3)),
              *z = leaf(TH_FLOAT64, TH_SHAPE(5));
    th_tensor *other = th_exp(z);        /* depends on neither w nor x */
    th_tensor *y = th_dense(x, w, NULL); /* 24 products: (2, 3) (3, 4) */
    th_tensor *view = th_reshape(y, TH_SHAPE(8)), *e = th_exp(view);
    th_tensor *loss = th_add(total(e), total(other));
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    /* 7 nodes; 12 + 6 + 5 elements of leaves, 5 + 8 + 8 + 8 + 1 + 1 + 1 of results */
    const int64_t all = 7 * 600 + 2 * (23 + 32) + 24;
    ck_assert(is_valid(all));
    ck_assert(!is_valid(all - 1));
    opened o;
    open_replay(&o, all);
    takes(&o, z, (3 * 600 + 2 * (5 + 1 + 1)) * (2 * 5 + 1));
    takes(&o, x, (5 * 600 + 2 * (8 + 8 + 8 + 1 + 1) + 24) * (2 * 6 + 1));
    takes(&o, w, (5 * 600 + 2 * (8 + 8 + 8 + 1 + 1) + 24) * (2 * 12 + 1));
    takes(&o, y, (4 * 600 + 2 * (8 + 8 + 1 + 1)) * (2 * 8 + 1));
    takes(&o, e, (2 * 600 + 2 * (1 + 1)) * (2 * 8 + 1));
    th_array difference;
    bool computed = true;
    o.replay.work_left = all * 1000;
    ck_assert_int_eq(th_replay_difference(&o.replay, place_of(&o, view), &difference, &computed), TH_OK);
    ck_assert(!computed);
    ck_assert_int_eq(o.replay.work_left, all * 1000);
    close_replay(&o);
}
END_TEST

/* -- changed leaves -- */

START_TEST(a_changed_leaf_is_noticed)
{
    th_tensor *x = th_set_requires_gradient(th_full(ctx, TH_FLOAT64, TH_SHAPE(1), 1), true);
    double *element = th_data(x); /* before it is recorded: the tape does not learn of the change */
    ck_assert_int_eq(th_backward(th_neg(x), NULL), TH_OK);
    static const double near[] = {1, 1.0029, 0.9971}, far[] = {1.0031, 0.9969, -1, NAN};
    for (int i = 0; i < 3; i++) {
        *element = near[i];
        ck_assert_msg(is_valid(1000000), "%g", near[i]);
    }
    for (int i = 0; i < 4; i++) {
        *element = far[i];
        ck_assert_msg(!is_valid(1000000), "%g", far[i]);
    }
    opened o;
    th_array difference;
    bool computed = true;
    open_replay(&o, 1000000);
    ck_assert_int_eq(th_replay_difference(&o.replay, place_of(&o, x), &difference, &computed), TH_OK);
    ck_assert(!computed);
    close_replay(&o);
}
END_TEST

/* -- differences -- */

/* Compares the differences of a leaf with its gradient. */
static void compare(th_tensor *t, double tolerance)
{
    opened o;
    th_array difference;
    bool computed = false;
    open_replay(&o, INT64_MAX / 4);
    ck_assert_int_eq(th_replay_difference(&o.replay, place_of(&o, t), &difference, &computed), TH_OK);
    ck_assert(computed && difference.dtype == TH_FLOAT64);
    th_tensor *wide = th_contiguous(th_cast(th_gradient(t), TH_FLOAT64));
    for (int64_t i = 0; i < th_numel(t); i++)
        ck_assert_double_eq_tol(((const double *)difference.data)[i], ((const double *)th_data(wide))[i], tolerance);
    close_replay(&o);
}

START_TEST(tapes_in_float32_are_replayed_in_float64)
{
    th_tensor *x = leaf(TH_FLOAT32, TH_SHAPE(3, 4));
    th_tensor *rows = th_slice(th_exp(x), 0, 1, 3, 1), *wide = th_expand(th_slice(x, 0, 0, 1, 1), TH_SHAPE(2, 4));
    th_tensor *turned = th_transpose(th_mul(rows, wide), TH_AXES(1, 0));
    ck_assert_int_eq(th_backward(total(th_mul(turned, turned)), NULL), TH_OK);
    compare(x, 1e-4);
}
END_TEST

/* A leaf is as before after its differences, also in the replay. */
START_TEST(differences_can_be_repeated)
{
    th_tensor *x = leaf(TH_FLOAT64, TH_SHAPE(2, 3)), *y = th_exp(x);
    ck_assert_int_eq(th_backward(total(th_mul(y, y)), NULL), TH_OK);
    opened o;
    open_replay(&o, INT64_MAX / 4);
    th_array first, second;
    bool computed;
    ck_assert_int_eq(th_replay_difference(&o.replay, place_of(&o, x), &first, &computed), TH_OK);
    ck_assert_int_eq(th_replay_difference(&o.replay, place_of(&o, y), &second, &computed), TH_OK);
    ck_assert_int_eq(th_replay_difference(&o.replay, place_of(&o, x), &second, &computed), TH_OK);
    ck_assert_mem_eq(first.data, second.data, 6 * sizeof(double));
    const th_array *value = &o.replay.value[place_of(&o, y)];
    for (int i = 0; i < 6; i++)
        ck_assert_double_eq(((const double *)value->data)[i], exp(((const double *)th_data(x))[i]));
    close_replay(&o);
}
END_TEST

/* -- errors -- */

START_TEST(a_replay_without_memory_is_an_error)
{
    th_tensor *x = leaf(TH_FLOAT64, TH_SHAPE(40, 30));
    th_tensor *rows = th_slice(th_exp(x), 0, 1, 3, 1), *wide = th_expand(th_slice(x, 0, 0, 1, 1), TH_SHAPE(2, 30));
    ck_assert_int_eq(th_backward(total(th_mul(rows, wide)), NULL), TH_OK);
    const size_t live = th_memory(ctx).live;
    int failures = 0;
    for (int64_t call = 1;; call++) {
        opened o;
        th_array difference;
        bool computed = false;
        ck_assert_int_eq(th_listing_begin(&o.listing, ctx, "test"), TH_OK);
        ck_assert_int_eq(th_contributions_begin(&o.all, &o.listing), TH_OK);
        memory.fail_at = memory.calls + call;
        th_status status = th_replay_begin(&o.replay, &o.listing, &o.all, INT64_MAX / 4);
        if (status == TH_OK)
            status = th_replay_difference(&o.replay, place_of(&o, x), &difference, &computed);
        const bool failed = memory.calls >= memory.fail_at;
        memory.fail_at = 0;
        ck_assert_int_eq(status, failed ? TH_ERROR_MEMORY : TH_OK);
        ck_assert_int_eq(th_error_code(ctx), status);
        ck_assert_int_eq(computed, !failed);
        th_error_clear(ctx);
        close_replay(&o);
        ck_assert_uint_eq(th_memory(ctx).live, live);
        if (!failed)
            break;
        failures++;
    }
    ck_assert_int_gt(failures, 0);
}
END_TEST

static void teardown(void)
{
    close_context();
    ck_assert_uint_eq(memory.bytes, 0);
}

int main(void)
{
    TCase *tests = new_suite("replay", setup, teardown);
    tcase_add_test(tests, the_budget_is_exact);
    tcase_add_test(tests, a_changed_leaf_is_noticed);
    tcase_add_test(tests, tapes_in_float32_are_replayed_in_float64);
    tcase_add_test(tests, differences_can_be_repeated);
    tcase_add_test(tests, a_replay_without_memory_is_an_error);
    return run_suites();
}
