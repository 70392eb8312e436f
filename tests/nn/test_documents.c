/* Documents that share a sequence: logits and gradients have the bits of separate sequences, for every kind of
 * positions, every team, precision and path of attention. Targets that do not count have a gradient of exactly 0. */
#include <math.h>
#include <string.h>

#include "tapehead/models.h"

#include "context.h"

enum { T = 150, V = 31, WIDTH = 24, MAX_DOCUMENTS = 8, HEADS = 4000 };

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.threads = 2, .seed = 3});
}

/* The lengths of the documents of each case; they fill T tokens. */
static const int lengths[][MAX_DOCUMENTS] = {{150},        {1, 149}, {149, 1}, {17, 1, 1, 64, 48, 19},
                                             {50, 49, 51}, {100, 50}};
enum { CASES = sizeof lengths / sizeof *lengths };

static th_tensor *numbers_of(const int *length)
{
    int32_t number[T];
    int at = 0;
    for (int d = 0; d < MAX_DOCUMENTS && length[d]; d++)
        for (int i = 0; i < length[d]; i++)
            number[at++] = 7 - d; /* any numbers */
    ck_assert_int_eq(at, T);
    return th_from_data(ctx, TH_INT32, TH_SHAPE(T), number);
}

static th_tensor *random_tokens(int64_t batch, int64_t count)
{
    return th_cast(th_uniform(ctx, TH_FLOAT32, TH_SHAPE(batch, count), 0, (double)V - 0.01), TH_INT32);
}

static const th_language_model_options models[] = {
    {.vocabulary = V, .length = T, .width = WIDTH, .heads = 4, .layers = 2},
    {.vocabulary = V,
     .length = T,
     .width = WIDTH,
     .heads = 4,
     .layers = 2,
     .positions = TH_POSITIONS_NONE,
     .untied = true,
     .block = {.norm = TH_RMS_NORM,
               .gated = true,
               .activation = TH_SILU,
               .no_bias = true,
               .kv_heads = 2,
               .scores = {.rotary = true, .window = 40}}},
    {.vocabulary = V,
     .length = T,
     .width = WIDTH,
     .heads = 3,
     .layers = 1,
     .positions = TH_POSITIONS_SINUSOIDAL,
     .block = {.scores = {.alibi = true, .soft_cap = 3}}},
    {.vocabulary = V,
     .length = T,
     .width = WIDTH,
     .heads = 4,
     .layers = 3,
     .positions = TH_POSITIONS_NONE,
     .embedding_norm = true,
     .bigram_rows = 100,
     .block = {.activation = TH_RELU_SQUARED,
               .value_residual = true,
               .embedding_skip = true,
               .scores = {.rotary = true, .qk_norm = true, .qk_norm_no_weight = true}}},
};

enum { MODELS = sizeof models / sizeof *models };

static void check_bytes(th_tensor *a, th_tensor *b)
{
    no_error();
    a = th_contiguous(a), b = th_contiguous(b);
    ck_assert_int_eq(th_numel(a), th_numel(b));
    ck_assert_mem_eq(th_data(a), th_data(b), (size_t)th_numel(a) * th_dtype_size(th_dtype_of(a)));
}

/* How products and attention compute. */
enum { PRECISIONS = TH_PRECISION_BFLOAT16 + 1 };
typedef struct way {
    th_precision precision;
    bool composed, weights;
} way;

START_TEST(logits_have_the_bits_of_separate_documents)
{
    th_module *model = th_language_model_new(ctx, &models[_i / (2 * PRECISIONS)]);
    th_set_training(ctx, false);
    th_set_fusion(ctx, _i % 2);
    ck_assert_int_eq(th_set_precision(ctx, (th_precision)(_i / 2 % PRECISIONS)), TH_OK);
    for (int c = 0; c < CASES; c++) {
        th_tensor *tokens = random_tokens(2, T);
        const th_language_model_logits_options packed = {.documents = numbers_of(lengths[c])};
        th_tensor *all = th_language_model_logits(model, tokens, &packed);
        for (int d = 0, at = 0; d < MAX_DOCUMENTS && lengths[c][d]; at += lengths[c][d++]) {
            th_tensor *alone = th_module_forward(model, th_contiguous(th_slice(tokens, 1, at, at + lengths[c][d], 1)));
            check_bytes(th_slice(all, 1, at, at + lengths[c][d], 1), alone);
        }
    }
}
END_TEST

enum { WAYS = 3 * PRECISIONS };

/* Returns way i: fused, composed, or with the weights requested, in each precision. */
static way way_of(int i)
{
    return (way){(th_precision)(i / 3), i % 3 == 1, i % 3 == 2};
}

/* The result of attention, and the weights if they were requested. */
typedef struct attended {
    th_tensor *y, *weights;
} attended;

/* Runs attention on q, k, v, and backward from a fixed cotangent of y, and from the weights. */
static attended attend(const way *w, th_tensor *const *qkv, th_tensor *cotangent, th_tensor *documents)
{
    attended out = {NULL, NULL};
    const th_mask mask = {.causal = TH_CAUSAL_TOP_LEFT, .window = TH_WINDOW(90, -1), .documents = documents};
    const th_attention_options options = {.mask = &mask, .weights = w->weights ? &out.weights : NULL};
    out.y = th_scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], &options);
    th_tensor *loss = th_sum(th_mul(out.y, cotangent), TH_ALL_AXES, NULL);
    if (w->weights)
        loss = th_add(loss, th_sum(th_mul(out.weights, out.weights), TH_ALL_AXES, NULL));
    const th_status status = th_backward(loss, NULL);
    no_error();
    ck_assert_int_eq(status, TH_OK);
    return out;
}

/* Compares each document of sequences (B, H, tokens, D) with the document alone. q has 4 heads, k and v have 2. */
static void check_attention(const way *w, th_tensor *documents, int64_t tokens, const int *length)
{
    ck_assert_int_eq(th_set_precision(ctx, w->precision), TH_OK);
    th_set_fusion(ctx, !w->composed);
    th_tensor *all[3], *cotangent = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 4, tokens, 8));
    for (int i = 0; i < 3; i++)
        all[i] = th_set_requires_gradient(th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, i ? 2 : 4, tokens, 8)), true);
    const attended together = attend(w, all, cotangent, documents);
    for (int d = 0, at = 0; d < MAX_DOCUMENTS && length[d]; at += length[d++]) {
        const int past = at + length[d];
        th_tensor *part[3];
        for (int i = 0; i < 3; i++)
            part[i] = th_set_requires_gradient(th_keep(th_slice(th_detach(all[i]), 2, at, past, 1)), true);
        const attended alone = attend(w, part, th_slice(cotangent, 2, at, past, 1), NULL);
        check_bytes(th_slice(together.y, 2, at, past, 1), alone.y);
        if (w->weights)
            check_bytes(th_slice(th_slice(together.weights, 2, at, past, 1), 3, at, past, 1), alone.weights);
        for (int i = 0; i < 3; i++)
            check_bytes(th_slice(th_gradient(all[i]), 2, at, past, 1), th_gradient(part[i]));
    }
}

START_TEST(gradients_have_the_bits_of_separate_documents)
{
    const int *length = lengths[_i / WAYS];
    const way w = way_of(_i % WAYS);
    check_attention(&w, numbers_of(length), T, length);
}
END_TEST

/* Float32 products divide their sums at multiples of 512 steps, so only a long sequence shows where they count from. */
START_TEST(documents_of_a_long_sequence)
{
    enum { FIRST = 20, LONG = 600 };
    int32_t number[LONG];
    for (int t = 0; t < LONG; t++)
        number[t] = t < FIRST;
    const way w = way_of(_i);
    check_attention(&w, th_from_data(ctx, TH_INT32, TH_SHAPE(LONG), number), LONG,
                    (const int[MAX_DOCUMENTS]){FIRST, LONG - FIRST});
}
END_TEST

/* Returns the peak of a step of composed attention whose documents have up to `longest` tokens. */
static size_t peak_of_documents(bool shapes_only, int longest)
{
    int32_t number[T];
    for (int t = 0; t < T; t++)
        number[t] = t / longest;
    th_context *own = th_context_new(&(th_context_options){.threads = 3, .shapes_only = shapes_only});
    th_set_fusion(own, false);
    ck_assert_int_eq(th_set_precision(own, TH_PRECISION_BFLOAT16X3), TH_OK);
    const th_mask mask = {.documents = th_from_data(own, TH_INT32, TH_SHAPE(T), number)};
    th_tensor *x = th_set_requires_gradient(th_zeros(own, TH_FLOAT32, TH_SHAPE(2, T, 40)), true);
    th_tensor *y = th_scaled_dot_product_attention(x, x, x, &(th_attention_options){.mask = &mask});
    ck_assert_int_eq(th_backward(th_sum(y, TH_ALL_AXES, NULL), NULL), TH_OK);
    const size_t peak = th_memory(own).peak;
    th_context_free(own);
    return peak;
}

/* The memory does not depend on the documents, which a context with shapes_only does not have. */
START_TEST(a_forecast_counts_documents)
{
    const size_t forecast = peak_of_documents(true, 1);
    for (int longest = 3; longest < T; longest += 20)
        ck_assert_uint_eq(peak_of_documents(false, longest), forecast);
}
END_TEST

/* Non-finite numbers of a document reach no other document. */
START_TEST(infinity_stays_in_its_document)
{
    const int *length = lengths[4];
    th_set_fusion(ctx, false);
    for (int document = 0; document < 3; document++) {
        th_tensor *qkv[3], *y[2];
        for (int i = 0; i < 3; i++)
            qkv[i] = th_randn(ctx, TH_FLOAT32, TH_SHAPE(1, 1, T, 8));
        const th_mask mask = {.documents = numbers_of(length)};
        for (int i = 0; i < 2; i++) {
            y[i] = th_scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], &(th_attention_options){.mask = &mask});
            ck_assert_int_eq(th_set(qkv[2], TH_INDEX(0, 0, document * 50 + 20, 0), INFINITY), TH_OK);
        }
        for (int t = 0; t < T; t++) {
            const double before = th_get(y[0], TH_INDEX(0, 0, t, 0)), after = th_get(y[1], TH_INDEX(0, 0, t, 0));
            const bool same = t < 50 ? document == 0 : t < 99 ? document == 1 : document == 2;
            ck_assert(same ? isinf(after) : before == after);
        }
    }
}
END_TEST

START_TEST(each_example_has_its_own_documents)
{
    int64_t number[2][T];
    th_module *model = th_language_model_new(ctx, &models[1]);
    th_tensor *tokens = random_tokens(2, T);
    for (int t = 0; t < T; t++) {
        number[0][t] = t / 40;
        number[1][t] = t / 7 % 2; /* equal numbers that are apart are different documents */
    }
    th_set_training(ctx, false);
    const th_language_model_logits_options packed = {.documents = th_from_data(ctx, TH_INT64, TH_SHAPE(2, T), number)};
    th_tensor *all = th_language_model_logits(model, tokens, &packed);
    for (int b = 0; b < 2; b++)
        for (int at = 0, size = b ? 7 : 40; at < T; at += size) {
            const int past = at + size < T ? at + size : T;
            th_tensor *row = th_slice(th_slice(tokens, 0, b, b + 1, 1), 1, at, past, 1);
            check_bytes(th_slice(th_slice(all, 0, b, b + 1, 1), 1, at, past, 1),
                        th_module_forward(model, th_contiguous(row)));
        }
}
END_TEST

START_TEST(fused_and_composed_losses_agree)
{
    th_module *model = th_language_model_new(ctx, &models[1]);
    th_tensor *tokens = random_tokens(1, T), *targets = random_tokens(1, T), *documents = numbers_of(lengths[3]);
    const double fused = th_item(th_language_model_packed_loss(model, tokens, targets, documents, NULL));
    th_set_fusion(ctx, false);
    const double composed = th_item(th_language_model_packed_loss(model, tokens, targets, documents, NULL));
    th_set_fusion(ctx, true);
    const double joined = th_item(th_language_model_loss(model, tokens, targets, NULL));
    no_error();
    ck_assert_double_eq_tol(fused, composed, 1e-5);
    ck_assert_double_ne(fused, joined);
}
END_TEST

/* Tokens from 20 on occur only after the last target that counts: their embeddings must not get any gradient. Nor may
 * the rows of a given target. */
START_TEST(given_tokens_have_a_gradient_of_zero)
{
    enum { COUNTED = 60, FROM = 20 };
    int32_t token[T], target[T];
    for (int t = 0; t < T; t++) {
        token[t] = t < COUNTED ? t % FROM : FROM + t % (V - FROM);
        target[t] = t < COUNTED && t % 3 == 0 ? (t + 1) % FROM : TH_NO_TARGET;
    }
    th_module *model = th_language_model_new(ctx, &models[1]);
    th_tensor *tokens = th_from_data(ctx, TH_INT32, TH_SHAPE(1, T), token);
    th_tensor *targets = th_from_data(ctx, TH_INT32, TH_SHAPE(1, T), target);
    const th_cross_entropy_options ignore = {TH_IGNORE(TH_NO_TARGET)};
    ck_assert_int_eq(
        th_backward(th_language_model_packed_loss(model, tokens, targets, numbers_of(lengths[5]), &ignore), NULL),
        TH_OK);
    th_tensor *gradient = th_gradient(th_module_find_parameter(model, "embedding.weight"));
    int counted = 0;
    for (int64_t v = 0; v < V; v++)
        for (int64_t e = 0; e < WIDTH; e++) {
            const double g = th_get(gradient, TH_INDEX(v, e));
            ck_assert(v < FROM || g == 0);
            counted += g != 0;
        }
    ck_assert_int_gt(counted, FROM * WIDTH / 2);
    th_tensor *logits = th_set_requires_gradient(th_randn(ctx, TH_FLOAT32, TH_SHAPE(1, T, V)), true);
    ck_assert_int_eq(th_backward(th_cross_entropy(logits, targets, &ignore), NULL), TH_OK);
    for (int64_t t = 0; t < T; t++)
        for (int64_t v = 0; v < V; v++)
            ck_assert((th_get(th_gradient(logits), TH_INDEX(0, t, v)) == 0) == (target[t] == TH_NO_TARGET));
}
END_TEST

START_TEST(wrong_masks)
{
    th_tensor *q = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 4, 5, 3)),
              *k = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 4, 6, 3));
    th_tensor *number = th_zeros(ctx, TH_INT32, TH_SHAPE(5)), *each = th_zeros(ctx, TH_INT32, TH_SHAPE(4, 5));
    th_tensor *real = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(5)), *heads = th_randn(ctx, TH_FLOAT32, TH_SHAPE(4, 5, 3));
    th_tensor *pair = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 5, 3));
    const th_mask two = {.documents = number, .valid_lengths = th_zeros(ctx, TH_INT32, TH_SHAPE(2))};
    const th_mask placed = {.documents = number, .positions = number}, usual = {.documents = number};
    const th_mask of_reals = {.documents = real}, of_each = {.documents = each};
    const th_mask kept = {.documents = number, .keep = th_zeros(ctx, TH_BOOL, TH_SHAPE(5, 5))};
#define ATTEND(q, k, m) th_scaled_dot_product_attention(q, k, k, &(th_attention_options){.mask = &(m)})
    assert_error(ATTEND(q, q, two), TH_ERROR_ARGUMENT, "the mask has documents and valid_lengths");
    assert_error(ATTEND(q, q, placed), TH_ERROR_ARGUMENT, "the mask has documents and positions");
    assert_error(ATTEND(q, q, kept), TH_ERROR_ARGUMENT, "the mask has documents and keep");
    assert_error(ATTEND(q, k, usual), TH_ERROR_SHAPE, "as many keys as queries");
    assert_error(ATTEND(q, q, of_reals), TH_ERROR_TYPE, "documents is float32");
    assert_error(ATTEND(q, q, of_each), TH_ERROR_SHAPE, "documents of shape (T) or (B, T)");
    assert_error(ATTEND(heads, pair, of_each), TH_ERROR_SHAPE, "with grouped heads takes documents (T)");
    assert_error(th_language_model_packed_loss(th_language_model_new(ctx, &models[0]), each, each, NULL, NULL),
                 TH_ERROR_ARGUMENT, "documents is NULL");
}
END_TEST

START_TEST(explanations)
{
    char text[200];
    const th_mask mask = {.causal = TH_CAUSAL_TOP_LEFT, .documents = numbers_of(lengths[4])};
    const th_shape scores = TH_SHAPE(1, T, T);
    ck_assert_int_eq(th_mask_explain(ctx, &mask, scores, TH_SHAPE(0, 60, 55), text, sizeof text), TH_OK);
    ck_assert_str_eq(text, "query 60 sees key 55: no rule masks it");
    ck_assert_int_eq(th_mask_explain(ctx, &mask, scores, TH_SHAPE(0, 60, 49), text, sizeof text), TH_OK);
    ck_assert_str_eq(text, "key 49 is outside the query's document, which has keys 50 to 98");
    th_tensor *keep = th_mask_keep(ctx, &mask, scores);
    int visible = 0;
    for (int64_t t = 0; t < T; t++)
        for (int64_t s = 0; s < T; s++)
            visible += th_get(keep, TH_INDEX(0, t, s)) != 0;
    ck_assert_int_eq(visible, 50 * 51 / 2 + 49 * 50 / 2 + 51 * 52 / 2);
}
END_TEST

static th_tensor *first_argument(th_module *m, th_tensor *x)
{
    (void)m;
    return x;
}

/* A replaced forward does not get the mask, so documents are an error even without causal order. */
START_TEST(a_replaced_forward_does_not_ignore_documents)
{
    const th_mask mask = {.documents = th_zeros(ctx, TH_INT32, TH_SHAPE(5))};
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 5, 4));
    th_module *attention = th_multi_head_attention_new(ctx, 4, 2, NULL);
    th_module *block = th_transformer_block_new(ctx, 4, 2, NULL);
    attention->forward = block->forward = first_argument;
    assert_error(th_attend(attention, x, x, x, &(th_attend_options){.mask = &mask}), TH_ERROR_ARGUMENT,
                 "would not get the mask");
    assert_error(th_transform(block, x, &(th_transform_options){.mask = &mask}), TH_ERROR_ARGUMENT,
                 "would not get the mask");
}
END_TEST

/* Without examples the gradient of slopes is 0, not the memory's former content. */
START_TEST(an_empty_batch_has_a_gradient_of_zero)
{
    for (int shared = 0; shared < 2; shared++) {
        th_tensor *number = th_zeros(ctx, TH_INT32, shared ? TH_SHAPE(5) : TH_SHAPE(0, 5));
        const th_mask mask = {.causal = TH_CAUSAL_TOP_LEFT, .documents = number};
        th_tensor *q = th_set_requires_gradient(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(0, HEADS, 5, 3)), true);
        th_tensor *slopes = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(HEADS)), true);
        th_tensor *gradient = th_full(ctx, TH_FLOAT32, TH_SHAPE(HEADS), NAN);
        th_tensor_free(gradient); /* the next tensor of this size may get this memory */
        th_tensor *y =
            th_scaled_dot_product_attention(q, q, q, &(th_attention_options){.mask = &mask, .alibi = slopes});
        ck_assert_int_eq(th_backward(th_sum(y, TH_ALL_AXES, NULL), NULL), TH_OK);
        for (int64_t h = 0; h < HEADS; h++)
            ck_assert_double_eq(th_get(th_gradient(slopes), TH_INDEX(h)), 0);
    }
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("documents", setup, close_context);
    tcase_add_loop_test(tests, logits_have_the_bits_of_separate_documents, 0, MODELS * 2 * PRECISIONS);
    tcase_add_loop_test(tests, gradients_have_the_bits_of_separate_documents, 0, CASES * WAYS);
    tcase_add_loop_test(tests, documents_of_a_long_sequence, 0, WAYS);
    tcase_add_test(tests, a_forecast_counts_documents);
    tcase_add_test(tests, infinity_stays_in_its_document);
    tcase_add_test(tests, each_example_has_its_own_documents);
    tcase_add_test(tests, fused_and_composed_losses_agree);
    tcase_add_test(tests, given_tokens_have_a_gradient_of_zero);
    tcase_add_test(tests, wrong_masks);
    tcase_add_test(tests, explanations);
    tcase_add_test(tests, a_replaced_forward_does_not_ignore_documents);
    tcase_add_test(tests, an_empty_batch_has_a_gradient_of_zero);
    return run_suites();
}
