/* Attaches the adapters in a folder of PEFT to a language model. */
#include <string.h>

#include "models/core/context.h"
#include "models/core/tensors.h"
#include "models/saved_models/hugging_face.h"
#include "models/saved_models/peft.h"
#include "tapehead/ops.h"
#include "tapehead/peft.h"
#include "tapehead/safetensors.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"

static const char operation[] = "lora_load";

typedef struct loading {
    th_context *ctx;
    char path[TH_MAX_PATH]; /* of the weights */
    th_peft_config config;
    th_safetensors *file;
    const th_family *family;
    th_peft_slices slices;
} loading;

/* -- names -- */

typedef enum tensor_kind { A, B, BASE, OTHER } tensor_kind;

/* Splits a tensor's name into its module and its kind. */
static tensor_kind split_name(const char *name, char module[TH_FULL_NAME_SIZE])
{
    static const char *const ends[] = {TH_PEFT_A, TH_PEFT_B, TH_PEFT_BASE};
    const size_t prefix = strlen(TH_PEFT_PREFIX), length = strlen(name);
    for (int kind = A; kind < OTHER && strncmp(name, TH_PEFT_PREFIX, prefix) == 0; kind++) {
        const size_t end = strlen(ends[kind]);
        if (length <= prefix + end || !th_name_ends_with(name, ends[kind]) ||
            length - prefix - end >= TH_FULL_NAME_SIZE)
            continue;
        snprintf(module, TH_FULL_NAME_SIZE, "%.*s", (int)(length - prefix - end), name + prefix);
        return (tensor_kind)kind;
    }
    return OTHER;
}

/* Quotes a name for a message, without the prefix that all names have. */
static const char *quote_name(const char *name, char quoted[TH_QUOTED])
{
    const size_t prefix = strlen(TH_PEFT_PREFIX);
    return th_quote(strncmp(name, TH_PEFT_PREFIX, prefix) == 0 ? name + prefix : name, quoted);
}

static void make_name(char name[TH_PEFT_NAME_SIZE], const char *module, const char *end)
{
    snprintf(name, TH_PEFT_NAME_SIZE, TH_PEFT_PREFIX "%s%s", module, end);
}

static const th_stored_tensor *find_tensor(const loading *l, const char *module, const char *end)
{
    char name[TH_PEFT_NAME_SIZE];
    make_name(name, module, end);
    return th_safetensors_find(l->file, name);
}

/* Returns the number of the file's tensors that belong to no listed module. Sets *first to the first of them. */
static int64_t count_unknown(const loading *l, const th_peft_slices *slices, const char **first)
{
    int64_t count = 0;
    for (int64_t i = 0; i < th_safetensors_count(l->file); i++) {
        const char *name = th_safetensors_at(l->file, i)->name;
        char module[TH_FULL_NAME_SIZE];
        if (split_name(name, module) != OTHER && th_peft_module_find(slices, module) >= 0)
            continue;
        *first = count == 0 ? name : *first;
        count++;
    }
    return count;
}

/* Lists the projections under the names of the first family that has a module for each tensor of the file. */
static th_status choose_family(loading *l, th_module *model)
{
    const char *unknown = "", *fewest_unknown = "";
    const th_family *closest = NULL;
    int64_t fewest = INT64_MAX;
    char quoted[TH_QUOTED];
    for (int i = 0; i < TH_FAMILIES; i++) {
        if (th_peft_slices_list(model, th_families[i], false, operation, &l->slices) != TH_OK)
            return th_error_code(l->ctx);
        const int64_t count = count_unknown(l, &l->slices, &unknown);
        if (l->slices.count > 0 && count == 0) {
            l->family = th_families[i];
            return TH_OK;
        }
        if (l->slices.count > 0 && count < fewest) {
            fewest = count;
            fewest_unknown = unknown;
            closest = th_families[i];
        }
        th_peft_slices_end(l->ctx, &l->slices);
    }
    return th_fail(l->ctx, TH_ERROR_FILE, operation, "%.300s: \"%s\" is not A or B of a projection of this model (%s)",
                   l->path, quote_name(fewest_unknown, quoted), closest ? closest->title : "no family");
}

/* -- checks -- */

static th_status check_shape(const loading *l, const th_stored_tensor *t, const char *missing, int64_t rows,
                             int64_t columns)
{
    char quoted[TH_QUOTED];
    if (t == NULL)
        return th_fail(l->ctx, TH_ERROR_FILE, operation, "%.300s: \"%s\" is missing", l->path,
                       quote_name(missing, quoted));
    if (t->shape.ndim == 2 && t->shape.size[0] == rows && t->shape.size[1] == columns && th_is_floating(t->dtype) &&
        t->readable)
        return TH_OK;
    return th_fail(l->ctx, TH_ERROR_FILE, operation, "%.300s: \"%s\" is %s %s, but must be floating and (%lld, %lld)",
                   l->path, quote_name(t->name, quoted), t->type, TH_SIZES_TEXT(t->shape.ndim, t->shape.size),
                   (long long)rows, (long long)columns);
}

/* Compares the copy of the base's weight that PEFT writes beside the adapter of a classifier. whole: the module is one
 * projection; PEFT writes no copy of others. */
static th_status check_base(const loading *l, const th_peft_slice *slice, bool whole)
{
    const th_stored_tensor *stored = find_tensor(l, slice->module, TH_PEFT_BASE);
    char quoted[TH_QUOTED];
    if (stored == NULL)
        return TH_OK;
    if (!whole)
        return th_fail(l->ctx, TH_ERROR_FILE, operation, "%.300s: \"%s\" is not supported", l->path,
                       quote_name(stored->name, quoted));
    th_tensor *weight = slice->projection.weight;
    th_tensor *copy = th_safetensors_read(l->file, stored->name);
    copy = copy && th_dtype_of(copy) != th_dtype_of(weight) ? th_cast(copy, th_dtype_of(weight)) : copy;
    if (copy == NULL)
        return th_error_code(l->ctx);
    const th_shape a = th_shape_of(copy), b = th_shape_of(weight);
    const size_t bytes = (size_t)th_numel(weight) * th_dtype_size(th_dtype_of(weight));
    if (a.ndim == b.ndim && memcmp(a.size, b.size, (size_t)a.ndim * sizeof *a.size) == 0 &&
        memcmp(th_data_const(copy), th_data_const(weight), bytes) == 0)
        return TH_OK;
    return th_fail(l->ctx, TH_ERROR_FILE, operation, "%.300s: \"%s\" differs from the model's weight", l->path,
                   quote_name(stored->name, quoted));
}

/* Checks the tensors of the module whose slices are first to end - 1. */
static th_status check_module(const loading *l, int64_t first, int64_t end)
{
    const th_peft_slice *slice = &l->slices.slice[first];
    const th_lora_setting setting = th_peft_setting_of(&l->config, slice->module);
    char name[TH_PEFT_NAME_SIZE];
    int64_t rows = 0;
    for (int64_t i = first; i < end; i++)
        rows += l->slices.slice[i].projection.rows;
    make_name(name, slice->module, TH_PEFT_A);
    if (check_shape(l, find_tensor(l, slice->module, TH_PEFT_A), name, setting.rank, slice->projection.input) != TH_OK)
        return th_error_code(l->ctx);
    make_name(name, slice->module, TH_PEFT_B);
    if (check_shape(l, find_tensor(l, slice->module, TH_PEFT_B), name, rows, setting.rank) != TH_OK)
        return th_error_code(l->ctx);
    for (int64_t i = first; i < end; i++) {
        const th_module *owner = l->slices.slice[i].projection.owner;
        if (th_lora_may_be_ignored(owner))
            return th_fail(l->ctx, TH_ERROR_ARGUMENT, operation,
                           "the forward of the %s with %s was replaced, and might not run the adapter", owner->type,
                           l->slices.slice[i].projection.name);
    }
    return check_base(l, slice, end - first == 1);
}

/* Returns whether the file has a tensor of the slice's module. */
static bool is_in_file(const loading *l, int64_t slice)
{
    const char *module = l->slices.slice[slice].module;
    return find_tensor(l, module, TH_PEFT_A) || find_tensor(l, module, TH_PEFT_B) ||
           find_tensor(l, module, TH_PEFT_BASE);
}

static th_status check_modules(const loading *l)
{
    int64_t found = 0;
    for (int64_t first = 0, end; first < l->slices.count; first = end) {
        end = th_peft_module_end(&l->slices, first);
        if (!is_in_file(l, first))
            continue;
        found++;
        if (check_module(l, first, end) != TH_OK)
            return th_error_code(l->ctx);
    }
    return found ? TH_OK : th_fail(l->ctx, TH_ERROR_FILE, operation, "%.300s: it has no adapter", l->path);
}

/* -- attaching -- */

static th_tensor *read_tensor(const loading *l, const char *module, const char *end)
{
    char name[TH_PEFT_NAME_SIZE];
    make_name(name, module, end);
    return th_safetensors_read(l->file, name);
}

static th_status attach_module(const loading *l, int64_t first, int64_t end)
{
    const th_peft_slice *slice = &l->slices.slice[first];
    const th_lora_setting setting = th_peft_setting_of(&l->config, slice->module);
    th_tensor *shared = NULL, *a = read_tensor(l, slice->module, TH_PEFT_A),
              *b = th_peft_rows_from_module(slice, read_tensor(l, slice->module, TH_PEFT_B));
    for (int64_t i = first, row = 0; i < end; i++) {
        const th_projection *p = &l->slices.slice[i].projection;
        const th_lora *lora = th_lora_attach_to(p, &setting, shared);
        if (lora == NULL || (shared == NULL && th_copy_into(lora->a, a) != TH_OK) ||
            th_copy_into(lora->b, th_peft_rows_to_model(&l->slices.slice[i], th_slice(b, 0, row, row + p->rows, 1))) !=
                TH_OK)
            return th_error_code(l->ctx);
        shared = lora->a;
        row += p->rows;
    }
    return TH_OK;
}

static th_status attach_modules(const loading *l)
{
    for (int64_t first = 0, end; first < l->slices.count; first = end) {
        end = th_peft_module_end(&l->slices, first);
        if (!is_in_file(l, first))
            continue;
        th_scope_begin(l->ctx, NULL);
        const th_status status = attach_module(l, first, end);
        th_scope_end(l->ctx, NULL);
        if (status != TH_OK)
            return status;
    }
    return TH_OK;
}

/* -- the folder -- */

static th_status open_folder(loading *l, const char *folder)
{
    char path[TH_MAX_PATH];
    if (!th_hugging_face_path(l->ctx, operation, folder, TH_PEFT_CONFIG, path) ||
        !th_hugging_face_path(l->ctx, operation, folder, TH_PEFT_WEIGHTS, l->path) ||
        th_peft_config_read(l->ctx, operation, path, &l->config) != TH_OK)
        return th_error_code(l->ctx);
    l->file = th_safetensors_open(l->ctx, l->path);
    return th_error_code(l->ctx);
}

/* Checks the tensors, and attaches the adapters without recording. */
static void check_and_attach(const loading *l, th_module *model)
{
    th_scope_begin(l->ctx, NULL);
    th_no_grad_begin(l->ctx);
    th_status status = check_modules(l);
    if (status == TH_OK) {
        status = attach_modules(l);
        if (status == TH_OK)
            th_lora_freeze_base(model);
        else
            th_lora_remove_all(model);
    }
    th_no_grad_end(l->ctx);
    th_scope_end(l->ctx, NULL);
}

th_status th_lora_load(th_module *model, const char *folder)
{
    if (th_peft_check_model(model, folder, operation) != TH_OK)
        return model ? th_error_code(model->ctx) : TH_ERROR_ARGUMENT;
    loading l = {.ctx = model->ctx};
    th_projection adapted = th_projections_begin(model);
    if (th_projection_next_adapted(&adapted))
        return th_fail(l.ctx, TH_ERROR_STATE, operation,
                       "%s has an adapter already: a projection has at most one (th_lora_detach)", adapted.name);
    if (open_folder(&l, folder) == TH_OK && choose_family(&l, model) == TH_OK)
        check_and_attach(&l, model);
    th_safetensors_close(l.file);
    th_peft_slices_end(l.ctx, &l.slices);
    th_peft_config_end(l.ctx, &l.config);
    return th_error_code(l.ctx);
}
