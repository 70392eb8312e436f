/* A user-written layer in a user's program: a pre-norm transformer block with an MLP and dropout. Two stacked blocks
 * train, have PyTorch's parameter names and correct gradients, and give the same bits with any number of threads. */

#include "own_block.h"
#include "suite.h"
#include "tapehead/check.h"
#include "tapehead/tapehead.h"

static th_module *two_blocks(th_context *ctx, int64_t width)
{
    th_module *layers = th_module_list_new(ctx);
    th_module_list_add(layers, block_new(ctx, width, 2, 0.1));
    th_module_list_add(layers, block_new(ctx, width, 2, 0.1));
    return layers;
}

static th_tensor *run(void *module, th_tensor *x)
{
    return th_module_forward(module, x);
}

START_TEST(two_blocks_train)
{
    th_context *ctx = th_context_new(&(th_context_options){.seed = 3});
    th_module *layers = two_blocks(ctx, 16);
    th_optimizer *adam = th_adam_w_new(layers, &(th_adam_options){.learning_rate = 3e-3});
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(8, 6, 16)),
              *target = th_randn(ctx, TH_FLOAT32, TH_SHAPE(8, 6, 16));
    double first = 0, last = 0;
    for (int step = 0; step < 300; step++) {
        th_tensor *loss = th_mse(th_module_forward(layers, x), target);
        if (th_backward(loss, NULL) || th_optimizer_step(adam))
            ck_abort_msg("%s", th_error_message(ctx));
        last = th_item(loss);
        first = step == 0 ? last : first;
        th_tape_clear(ctx);
    }
    ck_assert_msg(last < 0.2 * first, "the loss went from %g to %g", first, last);
    th_context_free(ctx);
}
END_TEST

START_TEST(its_parameters_have_the_names_of_pytorch)
{
    th_context *ctx = th_context_new(NULL);
    th_module *model = th_module_new(ctx, sizeof(th_module), "model", NULL);
    th_module *layers = th_module_add(model, "layers", two_blocks(ctx, 8));
    ck_assert_ptr_nonnull(th_module_find_parameter(model, "layers.0.self_attn.out_proj.weight"));
    ck_assert_ptr_nonnull(th_module_find_parameter(model, "layers.1.linear2.bias"));
    ck_assert_int_eq(th_module_count(layers), 2 * (4 * 8 * 8 + 4 * 8 + 2 * 2 * 8 + 2 * 4 * 8 * 8 + 5 * 8));
    th_context_free(ctx);
}
END_TEST

START_TEST(its_gradient_is_right_with_dropout_replayed)
{
    th_context *ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 1});
    th_module *layers = two_blocks(ctx, 4);
    const uint32_t before = th_module_crc32c(layers);
    ck_assert_gradient(run, layers, th_randn(ctx, TH_FLOAT64, TH_SHAPE(1, 3, 4)));
    const th_gradient_options fast = {.mode = TH_GRADIENT_FAST};
    ck_assert_gradient_with(run, two_blocks(ctx, 32), th_randn(ctx, TH_FLOAT64, TH_SHAPE(2, 9, 32)), &fast);
    ck_assert_uint_eq(th_module_crc32c(layers), before);
    th_context_free(ctx);
}
END_TEST

static uint32_t trained_bits(int threads, bool fusion)
{
    th_context *ctx = th_context_new(&(th_context_options){.seed = 3, .threads = threads});
    th_set_fusion(ctx, fusion);
    th_module *layers = two_blocks(ctx, 32);
    th_optimizer *adam = th_adam_w_new(layers, &(th_adam_options){.learning_rate = 3e-3, .max_norm = 1});
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(16, 40, 32));
    for (int step = 0; step < 5; step++) {
        th_tensor *y = th_module_forward(layers, x);
        if (th_backward(th_mean(th_mul(y, y), TH_ALL_AXES, NULL), NULL) || th_optimizer_step(adam))
            ck_abort_msg("%s", th_error_message(ctx));
        th_tape_clear(ctx);
    }
    const uint32_t crc = th_module_crc32c(layers);
    th_context_free(ctx);
    return crc;
}

START_TEST(any_number_of_threads_gives_the_same_bits)
{
    const uint32_t one = trained_bits(1, _i);
    for (int threads = 2; threads <= 4; threads++)
        ck_assert_uint_eq(trained_bits(threads, _i), one);
}
END_TEST

/* Peak and saved bytes of a step: measured, and forecast with shapes_only. */
START_TEST(a_shapes_only_run_forecasts_its_memory)
{
    size_t peak[2], kept[2] = {0, 0};
    for (int shapes_only = 0; shapes_only < 2; shapes_only++) {
        th_context *ctx = th_context_new(&(th_context_options){.seed = 3, .shapes_only = shapes_only});
        th_module *layers = two_blocks(ctx, 64);
        th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(8, 64, 64));
        th_tensor *y = th_module_forward(layers, x);
        th_tensor *loss = th_mean(th_mul(y, y), TH_ALL_AXES, NULL);
        for (int64_t i = 0; i < th_tape_length(ctx); i++) {
            th_node_info info;
            ck_assert_int_eq(th_tape_node(ctx, i, &info), TH_OK);
            kept[shapes_only] += info.saved_bytes;
        }
        ck_assert_msg(th_backward(loss, NULL) == TH_OK, "%s", th_error_message(ctx));
        peak[shapes_only] = th_memory(ctx).peak;
        th_context_free(ctx);
    }
    ck_assert_uint_eq(kept[0], kept[1]);
    ck_assert_double_eq_tol((double)peak[1] / (double)peak[0], 1, 0.05);
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("own layer", NULL, NULL);
    tcase_add_test(tcase, two_blocks_train);
    tcase_add_test(tcase, its_parameters_have_the_names_of_pytorch);
    tcase_add_test(tcase, its_gradient_is_right_with_dropout_replayed);
    tcase_add_loop_test(tcase, any_number_of_threads_gives_the_same_bits, 0, 2);
    tcase_add_test(tcase, a_shapes_only_run_forecasts_its_memory);
    return run_suites();
}
