/* Finding added tokens: see added_tokens.h. At each byte with which one begins, the sorted tokens are narrowed down to
 * those that go on as the text does. */
#include "text/added_tokens.h"

#include <string.h>

#include "text/grow.h"
#include "text/split.h"

static int compare(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    const int order = memcmp(a, b, a_bytes < b_bytes ? a_bytes : b_bytes);
    return order ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

bool th_added_tokens_add(th_added_tokens *a, th_added_token token)
{
    size_t at = 0, high = a->count;
    while (at < high) {
        const size_t middle = at + (high - at) / 2;
        if (compare(a->token[middle].content, a->token[middle].bytes, token.content, token.bytes) < 0)
            at = middle + 1;
        else
            high = middle;
    }
    const bool there =
        at < a->count && compare(a->token[at].content, a->token[at].bytes, token.content, token.bytes) == 0;
    if (there) {
        token.content = a->token[at].content;
    } else {
        char *content = malloc(token.bytes + 1);
        if (content == NULL || !TH_GROW(a->token, a->capacity, a->count + 1)) {
            free(content);
            return false;
        }
        memcpy(content, token.content, token.bytes);
        content[token.bytes] = 0;
        token.content = content;
        memmove(a->token + at + 1, a->token + at, (a->count - at) * sizeof *a->token);
        a->count++;
    }
    a->token[at] = token;
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

/* Unicode's White_Space. */
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

static size_t spaces_behind(const char *text, size_t bytes, size_t at)
{
    int length;
    while (at < bytes && (length = th_character_length(text + at, bytes - at)) > 0 && is_space(text + at, length))
        at += (size_t)length;
    return at;
}

/* -- finding -- */

/* The byte of a token at `depth`; -1 behind its end, which sorts before all. */
static int byte_at(const th_added_token *token, size_t depth)
{
    return depth < token->bytes ? (unsigned char)token->content[depth] : -1;
}

/* The first of token[low .. high-1], which agree in what is before `depth`, whose byte there is at least `byte`. */
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
        low = lower_bound(a, low, high, depth, byte);
        high = lower_bound(a, low, high, depth, byte + 1);
    }
    return longest;
}

const th_added_token *th_added_tokens_next(const th_added_tokens *a, bool normalized, const char *text, size_t bytes,
                                           size_t from, size_t *begin, size_t *end, size_t *next)
{
    if (!a->any[normalized])
        return NULL;
    for (size_t at = *next; at < bytes; at++) {
        if (!a->begins[normalized][(unsigned char)text[at]])
            continue;
        const th_added_token *token = longest_at(a, normalized, text + at, bytes - at);
        if (token == NULL)
            continue;
        *next = at + token->bytes;
        *begin = !token->lstrip ? at : at > from ? spaces_before(text, from, at) : from;
        *end = token->rstrip ? spaces_behind(text, bytes, *next) : *next;
        if (*begin < *end)
            return token;
        at = *next - 1; /* it is itself a space that the one before has taken */
    }
    return NULL;
}
