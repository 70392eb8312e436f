/* Loads the weights of a model that transformers saved into a model. It compares the file with the model before it
 * reads anything. */
#include "models/core/context.h"
#include "models/core/modules.h"
#include "models/families/options.h"
#include "models/gguf/folder.h"
#include "models/saved_models/hugging_face_source.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"

/* Reads a tensor of the file whose rows are parts of several parameters, or have another order. */
static th_status read_parts(const th_folder_source *s, const th_foreign_tensor *t)
{
    th_scope_begin(s->ctx, NULL);
    th_no_grad_begin(s->ctx);
    th_tensor *values = th_empty(s->ctx, th_dtype_of(t->view[0]), t->shape);
    if (th_safetensors_read_into(s->file, t->name, values) == TH_OK)
        (void)th_foreign_tensor_set(t, values); /* the error is pending */
    th_no_grad_end(s->ctx);
    th_scope_end(s->ctx, NULL);
    return th_error_code(s->ctx);
}

static th_status read_tensor(const th_folder_source *s, const th_foreign_tensor *t)
{
    th_tensor *view = th_foreign_tensor_view(t);
    return view ? th_safetensors_read_into(s->file, t->name, view) : read_parts(s, t);
}

void th_folder_read(const th_folder_source *s, th_module *model)
{
    th_foreign_tensors list = {0};
    th_scope_begin(s->ctx, NULL);
    if (th_folder_match(s, model, &list) == TH_OK)
        for (int64_t i = 0; i < list.count && !th_failed(s->ctx); i++)
            if (read_tensor(s, &list.tensor[i]) != TH_OK)
                break;
    th_folder_check_tied(s, th_module_find_parameter(model, "embedding.weight"));
    th_foreign_tensors_free(s->ctx, &list);
    th_scope_end(s->ctx, NULL);
}

th_status th_pretrained_load(th_module *model, const char *folder, const th_pretrained_load_options *options)
{
    static const char *const operation = "pretrained_load";
    if (!th_module_usable(model, operation))
        return model ? th_error_code(model->ctx) : TH_ERROR_ARGUMENT;
    th_folder_source s = {.ctx = model->ctx, .operation = operation, .folder = folder};
    if (options)
        s.given = *options;
    const th_language_model_options *m = th_require_language_model(model, operation);
    if (m == NULL || th_refuse_in_check(s.ctx, operation) != TH_OK)
        return th_error_code(s.ctx);
    if (th_gguf_is_file(folder))
        return th_gguf_load_into(model, operation, folder);
    if (th_folder_open(&s) && th_folder_check_options(&s, m) == TH_OK)
        th_folder_read(&s, model);
    th_folder_close(&s);
    return th_error_code(s.ctx);
}
