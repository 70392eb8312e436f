/* Tests layers of one operation, their initialization, and training with a user's layer, a pre-norm transformer block.
 * test_multi_head_attention.c tests attention. */
#include <math.h>

#include "tapehead/check.h"
#include "tapehead/tapehead.h"

#include "context.h"
#include "own_block.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 5, .threads = 2});
    ck_assert_ptr_nonnull(ctx);
}

/* The mean, standard deviation and extremes of a parameter. */
typedef struct {
    double mean, deviation, low, high;
} spread;

static spread spread_of(th_tensor *t)
{
    const float *x = th_data_const(t);
    const int64_t n = th_numel(t);
    spread s = {0, 0, x[0], x[0]};
    for (int64_t i = 0; i < n; i++) {
        s.mean += x[i] / (double)n;
        s.low = fmin(s.low, x[i]);
        s.high = fmax(s.high, x[i]);
    }
    for (int64_t i = 0; i < n; i++)
        s.deviation += (x[i] - s.mean) * (x[i] - s.mean) / (double)n;
    s.deviation = sqrt(s.deviation);
    return s;
}

/* Checks that n numbers are uniform in +-bound. */
static void assert_uniform(th_tensor *t, double bound)
{
    const spread s = spread_of(t);
    const double n = (double)th_numel(t);
    ck_assert_double_le(s.high, bound);
    ck_assert_double_ge(s.low, -bound);
    ck_assert_double_ge(s.high, bound * (1 - 30 / n));
    ck_assert_double_le(fabs(s.mean), 5 * bound / sqrt(3 * n));
    ck_assert_double_eq_tol(s.deviation, bound / sqrt(3), 3 * bound / sqrt(n));
}

START_TEST(dense)
{
    th_module *l = th_dense_new(ctx, 100, 80, NULL);
    th_tensor *weight = th_module_find_parameter(l, "weight"), *bias = th_module_find_parameter(l, "bias");
    assert_shape(weight, TH_SHAPE(80, 100));
    assert_shape(bias, TH_SHAPE(80));
    assert_uniform(weight, 0.1); /* PyTorch's Linear: kaiming_uniform(a = sqrt 5) is +-1 / sqrt(in) */
    assert_uniform(bias, 0.1);
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 3, 100)), *y = th_module_forward(l, x);
    assert_shape(y, TH_SHAPE(2, 3, 80));
    double sum = th_get(bias, TH_INDEX(7));
    for (int64_t i = 0; i < 100; i++)
        sum += th_get(x, TH_INDEX(1, 2, i)) * th_get(weight, TH_INDEX(7, i));
    ck_assert_double_eq_tol(th_get(y, TH_INDEX(1, 2, 7)), sum, 1e-5);
    th_module *plain = th_dense_new(ctx, 100, 80, &(th_dense_layer_options){.no_bias = true});
    ck_assert_ptr_null(th_module_find_parameter(plain, "bias"));
    ck_assert_int_eq(th_module_count(plain), 8000);
    ck_assert_ptr_null(th_dense_new(ctx, 0, 3, NULL));
    expect_error(TH_ERROR_ARGUMENT, "dense: the input width must be positive; it is 0");
    ck_assert_ptr_null(th_dense_new(ctx, 3, -1, NULL));
    expect_error(TH_ERROR_ARGUMENT, "output width");
    ck_assert_ptr_null(th_dense_new(ctx, INT64_MAX, 3, NULL));
    expect_error(TH_ERROR_SHAPE, "overflow");
}
END_TEST

START_TEST(the_same_seed_draws_the_same_layer)
{
    uint32_t crc[3];
    for (int i = 0; i < 3; i++) {
        th_context *c = th_context_new(&(th_context_options){.seed = i < 2 ? 42 : 43, .threads = i + 1});
        th_module *list = th_module_list_new(c);
        th_module_list_add(list, th_dense_new(c, 30, 40, NULL));
        th_module_list_add(list, th_embedding_new(c, 30, 40));
        crc[i] = th_module_crc32c(list);
        th_context_free(c);
    }
    ck_assert_uint_eq(crc[0], crc[1]);
    ck_assert_uint_ne(crc[0], crc[2]);
}
END_TEST

START_TEST(embedding)
{
    th_module *l = th_embedding_new(ctx, 200, 50);
    th_tensor *weight = th_module_find_parameter(l, "weight");
    assert_shape(weight, TH_SHAPE(200, 50));
    const spread s = spread_of(weight);
    ck_assert_double_le(fabs(s.mean), 0.05);
    ck_assert_double_eq_tol(s.deviation, 1, 0.03);
    const int32_t index[6] = {3, 0, 199, 3, 7, 8};
    th_tensor *y = th_module_forward(l, th_from_data(ctx, TH_INT32, TH_SHAPE(2, 3), index));
    assert_shape(y, TH_SHAPE(2, 3, 50));
    ck_assert(th_get(y, TH_INDEX(0, 2, 11)) == th_get(weight, TH_INDEX(199, 11)));
    ck_assert_ptr_null(th_embedding_new(ctx, -1, 3));
    expect_error(TH_ERROR_ARGUMENT, "number of rows");
}
END_TEST

START_TEST(norms)
{
    th_module *layer = th_layer_norm_new(ctx, 6, NULL),
              *rms = th_rms_norm_new(ctx, 6, &(th_norm_layer_options){.eps = 1e-8});
    ck_assert_int_eq(th_module_count(layer), 12);
    ck_assert_int_eq(th_module_count(rms), 6);
    th_tensor *x = th_normal(ctx, TH_FLOAT32, TH_SHAPE(4, 6), 3, 2), *y = th_module_forward(layer, x),
              *z = th_module_forward(rms, x);
    for (int64_t r = 0; r < 4; r++) {
        double mean = 0, square = 0, root = 0;
        for (int64_t i = 0; i < 6; i++) {
            mean += th_get(y, TH_INDEX(r, i)) / 6;
            square += pow(th_get(y, TH_INDEX(r, i)), 2) / 6;
            root += pow(th_get(z, TH_INDEX(r, i)), 2) / 6;
        }
        ck_assert_double_le(fabs(mean), 1e-6);
        ck_assert_double_eq_tol(square, 1, 1e-4);
        ck_assert_double_eq_tol(root, 1, 1e-5);
    }
    ck_assert_int_eq(th_module_count(th_layer_norm_new(ctx, 6, &(th_norm_layer_options){.no_bias = true})), 6);
    th_module *bare = th_layer_norm_new(ctx, 6, &(th_norm_layer_options){.no_weight = true});
    ck_assert_int_eq(th_module_count(bare), 0);
    ck_assert_ptr_nonnull(th_module_forward(bare, x));
    ck_assert_ptr_null(th_module_forward(bare, th_ones(ctx, TH_FLOAT32, TH_SHAPE(2, 5))));
    expect_error(TH_ERROR_SHAPE, "size 6, the layer's width");
    ck_assert_ptr_null(th_module_forward(layer, th_ones(ctx, TH_FLOAT32, TH_SHAPE(2, 5))));
    expect_error(TH_ERROR_SHAPE, "layer_norm");
    ck_assert_ptr_null(th_rms_norm_new(ctx, 6, &(th_norm_layer_options){.eps = -1}));
    expect_error(TH_ERROR_ARGUMENT, "eps");
}
END_TEST

START_TEST(dropout)
{
    th_module *l = th_dropout_new(ctx, 0.25);
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(100, 100)), *y = th_module_forward(l, x);
    int64_t remaining = 0;
    for (int64_t i = 0; i < 10000; i++) {
        const double value = th_get(y, TH_INDEX(i / 100, i % 100));
        ck_assert(value == 0 || fabs(value - 4.0 / 3) < 1e-6);
        remaining += value != 0;
    }
    ck_assert_int_le(llabs(remaining - 7500), 200);
    th_module_pin_evaluation(l, true);
    th_tensor *same = th_module_forward(l, x);
    ck_assert(th_get(same, TH_INDEX(3, 3)) == 1 && th_get(same, TH_INDEX(99, 99)) == 1);
    ck_assert_ptr_null(th_dropout_new(ctx, 1));
    expect_error(TH_ERROR_ARGUMENT, "[0, 1); it is 1");
    ck_assert_ptr_null(th_dropout_new(ctx, NAN));
    expect_error(TH_ERROR_ARGUMENT, "[0, 1)");
}
END_TEST

/* -- a model with two user-defined blocks, which learns to count -- */

typedef struct {
    th_module base;
    th_module *embedding, *layers, *output;
} counter;

static th_tensor *counter_forward(th_module *m, th_tensor *tokens)
{
    const counter *c = (const counter *)m;
    return th_module_forward(c->output, th_module_forward(c->layers, th_module_forward(c->embedding, tokens)));
}

static th_module *counter_new(th_context *c)
{
    counter *m = th_module_new(c, sizeof *m, "counter", counter_forward);
    m->embedding = th_module_add(&m->base, "embedding", th_embedding_new(c, 11, 16));
    m->layers = th_module_add(&m->base, "layers", th_module_list_new(c));
    for (int i = 0; i < 2; i++)
        th_module_list_add(m->layers, block_new(c, 16, 2, 0.1));
    m->output = th_module_add(&m->base, "output", th_dense_new(c, 16, 11, NULL));
    return &m->base;
}

static void fill_batch(th_tensor *tokens, th_tensor *targets, int64_t step)
{
    int32_t *in = th_data(tokens), *want = th_data(targets);
    for (int32_t b = 0; b < 8; b++)
        for (int32_t t = 0; t < 6; t++) {
            in[b * 6 + t] = ((int32_t)step * 5 + b * 3 + t) % 11;
            want[b * 6 + t] = (in[b * 6 + t] + 1) % 11;
        }
}

/* Trains. Returns the last loss in evaluation and the parameters' checksum. */
static double train(th_context *c, int steps, uint32_t *crc, bool fusion)
{
    th_set_fusion(c, fusion);
    th_module *m = counter_new(c);
    th_optimizer *adam =
        th_adam_w_new(m, &(th_adam_options){.learning_rate = 3e-3, .weight_decay = 0.01, .max_norm = 1});
    th_tensor *tokens = th_zeros(c, TH_INT32, TH_SHAPE(8, 6)), *targets = th_zeros(c, TH_INT32, TH_SHAPE(8, 6));
    size_t allocations = 0;
    for (int step = 0; step < steps; step++) {
        fill_batch(tokens, targets, step);
        th_tensor *loss = th_cross_entropy(th_module_forward(m, tokens), targets, NULL);
        ck_assert_msg(th_backward(loss, NULL) == TH_OK && th_optimizer_step(adam) == TH_OK, "%s", th_error_message(c));
        th_tape_clear(c);
        if (step == 3)
            allocations = th_memory(c).allocations;
    }
    ck_assert_uint_eq(th_memory(c).allocations, allocations);
    th_set_training(c, false);
    fill_batch(tokens, targets, steps);
    const double loss = th_item(th_cross_entropy(th_module_forward(m, tokens), targets, NULL));
    *crc = th_module_crc32c(m);
    return loss;
}

START_TEST(two_blocks_train)
{
    uint32_t crc[3];
    for (int i = 0; i < 3; i++) {
        th_context *c = th_context_new(&(th_context_options){.seed = 9, .threads = i + 1});
        const double loss = train(c, 150, &crc[i], true);
        ck_assert_msg(loss < 0.1, "loss %g", loss); /* initially log 11 = 2.4 */
        th_context_free(c);
    }
    ck_assert_uint_eq(crc[0], crc[1]);
    ck_assert_uint_eq(crc[0], crc[2]);
}
END_TEST

START_TEST(two_blocks_train_composed)
{
    uint32_t crc;
    ck_assert_double_lt(train(ctx, 150, &crc, false), 0.1);
}
END_TEST

START_TEST(names_equal_pytorch)
{
    static const char *const expected[] = {"layers.0.norm1.weight",
                                           "layers.0.norm1.bias",
                                           "layers.0.self_attn.in_proj_weight",
                                           "layers.0.self_attn.in_proj_bias",
                                           "layers.0.self_attn.out_proj.weight",
                                           "layers.0.self_attn.out_proj.bias",
                                           "layers.1.linear2.weight"};
    th_module *m = counter_new(ctx);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        ck_assert_msg(th_module_find_parameter(m, expected[i]) != NULL, "no %s", expected[i]);
    no_error();
}
END_TEST

static th_tensor *forward_of(void *module, th_tensor *x)
{
    return th_module_forward(module, x);
}

START_TEST(gradients_of_layers)
{
    th_tensor *x = th_randn(ctx, TH_FLOAT64, TH_SHAPE(2, 3, 4));
    ck_assert_gradient(forward_of, th_dense_new(ctx, 4, 5, NULL), x);
    ck_assert_gradient(forward_of, th_layer_norm_new(ctx, 4, NULL), x);
    ck_assert_gradient(forward_of, th_rms_norm_new(ctx, 4, NULL), x);
    ck_assert_gradient(forward_of, th_dropout_new(ctx, 0.5), x);
    ck_assert_gradient(forward_of, block_new(ctx, 4, 2, 0.3), x);
}
END_TEST

int main(void)
{
    TCase *layers = new_suite("layers", setup, close_context);
    tcase_add_test(layers, dense);
    tcase_add_test(layers, the_same_seed_draws_the_same_layer);
    tcase_add_test(layers, embedding);
    tcase_add_test(layers, norms);
    tcase_add_test(layers, dropout);
    tcase_add_test(layers, two_blocks_train);
    tcase_add_test(layers, two_blocks_train_composed);
    tcase_add_test(layers, names_equal_pytorch);
    tcase_add_test(layers, gradients_of_layers);
    return run_suites();
}
