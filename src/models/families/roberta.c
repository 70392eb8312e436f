/* RoBERTa (Liu et al. 2019) and XLM-RoBERTa (Conneau et al. 2020): BERT whose first position is the row behind that of
 * the padding token, and whose classifier has other names. */
#include "models/families/bert.h"

static const th_tensor_name projections[] = {TH_BERT_PROJECTIONS("roberta."), {0}};
static const th_tensor_name tensors[] = {TH_BERT_TENSORS("roberta."), {0}};

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
#define HEADS(class)                                                                                                   \
    {class "ForSequenceClassification",                                                                                \
     {.kind = TH_HEAD_SEQUENCE, .transform = true, .activation = TH_TANH, .input_dropout = true},                      \
     sequence_head,                                                                                                    \
     "classifier_dropout",                                                                                             \
     NULL},                                                                                                            \
        {class "ForTokenClassification", {.kind = TH_HEAD_TOKENS}, token_head, "classifier_dropout", NULL},            \
    {                                                                                                                  \
        class "ForQuestionAnswering", {.kind = TH_HEAD_SPANS}, span_head, NULL, NULL                                   \
    }
static const th_family_head roberta_heads[] = {HEADS("Roberta"), {0}};
static const th_family_head xlm_roberta_heads[] = {HEADS("XLMRoberta"), {0}};
static const char *const outputs[] = {"lm_head.", "classifier.", "qa_outputs.", NULL};

#define FIELDS                                                                                                         \
    {"pad_token_id", .kind = TH_FIELD_AFTER_TOKEN, .member = TH_MEMBER(first_position), .default_value = 1},           \
    {                                                                                                                  \
        "hidden_act", .kind = TH_FIELD_NAME, .name = "gelu"                                                            \
    } /* that of the classifier is always gelu */

static const th_family_field roberta_fields[] = {TH_BERT_FIELDS(50265), FIELDS, {0}};
static const th_family_field xlm_roberta_fields[] = {TH_BERT_FIELDS(30522), FIELDS, {0}};

static const char *const ignored[] = {"pooler.", "embeddings.position_ids", "lm_head.decoder.bias", NULL};

#define SHARED                                                                                                         \
    .prefix = "roberta.", .embedding = "roberta.embeddings.word_embeddings.weight",                                    \
    .classifier = "lm_head.decoder.weight", .ignored = ignored, .outputs = outputs,                                    \
    .tensors = {projections, tensors, classifier},                                                                     \
    .options = {TH_BERT_OPTIONS, .block = {.post_norm = true, .activation = TH_GELU}}, .end_token = 2

const th_family th_family_roberta = {
    .model_type = "roberta",
    .architecture = "RobertaForMaskedLM",
    .encoder_architecture = "RobertaModel",
    .title = "RoBERTa",
    .heads = roberta_heads,
    .fields = roberta_fields,
    SHARED,
};

const th_family th_family_xlm_roberta = {
    .model_type = "xlm-roberta",
    .architecture = "XLMRobertaForMaskedLM",
    .encoder_architecture = "XLMRobertaModel",
    .title = "XLM-RoBERTa",
    .heads = xlm_roberta_heads,
    .fields = xlm_roberta_fields,
    SHARED,
};
