/* Reads and writes models in the format of Hugging Face transformers: a folder with config.json, which describes the
 * model, and model.safetensors, its weights. GPT-2 (GPT2LMHeadModel) and Llama (LlamaForCausalLM) become
 * th_language_model. A language model whose options describe one of the two is written so that
 *
 *     transformers.AutoModelForCausalLM.from_pretrained(folder)
 *
 * gives the same logits. th_tokenizer_load and th_tokenizer_save handle the tokenizer in such a folder. Errors are
 * TH_ERROR_FILE: for files that are damaged or cannot be read, and for features that this library does not have. No
 * setting that changes a result is ignored. */
#ifndef TAPEHEAD_HUGGING_FACE_H
#define TAPEHEAD_HUGGING_FACE_H

#include "tapehead/checkpoint.h"
#include "tapehead/language_model.h"

TH_BEGIN_DECLS

/* Returns the model in a folder with its weights, in the context's default type. It does the three steps below in a
 * row. Returns NULL with the error stored. */
TH_API th_module *th_language_model_from_pretrained(th_context *ctx, const char *folder);

/* Sets options for th_language_model_new as config.json in the folder describes them. The caller may change dropout
 * and recompute before creating the model; the other options belong to the weights. model_type must be gpt2 or llama.
 * Errors:
 *   GPT-2  scale_attn_weights off, scale_attn_by_inverse_layer_idx, cross attention
 *   Llama  rotary positions of a part of each head, or a rope_type other than default, linear, llama3, dynamic, yarn
 *          and longrope (in rope_scaling or rope_parameters)
 *   both   quantized weights, activations that th_activation does not have
 * With dynamic scaling, .length is max_position_embeddings times the factor. The factors of longrope belong to the
 * context, until it is freed. */
TH_API th_status th_pretrained_options(th_context *ctx, const char *folder,
                                       th_language_model_options *options) TH_MUST_CHECK;
/* Sets *token to the token that ends a text, for th_generate_options.end_tokens and TH_END_TOKEN. This is eos_token_id
 * of config.json, or its first entry if it is a list. It is -1 if eos_token_id is null or outside the model's
 * vocabulary. */
TH_API th_status th_pretrained_end_token(th_context *ctx, const char *folder, int64_t *token) TH_MUST_CHECK;
/* Sets tokens[0 .. *count - 1] to all tokens that end a text, for th_generate_options.end_tokens. They are eos_token_id
 * of generation_config.json if that file has it, otherwise of config.json, without tokens outside the vocabulary.
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
 * error message lists the first of them, report is called for all. options may be NULL. */
TH_API th_status th_pretrained_load(th_module *model, const char *folder,
                                    const th_pretrained_load_options *options) TH_MUST_CHECK;

/* Options of th_language_model_export. */
typedef struct th_export_options {
    int64_t end_token; /* with .has_end_token: the token that begins and ends a text; TH_END_TOKEN(i) sets both */
    bool has_end_token;
} th_export_options;
/* Sets end_token and has_end_token. */
#define TH_END_TOKEN(token) .end_token = (token), .has_end_token = true
/* Writes the folder, and creates it if necessary: model.safetensors, the weights in the model's type, then config.json.
 * A model with learned positions becomes GPT-2, which has layer norms and biases. A model without (TH_POSITIONS_NONE)
 * becomes Llama, which has rotary positions, RMS norms and a gated MLP. Rotary positions that rotate neighbors become
 * positions that rotate halves, by another order of the rows of q and k. TH_ERROR_ARGUMENT names all options that the
 * architecture cannot express. Dropout matters for training only: Llama keeps only the dropout of attention weights.
 * options may be NULL. */
TH_API th_status th_language_model_export(th_module *model, const char *folder,
                                          const th_export_options *options) TH_MUST_CHECK;

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_language_model_from_pretrained(...) TH_AT_POINTER(th_module, th_language_model_from_pretrained(__VA_ARGS__))
#define th_pretrained_options(...) TH_AT_STATUS(th_pretrained_options(__VA_ARGS__))
#define th_pretrained_end_token(...) TH_AT_STATUS(th_pretrained_end_token(__VA_ARGS__))
#define th_pretrained_end_tokens(...) TH_AT_STATUS(th_pretrained_end_tokens(__VA_ARGS__))
#define th_pretrained_load(...) TH_AT_STATUS(th_pretrained_load(__VA_ARGS__))
#define th_language_model_export(...) TH_AT_STATUS(th_language_model_export(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
