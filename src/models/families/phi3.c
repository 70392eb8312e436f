/* Phi-3 (Abdin et al. 2024): Llama with packed projections, and dropout after each branch. */
#include "models/families/family.h"

static const th_tensor_name tensors[] = {
    TH_NAME("embedding.weight", "model.embed_tokens.weight"),
    TH_NAME("layers.*.norm1.weight", "model.layers.*.input_layernorm.weight"),
    TH_NAME("layers.*.self_attn.in_proj_weight", "model.layers.*.self_attn.qkv_proj.weight"),
    {"layers.*.self_attn.q_proj_weight", "model.layers.*.self_attn.qkv_proj.weight", TH_VIEW_WHOLE, 0},
    {"layers.*.self_attn.k_proj_weight", "model.layers.*.self_attn.qkv_proj.weight", TH_VIEW_WHOLE, 1},
    {"layers.*.self_attn.v_proj_weight", "model.layers.*.self_attn.qkv_proj.weight", TH_VIEW_WHOLE, 2},
    TH_NAME("layers.*.self_attn.out_proj.weight", "model.layers.*.self_attn.o_proj.weight"),
    TH_NAME("layers.*.norm2.weight", "model.layers.*.post_attention_layernorm.weight"),
    {"layers.*.gate.weight", "model.layers.*.mlp.gate_up_proj.weight", TH_VIEW_WHOLE, 0},
    {"layers.*.linear1.weight", "model.layers.*.mlp.gate_up_proj.weight", TH_VIEW_WHOLE, 1},
    TH_NAME("layers.*.linear2.weight", "model.layers.*.mlp.down_proj.weight"),
    TH_NAME("norm.weight", "model.norm.weight"),
    TH_NAME("classifier.weight", "lm_head.weight"),
    {0},
};

static const th_family_field fields[] = {
    TH_LLAMA_SIZES(32064, 4096, 3072, 8192, 32, 32),
    {"num_key_value_heads", TH_SIZE(block.kv_heads)},
    {"head_dim", TH_SIZE(block.head_width)},
    TH_SILU_AND_EPS(1e-5),
    TH_ATTENTION_DROPOUT,
    {"resid_pdrop", TH_RATE(block.dropout), .default_value = 0},
    TH_TIED(false),
    {0},
};

const th_family th_family_phi3 = {
    .model_type = "phi3",
    .architecture = "Phi3ForCausalLM",
    .title = "Phi-3",
    .prefix = "model.",
    .embedding = "model.embed_tokens.weight",
    .classifier = "lm_head.weight",
    .tensors = {tensors},
    .fields = fields,
    .options = {.positions = TH_POSITIONS_NONE,
                .block = {.norm = TH_RMS_NORM, .gated = true, .no_bias = true, .scores = {.rotary = true}}},
    .rotary = {.rotated_fraction_key = "partial_rotary_factor",
               .rotated_fraction = 1,
               .original_length = 4096,
               .has_longrope_aliases = true},
    .layers = {.windows = TH_WINDOW_IN_ALL_LAYERS},
    .end_token = 32000,
};
