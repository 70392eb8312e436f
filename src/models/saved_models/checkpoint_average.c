/* Averages of weights in checkpoints: a tensor for each average, its number of updates, and the options. */
#include <string.h>

#include "models/core/context.h"
#include "models/core/files.h"
#include "models/saved_models/checkpoint.h"

/* -- the averages of the program -- */

th_status th_averages_find(th_parameter_list *list, th_weight_average *average, const char *operation)
{
    int64_t hint = 0, found = 0;
    if (average == NULL)
        return TH_OK;
    if (!th_weight_average_usable(average, operation) || th_weight_average_complete_list(average, operation) != TH_OK)
        return th_error_code(average->ctx);
    for (int64_t i = 0; i < list->count; i++) {
        list->parameter[i].average_index = th_weight_average_index(average, list->parameter[i].tensor, &hint);
        found += list->parameter[i].average_index >= 0;
    }
    if (found != average->count)
        return th_fail(list->ctx, TH_ERROR_ARGUMENT, operation,
                       "%lld of the %lld parameters of the averages do not belong to %s",
                       (long long)(average->count - found), (long long)average->count, list->model->type);
    return TH_OK;
}

int64_t th_average_updates(const th_weight_average *average, const th_listed_parameter *p)
{
    return average && p->average_index >= 0 ? average->parameters[p->average_index].updates : 0;
}

th_array th_average_array(const th_weight_average *average, const th_listed_parameter *p)
{
    th_array array = th_tensor_array(p->tensor);
    array.data = average->parameters[p->average_index].data;
    return array;
}

void th_average_name(const th_listed_parameter *p, char name[TH_AVERAGE_NAME_SIZE])
{
    snprintf(name, TH_AVERAGE_NAME_SIZE, TH_AVERAGE_NAME "%s", p->name);
}

uint32_t th_averages_crc32c(const th_weight_average *average, const th_parameter_list *list)
{
    uint32_t crc = 0;
    for (int64_t i = 0; i < list->count; i++) {
        const int64_t updates = th_average_updates(average, &list->parameter[i]);
        if (updates == 0)
            continue;
        const th_averaged_parameter *p = &average->parameters[list->parameter[i].average_index];
        crc = th_crc32c(crc, &updates, sizeof updates);
        crc = th_crc32c(crc, p->data, p->bytes);
    }
    return crc;
}

/* -- comparing with a file -- */

const th_safetensors_entry *th_average_in_file(const th_safetensors *file, const th_listed_parameter *p)
{
    char name[TH_AVERAGE_NAME_SIZE];
    th_average_name(p, name);
    return th_safetensors_search(file->by_name, file->count, name);
}

static void compare_options(const json_t *saved, const th_weight_average_options *options, th_differences *d)
{
    const double decay = json_number_value(json_object_get(saved, "decay"));
    const bool warm_up = json_is_true(json_object_get(saved, "warm_up"));
    if (decay != options->decay)
        th_report_difference(d, TH_OTHER_OPTION,
                             "different option: the decay of the averages is %.17g in the file and %.17g here", decay,
                             options->decay);
    if (warm_up != options->warm_up)
        th_report_difference(d, TH_OTHER_OPTION,
                             "different option: the decay of the averages %s up in the file, but here it does%s",
                             warm_up ? "warms" : "does not warm", warm_up ? " not" : "");
}

static void compare_average(const th_safetensors *file, const th_listed_parameter *p, bool averaged, th_differences *d)
{
    const th_safetensors_entry *entry = th_average_in_file(file, p);
    const th_tensor_impl *t = p->tensor;
    if (averaged && p->average_index < 0)
        th_report_difference(d, TH_OTHER_OPTION, "different option: %s has an average in the file, but not here",
                             p->name);
    else if (!averaged && entry)
        th_report_difference(d, TH_UNEXPECTED, "unexpected: the average of %s, which was not updated in the file",
                             p->name);
    else if (averaged && entry == NULL)
        th_report_difference(d, TH_MISSING, "missing: the average of %s", p->name);
    else if (averaged && (entry->type != th_safetensors_type_of(t->dtype) || entry->tensor.shape.ndim != t->ndim ||
                          memcmp(entry->tensor.shape.size, t->size, (size_t)t->ndim * sizeof *t->size) != 0))
        th_report_difference(d, TH_OTHER_SHAPE, "different shape: the average of %s does not match the parameter",
                             p->name);
}

void th_averages_compare(const th_safetensors *file, const json_t *state, const th_checkpoint *c,
                         const th_parameter_list *list, th_differences *d)
{
    const json_t *saved = json_object_get(state, "average");
    if ((saved == NULL) != (c->average == NULL))
        th_report_difference(d, TH_OTHER_OPTION, "different option: the file %s averages of weights, the program %s",
                             saved ? "has" : "lacks", saved ? "does not" : "has them");
    else if (c->average && !c->other_options)
        compare_options(saved, &c->average->options, d);
    for (int64_t i = 0; c->average && saved && i < list->count; i++)
        compare_average(file, &list->parameter[i], th_state_averaged(state, list->parameter[i].name) > 0, d);
}

/* -- loading -- */

th_status th_averages_allocate(const json_t *state, th_weight_average *average, const th_parameter_list *list,
                               const char *operation)
{
    for (int64_t i = 0; average && i < list->count; i++) {
        const th_listed_parameter *p = &list->parameter[i];
        if (th_state_averaged(state, p->name) > 0 &&
            th_weight_average_allocate(average, p->average_index, operation) != TH_OK)
            return th_error_code(list->ctx);
    }
    return TH_OK;
}

th_status th_averages_read(const th_safetensors *file, const json_t *state, th_weight_average *average,
                           const th_parameter_list *list, const char *operation)
{
    for (int64_t i = 0; average && i < list->count; i++) {
        const th_listed_parameter *p = &list->parameter[i];
        if (p->average_index < 0)
            continue;
        th_averaged_parameter *averaged = &average->parameters[p->average_index];
        averaged->updates = th_state_averaged(state, p->name);
        if (averaged->updates == 0 || averaged->bytes == 0)
            continue;
        const th_safetensors_entry *entry = th_average_in_file(file, p);
        if (th_safetensors_file_read(list->ctx, entry->file, entry->begin, averaged->data, averaged->bytes,
                                     operation) != TH_OK)
            return th_error_code(list->ctx);
    }
    if (average)
        average->swapped = false;
    return TH_OK;
}
