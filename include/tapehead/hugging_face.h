/* Models as Hugging Face transformers reads and writes them: a folder with config.json, which says what the model is,
 * and its weights in model.safetensors. GPT-2 (GPT2LMHeadModel) and Llama (LlamaForCausalLM) become th_language_model,
 * and language models that are one of the two by their options are written so that
 *
 *     transformers.AutoModelForCausalLM.from_pretrained(folder)
 *
 * gives the same logits. A tokenizer beside them is th_tokenizer_load's and th_tokenizer_save's matter. Errors are
 * TH_ERROR_FILE with a sentence: what cannot be read or is damaged, and what the model would need that is not here:
 * nothing that changes a result is passed over. */
#ifndef TAPEHEAD_HUGGING_FACE_H
#define TAPEHEAD_HUGGING_FACE_H

#include "tapehead/checkpoint.h"
#include "tapehead/language_model.h"

TH_BEGIN_DECLS

/* The model in a folder, of the context's default type, with its weights: the three steps below in a row. NULL with the
 * error stored. */
TH_API th_module *th_language_model_from_pretrained(th_context *ctx, const char *folder);

/* What config.json in the folder describes, as options for th_language_model_new. Dropout and recompute may be set
 * otherwise before the model is made; the rest belongs to the weights. model_type must be gpt2 or llama. Of GPT-2,
 * refused are scale_attn_weights off, scale_attn_by_inverse_layer_idx and cross attention; of Llama, rotary positions
 * of another rope_type than default, linear and llama3 (in rope_scaling or rope_parameters) or of a part of each head;
 * of both, weights that are quantized and activations that th_activation has not. */
TH_API th_status th_pretrained_options(th_context *ctx, const char *folder,
                                       th_language_model_options *options) TH_MUST_CHECK;
/* The token that ends a text: config.json's eos_token_id, the first where it is a list; -1 where it is null or no token
 * of the model's vocabulary. For th_generate_options.end_tokens and TH_END_TOKEN. */
TH_API th_status th_pretrained_end_token(th_context *ctx, const char *folder, int64_t *token) TH_MUST_CHECK;
/* Reads the weights in the folder into a model made with these options: model.safetensors, or the files that
 * model.safetensors.index.json names; float32, float64, bfloat16 and float16, converted to the model's type one tensor
 * after another. Every tensor that is missing, unexpected or of another shape is found before the model changes; the
 * sentence of the error lists as many as it has room for, report hears of all. options may be NULL. */
typedef struct th_pretrained_load_options {
    th_report_function *report; /* given each difference as a line; th_report_print prints it to the FILE * user */
    void *report_user;
} th_pretrained_load_options;
TH_API th_status th_pretrained_load(th_module *model, const char *folder,
                                    const th_pretrained_load_options *options) TH_MUST_CHECK;

/* Writes the folder (made if it is not there): config.json, then model.safetensors, the weights in the model's type.
 * A model with learned positions is written as GPT-2, which has layer norms and biases; one without (positions are
 * TH_POSITIONS_NONE) as Llama, which has rotary positions, RMS norms and a gated MLP. Rotary positions that turn
 * neighbors become those that turn halves, by another order of the rows of q and k. All options that the one cannot
 * express are TH_ERROR_ARGUMENT, named in the sentence; but of dropout, which is of training alone, Llama keeps that of
 * attention weights only. */
typedef struct th_export_options {
    int64_t end_token; /* with .has_end_token: the token that begins and ends a text; TH_END_TOKEN(i) sets both */
    bool has_end_token;
} th_export_options;
#define TH_END_TOKEN(token) .end_token = (token), .has_end_token = true
TH_API th_status th_language_model_export(th_module *model, const char *folder,
                                          const th_export_options *options) TH_MUST_CHECK;

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_language_model_from_pretrained(...) TH_AT_POINTER(th_module, th_language_model_from_pretrained(__VA_ARGS__))
#define th_pretrained_options(...) TH_AT_STATUS(th_pretrained_options(__VA_ARGS__))
#define th_pretrained_end_token(...) TH_AT_STATUS(th_pretrained_end_token(__VA_ARGS__))
#define th_pretrained_load(...) TH_AT_STATUS(th_pretrained_load(__VA_ARGS__))
#define th_language_model_export(...) TH_AT_STATUS(th_language_model_export(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
