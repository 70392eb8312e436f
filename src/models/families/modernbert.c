/* ModernBERT (Warner et al. 2024): an encoder with rotary positions and pre-norm blocks without biases, whose MLP has a
 * gate. Most layers have a window with another base. The embedding has a norm, so the first block has none. */
#include "models/families/family.h"

static const th_tensor_name tensors[] = {
    TH_NAME("embedding.weight", "model.embeddings.tok_embeddings.weight"),
    TH_NAME("input_norm.weight", "model.embeddings.norm.weight"),
    TH_NAME("layers.*.norm1.weight", "model.layers.*.attn_norm.weight"),
    TH_NAME("layers.*.self_attn.in_proj_weight", "model.layers.*.attn.Wqkv.weight"),
    TH_NAME("layers.*.self_attn.out_proj.weight", "model.layers.*.attn.Wo.weight"),
    TH_NAME("layers.*.norm2.weight", "model.layers.*.mlp_norm.weight"),
    {"layers.*.gate.weight", "model.layers.*.mlp.Wi.weight", TH_VIEW_WHOLE, 0},
    {"layers.*.linear1.weight", "model.layers.*.mlp.Wi.weight", TH_VIEW_WHOLE, 1},
    TH_NAME("layers.*.linear2.weight", "model.layers.*.mlp.Wo.weight"),
    TH_NAME("norm.weight", "model.final_norm.weight"),
    {0},
};

static const th_tensor_name classifier[] = {
    TH_NAME("transform.weight", "head.dense.weight"),
    TH_NAME("transform_norm.weight", "head.norm.weight"),
    TH_NAME("classifier_bias", "decoder.bias"),
    {0},
};

static const th_tensor_name head_names[] = {
    TH_NAME("head.transform.weight", "head.dense.weight"),
    TH_NAME("head.norm.weight", "head.norm.weight"),
    TH_HEAD_OUTPUT("classifier"),
    {0},
};
#define HEAD(kind_)                                                                                                    \
    {                                                                                                                  \
        .kind = (kind_), .transform = true, .activation = TH_GELU, .norm = true                                        \
    }
static const th_family_head classes[] = {
    {"ModernBertForSequenceClassification", HEAD(TH_HEAD_SEQUENCE), head_names, "classifier_dropout",
     "classifier_pooling"},
    {"ModernBertForTokenClassification", HEAD(TH_HEAD_TOKENS), head_names, "classifier_dropout", NULL},
    {"ModernBertForQuestionAnswering", HEAD(TH_HEAD_SPANS), head_names, "classifier_dropout", NULL},
    {0},
};
static const char *const outputs[] = {"head.", "decoder.", "classifier.", NULL};

static const th_family_field fields[] = {
    TH_LLAMA_SIZES(50368, 8192, 768, 1152, 22, 12),
    {"norm_eps", TH_EPS(block.eps), .default_value = 1e-5},
    {"decoder_bias", TH_FLAG(classifier_bias), .default_value = true},
    {"embedding_dropout", TH_RATE(embedding_dropout), .default_value = 0},
    {"attention_dropout", .kind = TH_FIELD_FIXED}, /* it is applied to the result of attention too */
    {"mlp_dropout", .kind = TH_FIELD_FIXED},
    {"hidden_activation", .kind = TH_FIELD_NAME, .name = "gelu"},
    {"classifier_activation", .kind = TH_FIELD_NAME, .name = "gelu"},
    {"norm_bias", .kind = TH_FIELD_FALSE},
    {"attention_bias", .kind = TH_FIELD_FALSE},
    {"mlp_bias", .kind = TH_FIELD_FALSE},
    {"classifier_bias", .kind = TH_FIELD_FALSE},
    {"tie_word_embeddings", .kind = TH_FIELD_TRUE},
    {"rope_scaling", .kind = TH_FIELD_NULL}, /* it would scale both kinds of layers */
    {"head_dim", .kind = TH_FIELD_NULL},     /* parts of transformers use it, others width / heads */
    {0},
};

const th_family th_family_modernbert = {
    .model_type = "modernbert",
    .architecture = "ModernBertForMaskedLM",
    .encoder_architecture = "ModernBertModel",
    .title = "ModernBERT",
    .prefix = "model.",
    .embedding = "model.embeddings.tok_embeddings.weight",
    .classifier = "decoder.weight",
    .outputs = outputs,
    .heads = classes,
    .tensors = {tensors, classifier},
    .fields = fields,
    .options = {.positions = TH_POSITIONS_NONE,
                .bidirectional = true,
                .input_norm = true,
                .classifier_transform = true,
                .block = {.gated = true,
                          .activation = TH_GELU,
                          .no_bias = true,
                          .no_first_norm = true,
                          .scores = {.rotary = true}}},
    .rotary = {.base_key = "global_rope_theta",
               .base = 160000,
               .window_base_key = "local_rope_theta",
               .window_base = 10000,
               .in_parameters_only = true},
    .layers = {.windows = TH_WINDOW_BY_LAYER,
               .window = 128,
               .full_every = 3,
               .full_key = "global_attn_every_n_layers",
               .full_first = true,
               .span_key = "local_attention"},
    .end_token = 50282,
};
