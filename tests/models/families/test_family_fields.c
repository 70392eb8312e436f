/* What each field of config.json does in each family, compared with tests/fixtures/families/fields.txt: the options
 * that change, or that the file is refused. A line has no entry for what changes nothing. */
#include <jansson.h>
#include <stddef.h>
#include <string.h>

#include "tapehead/models.h"

#include "hugging_face_folder.h"

static const char *const types[] = {"gpt2",  "llama",   "mistral",     "smollm3",    "qwen2", "qwen3",   "phi3",
                                    "olmo2", "gemma2",  "gemma3_text", "gpt_neox",   "phi",   "granite", "minicpm",
                                    "bert",  "roberta", "distilbert",  "modernbert", "mpnet"};
enum { TYPES = sizeof types / sizeof *types, DECODERS = 13 }; /* of which transformers has all but minicpm */

/* -- options as text -- */

typedef struct member {
    const char *name;
    char kind; /* 'b'ool, 'e'numeration, 'i'nt64, 'd'ouble */
    size_t offset;
} member;

#define MEMBER(kind, name)                                                                                             \
    {                                                                                                                  \
#name, kind, offsetof(th_language_model_options, name)                                                         \
    }
#define SCORES(of)                                                                                                     \
    MEMBER('b', of.rotary), MEMBER('e', of.rotary_pairing), MEMBER('d', of.rotary_base), MEMBER('i', of.rotary_width), \
        MEMBER('e', of.rotary_scaling.kind), MEMBER('d', of.rotary_scaling.factor),                                    \
        MEMBER('d', of.rotary_scaling.low_freq_factor), MEMBER('d', of.rotary_scaling.high_freq_factor),               \
        MEMBER('i', of.rotary_scaling.original_length), MEMBER('d', of.rotary_scaling.attention_factor),               \
        MEMBER('d', of.rotary_scaling.beta_fast), MEMBER('d', of.rotary_scaling.beta_slow),                            \
        MEMBER('d', of.rotary_scaling.mscale), MEMBER('d', of.rotary_scaling.mscale_all_dim),                          \
        MEMBER('b', of.rotary_scaling.no_truncate), MEMBER('i', of.rotary_scaling.n_factors), MEMBER('b', of.alibi),   \
        MEMBER('b', of.qk_norm), MEMBER('b', of.qk_norm_whole), MEMBER('b', of.qk_norm_unit_offset),                   \
        MEMBER('d', of.qk_norm_eps), MEMBER('d', of.soft_cap), MEMBER('i', of.window)

static const member members[] = {
    MEMBER('i', vocabulary),
    MEMBER('i', length),
    MEMBER('i', width),
    MEMBER('i', heads),
    MEMBER('i', layers),
    MEMBER('d', dropout),
    MEMBER('d', embedding_dropout),
    MEMBER('e', positions),
    MEMBER('i', first_position),
    MEMBER('b', untied),
    MEMBER('b', classifier_bias),
    MEMBER('b', classifier_transform),
    MEMBER('b', no_classifier),
    MEMBER('b', bidirectional),
    MEMBER('i', token_types),
    MEMBER('b', input_norm),
    MEMBER('i', relative_buckets),
    MEMBER('i', relative_distance),
    MEMBER('d', embedding_scale),
    MEMBER('d', logit_divisor),
    MEMBER('d', logit_soft_cap),
    MEMBER('b', scale_by_layer),
    MEMBER('i', block.mlp_width),
    MEMBER('d', block.dropout),
    MEMBER('d', block.eps),
    MEMBER('b', block.no_mlp),
    MEMBER('b', block.no_first_norm),
    MEMBER('b', block.gated),
    MEMBER('b', block.post_norm),
    MEMBER('b', block.output_norm),
    MEMBER('b', block.no_input_norm),
    MEMBER('b', block.parallel),
    MEMBER('b', block.shared_norm),
    MEMBER('d', block.branch_scale),
    MEMBER('e', block.activation),
    MEMBER('e', block.norm),
    MEMBER('b', block.unit_offset),
    MEMBER('b', block.no_bias),
    MEMBER('b', block.no_attention_bias),
    MEMBER('b', block.no_output_bias),
    MEMBER('b', block.no_mlp_bias),
    MEMBER('i', block.kv_heads),
    MEMBER('i', block.head_width),
    MEMBER('d', block.scale),
    MEMBER('d', block.attention_dropout),
    SCORES(block.scores),
    SCORES(other_scores),
};

static double value_of(const th_language_model_options *o, const member *m)
{
    const char *at = (const char *)o + m->offset;
    int enumeration;
    switch (m->kind) {
    case 'b':
        return *(const bool *)at;
    case 'e':
        memcpy(&enumeration, at, sizeof enumeration);
        return enumeration;
    case 'i':
        return (double)*(const int64_t *)(const void *)at;
    default:
        return *(const double *)(const void *)at;
    }
}

/* Prints members that differ from usual ones, and the layers that differ from the others. */
static void print_options(FILE *to, const th_language_model_options *usual, const th_language_model_options *o)
{
    static const th_language_model_options zero;
    const th_language_model_options *from = usual ? usual : &zero;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (value_of(o, &members[i]) != value_of(from, &members[i]))
            fprintf(to, " %s=%.10g", members[i].name, value_of(o, &members[i]));
    for (int s = 0; s < 2; s++) {
        const th_rotary_scaling *r = s == 0 ? &o->block.scores.rotary_scaling : &o->other_scores.rotary_scaling;
        for (int64_t i = 0; i < r->n_factors; i += r->n_factors - 1)
            fprintf(to, " %.9g:%.9g", r->short_factor[i], r->long_factor[i]);
    }
    bool same =
        (o->other_layers != NULL) == (from->other_layers != NULL) && (!o->other_layers || o->layers == from->layers);
    for (int64_t i = 0; same && o->other_layers && i < o->layers; i++)
        same = o->other_layers[i] == from->other_layers[i];
    if (same)
        return;
    int64_t others = 0;
    fprintf(to, " layers:");
    for (int64_t i = 0; i < o->layers; i++) {
        const bool is_other = o->other_layers && o->other_layers[i];
        others += is_other;
        if (i < 32)
            fputc(is_other ? '1' : '0', to);
    }
    fprintf(to, ":%d", (int)others);
}

/* -- fields -- */

static bool read_config(const char *type, const char *fields, th_language_model_options *o)
{
    FILE *file = fopen(in_directory("config.json"), "wb");
    ck_assert_ptr_nonnull(file);
    fprintf(file, "{\"model_type\": \"%s\"%s%s}", type, fields[0] ? ", " : "", fields);
    ck_assert_int_eq(fclose(file), 0);
    const th_status status = th_pretrained_options(ctx, directory, o);
    ck_assert_msg(status == TH_OK || status == TH_ERROR_FILE, "%s %s: %s", type, fields, th_error_message(ctx));
    th_error_clear(ctx);
    return status == TH_OK;
}

static const struct field {
    const char *key, *value; /* a value that families with this key accept */
} fields[] = {
    {"vocab_size", "300000"},
    {"max_position_embeddings", "9216"},
    {"hidden_size", "9216"},
    {"intermediate_size", "777"},
    {"num_hidden_layers", "5"},
    {"num_attention_heads", "64"},
    {"num_key_value_heads", "2"},
    {"head_dim", "32"},
    {"hidden_act", "\"relu\""},
    {"rms_norm_eps", "0.25"},
    {"attention_bias", "true"},
    {"attention_bias", "false"},
    {"mlp_bias", "true"},
    {"attention_dropout", "0.25"},
    {"tie_word_embeddings", "true"},
    {"tie_word_embeddings", "false"},
    {"vocab_size", "2147483647"},
    {"intermediate_size", "2147483648"},
    {"num_hidden_layers", "4096"},
    {"num_hidden_layers", "65537"},
    {"n_positions", "777"},
    {"n_embd", "9216"},
    {"n_layer", "5"},
    {"n_head", "64"},
    {"n_inner", "777"},
    {"activation_function", "\"silu\""},
    {"resid_pdrop", "0.25"},
    {"embd_pdrop", "0.25"},
    {"attn_pdrop", "0.25"},
    {"layer_norm_epsilon", "0.25"},
    {"scale_attn_weights", "false"},
    {"scale_attn_by_inverse_layer_idx", "true"},
    {"add_cross_attention", "false"},
    {"hidden_activation", "\"gelu\""},
    {"query_pre_attn_scalar", "64"},
    {"use_bidirectional_attention", "false"},
    {"attn_logit_softcapping", "7.5"},
    {"final_logit_softcapping", "7.5"},
    {"sliding_window", "77"},
    {"use_sliding_window", "true"},
    {"max_window_layers", "3"},
    {"no_rope_layer_interval", "3"},
    {"sliding_window_pattern", "3"},
    {"attention_chunk_size", "7"},
    {"rope_theta", "777"},
    {"partial_rotary_factor", "0.5"},
    {"rope_local_base_freq", "777"},
    {"rotary_pct", "0.5"},
    {"rotary_emb_base", "777"},
    {"original_max_position_embeddings", "1024"},
    {"layer_norm_eps", "0.25"},
    {"use_parallel_residual", "false"},
    {"hidden_dropout", "0.25"},
    {"embedding_multiplier", "12"},
    {"attention_multiplier", "0.0625"},
    {"residual_multiplier", "0.25"},
    {"logits_scaling", "8"},
    {"scale_emb", "12"},
    {"scale_depth", "1.5"},
    {"dim_model_base", "256"},
    {"sparse_config", "{}"},
    {"qk_layernorm", "false"},
    {"pad_token_id", "7"},
    {"dim", "9216"},
    {"hidden_dim", "777"},
    {"n_layers", "5"},
    {"n_heads", "64"},
    {"activation", "\"relu\""},
    {"dropout", "0.25"},
    {"norm_eps", "0.25"},
    {"decoder_bias", "false"},
    {"local_attention", "64"},
    {"global_attn_every_n_layers", "2"},
    {"global_rope_theta", "777"},
    {"local_rope_theta", "777"},
    {"mlp_dropout", "0"},
    {"relative_attention_num_buckets", "32"},
    {"is_causal", "true"},
    {"quantization_config", "{}"},
};
enum { FIELDS = sizeof fields / sizeof *fields };

/* Several fields that belong together. %s: the name of the object for rotary positions. */
#define SCALING(rest) "\"rope_scaling\": {\"rope_type\": " rest "}"
#define FOUR "\"num_hidden_layers\": 4, "
static const char *const groups[] = {
    SCALING("\"default\""),
    SCALING("\"linear\", \"factor\": 4"),
    SCALING("\"linear\""),
    SCALING("\"linear\", \"factor\": -1"),
    SCALING("\"dynamic\", \"factor\": 2.5"),
    SCALING("\"llama3\", \"factor\": 8, \"low_freq_factor\": 1, \"high_freq_factor\": 4, "
            "\"original_max_position_embeddings\": 512"),
    SCALING("\"llama3\", \"factor\": 8, \"low_freq_factor\": 4, \"high_freq_factor\": 1"),
    SCALING("\"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 512"),
    SCALING("\"yarn\", \"original_max_position_embeddings\": 512, \"attention_factor\": 1.5, \"beta_fast\": 16, "
            "\"beta_slow\": 2, \"mscale\": 0.5, \"mscale_all_dim\": 0.25, \"truncate\": false"),
    SCALING("\"su\""),
    SCALING("\"other\""),
    "\"rope_scaling\": 5",
    "\"rope_scaling\": null",
    "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}",
    "\"rope_parameters\": {\"rope_theta\": 777, \"rope_type\": \"linear\", \"factor\": 2}",
    "\"rope_parameters\": {\"rope_theta\": 777, \"partial_rotary_factor\": 0.5}",
    "\"rope_parameters\": {\"full_attention\": {\"rope_theta\": 777}, \"sliding_attention\": {\"rope_theta\": 77}}",
    "\"hidden_size\": 64, \"num_attention_heads\": 16, \"head_dim\": 4, \"num_key_value_heads\": 4, "
    "\"original_max_position_embeddings\": 1024, \"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, 2], "
    "\"long_factor\": [3, 4]}",
    "\"hidden_size\": 64, \"num_attention_heads\": 16, \"num_key_value_heads\": 4, \"rope_scaling\": {\"type\": "
    "\"longrope\", \"short_factor\": [1, 2], \"long_factor\": [3, 4], \"attention_factor\": 2}",
    "\"hidden_size\": 64, \"num_attention_heads\": 16, \"num_key_value_heads\": 4, \"rope_scaling\": {\"type\": "
    "\"longrope\", \"short_factor\": [1, 2], \"long_factor\": [3]}",
    FOUR "\"use_sliding_window\": true, \"max_window_layers\": 2, \"sliding_window\": 9",
    FOUR "\"layer_types\": [\"full_attention\", \"sliding_attention\", \"full_attention\", \"full_attention\"], "
         "\"use_sliding_window\": true, \"sliding_window\": 9",
    FOUR "\"layer_types\": [\"full_attention\", \"full_attention\", \"full_attention\", \"full_attention\"]",
    FOUR "\"layer_types\": [\"sliding_attention\", \"sliding_attention\", \"sliding_attention\", "
         "\"sliding_attention\"], \"sliding_window\": 9",
    FOUR "\"layer_types\": [\"full_attention\"]",
    FOUR "\"layer_types\": [\"full_attention\", \"full_attention\", \"full_attention\", \"linear_attention\"]",
    FOUR "\"layer_types\": [\"full_attention\", \"full_attention\", \"full_attention\", 1]",
    FOUR "\"no_rope_layers\": [1, 0, 1, 1]",
    FOUR "\"no_rope_layers\": [1, true, false, 0, 1]",
    FOUR "\"no_rope_layers\": [1, 2, 1, 1]",
    FOUR "\"no_rope_layers\": [1, 0]",
    FOUR "\"no_rope_layer_interval\": 2, \"use_sliding_window\": true, \"sliding_window\": 9",
    FOUR "\"sliding_window_pattern\": 2, \"sliding_window\": 9",
    FOUR "\"sliding_window\": null",
    "\"n_embd\": 768, \"hidden_size\": 768, \"n_head\": 12, \"num_attention_heads\": 16",
    "\"attention_bias\": true, \"mlp_bias\": true",
};
enum { GROUPS = sizeof groups / sizeof *groups };

/* -- the text of a family -- */

/* Prints a case, unless it changes nothing. Returns false, and prints nothing, if it is refused. */
static bool print_case(FILE *to, const char *type, const char *text, const char *label,
                       const th_language_model_options *usual)
{
    th_language_model_options o = {0};
    char *changes = NULL;
    size_t bytes;
    if (!read_config(type, text, &o))
        return false;
    FILE *memory_file = open_memstream(&changes, &bytes);
    print_options(memory_file, usual, &o);
    fclose(memory_file);
    if (bytes > 0)
        fprintf(to, "    %s:%s\n", label, changes);
    free(changes);
    return true;
}

static void print_family(FILE *to, const char *type)
{
    static const char *const wrong[] = {"0", "-1", "null", "\"x\"", "true", "[]"};
    enum { WRONG = sizeof wrong / sizeof *wrong };
    th_language_model_options usual;
    char text[200], refused[200];
    ck_assert(read_config(type, "", &usual));
    fprintf(to, "%s:", type);
    print_options(to, NULL, &usual);
    fputc('\n', to);
    for (int i = 0; i < FIELDS; i++) {
        refused[0] = 0;
        const bool again = i > 0 && strcmp(fields[i].key, fields[i - 1].key) == 0;
        for (int w = -1; w < (again ? 0 : WRONG); w++) {
            const char *value = w < 0 ? fields[i].value : wrong[w];
            if (w >= 0 && strcmp(value, fields[i].value) == 0)
                continue;
            snprintf(text, sizeof text, "\"%s\": %s", fields[i].key, value);
            if (!print_case(to, type, text, text, &usual))
                snprintf(refused + strlen(refused), sizeof refused - strlen(refused), " %s", value);
        }
        if (refused[0])
            fprintf(to, "    \"%s\" is not%s\n", fields[i].key, refused);
    }
    for (int i = 0; i < GROUPS; i++) {
        snprintf(text, sizeof text, "group %d", i);
        if (!print_case(to, type, groups[i], text, &usual))
            fprintf(to, "    %s: refused\n", text);
    }
}

START_TEST(test_fields)
{
    char *text = NULL;
    size_t bytes, begin;
    FILE *memory_file = open_memstream(&text, &bytes);
    print_family(memory_file, types[_i]);
    fclose(memory_file);
    FILE *file = fopen(FIXTURES "/families/fields.txt", "rb");
    ck_assert_ptr_nonnull(file);
    char line[2000], *at = text, *wanted = NULL;
    while ((wanted = fgets(line, sizeof line, file)) != NULL) /* the family's first line */
        if (strncmp(line, types[_i], strlen(types[_i])) == 0 && line[strlen(types[_i])] == ':')
            break;
    for (; *at; at += begin) {
        begin = strcspn(at, "\n") + 1;
        ck_assert_msg(wanted && strlen(wanted) == begin && memcmp(at, wanted, begin) == 0,
                      "%s: \"%.*s\", not \"%.200s\"", types[_i], (int)(begin < 300 ? begin - 1 : 300), at,
                      wanted ? wanted : "");
        wanted = fgets(line, sizeof line, file);
    }
    ck_assert_msg(wanted == NULL || wanted[0] != ' ', "%s: \"%.200s\" is missing", types[_i], wanted);
    fclose(file);
    free(text);
}
END_TEST

/* -- files that are written -- */

static char *text_of(const th_language_model_options *o)
{
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    print_options(file, NULL, o);
    fclose(file);
    return text;
}

/* Checks that config.json without these keys still describes the model. */
static void expect_without(const char *const *keys, const char *expected)
{
    th_language_model_options o;
    json_t *config = json_load_file(in_directory("config.json"), 0, NULL);
    ck_assert_ptr_nonnull(config);
    for (; *keys; keys++)
        json_object_del(config, *keys);
    ck_assert_int_eq(json_dump_file(config, in_directory("config.json"), JSON_REAL_PRECISION(17)), 0);
    ck_assert_msg(th_pretrained_options(ctx, directory, &o) == TH_OK, "%s", th_error_message(ctx));
    char *found = text_of(&o);
    ck_assert_msg(strcmp(found, expected) == 0, "%s\nnot%s", found, expected);
    free(found);
    json_decref(config);
}

/* Rotary positions are written twice, for old and new versions of transformers. Each way is complete. */
START_TEST(test_written_positions)
{
    static const char *const folders[] = {"gpt2",  "llama",  "mistral", "smollm3",  "qwen2", "qwen3",  "phi3",
                                          "olmo2", "gemma2", "gemma3",  "gpt_neox", "phi",   "granite"};
    static const char *const new_keys[] = {"rope_parameters", NULL};
    static const char *const old_keys[] = {
        "rope_theta",           "rope_scaling",          "rotary_pct", "rotary_emb_base",
        "rope_local_base_freq", "partial_rotary_factor", NULL};
    static const char *const architectures[] = {
        "GPT2LMHeadModel",    "LlamaForCausalLM", "MistralForCausalLM", "SmolLM3ForCausalLM", "Qwen2ForCausalLM",
        "Qwen3ForCausalLM",   "Phi3ForCausalLM",  "Olmo2ForCausalLM",   "Gemma2ForCausalLM",  "Gemma3ForCausalLM",
        "GPTNeoXForCausalLM", "PhiForCausalLM",   "GraniteForCausalLM"};
    char path_of[200];
    snprintf(path_of, sizeof path_of, FOLDER "%s", folders[_i]);
    th_module *model = th_language_model_from_pretrained(ctx, path_of);
    ck_assert_msg(model != NULL, "%s", th_error_message(ctx));
    th_language_model_options o;
    ck_assert_int_eq(th_pretrained_options(ctx, path_of, &o), TH_OK);
    char *expected = text_of(&o);
    for (int way = 0; way < 2; way++) {
        ck_assert_int_eq(th_language_model_export(model, directory, &(th_export_options){.family = types[_i]}), TH_OK);
        json_t *config = json_load_file(in_directory("config.json"), 0, NULL);
        ck_assert_ptr_null(json_object_get(config, "(null)"));
        const bool has_part = strncmp(types[_i], "phi", 3) == 0;
        ck_assert_int_eq(json_object_get(config, "partial_rotary_factor") != NULL, has_part);
        const json_t *architecture = json_array_get(json_object_get(config, "architectures"), 0);
        ck_assert_str_eq(json_string_value(architecture), architectures[_i]);
        const json_t *positions = json_object_get(config, "rope_parameters");
        const bool is_part = has_part || strcmp(types[_i], "gpt_neox") == 0;
        ck_assert_int_eq(json_object_get(positions, "partial_rotary_factor") != NULL, is_part);
        json_decref(config);
        expect_without(way == 0 ? new_keys : old_keys, expected);
    }
    free(expected);
}
END_TEST

/* An embedding scale of 1 changes nothing. An option that a family lacks is an error with the family's title. */
START_TEST(test_titles)
{
    static const char *const titles[] = {"GPT-2",    "Llama",      "Mistral",    "SmolLM 3", "Qwen 2",
                                         "Qwen 3",   "Phi-3",      "OLMo 2",     "Gemma 2",  "Gemma 3",
                                         "GPT-NeoX", "Phi",        "Granite",    "MiniCPM",  "BERT",
                                         "RoBERTa",  "DistilBERT", "ModernBERT", "MPNet"};
    char words[80];
    th_language_model_options o = {.vocabulary = 5, .length = 6, .width = 8, .heads = 2, .layers = 1};
    snprintf(words, sizeof words, "the family is %s, which does not support this model's ", titles[_i]);
    o.block.no_mlp = true;
    o.token_types = 2;    /* BERT has at least one */
    o.first_position = 1; /* RoBERTa has at least one */
    expect_status(
        th_language_model_export(th_language_model_new(ctx, &o), directory, &(th_export_options){.family = types[_i]}),
        TH_ERROR_ARGUMENT, words);
    o = (th_language_model_options){.vocabulary = 5,
                                    .length = 6,
                                    .width = 8,
                                    .heads = 2,
                                    .layers = 1,
                                    .embedding_scale = 1,
                                    .block = {.activation = TH_GELU_TANH}};
    ck_assert_int_eq(th_language_model_export(th_language_model_new(ctx, &o), directory, NULL), TH_OK);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("family fields", setup, teardown);
    tcase_add_loop_test(tests, test_fields, 0, TYPES);
    tcase_add_loop_test(tests, test_written_positions, 0, DECODERS);
    tcase_add_loop_test(tests, test_titles, 0, TYPES);
    return run_suites();
}
