/* Tests of views that a user defines: overlapping, reversed, with strides of 0, outside the memory. Also tests every
 * operation on reversed inputs. */
#include <math.h>

#include "autograd/coverage.h"

#include "user_ops.h"

/* A view that repeats everything n times, by a stride of 0 on a new axis: (A, B) to (A, n, B). */
static th_status again_shape(th_call *c)
{
    const th_array *x = &c->input[0];
    const one_number *times = c->attributes;
    th_call_view(c, 3, (int64_t[]){x->size[0], times->n, x->size[1]}, (int64_t[]){x->stride[0], 0, x->stride[1]}, 0,
                 NULL);
    return TH_OK;
}

static const th_sample again_samples[] = {
    {.name = "thrice", .attributes = &(one_number){3}, .n_inputs = 1, .input = {{.shape = TH_SIZES(2, 3)}}},
    {.name = "never", .attributes = &(one_number){0}, .n_inputs = 1, .input = {{.shape = TH_SIZES(2, 3)}}},
    {.name = NULL},
};
static const th_op again = {.name = "again",
                            .n_inputs = 1,
                            .attributes_size = sizeof(one_number),
                            .flags = TH_OP_VIEW,
                            .shape = again_shape,
                            .samples = again_samples};

START_TEST(views_have_the_right_gradient)
{
    ck_assert_op(ctx, &flip);
    ck_assert_op(ctx, &windows);
    ck_assert_op(ctx, &again);
}
END_TEST

/* Views of views, together with other views of the same base. */
static th_tensor *several_views(void *user, th_tensor *x) /* (6, 4) */
{
    (void)user;
    th_tensor *row = th_select(x, 0, 2);
    th_tensor *overlapping = th_apply(&windows, &(one_number){2}, th_apply(&flip, NULL, row)); /* (3, 2) */
    th_tensor *expanded = th_expand(th_slice(x, 0, 0, 1, 1), TH_SHAPE(3, 4));
    th_tensor *back = th_apply(&flip, NULL, th_swap_axes(expanded, 0, 1)); /* (4, 3), below an expand */
    th_tensor *odd = th_apply(&flip, NULL, th_slice(x, 1, 1, 4, 2));       /* (6, 2) */
    th_tensor *twice = th_apply(&again, &(one_number){2}, th_apply(&flip, NULL, th_slice(x, 0, 1, 4, 1)));
    th_tensor *many = th_apply(&windows, &(one_number){3}, th_reshape(twice, TH_SHAPE(24)));
    th_tensor *sums[] = {th_sum(th_mul(overlapping, th_exp(overlapping)), TH_ALL_AXES, NULL),
                         th_sum(th_mul(back, th_sin(back)), TH_ALL_AXES, NULL),
                         th_sum(th_mul(odd, th_tanh(odd)), TH_ALL_AXES, NULL),
                         th_sum(th_mul(many, th_cos(many)), TH_ALL_AXES, NULL)};
    return th_stack(sums, 4, 0);
}

START_TEST(views_of_views_have_the_right_gradient)
{
    ck_assert_gradient(several_views, NULL, th_randn(ctx, TH_FLOAT64, TH_SHAPE(6, 4)));
}
END_TEST

static uint64_t random_state = 12345;

static int64_t random_below(int64_t end)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)(random_state >> 33) % end;
}

enum { LEAF = 40 };

/* Returns a random view of LEAF elements; about half of them leave the memory. */
static layout random_layout(int64_t *low, int64_t *high)
{
    layout l = {.size.ndim = (int)random_below(4), .offset = random_below(LEAF)};
    int64_t room = 12;
    *low = *high = l.offset;
    for (int d = 0; d < l.size.ndim; d++) {
        l.size.size[d] = 1 + random_below(room < 6 ? room : 6);
        room /= l.size.size[d];
        l.stride[d] = random_below(17) - 8;
        const int64_t extent = (l.size.size[d] - 1) * l.stride[d];
        *(extent < 0 ? low : high) += extent;
    }
    return l;
}

/* Compares the gradients of up to three overlapping views of one leaf with sums over indices. */
START_TEST(any_view_has_the_right_gradient_or_is_rejected)
{
    int right = 0, rejected = 0;
    for (int round = 0; round < 3000; round++) {
        th_tensor *x = th_set_requires_gradient(th_zeros(ctx, TH_FLOAT64, TH_SHAPE(LEAF)), true);
        double expected[LEAF] = {0};
        th_tensor *loss = NULL;
        bool fits = true;
        const int views = 1 + (int)random_below(3);
        for (int v = 0; v < views && fits; v++) {
            int64_t low, high;
            const layout l = random_layout(&low, &high);
            fits = low >= 0 && high < LEAF;
            th_tensor *view = th_apply(&strided, &l, x);
            ck_assert_int_eq(view != NULL, fits);
            if (view == NULL)
                break;
            th_tensor *weights = th_arange(ctx, TH_FLOAT64, 1, 1 + (double)th_numel(view), 1);
            const th_array array = {.ndim = l.size.ndim};
            for (int64_t i = 0; i < th_numel(view); i++) {
                th_array own = array;
                memcpy(own.size, l.size.size, sizeof own.size);
                memcpy(own.stride, l.stride, sizeof own.stride);
                expected[l.offset + offset_of(&own, i)] += 1 + (double)i;
            }
            th_tensor *sum = th_sum(th_mul(view, th_reshape(weights, l.size)), TH_ALL_AXES, NULL);
            loss = loss ? th_add(loss, sum) : sum;
            ck_assert_ptr_nonnull(loss);
            th_tensor_free(weights);
        }
        if (fits) {
            ck_assert_msg(th_backward(loss, NULL) == TH_OK, "%s", th_error_message(ctx));
            const double *gradient = th_data_const(th_gradient(x));
            for (int i = 0; i < LEAF; i++)
                ck_assert_double_eq(gradient[i], expected[i]);
            right++;
        } else {
            expect_error(TH_ERROR_SHAPE, "outside the memory of its input");
            rejected++;
        }
        th_tape_clear(ctx);
        th_tensor_free(x);
    }
    ck_assert_int_gt(right, 300);
    ck_assert_int_gt(rejected, 300);
}
END_TEST

START_TEST(a_view_outside_its_input_is_rejected)
{
    static const layout wrong[] = {
        {{1, {4}}, {1}, 37},
        {{1, {4}}, {-1}, 2},
        {{1, {1}}, {1}, 40},
        {{1, {1}}, {1}, -1},
        {{1, {3}}, {INT64_MAX / 2}, 0},
        {{1, {3}}, {INT64_MIN}, 39},
        {{2, {3, 3}}, {INT64_MAX / 3, INT64_MAX / 3}, 0},
        {{1, {2}}, {1}, INT64_MAX},
        {{1, {2}}, {-1}, INT64_MIN},
    };
    th_tensor *x = th_set_requires_gradient(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(LEAF)), true);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_ptr_null(th_apply(&strided, &wrong[i], x));
        expect_error(TH_ERROR_SHAPE, "strided: a view");
    }
    ck_assert_ptr_null(th_apply(&strided, &wrong[0], x));
    expect_error(TH_ERROR_SHAPE,
                 "a view (4) at offset 37 reaches outside the memory of its input (40), elements 0 to 39");
    ck_assert_ptr_null(th_apply(&strided, &wrong[0], th_apply(&flip, NULL, x)));
    expect_error(TH_ERROR_SHAPE, "its input (40), elements -39 to 0");
    const layout endless = {{2, {INT64_MAX / 4, 3}}, {0, 0}, 0}, of_nothing = {{1, {1}}, {1}, 0};
    ck_assert_ptr_null(th_apply(&strided, &endless, x));
    expect_error(TH_ERROR_SHAPE, "overflows");
    ck_assert_ptr_null(th_apply(&strided, &of_nothing, th_zeros(ctx, TH_FLOAT32, TH_SHAPE(0, 3))));
    expect_error(TH_ERROR_SHAPE, "which has no elements");
    /* Strides and offset do not matter for sizes 0 and 1. */
    const layout empty = {{2, {0, 3}}, {INT64_MIN, 7}, 1000}, single = {{2, {1, 2}}, {INT64_MAX, 1}, 3};
    th_tensor *sum = th_add(
        th_sum(th_apply(&strided, &empty, x), TH_ALL_AXES, NULL),
        th_sum(th_matmul(th_apply(&strided, &single, x), th_ones(ctx, TH_FLOAT32, TH_SHAPE(2, 2))), TH_ALL_AXES, NULL));
    ck_assert_int_eq(th_backward(sum, NULL), TH_OK);
    ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(4)), 2);
    ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(5)), 0);
}
END_TEST

/* -- regions of a gradient buffer, compared with sets of elements -- */

enum { ROOT = 60 };

/* Returns the bits of the elements of a region. */
static uint64_t elements_of(const th_region *region)
{
    const th_array array = {.ndim = region->ndim};
    th_array own = array;
    memcpy(own.size, region->size, sizeof own.size);
    memcpy(own.stride, region->stride, sizeof own.stride);
    uint64_t bits = 0;
    for (int64_t i = 0; i < region->numel; i++)
        bits |= UINT64_C(1) << (region->offset + offset_of(&own, i));
    return bits;
}

/* Returns the region of a random slice of (3, 4, 5) elements, with random axes reversed. */
static th_region random_slice(int largest_step)
{
    static const int64_t size[] = {3, 4, 5}, stride[] = {20, 5, 1};
    th_tensor_impl view = {.ndim = 3};
    for (int d = 0; d < 3; d++) {
        const int64_t step = 1 + random_below(largest_step), first = random_below(size[d]);
        view.size[d] = random_below(20) ? 1 + random_below((size[d] - 1 - first) / step + 1) : 0;
        view.gradient_view.stride[d] = step * stride[d];
        view.gradient_view.offset += first * stride[d];
        if (view.size[d] > 0 && random_below(2)) {
            view.gradient_view.offset += (view.size[d] - 1) * view.gradient_view.stride[d];
            view.gradient_view.stride[d] = -view.gradient_view.stride[d];
        }
    }
    return th_region_of(&view);
}

/* "Overlaps" may also mean that the strides are too irregular to tell, but not often. */
START_TEST(regions_are_compared_as_sets)
{
    int all[3] = {0}, right[3] = {0};
    for (int round = 0; round < 20000; round++) {
        const int largest_step = 1 + round % 3;
        const th_region a = random_slice(largest_step), b = random_slice(largest_step);
        const uint64_t in_a = elements_of(&a), in_b = elements_of(&b);
        const th_relation exact = !(in_a & in_b) ? TH_DISJOINT : !(in_b & ~in_a) ? TH_INSIDE : TH_OVERLAPS;
        const th_relation relation = th_region_relation(&a, &b);
        ck_assert(relation == exact || relation == TH_OVERLAPS);
        all[exact]++;
        right[exact] += relation == exact;
    }
    ck_assert_int_gt(right[TH_DISJOINT], all[TH_DISJOINT] * 4 / 5);
    ck_assert_int_gt(right[TH_INSIDE], all[TH_INSIDE] * 4 / 5);
}
END_TEST

START_TEST(elements_outside_all_regions_become_zero)
{
    for (int round = 0; round < 3000; round++) {
        th_region regions[3];
        const int count = (int)random_below(4);
        uint64_t covered = 0;
        for (int i = 0; i < count; i++) {
            regions[i] = random_slice(1 + round % 3);
            regions[i].next = i ? &regions[i - 1] : NULL;
            covered |= elements_of(&regions[i]);
        }
        int16_t data[ROOT + 1];
        for (int i = 0; i <= ROOT; i++)
            data[i] = (int16_t)(i + 1);
        th_zero_uncovered(count ? &regions[count - 1] : NULL, data, ROOT, sizeof *data);
        for (int i = 0; i < ROOT; i++)
            ck_assert_int_eq(data[i], covered >> i & 1 ? i + 1 : 0);
        ck_assert_int_eq(data[ROOT], ROOT + 1);
    }
    th_zero_uncovered(NULL, NULL, ROOT, 4); /* a context without data */
}
END_TEST

/* The parts of a gradient are written, and not added to zeros: -0 stays -0. */
START_TEST(gradients_of_disjoint_views_keep_the_sign_of_zero)
{
    th_tensor *x = th_set_requires_gradient(th_ones(ctx, TH_FLOAT64, TH_SHAPE(4, 6)), true);
    const int64_t first[] = {0, 2, 3}, end[] = {2, 3, 6};
    th_tensor *loss = NULL;
    for (int i = 0; i < 3; i++) {
        th_tensor *part = th_slice(x, 1, first[i], end[i], 1);
        th_tensor *sum = th_sum(th_scale(i == 1 ? th_apply(&flip, NULL, part) : part, -0.0), TH_ALL_AXES, NULL);
        loss = loss ? th_add(loss, sum) : sum;
    }
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    for (int i = 0; i < 24; i++) {
        const double gradient = th_get(th_gradient(x), TH_INDEX(i / 6, i % 6));
        ck_assert_msg(gradient == 0 && signbit(gradient), "element %d: %g", i, gradient);
    }
}
END_TEST

/* -- every operation -- */

static double element(th_tensor *t, int64_t i)
{
    const void *data = th_data_const(t);
    switch (th_dtype_of(t)) {
    case TH_FLOAT32:
        return (double)((const float *)data)[i];
    case TH_FLOAT64:
        return ((const double *)data)[i];
    case TH_INT32:
        return ((const int32_t *)data)[i];
    case TH_INT64:
        return (double)((const int64_t *)data)[i];
    default:
        return ((const bool *)data)[i];
    }
}

/* Checks that an operation has the same results and gradients on inputs whose last axis is reversed in memory. */
static void compare_flipped(const th_op *op, const th_sample *sample)
{
    th_tensor *plain[TH_MAX_SAMPLE_INPUTS], *base[TH_MAX_SAMPLE_INPUTS], *view[TH_MAX_SAMPLE_INPUTS];
    ck_assert_int_eq(th_sample_inputs(ctx, sample, TH_FLOAT32, 7, plain), TH_OK);
    for (int i = 0; i < sample->n_inputs; i++) {
        base[i] = view[i] = plain[i];
        if (plain[i] == NULL)
            continue;
        const bool floating = th_dtype_of(plain[i]) == TH_FLOAT32;
        if (th_ndim(plain[i]) > 0 && !sample->input[i % TH_MAX_INPUTS].storage)
            base[i] = th_keep(th_contiguous(th_apply(&flip, NULL, plain[i])));
        else
            base[i] = th_keep(plain[i]);
        if (floating) {
            th_set_requires_gradient(plain[i], true);
            th_set_requires_gradient(base[i], true);
        }
    }
    th_tape_clear(ctx);
    th_tensor *result[2];
    for (int flipped = 0; flipped < 2; flipped++) {
        for (int i = 0; i < sample->n_inputs; i++)
            view[i] = flipped && base[i] && th_ndim(base[i]) > 0 && !sample->input[i % TH_MAX_INPUTS].storage
                          ? th_apply(&flip, NULL, base[i])
                      : flipped ? base[i]
                                : plain[i];
        th_set_step(ctx, 1); /* the same dropout */
        th_tensor *y = th_apply_n(op, sample->attributes, sample->n_inputs, view, NULL);
        ck_assert_msg(y != NULL, "%s (%s): %s", op->name, sample->name, th_error_message(ctx));
        result[flipped] = th_keep(y);
        if (th_requires_gradient(y)) {
            th_tensor *cotangent = th_ones(ctx, th_dtype_of(y), th_shape_of(y));
            const th_backward_options options = {.cotangent = cotangent};
            ck_assert_msg(th_backward(y, &options) == TH_OK, "%s (%s): %s", op->name, sample->name,
                          th_error_message(ctx));
            th_tensor_free(cotangent);
        }
        th_tape_clear(ctx);
    }
    for (int64_t k = 0; k < th_numel(result[0]); k++) {
        const double left = element(result[0], k), right = element(result[1], k);
        ck_assert_msg(fabs(left - right) <= 1e-6 * fmax(1, fabs(left)) || left == right, "%s (%s): %g is not %g",
                      op->name, sample->name, left, right);
    }
    for (int i = 0; i < sample->n_inputs; i++) {
        th_tensor *a = plain[i] ? th_gradient(plain[i]) : NULL, *b = plain[i] ? th_gradient(base[i]) : NULL;
        ck_assert_int_eq(a != NULL, b != NULL);
        for (int64_t k = 0, n = th_numel(a); a && k < n; k++) {
            const int64_t columns = th_ndim(a) > 0 ? th_size(a, -1) : 1, last = k / columns * columns + columns - 1;
            const float left = ((const float *)th_data_const(a))[k],
                        right = ((const float *)th_data_const(b))[last - k % columns];
            ck_assert_msg(fabsf(left - right) <= 1e-5f * fmaxf(1, fabsf(left)), "%s (%s): d input %d: %g is not %g",
                          op->name, sample->name, i, (double)left, (double)right);
        }
        th_tensor_free(plain[i]);
        th_tensor_free(base[i]);
    }
    th_tensor_free(result[0]);
    th_tensor_free(result[1]);
}

START_TEST(every_operation_reads_reversed_inputs)
{
    const th_op *op = th_op_at(_i);
    for (const th_sample *sample = op->samples; sample && sample->name; sample++)
        compare_flipped(op, sample);
}
END_TEST

/* The driver sums the gradients of overlapping windows, which a profile counts with and without data. */
START_TEST(sums_into_views_are_counted_without_data)
{
    int64_t calls[2];
    for (int shapes_only = 0; shapes_only < 2; shapes_only++) {
        th_context *c = th_context_new(&(th_context_options){.threads = 1, .shapes_only = shapes_only});
        th_tensor *x = th_set_requires_gradient(th_zeros(c, TH_FLOAT32, TH_SHAPE(9)), true);
        th_tensor *y = th_exp(th_apply(&windows, &(one_number){3}, x));
        ck_assert_int_eq(th_profile_begin(c, NULL), TH_OK);
        ck_assert_int_eq(th_backward(th_sum(y, TH_ALL_AXES, NULL), NULL), TH_OK);
        calls[shapes_only] = th_profile_sum(c).calls;
        th_context_free(c);
    }
    ck_assert_int_eq(calls[0], calls[1]);
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("a user's views", setup, close_context);
    tcase_add_test(tcase, views_have_the_right_gradient);
    tcase_add_test(tcase, views_of_views_have_the_right_gradient);
    tcase_add_test(tcase, any_view_has_the_right_gradient_or_is_rejected);
    tcase_add_test(tcase, a_view_outside_its_input_is_rejected);
    tcase_add_test(tcase, regions_are_compared_as_sets);
    tcase_add_test(tcase, elements_outside_all_regions_become_zero);
    tcase_add_test(tcase, gradients_of_disjoint_views_keep_the_sign_of_zero);
    tcase_add_test(tcase, sums_into_views_are_counted_without_data);
    tcase_add_loop_test(tcase, every_operation_reads_reversed_inputs, 0, th_op_count());
    return run_suites();
}
