/* What BERT and RoBERTa have in common: names of tensors, which differ in what is before them, and fields. */
#ifndef TH_MODELS_FAMILIES_BERT_H
#define TH_MODELS_FAMILIES_BERT_H

#include "models/families/family.h"

/* clang-format off */
#define TH_BERT_PROJECTIONS(before)                                                                                    \
    {"layers.*.self_attn.in_proj_weight", before "encoder.layer.*.attention.self.query.weight", TH_VIEW_QUERY, 0},     \
    {"layers.*.self_attn.in_proj_weight", before "encoder.layer.*.attention.self.key.weight", TH_VIEW_KEY, 0},         \
    {"layers.*.self_attn.in_proj_weight", before "encoder.layer.*.attention.self.value.weight", TH_VIEW_VALUE, 0},     \
    {"layers.*.self_attn.in_proj_bias", before "encoder.layer.*.attention.self.query.bias", TH_VIEW_QUERY, 0},         \
    {"layers.*.self_attn.in_proj_bias", before "encoder.layer.*.attention.self.key.bias", TH_VIEW_KEY, 0},             \
    {"layers.*.self_attn.in_proj_bias", before "encoder.layer.*.attention.self.value.bias", TH_VIEW_VALUE, 0}

#define TH_BERT_TENSORS(before)                                                                                        \
    TH_NAME("embedding.weight", before "embeddings.word_embeddings.weight"),                                           \
    TH_NAME("position.weight", before "embeddings.position_embeddings.weight"),                                        \
    TH_NAME("type_embedding.weight", before "embeddings.token_type_embeddings.weight"),                                \
    TH_NAME("input_norm.weight", before "embeddings.LayerNorm.weight"),                                                \
    TH_NAME("input_norm.bias", before "embeddings.LayerNorm.bias"),                                                    \
    TH_NAME("layers.*.self_attn.out_proj.weight", before "encoder.layer.*.attention.output.dense.weight"),             \
    TH_NAME("layers.*.self_attn.out_proj.bias", before "encoder.layer.*.attention.output.dense.bias"),                 \
    TH_NAME("layers.*.norm1.weight", before "encoder.layer.*.attention.output.LayerNorm.weight"),                      \
    TH_NAME("layers.*.norm1.bias", before "encoder.layer.*.attention.output.LayerNorm.bias"),                          \
    TH_NAME("layers.*.linear1.weight", before "encoder.layer.*.intermediate.dense.weight"),                            \
    TH_NAME("layers.*.linear1.bias", before "encoder.layer.*.intermediate.dense.bias"),                                \
    TH_NAME("layers.*.linear2.weight", before "encoder.layer.*.output.dense.weight"),                                  \
    TH_NAME("layers.*.linear2.bias", before "encoder.layer.*.output.dense.bias"),                                      \
    TH_NAME("layers.*.norm2.weight", before "encoder.layer.*.output.LayerNorm.weight"),                                \
    TH_NAME("layers.*.norm2.bias", before "encoder.layer.*.output.LayerNorm.bias")

/* All fields except hidden_act and the padding token. */
#define TH_BERT_FIELDS(vocabulary)                                                                                     \
    TH_LLAMA_SIZES(vocabulary, 512, 768, 3072, 12, 12),                                                                \
    {"type_vocab_size", TH_SIZE(token_types), .default_value = 2},                                                     \
    {"hidden_dropout_prob", TH_RATE(dropout), .default_value = 0.1},                                                   \
    {"attention_probs_dropout_prob", TH_RATE(block.attention_dropout), .default_value = 0.1},                          \
    {"layer_norm_eps", TH_EPS(block.eps), .default_value = 1e-12},                                                     \
    {"tie_word_embeddings", .kind = TH_FIELD_TRUE}, /* else transformers has two biases, of which it uses one */       \
    {"position_embedding_type", .kind = TH_FIELD_NAME, .name = "absolute"},                                            \
    {"is_decoder", .kind = TH_FIELD_FALSE},                                                                            \
    {"add_cross_attention", .kind = TH_FIELD_FALSE}
/* clang-format on */

#define TH_BERT_OPTIONS                                                                                                \
    .positions = TH_POSITIONS_LEARNED, .bidirectional = true, .input_norm = true, .classifier_bias = true,             \
    .classifier_transform = true

#endif
