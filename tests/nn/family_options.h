/* Language models with the options of several families, and each option alone. All are small. */
#ifndef TESTS_FAMILY_OPTIONS_H
#define TESTS_FAMILY_OPTIONS_H

#include "tapehead/language_model.h"

enum { V = 11, E = 8, H = 4, KV = 2, D = 4, MLP = 6, LAYERS = 3, LENGTH = 9 };

#define SIZES .vocabulary = V, .length = LENGTH, .width = E, .heads = H, .layers = LAYERS
#define LLAMA_BLOCK .norm = TH_RMS_NORM, .gated = true, .mlp_width = MLP, .kv_heads = KV
static const bool second_layer[LAYERS] = {false, true, false}, no_layer[LAYERS];

typedef struct family {
    const char *name;
    th_language_model_options options;
} family;

static const family families[] = {
    {"Gemma 2",
     {SIZES, .positions = TH_POSITIONS_NONE, .embedding_scale = 2.8, .logit_soft_cap = 1.5,
      .block = {LLAMA_BLOCK, .no_bias = true, .head_width = D, .output_norm = true, .unit_offset = true, .scale = 0.4,
                .scores = {.rotary = true, .soft_cap = 2, .window = 2}},
      .other_scores = {.rotary = true, .soft_cap = 2}, .other_layers = second_layer}},
    {"Gemma 3",
     {SIZES, .positions = TH_POSITIONS_NONE, .embedding_scale = 2.8,
      .block = {LLAMA_BLOCK, .no_bias = true, .head_width = D, .output_norm = true, .unit_offset = true, .scale = 0.7,
                .scores = {.rotary = true, .rotary_base = 100, .qk_norm = true, .window = 3}},
      .other_scores = {.rotary = true,
                       .rotary_base = 5000,
                       .rotary_scaling = {.kind = TH_ROTARY_LINEAR, .factor = 8},
                       .qk_norm = true,
                       .qk_norm_eps = 1e-6},
      .other_layers = second_layer}},
    {"OLMo 2",
     {SIZES, .positions = TH_POSITIONS_NONE, .untied = true,
      .block = {LLAMA_BLOCK, .no_bias = true, .activation = TH_SILU, .output_norm = true, .no_input_norm = true,
                .scores = {.rotary = true, .qk_norm_whole = true, .qk_norm_eps = 1e-6}}}},
    {"Qwen 2",
     {SIZES, .positions = TH_POSITIONS_NONE,
      .block = {LLAMA_BLOCK, .activation = TH_SILU, .no_output_bias = true, .no_mlp_bias = true,
                .scores = {.rotary = true}}}},
    {"Qwen 3",
     {SIZES, .positions = TH_POSITIONS_NONE,
      .block = {LLAMA_BLOCK, .no_bias = true, .activation = TH_SILU, .head_width = D,
                .scores = {.rotary = true, .qk_norm = true}}}},
    {"GPT-NeoX",
     {SIZES, .positions = TH_POSITIONS_NONE, .untied = true,
      .block =
          {.activation = TH_GELU, .parallel = true, .head_width = D, .scores = {.rotary = true, .rotary_width = 2}}}},
    {"Phi-2",
     {SIZES, .positions = TH_POSITIONS_NONE, .untied = true, .classifier_bias = true,
      .block = {.parallel = true, .shared_norm = true, .scores = {.rotary = true, .rotary_width = 2}}}},
    {"Granite",
     {SIZES, .positions = TH_POSITIONS_NONE, .embedding_scale = 3, .logit_divisor = 4,
      .block = {LLAMA_BLOCK, .no_bias = true, .activation = TH_SILU, .scale = 0.3, .branch_scale = 0.25,
                .scores = {.rotary = true}}}},
    {"branch_scale, post_norm", {SIZES, .block = {.post_norm = true, .branch_scale = 1.5}}},
    {"branch_scale, output_norm, parallel, shared_norm",
     {SIZES, .block = {.output_norm = true, .parallel = true, .shared_norm = true, .branch_scale = 0.5}}},
    {"classifier_bias, logit_divisor, logit_soft_cap",
     {SIZES, .untied = true, .classifier_bias = true, .logit_divisor = 0.5, .logit_soft_cap = 2}},
    {"SmolLM 3",
     {SIZES, .positions = TH_POSITIONS_NONE,
      .block = {LLAMA_BLOCK, .no_bias = true, .activation = TH_SILU, .scores = {.rotary = true}},
      .other_layers = second_layer}},
    {"GPT-2 with scale_attn_by_inverse_layer_idx", {SIZES, .scale_by_layer = true}},
    {"scale_by_layer, scale", {SIZES, .scale_by_layer = true, .block = {.scale = 1.25}}},
    {"output_norm, layer norms", {SIZES, .block = {.output_norm = true}}},
    {"output_norm, unit_offset, parallel",
     {SIZES, .block = {.norm = TH_RMS_NORM, .output_norm = true, .unit_offset = true, .parallel = true}}},
    {"no_input_norm, parallel, gated",
     {SIZES, .block = {.output_norm = true, .no_input_norm = true, .parallel = true, .gated = true}}},
    {"parallel, no_mlp", {SIZES, .block = {.parallel = true, .no_mlp = true}}},
    {"output_norm, no_mlp", {SIZES, .block = {.output_norm = true, .no_mlp = true, .no_output_bias = true}}},
    {"unit_offset, post_norm", {SIZES, .block = {.unit_offset = true, .post_norm = true, .scores = {.qk_norm = true}}}},
    {"qk_norm_whole, packed projections",
     {SIZES, .block = {.no_output_bias = true, .scores = {.qk_norm_whole = true}}}},
    {"qk_norm_whole, qk_norm_unit_offset",
     {SIZES, .block = {.kv_heads = 1, .scores = {.qk_norm_whole = true, .qk_norm_unit_offset = true}}}},
    {"embedding_scale, learned positions", {SIZES, .embedding_scale = 0.5}},
    {"logit_soft_cap, untied", {SIZES, .untied = true, .logit_soft_cap = 0.75}},
    {"tanh", {SIZES, .block = {LLAMA_BLOCK, .activation = TH_TANH}}},
    {"relu_squared, gated", {SIZES, .block = {LLAMA_BLOCK, .activation = TH_RELU_SQUARED}}},
    {"embedding_norm, qk_norm_no_weight",
     {SIZES, .positions = TH_POSITIONS_NONE, .untied = true, .embedding_norm = true,
      .block = {.norm = TH_RMS_NORM,
                .activation = TH_RELU_SQUARED,
                .no_bias = true,
                .scores = {.rotary = true, .qk_norm = true, .qk_norm_no_weight = true, .qk_norm_eps = 1e-3}}}},
    {"embedding_norm, qk_norm_whole without weights",
     {SIZES, .embedding_norm = true, .block = {.scores = {.qk_norm_whole = true, .qk_norm_no_weight = true}}}},
    {"value_residual", {SIZES, .block = {.value_residual = true}}},
    {"value_residual, embedding_skip, kv_heads, parallel",
     {SIZES, .positions = TH_POSITIONS_NONE, .untied = true,
      .block = {LLAMA_BLOCK, .no_bias = true, .head_width = D, .parallel = true, .value_residual = true,
                .embedding_skip = true, .scores = {.rotary = true}}}},
    {"embedding_skip, post_norm", {SIZES, .block = {.post_norm = true, .embedding_skip = true}}},
    {"bigram_rows for each pair", {SIZES, .bigram_rows = V * V + 1}},
    {"bigram_rows by a hash", {SIZES, .bigram_rows = V * V}},
    {"every option of fast training",
     {SIZES, .positions = TH_POSITIONS_NONE, .untied = true, .embedding_norm = true, .bigram_rows = 17,
      .logit_soft_cap = 15,
      .block = {.norm = TH_RMS_NORM,
                .activation = TH_RELU_SQUARED,
                .no_bias = true,
                .value_residual = true,
                .embedding_skip = true,
                .scores = {.rotary = true, .qk_norm = true, .qk_norm_no_weight = true}}}},
    {"no other layer", {SIZES, .other_scores = {.window = 1}, .other_layers = no_layer}},
};
enum { FAMILIES = sizeof families / sizeof *families };

#endif
