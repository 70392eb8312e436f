/* Phi-1, Phi-1.5 and Phi-2 (Gunasekar et al. 2023, Li et al. 2023): parallel branches that share one norm, a part of each
 * head is rotated, and the classifier has a bias. */
#include "models/families/family.h"

static const th_tensor_name tensors[] = {
    TH_NAME("embedding.weight", "model.embed_tokens.weight"),
    TH_NAME("layers.*.norm1.weight", "model.layers.*.input_layernorm.weight"),
    TH_NAME("layers.*.norm1.bias", "model.layers.*.input_layernorm.bias"),
    TH_NAME("layers.*.self_attn.out_proj.weight", "model.layers.*.self_attn.dense.weight"),
    TH_NAME("layers.*.self_attn.out_proj.bias", "model.layers.*.self_attn.dense.bias"),
    TH_NAME("layers.*.linear1.weight", "model.layers.*.mlp.fc1.weight"),
    TH_NAME("layers.*.linear1.bias", "model.layers.*.mlp.fc1.bias"),
    TH_NAME("layers.*.linear2.weight", "model.layers.*.mlp.fc2.weight"),
    TH_NAME("layers.*.linear2.bias", "model.layers.*.mlp.fc2.bias"),
    TH_NAME("norm.weight", "model.final_layernorm.weight"),
    TH_NAME("norm.bias", "model.final_layernorm.bias"),
    TH_NAME("classifier.weight", "lm_head.weight"),
    TH_NAME("classifier.bias", "lm_head.bias"),
    TH_NAME("classifier_bias", "lm_head.bias"),
    {0},
};

static const th_family_field fields[] = {
    TH_LLAMA_SIZES(51200, 2048, 2048, 8192, 24, 32),
    {"num_key_value_heads", TH_SIZE(block.kv_heads)},
    {"hidden_act", .kind = TH_FIELD_ACTIVATION, .member = TH_MEMBER(block.activation), .name = "gelu_new"},
    {"layer_norm_eps", TH_EPS(block.eps), .default_value = 1e-5},
    {"resid_pdrop", TH_RATE(block.dropout), .default_value = 0},
    {"embd_pdrop", TH_RATE(embedding_dropout), .default_value = 0},
    TH_ATTENTION_DROPOUT,
    TH_TIED(false),
    {"qk_layernorm", .kind = TH_FIELD_FALSE},
    {"head_dim", .kind = TH_FIELD_NULL},
    {0},
};

const th_family th_family_phi = {
    .model_type = "phi",
    .architecture = "PhiForCausalLM",
    .title = "Phi",
    .prefix = "model.",
    .embedding = "model.embed_tokens.weight",
    .classifier = "lm_head.weight",
    .tensors = {th_llama_projections, tensors},
    .fields = fields,
    .options = {.positions = TH_POSITIONS_NONE,
                .classifier_bias = true,
                .block = {.parallel = true, .shared_norm = true, .scores = {.rotary = true}}},
    .rotary = {.rotated_fraction_key = "partial_rotary_factor", .rotated_fraction = 0.5},
    .end_token = 2,
};
