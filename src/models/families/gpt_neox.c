/* GPT-NeoX (Black et al. 2022) and Pythia: parallel branches, and a part of each head is rotated. */
#include "models/families/family.h"

static const th_tensor_name tensors[] = {
    TH_NAME("embedding.weight", "gpt_neox.embed_in.weight"),
    TH_NAME("layers.*.norm1.weight", "gpt_neox.layers.*.input_layernorm.weight"),
    TH_NAME("layers.*.norm1.bias", "gpt_neox.layers.*.input_layernorm.bias"),
    {"layers.*.self_attn.in_proj_weight", "gpt_neox.layers.*.attention.query_key_value.weight", TH_VIEW_BY_HEAD, 0},
    {"layers.*.self_attn.in_proj_bias", "gpt_neox.layers.*.attention.query_key_value.bias", TH_VIEW_BY_HEAD, 0},
    TH_NAME("layers.*.self_attn.out_proj.weight", "gpt_neox.layers.*.attention.dense.weight"),
    TH_NAME("layers.*.self_attn.out_proj.bias", "gpt_neox.layers.*.attention.dense.bias"),
    TH_NAME("layers.*.norm2.weight", "gpt_neox.layers.*.post_attention_layernorm.weight"),
    TH_NAME("layers.*.norm2.bias", "gpt_neox.layers.*.post_attention_layernorm.bias"),
    TH_NAME("layers.*.linear1.weight", "gpt_neox.layers.*.mlp.dense_h_to_4h.weight"),
    TH_NAME("layers.*.linear1.bias", "gpt_neox.layers.*.mlp.dense_h_to_4h.bias"),
    TH_NAME("layers.*.linear2.weight", "gpt_neox.layers.*.mlp.dense_4h_to_h.weight"),
    TH_NAME("layers.*.linear2.bias", "gpt_neox.layers.*.mlp.dense_4h_to_h.bias"),
    TH_NAME("norm.weight", "gpt_neox.final_layer_norm.weight"),
    TH_NAME("norm.bias", "gpt_neox.final_layer_norm.bias"),
    TH_NAME("classifier.weight", "embed_out.weight"),
    {0},
};

static const th_family_field fields[] = {
    TH_LLAMA_SIZES(50432, 2048, 6144, 24576, 44, 64),
    {"hidden_act", .kind = TH_FIELD_ACTIVATION, .member = TH_MEMBER(block.activation), .name = "gelu"},
    {"layer_norm_eps", TH_EPS(block.eps), .default_value = 1e-5},
    {"attention_bias", TH_NOT(block.no_attention_bias), .default_value = true},
    {"use_parallel_residual", TH_FLAG(block.parallel), .default_value = true},
    {"hidden_dropout", TH_RATE(dropout), .default_value = 0},
    TH_ATTENTION_DROPOUT,
    TH_TIED(false),
    {"head_dim", .kind = TH_FIELD_NULL}, /* parts of transformers use it, others width / heads */
    {0},
};

const th_family th_family_gpt_neox = {
    .model_type = "gpt_neox",
    .architecture = "GPTNeoXForCausalLM",
    .title = "GPT-NeoX",
    .prefix = "gpt_neox.",
    .embedding = "gpt_neox.embed_in.weight",
    .classifier = "embed_out.weight",
    .other_classifier = "lm_head.weight",
    .tensors = {tensors},
    .fields = fields,
    .options = {.positions = TH_POSITIONS_NONE, .block = {.scores = {.rotary = true}}},
    .rotary = {.base_key = "rotary_emb_base", .rotated_fraction_key = "rotary_pct", .rotated_fraction = 0.25},
    .end_token = 2,
};
