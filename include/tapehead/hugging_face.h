/* Reads and writes models in the format of Hugging Face transformers: a folder with config.json, which describes the
 * model, and model.safetensors, its weights. Models of 20 families (docs/families.md) become th_language_model: GPT-2,
 * Llama, Mistral, SmolLM 3, Qwen 2 and 3, Phi-3, OLMo 2, Gemma 2 and 3, GPT-NeoX, BERT, RoBERTa, DistilBERT, ModernBERT,
 * MPNet and others. A language model with the options of a family is written so that
 *
 *     transformers.AutoModelForCausalLM.from_pretrained(folder)
 *
 * gives the same logits (for encoders: the class that config.json names, such as AutoModelForSequenceClassification). th_tokenizer_load and th_tokenizer_save handle the tokenizer in such a folder. Errors are
 * TH_ERROR_FILE: for files that are damaged or cannot be read, and for features that this library does not have. No
 * setting that changes a result is ignored.
 *
 * The functions that read a folder also take the path of a GGUF file (tapehead/gguf.h). */
#ifndef TAPEHEAD_HUGGING_FACE_H
#define TAPEHEAD_HUGGING_FACE_H

#include "tapehead/checkpoint.h"
#include "tapehead/language_model.h"
#include "tapehead/tokenizer.h"

TH_BEGIN_DECLS

/* Returns the model in a folder with its weights, in the context's default type. It does the three steps below in a
 * row. Returns NULL with the error pending. */
TH_API th_module *th_language_model_from_pretrained(th_context *ctx, const char *folder);

/* Options of th_language_model_from_folder. */
typedef struct th_folder_load_options {
    bool frozen;     /* the model is frozen (th_module_freeze) */
    bool stored;     /* the same, and its dense weights and embeddings are stored as in the file: BF16 as bfloat16,
                        F16 as float16, bit for bit. Weights of other types have the context's default type */
    th_dtype type;   /* TH_BFLOAT16, TH_FLOAT16, TH_Q8_0 or TH_Q4_0: the model is frozen, and all dense weights and
                        embeddings are stored so. TH_FLOAT32 (0): as .stored says */
    bool no_mapping; /* of a frozen model, all parameters are copies of the file */
    const th_language_model_options *model; /* NULL: as config.json says; otherwise as th_pretrained_options sets them,
                                               with other dropout and recompute */
    /* NULL; otherwise the model has this head instead of the classifier or head of the folder. kind, labels, label_names,
     * problem and dropout count; the family decides about the rest. Parameters of the head that the folder has in the
     * same shape are read, such as BERT's pooler. The others are new: weights are N(0, 0.02^2), biases 0. In transformers,
     * AutoModelForSequenceClassification.from_pretrained(folder, num_labels = ...) does this. Excludes .frozen, .stored,
     * .type and GGUF files. */
    const th_head_options *head;
} th_folder_load_options;
/* Does what th_language_model_from_pretrained does, with options, which may be NULL. A frozen model has its weights
 * only in their final type: the peak of memory is the model and one tensor.
 *
 * A matrix of a frozen model is not copied if the file has it with the same type and layout. The parameter is then a
 * private mapping of the file (th_memory_usage.mapped), which ends with the parameter. Writing to the parameter, or
 * training it, does not change the file. Programs may remove the file, or replace it by rename, as this library does.
 * If a program truncates the file, or writes into it, the model's weights change, or the process ends with SIGBUS.
 * .no_mapping excludes that. */
TH_API th_module *th_language_model_from_folder(th_context *ctx, const char *folder,
                                                const th_folder_load_options *options);

/* Sets options for th_language_model_new as config.json in the folder describes them. The caller may change dropout
 * and recompute before creating the model; the other options belong to the weights. Errors name the field: another
 * model_type, quantized weights, a rope_type other than default, linear, llama3, dynamic, yarn and longrope,
 * activations that th_activation does not have, attention that is not causal, and more than two kinds of attention in
 * one model.
 * With dynamic scaling, .length is max_position_embeddings times the factor. The factors of longrope and
 * other_layers belong to the context, until it is freed. */
TH_API th_status th_pretrained_options(th_context *ctx, const char *folder,
                                       th_language_model_options *options) TH_MUST_CHECK;
/* Sets *token to the token that ends a text, for th_generate_options.end_tokens and TH_END_TOKEN. This is eos_token_id
 * of config.json, or its first entry if it is a list. It is -1 if eos_token_id is null, or is the default of a family
 * whose vocabulary is larger than the model's: transformers writes it into every config.json. Any other token outside
 * the vocabulary is TH_ERROR_FILE. */
TH_API th_status th_pretrained_end_token(th_context *ctx, const char *folder, int64_t *token) TH_MUST_CHECK;
/* Sets tokens[0 .. *count - 1] to all tokens that end a text, for th_generate_options.end_tokens. They are eos_token_id
 * of generation_config.json if that file has it, otherwise of config.json. For tokens outside the vocabulary see
 * th_pretrained_end_token.
 * TH_ERROR_ARGUMENT if there are more than max_tokens. A file may have up to 64. */
TH_API th_status th_pretrained_end_tokens(th_context *ctx, const char *folder, int64_t *tokens, int max_tokens,
                                          int *count) TH_MUST_CHECK;
/* Options of th_pretrained_load. */
typedef struct th_pretrained_load_options {
    th_report_function *report; /* called with each difference as a line; may be NULL */
    void *report_user;          /* passed to report: for th_report_print, a FILE * */
} th_pretrained_load_options;
/* Reads the weights in the folder into a model that was made with these options: model.safetensors, or the files that
 * model.safetensors.index.json names. Converts float32, float64, bfloat16 and float16 to the model's type, one tensor
 * after another. Finds every tensor that is missing, unexpected or of another shape before it changes the model. The
 * error message lists the first of them, report is called for all. Tensors with rows of several parameters, as in Phi-3
 * and GPT-NeoX, take memory for one of them meanwhile. Every option of the model that changes what it computes must be
 * as config.json says; otherwise TH_ERROR_ARGUMENT names the option. options may be NULL. */
TH_API th_status th_pretrained_load(th_module *model, const char *folder,
                                    const th_pretrained_load_options *options) TH_MUST_CHECK;

/* A further file of a folder that th_language_model_export writes. */
typedef struct th_export_file {
    const char *name;  /* in the folder, such as "chat_template.jinja" */
    const char *bytes; /* [count]; NULL: an older file of this name is removed */
    size_t count;
} th_export_file;
/* Options of th_language_model_export. */
typedef struct th_export_options {
    int64_t end_token; /* with .has_end_token: the token that ends a text, and begins one unless .has_begin_token;
                          TH_END_TOKEN(i) sets both */
    bool has_end_token;
    const char *family;  /* model_type of config.json; NULL: the first family that has the model's options */
    th_dtype type;       /* of all weights in the files: TH_BFLOAT16, TH_FLOAT16, or TH_FLOAT32 (0): the model's type.
                           Stored weights then have the type of the other weights, usually float32 */
    int64_t shard_bytes; /* the largest size of the weights in a file; 0: one file */
    int64_t begin_token; /* with .has_begin_token: the token that begins a text, in config.json; -1: none */
    bool has_begin_token;
    /* what becomes a part of the folder together with the model: */
    const th_tokenizer *tokenizer; /* in the files of th_tokenizer_save; NULL: none */
    const th_export_file *files;   /* [n_files] written after the tokenizer's, so one of them may replace such a file */
    int n_files;
} th_export_options;
/* Sets end_token and has_end_token. */
#define TH_END_TOKEN(token) .end_token = (token), .has_end_token = true
/* Writes the folder, and creates it if necessary: model.safetensors, the weights, and config.json. After an error a
 * folder that it has created is removed. With .shard_bytes, weights that need more bytes are in several files,
 * model-00001-of-00002.safetensors and so on, and model.safetensors.index.json lists them. transformers' max_shard_size
 * has the same meaning. A file has the next tensors of the model that fit; a larger tensor is alone in a file.
 *
 * All files are first written beside the old ones, so an error or a crash meanwhile changes nothing. Then config.json is
 * removed, and the new files replace the old ones. All other weights of the old model are removed: model.safetensors,
 * the index, and all files with the names of shards. The tokenizer and .files follow. The new config.json comes last: a folder with config.json has one
 * whole model. Until then the files stay open, so the process must be allowed to open that many.
 *
 * The model is written as the given family, or as the first one that has all of its options: gpt2, llama, mistral,
 * qwen2, qwen3, smollm3, phi3, olmo2, gemma2, gemma3_text, gpt_neox. TH_ERROR_ARGUMENT names the options that this
 * family, or the closest one, does not have. Rotary positions that rotate neighbors become positions that rotate
 * halves, by another order of the rows of q and k. Such rows, packed tensors and converted weights are copied, one tensor
 * at a time. Weights that are stored in the wanted type keep their bits. Others are converted: loading is exact, and
 * rounding to bfloat16 or float16 is to nearest.
 * TH_ERROR_TYPE for another type. Dropout matters for training only: kinds of dropout that the family does not have are
 * not written.
 * options may be NULL. */
TH_API th_status th_language_model_export(th_module *model, const char *folder,
                                          const th_export_options *options) TH_MUST_CHECK;

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_language_model_from_pretrained(...) TH_AT_POINTER(th_module, th_language_model_from_pretrained(__VA_ARGS__))
#define th_language_model_from_folder(...) TH_AT_POINTER(th_module, th_language_model_from_folder(__VA_ARGS__))
#define th_pretrained_options(...) TH_AT_STATUS(th_pretrained_options(__VA_ARGS__))
#define th_pretrained_end_token(...) TH_AT_STATUS(th_pretrained_end_token(__VA_ARGS__))
#define th_pretrained_end_tokens(...) TH_AT_STATUS(th_pretrained_end_tokens(__VA_ARGS__))
#define th_pretrained_load(...) TH_AT_STATUS(th_pretrained_load(__VA_ARGS__))
#define th_language_model_export(...) TH_AT_STATUS(th_language_model_export(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
