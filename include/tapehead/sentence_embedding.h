/* Sentence embeddings (Reimers & Gurevych 2019): one vector for each text, by an encoder and pooling. Reads and writes the folders of
 * sentence-transformers, such as all-MiniLM-L6-v2.
 *
 *     th_sentence_options options;
 *     if (th_sentence_options_read(ctx, folder, &options))
 *         return report(ctx);
 *     th_module *model = th_language_model_from_pretrained(ctx, folder);
 *     th_tokenizer *tokenizer = th_tokenizer_load(ctx, folder);
 *     th_set_training(ctx, false);
 *     th_tensor *embeddings = th_sentence_embeddings(model, tokenizer, texts, n, &options);        (n, E)
 *
 * The embeddings are recorded like any result, so a loss of them trains the model. */
#ifndef TAPEHEAD_SENTENCE_EMBEDDING_H
#define TAPEHEAD_SENTENCE_EMBEDDING_H

#include "tapehead/hugging_face.h"
#include "tapehead/language_model.h"
#include "tapehead/pooling.h"
#include "tapehead/tokenizer.h"

TH_BEGIN_DECLS

enum { TH_PROMPT_SIZE = 1024 }; /* bytes of a prompt with its NUL */

/* What precedes and follows the encoder. */
typedef struct th_sentence_options {
    char prompt[TH_PROMPT_SIZE]; /* precedes every text */
    th_pooling_kind pooling;
    th_module *dense;   /* th_dense_new (D, E): runs on the pooled vector. NULL: none, D = E */
    bool dense_tanh;    /* tanh follows it */
    int64_t dimensions; /* the first numbers of an embedding, which remain; they are normalized later (Kusupati et al.
                           2022). 0: all D. With normalize, this is truncate_dim with normalize_embeddings in
                           sentence-transformers */
    bool normalize;     /* embeddings have length 1 (th_unit_length) */
    int64_t length;     /* the largest number of tokens of a text, with those of th_tokenizer_encode_document; 0: the
                       model's length */
} th_sentence_options;

/* Sets options as modules.json, the pooling's config.json and sentence_bert_config.json in the folder describe them. The
 * encoder must be in the folder itself. Its tokenizer_config.json is not read. options->dense, if the folder has a module
 * Dense, is a new module of the context. options->prompt is the default prompt of config_sentence_transformers.json, or
 * empty. folder may also be a GGUF file with a pooling_type: texts have no prompt, and embeddings have length 1, as
 * llama.cpp's programs normalize them. Errors (TH_ERROR_FILE) name what is not supported: other modules than Transformer, Pooling, Dense and
 * Normalize, several kinds of pooling at once, prompts that the pooling excludes, other activations of Dense than Tanh
 * and Identity, and do_lower_case if the tokenizer keeps capital letters. */
TH_API th_status th_sentence_options_read(th_context *ctx, const char *folder,
                                          th_sentence_options *options) TH_MUST_CHECK;

/* Sets options->prompt to the prompt of this name in config_sentence_transformers.json, such as "query". TH_ERROR_FILE if
 * the folder does not have it. */
TH_API th_status th_sentence_prompt_read(th_context *ctx, const char *folder, const char *name,
                                         th_sentence_options *options) TH_MUST_CHECK;

/* Writes a folder that sentence-transformers reads: that of th_language_model_export with these options, which need the
 * tokenizer, and modules.json, sentence_bert_config.json, config_sentence_transformers.json, 1_Pooling and 2_Dense.
 * modules.json is removed first and comes last, so a folder that has it is complete. The prompt is the default prompt.
 * .dimensions is not part of such a folder. TH_ERROR_ARGUMENT without a tokenizer. */
TH_API th_status th_sentence_export(th_module *model, const char *folder, const th_sentence_options *sentence,
                                    const th_export_options *options) TH_MUST_CHECK;

/* Returns the embeddings (n, D) of texts, which end with NUL. Texts with more tokens lose tokens at their end, but not
 * the tokens that the tokenizer adds. model: a th_language_model, usually bidirectional. The texts are one batch, padded to the
 * longest. options may be NULL: TH_POOL_CLS. NULL with the error pending. */
TH_API th_tensor *th_sentence_embeddings(th_module *model, th_tokenizer *tokenizer, const char *const *texts, int64_t n,
                                         const th_sentence_options *options);

/* -- in a program that serves embeddings -- */

/* Returns the numbers of an embedding, E: options->dimensions, the outputs of options->dense, or the model's width. 0 if model
 * is no language model. options may be NULL. */
TH_API int64_t th_sentence_dimension(const th_module *model, const th_sentence_options *options);

/* Writes the embeddings (n, E) of any number of texts, E = th_sentence_dimension: those of th_sentence_embeddings, as float32,
 * in evaluation and without recording. Texts with similar numbers of tokens are computed together, in batches of limited size. So
 * the call needs 4 bytes for each token of all texts, and the memory of one batch, which the context reuses in the next call.
 * An embedding has the same bits whatever other texts the call has.
 *
 *     th_module *model = th_language_model_from_folder(ctx, folder, &(th_folder_load_options){.frozen = true});
 *     float *embeddings = malloc(n * th_sentence_dimension(model, &options) * sizeof(float));
 *     if (th_sentence_encode(model, tokenizer, texts, n, &options, embeddings))
 *         return report(ctx);
 *
 * Threads that serve at the same time each have a context with the model and the tokenizer. Frozen models of one file share its
 * pages. After an error, embeddings may have been written in part. Errors: those of th_sentence_embeddings, except that n may be
 * 0. */
TH_API th_status th_sentence_encode(th_module *model, th_tokenizer *tokenizer, const char *const *texts, int64_t n,
                                    const th_sentence_options *options, float *embeddings) TH_MUST_CHECK;

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_sentence_options_read(...) TH_AT_STATUS(th_sentence_options_read(__VA_ARGS__))
#define th_sentence_prompt_read(...) TH_AT_STATUS(th_sentence_prompt_read(__VA_ARGS__))
#define th_sentence_export(...) TH_AT_STATUS(th_sentence_export(__VA_ARGS__))
#define th_sentence_embeddings(...) TH_AT(th_sentence_embeddings(__VA_ARGS__))
#define th_sentence_encode(...) TH_AT_STATUS(th_sentence_encode(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
