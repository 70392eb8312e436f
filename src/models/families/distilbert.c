/* DistilBERT (Sanh et al. 2019): BERT without types of tokens, with names of its own. */
#include "models/families/bert.h"

#define LAYER "distilbert.transformer.layer.*."

static const th_tensor_name projections[] = {
    {"layers.*.self_attn.in_proj_weight", LAYER "attention.q_lin.weight", TH_VIEW_QUERY, 0},
    {"layers.*.self_attn.in_proj_weight", LAYER "attention.k_lin.weight", TH_VIEW_KEY, 0},
    {"layers.*.self_attn.in_proj_weight", LAYER "attention.v_lin.weight", TH_VIEW_VALUE, 0},
    {"layers.*.self_attn.in_proj_bias", LAYER "attention.q_lin.bias", TH_VIEW_QUERY, 0},
    {"layers.*.self_attn.in_proj_bias", LAYER "attention.k_lin.bias", TH_VIEW_KEY, 0},
    {"layers.*.self_attn.in_proj_bias", LAYER "attention.v_lin.bias", TH_VIEW_VALUE, 0},
    {0},
};

static const th_tensor_name tensors[] = {
    TH_NAME("embedding.weight", "distilbert.embeddings.word_embeddings.weight"),
    TH_NAME("position.weight", "distilbert.embeddings.position_embeddings.weight"),
    TH_NAME("input_norm.weight", "distilbert.embeddings.LayerNorm.weight"),
    TH_NAME("input_norm.bias", "distilbert.embeddings.LayerNorm.bias"),
    TH_NAME("layers.*.self_attn.out_proj.weight", LAYER "attention.out_lin.weight"),
    TH_NAME("layers.*.self_attn.out_proj.bias", LAYER "attention.out_lin.bias"),
    TH_NAME("layers.*.norm1.weight", LAYER "sa_layer_norm.weight"),
    TH_NAME("layers.*.norm1.bias", LAYER "sa_layer_norm.bias"),
    TH_NAME("layers.*.linear1.weight", LAYER "ffn.lin1.weight"),
    TH_NAME("layers.*.linear1.bias", LAYER "ffn.lin1.bias"),
    TH_NAME("layers.*.linear2.weight", LAYER "ffn.lin2.weight"),
    TH_NAME("layers.*.linear2.bias", LAYER "ffn.lin2.bias"),
    TH_NAME("layers.*.norm2.weight", LAYER "output_layer_norm.weight"),
    TH_NAME("layers.*.norm2.bias", LAYER "output_layer_norm.bias"),
    {0},
};

static const th_tensor_name classifier[] = {
    TH_NAME("transform.weight", "vocab_transform.weight"),
    TH_NAME("transform.bias", "vocab_transform.bias"),
    TH_NAME("transform_norm.weight", "vocab_layer_norm.weight"),
    TH_NAME("transform_norm.bias", "vocab_layer_norm.bias"),
    TH_NAME("classifier_bias", "vocab_projector.bias"),
    {0},
};

static const th_tensor_name sequence_head[] = {TH_HEAD_TRANSFORM("pre_classifier"), TH_HEAD_OUTPUT("classifier"), {0}};
static const th_tensor_name token_head[] = {TH_HEAD_OUTPUT("classifier"), {0}};
static const th_tensor_name span_head[] = {TH_HEAD_OUTPUT("qa_outputs"), {0}};
static const th_family_head classes[] = {
    {"DistilBertForSequenceClassification",
     {.kind = TH_HEAD_SEQUENCE, .transform = true, .activation = TH_RELU, .dropout = 0.2},
     sequence_head,
     "seq_classif_dropout",
     NULL},
    {"DistilBertForTokenClassification", {.kind = TH_HEAD_TOKENS}, token_head, NULL, NULL},
    {"DistilBertForQuestionAnswering", {.kind = TH_HEAD_SPANS, .dropout = 0.1}, span_head, "qa_dropout", NULL},
    {0},
};
static const char *const outputs[] = {"vocab_", "pre_classifier.", "classifier.", "qa_outputs.", NULL};

static const th_family_field fields[] = {
    {"vocab_size", TH_SIZE(vocabulary), .default_value = 30522},
    {"max_position_embeddings", TH_SIZE(length), .default_value = 512},
    {"dim", TH_SIZE(width), .default_value = 768, .other = "hidden_size"},
    {"hidden_dim", TH_SIZE(block.mlp_width), .default_value = 3072},
    {"n_layers", TH_SIZE(layers), .default_value = 6, .other = "num_hidden_layers"},
    {"n_heads", TH_SIZE(heads), .default_value = 12, .other = "num_attention_heads"},
    {"activation", .kind = TH_FIELD_ACTIVATION, .member = TH_MEMBER(block.activation), .name = "gelu"},
    {"dropout", TH_RATE(dropout), .default_value = 0.1},
    {"attention_dropout", TH_RATE(block.attention_dropout), .default_value = 0.1},
    {"tie_word_embeddings", .kind = TH_FIELD_TRUE},
    {"sinusoidal_pos_embds", .kind = TH_FIELD_FALSE},
    {0},
};

const th_family th_family_distilbert = {
    .model_type = "distilbert",
    .architecture = "DistilBertForMaskedLM",
    .encoder_architecture = "DistilBertModel",
    .title = "DistilBERT",
    .prefix = "distilbert.",
    .embedding = "distilbert.embeddings.word_embeddings.weight",
    .classifier = "vocab_projector.weight",
    .outputs = outputs,
    .heads = classes,
    .tensors = {projections, tensors, classifier},
    .fields = fields,
    .options = {TH_BERT_OPTIONS, .block = {.post_norm = true, .eps = 1e-12}},
    .end_token = -1,
};
