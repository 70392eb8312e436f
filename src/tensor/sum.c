/* Sums over any axes of arrays in any layout.
 *
 * The sum runs in stages. A stage sums one reduced dimension, or shortens it.
 *
 *   rows     the reduced dimension is innermost in memory: blocks of ROW_BLOCK elements, each summed in 16 lanes
 *   columns  it is not: blocks of COLUMN_BLOCK rows, added one after another
 *
 * The sums of the blocks are the source of the next stage. Blocks are cut by size alone, so that the bits do not
 * depend on the number of threads.
 *
 * A stage does not use th_iterator, because each stage handles another dimension in a special way. */
#include "kernels/sizes.h"
#include "tensor/context.h"
#include "tensor/elementwise.h"
#include "tensor/shape.h"
#include "tensor/strided_iterator.h"

enum {
    ROW_BLOCK = 1024,
    COLUMN_BLOCK = 64,
    TASK_COLUMNS = 2048,  /* columns that one task sums */
    BUFFER_COLUMNS = 512, /* columns copied at a time where they are not contiguous */
    STACK_BYTES = 8192,   /* partial sums up to this size are on the stack */
    MAX_ELEMENT_SIZE = 8  /* bytes of a float64 */
};

/* A partial sum: the source at first, then the result of each stage. Dimensions are sorted by stride, and
 * merged. */
typedef struct partial {
    char *data;
    int ndim;
    int64_t size[TH_MAX_DIMS];
    int64_t stride[TH_MAX_DIMS];             /* bytes */
    int64_t destination_stride[TH_MAX_DIMS]; /* bytes; 0: not summed yet */
} partial;

/* One stage: dimension `axis` of `from` becomes `blocks` sums. */
typedef struct stage {
    const th_kernels *kernels;
    int64_t element; /* bytes */
    const partial *from;
    char *to;
    int axis;
    int64_t block, blocks;          /* elements of a block; number of blocks */
    int64_t chunks;                 /* number of chunks of columns */
    int64_t to_stride[TH_MAX_DIMS]; /* bytes, for each dimension of `from`; of `axis`: between blocks */
} stage;

static bool is_reduced(const partial *p, int d)
{
    return p->destination_stride[d] == 0;
}

static void merge_dimensions(partial *p)
{
    p->ndim = th_merge_dimensions(p->ndim, p->size, 2, (int64_t *[]){p->stride, p->destination_stride});
}

/* Returns the source as the first partial sum. */
static partial partial_of_source(const th_array *destination, const th_array *source)
{
    const int64_t element = (int64_t)th_dtype_size(source->dtype);
    partial p = {.data = source->data, .ndim = source->ndim};
    for (int axis = 0; axis < source->ndim; axis++) {
        const int own_axis = axis - source->ndim + destination->ndim;
        p.size[axis] = source->size[axis];
        p.stride[axis] = source->stride[axis] * element;
        p.destination_stride[axis] =
            own_axis >= 0 && destination->size[own_axis] != 1 ? destination->stride[own_axis] * element : 0;
    }
    th_sort_dimensions(p.ndim, p.size, 2, (int64_t *[]){p.stride, p.destination_stride});
    merge_dimensions(&p);
    return p;
}

/* Computes the addresses of combination `number` of all dimensions except axis and `skipped`. */
static void find_addresses(const stage *s, int skipped, int64_t number, const char **from, char **to)
{
    *from = s->from->data;
    *to = s->to;
    for (int d = s->from->ndim - 1; d >= 0; d--) {
        if (d == s->axis || d == skipped)
            continue;
        const int64_t index = number % s->from->size[d];
        number /= s->from->size[d];
        *from += index * s->from->stride[d];
        *to += index * s->to_stride[d];
    }
}

/* Sums rows. A task is one block of one row. One kernel call handles several rows if their distances are equal. */
static void sum_rows(void *shared, int64_t first, int64_t end, int worker)
{
    (void)worker;
    const stage *s = shared;
    const int64_t length = s->from->size[s->axis], stride = s->from->stride[s->axis];
    const bool several = s->axis > 0;
    const int64_t rows = several ? s->from->size[s->axis - 1] : 1;
    const int64_t row_stride = several ? s->from->stride[s->axis - 1] : 0;
    const bool contiguous = stride == s->element;
    _Alignas(64) char gathered[ROW_BLOCK * MAX_ELEMENT_SIZE];
    for (int64_t task = first, count; task < end; task += count) {
        const char *from;
        char *to;
        find_addresses(s, -1, task / s->blocks, &from, &to);
        const int64_t start = task % s->blocks * s->block;
        const int64_t n = th_smaller(length - start, s->block);
        from += start * stride;
        to += task % s->blocks * s->to_stride[s->axis];
        count = 1;
        if (contiguous && s->blocks == 1 && several) {
            count = th_smaller(rows - task % rows, end - task);
        } else if (!contiguous) {
            th_copy_strided(n, s->element, gathered, s->element, from, stride);
            from = gathered;
        }
        s->kernels->sum_rows(count, n, from, row_stride / s->element, to);
    }
}

/* Sums columns. A task is one block of rows and one chunk of columns, at one index of the other dimensions. */
static void sum_columns(void *shared, int64_t first, int64_t end, int worker)
{
    (void)worker;
    const stage *s = shared;
    const int last = s->from->ndim - 1;
    const int64_t row_stride = s->from->stride[s->axis], stride = s->from->stride[last];
    _Alignas(64) char gathered[BUFFER_COLUMNS * MAX_ELEMENT_SIZE];
    for (int64_t task = first; task < end; task++) {
        const char *from;
        char *to;
        find_addresses(s, last, task / s->chunks / s->blocks, &from, &to);
        const int64_t block = task / s->chunks % s->blocks, chunk = task % s->chunks;
        const int64_t rows = th_smaller(s->from->size[s->axis] - block * s->block, s->block);
        const int64_t columns = th_smaller(s->from->size[last] - chunk * TASK_COLUMNS, TASK_COLUMNS);
        from += block * s->block * row_stride + chunk * TASK_COLUMNS * stride;
        to += block * s->to_stride[s->axis] + chunk * TASK_COLUMNS * s->to_stride[last];
        if (stride == s->element) {
            s->kernels->sum_columns(rows, columns, from, row_stride / s->element, to);
            continue;
        }
        for (int64_t j = 0, n; j < columns; j += n) {
            n = th_smaller(columns - j, BUFFER_COLUMNS);
            char *sum = to + j * s->element;
            th_copy_strided(n, s->element, sum, s->element, from + j * stride, stride);
            for (int64_t i = 1; i < rows; i++) {
                th_copy_strided(n, s->element, gathered, s->element, from + i * row_stride + j * stride, stride);
                s->kernels->add(n, (void *[]){sum, sum, gathered}, NULL);
            }
        }
    }
}

/* Returns the innermost dimension that has not been summed yet, or -1. */
static int next_reduced_axis(const partial *p)
{
    int axis = p->ndim - 1;
    while (axis >= 0 && !is_reduced(p, axis))
        axis--;
    return axis;
}

/* Plans the stage that sums dimension `axis` of `from`. *after becomes its result, without data. Returns the number
 * of elements that the stage writes. */
static int64_t plan_stage(stage *s, const partial *from, int axis, partial *after)
{
    const bool rows = axis == from->ndim - 1;
    s->from = from;
    s->axis = axis;
    s->block = rows ? ROW_BLOCK : COLUMN_BLOCK;
    s->blocks = th_ceil_div(from->size[axis], s->block);
    s->chunks = rows ? 1 : th_ceil_div(from->size[from->ndim - 1], TASK_COLUMNS);
    int64_t numel = 1;
    for (int d = from->ndim - 1; d >= 0; d--) {
        s->to_stride[d] = numel * s->element;
        numel *= d == axis ? s->blocks : from->size[d];
    }
    *after = (partial){0};
    for (int d = 0; d < from->ndim; d++) {
        if (d == axis && s->blocks == 1)
            continue;
        const int to = after->ndim++;
        after->size[to] = d == axis ? s->blocks : from->size[d];
        after->stride[to] = s->to_stride[d];
        after->destination_stride[to] = from->destination_stride[d];
    }
    return numel;
}

static void run_stage(const th_context *ctx, stage *s)
{
    int64_t tasks = s->blocks * s->chunks;
    const int last = s->from->ndim - 1;
    for (int d = 0; d < s->from->ndim; d++)
        tasks *= d == s->axis || (d == last && s->axis != last) ? 1 : s->from->size[d];
    const int64_t length = th_smaller(s->from->size[s->axis], s->block);
    const int64_t columns = s->axis == last ? 1 : th_smaller(s->from->size[last], TASK_COLUMNS);
    th_for_rows(ctx, tasks, length * columns, s->axis == last ? sum_rows : sum_columns, s);
}

/* Returns the finished sum as an array: with the strides of its memory or of the destination. */
static th_array array_of_partial(const partial *p, void *data, th_dtype dtype, bool destination)
{
    const int64_t element = (int64_t)th_dtype_size(dtype);
    th_array array = {.given = true, .data = data, .dtype = dtype, .ndim = p->ndim};
    for (int d = 0; d < p->ndim; d++) {
        array.size[d] = p->size[d];
        array.stride[d] = (destination ? p->destination_stride[d] : p->stride[d]) / element;
    }
    return array;
}

/* Returns true if the sum is finished and has the strides of the destination. */
static bool matches_destination(const partial *p)
{
    for (int d = 0; d < p->ndim; d++)
        if (is_reduced(p, d) || p->stride[d] != p->destination_stride[d])
            return false;
    return true;
}

/* Computes the scratch memory of a sum. Stages alternate between two buffers, of bytes[0] and bytes[1]. A buffer on the
 * stack needs 0 bytes, and so does a last stage that writes to the destination itself. */
static void find_scratch_bytes(const th_array *destination, const th_array *source, bool add, size_t bytes[2])
{
    stage s = {.element = (int64_t)th_dtype_size(source->dtype)};
    bytes[0] = bytes[1] = 0;
    if (th_array_numel(source) <= STACK_BYTES / s.element) /* a stage writes at most as much as it reads */
        return;
    partial current = partial_of_source(destination, source);
    for (int buffer = 0, axis; (axis = next_reduced_axis(&current)) >= 0; buffer ^= 1) {
        partial after;
        const size_t needed = (size_t)(plan_stage(&s, &current, axis, &after) * s.element + 63) / 64 * 64;
        const bool finished = !add && matches_destination(&after);
        if (!finished && needed > STACK_BYTES && needed > bytes[buffer])
            bytes[buffer] = needed;
        current = after;
        merge_dimensions(&current);
    }
}

size_t th_sum_scratch_bytes(const th_array *destination, const th_array *source, bool add)
{
    if (th_array_numel(destination) == 0 || th_array_numel(source) == 0)
        return 0;
    size_t bytes[2];
    find_scratch_bytes(destination, source, add, bytes);
    return bytes[0] + bytes[1];
}

void th_sum_with_scratch(const th_context *ctx, const th_array *destination, const th_array *source, bool add,
                         void *scratch)
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
    find_scratch_bytes(destination, source, add, bytes);
    char *const memory[2] = {bytes[0] ? scratch : stack[0],
                             bytes[1] ? (scratch ? (char *)scratch + bytes[0] : NULL) : stack[1]};
    partial current = partial_of_source(destination, source);
    bool finished = false;
    for (int buffer = 0, axis; (axis = next_reduced_axis(&current)) >= 0; buffer ^= 1) {
        partial after;
        plan_stage(&s, &current, axis, &after);
        finished = !add && matches_destination(&after);
        s.to = finished ? destination->data : memory[buffer];
        run_stage(ctx, &s);
        current = after;
        current.data = s.to;
        merge_dimensions(&current);
    }
    if (!finished) {
        const th_array result = array_of_partial(&current, current.data, source->dtype, false);
        const th_array target = array_of_partial(&current, destination->data, source->dtype, true);
        th_copy_array(ctx, &target, &result, add);
    }
}

void th_sum_to_array(th_context *ctx, const th_array *destination, const th_array *source, bool add)
{
    const size_t bytes = th_sum_scratch_bytes(destination, source, add);
    th_block *block = bytes ? th_block_new(ctx, &ctx->step_memory, bytes, "sum") : NULL;
    if (bytes && block == NULL)
        return;
    th_sum_with_scratch(ctx, destination, source, add, block ? th_block_data(block) : NULL);
    if (block)
        th_block_free(&ctx->step_memory, block);
}

/* -- destinations whose elements overlap -- */

void th_add_at_offsets(const th_array *target, const th_array *source)
{
    th_iterator iterator;
    th_iterator_position position;
    if (!th_iterator_build_row_major(&iterator, target, 1, &source))
        return;
    const int64_t element = iterator.array[0].element;
    const int64_t to_step = iterator.array[0].stride[iterator.ndim - 1] / element;
    const int64_t from_step = iterator.array[1].stride[iterator.ndim - 1] / element;
    th_iterator_seek(&iterator, 0, &position);
    for (int64_t done = 0, run_stage; done < iterator.numel;
         done += run_stage, th_iterator_advance(&iterator, run_stage, &position)) {
        run_stage = th_iterator_run_length(&iterator, &position);
        void *const to = position.address[0], *const from = position.address[1];
        if (target->dtype == TH_FLOAT64)
            for (int64_t i = 0; i < run_stage; i++)
                ((double *)to)[i * to_step] += ((const double *)from)[i * from_step];
        else
            for (int64_t i = 0; i < run_stage; i++)
                ((float *)to)[i * to_step] += ((const float *)from)[i * from_step];
    }
}
