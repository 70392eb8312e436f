/* Models with stored weights: operations and modules against the converted weights, bit for bit; memory and its forecast;
 * optimizers, casts and refusals. */
#include <math.h>
#include <string.h>

#include "models.h"

#include "context.h"

static const th_dtype stored[] = {TH_BFLOAT16, TH_FLOAT16, TH_Q8_0, TH_Q4_0};
enum { STORED = sizeof stored / sizeof *stored };

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 5, .threads = 3});
    ck_assert_ptr_nonnull(ctx);
}

static void assert_same_bits(th_tensor *a, th_tensor *b, const char *what)
{
    ck_assert_msg(a && b, "%s: %s", what, th_error_message(ctx));
    ck_assert_int_eq(th_dtype_of(a), th_dtype_of(b));
    ck_assert_int_eq(th_numel(a), th_numel(b));
    const size_t bytes = (size_t)th_numel(a) * th_dtype_size(th_dtype_of(a));
    ck_assert_msg(bytes == 0 || memcmp(th_data_const(th_contiguous(a)), th_data_const(th_contiguous(b)), bytes) == 0,
                  "%s differs", what);
}

/* -- operations -- */

static th_tensor *leaf(th_shape shape)
{
    return th_set_requires_gradient(th_randn(ctx, th_default_dtype(ctx), shape), true);
}

typedef th_tensor *function(th_tensor *x, th_tensor *weight);

static th_tensor *plain(th_tensor *x, th_tensor *weight)
{
    return th_dense(x, weight, NULL);
}
static th_tensor *with_bias_and_residual(th_tensor *x, th_tensor *weight)
{
    const th_dtype dtype = th_dtype_of(x);
    const int64_t out = th_size(weight, 0);
    th_shape shape = th_shape_of(x);
    shape.size[shape.ndim - 1] = out;
    th_tensor *bias = th_arange(ctx, dtype, 0, (double)out, 1);
    return th_dense(x, weight, &(th_dense_options){.bias = bias, .residual = th_ones(ctx, dtype, shape)});
}
static th_tensor *strided_rows(th_tensor *x, th_tensor *weight)
{
    return th_dense(th_slice(x, 0, 0, th_size(x, 0), 2), th_slice(weight, 0, 1, th_size(weight, 0), 3), NULL);
}
static th_tensor *one_weight_row(th_tensor *x, th_tensor *weight)
{
    return th_dense(x, th_slice(weight, 0, 2, 3, 1), NULL);
}
static th_tensor *no_rows(th_tensor *x, th_tensor *weight)
{
    return th_dense(th_slice(x, 0, 0, 0, 1), th_slice(weight, 0, 0, 0, 1), NULL);
}
static th_tensor *loss(th_tensor *x, th_tensor *weight)
{
    th_shape shape = th_shape_of(x);
    shape.ndim--;
    th_tensor *targets = th_cast(th_full(ctx, TH_FLOAT32, shape, (double)(th_size(weight, 0) / 2)), TH_INT32);
    return th_dense_cross_entropy(x, weight, targets, NULL);
}

static function *const functions[] = {plain, with_bias_and_residual, strided_rows, one_weight_row, no_rows, loss};

static void compare_function(function *f, th_tensor *x, th_tensor *weight)
{
    th_tensor *y[2], *dx[2];
    for (int converted = 0; converted < 2; converted++) {
        th_tensor *w = converted ? th_cast(weight, th_dtype_of(x)) : weight;
        th_tensor *result = f(x, w);
        ck_assert_msg(result != NULL, "%s", th_error_message(ctx));
        y[converted] = th_keep(result);
        ck_assert(th_requires_gradient(result));
        th_tensor *cotangent = th_ndim(result) == 0
                                   ? NULL
                                   : th_sin(th_reshape(th_arange(ctx, th_dtype_of(x), 0, (double)th_numel(result), 1),
                                                       th_shape_of(result)));
        ck_assert_int_eq(th_backward(result, &(th_backward_options){.cotangent = cotangent}), TH_OK);
        dx[converted] = th_keep(th_gradient(x));
        th_empty_gradient(x);
        th_tape_clear(ctx);
    }
    assert_same_bits(y[0], y[1], "the result");
    assert_same_bits(dx[0], dx[1], "the gradient");
    for (int i = 0; i < 2; i++) {
        th_tensor_free(y[i]);
        th_tensor_free(dx[i]);
    }
}

/* Each function, type and precision, with few and many rows. */
START_TEST(operations_have_the_bits_of_the_converted_weight)
{
    ck_assert_int_eq(th_set_precision(ctx, (th_precision)(_i % 3)), TH_OK);
    ck_assert_int_eq(th_set_default_dtype(ctx, _i == 3 ? TH_FLOAT64 : TH_FLOAT32), TH_OK);
    static const int64_t rows[] = {1, 5, 30, 130};
    for (int type = 0; type < STORED; type++)
        for (size_t f = 0; f < sizeof functions / sizeof *functions; f++)
            for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
                const int64_t in = type < 2 ? 77 : 96;
                th_tensor *weight = th_keep(th_cast(th_randn(ctx, TH_FLOAT32, TH_SHAPE(45, in)), stored[type]));
                th_tensor *x = leaf(TH_SHAPE(rows[r], 3, in)), *single = leaf(TH_SHAPE(in));
                compare_function(functions[f], x, weight);
                if (r == 0 && functions[f] != strided_rows && functions[f] != no_rows)
                    compare_function(functions[f], single, weight);
                th_tensor_free(x);
                th_tensor_free(single);
                th_tensor_free(weight);
            }
}
END_TEST

START_TEST(embeddings_have_the_bits_of_the_converted_table)
{
    static const th_dtype results[] = {TH_FLOAT32, TH_FLOAT64};
    for (int r = 0; r < 2; r++)
        for (int type = 0; type < STORED; type++) {
            ck_assert_int_eq(th_set_default_dtype(ctx, results[r]), TH_OK);
            th_tensor *table = th_cast(th_randn(ctx, TH_FLOAT32, TH_SHAPE(20, type < 2 ? 35 : 64)), stored[type]);
            th_tensor *indices = th_random_integers(ctx, TH_INT32, TH_SHAPE(3, 500), 0, 20);
            assert_same_bits(th_embedding(table, indices), th_embedding(th_cast(table, results[r]), indices), "a row");
            th_tensor *some = th_slice(table, 0, 3, 20, 4), *few = th_zeros(ctx, TH_INT64, TH_SHAPE(0));
            indices = th_arange(ctx, TH_INT64, 4, -1, -1);
            assert_same_bits(th_embedding(some, indices), th_embedding(th_cast(some, results[r]), indices), "a row");
            assert_same_bits(th_embedding(some, few), th_embedding(th_cast(some, results[r]), few), "no row");
            th_tape_clear(ctx);
        }
}
END_TEST

START_TEST(wrong_weights_are_refused)
{
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 64));
    th_tensor *weight = th_cast(th_randn(ctx, TH_FLOAT32, TH_SHAPE(4, 128)), TH_Q8_0);
    assert_error(th_dense(x, weight, NULL), TH_ERROR_SHAPE, "the weight (out, in) is (4, 128)");
    assert_error(th_dense(x, th_slice(weight, 1, 0, 4, 2), NULL), TH_ERROR_SHAPE, "rows of a q8_0 weight");
    assert_error(th_dense(x, th_slice(th_zeros(ctx, TH_FLOAT16, TH_SHAPE(3, 128)), 1, 0, 128, 2), NULL), TH_ERROR_SHAPE,
                 "contiguous");
    assert_error(th_dense(x, th_zeros(ctx, TH_BFLOAT16, TH_SHAPE(64)), NULL), TH_ERROR_SHAPE, "two dimensions");
    assert_error(th_dense(weight, th_zeros(ctx, TH_FLOAT32, TH_SHAPE(4, 4)), NULL), TH_ERROR_TYPE, "input 0 is q8_0");
    assert_error(th_set_requires_gradient(weight, true), TH_ERROR_TYPE, "q8_0");
    assert_error(th_transpose(weight, TH_AXES(1, 0)), TH_ERROR_TYPE, "transpose: input 0 is q8_0");
    assert_same_bits(th_dense(x, th_slice(weight, 1, 1, 3, 1), NULL),
                     th_dense(x, th_cast(th_slice(weight, 1, 1, 3, 1), TH_FLOAT32), NULL), "a slice of blocks");
    /* an axis of one element may have any stride */
    th_tensor *column = th_slice(th_cast(th_randn(ctx, TH_FLOAT32, TH_SHAPE(5, 3)), TH_BFLOAT16), 1, 2, 3, 2);
    th_tensor *narrow = th_randn(ctx, TH_FLOAT32, TH_SHAPE(7, 1));
    assert_same_bits(th_dense(narrow, column, NULL), th_dense(narrow, th_cast(column, TH_FLOAT32), NULL), "a column");
}
END_TEST

/* -- models -- */

enum { VOCABULARY = 50, WIDTH = 64, LENGTH = 12 };

static th_module *model_new(th_context *c)
{
    return th_language_model_new(c, &(th_language_model_options){.vocabulary = VOCABULARY,
                                                                 .length = LENGTH,
                                                                 .width = WIDTH,
                                                                 .heads = 4,
                                                                 .layers = 2,
                                                                 .untied = true,
                                                                 .block = {.mlp_width = 96}});
}

/* Freezes all weights, and leaves norms and biases trainable. */
static void freeze_weights(th_module *model)
{
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
        if (th_ndim(p.tensor) == 2)
            th_set_requires_gradient(p.tensor, false);
}

static th_tensor *loss_of(th_module *model)
{
    th_context *c = model->ctx;
    th_tensor *tokens = th_cast(th_reshape(th_arange(c, TH_FLOAT32, 0, 3 * LENGTH, 1), TH_SHAPE(3, LENGTH)), TH_INT32);
    return th_language_model_loss(model, tokens, tokens, NULL);
}

static double train(th_module *model, int steps)
{
    th_optimizer *adam = th_adam_new(model, &(th_adam_options){.learning_rate = 1e-3});
    ck_assert_msg(adam != NULL, "%s", th_error_message(model->ctx));
    double last = 0;
    for (int i = 0; i < steps; i++)
        last = step_down(loss_of(model), adam);
    th_optimizer_free(adam);
    return last;
}

/* Training the rest gives the same bits as with converted weights. */
START_TEST(a_stored_model_trains_as_the_converted_one)
{
    const th_dtype dtype = stored[_i];
    uint32_t checksum[2];
    double last[2];
    for (int converted = 0; converted < 2; converted++) {
        th_context_free(ctx);
        setup();
        th_module *model = model_new(ctx);
        freeze_weights(model);
        const int64_t count = th_module_count(model), trainable = th_module_count_trainable(model);
        ck_assert_int_eq(th_module_store(model, dtype), TH_OK);
        ck_assert_int_eq(th_module_count(model), count);
        ck_assert_int_eq(th_module_count_trainable(model), trainable);
        if (converted)
            ck_assert_int_eq(th_module_store(model, TH_FLOAT32), TH_OK);
        for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
            ck_assert_msg((th_dtype_of(p.tensor) == dtype) == (th_ndim(p.tensor) == 2 && !converted), "%s is %s",
                          p.name, th_dtype_name(th_dtype_of(p.tensor)));
        last[converted] = train(model, 4);
        ck_assert_int_eq(th_module_store(model, TH_FLOAT32), TH_OK);
        checksum[converted] = th_module_crc32c(model);
    }
    ck_assert(last[0] == last[1] && isfinite(last[0]));
    ck_assert_uint_eq(checksum[0], checksum[1]);
}
END_TEST

/* Attention with packed and with separate projections, of one and of several tensors, and a cache. */
START_TEST(attention_reads_stored_projections)
{
    for (int type = 0; type < STORED; type++)
        for (int separate = 0; separate < 2; separate++) {
            th_module *attention = th_multi_head_attention_new(
                ctx, WIDTH, 4, &(th_multi_head_attention_options){.key_input = separate ? 96 : 0});
            ck_assert_int_eq(th_module_freeze(attention, true), TH_OK);
            ck_assert_int_eq(th_module_store(attention, stored[type]), TH_OK);
            th_tensor *x = leaf(TH_SHAPE(2, 5, WIDTH)),
                      *k = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 7, separate ? 96 : 64));
            th_tensor *v = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 7, 64));
            th_tensor *y[2], *dx[2];
            for (int converted = 0; converted < 2; converted++) {
                y[converted] = th_keep(th_attend(attention, x, separate ? k : x, separate ? v : x, NULL));
                y[converted] = separate ? y[converted] : th_keep(th_attend(attention, x, v, v, NULL));
                no_error();
                ck_assert_int_eq(th_backward(th_sum(th_attend(attention, x, separate ? k : x, separate ? v : x, NULL),
                                                    TH_ALL_AXES, NULL),
                                             NULL),
                                 TH_OK);
                dx[converted] = th_keep(th_gradient(x));
                th_empty_gradient(x);
                th_tape_clear(ctx);
                ck_assert_int_eq(th_module_store(attention, TH_FLOAT32), TH_OK);
            }
            assert_same_bits(y[0], y[1], "attention");
            assert_same_bits(dx[0], dx[1], "its gradient");
            th_module_free(attention);
        }
}
END_TEST

/* -- memory -- */

/* The bytes of the model's parameters, in whole cache lines. */
static size_t bytes_of(const th_module *model)
{
    size_t bytes = 0;
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
        bytes += ((size_t)th_numel(p.tensor) * th_dtype_size(th_dtype_of(p.tensor)) + 63) / 64 * 64;
    return bytes;
}

START_TEST(memory_is_as_stored_and_forecast)
{
    for (int type = 0; type < STORED; type++) {
        th_memory_usage used[2];
        for (int shapes_only = 0; shapes_only < 2; shapes_only++) {
            th_context *c = th_context_new(&(th_context_options){.threads = 2, .shapes_only = shapes_only});
            th_module *model = model_new(c);
            freeze_weights(model);
            const size_t before = th_memory(c).reserved, full = bytes_of(model);
            ck_assert_int_eq(th_module_store(model, stored[type]), TH_OK);
            const size_t small = bytes_of(model), freed = before - th_memory(c).reserved;
            ck_assert_msg(freed >= full - small, "%s: %zu bytes freed, the parameters went from %zu to %zu",
                          th_dtype_name(stored[type]), freed, full, small);
            th_memory_reset_peak(c);
            th_optimizer *adam = th_adam_new(model, &(th_adam_options){.learning_rate = 1e-3});
            for (int step = 0; step < 2; step++) {
                ck_assert_int_eq(th_backward(loss_of(model), NULL), TH_OK);
                ck_assert_int_eq(th_optimizer_step(adam), TH_OK);
                th_tape_clear(c);
            }
            used[shapes_only] = th_memory(c);
            th_context_free(c);
        }
        ck_assert_uint_eq(used[0].peak, used[1].peak);
        ck_assert_uint_eq(used[0].reserved_peak, used[1].reserved_peak);
        ck_assert_uint_eq(used[0].live, used[1].live);
        ck_assert_uint_eq(used[0].reserved, used[1].reserved);
    }
}
END_TEST

/* No float32 copy of the weight is made: forward and backward take less memory than it would have. */
START_TEST(no_whole_copy_of_a_weight_exists)
{
    enum { LARGE = 2048 };
    for (int type = 0; type < STORED; type++) {
        th_tensor *weight = th_keep(th_cast(th_randn(ctx, TH_FLOAT32, TH_SHAPE(LARGE, LARGE)), stored[type]));
        th_tape_clear(ctx);
        for (int64_t rows = 1; rows <= 256; rows *= 16) {
            th_tensor *x = leaf(TH_SHAPE(rows, LARGE));
            const size_t before = th_memory(ctx).live;
            th_memory_reset_peak(ctx);
            ck_assert_int_eq(th_backward(th_sum(th_dense(x, weight, NULL), TH_ALL_AXES, NULL), NULL), TH_OK);
            const size_t values = 4 * (size_t)rows * LARGE * sizeof(float);
            const size_t packed = (size_t)(rows > 24 ? 6 << 20 : 0); /* what the team packs for a pass */
            ck_assert_uint_lt(th_memory(ctx).peak - before, values + packed + (6 << 20));
            th_tape_clear(ctx);
            th_tensor_free(x);
        }
        th_tensor_free(weight);
    }
}
END_TEST

/* -- the rest of the library -- */

START_TEST(optimizers_casts_and_freezing)
{
    th_module *model = model_new(ctx);
    th_optimizer *before = th_adam_new(model, &(th_adam_options){.learning_rate = 1e-3});
    step_down(loss_of(model), before); /* moments exist */
    expect_status(th_module_store(model, TH_Q8_0), TH_ERROR_STATE, "no frozen weights");
    freeze_weights(model);
    th_tensor *bias = th_module_find_parameter(model, "layers.0.linear1.bias");
    th_tensor *old = th_keep(bias);
    ck_assert_int_eq(th_module_store(model, TH_Q4_0), TH_OK);
    assert_same_bits(bias, old, "a bias that moved");
    step_down(loss_of(model), before);
    th_optimizer *after = th_adam_new(model, &(th_adam_options){.learning_rate = 1e-3});
    step_down(loss_of(model), after);
    const uint32_t checksum = th_module_crc32c(model);
    expect_status(th_module_freeze(model, false), TH_ERROR_TYPE, "is stored as q4_0");
    ck_assert(th_requires_gradient(bias));
    ck_assert_int_eq(th_module_cast(model, TH_FLOAT64), TH_OK);
    ck_assert_int_eq(th_dtype_of(bias), TH_FLOAT64);
    ck_assert_int_eq(th_dtype_of(th_module_find_parameter(model, "embedding.weight")), TH_Q4_0);
    ck_assert_int_eq(th_set_default_dtype(ctx, TH_FLOAT64), TH_OK);
    step_down(loss_of(model), after);
    ck_assert_uint_ne(th_module_crc32c(model), checksum);
    expect_status(th_module_cast(model, TH_BFLOAT16), TH_ERROR_TYPE, "bfloat16");
    expect_status(th_module_store(model, TH_INT32), TH_ERROR_TYPE, "int32");
    ck_assert_int_eq(th_module_store(model, TH_BFLOAT16), TH_OK); /* from one storage type to another */
    ck_assert_int_eq(th_dtype_of(th_module_find_parameter(model, "embedding.weight")), TH_BFLOAT16);
    th_optimizer_free(before);
    th_optimizer_free(after);

    th_module *dense = th_dense_new(ctx, 33, 4, &(th_dense_layer_options){.no_bias = true});
    ck_assert_int_eq(th_module_freeze(dense, true), TH_OK);
    expect_status(th_module_store(dense, TH_Q8_0), TH_ERROR_SHAPE, "weight is (4, 33)");
    ck_assert_int_eq(th_module_store(dense, TH_FLOAT16), TH_OK);
    assert_error(th_adam_new(dense, &(th_adam_options){.learning_rate = 1e-3}), TH_ERROR_ARGUMENT,
                 "no parameters that could be trained");
    th_tensor *x = leaf(TH_SHAPE(2, 33));
    ck_assert_int_eq(th_set_default_dtype(ctx, TH_FLOAT32), TH_OK);
    th_tensor *y = th_module_forward(dense, th_cast(x, TH_FLOAT32));
    expect_status(th_module_store(dense, TH_FLOAT32), TH_ERROR_STATE, "the tape still uses weight");
    ck_assert_int_eq(th_backward(th_sum(y, TH_ALL_AXES, NULL), NULL), TH_OK);
    th_tape_clear(ctx);
    th_module *norm = th_layer_norm_new(ctx, 8, NULL);
    expect_status(th_module_store(norm, TH_FLOAT16), TH_ERROR_STATE, "no weights that can be stored");
}
END_TEST

/* After any failed allocation nothing has changed. */
START_TEST(failed_allocations_change_nothing)
{
    test_memory memory = {0};
    th_context *c = th_context_new(&(th_context_options){.threads = 1, .allocator = allocator_of(&memory)});
    th_module *model = model_new(c);
    freeze_weights(model);
    const uint32_t checksum = th_module_crc32c(model);
    const size_t bytes = memory.bytes;
    int failures = 0;
    for (int64_t call = 1;; call++) {
        memory.calls = 0;
        memory.fail_at = call;
        const th_status status = th_module_store(model, TH_Q8_0);
        const bool failed = memory.calls >= call;
        memory.fail_at = 0;
        if (!failed)
            break;
        failures++;
        ck_assert_int_eq(status, TH_ERROR_MEMORY);
        th_error_clear(c);
        ck_assert_uint_eq(memory.bytes, bytes);
        ck_assert_uint_eq(th_module_crc32c(model), checksum);
    }
    ck_assert_int_gt(failures, 20);
    ck_assert_int_eq(th_dtype_of(th_module_find_parameter(model, "embedding.weight")), TH_Q8_0);
    th_context_free(c);
    ck_assert_uint_eq(memory.bytes, 0);
}
END_TEST

static th_tensor *forward(void *block, th_tensor *x)
{
    return th_module_forward(block, x);
}

/* The gradient checker differentiates through a module with stored weights. */
START_TEST(the_gradient_checker_confirms_a_stored_module)
{
    for (int type = 0; type < STORED; type++) {
        th_module *block = th_transformer_block_new(ctx, 32, 2, &(th_transformer_block_options){.mlp_width = 32});
        freeze_weights(block);
        ck_assert_int_eq(th_module_store(block, stored[type]), TH_OK);
        th_tensor *x = th_randn(ctx, TH_FLOAT64, TH_SHAPE(1, 3, 32));
        th_gradient_report report;
        const th_status status = th_check_gradient_of(forward, block, x, NULL, &report);
        ck_assert_msg(status == TH_OK, "%s: %s", th_dtype_name(stored[type]), th_error_message(ctx));
        th_module_free(block);
    }
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("stored weights", setup, close_context);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, operations_have_the_bits_of_the_converted_weight, 0, 4);
    tcase_add_test(tests, embeddings_have_the_bits_of_the_converted_table);
    tcase_add_test(tests, wrong_weights_are_refused);
    tcase_add_loop_test(tests, a_stored_model_trains_as_the_converted_one, 0, STORED);
    tcase_add_test(tests, attention_reads_stored_projections);
    tcase_add_test(tests, memory_is_as_stored_and_forecast);
    tcase_add_test(tests, no_whole_copy_of_a_weight_exists);
    tcase_add_test(tests, optimizers_casts_and_freezing);
    tcase_add_test(tests, failed_allocations_change_nothing);
    tcase_add_test(tests, the_gradient_checker_confirms_a_stored_module);
    return run_suites();
}
