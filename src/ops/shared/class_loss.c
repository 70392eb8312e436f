/* Cross entropy of rows of logits, and the count of targets: see class_loss.h. */
#include "ops/shared/class_loss.h"

#include <math.h>

#include "ops/shared/indices.h"
#include "tensor/convert.h"
#include "tensor/elementwise.h"
#include "tensor/strided_iterator.h"
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
    if (options->ignore_index != 0 && !options->ignore)
        return th_call_fail(call, TH_ERROR_ARGUMENT,
                            "ignore_index is %lld, but .ignore is false: TH_IGNORE(%lld) sets both",
                            (long long)options->ignore_index, (long long)options->ignore_index);
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
            target[i] = valid ? -1 : 0; /* 0 is valid, so the check below names a target that counts */
    if (!valid) {
        (void)th_indices_check(call, input, "target", classes, target);
        return -1;
    }
    return counted;
}

double th_class_loss_mean(const th_cross_entropy_options *options, int64_t counted, double value)
{
    const double n = options->normalizer > 0 ? options->normalizer : (double)counted;
    return counted > 0 ? value / n : 0;
}

void th_class_loss_store(const th_call *call, int64_t count, const double *loss, int64_t counted)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += loss[i];
    th_fill_array(call->ctx, &call->output[0], th_class_loss_mean(call->attributes, counted, sum));
}

int64_t th_target_count(th_tensor *handle, const th_cross_entropy_options *options)
{
    const char *const operation = "target_count";
    const th_tensor_impl *targets = th_usable_tensor(handle, NULL, operation, "targets");
    if (targets == NULL)
        return 0;
    const th_array array = th_tensor_array(targets);
    if (!th_is_index(array.dtype)) {
        th_fail(targets->ctx, TH_ERROR_TYPE, operation, "targets are %s, but must be int32 or int64",
                th_dtype_name(array.dtype));
        return 0;
    }
    const int64_t count = th_array_numel(&array);
    if (!options || !options->ignore || !array.data) /* shapes_only: as if all counted */
        return count;
    th_iterator iterator;
    if (!th_iterator_build(&iterator, &array, 0, NULL))
        return 0;
    th_iterator_position at;
    th_iterator_seek(&iterator, 0, &at);
    int64_t counted = 0;
    for (int64_t i = 0; i < count; i++, th_iterator_advance(&iterator, 1, &at))
        counted += !is_ignored(options, th_integer_read(array.dtype, at.address[0]));
    return counted;
}

/* -- rows -- */

th_class_loss th_class_loss_of(const th_call *call, const th_array *logits, const th_array *dlogits, bool add)
{
    th_class_loss l = {.options = call->attributes};
    th_rows_init(&l.rows, logits, 1u << (logits->ndim - 1));
    th_rows_set(&l.rows, TH_ROW_X, logits, TH_ROWS_READ);
    th_rows_set(&l.rows, TH_ROW_DX, dlogits, add ? TH_ROWS_ADD : TH_ROWS_WRITE);
    th_rows_finish(&l.rows);
    return l;
}

void th_class_loss_reserve(const th_call *call, th_class_loss *l)
{
    l->scratch = th_plan_scratch(call, 1, th_rows_scratch(call->ctx, &l->rows));
}

typedef struct loss_run {
    const th_kernels *kernels;
    const th_class_loss *class_loss;
    const int64_t *target;
    char *saved;
    size_t saved_row; /* bytes */
    double *loss;     /* forward */
    double factor;    /* backward */
} loss_run;

static char *saved_row_at(const loss_run *run, int64_t row)
{
    return run->saved ? run->saved + (size_t)row * run->saved_row : NULL;
}

static void forward_rows(const th_rows_block *b)
{
    const loss_run *run = b->parameters;
    run->kernels->cross_entropy(b->count, b->length, run->class_loss->options->label_smoothing, run->target + b->first,
                                b->operand[TH_ROW_X], b->stride[TH_ROW_X], run->loss + b->first,
                                saved_row_at(run, b->first));
}

static void backward_rows(const th_rows_block *b)
{
    const loss_run *run = b->parameters;
    const double smoothing = run->class_loss->options->label_smoothing;
    run->kernels->cross_entropy_backward(b->count, b->length, run->factor, smoothing / (double)b->length,
                                         run->factor * (1 - smoothing), run->target + b->first, b->operand[TH_ROW_X],
                                         b->stride[TH_ROW_X], saved_row_at(run, b->first), b->operand[TH_ROW_DX],
                                         b->stride[TH_ROW_DX], b->add);
}

enum { ELEMENT_COST = 8 }; /* mostly of its exponential */

static void run_rows(const th_call *call, loss_run *run, th_rows_kernel *kernel)
{
    const th_class_loss *l = run->class_loss;
    run->kernels = th_call_kernels(call);
    run->saved_row = 2 * l->rows.operand[TH_ROW_X].element_size;
    th_rows_run(call->ctx, &l->rows, ELEMENT_COST, th_call_scratch(call, l->scratch), kernel, run);
}

void th_class_loss_forward(const th_call *call, const th_class_loss *l, const int64_t *target, void *saved,
                           double *loss)
{
    run_rows(call, &(loss_run){.class_loss = l, .target = target, .saved = saved, .loss = loss}, forward_rows);
}

void th_class_loss_backward(const th_call *call, const th_class_loss *l, const int64_t *target, void *saved,
                            double factor)
{
    run_rows(call, &(loss_run){.class_loss = l, .target = target, .saved = saved, .factor = factor}, backward_rows);
}
