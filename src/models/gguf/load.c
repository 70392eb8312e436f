/* Loads a language model from a GGUF file. It compares the file with the model that its values describe before that
 * model takes memory. */
#include <string.h>

#include "models/core/context.h"
#include "models/core/modules.h"
#include "models/families/config.h"
#include "models/families/family.h"
#include "models/families/options.h"
#include "models/families/placing.h"
#include "models/families/tensors.h"
#include "models/gguf/blocks.h"
#include "models/gguf/folder.h"
#include "models/gguf/options.h"
#include "tapehead/gguf.h"
#include "tapehead/ops.h"
#include "tapehead/tape.h"

typedef struct source {
    th_gguf *file;
    const th_gguf_architecture *architecture;
    th_family family;
    th_language_model_options options;
    th_gguf_load_options given;
    const th_language_model_options *model; /* the options of the model that is made; NULL: the file's options */
} source;

/* -- comparing -- */

static void compare_tensor(const source *s, const th_foreign_tensor *wanted)
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
        th_gguf_refuse(s->file,
                       "%s has the type %s, which is not supported; F32, F64, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, "
                       "Q2_K to Q6_K, IQ4_NL and IQ4_XS are",
                       wanted->name, t->type->name);
    else if (t->type->numbers > 1 && t->shape.ndim != 2)
        th_gguf_refuse(s->file, "%s has the type %s, which only matrices can have; F32, F64, F16 and BF16 are allowed",
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
                compare_tensor(s, &list.tensor[i]);
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

/* -- frozen models -- */

static th_status list_tensors(const void *user, th_module *model, th_foreign_tensors *list)
{
    const source *s = user;
    return th_foreign_tensors_list(model, &s->family, s->file->operation, false, list);
}

static th_found_tensor find_tensor(const void *user, const char *name)
{
    const source *s = user;
    const th_gguf_tensor *t = th_gguf_find_tensor(s->file, name);
    return (th_found_tensor){t->type->dtype, s->file->descriptor, t->begin};
}

/* Returns a frozen model. The parameters that are not mapped have no values yet. */
static th_module *new_frozen_model(const source *s)
{
    const th_placing placing = {.operation = s->file->operation,
                                .stored = s->given.stored,
                                .type = s->given.type,
                                .no_mapping = s->given.no_mapping,
                                .list = list_tensors,
                                .find = find_tensor,
                                .source = s};
    th_module *model = th_placing_new_model(s->file->ctx, s->model ? s->model : &s->options);
    if (model)
        (void)th_placing_place(&placing, model); /* the error is pending */
    return model;
}

/* -- values -- */

/* Returns the view of the parameter if the tensor can be read into it without another copy; otherwise NULL. */
static th_tensor *direct_view(const th_foreign_tensor *wanted, th_dtype dtype)
{
    th_tensor *view = th_foreign_tensor_view(wanted);
    return view && th_dtype_of(view) == dtype && th_is_contiguous(view) ? view : NULL;
}

/* Reads the tensor into values of its type. */
static th_status read_into(const source *s, const th_gguf_tensor *t, th_tensor *values)
{
    void *data = th_is_shapes_only(s->file->ctx) ? NULL : th_data(values);
    if (data && t->bytes > 0 && th_gguf_read(s->file, t, data) == TH_OK)
        (void)th_gguf_check_blocks(s->file, t, data); /* the error is pending */
    return th_error_code(s->file->ctx);
}

/* Returns the tensor of the file, in its own type. */
static th_tensor *read_tensor(const source *s, const th_gguf_tensor *t)
{
    th_shape shape = t->shape;
    shape.size[shape.ndim - 1] /= t->type->numbers;
    th_tensor *values = th_empty(s->file->ctx, t->type->dtype, shape);
    return read_into(s, t, values) == TH_OK ? values : NULL;
}

static void read_values(const source *s, const th_foreign_tensor *wanted)
{
    th_context *ctx = s->file->ctx;
    const th_gguf_tensor *t = th_gguf_find_tensor(s->file, wanted->name);
    const bool plus_one = s->architecture->norms_plus_one && th_name_ends_with(wanted->name, "norm.weight");
    th_tensor *view = plus_one ? NULL : direct_view(wanted, t->type->dtype);
    if (view) {
        (void)read_into(s, t, view); /* the error is pending */
        return;
    }
    th_scope_begin(ctx, NULL);
    th_tensor *values = read_tensor(s, t);
    if (values && plus_one)
        values = th_add_scalar(th_is_storage_type(t->type->dtype) ? th_cast(values, TH_FLOAT32) : values, -1);
    if (values)
        (void)th_foreign_tensor_set(wanted, values); /* the error is pending */
    th_scope_end(ctx, NULL);
}

/* Checks a tensor that is a part of the file in memory. */
static void check_mapped(const source *s, const th_foreign_tensor *wanted)
{
    if (!th_is_shapes_only(s->file->ctx))
        (void)th_gguf_check_blocks(s->file, th_gguf_find_tensor(s->file, wanted->name), /* the error is pending */
                                   th_data_const(wanted->parameter[0]));
}

static void read_all_values(const source *s, th_module *model)
{
    th_context *ctx = s->file->ctx;
    th_foreign_tensors list;
    th_scope_begin(ctx, NULL);
    th_no_grad_begin(ctx);
    if (th_foreign_tensors_list(model, &s->family, s->file->operation, false, &list) == TH_OK) {
        for (int64_t i = 0; i < list.count && !th_failed(ctx); i++)
            if (th_placing_is_mapped(&list.tensor[i]))
                check_mapped(s, &list.tensor[i]);
            else
                read_values(s, &list.tensor[i]);
        th_foreign_tensors_free(ctx, &list);
    }
    th_no_grad_end(ctx);
    th_scope_end(ctx, NULL);
}

/* -- models -- */

static th_module *new_model(const source *s)
{
    th_context *ctx = s->file->ctx;
    if (s->given.frozen || s->given.stored || th_is_storage_type(s->given.type))
        return new_frozen_model(s);
    th_skip_initialization(ctx, true);
    th_module *model = th_language_model_new(ctx, s->model ? s->model : &s->options);
    th_skip_initialization(ctx, false);
    return model;
}

/* Checks that a model has the file's options, except what matters only in training. */
static th_status check_model(const source *s)
{
    const th_language_model_options is = th_normal_options(s->model), wanted = th_normal_options(&s->options);
    th_option_difference difference[TH_MAX_OPTIONS];
    th_context *ctx = s->file->ctx;
    if (is.layers != wanted.layers)
        return th_fail(ctx, TH_ERROR_ARGUMENT, s->file->operation, "the model's .layers is %lld, %.300s has %lld",
                       (long long)is.layers, s->file->path, (long long)wanted.layers);
    if (th_options_compare(&is, &wanted, difference) > 0)
        return th_fail(ctx, TH_ERROR_ARGUMENT, s->file->operation, "the model's %s is %g, %.300s has %g",
                       difference[0].name, difference[0].a, s->file->path, difference[0].b);
    return TH_OK;
}

/* Reads the options, and compares the file with them. th_options_release releases their arrays in each case. */
static th_status read_description(source *s)
{
    s->architecture = th_gguf_architecture_of(s->file);
    if (s->architecture == NULL || !th_gguf_check_vocabulary(s->file) ||
        th_gguf_read_options(s->file, s->architecture, &s->options) != TH_OK)
        return th_error_code(s->file->ctx);
    s->family = th_gguf_family(s->architecture);
    return s->model ? check_model(s) : TH_OK;
}

static th_module *load_model(source *s)
{
    th_context *ctx = s->file->ctx;
    th_module *model = NULL;
    if (read_description(s) == TH_OK && compare_shapes(s) == TH_OK)
        model = new_model(s);
    if (model && !th_failed(ctx))
        read_all_values(s, model);
    th_options_release(ctx, &s->options);
    if (model == NULL || !th_failed(ctx))
        return model;
    th_module_free(model);
    return NULL;
}

static th_module *load_file(th_context *ctx, const char *operation, const char *path, const th_gguf_load_options *given,
                            const th_language_model_options *model)
{
    th_gguf file;
    source s = {.file = &file, .model = model};
    if (given)
        s.given = *given;
    if (!th_usable_context(ctx, operation))
        return NULL;
    if (s.given.type != TH_FLOAT32 && !th_can_round_to(s.given.type)) {
        th_fail(ctx, TH_ERROR_TYPE, operation, "weights are not stored as %s", th_dtype_name(s.given.type));
        return NULL;
    }
    if (!th_gguf_open(&file, ctx, operation, path))
        return NULL;
    th_module *loaded = load_model(&s);
    th_gguf_close(&file);
    return loaded;
}

th_module *th_language_model_from_gguf(th_context *ctx, const char *path, const th_gguf_load_options *options)
{
    return load_file(ctx, "language_model_from_gguf", path, options, NULL);
}

/* -- in place of a folder: folder.h -- */

th_module *th_gguf_load_as_folder(th_context *ctx, const char *operation, const char *path,
                                  const th_folder_load_options *options)
{
    const th_gguf_load_options given = {options->stored, options->frozen, options->type, options->no_mapping};
    return load_file(ctx, operation, path, &given, options->model);
}

th_status th_gguf_load_into(th_module *model, const char *operation, const char *path)
{
    th_context *ctx = model->ctx;
    th_gguf file;
    source s = {.file = &file, .model = th_language_model_options_of(model)};
    if (!th_gguf_open(&file, ctx, operation, path))
        return th_error_code(ctx);
    if (read_description(&s) == TH_OK && compare_shapes(&s) == TH_OK)
        read_all_values(&s, model);
    th_options_release(ctx, &s.options);
    th_gguf_close(&file);
    return th_error_code(ctx);
}

th_status th_gguf_describe(th_context *ctx, const char *operation, const char *path, th_foreign_config *described)
{
    th_gguf file;
    source s = {.file = &file};
    int64_t end = -1;
    if (!th_gguf_open(&file, ctx, operation, path))
        return th_error_code(ctx);
    if (read_description(&s) == TH_OK && th_gguf_integer(&file, TH_GGUF_END_TOKEN, 0, s.options.vocabulary - 1, &end))
        *described = (th_foreign_config){.family = th_family_find(s.architecture->family),
                                         .options = s.options,
                                         .end_token = end,
                                         .end_tokens = {end},
                                         .n_end_tokens = end >= 0};
    else
        th_options_release(ctx, &s.options);
    th_gguf_close(&file);
    return th_error_code(ctx);
}
