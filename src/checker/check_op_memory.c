/* The memory of a guarded kernel (check_op_parts.h). */
#include "checker/check_op_parts.h"

#include <stdarg.h>
#include <string.h>

#include "kernels/sizes.h"
#include "tensor/format.h"
#include "tensor/splitmix.h"

/* -- findings -- */

void th_guard_note_mistake(th_guard *guard, const char *format, ...)
{
    if (guard->finding[0])
        return;
    va_list arguments;
    va_start(arguments, format);
    th_append_arguments(guard->finding, sizeof guard->finding, format, arguments);
    va_end(arguments);
}

const char *th_kernel_name(bool backward)
{
    return backward ? "backward" : "forward";
}

const char *th_guard_array_name(const th_call *call, const th_array *array, char *text, size_t size)
{
    const int input = (int)(array - call->input), gradient = (int)(array - call->input_gradient);
    text[0] = 0;
    if (array >= call->output && array < call->output + call->n_outputs)
        th_append(text, size, "output %d", (int)(array - call->output));
    else if (array >= call->output_gradient && array < call->output_gradient + call->n_outputs)
        th_append(text, size, "the gradient of output %d", (int)(array - call->output_gradient));
    else if (array >= call->input && array < call->input + call->n_inputs)
        th_append(text, size, call->n_inputs == 1 ? "x" : "x%d", input);
    else
        th_append(text, size, call->n_inputs == 1 ? "the gradient of x" : "the gradient of x%d", gradient);
    return text;
}

/* -- elements of strided arrays as bytes -- */

void th_compute_extent(const th_array *array, int64_t *before, int64_t *behind)
{
    *before = *behind = 0;
    for (int d = 0; d < array->ndim; d++) {
        const int64_t last = (array->size[d] - 1) * array->stride[d];
        *(last < 0 ? before : behind) += last < 0 ? -last : last;
    }
}

static size_t span_bytes(const th_array *array)
{
    int64_t before, behind;
    if (th_array_numel(array) == 0)
        return 0;
    th_compute_extent(array, &before, &behind);
    return (size_t)(before + behind + 1) * th_dtype_size(array->dtype);
}

void th_copy_elements_out(const th_array *array, unsigned char *from, unsigned char *to, int fill)
{
    const size_t size = th_dtype_size(array->dtype);
    const int64_t numel = th_array_numel(array), run_length = th_array_contiguous(array) ? numel : 1;
    int64_t index[TH_MAX_DIMS];
    for (int64_t e = 0; e < numel; e += run_length) {
        th_index_at(array->ndim, array->size, e, index);
        unsigned char *at = from + th_offset_of(array->ndim, index, array->stride) * (int64_t)size;
        memcpy(to + (size_t)e * size, at, (size_t)run_length * size);
        if (fill != TH_AS_IT_IS)
            memset(at, fill, (size_t)run_length * size);
    }
}

void th_copy_elements_in(const th_array *array, unsigned char *to, const unsigned char *from)
{
    const size_t size = th_dtype_size(array->dtype);
    const int64_t numel = th_array_numel(array), run_length = th_array_contiguous(array) ? numel : 1;
    int64_t index[TH_MAX_DIMS];
    for (int64_t e = 0; e < numel; e += run_length) {
        th_index_at(array->ndim, array->size, e, index);
        memcpy(to + th_offset_of(array->ndim, index, array->stride) * (int64_t)size, from + (size_t)e * size,
               (size_t)run_length * size);
    }
}

/* -- arrays that a kernel may only read -- */

static uint64_t array_checksum(const th_array *array)
{
    int64_t before, behind;
    const size_t bytes = span_bytes(array);
    if (bytes == 0)
        return 0;
    th_compute_extent(array, &before, &behind);
    const unsigned char *at = (const unsigned char *)array->data - before * (int64_t)th_dtype_size(array->dtype);
    uint64_t sum = 0;
    for (size_t i = 0; i < bytes; i += sizeof sum) {
        uint64_t word = 0;
        memcpy(&word, at + i, bytes - i < sizeof word ? bytes - i : sizeof word);
        sum = th_mix64(sum + word + th_golden);
    }
    return sum;
}

static void add_read_only(const th_guard *guard, th_read_only *r, const th_array *array)
{
    if (!array->given || array->data == NULL)
        return;
    for (int i = 0; i < guard->count; i++)
        if (guard->guarded[i].alias == array)
            return;
    r->array[r->count] = array;
    r->before[r->count] = *array;
    r->sum[r->count++] = array_checksum(array);
}

void th_read_only_begin(const th_guard *guard, const th_call *call, bool backward, th_read_only *r)
{
    r->count = 0;
    for (int i = 0; i < call->n_inputs; i++)
        add_read_only(guard, r, &call->input[i]);
    for (int i = 0; i < call->n_outputs && backward; i++) {
        add_read_only(guard, r, &call->output[i]);
        add_read_only(guard, r, &call->output_gradient[i]);
    }
}

void th_read_only_check(th_guard *guard, const th_call *call, bool backward, const th_read_only *r)
{
    for (int i = 0; i < r->count; i++)
        if (array_checksum(&r->before[i]) != r->sum[i])
            th_guard_note_mistake(guard, "%s changed %s, which it may only read", th_kernel_name(backward),
                                  TH_ARRAY_NAME(r->array[i]));
}

/* -- memory for arrays that it writes -- */

static void add_guarded(th_guard *guard, th_array *array, bool holds)
{
    if (array->given && guard->count < TH_MAX_GUARDED)
        guard->guarded[guard->count++] = (th_guarded){.array = array, .original = *array, .may_be_read = holds};
}

static void list_written_arrays(th_guard *guard, const th_call *call, bool backward)
{
    guard->count = 0;
    for (int i = 0; i < call->n_outputs && !backward; i++)
        add_guarded(guard, &call->output[i], false);
    for (int i = 0; i < call->n_inputs; i++)
        add_guarded(guard, &call->input_gradient[i], backward && (call->add[i] || call->precomputed));
}

/* Finds the array that the driver lets this gradient overwrite. */
static void find_alias(th_guarded *guarded, const th_call *call)
{
    for (int i = 0; i < call->n_inputs && guarded->bytes; i++)
        if (call->input[i].given && call->input[i].data == guarded->original.data)
            guarded->alias = &call->input[i];
    for (int i = 0; i < call->n_outputs && guarded->bytes; i++)
        if (call->output_gradient[i].given && call->output_gradient[i].data == guarded->original.data)
            guarded->alias = &call->output_gradient[i];
    guarded->may_be_read |= guarded->alias != NULL;
}

th_array *th_guard_operand(const th_call *call, int i)
{
    if (i < call->n_inputs)
        return &call->input[i];
    i -= call->n_inputs;
    return i < call->n_outputs ? &call->output[i] : &call->output_gradient[i - call->n_outputs];
}

int th_guard_operand_count(const th_call *call, bool backward)
{
    return call->n_inputs + (backward ? 2 * call->n_outputs : 0);
}

bool th_is_missing(const th_array *array)
{
    return array->given && array->data == NULL && (th_is_floating(array->dtype) || th_array_numel(array) == 0);
}

void *th_guard_missing_data(const th_guard *guard, const th_array *array, bool other)
{
    static const int64_t number[2][TH_WALL / sizeof(int64_t)] = {{0}, {1}};
    int64_t before = 0, behind = 0;
    if (!th_is_floating(array->dtype))
        return (void *)(uintptr_t)number[other];
    if (th_array_numel(array) > 0)
        th_compute_extent(array, &before, &behind);
    return guard->missing[other] + before * (int64_t)th_dtype_size(array->dtype);
}

/* Returns the size of the largest missing operand. One without elements gets a few bytes, for a kernel that reads
 * it. */
static size_t missing_span(const th_call *call, bool backward)
{
    size_t bytes = TH_WALL;
    for (int i = 0; i < th_guard_operand_count(call, backward); i++) {
        const th_array *array = th_guard_operand(call, i);
        const size_t span = th_is_missing(array) ? th_aligned(span_bytes(array)) : 0;
        bytes = span > bytes ? span : bytes;
    }
    return bytes;
}

/* Enlarges the memory to this many bytes. The old contents are lost. */
static bool reserve_memory(th_guard *guard, th_context *ctx, size_t bytes)
{
    if (bytes <= guard->memory_bytes)
        return true;
    th_guard_free(guard, ctx);
    guard->memory = th_allocate(ctx, bytes);
    if (guard->memory == NULL) {
        th_fail_memory(ctx, guard->original->name, bytes);
        return false;
    }
    guard->memory_bytes = bytes;
    return true;
}

/* Moves everything that the kernel may write between walls. */
void th_guard_surround(th_guard *guard, const th_call *call, bool backward)
{
    size_t total = 0;
    list_written_arrays(guard, call, backward);
    guard->missing_bytes = missing_span(call, backward);
    for (int i = 0; i < guard->count; i++) {
        th_guarded *guarded = &guard->guarded[i];
        const size_t span = span_bytes(&guarded->original);
        guarded->bytes = (size_t)th_array_numel(&guarded->original) * th_dtype_size(guarded->original.dtype);
        guarded->block_bytes = th_aligned(TH_WALL + 2 * span + TH_WALL + TH_ALIGNMENT);
        total += guarded->block_bytes + 2 * th_aligned(guarded->bytes);
        if (backward)
            find_alias(guarded, call);
    }
    if (!reserve_memory(guard, call->ctx, total + 2 * guard->missing_bytes)) {
        guard->count = 0;
        guard->missing_bytes = 0;
        return;
    }
    unsigned char *next = guard->memory;
    for (int i = 0; i < guard->count; i++) {
        th_guarded *guarded = &guard->guarded[i];
        int64_t before = 0, behind = 0;
        if (guarded->bytes)
            th_compute_extent(&guarded->original, &before, &behind);
        const int64_t element = (int64_t)th_dtype_size(guarded->original.dtype);
        const size_t misalignment = (uintptr_t)((char *)guarded->original.data - before * element) % TH_ALIGNMENT;
        guarded->block = next;
        guarded->element =
            next + TH_WALL + misalignment + (size_t)(before * element); /* the offset in a cache line stays the same */
        guarded->result[0] = next + guarded->block_bytes;
        guarded->result[1] = guarded->result[0] + th_aligned(guarded->bytes);
        next = guarded->result[1] + th_aligned(guarded->bytes);
        guarded->array->data = guarded->element;
        if (guarded->alias)
            guarded->alias->data = guarded->element;
    }
    guard->missing[0] = next;
    guard->missing[1] = next + guard->missing_bytes;
    memset(guard->missing[0], TH_FILL, guard->missing_bytes);
    memset(guard->missing[1], TH_MISSING_FILL, guard->missing_bytes);
}

/* Moves every array back to the driver's memory. */
void th_guard_move_back(th_guard *guard)
{
    for (int i = 0; i < guard->count; i++) {
        const th_guarded *guarded = &guard->guarded[i];
        *guarded->array = guarded->original;
        if (guarded->alias)
            guarded->alias->data = guarded->original.data;
        th_copy_elements_in(&guarded->original, guarded->original.data, guarded->result[1]);
    }
}

void th_guard_free(th_guard *guard, th_context *ctx)
{
    if (guard->memory)
        th_release(ctx, guard->memory, guard->memory_bytes);
    guard->memory = NULL;
    guard->memory_bytes = 0;
}
