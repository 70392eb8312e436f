/* Writes tokenizers to files that the reference reads: tokenizer.json, and GPT-2's vocab.json and merges.txt. */
#include <math.h>
#include <string.h>

#include "models/core/context.h"
#include "models/core/files.h"
#include "models/text/byte_alphabet.h"
#include "models/text/tokenizer.h"

static const char operation[] = "tokenizer_save";

/* -- values -- */

char *th_tokenizer_token_in_files(const th_tokenizer *t, int32_t id)
{
    const th_token_entry *e = &t->vocabulary.entry[id];
    const char *bytes = th_vocabulary_bytes(&t->vocabulary, id);
    char *text = malloc(TH_BYTE_WRITTEN * (size_t)e->bytes + 1);
    if (text && t->byte_level && !e->literal)
        th_bytes_write(bytes, e->bytes, text);
    else if (text)
        memcpy(text, bytes, (size_t)e->bytes + 1);
    return text;
}

static json_t *token_json(const th_tokenizer *t, int32_t id)
{
    char *text = th_tokenizer_token_in_files(t, id);
    json_t *value = text ? json_string(text) : NULL;
    free(text);
    return value;
}

static json_t *vocabulary_json(const th_tokenizer *t)
{
    json_t *vocab = json_object();
    bool made = vocab != NULL;
    for (size_t i = 0; made && i < t->vocabulary.size; i++) {
        if (!t->vocabulary.entry[i].model)
            continue;
        char *text = th_tokenizer_token_in_files(t, (int32_t)i);
        made = text && json_object_set_new(vocab, text, json_integer((json_int_t)i)) == 0;
        free(text);
    }
    if (!made)
        json_decref(vocab);
    return made ? vocab : NULL;
}

static json_t *merges_json(const th_tokenizer *t)
{
    json_t *merges = json_array();
    bool made = merges != NULL;
    for (size_t i = 0; made && i < t->merges.count; i++) {
        const th_merge *m = &t->merges.merge[i];
        if (th_merges_is_valid(&t->merges, i))
            made = json_array_append_new(merges,
                                         json_pack("[o, o]", token_json(t, m->left), token_json(t, m->right))) == 0;
    }
    if (!made)
        json_decref(merges);
    return made ? merges : NULL;
}

static int compare_ids(const void *a, const void *b)
{
    const th_added_token *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* Returns the added tokens, in the order of their ids. */
static json_t *added_json(const th_tokenizer *t)
{
    const size_t count = t->added.all.count;
    th_added_token *token = calloc(count + 1, sizeof *token);
    json_t *list = json_array();
    bool made = token && list;
    for (size_t i = 0; made && i < count; i++)
        token[i] = t->added.all.token[i];
    if (made)
        qsort(token, count, sizeof *token, compare_ids);
    for (size_t i = 0; made && i < count; i++)
        made = json_array_append_new(list,
                                     json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (int)token[i].id, "content",
                                               token[i].content, "single_word", (int)token[i].single_word, "lstrip",
                                               (int)token[i].lstrip, "rstrip", (int)token[i].rstrip, "normalized",
                                               (int)token[i].normalized, "special", (int)token[i].special)) == 0;
    free(token);
    if (!made)
        json_decref(list);
    return made ? list : NULL;
}

/* Returns Unigram's tokens with their scores. A token outside the lattice has the score 0. */
static json_t *scores_json(const th_tokenizer *t)
{
    json_t *vocab = json_array();
    bool made = vocab != NULL;
    for (size_t i = 0; made && i < t->unigram.size; i++) {
        const double score = t->unigram.score[i];
        json_t *number = json_real(score > -INFINITY ? th_unigram_written_score(score) : 0);
        made = json_array_append_new(vocab, json_pack("[o, o]", token_json(t, (int32_t)i), number)) == 0;
    }
    if (!made)
        json_decref(vocab);
    return made ? vocab : NULL;
}

static json_t *model_json(const th_tokenizer *t)
{
    if (t->unigram.used)
        return json_pack("{s:s, s:o, s:b, s:o}", "type", "Unigram", "unk_id",
                         t->unknown < 0 ? json_null() : json_integer(t->unknown), "byte_fallback",
                         (int)t->byte_fallback, "vocab", scores_json(t));
    json_t *unknown = t->unknown < 0 ? json_null() : token_json(t, t->unknown);
    if (t->pieces.used)
        return json_pack("{s:s, s:o, s:s#, s:I, s:o}", "type", "WordPiece", "unk_token", unknown,
                         "continuing_subword_prefix", t->pieces.prefix, (int)t->pieces.prefix_bytes,
                         "max_input_chars_per_word", (json_int_t)t->pieces.max_characters, "vocab", vocabulary_json(t));
    return json_pack("{s:s, s:n, s:o, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout", "unk_token",
                     unknown, "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", (int)t->fuse_unknown,
                     "byte_fallback", (int)t->byte_fallback, "ignore_merges", (int)t->ignore_merges, "vocab",
                     vocabulary_json(t), "merges", merges_json(t));
}

static json_t *tokenizer_json(const th_tokenizer *t)
{
    return json_pack("{s:s, s:O, s:O, s:o, s:O, s:O, s:O, s:O, s:o}", "version", "1.0", "truncation",
                     t->truncation_json, "padding", t->padding_json, "added_tokens", added_json(t), "normalizer",
                     t->normalizer_json, "pre_tokenizer", t->pre_tokenizer, "post_processor", t->post_processor,
                     "decoder", t->decoder_json, "model", model_json(t));
}

/* Returns the token for padding of encoders; NULL without one. */
static const char *pad_token(const th_tokenizer *t)
{
    static const char *const names[] = {"[PAD]", "<pad>"};
    for (int i = 0; i < 2; i++)
        if (th_vocabulary_find(&t->vocabulary, names[i], strlen(names[i])) >= 0)
            return names[i];
    return NULL;
}

/* Returns the name if it is a special token; otherwise NULL. */
static const char *if_special(const th_tokenizer *t, const char *name)
{
    const th_added_token *token = th_added_tokens_find(&t->added, name, strlen(name));
    return token && token->special ? name : NULL;
}

/* With this file, transformers opens tokenizer.json unchanged beside any model, does not alter decoded text, and knows the
 * special tokens of BERT: it can pad and mask texts for an encoder. */
static json_t *transformers_json(const th_tokenizer *t)
{
    return json_pack("{s:s, s:b, s:s*, s:s*, s:s*, s:s*, s:s*}", "tokenizer_class", "PreTrainedTokenizerFast",
                     "clean_up_tokenization_spaces", 0, "pad_token", pad_token(t), "unk_token", if_special(t, "[UNK]"),
                     "cls_token", if_special(t, "[CLS]"), "sep_token", if_special(t, "[SEP]"), "mask_token",
                     if_special(t, "[MASK]"));
}

/* -- files -- */

typedef struct json_file {
    const json_t *value;
    size_t flags;
} json_file;

/* jansson 2.14 ignores the errors of writing a key. */
static bool write_json(FILE *file, const void *content)
{
    const json_file *from = content;
    return json_dumpf(from->value, file, from->flags) == 0 && !ferror(file);
}

static bool write_merges(FILE *file, const void *content)
{
    const th_tokenizer *t = content;
    bool written = fputs("#version: 0.2\n", file) >= 0;
    for (size_t i = 0; written && i < t->merges.count; i++) {
        const th_merge *m = &t->merges.merge[i];
        if (!th_merges_is_valid(&t->merges, i))
            continue;
        char *left = th_tokenizer_token_in_files(t, m->left), *right = th_tokenizer_token_in_files(t, m->right);
        written = left && right && fprintf(file, "%s %s\n", left, right) > 0;
        free(left);
        free(right);
    }
    return written;
}

/* Adds a file with the value, and frees the value. */
static th_status add_json(th_file_set *set, const char *name, json_t *value, size_t flags)
{
    const th_status status = value ? th_file_set_add(set, name, write_json, &(const json_file){value, flags})
                                   : th_fail(set->ctx, TH_ERROR_MEMORY, set->operation, "out of memory");
    json_decref(value);
    return status;
}

/* Whether vocab.json and merges.txt can represent the whole tokenizer. */
static bool fits_in_two_files(const th_tokenizer *t)
{
    bool fits = th_tokenizer_splits_as_gpt2(t) && !t->ignore_merges && t->unknown < 0 && t->normalizer.steps == 0 &&
                !t->truncates && !t->pads;
    for (size_t i = 0; fits && i < t->vocabulary.size; i++)
        fits = t->vocabulary.entry[i].model;
    return fits;
}

th_status th_tokenizer_add_files(const th_tokenizer *t, th_file_set *set)
{
    th_status status = add_json(set, "tokenizer.json", tokenizer_json(t), JSON_INDENT(2));
    if (status == TH_OK)
        status = add_json(set, "tokenizer_config.json", transformers_json(t), JSON_INDENT(2));
    if (status != TH_OK || !fits_in_two_files(t))
        return status;
    status = add_json(set, "vocab.json", vocabulary_json(t), JSON_COMPACT);
    return status == TH_OK ? th_file_set_add(set, "merges.txt", write_merges, t) : status;
}

th_status th_tokenizer_save(const th_tokenizer *tokenizer, const char *folder)
{
    const th_tokenizer *t = tokenizer;
    if (!th_tokenizer_usable(t, operation))
        return t ? th_error_code(t->ctx) : TH_ERROR_ARGUMENT;
    if (folder == NULL || strlen(folder) + 32 > TH_MAX_PATH)
        return th_fail(t->ctx, TH_ERROR_ARGUMENT, operation, "the folder is NULL, or its path is too long");
    th_file_set set = {.ctx = t->ctx, .operation = operation, .folder = folder};
    th_status status = th_tokenizer_add_files(t, &set);
    if (status == TH_OK)
        status = th_file_set_publish(&set);
    th_file_set_free(&set);
    return status;
}
