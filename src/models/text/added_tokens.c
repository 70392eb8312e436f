/* Finds added tokens: see added_tokens.h. At each byte with which a token begins, a search narrows the sorted tokens
 * down to those that match the text. */
#include "models/text/added_tokens.h"

#include <string.h>

#include "models/text/grow.h"
#include "models/text/split.h"

static int compare(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    const int order = memcmp(a, b, a_bytes < b_bytes ? a_bytes : b_bytes);
    return order ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

/* Returns the index of the first token that is not less than this content. */
static size_t index_of(const th_added_tokens *a, const char *content, size_t bytes)
{
    size_t low = 0, high = a->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare(a->token[middle].content, a->token[middle].bytes, content, bytes) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_at(const th_added_tokens *a, size_t index, const char *content, size_t bytes)
{
    return index < a->count && compare(a->token[index].content, a->token[index].bytes, content, bytes) == 0;
}

const th_added_token *th_added_tokens_find(const th_added_tokens *a, const char *content, size_t bytes)
{
    const size_t index = index_of(a, content, bytes);
    return is_at(a, index, content, bytes) ? &a->token[index] : NULL;
}

bool th_added_tokens_add(th_added_tokens *a, th_added_token token)
{
    const size_t index = index_of(a, token.content, token.bytes);
    if (is_at(a, index, token.content, token.bytes)) {
        token.content = a->token[index].content;
    } else {
        char *content = malloc(token.bytes + 1);
        if (content == NULL || !TH_GROW(a->token, a->capacity, a->count + 1)) {
            free(content);
            return false;
        }
        memcpy(content, token.content, token.bytes);
        content[token.bytes] = 0;
        token.content = content;
        memmove(a->token + index + 1, a->token + index, (a->count - index) * sizeof *a->token);
        a->count++;
    }
    a->token[index] = token;
    a->begins[token.normalized][(unsigned char)token.content[0]] = true;
    a->any[token.normalized] = true;
    return true;
}

void th_added_tokens_release(th_added_tokens *a)
{
    for (size_t i = 0; i < a->count; i++)
        free((char *)a->token[i].content);
    free(a->token);
    *a = (th_added_tokens){0};
}

/* -- white space -- */

/* Whether a character is in Unicode's White_Space. */
static bool is_space(const char *character, int length)
{
    static const char *const spaces[] = {"\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\xa8", "\xe2\x80\xa9",
                                         "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80", "\xe2\x80\x80", "\xe2\x80\x81",
                                         "\xe2\x80\x82", "\xe2\x80\x83", "\xe2\x80\x84", "\xe2\x80\x85", "\xe2\x80\x86",
                                         "\xe2\x80\x87", "\xe2\x80\x88", "\xe2\x80\x89", "\xe2\x80\x8a"};
    if (length == 1)
        return *character == ' ' || (*character >= '\t' && *character <= '\r');
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++)
        if (strlen(spaces[i]) == (size_t)length && memcmp(spaces[i], character, (size_t)length) == 0)
            return true;
    return false;
}

static size_t spaces_before(const char *text, size_t from, size_t at)
{
    while (at > from) {
        size_t begin = at - 1;
        while (begin > from && ((unsigned char)text[begin] & 0xc0) == 0x80 && at - begin < 4)
            begin--;
        if (th_character_length(text + begin, at - begin) != (int)(at - begin) ||
            !is_space(text + begin, (int)(at - begin)))
            break;
        at = begin;
    }
    return at;
}

static size_t spaces_after(const char *text, size_t bytes, size_t at)
{
    int length;
    while (at < bytes && (length = th_character_length(text + at, bytes - at)) > 0 && is_space(text + at, length))
        at += (size_t)length;
    return at;
}

/* -- finding -- */

/* Returns byte `depth` of a token; -1 after its end, so that shorter tokens sort first. */
static int byte_at(const th_added_token *token, size_t depth)
{
    return depth < token->bytes ? (unsigned char)token->content[depth] : -1;
}

/* token[low .. high-1] have the same first `depth` bytes. Returns the first of them whose next byte is at least
 * `byte`. */
static size_t lower_bound(const th_added_tokens *a, size_t low, size_t high, size_t depth, int byte)
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

static const th_added_token *longest_at(const th_added_tokens *a, bool normalized, const char *text, size_t bytes)
{
    const th_added_token *longest = NULL;
    size_t low = 0, high = a->count;
    for (size_t depth = 0; low < high; depth++) {
        if (a->token[low].bytes == depth && a->token[low].normalized == normalized)
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
 * includes all of it. */
static bool widen(th_added_search *s, const th_added_token *token, size_t from)
{
    const size_t at = s->next;
    s->next += token->bytes;
    s->begin = !token->lstrip ? at : at > from ? spaces_before(s->text, from, at) : from;
    s->end = s->next;
    if (token->rstrip) {
        if (s->spaces_end < s->next)
            s->spaces_end = spaces_after(s->text, s->bytes, s->next);
        s->end = s->spaces_end;
    }
    return s->begin < s->end;
}

const th_added_token *th_added_search_next(th_added_search *s, size_t from)
{
    const th_added_tokens *a = s->tokens;
    if (!a->any[s->normalized])
        return NULL;
    while (s->next < s->bytes) {
        const bool begins = a->begins[s->normalized][(unsigned char)s->text[s->next]];
        const th_added_token *token =
            begins ? longest_at(a, s->normalized, s->text + s->next, s->bytes - s->next) : NULL;
        if (token == NULL)
            s->next++;
        else if (widen(s, token, from))
            return token;
    }
    return NULL;
}
