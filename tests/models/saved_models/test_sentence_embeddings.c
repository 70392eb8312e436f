/* Sentence embeddings: a folder that sentence-transformers wrote, with its embeddings; settings that are refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tapehead/models.h"

#include "context.h"
#include "folder.h"

#define FOLDER FIXTURES "/sentence_embeddings"
enum { TEXTS = 6 };

static void setup(void)
{
    ctx = th_context_new(NULL);
    ck_assert_ptr_nonnull(ctx);
    make_folder();
}

static void teardown(void)
{
    remove_folder();
    close_context();
}

/* Splits the lines of the fixture's texts in place. */
static void read_texts(char *all, const char *texts[TEXTS])
{
    for (int i = 0; i < TEXTS; i++) {
        texts[i] = all;
        all += strcspn(all, "\n");
        *all++ = 0;
    }
}

START_TEST(test_as_sentence_transformers)
{
    size_t bytes;
    const char *texts[TEXTS];
    char *all = read_bytes(FOLDER "/texts", &bytes);
    read_texts(all, texts);
    th_sentence_options options;
    ck_assert_int_eq(th_sentence_options_read(ctx, FOLDER, &options), TH_OK);
    ck_assert(options.pooling == TH_POOL_MEAN && options.normalize && options.length == 0);
    th_module *model = th_language_model_from_pretrained(ctx, FOLDER);
    th_tokenizer *tokenizer = th_tokenizer_load(ctx, FOLDER);
    th_set_training(ctx, false);
    th_tensor *ours = th_sentence_embeddings(model, tokenizer, texts, TEXTS, &options);
    no_error();
    th_safetensors *file = th_safetensors_open(ctx, FOLDER "/expected.safetensors");
    th_tensor *theirs = th_safetensors_read(file, "embeddings");
    no_error();
    ck_assert_int_eq(th_numel(ours), th_numel(theirs));
    const float *a = th_data_const(ours), *b = th_data_const(theirs);
    for (int64_t i = 0; i < th_numel(ours); i++)
        ck_assert_msg(fabs((double)a[i] - (double)b[i]) < 1e-5, "%g, not %g", (double)a[i], (double)b[i]);
    ck_assert_int_eq(th_backward(th_sum(ours, TH_ALL_AXES, NULL), NULL), TH_OK);
    /* a long text keeps its last token, so one more word behind the limit changes nothing */
    const char *longer[] = {"the tape records each call and backward computes gradients of a loss",
                            "the tape records each call and backward computes gradients of a loss in"};
    options.length = 4;
    ours = th_sentence_embeddings(model, tokenizer, longer, 2, &options);
    no_error();
    a = th_data_const(ours);
    ck_assert_int_eq(memcmp(a, a + th_size(ours, 1), (size_t)th_size(ours, 1) * sizeof *a), 0);
    assert_error(th_sentence_embeddings(model, tokenizer, (const char *const[]){NULL}, 1, &options), TH_ERROR_ARGUMENT,
                 "texts[0] is NULL");
    assert_error(th_sentence_embeddings(model, tokenizer, texts, 0, &options), TH_ERROR_ARGUMENT, "at least one text");
    th_safetensors_close(file);
    free(all);
}
END_TEST

static void write_text(const char *name, const char *text)
{
    write_bytes(in_folder(name), text, strlen(text));
}

#define MODULE(type, path) "{\"type\": \"x." type "\", \"path\": \"" path "\"}"
#define MODULES "[" MODULE("Transformer", "") ", " MODULE("Pooling", "1_Pooling") "]"

START_TEST(test_options)
{
    th_sentence_options options;
    ck_assert_int_eq(mkdir(in_folder("1_Pooling"), 0700), 0);
    write_text("modules.json", MODULES);
    write_text("1_Pooling/config.json", "{\"pooling_mode_cls_token\": false, \"pooling_mode_max_tokens\": true}");
    write_text("sentence_bert_config.json", "{\"max_seq_length\": 256, \"do_lower_case\": false}");
    ck_assert_int_eq(th_sentence_options_read(ctx, folder, &options), TH_OK);
    ck_assert(options.pooling == TH_POOL_MAX && !options.normalize && options.length == 256);
    /* bge-small-en-v1.5's folder demands lower case, which its tokenizer has */
    write_text("vocab.txt", "[UNK]\na\n");
    write_text("sentence_bert_config.json", "{\"max_seq_length\": 512, \"do_lower_case\": true}");
    ck_assert_int_eq(th_sentence_options_read(ctx, folder, &options), TH_OK);
    ck_assert_int_eq(options.length, 512);
    write_text("tokenizer_config.json", "{\"do_lower_case\": false}");
    expect_status(th_sentence_options_read(ctx, folder, &options), TH_ERROR_FILE,
                  "the tokenizer keeps capital letters");
}
END_TEST

#define DENSE_MODULES                                                                                                  \
    "[" MODULE("Transformer", "") ", " MODULE("Pooling", "1_Pooling") ", " MODULE("Dense", "2_Dense") "]"

START_TEST(test_refused)
{
    static const struct {
        const char *file, *text, *words;
    } cases[] = {
        {"modules.json", "[" MODULE("Transformer", "") "]", "it has no Pooling"},
        {"modules.json", "[" MODULE("Transformer", "0") "]", "x.Transformer"},
        {"modules.json", "[" MODULE("Transformer", "") ", " MODULE("Dense", "2_Dense") "]", "the module \"x.Dense\""},
        {"modules.json", DENSE_MODULES, "\"x.nn.ReLU\" is not supported; Tanh and Identity are"},
        {"config_sentence_transformers.json", "{\"default_prompt_name\": \"a\", \"prompts\": {}}", "no prompt \"a\""},
        {"modules.json", "[" MODULE("Transformer", "") ", " MODULE("Pooling", "../a") "]", "leaves the folder"},
        {"1_Pooling/config.json", "{}", "it has 0 kinds of pooling"},
        {"1_Pooling/config.json", "{\"pooling_mode_cls_token\": true, \"pooling_mode_max_tokens\": true}",
         "it has 2 kinds of pooling"},
        {"1_Pooling/config.json", "{\"pooling_mode\": \"cls\", \"include_prompt\": false}", "include_prompt"},
        {"sentence_bert_config.json", "{\"do_lower_case\": true}", "neither tokenizer.json nor vocab.txt"},
        {"sentence_bert_config.json", "{\"transformer_task\": \"fill-mask\"}", "fill-mask"},
        {"sentence_bert_config.json", "{\"max_seq_length\": 0}", "max_seq_length"},
    };
    th_sentence_options options = {.length = 77};
    ck_assert_int_eq(mkdir(in_folder("1_Pooling"), 0700), 0);
    ck_assert_int_eq(mkdir(in_folder("2_Dense"), 0700), 0);
    write_text("2_Dense/config.json", "{\"activation_function\": \"x.nn.ReLU\"}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text("modules.json", MODULES);
        write_text("1_Pooling/config.json", "{\"pooling_mode\": \"cls\"}");
        write_text("sentence_bert_config.json", "{}");
        write_text("config_sentence_transformers.json", "{}");
        write_text(cases[i].file, cases[i].text);
        expect_status(th_sentence_options_read(ctx, folder, &options), TH_ERROR_FILE, cases[i].words);
    }
    ck_assert_int_eq(options.length, 77);
    expect_status(th_sentence_options_read(ctx, NULL, &options), TH_ERROR_ARGUMENT, "NULL");
}
END_TEST

/* -- export -- */

/* The first texts of the fixture, and the options and the model of an export of it. */
static th_tensor *embeddings_of(const char *path, const th_sentence_options *options)
{
    static const char *const texts[] = {"the tape records each call.", "backward", "a loss in order"};
    th_module *model = th_language_model_from_pretrained(ctx, path);
    th_tokenizer *tokenizer = th_tokenizer_load(ctx, path);
    th_set_training(ctx, false);
    th_tensor *embeddings = th_sentence_embeddings(model, tokenizer, texts, 3, options);
    no_error();
    return embeddings;
}

static th_status export_fixture(const th_sentence_options *options)
{
    th_module *model = th_language_model_from_pretrained(ctx, FOLDER);
    const th_export_options given = {.tokenizer = th_tokenizer_load(ctx, FOLDER)};
    no_error();
    return th_sentence_export(model, folder, options, &given);
}

/* _i: 0 to 7: with a dense layer, with normalization, with a prompt. */
START_TEST(test_export)
{
    th_sentence_options options = {.pooling = TH_POOL_MAX, .normalize = _i & 1, .length = 7}, read;
    if (_i & 2) {
        options.dense = th_dense_new(ctx, 8, 5, &(th_dense_layer_options){.no_bias = _i & 1});
        options.dense_tanh = _i & 4;
    }
    if (_i & 4)
        strcpy(options.prompt, "a \"call\": ");
    ck_assert_int_eq(export_fixture(&options), TH_OK);
    ck_assert_int_eq(th_sentence_options_read(ctx, folder, &read), TH_OK);
    ck_assert(read.pooling == TH_POOL_MAX && read.normalize == options.normalize && read.length == 7);
    ck_assert(!read.dense == !options.dense && read.dense_tanh == options.dense_tanh);
    ck_assert_str_eq(read.prompt, options.prompt);
    th_tensor *a = embeddings_of(FOLDER, &options), *b = embeddings_of(folder, &read);
    ck_assert_int_eq(th_size(a, 1), _i & 2 ? 5 : 8);
    ck_assert_int_eq(memcmp(th_data_const(a), th_data_const(b), (size_t)th_numel(a) * sizeof(float)), 0);
    if (_i & 4) { /* the prompt has an effect, and a name */
        read.prompt[0] = 0;
        b = embeddings_of(folder, &read);
        ck_assert_int_ne(memcmp(th_data_const(a), th_data_const(b), (size_t)th_numel(a) * sizeof(float)), 0);
        ck_assert_int_eq(th_sentence_prompt_read(ctx, folder, "default", &read), TH_OK);
        ck_assert_str_eq(read.prompt, options.prompt);
    }
    expect_status(th_sentence_prompt_read(ctx, folder, "query", &read), TH_ERROR_FILE, "no prompt \"query\"");
    expect_status(th_sentence_prompt_read(ctx, NULL, "query", &read), TH_ERROR_ARGUMENT, "NULL");
    if (options.dense) { /* the file of the layer has other sizes than its configuration */
        write_text("2_Dense/config.json", "{\"in_features\": 8, \"out_features\": 6}");
        expect_status(th_sentence_options_read(ctx, folder, &read), TH_ERROR_FILE, "is not (6, 8)");
    }
}
END_TEST

START_TEST(test_dimensions)
{
    th_sentence_options options = {.pooling = TH_POOL_MEAN};
    const th_tensor *whole = embeddings_of(FOLDER, &options);
    options.dimensions = 3;
    options.normalize = true;
    const th_tensor *cut = embeddings_of(FOLDER, &options);
    const float *x = th_data_const(whole), *y = th_data_const(cut);
    ck_assert_int_eq(th_size(cut, 1), 3);
    for (int i = 0; i < 3; i++, x += 8, y += 3)
        for (int j = 0; j < 3; j++)
            ck_assert_float_eq_tol(y[j], x[j] / sqrtf(x[0] * x[0] + x[1] * x[1] + x[2] * x[2]), 1e-6f);
    th_module *model = th_language_model_from_pretrained(ctx, FOLDER);
    th_tokenizer *tokenizer = th_tokenizer_load(ctx, FOLDER);
    for (options.dimensions = -1; options.dimensions < 10; options.dimensions += 10)
        assert_error(th_sentence_embeddings(model, tokenizer, (const char *const[]){"a"}, 1, &options),
                     TH_ERROR_ARGUMENT, "must be in [1, 8]");
}
END_TEST

START_TEST(test_export_errors)
{
    th_module *model = th_language_model_from_pretrained(ctx, FOLDER);
    const th_export_options given = {.tokenizer = th_tokenizer_load(ctx, FOLDER)}, none = {.type = TH_FLOAT32};
    const th_sentence_options mean = {.pooling = TH_POOL_MEAN}, unknown = {.pooling = TH_POOL_LAST + 1},
                              no_matrix = {.dense = th_module_find(model, "layers")};
    expect_status(th_sentence_export(model, folder, &mean, &none), TH_ERROR_ARGUMENT, "a tokenizer");
    expect_status(th_sentence_export(model, NULL, &mean, &given), TH_ERROR_ARGUMENT, "a folder");
    expect_status(th_sentence_export(model, folder, &unknown, &given), TH_ERROR_ARGUMENT, "unknown kind of pooling");
    expect_status(th_sentence_export(model, folder, &no_matrix, &given), TH_ERROR_ARGUMENT, "no matrix");
    ck_assert_int_ne(access(in_folder("modules.json"), F_OK), 0);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("sentence embeddings", setup, teardown);
    tcase_add_test(tests, test_as_sentence_transformers);
    tcase_add_test(tests, test_options);
    tcase_add_test(tests, test_refused);
    tcase_add_loop_test(tests, test_export, 0, 8);
    tcase_add_test(tests, test_dimensions);
    tcase_add_test(tests, test_export_errors);
    return run_suites();
}
