/* Finds the visible pairs of a tile by the rule in visible.h (attention_tile.h). */
#include "kernels/attention/attention_tile.h"

enum {
    GROUP_ROWS = 12,                /* rows of a group at a diagonal: one or two tiles of the micro-kernel */
    FEW_QUERIES = 32,               /* with at most this many queries, groups have SMALL_GROUP_ROWS, */
    SMALL_GROUP_ROWS = 16,          /* because one more product costs more than it skips */
    PART_GROUP_ROWS = TH_PART_GROUP /* max rows of a group of bfloat16 parts, in whole panels: keys are divided at
                                       multiples of this */
};

/* Returns the number of rows of a tile that form a group. */
static int64_t rows_of_group(const attention_problem *p, int64_t rows)
{
    const int64_t panel = p->multiply.rows;
    if (p->has_parts)
        return panel < PART_GROUP_ROWS ? PART_GROUP_ROWS / panel * panel : panel;
    return th_ceil_div(rows, th_ceil_div(rows, p->a->queries > FEW_QUERIES ? GROUP_ROWS : SMALL_GROUP_ROWS));
}

/* Consecutive queries of a head, and the keys start .. start + count - 1. */
typedef struct queries {
    th_key_range edges;
    int64_t position;      /* of the first query, counted from start; each further query has the next one */
    const char *positions; /* instead of this, the position of each query, counted from key 0; NULL: none */
    int64_t positions_bytes;
    bool positions_64;
    const char *length; /* number of valid keys; NULL: all keys are valid */
    int64_t length_bytes;
    bool length_64;
    int64_t key_start, key_count;
} queries;

static queries queries_from(const th_attention *a, const attention_head *head, int64_t query, int64_t start,
                            int64_t count)
{
    const int64_t size = a->valid_lengths_64 ? (int64_t)sizeof(int64_t) : (int64_t)sizeof(int32_t);
    const int64_t position_size = a->positions_64 ? (int64_t)sizeof(int64_t) : (int64_t)sizeof(int32_t);
    return (queries){.edges = th_band_edges(&a->band),
                     .position = query + a->band.position - start,
                     .positions = th_attention_at(&a->positions, head, query, 0, position_size),
                     .positions_bytes = a->positions.row * position_size,
                     .positions_64 = a->positions_64,
                     .length = th_attention_at(&a->valid_lengths, head, query, 0, size),
                     .length_bytes = a->valid_lengths.row * size,
                     .length_64 = a->valid_lengths_64,
                     .key_start = start,
                     .key_count = count};
}

static inline int64_t integer_at(const char *at, bool is_64)
{
    return is_64 ? *(const int64_t *)(const void *)at : *(const int32_t *)(const void *)at;
}

/* The position of query `row`, counted from start. */
static inline int64_t position_of_query(const queries *q, int64_t row)
{
    if (!q->positions)
        return q->position + row;
    return th_smaller(integer_at(q->positions + row * q->positions_bytes, q->positions_64), TH_FAR_KEY) - q->key_start;
}

/* The keys that query `row` may see, counted from start. */
static inline th_key_range keys_of_query(const queries *q, int64_t row)
{
    int64_t count = q->key_count;
    if (q->length)
        count = th_smaller(count, integer_at(q->length + row * q->length_bytes, q->length_64) - q->key_start);
    return th_keys_visible(q->edges, position_of_query(q, row), count);
}

bool th_attention_visible(const attention_problem *p, const attention_head *head, int64_t query, int64_t rows,
                          int64_t start, int64_t count, int64_t *first, int64_t *past)
{
    const queries q = queries_from(p->a, head, query, start, count);
    *first = count;
    *past = 0;
    if (!q.positions && !q.length) {
        /* Ranges move by one from row to row. So only the first and the last row that sees any key matter. */
        const th_key_range keys = {q.edges.first + q.position, q.edges.past + q.position};
        const int64_t row = th_larger(0, 1 - keys.past), last = th_smaller(rows, count - keys.first) - 1;
        if (row > last)
            return false;
        *first = th_larger(keys.first + row, 0);
        *past = th_smaller(keys.past + last, count);
        return *past > 0;
    }
    for (int64_t r = 0; r < rows; r++) {
        const th_key_range keys = keys_of_query(&q, r);
        if (keys.past == 0)
            continue;
        *first = th_smaller(keys.first, *first);
        *past = th_larger(keys.past, *past);
    }
    return *past > 0;
}

bool th_attention_make_tile(const attention_problem *p, const attention_head *head, int64_t query, int64_t rows,
                            int64_t start, int64_t count, attention_tile *tile)
{
    const queries q = queries_from(p->a, head, query, start, count);
    tile->query = query;
    tile->rows = rows;
    tile->start = start;
    tile->group_rows = rows_of_group(p, rows);
    tile->groups = (int)th_ceil_div(rows, tile->group_rows);
    tile->first = count;
    tile->past = 0;
    tile->all_first = 0;
    tile->all_past = count;
    for (int g = 0; g < tile->groups; g++) {
        const int64_t row = g * tile->group_rows, row_end = th_smaller(row + tile->group_rows, rows);
        int64_t first = count, past = 0;
        for (int64_t r = row; r < row_end; r++) {
            const th_key_range keys = keys_of_query(&q, r);
            tile->keys[r] = keys;
            tile->all_first = th_larger(keys.first, tile->all_first);
            tile->all_past = th_smaller(keys.past, tile->all_past);
            first = keys.past > 0 ? th_smaller(keys.first, first) : first;
            past = th_larger(keys.past, past);
        }
        tile->group_begin[g] = first;
        tile->group_end[g] = past;
        tile->first = th_smaller(first, tile->first);
        tile->past = th_larger(past, tile->past);
    }
    if (tile->past == 0)
        return false;
    for (int64_t r = 0; p->a->alibi.data && r < rows; r++)
        tile->position[r] = position_of_query(&q, r);
    tile->begin = tile->first / p->key_step * p->key_step;
    tile->end = th_ceil_div(tile->past, LANES) * LANES;
    return true;
}

th_attention_rows th_attention_tile_rows(const attention_problem *p, const attention_head *head,
                                         const attention_tile *tile, const attention_buffer *scores)
{
    const th_attention *a = p->a;
    const int64_t rows_of_head = a->rows_of_head > 0 ? a->rows_of_head : a->queries;
    return (th_attention_rows){
        .rows = tile->rows,
        .begin = tile->begin,
        .end = tile->end,
        .keys = tile->keys,
        .scale = a->scale,
        .soft_cap = a->soft_cap,
        .slope = th_attention_at(&a->alibi, head, 0, 0, p->size),
        .position = tile->position,
        .keep = (const bool *)th_attention_at(&a->keep, head, tile->query, tile->start, sizeof(bool)),
        .keep_row = a->keep.row,
        .keep_column = a->keep.column,
        .additive = th_attention_at(&a->additive, head, tile->query, tile->start, p->size),
        .additive_row = a->additive.row,
        .additive_column = a->additive.column,
        .dropout = a->drops ? &a->dropout : NULL,
        .dropout_row = a->first_row + head->number * rows_of_head + tile->query,
        .dropout_column = a->first_column + tile->start,
        .scores = scores->data,
        .stride = scores->stride,
    };
}
