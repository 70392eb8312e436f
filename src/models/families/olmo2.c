/* OLMo 2 (OLMo Team 2025): norms at the end of each branch only, and norms of whole queries and keys. */
#include "models/families/family.h"

static const th_tensor_name norms[] = {
    TH_NAME("layers.*.norm1_out.weight", "model.layers.*.post_attention_layernorm.weight"),
    TH_NAME("layers.*.norm2_out.weight", "model.layers.*.post_feedforward_layernorm.weight"),
    {0},
};

static const th_family_field fields[] = {
    TH_LLAMA_SIZES(50304, 2048, 4096, 11008, 32, 32),
    {"num_key_value_heads", TH_SIZE(block.kv_heads)},
    {"head_dim", TH_SIZE(block.head_width)},
    TH_SILU_AND_EPS(1e-5),
    TH_ATTENTION_BIAS,
    TH_ATTENTION_DROPOUT,
    TH_TIED(false),
    {0},
};

const th_family th_family_olmo2 = {
    .model_type = "olmo2",
    .architecture = "Olmo2ForCausalLM",
    .title = "OLMo 2",
    TH_LLAMA_NAMES(norms),
    .fields = fields,
    .options = {.positions = TH_POSITIONS_NONE,
                .block = {.norm = TH_RMS_NORM,
                          .gated = true,
                          .output_norm = true,
                          .no_input_norm = true,
                          .no_mlp_bias = true,
                          .scores = {.rotary = true, .qk_norm_whole = true}}},
    .end_token = 50279,
};
