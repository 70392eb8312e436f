/* BERT (Devlin et al. 2018): an encoder with learned positions, types of tokens and post-norm blocks, alone or as a masked
 * language model. */
#include "models/families/family.h"

#define LAYER "bert.encoder.layer.*."

static const th_tensor_name projections[] = {
    {"layers.*.self_attn.in_proj_weight", LAYER "attention.self.query.weight", TH_VIEW_QUERY, 0},
    {"layers.*.self_attn.in_proj_weight", LAYER "attention.self.key.weight", TH_VIEW_KEY, 0},
    {"layers.*.self_attn.in_proj_weight", LAYER "attention.self.value.weight", TH_VIEW_VALUE, 0},
    {"layers.*.self_attn.in_proj_bias", LAYER "attention.self.query.bias", TH_VIEW_QUERY, 0},
    {"layers.*.self_attn.in_proj_bias", LAYER "attention.self.key.bias", TH_VIEW_KEY, 0},
    {"layers.*.self_attn.in_proj_bias", LAYER "attention.self.value.bias", TH_VIEW_VALUE, 0},
    {0},
};

static const th_tensor_name tensors[] = {
    TH_NAME("embedding.weight", "bert.embeddings.word_embeddings.weight"),
    TH_NAME("position.weight", "bert.embeddings.position_embeddings.weight"),
    TH_NAME("type_embedding.weight", "bert.embeddings.token_type_embeddings.weight"),
    TH_NAME("input_norm.weight", "bert.embeddings.LayerNorm.weight"),
    TH_NAME("input_norm.bias", "bert.embeddings.LayerNorm.bias"),
    TH_NAME("layers.*.self_attn.out_proj.weight", LAYER "attention.output.dense.weight"),
    TH_NAME("layers.*.self_attn.out_proj.bias", LAYER "attention.output.dense.bias"),
    TH_NAME("layers.*.norm1.weight", LAYER "attention.output.LayerNorm.weight"),
    TH_NAME("layers.*.norm1.bias", LAYER "attention.output.LayerNorm.bias"),
    TH_NAME("layers.*.linear1.weight", LAYER "intermediate.dense.weight"),
    TH_NAME("layers.*.linear1.bias", LAYER "intermediate.dense.bias"),
    TH_NAME("layers.*.linear2.weight", LAYER "output.dense.weight"),
    TH_NAME("layers.*.linear2.bias", LAYER "output.dense.bias"),
    TH_NAME("layers.*.norm2.weight", LAYER "output.LayerNorm.weight"),
    TH_NAME("layers.*.norm2.bias", LAYER "output.LayerNorm.bias"),
    {0},
};

static const th_tensor_name classifier[] = {
    TH_NAME("transform.weight", "cls.predictions.transform.dense.weight"),
    TH_NAME("transform.bias", "cls.predictions.transform.dense.bias"),
    TH_NAME("transform_norm.weight", "cls.predictions.transform.LayerNorm.weight"),
    TH_NAME("transform_norm.bias", "cls.predictions.transform.LayerNorm.bias"),
    TH_NAME("classifier_bias", "cls.predictions.bias"),
    {0},
};

static const th_tensor_name sequence_head[] = {
    TH_NAME("head.transform.weight", "bert.pooler.dense.weight"),
    TH_NAME("head.transform.bias", "bert.pooler.dense.bias"),
    TH_NAME("head.output.weight", "classifier.weight"),
    TH_NAME("head.output.bias", "classifier.bias"),
    {0},
};
static const th_tensor_name token_head[] = {
    TH_NAME("head.output.weight", "classifier.weight"),
    TH_NAME("head.output.bias", "classifier.bias"),
    {0},
};
static const th_tensor_name span_head[] = {
    TH_NAME("head.output.weight", "qa_outputs.weight"),
    TH_NAME("head.output.bias", "qa_outputs.bias"),
    {0},
};
static const th_family_head heads[] = {
    {"BertForSequenceClassification",
     {.kind = TH_HEAD_SEQUENCE, .transform = true, .activation = TH_TANH},
     sequence_head,
     "classifier_dropout"},
    {"BertForTokenClassification", {.kind = TH_HEAD_TOKENS}, token_head, "classifier_dropout"},
    {"BertForQuestionAnswering", {.kind = TH_HEAD_SPANS}, span_head, NULL},
    {0},
};
static const char *const outputs[] = {"cls.", "classifier.", "qa_outputs.", NULL};

static const th_family_field fields[] = {
    TH_LLAMA_SIZES(30522, 512, 768, 3072, 12, 12),
    {"type_vocab_size", TH_SIZE(token_types), .default_value = 2},
    {"hidden_act", .kind = TH_FIELD_ACTIVATION, .member = TH_MEMBER(block.activation), .name = "gelu"},
    {"hidden_dropout_prob", TH_RATE(dropout), .default_value = 0.1},
    {"attention_probs_dropout_prob", TH_RATE(block.attention_dropout), .default_value = 0.1},
    {"layer_norm_eps", TH_EPS(block.eps), .default_value = 1e-12},
    {"tie_word_embeddings", .kind = TH_FIELD_TRUE}, /* else transformers has two biases, of which it uses one */
    {"position_embedding_type", .kind = TH_FIELD_NAME, .name = "absolute"},
    {"is_decoder", .kind = TH_FIELD_FALSE},
    {"add_cross_attention", .kind = TH_FIELD_FALSE},
    {0},
};

/* The pooler reads the first token for a classification of texts, and seq_relationship compares two sentences. */
static const char *const ignored[] = {"pooler.", "embeddings.position_ids", "cls.seq_relationship.",
                                      "cls.predictions.decoder.bias", NULL};

const th_family th_family_bert = {
    .model_type = "bert",
    .architecture = "BertForMaskedLM",
    .encoder_architecture = "BertModel",
    .title = "BERT",
    .prefix = "bert.",
    .embedding = "bert.embeddings.word_embeddings.weight",
    .classifier = "cls.predictions.decoder.weight",
    .ignored = ignored,
    .outputs = outputs,
    .heads = heads,
    .tensors = {projections, tensors, classifier},
    .fields = fields,
    .options = {.positions = TH_POSITIONS_LEARNED,
                .bidirectional = true,
                .input_norm = true,
                .classifier_bias = true,
                .classifier_transform = true,
                .block = {.post_norm = true}},
    .end_token = -1,
};
