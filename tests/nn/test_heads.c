/* Heads of a language model: their formulas, losses, gradients, names of labels and errors. */
#include <string.h>

#include "tapehead/check.h"

#include "models.h"

enum { B = 3, T = 5, V = 11, E = 8, H = 2, L = 4 };

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 5, .threads = 2, .default_dtype = TH_FLOAT64});
    ck_assert_ptr_nonnull(ctx);
}

static const th_language_model_options encoder = {.vocabulary = V,
                                                  .length = 7,
                                                  .width = E,
                                                  .heads = H,
                                                  .layers = 2,
                                                  .bidirectional = true,
                                                  .input_norm = true,
                                                  .block = {.post_norm = true, .mlp_width = 12}};

static th_language_model_options with_head(th_head_options head)
{
    th_language_model_options o = encoder;
    o.head = head;
    return o;
}

/* Returns a model whose parameters, also biases and norms, are random. */
static th_module *random_model(th_head_options head)
{
    const th_language_model_options o = with_head(head);
    th_module *model = th_language_model_new(ctx, &o);
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

static void assert_tensors_close(th_tensor *a, th_tensor *b)
{
    no_error();
    ck_assert_int_eq(th_numel(a), th_numel(b));
    ck_assert_int_eq(th_ndim(a), th_ndim(b));
    const double *x = th_data_const(th_contiguous(a)), *y = th_data_const(th_contiguous(b));
    for (int64_t i = 0; i < th_numel(a); i++)
        ck_assert_double_eq_tol(x[i], y[i], 1e-12 * (1 + fabs(y[i])));
}

static th_tensor *dense(th_module *model, const char *name, th_tensor *x)
{
    char weight[40], bias[40];
    snprintf(weight, sizeof weight, "head.%s.weight", name);
    snprintf(bias, sizeof bias, "head.%s.bias", name);
    return th_dense(x, th_module_find_parameter(model, weight),
                    &(th_dense_options){.bias = th_module_find_parameter(model, bias)});
}

/* logits = output(tanh(transform(pooling(x)))), where padding has no effect */
START_TEST(test_sequence)
{
    for (int kind = 0; kind <= TH_POOL_LAST; kind++) {
        th_module *model = random_model((th_head_options){.kind = TH_HEAD_SEQUENCE,
                                                          .labels = L,
                                                          .pooling = (th_pooling_kind)kind,
                                                          .transform = true,
                                                          .activation = TH_TANH});
        const int32_t lengths[B] = {3, T, 1};
        const th_language_model_logits_options given = {.lengths = th_from_data(ctx, TH_INT32, TH_SHAPE(B), lengths)};
        th_tensor *tokens = integers(TH_SHAPE(B, T), 3, V);
        th_tensor *x = th_language_model_hidden_states(model, tokens, &given);
        x = th_pooling(x, given.lengths, (th_pooling_kind)kind);
        x = dense(model, "output", th_tanh(dense(model, "transform", x)));
        assert_tensors_close(th_language_model_logits(model, tokens, &given), x);
        x = dense(model, "output",
                  th_tanh(dense(
                      model, "transform",
                      th_pooling(th_language_model_hidden_states(model, tokens, NULL), NULL, (th_pooling_kind)kind))));
        assert_tensors_close(th_module_forward(model, tokens), x);
    }
}
END_TEST

START_TEST(test_tokens_and_spans)
{
    th_tensor *tokens = integers(TH_SHAPE(B, T), 3, V);
    for (int spans = 0; spans < 2; spans++) {
        th_module *model =
            random_model((th_head_options){.kind = spans ? TH_HEAD_SPANS : TH_HEAD_TOKENS, .labels = spans ? 0 : L});
        th_tensor *x = th_language_model_hidden_states(model, tokens, NULL), *logits = th_module_forward(model, tokens);
        assert_tensors_close(logits, dense(model, "output", x));
        ck_assert_int_eq(th_size(logits, 2), spans ? 2 : L);
    }
}
END_TEST

/* No answer begins or ends in padding, and padding changes no loss. */
START_TEST(test_spans_with_padding)
{
    th_module *model = random_model((th_head_options){.kind = TH_HEAD_SPANS});
    const int32_t lengths[B] = {3, 3, 3};
    const th_language_model_logits_options given = {.lengths = th_from_data(ctx, TH_INT32, TH_SHAPE(B), lengths)};
    th_tensor *tokens = integers(TH_SHAPE(B, T), 3, V), *ends = integers(TH_SHAPE(B, 2), 1, 3);
    th_tensor *logits = th_language_model_logits(model, tokens, &given);
    th_tensor *alone = th_module_forward(model, th_slice(tokens, 1, 0, 3, 1));
    assert_tensors_close(th_slice(logits, 1, 0, 3, 1), alone);
    ck_assert(th_get(logits, TH_INDEX(1, 3, 0)) == -1e9 && th_get(logits, TH_INDEX(2, 4, 1)) == -1e9);
    assert_tensors_close(th_head_loss(model, logits, ends, NULL), th_head_loss(model, alone, ends, NULL));
}
END_TEST

/* -- losses -- */

START_TEST(test_losses)
{
    th_tensor *tokens = integers(TH_SHAPE(B, T), 3, V), *labels = integers(TH_SHAPE(B), 2, L);
    th_tensor *several = th_cast(integers(TH_SHAPE(B, L), 1, 2), TH_FLOAT64),
              *one = th_randn(ctx, TH_FLOAT64, TH_SHAPE(B));
    th_module *model = random_model((th_head_options){.kind = TH_HEAD_SEQUENCE, .labels = L});
    th_tensor *logits = th_module_forward(model, tokens);
    const th_cross_entropy_options smooth = {.label_smoothing = 0.1};
    assert_tensors_close(th_language_model_loss(model, tokens, labels, &smooth),
                         th_cross_entropy(logits, labels, &smooth));
    assert_tensors_close(th_head_loss(model, logits, several, NULL), th_binary_cross_entropy(logits, several, NULL));
    model = random_model((th_head_options){.kind = TH_HEAD_SEQUENCE, .labels = L, .problem = TH_PROBLEM_REGRESSION});
    assert_tensors_close(th_head_loss(model, logits, several, NULL), th_mse(logits, several));
    model = random_model((th_head_options){.kind = TH_HEAD_SEQUENCE, .labels = 1});
    logits = th_module_forward(model, tokens);
    assert_tensors_close(th_head_loss(model, logits, one, NULL), th_mse(th_reshape(logits, TH_SHAPE(B)), one));
    assert_error(th_head_loss(model, logits, several, NULL), TH_ERROR_SHAPE,
                 "targets are (3, 4); the logits are (3, 1)");

    model = random_model((th_head_options){.kind = TH_HEAD_TOKENS, .labels = L});
    const th_cross_entropy_options ignored = {TH_IGNORE(-100)};
    th_tensor *tags = integers(TH_SHAPE(B, T), 2, L);
    ((int32_t *)th_data(tags))[4] = -100;
    assert_tensors_close(th_language_model_loss(model, tokens, tags, &ignored),
                         th_cross_entropy(th_module_forward(model, tokens), tags, &ignored));

    model = random_model((th_head_options){.kind = TH_HEAD_SPANS});
    logits = th_module_forward(model, tokens);
    th_tensor *ends = integers(TH_SHAPE(B, 2), 3, T);
    th_tensor *sum = th_add(th_cross_entropy(th_select(logits, 2, 0), th_select(ends, 1, 0), NULL),
                            th_cross_entropy(th_select(logits, 2, 1), th_select(ends, 1, 1), NULL));
    assert_tensors_close(th_language_model_loss(model, tokens, ends, NULL), th_scale(sum, 0.5));
}
END_TEST

static th_tensor *loss_of(void *model, th_tensor *const *inputs)
{
    return th_language_model_loss(model, inputs[0], inputs[1], NULL);
}

START_TEST(test_gradients)
{
    const th_head_options heads[] = {{.kind = TH_HEAD_SEQUENCE,
                                      .labels = L,
                                      .pooling = TH_POOL_MEAN,
                                      .transform = true,
                                      .activation = TH_TANH,
                                      .input_dropout = true,
                                      .dropout = 0.2},
                                     {.kind = TH_HEAD_TOKENS, .labels = L},
                                     {.kind = TH_HEAD_SPANS}};
    th_tensor *const targets[] = {integers(TH_SHAPE(B), 2, L), integers(TH_SHAPE(B, T), 2, L),
                                  integers(TH_SHAPE(B, 2), 3, T)};
    th_tensor *const inputs[] = {integers(TH_SHAPE(B, T), 3, V), targets[_i]};
    th_gradient_report report;
    const th_status status = th_check_gradient(ctx, loss_of, random_model(heads[_i]), 2, inputs, NULL, &report);
    ck_assert_msg(status == TH_OK, "%s", th_gradient_failure(ctx, &report));
}
END_TEST

/* -- options -- */

START_TEST(test_options)
{
    char first[] = "gut", second[] = "schlecht \"é\"";
    const char *names[] = {first, second};
    th_language_model_options o =
        with_head((th_head_options){.kind = TH_HEAD_SEQUENCE, .labels = 2, .label_names = names});
    o.dropout = 0.25;
    th_module *model = th_language_model_new(ctx, &o);
    first[0] = second[0] = 0;
    const th_head_options *head = &th_language_model_options_of(model)->head;
    ck_assert_str_eq(head->label_names[0], "gut");
    ck_assert_str_eq(head->label_names[1], "schlecht \"é\"");
    ck_assert(head->dropout == 0.25);
    const double *bias = th_data_const(th_module_find_parameter(model, "head.output.bias"));
    ck_assert(bias[0] == 0 && bias[1] == 0);
    o = with_head((th_head_options){.kind = TH_HEAD_SPANS});
    o.dropout = 0.25;
    head = &th_language_model_options_of(th_language_model_new(ctx, &o))->head;
    ck_assert(head->labels == 2 && head->dropout == 0);
}
END_TEST

START_TEST(test_errors)
{
    const char *const same[] = {"a", "b", "a"}, *const odd[] = {"a", "\xff", "b"}, *const missing[] = {"a", NULL, "b"};
    const struct {
        th_head_options head;
        const char *words;
    } cases[] = {
        {{.kind = (th_head_kind)4}, "unknown kind of head: 4"},
        {{.kind = TH_HEAD_TOKENS}, "head.labels = 0 must be positive"},
        {{.kind = TH_HEAD_SPANS, .labels = 3}, "head.labels = 3 must be 2 or 0"},
        {{.kind = TH_HEAD_SEQUENCE, .labels = 2, .problem = (th_problem)4}, "unknown head.problem: 4"},
        {{.kind = TH_HEAD_SEQUENCE, .labels = 2, .pooling = (th_pooling_kind)6}, "unknown head.pooling: 6"},
        {{.kind = TH_HEAD_SEQUENCE, .labels = 2, .activation = (th_activation)6}, "unknown head.activation: 6"},
        {{.kind = TH_HEAD_SEQUENCE, .labels = 2, .dropout = 1}, "head.dropout"},
        {{.kind = TH_HEAD_SEQUENCE, .labels = 3, .label_names = same}, "two labels have the name \"a\""},
        {{.kind = TH_HEAD_SEQUENCE, .labels = 3, .label_names = odd}, "head.label_names[1] is not UTF-8"},
        {{.kind = TH_HEAD_SEQUENCE, .labels = 3, .label_names = missing}, "head.label_names[1] is NULL"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const th_language_model_options o = with_head(cases[i].head);
        assert_error(th_language_model_new(ctx, &o), TH_ERROR_ARGUMENT, cases[i].words);
    }
    th_language_model_options o = with_head((th_head_options){.kind = TH_HEAD_TOKENS, .labels = 2});
    o.classifier_bias = true;
    assert_error(th_language_model_new(ctx, &o), TH_ERROR_ARGUMENT, "a head replaces the classifier");
    th_module *model = random_model((th_head_options){.kind = TH_HEAD_SEQUENCE, .labels = L});
    th_tensor *tokens = integers(TH_SHAPE(B, T), 3, V);
    const th_language_model_logits_options packed = {.documents = th_zeros(ctx, TH_INT32, TH_SHAPE(T))};
    assert_error(th_language_model_logits(model, tokens, &packed), TH_ERROR_ARGUMENT,
                 ".documents and .rows must be NULL");
    th_module *headless = th_language_model_new(ctx, &encoder);
    assert_error(th_head_loss(headless, tokens, tokens, NULL), TH_ERROR_ARGUMENT, "not a language model with a head");
}
END_TEST

static th_module *make_named(th_context *fresh)
{
    static const char *const names[] = {"a", "b"};
    const th_language_model_options o =
        with_head((th_head_options){.kind = TH_HEAD_SEQUENCE, .labels = 2, .label_names = names, .transform = true});
    return th_language_model_new(fresh, &o);
}

START_TEST(test_without_memory)
{
    assert_constructor_survives(make_named);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("heads", setup, close_context);
    tcase_add_test(tests, test_sequence);
    tcase_add_test(tests, test_tokens_and_spans);
    tcase_add_test(tests, test_spans_with_padding);
    tcase_add_test(tests, test_losses);
    tcase_add_loop_test(tests, test_gradients, 0, 3);
    tcase_add_test(tests, test_options);
    tcase_add_test(tests, test_errors);
    tcase_add_test(tests, test_without_memory);
    return run_suites();
}
