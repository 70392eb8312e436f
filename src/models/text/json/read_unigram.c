/* Reads the model Unigram of tokenizer.json: a list of tokens, each with its score. With scores from elsewhere its
 * vocabulary is that of other models. */
#include <math.h>
#include <string.h>

#include "models/core/context.h"
#include "models/text/json/readers.h"

static bool refuse(const th_json_source *source, const char *sentence)
{
    th_fail(source->ctx, TH_ERROR_FILE, source->operation, "%.300s: %s", source->name, sentence);
    return false;
}

/* Adds the token of ["token", score]. */
static bool add_token(th_tokenizer *t, const th_json_source *source, const json_t *pair, double *score)
{
    const json_t *token = json_array_get(pair, 0), *number = json_array_get(pair, 1);
    char quoted[TH_QUOTED];
    if (!json_is_string(token) || !json_is_number(number) || json_array_size(pair) != 2)
        return refuse(source, "a token of its vocabulary is not [\"token\", score]");
    if (th_vocabulary_find(&t->vocabulary, json_string_value(token), json_string_length(token)) >= 0) {
        th_fail(source->ctx, TH_ERROR_FILE, source->operation, "%.300s: its vocabulary has the token '%s' twice",
                source->name, th_quote(json_string_value(token), quoted));
        return false;
    }
    *score =
        json_is_integer(number) ? (double)json_integer_value(number) : th_unigram_read_score(json_real_value(number));
    if (!isfinite(*score))
        return refuse(source, "a score of its vocabulary is too large");
    return th_tokenizer_add_model_token(t, json_string_value(token), json_string_length(token));
}

/* Reads the tokens, and sets *least to the least score. */
static bool add_tokens(th_tokenizer *t, const th_json_source *source, const json_t *vocab, double *score, double *least)
{
    size_t i;
    const json_t *pair;
    *least = INFINITY;
    json_array_foreach (vocab, i, pair) {
        if (!add_token(t, source, pair, &score[i]))
            return false;
        *least = score[i] < *least ? score[i] : *least;
    }
    return true;
}

static bool read_vocabulary(th_tokenizer *t, const th_json_source *source, const json_t *vocab,
                            const th_token_scores *scores)
{
    const size_t size = scores ? json_object_size(vocab) : json_array_size(vocab);
    if (size == 0)
        return refuse(source, "its vocabulary is empty, or not a list");
    if (size > TH_MAX_TOKENS)
        return refuse(source, "its vocabulary has more than 4194304 tokens");
    double *score = malloc(size * sizeof *score), least = 0;
    if (score == NULL ||
        !(scores ? th_read_vocabulary(t, source, vocab) : add_tokens(t, source, vocab, score, &least))) {
        free(score);
        return false;
    }
    for (size_t i = 0; scores && i < size; i++)
        score[i] = (double)scores->score[i];
    th_tokenizer_find_alphabet(t);
    return th_unigram_build(&t->unigram, &t->vocabulary, score,
                            scores ? (double)scores->unknown_score : least - TH_UNKNOWN_PENALTY);
}

bool th_read_unigram(th_tokenizer *t, const th_json_source *source, const json_t *model, const th_token_scores *scores)
{
    const json_t *vocab = json_object_get(model, "vocab"), *unknown = json_object_get(model, "unk_id"),
                 *fallback = json_object_get(model, "byte_fallback");
    int64_t id = -1;
    if (t->byte_level)
        return refuse(source, "its model is Unigram, but its pre_tokenizer is ByteLevel");
    if (fallback && !th_json_boolean(source, model, "byte_fallback", &t->byte_fallback))
        return false;
    if (!read_vocabulary(t, source, vocab, scores))
        return false;
    if (unknown && !json_is_null(unknown) &&
        !th_json_integer(source, model, "unk_id", 0, (int64_t)t->vocabulary.size - 1, &id))
        return false;
    t->unknown = (int32_t)id;
    return true;
}
