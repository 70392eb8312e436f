/* Chooses type and place of the matrices of a frozen model: see placing.h. */
#include "models/families/placing.h"

#include <string.h>

#include "models/core/context.h"
#include "models/core/modules.h"
#include "tapehead/tape.h"

/* Where a matrix will be. */
typedef struct place {
    th_tensor_impl *parameter;
    th_dtype dtype;
    bool mapped;
    th_file_part part;
} place;

/* Blocks begin with two bytes. */
static size_t alignment_of(th_dtype dtype)
{
    return th_dtype_numbers(dtype) > 1 ? 2 : th_dtype_size(dtype);
}

/* -- choosing -- */

/* The tensors of the file that a parameter consists of. */
typedef struct users {
    const th_foreign_tensor *tensor; /* the last one */
    th_found_tensor found;           /* .dtype: the type that all of them have, or TH_DTYPE_COUNT */
    int count;
} users;

static users find_users(const th_placing *how, const th_foreign_tensors *list, const th_tensor *parameter)
{
    users u = {0};
    for (int64_t i = 0; i < list->count; i++)
        for (int at = 0; at < list->tensor[i].places; at++) {
            if (list->tensor[i].parameter[at] != parameter)
                continue;
            const th_dtype before = u.found.dtype;
            u.tensor = &list->tensor[i];
            u.found = how->find(how->source, u.tensor->name);
            if (u.count++ > 0 && u.found.dtype != before)
                u.found.dtype = TH_DTYPE_COUNT;
        }
    return u;
}

/* Returns the type that the iterator's parameter will have. */
static th_dtype type_to_place(const th_placing *how, const th_parameter_iterator *p, th_dtype found)
{
    if (!th_module_can_store(p))
        return th_dtype_of(p->tensor);
    if (th_is_storage_type(how->type))
        return how->type;
    return how->stored && found != TH_DTYPE_COUNT && th_is_storage_type(found) ? found : th_dtype_of(p->tensor);
}

static th_status choose_place(const th_placing *how, const th_foreign_tensors *list, const th_parameter_iterator *p,
                              place *to)
{
    th_tensor_impl *t = th_tensor_impl_of(p->tensor);
    const users u = find_users(how, list, p->tensor);
    *to = (place){.parameter = t, .dtype = type_to_place(how, p, u.found.dtype)};
    to->part = (th_file_part){u.found.descriptor, u.found.begin, th_parameter_bytes(t, to->dtype)};
    if (to->part.bytes == 0 && th_tensor_numel(t) > 0)
        return th_fail(t->ctx, TH_ERROR_SHAPE, how->operation,
                       "%s is %s: the last size must be a multiple of %d to be stored as %s", p->name,
                       TH_SIZES_TEXT(t->ndim, t->size), th_dtype_numbers(to->dtype), th_dtype_name(to->dtype));
    to->mapped = !how->no_mapping && u.count == 1 && th_foreign_tensor_view(u.tensor) == p->tensor &&
                 u.found.dtype == to->dtype && th_part_can_map(&to->part, alignment_of(to->dtype));
    return TH_OK;
}

static bool has_no_memory(const th_parameter_iterator *p)
{
    return th_ndim(p->tensor) >= 2;
}

/* Chooses all places. The views of the list end here: a parameter with views cannot change its type. */
static th_status choose_all_places(const th_placing *how, th_module *model, place *places)
{
    th_foreign_tensors list;
    th_scope_begin(model->ctx, NULL);
    th_status status = how->list(how->source, model, &list);
    if (status == TH_OK) {
        for (th_parameter_iterator p = th_module_parameters(model); status == TH_OK && th_parameter_next(&p);)
            if (has_no_memory(&p))
                status = choose_place(how, &list, &p, places++);
        th_foreign_tensors_free(model->ctx, &list);
    }
    th_scope_end(model->ctx, NULL);
    return status;
}

/* -- placing -- */

/* Maps the part. In a shapes-only context the mapping is only counted. */
static bool map_part(const place *p, th_lent_memory *memory)
{
    *memory = (th_lent_memory){0};
    return th_is_shapes_only(p->parameter->ctx) || th_part_map(&p->part, memory);
}

static th_status lend_memory(const place *p, const th_lent_memory *memory, const char *operation)
{
    const th_status status = th_parameter_lend(p->parameter, p->dtype, memory, operation);
    if (status != TH_OK && memory->data)
        memory->release(memory->data, p->part.bytes);
    return status;
}

/* The matrices that are not mapped are in one block for each type, which is exactly as large as they are. */
static th_status place_all(const th_placing *how, const place *places, int64_t count)
{
    size_t left[TH_DTYPE_COUNT] = {0};
    th_status status = TH_OK;
    for (int64_t i = 0; i < count; i++)
        left[places[i].dtype] += places[i].mapped ? 0 : places[i].part.bytes;
    for (int64_t i = 0; i < count && status == TH_OK; i++) {
        const place *p = &places[i];
        th_lent_memory memory;
        if (p->mapped && map_part(p, &memory)) {
            status = lend_memory(p, &memory, how->operation);
            continue;
        }
        status = th_parameter_allocate(p->parameter, p->dtype, left[p->dtype], how->operation);
        left[p->dtype] -= p->mapped ? 0 : p->part.bytes;
    }
    return status;
}

th_module *th_placing_new_model(th_context *ctx, const th_language_model_options *options)
{
    th_skip_initialization(ctx, true);
    th_defer_matrix_memory(ctx, true);
    th_module *model = th_language_model_new(ctx, options);
    th_defer_matrix_memory(ctx, false);
    th_skip_initialization(ctx, false);
    if (model && th_module_freeze(model, true) != TH_OK) {
        th_module_free(model);
        return NULL;
    }
    return model;
}

th_status th_placing_place(const th_placing *how, th_module *model)
{
    th_context *ctx = model->ctx;
    int64_t count = 0;
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
        count += has_no_memory(&p);
    const size_t bytes = (size_t)count * sizeof(place);
    place *places = th_allocate(ctx, bytes);
    if (places == NULL && count > 0)
        return th_fail_memory(ctx, how->operation, bytes);
    th_status status = choose_all_places(how, model, places);
    th_skip_initialization(ctx, true);
    if (status == TH_OK)
        status = place_all(how, places, count);
    th_skip_initialization(ctx, false);
    th_release(ctx, places, bytes);
    return status;
}

bool th_placing_is_mapped(const th_foreign_tensor *t)
{
    return th_foreign_tensor_view(t) && th_parameter_is_lent(th_tensor_impl_of(t->parameter[0]));
}
