/* What the drivers of attention share (attention_block.h), and the weights on request. */
#include "kernels/attention_block.h"

#include <string.h>

#include "kernels/parallel.h"
#include "kernels/product.h"

enum {
    CHUNK_KEYS =
        128, /* of a sum over keys at a time: so much of a panel of values stays in the nearest cache for all rows */
    ALIGNMENT = 64,     /* bytes */
    TASK = 200000,      /* multiply-adds of a task, if there are enough items: some 5 µs */
    ITEM = 5000,        /* that what else is done for an item takes as long as */
    TASKS_PER_THREAD = 4
};

attention_plan th_attention_plan(const th_machine *machine, th_dtype dtype, const th_attention *a)
{
    const int64_t size = th_item_size(dtype);
    const int vector_bytes = th_vector_bytes(machine);
    attention_plan p = {.a = a,
                        .kernels = th_kernels_for(machine, dtype),
                        .size = size,
                        .tile_rows = TH_TILE_ROWS(vector_bytes),
                        .tile_columns = TH_TILE_COLUMNS(vector_bytes, size),
                        .items = 1};
    for (int d = 0; d < a->dims; d++)
        p.items *= a->size[d];
    return p;
}

attention_item th_attention_item(const th_attention *a, int64_t number)
{
    attention_item item = {.number = number, .dims = a->dims};
    for (int d = a->dims - 1; d >= 0; d--) {
        item.index[d] = number % a->size[d];
        number /= a->size[d];
    }
    return item;
}

void th_attention_next_item(const th_attention *a, attention_item *item)
{
    item->number++;
    for (int d = a->dims - 1; d >= 0 && ++item->index[d] == a->size[d]; d--)
        item->index[d] = 0;
}

int64_t th_attention_items_of_task(int64_t count, double multiply_adds, int threads)
{
    const int64_t enough = multiply_adds < TASK ? (int64_t)(TASK / (multiply_adds + ITEM)) : 1;
    const int64_t fair = count / ((int64_t)threads * TASKS_PER_THREAD);
    const int64_t items = threads > 1 ? th_item_min(enough, fair) : enough;
    return items > 1 ? items : 1;
}

char *th_attention_at(const th_attention_array *array, const attention_item *item, int64_t row, int64_t column,
                      int64_t size)
{
    if (!array->data)
        return NULL;
    int64_t offset = row * array->row + column * array->column;
    for (int d = 0; d < item->dims; d++)
        offset += item->index[d] * array->item[d];
    return (char *)array->data + offset * size;
}

/* -- workspace -- */

void *th_attention_take(attention_space *space, int64_t rows, int64_t row_elements, int64_t size)
{
    void *taken = space->base ? space->base + space->used : NULL;
    size_t bytes;
    if (__builtin_mul_overflow(rows, row_elements, &bytes) || __builtin_mul_overflow(bytes, size, &bytes) ||
        __builtin_add_overflow(bytes, (size_t)ALIGNMENT - 1, &bytes) ||
        __builtin_add_overflow(space->used, bytes / ALIGNMENT * ALIGNMENT, &space->used))
        space->used = SIZE_MAX;
    return taken;
}

/* Not a multiple of many cache lines, so that a column of a buffer does not fall on few places of a cache. */
int64_t th_attention_stride(int64_t columns)
{
    const int64_t lanes = th_item_parts(columns, LANES);
    return (lanes + (lanes > 2 && lanes % 2 == 0)) * LANES;
}

attention_copy th_attention_take_copy(const attention_plan *p, attention_space *space, int64_t rows, int64_t width)
{
    const int64_t stride = th_attention_stride(width);
    return (attention_copy){.data = th_attention_take(space, rows, stride, p->size), .width = width, .stride = stride};
}

attention_panels th_attention_take_panels(const attention_plan *p, attention_space *space, int64_t keys, int64_t width)
{
    const int64_t stride = p->tile_columns * width + LANES; /* a register more, for what packing writes too far */
    return (attention_panels){.data = th_attention_take(space, th_item_parts(keys, p->tile_columns), stride, p->size),
                              .width = width,
                              .stride = stride};
}

void th_attention_load(const attention_plan *p, attention_copy *copy, int64_t to, const th_attention_array *array,
                       const attention_item *item, int64_t row, int64_t rows)
{
    const void *from = th_attention_at(array, item, row, 0, p->size);
    p->kernels->attention_load(rows, copy->width, from ? from : th_zero(p->size), from ? array->row : 0,
                               from ? array->column : 0, copy->data + to * copy->stride * p->size, copy->stride,
                               &copy->finite);
}

void th_attention_pack(const attention_plan *p, const attention_panels *panels, const th_attention_array *array,
                       const attention_item *item, int64_t row, int64_t from, int64_t to)
{
    const int64_t panel = from / p->tile_columns, first = panel * p->tile_columns;
    if (panels->width > 0 && array->data)
        p->kernels->product_pack_b(panels->width, to - first, th_attention_at(array, item, row + first, 0, p->size),
                                   array->column, array->row, panels->data + panel * panels->stride * p->size,
                                   panels->stride);
}

/* -- what a block sees -- */

/* What position, window and lengths leave to consecutive queries of the keys start .. start + count - 1. */
typedef struct key_ranges {
    int64_t first, past; /* for the first query, of keys counted from start; both move with the query */
    int64_t count;
    const char *length; /* of the first query; NULL: all keys count */
    int64_t length_bytes, start;
    bool length_64;
} key_ranges;

static key_ranges ranges_from(const th_attention *a, const attention_item *item, int64_t query, int64_t start,
                              int64_t count)
{
    const int64_t at = query + a->position, reach = a->queries + a->keys; /* a window beyond that is none */
    const int64_t size = a->valid_lens_64 ? (int64_t)sizeof(int64_t) : (int64_t)sizeof(int32_t);
    key_ranges ranges = {.first = -a->queries, /* no limit */
                         .past = a->keys,
                         .count = count,
                         .length = th_attention_at(&a->valid_lens, item, query, 0, size),
                         .length_bytes = a->valid_lens.row * size,
                         .start = start,
                         .length_64 = a->valid_lens_64};
    if (a->window && a->left >= 0 && a->left < reach)
        ranges.first = at - a->left - start;
    if (a->window && a->right >= 0 && a->right < reach)
        ranges.past = th_item_min(ranges.past, at + a->right + 1 - start);
    if (a->causal)
        ranges.past = th_item_min(ranges.past, at + 1 - start);
    return ranges;
}

/* The keys *first .. *past - 1 that query `row` of those may see: both 0 when there are none. */
static inline void visible_range(const key_ranges *ranges, int64_t row, int64_t *first, int64_t *past)
{
    *first = ranges->first + row > 0 ? ranges->first + row : 0;
    *past = th_item_min(ranges->past + row, ranges->count);
    if (ranges->length) {
        const char *length = ranges->length + row * ranges->length_bytes;
        *past = th_item_min(*past, (ranges->length_64 ? *(const int64_t *)(const void *)length
                                                      : *(const int32_t *)(const void *)length) -
                                       ranges->start);
    }
    if (*first >= *past)
        *first = *past = 0;
}

bool th_attention_seen(const attention_plan *p, const attention_item *item, int64_t query, int64_t rows, int64_t start,
                       int64_t count, int64_t *least, int64_t *most)
{
    const key_ranges ranges = ranges_from(p->a, item, query, start, count);
    *least = count;
    *most = 0;
    for (int64_t r = 0; r < rows; r++) {
        int64_t first, past;
        visible_range(&ranges, r, &first, &past);
        if (past == 0)
            continue;
        *least = th_item_min(first, *least);
        *most = past > *most ? past : *most;
    }
    return *most > 0;
}

bool th_attention_block(const attention_plan *p, const attention_item *item, int64_t query, int64_t rows, int64_t start,
                        int64_t count, attention_block *block)
{
    const key_ranges ranges = ranges_from(p->a, item, query, start, count);
    block->query = query;
    block->rows = rows;
    block->start = start;
    block->groups = (int)th_item_parts(rows, p->a->queries > SMALL ? GROUP : SMALL_GROUP);
    block->group_rows = th_item_parts(rows, block->groups);
    block->least = count;
    block->most = 0;
    block->all_first = 0;
    block->all_past = count;
    for (int g = 0; g < block->groups; g++) {
        const int64_t row = g * block->group_rows, row_end = th_item_min(row + block->group_rows, rows);
        int64_t least = count, most = 0;
        for (int64_t r = row; r < row_end; r++) {
            int64_t first, past;
            visible_range(&ranges, r, &first, &past);
            block->first[r] = first;
            block->past[r] = past;
            block->all_first = first > block->all_first ? first : block->all_first;
            block->all_past = th_item_min(past, block->all_past);
            least = first < past ? th_item_min(first, least) : least;
            most = past > most ? past : most;
        }
        block->group_begin[g] = least;
        block->group_end[g] = most;
        block->least = th_item_min(least, block->least);
        block->most = most > block->most ? most : block->most;
    }
    if (block->most == 0)
        return false;
    block->begin = block->least / LANES * LANES;
    block->end = th_item_parts(block->most, LANES) * LANES;
    return true;
}

th_attention_rows th_attention_block_rows(const attention_plan *p, const attention_item *item,
                                          const attention_block *block, void *scores, int64_t stride)
{
    const th_attention *a = p->a;
    return (th_attention_rows){
        .rows = block->rows,
        .begin = block->begin,
        .end = block->end,
        .first = block->first,
        .past = block->past,
        .scale = a->scale,
        .keep = (const bool *)th_attention_at(&a->keep, item, block->query, block->start, sizeof(bool)),
        .keep_row = a->keep.row,
        .keep_column = a->keep.column,
        .additive = th_attention_at(&a->additive, item, block->query, block->start, p->size),
        .additive_row = a->additive.row,
        .additive_column = a->additive.column,
        .dropout = a->drops ? &a->dropout : NULL,
        .dropout_row = item->number * a->queries + block->query,
        .dropout_column = block->start,
        .scores = scores,
        .stride = stride,
    };
}

/* -- products -- */

/* The rows *begin .. *end - 1 are those of the groups that see columns among from .. to - 1. */
static bool rows_of(const attention_block *block, int64_t from, int64_t to, int64_t *begin, int64_t *end)
{
    *begin = block->rows;
    *end = 0;
    for (int g = 0; g < block->groups; g++) {
        if (block->group_begin[g] >= to || block->group_end[g] <= from)
            continue;
        *begin = th_item_min(*begin, g * block->group_rows);
        *end = th_item_min(block->rows, (g + 1) * block->group_rows);
    }
    return *begin < *end;
}

/* Scores of the columns from .. to - 1 for rows row .. row + rows - 1 of the block, from the start of a panel on. */
static void multiply_scores(const attention_plan *p, int64_t row, int64_t rows, int64_t from, int64_t to,
                            const attention_copy *a, const attention_panels *keys, char *scores, int64_t stride)
{
    const int64_t panel = from / p->tile_columns, whole = th_item_min(p->tile_columns, LANES);
    th_product_block product = {.m = rows,
                                .n = th_item_parts(to - from, whole) * whole,
                                .a_panel = p->tile_rows * a->stride,
                                .a_row = a->stride,
                                .a_col = 1,
                                .b_panel = keys->stride,
                                .b_row = p->tile_columns,
                                .c = scores + (row * stride + from) * p->size,
                                .c_row = stride,
                                .init_row = stride};
    int64_t k = 0;
    do {
        product.k = th_item_min(keys->width - k, TH_PRODUCT_BLOCK);
        product.a = a->data + (row * a->stride + k) * p->size;
        product.b = keys->data + (panel * keys->stride + k * p->tile_columns) * p->size;
        product.init = k > 0 ? product.c : NULL;
        p->kernels->product_block(&product);
        k += TH_PRODUCT_BLOCK;
    } while (k < keys->width);
}

/* First what all rows see, so that a panel is used for all of them while it is near; then what each group sees beyond
 * that. */
void th_attention_scores(const attention_plan *p, const attention_block *block, const attention_copy *a,
                         const attention_panels *keys, void *scores, int64_t stride)
{
    const int64_t begin = block->begin / p->tile_columns * p->tile_columns;
    int64_t shared = block->end;
    for (int g = 0; g < block->groups; g++)
        shared = th_item_min(shared, block->group_end[g]);
    shared = shared / p->tile_columns * p->tile_columns;
    if (begin < shared)
        multiply_scores(p, 0, block->rows, begin, shared, a, keys, scores, stride);
    for (int g = 0; g < block->groups; g++) {
        const int64_t row = g * block->group_rows, rows = th_item_min(block->rows - row, block->group_rows);
        int64_t from = block->group_begin[g] / p->tile_columns * p->tile_columns;
        from = from > shared ? from : shared;
        if (from < block->group_end[g])
            multiply_scores(p, row, rows, from, block->group_end[g], a, keys, scores, stride);
    }
}

/* One of the other products; B lies in rows. */
static void multiply(const attention_plan *p, th_product_block *product, bool add, bool finite, const void *weights)
{
    product->a_panel = p->tile_rows * product->a_row;
    product->b_panel = p->tile_columns;
    product->init = add ? product->c : NULL;
    product->init_row = product->c_row;
    product->n = th_item_parts(product->n, LANES) * LANES;
    if (finite)
        p->kernels->product_block(product);
    else
        p->kernels->attention_visible_product(product, weights);
}

/* Whether every group sees something of the columns from .. to - 1, and all that follow its first one. */
static bool all_groups_see(const attention_block *block, int64_t from, int64_t to)
{
    for (int g = 0; g < block->groups; g++)
        if (block->group_begin[g] >= to || block->group_end[g] < to || block->group_end[g] <= from)
            return false;
    return true;
}

/* Whether every row of the block is in one product, and none in two. */
static bool is_cut_by_rows_only(const attention_block *block)
{
    for (int g = 0; g < block->groups; g++)
        if (block->group_begin[g] >= block->group_end[g])
            return false;
    return block->begin / CHUNK_KEYS == (block->end - 1) / CHUNK_KEYS;
}

void th_attention_rows_product(const attention_plan *p, const attention_block *block, const void *a,
                               const void *weights, int64_t stride, const attention_copy *b, void *to,
                               int64_t to_stride, bool add)
{
    if (!add && !is_cut_by_rows_only(block)) {
        memset(to, 0, (size_t)(block->rows * to_stride * p->size));
        add = true;
    }
    for (int64_t chunk = block->begin / CHUNK_KEYS * CHUNK_KEYS; chunk < block->end; chunk += CHUNK_KEYS) {
        const int64_t chunk_end = chunk + CHUNK_KEYS;
        const bool together = all_groups_see(block, chunk, chunk_end);
        for (int g = 0; g < (together ? 1 : block->groups); g++) {
            const int64_t row = g * block->group_rows;
            int64_t key = together ? block->begin : block->group_begin[g];
            key = key > chunk ? key : chunk;
            const int64_t key_end = together ? chunk_end : th_item_min(block->group_end[g], chunk_end);
            if (key >= key_end)
                continue;
            const int64_t at = (row * stride + key) * p->size;
            th_product_block product = {.m = together ? block->rows : th_item_min(block->rows - row, block->group_rows),
                                        .n = b->width,
                                        .k = key_end - key,
                                        .a = (const char *)a + at,
                                        .a_row = stride,
                                        .a_col = 1,
                                        .b = b->data + key * b->stride * p->size,
                                        .b_row = b->stride,
                                        .c = (char *)to + row * to_stride * p->size,
                                        .c_row = to_stride};
            multiply(p, &product, add, b->finite, (const char *)weights + at);
        }
    }
}

void th_attention_columns_product(const attention_plan *p, const attention_block *block, const void *a,
                                  const void *weights, int64_t stride, const attention_copy *b,
                                  const attention_copy *to)
{
    const int64_t cut = block->group_rows;
    const int64_t all_first = th_item_parts(block->all_first, cut) * cut, all_past = block->all_past / cut * cut;
    for (int64_t column = block->begin, stop; column < block->most; column = stop) {
        int64_t row = 0, row_end = block->rows;
        if (block->groups == 1) {
            stop = block->most;
        } else if (column >= all_first && column < all_past) {
            stop = all_past;
        } else {
            stop = th_item_min((column / cut + 1) * cut, block->most);
            if (!rows_of(block, column, stop, &row, &row_end))
                continue;
        }
        const int64_t at = (row * stride + column) * p->size;
        th_product_block product = {.m = stop - column,
                                    .n = to->width,
                                    .k = row_end - row,
                                    .a = (const char *)a + at,
                                    .a_row = 1,
                                    .a_col = stride,
                                    .b = b->data + row * b->stride * p->size,
                                    .b_row = b->stride,
                                    .c = to->data + column * to->stride * p->size,
                                    .c_row = to->stride};
        multiply(p, &product, true, b->finite, (const char *)weights + at);
    }
}
