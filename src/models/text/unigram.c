/* Finds the best tokens of words: see unigram.h. */
#include "models/text/unigram.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/text/characters.h"
#include "models/text/grow.h"

/* -- creating -- */

bool th_unigram_build(th_unigram *u, const th_vocabulary *v, double *score, double unknown_score)
{
    u->used = true;
    u->score = score;
    u->size = v->size;
    u->unknown_score = unknown_score;
    th_trie_key *key = malloc((v->size + 1) * sizeof *key);
    size_t count = 0;
    for (size_t i = 0; key && i < v->size; i++)
        if (v->entry[i].bytes > 0 && score[i] > -INFINITY)
            key[count++] = (th_trie_key){th_vocabulary_bytes(v, (int32_t)i), v->entry[i].bytes, (int32_t)i};
    const bool built = key && th_token_trie_build(&u->trie, key, count);
    free(key);
    return built;
}

void th_unigram_release(th_unigram *u)
{
    free(u->score);
    free(u->place);
    th_token_trie_release(&u->trie);
    *u = (th_unigram){0};
}

size_t th_unigram_memory(const th_unigram *u)
{
    return u->size * sizeof *u->score + u->trie.capacity * sizeof *u->trie.unit;
}

/* -- the lattice -- */

/* Sets the way to a place if it has none, or a worse one. */
static void offer_way(th_lattice_place *place, double score, size_t bytes, int32_t token)
{
    if (place->bytes == 0 || score > place->score)
        *place = (th_lattice_place){score, (uint32_t)bytes, token};
}

/* Finds the best ways to all places that tokens at word[at] reach. Returns false if the character there has no token, and
 * `unknown` is -1. */
static bool extend_ways(th_unigram *u, const char *word, size_t bytes, size_t at, size_t character, int32_t unknown)
{
    th_lattice_place *place = u->place + at;
    const double score = place->score;
    bool known = false;
    uint32_t node = 0;
    for (size_t n = 1; n <= bytes - at && (node = th_token_trie_child(&u->trie, node, word[at + n - 1])); n++) {
        const int32_t token = u->trie.unit[node].token;
        if (token < 0)
            continue;
        offer_way(place + n, u->score[token] + score, n, token);
        known = known || n == character;
    }
    const double unknown_score = u->unknown_score + score;
    if (known || (place[character].bytes > 0 && unknown_score <= place[character].score))
        return true;
    offer_way(place + character, unknown_score, character, unknown);
    return unknown >= 0;
}

/* Turns the ways around: each place on the best one then has the bytes and the token of the next. */
static void reverse_way(th_lattice_place *place, size_t bytes)
{
    th_lattice_place next = place[bytes];
    for (size_t at = bytes; at > 0;) {
        at -= next.bytes;
        const th_lattice_place before = place[at];
        place[at] = next;
        next = before;
    }
}

/* -- tokens -- */

/* Appends the tokens of word[begin .. end-1], whose characters have none. The reference also finds a token that all of
 * them are together. */
static void append_unknown(const th_vocabulary *v, int32_t *token, const char *word, size_t begin, size_t end,
                           int32_t unknown, const int32_t fallback[256], size_t *count)
{
    const int32_t whole = th_vocabulary_find(v, word + begin, end - begin);
    bool bytes = whole < 0;
    for (size_t i = begin; bytes && i < end; i++)
        bytes = fallback[(unsigned char)word[i]] >= 0;
    for (size_t i = begin; bytes && i < end; i++)
        token[(*count)++] = fallback[(unsigned char)word[i]];
    if (!bytes)
        token[(*count)++] = whole >= 0 ? whole : unknown;
}

th_pieces th_unigram_cut(th_unigram *u, const th_vocabulary *v, th_word_memory *memory, const char *word, size_t bytes,
                         int32_t unknown, const int32_t fallback[256], size_t *count)
{
    *count = 0;
    if (bytes >= UINT32_MAX || !TH_GROW(u->place, u->capacity, bytes + 1) ||
        !TH_GROW(memory->token, memory->capacity, bytes))
        return TH_PIECES_NO_MEMORY;
    memset(u->place, 0, (bytes + 1) * sizeof *u->place);
    for (size_t at = 0, character; at < bytes; at += character) {
        const int length = th_character_length(word + at, bytes - at);
        character = length > 0 ? (size_t)length : 1;
        *count = at;
        if (!extend_ways(u, word, bytes, at, character, unknown))
            return TH_PIECES_UNKNOWN;
    }
    *count = 0;
    reverse_way(u->place, bytes);
    for (size_t at = 0, end; at < bytes; at = end) {
        const int32_t token = u->place[at].token;
        end = at + u->place[at].bytes;
        while (token == unknown && end < bytes && u->place[end].token == unknown)
            end += u->place[end].bytes;
        if (token == unknown)
            append_unknown(v, memory->token, word, at, end, unknown, fallback, count);
        else
            memory->token[(*count)++] = token;
    }
    return TH_PIECES_FOUND;
}

/* -- scores in files -- */

/* Returns the power that strtod reads, which pow may miss. */
static double power_of_ten(int exponent)
{
    double power = 1;
    char text[16];
    if (exponent <= 22) { /* then each product is exact */
        for (int i = 0; i < exponent; i++)
            power *= 10;
        return power;
    }
    snprintf(text, sizeof text, "1e%d", exponent);
    return strtod(text, NULL);
}

/* Returns what the reference reads where a file has the number with so many digits. */
static double read_digits(double value, int digits)
{
    char text[48];
    uint64_t number = 0;
    snprintf(text, sizeof text, "%.*e", digits - 1, fabs(value));
    char *const exponent = strchr(text, 'e');
    for (const char *c = text; c < exponent; c++) /* the character of the point depends on the locale */
        if (*c >= '0' && *c <= '9')
            number = 10 * number + (uint64_t)(*c - '0');
    int power = (int)strtol(exponent + 1, NULL, 10) - digits + 1;
    for (; number > 0 && number % 10 == 0; power++)
        number /= 10;
    double read = (double)number;
    for (; power < -308; power += 308)
        read /= 1e308;
    return copysign(power < 0 ? read / power_of_ten(-power) : read * power_of_ten(power), value);
}

double th_unigram_read_score(double value)
{
    char text[48];
    int digits = 15;
    while (digits < 17 && (snprintf(text, sizeof text, "%.*e", digits - 1, value), strtod(text, NULL) != value))
        digits++;
    return read_digits(value, digits);
}

double th_unigram_written_score(double score)
{
    double lower = score, upper = score;
    for (int i = 0; i < 4; i++) {
        if (read_digits(lower, 17) == score && th_unigram_read_score(lower) == score)
            return lower;
        if (read_digits(upper, 17) == score && th_unigram_read_score(upper) == score)
            return upper;
        lower = nextafter(lower, -INFINITY);
        upper = nextafter(upper, INFINITY);
    }
    return score;
}
