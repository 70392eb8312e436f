/* A language model as an encoder: attention to all tokens, types of tokens, lengths, the masked language model's
 * classifier, pooling. */
#include <math.h>
#include <string.h>

#include "models.h"

enum { B = 2, T = 5, V = 11, E = 8, H = 2 };

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 5, .threads = 2, .default_dtype = TH_FLOAT64});
    ck_assert_ptr_nonnull(ctx);
}

static const th_language_model_options bert = {
    .vocabulary = V,
    .length = 7,
    .width = E,
    .heads = H,
    .layers = 2,
    .bidirectional = true,
    .token_types = 3,
    .input_norm = true,
    .classifier_transform = true,
    .classifier_bias = true,
    .block = {.post_norm = true, .activation = TH_GELU, .mlp_width = 12, .eps = 1e-12}};

/* Returns a model whose parameters, also biases and norms, are random. */
static th_module *random_model(const th_language_model_options *options)
{
    th_module *model = th_language_model_new(ctx, options);
    no_error();
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
        ck_assert_int_eq(th_fill_normal(p.tensor, 0, 0.5), TH_OK);
    return model;
}

static th_tensor *integers(th_shape shape, int64_t factor, int64_t end)
{
    th_tensor *t = th_zeros(ctx, TH_INT32, shape);
    int32_t *number = th_data(t);
    for (int64_t i = 0; i < th_numel(t); i++)
        number[i] = (int32_t)((factor * i + 1) % end);
    return t;
}

static th_tensor *hidden_states(th_module *model, th_tensor *tokens, const th_language_model_logits_options *options)
{
    th_tensor *x = th_language_model_hidden_states(model, tokens, options);
    no_error();
    return x;
}

static void assert_tensors_close(th_tensor *a, th_tensor *b, double limit)
{
    no_error();
    ck_assert_int_eq(th_numel(a), th_numel(b));
    const double *x = th_data_const(th_contiguous(a)), *y = th_data_const(th_contiguous(b));
    for (int64_t i = 0; i < th_numel(a); i++)
        ck_assert_double_eq_tol(x[i], y[i], limit * (1 + fabs(y[i])));
}

static th_tensor *parameter(th_module *model, const char *name)
{
    th_tensor *p = th_module_find_parameter(model, name);
    ck_assert_msg(p != NULL, "%s", name);
    return p;
}

/* logits = norm(gelu(transform(x))) embedding^T + bias */
START_TEST(test_classifier)
{
    th_module *model = random_model(&bert);
    th_tensor *tokens = integers(TH_SHAPE(B, T), 3, V), *x = hidden_states(model, tokens, NULL);
    th_tensor *h = th_gelu(th_dense(x, parameter(model, "transform.weight"),
                                    &(th_dense_options){.bias = parameter(model, "transform.bias")}));
    h = th_layer_norm(h, &(th_norm_options){.weight = parameter(model, "transform_norm.weight"),
                                            .bias = parameter(model, "transform_norm.bias"),
                                            .eps = 1e-12});
    th_tensor *logits = th_dense(h, parameter(model, "embedding.weight"),
                                 &(th_dense_options){.bias = parameter(model, "classifier_bias")});
    assert_tensors_close(th_module_forward(model, tokens), logits, 1e-12);
    const th_cross_entropy_options masked = {TH_IGNORE(-100)};
    th_tensor *targets = th_full(ctx, TH_INT32, TH_SHAPE(B, T), -100);
    ((int32_t *)th_data(targets))[3] = 4;
    assert_tensors_close(th_language_model_loss(model, tokens, targets, &masked),
                         th_cross_entropy(logits, targets, &masked), 1e-12);
}
END_TEST

/* The first block reads norm(embedding + position + type). */
START_TEST(test_embeddings)
{
    th_language_model_options o = bert;
    o.classifier_transform = o.classifier_bias = false;
    o.no_classifier = true;
    th_module *model = random_model(&o);
    th_tensor *tokens = integers(TH_SHAPE(B, T), 3, V), *types = integers(TH_SHAPE(B, T), 1, 3);
    th_tensor *x = th_add(th_embedding(parameter(model, "embedding.weight"), tokens),
                          th_slice(parameter(model, "position.weight"), 0, 0, T, 1));
    x = th_add(x, th_embedding(parameter(model, "type_embedding.weight"), types));
    x = th_layer_norm(x, &(th_norm_options){.weight = parameter(model, "input_norm.weight"),
                                            .bias = parameter(model, "input_norm.bias"),
                                            .eps = 1e-12});
    x = th_transform(th_module_find(model, "layers.0"), x, NULL); /* without a mask */
    x = th_transform(th_module_find(model, "layers.1"), x, NULL);
    const th_language_model_logits_options given = {.types = types};
    assert_tensors_close(hidden_states(model, tokens, &given), x, 1e-12);
    const th_language_model_logits_options zeros = {.types = th_zeros(ctx, TH_INT32, TH_SHAPE(B, T))};
    assert_tensors_close(th_module_forward(model, tokens), hidden_states(model, tokens, &zeros), 1e-12);
}
END_TEST

/* Padding changes no bit of the tokens before it. Documents have the bits of separate sequences. */
START_TEST(test_lengths_and_documents)
{
    th_module *model = random_model(&bert);
    const int32_t lengths[B] = {3, T};
    th_tensor *tokens = integers(TH_SHAPE(B, T), 3, V), *other = integers(TH_SHAPE(B, T), 3, V);
    ((int32_t *)th_data(other))[3] = 0;
    ((int32_t *)th_data(other))[4] = 0;
    const th_language_model_logits_options given = {.lengths = th_from_data(ctx, TH_INT32, TH_SHAPE(B), lengths)};
    th_tensor *x = hidden_states(model, tokens, &given), *y = hidden_states(model, other, &given);
    ck_assert_int_eq(memcmp(th_data_const(x), th_data_const(y), 3 * E * sizeof(double)), 0);
    th_tensor *alone = hidden_states(model, th_slice(th_slice(tokens, 0, 0, 1, 1), 1, 0, 3, 1), NULL);
    assert_tensors_close(th_slice(th_slice(x, 0, 0, 1, 1), 1, 0, 3, 1), alone, 1e-12);
    const int32_t numbers[T] = {0, 0, 0, 1, 1};
    const th_language_model_logits_options packed = {.documents = th_from_data(ctx, TH_INT32, TH_SHAPE(T), numbers)};
    th_tensor *whole = hidden_states(model, th_slice(tokens, 0, 0, 1, 1), &packed);
    ck_assert_int_eq(memcmp(th_data_const(whole), th_data_const(th_contiguous(alone)), 3 * E * sizeof(double)), 0);
}
END_TEST

/* Short texts share a row. Each has the bits that it has alone, and the same gradient; tokens and types may be strided
 * and have 64 bits. */
START_TEST(test_short_texts_share_rows)
{
    enum { TEXTS = 9, LONGEST = 7 };
    static const int32_t lengths[TEXTS] = {2, 7, 1, 3, 3, 6, 1, 2, 5};
    th_module *model = random_model(&bert);
    th_tensor *tokens = th_cast(integers(TH_SHAPE(LONGEST, TEXTS), 3, V), TH_INT64),
              *types = integers(TH_SHAPE(LONGEST, TEXTS), 1, 3);
    const th_language_model_logits_options given = {.lengths = th_from_data(ctx, TH_INT32, TH_SHAPE(TEXTS), lengths),
                                                    .types = th_swap_axes(types, 0, 1)};
    tokens = th_swap_axes(tokens, 0, 1);
    th_tensor *x = hidden_states(model, tokens, &given);
    ck_assert_int_eq(th_size(x, 1), LONGEST);
    th_tensor *sum = NULL;
    for (int64_t b = 0; b < TEXTS; b++) {
        const int64_t n = lengths[b];
        th_tensor *own = th_contiguous(th_slice(th_slice(tokens, 0, b, b + 1, 1), 1, 0, n, 1));
        const th_language_model_logits_options typed = {
            .types = th_contiguous(th_slice(th_slice(given.types, 0, b, b + 1, 1), 1, 0, n, 1))};
        th_tensor *alone = hidden_states(model, own, &typed);
        th_tensor *packed = th_contiguous(th_slice(th_slice(x, 0, b, b + 1, 1), 1, 0, n, 1));
        ck_assert_msg(memcmp(th_data_const(packed), th_data_const(alone), (size_t)(n * E) * sizeof(double)) == 0,
                      "text %lld", (long long)b);
        th_tensor *loss = th_sum(th_mul(alone, alone), TH_ALL_AXES, NULL);
        sum = sum ? th_add(sum, loss) : loss;
    }
    ck_assert_int_eq(th_backward(sum, NULL), TH_OK);
    double wanted[12 * E];
    memcpy(wanted, th_data_const(th_gradient(parameter(model, "layers.0.linear1.weight"))), sizeof wanted);
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
        th_empty_gradient(p.tensor);
    x = hidden_states(model, tokens, &given);
    th_tensor *pooled = th_pooling(th_mul(x, x), given.lengths, TH_POOL_MEAN);
    th_tensor *count = th_reshape(th_cast(given.lengths, TH_FLOAT64), TH_SHAPE(TEXTS, 1));
    ck_assert_int_eq(th_backward(th_sum(th_mul(pooled, count), TH_ALL_AXES, NULL), NULL), TH_OK);
    const double *gradient = th_data_const(th_gradient(parameter(model, "layers.0.linear1.weight")));
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        ck_assert_double_eq_tol(gradient[i], wanted[i], 1e-11 * (1 + fabs(wanted[i])));
}
END_TEST

/* With first_position, the tokens of a sequence and of each document have later rows of the table. */
START_TEST(test_first_position)
{
    th_language_model_options o = bert;
    o.first_position = 2;
    o.length = T;
    th_module *model = random_model(&o), *usual = random_model(&bert);
    ck_assert_int_eq(th_size(parameter(model, "position.weight"), 0), T + 2);
    for (th_parameter_iterator p = th_module_parameters(usual); th_parameter_next(&p);)
        if (strcmp(p.name, "position.weight") != 0)
            ck_assert_int_eq(th_copy_into(p.tensor, parameter(model, p.name)), TH_OK);
    th_no_grad_begin(ctx);
    th_tensor *rows = th_slice(parameter(model, "position.weight"), 0, 2, T + 2, 1);
    ck_assert_int_eq(th_copy_into(th_slice(parameter(usual, "position.weight"), 0, 0, T, 1), rows), TH_OK);
    th_no_grad_end(ctx);
    th_tensor *tokens = integers(TH_SHAPE(B, T), 3, V);
    assert_tensors_close(th_module_forward(model, tokens), th_module_forward(usual, tokens), 1e-15);
    const int32_t numbers[T] = {0, 0, 0, 1, 1};
    const th_language_model_logits_options packed = {.documents = th_from_data(ctx, TH_INT32, TH_SHAPE(T), numbers)};
    assert_tensors_close(hidden_states(model, tokens, &packed), hidden_states(usual, tokens, &packed), 1e-15);
}
END_TEST

/* Attention weights of each layer: rows have the sum 1, no token attends to padding, and the results are the same. */
START_TEST(test_attention_weights)
{
    th_module *model = random_model(&bert);
    th_tensor *tokens = integers(TH_SHAPE(B, T), 3, V), *lengths = integers(TH_SHAPE(B), 2, 9), *weights[2]; /* 1, 3 */
    th_tensor *x = hidden_states(model, tokens, &(th_language_model_logits_options){.lengths = lengths});
    th_tensor *y =
        hidden_states(model, tokens, &(th_language_model_logits_options){.lengths = lengths, .weights = weights});
    for (int64_t b = 0; b < B; b++)
        assert_tensors_close(th_slice(th_select(y, 0, b), 0, 0, 1 + 2 * b, 1),
                             th_slice(th_select(x, 0, b), 0, 0, 1 + 2 * b, 1), 1e-12);
    for (int layer = 0; layer < 2; layer++) {
        ck_assert(th_ndim(weights[layer]) == 4 && th_size(weights[layer], 1) == H && th_size(weights[layer], 3) == T);
        assert_tensors_close(th_sum(weights[layer], TH_AXES(3), NULL), th_ones(ctx, TH_FLOAT64, TH_SHAPE(B, H, T)),
                             1e-12);
        ck_assert(th_get(weights[layer], TH_INDEX(0, 0, 0, 1)) == 0 &&
                  th_get(weights[layer], TH_INDEX(1, 0, 0, 2)) > 0);
    }
    th_tensor *documents = integers(TH_SHAPE(B, T), 0, 2);
    ck_assert_ptr_null(th_language_model_hidden_states(
        model, tokens, &(th_language_model_logits_options){.documents = documents, .weights = weights}));
    expect_failure(true, TH_ERROR_ARGUMENT, ".documents must be NULL");
}
END_TEST

START_TEST(test_model_errors)
{
    th_module *model = random_model(&bert);
    th_tensor *tokens = integers(TH_SHAPE(B, T), 3, V);
    th_cache *cache = th_cache_new(model, B, T);
    no_error();
    const th_language_model_logits_options cached = {.cache = cache, .positions = integers(TH_SHAPE(T), 1, T)};
    assert_error(th_language_model_logits(model, tokens, &cached), TH_ERROR_ARGUMENT, "so it has no cache");
    th_language_model_options o = bert;
    o.token_types = 0;
    o.classifier_transform = o.classifier_bias = false;
    o.no_classifier = true;
    model = random_model(&o);
    const th_language_model_logits_options typed = {.types = tokens};
    assert_error(th_language_model_hidden_states(model, tokens, &typed), TH_ERROR_ARGUMENT, ".token_types is 0");
    assert_error(th_language_model_logits(model, tokens, NULL), TH_ERROR_ARGUMENT, "the model has no classifier");
    assert_error(th_language_model_loss(model, tokens, tokens, NULL), TH_ERROR_ARGUMENT, "the model has no classifier");
}
END_TEST

/* -- pooling -- */

static double expected(const double *x, int kind, int64_t n, int64_t e)
{
    double sum = 0, largest = -INFINITY, weighted = 0;
    for (int64_t t = 0; t < n; t++) {
        sum += x[t * E + e];
        weighted += (double)(t + 1) * x[t * E + e];
        largest = fmax(largest, x[t * E + e]);
    }
    const double count = (double)n;
    const double of_kind[] = {
        x[e], sum / count, largest, sum / sqrt(count), weighted / (count * (count + 1) / 2), x[(n - 1) * E + e]};
    return of_kind[kind];
}

START_TEST(test_pooling)
{
    const th_pooling_kind kind = (th_pooling_kind)_i;
    const int64_t lengths[B] = {3, T};
    th_tensor *x = th_set_requires_gradient(th_randn(ctx, TH_FLOAT64, TH_SHAPE(B, T, E)), true);
    th_tensor *n = th_from_data(ctx, TH_INT64, TH_SHAPE(B), lengths);
    for (int given = 0; given < 2; given++) {
        th_tensor *y = th_pooling(x, given ? n : NULL, kind);
        no_error();
        for (int64_t b = 0; b < B; b++)
            for (int64_t e = 0; e < E; e++)
                ck_assert_double_eq_tol(
                    ((const double *)th_data_const(y))[b * E + e],
                    expected((const double *)th_data_const(x) + b * T * E, (int)kind, given ? lengths[b] : T, e),
                    1e-14);
    }
    ck_assert_int_eq(th_backward(th_sum(th_pooling(x, n, kind), TH_ALL_AXES, NULL), NULL), TH_OK);
    const double *gradient = th_data_const(th_gradient(x));
    for (int64_t i = 3 * E; i < T * E; i++) /* of padding */
        ck_assert(gradient[i] == 0);
}
END_TEST

START_TEST(test_unit_length)
{
    th_tensor *x = th_randn(ctx, TH_FLOAT64, TH_SHAPE(3, E)), *y = th_unit_length(x);
    no_error();
    const double *a = th_data_const(x), *b = th_data_const(y);
    for (int64_t i = 0; i < 3; i++) {
        double square = 0;
        for (int64_t e = 0; e < E; e++)
            square += a[i * E + e] * a[i * E + e];
        for (int64_t e = 0; e < E; e++)
            ck_assert_double_eq_tol(b[i * E + e], a[i * E + e] / sqrt(square), 1e-14);
    }
}
END_TEST

START_TEST(test_pooling_errors)
{
    th_tensor *x = th_zeros(ctx, TH_FLOAT64, TH_SHAPE(B, T, E));
    const int32_t short_one[B] = {1, 0}, long_one[B] = {T + 1, 1};
    assert_error(th_pooling(x, th_from_data(ctx, TH_INT32, TH_SHAPE(B), short_one), TH_POOL_MEAN), TH_ERROR_INDEX,
                 "lengths[1] is 0, outside 1 .. 5");
    assert_error(th_pooling(x, th_from_data(ctx, TH_INT32, TH_SHAPE(B), long_one), TH_POOL_MEAN), TH_ERROR_INDEX,
                 "lengths[0] is 6, outside 1 .. 5");
    assert_error(th_pooling(x, th_zeros(ctx, TH_INT32, TH_SHAPE(3)), TH_POOL_MEAN), TH_ERROR_SHAPE,
                 "lengths must be (B), that is (2)");
    assert_error(th_pooling(x, th_zeros(ctx, TH_FLOAT64, TH_SHAPE(B)), TH_POOL_MEAN), TH_ERROR_TYPE,
                 "lengths must be int32 or int64");
    assert_error(th_pooling(th_zeros(ctx, TH_FLOAT64, TH_SHAPE(B, T)), NULL, TH_POOL_MEAN), TH_ERROR_SHAPE,
                 "x must be (B, T, E)");
    assert_error(th_pooling(th_zeros(ctx, TH_INT32, TH_SHAPE(B, T, E)), NULL, TH_POOL_MEAN), TH_ERROR_TYPE,
                 "x must be float32 or float64");
    assert_error(th_pooling(x, NULL, (th_pooling_kind)6), TH_ERROR_ARGUMENT, "unknown kind of pooling: 6");
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("encoder model", setup, close_context);
    tcase_add_test(tests, test_classifier);
    tcase_add_test(tests, test_embeddings);
    tcase_add_test(tests, test_lengths_and_documents);
    tcase_add_test(tests, test_short_texts_share_rows);
    tcase_add_test(tests, test_first_position);
    tcase_add_test(tests, test_attention_weights);
    tcase_add_test(tests, test_model_errors);
    tcase_add_loop_test(tests, test_pooling, 0, TH_POOL_LAST + 1);
    tcase_add_test(tests, test_unit_length);
    tcase_add_test(tests, test_pooling_errors);
    return run_suites();
}
