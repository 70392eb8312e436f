/* Folders of models in transformers' format: which fields and tensors are written, which tensors are ignored, and what
 * is left after an error. */
#include <sys/stat.h>

#include "folder.h"
#include "memory.h"
#include "tapehead/models.h"

#include "context.h"

static test_memory memory;

static void setup(void)
{
    make_folder();
    memory = (test_memory){0};
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 1, .allocator = allocator_of(&memory)});
    no_error();
}

static void teardown(void)
{
    close_context();
    ck_assert_uint_eq(memory.bytes, 0);
    remove_folder();
}

static const th_language_model_options gpt2 = {.vocabulary = 5, .length = 6, .width = 8, .heads = 2, .layers = 2},
                                       llama = {.vocabulary = 5,
                                                .length = 6,
                                                .width = 8,
                                                .heads = 2,
                                                .layers = 2,
                                                .positions = TH_POSITIONS_NONE,
                                                .untied = true,
                                                .block = {.norm = TH_RMS_NORM,
                                                          .gated = true,
                                                          .activation = TH_SILU,
                                                          .no_bias = true,
                                                          .scores = {.rotary = true}}};

static void export(th_module *model, const th_export_options *options)
{
    ck_assert_msg(th_language_model_export(model, folder, options) == TH_OK, "%s", th_error_message(ctx));
}

/* Checks that config.json has a line with this field. */
static void expect_field(const char *field)
{
    size_t bytes;
    char *text = read_bytes(in_folder("config.json"), &bytes), line[128];
    snprintf(line, sizeof line, "\n  %s", field);
    const char *at = strstr(text, line);
    ck_assert_msg(at && (at[strlen(line)] == ',' || at[strlen(line)] == '\n'), "no %s in %s", field, text);
    free(text);
}

/* -- config.json -- */

START_TEST(every_field_is_written)
{
    static const char *const common[] = {"\"vocab_size\": 5", "\"eos_token_id\": null", "\"bos_token_id\": null",
                                         "\"torch_dtype\": \"float32\""};
    static const char *const of_gpt2[] = {"\"architectures\": [\"GPT2LMHeadModel\"]",
                                          "\"model_type\": \"gpt2\"",
                                          "\"n_embd\": 8",
                                          "\"n_head\": 2",
                                          "\"n_inner\": 32",
                                          "\"n_layer\": 2",
                                          "\"n_positions\": 6",
                                          "\"tie_word_embeddings\": true"};
    static const char *const of_llama[] = {"\"architectures\": [\"LlamaForCausalLM\"]",
                                           "\"model_type\": \"llama\"",
                                           "\"attention_bias\": false",
                                           "\"mlp_bias\": false",
                                           "\"head_dim\": 4",
                                           "\"hidden_size\": 8",
                                           "\"intermediate_size\": 32",
                                           "\"max_position_embeddings\": 6",
                                           "\"num_attention_heads\": 2",
                                           "\"num_hidden_layers\": 2",
                                           "\"num_key_value_heads\": 2",
                                           "\"rope_theta\": 10000.0",
                                           "\"tie_word_embeddings\": false"};
    for (int i = 0; i < 2; i++) {
        export(th_language_model_new(ctx, i ? &llama : &gpt2), NULL);
        for (size_t k = 0; k < sizeof common / sizeof *common; k++)
            expect_field(common[k]);
        for (size_t k = 0; k < (i ? sizeof of_llama : sizeof of_gpt2) / sizeof *common; k++)
            expect_field(i ? of_llama[k] : of_gpt2[k]);
    }
    th_language_model_options o = llama;
    o.block.mlp_width = 7;
    o.block.kv_heads = 1;
    o.block.head_width = 6;
    export(th_language_model_new(ctx, &o), NULL);
    expect_field("\"intermediate_size\": 7");
    expect_field("\"num_key_value_heads\": 1");
    expect_field("\"head_dim\": 6");
    ck_assert_int_eq(th_set_default_dtype(ctx, TH_FLOAT64), TH_OK);
    export(th_language_model_new(ctx, &gpt2), NULL);
    expect_field("\"torch_dtype\": \"float64\"");
}
END_TEST

/* transformers has several names for one activation; the first that it lists is written. */
START_TEST(every_activation_has_a_name)
{
    static const struct {
        th_activation activation;
        const char *name;
    } cases[] = {{TH_GELU_TANH, "gelu_new"}, {TH_GELU, "gelu"},          {TH_RELU, "relu"},
                 {TH_SILU, "silu"},          {TH_RELU_SQUARED, "relu2"}, {TH_TANH, "tanh"}};
    char field[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int is_llama = 0; is_llama < 2; is_llama++) {
            th_language_model_options o = is_llama ? llama : gpt2, read;
            o.block.activation = cases[i].activation;
            export(th_language_model_new(ctx, &o), NULL);
            snprintf(field, sizeof field, "\"%s\": \"%s\"", is_llama ? "hidden_act" : "activation_function",
                     cases[i].name);
            expect_field(field);
            ck_assert_int_eq(th_pretrained_options(ctx, folder, &read), TH_OK);
            ck_assert_int_eq(read.block.activation, cases[i].activation);
        }
}
END_TEST

/* The end token is one of the vocabulary: 0 to 4. */
START_TEST(end_tokens_are_of_the_vocabulary)
{
    th_module *model = th_language_model_new(ctx, &gpt2);
    char text[96];
    int64_t read;
    for (int64_t token = -1; token <= 5; token++) {
        const th_export_options o = {TH_END_TOKEN(token)};
        if (token < 0 || token > 4) {
            snprintf(text, sizeof text, "end token %d is outside the vocabulary of 5", (int)token);
            expect_status(th_language_model_export(model, folder, &o), TH_ERROR_ARGUMENT, text);
            continue;
        }
        export(model, &o);
        snprintf(text, sizeof text, "\"eos_token_id\": %d", (int)token);
        expect_field(text);
        ck_assert_int_eq(th_pretrained_end_token(ctx, folder, &read), TH_OK);
        ck_assert_int_eq(read, token);
    }
}
END_TEST

START_TEST(scaling_by_frequency_needs_all_its_numbers)
{
#define SCALED(numbers) "{\"model_type\": \"llama\", \"rope_scaling\": {\"rope_type\": \"llama3\"" numbers "}}"
    static const char *const cases[][2] = {
        {SCALED(", \"low_freq_factor\": 0.5, \"high_freq_factor\": 4"), "factor = 0 must be"},
        {SCALED(", \"factor\": 8, \"high_freq_factor\": 4"), "low_freq_factor = 0 must be"},
        {SCALED(", \"factor\": 8, \"low_freq_factor\": 0.5"), "low_freq_factor = 0.5 must be"},
    };
    th_language_model_options o;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_bytes(in_folder("config.json"), cases[i][0], strlen(cases[i][0]));
        expect_status(th_pretrained_options(ctx, folder, &o), TH_ERROR_FILE, cases[i][1]);
    }
    static const char complete[] = SCALED(", \"factor\": 8, \"low_freq_factor\": 0.5, \"high_freq_factor\": 4");
    write_bytes(in_folder("config.json"), complete, sizeof complete - 1);
    ck_assert_int_eq(th_pretrained_options(ctx, folder, &o), TH_OK);
}
END_TEST

/* -- tensors -- */

enum { MAX_TENSORS = 64 };

/* Writes the exported weights again: with another name for `from` if it is not NULL, and with one more tensor. */
static void rewrite(const char *from, const char *to, const char *more)
{
    th_named_tensor tensors[MAX_TENSORS];
    th_safetensors *file = th_safetensors_open(ctx, in_folder("model.safetensors"));
    int64_t n = 0;
    for (; n < th_safetensors_count(file); n++) {
        const char *name = th_safetensors_at(file, n)->name;
        tensors[n] = (th_named_tensor){from && strcmp(name, from) == 0 ? to : name, th_safetensors_read(file, name)};
    }
    if (more)
        tensors[n++] = (th_named_tensor){more, th_ones(ctx, TH_FLOAT32, TH_SHAPE(1))};
    ck_assert_int_eq(th_safetensors_write(ctx, in_folder("model.safetensors"), tensors, n, NULL, 0), TH_OK);
    th_safetensors_close(file);
}

/* Buffers that older versions saved are ignored, and nothing else. */
START_TEST(old_buffers_are_ignored)
{
    static const struct {
        const char *name;
        bool ignored;
    } cases[] = {
        {"transformer.h.0.attn.bias", true}, {"h.1.attn.masked_bias", true}, {"h.0.attn.rotary_emb.inv_freq", true},
        {"h.0.attn.biases", false},          {"h.0.mlp.bias", false},        {"inv_freq", false},
    };
    th_module *model = th_language_model_new(ctx, &gpt2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        export(model, NULL);
        rewrite(NULL, NULL, cases[i].name);
        char words[96];
        snprintf(words, sizeof words, "unexpected: %s (in all: 1 unexpected)", cases[i].name);
        th_module *again = th_language_model_from_pretrained(ctx, folder);
        if (cases[i].ignored)
            ck_assert_uint_eq(th_module_crc32c(again), th_module_crc32c(model));
        else
            expect_failure(again == NULL, TH_ERROR_FILE, words);
    }
}
END_TEST

/* A file may omit the prefix of a name, but no other characters. */
START_TEST(only_the_prefix_may_be_missing)
{
    th_module *model = th_language_model_new(ctx, &llama);
    export(model, NULL);
    rewrite("model.norm.weight", "norm.weight", NULL);
    th_module *again = th_language_model_from_pretrained(ctx, folder);
    no_error();
    ck_assert_uint_eq(th_module_crc32c(again), th_module_crc32c(model));
    rewrite("lm_head.weight", "d.weight", NULL); /* without as many characters as the prefix has */
    expect_failure(th_language_model_from_pretrained(ctx, folder) == NULL, TH_ERROR_FILE,
                   "missing: lm_head.weight; unexpected: d.weight");
}
END_TEST

/* -- what a call leaves -- */

START_TEST(modes_and_memory_are_as_before)
{
    th_language_model_options o = llama;
    o.block.scores.rotary_pairing = TH_ROTARY_NEIGHBORS; /* exporting computes other tensors */
    th_module *model = th_language_model_new(ctx, &o);
    export(model, NULL); /* takes the memory that the context keeps */
    const size_t live = th_memory(ctx).live;
    const int descriptor = next_descriptor();
    for (int recording = 0; recording < 2; recording++) {
        if (!recording)
            th_no_grad_begin(ctx);
        export(model, NULL);
        ck_assert_int_eq(th_is_recording(ctx), recording);
        ck_assert_int_eq(th_tape_length(ctx), 0);
        ck_assert_uint_eq(th_memory(ctx).live, live);
        th_module *again = th_language_model_from_pretrained(ctx, folder);
        no_error();
        ck_assert_int_eq(th_is_recording(ctx), recording);
        ck_assert_int_eq(th_pretrained_load(again, folder, NULL), TH_OK);
        th_module_free(again);
        ck_assert_int_eq(next_descriptor(), descriptor);
        if (!recording)
            th_no_grad_end(ctx);
    }
    ck_assert_int_eq(truncate(in_folder("model.safetensors"), 1000), 0);
    expect_failure(th_language_model_from_pretrained(ctx, folder) == NULL, TH_ERROR_FILE, "model.safetensors");
    ck_assert_int_eq(next_descriptor(), descriptor);
}
END_TEST

START_TEST(an_unwritable_file_is_named)
{
    char words[160];
    th_module *model = th_language_model_new(ctx, &gpt2);
    ck_assert_int_eq(mkdir(in_folder("config.json"), 0700), 0);
    snprintf(words, sizeof words, "language_model_export: %s/config.json: Is a directory", folder);
    expect_status(th_language_model_export(model, folder, NULL), TH_ERROR_FILE, words);
    ck_assert_int_eq(rmdir(in_folder("config.json")), 0);
    char longest[5000];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    expect_failure(th_language_model_from_pretrained(ctx, longest) == NULL, TH_ERROR_FILE, "the path is too long");
    longest[4090] = 0;
    expect_failure(th_language_model_from_pretrained(ctx, longest) == NULL, TH_ERROR_FILE, "the path is too long");
}
END_TEST

START_TEST(an_earlier_error_is_returned)
{
    th_language_model_options o;
    int64_t token;
    th_module *model = th_language_model_new(ctx, &gpt2);
    export(model, NULL);
    th_reshape(th_module_find_parameter(model, "norm.bias"), TH_SHAPE(3));
    ck_assert_int_eq(th_language_model_export(model, folder, NULL), TH_ERROR_SHAPE);
    ck_assert_int_eq(th_pretrained_load(model, folder, NULL), TH_ERROR_SHAPE);
    ck_assert_int_eq(th_pretrained_options(ctx, folder, &o), TH_ERROR_SHAPE);
    ck_assert_int_eq(th_pretrained_end_token(ctx, folder, &token), TH_ERROR_SHAPE);
    ck_assert_ptr_null(th_language_model_from_pretrained(ctx, folder));
    expect_error(TH_ERROR_SHAPE, "reshape");
    expect_status(th_pretrained_options(NULL, folder, &o), TH_ERROR_ARGUMENT, "the context is NULL");
    expect_status(th_pretrained_options(ctx, NULL, &o), TH_ERROR_ARGUMENT, "the folder is NULL");
    ck_assert_int_eq(th_pretrained_load(model, folder, NULL), TH_OK);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("hugging_face_files", setup, teardown);
    tcase_add_test(tests, every_field_is_written);
    tcase_add_test(tests, every_activation_has_a_name);
    tcase_add_test(tests, end_tokens_are_of_the_vocabulary);
    tcase_add_test(tests, scaling_by_frequency_needs_all_its_numbers);
    tcase_add_test(tests, old_buffers_are_ignored);
    tcase_add_test(tests, only_the_prefix_may_be_missing);
    tcase_add_test(tests, modes_and_memory_are_as_before);
    tcase_add_test(tests, an_unwritable_file_is_named);
    tcase_add_test(tests, an_earlier_error_is_returned);
    return run_suites();
}
