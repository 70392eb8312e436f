/* Loads a checkpoint. Everything is verified and compared before the first number changes. */
#include <string.h>

#include "models/core/context.h"
#include "models/saved_models/checkpoint.h"

/* Opens a checkpoint and verifies its header. Returns NULL with the error pending. */
static th_safetensors *open_checkpoint(th_context *ctx, const char *path, const char *reader)
{
    th_safetensors *file = th_safetensors_open(ctx, path);
    if (file == NULL || th_checksums_verify_header(file, reader) == TH_OK)
        return file;
    th_safetensors_close(file);
    return NULL;
}

static const char operation[] = "checkpoint_load";
/* The operation in messages once numbers change. After the verification only a failing disk can end the load. */
static const char operation_that_changes[] = "checkpoint_load (some numbers may have changed)";

/* -- moments -- */

/* Returns tensor k (training/saved_tensors.h) of a parameter that was updated; NULL if the file does not have it. */
static const th_safetensors_entry *find_moment(const th_safetensors *file, const th_optimizer *o,
                                               const th_listed_parameter *p, int k)
{
    char name[TH_MOMENT_NAME_SIZE], moment[TH_SAVED_NAME_SIZE];
    th_saved_tensor_name(o, p->optimizer_index, k, moment);
    snprintf(name, sizeof name, TH_MOMENT_NAME, moment, p->name);
    return th_safetensors_search(file->by_name, file->count, name);
}

/* Compares tensor k of a parameter. stepped: the file has it, according to its state. */
static void compare_moment(const th_safetensors *file, const th_optimizer *o, const th_listed_parameter *p, int k,
                           bool stepped, th_differences *d)
{
    char name[TH_SAVED_NAME_SIZE];
    const th_safetensors_entry *entry = find_moment(file, o, p, k);
    const th_array ours = th_saved_tensor(o, p->optimizer_index, k);
    th_saved_tensor_name(o, p->optimizer_index, k, name);
    if (!stepped && entry)
        th_report_difference(d, TH_UNEXPECTED, "unexpected: %s of %s, which has taken no step in the file", name,
                             p->name);
    if (!stepped)
        return;
    if (entry == NULL)
        th_report_difference(d, TH_MISSING, "missing: %s of %s", name, p->name);
    else if (entry->type != th_safetensors_type_of(ours.dtype) || entry->tensor.shape.ndim != ours.ndim ||
             memcmp(entry->tensor.shape.size, ours.size, (size_t)ours.ndim * sizeof *ours.size) != 0)
        th_report_difference(d, TH_OTHER_SHAPE, "different shape: %s of %s does not match the parameter", name,
                             p->name);
}

static void compare_moments(const th_safetensors *file, const json_t *state, const th_optimizer *o,
                            const th_parameter_list *list, th_differences *d)
{
    for (int64_t i = 0; i < list->count; i++) {
        const th_listed_parameter *p = &list->parameter[i];
        const bool stepped = th_state_steps(state, p->name) > 0;
        for (int k = 0; p->optimizer_index >= 0 && k < th_saved_tensor_count(o, p->optimizer_index); k++)
            compare_moment(file, o, p, k, stepped, d);
    }
}

/* Reads this process's part of tensor k of a parameter. */
static th_status read_moment(const th_safetensors_entry *entry, const th_optimizer *o, const th_listed_parameter *p,
                             int k)
{
    const th_dtype dtype = th_saved_tensor(o, p->optimizer_index, k).dtype;
    const th_moment_part part = th_saved_tensor_part(o, p->optimizer_index, k);
    const size_t bytes = part.end - part.begin;
    if (bytes == 0)
        return TH_OK;
    const th_status status = th_safetensors_file_read(o->ctx, entry->file, entry->begin + (int64_t)part.begin,
                                                      part.data, bytes, operation_that_changes);
    const th_array read = {
        .data = part.data, .dtype = dtype, .ndim = 1, .size = {(int64_t)(bytes / th_dtype_size(dtype))}, .stride = {1}};
    if (status == TH_OK)
        th_saved_tensor_limit(o, p->optimizer_index, k, &read);
    return status;
}

/* Allocates the moments that the file has. */
static th_status allocate_moments(const json_t *state, th_optimizer *o, const th_parameter_list *list)
{
    for (int64_t i = 0; i < list->count; i++) {
        const th_listed_parameter *p = &list->parameter[i];
        if (p->optimizer_index >= 0)
            o->parameters[p->optimizer_index].has_saved_moments = th_state_steps(state, p->name) > 0;
    }
    return th_moments_ensure(o);
}

static th_status read_moments(const th_safetensors *file, const json_t *state, const th_optimizer *o,
                              const th_parameter_list *list)
{
    for (int64_t i = 0; i < list->count; i++) {
        const th_listed_parameter *p = &list->parameter[i];
        if (p->optimizer_index < 0 || th_state_steps(state, p->name) == 0)
            continue;
        for (int k = 0; k < th_saved_tensor_count(o, p->optimizer_index); k++)
            if (read_moment(find_moment(file, o, p, k), o, p, k) != TH_OK)
                return th_error_code(list->ctx);
    }
    return TH_OK;
}

/* -- parameters that are not in the file -- */

/* Compares frozen parameters with their checksums, if the file has only these. */
static void compare_checksums(const json_t *state, th_parameter_list *list, th_differences *d)
{
    for (int64_t i = 0; i < list->count; i++) {
        th_listed_parameter *p = &list->parameter[i];
        uint32_t crc;
        p->only_checksum = th_state_has_only_checksum(state, p->name, &crc);
        if (p->only_checksum && crc != th_parameter_crc32c(p->tensor))
            th_report_difference(
                d, TH_OTHER_VALUE,
                "different values: %s was frozen and is not in the file; the model must have it as it was then",
                p->name);
    }
}

/* -- the whole checkpoint -- */

typedef struct average_names {
    const json_t *state;
    char name[TH_AVERAGE_NAME_SIZE]; /* the last result of name_of_average */
} average_names;

/* Returns the name of a parameter's average in the file; NULL if the file does not have it. */
static const char *name_of_average(const char *parameter, void *user)
{
    average_names *names = user;
    snprintf(names->name, sizeof names->name, TH_AVERAGE_NAME "%s", parameter);
    return th_state_averaged(names->state, parameter) > 0 ? names->name : NULL;
}

static th_status compare_file(const th_safetensors *file, const json_t *state, const th_checkpoint *c,
                              th_parameter_list *list, const char *path)
{
    static const th_weights_options every_weight = {0};
    average_names names = {.state = state};
    const th_weights_options averages = {.name_in_file = name_of_average, .user = &names};
    const size_t bytes = (size_t)file->count + 1;
    bool *used = th_allocate(list->ctx, bytes);
    if (used == NULL)
        return th_fail_memory(list->ctx, operation, bytes);
    memset(used, 0, bytes);
    th_differences d = {list->ctx, operation, path, c->report, c->report_user, {0}, ""};
    th_state_compare(state, c, list, &d);
    compare_checksums(state, list, &d);
    th_parameter_list_match(list, file, &every_weight, true, used, &d);
    if (c->only_model)
        th_parameter_list_match(list, file, &averages, true, used, &d);
    else
        th_averages_compare(file, state, c, list, &d);
    th_report_unused(file, used, &d);
    if (c->optimizer)
        compare_moments(file, state, c->optimizer, list, &d);
    th_release(list->ctx, used, bytes);
    return th_differences_end(&d);
}

static th_status load_state(const th_safetensors *file, const json_t *state, const th_checkpoint *c,
                            th_parameter_list *list, const char *path)
{
    th_status status = compare_file(file, state, c, list, path);
    if (status == TH_OK) /* (a file that does not fit is not read to its end) */
        status = th_checksums_verify_tensors(file, operation);
    if (status == TH_OK && c->optimizer)
        status = allocate_moments(state, c->optimizer, list);
    if (status == TH_OK)
        status = th_averages_allocate(state, c->average, list, operation);
    if (status == TH_OK)
        status = th_parameter_list_load_values(list, operation_that_changes);
    if (status == TH_OK && c->optimizer)
        status = read_moments(file, state, c->optimizer, list);
    if (status == TH_OK)
        status = th_averages_read(file, state, c->average, list, operation_that_changes);
    if (status == TH_OK)
        status = th_state_restore(state, c, list);
    return status;
}

th_status th_checkpoint_load(const char *path, const th_checkpoint *checkpoint)
{
    const th_checkpoint c = checkpoint ? *checkpoint : (th_checkpoint){0};
    th_parameter_list list;
    th_safetensors *file = NULL;
    json_t *state = NULL;
    th_status status = th_parameter_list_make_for_file(&list, c.model, c.optimizer, path, operation);
    if (status == TH_OK && c.only_model && (c.optimizer || c.average))
        status = th_fail(list.ctx, TH_ERROR_ARGUMENT, operation, "only_model needs no optimizer and no averages");
    if (status == TH_OK)
        status = th_averages_find(&list, c.average, operation);
    if (status == TH_OK)
        status = th_check_numbers(&c, operation);
    if (status == TH_OK && (file = open_checkpoint(list.ctx, path, operation)) == NULL)
        status = th_error_code(list.ctx);
    if (status == TH_OK) {
        const th_json_source source = {list.ctx, operation, path};
        state = th_state_read(&source, th_safetensors_metadata(file, TH_STATE_TEXT));
        status = state ? load_state(file, state, &c, &list, path) : th_error_code(list.ctx);
    }
    json_decref(state);
    th_safetensors_close(file);
    th_parameter_list_end(&list);
    return status;
}

/* -- reading only the configuration, or verifying -- */

typedef struct owned_text {
    size_t bytes;
    char text[];
} owned_text;

static void release_text(th_context *ctx, void *object)
{
    owned_text *copy = object;
    th_release(ctx, copy, copy->bytes);
}

static char *keep_text(th_context *ctx, const char *text, const char *reader)
{
    const size_t length = strlen(text) + 1, bytes = sizeof(owned_text) + length;
    owned_text *copy = th_allocate(ctx, bytes);
    if (copy == NULL || !th_attach_object(ctx, copy, release_text)) {
        th_release(ctx, copy, bytes);
        th_fail_memory(ctx, reader, bytes);
        return NULL;
    }
    copy->bytes = bytes;
    return memcpy(copy->text, text, length);
}

char *th_checkpoint_configuration(th_context *ctx, const char *path)
{
    static const char reader[] = "checkpoint_configuration";
    if (!th_usable_context(ctx, reader))
        return NULL;
    th_safetensors *file = open_checkpoint(ctx, path, reader);
    if (file == NULL)
        return NULL;
    const char *text = th_safetensors_metadata(file, TH_CONFIGURATION_TEXT);
    char *copy = keep_text(ctx, text ? text : "", reader);
    th_safetensors_close(file);
    return copy;
}

th_status th_checkpoint_verify(th_context *ctx, const char *path)
{
    static const char reader[] = "checkpoint_verify";
    if (!th_usable_context(ctx, reader))
        return th_error_code(ctx);
    th_safetensors *file = open_checkpoint(ctx, path, reader);
    const th_status status = file ? th_checksums_verify_tensors(file, reader) : th_error_code(ctx);
    th_safetensors_close(file);
    return status;
}
