/* Finds added tokens: see added_tokens.h. At each byte with which a token begins, a search narrows the sorted tokens
 * down to those that match the text. */
#include "models/text/added_tokens.h"

#include <string.h>

#include "models/text/characters.h"
#include "models/text/grow.h"
#include "models/text/unicode.h"

static int compare_contents(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    const int order = memcmp(a, b, a_bytes < b_bytes ? a_bytes : b_bytes);
    return order ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

/* Returns the index of the first token that is not less than this content. */
static size_t lower_index(const th_added_set *set, const char *content, size_t bytes)
{
    size_t low = 0, high = set->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare_contents(set->token[middle].content, set->token[middle].bytes, content, bytes) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool has_content_at(const th_added_set *set, size_t index, const char *content, size_t bytes)
{
    return index < set->count &&
           compare_contents(set->token[index].content, set->token[index].bytes, content, bytes) == 0;
}

static const th_added_token *find_in_set(const th_added_set *set, const char *content, size_t bytes)
{
    const size_t index = lower_index(set, content, bytes);
    return has_content_at(set, index, content, bytes) ? &set->token[index] : NULL;
}

/* Adds a token with another content. Replaces a token with the same one. Returns false if out of memory. */
static bool put_token(th_added_set *set, th_added_token token, const char *bytes, size_t count)
{
    const size_t index = lower_index(set, bytes, count);
    token.bytes = count;
    if (has_content_at(set, index, bytes, count)) {
        token.content = set->token[index].content;
    } else {
        char *content = malloc(count + 1);
        if (content == NULL || !TH_GROW(set->token, set->capacity, set->count + 1)) {
            free(content);
            return false;
        }
        memcpy(content, bytes, count);
        content[count] = 0;
        token.content = content;
        memmove(set->token + index + 1, set->token + index, (set->count - index) * sizeof *set->token);
        set->count++;
    }
    set->token[index] = token;
    set->begins[(unsigned char)token.content[0]] = true;
    return true;
}

/* Removes the token with this id, if the set has it. */
static void remove_id(th_added_set *set, int32_t id)
{
    for (size_t i = 0; i < set->count; i++) {
        if (set->token[i].id != id)
            continue;
        free((char *)set->token[i].content);
        memmove(set->token + i, set->token + i + 1, (set->count - i - 1) * sizeof *set->token);
        set->count--;
        return;
    }
}

const th_added_token *th_added_tokens_find(const th_added_tokens *a, const char *content, size_t bytes)
{
    return find_in_set(&a->all, content, bytes);
}

const th_added_token *th_added_tokens_normalized(const th_added_tokens *a, int32_t id)
{
    for (size_t i = 0; i < a->found[1].count; i++)
        if (a->found[1].token[i].id == id)
            return &a->found[1].token[i];
    return NULL;
}

const th_added_token *th_added_tokens_conflict(const th_added_tokens *a, th_added_token token, const char *found,
                                               size_t bytes)
{
    const th_added_token *other = find_in_set(&a->found[token.normalized], found, bytes);
    return other && other->id != token.id ? other : NULL;
}

bool th_added_tokens_add(th_added_tokens *a, th_added_token token, const char *found, size_t bytes)
{
    if (th_added_tokens_find(a, token.content, token.bytes))
        for (int normalized = 0; normalized < 2; normalized++)
            remove_id(&a->found[normalized], token.id);
    return (bytes == 0 || put_token(&a->found[token.normalized], token, found, bytes)) &&
           put_token(&a->all, token, token.content, token.bytes);
}

static size_t bytes_of_set(const th_added_set *set)
{
    size_t bytes = set->capacity * sizeof *set->token;
    for (size_t i = 0; i < set->count; i++)
        bytes += set->token[i].bytes + 1;
    return bytes;
}

size_t th_added_tokens_memory(const th_added_tokens *a)
{
    return bytes_of_set(&a->all) + bytes_of_set(&a->found[0]) + bytes_of_set(&a->found[1]);
}

static void release_set(th_added_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        free((char *)set->token[i].content);
    free(set->token);
}

void th_added_tokens_release(th_added_tokens *a)
{
    release_set(&a->all);
    release_set(&a->found[0]);
    release_set(&a->found[1]);
    *a = (th_added_tokens){0};
}

/* -- finding -- */

/* Whether text[begin .. end-1] has no characters of words beside it. */
static bool is_single_word(const char *text, size_t bytes, size_t begin, size_t end)
{
    const size_t before = th_character_before(text, 0, begin);
    const int after = end < bytes ? th_character_length(text + end, bytes - end) : 0;
    return !(before < begin && th_unicode_is_word(th_character_code(text + before, (int)(begin - before)))) &&
           !(after > 0 && th_unicode_is_word(th_character_code(text + end, after)));
}

/* Returns byte `depth` of a token; -1 after its end, so that shorter tokens sort first. */
static int byte_at(const th_added_token *token, size_t depth)
{
    return depth < token->bytes ? (unsigned char)token->content[depth] : -1;
}

/* token[low .. high-1] have the same first `depth` bytes. Returns the first of them whose next byte is at least
 * `byte`. */
static size_t lower_bound(const th_added_set *a, size_t low, size_t high, size_t depth, int byte)
{
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (byte_at(&a->token[middle], depth) < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static const th_added_token *longest_token_at(const th_added_set *a, const char *text, size_t bytes)
{
    const th_added_token *longest = NULL;
    size_t low = 0, high = a->count;
    for (size_t depth = 0; low < high; depth++) {
        if (a->token[low].bytes == depth)
            longest = &a->token[low];
        if (depth == bytes)
            break;
        const int byte = (unsigned char)text[depth];
        if (byte_at(&a->token[low], depth) == byte && byte_at(&a->token[high - 1], depth) == byte)
            continue; /* all of them match the text so far */
        low = lower_bound(a, low, high, depth, byte);
        high = lower_bound(a, low, high, depth, byte + 1);
    }
    return longest;
}

/* Extends the token at s->next by the white space that belongs to it. Returns false if the previous token already
 * includes all of it, or if it must be a single word and is not. */
static bool include_spaces(th_added_search *s, const th_added_token *token, size_t from)
{
    const size_t at = s->next;
    s->next += token->bytes;
    if (token->single_word && !is_single_word(s->text, s->bytes, at, s->next))
        return false;
    s->begin = !token->lstrip ? at : at > from ? th_spaces_before(s->text, from, at) : from;
    s->end = s->next;
    if (token->rstrip) {
        if (s->spaces_end < s->next)
            s->spaces_end = th_spaces_after(s->text, s->bytes, s->next);
        s->end = s->spaces_end;
    }
    return s->begin < s->end;
}

const th_added_token *th_added_search_next(th_added_search *s, size_t from)
{
    const th_added_set *a = s->tokens;
    if (a->count == 0)
        return NULL;
    while (s->next < s->bytes) {
        const th_added_token *token = a->begins[(unsigned char)s->text[s->next]]
                                          ? longest_token_at(a, s->text + s->next, s->bytes - s->next)
                                          : NULL;
        if (token == NULL)
            s->next++;
        else if (include_spaces(s, token, from))
            return token;
    }
    return NULL;
}
