/* Lists the parameters of a model, and finds their tensors in a file (checkpoint.h). */
#include <string.h>

#include "models/core/context.h"
#include "models/core/modules.h"
#include "models/saved_models/checkpoint.h"
#include "tapehead/tape.h"

/* -- the list -- */

static th_status check_arguments(const th_module *m, const char *path, const char *operation)
{
    if (!th_module_usable(m, operation))
        return m ? th_error_code(m->ctx) : TH_ERROR_ARGUMENT;
    if (path == NULL)
        return th_fail(m->ctx, TH_ERROR_ARGUMENT, operation, "the path is NULL");
    if (th_is_shapes_only(m->ctx))
        return th_fail(m->ctx, TH_ERROR_STATE, operation, "a shapes-only context has no values");
    return th_refuse_in_check(m->ctx, operation);
}

static int64_t count_parameters(const th_module *m)
{
    int64_t count = 0;
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);)
        count++;
    return count;
}

th_status th_parameter_list_make(th_parameter_list *list, const th_module *m, const th_optimizer *o,
                                 const char *operation)
{
    *list = (th_parameter_list){0};
    th_context *ctx = m->ctx;
    if (o && !th_optimizer_usable(o, operation))
        return th_error_code(o->ctx);
    const int64_t count = count_parameters(m);
    const size_t bytes = (size_t)(count + 1) * sizeof *list->parameter;
    *list = (th_parameter_list){ctx, m, th_allocate(ctx, bytes), count};
    if (list->parameter == NULL)
        return th_fail_memory(ctx, operation, bytes);
    int64_t hint = 0, found = 0;
    th_listed_parameter *p = list->parameter;
    for (th_parameter_iterator it = th_module_parameters(m); th_parameter_next(&it); p++) {
        *p = (th_listed_parameter){.tensor = th_tensor_impl_of(it.tensor), .optimizer_index = -1, .average_index = -1};
        strcpy(p->name, it.name);
        if (o)
            p->optimizer_index = th_optimizer_index(o, p->tensor, &hint);
        found += p->optimizer_index >= 0;
    }
    if (o && found != o->count)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation,
                       "%lld of the %lld parameters of the optimizer (%s) do not belong to %s",
                       (long long)(o->count - found), (long long)o->count, o->rule->name, m->type);
    return TH_OK;
}

th_status th_parameter_list_make_for_file(th_parameter_list *list, const th_module *m, const th_optimizer *o,
                                          const char *path, const char *operation)
{
    *list = (th_parameter_list){0};
    const th_status status = check_arguments(m, path, operation);
    return status == TH_OK ? th_parameter_list_make(list, m, o, operation) : status;
}

void th_parameter_list_end(th_parameter_list *list)
{
    if (list->parameter)
        th_release(list->ctx, list->parameter, (size_t)(list->count + 1) * sizeof *list->parameter);
}

/* -- comparing with a file -- */

/* Returns the index of a tensor in file->by_name, or -1 if the file has no tensor of this name. */
static int64_t find_entry_index(const th_safetensors *file, const char *name)
{
    int64_t low = 0, high = file->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const int order = strcmp(file->by_name[middle]->tensor.name, name);
        if (order == 0)
            return middle;
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return -1;
}

/* Returns whether the file's tensor fits the parameter. Reports the difference if it does not. */
static bool fits_parameter(const th_safetensors_entry *entry, const th_listed_parameter *p, bool exact_type,
                           th_differences *d)
{
    char quoted[TH_QUOTED];
    const th_tensor_impl *t = p->tensor;
    const th_shape *shape = &entry->tensor.shape;
    const bool name_differs = strcmp(entry->tensor.name, p->name) != 0;
    if (!th_safetensors_shape_fits(entry->type, shape, t->dtype, t->ndim, t->size)) {
        th_report_difference(d, TH_OTHER_SHAPE, "different shape: %s%s%s%s is %s in the file and %s in the model",
                             p->name, name_differs ? " (in the file \"" : "",
                             name_differs ? th_quote(entry->tensor.name, quoted) : "", name_differs ? "\")" : "",
                             TH_SIZES_TEXT(shape->ndim, shape->size), TH_SIZES_TEXT(t->ndim, t->size));
        return false;
    }
    if (exact_type ? entry->type != th_safetensors_type_of(t->dtype)
                   : !th_safetensors_type_fits(entry->type, t->dtype)) {
        th_report_difference(d, TH_OTHER_TYPE, "different type: %s is %s in the file and %s in the model", p->name,
                             entry->type->name, th_dtype_name(t->dtype));
        return false;
    }
    return true;
}

void th_parameter_list_match(th_parameter_list *list, const th_safetensors *file, const th_weights_options *options,
                             bool exact_type, bool *used, th_differences *d)
{
    for (int64_t i = 0; i < list->count; i++) {
        th_listed_parameter *p = &list->parameter[i];
        const char *name = options->name_in_file ? options->name_in_file(p->name, options->user) : p->name;
        if (name == NULL)
            continue;
        const int64_t index = find_entry_index(file, name);
        if (index < 0) {
            if (!options->allow_missing && !p->only_checksum)
                th_report_difference(d, TH_MISSING, "missing: %s %s", name,
                                     TH_SIZES_TEXT(p->tensor->ndim, p->tensor->size));
            continue;
        }
        used[index] = true;
        if (fits_parameter(file->by_name[index], p, exact_type, d))
            p->entry = file->by_name[index];
    }
    /* A file may have a tied parameter under each of its names. */
    for (int64_t i = 0; i < file->count && options->name_in_file == NULL; i++)
        used[i] = used[i] || th_module_find_parameter(list->model, file->by_name[i]->tensor.name) != NULL;
}

void th_report_unused(const th_safetensors *file, const bool *used, th_differences *d)
{
    char quoted[TH_QUOTED];
    for (int64_t i = 0; i < file->count; i++) {
        const th_stored_tensor *t = &file->by_name[i]->tensor;
        if (!used[i] && t->name[0] != '.')
            th_report_difference(d, TH_UNEXPECTED, "unexpected: %s %s", th_quote(t->name, quoted),
                                 TH_SIZES_TEXT(t->shape.ndim, t->shape.size));
    }
}

th_status th_parameter_list_load_values(const th_parameter_list *list, const char *operation)
{
    th_observers_notify_read(list->ctx);
    for (int64_t i = 0; i < list->count; i++) {
        const th_listed_parameter *p = &list->parameter[i];
        if (p->entry == NULL)
            continue;
        const th_status status = th_safetensors_entry_read(p->entry, p->tensor, operation);
        th_storage_mark_changed(p->tensor->storage); /* after an error too: part of the tensor may have been read */
        th_empty_gradient(p->tensor->handle);
        if (status != TH_OK)
            return status;
    }
    return TH_OK;
}
