/* Heads in folders of transformers: names of labels and weights survive a round trip, and a folder gets a new head. */
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "tapehead/models.h"

#include "hugging_face_folder.h"

static const th_language_model_options bert = {.vocabulary = 13,
                                               .length = 9,
                                               .width = 8,
                                               .heads = 2,
                                               .layers = 2,
                                               .bidirectional = true,
                                               .token_types = 2,
                                               .input_norm = true,
                                               .block = {.post_norm = true, .activation = TH_GELU, .eps = 1e-12}};
static const char *const names[] = {"gut \"é\"", "schlecht\n", "\\"};
static const th_head_options heads[] = {{.kind = TH_HEAD_SEQUENCE,
                                         .labels = 3,
                                         .label_names = names,
                                         .problem = TH_PROBLEM_SEVERAL_LABELS,
                                         .transform = true,
                                         .activation = TH_TANH,
                                         .dropout = 0.25},
                                        {.kind = TH_HEAD_TOKENS, .labels = 3, .label_names = names},
                                        {.kind = TH_HEAD_SPANS}};
enum { HEADS = sizeof heads / sizeof *heads };

static th_module *model_with(th_head_options head)
{
    th_language_model_options o = bert;
    o.head = head;
    return th_language_model_new(ctx, &o);
}

static th_module *export_model(th_module *model)
{
    no_error();
    ck_assert_msg(th_language_model_export(model, directory, NULL) == TH_OK, "%s", th_error_message(ctx));
    return model;
}

START_TEST(test_round_trip)
{
    th_module *model = export_model(model_with(heads[_i]));
    const uint32_t crc = th_module_crc32c(model);
    th_module *again = th_language_model_from_pretrained(ctx, directory);
    no_error();
    ck_assert_uint_eq(th_module_crc32c(again), crc);
    th_language_model_options read;
    ck_assert_int_eq(th_pretrained_options(ctx, directory, &read), TH_OK);
    const th_head_options *const found[] = {&read.head, &th_language_model_options_of(again)->head};
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(found[i]->kind, heads[_i].kind);
        ck_assert_int_eq(found[i]->problem, heads[_i].problem);
        ck_assert(found[i]->dropout == heads[_i].dropout && found[i]->activation == heads[_i].activation);
        for (int label = 0; label < 3 && heads[_i].label_names; label++)
            ck_assert_str_eq(found[i]->label_names[label], names[label]);
    }
    ck_assert_int_eq(th_pretrained_load(model, directory, NULL), TH_OK);
    read.head.dropout = 0.5; /* an option that may differ */
    ck_assert_ptr_nonnull(th_language_model_from_folder(ctx, directory, &(th_folder_load_options){.model = &read}));
    ck_assert_ptr_nonnull(th_language_model_from_folder(ctx, directory, &(th_folder_load_options){.frozen = true}));
    no_error();
}
END_TEST

/* The values of parameters that both models have, except those of the output, are equal. */
static int count_equal(th_module *a, th_module *b)
{
    int count = 0;
    for (th_parameter_iterator p = th_module_parameters(a); th_parameter_next(&p);) {
        th_tensor *other = th_module_find_parameter(b, p.name);
        if (other == NULL || strstr(p.name, "head.output"))
            continue;
        ck_assert_msg(memcmp(th_data_const(p.tensor), th_data_const(other), (size_t)th_numel(other) * 4) == 0, "%s",
                      p.name);
        count++;
    }
    return count;
}

static double deviation_of(th_tensor *t)
{
    return sqrt(th_item(th_mean(th_mul(t, t), TH_ALL_AXES, NULL)));
}

/* The encoder's parameters are read. The head is new, except what the folder has in the same shape: the pooler. */
START_TEST(test_new_head)
{
    th_language_model_options masked = bert, plain = bert;
    masked.classifier_bias = masked.classifier_transform = true;
    plain.no_classifier = true;
    th_module *const from[] = {th_language_model_new(ctx, &masked), th_language_model_new(ctx, &plain),
                               model_with(heads[0]), model_with(heads[2])};
    const th_head_options wanted = {.kind = TH_HEAD_SEQUENCE, .labels = 2, .label_names = names, .dropout = 0.5};
    for (int i = 0; i < 4; i++) {
        export_model(from[i]);
        th_module *model = th_language_model_from_folder(ctx, directory, &(th_folder_load_options){.head = &wanted});
        no_error();
        ck_assert_int_eq(count_equal(model, from[i]), (i == 2 ? 2 : 0) + 5 + 2 * 12);
        const th_head_options *head = &th_language_model_options_of(model)->head;
        ck_assert(head->transform && head->activation == TH_TANH && head->dropout == 0.5 && head->labels == 2);
        ck_assert_str_eq(head->label_names[1], names[1]);
        const double deviation = deviation_of(th_module_find_parameter(model, "head.output.weight"));
        ck_assert(deviation > 0.008 && deviation < 0.04);
        ck_assert(deviation_of(th_module_find_parameter(model, "head.output.bias")) == 0);
        export_model(model); /* and the result is a whole model */
        ck_assert_uint_eq(th_module_crc32c(th_language_model_from_pretrained(ctx, directory)), th_module_crc32c(model));
    }
}
END_TEST

START_TEST(test_new_head_with_options)
{
    th_language_model_options read;
    export_model(model_with(heads[1]));
    ck_assert_int_eq(th_pretrained_options(ctx, directory, &read), TH_OK);
    read.block.attention_dropout = 0.5;
    th_module *model =
        th_language_model_from_folder(ctx, directory, &(th_folder_load_options){.model = &read, .head = &heads[2]});
    no_error();
    ck_assert(th_language_model_options_of(model)->block.attention_dropout == 0.5);
    ck_assert_int_eq(th_language_model_options_of(model)->head.kind, TH_HEAD_SPANS);
    const th_head_options none = {.kind = TH_HEAD_NONE}, unknown = {.kind = (th_head_kind)9};
    expect_failure(th_language_model_from_folder(ctx, directory, &(th_folder_load_options){.head = &none}) == NULL,
                   TH_ERROR_ARGUMENT, "BERT has no head of kind 0");
    expect_failure(th_language_model_from_folder(ctx, directory, &(th_folder_load_options){.head = &unknown}) == NULL,
                   TH_ERROR_ARGUMENT, "BERT has no head of kind 9");
    expect_failure(th_language_model_from_folder(ctx, directory,
                                                 &(th_folder_load_options){.head = &heads[0], .frozen = true}) == NULL,
                   TH_ERROR_ARGUMENT, "call th_module_freeze after loading");
}
END_TEST

/* A new head has the dropout of the base's config.json. */
START_TEST(test_new_head_has_dropout_of_config)
{
    th_language_model_options plain = bert;
    plain.no_classifier = true;
    const th_head_options wanted = {.kind = TH_HEAD_SEQUENCE, .labels = 2},
                          own = {.kind = TH_HEAD_SEQUENCE, .labels = 2, .dropout = 0.5};
    export_model(th_language_model_new(ctx, &plain));
    th_text config = {0};
    ck_assert_int_eq(th_file_read(ctx, in_directory("config.json"), SIZE_MAX, &config), TH_OK);
    FILE *file = fopen(in_directory("config.json"), "wb");
    fprintf(file, "{\"classifier_dropout\": 0.25, %.*s", (int)config.count - 1, config.bytes + 1);
    ck_assert_int_eq(fclose(file), 0);
    th_text_free(&config);
    th_module *model = th_language_model_from_folder(ctx, directory, &(th_folder_load_options){.head = &wanted});
    no_error();
    ck_assert(th_language_model_options_of(model)->head.dropout == 0.25);
    model = th_language_model_from_folder(ctx, directory, &(th_folder_load_options){.head = &own});
    ck_assert(th_language_model_options_of(model)->head.dropout == 0.5);
}
END_TEST

/* A head that no class of transformers has is not exported as another one. */
START_TEST(test_other_heads)
{
    const th_head_options mean = {.kind = TH_HEAD_SEQUENCE, .labels = 2, .pooling = TH_POOL_MEAN, .transform = true};
    expect_status(th_language_model_export(model_with(mean), directory, NULL), TH_ERROR_ARGUMENT,
                  ".head.pooling, .head.activation");
}
END_TEST

static void read_config(const char *fields)
{
    FILE *file = fopen(in_directory("config.json"), "wb");
    ck_assert_ptr_nonnull(file);
    fprintf(file, "{\"model_type\": \"bert\", \"architectures\": [\"BertForTokenClassification\"]%s}", fields);
    ck_assert_int_eq(fclose(file), 0);
}

START_TEST(test_config)
{
    th_language_model_options o;
    read_config("");
    ck_assert_int_eq(th_pretrained_options(ctx, directory, &o), TH_OK);
    ck_assert(o.head.labels == 2 && o.head.label_names == NULL && !o.no_classifier && !o.classifier_transform);
    read_config(", \"num_labels\": 7, \"classifier_dropout\": 0.5");
    ck_assert_int_eq(th_pretrained_options(ctx, directory, &o), TH_OK);
    ck_assert(o.head.labels == 7 && o.head.dropout == 0.5);
    static const char *const wrong[][2] = {
        {", \"id2label\": {\"0\": \"a\", \"2\": \"b\"}", "none of them is \"1\" with a name"},
        {", \"id2label\": {\"0\": 5}", "none of them is \"0\" with a name"},
        {", \"id2label\": {\"0\": \"a\", \"1\": \"a\"}", "two labels have the name \"a\""},
        {", \"id2label\": []", "\"id2label\" is neither null nor an object"},
        {", \"problem_type\": \"guessing\"", "problem type \"guessing\" is not supported"},
        {", \"classifier_dropout\": 1", "\"classifier_dropout\" is 1"},
        {", \"num_labels\": 0", "num_labels"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        read_config(wrong[i][0]);
        expect_status(th_pretrained_options(ctx, directory, &o), TH_ERROR_FILE, wrong[i][1]);
    }
}
END_TEST

/* -- other families -- */

#define SIZES "\"vocab_size\": 17, \"max_position_embeddings\": 12, \"num_hidden_layers\": 2"
#define WIDTHS SIZES ", \"hidden_size\": 8, \"num_attention_heads\": 2, \"intermediate_size\": 12"
static const struct {
    const char *type, *class, *fields;
    th_activation activation;
    double dropout; /* of a sequence */
} families[] = {{"roberta", "Roberta", WIDTHS ", \"classifier_dropout\": 0.4", TH_TANH, 0.4},
                {"xlm-roberta", "XLMRoberta", WIDTHS, TH_TANH, 0.1},
                {"distilbert", "DistilBert", SIZES ", \"dim\": 8, \"n_heads\": 2, \"hidden_dim\": 12", TH_RELU, 0.2},
                {"modernbert", "ModernBert", WIDTHS ", \"classifier_pooling\": \"mean\"", TH_GELU, 0},
                {"mpnet", "MPNet", WIDTHS, TH_TANH, 0.1}};
enum { FAMILIES = sizeof families / sizeof *families };

static th_language_model_options family_options(int family, const char *architecture)
{
    th_language_model_options o;
    FILE *file = fopen(in_directory("config.json"), "wb");
    ck_assert_ptr_nonnull(file);
    fprintf(file, "{\"model_type\": \"%s\", \"architectures\": [\"%s%s\"], %s}", families[family].type,
            families[family].class, architecture, families[family].fields);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_msg(th_pretrained_options(ctx, directory, &o) == TH_OK, "%s", th_error_message(ctx));
    return o;
}

START_TEST(test_other_families)
{
    static const char *const classes[] = {"ForSequenceClassification", "ForTokenClassification",
                                          "ForQuestionAnswering"};
    const th_export_options named = {.family = families[_i].type};
    for (int kind = 0; kind < 3; kind++) {
        const th_language_model_options o = family_options(_i, classes[kind]);
        ck_assert_int_eq((int)o.head.kind, kind + 1);
        th_module *model = th_language_model_new(ctx, &o);
        ck_assert_msg(th_language_model_export(model, directory, &named) == TH_OK, "%s", th_error_message(ctx));
        th_module *again = th_language_model_from_pretrained(ctx, directory);
        no_error();
        ck_assert_uint_eq(th_module_crc32c(again), th_module_crc32c(model));
        const th_head_options *head = &th_language_model_options_of(again)->head;
        if (kind > 0)
            continue;
        ck_assert(head->transform && head->activation == families[_i].activation);
        ck_assert(head->dropout == families[_i].dropout);
        ck_assert_int_eq(head->pooling, strstr(families[_i].fields, "mean") ? TH_POOL_MEAN : TH_POOL_CLS);
    }
}
END_TEST

/* The classifier of a masked language model, and the layers before it, become those of a head. */
START_TEST(test_new_head_of_other_families)
{
    const th_language_model_options o = family_options(_i, "ForMaskedLM");
    const th_head_options wanted = {.kind = TH_HEAD_SEQUENCE, .labels = 3};
    const th_export_options named = {.family = families[_i].type};
    th_module *model = th_language_model_new(ctx, &o);
    ck_assert_int_eq(th_language_model_export(model, directory, &named), TH_OK);
    ck_assert_int_eq(th_pretrained_load(model, directory, NULL), TH_OK);
    th_module *tuned = th_language_model_from_folder(ctx, directory, &(th_folder_load_options){.head = &wanted});
    no_error();
    ck_assert_int_gt(count_equal(tuned, model), 10);
    ck_assert(
        th_language_model_options_of(tuned)->head.dropout ==
        (families[_i].dropout == 0.4 ? 0.1 : families[_i].dropout)); /* a masked language model has no such field */
}
END_TEST

START_TEST(test_without_memory)
{
    static char from[80];
    export_model(model_with(heads[0]));
    snprintf(from, sizeof from, "%s_from", directory);
    ck_assert_int_eq(rename(directory, from), 0);
    ck_assert_int_eq(mkdir(directory, 0700), 0);
    export_without_memory(from, "bert");
    snprintf(path, sizeof path, "%s/config.json", from);
    unlink(path);
    snprintf(path, sizeof path, "%s/model.safetensors", from);
    unlink(path);
    ck_assert_int_eq(rmdir(from), 0);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("heads in folders", setup, teardown);
    tcase_add_loop_test(tests, test_round_trip, 0, HEADS);
    tcase_add_test(tests, test_new_head);
    tcase_add_test(tests, test_new_head_with_options);
    tcase_add_test(tests, test_new_head_has_dropout_of_config);
    tcase_add_test(tests, test_other_heads);
    tcase_add_test(tests, test_config);
    tcase_add_loop_test(tests, test_other_families, 0, FAMILIES);
    tcase_add_loop_test(tests, test_new_head_of_other_families, 0, FAMILIES);
    tcase_add_test(tests, test_without_memory);
    return run_suites();
}
