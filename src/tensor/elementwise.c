/* Runs elementwise kernels on arrays in any layout. A kernel sees contiguous memory only: contiguous operands
 * directly, other operands as copies in small buffers. The result for an element depends neither on its position nor
 * on the number of threads. */
#include "tensor/elementwise.h"

#include <string.h>

#include "kernels/sizes.h"
#include "tensor/context.h"
#include "tensor/strided_iterator.h"
#include "tensor/tensor.h"

enum {
    BUFFER_ELEMENTS = 512, /* elements of a buffer on the stack */
    TILE_ROWS = 16,        /* of a tile that is copied to a buffer when an operand is transposed */
    TILE_COLUMNS = BUFFER_ELEMENTS / TILE_ROWS,
    DIRECT_ELEMENTS = 4096, /* elements of one kernel call without buffers */
    SHORT_ROW = 48,         /* copying several shorter rows to a buffer is faster than one kernel call for each row */
    MAX_ELEMENT_SIZE = 8    /* bytes of the largest element */
};

/* An elementwise operation on arrays in any layout. */
typedef struct operation {
    th_elementwise_kernel *kernel, *accumulate; /* accumulate: the kernel y = y + x; NULL to overwrite */
    const void *parameters;
    th_iterator iterator;
} operation;

/* -- all arrays contiguous, the common case: needs no iterator -- */

typedef struct flat_operation {
    th_elementwise_kernel *kernel;
    const void *parameters;
    int arrays;
    char *data[TH_ITERATOR_ARRAYS];
    int64_t element[TH_ITERATOR_ARRAYS];
} flat_operation;

static void run_flat(const void *shared, int64_t begin, int64_t end)
{
    const flat_operation *op = shared;
    void *operands[TH_ITERATOR_ARRAYS];
    for (int i = 0; i < op->arrays; i++)
        operands[i] = op->data[i] + begin * op->element[i];
    op->kernel(end - begin, operands, op->parameters);
}

static bool all_contiguous(const th_array *destination, int n_operands, const th_array *const *operand)
{
    if (destination->data == NULL || !th_array_contiguous(destination))
        return false;
    for (int i = 0; i < n_operands; i++)
        if (operand[i]->data == NULL || !th_same_sizes(destination, operand[i]) || !th_array_contiguous(operand[i]))
            return false;
    return true;
}

/* -- any layout -- */

/* Buffers of one piece of work: data[0] for results, data[i] for operand i. */
typedef struct buffers {
    _Alignas(64) char data[TH_ITERATOR_ARRAYS][BUFFER_ELEMENTS * MAX_ELEMENT_SIZE];
    _Alignas(64) char sum[BUFFER_ELEMENTS * MAX_ELEMENT_SIZE];
    const char *filled[TH_ITERATOR_ARRAYS]; /* the broadcast element that fills a buffer */
    int64_t count[TH_ITERATOR_ARRAYS];      /* how many times */
} buffers;

/* Computes up to `left` elements within one row. Contiguous operands are read directly, others through buffers.
 * Returns the number of elements. */
static int64_t run_row(const operation *op, int64_t remaining, const th_iterator_position *position, buffers *buffer)
{
    const th_iterator *iterator = &op->iterator;
    const int last = iterator->ndim - 1;
    bool contiguous = true;
    for (int i = 0; i < iterator->arrays; i++)
        contiguous &= iterator->array[i].stride[last] == iterator->array[i].element;
    const int64_t max = contiguous && !op->accumulate ? DIRECT_ELEMENTS : BUFFER_ELEMENTS;
    const int64_t n = th_smaller(th_smaller(th_iterator_run_length(iterator, position), remaining), max);

    void *operands[TH_ITERATOR_ARRAYS];
    for (int i = 1; i < iterator->arrays; i++) {
        const int64_t element = iterator->array[i].element, stride = iterator->array[i].stride[last];
        operands[i] = stride == element ? position->address[i] : buffer->data[i];
        if (stride == element || (stride == 0 && buffer->filled[i] == position->address[i] && buffer->count[i] >= n))
            continue;
        th_copy_strided(n, element, buffer->data[i], element, position->address[i], stride);
        buffer->filled[i] = position->address[i];
        buffer->count[i] = n;
    }

    const int64_t element = iterator->array[0].element, stride = iterator->array[0].stride[last];
    char *const destination = position->address[0];
    char *const result = stride == element && !op->accumulate ? destination : buffer->data[0];
    operands[0] = result;
    op->kernel(n, operands, op->parameters);
    if (op->accumulate && stride == element) {
        op->accumulate(n, (void *[]){destination, destination, result}, NULL);
    } else if (op->accumulate) {
        th_copy_strided(n, element, buffer->sum, element, destination, stride);
        op->accumulate(n, (void *[]){buffer->sum, buffer->sum, result}, NULL);
        th_copy_strided(n, element, destination, stride, buffer->sum, element);
    } else if (result != destination) {
        th_copy_strided(n, element, destination, stride, result, element);
    }
    return n;
}

/* Copies n elements of array i, which may span rows, from `position` to packed (gather) or back. */
static void move_rows(const th_iterator *iterator, int i, bool gather, int64_t n, th_iterator_position position,
                      char *packed)
{
    const int64_t element = iterator->array[i].element, stride = iterator->array[i].stride[iterator->ndim - 1];
    for (int64_t done = 0, length; done < n; done += length, packed += length * element) {
        length = th_smaller(th_iterator_run_length(iterator, &position), n - done);
        if (gather)
            th_copy_strided(length, element, packed, element, position.address[i], stride);
        else
            th_copy_strided(length, element, position.address[i], stride, packed, element);
        th_iterator_advance(iterator, length, &position);
    }
}

/* Computes up to `left` elements, at most a buffer full, which may span rows. Returns the number of elements. */
static int64_t run_rows(const operation *op, int64_t remaining, const th_iterator_position *position, buffers *buffer)
{
    const int64_t n = th_smaller(remaining, BUFFER_ELEMENTS);
    void *operands[TH_ITERATOR_ARRAYS] = {buffer->data[0]};
    for (int i = 1; i < op->iterator.arrays; i++) {
        operands[i] = buffer->data[i];
        move_rows(&op->iterator, i, true, n, *position, buffer->data[i]);
    }
    op->kernel(n, operands, op->parameters);
    char *result = buffer->data[0];
    if (op->accumulate) {
        move_rows(&op->iterator, 0, true, n, *position, buffer->sum);
        op->accumulate(n, (void *[]){buffer->sum, buffer->sum, result}, NULL);
        result = buffer->sum;
    }
    move_rows(&op->iterator, 0, false, n, *position, result);
    return n;
}

static void run_pieces(const void *shared, int64_t begin, int64_t end)
{
    const operation *op = shared;
    buffers buffer;
    memset(buffer.filled, 0, sizeof buffer.filled);
    const bool by_row = op->iterator.ndim == 1 || op->iterator.size[op->iterator.ndim - 1] >= SHORT_ROW;
    th_iterator_position position;
    th_iterator_seek(&op->iterator, begin, &position);
    while (begin < end) {
        if (by_row) {
            const int64_t n = run_row(op, end - begin, &position, &buffer);
            th_iterator_advance(&op->iterator, n, &position);
            begin += n;
        } else {
            begin += run_rows(op, end - begin, &position, &buffer);
            th_iterator_seek(&op->iterator, begin, &position);
        }
    }
}

/* -- transposed operands: tile by tile, so that every cache line is read once -- */

/* Detects a transposed operand: contiguous along another dimension than the last. Returns that dimension, or -1. */
static int transposed_dimension(const th_iterator *iterator)
{
    const int last = iterator->ndim - 1;
    for (int i = 1; i < iterator->arrays; i++) {
        const int64_t element = iterator->array[i].element;
        if (iterator->array[i].stride[last] == element || iterator->array[i].stride[last] == 0 ||
            iterator->size[last] < 4)
            continue;
        for (int d = 0; d < last; d++)
            if (iterator->array[i].stride[d] == element && iterator->size[d] >= 4)
                return d;
    }
    return -1;
}

typedef struct tiles {
    const operation *op;
    int dimension;           /* the rows of the tiles; their columns are the last dimension */
    int64_t bands, per_band; /* bands of tiles in a plane of these two dimensions; tiles in a band */
} tiles;

/* Copies one tile of array i to packed (rows, columns) (gather) or back. */
static void move_tile(const tiles *t, int i, bool gather, int64_t rows, int64_t columns, char *address, char *packed)
{
    const th_iterator *iterator = &t->op->iterator;
    const int64_t element = iterator->array[i].element;
    const bool by_column = iterator->array[i].stride[t->dimension] == element;
    const int64_t runs = by_column ? columns : rows, n = by_column ? rows : columns;
    const int64_t stride = iterator->array[i].stride[by_column ? t->dimension : iterator->ndim - 1];
    const int64_t run_step = iterator->array[i].stride[by_column ? iterator->ndim - 1 : t->dimension];
    const int64_t packed_stride = by_column ? columns * element : element;
    const int64_t packed_step = by_column ? element : columns * element;
    for (int64_t run = 0; run < runs; run++, address += run_step, packed += packed_step) {
        if (gather)
            th_copy_strided(n, element, packed, packed_stride, address, stride);
        else
            th_copy_strided(n, element, address, stride, packed, packed_stride);
    }
}

static void run_tile(const tiles *t, int64_t tile, buffers *buffer)
{
    const operation *op = t->op;
    const th_iterator *iterator = &op->iterator;
    const int last = iterator->ndim - 1;
    char *start[TH_ITERATOR_ARRAYS];
    const int64_t row = tile / t->per_band % t->bands * TILE_ROWS, column = tile % t->per_band * TILE_COLUMNS;
    th_iterator_find_plane(iterator, t->dimension, tile / t->per_band / t->bands, start);
    for (int i = 0; i < iterator->arrays; i++)
        start[i] += row * iterator->array[i].stride[t->dimension] + column * iterator->array[i].stride[last];
    const int64_t rows = th_smaller(iterator->size[t->dimension] - row, TILE_ROWS);
    const int64_t columns = th_smaller(iterator->size[last] - column, TILE_COLUMNS);

    void *operands[TH_ITERATOR_ARRAYS] = {buffer->data[0]};
    for (int i = 1; i < iterator->arrays; i++) {
        operands[i] = buffer->data[i];
        move_tile(t, i, true, rows, columns, start[i], buffer->data[i]);
    }
    op->kernel(rows * columns, operands, op->parameters);
    char *result = buffer->data[0];
    if (op->accumulate) {
        move_tile(t, 0, true, rows, columns, start[0], buffer->sum);
        op->accumulate(rows * columns, (void *[]){buffer->sum, buffer->sum, result}, NULL);
        result = buffer->sum;
    }
    move_tile(t, 0, false, rows, columns, start[0], result);
}

static void run_tiles(void *shared, int64_t first, int64_t end, int worker)
{
    (void)worker;
    buffers buffer;
    for (int64_t tile = first; tile < end; tile++)
        run_tile(shared, tile, &buffer);
}

void th_elementwise(const th_context *ctx, th_elementwise_kernel *kernel, const void *parameters,
                    const th_array *destination, bool add, int n_operands, const th_array *const *operand)
{
    if (!add && all_contiguous(destination, n_operands, operand)) {
        flat_operation flat = {
            kernel, parameters, n_operands + 1, {destination->data}, {(int64_t)th_dtype_size(destination->dtype)}};
        for (int i = 0; i < n_operands; i++) {
            flat.data[i + 1] = operand[i]->data;
            flat.element[i + 1] = (int64_t)th_dtype_size(operand[i]->dtype);
        }
        const int64_t numel = th_array_numel(destination);
        if (numel > 0)
            th_for_pieces(ctx, numel, run_flat, &flat);
        return;
    }
    operation op = {.kernel = kernel,
                    .accumulate = add ? th_context_kernels(ctx, destination->dtype)->add : NULL,
                    .parameters = parameters};
    if (!th_iterator_build(&op.iterator, destination, n_operands, operand))
        return;
    const int dimension = transposed_dimension(&op.iterator);
    if (dimension < 0) {
        th_for_pieces(ctx, op.iterator.numel, run_pieces, &op);
        return;
    }
    const int64_t rows = op.iterator.size[dimension], columns = op.iterator.size[op.iterator.ndim - 1];
    tiles t = {&op, dimension, th_ceil_div(rows, TILE_ROWS), th_ceil_div(columns, TILE_COLUMNS)};
    th_for_rows(ctx, op.iterator.numel / rows / columns * t.bands * t.per_band, BUFFER_ELEMENTS, run_tiles, &t);
}

const th_kernels *th_call_kernels(const th_call *call)
{
    for (int i = 0; i < call->n_inputs; i++)
        if (call->input[i].given && th_is_floating(call->input[i].dtype))
            return th_context_kernels(call->ctx, call->input[i].dtype);
    return th_context_kernels(call->ctx, call->output[0].dtype);
}
