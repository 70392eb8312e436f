/* The adapters of modules of a file, which may have several of our projections: one A and one B for each module. */
#include <math.h>

#include "models/core/context.h"
#include "models/saved_models/peft.h"
#include "tapehead/ops.h"
#include "tapehead/tensor.h"

static const th_lora *adapter_of(const th_peft_slices *slices, int64_t slice)
{
    return *slices->slice[slice].projection.lora;
}

/* Returns whether slice i has an A, and no slice from `first` to i - 1 has the same one. */
static bool has_new_a(const th_peft_slices *slices, int64_t first, int64_t i)
{
    const th_lora *l = adapter_of(slices, i);
    bool is_new = l != NULL;
    for (int64_t k = first; k < i && is_new; k++)
        is_new = adapter_of(slices, k) == NULL || adapter_of(slices, k)->a != l->a;
    return is_new;
}

/* Returns the A's of slices first to end - 1, one below the other, each once. */
static th_tensor *stack_a(const th_peft_slices *slices, int64_t first, int64_t end)
{
    th_tensor *stacked = NULL;
    for (int64_t i = first; i < end; i++)
        if (has_new_a(slices, first, i)) {
            th_tensor *pair[] = {stacked, adapter_of(slices, i)->a};
            stacked = stacked ? th_concat(pair, 2, 0) : pair[1];
        }
    return stacked;
}

/* Returns the rows of B of one slice: its B in the columns of its A, and zeros in the columns of others. */
static th_tensor *rows_of_b(th_context *ctx, const th_peft_slices *slices, int64_t first, int64_t end, int64_t slice,
                            th_dtype dtype)
{
    const th_lora *adapter = adapter_of(slices, slice);
    const int64_t rows = slices->slice[slice].projection.rows;
    th_tensor *row = NULL;
    for (int64_t i = first; i < end; i++)
        if (has_new_a(slices, first, i)) {
            const th_lora *l = adapter_of(slices, i);
            th_tensor *pair[] = {row, adapter && adapter->a == l->a
                                          ? adapter->b
                                          : th_zeros(ctx, dtype, TH_SHAPE(rows, th_size(l->a, 0)))};
            row = row ? th_concat(pair, 2, 1) : pair[1];
        }
    return th_peft_rows_to_file(&slices->slice[slice], row);
}

static th_tensor *stack_b(th_context *ctx, const th_peft_slices *slices, int64_t first, int64_t end, th_dtype dtype)
{
    th_tensor *stacked = NULL;
    for (int64_t i = first; i < end; i++) {
        th_tensor *pair[] = {stacked, rows_of_b(ctx, slices, first, end, i, dtype)};
        stacked = stacked ? th_concat(pair, 2, 0) : pair[1];
    }
    return th_peft_rows_to_module(&slices->slice[first], stacked);
}

/* Returns an adapter of slices first to end - 1, or NULL. Sets an error if they have different scales. */
static const th_lora *find_adapter(th_context *ctx, const char *operation, const th_peft_slices *slices, int64_t first,
                                   int64_t end)
{
    const th_lora *found = NULL;
    for (int64_t i = first; i < end; i++) {
        const th_lora *l = adapter_of(slices, i);
        if (l && found && (l->scale != found->scale || l->setting.rank_stabilized != found->setting.rank_stabilized))
            th_fail(ctx, TH_ERROR_ARGUMENT, operation,
                    "%s is one module in the file, but its adapters have different scales",
                    slices->slice[first].module);
        found = found ? found : l;
    }
    return found;
}

/* Appends the module whose slices are first to end - 1, and its tensors. */
static void add_module(th_context *ctx, const char *operation, const th_peft_slices *slices, int64_t first, int64_t end,
                       const th_peft_naming *naming, th_peft_adapters *list)
{
    th_peft_adapter *m = &list->module[list->modules++];
    const th_lora *l = find_adapter(ctx, operation, slices, first, end);
    *m = (th_peft_adapter){.module = slices->slice[first].module, .adapted = l != NULL};
    if (l == NULL)
        return;
    th_tensor *a = stack_a(slices, first, end), *b = stack_b(ctx, slices, first, end, th_dtype_of(l->a));
    m->rank = a ? th_size(a, 0) : l->setting.rank;
    m->scale = l->scale;
    m->alpha = m->rank == l->setting.rank   ? l->setting.alpha
               : l->setting.rank_stabilized ? l->scale * sqrt((double)m->rank)
                                            : l->scale * (double)m->rank;
    snprintf(m->name[0], sizeof m->name[0], "%s%s%s", naming->before, m->module, naming->a);
    snprintf(m->name[1], sizeof m->name[1], "%s%s%s", naming->before, m->module, naming->b);
    list->tensor[list->tensors++] = (th_named_tensor){m->name[0], a};
    list->tensor[list->tensors++] = (th_named_tensor){m->name[1], b};
}

th_status th_peft_adapters_list(th_context *ctx, const char *operation, const th_peft_slices *slices,
                                const th_peft_naming *naming, th_peft_adapters *list)
{
    const size_t count = (size_t)slices->count;
    *list = (th_peft_adapters){.capacity = slices->count};
    list->module = th_allocate(ctx, count * sizeof *list->module);
    list->tensor = th_allocate(ctx, 2 * count * sizeof *list->tensor);
    if (list->module == NULL || list->tensor == NULL)
        return th_fail_memory(ctx, operation, count * sizeof *list->module);
    for (int64_t first = 0, end; first < slices->count && !th_failed(ctx); first = end) {
        end = th_peft_module_end(slices, first);
        add_module(ctx, operation, slices, first, end, naming, list);
    }
    return th_error_code(ctx);
}

void th_peft_adapters_end(th_context *ctx, th_peft_adapters *list)
{
    th_release(ctx, list->module, (size_t)list->capacity * sizeof *list->module);
    th_release(ctx, list->tensor, 2 * (size_t)list->capacity * sizeof *list->tensor);
    *list = (th_peft_adapters){0};
}
