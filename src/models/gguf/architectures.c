/* The tables of all architectures. */
#include "models/gguf/architecture.h"

#include <stdio.h>
#include <string.h>

#include "models/core/context.h"
#include "models/gguf/encoder.h"

/* -- names of tensors -- */

static const th_tensor_name ends[] = {
    TH_NAME("embedding.weight", "token_embd.weight"),
    TH_NAME("norm.weight", "output_norm.weight"),
    TH_NAME("classifier.weight", "output.weight"),
    {0},
};

static const th_tensor_name projections[] = {
    {"layers.*.self_attn.in_proj_weight", "blk.*.attn_q.weight", TH_VIEW_QUERY, 0},
    {"layers.*.self_attn.in_proj_weight", "blk.*.attn_k.weight", TH_VIEW_KEY, 0},
    {"layers.*.self_attn.in_proj_weight", "blk.*.attn_v.weight", TH_VIEW_VALUE, 0},
    TH_NAME("layers.*.self_attn.q_proj_weight", "blk.*.attn_q.weight"),
    TH_NAME("layers.*.self_attn.k_proj_weight", "blk.*.attn_k.weight"),
    TH_NAME("layers.*.self_attn.v_proj_weight", "blk.*.attn_v.weight"),
    {"layers.*.self_attn.in_proj_bias", "blk.*.attn_q.bias", TH_VIEW_QUERY, 0},
    {"layers.*.self_attn.in_proj_bias", "blk.*.attn_k.bias", TH_VIEW_KEY, 0},
    {"layers.*.self_attn.in_proj_bias", "blk.*.attn_v.bias", TH_VIEW_VALUE, 0},
    TH_NAME("layers.*.self_attn.q_norm.weight", "blk.*.attn_q_norm.weight"),
    TH_NAME("layers.*.self_attn.k_norm.weight", "blk.*.attn_k_norm.weight"),
    TH_NAME("layers.*.self_attn.out_proj.weight", "blk.*.attn_output.weight"),
    TH_NAME("layers.*.self_attn.out_proj.bias", "blk.*.attn_output.bias"),
    TH_NAME("layers.*.gate.weight", "blk.*.ffn_gate.weight"),
    TH_NAME("layers.*.gate.bias", "blk.*.ffn_gate.bias"),
    TH_NAME("layers.*.linear1.weight", "blk.*.ffn_up.weight"),
    TH_NAME("layers.*.linear1.bias", "blk.*.ffn_up.bias"),
    TH_NAME("layers.*.linear2.weight", "blk.*.ffn_down.weight"),
    TH_NAME("layers.*.linear2.bias", "blk.*.ffn_down.bias"),
    {0},
};

static const th_tensor_name packed[] = {
    TH_NAME("layers.*.self_attn.in_proj_weight", "blk.*.attn_qkv.weight"),
    TH_NAME("layers.*.self_attn.in_proj_bias", "blk.*.attn_qkv.bias"),
    {"layers.*.self_attn.q_proj_weight", "blk.*.attn_qkv.weight", TH_VIEW_WHOLE, 0},
    {"layers.*.self_attn.k_proj_weight", "blk.*.attn_qkv.weight", TH_VIEW_WHOLE, 1},
    {"layers.*.self_attn.v_proj_weight", "blk.*.attn_qkv.weight", TH_VIEW_WHOLE, 2},
    TH_NAME("layers.*.self_attn.out_proj.weight", "blk.*.attn_output.weight"),
    TH_NAME("layers.*.self_attn.out_proj.bias", "blk.*.attn_output.bias"),
    {"layers.*.gate.weight", "blk.*.ffn_up.weight", TH_VIEW_WHOLE, 0},
    {"layers.*.linear1.weight", "blk.*.ffn_up.weight", TH_VIEW_WHOLE, 1},
    TH_NAME("layers.*.linear2.weight", "blk.*.ffn_down.weight"),
    TH_NAME("layers.*.linear2.bias", "blk.*.ffn_down.bias"),
    {0},
};

static const th_tensor_name norms[] = {
    TH_NAME("layers.*.norm1.weight", "blk.*.attn_norm.weight"),
    TH_NAME("layers.*.norm2.weight", "blk.*.ffn_norm.weight"),
    {0},
};

static const th_tensor_name output_norms[] = {
    TH_NAME("layers.*.norm1_out.weight", "blk.*.post_attention_norm.weight"),
    TH_NAME("layers.*.norm2_out.weight", "blk.*.post_ffw_norm.weight"),
    {0},
};

/* GPT-2 and GPT-NeoX: linear1 is not packed with a gate, and norms have biases. */
static const th_tensor_name layer_norms[] = {
    TH_NAME("position.weight", "position_embd.weight"),
    TH_NAME("norm.bias", "output_norm.bias"),
    TH_NAME("layers.*.norm1.bias", "blk.*.attn_norm.bias"),
    TH_NAME("layers.*.norm2.bias", "blk.*.ffn_norm.bias"),
    TH_NAME("layers.*.self_attn.in_proj_weight", "blk.*.attn_qkv.weight"),
    TH_NAME("layers.*.self_attn.in_proj_bias", "blk.*.attn_qkv.bias"),
    TH_NAME("layers.*.self_attn.out_proj.weight", "blk.*.attn_output.weight"),
    TH_NAME("layers.*.self_attn.out_proj.bias", "blk.*.attn_output.bias"),
    TH_NAME("layers.*.linear1.weight", "blk.*.ffn_up.weight"),
    TH_NAME("layers.*.linear1.bias", "blk.*.ffn_up.bias"),
    TH_NAME("layers.*.linear2.weight", "blk.*.ffn_down.weight"),
    TH_NAME("layers.*.linear2.bias", "blk.*.ffn_down.bias"),
    {0},
};

/* Phi-2: its projections are not packed, its layers have one norm, and its classifier has a bias. */
static const th_tensor_name phi_biases[] = {
    TH_NAME("norm.bias", "output_norm.bias"),
    TH_NAME("classifier.bias", "output.bias"),
    TH_NAME("classifier_bias", "output.bias"),
    TH_NAME("layers.*.norm1.bias", "blk.*.attn_norm.bias"),
    {0},
};

/* BERT: norms follow the branches. */
static const th_tensor_name bert[] = {
    TH_NAME("position.weight", "position_embd.weight"),
    TH_NAME("type_embedding.weight", "token_types.weight"),
    TH_NAME("input_norm.weight", "token_embd_norm.weight"),
    TH_NAME("input_norm.bias", "token_embd_norm.bias"),
    TH_NAME("layers.*.norm1.weight", "blk.*.attn_output_norm.weight"),
    TH_NAME("layers.*.norm1.bias", "blk.*.attn_output_norm.bias"),
    TH_NAME("layers.*.norm2.weight", "blk.*.layer_output_norm.weight"),
    TH_NAME("layers.*.norm2.bias", "blk.*.layer_output_norm.bias"),
    {0},
};

/* -- architectures -- */

#define RMS_EPS .eps = "attention.layer_norm_rms_epsilon", .has_kv_heads = true
#define LAYER_EPS .eps = "attention.layer_norm_epsilon"

const th_gguf_architecture th_gguf_architectures[TH_GGUF_ARCHITECTURES] = {
    {.name = "qwen2", .family = "qwen2", .tensors = {ends, projections, norms}, RMS_EPS},
    {.name = "llama",
     .family = "llama",
     .tensors = {ends, projections, norms},
     RMS_EPS,
     .neighbors = true,
     .attention_biases = true,
     .mlp_biases = true,
     .factors = TH_GGUF_ONE_FACTOR},
    {.name = "qwen3", .family = "qwen3", .tensors = {ends, projections, norms}, RMS_EPS},
    {.name = "smollm3",
     .family = "smollm3",
     .tensors = {ends, projections, norms},
     RMS_EPS,
     .neighbors = true,
     .rotary_except = 4},
    {.name = "phi3",
     .family = "phi3",
     .tensors = {ends, packed, norms},
     RMS_EPS,
     .part_is_rotated = true,
     .window_except = 1,
     .factors = TH_GGUF_TWO_FACTORS},
    {.name = "olmo2", .family = "olmo2", .tensors = {ends, projections, output_norms}, RMS_EPS, .needs_output = true},
    {.name = "gemma2",
     .family = "gemma2",
     .tensors = {ends, projections, norms, output_norms},
     RMS_EPS,
     .norms_plus_one = true,
     .has_soft_caps = true,
     .window_except = 2,
     .wide_scale_layers = 46},
    {.name = "gemma3",
     .family = "gemma3_text",
     .tensors = {ends, projections, norms, output_norms},
     RMS_EPS,
     .norms_plus_one = true,
     .has_final_soft_cap = true,
     .window_except = 6,
     .window_base = 1e4,
     .wide_scale_layers = 62},
    {.name = "gptneox",
     .family = "gpt_neox",
     .tensors = {ends, norms, layer_norms},
     LAYER_EPS,
     .has_parallel = true,
     .needs_output = true,
     .part_is_rotated = true},
    {.name = "phi2",
     .family = "phi",
     .tensors = {ends, projections, norms, phi_biases},
     LAYER_EPS,
     .needs_output = true,
     .part_is_rotated = true},
    {.name = "minicpm",
     .family = "minicpm",
     .tensors = {ends, projections, norms},
     RMS_EPS,
     .neighbors = true,
     .attention_biases = true,
     .has_scales = true,
     .scales = {.embedding = 12, .depth = 1.4, .base_width = 256},
     .factors = TH_GGUF_TWO_FACTORS},
    {.name = "granite",
     .family = "granite",
     .tensors = {ends, projections, norms},
     RMS_EPS,
     .neighbors = true,
     .attention_biases = true,
     .mlp_biases = true,
     .has_scales = true,
     .has_attention_scale = true,
     .factors = TH_GGUF_ONE_FACTOR},
    {.name = "bert", .family = "bert", .tensors = {ends, projections, bert}, LAYER_EPS, .encoder = true},
    {.name = "gpt2", .family = "gpt2", .tensors = {ends, norms, layer_norms}, LAYER_EPS},
};

void th_gguf_list_architectures(char *text, size_t bytes)
{
    text[0] = '\0';
    for (int i = 0; i < TH_GGUF_ARCHITECTURES; i++)
        th_append_item(text, bytes, i, TH_GGUF_ARCHITECTURES, th_gguf_architectures[i].name);
}

th_family th_gguf_family(const th_gguf_architecture *a)
{
    th_family family = *th_family_find(a->family);
    for (int i = 0; i < 4; i++)
        family.tensors[i] = a->tensors[i];
    family.prefix = "";
    family.embedding = "token_embd.weight";
    family.classifier = "output.weight";
    family.other_classifier = NULL;
    family.heads = a->encoder ? th_gguf_heads : NULL;
    return family;
}

const char *th_gguf_key(const th_gguf_architecture *a, const char *key, char full[TH_GGUF_LONGEST_KEY])
{
    snprintf(full, TH_GGUF_LONGEST_KEY, "%s.%s", a->name, key);
    return full;
}
