/* Maps our parameters to the tensors of a family's files by the family's tables. */
#include "models/families/tensors.h"

#include <stdio.h>
#include <string.h>

#include "models/core/context.h"
#include "models/core/tensors.h"
#include "tapehead/ops.h"
#include "tapehead/tape.h"

/* -- one parameter -- */

/* Whether `ours`, with its *, matches name. Sets *number to the start of the layer's index, *digits to its length. */
static bool matches_pattern(const char *ours, const char *name, const char **number, int *digits)
{
    const char *star = strchr(ours, '*');
    *number = "", *digits = 0;
    if (star == NULL)
        return strcmp(ours, name) == 0;
    const size_t before = (size_t)(star - ours);
    if (strncmp(ours, name, before) != 0)
        return false;
    *number = name + before;
    *digits = (int)strspn(*number, "0123456789");
    return *digits > 0 && strcmp(star + 1, *number + *digits) == 0;
}

static void put_name(const char *theirs, const char *number, int digits, char *name)
{
    const char *star = strchr(theirs, '*');
    if (star)
        snprintf(name, TH_FULL_NAME_SIZE, "%.*s%.*s%s", (int)(star - theirs), theirs, digits, number, star + 1);
    else
        snprintf(name, TH_FULL_NAME_SIZE, "%s", theirs);
}

bool th_foreign_name(const th_tensor_name *n, const char *ours, char theirs[TH_FULL_NAME_SIZE])
{
    const char *number;
    int digits;
    if (!matches_pattern(n->ours, ours, &number, &digits))
        return false;
    put_name(n->theirs, number, digits, theirs);
    return true;
}

static th_tensor *make_view(th_tensor *parameter, th_foreign_view view, int64_t queries)
{
    if (view == TH_VIEW_WHOLE || view == TH_VIEW_BY_HEAD)
        return parameter;
    if (view == TH_VIEW_TRANSPOSED) /* storage types have no transposed views */
        return th_is_storage_type(th_dtype_of(parameter)) ? parameter : th_swap_axes(parameter, 0, 1);
    const int64_t rows = th_size(parameter, 0), each = (rows - queries) / 2;
    const int64_t begin = view == TH_VIEW_QUERY ? 0 : queries + (view == TH_VIEW_KEY ? 0 : each);
    return th_slice(parameter, 0, begin, begin + (view == TH_VIEW_QUERY ? queries : each), 1);
}

/* -- all parameters -- */

typedef struct listing {
    const th_family *family;
    const th_language_model_options *options;
    bool to_halves;
    th_foreign_tensors *list;
    char (*names)[TH_FULL_NAME_SIZE]; /* NULL: only counts */
    int64_t begin;                    /* of the tensors of the layer that `layer` names */
    char layer[TH_FULL_NAME_SIZE];    /* its index as digits; "" before and after the layers */
} listing;

/* Returns the tensor of the layer that has this name, or a new one. */
static th_foreign_tensor *tensor_named(listing *l, const char *name)
{
    for (int64_t i = l->begin; i < l->list->count; i++)
        if (strcmp(l->names[i], name) == 0)
            return &l->list->tensor[i];
    th_foreign_tensor *t = &l->list->tensor[l->list->count];
    strcpy(l->names[l->list->count], name);
    *t = (th_foreign_tensor){.name = l->names[l->list->count++]};
    return t;
}

static void enter_layer(listing *l, const char *number, int digits)
{
    if ((int)strlen(l->layer) == digits && strncmp(l->layer, number, (size_t)digits) == 0)
        return;
    snprintf(l->layer, sizeof l->layer, "%.*s", digits, number);
    l->begin = l->list->count;
}

/* Returns the rows of a view whose order changes. No family has transposed views and rotary positions. */
static th_halves halves_of_view(th_halves parameter, const th_tensor *view, th_foreign_view kind)
{
    if (parameter.rows > 0 && (kind == TH_VIEW_QUERY || kind == TH_VIEW_KEY))
        parameter.rows = th_size(view, 0);
    else if (kind == TH_VIEW_VALUE || kind == TH_VIEW_TRANSPOSED)
        parameter.rows = 0;
    return parameter;
}

static void add_view(listing *l, const th_tensor_name *n, const char *number, int digits,
                     const th_parameter_iterator *p)
{
    char name[TH_FULL_NAME_SIZE];
    put_name(n->theirs, number, digits, name);
    enter_layer(l, number, digits);
    th_foreign_tensor *t = tensor_named(l, name);
    t->parameter[n->place] = p->tensor;
    t->view[n->place] = make_view(p->tensor, n->view, l->options->heads * l->options->block.head_width);
    if (l->to_halves)
        t->halves[n->place] = halves_of_view(th_halves_of(p, l->options), t->view[n->place], n->view);
    if (t->places <= n->place)
        t->places = n->place + 1;
    t->transposed = n->view == TH_VIEW_TRANSPOSED;
    if (n->view == TH_VIEW_BY_HEAD)
        t->heads = l->options->heads;
}

/* Adds every view of a parameter that a table names, or counts them. Returns their number. */
static int add_views(listing *l, const th_tensor_name *table, const th_parameter_iterator *p)
{
    int found = 0;
    for (const th_tensor_name *n = table; n && n->ours; n++) {
        const char *number;
        int digits;
        if (!matches_pattern(n->ours, p->name, &number, &digits))
            continue;
        if (l->names)
            add_view(l, n, number, digits, p);
        found++;
    }
    return found;
}

static int add_parameter(listing *l, const th_parameter_iterator *p)
{
    const th_family_head *head = th_family_head_find(l->family, l->options->head.kind);
    int found = add_views(l, head ? head->tensors : NULL, p);
    for (int i = 0; i < 4; i++)
        found += add_views(l, l->family->tensors[i], p);
    return found;
}

/* Counts the views. A parameter without a name is an error. */
static th_status count_views(th_module *model, listing *l, const char *operation, int64_t *count)
{
    *count = 0;
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);) {
        const int found = add_parameter(l, &p);
        *count += found;
        if (found == 0)
            return th_fail(model->ctx, TH_ERROR_ARGUMENT, operation,
                           "the model has a parameter %s, which %s does not have in transformers", p.name,
                           l->family->title);
    }
    return TH_OK;
}

static void set_shape(th_foreign_tensor *t)
{
    t->shape = th_shape_of(t->view[0]);
    for (int i = 1; i < t->places; i++)
        t->shape.size[0] += th_size(t->view[i], 0);
}

th_status th_foreign_tensors_list(th_module *model, const th_family *family, const char *operation, bool to_halves,
                                  th_foreign_tensors *list)
{
    th_context *ctx = model->ctx;
    listing l = {family, th_language_model_options_of(model), to_halves, list, NULL, 0, ""};
    int64_t count;
    *list = (th_foreign_tensors){0};
    if (count_views(model, &l, operation, &count) != TH_OK)
        return th_error_code(ctx);
    list->bytes = (size_t)count * (sizeof(th_foreign_tensor) + TH_FULL_NAME_SIZE);
    list->tensor = th_allocate(ctx, list->bytes);
    if (list->tensor == NULL)
        return th_fail_memory(ctx, operation, list->bytes);
    l.names = (char(*)[TH_FULL_NAME_SIZE])(list->tensor + count);
    th_no_grad_begin(ctx);
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
        add_parameter(&l, &p);
    th_no_grad_end(ctx);
    for (int64_t i = 0; i < list->count && !th_failed(ctx); i++)
        set_shape(&list->tensor[i]);
    if (th_failed(ctx))
        th_foreign_tensors_free(ctx, list);
    return th_error_code(ctx);
}

void th_foreign_tensors_free(th_context *ctx, th_foreign_tensors *list)
{
    th_release(ctx, list->tensor, list->bytes);
    *list = (th_foreign_tensors){0};
}

/* -- values -- */

th_tensor *th_foreign_tensor_view(const th_foreign_tensor *t)
{
    return t->places == 1 && t->heads == 0 && t->halves[0].rows == 0 ? t->view[0] : NULL;
}

/* Returns x, whose rows are `outer` times `inner` groups, with the rows of its groups in the other order. */
static th_tensor *swap_groups(th_tensor *x, int64_t outer, int64_t inner)
{
    const th_shape shape = th_shape_of(x);
    const int64_t rest = shape.ndim == 2 ? shape.size[1] : 1;
    th_tensor *groups = th_reshape(x, TH_SHAPE(outer, inner, shape.size[0] / (outer * inner), rest));
    return th_reshape(th_swap_axes(groups, 0, 1), shape);
}

th_tensor *th_foreign_tensor_view_values(const th_foreign_tensor *t, int place)
{
    th_tensor *view = t->view[place];
    if (t->halves[place].rows == 0)
        return view;
    return th_halves_order(th_is_storage_type(th_dtype_of(view)) ? th_cast(view, TH_FLOAT32) : view, &t->halves[place]);
}

/* Whether the view is of a stored parameter that the file has transposed. */
static bool needs_transpose(const th_foreign_tensor *t)
{
    return t->transposed && th_is_storage_type(th_dtype_of(t->view[0]));
}

th_shape th_foreign_tensor_numbers(const th_foreign_tensor *t)
{
    th_shape shape = t->shape;
    shape.size[shape.ndim - 1] *= th_dtype_numbers(th_dtype_of(t->view[0]));
    if (needs_transpose(t)) {
        const int64_t rows = shape.size[0];
        shape.size[0] = shape.size[1];
        shape.size[1] = rows;
    }
    return shape;
}

/* Returns the floating type that has the values of all views. */
static th_dtype floating_type(const th_foreign_tensor *t)
{
    for (int i = 0; i < t->places; i++)
        if (th_dtype_of(t->view[i]) == TH_FLOAT64)
            return TH_FLOAT64;
    return TH_FLOAT32;
}

/* Returns the values in the order of the file. They are converted first: no operation reorders storage types. */
static th_tensor *ordered_values(const th_foreign_tensor *t)
{
    th_tensor *views[TH_MAX_PLACES];
    for (int i = 0; i < t->places; i++)
        views[i] = th_cast(th_foreign_tensor_view_values(t, i), floating_type(t));
    if (t->heads > 0)
        return swap_groups(views[0], 3, t->heads);
    if (needs_transpose(t))
        return th_swap_axes(views[0], 0, 1);
    return t->places == 1 ? views[0] : th_concat(views, t->places, 0);
}

th_tensor *th_foreign_tensor_values(const th_foreign_tensor *t, th_dtype type)
{
    th_tensor *view = th_foreign_tensor_view(t);
    const bool as_it_is = view && th_dtype_of(view) == type && !needs_transpose(t);
    return as_it_is ? view : th_cast(ordered_values(t), type);
}

th_status th_foreign_tensor_set(const th_foreign_tensor *t, th_tensor *values)
{
    if (t->heads > 0)
        return th_copy_into(t->view[0], swap_groups(values, t->heads, 3));
    th_status status = TH_OK;
    for (int64_t i = 0, row = 0; i < t->places && status == TH_OK; i++) {
        const int64_t end = row + th_size(t->view[i], 0);
        status = th_copy_into(t->view[i], th_slice(values, 0, row, end, 1));
        row = end;
    }
    return status;
}
