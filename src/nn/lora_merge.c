/* Merges adapters into their weights, and restores the weights. */
#include <string.h>

#include "kernels/dtype.h"
#include "nn/lora.h"
#include "tapehead/lora.h"
#include "tapehead/ops.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"
#include "tensor/context.h"
#include "tensor/parameter.h"

/* The bytes of a projection's weight. */
typedef struct weight_rows {
    char *data; /* NULL in a shapes-only context */
    size_t bytes;
} weight_rows;

static weight_rows weight_rows_of(const th_projection *p)
{
    const th_tensor_impl *t = th_tensor_impl_of(p->weight);
    const size_t row = (size_t)p->input * th_dtype_size(t->dtype);
    char *data = th_tensor_data(t);
    return (weight_rows){data ? data + (size_t)p->begin * row : NULL, (size_t)p->rows * row};
}

/* Begins a function on the adapters below m. Returns false, with the error pending, unless there are adapters and all
 * of them are merged, or all not merged, as `merged` says. */
static bool begin_operation(th_module *m, bool merged, const char *operation)
{
    if (!th_module_usable(m, operation) || th_refuse_in_check(m->ctx, operation) != TH_OK)
        return false;
    int64_t count = 0;
    for (th_projection p = th_projections_begin(m); th_projection_next_adapted(&p); count++)
        if ((*p.lora)->base.state->hidden != merged) {
            th_fail(m->ctx, TH_ERROR_STATE, operation, "the adapter of %s is %s", p.name,
                    merged ? "not merged" : "merged already");
            return false;
        }
    if (count == 0)
        th_fail(m->ctx, TH_ERROR_STATE, operation, "%s has no adapter", m->type);
    return count > 0;
}

/* -- merging -- */

static const char merge_operation[] = "lora_merge";

static th_status check_weight(const th_projection *p)
{
    th_context *ctx = p->owner->ctx;
    const th_tensor_impl *t = th_tensor_impl_of(p->weight);
    if (th_is_storage_type(t->dtype))
        return th_fail(ctx, TH_ERROR_TYPE, merge_operation,
                       "%s is stored as %s, which would round the sum: th_module_store can store float32 again",
                       p->name, th_dtype_name(t->dtype));
    if (th_parameter_entry_of(t)->owners > 1)
        return th_fail(ctx, TH_ERROR_ARGUMENT, merge_operation,
                       "the weight of %s is tied to another module, which would change too", p->name);
    if (th_tensor_in_use(t))
        return th_fail(ctx, TH_ERROR_STATE, merge_operation, "the tape still uses %s: th_tape_clear first", p->name);
    return TH_OK;
}

static th_status save_weight(const th_projection *p)
{
    th_lora *l = *p->lora;
    const weight_rows rows = weight_rows_of(p);
    void *kept;
    if (th_allocate_numbers(l->base.ctx, rows.bytes, &kept, merge_operation) != TH_OK)
        return l->base.ctx->error;
    l->saved_weight = kept;
    l->saved_bytes = rows.bytes;
    if (kept && rows.bytes > 0)
        memcpy(kept, rows.data, rows.bytes);
    return TH_OK;
}

/* W += scale B A */
static th_status add_product(const th_projection *p)
{
    const th_lora *l = *p->lora;
    th_context *ctx = l->base.ctx;
    th_scope_begin(ctx, NULL);
    th_no_grad_begin(ctx);
    th_tensor *rows = th_slice(p->weight, 0, p->begin, p->begin + p->rows, 1);
    th_tensor *sum = th_add(rows, th_scale(th_matmul(l->b, l->a), l->scale));
    const th_status status = th_copy_into(rows, sum);
    th_no_grad_end(ctx);
    th_scope_end(ctx, NULL);
    return status;
}

/* Writes back the bytes that save_weight copied. */
static void restore_weight(const th_projection *p)
{
    th_lora *l = *p->lora;
    const weight_rows rows = weight_rows_of(p);
    if (l->saved_weight && rows.bytes > 0)
        memcpy(rows.data, l->saved_weight, rows.bytes);
    th_storage_mark_changed(th_tensor_impl_of(p->weight)->storage);
    th_lora_release_saved_weight(l);
}

static th_status merge_all(th_module *m)
{
    for (th_projection p = th_projections_begin(m); th_projection_next_adapted(&p);)
        if (check_weight(&p) != TH_OK)
            return m->ctx->error;
    for (th_projection p = th_projections_begin(m); th_projection_next_adapted(&p);)
        if (save_weight(&p) != TH_OK || add_product(&p) != TH_OK)
            return m->ctx->error;
    return TH_OK;
}

th_status th_lora_merge(th_module *m)
{
    if (!begin_operation(m, false, merge_operation))
        return m ? m->ctx->error : TH_ERROR_ARGUMENT;
    const th_precision precision = th_precision_of(m->ctx);
    th_status status = th_set_precision(m->ctx, TH_PRECISION_FLOAT32);
    if (status == TH_OK)
        status = merge_all(m);
    if (th_set_precision(m->ctx, precision) != TH_OK)
        return m->ctx->error;
    for (th_projection p = th_projections_begin(m); th_projection_next_adapted(&p);) {
        th_lora *l = *p.lora;
        l->merged_version = th_tensor_impl_of(p.weight)->own_storage.version;
        l->base.state->hidden = status == TH_OK;
        if (status != TH_OK && l->saved_bytes > 0)
            restore_weight(&p);
    }
    return status;
}

/* -- unmerging -- */

th_status th_lora_unmerge(th_module *m)
{
    static const char operation[] = "lora_unmerge";
    if (!begin_operation(m, true, operation))
        return m ? m->ctx->error : TH_ERROR_ARGUMENT;
    for (th_projection p = th_projections_begin(m); th_projection_next_adapted(&p);) {
        const th_tensor_impl *t = th_tensor_impl_of(p.weight);
        if (t->own_storage.version != (*p.lora)->merged_version)
            return th_fail(m->ctx, TH_ERROR_STATE, operation,
                           "the weight of %s was changed after the merge: th_lora_detach keeps it as it is", p.name);
        if (th_tensor_in_use(t))
            return th_fail(m->ctx, TH_ERROR_STATE, operation, "the tape still uses %s: th_tape_clear first", p.name);
    }
    for (th_projection p = th_projections_begin(m); th_projection_next_adapted(&p);) {
        restore_weight(&p);
        (*p.lora)->base.state->hidden = false;
    }
    return TH_OK;
}
