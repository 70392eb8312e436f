/* Products of bfloat16 parts with Intel AMX. Only the instruction tdpbf16ps computes here: it defines the bits
 * (product.h). One instance is compiled, if the compiler supports AMX. It runs only after th_why_not_amx
 * (kernels/machine/amx.h) has permitted it. amx_panels.h packs the panels; amx_few_rows.h multiplies few rows.
 *
 * An AMX tile has 16 rows of 64 bytes: 16 x 16 numbers of C, 16 rows of A with 32 steps, or 16 pairs of steps of 16
 * columns of B. 2 x 2 tiles of C stay in registers. For one group of steps they need 4 products, which take 64 cycles,
 * and 4 tiles of 1 KB, which are loaded. A level-2 cache cannot deliver more in that time. So one of the two panels
 * should be in the level-1 cache (48 KB):
 *
 *     one part     A block of k is computed in two halves. Then half a panel of B (16 KB) stays in the level-1 cache,
 *                  and the panels of A come from the level-2 cache.
 *     two parts    12 products load 8 tiles (two of them twice), two thirds of what the level-2 cache delivers. So a
 *                  block is computed at once. */
#include "kernels/bfloat16/vector/amx_few_rows.h"

enum { GROUPS_AT_ONCE = 8, AHEAD_GROUPS = 2 /* groups to prefetch ahead */ };

/* Up to 2 x 2 tiles of C, and their operands. */
typedef struct tile_panels {
    bool second_row, second_column; /* of tiles: whether they exist */
    int64_t groups;                 /* of steps */
    const char *a, *b;              /* panels, from the first of these groups */
    const char *next_b;             /* the next panel of B, to be prefetched meanwhile; or NULL */
} tile_panels;

TH_INLINE void load_sums(bool second_row, bool second_column, const tile_rows *from)
{
    const int64_t row_bytes = from->stride * (int64_t)sizeof(float);
    _tile_loadd(C00, from->data, row_bytes);
    if (second_column)
        _tile_loadd(C01, from->data + TILE_LINES, row_bytes);
    if (second_row)
        _tile_loadd(C10, from->data + TILE_LINES * from->stride, row_bytes);
    if (second_row && second_column)
        _tile_loadd(C11, from->data + TILE_LINES * from->stride + TILE_LINES, row_bytes);
}

TH_INLINE void zero_sums(void)
{
    _tile_zero(C00);
    _tile_zero(C01);
    _tile_zero(C10);
    _tile_zero(C11);
}

TH_INLINE void store_sums(bool second_row, bool second_column, const tile_rows *to)
{
    const int64_t row_bytes = to->stride * (int64_t)sizeof(float);
    _tile_stored(C00, to->data, row_bytes);
    if (second_column)
        _tile_stored(C01, to->data + TILE_LINES, row_bytes);
    if (second_row)
        _tile_stored(C10, to->data + TILE_LINES * to->stride, row_bytes);
    if (second_row && second_column)
        _tile_stored(C11, to->data + TILE_LINES * to->stride + TILE_LINES, row_bytes);
}

/* Memory to prefetch during 4 products, a quarter during each. Each pointer is one part of an operand over one group:
 * `near` is in later groups, for the level-1 cache; `far` is in the next panel, for the level-2 cache. NULL:
 * nothing. */
typedef struct tile_prefetch {
    const char *near[2], *far[2];
} tile_prefetch;

TH_INLINE void prefetch_quarter(const tile_prefetch *next, int quarter)
{
    enum { BYTES = PANEL_PART_BYTES / 4 };
    UNROLLED_FOR (int i = 0; i < 2; i++) {
        if (next->near[i])
            UNROLLED_FOR (int byte = 0; byte < BYTES; byte += TILE_ROW_BYTES)
                _mm_prefetch(next->near[i] + quarter * BYTES + byte, _MM_HINT_T0);
        if (next->far[i])
            UNROLLED_FOR (int byte = 0; byte < BYTES; byte += TILE_ROW_BYTES)
                _mm_prefetch(next->far[i] + quarter * BYTES + byte, _MM_HINT_T1);
    }
}

/* c += a b for one part of each, over one group of steps. Operands are loaded as late as possible, so that loads run
 * beside products. 4 products pass before a sum of C is used again; this is the latency of one product. */
TH_INLINE void add_products(bool second_row, bool second_column, bool load_a, const char *a, const char *b,
                            const tile_prefetch *next)
{
    _tile_loadd(B0, b, TILE_ROW_BYTES);
    if (load_a)
        _tile_loadd(A0, a, TILE_ROW_BYTES);
    _tile_dpbf16ps(C00, A0, B0);
    prefetch_quarter(next, 0);
    if (second_row) {
        if (load_a)
            _tile_loadd(A1, a + TILE_BYTES, TILE_ROW_BYTES);
        _tile_dpbf16ps(C10, A1, B0);
        prefetch_quarter(next, 1);
    }
    if (second_column) {
        _tile_loadd(B1, b + TILE_BYTES, TILE_ROW_BYTES);
        _tile_dpbf16ps(C01, A0, B1);
        prefetch_quarter(next, 2);
        if (second_row) {
            _tile_dpbf16ps(C11, A1, B1);
            prefetch_quarter(next, 3);
        }
    }
}

/* c += products of parts. Operands have `parts` parts. both: multiply both parts, otherwise only the first. */
TH_INLINE void add_groups(int parts, bool both, bool second_row, bool second_column, const tile_panels *t)
{
    enum { NEXT = PANEL_PART_BYTES }; /* from one part to the next */
    const int64_t group_bytes = parts * PANEL_PART_BYTES, ahead = AHEAD_GROUPS * group_bytes;
    for (int64_t group = 0; group < t->groups; group++) {
        const char *a = t->a + group * group_bytes, *b = t->b + group * group_bytes;
        const char *next_b = t->next_b ? t->next_b + group * group_bytes : NULL;
        if (!both) {
            const tile_prefetch next = {{a + ahead}, {next_b}};
            add_products(second_row, second_column, true, a, b, &next);
            continue;
        }
        const tile_prefetch first = {{a + ahead, b + ahead}, {NULL}},
                            second = {{a + ahead + NEXT, b + ahead + NEXT}, {NULL}};
        const tile_prefetch panel = {{NULL}, {next_b, next_b ? next_b + NEXT : NULL}};
        add_products(second_row, second_column, true, a, b, &first);
        add_products(second_row, second_column, false, a, b + NEXT, &second);
        add_products(second_row, second_column, true, a + NEXT, b, &panel);
    }
}

TH_INLINE void compute_tiles(int parts, bool both, bool second_row, bool second_column, const tile_panels *t,
                             const tile_rows *init, const tile_rows *c)
{
    if (init->data)
        load_sums(second_row, second_column, init);
    else
        zero_sums();
    add_groups(parts, both, second_row, second_column, t);
    store_sums(second_row, second_column, c);
}

/* c = init + a b in whole tiles of memory. */
TH_INLINE void multiply_panels(int parts, bool both, const tile_panels *t, const tile_rows *init, const tile_rows *c)
{
    if (t->second_row && t->second_column)
        compute_tiles(parts, both, true, true, t, init, c);
    else if (t->second_row)
        compute_tiles(parts, both, true, false, t, init, c);
    else if (t->second_column)
        compute_tiles(parts, both, false, true, t, init, c);
    else
        compute_tiles(parts, both, false, false, t, init, c);
}

/* -- partial tiles, and elements that are NaN -- */

static bool has_nan(const tile_buffer *buffer, int64_t rows, int64_t columns)
{
    __mmask16 found = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j += TILE_LINES) {
            const __m512 numbers = _mm512_load_ps(&buffer->number[i][j]);
            found |= _mm512_mask_cmp_ps_mask(first_lanes(columns - j), numbers, numbers, _CMP_UNORD_Q);
        }
    return found != 0;
}

/* Replaces elements that are NaN by elements of the product of first parts. */
static __attribute__((noinline)) void replace_nan(const tile_panels *t, const tile_rows *init, tile_buffer *buffer)
{
    tile_buffer first;
    multiply_panels(MAX_PARTS, false, t, init, &(tile_rows){&first.number[0][0], PANEL_LINES});
    for (int64_t i = 0; i < (t->second_row ? PANEL_LINES : TILE_LINES); i++)
        for (int64_t j = 0; j < (t->second_column ? PANEL_LINES : TILE_LINES); j += TILE_LINES) {
            const __m512 numbers = _mm512_load_ps(&buffer->number[i][j]);
            _mm512_mask_store_ps(&buffer->number[i][j], _mm512_cmp_ps_mask(numbers, numbers, _CMP_UNORD_Q),
                                 _mm512_load_ps(&first.number[i][j]));
        }
}

/* c = init + a b for `rows` rows and `columns` columns. */
TH_INLINE void multiply_part(int parts, int64_t rows, int64_t columns, const tile_panels *t, const tile_rows *init,
                             const tile_rows *c)
{
    const bool whole = rows % TILE_LINES == 0 && columns % TILE_LINES == 0;
    if (parts == 1 && whole) {
        multiply_panels(parts, false, t, init, c);
        return;
    }
    tile_buffer begin, sums;
    tile_rows from = *init;
    const tile_rows to = {&sums.number[0][0], PANEL_LINES};
    if (init->data && !whole) {
        load_buffer(&begin, rows, columns, init);
        from = (tile_rows){&begin.number[0][0], PANEL_LINES};
    }
    multiply_panels(parts, parts > 1, t, &from, &to);
    if (parts > 1 && has_nan(&sums, rows, columns))
        replace_nan(t, &from, &sums);
    store_buffer(&sums, rows, columns, c);
}

/* -- panels of B and of A -- */

/* Multiplies all of A by one panel of B over some groups of steps, from `group` on. */
TH_INLINE void multiply_column(int parts, const th_product_block *block, int64_t column, int64_t group, int64_t groups)
{
    const int64_t skipped = group * parts * PANEL_PART_BYTES, panel = block->b_panel * (int64_t)sizeof(float);
    const int64_t columns = th_smaller(block->n - column, PANEL_LINES);
    const bool adds = group > 0; /* to the sums of the groups before */
    const float *start = adds ? block->c : block->init;
    const int64_t start_row = adds ? block->c_row : block->init_row;
    tile_panels t = {.second_column = columns > TILE_LINES, .groups = groups};
    t.b = (const char *)block->b + column / PANEL_LINES * panel + skipped;
    t.next_b = column + PANEL_LINES < block->n ? t.b + panel : NULL;
    for (int64_t row = 0; row < block->m; row += PANEL_LINES) {
        const int64_t rows = th_smaller(block->m - row, PANEL_LINES);
        const tile_rows c = {(float *)block->c + row * block->c_row + column, block->c_row};
        const tile_rows init = {start ? (float *)start + row * start_row + column : NULL, start_row};
        t.second_row = rows > TILE_LINES;
        t.a = (const char *)block->a + row / PANEL_LINES * block->a_panel * (int64_t)sizeof(float) + skipped;
        multiply_part(parts, rows, columns, &t, &init, &c);
        t.next_b = NULL;
    }
}

TH_INLINE void multiply_amx(int parts, const th_product_block *block)
{
    const int64_t groups = th_ceil_div(block->k, TH_PART_GROUP), max = parts == 1 ? GROUPS_AT_ONCE : groups;
    _tile_loadconfig(&full_tiles);
    for (int64_t column = 0; column < block->n; column += PANEL_LINES) {
        int64_t group = 0;
        do { /* once even without steps */
            multiply_column(parts, block, column, group, th_smaller(groups - group, max));
            group += max;
        } while (group < groups);
    }
    _tile_release();
}

static void few_rows(const th_product_block *block)
{
    multiply_in_state(few_rows_amx, block);
}

static void few_rows_stored(const th_product_block *block)
{
    multiply_in_state(few_rows_stored_amx, block);
}

/* -- the functions of th_product_kernels -- */

PART_KERNELS(1, pack_amx, multiply_amx, PANEL_PART_BYTES / (int)sizeof(float));
PART_KERNELS(2, pack_amx, multiply_amx, PANEL_PART_BYTES / (int)sizeof(float));

/* Packs few rows of A like columns of B. */
static void pack_few(int64_t m, int64_t k, const void *a, int64_t row, int64_t column, void *panels)
{
    pack_b_1(k, m, a, column, row, panels, 0);
}

extern const th_product_kernels TH_KERNEL(product_amx)[MAX_PARTS];

/* [parts - 1] */
const th_product_kernels TH_KERNEL(product_amx)[MAX_PARTS] = {
    {"amx", PANEL_LINES, PANEL_LINES, TH_PART_GROUP, TH_PART_GROUP / 2, pack_a_1, pack_b_1, block_1, pack_few, few_rows,
     few_rows_stored},
    {"amx", PANEL_LINES, PANEL_LINES, TH_PART_GROUP, TH_PART_GROUP, pack_a_2, pack_b_2, block_2, NULL, NULL, NULL},
};
