/* T5's bias of the scores: buckets, gradients, documents, errors. */
#include <math.h>
#include <string.h>

#include "nn/relative_bias.h"
#include "tapehead/check.h"

#include "models.h"

enum { V = 11, E = 8, H = 2, LENGTH = 160 };

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 5, .threads = 2, .default_dtype = TH_FLOAT64});
    ck_assert_ptr_nonnull(ctx);
}

static const th_language_model_options mpnet = {
    .vocabulary = V,
    .length = LENGTH,
    .width = E,
    .heads = H,
    .layers = 2,
    .bidirectional = true,
    .input_norm = true,
    .no_classifier = true,
    .relative_buckets = 8,
    .relative_distance = 20,
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

static th_tensor *random_tokens(int64_t batch, int64_t length)
{
    return th_cast(th_uniform(ctx, TH_FLOAT64, TH_SHAPE(batch, length), 0, V - 0.01), TH_INT32);
}

static th_tensor *bias_table(th_module *model)
{
    return th_module_find_parameter(model, "relative_bias");
}

/* The first distance of each bucket of 32, in transformers 5. */
static const int first_of_one_side[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91},
                 first_of_all[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                   16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113};

START_TEST(buckets_are_those_of_transformers)
{
    const bool bidirectional = _i == 1;
    const int *first = bidirectional ? first_of_one_side : first_of_all, count = bidirectional ? 16 : 32;
    th_tensor *table = th_zeros(ctx, TH_FLOAT64, TH_SHAPE(32, H));
    for (int row = 0; row < 32; row++)
        for (int h = 0; h < H; h++)
            ck_assert_int_eq(th_set(table, TH_INDEX(row, h), row + 100 * h), TH_OK);
    th_tensor *bias = th_relative_bias(ctx, table, &(th_relative_buckets){32, 128, bidirectional}, LENGTH);
    no_error();
    assert_shape(bias, TH_SHAPE(H, LENGTH, LENGTH));
    for (int query = 0; query < LENGTH; query += 53)
        for (int key = 0; key < LENGTH; key++) {
            const int distance = bidirectional ? abs(key - query) : query > key ? query - key : 0;
            int bucket = count - 1;
            while (first[bucket] > distance)
                bucket--;
            bucket += bidirectional && key > query ? count : 0;
            for (int h = 0; h < H; h++)
                ck_assert_double_eq(th_get(bias, TH_INDEX(h, query, key)), bucket + 100 * h);
        }
}
END_TEST

/* All layers add the same biases. */
START_TEST(layers_add_the_biases)
{
    th_language_model_options o = mpnet;
    o.bidirectional = _i == 1;
    th_module *model = random_model(&o);
    th_tensor *tokens = random_tokens(2, 30);
    th_tensor *x = th_add(th_embedding(th_module_find_parameter(model, "embedding.weight"), tokens),
                          th_slice(th_module_find_parameter(model, "position.weight"), 0, 0, 30, 1));
    x = th_module_forward(th_module_find(model, "input_norm"), x);
    const th_mask mask = {
        .causal = o.bidirectional ? TH_CAUSAL_NONE : TH_CAUSAL_TOP_LEFT,
        .additive = th_relative_bias(ctx, bias_table(model), &(th_relative_buckets){8, 20, o.bidirectional}, 30)};
    for (th_module *block = th_module_find(model, "layers.0"); block; block = block->next)
        x = th_transform(block, x, &(th_transform_options){.mask = &mask});
    th_tensor *y = th_module_forward(model, tokens);
    no_error();
    ck_assert_mem_eq(th_data_const(x), th_data_const(y), sizeof(double) * 2 * 30 * E);
}
END_TEST

static th_tensor *run_model(void *model, th_tensor *weight)
{
    (void)weight;
    static const int32_t numbers[24] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2};
    th_tensor *tokens = th_zeros(ctx, TH_INT32, TH_SHAPE(2, 24));
    for (int i = 0; i < 48; i++)
        ((int32_t *)th_data(tokens))[i] = i * i % V;
    const th_language_model_logits_options given = {.documents = th_from_data(ctx, TH_INT32, TH_SHAPE(24), numbers)};
    return th_language_model_hidden_states(model, tokens, &given);
}

/* Also if backward runs the blocks again, and without fusion. */
START_TEST(gradients_of_the_biases)
{
    th_language_model_options o = mpnet;
    o.block.recompute = _i == 1;
    th_set_fusion(ctx, _i != 2);
    th_module *model = random_model(&o);
    ck_assert_gradient(run_model, model, bias_table(model));
}
END_TEST

/* Compares tokens from .. past - 1 of text b in x with the same tokens alone. */
static void check_part(th_module *model, th_tensor *tokens, th_tensor *x, int64_t b, int64_t from, int64_t past)
{
    th_tensor *own = th_slice(th_slice(tokens, 0, b, b + 1, 1), 1, from, past, 1);
    th_tensor *alone = th_contiguous(th_module_forward(model, th_contiguous(own)));
    th_tensor *together = th_contiguous(th_slice(th_slice(x, 0, b, b + 1, 1), 1, from, past, 1));
    no_error();
    ck_assert_mem_eq(th_data_const(together), th_data_const(alone), (size_t)((past - from) * E) * sizeof(double));
}

/* Texts that share a row, and documents, have the bits that they have alone, fused and composed. */
START_TEST(texts_share_rows)
{
    enum { TEXTS = 5, LONGEST = 40 };
    static const int32_t lengths[TEXTS] = {2, 40, 1, 33, 7};
    th_set_fusion(ctx, _i == 0);
    th_module *model = random_model(&mpnet);
    th_tensor *tokens = random_tokens(TEXTS, LONGEST);
    const th_language_model_logits_options padded = {.lengths = th_from_data(ctx, TH_INT32, TH_SHAPE(TEXTS), lengths)};
    th_tensor *x = th_language_model_hidden_states(model, tokens, &padded);
    for (int64_t b = 0; b < TEXTS; b++)
        check_part(model, tokens, x, b, 0, lengths[b]);
    int32_t numbers[LONGEST];
    for (int t = 0; t < LONGEST; t++)
        numbers[t] = t < 3 || t >= 25;
    const th_language_model_logits_options given = {.documents =
                                                        th_from_data(ctx, TH_INT32, TH_SHAPE(LONGEST), numbers)};
    x = th_language_model_hidden_states(model, tokens, &given);
    for (int64_t b = 0; b < TEXTS; b++) {
        check_part(model, tokens, x, b, 0, 3);
        check_part(model, tokens, x, b, 3, 25);
        check_part(model, tokens, x, b, 25, LONGEST);
    }
}
END_TEST

START_TEST(errors)
{
    const struct {
        int64_t buckets, distance;
        bool bidirectional;
        const char *message;
    } wrong[] = {{-2, 0, true, "relative_buckets = -2 must be 0 for none"},
                 {1, 0, false, "relative_buckets = 1 must be 0 for none, or at least 2"},
                 {2, 0, true, "relative_buckets = 2 must be 0 for none, or at least 4"},
                 {7, 0, true, "relative_buckets = 7 must be 0 for none, or at least 4, and even"},
                 {8, 2, true, "relative_distance = 2 must be more than 2"},
                 {8, -1, false, "relative_distance = -1 must be more than 4"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        th_language_model_options o = mpnet;
        o.relative_buckets = wrong[i].buckets;
        o.relative_distance = wrong[i].distance;
        o.bidirectional = wrong[i].bidirectional;
        assert_error(th_language_model_new(ctx, &o), TH_ERROR_ARGUMENT, wrong[i].message);
    }
    th_language_model_options o = mpnet;
    o.relative_distance = 0;
    ck_assert_int_eq(th_language_model_options_of(random_model(&o))->relative_distance, 128);
    o.bidirectional = false;
    th_module *model = random_model(&o);
    const th_language_model_logits_options cached = {.cache = th_cache_new(model, 1, LENGTH)};
    no_error();
    assert_error(th_language_model_hidden_states(model, random_tokens(1, 3), &cached), TH_ERROR_ARGUMENT,
                 "a model with .relative_buckets has no cache");
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("relative bias", setup, close_context);
    tcase_add_loop_test(tests, buckets_are_those_of_transformers, 0, 2);
    tcase_add_loop_test(tests, layers_add_the_biases, 0, 2);
    tcase_add_loop_test(tests, gradients_of_the_biases, 0, 3);
    tcase_add_loop_test(tests, texts_share_rows, 0, 2);
    tcase_add_test(tests, errors);
    return run_suites();
}
