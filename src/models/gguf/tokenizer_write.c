/* Writes a tokenizer as values of a GGUF file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/gguf/tokenizer.h"

/* -- checks -- */

static bool refuse(th_context *ctx, const char *operation, const char *reason)
{
    th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the tokenizer %s", reason);
    return false;
}

/* Whether the tokens around a text are at most one token before it and one behind it. */
static bool has_simple_template(const th_tokenizer *t)
{
    return t->template.n_before <= 1 && t->template.n_after <= 1;
}

/* Whether llama.cpp finds all added tokens as the tokenizer does. The spaces before RoBERTa's <mask> matter only where a text
 * has this token. */
static bool has_plain_added_tokens(const th_tokenizer *t)
{
    for (size_t i = 0; i < t->added.all.count; i++) {
        const th_added_token *a = &t->added.all.token[i];
        const bool lstrip = a->lstrip && strcmp(a->content, "<mask>") != 0;
        if (lstrip || a->rstrip || a->single_word || (a->normalized && t->normalizer.steps > 0))
            return false;
    }
    return true;
}

/* Checks what only byte-level BPE has: a name for its split. */
static bool check_split(th_context *ctx, const char *operation, const th_tokenizer *t)
{
    char list[TH_GGUF_SPLIT_LIST], reason[TH_GGUF_SPLIT_LIST + 60];
    if (th_gguf_split_of(t) && (t->normalizer.steps == 0 || th_gguf_split_of(t)->nfc))
        return true;
    th_gguf_list_splits(list, sizeof list);
    snprintf(reason, sizeof reason, "has another split than those of GGUF: %s", list);
    return refuse(ctx, operation, reason);
}

/* Checks that scores of tokens express the merges. */
static bool check_scores(th_context *ctx, const char *operation, const th_tokenizer *t)
{
    float *score = malloc((t->vocabulary.size + 1) * sizeof *score);
    bool equal = false;
    if (score == NULL || !th_tokenizer_scores(t, score, &equal))
        (void)th_fail_memory(ctx, operation, t->vocabulary.size * sizeof *score);
    else if (!equal)
        refuse(ctx, operation, "has merges that SentencePiece's scores of tokens cannot express");
    free(score);
    return equal;
}

static bool check_kind(th_context *ctx, const char *operation, const th_tokenizer *t)
{
    th_gguf_tokenizer_kind kind;
    bool prefix;
    if (!th_gguf_tokenizer_find_kind(t, &kind, &prefix))
        return refuse(
            ctx, operation,
            "is neither byte-level BPE, SentencePiece's BPE nor BERT's WordPiece, the kinds that are written");
    if (kind == TH_GGUF_BYTE_LEVEL)
        return check_split(ctx, operation, t);
    if (kind == TH_GGUF_PIECES && (t->template.n_before != 1 || t->template.n_after != 1))
        return refuse(ctx, operation,
                      "does not put one token before and one behind a text, as llama.cpp does for BERT");
    return kind != TH_GGUF_SCORES || check_scores(ctx, operation, t);
}

bool th_gguf_tokenizer_check(th_context *ctx, const char *operation, const th_tokenizer *t, int64_t vocabulary)
{
    char reason[80];
    if (!th_tokenizer_usable(t, operation)) {
        if (!th_failed(ctx))
            th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the tokenizer was freed, or its context has an error");
        return false;
    }
    if (!check_kind(ctx, operation, t))
        return false;
    if (!has_simple_template(t))
        return refuse(ctx, operation, "puts several tokens before or behind a text");
    if (!has_plain_added_tokens(t))
        return refuse(ctx, operation,
                      "has an added token with lstrip, rstrip, single_word or normalized, which GGUF does not have");
    if ((int64_t)t->vocabulary.size > vocabulary) {
        snprintf(reason, sizeof reason, "has %zu tokens, and the model %lld", t->vocabulary.size,
                 (long long)vocabulary);
        return refuse(ctx, operation, reason);
    }
    return true;
}

/* -- writing: tokens -- */

/* Whether a token is a byte of a character without a token. */
static bool is_byte(const th_tokenizer *t, int32_t id)
{
    for (int i = 0; t->byte_fallback && i < 256; i++)
        if (t->fallback_token[i] == id)
            return true;
    return false;
}

static int token_type(const th_tokenizer *t, int32_t id)
{
    if (!t->byte_level && !t->pieces.used && id == t->unknown)
        return TH_GGUF_UNKNOWN;
    if (is_byte(t, id))
        return TH_GGUF_BYTE;
    for (size_t i = 0; i < t->added.all.count; i++)
        if (t->added.all.token[i].id == id)
            return t->added.all.token[i].special ? TH_GGUF_CONTROL : TH_GGUF_USER_DEFINED;
    return TH_GGUF_NORMAL;
}

/* Writes the text of a token. Of WordPiece, U+2581 begins the tokens that begin words, and nothing the others. */
static void write_token(th_gguf_writer *w, const th_tokenizer *t, int32_t id, const char *text)
{
    const size_t bytes = strlen(text), prefix = t->pieces.prefix_bytes, space = strlen(TH_GGUF_SPACE);
    if (!t->pieces.used || token_type(t, id) == TH_GGUF_CONTROL) {
        th_gguf_write_string(w->file, text, bytes);
    } else if (bytes > prefix && strncmp(text, t->pieces.prefix, prefix) == 0) {
        th_gguf_write_string(w->file, text + prefix, bytes - prefix);
    } else {
        th_gguf_write_uint64(w->file, space + bytes);
        fprintf(w->file, TH_GGUF_SPACE "%s", text);
    }
}

static bool write_tokens(th_gguf_writer *w, const th_tokenizer *t, int64_t vocabulary)
{
    const int64_t size = (int64_t)t->vocabulary.size;
    th_gguf_put_array(w, "tokenizer.ggml.tokens", TH_GGUF_STRING, (uint64_t)vocabulary);
    for (int64_t i = 0; i < size; i++) {
        char *text = th_tokenizer_token_in_files(t, (int32_t)i);
        if (text == NULL)
            return false;
        write_token(w, t, (int32_t)i, text);
        free(text);
    }
    for (int64_t i = size; i < vocabulary; i++) {
        char text[32];
        snprintf(text, sizeof text, "[PAD%lld]", (long long)i);
        th_gguf_write_string(w->file, text, strlen(text));
    }
    th_gguf_put_array(w, "tokenizer.ggml.token_type", TH_GGUF_INT32, (uint64_t)vocabulary);
    for (int64_t i = 0; i < vocabulary; i++)
        th_gguf_write_uint32(w->file, (uint32_t)(i < size ? token_type(t, (int32_t)i) : TH_GGUF_UNUSED));
    return true;
}

/* -- writing: what makes words of characters -- */

static bool write_merges(th_gguf_writer *w, const th_tokenizer *t)
{
    uint64_t count = 0;
    for (size_t i = 0; i < t->merges.count; i++)
        count += th_merges_is_valid(&t->merges, i);
    th_gguf_put_array(w, "tokenizer.ggml.merges", TH_GGUF_STRING, count);
    bool written = true;
    for (size_t i = 0; written && i < t->merges.count; i++) {
        if (!th_merges_is_valid(&t->merges, i))
            continue;
        const th_merge *m = &t->merges.merge[i];
        char *left = th_tokenizer_token_in_files(t, m->left), *right = th_tokenizer_token_in_files(t, m->right);
        written = left && right;
        if (written) {
            th_gguf_write_uint64(w->file, strlen(left) + 1 + strlen(right));
            fprintf(w->file, "%s %s", left, right);
        }
        free(left);
        free(right);
    }
    return written;
}

static bool write_scores(th_gguf_writer *w, const th_tokenizer *t, int64_t vocabulary)
{
    const size_t size = t->vocabulary.size;
    float *score = malloc((size + 1) * sizeof *score);
    bool equal, written = score && th_tokenizer_scores(t, score, &equal);
    th_gguf_put_array(w, "tokenizer.ggml.scores", TH_GGUF_FLOAT32, (uint64_t)vocabulary);
    for (int64_t i = 0; written && i < vocabulary; i++) {
        uint32_t bits = 0;
        if (i < (int64_t)size)
            memcpy(&bits, &score[i], sizeof bits);
        th_gguf_write_uint32(w->file, bits);
    }
    free(score);
    return written;
}

static void write_bert_normalizer(th_gguf_writer *w, const th_tokenizer *t)
{
    const json_t *accents = json_object_get(t->normalizer_json, "strip_accents");
    th_gguf_put_flag(w, TH_GGUF_LOWER_CASE, json_is_true(json_object_get(t->normalizer_json, "lowercase")));
    if (json_is_boolean(accents))
        th_gguf_put_flag(w, TH_GGUF_STRIP_ACCENTS, json_is_true(accents));
}

static bool write_words(th_gguf_writer *w, const th_tokenizer *t, int64_t vocabulary, th_gguf_tokenizer_kind kind,
                        bool prefix)
{
    if (kind == TH_GGUF_BYTE_LEVEL) {
        const char *name = th_gguf_split_of(t)->name[0];
        th_gguf_put_text(w, "tokenizer.ggml.pre", name, strlen(name));
        return write_merges(w, t);
    }
    if (t->unknown >= 0)
        th_gguf_put_uint32(w, TH_GGUF_UNKNOWN_TOKEN, (uint32_t)t->unknown);
    if (kind == TH_GGUF_PIECES) {
        write_bert_normalizer(w, t);
        return true;
    }
    th_gguf_put_flag(w, "tokenizer.ggml.add_space_prefix", prefix);
    return kind == TH_GGUF_SPACES ? write_merges(w, t) : write_scores(w, t, vocabulary);
}

/* -- writing: special tokens -- */

/* Writes the special token of this text, if the tokenizer has it. */
static void write_special(th_gguf_writer *w, const th_tokenizer *t, const char *key, const char *text)
{
    const th_added_token *token = th_added_tokens_find(&t->added, text, strlen(text));
    if (token)
        th_gguf_put_uint32(w, key, (uint32_t)token->id);
}

/* Writes the tokens of BERT, which llama.cpp looks for by other keys than those of other kinds. */
static void write_bert_tokens(th_gguf_writer *w, const th_tokenizer *t)
{
    th_gguf_put_uint32(w, TH_GGUF_BEGIN_TOKEN, (uint32_t)t->template.before[0]);
    th_gguf_put_uint32(w, TH_GGUF_CLS_TOKEN, (uint32_t)t->template.before[0]);
    th_gguf_put_uint32(w, TH_GGUF_SEPARATOR_TOKEN, (uint32_t)t->template.after[0]);
    th_gguf_put_flag(w, "tokenizer.ggml.add_bos_token", true);
    th_gguf_put_flag(w, "tokenizer.ggml.add_sep_token", true);
    write_special(w, t, TH_GGUF_PADDING_TOKEN, "[PAD]");
    write_special(w, t, TH_GGUF_MASK_TOKEN, "[MASK]");
}

/* Writes the tokens around a text. */
static void write_template(th_gguf_writer *w, const th_tokenizer *t, int64_t begin_token, int64_t end_token)
{
    const bool before = t && t->template.n_before == 1, after = t && t->template.n_after == 1;
    const int64_t begin = before ? t->template.before[0] : begin_token, end = after ? t->template.after[0] : end_token;
    if (begin >= 0)
        th_gguf_put_uint32(w, TH_GGUF_BEGIN_TOKEN, (uint32_t)begin);
    if (end >= 0)
        th_gguf_put_uint32(w, TH_GGUF_END_TOKEN, (uint32_t)end);
    if (t == NULL)
        return;
    th_gguf_put_flag(w, "tokenizer.ggml.add_bos_token", before);
    th_gguf_put_flag(w, "tokenizer.ggml.add_eos_token", after);
}

bool th_gguf_write_tokenizer(th_gguf_writer *w, const th_tokenizer *t, int64_t vocabulary, int64_t begin_token,
                             int64_t end_token)
{
    th_gguf_tokenizer_kind kind = TH_GGUF_BYTE_LEVEL;
    bool prefix = false, written = t == NULL || th_gguf_tokenizer_find_kind(t, &kind, &prefix);
    const char *model = t ? th_gguf_tokenizer_kinds[kind] : "none";
    th_gguf_put_text(w, "tokenizer.ggml.model", model, strlen(model));
    if (t)
        written = written && write_tokens(w, t, vocabulary) && write_words(w, t, vocabulary, kind, prefix);
    if (t && kind == TH_GGUF_PIECES)
        write_bert_tokens(w, t);
    else
        write_template(w, t, begin_token, end_token);
    return written;
}
