/* Gemma 2 (Gemma Team 2024) and the text models of Gemma 3 (Gemma Team 2025). */
#include "models/families/family.h"

static const th_tensor_name norm_names[] = {
    TH_NAME("layers.*.norm1.weight", "model.layers.*.input_layernorm.weight"),
    TH_NAME("layers.*.norm1_out.weight", "model.layers.*.post_attention_layernorm.weight"),
    TH_NAME("layers.*.norm2.weight", "model.layers.*.pre_feedforward_layernorm.weight"),
    TH_NAME("layers.*.norm2_out.weight", "model.layers.*.post_feedforward_layernorm.weight"),
    {0},
};

/* The fields of both versions, except the sizes and the soft caps. */
#define SHARED_FIELDS                                                                                                  \
    {"num_key_value_heads", TH_SIZE(block.kv_heads), .default_value = 4},                                              \
        {"head_dim", TH_SIZE(block.head_width), .default_value = 256},                                                 \
        {"hidden_activation", .kind = TH_FIELD_ACTIVATION, .member = TH_MEMBER(block.activation),                      \
         .name = "gelu_pytorch_tanh"},                                                                                 \
        {"rms_norm_eps", TH_EPS(block.eps), .default_value = 1e-6},                                                    \
        {"query_pre_attn_scalar", .kind = TH_FIELD_INVERSE_ROOT, .member = TH_MEMBER(block.scale),                     \
         .default_value = 256},                                                                                        \
        TH_ATTENTION_BIAS, TH_ATTENTION_DROPOUT, TH_TIED(true),                                                        \
    {                                                                                                                  \
        "use_bidirectional_attention", .kind = TH_FIELD_FALSE                                                          \
    }

#define BLOCK_OPTIONS .norm = TH_RMS_NORM, .gated = true, .output_norm = true, .unit_offset = true, .no_mlp_bias = true

static const th_family_field gemma2_fields[] = {
    TH_LLAMA_SIZES(256000, 8192, 2304, 9216, 26, 8),
    SHARED_FIELDS,
    {"attn_logit_softcapping", TH_CAP(block.scores.soft_cap), .default_value = 50, .optional = true},
    {"final_logit_softcapping", TH_CAP(logit_soft_cap), .default_value = 30, .optional = true},
    {0},
};

const th_family th_family_gemma2 = {
    .model_type = "gemma2",
    .architecture = "Gemma2ForCausalLM",
    .title = "Gemma 2",
    TH_LLAMA_NAMES(norm_names),
    .fields = gemma2_fields,
    .options = {.positions = TH_POSITIONS_NONE, .block = {BLOCK_OPTIONS, .scores = {.rotary = true}}},
    .scaled_embedding = true,
    .layers = {.windows = TH_WINDOW_BY_LAYER, .window = 4096, .full_every = 2},
    .end_token = 1,
};

static const th_family_field gemma3_fields[] = {
    TH_LLAMA_SIZES(262208, 131072, 2304, 9216, 26, 8),
    SHARED_FIELDS,
    /* some versions of transformers use attn_logit_softcapping, others do not */
    {"attn_logit_softcapping", .kind = TH_FIELD_NULL},
    {"final_logit_softcapping", TH_CAP(logit_soft_cap), .default_value = 0, .optional = true},
    {0},
};

const th_family th_family_gemma3 = {
    .model_type = "gemma3_text",
    .architecture = "Gemma3ForCausalLM",
    .title = "Gemma 3",
    TH_LLAMA_NAMES(norm_names),
    .fields = gemma3_fields,
    .options = {.positions = TH_POSITIONS_NONE, .block = {BLOCK_OPTIONS, .scores = {.rotary = true, .qk_norm = true}}},
    .scaled_embedding = true,
    .rotary = {.base = 1e6, .window_base_key = "rope_local_base_freq", .window_base = 1e4},
    .layers = {.windows = TH_WINDOW_BY_LAYER, .window = 4096, .full_every = 6, .full_key = "sliding_window_pattern"},
    .end_token = 1,
};
