/* The merges of SentencePiece's BPE, which stores a score for each token and no merges. Each way to cut a token into
 * two tokens is a merge. */
#include <stdlib.h>

#include "models/core/context.h"
#include "models/text/characters.h"
#include "models/text/grow.h"
#include "models/text/tokenizer.h"

typedef struct scored_merge {
    th_merge merge;
    float score;
    int32_t left, right; /* characters of both tokens */
} scored_merge;

/* The order of the merges that transformers writes for such a tokenizer: the highest score, then the longest left
 * token. */
static int compare_merges(const void *a, const void *b)
{
    const scored_merge *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->left != y->left)
        return x->left > y->left ? -1 : 1;
    if (x->right != y->right)
        return x->right > y->right ? -1 : 1;
    return (x->merge.result > y->merge.result) - (x->merge.result < y->merge.result);
}

typedef struct merge_list {
    scored_merge *merge; /* [count] */
    size_t count, capacity;
} merge_list;

static int32_t count_characters(const char *text, size_t bytes)
{
    int32_t count = 0;
    for (size_t at = 0; at < bytes; at += (size_t)th_character_length(text + at, bytes - at))
        count++;
    return count;
}

/* Appends the merges that make a token, which is UTF-8. Returns false if out of memory. */
static bool append_merges_of(merge_list *list, const th_vocabulary *v, int32_t token, float score)
{
    const char *text = th_vocabulary_bytes(v, token);
    const size_t bytes = v->entry[token].bytes;
    const int32_t characters = count_characters(text, bytes);
    size_t at = 0;
    for (int32_t i = 1; i < characters; i++) {
        at += (size_t)th_character_length(text + at, bytes - at);
        const th_merge merge = {th_vocabulary_find(v, text, at), th_vocabulary_find(v, text + at, bytes - at), token};
        if (merge.left < 0 || merge.right < 0)
            continue;
        if (!TH_GROW(list->merge, list->capacity, list->count + 1))
            return false;
        list->merge[list->count++] = (scored_merge){merge, score, i, characters - i};
    }
    return true;
}

static bool add_merges(th_tokenizer *t, const merge_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const scored_merge *m = &list->merge[i];
        const bool equal = i > 0 && m->score == m[-1].score;
        t->vocabulary.entry[m->merge.result].can_be_made = true;
        if (!(equal ? th_merges_add_equal(&t->merges, m->merge) : th_merges_add(&t->merges, m->merge)))
            return false;
    }
    return true;
}

bool th_tokenizer_add_score_merges(th_tokenizer *t, const char *operation, const float *score)
{
    merge_list list = {0};
    bool made = true;
    for (size_t i = 0; made && i < t->vocabulary.size; i++)
        made = append_merges_of(&list, &t->vocabulary, (int32_t)i, score[i]);
    if (made && list.count > TH_MAX_MERGES)
        th_fail(t->ctx, TH_ERROR_FILE, operation, "the tokenizer has %zu merges; at most %d are supported", list.count,
                (int)TH_MAX_MERGES);
    else if (made && list.count > 0)
        qsort(list.merge, list.count, sizeof *list.merge, compare_merges);
    made = made && !th_failed(t->ctx) && add_merges(t, &list);
    free(list.merge);
    return made;
}

/* -- the reverse: scores for given merges -- */

/* Gives the results of the merges falling scores, equal ones to merges of equal rank. Returns whether each result has
 * one score: all its merges follow each other. */
static bool set_scores(const th_tokenizer *t, float *score)
{
    const float none = -(float)(t->merges.count + 1);
    float last = 0;
    int64_t last_rank = -1;
    bool equal = true;
    for (size_t i = 0; i < t->vocabulary.size; i++)
        score[i] = none;
    for (size_t i = 0; i < t->merges.count; i++) {
        const th_merge *m = &t->merges.merge[i];
        const int64_t rank = th_merges_rank(&t->merges, m->left, m->right);
        if (!th_merges_is_valid(&t->merges, i))
            continue;
        if (score[m->result] == none && rank != last_rank)
            last--;
        equal = equal && (score[m->result] == none || score[m->result] == last);
        score[m->result] = last;
        last_rank = rank;
    }
    return equal;
}

bool th_tokenizer_scores(const th_tokenizer *t, float *score, bool *equal)
{
    merge_list list = {0};
    bool made = true;
    size_t found = 0;
    *equal = set_scores(t, score);
    for (size_t i = 0; made && i < t->vocabulary.size; i++)
        made = append_merges_of(&list, &t->vocabulary, (int32_t)i, score[i]);
    for (size_t i = 0; made && i < list.count; i++) {
        const th_merge *m = &list.merge[i].merge;
        const bool is_merge = th_merges_rank(&t->merges, m->left, m->right) >= 0;
        found += is_merge;
        *equal = *equal && (is_merge || t->vocabulary.entry[m->result].special);
    }
    *equal = *equal && found == t->merges.pairs;
    free(list.merge);
    return made;
}
