/* Files of weights alone. */
#include <string.h>

#include "store/checkpoint.h"
#include "store/safetensors_write.h"

/* -- saving -- */

th_status(th_weights_save)(th_module *m, const char *path)
{
    static const char operation[] = "weights_save";
    static const th_named_text format = {"format", "pt"}; /* transformers wants to know that it is no TensorFlow */
    th_parameter_list list;
    th_status status = th_parameter_list_make(&list, m, NULL, path, operation);
    const size_t bytes = (size_t)(list.count + 1) * sizeof(th_to_store);
    th_to_store *tensors = status == TH_OK ? th_allocate(list.ctx, bytes) : NULL;
    if (status == TH_OK && tensors == NULL)
        status = th_fail_memory(list.ctx, operation, bytes);
    for (int64_t i = 0; status == TH_OK && i < list.count; i++)
        tensors[i] = (th_to_store){list.parameter[i].name, th_tensor_array(list.parameter[i].tensor)};
    if (status == TH_OK)
        status = th_store(&(th_storing){list.ctx, operation, path, tensors, list.count, &format, 1, NULL});
    if (tensors)
        th_release(list.ctx, tensors, bytes);
    th_parameter_list_end(&list);
    return status;
}

/* -- loading -- */

static th_status load_from(const th_safetensors *file, th_parameter_list *list, const char *path,
                           const th_weights_options *options, const char *operation)
{
    th_context *ctx = list->ctx;
    const size_t bytes = (size_t)file->count + 1;
    bool *used = th_allocate(ctx, bytes);
    if (used == NULL)
        return th_fail_memory(ctx, operation, bytes);
    memset(used, 0, bytes);
    th_differences d = {ctx, operation, path, options->report, options->report_user, {0}, ""};
    const bool checkpoint = th_safetensors_find(file, TH_CHECKSUMS_NAME) != NULL;
    th_status status = checkpoint ? th_checksums_verify(file, false, operation) : TH_OK;
    if (status == TH_OK) {
        th_parameter_list_match(list, file, options, false, used, &d);
        if (!options->allow_unexpected)
            th_tell_unused(file, used, &d);
        status = th_differences_end(&d);
    }
    if (status == TH_OK && checkpoint) /* (what does not fit anyway is not read to its end) */
        status = th_checksums_verify(file, true, operation);
    if (status == TH_OK)
        status = th_parameter_list_read(list, operation);
    th_release(ctx, used, bytes);
    return status;
}

th_status(th_weights_load)(th_module *m, const char *path, const th_weights_options *options)
{
    static const char operation[] = "weights_load";
    const th_weights_options given = options ? *options : (th_weights_options){0};
    th_parameter_list list;
    th_status status = th_parameter_list_make(&list, m, NULL, path, operation);
    th_safetensors *file = status == TH_OK ? (th_safetensors_open)(list.ctx, path) : NULL;
    if (file)
        status = load_from(file, &list, path, &given, operation);
    else if (status == TH_OK)
        status = list.ctx->error;
    th_safetensors_close(file);
    th_parameter_list_end(&list);
    return status;
}
