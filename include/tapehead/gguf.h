/* Reads and writes language models in GGUF files, the format of llama.cpp: one file with the model, its tokenizer and
 * its chat template. These architectures become th_language_model, and back:
 *
 *     llama (also Mistral and SmolLM 2), qwen2, qwen3, smollm3, phi2, phi3, olmo2, gemma2, gemma3, granite, minicpm,
 *     gptneox, gpt2, and the encoder bert (also RoBERTa and XLM-RoBERTa)
 *
 * Errors are TH_ERROR_FILE: for damaged files, and for features that this library does not have. The message names the
 * file and the feature. No value that changes a result is ignored. docs/gguf.md describes how values and tensors
 * correspond. */
#ifndef TAPEHEAD_GGUF_H
#define TAPEHEAD_GGUF_H

#include "tapehead/hugging_face.h"
#include "tapehead/language_model.h"
#include "tapehead/lora.h"
#include "tapehead/tokenizer.h"

TH_BEGIN_DECLS

/* Options of th_language_model_from_gguf. */
typedef struct th_gguf_load_options {
    /* The model is frozen (th_module_freeze), and its dense weights and embeddings are stored as they are in the file:
     * a storage type, bit for bit. Weights of other types become float32 (th_module_store). */
    bool stored;
    bool frozen;   /* the model is frozen, in the context's default type unless stored or type ask for another one */
    th_dtype type; /* TH_BFLOAT16, TH_FLOAT16, TH_Q8_0 or TH_Q4_0: the model is frozen, and its weights are stored so */
    bool no_mapping; /* of a frozen model, all parameters are copies. Otherwise matrices may be parts of the file: see
                        th_folder_load_options, tapehead/hugging_face.h */
} th_gguf_load_options;

/* Returns the model in a file of version 2 or 3. Types of tensors: F32, F64, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1,
 * Q2_K to Q6_K, IQ4_NL and IQ4_XS, in any mixture. They become the context's default type unless options ask for
 * stored weights. The model has no dropout. options may be NULL. Returns NULL with the error pending. */
TH_API th_module *th_language_model_from_gguf(th_context *ctx, const char *path, const th_gguf_load_options *options);

/* Returns the tokenizer in a file. tokenizer.ggml.model is "gpt2" (byte-level BPE), "llama" (SentencePiece's BPE with
 * scores), "gemma4", "bert" (WordPiece) or "t5" (Unigram). docs/gguf.md lists the names of tokenizer.ggml.pre. Without a name the text is split as by
 * llama.cpp's default. Returns NULL with the error pending; other kinds are TH_ERROR_FILE, which names the kind. */
TH_API th_tokenizer *th_tokenizer_from_gguf(th_context *ctx, const char *path);

/* Appends the chat template (Jinja) in a file to text; appends nothing if the file lacks a template. */
TH_API th_status th_gguf_chat_template(th_context *ctx, const char *path, th_text *text) TH_MUST_CHECK;
/* Sets *token to the token that begins a text (tokenizer.ggml.bos_token_id); -1 if the file lacks it. Chat templates
 * write its text as bos_token, also if the tokenizer does not add it to a text. */
TH_API th_status th_gguf_begin_token(th_context *ctx, const char *path, int64_t *token) TH_MUST_CHECK;
/* Sets *token to the token that ends a text (tokenizer.ggml.eos_token_id); -1 if the file lacks it. */
TH_API th_status th_gguf_end_token(th_context *ctx, const char *path, int64_t *token) TH_MUST_CHECK;

struct th_sentence_options; /* tapehead/sentence_embedding.h */

/* Options of th_language_model_export_gguf. */
typedef struct th_gguf_export_options {
    /* The type of matrices and embeddings: TH_FLOAT32 (0, the default), TH_FLOAT16, TH_BFLOAT16, TH_Q8_0 or TH_Q4_0.
     * A matrix whose rows are not multiples of 32 numbers becomes TH_FLOAT16 instead of Q8_0 or Q4_0. Norms, biases and
     * learned positions are always F32. */
    th_dtype type;
    const th_tokenizer *tokenizer; /* byte-level BPE with a pattern of th_tokenizer_from_gguf, SentencePiece's BPE or
                                      BERT's WordPiece; NULL: none */
    const char *chat_template;     /* Jinja; NULL: none */
    const char *name;              /* general.name; NULL: none */
    const char *architecture;      /* general.architecture; NULL: the first one that has the model's options */
    int64_t end_token; /* with .has_end_token: the token that ends a text, and begins one unless .has_begin_token;
                          TH_END_TOKEN(i) sets both */
    bool has_end_token;
    int64_t begin_token; /* with .has_begin_token: the token that begins a text, if the tokenizer adds no other; -1:
                            none */
    bool has_begin_token;
    /* A GGUF file that the model comes from; NULL: none. Its texts of general.*, such as the license, and its unknown,
     * padding, mask and separator tokens are written too. */
    const char *source;
    /* The pooling of sentence embeddings, which th_sentence_options_read reads from the file: TH_POOL_CLS, TH_POOL_MEAN or
     * TH_POOL_LAST, without a prompt and without a dense layer. NULL: none. Not for a model with a head. */
    const struct th_sentence_options *sentence;
} th_gguf_export_options;

/* Writes a file of version 3. The model may have stored weights. A weight that is stored in the wanted type keeps its
 * bits. llama.cpp gives the same logits, up to rounding; in Q8_0 and Q4_0 it also rounds the inputs of products.
 * TH_ERROR_ARGUMENT names all options of the model that no architecture has. The file appears only when it is complete.
 * options may be NULL. */
TH_API th_status th_language_model_export_gguf(th_module *model, const char *path,
                                               const th_gguf_export_options *options) TH_MUST_CHECK;

/* Writes the adapters of a language model (tapehead/lora.h), merged or not, for llama.cpp (llama-cli --lora): a file
 * with A and B in F32, without the base. architecture: names the tensors; NULL: the first one that has the model's
 * options, as in th_language_model_export_gguf. Projections that are one tensor in the file have one adapter,
 * as in th_lora_save. The file has one alpha: B of adapters with another one is multiplied. The file appears only when
 * it is complete. TH_ERROR_STATE if the model has no adapter; other errors as for th_language_model_export_gguf. */
TH_API th_status th_lora_export_gguf(th_module *model, const char *path, const char *architecture) TH_MUST_CHECK;

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_language_model_from_gguf(...) TH_AT_POINTER(th_module, th_language_model_from_gguf(__VA_ARGS__))
#define th_tokenizer_from_gguf(...) TH_AT_POINTER(th_tokenizer, th_tokenizer_from_gguf(__VA_ARGS__))
#define th_gguf_chat_template(...) TH_AT_STATUS(th_gguf_chat_template(__VA_ARGS__))
#define th_gguf_begin_token(...) TH_AT_STATUS(th_gguf_begin_token(__VA_ARGS__))
#define th_gguf_end_token(...) TH_AT_STATUS(th_gguf_end_token(__VA_ARGS__))
#define th_lora_export_gguf(...) TH_AT_STATUS(th_lora_export_gguf(__VA_ARGS__))
#define th_language_model_export_gguf(...) TH_AT_STATUS(th_language_model_export_gguf(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
