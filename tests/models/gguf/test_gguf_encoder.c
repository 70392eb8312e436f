/* Encoders in GGUF files: hidden states, heads, the pooling of sentence embeddings, and WordPiece. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tapehead/models.h"

#include "folder.h"

#include "context.h"

static void setup(void)
{
    make_folder();
    ctx = th_context_new(&(th_context_options){.threads = 1});
    ck_assert_ptr_nonnull(ctx);
}

static void teardown(void)
{
    close_context();
    remove_folder();
}

/* -- models -- */

#define ENCODER                                                                                                        \
    .vocabulary = 40, .length = 16, .width = 32, .heads = 4, .layers = 2, .bidirectional = true, .input_norm = true,   \
    .block = {.post_norm = true, .activation = TH_GELU, .eps = 1e-12}
#define HEAD .kind = TH_HEAD_SEQUENCE, .transform = true, .activation = TH_TANH

static const char *const names[] = {"cold", "mild", "hot"};
static const th_language_model_options encoders[] = {
    {ENCODER, .token_types = 2, .no_classifier = true},                      /* BERT */
    {ENCODER, .token_types = 1, .first_position = 2, .no_classifier = true}, /* RoBERTa */
    {ENCODER, .no_classifier = true},                                        /* DistilBERT */
    {ENCODER, .token_types = 2, .head = {HEAD, .labels = 3, .label_names = names}},
    {ENCODER, .token_types = 1, .head = {.kind = TH_HEAD_SEQUENCE, .labels = 1}},
};
enum { ENCODERS = sizeof encoders / sizeof *encoders };

static th_module *new_encoder(const th_language_model_options *options)
{
    th_module *model = th_language_model_new(ctx, options);
    ck_assert_msg(model != NULL, "%s", th_error_message(ctx));
    return model;
}

/* Returns the hidden states of a batch, or the logits of a head. */
static th_tensor *outputs_of(th_module *model)
{
    static const int64_t ids[] = {2, 7, 11, 3, 2, 39, 3, 0}, lengths[] = {4, 3};
    th_set_training(ctx, false);
    th_tensor *tokens = th_from_data(ctx, TH_INT64, TH_SHAPE(2, 4), ids);
    const th_language_model_logits_options padded = {.lengths = th_from_data(ctx, TH_INT64, TH_SHAPE(2), lengths)};
    const bool head = th_language_model_options_of(model)->head.kind != TH_HEAD_NONE;
    th_tensor *outputs = head ? th_language_model_logits(model, tokens, &padded)
                              : th_language_model_hidden_states(model, tokens, &padded);
    ck_assert_msg(outputs != NULL, "%s", th_error_message(ctx));
    return th_contiguous(outputs);
}

static void expect_same_outputs(th_module *a, th_module *b)
{
    th_tensor *x = outputs_of(a), *y = outputs_of(b);
    ck_assert_int_eq(th_numel(x), th_numel(y));
    ck_assert_int_eq(memcmp(th_data_const(x), th_data_const(y), (size_t)th_numel(x) * sizeof(float)), 0);
}

START_TEST(files_have_the_model)
{
    th_module *model = new_encoder(&encoders[_i]);
    if (th_language_model_export_gguf(model, in_folder("a.gguf"), NULL) != TH_OK)
        ck_abort_msg("%s", th_error_message(ctx));
    th_module *again = th_language_model_from_pretrained(ctx, in_folder("a.gguf"));
    ck_assert_msg(again != NULL, "%s", th_error_message(ctx));
    expect_same_outputs(again, model);
    const th_head_options *head = &th_language_model_options_of(again)->head;
    if (encoders[_i].head.label_names)
        ck_assert_str_eq(head->label_names[2], "hot");
    else if (head->labels)
        ck_assert_str_eq(head->label_names[0], "LABEL_0");
    ck_assert_int_eq(th_language_model_export_gguf(again, in_folder("b.gguf"), NULL), TH_OK);
    expect_same_files(in_folder("a.gguf"), in_folder("b.gguf"));
    th_module *stored = th_language_model_from_gguf(ctx, in_folder("a.gguf"), &(th_gguf_load_options){.stored = true});
    ck_assert_msg(stored != NULL, "%s", th_error_message(ctx));
    expect_same_outputs(stored, model);
}
END_TEST

/* A file of 8 bits gives the model whose matrices have 8 bits. */
START_TEST(matrices_have_eight_bits)
{
    th_module *model = new_encoder(&encoders[1]);
    ck_assert_int_eq(
        th_language_model_export_gguf(model, in_folder("q.gguf"), &(th_gguf_export_options){.type = TH_Q8_0}), TH_OK);
    th_module *stored = th_language_model_from_gguf(ctx, in_folder("q.gguf"), &(th_gguf_load_options){.stored = true});
    ck_assert_msg(stored != NULL, "%s", th_error_message(ctx));
    ck_assert_int_eq(th_dtype_of(th_module_find_parameter(stored, "layers.0.linear1.weight")), TH_Q8_0);
    ck_assert_int_eq(th_dtype_of(th_module_find_parameter(stored, "type_embedding.weight")), TH_FLOAT32);
    ck_assert_int_eq(
        th_language_model_export_gguf(stored, in_folder("r.gguf"), &(th_gguf_export_options){.type = TH_Q8_0}), TH_OK);
    expect_same_files(in_folder("q.gguf"), in_folder("r.gguf"));
}
END_TEST

START_TEST(models_that_are_refused)
{
    th_language_model_options o = {ENCODER, .classifier_transform = true, .classifier_bias = true};
    expect_status(th_language_model_export_gguf(new_encoder(&o), in_folder("a.gguf"), NULL), TH_ERROR_ARGUMENT,
                  ".classifier_bias, .classifier_transform, .no_classifier");
    o = (th_language_model_options){ENCODER, .head = {HEAD, .labels = 2}};
    o.head.activation = TH_RELU;
    expect_status(th_language_model_export_gguf(new_encoder(&o), in_folder("a.gguf"), NULL), TH_ERROR_ARGUMENT,
                  ".head.activation");
    o.head = (th_head_options){HEAD, .labels = 2, .pooling = TH_POOL_MEAN};
    expect_status(th_language_model_export_gguf(new_encoder(&o), in_folder("a.gguf"), NULL), TH_ERROR_ARGUMENT,
                  ".head.pooling");
    o.head = (th_head_options){.kind = TH_HEAD_TOKENS, .labels = 2};
    expect_status(th_language_model_export_gguf(new_encoder(&o), in_folder("a.gguf"), NULL), TH_ERROR_ARGUMENT,
                  ".head.kind");
}
END_TEST

/* -- sentence embeddings -- */

#define FOLDER FIXTURES "/sentence_embeddings"

/* A file that is made of a folder of sentence-transformers gives the same embeddings and tokens. */
START_TEST(sentence_embeddings)
{
    static const char *const texts[] = {"the tape records each call", "Backward, computes gradients!",
                                        "caf\xc3\xa9 [MASK]", ""};
    enum { TEXTS = 4, MOST = 1000 };
    float wanted[MOST], read[MOST];
    th_sentence_options options, again;
    ck_assert_int_eq(th_sentence_options_read(ctx, FOLDER, &options), TH_OK);
    th_module *model = th_language_model_from_pretrained(ctx, FOLDER);
    th_tokenizer *tokenizer = th_tokenizer_load(ctx, FOLDER);
    no_error();
    const th_gguf_export_options given = {.tokenizer = tokenizer, .sentence = &options};
    if (th_language_model_export_gguf(model, in_folder("s.gguf"), &given) != TH_OK)
        ck_abort_msg("%s", th_error_message(ctx));
    th_module *model_read = th_language_model_from_pretrained(ctx, in_folder("s.gguf"));
    th_tokenizer *tokenizer_read = th_tokenizer_load(ctx, in_folder("s.gguf"));
    ck_assert_int_eq(th_sentence_options_read(ctx, in_folder("s.gguf"), &again), TH_OK);
    ck_assert(again.pooling == TH_POOL_MEAN && again.normalize && again.dense == NULL);
    ck_assert_int_eq(again.length, th_language_model_options_of(model)->length);
    ck_assert_int_lt(TEXTS * th_sentence_dimension(model, &options), MOST);
    ck_assert_int_eq(th_sentence_encode(model, tokenizer, texts, TEXTS, &options, wanted), TH_OK);
    ck_assert_int_eq(th_sentence_encode(model_read, tokenizer_read, texts, TEXTS, &again, read), TH_OK);
    ck_assert_int_eq(memcmp(read, wanted, (size_t)(TEXTS * th_sentence_dimension(model, &options)) * sizeof *read), 0);
}
END_TEST

START_TEST(poolings)
{
    static const th_pooling_kind kinds[] = {TH_POOL_CLS, TH_POOL_MEAN, TH_POOL_LAST};
    th_sentence_options options;
    th_module *model = new_encoder(&encoders[0]);
    for (int i = 0; i < 3; i++) {
        const th_sentence_options given = {.pooling = kinds[i]};
        ck_assert_int_eq(
            th_language_model_export_gguf(model, in_folder("p.gguf"), &(th_gguf_export_options){.sentence = &given}),
            TH_OK);
        ck_assert_int_eq(th_sentence_options_read(ctx, in_folder("p.gguf"), &options), TH_OK);
        ck_assert_int_eq(options.pooling, kinds[i]);
    }
    ck_assert_int_eq(th_language_model_export_gguf(model, in_folder("p.gguf"), NULL), TH_OK);
    expect_status(th_sentence_options_read(ctx, in_folder("p.gguf"), &options), TH_ERROR_FILE,
                  "it has no pooling of sentence embeddings: bert.pooling_type is 0 or missing");
    ck_assert_int_eq(th_language_model_export_gguf(new_encoder(&encoders[3]), in_folder("p.gguf"), NULL), TH_OK);
    expect_status(th_sentence_options_read(ctx, in_folder("p.gguf"), &options), TH_ERROR_FILE,
                  "bert.pooling_type is 4, a classifier");
}
END_TEST

static void refuse_sentence(th_sentence_options sentence, const char *part)
{
    expect_status(th_language_model_export_gguf(new_encoder(&encoders[0]), in_folder("a.gguf"),
                                                &(th_gguf_export_options){.sentence = &sentence}),
                  TH_ERROR_ARGUMENT, part);
}

START_TEST(sentence_options_that_are_refused)
{
    refuse_sentence((th_sentence_options){.pooling = TH_POOL_MAX}, "only the poolings cls, mean and lasttoken");
    refuse_sentence((th_sentence_options){.prompt = "query: "}, "a GGUF file has no prompt");
    refuse_sentence((th_sentence_options){.dense = th_dense_new(ctx, 32, 8, NULL)},
                    "no dense layer behind the pooling");
}
END_TEST

/* -- tokenizers -- */

static void write_file(const char *name, const char *text)
{
    write_bytes(in_folder(name), text, strlen(text));
}

/* Exports the tokenizer in the folder and reads it again. */
static th_tokenizer *read_again(void)
{
    const th_gguf_export_options given = {.tokenizer = th_tokenizer_load(ctx, in_folder("t"))};
    no_error();
    if (th_language_model_export_gguf(new_encoder(&encoders[0]), in_folder("t.gguf"), &given) != TH_OK)
        ck_abort_msg("%s", th_error_message(ctx));
    th_tokenizer *t = th_tokenizer_from_gguf(ctx, in_folder("t.gguf"));
    ck_assert_msg(t != NULL, "%s", th_error_message(ctx));
    return t;
}

static void expect_tokens(th_tokenizer *t, const char *text, size_t count, const int32_t *wanted)
{
    th_token_list list = {0};
    ck_assert_int_eq(th_tokenizer_encode_document(t, text, strlen(text), &list), TH_OK);
    ck_assert_uint_eq(list.count, count);
    ck_assert_int_eq(memcmp(list.token, wanted, count * sizeof *wanted), 0);
    th_token_list_free(&list);
}

/* Letters keep their case and accents if the tokenizer of the file does. */
START_TEST(cased_word_pieces)
{
    ck_assert_int_eq(mkdir(in_folder("t"), 0777), 0);
    write_file("t/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nA\na\n##a\n##\n\xc3\xa9\ne\n");
    write_file("t/tokenizer_config.json", "{\"do_lower_case\": false}");
    expect_tokens(read_again(), "Aa a \xc3\xa9 #", 7, (const int32_t[]){2, 5, 7, 6, 9, 1, 3});
    write_file("t/tokenizer_config.json", "{\"do_lower_case\": true, \"strip_accents\": false}");
    expect_tokens(read_again(), "Aa \xc3\x89", 5, (const int32_t[]){2, 6, 7, 9, 3});
    write_file("t/tokenizer_config.json", "{\"do_lower_case\": true}");
    expect_tokens(read_again(), "Aa \xc3\x89", 5, (const int32_t[]){2, 6, 7, 10, 3});
}
END_TEST

/* llama.cpp's converter writes add_sep_token as false, and llama.cpp adds [SEP] all the same. */
START_TEST(separator_without_its_flag)
{
    static const char key[] = "tokenizer.ggml.add_sep_token";
    ck_assert_int_eq(mkdir(in_folder("t"), 0777), 0);
    write_file("t/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n");
    write_file("t/tokenizer_config.json", "{}");
    expect_tokens(read_again(), "a", 3, (const int32_t[]){2, 5, 3});
    size_t bytes;
    char *file = read_bytes(in_folder("t.gguf"), &bytes);
    char *flag = memmem(file, bytes, key, strlen(key));
    ck_assert_ptr_nonnull(flag);
    flag += strlen(key) + 4; /* behind the kind of the value */
    ck_assert_int_eq(*flag, 1);
    *flag = 0;
    write_bytes(in_folder("t.gguf"), file, bytes);
    free(file);
    th_tokenizer *t = th_tokenizer_from_gguf(ctx, in_folder("t.gguf"));
    ck_assert_msg(t != NULL, "%s", th_error_message(ctx));
    expect_tokens(t, "a", 3, (const int32_t[]){2, 5, 3});
}
END_TEST

START_TEST(word_pieces_without_tokens_around)
{
    ck_assert_int_eq(mkdir(in_folder("t"), 0777), 0);
    write_file("t/tokenizer.json",
               "{\"added_tokens\": [], \"normalizer\": {\"type\": \"BertNormalizer\", \"clean_text\": true, "
               "\"handle_chinese_chars\": true, \"strip_accents\": null, \"lowercase\": true}, \"pre_tokenizer\": "
               "{\"type\": \"BertPreTokenizer\"}, \"post_processor\": null, \"decoder\": null, \"model\": {\"type\": "
               "\"WordPiece\", \"unk_token\": \"[UNK]\", \"continuing_subword_prefix\": \"##\", "
               "\"max_input_chars_per_word\": 100, \"vocab\": {\"[UNK]\": 0, \"a\": 1}}}");
    const th_gguf_export_options given = {.tokenizer = th_tokenizer_load(ctx, in_folder("t"))};
    no_error();
    expect_status(th_language_model_export_gguf(new_encoder(&encoders[0]), in_folder("t.gguf"), &given),
                  TH_ERROR_ARGUMENT, "does not put one token before and one behind a text");
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("GGUF encoders", setup, teardown);
    tcase_add_loop_test(tests, files_have_the_model, 0, ENCODERS);
    tcase_add_test(tests, matrices_have_eight_bits);
    tcase_add_test(tests, models_that_are_refused);
    tcase_add_test(tests, sentence_embeddings);
    tcase_add_test(tests, poolings);
    tcase_add_test(tests, sentence_options_that_are_refused);
    tcase_add_test(tests, cased_word_pieces);
    tcase_add_test(tests, separator_without_its_flag);
    tcase_add_test(tests, word_pieces_without_tokens_around);
    return run_suites();
}
