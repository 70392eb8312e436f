/* MPNet (Song et al. 2020): BERT without types of tokens, whose scores have T5's bias of distances, with names of its
 * own. */
#include "models/families/bert.h"

#define LAYER "mpnet.encoder.layer.*."

static const th_tensor_name projections[] = {
    {"layers.*.self_attn.in_proj_weight", LAYER "attention.attn.q.weight", TH_VIEW_QUERY, 0},
    {"layers.*.self_attn.in_proj_weight", LAYER "attention.attn.k.weight", TH_VIEW_KEY, 0},
    {"layers.*.self_attn.in_proj_weight", LAYER "attention.attn.v.weight", TH_VIEW_VALUE, 0},
    {"layers.*.self_attn.in_proj_bias", LAYER "attention.attn.q.bias", TH_VIEW_QUERY, 0},
    {"layers.*.self_attn.in_proj_bias", LAYER "attention.attn.k.bias", TH_VIEW_KEY, 0},
    {"layers.*.self_attn.in_proj_bias", LAYER "attention.attn.v.bias", TH_VIEW_VALUE, 0},
    {0},
};

static const th_tensor_name tensors[] = {
    TH_NAME("embedding.weight", "mpnet.embeddings.word_embeddings.weight"),
    TH_NAME("position.weight", "mpnet.embeddings.position_embeddings.weight"),
    TH_NAME("relative_bias", "mpnet.encoder.relative_attention_bias.weight"),
    TH_NAME("input_norm.weight", "mpnet.embeddings.LayerNorm.weight"),
    TH_NAME("input_norm.bias", "mpnet.embeddings.LayerNorm.bias"),
    TH_NAME("layers.*.self_attn.out_proj.weight", LAYER "attention.attn.o.weight"),
    TH_NAME("layers.*.self_attn.out_proj.bias", LAYER "attention.attn.o.bias"),
    TH_NAME("layers.*.norm1.weight", LAYER "attention.LayerNorm.weight"),
    TH_NAME("layers.*.norm1.bias", LAYER "attention.LayerNorm.bias"),
    TH_NAME("layers.*.linear1.weight", LAYER "intermediate.dense.weight"),
    TH_NAME("layers.*.linear1.bias", LAYER "intermediate.dense.bias"),
    TH_NAME("layers.*.linear2.weight", LAYER "output.dense.weight"),
    TH_NAME("layers.*.linear2.bias", LAYER "output.dense.bias"),
    TH_NAME("layers.*.norm2.weight", LAYER "output.LayerNorm.weight"),
    TH_NAME("layers.*.norm2.bias", LAYER "output.LayerNorm.bias"),
    {0},
};

static const th_tensor_name classifier[] = {
    TH_NAME("transform.weight", "lm_head.dense.weight"),
    TH_NAME("transform.bias", "lm_head.dense.bias"),
    TH_NAME("transform_norm.weight", "lm_head.layer_norm.weight"),
    TH_NAME("transform_norm.bias", "lm_head.layer_norm.bias"),
    TH_NAME("classifier_bias", "lm_head.bias"),
    {0},
};

static const th_tensor_name sequence_head[] = {
    TH_HEAD_TRANSFORM("classifier.dense"), TH_HEAD_OUTPUT("classifier.out_proj"), {0}};
static const th_tensor_name token_head[] = {TH_HEAD_OUTPUT("classifier"), {0}};
static const th_tensor_name span_head[] = {TH_HEAD_OUTPUT("qa_outputs"), {0}};
static const th_family_head classes[] = {
    {"MPNetForSequenceClassification",
     {.kind = TH_HEAD_SEQUENCE, .transform = true, .activation = TH_TANH, .input_dropout = true},
     sequence_head,
     NULL,
     NULL},
    {"MPNetForTokenClassification", {.kind = TH_HEAD_TOKENS}, token_head, NULL, NULL},
    {"MPNetForQuestionAnswering", {.kind = TH_HEAD_SPANS}, span_head, NULL, NULL},
    {0},
};
static const char *const outputs[] = {"lm_head.", "classifier.", "qa_outputs.", NULL};

static const th_family_field fields[] = {
    TH_LLAMA_SIZES(30527, 512, 768, 3072, 12, 12),
    {"hidden_dropout_prob", TH_RATE(dropout), .default_value = 0.1},
    {"attention_probs_dropout_prob", TH_RATE(block.attention_dropout), .default_value = 0.1},
    {"layer_norm_eps", TH_EPS(block.eps), .default_value = 1e-12},
    {"tie_word_embeddings", .kind = TH_FIELD_TRUE},
    {"relative_attention_num_buckets", .kind = TH_FIELD_FIXED, .default_value = 32}, /* transformers takes no other */
    {"hidden_act", .kind = TH_FIELD_NAME, .name = "gelu"}, /* that of the classifier is always gelu */
    {0},
};

static const char *const ignored[] = {"pooler.", "embeddings.position_ids", "lm_head.decoder.bias", NULL};

const th_family th_family_mpnet = {
    .model_type = "mpnet",
    .architecture = "MPNetForMaskedLM",
    .encoder_architecture = "MPNetModel",
    .title = "MPNet",
    .prefix = "mpnet.",
    .embedding = "mpnet.embeddings.word_embeddings.weight",
    .classifier = "lm_head.decoder.weight",
    .ignored = ignored,
    .outputs = outputs,
    .heads = classes,
    .tensors = {projections, tensors, classifier},
    .fields = fields,
    .options = {TH_BERT_OPTIONS, .first_position = 2, /* in transformers, whatever pad_token_id is */
                .relative_buckets = 32, .relative_distance = 128, .block = {.post_norm = true, .activation = TH_GELU}},
    .end_token = 2,
};
