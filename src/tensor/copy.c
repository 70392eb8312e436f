/* Copies, converts and fills arrays in any layout. */
#include <string.h>

#include "kernels/dtype.h"
#include "kernels/sizes.h"
#include "tensor/context.h"
#include "tensor/convert.h"
#include "tensor/elementwise.h"
#include "tensor/storage_types.h"
#include "tensor/strided_iterator.h"

enum {
    /* A transposition copies tiles. TILE_ROWS elements of the source share a cache line. TILE_COLUMNS lines stay in
     * the cache even if they map to one cache set. */
    TILE_ROWS = 16,
    TILE_COLUMNS = 8
};

/* -- copies -- */

static void copy_runs(const void *shared, int64_t begin, int64_t end)
{
    const th_iterator *iterator = shared;
    const int last = iterator->ndim - 1;
    th_iterator_position position;
    th_iterator_seek(iterator, begin, &position);
    for (int64_t n; begin < end; begin += n) {
        n = th_smaller(th_iterator_run_length(iterator, &position), end - begin);
        th_copy_strided(n, iterator->array[0].element, position.address[0], iterator->array[0].stride[last],
                        position.address[1], iterator->array[1].stride[last]);
        th_iterator_advance(iterator, n, &position);
    }
}

/* Detects a transposition: the destination is contiguous along the last dimension, the source along another one.
 * Returns that dimension, or -1. */
static int transposed_dimension(const th_iterator *iterator)
{
    const int last = iterator->ndim - 1;
    const int64_t element = iterator->array[0].element;
    if (iterator->array[0].stride[last] != element || iterator->array[1].stride[last] == element ||
        iterator->array[1].stride[last] == 0)
        return -1;
    for (int d = 0; d < last; d++)
        if (iterator->array[1].stride[d] == element && iterator->size[d] >= TILE_ROWS / 2)
            return d;
    return -1;
}

typedef struct transposition {
    const th_iterator *iterator;
    int dimension; /* along which the source is contiguous; TILE_ROWS indices of it are a band of tiles */
    int64_t bands; /* in each plane */
} transposition;

/* Copies bands first to end - 1. A plane has the transposed dimension and the last one. */
static void transpose_bands(void *shared, int64_t first, int64_t end, int worker)
{
    (void)worker;
    const transposition *t = shared;
    const th_iterator *iterator = t->iterator;
    const int last = iterator->ndim - 1;
    const int64_t element = iterator->array[0].element;
    const int64_t to_row = iterator->array[0].stride[t->dimension], from_column = iterator->array[1].stride[last];
    for (int64_t band = first; band < end; band++) {
        char *start[TH_ITERATOR_ARRAYS];
        th_iterator_find_plane(iterator, t->dimension, band / t->bands, start);
        char *const to = start[0];
        const char *const from = start[1];
        const int64_t row = band % t->bands * TILE_ROWS;
        const int64_t rows = th_smaller(iterator->size[t->dimension] - row, TILE_ROWS);
        for (int64_t column = 0; column < iterator->size[last]; column += TILE_COLUMNS) {
            const int64_t columns = th_smaller(iterator->size[last] - column, TILE_COLUMNS);
            for (int64_t i = row; i < row + rows; i++)
                th_copy_strided(columns, element, to + i * to_row + column * element, element,
                                from + i * element + column * from_column, from_column);
        }
    }
}

void th_copy_array(const th_context *ctx, const th_array *destination, const th_array *source, bool add)
{
    if (add) {
        th_elementwise(ctx, th_context_kernels(ctx, destination->dtype)->add, NULL, destination, false, 2,
                       (const th_array *const[]){destination, source});
        return;
    }
    th_iterator iterator;
    if (!th_iterator_build(&iterator, destination, 1, &source))
        return;
    const int dimension = transposed_dimension(&iterator);
    if (dimension < 0) {
        th_for_pieces(ctx, iterator.numel, copy_runs, &iterator);
        return;
    }
    transposition t = {&iterator, dimension, th_ceil_div(iterator.size[dimension], TILE_ROWS)};
    const int64_t planes = iterator.numel / iterator.size[dimension] / iterator.size[iterator.ndim - 1];
    th_for_rows(ctx, planes * t.bands, TILE_ROWS * iterator.size[iterator.ndim - 1], transpose_bands, &t);
}

/* -- conversion -- */

typedef struct type_pair {
    th_dtype to, from;
} type_pair;

static void convert_elements(int64_t n, void *const *operands, const void *parameters)
{
    const type_pair *t = parameters;
    th_convert_elements(n, t->to, operands[0], t->from, operands[1]);
}

void th_convert_array(const th_context *ctx, const th_array *destination, const th_array *source)
{
    if (destination->dtype == source->dtype)
        th_copy_array(ctx, destination, source, false);
    else if (th_is_storage_type(destination->dtype) || th_is_storage_type(source->dtype))
        th_convert_storage(ctx, destination, source);
    else
        th_elementwise(ctx, convert_elements, &(type_pair){destination->dtype, source->dtype}, destination, false, 1,
                       &source);
}

/* -- filling -- */

typedef struct pattern {
    int64_t element; /* bytes */
    char bytes[8];
} pattern;

static void fill_pattern(int64_t n, void *const *operands, const void *parameters)
{
    const pattern *p = parameters;
    th_copy_strided(n, p->element, operands[0], p->element, p->bytes, 0);
}

static void fill_zero(int64_t n, void *const *operands, const void *parameters)
{
    const pattern *p = parameters;
    memset(operands[0], 0, (size_t)(n * p->element));
}

void th_fill_array(const th_context *ctx, const th_array *destination, double value)
{
    pattern p = {(int64_t)th_dtype_size(destination->dtype), {0}};
    if (!th_is_storage_type(destination->dtype))
        th_number_write(destination->dtype, p.bytes, value);
    const bool zero = memcmp(p.bytes, (char[sizeof p.bytes]){0}, sizeof p.bytes) == 0;
    th_elementwise(ctx, zero ? fill_zero : fill_pattern, &p, destination, false, 0, NULL);
}
