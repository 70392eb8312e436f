/* Qwen 2 and 2.5 (biases of q, k and v) and Qwen 3 (norms of q and k). */
#include "models/families/family.h"

#define LAYERS .layers = {.windows = TH_WINDOW_BY_LAYER, .window = 4096, .has_switch = true, .window_from = 28}

static const th_family_field qwen2_fields[] = {
    TH_LLAMA_SIZES(151936, 32768, 4096, 22016, 32, 32),
    {"num_key_value_heads", TH_SIZE(block.kv_heads), .default_value = 32, .optional = true},
    {"head_dim", TH_SIZE(block.head_width)},
    TH_SILU_AND_EPS(1e-6),
    TH_ATTENTION_DROPOUT,
    TH_TIED(false),
    {0},
};

const th_family th_family_qwen2 = {
    .model_type = "qwen2",
    .architecture = "Qwen2ForCausalLM",
    .title = "Qwen 2",
    TH_LLAMA_NAMES(th_llama_norms),
    .fields = qwen2_fields,
    .options = {.positions = TH_POSITIONS_NONE,
                .block = {.norm = TH_RMS_NORM,
                          .gated = true,
                          .no_output_bias = true,
                          .no_mlp_bias = true,
                          .scores = {.rotary = true}}},
    LAYERS,
    .end_token = -1,
};

static const th_family_field qwen3_fields[] = {
    TH_LLAMA_SIZES(151936, 32768, 4096, 22016, 32, 32),
    {"num_key_value_heads", TH_SIZE(block.kv_heads), .default_value = 32, .optional = true},
    {"head_dim", TH_SIZE(block.head_width), .default_value = 128},
    TH_SILU_AND_EPS(1e-6),
    TH_ATTENTION_BIAS,
    TH_ATTENTION_DROPOUT,
    TH_TIED(false),
    {0},
};

const th_family th_family_qwen3 = {
    .model_type = "qwen3",
    .architecture = "Qwen3ForCausalLM",
    .encoder_architecture = "Qwen3Model",
    .title = "Qwen 3",
    TH_LLAMA_NAMES(th_llama_norms),
    .fields = qwen3_fields,
    .options = {.positions = TH_POSITIONS_NONE,
                .block = {.norm = TH_RMS_NORM,
                          .gated = true,
                          .no_mlp_bias = true,
                          .scores = {.rotary = true, .qk_norm = true}}},
    LAYERS,
    .end_token = -1,
};
