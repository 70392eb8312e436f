/* Makes a language model from a folder of transformers. It compares the file with the model that config.json describes
 * before that model takes memory. A frozen model gets its weights in their final type, one tensor after another. */
#include "models/core/context.h"
#include "models/core/modules.h"
#include "models/families/placing.h"
#include "models/gguf/folder.h"
#include "models/saved_models/hugging_face_source.h"
#include "models/saved_models/shapes_first.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"

/* -- frozen models -- */

static th_status list_tensors(const void *source, th_module *model, th_foreign_tensors *list)
{
    return th_folder_list(source, model, list);
}

/* Returns a tensor that th_folder_match has found. */
static const th_safetensors_entry *find_entry(const th_folder_source *s, const char *name)
{
    return (const th_safetensors_entry *)th_safetensors_find(s->file, name);
}

static th_found_tensor find_tensor(const void *source, const char *name)
{
    const th_safetensors_entry *entry = find_entry(source, name);
    return (th_found_tensor){th_safetensors_type_dtype(entry->type), entry->file->descriptor, entry->begin};
}

/* Returns the tensor of the file, in its own type. A tensor in another order becomes float32 or float64, because no
 * operation reorders storage types. */
static th_tensor *read_values(const th_folder_source *s, const th_foreign_tensor *t)
{
    const th_safetensors_entry *entry = find_entry(s, t->name);
    const bool reordered = t->heads > 0 || t->transposed;
    const th_dtype dtype = reordered ? entry->tensor.dtype : th_safetensors_type_dtype(entry->type);
    th_tensor *values = th_empty(s->ctx, dtype, entry->tensor.shape);
    return th_safetensors_read_into(s->file, t->name, values) == TH_OK ? values : NULL;
}

/* Reads a tensor into temporary memory, and converts it. */
static th_status read_converted(const th_folder_source *s, const th_foreign_tensor *t)
{
    th_scope_begin(s->ctx, NULL);
    th_tensor *values = read_values(s, t);
    th_status status = th_error_code(s->ctx);
    if (values)
        status = t->transposed ? th_copy_into(t->parameter[0], th_swap_axes(values, 0, 1))
                               : th_foreign_tensor_set(t, values);
    th_scope_end(s->ctx, NULL);
    return status;
}

static th_status read_frozen(const th_folder_source *s, const th_foreign_tensor *t)
{
    th_tensor *view = t->transposed ? NULL : th_foreign_tensor_view(t);
    if (th_placing_is_mapped(t))
        return TH_OK;
    if (view && th_is_contiguous(view) && th_dtype_of(view) == th_safetensors_type_dtype(find_entry(s, t->name)->type))
        return th_safetensors_read_into(s->file, t->name, view);
    return read_converted(s, t);
}

static void read_all_frozen(const th_folder_source *s, th_module *model)
{
    th_foreign_tensors list = {0};
    th_scope_begin(s->ctx, NULL);
    th_no_grad_begin(s->ctx);
    if (th_folder_list(s, model, &list) == TH_OK)
        for (int64_t i = 0; i < list.count; i++)
            if (read_frozen(s, &list.tensor[i]) != TH_OK)
                break;
    th_folder_check_tied(s, th_module_find_parameter(model, "embedding.weight"));
    th_foreign_tensors_free(s->ctx, &list);
    th_no_grad_end(s->ctx);
    th_scope_end(s->ctx, NULL);
}

static th_module *frozen_model(const th_folder_source *s, const th_language_model_options *options,
                               const th_folder_load_options *given)
{
    const th_placing how = {.operation = s->operation,
                            .stored = given->stored,
                            .type = given->type,
                            .no_mapping = given->no_mapping,
                            .list = list_tensors,
                            .find = find_tensor,
                            .source = s};
    th_module *model = th_placing_new_model(s->ctx, options);
    if (model && th_placing_place(&how, model) == TH_OK)
        read_all_frozen(s, model);
    return model;
}

/* -- all models -- */

/* Compares shapes for th_shapes_first. */
static void compare_shapes(th_module *model, void *user)
{
    const th_folder_source *s = user;
    th_foreign_tensors list = {0};
    th_scope_begin(model->ctx, NULL);
    (void)th_folder_match(s, model, &list); /* the error is pending in the context of the file */
    th_foreign_tensors_free(model->ctx, &list);
    th_scope_end(model->ctx, NULL);
}

static const double NEW_HEAD_DEVIATION = 0.02; /* initializer_range of transformers */

/* Returns a model that can be trained. Its large weights have no values until they are read. */
static th_module *trainable_model(const th_folder_source *s, const th_language_model_options *options)
{
    th_skip_initialization(s->ctx, true);
    th_module *model = th_language_model_new(s->ctx, options);
    th_skip_initialization(s->ctx, false);
    if (model && s->new_head)
        (void)th_head_initialize(th_module_find(model, "head"), (th_weight_draw){TH_DRAW_NORMAL, NEW_HEAD_DEVIATION});
    if (model)
        th_folder_read(s, model);
    return model;
}

static bool is_frozen(const th_folder_load_options *given)
{
    return given->frozen || given->stored || th_is_storage_type(given->type);
}

static th_module *make_model(th_folder_source *s, const th_folder_load_options *given)
{
    th_language_model_options options = given->model ? *given->model : s->config.options;
    if (given->model && th_folder_check_options(s, &options) != TH_OK)
        return NULL;
    s->new_head = given->head != NULL;
    if (given->head && th_family_replace_head(s->ctx, s->operation, s->config.family, given->head,
                                              s->config.head_dropout, &options) != TH_OK)
        return NULL;
    if (th_shapes_first(s->file, &options, s->folder, s->operation, compare_shapes, s) != TH_OK)
        return NULL;
    return is_frozen(given) ? frozen_model(s, &options, given) : trainable_model(s, &options);
}

static th_module *load_model(th_context *ctx, const char *folder, const th_folder_load_options *given,
                             const char *operation)
{
    th_folder_source s = {.ctx = ctx, .operation = operation, .folder = folder};
    if (!th_usable_context(ctx, operation))
        return NULL;
    if (given->type != TH_FLOAT32 && !th_can_round_to(given->type)) {
        th_fail(ctx, TH_ERROR_TYPE, operation, "weights are not stored as %s", th_dtype_name(given->type));
        return NULL;
    }
    if (given->head && (is_frozen(given) || th_gguf_is_file(folder))) {
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "a new head needs a folder and a model that can be trained: %s",
                is_frozen(given) ? "call th_module_freeze after loading" : "a GGUF file has no head");
        return NULL;
    }
    if (th_gguf_is_file(folder))
        return th_gguf_load_as_folder(ctx, operation, folder, given);
    th_module *model = th_folder_open(&s) ? make_model(&s, given) : NULL;
    th_folder_close(&s);
    if (model == NULL || !th_failed(ctx))
        return model;
    th_module_free(model);
    return NULL;
}

th_module *th_language_model_from_folder(th_context *ctx, const char *folder, const th_folder_load_options *options)
{
    const th_folder_load_options given = options ? *options : (th_folder_load_options){0};
    return load_model(ctx, folder, &given, "language_model_from_folder");
}

th_module *th_language_model_from_pretrained(th_context *ctx, const char *folder)
{
    return load_model(ctx, folder, &(th_folder_load_options){0}, "language_model_from_pretrained");
}
