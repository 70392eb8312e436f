/* Averages of weights: creates and updates them, and exchanges them with the parameters' values. */
#include "training/weight_average.h"

#include <math.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/machine/parallel.h"
#include "nn/module.h"
#include "training/chunks.h"

/* -- creating and freeing -- */

static void release(th_context *ctx, void *object)
{
    th_weight_average *a = object;
    for (int64_t i = 0; i < a->count; i++)
        th_weight_average_forget(ctx, &a->parameters[i]);
    th_release(ctx, a->parameters, (size_t)a->capacity * sizeof *a->parameters);
    a->freed = true;
    th_quarantine(ctx, a, sizeof *a);
}

bool th_weight_average_usable(const th_weight_average *a, const char *operation)
{
    if (a == NULL)
        th_fail_last(TH_ERROR_ARGUMENT, operation, "the averages are NULL");
    else if (a->freed)
        th_fail(a->ctx, TH_ERROR_STATE, operation, "the averages have been freed");
    return a && !a->freed;
}

/* Returns the status after th_weight_average_usable returned false. */
static th_status status_of(const th_weight_average *a)
{
    return a ? a->ctx->error : TH_ERROR_ARGUMENT;
}

static bool options_legal(th_context *ctx, const th_weight_average_options *options)
{
    if (!(options->decay >= 0 && options->decay < 1))
        th_fail(ctx, TH_ERROR_ARGUMENT, "weight_average_new", "the decay must be at least 0 and less than 1; it is %g",
                options->decay);
    else if (options->warm_up && options->decay == 0)
        th_fail(ctx, TH_ERROR_ARGUMENT, "weight_average_new", "warm_up needs a decay above 0");
    return !th_failed(ctx);
}

th_weight_average *th_weight_average_new(th_module *m, const th_weight_average_options *options)
{
    static const char operation[] = "weight_average_new";
    if (!th_module_usable(m, operation))
        return NULL;
    th_context *ctx = m->ctx;
    const th_weight_average_options given = options ? *options : (th_weight_average_options){0};
    if (!options_legal(ctx, &given))
        return NULL;
    th_weight_average *a = th_allocate(ctx, sizeof *a);
    if (a)
        *a = (th_weight_average){.ctx = ctx, .module = m, .options = given};
    if (a == NULL || !th_attach_object(ctx, a, release)) {
        th_release(ctx, a, sizeof *a);
        th_fail_memory(ctx, operation, sizeof *a);
        return NULL;
    }
    th_observe_parameters(ctx, a, &th_weight_average_observer);
    if (th_weight_average_complete_list(a, operation) == TH_OK && a->count == 0)
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "%s has no parameters", m->type);
    if (!th_failed(ctx))
        return a;
    th_weight_average_free(a);
    return NULL;
}

void th_weight_average_free(th_weight_average *a)
{
    if (a == NULL || !th_weight_average_usable(a, "weight_average_free"))
        return;
    th_detach_object(a->ctx, a);
    release(a->ctx, a);
}

bool th_weight_average_is_swapped(const th_weight_average *a)
{
    return a && th_weight_average_usable(a, "weight_average_is_swapped") && a->swapped;
}

/* -- updating and exchanging -- */

/* One parameter, for tasks. */
typedef struct work {
    const th_kernels *kernels;
    size_t element;
    int64_t numel;
    char *average, *parameter;
    double weight; /* of the parameter in the average */
} work;

static work work_on(const th_weight_average *a, const th_averaged_parameter *p)
{
    return (work){.kernels = th_context_kernels(a->ctx, p->tensor->dtype),
                  .element = th_dtype_size(p->tensor->dtype),
                  .numel = th_tensor_numel(p->tensor),
                  .average = p->data,
                  .parameter = th_tensor_data(p->tensor)};
}

static void run(const th_weight_average *a, th_task *task, work *w)
{
    if (w->average) /* otherwise the context is shapes-only */
        th_parallel(a->ctx->threads, th_chunk_count(w->numel), task, w);
}

static void update_chunk(void *shared, int64_t index, int worker)
{
    (void)worker;
    const work *w = shared;
    const th_chunk c = th_chunk_at(w->numel, w->element, index);
    char *average = w->average + c.at, *parameter = w->parameter + c.at;
    if (w->weight == 1) /* the first update: the memory has no numbers yet */
        memcpy(average, parameter, (size_t)c.count * w->element);
    else
        w->kernels->lerp(c.count, (void *[]){average, average, parameter}, &w->weight);
}

static void swap_chunk(void *shared, int64_t index, int worker)
{
    (void)worker;
    const work *w = shared;
    char copy[4096];
    const th_chunk c = th_chunk_at(w->numel, w->element, index);
    size_t at = c.at, left = (size_t)c.count * w->element;
    while (left > 0) {
        const size_t bytes = left < sizeof copy ? left : sizeof copy;
        memcpy(copy, w->parameter + at, bytes);
        memcpy(w->parameter + at, w->average + at, bytes);
        memcpy(w->average + at, copy, bytes);
        at += bytes;
        left -= bytes;
    }
}

/* Returns the weight of a parameter in its average, after this number of updates. */
static double weight_after(const th_weight_average_options *options, int64_t updates)
{
    const double n = (double)updates;
    if (options->decay == 0 || updates == 0)
        return 1 / (n + 1);
    return 1 - (options->warm_up ? fmin(options->decay, (1 + n) / (10 + n)) : options->decay);
}

/* Returns false, with an error pending, if the averages cannot be used now. */
static bool can_begin(th_weight_average *a, const char *operation)
{
    if (th_failed(a->ctx) || th_refuse_in_check(a->ctx, operation) != TH_OK ||
        th_weight_average_complete_list(a, operation) != TH_OK)
        return false;
    if (a->count == 0)
        th_fail(a->ctx, TH_ERROR_STATE, operation, "the module has been freed, and no parameter is left");
    return !th_failed(a->ctx);
}

/* Allocates the averages that begin. */
static th_status begin_averages(th_weight_average *a, const char *operation)
{
    for (int64_t i = 0; i < a->count; i++)
        if (a->parameters[i].tensor->requires_gradient && th_weight_average_allocate(a, i, operation) != TH_OK)
            return a->ctx->error;
    return TH_OK;
}

th_status th_weight_average_update(th_weight_average *a)
{
    static const char operation[] = "weight_average_update";
    if (!th_weight_average_usable(a, operation))
        return status_of(a);
    if (!can_begin(a, operation))
        return a->ctx->error;
    if (a->swapped)
        return th_fail(a->ctx, TH_ERROR_STATE, operation,
                       "the model has the averages: call th_weight_average_swap before you train");
    if (begin_averages(a, operation) != TH_OK)
        return a->ctx->error;
    for (int64_t i = 0; i < a->count; i++) {
        th_averaged_parameter *p = &a->parameters[i];
        if (p->updates == 0 && !p->tensor->requires_gradient)
            continue;
        work w = work_on(a, p);
        w.weight = weight_after(&a->options, p->updates);
        run(a, update_chunk, &w);
        p->updates++;
    }
    return TH_OK;
}

th_status th_weight_average_swap(th_weight_average *a)
{
    static const char operation[] = "weight_average_swap";
    if (!th_weight_average_usable(a, operation))
        return status_of(a);
    if (!can_begin(a, operation))
        return a->ctx->error;
    for (int64_t i = 0; i < a->count; i++) {
        const th_averaged_parameter *p = &a->parameters[i];
        if (p->updates == 0)
            continue;
        work w = work_on(a, p);
        run(a, swap_chunk, &w);
        th_storage_mark_changed(p->tensor->storage);
    }
    a->swapped = !a->swapped;
    return TH_OK;
}
