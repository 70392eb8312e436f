/* Saves and loads weights without the rest of a checkpoint. */
#include <string.h>

#include "models/core/context.h"
#include "models/saved_models/checkpoint.h"
#include "models/saved_models/safetensors_write.h"
#include "models/saved_models/shapes_first.h"

/* -- saving -- */

th_status th_weights_save(th_module *m, const char *path)
{
    static const char operation[] = "weights_save";
    static const th_named_text format = {"format", "pt"}; /* transformers needs it to recognize the framework */
    th_parameter_list list;
    th_status status = th_parameter_list_make_for_file(&list, m, NULL, path, operation);
    const size_t bytes = (size_t)(list.count + 1) * sizeof(th_safetensors_item);
    th_safetensors_item *tensors = status == TH_OK ? th_allocate(list.ctx, bytes) : NULL;
    if (status == TH_OK && tensors == NULL)
        status = th_fail_memory(list.ctx, operation, bytes);
    for (int64_t i = 0; status == TH_OK && i < list.count; i++)
        tensors[i] =
            (th_safetensors_item){.name = list.parameter[i].name, .array = th_tensor_array(list.parameter[i].tensor)};
    if (status == TH_OK)
        status = th_safetensors_write_contents(
            &(th_safetensors_contents){list.ctx, operation, path, tensors, list.count, &format, 1, NULL});
    th_release(list.ctx, tensors, bytes);
    th_parameter_list_end(&list);
    return status;
}

/* -- loading -- */

/* Compares the tensors that will be read with their checksums. Damage elsewhere in the file does not matter. */
static th_status verify_checksums(const th_safetensors *file, const th_parameter_list *list, const char *operation)
{
    th_status status = TH_OK;
    for (int64_t i = 0; i < list->count && status == TH_OK; i++)
        if (list->parameter[i].entry)
            status = th_checksums_verify_tensor(file, list->parameter[i].entry, operation);
    return status;
}

/* Finds each parameter in the file. Reports the differences, and stores them as the error of the file's context. */
static th_status compare_parameters(const th_safetensors *file, th_parameter_list *list, const char *path,
                                    const th_weights_options *options, const char *operation)
{
    th_context *ctx = file->ctx;
    const size_t bytes = (size_t)file->count + 1;
    bool *used = th_allocate(ctx, bytes);
    if (used == NULL)
        return th_fail_memory(ctx, operation, bytes);
    memset(used, 0, bytes);
    th_differences d = {ctx, operation, path, options->report, options->report_user, {0}, ""};
    th_parameter_list_match(list, file, options, false, used, &d);
    if (!options->allow_unexpected)
        th_report_unused(file, used, &d);
    th_release(ctx, used, bytes);
    return th_differences_end(&d);
}

/* Opens the file, and verifies the header of a checkpoint. */
static th_safetensors *open_weights(th_context *ctx, const char *path, bool *checkpoint, const char *operation)
{
    th_safetensors *file = th_safetensors_open(ctx, path);
    *checkpoint = file && th_safetensors_find(file, TH_CHECKSUMS_NAME) != NULL;
    if (!*checkpoint || th_checksums_verify_header(file, operation) == TH_OK)
        return file;
    th_safetensors_close(file);
    return NULL;
}

th_status th_weights_load(th_module *m, const char *path, const th_weights_options *options)
{
    static const char operation[] = "weights_load";
    const th_weights_options given = options ? *options : (th_weights_options){0};
    th_parameter_list list;
    bool checkpoint;
    th_status status = th_parameter_list_make_for_file(&list, m, NULL, path, operation);
    th_safetensors *file = status == TH_OK ? open_weights(list.ctx, path, &checkpoint, operation) : NULL;
    if (status == TH_OK)
        status = file ? compare_parameters(file, &list, path, &given, operation) : th_error_code(list.ctx);
    if (status == TH_OK && checkpoint) /* (a file that does not fit is not read to its end) */
        status = verify_checksums(file, &list, operation);
    if (status == TH_OK)
        status = th_parameter_list_load_values(&list, "weights_load (some numbers may have changed)");
    th_safetensors_close(file);
    th_parameter_list_end(&list);
    return status;
}

/* -- checking before a model exists -- */

typedef struct expectation {
    const th_safetensors *file;
    const char *path, *operation;
} expectation;

/* Compares shapes for th_shapes_first. */
static void compare_shapes(th_module *model, void *user)
{
    static const th_weights_options all = {0};
    const expectation *e = user;
    th_parameter_list list;
    if (th_parameter_list_make(&list, model, NULL, e->operation) == TH_OK)
        (void)(compare_parameters(e->file, &list, e->path, &all, e->operation) == TH_OK);
    else
        th_fail(e->file->ctx, th_error_code(model->ctx), e->operation, "the list of parameters: out of memory");
    th_parameter_list_end(&list);
}

th_status th_language_model_check_weights(th_context *ctx, const th_language_model_options *options, const char *path)
{
    static const char operation[] = "language_model_check_weights";
    bool checkpoint;
    if (!th_usable_context(ctx, operation))
        return th_error_code(ctx);
    if (options == NULL || path == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the %s NULL", options ? "path is" : "options are");
    th_safetensors *file = open_weights(ctx, path, &checkpoint, operation);
    expectation e = {file, path, operation};
    if (file)
        (void)(th_shapes_first(file, options, path, operation, compare_shapes, &e) == TH_OK);
    th_safetensors_close(file);
    return th_error_code(ctx);
}
