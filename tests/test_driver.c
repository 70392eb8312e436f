/* Tests of the driver that need a user's operation of an unusual kind: layouts, saved and precomputed results, wanted
 * gradients, and memory that ends at any point. Also regions of gradient buffers, compared with sets of elements. */
#include <math.h>

#include "autograd/coverage.h"
#include "memory.h"

#include "user_ops.h"

/* -- layouts -- */

typedef struct layout {
    th_shape size;
    int64_t stride[TH_MAX_DIMS], offset;
} layout;

static th_status strided_shape(th_call *c)
{
    const layout *l = c->attributes;
    th_call_view(c, l->size.ndim, l->size.size, l->stride, l->offset, NULL);
    return TH_OK;
}

static const th_op strided = {
    .name = "strided", .n_inputs = 1, .attributes_size = sizeof(layout), .flags = TH_OP_VIEW, .shape = strided_shape};

/* The views span as many elements as they have, but contain some twice and others never. */
START_TEST(a_result_never_has_two_elements_at_one_address)
{
    static const layout views[] = {
        {{3, {2, 2, 2}}, {3, 3, 1}, 0}, {{3, {3, 2, 2}}, {3, 4, 1}, 0}, {{3, {2, 2, 3}}, {4, 3, 2}, 0}};
    const layout *view = &views[_i];
    th_tensor *x = th_arange(ctx, TH_FLOAT32, 0, 12, 1);
    th_tensor *a = th_apply(&strided, view, x), *b = th_arange(ctx, TH_FLOAT32, 0, (double)th_numel(a), 1);
    th_tensor *sum = th_add(a, th_reshape(th_scale(b, 100), view->size));
    const int64_t *n = view->size.size;
    for (int64_t i = 0; i < n[0]; i++)
        for (int64_t j = 0; j < n[1]; j++)
            for (int64_t k = 0; k < n[2]; k++) {
                const int64_t at = i * view->stride[0] + j * view->stride[1] + k * view->stride[2];
                const int64_t index = (i * n[1] + j) * n[2] + k;
                ck_assert_double_eq(th_get(sum, TH_INDEX(i, j, k)), (double)(at + 100 * index));
            }
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("driver", setup, close_context);
    tcase_add_loop_test(tcase, a_result_never_has_two_elements_at_one_address, 0, 3);
    return run_suites();
}
