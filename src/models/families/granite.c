/* Granite 3 (Granite Team 2024) and MiniCPM (Hu et al. 2024): Llama whose embedding, branches and logits are scaled, so
 * that one learning rate fits models of every width (Yang et al. 2022). */
#include "models/families/family.h"

static const th_family_field granite_fields[] = {
    TH_LLAMA_SIZES(32000, 2048, 4096, 11008, 32, 32),
    {"num_key_value_heads", TH_SIZE(block.kv_heads)},
    {"head_dim", TH_SIZE(block.head_width)},
    TH_SILU_AND_EPS(1e-6),
    TH_ATTENTION_BIAS,
    {"mlp_bias", TH_NOT(block.no_mlp_bias), .default_value = false},
    TH_ATTENTION_DROPOUT,
    TH_TIED(false),
    {"embedding_multiplier", TH_MULTIPLIER(embedding_scale), .default_value = 1},
    {"attention_multiplier", TH_MULTIPLIER(block.scale), .default_value = 1},
    {"residual_multiplier", TH_MULTIPLIER(block.branch_scale), .default_value = 1},
    {"logits_scaling", TH_MULTIPLIER(logit_divisor), .default_value = 1},
    {0},
};

const th_family th_family_granite = {
    .model_type = "granite",
    .architecture = "GraniteForCausalLM",
    .title = "Granite",
    TH_LLAMA_NAMES(th_llama_norms),
    .fields = granite_fields,
    .options = {.positions = TH_POSITIONS_NONE,
                .block = {.norm = TH_RMS_NORM, .gated = true, .scores = {.rotary = true}}},
    .end_token = 2,
};

static const th_family_field minicpm_fields[] = {
    TH_LLAMA_SIZES(32000, 2048, 4096, 11008, 32, 32),
    {"num_key_value_heads", TH_SIZE(block.kv_heads)},
    {"head_dim", TH_SIZE(block.head_width)},
    TH_SILU_AND_EPS(1e-6),
    TH_ATTENTION_BIAS,
    TH_ATTENTION_DROPOUT,
    TH_TIED(true),
    {"scale_emb", TH_MULTIPLIER(embedding_scale), .default_value = 1},
    {"scale_depth", .kind = TH_FIELD_ROOT_OF_LAYERS, .member = TH_MEMBER(block.branch_scale),
     .range = TH_MULTIPLIER_RANGE, .default_value = 1},
    {"dim_model_base", .kind = TH_FIELD_PART_OF_WIDTH, .member = TH_MEMBER(logit_divisor), .default_value = 1},
    {"sparse_config", .kind = TH_FIELD_NULL}, /* attention to parts of long texts (MiniCPM 4) */
    {"num_experts", .kind = TH_FIELD_NULL},   /* MiniCPM-MoE */
    {0},
};

const th_family th_family_minicpm = {
    .model_type = "minicpm",
    .architecture = "MiniCPMForCausalLM",
    .title = "MiniCPM",
    TH_LLAMA_NAMES(th_llama_norms),
    .fields = minicpm_fields,
    .options = {.positions = TH_POSITIONS_NONE,
                .block = {.norm = TH_RMS_NORM, .gated = true, .no_mlp_bias = true, .scores = {.rotary = true}}},
    .end_token = 2,
};
