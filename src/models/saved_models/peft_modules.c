/* The modules of transformers that our projections are, by the tables of the model's family. */
#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/families/options.h"
#include "models/families/tensors.h"
#include "models/saved_models/hugging_face.h"
#include "models/saved_models/peft.h"
#include "tapehead/ops.h"
#include "tapehead/tensor.h"

/* -- one projection -- */

/* Writes the full name of the projection's parameter. */
static void parameter_name(const th_projection *p, char name[TH_FULL_NAME_SIZE])
{
    const bool attention = p->joint_name[0] != 0;
    const bool packed = attention && th_size(p->weight, 0) > p->rows;
    snprintf(name, TH_FULL_NAME_SIZE, "%.*s%s", TH_FULL_NAME_SIZE - 16, packed ? p->joint_name : p->name,
             attention ? "_weight" : ".weight");
}

/* Returns whether the view has the projection's rows. */
static bool covers(th_foreign_view view, const th_projection *p)
{
    switch (view) {
    case TH_VIEW_QUERY:
        return th_name_ends_with(p->name, ".q_proj");
    case TH_VIEW_KEY:
        return th_name_ends_with(p->name, ".k_proj");
    case TH_VIEW_VALUE:
        return th_name_ends_with(p->name, ".v_proj");
    case TH_VIEW_WHOLE:
    case TH_VIEW_TRANSPOSED:
    case TH_VIEW_BY_HEAD:
        break;
    }
    return true;
}

/* Finds the module of slice->projection in the family's tables. */
static bool find_module(const th_family *family, int64_t heads, th_peft_slice *slice)
{
    static const char end[] = ".weight";
    char parameter[TH_FULL_NAME_SIZE];
    parameter_name(&slice->projection, parameter);
    if (slice->projection.classifier && family->other_classifier) { /* transformers renames it when it reads the file */
        snprintf(slice->module, sizeof slice->module, "%.*s", (int)(strlen(family->other_classifier) - strlen(end)),
                 family->other_classifier);
        return true;
    }
    for (int i = 0; i < 3; i++)
        for (const th_tensor_name *n = family->tensors[i]; n && n->ours; n++) {
            if (!th_foreign_name(n, parameter, slice->module) || !covers(n->view, &slice->projection) ||
                !th_name_ends_with(slice->module, end))
                continue;
            slice->module[strlen(slice->module) - strlen(end)] = 0;
            slice->place = n->place;
            slice->heads = n->view == TH_VIEW_BY_HEAD ? heads : 0;
            return true;
        }
    return false;
}

/* Sets whether the rows of queries and keys have another order in the file. */
static void set_order(const th_language_model_options *o, bool neighbors, th_peft_slice *slice)
{
    static const char layers[] = "layers.";
    const char *name = slice->projection.name;
    if ((!th_name_ends_with(name, ".q_proj") && !th_name_ends_with(name, ".k_proj")) ||
        strncmp(name, layers, strlen(layers)) != 0)
        return;
    const th_score_options *scores = th_scores_of_layer(o, strtoll(name + strlen(layers), NULL, 10));
    if (!scores->rotary || neighbors == (scores->rotary_pairing == TH_ROTARY_NEIGHBORS))
        return;
    const int64_t width = o->block.head_width;
    slice->halves = (th_halves){slice->projection.rows, width, scores->rotary_width > 0 ? scores->rotary_width : width};
    slice->to_neighbors = neighbors;
}

/* -- all projections -- */

static int compare_slices(const void *a, const void *b)
{
    const th_peft_slice *x = a, *y = b;
    const int order = strcmp(x->module, y->module);
    if (order != 0)
        return order;
    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    return (x->projection.begin > y->projection.begin) - (x->projection.begin < y->projection.begin);
}

th_status th_peft_check_model(th_module *model, const char *folder, const char *operation)
{
    if (!th_module_usable(model, operation))
        return model ? th_error_code(model->ctx) : TH_ERROR_ARGUMENT;
    if (folder == NULL)
        return th_fail(model->ctx, TH_ERROR_ARGUMENT, operation, "the folder is NULL");
    if (th_is_shapes_only(model->ctx))
        return th_fail(model->ctx, TH_ERROR_STATE, operation, "a shapes-only context has no values");
    if (th_require_language_model(model, operation) == NULL)
        return th_error_code(model->ctx);
    return th_refuse_in_check(model->ctx, operation);
}

th_status th_peft_slices_list(th_module *model, const th_family *family, bool neighbors, const char *operation,
                              th_peft_slices *list)
{
    th_context *ctx = model->ctx;
    const th_language_model_options *options = th_language_model_options_of(model);
    *list = (th_peft_slices){0};
    for (th_projection p = th_projections_begin(model); th_projection_next(&p);)
        list->count++;
    list->bytes = (size_t)(list->count + 1) * sizeof *list->slice;
    list->slice = th_allocate(ctx, list->bytes);
    if (list->slice == NULL)
        return th_fail_memory(ctx, operation, list->bytes);
    th_peft_slice *slice = list->slice;
    for (th_projection p = th_projections_begin(model); th_projection_next(&p); slice++) {
        *slice = (th_peft_slice){.projection = p};
        if (!find_module(family, options->heads, slice)) {
            th_peft_slices_end(ctx, list);
            return TH_OK;
        }
        set_order(options, neighbors, slice);
    }
    qsort(list->slice, (size_t)list->count, sizeof *list->slice, compare_slices);
    return TH_OK;
}

void th_peft_slices_end(th_context *ctx, th_peft_slices *list)
{
    th_release(ctx, list->slice, list->bytes);
    *list = (th_peft_slices){0};
}

int64_t th_peft_module_end(const th_peft_slices *list, int64_t first)
{
    int64_t end = first + 1;
    while (end < list->count && strcmp(list->slice[end].module, list->slice[first].module) == 0)
        end++;
    return end;
}

int64_t th_peft_module_find(const th_peft_slices *list, const char *module)
{
    int64_t low = 0, high = list->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (strcmp(list->slice[middle].module, module) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < list->count && strcmp(list->slice[low].module, module) == 0 ? low : -1;
}

/* -- the order of rows -- */

enum { QKV = 3 };

/* Returns rows (outer inner n, columns) as (inner outer n, columns). */
static th_tensor *swap_groups(th_tensor *rows, int64_t outer, int64_t inner)
{
    const th_shape shape = th_shape_of(rows);
    th_tensor *groups = th_reshape(rows, TH_SHAPE(outer, inner, shape.size[0] / (outer * inner), shape.size[1]));
    return th_reshape(th_swap_axes(groups, 0, 1), shape);
}

th_tensor *th_peft_rows_to_module(const th_peft_slice *slice, th_tensor *rows)
{
    return slice->heads && rows ? swap_groups(rows, QKV, slice->heads) : rows;
}

th_tensor *th_peft_rows_from_module(const th_peft_slice *slice, th_tensor *rows)
{
    return slice->heads && rows ? swap_groups(rows, slice->heads, QKV) : rows;
}

th_tensor *th_peft_rows_to_file(const th_peft_slice *slice, th_tensor *rows)
{
    if (slice->halves.rows == 0 || rows == NULL)
        return rows;
    return slice->to_neighbors ? th_halves_undo(rows, &slice->halves) : th_halves_order(rows, &slice->halves);
}

th_tensor *th_peft_rows_to_model(const th_peft_slice *slice, th_tensor *rows)
{
    if (slice->halves.rows == 0 || rows == NULL)
        return rows;
    return slice->to_neighbors ? th_halves_order(rows, &slice->halves) : th_halves_undo(rows, &slice->halves);
}
