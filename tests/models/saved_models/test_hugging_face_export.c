/* Models written for transformers: they load again with the same weights, and options that no family has are errors. */
#include <string.h>

#include "tapehead/models.h"

#include "hugging_face_models.h"

/* A model that was exported and loaded has the same options, parameters and bits. */
static void round_trip(th_module *model)
{
    ck_assert_int_eq(th_language_model_export(model, directory, NULL), TH_OK);
    th_module *again = th_language_model_from_pretrained(ctx, directory);
    no_error();
    const th_language_model_options *a = th_language_model_options_of(model), *b = th_language_model_options_of(again);
    ck_assert(a->vocabulary == b->vocabulary && a->length == b->length && a->width == b->width &&
              a->heads == b->heads && a->layers == b->layers && a->positions == b->positions && a->untied == b->untied);
    ck_assert(a->block.mlp_width == b->block.mlp_width && a->block.kv_heads == b->block.kv_heads &&
              a->block.activation == b->block.activation && a->block.eps == b->block.eps &&
              a->block.no_bias == b->block.no_bias && a->block.attention_dropout == b->block.attention_dropout);
    const th_rotary_scaling *s = &a->block.scores.rotary_scaling, *t = &b->block.scores.rotary_scaling;
    ck_assert(s->kind == t->kind && s->factor == t->factor && s->low_freq_factor == t->low_freq_factor &&
              s->high_freq_factor == t->high_freq_factor && s->original_length == t->original_length &&
              s->attention_factor == t->attention_factor && s->beta_fast == t->beta_fast &&
              s->beta_slow == t->beta_slow && s->mscale == t->mscale && s->mscale_all_dim == t->mscale_all_dim &&
              s->no_truncate == t->no_truncate && s->n_factors == t->n_factors);
    for (int64_t i = 0; i < s->n_factors; i++)
        ck_assert(s->short_factor[i] == t->short_factor[i] && s->long_factor[i] == t->long_factor[i]);
    ck_assert_uint_eq(th_module_crc32c(model), th_module_crc32c(again));
}

START_TEST(test_round_trip)
{
    th_module *model = th_language_model_from_pretrained(ctx, _i == 0 ? FOLDER "gpt2" : FOLDER "llama");
    round_trip(model);
    /* options whose numbers have no short decimals */
    round_trip(th_language_model_new(
        ctx, &(th_language_model_options){
                 .vocabulary = 5,
                 .length = 6,
                 .width = 8,
                 .heads = 2,
                 .layers = 1,
                 .untied = _i == 1,
                 .dropout = 1. / 3,
                 .block = {.activation = _i == 0 ? TH_RELU : TH_SILU, .eps = 1e-5 / 3, .attention_dropout = 1. / 7}}));
}
END_TEST

static const th_language_model_options llama = {
    .vocabulary = 5,
    .length = 6,
    .width = 8,
    .heads = 2,
    .layers = 1,
    .positions = TH_POSITIONS_NONE,
    .untied = true,
    .block = {.norm = TH_RMS_NORM, .gated = true, .activation = TH_SILU, .no_bias = true, .scores = {.rotary = true}},
};

/* Biases of attention alone or of the MLP alone exist as in LlamaForCausalLM. */
START_TEST(test_round_trip_of_biases)
{
    th_language_model_options o = llama;
    o.block.no_bias = false;
    o.block.no_attention_bias = _i == 0;
    o.block.no_mlp_bias = _i == 1;
    th_module *model = th_language_model_new(ctx, &o);
    ck_assert_int_eq(th_module_find_parameter(model, "layers.0.self_attn.in_proj_bias") != NULL, _i == 1);
    ck_assert_int_eq(th_module_find_parameter(model, "layers.0.self_attn.out_proj.bias") != NULL, _i == 1);
    ck_assert_int_eq(th_module_find_parameter(model, "layers.0.linear1.bias") != NULL, _i == 0);
    ck_assert_int_eq(th_module_find_parameter(model, "layers.0.linear2.bias") != NULL, _i == 0);
    ck_assert_int_eq(th_module_find_parameter(model, "layers.0.gate.bias") != NULL, _i == 0);
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
        ck_assert_int_eq(th_fill_normal(p.tensor, 0.2, 1), TH_OK);
    round_trip(model);
}
END_TEST

START_TEST(test_round_trip_of_scaling)
{
    static const double short_factor[2] = {1, 1. / 3}, long_factor[2] = {1. / 7, 2};
    static const th_rotary_scaling scalings[] = {
        {TH_ROTARY_LINEAR, .factor = 4. / 3},
        {TH_ROTARY_LLAMA3, .factor = 8, .low_freq_factor = 1. / 3, .high_freq_factor = 4, .original_length = 8192},
        {TH_ROTARY_DYNAMIC, .factor = 1.5, .original_length = 4},
        {TH_ROTARY_YARN, .factor = 4. / 3, .original_length = 3},
        {TH_ROTARY_YARN, .factor = 4, .original_length = 3, .attention_factor = 1. / 3, .beta_fast = 20,
         .beta_slow = 1. / 7, .mscale = 2, .mscale_all_dim = 3, .no_truncate = true},
        {TH_ROTARY_LONGROPE, .factor = 4, .original_length = 3, .short_factor = short_factor,
         .long_factor = long_factor, .n_factors = 2},
    };
    th_language_model_options o = llama;
    o.block.scores.rotary_scaling = scalings[_i];
    th_module *model = th_language_model_new(ctx, &o);
    round_trip(model);
    o.block.scores.rotary_base = 10000;
    o.block.eps = 1e-5;
    ck_assert_int_eq(th_pretrained_load(th_language_model_new(ctx, &o), directory, NULL), TH_OK);
    if (scalings[_i].kind == TH_ROTARY_LONGROPE) {
        o.block.scores.rotary_scaling.long_factor = short_factor;
        expect_status(th_pretrained_load(th_language_model_new(ctx, &o), directory, NULL), TH_ERROR_ARGUMENT,
                      "long_factor is 1, config.json in");
    }
    o.block.scores.rotary_scaling.factor = 9;
    expect_status(th_pretrained_load(th_language_model_new(ctx, &o), directory, NULL), TH_ERROR_ARGUMENT,
                  "rotary_scaling.factor is 9, config.json");
    o.block.scores.rotary_scaling = (th_rotary_scaling){0};
    expect_status(th_pretrained_load(th_language_model_new(ctx, &o), directory, NULL), TH_ERROR_ARGUMENT,
                  "rotary_scaling.kind is 0");
}
END_TEST

/* The order of rows changes, but the logits do not. */
START_TEST(test_neighbors_become_halves)
{
    th_language_model_options o = llama;
    o.block.scores.rotary_pairing = TH_ROTARY_NEIGHBORS;
    o.block.no_bias = _i == 0;
    o.block.kv_heads = 1 + _i;
    th_module *model = th_language_model_new(ctx, &o);
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
        ck_assert_int_eq(th_fill_normal(p.tensor, 0.2, 1), TH_OK);
    ck_assert_int_eq(th_language_model_export(model, directory, NULL), TH_OK);
    th_module *again = th_language_model_from_pretrained(ctx, directory);
    no_error();
    ck_assert(th_language_model_options_of(again)->block.scores.rotary_pairing == TH_ROTARY_HALVES);
    ck_assert_uint_ne(th_module_crc32c(model), th_module_crc32c(again));
    th_tensor *tokens = th_random_integers(ctx, TH_INT32, TH_SHAPE(2, 6), 0, 5);
    assert_close(th_module_evaluate(again, tokens), th_module_evaluate(model, tokens), 1e-5, "logits");
}
END_TEST

static void expect_objection(th_language_model_options o, const char *words)
{
    th_module *model = th_language_model_new(ctx, &o);
    no_error();
    expect_status(th_language_model_export(model, directory, NULL), TH_ERROR_ARGUMENT, words);
    ck_assert_int_ne(access(in_directory("config.json"), F_OK), 0);
    th_module_free(model);
}

START_TEST(test_options_that_cannot_be_expressed)
{
    const th_language_model_options gpt2 = {.vocabulary = 5, .length = 6, .width = 8, .heads = 2, .layers = 1};
    const struct {
        th_transformer_block_options block;
        const char *words;
    } blocks[] = {
        {{.post_norm = true}, "The closest is GPT-2, which does not support this model's .block.post_norm"},
        {{.no_mlp = true}, ".block.no_mlp"},
        {{.gated = true, .no_bias = true}, "GPT-2, which does not support this model's .block.gated, .block.no_bias"},
        {{.no_attention_bias = true}, ".block.no_attention_bias"},
        {{.no_output_bias = true}, "model's .block.no_output_bias"},
        {{.no_mlp_bias = true}, ".block.no_mlp_bias"},
        {{.norm = TH_RMS_NORM}, "model's .block.norm"},
        {{.kv_heads = 1}, "model's .block.kv_heads"},
        {{.head_width = 6}, ".block.head_width"},
        {{.scale = 0.1}, "model's .block.scale"},
        {{.scores = {.rotary = true}}, "GPT-2, which does not support this model's .block.scores.rotary"},
        {{.scores = {.alibi = true}}, ".block.scores.alibi"},
        {{.scores = {.qk_norm = true}}, ".block.scores.qk_norm"},
        {{.scores = {.soft_cap = 5}}, ".block.scores.soft_cap"},
        {{.scores = {.window = 3}}, ".block.scores.window"},
        {{.scores = {.qk_norm_whole = true}}, ".block.scores.qk_norm_whole"},
        {{.output_norm = true}, ".block.output_norm"},
        {{.parallel = true}, ".block.parallel"},
        {{.unit_offset = true}, ".block.unit_offset"},
        {{.no_output_bias = true}, ".block.no_output_bias"},
        {{.scale = 0.2}, ".block.scale"},
        {{.value_residual = true}, "model's .block.value_residual"},
        {{.embedding_skip = true}, "model's .block.embedding_skip"},
    };
    const bool other_layers[1] = {true};
    th_language_model_options o = gpt2;
    o.embedding_scale = o.logit_soft_cap = 2;
    o.other_layers = other_layers;
    o.other_scores.soft_cap = 3;
    expect_objection(o, "model's .embedding_scale, .logit_soft_cap, .other_scores.soft_cap");
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        o = gpt2;
        o.block = blocks[i].block;
        expect_objection(o, blocks[i].words);
    }
    o = gpt2;
    o.positions = TH_POSITIONS_SINUSOIDAL;
    expect_objection(o, "model's .positions");
    o = gpt2;
    o.embedding_scale = 2;
    expect_objection(o, "model's .embedding_scale");
    o = llama;
    o.logit_soft_cap = 2;
    expect_objection(o, "Llama, which does not support this model's .logit_soft_cap");
    o = llama;
    o.bigram_rows = 26;
    o.embedding_norm = true;
    expect_objection(o, "Llama, which does not support this model's .bigram_rows, .embedding_norm");
    o = llama;
    o.block.scores.qk_norm = o.block.scores.qk_norm_no_weight = true;
    expect_status(
        th_language_model_export(th_language_model_new(ctx, &o), directory, &(th_export_options){.family = "qwen3"}),
        TH_ERROR_ARGUMENT, "Qwen 3, which does not support this model's .block.scores.qk_norm_no_weight");
}
END_TEST

START_TEST(test_misuse)
{
    th_module *model = th_language_model_new(ctx, &llama);
    expect_failure(th_language_model_from_pretrained(ctx, NULL) == NULL, TH_ERROR_ARGUMENT, "the folder is NULL");
    expect_failure(th_language_model_from_pretrained(ctx, directory) == NULL, TH_ERROR_FILE, "config.json");
    expect_status(th_pretrained_options(ctx, directory, NULL), TH_ERROR_ARGUMENT, "options is NULL");
    expect_status(th_pretrained_load(NULL, directory, NULL), TH_ERROR_ARGUMENT, "the module is NULL");
    expect_status(th_pretrained_load(model, NULL, NULL), TH_ERROR_ARGUMENT, "the folder is NULL");
    expect_status(th_language_model_export(NULL, directory, NULL), TH_ERROR_ARGUMENT, "the module is NULL");
    expect_status(th_language_model_export(model, NULL, NULL), TH_ERROR_ARGUMENT, "the folder is NULL");
    expect_status(th_language_model_export(model, "/dev/null/model", NULL), TH_ERROR_FILE, "/dev/null/model");
    expect_status(th_language_model_export(th_dense_new(ctx, 2, 2, NULL), directory, NULL), TH_ERROR_ARGUMENT, "dense");
    expect_status(th_language_model_export(model, directory, &(th_export_options){TH_END_TOKEN(5)}), TH_ERROR_ARGUMENT,
                  "end token 5 is outside the vocabulary of 5");
    write_config(small);
    expect_failure(th_language_model_from_pretrained(ctx, directory) == NULL, TH_ERROR_FILE, "model.safetensors");
}
END_TEST

START_TEST(test_shapes_only)
{
    th_context *shapes = th_context_new(&(th_context_options){.shapes_only = true});
    th_module *model = th_language_model_from_pretrained(shapes, FOLDER "llama");
    ck_assert_ptr_nonnull(model);
    ck_assert_int_eq(th_language_model_export(model, directory, NULL), TH_ERROR_STATE);
    th_context_free(shapes);
}
END_TEST

START_TEST(test_out_of_memory)
{
    export_without_memory(FOLDER "gpt2", NULL);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("hugging_face_export", setup, teardown);
    tcase_add_loop_test(tests, test_round_trip, 0, 2);
    tcase_add_loop_test(tests, test_round_trip_of_biases, 0, 2);
    tcase_add_loop_test(tests, test_round_trip_of_scaling, 0, 6);
    tcase_add_loop_test(tests, test_neighbors_become_halves, 0, 2);
    tcase_add_test(tests, test_options_that_cannot_be_expressed);
    tcase_add_test(tests, test_misuse);
    tcase_add_test(tests, test_shapes_only);
    tcase_add_test(tests, test_out_of_memory);
    return run_suites();
}
