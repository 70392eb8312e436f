/* Llama (Touvron et al. 2023), with which SmolLM 2 and many others are compatible, and the families that differ from
 * it in the attention of some layers: Mistral (Jiang et al. 2023) and SmolLM 3. */
#include "models/families/family.h"

const th_tensor_name th_llama_projections[] = {
    {"layers.*.self_attn.in_proj_weight", "model.layers.*.self_attn.q_proj.weight", TH_VIEW_QUERY, 0},
    {"layers.*.self_attn.in_proj_weight", "model.layers.*.self_attn.k_proj.weight", TH_VIEW_KEY, 0},
    {"layers.*.self_attn.in_proj_weight", "model.layers.*.self_attn.v_proj.weight", TH_VIEW_VALUE, 0},
    TH_NAME("layers.*.self_attn.q_proj_weight", "model.layers.*.self_attn.q_proj.weight"),
    TH_NAME("layers.*.self_attn.k_proj_weight", "model.layers.*.self_attn.k_proj.weight"),
    TH_NAME("layers.*.self_attn.v_proj_weight", "model.layers.*.self_attn.v_proj.weight"),
    {"layers.*.self_attn.in_proj_bias", "model.layers.*.self_attn.q_proj.bias", TH_VIEW_QUERY, 0},
    {"layers.*.self_attn.in_proj_bias", "model.layers.*.self_attn.k_proj.bias", TH_VIEW_KEY, 0},
    {"layers.*.self_attn.in_proj_bias", "model.layers.*.self_attn.v_proj.bias", TH_VIEW_VALUE, 0},
    {0},
};

const th_tensor_name th_llama_tensors[] = {
    TH_NAME("embedding.weight", "model.embed_tokens.weight"),
    TH_NAME("layers.*.self_attn.q_norm.weight", "model.layers.*.self_attn.q_norm.weight"),
    TH_NAME("layers.*.self_attn.k_norm.weight", "model.layers.*.self_attn.k_norm.weight"),
    TH_NAME("layers.*.self_attn.out_proj.weight", "model.layers.*.self_attn.o_proj.weight"),
    TH_NAME("layers.*.self_attn.out_proj.bias", "model.layers.*.self_attn.o_proj.bias"),
    TH_NAME("layers.*.gate.weight", "model.layers.*.mlp.gate_proj.weight"),
    TH_NAME("layers.*.gate.bias", "model.layers.*.mlp.gate_proj.bias"),
    TH_NAME("layers.*.linear1.weight", "model.layers.*.mlp.up_proj.weight"),
    TH_NAME("layers.*.linear1.bias", "model.layers.*.mlp.up_proj.bias"),
    TH_NAME("layers.*.linear2.weight", "model.layers.*.mlp.down_proj.weight"),
    TH_NAME("layers.*.linear2.bias", "model.layers.*.mlp.down_proj.bias"),
    TH_NAME("norm.weight", "model.norm.weight"),
    TH_NAME("classifier.weight", "lm_head.weight"),
    {0},
};

const th_tensor_name th_llama_norms[] = {
    TH_NAME("layers.*.norm1.weight", "model.layers.*.input_layernorm.weight"),
    TH_NAME("layers.*.norm2.weight", "model.layers.*.post_attention_layernorm.weight"),
    {0},
};

static const th_family_field llama_fields[] = {
    TH_LLAMA_SIZES(32000, 2048, 4096, 11008, 32, 32),
    {"num_key_value_heads", TH_SIZE(block.kv_heads)},
    {"head_dim", TH_SIZE(block.head_width)},
    TH_SILU_AND_EPS(1e-6),
    TH_ATTENTION_BIAS,
    {"mlp_bias", TH_NOT(block.no_mlp_bias), .default_value = false},
    TH_ATTENTION_DROPOUT,
    TH_TIED(false),
    {0},
};

const th_family th_family_llama = {
    .model_type = "llama",
    .architecture = "LlamaForCausalLM",
    .title = "Llama",
    TH_LLAMA_NAMES(th_llama_norms),
    .fields = llama_fields,
    .options = {.positions = TH_POSITIONS_NONE,
                .block = {.norm = TH_RMS_NORM, .gated = true, .scores = {.rotary = true}}},
    .end_token = 2,
};

static const th_family_field mistral_fields[] = {
    TH_LLAMA_SIZES(32000, 131072, 4096, 14336, 32, 32),
    {"num_key_value_heads", TH_SIZE(block.kv_heads), .default_value = 8, .optional = true},
    {"head_dim", TH_SIZE(block.head_width)},
    TH_SILU_AND_EPS(1e-6),
    TH_ATTENTION_DROPOUT,
    TH_TIED(false),
    {0},
};

const th_family th_family_mistral = {
    .model_type = "mistral",
    .architecture = "MistralForCausalLM",
    .title = "Mistral",
    TH_LLAMA_NAMES(th_llama_norms),
    .fields = mistral_fields,
    .options = {.positions = TH_POSITIONS_NONE,
                .block = {.norm = TH_RMS_NORM, .gated = true, .no_bias = true, .scores = {.rotary = true}}},
    .layers = {.windows = TH_WINDOW_IN_ALL_LAYERS, .window = 4096},
    .end_token = 2,
};

static const th_family_field smollm3_fields[] = {
    TH_LLAMA_SIZES(128256, 32768, 2048, 11008, 36, 16),
    {"num_key_value_heads", TH_SIZE(block.kv_heads), .default_value = 4, .optional = true},
    {"head_dim", TH_SIZE(block.head_width)},
    TH_SILU_AND_EPS(1e-6),
    TH_ATTENTION_BIAS,
    {"mlp_bias", TH_NOT(block.no_mlp_bias), .default_value = false},
    TH_ATTENTION_DROPOUT,
    TH_TIED(true),
    {0},
};

const th_family th_family_smollm3 = {
    .model_type = "smollm3",
    .architecture = "SmolLM3ForCausalLM",
    .title = "SmolLM 3",
    TH_LLAMA_NAMES(th_llama_norms),
    .fields = smollm3_fields,
    .options = {.positions = TH_POSITIONS_NONE,
                .block = {.norm = TH_RMS_NORM, .gated = true, .scores = {.rotary = true}}},
    .rotary = {.base = 2e6},
    .layers = {.windows = TH_WINDOW_BY_LAYER, .has_switch = true, .rotary_except = 4},
    .end_token = 128001,
};
