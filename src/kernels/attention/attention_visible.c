/* What a tile sees of its keys, by visible.h's rule (attention_tile.h). */
#include "kernels/attention/attention_tile.h"

enum {
    GROUP = 12,       /* rows that are cut together at a diagonal: one or two tiles of the micro-kernel; */
    SMALL = 32,       /* of up to so many queries */
    SMALL_GROUP = 16, /* are, as another product costs more than it leaves out */
    PART_GROUP_ROWS = TH_PART_GROUP /* of terms at most so many, as this is what keys are cut at: whole panels */
};

/* How many rows of a tile are cut together. */
static int64_t rows_of_group(const attention_problem *p, int64_t rows)
{
    const int64_t panel = p->multiply.rows;
    if (p->parts)
        return panel < PART_GROUP_ROWS ? PART_GROUP_ROWS / panel * panel : panel;
    return th_parts(rows, th_parts(rows, p->a->queries > SMALL ? GROUP : SMALL_GROUP));
}

/* Consecutive queries of a head against the keys start .. start + count - 1. */
typedef struct queries {
    th_key_range edges;
    int64_t place; /* of the first, counted from start as the keys are; with each query one more, unless there are: */
    const char *position; /* places one by one, counted from key 0; NULL: none */
    int64_t position_bytes;
    bool position_64;
    const char *length; /* its number of valid keys; NULL: all keys count */
    int64_t length_bytes;
    bool length_64;
    int64_t start, count;
} queries;

static queries queries_from(const th_attention *a, const attention_head *head, int64_t query, int64_t start,
                            int64_t count)
{
    const int64_t size = a->valid_lengths_64 ? (int64_t)sizeof(int64_t) : (int64_t)sizeof(int32_t);
    const int64_t position_size = a->positions_64 ? (int64_t)sizeof(int64_t) : (int64_t)sizeof(int32_t);
    return (queries){.edges = th_band_edges(&a->band),
                     .place = query + a->band.position - start,
                     .position = th_attention_at(&a->positions, head, query, 0, position_size),
                     .position_bytes = a->positions.row * position_size,
                     .position_64 = a->positions_64,
                     .length = th_attention_at(&a->valid_lengths, head, query, 0, size),
                     .length_bytes = a->valid_lengths.row * size,
                     .length_64 = a->valid_lengths_64,
                     .start = start,
                     .count = count};
}

static inline int64_t integer_at(const char *at, bool is_64)
{
    return is_64 ? *(const int64_t *)(const void *)at : *(const int32_t *)(const void *)at;
}

/* Where query `row` of those stands, counted from start. */
static inline int64_t place_of(const queries *q, int64_t row)
{
    if (!q->position)
        return q->place + row;
    return th_smaller(integer_at(q->position + row * q->position_bytes, q->position_64), TH_FAR_KEY) - q->start;
}

/* The keys, counted from start, that query `row` of those may see. */
static inline th_key_range keys_of(const queries *q, int64_t row)
{
    int64_t count = q->count;
    if (q->length)
        count = th_smaller(count, integer_at(q->length + row * q->length_bytes, q->length_64) - q->start);
    return th_keys_visible(q->edges, place_of(q, row), count);
}

bool th_attention_visible(const attention_problem *p, const attention_head *head, int64_t query, int64_t rows,
                          int64_t start, int64_t count, int64_t *least, int64_t *max)
{
    const queries q = queries_from(p->a, head, query, start, count);
    *least = count;
    *max = 0;
    if (!q.position && !q.length) { /* ranges that move on by one: those of the first and the last row that sees any */
        const int64_t first = q.edges.first + q.place, past = q.edges.past + q.place;
        const int64_t row = th_larger(0, 1 - past), last = th_smaller(rows, count - first) - 1;
        if (row > last)
            return false;
        *least = th_larger(first + row, 0);
        *max = th_smaller(past + last, count);
        return *max > 0;
    }
    for (int64_t r = 0; r < rows; r++) {
        const th_key_range keys = keys_of(&q, r);
        if (keys.past == 0)
            continue;
        *least = th_smaller(keys.first, *least);
        *max = th_larger(keys.past, *max);
    }
    return *max > 0;
}

bool th_attention_make_tile(const attention_problem *p, const attention_head *head, int64_t query, int64_t rows,
                            int64_t start, int64_t count, attention_tile *tile)
{
    const queries q = queries_from(p->a, head, query, start, count);
    tile->query = query;
    tile->rows = rows;
    tile->start = start;
    tile->group_rows = rows_of_group(p, rows);
    tile->groups = (int)th_parts(rows, tile->group_rows);
    tile->least = count;
    tile->max = 0;
    tile->all_first = 0;
    tile->all_past = count;
    for (int g = 0; g < tile->groups; g++) {
        const int64_t row = g * tile->group_rows, row_end = th_smaller(row + tile->group_rows, rows);
        int64_t least = count, max = 0;
        for (int64_t r = row; r < row_end; r++) {
            const th_key_range keys = keys_of(&q, r);
            tile->keys[r] = keys;
            tile->all_first = th_larger(keys.first, tile->all_first);
            tile->all_past = th_smaller(keys.past, tile->all_past);
            least = keys.past > 0 ? th_smaller(keys.first, least) : least;
            max = th_larger(keys.past, max);
        }
        tile->group_begin[g] = least;
        tile->group_end[g] = max;
        tile->least = th_smaller(least, tile->least);
        tile->max = th_larger(max, tile->max);
    }
    if (tile->max == 0)
        return false;
    for (int64_t r = 0; p->a->alibi.data && r < rows; r++)
        tile->place[r] = place_of(&q, r);
    tile->begin = tile->least / p->key_step * p->key_step;
    tile->end = th_parts(tile->max, LANES) * LANES;
    return true;
}

th_attention_rows th_attention_tile_rows(const attention_problem *p, const attention_head *head,
                                         const attention_tile *tile, const attention_buffer *scores)
{
    const th_attention *a = p->a;
    return (th_attention_rows){
        .rows = tile->rows,
        .begin = tile->begin,
        .end = tile->end,
        .keys = tile->keys,
        .scale = a->scale,
        .soft_cap = a->soft_cap,
        .slope = th_attention_at(&a->alibi, head, 0, 0, p->size),
        .place = tile->place,
        .keep = (const bool *)th_attention_at(&a->keep, head, tile->query, tile->start, sizeof(bool)),
        .keep_row = a->keep.row,
        .keep_column = a->keep.column,
        .additive = th_attention_at(&a->additive, head, tile->query, tile->start, p->size),
        .additive_row = a->additive.row,
        .additive_column = a->additive.column,
        .dropout = a->drops ? &a->dropout : NULL,
        .dropout_row = head->number * a->queries + tile->query,
        .dropout_column = tile->start,
        .scores = scores->data,
        .stride = scores->stride,
    };
}
