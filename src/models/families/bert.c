/* BERT (Devlin et al. 2018): an encoder with learned positions, types of tokens and post-norm blocks, alone or as a masked
 * language model. */
#include "models/families/bert.h"

static const th_tensor_name projections[] = {TH_BERT_PROJECTIONS("bert."), {0}};
static const th_tensor_name tensors[] = {TH_BERT_TENSORS("bert."), {0}};

static const th_tensor_name classifier[] = {
    TH_NAME("transform.weight", "cls.predictions.transform.dense.weight"),
    TH_NAME("transform.bias", "cls.predictions.transform.dense.bias"),
    TH_NAME("transform_norm.weight", "cls.predictions.transform.LayerNorm.weight"),
    TH_NAME("transform_norm.bias", "cls.predictions.transform.LayerNorm.bias"),
    TH_NAME("classifier_bias", "cls.predictions.bias"),
    {0},
};

static const th_tensor_name sequence_head[] = {
    TH_HEAD_TRANSFORM("bert.pooler.dense"), TH_HEAD_OUTPUT("classifier"), {0}};
static const th_tensor_name token_head[] = {TH_HEAD_OUTPUT("classifier"), {0}};
static const th_tensor_name span_head[] = {TH_HEAD_OUTPUT("qa_outputs"), {0}};
static const th_family_head classes[] = {
    {"BertForSequenceClassification",
     {.kind = TH_HEAD_SEQUENCE, .transform = true, .activation = TH_TANH},
     sequence_head,
     "classifier_dropout",
     NULL},
    {"BertForTokenClassification", {.kind = TH_HEAD_TOKENS}, token_head, "classifier_dropout", NULL},
    {"BertForQuestionAnswering", {.kind = TH_HEAD_SPANS}, span_head, NULL, NULL},
    {0},
};
static const char *const outputs[] = {"cls.", "classifier.", "qa_outputs.", NULL};

static const th_family_field fields[] = {
    TH_BERT_FIELDS(30522),
    {"hidden_act", .kind = TH_FIELD_ACTIVATION, .member = TH_MEMBER(block.activation), .name = "gelu"},
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
    .heads = classes,
    .tensors = {projections, tensors, classifier},
    .fields = fields,
    .options = {TH_BERT_OPTIONS, .block = {.post_norm = true}},
    .end_token = -1,
};
