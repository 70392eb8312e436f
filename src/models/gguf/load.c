/* Loads a language model from a GGUF file. It compares the file with the model that its values describe before that
 * model takes memory. */
#include <string.h>

#include "models/families/config.h"
#include "models/families/layers.h"
#include "models/families/tensors.h"
#include "models/gguf/options.h"
#include "tapehead/gguf.h"
#include "tapehead/ops.h"
#include "tapehead/tape.h"

typedef struct source {
    th_gguf *file;
    const th_gguf_architecture *architecture;
    th_family family;
    th_language_model_options options;
} source;

/* -- comparing -- */

static void compare(const source *s, const th_foreign_tensor *wanted)
{
    th_gguf_tensor *t = th_gguf_find_tensor(s->file, wanted->name);
    if (t == NULL) {
        th_gguf_refuse(s->file, "the tensor %s is missing", wanted->name);
        return;
    }
    t->users++;
    if (t->shape.ndim != wanted->shape.ndim ||
        memcmp(t->shape.size, wanted->shape.size, (size_t)t->shape.ndim * sizeof t->shape.size[0]) != 0)
        th_gguf_refuse(s->file, "%s is %s, but its values describe a model in which it is %s", wanted->name,
                       TH_SIZES_TEXT(t->shape.ndim, t->shape.size),
                       TH_SIZES_TEXT(wanted->shape.ndim, wanted->shape.size));
    else if (!t->type->readable)
        th_gguf_refuse(s->file, "%s has the type %s, which is not supported; F32, F64, F16, BF16, Q8_0 and Q4_0 are",
                       wanted->name, t->type->name);
}

/* Refuses tensors that the model does not use: without them it would compute something else. */
static void check_used(const source *s)
{
    char quoted[TH_QUOTED];
    for (int64_t i = 0; i < s->file->n_tensors; i++)
        if (s->file->tensor[i].users == 0)
            th_gguf_refuse(s->file, "the tensor %s does not belong to the model that its values describe",
                           th_quote(s->file->tensor[i].name, quoted));
}

/* Compares the tensors with a model that has shapes only. */
static th_status compare_shapes(const source *s)
{
    th_context *ctx = s->file->ctx;
    th_foreign_tensors list;
    if (s->options.layers > s->file->n_tensors) {
        th_gguf_refuse(s->file, "it has %lld tensors, too few for a model of %lld layers",
                       (long long)s->file->n_tensors, (long long)s->options.layers);
        return th_error_code(ctx);
    }
    th_context *shapes = th_context_new(&(th_context_options){.shapes_only = true});
    th_module *model = shapes ? th_language_model_new(shapes, &s->options) : NULL;
    if (model) {
        th_scope_begin(shapes, NULL);
        if (th_foreign_tensors_list(model, &s->family, s->file->operation, false, &list) == TH_OK) {
            for (int64_t i = 0; i < list.count; i++)
                compare(s, &list.tensor[i]);
            check_used(s);
            th_foreign_tensors_free(shapes, &list);
        } else {
            th_gguf_refuse(s->file, "%s", th_error_text(shapes));
        }
        th_scope_end(shapes, NULL);
    } else if (shapes && th_error_code(shapes) != TH_ERROR_MEMORY) {
        th_gguf_refuse(s->file, "%s", th_error_text(shapes));
    }
    th_context_free(shapes);
    th_use_context(ctx);
    return th_error_code(ctx); /* (without memory, making the real model reports it) */
}

/* -- stored weights -- */

/* Returns the type in which a parameter is stored: that of its tensors if all have the same storage type. */
static th_dtype stored_type(const source *s, const th_foreign_tensors *list, const th_tensor *parameter, th_dtype usual)
{
    th_dtype found = TH_DTYPE_COUNT;
    for (int64_t i = 0; i < list->count; i++)
        for (int place = 0; place < list->tensor[i].places; place++) {
            if (list->tensor[i].parameter[place] != parameter)
                continue;
            const th_dtype type = th_gguf_find_tensor(s->file, list->tensor[i].name)->type->dtype;
            if (found != TH_DTYPE_COUNT && found != type)
                return usual;
            found = type;
        }
    return found != TH_DTYPE_COUNT && th_is_storage(found) ? found : usual;
}

/* Sets the type in which each parameter is stored, in the iterator's order. */
static th_status find_types(const source *s, th_module *model, th_dtype *type)
{
    const th_dtype usual = th_dtype_of(th_module_find_parameter(model, "norm.weight"));
    th_foreign_tensors list;
    th_scope_begin(model->ctx, NULL);
    const th_status status = th_foreign_tensors_list(model, &s->family, s->file->operation, false, &list);
    if (status == TH_OK) {
        for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p); type++)
            *type = th_ndim(p.tensor) == 2 ? stored_type(s, &list, p.tensor, usual) : usual;
        th_foreign_tensors_free(model->ctx, &list);
    }
    th_scope_end(model->ctx, NULL); /* the views end here: a parameter with views cannot change its type */
    return status;
}

/* Stores each matrix as it is in the file. */
static th_status store_weights(const source *s, th_module *model)
{
    size_t count = 0, i = 0;
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
        count++;
    th_dtype *type = th_allocate(model->ctx, count * sizeof *type);
    if (type == NULL)
        return th_fail_memory(model->ctx, s->file->operation, count * sizeof *type);
    th_status status = th_module_freeze(model, true);
    if (status == TH_OK)
        status = find_types(s, model, type);
    for (th_parameter_iterator p = th_module_parameters(model); status == TH_OK && th_parameter_next(&p); i++)
        if (th_ndim(p.tensor) == 2 && type[i] != th_dtype_of(p.tensor))
            status = th_module_store((th_module *)(uintptr_t)p.module, type[i]);
    th_release(model->ctx, type, count * sizeof *type);
    return status;
}

/* -- values -- */

/* Returns the tensor of the file, in its own type. */
static th_tensor *read_tensor(const source *s, const th_gguf_tensor *t)
{
    th_shape shape = t->shape;
    shape.size[shape.ndim - 1] /= t->type->numbers;
    th_tensor *values = th_empty(s->file->ctx, t->type->dtype, shape);
    void *data = th_data(values);
    if (data && t->bytes > 0)
        (void)th_gguf_read(s->file, t, data); /* the error is stored */
    return th_failed(s->file->ctx) ? NULL : values;
}

static void read_values(const source *s, const th_foreign_tensor *wanted)
{
    th_context *ctx = s->file->ctx;
    const th_gguf_tensor *t = th_gguf_find_tensor(s->file, wanted->name);
    th_scope_begin(ctx, NULL);
    th_tensor *values = read_tensor(s, t);
    if (values && s->architecture->norms_plus_one && th_name_ends_with(wanted->name, "norm.weight"))
        values = th_add_scalar(th_is_storage(t->type->dtype) ? th_cast(values, TH_FLOAT32) : values, -1);
    if (values)
        (void)th_foreign_tensor_set(wanted, values); /* the error is stored */
    th_scope_end(ctx, NULL);
}

static void read_all(const source *s, th_module *model)
{
    th_context *ctx = s->file->ctx;
    th_foreign_tensors list;
    th_scope_begin(ctx, NULL);
    th_no_grad_begin(ctx);
    if (th_foreign_tensors_list(model, &s->family, s->file->operation, false, &list) == TH_OK) {
        for (int64_t i = 0; i < list.count && !th_failed(ctx) && !th_is_shapes_only(ctx); i++)
            read_values(s, &list.tensor[i]);
        th_foreign_tensors_free(ctx, &list);
    }
    th_no_grad_end(ctx);
    th_scope_end(ctx, NULL);
}

/* -- the public function -- */

static th_module *load(source *s, const th_gguf_load_options *given)
{
    th_context *ctx = s->file->ctx;
    th_module *model = NULL;
    s->architecture = th_gguf_architecture_of(s->file);
    if (s->architecture == NULL || th_gguf_read_options(s->file, s->architecture, &s->options) != TH_OK)
        return NULL;
    s->family = th_gguf_family(s->architecture);
    if (compare_shapes(s) == TH_OK)
        model = th_language_model_new(ctx, &s->options);
    if (model && (!given->stored || store_weights(s, model) == TH_OK))
        read_all(s, model);
    th_layers_release(ctx, &s->options);
    if (model == NULL || !th_failed(ctx))
        return model;
    th_module_free(model);
    return NULL;
}

th_module *th_language_model_from_gguf(th_context *ctx, const char *path, const th_gguf_load_options *options)
{
    static const char operation[] = "language_model_from_gguf";
    const th_gguf_load_options given = options ? *options : (th_gguf_load_options){0};
    th_gguf file;
    if (!th_usable_context(ctx, operation) || !th_gguf_open(&file, ctx, operation, path))
        return NULL;
    source s = {.file = &file};
    th_module *model = load(&s, &given);
    th_gguf_close(&file);
    return model;
}
