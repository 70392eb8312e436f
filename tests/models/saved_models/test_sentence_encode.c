/* Embeddings for serving: th_sentence_encode, its bits, its memory, and several contexts in threads. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tapehead/models.h"

#include "context.h"

#define FOLDER FIXTURES "/sentence_embeddings"
enum { WIDTH = 64, LENGTH = 100, TEXTS = 70, MOST_BYTES = 1024 };

static th_module *model;
static th_tokenizer *tokenizer;
static char text_bytes[TEXTS][MOST_BYTES];
static const char *texts[TEXTS];

/* A model of random weights that can be stored in blocks of 32, and texts of 2 to more than LENGTH tokens. */
static void setup(void)
{
    static const char *const words[] = {"the ", "tape ", "records ", "each ", "call ", "loss "};
    ctx = th_context_new(&(th_context_options){.seed = 3});
    ck_assert_ptr_nonnull(ctx);
    tokenizer = th_tokenizer_load(ctx, FOLDER);
    model =
        th_language_model_new(ctx, &(th_language_model_options){.vocabulary = th_tokenizer_size(tokenizer),
                                                                .length = LENGTH,
                                                                .width = WIDTH,
                                                                .heads = 4,
                                                                .layers = 2,
                                                                .bidirectional = true,
                                                                .no_classifier = true,
                                                                .input_norm = true,
                                                                .dropout = 0.5,
                                                                .initialization = {.deviation = 0.2},
                                                                .block = {.post_norm = true, .activation = TH_GELU}});
    no_error();
    for (int i = 0; i < TEXTS; i++) {
        text_bytes[i][0] = 0;
        for (int k = 0; k < 53 * i % 121; k++)
            strcat(text_bytes[i], words[(i + k * k) % 6]);
        texts[i] = text_bytes[i];
    }
}

static const th_sentence_options mean = {.pooling = TH_POOL_MEAN, .normalize = true};

static const struct {
    th_dtype stored;
    th_precision precision;
} numbers[] = {{TH_FLOAT32, TH_PRECISION_FLOAT32},    {TH_FLOAT32, TH_PRECISION_BFLOAT16},
               {TH_FLOAT32, TH_PRECISION_BFLOAT16X3}, {TH_BFLOAT16, TH_PRECISION_BFLOAT16},
               {TH_FLOAT16, TH_PRECISION_FLOAT32},    {TH_Q8_0, TH_PRECISION_FLOAT32},
               {TH_Q8_0, TH_PRECISION_INT8},          {TH_Q4_0, TH_PRECISION_INT8}};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static void use_numbers(int i)
{
    if (numbers[i].stored != TH_FLOAT32) {
        ck_assert_int_eq(th_module_freeze(model, true), TH_OK);
        ck_assert_int_eq(th_module_store(model, numbers[i].stored), TH_OK);
    }
    ck_assert_int_eq(th_set_precision(ctx, numbers[i].precision), TH_OK);
}

/* Writes the embeddings of th_sentence_embeddings, each text alone. */
static void embed_alone(const char *const *text, int n, const th_sentence_options *options, float *embeddings)
{
    th_set_training(ctx, false);
    for (int i = 0; i < n; i++) {
        th_tensor *x = th_sentence_embeddings(model, tokenizer, text + i, 1, options);
        no_error();
        memcpy(embeddings + i * th_size(x, 1), th_data_const(x), (size_t)th_size(x, 1) * sizeof *embeddings);
        th_tape_clear(ctx);
    }
    th_set_training(ctx, true);
}

/* _i: which numbers. The context stays in training, but the embeddings have no dropout. */
START_TEST(test_same_bits_in_any_call)
{
    static float alone[TEXTS][WIDTH], together[TEXTS][WIDTH];
    use_numbers(_i);
    embed_alone(texts, TEXTS, &mean, alone[0]);
    for (int n = 1; n <= TEXTS; n += 23)
        for (int begin = 0; begin + n <= TEXTS; begin += 23) {
            memset(together, 0xff, sizeof together);
            const th_status status = th_sentence_encode(model, tokenizer, texts + begin, n, &mean, together[0]);
            no_error();
            ck_assert_int_eq(status, TH_OK);
            for (int i = 0; i < n; i++)
                ck_assert_msg(memcmp(together[i], alone[begin + i], sizeof *alone) == 0, "%d texts from %d: text %d", n,
                              begin, i);
            ck_assert(n == TEXTS || together[n][0] != together[n][0]);
        }
    ck_assert(th_is_training(ctx) && th_is_recording(ctx));
}
END_TEST

START_TEST(test_options)
{
    static float alone[TEXTS][WIDTH], together[TEXTS][WIDTH];
    th_sentence_options options = {.prompt = "the call ", .pooling = TH_POOL_MAX, .length = 9, .dense_tanh = true};
    options.dense = th_dense_new(ctx, WIDTH, 10, NULL);
    ck_assert_int_eq(th_sentence_dimension(model, NULL), WIDTH);
    ck_assert_int_eq(th_sentence_dimension(model, &mean), WIDTH);
    ck_assert_int_eq(th_sentence_dimension(model, &options), 10);
    options.dimensions = 7;
    ck_assert_int_eq(th_sentence_dimension(model, &options), 7);
    ck_assert_int_eq(th_sentence_dimension(options.dense, NULL), 0);
    embed_alone(texts, TEXTS, &options, alone[0]);
    const th_status status = th_sentence_encode(model, tokenizer, texts, TEXTS, &options, together[0]);
    no_error();
    ck_assert_int_eq(status, TH_OK);
    ck_assert_int_eq(memcmp(alone, together, 7 * TEXTS * sizeof(float)), 0);
}
END_TEST

/* Calls leave nothing in the context, and the same calls again need no more memory. */
START_TEST(test_memory)
{
    static float embeddings[TEXTS][WIDTH];
    th_tensor *x = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(3)), true);
    th_tensor *loss = th_sum(th_mul(x, x), TH_ALL_AXES, NULL);
    th_memory_usage before = {0};
    for (int i = 0; i < 100; i++) {
        before = i == 50 ? th_memory(ctx) : before;
        const int from = i % 50;
        ck_assert_int_eq(th_sentence_encode(model, tokenizer, texts + from, TEXTS - from, &mean, embeddings[0]), TH_OK);
    }
    const th_memory_usage after = th_memory(ctx);
    ck_assert_uint_eq(before.live, after.live);
    ck_assert_uint_eq(before.reserved, after.reserved);
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    ck_assert_float_eq(*(const float *)th_data_const(th_gradient(x)), 2);
    th_tensor_free(x);
}
END_TEST

START_TEST(test_errors)
{
    static float embeddings[TEXTS][WIDTH];
    ck_assert_int_eq(th_sentence_encode(model, tokenizer, texts, 1, NULL, embeddings[0]), TH_OK);
    const th_memory_usage before = th_memory(ctx);
    ck_assert_int_eq(th_sentence_encode(model, tokenizer, NULL, 0, &mean, NULL), TH_OK);
    const char *const missing[] = {"tape", NULL};
    expect_status(th_sentence_encode(model, tokenizer, missing, 2, &mean, embeddings[0]), TH_ERROR_ARGUMENT,
                  "texts[1] is NULL");
    expect_status(th_sentence_encode(model, tokenizer, texts, 1, &mean, NULL), TH_ERROR_ARGUMENT, "embeddings is NULL");
    expect_status(th_sentence_encode(model, tokenizer, NULL, 1, &mean, embeddings[0]), TH_ERROR_ARGUMENT, "texts");
    expect_status(th_sentence_encode(model, tokenizer, texts, -1, &mean, embeddings[0]), TH_ERROR_ARGUMENT, "texts");
    expect_status(th_sentence_encode(model, tokenizer, texts, INT64_MAX, &mean, embeddings[0]), TH_ERROR_MEMORY,
                  "memory");
    const th_sentence_options wide = {.dimensions = WIDTH + 1};
    expect_status(th_sentence_encode(model, tokenizer, texts, TEXTS, &wide, embeddings[0]), TH_ERROR_ARGUMENT,
                  "must be in [1, 64]");
    expect_status(th_sentence_encode(model, NULL, texts, 1, NULL, embeddings[0]), TH_ERROR_ARGUMENT, "NULL");
    expect_status(th_sentence_encode(NULL, tokenizer, texts, 1, NULL, embeddings[0]), TH_ERROR_ARGUMENT, "NULL");
    ck_assert(th_is_training(ctx) && th_is_recording(ctx));
    ck_assert_uint_eq(th_memory(ctx).live, before.live);
}
END_TEST

/* -- threads: each has a context, all map the same file -- */

enum { SERVERS = 3, ROUNDS = 5 };

typedef struct server {
    float embeddings[TEXTS][8];
    th_status status;
} server;

static void *serve(void *shared)
{
    server *s = shared;
    th_context *own = th_context_new(&(th_context_options){.threads = 2});
    th_sentence_options options;
    s->status = th_sentence_options_read(own, FOLDER, &options);
    th_module *mapped = th_language_model_from_folder(own, FOLDER, &(th_folder_load_options){.frozen = true});
    th_tokenizer *own_tokenizer = th_tokenizer_load(own, FOLDER);
    for (int i = 0; i < ROUNDS && s->status == TH_OK; i++)
        s->status = th_sentence_encode(mapped, own_tokenizer, texts, TEXTS, &options, s->embeddings[0]);
    if (th_memory(own).mapped == 0)
        s->status = TH_ERROR_STATE;
    th_context_free(own);
    return NULL;
}

START_TEST(test_threads)
{
    static server servers[SERVERS + 1];
    pthread_t threads[SERVERS];
    for (int i = 0; i < SERVERS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, serve, &servers[i]), 0);
    for (int i = 0; i < SERVERS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    serve(&servers[SERVERS]);
    for (int i = 0; i <= SERVERS; i++) {
        ck_assert_int_eq(servers[i].status, TH_OK);
        ck_assert_int_eq(memcmp(servers[i].embeddings, servers[0].embeddings, sizeof servers[0].embeddings), 0);
    }
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("sentence encode", setup, close_context);
    tcase_add_loop_test(tests, test_same_bits_in_any_call, 0, NUMBERS);
    tcase_add_test(tests, test_options);
    tcase_add_test(tests, test_memory);
    tcase_add_test(tests, test_errors);
    tcase_add_test(tests, test_threads);
    return run_suites();
}
