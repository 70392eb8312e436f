/* Runs a kernel between guards (check_op_parts.h).
 *
 * The plan moves every array that the kernel may write into memory with walls around it. The kernel then runs twice on
 * the same inputs. Uninitialized memory holds other bytes in the second run. This reveals an element that the kernel
 * did not write, and a result that depends on such memory. */
#include "checker/check_op_parts.h"

#include <string.h>

#include "kernels/sizes.h"
#include "tensor/format.h"

/* Which memory differs from the second run: all, none, the targets, scratch memory, or one missing operand. */
enum { ALL = -1, NOTHING, TARGETS, SCRATCH, OPERAND };

static th_guard *guard_of(const th_call *call)
{
    return (th_guard *)(uintptr_t)call->op;
}

/* -- one run -- */

static int fill_for(int differing, int memory)
{
    return differing == ALL || differing == memory ? TH_FILL : TH_OTHER_FILL;
}

/* Gives memory to operands that were not saved, and to those without elements. In a real run their data is NULL. */
static void provide_missing(const th_guard *guard, const th_call *call, bool backward, int differing, bool *replaced)
{
    for (int i = 0; i < th_guard_operand_count(call, backward) && guard->missing_bytes; i++) {
        th_array *array = th_guard_operand(call, i);
        replaced[i] = th_is_missing(array);
        if (replaced[i])
            array->data = th_guard_missing_data(guard, array, fill_for(differing, OPERAND + i) == TH_OTHER_FILL);
    }
}

static void remove_missing(const th_call *call, bool backward, const bool *replaced)
{
    for (int i = 0; i < th_guard_operand_count(call, backward); i++)
        if (replaced[i])
            th_guard_operand(call, i)->data = NULL;
}

/* Returns the index of the first byte of scratch memory that changed without being reserved, or SIZE_MAX. */
static size_t first_unreserved(const th_guard *guard, const unsigned char *scratch, size_t bytes, int fill)
{
    const th_scratch_map *map = &guard->map;
    for (size_t at = 0; at < bytes;) {
        size_t end = at, next = bytes;
        for (int i = 0; i < map->count; i++) {
            const size_t offset = map->reservation[i].offset, after = offset + map->reservation[i].bytes;
            if (offset <= at && after > end)
                end = after;
            if (offset > at && offset < next)
                next = offset;
        }
        if (end == at) {
            while (at < next && scratch[at] == fill)
                at++;
            if (at < next)
                return at;
        } else {
            at = end;
        }
    }
    return SIZE_MAX;
}

static void check_scratch(th_guard *guard, const th_call *call, size_t bytes, int fill, bool backward)
{
    const unsigned char *scratch = call->scratch;
    if (bytes == 0 || guard->map.count == TH_MAX_RESERVATIONS)
        return;
    const size_t unreserved = first_unreserved(guard, scratch, bytes, fill);
    size_t reserved = 0;
    if (!th_bytes_are(scratch - TH_WALL, TH_WALL, fill))
        th_guard_note_mistake(guard, "%s wrote before the scratch memory that its plan reserved",
                              th_kernel_name(backward));
    if (unreserved == SIZE_MAX)
        return;
    for (int i = 0; i < guard->map.count; i++)
        if (guard->map.reservation[i].offset <= unreserved)
            reserved = guard->map.reservation[i].bytes;
    th_guard_note_mistake(guard, "%s reserved %zu bytes of scratch memory and wrote beyond them",
                          th_kernel_name(backward), reserved);
}

static size_t scratch_bytes(const th_call *call)
{
    const size_t bytes = ((const th_frame *)(const void *)call)->scratch_memory.bytes;
    return call->scratch ? bytes - TH_WALL : 0;
}

/* Runs the kernel, and keeps its results in result[slot]. */
static void run_once(th_guard *guard, th_call *call, bool backward, int differing, int slot)
{
    bool replaced[TH_MAX_READ] = {false};
    const size_t scratch = scratch_bytes(call);
    const int fill = fill_for(differing, TARGETS), scratch_fill = fill_for(differing, SCRATCH);
    for (int i = 0; i < guard->count; i++) {
        const th_guarded *guarded = &guard->guarded[i];
        memset(guarded->block, fill, guarded->block_bytes);
        if (!guarded->may_be_read || guarded->bytes == 0)
            continue;
        th_copy_elements_out(&guarded->original, guarded->original.data, guarded->result[slot], TH_AS_IT_IS);
        th_copy_elements_in(&guarded->original, guarded->element, guarded->result[slot]);
    }
    if (scratch) {
        memset(call->scratch, scratch_fill, scratch + TH_WALL);
        call->scratch = (char *)call->scratch + TH_WALL;
    }
    provide_missing(guard, call, backward, differing, replaced);
    call->op = guard->original;
    (backward ? guard->original->backward : guard->original->forward)(call);
    call->op = &guard->op;
    remove_missing(call, backward, replaced);
    check_scratch(guard, call, scratch, scratch_fill, backward);
    if (scratch)
        call->scratch = (char *)call->scratch - TH_WALL;
    for (int i = 0; i < guard->count; i++) {
        const th_guarded *guarded = &guard->guarded[i];
        th_copy_elements_out(&guarded->original, guarded->element, guarded->result[slot], fill);
        if (!th_bytes_are(guarded->block, guarded->block_bytes, fill))
            th_guard_note_mistake(guard, "%s wrote outside the memory of %s", th_kernel_name(backward),
                                  TH_ARRAY_NAME(guarded->array));
        if (guarded->array->data != guarded->element || !th_same_sizes(guarded->array, &guarded->original))
            th_guard_note_mistake(guard, "%s changed the data pointer or the sizes of %s", th_kernel_name(backward),
                                  TH_ARRAY_NAME(guarded->array));
    }
}

/* -- both runs -- */

/* Returns the first array whose results differ, or NULL. */
static const th_guarded *first_difference(const th_guard *guard)
{
    for (int i = 0; i < guard->count; i++)
        if (guard->guarded[i].bytes &&
            memcmp(guard->guarded[i].result[0], guard->guarded[i].result[1], guard->guarded[i].bytes) != 0)
            return &guard->guarded[i];
    return NULL;
}

/* Notes an element that neither run wrote. */
static void check_written(th_guard *guard, const th_call *call, bool backward)
{
    for (int i = 0; i < guard->count; i++) {
        const th_guarded *guarded = &guard->guarded[i];
        const size_t size = th_dtype_size(guarded->original.dtype);
        int64_t index[TH_MAX_DIMS];
        for (size_t at = 0; at < guarded->bytes && !guarded->may_be_read; at += size) {
            if (!th_bytes_are(guarded->result[0] + at, size, TH_FILL) ||
                !th_bytes_are(guarded->result[1] + at, size, TH_OTHER_FILL))
                continue;
            char text[160] = "";
            th_index_at(guarded->original.ndim, guarded->original.size, (int64_t)(at / size), index);
            for (int d = 0; d < guarded->original.ndim; d++)
                th_append(text, sizeof text, "%s%lld", d ? "," : "[", (long long)index[d]);
            th_guard_note_mistake(guard, "%s wrote nothing to %s%s%s%s", th_kernel_name(backward),
                                  TH_ARRAY_NAME(guarded->array), text, text[0] ? "]" : "",
                                  backward ? " (call->add is false: it has to overwrite every element)" : "");
            return;
        }
    }
}

/* Notes which memory the result depends on. */
static void find_cause(th_guard *guard, th_call *call, bool backward)
{
    const th_guarded *difference = first_difference(guard);
    const char *kernel = th_kernel_name(backward), *array_name = TH_ARRAY_NAME(difference->array);
    run_once(guard, call, backward, NOTHING, 0);
    if (first_difference(guard)) {
        th_guard_note_mistake(
            guard,
            "two runs of %s on the same inputs give different values of %s: it keeps a state, or draws random "
            "numbers from another source than call->random",
            kernel, array_name);
        return;
    }
    for (int i = 0; i < th_guard_operand_count(call, backward) && guard->missing_bytes; i++) {
        const th_array *array = th_guard_operand(call, i);
        if (!th_is_missing(array))
            continue;
        run_once(guard, call, backward, OPERAND + i, 0);
        if (first_difference(guard) && th_array_numel(array) == 0)
            th_guard_note_mistake(guard, "%s read %s, which has no elements: its data is NULL", kernel,
                                  TH_ARRAY_NAME(array));
        else if (first_difference(guard))
            th_guard_note_mistake(
                guard, "backward read %s, which was not saved: its data is NULL unless .saves or .saves_for names it",
                TH_ARRAY_NAME(array));
    }
    run_once(guard, call, backward, SCRATCH, 0);
    if (first_difference(guard))
        th_guard_note_mistake(guard, "%s read uninitialized scratch memory", kernel);
    th_guard_note_mistake(guard, "%s read uninitialized memory of %s%s", kernel, array_name,
                          backward ? " (call->add is false: it has to overwrite every element)" : "");
}

static void run_guarded(const th_call *const_call, bool backward)
{
    th_guard *guard = guard_of(const_call);
    th_call *call = (th_call *)(uintptr_t)const_call;
    th_read_only read_only;
    th_read_only_begin(guard, call, backward, &read_only);
    run_once(guard, call, backward, ALL, 0);
    th_read_only_check(guard, call, backward, &read_only);
    if (!call->ctx->error)
        run_once(guard, call, backward, NOTHING, 1);
    if (!call->ctx->error)
        check_written(guard, call, backward);
    if (!call->ctx->error && first_difference(guard) && !guard->finding[0])
        find_cause(guard, call, backward);
    th_guard_move_back(guard);
}

static void guarded_forward(const th_call *call)
{
    run_guarded(call, false);
}

static void guarded_backward(const th_call *call)
{
    run_guarded(call, true);
}

static void guarded_plan(const th_call *call, bool backward, void *memory)
{
    th_guard *guard = guard_of(call);
    th_call *writable_call = (th_call *)(uintptr_t)call;
    th_frame *frame = (th_frame *)(void *)writable_call;
    uint64_t bytes = 0;
    if (!call->ctx->options.shapes_only)
        th_guard_surround(guard, call, backward);
    guard->map.count = 0;
    if (guard->original->plan) {
        call->ctx->scratch_map = &guard->map;
        writable_call->op = guard->original;
        guard->original->plan(call, backward, memory);
        writable_call->op = &guard->op;
        call->ctx->scratch_map = NULL;
    }
    for (int i = 0; i < guard->map.count; i++)
        bytes += guard->map.reservation[i].bytes;
    if (guard->plan_count < TH_MAX_PLANS)
        guard->planned_bytes[guard->plan_count] = bytes;
    guard->plan_count++;
    if (frame->scratch_memory.bytes && frame->scratch_memory.bytes < SIZE_MAX - TH_WALL)
        frame->scratch_memory.bytes += TH_WALL;
}

/* -- the operation -- */

void th_guard_init(th_guard *guard, const th_op *op)
{
    *guard = (th_guard){.op = *op, .original = op};
    if (op->flags & TH_OP_VIEW)
        return;
    guard->op.forward = guarded_forward;
    guard->op.backward = op->backward ? guarded_backward : NULL;
    guard->op.plan = guarded_plan;
}
