/* Families of language models in transformers' format: the defaults of config.json, fields that are honored or refused,
 * and round trips. test_hugging_face.c compares the fixtures of all families with transformers' results. */
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tapehead/models.h"

#include "hugging_face_folder.h"

static void write_config(const char *type, const char *fields)
{
    FILE *file = fopen(in_directory("config.json"), "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fprintf(file, "{\"model_type\": \"%s\"%s%s}", type, fields[0] ? ", " : "", fields), 0);
    ck_assert_int_eq(fclose(file), 0);
}

static th_language_model_options read_options(const char *type, const char *fields)
{
    th_language_model_options o;
    write_config(type, fields);
    ck_assert_msg(th_pretrained_options(ctx, directory, &o) == TH_OK, "%s: %s", fields, th_error_message(ctx));
    return o;
}

static void expect_refusal(const char *type, const char *fields, const char *words)
{
    th_language_model_options o = {.width = 42};
    write_config(type, fields);
    expect_status(th_pretrained_options(ctx, directory, &o), TH_ERROR_FILE, words);
    ck_assert_int_eq(o.width, 42);
}

/* -- defaults: transformers' configuration_*.py -- */

static const struct {
    const char *type;
    int64_t vocabulary, length, width, mlp_width, layers, heads, kv_heads, head_width;
    double eps, base;
    bool untied;
    int64_t end_token;
} defaults[] = {
    {"mistral", 32000, 131072, 4096, 14336, 32, 32, 8, 128, 1e-6, 1e4, true, 2},
    {"smollm3", 128256, 32768, 2048, 11008, 36, 16, 4, 128, 1e-6, 2e6, false, 128001},
    {"qwen2", 151936, 32768, 4096, 22016, 32, 32, 32, 128, 1e-6, 1e4, true, -1},
    {"qwen3", 151936, 32768, 4096, 22016, 32, 32, 32, 128, 1e-6, 1e4, true, -1},
    {"phi3", 32064, 4096, 3072, 8192, 32, 32, 32, 96, 1e-5, 1e4, true, 32000},
    {"olmo2", 50304, 2048, 4096, 11008, 32, 32, 32, 128, 1e-5, 1e4, true, 50279},
    {"gemma2", 256000, 8192, 2304, 9216, 26, 8, 4, 256, 1e-6, 1e4, false, 1},
    {"gemma3_text", 262208, 131072, 2304, 9216, 26, 8, 4, 256, 1e-6, 1e4, false, 1},
    {"phi", 51200, 2048, 2048, 8192, 24, 32, 32, 64, 1e-5, 1e4, true, 2},
    {"granite", 32000, 2048, 4096, 11008, 32, 32, 32, 128, 1e-6, 1e4, true, 2},
    {"minicpm", 32000, 2048, 4096, 11008, 32, 32, 32, 128, 1e-6, 1e4, false, 2},
    {"gpt_neox", 50432, 2048, 6144, 24576, 44, 64, 64, 96, 1e-5, 1e4, true, 2},
};
enum { DEFAULTS = sizeof defaults / sizeof *defaults };

START_TEST(test_defaults)
{
    int64_t token;
    const th_language_model_options o = read_options(defaults[_i].type, "");
    ck_assert_int_eq(o.vocabulary, defaults[_i].vocabulary);
    ck_assert_int_eq(o.length, defaults[_i].length);
    ck_assert_int_eq(o.width, defaults[_i].width);
    ck_assert_int_eq(o.block.mlp_width, defaults[_i].mlp_width);
    ck_assert_int_eq(o.layers, defaults[_i].layers);
    ck_assert_int_eq(o.heads, defaults[_i].heads);
    ck_assert_int_eq(o.block.kv_heads, defaults[_i].kv_heads);
    ck_assert_int_eq(o.block.head_width, defaults[_i].head_width);
    ck_assert(o.block.eps == defaults[_i].eps && o.block.scores.rotary_base == defaults[_i].base);
    ck_assert(o.untied == defaults[_i].untied && o.positions == TH_POSITIONS_NONE && o.block.scores.rotary);
    ck_assert_int_eq(th_pretrained_end_token(ctx, directory, &token), TH_OK);
    ck_assert_int_eq(token, defaults[_i].end_token);
}
END_TEST

/* Returns a digit for each layer: 1 if it is one of the others. */
static const char *others_of(const th_language_model_options *o)
{
    static char digits[64];
    for (int64_t i = 0; i < o->layers; i++)
        digits[i] = o->other_layers && o->other_layers[i] ? '1' : '0';
    digits[o->layers] = 0;
    return digits;
}

START_TEST(test_options_of_families)
{
    th_language_model_options o = read_options("mistral", "\"sliding_window\": null, \"num_key_value_heads\": null");
    ck_assert(o.block.scores.window == 0 && o.block.kv_heads == 32 && o.block.no_bias);
    o = read_options("mistral", "");
    ck_assert(o.block.scores.window == 4096 && o.other_layers == NULL);
    o = read_options("qwen2", "\"sliding_window\": 5");
    ck_assert(o.block.scores.window == 0 && o.block.no_output_bias && o.block.no_mlp_bias &&
              !o.block.no_attention_bias && !o.block.no_bias);
    o = read_options("qwen3", "\"attention_bias\": true, \"rms_norm_eps\": 0.01");
    ck_assert(o.block.scores.qk_norm && o.block.scores.qk_norm_eps == 0.01 && !o.block.no_attention_bias);
    o = read_options("phi3", "\"resid_pdrop\": 0.25, \"embd_pdrop\": 0.5, \"partial_rotary_factor\": 0.75");
    ck_assert(o.block.dropout == 0.25 && o.block.scores.rotary_width == 72 && o.block.scores.window == 0);
    o = read_options("olmo2", "");
    ck_assert(o.block.output_norm && o.block.no_input_norm && o.block.scores.qk_norm_whole &&
              o.block.scores.qk_norm_eps == 1e-5);
    o = read_options("gemma2", "\"hidden_size\": 9, \"query_pre_attn_scalar\": 16, \"hidden_act\": \"unused\"");
    ck_assert(o.embedding_scale == 3 && o.block.scale == 0.25 && o.logit_soft_cap == 30 && o.block.unit_offset &&
              o.block.output_norm && !o.block.no_input_norm && o.block.activation == TH_GELU_TANH);
    ck_assert(o.block.scores.soft_cap == 50 && o.block.scores.window == 4096 && o.other_scores.window == 0 &&
              o.other_scores.soft_cap == 50);
    ck_assert_str_eq(others_of(&o), "01010101010101010101010101");
    o = read_options("gemma2", "\"attn_logit_softcapping\": null, \"final_logit_softcapping\": null");
    ck_assert(o.logit_soft_cap == 0 && o.block.scores.soft_cap == 0);
    o = read_options("gemma3_text", "\"num_hidden_layers\": 8");
    ck_assert(o.logit_soft_cap == 0 && o.block.scores.qk_norm && o.block.scores.rotary_base == 1e4 &&
              o.other_scores.rotary_base == 1e6 && o.other_scores.qk_norm);
    ck_assert_str_eq(others_of(&o), "00000100");
    o = read_options("gpt_neox", "\"hidden_dropout\": 0.1");
    ck_assert(o.block.parallel && o.block.norm == TH_LAYER_NORM && o.block.scores.rotary_width == 24 &&
              !o.block.gated && o.block.activation == TH_GELU && o.dropout == 0.1 && !o.block.no_bias);
    o = read_options("phi", "\"resid_pdrop\": 0.25, \"embd_pdrop\": 0.5, \"partial_rotary_factor\": 0.75");
    ck_assert(o.block.parallel && o.block.shared_norm && o.classifier_bias && o.block.scores.rotary_width == 48 &&
              o.block.dropout == 0.25 && o.embedding_dropout == 0.5 && !o.block.no_bias);
    o = read_options("granite", "\"embedding_multiplier\": 12, \"attention_multiplier\": 0.0625, "
                                "\"residual_multiplier\": 0.22, \"logits_scaling\": 8");
    ck_assert(o.embedding_scale == 12 && o.block.scale == 0.0625 && o.block.branch_scale == 0.22 &&
              o.logit_divisor == 8);
    o = read_options("granite", "");
    ck_assert(o.embedding_scale == 1 && o.block.scale == 1 && o.block.branch_scale == 1 && o.logit_divisor == 1);
    o = read_options("minicpm", "\"num_hidden_layers\": 40, \"hidden_size\": 2304, \"num_attention_heads\": 36, "
                                "\"scale_emb\": 12, \"scale_depth\": 1.4, \"dim_model_base\": 256");
    ck_assert(o.embedding_scale == 12 && o.block.scale == 0 && o.block.branch_scale == 1.4 / sqrt(40) &&
              o.logit_divisor == 9);
    o = read_options("gemma3", "\"eos_token_id\": [7, 9], \"vision_config\": {}, \"text_config\": {\"model_type\": "
                               "\"gemma3_text\", \"hidden_size\": 64, \"eos_token_id\": 3}");
    ck_assert(o.width == 64 && o.embedding_scale == 8 && o.block.scores.qk_norm);
    int64_t token;
    ck_assert_int_eq(th_pretrained_end_token(ctx, directory, &token), TH_OK);
    ck_assert_int_eq(token, 7);
    o = read_options("roberta", "\"max_position_embeddings\": 514, \"type_vocab_size\": 1");
    ck_assert(o.first_position == 2 && o.length == 512 && o.token_types == 1 && o.bidirectional && o.no_classifier);
    o = read_options("xlm-roberta", "\"architectures\": [\"XLMRobertaForMaskedLM\"], \"pad_token_id\": 0");
    ck_assert(o.first_position == 1 && o.length == 511 && o.classifier_transform && o.classifier_bias);
    o = read_options("distilbert", "\"hidden_size\": 48, \"n_layers\": 3");
    ck_assert(o.width == 48 && o.layers == 3 && o.token_types == 0 && o.block.eps == 1e-12 &&
              o.block.mlp_width == 3072);
    o = read_options("modernbert", "\"num_hidden_layers\": 5, \"local_attention\": 9, \"local_rope_theta\": 7");
    ck_assert_str_eq(others_of(&o), "01101");
    ck_assert(o.block.scores.window == 0 && o.block.scores.rotary_base == 160000 && o.other_scores.window == 5 &&
              o.other_scores.rotary_base == 7 && o.block.no_first_norm && o.block.no_bias && o.block.gated);
    o = read_options("mpnet", "\"max_position_embeddings\": 514, \"pad_token_id\": 7, \"layer_norm_eps\": 1e-5");
    ck_assert(o.first_position == 2 && o.length == 512 && o.token_types == 0 && o.relative_buckets == 32 &&
              o.relative_distance == 128 && o.bidirectional && o.no_classifier && o.vocabulary == 30527);
    o = read_options("qwen3", "\"architectures\": [\"Qwen3Model\"]");
    ck_assert(o.no_classifier && !o.untied && !o.bidirectional);
    o = read_options("gpt2", "\"scale_attn_by_inverse_layer_idx\": true, \"scale_attn_weights\": false");
    ck_assert(o.scale_by_layer && o.block.scale == 1);
}
END_TEST

/* -- kinds of layers -- */

START_TEST(test_kinds_of_layers)
{
#define SMALL "\"num_hidden_layers\": 5, "
    static const struct {
        const char *type, *fields, *others;
        int64_t window, other_window;
        bool rotary, other_rotary;
    } cases[] = {
        {"qwen2", SMALL "\"use_sliding_window\": true, \"sliding_window\": 7, \"max_window_layers\": 3", "00011", 0, 7,
         true, true},
        {"qwen3", SMALL "\"use_sliding_window\": true, \"sliding_window\": 7, \"max_window_layers\": 0", "00000", 7, 0,
         true, false},
        {"qwen3", SMALL "\"use_sliding_window\": true, \"sliding_window\": null", "00000", 0, 0, true, false},
        {"qwen2",
         SMALL "\"use_sliding_window\": true, \"sliding_window\": 7, \"layer_types\": [\"sliding_attention\", "
               "\"full_attention\", \"sliding_attention\", \"full_attention\", \"full_attention\"]",
         "01011", 7, 0, true, true},
        {"gemma3_text", SMALL "\"sliding_window_pattern\": 3, \"sliding_window\": 7", "00100", 7, 0, true, true},
        {"smollm3", SMALL "\"no_rope_layer_interval\": 2", "01010", 0, 0, true, false},
        {"smollm3", SMALL "\"no_rope_layers\": [0, 0, 1, 1, 0, 1]", "00110", 0, 0, false, true},
        {"smollm3", SMALL "\"use_sliding_window\": true, \"sliding_window\": 7", "00010", 0, 7, true, false},
        {"mistral",
         SMALL "\"sliding_window\": 7, \"layer_types\": [\"sliding_attention\", \"sliding_attention\", "
               "\"sliding_attention\", \"sliding_attention\", \"sliding_attention\"]",
         "00000", 7, 0, true, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const th_language_model_options o = read_options(cases[i].type, cases[i].fields);
        ck_assert_str_eq(others_of(&o), cases[i].others);
        ck_assert_msg(o.block.scores.window == cases[i].window && o.other_scores.window == cases[i].other_window,
                      "%s: windows %d and %d", cases[i].fields, (int)o.block.scores.window, (int)o.other_scores.window);
        ck_assert(o.block.scores.rotary == cases[i].rotary && o.other_scores.rotary == cases[i].other_rotary);
    }
}
END_TEST

START_TEST(test_rotary_positions)
{
    th_language_model_options o = read_options("gpt_neox", "\"rotary_emb_base\": 77, \"rotary_pct\": 0.5");
    ck_assert(o.block.scores.rotary_base == 77 && o.block.scores.rotary_width == 48);
    o = read_options("gpt_neox", "\"rope_parameters\": {\"rope_theta\": 7.5, \"partial_rotary_factor\": 1.0}");
    ck_assert(o.block.scores.rotary_base == 7.5 && o.block.scores.rotary_width == 0);
    o = read_options("gemma3_text", "\"rope_theta\": 70, \"rope_local_base_freq\": 80, \"sliding_window\": 5, "
                                    "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 8.0}");
    ck_assert(o.block.scores.rotary_base == 80 && o.block.scores.rotary_scaling.kind == TH_ROTARY_UNSCALED);
    ck_assert(o.other_scores.rotary_base == 70 && o.other_scores.rotary_scaling.kind == TH_ROTARY_LINEAR &&
              o.other_scores.rotary_scaling.factor == 8);
    o = read_options("gemma3_text", "\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"linear\", "
                                    "\"factor\": 4, \"rope_theta\": 5}, \"sliding_attention\": null}");
    ck_assert(o.block.scores.rotary_base == 1e4 && o.other_scores.rotary_base == 5 &&
              o.other_scores.rotary_scaling.factor == 4);
    o = read_options("phi3", "\"hidden_size\": 8, \"num_attention_heads\": 2, \"max_position_embeddings\": 8192, "
                             "\"rope_scaling\": {\"type\": \"su\", \"short_factor\": [1, 2], \"long_factor\": [3, 4]}");
    const th_rotary_scaling *s = &o.block.scores.rotary_scaling;
    ck_assert(s->kind == TH_ROTARY_LONGROPE && s->original_length == 4096 && s->factor == 2 && s->long_factor[1] == 4);
    /* both kinds of layers own their factors */
    o = read_options("qwen2", "\"head_dim\": 4, \"use_sliding_window\": true, \"rope_scaling\": {\"rope_type\": "
                              "\"longrope\", \"short_factor\": [1, 2], \"long_factor\": [3, 4]}");
    ck_assert(o.other_scores.rotary_scaling.long_factor != o.block.scores.rotary_scaling.long_factor);
    ck_assert(o.other_scores.rotary_scaling.long_factor[1] == 4);
}
END_TEST

/* -- refusals -- */

#define GEMMA3_PICTURES "\"text_config\": {\"model_type\": \"gemma3_text\"}, "

START_TEST(test_refused_fields)
{
    static const char *const cases[][3] = {
        {"mistral", "\"sliding_window\": 0", "\"sliding_window\" is 0"},
        {"mistral", "\"layer_types\": [\"full_attention\"]", "\"layer_types\" is not a list with an entry for each"},
        {"mistral", "\"num_hidden_layers\": 1, \"layer_types\": [\"full_attention\"]", "contradicts sliding_window"},
        {"mistral", "\"attention_chunk_size\": 64", "attention_chunk_size"},
        {"mistral", "\"hidden_act\": \"mish\"", "activation \"mish\" is not supported"},
        {"mistral", "\"rope_parameters\": {\"partial_rotary_factor\": 0.5}", "\"partial_rotary_factor\" is not 1"},
        {"smollm3", "\"no_rope_layers\": [1, 0]", "\"no_rope_layers\" is not a list with an entry for each layer"},
        {"smollm3", "\"num_hidden_layers\": 2, \"no_rope_layers\": [1, 2]", "neither 0 nor 1"},
        {"smollm3", "\"no_rope_layer_interval\": 0", "\"no_rope_layer_interval\" is 0"},
        {"smollm3",
         SMALL "\"sliding_window\": 7, \"layer_types\": [\"full_attention\", \"full_attention\", "
               "\"full_attention\", \"sliding_attention\", \"full_attention\"]",
         "\"sliding_window\" is null or switched off"},
        {"smollm3",
         "\"num_hidden_layers\": 3, \"sliding_window\": 7, \"use_sliding_window\": true, "
         "\"no_rope_layers\": [1, 1, 0], "
         "\"layer_types\": [\"full_attention\", \"sliding_attention\", \"full_attention\"]",
         "more than two kinds of attention"},
        {"qwen2", "\"use_sliding_window\": 1", "use_sliding_window"},
        {"qwen2", "\"max_window_layers\": -1", "max_window_layers"},
        {"qwen2", "\"num_hidden_layers\": 1, \"layer_types\": [\"chunked_attention\"]", "neither full_attention nor"},
        {"qwen3", "\"num_hidden_layers\": 1, \"layer_types\": [\"sliding_attention\"]", "null or switched off"},
        {"qwen3", "\"head_dim\": 0", "\"head_dim\" is 0"},
        {"phi3", "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}", "default and longrope are"},
        {"phi3", "\"partial_rotary_factor\": 1.5", "\"partial_rotary_factor\" is 1.5; it must be in [1e-06, 1]"},
        {"phi3", "\"partial_rotary_factor\": 0.01", "need a positive and even number"},
        {"phi3", "\"rope_scaling\": {\"type\": \"longrope\", \"original_max_position_embeddings\": 9}",
         "\"original_max_position_embeddings\" appears twice"},
        {"olmo2", "\"sliding_window\": 7", "\"sliding_window\" is given"},
        {"gemma2", "\"sliding_window\": null", "\"sliding_window\" is null or switched off"},
        {"gemma2", "\"use_bidirectional_attention\": true", "\"use_bidirectional_attention\" is true"},
        {"gemma2", "\"query_pre_attn_scalar\": 0", "query_pre_attn_scalar"},
        {"gemma2", "\"attn_logit_softcapping\": -1", "\"attn_logit_softcapping\" is -1; it must be in [0.001, 1e+06]"},
        {"gemma2", "\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"default\"}}", "one kind of layer"},
        {"gemma3_text", "\"attn_logit_softcapping\": 50", "\"attn_logit_softcapping\" is given"},
        {"gemma3_text", "\"rope_parameters\": {\"rope_theta\": 5}", "\"rope_theta\" in rope_parameters is not"},
        {"gemma3_text", "\"rope_parameters\": {\"other_attention\": {\"rope_theta\": 5}}", "\"other_attention\""},
        {"gemma3_text",
         "\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"linear\", \"factor\": 2}}, "
         "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 3}",
         "\"factor\" differs between rope_scaling and rope_parameters"},
        {"gemma3_text",
         "\"original_max_position_embeddings\": 8, "
         "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 2}",
         "is not a member of rope_parameters"},
        {"gemma3", "", "model type \"gemma3\" is not supported"},
        {"gemma3", "\"text_config\": 5", "\"text_config\" is neither null nor an object"},
        {"gemma3", "\"text_config\": {\"hidden_size\": 8}", "it has no \"model_type\""},
        {"gemma3", GEMMA3_PICTURES "\"tie_word_embeddings\": false", "\"tie_word_embeddings\" is false"},
        {"gemma3", GEMMA3_PICTURES "\"quantization_config\": {}", "the weights are quantized"},
        {"phi", "\"qk_layernorm\": true", "\"qk_layernorm\" is true"},
        {"bert", "\"position_embedding_type\": \"relative_key\"", "\"position_embedding_type\" has a value"},
        {"bert", "\"is_decoder\": true", "\"is_decoder\" is true"},
        {"roberta", "\"hidden_act\": \"relu\"", "\"hidden_act\" has a value"},
        {"roberta", "\"max_position_embeddings\": 514, \"pad_token_id\": 513", "it must be more than 514"},
        {"roberta", "\"pad_token_id\": -1", "\"pad_token_id\" is -1"},
        {"distilbert", "\"sinusoidal_pos_embds\": true", "\"sinusoidal_pos_embds\" is true"},
        {"distilbert", "\"dim\": 12, \"hidden_size\": 24", "\"hidden_size\" contradicts"},
        {"modernbert", "\"norm_bias\": true", "\"norm_bias\" is true"},
        {"modernbert", "\"mlp_dropout\": 0.1", "\"mlp_dropout\" is not 0"},
        {"mpnet", "\"relative_attention_num_buckets\": 64", "\"relative_attention_num_buckets\" is not 32"},
        {"modernbert", "\"classifier_activation\": \"silu\"", "\"classifier_activation\" has a value"},
        {"modernbert", "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2}", "\"rope_scaling\" is given"},
        {"granite", "\"logits_scaling\": 0", "\"logits_scaling\" is 0; it must be in [1e-06, 1e+06]"},
        {"granite", "\"residual_multiplier\": -1", "\"residual_multiplier\" is -1"},
        {"granitemoe", "", "model type \"granitemoe\" is not supported"},
        {"minicpm", "\"sparse_config\": {\"topk\": 64}", "\"sparse_config\" is given"},
        {"minicpm", "\"dim_model_base\": 0", "\"dim_model_base\" is 0"},
        {"minicpm", "\"num_experts\": 8", "\"num_experts\" is given"},
        {"gpt_neox", "\"rotary_pct\": 0.265",
         "need a positive and even number"}, /* transformers rotates one element more */
        {"gpt_neox", "\"rotary_pct\": 0", "\"rotary_pct\" is 0; it must be in [1e-06, 1]"},
        {"gpt_neox", "\"rope_theta\": 7", "\"rope_theta\" contradicts"},
        {"gpt_neox", "\"partial_rotary_factor\": 0.5", "given twice with different values"},
        {"gpt_neox", "\"head_dim\": 7", "\"head_dim\" is given"},
        {"gpt_neox", "\"hidden_dropout\": 1", "hidden_dropout"},
        {"gpt2", "\"sliding_window\": 7", "sliding_window"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refusal(cases[i][0], cases[i][1], cases[i][2]);
}
END_TEST

/* -- round trips -- */

static const struct {
    const char *folder, *family, *chosen;
} models[] = {
    {"gpt2", "gpt2", "gpt2"},
    {"llama", "llama", "llama"},
    {"mistral", "mistral", "mistral"},
    {"smollm3", "smollm3", "smollm3"},
    {"qwen2", "qwen2", "qwen2"},
    {"qwen3", "qwen3", "qwen3"},
    {"phi3", "phi3", "llama"},
    {"olmo2", "olmo2", "olmo2"},
    {"gemma2", "gemma2", "gemma2"},
    {"gemma3", "gemma3_text", "gemma3_text"},
    {"gpt_neox", "gpt_neox", "gpt_neox"},
    {"phi", "phi", "phi"},
    {"granite", "granite", "granite"},
    {"gemma3_pictures", "gemma3_text", "gemma3_text"},
    {"bert", "bert", "bert"},
    {"roberta", "roberta", "roberta"},
    {"roberta", "xlm-roberta", "roberta"},
    {"distilbert", "distilbert", "distilbert"},
    {"modernbert", "modernbert", "modernbert"},
};
enum { MODELS = sizeof models / sizeof *models, DECODERS = MODELS - 5 };

static th_module *fixture(int i)
{
    char name[200];
    snprintf(name, sizeof name, FOLDER "%s", models[i].folder);
    th_module *model = th_language_model_from_pretrained(ctx, name);
    no_error();
    return model;
}

static void expect_family(const char *family)
{
    char text[8192], field[64];
    FILE *file = fopen(in_directory("config.json"), "rb");
    ck_assert_ptr_nonnull(file);
    const size_t bytes = fread(text, 1, sizeof text - 1, file);
    text[bytes] = 0;
    fclose(file);
    snprintf(field, sizeof field, "\"model_type\": \"%s\"", family);
    ck_assert_msg(strstr(text, field) != NULL, "%s is not in %s", field, text);
}

static double largest_difference(th_module *a, th_module *b)
{
    th_tensor *tokens = th_random_integers(ctx, TH_INT32, TH_SHAPE(2, 8), 0, 13);
    const double *x = th_data_const(th_cast(th_module_evaluate(a, tokens), TH_FLOAT64)),
                 *y = th_data_const(th_cast(th_module_evaluate(b, tokens), TH_FLOAT64));
    double difference = 0;
    no_error();
    for (int i = 0; i < 2 * 8 * 13; i++)
        difference = fmax(difference, fabs(x[i] - y[i]));
    return difference;
}

/* As its own family, a model has the same bits again. As the chosen family, it computes the same. */
START_TEST(test_round_trips)
{
    th_module *model = fixture(_i);
    const th_export_options named = {.family = models[_i].family};
    ck_assert_int_eq(th_language_model_export(model, directory, &named), TH_OK);
    expect_family(models[_i].family);
    th_module *again = th_language_model_from_pretrained(ctx, directory);
    no_error();
    ck_assert_uint_eq(th_module_crc32c(model), th_module_crc32c(again));
    ck_assert(largest_difference(model, again) == 0);
    ck_assert_int_eq(th_pretrained_load(model, directory, NULL), TH_OK);
    ck_assert_int_eq(th_language_model_export(model, directory, NULL), TH_OK);
    expect_family(models[_i].chosen);
    again = th_language_model_from_pretrained(ctx, directory);
    no_error();
    ck_assert(largest_difference(model, again) == 0);
}
END_TEST

/* The file has the rounded weights, and an option that it does not have is an error. */
START_TEST(test_rounded)
{
    th_module *model = fixture(_i / 2);
    const th_export_options rounded = {.family = models[_i / 2].family, .type = _i % 2 ? TH_FLOAT16 : TH_BFLOAT16};
    ck_assert_int_eq(th_language_model_export(model, directory, &rounded), TH_OK);
    th_module *again = th_language_model_from_pretrained(ctx, directory);
    no_error();
    for (th_parameter_iterator p = th_module_parameters(model), q = th_module_parameters(again);
         th_parameter_next(&p) && th_parameter_next(&q);) {
        const float *expected = th_data_const(th_cast(th_cast(p.tensor, rounded.type), TH_FLOAT32));
        no_error();
        ck_assert(memcmp(expected, th_data_const(q.tensor), (size_t)th_numel(p.tensor) * sizeof *expected) == 0);
    }
    th_safetensors *file = th_safetensors_open(ctx, directory);
    for (int64_t i = 0; i < th_safetensors_count(file); i++)
        ck_assert_str_eq(th_safetensors_at(file, i)->type, _i % 2 ? "F16" : "BF16");
    th_safetensors_close(file);
    expect_status(th_language_model_export(model, directory, &(th_export_options){.type = TH_Q8_0}), TH_ERROR_TYPE,
                  "q8_0");
}
END_TEST

/* The order of rows changes, in norms of queries and keys too, but the logits do not. */
START_TEST(test_neighbors_become_halves)
{
    th_language_model_options o = *th_language_model_options_of(fixture(_i));
    o.width = 32;
    o.heads = 4;
    o.block.kv_heads = o.block.gated ? 2 : 4;
    o.block.head_width = 8;
    if (o.embedding_scale > 0)
        o.embedding_scale = sqrt(32);
    if (o.block.scores.rotary_width > 0)
        o.block.scores.rotary_width = 4;
    o.block.scores.rotary_pairing = o.other_scores.rotary_pairing = TH_ROTARY_NEIGHBORS;
    th_module *model = th_language_model_new(ctx, &o);
    no_error();
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
        ck_assert_int_eq(th_fill_normal(p.tensor, 0.1, 0.6), TH_OK);
    ck_assert_int_eq(th_language_model_export(model, directory, &(th_export_options){.family = models[_i].family}),
                     TH_OK);
    th_module *again = th_language_model_from_pretrained(ctx, directory);
    no_error();
    ck_assert_uint_ne(th_module_crc32c(model), th_module_crc32c(again));
    ck_assert_double_le(largest_difference(again, model), 2e-5);
}
END_TEST

/* -- families that are named, and options that they lack -- */

START_TEST(test_named_family)
{
    th_module *model = fixture(2);
    expect_status(th_language_model_export(model, directory, &(th_export_options){.family = "bloom"}),
                  TH_ERROR_ARGUMENT, "unknown family \"bloom\"");
    expect_status(th_language_model_export(model, directory, &(th_export_options){.family = "llama"}),
                  TH_ERROR_ARGUMENT, "the family is Llama, which does not support this model's .block.scores.window");
    expect_status(th_language_model_export(model, directory, &(th_export_options){.family = "gpt2"}), TH_ERROR_ARGUMENT,
                  ".positions, ");
    ck_assert_int_ne(access(in_directory("config.json"), F_OK), 0);
    /* a scale that is not 1 / sqrt of an integer */
    th_language_model_options o = *th_language_model_options_of(fixture(8));
    o.block.scale = 0.3;
    expect_status(th_language_model_export(th_language_model_new(ctx, &o), directory, NULL), TH_ERROR_ARGUMENT,
                  "Gemma 2, which does not support this model's .block.scale");
    /* other scores that equal the usual ones */
    o = *th_language_model_options_of(fixture(1));
    const bool second[2] = {false, true};
    o.other_layers = second;
    o.other_scores = o.block.scores;
    ck_assert_int_eq(th_language_model_export(th_language_model_new(ctx, &o), directory, NULL), TH_OK);
    expect_family("llama");
    o.other_scores.rotary_base = 7;
    expect_status(th_language_model_export(th_language_model_new(ctx, &o), directory, NULL), TH_ERROR_ARGUMENT,
                  "Llama, which does not support this model's .other_scores.rotary_base");
}
END_TEST

/* Every fixture is loaded only into a model with its options. */
START_TEST(test_options_that_differ)
{
    const struct {
        int fixture;
        const char *words;
        th_language_model_options changed;
    } cases[] = {
        {2, "the model's .block.scores.window is 0, config.json", {.block.scores.window = 3}},
        {3, "the model's .other_scores.rotary is 1, config.json", {.other_scores.rotary = true}},
        {5, "the model's .block.scores.qk_norm_eps is 0.5, config.json", {.block.scores.qk_norm_eps = 0.5}},
        {8, "the model's .logit_soft_cap is 7, config.json", {.logit_soft_cap = 7}},
        {9, "the model's .embedding_scale is 7, config.json", {.embedding_scale = 7}},
        {10, "the model's .block.scores.rotary_width is 4, config.json", {.block.scores.rotary_width = 4}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[200];
        const th_language_model_options *c = &cases[i].changed;
        th_language_model_options o = *th_language_model_options_of(fixture(cases[i].fixture));
        snprintf(name, sizeof name, FOLDER "%s", models[cases[i].fixture].folder);
        ck_assert_int_eq(th_pretrained_load(th_language_model_new(ctx, &o), name, NULL), TH_OK);
        if (c->block.scores.window)
            o.block.scores.window = 0;
        if (c->other_scores.rotary)
            o.other_scores.rotary = true;
        if (c->block.scores.qk_norm_eps > 0)
            o.block.scores.qk_norm_eps = c->block.scores.qk_norm_eps;
        if (c->logit_soft_cap > 0)
            o.logit_soft_cap = c->logit_soft_cap;
        if (c->embedding_scale > 0)
            o.embedding_scale = c->embedding_scale;
        if (c->block.scores.rotary_width)
            o.block.scores.rotary_width = c->block.scores.rotary_width;
        expect_status(th_pretrained_load(th_language_model_new(ctx, &o), name, NULL), TH_ERROR_ARGUMENT,
                      cases[i].words);
    }
}
END_TEST

/* Also allocations of packed tensors. */
START_TEST(test_out_of_memory)
{
    static const char *const folders[] = {FOLDER "phi3", FOLDER "gpt_neox", FOLDER "gemma3"};
    static const char *const families[] = {"phi3", "gpt_neox", "gemma3_text"};
    export_without_memory(folders[_i], families[_i]);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("hugging_face_families", setup, teardown);
    tcase_add_loop_test(tests, test_defaults, 0, DEFAULTS);
    tcase_add_test(tests, test_options_of_families);
    tcase_add_test(tests, test_kinds_of_layers);
    tcase_add_test(tests, test_rotary_positions);
    tcase_add_test(tests, test_refused_fields);
    tcase_add_loop_test(tests, test_round_trips, 0, MODELS);
    tcase_add_loop_test(tests, test_rounded, 0, 2 * MODELS);
    tcase_add_loop_test(tests, test_neighbors_become_halves, 1, DECODERS);
    tcase_add_test(tests, test_named_family);
    tcase_add_test(tests, test_options_that_differ);
    tcase_add_loop_test(tests, test_out_of_memory, 0, 3);
    return run_suites();
}
