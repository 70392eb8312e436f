/* Cross entropy of rows of logits, and the count of targets: see class_loss.h. */
#include "ops/shared/class_loss.h"

#include <math.h>

#include "kernels/kernels.h"
#include "ops/shared/indices.h"
#include "ops/shared/rows.h"
#include "tensor/tensor.h"

bool th_class_loss_fits(const th_array *rows, const th_array *targets)
{
    if (rows->ndim != targets->ndim + 1)
        return false;
    for (int i = 0; i < targets->ndim; i++)
        if (rows->size[i] != targets->size[i])
            return false;
    return true;
}

th_status th_class_loss_outputs(th_call *call, const th_array *rows, const th_cross_entropy_options *options)
{
    if (!(options->label_smoothing >= 0 && options->label_smoothing <= 1))
        return th_call_fail(call, TH_ERROR_ARGUMENT, "label_smoothing is %g, outside [0, 1]", options->label_smoothing);
    if (!(options->normalizer >= 0) || !isfinite(options->normalizer))
        return th_call_fail(call, TH_ERROR_ARGUMENT, "normalizer is %g, but it must be a positive number",
                            options->normalizer);
    th_call_output(call, 0, rows->dtype, 0, NULL, NULL);
    int64_t size[TH_MAX_DIMS];
    for (int i = 0; i < rows->ndim; i++)
        size[i] = i < rows->ndim - 1 ? rows->size[i] : 2;
    th_call_output(call, 1, rows->dtype, rows->ndim, size, NULL);
    return TH_OK;
}

/* -- targets -- */

static bool is_ignored(const th_cross_entropy_options *options, int64_t target)
{
    return options->ignore && target == options->ignore_index;
}

int64_t th_class_loss_targets(const th_call *call, int input, int64_t classes, const th_cross_entropy_options *options,
                              int64_t *target)
{
    const int64_t count = th_array_numel(&call->input[input]);
    th_indices_read(call, input, target);
    int64_t counted = 0;
    bool valid = true;
    for (int64_t i = 0; i < count; i++) {
        const bool ignored = is_ignored(options, target[i]);
        valid &= ignored || (target[i] >= 0 && target[i] < classes);
        counted += !ignored;
    }
    for (int64_t i = 0; i < count; i++)
        if (is_ignored(options, target[i]))
            target[i] = valid ? -1 : 0; /* of an invalid call: so that the check names one that counts */
    if (!valid) {
        (void)th_indices_check(call, input, "target", classes, target);
        return -1;
    }
    return counted;
}

double th_class_loss_normalizer(const th_cross_entropy_options *options, int64_t counted)
{
    return options->normalizer > 0 ? options->normalizer : (double)counted;
}

int64_t th_target_count(th_tensor *handle, const th_cross_entropy_options *options)
{
    const char *const operation = "target_count";
    const th_body *targets = th_usable(handle, NULL, operation, "targets");
    if (targets == NULL)
        return 0;
    const th_array array = th_tensor_array(targets);
    if (!th_is_index(array.dtype)) {
        th_fail(targets->ctx, TH_ERROR_TYPE, operation, "targets are %s, but must be int32 or int64",
                th_dtype_name(array.dtype));
        return 0;
    }
    const int64_t count = th_array_numel(&array);
    if (!options || !options->ignore || !array.data) /* shapes only: as if all counted */
        return count;
    int64_t counted = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i, offset = 0;
        for (int axis = array.ndim - 1; axis >= 0; axis--) {
            offset += rest % array.size[axis] * array.stride[axis];
            rest /= array.size[axis];
        }
        const int64_t target =
            array.dtype == TH_INT32 ? ((const int32_t *)array.data)[offset] : ((const int64_t *)array.data)[offset];
        counted += !is_ignored(options, target);
    }
    return counted;
}

/* -- rows -- */

typedef struct loss_rows {
    const th_class_loss *given;
    const th_kernels *kernels;
    th_rows rows;
    double *loss;  /* forward */
    double factor; /* backward */
    bool add;
} loss_rows;

static void rows_of(const th_context *ctx, const th_array *logits, const th_array *dlogits, bool add, loss_rows *l)
{
    l->kernels = th_context_kernels(ctx, logits->dtype);
    l->add = add;
    th_rows_init(&l->rows, logits, 1u << (logits->ndim - 1));
    th_rows_add(&l->rows, logits, TH_ROWS_READ);
    if (dlogits)
        th_rows_add(&l->rows, dlogits, add ? TH_ROWS_ADD : TH_ROWS_WRITE);
    th_rows_finish(&l->rows);
}

static char *kept_of(const th_class_loss *given, int64_t row)
{
    return given->kept ? (char *)given->kept + (size_t)row * 2 * th_dtype_size(given->logits->dtype) : NULL;
}

static void forward_body(const th_rows_block *b)
{
    const loss_rows *l = b->parameters;
    const th_class_loss *given = l->given;
    l->kernels->cross_entropy(b->count, b->length, given->options->label_smoothing, given->target + b->first,
                              b->operand[0], b->stride[0], l->loss + b->first, kept_of(given, b->first));
}

static void backward_body(const th_rows_block *b)
{
    const loss_rows *l = b->parameters;
    const th_class_loss *given = l->given;
    const double smoothing = given->options->label_smoothing;
    l->kernels->cross_entropy_backward(b->count, b->length, l->factor, smoothing / (double)b->length,
                                       l->factor * (1 - smoothing), given->target + b->first, b->operand[0],
                                       b->stride[0], kept_of(given, b->first), b->operand[1], b->stride[1], l->add);
}

enum { COST = 8 }; /* of an element, most of it an exponential */

size_t th_class_loss_scratch(const th_context *ctx, const th_array *logits, const th_array *dlogits)
{
    loss_rows l;
    rows_of(ctx, logits, dlogits, true, &l);
    return th_rows_scratch(ctx, &l.rows);
}

void th_class_loss_forward(const th_context *ctx, const th_class_loss *given, double *loss, void *scratch)
{
    loss_rows l = {.given = given, .loss = loss};
    rows_of(ctx, given->logits, NULL, false, &l);
    th_rows_run(ctx, &l.rows, COST, scratch, forward_body, &l);
}

void th_class_loss_backward(const th_context *ctx, const th_class_loss *given, double factor, const th_array *dlogits,
                            bool add, void *scratch)
{
    loss_rows l = {.given = given, .factor = factor};
    rows_of(ctx, given->logits, dlogits, add, &l);
    th_rows_run(ctx, &l.rows, COST, scratch, backward_body, &l);
}
