/* Replaces strings by compiled maps: see character_map.h. */
#include "models/text/character_map.h"

#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/text/characters.h"
#include "models/text/graphemes.h"

/* -- reading -- */

static uint32_t read_unit(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static const char *find_damage(const unsigned char *compiled, size_t bytes)
{
    const size_t size = bytes >= 4 ? read_unit(compiled) : 0;
    if (size == 0)
        return "has no array";
    if (size % 4 != 0 || size > bytes - 4)
        return "is truncated";
    const char *text = (const char *)compiled + 4 + size;
    return th_valid_bytes(text, bytes - 4 - size) < bytes - 4 - size ? "has replacements that are not UTF-8" : NULL;
}

th_character_map *th_character_map_new(const unsigned char *compiled, size_t bytes, const char **reason)
{
    *reason = find_damage(compiled, bytes);
    th_character_map *m = *reason ? NULL : calloc(1, sizeof *m);
    if (m == NULL)
        return NULL;
    m->units = read_unit(compiled) / 4;
    m->text_bytes = bytes - 4 - 4 * m->units;
    m->unit = malloc(m->units * sizeof *m->unit);
    m->text = malloc(m->text_bytes + 1);
    if (m->unit == NULL || m->text == NULL) {
        th_character_map_free(m);
        return NULL;
    }
    for (size_t i = 0; i < m->units; i++)
        m->unit[i] = read_unit(compiled + 4 + 4 * i);
    memcpy(m->text, compiled + 4 + 4 * m->units, m->text_bytes);
    m->text[m->text_bytes] = 0;
    return m;
}

void th_character_map_free(th_character_map *m)
{
    if (m == NULL)
        return;
    free(m->unit);
    free(m->text);
    free(m);
}

/* -- looking up -- */

static size_t unit_offset(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & 0x200) >> 6);
}

/* Returns what the shortest or the longest string at the beginning of a text becomes, and sets *matched to that string's
 * length; NULL: none. A damaged array has no further strings. */
static const char *find_replacement(const th_character_map *m, const char *text, size_t bytes, size_t *matched)
{
    const char *found = NULL;
    size_t at = unit_offset(m->unit[0]);
    for (size_t i = 0; i < bytes && text[i] && (found == NULL || m->longest); i++) {
        const unsigned char byte = (unsigned char)text[i];
        at ^= byte;
        if (at >= m->units || (m->unit[at] & 0x800000ff) != byte)
            break;
        const bool ends = m->unit[at] >> 8 & 1;
        at ^= unit_offset(m->unit[at]);
        if (ends && at < m->units && (m->unit[at] & 0x7fffffff) <= m->text_bytes) {
            found = m->text + (m->unit[at] & 0x7fffffff);
            *matched = i + 1;
        }
    }
    return found;
}

/* -- replacing -- */

/* The reference gives each character of the output a character of the input: to the first ones of a replacement those that
 * it replaces, one by one, and to all further ones the last of these. */
typedef struct replacing {
    const th_character_map *m;
    th_text *out;
    size_t limit;       /* of the output's length */
    size_t at;          /* characters of the input that characters of the output have */
    size_t first_count; /* characters of the input in th_piece.first */
    size_t first;       /* bytes of the output that have these */
    th_status status;   /* TH_ERROR_VALUE: too long */
} replacing;

static size_t count_characters(const char *text, size_t bytes)
{
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

/* Writes text[0 .. bytes-1] in place of `replaced` characters. */
static void write_text(replacing *p, const char *text, size_t bytes, size_t replaced)
{
    const size_t before = p->out->count;
    if (bytes > p->limit - before)
        p->status = TH_ERROR_VALUE;
    else if (!th_text_append(p->out, text, bytes))
        p->status = TH_ERROR_MEMORY;
    if (p->status)
        return;
    if (p->at < p->first_count) {
        const size_t kept = p->first_count - p->at;
        size_t end = bytes;
        if (kept < replaced) /* later characters of the output have later ones of the input */
            for (end = 0; end < bytes && count_characters(text, end + 1) <= kept;)
                end++;
        p->first = before + end;
    }
    if (p->out->count > 0) /* the reference does not count what disappears from the beginning */
        p->at += replaced;
}

static void write_character(replacing *p, const char *text, size_t bytes)
{
    size_t matched;
    const char *found = find_replacement(p->m, text, bytes, &matched);
    write_text(p, found ? found : text, found ? strlen(found) : bytes, 1);
}

static void write_cluster(replacing *p, const char *text, size_t bytes)
{
    enum { LONGEST = 5 };
    size_t matched;
    const char *found = bytes <= LONGEST ? find_replacement(p->m, text, bytes, &matched) : NULL;
    if (found) {
        write_text(p, found, strlen(found), count_characters(text, bytes));
        return;
    }
    for (size_t at = 0, length; at < bytes && p->status == TH_OK; at += length) {
        const int valid = th_character_length(text + at, bytes - at);
        length = valid > 0 ? (size_t)valid : 1;
        write_character(p, text + at, length);
    }
}

/* Replaces the longest string at the beginning of a text. Returns its length. */
static size_t write_longest(replacing *p, const char *text, size_t bytes)
{
    static const char invalid[] = "\xef\xbf\xbd"; /* U+FFFD */
    size_t matched;
    const char *found = find_replacement(p->m, text, bytes, &matched);
    if (found) {
        write_text(p, found, strlen(found), count_characters(text, matched));
        return matched;
    }
    const int length = th_character_length(text, bytes);
    write_text(p, length ? text : invalid, length ? (size_t)length : sizeof invalid - 1, 1);
    return length ? (size_t)length : 1;
}

th_status th_character_map_apply(const th_character_map *m, th_context *ctx, const char *operation, size_t limit,
                                 th_piece piece, th_text *out, size_t *first)
{
    replacing p = {.m = m,
                   .out = out,
                   .limit = limit,
                   .first_count = count_characters(piece.text, piece.first < piece.bytes ? piece.first : piece.bytes)};
    for (size_t at = 0, length; at < piece.bytes && p.status == TH_OK; at += length) {
        const char *text = piece.text + at;
        const size_t bytes = piece.bytes - at;
        const bool ascii = bytes > 1 && (unsigned char)text[0] < 0x80 && (unsigned char)text[1] < 0x80;
        if (m->longest) {
            length = write_longest(&p, text, bytes);
        } else if (ascii && text[0] != '\r') { /* a cluster */
            length = 1;
            write_character(&p, text, 1);
        } else {
            length = th_grapheme_length(text, bytes);
            write_cluster(&p, text, length);
        }
    }
    *first = p.first;
    return p.status == TH_OK            ? TH_OK
           : p.status == TH_ERROR_VALUE ? th_replacement_refuse(ctx, operation, limit)
                                        : th_fail_memory(ctx, operation, piece.bytes);
}
