/* Cuts pieces where no merge crosses: see seams.h. */
#include "models/text/seams.h"

#include <stdlib.h>

#include "models/text/characters.h"

static uint64_t bit_index(const th_seams *s, uint32_t left, uint32_t right)
{
    return th_hash_number(s->key, (uint64_t)left << 32 | right) & (TH_SEAM_BITS - 1);
}

/* Reads the character at text[at]; a byte that is not UTF-8 counts as a character. */
static uint32_t read_character(const char *text, size_t bytes, size_t at, size_t *length)
{
    const unsigned char byte = (unsigned char)text[at];
    *length = 1;
    if (byte < 0x80)
        return byte;
    const int valid = th_character_length(text + at, bytes - at);
    if (valid == 0)
        return 0x110000u + byte;
    *length = (size_t)valid;
    return th_character_code(text + at, valid);
}

static void add_pairs(th_seams *s, const char *token, size_t bytes)
{
    size_t length;
    for (size_t at = 0, next; at < bytes; at = next) {
        const uint32_t left = read_character(token, bytes, at, &length);
        next = at + length;
        if (next == bytes)
            break;
        const uint64_t index = bit_index(s, left, read_character(token, bytes, next, &length));
        s->bit[index / 64] |= (uint64_t)1 << index % 64;
    }
}

bool th_seams_build(th_seams *s, const th_merges *m, const th_vocabulary *v)
{
    s->bit = calloc(TH_SEAM_BITS / 64, sizeof *s->bit);
    if (s->bit == NULL)
        return false;
    s->key = th_hash_key_new();
    for (size_t i = 0; i < m->count; i++) {
        const int32_t token = m->merge[i].result;
        add_pairs(s, th_vocabulary_bytes(v, token), v->entry[token].bytes);
    }
    return true;
}

void th_seams_release(th_seams *s)
{
    free(s->bit);
    *s = (th_seams){0};
}

size_t th_seams_next(const th_seams *s, const th_vocabulary *v, const char *text, size_t bytes, size_t from)
{
    size_t at = from, length;
    uint32_t left = read_character(text, bytes, at, &length);
    for (;;) {
        const size_t next = at + length;
        if (next == bytes)
            return bytes;
        const size_t before = length;
        const uint32_t right = read_character(text, bytes, next, &length);
        const uint64_t index = bit_index(s, left, right);
        if ((s->bit[index / 64] >> index % 64 & 1) == 0 && th_vocabulary_find(v, text + at, before) >= 0 &&
            th_vocabulary_find(v, text + next, length) >= 0)
            return next;
        at = next;
        left = right;
    }
}
