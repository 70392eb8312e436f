/* The bits of row-wise operations, forward and backward: the same for every number of threads, on avx2 and avx512, and
 * for every batch around a row. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "row_values.h"

/* Returns the FNV-1a hash of a tensor's bytes, continued from `digest`. */
static uint64_t digest_of(th_tensor *t, uint64_t digest)
{
    th_tensor *plain = th_contiguous(t);
    const unsigned char *data = th_data_const(plain);
    ck_assert_ptr_nonnull(data);
    const int64_t bytes = th_numel(plain) * (int64_t)th_dtype_size(th_dtype_of(plain));
    for (int64_t i = 0; i < bytes; i++)
        digest = (digest ^ data[i]) * 0x100000001b3u;
    return digest;
}

/* Adds the result y of an operation on x, and the gradient of x, to the digest. */
static uint64_t digest_of_run(th_context *ctx, th_tensor *x, th_tensor *y, uint64_t digest)
{
    ck_assert_msg(y != NULL, "%s", th_error_message(ctx));
    digest = digest_of(y, digest);
    th_tensor *cotangent = th_uniform(ctx, TH_FLOAT32, th_shape_of(y), -1, 1);
    ck_assert_int_eq(th_backward(y, &(th_backward_options){.cotangent = cotangent}), TH_OK);
    digest = digest_of(th_gradient(x), digest);
    th_tensor_free(cotangent);
    th_tape_clear(ctx);
    return digest;
}

static uint64_t digest_of_everything(th_context *ctx)
{
    th_tensor *x = th_set_requires_gradient(th_uniform(ctx, TH_FLOAT32, TH_SHAPE(3, 70, 333), -3, 3), true);
    th_tensor *weight = th_set_requires_gradient(th_uniform(ctx, TH_FLOAT32, TH_SHAPE(333), -1, 1), true);
    th_tensor *bias = th_set_requires_gradient(th_uniform(ctx, TH_FLOAT32, TH_SHAPE(333), -1, 1), true);
    th_tensor *additive = th_set_requires_gradient(th_uniform(ctx, TH_FLOAT32, TH_SHAPE(70, 333), -1, 1), true);
    th_tensor *targets = th_random_integers(ctx, TH_INT32, TH_SHAPE(3, 70), 0, 333);
    const th_mask mask = {.causal = TH_CAUSAL_BOTTOM_RIGHT, .additive = additive};
    const th_norm_options layer_norm = {.weight = weight, .bias = bias}, rms_norm = {.weight = weight};
    const th_cross_entropy_options smoothed = {.label_smoothing = 0.1};
    uint64_t d = 0xcbf29ce484222325u;
    d = digest_of_run(ctx, x, th_softmax(x, -1), d);
    d = digest_of_run(ctx, x, th_softmax(x, 1), d);
    d = digest_of_run(ctx, x, th_log_softmax(x, 0), d);
    d = digest_of_run(ctx, x, th_masked_softmax(x, &mask), d);
    d = digest_of_run(ctx, x, th_layer_norm(x, &layer_norm), d);
    d = digest_of_run(ctx, x, th_rms_norm(x, &rms_norm), d);
    d = digest_of_run(ctx, x, th_cross_entropy(x, targets, &smoothed), d);
    d = digest_of_run(ctx, x, th_mse(x, weight), d);
    d = digest_of_run(ctx, x, th_sum(x, TH_AXES(0, 2), NULL), d);
    d = digest_of_run(ctx, x, th_mean(x, TH_AXES(1), NULL), d);
    d = digest_of_run(ctx, x, th_variance(x, TH_AXES(2), NULL), d);
    d = digest_of_run(ctx, x, th_variance(x, TH_ALL_AXES, NULL), d);
    d = digest_of_run(ctx, x, th_max(x, TH_AXES(0, 1), NULL), d);
    d = digest_of_run(ctx, x, th_log_sum_exp(x, TH_AXES(2, 1), NULL), d);
    d = digest_of_run(ctx, x, th_sum(x, TH_ALL_AXES, NULL), d);
    d = digest_of(th_gradient(weight), d);
    d = digest_of(th_gradient(bias), d);
    return digest_of(th_gradient(additive), d);
}

START_TEST(test_bits_do_not_depend_on_team_or_instruction_set)
{
    static const char *const sets[] = {NULL, "avx2", "avx512"}; /* NULL: as the suite runs */
    uint64_t digests[3][3];
    bool ran[3] = {false};
    const char *before = getenv("TAPEHEAD_ISA");
    char *const isa = before ? strdup(before) : NULL;
    for (int set = 0; set < 3; set++) {
        ck_assert(!sets[set] || setenv("TAPEHEAD_ISA", sets[set], 1) == 0);
        for (int threads = 1; threads <= 3; threads++) {
            th_context *ctx = th_context_new(&(th_context_options){.seed = 3, .threads = threads});
            ck_assert_ptr_nonnull(ctx);
            ran[set] = th_error_code(ctx) == TH_OK;
            if (ran[set])
                digests[set][threads - 1] = digest_of_everything(ctx);
            else
                printf("skipped: %s\n", th_error_message(ctx));
            th_context_free(ctx);
            ck_assert_msg(!ran[set] || digests[set][threads - 1] == digests[set][0], "%d threads", threads);
        }
    }
    ck_assert((isa ? setenv("TAPEHEAD_ISA", isa, 1) : unsetenv("TAPEHEAD_ISA")) == 0);
    free(isa);
    ck_assert(ran[0]);
    ck_assert_msg(!ran[1] || !ran[2] || digests[1][0] == digests[2][0], "avx2 and avx512 differ");
}
END_TEST

/* A row's result does not depend on the other rows of its batch. */
START_TEST(test_row_does_not_depend_on_its_batch)
{
    th_context *ctx = open_context();
    th_tensor *x = th_uniform(ctx, TH_FLOAT32, TH_SHAPE(50, 37), -3, 3);
    static float all[2][50 * 37], one[37];
    th_tensor *whole[2] = {th_softmax(x, 1), th_layer_norm(x, NULL)};
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(th_copy_out(whole[i], all[i], sizeof all[i]), TH_OK);
    for (int r = 0; r < 50; r += 7) {
        th_tensor *row = th_slice(x, 0, r, r + 1, 1);
        th_tensor *single[2] = {th_softmax(row, 1), th_layer_norm(row, NULL)};
        for (int i = 0; i < 2; i++) {
            ck_assert_int_eq(th_copy_out(single[i], one, sizeof one), TH_OK);
            ck_assert(memcmp(one, all[i] + r * 37, sizeof one) == 0);
        }
    }
    close_context(ctx);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("rows: bits", NULL, NULL);
    tcase_add_test(tests, test_bits_do_not_depend_on_team_or_instruction_set);
    tcase_add_test(tests, test_row_does_not_depend_on_its_batch);
    return run_suites();
}
