/* Sums over any axes of any layout, in stages. A stage removes or shortens one reduced dimension: rows (the reduced
 * dimension lies innermost in memory) in blocks of ROW_BLOCK elements over 16 virtual lanes, columns in blocks of
 * COLUMN_BLOCK rows added one after another. The partial sums of blocks are the next stage's source. Blocks are cut by
 * size alone, so that the bits do not depend on the number of threads. These are no walks of a th_iterator: which dimension
 * a task goes along, and which of the others it leaves out, changes from stage to stage. */
#include "tensor/context.h"
#include "tensor/elementwise.h"
#include "tensor/strided_iterator.h"
#include "tensor/tensor.h"

enum {
    ROW_BLOCK = 1024,
    COLUMN_BLOCK = 64,
    COLUMNS = 2048,     /* columns that one task sums */
    BUFFER = 512,       /* columns gathered at a time where they do not lie contiguously */
    STACK_BYTES = 8192, /* partial sums up to this size need no block of the allocator */
    WIDEST = 8          /* bytes of a float64 */
};

typedef struct dimension {
    int64_t size;
    int64_t source, destination; /* strides, bytes; destination 0 where reduced */
    bool reduced;
} dimension;

/* What is still to be summed. */
typedef struct partial {
    char *data;
    int ndim;
    dimension dim[TH_MAX_DIMS]; /* outermost in memory first */
} partial;

/* One stage: dimension `axis` of `from` becomes `blocks` sums. */
typedef struct stage {
    const th_kernels *kernels;
    int64_t element;
    const partial *from;
    char *to;
    int axis;
    int64_t block, blocks;          /* elements of a block; blocks of the dimension */
    int64_t chunks;                 /* of columns */
    int64_t to_stride[TH_MAX_DIMS]; /* bytes, per dimension of `from`; of `axis`: from block to block */
} stage;

static int64_t magnitude(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

/* Joins neighbors that are one dimension in both memories. */
static void merge(partial *p)
{
    int merged = 0;
    for (int d = 0; d < p->ndim; d++) {
        dimension *outer = merged > 0 ? &p->dim[merged - 1] : NULL;
        const dimension *inner = &p->dim[d];
        if (outer && outer->reduced == inner->reduced && outer->source == inner->source * inner->size &&
            outer->destination == inner->destination * inner->size) {
            const int64_t size = outer->size * inner->size;
            *outer = *inner;
            outer->size = size;
        } else {
            p->dim[merged++] = *inner;
        }
    }
    p->ndim = merged;
}

static partial describe(const th_array *destination, const th_array *source)
{
    const int64_t element = (int64_t)th_dtype_size(source->dtype);
    partial p = {.data = source->data};
    for (int axis = 0; axis < source->ndim; axis++) {
        if (source->size[axis] == 1)
            continue;
        const int own = axis - source->ndim + destination->ndim;
        const bool kept = own >= 0 && destination->size[own] != 1;
        const dimension new = {source->size[axis], source->stride[axis] * element,
                               kept ? destination->stride[own] * element : 0, !kept};
        int position = p.ndim++;
        for (; position > 0 && magnitude(p.dim[position - 1].source) < magnitude(new.source); position--)
            p.dim[position] = p.dim[position - 1];
        p.dim[position] = new;
    }
    merge(&p);
    return p;
}

/* Addresses of the combination with this number of the dimensions other than axis and `without`. */
static void locate(const stage *s, int without, int64_t number, const char **from, char **to)
{
    *from = s->from->data;
    *to = s->to;
    for (int d = s->from->ndim - 1; d >= 0; d--) {
        if (d == s->axis || d == without)
            continue;
        const int64_t index = number % s->from->dim[d].size;
        number /= s->from->dim[d].size;
        *from += index * s->from->dim[d].source;
        *to += index * s->to_stride[d];
    }
}

/* Rows: part = (row, block). Rows that lie at equal distances go to the kernel together. */
static void sum_rows(void *shared, int64_t first, int64_t end, int worker)
{
    (void)worker;
    const stage *s = shared;
    const dimension *row = &s->from->dim[s->axis];
    const dimension *rows = s->axis > 0 ? &s->from->dim[s->axis - 1] : NULL;
    const bool contiguous = row->source == s->element;
    _Alignas(64) char gathered[ROW_BLOCK * WIDEST];
    for (int64_t part = first, count; part < end; part += count) {
        const char *from;
        char *to;
        locate(s, -1, part / s->blocks, &from, &to);
        const int64_t start = part % s->blocks * s->block;
        const int64_t n = row->size - start < s->block ? row->size - start : s->block;
        from += start * row->source;
        to += part % s->blocks * s->to_stride[s->axis];
        count = 1;
        if (contiguous && s->blocks == 1 && rows) {
            count = rows->size - part % rows->size;
            count = count < end - part ? count : end - part;
        } else if (!contiguous) {
            th_move_run(n, s->element, gathered, s->element, from, row->source);
            from = gathered;
        }
        s->kernels->sum_rows(count, n, from, rows ? rows->source / s->element : 0, to);
    }
}

/* Columns: part = (outer, block, chunk of columns). */
static void sum_columns(void *shared, int64_t first, int64_t end, int worker)
{
    (void)worker;
    const stage *s = shared;
    const int last = s->from->ndim - 1;
    const dimension *reduced = &s->from->dim[s->axis], *column = &s->from->dim[last];
    _Alignas(64) char gathered[BUFFER * WIDEST];
    for (int64_t part = first; part < end; part++) {
        const char *from;
        char *to;
        locate(s, last, part / s->chunks / s->blocks, &from, &to);
        const int64_t block = part / s->chunks % s->blocks, chunk = part % s->chunks;
        const int64_t rows = reduced->size - block * s->block < s->block ? reduced->size - block * s->block : s->block;
        const int64_t columns = column->size - chunk * COLUMNS < COLUMNS ? column->size - chunk * COLUMNS : COLUMNS;
        from += block * s->block * reduced->source + chunk * COLUMNS * column->source;
        to += block * s->to_stride[s->axis] + chunk * COLUMNS * s->to_stride[last];
        if (column->source == s->element) {
            s->kernels->sum_columns(rows, columns, from, reduced->source / s->element, to);
            continue;
        }
        for (int64_t j = 0, n; j < columns; j += n) {
            n = columns - j < BUFFER ? columns - j : BUFFER;
            char *sum = to + j * s->element;
            th_move_run(n, s->element, sum, s->element, from + j * column->source, column->source);
            for (int64_t i = 1; i < rows; i++) {
                th_move_run(n, s->element, gathered, s->element, from + i * reduced->source + j * column->source,
                            column->source);
                s->kernels->add(n, (void *[]){sum, sum, gathered}, NULL);
            }
        }
    }
}

/* The innermost reduced dimension, or -1. */
static int reduced_axis(const partial *p)
{
    int axis = p->ndim - 1;
    while (axis >= 0 && !p->dim[axis].reduced)
        axis--;
    return axis;
}

/* Plans the stage that shortens `axis` of `from`; `after` is what it leaves, without its data. Returns the elements it
 * writes. */
static int64_t plan(stage *s, const partial *from, int axis, partial *after)
{
    const bool rows = axis == from->ndim - 1;
    s->from = from;
    s->axis = axis;
    s->block = rows ? ROW_BLOCK : COLUMN_BLOCK;
    s->blocks = (from->dim[axis].size + s->block - 1) / s->block;
    s->chunks = rows ? 1 : (from->dim[from->ndim - 1].size + COLUMNS - 1) / COLUMNS;
    int64_t numel = 1;
    for (int d = from->ndim - 1; d >= 0; d--) {
        s->to_stride[d] = numel * s->element;
        numel *= d == axis ? s->blocks : from->dim[d].size;
    }
    *after = (partial){0};
    for (int d = 0; d < from->ndim; d++) {
        if (d == axis && s->blocks == 1)
            continue;
        dimension *dim = &after->dim[after->ndim++];
        *dim = from->dim[d];
        dim->size = d == axis ? s->blocks : dim->size;
        dim->source = s->to_stride[d];
    }
    return numel;
}

static void run(const th_context *ctx, stage *s)
{
    int64_t parts = s->blocks * s->chunks;
    const int last = s->from->ndim - 1;
    for (int d = 0; d < s->from->ndim; d++)
        parts *= d == s->axis || (d == last && s->axis != last) ? 1 : s->from->dim[d].size;
    const int64_t length = s->from->dim[s->axis].size < s->block ? s->from->dim[s->axis].size : s->block;
    const int64_t columns = s->axis == last ? 1 : s->from->dim[last].size < COLUMNS ? s->from->dim[last].size : COLUMNS;
    th_for_rows(ctx, parts, length * columns, s->axis == last ? sum_rows : sum_columns, s);
}

/* The finished sum, seen as an array with the strides of one of the two memories. */
static th_array as_array(const partial *p, void *data, th_dtype dtype, bool destination)
{
    const int64_t element = (int64_t)th_dtype_size(dtype);
    th_array array = {.given = true, .data = data, .dtype = dtype, .ndim = p->ndim};
    for (int d = 0; d < p->ndim; d++) {
        array.size[d] = p->dim[d].size;
        array.stride[d] = (destination ? p->dim[d].destination : p->dim[d].source) / element;
    }
    return array;
}

static bool lies_like_destination(const partial *p)
{
    for (int d = 0; d < p->ndim; d++)
        if (p->dim[d].reduced || p->dim[d].source != p->dim[d].destination)
            return false;
    return true;
}

/* Two stages that follow each other write to different memories, in turn: so many bytes each. What is small lies on the
 * stack, the last stage may write to the destination itself: 0 for them. */
static void partial_bytes(const th_array *destination, const th_array *source, bool add, size_t bytes[2])
{
    stage s = {.element = (int64_t)th_dtype_size(source->dtype)};
    bytes[0] = bytes[1] = 0;
    if (th_array_numel(source) <= STACK_BYTES / s.element) /* no stage writes more than it reads */
        return;
    partial now = describe(destination, source);
    for (int turn = 0, axis; (axis = reduced_axis(&now)) >= 0; turn ^= 1) {
        partial after;
        const size_t needed = (size_t)(plan(&s, &now, axis, &after) * s.element + 63) / 64 * 64;
        const bool finished = !add && lies_like_destination(&after);
        if (!finished && needed > STACK_BYTES && needed > bytes[turn])
            bytes[turn] = needed;
        now = after;
        merge(&now);
    }
}

size_t th_sum_scratch(const th_array *destination, const th_array *source, bool add)
{
    if (th_array_numel(destination) == 0 || th_array_numel(source) == 0)
        return 0;
    size_t bytes[2];
    partial_bytes(destination, source, add, bytes);
    return bytes[0] + bytes[1];
}

void th_sum_within(const th_context *ctx, const th_array *destination, const th_array *source, bool add, void *scratch)
{
    if (th_array_numel(destination) == 0)
        return;
    if (th_array_numel(source) == 0) {
        if (!add)
            th_fill_array(ctx, destination, 0);
        return;
    }
    stage s = {.kernels = th_context_kernels(ctx, source->dtype), .element = (int64_t)th_dtype_size(source->dtype)};
    _Alignas(64) char stack[2][STACK_BYTES];
    size_t bytes[2];
    partial_bytes(destination, source, add, bytes);
    char *const memory[2] = {bytes[0] ? scratch : stack[0],
                             bytes[1] ? (scratch ? (char *)scratch + bytes[0] : NULL) : stack[1]};
    partial now = describe(destination, source);
    bool finished = false;
    for (int turn = 0, axis; (axis = reduced_axis(&now)) >= 0; turn ^= 1) {
        partial after;
        plan(&s, &now, axis, &after);
        finished = !add && lies_like_destination(&after);
        s.to = finished ? destination->data : memory[turn];
        run(ctx, &s);
        now = after;
        now.data = s.to;
        merge(&now);
    }
    if (!finished) {
        const th_array result = as_array(&now, now.data, source->dtype, false);
        const th_array target = as_array(&now, destination->data, source->dtype, true);
        th_copy_array(ctx, &target, &result, add);
    }
}

void th_sum_to_array(th_context *ctx, const th_array *destination, const th_array *source, bool add)
{
    const size_t bytes = th_sum_scratch(destination, source, add);
    th_block *block = bytes ? th_take_block(ctx, &ctx->step_memory, bytes, "sum") : NULL;
    if (bytes && block == NULL)
        return;
    th_sum_within(ctx, destination, source, add, block ? th_block_data(block) : NULL);
    if (block)
        th_block_free(&ctx->step_memory, block);
}

/* -- onto elements that lie on one another -- */

void th_add_at_offsets(const th_array *target, const th_array *source)
{
    th_iterator iterator;
    th_iterator_position place;
    if (!th_iterator_build_row_major(&iterator, target, 1, &source))
        return;
    const int64_t element = iterator.array[0].element;
    const int64_t to_step = iterator.array[0].stride[iterator.ndim - 1] / element;
    const int64_t from_step = iterator.array[1].stride[iterator.ndim - 1] / element;
    th_iterator_seek(&iterator, 0, &place);
    for (int64_t done = 0, run; done < iterator.numel; done += run, th_iterator_advance(&iterator, run, &place)) {
        run = th_iterator_run(&iterator, &place);
        void *const to = place.at[0], *const from = place.at[1];
        if (target->dtype == TH_FLOAT64)
            for (int64_t i = 0; i < run; i++)
                ((double *)to)[i * to_step] += ((const double *)from)[i * from_step];
        else
            for (int64_t i = 0; i < run; i++)
                ((float *)to)[i * to_step] += ((const float *)from)[i * from_step];
    }
}
