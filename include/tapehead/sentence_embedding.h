/* Sentence embeddings (Reimers & Gurevych 2019): one vector for each text, by an encoder and pooling. Reads the folders of
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

#include "tapehead/language_model.h"
#include "tapehead/pooling.h"
#include "tapehead/tokenizer.h"

TH_BEGIN_DECLS

/* What follows the encoder. */
typedef struct th_sentence_options {
    th_pooling_kind pooling;
    bool normalize; /* embeddings have length 1 (th_unit_length) */
    int64_t length; /* the largest number of tokens of a text, with those of th_tokenizer_encode_document; 0: the
                       model's length */
} th_sentence_options;

/* Sets options as modules.json, the pooling's config.json and sentence_bert_config.json in the folder describe them. The
 * encoder must be in the folder itself. Its tokenizer_config.json is not read. Errors (TH_ERROR_FILE) name what is not
 * supported: other modules than Transformer, Pooling and Normalize, several kinds of pooling at once, prompts that the
 * pooling excludes, and do_lower_case. */
TH_API th_status th_sentence_options_read(th_context *ctx, const char *folder,
                                          th_sentence_options *options) TH_MUST_CHECK;

/* Returns the embeddings (n, E) of texts, which end with NUL. Texts with more tokens lose tokens at their end, but not
 * the tokens that the tokenizer adds. model: a bidirectional th_language_model. The texts are one batch, padded to the
 * longest. options may be NULL: TH_POOL_CLS. NULL with the error pending. */
TH_API th_tensor *th_sentence_embeddings(th_module *model, th_tokenizer *tokenizer, const char *const *texts, int64_t n,
                                         const th_sentence_options *options);

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_sentence_options_read(...) TH_AT_STATUS(th_sentence_options_read(__VA_ARGS__))
#define th_sentence_embeddings(...) TH_AT(th_sentence_embeddings(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
