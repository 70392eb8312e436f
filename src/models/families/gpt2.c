/* GPT-2 (Radford et al. 2019). Its matrices are stored transposed. */
#include "models/families/family.h"

static const th_tensor_name tensors[] = {
    TH_NAME("embedding.weight", "transformer.wte.weight"),
    TH_NAME("position.weight", "transformer.wpe.weight"),
    TH_NAME("layers.*.norm1.weight", "transformer.h.*.ln_1.weight"),
    TH_NAME("layers.*.norm1.bias", "transformer.h.*.ln_1.bias"),
    {"layers.*.self_attn.in_proj_weight", "transformer.h.*.attn.c_attn.weight", TH_VIEW_TRANSPOSED, 0},
    TH_NAME("layers.*.self_attn.in_proj_bias", "transformer.h.*.attn.c_attn.bias"),
    {"layers.*.self_attn.out_proj.weight", "transformer.h.*.attn.c_proj.weight", TH_VIEW_TRANSPOSED, 0},
    TH_NAME("layers.*.self_attn.out_proj.bias", "transformer.h.*.attn.c_proj.bias"),
    TH_NAME("layers.*.norm2.weight", "transformer.h.*.ln_2.weight"),
    TH_NAME("layers.*.norm2.bias", "transformer.h.*.ln_2.bias"),
    {"layers.*.linear1.weight", "transformer.h.*.mlp.c_fc.weight", TH_VIEW_TRANSPOSED, 0},
    TH_NAME("layers.*.linear1.bias", "transformer.h.*.mlp.c_fc.bias"),
    {"layers.*.linear2.weight", "transformer.h.*.mlp.c_proj.weight", TH_VIEW_TRANSPOSED, 0},
    TH_NAME("layers.*.linear2.bias", "transformer.h.*.mlp.c_proj.bias"),
    TH_NAME("norm.weight", "transformer.ln_f.weight"),
    TH_NAME("norm.bias", "transformer.ln_f.bias"),
    TH_NAME("classifier.weight", "lm_head.weight"),
    {0},
};

static const th_family_field fields[] = {
    {"vocab_size", TH_SIZE(vocabulary), .default_value = 50257},
    {"n_positions", TH_SIZE(length), .default_value = 1024, .other = "max_position_embeddings"},
    {"n_embd", TH_SIZE(width), .default_value = 768, .other = "hidden_size"},
    {"n_layer", TH_SIZE(layers), .default_value = 12, .other = "num_hidden_layers"},
    {"n_head", TH_SIZE(heads), .default_value = 12, .other = "num_attention_heads"},
    {"n_inner", TH_SIZE(block.mlp_width)},
    {"activation_function", .kind = TH_FIELD_ACTIVATION, .member = TH_MEMBER(block.activation), .name = "gelu_new"},
    {"resid_pdrop", TH_RATE(block.dropout), .default_value = 0.1},
    {"embd_pdrop", TH_RATE(embedding_dropout), .default_value = 0.1},
    {"attn_pdrop", TH_RATE(block.attention_dropout), .default_value = 0.1},
    {"layer_norm_epsilon", TH_EPS(block.eps), .default_value = 1e-5},
    {"scale_attn_weights", .kind = TH_FIELD_SCALED, .member = TH_MEMBER(block.scale), .default_value = true},
    {"scale_attn_by_inverse_layer_idx", TH_FLAG(scale_by_layer), .default_value = false},
    {"add_cross_attention", .kind = TH_FIELD_FALSE},
    TH_TIED(true),
    {0},
};

const th_family th_family_gpt2 = {
    .model_type = "gpt2",
    .architecture = "GPT2LMHeadModel",
    .title = "GPT-2",
    .prefix = "transformer.",
    .embedding = "transformer.wte.weight",
    .classifier = "lm_head.weight",
    .tensors = {tensors},
    .fields = fields,
    .options = {.positions = TH_POSITIONS_LEARNED},
    .end_token = 50256,
};
