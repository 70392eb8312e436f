/* Wrong calls. Each one stores its code and message, leaks nothing, and the context works again after th_error_clear.
 * (Wrong files: test_npy; wrong options of layers and optimizers: test_layers, test_optimizer.) */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "suite.h"
#include "tapehead/models.h"

static th_context *ctx, *other;
static th_tensor *x;       /* (2, 3) float32 leaf */
static th_tensor *y64;     /* (2, 3) float64 */
static th_tensor *indices; /* (2) int64: 0, 7 */
static th_tensor *flags;   /* (2, 3) bool */
static th_tensor *foreign; /* (2, 3) of another context */

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 1});
    other = th_context_new(NULL);
    foreign = th_ones(other, TH_FLOAT32, TH_SHAPE(2, 3));
    x = th_set_requires_gradient(th_set_axes(th_ones(ctx, TH_FLOAT32, TH_SHAPE(2, 3)), "BE"), true);
    y64 = th_ones(ctx, TH_FLOAT64, TH_SHAPE(2, 3));
    indices = th_from_data(ctx, TH_INT64, TH_SHAPE(2), (int64_t[]){0, 7});
    flags = th_ones(ctx, TH_BOOL, TH_SHAPE(2, 3));
    ck_assert_int_eq(th_error_code(ctx), TH_OK);
}

static void teardown(void)
{
    th_context_free(other);
    th_context_free(ctx);
}

/* Ignores a status: the test checks the pending error instead. */
#define RUN(status) (void)((status) == TH_OK)

/* -- shapes and axes -- */
static void reshape_size(void)
{
    th_reshape(x, TH_SHAPE(4, 2));
}
static void reshape_two_unknown(void)
{
    th_reshape(x, TH_SHAPE(-1, -1));
}
static void reshape_negative(void)
{
    th_reshape(x, TH_SHAPE(-2, 3));
}
static void reshape_not_divisible(void)
{
    th_reshape(x, TH_SHAPE(4, -1));
}
static void transpose_count(void)
{
    th_transpose(x, TH_AXES(0));
}
static void transpose_twice(void)
{
    th_transpose(x, TH_AXES(1, 1));
}
static void axes_letters(void)
{
    th_set_axes(x, "BTE");
}

static void transpose_axis(void)
{
    th_transpose(x, TH_AXES(0, 2));
}
static void swap_axis(void)
{
    th_swap_axes(x, 0, 5);
}
static void slice_axis(void)
{
    th_slice(x, 2, 0, 1, 1);
}
static void slice_stop(void)
{
    th_slice(x, 1, 0, 4, 1);
}
static void slice_order(void)
{
    th_slice(x, 1, 2, 1, 1);
}
static void slice_step(void)
{
    th_slice(x, 1, 0, 3, 0);
}
static void select_index(void)
{
    th_select(x, 0, 2);
}
static void expand_size(void)
{
    th_expand(x, TH_SHAPE(4, 3));
}
static void expand_fewer(void)
{
    th_expand(x, TH_SHAPE(3));
}
static void squeeze_wide(void)
{
    th_squeeze(x, 0);
}
static void unsqueeze_axis(void)
{
    th_unsqueeze(x, 4);
}
static void repeat_negative(void)
{
    th_repeat(x, TH_SHAPE(-1, 2));
}
static void concat_sizes(void)
{
    th_concat((th_tensor *[]){x, th_ones(ctx, TH_FLOAT32, TH_SHAPE(3, 4))}, 2, 0);
}
static void concat_null(void)
{
    th_concat(NULL, 2, 0);
}
static void stack_negative(void)
{
    th_stack(&x, -2, 0);
}
static void split_null(void)
{
    RUN(th_split(x, 0, 2, NULL, NULL));
}
static void split_negative(void)
{
    th_tensor *parts[2];
    RUN(th_split(x, 0, -1, (int64_t[]){1, 1}, parts));
}
static void wrt_null(void)
{
    RUN(th_backward(th_sum(x, TH_ALL_AXES, NULL), &(th_backward_options){.n_wrt = 1}));
}
static void wrt_negative(void)
{
    RUN(th_backward(th_sum(x, TH_ALL_AXES, NULL), &(th_backward_options){.wrt = &x, .n_wrt = -1}));
}
static void wrt_of_null(void)
{
    th_tensor *wrt[] = {x, NULL}, *gradients[2];
    RUN(th_backward(th_sum(x, TH_ALL_AXES, NULL),
                    &(th_backward_options){.wrt = wrt, .n_wrt = 2, .gradients = gradients}));
}
static void apply_null(void)
{
    th_apply_n(th_op_find("add"), NULL, 2, NULL, NULL);
}
static void apply_negative(void)
{
    th_apply_n(th_op_find("concat"), (int32_t[]){0}, -1, &x, NULL);
}
static void apply_without_attributes(void)
{
    th_apply_n(th_op_find("softmax"), NULL, 1, &x, NULL);
}
static void scope_results_null(void)
{
    th_scope_begin(ctx, "open");
    th_scale(x, 2);
    th_scope_end_all(ctx, NULL, 2);
}
static void scope_results_negative(void)
{
    th_scope_begin(ctx, "open");
    th_scope_end_all(ctx, &x, -2);
}
static th_tensor *doubled(void *user, th_tensor *const *inputs)
{
    (void)user;
    return th_scale(inputs[0], 2);
}
static void checked_inputs_null(void)
{
    RUN(th_check_gradient(ctx, doubled, NULL, 1, NULL, NULL, NULL));
}
static void sample_null(void)
{
    RUN(th_sample_inputs(ctx, NULL, TH_FLOAT32, 1, NULL));
}
static void sample_of_integers(void)
{
    th_tensor *inputs[TH_MAX_INPUTS];
    RUN(th_sample_inputs(ctx, th_op_find("add")->samples, TH_INT32, 1, inputs));
}
static void groups_null(void)
{
    th_sgd_new(th_dense_new(ctx, 1, 1, NULL), &(th_sgd_options){.learning_rate = 1, .n_groups = 2});
}
static void concat_none(void)
{
    th_concat(NULL, 0, 0);
}
static void concat_types(void)
{
    th_concat((th_tensor *[]){x, y64}, 2, 0);
}
static void stack_sizes(void)
{
    th_stack((th_tensor *[]){x, th_ones(ctx, TH_FLOAT32, TH_SHAPE(3, 4))}, 2, 0);
}
static void split_sizes(void)
{
    th_tensor *parts[2];
    RUN(th_split(x, 1, 2, (int64_t[]){1, 1}, parts));
}
static void broadcast(void)
{
    th_add(x, th_ones(ctx, TH_FLOAT32, TH_SHAPE(2, 4)));
}
static void matmul_inner(void)
{
    th_matmul(x, x);
}
static void matmul_scalar(void)
{
    th_matmul(x, th_ones(ctx, TH_FLOAT32, TH_SCALAR));
}
static void matmul_batch(void)
{
    th_matmul(th_ones(ctx, TH_FLOAT32, TH_SHAPE(2, 3, 4)), th_ones(ctx, TH_FLOAT32, TH_SHAPE(5, 4, 3)));
}
static void dense_width(void)
{
    th_dense(x, th_ones(ctx, TH_FLOAT32, TH_SHAPE(4, 5)), NULL);
}
static void dense_bias(void)
{
    th_dense(x, th_ones(ctx, TH_FLOAT32, TH_SHAPE(4, 3)),
             &(th_dense_options){.bias = th_ones(ctx, TH_FLOAT32, TH_SHAPE(5))});
}
static void sum_axis(void)
{
    th_sum(x, TH_AXES(2), NULL);
}
static void sum_axis_twice(void)
{
    th_sum(x, TH_AXES(0, -2), NULL);
}
static void softmax_axis(void)
{
    th_softmax(x, 2);
}
static void max_of_nothing(void)
{
    th_max(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(0)), TH_ALL_AXES, NULL);
}
static void norm_weight(void)
{
    th_layer_norm(x, &(th_norm_options){.weight = th_ones(ctx, TH_FLOAT32, TH_SHAPE(4))});
}
static void loss_shapes(void)
{
    th_cross_entropy(x, th_zeros(ctx, TH_INT64, TH_SHAPE(3)), NULL);
}
static void attention_widths(void)
{
    th_tensor *q = th_ones(ctx, TH_FLOAT32, TH_SHAPE(4, 8)), *k = th_ones(ctx, TH_FLOAT32, TH_SHAPE(5, 6));
    th_scaled_dot_product_attention(q, k, k, NULL);
}
static void attention_lengths(void)
{
    th_tensor *q = th_ones(ctx, TH_FLOAT32, TH_SHAPE(4, 8)), *v = th_ones(ctx, TH_FLOAT32, TH_SHAPE(6, 8));
    th_scaled_dot_product_attention(q, q, v, NULL);
}
static void mask_shape(void)
{
    th_masked_softmax(x, &(th_mask){.keep = th_ones(ctx, TH_BOOL, TH_SHAPE(5))});
}
static void valid_length(void)
{
    th_tensor *scores = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2, 3, 4));
    th_masked_softmax(scores, &(th_mask){.valid_lengths = th_from_data(ctx, TH_INT64, TH_SHAPE(2), (int64_t[]){4, 5})});
}
static void size_index(void)
{
    th_size(x, 2);
}
static void negative_size(void)
{
    th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2, -1));
}
static void huge_size(void)
{
    th_zeros(ctx, TH_FLOAT32, TH_SHAPE(INT64_MAX / 2, 4));
}
static void huge_result(void)
{
    th_expand(x, TH_SHAPE(INT64_MAX / 4, 2, 3));
}
static void huge_repeat(void)
{
    th_repeat(x, TH_SHAPE(INT64_MAX / 2, 2));
}

/* -- types -- */
static void mixed_types(void)
{
    th_add(x, y64);
}
static void integer_exp(void)
{
    th_exp(indices);
}
static void bool_matmul(void)
{
    th_matmul(flags, flags);
}
static void float_index(void)
{
    th_embedding(x, y64);
}
static void float_condition(void)
{
    th_where(x, x, x);
}
static void float_keep(void)
{
    th_masked_softmax(x, &(th_mask){.keep = x});
}
static void float_logical(void)
{
    th_logical_and(x, x);
}
static void normal_integers(void)
{
    th_randn(ctx, TH_INT32, TH_SHAPE(3));
}
static void gradient_of_integers(void)
{
    th_set_requires_gradient(indices, true);
}
static void no_such_type(void)
{
    th_zeros(ctx, (th_dtype)77, TH_SHAPE(3));
}

/* -- NULL -- */
static void null_operand(void)
{
    th_softmax(NULL, 0);
}
static void null_second(void)
{
    th_add(x, NULL);
}
static void null_backward(void)
{
    RUN(th_backward(NULL, NULL));
}
static void null_item(void)
{
    th_item(NULL);
}
static void null_copy(void)
{
    RUN(th_copy_in(x, NULL, 24));
}
static void null_forward(void)
{
    th_module_forward(NULL, x);
}

/* -- indices and numbers -- */
static void index_outside(void)
{
    th_embedding(x, indices);
}
static void gather_outside(void)
{
    th_gather(x, 0, th_from_data(ctx, TH_INT64, TH_SHAPE(1, 1), (int64_t[]){-1}));
}
static void one_hot_outside(void)
{
    th_one_hot(indices, 5);
}
static void target_outside(void)
{
    th_cross_entropy(x, indices, NULL);
}
static void get_outside(void)
{
    th_get(x, TH_INDEX(0, 3));
}
static void get_dimensions(void)
{
    th_get(x, TH_INDEX(0));
}
static void item_of_many(void)
{
    th_item(x);
}
static void copy_bytes(void)
{
    float f[5];
    RUN(th_copy_out(x, f, sizeof f));
}
static void dropout_one(void)
{
    th_dropout(x, 1.0);
}
static void dropout_negative(void)
{
    th_dropout(x, -0.1);
}
static void dropout_nan(void)
{
    th_dropout(x, (double)NAN);
}
static void clamp_order(void)
{
    th_clamp(x, 2, 1);
}
static void smoothing(void)
{
    th_cross_entropy(x, th_zeros(ctx, TH_INT64, TH_SHAPE(2)), &(th_cross_entropy_options){.label_smoothing = 2});
}
static void ignored_alone(void)
{
    th_cross_entropy(x, th_zeros(ctx, TH_INT64, TH_SHAPE(2)), &(th_cross_entropy_options){.ignore_index = 3});
}
static void uniform_order(void)
{
    th_uniform(ctx, TH_FLOAT32, TH_SHAPE(2), 1, 0);
}
static void arange_step(void)
{
    th_arange(ctx, TH_FLOAT32, 0, 1, 0);
}
static void threads(void)
{
    RUN(th_set_threads(ctx, 0));
}
static void default_type(void)
{
    RUN(th_set_default_dtype(ctx, TH_INT32));
}

/* -- another context, the wrong time -- */
static void other_context(void)
{
    th_add(x, foreign);
}
static void not_scalar(void)
{
    RUN(th_backward(th_scale(x, 2), NULL));
}
static void no_gradient(void)
{
    RUN(th_backward(th_sum(y64, TH_ALL_AXES, NULL), NULL));
}
static void twice(void)
{
    th_tensor *loss = th_sum(th_exp(x), TH_ALL_AXES, NULL);
    RUN(th_backward(loss, NULL));
    RUN(th_backward(loss, NULL));
}
static void changed(void)
{
    th_tensor *loss = th_sum(th_mul(x, x), TH_ALL_AXES, NULL);
    RUN(th_fill(x, 2));
    RUN(th_backward(loss, NULL));
}
static void stale(void)
{
    th_tensor *y = th_scale(x, 2);
    th_tape_clear(ctx);
    th_scale(y, 2);
}
static void released(void)
{
    th_scope_begin(ctx, "inner");
    th_tensor *y = th_scale(x, 2);
    th_scope_end(ctx, NULL);
    th_scale(y, 2);
}
static void freed(void)
{
    th_tensor *t = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2));
    th_tensor_free(t);
    th_scale(t, 2);
}
static void leaf_of_tape(void)
{
    th_set_requires_gradient(th_scale(x, 2), true);
}
static void data_of_view(void)
{
    th_data(th_swap_axes(x, 0, 1));
}
static void deep_scopes(void)
{
    for (int i = 0; i < 70; i++)
        th_scope_begin(ctx, "deeper");
    for (int i = 0; i < 70; i++)
        th_scope_end(ctx, NULL);
}

typedef struct misuse {
    void (*call)(void);
    th_status code;
    const char *sentence; /* the parts that it must contain, separated by | */
} misuse;

static const misuse misuses[] = {
    {reshape_size, TH_ERROR_SHAPE, "reshape|(B=2, E=3)"},
    {reshape_two_unknown, TH_ERROR_SHAPE, "reshape|-1"},
    {reshape_negative, TH_ERROR_SHAPE, "reshape"},
    {reshape_not_divisible, TH_ERROR_SHAPE, "reshape"},
    {transpose_count, TH_ERROR_SHAPE, "transpose"},
    {transpose_twice, TH_ERROR_SHAPE, "transpose"},
    {axes_letters, TH_ERROR_ARGUMENT, "test_errors.c:|set_axes|3 letters for 2 dimensions"},
    {transpose_axis, TH_ERROR_SHAPE, "transpose|2"},
    {swap_axis, TH_ERROR_SHAPE, "5"},
    {slice_axis, TH_ERROR_SHAPE, "slice|axis 2"},
    {slice_stop, TH_ERROR_INDEX, "slice|4"},
    {slice_order, TH_ERROR_INDEX, "slice"},
    {slice_step, TH_ERROR_ARGUMENT, "slice|step"},
    {select_index, TH_ERROR_INDEX, "select|2"},
    {expand_size, TH_ERROR_SHAPE, "expand|4"},
    {expand_fewer, TH_ERROR_SHAPE, "expand"},
    {squeeze_wide, TH_ERROR_SHAPE, "squeeze"},
    {unsqueeze_axis, TH_ERROR_SHAPE, "unsqueeze|4"},
    {repeat_negative, TH_ERROR_SHAPE, "repeat"},
    {concat_sizes, TH_ERROR_SHAPE, "concat"},
    {concat_null, TH_ERROR_ARGUMENT, "concat"},
    {stack_negative, TH_ERROR_ARGUMENT, "stack|-2"},
    {split_null, TH_ERROR_ARGUMENT, "split"},
    {split_negative, TH_ERROR_ARGUMENT, "split"},
    {wrt_null, TH_ERROR_ARGUMENT, "backward|n_wrt is 1|NULL"},
    {wrt_negative, TH_ERROR_ARGUMENT, "backward|n_wrt is -1"},
    {wrt_of_null, TH_ERROR_ARGUMENT, "backward|wrt is NULL"},
    {apply_null, TH_ERROR_ARGUMENT, "add|2 inputs at NULL"},
    {apply_negative, TH_ERROR_ARGUMENT, "concat|-1 inputs"},
    {apply_without_attributes, TH_ERROR_ARGUMENT, "softmax|attributes"},
    {scope_results_null, TH_ERROR_ARGUMENT, "scope_end|2 results at NULL"},
    {scope_results_negative, TH_ERROR_ARGUMENT, "scope_end|-2 results"},
    {checked_inputs_null, TH_ERROR_ARGUMENT, "check_gradient|inputs"},
    {sample_null, TH_ERROR_ARGUMENT, "sample_inputs"},
    {sample_of_integers, TH_ERROR_ARGUMENT, "sample_inputs|floating"},
    {groups_null, TH_ERROR_ARGUMENT, "sgd|n_groups"},
    {concat_none, TH_ERROR_ARGUMENT, "concat"},
    {concat_types, TH_ERROR_TYPE, "concat|float32|float64"},
    {stack_sizes, TH_ERROR_SHAPE, "stack"},
    {split_sizes, TH_ERROR_SHAPE, "split|3"},
    {broadcast, TH_ERROR_SHAPE, "add|(B=2, E=3)|(2, 4)"},
    {matmul_inner, TH_ERROR_SHAPE, "matmul: inner sizes differ|(B=2, E=3)|test_errors.c:"},
    {matmul_scalar, TH_ERROR_SHAPE, "matmul"},
    {matmul_batch, TH_ERROR_SHAPE, "matmul|(2, 3, 4)|(5, 4, 3)"},
    {dense_width, TH_ERROR_SHAPE, "dense|(B=2, E=3)|(4, 5)"},
    {dense_bias, TH_ERROR_SHAPE, "dense|5"},
    {sum_axis, TH_ERROR_SHAPE, "sum|2"},
    {sum_axis_twice, TH_ERROR_SHAPE, "sum"},
    {softmax_axis, TH_ERROR_SHAPE, "softmax|axis 2"},
    {max_of_nothing, TH_ERROR_SHAPE, "max"},
    {norm_weight, TH_ERROR_SHAPE, "layer_norm|4"},
    {loss_shapes, TH_ERROR_SHAPE, "cross_entropy"},
    {attention_widths, TH_ERROR_SHAPE, "attention|8|6"},
    {attention_lengths, TH_ERROR_SHAPE, "attention|4|6"},
    {mask_shape, TH_ERROR_SHAPE, "masked_softmax|5"},
    {valid_length, TH_ERROR_INDEX, "5"},
    {size_index, TH_ERROR_SHAPE, "2"},
    {negative_size, TH_ERROR_SHAPE, "-1"},
    {huge_size, TH_ERROR_SHAPE, "overflow"},
    {huge_result, TH_ERROR_SHAPE, "expand"},
    {huge_repeat, TH_ERROR_SHAPE, "repeat"},
    {mixed_types, TH_ERROR_TYPE, "add|float32|float64"},
    {integer_exp, TH_ERROR_TYPE, "exp|int64"},
    {bool_matmul, TH_ERROR_TYPE, "matmul|bool"},
    {float_index, TH_ERROR_TYPE, "embedding|float64"},
    {float_condition, TH_ERROR_TYPE, "where|float32"},
    {float_keep, TH_ERROR_TYPE, "float32"},
    {float_logical, TH_ERROR_TYPE, "logical_and|float32"},
    {normal_integers, TH_ERROR_TYPE, "int32"},
    {gradient_of_integers, TH_ERROR_TYPE, "int64"},
    {no_such_type, TH_ERROR_TYPE, "type"},
    {null_operand, TH_ERROR_ARGUMENT, "softmax|NULL"},
    {null_second, TH_ERROR_ARGUMENT, "add|NULL"},
    {null_backward, TH_ERROR_ARGUMENT, "backward|NULL"},
    {null_item, TH_ERROR_ARGUMENT, "item|NULL"},
    {null_copy, TH_ERROR_ARGUMENT, "NULL"},
    {null_forward, TH_ERROR_ARGUMENT, "NULL"},
    {index_outside, TH_ERROR_INDEX, "embedding|7|[0, 2)"},
    {gather_outside, TH_ERROR_INDEX, "gather|-1"},
    {one_hot_outside, TH_ERROR_INDEX, "one_hot|7"},
    {target_outside, TH_ERROR_INDEX, "cross_entropy|7|[0, 3)"},
    {get_outside, TH_ERROR_INDEX, "3"},
    {get_dimensions, TH_ERROR_INDEX, "1 indices"},
    {item_of_many, TH_ERROR_SHAPE, "item"},
    {copy_bytes, TH_ERROR_SHAPE, "20|24"},
    {dropout_one, TH_ERROR_ARGUMENT, "dropout|1"},
    {dropout_negative, TH_ERROR_ARGUMENT, "dropout|-0.1"},
    {dropout_nan, TH_ERROR_ARGUMENT, "dropout|nan"},
    {clamp_order, TH_ERROR_ARGUMENT, "clamp"},
    {smoothing, TH_ERROR_ARGUMENT, "cross_entropy|2"},
    {ignored_alone, TH_ERROR_ARGUMENT, "cross_entropy|TH_IGNORE(3)"},
    {uniform_order, TH_ERROR_ARGUMENT, "uniform"},
    {arange_step, TH_ERROR_ARGUMENT, "arange|step"},
    {threads, TH_ERROR_ARGUMENT, "threads"},
    {default_type, TH_ERROR_TYPE, "int32"},
    {other_context, TH_ERROR_ARGUMENT, "add|another context"},
    {not_scalar, TH_ERROR_SHAPE, "backward|6 elements"},
    {no_gradient, TH_ERROR_STATE, "backward|there is nothing to differentiate"},
    {twice, TH_ERROR_STATE, "consumed"},
    {changed, TH_ERROR_STATE, "mul saved at|changed at"},
    {stale, TH_ERROR_STATE, "scale|th_tape_clear"},
    {released, TH_ERROR_STATE, "scale|was released"},
    {freed, TH_ERROR_STATE, "scale|freed"},
    {leaf_of_tape, TH_ERROR_ARGUMENT, "belongs to the tape"},
    {data_of_view, TH_ERROR_STATE, "contiguous"},
    {deep_scopes, TH_ERROR_STATE, "scopes"},
};

static void expect_parts(const char *message, const char *parts)
{
    char copy[256];
    snprintf(copy, sizeof copy, "%s", parts);
    for (char *part = strtok(copy, "|"); part; part = strtok(NULL, "|"))
        ck_assert_msg(strstr(message, part) != NULL, "\"%s\" is not in \"%s\"", part, message);
}

START_TEST(a_wrong_call_stores_its_code_and_message)
{
    const misuse *m = &misuses[_i];
    const size_t live = th_memory(ctx).live;
    m->call();
    ck_assert_msg(th_error_code(ctx) == m->code, "misuse %d: code %d: \"%s\"", _i, (int)th_error_code(ctx),
                  th_error_message(ctx));
    expect_parts(th_error_message(ctx), m->sentence);
    char first[1024];
    snprintf(first, sizeof first, "%s", th_error_message(ctx));
    ck_assert_ptr_null(th_add(x, x)); /* does not run, and the first error stays */
    ck_assert_ptr_null(th_matmul(x, x));
    ck_assert_str_eq(th_error_message(ctx), first);
    th_tape_clear(ctx);
    th_error_clear(ctx);
    th_empty_gradient(x);
    ck_assert_str_eq(th_error_message(ctx), "");
    ck_assert_int_eq(th_backward(th_sum(th_mul(x, x), TH_ALL_AXES, NULL), NULL), TH_OK);
    th_tape_clear(ctx);
    ck_assert_uint_lt(th_memory(ctx).live, live + (1 << 20));
}
END_TEST

START_TEST(exceeding_the_memory_limit_is_an_error)
{
    th_context *small = th_context_new(&(th_context_options){.memory_limit = 4 << 20});
    th_tensor *t = th_zeros(small, TH_FLOAT32, TH_SHAPE(1000, 100));
    ck_assert_ptr_null(th_zeros(small, TH_FLOAT32, TH_SHAPE(1000, 1000)));
    ck_assert_int_eq(th_error_code(small), TH_ERROR_MEMORY);
    ck_assert_ptr_nonnull(strstr(th_error_message(small), "limit"));
    th_error_clear(small);
    ck_assert_ptr_nonnull(th_scale(t, 2));
    ck_assert_ptr_null(th_expand(t, TH_SHAPE(10, 1000, 1000)));
    th_error_clear(small);
    ck_assert_uint_le(th_memory(small).reserved, 4 << 20);
    th_context_free(small);
}
END_TEST

START_TEST(text_and_location_are_the_parts_of_the_message)
{
    char whole[2048], line[64];
    ck_assert_str_eq(th_error_text(ctx), "");
    ck_assert_str_eq(th_error_location(ctx), "");
    snprintf(line, sizeof line, "test_errors.c:%d", __LINE__ + 1);
    th_matmul(x, x);
    ck_assert_str_eq(th_error_location(ctx), line);
    ck_assert_ptr_nonnull(strstr(th_error_text(ctx), "inner sizes differ"));
    ck_assert_ptr_null(strstr(th_error_text(ctx), "; at "));
    snprintf(whole, sizeof whole, "%s; at %s", th_error_text(ctx), th_error_location(ctx));
    ck_assert_str_eq(th_error_message(ctx), whole);
    th_error_clear(ctx);
    ck_assert_str_eq(th_error_text(ctx), "");
    ck_assert_str_eq(th_error_location(ctx), "");

    (th_matmul)(x, x); /* without the macro, as from another language: the line is unknown */
    ck_assert_str_eq(th_error_location(ctx), "");
    ck_assert_str_eq(th_error_message(ctx), th_error_text(ctx));
    th_error_clear(ctx);

    char *long_name = calloc(1, 3000); /* the location does not fit in the message */
    memset(long_name, 'n', 2999);
    ck_assert_ptr_null(th_tokenizer_load(ctx, long_name));
    ck_assert_ptr_nonnull(strstr(th_error_location(ctx), "test_errors.c:"));
    free(long_name);
    ck_assert_str_eq(th_error_text(NULL), "no context");
    ck_assert_str_eq(th_error_location(NULL), "");
}
END_TEST

START_TEST(wrong_options_of_a_context_are_its_first_error)
{
    th_context *wrong = th_context_new(&(th_context_options){.threads = -3});
    ck_assert_int_eq(th_error_code(wrong), TH_ERROR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(th_error_message(wrong), "-3"));
    th_context_free(wrong);
    wrong = th_context_new(&(th_context_options){.default_dtype = TH_INT64});
    ck_assert_int_eq(th_error_code(wrong), TH_ERROR_TYPE);
    th_context_free(wrong);
}
END_TEST

START_TEST(functions_that_end_a_chain_return_non_zero_for_null)
{
    ck_assert_int_ne(th_backward(NULL, NULL), TH_OK);
    th_error_clear(ctx);
    ck_assert_int_ne(th_optimizer_step(NULL), TH_OK);
    th_error_clear(ctx);
    ck_assert_int_ne(th_copy_out(NULL, NULL, 0), TH_OK);
    th_error_clear(ctx);
    ck_assert(isnan(th_item(NULL)));
    th_error_clear(ctx);
    th_tensor_free(NULL);
    th_module_free(NULL);
    th_optimizer_free(NULL);
    th_context_free(NULL);
    th_tape_clear(NULL);
    th_error_clear(NULL);
    th_parameter_iterator *const no_iterator = NULL;
    ck_assert(!th_parameter_next(no_iterator));
    ck_assert_str_eq(th_module_full_name(NULL, NULL), "");
    ck_assert_str_eq(th_array_text(NULL, NULL), "");
    ck_assert(isnan(th_schedule_cosine(1, NULL)) && isnan(th_schedule_noam(1, NULL)));
    ck_assert(isnan(th_schedule_linear(1, NULL)) && isnan(th_schedule_wsd(1, NULL)));
    ck_assert_int_eq(th_schedule_batch(1, NULL), 0);
    ck_assert_int_eq(th_error_code(ctx), TH_OK);
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("errors", setup, teardown);
    tcase_add_loop_test(tcase, a_wrong_call_stores_its_code_and_message, 0, (int)(sizeof misuses / sizeof misuses[0]));
    tcase_add_test(tcase, exceeding_the_memory_limit_is_an_error);
    tcase_add_test(tcase, text_and_location_are_the_parts_of_the_message);
    tcase_add_test(tcase, wrong_options_of_a_context_are_its_first_error);
    tcase_add_test(tcase, functions_that_end_a_chain_return_non_zero_for_null);
    return run_suites();
}
