/* Trains WordPiece: counts the words of a text, starts with a token for each of the most frequent characters, alone and
 * with ## before it, and learns merges (training.h). */
#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/core/files.h"
#include "models/text/characters.h"
#include "models/text/training.h"

static const char operation[] = "tokenizer_train_word_piece";
static const char *const bert_specials[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

enum { BERT_SPECIALS = 5, DEFAULT_FREQUENCY = 2, DEFAULT_ALPHABET = 1000 };

/* -- options -- */

static bool check_options(th_context *ctx, const char *text, size_t bytes, const th_word_piece_options *o)
{
    const char *reason = NULL;
    if ((text == NULL && bytes > 0) || o == NULL)
        reason = "needs a text and options";
    else if (o->min_frequency < 0 || o->limit_alphabet < 0 || o->n_specials < 0 ||
             (o->specials == NULL && o->n_specials > 0))
        reason = "no number may be negative, and n_specials needs specials";
    else if (o->alphabet && !th_is_utf8(o->alphabet))
        reason = "the alphabet must be UTF-8";
    else if (o->accents < TH_ACCENTS_BY_CASE || o->accents > TH_ACCENTS_KEEP)
        reason = "accents is not a value of th_accents";
    else if (o->n_specials > TH_MAX_ADDED_TOKENS - BERT_SPECIALS)
        reason = "there are too many special tokens";
    if (reason)
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "%s", reason);
    return reason == NULL && th_check_specials(ctx, operation, o->specials, o->n_specials);
}

/* -- the tokenizer with special tokens only -- */

/* Adds a special token, unless it is there already. Returns false if out of memory. */
static bool add_special(json_t *vocab, json_t *added, const char *content)
{
    const int id = (int)json_object_size(vocab);
    return json_object_get(vocab, content) || (json_object_set_new(vocab, content, json_integer(id)) == 0 &&
                                               json_array_append_new(added, th_special_token_json(id, content)) == 0);
}

/* Returns NULL with the error pending. */
static th_tokenizer *begin(th_context *ctx, const th_word_piece_options *o)
{
    const th_json_source source = {ctx, operation, "the new tokenizer"};
    const th_bert_text text = {
        .lower = !o->cased,
        .chinese = !o->join_chinese,
        .accents = o->accents == TH_ACCENTS_BY_CASE ? json_null() : json_boolean(o->accents == TH_ACCENTS_REMOVE)};
    json_t *vocab = json_object(), *added = json_array();
    bool made = vocab && added;
    for (int i = 0; made && i < BERT_SPECIALS; i++)
        made = add_special(vocab, added, bert_specials[i]);
    for (int i = 0; made && i < o->n_specials; i++)
        made = add_special(vocab, added, o->specials[i]);
    th_tokenizer *t = made ? th_word_piece_new(&source, &text, vocab, added) : NULL;
    json_decref(text.accents);
    json_decref(vocab);
    json_decref(added);
    if (t == NULL && !th_failed(ctx))
        (void)th_fail_memory(ctx, operation, sizeof(void *));
    return t;
}

/* -- words -- */

/* Counts a word, unless it is a byte that is not valid UTF-8. */
static th_status count_word(void *counts, const char *word, size_t bytes)
{
    return th_character_length(word, bytes) ? th_word_counts_add(counts, word, bytes) : TH_OK;
}

/* Counts the words of the text, line by line: then the normalized text takes little memory. */
static bool count_words(th_tokenizer *t, const char *text, size_t bytes, th_word_counts *counts)
{
    for (size_t at = 0, end; at < bytes; at = end + 1) {
        const char *newline = memchr(text + at, '\n', bytes - at);
        end = newline ? (size_t)(newline - text) : bytes;
        th_piece line = {.text = text + at, .bytes = end - at};
        if (th_normalizer_apply(&t->normalizer, t->ctx, operation, &line) ||
            th_split_text(&t->split, t->ctx, operation, line, (th_word_sink){count_word, counts}))
            return false;
    }
    return true;
}

/* -- characters -- */

typedef struct character_count {
    uint32_t code;
    int64_t times;
} character_count;

/* Orders by frequency, then by code point. */
static int compare_frequencies(const void *a, const void *b)
{
    const character_count *x = a, *y = b;
    if (x->times != y->times)
        return x->times > y->times ? -1 : 1;
    return (x->code > y->code) - (x->code < y->code);
}

static int compare_codes(const void *a, const void *b)
{
    const character_count *x = a, *y = b;
    return (x->code > y->code) - (x->code < y->code);
}

/* Adds to the counts of a text's characters, which are valid UTF-8. */
static bool count_characters(th_word_counts *characters, const char *text, size_t bytes, int64_t times)
{
    bool counted = true;
    for (size_t at = 0, length; counted && at < bytes; at += length) {
        length = (size_t)th_character_length(text + at, bytes - at);
        counted = th_word_counts_add_times(characters, text + at, length, times) == TH_OK;
    }
    return counted;
}

static bool count_all_characters(th_word_counts *characters, const th_word_counts *words, const char *alphabet)
{
    bool counted = alphabet == NULL || count_characters(characters, alphabet, strlen(alphabet), INT64_MAX);
    for (size_t i = 0; counted && i < words->words.size; i++)
        counted = count_characters(characters, th_vocabulary_bytes(&words->words, (int32_t)i),
                                   words->words.entry[i].bytes, words->times[i]);
    return counted;
}

/* Returns the most frequent characters in the order of code points, and their number; NULL if out of memory. */
static character_count *choose_characters(const th_word_counts *characters, int64_t limit, size_t *count)
{
    const th_vocabulary *v = &characters->words;
    character_count *chosen = calloc(v->size + 1, sizeof *chosen);
    if (chosen == NULL)
        return NULL;
    for (size_t i = 0; i < v->size; i++)
        chosen[i] = (character_count){th_character_code(th_vocabulary_bytes(v, (int32_t)i), (int)v->entry[i].bytes),
                                      characters->times[i]};
    *count = (int64_t)v->size < limit ? v->size : (size_t)limit;
    if (v->size > *count)
        qsort(chosen, v->size, sizeof *chosen, compare_frequencies);
    qsort(chosen, *count, sizeof *chosen, compare_codes);
    return chosen;
}

/* Returns the token, which is new unless the vocabulary has it; -1 if out of memory. */
static int32_t add_token(th_tokenizer *t, const char *content, size_t bytes)
{
    const int32_t token = th_vocabulary_find(&t->vocabulary, content, bytes);
    if (token >= 0)
        return token;
    return th_tokenizer_add_model_token(t, content, bytes) ? (int32_t)t->vocabulary.size - 1 : -1;
}

static bool add_alphabet(th_tokenizer *t, const th_word_counts *words, const th_word_piece_options *o)
{
    th_word_counts characters = {.ctx = t->ctx, .operation = operation};
    const int64_t limit = o->limit_alphabet ? o->limit_alphabet : DEFAULT_ALPHABET;
    size_t count = 0;
    char character[4];
    character_count *chosen =
        count_all_characters(&characters, words, o->alphabet) ? choose_characters(&characters, limit, &count) : NULL;
    bool added = chosen != NULL;
    for (size_t i = 0; added && i < count; i++)
        added = add_token(t, character, th_utf8_write(chosen[i].code, character)) >= 0;
    free(chosen);
    th_word_counts_release(&characters);
    return added;
}

/* Adds the characters of a word that have a token to the queue. The first character of a word has no prefix. */
static bool queue_word(th_tokenizer *t, const th_word_counts *c, size_t word, th_pair_queue *queue)
{
    const size_t prefix = t->pieces.prefix_bytes, bytes = c->words.entry[word].bytes;
    const char *text = th_vocabulary_bytes(&c->words, (int32_t)word);
    char inside[TH_MAX_PIECE_PREFIX + 4];
    bool queued = th_pair_queue_add_word(queue, c->times[word]);
    memcpy(inside, t->pieces.prefix, prefix);
    for (size_t at = 0, length; queued && at < bytes; at += length) {
        length = (size_t)th_character_length(text + at, bytes - at);
        int32_t token = th_vocabulary_find(&t->vocabulary, text + at, length);
        if (token < 0)
            continue;
        memcpy(inside + prefix, text + at, length);
        if (at > 0)
            token = add_token(t, inside, prefix + length);
        queued = token >= 0 && th_pair_queue_add_token(queue, token);
    }
    return queued;
}

/* -- training -- */

static bool check_vocabulary(const th_tokenizer *t, const th_word_piece_options *o)
{
    const size_t least = t->vocabulary.size;
    if (o->vocabulary >= (int64_t)least && o->vocabulary <= TH_MAX_TOKENS)
        return true;
    th_fail(
        t->ctx, TH_ERROR_ARGUMENT, operation,
        "vocabulary = %lld is outside %zu (the special tokens, and the text's characters alone and behind ##) .. %d",
        (long long)o->vocabulary, least, TH_MAX_TOKENS);
    return false;
}

/* Prepares the tokenizer for its new tokens. */
static bool finish(th_tokenizer *t)
{
    const th_vocabulary *v = &t->vocabulary;
    for (size_t i = 0; i < v->size; i++)
        t->pieces.longest = v->entry[i].bytes > t->pieces.longest ? v->entry[i].bytes : t->pieces.longest;
    th_tokenizer_find_alphabet(t);
    return th_tokenizer_set_texts(t, operation);
}

th_tokenizer *th_tokenizer_train_word_piece(th_context *ctx, const char *text, size_t bytes,
                                            const th_word_piece_options *options)
{
    const th_word_piece_options *o = options;
    if (!th_usable_context(ctx, operation) || !check_options(ctx, text, bytes, o))
        return NULL;
    th_tokenizer *t = begin(ctx, o);
    if (t == NULL)
        return NULL;
    th_word_counts words = {.ctx = ctx, .operation = operation};
    th_pair_queue queue = {0};
    const bool made =
        count_words(t, text, bytes, &words) && add_alphabet(t, &words, o) &&
        th_queue_words(t, &words, queue_word, &queue) && check_vocabulary(t, o) &&
        th_learn_merges(t, &queue, o->vocabulary, o->min_frequency ? o->min_frequency : DEFAULT_FREQUENCY, 0) &&
        finish(t);
    th_word_counts_release(&words);
    th_pair_queue_release(&queue);
    return th_tokenizer_if_made(t, operation, made);
}
