/* A family of language models as transformers knows it. One table has the names of the tensors, the fields of
 * config.json, and the options of all models. Reading and writing use the same table. docs/families.md says how to add
 * a family. */
#ifndef TH_MODELS_FAMILIES_FAMILY_H
#define TH_MODELS_FAMILIES_FAMILY_H

#include <stddef.h>

#include "models/families/options.h"
#include "models/families/ranges.h"
#include "tapehead/language_model.h"

typedef struct th_config th_config;                 /* fields.h */
typedef struct th_foreign_config th_foreign_config; /* config.h */
typedef struct th_writer th_writer;                 /* writer.h */

/* -- tensors -- */

/* How a tensor of the file is a view of our parameter. Our projections of attention are concatenated: the first
 * rows, heads * head width of them, are the queries. Half of the remaining rows are the keys, the other half the
 * values. */
typedef enum th_foreign_view {
    TH_VIEW_WHOLE,
    TH_VIEW_TRANSPOSED,
    TH_VIEW_QUERY,
    TH_VIEW_KEY,
    TH_VIEW_VALUE,
    TH_VIEW_BY_HEAD /* the query, key and value of the first head, then of the second ... */
} th_foreign_view;

enum { TH_MAX_PLACES = 3 };
typedef struct th_tensor_name {
    const char *ours, *theirs; /* * is the index of a layer. {NULL} ends a table */
    th_foreign_view view;
    int place; /* 0, 1, 2: of several parameters whose rows are one tensor of the file, one below the other */
} th_tensor_name;
#define TH_NAME(ours, theirs)                                                                                          \
    {                                                                                                                  \
        ours, theirs, TH_VIEW_WHOLE, 0                                                                                 \
    }

/* -- fields of config.json -- */

typedef enum th_field_kind {
    TH_FIELD_SIZE,           /* a positive integer, int64_t */
    TH_FIELD_NUMBER,         /* a number in the field's range, double */
    TH_FIELD_RATE,           /* a number in [0, 1), double */
    TH_FIELD_FLAG,           /* bool */
    TH_FIELD_NOT,            /* bool, the opposite of the field */
    TH_FIELD_ACTIVATION,     /* th_activation */
    TH_FIELD_INVERSE_ROOT,   /* an integer n, double: 1 / sqrt(n) */
    TH_FIELD_ROOT_OF_LAYERS, /* a number n, double: n / sqrt(layers) */
    TH_FIELD_PART_OF_WIDTH,  /* an integer n, double: width / n */
    TH_FIELD_AFTER_TOKEN,    /* a token n, int64_t: n + 1 */
    TH_FIELD_SCALED,         /* a flag, double: true is 0 (the default), false is 1 */
    TH_FIELD_FALSE,          /* a flag that must be false; it has no member */
    TH_FIELD_TRUE,           /* a flag that must be true; it has no member */
    TH_FIELD_NAME,           /* a string that must be `name`; it has no member */
    TH_FIELD_FIXED,          /* a number that must be the default value; it has no member */
    TH_FIELD_NULL            /* must be null; it has no member */
} th_field_kind;

typedef struct th_family_field {
    const char *key; /* NULL ends a table */
    th_field_kind kind;
    size_t member;        /* its offset in th_language_model_options */
    double default_value; /* if the file does not have the field. A size of 0 depends on other sizes */
    const char *name;     /* the default value of an activation; the only value of a NAME */
    const char *other;    /* another key for the same field, or NULL */
    bool optional;        /* null means 0: the model lacks it. Otherwise null means missing */
    th_range range;       /* of TH_FIELD_NUMBER */
} th_family_field;

#define TH_MEMBER(member) offsetof(th_language_model_options, member)
#define TH_SIZE(member_) .kind = TH_FIELD_SIZE, .member = TH_MEMBER(member_)
#define TH_EPS(member_) .kind = TH_FIELD_NUMBER, .member = TH_MEMBER(member_), .range = TH_EPS_RANGE
#define TH_CAP(member_) .kind = TH_FIELD_NUMBER, .member = TH_MEMBER(member_), .range = TH_CAP_RANGE
#define TH_MULTIPLIER(member_) .kind = TH_FIELD_NUMBER, .member = TH_MEMBER(member_), .range = TH_MULTIPLIER_RANGE
#define TH_RATE(member_) .kind = TH_FIELD_RATE, .member = TH_MEMBER(member_)
#define TH_FLAG(member_) .kind = TH_FIELD_FLAG, .member = TH_MEMBER(member_)
#define TH_NOT(member_) .kind = TH_FIELD_NOT, .member = TH_MEMBER(member_)

/* The fields that all families like Llama have under the same names, with the defaults of one family. */
#define TH_LLAMA_SIZES(vocabulary_, length_, width_, mlp_width_, layers_, heads_)                                      \
    {"vocab_size", TH_SIZE(vocabulary), .default_value = (vocabulary_)},                                               \
        {"max_position_embeddings", TH_SIZE(length), .default_value = (length_)},                                      \
        {"hidden_size", TH_SIZE(width), .default_value = (width_)},                                                    \
        {"intermediate_size", TH_SIZE(block.mlp_width), .default_value = (mlp_width_)},                                \
        {"num_hidden_layers", TH_SIZE(layers), .default_value = (layers_)},                                            \
    {                                                                                                                  \
        "num_attention_heads", TH_SIZE(heads), .default_value = (heads_)                                               \
    }

/* The gate of a gated MLP, and the epsilon of all norms. */
#define TH_SILU_AND_EPS(eps_)                                                                                          \
    {"hidden_act", .kind = TH_FIELD_ACTIVATION, .member = TH_MEMBER(block.activation), .name = "silu"},                \
    {                                                                                                                  \
        "rms_norm_eps", TH_EPS(block.eps), .default_value = (eps_)                                                     \
    }
#define TH_ATTENTION_BIAS                                                                                              \
    {                                                                                                                  \
        "attention_bias", TH_NOT(block.no_attention_bias), .default_value = false                                      \
    }
#define TH_ATTENTION_DROPOUT                                                                                           \
    {                                                                                                                  \
        "attention_dropout", TH_RATE(block.attention_dropout), .default_value = 0                                      \
    }
#define TH_TIED(default_value_)                                                                                        \
    {                                                                                                                  \
        "tie_word_embeddings", TH_NOT(untied), .default_value = (default_value_)                                       \
    }

/* -- rotary positions -- */

typedef struct th_family_rotary {
    const char *base_key;             /* beside rope_parameters; NULL: rope_theta */
    double base;                      /* if it is missing; 0: 10000 */
    const char *rotated_fraction_key; /* beside rope_parameters; NULL: the whole head is rotated */
    double rotated_fraction;          /* if it is missing */
    const char
        *window_base_key; /* layers with a window have their own rope_parameters; NULL: all layers have the same */
    double window_base;
    int64_t original_length;   /* original_max_position_embeddings if it is missing; 0: max_position_embeddings */
    bool in_parameters_only;   /* scaling is not written to rope_scaling, which would scale all layers */
    bool has_longrope_aliases; /* rope_type su and yarn are other names of longrope, and no other scaling exists */
} th_family_rotary;

/* -- kinds of layers -- */

typedef enum th_family_windows {
    TH_NO_WINDOWS,
    TH_WINDOW_IN_ALL_LAYERS, /* sliding_window */
    TH_WINDOW_BY_LAYER       /* sliding_window in the layers that layer_types names */
} th_family_windows;

typedef struct th_family_layers {
    th_family_windows windows;
    int64_t window;       /* sliding_window if it is missing; 0: none */
    bool has_switch;      /* use_sliding_window, which is false if it is missing */
    int64_t full_every;   /* without layer_types: each n-th layer has no window */
    const char *full_key; /* the field of full_every, or NULL */
    bool full_first;      /* the first of each n layers has no window instead */
    const char *span_key; /* instead of sliding_window, the number of keys on both sides of a bidirectional window */
    int64_t window_from; /* max_window_layers if it is missing: without layer_types, layers from this one have a window;
                             0: no such field */
    int64_t rotary_except; /* no_rope_layer_interval if it is missing: each n-th layer has no rotary positions, and
                              without layer_types only such layers have a window. 0: no such field */
} th_family_layers;

/* -- heads -- */

typedef struct th_family_head {
    const char *architecture;      /* in config.json. NULL ends a table */
    th_head_options options;       /* of all such heads */
    const th_tensor_name *tensors; /* a table */
    const char *dropout_key;       /* of head.dropout; NULL: none */
    const char *pooling_key;       /* of head.pooling, "cls" or "mean"; NULL: none */
} th_family_head;
/* The name of an output layer. */
#define TH_HEAD_OUTPUT(theirs)                                                                                         \
    TH_NAME("head.output.weight", theirs ".weight"), TH_NAME("head.output.bias", theirs ".bias")
#define TH_HEAD_TRANSFORM(theirs)                                                                                      \
    TH_NAME("head.transform.weight", theirs ".weight"), TH_NAME("head.transform.bias", theirs ".bias")

/* -- a family -- */

typedef struct th_family {
    const char *model_type, *architecture; /* in config.json */
    const char *title;                     /* in messages */
    const char *prefix;                    /* of names; a file may omit it */
    const char *embedding, *classifier;
    const char *other_classifier;      /* another name in files, or NULL */
    const char *encoder_architecture;  /* of models without a classifier, which is the usual one of a bidirectional
                                          model; NULL: all models have a classifier */
    const char *const *ignored;        /* beginnings of names, behind the prefix, whose tensors are not read; NULL ends
                                          the list. NULL: none */
    const char *const *outputs;        /* such beginnings of the tensors of classifiers and heads. A new head replaces
                                          all of them */
    const th_family_head *heads;       /* a table, or NULL */
    const th_tensor_name *tensors[4];  /* tables; NULL: none */
    const th_family_field *fields;     /* a table */
    th_language_model_options options; /* of all models */
    bool scaled_embedding;             /* embedding_scale is sqrt(width) */
    th_family_rotary rotary;
    th_family_layers layers;
    int64_t end_token; /* eos_token_id if it is missing; -1: none */
} th_family;

/* All families in the order in which export tries them, and their number. */
extern const th_family *const th_families[];
enum { TH_FAMILIES = 20 };

/* Returns the family of a model_type, or NULL. */
const th_family *th_family_find(const char *model_type);
/* Writes the model types of all families to text: "gpt2, llama and ...". */
void th_family_list(char *text, size_t bytes);

/* The names of Llama's tensors, which other families share: of the projections to queries, keys and values, of the rest,
 * and of the norms of a block. */
extern const th_tensor_name th_llama_projections[], th_llama_tensors[], th_llama_norms[];
#define TH_LLAMA_NAMES(norms)                                                                                          \
    .prefix = "model.", .embedding = "model.embed_tokens.weight", .classifier = "lm_head.weight",                      \
    .tensors = {th_llama_projections, th_llama_tensors, norms}

/* The tables, one for each model_type. */
extern const th_family th_family_gpt2, th_family_llama, th_family_mistral, th_family_qwen2, th_family_qwen3,
    th_family_smollm3, th_family_phi3, th_family_olmo2, th_family_gemma2, th_family_gemma3, th_family_gpt_neox,
    th_family_phi, th_family_granite, th_family_minicpm, th_family_bert, th_family_roberta, th_family_xlm_roberta,
    th_family_distilbert, th_family_modernbert, th_family_mpnet;

/* -- layers whose attention differs: windows, and layers without rotary positions (layers_read.c, layers_write.c) -- */

/* Sets block.scores, other_scores and other_layers. options has everything else, also the members of block.scores that
 * all layers have. th_layers_release releases the arrays. */
void th_layers_read(const th_config *c, const th_family *family, th_language_model_options *options);
/* Releases the arrays that the scores of layers own. */
void th_layers_release(th_context *ctx, th_language_model_options *options);
/* Releases all arrays that options from a file own: those of layers, and the names of labels. */
void th_options_release(th_context *ctx, th_language_model_options *options);
/* Writes the fields that describe the scores of all layers. options is normal (options.h). */
void th_layers_write(th_writer *w, const th_family *family, const th_language_model_options *options);

/* -- heads (heads.c) -- */

/* Returns the family's head of a kind, or NULL. */
const th_family_head *th_family_head_find(const th_family *family, th_head_kind kind);
/* Sets dropout[kind] for a new head of each kind, to what config.json has for it, such as classifier_dropout. */
void th_head_read_dropout(const th_config *c, const th_family *family, double dropout[TH_HEAD_SPANS + 1]);
/* Replaces the classifier or head of a model by the family's head of given->kind, with the labels, names, problem and
 * dropout of given; without it, with dropout[kind]. Names are not copied. TH_ERROR_ARGUMENT if the family has no such head. */
th_status th_family_replace_head(th_context *ctx, const char *operation, const th_family *family,
                                 const th_head_options *given, const double *dropout,
                                 th_language_model_options *options);
/* Sets options->head and returns true if config.json names a head. Otherwise sets only the pooling of a new head. th_foreign_config_release releases the names. */
bool th_head_read(const th_config *c, const th_family *family, th_language_model_options *options);
/* Writes the fields of a head. */
void th_head_write(th_writer *w, const th_family_head *family_head, const th_head_options *head);

/* -- rotary positions in config.json: base, scaling, rotated part of a head (rotary_read.c, rotary_write.c) -- */

/* Sets the rotary members of the scores of layers with or without a window. options has the sizes. The scaling may own
 * arrays that th_score_options_release releases. */
void th_rotary_read(const th_config *c, const th_family *family, const th_language_model_options *options, bool window,
                    th_score_options *scores);

/* Writes the rotary members of layers without a window, and of layers with one. They differ only in some families. */
void th_rotary_write(th_writer *w, const th_family *family, int64_t head_width, const th_score_options *full,
                     const th_score_options *window);

/* Returns transformers' name (rope_type) of a kind of scaling. */
const char *th_rotary_scaling_name(th_rotary_scaling_kind kind);
/* Finds the kind of scaling of a name. Returns false if the library does not have it. */
bool th_rotary_scaling_find(const char *name, th_rotary_scaling_kind *kind);

/* Returns the base of layers with or without a window if config.json does not have it. */
double th_rotary_usual_base(const th_family *family, bool window);

/* -- tokens that end a text (end_tokens.c) -- */

/* Reads eos_token_id, an integer or a list. If it is missing, the end token is the family's default. Small models often
 * keep this default although it is outside their vocabulary. Such a model has no end token. Any other token outside the
 * vocabulary is an error. */
void th_end_tokens_read(const th_config *c, th_foreign_config *described);
/* Replaces the end tokens by the eos_token_id of a generation_config.json, if the file has this member. */
void th_end_tokens_read_generation_config(th_context *ctx, const char *operation, const char *path,
                                          th_foreign_config *described);

/* -- the same attention with another pairing of rotary positions (halves.c) -- */

/* The leading rows of a tensor whose order changes: queries, keys, or both. */
typedef struct th_halves {
    int64_t rows; /* 0: none */
    int64_t head_width, rotated;
} th_halves;

/* Returns which rows of a parameter change. There are some if the layer rotates neighbors, and the parameter projects
 * or normalizes queries or keys. */
th_halves th_halves_of(const th_parameter_iterator *parameter, const th_language_model_options *options);
/* Returns the tensor as it is for rotary positions that rotate halves: a copy that belongs to the scope, or t itself if
 * no row changes. */
th_tensor *th_halves_order(th_tensor *t, const th_halves *halves);
/* Returns the tensor as it is for rotary positions that rotate neighbors, from the order of halves. All rows change. */
th_tensor *th_halves_undo(th_tensor *t, const th_halves *halves);

/* -- the family or architecture of an exported model: the first one that expresses its options (choice.c) -- */

typedef struct th_candidates {
    const char *noun, *format; /* in messages: "family", "transformers" */
    int count;
    const char *(*title)(int i); /* in messages */
    const th_family *(*family)(int i);
    /* Compares the normal options of a model with the options that a file of candidate i has. Returns the number of
     * differences; -1 if such a file cannot be read, -2 without memory. It may use another context. */
    int (*differences)(int i, const th_language_model_options *model, th_option_difference difference[TH_MAX_OPTIONS]);
} th_candidates;

/* Returns the first candidate that expresses the options, or only that one if `only` is not -1. Otherwise returns -1
 * and sets an error, which names the differences from the closest candidate. */
int th_first_candidate(th_context *ctx, const char *asker, const th_candidates *candidates,
                       const th_language_model_options *options, int only);

#endif
