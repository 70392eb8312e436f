/* The global norm of gradients. A fast pass sums the squares; a slow one handles sums that are not finite. */
#include "training/gradient_norm.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/machine/parallel.h"
#include "nn/module.h"
#include "tensor/convert.h"
#include "tensor/elementwise.h"
#include "tensor/format.h"

enum {
    CHUNK = TH_NORM_CHUNK,
    PARTIALS = 256 /* chunks whose sums are stored at a time */
};

/* -- one gradient -- */

typedef struct sum_task {
    const th_kernels *kernels;
    const char *data;
    size_t element;
    int64_t numel;
    double *sum;
} sum_task;

static void sum_chunk(void *shared, int64_t index, int worker)
{
    (void)worker;
    const sum_task *task = shared;
    const int64_t first = index * CHUNK;
    const int64_t n = task->numel - first < CHUNK ? task->numel - first : CHUNK;
    task->kernels->sum_squares(n, task->data + (size_t)first * task->element, &task->sum[index]);
}

static const char *element_at(const th_tensor_impl *t, int64_t i)
{
    return (const char *)th_gradient_buffer_data(t->gradient) + (size_t)i * th_dtype_size(t->dtype);
}

int64_t th_norm_chunks(const th_tensor_impl *t)
{
    return (th_tensor_numel(t) + CHUNK - 1) / CHUNK;
}

void th_sum_squares(const th_tensor_impl *t, int64_t first, int64_t end, double *sums)
{
    const int64_t numel = th_tensor_numel(t);
    sum_task task = {.kernels = th_context_kernels(t->ctx, t->dtype),
                     .data = element_at(t, first * CHUNK),
                     .element = th_dtype_size(t->dtype),
                     .numel = (end * CHUNK < numel ? end * CHUNK : numel) - first * CHUNK,
                     .sum = sums};
    th_parallel(t->ctx->threads, end - first, sum_chunk, &task);
}

void th_sum_scaled_squares(const th_tensor_impl *t, int64_t first, int64_t end, double unit, double *sums)
{
    const int64_t numel = th_tensor_numel(t);
    for (int64_t chunk = first; chunk < end; chunk++) {
        const int64_t last = (chunk + 1) * CHUNK < numel ? (chunk + 1) * CHUNK : numel;
        sums[chunk - first] = 0;
        for (int64_t i = chunk * CHUNK; i < last; i++) {
            const double share = fabs(th_number_read(t->dtype, element_at(t, i))) / unit;
            sums[chunk - first] += share * share;
        }
    }
}

th_gradient_extreme th_find_extreme(const th_tensor_impl *t, int64_t first, int64_t end)
{
    const int64_t numel = th_tensor_numel(t), last = end * CHUNK < numel ? end * CHUNK : numel;
    th_gradient_extreme found = {.element = -1};
    for (int64_t i = first * CHUNK; i < last && found.element < 0; i++) {
        const double value = th_number_read(t->dtype, element_at(t, i));
        if (!isfinite(value))
            found = (th_gradient_extreme){i, value};
        else
            found.value = fmax(found.value, fabs(value));
    }
    return found;
}

/* Calls one of the functions above for all chunks of a gradient, some at a time, and adds the sums in order. So the
 * bits do not depend on the number of threads. unit 0: th_sum_squares. */
static double sum_of(const th_tensor_impl *t, double unit)
{
    double partial[PARTIALS], sum = 0;
    const int64_t chunks = th_norm_chunks(t);
    for (int64_t first = 0; first < chunks; first += PARTIALS) {
        const int64_t end = first + PARTIALS < chunks ? first + PARTIALS : chunks;
        if (unit == 0)
            th_sum_squares(t, first, end, partial);
        else
            th_sum_scaled_squares(t, first, end, unit, partial);
        for (int64_t i = 0; i < end - first; i++)
            sum += partial[i];
    }
    return sum;
}

static const char *name_of(const th_module *m, const th_tensor_impl *parameter, char *name)
{
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);)
        if (p.tensor == parameter->handle)
            return strcpy(name, p.name);
    return strcpy(name, "a parameter");
}

th_status th_fail_non_finite(const th_tensor_impl *t, const char *operation, const th_module *m, bool differences,
                             th_gradient_extreme found)
{
    char name[TH_FULL_NAME_SIZE], index[160] = "";
    int64_t remainder = found.element, size = th_tensor_numel(t);
    for (int d = 0; d < t->ndim; d++) {
        size /= t->size[d];
        th_append(index, sizeof index, d ? ", %lld" : "%lld", (long long)(remainder / size));
        remainder %= size;
    }
    if (differences)
        return th_fail(t->ctx, TH_ERROR_VALUE, operation,
                       "the sum of the differences of %s is %g at [%s]; the parameters are again those after the last "
                       "outer step",
                       name_of(m, t, name), found.value, index);
    return th_fail(t->ctx, TH_ERROR_VALUE, operation, "the gradient of %s is %g at [%s]; no parameter was changed",
                   name_of(m, t, name), found.value, index);
}

static void scale_one(const th_tensor_impl *t, double factor)
{
    th_array gradient = th_tensor_array(t);
    gradient.data = th_gradient_buffer_data(t->gradient);
    th_elementwise(t->ctx, th_context_kernels(t->ctx, t->dtype)->scale, &factor, &gradient, false, 1,
                   (const th_array *const[]){&gradient});
}

/* -- all gradients of a list -- */

typedef struct gradient_iterator {
    int64_t next; /* index of a parameter of the optimizer */
    th_parameter_iterator parameter;
} gradient_iterator;

static gradient_iterator start(const th_gradient_list *list)
{
    gradient_iterator it;
    it.next = 0;
    it.parameter = th_module_parameters(list->optimizer ? NULL : list->module);
    return it;
}

/* Returns the next parameter that has a gradient; NULL at the end. */
static const th_tensor_impl *next(const th_gradient_list *list, gradient_iterator *it)
{
    const th_optimizer *o = list->optimizer;
    while (o ? it->next < o->count : th_parameter_next(&it->parameter)) {
        const th_tensor_impl *t = o ? o->parameters[it->next++].tensor : th_tensor_impl_of(it->parameter.tensor);
        if (th_has_gradient(t))
            return t;
    }
    return NULL;
}

/* Called if the sum of squares is not finite. Fails at the first element that is not finite. If all elements are
 * finite, the squares have overflowed: computes the norm in units of the largest element. */
static th_status slow_norm(const th_gradient_list *list, const char *operation, double *norm)
{
    double largest = 0;
    double sum = 0;
    gradient_iterator it = start(list);
    for (const th_tensor_impl *t; (t = next(list, &it));) {
        const th_gradient_extreme found = th_find_extreme(t, 0, th_norm_chunks(t));
        if (found.element >= 0)
            return th_fail_non_finite(t, operation, list->module, false, found);
        largest = fmax(largest, found.value);
    }
    it = start(list);
    for (const th_tensor_impl *t; (t = next(list, &it));)
        sum += sum_of(t, largest);
    *norm = fmin(largest * sqrt(sum), DBL_MAX);
    return TH_OK;
}

th_status th_global_norm(const th_gradient_list *list, const char *operation, double *norm)
{
    double sum = 0;
    gradient_iterator it = start(list);
    for (const th_tensor_impl *t; (t = next(list, &it));)
        sum += sum_of(t, 0);
    if (!isfinite(sum))
        return slow_norm(list, operation, norm);
    *norm = sqrt(sum);
    return TH_OK;
}

static void scale_all(const th_gradient_list *list, double factor)
{
    gradient_iterator it = start(list);
    for (const th_tensor_impl *t; (t = next(list, &it));)
        scale_one(t, factor);
}

/* Applies a factor below 2^-100 in several parts, because it would lose precision in float32. */
void th_scale_gradients(const th_gradient_list *list, double factor)
{
    const double part = 0x1p-100;
    for (; factor > 0 && factor < part; factor /= part)
        scale_all(list, part);
    scale_all(list, factor);
}

th_status th_clip_gradients(th_module *m, double max_norm, double *norm_before)
{
    if (norm_before)
        *norm_before = NAN;
    if (!th_module_usable(m, "clip_gradients"))
        return m ? m->ctx->error : TH_ERROR_ARGUMENT;
    th_context *ctx = m->ctx;
    if (!(max_norm > 0))
        return th_fail(ctx, TH_ERROR_ARGUMENT, "clip_gradients", "max_norm must be positive; it is %g", max_norm);
    if (ctx->options.shapes_only)
        return TH_OK;
    const th_gradient_list list = {.module = m};
    double before;
    if (th_global_norm(&list, "clip_gradients", &before) != TH_OK)
        return ctx->error;
    if (norm_before)
        *norm_before = before;
    if (before > max_norm)
        th_scale_gradients(&list, max_norm / before);
    return TH_OK;
}
