/* Tokens and their bytes: see vocabulary.h. */
#include "models/text/vocabulary.h"

#include "models/text/grow.h"

/* Stores bytes in the pool, and sets *offset. */
static bool add_to_pool(th_vocabulary *v, const char *bytes, size_t count, size_t *offset)
{
    if (count >= UINT32_MAX || !TH_GROW(v->pool, v->pool_capacity, v->pool_bytes + count + 1))
        return false;
    if (count > 0)
        memcpy(v->pool + v->pool_bytes, bytes, count);
    v->pool[v->pool_bytes + count] = 0;
    *offset = v->pool_bytes;
    v->pool_bytes += count + 1;
    return true;
}

/* Stores the bytes of an entry in the pool. They are also its text. */
static bool write_entry(th_vocabulary *v, th_token_entry *e, const char *bytes, size_t count)
{
    if (!add_to_pool(v, bytes, count, &e->offset))
        return false;
    e->text_offset = e->offset;
    e->bytes = e->text_bytes = (uint32_t)count;
    return true;
}

bool th_vocabulary_add(th_vocabulary *v, const char *bytes, size_t count)
{
    if (!TH_GROW(v->entry, v->capacity, v->size + 1))
        return false;
    v->entry[v->size] = (th_token_entry){0};
    if (!write_entry(v, &v->entry[v->size], bytes, count))
        return false;
    v->size++;
    return true;
}

bool th_vocabulary_replace(th_vocabulary *v, int32_t id, const char *bytes, size_t count)
{
    return write_entry(v, &v->entry[id], bytes, count);
}

bool th_vocabulary_set_text(th_vocabulary *v, int32_t id, const char *text, size_t count)
{
    th_token_entry *e = &v->entry[id];
    if (count == e->bytes && memcmp(v->pool + e->offset, text, count) == 0) {
        e->text_offset = e->offset;
        e->text_bytes = e->bytes;
        return true;
    }
    if (!add_to_pool(v, text, count, &e->text_offset))
        return false;
    e->text_bytes = (uint32_t)count;
    return true;
}

static void insert_slot(th_vocabulary *v, int32_t id)
{
    const uint64_t hash = th_hash_bytes(v->key, th_vocabulary_bytes(v, id), v->entry[id].bytes);
    size_t at = (size_t)hash & (v->slots - 1);
    while (v->slot[at].id >= 0)
        at = (at + 1) & (v->slots - 1);
    v->slot[at] = (th_vocabulary_slot){id, (uint32_t)(hash >> 32)};
}

bool th_vocabulary_index(th_vocabulary *v, int32_t id)
{
    if (2 * (v->used + 1) > v->slots) {
        const size_t slots = v->slots ? 2 * v->slots : 512;
        th_vocabulary_slot *slot = malloc(slots * sizeof *slot);
        if (slot == NULL)
            return false;
        memset(slot, 0xff, slots * sizeof *slot);
        if (v->slots == 0)
            v->key = th_hash_key_new();
        free(v->slot);
        v->slot = slot;
        v->slots = slots;
        for (size_t i = 0; i < v->size; i++)
            if (v->entry[i].indexed)
                insert_slot(v, (int32_t)i);
    }
    insert_slot(v, id);
    v->entry[id].indexed = true;
    v->used++;
    return true;
}

int32_t th_vocabulary_find_hashed(const th_vocabulary *v, uint64_t hash, const char *bytes, size_t count)
{
    if (v->slots == 0)
        return -1;
    for (size_t at = (size_t)hash & (v->slots - 1); v->slot[at].id >= 0; at = (at + 1) & (v->slots - 1)) {
        if (v->slot[at].mark != (uint32_t)(hash >> 32))
            continue;
        const th_token_entry *e = &v->entry[v->slot[at].id];
        if (e->bytes == count && th_same_bytes(v->pool + e->offset, bytes, count))
            return v->slot[at].id;
    }
    return -1;
}

int32_t th_vocabulary_find(const th_vocabulary *v, const char *bytes, size_t count)
{
    return th_vocabulary_find_hashed(v, th_hash_bytes(v->key, bytes, count), bytes, count);
}

void th_vocabulary_release(th_vocabulary *v)
{
    free(v->entry);
    free(v->pool);
    free(v->slot);
    *v = (th_vocabulary){0};
}
